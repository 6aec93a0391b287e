//! The decisions of a run: what they add up to, and those of one session.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{UInt32Type, UInt64Type};

use super::{Run, file};
use crate::files::reach;
use crate::store::{self, TimelineRow};

/// Beside [`Run::variants`].
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    pub(crate) spent: Vec<Spent>,
    /// Of the session that was asked for.
    pub(crate) session: Vec<Vec<Decision>>,
}

/// Tokens of all decisions of a variant, counted by us; of a sample what those of its corpus come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    pub(crate) full: u64,
    pub(crate) sent: u64,
    /// What of them the cache served.
    pub(crate) cached_full: u64,
    pub(crate) cached_sent: u64,
    /// What the agent wrote.
    pub(crate) output: u64,
    /// What the compressor's model read and wrote to recall.
    pub(crate) recall: [u64; 2],
}

/// A decision of the session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) turn: u32,
    pub(crate) n_events: u32,
    pub(crate) full: u64,
    pub(crate) sent: u64,
}

const WORDS: [&str; 2] = ["variant", "trajectory"];
const COUNTS: [&str; 2] = ["turn", "n_events"];
const TOKENS: [&str; 7] = [
    "tokens_full",
    "tokens_sent",
    "cached_full",
    "cached_sent",
    "output_tokens",
    "recall_tokens_in",
    "recall_tokens_out",
];
const EXPIRED: &str = "cache_expired";

impl Run {
    /// Reads the decisions of all cells that did not fail, and keeps those of one session; none where the run has no such table.
    pub(crate) fn decisions(&self, session: Option<&str>) -> anyhow::Result<Decisions> {
        let n = self.variants.len();
        let mut decisions = Decisions { spent: vec![Spent::default(); n], session: vec![Vec::new(); n] };
        let path = file::<TimelineRow>(&self.folder);
        if !reach::is_there(&path)? {
            return Ok(decisions);
        }
        let index: BTreeMap<&str, usize> =
            self.variants.iter().map(|v| v.variant.as_str()).zip(0..).collect();
        let failed = self.failed();
        let weights: BTreeMap<&str, f64> =
            self.trajectories.iter().map(|t| (t.id.as_str(), t.weight)).collect();
        let names: Vec<&str> = WORDS.into_iter().chain(COUNTS).chain(TOKENS).chain([EXPIRED]).collect();
        store::columns::<TimelineRow>(&path, &names, |batch| {
            decisions.add(&batch, &index, &failed, &weights, session)
        })?;
        Ok(decisions)
    }
}

impl Decisions {
    fn add(
        &mut self,
        batch: &RecordBatch,
        index: &BTreeMap<&str, usize>,
        failed: &[BTreeSet<&str>],
        weights: &BTreeMap<&str, f64>,
        session: Option<&str>,
    ) -> anyhow::Result<()> {
        let column = |name: &str| {
            batch.column_by_name(name).ok_or_else(|| anyhow::anyhow!("the timeline lacks {name}"))
        };
        let [variant, trajectory] = WORDS.map(|name| column(name).map(|c| c.as_string::<i32>()));
        let (variant, trajectory) = (variant?, trajectory?);
        let [turn, n_events] = COUNTS.map(|name| column(name).map(|c| c.as_primitive::<UInt32Type>()));
        let (turn, n_events) = (turn?, n_events?);
        let tokens = TOKENS.map(|name| column(name).map(|c| c.as_primitive::<UInt64Type>()));
        let tokens = tokens.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        let expired = column(EXPIRED)?.as_boolean();
        // Rows of a cell stand together: who it is is looked up once.
        let mut last: Option<(&str, &str, Option<(usize, f64)>)> = None;
        for row in 0..batch.num_rows() {
            let cell = (variant.value(row), trajectory.value(row));
            let place = match last {
                Some((v, t, place)) if (v, t) == cell => place,
                _ => {
                    let place = index.get(cell.0).copied().filter(|&i| !failed[i].contains(cell.1));
                    place.map(|place| (place, weights.get(cell.1).copied().unwrap_or(1.0)))
                }
            };
            last = Some((cell.0, cell.1, place));
            let Some((place, weight)) = place else { continue };
            let of = |i: usize| if tokens[i].is_null(row) { 0 } else { tokens[i].value(row) };
            let cached = |i: usize| if expired.value(row) { 0 } else { of(i) };
            let spent = &mut self.spent[place];
            let stands_for = |tokens: u64| (weight * tokens as f64).round() as u64;
            spent.full += stands_for(of(0));
            spent.sent += stands_for(of(1));
            spent.cached_full += stands_for(cached(2));
            spent.cached_sent += stands_for(cached(3));
            spent.output += stands_for(of(4));
            spent.recall = [5, 6].map(|i| spent.recall[i - 5] + stands_for(of(i)));
            if session == Some(cell.1) {
                let [turn, n_events] = [turn, n_events].map(|column| column.value(row));
                self.session[place].push(Decision { turn, n_events, full: of(0), sent: of(1) });
            }
        }
        Ok(())
    }
}
