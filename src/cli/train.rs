//! `trajpress train`: weights from logs of one's own, and whether they beat those that travel with the program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::context::log::Log;
use crate::experiment::Dataset;
use crate::files::reach;
use crate::files::whole;
use crate::learn::{Linear, OfStatements, Seen, Weights, ends, intents, labels, needs};
use crate::text::escape;
use crate::turns::ends::Ends;
use crate::turns::intents::Rater;

use super::{ExitStatus, Output, count, print, tell};
use excluded::group;
use verdict::{REPOSITORY, SESSION, Served, Verdict, add};

mod excluded;
mod verdict;

/// Train the raters on your own logs: what is needed later, what matters, what turns are about, or where work ends
///
/// Learns from a folder that `ingest` and `annotate` wrote: which lines agents needed later (for `hindsight`), or, from logs in the annotated form,
/// which statements matter (for `salience` and `protected-core`), or, from labels of turns, what an agent is about (for the trigger `intent`) or where a unit of work ends (for `subtask`). It says by cross-validation, with repositories
/// that the weights have not seen, what share of the needs is served at a tenth of the tokens (of the labelled spans, found by 12 items a point;
/// of the labelled turns, told right; of the labelled ends, found) by them and by the weights that travel with the program, and the
/// interval of the difference. The file is then named in an experiment as `weights = "PATH#HASH"`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  trajpress train data --out weights.json
  trajpress train data --out weights.json --exclude-repos test-repos.txt
  trajpress train labelled --target salience --out weights.json
  trajpress train data --target intents --labels turns.jsonl --out intents.json
  trajpress train data --target subtasks --labels turns.jsonl --out subtasks.json")]
pub struct Args {
    /// Folder that `ingest` and `annotate` wrote
    data: PathBuf,
    /// What is learned: needs, salience from labels, intents of turns, or where subtasks end
    #[arg(long, value_enum, default_value_t = Target::Needs)]
    target: Target,
    /// Write the weights to FILE
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// For intents and subtasks: labels of turns, one a line: {"path", "task", "trajectory", "turn", "intent", "subtask_end"}; may be given several times
    #[arg(long, value_name = "FILE")]
    labels: Vec<PathBuf>,
    /// Leave out the repositories that FILE names, one a line
    #[arg(long, value_name = "FILE")]
    exclude_repos: Option<PathBuf>,
    /// Seed of the folds and of the interval
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Use N threads; 0 is all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

/// What is learned.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Needs,
    Salience,
    Intents,
    Subtasks,
}

/// Parts that repositories are divided into.
const FOLDS: usize = 5;
/// Share of the tokens at which weights are compared.
const SHARE: f64 = 0.1;
/// Logs between two lines of progress.
const TOLD: usize = 100;

/// What a log teaches of a target.
trait Sample: Send + Sized {
    type Learned;
    type Rater;
    /// What it is called, in what it is measured, and what is wanting where nothing was learned.
    const TOLD: Told;
    /// Whether it is learned from labelled turns alone.
    const IS_LABELLED: bool = false;

    /// What a log teaches; `turns` are the labels of turns, where there are any.
    fn of(log: &Log, turns: &intents::Labels) -> Self;
    /// What is rated, and how much of it is looked for.
    fn counts(&self) -> (usize, usize);
    fn learn(samples: &[&Self]) -> Option<Self::Learned>;
    fn rater(learned: &Self::Learned) -> &Self::Rater;
    fn shipped(weights: &Weights) -> &Self::Rater;
    /// What the shipped ones were made of.
    fn manifest(weights: &Weights) -> &serde_json::Value {
        &weights.manifest
    }
    /// Of each unit the class that a reader gives and the one that is told, where it has one.
    fn told(&self, _: &Self::Rater) -> Vec<[usize; 2]> {
        Vec::new()
    }
    /// What is served, and all.
    fn served(&self, rater: &Self::Rater) -> (f64, f64);
    /// A file of weights.
    fn file(learned: Self::Learned, manifest: serde_json::Value) -> anyhow::Result<String>;
}

/// How results are told.
struct Told {
    target: &'static str,
    unit: &'static str,
    /// What is looked for among the units.
    found: &'static str,
    measure: &'static str,
    nothing: &'static str,
}

