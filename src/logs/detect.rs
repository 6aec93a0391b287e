//! Tells the format of a file by its first bytes, never by its name.
//!
//! Formats that are known by sight but have no reader, and files that only hold labels, are told apart, so that a
//! folder of mixed logs is no error.

use crate::logs::formats::reading::prefix::without_prefixes;
use crate::logs::formats::reading::repair;
use crate::logs::formats::reading::scan::{Scanned, scan};
use crate::logs::formats::reading::shape::Shape;
use crate::logs::formats::reading::tables::Tables;
use crate::logs::formats::{ALL, Entry, Reading, aider, specstory};

mod envelope;
mod items;
mod lines;
mod shapes;

pub(crate) use envelope::envelope;
pub(crate) use items::behind_stray;
pub(crate) use lines::{LINES_LOOKED_AT, MOST_KINDS, is_object};

use items::{by_items, by_keys, is_broken, is_of_lines, may_be_items, text_before_items};
use lines::{Beginning, Line, NOISE_LOOKED_THROUGH, by_lines, is_json, layout, shape_of};
use shapes::{by_shape, reader};

/// What a file of values is that is a log of no format that is known.
pub(crate) const UNKNOWN: &str = "JSON of no known format";

/// How a file is cut into values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One value a line.
    Lines,
    /// A list of values.
    Items,
    /// One value, or several, over any number of lines.
    Document,
    /// A zip archive, one value a member.
    Archive,
}

