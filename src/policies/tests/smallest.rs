//! The smallest list on which a preset and its library differ, one for each recording that is held to less than 95 %: docs/presets.md
//! shows them.
//!
//! A part of a list is asked of the rule in plain Python, which does as the library on all recorded lists
//! (`tests/differential/parts.py`). `SMALLEST=1` looks for the parts anew, and writes them.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::{ChildStdin, ChildStdout};

use serde::Serialize;

use super::*;

/// Where they stand.
const FILE: &str = "smallest.jsonl";
/// How often a smaller part is tried for one recording.
const TRIES: usize = 400;

/// A part of a list, and what the library records of it alone.
#[derive(Clone, Serialize, Deserialize)]
struct Smallest {
    policy: String,
    list: String,
    /// Places in the list.
    keep: Vec<usize>,
    line: Json,
}

/// Whether a recording is held to fewer lists than the goal.
fn deviates(case: &Case) -> bool {
    case.least.is_some_and(|least| least * 100 < 95 * 250)
}

fn read() -> BTreeMap<String, Smallest> {
    let text = std::fs::read_to_string(folder().join(FILE)).unwrap_or_default();
    let smallest = text.lines().map(|line| serde_json::from_str::<Smallest>(line).unwrap());
    smallest.map(|smallest| (smallest.policy.clone(), smallest)).collect()
}

/// These messages of a list alone.
fn part(list: &List, keep: &[usize]) -> List {
    List { id: list.id.clone(), messages: keep.iter().map(|&at| list.messages[at].clone()).collect() }
}

fn differs(policy: &Policy, case: &Case, part: List, line: &Json) -> Option<(List, Difference)> {
    let (mut prompts, _) = prompts_of(line, &part);
    case.adapt(&part, &mut prompts);
    let with_system = case.system && !part.has_system();
    let part = if case.plain { part.plain() } else { part };
    let tokenizer = Tokenizer::load("o200k").unwrap();
    let (difference, _) =
        difference(policy, case.said, &part.log(with_system), line, &prompts, &tokenizer).unwrap();
    difference.map(|difference| (part, difference))
}

