//! Readers of agent logs, one file per format, and the detection of a format by content.
//!
//! A reader turns logged values into trajectories through a [`reading::Draft`]; it opens no file
//! and knows nothing of threads. A format is told by the shape of the first bytes, never by the
//! file's name. Formats that are known by sight but have no reader yet, and files that only hold
//! labels, are told apart, so that a folder of mixed logs is no error.

use std::collections::HashMap;

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::trajectory::Trajectory;

pub(crate) mod reading;

mod abcd;
mod agentdojo;
mod aider;
mod amp;
mod annotated;
mod atif;
mod chat_lines;
mod claude_code;
mod claude_stream;
mod cline_sdk;
mod codex;
mod r#continue;
mod copilot_cli;
mod crush;
mod cursor;
mod cursor_state;
mod cursor_store;
mod factory_droid;
mod fireact;
mod gemini_cli;
mod goose;
mod goose_lines;
mod hermes;
mod hermes_state;
mod inspect_eval;
mod inspect_json;
mod kimi_cli;
mod kimi_code;
mod langfuse;
mod langsmith;
mod letta;
pub(crate) mod mapping;
mod mini_swe_agent;
mod mint;
mod moatless;
mod openai_agents;
mod openai_chat;
mod opencode;
mod opencode_events;
mod opencode_export;
mod opencode_go;
mod opencode_tree;
mod openhands;
mod openhands_completion;
mod openhands_events;
mod otel;
mod otel_store;
mod pi;
mod qwen_code;
mod roo_code;
mod sharegpt;
mod specstory;
mod swe_corpora;
mod sweagent;
mod taskmaster;
mod tau2_bench;
mod tau_bench;
mod toolbench;
mod trajpress_chat;
mod verifiers;
mod vscode_chat;
mod vscode_journal;
mod who_and_when;

use reading::alike;
use reading::draft::Losses;
use reading::fields;
use reading::list::{self, Items};
use reading::prefix::without_prefixes;
use reading::repair;
use reading::scan::{self, Scanned, scan};
use reading::shape::Shape;
use reading::tables::{Rows, Tables};

/// A reader in the catalogue.
pub struct Entry {
    /// Name on the command line and in the tables.
    pub name: &'static str,
    pub summary: &'static str,
    pub(crate) reading: Reading,
}

