//! The attributes of a span by the conventions of several instrumentations, and what the span is by them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::reading::draft::Losses;
use super::super::reading::scalar::Scalar;
use super::super::reading::spans::{Chat, Tool, What};
use super::super::reading::usage::LoggedUsage;

/// Attributes by name, and the messages that events hold.
#[derive(Default)]
pub(super) struct Attributes {
    all: BTreeMap<String, Value>,
    input: Vec<Value>,
    output: Vec<Value>,
}

impl Attributes {
    /// Of an object, or of a list of keys with typed values.
    pub(super) fn of(value: Value) -> Self {
        let mut attributes = Attributes::default();
        match value {
            Value::Object(fields) => attributes.all.extend(fields),
            Value::Array(items) => {
                for mut item in items {
                    if let Some(key) = item["key"].as_str().map(str::to_owned) {
                        attributes.all.insert(key, plain(item["value"].take(), 0));
                    }
                }
            }
            _ => {}
        }
        attributes
    }

    /// An event that holds a message, or attributes of the call.
    pub(super) fn add_event(&mut self, name: &str, value: Value) {
        let of_event = Attributes::of(value);
        let role = match name {
            "gen_ai.system.message" => "system",
            "gen_ai.user.message" => "user",
            "gen_ai.assistant.message" | "gen_ai.choice" => "assistant",
            "gen_ai.tool.message" => "tool",
            "gen_ai.client.inference.operation.details"
            | "gen_ai.content.prompt"
            | "gen_ai.content.completion" => {
                return self.all.extend(of_event.all);
            }
            _ => return,
        };
        let mut message: Map<String, Value> = of_event.all.into_iter().collect();
        if let Some(Value::Object(said)) = message.remove("message") {
            message.extend(said);
        }
        message.entry("role").or_insert(Value::from(role));
        message.entry("content").or_insert(Value::Null);
        if role == "tool"
            && let Some(id) = message.remove("id")
        {
            message.insert("tool_call_id".to_owned(), id);
        }
        message.remove("gen_ai.system");
        let list = if name == "gen_ai.choice" { &mut self.output } else { &mut self.input };
        list.push(Value::Object(message));
    }

    /// The first of these attributes that is there, as text.
    pub(super) fn text(&self, keys: &[&str]) -> Option<String> {
        let found = keys.iter().find_map(|key| self.all.get(*key)).filter(|value| !value.is_null())?;
        let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
        Some(text).filter(|text| !text.is_empty())
    }

    fn count(&self, keys: &[&str]) -> Option<Scalar> {
        let number = keys.iter().find_map(|key| self.all.get(*key))?;
        let number = number.as_f64().or_else(|| number.as_str()?.parse().ok())?;
        Some(Scalar::Number(number))
    }

    /// What the span is.
    pub(super) fn what(&self, name: &str, error: Option<String>, losses: &mut Losses) -> What {
        let operation = self.text(&[
            "gen_ai.operation.name",
            "ai.operationId",
            "openinference.span.kind",
            "traceloop.span.kind",
            "llm.request.type",
        ]);
        let operation = operation.unwrap_or_default();
        let is_call = ["chat", "text_completion", "generate_content", "completion", "LLM"]
            .contains(&operation.as_str())
            || operation.ends_with(".doGenerate")
            || operation.ends_with(".doStream");
        match operation.as_str() {
            _ if is_call => What::Chat(Box::new(self.chat(error))),
            "execute_tool" | "ai.toolCall" | "TOOL" | "tool" => What::Tool(self.tool(name, error)),
            "invoke_agent" | "create_agent" | "AGENT" | "agent" | "workflow" => What::Agent,
            // The outer span of the Vercel AI SDK repeats the inner one.
            "ai.generateText" | "ai.streamText" | "ai.generateObject" | "ai.streamObject" => What::Agent,
            _ => {
                let name = if operation.is_empty() { "other" } else { &operation };
                let name: String = name.chars().take(40).collect();
                losses.add(&format!("span of no call left out: {name}"));
                What::Other
            }
        }
    }

