//! A line as it is used: its place in the tree, and what stands in it.

use super::line::{self, Compact, Line, Message, Microcompact, Piece, Pieces, short};
use super::reply::Part;
use super::tree::{Node, What};
use super::words::{self, CONTINUATION, Words};
use crate::logs::formats::reading::draft::{Losses, UNTOLD};
use crate::logs::formats::reading::reply::Call;
use crate::logs::formats::reading::scalar::Scalar;
use crate::trajectory::Usage;

/// Attachments that are notes of the program: the model is not sent them.
const UNSENT: [&str; 10] = [
    "already_read_file",
    "command_permissions",
    "edited_image_file",
    "hook_cancelled",
    "hook_error_during_execution",
    "hook_non_blocking_error",
    "hook_permission_decision",
    "hook_system_message",
    "prompt_snapshot",
    "structured_output",
];

/// A line that hangs in the tree, with what of it is read.
pub(super) struct Entry {
    pub(super) position: usize,
    /// The session that the line names, by its number.
    pub(super) session: Option<u32>,
    pub(super) is_of_conversation: bool,
    pub(super) time: Option<i64>,
    pub(super) uuid: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) logical_parent: Option<String>,
    pub(super) is_sidechain: bool,
    pub(super) agent: Option<String>,
    pub(super) body: Body,
}

pub(super) enum Body {
    /// Nothing but its place in the tree.
    Link,
    /// A message by or in the name of the user: results of calls, then words.
    User {
        results: Vec<ToolResult>,
        words: Vec<Words>,
        is_by_user: bool,
    },
    Reply {
        id: Option<String>,
        request: Option<String>,
        model: Option<String>,
        parts: Vec<Part>,
        usage: Option<Usage>,
    },
    /// A compaction, and the positions of the lines that it keeps.
    Boundary {
        compact: Compact,
        kept: Vec<usize>,
    },
    /// The text of a compaction.
    Summary(String),
    /// A line of type summary: a title, or right behind a boundary the text of the compaction.
    Title(String),
    /// A microcompaction: calls by their ids, attachments by their uuids, and then by their positions.
    Clearing {
        calls: Vec<String>,
        attachments: Vec<String>,
        messages: Vec<usize>,
        resized: [Option<Scalar>; 2],
    },
    Queue {
        operation: String,
        content: Option<String>,
    },
    /// A prompt of the queue where it was taken up.
    Queued(Vec<Words>),
    /// Words of the harness.
    Notice(String),
}

/// The result of a call: the call's id, the text, and whether it is an error.
pub(super) type ToolResult = (Option<String>, String, Option<bool>);

/// Reads what stands in a line of this type.
pub(super) fn read(kind: &str, line: Line, losses: &mut Losses) -> Body {
    match kind {
        "user" | "assistant" | "tool_result" => read_message(line, kind != "assistant", losses),
        "system" => read_system(line, losses),
        "attachment" => read_attachment(line, losses),
        "queue-operation" => Body::Queue {
            operation: line.operation.unwrap_or_default(),
            content: line.content.map(|content| content.into_text(losses)),
        },
        "summary" => {
            let content = line.message.and_then(|message| message.content);
            Body::Title(line.summary.unwrap_or_else(|| text_of(content.unwrap_or_default(), losses)))
        }
        _ => read_other(kind, line, losses),
    }
}

fn read_message(line: Line, is_user: bool, losses: &mut Losses) -> Body {
    let mut is = |mark: Option<Scalar>, name| line::is_true(mark, name, losses);
    let is_meta = is(line.is_meta, "isMeta");
    let is_summary = is(line.is_compact_summary, "isCompactSummary");
    let is_transcript_only = is(line.is_transcript_only, "isVisibleInTranscriptOnly");
    let is_api_error = is(line.is_api_error, "isApiErrorMessage");
    let Some(message) = line.message else {
        losses.add("line without a message left out");
        return Body::Link;
    };
    let content = message.content.as_ref();
    if is_user && (is_summary || content.is_some_and(|pieces| pieces.begins_with(CONTINUATION))) {
        return Body::Summary(text_of(message.content.unwrap_or_default(), losses));
    }
    if is_transcript_only {
        losses.add("message that only the user is shown left out");
        return Body::Link;
    }
    if is_user {
        let is_by_user = line.tool_use_result.is_some_and(|result| result.is_by_user);
        return read_user(message, is_meta, is_by_user, losses);
    }
    if message.model.as_deref() == Some("<synthetic>") || is_api_error {
        losses.add("message not of the model left out");
        return Body::Link;
    }
    read_reply(message, line.request_id, losses)
}

