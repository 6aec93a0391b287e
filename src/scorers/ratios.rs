//! `level_ratio`: how far each level of a strategy compresses, for strategies that have levels.
//!
//! Tokens of what was compressed over tokens of what it became, over all events; a segment counts once for each level that it
//! reaches, against its original. Source: the ratios of the seed tiered-memory, 3:1 to 5:1 and 8:1 to 15:1.

use std::collections::BTreeMap;

use super::{Entry, Rows, ratio};
use crate::experiment::replay::Run;

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "level_ratio",
    summary: "How far each level of a tiered memory compresses",
    formula: "original tokens of the segments that reached a level / their tokens there",
}];

pub fn score(run: &Run, rows: &mut Rows) {
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (level, (before, after)) in run.events.iter().flat_map(|event| &event.work.ratios) {
        let sum = sums.entry(level).or_default();
        sum.0 += before;
        sum.1 += after;
    }
    for (level, (before, after)) in sums {
        let value = ratio(before as f64, after as f64);
        rows.push("level_ratio", format!("level={level}"), value, after as f64, run.events.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::replay::Event;

    #[test]
    fn ratios_add_up_over_events() {
        let mut events = vec![Event::test(2, 1..2), Event::test(3, 2..3)];
        events[0].work.ratios.insert("light", (400, 100));
        events[1].work.ratios.insert("light", (200, 100));
        events[1].work.ratios.insert("heavy", (400, 40));
        let mut rows = Rows { ids: ("v".into(), "t".into()), rows: Vec::new() };
        score(&Run { events, ..Run::default() }, &mut rows);
        let all: Vec<_> = rows.rows.iter().map(|row| (&*row.stratum, row.value, row.weight)).collect();
        assert_eq!(all, [("level=heavy", Some(10.0), 40.0), ("level=light", Some(3.0), 200.0)]);
    }
}
