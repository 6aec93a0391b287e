//! Does the units of a run on many threads; what fails is narrowed to the cells that fail.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use serde_json::json;

use super::super::dataset::Dataset;
use super::super::manifest;
use super::super::options::Options;
use super::super::plan::{Plan, Variant};
use super::super::publish::{self, Scratch};
use super::super::rows::{UnitRows, error_cell};
use super::super::units::Unit;
use super::caught::caught;
use super::known::{Known, Taken};
use super::parts::{self, There, is_published, unpublished};
use super::progress::Counted;
use super::{Outcome, UnitFn, attempts, computing, threads};
use crate::models::Outage;
use crate::progress::{self, Meter};
use crate::text::escape;

/// Does units, each once.
pub(super) struct Runner<'a> {
    pub(super) plan: &'a Plan,
    pub(super) data: &'a Dataset,
    pub(super) out: &'a Path,
    pub(super) scratch: &'a Scratch,
    pub(super) unit_fn: &'a UnitFn<'a>,
    pub(super) options: &'a Options,
    /// What was computed before, in units that are none of this run.
    pub(super) known: Known,
    /// By row group: whether what cannot be read there is damage, and no change during the run.
    pub(super) damaged: Mutex<HashMap<usize, bool>>,
}

/// What became of a unit.
pub(super) enum Done {
    Published {
        there: There,
        cells_error: usize,
        taken: Taken,
    },
    /// Its data changed or went away, or its model answers nothing any more.
    Quarantined {
        error: String,
        is_outage: bool,
    },
}

/// Units in a row whose model was gone, after which the rest is left for another time.
pub(super) const MOST_OUTAGES: usize = 3;

