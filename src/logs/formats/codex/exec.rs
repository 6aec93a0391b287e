//! The stream of `codex exec --json`: items as they begin, change and end.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::logs::formats::reading::Content;
use crate::logs::formats::reading::chat::Message;
use crate::logs::formats::reading::content::Arguments;
use crate::logs::formats::reading::scalar::Scalar;

/// Whether a line of this type belongs to the stream.
pub(super) fn is_event(kind: &str) -> bool {
    ["thread.", "turn.", "item."].iter().any(|start| kind.starts_with(start)) || kind == "error"
}

/// Items that began and did not end yet, by their ids.
#[derive(Default)]
pub(super) struct Open(BTreeMap<String, Map<String, Value>>);

impl Open {
    /// What an event says of an item: the item, once it has ended.
    pub(super) fn read(&mut self, event: &str, item: Map<String, Value>) -> Vec<Message> {
        let id = text(&item, "id");
        if event == "item.completed" {
            id.inspect(|id| drop(self.0.remove(id)));
            return messages(item, true);
        }
        self.0.insert(id.unwrap_or_default(), item);
        Vec::new()
    }

    /// The items that did not end: calls without a result.
    pub(super) fn finish(self) -> Vec<Message> {
        self.0.into_values().flat_map(|item| messages(item, false)).collect()
    }
}

fn text(item: &Map<String, Value>, key: &str) -> Option<String> {
    item.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// An item as items of the Responses API: words, a thought, or a call and its output.
fn messages(item: Map<String, Value>, is_ended: bool) -> Vec<Message> {
    let kind = text(&item, "type").or_else(|| text(&item, "item_type")).unwrap_or_default();
    let said = text(&item, "text").map(Content::Text);
    match kind.as_str() {
        "agent_message" | "assistant_message" => vec![Message {
            kind: Some("message".to_owned()),
            role: Some("assistant".to_owned()),
            content: said,
            ..Message::default()
        }],
        "reasoning" => vec![Message { kind: Some(kind), content: said, ..Message::default() }],
        "error" => vec![Message {
            kind: Some("message".to_owned()),
            role: Some("tool".to_owned()),
            content: text(&item, "message").map(Content::Text),
            ..Message::default()
        }],
        _ => call(kind, item, is_ended),
    }
}

fn call(kind: String, mut item: Map<String, Value>, is_ended: bool) -> Vec<Message> {
    let id = text(&item, "id");
    let name = text(&item, "tool").unwrap_or_else(|| kind.clone());
    let mut take = |key: &str| item.remove(key).filter(|value| !value.is_null());
    let results = [take("aggregated_output"), take("result"), take("error")];
    let exit_code = take("exit_code");
    let status = take("status");
    ["id", "type", "item_type"].iter().for_each(|key| drop(take(key)));
    let arguments = take("arguments").unwrap_or(Value::Object(item));
    let is_error = exit_code.and_then(|code| code.as_i64()).map(|code| code != 0);
    let is_error = is_error.or_else(|| (status.as_ref()? == "failed").then_some(true));
    let words = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let output: Vec<String> = results.into_iter().flatten().map(words).collect();
    let output = if output.is_empty() { status.map_or(String::new(), words) } else { output.join("\n") };
    let called = Message {
        kind: Some("function_call".to_owned()),
        call_id: id.clone(),
        name: Some(name),
        arguments: Some(Arguments(arguments.to_string())),
        ..Message::default()
    };
    let answered = Message {
        kind: Some("function_call_output".to_owned()),
        call_id: id,
        output: Some(Content::Text(output)),
        is_error: is_error.map(Scalar::Bool),
        ..Message::default()
    };
    std::iter::once(called).chain(is_ended.then_some(answered)).collect()
}
