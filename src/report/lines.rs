//! What the comparing tables compare: a variant, or a sampled variant with all its seeds.
//!
//! Variants that differ in nothing but their seed are replicates: they are pooled as one line, each
//! seed with equal weight, over the trajectories that all of them were scored on, and their seeds are
//! resampled within each cluster. Seeds are few, so this understates their spread by a factor of
//! (seeds - 1) / seeds in variance; `replicates` shows the raw spread.

use crate::report::statistics::estimate::ratio;
use std::collections::{BTreeMap, BTreeSet};

use super::claims::{Asked, Claims};
use super::load::{Event, Run, Score, VariantScores};
use super::series::{Draws, Series};
use crate::report::statistics::bootstrap::{Resampling, percentile_estimate};
use crate::report::statistics::estimate::Estimate;
use crate::report::statistics::inference::{n_eff, too_few};
use crate::report::statistics::pooled::{self, AT_END, Sets};
use crate::scores;
use crate::scores::own::UNSCORED_SHARE;
use crate::scores::registry::{Entry, Field, Scale, Set};
use crate::store::VariantRow;
use crate::text::natural::natural;

/// A score that is pooled: sum of tops / sum of bottoms over trajectories.
#[derive(Debug)]
pub(crate) struct Measure {
    pub(crate) name: String,
    score: &'static Entry,
    set: Set,
    field: Field,
}

impl Measure {
    pub(crate) fn new(name: impl Into<String>, score: &'static Entry, set: Set, field: Field) -> Self {
        Measure { name: name.into(), score, set, field }
    }

    /// The value of a score under the score's name.
    pub(crate) fn of(score: &'static Entry) -> Self {
        Measure::new(score.name, score, Set::Whole, Field::Value)
    }

    /// A score with its floor and ceiling, and where it stands between them.
    pub(crate) fn placed(score: &'static Entry) -> impl Iterator<Item = Measure> {
        PARTS.iter().map(move |(part, field)| {
            Measure::new(format!("{}{part}", score.name), score, Set::Whole, *field)
        })
    }
}

/// Of a score with a floor and a ceiling: what is added to its name. The pooled value, floor and ceiling, where the
/// value stands between them (0 to 1), and how far apart they are.
const PARTS: [(&str, Field); 5] = [
    ("", Field::Value),
    (" floor", Field::Floor),
    (" ceiling", Field::Ceiling),
    (" between", Field::Efficiency),
    (" room", Field::Room),
];

/// The room that decides whether an efficiency is told.
pub(crate) const ROOM: &str = "room";

/// Scores that all say how much was kept, each in its way. Not every run has all of them.
pub(crate) fn retentions() -> Vec<&'static Entry> {
    let mut all: Vec<&Entry> = scores::all().filter(|score| score.retention.is_some()).collect();
    all.sort_by_key(|score| score.retention);
    all
}

/// Of several readers each has a measure of its own: the score's name, this, its name.
const BY: &str = " by ";

fn by_readers() -> impl Iterator<Item = &'static Entry> {
    scores::all().filter(|score| score.by_readers)
}

/// Whether this is what a reader says of a score, and not its floor or another part.
fn is_by(name: &str, metric: &str) -> bool {
    name.strip_prefix(metric)
        .and_then(|rest| rest.strip_prefix(BY))
        .is_some_and(|reader| !reader.contains(' '))
}

/// How a score that is in no catalogue is called among measures, and what is told of it by stratum.
pub(crate) fn own_measure(metric: &str, stratum: &str) -> String {
    if stratum.is_empty() { metric.to_owned() } else { format!("{metric} {stratum}") }
}

/// What a trajectory adds to a measure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    pub(crate) trajectory: u32,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
    n: u32,
}

/// The terms of a measure.
struct Measured {
    scale: Scale,
    terms: Vec<Term>,
}

impl Measured {
    /// What rows say of a score; one that nobody knows is a share while it stays within 0 to 1.
    fn of(score: Option<&Entry>, field: Field, rows: &[Score]) -> Self {
        let term = |s: &Score| {
            let [top, bottom] = s.terms(field)?;
            Some(Term { trajectory: s.trajectory, top, bottom, n: s.n as u32 })
        };
        Measured {
            scale: field.scale(score.map_or(Scale::Share, |score| score.scale)),
            terms: rows.iter().filter(|s| s.weight > 0.0).filter_map(term).collect(),
        }
    }
}

