//! Sessions of pi and OpenClaw: one JSON value a line.
//!
//! - Lines of version 1 follow one another; from version 2 on they name the one before (`parentId`), and what was lived is the
//!   way back from the last one. What was left is counted.
//! - `compaction` is one: the context is then its summary, and the lines from the one that it names on (version 1 by number),
//!   which are kept to the next segment.
//! - A command that the user ran (`bashExecution`), the summary of a branch that was left and messages of extensions stand in
//!   the context, and are no words of the user: messages of the role system.
//! - Usage: `input` is what the cache did not serve.
//!
//! No system prompt and no tools are recorded.

use serde_json::value::RawValue;

use super::reading::branch::{Parent, lived};
use super::reading::content::{Arguments, Media, UNKNOWN_TOOL, media_text};
use super::reading::draft::{ABANDONED, Losses};
use super::reading::names::{Name, repository_of};
use super::reading::reply::{Call, Reply};
use super::reading::scalar::Scalar;
use super::reading::usage::TokenCounts;
use super::reading::{Draft, List, heads, record};
use super::{Entry, Origin, Reading, Session, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "pi",
    summary: "pi and OpenClaw session JSONL, with their compactions",
    reading: Reading::Session { open: || Box::<Pi>::default(), origin },
};

record! {
    struct Line in "pi" {
        kind: String = "type",
        id: String = "id",
        parent: Name = "parentId",
        timestamp: Scalar = "timestamp",
        cwd: String = "cwd",
        message: Message = "message",
        content: Texts = "content",
        summary: String = "summary",
        first_kept_id: Name = "firstKeptEntryId",
        first_kept_index: Scalar = "firstKeptEntryIndex",
        tokens_before: Scalar = "tokensBefore",
        evicted: Evicted = "evictedContent",
    }

    struct Message in "pi.message" {
        role: String = "role",
        content: Texts = "content",
        model: String = "model",
        usage: PiUsage = "usage",
        error: String = "errorMessage",
        call_id: String = "toolCallId",
        tool: String = "toolName",
        is_error: Scalar = "isError",
        command: String = "command",
        output: String = "output",
        exit_code: Scalar = "exitCode",
        is_excluded: Scalar = "excludeFromContext",
        details: Box<RawValue> = "details",
        summary: String = "summary",
    }

    /// A fork takes what was compacted out of the messages; what the user was shown of a result may stay.
    struct Evicted in "pi.evicted" { reason: String = "reason" }

    struct Details in "pi.details" { shown: DisplayContent = "displayContent" }

    struct DisplayContent in "pi.details.shown" { text: String = "text" }

    struct Block in "pi.block" {
        kind: String = "type",
        text: String = "text",
        thinking: String = "thinking",
        id: String = "id",
        name: String = "name",
        arguments: Arguments = "arguments",
        data: Media = "data",
        media_type: String = "mimeType",
        .. rest but "thinkingSignature" | "textSignature" | "thoughtSignature"
    }

    struct PiUsage in "pi.usage" {
        input: Scalar = "input",
        output: Scalar = "output",
        cache_read: Scalar = "cacheRead",
        cache_write: Scalar = "cacheWrite",
        cost: Cost = "cost",
    }

    struct Cost in "pi.usage.cost" { total: Scalar = "total" }
}

/// Kinds of blocks, which stand in messages.
const BLOCKS: [&str; 4] = ["text", "thinking", "toolCall", "image"];

/// Blocks, or a text alone.
#[derive(Default)]
pub(crate) struct Texts(Vec<Block>);

impl<'de> serde::Deserialize<'de> for Texts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&serde_json::value::RawValue>::deserialize(deserializer)?.get();
        let blocks = if raw.starts_with('"') {
            serde_json::from_str(raw).map(|text| vec![Block { text: Some(text), ..Block::default() }])
        } else {
            serde_json::from_str::<Option<List<Block>>>(raw).map(|list| list.unwrap_or_default().0)
        };
        blocks.map(Texts).map_err(serde::de::Error::custom)
    }
}

impl Texts {
    fn into_text(self, losses: &mut Losses) -> String {
        let texts: Vec<String> = self.0.into_iter().filter_map(|block| block.into_text(losses)).collect();
        texts.join("\n")
    }
}

impl Block {
    fn into_text(self, losses: &mut Losses) -> Option<String> {
        if let Some(data) = self.data {
            return Some(media_text(Media { media_type: self.media_type, ..data }, losses));
        }
        if self.text.is_some() {
            return self.text;
        }
        let words = self.rest.words();
        let kind: String = self.kind.unwrap_or_default().chars().take(40).collect();
        let what = if words.is_empty() { "block without text" } else { "block without a rule kept as text" };
        losses.add(&format!("{what}: {kind}"));
        (!words.is_empty()).then(|| format!("[{kind}] {words}"))
    }
}

