//! A trajectory in the making: steps in the order of the log, calls tied to their results, and
//! what was lost on the way.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::open_calls::{OpenCall, OpenCalls};
use super::reply::{Call, is_same_json};
use crate::logs::formats::Sink;
use crate::trajectory::{Builder, Kind, LoggedEdit, Role, Step, Trajectory, Usage, action_text, step};

mod replace;

/// How much of the first user message is kept as the goal.
const GOAL_CHARS: usize = 4000;

/// What a log holds and the tables do not, by name, with counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses(pub(crate) BTreeMap<String, u64>);

impl Losses {
    pub(crate) fn add(&mut self, what: &str) {
        self.add_n(what, 1);
    }

    pub(crate) fn add_n(&mut self, what: &str, n: u64) {
        if n == 0 {
            return;
        }
        match self.0.get_mut(what) {
            Some(count) => *count += n,
            None => {
                self.0.insert(what.to_owned(), n);
            }
        }
    }

    pub(crate) fn merge(&mut self, other: &Losses) {
        for (what, n) in &other.0 {
            self.add_n(what, *n);
        }
    }
}

/// The loss that tells of a run in which nothing was said.
pub(crate) const EMPTY_RUN: &str = "run without messages";

/// The loss that tells of a compaction of which the log does not say what it put there.
pub(crate) const EMPTY_SUMMARY: &str = "compaction without its summary";

/// The loss that tells of what was said and taken back: by a rewind, or on a branch that was left.
pub(crate) const ABANDONED: &str = "line of an abandoned branch left out";

#[derive(Default)]
pub(crate) struct Draft {
    builder: Builder,
    pub(crate) losses: Losses,
    open: OpenCalls,
    /// The newest result of each logged id, by its step.
    answered: HashMap<String, usize>,
    /// Usage of the call that began, until its first step.
    usage: Option<Usage>,
    /// Ids of calls, each with the number from which on it may be made unique.
    used: HashMap<String, usize>,
    /// Where results and messages stand that the log edits later.
    places: Places,
    n_calls: usize,
    /// The model of the first reply.
    model: Option<String>,
    /// The model of the next reply, if it is another one.
    other_model: Option<Box<str>>,
    /// That of the call that began, until its first step.
    model_of_call: Option<Box<str>>,
    message: u32,
    time: Option<i64>,
    /// For the next steps.
    kept_to: Option<u32>,
    /// The steps that the newest compaction kept.
    staying: Vec<usize>,
    /// Digests of what the head says, of so many steps.
    head: (usize, HashSet<u64>),
}

impl Draft {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Says which logged message, and of what time, the next steps come from.
    pub(crate) fn at(&mut self, message: usize, time: Option<i64>) {
        self.message = message as u32;
        self.time = time;
    }

    /// Says up to which segment a compaction kept the next steps.
    pub(crate) fn keep_to(&mut self, segment: Option<u32>) {
        self.kept_to = segment;
    }

    /// Which logged message, and of what time, the next steps come from.
    pub(crate) fn place(&self) -> (usize, Option<i64>) {
        (self.message as usize, self.time)
    }

    /// Whether some call has no result yet.
    pub(crate) fn has_open_call(&self) -> bool {
        self.open.len() > 0
    }

    /// Number of steps so far.
    pub(crate) fn n_steps(&self) -> usize {
        self.builder.steps().len()
    }

    /// Forgets the steps, not the losses.
    pub(crate) fn clear(&mut self) {
        self.builder = Builder::new();
        self.answered.clear();
        self.places = Places::default();
        self.staying.clear();
        self.head = Default::default();
    }

    /// A system prompt.
    pub(crate) fn system(&mut self, text: String) {
        self.push_text(Role::System, Kind::System, text);
    }

    /// The schemas of the tools.
    pub(crate) fn tools(&mut self, text: String) {
        self.push_text(Role::System, Kind::Tools, text);
    }

    /// A part of a worked example that stands in every prompt.
    pub(crate) fn demonstration(&mut self, text: String) {
        self.push_text(Role::System, Kind::Demonstration, text);
    }

    /// A message of the user.
    pub(crate) fn user(&mut self, text: String) {
        self.push_text(Role::User, Kind::Message, text);
    }

