//! Chats of GitHub Copilot in VS Code as the journal of their changes: the first line is the chat, and each further one
//! changes a place in it.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::Value;

use super::reading::draft::{EMPTY_RUN, Losses};
use super::reading::record;
use super::vscode_chat;
use super::{Entry, Origin, Reading, Session, Sink, read_repaired};

pub(super) const ENTRY: Entry = Entry {
    name: "vscode-journal",
    summary: "chats of GitHub Copilot in VS Code, as a journal of changes",
    reading: Reading::Session { open: || Box::<Journal>::default(), origin: |_, _| Origin::None },
};

record! {
    struct Change in "vscode.change" {
        kind: u64 = "kind",
        place: Vec<Value> = "k",
        value: Value = "v",
        length: u64 = "i",
    }
}

#[derive(Default)]
struct Journal {
    chat: Value,
    losses: Losses,
}

impl Session for Journal {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let change: Change = serde_json::from_slice(bytes)?;
        if change.kind == Some(0) {
            self.chat = change.value.unwrap_or_default();
            return Ok(());
        }
        if self.chat.is_null() {
            // The line that begins it is damaged or gone.
            self.chat = Value::Object(serde_json::Map::new());
        }
        if apply(&mut self.chat, change).is_none() {
            self.losses.add("change of a place that is not there left out");
        }
        Ok(())
    }

    /// The whole chat may be logged anew; another one has another id, or lacks what was said.
    fn is_another(&self, bytes: &[u8]) -> bool {
        if self.chat.is_null() || memchr::memchr(b'0', &bytes[..bytes.len().min(32)]).is_none() {
            return false;
        }
        let change: Change = serde_json::from_slice(bytes).unwrap_or_default();
        let Some(new) = change.value.filter(|_| change.kind == Some(0)) else { return false };
        match (self.chat.get("sessionId"), new.get("sessionId")) {
            (Some(old), Some(new)) => old != new,
            _ => {
                let known = requests(&new);
                !requests(&self.chat).is_subset(&known)
            }
        }
    }

    fn finish(self: Box<Self>, sink: &mut Sink<'_>) {
        sink.losses.merge(&self.losses);
        if self.chat.is_null() {
            return sink.losses.add(EMPTY_RUN);
        }
        let chat = serde_json::to_vec(&self.chat).unwrap_or_default();
        read_repaired(&chat, sink, vscode_chat::read);
    }
}

/// The ids of the requests in a chat.
fn requests(chat: &Value) -> HashSet<&str> {
    let all = chat.get("requests").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(|request| request.get("requestId")?.as_str()).collect()
}

/// Does a change; none if its place is not there.
fn apply(chat: &mut Value, change: Change) -> Option<()> {
    let place = change.place?;
    let (last, path) = place.split_last()?;
    let mut at = chat;
    for key in path {
        at = match (at, key) {
            (Value::Object(fields), Value::String(key)) => fields.get_mut(key)?,
            (Value::Array(items), key) => items.get_mut(usize::try_from(key.as_u64()?).ok()?)?,
            _ => return None,
        };
    }
    let value = change.value.unwrap_or_default();
    match change.kind? {
        1 => set(at, last, value),
        2 => {
            let length = change.length.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
            if at.is_object() && at.get(last.as_str()?).is_none_or(Value::is_null) {
                set(at, last, Value::Array(Vec::new()))?;
            }
            let list = match at {
                Value::Object(fields) => fields.get_mut(last.as_str()?)?,
                Value::Array(items) => items.get_mut(usize::try_from(last.as_u64()?).ok()?)?,
                _ => return None,
            };
            let Value::Array(items) = list else { return None };
            items.truncate(length.unwrap_or(usize::MAX));
            if let Value::Array(more) = value {
                items.extend(more);
            }
            Some(())
        }
        3 => match at {
            Value::Object(fields) => fields.shift_remove(last.as_str()?).map(|_| ()),
            at => set(at, last, Value::Null),
        },
        _ => None,
    }
}

fn set(at: &mut Value, key: &Value, value: Value) -> Option<()> {
    match at {
        Value::Object(fields) => {
            fields.insert(key.as_str()?.to_owned(), value);
        }
        Value::Array(items) => {
            let key = usize::try_from(key.as_u64()?).ok()?;
            match key.cmp(&items.len()) {
                Ordering::Less => items[key] = value,
                Ordering::Equal => items.push(value),
                Ordering::Greater => return None,
            }
        }
        _ => return None,
    }
    Some(())
}
