//! One logged run of one agent on one task: the plain data that every other module speaks of.
//!
//! Uses no other module. Readers (`formats`) fill a [`Builder`], which is the one place where
//! steps are grouped into turns and segments; `store` writes and reads the result.

pub mod arguments;
pub mod pairs;
pub mod usage;

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Who a step belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    System,
    User,
    Agent,
    Tool,
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// System prompt.
    System,
    /// Schema of the tools that the agent may call; part of every prompt.
    Tools,
    /// A worked example that stands in every prompt of the agent and is no part of its run.
    Demonstration,
    /// Plain text by the user or by the agent.
    Message,
    /// Reasoning of the agent that goes with a call.
    Thought,
    /// A call of a tool by the agent.
    Action,
    /// Output of a tool, or of the environment.
    Observation,
    /// A compaction that the log itself contains: its text is what took the place of the past.
    Compaction,
}

macro_rules! names {
    ($type:ident: $($variant:ident = $name:literal),+ $(,)?) => {
        impl $type {
            /// The name used in tables.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
            /// The inverse of [`Self::name`].
            pub fn parse(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}
names!(Role: System = "system", User = "user", Agent = "agent", Tool = "tool");
names!(Kind: System = "system", Tools = "tools", Demonstration = "demonstration", Message = "message", Thought = "thought",
    Action = "action", Observation = "observation", Compaction = "compaction");

/// What the provider counted for one reply, in its own tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// The whole prompt: fresh, read from the cache and written to it; 0 where the reply alone was counted.
    pub input: u64,
    /// What the model wrote, where logged.
    pub output: Option<u64>,
    /// The part of the prompt that the cache served, where logged.
    pub cache_read: Option<u64>,
    /// The part of the prompt that was written to the cache, where logged.
    pub cache_write: Option<u64>,
    /// The part of what was written that lives for an hour, where logged; the rest lives for five minutes.
    pub cache_write_1h: Option<u64>,
    /// The part of the output that is reasoning, where logged.
    pub reasoning: Option<u64>,
    /// What the call cost in USD by the log's own count, where logged.
    pub cost: Option<f64>,
}

/// Tokens of the whole context before and behind a compaction, or an edit, by the count of the product that made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resized {
    pub from: Option<u64>,
    pub to: Option<u64>,
}

impl Resized {
    /// As it stands on a step; none where neither is known.
    pub fn known(self) -> Option<Box<Self>> {
        (self != Resized::default()).then(|| Box::new(self))
    }
}

/// An edit of the context that the log records: what was sent in the place of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedEdit {
    /// The turn from whose decision on, within the step's segment.
    pub from: u32,
    /// The text that was sent instead; empty if the step was left out.
    pub text: String,
}

/// One entry of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Turn it belongs to; 0 is the head, all that stands before the agent's first call.
    pub turn: u32,
    /// Segment it belongs to; a compaction that the log contains opens the next one.
    pub segment: u32,
    pub role: Role,
    pub kind: Kind,
    /// What the model saw or wrote. For an action: the call in readable form (see [`action_text`]).
    pub text: String,
    /// Name of the tool, of actions and of their observations where known.
    pub tool: Option<Box<str>>,
    /// Id that ties an observation to its action; unique within a trajectory.
    pub call_id: Option<Box<str>>,
    /// Arguments of an action as logged (JSON text where the log has JSON).
    pub arguments: Option<Box<str>>,
    /// Microseconds since 1970 UTC, where logged. Not monotone.
    pub time: Option<i64>,
    /// Whether the tool said that it failed, where logged.
    pub is_error: Option<bool>,
    /// Index of the logged message that this step came from (annotations count messages).
    pub message: u32,
    /// Where the reply's usage is logged: on the first step of the reply, once. On a compaction it is that of the call that
    /// wrote the summary.
    pub usage: Option<Box<Usage>>,
    /// On the first step of a reply: its model, where the log names another than that of the first reply.
    pub model: Option<Box<str>>,
    /// Where the log records that the agent's model was later sent something else in its place.
    pub edit: Option<Box<LoggedEdit>>,
    /// Where a compaction that the log records kept it: the last segment in whose prompts it stands, behind the summary.
    pub kept_to: Option<u32>,
    /// On a compaction, and on a step that an edit took out or replaced: what the log's record of that says it did to the context.
    pub resized: Option<Box<Resized>>,
}

