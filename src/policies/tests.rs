//! Presets against recordings of the real libraries: `tests/differential`.

mod listed;
mod parted;
mod smallest;
mod stages;
mod texts;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Deserialize;
use serde_json::Value as Json;

use super::held::Held;
use super::*;
use crate::context::log::Log;
use crate::context::needs::Needs;
use crate::context::{Block, Content};
use crate::models::scripted::Scripted;
use crate::models::{Answer, Card, Finish, Text};
use crate::replay::trace::traced;
use crate::replay::{Event, Observer, replay};
use crate::text::tokens::Tokenizer;
use crate::trajectory::{Builder, Kind, Role, Step, Trajectory, action_text, step};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential")
}

/// One recording, and the policy that is held to it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    preset: String,
    window: Option<u64>,
    reserve: Option<u64>,
    head: Option<Head>,
    counter: Option<Counter>,
    parts_pairs: Option<bool>,
    /// Characters that the model says, where that is not what was recorded: so that no original is shorter.
    said: Option<usize>,
    /// How often each stage is tried at most.
    repeat: Option<u32>,
    /// Whether calls and results are words to the library, and a result is said by the user.
    #[serde(default)]
    plain: bool,
    /// Whether what is recorded are events of which the library makes messages: without replies of which a result is missing.
    #[serde(default)]
    groups: bool,
    /// Whether what the library puts beside a summary (a word of thanks, say) is looked at with it, as one.
    #[serde(default)]
    one_made: bool,
    /// Whether a message that the library sends twice is looked at once.
    #[serde(default)]
    once: bool,
    /// Whether the library has a system prompt where a list has none: an empty one.
    #[serde(default)]
    system: bool,
    #[serde(default)]
    set: toml::Table,
    /// Lists that are equal at least, where not all are.
    least: Option<usize>,
    /// The same up to where the library parts a call from its result.
    until_parted: Option<usize>,
    /// Why the others are not.
    #[serde(default)]
    why: String,
    /// Why texts that no summariser wrote are not the same, where that is so.
    #[serde(default)]
    why_texts: String,
    /// Lists whose numbers of messages say nothing, since the library was stopped there.
    #[serde(default)]
    ignore: Vec<String>,
}

impl Case {
    /// What the library sends, as a prompt here can have it.
    fn adapt(&self, list: &List, prompts: &mut BTreeMap<u32, Vec<Part>>) {
        for (at, prompt) in prompts {
            if self.groups {
                parted::keep_groups(list, *at, prompt);
            }
            let mut seen = BTreeSet::new();
            prompt.retain(|part| match part {
                Part::Given(place) | Part::Rewritten(place) => seen.insert(*place) || !self.once,
                Part::Made => true,
            });
            if self.one_made {
                prompt.dedup_by(|a, b| (&*a, &*b) == (&Part::Made, &Part::Made));
            }
        }
    }
}

/// A message of a list.
#[derive(Clone, Deserialize)]
struct Given {
    role: String,
    text: String,
    #[serde(default)]
    calls: Vec<Call>,
    call: Option<String>,
    name: Option<String>,
}

#[derive(Clone, Deserialize)]
struct Call {
    id: String,
    name: String,
    args: Json,
}

#[derive(Deserialize)]
struct List {
    id: String,
    messages: Vec<Given>,
}

/// Where a list first differs: the message that was asked for, the prompt here, and the one recorded.
type Difference = (u32, Vec<Part>, Vec<Part>);

/// What stands at a place of a prompt: a message as it was given, one that was rewritten, or one that was made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Given(u32),
    Rewritten(u32),
    Made,
}

/// The place of a system prompt that the list has not.
const EMPTY: u32 = u32::MAX;

impl List {
    /// The same with words alone: to some libraries a call is text of the agent, and a result is said by the user.
    fn plain(mut self) -> List {
        for message in &mut self.messages {
            for call in std::mem::take(&mut message.calls) {
                message.text += &format!("{}{}", call.name, call.args);
            }
            if message.role == "tool" {
                (message.role, message.call, message.name) = ("user".to_owned(), None, None);
            }
        }
        self
    }

