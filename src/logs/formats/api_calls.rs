//! Calls of a model as clients and proxies log them, one a line: `{messages, response}`, `{request, response}`, and rows of the
//! Responses API that name the one before (`previous_response_id`).
//!
//! A prompt holds all before it, or goes on behind the response that it names: so the calls of a session are one run, put
//! together by [`prompts`](super::reading::prompts).

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::openai_chat::Items;
use super::openhands_completion::answer;
use super::reading::chat::Message;
use super::reading::draft::Losses;
use super::reading::names::Name;
use super::reading::prompts::{Mark, PromptCall, Prompts};
use super::reading::scalar::Scalar;
use super::reading::shape::Shape;
use super::reading::usage::LoggedUsage;
use super::reading::{Content, List, record};
use super::{Entry, Origin, Reading, Session, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "api-calls",
    summary: "calls of a model, one a line: requests with their responses",
    reading: Reading::Session { open: || Box::<Calls>::default(), origin: |_, _| Origin::None },
};

record! {
    struct Call in "api_call" {
        request: Box<Call> = "request",
        response: Box<RawValue> = "response",
        messages: List<Message> = "messages",
        input: Items = "input",
        output: Items = "output",
        system: Content = "system" | "instructions",
        tools: Box<RawValue> = "tools" | "functions",
        model: String = "model",
        id: Name = "id",
        previous: Name = "previous_response_id",
        usage: Box<LoggedUsage> = "usage",
        timestamp: Scalar = "timestamp" | "created_at",
        cost: Scalar = "cost" | "response_cost",
    }

    struct Answered in "api_call.response" { id: Name = "id" }
}

/// Whether a value of this shape is a call with its answer.
pub(crate) fn is_call(s: &Shape) -> bool {
    let is_asked = s.has_any(&["messages[].role", "request.messages[].role", "request.input"]);
    let is_answered =
        s.has_any(&["response.content", "response.choices", "response.output", "response.usage"]);
    is_asked && is_answered || s.has_all(&["previous_response_id", "input", "output"])
}

#[derive(Default)]
struct Calls {
    prompts: Prompts,
    /// Of each response the one before it, and what was said since.
    chain: HashMap<String, (Option<String>, Vec<Mark>)>,
    /// All that was said up to the newest response: the next one mostly stands behind it, and no chain is walked.
    newest: Option<(String, Vec<Mark>)>,
    losses: Losses,
}

