//! Sessions of opencode before 1.2: a file a session, a message, a part of one.
//!
//! They lie in `session/<project>/<id>.json`, `message/<session>/<id>.json` and `part/<message>/<id>.json` of one folder; the
//! oldest all below `session`, with `info` for the project and the session's folder before those of its messages.

use std::collections::{BTreeMap, HashMap};

use super::opencode::session::{self, Info, Message, Part, Session};
use super::reading::record;
use super::{Entry, File, Origin, Reading, Sink, read_repaired};

pub(super) const ENTRY: Entry = Entry {
    name: "opencode-tree",
    summary: "sessions of opencode before 1.2, a file a message and a part",
    reading: Reading::Files { together, read, origin },
};

record! {
    /// What tells the kinds of files apart.
    struct Kind in "opencode.tree" {
        role: String = "role",
        message: String = "messageID",
    }
}

/// Groups the files by their sessions; the first file of each is a message.
fn together(names: &[&str]) -> Vec<Vec<usize>> {
    let places: Vec<Option<Place<'_>>> = names.iter().map(|name| place(name)).collect();
    let mut runs: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    let mut by_message: HashMap<(&str, &str), (&str, &str)> = HashMap::new();
    for (file, place) in places.iter().enumerate() {
        if let Some(Place { base, kind: "message", of, id }) = place {
            runs.entry((*base, *of)).or_default().push(file);
            by_message.insert((*base, *id), (*base, *of));
        }
    }
    for (file, place) in places.iter().enumerate() {
        let run = match place {
            Some(Place { base, kind: "session", id, .. }) => (*base, *id),
            Some(Place { base, kind: "part", of, .. }) => *by_message.get(&(*base, *of)).unwrap_or(&("", "")),
            _ => continue,
        };
        if let Some(files) = runs.get_mut(&run) {
            files.push(file);
        }
    }
    runs.into_values().collect()
}

/// Where a file lies: the folder of the whole, and below it the kind, what it belongs to, and the id.
struct Place<'a> {
    base: &'a str,
    kind: &'a str,
    of: &'a str,
    id: &'a str,
}

fn place(name: &str) -> Option<Place<'_>> {
    let (rest, file) = name.rsplit_once('/')?;
    let (rest, of) = rest.rsplit_once('/')?;
    let split = |path: &str| path.rsplit_once('/').map_or(0, |(base, _)| base.len() + 1);
    let folder = split(rest);
    let id = file.strip_suffix(".json")?;
    let (base, kind) = (&rest[..folder], &rest[folder..]);
    if ["message", "part"].contains(&kind) {
        return Some(Place { base: base.trim_end_matches('/'), kind, of, id });
    }
    if kind == "session" {
        let base = if of == "info" { rest } else { base.trim_end_matches('/') };
        return Some(Place { base, kind, of, id });
    }
    // The oldest have the session before the message of a part.
    let (base, kind) = base.trim_end_matches('/').rsplit_once('/')?;
    (kind == "part").then_some(Place { base, kind, of, id })
}

/// The time of a session's first message: a fork copies it.
fn origin(head: &[u8], whole: bool) -> Origin {
    let is_one = whole && memchr::memmem::find(head, br#""sessionID""#).is_some();
    let info: Option<Info> = is_one.then(|| serde_json::from_slice(head).ok()).flatten();
    let created = info.filter(|info| info.role.is_some()).and_then(|info| info.time?.created?.count());
    created.map_or(Origin::None, |time| Origin::Uuid(format!("opencode {time}")))
}

/// The session that a message belongs to, by the name of its file.
pub(crate) fn session_of(name: &str) -> Option<&str> {
    place(name).filter(|place| place.kind == "message").map(|place| place.of)
}

fn read(files: &[File], sink: &mut Sink<'_>) {
    let (mut session, mut infos, mut parts) = (Session::default(), Vec::new(), Vec::new());
    for file in files {
        read_repaired(&file.bytes, sink, |bytes, _| {
            let kind: Kind = serde_json::from_slice(bytes)?;
            if kind.message.is_some() {
                parts.push(serde_json::from_slice::<Part>(bytes)?);
            } else if kind.role.is_some() {
                infos.push(serde_json::from_slice::<Info>(bytes)?);
            } else {
                session = serde_json::from_slice(bytes)?;
            }
            Ok(())
        });
    }
    let messages = Message::all(infos, parts, &mut sink.losses);
    session::finish(session, messages, sink);
}
