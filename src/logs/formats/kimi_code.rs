//! The wire of Kimi Code: one JSON value a line, a file is one agent of a session.
//!
//! - The context is made of `context.append_message` and of the loop's events: a step is one reply, with its parts, calls and
//!   results, and its usage at its end. `turn.prompt` repeats what stands there, and so does `usage.record`, but for that of the call
//!   that writes a summary. `llm.request` names the model of a call.
//! - `context.apply_compaction` is a compaction: `contextSummary` stands in the context, behind the words of the user that it
//!   counts as kept, or in older versions before the messages that it does not count as compacted. `context.clear` is one
//!   without a text. `context.undo` takes back the newest prompts, with all behind them.
//! - Messages of another origin than the user are the harness's.

use std::collections::HashMap;

use super::reading::content::{Arguments, UNKNOWN_TOOL};
use super::reading::draft::{ABANDONED, Losses};
use super::reading::reply::{Call, Reply};
use super::reading::scalar::Scalar;
use super::reading::usage::TokenCounts;
use super::reading::{Content, Draft, heads, record};
use super::{Entry, Origin, Reading, Session, Sink, Source};
use crate::trajectory::{Kind, Role, Trajectory, Usage};

pub(super) const ENTRY: Entry = Entry {
    name: "kimi-code",
    summary: "Kimi Code wire files, with their compactions",
    reading: Reading::Session { open: || Box::<Kimi>::default(), origin: |_, _| Origin::None },
};

record! {
    struct Line in "kimi" {
        kind: String = "type",
        time: Scalar = "time",
        system: String = "systemPrompt",
        alias: String = "modelAlias",
        model: String = "model",
        // What a request is for: `loop`, or `compaction`.
        purpose: String = "kind",
        usage: KimiUsage = "usage",
        message: Message = "message",
        event: Event = "event",
        input: Content = "input",
        summary: Content = "summary",
        context_summary: String = "contextSummary",
        n_compacted: Scalar = "compactedCount" | "count",
        n_kept: Scalar = "keptUserMessageCount",
        tokens_before: Scalar = "tokensBefore",
        tokens_after: Scalar = "tokensAfter",
    }

    struct Message in "kimi.message" {
        role: String = "role",
        content: Content = "content",
        calls: super::reading::content::ToolCalls = "toolCalls",
        call_id: String = "toolCallId",
        is_error: Scalar = "isError",
        origin: From = "origin",
    }

    struct From in "kimi.origin" { kind: String = "kind" }

    struct Event in "kimi.event" {
        kind: String = "type",
        uuid: String = "uuid",
        step: String = "stepUuid",
        part: Content = "part",
        call_id: String = "toolCallId",
        name: String = "name",
        args: Arguments = "args",
        result: Outcome = "result",
        usage: KimiUsage = "usage",
    }

    struct Outcome in "kimi.result" {
        output: Content = "output",
        // What the program tells the model beside the output, in tags.
        note: String = "note",
        is_error: Scalar = "isError",
    }

    struct KimiUsage in "kimi.usage" {
        other: Scalar = "inputOther" | "input_other",
        output: Scalar = "output",
        cache_read: Scalar = "inputCacheRead" | "input_cache_read",
        cache_write: Scalar = "inputCacheCreation" | "input_cache_creation",
    }
}

impl KimiUsage {
    pub(super) fn usage(self) -> Option<Usage> {
        let KimiUsage { other, output, cache_read, cache_write } = self;
        let more_prompt = [cache_read, cache_write];
        TokenCounts { prompt: other, more_prompt, output, cache_read, cache_write, ..TokenCounts::default() }
            .usage()
    }
}

/// A message of the context, or what changes it.
enum Item {
    Message(Message),
    /// The reply of this step.
    Reply(usize),
    Result {
        id: Option<String>,
        outcome: Outcome,
    },
    System(String),
    /// With what was counted for the call that wrote it.
    Compaction(Box<Line>, Option<Usage>),
    Clear,
}

