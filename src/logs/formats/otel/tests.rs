//! Spans by several conventions, and what is right of them by hand.

use super::*;
use crate::logs::formats::Source;
use crate::logs::formats::reading::testing::brief as outline;

fn runs(values: &[&str]) -> (Vec<Trajectory>, Losses) {
    let source = Source::test("d/spans.jsonl", "otel");
    let mut sink = Sink::new(&source);
    let mut spans = Box::<Spans>::default();
    values.iter().for_each(|value| spans.value(value.as_bytes()).unwrap());
    spans.finish(&mut sink);
    (sink.trajectories, sink.losses)
}

/// A span of OTLP with these attributes, all of them texts.
fn span(id: &str, parent: &str, second: u32, attributes: &[(&str, &str)]) -> String {
    let attributes: Vec<String> = attributes
        .iter()
        .map(|(key, value)| format!(r#"{{"key":"{key}","value":{{"stringValue":{}}}}}"#, Value::from(*value)))
        .collect();
    format!(
        r#"{{"resourceSpans":[{{"resource":{{}},"scopeSpans":[{{"scope":{{}},"spans":[{{"traceId":"t1","spanId":"{id}","parentSpanId":"{parent}","name":"n","startTimeUnixNano":"17800000{second:02}000000000","attributes":[{},{{"key":"gen_ai.usage.input_tokens","value":{{"intValue":"{second}"}}}}]}}]}}]}}]}}"#,
        attributes.join(",")
    )
}

#[test]
fn calls_with_their_prompts() {
    let user = r#"{"role":"user","parts":[{"type":"text","content":"Q"}]}"#;
    let call =
        r#"{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"f","arguments":{"x":1}}]}"#;
    let result = r#"{"role":"tool","parts":[{"type":"tool_call_response","id":"c","response":"r"}]}"#;
    let lines = [
        span(
            "a",
            "",
            0,
            &[
                ("gen_ai.operation.name", "invoke_agent"),
                ("gen_ai.agent.name", "A"),
                ("gen_ai.conversation.id", "conv"),
            ],
        ),
        span(
            "3",
            "a",
            3,
            &[
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.input.messages", &format!("[{user},{call},{result}]")),
                (
                    "gen_ai.output.messages",
                    r#"[{"role":"assistant","parts":[{"type":"text","content":"A"}]}]"#,
                ),
            ],
        ),
        span(
            "2",
            "a",
            2,
            &[
                ("gen_ai.operation.name", "execute_tool"),
                ("gen_ai.tool.name", "f"),
                ("gen_ai.tool.call.id", "c"),
                ("gen_ai.tool.call.result", "r"),
            ],
        ),
        span(
            "1",
            "a",
            1,
            &[
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.request.model", "m-1"),
                ("gen_ai.system_instructions", r#"[{"type":"text","content":"S"}]"#),
                ("gen_ai.tool.definitions", r#"[{"name":"f"}]"#),
                ("gen_ai.input.messages", &format!("[{user}]")),
                ("gen_ai.output.messages", &format!("[{call}]")),
            ],
        ),
        span("4", "a", 4, &[("gen_ai.operation.name", "execute_hook")]),
    ];
    let (t, losses) = runs(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(t.len(), 1);
    assert_eq!(
        outline(&t[0]),
        [
            "0 tools [{\"name\":\"f\"}]",
            "0 system S",
            "0 message Q",
            "1 action f\n1",
            "1 observation r",
            "2 message A"
        ]
    );
    assert_eq!(
        (t[0].task_id.as_deref(), t[0].agent.as_deref(), t[0].model.as_deref()),
        (Some("conv"), Some("A"), Some("m-1"))
    );
    assert_eq!(t[0].steps[3].usage.as_ref().map(|u| u.input), Some(1));
    assert_eq!(t[0].steps[3].time, Some(1_780_000_001_000_000));
    assert_eq!(
        losses.0.iter().map(|(what, n)| format!("{what}: {n}")).collect::<Vec<_>>(),
        ["span of no call left out: execute_hook: 1"]
    );
}

#[test]
fn tools_alone_are_calls() {
    let tool = |id: &str, second: u32, name: &str| {
        span(
            id,
            "a",
            second,
            &[
                ("gen_ai.operation.name", "execute_tool"),
                ("gen_ai.tool.name", name),
                ("gen_ai.tool.call.arguments", "{\"p\":1}"),
                ("gen_ai.tool.call.result", "done"),
            ],
        )
    };
    let lines = [
        tool("2", 2, "g"),
        tool("1", 1, "f"),
        span("a", "", 0, &[("gen_ai.operation.name", "invoke_agent"), ("gen_ai.request.model", "m-1")]),
    ];
    let (t, _) = runs(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(t[0].model.as_deref(), Some("m-1"), "no call says it");
    assert_eq!(
        outline(&t[0]),
        ["1 action f\n1", "1 observation done", "2 action g\n1", "2 observation done"]
    );
}

#[test]
fn spans_of_the_vercel_sdk() {
    let list = r#"[{"name":"ai.streamText.doStream","spanContext":{"traceId":"t","spanId":"2"},"parentSpanContext":{"spanId":"1"},"startTime":[1780000000,5000],
        "status":{"code":1},"events":[],"attributes":{"ai.operationId":"ai.streamText.doStream","ai.model.id":"m-1","ai.usage.promptTokens":7,"ai.usage.completionTokens":3,
        "ai.prompt.messages":"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Q\"}]}]","ai.response.text":"I call.",
        "ai.response.toolCalls":"[{\"toolCallId\":\"c\",\"toolName\":\"f\",\"input\":\"{\\\"x\\\":1}\"}]"}},
       {"name":"ai.toolCall","spanContext":{"traceId":"t","spanId":"3"},"startTime":[1780000001,0],"attributes":{"ai.operationId":"ai.toolCall","ai.toolCall.name":"f","ai.toolCall.id":"c","ai.toolCall.args":"{\"x\":1}","ai.toolCall.result":"\"r\""}},
       {"name":"ai.streamText","spanContext":{"traceId":"t","spanId":"1"},"startTime":[1780000000,0],"attributes":{"ai.operationId":"ai.streamText","ai.prompt":"{\"prompt\":\"Q\"}"}}]"#;
    let (t, losses) = runs(&[list]);
    assert_eq!(outline(&t[0]), ["0 message Q", "1 thought I call.", "1 action f\n1", "1 observation \"r\""]);
    assert_eq!(t[0].steps[1].usage.as_ref().and_then(|u| u.output), Some(3));
    assert_eq!(t[0].steps[0].time, Some(1_780_000_000_000_005));
    assert_eq!(losses, Losses::default());
}

#[test]
fn numbered_attributes_and_events_are_messages() {
    let numbered = r#"{"name":"chat","context":{"trace_id":"t","span_id":"1"},"start_time":"2026-01-01T00:00:00Z","attributes":{"openinference.span.kind":"LLM",
        "llm.input_messages.0.message.role":"system","llm.input_messages.0.message.content":"S","llm.input_messages.1.message.role":"user",
        "llm.input_messages.1.message.contents.0.message_content.type":"text","llm.input_messages.1.message.contents.0.message_content.text":"Q",
        "llm.output_messages.0.message.role":"assistant","llm.output_messages.0.message.tool_calls.0.tool_call.function.name":"f",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments":"{}","llm.token_count.prompt":5}}"#;
    let (t, _) = runs(&[numbered]);
    assert_eq!(outline(&t[0]), ["0 system S", "0 message Q", "1 action f"]);
    let events = r#"{"name":"chat m","context":{"trace_id":"u","span_id":"1"},"attributes":{"gen_ai.operation.name":"chat"},"events":[
        {"name":"gen_ai.user.message","attributes":{"content":"Q"}},{"name":"gen_ai.choice","attributes":{"index":0,"message":{"role":"assistant","content":"A"}}}]}"#;
    let (t, _) = runs(&[events]);
    assert_eq!(outline(&t[0]), ["0 message Q", "1 message A"]);
}
