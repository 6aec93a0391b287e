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

use super::options::Options;
use super::units::{CellPart, part};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::{Value, json};

use super::dataset::Dataset;
use super::plan::{Plan, Variant};
use super::publish::{self, Published, Scratch};
use super::units::{self, Unit, UnitRows};
use super::{finish, fresh, manifest};
use crate::files::lock::Lock;
use crate::files::reach;
use crate::models::Outage;
use crate::store::{
    CellRow, ContextRow, EventRow, ItemRow, Row, ScoreRow, TableWriter, TimelineRow, UnitRow,
};

/// Computes the rows of a unit; tells the step-variants done since it last told.
pub type UnitFn<'a> =
    dyn Fn(&Dataset, &Unit, &Plan, &(dyn Fn(u64) + Sync)) -> anyhow::Result<UnitRows> + Sync + 'a;

/// In-memory bytes of a row group of a part: what joining the parts holds of each at a time.
const PART_ROW_GROUP: usize = 8 << 20;
/// Time between two lines of progress where there is no terminal.
const LOG_EVERY: Duration = Duration::from_secs(10);

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
    check_out(out, options)?;
    let selection = select(plan, data, options)?;
    let units = units::cut(plan, data, &selection)?;
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    if options.fresh {
        fresh::clear(out)?;
    }
    // Any number of processes may work at one run; but nothing else may write there.
    let _lock = Lock::together(out, "run")?;
    check_out(out, options)?;
    let scratch = Scratch::open(&out.join("_scratch"))?;
    let manifest = manifest::write(plan, data, options, &selection, units.len(), out, &scratch)?;
    write_units(data, &units, out, &scratch)?;

    let shard: Vec<&Unit> = shard(&units, options.shard);
    let mut outcome = Outcome {
        n_trajectories: selection.len(),
        n_variants: plan.variants.len(),
        n_units: shard.len(),
        ..Outcome::default()
    };
    let complete = options.shard.is_none() && finish::is_complete(out, &manifest)?;
    if complete {
        outcome.skipped = shard.len();
    } else if !options.finish {
        let runner = Runner::new(plan, data, out, &scratch, unit_fn, options);
        runner.run(&shard, &mut outcome)?;
    }
    if options.shard.is_none() {
        if !complete {
            let damaged = set_aside(plan, out, &units)?;
            if !damaged.is_empty() && !options.finish {
                outcome.skipped = outcome.skipped.saturating_sub(damaged.len());
                Runner::new(plan, data, out, &scratch, unit_fn, options).run(&damaged, &mut outcome)?;
            }
        }
        outcome.missing = unpublished(out, &units)?.into_iter().map(|u| u.id.clone()).collect();
        if options.finish {
            outcome.skipped = units.len() - outcome.missing.len();
        }
        if !complete && outcome.missing.is_empty() {
            outcome.nondeterministic +=
                finish::finish(plan, data, &selection, &units, out, &scratch, &manifest)?;
        }
        outcome.finished = outcome.missing.is_empty();
        if outcome.finished {
            (outcome.cells_ok, outcome.cells_error) = finish::count_cells(out)?;
        }
    }
    outcome.seconds = start.elapsed().as_secs_f64();
    Ok(outcome)
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
        !options.finish || reach::is_there(&out.join("parts"))?,
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
        seconds_left: rate.map(|r| step_variants_left as f64 / r / threads(options) as f64),
    })
}

/// The trajectories of a run, in the order of the data.
///
/// # Errors
/// There are none.
pub fn select(plan: &Plan, data: &Dataset, options: &Options) -> anyhow::Result<Vec<usize>> {
    let selection = data.select(&plan.filter, plan.seed, options.limit)?;
    anyhow::ensure!(
        !selection.is_empty(),
        "no trajectory to replay: the data has {}, and the section `data` of the experiment takes none of them",
        data.entries().len()
    );
    Ok(selection)
}

fn threads(options: &Options) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
    options.threads.unwrap_or_else(cores).max(1)
}

/// Units of this process in the order of the data, in which partners stand near; but those that cost
/// far more than others (long trajectories) come first, so that no thread is left with one at the end.
fn shard(units: &[Unit], shard: Option<(usize, usize)>) -> Vec<&Unit> {
    let total: u64 = units.iter().map(Unit::step_variants).sum();
    let usual = 2 * total / units.len().max(1) as u64;
    let mut sorted: Vec<&Unit> = units.iter().collect();
    sorted.sort_by_key(|u| Reverse(u.step_variants().max(usual)));
    match shard {
        // In turn, so that every shard gets its share of the costly ones.
        Some((i, n)) => sorted.into_iter().skip(i).step_by(n).collect(),
        None => sorted,
    }
}

/// Where the digests of a unit's parts are published: JSON, by table.
fn digests(out: &Path, unit: &Unit) -> PathBuf {
    part(out, "digests", unit).with_extension("json")
}

/// The tables of a unit; the last one publishes it.
fn tables(plan: &Plan) -> impl DoubleEndedIterator<Item = &'static str> + use<> {
    let all = [
        EventRow::TABLE,
        ItemRow::TABLE,
        ContextRow::TABLE,
        TimelineRow::TABLE,
        ScoreRow::TABLE,
        CellRow::TABLE,
    ];
    let contexts = plan.contexts;
    all.into_iter().filter(move |table| contexts || *table != ContextRow::TABLE)
}

/// A unit is published when its last table is.
fn is_published(out: &Path, unit: &Unit) -> anyhow::Result<bool> {
    reach::is_there(&part(out, CellRow::TABLE, unit))
}

/// Those that are not published.
fn unpublished<'u>(out: &Path, units: impl IntoIterator<Item = &'u Unit>) -> anyhow::Result<Vec<&'u Unit>> {
    let mut left = Vec::new();
    for unit in units {
        if !is_published(out, unit)? {
            left.push(unit);
        }
    }
    Ok(left)
}