impl Step {
    /// Whether the agent's model wrote it.
    pub fn is_agent(&self) -> bool {
        self.role == Role::Agent
    }
}

/// Steps are hashed in large pieces, which is several times faster than field by field.
const PIECE: usize = 128 << 10;

/// One logged run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trajectory {
    /// Content hash (32 hex digits), see [`Self::content_id`].
    pub id: String,
    /// Path of the file it was read from, relative to what was given on the command line.
    pub source: String,
    /// Name of the reader.
    pub format: String,
    pub task_id: Option<String>,
    /// The task id is made from the file's name, since the log has none. Not stored.
    pub is_named_by_file: bool,
    /// `owner/name` of the repository, domain or scenario, where known: the cluster of the statistics.
    pub repository: Option<String>,
    pub agent: Option<String>,
    pub model: Option<String>,
    /// The task as the first user message or an annotation states it.
    pub goal: Option<String>,
    pub constraints: Vec<String>,
    /// Exit status as logged.
    pub outcome: Option<String>,
    /// Reward as logged; null is unknown, never 0.
    pub reward: Option<f64>,
    /// Whether the task was solved, where a log or a label file says so.
    pub resolved: Option<bool>,
    /// Where reward and resolved come from: `log`, or the path of a label file.
    pub label_source: Option<String>,
    /// The `annotations` object of the annotated form, as JSON text.
    pub annotations: Option<String>,
    /// What the log names the run that this one was started by: a session, a task.
    pub parent: Option<String>,
    /// What the log names this run, by a name that no other run has: the id of a session, not that of a task. Not stored; see
    /// `source_key` of the tables.
    pub session: Option<String>,
    /// Tokens of all prompts together, as the log counts them.
    pub tokens_sent: Option<u64>,
    /// What the run cost in USD, as the log sums it up.
    pub cost: Option<f64>,
    /// The policy behind the edits that the log records, in words.
    pub policy: Option<String>,
    pub steps: Vec<Step>,
}

impl Trajectory {
    /// The run of a session, by the id that the log gives it; `name` is that of the file.
    pub fn of_session(self, logged: Option<String>, name: &str) -> Self {
        Trajectory {
            is_named_by_file: logged.is_none(),
            task_id: logged.clone().or_else(|| Some(name.to_owned())),
            session: logged,
            ..self
        }
    }

    /// Number of turns after the head.
    pub fn n_turns(&self) -> u32 {
        self.steps.last().map_or(0, |s| s.turn)
    }

    /// Whether its prompts were cached for an hour and not for five minutes, by what was written more; none where the log does not say.
    pub fn is_cached_an_hour(&self) -> Option<bool> {
        let written = |usage: &Usage| Some((usage.cache_write?, usage.cache_write_1h?));
        let usages = self.steps.iter().filter_map(|step| written(step.usage.as_deref()?));
        let (all, hour) = usages
            .fold((0, 0), |(all, hour): (u128, u128), (n, m)| (all + u128::from(n), hour + u128::from(m)));
        (all > 0).then_some(2 * hour > all)
    }

    /// Computes the content hash: format and task id, then roles, kinds, turns, segments, texts, tools and call
    /// ids, usage and logged edits in order. Where the task id is made from the file's name, the same log under another name has
    /// another hash.
    pub fn content_id(&self) -> String {
        self.hash(self.task_id.as_deref().unwrap_or(""))
    }

    /// The id, or where the task id is made from the file's name the hash without it: the same for the same
    /// log under any name.
    pub fn log_id(&self) -> String {
        if self.is_named_by_file { self.hash("") } else { self.id.clone() }
    }

