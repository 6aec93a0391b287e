//! Sessions of Factory's Droid: JSONL of messages in the style of Anthropic, and the output of `droid exec` as a stream.
//!
//! `parentId` tells what was lived: a message of the user with the parent of an earlier one leaves the branch of that. A
//! line `compaction_state` holds the text that took the place of the past. Todo states repeat the calls that made
//! them, and are left out and counted, as are other records without words. `<id>.settings.json` beside a session has its
//! model, and the tokens of all its calls together.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use super::reading::chat::{self, Messages};
use super::reading::content::Block;
use super::reading::draft::enclosed;
use super::reading::names::repository_of;
use super::reading::reply::Call;
use super::reading::scalar::Scalar;
use super::reading::{Content, Draft, fields, heads, record};
use super::{Entry, Origin, Reading, Session, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "factory-droid",
    summary: "sessions of Factory's Droid, and its stream of JSON",
    reading: Reading::Sessions { open: || Box::<Droid>::default(), origin: |_, _| Origin::None, together },
};

/// Sessions, each with its file of settings.
fn together(names: &[&str]) -> Vec<Vec<usize>> {
    let mut settings: HashMap<&str, usize> = HashMap::new();
    for (file, name) in names.iter().enumerate() {
        settings.extend(unpacked(name).strip_suffix(".settings.json").map(|id| (id, file)));
    }
    let session = |(file, name): (usize, &&str)| {
        let id = unpacked(name).strip_suffix(".jsonl")?;
        Some(vec![file, *settings.get(id)?])
    };
    names.iter().enumerate().filter_map(session).collect()
}

fn unpacked(name: &str) -> &str {
    name.trim_end_matches(".gz").trim_end_matches(".zst")
}

record! {
    struct Line in "droid" {
        kind: String = "type",
        id: String = "id",
        parent: String = "parentId",
        call_id: String = "toolCallId",
        session: String = "session_id" | "sessionId",
        parent_session: String = "parentSessionId" | "callingSessionId",
        cwd: String = "cwd",
        model: String = "model",
        timestamp: Scalar = "timestamp",
        message: Box<chat::Message> = "message",
        role: String = "role",
        text: String = "text" | "finalText",
        tool: String = "toolName" | "toolId",
        parameters: Box<RawValue> = "parameters",
        value: Box<RawValue> = "value",
        is_error: Scalar = "isError",
        summary: String = "summaryText" | "summary",
        usage: Tokens = "tokenUsage",
    }

    /// What was counted for all calls of the session.
    struct Tokens in "droid.tokens" {
        input: Scalar = "inputTokens",
        cache_read: Scalar = "cacheReadTokens",
        cache_write: Scalar = "cacheCreationTokens",
    }
}

#[derive(Default)]
struct Droid {
    lines: Vec<Line>,
    draft: Draft,
    messages: Messages,
    /// The line that is read.
    place: usize,
    session: Option<String>,
    parent: Option<String>,
    cwd: Option<String>,
    model: Option<String>,
    tokens_sent: Option<u64>,
    /// What a stream said last.
    newest: String,
}

impl Session for Droid {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.lines.push(serde_json::from_slice(bytes)?);
        Ok(())
    }

    fn is_another(&self, bytes: &[u8]) -> bool {
        let id =
            heads::id(bytes, "session_start", "/id").or_else(|| heads::id(bytes, "system", "/session_id"));
        let of = |line: &Line| match line.kind.as_deref() {
            Some("session_start") => line.id.clone(),
            _ => line.session.clone(),
        };
        id.is_some_and(|id| self.lines.iter().find_map(of).is_some_and(|known| known != id))
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink<'_>) {
        let lines = std::mem::take(&mut self.lines);
        let abandoned = abandoned(&lines);
        for (place, line) in lines.into_iter().enumerate() {
            self.place = place;
            match abandoned.contains(&place) {
                true => self.draft.losses.add("line of an abandoned branch left out"),
                false => self.read(line),
            }
        }
        self.messages.end(&mut self.draft);
        let about = Trajectory {
            parent: self.parent,
            repository: self.cwd.as_deref().and_then(repository_of),
            agent: Some("factory-droid".to_owned()),
            model: self.model,
            tokens_sent: self.tokens_sent,
            ..Trajectory::default()
        }
        .of_session(self.session, &sink.source.stem);
        self.draft.finish(about, sink);
    }
}