/// Whether the parts of a published unit are what was published.
fn is_sound(plan: &Plan, out: &Path, unit: &Unit) -> anyhow::Result<bool> {
    let known = reach::read(&digests(out, unit))?;
    let known: BTreeMap<String, String> =
        known.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    for table in tables(plan) {
        let path = part(out, table, unit);
        if !reach::is_there(&path)? || known.get(table) != Some(&publish::sha256(&path)?.0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Moves published units that are not sound out of the way, so that they are done again.
fn set_aside<'u>(plan: &Plan, out: &Path, units: &'u [Unit]) -> anyhow::Result<Vec<&'u Unit>> {
    let mut damaged = Vec::new();
    for unit in units {
        if !is_published(out, unit)? || is_sound(plan, out, unit)? {
            continue;
        }
        tracing::warn!(
            "DAMAGED: parts of unit {} are not what was published; they are in _quarantine now, and the unit is done again",
            unit.id
        );
        let aside = out.join("_quarantine").join(format!("{}.damaged", unit.id));
        fs::create_dir_all(&aside).with_context(|| format!("cannot make {}", aside.display()))?;
        // `cells` first: without it the unit is not published, whatever happens now.
        let parts = tables(plan).rev().map(|table| (table, part(out, table, unit)));
        for (table, from) in parts.chain([("digests", digests(out, unit))]) {
            match fs::rename(&from, aside.join(table)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot move {}", from.display()));
                }
                _ => {}
            }
        }
        damaged.push(unit);
    }
    Ok(damaged)
}

fn write_units(data: &Dataset, units: &[Unit], out: &Path, scratch: &Scratch) -> anyhow::Result<()> {
    let to = out.join(format!("{}.parquet", UnitRow::TABLE));
    if reach::is_there(&to)? {
        return Ok(());
    }
    let from = scratch.path("units.parquet");
    let mut writer = TableWriter::<UnitRow>::create(&from, PART_ROW_GROUP)?;
    for unit in units {
        writer.push([unit.row(data)])?;
    }
    writer.finish()?;
    publish::publish(&from, &to)?;
    Ok(())
}

struct Runner<'a> {
    plan: &'a Plan,
    data: &'a Dataset,
    out: &'a Path,
    scratch: &'a Scratch,
    unit_fn: &'a UnitFn<'a>,
    options: &'a Options,
    /// By row group: whether what cannot be read there is damage, and no change during the run.
    damaged: Mutex<HashMap<usize, bool>>,
}

/// What became of a unit.
enum Done {
    Published {
        races: usize,
        differing: usize,
        cells_error: usize,
    },
    /// Its data changed or went away, or its model answers nothing any more.
    Quarantined {
        error: String,
        is_outage: bool,
    },
}

/// Units in a row whose model was gone, after which the rest is left for another time.
const MOST_OUTAGES: usize = 3;

impl<'a> Runner<'a> {
    fn new(
        plan: &'a Plan,
        data: &'a Dataset,
        out: &'a Path,
        scratch: &'a Scratch,
        unit_fn: &'a UnitFn<'a>,
        options: &'a Options,
    ) -> Self {
        Runner { plan, data, out, scratch, unit_fn, options, damaged: Mutex::default() }
    }

