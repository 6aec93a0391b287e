//! Fires where the log itself was compacted, in place of the compaction that the log contains.
//!
//! The replay goes on over the logged compaction (bridge mode): it replays the log as if nothing had been compacted
//! ([`Log::bridged`]), and the scope is what came since the last such place.

use super::{Detector, Entry, Firing, Moment, Trigger};
use crate::context::log::Log;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "logged",
    summary: "Compress where the log itself was compacted, in place of its own summary.",
    params: Logged::PARAMS,
    build: |params| Ok(Box::new(Logged::of(params)?)),
};

params! { struct Logged {} }

impl Trigger for Logged {
    fn detector(&self, _: &Log, _: u32) -> Box<dyn Detector> {
        Box::new(AtCompaction)
    }

    fn bridges(&self) -> bool {
        true
    }
}

struct AtCompaction;

impl Detector for AtCompaction {
    fn advance(&mut self, moment: &Moment<'_>) -> Option<Firing> {
        moment.log.summaries.contains_key(&moment.turn).then(|| Firing::new("logged", moment.turn, 1.0))
    }
}
