//! Drives the units of a run on one machine: resume, threads, shards, failures, progress.
//!
//! What is right is decided by the files alone: a unit is done when its `cells` part is published,
//! and any process may do any unit at any time, be killed, or do it twice. The digests of all parts of a unit are
//! published just before `cells`; where a part is not what they say any more, the unit is set aside and done again.
//!
//! `RUN/_manifest.json` says what the run is and never changes; `RUN/parts/` holds the rows;
//! `RUN/_attempts/` tells who did what when, and is never read for correctness; `RUN/_quarantine/`
//! keeps the last error of a unit whose data cannot be read. Data that is damaged makes rows with the
//! error, so that a run comes to its end; data that changed or went away under the run makes none,
//! since the id of a unit stands for the data that were there at the start.

mod attempts;
mod caught;
mod estimate;
mod forecast;
mod gc;
mod known;
mod parts;
mod progress;
mod runner;
mod sample;
mod serve;
mod share;
mod status;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use super::dataset::Dataset;
use super::options::Options;
use super::plan::Plan;
use super::publish::Scratch;
use super::rows::UnitRows;
use super::units::{self, Unit};
use super::{finish, fresh, manifest, stratified};
use crate::files::lock::Lock;
use crate::files::reach;
use crate::store::SampleRow;
use attempts::known_rate;
pub use estimate::{Estimate, Wanted, affordable, estimate};
pub use forecast::forecast;
pub use gc::{Swept, gc};
use known::Known;
use parts::{prune, set_aside, unpublished, write_units};
use runner::Runner;
pub use sample::{Sample, sample};
pub use serve::{Said, serve};
pub use share::Shared;
pub use status::{Status, status};

/// Computes the rows of a unit; tells the step-variants done since it last told.
pub type UnitFn<'a> =
    dyn Fn(&Dataset, &Unit, &Plan, &(dyn Fn(u64) + Sync)) -> anyhow::Result<UnitRows> + Sync + 'a;

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    pub n_trajectories: usize,
    pub n_variants: usize,
    /// Units of this run (or shard).
    pub n_units: usize,
    /// Of these, computed now.
    pub done: usize,
    /// Of these, done before.
    pub skipped: usize,
    /// Of these, done by another process at the same time.
    pub lost_races: usize,
    /// Parts that another process or an earlier attempt wrote with other bytes.
    pub nondeterministic: usize,
    /// Units left out since their data changed or went away during the run, with the error.
    pub quarantined: Vec<(String, String)>,
    /// Units without parts; their final tables are not written.
    pub missing: Vec<String>,
    /// Cells, once the run is finished; of this process' units otherwise.
    pub cells_ok: u64,
    pub cells_error: u64,
    /// Of a finished run the first error, and the cells that have that one.
    pub first_error: Option<String>,
    pub cells_like_it: u64,
    /// Cells of units done now whose rows were known, from before the data or the plan changed.
    pub cells_known: u64,
    /// Cells that were known and are others now: the log has grown, or its partners, or what is known of its tokens.
    pub cells_again: u64,
    /// Step-variants computed now.
    pub step_variants: u64,
    pub seconds: f64,
    /// Whether the final tables are there.
    pub finished: bool,
}

impl Outcome {
    /// Whether nothing failed and nothing is missing.
    pub fn is_clean(&self) -> bool {
        self.cells_error == 0 && self.quarantined.is_empty() && self.missing.is_empty()
    }
}

/// Runs a plan over the data into the folder `out`, or goes on where an earlier run stopped.
pub fn run_with(
    plan: &Plan,
    data: &Dataset,
    out: &Path,
    options: &Options,
    unit_fn: &UnitFn,
) -> anyhow::Result<Outcome> {
    let start = Instant::now();
    let begun = Begun::open(plan, data, out, options)?;
    let Begun { selection: Selection { trajectories: selection, sample }, units, manifest, scratch, .. } =
        &begun;
    let shard: Vec<&Unit> = shard(units, options.shard);
    let mut outcome = Outcome {
        n_trajectories: selection.len(),
        n_variants: plan.variants.len(),
        n_units: shard.len(),
        ..Outcome::default()
    };
    let complete = options.shard.is_none() && finish::is_complete(out, manifest)?;
    if complete {
        outcome.skipped = shard.len();
    } else if !options.finish {
        begun.runner(unit_fn)?.run(&shard, &mut outcome)?;
    }
    if options.shard.is_none() {
        if !complete {
            let damaged = set_aside(plan, out, units)?;
            if !damaged.is_empty() && !options.finish {
                outcome.skipped = outcome.skipped.saturating_sub(damaged.len());
                begun.runner(unit_fn)?.run(&damaged, &mut outcome)?;
            }
        }
        // The parts of a complete run may have been taken away.
        let missing = if complete { Vec::new() } else { unpublished(out, units)? };
        outcome.missing = missing.into_iter().map(|unit| unit.id.clone()).collect();
        if options.finish {
            outcome.skipped = units.len() - outcome.missing.len();
        }
        if !complete && outcome.missing.is_empty() {
            outcome.nondeterministic +=
                finish::finish((plan, data), (selection, sample), units, out, scratch, manifest)?;
            prune(out, units)?;
        }
        outcome.finished = outcome.missing.is_empty();
        if outcome.finished {
            let cells = finish::count_cells(out)?;
            (outcome.cells_ok, outcome.cells_error) = (cells.ok, cells.error);
            (outcome.first_error, outcome.cells_like_it) = (cells.first_error, cells.like_it);
        }
    }
    outcome.seconds = start.elapsed().as_secs_f64();
    Ok(outcome)
}