/// What a file holds.
pub(crate) enum Detected {
    Log(&'static Entry, Layout),
    /// A database: whose, its tables tell.
    Database,
    /// One of [`super::formats::NOT_READ`].
    NotRead(&'static str),
    /// A Parquet table: its columns tell the reader.
    Table,
    /// Labels or other side information and no run: the name of its kind.
    Label(&'static str),
    /// Readable text that is no log.
    NoLog(&'static str),
    /// Nothing that can be read, with the reason.
    Bad(&'static str),
    /// A longer head is needed to tell.
    More,
}

/// How much of a file is looked through for the marks of a chat in Markdown.
const MARKDOWN_LOOKED_AT: usize = 64 << 10;

/// First bytes of a gzip member and of a zstd frame.
pub(crate) const GZIP: &[u8] = &[0x1f, 0x8b];
pub(crate) const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// How a SQLite database begins, and its log and the index of that, which stand beside it.
pub(crate) const SQLITE: &[u8] = b"SQLite format 3\0";
const BESIDE_SQLITE: [&[u8]; 4] =
    [b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83", b"\x18\xe2\x2d\0", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"];

/// The reader of a database with these tables.
pub(crate) fn of_tables(tables: &Tables) -> Option<&'static Entry> {
    ALL.iter().find(|entry| matches!(entry.reading, Reading::Database { is, .. } if is(tables)))
}

/// Tells the format of a file by its first bytes; `whole` says that they are all of it.
pub(crate) fn detect(head: &[u8], whole: bool) -> Detected {
    if head.is_empty() {
        return Detected::Bad("empty file");
    }
    if head.starts_with(b"PAR1") {
        return Detected::Table;
    }
    if head.starts_with(SQLITE) {
        return Detected::Database;
    }
    if BESIDE_SQLITE.iter().any(|mark| head.starts_with(mark)) {
        return Detected::NoLog("log of a SQLite database, which is not there");
    }
    if head.starts_with(b"PK\x03\x04") {
        let eval = memchr::memmem::find(head, b"header.json").is_some()
            || memchr::memmem::find(head, b"_journal/").is_some()
            || memchr::memmem::find(head, b"samples/").is_some();
        return if eval { reader("inspect-eval", Layout::Archive) } else { Detected::Bad("a zip archive") };
    }
    if let Some(what) = other_unicode(head) {
        return Detected::Bad(what);
    }
    if [GZIP, ZSTD].iter().any(|mark| head.starts_with(mark)) {
        return Detected::Bad(
            "packed twice: gzip or zstd inside of gzip or zstd\nhint: unpack the file once",
        );
    }
    let start = repair::padding(head);
    if start == head.len() {
        let has_nul = memchr::memchr(0, head).is_some();
        return match whole {
            false => Detected::More,
            true if has_nul => Detected::Bad("NUL bytes and nothing else"),
            true => Detected::Bad("nothing but white space"),
        };
    }
    let head = &head[start..];
    if let Some(records) = without_prefixes(head, whole) {
        return match detect_at(&records, whole) {
            Detected::Log(entry, _) if is_of_lines(entry) => Detected::Log(entry, Layout::Lines),
            other => other,
        };
    }
    // What holds no record tells nothing; yet where nothing else is known, it is what is told.
    let n_empty = repair::empty_values(head);
    let found = (n_empty > 0).then(|| detect_at(&head[n_empty..], whole));
    match found.filter(|found| matches!(found, Detected::Log(..) | Detected::More)) {
        Some(found) => found,
        None => match detect_at(head, whole) {
            found @ (Detected::Log(..) | Detected::More) => found,
            other => behind_values(head, whole).or_else(|| behind_brackets(head, whole)).unwrap_or(other),
        },
    }
}

/// So much of a file is looked at first, to tell its format.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

/// Tells the format of a file in memory, by its head if that is enough.
pub(crate) fn detect_in(bytes: &[u8]) -> Detected {
    if bytes.len() > HEAD_BYTES {
        let found = detect(&bytes[..HEAD_BYTES], false);
        if !matches!(found, Detected::More) {
            return found;
        }
    }
    detect(bytes, true)
}

/// A text in units of two or four bytes, told by its mark, or by four characters in a row that need one byte of each.
fn other_unicode(head: &[u8]) -> Option<&'static str> {
    let alone = |n: usize, at: usize| {
        let units = head.get(..4 * n);
        units.is_some_and(|units| (0..4 * n).all(|i| (units[i] != 0) == (i % n == at)))
    };
    if head.starts_with(b"\xff\xfe\0\0") || head.starts_with(b"\0\0\xfe\xff") || alone(4, 0) || alone(4, 3) {
        return Some("UTF-32 text\nhint: convert it to UTF-8");
    }
    let is_one = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") || alone(2, 0) || alone(2, 1);
    is_one.then_some("UTF-16 text\nhint: convert it to UTF-8")
}

/// A document or list behind whole values that are no log.
fn behind_values(head: &[u8], whole: bool) -> Option<Detected> {
    let mut rest = head;
    for _ in 0..LINES_LOOKED_AT {
        let Scanned::Ended(end) = scan(rest, 0) else {
            return None;
        };
        rest = &rest[end..];
        rest = &rest[repair::padding(rest)..];
        if !is_json(rest) {
            return None;
        }
        if let found @ Detected::Log(..) = detect_at(rest, whole) {
            return Some(found);
        }
    }
    None
}

/// A document or list behind a bracket too many.
fn behind_brackets(head: &[u8], whole: bool) -> Option<Detected> {
    // A value without an end is broken, too.
    let is_broken = || is_broken(head) || whole && scan(head, 0) == Scanned::Open;
    let at = behind_stray(head).filter(|_| is_json(head) && is_broken())?;
    match detect_at(&head[at..], whole) {
        found @ Detected::Log(..) => Some(found),
        _ => None,
    }
}

/// Tells the format of what begins here.
fn detect_at(head: &[u8], whole: bool) -> Detected {
    if let Some(name) = markdown(head) {
        return reader(name, Layout::Document);
    }
    let lines = Beginning::of(head, whole);
    let is_text = !is_json(head);
    let layout = match layout(&lines, head, whole) {
        Some(Layout::Lines) => Layout::Lines,
        Some(_) if is_text => return text_before_items(head, whole),
        Some(layout) => layout,
        None if is_text => match no_json(head) {
            Detected::NoLog(_) => return Detected::More,
            known => return known,
        },
        None => return Detected::More,
    };
    let mut shape = Shape::default();
    let is_sure = match layout {
        Layout::Document | Layout::Items | Layout::Archive => {
            shape.add(head, 0);
            shape.complete
        }
        Layout::Lines => {
            shape = shape_of(lines.all().filter(|line| is_json(line)));
            lines.whole.iter().any(Line::is_object)
        }
    };
    if may_be_items(layout, head)
        && let Some(found) = by_keys(head).or_else(|| by_items(head, whole))
    {
        return found;
    }
    let found = match layout {
        Layout::Lines => by_lines(&lines, &shape, head, whole),
        _ => by_shape(&shape, head, layout),
    };
    match found {
        // A text with some JSON in it, as logs of servers have.
        Detected::NoLog(what) if is_text && (whole || head.len() >= NOISE_LOOKED_THROUGH) => {
            Detected::NoLog(what)
        }
        Detected::NoLog(_) if whole && !shape.complete => Detected::Bad("broken or cut-off JSON"),
        Detected::NoLog(_) if !whole => Detected::More,
        // What tells other formats from a plain chat may come after the messages.
        Detected::Log(entry, _) if !whole && !is_sure && entry.name == "openai-chat" => Detected::More,
        other => other,
    }
}

/// How a file is cut into values, when its format is given; none if a longer head is needed to tell.
pub(crate) fn layout_of(head: &[u8], whole: bool) -> Option<Layout> {
    let head = &head[repair::padding(head)..];
    if without_prefixes(head, whole).is_some() {
        return Some(Layout::Lines);
    }
    let layout = layout(&Beginning::of(head, whole), head, whole)?;
    match may_be_items(layout, head).then(|| by_items(head, whole)).flatten() {
        Some(Detected::More) => None,
        Some(_) => Some(Layout::Items),
        None => Some(layout),
    }
}

fn no_json(head: &[u8]) -> Detected {
    // A multi-byte character may be cut at the end of the head.
    let head = &head[..head.len().min(4096)];
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(e) if e.valid_up_to() + 4 > head.len() && e.valid_up_to() > 0 => {
            std::str::from_utf8(&head[..e.valid_up_to()]).unwrap_or("")
        }
        Err(_) => return Detected::Bad("binary file"),
    };
    if text.bytes().any(|b| b < 9 || (b > 13 && b < 27)) {
        return Detected::Bad("binary file");
    }
    if text.contains("Starting evaluation for instance") {
        return Detected::Label("swebench-eval-log");
    }
    Detected::NoLog("text without JSON")
}

/// A chat in Markdown, by lines that no other program writes, wherever in the beginning they stand: no line of JSON is one.
fn markdown(head: &[u8]) -> Option<&'static str> {
    let head = &head[..head.len().min(MARKDOWN_LOOKED_AT)];
    head.split(|b| *b == b'\n').find_map(|line| match line {
        line if aider::is_mark(line) => Some("aider"),
        line if specstory::is_mark(line) => Some("specstory"),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
