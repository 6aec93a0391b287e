//! Claude Code sessions: one JSON value a line, the whole file one run.
//!
//! - Lines that carry blocks of one `message.id` are one model call.
//! - `compact_boundary` and the summary after it (`isCompactSummary`) are one step of kind
//!   compaction, which opens a segment. A microcompaction clears some tool results without a new
//!   segment: told as a loss.
//! - Left out and counted: progress, side chains (a sub-agent's own messages), meta lines, messages
//!   that are not of the model (`<synthetic>`), other harness lines, lines whose uuid came before.
//! - A tool result is `message.content`, what the model saw; `toolUseResult` repeats it at length.
//!
//! A session that was resumed or forked begins with copies of its old lines, uuids and all: so files that
//! begin with the same uuid are told ([`origin`]), and compared by their steps.
//!
//! The system prompt and the tool schemas are not in these logs. Order is by position; times are not
//! monotone. Abandoned branches (after a rewind) are read in place.

use std::collections::HashSet;

use serde::Deserialize;

use super::reading::content::Block;
use super::reading::draft::Losses;
use super::reading::repair::{string_end, value_end};
use super::reading::{Content, Draft, List, record, time};
use super::{Entry, Origin, Reading, Session, Sink};
use crate::trajectory::{Kind, Trajectory};

pub(super) const ENTRY: Entry = Entry {
    name: "claude-code",
    summary: "Claude Code session JSONL, with its compactions",
    reading: Reading::Session { open: || Box::<ClaudeSession>::default(), origin },
};

record! {
    struct Line in "claude" {
        kind: String = "type",
        subtype: String = "subtype",
        uuid: String = "uuid",
        session_id: String = "sessionId",
        timestamp: String = "timestamp",
        cwd: String = "cwd",
        is_sidechain: bool = "isSidechain",
        is_meta: bool = "isMeta",
        is_compact_summary: bool = "isCompactSummary",
        is_api_error: bool = "isApiErrorMessage",
        summary: String = "summary",
        message: Message = "message",
        microcompact: Microcompact = "microcompactMetadata",
    }

    struct Message in "claude.message" {
        id: String = "id",
        model: String = "model",
        content: Content = "content",
    }

    struct Microcompact in "claude.microcompactMetadata" {
        cleared: List<String> = "compactedToolIds",
    }
}

/// A step before it is known whether its model call has an action.
enum Event {
    User(String),
    /// Reasoning, or text of the call with this number.
    Agent {
        call: usize,
        is_reasoning: bool,
        text: String,
    },
    Action {
        call: usize,
        tool: String,
        arguments: String,
        id: Option<String>,
    },
    Result {
        id: Option<String>,
        text: String,
        is_error: Option<bool>,
    },
    Compaction(String),
}

#[derive(Default)]
struct ClaudeSession {
    events: Vec<(Event, usize, Option<i64>)>,
    /// Model calls by message id, in order of appearance.
    calls: Vec<String>,
    /// Whether a call has an action, by number.
    has_action: Vec<bool>,
    uuids: HashSet<String>,
    losses: Losses,
    n_lines: usize,
    session_id: Option<String>,
    cwd: Option<String>,
    model: Option<String>,
    /// A boundary was met and its summary was not yet.
    boundary: Option<(usize, Option<i64>)>,
    /// A line `summary` right after the boundary: some versions write the summary so.
    boundary_summary: Option<String>,
}

