//! The stream for the screen of kimi-cli: replies as parts, between the beginnings of their steps.

use std::collections::BTreeMap;

use crate::logs::formats::Sink;
use crate::logs::formats::kimi_code::{KimiUsage, say};
use crate::logs::formats::reading::content::{Block, ToolCall};
use crate::logs::formats::reading::draft::EMPTY_SUMMARY;
use crate::logs::formats::reading::reply::{Call, Reply};
use crate::logs::formats::reading::scalar::Scalar;
use crate::logs::formats::reading::{Content, Draft, record};
use crate::trajectory::{Trajectory, Usage};

record! {
    struct Message in "kimi-cli.wire" {
        kind: String = "type",
        payload: Box<Payload> = "payload",
    }

    struct Payload in "kimi-cli.payload" {
        user_input: Content = "user_input",
        kind: String = "type",
        text: String = "text",
        think: String = "think",
        id: String = "id",
        function: super::super::reading::content::Function = "function",
        arguments_part: String = "arguments_part",
        call_id: String = "tool_call_id",
        value: Outcome = "return_value" | "result",
        usage: KimiUsage = "token_usage",
        parent_call: String = "parent_tool_call_id" | "task_tool_call_id",
        event: Message = "event",
    }

    struct Outcome in "kimi-cli.return_value" {
        is_error: Scalar = "is_error",
        output: Content = "output",
        message: String = "message",
    }
}

/// The result of a call: its place, the call's id, the words, and whether it is an error.
type Answer = ((usize, Option<i64>), Option<String>, String, Option<bool>);

/// A step in the making: a reply, and the results of its calls.
#[derive(Default)]
struct Step {
    place: (usize, Option<i64>),
    parts: Vec<Block>,
    calls: Vec<ToolCall>,
    answers: Vec<Answer>,
    usage: Option<Usage>,
}

/// A run, and those of the sub-agents that it starts, by the call.
#[derive(Default)]
pub(super) struct Wire {
    draft: Draft,
    step: Step,
    is_begun: bool,
    agents: BTreeMap<String, Wire>,
}

impl Wire {
    pub(super) fn is_empty(&self) -> bool {
        !self.is_begun
    }

    pub(super) fn read(&mut self, position: usize, time: Option<i64>, message: Message) {
        self.is_begun = true;
        let payload = message.payload.map_or_else(Payload::default, |payload| *payload);
        match message.kind.as_deref().unwrap_or("") {
            "TurnBegin" | "SteerInput" => {
                self.end_step();
                self.draft.at(position, time);
                let text = payload.user_input.unwrap_or_default().into_text(&mut self.draft.losses);
                self.draft.user(text);
            }
            "StepBegin" => {
                self.end_step();
                self.step.place = (position, time);
            }
            "ContentPart" | "TextPart" | "ThinkPart" => self.add(payload),
            "ToolCall" => {
                let call = ToolCall { id: payload.id, function: payload.function, ..ToolCall::default() };
                self.step.calls.push(call);
            }
            "ToolCallPart" => {
                let newest = self.step.calls.last_mut().and_then(|call| call.function.as_mut());
                if let (Some(function), Some(part)) = (newest, payload.arguments_part) {
                    function.arguments.get_or_insert_default().0.push_str(&part);
                }
            }
            "ToolResult" => {
                let value = payload.value.unwrap_or_default();
                let output = value.output.unwrap_or_default().into_text(&mut self.draft.losses);
                let text = if output.is_empty() { value.message.unwrap_or_default() } else { output };
                let is_error = value.is_error.and_then(|is| is.truth("is_error", &mut self.draft.losses));
                self.step.answers.push(((position, time), payload.call_id, text, is_error));
            }
            "StatusUpdate" => {
                let usage = payload.usage.and_then(KimiUsage::usage);
                self.step.usage = usage.or(self.step.usage);
            }
            "CompactionEnd" => {
                self.end_step();
                self.draft.at(position, time);
                self.draft.losses.add(EMPTY_SUMMARY);
                self.draft.compaction(String::new());
            }
            "SubagentEvent" => {
                if let (Some(call), Some(event)) = (payload.parent_call, payload.event) {
                    self.agents.entry(call).or_default().read(position, time, event);
                }
            }
            "TurnEnd" | "CompactionBegin" => {}
            kind => {
                let kind: String = kind.chars().take(40).collect();
                self.draft.losses.add(&format!("event for the screen left out: {kind}"));
            }
        }
    }

