//! `trajpress train`: weights from logs of one's own, and whether they beat those that travel with the program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
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
use crate::learn::{Linear, OfStatements, Weights, labels, needs};
use crate::text::escape;

use super::{ExitStatus, Output, count, print, tell};

/// Train the raters on your own logs: what is needed later, or what matters
///
/// Learns from a folder that `ingest` and `annotate` wrote: which lines agents needed later (for `hindsight`), or, from logs in the annotated form,
/// which statements matter (for `salience` and `protected-core`). It says by cross-validation, with repositories
/// that the weights have not seen, what share of the needs is served at a tenth of the tokens (of the labelled spans, found by 12 items a point) by
/// them and by the weights that travel with the program, and the
/// interval of the difference. The file is then named in an experiment as `weights = "PATH#HASH"`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  trajpress train data --out weights.json
  trajpress train data --out weights.json --exclude-repos test-repos.txt
  trajpress train labelled --target salience --out weights.json")]
pub struct Args {
    /// Folder that `ingest` and `annotate` wrote
    data: PathBuf,
    /// What is learned: needs, or salience from labels
    #[arg(long, value_enum, default_value_t = Target::Needs)]
    target: Target,
    /// Write the weights to FILE
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
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
}

/// Parts that repositories are divided into.
const FOLDS: usize = 5;
/// Share of the tokens at which weights are compared.
const SHARE: f64 = 0.1;
const DRAWS: usize = 1000;
/// Logs between two lines of progress.
const TOLD: usize = 100;

/// What a log teaches of a target.
trait Sample: Send + Sized {
    type Learned;
    type Rater;
    /// What it is called, in what it is measured, and what is wanting where nothing was learned.
    const TOLD: Told;

