//! Runs of AgentDojo, one JSON object a task: messages in the style of OpenAI, where a call names its function and holds its
//! arguments as an object. Written from the benchmark's source: no real file was at hand.

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::reading::chat::{self, Messages};
use super::reading::content::{Arguments, ToolCall, ToolCalls};
use super::reading::scalar::Scalar;
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "agentdojo",
    summary: "runs of AgentDojo (from source only)",
    reading: Reading::Values(read),
};

record! {
    struct Run in "agentdojo" {
        suite: String = "suite_name",
        pipeline: String = "pipeline_name",
        task: String = "user_task_id",
        injection: String = "injection_task_id",
        attack: String = "attack_type",
        messages: List<Message> = "messages",
        error: String = "error",
        utility: Scalar = "utility",
        security: Scalar = "security",
    }

    struct Message in "agentdojo.message" {
        role: String = "role",
        content: Parts = "content",
        calls: List<Call> = "tool_calls",
        call_id: String = "tool_call_id",
        error: String = "error",
        /// The call that it answers, once more.
        copy: IgnoredAny = "tool_call",
        .. rest
    }

    struct Part in "agentdojo.block" {
        kind: String = "type",
        text: String = "content" | "text" | "thinking",
    }

    struct Call in "agentdojo.call" {
        function: String = "function",
        arguments: Box<RawValue> = "args",
        id: String = "id",
    }
}

/// A text, or a list of parts.
#[derive(Default)]
pub(super) struct Parts(Vec<Part>);

impl<'de> serde::Deserialize<'de> for Parts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let error = serde::de::Error::custom;
        if raw.starts_with('"') {
            let text = serde_json::from_str(raw).map_err(error)?;
            return Ok(Parts(vec![Part { text: Some(text), ..Part::default() }]));
        }
        let parts: Option<List<Part>> = serde_json::from_str(raw).map_err(error)?;
        Ok(Parts(parts.unwrap_or_default().0))
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let (mut draft, mut reader) = (Draft::new(), Messages::default());
    for (i, message) in run.messages.unwrap_or_default().0.into_iter().enumerate() {
        reader.read(i, said(message), &mut draft);
    }
    reader.end(&mut draft);
    let resolved = run.utility.and_then(|is| is.truth("utility", &mut draft.losses));
    let security = run.security.and_then(|is| is.truth("security", &mut draft.losses));
    let names = [run.task, run.attack, run.injection].into_iter().flatten();
    let task = names.filter(|name| name != "none").collect::<Vec<_>>().join("/");
    let about = Trajectory {
        is_named_by_file: task.is_empty(),
        task_id: Some(if task.is_empty() { sink.source.stem.clone() } else { task }),
        repository: run.suite.map(|suite| format!("agentdojo/{suite}")),
        agent: run.pipeline,
        outcome: run.error.or(security.map(|is| format!("security: {is}"))),
        resolved,
        label_source: resolved.map(|_| "log".to_owned()),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

fn said(message: Message) -> chat::Message {
    let parts = message.content.unwrap_or_default().0;
    let is_thought = |part: &Part| part.kind.as_deref().is_some_and(|kind| kind.contains("thinking"));
    let (thoughts, texts): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(is_thought);
    let join = |parts: Vec<Part>| {
        let texts: Vec<String> = parts.into_iter().filter_map(|part| part.text).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    };
    let error = message.error.filter(|error| !error.is_empty());
    let calls = message.calls.unwrap_or_default().0.into_iter().map(|call| ToolCall {
        id: call.id,
        name: call.function,
        arguments: call.arguments.map(|raw| Arguments(raw.get().to_owned())),
        ..ToolCall::default()
    });
    chat::Message {
        role: message.role,
        // A tool that failed answers with its error.
        content: join(texts).filter(|text| !text.is_empty()).or(error.clone()).map(Content::Text),
        reasoning: join(thoughts).map(Content::Text),
        tool_calls: Some(ToolCalls(calls.collect())),
        tool_call_id: message.call_id,
        is_error: error.map(|_| Scalar::Bool(true)),
        rest: message.rest,
        ..chat::Message::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::brief;

    #[test]
    fn a_task_is_a_run() {
        let json = r#"{"suite_name":"banking","pipeline_name":"m-1","user_task_id":"user_task_0","injection_task_id":null,"attack_type":null,"injections":{},
            "messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","content":"Pay it"}]},
            {"role":"assistant","content":null,"tool_calls":[{"function":"read_file","args":{"file_path":"bill.txt"},"id":"c1","placeholder_args":null}]},
            {"role":"tool","content":"","tool_call_id":"c1","tool_call":{"function":"read_file","args":{},"id":"c1"},"error":"ValueError: gone"},
            {"role":"assistant","content":[{"type":"thinking","content":"hm"},{"type":"text","content":"It is gone."}],"tool_calls":[]}],
            "error":null,"utility":false,"security":true,"duration":1.5}"#;
        let source = Source::test("runs/none.json", "agentdojo");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        let t = &sink.trajectories[0];
        let outline = brief(t);
        assert_eq!(
            outline,
            [
                "0 system S",
                "0 message Pay it",
                "1 action read_file\nbill.txt",
                "1 observation ValueError: gone",
                "2 thought hm",
                "2 message It is gone."
            ]
        );
        assert_eq!(t.steps[3].is_error, Some(true));
        assert_eq!((t.resolved, t.outcome.as_deref()), (Some(false), Some("security: true")));
        assert_eq!(
            (t.task_id.as_deref(), t.repository.as_deref()),
            (Some("user_task_0"), Some("agentdojo/banking"))
        );
        assert!(sink.losses.0.is_empty());
    }
}
