//! Runs of LangSmith: batches of a tracer (`{post, patch}`), lists, or one run a line. What is posted and patched
//! under one id is one run: a patch adds what was not known at its beginning.

use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::reading::draft::Losses;
use super::reading::scalar::Scalar;
use super::reading::spans::{Chat, Span, Tool, Trace, What};
use super::reading::traced::{said_by_tool, usage_in};
use super::reading::{List, record};
use super::{Entry, Origin, Reading, Session, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "langsmith",
    summary: "runs of LangSmith, exported or as its tracers send them",
    reading: Reading::Session { open: || Box::<Runs>::default(), origin: |_, _| Origin::None },
};

record! {
    struct Batch in "langsmith" {
        post: List<Logged> = "post",
        patch: List<Logged> = "patch",
        runs: List<Logged> = "runs",
    }

    struct Logged in "langsmith.run" {
        id: String = "id",
        trace: String = "trace_id",
        parent: String = "parent_run_id",
        order: String = "dotted_order",
        name: String = "name",
        kind: String = "run_type",
        start: Scalar = "start_time",
        inputs: Box<RawValue> = "inputs",
        outputs: Box<RawValue> = "outputs",
        error: String = "error",
        extra: Extra = "extra",
        session: String = "session_name",
    }

    struct Extra in "langsmith.extra" {
        metadata: Metadata = "metadata",
        params: Params = "invocation_params",
    }

    struct Metadata in "langsmith.metadata" {
        model: String = "ls_model_name",
        thread: String = "thread_id" | "session_id" | "conversation_id",
    }

    struct Params in "langsmith.params" {
        tools: Box<RawValue> = "tools",
        model: String = "model" | "model_name",
    }
}

#[derive(Default)]
struct Runs {
    runs: Vec<Logged>,
    by_id: HashMap<String, usize>,
    losses: Losses,
}

impl Session for Runs {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        if bytes.trim_ascii_start().starts_with(b"[") {
            let runs: List<Logged> = serde_json::from_slice(bytes)?;
            runs.0.into_iter().for_each(|run| self.add(run));
            return Ok(());
        }
        let batch: Batch = serde_json::from_slice(bytes)?;
        if batch.post.is_none() && batch.patch.is_none() && batch.runs.is_none() {
            self.add(serde_json::from_slice(bytes)?);
            return Ok(());
        }
        let lists = [batch.post, batch.patch, batch.runs];
        lists.into_iter().flatten().flat_map(|list| list.0).for_each(|run| self.add(run));
        Ok(())
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink<'_>) {
        let mut traces: Vec<(String, Trace, Option<String>)> = Vec::new();
        let mut by_trace: HashMap<String, usize> = HashMap::new();
        for run in std::mem::take(&mut self.runs) {
            let id = run.trace.clone().or(run.id.clone()).unwrap_or_default();
            let at = *by_trace.entry(id.clone()).or_insert_with(|| {
                traces.push((id, Trace::default(), None));
                traces.len() - 1
            });
            if run.parent.is_none() && run.order.as_ref().is_none_or(|order| !order.contains('.')) {
                traces[at].2 = run.name.clone();
            }
            let span = self.span(run);
            traces[at].1.spans.push(span);
        }
        sink.losses.merge(&self.losses);
        for (id, trace, name) in traces {
            let about = Trajectory { agent: name, ..Trajectory::default() };
            trace.finish(about.of_session(Some(id), ""), sink);
        }
    }
}

impl Runs {
    /// Adds a run, or what more is known of one.
    fn add(&mut self, run: Logged) {
        let Some(id) = run.id.clone() else {
            return self.losses.add("run without an id left out");
        };
        let Some(&at) = self.by_id.get(&id) else {
            self.by_id.insert(id, self.runs.len());
            return self.runs.push(run);
        };
        let known = &mut self.runs[at];
        let is_empty =
            |raw: &Option<Box<RawValue>>| raw.as_ref().is_none_or(|raw| matches!(raw.get(), "{}" | "null"));
        // No patch moves a run to another place.
        if known.order.is_some() && run.order.is_some() && known.order != run.order {
            self.losses.add("run with the id of another one");
            self.by_id.insert(id, self.runs.len());
            return self.runs.push(run);
        }
        for (raw, other) in [(&known.inputs, &run.inputs), (&known.outputs, &run.outputs)] {
            let is_other = raw.as_ref().map(|raw| raw.get()) != other.as_ref().map(|raw| raw.get());
            let is_lost = !is_empty(raw) && !is_empty(other) && is_other;
            self.losses.add_n("other inputs or outputs of the same run left out", u64::from(is_lost));
        }
        if !is_empty(&run.outputs) {
            known.outputs = run.outputs;
        }
        if is_empty(&known.inputs) {
            known.inputs = run.inputs;
        }
        known.trace = known.trace.take().or(run.trace);
        known.parent = known.parent.take().or(run.parent);
        known.order = known.order.take().or(run.order);
        known.name = known.name.take().or(run.name);
        // What was torn may have another one.
        known.kind = run.kind.or(known.kind.take());
        known.start = known.start.take().or(run.start);
        known.error = run.error.or(known.error.take());
        known.extra = known.extra.take().or(run.extra);
    }

