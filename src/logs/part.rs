//! The result of a job: what was read of a file, or of some lines or items of one.

use crate::logs::formats::Sink;
use crate::logs::formats::reading::draft::Losses;
use crate::logs::formats::reading::fields::FieldCounts;
use crate::store::TrajectoryRow;
use crate::text::redact::{self, Tally};
use crate::trajectory::Step;

use super::placeholders::redact_run;
use super::sessions::Beginning;

/// Something that could not be read.
pub(super) struct Rejected {
    pub(super) line: Option<u64>,
    pub(super) offset: u64,
    pub(super) reason: String,
}

/// What a file is.
pub(super) enum Found {
    Log(&'static str),
    NotRead(&'static str),
    /// Kind and content of a label file.
    Label(&'static str, Vec<u8>),
    NoLog(&'static str),
    Bad,
}

/// A run.
pub(super) struct Run {
    pub(super) row: TrajectoryRow,
    pub(super) steps: Vec<Step>,
    /// The same for the same log under any name.
    pub(super) log_id: String,
}

/// The result of a job: a file, or some lines of one.
pub(super) struct Part {
    pub(super) input: usize,
    /// Parts of the file before this one.
    pub(super) number: u64,
    /// The file ends here.
    pub(super) is_last: bool,
    pub(super) found: Found,
    pub(super) runs: Vec<Run>,
    /// What the session in this file shares with another one.
    pub(super) beginning: Option<Beginning>,
    pub(super) rejects: Vec<Rejected>,
    pub(super) losses: Losses,
    pub(super) fields: FieldCounts,
    pub(super) redacted: Tally,
    /// Uncompressed bytes that were read.
    pub(super) n_bytes: u64,
    /// A limit of ours ended it, so that nobody knows what it holds.
    pub(super) is_too_large: bool,
    /// The machine could not read it this time, or not all.
    pub(super) is_unread: bool,
}

impl Part {
    pub(super) fn new(input: usize, number: u64) -> Self {
        Part {
            input,
            number,
            is_last: true,
            found: Found::Bad,
            runs: Vec::new(),
            beginning: None,
            rejects: Vec::new(),
            losses: Losses::default(),
            fields: FieldCounts::default(),
            redacted: Tally::new(),
            n_bytes: 0,
            is_too_large: false,
            is_unread: false,
        }
    }

    /// Whether it is all of a file.
    pub(super) fn is_whole(&self) -> bool {
        self.number == 0 && self.is_last
    }

    pub(super) fn reject(&mut self, line: Option<u64>, offset: u64, reason: String) {
        self.rejects.push(Rejected { line, offset, reason });
    }

    /// Takes over what a sink has; its rejects lie in a value that begins at `offset`.
    pub(super) fn take(&mut self, sink: &mut Sink<'_>, line: Option<u64>, offset: u64) {
        for (at, reason) in sink.rejects.drain(..) {
            // The parser sees one value, so its line is always 1 for a file of lines.
            let reason = if line.is_some() { reason.replace("line 1 column", "column") } else { reason };
            self.reject(line, offset + at as u64, reason);
        }
        for mut trajectory in sink.trajectories.drain(..) {
            if sink.source.redacts {
                redact::add(&mut self.redacted, &redact_run(&mut trajectory));
            }
            let row = TrajectoryRow::from(&trajectory);
            let log_id = trajectory.log_id();
            let steps = std::mem::take(&mut trajectory.steps);
            self.runs.push(Run { row, steps, log_id });
        }
    }
}