impl Item {
    /// Whether the user said it.
    fn is_prompt(&self) -> bool {
        matches!(self, Item::Message(message) if message.is_prompt())
    }
}

/// One reply: what it says, and what was counted.
#[derive(Default)]
struct Step {
    model: Option<String>,
    parts: Vec<Event>,
    usage: Option<Usage>,
}

#[derive(Default)]
struct Kimi {
    items: Vec<(usize, Option<i64>, Item)>,
    steps: Vec<Step>,
    by_uuid: HashMap<String, usize>,
    model: Option<String>,
    system: Option<String>,
    /// Whether the newest request is for a summary, and what was counted for it.
    is_summarising: bool,
    written: Option<Usage>,
    /// A prompt that no message repeats yet.
    prompt: Option<Content>,
    losses: Losses,
    n_lines: usize,
}

impl Session for Kimi {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut line: Line = serde_json::from_slice(bytes)?;
        self.n_lines += 1;
        let time = line.time.take().unwrap_or_default().time(&mut self.losses);
        let kind = line.kind.take().unwrap_or_default();
        match kind.as_str() {
            "config.update" | "profile.bind" => self.configure(line, time),
            "llm.request" => self.request(line),
            "usage.record" if self.is_summarising => {
                self.written = line.usage.and_then(KimiUsage::usage);
                self.is_summarising = false;
            }
            "turn.prompt" | "turn.steer" => self.prompt = line.input,
            "context.append_message" => {
                if let Some(message) = line.message {
                    self.prompt.take_if(|_| message.is_prompt());
                    self.push(time, Item::Message(message));
                }
            }
            "context.append_loop_event" => self.read_event(line.event.unwrap_or_default(), time),
            "context.apply_compaction" => {
                let written = self.written.take();
                self.push(time, Item::Compaction(Box::new(line), written));
            }
            "context.clear" => self.push(time, Item::Clear),
            "context.undo" => self.undo(line.n_compacted.and_then(Scalar::count).unwrap_or(0)),
            "metadata" | "usage.record" => {}
            _ => self.leave_out(&kind),
        }
        Ok(())
    }

    /// No line names the session: a second head is that of another file.
    fn is_another(&self, bytes: &[u8]) -> bool {
        !self.items.is_empty()
            && heads::head(bytes, "metadata").is_some_and(|head| head["protocol_version"].is_string())
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink<'_>) {
        let mut draft = Draft::new();
        draft.losses.merge(&self.losses);
        let mut n_messages = 0;
        for (position, time, item) in std::mem::take(&mut self.items) {
            draft.at(position, time);
            n_messages += u64::from(matches!(item, Item::Message(_) | Item::Reply(_) | Item::Result { .. }));
            match item {
                Item::System(text) => draft.system(text),
                Item::Message(message) => message.write(&mut draft),
                Item::Reply(step) => std::mem::take(&mut self.steps[step]).write(&mut draft),
                Item::Result { id, outcome } => {
                    let mut text = outcome.output.unwrap_or_default().into_text(&mut draft.losses);
                    if let Some(note) = outcome.note.filter(|note| !note.is_empty()) {
                        text.extend([if text.is_empty() { "" } else { "\n" }, &note]);
                    }
                    let is_error = outcome.is_error.and_then(|is| is.truth("isError", &mut draft.losses));
                    draft.result(id.as_deref(), None, text, is_error);
                }
                Item::Compaction(line, written) => {
                    let (n_steps, before, behind) = (draft.n_steps(), line.tokens_before, line.tokens_after);
                    n_messages = compact(*line, n_messages, &mut draft);
                    draft.written_with(written, n_steps);
                    draft.resized(before, behind, n_steps);
                }
                Item::Clear => {
                    draft.losses.add("context cleared by the user");
                    draft.compaction(String::new());
                    n_messages = 0;
                }
            }
        }
        let (task_id, parent) = session(sink.source);
        let about = Trajectory {
            task_id: Some(task_id),
            parent,
            is_named_by_file: true,
            agent: Some("kimi-code".to_owned()),
            ..Trajectory::default()
        };
        draft.finish(about, sink);
    }
}

