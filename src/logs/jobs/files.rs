//! Reads a file, or opens it where it is read in batches.

use std::io::{BufRead, Cursor, Read};

use crate::logs::archive::Members;
use crate::logs::database::{self, Database};
use crate::logs::detect::{self, Detected, Layout, detect_in};
use crate::logs::formats::reading::fields::take_counts;
use crate::logs::formats::reading::list;
use crate::logs::formats::{self, Entry, Reading};
use crate::logs::input::{self, Input, Measured, Room, Small};
use crate::logs::lines::Lines;
use crate::logs::part::{Found, Part, Run};
use crate::logs::sessions::Heard;
use crate::logs::table::{self, Table};

use super::batches::{Batch, Open, Pieces, Reader, Records, Rest, in_batches};
use super::read::all;
use super::skip::Skipped;
use super::told::{as_format, detect, or_mapped};

/// Files that are stored in more than this are not read at once.
const BIG_FILE_BYTES: u64 = 4 << 20;
/// The same of files when uncompressed. A file of lines that is bigger is cut into batches.
const BIG_BYTES: usize = 8 << 20;

/// What a worker makes of a file.
pub(super) enum Outcome {
    Read(Part),
    Big(Open),
}

/// Reads a file, or opens it if it is a big one of lines or items.
pub(super) fn read_input(
    i: usize,
    inputs: &[Input],
    forced: Option<&'static Entry>,
    room: Room<'_>,
) -> Outcome {
    take_counts();
    let input = &inputs[i];
    let mut part = Part::new(i, 0);
    if let Some(problem) = &input.problem {
        part.reject(None, 0, problem.clone());
    } else {
        match read_file(i, input, forced, room, &mut part) {
            Ok(None) => {}
            Ok(Some(open)) => return Outcome::Big(open),
            Err(error) => {
                part.is_too_large = error.kind() == std::io::ErrorKind::FileTooLarge;
                part.cannot_read(part.n_bytes, "cannot read on", &error);
            }
        }
    }
    part.check_format(input, forced);
    part.fields = take_counts();
    Outcome::Read(part)
}

/// What is known of the sessions in a file, and the file as it was read: several where it was tried again, none in what is no
/// session after all. Nothing if the machine could not read it.
pub(super) fn sessions_in(
    i: usize,
    inputs: &[Input],
    forced: Option<&'static Entry>,
    room: Room<'_>,
) -> Option<(Vec<Heard>, Option<Part>)> {
    let Outcome::Read(part) = read_input(i, inputs, forced, room) else {
        return Some((Vec::new(), None));
    };
    if part.is_unread {
        return None;
    }
    let is_session = |run: &&Run| {
        let entry = formats::find(&run.row.format).map(|entry| entry.reading);
        // Runs that the session started are no part of it.
        run.row.parent.is_none()
            && matches!(entry, Ok(Reading::Session { .. } | Reading::Sessions { .. } | Reading::Files { .. }))
    };
    let heard = part.runs.iter().filter(is_session).map(|run| Heard::of(&run.steps)).collect();
    Some((heard, Some(part)))
}

pub(super) fn read_batch(
    batch: Batch,
    inputs: &[Input],
    forced: Option<&'static Entry>,
    room: Room<'_>,
) -> Part {
    take_counts();
    let input = &inputs[batch.input];
    let mut part = Part::new(batch.input, batch.number);
    part.is_last = batch.is_last;
    part.found = Found::Log(batch.entry.name);
    part.rejects = batch.gaps;
    if batch.number == 0 && matches!(batch.entry.reading, Reading::Database { .. }) {
        let n = input.parts.iter().filter(|file| !database::is_beside(&file.name)).count();
        part.losses.add_n("file of an older store that the database repeats", n as u64);
    }
    let source = room.source(input, batch.entry.name);
    match batch.records {
        Records::Lines { bytes, line, long } => {
            part.read_lines_of(&bytes, batch.entry, &source, line, batch.offset);
            if let Some(size) = long {
                let line = line + memchr::memchr_iter(b'\n', &bytes).count() as u64;
                part.reject(Some(line), batch.offset + part.n_bytes, input::too_long("a line", size));
                part.n_bytes += size;
            }
        }
        Records::Items { pieces, shared, index, n_bytes } => {
            let values = Lines::of_document(batch.entry, &source, shared.as_deref(), &mut part);
            part.read_items(pieces.into_iter(), values, index);
            part.n_bytes = n_bytes;
        }
    }
    if let Some(error) = batch.error {
        part.cannot_read(batch.offset + part.n_bytes, "cannot read on", &error);
    }
    part.check_format(input, forced);
    part.fields = take_counts();
    part
}

