//! What Cursor's agent prints with `--output-format stream-json`: lines in the style of Claude Code's, but for calls.
//!
//! A `tool_call` is told when it starts and when it is completed, then with its result; calls of one reply have one
//! `model_call_id`. Thoughts come in pieces. So do words, if that was asked for: then they are told once more as a whole.

use serde_json::value::RawValue;

use super::reading::content::UNKNOWN_TOOL;
use super::reading::names::repository_of;
use super::reading::reply::{Call, Reply};
use super::reading::scalar::Scalar;
use super::reading::{Content, Draft, fields, heads, record};
use super::{Entry, Origin, Reading, Session, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "cursor-stream",
    summary: "output of Cursor's agent with --output-format stream-json",
    reading: Reading::Session { open: || Box::<Stream>::default(), origin: |_, _| Origin::None },
};

record! {
    struct Line in "cursor.event" {
        kind: String = "type",
        subtype: String = "subtype",
        session: String = "session_id",
        time: Scalar = "timestamp_ms",
        cwd: String = "cwd",
        model: String = "model",
        message: Said = "message",
        text: String = "text",
        call: String = "call_id",
        reply: String = "model_call_id",
        tool_call: ToolCall = "tool_call",
    }

    struct Said in "cursor.event.message" { content: Content = "content" }

    /// The call stands under the name of its kind.
    struct ToolCall in "cursor.event.call" { .. rest }

    struct Done in "cursor.event.tool" {
        name: String = "name",
        arguments: Box<RawValue> = "args" | "arguments",
        result: Outcome = "result",
    }

    /// What an MCP server was asked.
    struct Asked in "cursor.event.asked" {
        name: String = "toolName" | "name",
        arguments: Box<RawValue> = "args",
    }

    /// `success`, `error` or `rejected`.
    struct Outcome in "cursor.event.result" { .. rest }

    struct Success in "cursor.event.success" { content: String = "content" }
}

#[derive(Default)]
struct Stream {
    draft: Draft,
    reply: Option<Reply>,
    /// Thoughts and words of the reply that may go on.
    thought: String,
    said: String,
    /// Which calls were told, and which reply the newest one is of.
    started: Vec<String>,
    newest: Option<String>,
    session: Option<String>,
    cwd: Option<String>,
    outcome: Option<String>,
    n_lines: usize,
}

impl Session for Stream {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let line: Line = serde_json::from_slice(bytes)?;
        let time = line.time.unwrap_or_default().time(&mut self.draft.losses);
        self.draft.at(self.n_lines, time);
        self.read(line);
        self.n_lines += 1;
        Ok(())
    }

    fn is_another(&self, bytes: &[u8]) -> bool {
        let id = || heads::id(bytes, "system", "/session_id");
        self.session.as_ref().is_some_and(|known| id().is_some_and(|id| id != *known))
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink<'_>) {
        self.end();
        let about = Trajectory {
            repository: self.cwd.as_deref().and_then(repository_of),
            agent: Some("cursor".to_owned()),
            outcome: self.outcome,
            ..Trajectory::default()
        }
        .of_session(self.session, &sink.source.stem);
        self.draft.finish(about, sink);
    }
}

impl Stream {
    fn read(&mut self, line: Line) {
        self.session = self.session.take().or(line.session);
        let said = line.message.and_then(|message| message.content);
        let said = said.map_or(String::new(), |content| content.into_text(&mut self.draft.losses));
        match (line.kind.as_deref().unwrap_or(""), line.subtype.as_deref()) {
            ("system", _) => {
                self.cwd = self.cwd.take().or(line.cwd);
                line.model.iter().for_each(|model| self.draft.model(model));
            }
            ("user", _) => {
                self.end();
                self.draft.user(said);
            }
            // The whole of what came in pieces.
            ("assistant", _) if said == self.said => {}
            ("assistant", _) => self.said += &said,
            ("thinking", _) => self.thought += line.text.as_deref().unwrap_or(""),
            ("tool_call", subtype) => {
                let (tool, done) = line.tool_call.unwrap_or_default().into_tool();
                self.call(line.call, line.reply, tool, done, subtype == Some("completed"));
            }
            ("result", _) => self.outcome = line.subtype,
            (kind, _) => {
                let kind: String = kind.chars().take(40).collect();
                self.draft.losses.add(&format!("event for the screen left out: {kind}"));
            }
        }
    }

    fn call(&mut self, id: Option<String>, of: Option<String>, tool: String, done: Done, is_done: bool) {
        if !id.as_ref().is_some_and(|id| self.started.contains(id)) {
            let is_of_newest = self.reply.is_none() && of.is_some() && of == self.newest;
            if is_of_newest && self.said.is_empty() && self.thought.is_empty() {
                self.reply = Some(Reply::resume());
            }
            self.say();
            let arguments = done.arguments.as_ref().map_or(String::new(), |raw| fields::words_of(raw.get()));
            let mut reply = self.begun();
            reply.call(Call::new(id.clone(), tool, arguments), &mut Vec::new(), &mut self.draft);
            self.reply = Some(reply);
            self.newest = of;
            self.started.extend(id.clone());
        }
        if is_done {
            self.end();
            let result =
                done.result.unwrap_or_default().rest.0.into_iter().find(|(_, raw)| raw.get() != "null");
            let (kind, text) = result.map_or((String::new(), String::new()), |(kind, raw)| {
                let success =
                    serde_json::from_str::<Success>(raw.get()).ok().and_then(|success| success.content);
                (kind, success.unwrap_or_else(|| fields::words_of(raw.get())))
            });
            let is_error = ["error", "rejected", "failure"].contains(&kind.as_str());
            self.draft.result(id.as_deref(), None, text, Some(is_error));
        }
    }

