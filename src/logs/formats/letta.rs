//! Agent files of Letta (`.af`): `{agents, tools, blocks}`; the messages of each agent are a run. Written from the format's
//! description: no public file with a trajectory was at hand.
//!
//! `in_context_message_ids` says what the agent still saw at the end: where messages are older than the first of these,
//! a compaction stands before it. Messages are JSON of Letta's in the place of the user; those of nobody are notices.

use std::collections::HashSet;

use serde_json::Value;
use serde_json::value::RawValue;

use super::reading::chat::{Message, Messages};
use super::reading::{Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "letta",
    summary: "agent files of Letta (from source only)",
    reading: Reading::Values(read),
};

record! {
    struct File in "letta" {
        agents: List<Agent> = "agents",
        tools: List<Tool> = "tools",
    }

    struct Agent in "letta.agent" {
        id: String = "id",
        name: String = "name",
        system: String = "system",
        messages: List<Message> = "messages",
        in_context: List<String> = "in_context_message_ids",
        model: Model = "llm_config",
    }

    struct Model in "letta.llm_config" {
        model: String = "model",
    }

    struct Tool in "letta.tool" {
        schema: Box<RawValue> = "json_schema",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let file: File = serde_json::from_slice(bytes)?;
    let schemas = file.tools.unwrap_or_default().0.into_iter().filter_map(|tool| tool.schema);
    let schemas: Vec<String> = schemas.map(|schema| schema.get().to_owned()).collect();
    for agent in file.agents.unwrap_or_default().0 {
        finish(agent, &schemas, sink);
    }
    Ok(())
}

fn finish(agent: Agent, schemas: &[String], sink: &mut Sink<'_>) {
    let (mut draft, mut reader) = (Draft::new(), Messages::default());
    let messages = agent.messages.unwrap_or_default().0;
    let kept: HashSet<String> = agent.in_context.unwrap_or_default().0.into_iter().collect();
    let first = first_kept(&messages, &kept);
    let is_system = |message: &Message| message.role.as_deref() == Some("system");
    if messages.iter().any(|message| !is_system(message)) {
        if !schemas.is_empty() {
            draft.tools(format!("[{}]", schemas.join(",")));
        }
        // The first message is the system prompt with the memory in it.
        if let Some(system) = agent.system.filter(|_| !messages.first().is_some_and(is_system)) {
            draft.system(system);
        }
        for (i, message) in messages.into_iter().enumerate() {
            let text = message.said().join("\n");
            let own = (message.role.as_deref() == Some("user")).then(|| kind_of(&text)).flatten();
            if first == Some(i) {
                reader.end(&mut draft);
                let is_summary = own.as_deref().is_some_and(is_summary);
                draft.at(i, None);
                draft.compaction(if is_summary { text.clone() } else { String::new() });
                if is_summary {
                    continue;
                }
            }
            match own.as_deref() {
                Some("user_message") | None => reader.read(i, message, &mut draft),
                Some(_) => {
                    reader.end(&mut draft);
                    draft.at(i, None);
                    draft.notice(text);
                }
            }
        }
        reader.end(&mut draft);
    }
    let about = Trajectory {
        is_named_by_file: agent.id.is_none(),
        task_id: Some(agent.id.or(agent.name.clone()).unwrap_or_else(|| sink.source.stem.clone())),
        agent: agent.name,
        model: agent.model.and_then(|model| model.model),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
}

/// The first message that the agent still saw, if others stand before it but for the system prompt.
fn first_kept(messages: &[Message], kept: &HashSet<String>) -> Option<usize> {
    let id = |message: &Message| message.id.as_ref().map(|id| id.0.clone());
    let is_kept = |message: &Message| id(message).is_some_and(|id| kept.contains(&id));
    let first = messages.iter().skip(1).position(is_kept)? + 1;
    (first > 1).then_some(first)
}

/// What Letta calls a message that it wrote as JSON.
fn kind_of(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    value["type"].as_str().map(str::to_owned)
}

fn is_summary(kind: &str) -> bool {
    matches!(kind, "system_alert" | "summary")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;

    #[test]
    fn an_agent_is_a_run() {
        let user = |id: &str, text: &str| {
            format!(
                r#"{{"type":"message","id":"{id}","role":"user","content":[{{"type":"text","text":{}}}]}}"#,
                Value::from(text)
            )
        };
        let json = format!(
            r#"{{"agents":[{{"id":"a-1","name":"sam","system":"S","llm_config":{{"model":"m-1"}},"in_context_message_ids":["m0","m4","m5"],"messages":[
            {{"type":"message","id":"m0","role":"system","content":[{{"type":"text","text":"S and memory"}}]}},
            {},{{"type":"message","id":"m2","role":"assistant","content":[{{"type":"text","text":"hm"}}],
              "tool_calls":[{{"id":"c","type":"function","function":{{"name":"send_message","arguments":"{{\"message\":\"Hi\"}}"}}}}]}},
            {{"type":"message","id":"m3","role":"tool","tool_call_id":"c","name":"send_message","content":[{{"type":"text","text":"None"}}]}},
            {},{}]}}],"blocks":[],"tools":[{{"name":"send_message","json_schema":{{"name":"send_message"}}}}]}}"#,
            user("m1", r#"{"type":"user_message","message":"Hello"}"#),
            user("m4", r#"{"type":"system_alert","message":"prior messages: greeted"}"#),
            user("m5", r#"{"type":"heartbeat","reason":"r"}"#),
        );
        let source = Source::test("sam.af", "letta");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        let t = &sink.trajectories[0];
        let outline: Vec<String> = t
            .steps
            .iter()
            .map(|s| format!("{} {} {} {}", s.segment, s.role.name(), s.kind.name(), s.text))
            .collect();
        assert_eq!(
            outline,
            [
                "0 system tools [{\"name\":\"send_message\"}]",
                "0 system system S and memory",
                "0 user message {\"type\":\"user_message\",\"message\":\"Hello\"}",
                "0 agent thought hm",
                "0 agent action send_message\nHi",
                "0 tool observation None",
                "1 user compaction {\"type\":\"system_alert\",\"message\":\"prior messages: greeted\"}",
                "1 system message {\"type\":\"heartbeat\",\"reason\":\"r\"}",
            ]
        );
        assert_eq!((t.task_id.as_deref(), t.model.as_deref()), (Some("a-1"), Some("m-1")));
    }

    #[test]
    fn an_agent_that_never_spoke_is_no_run() {
        let json = r#"{"agents":[{"id":"a","system":"S","messages":[{"id":"m0","role":"system","content":"S"}],"in_context_message_ids":["m0"]}],"blocks":[],"tools":[]}"#;
        let source = Source::test("sam.af", "letta");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        assert!(sink.trajectories.is_empty());
        assert_eq!(sink.losses.0.len(), 1);
    }
}
