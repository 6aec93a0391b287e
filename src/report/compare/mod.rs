//! Two runs side by side: what one of them saves and loses more than the other, over the sessions that both have.
//!
//! - Sessions are paired by their `source_key`; one whose content is another in the two runs has grown, and is left out of the
//!   differences: they would be those of the log. A key that stands twice in a run pairs where the content is the same.
//! - Variants are paired by what they are set to, however they are called (a label says what tells a variant from the others of its
//!   run; a policy's name is one that somebody chose), else by their label without the seed; replicates by seed are one. What is left of a strategy under a trigger, one on
//!   each side, is one variant whose settings changed.
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

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::lines::{Gathered, Line, Lines, Measure};
use super::load::{Population, Run, Trajectory};
use super::statistics::bootstrap::Resampling;
use super::statistics::estimate::{Estimate, ratio};
use super::statistics::inference::Resampled;
use super::tables::differences;
use crate::scores::money::TOKEN_SAVINGS;
use crate::scores::retention::NEED_RETENTION;
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
    /// What the gate asks about, of those that it means, over all sessions: with it a history begins.
    pub began: Vec<Began>,
    /// Of those in the base alone the ones that the gate holds.
    pub gone: Vec<String>,
    /// Variants whose parameters are others now, under one label or not.
    pub changed: Vec<String>,
    /// Variants whose seeds are others now, and nothing else.
    pub reseeded: Vec<String>,
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
    /// Its label in the base, where that is another.
    pub label_before: Option<String>,
    /// Whether that is all that is another, seeds apart.
    pub is_renamed: bool,
    pub base: Option<f64>,
    pub new: Option<f64>,
    /// The same over all sessions of the new run.
    pub whole: Option<f64>,
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

    /// Whether there is no interval because all clusters say the same: the surest case.
    pub fn all_agree(&self) -> bool {
        self.difference.all_agree()
    }

    /// Why there is no difference or no interval.
    pub fn reason(&self) -> Option<&str> {
        self.difference.reason.as_deref()
    }
}

/// The first value of a variant that is new.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Began {
    pub score: &'static str,
    pub variant: String,
    pub now: Option<f64>,
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
        let gone = (!self.gone.is_empty()).then_some(Answer::Gone);
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
    let (base, new) = rayon::join(|| Read::open(base, options), || Read::open(new, options));
    let (base, new) = (base?, new?);
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
    check_names(&options.gate, before.values().chain(&lines.all))?;
    let (mut pairs, mut came, mut changed, mut reseeded) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (line, other) in lines.all.iter().zip(paired(&before, &lines.all)) {
        match other {
            None => came.push(line),
            Some(other) => {
                let [there, here] = [(&base.run, other), (&new.run, line)].map(|(run, line)| id(run, line));
                match there != here && same::is_set_alike(other, line) && other.seeds != line.seeds {
                    true => reseeded.push(same::other_seeds(other, line)),
                    false => changed.extend(same::other_settings(other, line, there == here)),
                }
                pairs.push((other, line));
            }
        }
    }
    let is_paired = |line: &&Line| pairs.iter().any(|(other, _)| other.label == line.label);
    let mut gone: Vec<&Line> = before.values().filter(|line| !is_paired(line)).collect();
    let followed = followed(&gone, &came);
    for &(old, new) in &followed {
        changed.push(format!("`{}` before, `{}` now", old.label, new.label));
        gone.retain(|line| line.label != old.label);
        came.retain(|line| line.label != new.label);
    }
    pairs.extend(followed);
    let rules = &options.gate.rules;
    // Where all that the gate means is gone, that is the answer.
    let is_meant = |line: &&Line| rules.iter().any(|r| r.is_of(&line.label, &line.strategy, is_choice(line)));
    let has_gone = gone.iter().any(is_meant);
    anyhow::ensure!(
        !pairs.is_empty() || has_gone,
        "the runs share no variant\nhint: variants are paired by their settings, then by their labels, as in variants.parquet"
    );
    let of_rule = |rule| pairs.iter().map(move |&(base, new)| (rule, base, new));
    let asked = rules.iter().flat_map(of_rule);
    let beside: Vec<Beside> =
        asked.filter_map(|(rule, base, new)| Beside::of(rule, base, new, &lines)).collect();
    anyhow::ensure!(
        !beside.is_empty() || has_gone,
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
    let is_held = |line: &&&Line| options.gate.holds(&line.label, &line.strategy, is_choice(line));
    Ok(Compared {
        sessions,
        gone: gone.iter().filter(|line| is_held(line)).map(|line| line.label.clone()).collect(),
        only_base: gone.iter().map(|line| line.label.clone()).collect(),
        only_new: came.iter().map(|line| line.label.clone()).collect(),
        began: began(rules, &came, &lines),
        changed,
        reseeded,
        rows,
        seeds: rules.iter().flat_map(|rule| noise::seeds(&lines, rule.score.name)).collect(),
        population: options.population.name(),
        cluster: options.population.cluster(),
    })
}

