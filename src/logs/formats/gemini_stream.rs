//! What Gemini CLI prints with `--output-format stream-json`: events, one a line.
//!
//! `init` begins a run. Words of the agent come in pieces (`delta`); a `tool_use` is answered by the `tool_result` of its id.
//! `result` tells how the run ended and what all of its prompts were counted as. Usage of single calls is not printed.

use super::reading::content::{Arguments, UNKNOWN_TOOL};
use super::reading::reply::{Call, Reply};
use super::reading::scalar::Scalar;
use super::reading::{Draft, heads, record};
use super::{Entry, Origin, Reading, Session, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "gemini-stream",
    summary: "Gemini CLI output of --output-format stream-json",
    reading: Reading::Session { open: || Box::<Stream>::default(), origin: |_, _| Origin::None },
};

record! {
    struct Event in "gemini.event" {
        kind: String = "type",
        timestamp: Scalar = "timestamp",
        session: String = "session_id",
        model: String = "model",
        role: String = "role",
        content: String = "content",
        delta: Scalar = "delta",
        tool: String = "tool_name",
        id: String = "tool_id",
        parameters: Arguments = "parameters",
        status: String = "status",
        output: String = "output",
        error: Failure = "error",
        stats: Stats = "stats",
    }

    struct Failure in "gemini.event.error" { message: String = "message" }

    struct Stats in "gemini.event.stats" { input: Scalar = "input_tokens" }
}

#[derive(Default)]
struct Stream {
    draft: Draft,
    reply: Option<Reply>,
    /// Words of the reply that may go on, and where they began.
    said: Option<((usize, Option<i64>), String)>,
    session: Option<String>,
    outcome: Option<String>,
    tokens_sent: Option<u64>,
    n_events: usize,
}

impl Session for Stream {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let event: Event = serde_json::from_slice(bytes)?;
        let time = event.timestamp.unwrap_or_default().time(&mut self.draft.losses);
        self.draft.at(self.n_events, time);
        self.read(event);
        self.n_events += 1;
        Ok(())
    }

    fn is_another(&self, bytes: &[u8]) -> bool {
        let id = || heads::id(bytes, "init", "/session_id");
        self.session.as_ref().is_some_and(|known| id().is_some_and(|id| id != *known))
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink<'_>) {
        self.end();
        let about = Trajectory {
            agent: Some("gemini-cli".to_owned()),
            outcome: self.outcome,
            tokens_sent: self.tokens_sent,
            ..Trajectory::default()
        }
        .of_session(self.session, &sink.source.stem);
        self.draft.finish(about, sink);
    }
}

impl Stream {
    fn read(&mut self, event: Event) {
        let content = event.content.unwrap_or_default();
        match (event.kind.as_deref().unwrap_or(""), event.role.as_deref()) {
            ("init", _) => {
                self.session = self.session.take().or(event.session);
                event.model.iter().for_each(|model| self.draft.model(model));
            }
            ("message", Some("assistant")) => {
                if event.delta != Some(Scalar::Bool(true)) {
                    self.say();
                }
                let place = self.draft.place();
                self.said.get_or_insert_with(|| (place, String::new())).1.push_str(&content);
            }
            ("message", _) => {
                self.end();
                self.draft.user(content);
            }
            ("tool_use", _) => {
                self.say();
                let tool = event.tool.unwrap_or_else(|| UNKNOWN_TOOL.to_owned());
                let call = Call::new(event.id, tool, event.parameters.unwrap_or_default().0);
                let mut reply = self.begun();
                reply.call(call, &mut Vec::new(), &mut self.draft);
                self.reply = Some(reply);
            }
            ("tool_result", _) => {
                self.end();
                let is_error = event.status.map(|status| status == "error");
                let error = event.error.and_then(|error| error.message);
                let text = event.output.filter(|output| !output.is_empty()).or(error).unwrap_or_default();
                self.draft.result(event.id.as_deref(), None, text, is_error);
            }
            ("result", _) => {
                let sent = event.stats.and_then(|stats| stats.input).and_then(Scalar::count);
                self.tokens_sent = sent.map(|sent| sent + self.tokens_sent.unwrap_or(0)).or(self.tokens_sent);
                self.outcome = event.status;
                self.draft.losses.add_n("error of the provider left out", u64::from(event.error.is_some()));
            }
            (kind, _) => {
                let kind: String = kind.chars().take(40).collect();
                self.draft.losses.add(&format!("event for the screen left out: {kind}"));
            }
        }
    }

    fn begun(&mut self) -> Reply {
        self.reply.take().unwrap_or_else(|| Reply::begin(None, &mut self.draft))
    }

    /// Nothing comes any more of the words that came in pieces.
    fn say(&mut self) {
        let Some((place, text)) = self.said.take() else { return };
        let now = self.draft.place();
        let mut reply = self.begun();
        self.draft.at(place.0, place.1);
        reply.text(text, &self.draft);
        self.draft.at(now.0, now.1);
        self.reply = Some(reply);
    }

    fn end(&mut self) {
        self.say();
        if let Some(reply) = self.reply.take() {
            reply.end(&mut self.draft);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::reading::testing::{brief, read, told};

    #[test]
    fn calls_stand_with_their_results_and_words_come_in_pieces() {
        let (runs, losses) = read(
            "gemini-stream",
            &[
                r#"{"type":"init","timestamp":"2026-01-02T03:04:05Z","session_id":"s-1","model":"g-1"}"#,
                r#"{"type":"message","timestamp":"2026-01-02T03:04:05Z","role":"user","content":"Fix it."}"#,
                r#"{"type":"message","timestamp":"2026-01-02T03:04:06Z","role":"assistant","content":"I lo","delta":true}"#,
                r#"{"type":"message","timestamp":"2026-01-02T03:04:07Z","role":"assistant","content":"ok.","delta":true}"#,
                r#"{"type":"tool_use","tool_name":"read_file","tool_id":"r-1","parameters":{"path":"a.rs"}}"#,
                r#"{"type":"tool_use","tool_name":"run","tool_id":"r-2","parameters":{}}"#,
                r#"{"type":"tool_result","tool_id":"r-1","status":"success","output":"fn a() {}"}"#,
                r#"{"type":"tool_result","tool_id":"r-2","status":"error","output":"","error":{"type":"x","message":"no shell"}}"#,
                r#"{"type":"error","severity":"warning","message":"loop"}"#,
                r#"{"type":"message","role":"assistant","content":"Done."}"#,
                r#"{"type":"result","status":"success","stats":{"total_tokens":12,"input_tokens":9}}"#,
            ],
        );
        let run = &runs[0];
        assert_eq!(
            brief(run),
            [
                "0 message Fix it.",
                "1 thought I look.",
                "1 action read_file\na.rs",
                "1 action run",
                "1 observation fn a() {}",
                "1 observation no shell",
                "2 message Done.",
            ]
        );
        assert_eq!(run.steps[1].time, run.steps[0].time.map(|time| time + 1_000_000));
        assert_eq!((run.steps[4].is_error, run.steps[5].is_error), (Some(false), Some(true)));
        assert_eq!(run.steps[3].call_id, run.steps[5].call_id);
        let about = [&run.task_id, &run.model, &run.outcome].map(|text| text.as_deref().unwrap());
        assert_eq!((about, run.tokens_sent), (["s-1", "g-1", "success"], Some(9)));
        assert_eq!(told(&losses), ["1 event for the screen left out: error"]);
    }
}
