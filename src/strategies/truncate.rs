//! Keeps the beginning and the end of the history and drops the turns between.
//!
//! `keep_last` turns stay at the end of the history, `keep_first` at its beginning. With
//! `keep_first = 0` it is the sliding window of most agents; both together are head + tail.

use super::{Entry, Env, Scope, Strategy};
use crate::context::Edit;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "truncate",
    summary: "Keep the first and the last turns and drop those between.",
    params: Truncate::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(Truncate::of(params)?)),
};

params! {
    struct Truncate {
        /// How many of the newest turns stay.
        keep_last: u32 = 10,
        /// How many of the oldest turns of the segment stay.
        keep_first: u32 = 0,
    }
}

impl Strategy for Truncate {
    fn compress(&self, scope: &Scope<'_>, _: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let blocks = &scope.context.blocks;
        let first_turn = blocks.get(scope.context.n_head).map_or(0, |b| b.turn);
        Ok(scope
            .blocks
            .clone()
            .filter(|&b| blocks[b].turn >= first_turn.saturating_add(self.keep_first))
            .map(|block| Edit::Drop { block })
            .collect())
    }

    fn keep_last(&self) -> u32 {
        self.keep_last
    }
}
