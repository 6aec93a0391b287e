//! ShareGPT conversations: `{conversations: [{from, value}], system?, tools?}`. Calls are entries of their own (`function_call`), or
//! stand in the text in the style of Hermes (`<tool_call>`, `<tool_response>`); results go to calls in their order.

use serde_json::value::RawValue;

use super::reading::content::ToolCall;
use super::reading::fields;
use super::reading::names::Name;
use super::reading::scalar::Scalar;
use super::reading::{Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::{Kind, Trajectory};

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
    for (i, said) in run.conversations.unwrap_or_default().0.into_iter().enumerate() {
        draft.at(i, None);
        let text = said.value.map_or(String::new(), |raw| fields::words_of(raw.get()));
        speak(said.from.as_deref().unwrap_or(""), text, &mut draft);
    }
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

fn speak(who: &str, text: String, draft: &mut Draft) {
    match who {
        "system" => draft.system(text),
        "human" | "user" => results(text, false, draft),
        "observation" | "tool" | "function_response" | "function" => results(text, true, draft),
        "function_call" | "tool_call" => {
            draft.begin_call();
            call(&text, draft);
        }
        "gpt" | "assistant" | "chatgpt" | "model" | "bing" | "bard" | "claude" => agent(&text, draft),
        _ => {
            draft.losses.add("message of unknown role kept as text");
            let who: String = who.chars().take(40).collect();
            draft.observation(format!("[{who}] {text}"), None);
        }
    }
}

/// A reply, with its thought and calls among the text.
fn agent(text: &str, draft: &mut Draft) {
    draft.begin_call();
    let (thoughts, text) = parts(text, "think");
    let (calls, text) = parts(&text, "tool_call");
    thoughts.into_iter().for_each(|thought| draft.agent(Kind::Thought, thought));
    draft.agent(if calls.is_empty() { Kind::Message } else { Kind::Thought }, text);
    calls.iter().for_each(|text| call(text, draft));
}

fn call(text: &str, draft: &mut Draft) {
    match serde_json::from_str::<ToolCall>(text.trim()) {
        Ok(logged) => {
            let (id, tool, arguments) = logged.into_parts();
            draft.action(tool, arguments, id);
        }
        Err(_) => {
            draft.losses.add("call that is no JSON kept as text");
            draft.action_as("unknown".to_owned(), text.trim().to_owned(), None, None);
        }
    }
}

/// Results of calls; what else stands there is the user's, or where it is the message of a tool, the result itself.
fn results(text: String, is_tool: bool, draft: &mut Draft) {
    let (responses, rest) = parts(&text, "tool_response");
    if responses.is_empty() && is_tool {
        return draft.result(None, None, text, None);
    }
    if responses.is_empty() {
        return draft.user(text);
    }
    for response in responses {
        draft.result(None, None, response, None);
    }
    if !rest.is_empty() {
        match is_tool {
            true => draft.observation(rest, None),
            false => draft.user(rest),
        }
    }
}

/// What stands in tags of this name, and the rest. A tag without its end is text.
fn parts(text: &str, tag: &str) -> (Vec<String>, String) {
    let (begin, end) = (format!("<{tag}>"), format!("</{tag}>"));
    let (mut inner, mut outer, mut rest) = (Vec::new(), String::new(), text);
    while let Some((before, (part, after))) =
        rest.split_once(&begin).and_then(|(before, more)| Some((before, more.split_once(&end)?)))
    {
        outer.push_str(before);
        inner.push(part.trim().to_owned());
        rest = after;
    }
    outer.push_str(rest);
    (inner, if text.len() == rest.len() { outer } else { outer.trim().to_owned() })
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
              {"from":"gpt","value":"A"},{"from":"critic","value":"fine"}]}"#,
        );
        let calls = ["1 action f\n1", "1 observation r", "2 message A"];
        let head = ["0 tools [{\"name\":\"f\"}]", "0 system S", "0 message Q"];
        assert_eq!(outline, [&head[..], &calls, &["2 observation [critic] fine"]].concat());
        assert_eq!(told, ["message of unknown role kept as text: 1"]);
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
                "1 thought Both.",
                "1 action f\n1",
                "1 action no",
                "1 observation r",
                "1 observation s",
                "2 message A <tool_call>"
            ]
        );
        assert_eq!(told, ["call that is no JSON kept as text: 1"]);
    }
}
