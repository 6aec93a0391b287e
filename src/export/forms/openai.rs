//! Chat messages of OpenAI: `{messages, tools}` of a request.

use serde_json::{Value, json};

use super::super::messages::{Message, Prompt, Reply};
use super::{About, function, tools};

pub(super) fn write(about: &About, prompt: &mut Prompt) -> Value {
    let mut document = about.head();
    let tools: Vec<Value> = tools(prompt).into_iter().map(function).collect();
    if !tools.is_empty() {
        document.insert("tools".to_owned(), tools.into());
    }
    let mut list = Vec::new();
    for message in &prompt.messages {
        match message {
            Message::System(text) => list.push(json!({"role": "system", "content": text})),
            Message::User(text) => list.push(json!({"role": "user", "content": text})),
            Message::Reply(reply) => write_reply(reply, &mut list),
        }
    }
    document.insert("messages".to_owned(), list.into());
    Value::Object(document)
}

fn write_reply(reply: &Reply, list: &mut Vec<Value>) {
    let content = (!reply.text.is_empty()).then_some(&reply.text);
    if reply.calls.is_empty() {
        return list.push(json!({"role": "assistant", "content": content}));
    }
    let calls = reply.calls.iter().map(|call| {
        let arguments = Value::Object(call.arguments.clone()).to_string();
        json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
    });
    let calls: Vec<Value> = calls.collect();
    list.push(json!({"role": "assistant", "content": content, "tool_calls": calls}));
    let results = reply.calls.iter();
    list.extend(results.map(|call| json!({"role": "tool", "tool_call_id": call.id, "content": call.result})));
}
