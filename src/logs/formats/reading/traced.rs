//! Messages as tracers log them, made into messages of a chat: parts of OpenTelemetry, of the Vercel AI SDK, messages of
//! LangChain, requests and responses of providers, as JSON or as JSON in a string.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value, json};

use super::message::{Message, speaker};
use super::usage::LoggedUsage;

/// JSON in strings is read so deep.
const MAX_DEPTH: u32 = 6;

/// What a prompt or a reply holds.
#[derive(Default)]
pub(crate) struct Traced {
    pub(crate) system: Vec<String>,
    pub(crate) tools: Vec<Value>,
    pub(crate) messages: Vec<Value>,
}

impl Traced {
    /// Reads what a tracer logged; text alone is said by `role`.
    pub(crate) fn read(text: &str, role: &str) -> Self {
        let mut traced = Traced::default();
        traced.add(Value::from(text), role, 0);
        traced
    }

    fn add(&mut self, value: Value, role: &str, depth: u32) {
        if depth > MAX_DEPTH {
            return self.say(value.to_string(), role);
        }
        match value {
            Value::Null => {}
            Value::String(text) => match json_in(&text) {
                Some(value) => self.add(value, role, depth + 1),
                None => self.say(text, role),
            },
            Value::Array(items) => items.into_iter().for_each(|item| self.add(item, role, depth + 1)),
            Value::Object(fields) => self.add_object(fields, role, depth),
            other => self.say(other.to_string(), role),
        }
    }

    fn say(&mut self, text: String, role: &str) {
        if !text.is_empty() {
            self.messages.push(json!({"role": role, "content": text}));
        }
    }

    fn add_object(&mut self, mut fields: Map<String, Value>, role: &str, depth: u32) {
        let class = fields.get("id").and_then(|id| id.as_array()?.last()?.as_str()).map(str::to_owned);
        if let (Some(class), Some(Value::Object(kwargs))) = (class, fields.get_mut("kwargs")) {
            let mut message = std::mem::take(kwargs);
            message.entry("type").or_insert(Value::from(class));
            return self.add_object(message, role, depth + 1);
        }
        for key in ["instructions", "system"] {
            if let Some(Value::String(text)) = fields.remove(key)
                && !text.is_empty()
            {
                self.system.push(text);
            }
        }
        if is_message(&fields) {
            return self.add_message(fields);
        }
        if let Some(Value::Array(tools)) = fields.remove("tools") {
            self.tools.extend(tools);
        }
        // Of several places the first one that says something counts: the others repeat it.
        if let Some(Value::Object(config)) = fields.remove("config") {
            self.add_config(config);
        }
        for key in [
            "messages",
            "contents",
            "message",
            "choices",
            "generations",
            "input",
            "output",
            "prompt",
            "text",
            "content",
        ] {
            if let Some(value) = fields.remove(key).filter(|value| !is_empty(value)) {
                return self.add(value, role, depth + 1);
            }
        }
        if !fields.is_empty() {
            self.say(Value::Object(fields).to_string(), role);
        }
    }

    /// What a request to Gemini says beside its contents.
    fn add_config(&mut self, mut config: Map<String, Value>) {
        let mut take = |keys: [&str; 2]| keys.iter().find_map(|key| config.remove(*key));
        if let Some(system) = take(["system_instruction", "systemInstruction"]) {
            let parts = system["parts"].as_array().cloned().unwrap_or_else(|| vec![system]);
            let texts = parts.iter().filter_map(|part| part.as_str().or(part["text"].as_str()));
            self.system.extend(texts.map(str::to_owned));
        }
        if let Some(Value::Array(tools)) = take(["tools", "functionDeclarations"]) {
            self.tools.extend(tools);
        }
    }

