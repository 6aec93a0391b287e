//! Cuts big files of lines or items into batches.

use std::io::{self, BufRead, Cursor, Read as _};
use std::sync::{Arc, mpsc};

use crate::logs::archive::Members;
use crate::logs::detect::Layout;
use crate::logs::formats::reading::list::{Content, Items, Piece};
use crate::logs::formats::{Entry, Reading};
use crate::logs::input::Room;
use crate::logs::part::Rejected;

use super::documents::shared_before;
use super::skip::{Skipped, skip_line};

/// Size of a batch of lines.
pub(super) const BATCH_BYTES: usize = 4 << 20;

/// Some lines or items of a big file.
pub(super) struct Batch {
    pub(super) input: usize,
    pub(super) entry: &'static Entry,
    pub(super) number: u64,
    pub(super) records: Records,
    pub(super) offset: u64,
    pub(super) gaps: Vec<Rejected>,
    pub(super) error: Option<io::Error>,
    pub(super) is_last: bool,
}

pub(super) enum Records {
    Lines {
        bytes: Vec<u8>,
        /// Number of the first one.
        line: u64,
        /// A line after these that is too long: its size.
        long: Option<u64>,
    },
    Items {
        pieces: Vec<Piece>,
        shared: Option<Arc<[u8]>>,
        /// Number of the first item.
        index: usize,
        n_bytes: u64,
    },
}

/// A big file of lines or items on its way into batches.
pub struct Open {
    pub(super) input: usize,
    pub(super) entry: &'static Entry,
    pub(super) rest: Rest,
    pub(super) number: u64,
    pub(super) offset: u64,
    /// What is damaged where it is packed.
    pub(super) gaps: Vec<Rejected>,
}

/// What a big file still holds.
pub(super) enum Rest {
    Lines {
        reader: Box<dyn BufRead + Send>,
        line: u64,
    },
    /// `shared` is the document around the list, where there is one.
    Items {
        items: Pieces,
        shared: Option<Arc<[u8]>>,
        index: usize,
    },
    /// Runs of a database, or rows of a table.
    Runs {
        runs: mpsc::Receiver<Piece>,
        index: usize,
    },
}

/// Where the items come from.
pub(super) enum Pieces {
    List(Items),
    Archive(Box<Members>),
}

impl Pieces {
    pub(super) fn place(&self) -> u64 {
        match self {
            Pieces::List(items) => items.place(),
            Pieces::Archive(members) => members.place(),
        }
    }

    pub(super) fn next(&mut self) -> Option<Piece> {
        match self {
            Pieces::List(items) => items.next(),
            Pieces::Archive(members) => members.next(),
        }
    }
}

/// Cuts off some lines; says their bytes in all, whether they are the last, and why, if not for the end.
pub(super) fn cut_lines(
    reader: &mut Box<dyn BufRead + Send>,
    line: &mut u64,
    share: Room<'_>,
) -> (Records, u64, bool, Option<io::Error>) {
    let mut bytes = Vec::with_capacity(BATCH_BYTES + (64 << 10));
    let (mut error, mut long) = (None, None);
    let mut is_last = false;
    match reader.by_ref().take(BATCH_BYTES as u64).read_to_end(&mut bytes) {
        Ok(n) if n < BATCH_BYTES => is_last = true,
        Ok(_) if bytes.last() == Some(&b'\n') => {}
        Ok(_) => match end_line(reader, &mut bytes, share.value) {
            Ok((ends, over)) => (is_last, long) = (!ends, over),
            Err(e) => error = Some(e),
        },
        Err(e) => error = Some(e),
    }
    let first = *line;
    *line += memchr::memchr_iter(b'\n', &bytes).count() as u64 + u64::from(long.is_some());
    let n_bytes = bytes.len() as u64 + long.unwrap_or(0);
    (Records::Lines { bytes, line: first, long }, n_bytes, is_last || error.is_some(), error)
}

/// The same for items. What cannot be read is one of them.
pub(super) fn cut_items(
    items: &mut Pieces,
    shared: &Option<Arc<[u8]>>,
    index: &mut usize,
) -> (Records, u64, bool, Option<io::Error>) {
    let (start, first) = (items.place(), *index);
    let mut pieces = Vec::new();
    let mut is_last = true;
    while let Some(piece) = items.next() {
        *index += usize::from(matches!(piece.content, Content::Item(_)));
        pieces.push(piece);
        if items.place() - start >= BATCH_BYTES as u64 {
            is_last = false;
            break;
        }
    }
    let n_bytes = items.place() - start;
    (Records::Items { pieces, shared: shared.clone(), index: first, n_bytes }, n_bytes, is_last, None)
}

/// The same for runs of a database.
pub(super) fn cut_runs(
    runs: &mpsc::Receiver<Piece>,
    index: &mut usize,
) -> (Records, u64, bool, Option<io::Error>) {
    let (first, mut pieces, mut n_bytes) = (*index, Vec::new(), 0);
    let mut is_last = true;
    for piece in runs {
        if let Content::Item(run) = &piece.content {
            *index += 1;
            n_bytes += run.len() as u64;
        }
        pieces.push(piece);
        if n_bytes >= BATCH_BYTES as u64 {
            is_last = false;
            break;
        }
    }
    (Records::Items { pieces, shared: None, index: first, n_bytes }, n_bytes, is_last, None)
}

/// Reads the last line to its end. One that gets longer than `max` is taken out again and skipped: its size. Says whether
/// it has an end, too.
fn end_line(reader: &mut dyn BufRead, bytes: &mut Vec<u8>, max: u64) -> std::io::Result<(bool, Option<u64>)> {
    let start = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    let left = max.saturating_sub((bytes.len() - start) as u64);
    (&mut *reader).take(left).read_until(b'\n', bytes)?;
    let is_ended = bytes.last() == Some(&b'\n');
    if is_ended || reader.fill_buf()?.is_empty() {
        return Ok((is_ended, None));
    }
    let size = (bytes.len() - start) as u64;
    bytes.truncate(start);
    bytes.shrink_to_fit();
    let size = size + skip_line(reader)?;
    // Nobody needs to know whether it had an end if nothing comes behind it.
    Ok((!reader.fill_buf()?.is_empty(), Some(size)))
}

pub(super) type Reader = Box<dyn BufRead + Send>;

/// A file that can be cut into batches, opened for that; else what was given.
pub(super) fn in_batches(
    entry: &'static Entry,
    layout: Layout,
    mut head: Vec<u8>,
    reader: Reader,
    room: Room<'_>,
    skipped: &Skipped,
) -> Result<Rest, (Vec<u8>, Reader)> {
    match (entry.reading, layout) {
        (Reading::Values(_), Layout::Lines) => {
            Ok(Rest::Lines { reader: Box::new(Cursor::new(head).chain(reader)), line: 1 + skipped.n_lines })
        }
        (Reading::Values(_), Layout::Items) => {
            let reader = Box::new(Cursor::new(head).chain(reader));
            let items = Items::new(reader, room.value).behind(skipped.n_bytes);
            Ok(Rest::Items { items: Pieces::List(items), shared: None, index: 0 })
        }
        (Reading::Document { list, first, .. }, _) if skipped.n_bytes == 0 => {
            match shared_before(&head, list, first) {
                Some((shared, start)) => {
                    let rest = Box::new(Cursor::new(head.split_off(start)).chain(reader));
                    let items = Items::of_field(rest, start as u64, room.value);
                    Ok(Rest::Items { items: Pieces::List(items), shared: Some(shared.into()), index: 0 })
                }
                None => Err((head, reader)),
            }
        }
        _ => Err((head, reader)),
    }
}
