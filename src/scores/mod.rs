//! What was lost and what was saved: one file per family of scores.
//!
//! A scorer turns what a replay and its shadows recorded into rows; it runs no strategy, and asks no model but the
//! readers that the experiment names for it. Every row carries its raw value, floor and ceiling from the same run, and its weight.

pub mod answers;
pub mod boundaries;
pub mod chance;
pub mod constraints;
pub mod costs;
pub mod discard;
pub mod ground;
pub mod honesty;
pub mod items;
pub mod judge;
pub mod likelihood;
pub mod money;
pub mod outcomes;
pub mod outcomes_by_model;
pub mod own;
mod points;
pub mod prices;
pub mod probes;
pub mod ratios;
pub mod readers;
pub mod registry;
pub mod retention;
pub mod salience;
pub mod sent;
pub mod similar;
pub mod superseded;
pub mod truth;

use std::borrow::Cow;
use std::sync::Arc;

use crate::store::ScoreRow;
use registry::Entry;

/// All scores, by file.
pub static ALL: &[&[Entry]] = &[
    answers::ENTRIES,
    boundaries::ENTRIES,
    discard::ENTRIES,
    honesty::ENTRIES,
    items::ENTRIES,
    judge::ENTRIES,
    likelihood::ENTRIES,
    money::ENTRIES,
    outcomes::ENTRIES,
    outcomes_by_model::ENTRIES,
    own::ENTRIES,
    probes::ENTRIES,
    ratios::ENTRIES,
    retention::ENTRIES,
    salience::ENTRIES,
    sent::ENTRIES,
    similar::ENTRIES,
    superseded::ENTRIES,
];

/// The score of this name. Rows may have others, of older versions and of users: plain shares to a report.
pub fn find(name: &str) -> Option<&'static Entry> {
    all().find(|entry| entry.name == name)
}

/// What a score is called where people read; one that nobody knows by its name.
pub fn called(name: &str) -> String {
    find(name).map_or_else(|| name.to_owned(), Entry::called)
}

pub fn all() -> impl Iterator<Item = &'static Entry> {
    ALL.iter().copied().flatten()
}

/// Ids of the variant and the trajectory of a cell.
pub type CellIds = (Arc<str>, Arc<str>);

/// Rows of one cell.
pub struct Rows {
    pub ids: CellIds,
    pub rows: Vec<ScoreRow>,
}

impl Rows {
    /// Adds a row of the whole cell without shadows; the caller fills in what it knows.
    pub fn push(
        &mut self,
        score: &Entry,
        stratum: impl Into<Arc<str>>,
        value: Option<f64>,
        weight: f64,
        n: u64,
    ) -> &mut ScoreRow {
        self.push_as(score.name.into(), stratum.into(), value, weight, n)
    }

    /// The same of a score that is in no catalogue.
    fn push_as(
        &mut self,
        metric: Cow<'static, str>,
        stratum: Arc<str>,
        value: Option<f64>,
        weight: f64,
        n: u64,
    ) -> &mut ScoreRow {
        self.rows.push(ScoreRow {
            variant: Arc::clone(&self.ids.0),
            trajectory: Arc::clone(&self.ids.1),
            event: None,
            metric,
            stratum,
            value,
            floor: None,
            ceiling: None,
            atom_bag: None,
            chance: None,
            weight,
            n,
            n_kept: None,
        });
        self.rows.last_mut().expect("a row was just pushed")
    }
}

/// a / b, or null where there is nothing to divide by.
pub(crate) fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}
