//! What the comparing tables compare: a variant, or a sampled variant with all its seeds.
//!
//! Variants that differ in nothing but their seed are replicates: they are pooled as one line, each
//! seed with equal weight, over the trajectories that all of them were scored on, and their seeds are
//! resampled within each cluster. Seeds are few, so this understates their spread by a factor of
//! (seeds - 1) / seeds in variance; `replicates` shows the raw spread.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::claims::Claims;
use crate::report::load::{Run, VariantScores};
use crate::report::series::{Draws, Series};
use crate::report::statistics::bootstrap::{Resampling, percentile_estimate};
use crate::report::statistics::estimate::{Estimate, ratio};
use crate::report::statistics::inference::{n_eff, too_few};
use crate::report::statistics::pooled;
use crate::scores::registry::Scale;
use crate::store::VariantRow;
use crate::text::natural::natural;

mod measures;
#[cfg(test)]
mod testing;

pub(crate) use measures::{Measure, ROOM, Term, own_measure, retentions};

use measures::{Terms, by_readers, is_by};

/// A variant, or all seeds of a sampled one.
pub(crate) struct Line {
    /// Label of the variant, without the seed.
    pub(crate) label: String,
    pub(crate) strategy: String,
    pub(crate) params: serde_json::Map<String, serde_json::Value>,
    pub(crate) model: Option<String>,
    /// What it is, where it is a policy and somebody asked: its name says nothing of that.
    pub(crate) policy: Option<serde_json::Value>,
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
            let mut terms = Terms::of(scores, &self.measures, &run.own, run.trajectories.len());
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
    /// Sessions that each trajectory stands for.
    pub(crate) weights: Vec<f64>,
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
        let draws = Draws::new(resampling, run.drawn.clone().into());
        let weights = run.trajectories.iter().map(|t| t.weight).collect();
        Lines { all, draws, clusters, weights, resampling }
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
        let (mut n_items, mut n_kept) = (0, Some(0));
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
                    n_kept = n_kept.zip(term.n_kept).map(|(all, kept)| all + u64::from(kept));
                }
                sums
            })
            .collect();
        let n_seeds = seeds.len() as u64;
        let counted = (n_items / n_seeds, n_kept.map(|kept| kept / n_seeds));
        let scale = line.terms.iter().find_map(|terms| Some(terms.by_measure.get(measure)?.scale));
        Series::of(&self.draws, scale.unwrap_or(Scale::Share), seeds, line.stream)
            .counting(trajectories.len(), counted)
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
        let weight = |trajectory: u32| self.weights[trajectory as usize];
        let weighted = |&(value, trajectory, _): &(f64, u32, usize)| (value, weight(trajectory));
        let Some(value) = middle(values.iter().map(weighted)) else {
            return Estimate::null("no data");
        };
        let draw = |resample: usize| {
            let drawn = |&(value, trajectory, cluster): &(f64, u32, usize)| {
                (value, weight(trajectory) * self.draws.share(cluster, resample))
            };
            middle(values.iter().map(drawn)).unwrap_or(f64::NAN)
        };
        let mut clusters: BTreeMap<usize, f64> = BTreeMap::new();
        for (_, trajectory, cluster) in &values {
            *clusters.entry(*cluster).or_default() += weight(*trajectory);
        }
        let n_eff = n_eff(clusters.values().copied());
        let estimate = || {
            let draws: Vec<f64> = (0..self.draws.n_resamples()).map(draw).collect();
            percentile_estimate(value, &draws)
        };
        Estimate {
            n_trajectories: values.len(),
            n_clusters: clusters.len(),
            n_eff: Some(n_eff),
            n_items: values.len() as u64,
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
        a.terms.iter().map(of).eq(b.terms.iter().map(of))
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

/// The median of sorted values, each with its weight; none of none.
fn middle(values: impl Iterator<Item = (f64, f64)> + Clone) -> Option<f64> {
    let half = values.clone().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let first = |is_there: &dyn Fn(f64) -> bool| {
        let mut before = 0.0;
        values.clone().filter(|(_, weight)| *weight > 0.0).find(|(_, weight)| {
            before += weight;
            is_there(before)
        })
    };
    let low = first(&|sum| sum >= half * (1.0 - 1e-12))?.0;
    // Half of the weight may end at one value and the rest begin at the next.
    Some((low + first(&|sum| sum > half * (1.0 + 1e-12))?.0) / 2.0)
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
        policy: None,
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
mod tests;