    /// A message in the name of the user: the harness's where all of it stands in a harness's tags.
    pub(crate) fn user_or_harness(&mut self, text: String) {
        if is_harness(&text) { self.notice(text) } else { self.user(text) }
    }

    /// Text that the harness put before the model in the name of nobody: no statement of the user.
    pub(crate) fn notice(&mut self, text: String) {
        self.push_text(Role::System, Kind::Message, text);
    }

    /// A new call of the agent's model begins.
    pub(crate) fn begin_call(&mut self) {
        self.forget_usage();
        self.model_of_call.clone_from(&self.other_model);
        self.builder.begin_call();
    }

    /// What the provider counted for the call that began; it goes to the first step of the reply.
    pub(crate) fn usage(&mut self, usage: Option<Usage>) {
        self.usage = usage.or(self.usage);
    }

    /// Says which model the replies from here on are of: the first one is that of the run.
    pub(crate) fn model(&mut self, name: &str) {
        let is_first = self.model.get_or_insert_with(|| name.to_owned()) == name;
        self.other_model = (!is_first).then(|| name.into());
    }

    fn forget_usage(&mut self) {
        if self.usage.take().is_some() {
            self.losses.add("usage of a reply without steps left out");
        }
    }

    /// The turn of the newest step or call.
    pub(crate) fn turn(&self) -> u32 {
        self.builder.turn()
    }

    /// Says that from the decision of turn `from` on the agent was sent `text` in the place of a step.
    pub(crate) fn edit(&mut self, step: usize, from: u32, text: String) {
        self.builder.steps_mut()[step].edit = Some(Box::new(LoggedEdit { from, text }));
    }

    /// Text of the agent: a thought if it goes with a call, else a message.
    pub(crate) fn agent(&mut self, kind: Kind, text: String) {
        if !text.trim().is_empty() {
            self.push(step(Role::Agent, kind, text));
        }
    }

    /// A call of a tool, with its arguments as logged.
    pub(crate) fn action(&mut self, tool: String, arguments: String, logged_id: Option<String>) {
        let text = action_text(&tool, &arguments);
        self.action_as(tool, text, Some(arguments), logged_id);
    }

    /// A call of a tool, with its readable form given.
    pub(crate) fn action_as(
        &mut self,
        tool: String,
        text: String,
        arguments: Option<String>,
        logged_id: Option<String>,
    ) {
        let id = self.unique_id(logged_id.as_deref());
        let mut action = step(Role::Agent, Kind::Action, text);
        action.tool = Some(tool.as_str().into());
        action.call_id = Some(id.as_str().into());
        action.arguments = arguments.map(|mut a| {
            clean(&mut a, &mut self.losses);
            a.into()
        });
        self.push(action);
        self.open.push(OpenCall { logged_id, other_id: None, id, tool }, self.builder.turn());
    }

    /// Another id by which results may name the newest call.
    pub(crate) fn also_known_as(&mut self, id: Option<String>) {
        self.open.also_known_as(id);
    }

    /// The result of a call. With an id it goes to the nearest earlier unanswered call of that id,
    /// without one to the first unanswered call, of that name if one is given, of the newest turn that has such a call.
    pub(crate) fn result(
        &mut self,
        logged_id: Option<&str>,
        tool: Option<String>,
        text: String,
        is_error: Option<bool>,
    ) {
        self.result_by(Role::Tool, logged_id, tool, text, is_error);
    }

    /// The same for a result that somebody else than the tool said, as the user who answers a question.
    pub(crate) fn result_by(
        &mut self,
        who: Role,
        logged_id: Option<&str>,
        tool: Option<String>,
        text: String,
        is_error: Option<bool>,
    ) {
        let found = match logged_id {
            Some(id) => self.open.take_id(id),
            None => self.open.take_nearest(tool.as_deref()),
        };
        if found.is_none() && logged_id.is_some_and(|id| self.is_repeated(id, &text)) {
            return;
        }
        let mut observation = step(who, Kind::Observation, text);
        match found {
            Some(call) => {
                let ids = [call.logged_id, call.other_id].into_iter().flatten();
                self.answered.extend(ids.map(|id| (id, self.builder.steps().len())));
                observation.tool = Some(call.tool.into());
                observation.call_id = Some(call.id.into());
            }
            None => {
                self.losses.add("tool result without a call");
                observation.tool = tool.map(Into::into);
            }
        }
        observation.is_error = is_error;
        self.push(observation);
    }