/// The session by its folder, for a sub-agent with the session that it belongs to: `<session>/agents/<agent>/wire.jsonl`.
fn session(source: &Source) -> (String, Option<String>) {
    let above = source.path.split_once("/agents/").map(|(session, _)| session.rsplit('/').next());
    match above.flatten().filter(|session| *session != source.stem) {
        Some(session) => (format!("{session}/{}", source.stem), Some(session.to_owned())),
        None => (source.stem.clone(), None),
    }
}

impl Kimi {
    fn push(&mut self, time: Option<i64>, item: Item) {
        self.items.push((self.n_lines - 1, time, item));
    }

    fn leave_out(&mut self, kind: &str) {
        let kind: String = kind.chars().take(40).collect();
        self.losses.add(&format!("record of the harness left out: {kind}"));
    }

    fn configure(&mut self, line: Line, time: Option<i64>) {
        self.model = line.alias.or(self.model.take());
        if let Some(text) = line.system.filter(|text| self.system.as_ref() != Some(text)) {
            self.system = Some(text.clone());
            self.push(time, Item::System(text));
        }
    }

    /// A call begins: its step is told before it or behind it.
    fn request(&mut self, line: Line) {
        self.is_summarising = line.purpose.as_deref() == Some("compaction");
        if self.is_summarising || line.model.is_none() {
            return;
        }
        self.model = line.model;
        if let Some(step) = self.steps.last_mut().filter(|step| step.parts.is_empty()) {
            step.model.clone_from(&self.model);
        }
    }

    fn read_event(&mut self, event: Event, time: Option<i64>) {
        match event.kind.as_deref().unwrap_or("") {
            "step.begin" => {
                if let Some(content) = self.prompt.take() {
                    let role = Some("user".to_owned());
                    self.push(
                        time,
                        Item::Message(Message { role, content: Some(content), ..Message::default() }),
                    );
                }
                self.step(event.uuid, time);
            }
            "content.part" | "tool.call" => {
                let step = self.step(event.step.clone(), time);
                self.steps[step].parts.push(event);
            }
            "tool.result" => {
                let (id, outcome) = (event.call_id, event.result.unwrap_or_default());
                self.push(time, Item::Result { id, outcome });
            }
            "step.end" => {
                let step = self.step(event.uuid, time);
                self.steps[step].usage = event.usage.and_then(KimiUsage::usage);
            }
            kind => {
                let kind = kind.to_owned();
                self.leave_out(&kind);
            }
        }
    }

    /// The step of an id; what names none belongs to the newest one.
    fn step(&mut self, uuid: Option<String>, time: Option<i64>) -> usize {
        let known = match &uuid {
            Some(uuid) => self.by_uuid.get(uuid).copied(),
            None => self.steps.len().checked_sub(1),
        };
        known.unwrap_or_else(|| {
            self.steps.push(Step { model: self.model.clone(), ..Step::default() });
            let step = self.steps.len() - 1;
            self.by_uuid.extend(uuid.map(|uuid| (uuid, step)));
            self.push(time, Item::Reply(step));
            step
        })
    }

    /// Takes back the newest prompts of the user, not beyond a compaction.
    fn undo(&mut self, n: u64) {
        let mut cut = self.items.len();
        let mut left = n;
        for (at, (.., item)) in self.items.iter().enumerate().rev() {
            if left == 0 || matches!(item, Item::Compaction(..) | Item::Clear) {
                break;
            }
            if item.is_prompt() {
                (cut, left) = (at, left - 1);
            }
        }
        let gone = self.items.split_off(cut);
        self.losses.add_n(ABANDONED, gone.len() as u64);
    }
}

impl Message {
    fn is_prompt(&self) -> bool {
        let origin = self.origin.as_ref().and_then(|origin| origin.kind.as_deref());
        self.role.as_deref() == Some("user") && origin.is_none_or(|kind| kind == "user")
    }

