//! What Claude Code prints with `--output-format stream-json`: the lines of a session in their order, without a tree.
//!
//! - Lines with a `parent_tool_use_id` are of a sub-agent, which is a run of its own.
//! - `result` tells how the run ended and what all of its prompts were counted as; its text repeats the last message.
//! - The prompt of the command line is no line, unless `--replay-user-messages` is given. Partial messages are left out.

use std::collections::HashMap;

use super::entry::{self, Entry};
use super::finish_run;
use super::line::Line;
use super::run::Run;
use crate::logs::formats::reading::draft::Losses;
use crate::logs::formats::reading::heads;
use crate::logs::formats::reading::names::repository_of;
use crate::logs::formats::reading::usage::dollars;
use crate::logs::formats::{Session, Sink};
use crate::trajectory::Trajectory;

#[derive(Default)]
pub(crate) struct Stream {
    main: Run,
    agents: Vec<(String, Run)>,
    by_call: HashMap<String, usize>,
    session: Option<String>,
    cwd: Option<String>,
    model: Option<String>,
    /// Of a session that goes on the newest sum counts those before it.
    cost: Option<f64>,
    outcome: Option<String>,
    /// What each end of a turn counted.
    sent: Vec<u64>,
    losses: Losses,
    n_lines: usize,
}

impl Session for Stream {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut line: Line = serde_json::from_slice(bytes)?;
        line.forget_empty_ids();
        self.session = self.session.take().or(line.session_id.take());
        let kind = line.kind.take().unwrap_or_default();
        match (kind.as_str(), line.subtype.as_deref()) {
            ("system", Some("init")) => {
                self.cwd = self.cwd.take().or(line.cwd);
                self.model = self.model.take().or(line.model);
            }
            ("result", _) => {
                self.sent.extend(line.usage.and_then(|usage| usage.usage()).map(|usage| usage.input));
                self.outcome = line.subtype;
                self.cost = dollars(line.cost).or(self.cost);
            }
            ("stream_event", _) => self.losses.add("part of a message left out for the whole one"),
            _ => self.read(&kind, line),
        }
        self.n_lines += 1;
        Ok(())
    }

    fn is_another(&self, bytes: &[u8]) -> bool {
        let is_other = |id| self.session.as_ref().is_some_and(|known| *known != id);
        heads::id(bytes, "system", "/session_id").is_some_and(is_other)
    }

    fn finish(self: Box<Self>, sink: &mut Sink<'_>) {
        sink.losses.merge(&self.losses);
        let is_logged = self.session.is_some();
        let session = self.session.clone().unwrap_or_else(|| sink.source.stem.clone());
        let about = Trajectory {
            repository: self.cwd.as_deref().and_then(repository_of),
            agent: Some("claude-code".to_owned()),
            ..Trajectory::default()
        };
        let main = Trajectory {
            outcome: self.outcome,
            cost: self.cost,
            // Of several it is not known whether each counts those before it.
            tokens_sent: self.sent.first().copied().filter(|_| self.sent.len() == 1),
            ..about.clone()
        }
        .of_session(self.session, &sink.source.stem);
        let mut run = self.main;
        run.model = run.model.take().or(self.model);
        finish_run(run, main, sink);
        for (call, run) in self.agents {
            let task_id = Some(format!("agent-{call}"));
            let named = is_logged.then(|| format!("{session}/agent-{call}"));
            let parent = Some(session.clone());
            finish_run(run, Trajectory { task_id, session: named, parent, ..about.clone() }, sink);
        }
    }
}

impl Stream {
    fn read(&mut self, kind: &str, mut line: Line) {
        let (position, call) = (self.n_lines, line.parent_call.take());
        let entry = Entry {
            position,
            session: None,
            is_of_conversation: true,
            time: line.timestamp.take().unwrap_or_default().time(&mut self.losses),
            uuid: line.uuid.take(),
            parent: None,
            logical_parent: None,
            is_sidechain: call.is_some(),
            agent: None,
            body: entry::read(kind, line, &mut self.losses),
        };
        let Some(call) = call else {
            return self.main.read(entry);
        };
        let at = *self.by_call.entry(call.clone()).or_insert_with(|| {
            self.agents.push((call, Run::default()));
            self.agents.len() - 1
        });
        self.agents[at].1.read(entry);
    }
}

#[cfg(test)]
mod tests {
    use crate::logs::formats::reading::testing::{outline, read, resized, told};

    fn line(kind: &str, call: &str, message: &str) -> String {
        let call = if call.is_empty() { "null".to_owned() } else { format!("\"{call}\"") };
        format!(r#"{{"type":"{kind}","message":{message},"parent_tool_use_id":{call},"session_id":"s1"}}"#)
    }

    #[test]
    fn a_stream_with_a_sub_agent_and_a_compaction() {
        let call = r#"{"id":"m1","model":"opus","role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Task","input":{"prompt":"look"}}],"usage":{"input_tokens":3,"cache_read_input_tokens":40,"cache_creation_input_tokens":7,"output_tokens":4}}"#;
        let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a.py","is_error":false}]}"#;
        let (runs, losses) = read(
            "claude-stream",
            &[
                r#"{"type":"system","subtype":"init","cwd":"/x/cli","session_id":"s1","model":"opus","tools":["Task"]}"#.to_owned(),
                line("user", "", r#"{"role":"user","content":"List it."}"#),
                r#"{"type":"stream_event","event":{"type":"message_start"},"session_id":"s1"}"#.to_owned(),
                line("assistant", "", r#"{"id":"m1","role":"assistant","content":[{"type":"text","text":"I look."}]}"#),
                line("assistant", "", call),
                line("user", "t1", r#"{"role":"user","content":[{"type":"text","text":"look"}]}"#),
                line("assistant", "t1", r#"{"id":"m2","role":"assistant","content":[{"type":"text","text":"a.py"}]}"#),
                line("user", "", result),
                r#"{"type":"system","subtype":"compact_boundary","session_id":"s1","compact_metadata":{"trigger":"auto","pre_tokens":9}}"#.to_owned(),
                line("assistant", "", r#"{"id":"m3","role":"assistant","content":[{"type":"text","text":"Done."}]}"#),
                r#"{"type":"result","subtype":"success","result":"Done.","session_id":"s1","usage":{"input_tokens":9,"cache_read_input_tokens":61,"cache_creation_input_tokens":0}}"#.to_owned(),
            ],
        );
        let t = &runs[0];
        assert_eq!(
            outline(t),
            [
                "0 0 user message List it.",
                "0 1 agent thought I look.",
                "0 1 agent action Task look",
                "0 1 tool observation a.py",
                "1 2 user compaction ",
                "1 2 agent message Done.",
            ]
        );
        assert_eq!(resized(t), [(4, Some(9), None)]);
        let usage = t.steps[1].usage.as_deref().unwrap();
        assert_eq!((usage.input, t.tokens_sent, t.outcome.as_deref()), (50, Some(70), Some("success")));
        let of = [&t.task_id, &t.repository, &t.model].map(|of| of.as_deref().unwrap());
        assert_eq!(of, ["s1", "cli", "opus"]);
        assert_eq!(outline(&runs[1]), ["0 0 user message look", "0 1 agent message a.py"]);
        assert_eq!((runs[1].task_id.as_deref(), runs[1].parent.as_deref()), (Some("agent-t1"), Some("s1")));
        assert_eq!(
            told(&losses),
            ["1 compaction without its summary", "1 part of a message left out for the whole one"]
        );
    }
}
