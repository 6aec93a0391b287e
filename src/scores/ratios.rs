//! `level_ratio`: how far each level of a strategy compresses, for strategies that have levels.
//!
//! Tokens of what was compressed over tokens of what it became, over all events; a segment counts once for each level that it
//! reaches, against its original. `level_in_band` says how many segments lie within 3:1 to 5:1 (light) and 8:1 to 15:1
//! (heavy): the bands of the seed tiered-memory.

use std::collections::BTreeMap;

use super::registry::{Better, Entry, Unit};
use super::{Rows, ratio};
use crate::replay::Run;
use crate::strategies::Compressed;

pub const LEVEL_RATIO: Entry = Entry {
    name: "level_ratio",
    summary: "How far each level of a tiered memory compresses",
    formula: "original tokens of the segments that reached a level / their tokens there",
    unit: Unit::Ratio,
    better: Better::Neither,
    strata: &["level"],
    ..Entry::SHARE
};

pub const LEVEL_IN_BAND: Entry = Entry {
    name: "level_in_band",
    summary: "Share of the segments that each level compresses as far as it should, 3:1 to 5:1 (light) or 8:1 to 15:1 (heavy)",
    formula: "segments that reached a level within its band / segments that reached it",
    strata: &["level"],
    ..Entry::SHARE
};

pub(super) const ENTRIES: &[Entry] = &[LEVEL_RATIO, LEVEL_IN_BAND];

pub fn score(run: &Run, rows: &mut Rows) {
    let mut sums: BTreeMap<&str, Compressed> = BTreeMap::new();
    for (level, made) in run.events.iter().flat_map(|event| &event.work.ratios) {
        let sum = sums.entry(level).or_default();
        sum.before += made.before;
        sum.after += made.after;
        sum.n += made.n;
        sum.n_in_band += made.n_in_band;
    }
    for (level, sum) in sums {
        let stratum = format!("level={level}");
        let value = ratio(sum.before as f64, sum.after as f64);
        rows.push(&LEVEL_RATIO, stratum.clone(), value, sum.after as f64, sum.n);
        let share = ratio(sum.n_in_band as f64, sum.n as f64);
        rows.push(&LEVEL_IN_BAND, stratum, share, sum.n as f64, sum.n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Event;

    #[test]
    fn ratios_add_up_over_events() {
        let mut events = vec![Event::test(2, 1..2), Event::test(3, 2..3)];
        let made = |before, after, n_in_band| Compressed { before, after, n: 2, n_in_band };
        events[0].work.ratios.insert("light", made(400, 100, 2));
        events[1].work.ratios.insert("light", made(200, 100, 1));
        events[1].work.ratios.insert("heavy", made(400, 40, 0));
        let mut rows = Rows { ids: ("v".into(), "t".into()), rows: Vec::new() };
        score(&Run { events, ..Run::default() }, &mut rows);
        let all: Vec<_> = rows.rows.iter().map(|row| (&*row.stratum, row.value, row.weight)).collect();
        let (heavy, light) = ("level=heavy", "level=light");
        assert_eq!(
            all,
            [
                (heavy, Some(10.0), 40.0),
                (heavy, Some(0.0), 2.0),
                (light, Some(3.0), 200.0),
                (light, Some(0.75), 4.0)
            ]
        );
    }
}
