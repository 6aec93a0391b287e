//! Rows of the table `event` of opencode, a line each: every change of a session, message or part as a whole, of which the
//! newest holds. And what `opencode run --format json` prints: the parts of replies as they end, without the words of the user.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::opencode::session::{self, Info, Message, Part, Session as Of, Time};
use super::reading::draft::Losses;
use super::reading::fields::Embedded;
use super::reading::record;
use super::reading::scalar::Scalar;
use super::{Entry, Origin, Reading, Session, Sink};

pub(super) const ENTRY: Entry = Entry {
    name: "opencode-events",
    summary: "rows of opencode's table of events, as JSONL, and `opencode run --format json`",
    reading: Reading::Session { open: || Box::<Events>::default(), origin: |_, _| Origin::None },
};

record! {
    struct Event in "opencode.event" {
        session: String = "aggregate_id",
        kind: String = "type",
        data: Embedded<Data> = "data",
        // What is printed.
        run: String = "sessionID",
        part: Part = "part",
        timestamp: Scalar = "timestamp",
    }

    struct Data in "opencode.event.data" {
        info: Box<RawValue> = "info",
        part: Part = "part",
        message: String = "messageID",
        part_id: String = "partID",
    }
}

#[derive(Default)]
struct Events {
    sessions: BTreeMap<String, State>,
    losses: Losses,
}

/// A session so far.
#[derive(Default)]
struct State {
    session: Of,
    messages: BTreeMap<String, Info>,
    parts: BTreeMap<String, Part>,
}

impl State {
    /// A part that was printed: of a reply, which is nowhere told whole. Some programs that pass it on leave its ids out.
    fn print(&mut self, mut part: Part, time: Option<Scalar>) {
        let newest = self.messages.keys().next_back().cloned();
        let is_next = newest.is_none() || part.kind.as_deref() == Some("step-start");
        let next = || format!("msg_{:08}", self.messages.len());
        let id = part.message.take().or(newest.filter(|_| !is_next)).unwrap_or_else(next);
        self.messages.entry(id.clone()).or_insert_with(|| Info {
            id: Some(id.clone()),
            role: Some("assistant".to_owned()),
            time: Some(Time { created: time, ..Time::default() }),
            ..Info::default()
        });
        part.message = Some(id);
        let key = part.id.clone().unwrap_or_else(|| format!("prt_{:08}", self.parts.len()));
        self.parts.insert(key, part);
    }
}

impl Session for Events {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let event: Event = serde_json::from_slice(bytes)?;
        if let Some(part) = event.part {
            let state = self.sessions.entry(event.run.unwrap_or_default()).or_default();
            state.print(part, event.timestamp);
            return Ok(());
        }
        let data = event.data.unwrap_or_default().0;
        let kind = event.kind.unwrap_or_default();
        // Each kind ends in its version.
        let name = kind.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('.');
        let state = self.sessions.entry(event.session.unwrap_or_default()).or_default();
        let info = data.info.as_deref().map(RawValue::get);
        match (name, info, data.part) {
            ("session.created" | "session.updated", Some(info), _) => {
                state.session = serde_json::from_str(info)?
            }
            ("message.updated", Some(info), _) => {
                let info: Info = serde_json::from_str(info)?;
                state.messages.insert(info.id.clone().unwrap_or_default(), info);
            }
            ("message.part.updated", _, Some(part)) => {
                state.parts.insert(part.id.clone().unwrap_or_default(), part);
            }
            ("message.removed", ..) => {
                state.messages.remove(&data.message.unwrap_or_default());
            }
            ("message.part.removed", ..) => {
                state.parts.remove(&data.part_id.unwrap_or_default());
            }
            _ => {
                let name: String = name.chars().take(60).collect();
                self.losses.add(&format!("event that is no message left out: {name}"));
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>, sink: &mut Sink<'_>) {
        sink.losses.merge(&self.losses);
        for (id, state) in self.sessions {
            let State { mut session, messages, mut parts } = state;
            // Parts of a message that was removed went with it.
            parts.retain(|_, part| part.message.as_ref().is_some_and(|id| messages.contains_key(id)));
            let messages = Message::all(
                messages.into_values().collect(),
                parts.into_values().collect(),
                &mut sink.losses,
            );
            session.id = session.id.or(Some(id));
            session::finish(session, messages, sink);
        }
    }
}