    /// Says that the newest step is the user's words, though it stands as the result of a call.
    pub(crate) fn by_user(&mut self) {
        if let Some(step) = self.builder.steps_mut().last_mut() {
            step.role = Role::User;
        }
    }

    /// Whether the newest turn holds this call, with nothing but results since.
    pub(crate) fn newest_turn_has(&self, call: &Call) -> bool {
        let (Some(id), turn) = (call.id.as_deref(), self.builder.turn()) else {
            return false;
        };
        let is_call = |s: &&Step| {
            // An id that was made unique is one that the log uses for other calls, too: it tells nothing.
            s.call_id.as_deref() == Some(id)
                && s.kind == Kind::Action
                && s.tool.as_deref() == Some(&call.tool)
        };
        let arguments = |s: &Step| s.arguments.as_deref().is_some_and(|a| is_same_json(a, &call.arguments));
        self.newest_turn(turn).any(|s| is_call(&s) && arguments(s))
    }

    /// Whether all lines of a text were said in the newest turn.
    pub(crate) fn newest_turn_says(&self, text: &str) -> bool {
        let said: Vec<&Step> = self.newest_turn(self.builder.turn()).filter(|s| s.is_agent()).collect();
        text.lines().all(|line| said.iter().any(|s| s.text.contains(line)))
    }

    fn newest_turn(&self, turn: u32) -> impl Iterator<Item = &Step> {
        let is_result = |s: &Step| s.kind == Kind::Observation && s.call_id.is_some();
        let is_part = move |s: &&Step| s.turn == turn && (s.is_agent() || is_result(s));
        self.builder.steps().iter().rev().take_while(is_part)
    }

    /// Whether there is a result of this id, which is neither this one nor another state of it.
    pub(crate) fn has_other_result(&self, id: &str, text: &str) -> bool {
        let known = self.answered.get(id).and_then(|at| self.builder.steps().get(*at));
        let new = text.trim();
        known.map(|s| s.text.trim()).is_some_and(|old| !old.starts_with(new) && !new.starts_with(old))
    }

    /// Whether this is a result that is there already, or another state of it: the longer one stays, if no reply
    /// saw the shorter one.
    fn is_repeated(&mut self, id: &str, text: &str) -> bool {
        let Some(&at) = self.answered.get(id) else {
            return false;
        };
        let next_turn = self.builder.next_turn();
        let known = &mut self.builder.steps_mut()[at];
        let is_seen = known.turn + 1 < next_turn;
        let known = &mut known.text;
        let (old, new) = (known.trim(), text.trim());
        if new.starts_with(old) && new.len() > old.len() {
            if is_seen {
                return false;
            }
            *known = text.to_owned();
            clean(known, &mut self.losses);
        } else if !old.starts_with(new) {
            return false;
        }
        self.losses.add("repeated tool result merged");
        true
    }

    /// Output of the environment that answers no call.
    pub(crate) fn observation(&mut self, text: String, is_error: Option<bool>) {
        let mut observation = step(Role::Tool, Kind::Observation, text);
        observation.is_error = is_error;
        self.push(observation);
    }

    /// A compaction that the log contains: from here on the agent saw `text` instead of the past.
    pub(crate) fn compaction(&mut self, text: String) {
        self.push(step(Role::User, Kind::Compaction, text));
    }

    /// From the next decision on the agent was sent `text` instead of the result of this call; says whether there is one.
    pub(crate) fn edit_result(&mut self, logged_id: &str, text: &str) -> bool {
        let from = self.builder.next_turn();
        self.places.find(self.builder.steps());
        let found = self.places.results.get(logged_id);
        found.is_some_and(|&at| edit(&mut self.builder.steps_mut()[at], from, text))
    }

    /// The same for all steps of a logged message.
    pub(crate) fn edit_message(&mut self, message: usize, text: &str) -> bool {
        let from = self.builder.next_turn();
        self.places.find(self.builder.steps());
        let steps = u32::try_from(message).ok().and_then(|message| self.places.messages.get(&message));
        let edit_one = |&at: &usize| edit(&mut self.builder.steps_mut()[at], from, text);
        steps.is_some_and(|steps| steps.iter().map(edit_one).fold(false, |any, is_done| any || is_done))
    }

