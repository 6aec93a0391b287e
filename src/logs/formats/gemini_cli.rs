//! Chats of Gemini CLI: a session as one JSON document, or as lines; and checkpoints of `/chat save`.
//!
//! - Lines: a header, then messages. A message is written again whenever it changes: the last line of an id counts, at the
//!   place of the first one.
//! - `{"$set": {"messages": [..]}}` replaces the list: what is gone of it was compacted, a result with another text was
//!   edited. `{"$rewindTo": id}` takes back that message and all behind it; an unknown id takes back all.
//! - A call stands with its result in the message of the reply. `content` is what the model saw, `displayContent` and
//!   `resultDisplay` are for the screen; so are messages of the types info, error and warning.
//! - No system prompt is recorded; of thoughts only summaries are. Usage: the prompt with its cached part, and the output with
//!   what was thought.

use std::collections::HashMap;

use super::reading::content::{Arguments, UNKNOWN_TOOL};
use super::reading::draft::{ABANDONED, Losses};
use super::reading::names::{Name, repository_of};
use super::reading::parts::{GeminiUsage, Parts, Turn};
use super::reading::reply::{Call, Reply};
use super::reading::scalar::Scalar;
use super::reading::{Draft, List, record};
use super::{Entry, Origin, Reading, Session, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "gemini-cli",
    summary: "Gemini CLI chats in JSON and JSONL, and its checkpoints",
    reading: Reading::Session { open: || Box::<Gemini>::default(), origin },
};

record! {
    /// A line of any kind, or the whole document.
    struct Line in "gemini" {
        session_id: String = "sessionId",
        project: String = "projectHash",
        directories: List<String> = "directories",
        messages: List<Logged> = "messages",
        history: List<Turn> = "history",
        set: Set = "$set",
        rewind_to: Name = "$rewindTo",
        id: Name = "id",
        timestamp: Scalar = "timestamp",
        kind: String = "type",
        content: Parts = "content",
        thoughts: List<Thought> = "thoughts",
        tokens: GeminiUsage = "tokens",
        model: String = "model",
        calls: List<ToolCall> = "toolCalls",
    }

    struct Set in "gemini.$set" {
        messages: List<Logged> = "messages",
        directories: List<String> = "directories",
    }

    struct Logged in "gemini.message" {
        id: Name = "id",
        timestamp: Scalar = "timestamp",
        kind: String = "type",
        content: Parts = "content",
        thoughts: List<Thought> = "thoughts",
        tokens: GeminiUsage = "tokens",
        model: String = "model",
        calls: List<ToolCall> = "toolCalls",
    }

    struct Thought in "gemini.thought" {
        subject: String = "subject",
        description: String = "description",
    }

    struct ToolCall in "gemini.toolCall" {
        id: String = "id",
        name: String = "name",
        args: Arguments = "args",
        result: Parts = "result",
        status: String = "status",
    }
}

#[derive(Default)]
struct Gemini {
    runs: Vec<Run>,
    losses: Losses,
}

/// What makes the context, in order: messages by their numbers.
enum Event {
    Message(usize),
    Set(Vec<usize>),
    Turns(Vec<Turn>),
}

#[derive(Default)]
struct Run {
    session_id: Option<String>,
    directory: Option<String>,
    messages: Vec<Option<Logged>>,
    /// The messages of each id, in all lists.
    by_id: HashMap<String, Vec<usize>>,
    /// The ids of the current list.
    live: Vec<String>,
    events: Vec<Event>,
}

impl Session for Gemini {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        if bytes.first() == Some(&b'[') {
            let turns: List<Turn> = serde_json::from_slice(bytes)?;
            self.runs.push(Run { events: vec![Event::Turns(turns.0)], ..Run::default() });
            return Ok(());
        }
        let mut line: Line = serde_json::from_slice(bytes)?;
        let run = self.run_of(&mut line);
        let directories =
            line.directories.or_else(|| line.set.as_mut().and_then(|set| set.directories.take()));
        run.directory =
            run.directory.take().or_else(|| directories.and_then(|list| list.0.into_iter().next()));
        if let Some(turns) = line.history {
            run.events.push(Event::Turns(turns.0));
        }
        if let Some(messages) = line.messages {
            messages.0.into_iter().for_each(|message| run.add(message));
        }
        let mut n_unseen = 0;
        if let Some(messages) = line.set.and_then(|set| set.messages) {
            n_unseen = run.set(messages.0);
        }
        if let Some(id) = line.rewind_to {
            let n = run.rewind(&id.0);
            self.losses.add_n(ABANDONED, n);
        } else if let Some(kind) = line.kind {
            let Line { id, timestamp, content, thoughts, tokens, model, calls, .. } = line;
            run.add(Logged { id, timestamp, kind: Some(kind), content, thoughts, tokens, model, calls });
        }
        self.losses.add_n("message that was replaced before a call saw it left out", n_unseen);
        Ok(())
    }

    fn finish(self: Box<Self>, sink: &mut Sink<'_>) {
        sink.losses.merge(&self.losses);
        if self.runs.is_empty() {
            Draft::new().finish(Trajectory::default(), sink);
        }
        for run in self.runs {
            run.finish(sink);
        }
    }
}

