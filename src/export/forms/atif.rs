//! The Agent Trajectory Interchange Format, 1.6: results stand in the step that called.

use serde_json::{Value, json};

use super::super::messages::{Message, Prompt, Reply};
use super::{About, function, tools};

const UNKNOWN: &str = "unknown";

pub(super) fn write(about: &About, prompt: &mut Prompt) -> Value {
    let tools: Vec<Value> = tools(prompt).into_iter().map(function).collect();
    let mut agent = json!({"name": about.agent.as_deref().unwrap_or(UNKNOWN), "version": UNKNOWN});
    if let Some(model) = &about.model {
        agent["model_name"] = model.clone().into();
    }
    if !tools.is_empty() {
        agent["tool_definitions"] = tools.into();
    }
    let steps = (1..).zip(&prompt.messages).map(|(number, message)| step(number, message));
    let steps: Vec<Value> = steps.collect();
    json!({"schema_version": "ATIF-v1.6", "session_id": about.id, "agent": agent, "steps": steps})
}

fn step(number: u64, message: &Message) -> Value {
    let Reply { text, calls } = match message {
        Message::System(text) => return json!({"step_id": number, "source": "system", "message": text}),
        Message::User(text) => return json!({"step_id": number, "source": "user", "message": text}),
        Message::Reply(reply) => reply,
    };
    let mut step = json!({"step_id": number, "source": "agent", "message": text});
    if !calls.is_empty() {
        let called = calls.iter().map(
            |call| json!({"tool_call_id": call.id, "function_name": call.name, "arguments": call.arguments}),
        );
        let results = calls.iter().map(|call| json!({"source_call_id": call.id, "content": call.result}));
        step["tool_calls"] = called.collect();
        step["observation"] = json!({"results": results.collect::<Vec<Value>>()});
    }
    step
}
