//! Two runs side by side: what one of them saves and loses more than the other, over the sessions that both have.
//!
//! - Sessions are paired by their `source_key`; one whose content is another in the two runs has grown, and is left out of the
//!   differences: they would be those of the log. A key that stands twice in a run pairs where the content is the same.
//! - Variants are paired by their label without the seed; replicates by seed are one.
//! - difference = pooled score in the new run - pooled score in the base, over the sessions that both were scored on; its
//!   interval leaves the same clusters out of both ([`super::statistics::inference`]).
//! - What the runs must have in common (versions of tables, scores and annotation, tokenizer, weights of models) is looked at
//!   first: what differs there cannot be compared.
//!
//! Beside it stands the noise: how far two seeds of a sampled variant are apart on the same logs, and how far two random halves
//! of the new run's sessions are apart, which is what other logs would do.

pub mod gate;
mod noise;
mod same;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::lines::{Gathered, Line, Lines, Measure};
use super::load::{Population, Run, Trajectory};
use super::statistics::bootstrap::Resampling;
use super::statistics::estimate::Estimate;
use super::statistics::inference::Resampled;
use super::tables::differences;
use gate::{Answer, Asked, Gate, Rule};

/// How two runs are compared.
#[derive(Debug)]
pub struct Options {
    pub resampling: Resampling,
    pub population: Population,
    pub gate: Gate,
}

/// What two runs have of one another.
#[derive(Debug)]
pub struct Compared {
    pub sessions: Sessions,
    /// Labels that one of them has alone.
    pub only_base: Vec<String>,
    pub only_new: Vec<String>,
    /// Variants of one label whose parameters are others now.
    pub changed: Vec<String>,
    /// By rule, then by label.
    pub rows: Vec<Row>,
    /// What several seeds of a variant give for a rule's score on the same logs.
    pub seeds: Vec<Seeds>,
    pub population: &'static str,
    /// What a cluster is.
    pub cluster: &'static str,
}

/// Sessions of two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sessions {
    pub base: usize,
    pub new: usize,
    /// With the same content.
    pub paired: usize,
    /// In both, with another content.
    pub grown: usize,
    pub only_base: usize,
    pub only_new: usize,
}

/// A variant of both runs under a rule.
#[derive(Debug)]
pub struct Row {
    pub score: &'static str,
    pub margin: f64,
    pub label: String,
    pub base: Option<f64>,
    pub new: Option<f64>,
    /// New - base, with its 95 % interval.
    pub(crate) difference: Estimate,
    /// One-sided, of "nothing was lost", adjusted by Holm over the gate.
    pub p_holm: Option<f64>,
    pub answer: Answer,
    /// Whether every session has the same value in both.
    pub is_same: bool,
    /// The smallest loss that so many sessions can tell from none; null where nothing varies, or there are too few.
    pub least: Option<f64>,
    /// How far two random halves of the sessions are apart in 19 of 20 draws.
    pub halves: Option<f64>,
}

impl Row {
    /// Ends of the 95 % interval.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.difference.interval
    }

    pub fn value(&self) -> Option<f64> {
        self.difference.value
    }

    pub fn n_sessions(&self) -> usize {
        self.difference.n_trajectories
    }

    pub fn n_clusters(&self) -> usize {
        self.difference.n_clusters
    }

    /// Why there is no difference or no interval.
    pub fn reason(&self) -> Option<&str> {
        self.difference.reason.as_deref()
    }
}

/// A sampled variant under its seeds, on the same logs.
#[derive(Debug, PartialEq, Serialize)]
pub struct Seeds {
    pub score: &'static str,
    pub label: String,
    pub n_seeds: usize,
    /// The largest distance of two seeds.
    pub apart: f64,
}

impl Compared {
    /// Of the whole gate: the worst of its rows; null of none.
    pub fn answer(&self) -> Option<Answer> {
        let gone = (!self.only_base.is_empty()).then_some(Answer::CannotTell);
        self.rows.iter().map(|row| row.answer).max().max(gone)
    }

    /// Rows whose sessions say less than the margin even without a change: other logs alone would move them by more.
    pub fn noisy(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.halves.is_some_and(|halves| halves > row.margin))
    }
}