impl Gemini {
    /// The run that a line belongs to: a header of another session begins another one.
    fn run_of(&mut self, line: &mut Line) -> &mut Run {
        let known = self.runs.last().map(|run| &run.session_id);
        let is_other = match (known, &line.session_id) {
            (None, _) => true,
            (Some(Some(known)), Some(new)) => known != new && line.project.is_some(),
            _ => false,
        };
        if is_other {
            self.runs.push(Run::default());
        }
        let run = self.runs.last_mut().expect("there is a run");
        run.session_id = run.session_id.take().or(line.session_id.take());
        run
    }
}

impl Run {
    fn add(&mut self, message: Logged) {
        let id = message.id.as_ref().map_or("", |id| &id.0).to_owned();
        if let Some(known) =
            self.by_id.get(&id).and_then(|all| all.last().copied()).filter(|_| !id.is_empty())
        {
            self.messages[known] = Some(message);
            return;
        }
        let at = self.keep(id.clone(), message);
        self.live.push(id);
        self.events.push(Event::Message(at));
    }

    fn keep(&mut self, id: String, message: Logged) -> usize {
        self.messages.push(Some(message));
        let at = self.messages.len() - 1;
        self.by_id.entry(id).or_default().push(at);
        at
    }

    /// Replaces the list; says how many messages of the one before no call saw. A session that goes on is begun anew and then
    /// filled, or written down once more: those replies were not counted again.
    fn set(&mut self, messages: Vec<Logged>) -> u64 {
        self.live.clear();
        let mut list = Vec::with_capacity(messages.len());
        for message in messages {
            let id = message.id.as_ref().map_or("", |id| &id.0).to_owned();
            list.push(self.keep(id.clone(), message));
            self.live.push(id);
        }
        let n_unseen = self.drop_unseen();
        self.events.push(Event::Set(list));
        n_unseen
    }

    /// Drops the newest list with what was written behind it, if that is nothing, or if no reply among it was counted.
    fn drop_unseen(&mut self) -> u64 {
        let Some(from) = self.events.iter().rposition(|event| matches!(event, Event::Set(_))) else {
            return 0;
        };
        let behind = self.events[from + 1..].iter().filter_map(|event| match event {
            Event::Message(at) => self.messages[*at].as_ref(),
            _ => None,
        });
        let is_reply =
            |message: &&Logged| matches!(message.kind.as_deref(), Some("gemini" | "model" | "assistant"));
        let n_replies = behind.clone().filter(is_reply).count();
        let is_counted = |message: &Logged| message.tokens.is_some();
        let is_seen = behind.clone().any(is_counted) || !self.messages.iter().flatten().any(is_counted);
        if behind.clone().next().is_some() && (is_seen || n_replies == 0) {
            return 0;
        }
        let n = |event: Event| if let Event::Set(list) = event { list.len() } else { 1 };
        self.events.drain(from..).map(n).sum::<usize>() as u64
    }

    /// Takes back what stands from this message on, in all lists; says how many messages.
    fn rewind(&mut self, id: &str) -> u64 {
        let from = self.live.iter().rposition(|known| known == id).unwrap_or(0);
        let gone = self.live.split_off(from);
        for at in gone.iter().filter_map(|id| self.by_id.remove(id)).flatten() {
            self.messages[at] = None;
        }
        gone.len() as u64
    }

    /// Puts calls that stand in a message of their own into the reply before it: where thoughts come late the product parts one.
    fn join(&mut self, losses: &mut Losses) {
        let mut reply: Option<usize> = None;
        for event in 0..self.events.len() {
            let list = match &self.events[event] {
                Event::Message(at) => vec![*at],
                Event::Set(list) => list.clone(),
                Event::Turns(_) => Vec::new(),
            };
            let is_set = matches!(self.events[event], Event::Set(_));
            // What the program answers to a summary is no reply that goes on behind the list.
            reply.take_if(|_| is_set);
            list.into_iter().for_each(|at| self.join_one(at, &mut reply, losses));
            reply.take_if(|_| is_set);
        }
    }

    fn join_one(&mut self, at: usize, reply: &mut Option<usize>, losses: &mut Losses) {
        let Some(message) = &mut self.messages[at] else { return };
        match message.kind.as_deref() {
            Some("info" | "error" | "warning") => {}
            Some("gemini") if message.calls.is_none() => *reply = Some(at),
            Some("gemini") if message.is_calls_alone() && reply.is_some() => {
                let calls = message.calls.take();
                self.messages[at] = None;
                if let Some(known) = reply.take().and_then(|reply| self.messages[reply].as_mut()) {
                    known.calls = calls;
                    losses.add("calls of a reply in a message of their own joined to it");
                }
            }
            _ => *reply = None,
        }
    }