impl Session for Calls {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut row: Call = serde_json::from_slice(bytes)?;
        let mut asked = row.request.take().map_or_else(Call::default, |request| *request);
        let (model, mut reply, usage) = match row.response.as_deref().map(RawValue::get) {
            Some(raw) if raw.starts_with('{') => answer(raw)?,
            Some(_) => {
                self.losses.add("response that is no message left out");
                Default::default()
            }
            None => (None, row.output.unwrap_or_default().0, None),
        };
        let time = row.timestamp.or(asked.timestamp);
        for message in &mut reply {
            message.timestamp = message.timestamp.or(time);
        }
        let usage = usage.or(row.usage);
        if reply.is_empty() && usage.is_some() {
            reply.push(Message { role: Some("assistant".to_owned()), ..Message::default() });
        }
        if let Some(first) = reply.first_mut() {
            let usage = first.usage.take().or(usage);
            first.usage =
                usage.map(|usage| Box::new(LoggedUsage { cost: usage.cost.or(row.cost), ..*usage }));
        }
        let id = row.response.as_deref().and_then(|raw| serde_json::from_str::<Answered>(raw.get()).ok());
        let id = id.map_or(row.id, |answered| answered.id);
        let system = asked.system.take().or(row.system);
        let previous = asked.previous.take().or(row.previous).map(|id| id.0);
        let of = |asked: Option<List<Message>>, input: Option<Items>| {
            asked.map(|messages| messages.0).or(input.map(|items| items.0))
        };
        let mut new = of(asked.messages, asked.input).or(of(row.messages, row.input)).unwrap_or_default();
        anyhow::ensure!(!new.is_empty() || !reply.is_empty(), "a call without messages");
        let system = system.map(|content| Message {
            role: Some("system".to_owned()),
            content: Some(content),
            ..Message::default()
        });
        let mut marks: Vec<Mark> = system.iter().map(Mark::of).collect();
        marks.extend(self.before(previous.as_deref()));
        let n_known = marks.len();
        marks.extend(new.iter().map(Mark::of));
        let reply: Vec<(Mark, Message)> =
            reply.into_iter().map(|message| (Mark::of(&message), message)).collect();
        if let Some(id) = id {
            let said = |from: usize| {
                marks[from..].iter().copied().chain(reply.iter().map(|(mark, _)| *mark)).collect()
            };
            self.newest = Some((id.0.clone(), said(usize::from(system.is_some()))));
            self.chain.insert(id.0, (previous, said(n_known)));
        }
        let mut system = system;
        let take = &mut |i: usize| match i.checked_sub(n_known) {
            Some(i) => std::mem::take(&mut new[i]),
            None => system.take().unwrap_or_default(),
        };
        let tools = asked.tools.or(row.tools).map(|tools| tools.get().to_owned());
        let model = model.or(asked.model).or(row.model);
        let tools = tools.filter(|tools| tools.len() > 4);
        self.prompts.call(PromptCall { tools, marks: &marks, take, reply, model, resized: [None; 2] });
        Ok(())
    }

    fn finish(self: Box<Self>, sink: &mut Sink<'_>) {
        sink.losses.merge(&self.losses);
        let runs = self.prompts.finish();
        let is_one = runs.len() == 1;
        for (i, run) in runs.into_iter().enumerate() {
            let stem = &sink.source.stem;
            let about = Trajectory {
                task_id: Some(if is_one { stem.clone() } else { format!("{stem}-{i}") }),
                is_named_by_file: true,
                model: run.model,
                ..Trajectory::default()
            };
            run.draft.finish(about, sink);
        }
    }
}