fn text_of(pieces: Pieces, losses: &mut Losses) -> String {
    let texts: Vec<String> = pieces.0.into_iter().filter_map(|piece| piece.into_text(losses)).collect();
    texts.join("\n")
}

fn read_user(mut message: Message, is_meta: bool, is_by_user: bool, losses: &mut Losses) -> Body {
    let (mut results, mut said) = (Vec::new(), Vec::new());
    let mut pieces = message.take_pieces(losses);
    let mut others = message.take_others(&pieces, losses);
    for call in others.calls.drain(..).map(Call::of) {
        losses.add("tool call of the user kept as text");
        pieces.push(Piece::text(format!("[tool_call] {} {}", call.tool, call.arguments)));
    }
    pieces.push(Piece::text(others.behind(String::new())));
    for mut piece in pieces {
        if piece.is_result() {
            let id = piece.block.tool_use_id.take();
            let (text, is_error) = piece.into_result(losses);
            results.push((id, text, is_error));
        } else if let Some(text) = piece.into_text(losses).filter(|text| !text.trim().is_empty()) {
            said.extend(if is_meta { vec![Words::Harness(text)] } else { words::words(text) });
        }
    }
    if results.is_empty() && said.is_empty() {
        losses.add("empty message");
    }
    Body::User { results, words: words::joined(said), is_by_user }
}

fn read_reply(mut message: Message, request: Option<String>, losses: &mut Losses) -> Body {
    let pieces = message.take_pieces(losses);
    let others = message.take_others(&pieces, losses);
    let n_edits = message.context_management.and_then(|c| c.applied).map_or(0, |list| list.0.len());
    losses.add_n("edit of the context at the provider, not replayed", n_edits as u64);
    let mut calls: Vec<Call> = others.calls.into_iter().map(Call::of).collect();
    let mut parts: Vec<Part> = others.thoughts.into_iter().map(Part::Thinking).collect();
    for mut piece in pieces {
        let part = match piece.kind() {
            "thinking" => Part::Thinking(piece.block.thinking.take().unwrap_or_default()),
            "redacted_thinking" => {
                losses.add("redacted thinking left out");
                continue;
            }
            _ if piece.is_call() => {
                let block = piece.block;
                let tool = block.name.unwrap_or_else(|| "unknown".to_owned());
                let arguments = block.input.unwrap_or_default().0;
                let mut call = Call::new(block.id, tool, arguments);
                let is_merged = call.merge(&mut calls).is_some();
                losses.add_n("call given in two styles merged", u64::from(is_merged));
                Part::of_call(call)
            }
            _ if piece.is_result() => {
                let id = piece.block.tool_use_id.take();
                let (text, is_error) = piece.into_result(losses);
                Part::Result { id, text, is_error }
            }
            _ => match piece.into_text(losses) {
                Some(text) => Part::Text(text),
                None => continue,
            },
        };
        if part == Part::Thinking(String::new()) {
            losses.add("thinking without its text");
        }
        parts.push(part);
    }
    parts.extend(Some(others.text).filter(|text| !text.is_empty()).map(Part::Text));
    parts.extend(calls.into_iter().map(Part::of_call));
    let usage = message.usage.and_then(|usage| {
        losses.add_n("usage with a count that is none", u64::from(usage.is_odd()));
        usage.usage()
    });
    Body::Reply { id: message.id, request, model: message.model, parts, usage }
}

fn read_system(line: Line, losses: &mut Losses) -> Body {
    match line.subtype.as_deref().unwrap_or("") {
        "compact_boundary" => Body::Boundary { compact: line.compact.unwrap_or_default(), kept: Vec::new() },
        "microcompact_boundary" | "microcompact" => {
            let Microcompact { tools, attachments, before, saved } = line.microcompact.unwrap_or_default();
            let calls = tools.unwrap_or_default().0;
            let attachments = attachments.unwrap_or_default().0;
            if calls.is_empty() && attachments.is_empty() {
                losses.add(&format!("{UNTOLD}microcompaction"));
            }
            let count = |n: Option<Scalar>| n.and_then(Scalar::count);
            let behind = count(before).zip(count(saved)).map(|(n, saved)| n.saturating_sub(saved));
            let resized = [before, behind.map(|n| Scalar::Number(n as f64))];
            Body::Clearing { calls, attachments, messages: Vec::new(), resized }
        }
        "local_command" => {
            let text = line.content.unwrap_or_default().into_text(losses);
            if text.is_empty() { Body::Link } else { Body::Notice(text) }
        }
        _ => {
            losses.add("system line of the harness left out");
            Body::Link
        }
    }
}