/// Compares the run in `new` with that in `base`.
pub fn compare(base: &Path, new: &Path, options: &Options) -> anyhow::Result<Compared> {
    same::check(base, new, &options.gate)?;
    let (base, new) = (Read::open(base, options)?, Read::open(new, options)?);
    let (sessions, to) = pair(&base.run.trajectories, &new.run.trajectories);
    anyhow::ensure!(
        sessions.paired > 0,
        "the runs share no session: {} in the base, {} in the new one, {} of them grown\nhint: compare runs over the same \
         logs, or over data that were added to",
        sessions.base,
        sessions.new,
        sessions.grown
    );
    let n_trajectories = new.run.trajectories.len();
    let before = base.lines.all.into_iter().map(|line| line.onto(&to, n_trajectories));
    let before: BTreeMap<String, Line> = before.map(|line| (line.label.clone(), line)).collect();
    let lines = new.lines;
    let is_in_new = |label: &String| lines.all.iter().any(|line| line.label == *label);
    let mut pairs = Vec::new();
    let (mut only_new, mut changed) = (Vec::new(), Vec::new());
    let successors = successors(&before, &lines.all);
    for line in &lines.all {
        let of_before = before.get(&line.label);
        match of_before
            .or_else(|| successors.iter().find(|(_, new)| new.label == line.label).map(|(old, _)| *old))
        {
            None => only_new.push(line.label.clone()),
            Some(other) if of_before.is_none() => {
                changed.push(format!("`{}` was `{}`", line.label, other.label));
                pairs.push((other, line));
            }
            Some(other) => {
                let [there, here] = [(&base.run, other), (&new.run, line)].map(|(run, line)| id(run, line));
                changed.extend(same::other_settings(other, line, there == here));
                pairs.push((other, line));
            }
        }
    }
    anyhow::ensure!(
        !pairs.is_empty(),
        "the runs share no variant\nhint: variants are paired by their labels, as in variants.parquet"
    );
    let rules = &options.gate.rules;
    let of_rule = |rule| pairs.iter().map(move |&(base, new)| (rule, base, new));
    let asked = rules.iter().flat_map(of_rule);
    let beside: Vec<Beside> =
        asked.filter_map(|(rule, base, new)| Beside::of(rule, base, new, &lines)).collect();
    anyhow::ensure!(
        !beside.is_empty(),
        "no variant of both runs is meant by a rule\nhint: rules name labels or strategies; both runs have {}",
        pairs.iter().map(|(_, new)| new.label.as_str()).collect::<Vec<_>>().join(", ")
    );
    let asked: Vec<Asked> = beside
        .iter()
        .map(|of| Asked { gain: &of.gain, margin: of.rule.margin, is_same: of.is_same })
        .collect();
    let answers = gate::answers(&asked);
    let rows = beside.iter().zip(answers).map(|(of, (answer, p_holm))| of.row(answer, p_holm, options));
    let rows = rows.collect();
    Ok(Compared {
        sessions,
        only_base: before
            .values()
            .filter(|old| !is_in_new(&old.label) && !successors.iter().any(|(of, _)| of.label == old.label))
            .map(|old| old.label.clone())
            .collect(),
        only_new,
        changed,
        rows,
        seeds: rules.iter().flat_map(|rule| noise::seeds(&lines, rule.score.name)).collect(),
        population: options.population.name(),
        cluster: options.population.cluster(),
    })
}

/// What took the place of a variant that is gone: labels hold the settings, so that a setting that changed is another label. It is the
/// only new one of the strategy, the trigger and the model of the only one that is gone.
fn successors<'a>(before: &'a BTreeMap<String, Line>, now: &'a [Line]) -> Vec<(&'a Line, &'a Line)> {
    let gone: Vec<&Line> =
        before.values().filter(|old| now.iter().all(|new| new.label != old.label)).collect();
    let come: Vec<&Line> = now.iter().filter(|new| !before.contains_key(&new.label)).collect();
    let is_like = |a: &Line, b: &Line| {
        (&a.strategy, &a.trigger_name, &a.model, a.control)
            == (&b.strategy, &b.trigger_name, &b.model, b.control)
    };
    let alone = |of: &Line, among: &[&'a Line]| -> Option<&'a Line> {
        let mut like = among.iter().filter(|other| is_like(of, other));
        like.next().filter(|_| like.next().is_none()).copied()
    };
    let pair = |old: &&'a Line| {
        let new = alone(old, &come)?;
        alone(new, &gone).map(|_| (*old, new))
    };
    gone.iter().filter_map(pair).collect()
}