    fn add_message(&mut self, mut message: Map<String, Value>) {
        let role = message.get("role").or(message.get("type")).and_then(Value::as_str).unwrap_or("");
        let role = role_of(role).to_owned();
        if role == "tool"
            && message.get("content").is_some_and(|content| content["function"]["name"].is_string())
        {
            self.tools.extend(message.remove("content"));
            return;
        }
        if is_item(&message) {
            return self.messages.push(Value::Object(message));
        }
        message.remove("type");
        message.insert("role".to_owned(), Value::from(role));
        lift_calls(&mut message);
        for key in COPIES {
            message.remove(key);
        }
        if let Some(parts) = message.remove("parts").or_else(|| message.remove("contents")) {
            message.insert("content".to_owned(), parts);
        }
        // Some tracers write the parts as JSON in a string.
        let inner =
            message.get("content").and_then(Value::as_str).filter(|text| text.starts_with("[{\"type\":"));
        if let Some(parts) = inner.and_then(json_in) {
            message.insert("content".to_owned(), parts);
        }
        if let Some(Value::Array(parts)) = message.get_mut("content") {
            parts.iter_mut().for_each(to_block);
        }
        self.messages.push(Value::Object(message));
    }
}

/// Copies of what a message says elsewhere, and what nobody says.
const COPIES: [&str; 7] = [
    "additional_kwargs",
    "response_metadata",
    "usage_metadata",
    "invalid_tool_calls",
    "tool_call_chunks",
    "example",
    "finish_reason",
];

pub(crate) fn json_in(text: &str) -> Option<Value> {
    text.trim_start().starts_with(['{', '[', '"']).then(|| serde_json::from_str(text).ok())?
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// The role behind the names of LangChain.
fn role_of(name: &str) -> &str {
    match name {
        "human" | "HumanMessage" | "HumanMessageChunk" => "user",
        "ai" | "AIMessage" | "AIMessageChunk" | "model" => "assistant",
        "SystemMessage" => "system",
        "ToolMessage" | "FunctionMessage" => "tool",
        other => other,
    }
}

fn is_message(fields: &Map<String, Value>) -> bool {
    let is = |key: &str| {
        fields.get(key).and_then(Value::as_str).is_some_and(|name| speaker(role_of(name)).is_some())
    };
    let has_words =
        ["content", "contents", "parts", "tool_calls"].iter().any(|key| fields.contains_key(*key));
    has_words && (is("role") || is("type")) || is_item(fields)
}

/// Whether it is an item of the Responses API.
fn is_item(fields: &Map<String, Value>) -> bool {
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or("");
    let is_call = kind.ends_with("_call") && (fields.contains_key("call_id") || fields.contains_key("id"));
    is_call || kind.ends_with("_call_output") || kind == "reasoning" && fields.contains_key("summary")
}

/// LangChain keeps calls and thoughts as the provider sent them beside its own.
fn lift_calls(message: &mut Map<String, Value>) {
    let Some(Value::Object(more)) = message.get_mut("additional_kwargs") else {
        return;
    };
    let found = ["tool_calls", "function_call", "reasoning_content"].map(|key| (key, more.remove(key)));
    for (key, value) in found {
        let is_missing = message.get(key).is_none_or(is_empty);
        if let Some(value) = value.filter(|value| is_missing && !is_empty(value)) {
            message.insert(key.to_owned(), value);
        }
    }
}

/// A part as a block in the style of Anthropic.
fn to_block(part: &mut Value) {
    let kind = part["type"].as_str().unwrap_or("text").to_owned();
    let Value::Object(fields) = part else {
        return;
    };
    let mut take = |keys: &[&str]| keys.iter().find_map(|key| fields.remove(*key)).unwrap_or_default();
    let (mut call, mut response) =
        (take(&["functionCall", "function_call"]), take(&["functionResponse", "function_response"]));
    if call.is_object() {
        *part = json!({"type": "tool_use", "id": call["id"].take(), "name": call["name"].take(), "input": call["args"].take()});
        return;
    }
    if response.is_object() {
        let said = said_by_tool(response["response"].take());
        *part = json!({"type": "tool_result", "tool_use_id": response["id"].take(), "content": said});
        return;
    }
    if take(&["thought"]) == Value::Bool(true) {
        *part = json!({"type": "thinking", "thinking": take(&["text"])});
        return;
    }
    *part = match kind.as_str() {
        "text" => json!({"type": "text", "text": take(&["text", "content"])}),
        "reasoning" | "thinking" => {
            json!({"type": "thinking", "thinking": take(&["thinking", "text", "content"])})
        }
        "tool_call" | "tool-call" => json!({
            "type": "tool_use", "id": take(&["toolCallId", "id"]), "name": take(&["toolName", "name"]),
            "input": take(&["input", "arguments", "args"])
        }),
        "tool_call_response" | "tool-result" => {
            let said = take(&["response", "output", "result", "content"]);
            json!({"type": "tool_result", "tool_use_id": take(&["toolCallId", "id"]), "content": said_by_tool(said)})
        }
        _ => return,
    };
}

/// The text of a result: typed values hold it as their value.
pub(crate) fn said_by_tool(mut value: Value) -> String {
    if value["type"].is_string() && !value["value"].is_null() {
        value = value["value"].take();
    }
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        Value::Object(mut fields) => match (fields.remove("content"), fields.remove("output")) {
            (Some(Value::String(text)), _) | (None, Some(Value::String(text))) => text,
            (content, output) => {
                fields.extend(content.map(|value| ("content".to_owned(), value)));
                fields.extend(output.map(|value| ("output".to_owned(), value)));
                Value::Object(fields).to_string()
            }
        },
        other => other.to_string(),
    }
}