/// Fails where a name in the gate fits none of these variants: a rule that asks nobody would pass for ever.
fn check_names<'l>(gate: &Gate, lines: impl Iterator<Item = &'l Line>) -> anyhow::Result<()> {
    let all: Vec<&Line> = lines.collect();
    let unmet = gate.unmet(&all);
    let strategies: BTreeSet<&str> = all.iter().map(|line| line.strategy.as_str()).collect();
    anyhow::ensure!(
        unmet.is_empty(),
        "the gate names what no variant of either run is called: `{}`\nhint: names are labels, strategies, or how they begin \
         (`mask*`); the strategies here are {}",
        unmet.join("`, `"),
        strategies.into_iter().collect::<Vec<_>>().join(", ")
    );
    Ok(())
}

/// The values of variants that are new, under the rules that mean them.
fn began(rules: &[Rule], came: &[&Line], lines: &Lines) -> Vec<Began> {
    let of = |rule: &Rule, line: &Line| Began {
        score: rule.score.name,
        variant: line.label.clone(),
        now: lines.series(line, rule.score.name, None).estimate().value,
    };
    let is_meant = |rule: &Rule, line: &Line| rule.is_of(&line.label, &line.strategy, is_choice(line));
    let of_rule = |rule| came.iter().filter(move |line| is_meant(rule, line)).map(move |line| of(rule, line));
    rules.iter().flat_map(of_rule).collect()
}

/// Of each of these variants what it was before, by label: of those set alike the one of its label, or the only one; else what had
/// its label and is set like none of these.
fn paired<'a>(before: &'a BTreeMap<String, Line>, lines: &[Line]) -> Vec<Option<&'a Line>> {
    let alike = |line: &Line| -> Option<&'a Line> {
        let mut alike = before.values().filter(|other| same::is_set_alike(other, line));
        let named = before.get(&line.label).filter(|other| same::is_set_alike(other, line));
        named.or_else(|| alike.next().filter(|_| alike.next().is_none()))
    };
    let found: Vec<Option<&Line>> = lines.iter().map(alike).collect();
    let is_free = |line: &&Line| found.iter().flatten().all(|other| other.label != line.label);
    let of_label = |line: &Line| before.get(&line.label).filter(is_free);
    lines.iter().zip(&found).map(|(line, found)| found.or_else(|| of_label(line))).collect()
}

