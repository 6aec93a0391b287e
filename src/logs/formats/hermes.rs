//! Sessions of the Hermes agent: a JSON object with messages in the style of OpenAI. And conversations with tools in the
//! style of Hermes and ShareGPT: `{conversations: [{from, value}]}`, where thoughts, calls and results stand as tags in the text.

use serde_json::Value;
use serde_json::value::RawValue;

use super::reading::chat::{self, Message};
use super::reading::content::{Arguments, Block};
use super::reading::names::{Name, repository_of};
use super::reading::scalar::Scalar;
use super::reading::{Content, Draft, List, fields, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "hermes",
    summary: "sessions of the Hermes agent, and ShareGPT conversations with its tags for tools",
    reading: Reading::Values(read),
};

record! {
    struct Run in "hermes" {
        id: Name = "session_id" | "id",
        parent: String = "parent_session_id",
        model: String = "model",
        config: Config = "model_config",
        cwd: String = "cwd",
        system: String = "system_prompt" | "system",
        tools: Box<RawValue> = "tools",
        messages: List<Message> = "messages",
        conversations: List<Said> = "conversations",
        completed: Scalar = "completed",
        reason: String = "end_reason",
    }

    struct Config in "hermes.model_config" {
        cwd: String = "cwd",
    }

    struct Said in "hermes.conversation" {
        from: String = "from" | "role",
        value: String = "value" | "content",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let mut draft = Draft::new();
    if let Some(tools) = run.tools.filter(|tools| tools.get() != "[]") {
        draft.tools(fields::words_of(tools.get()));
    }
    if let Some(system) = run.system.filter(|system| !system.is_empty()) {
        draft.system(system);
    }
    let mut messages = run.messages.unwrap_or_default().0;
    messages.retain(|message| message.role.as_deref() != Some("session_meta"));
    let conversations = run.conversations.unwrap_or_default().0;
    messages.extend(conversations.into_iter().flat_map(|said| of_tags(said, &mut draft)));
    chat::read_all(messages, Vec::new(), &mut draft);
    let completed = run.completed.and_then(|is| is.truth("completed", &mut draft.losses));
    let outcome = completed.map(|is| if is { "completed" } else { "not completed" }.to_owned());
    let place = || sink.index.map_or(sink.source.stem.clone(), |i| format!("{}-{i}", sink.source.stem));
    let id = run.id.map(|id| id.0).filter(|id| !id.is_empty());
    let about = Trajectory {
        parent: run.parent,
        repository: run.config.and_then(|config| config.cwd).or(run.cwd).as_deref().and_then(repository_of),
        agent: Some("hermes".to_owned()),
        model: run.model,
        outcome: outcome.or(run.reason),
        ..Trajectory::default()
    }
    .of_session(id, &place());
    draft.finish(about, sink);
    Ok(())
}

/// A message whose thoughts, calls or results stand as tags in its text; several results are several messages.
fn of_tags(said: Said, draft: &mut Draft) -> Vec<Message> {
    let text = said.value.unwrap_or_default();
    let from = said.from.unwrap_or_default();
    match from.as_str() {
        "gpt" | "assistant" | "model" => vec![reply(&text)],
        "tool" | "function" => results(&text),
        "system" => {
            if let Some((before, tools, after)) = tag(&text, "tools") {
                draft.tools(tools.to_owned());
                return vec![message("system", format!("{}\n{}", before.trim_end(), after.trim_start()))];
            }
            vec![message("system", text)]
        }
        from => vec![message(if from == "human" { "user" } else { from }, text)],
    }
}

pub(super) fn message(role: &str, text: String) -> Message {
    Message { role: Some(role.to_owned()), content: Some(Content::Text(text)), ..Message::default() }
}

/// The text before the first element of this name, what stands in it, and the rest.
fn tag<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let (before, rest) = text.split_once(&format!("<{name}>"))?;
    let (inner, after) = rest.split_once(&format!("</{name}>"))?;
    Some((before, inner.trim(), after))
}