    /// Hash of all that the steps hold, what the id leaves out included.
    pub fn content(&self) -> String {
        let mut hash = blake3::Hasher::new();
        let mut piece = self.id.clone();
        for Step { time, is_error, message, arguments, usage, model, resized, .. } in &self.steps {
            let more = usage.as_ref().map(|usage| (usage.reasoning, usage.cost));
            // Nothing goes wrong in writing to a text.
            let _ = write!(piece, "{time:?} {is_error:?} {message} {arguments:?} {more:?} {model:?}");
            if let Some(resized) = resized {
                let _ = write!(piece, " {resized:?}");
            }
            if piece.len() >= PIECE {
                hash.update(piece.as_bytes());
                piece.clear();
            }
        }
        hash.update(piece.as_bytes());
        hash.finalize().to_hex()[..32].to_owned()
    }

    fn hash(&self, task_id: &str) -> String {
        let mut hash = blake3::Hasher::new();
        let mut piece = Vec::with_capacity(8 << 10);
        let mut part = |bytes: &[u8]| {
            piece.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            piece.extend_from_slice(bytes);
            if piece.len() >= PIECE {
                hash.update(&piece);
                piece.clear();
            }
        };
        part(self.format.as_bytes());
        part(task_id.as_bytes());
        for step in &self.steps {
            part(&[step.role as u8, step.kind as u8]);
            part(&step.turn.to_le_bytes());
            part(&step.segment.to_le_bytes());
            part(step.text.as_bytes());
            part(step.tool.as_deref().unwrap_or("").as_bytes());
            part(step.call_id.as_deref().unwrap_or("").as_bytes());
            if let Some(usage) = &step.usage {
                let known = [Some(usage.input), usage.output, usage.cache_read, usage.cache_write];
                part(b"usage");
                known.iter().for_each(|n| part(&n.unwrap_or(u64::MAX).to_le_bytes()));
                if let Some(n) = usage.cache_write_1h {
                    part(b"hour");
                    part(&n.to_le_bytes());
                }
            }
            if let Some(edit) = &step.edit {
                part(b"edit");
                part(&edit.from.to_le_bytes());
                part(edit.text.as_bytes());
            }
            if let Some(segment) = step.kept_to {
                part(b"kept");
                part(&segment.to_le_bytes());
            }
        }
        hash.update(&piece);
        hash.finalize().to_hex()[..32].to_owned()
    }
}

/// Groups steps into turns and segments while a reader pushes them in the order of the log.
///
/// A turn is one model call with all its tool results; in plain chat a user message with the
/// reply. What stands before the first call is turn 0, the head.
#[derive(Default)]
pub struct Builder {
    steps: Vec<Step>,
    turn: u32,
    segment: u32,
    state: State,
}

#[derive(Default, PartialEq, Clone, Copy)]
enum State {
    #[default]
    Head,
    /// A user message (or compaction) opened the turn and no call followed yet.
    Open,
    /// The turn has its call.
    Called,
}

impl Builder {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The same, to note what the log tells of a step only later.
    pub fn steps_mut(&mut self) -> &mut [Step] {
        &mut self.steps
    }

    /// Whether no call was made yet.
    pub fn is_head(&self) -> bool {
        self.state == State::Head && self.turn == 0
    }

    /// The turn of the decision that comes next, should a call follow.
    pub fn next_turn(&self) -> u32 {
        self.turn + u32::from(self.state != State::Open)
    }

    /// The turn of the newest step or call.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// Says that the agent steps pushed from here on belong to a new model call.
    pub fn begin_call(&mut self) {
        match self.state {
            State::Open => {}
            State::Head | State::Called => self.turn += 1,
        }
        self.state = State::Called;
    }