/// Reads a file of any kind. Small files are read at once, sessions line by line; big files of other lines
/// or items are only opened.
fn read_file(
    i: usize,
    input: &Input,
    forced: Option<&'static Entry>,
    room: Room<'_>,
    part: &mut Part,
) -> std::io::Result<Option<Open>> {
    let is_small = input.n_bytes <= BIG_FILE_BYTES && room.file >= BIG_BYTES as u64;
    if !is_small && input::begins_with(&input.path, table::MARK)? {
        return open_table(i, input, forced, room, part);
    }
    let Small { bytes: mut head, rest, gaps } = if is_small {
        input::read_small(&input.path, BIG_BYTES, room.file)?
    } else {
        input::open_checked(&input.path, room.file)?
    };
    for gap in gaps {
        part.reject(None, gap.offset, gap.reason);
    }
    let Some(reader) = rest else {
        let found = match forced {
            Some(entry) => as_format(entry, &head, true),
            None => or_mapped(detect_in(&head), &head, true, None, room),
        };
        if let Detected::Log(entry, Layout::Archive) = found {
            return open_archive(i, input, entry, (head, None), room, part).map(Some);
        }
        if let Detected::Database = found {
            return open_database(i, input, forced, Box::new(Cursor::new(head)), room, part);
        }
        if head.starts_with(table::MARK) {
            return open_table(i, input, forced, room, part);
        }
        part.read_found(found, head, None, input, room)?;
        return Ok(None);
    };
    let mut reader: Box<dyn BufRead + Send> =
        Box::new(Measured::new(reader, room.file, room.file, input.n_bytes));
    let mut skipped = Skipped::default();
    let (found, is_whole) = loop {
        match detect(&mut *reader, &mut head, forced, usize::MAX, room) {
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                if !skipped.skip(&mut *reader, &mut head, part)? {
                    return Err(error);
                }
            }
            told => break told?,
        }
    };
    let n_told = part.rejects.len();
    let result = match found {
        Detected::Log(entry, Layout::Archive) => {
            return open_archive(i, input, entry, (head, Some(reader)), room, part).map(Some);
        }
        Detected::Database => {
            return open_database(i, input, forced, Box::new(Cursor::new(head).chain(reader)), room, part);
        }
        Detected::Log(entry, layout) if !is_whole => {
            match in_batches(entry, layout, head, reader, room, &skipped) {
                Ok(rest) => {
                    let gaps = std::mem::take(&mut part.rejects);
                    let offset = skipped.n_bytes;
                    return Ok(Some(Open { input: i, entry, rest, number: 0, offset, gaps }));
                }
                Err((head, reader)) => part.read_found(found, head, Some(reader), input, room),
            }
        }
        _ => part.read_found(found, head, (!is_whole).then_some(reader), input, room),
    };
    skipped.move_behind(&mut part.rejects[n_told..]);
    part.n_bytes += skipped.n_bytes;
    result.map(|()| None)
}

/// Whether the machine or another process is at fault, and not what stands in a file.
pub(super) fn is_passing(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref().is_some_and(list::is_passing)
            || cause.downcast_ref().is_some_and(database::is_passing)
    })
}

