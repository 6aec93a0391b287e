//! What to ingest, and how much of it.

use std::path::PathBuf;

use super::formats;
use super::formats::mapping::Mapping;
use crate::logs::filter::Filter;
use crate::text::redact;
use serde::{Deserialize, Serialize};

/// What happens to a dataset that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It is added to. Runs of files that are not given, or not there any more, stay.
    #[default]
    Add,
    /// It becomes one of the files that are given, and what is known of these is not read again.
    Match,
    /// It is replaced, and nothing of it is used.
    Fresh,
}

/// What to ingest.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Files and folders.
    pub inputs: Vec<PathBuf>,
    /// Folder of the dataset.
    pub out: PathBuf,
    /// Name of a reader for all files; none tells the format of each file by its content.
    pub format: Option<String>,
    /// Number of threads that read.
    pub threads: usize,
    pub limits: Limits,
    pub mode: Mode,
    pub filter: Filter,
    /// Folders of output, which are no logs where they stand among them, as `out` is none.
    pub own: Vec<PathBuf>,
    /// Whether secrets and personal data become placeholders.
    pub redact: bool,
    /// A file that says where things stand in logs of a format that no reader knows; with the format `mapping` all files are
    /// read by it.
    pub mapping: Option<PathBuf>,
}

/// How much is read; what is larger becomes a reject, and the rest is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one file, unpacked.
    pub file: u64,
    /// Bytes of memory, about: a document, a session or a line may have an eighth of it, since as JSON, as steps and as
    /// a table it takes several times its own size.
    pub memory: u64,
}

/// Memory a thread: the batches in flight for it, each as lines, as JSON and as rows of the tables.
const MEMORY_A_THREAD: u64 = 48 << 20;

impl Limits {
    /// So many threads as the memory is enough for, of those that are asked for; one at least.
    pub fn threads(&self, asked: usize) -> usize {
        let most = usize::try_from(self.memory / MEMORY_A_THREAD).unwrap_or(usize::MAX);
        asked.min(most).max(1)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits { file: 2 << 30, memory: 4 << 30 }
    }
}

/// How files were read. What was read in another way is read again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadWith {
    pub version: String,
    pub readers: u32,
    /// The format that was given for all files.
    pub format: Option<String>,
    pub max_file: u64,
    pub max_memory: u64,
    /// Version of the rules by which it was redacted, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redact: Option<u32>,
}

impl ReadWith {
    pub(super) fn of(options: &Options, mapping: Option<&Mapping>) -> Self {
        ReadWith {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            readers: formats::READERS_VERSION,
            format: options.format.clone().or_else(|| mapping.map(|_| "auto".to_owned())).map(|name| {
                let digest = mapping.map_or(String::new(), |mapping| format!(" {}", mapping.digest));
                name + &digest
            }),
            max_file: options.limits.file,
            max_memory: options.limits.memory,
            redact: options.redact.then_some(redact::VERSION),
        }
    }
}
