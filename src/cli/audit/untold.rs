//! What the logs say was done to the past without saying what went: nothing else is known of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::count;
use crate::logs::{Report, UNTOLD};

/// How often, by format and by what was done.
pub(super) struct Untold(BTreeMap<String, BTreeMap<String, u64>>);

impl Untold {
    pub(super) fn of(report: &Report) -> Self {
        let mut all: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for (format, totals) in &report.formats {
            for (loss, n) in &totals.losses {
                let Some(what) = loss.strip_prefix(UNTOLD) else { continue };
                // What stands behind it is the log's.
                let what = what.split(" (").next().unwrap_or_default();
                *all.entry(format.clone()).or_default().entry(what.to_owned()).or_default() += n;
            }
        }
        Untold(all)
    }

    /// A line for each format; empty where there is nothing.
    pub(super) fn line(&self) -> String {
        let of = |(format, acts): (&String, &BTreeMap<String, u64>)| {
            let acts: Vec<String> = acts.iter().map(|(what, n)| count(*n, what)).collect();
            format!(
                "Logs of {format} record {} without saying what went: nothing more can be told of that.\n",
                acts.join(", ")
            )
        };
        self.0.iter().map(of).collect()
    }

    pub(super) fn json(&self) -> Value {
        json!(self.0)
    }
}
