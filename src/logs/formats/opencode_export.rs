//! What `opencode export` writes: a session with its messages and their parts.

use super::opencode::session::{self, Info, Message, Part, Session};
use super::reading::list::read_around;
use super::reading::repair::is_json;
use super::reading::{List, record};
use super::{Entry, Reading, Sink};

pub(super) const ENTRY: Entry = Entry {
    name: "opencode-export",
    summary: "sessions that opencode exported as JSON",
    reading: Reading::Values(read),
};

record! {
    struct Export in "opencode.export" {
        info: Session = "info",
        messages: List<Exported> = "messages",
    }

    struct Exported in "opencode.export.message" {
        info: Info = "info",
        parts: List<Part> = "parts",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let export = match serde_json::from_slice(bytes) {
        Ok(export) => export,
        Err(error) if is_json(bytes) => return Err(error.into()),
        Err(_) => {
            let (export, messages) = read_around::<Export, Exported>(bytes, "messages", sink);
            Export { messages: Some(List(messages)), ..export }
        }
    };
    let messages = export.messages.unwrap_or_default().0.into_iter().map(|message| Message {
        info: message.info.unwrap_or_default(),
        parts: message.parts.unwrap_or_default().0,
    });
    session::finish(export.info.unwrap_or_default(), messages.collect(), sink);
    Ok(())
}