    fn tool(&self, name: &str, error: Option<String>) -> Tool {
        let named =
            self.text(&["gen_ai.tool.name", "ai.toolCall.name", "tool.name", "traceloop.entity.name"]);
        let result = self.text(&[
            "gen_ai.tool.call.result",
            "ai.toolCall.result",
            "output.value",
            "traceloop.entity.output",
            "gen_ai.tool.output",
        ]);
        let message = error.clone().filter(|message| !message.is_empty());
        Tool {
            call_id: self.text(&["gen_ai.tool.call.id", "ai.toolCall.id", "tool_call.id"]),
            name: named.unwrap_or_else(|| name.strip_prefix("execute_tool ").unwrap_or(name).to_owned()),
            arguments: self
                .text(&[
                    "gen_ai.tool.call.arguments",
                    "ai.toolCall.args",
                    "ai.toolCall.input",
                    "input.value",
                    "traceloop.entity.input",
                    "tool.parameters",
                ])
                .unwrap_or_default(),
            is_error: Some(error.is_some()),
            result: result.or(message),
            is_doubtful: false,
        }
    }

    fn chat(&self, error: Option<String>) -> Chat {
        let list = |items: &[Value]| (!items.is_empty()).then(|| Value::from(items.to_vec()).to_string());
        let numbered = |prefix: &str| self.numbered(prefix).map(|value| value.to_string());
        let input = self
            .text(&["gen_ai.input.messages", "ai.prompt.messages"])
            .or_else(|| list(&self.input))
            .or_else(|| numbered("gen_ai.prompt."))
            .or_else(|| numbered("llm.input_messages."))
            .or_else(|| self.text(&["ai.prompt", "gen_ai.prompt", "input.value"]));
        let output = self
            .text(&["gen_ai.output.messages"])
            .or_else(|| self.vercel_reply())
            .or_else(|| list(&self.output))
            .or_else(|| numbered("gen_ai.completion."))
            .or_else(|| numbered("llm.output_messages."))
            .or_else(|| self.text(&["gen_ai.completion", "output.value"]));
        Chat {
            system: self.text(&["gen_ai.system_instructions"]),
            tools: self
                .text(&["gen_ai.tool.definitions", "ai.prompt.tools", "gen_ai.request.tools"])
                .or_else(|| numbered("llm.tools."))
                .or_else(|| numbered("llm.request.functions.")),
            input,
            output,
            usage: Some(self.usage()),
            model: self.text(&[
                "gen_ai.response.model",
                "gen_ai.request.model",
                "ai.response.model",
                "ai.model.id",
                "llm.model_name",
            ]),
            error: error.map(|text| if text.is_empty() { "the call failed".to_owned() } else { text }),
        }
    }

    fn usage(&self) -> LoggedUsage {
        LoggedUsage {
            prompt_tokens: self.count(&[
                "gen_ai.usage.input_tokens",
                "gen_ai.usage.prompt_tokens",
                "ai.usage.inputTokens",
                "ai.usage.promptTokens",
                "llm.token_count.prompt",
            ]),
            completion_tokens: self.count(&[
                "gen_ai.usage.output_tokens",
                "gen_ai.usage.completion_tokens",
                "ai.usage.outputTokens",
                "ai.usage.completionTokens",
                "llm.token_count.completion",
            ]),
            cache_read: self.count(&[
                "gen_ai.usage.cache_read.input_tokens",
                "gen_ai.usage.cache_read_input_tokens",
                "ai.usage.cachedInputTokens",
                "llm.token_count.prompt_details.cache_read",
            ]),
            reasoning: self.count(&[
                "gen_ai.usage.reasoning.output_tokens",
                "gen_ai.usage.reasoning_tokens",
                "ai.usage.reasoningTokens",
                "llm.token_count.completion_details.reasoning",
            ]),
            cost: self.count(&["gen_ai.usage.cost", "llm.cost.total"]),
            cache_write: self.count(&[
                "gen_ai.usage.cache_creation.input_tokens",
                "gen_ai.usage.cache_creation_input_tokens",
                "llm.token_count.prompt_details.cache_write",
            ]),
            ..LoggedUsage::default()
        }
    }