    fn span(&mut self, run: Logged) -> Span {
        let start = run.start.and_then(|start| start.time(&mut self.losses));
        // A run may name its parent by its place alone.
        let by_order = run
            .order
            .as_deref()
            .and_then(|order| Some(order.rsplit_once('.')?.0.rsplit_once('Z')?.1.to_owned()));
        let what = match run.kind.as_deref().unwrap_or("") {
            "llm" => {
                What::Chat(Box::new(chat(run.inputs, run.outputs, run.error, run.extra.unwrap_or_default())))
            }
            "tool" => What::Tool(tool(run.name.unwrap_or_default(), run.inputs, run.outputs, run.error)),
            "chain" | "agent" => What::Agent,
            kind => {
                let name: String = kind.chars().take(40).collect();
                self.losses.add(&format!("run of no call left out: {name}"));
                What::Other
            }
        };
        Span { id: run.id.unwrap_or_default(), parent: run.parent.or(by_order), start, what }
    }
}

fn chat(
    inputs: Option<Box<RawValue>>,
    outputs: Option<Box<RawValue>>,
    error: Option<String>,
    extra: Extra,
) -> Chat {
    let params = extra.params.unwrap_or_default();
    let text = |raw: Option<Box<RawValue>>| {
        raw.map(|raw| raw.get().to_owned()).filter(|text| !matches!(text.as_str(), "{}" | "null"))
    };
    Chat {
        tools: text(params.tools),
        usage: outputs.as_ref().and_then(|raw| usage_in(raw.get())),
        input: text(inputs),
        output: text(outputs),
        model: extra.metadata.and_then(|metadata| metadata.model).or(params.model),
        error,
        system: None,
    }
}

