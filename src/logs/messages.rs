//! A run as chat messages, a JSON object: the form in which logs are handed on, and which `openai_chat` reads again.
//!
//! What that form has no place for is counted, so that it can be told: edits that a log records, and what stands in the prompts of
//! later segments.

use serde_json::{Map, Value, json};

use crate::store::{StepRow, Time, TrajectoryRow};
use crate::trajectory::{Kind, Role};

/// The messages of a run, and how many of its steps say more than that.
pub(super) fn messages(run: &TrajectoryRow, steps: &[StepRow]) -> (Value, u64) {
    let (mut tools, mut list) = (Value::Null, Vec::<Map<String, Value>>::new());
    let (mut n_more, mut turn) = (0, None);
    for step in steps {
        n_more += u64::from(step.edit_from.is_some() || step.kept_to.is_some());
        let kind = Kind::parse(&step.kind).unwrap_or(Kind::Message);
        if kind == Kind::Tools && tools.is_null() {
            tools = serde_json::from_str(&step.text).unwrap_or(Value::Null);
            if !tools.is_null() {
                continue;
            }
        }
        if step.role == Role::Agent.name() {
            // Calls in parallel may stand behind the first one's result: by its id the reply is one.
            if turn != Some(step.turn) {
                let id = format!("reply-{}", step.turn);
                list.push(object(json!({"role": "assistant", "id": id, "content": ""})));
                turn = Some(step.turn);
            }
            if let Some(reply) = list.last_mut() {
                say(reply, step, kind);
            }
            continue;
        }
        turn = None;
        list.push(message(step, kind));
    }
    let mut all = object(json!({"id": run.trajectory, "messages": list}));
    let texts = [
        ("task_id", &run.task_id),
        ("repository", &run.repository),
        ("agent", &run.agent),
        ("model", &run.model),
        ("outcome", &run.outcome),
    ];
    all.extend(texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text.clone()?.into()))));
    all.extend(run.reward.map(|reward| ("reward".to_owned(), reward.into())));
    all.extend(run.resolved.map(|resolved| ("resolved".to_owned(), resolved.into())));
    let annotations = run.annotations.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    all.extend(annotations.map(|annotations| ("annotations".to_owned(), annotations)));
    if !tools.is_null() {
        all.insert("tools".to_owned(), tools);
    }
    (Value::Object(all), n_more)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A message of anybody but the agent.
fn message(step: &StepRow, kind: Kind) -> Map<String, Value> {
    let role = match (kind, step.role.as_str()) {
        (Kind::Compaction, _) => "compaction",
        (Kind::Observation, _) | (_, "tool") => "tool",
        (_, "user") => "user",
        _ => "system",
    };
    let mut message = object(json!({"role": role, "content": step.text}));
    if role == "tool" {
        let ids = [("tool_call_id", &step.call_id), ("name", &step.tool)];
        message.extend(ids.into_iter().filter_map(|(key, id)| Some((key.to_owned(), id.clone()?.into()))));
        message.extend(step.is_error.map(|is_error| ("is_error".to_owned(), is_error.into())));
    }
    add_time(&mut message, step.time);
    message
}

fn add_time(message: &mut Map<String, Value>, time: Option<Time>) {
    if let Some(Time(micros)) = time
        && !message.contains_key("timestamp")
    {
        message.insert("timestamp".to_owned(), (micros as f64 / 1e6).into());
    }
}

/// Adds a step of the agent to its reply.
fn say(reply: &mut Map<String, Value>, step: &StepRow, kind: Kind) {
    add_time(reply, step.time);
    if kind == Kind::Action {
        let arguments = step.arguments.clone().unwrap_or_else(|| step.text.clone());
        let call = json!({
            "id": step.call_id,
            "type": "function",
            "function": {"name": step.tool, "arguments": arguments},
        });
        if let Value::Array(calls) = reply.entry("tool_calls").or_insert_with(|| json!([])) {
            calls.push(call);
        }
    } else if let Some(Value::String(said)) = reply.get_mut("content") {
        if !said.is_empty() {
            said.push_str("\n\n");
        }
        said.push_str(&step.text);
    }
    if let Some(input) = step.usage_in {
        let (read, write) = (step.usage_cache_read, step.usage_cache_write);
        let fresh = input.saturating_sub(read.unwrap_or(0) + write.unwrap_or(0));
        let counts = [
            ("input_tokens", Some(fresh)),
            ("output_tokens", step.usage_out),
            ("cache_read_input_tokens", read),
            ("cache_creation_input_tokens", write),
        ];
        let counts = counts.into_iter().filter_map(|(key, n)| Some((key.to_owned(), n?.into())));
        let mut usage: Map<String, Value> = counts.collect();
        if let Some(hour) = step.usage_cache_write_1h {
            let minutes = write.unwrap_or(0).saturating_sub(hour);
            let written = json!({"ephemeral_5m_input_tokens": minutes, "ephemeral_1h_input_tokens": hour});
            usage.insert("cache_creation".to_owned(), written);
        }
        reply.insert("usage".to_owned(), Value::Object(usage));
    }
}