/// The same of a result as JSON, or as JSON in a string.
pub(crate) fn said_in(text: &str) -> String {
    let value = json_in(text).unwrap_or_else(|| Value::from(text));
    let inner = value.as_str().and_then(json_in).filter(Value::is_object);
    said_by_tool(inner.unwrap_or(value))
}

/// The usage that stands somewhere in a reply, in the form of the provider or of LangChain.
pub(crate) fn usage_in(text: &str) -> Option<LoggedUsage> {
    let value: Value = serde_json::from_str(text).ok()?;
    find_usage(&value, 0)
}

fn find_usage(value: &Value, depth: u32) -> Option<LoggedUsage> {
    let inner = |value: &Value| find_usage(value, depth + 1);
    match value {
        _ if depth > MAX_DEPTH => None,
        Value::Array(items) => items.iter().find_map(inner),
        Value::Object(fields) => {
            let usage = ["usage_metadata", "usage", "token_usage"].iter().find_map(|key| fields.get(*key));
            match usage.filter(|usage| usage.is_object()) {
                Some(usage) => serde_json::from_str(&usage.to_string()).ok(),
                None => ["generations", "message", "kwargs", "llm_output", "output", "response_metadata"]
                    .iter()
                    .find_map(|key| inner(fields.get(*key)?)),
            }
        }
        _ => None,
    }
}

/// Whether the agent's model wrote it.
pub(crate) fn is_agent(message: &Message) -> bool {
    let kind = message.kind.as_deref().unwrap_or("");
    match message.role.as_deref() {
        Some(role) => role == "assistant",
        None => kind == "reasoning" || kind.ends_with("_call"),
    }
}

/// The message as one of a chat; what cannot be read as one is none.
pub(crate) fn message(value: &Value) -> Option<Message> {
    serde_json::from_str(&value.to_string()).ok()
}

/// What tells a message from others, without ids and marks that change from prompt to prompt.
pub(crate) fn digest(message: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    add_words(message, &mut hasher);
    hasher.finish()
}