/// A reply with its calls as blocks.
pub(super) fn reply(text: &str) -> Message {
    let mut blocks = Vec::new();
    let mut rest = text;
    if let Some((_, thought, after)) = tag(rest, "think").filter(|(before, ..)| before.trim().is_empty()) {
        let kind = Some("thinking".to_owned());
        blocks.push(Block { kind, thinking: Some(thought.to_owned()), ..Block::default() });
        rest = after;
    }
    let say = |text: &str, blocks: &mut Vec<Block>| {
        if !text.trim().is_empty() {
            let (kind, text) = (Some("text".to_owned()), Some(text.trim().to_owned()));
            blocks.push(Block { kind, text, ..Block::default() });
        }
    };
    while let Some((before, call, after)) = tag(rest, "tool_call") {
        match serde_json::from_str::<Value>(call) {
            Ok(value) if value["name"].is_string() => {
                say(before, &mut blocks);
                blocks.push(Block {
                    kind: Some("tool_use".to_owned()),
                    id: value["id"].as_str().or(value["tool_call_id"].as_str()).map(str::to_owned),
                    name: value["name"].as_str().map(str::to_owned),
                    input: Some(Arguments(fields::words_of(&value["arguments"].to_string()))),
                    ..Block::default()
                });
            }
            // What is no call stays as it is written.
            _ => say(&rest[..rest.len() - after.len()], &mut blocks),
        }
        rest = after;
    }
    say(rest, &mut blocks);
    let content = Some(Content::Blocks(blocks));
    Message { role: Some("assistant".to_owned()), content, ..Message::default() }
}

pub(super) fn results(text: &str) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut rest = text;
    while let Some((_, inner, after)) = tag(rest, "tool_response") {
        messages.push(result(inner));
        rest = after;
    }
    if messages.is_empty() {
        messages.push(message("tool", text.to_owned()));
    }
    messages
}

fn result(text: &str) -> Message {
    let value = serde_json::from_str::<Value>(text).unwrap_or_default();
    let content = value.get("content").map(|content| fields::words_of(&content.to_string()));
    let string = |key: &str| value[key].as_str().map(str::to_owned);
    Message {
        name: string("name"),
        tool_call_id: string("tool_call_id"),
        ..message("tool", content.unwrap_or_else(|| text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::brief as outline;

    fn run(json: &str) -> Trajectory {
        let source = Source::test("d/session_1.json", "hermes");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        sink.trajectories.remove(0)
    }

    #[test]
    fn a_session_is_a_run() {
        let t = run(
            r#"{"session_id":"h-1","model":"m-1","platform":"cli","session_start":"2026-01-01T00:00:00Z","model_config":{"cwd":"~/src/tool"},
            "system_prompt":"You are Hermes.","tools":[{"name":"shell"}],"messages":[{"role":"user","content":"Where?"},
            {"role":"assistant","content":"I look.","reasoning":"Look it up.","reasoning_content":"Look it up.",
             "tool_calls":[{"id":"c1","call_id":"c1","response_item_id":"r","type":"function","function":{"name":"shell","arguments":"{\"command\":\"pwd\"}"}}]},
            {"role":"tool","content":"/x","tool_call_id":"c1","tool_name":"shell"},{"role":"assistant","content":"In /x."},{"role":"session_meta"}]}"#,
        );
        assert_eq!(
            outline(&t),
            [
                "0 tools [{\"name\":\"shell\"}]",
                "0 system You are Hermes.",
                "0 message Where?",
                "1 thought Look it up.",
                "1 thought I look.",
                "1 action shell\npwd",
                "1 observation /x",
                "2 message In /x."
            ]
        );
        assert_eq!((t.task_id.as_deref(), t.repository.as_deref()), (Some("h-1"), Some("tool")));
    }

    #[test]
    fn tags_are_calls_and_results() {
        let t = run(
            r#"{"conversations":[{"from":"system","value":"You call functions. <tools>[{\"name\":\"f\"}]</tools> Go."},{"from":"human","value":"Q"},
            {"from":"gpt","value":"<think>\nhm\n</think>\nI call.\n<tool_call>\n{\"name\":\"f\",\"arguments\":{\"x\":1}}\n</tool_call>\n<tool_call>\n{\"name\":\"g\",\"arguments\":{}}\n</tool_call>"},
            {"from":"tool","value":"<tool_response>\n{\"name\":\"g\",\"content\":{\"b\":2}}\n</tool_response>\n<tool_response>\n{\"name\":\"f\",\"content\":\"one\"}\n</tool_response>"},
            {"from":"gpt","value":"<tool_call>no call</tool_call> A."}],"model":"m-1","completed":true}"#,
        );
        assert_eq!(
            outline(&t),
            [
                "0 tools [{\"name\":\"f\"}]",
                "0 system You call functions.\nGo.",
                "0 message Q",
                "1 thought hm",
                "1 thought I call.",
                "1 action f\n1",
                "1 action g",
                "1 observation {\"b\":2}",
                "1 observation one",
                "2 message <tool_call>no call</tool_call>\nA."
            ]
        );
        assert_eq!(t.steps[6].call_id, t.steps[7].call_id);
        assert_eq!(t.outcome.as_deref(), Some("completed"));
    }
}