impl Calls {
    /// What was said up to a response, but for the system prompt.
    fn before(&mut self, id: Option<&str>) -> Vec<Mark> {
        if let Some((_, said)) = self.newest.as_ref().filter(|(newest, _)| id == Some(newest)) {
            return said.clone();
        }
        let (mut next, mut turns) = (id, Vec::new());
        while let Some((previous, said)) = next.and_then(|id| self.chain.get(id)) {
            turns.push(said);
            if turns.len() > self.chain.len() {
                self.losses.add(
                    "call behind responses that name one another in a circle read as the first of a run",
                );
                return Vec::new();
            }
            next = previous.as_deref();
        }
        turns.into_iter().rev().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;

    fn runs(lines: &[String]) -> (Vec<Vec<String>>, Losses) {
        let source = Source::test("d/calls.jsonl", "api-calls");
        let mut sink = Sink::new(&source);
        let mut calls = Box::<Calls>::default();
        lines.iter().for_each(|line| calls.value(line.as_bytes()).unwrap());
        calls.finish(&mut sink);
        let line = |s: &crate::trajectory::Step| {
            let usage = s.usage.as_ref().map_or(String::new(), |u| format!(" {}", u.input));
            format!("{} {} {} {}{usage}", s.segment, s.turn, s.kind.name(), s.text.replace('\n', " "))
        };
        (sink.trajectories.iter().map(|t| t.steps.iter().map(line).collect()).collect(), sink.losses)
    }

    /// Calls of Anthropic's API with growing prompts, bare and as requests.
    #[test]
    fn growing_prompts_are_one_run() {
        let call = |n: u32, words: &str| {
            format!(r#"{words}{{"type":"tool_use","id":"t{n}","name":"ls","input":{{"p":"{n}"}}}}"#)
        };
        let replies = [
            call(0, r#"{"type":"text","text":"first"},"#),
            call(1, r#"{"type":"compaction","content":"So far."},{"type":"text","text":"on"},"#),
            r#"{"type":"compaction","content":null},{"type":"text","text":"done"}"#.to_owned(),
        ];
        let edits = r#"{"applied_edits":[{"type":"clear_tool_uses_20250919","cleared_tool_uses":1}]}"#;
        let mut messages = vec![r#"{"role":"user","content":"Q"}"#.to_owned()];
        let (mut bare, mut wrapped) = (Vec::new(), Vec::new());
        for (n, reply) in replies.iter().enumerate() {
            let asked = format!(r#""model":"m","system":"S","messages":[{}]"#, messages.join(","));
            let answer = format!(
                r#"{{"id":"msg{n}","type":"message","role":"assistant","content":[{reply}],"usage":{{"input_tokens":10{n},"output_tokens":5}},"context_management":{}}}"#,
                if n == 1 { edits } else { "null" }
            );
            bare.push(format!(r#"{{{asked},"response":{answer}}}"#));
            wrapped.push(format!(r#"{{"request":{{{asked}}},"response":{answer}}}"#));
            messages.push(format!(r#"{{"role":"assistant","content":[{reply}]}}"#));
            messages.push(format!(
                r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{n}","content":"r{n}"}}]}}"#
            ));
        }
        let steps = [
            "0 0 system S",
            "0 0 message Q",
            "0 1 thought first 100",
            "0 1 action ls 0",
            "0 1 observation r0",
            "1 2 compaction So far.",
            "1 2 thought on 101",
            "1 2 action ls 1",
            "1 2 observation r1",
            "1 3 message done 102",
        ];
        // What stands before a compaction need not be sent again.
        let cut = format!(r#"{},"#, messages[..3].join(","));
        let short: Vec<String> = bare.iter().map(|line| line.replace(&cut, "")).collect();
        assert!(short[1] == bare[1] && short[2].len() < bare[2].len());
        for lines in [bare, wrapped, short] {
            let (told, losses) = runs(&lines);
            assert_eq!(told, [steps]);
            assert!(losses.0.keys().any(|loss| loss.contains("clear_tool_uses")), "{losses:?}");
            let mut shape = Shape::default();
            shape.add(lines[0].as_bytes(), 0);
            assert!(is_call(&shape));
        }
    }

    #[test]
    fn a_circle_of_responses_is_told() {
        let row = |id: u32, previous: u32| {
            let said = format!(r#"{{"type":"message","role":"assistant","content":"A{id}"}}"#);
            format!(
                r#"{{"id":"{id}","previous_response_id":"{previous}","input":"Q{id}","output":[{said}]}}"#
            )
        };
        let (told, losses) = runs(&[row(1, 2), row(2, 1), row(3, 1)]);
        assert_eq!(told[1], ["0 0 message Q3", "0 1 message A3"], "{told:?}");
        assert_eq!(losses.0.len(), 1, "{losses:?}");
        assert!(losses.0.keys().next().unwrap().contains("in a circle"), "{losses:?}");
    }

    #[test]
    fn responses_that_name_the_one_before_are_one_run() {
        let row = |id: &str, previous: &str, input: &str, output: &str| {
            format!(
                r#"{{"id":"{id}","object":"response","instructions":"S","previous_response_id":{previous},"input":[{input}],"output":[{output}],"usage":{{"input_tokens":50,"input_tokens_details":{{"cached_tokens":1}},"output_tokens":7}}}}"#
            )
        };
        let call = r#"{"type":"function_call","call_id":"f","name":"ls","arguments":"{}"}"#;
        let said = |text: &str| {
            format!(
                r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"{text}"}}]}}"#
            )
        };
        let compaction = r#"{"type":"compaction","id":"c","encrypted_content":"gAAA"}"#;
        let result = r#"{"type":"function_call_output","call_id":"f","output":"a b"}"#;
        let (told, _) = runs(&[
            row("1", "null", r#"{"role":"user","content":"Q"}"#, call),
            row("x", "null", r#"{"role":"user","content":"other"}"#, &said("A")),
            row("2", r#""1""#, result, &format!("{compaction},{}", said("done"))),
            row("y", r#""gone""#, r#"{"role":"user","content":"late"}"#, &said("B")),
        ]);
        assert_eq!(
            told,
            [
                vec![
                    "0 0 system S",
                    "0 0 message Q",
                    "0 1 action ls 50",
                    "0 1 observation a b",
                    "1 2 compaction ",
                    "1 2 message done 50"
                ],
                vec!["0 0 system S", "0 0 message other", "0 1 message A 50"],
                vec!["0 0 system S", "0 0 message late", "0 1 message B 50"],
            ]
        );
    }
}
