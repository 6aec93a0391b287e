//! A run as chat messages, a JSON object: the form in which logs are handed on, and which `formats::trajpress_chat` reads again.
//!
//! A reply is a message of the assistant: what it thought, said and called. Where its steps stand in another order, it is
//! several, of the same turn. What chat messages have no place for stands in keys of our own: the turn, the kind where the role
//! does not tell it, edits that the log records, and what its compactions kept. Of the steps of one message the time of the
//! first is told alone.

use serde_json::{Map, Value, json};

use crate::store::{StepRow, Time, TrajectoryRow};
use crate::trajectory::{Kind, Role, action_text};

/// The key that tells this form, with its version. It stands first.
pub(super) const FORM: &str = "trajpress";

/// The messages of a run.
pub(super) fn messages(run: &TrajectoryRow, steps: &[StepRow]) -> Value {
    let (mut list, mut reply) = (Vec::new(), Vec::<&StepRow>::new());
    // Schemas stand above the messages if they are JSON and come first.
    let tools = steps.first().and_then(schemas);
    for step in &steps[usize::from(tools.is_some())..] {
        if !reply.is_empty() && !goes_on(&reply, step) {
            write_reply(&std::mem::take(&mut reply), &mut list);
        }
        match is_of_reply(step) {
            true => reply.push(step),
            false => list.push(message(step)),
        }
    }
    write_reply(&reply, &mut list);
    let mut all = object(json!({FORM: 1, "id": run.trajectory}));
    all.insert("format".to_owned(), run.format.clone().into());
    let texts = [
        ("task_id", &run.task_id),
        ("repository", &run.repository),
        ("agent", &run.agent),
        ("model", &run.model),
        ("goal", &run.goal),
        ("outcome", &run.outcome),
        ("label_source", &run.label_source),
        ("parent", &run.parent),
        ("logged_policy", &run.logged_policy),
    ];
    all.extend(texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text.clone()?.into()))));
    add(&mut all, "reward", run.reward);
    add(&mut all, "resolved", run.resolved);
    add(&mut all, "logged_tokens_sent", run.logged_tokens_sent);
    add(&mut all, "logged_cost_usd", run.logged_cost_usd);
    add(&mut all, "constraints", (!run.constraints.is_empty()).then(|| run.constraints.clone()));
    add(&mut all, "annotations", run.annotations.as_deref().and_then(parsed));
    add(&mut all, "tools", tools);
    all.insert("messages".to_owned(), list.into_iter().map(Value::Object).collect());
    Value::Object(all)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

fn add(to: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        to.insert(key.to_owned(), value.into());
    }
}

/// Schemas of tools, if they are JSON that is written as they are.
fn schemas(step: &StepRow) -> Option<Value> {
    let is_tools = step.kind == Kind::Tools.name() && step.role == Role::System.name();
    parsed(&step.text).filter(|value| is_tools && !value.is_null() && value.to_string() == step.text)
}

/// Whether it is a thought, words or a call of the agent, and not cleared alone.
fn is_of_reply(step: &StepRow) -> bool {
    let kinds = [Kind::Thought, Kind::Message, Kind::Action].map(Kind::name);
    step.role == Role::Agent.name() && kinds.contains(&&*step.kind)
}

/// Whether a step stands in the same message as those before it.
fn goes_on(reply: &[&StepRow], step: &StepRow) -> bool {
    let first = reply[0];
    let is_alone = |step: &StepRow| step.edit_from.is_some();
    let thoughts = reply.iter().take_while(|s| s.kind == Kind::Thought.name()).count();
    let calls = reply.iter().filter(|s| s.kind == Kind::Action.name()).count();
    let fits = match Kind::parse(&step.kind) {
        Some(Kind::Action) => thoughts <= 2 && thoughts + calls == reply.len(),
        Some(Kind::Thought | Kind::Message) => thoughts == 1 && reply.len() == 1,
        _ => false,
    };
    let is_same = step.turn == first.turn && step.segment == first.segment && step.kept_to == first.kept_to;
    is_of_reply(step)
        && fits
        && is_same
        && step.usage_in.or(step.usage_out).is_none()
        && step.model.is_none()
        && !is_alone(step)
        && !is_alone(first)
}

