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
use crate::report::statistics::pooled::{self, NEED, SURFACE, Sets};
use crate::store::VariantRow;
use crate::text::natural::natural;

/// A score that is pooled: sum of tops / sum of bottoms over trajectories.
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    metric: &'static str,
    set: Set,
    terms: PooledTerms,
}

/// The rows of a metric that a measure reads.
#[derive(Clone, Copy)]
enum Set {
    Common,
    Exposed,
    /// Each trajectory's weight capped, where there are such rows; else all exposed.
    Capped,
    /// Over the whole cell, or what is left at its end.
    Whole,
    /// This one.
    Stratum(&'static str),
}

/// Stratum of the scores that look at the context when the log ends.
const AT_END: &str = "point=end";

/// Value with its weight.
fn value(s: &Score) -> Option<[f64; 2]> {
    s.value.map(|x| [x * s.weight, s.weight])
}

/// Matched random shadow.
fn random(s: &Score) -> Option<[f64; 2]> {
    s.floor.map(|x| [x * s.weight, s.weight])
}

/// Matched oracle shadow.
fn oracle(s: &Score) -> Option<[f64; 2]> {
    s.ceiling.map(|x| [x * s.weight, s.weight])
}

/// Between floor and ceiling.
fn efficiency(s: &Score) -> Option<[f64; 2]> {
    let [x, floor, ceiling] = [s.value?, s.floor?, s.ceiling?];
    Some([(x - floor) * s.weight, (ceiling - floor) * s.weight])
}

/// Room between floor and ceiling.
fn room(s: &Score) -> Option<[f64; 2]> {
    s.value?;
    Some([(s.ceiling? - s.floor?) * s.weight, s.weight])
}

const fn measure(name: &'static str, metric: &'static str, set: Set, terms: PooledTerms) -> Measure {
    Measure { name, metric, set, terms }
}

/// Top and bottom of what a row adds to a pooled value.
type PooledTerms = fn(&Score) -> Option<[f64; 2]>;

/// Of a score with a floor and a ceiling: what is added to its name, and the terms. The pooled value, floor and ceiling, where the
/// value stands between them (0 to 1), and how far apart they are.
const PARTS: [(&str, PooledTerms); 5] =
    [("", value), (" floor", random), (" ceiling", oracle), (" between", efficiency), (" room", room)];

macro_rules! placed {
    ($($name:ident = $metric:literal, $set:expr;)+) => {
        /// Scores of the annotated truth at the end of a run.
        pub(crate) mod placed {
            $(pub(in super::super) const $name: &str = $metric;)+
        }

        static PLACED: &[Measure] = &[$(
            measure($metric, $metric, $set, value),
            measure(concat!($metric, " floor"), $metric, $set, random),
            measure(concat!($metric, " ceiling"), $metric, $set, oracle),
            measure(concat!($metric, " between"), $metric, $set, efficiency),
            measure(concat!($metric, " room"), $metric, $set, room),
        )+];
    };
}

placed! {
    SALIENCE_RECALL = "salience_recall", Set::Whole;
    SALIENCE_PRECISION = "salience_precision", Set::Whole;
    SALIENCE_F1 = "salience_f1", Set::Whole;
    CONSTRAINT_RETENTION = "constraint_retention", Set::Whole;
    PROBE_SUPPORT = "probe_support", Set::Whole;
    SALIENCE_SIMILAR = "salience_recall_similar", Set::Whole;
    SALIENCE_PRECISION_SIMILAR = "salience_precision_similar", Set::Whole;
    SALIENCE_F1_SIMILAR = "salience_f1_similar", Set::Whole;
    PROBE_ACCURACY = "probe_accuracy", Set::Whole;
    PROBE_PROBABILITY = "probe_probability", Set::Whole;
    JUDGE = "judge", Set::Whole;
    GOAL_COHERENCE = "goal_coherence", Set::Whole;
    LIKELIHOOD_RETENTION = "likelihood_retention", Set::Whole;
    STALE_VALUE_SHARE = "stale_value_share", Set::Whole;
    BOUNDARY_F1 = "boundary_f1", Set::Whole;
    MID_SUBTASK_SHARE = "mid_subtask_share", Set::Whole;
}

const fn outcome(name: &'static str, stratum: &'static str) -> Measure {
    measure(name, "constraint_outcome", Set::Stratum(stratum), value)
}

static MEASURES: &[Measure] = &[
    measure("token_savings", "token_savings", Set::Whole, value),
    measure("cost_savings", "cost_savings", Set::Whole, value),
    measure("need_retention", NEED, Set::Common, value),
    measure("need_retention_random", NEED, Set::Common, random),
    measure("need_retention_oracle", NEED, Set::Common, oracle),
    measure("need_retention_exposed", NEED, Set::Exposed, value),
    measure("need_retention_exposed_random", NEED, Set::Exposed, random),
    measure("need_retention_exposed_oracle", NEED, Set::Exposed, oracle),
    measure("efficiency", NEED, Set::Capped, efficiency),
    measure("room", NEED, Set::Capped, room),
    measure("surface_retention", SURFACE, Set::Common, value),
    measure("goal_coherence 1", "goal_coherence", Set::Stratum("point=1"), value),
    measure("goal_coherence 2", "goal_coherence", Set::Stratum("point=2"), value),
    measure("goal_coherence 3", "goal_coherence", Set::Stratum("point=3"), value),
    outcome("preserved", "point=end outcome=preserved"),
    outcome("paraphrased", "point=end outcome=paraphrased"),
    outcome("weakened", "point=end outcome=weakened"),
    outcome("mutated", "point=end outcome=mutated"),
    outcome("contradicted", "point=end outcome=contradicted"),
    outcome("dropped", "point=end outcome=dropped"),
    measure("goal spans", "salience_recall", Set::Stratum("point=end type=goal"), value),
    measure("constraint spans", "salience_recall", Set::Stratum("point=end type=constraint"), value),
    measure("decision spans", "salience_recall", Set::Stratum("point=end type=decision"), value),
    measure("fact spans", "salience_recall", Set::Stratum("point=end type=fact"), value),
    measure("tool_output spans", "salience_recall", Set::Stratum("point=end type=tool_output"), value),
    measure("goal probes", "probe_support", Set::Stratum("kind=goal point=end"), value),
    measure("constraint probes", "probe_support", Set::Stratum("kind=constraint point=end"), value),
    measure("artifact probes", "probe_support", Set::Stratum("kind=artifact point=end"), value),
    measure("continuation probes", "probe_support", Set::Stratum("kind=continuation point=end"), value),
    measure("decision probes", "probe_support", Set::Stratum("kind=decision point=end"), value),
    measure("goal answers", "probe_accuracy", Set::Stratum("kind=goal point=end"), value),
    measure("constraint answers", "probe_accuracy", Set::Stratum("kind=constraint point=end"), value),
    measure("artifact answers", "probe_accuracy", Set::Stratum("kind=artifact point=end"), value),
    measure("continuation answers", "probe_accuracy", Set::Stratum("kind=continuation point=end"), value),
    measure("decision answers", "probe_accuracy", Set::Stratum("kind=decision point=end"), value),
    measure("probe_cut_share", "probe_cut_share", Set::Whole, value),
    measure("likelihood_excluded", "likelihood_excluded", Set::Whole, value),
    measure("likelihood_cut", "likelihood_cut", Set::Whole, value),
    measure("judged relevance", "judge", Set::Stratum("point=end criterion=relevance"), value),
    measure("of atoms", "likelihood_retention", Set::Stratum("of=atoms"), value),
    measure("of atoms, shuffled", "likelihood_retention", Set::Stratum("of=atoms"), random),
    measure("salience_precision 1", "salience_precision", Set::Stratum("point=1"), value),
    measure("salience_precision 2", "salience_precision", Set::Stratum("point=2"), value),
    measure("salience_precision 3", "salience_precision", Set::Stratum("point=3"), value),
    measure("salience_recall 1", "salience_recall", Set::Stratum("point=1"), value),
    measure("salience_recall 2", "salience_recall", Set::Stratum("point=2"), value),
    measure("salience_recall 3", "salience_recall", Set::Stratum("point=3"), value),
    measure("constraint_retention 1", "constraint_retention", Set::Stratum("point=1"), value),
    measure("constraint_retention 2", "constraint_retention", Set::Stratum("point=2"), value),
    measure("constraint_retention 3", "constraint_retention", Set::Stratum("point=3"), value),
    measure("probe_support 1", "probe_support", Set::Stratum("point=1"), value),
    measure("probe_support 2", "probe_support", Set::Stratum("point=2"), value),
    measure("probe_support 3", "probe_support", Set::Stratum("point=3"), value),
    measure("item_recall", "item_recall", Set::Whole, value),
    measure("item_precision", "item_precision", Set::Whole, value),
    measure("item_fidelity", "item_fidelity", Set::Whole, value),
    measure("item_found", "item_found", Set::Whole, value),
    measure("fabrication_rate", "fabrication_rate", Set::Whole, value),
    measure("quote_fidelity", "quote_fidelity", Set::Whole, value),
    measure("degenerate_rate", "degenerate_rate", Set::Whole, value),
    measure("violation_rate", "violation_rate", Set::Whole, value),
];

fn measures() -> impl Iterator<Item = &'static Measure> {
    MEASURES.iter().chain(PLACED)
}