    fn has_system(&self) -> bool {
        self.messages.iter().any(|message| message.role == "system")
    }

    /// As a log, with an empty system prompt before all or without.
    fn log(&self, with_system: bool) -> Log {
        let mut builder = Builder::new();
        if with_system {
            builder.push(Step { message: EMPTY, ..step(Role::System, Kind::System, "") });
        }
        for (at, message) in self.messages.iter().enumerate() {
            let mut push = |role,
                            kind,
                            text: &str,
                            id: Option<&String>,
                            tool: Option<&String>,
                            arguments: Option<String>| {
                let mut step = step(role, kind, text);
                step.message = at as u32;
                step.call_id = id.map(|text| text.as_str().into());
                step.tool = tool.map(|text| text.as_str().into());
                step.arguments = arguments.map(Into::into);
                builder.push(step);
            };
            match message.role.as_str() {
                "system" => push(Role::System, Kind::System, &message.text, None, None, None),
                "user" => push(Role::User, Kind::Message, &message.text, None, None, None),
                "tool" => push(
                    Role::Tool,
                    Kind::Observation,
                    &message.text,
                    message.call.as_ref(),
                    message.name.as_ref(),
                    None,
                ),
                _ => {
                    builder.begin_call();
                    let mut push = |kind, text: &str, call: Option<(&Call, String)>| {
                        let mut step = step(Role::Agent, kind, text);
                        step.message = at as u32;
                        if let Some((call, arguments)) = call {
                            step.call_id = Some(call.id.as_str().into());
                            step.tool = Some(call.name.as_str().into());
                            step.arguments = Some(arguments.into());
                        }
                        builder.push(step);
                    };
                    if !message.text.is_empty() || message.calls.is_empty() {
                        push(Kind::Message, &message.text, None);
                    }
                    for call in &message.calls {
                        let arguments = call.args.to_string();
                        push(Kind::Action, &action_text(&call.name, &arguments), Some((call, arguments)));
                    }
                }
            }
        }
        let mut trajectory = Trajectory { steps: builder.finish(), ..Trajectory::default() };
        trajectory.id = trajectory.content_id();
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let rows = crate::annotate::features::rows(&trajectory.id, &trajectory.steps, &tokenizer);
        Log::new(trajectory, rows).unwrap()
    }
}

/// Keeps each prompt as parts.
struct Prompts<'a> {
    log: &'a Log,
    blocks: Vec<Block>,
    /// By the place of the message that was asked for.
    prompts: BTreeMap<u32, Vec<Part>>,
    /// By the same: what a policy put there in words.
    texts: BTreeMap<u32, texts::Texts>,
    /// The first message behind the last that was asked for.
    decided: Arc<AtomicU32>,
}

impl<'a> Prompts<'a> {
    fn new(log: &'a Log) -> Self {
        Prompts {
            log,
            blocks: Vec::new(),
            prompts: BTreeMap::new(),
            texts: BTreeMap::new(),
            decided: Arc::default(),
        }
    }
}