    fn run(&self, shard: &[&Unit], outcome: &mut Outcome) -> anyhow::Result<()> {
        let todo = unpublished(self.out, shard.iter().copied())?;
        outcome.skipped += shard.len() - todo.len();
        if todo.is_empty() {
            return Ok(());
        }
        let total = todo.iter().map(|u| u.step_variants()).sum();
        let progress = Progress::new(total, self.options.quiet);
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
                    Ok(Some(Done::Published { races, differing, cells_error })) => {
                        *outages = 0;
                        outcome.done += 1;
                        outcome.lost_races += usize::from(races > 0);
                        outcome.nondeterministic += differing;
                        outcome.cells_error += cells_error as u64;
                        outcome.cells_ok += (unit.n_cells() - cells_error) as u64;
                        outcome.step_variants += unit.step_variants();
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
    fn unit(&self, unit: &Unit, progress: &Progress) -> anyhow::Result<Option<Done>> {
        if is_published(self.out, unit)? {
            progress.add(unit.step_variants());
            return Ok(None);
        }
        let begun = SystemTime::now();
        let start = Instant::now();
        let counted = progress.unit(unit);
        let result = self.compute(unit, &counted);
        counted.complete();
        let computed = start.elapsed();
        let quarantine = self.out.join("_quarantine").join(format!("{}.json", unit.id));
        let (done, error) = match result {
            Ok((rows, damage)) => {
                let cells_error = rows.cells.iter().filter(|c| c.status != "ok").count();
                let (races, differing) = self.publish(unit, rows)?;
                if damage.is_none() {
                    // An error of an earlier attempt is no longer true.
                    let _ = fs::remove_file(&quarantine);
                }
                (Done::Published { races, differing, cells_error }, damage)
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
                Done::Published { races: 0, .. } => "published",
                Done::Published { differing: 0, .. } => "lost_race",
                Done::Published { .. } => "nondeterministic",
                Done::Quarantined { .. } => "quarantined",
            },
            "error": error,
            "step_variants": unit.step_variants(),
            "begun_unix_ms": begun.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64,
            "compute_ms": computed.as_millis() as u64,
            "ms": start.elapsed().as_millis() as u64,
            "peak_rss_kib": peak_rss_kib(),
            "host": host(),
            "pid": std::process::id(),
            "made_by": manifest::made_by(),
        });
        let note = format!("{note:#}\n");
        if error.is_some() {
            let from = self.scratch.path("quarantine.json");
            fs::create_dir_all(quarantine.parent().expect("it was joined to a folder"))
                .and_then(|()| fs::write(&from, &note))
                .with_context(|| format!("cannot write {}", quarantine.display()))?;
            publish::replace(&from, &quarantine)?;
        }
        self.note_attempt(unit, &note)?;
        Ok(Some(done))
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
            let one = |variants: Arc<[Variant]>| Unit {
                trajectories: vec![index],
                n_steps: u64::from(self.data.entries()[index].n_steps),
                variants,
                ..unit.clone()
            };
            let retry = one(Arc::clone(&unit.variants));
            let mut failed = match cells {
                1 => vec![(unit.variants[0].clone(), self.data.placeless(&error))],
                _ => match self.attempt(&retry, progress) {
                    Ok(more) => {
                        append(&mut rows, more);
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
                        Ok(more) => append(&mut rows, more),
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
        sort(unit, self.data, &mut rows)?;
        Ok((rows, damage))
    }

    /// Tries to read a trajectory of a unit; an error names file and row group.
    fn readable(&self, unit: &Unit, index: usize) -> anyhow::Result<()> {
        caught(|| self.data.load(&[index]).map(drop)).map_err(|error| match format!("{error:#}") {
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
        sort(unit, self.data, &mut rows)?;
        Ok(rows)
    }

    /// Publishes the tables, `cells` last and the digests of all before it. Says how many were there already, and
    /// how many of these differ.
    fn publish(&self, unit: &Unit, rows: UnitRows) -> anyhow::Result<(usize, usize)> {
        let mut written = vec![self.write_table(rows.events)?, self.write_table(rows.items)?];
        if self.plan.contexts {
            written.push(self.write_table(rows.contexts)?);
        }
        written.extend([
            self.write_table(rows.timeline)?,
            self.write_table(rows.scores)?,
            self.write_table(rows.cells)?,
        ]);
        let mut known: BTreeMap<&str, String> = BTreeMap::new();
        let mut outcomes = Vec::with_capacity(written.len());
        for (table, from) in tables(self.plan).zip(&written) {
            let to = part(self.out, table, unit);
            known.insert(table, publish::sha256(from)?.0);
            if table == CellRow::TABLE {
                let text = serde_json::to_string_pretty(&known)? + "\n";
                self.scratch.create(&digests(self.out, unit), text.as_bytes())?;
            }
            let published = publish::publish(from, &to)?;
            if published == Published::Differs {
                tracing::warn!(
                    "NONDETERMINISTIC: {} was written before with other bytes, which stay",
                    to.display()
                );
                known.insert(table, publish::sha256(&to)?.0);
            }
            outcomes.push(published);
        }
        let differing = outcomes.iter().filter(|&&o| o == Published::Differs).count();
        Ok((outcomes.iter().filter(|&&o| o != Published::New).count(), differing))
    }

    fn write_table<R: CellPart>(&self, rows: Vec<R>) -> anyhow::Result<PathBuf> {
        let from = self.scratch.path(&format!("{}.parquet", R::TABLE));
        let expected = rows.len() as u64;
        let mut writer = TableWriter::create(&from, PART_ROW_GROUP)?;
        let mut rows = rows.into_iter().peekable();
        while let Some(first) = rows.next() {
            let mut trajectory = vec![first];
            while let Some(row) = rows.next_if(|r| r.trajectory() == trajectory[0].trajectory()) {
                trajectory.push(row);
            }
            writer.push(trajectory)?;
        }
        let written = writer.finish()?;
        anyhow::ensure!(written == expected, "wrote {written} of {expected} rows of {}", from.display());
        Ok(from)
    }

    fn note_attempt(&self, unit: &Unit, note: &str) -> anyhow::Result<()> {
        let folder = self.out.join("_attempts");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for attempt in 0.. {
            let to = folder.join(format!("{}.{attempt}.json", unit.id));
            // Not synced: nothing depends on it.
            match File::create_new(&to).and_then(|mut file| file.write_all(note.as_bytes())) {
                Ok(()) => break,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e).with_context(|| format!("cannot write {}", to.display())),
            }
        }
        Ok(())
    }
}

thread_local! {
    /// Where the panic was that is about to be caught on this thread; none when none would be.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Calls, and makes a panic an error that says where it was. Prints no backtrace: a night's run may
/// have thousands of bad cells, and each has a row with its error.
fn caught<T>(call: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // Paths of dependencies name the machine that built them, and rows must not.
            let place = info.location().filter(|l| Path::new(l.file()).is_relative());
            let place = place.map_or_else(String::new, |l| format!(" at {}:{}", l.file(), l.line()));
            let here = CAUGHT.with_borrow_mut(|caught| caught.as_mut().map(|c| *c = place).is_some());
            if !here {
                before(info);
            }
        }));
    });
    CAUGHT.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(call));
    let place = CAUGHT.take().unwrap_or_default();
    result.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(anyhow::anyhow!("panic{place}: {text}"))
    })
}

fn append(rows: &mut UnitRows, more: UnitRows) {
    rows.cells.extend(more.cells);
    rows.events.extend(more.events);
    rows.items.extend(more.items);
    rows.contexts.extend(more.contexts);
    rows.timeline.extend(more.timeline);
    rows.scores.extend(more.scores);
}

fn error_cell(variant: &str, trajectory: &str, error: String) -> CellRow {
    CellRow {
        variant: variant.into(),
        trajectory: trajectory.into(),
        status: "error".to_owned(),
        error: Some(error),
        n_decisions: 0,
        n_events: 0,
        n_violations: 0,
        tokens_full: 0,
        tokens_sent: 0,
        trigger_calls: 0,
        trigger_tokens_in: 0,
        trigger_tokens_out: 0,
    }
}

/// Sorts the rows by trajectory, then variant, and checks that every cell is there once.
fn sort(unit: &Unit, data: &Dataset, rows: &mut UnitRows) -> anyhow::Result<()> {
    let trajectories: HashMap<&str, usize> =
        unit.trajectories.iter().enumerate().map(|(at, &i)| (data.entries()[i].id.as_str(), at)).collect();
    let variants: HashMap<&str, usize> =
        unit.variants.iter().enumerate().map(|(at, v)| (v.id.as_str(), at)).collect();
    let place =
        |trajectory: &str, variant: &str| Some((*trajectories.get(trajectory)?, *variants.get(variant)?));
    sort_table(&mut rows.cells, &place)?;
    sort_table(&mut rows.events, &place)?;
    sort_table(&mut rows.items, &place)?;
    sort_table(&mut rows.contexts, &place)?;
    sort_table(&mut rows.timeline, &place)?;
    sort_table(&mut rows.scores, &place)?;
    let once = rows
        .cells
        .windows(2)
        .all(|w| place(&w[0].trajectory, &w[0].variant) < place(&w[1].trajectory, &w[1].variant));
    anyhow::ensure!(
        once && rows.cells.len() == unit.n_cells(),
        "{} rows for {} cells",
        rows.cells.len(),
        unit.n_cells()
    );
    Ok(())
}