/// Scores that all say how much was kept, each in its way. Not every run has all of them.
pub(crate) const RETENTIONS: [&str; 10] = [
    "need_retention",
    "surface_retention",
    "likelihood_retention",
    "probe_accuracy",
    "probe_probability",
    "probe_support",
    "constraint_retention",
    "salience_recall",
    "goal_coherence",
    "judge",
];

/// Those of them that a reader gives. Of several readers each has a measure of its own: the score's name, [`BY`], its name.
const BY_READERS: [&str; 4] = ["likelihood_retention", "probe_accuracy", "probe_probability", "judge"];
const BY: &str = " by ";

/// Whether this is what a reader says of a score, and not its floor or another part.
fn is_by(name: &str, metric: &str) -> bool {
    name.strip_prefix(metric)
        .and_then(|rest| rest.strip_prefix(BY))
        .is_some_and(|reader| !reader.contains(' '))
}

/// What a trajectory adds to a measure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    pub(crate) trajectory: u32,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
    n: u32,
}

/// The terms of a variant by the name of the measure, and which trajectories it was scored on.
struct Terms {
    by_measure: BTreeMap<String, Vec<Term>>,
    cells: Vec<bool>,
}

impl Terms {
    fn of(scores: &VariantScores, n_trajectories: usize) -> Self {
        let sets = Sets::of(scores);
        let rows = |metric: &str, set: Set| {
            let get = |stratum: &str| scores.get(&(metric.to_owned(), stratum.to_owned()));
            match set {
                Set::Common => get(&sets.common),
                Set::Exposed => get(&sets.exposed),
                Set::Capped => get(&sets.capped).or_else(|| get(&sets.exposed)),
                Set::Whole => get("").or_else(|| get(AT_END)),
                Set::Stratum(stratum) => get(stratum),
            }
        };
        let term = |of: PooledTerms| {
            move |s: &Score| {
                let [top, bottom] = of(s)?;
                Some(Term { trajectory: s.trajectory, top, bottom, n: s.n as u32 })
            }
        };
        let terms = |m: &Measure| -> Vec<Term> {
            let rows = rows(m.metric, m.set).into_iter().flatten().filter(|s| s.weight > 0.0);
            rows.filter_map(term(m.terms)).collect()
        };
        let mut cells = vec![false; n_trajectories];
        scores.values().flatten().for_each(|s| cells[s.trajectory as usize] = true);
        let mut by_measure: BTreeMap<_, _> = measures().map(|m| (m.name.to_owned(), terms(m))).collect();
        for ((metric, stratum), rows) in scores.iter().filter(|((m, _), _)| BY_READERS.contains(&&**m)) {
            let at = stratum.strip_prefix(AT_END).unwrap_or(stratum).trim_start();
            let Some(reader) = at.strip_prefix("scorer=") else { continue };
            for (part, of) in PARTS {
                let name = format!("{metric}{BY}{reader}{part}");
                by_measure
                    .insert(name, rows.iter().filter(|s| s.weight > 0.0).filter_map(term(of)).collect());
            }
        }
        Terms { by_measure, cells }
    }