/// The terms of a variant by the name of the measure, and which trajectories it was scored on.
struct Terms {
    by_measure: BTreeMap<String, Measured>,
    cells: Vec<bool>,
}

impl Terms {
    fn of(scores: &VariantScores, measures: &[Measure], n_trajectories: usize) -> Self {
        let sets = Sets::of(scores);
        let get = |m: &Measure| {
            let stratum = sets.stratum(scores, m.score.name, m.set);
            scores.get(&(m.score.name.to_owned(), stratum.to_owned())).map_or(&[][..], Vec::as_slice)
        };
        let mut cells = vec![false; n_trajectories];
        scores.values().flatten().for_each(|s| cells[s.trajectory as usize] = true);
        let measured = |m: &Measure| (m.name.clone(), Measured::of(Some(m.score), m.field, get(m)));
        let mut by_measure: BTreeMap<_, _> = measures.iter().map(measured).collect();
        for score in by_readers() {
            for ((_, stratum), rows) in scores.iter().filter(|((metric, _), _)| metric == score.name) {
                let at = stratum.strip_prefix(AT_END).unwrap_or(stratum).trim_start();
                let Some(reader) = at.strip_prefix("scorer=") else { continue };
                by_measure.extend(PARTS.iter().map(move |(part, field)| {
                    let name = format!("{}{BY}{reader}{part}", score.name);
                    (name, Measured::of(Some(score), *field, rows))
                }));
            }
        }
        let own = scores.iter().filter(|((metric, _), _)| scores::find(metric).is_none());
        let unscored = scores.iter().filter(|((metric, _), _)| metric == UNSCORED_SHARE.name);
        by_measure.extend(own.chain(unscored).map(|((metric, stratum), rows)| {
            (own_measure(metric, stratum), Measured::of(scores::find(metric), Field::Value, rows))
        }));
        Terms { by_measure, cells }
    }

    /// Of a measure; a reader may have no score of a line.
    fn of_measure(&self, measure: &str) -> &[Term] {
        self.by_measure.get(measure).map_or(&[], |measured| &measured.terms)
    }

    /// Adds what a claim asks for.
    fn ask(&mut self, asked: &Asked, scores: &VariantScores, events: &[Event]) {
        let measured = if let Some(of_event) = asked.of_event() {
            let mut sums: BTreeMap<u32, Term> = BTreeMap::new();
            for event in events {
                let [top, bottom] = of_event(event);
                let trajectory = event.trajectory;
                let sum = sums.entry(trajectory).or_insert(Term { trajectory, top: 0.0, bottom: 0.0, n: 0 });
                *sum = Term { top: sum.top + top, bottom: sum.bottom + bottom, n: sum.n + 1, ..*sum };
            }
            Measured { scale: Scale::Share, terms: sums.into_values().collect() }
        } else {
            let rows = scores.get(&(asked.metric.clone(), asked.stratum.clone()));
            let rows = rows.map_or(&[][..], Vec::as_slice);
            Measured::of(scores::find(&asked.metric), asked.field, rows)
        };
        self.by_measure.insert(asked.key(), measured);
    }
}

/// A variant, or all seeds of a sampled one.
pub(crate) struct Line {
    /// Label of the variant, without the seed.
    pub(crate) label: String,
    pub(crate) strategy: String,
    pub(crate) params: serde_json::Map<String, serde_json::Value>,
    pub(crate) model: Option<String>,
    /// There to be compared with: on no frontier, and no choice.
    pub(crate) control: bool,
    /// The trigger with its parameters, as labels have it.
    pub(crate) trigger: String,
    pub(crate) trigger_name: String,
    pub(crate) trigger_params: serde_json::Map<String, serde_json::Value>,
    /// Indices into [`Run::variants`], beside `seeds`.
    pub(crate) members: Vec<usize>,
    pub(crate) seeds: Vec<u64>,
    /// Trajectories that it was scored on, under every seed.
    pub(crate) cells: Vec<bool>,
    /// Beside `seeds`.
    terms: Vec<Terms>,
    /// Of the random numbers that draw its seeds.
    stream: u64,
}