    fn begun(&mut self) -> Reply {
        self.reply.take().unwrap_or_else(|| Reply::begin(None, &mut self.draft))
    }

    /// Nothing comes any more of what came in pieces.
    fn say(&mut self) {
        let (thought, said) = (std::mem::take(&mut self.thought), std::mem::take(&mut self.said));
        if thought.is_empty() && said.is_empty() {
            return;
        }
        let mut reply = self.begun();
        if !thought.is_empty() {
            reply.thought(thought, &self.draft);
        }
        if !said.is_empty() {
            reply.text(said, &self.draft);
        }
        self.reply = Some(reply);
    }

    fn end(&mut self) {
        self.say();
        if let Some(reply) = self.reply.take() {
            reply.end(&mut self.draft);
        }
    }
}

impl ToolCall {
    /// The name of the tool, and what was asked and came back.
    fn into_tool(self) -> (String, Done) {
        let fields = self.rest.0.into_iter();
        let found = fields
            .filter(|(_, raw)| raw.get().starts_with('{'))
            .find_map(|(kind, raw)| Some((kind, serde_json::from_str::<Done>(raw.get()).ok()?)));
        let (kind, mut done) = found.unwrap_or_default();
        let asked = done.arguments.as_ref().and_then(|raw| serde_json::from_str::<Asked>(raw.get()).ok());
        let tool = match (kind.as_str(), asked) {
            ("mcpToolCall", Some(Asked { name: Some(name), arguments })) => {
                done.arguments = arguments;
                name
            }
            _ => done.name.take().unwrap_or_else(|| kind.trim_end_matches("ToolCall").to_owned()),
        };
        (if tool.is_empty() { UNKNOWN_TOOL.to_owned() } else { tool }, done)
    }
}

#[cfg(test)]
mod tests {
    use super::super::reading::testing::{brief, read};

    #[test]
    fn calls_stand_with_their_results_and_pieces_are_one() {
        let (runs, _) = read(
            "cursor-stream",
            &[
                r#"{"type":"system","subtype":"init","cwd":"/w/app","session_id":"s-1","model":"m-1"}"#,
                r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"Fix it."}]},"session_id":"s-1"}"#,
                r#"{"type":"thinking","subtype":"delta","text":"H","session_id":"s-1"}"#,
                r#"{"type":"thinking","subtype":"delta","text":"m.","session_id":"s-1"}"#,
                r#"{"type":"thinking","subtype":"completed","session_id":"s-1"}"#,
                r#"{"type":"assistant","timestamp_ms":1,"message":{"role":"assistant","content":[{"type":"text","text":"I lo"}]},"session_id":"s-1"}"#,
                r#"{"type":"assistant","timestamp_ms":2,"message":{"role":"assistant","content":[{"type":"text","text":"ok."}]},"session_id":"s-1"}"#,
                r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I look."}]},"session_id":"s-1"}"#,
                r#"{"type":"tool_call","subtype":"started","call_id":"c1","tool_call":{"readToolCall":{"args":{"path":"a.rs"}}},"model_call_id":"r1","session_id":"s-1"}"#,
                r#"{"type":"tool_call","subtype":"completed","call_id":"c1","tool_call":{"readToolCall":{"args":{"path":"a.rs"},"result":{"success":{"content":"fn a","totalLines":1}}}},"model_call_id":"r1","session_id":"s-1"}"#,
                r#"{"type":"tool_call","subtype":"completed","call_id":"c2","tool_call":{"mcpToolCall":{"args":{"name":"x-ask","toolName":"ask","args":{"q":1}},"result":{"rejected":{"reason":"no"}}}},"model_call_id":"r1","session_id":"s-1"}"#,
                r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"Done."}]},"session_id":"s-1"}"#,
                r#"{"type":"result","subtype":"success","is_error":false,"result":"I look.Done.","session_id":"s-1"}"#,
            ],
        );
        let run = &runs[0];
        assert_eq!(
            brief(run),
            [
                "0 message Fix it.",
                "1 thought Hm.",
                "1 thought I look.",
                "1 action read\na.rs",
                "1 observation fn a",
                "1 action ask\n1",
                r#"1 observation {"reason":"no"}"#,
                "2 message Done.",
            ]
        );
        assert_eq!((run.steps[4].is_error, run.steps[6].is_error), (Some(false), Some(true)));
        let about =
            [&run.task_id, &run.repository, &run.model, &run.outcome].map(|text| text.as_deref().unwrap());
        assert_eq!(about, ["s-1", "app", "m-1", "success"]);
    }
}
