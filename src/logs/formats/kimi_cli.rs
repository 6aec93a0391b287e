//! Sessions of kimi-cli (Python): `context.jsonl`, the context itself with one chat message a line, and `wire.jsonl`, the
//! stream for the screen ([`wire`]).
//!
//! - Records among the messages: `_system_prompt`; `_usage` before a reply counts its prompt, behind it the prompt with the
//!   reply; `_checkpoint` says nothing.
//! - A compaction and a rewind move the file away and begin it anew, so the beginning of a session may be missing: a first
//!   message that tells of a compaction is its text.
//! - Texts in `<system>` are the harness's.

mod wire;

use serde_json::value::RawValue;

use super::reading::chat::{Message, Messages};
use super::reading::draft::enclosed;
use super::reading::scalar::Scalar;
use super::reading::usage::LoggedUsage;
use super::reading::{Content, Draft, record};
use super::{Entry, Origin, Reading, Session, Sink};
use crate::trajectory::{Trajectory, Usage};

pub(super) const ENTRY: Entry = Entry {
    name: "kimi-cli",
    summary: "kimi-cli contexts and wires",
    reading: Reading::Session { open: || Box::<Kimi>::default(), origin: |_, _| Origin::None },
};

record! {
    /// What tells the lines of both files apart.
    struct Line in "kimi-cli" {
        role: String = "role",
        kind: String = "type",
        token_count: Box<RawValue> = "token_count",
        timestamp: Scalar = "timestamp",
        message: wire::Message = "message",
        .. rest
    }
}

/// How a message begins that holds the summary of a compaction.
const COMPACTED: &str = "<system>Previous context has been compacted.";

#[derive(Default)]
struct Kimi {
    draft: Draft,
    messages: Messages,
    /// Tokens of the prompt of the reply that comes next, and whether it came.
    prompt: Option<(u64, bool)>,
    wire: wire::Wire,
    n_lines: usize,
}

impl Session for Kimi {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let line: Line = serde_json::from_slice(bytes)?;
        let position = self.n_lines;
        match (line.role.as_deref(), line.message) {
            (Some("_usage"), _) => self.count(line.token_count.as_deref()),
            (Some(role), _) => self.read(position, &role.to_owned(), serde_json::from_slice(bytes)?),
            (None, Some(message)) => {
                let time = line.timestamp.unwrap_or_default().time(&mut self.draft.losses);
                self.wire.read(position, time, message);
            }
            (None, None) => {
                let kind: String = line.kind.unwrap_or_default().chars().take(40).collect();
                self.draft.losses.add(&format!("record of the harness left out: {kind}"));
            }
        }
        self.n_lines += 1;
        Ok(())
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink<'_>) {
        self.messages.end(&mut self.draft);
        let session = sink.source.stem.clone();
        let about = Trajectory { agent: Some("kimi-cli".to_owned()), ..Trajectory::default() };
        let main = Trajectory { task_id: Some(session.clone()), is_named_by_file: true, ..about.clone() };
        if !self.wire.is_empty() {
            sink.losses.merge(&self.draft.losses);
            return self.wire.finish(main, &about, sink);
        }
        self.draft.finish(main, sink);
    }
}

impl Kimi {
    fn count(&mut self, count: Option<&RawValue>) {
        // Older versions write the parts.
        let of = |raw: &RawValue| match raw.get().starts_with('{') {
            true => Some(serde_json::from_str::<LoggedUsage>(raw.get()).ok()?.usage()?.input),
            false => serde_json::from_str::<Scalar>(raw.get()).ok()?.count(),
        };
        let Some(n) = count.and_then(of).filter(|n| *n > 0) else {
            return self.draft.losses.add("usage with a count that is none");
        };
        match self.prompt {
            Some((input, true)) if n >= input => {
                self.draft.usage(Some(Usage { input, output: Some(n - input), ..Usage::default() }));
                self.prompt = None;
            }
            _ => self.prompt = Some((n, false)),
        }
    }

    fn read(&mut self, position: usize, role: &str, message: Message) {
        if role == "user" {
            self.prompt = None;
            self.messages.give_way(&message, false, &mut self.draft);
            self.draft.at(position, None);
            return self.say(message.content.unwrap_or_default());
        }
        self.messages.read(position, message, &mut self.draft);
        self.prompt = match self.prompt.take() {
            Some((input, false)) if role == "assistant" => {
                self.draft.usage(Some(Usage { input, ..Usage::default() }));
                Some((input, true))
            }
            // Records that are no messages stand anywhere.
            prompt => prompt.filter(|_| role.starts_with('_')),
        };
    }

    /// A message in the name of the user.
    fn say(&mut self, content: Content) {
        let text = content.into_text(&mut self.draft.losses);
        let is_whole = enclosed(&text).is_some_and(|(tag, length)| tag == "system" && length == text.len());
        if text.starts_with(COMPACTED) {
            self.draft.compaction(text);
        } else if is_whole {
            self.draft.notice(text);
        } else {
            self.draft.user_or_harness(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::logs::formats::reading::testing::{outline, read, told};

    #[test]
    fn a_context() {
        let call = r#"{"role":"assistant","content":[{"type":"think","think":"Hm."},{"type":"text","text":"I look."}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"Shell","arguments":"{\"command\":\"ls\"}"}}]}"#;
        let (runs, losses) = read(
            "kimi-cli",
            &[
                r#"{"role":"_system_prompt","content":"Be brief."}"#,
                r#"{"role":"_checkpoint","id":0}"#,
                r#"{"role":"user","content":[{"type":"text","text":"<system>CHECKPOINT 0</system>"}]}"#,
                r#"{"role":"user","content":"List it."}"#,
                r#"{"role":"_usage","token_count":50}"#,
                call,
                r#"{"role":"_usage","token_count":54}"#,
                r#"{"role":"tool","tool_call_id":"c1","content":"a.py"}"#,
                r#"{"role":"_usage","token_count":{"input_tokens":60,"output_tokens":0}}"#,
                r#"{"role":"assistant","content":"Done."}"#,
            ],
        );
        let t = &runs[0];
        assert_eq!(
            outline(t),
            [
                "0 0 system system Be brief.",
                "0 0 system message <system>CHECKPOINT 0</system>",
                "0 0 user message List it.",
                "0 1 agent thought Hm.",
                "0 1 agent thought I look.",
                "0 1 agent action Shell ls",
                "0 1 tool observation a.py",
                "0 2 agent message Done.",
            ]
        );
        let usages: Vec<_> =
            t.steps.iter().filter_map(|s| s.usage.as_ref().map(|u| (u.input, u.output))).collect();
        assert_eq!(usages, [(50, Some(4)), (60, None)]);
        assert_eq!(told(&losses), ["1 record that is no message left out: _checkpoint"]);
    }

    #[test]
    fn a_context_after_a_compaction_begins_with_its_text() {
        let text = "<system>Previous context has been compacted. Here is the output:</system>\\nS";
        let (runs, _) = read("kimi-cli", &[format!(r#"{{"role":"user","content":"{text}"}}"#)]);
        assert_eq!(outline(&runs[0])[0][..20], *"1 1 user compaction ");
    }
}