/// What its parameters, policy and seed make of a variant.
fn id<'r>(run: &'r Run, line: &Line) -> Option<&'r str> {
    Some(run.variants[*line.members.first()?].variant.as_str())
}

/// A run with its lines.
struct Read {
    run: Run,
    lines: Lines,
}

impl Read {
    fn open(folder: &Path, options: &Options) -> anyhow::Result<Read> {
        let run = Run::open(folder, options.population)?;
        let measures = options.gate.rules.iter().map(|rule| Measure::of(rule.score)).collect();
        let mut gathered = Gathered::with(measures, None);
        run.scores(|batch| {
            gathered.take(&run, &batch);
            Ok(())
        })?;
        let lines = Lines::new(&run, gathered, options.resampling);
        Ok(Read { run, lines })
    }
}

/// How the sessions pair, and where those of the base with the same content stand in the new run.
fn pair(base: &[Trajectory], new: &[Trajectory]) -> (Sessions, Vec<Option<u32>>) {
    let mut by_key: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, session) in new.iter().enumerate() {
        by_key.entry(&session.source_key).or_default().push(i);
    }
    let mut is_taken = vec![false; new.len()];
    let mut to = vec![None; base.len()];
    let mut take = |session: &Trajectory, is_same: &dyn Fn(&Trajectory) -> bool| {
        let there = by_key.get(session.source_key.as_str())?;
        let found = *there.iter().find(|&&i| !is_taken[i] && is_same(&new[i]))?;
        is_taken[found] = true;
        Some(found as u32)
    };
    for (session, to) in base.iter().zip(&mut to) {
        *to = take(session, &|other| other.id == session.id && other.content == session.content);
    }
    let rest = base.iter().zip(&to).filter(|(_, to)| to.is_none());
    let grown = rest.filter(|(session, _)| take(session, &|_| true).is_some()).count();
    let paired = to.iter().flatten().count();
    let sessions = Sessions {
        base: base.len(),
        new: new.len(),
        paired,
        grown,
        only_base: base.len() - paired - grown,
        only_new: new.len() - paired - grown,
    };
    (sessions, to)
}

/// A variant of both runs under a rule.
struct Beside<'a> {
    rule: &'a Rule,
    label: &'a str,
    of: differences::Comparison,
    gain: Resampled,
    is_same: bool,
    /// Tops and bottoms of the clusters of the whole new run.
    clusters: Vec<[f64; 2]>,
}

impl<'a> Beside<'a> {
    /// None where the rule does not mean the variant, or it lacks the score.
    fn of(rule: &'a Rule, base: &Line, new: &'a Line, lines: &Lines) -> Option<Self> {
        let is_choice = !new.control && !new.sees_future() && !new.is_bridge();
        if !rule.is_of(&new.label, &new.strategy, is_choice) {
            return None;
        }
        let both = lines.shared(&[base, new]);
        let part = |line| lines.series(line, rule.score.name, Some(&both));
        let (before, after) = (part(base), part(new));
        let of = differences::compare(&after, &before);
        of.value.or(of.baseline_value)?;
        let gain = after.pooled.minus(&before.pooled);
        let gain = if rule.sign() < 0.0 { Resampled::combine(&[(-1.0, &gain)]) } else { gain };
        let is_same = lines.is_same(base, new, rule.score.name, &both);
        let clusters = lines.series(new, rule.score.name, None).clusters;
        Some(Beside { rule, label: &new.label, of, gain, is_same, clusters })
    }

    fn row(&self, answer: Answer, p_holm: Option<f64>, options: &Options) -> Row {
        Row {
            score: self.rule.score.name,
            margin: self.rule.margin,
            label: self.label.to_owned(),
            base: self.of.baseline_value,
            new: self.of.value,
            difference: self.of.difference.clone(),
            p_holm,
            answer,
            is_same: self.is_same,
            least: self.gain.reach().filter(|_| !self.is_same),
            halves: noise::halves(&self.clusters, options.resampling.seed),
        }
    }
}

#[cfg(test)]
mod tests;
