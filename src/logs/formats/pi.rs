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
        summary: String = "summary",
    }

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
        // Lines without ids follow one another, whatever a damaged one among them says.
        let mut is_tree = true;
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
        ("message", Some(message)) => write_message(message, draft),
        ("compaction", _) => draft.compaction(line.summary.unwrap_or_default()),
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

fn write_message(message: Message, draft: &mut Draft) {
    match message.role.as_deref().unwrap_or("") {
        "user" => {
            let text = message.content.unwrap_or_default().into_text(&mut draft.losses);
            draft.user_or_harness(text);
        }
        "assistant" => write_reply(message, draft),
        "toolResult" => {
            let text = message.content.unwrap_or_default().into_text(&mut draft.losses);
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
    if blocks.is_empty() {
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
mod tests {
    use super::*;
    use crate::logs::formats::reading::testing::{outline, read, told};

    fn user(text: &str) -> String {
        format!(r#""type":"message","message":{{"role":"user","content":"{text}"}}"#)
    }

    fn done(text: &str) -> String {
        format!(
            r#""type":"message","message":{{"role":"assistant","model":"m","content":[{{"type":"text","text":"{text}"}}]}}"#
        )
    }

    const CALL: &str = r#""type":"message","message":{"role":"assistant","model":"m","content":[{"type":"thinking","thinking":"Hm."},{"type":"toolCall","id":"c1","name":"ls","arguments":{"path":"."}}],"usage":{"input":3,"output":4,"cacheRead":40,"cacheWrite":7,"cost":{"input":0.1,"total":0.5}}}"#;
    const RESULT: &str = r#""type":"message","message":{"role":"toolResult","toolCallId":"c1","toolName":"ls","content":[{"type":"text","text":"a.py"},{"type":"image","data":"AAAABBBB","mimeType":"image/png"}],"isError":false}"#;

    #[test]
    fn what_is_left_of_a_torn_message_begins_no_conversation() {
        let lines = [user("Q"), r#""type":"toolCall","id":"c9","name":"ls""#.to_owned(), done("A")];
        let (runs, losses) = read("pi", &lines.map(|line| format!("{{{line}}}")));
        assert_eq!(outline(&runs[0]).len(), 2);
        assert_eq!(told(&losses), ["1 block outside of a message left out"]);
    }

    #[test]
    fn version_1_keeps_lines_by_their_numbers() {
        let header =
            r#""type":"session","id":"s1","cwd":"/x/cli","timestamp":"2026-01-01T00:00:00Z""#.to_owned();
        let compaction =
            r#""type":"compaction","summary":"a.py is there.","firstKeptEntryIndex":4,"tokensBefore":9"#;
        let command = r#""type":"message","message":{"role":"bashExecution","command":"pwd","output":"/x","exitCode":2}"#;
        let lines = [
            header,
            user("List it."),
            CALL.into(),
            RESULT.into(),
            user("Sort it."),
            done("Sorted."),
            compaction.into(),
            command.into(),
            user("Go on."),
        ];
        let (runs, losses) = read("pi", &lines.map(|line| format!("{{{line}}}")));
        let t = &runs[0];
        assert_eq!(
            outline(t),
            [
                "0 0 user message List it.",
                "0 1 agent thought Hm.",
                "0 1 agent action ls .",
                "0 1 tool observation a.py [image image/png 6 bytes]",
                "0 2 user message Sort it.",
                "0 2 agent message Sorted.",
                "1 3 user compaction a.py is there.",
                "1 3 system message Ran `pwd` /x Command exited with code 2",
                "1 3 user message Go on.",
            ]
        );
        let kept: Vec<u32> = t.steps.iter().filter_map(|s| s.kept_to).collect();
        assert_eq!((kept, t.steps[4].kept_to), (vec![1, 1], Some(1)));
        let usage = t.steps[1].usage.as_deref().unwrap();
        assert_eq!((usage.input, usage.cache_read, usage.cache_write), (50, Some(40), Some(7)));
        assert_eq!(usage.cost, Some(0.5));
        let of = [&t.task_id, &t.repository, &t.model].map(|of| of.as_deref().unwrap());
        assert_eq!(of, ["s1", "cli", "m"]);
        assert_eq!(told(&losses), ["1 media replaced by a placeholder"]);
    }

    fn line(id: &str, parent: &str, rest: &str) -> String {
        let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
        format!(r#"{{"id":"{id}","parentId":{parent},{rest}}}"#)
    }

    fn compaction(summary: &str, first: &str) -> String {
        format!(r#""type":"compaction","summary":"{summary}","firstKeptEntryId":"{first}""#)
    }

    #[test]
    fn later_versions_are_trees() {
        let (runs, losses) = read(
            "pi",
            &[
                r#"{"type":"session","version":3,"id":"s1","cwd":"/x"}"#.to_owned(),
                line("a", "", &user("List it.")),
                line("b", "a", &done("a.py")),
                line("c", "b", &user("Wrong way.")),
                line("d", "b", r#""type":"branch_summary","summary":"It was wrong.","fromId":"c""#),
                line("e", "d", &user("Sort it.")),
                line("f", "e", &compaction("One.", "e")),
                line("g", "f", &done("Sorted.")),
                line("h", "g", &compaction("Two.", "e")),
                line("i", "h", r#""type":"label","label":"x""#),
                line("j", "i", &compaction("Three.", "j")),
                line("k", "j", &done("Done.")),
            ],
        );
        assert_eq!(
            outline(&runs[0]),
            [
                "0 0 user message List it.",
                "0 1 agent message a.py",
                "0 1 system message It was wrong.",
                "0 2 user message Sort it.",
                "1 3 user compaction One.",
                "1 3 agent message Sorted.",
                "2 4 user compaction Two.",
                "3 5 user compaction Three.",
                "3 5 agent message Done.",
            ]
        );
        let kept: Vec<Option<u32>> = runs[0].steps.iter().map(|s| s.kept_to).collect();
        assert_eq!(kept, [None, None, None, Some(2), None, Some(2), None, None, None]);
        assert_eq!(
            told(&losses),
            ["1 line of an abandoned branch left out", "1 record of the harness left out: label"]
        );
    }

    #[test]
    fn copies_of_a_session_have_the_time_of_the_first_message() {
        let head = "{\"type\":\"session\",\"id\":\"s2\"}\n{\"type\":\"message\",\"timestamp\":\"2026-01-01T00:00:00Z\"}\n";
        assert!(
            matches!(origin(head.as_bytes(), false), Origin::Uuid(id) if id == "pi 2026-01-01T00:00:00Z")
        );
        assert!(matches!(origin(&head.as_bytes()[..30], false), Origin::More));
        assert!(matches!(origin(b"{\"type\":\"user\"}\n", true), Origin::None));
    }
}
