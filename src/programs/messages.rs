//! A context as a program sees it: messages of OpenAI, with keys of our own.

use serde_json::{Value, json};

use crate::context::log::Log;
use crate::context::{Block, Content};
use crate::trajectory::{Kind, Role, Step};

/// The first words of the user, if they stand before the decision of a turn.
pub fn goal(log: &Log, turn: u32) -> Option<&str> {
    let until = log.turns.get(turn as usize).and_then(|turn| turn.decision)?;
    let steps = &log.trajectory.steps[..until as usize];
    let is_goal = |step: &&Step| step.kind == Kind::Message && step.role == Role::User;
    steps.iter().find(is_goal).map(|step| step.text.as_str())
}

/// What a block is in a log, and the step that it is of, if it is one.
fn about(log: &Log, block: &Block) -> (&'static str, Option<u32>) {
    match (block.message(), &block.content) {
        (Some(step), _) => (log.kind(step).name(), Some(step)),
        (None, Content::Excerpt { .. }) => ("excerpt", None),
        (None, _) => ("generated", None),
    }
}

/// Who says a block.
pub fn role(log: &Log, block: &Block) -> &'static str {
    let step = about(log, block).1;
    match step.map(|step| (log.kind(step), log.trajectory.steps[step as usize].role)) {
        Some((Kind::Observation, _)) => "tool",
        Some((_, Role::Agent)) => "assistant",
        Some((_, Role::System)) => "system",
        _ => "user",
    }
}

/// A block as a message.
pub fn message(log: &Log, id: usize, block: &Block) -> Value {
    let (kind, step) = about(log, block);
    let mut message = json!({
        "id": id.to_string(), "role": role(log, block), "content": block.text(log),
        "kind": kind, "turn": block.turn, "tokens": block.tokens,
    });
    let Some(step) = step else { return message };
    let logged = &log.trajectory.steps[step as usize];
    let call = |step: u32| format!("call_{step}");
    match logged.kind {
        Kind::Action => {
            let function = json!({
                "name": logged.tool.as_deref().unwrap_or_default(),
                "arguments": logged.arguments.as_deref().unwrap_or(&logged.text),
            });
            message["tool_calls"] = json!([{"id": call(step), "type": "function", "function": function}]);
        }
        Kind::Observation => message["tool_call_id"] = json!(log.call_of(step).map(call)),
        _ => {}
    }
    message
}
