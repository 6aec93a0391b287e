//! Traces of Langfuse: `{trace, observations}`, or a trace with its observations.
//!
//! A `GENERATION` is a call of a model, a `TOOL` runs a tool, and so does a `SPAN` that has the name of a call, where the
//! framework logs no tools. Inputs and outputs are those of the framework, as JSON or as JSON in a string.

use serde_json::Value;
use serde_json::value::RawValue;

use super::reading::draft::Losses;
use super::reading::scalar::Scalar;
use super::reading::spans::{Chat, Span, Tool, Trace, What};
use super::reading::traced::{json_in, said_by_tool};
use super::reading::usage::LoggedUsage;
use super::reading::{List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "langfuse",
    summary: "traces of Langfuse with their observations",
    reading: Reading::Values(read),
};

record! {
    struct File in "langfuse" {
        trace: About = "trace",
        observations: List<Observation> = "observations",
        id: String = "id",
        name: String = "name",
        session: String = "sessionId",
    }

    struct About in "langfuse.trace" {
        id: String = "id",
        name: String = "name",
        session: String = "sessionId",
        observations: List<Observation> = "observations",
    }

    struct Observation in "langfuse.observation" {
        id: String = "id",
        trace: String = "traceId",
        parent: String = "parentObservationId",
        kind: String = "type",
        name: String = "name",
        start: Scalar = "startTime",
        model: String = "model",
        usage: Usage = "usageDetails",
        older_usage: Usage = "usage",
        cost: Scalar = "totalCost" | "calculatedTotalCost",
        input: Box<RawValue> = "input",
        output: Box<RawValue> = "output",
        level: String = "level",
        message: String = "statusMessage",
        tools: Box<RawValue> = "toolDefinitions",
        metadata: Box<RawValue> = "metadata",
    }

