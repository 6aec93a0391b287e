//! Chats in the OpenAI style: `{messages, tools?}` a line or a file, a list of those, or a bare list of
//! messages.
//!
//! Understands tool calls, the older `function_call`, contents as lists of blocks in the OpenAI and
//! the Anthropic style, and reasoning beside the content. What other keys of a run are called
//! varies from log to log; the usual names of id, model, reward and outcome are looked for.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde_json::value::RawValue;

use super::reading::content::{Function, ToolCalls};
use super::reading::{Content, Draft, List, names, record, time};
use super::{Entry, Reading, Sink, annotated};
use crate::trajectory::{Kind, Trajectory};

pub(super) const ENTRY: Entry = Entry {
    name: "openai-chat",
    summary: "OpenAI chat messages in JSON or JSONL, with tool calls",
    reading: Reading::Values(read),
};

record! {
    /// One run.
    struct Run in "chat" {
        messages: List<Message> = "messages",
        tools: Box<RawValue> = "tools" | "functions",
        id: Name = "id" | "run_id" | "traj_id" | "trajectory_id",
        task_id: Name = "task_id" | "instance_id",
        repository: String = "repository" | "repo" | "domain",
        agent: String = "agent",
        model: String = "model" | "model_name",
        outcome: String = "outcome" | "exit_status",
        reward: Label = "reward" | "score",
        resolved: Label = "resolved",
        annotations: Box<RawValue> = "annotations",
    }

    /// One message.
    struct Message in "chat.message" {
        role: String = "role",
        content: Content = "content",
        tool_calls: ToolCalls = "tool_calls",
        function_call: Function = "function_call",
        tool_call_id: String = "tool_call_id",
        name: String = "name",
        reasoning: Content = "reasoning_content" | "reasoning",
        refusal: String = "refusal",
        timestamp: Moment = "timestamp" | "created_at",
        is_error: bool = "is_error",
    }
}

/// An id that may be logged as a number.
pub(super) struct Name(pub(super) String);

/// A reward or label: number, boolean or text; other values are unknown.
#[derive(Default)]
pub(super) struct Label(pub(super) Option<f64>);

/// A time as ISO text or seconds.
#[derive(Default)]
pub(super) struct Moment(pub(super) Option<i64>);

/// Implements `Deserialize` from a scalar; lists and objects count as unknown.
macro_rules! from_scalar {
    ($type:ty, $text:expr, $number:expr, $truth:expr, $unknown:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct ScalarVisitor;
                impl<'de> Visitor<'de> for ScalarVisitor {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a scalar")
                    }
                    fn visit_str<E>(self, v: &str) -> Result<$type, E> {
                        Ok($text(v))
                    }
                    fn visit_u64<E>(self, v: u64) -> Result<$type, E> {
                        Ok($number(v as f64))
                    }
                    fn visit_i64<E>(self, v: i64) -> Result<$type, E> {
                        Ok($number(v as f64))
                    }
                    fn visit_f64<E>(self, v: f64) -> Result<$type, E> {
                        Ok($number(v))
                    }
                    fn visit_bool<E>(self, v: bool) -> Result<$type, E> {
                        Ok($truth(v))
                    }
                    fn visit_unit<E>(self) -> Result<$type, E> {
                        Ok($unknown)
                    }
                    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<$type, A::Error> {
                        while seq.next_element::<de::IgnoredAny>()?.is_some() {}
                        Ok($unknown)
                    }
                    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<$type, A::Error> {
                        while map.next_entry::<de::IgnoredAny, de::IgnoredAny>()?.is_some() {}
                        Ok($unknown)
                    }
                }
                deserializer.deserialize_any(ScalarVisitor)
            }
        }
    };
}

from_scalar!(
    Name,
    |v: &str| Name(v.to_owned()),
    |v: f64| Name(v.to_string()),
    |v: bool| Name(v.to_string()),
    Name(String::new())
);
from_scalar!(
    Label,
    |v: &str| Label(v.parse().ok()),
    |v: f64| Label(Some(v)),
    |v: bool| Label(Some(f64::from(u8::from(v)))),
    Label(None)
);
from_scalar!(
    Moment,
    |v: &str| Moment(time::parse_iso(v)),
    |v: f64| Moment(time::from_seconds(v)),
    |_: bool| Moment(None),
    Moment(None)
);

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let start = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    if bytes.get(start) != Some(&b'[') {
        finish(serde_json::from_slice(bytes)?, None, sink);
        return Ok(());
    }
    // A list: of messages, or of runs.
    let first =
        bytes[start + 1..].iter().position(|b| !b.is_ascii_whitespace()).map_or(start, |i| start + 1 + i);
    let mut shape = super::Shape::default();
    shape.add(bytes, first);
    if shape.has("messages") {
        for (i, part) in list_items(bytes)?.into_iter().enumerate() {
            let offset = part.get().as_ptr() as usize - bytes.as_ptr() as usize;
            super::read_item(part, offset, sink, |run, sink| finish(run, Some(i), sink));
        }
        return Ok(());
    }
    let run = Run { messages: Some(serde_json::from_slice(bytes)?), ..Run::default() };
    finish(run, None, sink);
    Ok(())
}

