//! Rows of the table `event` of opencode, a line each: every change of a session, message or part as a whole, of which the
//! newest holds.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::opencode::session::{self, Info, Message, Part, Session as Of};
use super::reading::draft::Losses;
use super::reading::fields::Embedded;
use super::reading::record;
use super::{Entry, Origin, Reading, Session, Sink};

pub(super) const ENTRY: Entry = Entry {
    name: "opencode-events",
    summary: "rows of opencode's table of events, as JSONL",
    reading: Reading::Session { open: || Box::<Events>::default(), origin: |_, _| Origin::None },
};

record! {
    struct Event in "opencode.event" {
        session: String = "aggregate_id",
        kind: String = "type",
        data: Embedded<Data> = "data",
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

impl Session for Events {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let event: Event = serde_json::from_slice(bytes)?;
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
