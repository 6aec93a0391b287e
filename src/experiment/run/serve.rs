//! Does units as they are asked for, by id: what a worker of a cluster is. Whoever asks may be wrong, ask twice, or be gone.

use std::collections::HashMap;
use std::io::BufRead;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use serde::Serialize;

use super::super::dataset::Dataset;
use super::super::options::Options;
use super::super::plan::Plan;
use super::super::units::Unit;
use super::runner::{Done, Runner};
use super::share::{Sent, Shared, Spoilt};
use super::{Begun, UnitFn, threads};
use crate::progress::{self, Meter};

/// What is told to whoever asks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Said {
    /// The data are open: so many units the run has, so many are done side by side.
    Ready {
        units: usize,
        at_once: usize,
    },
    Unit(Answer),
}

/// What became of a unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    pub unit: String,
    /// `done`, `skipped` (it was there), `lost_race` (another process was sooner, with the same bytes),
    /// `nondeterministic` (with other bytes, which stay), or `failed`.
    pub outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Cells whose row is an error.
    pub cells_error: usize,
    /// Computed now.
    pub step_variants: u64,
    pub ms: u64,
}

impl Answer {
    fn failed(unit: &str, reason: String) -> Self {
        let unit = unit.to_owned();
        Answer { unit, outcome: "failed", reason: Some(reason), cells_error: 0, step_variants: 0, ms: 0 }
    }
}

/// Does the units whose ids stand on the lines, until there are no more. Says how many of them failed.
///
/// # Errors
/// What cannot be written, and lines that cannot be read; the unit itself is told before.
pub fn serve(
    plan: &Plan,
    data: &Dataset,
    out: &Path,
    options: &Options,
    unit_fn: &UnitFn,
    ids: impl BufRead + Send,
    tell: &(dyn Fn(&Said) -> anyhow::Result<()> + Sync),
) -> anyhow::Result<u64> {
    let shared = options.store.as_deref().map(Shared::open).transpose()?;
    let begun = Begun::open(plan, data, out, options)?;
    let runner = begun.runner(unit_fn)?;
    let units: HashMap<&str, &Unit> = begun.units.iter().map(|unit| (unit.id.as_str(), unit)).collect();
    let at_once = threads(options);
    tell(&Said::Ready { units: units.len(), at_once })?;
    let lines = Mutex::new(ids.lines());
    let stop = AtomicBool::new(false);
    let meter = Meter::new("replay", progress::Unit::StepVariants, 0, true);
    let work = || -> anyhow::Result<u64> {
        let mut failed = 0;
        while !stop.load(Ordering::Relaxed) {
            let line = lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
            let Some(line) = line.transpose().context("cannot read ids of units")? else { break };
            let id = line.trim();
            if id.is_empty() {
                continue;
            }
            let (answer, fatal) = match units.get(id) {
                Some(unit) => one(&runner, unit, shared.as_ref(), &meter),
                None => (Answer::failed(id, "this run has no such unit".to_owned()), None),
            };
            failed += u64::from(answer.outcome == "failed");
            tell(&Said::Unit(answer))?;
            if let Some(error) = fatal {
                return Err(error);
            }
        }
        Ok(failed)
    };
    let work = |_: rayon::BroadcastContext| work().inspect_err(|_| stop.store(true, Ordering::Relaxed));
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(at_once).build().context("cannot start threads")?;
    pool.broadcast(work).into_iter().sum()
}

/// Does a unit, and sends it to the place that is shared, if there is one; nothing where it stands there.
fn done(
    runner: &Runner,
    unit: &Unit,
    shared: Option<&Shared>,
    meter: &Meter,
) -> anyhow::Result<(Option<Done>, Option<Sent>)> {
    if let Some(shared) = shared
        && shared.has(unit)?
    {
        return Ok((None, None));
    }
    let done = runner.unit(unit, meter)?;
    let is_there = !matches!(done, Some(Done::Quarantined { .. }));
    let sent = shared.filter(|_| is_there).map(|shared| shared.send(runner.plan, runner.out, unit));
    Ok((done, sent.transpose()?))
}

/// Does a unit; beside the answer stands an error after which no other can be done.
fn one(
    runner: &Runner,
    unit: &Unit,
    shared: Option<&Shared>,
    meter: &Meter,
) -> (Answer, Option<anyhow::Error>) {
    let start = Instant::now();
    let done = done(runner, unit, shared, meter);
    let mut answer = Answer::failed(&unit.id, String::new());
    answer.ms = start.elapsed().as_millis() as u64;
    let outcome = |is_late: bool, differing: usize| match (differing, is_late) {
        (0, false) => "done",
        (0, true) => "lost_race",
        _ => "nondeterministic",
    };
    match done {
        Ok((None, None)) => (Answer { outcome: "skipped", reason: None, ..answer }, None),
        // It stood in the folder, from before it could be sent.
        Ok((None, Some(sent))) => {
            let outcome = outcome(sent.is_late, sent.differing);
            (Answer { outcome, reason: None, ..answer }, None)
        }
        Ok((Some(Done::Published { there, cells_error, taken }), sent)) => {
            let sent = sent.unwrap_or_default();
            let outcome = outcome(there.is_late || sent.is_late, there.differing + sent.differing);
            let step_variants = taken.step_variants;
            (Answer { outcome, reason: None, cells_error, step_variants, ..answer }, None)
        }
        Ok((Some(Done::Quarantined { error, .. }), _)) => (Answer { reason: Some(error), ..answer }, None),
        // Others may go on.
        Err(error) if error.is::<Spoilt>() => (Answer { reason: Some(format!("{error:#}")), ..answer }, None),
        Err(error) => (Answer { reason: Some(format!("{error:#}")), ..answer }, Some(error)),
    }
}
