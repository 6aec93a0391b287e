//! The database in which Copilot in VS Code keeps its spans of OpenTelemetry (`traces.db`): a row a span, and its attributes.
//!
//! Each call of the model holds all messages that it was sent; a session is what each adds to the one before, and the
//! replies. Where a call was sent something else than the one before and more, the context was compacted. Calls beside a
//! session (titles, messages on progress) are left out and counted.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::reading::content::Arguments;
use super::reading::fields::words_of;
use super::reading::reply::{Call, Reply};
use super::reading::scalar::Scalar;
use super::reading::tables::Rows;
use super::reading::{Draft, List, record};
use super::vscode_chat::read_user;
use super::{Entry, Reading, Sink};
use crate::trajectory::{Trajectory, Usage};

pub(super) const ENTRY: Entry = Entry {
    name: "otel-store",
    summary: "databases of OpenTelemetry spans of Copilot in VS Code",
    reading: Reading::Database {
        is: |tables| {
            tables.has("spans", &["span_id", "operation_name", "chat_session_id", "start_time_ms"])
                && tables.has("span_attributes", &["span_id", "key", "value"])
        },
        rows: ROWS,
        read,
    },
};

const ROWS: &[Rows] = &[
    Rows::all(
        "spans",
        "SELECT coalesce(chat_session_id, ''), rowid FROM spans WHERE operation_name = 'chat'
            ORDER BY 1, start_time_ms, span_id",
        &[],
    ),
    Rows {
        name: "attributes",
        table: "span_attributes",
        order: "SELECT s.chat_session_id, a.rowid FROM span_attributes AS a JOIN spans AS s USING (span_id)
            WHERE s.operation_name = 'chat' AND s.chat_session_id IS NOT NULL
                AND a.key IN ('gen_ai.input.messages', 'gen_ai.output.messages', 'gen_ai.tool.definitions')
            ORDER BY 1",
        columns: "span_id, key, value",
        json: &["value"],
    },
];

record! {
    struct Run in "otel.run" {
        spans: List<Span> = "spans",
        attributes: List<Attribute> = "attributes",
    }

    struct Span in "otel.span" {
        id: String = "span_id",
        session: String = "chat_session_id",
        trace: String = "trace_id",
        start: Scalar = "start_time_ms",
        model: String = "response_model" | "request_model",
        input: Scalar = "input_tokens",
        output: Scalar = "output_tokens",
        cached: Scalar = "cached_tokens",
    }

    struct Attribute in "otel.attribute" {
        span: String = "span_id",
        key: String = "key",
        value: Box<RawValue> = "value",
    }

    struct Message in "otel.message" {
        role: String = "role",
        parts: List<Part> = "parts",
    }

