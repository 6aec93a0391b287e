//! Pools the scores of trajectories into estimates.
//!
//! Pooled value of a score = sum(value * weight) / sum(weight) over the trajectories where it is
//! defined. All statistics are functions of such sums, see [`super::inference`].

use super::estimate::ratio;
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
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

    /// What it adds to the sums of all fields; 0 of what is not there.
    fn all_terms(&self) -> Terms {
        let of = |x: Option<f64>| x.unwrap_or(0.0) * self.weight;
        let [value, floor, ceiling] = [self.value, self.floor, self.ceiling].map(of);
        [
            [value, value - floor, ceiling - floor, self.weight],
            [floor, ceiling, of(self.atom_bag), of(self.chance)],
        ]
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
    pub(crate) memo: &'a Memo,
}

/// Sums that several columns are made of, by metric and stratum.
#[derive(Default)]
pub(crate) struct Memo(RefCell<BTreeMap<(String, String), Rc<Summed>>>);

/// Terms of a row. Those of a half are drawn together, as they are asked for together: a draw costs more than a sum.
type Terms = [[f64; HALF]; 2];
const HALF: usize = 4;

/// Half and place of a term.
type At = (usize, usize);
const VALUE: At = (0, 0);
const GAIN: At = (0, 1);
const ROOM: At = (0, 2);
const WEIGHT: At = (0, 3);
const FLOOR: At = (1, 0);
const CEILING: At = (1, 1);
const ATOM_BAG: At = (1, 2);
const CHANCE: At = (1, 3);

/// Sums of terms by cluster, and their resamples once somebody asks.
struct Summed {
    clusters: Vec<Terms>,
    from: Arc<[DrawnFrom]>,
    n_items: u64,
    n_kept: Option<u64>,
    n_trajectories: usize,
    drawn: [OnceCell<Vec<[f64; HALF]>>; 2],
}

/// A score in a stratum: the rows that count and have a weight, and the sums of those with a value, which its fields share.
pub(crate) struct Pool<'a> {
    of: &'a Scores<'a>,
    metric: &'a str,
    is_scored: bool,
    rows: Vec<&'a Score>,
    summed: Rc<Summed>,
}

