//! Pools the scores of trajectories into estimates.
//!
//! Pooled value of a score = sum(value * weight) / sum(weight) over the trajectories where it is
//! defined. All statistics are functions of such sums, see [`super::inference`].

use super::estimate::ratio;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::bootstrap::{Drawn, Resampling};
use super::design::{DrawnFrom, strata};
use super::estimate::Estimate;
use super::inference::{Resampled, scale_of, sum};
use crate::report::load::{Score, Stratum, VariantScores};
use crate::scores;
use crate::scores::registry::{Column, Entry, Field, Pooled, Scale, Set};
use crate::scores::retention::NEED_RETENTION;

/// The strata of the headline, as they are spelled in the rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sets {
    /// Reference tail in turns.
    pub(crate) tail: String,
    /// On which variants can be compared: every variant answers the same questions.
    pub(crate) common: String,
    /// On which efficiency is defined: needs that the trigger put at risk.
    pub(crate) exposed: String,
    /// The same, each trajectory's weight capped.
    pub(crate) capped: String,
}

/// The reference tail of the headline where a run has it; else its longest.
const HEADLINE_TAIL: &str = "10";

impl Sets {
    pub(crate) fn of(rows: &VariantScores) -> Self {
        let tails = rows.keys().filter(|(metric, _)| metric == NEED_RETENTION.name);
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

    /// How the rows of a score spell a set.
    pub(crate) fn stratum<'a>(&'a self, rows: &VariantScores, metric: &str, set: Set) -> &'a str {
        let first = |first: &'a str, or: &'a str| {
            if rows.contains_key(&(metric.to_owned(), first.to_owned())) { first } else { or }
        };
        match set {
            Set::Common => &self.common,
            Set::Exposed => &self.exposed,
            Set::Capped => first(&self.capped, &self.exposed),
            Set::Whole => first(&self.common, first("", AT_END)),
            Set::Stratum(stratum) => stratum,
        }
    }
}

/// Stratum of the scores that look at the context when the log ends.
pub(crate) const AT_END: &str = "point=end";

/// Efficiency is null where there is less room between random and oracle.
const MIN_ROOM: f64 = 0.05;

impl Score {
    /// A trajectory without such a score.
    fn nothing(trajectory: u32) -> Self {
        let (value, floor, ceiling, atom_bag, chance) = (None, None, None, None, None);
        Score { trajectory, value, floor, ceiling, atom_bag, chance, weight: 0.0, n: 0, n_kept: None }
    }

    /// Items kept, each counted once: as the row counts them, or where all weigh 1 as its value says.
    pub(crate) fn kept(&self) -> Option<u64> {
        let n = self.n as f64;
        let is_even = (self.weight - n).abs() < 1e-6;
        self.n_kept.or_else(|| self.value.filter(|_| is_even).map(|x| (x * n).round() as u64))
    }

    /// What is missing, and of how much: items where they are counted one by one, else weight.
    fn lost_of(&self) -> (f64, f64) {
        match (self.value, self.n_kept) {
            (None, _) => (0.0, 0.0),
            (_, Some(kept)) => ((self.n - kept.min(self.n)) as f64, self.n as f64),
            (Some(x), None) => ((1.0 - x) * self.weight, self.weight),
        }
    }

    fn lost(&self) -> f64 {
        self.lost_of().0
    }

    /// Top and bottom of what a row adds to the pooled value of a field.
    pub(crate) fn terms(&self, field: Field) -> Option<[f64; 2]> {
        let w = self.weight;
        let of = |x: Option<f64>| x.map(|x| [x * w, w]);
        match field {
            Field::Value => of(self.value),
            Field::Floor => of(self.floor),
            Field::Ceiling => of(self.ceiling),
            Field::AtomBag => of(self.atom_bag),
            Field::Chance => of(self.chance),
            Field::Corrected => Some([(self.value? - self.chance?) * w, (1.0 - self.chance?) * w]),
            Field::Efficiency => Some([(self.value? - self.floor?) * w, (self.ceiling? - self.floor?) * w]),
            Field::Room => self.value.and(Some([(self.ceiling? - self.floor?) * w, w])),
        }
    }
}