/// Where a cell stands in the order of the data: trajectory id and variant id to their places.
type Place<'a> = dyn Fn(&str, &str) -> Option<(usize, usize)> + 'a;

fn sort_table<R: CellPart>(rows: &mut [R], place: &Place<'_>) -> anyhow::Result<()> {
    let is_one_cell = |a: &R, b: &R| (a.trajectory(), a.variant()) == (b.trajectory(), b.variant());
    let mut places = Vec::new();
    for cell in rows.chunk_by(is_one_cell) {
        let (trajectory, variant) = (cell[0].trajectory(), cell[0].variant());
        places.push(place(trajectory, variant).with_context(|| {
            let table = R::TABLE;
            format!(
                "a row of `{table}` for variant {variant} of trajectory {trajectory}, which was not asked for"
            )
        })?);
    }
    // As a rule the cells come in order.
    if !places.is_sorted() {
        rows.sort_by_cached_key(|r| place(r.trajectory(), r.variant()));
    }
    Ok(())
}

/// Step-variants a second of one thread over all attempts noted in a run's folder.
fn known_rate(out: &Path) -> Option<f64> {
    let (mut step_variants, mut ms) = (0, 0);
    for entry in fs::read_dir(out.join("_attempts")).ok()?.flatten() {
        let note = fs::read(entry.path()).ok();
        let Some(note) = note.and_then(|n| serde_json::from_slice::<Value>(&n).ok()) else {
            continue;
        };
        if let (Some(n), Some(t)) = (note["step_variants"].as_u64(), note["ms"].as_u64()) {
            step_variants += n;
            ms += t;
        }
    }
    (ms > 0).then(|| step_variants as f64 * 1000.0 / ms as f64)
}

/// Largest resident set of this process so far, where the system tells.
fn peak_rss_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn host() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    name.map(|n| n.trim().to_owned()).or_else(|| std::env::var("HOSTNAME").ok())
}

/// Tells how far the run is: a bar on a terminal, lines of log elsewhere.
struct Progress {
    total: u64,
    done: AtomicU64,
    start: Instant,
    /// Milliseconds after the start of the last line.
    logged: AtomicU64,
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl Progress {
    fn new(total: u64, quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let style = "{bar:30} {human_pos}/{human_len} step-variants, {per_sec}, {eta} left";
            let style = ProgressStyle::with_template(style).expect("the template holds known keys only");
            let bar = ProgressBar::new(total).with_style(style);
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Progress {
            total,
            done: AtomicU64::new(0),
            start: Instant::now(),
            logged: AtomicU64::new(0),
            bar,
            quiet,
        }
    }

    fn unit(&self, unit: &Unit) -> Counted<'_> {
        Counted { progress: self, cost: unit.step_variants(), done: AtomicU64::new(0) }
    }