    /// Adds what a claim asks for.
    fn ask(&mut self, asked: &Asked, scores: &VariantScores, events: &[Event]) {
        let terms = if asked.is_of_events() {
            let mut sums: BTreeMap<u32, Term> = BTreeMap::new();
            for event in events {
                let Some([top, bottom]) = asked.terms_of(event) else { continue };
                let trajectory = event.trajectory;
                let sum = sums.entry(trajectory).or_insert(Term { trajectory, top: 0.0, bottom: 0.0, n: 0 });
                *sum = Term { top: sum.top + top, bottom: sum.bottom + bottom, n: sum.n + 1, ..*sum };
            }
            sums.into_values().collect()
        } else {
            let rows = scores.get(&(asked.metric.clone(), asked.stratum.clone())).into_iter().flatten();
            let term = |s: &Score| {
                let [top, bottom] = asked.terms(s)?;
                Some(Term { trajectory: s.trajectory, top, bottom, n: s.n as u32 })
            };
            rows.filter(|s| s.weight > 0.0).filter_map(term).collect()
        };
        self.by_measure.insert(asked.key(), terms);
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
        self.strategy == "oracle"
    }

    fn n_cells(&self) -> usize {
        self.cells.iter().filter(|c| **c).count()
    }

    /// Value of a measure on each trajectory that has one, mean over seeds, in order of trajectories.
    pub(crate) fn by_trajectory(&self, measure: &str) -> Vec<(u32, f64)> {
        let mut sums: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for term in self.terms.iter().flat_map(|t| &t.by_measure[measure]) {
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
    /// What they ask for is collected as well.
    claims: Option<&'a Claims>,
}

impl<'a> Gathered<'a> {
    pub(crate) fn with(claims: &'a Claims) -> Self {
        Gathered { claims: Some(claims), ..Gathered::default() }
    }

    pub(crate) fn take(&mut self, run: &Run, batch: &[(usize, VariantScores)]) {
        for (i, scores) in batch {
            let mut terms = Terms::of(scores, run.trajectories.len());
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
                // A reader may have no score of this line.
                for term in terms.by_measure.get(measure).into_iter().flatten().filter(counts) {
                    let sum = &mut sums[self.clusters[term.trajectory as usize] as usize];
                    *sum = [sum[0] + term.top, sum[1] + term.bottom];
                    trajectories.insert(term.trajectory);
                    n_items += u64::from(term.n);
                }
                sums
            })
            .collect();
        let n_items = n_items / seeds.len() as u64;
        Series::of(&self.draws, measure, seeds, line.stream).counting(trajectories.len(), n_items)
    }

    /// The scores that several readers gave, by each.
    pub(crate) fn by_reader(&self) -> BTreeSet<String> {
        let names = self.all.iter().flat_map(|line| &line.terms).flat_map(|terms| terms.by_measure.keys());
        names.filter(|name| BY_READERS.iter().any(|metric| is_by(name, metric))).cloned().collect()
    }

    /// The scores that say how much was kept; each reader's where there are several.
    pub(crate) fn retentions(&self) -> Vec<String> {
        let by_reader = self.by_reader();
        let names = |metric: &str| -> Vec<String> {
            let each: Vec<String> = by_reader.iter().filter(|name| is_by(name, metric)).cloned().collect();
            if each.is_empty() { vec![metric.to_owned()] } else { each }
        };
        RETENTIONS.iter().flat_map(|metric| names(metric)).collect()
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
        let terms = line.terms[seed].by_measure[measure].iter().filter(|t| line.cells[t.trajectory as usize]);
        let (top, bottom) = terms.fold((0.0, 0.0), |(a, b), t| (a + t.top, b + t.bottom));
        ratio(top, bottom)
    }

    /// Why the efficiency of a line means nothing, if so: the rule of the summary.
    pub(crate) fn efficiency_withheld(&self, line: &Line) -> Option<String> {
        let room: Estimate = self.series(line, "room", None).estimate();
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
    pub(crate) fn by_hand(label: &str, scores: &[(&str, &[(f64, f64)])]) -> Self {
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
        let mut by_measure: BTreeMap<_, _> = measures().map(|m| (m.name.to_owned(), Vec::new())).collect();
        by_measure.extend(scores.iter().map(|(name, scores)| ((*name).to_owned(), terms(scores))));
        let cells = vec![true; scores[0].1.len()];
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
        for measure in measures() {
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
        let mut gathered = Gathered::default();
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