    /// A part of the reply, which goes on with the part before it if that is of the same kind.
    fn add(&mut self, payload: Payload) {
        let is_thought = payload.kind.as_deref() == Some("think");
        if let Some(last) = self.step.parts.last_mut().filter(|last| last.is_thought() == is_thought) {
            let (known, more) = match is_thought {
                true => (&mut last.thinking, payload.think),
                false => (&mut last.text, payload.text),
            };
            known.get_or_insert_default().push_str(&more.unwrap_or_default());
            return;
        }
        let Payload { kind, text, think, .. } = payload;
        self.step.parts.push(Block { kind, text, thinking: think, ..Block::default() });
    }

    fn end_step(&mut self) {
        let Step { place, parts, calls, answers, usage } = std::mem::take(&mut self.step);
        if !parts.is_empty() || !calls.is_empty() {
            self.draft.at(place.0, place.1);
            let mut reply = Reply::begin(usage, &mut self.draft);
            say(Content::Blocks(parts), &mut reply, &mut self.draft);
            for call in calls {
                reply.call(Call::of(call), &mut Vec::new(), &mut self.draft);
            }
            reply.end(&mut self.draft);
        }
        for ((position, time), id, text, is_error) in answers {
            self.draft.at(position, time);
            self.draft.result(id.as_deref(), None, text, is_error);
        }
    }

    pub(super) fn finish(mut self, about: Trajectory, other: &Trajectory, sink: &mut Sink<'_>) {
        self.end_step();
        let session = about.task_id.clone();
        self.draft.finish(about, sink);
        for (call, agent) in self.agents {
            let task_id = Some(format!("agent-{call}"));
            agent.finish(Trajectory { task_id, parent: session.clone(), ..other.clone() }, other, sink);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::logs::formats::reading::testing::{outline, read, told};

    fn line(kind: &str, payload: &str) -> String {
        format!(r#"{{"timestamp":1767225600.5,"message":{{"type":"{kind}","payload":{payload}}}}}"#)
    }

    #[test]
    fn a_wire_with_parts_and_a_sub_agent() {
        let of_agent = r#"{"parent_tool_call_id":"c1","event":{"type":"TurnBegin","payload":{"user_input":"In the task."}}}"#;
        let (runs, losses) = read(
            "kimi-cli",
            &[
                r#"{"type":"metadata","protocol_version":"1.1"}"#.to_owned(),
                line("TurnBegin", r#"{"user_input":[{"type":"text","text":"List it."}]}"#),
                line("StepBegin", r#"{"n":1}"#),
                line("ContentPart", r#"{"type":"think","think":"H"}"#),
                line("ContentPart", r#"{"type":"think","think":"m."}"#),
                line("ContentPart", r#"{"type":"text","text":"I look."}"#),
                line(
                    "ToolCall",
                    r#"{"type":"function","id":"c1","function":{"name":"Task","arguments":"{\"a\""}}"#,
                ),
                line("ToolCallPart", r#"{"arguments_part":":1}"}"#),
                line("SubagentEvent", of_agent),
                line(
                    "ToolResult",
                    r#"{"tool_call_id":"c1","return_value":{"is_error":true,"output":"","message":"no"}}"#,
                ),
                line(
                    "StatusUpdate",
                    r#"{"token_usage":{"input_other":3,"output":4,"input_cache_read":40,"input_cache_creation":7}}"#,
                ),
                line("StepBegin", r#"{"n":2}"#),
                line("ContentPart", r#"{"type":"text","text":"Done."}"#),
                line("CompactionBegin", "{}"),
                line("CompactionEnd", "{}"),
                line("ApprovalRequest", "{}"),
            ],
        );
        let t = &runs[0];
        assert_eq!(
            outline(t),
            [
                "0 0 user message List it.",
                "0 1 agent thought Hm.",
                "0 1 agent thought I look.",
                "0 1 agent action Task 1",
                "0 1 tool observation no",
                "0 2 agent message Done.",
                "1 3 user compaction ",
            ]
        );
        assert_eq!((t.steps[1].usage.as_deref().unwrap().input, t.steps[4].is_error), (50, Some(true)));
        assert_eq!(outline(&runs[1]), ["0 0 user message In the task."]);
        assert_eq!(runs[1].parent.as_deref(), Some("s"));
        assert_eq!(
            told(&losses),
            [
                "1 compaction without its summary",
                "1 event for the screen left out: ApprovalRequest",
                "1 record of the harness left out: metadata",
            ]
        );
    }
}