/// What the program added to the conversation: a prompt of the queue, or a text of its own. Newer versions log
/// the text that was sent; of the others all that the line holds is taken.
fn read_attachment(line: Line, losses: &mut Losses) -> Body {
    let value: serde_json::Value =
        line.attachment.and_then(|json| serde_json::from_str(&json.0).ok()).unwrap_or_default();
    let field = |name: &str| value.get(name).and_then(serde_json::Value::as_str);
    let kind = field("type").unwrap_or("");
    if kind == "queued_command" {
        let prompt: Pieces = value
            .get("prompt")
            .and_then(|prompt| serde_json::from_str(&prompt.to_string()).ok())
            .unwrap_or_default();
        let is_typed = field("commandMode").is_none_or(|mode| mode == "prompt")
            && value.get("isMeta") != Some(&true.into())
            && value.pointer("/origin/kind").is_none_or(|kind| kind == "human");
        let text = text_of(prompt, losses);
        return Body::Queued(if is_typed { words::words(text) } else { vec![Words::Harness(text)] });
    }
    let is_unsent = UNSENT.contains(&kind)
        || kind == "hook_success" && !matches!(field("hookEvent"), Some("SessionStart" | "UserPromptSubmit"));
    if is_unsent {
        losses.add("attachment that the model is not sent left out");
        return Body::Link;
    }
    let rendered: Option<serde_json::Value> = line
        .rendered
        .and_then(|json| serde_json::from_str(&json.0).ok())
        .filter(|v| *v != serde_json::Value::Null);
    let text = match rendered {
        Some(rendered) => line::readable(&rendered, losses),
        None => {
            let text = line::readable(&value, losses);
            if !text.is_empty() {
                losses.add(&format!("attachment kept as text: {}", short(kind)));
            }
            if text.is_empty() { text } else { format!("{kind}\n{text}") }
        }
    };
    if text.is_empty() { Body::Link } else { Body::Notice(text) }
}

/// A line of another type. One with a message is kept as text with its type.
fn read_other(kind: &str, line: Line, losses: &mut Losses) -> Body {
    let text = line.message.map(|mut message| {
        let pieces = message.take_pieces(losses);
        let others = message.take_others(&pieces, losses);
        others.behind(text_of(Pieces(pieces), losses))
    });
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        losses.add(&format!("line kept as text: {}", short(kind)));
        return Body::Notice(format!("{kind}\n{text}"));
    }
    let is_known = ["progress", "file-history-snapshot", "last-prompt"].contains(&kind);
    let name = if is_known { kind } else { "other meta" };
    losses.add(&format!("{name} line left out"));
    Body::Link
}

impl Entry {
    /// What the tree needs to know of it.
    pub(super) fn node(&self) -> Node<'_> {
        let is_command =
            |words: &Words| ["<command-", "<bash-input"].iter().any(|start| words.text().starts_with(start));
        let what = match &self.body {
            Body::User { results, words, .. } if results.is_empty() => {
                match words.iter().find(|words| matches!(words, Words::User(_))) {
                    Some(words) if is_command(words) => What::Command,
                    Some(_) => What::Prompt,
                    None => What::Harness,
                }
            }
            Body::Queued(words) if words.iter().any(|words| matches!(words, Words::User(_))) => What::Queued,
            Body::User { .. } | Body::Queued(_) => What::Said,
            Body::Reply { id, request, .. } => What::Reply(id.as_deref().zip(request.as_deref())),
            Body::Boundary { .. } | Body::Summary(_) => What::Compaction,
            _ => What::Link,
        };
        Node {
            uuid: self.uuid.as_deref(),
            parent: self.parent.as_deref(),
            logical_parent: self.logical_parent.as_deref(),
            is_sidechain: self.is_sidechain,
            what,
        }
    }
}
