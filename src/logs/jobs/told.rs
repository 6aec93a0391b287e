//! What a file looks like, by as much of its beginning as that takes.

use std::io::BufRead;

use crate::logs::Limits;
use crate::logs::detect::{self, Detected, HEAD_BYTES, Layout};
use crate::logs::formats::{Entry, Reading};
use crate::logs::input::{self, Input, Room};

use super::batches::BATCH_BYTES;

/// A head is never made longer than this to tell what a file looks like that could not be read.
const MAX_HEAD_BYTES: usize = 64 << 20;

/// Reads as much of a file as is needed to tell its format; says whether that was all of it.
pub(super) fn detect(
    reader: &mut dyn BufRead,
    head: &mut Vec<u8>,
    forced: Option<&'static Entry>,
    max: usize,
    room: Room<'_>,
) -> std::io::Result<(Detected, bool)> {
    let mut n = HEAD_BYTES.max(head.len());
    loop {
        // All that one value may have is looked at before it is called too large.
        let wanted = if (head.len() as u64) < room.value { (n as u64).min(room.value) } else { u64::MAX };
        let is_whole = room.read(reader, head, wanted)?;
        let found = match forced {
            Some(entry) => as_format(entry, head, is_whole),
            None => detect::detect(head, is_whole),
        };
        let found = or_mapped(found, head, is_whole, forced, room);
        if !matches!(found, Detected::More) || n >= max {
            return Ok((found, is_whole));
        }
        n = n.saturating_mul(8);
    }
}

/// What is of no known format is read by the mapping, if one is given.
pub(super) fn or_mapped(
    found: Detected,
    head: &[u8],
    is_whole: bool,
    forced: Option<&'static Entry>,
    room: Room<'_>,
) -> Detected {
    match (room.mapping.filter(|_| forced.is_none()), &found) {
        (Some(mapping), Detected::NoLog(detect::UNKNOWN)) => as_format(mapping.entry(), head, is_whole),
        // Nothing tells what lines are that go on for so long.
        (Some(mapping), Detected::More) if head.len() >= MAX_HEAD_BYTES => {
            as_format(mapping.entry(), head, is_whole)
        }
        _ => found,
    }
}

/// What a file looks like.
pub fn detected(input: &Input) -> std::io::Result<Detected> {
    let mut reader = input::open(&input.path)?;
    let room = Room::new(Limits::default(), 1, BATCH_BYTES as u64, &|| {});
    Ok(detect(&mut *reader, &mut Vec::new(), None, MAX_HEAD_BYTES, room)?.0)
}

/// What a value of no known format says that holds a log.
pub(super) fn envelope(head: &[u8], is_whole: bool) -> Option<String> {
    let (path, format) = detect::envelope(head, is_whole)?;
    Some(format!(
        "an envelope, which holds a log of {format} at {path}\nhint: take it out with `jq -c '{path}'`, or say where it stands with --mapping"
    ))
}

/// The same of a file.
pub fn enveloped(input: &Input) -> std::io::Result<Option<String>> {
    let (mut reader, mut head) = (input::open(&input.path)?, Vec::new());
    let room = Room::new(Limits::default(), 1, BATCH_BYTES as u64, &|| {});
    let (_, is_whole) = detect(&mut *reader, &mut head, None, MAX_HEAD_BYTES, room)?;
    Ok(envelope(&head, is_whole))
}

/// What a file looks like, if that is not the format it was read as.
pub(super) fn other_format(input: &Input, entry: &Entry) -> Option<&'static str> {
    let found = detected(input).ok()?;
    match found {
        Detected::Log(found, _) => (found.name != entry.name).then_some(found.name),
        Detected::NotRead(what) | Detected::Label(what) | Detected::NoLog(what) | Detected::Bad(what) => {
            Some(what)
        }
        Detected::Database => Some("SQLite database"),
        Detected::Table => Some("Parquet table"),
        Detected::More => Some(detect::UNKNOWN),
    }
}

/// A file whose format is given: how it is cut into values.
pub(super) fn as_format(entry: &'static Entry, head: &[u8], is_whole: bool) -> Detected {
    let layout = match entry.reading {
        Reading::Session { .. } | Reading::Sessions { .. } => Some(Layout::Lines),
        Reading::Document { .. } | Reading::Files { .. } | Reading::Text(_) => Some(Layout::Document),
        Reading::Archive { .. } => Some(Layout::Archive),
        Reading::Database { .. } if head.starts_with(detect::SQLITE) => return Detected::Database,
        Reading::Database { .. } => return Detected::Bad("no SQLite database"),
        Reading::Values(_) => detect::layout_of(head, is_whole),
    };
    layout.map_or(Detected::More, |layout| Detected::Log(entry, layout))
}
