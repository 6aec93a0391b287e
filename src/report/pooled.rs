//! Pools the scores of trajectories into estimates.
//!
//! Pooled value of a score = sum(value * weight) / sum(weight) over the trajectories where it is
//! defined. All statistics are functions of such sums, see [`super::bootstrap`].

use std::collections::{BTreeMap, BTreeSet};

use super::bootstrap::{Estimate, Resampling, estimate};
use super::load::{Score, Stratum, VariantScores};

/// The strata of the headline, as they are spelled in the rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sets {
    /// Reference tail in turns.
    pub(super) tail: String,
    /// On which variants can be compared: every variant answers the same questions.
    pub(super) common: String,
    /// On which efficiency is defined: needs that the trigger put at risk.
    pub(super) exposed: String,
    /// The same, each trajectory's weight capped.
    pub(super) capped: String,
}

/// The reference tail of the headline where a run has it; else its longest.
const HEADLINE_TAIL: &str = "10";

impl Sets {
    pub(super) fn of(rows: &VariantScores) -> Self {
        let tails = rows.keys().filter(|(metric, _)| metric == NEED);
        let tails: BTreeSet<u64> =
            tails.filter_map(|(_, stratum)| Stratum::parse(stratum).get("tail")?.parse().ok()).collect();
        let headline = HEADLINE_TAIL.parse().expect("a number");
        let tail = match tails.last() {
            Some(longest) if !tails.contains(&headline) => longest.to_string(),
            _ => HEADLINE_TAIL.to_owned(),
        };
        let of = |set: &str, more: &str| format!("set={set} tail={tail}{more}");
        Sets { common: of("common", ""), exposed: of("exposed", ""), capped: of("exposed", " cap=20"), tail }
    }
}

/// Efficiency is null below these.
const MIN_NEEDS: u64 = 30;
const MIN_CLUSTERS: usize = 10;
const MIN_ROOM: f64 = 0.05;
/// Of the room, in every resample.
const MIN_RESAMPLED_ROOM: f64 = 0.1;

pub(super) const NEED: &str = "need_retention";
pub(super) const SURFACE: &str = "surface_retention";

/// The scores of a variant, or of a part of its trajectories, ready to be pooled.
pub(super) struct Scores<'a> {
    pub(super) sets: &'a Sets,
    pub(super) rows: &'a VariantScores,
    /// Cluster of each trajectory.
    pub(super) clusters: &'a [u32],
    /// Trajectories that count; all where `None`.
    pub(super) only: Option<&'a [bool]>,
    pub(super) resampling: Resampling,
}