impl Observer for Prompts<'_> {
    fn reset(&mut self) {
        self.blocks.clear();
    }

    fn appended(&mut self, step: u32) {
        let block = Block {
            turn: self.log.turn_of(step),
            tokens: 0,
            content: Content::Step(step),
            fresh: true,
            left: 0,
        };
        self.blocks.push(block);
    }

    fn compressed(&mut self, before: &[Block], event: &Event, _: u32) {
        let is_it = |block: &Block, gone: &Block| match (&block.content, &gone.content) {
            (Content::Step(a), Content::Step(b)) if gone.left == 0 => a == b,
            _ => gone.left > 0 && block.left == gone.left,
        };
        let mut after = Vec::new();
        let mut first = None;
        let mut gone = before.iter().peekable();
        for (at, block) in std::mem::take(&mut self.blocks).into_iter().enumerate() {
            match gone.next_if(|gone| is_it(&block, gone)) {
                Some(_) => first = first.or(Some(at)),
                None => after.push(block),
            }
        }
        assert!(gone.peek().is_none(), "a block of the scope does not stand in the prompt");
        // Blocks stand in order of their steps; a text that was made stands before or behind what it stands with.
        let step = |block: &Block| block.message();
        let mut left = event.after.clone();
        let mut merged: Vec<Block> = after.drain(..first.unwrap_or(0).min(after.len())).collect();
        let mut rest = after.into_iter().peekable();
        for block in left.drain(..) {
            let is_before = |other: &Block| match step(&block) {
                Some(own) => step(other).is_some_and(|other| other < own),
                // Among gaps a text stands behind what is of its turn.
                None => event.names_steps && other.turn <= block.turn,
            };
            while let Some(other) = rest.next_if(|other| is_before(other)) {
                merged.push(other);
            }
            merged.push(block);
        }
        merged.extend(rest);
        self.blocks = merged;
    }

    fn standing(&mut self, context: &crate::context::Context) {
        let contents =
            |blocks: &[Block]| blocks.iter().map(|block| block.content.clone()).collect::<Vec<_>>();
        assert!(contents(&self.blocks) == contents(&context.blocks), "the events do not tell the prompt");
    }

    fn decided(&mut self, _: u32, turn: u32) {
        let log = self.log;
        let at = log.turns[turn as usize].decision.unwrap();
        let mut parts: Vec<Part> = Vec::new();
        let mut n_whole: BTreeMap<u32, usize> = BTreeMap::new();
        for block in &self.blocks {
            let message = |step: u32| log.trajectory.steps[step as usize].message;
            let part = match &block.content {
                Content::Step(step) => Part::Given(message(*step)),
                Content::Placeholder { step, .. } => Part::Rewritten(message(*step)),
                Content::Excerpt { step, .. } => Part::Rewritten(message(*step)),
                Content::Generated { .. } => Part::Made,
            };
            if let Part::Given(at) = part {
                *n_whole.entry(at).or_default() += 1;
            }
            match (parts.last_mut(), part) {
                (Some(Part::Given(a)), Part::Given(b)) if *a == b => {}
                (Some(Part::Rewritten(a)), Part::Given(b) | Part::Rewritten(b)) if *a == b => {}
                (Some(last @ Part::Given(_)), Part::Rewritten(b)) if *last == Part::Given(b) => *last = part,
                _ => parts.push(part),
            }
        }
        let n_steps = |at: u32| log.trajectory.steps.iter().filter(|step| step.message == at).count();
        for part in &mut parts {
            if let Part::Given(at) = *part
                && n_whole[&at] < n_steps(at)
            {
                *part = Part::Rewritten(at);
            }
        }
        parts.retain(|part| *part != Part::Given(EMPTY));
        let message = log.trajectory.steps[at as usize].message;
        self.decided.store(message + 1, Ordering::Relaxed);
        self.prompts.insert(message, parts);
        self.texts.insert(message, texts::of_blocks(log, &self.blocks));
    }
}

/// A prompt as it is recorded.
fn recorded(prompt: &Json, made: &[Json]) -> Vec<Part> {
    let mut parts = Vec::new();
    let part = |n: i64| match u32::try_from(n) {
        Ok(place) => Part::Given(place),
        Err(_) => match made[usize::try_from(-1 - n).unwrap()].get("m").and_then(Json::as_u64) {
            Some(place) => Part::Rewritten(place as u32),
            None => Part::Made,
        },
    };
    for item in prompt.as_array().unwrap() {
        match item.as_array() {
            Some(run) => {
                let (from, to) = (run[0].as_i64().unwrap(), run[1].as_i64().unwrap());
                match from <= to {
                    true => parts.extend((from..=to).map(part)),
                    false => parts.extend((to..=from).rev().map(part)),
                }
            }
            None => parts.push(part(item.as_i64().unwrap())),
        }
    }
    parts
}

