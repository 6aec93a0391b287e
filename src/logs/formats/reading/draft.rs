//! A trajectory in the making: steps in the order of the log, calls tied to their results, and
//! what was lost on the way.

use std::collections::{HashMap, HashSet};

use crate::logs::formats::Sink;
use crate::logs::formats::reading::open_calls::{OpenCall, OpenCalls};
use crate::logs::formats::reading::reply::{Call, is_same_json};
use crate::trajectory::{Builder, Kind, LoggedEdit, Role, Step, Trajectory, Usage, action_text, step};

mod losses;
mod replace;
mod resized;
mod text;

pub(crate) use losses::{ABANDONED, EMPTY_RUN, EMPTY_SUMMARY, Losses, SUMMARISER, UNTOLD};
pub(crate) use text::{clean, enclosed, is_harness};

use text::without_enclosed;

/// How much of the first user message is kept as the goal.
const GOAL_CHARS: usize = 4000;

#[derive(Default)]
pub(crate) struct Draft {
    builder: Builder,
    pub(crate) losses: Losses,
    open: OpenCalls,
    /// The newest result of each logged id, by its step.
    answered: HashMap<String, usize>,
    /// Usage of the call that began, and where it stands, until its first step.
    usage: Option<(Usage, (u32, Option<i64>))>,
    /// A call began and has no step yet.
    is_begun: bool,
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
        (self.usage, self.is_begun) = (None, false);
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
        self.end_blank();
        self.model_of_call.clone_from(&self.other_model);
        self.builder.begin_call();
        self.is_begun = true;
    }

    /// What the provider counted for the call that began; it goes to the first step of the reply.
    pub(crate) fn usage(&mut self, usage: Option<Usage>) {
        let place = (self.message, self.time);
        self.usage = usage.map(|usage| (usage, place)).or(self.usage);
    }

    /// Says which model the replies from here on are of: the first one is that of the run.
    pub(crate) fn model(&mut self, name: &str) {
        let is_first = self.model.get_or_insert_with(|| name.to_owned()) == name;
        self.other_model = (!is_first).then(|| name.into());
    }

    /// A call that was billed and said nothing is a turn, too: a message without text has its usage.
    fn end_blank(&mut self) {
        let Some((usage, (message, time))) = self.usage else { return };
        // Where nothing came back the call failed.
        if self.is_begun && usage.output != Some(0) {
            let place = (self.message, self.time);
            (self.message, self.time) = (message, time);
            self.losses.add("reply without text that was billed");
            self.push(step(Role::Agent, Kind::Message, ""));
            (self.message, self.time) = place;
        } else {
            self.usage = None;
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

    /// What the provider counted for the call that wrote the summary, if a compaction is among the steps from this one on.
    pub(crate) fn written_with(&mut self, usage: Option<Usage>, from: usize) {
        let Some(usage) = usage else { return };
        match self.builder.steps_mut()[from..].iter_mut().rfind(|step| step.kind == Kind::Compaction) {
            Some(summary) => summary.usage = Some(Box::new(usage)),
            None => self.losses.add("usage of a compaction left out"),
        }
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
        self.end_blank();
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
        if !step.is_agent() {
            self.end_blank();
        }
        clean(&mut step.text, &mut self.losses);
        step.message = self.message;
        step.time = self.time;
        if step.is_agent() {
            step.usage = self.usage.take().map(|(usage, _)| Box::new(usage));
            step.model = self.model_of_call.take();
            self.is_begun = false;
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

/// Notes an edit of a step. The first one stands: an edited text is not edited again.
fn edit(step: &mut Step, from: u32, text: &str) -> bool {
    if step.edit.is_none() {
        step.edit = Some(Box::new(LoggedEdit { from, text: text.to_owned() }));
    }
    true
}

#[cfg(test)]
mod tests;
