//! `trajpress cluster`: a run in pieces, for whoever drives many machines. What is right is decided by the files of the run.

mod told;

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde_json::json;

use self::told::{begun, estimated, planned, swept};
use super::run::{self, Given, at_once};
use super::{ExitStatus, Output, print};
use crate::experiment::cell::{Shelf, run_unit};
use crate::experiment::run::{
    Said, Shared, Wanted, affordable, begin, estimate, forecast, gc, serve, status,
};
use crate::experiment::{Options, Plan, sample_of};
use crate::text::escape;

/// Do a run in pieces, on many machines that share a folder
///
/// `plan` says what the run is and cuts it into units, `worker` does the units whose ids it reads, and
/// `merge` checks them and joins the tables: the same bytes as `trajpress run`. Any unit may be done
/// any number of times, anywhere, and be killed at any moment. docs/cluster.md has drivers for Ray
/// and Slurm.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress cluster plan experiment.toml --data data --out runs/big
  trajpress cluster status runs/big --left | trajpress cluster worker experiment.toml --data data --out runs/big
  trajpress cluster merge experiment.toml --data data --out runs/big
  trajpress cluster plan experiment.toml --data data --out runs/some --sample 400
  trajpress cluster estimate runs/big --rates runs/try --workers 64 --price 0.05

Exit codes: 0 done; 1 done, but units failed or are missing; 2 wrong usage or could not run; of the Ray driver also 75: stopped, start it again")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Plan(PlanArgs),
    Worker(WorkerArgs),
    Unit(UnitArgs),
    Status(StatusArgs),
    Merge(MergeArgs),
    Estimate(EstimateArgs),
    Gc(GcArgs),
}

/// Write what a run is and its units; compute nothing
///
/// Cells that an older run in the same folder has are taken over by the workers, where `--replace` or
/// data that have grown make it another run.
#[derive(Debug, clap::Args)]
struct PlanArgs {
    #[command(flatten)]
    given: Given,
    /// Folder of the run, on a file system that all workers share
    #[arg(long, value_name = "RUN")]
    out: PathBuf,
    #[command(flatten)]
    elsewhere: Elsewhere,
    /// Draw N trajectories, from strata of reader, agent, length and outcome; `trajpress report --population corpus` then speaks of all
    #[arg(long, value_name = "N", value_parser = at_least_two, conflicts_with_all = ["limit", "budget_hours"])]
    sample: Option<usize>,
    /// Draw as many as take H hours of all workers together, by the rates of `--rates`
    #[arg(long, value_name = "H", value_parser = number, conflicts_with = "limit", requires = "rates")]
    budget_hours: Option<f64>,
    /// Folder of a run of which the rates are taken, such as one of some sessions
    #[arg(long, value_name = "RUN", requires = "budget_hours")]
    rates: Option<PathBuf>,
    /// Delete the run that RUN holds, whatever it is, and begin anew; other files there stay
    #[arg(long)]
    fresh: bool,
    /// Take the place of the run that RUN holds, whatever it is; the rows that both have are taken over
    #[arg(long, conflicts_with = "fresh")]
    replace: bool,
}

/// Do the units whose ids stand on the lines of standard input
///
/// A line of JSON says that the data are open; then one a unit, with its outcome: done, skipped (it was
/// there), lost_race (another process was sooner), nondeterministic (with other bytes, which stay), or
/// failed with a reason. Data are opened and models loaded once. Ends with its input, and dies with the
/// process that started it.
#[derive(Debug, clap::Args)]
struct WorkerArgs {
    #[command(flatten)]
    of: Of,
    /// Use N threads; where models are asked, each does several units at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
}

/// Do one unit
#[derive(Debug, clap::Args)]
struct UnitArgs {
    #[command(flatten)]
    of: Of,
    /// Id of the unit, as `status --left` prints it
    unit: String,
}

/// Check all units and join them into the final tables, as `trajpress run --finish` does
///
/// Parts that are not what was published are set aside: their units are then missing, and to be done again.
#[derive(Debug, clap::Args)]
struct MergeArgs {
    #[command(flatten)]
    of: Of,
    /// Leave keys, passwords and personal data in the texts of the table `showcase` as they are
    #[arg(long)]
    raw: bool,
}

/// A run that was planned.
#[derive(Debug, clap::Args)]
struct Of {
    #[command(flatten)]
    given: Given,
    /// Folder of the run
    #[arg(long, value_name = "RUN")]
    out: PathBuf,
    #[command(flatten)]
    elsewhere: Elsewhere,
}