/// Opens a database; `bytes` are those of the file, unpacked.
fn open_database(
    i: usize,
    input: &Input,
    forced: Option<&'static Entry>,
    mut bytes: Reader,
    room: Room<'_>,
    part: &mut Part,
) -> std::io::Result<Option<Open>> {
    if input.n_bytes > room.file {
        return Err(input::too_large(room.file, input.n_bytes));
    }
    let is_packed = !input::begins_with(&input.path, detect::SQLITE)?;
    let unpacked: Option<&mut dyn Read> = if is_packed { Some(&mut bytes) } else { None };
    let opened = Database::open(&input.path, unpacked, room.value).and_then(|db| Ok((db.tables()?, db)));
    let (tables, database) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            part.is_unread = is_passing(&error);
            part.reject(None, 0, format!("cannot open the database: {error:#}"));
            return Ok(None);
        }
    };
    let entry = forced.or_else(|| detect::of_tables(&tables));
    let Some((entry, Reading::Database { rows, .. })) = entry.map(|entry| (entry, entry.reading)) else {
        let found = Detected::NoLog("SQLite database of no known product");
        part.read_found(found, Vec::new(), None, input, room)?;
        return Ok(None);
    };
    let rest = Rest::Runs { runs: database.runs(rows, room.value), index: 0 };
    Ok(Some(Open { input: i, entry, rest, number: 0, offset: 0, gaps: std::mem::take(&mut part.rejects) }))
}

/// Opens a Parquet table, whose rows are read as lines of JSON would be.
fn open_table(
    i: usize,
    input: &Input,
    forced: Option<&'static Entry>,
    room: Room<'_>,
    part: &mut Part,
) -> std::io::Result<Option<Open>> {
    if input.n_bytes > room.file {
        return Err(input::too_large(room.file, input.n_bytes));
    }
    if !input::begins_with(&input.path, table::MARK)? {
        part.reject(None, 0, table::PACKED.to_owned());
        return Ok(None);
    }
    let (table, first) = match Table::open(&input.path) {
        Ok(opened) => opened,
        Err(error) => {
            part.is_unread = is_passing(&error);
            part.reject(None, 0, format!("cannot open the Parquet table: {error:#}"));
            return Ok(None);
        }
    };
    let found = match forced {
        Some(entry) => as_format(entry, &first, true),
        None => or_mapped(detect_in(&first), &first, true, None, room),
    };
    let entry = match found {
        Detected::Log(entry, _) if matches!(entry.reading, Reading::Values(_)) => entry,
        _ => {
            part.read_found(Detected::NotRead("parquet"), Vec::new(), None, input, room)?;
            return Ok(None);
        }
    };
    let rest = Rest::Runs { runs: table.rows(room.value), index: 0 };
    Ok(Some(Open { input: i, entry, rest, number: 0, offset: 0, gaps: std::mem::take(&mut part.rejects) }))
}

/// An archive, opened to be read member by member. What was read of it is needed only if the file itself is packed.
fn open_archive(
    i: usize,
    input: &Input,
    entry: &'static Entry,
    (head, rest): (Vec<u8>, Option<Reader>),
    room: Room<'_>,
    part: &mut Part,
) -> std::io::Result<Open> {
    let Reading::Archive { shared, is_run, .. } = entry.reading else {
        return Err(std::io::Error::other("no archive"));
    };
    let mut members = Members::open(&input.path, || all(head, rest, room), is_run, room)?;
    let shared = members.shared(shared)?.unwrap_or_else(|| {
        part.reject(None, 0, "archive without a header that can be read".to_owned());
        b"{}".to_vec()
    });
    let items = Pieces::Archive(Box::new(members));
    let rest = Rest::Items { items, shared: Some(shared.into()), index: 0 };
    Ok(Open { input: i, entry, rest, number: 0, offset: 0, gaps: std::mem::take(&mut part.rejects) })
}