/// The items of a list, unread.
pub(super) fn list_items(bytes: &[u8]) -> anyhow::Result<Vec<&RawValue>> {
    Ok(serde_json::from_slice(bytes)?)
}

/// Turns a run into a trajectory.
pub(super) fn finish(run: Run, index: Option<usize>, sink: &mut Sink<'_>) {
    let mut draft = Draft::new();
    if let Some(tools) = run.tools
        && !matches!(tools.get(), "[]" | "\"\"")
    {
        draft.tools(tools.get().to_owned());
    }
    read_messages(run.messages.unwrap_or_default().0, &mut draft);
    let name = |n: Option<Name>| n.map(|n| n.0).filter(|n| !n.is_empty());
    let by_place = || index.map_or(sink.source.stem.clone(), |i| format!("{}-{i}", sink.source.stem));
    let logged = name(run.task_id).or(name(run.id));
    let is_named_by_file = logged.is_none();
    let task = logged.unwrap_or_else(by_place);
    let reward = run.reward.and_then(|l| l.0);
    let resolved = run.resolved.and_then(|l| l.0).map(|v| v >= 1.0);
    let annotations = run.annotations.map(|a| annotated::with_clean_points(a.get(), &mut draft.losses));
    let about = Trajectory {
        repository: run.repository.or_else(|| names::swe_repository(&task)),
        task_id: Some(task),
        is_named_by_file,
        agent: run.agent,
        model: run.model,
        outcome: run.outcome,
        reward,
        resolved,
        label_source: (reward.is_some() || resolved.is_some()).then(|| "log".to_owned()),
        annotations,
        ..Trajectory::default()
    };
    draft.finish(about, sink);
}

/// Pushes the messages of a chat.
pub(super) fn read_messages(messages: Vec<Message>, draft: &mut Draft) {
    for (i, message) in messages.into_iter().enumerate() {
        draft.at(i, message.timestamp.as_ref().and_then(|t| t.0));
        match message.role.as_deref().unwrap_or("") {
            "assistant" | "model" | "ai" => read_assistant(message, draft),
            "tool" | "function" => {
                let text = message.content.unwrap_or_default().into_text(&mut draft.losses);
                draft.result(message.tool_call_id.as_deref(), message.name, text, message.is_error);
            }
            "system" | "developer" => {
                let text = message.content.unwrap_or_default().into_text(&mut draft.losses);
                draft.system(text);
            }
            "user" => read_user(message, draft),
            _ => draft.losses.add("message of unknown role left out"),
        }
    }
}

/// A user message; in the Anthropic style it may hold tool results among its blocks.
fn read_user(message: Message, draft: &mut Draft) {
    let Some(Content::Blocks(blocks)) = message.content else {
        let text = message.content.unwrap_or_default().into_text(&mut draft.losses);
        draft.user(text);
        return;
    };
    let mut rest = Vec::new();
    for block in blocks {
        if block.kind.as_deref() == Some("tool_result") {
            let text = block.content.map_or(String::new(), |c| c.into_text(&mut draft.losses));
            draft.result(block.tool_use_id.as_deref(), None, text, block.is_error);
        } else {
            rest.push(block);
        }
    }
    if !rest.is_empty() {
        let text = Content::Blocks(rest).into_text(&mut draft.losses);
        draft.user(text);
    }
}