/// Writes a reply: a thought, then words (with calls the second thought), then calls.
fn write_reply(reply: &[&StepRow], list: &mut Vec<Map<String, Value>>) {
    let Some(first) = reply.first() else { return };
    let n_texts = reply.iter().take_while(|step| step.kind != Kind::Action.name()).count();
    let (texts, calls) = reply.split_at(n_texts);
    if let ([thought, last], []) = (texts, calls)
        && last.kind == Kind::Thought.name()
    {
        write_reply(&[*thought], list);
        return write_reply(&[*last], list);
    }
    let mut message = object(json!({"role": "assistant"}));
    let is_thought = |text: &StepRow| text.kind == Kind::Thought.name();
    let (thought, said) = match texts {
        [thought, said] => (Some(thought), Some(said)),
        [text] if is_thought(text) && calls.is_empty() => (Some(text), None),
        [text] => (None, Some(text)),
        _ => (None, None),
    };
    add(&mut message, "reasoning_content", thought.map(|step| step.text.clone()));
    message.insert("content".to_owned(), said.map(|step| step.text.clone()).into());
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.iter().map(|step| call(step)).collect());
    }
    add_marks(&mut message, first);
    add(&mut message, "usage", usage(first));
    add(&mut message, "model", first.model.clone());
    list.push(message);
}

fn call(step: &StepRow) -> Value {
    let tool = step.tool.as_deref().unwrap_or_default();
    let arguments = step.arguments.as_ref().unwrap_or(&step.text);
    let function = json!({"name": step.tool, "arguments": arguments});
    let mut call = object(json!({"id": step.call_id, "type": "function", "function": function}));
    // Others are read as the call is written for people.
    let is_told = step.arguments.is_some() && action_text(tool, arguments) == step.text;
    add(&mut call, "text", (!is_told).then(|| step.text.clone()));
    add(&mut call, "has_arguments", step.arguments.is_none().then_some(false));
    Value::Object(call)
}

/// A message of anybody but the agent, or what is no part of a reply.
fn message(step: &StepRow) -> Map<String, Value> {
    let kind = Kind::parse(&step.kind).unwrap_or(Kind::Message);
    let role = match (kind, &*step.role) {
        (Kind::Compaction, "user") => "compaction",
        (Kind::Observation, _) => "tool",
        (_, role) if role == Role::Agent.name() => "assistant",
        (_, role) => role,
    };
    let mut message = object(json!({"role": role, "content": step.text}));
    let usual = match role {
        "compaction" => Kind::Compaction,
        "tool" => Kind::Observation,
        "system" => Kind::System,
        _ => Kind::Message,
    };
    add(&mut message, "kind", (kind != usual).then(|| kind.name()));
    // A call needs its answer, whoever gives it.
    let is_tool = role == "tool" && step.role != Role::Tool.name();
    add(&mut message, "by", is_tool.then(|| step.role.clone()));
    add(&mut message, "tool_call_id", step.call_id.clone());
    add(&mut message, "name", step.tool.clone());
    add(&mut message, "is_error", step.is_error);
    add_marks(&mut message, step);
    message
}

/// What chat messages have no place for.
fn add_marks(message: &mut Map<String, Value>, step: &StepRow) {
    add(message, "timestamp", step.time.map(|Time(micros)| micros as f64 / 1e6));
    add(message, "turn", Some(step.turn));
    add(message, "message", Some(step.message));
    add(message, "kept_to", step.kept_to);
    let edit = step.edit_from.map(|from| json!({"from": from, "text": step.edit_text}));
    add(message, "edit", edit);
    let is_resized = step.resized_from.is_some() || step.resized_to.is_some();
    let resized = json!({"from": step.resized_from, "to": step.resized_to});
    add(message, "resized", is_resized.then_some(resized));
}

fn usage(step: &StepRow) -> Option<Value> {
    step.usage_in.or(step.usage_out)?;
    let mut usage = Map::new();
    add(&mut usage, "prompt_tokens", step.usage_in);
    add(&mut usage, "completion_tokens", step.usage_out);
    add(&mut usage, "cache_read_input_tokens", step.usage_cache_read);
    add(&mut usage, "cache_creation_input_tokens", step.usage_cache_write);
    if let Some(hour) = step.usage_cache_write_1h {
        let minutes = step.usage_cache_write.unwrap_or(0).saturating_sub(hour);
        let written = json!({"ephemeral_5m_input_tokens": minutes, "ephemeral_1h_input_tokens": hour});
        add(&mut usage, "cache_creation", Some(written));
    }
    let reasoning = step.usage_reasoning.map(|n| json!({"reasoning_tokens": n}));
    add(&mut usage, "completion_tokens_details", reasoning);
    add(&mut usage, "cost", step.cost_usd);
    Some(Value::Object(usage))
}

#[cfg(test)]
mod tests;