    /// Says that a logged message stands in the prompts behind the compaction that comes next, too.
    pub(crate) fn keep_message(&mut self, message: usize) {
        self.places.find(self.builder.steps());
        let steps = u32::try_from(message).ok().and_then(|message| self.places.messages.get(&message));
        let next = self.builder.steps().last().map_or(1, |step| step.segment + 1);
        for &at in steps.into_iter().flatten() {
            let step = &mut self.builder.steps_mut()[at];
            // The head stands in every prompt anyway.
            step.kept_to = Some(next).filter(|_| step.turn > 0);
        }
    }

    /// Closes the trajectory and hands it over. `about` says all that does not stand in the steps.
    pub(crate) fn finish(mut self, mut about: Trajectory, sink: &mut Sink<'_>) {
        self.forget_usage();
        self.losses.add_n("call without a result", self.open.len() as u64);
        if self.builder.is_empty() {
            self.losses.add(EMPTY_RUN);
            sink.losses.merge(&self.losses);
            return;
        }
        sink.losses.merge(&self.losses);
        about.model = about.model.or(self.model);
        about.steps = self.builder.finish();
        if about.goal.is_none() {
            let said = about.steps.iter().filter(|s| s.kind == Kind::Message && s.role == Role::User);
            let mut texts = said.map(|s| s.text.as_str());
            let first = texts.clone().next();
            let task =
                texts.find_map(|text| Some(without_enclosed(text)).filter(|task| !task.trim().is_empty()));
            about.goal = task.or(first).map(|text| text.chars().take(GOAL_CHARS).collect());
        }
        if let Some(goal) = &mut about.goal {
            clean(goal, &mut Losses::default());
        }
        if about.source.is_empty() {
            about.source = sink.source.path.clone();
        }
        if about.format.is_empty() {
            about.format = sink.source.format.to_owned();
        }
        about.id = about.content_id();
        sink.trajectories.push(about);
    }

    fn push_text(&mut self, role: Role, kind: Kind, text: String) {
        if text.is_empty() {
            self.losses.add("empty message");
        } else {
            self.push(step(role, kind, text));
        }
    }

    fn push(&mut self, mut step: Step) {
        clean(&mut step.text, &mut self.losses);
        step.message = self.message;
        step.time = self.time;
        if step.is_agent() {
            step.usage = self.usage.take().map(Box::new);
            step.model = self.model_of_call.take();
        }
        // The head stands in every prompt anyway.
        step.kept_to = self.kept_to.filter(|_| !self.builder.is_head());
        self.builder.push(step);
    }

    fn unique_id(&mut self, logged: Option<&str>) -> String {
        self.n_calls += 1;
        let base = match logged {
            Some(id) if !id.is_empty() => id.replace('\0', "\u{fffd}"),
            _ => format!("call-{}", self.n_calls),
        };
        let Some(next) = self.used.get(&base) else {
            self.used.insert(base.clone(), 2);
            return base;
        };
        // Those below were taken before.
        let free = (*next..).find(|n| !self.used.contains_key(&format!("{base}#{n}")));
        let n = free.unwrap_or(*next);
        let id = format!("{base}#{n}");
        self.used.insert(base, n + 1);
        self.used.insert(id.clone(), 2);
        if logged.is_some() {
            self.losses.add("repeated call id made unique");
        }
        id
    }
}

/// Where steps stand that may be edited, as far as steps were looked through.
#[derive(Default)]
struct Places {
    n_steps: usize,
    /// The newest result of each logged id.
    results: HashMap<String, usize>,
    /// The steps of each message.
    messages: HashMap<u32, Vec<usize>>,
}

impl Places {
    /// Looks through the steps that came since.
    fn find(&mut self, steps: &[Step]) {
        for (at, step) in steps.iter().enumerate().skip(self.n_steps) {
            self.messages.entry(step.message).or_default().push(at);
            let Some(id) = step.call_id.as_deref().filter(|_| step.kind == Kind::Observation) else {
                continue;
            };
            // A call's id is a logged one, maybe made unique.
            let logged = id.match_indices('#').map(|(end, _)| &id[..end]);
            for logged in logged.chain([id]) {
                self.results.insert(logged.to_owned(), at);
            }
        }
        self.n_steps = steps.len();
    }
}