/// Where parts are published, if not in the folder of the run.
#[derive(Debug, clap::Args)]
struct Elsewhere {
    /// Publish parts in this place that all machines reach, and keep RUN for this machine alone: another folder, or s3://, gs://, az:// in a
    /// build with the feature `cloud`
    #[arg(long, value_name = "PLACE")]
    store: Option<String>,
}

impl Elsewhere {
    fn open(&self) -> anyhow::Result<Option<Shared>> {
        self.store.as_deref().map(Shared::open).transpose()
    }

    /// Refuses a place that is one of these folders.
    fn check(&self, folders: &[&Path]) -> anyhow::Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        anyhow::ensure!(!store.is_empty(), "`--store` names nothing\nhint: leave it out, or name a folder");
        let place = std::path::absolute(store)?;
        let is_it = |folder: &&&Path| {
            std::path::absolute(folder).is_ok_and(|of| of == place)
                || std::fs::canonicalize(folder)
                    .ok()
                    .zip(std::fs::canonicalize(store).ok())
                    .is_some_and(|(a, b)| a == b)
        };
        match folders.iter().find(is_it) {
            Some(folder) => anyhow::bail!(
                "`--store {}` is the folder of the data, or `--out`: {}\nhint: name a folder of its own",
                escape::short(store),
                folder.display()
            ),
            None => Ok(()),
        }
    }

    /// The place, after RUN has what the run is.
    fn join(&self, out: &Path) -> anyhow::Result<Option<Shared>> {
        let shared = self.open()?;
        if let Some(shared) = &shared {
            shared.join(out)?;
        }
        Ok(shared)
    }
}

/// Say how far a run is, from its folder alone
#[derive(Debug, clap::Args)]
struct StatusArgs {
    /// Folder of the run
    run: PathBuf,
    #[command(flatten)]
    elsewhere: Elsewhere,
    /// Print the ids of units that are left, in the order in which they are best begun, and nothing else
    #[arg(long)]
    left: bool,
}

/// Say what the units that are left take on so many workers, in hours and money
///
/// By the rates of attempts that were noted, of this run or another of the same variants and models.
/// What a worker takes to start is not in it.
#[derive(Debug, clap::Args)]
struct EstimateArgs {
    /// Folder of the run that is planned
    run: PathBuf,
    /// Folder of a run of which the rates are taken [default: RUN]
    #[arg(long, value_name = "RUN")]
    rates: Option<PathBuf>,
    /// What `trajpress run EXPERIMENT --list --limit 20 --json` printed: of variants with models that were not tried, it says what they ask
    #[arg(long, value_name = "FILE")]
    listed: Option<PathBuf>,
    /// What `trajpress models bench --json` printed on a worker of the kind, in place of the speeds in the other file
    #[arg(long, value_name = "FILE", requires = "listed")]
    bench: Option<PathBuf>,
    /// Workers, up to a million; one is a core where no model works
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    workers: u32,
    /// Price of a worker and hour
    #[arg(long, value_name = "P", value_parser = number)]
    price: Option<f64>,
    /// Estimate a corpus of N steps that is like this one, instead of what is left
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
}

/// Take away what nobody needs any more: scratch of the dead, errors that are no longer true
#[derive(Debug, clap::Args)]
struct GcArgs {
    /// Folder of the run
    run: PathBuf,
    #[command(flatten)]
    elsewhere: Elsewhere,
    /// The parts, too, of a run whose tables are there and sound: it can then be read, but no longer grow
    #[arg(long)]
    parts: bool,
}

fn at_least_two(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n >= 2 => Ok(n),
        _ => Err("expected a whole number of at least 2".to_owned()),
    }
}

fn number(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(price) if price >= 0.0 && f64::is_finite(price) => Ok(price),
        _ => Err("expected a number of at least 0".to_owned()),
    }
}