/// The prompt of each decision of a list, by the place of the message that was asked for; and whether the library stopped.
fn prompts_of(line: &Json, list: &List) -> (BTreeMap<u32, Vec<Part>>, usize) {
    let made = line["made"].as_array().unwrap();
    let fired: BTreeMap<u64, &Json> =
        line["fired"].as_array().unwrap().iter().map(|f| (f["at"].as_u64().unwrap(), &f["prompt"])).collect();
    let stopped = line["stopped"].as_u64().unwrap_or(u64::MAX);
    let (mut now, mut prompts) = (Vec::new(), BTreeMap::new());
    for (at, message) in list.messages.iter().enumerate() {
        if at as u64 >= stopped {
            break;
        }
        if message.role == "assistant" {
            if let Some(prompt) = fired.get(&(at as u64)) {
                now = recorded(prompt, made);
            }
            prompts.insert(at as u32, now.clone());
        }
        now.push(Part::Given(at as u32));
    }
    (prompts, fired.len())
}

fn unpacked(path: &Path) -> String {
    String::from_utf8(zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap()).unwrap()
}

/// How a preset does on a recording.
#[derive(Default)]
struct Tally {
    /// Lists of the recording; without the real logs fewer are looked at.
    recorded: usize,
    lists: usize,
    fired: usize,
    twice: usize,
    equal: usize,
    /// Those that are equal up to where the library first parts a call from its result.
    until_parted: usize,
    texts: texts::Compared,
    /// Those that differ, and where.
    differ: Vec<(String, Difference)>,
}

impl Tally {
    /// The first lists that differ, in words.
    fn told(&self) -> Vec<String> {
        let told = |(list, (at, here, there)): &(String, Difference)| {
            format!("{list} at {at}: here {}, there {}", shown(here), shown(there))
        };
        self.differ.iter().take(3).map(told).collect()
    }
}

fn policy_of(case: &Case) -> anyhow::Result<Policy> {
    // From the folder, so that a changed preset needs no build.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/data/presets/{}.toml", case.preset));
    let preset: Preset = toml::from_str(&std::fs::read_to_string(path)?)?;
    let mut policy = preset.policy.with_form("extract");
    policy.window = case.window.unwrap_or(policy.window);
    policy.reserve = case.reserve.unwrap_or(policy.reserve);
    policy.head = case.head.unwrap_or(policy.head);
    policy.parts_pairs = case.parts_pairs.unwrap_or(policy.parts_pairs);
    policy.counter = case.counter.unwrap_or(policy.counter);
    policy.stages.iter_mut().for_each(|stage| stage.repeat = case.repeat.unwrap_or(stage.repeat));
    // What the scripted model says over and over is of use to the library.
    for stage in policy.stages.iter_mut().filter(|stage| stage.summarises()) {
        stage.strategy.insert("fallback".to_owned(), "extract".into());
    }
    for (key, value) in &case.set {
        policy.set(key, value)?;
    }
    policy.check()?;
    Ok(policy)
}

/// What the summariser says, over and over up to the length that was recorded.
const SUMMARY: &str = "Files were read first, and then one fault was found in how a parser treats empty input. Its cause is that \
    nobody checks whether another line comes behind a comment. Two tests show this; both pass since yesterday's change to \
    that module, which also renames some helpers. Still open: documentation, an entry for the list of changes, measurement \
    on larger inputs. Nothing else was touched; branch and version stay what they were. Later steps should begin with a look \
    at results from last night, since several of these took longer than expected on slow machines without enough memory. \
    People who asked for it want an answer soon, preferably with numbers, figures by project, plus a short note about risks. \
    Whoever goes on from here finds scripts under tools, settings beside them, and credentials nowhere in this repository.";