impl Droid {
    fn read(&mut self, mut line: Line) {
        let kind = line.kind.take().unwrap_or_default();
        self.cwd = self.cwd.take().or(line.cwd.take());
        self.model = self.model.take().or(line.model.take());
        self.parent = self.parent.take().or(line.parent_session.take());
        let session = if kind == "session_start" { line.id.clone() } else { line.session.take() };
        self.session = self.session.take().or(session);
        let time = line.timestamp.take();
        if let Some(tokens) = line.usage.take() {
            let counts = [tokens.input, tokens.cache_read, tokens.cache_write];
            let sent = counts.into_iter().flatten().filter_map(Scalar::count).sum();
            self.tokens_sent = Some(sent).filter(|sent| *sent > 0);
            return;
        }
        match kind.as_str() {
            "session_start" | "system" => {}
            "message" => {
                let said = match line.message.take() {
                    Some(said) => *said,
                    None => chat::Message {
                        role: line.role,
                        content: line.text.map(Content::Text),
                        ..chat::Message::default()
                    },
                };
                self.say(said, time);
            }
            "tool_call" | "tool_result" | "completion" => self.read_streamed(&kind, line, time),
            "compaction_state" => {
                self.messages.end(&mut self.draft);
                self.at(time);
                self.draft.losses.add_n("compaction without its summary", u64::from(line.summary.is_none()));
                self.draft.compaction(line.summary.unwrap_or_default());
            }
            kind => {
                let name: String = kind.chars().take(40).collect();
                self.draft.losses.add(&format!("record that is no message left out: {name}"));
            }
        }
    }

    fn at(&mut self, time: Option<Scalar>) {
        let time = time.and_then(|time| time.time(&mut self.draft.losses));
        self.draft.at(self.place, time);
    }

    /// A message; texts that the harness put beside the user's are notices.
    fn say(&mut self, mut said: chat::Message, time: Option<Scalar>) {
        if said.role.as_deref() == Some("user")
            && let Some(Content::Blocks(blocks)) = &mut said.content
        {
            let own = |block: &Block| block.text.as_deref().is_some_and(is_reminder);
            for block in blocks.extract_if(.., |block| own(block)) {
                self.messages.end(&mut self.draft);
                self.at(time);
                self.draft.notice(block.text.unwrap_or_default());
            }
            if blocks.is_empty() {
                return;
            }
        }
        if let Some(Content::Text(text)) = &said.content {
            self.newest = text.clone();
        }
        said.timestamp = said.timestamp.or(time);
        self.messages.read(self.place, said, &mut self.draft);
    }

    fn read_streamed(&mut self, kind: &str, line: Line, time: Option<Scalar>) {
        let id = line.call_id.or(line.id);
        let words = |raw: &RawValue| fields::words_of(raw.get());
        match kind {
            "tool_call" => {
                let arguments = line.parameters.map_or(String::new(), |raw| raw.get().to_owned());
                let call = Call::new(id, line.tool.unwrap_or_default(), arguments);
                let said = chat::Message::of_call(call, time);
                self.messages.read(self.place, said, &mut self.draft);
            }
            "tool_result" => {
                self.messages.end(&mut self.draft);
                self.at(time);
                let is_error = line.is_error.and_then(|is| is.truth("isError", &mut self.draft.losses));
                let text = line.value.as_deref().map_or(String::new(), words);
                self.draft.result(id.as_deref(), None, text, is_error);
            }
            // The end of a stream repeats what was said last.
            _ => {
                if let Some(text) = line.text.filter(|text| text.trim() != self.newest.trim()) {
                    let role = Some("assistant".to_owned());
                    self.say(
                        chat::Message { role, content: Some(Content::Text(text)), ..Default::default() },
                        time,
                    );
                }
            }
        }
    }
}

/// Lines of branches that were left: of several messages of the user with one parent the last one was lived.
fn abandoned(lines: &[Line]) -> HashSet<usize> {
    let is_typed = |line: &Line| {
        let message = line.message.as_ref().filter(|message| message.role.as_deref() == Some("user"));
        message.is_some_and(|message| !message.has_answers())
    };
    let mut newest: HashMap<&str, usize> = HashMap::new();
    for (i, line) in lines.iter().enumerate().filter(|(_, line)| is_typed(line)) {
        if let Some(parent) = line.parent.as_deref() {
            newest.insert(parent, i);
        }
    }
    let (mut left, mut ids) = (HashSet::new(), HashSet::new());
    for (i, line) in lines.iter().enumerate() {
        let Some(parent) = line.parent.as_deref() else {
            continue;
        };
        let is_older = is_typed(line) && newest.get(parent).is_some_and(|newest| *newest > i);
        if is_older || ids.contains(parent) {
            left.insert(i);
            ids.extend(line.id.as_deref());
        }
    }
    left
}