impl<'a> Runner<'a> {
    pub(super) fn run(&self, shard: &[&Unit], outcome: &mut Outcome) -> anyhow::Result<()> {
        let todo = unpublished(self.out, shard.iter().copied())?;
        outcome.skipped += shard.len() - todo.len();
        if todo.is_empty() {
            return Ok(());
        }
        let total = todo.iter().map(|u| u.step_variants()).sum();
        let progress = Meter::new("replay", progress::Unit::StepVariants, total, self.options.quiet);
        let threads = threads(self.options).min(todo.len());
        let pool =
            rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("cannot start threads")?;
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        // With the error that ends the run, and the units in a row whose model was gone.
        let tally = Mutex::new((&mut *outcome, None, 0));
        // A queue instead of a parallel iterator: that one would hand out halves, not neighbours.
        pool.broadcast(|_| {
            while !stop.load(Ordering::Relaxed) {
                let Some(unit) = todo.get(next.fetch_add(1, Ordering::Relaxed)) else {
                    break;
                };
                let result = self.unit(unit, &progress);
                let mut tally = tally.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                let (outcome, fatal, outages) = &mut *tally;
                match result {
                    Ok(None) => outcome.skipped += 1,
                    Ok(Some(Done::Published { there, cells_error, taken })) => {
                        *outages = 0;
                        outcome.done += 1;
                        outcome.lost_races += usize::from(there.races > 0);
                        outcome.nondeterministic += there.differing;
                        outcome.cells_error += cells_error as u64;
                        outcome.cells_ok += (unit.n_cells() - cells_error) as u64;
                        outcome.step_variants += taken.step_variants;
                        outcome.cells_known += taken.known;
                        outcome.cells_again += taken.again;
                    }
                    Ok(Some(Done::Quarantined { error, is_outage })) => {
                        outcome.quarantined.push((unit.id.clone(), error));
                        *outages = if is_outage { *outages + 1 } else { 0 };
                        if *outages == MOST_OUTAGES {
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                    // What cannot be written now can hardly be written later: hours of work
                    // would go nowhere.
                    Err(error) => {
                        stop.store(true, Ordering::Relaxed);
                        fatal.get_or_insert(error);
                    }
                }
            }
        });
        progress.finish();
        let (outcome, fatal, _) = tally.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        outcome.quarantined.sort();
        match fatal {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Does one unit; none when another process has done it meanwhile. An error is one of output.
    pub(super) fn unit(&self, unit: &Unit, progress: &Meter) -> anyhow::Result<Option<Done>> {
        if is_published(self.out, unit)? {
            progress.add(unit.step_variants());
            return Ok(None);
        }
        let begun = SystemTime::now();
        let start = Instant::now();
        let counted = Counted::of(unit, progress);
        let result = self.complete(unit, &counted);
        counted.complete();
        let computed = start.elapsed();
        let quarantine = self.out.join("_quarantine").join(format!("{}.json", unit.id));
        let (done, error) = match result {
            Ok((rows, damage, taken)) => {
                let cells_error = rows.cells.iter().filter(|c| c.status != "ok").count();
                let there = parts::publish(self.plan, self.out, self.scratch, unit, rows)?;
                if damage.is_none() {
                    // An error of an earlier attempt is no longer true.
                    let _ = fs::remove_file(&quarantine);
                }
                (Done::Published { there, cells_error, taken }, damage)
            }
            Err(error) => {
                let is_outage = error.is::<Outage>();
                let error = format!("{error:#}");
                let why = if is_outage { "is left out" } else { "cannot be read and is left out" };
                tracing::warn!("unit {} {why}: {error}", unit.id);
                (Done::Quarantined { error: error.clone(), is_outage }, Some(error))
            }
        };
        let note = json!({
            "unit": unit.id,
            "outcome": match &done {
                Done::Published { there: There { differing: 1.., .. }, .. } => "nondeterministic",
                Done::Published { there: There { is_late: true, .. }, .. } => "lost_race",
                Done::Published { .. } => "published",
                Done::Quarantined { .. } => "quarantined",
            },
            "error": error,
            "step_variants": match &done {
                Done::Published { taken, .. } => taken.step_variants,
                Done::Quarantined { .. } => unit.step_variants(),
            },
            "begun_unix_ms": begun.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64,
            "compute_ms": computed.as_millis() as u64,
            "ms": start.elapsed().as_millis() as u64,
            "threads": computing(self.options),
            "peak_rss_kib": attempts::peak_rss_kib(),
            "host": attempts::host(),
            "pid": std::process::id(),
            "made_by": manifest::made_by(),
        });
        let note = escape::json(&note)?;
        if error.is_some() {
            let from = self.scratch.path("quarantine.json");
            fs::create_dir_all(quarantine.parent().expect("it was joined to a folder"))
                .and_then(|()| fs::write(&from, &note))
                .with_context(|| format!("cannot write {}", quarantine.display()))?;
            publish::replace(&from, &quarantine)?;
        }
        attempts::note(self.out, unit, &note)?;
        Ok(Some(done))
    }

    /// Rows of a unit: those of cells that are known, and of the others what is computed of them.
    fn complete(&self, unit: &Unit, progress: &Counted) -> anyhow::Result<(UnitRows, Option<String>, Taken)> {
        let (mut rows, left, mut taken) = self.known.rows(self.plan, self.data, unit)?;
        let mut damage = None;
        for piece in left {
            let (more, why) = self.compute(&piece, progress)?;
            rows.append(more);
            damage = damage.or(why);
            taken.step_variants += piece.step_variants();
        }
        rows.sort(unit, self.data)?;
        Ok((rows, damage, taken))
    }

    /// Rows of a unit, checked and sorted. A failure is narrowed to the cells that fail, and the
    /// first one of reading the data is told beside; an error is one of data that changed, or of a model that answers
    /// nothing any more.
    fn compute(&self, unit: &Unit, progress: &Counted) -> anyhow::Result<(UnitRows, Option<String>)> {
        let error = match self.attempt(unit, progress) {
            Ok(rows) => return Ok((rows, None)),
            Err(error) if error.is::<Outage>() => return Err(error),
            Err(error) => error,
        };
        progress.reset();
        let cells = unit.n_cells();
        if cells > 1 {
            tracing::warn!("unit {} is tried again in pieces: {error:#}", unit.id);
        }
        let mut rows = UnitRows::default();
        let mut damage = None;
        for &index in &unit.trajectories {
            if let Err(error) = self.readable(unit, index) {
                if !self.is_damage(unit.row_group) {
                    return Err(error);
                }
                // Once more: what could not be read a moment ago may be no damage.
                if let Err(error) = self.readable(unit, index) {
                    let trajectory = &self.data.entries()[index].id;
                    let error = self.data.placeless(&error);
                    tracing::warn!("trajectory {trajectory}: {error}");
                    let cell = |v: &Variant| error_cell(&v.id, trajectory, error.clone());
                    rows.cells.extend(unit.variants.iter().map(cell));
                    damage.get_or_insert(error);
                    continue;
                }
            }
            let one = |variants: Arc<[Variant]>| unit.piece(self.data, vec![index], variants);
            let retry = one(Arc::clone(&unit.variants));
            let mut failed = match cells {
                1 => vec![(unit.variants[0].clone(), self.data.placeless(&error))],
                _ => match self.attempt(&retry, progress) {
                    Ok(more) => {
                        rows.append(more);
                        continue;
                    }
                    Err(error) if unit.variants.len() == 1 => {
                        vec![(unit.variants[0].clone(), self.data.placeless(&error))]
                    }
                    Err(_) => Vec::new(),
                },
            };
            if failed.is_empty() {
                for variant in unit.variants.iter() {
                    match self.attempt(&one(Arc::new([variant.clone()])), progress) {
                        Ok(more) => rows.append(more),
                        Err(error) => failed.push((variant.clone(), self.data.placeless(&error))),
                    }
                }
            }
            for (variant, error) in failed {
                let trajectory = &self.data.entries()[index].id;
                tracing::warn!("trajectory {trajectory} under `{}`: {error}", variant.label);
                rows.cells.push(error_cell(&variant.id, trajectory, error));
            }
        }
        rows.sort(unit, self.data)?;
        Ok((rows, damage))
    }

    /// Tries to read a trajectory of a unit; an error names file and row group.
    fn readable(&self, unit: &Unit, index: usize) -> anyhow::Result<()> {
        caught(|| self.data.read_through(index)).map_err(|error| match format!("{error:#}") {
            text if text.contains("row group") => error,
            text => {
                anyhow::anyhow!("row group {} of steps.parquet and features.parquet: {text}", unit.row_group)
            }
        })
    }

    /// Whether a row group that cannot be read is damaged: the files are what they were at the start.
    fn is_damage(&self, row_group: usize) -> bool {
        // Held while the files are read, which other threads would do as well.
        let mut damaged = self.damaged.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *damaged.entry(row_group).or_insert_with(|| self.data.is_unchanged())
    }

    /// Calls the unit function; a panic is an error like others.
    fn attempt(&self, unit: &Unit, progress: &Counted) -> anyhow::Result<UnitRows> {
        let tell = |n| progress.add(n);
        let mut rows = caught(|| (self.unit_fn)(self.data, unit, self.plan, &tell))?;
        rows.sort(unit, self.data)?;
        Ok(rows)
    }
}