/// Writes what a run is and its units, and computes nothing: the folder is then there for workers.
pub fn begin(plan: &Plan, data: &Dataset, out: &Path, options: &Options) -> anyhow::Result<Beginning> {
    let begun = Begun::open(plan, data, out, options)?;
    let known = Known::open(out, &begun.units)?;
    let left = unpublished(out, &begun.units)?;
    let known = left.into_iter().map(|unit| known.step_variants(data, unit)).sum::<anyhow::Result<u64>>()?;
    // A row a session: each stratum once.
    let strata: BTreeMap<u32, (u64, u64)> =
        begun.selection.sample.iter().map(|row| (row.number, (row.drawn, row.of))).collect();
    let drawn = (!strata.is_empty()).then(|| Drawn {
        sessions: strata.values().map(|(drawn, _)| drawn).sum(),
        of: strata.values().map(|(_, of)| of).sum(),
        strata: strata.len() as u64,
        strata_whole: strata.values().filter(|(drawn, of)| drawn == of).count() as u64,
    });
    Ok(Beginning { step_variants_known: known, drawn })
}

/// What a run begins with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beginning {
    /// Of the step-variants that are left, those whose rows an older run has: they are taken over.
    pub step_variants_known: u64,
    /// How the sessions were drawn; none where they are all that there are.
    pub drawn: Option<Drawn>,
}

/// A sample by strata.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drawn {
    pub sessions: u64,
    /// Sessions that they were drawn from.
    pub of: u64,
    pub strata: u64,
    /// Strata of which all sessions were drawn.
    pub strata_whole: u64,
}

/// A run whose folder is open for this process.
struct Begun<'a> {
    plan: &'a Plan,
    data: &'a Dataset,
    out: &'a Path,
    options: &'a Options,
    selection: Selection,
    units: Vec<Unit>,
    /// Digest of the manifest.
    manifest: String,
    scratch: Scratch,
    _lock: Lock,
}

impl<'a> Begun<'a> {
    fn open(plan: &'a Plan, data: &'a Dataset, out: &'a Path, options: &'a Options) -> anyhow::Result<Self> {
        check_out(out, options)?;
        let selection = selection(plan, data, options)?;
        let trajectories = &selection.trajectories;
        let units = units::cut(plan, data, trajectories)?;
        fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
        if options.fresh
            && let Some(told) = fresh::clear(out)?
        {
            tracing::warn!("--fresh: {told}");
        }
        // Any number of processes may work at one run; but nothing else may write there.
        if !options.finish && !options.joins {
            make_room(out, || manifest::is_replaced(plan, data, options, trajectories, out))?;
            try_again(plan, out, &shard(&units, options.shard))?;
        }
        let lock = Lock::together(out, "run")?;
        check_out(out, options)?;
        let scratch = Scratch::open(&out.join("_scratch"))?;
        let manifest = manifest::write(plan, data, options, trajectories, units.len(), out, &scratch)?;
        write_units(data, &units, out, &scratch)?;
        Ok(Begun { plan, data, out, options, selection, units, manifest, scratch, _lock: lock })
    }

    fn runner<'b>(&'b self, unit_fn: &'b UnitFn<'b>) -> anyhow::Result<Runner<'b>> {
        let Begun { plan, data, out, options, scratch, .. } = self;
        let known = Known::open(out, &self.units)?;
        Ok(Runner { plan, data, out, scratch, unit_fn, options, known, damaged: Mutex::default() })
    }
}

