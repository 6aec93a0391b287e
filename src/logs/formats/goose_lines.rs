//! Sessions of the agent goose as JSONL: rows of its table of messages, or the files that it kept before it had a database,
//! where the first line tells of the session.

use std::collections::BTreeMap;

use super::goose::messages::Message;
use super::goose::{self, About};
use super::reading::record;
use super::reading::scalar::Scalar;
use super::{Entry, Origin, Reading, Session, Sink};

pub(super) const ENTRY: Entry = Entry {
    name: "goose-lines",
    summary: "sessions of the agent goose as JSONL: rows of messages, or its older files",
    reading: Reading::Session { open: || Box::<Lines>::default(), origin: |_, _| Origin::None },
};

record! {
    struct Kind in "goose.line" {
        role: Scalar = "role",
    }
}

#[derive(Default)]
struct Lines {
    about: Option<About>,
    /// By the name of the session, which the older files do not have.
    sessions: BTreeMap<Option<String>, Vec<Message>>,
}

impl Session for Lines {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let kind: Kind = serde_json::from_slice(bytes)?;
        if kind.role.is_none() {
            self.about = Some(serde_json::from_slice(bytes)?);
        } else {
            let message: Message = serde_json::from_slice(bytes)?;
            self.sessions.entry(message.session.clone()).or_default().push(message);
        }
        Ok(())
    }

    fn is_another(&self, bytes: &[u8]) -> bool {
        let is_begun = self.about.is_some() && !self.sessions.is_empty();
        let head = || serde_json::from_slice::<serde_json::Value>(bytes).unwrap_or_default();
        is_begun
            && memchr::memmem::find(&bytes[..bytes.len().min(512)], b"\"working_dir\"").is_some()
            && head().get("role").is_none()
            && head().get("working_dir").is_some()
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink<'_>) {
        for (session, messages) in self.sessions {
            let about = self.about.take().unwrap_or_default();
            goose::finish(About { id: session.or(about.id), ..about }, messages, sink);
        }
    }
}
