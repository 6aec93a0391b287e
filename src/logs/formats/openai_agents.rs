//! Traces of the OpenAI Agents SDK: JSONL of `trace` and `trace.span`, written when they end.
//!
//! Spans `generation` hold the prompt and the reply, spans `response` neither: there only the calls of tools and their
//! results are known. Handoffs, guardrails and other spans are left out and counted.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::reading::draft::Losses;
use super::reading::scalar::Scalar;
use super::reading::spans::{Chat, Span, Tool, Trace, What};
use super::reading::usage::LoggedUsage;
use super::reading::{fields, record};
use super::{Entry, Origin, Reading, Session, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "openai-agents",
    summary: "traces of the OpenAI Agents SDK",
    reading: Reading::Session { open: || Box::<Traces>::default(), origin: |_, _| Origin::None },
};

record! {
    struct Line in "openai_agents" {
        object: String = "object",
        id: String = "id",
        trace: String = "trace_id",
        parent: String = "parent_id",
        workflow: String = "workflow_name",
        group: String = "group_id",
        start: Scalar = "started_at",
        data: Data = "span_data",
        error: Box<RawValue> = "error",
    }

    struct Data in "openai_agents.span" {
        kind: String = "type",
        name: String = "name",
        input: Box<RawValue> = "input",
        output: Box<RawValue> = "output",
        model: String = "model",
        usage: LoggedUsage = "usage",
        tools: Box<RawValue> = "tools",
    }
}

#[derive(Default)]
struct Traces {
    /// With their ids, in the order of the log.
    traces: Vec<(String, Trace)>,
    by_id: HashMap<String, usize>,
    /// Workflow and group of each trace.
    about: HashMap<String, (Option<String>, Option<String>)>,
    losses: Losses,
}

impl Session for Traces {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let line: Line = serde_json::from_slice(bytes)?;
        match line.object.as_deref() {
            Some("trace") => {
                self.about.insert(line.id.unwrap_or_default(), (line.workflow, line.group));
            }
            Some("trace.span") => self.add(line),
            _ => self.losses.add("record that is no span left out"),
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink<'_>) {
        sink.losses.merge(&self.losses);
        for (id, trace) in std::mem::take(&mut self.traces) {
            let (workflow, group) = self.about.remove(&id).unwrap_or_default();
            let about = Trajectory { agent: workflow, parent: group, ..Trajectory::default() };
            trace.finish(about.of_session(Some(id), ""), sink);
        }
    }
}

impl Traces {
    fn add(&mut self, line: Line) {
        let trace = line.trace.unwrap_or_default();
        let start = line.start.and_then(|start| start.time(&mut self.losses));
        let what = self.what(line.data.unwrap_or_default(), line.error);
        let span = Span { id: line.id.unwrap_or_default(), parent: line.parent, start, what };
        let at = *self.by_id.entry(trace.clone()).or_insert_with(|| {
            self.traces.push((trace, Trace::default()));
            self.traces.len() - 1
        });
        self.traces[at].1.spans.push(span);
    }