/// Reopens the folder where another state of the run stands there. Another process may be doing just that.
fn make_room(out: &Path, is_replaced: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let mut tries = 0..100;
    while is_replaced()? {
        match fresh::reopen(out) {
            Ok(()) => break,
            Err(_) if tries.next().is_some() => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes units of the shard undone whose programs were given up. A run that was complete is so no more.
fn try_again(plan: &Plan, out: &Path, shard: &[&Unit]) -> anyhow::Result<()> {
    let units = parts::to_try_again(out, shard);
    if units.is_empty() {
        return Ok(());
    }
    tracing::warn!("units done again, since a program was given up or had changed: {}", units.len());
    if finish::is_finished(out)? {
        fresh::reopen(out)?;
    }
    units.iter().try_for_each(|unit| parts::remove(plan, out, unit))
}

/// Refuses a folder that a run must not write into, or that there is nothing to finish in. Changes
/// nothing.
pub fn check_out(out: &Path, options: &Options) -> anyhow::Result<()> {
    // The final tables would take the place of the data's: one of them has the same name.
    for file in ["ingest.json", "annotate.json", "steps.parquet"] {
        anyhow::ensure!(
            !reach::is_there(&out.join(file))?,
            "{} holds data ({file}), and a run would overwrite them\nhint: choose another folder for `--out`",
            out.display()
        );
    }
    anyhow::ensure!(
        !options.joins || reach::is_there(&out.join(manifest::FILE))?,
        "{} holds no run to work at\nhint: run `trajpress cluster plan` with the same arguments first",
        out.display()
    );
    anyhow::ensure!(
        !options.finish || reach::is_there(&out.join("parts"))? || finish::is_finished(out)?,
        "{} holds no parts of a run, so there is nothing to finish\nhint: run the same command with `--shard I/N` for all shards first, or without `--finish`",
        out.display()
    );
    Ok(())
}

/// What a run would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overview {
    pub n_trajectories: usize,
    pub n_variants: usize,
    pub n_units: usize,
    pub step_variants: u64,
    /// Of these, still to be computed.
    pub step_variants_left: u64,
    /// Step-variants a second and thread, from earlier attempts in the same folder; null is unknown.
    pub rate: Option<f64>,
    /// Estimate by that rate; null is unknown.
    pub seconds_left: Option<f64>,
    /// Room on the disk that it takes, as far as a sample tells.
    pub bytes_left: Option<u64>,
}

impl Overview {
    /// Takes over what a sample tells. Earlier attempts know the speed better.
    pub fn tried(&mut self, sample: &Sample, threads: usize) {
        self.rate = self.rate.or(sample.rate());
        self.seconds_left = self.rate.map(|rate| self.step_variants_left as f64 / rate / threads as f64);
        self.bytes_left = sample.bytes_of(self.step_variants_left);
    }
}

/// Sizes up a run without running it.
pub fn overview(
    plan: &Plan,
    data: &Dataset,
    out: Option<&Path>,
    options: &Options,
) -> anyhow::Result<Overview> {
    let selection = select(plan, data, options)?;
    let units = units::cut(plan, data, &selection)?;
    let left = match out {
        Some(out) => unpublished(out, &units)?,
        None => units.iter().collect(),
    };
    let step_variants_left = left.iter().map(|unit| unit.step_variants()).sum();
    let rate = out.and_then(known_rate);
    Ok(Overview {
        n_trajectories: selection.len(),
        n_variants: plan.variants.len(),
        n_units: units.len(),
        step_variants: units.iter().map(Unit::step_variants).sum(),
        step_variants_left,
        rate,
        seconds_left: rate.map(|r| step_variants_left as f64 / r / computing(options) as f64),
        bytes_left: None,
    })
}

/// What a run is of.
struct Selection {
    /// In the order of the data.
    trajectories: Vec<usize>,
    /// How they were drawn; empty where they are all that there are. In order of strata.
    sample: Vec<SampleRow>,
}

/// The trajectories of a run, in the order of the data.
///
/// # Errors
/// There are none.
pub fn select(plan: &Plan, data: &Dataset, options: &Options) -> anyhow::Result<Vec<usize>> {
    selection(plan, data, options).map(|selection| selection.trajectories)
}

fn selection(plan: &Plan, data: &Dataset, options: &Options) -> anyhow::Result<Selection> {
    let (trajectories, sample) = match options.sample {
        None => (data.select(&plan.filter, plan.seed, options.limit)?, Vec::new()),
        Some(n) => {
            let sample = stratified::draw(&data.traits(&plan.filter, plan.seed)?, plan.seed, n);
            let mut drawn: Vec<usize> = sample.iter().filter_map(|row| data.find(&row.trajectory)).collect();
            drawn.sort_unstable();
            (drawn, sample)
        }
    };
    anyhow::ensure!(
        !trajectories.is_empty(),
        "no trajectory to replay: the data has {}, and the section `data` of the experiment takes none of them",
        data.entries().len()
    );
    Ok(Selection { trajectories, sample })
}

fn threads(options: &Options) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
    options.threads.unwrap_or_else(cores).max(1)
}

/// Threads that compute at a time.
fn computing(options: &Options) -> usize {
    options.computing.unwrap_or_else(|| threads(options))
}

/// Puts units in the order in which they are done: that of the data, in which partners stand near; but those that cost
/// far more than others (long trajectories) come first, so that nobody is left with one at the end.
fn costly_first<T>(units: &mut [T], cost: impl Fn(&T) -> u64) {
    let total: u64 = units.iter().map(&cost).sum();
    let usual = 2 * total / units.len().max(1) as u64;
    units.sort_by_key(|unit| Reverse(cost(unit).max(usual)));
}

/// Units of this process.
fn shard(units: &[Unit], shard: Option<(usize, usize)>) -> Vec<&Unit> {
    let mut sorted: Vec<&Unit> = units.iter().collect();
    costly_first(&mut sorted, |unit| unit.step_variants());
    match shard {
        // In turn, so that every shard gets its share of the costly ones.
        Some((i, n)) => sorted.into_iter().skip(i).step_by(n).collect(),
        None => sorted,
    }
}