/// Runs the command.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    match &args.what {
        What::Plan(args) => plan(args, output),
        What::Worker(args) => {
            die_with_parent();
            work(&args.of, args.threads, BufReader::new(io::stdin()), output)
        }
        What::Unit(args) => work(&args.of, 1, args.unit.as_bytes(), output),
        What::Merge(args) => {
            if let Some(shared) = args.of.elsewhere.join(&args.of.out)? {
                shared.fetch(&args.of.out)?;
            }
            run::merge(&args.of.given, &args.of.out, args.raw, output)
        }
        What::Status(args) => tell_status(args, output),
        What::Estimate(args) => {
            let wanted = Wanted { workers: args.workers as usize, price: args.price, steps: args.steps };
            let rates = args.rates.as_deref().unwrap_or(&args.run);
            let listed = args.listed.as_deref().map(|listed| forecast(listed, args.bench.as_deref()));
            let told = estimate(&args.run, rates, listed.transpose()?.unwrap_or_default(), wanted)?;
            print(&if output.json { escape::json(&told)? } else { estimated(&told, wanted) })?;
            Ok(ExitStatus::Done)
        }
        What::Gc(args) => {
            let shared = args.elsewhere.join(&args.run)?;
            let told = gc(&args.run, shared.as_ref(), args.parts)?;
            print(&if output.json { escape::json(&told)? } else { swept(&told) })?;
            Ok(ExitStatus::Done)
        }
    }
}

fn plan(args: &PlanArgs, output: Output) -> anyhow::Result<ExitStatus> {
    let mut options = Options {
        limit: args.given.limit,
        sample: args.sample,
        fresh: args.fresh,
        replace: args.replace,
        quiet: output.quiet,
        ..Options::default()
    };
    if options.sample.is_none() && !args.fresh && !args.replace {
        options.sample = sample_of(&args.out)?;
    }
    let (mut plan, data) = args.given.open(Some(&args.out), &options, super::threads(0), output)?;
    args.elsewhere.check(&[args.given.folder(&plan)?, &args.out])?;
    if let Some((hours, rates)) = args.budget_hours.zip(args.rates.as_deref()) {
        options.sample = affordable(&plan, &data, rates, hours)?;
    }
    let opened = args.given.using.open(&plan.variants, &plan.readers, 1)?;
    plan.models = opened.identities();
    let beginning = begin(&plan, &data, &args.out, &options)?;
    let shared = args.elsewhere.open()?;
    if let Some(shared) = &shared {
        shared.begin(&args.out)?;
    }
    let status = status(&args.out, shared.as_ref())?;
    print(&match output.json {
        true => {
            escape::json(&json!({ "at_once": at_once(&plan, 1), "beginning": beginning, "status": status }))?
        }
        false => planned(&status, &args.out) + &begun(&beginning),
    })?;
    Ok(ExitStatus::Done)
}

/// Does units of a run that was planned.
fn work(of: &Of, threads: usize, ids: impl BufRead + Send, output: Output) -> anyhow::Result<ExitStatus> {
    of.elsewhere.join(&of.out)?;
    let (sample, store) = (sample_of(&of.out)?, of.elsewhere.store.clone());
    let mut options =
        Options { limit: of.given.limit, sample, store, joins: true, quiet: true, ..Options::default() };
    let (mut plan, data) = of.given.open(Some(&of.out), &options, threads.max(1), output)?;
    options.threads = Some(at_once(&plan, super::threads(threads)));
    options.computing = Some(super::threads(threads));
    // Models are loaded when they are first asked: a worker may get units of one alone.
    let opened = of.given.using.open(&plan.variants, &plan.readers, super::threads(threads))?;
    plan.models = opened.identities();
    let (models, shelf) = (opened.models(), Shelf::default());
    let unit = |data: &_, unit: &_, plan: &Plan, progress: &(dyn Fn(u64) + Sync)| {
        run_unit(data, unit, plan, &shelf, &models, progress)
    };
    let tell = |said: &Said| print(&(escape::json_line(said)? + "\n"));
    let failed = serve(&plan, &data, &of.out, &options, &unit, ids, &tell)?;
    Ok(if failed == 0 { ExitStatus::Done } else { ExitStatus::Failed })
}

/// The system ends a worker whose driver is gone, so that no orphan goes on: what it has published stays.
fn die_with_parent() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
    {
        tracing::warn!("this worker does not end with whoever started it: {error}");
    }
}

fn tell_status(args: &StatusArgs, output: Output) -> anyhow::Result<ExitStatus> {
    let shared = args.elsewhere.join(&args.run)?;
    let status = status(&args.run, shared.as_ref())?;
    print(&match (output.json, args.left) {
        (true, true) => escape::json(&status.left)?,
        (true, false) => escape::json(&status)?,
        (false, true) => status.left.iter().map(|left| format!("{}\n", left.unit)).collect(),
        (false, false) => planned(&status, &args.run),
    })?;
    Ok(ExitStatus::Done)
}
