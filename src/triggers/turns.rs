//! Fires on the number of turns: every `n`, or when `n + keep` turns are uncompressed.
//!
//! The scope is the first `n` of them; the last `keep` stay. With `keep = 0` it is "every n turns".
//!
//! Source: Lindenbauer et al., "The Complexity Trap" (arXiv 2508.21433): N=21, M=10 for summaries,
//! a rolling window of M=10 (`n = 1`, with `mask`'s own `keep_last`) for observation masking.

use super::{Detector, Entry, Firing, Moment, Trigger};
use crate::context::log::Log;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "turns",
    summary: "Compress the first n turns when n + keep turns are uncompressed.",
    params: Turns::PARAMS,
    build: |params| Ok(Box::new(Turns::of(params)?)),
};

params! {
    #[derive(Clone, Copy)]
    struct Turns {
        /// Turns compressed at a time.
        n: u32 = 21 (at least 1),
        /// Turns that stay uncompressed behind them.
        keep: u32 = 0,
    }
}

impl Trigger for Turns {
    fn detector(&self, _: &Log, first_turn: u32) -> Box<dyn Detector> {
        Box::new(Counter { rule: *self, uncompressed_from: first_turn })
    }
}

struct Counter {
    rule: Turns,
    uncompressed_from: u32,
}

impl Detector for Counter {
    fn advance(&mut self, moment: &Moment<'_>) -> Option<Firing> {
        if moment.turn.saturating_sub(self.uncompressed_from) < self.rule.n.saturating_add(self.rule.keep) {
            return None;
        }
        // More than n may be due: a turn without a decision (two user messages) is not asked about.
        let scope_end = moment.turn - self.rule.keep;
        self.uncompressed_from = scope_end;
        Some(Firing::new("turns", scope_end, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_21_keep_10_fires_at_turn_32_and_then_every_21() {
        let log = Log::script("");
        let mut detector = Turns { n: 21, keep: 10 }.detector(&log, 1);
        let fired: Vec<(u32, u32)> = (1..80)
            .filter_map(|turn| {
                let moment = Moment { log: &log, turn, context_tokens: 0, messages: None };
                Some((turn, detector.advance(&moment)?.scope_end))
            })
            .collect();
        assert_eq!(fired, [(32, 22), (53, 43), (74, 64)]);
    }
}
