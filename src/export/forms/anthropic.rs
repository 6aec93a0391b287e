//! Messages of Anthropic: `{system, messages, tools}` of a request. Roles take turns, and the user begins.

use serde_json::{Value, json};

use super::super::messages::{Message, Prompt};
use super::{ADDED_TOOL, About, Tool, tools};

/// What stands where an agent speaks first.
const NO_MESSAGE: &str = "(no message)";

/// Makes of the messages those that the API has: one system prompt, and no two of the user in turn.
pub(super) fn adapt(prompt: &mut Prompt) {
    let mut list: Vec<Message> = Vec::with_capacity(prompt.messages.len());
    for message in std::mem::take(&mut prompt.messages) {
        let is_head = matches!(list[..], [] | [Message::System(_)]);
        match (message, list.last_mut()) {
            (Message::System(text), Some(Message::System(before))) => *before += &format!("\n\n{text}"),
            (Message::System(text), _) if is_head => list.push(Message::System(text)),
            (Message::System(text) | Message::User(text), Some(Message::User(before))) => {
                *before += &format!("\n\n{text}");
            }
            (Message::System(text) | Message::User(text), _) => list.push(Message::User(text)),
            (reply, before) => {
                if !matches!(before, Some(Message::User(_) | Message::Reply(_))) {
                    list.push(Message::User(NO_MESSAGE.to_owned()));
                    prompt.note("message of the user added, as \"(no message)\"");
                }
                list.push(reply);
            }
        }
    }
    // It is refused with blanks at the end of what the agent is to go on with.
    if let Some(Message::Reply(last)) = list.last_mut()
        && last.calls.is_empty()
    {
        last.text.truncate(last.text.trim_end().len());
    }
    if let [Message::System(_)] = list[..] {
        list.push(Message::User(NO_MESSAGE.to_owned()));
        prompt.note("message of the user added, as \"(no message)\"");
    }
    prompt.messages = list;
}

pub(super) fn write(about: &About, prompt: &mut Prompt) -> Value {
    let mut document = about.head();
    if let Some(Message::System(text)) = prompt.messages.first() {
        document.insert("system".to_owned(), text.clone().into());
    }
    let mut all = tools(prompt);
    // It takes no calls of tools that are not described.
    for call in prompt
        .messages
        .iter()
        .flat_map(|message| if let Message::Reply(reply) = message { &reply.calls[..] } else { &[] })
    {
        if all.iter().all(|tool| tool.name != call.name) {
            all.push(Tool::unknown(&call.name));
        }
    }
    let n = all.iter().filter(|tool| tool.is_added).count() as u64;
    if n > 0 {
        *prompt.notes.entry(ADDED_TOOL).or_default() += n;
    }
    let tools: Vec<Value> = all
        .into_iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema}))
        .collect();
    if !tools.is_empty() {
        document.insert("tools".to_owned(), tools.into());
    }
    let (mut list, mut said) = (Vec::new(), Vec::<Value>::new());
    let text = |text: &str| json!({"type": "text", "text": text});
    for message in &prompt.messages {
        let reply = match message {
            Message::System(_) => continue,
            Message::User(words) => {
                said.push(text(words));
                continue;
            }
            Message::Reply(reply) => reply,
        };
        if !said.is_empty() {
            list.push(json!({"role": "user", "content": std::mem::take(&mut said)}));
        }
        let words = (!reply.text.is_empty()).then(|| text(&reply.text));
        let calls = reply.calls.iter().map(
            |call| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}),
        );
        let blocks: Vec<Value> = words.into_iter().chain(calls).collect();
        list.push(json!({"role": "assistant", "content": blocks}));
        said.extend(reply.calls.iter().map(|call| {
            let mut result = json!({"type": "tool_result", "tool_use_id": call.id, "content": call.result});
            if call.is_error {
                result["is_error"] = true.into();
            }
            result
        }));
    }
    if !said.is_empty() {
        list.push(json!({"role": "user", "content": said}));
    }
    document.insert("messages".to_owned(), list.into());
    Value::Object(document)
}
