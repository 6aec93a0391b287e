//! Readers of agent logs, one file per format, which `detect` tells by content.
//!
//! A reader turns logged values into trajectories through a [`reading::Draft`]; it opens no file
//! and knows nothing of threads. A format is told by the shape of the first bytes, never by the
//! file's name. Formats that are known by sight but have no reader yet, and files that only hold
//! labels, are told apart, so that a folder of mixed logs is no error.

use anyhow::Context as _;

use crate::trajectory::Trajectory;

mod abcd;
mod agentdojo;
pub(super) mod aider;
mod amp;
mod annotated;
pub(super) mod api_calls;
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
mod cursor_stream;
mod factory_droid;
mod fireact;
mod gemini_cli;
mod gemini_stream;
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
pub(crate) mod reading;
mod roo_code;
mod sharegpt;
pub(super) mod specstory;
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

pub(crate) use opencode_tree::session_of as session_of_tree;
pub(crate) use reading::repaired::{WORDS, read_item, read_repaired};

use reading::draft::Losses;
use reading::repair;
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
pub const READERS_VERSION: u32 = 11;

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
    api_calls::ENTRY,
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
    cursor_stream::ENTRY,
    factory_droid::ENTRY,
    fireact::ENTRY,
    gemini_cli::ENTRY,
    gemini_stream::ENTRY,
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

/// Why so many are not read.
pub(crate) const MANY: &str = "\nhint: --max-memory allows an object per kB of it to one";

#[cfg(test)]
mod tests {
    use super::*;

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