impl Line {
    /// The label without its trigger, for tables under one trigger.
    pub(crate) fn short(&self) -> String {
        let strategy = self.label.rsplit_once(" @ ").map_or(self.label.as_str(), |(strategy, _)| strategy);
        format!("{strategy}{}", by_model(&self.label))
    }

    /// Whether a summary that stands in the log decided what goes: no company for the others.
    pub(crate) fn is_bridge(&self) -> bool {
        self.trigger_name == "logged"
    }

    /// Whether it knows the future, so that it is a reference and no strategy.
    pub(crate) fn sees_future(&self) -> bool {
        self.strategy == "oracle" || self.params.get("form").is_some_and(|form| form == "oracle")
    }

    /// The same line over the trajectories of another run: `to` says where each of its own stands there, if it does.
    pub(crate) fn onto(mut self, to: &[Option<u32>], n_trajectories: usize) -> Self {
        let mut cells = vec![false; n_trajectories];
        for (_, to) in self.cells.iter().zip(to).filter(|(is_scored, _)| **is_scored) {
            to.iter().for_each(|&t| cells[t as usize] = true);
        }
        for measured in self.terms.iter_mut().flat_map(|terms| terms.by_measure.values_mut()) {
            let there = |mut term: Term| {
                term.trajectory = to[term.trajectory as usize]?;
                Some(term)
            };
            measured.terms = std::mem::take(&mut measured.terms).into_iter().filter_map(there).collect();
            measured.terms.sort_by_key(|term| term.trajectory);
        }
        Line { cells, ..self }
    }

    fn n_cells(&self) -> usize {
        self.cells.iter().filter(|c| **c).count()
    }

    /// Value of a measure on each trajectory that has one, mean over seeds, in order of trajectories.
    pub(crate) fn by_trajectory(&self, measure: &str) -> Vec<(u32, f64)> {
        let mut sums: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for term in self.terms.iter().flat_map(|t| t.of_measure(measure)) {
            if self.cells[term.trajectory as usize] && term.bottom != 0.0 {
                let sum = sums.entry(term.trajectory).or_default();
                *sum = (sum.0 + term.top / term.bottom, sum.1 + 1.0);
            }
        }
        sums.into_iter().map(|(t, (sum, n))| (t, sum / n)).collect()
    }
}

/// Collects the terms of variants while their scores are read.
#[derive(Default)]
pub(crate) struct Gathered<'a> {
    terms: BTreeMap<usize, Terms>,
    measures: Vec<Measure>,
    /// What they ask for is collected as well.
    claims: Option<&'a Claims>,
}

impl<'a> Gathered<'a> {
    pub(crate) fn with(measures: Vec<Measure>, claims: Option<&'a Claims>) -> Self {
        Gathered { measures, claims, ..Gathered::default() }
    }

    pub(crate) fn take(&mut self, run: &Run, batch: &[(usize, VariantScores)]) {
        for (i, scores) in batch {
            let mut terms = Terms::of(scores, &self.measures, run.trajectories.len());
            let asked = self.claims.map_or_else(Vec::new, |c| c.asked_of(&run.variants[*i]));
            asked.iter().for_each(|asked| terms.ask(asked, scores, &run.events[*i]));
            self.terms.insert(*i, terms);
        }
    }
}

/// All lines of a run, and the draws that they share.
pub(crate) struct Lines {
    /// In order of triggers and labels.
    pub(crate) all: Vec<Line>,
    pub(crate) draws: Draws,
    /// Cluster of each trajectory.
    pub(crate) clusters: Vec<u32>,
    pub(crate) resampling: Resampling,
}

impl Lines {
    pub(crate) fn new(run: &Run, gathered: Gathered, resampling: Resampling) -> Self {
        let key = |v: &VariantRow| {
            let [strategy, params] = [&v.strategy, &v.strategy_params].map(String::clone);
            let [trigger, trigger_params] = [&v.trigger, &v.trigger_params].map(String::clone);
            (strategy, params, trigger, trigger_params, v.model.clone())
        };
        let mut groups: BTreeMap<_, Vec<(usize, &VariantRow, Terms)>> = BTreeMap::new();
        for (i, terms) in gathered.terms {
            groups.entry(key(&run.variants[i])).or_default().push((i, &run.variants[i], terms));
        }
        let mut all: Vec<Line> = groups.into_values().map(line).collect();
        all.sort_by(|a, b| natural(&a.trigger, &b.trigger).then_with(|| natural(&a.label, &b.label)));
        let clusters: Vec<u32> = run.trajectories.iter().map(|t| t.cluster).collect();
        let draws = Draws::new(resampling, run.strata.clone().into());
        Lines { all, draws, clusters, resampling }
    }

