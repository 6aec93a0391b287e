//! What was lost and what was saved: one file per family of scores.
//!
//! A scorer turns what a replay and its shadows recorded into rows; it runs no model and no
//! strategy. Every row carries its raw value, floor and ceiling from the same run, and its weight.

pub mod chance;
pub mod discard;
pub mod money;
pub mod retention;

use crate::store::ScoreRow;

/// A score in the catalogue.
pub struct Entry {
    pub name: &'static str,
    pub summary: &'static str,
    pub formula: &'static str,
}

/// All scores, by name.
pub static ALL: &[&[Entry]] = &[discard::ENTRIES, money::ENTRIES, retention::ENTRIES];

/// Rows of one cell.
pub struct Rows<'a> {
    pub variant: &'a str,
    pub trajectory: &'a str,
    pub rows: Vec<ScoreRow>,
}

impl Rows<'_> {
    /// Adds a row of the whole cell without shadows; the caller fills in what it knows.
    pub fn push(
        &mut self,
        metric: &str,
        stratum: &str,
        value: Option<f64>,
        weight: f64,
        n: u64,
    ) -> &mut ScoreRow {
        self.rows.push(ScoreRow {
            variant: self.variant.to_owned(),
            trajectory: self.trajectory.to_owned(),
            event: None,
            metric: metric.to_owned(),
            stratum: stratum.to_owned(),
            value,
            floor: None,
            ceiling: None,
            atom_bag: None,
            chance: None,
            weight,
            n,
        });
        self.rows.last_mut().expect("a row was just pushed")
    }
}

/// a / b, or null where there is nothing to divide by.
pub(crate) fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}