fn tool(
    name: String,
    inputs: Option<Box<RawValue>>,
    outputs: Option<Box<RawValue>>,
    error: Option<String>,
) -> Tool {
    let value = |raw: Option<Box<RawValue>>| {
        raw.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()).unwrap_or_default()
    };
    let (mut inputs, mut outputs) = (value(inputs), value(outputs));
    // What a tool was given as text is its only input.
    let given = if inputs["input"].is_string() { inputs["input"].take() } else { inputs };
    let output =
        ["output", "outputs"].iter().find_map(|key| outputs.get_mut(key).map(Value::take)).unwrap_or(outputs);
    let output = output.get("kwargs").cloned().unwrap_or(output);
    let call_id = output["tool_call_id"].as_str().map(str::to_owned);
    let said = said_by_tool(output);
    Tool {
        call_id,
        name,
        arguments: given.as_str().map_or_else(|| given.to_string(), str::to_owned),
        is_error: Some(error.is_some()),
        result: Some(said).filter(|said| !said.is_empty()).or(error),
        is_doubtful: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::brief as outline;

    fn runs(values: &[&str]) -> Vec<Trajectory> {
        let source = Source::test("d/runs.json", "langsmith");
        let mut sink = Sink::new(&source);
        let mut runs = Box::<Runs>::default();
        values.iter().for_each(|value| runs.value(value.as_bytes()).unwrap());
        runs.finish(&mut sink);
        sink.trajectories
    }

    #[test]
    fn what_is_posted_and_patched_is_one_run() {
        let batch = r#"{"post":[{"id":"1","trace_id":"t","start_time":"2026-01-01T00:00:00Z","dotted_order":"20260101T000000000000Z1","name":"ChatX","run_type":"llm",
            "inputs":{"messages":[{"role":"user","content":"Q"}],"model":"m"},"outputs":{},"extra":{"metadata":{"ls_model_name":"m-1"}}}],
          "patch":[{"id":"1","trace_id":"t","dotted_order":"20260101T000000000000Z1","events":[{"name":"new_token"}],
            "outputs":{"choices":[{"index":0,"message":{"role":"assistant","content":"A"}}],"usage_metadata":{"input_tokens":9,"output_tokens":2,"input_token_details":{"cache_read":4}}}}]}"#;
        let t = runs(&[batch]);
        assert_eq!(outline(&t[0]), ["0 message Q", "1 message A"]);
        let usage = t[0].steps[1].usage.as_deref().unwrap();
        assert_eq!((usage.input, usage.output, usage.cache_read), (9, Some(2), Some(4)));
        assert_eq!((t[0].task_id.as_deref(), t[0].model.as_deref()), (Some("t"), Some("m-1")));
    }

    #[test]
    fn a_torn_record_hides_no_whole_one() {
        let whole = r#"{"id":"1","trace_id":"t","run_type":"llm","dotted_order":"20260101T000000Z1","inputs":{"messages":[{"role":"user","content":"Q"}]},"outputs":{"choices":[{"message":{"role":"assistant","content":"A"}}]}}"#;
        let said = runs(&[r#"{"id":"1","trace_id":"t","run_type":"stant","content":"x"}"#, whole]);
        assert_eq!(outline(&said[0]), ["0 message Q", "1 message A"]);
    }

    #[test]
    fn what_a_run_said_otherwise_is_told() {
        let source = Source::test("a.json", "langsmith");
        let mut sink = Sink::new(&source);
        let mut runs = Box::<Runs>::default();
        for inputs in ["1", "1", "2"] {
            let line = format!(r#"{{"id":"1","trace_id":"t","run_type":"llm","inputs":{{"x":{inputs}}}}}"#);
            runs.value(line.as_bytes()).unwrap();
        }
        runs.finish(&mut sink);
        assert_eq!(sink.losses.0["other inputs or outputs of the same run left out"], 1);
    }

    #[test]
    fn another_run_may_have_the_same_id() {
        let line = |order: &str, text: &str| {
            format!(
                r#"{{"id":"1","trace_id":"t","run_type":"llm","dotted_order":"{order}","inputs":{{"messages":[{{"role":"user","content":"{text}"}}]}},"outputs":{{"choices":[{{"message":{{"role":"assistant","content":"A"}}}}]}}}}"#
            )
        };
        let said = runs(&[&line("20260101T000000Z1", "P"), &line("20260101T000001Z1", "Q")]);
        let said: Vec<Vec<String>> = said.iter().map(outline).collect();
        assert_eq!(said, [["0 message P", "1 message A"], ["0 message Q", "1 message A"]]);
    }

    #[test]
    fn messages_of_langchain_with_a_tool() {
        let human = r#"{"lc":1,"type":"constructor","id":["langchain","schema","messages","HumanMessage"],"kwargs":{"content":"Q","type":"human"}}"#;
        let ai = r#"{"lc":1,"type":"constructor","id":["langchain","schema","messages","AIMessage"],"kwargs":{"content":"","type":"ai","tool_calls":[{"name":"f","args":{"x":1},"id":"c","type":"tool_call"}],"usage_metadata":{"input_tokens":5,"output_tokens":1}}}"#;
        let result = r#"{"lc":1,"type":"constructor","id":["langchain","schema","messages","ToolMessage"],"kwargs":{"content":"r","tool_call_id":"c","type":"tool"}}"#;
        let lines = [
            r#"{"id":"0","trace_id":"0","run_type":"chain","name":"agent","start_time":"2026-01-01T00:00:00Z","inputs":{},"dotted_order":"20260101T000000Z0"}"#.to_owned(),
            format!(r#"{{"id":"1","trace_id":"0","run_type":"llm","name":"x","start_time":"2026-01-01T00:00:01Z","dotted_order":"20260101T000000Z0.20260101T000001Z1","inputs":{{"messages":[[{human}]]}},"outputs":{{"generations":[[{{"text":"","message":{ai}}}]]}}}}"#),
            format!(r#"{{"id":"2","trace_id":"0","run_type":"tool","name":"f","start_time":"2026-01-01T00:00:02Z","dotted_order":"20260101T000000Z0.20260101T000002Z2","inputs":{{"input":"{{'x': 1}}"}},"outputs":{{"output":{result}}}}}"#),
            format!(r#"{{"id":"3","trace_id":"0","run_type":"llm","name":"x","start_time":"2026-01-01T00:00:03Z","dotted_order":"20260101T000000Z0.20260101T000003Z3","inputs":{{"messages":[[{human},{ai},{result}]]}},"outputs":{{"generations":[[{{"text":"A"}}]]}}}}"#),
        ];
        let t = runs(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(t.len(), 1);
        assert_eq!(outline(&t[0]), ["0 message Q", "1 action f\n1", "1 observation r", "2 message A"]);
        assert_eq!(t[0].agent.as_deref(), Some("agent"));
        assert_eq!(t[0].steps[1].usage.as_ref().map(|u| u.input), Some(5));
        // Without the last call the result stands in the run of the tool alone.
        let t = runs(&lines[..3].iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(outline(&t[0]), ["0 message Q", "1 action f\n1", "1 observation r"]);
    }
}