fn is_reminder(text: &str) -> bool {
    enclosed(text.trim()).is_some_and(|(tag, end)| tag == "system-reminder" && end == text.trim().len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::draft::Losses;

    fn run(lines: &[&str]) -> (Trajectory, Losses) {
        let source = Source::test("sessions/s.jsonl", "factory-droid");
        let mut sink = Sink::new(&source);
        let mut droid = Box::<Droid>::default();
        lines.iter().for_each(|line| droid.value(line.as_bytes()).unwrap());
        droid.finish(&mut sink);
        (sink.trajectories.remove(0), sink.losses)
    }

    fn outline(t: &Trajectory) -> Vec<String> {
        t.steps
            .iter()
            .map(|s| format!("{} {} {} {} {}", s.segment, s.turn, s.role.name(), s.kind.name(), s.text))
            .collect()
    }

    #[test]
    fn a_session_is_a_run() {
        let (t, losses) = run(&[
            r#"{"type":"session_start","id":"s-1","title":"T","version":2,"cwd":"/home/me/tool"}"#,
            r#"{"type":"message","id":"1","timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":[{"type":"text","text":"<system-reminder>Be brief.</system-reminder>"},{"type":"text","text":"Fix it"}]}}"#,
            r#"{"type":"message","id":"2","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"tool_use","id":"c","name":"Read","input":{"file_path":"/a"}}]}}"#,
            r#"{"type":"todo_state","id":"3","todos":{"todos":"1. x"},"messageIndex":1}"#,
            r#"{"type":"message","id":"4","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}}"#,
            r#"{"type":"compaction_state","id":"5","summaryText":"So far."}"#,
            r#"{"type":"message","id":"6","message":{"role":"assistant","content":[{"type":"text","text":"Done."}]}}"#,
        ]);
        assert_eq!(
            outline(&t),
            [
                "0 0 system message <system-reminder>Be brief.</system-reminder>",
                "0 0 user message Fix it",
                "0 1 agent thought hm",
                "0 1 agent action Read\n/a",
                "0 1 tool observation x",
                "1 2 user compaction So far.",
                "1 2 agent message Done.",
            ]
        );
        assert_eq!((t.task_id.as_deref(), t.repository.as_deref()), (Some("s-1"), Some("tool")));
        assert_eq!(losses.0["record that is no message left out: todo_state"], 1);
    }

    /// The file of settings lies behind the session, wherever its name stands in the order.
    #[test]
    fn settings_beside_a_session_tell_its_model_and_tokens() {
        let names =
            ["a.jsonl", "a.settings.json", "b.jsonl", "d/c.settings.json", "d/c.jsonl.gz", "e.settings.json"];
        assert_eq!(together(&names), [vec![0, 1], vec![4, 3]]);
        let (t, losses) = run(&[
            r#"{"type":"session_start","id":"s-1"}"#,
            r#"{"type":"message","id":"1","message":{"role":"user","content":"Q"}}"#,
            r#"{"assistantActiveTimeMs":3,"model":"custom:m","autonomyMode":"auto-low","tokenUsage":{"inputTokens":70,"outputTokens":9,"cacheCreationTokens":5,"cacheReadTokens":400,"thinkingTokens":2}}"#,
        ]);
        assert_eq!((t.model.as_deref(), t.tokens_sent), (Some("custom:m"), Some(475)));
        assert_eq!((t.steps.len(), losses), (1, Losses::default()));
    }

    #[test]
    fn a_branch_that_was_left_is_left_out() {
        let line = |id: &str, parent: &str, role: &str, text: &str| {
            format!(
                r#"{{"type":"message","id":"{id}","parentId":"{parent}","message":{{"role":"{role}","content":[{{"type":"text","text":"{text}"}}]}}}}"#
            )
        };
        let lines = [
            r#"{"type":"session_start","id":"s"}"#.to_owned(),
            line("1", "s", "user", "Q"),
            line("2", "1", "assistant", "A"),
            line("3", "2", "user", "left"),
            line("4", "3", "assistant", "left too"),
            line("5", "2", "user", "lived"),
            line("6", "5", "assistant", "B"),
        ];
        let (t, losses) = run(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let texts: Vec<&str> = t.steps.iter().map(|s| s.text.as_str()).collect();
        assert_eq!(texts, ["Q", "A", "lived", "B"]);
        assert_eq!(losses.0["line of an abandoned branch left out"], 2);
    }

    #[test]
    fn a_stream_is_a_run() {
        let (t, losses) = run(&[
            r#"{"type":"system","subtype":"init","cwd":"/w/tool","session_id":"s-2","tools":["LS"],"model":"m-1"}"#,
            r#"{"type":"message","role":"user","id":"1","text":"List","session_id":"s-2"}"#,
            r#"{"type":"message","role":"assistant","id":"2","text":"I list.","session_id":"s-2"}"#,
            r#"{"type":"tool_call","id":"c1","messageId":"2","toolId":"LS","toolName":"LS","parameters":{"path":"/w"},"session_id":"s-2"}"#,
            r#"{"type":"tool_result","id":"c1","toolId":"LS","isError":false,"value":"a\nb","session_id":"s-2"}"#,
            r#"{"type":"message","role":"assistant","id":"3","text":"Two files.","session_id":"s-2"}"#,
            r#"{"type":"completion","finalText":"Two files.","numTurns":2,"session_id":"s-2"}"#,
        ]);
        assert_eq!(
            outline(&t),
            [
                "0 0 user message List",
                "0 1 agent thought I list.",
                "0 1 agent action LS\n/w",
                "0 1 tool observation a\nb",
                "0 2 agent message Two files.",
            ]
        );
        assert_eq!((t.task_id.as_deref(), t.model.as_deref()), (Some("s-2"), Some("m-1")));
        assert_eq!(losses, Losses::default());
    }
}