    /// Lines that can be compared with one another: all but those in bridge mode.
    pub(crate) fn main(&self) -> impl Iterator<Item = &Line> {
        self.all.iter().filter(|l| !l.is_bridge())
    }

    /// A measure of a line, on those of its trajectories that `only` has.
    pub(crate) fn series(&self, line: &Line, measure: &str, only: Option<&[bool]>) -> Series {
        let counts = |t: &&Term| {
            let trajectory = t.trajectory as usize;
            line.cells[trajectory] && only.is_none_or(|only| only[trajectory])
        };
        let mut trajectories = BTreeSet::new();
        let mut n_items = 0;
        let seeds: Vec<Vec<[f64; 2]>> = line
            .terms
            .iter()
            .map(|terms| {
                let mut sums = vec![[0.0; 2]; self.draws.n_clusters];
                for term in terms.of_measure(measure).iter().filter(counts) {
                    let sum = &mut sums[self.clusters[term.trajectory as usize] as usize];
                    *sum = [sum[0] + term.top, sum[1] + term.bottom];
                    trajectories.insert(term.trajectory);
                    n_items += u64::from(term.n);
                }
                sums
            })
            .collect();
        let n_items = n_items / seeds.len() as u64;
        let scale = line.terms.iter().find_map(|terms| Some(terms.by_measure.get(measure)?.scale));
        Series::of(&self.draws, scale.unwrap_or(Scale::Share), seeds, line.stream)
            .counting(trajectories.len(), n_items)
    }

    /// The scores that several readers gave, by each.
    pub(crate) fn by_reader(&self) -> BTreeSet<String> {
        let names = self.all.iter().flat_map(|line| &line.terms).flat_map(|terms| terms.by_measure.keys());
        names.filter(|name| by_readers().any(|score| is_by(name, score.name))).cloned().collect()
    }

    /// The scores that say how much was kept; each reader's where there are several.
    pub(crate) fn retentions(&self) -> Vec<String> {
        let by_reader = self.by_reader();
        let names = |metric: &str| -> Vec<String> {
            let each: Vec<String> = by_reader.iter().filter(|name| is_by(name, metric)).cloned().collect();
            if each.is_empty() { vec![metric.to_owned()] } else { each }
        };
        retentions().into_iter().flat_map(|score| names(score.name)).collect()
    }

    /// The median over trajectories, with a percentile interval: leaving a cluster out says little of a median's spread.
    pub(crate) fn median(&self, line: &Line, measure: &str) -> Estimate {
        let mut values: Vec<(f64, u32, usize)> = line
            .by_trajectory(measure)
            .into_iter()
            .map(|(trajectory, value)| (value, trajectory, self.clusters[trajectory as usize] as usize))
            .collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let Some(value) = middle(values.iter().map(|(value, ..)| (*value, 1))) else {
            return Estimate::null("no data");
        };
        let draw = |resample: usize| {
            let counted = |&(value, _, cluster): &(f64, u32, usize)| {
                (value, u64::from(self.draws.counts(cluster)[resample]))
            };
            middle(values.iter().map(counted)).unwrap_or(f64::NAN)
        };
        let mut clusters: Vec<u32> = values.iter().map(|(.., cluster)| *cluster as u32).collect();
        clusters.sort_unstable();
        self.of_trajectories(&clusters, || {
            let draws: Vec<f64> = (0..self.draws.n_resamples()).map(draw).collect();
            percentile_estimate(value, &draws)
        })
    }

    /// What `estimate` gives for trajectories that count alike, one of these (sorted) clusters each; null where the clusters
    /// are too few.
    pub(crate) fn of_trajectories(&self, clusters: &[u32], estimate: impl FnOnce() -> Estimate) -> Estimate {
        let n_eff = n_eff(clusters.chunk_by(|a, b| a == b).map(|same| same.len() as f64));
        Estimate {
            n_trajectories: clusters.len(),
            n_clusters: clusters.chunk_by(|a, b| a == b).count(),
            n_eff: Some(n_eff),
            n_items: clusters.len() as u64,
            ..too_few(n_eff).map_or_else(estimate, Estimate::null)
        }
    }

