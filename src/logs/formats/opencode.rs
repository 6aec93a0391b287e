//! Databases of opencode since 1.2: a row a session, a message, a part of one. Sub-agents are sessions with a parent.

use super::reading::scalar::Scalar;
use super::reading::tables::Rows;
use super::reading::{List, record};
use super::{Entry, Reading, Sink};

pub(super) mod session;

use session::{Info, Message, Part, Session, Time};

pub(super) const ENTRY: Entry = Entry {
    name: "opencode",
    summary: "opencode databases (1.2 and later)",
    reading: Reading::Database {
        is: |tables| {
            tables.has("session", &["id", "directory"])
                && tables.has("message", &["id", "session_id", "time_created", "data"])
                && tables.has("part", &["id", "session_id", "message_id", "data"])
        },
        rows: ROWS,
        read,
    },
};

const ROWS: &[Rows] = &[
    Rows::all("session", "SELECT id, rowid FROM session ORDER BY 1", &["revert"]),
    Rows {
        name: "message",
        table: "message",
        order: "SELECT session_id, rowid FROM message ORDER BY session_id",
        columns: "id, session_id, time_created, data",
        json: &["data"],
    },
    Rows {
        name: "part",
        table: "part",
        order: "SELECT session_id, rowid FROM part ORDER BY session_id",
        columns: "id, message_id, data",
        json: &["data"],
    },
];

record! {
    struct Run in "opencode.run" {
        session: List<Session> = "session",
        message: List<MessageRow> = "message",
        part: List<PartRow> = "part",
    }

    struct MessageRow in "opencode.row" {
        id: String = "id",
        session: String = "session_id",
        time_created: Scalar = "time_created",
        data: Info = "data",
    }

    struct PartRow in "opencode.row" {
        id: String = "id",
        message: String = "message_id",
        data: Part = "data",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let messages = run.message.unwrap_or_default().0.into_iter().map(|row| {
        let mut info = row.data.unwrap_or_default();
        info.id = row.id.or(info.id);
        info.session = row.session.or(info.session);
        let time = info.time.get_or_insert_with(Time::default);
        time.created = time.created.or(row.time_created);
        info
    });
    let parts = run.part.unwrap_or_default().0.into_iter().map(|row| {
        let part = row.data.unwrap_or_default();
        Part { id: row.id.or(part.id), message: row.message.or(part.message), ..part }
    });
    let messages = Message::all(messages.collect(), parts.collect(), &mut sink.losses);
    let session = run.session.unwrap_or_default().0.into_iter().next().unwrap_or_default();
    session::finish(session, messages, sink);
    Ok(())
}

#[cfg(test)]
mod tests;