impl Sample for needs::Sample {
    type Learned = Linear;
    type Rater = Linear;
    const TOLD: Told = Told {
        target: "needs",
        unit: "atom",
        found: "needed",
        measure: "needs served at 10 % of the tokens",
        nothing: "nothing was needed again\nhint: logs of 16 turns and more are read",
    };

    fn of(log: &Log, _: &intents::Labels) -> Self {
        needs::Sample::of(log)
    }

    fn counts(&self) -> (usize, usize) {
        (self.n_rated(), self.n_needed())
    }

    fn learn(samples: &[&Self]) -> Option<Linear> {
        needs::learn(samples)
    }

    fn rater(learned: &Linear) -> &Linear {
        learned
    }

    fn shipped(weights: &Weights) -> &Linear {
        &weights.atoms
    }

    fn served(&self, rater: &Linear) -> (f64, f64) {
        needs::Sample::served(self, rater, SHARE)
    }

    fn file(learned: Linear, manifest: serde_json::Value) -> anyhow::Result<String> {
        Weights::text_with(vec![("atoms", serde_json::to_value(learned)?)], manifest)
    }
}

impl Sample for labels::Sample {
    type Learned = labels::Learned;
    type Rater = OfStatements;
    const TOLD: Told = Told {
        target: "salience",
        unit: "statement",
        found: "salient",
        measure: "labelled spans found by 12 items a point",
        nothing: "nothing is labelled\nhint: labels are spans and compression points of the annotated form, as datasets/labels/join.py writes it",
    };

    fn of(log: &Log, _: &intents::Labels) -> Self {
        labels::Sample::of(log)
    }

    fn counts(&self) -> (usize, usize) {
        (self.n_rated(), self.n_salient())
    }

    fn learn(samples: &[&Self]) -> Option<labels::Learned> {
        labels::learn(samples)
    }

    fn rater(learned: &labels::Learned) -> &OfStatements {
        &learned.statements
    }

    fn shipped(weights: &Weights) -> &OfStatements {
        &weights.statements
    }

    fn served(&self, rater: &OfStatements) -> (f64, f64) {
        self.found(rater)
    }

    fn file(learned: labels::Learned, manifest: serde_json::Value) -> anyhow::Result<String> {
        let labels::Learned { statements, types, goals } = learned;
        let raters =
            [serde_json::to_value(statements)?, serde_json::to_value(types)?, serde_json::to_value(goals)?];
        Weights::text_with(["statements", "types", "goals"].into_iter().zip(raters).collect(), manifest)
    }
}

impl Sample for intents::Sample {
    type Learned = Rater;
    type Rater = Rater;
    const TOLD: Told = Told {
        target: "intents",
        unit: "turn",
        found: "with an intent",
        measure: "labelled turns told right",
        nothing: "no turn is labelled\nhint: give `--labels FILE`, whose lines name a run of this folder, a turn and its intent",
    };

    const IS_LABELLED: bool = true;

    fn of(log: &Log, turns: &intents::Labels) -> Self {
        intents::Sample::of(log, turns)
    }

    fn counts(&self) -> (usize, usize) {
        (self.n_turns(), self.n_intents())
    }

    fn learn(samples: &[&Self]) -> Option<Rater> {
        intents::learn(samples)
    }

    fn rater(learned: &Rater) -> &Rater {
        learned
    }

    fn shipped(_: &Weights) -> &Rater {
        Rater::shipped()
    }

    fn manifest(_: &Weights) -> &serde_json::Value {
        &Rater::shipped().manifest
    }

    fn told(&self, rater: &Rater) -> Vec<[usize; 2]> {
        intents::Sample::told(self, rater)
    }

    fn served(&self, rater: &Rater) -> (f64, f64) {
        let right = self.told(rater).iter().filter(|[read, told]| read == told).count();
        (right as f64, self.n_turns() as f64)
    }

    fn file(learned: Rater, manifest: serde_json::Value) -> anyhow::Result<String> {
        Ok(escape::json_line(&Rater { manifest, ..learned })? + "\n")
    }
}

impl Sample for ends::Sample {
    type Learned = Ends;
    type Rater = Ends;
    const TOLD: Told = Told {
        target: "subtasks",
        unit: "turn",
        found: "with which a unit of work ends",
        measure: "labelled ends found",
        nothing: "no end is labelled\nhint: give `--labels FILE`, whose lines name a run of this folder, a turn, and `subtask_end`",
    };

