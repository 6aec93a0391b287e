//! A prompt as messages in an order that every API takes.
//!
//! A call and its result are one: the result stands behind the reply that called, wherever it came in the log. A call whose
//! result is not there has one that says so, since no API takes it without; it is counted. What an event left that is no message (a
//! summary, excerpts) is said by the user, as most products do, or by whom the policy says.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::context::log::Log;
use crate::context::messages::Speaker;
use crate::context::{Block, Content};
use crate::trajectory::{Kind, Role};

use super::words::Words;

/// What stands for a result that is not there.
pub const NO_RESULT: &str = "(no result)";

#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    System(String),
    User(String),
    Reply(Reply),
}

/// What the agent said and called, with the results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// Empty where it only called.
    pub text: String,
    pub calls: Vec<Call>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub id: String,
    pub step: u32,
    pub name: String,
    pub arguments: Map<String, Value>,
    pub result: String,
    pub is_error: bool,
}

/// A prompt as messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    /// Schemas of the tools, as the log has them.
    pub tools: Option<Value>,
    pub messages: Vec<Message>,
    /// What was added, or left out, and how often.
    pub notes: BTreeMap<&'static str, u64>,
}

/// What some messages hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub system: u64,
    pub user: u64,
    /// Replies with a text.
    pub replies: u64,
    pub calls: u64,
    pub results: u64,
}

impl Counts {
    pub fn of(messages: &[Message]) -> Self {
        let mut counts = Counts::default();
        for message in messages {
            match message {
                Message::System(_) => counts.system += 1,
                Message::User(_) => counts.user += 1,
                Message::Reply(reply) => {
                    counts.replies += u64::from(!reply.text.is_empty());
                    counts.calls += reply.calls.len() as u64;
                    counts.results += reply.calls.len() as u64;
                }
            }
        }
        counts
    }

    pub fn add(&mut self, other: Counts) {
        self.system += other.system;
        self.user += other.user;
        self.replies += other.replies;
        self.calls += other.calls;
        self.results += other.results;
    }
}

impl Prompt {
    /// The messages of these blocks; the system prompt and the tools only `with_system`. What events left is said by `made_by`.
    pub fn of(log: &Log, blocks: &[Block], words: &Words<'_>, with_system: bool, made_by: Speaker) -> Self {
        let mut writer = Writer {
            log,
            words,
            blocks,
            results: results(log, blocks),
            with_system,
            made_by,
            prompt: Prompt::default(),
            turn: None,
            is_made: false,
        };
        let taken: HashSet<usize> = writer.results.values().flatten().copied().collect();
        for (at, block) in blocks.iter().enumerate() {
            writer.push(block, taken.contains(&at));
        }
        writer.prompt.tidy();
        writer.prompt
    }

    /// Leaves out what says nothing, and joins replies between which nobody spoke.
    fn tidy(&mut self) {
        for message in std::mem::take(&mut self.messages) {
            match (message, self.messages.last_mut()) {
                (Message::System(text) | Message::User(text), _) if text.trim().is_empty() => {
                    self.note("empty message left out");
                }
                (Message::Reply(reply), _) if reply.calls.is_empty() && reply.text.trim().is_empty() => {
                    self.note("empty message left out");
                }
                (Message::Reply(reply), Some(Message::Reply(last))) if last.calls.is_empty() => {
                    join(&mut last.text, &reply.text, "\n\n");
                    last.calls = reply.calls;
                }
                (message, _) => self.messages.push(message),
            }
        }
        for message in &mut self.messages {
            if let Message::Reply(reply) = message
                && reply.text.trim().is_empty()
            {
                reply.text.clear();
            }
        }
    }

    /// Names calls as the log does, if all have ids there that tell them apart.
    pub fn with_logged_ids(&mut self, log: &Log) {
        let replies = self.messages.iter_mut().filter_map(|message| match message {
            Message::Reply(reply) => Some(&mut reply.calls),
            _ => None,
        });
        let calls: Vec<&mut Call> = replies.flatten().collect();
        let id = |call: &Call| log.trajectory.steps[call.step as usize].call_id.clone();
        let ids: Option<Vec<_>> = calls.iter().map(|call| id(call).filter(|id| !id.is_empty())).collect();
        let Some(ids) = ids.filter(|ids| ids.iter().collect::<HashSet<_>>().len() == ids.len()) else {
            return;
        };
        for (call, id) in calls.into_iter().zip(ids) {
            call.id = id.into();
        }
    }

    pub fn note(&mut self, what: &'static str) {
        *self.notes.entry(what).or_default() += 1;
    }
}

/// The results that stand as messages, by the call that stands as one, too: by id, or by place.
fn results(log: &Log, blocks: &[Block]) -> HashMap<u32, Vec<usize>> {
    let calls = blocks.iter().filter_map(Block::message).filter(|&step| log.kind(step) == Kind::Action);
    let calls: HashSet<u32> = calls.collect();
    let mut results: HashMap<u32, Vec<usize>> = HashMap::new();
    for (at, block) in blocks.iter().enumerate() {
        let Some(step) = block.message().filter(|&step| log.kind(step) == Kind::Observation) else {
            continue;
        };
        let pair = log.pairs.with(step).unwrap_or_default().iter().rev().copied();
        let by_id = pair.filter(|&other| other < step).find(|other| calls.contains(other));
        if let Some(call) = by_id.or_else(|| log.call_of(step).filter(|call| calls.contains(call))) {
            results.entry(call).or_default().push(at);
        }
    }
    results
}

