//! Records of other formats among those of a file, where logs of several programs were joined. A reader that does not know
//! them would leave them out under the name of something else.

use std::collections::HashMap;

use crate::logs::formats::reading::{repair, scan};
use crate::logs::formats::{self, Detected, Entry, Reading};

/// What the kinds of records are that were met.
pub(super) struct Strangers {
    own: &'static Entry,
    /// Whoever asks for a format has all records read by it.
    is_forced: bool,
    /// Records so far.
    n: usize,
    kinds: HashMap<u64, Option<&'static Entry>>,
    /// Formats that records of this one look like: a line of a session alone may be one of several.
    alike: Vec<&'static str>,
}

impl Strangers {
    /// For a file of this format.
    pub(super) fn new(own: &'static Entry, is_forced: bool) -> Self {
        Strangers { own, is_forced, n: 0, kinds: HashMap::new(), alike: Vec::new() }
    }

    /// Why a record is not read, if it is of another format.
    pub(super) fn reason(&mut self, record: &[u8]) -> Option<String> {
        let own = self.own.name;
        let other = self.format(record)?;
        Some(format!(
            "a record of {other} in a file of {own}\nhint: put the records of {other} into a file of their own"
        ))
    }

    fn format(&mut self, record: &[u8]) -> Option<&'static str> {
        self.n += 1;
        let other = self.looks_like(record)?;
        let is_run = |entry: &Entry| matches!(entry.reading, Reading::Values(_));
        if !is_run(self.own) && !is_run(other) {
            // The first records are the file's own.
            if self.n <= formats::LINES_LOOKED_AT {
                self.alike.push(other.name);
            }
            if self.alike.contains(&other.name) {
                return None;
            }
        }
        Some(other.name)
    }

    /// What a record alone is, if that is not the format of the file.
    fn looks_like(&mut self, record: &[u8]) -> Option<&'static Entry> {
        let (kind, n_kinds) = (scan::kind(record), self.kinds.len());
        if let Some(known) = self.kinds.get(&kind) {
            return *known;
        }
        // A torn record may look like one of any format.
        if n_kinds == formats::MOST_KINDS || self.is_forced || !repair::is_json(record) {
            return None;
        }
        let other = match formats::detect(record, true) {
            Detected::Log(entry, _) if entry.name != self.own.name => Some(entry),
            _ => None,
        };
        self.kinds.insert(kind, other);
        other
    }
}
