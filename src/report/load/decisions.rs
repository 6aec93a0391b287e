//! The decisions of a run: what they add up to, and those of one session.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;

use arrow::array::{Array as _, AsArray as _, RecordBatch, UInt64Array};
use arrow::datatypes::{Float64Type, UInt32Type, UInt64Type};

use super::{Prices, Run, file};
use crate::files::reach;
use crate::store::{self, TimelineRow};

/// Beside [`Run::variants`].
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    pub(crate) spent: Vec<Spent>,
    /// Of the session that was asked for.
    pub(crate) session: Vec<Vec<Decision>>,
}

/// What decisions come to, while they are read.
struct Adding {
    spent: Vec<Spent>,
    /// What the log did not show of the prompt before, in the cell that is read.
    unseen_before: Option<f64>,
}

/// What all decisions of a variant come to; of a sample those of its corpus.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    /// Tokens of prompts as we count them, with nothing compressed and as sent.
    pub(crate) full: u64,
    pub(crate) sent: u64,
    /// What was paid, by the provider's count where it is known, as the scores of money have it: read from the cache, written to it,
    /// answers; zero where prices are not known.
    pub(crate) paid_full: [f64; 3],
    pub(crate) paid_sent: [f64; 3],
    /// What the compressor's model read and wrote to recall.
    pub(crate) recall: [u64; 2],
}

/// What tokens of a session cost.
#[derive(Clone, Copy)]
struct Tariff<'p> {
    prices: &'p Prices,
    write: f64,
}

impl<'p> Tariff<'p> {
    fn of(prices: &'p Prices, is_cached_an_hour: bool) -> Self {
        let hour = prices.cache_write_1h.filter(|_| is_cached_an_hour || prices.hour);
        Tariff { prices, write: hour.unwrap_or(prices.cache_write) }
    }

    /// A prompt of which so much is in the cache, and its answer.
    fn paid(self, prompt: f64, cached: f64, output: f64) -> [f64; 3] {
        let p = self.prices;
        let is_long = p.dearer_above.is_some_and(|above| prompt > above);
        let times = |dearer: Option<f64>| dearer.filter(|_| is_long).unwrap_or(1.0);
        let (of_prompt, of_answer) = (times(p.dearer_prompt), times(p.dearer_output));
        let rest = prompt - cached.min(prompt);
        [of_prompt * p.cache_read * cached, of_prompt * self.write * rest, of_answer * p.output * output]
    }
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
const DECISION: &str = "decision";
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
/// By the provider's count: what the log does not show of a prompt, and of one of our tokens.
const UNSEEN: &str = "unseen_tokens";
const FACTOR: &str = "token_factor";

impl Run {
    /// What the decisions of all cells that did not fail come to; none where the run has no such table.
    pub(crate) fn spent(&self) -> anyhow::Result<Vec<Spent>> {
        let mut adding = Adding { spent: vec![Spent::default(); self.variants.len()], unseen_before: None };
        let path = file::<TimelineRow>(&self.folder);
        if !reach::is_there(&path)? {
            return Ok(adding.spent);
        }
        let index = self.index();
        let failed = self.failed();
        let tariff = |is_hour| self.prices.as_ref().map(|prices| Tariff::of(prices, is_hour));
        let known: BTreeMap<&str, (f64, Option<Tariff>)> = self
            .trajectories
            .iter()
            .map(|t| (t.id.as_str(), (t.weight, tariff(t.is_cached_an_hour))))
            .collect();
        let names = WORDS.into_iter().chain([DECISION]).chain(TOKENS).chain([EXPIRED, UNSEEN, FACTOR]);
        let names: Vec<&str> = names.collect();
        store::columns::<TimelineRow>(&path, &names, |batch| adding.add(&batch, (&index, &failed), &known))?;
        Ok(adding.spent)
    }