impl Scores<'_> {
    fn get(&self, metric: &str, stratum: &str) -> &[Score] {
        let key = (metric.to_owned(), stratum.to_owned());
        self.rows.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Sums by cluster of what `pick` makes of each row, with the statistic over them.
    fn estimate<const K: usize>(
        &self,
        rows: &[(&Score, [f64; K])],
        statistic: impl Fn(&[f64; K]) -> Option<f64>,
    ) -> Estimate {
        let mut clusters: BTreeMap<u32, [f64; K]> = BTreeMap::new();
        let mut trajectories = BTreeSet::new();
        let mut n_items = 0;
        for (score, terms) in rows {
            trajectories.insert(score.trajectory);
            n_items += score.n;
            let sums = clusters.entry(self.clusters[score.trajectory as usize]).or_insert([0.0; K]);
            for (sum, term) in sums.iter_mut().zip(terms) {
                *sum += term;
            }
        }
        let clusters: Vec<[f64; K]> = clusters.into_values().collect();
        Estimate {
            n_trajectories: trajectories.len(),
            n_items,
            ..estimate(&clusters, statistic, self.resampling)
        }
    }

    /// Rows that count and have a weight, with the terms of their sums.
    fn terms<'s, const K: usize>(
        &self,
        rows: &'s [Score],
        terms: impl Fn(&Score) -> Option<[f64; K]>,
    ) -> Vec<(&'s Score, [f64; K])> {
        rows.iter()
            .filter(|s| s.weight > 0.0)
            .filter(|s| self.only.is_none_or(|only| only[s.trajectory as usize]))
            .filter_map(|s| Some((s, terms(s)?)))
            .collect()
    }

    /// The pooled field of a score.
    pub(super) fn pooled(&self, metric: &str, stratum: &str, field: fn(&Score) -> Option<f64>) -> Estimate {
        let rows = self.get(metric, stratum);
        if rows.is_empty() {
            return Estimate::null("no rows");
        }
        let terms = self.terms(rows, |s| field(s).map(|x| [x * s.weight, s.weight]));
        self.estimate(&terms, |s| ratio(s[0], s[1]))
    }

    /// The pooled value alone, which costs no resampling.
    pub(super) fn value(&self, metric: &str, stratum: &str, field: fn(&Score) -> Option<f64>) -> Option<f64> {
        let terms = self.terms(self.get(metric, stratum), |s| field(s).map(|x| [x * s.weight, s.weight]));
        let sum = |i: usize| terms.iter().map(|(_, t): &(&Score, [f64; 2])| t[i]).sum();
        ratio(sum(0), sum(1))
    }

    /// (x - c) / (1 - c) of the pooled value x and chance c.
    pub(super) fn corrected(&self, metric: &str, stratum: &str) -> Estimate {
        let rows = self.get(metric, stratum);
        if rows.is_empty() {
            return Estimate::null("no rows");
        }
        let terms = self.terms(rows, |s| Some([s.value? * s.weight, s.chance? * s.weight, s.weight]));
        self.estimate(&terms, |s| ratio(s[0] - s[1], s[2] - s[1]))
    }

    /// Where a score stands between floor and ceiling; withheld where that would mean little.
    pub(super) fn efficiency(&self, metric: &str, stratum: &str) -> Estimate {
        let rows = self.get(metric, stratum);
        if rows.is_empty() {
            return Estimate::null("no rows");
        }
        let terms = self.terms(rows, |s| {
            let [x, floor, ceiling] = [s.value?, s.floor?, s.ceiling?].map(|x| x * s.weight);
            Some([x - floor, ceiling - floor, s.weight])
        });
        let room = self.estimate(&terms, |s| ratio(s[1], s[2]));
        if let Some(reason) = efficiency_withheld(&room) {
            return Estimate { value: None, interval: None, reason: Some(reason), ..room };
        }
        self.estimate(&terms, |s| ratio(s[0], s[1]))
    }

    pub(super) fn efficiency_stratum(&self) -> &str {
        if self.get(NEED, &self.sets.capped).is_empty() { &self.sets.exposed } else { &self.sets.capped }
    }

    pub(super) fn coverage_stratum(&self) -> &str {
        if self.get("need_coverage", &self.sets.common).is_empty() { "" } else { &self.sets.common }
    }

    pub(super) fn discard_lift(&self) -> Estimate {
        let removed = self.get("needed_removed_share", "");
        let scope = self.get("needed_scope_share", "");
        if removed.is_empty() || scope.is_empty() {
            return Estimate::null("no rows");
        }
        let mut terms = self.terms(removed, |s| Some([s.value? * s.weight, s.weight, 0.0, 0.0]));
        if terms.is_empty() {
            return Estimate::null("nothing was removed");
        }
        terms.extend(self.terms(scope, |s| Some([0.0, 0.0, s.value? * s.weight, s.weight])));
        let lift = self.estimate(&terms, |s| {
            Some(1.0 - ratio(s[0], s[1])? / ratio(s[2], s[3]).filter(|share| *share > 0.0)?)
        });
        match lift.value {
            None => Estimate { reason: Some("nothing in scope was needed".to_owned()), ..lift },
            Some(_) => lift,
        }
    }
}

/// Why an efficiency means nothing where oracle - random is this, if so.
pub(super) fn efficiency_withheld(room: &Estimate) -> Option<String> {
    if room.n_items < MIN_NEEDS {
        return Some(format!("{} needs, fewer than {MIN_NEEDS}", room.n_items));
    }
    if room.n_clusters < MIN_CLUSTERS {
        return Some(format!("{} clusters, fewer than {MIN_CLUSTERS}", room.n_clusters));
    }
    let (Some(value), Some((lo, hi)), Some(lowest)) = (room.value, room.interval, room.lowest) else {
        return Some("oracle - random has no interval".to_owned());
    };
    if lo <= 0.0 && hi >= 0.0 {
        return Some("the interval of oracle - random holds 0".to_owned());
    }
    if value < MIN_ROOM {
        return Some(format!("oracle - random is under {MIN_ROOM}"));
    }
    if lowest <= 0.0 {
        return Some("oracle - random is not above 0 in every resample".to_owned());
    }
    if lowest < MIN_RESAMPLED_ROOM * value {
        return Some("oracle - random falls under a tenth of itself in a resample".to_owned());
    }
    None
}