fn read_assistant(message: Message, draft: &mut Draft) {
    draft.begin_call();
    let mut calls: Vec<(Option<String>, String, String)> =
        message.tool_calls.map(|c| c.0).unwrap_or_default().into_iter().map(|c| c.into_parts()).collect();
    if let Some(call) = message.function_call {
        // The older form has no id; logs of the newer one repeat an empty one.
        if calls.is_empty() && call.name.is_some() {
            calls.push((None, call.name.unwrap_or_default(), call.arguments.unwrap_or_default().0));
        }
    }
    let mut thoughts = Vec::new();
    if let Some(reasoning) = message.reasoning {
        thoughts.push(reasoning.into_text(&mut draft.losses));
    }
    let mut text = String::new();
    match message.content.unwrap_or_default() {
        Content::Blocks(blocks) => {
            let mut rest = Vec::new();
            for block in blocks {
                match block.kind.as_deref() {
                    Some("tool_use") => {
                        let input = block.input.unwrap_or_default().0;
                        calls.push((block.id, block.name.unwrap_or_else(|| "unknown".to_owned()), input));
                    }
                    Some("thinking" | "reasoning") => thoughts.extend(block.thinking.or(block.text)),
                    _ => rest.push(block),
                }
            }
            text = Content::Blocks(rest).into_text(&mut draft.losses);
        }
        content => text.push_str(&content.into_text(&mut draft.losses)),
    }
    if text.is_empty() {
        text = message.refusal.unwrap_or_default();
    }
    for thought in thoughts {
        draft.agent(Kind::Thought, thought);
    }
    draft.agent(if calls.is_empty() { Kind::Message } else { Kind::Thought }, text);
    for (id, name, arguments) in calls {
        draft.action(name, arguments, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Source;

    fn runs(json: &str) -> (Vec<Trajectory>, super::super::Losses) {
        let source = Source::test("d/chat.jsonl", "openai-chat");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        (sink.trajectories, sink.losses)
    }

    fn outline(t: &Trajectory) -> Vec<String> {
        t.steps.iter().map(|s| format!("{} {} {}", s.turn, s.kind.name(), s.text)).collect()
    }

    #[test]
    fn parallel_calls_answered_in_any_order() {
        let json = r#"{"id":7,"model":"m","reward":0.5,"tools":[{"type":"function"}],"messages":[
            {"role":"developer","content":"S"},{"role":"user","content":[{"type":"text","text":"T"}]},
            {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
              {"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
              {"id":"b","type":"function","function":{"name":"g","arguments":"{broken"}}]},
            {"role":"tool","tool_call_id":"b","content":"of g"},{"role":"tool","tool_call_id":"a","content":null},
            {"role":"assistant","content":"done","tool_calls":[]}]}"#;
        let (t, _) = runs(json);
        assert_eq!(
            outline(&t[0]),
            [
                "0 tools [{\"type\":\"function\"}]",
                "0 system S",
                "0 message T",
                "1 thought hm",
                "1 action f\n1",
                "1 action g\n{broken",
                "1 observation of g",
                "1 observation ",
                "2 message done"
            ]
        );
        assert_eq!(t[0].steps[6].tool.as_deref(), Some("g"));
        assert_eq!(t[0].steps[7].call_id.as_deref(), Some("a"));
        assert_eq!(
            (t[0].task_id.as_deref(), t[0].reward, t[0].label_source.as_deref()),
            (Some("7"), Some(0.5), Some("log"))
        );
    }

    #[test]
    fn the_older_function_call_is_matched_by_name() {
        let json = r#"{"messages":[{"role":"user","content":"T"},
            {"role":"assistant","content":"","function_call":{"name":"f","arguments":"{}"}},
            {"role":"function","name":"f","content":"r"}]}"#;
        let (t, losses) = runs(json);
        assert_eq!(outline(&t[0])[1..], ["1 action f", "1 observation r"]);
        assert_eq!(t[0].steps[1].call_id, t[0].steps[2].call_id);
        assert_eq!(losses.0.len(), 0);
    }

    #[test]
    fn lists_of_runs_and_of_messages() {
        let (t, _) = runs(
            r#"[{"messages":[{"role":"user","content":"a"}]},{"messages":[{"role":"user","content":"b"}]}]"#,
        );
        assert_eq!(t.iter().map(|t| t.task_id.clone().unwrap()).collect::<Vec<_>>(), ["chat-0", "chat-1"]);
        let (t, _) = runs(r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]"#);
        assert_eq!(outline(&t[0]), ["0 message a", "1 message b"]);
    }

    #[test]
    fn blocks_of_the_anthropic_style() {
        let json = r#"{"messages":[{"role":"user","content":"T"},
            {"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"go"},
              {"type":"tool_use","id":"u","name":"Read","input":{"file_path":"/a"}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"u","content":[{"type":"text","text":"x"}],"is_error":true},
              {"type":"text","text":"and more"}]}]}"#;
        let (t, _) = runs(json);
        assert_eq!(
            outline(&t[0])[1..],
            ["1 thought hm", "1 thought go", "1 action Read\n/a", "1 observation x", "2 message and more"]
        );
        assert_eq!(t[0].steps[4].is_error, Some(true));
    }
}