/// Says a text as long as that of the library's event at the same message, or at the next that it has.
fn summariser(line: &Json, said: Option<usize>, decided: Arc<AtomicU32>) -> Arc<dyn Model> {
    let made = line["made"].as_array().unwrap();
    let text_of =
        |n: i64| made[usize::try_from(-1 - n).unwrap()].as_object().filter(|made| !made.contains_key("m"));
    let mut lengths = BTreeMap::new();
    for fired in line["fired"].as_array().unwrap() {
        let items = fired["prompt"].as_array().unwrap().iter();
        let places = items.flat_map(|item| item.as_array().map_or(std::slice::from_ref(item), Vec::as_slice));
        let made = places.filter_map(Json::as_i64).filter(|&n| n < 0).filter_map(text_of);
        if let Some(length) = made.filter_map(|made| made["len"].as_u64()).max() {
            lengths.insert(fired["at"].as_u64().unwrap() as u32, length as usize);
        }
    }
    let card = Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 1_000_000 };
    Arc::new(Scripted::rule(card, move |_| {
        let next = lengths.range(decided.load(Ordering::Relaxed)..).next().or(lengths.last_key_value());
        let length = said.unwrap_or(next.map_or(400, |(_, length)| *length));
        let text = SUMMARY.chars().cycle().take(length).collect();
        Some(Ok(Answer::Text(Text {
            text,
            prompt_tokens: 1,
            tokens: 1,
            cut_tokens: 0,
            finish: Finish::Stop,
        })))
    }))
}

fn tally(name: &str, case: &Case, lists: &Lists) -> anyhow::Result<Tally> {
    let lists = if case.plain { &lists.plain } else { &lists.given };
    let policy = policy_of(case)?;
    let recording = unpacked(&folder().join(format!("recordings/{name}.jsonl.zst")));
    let lines = recording.lines().skip(1).map(|line| serde_json::from_str::<Json>(line).unwrap());
    let lines: BTreeMap<String, Json> =
        lines.map(|line| (line["list"].as_str().unwrap().to_owned(), line)).collect();
    let tokenizer = Tokenizer::load("o200k")?;
    let mut tally = Tally { recorded: lines.len(), ..Tally::default() };
    for (list, log) in lists {
        let Some(line) = lines.get(&list.id).filter(|_| !case.ignore.contains(&list.id)) else { continue };
        let (mut prompts, n_fired) = prompts_of(line, list);
        case.adapt(list, &mut prompts);
        let with_system = (case.system && !list.has_system()).then(|| list.log(true));
        let log = with_system.as_ref().unwrap_or(log);
        let (other, texts) = difference(&policy, case.said, log, line, &prompts, &tokenizer)?;
        if other.is_none() && !policy.summarises() {
            texts::compare(&texts, line, &mut tally.texts);
        }
        tally.lists += 1;
        tally.fired += usize::from(n_fired > 0);
        tally.twice += usize::from(n_fired > 1);
        let parted =
            prompts.iter().find(|(at, prompt)| parted::is_parted(list, **at, prompt)).map(|(at, _)| *at);
        let is_before = |at: u32| parted.is_some_and(|parted| parted <= at);
        tally.until_parted += usize::from(other.as_ref().is_none_or(|(at, ..)| is_before(*at)));
        tally.equal += usize::from(other.is_none());
        tally.differ.extend(other.map(|other| (list.id.clone(), other)));
    }
    Ok(tally)
}

/// The first prompt that differs from what a library sent, and the texts of all.
fn difference(
    policy: &Policy,
    said: Option<usize>,
    log: &Log,
    line: &Json,
    prompts: &BTreeMap<u32, Vec<Part>>,
    tokenizer: &Tokenizer,
) -> anyhow::Result<(Option<Difference>, BTreeMap<u32, texts::Texts>)> {
    let mut seen = Prompts::new(log);
    let model = policy.summarises().then(|| summariser(line, said, Arc::clone(&seen.decided)));
    replay(log, &policy.recipe(1, model)?, tokenizer, &Needs::default(), &mut seen)?;
    let mut others = prompts.iter().filter_map(|(at, prompt)| {
        let here = seen.prompts.get(at).cloned().unwrap_or_default();
        (&here != prompt).then(|| (*at, here, prompt.clone()))
    });
    Ok((others.next(), seen.texts))
}