impl Session for ClaudeSession {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        if is_progress(bytes) {
            self.n_lines += 1;
            self.losses.add("progress line left out");
            return Ok(());
        }
        let line: Line = serde_json::from_slice(bytes)?;
        self.read(line);
        Ok(())
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink<'_>) {
        self.end_boundary();
        let mut draft = Draft::new();
        draft.losses = std::mem::take(&mut self.losses);
        let mut current = None;
        for (event, position, time) in self.events {
            draft.at(position, time);
            match event {
                Event::User(text) => draft.user(text),
                Event::Compaction(text) => draft.compaction(text),
                Event::Result { id, text, is_error } => draft.result(id.as_deref(), None, text, is_error),
                Event::Agent { call, is_reasoning, text } => {
                    if current.replace(call) != Some(call) {
                        draft.begin_call();
                    }
                    let is_thought = is_reasoning || self.has_action[call];
                    draft.agent(if is_thought { Kind::Thought } else { Kind::Message }, text);
                }
                Event::Action { call, tool, arguments, id } => {
                    if current.replace(call) != Some(call) {
                        draft.begin_call();
                    }
                    draft.action(tool, arguments, id);
                }
            }
        }
        let repository = self.cwd.as_deref().and_then(repository_of);
        let about = Trajectory {
            is_named_by_file: self.session_id.is_none(),
            task_id: self.session_id.or_else(|| Some(sink.source.stem.clone())),
            repository,
            agent: Some("claude-code".to_owned()),
            model: self.model,
            ..Trajectory::default()
        };
        draft.finish(about, sink);
    }
}

/// The uuid of the first line of the conversation. A cut line is told by its key `sessionId`, which stands
/// before the message, to be worth a longer head.
fn origin(head: &[u8], whole: bool) -> Origin {
    #[derive(Deserialize)]
    struct Said {
        #[serde(rename = "type")]
        kind: String,
        uuid: String,
        #[serde(rename = "isSidechain", default)]
        is_sidechain: bool,
    }
    let has = |text: &[u8], key: &str| memchr::memmem::find(text, key.as_bytes()).is_some();
    let (lines, last) = head.split_at(memchr::memrchr(b'\n', head).map_or(0, |i| i + 1));
    let (lines, cut) = if whole { (head, &b""[..]) } else { (lines, last) };
    if has(lines, r#""uuid""#) {
        for line in lines.split(|b| *b == b'\n') {
            // A line may hold several values: the first one counts.
            if let Ok(said) = Said::deserialize(&mut serde_json::Deserializer::from_slice(line))
                && is_said(&said.kind)
                && !said.is_sidechain
            {
                return Origin::Uuid(said.uuid);
            }
        }
    }
    if has(cut, r#""sessionId""#) { Origin::More } else { Origin::None }
}

/// Whether lines of this type belong to the conversation.
fn is_said(kind: &str) -> bool {
    matches!(kind, "user" | "assistant" | "system")
}

/// Whether a line is of type progress, told without parsing it: a third of all lines are, and none
/// is kept. The mark must stand outside of any inner object.
fn is_progress(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(2048)];
    let Some(found) = memchr::memmem::find(head, br#""type":"progress""#) else {
        return false;
    };
    let (mut depth, mut at) = (0, 0);
    while at < found {
        match head[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => match string_end(head, at) {
                Some(end) => {
                    at = end;
                    continue;
                }
                None => return false,
            },
            _ => {}
        }
        at += 1;
    }
    // A cut line is not told by its head alone.
    depth == 1 && at == found && bytes.ends_with(b"}") && value_end(bytes, 0) == Some(bytes.len())
}

/// The folder of a repository, by a working directory in the style of Unix or Windows: the last component, or of a work
/// tree (`cli/.worktrees/3`, `cli/.claude/worktrees/fix`) the folder that it belongs to.
fn repository_of(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    let tree =
        parts.iter().position(|part| [".worktrees", "worktrees"].contains(part)).unwrap_or(parts.len());
    parts[..tree].iter().rfind(|part| **part != ".claude").map(|part| (*part).to_owned())
}