    /// A measure of one seed of a line alone.
    pub(crate) fn of_seed(&self, line: &Line, seed: usize, measure: &str) -> Option<f64> {
        let terms = line.terms[seed].of_measure(measure).iter().filter(|t| line.cells[t.trajectory as usize]);
        let (top, bottom) = terms.fold((0.0, 0.0), |(a, b), t| (a + t.top, b + t.bottom));
        ratio(top, bottom)
    }

    /// Whether two lines have the same values on all of these trajectories, seed by seed.
    pub(crate) fn is_same(&self, a: &Line, b: &Line, measure: &str, only: &[bool]) -> bool {
        let of = |terms: &Terms| -> Vec<(u32, f64, f64)> {
            let here = terms.of_measure(measure).iter().filter(|t| only[t.trajectory as usize]);
            here.map(|t| (t.trajectory, t.top, t.bottom)).collect()
        };
        a.seeds == b.seeds && a.terms.iter().map(of).eq(b.terms.iter().map(of))
    }

    /// Why the efficiency of a line means nothing, if so: the rule of the summary.
    pub(crate) fn efficiency_withheld(&self, line: &Line) -> Option<String> {
        let room: Estimate = self.series(line, ROOM, None).estimate();
        pooled::efficiency_withheld(&room)
    }

    /// The trajectories that all these lines were scored on.
    pub(crate) fn shared(&self, lines: &[&Line]) -> Vec<bool> {
        (0..self.clusters.len()).map(|t| lines.iter().all(|l| l.cells[t])).collect()
    }

    /// Lines to set side by side, and the trajectories that they share. A line scored on fewer than half
    /// as many trajectories as the fullest is left out, so that one that failed does not empty the rest.
    pub(crate) fn side_by_side<'a>(&self, lines: impl Iterator<Item = &'a Line>) -> SideBySide<'a> {
        let lines: Vec<&Line> = lines.collect();
        let most = lines.iter().map(|l| l.n_cells()).max().unwrap_or(0);
        let (lines, left_out): (Vec<_>, Vec<_>) = lines.into_iter().partition(|l| 2 * l.n_cells() >= most);
        let only = self.shared(&lines);
        SideBySide { n_trajectories: only.iter().filter(|t| **t).count(), lines, only, left_out }
    }
}

/// The median of sorted values, each so many times; none of none.
fn middle(values: impl Iterator<Item = (f64, u64)> + Clone) -> Option<f64> {
    let n: u64 = values.clone().map(|(_, n)| n).sum();
    let at = |place: u64| {
        let mut before = 0;
        let mut values = values.clone();
        values.find(|(_, n)| {
            before += n;
            before > place
        })
    };
    let (low, high) = (at(n.checked_sub(1)? / 2)?.0, at(n / 2)?.0);
    Some((low + high) / 2.0)
}

pub(crate) struct SideBySide<'a> {
    pub(crate) lines: Vec<&'a Line>,
    /// Which trajectories count.
    pub(crate) only: Vec<bool>,
    pub(crate) n_trajectories: usize,
    pub(crate) left_out: Vec<&'a Line>,
}

impl SideBySide<'_> {
    /// A sentence on what was left out, or nothing.
    pub(crate) fn remark(&self) -> String {
        if self.left_out.is_empty() {
            return String::new();
        }
        let labels: Vec<&str> = self.left_out.iter().map(|l| l.label.as_str()).collect();
        format!(" Left out, because scored on fewer than half of the trajectories: {}.", labels.join(", "))
    }
}

/// Replicates, in order of their seeds, as one line.
fn line(mut replicates: Vec<(usize, &VariantRow, Terms)>) -> Line {
    replicates.sort_by_key(|(_, v, _)| v.seed);
    let variant = replicates[0].1;
    let (label, trigger) = names(variant);
    let n_trajectories = replicates[0].2.cells.len();
    let cells = (0..n_trajectories).map(|t| replicates.iter().all(|(.., terms)| terms.cells[t])).collect();
    let hash = blake3::hash(label.as_bytes());
    let stream = u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("a hash has 32 bytes"));
    Line {
        label,
        strategy: variant.strategy.clone(),
        params: serde_json::from_str(&variant.strategy_params).unwrap_or_default(),
        model: variant.model.clone(),
        control: variant.control,
        trigger,
        trigger_name: variant.trigger.clone(),
        trigger_params: serde_json::from_str(&variant.trigger_params).unwrap_or_default(),
        members: replicates.iter().map(|(i, ..)| *i).collect(),
        seeds: replicates.iter().map(|(_, v, _)| v.seed).collect(),
        cells,
        terms: replicates.into_iter().map(|(.., terms)| terms).collect(),
        stream,
    }
}