/// The tag that encloses the beginning of a text, and the length of that: harnesses put their own words so.
pub(crate) fn enclosed(text: &str) -> Option<(&str, usize)> {
    let tag = text.strip_prefix('<')?.split(['>', ' ', '\n']).next().filter(|tag| !tag.is_empty())?;
    let close = format!("</{tag}>");
    text.find(&close).map(|at| (tag, at + close.len()))
}

/// Tags in which harnesses put what the user asks.
const ASKED: [&str; 3] = ["task", "user_query", "userRequest"];

/// The text behind the tags that a harness put at its beginning; nothing where all of it stands in tags, but for those
/// around the user's own words. Harnesses' tags have names of several words (`system-reminder`, `uploaded_files`); a text
/// that begins with `<div>` stays whole.
fn without_enclosed(text: &str) -> &str {
    let (mut rest, mut is_harness, mut task) = (text, true, None);
    while let Some((tag, length)) = enclosed(rest.trim_start()) {
        let (element, behind) = rest.trim_start().split_at(length);
        is_harness &= tag.contains(['-', '_']);
        if ASKED.contains(&tag) && task.is_none() {
            let end = element.len() - tag.len() - "</>".len();
            task = element[..end].split_once('>').map(|(_, inside)| inside.trim());
        }
        rest = behind.trim_start();
    }
    match task.filter(|_| rest.is_empty()) {
        Some(task) => task,
        None if is_harness || rest.is_empty() => rest,
        None => text,
    }
}

/// Whether all of a text stands in a harness's tags.
pub(crate) fn is_harness(text: &str) -> bool {
    !text.trim().is_empty() && without_enclosed(text).trim().is_empty()
}

/// Notes an edit of a step. The first one stands: an edited text is not edited again.
fn edit(step: &mut Step, from: u32, text: &str) -> bool {
    if step.edit.is_none() {
        step.edit = Some(Box::new(LoggedEdit { from, text: text.to_owned() }));
    }
    true
}

/// Replaces what must not reach the tables: NUL by U+FFFD, inline base64 data by its size.
pub(crate) fn clean(text: &mut String, losses: &mut Losses) {
    if memchr::memchr(0, text.as_bytes()).is_some() {
        losses.add_n("NUL replaced by U+FFFD", memchr::memchr_iter(0, text.as_bytes()).count() as u64);
        *text = text.replace('\0', "\u{fffd}");
    }
    if text.len() > MIN_DATA && memchr::memmem::find(text.as_bytes(), b";base64,").is_some() {
        replace_base64(text, losses);
    }
}

/// Inline data shorter than this is left as it is.
const MIN_DATA: usize = 1024;