    struct Usage in "langfuse.usage" {
        input: Scalar = "input" | "promptTokens",
        output: Scalar = "output" | "completionTokens",
        cache_read: Scalar = "input_cache_read" | "input_cached_tokens" | "cache_read_input_tokens" | "prompt_details.cache_read",
        cache_write: Scalar = "input_cache_creation" | "cache_creation_input_tokens",
        reasoning: Scalar = "output_reasoning" | "output_reasoning_tokens" | "completion_details.reasoning",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let file: File = serde_json::from_slice(bytes)?;
    let about = file.trace.unwrap_or_default();
    let mut observations = file.observations.unwrap_or_default().0;
    if observations.is_empty() {
        observations = about.observations.unwrap_or_default().0;
    }
    let id = about.id.or(file.id).or_else(|| observations.iter().find_map(|o| o.trace.clone()));
    let mut losses = Losses::default();
    let spans = observations.into_iter().map(|observation| span(observation, &mut losses)).collect();
    sink.losses.merge(&losses);
    let about = Trajectory {
        agent: about.name.or(file.name),
        parent: about.session.or(file.session),
        ..Trajectory::default()
    }
    .of_session(id, &sink.source.stem);
    Trace { spans }.finish(about, sink);
    Ok(())
}

fn span(mut observation: Observation, losses: &mut Losses) -> Span {
    let start = observation.start.and_then(|start| start.time(losses));
    let (id, parent) = (observation.id.take().unwrap_or_default(), observation.parent.take());
    let error = (observation.level.as_deref() == Some("ERROR"))
        .then(|| observation.message.take().unwrap_or_default());
    let what = match observation.kind.as_deref().unwrap_or("") {
        "GENERATION" => What::Chat(Box::new(chat(observation, error))),
        "TOOL" => What::Tool(tool(observation, error, false)),
        // A graph has spans for its nodes, too; only a call tells which are tools.
        "SPAN" if observation.output.is_some() => What::Tool(tool(observation, error, true)),
        "AGENT" | "CHAIN" | "SPAN" => What::Agent,
        kind => {
            let name: String = kind.chars().take(40).collect();
            losses.add(&format!("observation of no call left out: {name}"));
            What::Other
        }
    };
    Span { id, parent, start, what }
}

fn text(raw: Option<Box<RawValue>>) -> Option<String> {
    raw.map(|raw| raw.get().to_owned()).filter(|text| text != "null")
}

fn chat(observation: Observation, error: Option<String>) -> Chat {
    let usage = observation.usage.or(observation.older_usage).unwrap_or_default();
    Chat {
        tools: text(observation.tools)
            .filter(|tools| !matches!(tools.as_str(), "{}" | "[]"))
            .or_else(|| tools_in(observation.metadata)),
        input: text(observation.input),
        output: text(observation.output),
        usage: Some(LoggedUsage {
            prompt_tokens: usage.input,
            completion_tokens: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            reasoning: usage.reasoning,
            // Langfuse writes 0 where it has no price.
            cost: observation.cost.filter(|cost| *cost != Scalar::Number(0.0)),
            ..LoggedUsage::default()
        }),
        model: observation.model,
        error: error.map(|text| if text.is_empty() { "the call failed".to_owned() } else { text }),
        system: None,
    }
}

/// The tools of a call, which pydantic-ai logs as a parameter of the request.
fn tools_in(metadata: Option<Box<RawValue>>) -> Option<String> {
    let metadata = metadata.filter(|raw| raw.get().contains("function_tools"));
    let parameters = attributes(metadata)?.get_mut("model_request_parameters")?.take();
    let parameters = parameters.as_str().and_then(json_in).unwrap_or(parameters);
    let tools = parameters.get("function_tools")?.as_array()?;
    (!tools.is_empty()).then(|| Value::from(tools.clone()).to_string())
}

fn attributes(metadata: Option<Box<RawValue>>) -> Option<Value> {
    let value: Value = serde_json::from_str(metadata?.get()).ok()?;
    let mut value = value.as_str().and_then(json_in).unwrap_or(value);
    value.get_mut("attributes").map(Value::take)
}

fn tool(observation: Observation, error: Option<String>, is_doubtful: bool) -> Tool {
    let name = observation.name.unwrap_or_default();
    if is_doubtful {
        let result = text(observation.output).or(error.clone());
        return Tool { name, result, is_error: Some(error.is_some()), is_doubtful, ..Tool::default() };
    }
    let value = |raw: Option<Box<RawValue>>| {
        let value = raw.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()).unwrap_or_default();
        let inner = value.as_str().and_then(json_in).filter(Value::is_object);
        inner.unwrap_or(value)
    };
    let attributes = attributes(observation.metadata).unwrap_or_default();
    let named = |key: &str| attributes[key].as_str().map(str::to_owned);
    let (input, output) = (value(observation.input), value(observation.output));
    let call_id = named("gen_ai.tool.call.id").or_else(|| output["tool_call_id"].as_str().map(str::to_owned));
    let said = said_by_tool(output);
    Tool {
        call_id,
        name: named("gen_ai.tool.name").or(named("tool.name")).unwrap_or(name),
        arguments: match input {
            Value::Null => String::new(),
            Value::String(text) => text,
            input => input.to_string(),
        },
        is_error: Some(error.is_some()),
        result: Some(said).filter(|said| !said.is_empty()).or(error),
        is_doubtful,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::brief;

    #[test]
    fn a_trace_of_a_graph() {
        let user = r#"{\"role\":\"user\",\"content\":\"Q\"}"#;
        let ai = r#"{\"role\":\"assistant\",\"content\":\"\",\"additional_kwargs\":{\"tool_calls\":[{\"id\":\"c\",\"function\":{\"arguments\":\"{\\\"x\\\":1}\",\"name\":\"f\"},\"type\":\"function\"}]}}"#;
        let tools =
            r#"{\"role\":\"tool\",\"content\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}}"#;
        let json = format!(
            r#"{{"trace":{{"id":"t","name":"graph","sessionId":"s"}},"observations":[
            {{"id":"5","traceId":"t","parentObservationId":"4","type":"SPAN","name":"f","startTime":"2026-01-01T00:00:02Z","input":"{{'x': 1}}","output":"{{\"content\":\"r\",\"type\":\"tool\",\"tool_call_id\":\"c\"}}","level":"DEFAULT"}},
            {{"id":"1","traceId":"t","parentObservationId":null,"type":"SPAN","name":"graph","startTime":"2026-01-01T00:00:00Z","input":"x","output":"y"}},
            {{"id":"2","traceId":"t","parentObservationId":"1","type":"GENERATION","name":"ChatX","startTime":"2026-01-01T00:00:01Z","model":"m-1",
              "usageDetails":{{"input":60,"output":15,"total":75,"input_cache_read":20}},"input":"[{user},{tools}]","output":"{ai}"}}]}}"#
        );
        let source = Source::test("d/t.json", "langfuse");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        let t = &sink.trajectories[0];
        let outline = brief(t);
        assert_eq!(
            outline,
            [
                "0 tools [{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]",
                "0 message Q",
                "1 action f\n1",
                "1 observation r"
            ]
        );
        let usage = t.steps[2].usage.as_deref().unwrap();
        assert_eq!((usage.input, usage.output, usage.cache_read), (60, Some(15), Some(20)));
        assert_eq!(
            (t.task_id.as_deref(), t.parent.as_deref(), t.model.as_deref()),
            (Some("t"), Some("s"), Some("m-1"))
        );
    }
}