    fn write(self, draft: &mut Draft) {
        let is_prompt = self.is_prompt();
        let text = |draft: &mut Draft, content: Option<Content>| {
            content.unwrap_or_default().into_text(&mut draft.losses)
        };
        match self.role.as_deref().unwrap_or("") {
            "assistant" => {
                let mut reply = Reply::begin(None, draft);
                say(self.content.unwrap_or_default(), &mut reply, draft);
                for call in self.calls.map(|calls| calls.0).unwrap_or_default() {
                    reply.call(Call::of(call), &mut Vec::new(), draft);
                }
                reply.end(draft);
            }
            "tool" => {
                let said = text(draft, self.content);
                let is_error = self.is_error.and_then(|is| is.truth("isError", &mut draft.losses));
                draft.result(self.call_id.as_deref(), None, said, is_error);
            }
            "system" => {
                let said = text(draft, self.content);
                draft.system(said);
            }
            _ if is_prompt => {
                let said = text(draft, self.content);
                draft.user_or_harness(said);
            }
            _ => {
                let said = text(draft, self.content);
                draft.notice(said);
            }
        }
    }
}

impl Step {
    fn write(self, draft: &mut Draft) {
        if self.parts.is_empty() && self.usage.is_none() {
            return draft.losses.add("reply without anything to read left out");
        }
        self.model.iter().for_each(|model| draft.model(model));
        let mut reply = Reply::begin(self.usage, draft);
        for event in self.parts {
            if event.kind.as_deref() == Some("tool.call") {
                let tool = event.name.unwrap_or_else(|| UNKNOWN_TOOL.to_owned());
                let call = Call::new(event.call_id, tool, event.args.unwrap_or_default().0);
                reply.call(call, &mut Vec::new(), draft);
            } else {
                say(event.part.unwrap_or_default(), &mut reply, draft);
            }
        }
        reply.end(draft);
    }
}

/// Words and thoughts of a reply.
pub(super) fn say(content: Content, reply: &mut Reply, draft: &mut Draft) {
    let Content::Blocks(blocks) = content else {
        let text = content.into_text(&mut draft.losses);
        return reply.text(text, draft);
    };
    for block in blocks {
        if block.is_thought() {
            reply.thought(block.thinking.or(block.text).unwrap_or_default(), draft);
        } else if let Some(text) = block.into_text(&mut draft.losses) {
            reply.text(text, draft);
        }
    }
}

/// Writes a compaction of a context of so many messages; returns how many there are now.
fn compact(line: Line, n_messages: u64, draft: &mut Draft) -> u64 {
    let summary = line.summary.unwrap_or_default().into_text(&mut draft.losses);
    let said = line.context_summary.unwrap_or_else(|| summary.clone());
    // What the product says around the summary is not the model's.
    let parts = said.split_once(&summary).filter(|_| !summary.is_empty());
    let around = parts.map(|(before, behind)| [before.trim(), behind.trim()].join("\n\n"));
    let text = if around.is_some() { summary } else { said };
    let n_now = compact_to(text, line.n_kept, line.n_compacted, n_messages, draft);
    around.filter(|around| !around.trim().is_empty()).into_iter().for_each(|around| draft.notice(around));
    n_now
}

/// Writes the summary `text` in the place of all but what is kept; returns how many messages there are now.
fn compact_to(
    text: String,
    n_kept: Option<Scalar>,
    n_compacted: Option<Scalar>,
    n_messages: u64,
    draft: &mut Draft,
) -> u64 {
    let (mut n, mut message) = (0, None);
    let mut count = |position: u32| {
        n += u64::from(message.replace(position) != Some(position));
        n
    };
    if let Some(n_kept) = n_kept.and_then(Scalar::count) {
        draft.compact_but(text, |step| {
            step.kind == Kind::Message && step.role == Role::User && count(step.message) <= n_kept
        });
        return n_kept + 1;
    }
    let n_tail = n_messages.saturating_sub(n_compacted.and_then(Scalar::count).unwrap_or(n_messages));
    draft.compact_but(text, |step| count(step.message) <= n_tail);
    n_tail + 1
}

#[cfg(test)]
mod tests;