#[derive(Default)]
struct Pi {
    lines: Vec<Line>,
    losses: Losses,
}

impl Session for Pi {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let line: Line = serde_json::from_slice(bytes)?;
        // What is left of a torn message: as a line it would be a conversation of its own.
        if line.kind.as_deref().is_some_and(|kind| BLOCKS.contains(&kind)) {
            self.losses.add("block outside of a message left out");
        } else {
            self.lines.push(line);
        }
        Ok(())
    }

    fn is_another(&self, bytes: &[u8]) -> bool {
        let id = heads::id(bytes, "session", "/id");
        let is_head = |line: &&Line| line.kind.as_deref() == Some("session");
        let known = || self.lines.iter().filter(is_head).next_back();
        id.is_some_and(|id| known().is_some_and(|known| known.id.as_ref() != Some(&id)))
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink<'_>) {
        let header = self.lines.iter().find(|line| line.kind.as_deref() == Some("session"));
        let id = header.and_then(|line| line.id.clone());
        let about = Trajectory {
            repository: header.and_then(|line| line.cwd.as_deref()).and_then(repository_of),
            agent: Some("pi".to_owned()),
            ..Trajectory::default()
        }
        .of_session(id, &sink.source.stem);
        let path = self.path();
        let kept = kept(&path, &mut self.losses);
        let mut draft = Draft::new();
        draft.losses.merge(&self.losses);
        for ((position, line), kept_to) in path.into_iter().zip(kept) {
            // An older summary is none of the lines that are kept.
            draft.keep_to(kept_to.filter(|_| !is_compaction(&line)));
            write(position, line, &mut draft);
        }
        draft.finish(about, sink);
    }
}

impl Pi {
    /// The lines that were lived, with their places in the file.
    fn path(&mut self) -> Vec<(usize, Line)> {
        let lines = std::mem::take(&mut self.lines);
        // Lines without ids, or of which none names the one before, follow one another, whatever a damaged one among them says.
        let mut is_tree = lines.iter().any(|line| line.parent.is_some());
        let is_lived = lived(lines.iter().map(|line| {
            let is_header = line.kind.as_deref() == Some("session");
            is_tree &= is_header || line.id.is_some();
            let parent = match (&line.parent, &line.id) {
                (Some(Name(parent)), _) if !parent.is_empty() => Parent::Named(parent),
                // The first line behind the header has no parent; nor has one to which the user went back before that.
                (None, Some(_)) if is_tree && !is_header => Parent::Root,
                _ => Parent::Before,
            };
            (line.id.as_deref(), parent)
        }));
        let mut n_left = 0;
        let mut path = Vec::with_capacity(lines.len());
        for (line, is_lived) in lines.into_iter().enumerate().zip(is_lived) {
            if is_lived || line.1.kind.as_deref() == Some("session") {
                path.push(line);
            } else {
                n_left += 1;
            }
        }
        self.losses.add_n(ABANDONED, n_left);
        path
    }
}

fn is_compaction(line: &Line) -> bool {
    line.kind.as_deref() == Some("compaction")
}

/// For each line the last segment that a compaction kept it for.
fn kept(path: &[(usize, Line)], losses: &mut Losses) -> Vec<Option<u32>> {
    let mut segment = path.iter().filter(|(_, line)| is_compaction(line)).count() as u32;
    let by_id: std::collections::HashMap<&str, usize> =
        path.iter().enumerate().filter_map(|(i, (_, line))| Some((line.id.as_deref()?, i))).collect();
    let mut kept = vec![None; path.len()];
    // Everything from here on is kept for a later segment already.
    let mut done = path.len();
    for (at, (_, line)) in path.iter().enumerate().rev().filter(|(_, (_, line))| is_compaction(line)) {
        let index = line.first_kept_index.and_then(Scalar::count).map(|n| n as usize);
        let by_index = index.map(|index| path.partition_point(|(position, _)| *position < index));
        let named = line.first_kept_id.as_ref().map(|id| by_id.get(id.0.as_str()).copied());
        let first = named.unwrap_or(by_index).filter(|first| *first <= at);
        losses.add_n("line from which a compaction keeps that is not there", u64::from(first.is_none()));
        let first = first.unwrap_or(at);
        kept[first.min(done)..at.min(done)].fill(Some(segment));
        done = done.min(first);
        segment -= 1;
    }
    kept
}

/// Writes a line.
fn write(position: usize, line: Line, draft: &mut Draft) {
    let time = line.timestamp.unwrap_or_default().time(&mut draft.losses);
    draft.at(position, time);
    match (line.kind.as_deref().unwrap_or(""), line.message) {
        ("message", Some(message)) => write_message(message, line.evicted.is_some(), draft),
        ("compaction", _) => {
            let n_steps = draft.n_steps();
            draft.compaction(line.summary.unwrap_or_default());
            draft.resized(line.tokens_before, None, n_steps);
        }
        ("branch_summary", _) => draft.notice(line.summary.unwrap_or_default()),
        ("custom_message", _) => {
            let text = line.content.unwrap_or_default().into_text(&mut draft.losses);
            draft.notice(text);
        }
        ("session", _) => {}
        (kind, _) => {
            let kind: String = kind.chars().take(40).collect();
            draft.losses.add(&format!("record of the harness left out: {kind}"));
        }
    }
}