/// Label without the seed, and the trigger in it: `strategy(..) @ trigger(..) [model] #seed`.
fn names(variant: &VariantRow) -> (String, String) {
    let label = variant.label.strip_suffix(&format!(" #{}", variant.seed)).unwrap_or(&variant.label);
    let trigger = label.rsplit_once(" @ ").map_or(variant.trigger.as_str(), |(_, trigger)| trigger);
    let trigger = trigger.strip_suffix(by_model(label)).unwrap_or(trigger);
    (label.to_owned(), trigger.to_owned())
}

/// What [`by_model`] gives for a strategy that could work with a model and did not.
pub(crate) const MODEL_FREE: &str = " [model-free]";

/// The end of a label that says which model worked, or that none did; empty where none could.
pub(crate) fn by_model(label: &str) -> &str {
    label.rfind(" [").filter(|_| label.ends_with(']')).map_or("", |at| &label[at..])
}

#[cfg(test)]
impl Line {
    /// A line with the value and weight of measures on each trajectory, named like
    /// `strategy(key=number) @ trigger`.
    pub(crate) fn by_hand(label: &str, of: &[(&str, &[(f64, f64)])]) -> Self {
        let (name, trigger) = label.split_once(" @ ").unwrap();
        let (strategy, params) = name.trim_end_matches(')').split_once('(').unwrap_or((name, ""));
        let param = params.split_once('=').map(|(key, x)| (key.to_owned(), x.parse::<f64>().unwrap().into()));
        let terms = |scores: &[(f64, f64)]| -> Vec<Term> {
            let term = |(t, (value, weight)): (usize, &(f64, f64))| Term {
                trajectory: t as u32,
                top: value * weight,
                bottom: *weight,
                n: *weight as u32,
            };
            scores.iter().enumerate().map(term).collect()
        };
        let measured = |(name, of): &(&str, &[(f64, f64)])| {
            let scale = scores::find(name).map_or(Scale::Share, |score| score.scale);
            ((*name).to_owned(), Measured { scale, terms: terms(of) })
        };
        let by_measure = of.iter().map(measured).collect();
        let cells = vec![true; of[0].1.len()];
        Line {
            label: label.to_owned(),
            strategy: strategy.to_owned(),
            params: param.into_iter().collect(),
            model: None,
            control: false,
            trigger: trigger.to_owned(),
            trigger_name: trigger.to_owned(),
            trigger_params: serde_json::Map::new(),
            members: vec![],
            seeds: vec![1],
            cells: cells.clone(),
            terms: vec![Terms { by_measure, cells }],
            stream: 1,
        }
    }

    /// The same without a trajectory.
    pub(crate) fn without(mut self, trajectory: usize) -> Self {
        self.cells[trajectory] = false;
        self
    }
}

