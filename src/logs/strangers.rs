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
    kinds: HashMap<u64, Option<&'static str>>,
}

impl Strangers {
    /// For a file of this format.
    pub(super) fn new(own: &'static Entry, is_forced: bool) -> Self {
        Strangers { own, is_forced, kinds: HashMap::new() }
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
        let (kind, n_kinds) = (scan::kind(record), self.kinds.len());
        if let Some(known) = self.kinds.get(&kind) {
            return *known;
        }
        // A torn record may look like one of any format.
        if n_kinds == formats::MOST_KINDS || self.is_forced || !repair::is_json(record) {
            return None;
        }
        // Lines of sessions may be alike in several formats; a run is no line of one.
        let is_run = |entry: &Entry| matches!(entry.reading, Reading::Values(_));
        let other = match formats::detect(record, true) {
            Detected::Log(entry, _) if entry.name == self.own.name => None,
            Detected::Log(entry, _) if is_run(self.own) || is_run(entry) => Some(entry.name),
            _ => None,
        };
        self.kinds.insert(kind, other);
        other
    }
}