fn write_message(message: Message, is_evicted: bool, draft: &mut Draft) {
    let details = message.details.as_ref().filter(|_| is_evicted);
    let details = details.and_then(|details| serde_json::from_str::<Details>(details.get()).ok());
    let shown = details.and_then(|details| details.shown?.text);
    draft
        .losses
        .add_n("content that the product took out of the log", u64::from(is_evicted && shown.is_none()));
    match message.role.as_deref().unwrap_or("") {
        "user" => {
            let text = message.content.unwrap_or_default().into_text(&mut draft.losses);
            draft.user_or_harness(text);
        }
        "assistant" => write_reply(message, draft),
        "toolResult" => {
            let text = message.content.unwrap_or_default().into_text(&mut draft.losses);
            let text = shown.unwrap_or(text);
            let is_error = message.is_error.and_then(|is| is.truth("isError", &mut draft.losses));
            draft.result(message.call_id.as_deref(), message.tool, text, is_error);
        }
        "bashExecution" => write_command(message, draft),
        "branchSummary" | "compactionSummary" => draft.notice(message.summary.unwrap_or_default()),
        role => {
            let is_known = matches!(role, "custom" | "hookMessage");
            draft.losses.add_n("message of unknown role kept as text", u64::from(!is_known));
            let text = message.content.unwrap_or_default().into_text(&mut draft.losses);
            draft.notice(text);
        }
    }
}

fn write_reply(message: Message, draft: &mut Draft) {
    let usage = message.usage.and_then(|usage| {
        let PiUsage { input, output, cache_read, cache_write, cost } = usage;
        let cost = cost.and_then(|cost| cost.total);
        let more_prompt = [cache_read, cache_write];
        TokenCounts {
            prompt: input,
            more_prompt,
            output,
            cache_read,
            cache_write,
            cost,
            ..TokenCounts::default()
        }
        .usage()
    });
    let blocks = message.content.unwrap_or_default().0;
    if blocks.is_empty() && usage.is_none() {
        return draft.losses.add("reply without anything to read left out");
    }
    message.model.iter().for_each(|model| draft.model(model));
    let mut reply = Reply::begin(usage, draft);
    for block in blocks {
        match block.kind.as_deref() {
            Some("toolCall") => {
                let tool = block.name.unwrap_or_else(|| UNKNOWN_TOOL.to_owned());
                let call = Call::new(block.id, tool, block.arguments.unwrap_or_default().0);
                reply.call(call, &mut Vec::new(), draft);
            }
            Some("thinking") => reply.thought(block.thinking.unwrap_or_default(), draft),
            _ => {
                if let Some(text) = block.into_text(&mut draft.losses) {
                    reply.text(text, draft);
                }
            }
        }
    }
    reply.end(draft);
}

/// A command that the user ran: the model is told of it, unless it is marked.
fn write_command(message: Message, draft: &mut Draft) {
    let is_excluded = message.is_excluded.and_then(|is| is.truth("excludeFromContext", &mut draft.losses));
    if is_excluded == Some(true) {
        return draft.losses.add("command of the user that the model was not told of");
    }
    let mut text = format!("Ran `{}`", message.command.unwrap_or_default());
    if let Some(output) = message.output.filter(|output| !output.is_empty()) {
        text += &format!("\n{output}");
    }
    if let Some(code) = message.exit_code.and_then(Scalar::count).filter(|code| *code != 0) {
        text += &format!("\nCommand exited with code {code}");
    }
    draft.notice(text);
}

/// The time of the first message: copies of a session keep it.
fn origin(head: &[u8], whole: bool) -> Origin {
    record! {
        struct First in "pi.first" { kind: String = "type", timestamp: String = "timestamp" }
    }
    let end = if whole { head.len() } else { memchr::memrchr(b'\n', head).map_or(0, |at| at + 1) };
    let mut lines = head[..end].split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let kind = |line: &[u8]| serde_json::from_slice::<First>(line).ok();
    if !lines.next().and_then(kind).is_some_and(|first| first.kind.as_deref() == Some("session")) {
        return Origin::None;
    }
    let message = lines.filter_map(kind).find(|line| line.kind.as_deref() == Some("message"));
    match message.and_then(|message| message.timestamp) {
        Some(time) => Origin::Uuid(format!("pi {time}")),
        None if whole => Origin::None,
        None => Origin::More,
    }
}

#[cfg(test)]
mod tests;
