//! The database of the agent Hermes (`state.db`): rows of sessions and of their messages in the style of OpenAI. From its
//! tables alone: no real one was at hand.
//!
//! What was taken back (`active` 0) is left out. What a compaction replaced (`compacted` 1) was seen before it, and the
//! compaction stands behind the last of it; its summary is the message after that, if it says so.

use super::reading::chat::{Message as Chat, Messages};
use super::reading::content::ToolCalls;
use super::reading::fields::Embedded;
use super::reading::scalar::Scalar;
use super::reading::tables::Rows;
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "hermes-state",
    summary: "databases of the agent Hermes (from source only)",
    reading: Reading::Database {
        is: |tables| {
            tables.has("sessions", &["id"])
                && tables.has("messages", &["id", "session_id", "role", "content", "tool_calls", "compacted"])
        },
        rows: &[
            Rows::all("sessions", "SELECT id, rowid FROM sessions ORDER BY 1", &[]),
            Rows::all(
                "messages",
                "SELECT session_id, rowid FROM messages ORDER BY session_id, id",
                &["tool_calls"],
            ),
        ],
        read,
    },
};

record! {
    struct Run in "hermes.run" {
        sessions: List<Session> = "sessions",
        messages: List<Message> = "messages",
    }

    struct Session in "hermes.session" {
        id: String = "id",
        model: String = "model",
        parent: String = "parent_session_id",
        system: String = "system_prompt",
        outcome: String = "end_reason",
        tokens_sent: Scalar = "input_tokens",
    }

    struct Message in "hermes.message" {
        session: String = "session_id",
        role: String = "role",
        content: Content = "content",
        call: String = "tool_call_id",
        calls: Embedded<ToolCalls> = "tool_calls",
        tool: String = "tool_name",
        time: Scalar = "timestamp",
        reasoning: Content = "reasoning_content" | "reasoning",
        is_active: Scalar = "active",
        is_compacted: Scalar = "compacted",
    }
}

/// How a summary begins.
const SUMMARY: &str = "[CONTEXT COMPACTION";

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let session = run.sessions.unwrap_or_default().0.into_iter().next().unwrap_or_default();
    let messages = run.messages.unwrap_or_default().0;
    let id = session.id.or_else(|| messages.first()?.session.clone());
    let mut draft = Draft::new();
    if let Some(system) = session.system.filter(|system| !system.is_empty()) {
        draft.system(system);
    }
    let is = |flag: Option<Scalar>, n: f64| flag == Some(Scalar::Number(n));
    let last = messages.iter().rposition(|message| is(message.is_compacted, 1.0));
    let mut reader = Messages::default();
    for (i, message) in messages.into_iter().enumerate() {
        if is(message.is_active, 0.0) && !is(message.is_compacted, 1.0) {
            draft.losses.add("message taken back left out");
            continue;
        }
        let is_behind = i > 0 && last == Some(i - 1);
        let is_summary = matches!(&message.content, Some(Content::Text(text)) if text.starts_with(SUMMARY));
        if is_behind || is_summary {
            reader.end(&mut draft);
            let time = message.time.unwrap_or_default().time(&mut draft.losses);
            draft.at(i, time);
        }
        if is_summary {
            let text = message.content.unwrap_or_default().into_text(&mut draft.losses);
            draft.compaction(text);
            continue;
        }
        if is_behind {
            draft.compaction(String::new());
        }
        let chat = Chat {
            role: message.role,
            content: message.content,
            tool_calls: message.calls.map(|calls| calls.0),
            tool_call_id: message.call,
            name: message.tool,
            timestamp: message.time,
            reasoning: message.reasoning,
            ..Chat::default()
        };
        reader.read(i, chat, &mut draft);
    }
    reader.end(&mut draft);
    let about = Trajectory {
        task_id: id.clone(),
        session: id,
        parent: session.parent.filter(|parent| !parent.is_empty()),
        agent: Some("hermes".to_owned()),
        model: session.model,
        outcome: session.outcome,
        tokens_sent: session.tokens_sent.and_then(Scalar::count).filter(|n| *n > 0),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;

    #[test]
    fn rows_become_messages() {
        let run = r#"{"sessions":[{"id":"s1","model":"g","parent_session_id":"s0","system_prompt":"You help.","input_tokens":900}],"messages":[
            {"id":1,"role":"user","content":"Fix it.","timestamp":1700000000.5,"active":0,"compacted":1},
            {"id":2,"role":"assistant","reasoning_content":"hm","tool_calls":[{"id":"c1","function":{"name":"ls","arguments":"{\"p\":\"a\"}"}}],"active":0,"compacted":1},
            {"id":3,"role":"tool","content":"b","tool_call_id":"c1","tool_name":"ls","active":0,"compacted":1},
            {"id":4,"role":"user","content":"[CONTEXT COMPACTION] The summary.","active":1,"compacted":0},
            {"id":5,"role":"user","content":"gone","active":0,"compacted":0},
            {"id":6,"role":"assistant","content":"Done.","active":1,"compacted":0}]}"#;
        let source = Source::test("state.db", "hermes-state");
        let mut sink = Sink::new(&source);
        read(run.as_bytes(), &mut sink).unwrap();
        let t = &sink.trajectories[0];
        let line = |s: &crate::trajectory::Step| {
            format!("{} {} {} {}", s.turn, s.role.name(), s.kind.name(), s.text)
        };
        let outline: Vec<String> = t.steps.iter().map(line).collect();
        assert_eq!(
            outline,
            [
                "0 system system You help.",
                "0 user message Fix it.",
                "1 agent thought hm",
                "1 agent action ls\na",
                "1 tool observation b",
                "2 user compaction [CONTEXT COMPACTION] The summary.",
                "2 agent message Done.",
            ]
        );
        assert_eq!((t.tokens_sent, t.parent.as_deref()), (Some(900), Some("s0")));
        assert_eq!(sink.losses.0["message taken back left out"], 1);
    }
}
