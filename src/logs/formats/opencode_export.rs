//! What `opencode export` writes: a session with its messages and their parts.

use super::opencode::session::{self, Info, Message, Part, Session};
use super::reading::list::read_around;
use super::reading::repair::{begins_whole, value_end};
use super::reading::{List, record};
use super::{Entry, Origin, Reading, Sink, list_start};

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

/// The time of a session's first message: a fork copies it. Of several sessions in one file the first tells.
pub(super) fn origin(head: &[u8], _: bool) -> Origin {
    let time = first_info(head).and_then(|info| info.time?.created?.count());
    time.map_or(Origin::None, |time| Origin::Uuid(format!("opencode {time}")))
}

/// What an export says of its first message, which may be cut behind that.
fn first_info(head: &[u8]) -> Option<Info> {
    let is_export = |before: &[u8]| memchr::memmem::find(before, b"\"info\"").is_some();
    let start =
        list_start(head, "messages").filter(|at| head.starts_with(b"{") && is_export(&head[..*at]))?;
    let message = head[start..].trim_ascii_start().strip_prefix(b"{")?.trim_ascii_start();
    let info = message.strip_prefix(b"\"info\"")?.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    serde_json::from_slice(&info[..value_end(info, 0)?]).ok()
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let export = match serde_json::from_slice(bytes) {
        Ok(export) => export,
        Err(error) if begins_whole(bytes) => return Err(error.into()),
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
