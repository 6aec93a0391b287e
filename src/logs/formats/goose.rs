//! The database of the agent goose (1.10 and later): rows of sessions and of their messages.

use super::reading::fields::Embedded;
use super::reading::names::repository_of;
use super::reading::scalar::Scalar;
use super::reading::tables::Rows;
use super::reading::{Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) mod messages;

use messages::Message;

pub(super) const ENTRY: Entry = Entry {
    name: "goose",
    summary: "databases of the agent goose",
    reading: Reading::Database {
        is: |tables| {
            tables.has("sessions", &["id", "working_dir"])
                && tables.has("messages", &["session_id", "role", "content_json", "created_timestamp"])
        },
        rows: ROWS,
        read,
    },
};

const ROWS: &[Rows] = &[
    Rows::all("sessions", "SELECT id, rowid FROM sessions ORDER BY 1", &["model_config_json"]),
    Rows::all(
        "messages",
        "SELECT session_id, rowid FROM messages ORDER BY session_id, created_timestamp, rowid",
        &["content_json", "metadata_json"],
    ),
];

record! {
    struct Run in "goose.run" {
        sessions: List<About> = "sessions",
        messages: List<Message> = "messages",
    }

    /// A session, as a row or as the first line of the older files.
    struct About in "goose.session" {
        id: String = "id",
        working_dir: String = "working_dir",
        model: Embedded<Model> = "model_config_json" | "model_config",
        tokens_sent: Scalar = "accumulated_input_tokens",
    }

    struct Model in "goose.model" {
        name: String = "model_name",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let mut about = run.sessions.unwrap_or_default().0.into_iter().next().unwrap_or_default();
    let messages = run.messages.unwrap_or_default().0;
    about.id = about.id.or_else(|| messages.first()?.session.clone());
    finish(about, messages, sink);
    Ok(())
}

/// Reads a session.
pub(super) fn finish(about: About, messages: Vec<Message>, sink: &mut Sink<'_>) {
    let mut draft = Draft::new();
    let policy =
        messages::read_all(messages, &mut draft).then(|| "summaries of calls with their results".to_owned());
    let about = Trajectory {
        repository: about.working_dir.as_deref().and_then(repository_of),
        agent: Some("goose".to_owned()),
        model: about.model.and_then(|model| model.0.name),
        tokens_sent: about.tokens_sent.and_then(Scalar::count),
        format: "goose".to_owned(),
        policy,
        ..Trajectory::default()
    }
    .of_session(about.id, &sink.source.stem);
    draft.finish(about, sink);
}

#[cfg(test)]
mod tests;
