//! LLM completion logs of OpenHands, one file (or line) a call: `{messages, response, kwargs}`, of which each prompt holds all before
//! it. The calls of a run are put together by [`prompts`]; of files that are read alone, one that another one begins with counts once.
//!
//! Where the model has no calls of its own, the structured form (`fncall_messages`) is read, behind the system prompt that was sent.

use serde_json::value::RawValue;

use super::openhands::Response;
use super::reading::chat::Message;
use super::reading::prompts::{Mark, PromptCall, Prompts};
use super::reading::scalar::Scalar;
use super::reading::scan::{Scanned, scan};
use super::reading::usage::LoggedUsage;
use super::reading::{List, names, record};
use super::{Entry, Origin, Reading, Session, Sink, list_start, openhands_events};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "openhands-completion",
    summary: "OpenHands LLM completion logs, one file a call",
    reading: Reading::Sessions {
        open: || Box::<Calls>::default(),
        origin,
        together: |names| openhands_events::together(names, time),
    },
};

record! {
    struct Completion in "openhands.completion" {
        messages: List<Message> = "messages" | "input",
        response: Box<RawValue> = "response",
        fncall_messages: List<Message> = "fncall_messages",
        fncall_response: Box<RawValue> = "fncall_response",
        instructions: String = "instructions",
        tools: Box<RawValue> = "tools",
        kwargs: Kwargs = "kwargs",
        timestamp: Scalar = "timestamp",
        cost: Scalar = "cost",
    }

    struct Kwargs in "openhands.completion.kwargs" {
        tools: Box<RawValue> = "tools",
    }

    /// A response of the Responses API.
    struct Output in "openhands.completion.output" {
        id: String = "id",
        model: String = "model",
        output: List<Message> = "output",
        usage: Box<LoggedUsage> = "usage",
    }
}

/// The time at the end of the name of a file.
fn time(name: &str) -> Option<f64> {
    let stem = names::stem(name);
    let time = stem.rsplit(['-', '_']).next()?.parse().ok()?;
    // From 2001 on.
    (time > 1e9).then_some(time)
}

#[derive(Default)]
struct Calls(Prompts);

impl Session for Calls {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut call: Completion = serde_json::from_slice(bytes)?;
        let tools =
            call.tools.or(call.kwargs.and_then(|kwargs| kwargs.tools)).map(|tools| tools.get().to_owned());
        let mut messages = call.messages.unwrap_or_default().0;
        if let Some(text) = call.instructions.take() {
            let role = Some("system".to_owned());
            messages.insert(
                0,
                Message { role, content: Some(super::reading::Content::Text(text)), ..Message::default() },
            );
        }
        if let Some(List(structured)) = call.fncall_messages.filter(|messages| !messages.0.is_empty()) {
            let is_system = |message: &Message| message.role.as_deref() == Some("system");
            let sent = messages.into_iter().next().filter(is_system);
            let rest =
                structured.into_iter().skip_while(|m| sent.is_some() && is_system(m)).collect::<Vec<_>>();
            messages = sent.into_iter().chain(rest).collect();
        }
        let raw = call.fncall_response.or(call.response);
        let (model, mut reply, usage) = answer(raw.as_deref().map_or("{}", RawValue::get))?;
        for message in &mut reply {
            message.timestamp = message.timestamp.or(call.timestamp);
        }
        if let Some(first) = reply.first_mut() {
            let usage = first.usage.take().or(usage);
            first.usage =
                usage.map(|usage| Box::new(LoggedUsage { cost: usage.cost.or(call.cost), ..*usage }));
        }
        anyhow::ensure!(!messages.is_empty() || !reply.is_empty(), "a call without messages");
        let marks: Vec<Mark> = messages.iter().map(Mark::of).collect();
        let take = &mut |i: usize| std::mem::take(&mut messages[i]);
        let reply = reply.into_iter().map(|message| (Mark::of(&message), message)).collect();
        let (tools, resized) = (tools.filter(|t| t.len() > 4), [None; 2]);
        self.0.call(PromptCall { tools, marks: &marks, take, reply, model, resized });
        Ok(())
    }

    fn finish(self: Box<Self>, sink: &mut Sink<'_>) {
        let task = task(sink);
        for conversation in self.0.finish() {
            let about = Trajectory {
                repository: names::swe_repository(&task),
                task_id: Some(task.clone()),
                is_named_by_file: true,
                agent: Some("openhands".to_owned()),
                model: conversation.model,
                ..Trajectory::default()
            };
            conversation.draft.finish(about, sink);
        }
    }
}

/// Model, messages (or items) and usage of a response.
pub(super) fn answer(raw: &str) -> anyhow::Result<(Option<String>, Vec<Message>, Option<Box<LoggedUsage>>)> {
    let response: Response = serde_json::from_str(raw)?;
    if response.choices.is_some() {
        let choice = response.choices.unwrap_or_default().0.into_iter().next();
        return Ok((
            response.model,
            choice.and_then(|choice| choice.message).into_iter().collect(),
            response.usage,
        ));
    }
    let output: Output = serde_json::from_str(raw)?;
    let items = match output.output {
        Some(items) => items.0,
        // One of Anthropic's API is a message itself.
        None => {
            Some(serde_json::from_str::<Message>(raw)?).filter(|m| m.content.is_some()).into_iter().collect()
        }
    };
    Ok((output.model, items, output.usage))
}

