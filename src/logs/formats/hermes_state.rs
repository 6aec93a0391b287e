//! The database of the agent Hermes (`state.db`): rows of sessions and of their messages in the style of OpenAI. From its
//! tables alone: no real one was at hand.
//!
//! What was taken back (`active` 0) is left out. What a compaction replaced (`compacted` 1) was seen before it, and the
//! compaction stands behind the last of it. Its summary comes next, if it says so, and copies of what it kept.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::reading::chat::{Message as Chat, Messages};
use super::reading::content::ToolCalls;
use super::reading::fields::Embedded;
use super::reading::scalar::Scalar;
use super::reading::tables::Rows;
use super::reading::{Content, Draft, List, record};
use super::{Entry as Format, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Format = Format {
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

/// A row that was not taken back.
struct Row {
    /// Its number among all of the session.
    place: usize,
    is_compacted: bool,
    /// Where it stands for the first time, if it is a copy: a compaction writes what it keeps anew behind what it replaced.
    copy_of: Option<usize>,
    chat: Chat,
}

impl Row {
    fn is_summary(&self) -> bool {
        let Some(Content::Text(text)) = &self.chat.content else { return false };
        let mark = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(mark, _)| mark);
        mark.is_some_and(|mark| ["COMPACTION", "SUMMARY"].iter().any(|word| mark.contains(word)))
    }
}

/// The rows that were not taken back, with what is a copy of which.
fn rows(messages: Vec<Message>, draft: &mut Draft) -> Vec<Row> {
    let is = |flag: Option<Scalar>, n: f64| flag == Some(Scalar::Number(n));
    let (mut rows, mut known) = (Vec::new(), HashMap::new());
    for (place, message) in messages.into_iter().enumerate() {
        let is_compacted = is(message.is_compacted, 1.0);
        if is(message.is_active, 0.0) && !is_compacted {
            draft.losses.add("message taken back left out");
            continue;
        }
        let time = match message.time {
            Some(Scalar::Number(time)) => Some(time.to_bits()),
            _ => None,
        };
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
        let key = time.map(|time| (time, chat.tool_call_id.clone(), chat.digest()));
        let copy_of = key.and_then(|key| match known.entry(key) {
            Entry::Occupied(original) => Some(*original.get()),
            Entry::Vacant(new) => {
                new.insert(place);
                None
            }
        });
        rows.push(Row { place, is_compacted, copy_of, chat });
    }
    rows
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let session = run.sessions.unwrap_or_default().0.into_iter().next().unwrap_or_default();
    let messages = run.messages.unwrap_or_default().0;
    let id = session.id.or_else(|| messages.first()?.session.clone());
    let mut draft = Draft::new();
    if let Some(system) = session.system.filter(|system| !system.is_empty()) {
        draft.system(system);
    }
    let rows = rows(messages, &mut draft);
    let last = rows.iter().rposition(|row| row.is_compacted);
    let mut reader = Messages::default();
    let mut rows = rows.into_iter().enumerate().peekable();
    // What stands before what was kept is the summary, whatever it says.
    let is_kept = |next: Option<&(usize, Row)>| next.is_some_and(|(_, row)| row.copy_of.is_some());
    while let Some((i, row)) = rows.next() {
        let is_behind = i > 0 && last == Some(i - 1);
        if !is_behind && !row.is_summary() && row.copy_of.is_none() {
            reader.read(row.place, row.chat, &mut draft);
            continue;
        }
        reader.end(&mut draft);
        let (place, time) = (row.place, row.chat.timestamp.unwrap_or_default());
        let (mut summary, mut first) = (None, Some(row));
        while let Some(row) = first.take().or_else(|| {
            let is_of_it =
                |(_, row): &(usize, Row)| row.copy_of.is_some() || summary.is_none() && row.is_summary();
            rows.next_if(is_of_it).map(|(_, row)| row)
        }) {
            match row.copy_of {
                Some(original) => draft.keep_message(original),
                None if summary.is_none() && (row.is_summary() || is_kept(rows.peek())) => {
                    summary = row.chat.content;
                }
                None => {
                    first = Some(row);
                    break;
                }
            }
        }
        let time = time.time(&mut draft.losses);
        draft.at(place, time);
        let text = summary.unwrap_or_default().into_text(&mut draft.losses);
        draft.compaction(text);
        if let Some(row) = first {
            reader.read(row.place, row.chat, &mut draft);
        }
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
    /// A compaction writes its summary and what it kept behind the rows that it replaced; one taken back may stand between.
    #[test]
    fn what_a_compaction_kept_counts_once() {
        let row = |time: u32, role: &str, text: &str, active: u8, compacted: u8| {
            format!(
                r#"{{"role":"{role}","content":"{text}","timestamp":{time}.5,"active":{active},"compacted":{compacted}}}"#
            )
        };
        let rows = [
            row(1, "user", "Q", 0, 1),
            row(2, "assistant", "a", 0, 1),
            row(3, "user", "go on", 0, 1),
            row(4, "assistant", "b", 0, 1),
            row(5, "user", "gone", 0, 0),
            row(6, "user", "[CONTEXT SUMMARY]: we did", 0, 1),
            row(3, "user", "go on", 0, 1),
            row(4, "assistant", "b", 0, 1),
            row(7, "user", "more", 0, 1),
            row(8, "assistant", "c", 0, 1),
            row(9, "user", "gone", 0, 0),
            row(10, "user", "[SUMMARY] again", 1, 0),
            row(8, "assistant", "c", 1, 0),
            row(11, "user", "[x] last", 1, 0),
            row(12, "assistant", "d", 1, 0),
        ];
        let run = format!(r#"{{"sessions":[{{"id":"s"}}],"messages":[{}]}}"#, rows.join(","));
        let source = Source::test("state.db", "hermes-state");
        let mut sink = Sink::new(&source);
        read(run.as_bytes(), &mut sink).unwrap();
        let line = |s: &crate::trajectory::Step| {
            let kept = s.kept_to.map_or(String::new(), |to| format!(" to {to}"));
            format!("{} {} {}{kept}", s.segment, s.kind.name(), s.text)
        };
        let outline: Vec<String> = sink.trajectories[0].steps.iter().map(line).collect();
        assert_eq!(
            outline,
            [
                "0 message Q",
                "0 message a",
                "0 message go on to 1",
                "0 message b to 1",
                "1 compaction [CONTEXT SUMMARY]: we did",
                "1 message more",
                "1 message c to 2",
                "2 compaction [SUMMARY] again",
                "2 message [x] last",
                "2 message d",
            ]
        );
    }
}
