//! ShareGPT conversations: `{conversations: [{from, value}], system?, tools?}`. Calls are entries of their own (`function_call`), or
//! stand in the text in the style of Hermes (`<tool_call>`, `<tool_response>`); results go to calls in their order.

use serde_json::value::RawValue;

use super::reading::chat::{self, Message};
use super::reading::content::ToolCalls;
use super::reading::draft::Losses;
use super::reading::fields;
use super::reading::names::Name;
use super::reading::scalar::Scalar;
use super::reading::{Draft, List, ToolCall, record};
use super::{Entry, Reading, Sink, hermes};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "sharegpt",
    summary: "ShareGPT conversations, with tools also as Hermes writes them",
    reading: Reading::Values(read),
};

record! {
    struct Run in "sharegpt" {
        id: Name = "id",
        conversations: List<Said> = "conversations",
        system: String = "system",
        tools: Box<RawValue> = "tools",
        model: String = "model",
        reward: Scalar = "reward" | "score",
    }

    struct Said in "sharegpt.message" {
        from: String = "from" | "role",
        value: Box<RawValue> = "value" | "content",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let is_list = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[');
    let runs: Vec<Run> = if is_list {
        serde_json::from_slice::<List<Run>>(bytes)?.0
    } else {
        vec![serde_json::from_slice(bytes)?]
    };
    runs.into_iter().for_each(|run| finish(run, sink));
    Ok(())
}

fn finish(run: Run, sink: &mut Sink<'_>) {
    let mut draft = Draft::new();
    let tools = run.tools.map_or(String::new(), |tools| fields::words_of(tools.get()));
    if !matches!(tools.as_str(), "" | "null" | "[]") {
        draft.tools(tools);
    }
    if let Some(system) = run.system.filter(|system| !system.is_empty()) {
        draft.system(system);
    }
    let mut said = Vec::new();
    for entry in run.conversations.unwrap_or_default().0 {
        let text = entry.value.map_or(String::new(), |raw| fields::words_of(raw.get()));
        said.extend(messages(entry.from.as_deref().unwrap_or(""), text, &mut draft.losses));
    }
    chat::read_all(said, Vec::new(), &mut draft);
    let by_place = || sink.index.map_or(sink.source.stem.clone(), |i| format!("{}-{i}", sink.source.stem));
    let id = run.id.map(|id| id.0).filter(|id| !id.is_empty());
    let reward = run.reward.and_then(|reward| reward.number("reward", &mut draft.losses));
    let about = Trajectory {
        is_named_by_file: id.is_none(),
        task_id: Some(id.unwrap_or_else(by_place)),
        model: run.model,
        reward,
        label_source: reward.map(|_| "log".to_owned()),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
}

/// The messages of an entry.
fn messages(who: &str, text: String, losses: &mut Losses) -> Vec<Message> {
    let has_results = text.contains("<tool_response>");
    match who {
        "human" | "user" | "observation" | "tool" | "function_response" | "function" if has_results => {
            hermes::results(&text)
        }
        "observation" | "tool" | "function_response" | "function" => vec![hermes::message("tool", text)],
        "gpt" | "assistant" | "chatgpt" | "model" | "bing" | "bard" | "claude" => vec![hermes::reply(&text)],
        "function_call" | "tool_call" => vec![call(text, losses)],
        _ => vec![hermes::message(who, text)],
    }
}

fn call(text: String, losses: &mut Losses) -> Message {
    let Ok(call) = serde_json::from_str::<ToolCall>(text.trim()) else {
        losses.add("call that is no JSON kept as text");
        return hermes::message("assistant", text);
    };
    let tool_calls = Some(ToolCalls(vec![call]));
    Message { tool_calls, ..hermes::message("assistant", String::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;

    fn run(json: &str) -> (Vec<String>, Vec<String>) {
        let source = Source::test("d/a.json", "sharegpt");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        let steps = &sink.trajectories[0].steps;
        let outline = steps.iter().map(|s| format!("{} {} {}", s.turn, s.kind.name(), s.text)).collect();
        (outline, sink.losses.0.iter().map(|(what, n)| format!("{what}: {n}")).collect())
    }

    #[test]
    fn calls_as_entries_and_in_tags() {
        let (outline, told) = run(
            r#"{"id":"1","system":"S","tools":"[{\"name\":\"f\"}]","conversations":[{"from":"human","value":"Q"},
              {"from":"function_call","value":"{\"name\": \"f\", \"arguments\": {\"a\": 1}}"},{"from":"observation","value":"r"},
              {"from":"gpt","value":"A"},{"from":"critic","value":"fine"},{"from":"function_call","value":"no"}]}"#,
        );
        let calls = ["1 action f\n1", "1 observation r", "2 message A"];
        let head = ["0 tools [{\"name\":\"f\"}]", "0 system S", "0 message Q"];
        assert_eq!(outline, [&head[..], &calls, &["2 observation [critic] fine", "3 message no"]].concat());
        assert_eq!(told, ["call that is no JSON kept as text: 1", "message of unknown role kept as text: 1"]);
        let (outline, told) = run(
            r#"[{"conversations":[{"from":"system","value":"S"},{"from":"human","value":"Q"},
              {"from":"gpt","value":"<think>hm</think>Both.<tool_call>\n{\"name\":\"f\",\"arguments\":{\"a\":1}}\n</tool_call>\n<tool_call>no</tool_call>"},
              {"from":"tool","value":"<tool_response>r</tool_response>\n<tool_response>s</tool_response>"},{"from":"gpt","value":"A <tool_call>"}]}]"#,
        );
        assert_eq!(
            outline,
            [
                "0 system S",
                "0 message Q",
                "1 thought hm",
                "1 thought Both.\n<tool_call>no</tool_call>",
                "1 action f\n1",
                "1 observation r",
                "1 observation s",
                "2 message A <tool_call>"
            ]
        );
        assert_eq!(told, ["tool result without a call: 1"]);
    }
}
