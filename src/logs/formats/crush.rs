//! Databases of Crush. The Go version of opencode, from which it grew, keeps the same tables ([`super::opencode_go`]).
//!
//! Sub-agents are sessions with a parent. A summary is a message of its own: what stands before it is not sent any more.
//! Tokens are counted for a session alone, and those of its newest call.

use super::reading::content::{Arguments, Media};
use super::reading::reply::{Call, Reply};
use super::reading::scalar::Scalar;
use super::reading::tables::{Rows, Tables};
use super::reading::usage::dollars;
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "crush",
    summary: "databases of Crush",
    reading: Reading::Database {
        is: |tables| is_of_family(tables) && tables.has("messages", &["provider"]),
        rows: ROWS,
        read: |bytes, sink| read("crush", bytes, sink),
    },
};

pub(super) fn is_of_family(tables: &Tables) -> bool {
    tables.has("sessions", &["id", "parent_session_id"])
        && tables.has("messages", &["id", "session_id", "role", "parts", "created_at"])
}

pub(super) const ROWS: &[Rows] = &[
    Rows::all("sessions", "SELECT id, rowid FROM sessions ORDER BY 1", &[]),
    Rows::all(
        "messages",
        "SELECT session_id, rowid FROM messages ORDER BY session_id, created_at, rowid",
        &["parts"],
    ),
];

record! {
    struct Run in "crush.run" {
        sessions: List<Session> = "sessions",
        messages: List<Message> = "messages",
    }

    struct Session in "crush.session" {
        id: String = "id",
        parent: String = "parent_session_id",
        summary: String = "summary_message_id",
        cost: Scalar = "cost",
    }

    struct Message in "crush.message" {
        id: String = "id",
        session: String = "session_id",
        role: String = "role",
        parts: List<Part> = "parts",
        model: String = "model",
        created: Scalar = "created_at",
        is_summary: Scalar = "is_summary_message",
    }

    struct Part in "crush.part" {
        kind: String = "type",
        data: Data = "data",
    }

    struct Data in "crush.part.data" {
        text: String = "text",
        thinking: String = "thinking",
        id: String = "id",
        name: String = "name",
        input: Arguments = "input",
        call: String = "tool_call_id",
        content: Content = "content",
        is_error: Scalar = "is_error",
        mime: String = "MIMEType" | "mime_type",
        media: Media = "Data" | "data" | "url",
        reason: String = "reason",
        .. rest but "metadata" | "signature" | "finished" | "time" | "started_at" | "finished_at"
    }
}

/// Reads a session of this agent.
pub(super) fn read(agent: &str, bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let session = run.sessions.unwrap_or_default().0.into_iter().next().unwrap_or_default();
    let messages = run.messages.unwrap_or_default().0;
    let id = session.id.or_else(|| messages.first()?.session.clone());
    let mut draft = Draft::new();
    for (i, message) in messages.into_iter().enumerate() {
        let time = message.created.unwrap_or_default().time(&mut draft.losses);
        draft.at(i, time);
        let is_summary = message.is_summary.is_some_and(|is| is == Scalar::Number(1.0))
            || message.id.is_some() && message.id == session.summary;
        let parts = message.parts.unwrap_or_default().0;
        if is_summary {
            let texts: Vec<String> = parts.into_iter().filter_map(|part| part.data?.text).collect();
            draft.compaction(texts.join("\n"));
            continue;
        }
        if let Some(model) = message.model.filter(|model| !model.is_empty()) {
            draft.model(&model);
        }
        match message.role.as_deref() {
            Some("assistant") => read_reply(parts, &mut draft),
            _ => read_others(parts, &mut draft),
        }
    }
    let about = Trajectory {
        task_id: id.clone(),
        session: id,
        parent: session.parent.filter(|parent| !parent.is_empty()),
        agent: Some(agent.to_owned()),
        cost: dollars(session.cost),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

fn read_reply(parts: Vec<Part>, draft: &mut Draft) {
    let mut reply: Option<Reply> = None;
    for part in parts {
        let data = part.data.unwrap_or_default();
        let kind = part.kind.unwrap_or_default();
        if kind == "finish" {
            if data.reason.as_deref() == Some("error") {
                draft.losses.add("error of the provider left out");
            }
            continue;
        }
        let reply = reply.get_or_insert_with(|| Reply::begin(None, draft));
        match kind.as_str() {
            "text" => reply.text(data.text.unwrap_or_default(), draft),
            "reasoning" => reply.thought(data.thinking.unwrap_or_default(), draft),
            "tool_call" => {
                let tool = data.name.unwrap_or_else(|| "unknown".to_owned());
                let call = Call::new(data.id, tool, data.input.unwrap_or_default().0);
                reply.call(call, &mut Vec::new(), draft);
            }
            _ => {
                let text = other(&kind, data, draft);
                reply.text(text.unwrap_or_default(), draft);
            }
        }
    }
    match reply {
        Some(reply) => reply.end(draft),
        None => draft.losses.add("reply without anything to read left out"),
    }
}

/// Words of the user, and results of tools.
fn read_others(parts: Vec<Part>, draft: &mut Draft) {
    let mut typed = String::new();
    for part in parts {
        let data = part.data.unwrap_or_default();
        match part.kind.as_deref().unwrap_or_default() {
            "finish" => {}
            "tool_result" => {
                let text = data.content.unwrap_or_default().into_text(&mut draft.losses);
                let is_error = data.is_error.and_then(|is| is.truth("is_error", &mut draft.losses));
                let tool = data.name.filter(|name| !name.is_empty());
                draft.result(data.call.as_deref(), tool, text, is_error);
            }
            kind @ ("text" | "binary" | "image_url") => {
                let text = if kind == "text" { data.text } else { other(kind, data, draft) };
                typed.extend([if typed.is_empty() { "" } else { "\n" }, &text.unwrap_or_default()]);
            }
            kind => {
                if let Some(text) = other(kind, data, draft) {
                    draft.notice(text);
                }
            }
        }
    }
    if !typed.is_empty() {
        draft.user(typed);
    }
}

/// Media as a placeholder, and parts without a rule with their words.
fn other(kind: &str, data: Data, draft: &mut Draft) -> Option<String> {
    if ["binary", "image_url"].contains(&kind) {
        draft.losses.add("media replaced by a placeholder");
        let media = data.media.unwrap_or_default();
        let is_image =
            kind == "image_url" || data.mime.as_ref().is_some_and(|mime| mime.starts_with("image/"));
        let media = Media { media_type: data.mime.or(media.media_type), ..media };
        return Some(media.placeholder(if is_image { "image" } else { "file" }));
    }
    let mut rest = data.rest;
    let content = data.content.map(|content| content.into_text(&mut draft.losses));
    for (key, text) in [("text", data.text), ("content", content), ("input", data.input.map(|input| input.0))]
    {
        if let Some(text) = text {
            rest.add(key, text);
        }
    }
    rest.said_as(kind, &mut draft.losses)
}

#[cfg(test)]
mod tests;
