//! The database of Cursor's editor (`state.vscdb`): chats by their ids (`composerData:..`) and a row a bubble
//! (`bubbleId:<chat>:<bubble>`), in the order that the chat names. From the source of other readers alone: none was at hand.

use std::collections::HashMap;

use super::cursor;
use super::reading::content::Arguments;
use super::reading::reply::{Call, Reply};
use super::reading::scalar::Scalar;
use super::reading::tables::Rows;
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::{Trajectory, Usage};

pub(super) const ENTRY: Entry = Entry {
    name: "cursor-state",
    summary: "databases of Cursor's editor (from source only)",
    reading: Reading::Database {
        is: |tables| tables.has("cursorDiskKV", &["key", "value"]),
        rows: ROWS,
        read,
    },
};

// Names of chats have no colon, but may have line ends.
const ROWS: &[Rows] = &[
    Rows {
        name: "chats",
        table: "cursorDiskKV",
        order: "SELECT substr(key, 14), rowid FROM cursorDiskKV
            WHERE key >= 'composerData:' AND key < 'composerData;' ORDER BY 1",
        columns: "value",
        json: &["value"],
    },
    Rows {
        name: "bubbles",
        table: "cursorDiskKV",
        order: "SELECT substr(key, 10, instr(substr(key, 10), ':') - 1), rowid FROM cursorDiskKV
            WHERE key >= 'bubbleId:' AND key < 'bubbleId;' ORDER BY 1, rowid",
        columns: "substr(key, 10 + instr(substr(key, 10), ':')) AS id, value",
        json: &["value"],
    },
];

record! {
    struct Run in "cursor.state" {
        chats: List<ChatRow> = "chats",
        bubbles: List<BubbleRow> = "bubbles",
    }

    struct ChatRow in "cursor.state.row" {
        value: Chat = "value",
    }

    struct BubbleRow in "cursor.state.row" {
        id: String = "id",
        value: Bubble = "value",
    }

    struct Chat in "cursor.state.chat" {
        id: String = "composerId",
        headers: List<Header> = "fullConversationHeadersOnly",
        bubbles: List<Bubble> = "conversation",
        model: Model = "modelConfig",
    }

    struct Model in "cursor.state.model" {
        name: String = "modelName",
    }

    struct Header in "cursor.state.header" {
        id: String = "bubbleId",
    }

    struct Bubble in "cursor.state.bubble" {
        kind: Scalar = "type",
        text: String = "text",
        thinking: Thinking = "thinking",
        tool: Tool = "toolFormerData",
        tokens: Tokens = "tokenCount",
        created: Scalar = "createdAt",
        model: Model = "modelInfo",
    }

    struct Thinking in "cursor.state.thinking" {
        text: String = "text",
    }

    struct Tokens in "cursor.state.tokens" {
        input: Scalar = "inputTokens",
        output: Scalar = "outputTokens",
    }

    struct Tool in "cursor.state.tool" {
        id: String = "toolCallId",
        name: String = "name",
        raw: Arguments = "rawArgs",
        parameters: Arguments = "params",
        result: Content = "result",
        status: String = "status",
        of: String = "modelCallId",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let chat = run.chats.unwrap_or_default().0.into_iter().find_map(|row| row.value).unwrap_or_default();
    let rows = run.bubbles.unwrap_or_default().0;
    let places: HashMap<String, usize> = chat
        .headers
        .unwrap_or_default()
        .0
        .into_iter()
        .enumerate()
        .filter_map(|(i, h)| Some((h.id?, i)))
        .collect();
    let mut rows: Vec<(Option<usize>, Bubble)> = rows
        .into_iter()
        .map(|row| (row.id.and_then(|id| places.get(&id).copied()), row.value.unwrap_or_default()))
        .collect();
    let mut draft = Draft::new();
    if !places.is_empty() {
        let n = rows.len();
        rows.retain(|(place, _)| place.is_some());
        draft.losses.add_n("message that the chat does not name left out", (n - rows.len()) as u64);
        rows.sort_by_key(|(place, _)| *place);
    }
    // Older chats hold their bubbles themselves.
    let bubbles = match rows.is_empty() {
        true => chat.bubbles.unwrap_or_default().0,
        false => rows.into_iter().map(|(_, bubble)| bubble).collect(),
    };
    read_all(bubbles, &mut draft);
    let about = Trajectory {
        model: chat.model.and_then(|model| model.name),
        agent: Some("cursor".to_owned()),
        format: "cursor".to_owned(),
        ..Trajectory::default()
    }
    .of_session(chat.id, &sink.source.stem);
    draft.finish(about, sink);
    Ok(())
}

/// Reads bubbles: each holds a part of a reply. A new call of the model begins behind a result, but for tools that name the
/// same call.
fn read_all(bubbles: Vec<Bubble>, draft: &mut Draft) {
    let mut reply: Option<Reply> = None;
    let mut results: Vec<(Option<String>, String, Option<bool>)> = Vec::new();
    let mut of: Option<String> = None;
    for (i, bubble) in bubbles.into_iter().enumerate() {
        let time = bubble.created.unwrap_or_default().time(&mut draft.losses);
        draft.at(i, time);
        let is_user = bubble.kind == Some(Scalar::Number(1.0));
        let is_same = bubble.tool.as_ref().is_some_and(|tool| tool.of.is_some() && tool.of == of);
        if is_user || !results.is_empty() && !is_same {
            end(&mut reply, &mut results, draft);
        }
        let text = bubble.text.unwrap_or_default();
        if is_user {
            cursor::say(&text, draft);
            continue;
        }
        if let Some(model) = bubble.model.and_then(|model| model.name).filter(|name| !name.is_empty()) {
            draft.model(&model);
        }
        let reply = reply.get_or_insert_with(|| Reply::begin(None, draft));
        let count = |n: Option<Scalar>| n.and_then(Scalar::count);
        let tokens = bubble.tokens.unwrap_or_default();
        if let Some(input) = count(tokens.input).filter(|n| *n > 0) {
            draft.usage(Some(Usage { input, output: count(tokens.output), ..Usage::default() }));
        }
        if let Some(thought) = bubble.thinking.and_then(|thinking| thinking.text) {
            reply.thought(thought, draft);
        }
        reply.text(text, draft);
        if let Some(tool) = bubble.tool {
            of = tool.of;
            let arguments = tool.raw.or(tool.parameters).unwrap_or_default().0;
            let name = tool.name.unwrap_or_else(|| "unknown".to_owned());
            reply.call(Call::new(tool.id.clone(), name, arguments), &mut Vec::new(), draft);
            if let Some(result) = tool.result {
                let is_error = tool.status.map(|status| status == "error");
                results.push((tool.id, result.into_text(&mut draft.losses), is_error));
            }
        }
    }
    end(&mut reply, &mut results, draft);
}

fn end(
    reply: &mut Option<Reply>,
    results: &mut Vec<(Option<String>, String, Option<bool>)>,
    draft: &mut Draft,
) {
    if let Some(reply) = reply.take() {
        reply.end(draft);
    }
    for (id, text, is_error) in results.drain(..) {
        draft.result(id.as_deref(), None, text, is_error);
    }
}

#[cfg(test)]
mod tests;