/// Asks the rules in plain Python.
struct Rules {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Rules {
    fn open() -> Self {
        let mut python = Command::new("python3")
            .arg(folder().join("parts.py"))
            .env_remove("TRAJPRESS_LOGS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Rules { to: python.stdin.take().unwrap(), from: BufReader::new(python.stdout.take().unwrap()) }
    }

    fn ask(&mut self, policy: &str, list: &str, keep: &[usize]) -> Json {
        writeln!(self.to, "{}", serde_json::json!({"policy": policy, "list": list, "keep": keep})).unwrap();
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

/// The part without these places, and without what then stands without its call, or its results; the last message stays.
fn without(list: &List, keep: &[usize], gone: &[usize]) -> Vec<usize> {
    let last = keep.last().copied();
    let mut kept: Vec<usize> =
        keep.iter().copied().filter(|at| !gone.contains(at) || Some(*at) == last).collect();
    loop {
        let message = |at: &usize| &list.messages[*at];
        let calls: Vec<&str> =
            kept.iter().flat_map(|at| &message(at).calls).map(|call| call.id.as_str()).collect();
        let answered: Vec<&str> = kept.iter().filter_map(|at| message(at).call.as_deref()).collect();
        let stays = |at: &usize| {
            let has_call = message(at).call.as_deref().is_none_or(|id| calls.contains(&id));
            let has_results = message(at).calls.iter().all(|call| answered.contains(&call.id.as_str()));
            has_call && (has_results || Some(*at) == last)
        };
        let next: Vec<usize> = kept.iter().copied().filter(stays).collect();
        if next.len() == kept.len() {
            return next;
        }
        kept = next;
    }
}

/// In what prompts differ: which of the two has more messages, texts that were made, and messages that were rewritten. A smaller part that
/// differs in another way has another reason.
fn kind((_, here, there): &Difference) -> [std::cmp::Ordering; 3] {
    let count = |parts: &[Part], is: fn(&Part) -> bool| parts.iter().filter(|part| is(part)).count();
    let kinds: [fn(&Part) -> bool; 3] =
        [|_| true, |part| *part == Part::Made, |part| matches!(part, Part::Rewritten(_))];
    kinds.map(|is| count(here, is).cmp(&count(there, is)))
}

/// The smallest part that is found by leaving messages out while it still differs in the same way.
fn smallest(name: &str, case: &Case, lists: &Lists, rules: &mut Rules) -> Option<Smallest> {
    let policy = policy_of(case).unwrap();
    let tally = tally(name, case, lists).unwrap();
    let made = tally.differ.iter().filter(|(list, _)| list.starts_with('g'));
    let (id, first) = made.min_by_key(|(_, (at, ..))| *at)?;
    let (list, _) = lists.given.iter().find(|(list, _)| list.id == *id)?;
    let (at, mut line) = (first.0, Json::Null);
    let mut is_other = |keep: &[usize]| {
        let new = rules.ask(name, id, keep);
        let other = differs(&policy, case, part(list, keep), &new);
        let is_other = other.is_some_and(|(_, other)| kind(&other) == kind(first));
        if is_other {
            line = new;
        }
        is_other
    };
    let mut keep: Vec<usize> = (0..=at as usize).collect();
    if !is_other(&keep) {
        return None;
    }
    let (mut size, mut tries) = (keep.len().div_ceil(2), 0);
    while size > 0 && tries < TRIES {
        let (mut from, n) = (0, keep.len());
        while from < keep.len() && tries < TRIES {
            let gone = keep[from..(from + size).min(keep.len())].to_vec();
            let fewer = without(list, &keep, &gone);
            tries += 1;
            match !fewer.is_empty() && fewer.len() < keep.len() && is_other(&fewer) {
                true => keep = fewer,
                false => from += size,
            }
        }
        size = if keep.len() < n && size == 1 { 1 } else { size / 2 };
    }
    Some(Smallest { policy: name.to_owned(), list: id.clone(), keep, line })
}

/// Roles and sizes of the messages, in characters; of a reply those of its words, and of the arguments of each call.
fn sizes(part: &List) -> String {
    let size = |(place, message): (usize, &Given)| {
        let calls = message.calls.iter().map(|call| format!("+{}", call.args.to_string().chars().count()));
        let role = message.role.chars().next().unwrap_or_default();
        format!("{place}:{role}{}{}", message.text.chars().count(), calls.collect::<String>())
    };
    part.messages.iter().enumerate().map(size).collect::<Vec<_>>().join(" ")
}

/// The table of docs/presets.md.
fn table(cases: &BTreeMap<String, Case>, lists: &Lists) -> String {
    let all = read();
    let mut text = String::from(
        "\n| Recording | Why | List | Asked for | Prompt here | Prompt there |\n| --- | --- | --- | --: | --- | --- |\n",
    );
    for (name, case) in cases.iter().filter(|(_, case)| deviates(case)) {
        let Some(smallest) = all.get(name) else { panic!("no smallest list for {name}\nhint: SMALLEST=1") };
        let given = lists.given.iter().find(|(list, _)| list.id == smallest.list);
        let part = part(&given.unwrap().0, &smallest.keep);
        let told = sizes(&part);
        let other = differs(&policy_of(case).unwrap(), case, part, &smallest.line);
        let (_, (at, here, there)) =
            other.unwrap_or_else(|| panic!("the smallest list of {name} is equal now"));
        let (here, there) = (shown(&here), shown(&there));
        writeln!(text, "| {name} | {} | {told} | {at} | {} | {} |", case.why, here.trim(), there.trim())
            .unwrap();
    }
    text.push('\n');
    text
}

const BEGIN: &str =
    "<!-- smallest lists: made by `UPDATE_DOCS=1` and the test of policies/tests/smallest.rs -->\n";
const END: &str = "<!-- end of smallest lists -->";

#[test]
fn what_deviates_has_its_smallest_list() {
    let cases = cases();
    let Some(lists) = lists(cases.values().any(|case| case.plain)) else {
        eprintln!("SKIPPED: smallest lists: no python3");
        return;
    };
    if std::env::var_os("SMALLEST").is_some() {
        let mut rules = Rules::open();
        let only = std::env::var("CASE").unwrap_or_default();
        let mut all = read();
        all.retain(|name, _| cases.get(name).is_some_and(deviates));
        for (name, case) in cases.iter().filter(|(name, case)| deviates(case) && name.contains(&only)) {
            let found =
                smallest(name, case, &lists, &mut rules).unwrap_or_else(|| panic!("{name} does not differ"));
            println!("{name}: {} messages", found.keep.len());
            all.insert(name.clone(), found);
        }
        let lines = all.values().map(|smallest| serde_json::to_string(smallest).unwrap() + "\n");
        std::fs::write(folder().join(FILE), lines.collect::<String>()).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/presets.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let begin = page.find(BEGIN).expect("the page has the table") + BEGIN.len();
    let end = page.find(END).expect("the table ends");
    let new = format!("{}{}{}", &page[..begin], table(&cases, &lists), &page[end..]);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, new).unwrap();
    } else {
        assert!(page == new, "docs/presets.md is out of date\nhint: UPDATE_DOCS=1");
    }
}