    /// Appends a step; `turn` and `segment` are set here.
    pub fn push(&mut self, mut step: Step) {
        match (step.kind, step.role) {
            (Kind::Compaction, _) => {
                self.segment += 1;
                self.turn += 1;
                self.state = State::Open;
            }
            (_, Role::Agent) if self.state != State::Called => self.begin_call(),
            (Kind::Message, Role::User) if self.state == State::Called => {
                self.turn += 1;
                self.state = State::Open;
            }
            _ => {}
        }
        step.turn = self.turn;
        step.segment = self.segment;
        self.steps.push(step);
    }

    pub fn finish(self) -> Vec<Step> {
        self.steps
    }
}

/// A step without text-independent fields; readers set what they know.
pub fn step(role: Role, kind: Kind, text: impl Into<String>) -> Step {
    Step {
        turn: 0,
        segment: 0,
        role,
        kind,
        text: text.into(),
        tool: None,
        call_id: None,
        arguments: None,
        time: None,
        is_error: None,
        message: 0,
        usage: None,
        model: None,
        edit: None,
        kept_to: None,
        resized: None,
    }
}

/// The readable form of a call: the tool's name, then its arguments with their escapes undone.
///
/// One string argument stands alone under the name; several are `key: value` lines.
/// Arguments that are not a JSON object stand as they are.
pub fn action_text(tool: &str, arguments: &str) -> String {
    let Ok(serde_json::Value::Object(map)) = serde_json::from_str(arguments) else {
        return format!("{tool}\n{arguments}");
    };
    let mut text = tool.to_owned();
    let single = map.len() == 1;
    for (key, value) in &map {
        text.push('\n');
        if !single {
            text.push_str(key);
            text.push_str(": ");
        }
        match value {
            serde_json::Value::String(s) => text.push_str(s),
            other => text.push_str(&other.to_string()),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_of_an_agent_log() {
        let mut b = Builder::new();
        b.push(step(Role::System, Kind::System, "s"));
        b.push(step(Role::User, Kind::Message, "task"));
        for _ in 0..2 {
            b.begin_call();
            b.push(step(Role::Agent, Kind::Thought, "t"));
            b.push(step(Role::Agent, Kind::Action, "a"));
            b.push(step(Role::Tool, Kind::Observation, "o"));
        }
        let turns: Vec<u32> = b.finish().iter().map(|s| s.turn).collect();
        assert_eq!(turns, [0, 0, 1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn turns_of_a_chat_and_of_a_compaction() {
        let mut b = Builder::new();
        for role in [Role::User, Role::Agent, Role::User, Role::Agent] {
            b.push(step(role, Kind::Message, "x"));
        }
        b.push(step(Role::User, Kind::Compaction, "summary"));
        b.push(step(Role::Agent, Kind::Message, "x"));
        let steps = b.finish();
        let turns: Vec<u32> = steps.iter().map(|s| s.turn).collect();
        assert_eq!(turns, [0, 1, 2, 2, 3, 3]);
        let segments: Vec<u32> = steps.iter().map(|s| s.segment).collect();
        assert_eq!(segments, [0, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn a_log_is_the_same_under_another_name() {
        let read = |task: &str, is_named_by_file: bool| {
            let mut t =
                Trajectory { task_id: Some(task.to_owned()), is_named_by_file, ..Trajectory::default() };
            t.steps.push(step(Role::User, Kind::Message, "task"));
            t.id = t.content_id();
            t
        };
        let (a, b) = (read("a", true), read("b", true));
        assert_ne!(a.id, b.id);
        assert_eq!(a.log_id(), b.log_id());
        let logged = read("a", false);
        assert_eq!((&logged.id, logged.log_id()), (&a.id, a.id.clone()));
        assert_ne!(logged.log_id(), read("b", false).log_id());
    }

    #[test]
    fn action_text_undoes_escapes() {
        assert_eq!(action_text("bash", r#"{"command":"a\nb"}"#), "bash\na\nb");
        assert_eq!(action_text("edit", r#"{"path":"p","n":1}"#), "edit\npath: p\nn: 1");
        assert_eq!(action_text("x", "{broken"), "x\n{broken");
    }
}