    fn finish(mut self, sink: &mut Sink<'_>) {
        let mut draft = Draft::new();
        self.join(&mut draft.losses);
        for event in std::mem::take(&mut self.events) {
            match event {
                Event::Message(at) => self.write(at, &mut draft),
                Event::Set(list) => {
                    let mut new = Draft::new();
                    list.into_iter().for_each(|at| self.write(at, &mut new));
                    draft.replace(new);
                }
                Event::Turns(turns) => turns.into_iter().enumerate().for_each(|(i, turn)| {
                    draft.at(i, None);
                    turn.write(&mut draft);
                }),
            }
        }
        let about = Trajectory {
            repository: self.directory.as_deref().and_then(repository_of),
            agent: Some("gemini-cli".to_owned()),
            ..Trajectory::default()
        }
        .of_session(self.session_id, &sink.source.stem);
        draft.finish(about, sink);
    }

    fn write(&mut self, at: usize, draft: &mut Draft) {
        let Some(message) = self.messages[at].take() else {
            return;
        };
        let time = message.timestamp.unwrap_or_default().time(&mut draft.losses);
        draft.at(at, time);
        if let Some(model) = &message.model {
            draft.model(model);
        }
        match message.kind.as_deref().unwrap_or("") {
            "user" => message.content.unwrap_or_default().write_user(draft),
            "gemini" | "model" | "assistant" => message.write_reply(draft),
            kind @ ("info" | "error" | "warning") => {
                draft.losses.add(&format!("message for the screen left out: {kind}"));
            }
            _ => {
                draft.losses.add("message of unknown role kept as text");
                let text = message.content.unwrap_or_default().into_text(&mut draft.losses);
                draft.notice(text);
            }
        }
    }
}

impl Logged {
    /// Whether it says and counts nothing but calls.
    fn is_calls_alone(&self) -> bool {
        let is_blank = |parts: &Parts| parts.0.iter().all(|part| part.is_blank());
        self.content.as_ref().is_none_or(is_blank)
            && self.thoughts.as_ref().is_none_or(|thoughts| thoughts.0.is_empty())
            && self.tokens.as_ref().and_then(|tokens| tokens.usage()).is_none()
    }

    fn write_reply(self, draft: &mut Draft) {
        let mut reply = Reply::begin(self.tokens.and_then(|tokens| tokens.usage()), draft);
        for thought in self.thoughts.unwrap_or_default().0 {
            let texts: Vec<String> = [thought.subject, thought.description].into_iter().flatten().collect();
            reply.thought(texts.join("\n"), draft);
        }
        self.content.unwrap_or_default().write_reply(&mut reply, draft);
        let mut results = Vec::new();
        for call in self.calls.unwrap_or_default().0 {
            let tool = call.name.unwrap_or_else(|| UNKNOWN_TOOL.to_owned());
            let arguments = call.args.unwrap_or_default().0;
            reply.call(Call::new(call.id.clone(), tool.clone(), arguments), &mut Vec::new(), draft);
            let mut result = call.result.unwrap_or_default();
            // A session that goes on has the results of all calls of a reply at each of them.
            let is_own = |id: &Option<String>| id.is_none() || *id == call.id;
            result
                .0
                .retain(|part| part.function_response.as_ref().is_none_or(|response| is_own(&response.id)));
            results.push((call.id, tool, result, call.status));
        }
        reply.end(draft);
        for (id, tool, result, status) in results {
            write_result(id, tool, result, status.as_deref(), draft);
        }
    }
}

/// The result of a call; parts beside the response are data that the tool read.
fn write_result(id: Option<String>, tool: String, result: Parts, status: Option<&str>, draft: &mut Draft) {
    if result.0.is_empty() {
        return;
    }
    let is_error = match status {
        Some("success") => Some(false),
        Some("error" | "cancelled") => Some(true),
        _ => None,
    };
    let text = result.into_text(&mut draft.losses);
    let name = Some(tool).filter(|_| id.is_none());
    draft.result(id.as_deref(), name, text, is_error);
}

/// The session that a file begins with.
fn origin(head: &[u8], _whole: bool) -> Origin {
    let head = &head[..head.len().min(4096)];
    let value = |key: &str| {
        let at = memchr::memmem::find(head, format!("\"{key}\"").as_bytes())? + key.len() + 2;
        let rest =
            head[at..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
        let end = memchr::memchr(b'"', rest)?;
        std::str::from_utf8(&rest[..end]).ok().map(str::to_owned)
    };
    match (value("sessionId"), value("projectHash")) {
        (Some(id), Some(_)) => Origin::Uuid(id),
        _ => Origin::None,
    }
}

#[cfg(test)]
mod tests;