    const IS_LABELLED: bool = true;

    fn of(log: &Log, turns: &intents::Labels) -> Self {
        ends::Sample::of(log, turns)
    }

    fn counts(&self) -> (usize, usize) {
        (self.n_turns(), self.n_ends())
    }

    fn learn(samples: &[&Self]) -> Option<Ends> {
        ends::learn(samples)
    }

    fn rater(learned: &Ends) -> &Ends {
        learned
    }

    fn shipped(_: &Weights) -> &Ends {
        Ends::shipped()
    }

    fn manifest(_: &Weights) -> &serde_json::Value {
        &Ends::shipped().manifest
    }

    fn told(&self, ends: &Ends) -> Vec<[usize; 2]> {
        ends::Sample::told(self, ends)
    }

    fn served(&self, ends: &Ends) -> (f64, f64) {
        let found = self.told(ends).iter().filter(|pair| **pair == [1, 1]).count();
        (found as f64, self.n_ends() as f64)
    }

    fn file(learned: Ends, manifest: serde_json::Value) -> anyhow::Result<String> {
        Ok(escape::json_line(&Ends { manifest, ..learned })? + "\n")
    }
}

/// What the logs of a repository teach, and whether the shipped weights have seen it.
type Groups<S> = BTreeMap<String, Vec<(S, bool)>>;

/// Runs the subcommand; says on stderr how far it is, and what the weights are worth.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(super::threads(args.threads)).build()?;
    pool.install(|| match args.target {
        Target::Needs => train::<needs::Sample>(args, output),
        Target::Salience => train::<labels::Sample>(args, output),
        Target::Intents => train::<intents::Sample>(args, output),
        Target::Subtasks => train::<ends::Sample>(args, output),
    })
}

fn train<S: Sample + Sync>(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let start = Instant::now();
    let data = Dataset::open(&args.data)?;
    let names = args.exclude_repos.as_deref().map(excluded::names).transpose()?.unwrap_or_default();
    anyhow::ensure!(
        S::IS_LABELLED || args.labels.is_empty(),
        "--labels is for intents and subtasks\nhint: `--target salience` learns from logs in the annotated form"
    );
    let mut turns = intents::Labels::default();
    for path in &args.labels {
        turns.read(&path.display().to_string(), &reach::text(path)?)?;
    }
    let (groups, logs) = read::<S>(&data, &names, &mut turns, output.quiet)?;
    let samples: Vec<&S> = groups.values().flatten().map(|(sample, _)| sample).collect();
    let learned = S::learn(&samples).with_context(|| {
        let (what, hint) = S::TOLD.nothing.split_once('\n').unwrap_or((S::TOLD.nothing, ""));
        format!("{what} in {}\n{hint}", count(logs.len() as u64, "log"))
    })?;
    let (unit, parts) = parts(&groups);
    let served = cross_validated(&parts, args.seed)?;
    let verdict = Verdict::new(&served, unit, args.seed);
    let (rated, found) =
        samples.iter().map(|sample| sample.counts()).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let n_logs = logs.len() as u64;
    let manifest = serde_json::json!({
        "program": env!("CARGO_PKG_VERSION"), "target": S::TOLD.target, "seed": args.seed, "tables": data.inputs()?, "logs": logs,
        "rated": rated, S::TOLD.found: found, "cross_validated": verdict,
    });
    let text = S::file(learned, manifest)?;
    whole::write(&args.out, text.as_bytes())?;
    let hash = blake3::hash(text.as_bytes()).to_hex();
    let name = format!("{}#{}", args.out.display(), &hash[..16]);
    if output.json {
        print(&(escape::json(&serde_json::json!({ "weights": name, "cross_validated": verdict }))? + "\n"))?;
    }
    if !output.quiet {
        tell(&format!(
            "trained on {} of {}: {} rated, {found} {}, {:.1} s",
            count(n_logs, "log"),
            count(groups.len() as u64, "repository"),
            count(rated as u64, S::TOLD.unit),
            S::TOLD.found,
            start.elapsed().as_secs_f64()
        ));
        tell(&verdict.told(S::TOLD.measure));
        tell(&format!("weights = \"{name}\""));
    }
    Ok(ExitStatus::Done)
}