/// Of variants that only one run has: the one of a strategy, trigger and model that is gone, with the one that came.
fn followed<'a>(gone: &[&'a Line], came: &[&'a Line]) -> Vec<(&'a Line, &'a Line)> {
    let of = |line: &Line, lines: &[&'a Line]| -> Option<&'a Line> {
        let key = |line: &Line| (line.strategy.clone(), line.trigger_name.clone(), line.model.clone());
        let mut kin = lines.iter().filter(|other| key(other) == key(line));
        kin.next().filter(|_| kin.next().is_none()).copied()
    };
    gone.iter().filter(|old| of(old, gone).is_some()).filter_map(|old| Some((*old, of(old, came)?))).collect()
}

/// What its parameters, policy and seed make of a variant.
fn id<'r>(run: &'r Run, line: &Line) -> Option<&'r str> {
    Some(run.variants[*line.members.first()?].variant.as_str())
}

/// Whether somebody would run it.
fn is_choice(line: &Line) -> bool {
    !line.control && !line.sees_future() && !line.is_bridge()
}

/// A run with its lines.
struct Read {
    run: Run,
    lines: Lines,
}

impl Read {
    fn open(folder: &Path, options: &Options) -> anyhow::Result<Read> {
        let run = Run::without_events(folder, options.population)?;
        let measures = options.gate.rules.iter().map(|rule| Measure::of(rule.score)).collect();
        let mut gathered = Gathered::with(measures, None);
        // Needs tell the tails, and tokens which sessions were scored at all.
        let beside = [NEED_RETENTION.name, TOKEN_SAVINGS.name];
        let metrics: Vec<&str> =
            options.gate.rules.iter().map(|rule| rule.score.name).chain(beside).collect();
        run.scores_of(Some(&metrics), |batch| {
            gathered.take(&run, &batch);
            Ok(())
        })?;
        let mut lines = Lines::new(&run, gathered, options.resampling);
        let policies = same::policies(folder)?;
        for line in &mut lines.all {
            line.policy = id(&run, line).and_then(|id| policies.get(id)).cloned();
        }
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
    label_before: Option<&'a str>,
    is_renamed: bool,
    of: differences::Comparison,
    gain: Resampled,
    is_same: bool,
    /// Tops and bottoms of the clusters of the whole new run.
    clusters: Vec<[f64; 2]>,
}

impl<'a> Beside<'a> {
    /// None where the rule does not mean the variant, or it lacks the score.
    fn of(rule: &'a Rule, base: &'a Line, new: &'a Line, lines: &Lines) -> Option<Self> {
        if ![base, new].iter().any(|line| rule.is_of(&line.label, &line.strategy, is_choice(new))) {
            return None;
        }
        let both = lines.shared(&[base, new]);
        let part = |line| lines.series(line, rule.score.name, Some(&both));
        let (before, after) = (part(base), part(new));
        let of = differences::compare(&after, &before);
        // Below the minimum there is a score, and no value to tell: that is an answer, too.
        before.pooled.value.or(after.pooled.value)?;
        let gain = after.pooled.minus(&before.pooled);
        let gain = if rule.sign() < 0.0 { Resampled::combine(&[(-1.0, &gain)]) } else { gain };
        let is_same = lines.is_same(base, new, rule.score.name, &both);
        let clusters = lines.series(new, rule.score.name, None).clusters;
        let label_before = Some(base.label.as_str()).filter(|label| *label != new.label);
        let is_renamed = label_before.is_some() && same::is_set_alike(base, new);
        Some(Beside { rule, label: &new.label, label_before, is_renamed, of, gain, is_same, clusters })
    }

    fn row(&self, answer: Answer, p_holm: Option<f64>, options: &Options) -> Row {
        Row {
            score: self.rule.score.name,
            margin: self.rule.margin,
            label: self.label.to_owned(),
            label_before: self.label_before.map(str::to_owned),
            is_renamed: self.is_renamed,
            base: self.of.baseline_value,
            new: self.of.value,
            whole: self.of.value.and_then(|_| {
                let add = |sum: [f64; 2], of: &[f64; 2]| [sum[0] + of[0], sum[1] + of[1]];
                let [top, bottom] = self.clusters.iter().fold([0.0; 2], add);
                ratio(top, bottom)
            }),
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