    struct Part in "otel.part" {
        kind: String = "type",
        content: String = "content",
        id: String = "id",
        name: String = "name",
        arguments: Arguments = "arguments",
        response: Box<RawValue> = "response" | "result",
        .. rest but "signature" | "data"
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let spans = run.spans.unwrap_or_default().0;
    let Some(session) = spans.iter().find_map(|span| span.session.clone()) else {
        sink.losses.add_n("call of the model beside a session left out", spans.len() as u64);
        return Ok(());
    };
    let mut attributes: HashMap<(String, String), Box<RawValue>> = HashMap::new();
    for attribute in run.attributes.unwrap_or_default().0 {
        if let (Some(span), Some(key), Some(value)) = (attribute.span, attribute.key, attribute.value) {
            attributes.insert((span, key), value);
        }
    }
    let mut draft = Draft::new();
    // What the newest call was sent.
    let mut sent: Vec<String> = Vec::new();
    let mut trace = None;
    for (i, span) in spans.into_iter().enumerate() {
        let id = span.id.clone().unwrap_or_default();
        let mut take = |key: &str| attributes.remove(&(id.clone(), format!("gen_ai.{key}")));
        let (tools, input, output) =
            (take("tool.definitions"), take("input.messages"), take("output.messages"));
        let time = span.start.unwrap_or_default().time(&mut draft.losses);
        draft.at(i, time);
        let Some(input) = input.and_then(|raw| serde_json::from_str::<Vec<Box<RawValue>>>(raw.get()).ok())
        else {
            draft.losses.add("call of the model without its messages left out");
            continue;
        };
        let input: Vec<String> = input.iter().map(|raw| raw.get().to_owned()).collect();
        if sent.is_empty()
            && let Some(tools) = tools
        {
            draft.tools(tools.get().to_owned());
        }
        let is_same_request = std::mem::replace(&mut trace, span.trace.clone()) == span.trace;
        let from = if input.starts_with(&sent) {
            sent.len()
        } else if is_same_request {
            draft.compaction(String::new());
            0
        } else {
            // The editor writes the past anew for each request of the user.
            draft.losses.add("past that was written anew for a request left out");
            last_of_agent(&input)
        };
        let is_first = sent.is_empty();
        for message in input[from..].iter().filter_map(|raw| serde_json::from_str(raw).ok()) {
            read_message(message, is_first, &mut draft);
        }
        if let Some(model) = &span.model {
            draft.model(model);
        }
        let output = output.and_then(|raw| serde_json::from_str::<List<Message>>(raw.get()).ok());
        read_reply(output.unwrap_or_default().0, span.usage(), &mut draft);
        sent = input;
    }
    let about = Trajectory {
        task_id: Some(session.clone()),
        session: Some(session),
        agent: Some("copilot-chat".to_owned()),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

/// How many messages end with the last one of the agent or of a tool.
fn last_of_agent(input: &[String]) -> usize {
    let is_of_agent = |raw: &String| {
        let message: Message = serde_json::from_str(raw).unwrap_or_default();
        matches!(message.role.as_deref(), Some("assistant" | "tool"))
    };
    input.iter().rposition(is_of_agent).map_or(0, |at| at + 1)
}

impl Span {
    fn usage(&self) -> Option<Usage> {
        let count = |n: Option<Scalar>| n.and_then(Scalar::count);
        let input = count(self.input).filter(|n| *n > 0)?;
        Some(Usage { input, output: count(self.output), cache_read: count(self.cached), ..Usage::default() })
    }
}

/// What was sent beside the replies, which are read where they were made.
fn read_message(message: Message, is_first: bool, draft: &mut Draft) {
    let role = message.role.unwrap_or_default();
    if role == "assistant" && !is_first {
        return;
    }
    if role == "assistant" {
        let message = Message { role: Some(role), ..message };
        return read_reply(vec![message], None, draft);
    }
    for part in message.parts.unwrap_or_default().0 {
        let text = part.content.unwrap_or_default();
        match part.kind.as_deref().unwrap_or_default() {
            "tool_call_response" => {
                let text = part.response.map_or(text, |raw| words_of(raw.get()));
                draft.result(part.id.as_deref(), None, text, None);
            }
            "text" if role == "system" && is_first => draft.system(text),
            // The system prompt stands in every prompt, and what the editor tells of itself is nobody's.
            "text" if role == "system" => {}
            "text" => {
                match text.split_once("<userRequest>").and_then(|(_, said)| said.split_once("</userRequest>"))
                {
                    Some((said, _)) => read_user(said.trim().to_owned(), &text, draft),
                    None => draft.user_or_harness(text),
                }
            }
            kind => {
                if let Some(text) = part.rest.said_as(kind, &mut draft.losses) {
                    draft.notice(text);
                }
            }
        }
    }
}

fn read_reply(messages: Vec<Message>, usage: Option<Usage>, draft: &mut Draft) {
    let mut reply = Reply::begin(usage, draft);
    for part in messages.into_iter().flat_map(|message| message.parts.unwrap_or_default().0) {
        match part.kind.as_deref().unwrap_or_default() {
            "text" => reply.text(part.content.unwrap_or_default(), draft),
            "reasoning" | "thinking" => reply.thought(part.content.unwrap_or_default(), draft),
            "tool_call" => {
                let tool = part.name.unwrap_or_else(|| "unknown".to_owned());
                let call = Call::new(part.id, tool, part.arguments.unwrap_or_default().0);
                reply.call(call, &mut Vec::new(), draft);
            }
            kind => {
                let text = part.rest.said_as(kind, &mut draft.losses);
                reply.text(text.unwrap_or_default(), draft);
            }
        }
    }
    reply.end(draft);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;

    #[test]
    fn a_session_is_what_each_call_adds() {
        let asked = "<attachments>\\na\\n</attachments>\\n<userRequest>\\nFix it.\\n</userRequest>";
        let user = &format!(r#"{{"role":"user","parts":[{{"type":"text","content":"{asked}"}}]}}"#);
        let system = r#"{"role":"system","parts":[{"type":"text","content":"You help."}]}"#;
        let call = r#"{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"ls","arguments":{"p":"a"}}]}"#;
        let result = r#"{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"b"}]}"#;
        let summary = r#"{"role":"user","parts":[{"type":"text","content":"Summary."}]}"#;
        let done = r#"{"role":"assistant","parts":[{"type":"text","content":"Done."}]}"#;
        let row = |span: &str, key: &str, value: &str| {
            format!(r#"{{"span_id":"{span}","key":"gen_ai.{key}","value":{value}}}"#)
        };
        let attributes = [
            row("1", "tool.definitions", r#"[{"name":"ls"}]"#),
            row("1", "input.messages", &format!("[{system},{user}]")),
            row("1", "output.messages", &format!("[{}]", call.replace(r#"{"p":"a"}"#, r#""{\"p\":\"a\"}""#))),
            row("2", "input.messages", &format!("[{system},{user},{call},{result}]")),
            row("2", "output.messages", &format!("[{done}]")),
            row("3", "input.messages", &format!("[{system},{summary}]")),
            row("3", "output.messages", &format!("[{done}]")),
            row("4", "input.messages", &format!("[{system},{call},{user}]")),
            row("4", "output.messages", &format!("[{done}]")),
        ];
        let spans = [1, 2, 3, 4].map(|n| {
            let trace = if n == 4 { "b" } else { "a" };
            format!(r#"{{"span_id":"{n}","trace_id":"{trace}","chat_session_id":"s1","start_time_ms":1700000000000,"response_model":"g","input_tokens":{n}0}}"#)
        });
        let read_all = |spans: &[String]| {
            let run = format!(r#"{{"spans":[{}],"attributes":[{}]}}"#, spans.join(","), attributes.join(","));
            let source = Source::test("traces.db", "otel-store");
            let mut sink = Sink::new(&source);
            read(run.as_bytes(), &mut sink).unwrap();
            (sink.trajectories, sink.losses)
        };
        let (runs, _) = read_all(&spans);
        let line = |s: &crate::trajectory::Step| {
            let usage = s.usage.as_ref().map_or(String::new(), |u| format!(" ({})", u.input));
            format!("{} {} {} {}{usage}", s.turn, s.role.name(), s.kind.name(), s.text)
        };
        let outline: Vec<String> = runs[0].steps.iter().map(line).collect();
        assert_eq!(
            outline,
            [
                r#"0 system tools [{"name":"ls"}]"#,
                "0 system system You help.",
                "0 system message <attachments>\na\n</attachments>\n<userRequest>\n",
                "0 user message Fix it.",
                "1 agent action ls\na (10)",
                "1 tool observation b",
                "2 agent message Done. (20)",
                "3 user compaction ",
                "3 user message Summary.",
                "3 agent message Done. (30)",
                "3 system message <attachments>\na\n</attachments>\n<userRequest>\n",
                "4 user message Fix it.",
                "4 agent message Done. (40)",
            ]
        );
        let beside = spans[0].replace("\"chat_session_id\":\"s1\",", "");
        assert_eq!(read_all(&[beside]).1.0["call of the model beside a session left out"], 1);
    }
}