    fn add(&self, n: u64) {
        let done = self.done.fetch_add(n, Ordering::Relaxed) + n;
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        } else if !self.quiet {
            self.log(done);
        }
    }

    fn log(&self, done: u64) {
        let now = self.start.elapsed();
        let last = self.logged.load(Ordering::Relaxed);
        let now_ms = now.as_millis() as u64;
        if now_ms < last + LOG_EVERY.as_millis() as u64 {
            return;
        }
        // One thread logs, the others go on.
        if self.logged.compare_exchange(last, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let rate = done as f64 / now.as_secs_f64();
        let left = self.total.saturating_sub(done) as f64 / rate.max(1.0);
        tracing::info!(
            "{} of {} step-variants, {}/s, {} left",
            HumanCount(done),
            HumanCount(self.total),
            HumanCount(rate as u64),
            HumanDuration(Duration::from_secs_f64(left))
        );
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Progress of one unit: never counts more than its cost, whatever is tried again.
struct Counted<'a> {
    progress: &'a Progress,
    cost: u64,
    done: AtomicU64,
}

impl Counted<'_> {
    fn add(&self, n: u64) {
        let before = self.done.fetch_add(n, Ordering::Relaxed);
        let counts = n.min(self.cost.saturating_sub(before));
        if counts > 0 {
            self.progress.add(counts);
        }
    }

    /// What was counted is done again.
    fn reset(&self) {
        let done = self.done.swap(0, Ordering::Relaxed).min(self.cost);
        self.progress.done.fetch_sub(done, Ordering::Relaxed);
    }

    fn complete(&self) {
        self.add(self.cost.saturating_sub(self.done.load(Ordering::Relaxed)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::dataset::tests::{vouch_for, write as write_data};
    use super::super::plan::{Catalogue, Known};
    use super::*;
    use crate::params::Param;
    use crate::store;

    fn plan(change: &str) -> Plan {
        let known = |name, params| {
            let takes_model = name == "mask";
            Known { name, params, takes_model, check: Box::new(|_| Ok(false)) }
        };
        let catalogue = Catalogue {
            strategies: vec![known("full", &[]), known("mask", const { &[Param::any("keep_last", "1")] })],
            triggers: vec![known("turns", const { &[Param::any("n", "1")] })],
            formats: Vec::new(),
        };
        let text = format!(
            r#"
            name = "test"
            {change}
            strategies = [{{ name = "full" }}, {{ name = "mask", keep_last = [1, 2] }}, {{ name = "mask", model = "m" }}]
            triggers = [{{ name = "turns", n = [1, 2] }}]
            "#
        );
        Plan::parse("x.toml", &text, &catalogue).unwrap()
    }

    /// Rows that depend on trajectory and variant alone, in an order that depends on neither.
    fn rows(
        data: &Dataset,
        unit: &Unit,
        plan: &Plan,
        progress: &(dyn Fn(u64) + Sync),
    ) -> anyhow::Result<UnitRows> {
        let mut rows = UnitRows::default();
        for variant in unit.variants.iter().rev() {
            for loaded in data.load(&unit.trajectories)? {
                let t = &loaded.trajectory;
                for step in 0..t.steps.len() as u32 {
                    rows.timeline.push(TimelineRow {
                        variant: variant.id.as_str().into(),
                        trajectory: t.id.as_str().into(),
                        decision: step,
                        turn: step,
                        tokens_full: 1,
                        tokens_sent: 1,
                        ..TimelineRow::default()
                    });
                }
                rows.contexts.extend(plan.contexts.then(|| ContextRow {
                    variant: variant.id.as_str().into(),
                    trajectory: t.id.as_str().into(),
                    place: "left".into(),
                    ..ContextRow::default()
                }));
                let mut cell = error_cell(&variant.id, &t.id, String::new());
                cell.status = "ok".to_owned();
                cell.error = None;
                cell.tokens_full = t.steps.iter().map(|s| s.text.len() as u64).sum();
                rows.cells.push(cell);
                progress(t.steps.len() as u64);
            }
        }
        Ok(rows)
    }

    fn tables(out: &Path) -> BTreeMap<String, Vec<u8>> {
        fs::read_dir(out)
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.is_file())
            .map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&p).unwrap()))
            .collect()
    }

    struct Place {
        dir: tempfile::TempDir,
        data: Dataset,
        plan: Plan,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join("data")).unwrap();
            write_data(&dir.path().join("data"), 17);
            let data = Dataset::open(&dir.path().join("data")).unwrap();
            Place { dir, data, plan: plan("") }
        }
        fn out(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }
        fn run(&self, name: &str, options: &Options, f: &UnitFn) -> anyhow::Result<Outcome> {
            let options = Options { quiet: true, ..options.clone() };
            run_with(&self.plan, &self.data, &self.out(name), &options, f)
        }
    }

    #[test]
    fn tables_are_complete_and_sorted() {
        let place = Place::new();
        let outcome = place.run("r", &Options::default(), &rows).unwrap();
        // 5 variants without a model over six row groups, 2 under `m` over 17 trajectories.
        assert_eq!((outcome.n_units, outcome.done, outcome.skipped), (23, 23, 0));
        assert_eq!((outcome.cells_ok, outcome.cells_error), (17 * 7, 0));
        assert!(outcome.finished && outcome.is_clean());
        let cells: Vec<CellRow> = store::read(&place.out("r").join("cells.parquet")).unwrap();
        let free: Vec<&Variant> = place.plan.groups().into_iter().flat_map(|g| g.1).collect();
        let expected: Vec<(String, String)> =
            (0..17).flat_map(|t| free.iter().map(move |v| (format!("t{t:02}"), v.id.clone()))).collect();
        let found: Vec<(String, String)> =
            cells.iter().map(|c| (c.trajectory.to_string(), c.variant.to_string())).collect();
        assert_eq!(found, expected);
        let success: finish::Success =
            serde_json::from_slice(&fs::read(place.out("r").join("_SUCCESS")).unwrap()).unwrap();
        let sizes: Vec<(&str, u64)> = success.tables.iter().map(|t| (t.path.as_str(), t.rows)).collect();
        assert_eq!(sizes[0], ("cells.parquet", 17 * 7));
        assert_eq!(sizes[6], ("trajectories.parquet", 17));
        let variants: Vec<store::VariantRow> = store::read(&place.out("r").join("variants.parquet")).unwrap();
        assert!(
            variants.iter().all(|v| v.control == (v.strategy == "full")),
            "`full` is a control, `mask` is none"
        );
        for table in &success.tables {
            let (sha256, bytes) = publish::sha256(&place.out("r").join(&table.path)).unwrap();
            assert_eq!((sha256, bytes), (table.sha256.clone(), table.bytes));
        }
        assert!(!place.out("r").join("_scratch").read_dir().unwrap().any(|_| true));
    }

    #[test]
    fn threads_shards_and_kills_change_no_byte() {
        let place = Place::new();
        place.run("whole", &Options::default(), &rows).unwrap();
        let whole = tables(&place.out("whole"));

        place.run("one", &Options { threads: Some(1), ..Options::default() }, &rows).unwrap();
        assert!(tables(&place.out("one")) == whole);

        for i in [2, 0, 1] {
            let shard = Options { shard: Some((i, 3)), ..Options::default() };
            let outcome = place.run("shards", &shard, &rows).unwrap();
            assert_eq!((outcome.n_units, outcome.finished), ([8, 8, 7][i], false));
            let early = Options { finish: true, ..Options::default() };
            let early = place.run("shards", &early, &rows).unwrap();
            assert_eq!(early.finished, i == 1, "{early:?}");
            assert_eq!(early.done, 0);
        }
        assert!(tables(&place.out("shards")) == whole);

        // A process that dies in the middle of a unit leaves what it has published so far.
        let left = Mutex::new(3);
        let dying = |d: &Dataset, u: &Unit, p: &Plan, f: &(dyn Fn(u64) + Sync)| {
            let mut left = left.lock().unwrap();
            *left -= 1;
            if *left < 0 {
                // An output error stops the run; a folder in the way of a part is one.
                fs::create_dir_all(place.out("killed/parts/scores")).unwrap();
                let way = place.out("killed/parts/scores/variant_group=model-free");
                if !way.is_file() {
                    let _ = fs::rename(&way, place.out("aside"));
                    fs::write(&way, "in the way").unwrap();
                }
            }
            rows(d, u, p, f)
        };
        let options = Options { threads: Some(1), ..Options::default() };
        place.run("killed", &options, &dying).unwrap_err();
        let way = place.out("killed/parts/scores/variant_group=model-free");
        fs::remove_file(&way).unwrap();
        fs::rename(place.out("aside"), &way).unwrap();
        let again = place.run("killed", &options, &rows).unwrap();
        assert!(again.skipped >= 3 && again.done > 0, "{again:?}");
        assert!(tables(&place.out("killed")) == whole);

        let nothing = place.run("killed", &options, &|_, _, _, _| panic!("nothing to do")).unwrap();
        assert_eq!((nothing.done, nothing.skipped, nothing.cells_ok), (0, 23, 17 * 7));
    }

    #[test]
    fn a_folder_of_data_is_no_folder_for_a_run() {
        let place = Place::new();
        let before = tables(&place.out("data"));
        for shard in [None, Some((0, 2))] {
            let options = Options { shard, ..Options::default() };
            let error = place.run("data", &options, &rows).unwrap_err().to_string();
            assert!(error.contains("holds data (ingest.json)") && error.contains("hint: "), "{error}");
        }
        for note in ["ingest.json", "annotate.json"] {
            fs::create_dir(place.out(note)).unwrap();
            fs::write(place.out(note).join(note), "{}").unwrap();
            place.run(note, &Options::default(), &rows).unwrap_err();
            assert_eq!(fs::read_dir(place.out(note)).unwrap().count(), 1);
        }
        assert!(tables(&place.out("data")) == before);
        assert!(!place.out("data/parts").exists());
    }

    #[test]
    fn nothing_is_finished_where_nothing_was_begun() {
        let place = Place::new();
        let options = Options { finish: true, ..Options::default() };
        let error = place.run("r", &options, &rows).unwrap_err().to_string();
        assert!(error.contains("holds no parts of a run"), "{error}");
        assert!(!place.out("r").exists());
    }

    #[test]
    fn two_processes_on_one_folder_agree() {
        let place = Place::new();
        place.run("whole", &Options::default(), &rows).unwrap();
        let options = Options { threads: Some(2), ..Options::default() };
        let outcomes = std::thread::scope(|s| {
            let one = || place.run("both", &options, &rows).unwrap();
            [s.spawn(one), s.spawn(one)].map(|t| t.join().unwrap())
        });
        assert!(outcomes.iter().all(|o| o.finished && o.nondeterministic == 0));
        assert!(tables(&place.out("both")) == tables(&place.out("whole")));
    }

    #[test]
    fn a_bad_cell_is_a_row_and_the_rest_is_kept() {
        let place = Place::new();
        let bad = place.plan.variants[1].id.clone();
        let failing = |d: &Dataset, u: &Unit, p: &Plan, f: &(dyn Fn(u64) + Sync)| {
            for &i in &u.trajectories {
                let id = &d.entries()[i].id;
                anyhow::ensure!(id != "t04", "no good");
                assert!(id != "t11" || u.variants.iter().all(|v| v.id != bad), "bug");
            }
            rows(d, u, p, f)
        };
        let outcome = place.run("r", &Options::default(), &failing).unwrap();
        assert_eq!((outcome.cells_ok, outcome.cells_error), (17 * 7 - 8, 8));
        assert!(outcome.finished && !outcome.is_clean());
        let cells: Vec<CellRow> = store::read(&place.out("r").join("cells.parquet")).unwrap();
        let errors: Vec<(&str, &str)> = cells
            .iter()
            .filter(|c| c.status == "error")
            .map(|c| (&*c.trajectory, c.error.as_deref().unwrap()))
            .collect();
        assert_eq!(errors[..7], [("t04", "no good"); 7]);
        assert_eq!(errors[7].0, "t11");
        let at = "panic at src/experiment/run.rs:";
        assert!(errors[7].1.starts_with(at) && errors[7].1.ends_with(": bug"), "{}", errors[7].1);
        // Resumed, the errors are still told.
        let again = place.run("r", &Options::default(), &rows).unwrap();
        assert_eq!((again.done, again.cells_error), (0, 8));
    }

    #[test]
    fn rows_of_a_unit_must_be_those_of_its_cells() {
        let place = Place::new();
        let short = |d: &Dataset, u: &Unit, p: &Plan, f: &(dyn Fn(u64) + Sync)| {
            let mut all = rows(d, u, p, f)?;
            all.cells.pop();
            Ok(all)
        };
        let outcome = place.run("short", &Options::default(), &short).unwrap();
        assert_eq!(outcome.cells_ok, 0);
        let stray = |d: &Dataset, u: &Unit, p: &Plan, f: &(dyn Fn(u64) + Sync)| {
            let mut all = rows(d, u, p, f)?;
            all.timeline[0].trajectory = "elsewhere".into();
            Ok(all)
        };
        let outcome = place.run("stray", &Options::default(), &stray).unwrap();
        assert_eq!(outcome.cells_ok, 0);
    }

    /// A part that is gone is made again, and a run without them is another run.
    #[test]
    fn contexts_are_a_table_where_they_are_asked_for() {
        let mut place = Place::new();
        place.run("without", &Options::default(), &rows).unwrap();
        assert!(!place.out("without/contexts.parquet").exists());
        place.plan = plan("contexts = true");
        assert!(place.run("without", &Options::default(), &rows).is_err());
        let shard = Options { shard: Some((0, 1)), ..Options::default() };
        place.run("r", &shard, &rows).unwrap();
        let parts = place.out("r/parts/contexts/variant_group=m");
        let part = fs::read_dir(parts).unwrap().next().unwrap().unwrap().path();
        fs::remove_file(part).unwrap();
        let outcome = place.run("r", &Options::default(), &rows).unwrap();
        assert_eq!((outcome.done, outcome.finished), (1, true));
        let contexts: Vec<ContextRow> = store::read(&place.out("r/contexts.parquet")).unwrap();
        assert_eq!(contexts.len(), 17 * 7);
        assert!(contexts.is_sorted_by(|a, b| a.trajectory <= b.trajectory));
        assert!(fs::read_to_string(place.out("r/_SUCCESS")).unwrap().contains("contexts.parquet"));
    }

    #[test]
    fn other_bytes_are_told_and_the_first_stay() {
        let place = Place::new();
        let shard = Options { shard: Some((0, 1)), ..Options::default() };
        place.run("r", &shard, &rows).unwrap();
        // The end of each unit is gone, as if its process had been killed before: it is done again, and differs.
        for table in ["cells", "digests"] {
            fs::remove_dir_all(place.out("r/parts").join(table)).unwrap();
        }
        let other = |d: &Dataset, u: &Unit, p: &Plan, f: &(dyn Fn(u64) + Sync)| {
            let mut all = rows(d, u, p, f)?;
            all.timeline.pop();
            Ok(all)
        };
        let outcome = place.run("r", &Options::default(), &other).unwrap();
        assert_eq!((outcome.nondeterministic, outcome.lost_races), (23, 23));
        assert!(outcome.finished);
    }

    #[test]
    fn damaged_parts_are_done_again() {
        let place = Place::new();
        let shard = Options { shard: Some((0, 1)), ..Options::default() };
        place.run("whole", &Options::default(), &rows).unwrap();
        place.run("r", &shard, &rows).unwrap();
        let parts = |table: &str| -> Vec<PathBuf> {
            let group = place.out("r/parts").join(table).join("variant_group=model-free");
            let mut all: Vec<PathBuf> = fs::read_dir(group).unwrap().map(|e| e.unwrap().path()).collect();
            all.sort();
            all
        };
        // A byte of one part is flipped, one is gone, one is cut off.
        let mut bytes = fs::read(&parts("scores")[0]).unwrap();
        bytes[40] ^= 1;
        fs::write(&parts("scores")[0], bytes).unwrap();
        fs::remove_file(&parts("events")[1]).unwrap();
        fs::write(&parts("cells")[2], "PAR1").unwrap();
        let finish = Options { finish: true, ..Options::default() };
        let early = place.run("r", &finish, &rows).unwrap();
        assert_eq!((early.missing.len(), early.finished), (3, false));
        let outcome = place.run("r", &Options::default(), &rows).unwrap();
        assert_eq!((outcome.done, outcome.finished, outcome.nondeterministic), (3, true, 0));
        assert_eq!(outcome.skipped, outcome.n_units - 3);
        // Found damaged in the same command that looked for what is left.
        fs::remove_file(&parts("events")[0]).unwrap();
        fs::remove_file(place.out("r/_SUCCESS")).unwrap();
        let outcome = place.run("r", &Options::default(), &rows).unwrap();
        assert_eq!((outcome.done, outcome.skipped), (1, outcome.n_units - 1));
        assert!(tables(&place.out("r")) == tables(&place.out("whole")));
        // A final table is joined again from the parts.
        let scores = place.out("r/scores.parquet");
        let mut bytes = fs::read(&scores).unwrap();
        bytes[40] ^= 1;
        fs::write(&scores, bytes).unwrap();
        assert!(place.run("r", &Options::default(), &rows).unwrap().finished);
        assert!(tables(&place.out("r")) == tables(&place.out("whole")));
    }

    #[test]
    fn what_says_that_a_run_is_complete_is_checked_itself() {
        let place = Place::new();
        place.run("r", &Options::default(), &rows).unwrap();
        let read = || finish::Success::read(&place.out("r"));
        assert_eq!(read().unwrap().unwrap().damaged(&place.out("r")).unwrap(), None);
        let manifest = place.out("r/_manifest.json");
        let good = fs::read(&manifest).unwrap();
        let mut bad = good.clone();
        bad[9] ^= 1;
        fs::write(&manifest, bad).unwrap();
        let damaged = || read().unwrap().unwrap().damaged(&place.out("r"));
        let told = damaged().unwrap().unwrap();
        assert!(told.contains("_manifest.json is not what the run wrote"), "{told}");
        fs::write(&manifest, good).unwrap();
        let (cells, aside) = (place.out("r/cells.parquet"), place.out("r/aside"));
        fs::rename(&cells, &aside).unwrap();
        assert!(damaged().unwrap().unwrap().contains("cells.parquet is missing"));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("cells.parquet", &cells).unwrap();
            let error = format!("{:#}", damaged().unwrap_err());
            assert!(error.contains("cells.parquet: Too many levels of symbolic links"), "{error}");
            fs::remove_file(&cells).unwrap();
        }
        fs::rename(&aside, &cells).unwrap();
        let path = place.out("r/_SUCCESS");
        fs::write(&path, "{\"manifest").unwrap();
        for error in [read().unwrap_err(), place.run("r", &Options::default(), &rows).unwrap_err()] {
            let error = format!("{error:#}");
            assert!(error.contains(&format!("{} is damaged", path.display())), "{error}");
        }
        fs::remove_file(path).unwrap();
        assert_eq!(read().unwrap(), None);
    }

    #[test]
    fn damaged_data_become_rows_with_the_error() {
        let mut place = Place::new();
        let path = place.out("data/features.parquet");
        let good = fs::read(&path).unwrap();
        let mut bad = good.clone();
        // Some pages of the first row group.
        bad[60..120].fill(0);
        fs::write(&path, &bad).unwrap();
        // Damage that was there when the record was written, or that only shows in reading.
        vouch_for(&place.out("data"));
        place.data = Dataset::open(&place.out("data")).unwrap();
        let mut outcomes = Vec::new();
        for (out, threads) in [("one", 1), ("two", 2)] {
            let options = Options { threads: Some(threads), ..Options::default() };
            let outcome = place.run(out, &options, &rows).unwrap();
            assert!(outcome.finished && !outcome.is_clean() && outcome.quarantined.is_empty());
            assert!(place.out(out).join("_quarantine").read_dir().unwrap().any(|_| true));
            outcomes.push((outcome.cells_ok, outcome.cells_error));
        }
        assert_eq!(outcomes[0], outcomes[1]);
        assert!(tables(&place.out("one")) == tables(&place.out("two")));
        let cells: Vec<CellRow> = store::read(&place.out("one/cells.parquet")).unwrap();
        let errors: Vec<&CellRow> = cells.iter().filter(|c| c.status == "error").collect();
        // Whole trajectories, all variants.
        assert!(errors.len().is_multiple_of(7) && errors.len() < cells.len() && !errors.is_empty());
        assert_eq!(outcomes[0], ((cells.len() - errors.len()) as u64, errors.len() as u64));
        let folder = place.dir.path().display().to_string();
        for cell in errors {
            let error = cell.error.as_deref().unwrap();
            let named = error.contains("row group 0 of") || error.contains("row group 1 of");
            assert!(named && error.contains("features.parquet") && !error.contains(&folder), "{error}");
        }
        // Mended, it is other data.
        fs::write(&path, &good).unwrap();
        vouch_for(&place.out("data"));
        place.data = Dataset::open(&place.out("data")).unwrap();
        assert!(place.run("mended", &Options::default(), &rows).unwrap().is_clean());
    }

    #[test]
    fn data_that_change_under_a_run_are_quarantined_and_then_done() {
        let place = Place::new();
        let good = fs::read(place.out("data/steps.parquet")).unwrap();
        place.data.inputs().unwrap();
        let mut bad = good.clone();
        let middle = bad.len() / 4;
        bad[4..middle].fill(0);
        fs::write(place.out("data/steps.parquet"), &bad).unwrap();
        let outcome = place.run("r", &Options::default(), &rows).unwrap();
        assert!(!outcome.quarantined.is_empty() && !outcome.finished);
        assert_eq!(outcome.quarantined.len(), outcome.missing.len());
        assert!(place.out("r/_quarantine").read_dir().unwrap().any(|_| true));
        fs::write(place.out("data/steps.parquet"), &good).unwrap();
        let outcome = place.run("r", &Options::default(), &rows).unwrap();
        assert!(outcome.finished && outcome.is_clean());
        assert!(!place.out("r/_quarantine").read_dir().unwrap().any(|_| true));
    }

    #[test]
    fn units_whose_model_is_gone_are_left_for_another_time() {
        let place = Place::new();
        let gone = |_: &Dataset, _: &Unit, _: &Plan, _: &(dyn Fn(u64) + Sync)| {
            let error = crate::models::CallError::Failed("connection refused".to_owned());
            Err(Outage { model: "m".to_owned(), error }.into())
        };
        let one = Options { threads: Some(1), ..Options::default() };
        let outcome = place.run("r", &one, &gone).unwrap();
        assert!(!outcome.finished && !outcome.is_clean() && outcome.done == 0);
        assert_eq!(outcome.quarantined.len(), MOST_OUTAGES, "the rest is not even tried");
        assert!(outcome.quarantined[0].1.contains("connection refused"), "{:?}", outcome.quarantined);
        let outcome = place.run("r", &one, &rows).unwrap();
        assert!(outcome.finished && outcome.is_clean());
        let undisturbed = place.run("s", &one, &rows).unwrap();
        assert!(undisturbed.is_clean() && tables(&place.out("r")) == tables(&place.out("s")));
    }

    #[test]
    fn another_plan_in_the_same_folder_is_refused() {
        let mut place = Place::new();
        place.run("r", &Options::default(), &rows).unwrap();
        place.plan = plan("shadow_seeds = 9");
        let error = place.run("r", &Options::default(), &rows).unwrap_err().to_string();
        let error = error.replace(&place.out("r").display().to_string(), "RUN");
        assert_eq!(
            error,
            "RUN holds another run: `shadow_seeds` is 8 there, 9 here\n\
             hint: name another folder for `--out`, or delete this run and begin anew with `--fresh`"
        );
        let told = |place: &Place, options: &Options| {
            let error = place.run("r", options, &rows).unwrap_err().to_string();
            error.lines().next().unwrap().split_once("holds another run: ").unwrap().1.to_owned()
        };
        place.plan = plan("exclude = [{ trigger.n = 2 }]");
        assert_eq!(
            told(&place, &Options::default()),
            "the variant `mask(keep_last=1) @ turns(n=2) [model-free]` and 2 more are only there"
        );
        place.plan = plan("seed = 5");
        assert_eq!(told(&place, &Options::default()), "`seed` is 0 there, 5 here");
        place.plan = plan("");
        let limit = Options { limit: Some(3), ..Options::default() };
        assert_eq!(told(&place, &limit), "`--limit` is not set there, 3 here");
    }

    #[test]
    fn a_fresh_run_is_as_one_in_a_new_folder() {
        let mut place = Place::new();
        place.run("r", &Options::default(), &rows).unwrap();
        fs::write(place.out("r/notes.txt"), "mine").unwrap();
        place.plan = plan("shadow_seeds = 9");
        let fresh = Options { fresh: true, ..Options::default() };
        // Of a folder that holds no run nothing is deleted, and one that is not there is made.
        for folder in ["r", "new"] {
            let outcome = place.run(folder, &fresh, &rows).unwrap();
            assert!(outcome.finished && outcome.skipped == 0, "{outcome:?}");
        }
        assert_eq!(fs::read_to_string(place.out("r/notes.txt")).unwrap(), "mine");
        fs::remove_file(place.out("r/notes.txt")).unwrap();
        assert!(tables(&place.out("r")) == tables(&place.out("new")));
    }

    #[test]
    fn ids_of_units_depend_on_what_decides_their_rows() {
        let place = Place::new();
        let ids = |plan: &Plan| -> Vec<String> {
            let all: Vec<usize> = (0..17).collect();
            units::cut(plan, &place.data, &all).unwrap().into_iter().map(|u| u.id).collect()
        };
        let base = ids(&place.plan);
        assert_eq!(ids(&plan("data = { min_turns = 0 }")), base);
        for change in ["seed = 1", "shadow_seeds = 1", "reference_tails = [1]", "tokenizer = \"x\""] {
            let other = ids(&plan(change));
            assert!(other.iter().all(|id| !base.contains(id)), "{change}");
        }
    }

    #[test]
    fn an_overview_runs_nothing() {
        let place = Place::new();
        let size = overview(&place.plan, &place.data, None, &Options::default()).unwrap();
        let steps: u64 = (0..17).map(|i| i % 5 + 1).sum();
        assert_eq!((size.n_units, size.step_variants), (23, steps * 7));
        assert_eq!(size.seconds_left, None);
        place.run("r", &Options::default(), &rows).unwrap();
        let size = overview(&place.plan, &place.data, Some(&place.out("r")), &Options::default()).unwrap();
        assert_eq!(size.step_variants_left, 0);
    }
}
