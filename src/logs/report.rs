//! What an ingest says of itself: `ingest.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::options::ReadWith;
use crate::files::vouch::Tables;
use crate::text::redact::Tally;

/// What was read of one format.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FormatTotals {
    pub files: u64,
    pub trajectories: u64,
    pub duplicates: u64,
    pub steps: u64,
    /// Bytes of the logs, uncompressed.
    pub bytes: u64,
    /// Bytes of text in the tables.
    pub text_bytes: u64,
    pub rejects: u64,
    /// Runs with a known label.
    pub labelled: u64,
    /// What the logs hold and the tables do not.
    pub losses: BTreeMap<String, u64>,
    /// Fields read, with how often they were met.
    pub fields_mapped: BTreeMap<String, u64>,
    /// Fields left out, with how often they were met.
    pub fields_dropped: BTreeMap<String, u64>,
}

/// A run that is there already.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Duplicate {
    pub trajectory: String,
    pub source: String,
    /// File that holds the same run and was read first, or a session that begins with all of this one.
    pub repeats: String,
}

/// A file that was not read, and what it seems to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Aside {
    pub path: String,
    /// What it seems to be, or why it could not be read.
    pub format: String,
    /// Size as stored.
    pub bytes: u64,
}

/// A run by its names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunName {
    pub trajectory: String,
    pub source: String,
}

/// A label file and how many runs it was joined to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabelReport {
    pub path: String,
    pub format: String,
    pub joined: u64,
    /// Verdicts that are neither true nor false nor null, taken as unknown.
    pub odd: u64,
}

/// The report of an ingest, also written as `ingest.json` (there with a list of all files).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    pub tool: String,
    pub version: String,
    pub schema_version: String,
    pub read_with: ReadWith,
    /// Hash of the ids of all trajectories in order: the identity of the dataset.
    pub dataset: String,
    pub files: u64,
    pub trajectories: u64,
    pub steps: u64,
    pub bytes: u64,
    pub stored_bytes: u64,
    pub rejects: u64,
    pub formats: BTreeMap<String, FormatTotals>,
    pub duplicates: Vec<Duplicate>,
    pub not_read: Vec<Aside>,
    pub labels: Vec<LabelReport>,
    pub contradicting_labels: Vec<String>,
    pub no_logs: Vec<Aside>,
    /// Files of which nothing could be read.
    pub unreadable: Vec<Aside>,
    /// Files of a format with a reader that gave no run.
    pub without_runs: Vec<Aside>,
    /// Runs in which the agent says nothing.
    pub without_turns: Vec<RunName>,
    /// Files named on the command line that gave nothing.
    pub named_for_nothing: Vec<String>,
    /// Records of logs that could not be read, and files that a limit kept from being known.
    pub lost_records: u64,
    /// What was redacted, by kind: places, and different values, numbered anew in each run.
    #[serde(default, skip_serializing_if = "Tally::is_empty")]
    pub redacted: Tally,
    /// Files that were found and not asked for.
    pub left_out: u64,
    /// What was asked to be read or left out, and fits no file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfit: Vec<String>,
    /// Hidden files and folders that were not looked into.
    #[serde(default)]
    pub hidden: u64,
    /// What was written, for those who read it.
    pub tables: Tables,
    /// What became of the dataset that stood in the folder.
    #[serde(skip)]
    pub before: Option<Before>,
}

/// A dataset that was added to, or gave way to a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Its tables are the same still.
    pub is_same: bool,
    /// Nothing of it was used.
    pub is_replaced: bool,
    /// Files that it knew, and that were not read again.
    pub n_known: u64,
    /// Files that were not given, or cannot be read any more, and whose runs stay.
    pub n_gone: u64,
    /// Runs that went: of files that were read again, or that others hold now.
    pub n_runs_gone: u64,
    /// Bytes, uncompressed, of what was read now.
    pub n_bytes_read: u64,
}