impl ClaudeSession {
    fn read(&mut self, line: Line) {
        let position = self.n_lines;
        self.n_lines += 1;
        let kind = line.kind.as_deref().unwrap_or("");
        if kind == "summary" && self.boundary.is_some() && self.boundary_summary.is_none() {
            self.boundary_summary = line.summary;
            return;
        }
        if !is_said(kind) {
            let known: &[&str] = &["progress", "summary", "file-history-snapshot", "queue-operation"];
            let name = if known.contains(&kind) { kind } else { "other meta" };
            self.losses.add(&format!("{name} line left out"));
            return;
        }
        if let Some(uuid) = line.uuid
            && !self.uuids.insert(uuid)
        {
            self.losses.add("line with a repeated uuid left out");
            return;
        }
        if line.is_sidechain == Some(true) {
            self.losses.add("side chain line left out");
            return;
        }
        self.session_id = line.session_id.or(self.session_id.take());
        if self.cwd.is_none() {
            self.cwd = line.cwd;
        }
        let time = line.timestamp.as_deref().and_then(time::parse_iso);
        match kind {
            "system" => {
                self.read_system(line.subtype.as_deref().unwrap_or(""), line.microcompact, position, time)
            }
            _ if line.is_meta == Some(true) => self.losses.add("meta message left out"),
            "user" if line.is_compact_summary == Some(true) => {
                (self.boundary, self.boundary_summary) = (None, None);
                let text =
                    line.message.and_then(|m| m.content).unwrap_or_default().into_text(&mut self.losses);
                self.events.push((Event::Compaction(text), position, time));
            }
            _ => {
                let Some(message) = line.message else {
                    self.losses.add("line without a message left out");
                    return;
                };
                self.end_boundary();
                if kind == "user" {
                    self.read_user(message, position, time);
                } else if message.model.as_deref() == Some("<synthetic>") || line.is_api_error == Some(true) {
                    self.losses.add("message not of the model left out");
                } else {
                    self.read_assistant(message, position, time);
                }
            }
        }
    }

    /// A boundary whose summary is not in the log: the past is gone all the same.
    fn end_boundary(&mut self) {
        if let Some((position, time)) = self.boundary.take() {
            let text = self.boundary_summary.take();
            if text.is_none() {
                self.losses.add("compaction without its summary");
            }
            let event = Event::Compaction(text.unwrap_or_default());
            self.events.push((event, position, time));
        }
    }

    fn read_system(
        &mut self,
        subtype: &str,
        micro: Option<Microcompact>,
        position: usize,
        time: Option<i64>,
    ) {
        match subtype {
            "compact_boundary" => {
                self.end_boundary();
                self.boundary = Some((position, time));
            }
            "microcompact_boundary" => {
                let n = micro.and_then(|m| m.cleared).map_or(0, |c| c.0.len() as u64);
                self.losses.add("microcompaction not replayed");
                self.losses.add_n("tool result cleared by a microcompaction and kept here", n);
            }
            _ => self.losses.add("system line of the harness left out"),
        }
    }

    fn read_user(&mut self, message: Message, position: usize, time: Option<i64>) {
        let Some(Content::Blocks(blocks)) = message.content else {
            let text = message.content.unwrap_or_default().into_text(&mut self.losses);
            self.events.push((Event::User(text), position, time));
            return;
        };
        let mut rest: Vec<Block> = Vec::new();
        for block in blocks {
            if block.kind.as_deref() == Some("tool_result") {
                let text = block.content.map_or(String::new(), |c| c.into_text(&mut self.losses));
                let result = Event::Result { id: block.tool_use_id, text, is_error: block.is_error };
                self.events.push((result, position, time));
            } else {
                rest.push(block);
            }
        }
        if !rest.is_empty() {
            let text = Content::Blocks(rest).into_text(&mut self.losses);
            self.events.push((Event::User(text), position, time));
        }
    }