impl Scores<'_> {
    /// The same of some trajectories, whose sums are others.
    pub(crate) fn part<'s>(&'s self, only: &'s [bool], memo: &'s Memo) -> Scores<'s> {
        Scores { only: Some(only), memo, ..*self }
    }

    fn get(&self, metric: &str, stratum: &str) -> &[Score] {
        let key = (metric.to_owned(), stratum.to_owned());
        self.rows.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Rows that count and have a weight.
    fn rows_of(&self, metric: &str, stratum: &str) -> impl Iterator<Item = &Score> {
        let rows = self.get(metric, stratum).iter().filter(|s| s.weight > 0.0);
        rows.filter(|s| self.only.is_none_or(|only| only[s.trajectory as usize]))
    }

    /// A score in a stratum.
    pub(crate) fn pool<'s>(&'s self, metric: &'s str, stratum: &str) -> Pool<'s> {
        let rows: Vec<&Score> = self.rows_of(metric, stratum).collect();
        let known = self.memo.0.borrow().get(&(metric.to_owned(), stratum.to_owned())).cloned();
        let valued = rows.iter().filter(|s| s.value.is_some()).map(|s| (*s, s.all_terms()));
        let summed = known.unwrap_or_else(|| Rc::new(self.summed(valued)));
        Pool { of: self, metric, is_scored: !self.get(metric, stratum).is_empty(), rows, summed }
    }

    /// Sums by cluster of the terms of rows.
    fn summed<'r>(&self, rows: impl Iterator<Item = (&'r Score, Terms)>) -> Summed {
        let mut has_part: Vec<bool> = self.drawn.iter().map(DrawnFrom::is_of_corpus).collect();
        let mut clusters = vec![Terms::default(); self.drawn.len()];
        let mut trajectories = vec![false; self.clusters.len()];
        let (mut n_items, mut n_kept) = (0, Some(0));
        for (score, terms) in rows {
            trajectories[score.trajectory as usize] = true;
            n_items += score.n;
            n_kept = n_kept.zip(score.kept()).map(|(all, kept)| all + kept);
            let cluster = self.clusters[score.trajectory as usize] as usize;
            has_part[cluster] = true;
            for (sum, term) in clusters[cluster].as_flattened_mut().iter_mut().zip(terms.as_flattened()) {
                *sum += term;
            }
        }
        let parts = || has_part.iter().enumerate().filter(|(_, has)| **has).map(|(cluster, _)| cluster);
        Summed {
            from: parts().map(|cluster| self.drawn[cluster]).collect(),
            clusters: parts().map(|cluster| clusters[cluster]).collect(),
            n_items,
            n_kept,
            n_trajectories: trajectories.iter().filter(|is| **is).count(),
            drawn: Default::default(),
        }
    }

    /// A statistic over some of such sums; `weight` is a cluster's part of the denominator.
    fn estimate<const K: usize>(
        &self,
        (scale, n_kept): (Scale, Option<u64>),
        (of, at): (&Summed, [At; K]),
        statistic: impl Fn(&[f64; K]) -> Option<f64>,
        weight: impl Fn(&[f64; K]) -> f64,
    ) -> Estimate {
        let clusters: Vec<[f64; K]> = of.clusters.iter().map(|sums| at.map(|(i, j)| sums[i][j])).collect();
        let pooled = Resampled::of(scale, &clusters, of.from.clone(), &statistic, weight);
        let mut pooled = Resampled { n_items: of.n_items, n_kept, ..pooled };
        if pooled.uses_draws() {
            // Which clusters are drawn hangs on who has a part, so that all statistics over these share the draws.
            let drawn = |half: usize| of.drawn[half].get_or_init(|| self.draws(&pooled, &of.clusters, half));
            let columns = at.map(|(half, place)| (drawn(half), place));
            let sums = |draw: usize| columns.map(|(sums, place)| sums[draw][place]);
            let draws = 0..self.resampling.resamples;
            pooled.draws = draws.map(|draw| statistic(&sums(draw)).unwrap_or(f64::NAN)).collect();
        }
        Estimate { n_trajectories: of.n_trajectories, ..pooled.estimate() }
    }

    /// The sums of each resample, of half of the terms.
    fn draws(&self, pooled: &Resampled, clusters: &[Terms], half: usize) -> Vec<[f64; HALF]> {
        let mut drawn = Drawn::new(self.resampling, strata(&pooled.drawn, &pooled.counts));
        let weighted = |weights: Vec<f64>| -> Vec<[f64; HALF]> {
            clusters.iter().zip(weights).map(|(sums, weight)| sums[half].map(|x| weight * x)).collect()
        };
        let known = sum(weighted(drawn.known(clusters.len())).iter());
        let varying = weighted(drawn.weights(clusters.len()));
        let sums = drawn.sums(&varying, self.resampling.resamples).into_iter();
        sums.map(|drawn| sum([&known, &drawn].into_iter())).collect()
    }

    /// A column of the summary.
    pub(crate) fn column(&self, score: &Entry, column: &Column) -> Estimate {
        if let (Field::Value, Pooled::Lift { of, over }) = (column.field, score.pooled) {
            return self.lift(of, over);
        }
        let stratum = self.sets.stratum(self.rows, score.name, column.set);
        let pool = self.pool(score.name, stratum);
        let key = (score.name.to_owned(), stratum.to_owned());
        self.memo.0.borrow_mut().entry(key).or_insert_with(|| pool.summed.clone());
        pool.field(column.field)
    }

    /// The pooled field of a score.
    pub(crate) fn pooled(&self, metric: &str, stratum: &str, field: Field) -> Estimate {
        self.pool(metric, stratum).field(field)
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
            let terms = [[lost, self.weights[trajectory as usize], 0.0, 0.0], [0.0; HALF]];
            (Score { n, ..Score::nothing(trajectory) }, terms)
        });
        let sessions: Vec<(Score, Terms)> = sessions.collect();
        let summed = self.summed(sessions.iter().map(|(score, terms)| (score, *terms)));
        let at = [(0, 0), (0, 1)];
        self.estimate((Scale::Score, summed.n_kept), (&summed, at), |s| ratio(s[0], s[1]), |s| s[1])
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
        let terms = || self.rows_of(metric, stratum).filter_map(|s| s.terms(field));
        ratio(terms().map(|[top, _]| top).sum(), terms().map(|[_, bottom]| bottom).sum())
    }

    pub(crate) fn efficiency_stratum(&self) -> &str {
        self.sets.stratum(self.rows, NEED_RETENTION.name, Set::Capped)
    }

    /// 1 - a share of what was removed / the same share of the scope.
    fn lift(&self, of: &str, over: &str) -> Estimate {
        if [of, over].iter().any(|metric| self.get(metric, "").is_empty()) {
            return Estimate::null("no rows");
        }
        let shares = |metric| self.rows_of(metric, "").filter_map(|s| Some((s, s.value? * s.weight)));
        let mut terms: Vec<(&Score, Terms)> =
            shares(of).map(|(s, share)| (s, [[share, s.weight, 0.0, 0.0], [0.0; HALF]])).collect();
        if terms.is_empty() {
            return Estimate::null("nothing was removed");
        }
        terms.extend(shares(over).map(|(s, share)| (s, [[0.0, 0.0, share, s.weight], [0.0; HALF]])));
        if self.value(over, "", Field::Value).is_none_or(|share| share <= 0.0) {
            return Estimate::null("nothing in scope was needed");
        }
        let lift = |s: &[f64; 4]| Some(1.0 - ratio(s[0], s[1])? / ratio(s[2], s[3]).filter(|x| *x > 0.0)?);
        let summed = self.summed(terms.into_iter());
        let at = [(0, 0), (0, 1), (0, 2), (0, 3)];
        self.estimate((Scale::Score, summed.n_kept), (&summed, at), lift, |s| s[3])
    }
}