    fn what(&mut self, data: Data, error: Option<Box<RawValue>>) -> What {
        let words = |raw: Option<Box<RawValue>>| raw.map(|raw| fields::words_of(raw.get()));
        let error = words(error);
        match data.kind.as_deref().unwrap_or("") {
            "agent" => What::Agent,
            "generation" | "response" => What::Chat(Box::new(Chat {
                tools: words(data.tools),
                input: words(data.input),
                output: words(data.output),
                usage: data.usage,
                model: data.model,
                error,
                ..Chat::default()
            })),
            "function" => What::Tool(Tool {
                name: data.name.unwrap_or_default(),
                arguments: words(data.input).unwrap_or_default(),
                is_error: Some(error.is_some()),
                result: words(data.output).or(error),
                ..Tool::default()
            }),
            kind => {
                let name: String = kind.chars().take(40).collect();
                self.losses.add(&format!("span of no call left out: {name}"));
                What::Other
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::brief as outline;

    fn runs(lines: &[&str]) -> (Vec<Trajectory>, Losses) {
        let source = Source::test("d/traces.jsonl", "openai-agents");
        let mut sink = Sink::new(&source);
        let mut traces = Box::<Traces>::default();
        lines.iter().for_each(|line| traces.value(line.as_bytes()).unwrap());
        traces.finish(&mut sink);
        (sink.trajectories, sink.losses)
    }

    #[test]
    fn tools_are_calls_where_replies_are_not_logged() {
        let (t, losses) = runs(&[
            r#"{"object":"trace","id":"t-1","workflow_name":"w","group_id":null}"#,
            r#"{"object":"trace.span","id":"3","trace_id":"t-1","parent_id":"1","started_at":"2026-01-01T00:00:02Z","error":null,"span_data":{"type":"function","name":"ls","input":"{\"path\":\".\"}","output":"a.rs"}}"#,
            r#"{"object":"trace.span","id":"4","trace_id":"t-1","parent_id":"1","started_at":"2026-01-01T00:00:03Z","error":{"message":"gone"},"span_data":{"type":"function","name":"cat","input":"{}","output":null}}"#,
            r#"{"object":"trace.span","id":"2","trace_id":"t-1","parent_id":"1","started_at":"2026-01-01T00:00:01Z","span_data":{"type":"response","response_id":"r","usage":{"input_tokens":9,"output_tokens":2}}}"#,
            r#"{"object":"trace.span","id":"5","trace_id":"t-1","parent_id":"1","started_at":"2026-01-01T00:00:04Z","span_data":{"type":"response","response_id":"r2"}}"#,
            r#"{"object":"trace.span","id":"6","trace_id":"t-1","parent_id":"1","started_at":"2026-01-01T00:00:05Z","span_data":{"type":"function","name":"ls","input":"{}","output":"b.rs"}}"#,
            r#"{"object":"trace.span","id":"1","trace_id":"t-1","parent_id":null,"started_at":"2026-01-01T00:00:00Z","span_data":{"type":"agent","name":"A"}}"#,
            r#"{"object":"trace.span","id":"7","trace_id":"t-1","parent_id":"1","started_at":"2026-01-01T00:00:06Z","span_data":{"type":"handoff","from_agent":"A","to_agent":"B"}}"#,
        ]);
        assert_eq!(
            outline(&t[0]),
            [
                "1 action ls\n.",
                "1 observation a.rs",
                "1 action cat",
                "1 observation {\"message\":\"gone\"}",
                "2 action ls",
                "2 observation b.rs"
            ]
        );
        assert_eq!(t[0].steps[0].usage.as_ref().map(|u| u.input), Some(9));
        assert_eq!((t[0].steps[1].is_error, t[0].steps[3].is_error), (Some(false), Some(true)));
        assert_eq!((t[0].task_id.as_deref(), t[0].agent.as_deref()), (Some("t-1"), Some("w")));
        assert_eq!(losses.0["span of no call left out: handoff"], 1);
        assert_eq!(losses.0["reply whose words are not logged"], 2);
    }

    /// Each prompt holds the past; a sub-agent has a run of its own, and a masked result is an edit.
    #[test]
    fn generations_are_runs() {
        let generation = |id: &str, parent: &str, second: u32, input: &str, output: &str| {
            format!(
                r#"{{"object":"trace.span","id":"{id}","trace_id":"t","parent_id":"{parent}","started_at":"2026-01-01T00:00:{second:02}Z","span_data":{{"type":"generation","model":"m-1","input":[{input}],"output":[{output}],"usage":{{"input_tokens":{second},"output_tokens":1}}}}}}"#
            )
        };
        let agent = |id: &str, second: u32| {
            format!(
                r#"{{"object":"trace.span","id":"{id}","trace_id":"t","started_at":"2026-01-01T00:00:{second:02}Z","span_data":{{"type":"agent","name":"A"}}}}"#
            )
        };
        let call = |id: &str| {
            format!(
                r#"{{"role":"assistant","content":"","tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}}"#
            )
        };
        let result =
            |id: &str, text: &str| format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"{text}"}}"#);
        let task = r#"{"role":"system","content":"S"},{"role":"user","content":"Q"}"#;
        let lines = [
            agent("a", 0),
            agent("b", 3),
            generation("1", "a", 1, task, &call("c1")),
            generation("x", "b", 4, r#"{"role":"user","content":"sub"}"#, r#"{"role":"assistant","content":"found"}"#),
            generation("2", "a", 5, &format!("{task},{},{}", call("c1"), result("c1", "long")), &call("c2")),
            generation(
                "3",
                "a",
                6,
                &format!("{task},{},{},{},{}", call("c1"), result("c1", "[cleared]"), call("c2"), result("c2", "r2")),
                r#"{"role":"assistant","content":"A"}"#,
            ),
            r#"{"object":"trace.span","id":"f","trace_id":"t","parent_id":"a","started_at":"2026-01-01T00:00:02Z","span_data":{"type":"function","name":"f","input":"{}","output":"long"}}"#.to_owned(),
        ];
        let (t, _) = runs(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(
            outline(&t[0]),
            [
                "0 system S",
                "0 message Q",
                "1 action f",
                "1 observation long",
                "2 action f",
                "2 observation r2",
                "3 message A"
            ]
        );
        let edit = t[0].steps[3].edit.clone().unwrap();
        assert_eq!((edit.from, edit.text.as_str()), (3, "[cleared]"));
        assert!(t[0].policy.is_some());
        assert_eq!(outline(&t[1]), ["0 message sub", "1 message found"]);
        assert_eq!((t[1].parent.as_deref(), t[1].task_id.as_deref()), (Some("t"), Some("t/x")));
        let usage: Vec<u64> = t[0].steps.iter().filter_map(|s| s.usage.as_ref()).map(|u| u.input).collect();
        assert_eq!(usage, [1, 5, 6]);
    }
}