/// The task that the file is named by, or its folder: files of calls are named by the model and the time.
fn task(sink: &Sink<'_>) -> String {
    let stem = sink.source.stem.clone();
    let folder = sink.source.path.rsplit('/').nth(1).unwrap_or("");
    match names::swe_repository(&stem).is_none() && names::swe_repository(folder).is_some() {
        true => folder.to_owned(),
        false => stem,
    }
}

/// The first two messages: what all calls of a run begin with.
fn origin(head: &[u8], whole: bool) -> Origin {
    const NEAR: usize = 200;
    let near = &head[..head.len().min(NEAR)];
    let Some(start) = list_start(near, "messages").filter(|_| head.starts_with(b"{")) else {
        return Origin::None;
    };
    let (mut at, mut marks) = (start, Vec::new());
    while marks.len() < 2 {
        at += head[at..].iter().take_while(|b| b.is_ascii_whitespace() || **b == b',').count();
        let Scanned::Ended(end) = scan(head, at) else {
            return if whole { Origin::None } else { Origin::More };
        };
        match serde_json::from_slice::<Message>(&head[at..end]) {
            Ok(message) => marks.push(format!("{:?}", Mark::of(&message))),
            Err(_) => return Origin::None,
        }
        at = end;
    }
    Origin::Uuid(marks.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::brief;

    #[test]
    fn calls_of_a_run() {
        let prompt =
            r#"{"role":"system","content":[{"type":"text","text":"S"}]},{"role":"user","content":"T"}"#;
        let call = r#"[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]"#;
        let usage = r#""usage":{"prompt_tokens":90,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":8}}"#;
        let first = format!(
            r#"{{"messages":[{prompt}],"response":{{"model":"m","choices":[{{"message":{{"role":"assistant","content":"go","tool_calls":{call}}}}}],{usage}}},
            "args":[],"kwargs":{{"tools":[{{"name":"f"}}]}},"timestamp":1767225600.5,"cost":0.1}}"#
        );
        let more = format!(
            r#"{{"role":"assistant","content":[{{"type":"text","text":"go","cache_control":{{"type":"ephemeral"}}}}],"tool_calls":{call}}},{{"role":"tool","tool_call_id":"c","content":"r"}}"#
        );
        let second = format!(
            r#"{{"messages":[{prompt},{more}],"response":{{"choices":[{{"message":{{"role":"assistant","content":"done"}}}}],{usage}}},"kwargs":{{"tools":[{{"name":"f"}}]}}}}"#
        );
        assert!(matches!((origin(first.as_bytes(), true), origin(second.as_bytes(), false)),
            (Origin::Uuid(a), Origin::Uuid(b)) if a == b));
        assert!(matches!(origin(&first.as_bytes()[..60], false), Origin::More));
        let source = Source::test("owner__name-7/m-1.json", "openhands-completion");
        let mut sink = Sink::new(&source);
        let mut calls = Box::<Calls>::default();
        calls.value(first.as_bytes()).unwrap();
        calls.value(second.as_bytes()).unwrap();
        calls.finish(&mut sink);
        let t = &sink.trajectories[0];
        let outline = brief(t);
        let head = ["0 tools [{\"name\":\"f\"}]", "0 system S", "0 message T"];
        let rest = ["1 thought go", "1 action f\n1", "1 observation r", "2 message done"];
        assert_eq!(outline, [&head[..], &rest].concat());
        let usage: Vec<u64> = t.steps.iter().filter_map(|s| s.usage.as_ref()?.cache_read).collect();
        assert_eq!(usage, [8, 8]);
        assert_eq!(t.steps[3].usage.as_ref().and_then(|usage| usage.cost), Some(0.1));
        assert_eq!(
            (t.task_id.as_deref(), t.steps[3].time),
            (Some("owner__name-7"), Some(1_767_225_600_500_000))
        );
    }

    #[test]
    fn calls_are_in_the_order_of_their_times() {
        let names = [
            "c/m-4-1733339230.5.json",
            "c/m-4-1733339229.25.json.zst",
            "c/x-7.json",
            "d/001_1733339230.json",
        ];
        assert_eq!(openhands_events::together(&names, time), [vec![1, 0], vec![3]]);
    }

    #[test]
    fn a_model_without_calls_of_its_own() {
        let json = r#"{"messages":[{"role":"system","content":"S with tools"},{"role":"user","content":"T, as text"}],
            "fncall_messages":[{"role":"system","content":"S"},{"role":"user","content":"T"}],
            "response":{"choices":[{"message":{"role":"assistant","content":"<function=f>"}}]},
            "fncall_response":{"choices":[{"message":{"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}}]}}"#;
        let source = Source::test("a.json", "openhands-completion");
        let mut sink = Sink::new(&source);
        let mut calls = Box::<Calls>::default();
        calls.value(json.as_bytes()).unwrap();
        calls.finish(&mut sink);
        let texts: Vec<&str> = sink.trajectories[0].steps.iter().map(|s| s.text.as_str()).collect();
        assert_eq!(texts, ["S with tools", "T", "f"]);
    }
}