    /// The reply of the Vercel AI SDK, whose parts are attributes.
    fn vercel_reply(&self) -> Option<String> {
        let calls =
            self.text(&["ai.response.toolCalls"]).and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let mut parts = Vec::new();
        if let Some(text) = self.text(&["ai.response.reasoning"]) {
            parts.push(json!({"type": "reasoning", "text": text}));
        }
        if let Some(text) = self.text(&["ai.response.text", "ai.response.object"]) {
            parts.push(json!({"type": "text", "text": text}));
        }
        for mut call in calls.and_then(|calls| calls.as_array().cloned()).unwrap_or_default() {
            call["type"] = Value::from("tool-call");
            parts.push(call);
        }
        (!parts.is_empty()).then(|| json!([{"role": "assistant", "content": parts}]).to_string())
    }

    /// Attributes with numbers in their names, as `llm.input_messages.0.message.role`, as a list.
    fn numbered(&self, prefix: &str) -> Option<Value> {
        let mut root = Node::default();
        for (key, value) in self.all.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix))
        {
            let path = key[prefix.len()..].split('.').filter(|part| !WRAPPERS.contains(part));
            root.put(path, value);
        }
        let value = root.into_value();
        value.is_array().then_some(value)
    }
}

/// Parts of names that only wrap what follows.
const WRAPPERS: [&str; 4] = ["message", "tool_call", "message_content", "tool"];

/// Names are not longer than this; the rest of one is left where it is.
const MAX_PARTS: usize = 16;

#[derive(Default)]
struct Node {
    value: Option<Value>,
    parts: BTreeMap<String, Node>,
}

impl Node {
    fn put<'a>(&mut self, path: impl Iterator<Item = &'a str>, value: &Value) {
        let node =
            path.take(MAX_PARTS).fold(self, |node, part| node.parts.entry(part.to_owned()).or_default());
        node.value = Some(value.clone());
    }

    /// A list, where all names are numbers.
    fn into_value(self) -> Value {
        if self.parts.is_empty() {
            return self.value.unwrap_or_default();
        }
        let mut by_number = BTreeMap::new();
        for name in self.parts.keys() {
            by_number.extend(name.parse::<u64>().ok().map(|number| (number, name.clone())));
        }
        let mut parts = self.parts;
        if by_number.len() == parts.len() {
            return by_number
                .into_values()
                .filter_map(|name| parts.remove(&name))
                .map(Node::into_value)
                .collect();
        }
        Value::Object(parts.into_iter().map(|(name, node)| (name, node.into_value())).collect())
    }
}

/// A typed value of OTLP without its type.
fn plain(value: Value, depth: u32) -> Value {
    let Value::Object(fields) = value else {
        return value;
    };
    let Some((kind, value)) = fields.into_iter().next().filter(|_| depth < 16) else {
        return Value::Null;
    };
    match (kind.as_str(), value) {
        // Whole numbers are written as text.
        ("intValue", Value::String(text)) => {
            text.parse::<i64>().map_or(Value::from(text.as_str()), Value::from)
        }
        ("arrayValue", mut list) => match list["values"].take() {
            Value::Array(items) => items.into_iter().map(|item| plain(item, depth + 1)).collect(),
            _ => Value::Array(Vec::new()),
        },
        ("kvlistValue", mut list) => match list["values"].take() {
            Value::Array(items) => {
                let pair = |mut item: Value| {
                    Some((item["key"].as_str()?.to_owned(), plain(item["value"].take(), depth + 1)))
                };
                Value::Object(items.into_iter().filter_map(pair).collect())
            }
            _ => Value::Null,
        },
        (_, value) => value,
    }
}