impl Pool<'_> {
    /// The sums of the rows in which something is there: those of the rows with a value, where they are the same rows.
    fn over(&self, is_there: impl Fn(&Score) -> bool) -> Rc<Summed> {
        match self.rows.iter().all(|s| is_there(s) == s.value.is_some()) {
            true => self.summed.clone(),
            false => {
                let rows = self.rows.iter().filter(|s| is_there(s)).map(|s| (*s, s.all_terms()));
                Rc::new(self.of.summed(rows))
            }
        }
    }

    /// A pooled field; one of a score that nobody knows is a share while it stays within 0 to 1.
    pub(crate) fn field(&self, field: Field) -> Estimate {
        let at = match field {
            Field::Value => VALUE,
            Field::Floor => FLOOR,
            Field::Ceiling => CEILING,
            Field::AtomBag => ATOM_BAG,
            Field::Chance => CHANCE,
            Field::Room => ROOM,
            Field::Corrected => return self.corrected(),
            Field::Efficiency => return self.efficiency(),
        };
        if !self.is_scored {
            return Estimate::null("no rows");
        }
        let scale = field.scale(scores::find(self.metric).map_or(Scale::Share, |score| score.scale));
        let terms: Vec<[f64; 2]> = self.rows.iter().filter_map(|s| s.terms(field)).collect();
        let scale = scale_of(scale, terms.iter());
        let summed = self.over(|s| s.terms(field).is_some());
        // What others would have kept is no count.
        let n_kept = summed.n_kept.filter(|_| field == Field::Value);
        self.of.estimate((scale, n_kept), (&summed, [at, WEIGHT]), |s| ratio(s[0], s[1]), |s| s[1])
    }

    /// (x - c) / (1 - c) of the pooled value x and chance c.
    fn corrected(&self) -> Estimate {
        if !self.is_scored {
            return Estimate::null("no rows");
        }
        let summed = self.over(|s| s.value.is_some() && s.chance.is_some());
        let at = [VALUE, CHANCE, WEIGHT];
        let corrected = |s: &[f64; 3]| ratio(s[0] - s[1], s[2] - s[1]);
        self.of.estimate((Scale::Score, summed.n_kept), (&summed, at), corrected, |s| s[2] - s[1])
    }

    /// Where a score stands between floor and ceiling; withheld where that would mean little.
    pub(crate) fn efficiency(&self) -> Estimate {
        if !self.is_scored {
            return Estimate::null("no rows");
        }
        let summed = self.over(|s| s.terms(Field::Efficiency).is_some());
        let counts = (Scale::Score, summed.n_kept);
        let room = self.of.estimate(counts, (&summed, [ROOM, WEIGHT]), |s| ratio(s[0], s[1]), |s| s[1]);
        if let Some(reason) = efficiency_withheld(&room) {
            return Estimate { value: None, interval: None, reason: Some(reason), ..room };
        }
        self.of.estimate(counts, (&summed, [GAIN, ROOM, WEIGHT]), |s| ratio(s[0], s[1]), |s| s[1])
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