/// How a log is read.
#[derive(Clone, Copy)]
pub(crate) enum Reading {
    /// Each JSON value (a document, or a line) is one or several runs.
    Values(fn(&[u8], &mut Sink<'_>) -> anyhow::Result<()>),
    /// A document is a list of runs under the key `list`, and what they share; `first` is the key of the most of that. What
    /// is opened is the document with an empty list.
    Document { list: &'static str, first: &'static str, open: fn(&[u8]) -> anyhow::Result<Box<dyn Runs>> },
    /// Each member of a zip archive for which `is_run` holds is a run; what these share is the first of the members `shared`.
    Archive {
        shared: &'static [&'static str],
        is_run: fn(&str) -> bool,
        open: fn(&[u8]) -> anyhow::Result<Box<dyn Runs>>,
    },
    /// All values of a file are one run. Copies of a session share the origin that the head of the file has;
    /// the second argument says that the head is all of the file.
    Session { open: fn() -> Box<dyn Session>, origin: fn(&[u8], bool) -> Origin },
    /// The same, where the values of one session may also stand in several files, `together` and in this order.
    Sessions {
        open: fn() -> Box<dyn Session>,
        origin: fn(&[u8], bool) -> Origin,
        together: fn(&[&str]) -> Vec<Vec<usize>>,
    },
    /// Several files may be one run: `together` says which of all names, and of each run the file first by which it is told.
    Files {
        together: fn(&[&str]) -> Vec<Vec<usize>>,
        read: fn(&[File], &mut Sink<'_>),
        origin: fn(&[u8], bool) -> Origin,
    },
    /// The file is one text and no JSON.
    Text(fn(&str, &mut Sink<'_>)),
    /// A database, told by its tables, holds runs: each is read from its rows, as an object of lists of them.
    Database {
        is: fn(&Tables) -> bool,
        rows: &'static [Rows],
        read: fn(&[u8], &mut Sink<'_>) -> anyhow::Result<()>,
    },
}

/// A file that is read together with others.
pub(crate) struct File {
    /// Path relative to what was given on the command line.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// What a session and its copies have in common: the uuid of the first thing said.
pub(crate) enum Origin {
    Uuid(String),
    None,
    /// A longer head is needed to tell.
    More,
}

/// Reads the runs of a document.
pub(crate) trait Runs {
    fn run(&self, bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()>;
}

/// Where in a document the items begin of the list under a key: the first that is not nested, or where all are, the first.
pub(crate) fn list_start(text: &[u8], key: &str) -> Option<usize> {
    let quoted = format!("\"{key}\"");
    let lists = memchr::memmem::find_iter(text, quoted.as_bytes()).filter_map(|at| {
        let rest = text[at + quoted.len()..].trim_ascii_start().strip_prefix(b":")?;
        let items = rest.trim_ascii_start().strip_prefix(b"[")?;
        Some((at, text.len() - items.len()))
    });
    let (mut first, mut place, mut depth) = (None, 0, 0i64);
    for (at, start) in lists {
        first = first.or(Some(start));
        while place < at {
            match text[place] {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                b'"' => place = repair::string_end(text, place).unwrap_or(text.len()) - 1,
                _ => {}
            }
            place += 1;
        }
        // In a string it is no key.
        if depth == 1 && place == at {
            return Some(start);
        }
    }
    first
}

/// Reads a text; what is no UTF-8 in it is replaced and told.
pub(crate) fn read_text(bytes: &[u8], sink: &mut Sink<'_>, read: fn(&str, &mut Sink<'_>)) {
    let text = String::from_utf8_lossy(bytes);
    if let std::borrow::Cow::Owned(text) = &text {
        let n = text.matches('\u{fffd}').count();
        sink.losses.add_n("invalid UTF-8 replaced by U+FFFD", n as u64);
    }
    read(&text, sink);
}

/// Reads the values of one file into one run.
pub(crate) trait Session {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()>;
    /// Whether a value is the first one of another session, where logs of several were joined.
    fn is_another(&self, _bytes: &[u8]) -> bool {
        false
    }
    fn finish(self: Box<Self>, sink: &mut Sink<'_>);
}

/// Raised when a reader gives other rows of a file than before: files that were read by an earlier one are read again.
pub const READERS_VERSION: u32 = 5;

/// What tells forks, where a format's files hold whole runs and are no sessions.
pub(crate) static FORKED: &[(&str, fn(&[u8], bool) -> Origin)] =
    &[(opencode_export::ENTRY.name, opencode_export::origin)];

/// All readers.
pub static ALL: &[Entry] = &[
    abcd::ENTRY,
    agentdojo::ENTRY,
    aider::ENTRY,
    amp::ENTRY,
    annotated::ENTRY,
    atif::ENTRY,
    chat_lines::ENTRY,
    claude_code::ENTRY,
    claude_stream::ENTRY,
    cline_sdk::ENTRY,
    codex::ENTRY,
    r#continue::ENTRY,
    copilot_cli::ENTRY,
    crush::ENTRY,
    cursor::ENTRY,
    cursor_state::ENTRY,
    cursor_store::ENTRY,
    factory_droid::ENTRY,
    fireact::ENTRY,
    gemini_cli::ENTRY,
    goose::ENTRY,
    goose_lines::ENTRY,
    hermes::ENTRY,
    hermes_state::ENTRY,
    inspect_eval::ENTRY,
    inspect_json::ENTRY,
    kimi_cli::ENTRY,
    kimi_code::ENTRY,
    langfuse::ENTRY,
    langsmith::ENTRY,
    letta::ENTRY,
    mapping::ENTRY,
    mini_swe_agent::ENTRY,
    mint::ENTRY,
    moatless::ENTRY,
    openai_agents::ENTRY,
    openai_chat::ENTRY,
    opencode::ENTRY,
    opencode_events::ENTRY,
    opencode_export::ENTRY,
    opencode_go::ENTRY,
    opencode_tree::ENTRY,
    openhands::ENTRY,
    openhands_completion::ENTRY,
    openhands_events::ENTRY,
    otel::ENTRY,
    otel_store::ENTRY,
    pi::ENTRY,
    qwen_code::ENTRY,
    roo_code::ENTRY,
    sharegpt::ENTRY,
    specstory::ENTRY,
    swe_corpora::ENTRY,
    sweagent::ENTRY,
    taskmaster::ENTRY,
    tau2_bench::ENTRY,
    tau_bench::ENTRY,
    toolbench::ENTRY,
    trajpress_chat::ENTRY,
    verifiers::ENTRY,
    vscode_chat::ENTRY,
    vscode_journal::ENTRY,
    who_and_when::ENTRY,
];

/// Formats that are recognised and have no reader yet.
pub static NOT_READ: &[(&str, &str)] = &[("parquet", "Parquet tables of other columns")];

/// Finds a reader by name.
pub fn find(name: &str) -> anyhow::Result<&'static Entry> {
    ALL.iter().find(|e| e.name == name).with_context(|| {
        let known: Vec<&str> = ALL.iter().map(|e| e.name).collect();
        format!("unknown format `{name}` (known: auto, {})", known.join(", "))
    })
}

/// What a reader is told about the file it reads from.
#[derive(Clone)]
pub(crate) struct Source {
    /// Path relative to what was given on the command line.
    pub(crate) path: String,
    /// Name of the file without endings, or of a folder that it lies in where that says more.
    pub(crate) stem: String,
    /// Name of the reader.
    pub(crate) format: &'static str,
    /// Objects that one value may hold: each takes memory, however short it is.
    pub(crate) most_objects: u64,
    /// Whether secrets and personal data become placeholders.
    pub(crate) redacts: bool,
    /// Where things stand in a format that no reader knows.
    pub(crate) mapping: Option<&'static mapping::Mapping>,
    /// Whether the format was asked for, and not told by the content.
    pub(crate) is_forced: bool,
}

impl Source {
    pub(crate) fn new(path: &str, format: &'static str) -> Self {
        Source {
            path: path.to_owned(),
            stem: reading::names::session(path).unwrap_or_else(|| reading::names::stem(path)),
            format,
            most_objects: u64::MAX,
            redacts: false,
            mapping: None,
            is_forced: false,
        }
    }

    #[cfg(test)]
    pub(crate) fn test(path: &str, format: &'static str) -> Self {
        Self::new(path, format)
    }
}

/// Where a reader puts what it has read.
pub(crate) struct Sink<'a> {
    pub(crate) source: &'a Source,
    /// The number of the value that is read, where it is an item of a list.
    pub(crate) index: Option<usize>,
    pub(crate) trajectories: Vec<Trajectory>,
    pub(crate) losses: Losses,
    /// Parts of a value that could not be read while the rest could: offset in the value, reason.
    pub(crate) rejects: Vec<(usize, String)>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(source: &'a Source) -> Self {
        Sink { source, index: None, trajectories: Vec::new(), losses: Losses::default(), rejects: Vec::new() }
    }
}

/// The store of files that opencode had before its database.
pub(crate) const TREE: &str = opencode_tree::ENTRY.name;
pub(crate) use opencode_tree::session_of as session_of_tree;

/// What a file of values is that is a log of no format that is known.
pub(crate) const UNKNOWN: &str = "JSON of no known format";

/// What stands before records in the logs of programs.
pub(crate) const WORDS: &str = "words of a log before a record left out";

/// Why so many are not read.
pub(crate) const MANY: &str = "\nhint: --max-memory allows an object per kB of it to one";

/// Reads one value with `read`; if that fails, once more with the text repaired; then without the fields that do not fit,
/// if it is one value, else each of the parts that stand in the same place. What fails still is a reject of the sink.
pub(crate) fn read_repaired(
    bytes: &[u8],
    sink: &mut Sink<'_>,
    mut read: impl FnMut(&[u8], &mut Sink<'_>) -> anyhow::Result<()>,
) {
    let n_objects = reading::scan::count_objects(bytes);
    if n_objects > sink.source.most_objects {
        let size = bytes.len();
        sink.rejects
            .push((0, format!("{size} bytes with {n_objects} objects in one document or session{MANY}")));
        return;
    }
    let Err(first) = read(bytes, sink) else {
        return;
    };
    let start = repair::padding(bytes);
    let has_nul = bytes[..start].contains(&0);
    let n_all = bytes.len();
    let bytes = repair::without_padding(bytes);
    if bytes.is_empty() {
        sink.rejects.push((0, format!("NUL bytes ({start}) and nothing else")));
        return;
    }
    let repaired = repair::repair(bytes);
    let text = repaired.as_ref().map_or(bytes, |(text, _)| text.as_slice());
    let note = |sink: &mut Sink<'_>| {
        if has_nul {
            sink.losses.add("NUL bytes before a value left out");
        }
        if let Some((_, repairs)) = &repaired {
            sink.losses.add_n("invalid UTF-8 replaced by U+FFFD", repairs.invalid_utf8);
            sink.losses.add_n("lone surrogate replaced by U+FFFD", repairs.lone_surrogates);
            sink.losses.add_n("number that is not finite replaced by null", repairs.not_finite);
        }
    };
    if (repaired.is_some() || text.len() < n_all) && read(text, sink).is_ok() {
        note(sink);
        return;
    }
    if repair::is_json(text) {
        match read_leniently(sink, |sink| read(text, sink)) {
            Some(()) => note(sink),
            None => sink.rejects.push((start, reason(&first))),
        }
        return;
    }
    let format = sink.source.format;
    let is_record = |value: &[u8]| matches!(detect(value, true), Detected::Log(e, _) if e.name == format);
    let parts = repair::parts(text, is_record);
    if !parts.iter().any(|part| part.is_whole) {
        sink.rejects.push((start, reason(&first)));
        return;
    }
    note(sink);
    let mut n_values = 0;
    for (i, part) in parts.iter().enumerate() {
        if !part.is_whole && is_of_list(&text[part.range.clone()]) {
            sink.losses.add("comma or bracket of a list beside a value left out");
            continue;
        }
        let next = parts.get(i + 1).is_some_and(|next| next.is_whole);
        if !part.is_whole && next && is_words(&text[part.range.clone()]) {
            sink.losses.add(WORDS);
            continue;
        }
        n_values += 1;
        read_part(&text[part.range.clone()], start + part.range.start, sink, &mut read);
    }
    sink.losses.add_n("values not separated by a line end", n_values - 1);
}

/// Whether nothing but the punctuation of a list stands there.
fn is_of_list(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| b",[]".contains(b) || b.is_ascii_whitespace())
}

/// Whether they can be no part of JSON.
fn is_words(bytes: &[u8]) -> bool {
    bytes.iter().any(u8::is_ascii_alphabetic) && !bytes.iter().any(|b| b"{}[]\"\\".contains(b))
}

/// Reads one of the values that stand in one place.
fn read_part(
    value: &[u8],
    offset: usize,
    sink: &mut Sink<'_>,
    read: &mut impl FnMut(&[u8], &mut Sink<'_>) -> anyhow::Result<()>,
) {
    if let Err(error) = read(value, sink)
        && read_leniently(sink, |sink| read(value, sink)).is_none()
    {
        sink.rejects.push((offset, reason(&error)));
    }
}

/// Reads without what does not fit; none if that leaves no run.
fn read_leniently<T>(
    sink: &mut Sink<'_>,
    read: impl FnOnce(&mut Sink<'_>) -> anyhow::Result<T>,
) -> Option<T> {
    let n_empty = |sink: &Sink<'_>| sink.losses.0.get(reading::draft::EMPTY_RUN).copied().unwrap_or(0);
    let before = (n_empty(sink), sink.trajectories.len());
    let (result, odd) = fields::leniently(|| read(sink));
    let value = result.ok().filter(|_| n_empty(sink) == before.0 || sink.trajectories.len() > before.1)?;
    sink.losses.merge(&odd);
    Some(value)
}

/// Reads an item of a list in a value; `offset` says where it stands, should it be a reject.
pub(crate) fn read_item<T: DeserializeOwned>(
    item: &RawValue,
    offset: usize,
    sink: &mut Sink<'_>,
    finish: impl FnOnce(T, &mut Sink<'_>),
) {
    let error = match serde_json::from_str(item.get()) {
        Ok(run) => return finish(run, sink),
        Err(error) => anyhow::Error::from(error),
    };
    let read = |sink: &mut Sink<'_>| {
        finish(serde_json::from_str(item.get())?, sink);
        Ok(())
    };
    if read_leniently(sink, read).is_none() {
        sink.rejects.push((offset, reason(&error)));
    }
}

fn reason(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    if text.contains("recursion limit exceeded") {
        return format!("nested deeper than 128 levels: {text}");
    }
    text
}

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
    /// One of [`NOT_READ`].
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

/// How many lines of a file are looked at.
pub(crate) const LINES_LOOKED_AT: usize = 20;

/// So many kinds of lines are told apart.
pub(crate) const MOST_KINDS: usize = 10_000;

/// How much of a file is looked through for the first line with a value, where it does not begin with one.
const NOISE_LOOKED_THROUGH: usize = 4 << 20;

/// How much of a file is looked through for the marks of a chat in Markdown.
const MARKDOWN_LOOKED_AT: usize = 64 << 10;

/// So many bytes without a blank before the first bracket are damage, and more are text.
const MAX_STRAY: usize = 16;

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

/// Whether the values of a format may stand one a line.
fn is_of_lines(entry: &Entry) -> bool {
    matches!(entry.reading, Reading::Values(_) | Reading::Session { .. } | Reading::Sessions { .. })
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

/// Where a bracket stands behind a few stray bytes; of several the last one before a key or an item. No quote is stray but a
/// first byte.
pub(crate) fn behind_stray(head: &[u8]) -> Option<usize> {
    let stray = &head[..head.len().min(MAX_STRAY)];
    let n = stray.iter().skip(1).position(|b| *b == b'"').map_or(stray.len(), |at| at + 1);
    let is_begin = |at: &usize| {
        let next = head[at + 1..].trim_ascii_start();
        match stray[*at] {
            b'{' => next.starts_with(b"\""),
            b'[' => next.starts_with(b"{") && next[1..].trim_ascii_start().starts_with(b"\""),
            _ => false,
        }
    };
    (1..n).find(is_begin)
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
            lines.whole.iter().any(|line| is_object(line))
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

/// Of an object in which a log stands under a key: where, as `jq` says it, and the format.
pub(crate) fn envelope(head: &[u8], whole: bool) -> Option<(String, &'static str)> {
    let head = &head[repair::padding(head)..];
    let fields = scan::fields(head).into_iter().take(LINES_LOOKED_AT);
    fields.filter(|(_, value)| is_json(value)).find_map(|(key, value)| {
        let end = repair::value_end(value, 0);
        match detect(&value[..end.unwrap_or(value.len())], whole || end.is_some()) {
            Detected::Log(entry, _) => Some((format!(".{}", String::from_utf8_lossy(key)), entry.name)),
            _ => None,
        }
    })
}

fn shape_of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Shape {
    let mut shape = Shape::default();
    for line in lines {
        shape.add(line, 0);
    }
    shape
}

/// The format of lines, of which the first ones have this shape. A torn one among them has keys where they do not belong; so
/// where the first one alone does not tell the same, whole ones tell it. Any number of strange ones may stand before.
fn by_lines(lines: &Beginning<'_>, shape: &Shape, head: &[u8], whole: bool) -> Detected {
    let of = |shape: &Shape| by_shape(shape, head, Layout::Lines);
    let name = |found: &Detected| match found {
        Detected::Log(entry, _) => Some(entry.name),
        _ => None,
    };
    let all = of(shape);
    // A value with something behind it may be the end of a torn one.
    let is_sound = |line: &&[u8]| is_json(line) && scan(line, 0) == Scanned::Ended(line.len());
    let first = lines.whole.iter().take(1).copied().filter(is_sound);
    if name(&all).is_some() && name(&all) == name(&of(&shape_of(first))) {
        return all;
    }
    let known = |found: Detected| (!matches!(found, Detected::NoLog(_))).then_some(found);
    let sound = || lines.whole.iter().copied().filter(is_sound);
    let found = known(of(&shape_of(sound().chain(lines.cut.filter(|line| is_json(line))))))
        .or_else(|| known(all))
        .or_else(|| by_later_lines(head, whole))
        .unwrap_or(Detected::NoLog(UNKNOWN));
    first_of_several(&found, sound()).unwrap_or(found)
}

/// The format of the first lines, where the lines together look like another one: logs of several formats may have been joined.
/// A line that is alone may be damaged.
fn first_of_several<'a>(found: &Detected, lines: impl Iterator<Item = &'a [u8]>) -> Option<Detected> {
    let Detected::Log(entry, _) = found else { return None };
    let told = lines.filter_map(|line| match by_shape(&shape_of([line].into_iter()), line, Layout::Lines) {
        told @ Detected::Log(other, _) => {
            Some((told, other.name, alike::is_one(entry.name, other.name, line)))
        }
        _ => None,
    });
    let told: Vec<(Detected, &str, bool)> = told.collect();
    let (_, first, is_one) = told.first()?;
    let n = told.iter().filter(|(_, name, _)| name == first).count();
    let is_first = !is_one && (n > 1 || !told.iter().any(|(.., is_one)| *is_one));
    told.into_iter().next().filter(|_| is_first).map(|(told, ..)| told)
}

/// How many records of each kind were looked at: of those that begin alike the first ones are enough.
#[derive(Default)]
struct Kinds(HashMap<u64, usize>);

impl Kinds {
    fn is_looked_at(&mut self, record: &[u8]) -> bool {
        let (kind, is_full) = (scan::kind(record), self.0.len() >= MOST_KINDS);
        match self.0.get_mut(&kind) {
            Some(n) => {
                *n += 1;
                *n <= LINES_LOOKED_AT
            }
            None => is_full || self.0.insert(kind, 1).is_none(),
        }
    }
}

/// The same of all lines, a few at a time.
fn by_later_lines(head: &[u8], whole: bool) -> Option<Detected> {
    let end = if whole { head.len() } else { memchr::memrchr(b'\n', head)? };
    let mut kinds = Kinds::default();
    let lines = head[..end].split(|b| *b == b'\n').map(repair::without_padding);
    let mut lines = lines.filter(|line| kinds.is_looked_at(line) && is_object(line));
    loop {
        let some: Vec<&[u8]> = lines.by_ref().take(LINES_LOOKED_AT).collect();
        if some.is_empty() {
            return None;
        }
        if let found @ Detected::Log(..) = by_shape(&shape_of(some.into_iter()), head, Layout::Lines) {
            return Some(found);
        }
    }
}

/// A log behind a few stray bytes in the same line.
fn log_behind_stray(head: &[u8], whole: bool) -> Option<Detected> {
    let line = head.split(|b| *b == b'\n').next().unwrap_or(head);
    let at = line.iter().take(MAX_STRAY + 1).position(|b| b"{[".contains(b)).filter(|at| *at > 0)?;
    if head[..at].iter().any(u8::is_ascii_whitespace) {
        return None;
    }
    match detect(&head[at..], whole) {
        found @ Detected::Log(..) => Some(found),
        _ => None,
    }
}

/// Whether the values of a file may stand in a list.
fn may_be_items(layout: Layout, head: &[u8]) -> bool {
    let is_list = head.first() == Some(&b'[');
    match layout {
        Layout::Document => is_list || is_broken(head),
        _ => is_list && is_value(head.split(|b| *b == b'\n').next().unwrap_or(head)),
    }
}

fn is_broken(head: &[u8]) -> bool {
    matches!(scan(head, 0), Scanned::Broken(_))
}

/// The format of a document that is broken before its list of runs begins, told by its keys alone.
fn by_keys(head: &[u8]) -> Option<Detected> {
    by_list(head).filter(|_| head[0] == b'{')
}

/// The same of a text that may lack its beginning.
fn by_list(head: &[u8]) -> Option<Detected> {
    let is_it = |entry: &&Entry| match entry.reading {
        Reading::Document { list, first, .. } => {
            let first = format!("\"{first}\"");
            list_start(head, list).is_some() && memchr::memmem::find(head, first.as_bytes()).is_some()
        }
        _ => false,
    };
    ALL.iter().find(is_it).map(|entry| Detected::Log(entry, Layout::Document))
}

/// The format of a list of values, told by the first ones that have one; none if it is no list of runs.
fn by_items(head: &[u8], whole: bool) -> Option<Detected> {
    // What stands in an item that goes on behind the head is no item.
    let first = memchr::memchr(b'{', head).filter(|_| !whole);
    if first.is_some_and(|at| scan(head, at) == Scanned::Open) {
        return first_item_is_cut(head);
    }
    let items = Items::new(Box::new(std::io::Cursor::new(head.to_vec())), u64::MAX);
    let items = items.filter_map(|piece| match piece.content {
        list::Content::Item(item) => Some(item),
        _ => None,
    });
    let (mut kinds, mut n_items) = (Kinds::default(), 0);
    let mut items = items.filter(|item| {
        n_items += 1;
        kinds.is_looked_at(item)
    });
    loop {
        let some: Vec<Vec<u8>> = items.by_ref().take(LINES_LOOKED_AT).collect();
        if some.is_empty() {
            break;
        }
        let some = || some.iter().map(Vec::as_slice);
        let found = by_shape(&shape_of(some()), head, Layout::Items);
        match first_of_several(&found, some()).unwrap_or(found) {
            Detected::Log(entry, Layout::Items) => return Some(Detected::Log(entry, Layout::Items)),
            // The records of a session, which elsewhere stand a line each.
            Detected::Log(entry, Layout::Lines) if is_of_lines(entry) => {
                return Some(Detected::Log(entry, Layout::Items));
            }
            _ => {}
        }
    }
    drop(items);
    if n_items == 0 && !whole { first_item_is_cut(head) } else { None }
}

/// The first item may be longer than the head; a list of lists is none of values.
fn first_item_is_cut(head: &[u8]) -> Option<Detected> {
    let first = head.strip_prefix(b"[").map(<[u8]>::trim_ascii_start)?.first();
    first.is_none_or(|b| *b == b'{').then_some(Detected::More)
}

/// A list or document whose beginning is damaged: text comes before the first whole item, in the same line, or over
/// lines that can only be JSON.
fn text_before_items(head: &[u8], whole: bool) -> Detected {
    match no_json(head) {
        Detected::NoLog(what) => {
            let is_json = is_cut_json(head);
            let line = &head[..memchr::memchr(b'\n', head).unwrap_or(head.len())];
            let text = if is_json { head } else { line };
            let begins = is_json || memchr::memmem::find(text, b"{\"").is_some();
            match begins.then(|| by_list(text).or_else(|| by_items(text, whole))).flatten() {
                Some(log @ Detected::Log(..)) => log,
                Some(Detected::More) if is_json && !whole => Detected::More,
                _ => match log_behind_stray(head, whole) {
                    Some(found) => found,
                    None if is_json && whole => Detected::Bad("JSON whose beginning is missing"),
                    None if is_json => Detected::More,
                    None => Detected::NoLog(what),
                },
            }
        }
        known => known,
    }
}

/// Whether of the whole lines but the first three quarters and more can only be parts of JSON that goes over several: keys with
/// values, or brackets.
fn is_cut_json(head: &[u8]) -> bool {
    let is_key = |line: &[u8]| line.starts_with(b"\"") && memchr::memmem::find(line, b"\":").is_some();
    let is_one = |line: &[u8]| is_key(line) || line.iter().all(|b| b"{}[],".contains(b));
    let n_lines = memchr::memchr_iter(b'\n', head).count();
    let lines = head.split(|b| *b == b'\n').take(n_lines).skip(1).map(<[u8]>::trim_ascii);
    let (mut n, mut n_json) = (0, 0);
    for line in lines.filter(|line| !line.is_empty()).take(LINES_LOOKED_AT) {
        n += 1;
        n_json += usize::from(is_one(line));
    }
    n > 1 && 4 * n_json >= 3 * n
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

fn is_json(line: &[u8]) -> bool {
    matches!(line.first(), Some(b'{' | b'['))
}

/// Whether a line begins with a whole object or list.
fn is_value(line: &[u8]) -> bool {
    is_json(line) && matches!(scan(line, 0), Scanned::Ended(_))
}

/// Whether a line begins with a whole object.
pub(crate) fn is_object(line: &[u8]) -> bool {
    line.starts_with(b"{\"") && is_value(line)
}

/// Whether a line is part of a value that goes over several.
fn is_part(line: &[u8]) -> bool {
    matches!(line.last(), Some(b',' | b'[' | b'{' | b':'))
        || matches!(line.first(), Some(b',' | b']' | b'}' | b'"'))
}

/// The lines by which a file is told: its first ones, and where these are all broken, or text of no known
/// kind, those from the first object on.
struct Beginning<'a> {
    /// Those that end in the head.
    whole: Vec<&'a [u8]>,
    /// The one in which the head ends, if it is looked at.
    cut: Option<&'a [u8]>,
}

impl<'a> Beginning<'a> {
    fn of(head: &'a [u8], is_all: bool) -> Self {
        let end = if is_all { head.len() } else { memchr::memrchr(b'\n', head).map_or(0, |at| at + 1) };
        let (head, cut) = head.split_at(end);
        // Blocks that a file system lost are lines of NULs, or stand before a line.
        let mut rest = head.split(|b| *b == b'\n').map(repair::without_padding).filter(|l| !l.is_empty());
        let mut whole: Vec<&[u8]> = rest.by_ref().take(LINES_LOOKED_AT + 1).collect();
        let may_come =
            whole.first().is_some_and(|l| is_json(l) || matches!(no_json(head), Detected::NoLog(_)));
        if may_come && !whole.iter().any(|l| is_object(l)) {
            whole.extend(rest.by_ref().find(|l| is_object(l)));
            whole.extend(rest.take(LINES_LOOKED_AT));
        }
        let cut = repair::without_padding(cut);
        Beginning { cut: (whole.len() <= LINES_LOOKED_AT && !cut.is_empty()).then_some(cut), whole }
    }

    fn all(&self) -> impl Iterator<Item = &'a [u8]> {
        self.whole.iter().copied().chain(self.cut)
    }
}

/// One value a line, if the first line is a whole value and more follows, or if the first value is broken and more
/// lines are objects than parts of a larger value; none if a longer head is needed to tell.
fn layout(lines: &Beginning<'_>, head: &[u8], is_all: bool) -> Option<Layout> {
    let Some((first, others)) = lines.whole.split_first() else {
        return match lines.cut {
            // One line longer than the head: as a document it would be held whole, as a line too.
            Some([b'{', ..]) => Some(Layout::Lines),
            Some([b'[', ..]) => Some(Layout::Document),
            Some(_) if head.len() < NOISE_LOOKED_THROUGH => None,
            Some(_) => Some(Layout::Document),
            None => Some(Layout::Lines),
        };
    };
    if let Scanned::Ended(end) = scan(first, 0)
        && is_json(first)
    {
        let ends = end == first.len();
        let is_lines = lines.all().count() > 1 || !ends || first[0] == b'{';
        return Some(if is_lines { Layout::Lines } else { Layout::Document });
    }
    let n_objects = others.iter().filter(|l| is_object(l)).count();
    let may_come = !is_all && head.len() < NOISE_LOOKED_THROUGH;
    if !is_json(first) {
        return match n_objects {
            0 if may_come => None,
            0 => Some(Layout::Document),
            _ => Some(Layout::Lines),
        };
    }
    let n_alone = others.iter().filter(|l| is_object(l) && l.ends_with(b"}")).count();
    let n_parts = others.iter().filter(|l| is_part(l)).count();
    match scan(head, 0) {
        Scanned::Ended(_) => Some(Layout::Document),
        _ if n_alone > n_parts => Some(Layout::Lines),
        Scanned::Open if n_parts > 0 || is_all || first[0] == b'[' => Some(Layout::Document),
        // The value may yet turn out to be broken.
        Scanned::Open => None,
        Scanned::Broken(_) if n_parts == 0 && may_come => None,
        Scanned::Broken(_) => Some(Layout::Document),
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

fn reader(name: &str, layout: Layout) -> Detected {
    let entry = ALL.iter().find(|e| e.name == name).expect("detection names readers of the catalogue");
    Detected::Log(entry, layout)
}

/// The rules, the most telling first. Paths are relative to a value, for arrays to the array.
fn by_shape(s: &Shape, head: &[u8], layout: Layout) -> Detected {
    agents(s, layout)
        .or_else(|| sessions(s, head, layout))
        .or_else(|| runs(s, head, layout))
        .or_else(|| further(s, layout))
        .or_else(|| labels(s))
        .unwrap_or(Detected::NoLog(UNKNOWN))
}

/// Sessions of command line agents but Claude Code.
fn agents(s: &Shape, layout: Layout) -> Option<Detected> {
    if s.has("payload")
        && s.any(|p| {
            ["session_meta", "response_item", "event_msg", "turn_context", "compacted"]
                .iter()
                .any(|t| p.strip_prefix("type=") == Some(t))
        })
    {
        return Some(reader("codex", Layout::Lines));
    }
    let is_old = s.has_all(&["id", "timestamp", "instructions"]) && !s.has("payload");
    let is_old_item = s.has_any(&["type=message", "type=reasoning", "type=function_call"]);
    if s.has_any(&["record_type=state", "type=thread.started"]) || is_old && is_old_item {
        return Some(reader("codex", Layout::Lines));
    }
    if s.has("type=session") && s.has_any(&["cwd", "timestamp"]) || is_pi(s) {
        return Some(reader("pi", Layout::Lines));
    }
    let is_gemini_line =
        s.has_any(&["$set.lastUpdated", "$set.messages", "$rewindTo"]) || s.has_all(&["id", "type=gemini"]);
    let is_asked = s.has_all(&["id", "timestamp", "type=user", "content"])
        && !s.has_any(&["message", "uuid", "parentId", "sessionId", "session_id", "role", "data"]);
    let is_content = ["[]", "history[]"]
        .iter()
        .any(|list| s.has(&format!("{list}.role")) && s.has(&format!("{list}.parts")));
    if s.has_all(&["sessionId", "projectHash"]) || is_gemini_line || is_asked || is_content {
        return Some(reader("gemini-cli", layout));
    }
    let is_copilot =
        |p: &str| p.starts_with("type=session.") || p == "type=user.message" || p == "type=assistant.message";
    let is_event = |p: &str| p.strip_prefix("type=").is_some_and(|kind| kind.contains('.'));
    let is_of_copilot = s.any(is_copilot) || s.any(is_event) && !s.has("aggregate_id");
    if s.has_all(&["data", "id", "timestamp"]) && is_of_copilot {
        return Some(reader("copilot-cli", Layout::Lines));
    }
    let is_kimi = |p: &str| p.starts_with("type=context.append_") || p == "type=turn.prompt";
    if s.any(is_kimi)
        || s.has_all(&["type=metadata", "protocol_version"])
        || s.has("time") && s.any(is_event) && !s.has_any(&["data", "timestamp", "id"])
    {
        return Some(reader("kimi-code", Layout::Lines));
    }
    let is_wire = ["TurnBegin", "StepBegin", "ContentPart", "ToolCall", "StatusUpdate"];
    let is_wire = s.has("timestamp") && is_wire.iter().any(|kind| s.has(&format!("message.type={kind}")));
    let is_context =
        ["_system_prompt", "_checkpoint", "_usage"].iter().any(|role| s.has(&format!("role={role}")));
    if is_wire || is_context {
        return Some(reader("kimi-cli", Layout::Document));
    }
    let is_qwen = s.has("message.parts") && !s.has("message.content") || s.has("systemPayload");
    if s.has_all(&["uuid", "parentUuid", "sessionId"]) && is_qwen {
        return Some(reader("qwen-code", Layout::Lines));
    }
    None
}

/// A message of pi, where the line that begins its session is damaged or gone.
fn is_pi(s: &Shape) -> bool {
    let own = ["role=toolResult", "role=bashExecution", "content[].type=toolCall", "stopReason"];
    let is_old = s.has_all(&["timestamp", "message.role", "message.content"])
        && !s.has_any(&["id", "uuid", "session_id", "sessionId"]);
    s.has("type=message") && (is_old || own.iter().any(|own| s.has(&format!("message.{own}"))))
}

/// Lines of sessions, each told by the records of what was said: the line that begins a session may be damaged or gone.
fn sessions(s: &Shape, head: &[u8], layout: Layout) -> Option<Detected> {
    if s.has_all(&["accountKey", "windowKind", "usedPercent"]) {
        return Some(Detected::Label("codex-usage"));
    }
    let is_streamed = s.has_all(&["text", "role", "session_id"]);
    let is_said = s.has_all(&["id", "timestamp", "message.role", "message.content[].type"]);
    if s.has("type=message") && (is_streamed || is_said)
        || s.has_any(&["type=session_start", "type=todo_state", "type=compaction_state"])
    {
        return Some(reader("factory-droid", Layout::Lines));
    }
    let claude_line = s.has_all(&["sessionId", "uuid", "type"]) && s.has_any(&["message", "data", "subtype"]);
    let claude_meta = ["type=file-history-snapshot", "type=queue-operation"];
    if claude_line || s.has_any(&claude_meta) || s.has_all(&["type=summary", "leafUuid"]) {
        return Some(reader("claude-code", if layout == Layout::Items { layout } else { Layout::Lines }));
    }
    let is_said = s.has_any(&["type=user", "type=assistant"]) && s.has("message.content");
    if s.has("session_id")
        && (s.has("type=system")
            || s.has_all(&["type=result", "subtype"])
            || s.has_all(&["message", "parent_tool_use_id"])
            || is_said)
    {
        return Some(reader("claude-stream", if layout == Layout::Items { layout } else { Layout::Lines }));
    }
    if s.has_all(&["aggregate_id", "seq", "type", "data"]) {
        return Some(reader("opencode-events", layout));
    }
    if s.has_all(&["sessionId", "agent", "version", "messages"]) {
        return Some(reader("cline-sdk", Layout::Document));
    }
    if s.has("requests") && s.has_any(&["responderUsername", "initialLocation", "requests[].requestId"]) {
        return Some(reader("vscode-chat", layout));
    }
    if layout == Layout::Lines && s.has_all(&["kind", "v"]) && s.has_any(&["v.requests", "v.version", "k"]) {
        return Some(reader("vscode-journal", layout));
    }
    if s.has_all(&["role", "message.content"]) && !s.has_any(&["type", "uuid"]) && layout == Layout::Lines {
        return Some(reader("cursor", layout));
    }
    let is_roo = s.has("[].ts") || memchr::memmem::find(head, b"<environment_details>").is_some();
    if s.has_all(&["[].role", "[].content"]) && is_roo
        || s.has_all(&["[].ts", "[].text"]) && s.has_any(&["[].type=say", "[].type=ask"])
    {
        return Some(reader("roo-code", Layout::Document));
    }
    let is_row =
        s.has("content_json") || layout == Layout::Lines && s.has_all(&["created", "content[].type"]);
    if s.has("role") && (is_row || s.has_all(&["working_dir", "description"])) {
        return Some(reader("goose-lines", Layout::Lines));
    }
    if s.has_all(&["info", "messages[].info", "messages[].parts"]) {
        return Some(reader("opencode-export", layout));
    }
    let is_opencode = s.has_all(&["id", "time"]) && !s.has("messages");
    if is_opencode && (s.has_all(&["sessionID", "role"]) || s.has_all(&["projectID", "title"]))
        || s.has_all(&["id", "messageID", "type"])
    {
        return Some(reader("opencode-tree", Layout::Document));
    }
    if ["", "[].", "post[].", "patch[].", "runs[]."].iter().any(|at| s.has(&format!("{at}dotted_order"))) {
        return Some(reader("langsmith", layout));
    }
    let observations = ["", "trace."].iter().any(|at| {
        ["parentObservationId", "traceId"].iter().any(|key| s.has(&format!("{at}observations[].{key}")))
    });
    if observations {
        return Some(reader("langfuse", layout));
    }
    if s.any(|p| ["object=trace", "object=trace.span"].contains(&p)) {
        return Some(reader("openai-agents", Layout::Lines));
    }
    if s.has_any(&["resourceSpans", "resource_spans"])
        || is_span(s, "")
        || is_span(s, "[].")
        || is_span(s, "spans[].")
    {
        return Some(reader("otel", layout));
    }
    None
}

/// Events of OpenHands, of the SDK (by `kind`) and of the first line.
fn openhands_events(s: &Shape, layout: Layout) -> Option<Detected> {
    let is_kind = |p: &str| p.ends_with("Event") || p.ends_with("=Condensation");
    let event = |at: &str| {
        s.any(|p| p.strip_prefix(at).is_some_and(|p| p.starts_with("kind=")) && is_kind(p))
            && s.has(&format!("{at}source"))
            || s.has(&format!("{at}source"))
                && (s.has(&format!("{at}action")) || s.has(&format!("{at}observation")))
    };
    if layout != Layout::Items && event("") {
        return Some(reader("openhands-events", layout));
    }
    (event("[].") || event("[][].")).then(|| reader("openhands", Layout::Document))
}

/// Documents and lines that hold runs.
fn runs(s: &Shape, head: &[u8], layout: Layout) -> Option<Detected> {
    if s.any(|p| p.starts_with("schema_version=ATIF-v")) {
        return Some(reader("atif", layout));
    }
    if s.has("messages[].messageId") || s.has("messages[].content[].toolUseID") {
        return Some(reader("amp", layout));
    }
    if s.has_all(&["sessionId", "history"]) && s.has_any(&["workspaceDirectory", "history[].message"]) {
        return Some(reader("continue", layout));
    }
    if s.has_all(&["session_id", "messages"]) && s.has_any(&["session_start", "platform"])
        || is_hermes(s, head)
    {
        return Some(reader("hermes", layout));
    }
    if s.has_all(&["suite_name", "pipeline_name", "messages"]) {
        return Some(reader("agentdojo", layout));
    }
    if s.has("agents[].in_context_message_ids") || s.has_all(&["agents[].messages", "blocks"]) {
        return Some(reader("letta", layout));
    }
    if s.has("simulations") && s.has_any(&["info", "tasks", "simulations[].messages"]) {
        return Some(reader("tau2-bench", Layout::Document));
    }
    // A run of a document whose beginning is damaged.
    if s.has_all(&["traj", "gt", "pred"]) {
        return Some(reader("fireact", layout));
    }
    if s.has_all(&["traj", "reward"]) && (layout == Layout::Items || s.has("task_id")) {
        return Some(reader("tau-bench", layout));
    }
    if s.has_all(&["mistake_step", "history"]) || s.has_all(&["question_ID", "history"]) {
        return Some(reader("who-and-when", layout));
    }
    if s.any(|p| p.starts_with("trajectory_format=mini-swe-agent"))
        || s.has_all(&["messages", "info"])
            && s.has_any(&["info.mini_version", "info.exit_status", "info.model_stats"])
    {
        return Some(reader("mini-swe-agent", layout));
    }
    if s.has_all(&["trajectory[].action", "trajectory[].observation"])
        || s.has_all(&["history[].role", "history[].agent"])
    {
        return Some(reader("sweagent", layout));
    }
    if s.has_all(&["trajectory", "history", "info"])
        || s.has_any(&["attempts[].trajectory", "attempts[].history"])
    {
        return Some(reader("sweagent", layout));
    }
    if s.has_all(&["issue", "git_patch", "history"]) {
        return Some(reader("openhands", layout));
    }
    // Some evaluations call the instance `id`.
    let openhands =
        s.has_any(&["metadata.agent_class", "history[].source", "history[][].source", "test_result"]);
    if s.has_all(&["instance_id", "history"])
        || s.has_any(&["instance_id", "id"])
            && (openhands && s.has("history") || s.has_all(&["test_result", "instruction"]))
    {
        return Some(reader("openhands", layout));
    }
    if s.has("trajpress") {
        return Some(reader("trajpress-chat", layout));
    }
    if s.has_all(&["messages", "annotations"]) {
        return Some(reader("annotated", layout));
    }
    if s.has("messages")
        && (s.has_all(&["response", "kwargs"])
            || s.has("fncall_messages")
            || s.has_all(&["response", "cost", "timestamp"]))
    {
        let layout = if layout == Layout::Document { layout } else { Layout::Lines };
        return Some(reader("openhands-completion", layout));
    }
    if s.has("messages[].role") {
        return Some(reader("openai-chat", layout));
    }
    if s.has("object=response") || lists_items(s) {
        return Some(reader("openai-chat", layout));
    }
    if s.has_all(&["role", "content"]) && layout == Layout::Lines {
        return Some(reader("chat-lines", layout));
    }
    if s.has_all(&["[].role", "[].content"]) || s.has_all(&["role", "content"]) && layout == Layout::Document
    {
        let early = memchr::memmem::find(head, b"```bash\\n").is_some()
            && memchr::memmem::find(head, b"\"tool_calls\"").is_none();
        return Some(reader(if early { "mini-swe-agent" } else { "openai-chat" }, layout));
    }
    None
}

/// A span of OpenTelemetry, as the SDKs write it.
fn is_span(s: &Shape, at: &str) -> bool {
    let has = |key: &str| s.has(&format!("{at}{key}"));
    has("attributes")
        && has("name")
        && ["spanContext", "spanId", "context.span_id", "span_id"].iter().any(|key| has(key))
}

/// Conversations in the style of ShareGPT, where calls are tags.
fn is_hermes(s: &Shape, head: &[u8]) -> bool {
    s.has("conversations[].from")
        && [&b"<tool_call>"[..], b"<tool_response>"]
            .iter()
            .any(|tag| memchr::memmem::find(head, tag).is_some())
}

/// Runs of further agents and sets, which are known but not read.
fn further(s: &Shape, layout: Layout) -> Option<Detected> {
    if s.has_all(&["prompt", "completion"]) {
        return Some(reader("verifiers", layout));
    }
    if s.has_any(&["conversations[].from", "[].conversations[].from"]) {
        return Some(reader("sharegpt", layout));
    }
    if s.has_all(&["state", "task"]) && s.has_any(&["state.history", "state.finished"]) {
        return Some(reader("mint", layout));
    }
    if s.has_all(&["eval", "status"]) || s.has_all(&["eval", "samples"]) {
        return Some(reader("inspect-json", Layout::Document));
    }
    if s.has_all(&["win", "tree"]) || s.has_all(&["answer_generation"]) {
        return Some(reader("toolbench", layout));
    }
    if s.has_any(&["[].convo_id", "convo_id"]) {
        return Some(reader("abcd", layout));
    }
    if s.has_any(&["[].utterances", "utterances"]) {
        return Some(reader("taskmaster", layout));
    }
    if s.has("transitions") || s.has_all(&["nodes", "metadata"]) {
        return Some(reader("moatless", layout));
    }
    if s.any(|p| p.ends_with(".traj")) && s.any(|p| p.ends_with(".gt")) {
        return Some(reader("fireact", layout));
    }
    let is_row = s.has_any(&["instance_id", "traj_id", "trajectory_id"]);
    let is_text = s.has("messages") && !s.any(|p| p.starts_with("messages["));
    if is_row && (s.has("trajectory[].role") || is_text) {
        return Some(reader("swe-corpora", layout));
    }
    openhands_events(s, layout)
}

/// Labels.
fn labels(s: &Shape) -> Option<Detected> {
    if s.has("tokenUsage") && s.has_any(&["autonomyMode", "providerLock", "tokenUsage.thinkingTokens"]) {
        return Some(Detected::Label("factory-droid-settings"));
    }
    if s.has_all(&["checkpoint_id", "session_id"]) {
        return Some(Detected::Label("entire-checkpoint"));
    }
    if s.has_all(&["agent_class", "llm_config"]) {
        return Some(Detected::Label("openhands-metadata"));
    }
    if s.has("resolved_ids") {
        return Some(Detected::Label("swebench-run-report"));
    }
    if s.has("resolved") && s.has_any(&["no_generation", "no_logs", "generated", "with_logs", "applied"]) {
        return Some(Detected::Label("swebench-results"));
    }
    if s.any(|p| p.ends_with(".patch_exists")) || s.any(|p| p.ends_with(".tests_status")) {
        return Some(Detected::Label("swebench-instance-report"));
    }
    if s.any(|p| p.ends_with(".resolved")) && s.any(|p| p.ends_with(".total")) {
        return Some(Detected::Label("swebench-summary"));
    }
    if s.has_any(&["model_patch", "[].model_patch"]) {
        return Some(Detected::Label("swebench-predictions"));
    }
    None
}

/// Whether messages without roles, or items of the Responses API, stand in a list where a run may have them.
fn lists_items(s: &Shape) -> bool {
    const TYPES: [&str; 6] = ["message", "function_call", "function_call_output", "reasoning", "human", "ai"];
    let lists = ["messages[]", "[]", "input[]", "output[]"];
    let holds = |list: &&str| TYPES.iter().any(|t| has_type(s, list, t));
    lists.iter().any(holds) || s.has_all(&["input[].role", "input[].content"])
}

fn has_type(s: &Shape, list: &str, kind: &str) -> bool {
    s.has(&format!("{list}.type={kind}")) && !s.has(&format!("{list}.payload"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> String {
        match detect(text.as_bytes(), true) {
            Detected::Log(e, layout) => format!("{} {layout:?}", e.name),
            Detected::NotRead(n) => format!("not read: {n}"),
            Detected::Table => "table".to_owned(),
            Detected::Label(n) => format!("label: {n}"),
            Detected::NoLog(n) => format!("no log: {n}"),
            Detected::Bad(n) => format!("bad: {n}"),
            Detected::Database => "database".to_owned(),
            Detected::More => "more".to_owned(),
        }
    }

    #[test]
    fn formats_are_told_by_content() {
        let chat = r#"{"messages":[{"role":"user","content":"x"}]}"#;
        assert_eq!(name(chat), "openai-chat Lines");
        assert_eq!(name(&format!("{chat}\n{chat}\n")), "openai-chat Lines");
        assert_eq!(name(&format!("[{chat}]")), "openai-chat Items");
        assert_eq!(
            name("{\n \"messages\": [\n  {\"role\": \"user\", \"content\": \"x\"}\n ]\n}"),
            "openai-chat Document"
        );
        assert_eq!(name(&format!("\u{feff}{chat}\r\n\r\n{chat}")), "openai-chat Lines");
        assert_eq!(name(&format!("{{\"broken\n{chat}\n")), "openai-chat Lines");
        assert_eq!(name(r#"[{"role":"user","content":"x"}]"#), "openai-chat Document");
        assert_eq!(
            name(r#"[{"role":"assistant","content":"do\n```bash\nls\n```"}]"#),
            "mini-swe-agent Document"
        );
        assert_eq!(name(r#"{"messages":[{"role":"user"}],"annotations":{}}"#), "annotated Lines");
        assert_eq!(name(r#"{"schema_version":"ATIF-v1.7","steps":[]}"#), "atif Lines");
        assert_eq!(name(r#"{"resolved_ids":[],"schema_version":2}"#), "label: swebench-run-report");
        assert_eq!(name("{\"type\":\"summary\",\"leafUuid\":\"1\"}\n"), "claude-code Lines");
        assert_eq!(name("{\"role\":\"user\",\"content\":\"x\"}\n"), "chat-lines Lines");
        assert_eq!(
            name(r#"{"messages":[{"type":"reasoning"},{"type":"function_call"}]}"#),
            "openai-chat Lines"
        );
        assert_eq!(name(r#"{"input":"q","output":[{"type":"message","content":[]}]}"#), "openai-chat Lines");
        assert_eq!(name(r#"[{"type":"function_call","call_id":"c"}]"#), "openai-chat Document");
        assert_eq!(name(r#"{"attempts":[{"trajectory":[],"history":[]}]}"#), "sweagent Lines");
        let event = r#"{"source":"agent","action":"run","args":{}}"#;
        for id in ["id", "instance_id"] {
            let line = format!(r#"{{"{id}":"a__b-1","history":[{event}],"metadata":{{"agent_class":"C"}}}}"#);
            assert_eq!(name(&line), "openhands Lines");
        }
        assert_eq!(name(&format!("[{event}]")), "openhands Document");
        assert_eq!(name(&format!("[{event},\n{event}]")), "openhands Document");
        assert_eq!(name(&format!("{event}\n{event}\n")), "openhands-events Lines");
        assert_eq!(name(r#"{"kind":"ActionEvent","source":"agent"}"#), "openhands-events Lines");
        assert_eq!(name(r#"{"issue":{},"git_patch":"","history":[{"action":"run"}]}"#), "openhands Lines");
        assert_eq!(
            name(r#"{"instance_id":"i","trajectory":[{"role":"ai","text":"x"}]}"#),
            "swe-corpora Lines"
        );
        assert_eq!(name(r#"{"messages":"[]","instance_id":"i","traj_id":"t"}"#), "swe-corpora Lines");
        assert_eq!(
            name(r#"{"messages":[{"role":"user"}],"response":{},"kwargs":{}}"#),
            "openhands-completion Lines"
        );
        for (text, told) in [
            (r#"{"aggregate_id":"s","seq":0,"type":"session.created.1","data":{}}"#, "opencode-events Lines"),
            (
                r#"{"info":{"id":"s"},"messages":[{"info":{"role":"user"},"parts":[]}]}"#,
                "opencode-export Lines",
            ),
            (r#"{"id":"m","sessionID":"s","role":"user","time":{}}"#, "opencode-tree Document"),
            (r#"{"id":"p","messageID":"m","type":"text","text":"x"}"#, "opencode-tree Document"),
            (r#"{"id":"s","projectID":"p","title":"t","time":{}}"#, "opencode-tree Document"),
            (r#"{"id":1,"session_id":"s","role":"user","content_json":"[]"}"#, "goose-lines Lines"),
            (
                "{\"working_dir\":\"/w\",\"description\":\"d\"}\n{\"role\":\"user\",\"content\":[]}\n",
                "goose-lines Lines",
            ),
            (r#"{"version":1,"agent":"lead","sessionId":"s","messages":[]}"#, "cline-sdk Document"),
            (r#"[{"role":"user","content":[],"ts":1}]"#, "roo-code Document"),
            (r#"[{"ts":1,"type":"say","say":"text","text":"x"}]"#, "roo-code Document"),
            (r#"{"version":3,"responderUsername":"C","requests":[]}"#, "vscode-chat Lines"),
            (r#"{"kind":0,"v":{"version":3,"requests":[]}}"#, "vscode-journal Lines"),
            (r#"{"role":"user","message":{"content":[]}}"#, "cursor Lines"),
            ("SQLite format 3\0", "database"),
            ("\u{18}", "bad: binary file"),
        ] {
            assert_eq!(name(text), told, "{text}");
        }
        assert_eq!(name(&format!("\0\0{chat}\n")), "openai-chat Lines");
        assert_eq!(name("\0\0\n\0"), "bad: NUL bytes and nothing else");
        assert_eq!(name("just a text\n"), "no log: text without JSON");
        assert_eq!(name("a text\n{\"a\":1}\n[cut\n"), "no log: JSON of no known format");
        assert_eq!(name("\u{0}\u{1}\u{2}"), "bad: binary file");
        assert_eq!(name(" \n "), "bad: nothing but white space");
    }

    #[test]
    fn agents_sessions_are_told_by_content() {
        let content = r#"{"role":"user","parts":[{"text":"x"}]}"#;
        for (line, told) in [
            (r#"{"type":"session_meta","payload":{"id":"s"}}"#, "codex Lines"),
            (r#"{"type":"event_msg","payload":{"type":"token_count"}}"#, "codex Lines"),
            (r#"{"type":"thread.started","thread_id":"s"}"#, "codex Lines"),
            (r#"{"sessionId":"s","projectHash":"p","messages":[]}"#, "gemini-cli Lines"),
            (r#"{"$set":{"lastUpdated":"x"}}"#, "gemini-cli Lines"),
            (r#"{"id":"1","type":"gemini","content":"x"}"#, "gemini-cli Lines"),
            (r#"{"history":[{"role":"user","parts":[{"text":"x"}]}]}"#, "gemini-cli Lines"),
            (
                r#"{"uuid":"1","parentUuid":null,"sessionId":"s","type":"user","message":{"parts":[]}}"#,
                "qwen-code Lines",
            ),
            (
                r#"{"uuid":"1","parentUuid":null,"sessionId":"s","type":"user","message":{"content":[]}}"#,
                "claude-code Lines",
            ),
            (r#"{"type":"session.start","id":"1","timestamp":"x","data":{}}"#, "copilot-cli Lines"),
            (r#"{"type":"session","id":"s","cwd":"/x"}"#, "pi Lines"),
            (r#"{"type":"context.append_message","message":{}}"#, "kimi-code Lines"),
            (r#"{"role":"_checkpoint","id":0}"#, "kimi-cli Document"),
            (r#"{"timestamp":1,"message":{"type":"TurnBegin"}}"#, "kimi-cli Document"),
            (r#"{"type":"system","subtype":"init","session_id":"s"}"#, "claude-stream Lines"),
        ] {
            assert_eq!(name(line), told, "{line}");
            assert_eq!(name(&format!("{line}\n{line}\n")), told, "{line}");
        }
        assert_eq!(name(&format!("[{content}]")), "gemini-cli Document");
        let old = "{\"id\":\"s\",\"timestamp\":\"x\",\"instructions\":null}\n{\"type\":\"message\",\"role\":\"user\",\"content\":[]}\n";
        assert_eq!(name(old), "codex Lines");
        let document = "{\n \"sessionId\": \"s\",\n \"projectHash\": \"p\",\n \"messages\": [\n  {\"type\": \"user\"}\n ]\n}";
        assert_eq!(name(document), "gemini-cli Document");
    }

    #[test]
    fn lines_are_told_behind_any_number_of_bad_ones() {
        let chat = r#"{"messages":[{"role":"user","content":"x"}]}"#;
        for bad in ["hello world,\n", "{\"id\": \"x\", \"messages\": [{\"role\"\n"] {
            let text = bad.repeat(25) + chat + "\n";
            assert_eq!(name(&text), "openai-chat Lines", "{bad}");
            assert_eq!(layout_of(text.as_bytes(), true), Some(Layout::Lines));
            // They may go on behind the head.
            let head = bad.repeat(25);
            assert!(matches!(detect(head.as_bytes(), false), Detected::More), "{bad}");
            assert_eq!(layout_of(head.as_bytes(), false), None);
            assert_eq!(layout_of(head.as_bytes(), true), Some(Layout::Document));
        }
        let text = "hello world\n".repeat(25);
        assert_eq!(name(&text), "no log: text without JSON");
        let long = "hello world\n".repeat(NOISE_LOOKED_THROUGH / 12 + 1);
        assert!(matches!(detect(long.as_bytes(), false), Detected::NoLog(_)));
        // Kinds of text that are known, and documents over many lines, stay what they are.
        let aider = format!("# aider chat started at 1\n{}{chat}\n", "text\n".repeat(30));
        assert_eq!(name(&aider), "aider Document");
        assert_eq!(
            name(&format!("_**User (2026-01-01 00:00:00Z)**_\n\n{chat}\n{chat}\n")),
            "specstory Document"
        );
        assert_eq!(
            name(&format!("<!-- Generated by SpecStory -->\n\n# A title\n{chat}\n")),
            "specstory Document"
        );
        let items = "  1,\n".repeat(30);
        let document = format!("{{\"simulations\": [],\n\"info\": [\n{items}{{\"a\": 1}}\n]}}\n");
        assert_eq!(name(&document), "tau2-bench Document");
    }

    /// A list or document over many lines whose first bytes are gone is one still; text and tables are none.
    /// What is left of a record has keys in places where they tell another format.
    #[test]
    fn torn_lines_tell_nothing_beside_whole_ones() {
        let said = r#""message":{"role":"assistant","content":[{"type":"text","text":"x"}]}"#;
        let line = format!(r#"{{"sessionId":"s","uuid":"u","timestamp":"t","type":"user",{said}}}"#);
        let torn = r#"{"message":{"content":[{"type":"thinking"}],"id":"m"}],"id":"m","type":"message"},"timestamp":"t"}"#;
        assert_eq!(name(&format!("{torn}\n{line}\n")), "claude-code Lines");
        assert_eq!(name(&format!("{line}\n{torn}\n")), "claude-code Lines");
        let said = r#"{"role":"user","content":"x"}"#;
        let line = format!(r#"{{"prompt":[{said}],"completion":[{said},{said}]}}"#);
        let torn = format!("{{\"prompt\":[{said}],\"completion\":[\n{said},{said}]}}");
        assert_eq!(name(&format!("{line}\n{torn}\n")), "verifiers Lines");
        let begin = r#"{"kind":0,"v":{"version":3,"requests":[]}}"#;
        assert_eq!(name(&format!("[{begin}\n")), "vscode-journal Lines");
    }

    #[test]
    fn a_document_without_its_beginning_is_told() {
        let run = "{\n  \"task_id\": 1,\n  \"reward\": 0.0,\n  \"info\": {},\n  \"traj\": [\n  {\n  \"role\": \"user\",\n  \"content\": \"x\"\n  }\n  ]\n}";
        let list = format!("[\n{run},\n{run},\n{run}\n]\n");
        assert_eq!(name(&list), "tau-bench Items");
        for cut in [6, 12, 30] {
            assert_eq!(name(&list[cut..]), "tau-bench Items", "{cut}");
        }
        for before in ["null\n", "# a comment\n", "log: "] {
            assert_eq!(name(&format!("{before}{list}")), "tau-bench Items", "{before}");
        }
        let document =
            format!("{{\n\"timestamp\": \"t\",\n\"info\": {{}},\n\"simulations\": [\n{run}\n]\n}}\n");
        assert_eq!(name(&document[2..]), "tau2-bench Document");
        let unknown = "\"a\": 1,\n\"b\": [\n{\n\"c\": 2\n}\n]\n}\n";
        assert_eq!(name(unknown), "bad: JSON whose beginning is missing");
        for text in ["a, b,\n".repeat(30), "\"a\",\"b\"\n".repeat(30), "key: value\n- x\n".repeat(30)] {
            assert!(name(&text).starts_with("no log"), "{text}");
        }
    }

    #[test]
    fn what_stands_before_the_first_record_tells_nothing() {
        let chat = r#"{"messages":[{"role":"user","content":"x"}]}"#;
        let lines = format!("{chat}\n{chat}\n");
        for padding in ["\n", "\r\n", " ", "\0", "\u{feff}"] {
            let padding = padding.repeat(70_000);
            assert!(matches!(detect(padding.as_bytes(), false), Detected::More));
            assert_eq!(name(&format!("{padding}{lines}")), "openai-chat Lines");
        }
        // No value goes on like that: what tells is the other lines.
        for stray in ["{\n", "{", "[\n", "[", "[{\n", "{\"\n", "}\n", ",\n", "\"\n", "{\"a\":1,\n"] {
            assert_eq!(name(&format!("{stray}{lines}{lines}")), "openai-chat Lines", "{stray}");
        }
        let traj = r#"{"history":[{"role":"user","agent":"a"}]}"#;
        for stray in ["}", "]}", "1e999", "\"\\ud800\""] {
            // The last two are values: what comes behind them is told alone.
            let told = if stray.ends_with('}') { "sweagent Items" } else { "sweagent Lines" };
            assert_eq!(name(&format!("{stray}{traj}")), told, "{stray}");
            let document = format!("{stray}{{\"info\":{{}},\"simulations\":[]}}");
            assert_eq!(name(&document), "tau2-bench Document", "{stray}");
        }
        // With the first quote of the document the one before is a text, and no text goes on with a letter.
        assert_eq!(name(r#""{"info":{},"simulations":[]}"#), "tau2-bench Document");
        let runs = format!(r#""{{"info":{{}},"simulations":[{chat},{chat}]}}"#);
        assert_eq!(name(&runs), "tau2-bench Document");
        for stray in ["{", "x", ",", "\"", "[{\"cut"] {
            assert_eq!(name(&format!("{stray}{chat},{chat}]")), "openai-chat Items", "{stray}");
        }
        assert_eq!(name(&format!("# Title\n```\n[{chat},{chat}]\n```\n")), "no log: text without JSON");
    }

    #[test]
    fn a_record_that_is_cut_by_the_head_tells_nothing() {
        // All commas: wherever the head ends, its last line seems to be part of a larger value.
        let commas = ",".repeat(500);
        let run = format!(r#"{{"messages":[{{"role":"user","content":"{commas}"}}],"annotations":{{}}}}"#);
        let text = format!("{}\n{run}\n{run}\n", &run[..300]);
        for end in 1..text.len() {
            match detect(&text.as_bytes()[..end], false) {
                Detected::More => assert!(end < 310 + run.len(), "{end}"),
                Detected::Log(entry, Layout::Lines) => assert_eq!(entry.name, "annotated", "{end}"),
                _ => panic!("{end}"),
            }
        }
        let text = format!("[{run},\n{run}]");
        for end in 1..text.len() {
            match detect(&text.as_bytes()[..end], false) {
                Detected::More => assert!(end < 1 + run.len(), "{end}"),
                Detected::Log(entry, Layout::Items) => assert_eq!(entry.name, "annotated", "{end}"),
                _ => panic!("{end}"),
            }
        }
        // A document over many lines is one, also where each message has its line.
        let text = format!(
            "{{\"messages\": [\n{}{{\"role\":\"user\",\"content\":\"x\"}}\n]}}\n",
            "{\"role\":\"user\",\"content\":\"x\"},\n".repeat(9)
        );
        assert_eq!(name(&text), "openai-chat Document");
    }

    #[test]
    fn lists_of_runs_are_told_by_their_items() {
        let run = |rest: &str| format!(r#"{{"messages":[{{"role":"user","content":"x"}}]{rest}}}"#);
        for (item, told) in [
            (run(""), "openai-chat Items"),
            (run(r#","annotations":{}"#), "annotated Items"),
            (run(r#","info":{"exit_status":"x"}"#), "mini-swe-agent Items"),
            (r#"{"traj":[],"reward":1}"#.to_owned(), "tau-bench Items"),
            (r#"{"history":[{"role":"user","agent":"a"}]}"#.to_owned(), "sweagent Items"),
            (r#"{"sessionId":"s","uuid":"u","type":"user","message":{}}"#.to_owned(), "claude-code Items"),
            (r#"{"role":"user","content":"x"}"#.to_owned(), "openai-chat Document"),
            (r#"{"convo_id":1}"#.to_owned(), "abcd Items"),
            (r#"{"reward":true,"gt":"a","pred":"a","traj":[]}"#.to_owned(), "fireact Items"),
        ] {
            assert_eq!(name(&format!("[{item}]")), told);
            assert_eq!(name(&format!("[\n  {item},\n  {item}\n]\n")), told);
        }
        let whole = run("");
        assert_eq!(name(&format!("[{whole},{}", &whole[..20])), "openai-chat Items");
        assert_eq!(name(&format!("[{whole}]\n[{whole}]\n")), "openai-chat Items");
    }

    #[test]
    fn sessions_of_products_are_told() {
        for (text, told) in [
            (r#"{"v":1,"id":"T-1","messages":[{"role":"user","messageId":0,"content":[]}]}"#, "amp Lines"),
            (
                r#"{"sessionId":"s","workspaceDirectory":"/w","history":[{"message":{"role":"user","content":"x"}}]}"#,
                "continue Lines",
            ),
            (r#"{"type":"session_start","id":"s","cwd":"/w"}"#, "factory-droid Lines"),
            (r#"{"type":"message","role":"user","text":"x","session_id":"s"}"#, "factory-droid Lines"),
            (
                r#"{"type":"message","id":"1","timestamp":"t","message":{"role":"user","content":[{"type":"text"}]}}"#,
                "factory-droid Lines",
            ),
            (r#"{"type":"message","id":"1","message":{"role":"toolResult","content":[]}}"#, "pi Lines"),
            (
                r#"{"type":"user","message":{"role":"user","content":"x"},"session_id":"s"}"#,
                "claude-stream Lines",
            ),
            (r#"{"role":"user","created":1,"content":[{"type":"text","text":"x"}]}"#, "goose-lines Lines"),
            ("{\n> Tokens: 1k sent, 2 received.\n", "aider Document"),
            (
                r#"{"model":"m","tokenUsage":{"inputTokens":1,"thinkingTokens":1}}"#,
                "label: factory-droid-settings",
            ),
            (
                r#"{"session_id":"s","platform":"cli","messages":[{"role":"user","content":"x"}]}"#,
                "hermes Lines",
            ),
            (r#"{"conversations":[{"from":"gpt","value":"<tool_call>{}</tool_call>"}]}"#, "hermes Lines"),
            (r#"{"object":"trace","id":"t","workflow_name":"w"}"#, "openai-agents Lines"),
            (r#"{"resourceSpans":[]}"#, "otel Lines"),
            (r#"[{"name":"n","spanContext":{"traceId":"t"},"attributes":{}}]"#, "otel Items"),
            (r#"{"name":"n","context":{"span_id":"1"},"attributes":{}}"#, "otel Lines"),
            (r#"{"post":[{"id":"1","dotted_order":"o"}],"patch":[]}"#, "langsmith Lines"),
            (r#"{"id":"1","run_type":"llm","dotted_order":"o"}"#, "langsmith Lines"),
            (
                r#"{"trace":{"id":"t"},"observations":[{"id":"1","parentObservationId":null}]}"#,
                "langfuse Lines",
            ),
            (
                r#"{"suite_name":"s","pipeline_name":"p","messages":[{"role":"user","content":"x"}]}"#,
                "agentdojo Lines",
            ),
            (r#"{"agents":[{"in_context_message_ids":[],"messages":[]}],"blocks":[]}"#, "letta Lines"),
        ] {
            assert_eq!(name(text), told, "{text}");
        }
    }

    #[test]
    fn every_reader_file_is_in_the_catalogue() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/logs/formats");
        let mut files: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .filter_map(|e| e.unwrap().file_name().to_str()?.strip_suffix(".rs").map(str::to_owned))
            .filter(|n| n != "mod")
            .map(|n| n.replace('_', "-"))
            .collect();
        files.sort();
        let mut names: Vec<&str> = ALL.iter().map(|e| e.name).collect();
        names.sort_unstable();
        assert_eq!(files, names);
    }
}