/// The trajectory that lost most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Worst {
    pub(crate) trajectory: u32,
    /// Items, each counted once; where nobody counted them, the fewest that there can be.
    pub(crate) lost: u64,
    pub(crate) is_counted: bool,
}

/// The scores of a variant, or of a part of its trajectories, ready to be pooled.
pub(crate) struct Scores<'a> {
    pub(crate) sets: &'a Sets,
    pub(crate) rows: &'a VariantScores,
    /// Cluster of each trajectory.
    pub(crate) clusters: &'a [u32],
    /// Where each cluster was drawn from.
    pub(crate) drawn: &'a [DrawnFrom],
    /// Sessions that each trajectory stands for.
    pub(crate) weights: &'a [f64],
    /// Trajectories that count; all where `None`.
    pub(crate) only: Option<&'a [bool]>,
    pub(crate) resampling: Resampling,
}

/// Sums of terms by cluster, and their resamples once somebody asks.
struct Summed<const K: usize> {
    clusters: Vec<[f64; K]>,
    from: Arc<[DrawnFrom]>,
    n_items: u64,
    n_kept: Option<u64>,
    n_trajectories: usize,
    drawn: OnceCell<Vec<[f64; K]>>,
}

impl Scores<'_> {
    fn get(&self, metric: &str, stratum: &str) -> &[Score] {
        let key = (metric.to_owned(), stratum.to_owned());
        self.rows.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Sums by cluster of the terms of rows.
    fn summed<const K: usize>(&self, rows: &[(&Score, [f64; K])]) -> Summed<K> {
        let all = (0..).zip(self.drawn).filter(|(_, drawn)| drawn.is_of_corpus());
        let mut clusters: BTreeMap<u32, [f64; K]> = all.map(|(c, _)| (c, [0.0; K])).collect();
        let mut trajectories = BTreeSet::new();
        let (mut n_items, mut n_kept) = (0, Some(0));
        for (score, terms) in rows {
            trajectories.insert(score.trajectory);
            n_items += score.n;
            n_kept = n_kept.zip(score.kept()).map(|(all, kept)| all + kept);
            let sums = clusters.entry(self.clusters[score.trajectory as usize]).or_insert([0.0; K]);
            for (sum, term) in sums.iter_mut().zip(terms) {
                *sum += term;
            }
        }
        Summed {
            from: clusters.keys().map(|&c| self.drawn[c as usize]).collect(),
            clusters: clusters.into_values().collect(),
            n_items,
            n_kept,
            n_trajectories: trajectories.len(),
            drawn: OnceCell::new(),
        }
    }

    /// A statistic over such sums; `weight` is a cluster's part of the denominator.
    fn estimate<const K: usize>(
        &self,
        scale: Scale,
        of: &Summed<K>,
        statistic: impl Fn(&[f64; K]) -> Option<f64>,
        weight: impl Fn(&[f64; K]) -> f64,
    ) -> Estimate {
        let pooled = Resampled::of(scale, &of.clusters, of.from.clone(), &statistic, weight);
        let mut pooled = Resampled { n_items: of.n_items, n_kept: of.n_kept, ..pooled };
        if pooled.wants_draws() {
            // Which clusters are drawn hangs on their sums alone, so that all statistics over these share the draws.
            let sums = of.drawn.get_or_init(|| self.draws(&pooled, &of.clusters));
            pooled.draws = sums.iter().map(|sums| statistic(sums).unwrap_or(f64::NAN)).collect();
        }
        Estimate { n_trajectories: of.n_trajectories, ..pooled.estimate() }
    }

    /// The sums of each resample.
    fn draws<const K: usize>(&self, pooled: &Resampled, clusters: &[[f64; K]]) -> Vec<[f64; K]> {
        let mut drawn = Drawn::new(self.resampling, strata(&pooled.drawn, &pooled.counts));
        let weighted = |weights: Vec<f64>| -> Vec<[f64; K]> {
            clusters.iter().zip(weights).map(|(sums, weight)| sums.map(|x| weight * x)).collect()
        };
        let known = sum(weighted(drawn.known(clusters.len())).iter());
        let varying = weighted(drawn.weights(clusters.len()));
        let sums = drawn.sums(&varying, self.resampling.resamples).into_iter();
        sums.map(|drawn| sum([&known, &drawn].into_iter())).collect()
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

    /// A column of the summary.
    pub(crate) fn column(&self, score: &Entry, column: &Column) -> Estimate {
        let stratum = self.sets.stratum(self.rows, score.name, column.set);
        match (column.field, score.pooled) {
            (Field::Value, Pooled::Lift { of, over }) => self.lift(of, over),
            (Field::Corrected, _) => self.corrected(score.name, stratum),
            (Field::Efficiency, _) => self.efficiency(score.name, stratum),
            (field, _) => self.pooled(score.name, stratum, field),
        }
    }

    /// The pooled field of a score; one that nobody knows is a share while it stays within 0 to 1.
    pub(crate) fn pooled(&self, metric: &str, stratum: &str, field: Field) -> Estimate {
        let rows = self.get(metric, stratum);
        if rows.is_empty() {
            return Estimate::null("no rows");
        }
        let terms = self.terms(rows, |s| s.terms(field));
        let scale = field.scale(scores::find(metric).map_or(Scale::Share, |score| score.scale));
        let scale = scale_of(scale, terms.iter().map(|(_, terms)| terms));
        let mut summed = self.summed(&terms);
        // What others would have kept is no count.
        summed.n_kept = summed.n_kept.filter(|_| field == Field::Value);
        self.estimate(scale, &summed, |s| ratio(s[0], s[1]), |s| s[1])
    }

    /// What the mean session lost: items, or weight, over sessions, those without such items included.
    pub(crate) fn lost(&self, metric: &str, stratum: &str) -> Estimate {
        let rows = self.get(metric, stratum);
        let mut lost = vec![(0.0, 0); self.clusters.len()];
        for row in rows {
            // A count is of one session, which stands for as many as it weighs; a weight has that in it.
            let stands_for = if row.n_kept.is_some() { self.weights[row.trajectory as usize] } else { 1.0 };
            lost[row.trajectory as usize] = (stands_for * row.lost(), row.n);
        }
        let sessions = (0..).zip(lost).filter(|(i, _)| self.only.is_none_or(|only| only[*i as usize]));
        let sessions = sessions.map(|(trajectory, (lost, n))| {
            let terms = [lost, self.weights[trajectory as usize]];
            (Score { n, ..Score::nothing(trajectory) }, terms)
        });
        let sessions: Vec<(Score, [f64; 2])> = sessions.collect();
        let terms: Vec<(&Score, [f64; 2])> = sessions.iter().map(|(score, terms)| (score, *terms)).collect();
        self.estimate(Scale::Score, &self.summed(&terms), |s| ratio(s[0], s[1]), |s| s[1])
    }

    /// What was lost over all, and of how much.
    pub(crate) fn lost_of(&self, metric: &str, stratum: &str) -> (f64, f64) {
        let rows = self.get(metric, stratum).iter().filter(|s| s.value.is_some());
        let rows = rows.filter(|s| self.only.is_none_or(|only| only[s.trajectory as usize]));
        rows.map(Score::lost_of).fold((0.0, 0.0), |all, (lost, of)| (all.0 + lost, all.1 + of))
    }

    /// The trajectory that lost most, which may be nothing; none where no item was asked for.
    pub(crate) fn worst(&self, metric: &str, stratum: &str) -> Option<Worst> {
        let rows = self.get(metric, stratum).iter();
        let rows = rows.filter(|s| self.only.is_none_or(|only| only[s.trajectory as usize]));
        let lost = rows.filter_map(|s| {
            let weight = (1.0 - s.value?) * s.weight / self.weights[s.trajectory as usize];
            let counted = s.kept().map(|kept| s.n.saturating_sub(kept));
            // No item weighs more than 1, so there are at least as many.
            let lost = counted.unwrap_or((weight - 1e-6).ceil().max(0.0) as u64);
            Some(Worst { trajectory: s.trajectory, lost, is_counted: counted.is_some() })
        });
        lost.max_by(|a, b| a.lost.cmp(&b.lost).then(b.trajectory.cmp(&a.trajectory)))
    }

    /// The pooled value alone, which costs no resampling.
    pub(crate) fn value(&self, metric: &str, stratum: &str, field: Field) -> Option<f64> {
        let terms = self.terms(self.get(metric, stratum), |s| s.terms(field));
        let sum = |i: usize| terms.iter().map(|(_, t): &(&Score, [f64; 2])| t[i]).sum();
        ratio(sum(0), sum(1))
    }

    /// (x - c) / (1 - c) of the pooled value x and chance c.
    pub(crate) fn corrected(&self, metric: &str, stratum: &str) -> Estimate {
        let rows = self.get(metric, stratum);
        if rows.is_empty() {
            return Estimate::null("no rows");
        }
        let terms = self.terms(rows, |s| Some([s.value? * s.weight, s.chance? * s.weight, s.weight]));
        self.estimate(
            Scale::Score,
            &self.summed(&terms),
            |s| ratio(s[0] - s[1], s[2] - s[1]),
            |s| s[2] - s[1],
        )
    }

    /// Where a score stands between floor and ceiling; withheld where that would mean little.
    pub(crate) fn efficiency(&self, metric: &str, stratum: &str) -> Estimate {
        let rows = self.get(metric, stratum);
        if rows.is_empty() {
            return Estimate::null("no rows");
        }
        let terms = self.terms(rows, |s| {
            let [x, floor, ceiling] = [s.value?, s.floor?, s.ceiling?].map(|x| x * s.weight);
            Some([x - floor, ceiling - floor, s.weight])
        });
        let terms = self.summed(&terms);
        let room = self.estimate(Scale::Score, &terms, |s| ratio(s[1], s[2]), |s| s[2]);
        if let Some(reason) = efficiency_withheld(&room) {
            return Estimate { value: None, interval: None, reason: Some(reason), ..room };
        }
        self.estimate(Scale::Score, &terms, |s| ratio(s[0], s[1]), |s| s[1])
    }

    pub(crate) fn efficiency_stratum(&self) -> &str {
        self.sets.stratum(self.rows, NEED_RETENTION.name, Set::Capped)
    }

    /// 1 - a share of what was removed / the same share of the scope.
    fn lift(&self, of: &str, over: &str) -> Estimate {
        let (removed, scope) = (self.get(of, ""), self.get(over, ""));
        if removed.is_empty() || scope.is_empty() {
            return Estimate::null("no rows");
        }
        let mut terms = self.terms(removed, |s| Some([s.value? * s.weight, s.weight, 0.0, 0.0]));
        if terms.is_empty() {
            return Estimate::null("nothing was removed");
        }
        terms.extend(self.terms(scope, |s| Some([0.0, 0.0, s.value? * s.weight, s.weight])));
        if self.value(over, "", Field::Value).is_none_or(|share| share <= 0.0) {
            return Estimate::null("nothing in scope was needed");
        }
        let lift = |s: &[f64; 4]| Some(1.0 - ratio(s[0], s[1])? / ratio(s[2], s[3]).filter(|x| *x > 0.0)?);
        self.estimate(Scale::Score, &self.summed(&terms), lift, |s| s[3])
    }
}

/// Why an efficiency means nothing where oracle - random is this, if so. That the room is alike in all clusters, and so
/// without an interval, is no reason.
pub(crate) fn efficiency_withheld(room: &Estimate) -> Option<String> {
    let Some(value) = room.value else {
        return Some(room.reason.clone().unwrap_or_else(|| "no data".to_owned()));
    };
    if room.interval.is_some_and(|(lo, hi)| lo <= 0.0 && hi >= 0.0) {
        return Some("the interval of oracle - random holds 0".to_owned());
    }
    (value < MIN_ROOM).then(|| format!("oracle - random is under {MIN_ROOM}"))
}

#[cfg(test)]
mod tests;