pub(super) fn ratio(top: f64, bottom: f64) -> Option<f64> {
    (bottom != 0.0).then(|| top / bottom).filter(|x| x.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMON: &str = "set=common tail=10";
    const EXPOSED: &str = "set=exposed tail=10";
    const EXPOSED_CAPPED: &str = "set=exposed tail=10 cap=20";
    const RESAMPLING: Resampling = Resampling { seed: 1, resamples: 400 };

    fn score(trajectory: u32, value: f64, floor: f64, ceiling: f64, weight: f64) -> Score {
        Score {
            trajectory,
            value: Some(value),
            floor: Some(floor),
            ceiling: Some(ceiling),
            atom_bag: None,
            chance: Some(0.2),
            weight,
            n: weight as u64,
        }
    }

    fn with<T>(rows: Vec<(&str, &str, Vec<Score>)>, read: impl FnOnce(&Scores) -> T) -> T {
        let rows: VariantScores = rows
            .into_iter()
            .map(|(metric, stratum, rows)| ((metric.to_owned(), stratum.to_owned()), rows))
            .collect();
        let clusters: Vec<u32> = (0..40).collect();
        read(&Scores {
            sets: &Sets::of(&rows),
            rows: &rows,
            clusters: &clusters,
            only: None,
            resampling: RESAMPLING,
        })
    }

    fn close(value: Option<f64>, expected: f64) {
        let value = value.expect("a value");
        assert!((value - expected).abs() < 1e-12, "{value} is not {expected}");
    }

    #[test]
    fn pooling_is_weighted_and_skips_what_is_undefined() {
        let undefined = Score { value: None, ..score(2, 0.0, 0.0, 0.0, 9.0) };
        let weightless = score(3, 0.9, 0.0, 0.0, 0.0);
        let rows = vec![score(0, 0.5, 0.1, 0.9, 1.0), score(1, 0.9, 0.1, 0.9, 3.0), undefined, weightless];
        with(vec![(NEED, COMMON, rows)], |s| {
            let e = s.pooled(NEED, &s.sets.common, |r| r.value);
            // (0.5 * 1 + 0.9 * 3) / 4
            close(e.value, 0.8);
            assert_eq!((e.n_trajectories, e.n_clusters, e.n_items), (2, 2, 4));
            // (0.8 - 0.2) / (1 - 0.2)
            close(s.corrected(NEED, &s.sets.common).value, 0.75);
            assert_eq!(s.pooled(NEED, &s.sets.exposed, |r| r.value).reason.as_deref(), Some("no rows"));
            assert_eq!(s.pooled(NEED, &s.sets.common, |r| r.atom_bag).reason.as_deref(), Some("no data"));
        });
    }

    #[test]
    fn a_part_of_the_trajectories_can_be_pooled_alone() {
        with(vec![(NEED, COMMON, vec![score(0, 0.5, 0.0, 1.0, 1.0), score(1, 0.9, 0.0, 1.0, 3.0)])], |s| {
            let mut only = vec![false; 40];
            only[1] = true;
            let part = Scores { only: Some(&only), ..*s };
            let e = part.pooled(NEED, &s.sets.common, |r| r.value);
            close(e.value, 0.9);
            assert_eq!((e.n_trajectories, e.reason.as_deref()), (1, Some("1 cluster")));
        });
    }

    #[test]
    fn efficiency_is_a_ratio_of_sums_and_is_not_clipped() {
        // Needs 3 each; half the trajectories at floor .2, x .5, ceiling .8, half at .4, 1.0, .8.
        let rows = |n: u32| -> Vec<Score> {
            let odd = |t: u32| {
                if t.is_multiple_of(2) { (0.5, 0.2, 0.8) } else { (1.0, 0.4, 0.8) }
            };
            (0..n).map(|t| score(t, odd(t).0, odd(t).1, odd(t).2, 3.0)).collect()
        };
        with(vec![(NEED, EXPOSED, rows(12))], |s| {
            // ((.3 + .6) * 3 * 6) / ((.6 + .4) * 3 * 6)
            close(s.efficiency(NEED, &s.sets.exposed).value, 0.9);
            assert_eq!(s.efficiency_stratum(), EXPOSED);
        });
        let beyond: Vec<Score> = (0..12).map(|t| score(t, 1.0, 0.5, 0.75, 3.0)).collect();
        with(vec![(NEED, EXPOSED_CAPPED, beyond)], |s| {
            assert_eq!(s.efficiency_stratum(), EXPOSED_CAPPED);
            close(s.efficiency(NEED, EXPOSED_CAPPED).value, 2.0);
        });
    }

    #[test]
    fn efficiency_is_withheld_where_it_would_mean_nothing() {
        let reason = |rows: Vec<Score>| {
            with(vec![(NEED, EXPOSED, rows)], |s| {
                let e = s.efficiency(NEED, &s.sets.exposed);
                assert_eq!((e.value, e.interval), (None, None));
                e.reason.unwrap()
            })
        };
        let few_needs = (0..12).map(|t| score(t, 0.5, 0.2, 0.8, 2.0)).collect();
        assert_eq!(reason(few_needs), "24 needs, fewer than 30");
        let few_clusters = (0..9).map(|t| score(t, 0.5, 0.2, 0.8, 9.0)).collect();
        assert_eq!(reason(few_clusters), "9 clusters, fewer than 10");
        let no_room =
            (0..20).map(|t| score(t, 0.5, 0.5, if t.is_multiple_of(2) { 0.8 } else { 0.2 }, 3.0)).collect();
        assert_eq!(reason(no_room), "the interval of oracle - random holds 0");
        let equal = (0..20).map(|t| score(t, 0.5, 0.5, 0.5, 3.0)).collect();
        assert_eq!(reason(equal), "the interval of oracle - random holds 0");
        // Sure of its sign, yet so small that the quotient is noise over nearly nothing.
        let narrow = (0..20).map(|t| score(t, 0.4, 0.5, 0.54, 3.0)).collect();
        assert_eq!(reason(narrow), "oracle - random is under 0.05");
        let below_zero = (0..20).map(|t| score(t, 0.5, 0.8, 0.2, 3.0)).collect();
        assert_eq!(reason(below_zero), "oracle - random is under 0.05");
        // All room in few clusters: 5 of 20 at .9, the rest at a hair over 0 or under it.
        let few = |t: u32, rest: f64| if t < 5 { 0.9 } else { rest };
        let vanishing = (0..20).map(|t| score(t, 0.1, 0.1, 0.1 + few(t, 1e-6), 3.0)).collect();
        assert_eq!(reason(vanishing), "oracle - random falls under a tenth of itself in a resample");
        let crossing = (0..20).map(|t| score(t, 0.1, 0.1, 0.1 + few(t, -0.02), 3.0)).collect();
        assert_eq!(reason(crossing), "oracle - random is not above 0 in every resample");
    }

    #[test]
    fn discard_lift_compares_pooled_shares() {
        let removed = vec![score(0, 0.1, 0.0, 0.0, 100.0), score(1, 0.0, 0.0, 0.0, 100.0)];
        let scope = vec![score(0, 0.2, 0.0, 0.0, 200.0), score(1, 0.2, 0.0, 0.0, 200.0)];
        let rows = vec![("needed_removed_share", "", removed), ("needed_scope_share", "", scope.clone())];
        // 1 - (10 / 200) / (80 / 400)
        with(rows, |s| close(s.discard_lift().value, 0.75));
        let nothing = vec![Score { value: None, ..score(0, 0.0, 0.0, 0.0, 0.0) }];
        let rows = vec![("needed_removed_share", "", nothing), ("needed_scope_share", "", scope)];
        with(rows, |s| {
            assert_eq!(s.discard_lift().reason.as_deref(), Some("nothing was removed"));
        });
        let one = |value| vec![score(0, value, 0.0, 0.0, 10.0)];
        let rows = vec![("needed_removed_share", "", one(0.0)), ("needed_scope_share", "", one(0.0))];
        with(rows, |s| {
            assert_eq!(s.discard_lift().reason.as_deref(), Some("nothing in scope was needed"));
        });
    }

    #[test]
    fn the_headline_is_at_ten_turns_or_at_the_longest_tail_there_is() {
        let tail = |tails: &[u32]| {
            let rows = |t: &u32| ((NEED.to_owned(), format!("set=common tail={t}")), vec![]);
            Sets::of(&tails.iter().map(rows).collect()).tail
        };
        assert_eq!(tail(&[3, 10, 20]), "10");
        assert_eq!(tail(&[3, 5]), "5");
        assert_eq!(tail(&[]), "10");
    }
}
