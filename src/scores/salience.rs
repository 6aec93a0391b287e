//! How much of what matters was kept verbatim, and how much of what was kept matters.
//!
//! Items are the annotated salient spans of the scopes compressed so far. An item is kept if its words stand one after
//! the other in the context; a word that stands for the scope is relevant if it lies within such a run. (Source: the
//! seed on selective salience; exact spans as in extractive question answering, Rajpurkar et al. 2016. What was said in
//! other words counts as lost here.)

use std::collections::BTreeMap;

use super::Rows;
use super::ground::{Ground, Tally, Truth, VARIANT};
use super::registry::{Entry, Pooled};

pub const SALIENCE_RECALL: Entry = Entry {
    name: "salience_recall",
    summary: "Share of annotated salient spans that still stand in the context verbatim",
    formula: "spans of compressed scopes whose words stand in the context one after the other / such spans",
    strata: &["point", "type"],
    retention: Some(80),
    truth: Some((10, "Salience recall: annotated spans that still stand in the context verbatim")),
    ..Entry::TRUTH
};

pub const SALIENCE_PRECISION: Entry = Entry {
    name: "salience_precision",
    summary: "Share of the words kept for compressed scopes that belong to salient spans",
    formula: "kept words within a run of a salient span / kept words; floor: the same share of the scope itself",
    floor: "the scope itself",
    ceiling: "1",
    truth: Some((20, "Salience precision: words kept that belong to such spans")),
    ..Entry::TRUTH
};

pub const SALIENCE_F1: Entry = Entry {
    name: "salience_f1",
    summary: "Harmonic mean of salience recall and precision of a trajectory",
    formula: "2 P R / (P + R), R without what head and tail hold; 0 where nothing was kept; floor: drop-all (0), ceiling: 1",
    floor: "0",
    ceiling: "1",
    pooled: Pooled::Mean,
    truth: Some((30, "Salience F1")),
    ..Entry::TRUTH
};

pub(super) const ENTRIES: &[Entry] = &[SALIENCE_RECALL, SALIENCE_PRECISION, SALIENCE_F1];

pub(super) fn score(truth: &Truth, ground: &Ground<'_>, rows: &mut Rows) {
    let mut all = Tally::default();
    let mut kept = 0;
    let mut by_type: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut runs: Vec<&[u64]> = Vec::new();
    for (item, run) in truth.annotations.salient.iter().zip(&truth.salient) {
        if !ground.in_scope(item.place.step) || run.is_empty() {
            continue;
        }
        let held = ground.hold(run);
        all.add(held);
        by_type.entry(&item.kind).or_default().add(held);
        kept += u64::from(ground.between[VARIANT].hold(run));
        runs.push(run);
    }
    if all.n == 0 {
        return;
    }
    all.push(&SALIENCE_RECALL, ground.stratum(None), rows);
    if ground.is_end() {
        for (kind, tally) in by_type {
            tally.push(&SALIENCE_RECALL, ground.stratum(Some(("type", kind))), rows);
        }
    }

    let [variant, full, ..] = &ground.between;
    let share = |runs: &[&[u64]], between: &crate::text::runs::Runs| {
        super::ratio(between.covered(runs.iter().copied()) as f64, between.n_words() as f64)
    };
    let precision = share(&runs, variant);
    let n = variant.n_words() as u64;
    let row = rows.push(&SALIENCE_PRECISION, ground.stratum(None), precision, n as f64, n);
    row.floor = share(&runs, full);
    row.ceiling = Some(1.0);

    let f1 = harmonic(precision.unwrap_or(0.0), kept as f64 / all.n as f64);
    let row = rows.push(&SALIENCE_F1, ground.stratum(None), Some(f1), 1.0, all.n);
    row.floor = Some(0.0);
    row.ceiling = Some(1.0);
}

/// The harmonic mean, 0 if both are.
fn harmonic(a: f64, b: f64) -> f64 {
    super::ratio(2.0 * a * b, a + b).unwrap_or(0.0)
}
