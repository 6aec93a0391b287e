//! Lines that speak of the task, the user's first message: BM25 to its words, each line a document.
//!
//! Decisions and findings in prose bind few atoms, so that their odds are low though readers mark them: reports/hindsight,
//! spans that were used later. Formula and constants: Robertson and Zaragoza, "The probabilistic relevance framework" (2009).

use rustc_hash::FxHashMap;

use crate::context::log::Log;
use crate::text::runs::words;
use crate::trajectory::Role;

const K1: f64 = 1.2;
const B: f64 = 0.75;

/// The numbers of the units that speak most of the goal, those that were chosen left out, as many as fit.
pub(super) fn by_goal(log: &Log, units: &[Vec<u32>], chosen: &[usize], mut left: u32) -> Vec<usize> {
    let mut worth = worth(log, units);
    chosen.iter().for_each(|&unit| worth[unit] = 0.0);
    let mut order: Vec<usize> = (0..units.len()).filter(|&unit| worth[unit] > 0.0).collect();
    order.sort_by(|&a, &b| worth[b].total_cmp(&worth[a]).then(a.cmp(&b)));
    order.retain(|&unit| {
        let tokens = tokens(log, &units[unit]);
        let fits = tokens <= left;
        left -= if fits { tokens } else { 0 };
        fits
    });
    order
}

pub(super) fn tokens(log: &Log, unit: &[u32]) -> u32 {
    unit.iter().map(|&span| log.spans[span as usize].tokens).sum()
}

/// BM25 of each unit.
fn worth(log: &Log, units: &[Vec<u32>]) -> Vec<f64> {
    // How often a word of the goal stands in the unit at hand, and in how many units it stands.
    let task = log.trajectory.steps.iter().find(|step| step.role == Role::User);
    let goal = words(task.map_or("", |step| step.text.as_str()));
    let numbers: FxHashMap<u64, usize> = goal.iter().enumerate().map(|(at, &word)| (word, at)).collect();
    let mut units_with = vec![0u32; goal.len()];
    let mut documents: Vec<(usize, FxHashMap<usize, f64>)> = Vec::with_capacity(units.len());
    for unit in units {
        let mut counts: FxHashMap<usize, f64> = FxHashMap::default();
        let mut length = 0;
        for word in unit.iter().flat_map(|&span| words(log.span_text(span))) {
            length += 1;
            if let Some(&at) = numbers.get(&word) {
                *counts.entry(at).or_default() += 1.0;
            }
        }
        counts.keys().for_each(|&at| units_with[at] += 1);
        documents.push((length, counts));
    }
    let n = units.len() as f64;
    let mean = documents.iter().map(|(length, _)| *length as f64).sum::<f64>() / n.max(1.0);
    let idf =
        |at: usize| libm::log1p((n - f64::from(units_with[at]) + 0.5) / (f64::from(units_with[at]) + 0.5));
    let score = |(length, counts): &(usize, FxHashMap<usize, f64>)| {
        let norm = K1 * (1.0 - B + B * *length as f64 / mean.max(1.0));
        // In the order of the goal, so that sums are the same each time.
        let mut counts: Vec<(usize, f64)> = counts.iter().map(|(&at, &count)| (at, count)).collect();
        counts.sort_unstable_by_key(|entry| entry.0);
        counts.into_iter().map(|(at, count)| idf(at) * count * (K1 + 1.0) / (count + norm)).sum()
    };
    documents.iter().map(score).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three lines of four words, of which "parser" stands in two and "green" in one: ln 1.6 and ln (1 + 2.5 / 1.5), times
    /// 2.2 / 2.2 in lines of mean length.
    #[test]
    fn bm25_by_hand() {
        let log = Log::script("user: Green parser\nagent: a parser of mine~the parser is green~it is a day");
        let units: Vec<Vec<u32>> = log.spans_of(1).map(|span| vec![span]).collect();
        let worth = worth(&log, &units);
        let (parser, green) = (libm::log(1.6), libm::log(1.0 + 2.5 / 1.5));
        for (found, hand) in worth.iter().zip([parser, parser + green, 0.0]) {
            assert!((found - hand).abs() < 1e-9, "{worth:?}");
        }
        let all = units.iter().map(|unit| tokens(&log, unit)).sum();
        assert_eq!(by_goal(&log, &units, &[], all), [1, 0]);
        assert_eq!(by_goal(&log, &units, &[1], all), [0]);
        assert_eq!(by_goal(&log, &units, &[], tokens(&log, &units[1])), [1], "there is room for one");
    }
}
