//! Databases of Cursor's command line, a chat each (`store.db`): blobs by their hashes, of which the newest root names the
//! messages in their order. From the source of other readers alone: no chat was at hand.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use super::cursor;
use super::reading::content::Arguments;
use super::reading::draft::Losses;
use super::reading::fields::words_of;
use super::reading::reply::{Call, Reply};
use super::reading::scalar::Scalar;
use super::reading::tables::Rows;
use super::reading::{Draft, List, record};
use super::{Entry, Reading, Sink, read_repaired};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "cursor-store",
    summary: "chat databases of Cursor's command line (from source only)",
    reading: Reading::Database {
        is: |tables| tables.has("blobs", &["id", "data"]) && tables.has("meta", &["key", "value"]),
        rows: &[
            Rows {
                name: "meta",
                table: "meta",
                order: "SELECT '', rowid FROM meta ORDER BY key",
                columns: "key, value",
                json: &[],
            },
            Rows {
                name: "blobs",
                table: "blobs",
                order: "SELECT '', rowid FROM blobs ORDER BY rowid",
                columns: "id, hex(data) AS data",
                json: &[],
            },
        ],
        read,
    },
};

record! {
    struct Run in "cursor.store" {
        meta: List<Meta> = "meta",
        blobs: List<Blob> = "blobs",
    }

    struct Meta in "cursor.store.meta" {
        value: String = "value",
    }

    struct Blob in "cursor.store.blob" {
        id: String = "id",
        data: String = "data",
    }

    /// What stands in `meta`, as JSON in hex.
    struct About in "cursor.chat" {
        id: String = "agentId",
        root: String = "latestRootBlobId",
        model: String = "lastUsedModel",
    }

    struct Message in "cursor.chat.message" {
        role: String = "role",
        content: Parts = "content",
    }

    struct Part in "cursor.chat.part" {
        kind: String = "type",
        text: String = "text",
        call: String = "toolCallId",
        tool: String = "toolName",
        arguments: Arguments = "args" | "input",
        output: Box<RawValue> = "result" | "output",
        is_error: Scalar = "isError",
        .. rest but "providerOptions" | "experimental_content" | "signature" | "data"
    }
}

/// A text, or parts.
#[derive(Default)]
pub(crate) struct Parts(Vec<Part>);

impl<'de> serde::Deserialize<'de> for Parts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let read = match raw.starts_with('"') {
            true => serde_json::from_str(raw).map(|text| {
                vec![Part { kind: Some("text".to_owned()), text: Some(text), ..Part::default() }]
            }),
            false => serde_json::from_str::<List<Part>>(raw).map(|list| list.0),
        };
        read.map(Parts).map_err(serde::de::Error::custom)
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let meta = run.meta.unwrap_or_default().0.into_iter().find_map(|meta| from_hex(&meta.value?));
    let about: About = meta.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default();
    let blobs: Vec<(String, Vec<u8>)> = run
        .blobs
        .unwrap_or_default()
        .0
        .into_iter()
        .filter_map(|blob| Some((blob.id?.to_lowercase(), from_hex(&blob.data?)?)))
        .collect();
    let mut draft = Draft::new();
    let root = about.root.unwrap_or_default().to_lowercase();
    for (i, json) in in_order(&root, &blobs, &mut draft.losses).into_iter().enumerate() {
        draft.at(i, None);
        read_repaired(json, sink, |json, _| {
            read_message(serde_json::from_slice(json)?, &mut draft);
            Ok(())
        });
    }
    let about = Trajectory {
        model: about.model,
        agent: Some("cursor".to_owned()),
        format: "cursor".to_owned(),
        ..Trajectory::default()
    }
    .of_session(about.id, &sink.source.stem);
    draft.finish(about, sink);
    Ok(())
}

/// The messages below a root; where there is none, all of them.
fn in_order<'a>(root: &str, blobs: &'a [(String, Vec<u8>)], losses: &mut Losses) -> Vec<&'a [u8]> {
    let by_id: HashMap<&str, &Vec<u8>> = blobs.iter().map(|(id, data)| (id.as_str(), data)).collect();
    let is_message = |data: &[u8]| data.starts_with(b"{");
    let n_messages = blobs.iter().filter(|(_, data)| is_message(data)).count();
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut open = vec![root.to_owned()];
    while let Some(id) = open.pop() {
        let Some(data) = by_id.get(id.as_str()).filter(|_| seen.insert(id.clone())) else {
            continue;
        };
        if is_message(data) {
            found.push(data.as_slice());
        } else {
            open.extend(children(data).into_iter().rev());
        }
    }
    if found.is_empty() {
        losses.add_n("message of a chat without a root, in the order of the table", n_messages as u64);
        return blobs.iter().map(|(_, data)| data.as_slice()).filter(|data| is_message(data)).collect();
    }
    losses.add_n("message that the newest state does not name left out", (n_messages - found.len()) as u64);
    found
}

/// The hashes in a record of protobuf: fields of 32 bytes.
fn children(data: &[u8]) -> Vec<String> {
    let mut rest = data;
    let mut ids = Vec::new();
    while let Some(tag) = varint(&mut rest) {
        let skipped = match tag & 7 {
            0 => varint(&mut rest).map(|_| 0),
            1 => Some(8),
            2 => varint(&mut rest),
            5 => Some(4),
            _ => None,
        };
        let Some(field) = skipped.and_then(|n| rest.split_at_checked(usize::try_from(n).ok()?)) else {
            break;
        };
        if tag & 7 == 2 && field.0.len() == 32 {
            ids.push(field.0.iter().map(|b| format!("{b:02x}")).collect());
        }
        rest = field.1;
    }
    ids
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 127) << shift;
        if byte & 128 == 0 {
            return Some(value);
        }
    }
    None
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: &u8| char::from(*b).to_digit(16);
    let bytes = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
        _ => None,
    });
    bytes.collect()
}

fn read_message(message: Message, draft: &mut Draft) {
    let parts = message.content.unwrap_or_default().0;
    let role = message.role.unwrap_or_default();
    if role == "assistant" {
        return read_reply(parts, draft);
    }
    for part in parts {
        match part.kind.as_deref().unwrap_or_default() {
            "tool-result" => {
                let is_error = part.is_error.and_then(|is| is.truth("isError", &mut draft.losses));
                let text = part.output.map_or(String::new(), |raw| words_of(raw.get()));
                draft.result(part.call.as_deref(), part.tool, text, is_error);
            }
            "text" if role == "system" => draft.system(part.text.unwrap_or_default()),
            "text" => cursor::say(&part.text.unwrap_or_default(), draft),
            kind => {
                if let Some(text) = part.rest.said_as(kind, &mut draft.losses) {
                    draft.notice(text);
                }
            }
        }
    }
}

fn read_reply(parts: Vec<Part>, draft: &mut Draft) {
    let mut reply = Reply::begin(None, draft);
    for part in parts {
        match part.kind.as_deref().unwrap_or_default() {
            "text" => reply.text(part.text.unwrap_or_default(), draft),
            "reasoning" => reply.thought(part.text.unwrap_or_default(), draft),
            "redacted-reasoning" => draft.losses.add("redacted thinking left out"),
            "tool-call" => {
                let tool = part.tool.unwrap_or_else(|| "unknown".to_owned());
                let call = Call::new(part.call, tool, part.arguments.unwrap_or_default().0);
                reply.call(call, &mut Vec::new(), draft);
            }
            kind => {
                let text = part.rest.said_as(kind, &mut draft.losses);
                reply.text(text.unwrap_or_default(), draft);
            }
        }
    }
    reply.end(draft);
}

#[cfg(test)]
mod tests;
