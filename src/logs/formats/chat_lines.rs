//! Chats with one message a line: the whole file is one run, or one for each session that the lines name. Messages are read as those of [`super::openai_chat`].

use std::collections::HashMap;

use super::reading::Draft;
use super::reading::chat::{Message, Messages};
use super::{Entry, Origin, Reading, Session, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "chat-lines",
    summary: "JSONL with one chat message a line, in the OpenAI style",
    reading: Reading::Session { open: || Box::<Chat>::default(), origin: |_, _| Origin::None },
};

#[derive(Default)]
struct Chat {
    runs: Vec<Run>,
    by_session: HashMap<String, usize>,
    /// That of the newest line.
    newest: usize,
}

#[derive(Default)]
struct Run {
    draft: Draft,
    messages: Messages,
    n_lines: usize,
    session: Option<String>,
    /// The system prompt that it begins with.
    system: Option<u64>,
}

/// Keys under which a line may name its session.
const SESSION: [&str; 6] =
    ["session", "session_id", "sessionId", "conversation_id", "conversationId", "thread_id"];

impl Session for Chat {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let message: Message = serde_json::from_slice(bytes)?;
        let session =
            message.rest.0.iter().find(|(key, raw)| SESSION.contains(&key.as_str()) && raw.get() != "null");
        let session = session.map(|(_, raw)| raw.get().trim_matches('"').to_owned());
        let system = (message.role.as_deref() == Some("system")).then(|| message.digest());
        let run = self.run_of(session);
        if run.n_lines == 0 {
            run.system = system;
        } else if system.is_some() && run.system == system {
            run.draft
                .losses
                .add("system prompt that comes again: logs of several sessions may have been joined");
        }
        run.messages.read(run.n_lines, message, &mut run.draft);
        run.n_lines += 1;
        Ok(())
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink<'_>) {
        if self.runs.is_empty() {
            self.runs.push(Run::default());
        }
        let is_one = self.runs.len() == 1;
        for Run { mut draft, mut messages, session, .. } in self.runs {
            messages.end(&mut draft);
            let session = session.filter(|_| !is_one);
            draft.finish(Trajectory::default().of_session(session, &sink.source.stem), sink);
        }
    }
}

impl Chat {
    /// The run of a line: one that names no session goes on with the newest.
    fn run_of(&mut self, session: Option<String>) -> &mut Run {
        if self.runs.is_empty() {
            self.runs.push(Run::default());
        }
        if let Some(session) = session {
            // What stands before the first name is of the first session.
            let new = if self.by_session.is_empty() { 0 } else { self.runs.len() };
            self.newest = *self.by_session.entry(session.clone()).or_insert(new);
            if self.newest == self.runs.len() {
                self.runs.push(Run::default());
            }
            self.runs[self.newest].session = Some(session);
        }
        &mut self.runs[self.newest]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;

    #[test]
    fn the_lines_are_one_run() {
        let source = Source::test("d/c.jsonl", "chat-lines");
        let mut sink = Sink::new(&source);
        let mut chat = Box::<Chat>::default();
        for line in [
            r#"{"role":"user","content":"Q"}"#,
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}"#,
            r#"{"role":"tool","tool_call_id":"c","content":"r"}"#,
            r#"{"role":"assistant","content":"A"}"#,
        ] {
            chat.value(line.as_bytes()).unwrap();
        }
        chat.finish(&mut sink);
        let t = &sink.trajectories[0];
        let outline: Vec<String> = t
            .steps
            .iter()
            .map(|s| format!("{} {} {} {}", s.message, s.turn, s.kind.name(), s.text))
            .collect();
        assert_eq!(outline, ["0 0 message Q", "1 1 action f", "2 1 observation r", "3 2 message A"]);
        assert_eq!(t.task_id.as_deref(), Some("c"));
    }

    #[test]
    fn logs_that_were_joined_are_told() {
        let source = Source::test("d/c.jsonl", "chat-lines");
        let mut sink = Sink::new(&source);
        let mut chat = Box::<Chat>::default();
        for (role, text) in
            [("system", "S"), ("user", "Q"), ("system", "other"), ("system", "S"), ("user", "R")]
        {
            chat.value(format!(r#"{{"role":"{role}","content":"{text}"}}"#).as_bytes()).unwrap();
        }
        chat.finish(&mut sink);
        let told: Vec<(&str, u64)> = sink.losses.0.iter().map(|(what, n)| (what.as_str(), *n)).collect();
        assert!(matches!(told[..], [(what, 1)] if what.contains("may have been joined")), "{told:?}");
    }

    #[test]
    fn records_among_the_messages_are_no_messages() {
        let source = Source::test("d/c.jsonl", "chat-lines");
        let mut sink = Sink::new(&source);
        let mut chat = Box::<Chat>::default();
        for line in [
            r#"{"role":"_system_prompt","content":"S"}"#,
            r#"{"role":"_checkpoint","id":1}"#,
            r#"{"role":"user","content":"Q"}"#,
            r#"{"role":"_usage","token_count":{"input_tokens":12}}"#,
            r#"{"role":"assistant","content":[{"type":"think","think":"hm"},{"type":"text","text":"A"}]}"#,
        ] {
            chat.value(line.as_bytes()).unwrap();
        }
        chat.finish(&mut sink);
        let steps = &sink.trajectories[0].steps;
        let outline: Vec<String> = steps.iter().map(|s| format!("{} {}", s.kind.name(), s.text)).collect();
        assert_eq!(outline, ["system S", "message Q", "thought hm", "message A"]);
        let losses: Vec<&str> = sink.losses.0.keys().map(String::as_str).collect();
        assert_eq!(
            losses,
            ["record that is no message left out: _checkpoint", "record that is no message left out: _usage"]
        );
    }

    #[test]
    fn sessions_that_the_lines_name_are_runs() {
        let source = Source::test("d/c.jsonl", "chat-lines");
        let mut sink = Sink::new(&source);
        let mut chat = Box::<Chat>::default();
        for session in [r#""a""#, "null", r#""a""#, r#""b""#, r#""b""#] {
            let line = format!(r#"{{"role":"user","content":"Q","session":{session}}}"#);
            chat.value(line.as_bytes()).unwrap();
        }
        chat.finish(&mut sink);
        let told = |t: &Trajectory| (t.task_id.clone().unwrap(), t.is_named_by_file, t.steps.len());
        let runs: Vec<_> = sink.trajectories.iter().map(told).collect();
        assert_eq!(runs, [("a".to_owned(), false, 3), ("b".to_owned(), false, 2)]);
    }
}