    fn read_assistant(&mut self, message: Message, position: usize, time: Option<i64>) {
        if self.model.is_none() {
            self.model = message.model;
        }
        // Results may stand between the lines of one call, so the last few ids are looked at.
        let id = message.id.unwrap_or_else(|| format!("line-{position}"));
        let recent = self.calls.iter().rev().take(8).position(|c| *c == id);
        let call = match recent {
            Some(back) => self.calls.len() - 1 - back,
            None => {
                self.calls.push(id);
                self.has_action.push(false);
                self.calls.len() - 1
            }
        };
        let blocks = match message.content.unwrap_or_default() {
            Content::Blocks(blocks) => blocks,
            Content::Text(text) => vec![Block { text: Some(text), ..Block::default() }],
            Content::Null => Vec::new(),
        };
        for block in blocks {
            let event = match block.kind.as_deref().unwrap_or("text") {
                "tool_use" | "server_tool_use" => {
                    self.has_action[call] = true;
                    let tool = block.name.unwrap_or_else(|| "unknown".to_owned());
                    Event::Action { call, tool, arguments: block.input.unwrap_or_default().0, id: block.id }
                }
                "thinking" => {
                    Event::Agent { call, is_reasoning: true, text: block.thinking.unwrap_or_default() }
                }
                "redacted_thinking" => {
                    self.losses.add("redacted thinking left out");
                    continue;
                }
                _ => match block.into_text(&mut self.losses) {
                    Some(text) => Event::Agent { call, is_reasoning: false, text },
                    None => continue,
                },
            };
            self.events.push((event, position, time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Source;

    #[test]
    fn a_work_tree_belongs_to_its_repository() {
        for path in [
            "/home/me/src/cli",
            "/home/me/src/cli/",
            "/home/me/src/cli/.worktrees/3",
            "/home/me/src/cli/.worktrees/me/fix-it",
            "/home/me/src/cli/.claude/worktrees/fix",
            "C:\\src\\cli",
        ] {
            assert_eq!(repository_of(path).as_deref(), Some("cli"), "{path}");
        }
        assert_eq!(repository_of("/"), None);
    }

    fn run(lines: &[&str]) -> (Trajectory, Losses) {
        let source = Source::test("s.jsonl", "claude-code");
        let mut sink = Sink::new(&source);
        let mut session = Box::<ClaudeSession>::default();
        for line in lines {
            session.value(line.as_bytes()).unwrap();
        }
        session.finish(&mut sink);
        (sink.trajectories.remove(0), sink.losses)
    }

    #[test]
    fn a_session_with_a_compaction() {
        let (t, losses) = run(&[
            r#"{"type":"summary","summary":"x","leafUuid":"y"}"#,
            r#"{"type":"user","uuid":"1","sessionId":"s1","cwd":"/home/u/proj","timestamp":"1970-01-01T00:00:01Z","message":{"role":"user","content":"Fix it."}}"#,
            r#"{"type":"assistant","uuid":"2","message":{"id":"m1","model":"c","content":[{"type":"thinking","thinking":"hm"}]}}"#,
            r#"{"type":"assistant","uuid":"3","message":{"id":"m1","model":"c","content":[{"type":"text","text":"Reading."}]}}"#,
            r#"{"type":"assistant","uuid":"4","message":{"id":"m1","model":"c","content":[{"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"a.py"}}]}}"#,
            r#"{"type":"progress","uuid":"p","data":{"type":"bash_progress"}}"#,
            r#"{"type":"user","uuid":"5","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"x = 1"}]},"toolUseResult":{"file":"x = 1"}}"#,
            r#"{"type":"user","uuid":"5","message":{"content":"again"}}"#,
            r#"{"type":"assistant","uuid":"6","message":{"id":"m2","model":"c","content":[{"type":"text","text":"Done."}]}}"#,
            r#"{"type":"system","subtype":"compact_boundary","uuid":"7","compactMetadata":{"trigger":"auto","preTokens":9}}"#,
            r#"{"type":"user","uuid":"8","isCompactSummary":true,"message":{"content":"So far: fixed."}}"#,
            r#"{"type":"user","uuid":"9","isMeta":true,"message":{"content":"caveat"}}"#,
            r#"{"type":"assistant","uuid":"10","isSidechain":true,"message":{"id":"z","content":[]}}"#,
            r#"{"type":"assistant","uuid":"11","message":{"id":"m3","model":"<synthetic>","content":[{"type":"text","text":"API Error"}]}}"#,
            r#"{"type":"assistant","uuid":"12","message":{"id":"m4","model":"c","content":[{"type":"text","text":"Next."}]}}"#,
        ]);
        let outline: Vec<String> = t
            .steps
            .iter()
            .map(|s| format!("{} {} {} {}", s.segment, s.turn, s.kind.name(), s.text))
            .collect();
        assert_eq!(
            outline,
            [
                "0 0 message Fix it.",
                "0 1 thought hm",
                "0 1 thought Reading.",
                "0 1 action Read\na.py",
                "0 1 observation x = 1",
                "0 2 message Done.",
                "1 3 compaction So far: fixed.",
                "1 3 message Next."
            ]
        );
        assert_eq!((t.task_id.as_deref(), t.repository.as_deref()), (Some("s1"), Some("proj")));
        assert_eq!(t.steps[0].time, Some(1_000_000));
        for what in [
            "progress line left out",
            "line with a repeated uuid left out",
            "meta message left out",
            "side chain line left out",
            "message not of the model left out",
            "summary line left out",
        ] {
            assert_eq!(losses.0[what], 1, "{what}");
        }
    }

    #[test]
    fn the_origin_is_the_first_uuid_of_the_conversation() {
        let found = |head: &str, whole| match origin(head.as_bytes(), whole) {
            Origin::Uuid(uuid) => uuid,
            Origin::None => "none".to_owned(),
            Origin::More => "more".to_owned(),
        };
        let head = concat!(
            r#"{"type":"summary","leafUuid":"0"}"#,
            "\n{broken \"uuid\"\n",
            r#"{"type":"progress","uuid":"1","sessionId":"s"}"#,
            "\n",
            r#"{"type":"user","uuid":"2","sessionId":"s","isSidechain":true}"#,
            "\n",
            r#"{"type":"user","sessionId":"s","message":{"content":"a"},"uuid":"3"}"#,
        );
        assert_eq!(found(head, true), "3");
        assert_eq!(found(&format!("{head}\n"), false), "3");
        assert_eq!(found(&head[..head.len() - 5], false), "more");
        assert_eq!(found(r#"{"messages":[{"uuid":"#, false), "none");
        assert_eq!(found(r#"{"uuid":"1"}"#, true), "none");
    }

    #[test]
    fn results_between_the_lines_of_one_call() {
        let (t, _) = run(&[
            r#"{"type":"user","message":{"content":"T"}}"#,
            r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"A","input":{}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"a"}]}}"#,
            r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t2","name":"B","input":{}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t2","content":"b"}]}}"#,
        ]);
        let turns: Vec<u32> = t.steps.iter().map(|s| s.turn).collect();
        assert_eq!(turns, [0, 1, 1, 1, 1]);
    }

    #[test]
    fn a_summary_line_right_after_the_boundary_is_its_summary() {
        let (t, losses) = run(&[
            r#"{"type":"user","message":{"content":"T"}}"#,
            r#"{"type":"system","subtype":"compact_boundary"}"#,
            r#"{"type":"summary","summary":"so far"}"#,
            r#"{"type":"user","message":{"content":"U"}}"#,
        ]);
        assert_eq!(t.steps[1].text, "so far");
        assert_eq!(losses.0.len(), 0);
    }

    #[test]
    fn a_boundary_without_a_summary_opens_a_segment() {
        let (t, losses) = run(&[
            r#"{"type":"user","message":{"content":"T"}}"#,
            r#"{"type":"system","subtype":"compact_boundary"}"#,
            r#"{"type":"user","message":{"content":"U"}}"#,
        ]);
        assert_eq!(t.steps.iter().map(|s| s.segment).collect::<Vec<_>>(), [0, 1, 1]);
        assert_eq!(losses.0["compaction without its summary"], 1);
    }
}