    fn of(log: &Log) -> Self;
    /// What is rated, and how much of it is looked for.
    fn counts(&self) -> (usize, usize);
    fn learn(samples: &[&Self]) -> Option<Self::Learned>;
    fn rater(learned: &Self::Learned) -> &Self::Rater;
    fn shipped(weights: &Weights) -> &Self::Rater;
    /// What is served, and all.
    fn served(&self, rater: &Self::Rater) -> (f64, f64);
    /// The raters by their names in a file of weights.
    fn named(learned: Self::Learned) -> anyhow::Result<Vec<(&'static str, serde_json::Value)>>;
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

    fn of(log: &Log) -> Self {
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

    fn named(learned: Linear) -> anyhow::Result<Vec<(&'static str, serde_json::Value)>> {
        Ok(vec![("atoms", serde_json::to_value(learned)?)])
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

    fn of(log: &Log) -> Self {
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

    fn named(learned: labels::Learned) -> anyhow::Result<Vec<(&'static str, serde_json::Value)>> {
        let labels::Learned { statements, types, goals } = learned;
        let raters =
            [serde_json::to_value(statements)?, serde_json::to_value(types)?, serde_json::to_value(goals)?];
        Ok(["statements", "types", "goals"].into_iter().zip(raters).collect())
    }
}

/// What the logs of a repository teach.
type Groups<S> = BTreeMap<String, Vec<S>>;

/// Served by the own weights, by the shipped ones, and all.
type Served = [f64; 3];

/// Runs the subcommand; says on stderr how far it is, and what the weights are worth.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(super::threads(args.threads)).build()?;
    pool.install(|| match args.target {
        Target::Needs => train::<needs::Sample>(args, output),
        Target::Salience => train::<labels::Sample>(args, output),
    })
}

fn train<S: Sample + Sync>(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let start = Instant::now();
    let data = Dataset::open(&args.data)?;
    let excluded = args.exclude_repos.as_deref().map(names).transpose()?.unwrap_or_default();
    let (groups, logs) = read::<S>(&data, &excluded, output.quiet)?;
    let samples: Vec<&S> = groups.values().flatten().collect();
    let learned = S::learn(&samples).with_context(|| {
        let (what, hint) = S::TOLD.nothing.split_once('\n').unwrap_or((S::TOLD.nothing, ""));
        format!("{what} in {}\n{hint}", count(logs.len() as u64, "log"))
    })?;
    let served = cross_validated(&groups, args.seed)?;
    let verdict = Verdict::new(&served, args.seed);
    let (rated, found) =
        samples.iter().map(|sample| sample.counts()).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let n_logs = logs.len() as u64;
    let manifest = serde_json::json!({
        "program": env!("CARGO_PKG_VERSION"), "target": S::TOLD.target, "seed": args.seed, "tables": data.inputs()?, "logs": logs,
        "rated": rated, S::TOLD.found: found, "cross_validated": verdict,
    });
    let text = Weights::text_with(S::named(learned)?, manifest)?;
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

fn names(path: &Path) -> anyhow::Result<BTreeSet<String>> {
    let text = reach::text(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// What the logs teach, by repository (of no repository by format), and which they are.
fn read<S: Sample>(
    data: &Dataset,
    excluded: &BTreeSet<String>,
    quiet: bool,
) -> anyhow::Result<(Groups<S>, Vec<serde_json::Value>)> {
    let all: Vec<usize> = (0..data.entries().len()).collect();
    let rows = data.trajectory_rows(&all)?;
    let chosen: Vec<usize> = all
        .into_iter()
        .filter(|&at| !rows[at].repository.as_ref().is_some_and(|repository| excluded.contains(repository)))
        .collect();
    let done = AtomicUsize::new(0);
    let sample = |&at: &usize| {
        let sample = S::of(&data.log(at, false)?);
        let n = done.fetch_add(1, Ordering::Relaxed) + 1;
        if !quiet && n.is_multiple_of(TOLD) {
            tell(&format!("{n} of {} logs read", chosen.len()));
        }
        anyhow::Ok(sample)
    };
    let samples: Vec<S> = chosen.par_iter().map(sample).collect::<anyhow::Result<_>>()?;
    let (mut groups, mut logs) = (Groups::<S>::new(), Vec::new());
    for (at, sample) in chosen.iter().zip(samples).filter(|(_, sample)| sample.counts().0 > 0) {
        let row = &rows[*at];
        let content = serde_json::json!({ "trajectory": row.trajectory, "repository": row.repository, "format": row.format });
        logs.push(content);
        groups.entry(row.repository.clone().unwrap_or_else(|| row.format.clone())).or_default().push(sample);
    }
    Ok((groups, logs))
}

/// Of each repository what is served by weights that were made without it.
fn cross_validated<S: Sample>(groups: &Groups<S>, seed: u64) -> anyhow::Result<Vec<Served>> {
    let mut order: Vec<&String> = groups.keys().collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for at in (1..order.len()).rev() {
        order.swap(at, rng.random_range(0..=at));
    }
    // The largest first, each to the part that holds least.
    let size = |name: &&String| groups[*name].iter().map(|sample| sample.counts().0).sum::<usize>();
    order.sort_by_key(|name| std::cmp::Reverse(size(name)));
    let mut folds: Vec<(usize, Vec<&String>)> = vec![(0, Vec::new()); FOLDS.min(order.len())];
    for name in order {
        let least = folds.iter_mut().min_by_key(|fold| fold.0).context("no repository is left")?;
        least.0 += size(&name);
        least.1.push(name);
    }
    let shipped = Weights::named("")?;
    let mut served = Vec::new();
    for (_, names) in &folds {
        let others: Vec<&S> = groups
            .iter()
            .filter(|(name, _)| !names.contains(name))
            .flat_map(|(_, samples)| samples)
            .collect();
        let own = S::learn(&others);
        for name in names {
            let sum = |rater: &S::Rater| {
                let each = groups[*name].iter().map(|sample| sample.served(rater));
                each.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
            };
            let (theirs, all) = sum(S::shipped(&shipped));
            served.push([own.as_ref().map_or(0.0, |own| sum(S::rater(own)).0), theirs, all]);
        }
    }
    Ok(served)
}

/// How the weights compare on repositories that they have not seen.
#[derive(serde::Serialize)]
struct Verdict {
    repositories: usize,
    own: f64,
    shipped: f64,
    /// 95 % of the difference, repositories drawn with replacement.
    difference: [f64; 2],
}

impl Verdict {
    fn new(served: &[Served], seed: u64) -> Self {
        let pooled = |rows: &mut dyn Iterator<Item = &Served>| {
            let sum = rows.fold([0.0; 3], |sum, row| [sum[0] + row[0], sum[1] + row[1], sum[2] + row[2]]);
            [sum[0], sum[1]].map(|part| if sum[2] > 0.0 { part / sum[2] } else { 0.0 })
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = || {
            let drawn: Vec<&Served> =
                (0..served.len()).map(|_| &served[rng.random_range(0..served.len())]).collect();
            let [own, shipped] = pooled(&mut drawn.into_iter());
            own - shipped
        };
        let mut drawn: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
        drawn.sort_by(f64::total_cmp);
        let [own, shipped] = pooled(&mut served.iter());
        let difference = [drawn[DRAWS / 40], drawn[DRAWS - 1 - DRAWS / 40]];
        Verdict { repositories: served.len(), own, shipped, difference }
    }

    fn told(&self, measure: &str) -> String {
        let [low, high] = self.difference;
        let word = match () {
            () if self.repositories < 2 => "one repository tells nothing of others",
            () if low > 0.0 => "they beat those that travel with the program",
            () if high < 0.0 => "those that travel with the program are better",
            () => "no difference can be told",
        };
        format!(
            "{measure} in repositories not seen: {:.3}, by the shipped weights {:.3} (difference {low:+.3} to {high:+.3}): {word}",
            self.own, self.shipped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_the_interval_on_one_side() {
        let told = |served: &[Served]| Verdict::new(served, 1).told("needs served");
        assert!(
            told(&[[3.0, 1.0, 4.0]; 6])
                .contains("0.750, by the shipped weights 0.250 (difference +0.500 to +0.500): they beat")
        );
        assert!(told(&[[1.0, 2.0, 4.0]; 6]).ends_with("are better"));
        assert!(told(&[[3.0, 1.0, 4.0], [1.0, 3.0, 4.0]]).ends_with("no difference can be told"));
        assert!(told(&[[3.0, 1.0, 4.0]]).ends_with("nothing of others"));
        assert!(told(&[[0.0; 3], [0.0; 3]]).contains("0.000"));
    }
}
