//! What a log holds and the tables do not.

use std::collections::BTreeMap;

/// What a log holds and the tables do not, by name, with counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses(pub(crate) BTreeMap<String, u64>);

impl Losses {
    pub(crate) fn add(&mut self, what: &str) {
        self.add_n(what, 1);
    }

    pub(crate) fn add_n(&mut self, what: &str, n: u64) {
        if n == 0 {
            return;
        }
        match self.0.get_mut(what) {
            Some(count) => *count += n,
            None => {
                self.0.insert(what.to_owned(), n);
            }
        }
    }

    pub(crate) fn merge(&mut self, other: &Losses) {
        for (what, n) in &other.0 {
            self.add_n(what, *n);
        }
    }
}

/// The loss that tells of a run in which nothing was said.
pub(crate) const EMPTY_RUN: &str = "run without messages";

/// The loss that tells of a compaction of which the log does not say what it put there.
pub(crate) const EMPTY_SUMMARY: &str = "compaction without its summary";

/// The loss that tells of what was said and taken back: by a rewind, or on a branch that was left.
pub(crate) const ABANDONED: &str = "line of an abandoned branch left out";

/// The loss that tells of a reply that is no turn of the agent.
pub(crate) const SUMMARISER: &str = "call of a summariser left out, whose text stands in the next prompt";

/// How the loss begins that tells of an act on the context of which the log does not say what went.
pub(crate) const UNTOLD: &str = "what went is not told: ";
