//! Items of OpenAI's Responses API among messages: calls, their outputs, reasoning. They have a type and mostly
//! no role.
//!
//! An item whose type ends in `_call` is a call, also of a tool that the provider runs (`web_search_call`), which may
//! hold its own output; one whose type ends in `_call_output` is a result. Every other item is kept as text with its
//! type.

use serde_json::value::RawValue;

use super::content::UNKNOWN_TOOL;
use super::draft::Losses;
use super::message::{self, Message};
use super::others::{self, Others};
use super::reply::Call;
use super::{Content, fields};

/// What an item is.
pub(crate) enum Item {
    Reasoning(Option<String>),
    Call {
        call: Call,
        output: Option<String>,
    },
    Output {
        id: Option<String>,
        text: String,
        is_error: Option<bool>,
    },
    /// What takes the place of all before it; empty where only the provider can read it.
    Compaction(String),
    /// Words without a rule; none if it has no words.
    Other(Option<String>),
}

/// Whether an entry of a list of messages is an item, not a message.
pub(crate) fn is_item(message: &Message) -> bool {
    let Some(kind) = message.kind.as_deref() else {
        return false;
    };
    kind.ends_with("_call")
        || kind.ends_with("_call_output")
        || kind == "reasoning"
        || message.role.is_none() && kind != "message" && !message::is_role(kind)
}

/// What an item with a rule says in fields without one. The other items are read with all their fields.
pub(crate) fn others(message: &Message, losses: &mut Losses) -> Others {
    let kind = message.kind.as_deref().unwrap_or("");
    let has_arguments = message.arguments.is_some() || message.input.is_some();
    if !(kind == "reasoning" || kind.ends_with("_call_output") || kind.ends_with("_call") && has_arguments) {
        return Others::default();
    }
    others::read(&message.rest, || message.all_said(), losses)
}

/// Reads an item.
pub(crate) fn read(mut message: Message, losses: &mut Losses) -> Item {
    let kind = message.kind.take().unwrap_or_default();
    let text = |content: Option<Content>, losses: &mut Losses| {
        content.map(|c| c.into_text(losses)).filter(|t| !t.is_empty())
    };
    if kind == "reasoning" {
        let thought = text(message.content, losses).or_else(|| text(message.summary, losses));
        if thought.is_none() && message.rest.0.iter().any(|(key, _)| key == "encrypted_content") {
            losses.add("encrypted reasoning left out");
        }
        return Item::Reasoning(thought);
    }
    if matches!(kind.as_str(), "compaction" | "compaction_summary") {
        let summary = text(message.summary, losses).or_else(|| text(message.content, losses));
        losses.add_n("compaction whose text is encrypted", u64::from(summary.is_none()));
        return Item::Compaction(summary.unwrap_or_default());
    }
    let id = message.call_id.or(message.id.map(|id| id.0));
    if kind.ends_with("_call_output") {
        let output =
            text(message.output, losses).or_else(|| text(message.content, losses)).unwrap_or_default();
        let is_error = message.is_error.and_then(|is| is.truth("is_error", losses));
        return Item::Output { id, text: output, is_error };
    }
    if let Some(tool) = kind.strip_suffix("_call") {
        let output = text(message.output, losses).or_else(|| text(message.error, losses));
        let arguments = message.arguments.or(message.input).map_or_else(|| object(&message.rest.0), |a| a.0);
        let tool =
            message.name.unwrap_or_else(|| if tool.is_empty() { UNKNOWN_TOOL } else { tool }.to_owned());
        return Item::Call { call: Call::new(id, tool, arguments), output };
    }
    let words = [
        message.name,
        text(message.content, losses),
        text(message.output, losses),
        text(message.summary, losses),
        message.arguments.or(message.input).map(|a| fields::words_of(&a.0)),
        text(message.error, losses),
        Some(message.rest.words()),
    ];
    let words: Vec<String> = words.into_iter().flatten().filter(|w| !w.is_empty()).collect();
    let name: String = kind.chars().take(40).collect();
    if words.is_empty() {
        losses.add(&format!("item without text: {name}"));
        return Item::Other(None);
    }
    losses.add(&format!("item without a rule kept as text: {name}"));
    Item::Other(Some(format!("[{name}] {}", words.join("\n"))))
}

/// What a call of a hosted tool says of itself, as arguments.
fn object(rest: &[(String, Box<RawValue>)]) -> String {
    let is_argument = |key: &str| !["id", "type", "status", "container_id", "server_label"].contains(&key);
    let parts: Vec<String> = rest
        .iter()
        .filter(|(key, raw)| is_argument(key) && raw.get() != "null")
        .map(|(key, raw)| {
            format!("{}:{}", serde_json::Value::from(key.as_str()), fields::without_long_data(raw.get()))
        })
        .collect();
    format!("{{{}}}", parts.join(","))
}