fn shown(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Given(at) => text += &format!("{at} "),
            Part::Rewritten(at) => text += &format!("{at}' "),
            Part::Made => text += "* ",
        }
    }
    text
}

/// The lists, and the same in words alone where a case asks for them.
struct Lists {
    given: Vec<(List, Log)>,
    plain: Vec<(List, Log)>,
}

/// All cases of the files, by the names of their recordings.
fn cases() -> BTreeMap<String, Case> {
    let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
    let is_cases = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("cases") && name.ends_with(".toml")
    };
    let mut cases = BTreeMap::new();
    for path in files.filter(is_cases) {
        for (name, case) in
            toml::from_str::<BTreeMap<String, Case>>(&std::fs::read_to_string(&path).unwrap()).unwrap()
        {
            assert!(cases.insert(name.clone(), case).is_none(), "two cases for {name}");
        }
    }
    cases
}

fn lists(has_plain: bool) -> Option<Lists> {
    let mut python = Command::new("python3")
        .arg(folder().join("lists.py"))
        .args(["dump", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    // It reads all of it before it writes.
    python.stdin.take().unwrap().write_all(unpacked(&folder().join("lists.jsonl.zst")).as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "lists.py failed");
    let text = String::from_utf8(output.stdout).unwrap();
    let lists = || text.lines().map(|line| serde_json::from_str::<List>(line).unwrap());
    let with_log = |list: List| {
        let log = list.log(false);
        (list, log)
    };
    let plain = lists().filter(|_| has_plain).map(|list| with_log(list.plain())).collect();
    Some(Lists { given: lists().map(with_log).collect(), plain })
}

/// `CASE=part of a name` looks at some recordings alone, and tells more.
#[test]
fn presets_do_as_the_real_libraries() {
    let only = std::env::var("CASE").unwrap_or_default();
    let mut cases = cases();
    cases.retain(|name, _| name.contains(&only));
    let Some(lists) = lists(cases.values().any(|case| case.plain)) else {
        eprintln!("SKIPPED: presets against libraries: no python3");
        return;
    };
    let (mut wrong, mut found) = (Vec::new(), BTreeMap::new());
    for (name, case) in &cases {
        match tally(name, case, &lists) {
            Err(error) => wrong.push(format!("{name}: {error:#}")),
            Ok(tally) => {
                println!(
                    "{name:44} {:32} lists {:3}  fired {:3}  twice {:3}  equal {:3}  until a pair is parted {:3}",
                    case.preset, tally.lists, tally.fired, tally.twice, tally.equal, tally.until_parted
                );
                if !only.is_empty() {
                    tally.told().iter().for_each(|line| println!("    {line}"));
                    println!("    texts {:?}", tally.texts);
                }
                if tally.lists == tally.recorded && case.ignore.is_empty() {
                    let (lists, fired, twice, equal) =
                        (tally.lists as u64, tally.fired as u64, tally.twice as u64, tally.equal as u64);
                    let (texts, same_texts) = (tally.texts.n, tally.texts.same);
                    let held = Held { lists, fired, twice, equal, texts, same_texts, why: case.why.clone() };
                    if held::of(name) != Some(&held) {
                        wrong.push(format!(
                            "{name}: src/data/held.toml has other numbers\nhint: UPDATE_DOCS=1"
                        ));
                    }
                    found.insert(name.clone(), held);
                }
                if tally.texts.n > tally.texts.same && case.why_texts.is_empty() {
                    wrong.push(format!("{name}: texts differ: {:?}", tally.texts));
                }
                let least = case.least.unwrap_or(tally.recorded);
                let n_may_differ = tally.recorded.saturating_sub(least);
                let parted =
                    case.until_parted.map_or(0, |parted| parted.saturating_sub(tally.recorded - tally.lists));
                if tally.equal + n_may_differ < tally.lists
                    || tally.until_parted < parted
                    || (case.least.is_some() && case.why.is_empty())
                {
                    wrong.push(format!(
                        "{name}: {} of {} equal, at least {least}; {}",
                        tally.equal,
                        tally.lists,
                        tally.told().join("; ")
                    ));
                }
            }
        }
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        keep_found(found);
        wrong.retain(|line| !line.contains("held.toml"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Writes what was found beside what is known of the other recordings.
fn keep_found(found: BTreeMap<String, Held>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/data/held.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mut all: BTreeMap<String, Held> = toml::from_str(&text).unwrap();
    all.extend(found);
    let head = "# What the test `presets_do_as_the_real_libraries` found: made by `UPDATE_DOCS=1`, with all real logs at hand.\n\n";
    std::fs::write(path, format!("{head}{}", toml::to_string(&all).unwrap())).unwrap();
}

#[test]
fn all_presets_can_be_built() {
    for preset in all() {
        preset.policy.check().unwrap_or_else(|error| panic!("{}: {error:#}", preset.name));
        assert!(
            text(&preset.name).is_some_and(|text| text.contains(&preset.product)),
            "{}: its file has another name",
            preset.name
        );
    }
}

/// Exploring (turns 1 to 3), an edit and its test (4, 5), then nothing but looking on: what was done is summarised where it is done,
/// and what comes after is masked where it is old. Each constant of the parts can be set.
#[test]
fn the_hybrid_of_the_seed_acts_by_what_fired() {
    let look = |n: usize| {
        "action: ls\nobservation: a morning of light and a very long line of words that nobody asks for\n"
            .repeat(n)
    };
    let script = format!(
        "user: u\n{}action: sed -i s/a/b/ a.py\nobservation: edited\naction: pytest t\nobservation: 1 passed in 1s\n{}agent: end",
        look(3),
        look(14)
    );
    let log = Log::script(&script);
    let tokenizer = Tokenizer::load("o200k").unwrap();
    let events = |set: &[(&str, Value)]| {
        let mut policy = find("seed-hybrid").unwrap().policy.clone();
        set.iter().for_each(|(key, value)| policy.set(key, value).unwrap());
        let recipe = policy.recipe(1, None).unwrap();
        let run = replay(&log, &recipe, &tokenizer, &Needs::of(&log, 3), &mut Prompts::new(&log)).unwrap();
        let text = |event: &Event| event.after.iter().map(|block| block.text(&log)).collect::<String>();
        run.events.iter().map(|event| (event.stage, event.turn, text(event))).collect::<Vec<_>>()
    };
    let idle = ("1.trigger.inactivity", Value::Boolean(false));
    let told = events(&[idle.clone(), ("2.trigger.batch", Value::Integer(1))]);
    let first = told.iter().find(|event| event.0 == 0).unwrap();
    assert!(first.1 == 5 && !first.2.contains("omitted"), "{told:?}");
    let masked: Vec<_> = told.iter().filter(|event| event.0 > 0).collect();
    assert!(masked.iter().all(|event| event.1 > 10 && event.2.contains("bservation omitted]")), "{told:?}");
    assert!(!masked.is_empty());
    // Phases of five turns at least: the first is not over before.
    let off = ("1.trigger.subtask", Value::Boolean(false));
    let late = events(&[("1.trigger.min_turns", Value::Integer(5)), off]);
    assert!(late.iter().all(|event| event.0 > 0 || event.1 > 5), "{late:?}");
    let kept =
        events(&[idle, ("3.trigger.keep", Value::Integer(12)), ("2.trigger.threshold", Value::Float(0.99))]);
    assert!(kept.iter().all(|event| event.0 == 0 || event.1 > 12), "{kept:?}");
}

#[test]
fn a_key_is_set_where_a_stage_knows_it() {
    let mut policy = find("langchain-summarization").unwrap().policy.clone();
    policy.set("scope.messages", &Value::Integer(7)).unwrap();
    assert_eq!(policy.stages[0].scope["messages"], Value::Integer(7));
    let wrong = |key: &str| policy.clone().set(key, &Value::Integer(7)).unwrap_err().to_string();
    assert!(
        wrong("scope.mesages")
            .contains("no stage has a scope that knows `mesages`\nhint: did you mean `messages`?")
    );
    assert!(wrong("messages").contains("as in `scope.messages`"));
    assert!(wrong("strategy.form").contains("hint: `forms ="));
    for key in ["3.down_to", "3.scope.messages", "0.scope.messages"] {
        let number = &key[..1];
        assert_eq!(wrong(key), format!("there is no stage {number}: it has 1 stage"));
    }
    assert!(
        wrong("rouns").starts_with("unknown key `rouns`\nhint: did you mean `rounds`?"),
        "{}",
        wrong("rouns")
    );
    // What is no part of a stage is a key of the policy, or of a stage.
    let mut set = |key: &str, value: Value| policy.set(key, &value).unwrap();
    set("head", "task".into());
    set("counter.by", "chars".into());
    set("counter.per", Value::Float(3.5));
    set("1.down_to", Value::Float(0.5));
    set("rounds", Value::Integer(2));
    assert_eq!((policy.head, policy.rounds, policy.stages[0].down_to), (Head::Task, 2, Some(0.5)));
    assert_eq!(serde_json::to_value(policy.counter).unwrap()["by"], "chars");
}

/// Whatever the policy: the prompt is never longer than the full one, no call stands without its result, and what stands for
/// compressed steps is part of the prompt.
#[test]
fn presets_keep_the_invariants() {
    let Some(Lists { given: lists, .. }) = lists(false) else { return };
    let tokenizer = Tokenizer::load("o200k").unwrap();
    let mut n_events = 0;
    for preset in all() {
        let mut policy = preset.policy.clone();
        (policy.window, policy.reserve) = (6000, 0);
        for key in ["trigger.tokens", "trigger.below"] {
            let is_set = policy.stages.iter().any(|stage| stage.trigger.contains_key(&key[8..]));
            if is_set {
                policy.set(key, &Value::Integer(3000)).unwrap();
            }
        }
        for (list, log) in lists.iter().step_by(25) {
            let needs = Needs::of(log, 3);
            for form in FORMS {
                let recipe = policy.clone().with_form(form).recipe(1, None).unwrap();
                let mut seen = Prompts::new(log);
                let run = replay(log, &recipe, &tokenizer, &needs, &mut seen);
                let run = run.unwrap_or_else(|error| panic!("{} {form} {}: {error:#}", preset.name, list.id));
                n_events += run.events.len();
                for decision in &run.decisions {
                    let at = (&preset.name, form, &list.id, decision.turn);
                    assert!(decision.tokens_sent <= decision.tokens_full || policy.grows, "{at:?}");
                    assert!(decision.kept_tokens <= decision.tokens_sent, "{at:?}");
                    assert!(decision.cached_sent <= decision.tokens_sent, "{at:?}");
                }
                // Events number the blocks that they leave without a gap.
                let (_, trace) = traced(log, &recipe, &tokenizer, &needs).unwrap();
                let left = trace.changes.iter().map(|change| change.left.len());
                assert!(left.eq(run.events.iter().map(|event| event.after.len())), "{}", preset.name);
                let numbers = run.events.iter().flat_map(|event| &event.after).map(|block| block.left);
                assert!(numbers.eq(1..=run.events.iter().map(|event| event.after.len() as u32).sum()));
                let mut told: Vec<&&str> = run.events.iter().flat_map(|event| &event.violations).collect();
                told.retain(|violation| !(policy.parts_pairs && violation.contains("without its")));
                assert!(told.is_empty(), "{} {}: {told:?}", preset.name, list.id);
            }
        }
    }
    assert!(n_events > 100, "{n_events}");
}