/// What the logs teach, by repository (of no repository by format), and which they are.
fn read<S: Sample>(
    data: &Dataset,
    names: &BTreeSet<String>,
    turns: &mut intents::Labels,
    quiet: bool,
) -> anyhow::Result<(Groups<S>, Vec<serde_json::Value>)> {
    let all: Vec<usize> = (0..data.entries().len()).collect();
    let rows = data.trajectory_rows(&all)?;
    let missing =
        turns.find(rows.iter().map(|r| (r.trajectory.as_str(), r.source.as_str(), r.task_id.as_deref())));
    if missing > 0 && !quiet {
        tell(&format!("{} of the labels not found in the folder", count(missing as u64, "run")));
    }
    let turns = &*turns;
    excluded::check(names, &rows, quiet)?;
    let chosen: Vec<usize> = all
        .into_iter()
        .filter(|&at| !S::IS_LABELLED || turns.has(&rows[at].trajectory))
        .filter(|&at| !names.contains(group(&rows[at])))
        .collect();
    let done = AtomicUsize::new(0);
    let sample = |&at: &usize| {
        let sample = S::of(&data.log(at, false)?, turns);
        let n = done.fetch_add(1, Ordering::Relaxed) + 1;
        if !quiet && n.is_multiple_of(TOLD) {
            tell(&format!("{n} of {} logs read", chosen.len()));
        }
        anyhow::Ok(sample)
    };
    let samples: Vec<S> = chosen.par_iter().map(sample).collect::<anyhow::Result<_>>()?;
    let seen = Seen::of(S::manifest(&*Weights::named("")?), S::TOLD.target);
    let (mut groups, mut logs) = (Groups::<S>::new(), Vec::new());
    for (at, sample) in chosen.iter().zip(samples).filter(|(_, sample)| sample.counts().0 > 0) {
        let row = &rows[*at];
        let content = serde_json::json!({ "trajectory": row.trajectory, "repository": row.repository, "format": row.format });
        logs.push(content);
        let is_seen = seen.has(row.repository.as_deref(), &row.trajectory);
        groups.entry(group(row).to_owned()).or_default().push((sample, is_seen));
    }
    Ok((groups, logs))
}

/// What is left out in turn: the repositories, or the sessions of one.
type Parts<'a, S> = Vec<Vec<&'a (S, bool)>>;

fn parts<S: Sample>(groups: &Groups<S>) -> (&'static str, Parts<'_, S>) {
    match groups.len() {
        1 => (SESSION, groups.values().flatten().map(|sample| vec![sample]).collect()),
        _ => (REPOSITORY, groups.values().map(|of| of.iter().collect()).collect()),
    }
}

/// Of each part what is served by weights that were made without it; nothing of one whose others teach nothing.
fn cross_validated<S: Sample>(parts: &Parts<'_, S>, seed: u64) -> anyhow::Result<Vec<Served>> {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for at in (1..order.len()).rev() {
        order.swap(at, rng.random_range(0..=at));
    }
    // The largest first, each to the part that holds least.
    let size = |part: usize| parts[part].iter().map(|(sample, _)| sample.counts().0).sum::<usize>();
    order.sort_by_key(|part| std::cmp::Reverse(size(*part)));
    let mut folds: Vec<(usize, Vec<usize>)> = vec![(0, Vec::new()); FOLDS.min(order.len())];
    for part in order {
        let least = folds.iter_mut().min_by_key(|fold| fold.0).context("no repository is left")?;
        least.0 += size(part);
        least.1.push(part);
    }
    let shipped = Weights::named("")?;
    let mut all = Vec::new();
    for (_, fold) in &folds {
        let others = parts.iter().enumerate().filter(|(part, _)| !fold.contains(part));
        let others: Vec<&S> = others.flat_map(|(_, samples)| samples).map(|(sample, _)| sample).collect();
        let Some(own) = S::learn(&others) else { continue };
        for part in fold {
            let mut served = Served::default();
            for (sample, is_seen) in &parts[*part] {
                let (kept, of) = sample.served(S::rater(&own));
                add(&mut served.own, [kept, of]);
                if !is_seen {
                    add(&mut served.sums, [kept, sample.served(S::shipped(&shipped)).0, of]);
                }
                served.told.extend(sample.told(S::rater(&own)));
            }
            all.push(served);
        }
    }
    Ok(all)
}