fn add_words(value: &Value, hasher: &mut DefaultHasher) {
    const MARKS: [&str; 6] = ["id", "cache_control", "signature", "status", "name", "type"];
    match value {
        Value::Null => {}
        Value::String(text) => text.trim().hash(hasher),
        Value::Array(items) => items.iter().for_each(|item| add_words(item, hasher)),
        Value::Object(fields) => {
            let said = fields.iter().filter(|(key, _)| !MARKS.contains(&key.as_str()));
            said.for_each(|(_, value)| add_words(value, hasher));
        }
        other => other.to_string().hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, role: &str) -> (Vec<String>, usize) {
        let traced = Traced::read(text, role);
        let mut said = traced.system.iter().map(|text| format!("system {text}")).collect::<Vec<_>>();
        for value in &traced.messages {
            let message = message(value).unwrap();
            let calls: Vec<String> =
                message.calls().into_iter().map(|c| format!("{} {}", c.tool, c.arguments)).collect();
            let answers: Vec<String> =
                message.answers().into_iter().map(|(id, text)| format!("{id}={text}")).collect();
            let role = message.role.clone().unwrap_or_default();
            said.push(
                [
                    &[role][..],
                    &message.said().iter().map(|s| s.to_string()).collect::<Vec<_>>(),
                    &calls,
                    &answers,
                ]
                .concat()
                .join("|"),
            );
        }
        (said, traced.tools.len())
    }

    #[test]
    fn parts_of_tracers_are_messages() {
        let otel = r#"[{"role":"user","parts":[{"type":"text","content":"Q"}]},
            {"role":"assistant","parts":[{"type":"reasoning","content":"hm"},{"type":"tool_call","id":"c","name":"f","arguments":{"x":1}}],"finish_reason":"tool_call"},
            {"role":"tool","parts":[{"type":"tool_call_response","id":"c","response":"r"}]}]"#;
        assert_eq!(read(otel, "user").0, ["user|Q", "assistant|hm|f {\"x\":1}", "tool|r|c=r"]);
        let vercel = r#"[{"role":"assistant","content":[{"type":"tool-call","toolCallId":"c","toolName":"f","input":{"x":1}}]},
            {"role":"tool","content":[{"type":"tool-result","toolCallId":"c","toolName":"f","output":{"type":"json","value":{"y":2}}}]}]"#;
        assert_eq!(read(vercel, "user").0, ["assistant|f {\"x\":1}", "tool|{\"y\":2}|c={\"y\":2}"]);
        let chain = r#"{"messages":[[{"lc":1,"type":"constructor","id":["langchain","schema","HumanMessage"],"kwargs":{"content":"Q","type":"human"}},
            {"lc":1,"type":"constructor","id":["langchain","schema","AIMessage"],"kwargs":{"content":"","tool_calls":[{"name":"f","args":{"x":1},"id":"c"}]}}]]}"#;
        assert_eq!(read(chain, "user").0, ["user|Q", "assistant||f {\"x\":1}"]);
        let lifted = r#"{"role":"assistant","content":"","additional_kwargs":{"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}],"refusal":null}}"#;
        assert_eq!(read(lifted, "assistant").0, ["assistant||f {}"]);
    }

    #[test]
    fn contents_of_gemini_are_messages() {
        let request = r#"{"model":"g","config":{"system_instruction":"S","tools":[{"function_declarations":[]}]},"contents":[
            {"role":"user","parts":[{"text":"Q"}]},{"role":"model","parts":[{"text":"hm","thought":true},{"function_call":{"id":"c","name":"f","args":{"x":1}}}]},
            {"role":"user","parts":[{"function_response":{"id":"c","name":"f","response":{"output":"r"}}}]}]}"#;
        let said = ["system S", "user|Q", "assistant|hm|f {\"x\":1}", "user|r|c=r"];
        assert_eq!(read(request, "user"), (said.map(str::to_owned).to_vec(), 1));
        let reply = r#"{"content":{"parts":[{"text":"A"}],"role":"model"},"usage_metadata":{}}"#;
        assert_eq!(read(reply, "assistant").0, ["assistant|A"]);
    }

    #[test]
    fn responses_and_texts_are_messages() {
        let choices = r#"{"id":"r","choices":[{"index":0,"message":{"role":"assistant","content":"A"}}],"usage":{"x":1}}"#;
        assert_eq!(read(choices, "assistant").0, ["assistant|A"]);
        let response = r#"{"id":"r","instructions":"Be kind.","output":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}],"tools":[{"name":"f"}]}"#;
        assert_eq!(read(response, "assistant"), (vec!["system Be kind.".to_owned(), "|f {}".to_owned()], 1));
        let generations =
            r#"{"generations":[[{"text":"A","message":{"kwargs":{"content":"A"},"id":["x","AIMessage"]}}]]}"#;
        assert_eq!(read(generations, "assistant").0, ["assistant|A"]);
        assert_eq!(read("plain", "user").0, ["user|plain"]);
        assert_eq!(read("\"[{\\\"role\\\":\\\"user\\\",\\\"content\\\":\\\"Q\\\"}]\"", "user").0, ["user|Q"]);
        let tools = r#"[{"role":"tool","content":{"type":"function","function":{"name":"f"}}}]"#;
        assert_eq!(read(tools, "user"), (vec![], 1));
    }

    #[test]
    fn the_same_words_have_the_same_digest() {
        let a = json!({"role":"user","content":[{"type":"text","text":"Q","cache_control":{"type":"e"}}],"id":null});
        let b = json!({"role":"user","content":[{"type":"text","text":"Q"}],"id":"7"});
        assert_eq!(digest(&a), digest(&b));
        assert_ne!(digest(&a), digest(&json!({"role":"user","content":"R"})));
    }
}