struct Writer<'a> {
    log: &'a Log,
    words: &'a Words<'a>,
    blocks: &'a [Block],
    /// By step of the call, where its results stand.
    results: HashMap<u32, Vec<usize>>,
    with_system: bool,
    made_by: Speaker,
    prompt: Prompt,
    /// The turn of the reply that may go on.
    turn: Option<u32>,
    /// Whether the last message is what an event left.
    is_made: bool,
}

impl Writer<'_> {
    fn push(&mut self, block: &Block, is_taken: bool) {
        let was_made = std::mem::replace(&mut self.is_made, block.message().is_none());
        let text = self.words.text(block);
        let Some(step) = block.message() else {
            self.turn = None;
            match self.prompt.messages.last_mut().filter(|_| was_made) {
                Some(Message::User(before) | Message::System(before)) => join(before, &text, "\n"),
                Some(Message::Reply(before)) => join(&mut before.text, &text, "\n"),
                None => self.prompt.messages.push(match self.made_by {
                    Speaker::User => Message::User(text),
                    Speaker::System => Message::System(text),
                    Speaker::Assistant => Message::Reply(Reply { text, calls: Vec::new() }),
                }),
            }
            return;
        };
        let (kind, role) = (self.log.kind(step), self.log.trajectory.steps[step as usize].role);
        match (kind, role) {
            (Kind::Action, _) => self.call(step, block, text),
            (Kind::Observation, _) if is_taken => self.turn = None,
            (Kind::Compaction | Kind::Observation, _) => self.say(Message::User(text)),
            (Kind::Tools, _) => self.tools(text),
            (Kind::System, _) => self.system(text),
            // Before the first call it is the system prompt, too; a notice of later is a part of the run.
            (_, Role::System) if block.turn == 0 => self.system(text),
            (_, Role::System) => self.say(Message::System(text)),
            (_, Role::Agent) => {
                if kind == Kind::Thought {
                    self.prompt.note("thought written as words of the agent");
                }
                self.reply(block.turn, text);
            }
            (_, Role::User | Role::Tool) => self.say(Message::User(text)),
        }
    }

    fn say(&mut self, message: Message) {
        self.turn = None;
        self.prompt.messages.push(message);
    }

    fn system(&mut self, text: String) {
        match self.with_system {
            true => self.say(Message::System(text)),
            false => self.prompt.note("system message left out"),
        }
    }

    fn tools(&mut self, text: String) {
        if !self.with_system {
            return self.prompt.note("schemas of tools left out");
        }
        match serde_json::from_str::<Value>(&text) {
            Ok(tools) if tools.is_array() && self.prompt.tools.is_none() => self.prompt.tools = Some(tools),
            _ => self.say(Message::System(text)),
        }
    }

    /// The reply of a turn, which goes on until somebody else speaks, or words follow its calls.
    fn open(&mut self, turn: u32, is_words: bool) -> &mut Reply {
        let goes_on = self.turn == Some(turn)
            && matches!(self.prompt.messages.last(), Some(Message::Reply(r)) if r.calls.is_empty() || !is_words);
        if !goes_on {
            self.say(Message::Reply(Reply::default()));
            self.turn = Some(turn);
        }
        match self.prompt.messages.last_mut() {
            Some(Message::Reply(reply)) => reply,
            _ => unreachable!("a reply was opened"),
        }
    }

    fn reply(&mut self, turn: u32, text: String) {
        join(&mut self.open(turn, true).text, &text, "\n\n");
    }

    fn call(&mut self, step: u32, block: &Block, text: String) {
        let logged = &self.log.trajectory.steps[step as usize];
        let tool = logged.tool.as_deref().unwrap_or_default();
        let is_whole = matches!(block.content, Content::Step(_));
        let arguments = self.words.arguments(step).filter(|_| is_whole);
        let said = || text.strip_prefix(tool).map_or(text.as_str(), str::trim_start).to_owned();
        let arguments = match arguments.as_deref().map(serde_json::from_str::<Value>) {
            Some(Ok(Value::Object(arguments))) => arguments,
            Some(_) => input(arguments.unwrap_or_default()),
            None => input(said()),
        };
        let (mut result, mut is_error) = (String::new(), false);
        let standing = self.results.get(&step).cloned();
        for &at in standing.iter().flatten() {
            let block = &self.blocks[at];
            let of = block.message().map(|step| &self.log.trajectory.steps[step as usize]);
            is_error |= of.is_some_and(|step| step.is_error == Some(true));
            join(&mut result, &self.words.text(block), "\n");
        }
        if standing.is_none() {
            result = NO_RESULT.to_owned();
            self.prompt.note("result that is not there added, as \"(no result)\"");
        }
        let call = Call { id: format!("call_{step}"), step, name: name(tool), arguments, result, is_error };
        self.open(block.turn, false).calls.push(call);
    }
}

fn input(text: String) -> Map<String, Value> {
    Map::from_iter([("input".to_owned(), text.into())])
}

fn join(to: &mut String, text: &str, between: &str) {
    if !to.is_empty() && !text.is_empty() {
        to.push_str(between);
    }
    to.push_str(text);
}

/// The name of a tool in the letters that APIs take.
pub fn name(tool: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let name: String = tool.chars().take(64).map(plain).collect();
    if name.is_empty() { "tool".to_owned() } else { name }
}