#[cfg(test)]
impl Lines {
    /// Each trajectory is a cluster of its own.
    pub(crate) fn by_hand(all: Vec<Line>, n_trajectories: usize) -> Self {
        let resampling = Resampling { seed: 1, resamples: 400 };
        let clusters = (0..n_trajectories as u32).collect();
        let draws = Draws::new(resampling, vec![0; n_trajectories].into());
        Lines { all, draws, clusters, resampling }
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::Population;
    use super::*;
    use crate::report::statistics::synthetic::{BUDGETS, write_run};

    /// Scores are kept under canonical strata: another order of the same keys would find nothing.
    #[test]
    fn strata_of_measures_are_canonical() {
        for measure in crate::report::tables::measures() {
            if let Set::Stratum(stratum) = measure.set {
                assert_eq!(crate::report::load::Stratum::parse(stratum).to_string(), stratum);
            }
        }
    }

    #[test]
    fn seeds_are_one_line_and_failed_cells_are_known() {
        let dir = tempfile::tempdir().unwrap();
        write_run(dir.path(), &BUDGETS, 24, 12);
        let run = Run::open(dir.path(), Population::Other).unwrap();
        let mut gathered = Gathered::with(crate::report::tables::measures(), None);
        run.scores(|batch| {
            gathered.take(&run, &batch);
            Ok(())
        })
        .unwrap();
        let lines = Lines::new(&run, gathered, Resampling { seed: 1, resamples: 200 });
        assert_eq!(lines.all.len(), BUDGETS.len() - 2);
        let sampled = lines.all.iter().find(|l| l.strategy == "summary").unwrap();
        assert_eq!(
            (sampled.label.as_str(), &sampled.seeds[..]),
            ("summary(style=short) @ turns(n=20)", &[0, 2, 3][..])
        );
        let of_seeds: Vec<f64> =
            (0..3).map(|s| lines.of_seed(sampled, s, "need_retention").unwrap()).collect();
        let pooled = lines.series(sampled, "need_retention", None).pooled.value.unwrap();
        // Every seed answers the same questions, so that pooling is a mean.
        assert!((of_seeds.iter().sum::<f64>() / 3.0 - pooled).abs() < 1e-12);
        // The fourth variant failed on the second trajectory.
        let side = lines.side_by_side(lines.main());
        assert_eq!((side.n_trajectories, side.only[1], side.left_out.len()), (23, false, 0));
    }

    #[test]
    fn medians_by_hand() {
        let of = |values: &[(f64, u64)]| middle(values.iter().copied());
        assert_eq!(of(&[(1.0, 1), (2.0, 1), (4.0, 1)]), Some(2.0));
        assert_eq!(of(&[(1.0, 2), (2.0, 0), (4.0, 1)]), Some(1.0));
        assert_eq!(of(&[(1.0, 0), (2.0, 1), (4.0, 1)]), Some(3.0));
        assert_eq!((of(&[]), of(&[(1.0, 0)])), (None, None));
        let line = Line::by_hand(
            "a @ t",
            &[("likelihood_retention", &[(4.0, 1.0), (1.0, 9.0), (2.0, 1.0), (2.0, 1.0), (2.0, 1.0)])],
        );
        let mut lines = Lines::by_hand(vec![line], 5);
        lines.draws =
            Draws::fixed(&[vec![0, 3, 0, 1, 1], vec![3, 0, 0, 1, 1], vec![1; 5], vec![1, 2, 0, 1, 1]]);
        let median = lines.median(&lines.all[0], "likelihood_retention");
        assert_eq!((median.value, median.n_trajectories, median.n_clusters), (Some(2.0), 5, 5));
        let (lo, hi) = median.interval.unwrap();
        assert!((1.0..=2.0).contains(&lo) && (2.0..=4.0).contains(&hi), "{lo} {hi}");
    }

    #[test]
    fn a_line_that_mostly_failed_does_not_empty_the_rest() {
        let line = |label: &str| Line::by_hand(label, &[("need_retention", &[(1.0, 1.0); 4])]);
        let failed = line("b @ t").without(0).without(1).without(2);
        let lines = Lines::by_hand(vec![line("a @ t"), failed, line("c @ t").without(3)], 4);
        let side = lines.side_by_side(lines.main());
        assert_eq!(side.only, [true, true, true, false]);
        assert!(side.remark().ends_with("trajectories: b @ t."), "{}", side.remark());
    }

    #[test]
    fn a_label_is_taken_apart() {
        let row = |label: &str, model: Option<&str>, seed| VariantRow {
            variant: String::new(),
            label: label.to_owned(),
            strategy: "summary".to_owned(),
            strategy_params: "{}".to_owned(),
            trigger: "turns".to_owned(),
            trigger_params: "{}".to_owned(),
            model: model.map(str::to_owned),
            control: false,
            seed,
        };
        let both = |label, model, seed| names(&row(label, model, seed));
        let whole = both("summary(a=1) @ turns(n=2) [m] #3", Some("m"), 3);
        assert_eq!(whole, ("summary(a=1) @ turns(n=2) [m]".to_owned(), "turns(n=2)".to_owned()));
        let plain = both("mask @ turns", None, 1);
        assert_eq!(plain, ("mask @ turns".to_owned(), "turns".to_owned()));
    }
}