fn replace_base64(text: &mut String, losses: &mut Losses) {
    let is_data = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'-' | b'_');
    let mut out = String::new();
    let mut done = 0;
    let mut at = 0;
    while let Some(found) = memchr::memmem::find(&text.as_bytes()[at..], b";base64,") {
        let mark = at + found;
        let data = mark + b";base64,".len();
        let length = text.as_bytes()[data..].iter().position(|b| !is_data(*b)).unwrap_or(text.len() - data);
        at = data + length;
        let scheme = text[done..mark].rfind("data:").map(|i| done + i);
        let Some(scheme) = scheme.filter(|s| mark - s < 100 && length >= MIN_DATA) else {
            continue;
        };
        let media_type = &text[scheme + 5..mark];
        out.push_str(&text[done..scheme]);
        let kind = if media_type.starts_with("image/") { "image" } else { "file" };
        out.push_str(&format!("[{kind} {media_type} {} bytes]", super::content::base64_bytes(length)));
        losses.add("media replaced by a placeholder");
        done = at;
    }
    if done > 0 {
        out.push_str(&text[done..]);
        *text = out;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;

    fn finished(draft: Draft) -> (Trajectory, Losses) {
        let source = Source::test("a.json", "toy");
        let mut sink = Sink::new(&source);
        draft.finish(Trajectory::default(), &mut sink);
        (sink.trajectories.remove(0), sink.losses)
    }

    #[test]
    fn results_go_to_the_nearest_earlier_unanswered_call() {
        let mut d = Draft::new();
        for _ in 0..2 {
            d.begin_call();
            d.action("f".into(), "{}".into(), Some("call_0".into()));
            d.result(Some("call_0"), None, "r".into(), None);
        }
        d.result(Some("call_0"), None, "orphan".into(), None);
        let (t, losses) = finished(d);
        let ids: Vec<Option<&str>> = t.steps.iter().map(|s| s.call_id.as_deref()).collect();
        assert_eq!(ids, [Some("call_0"), Some("call_0"), Some("call_0#2"), Some("call_0#2"), None]);
        assert_eq!(losses.0["repeated call id made unique"], 1);
        assert_eq!(losses.0["tool result without a call"], 1);
    }

    #[test]
    fn another_model_stands_on_the_first_step_of_its_reply() {
        let mut d = Draft::new();
        for model in ["a", "b", "b", "a"] {
            d.model(model);
            d.begin_call();
            // A reply ends only where the next one is known.
            d.model("c");
            d.agent(Kind::Thought, "hm".into());
            d.action("f".into(), "{}".into(), None);
        }
        let (t, losses) = finished(d);
        let models: Vec<Option<&str>> = t.steps.iter().map(|s| s.model.as_deref()).collect();
        assert_eq!(models, [None, None, Some("b"), None, Some("b"), None, None, None]);
        assert_eq!((t.model.as_deref(), losses.0.contains_key("model")), (Some("a"), false));
    }

    #[test]
    fn a_result_that_is_logged_twice_is_one() {
        let mut d = Draft::new();
        d.begin_call();
        d.usage(Some(Usage { input: 9, ..Usage::default() }));
        d.action("f".into(), "{}".into(), Some("c".into()));
        d.also_known_as(Some("other".into()));
        for text in ["par", "part one", "part one\n", "part"] {
            d.result(Some("c"), None, text.into(), None);
        }
        d.result(Some("other"), None, "part one".into(), None);
        d.result(Some("c"), None, "something else".into(), None);
        let (t, losses) = finished(d);
        let texts: Vec<&str> = t.steps.iter().map(|s| s.text.as_str()).collect();
        assert_eq!(texts, ["f", "part one", "something else"]);
        assert_eq!(losses.0["repeated tool result merged"], 4);
        assert_eq!(losses.0["tool result without a call"], 1);
        assert_eq!(t.steps[0].usage.as_ref().map(|u| u.input), Some(9));
        assert!(t.steps[1..].iter().all(|s| s.usage.is_none()));
    }

    /// A call of long ago that was never answered takes nothing from those of the newest turn, which come in order.
    #[test]
    fn results_without_ids_go_to_the_nearest_turn() {
        let mut d = Draft::new();
        for tools in [["f", "g"], ["f", "f"]] {
            d.begin_call();
            tools.iter().for_each(|tool| d.action((*tool).into(), "{}".into(), None));
        }
        for tool in [Some("f"), None, Some("g"), None, None] {
            d.result(None, tool.map(str::to_owned), "r".into(), None);
        }
        let (t, losses) = finished(d);
        let ids: Vec<Option<&str>> = t.steps[4..].iter().map(|s| s.call_id.as_deref()).collect();
        assert_eq!(ids, [Some("call-3"), Some("call-4"), Some("call-2"), Some("call-1"), None]);
        assert_eq!(losses.0["tool result without a call"], 1);
    }

    #[test]
    fn results_without_ids_go_to_the_first_open_call_of_the_name() {
        let mut d = Draft::new();
        d.begin_call();
        d.action("f".into(), "{}".into(), None);
        d.action("g".into(), "{}".into(), None);
        d.result(None, Some("g".into()), "of g".into(), None);
        d.result(None, None, "of f".into(), None);
        let (t, losses) = finished(d);
        let tools: Vec<Option<&str>> = t.steps.iter().map(|s| s.tool.as_deref()).collect();
        assert_eq!(tools, [Some("f"), Some("g"), Some("g"), Some("f")]);
        assert_eq!(t.steps[2].call_id.as_deref(), Some("call-2"));
        assert_eq!(losses, Losses::default());
    }

    /// So many calls are open at once that a search of all for each would take minutes.
    #[test]
    fn many_calls_at_once_each_get_their_result() {
        let n = 300_000;
        let mut d = Draft::new();
        d.begin_call();
        for i in 0..n {
            d.action(format!("f{}", i % 2), "{}".into(), (i % 3 > 0).then(|| format!("c{i}")));
        }
        for i in (0..n).filter(|i| i % 3 > 0) {
            d.result(Some(&format!("c{i}")), None, i.to_string(), None);
        }
        // Those without an id, by name: of `f1` the calls 3, 9, 15 ..., of `f0` 0, 6, 12 ...
        for (name, at) in (0..n).step_by(6).flat_map(|i| [("f1", i + 3), ("f0", i)]) {
            d.result(None, Some(name.into()), at.to_string(), None);
        }
        assert!(!d.has_open_call());
        let (t, losses) = finished(d);
        assert_eq!(losses, Losses::default());
        let (calls, results) = t.steps.split_at(n);
        for result in results {
            let call = &calls[result.text.parse::<usize>().unwrap()];
            assert_eq!((&call.call_id, &call.tool), (&result.call_id, &result.tool));
        }
    }

    #[test]
    fn one_id_of_many_calls_at_once_and_edits_of_all_results() {
        let n = 100_000;
        let mut d = Draft::new();
        d.begin_call();
        for _ in 0..n {
            d.action("f".into(), "{}".into(), Some("c".into()));
        }
        for i in 0..n {
            d.at(i, None);
            d.result(Some("c"), None, "r".into(), None);
        }
        for i in 0..n {
            assert!(d.edit_message(i, "gone"));
        }
        assert!(d.edit_result("c", "late") && d.edit_result("c#7", "late") && !d.edit_result("d", "late"));
        let (t, losses) = finished(d);
        assert_eq!(losses.0["repeated call id made unique"], n as u64 - 1);
        // The nearest earlier call is answered first.
        let ids = [n - 1, n, 2 * n - 1].map(|at| t.steps[at].call_id.as_deref().unwrap());
        assert_eq!(ids, ["c#100000", "c#100000", "c"]);
        assert!(t.steps[n..].iter().all(|s| s.edit.as_ref().is_some_and(|e| e.text == "gone")));
    }

    #[test]
    fn nul_and_base64_do_not_reach_the_text() {
        let mut losses = Losses::default();
        let mut text = format!("a\0b <img src=\"data:image/png;base64,{}\"> c", "A".repeat(4000));
        clean(&mut text, &mut losses);
        assert_eq!(text, "a\u{fffd}b <img src=\"[image image/png 3000 bytes]\"> c");
        let mut short = format!("{} data:x;base64,AAAA", "x".repeat(2000));
        let before = short.clone();
        clean(&mut short, &mut losses);
        assert_eq!(short, before);
    }

    #[test]
    fn the_goal_is_the_first_user_message_cut() {
        let mut d = Draft::new();
        d.user("<command-name>/x</command-name>".into());
        d.user("é".repeat(5000));
        let (t, _) = finished(d);
        assert_eq!(t.goal.unwrap().chars().count(), GOAL_CHARS);
    }

    #[test]
    fn the_goal_is_what_stands_behind_tags() {
        let goal = |texts: &[&str]| {
            let mut d = Draft::new();
            texts.iter().for_each(|text| d.user((*text).to_owned()));
            finished(d).0.goal.unwrap()
        };
        let tags = "<ide_note a=\"1\">x</ide_note>\n<env-info></env-info>";
        assert_eq!(goal(&[&format!("{tags} Fix it."), "take 9"]), "Fix it.");
        for whole in
            ["<task>Fix it.</task>\nThanks.", "<div> is not closed in a.html. Add </div> and test it."]
        {
            assert_eq!(goal(&[whole, "take 9"]), whole);
        }
        assert_eq!(goal(&[" Fix it.", "take 9"]), " Fix it.");
        // A text that only looks like a tag is said; where nothing else is, all of the first one is it.
        assert_eq!(goal(&["<3 this. Fix it.", "take 9"]), "<3 this. Fix it.");
        assert_eq!(goal(&["<x></x> ", "<y></y>"]), "<x></x> ");
        // As Roo Code and Cline write it, with what they add.
        let task = "<task>\nFix it.\n</task>\n<environment_details>\na\n</environment_details>";
        assert_eq!(goal(&["<system-reminder>x</system-reminder>", task, "take 9"]), "Fix it.");
        assert!(!is_harness(task));
    }
}