    /// The decisions of one session, by variant.
    pub(crate) fn decisions_of(&self, session: &str) -> anyhow::Result<Vec<Vec<Decision>>> {
        let mut decisions = vec![Vec::new(); self.variants.len()];
        let path = file::<TimelineRow>(&self.folder);
        if !reach::is_there(&path)? {
            return Ok(decisions);
        }
        let (index, failed) = (self.index(), self.failed());
        let names = ["variant", COUNTS[0], COUNTS[1], TOKENS[0], TOKENS[1]];
        store::columns_of::<TimelineRow>(&path, &names, &[("trajectory", &[session])], |batch| {
            let column = |name: &str| batch.column_by_name(name).with_context(|| lacks(name));
            let variant = column("variant")?.as_string::<i32>();
            let [turn, n_events] = COUNTS.map(|name| column(name).map(|c| c.as_primitive::<UInt32Type>()));
            let tokens =
                [TOKENS[0], TOKENS[1]].map(|name| column(name).map(|c| c.as_primitive::<UInt64Type>()));
            let ([full, sent], turn, n_events) = (tokens, turn?, n_events?);
            let (full, sent) = (full?, sent?);
            for row in 0..batch.num_rows() {
                let place = index.get(variant.value(row)).filter(|&&i| !failed[i].contains(session));
                let of = |c: &UInt64Array| if c.is_null(row) { 0 } else { c.value(row) };
                let (turn, n_events) = (turn.value(row), n_events.value(row));
                if let Some(&i) = place {
                    decisions[i].push(Decision { turn, n_events, full: of(full), sent: of(sent) });
                }
            }
            Ok(())
        })?;
        Ok(decisions)
    }
}

fn lacks(name: &str) -> String {
    format!("the timeline lacks {name}")
}

impl Adding {
    fn add(
        &mut self,
        batch: &RecordBatch,
        (index, failed): (&BTreeMap<&str, usize>, &[BTreeSet<&str>]),
        known: &BTreeMap<&str, (f64, Option<Tariff>)>,
    ) -> anyhow::Result<()> {
        let column = |name: &str| batch.column_by_name(name).with_context(|| lacks(name));
        let [variant, trajectory] = WORDS.map(|name| column(name).map(|c| c.as_string::<i32>()));
        let (variant, trajectory) = (variant?, trajectory?);
        let decision = column(DECISION)?.as_primitive::<UInt32Type>();
        let tokens = TOKENS.map(|name| column(name).map(|c| c.as_primitive::<UInt64Type>()));
        let tokens = tokens.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        let (expired, unseen) = (column(EXPIRED)?.as_boolean(), column(UNSEEN)?.as_primitive::<UInt64Type>());
        let factor = column(FACTOR)?.as_primitive::<Float64Type>();
        // Rows of a cell stand together: who it is is looked up once.
        let mut last: Option<(&str, &str, Option<(usize, f64, Option<Tariff>)>)> = None;
        for row in 0..batch.num_rows() {
            let cell = (variant.value(row), trajectory.value(row));
            let place = match last {
                Some((v, t, place)) if (v, t) == cell => place,
                _ => {
                    let place = index.get(cell.0).copied().filter(|&i| !failed[i].contains(cell.1));
                    let (weight, tariff) = known.get(cell.1).copied().unwrap_or((1.0, None));
                    place.map(|place| (place, weight, tariff))
                }
            };
            last = Some((cell.0, cell.1, place));
            let Some((place, weight, tariff)) = place else { continue };
            let of = |i: usize| if tokens[i].is_null(row) { 0 } else { tokens[i].value(row) };
            let spent = &mut self.spent[place];
            let stands_for = |tokens: u64| (weight * tokens as f64).round() as u64;
            spent.full += stands_for(of(0));
            spent.sent += stands_for(of(1));
            spent.recall = [5, 6].map(|i| spent.recall[i - 5] + stands_for(of(i)));
            // Of what is unseen, that is cached which stood there before; where that is not known, all.
            let times = if factor.is_null(row) { 1.0 } else { factor.value(row) };
            let hidden = Some(unseen).filter(|c| c.is_valid(row)).map(|c| c.value(row) as f64);
            let before = self.unseen_before.take().filter(|_| decision.value(row) > 0);
            self.unseen_before = hidden;
            let hidden = hidden.unwrap_or(0.0);
            let still = if decision.value(row) > 0 { hidden.min(before.unwrap_or(hidden)) } else { 0.0 };
            let counted = |i: usize| times * of(i) as f64;
            let cached = |i: usize| if expired.value(row) { 0.0 } else { still + counted(i) };
            for (paid, at) in [(&mut spent.paid_full, 0), (&mut spent.paid_sent, 1)] {
                let Some(tariff) = tariff else { continue };
                let more = tariff.paid(hidden + counted(at), cached(at + 2), counted(4));
                *paid = [0, 1, 2].map(|part| paid[part] + weight * more[part]);
            }
        }
        Ok(())
    }
}
