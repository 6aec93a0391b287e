//! Computes the features of a dataset, once.

mod counted;
pub mod features;
mod kept;
pub mod partners;
pub mod usage;

pub use usage::Counted;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use anyhow::Context as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::annotate::partners::{Candidate, Interner, partners};
use crate::annotate::usage::Sessions;
use crate::files::lock::Lock;
use crate::files::vouch::{self, Made, Tables};
use crate::files::{reach, swap, whole};
use crate::progress::{Meter, Unit};
use crate::store::{
    self, FeatureRow, PartnerRow, SCHEMA_VERSION, StepRow, TableWriter, TrajectoryRow, UsageRow,
};
use crate::text::tokens::Tokenizer;
use crate::text::{atoms, escape};
use crate::trajectory::Step;
use crate::trajectory::usage::{Call, calls};
use counted::{count_rows, same_group};
use features::FEATURES_VERSION;
use kept::Kept;

/// What `annotate.json` says of the features beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Annotated {
    /// Name of the tokenizer, with its hash when it comes from a file.
    pub tokenizer: String,
    pub features_version: u32,
    pub schema_version: String,
    /// BLAKE3 of the tables that it was computed from.
    pub steps_digest: String,
    pub trajectories_digest: String,
    pub n_trajectories: u64,
    pub n_steps: u64,
    pub n_bytes: u64,
    pub n_tokens: u64,
    pub n_spans: u64,
    /// Texts that the tokenizer could not encode, counted a token a character.
    pub n_tokenizer_failures: u64,
    /// Atoms by kind.
    pub n_atoms: BTreeMap<String, u64>,
    pub n_partners: u64,
    /// The provider's counts, where logged.
    pub usage: Counted,
    /// Trajectories whose features were there already; nothing else depends on it.
    #[serde(skip)]
    pub n_kept: u64,
    /// Trajectories that had partners and have more; nothing else depends on it.
    #[serde(skip)]
    pub n_grown: u64,
    /// What was written, for those who read it.
    pub tables: Tables,
}

/// The tables of a dataset, as `ingest` wrote them.
pub const INGESTED: [&str; 2] = ["steps.parquet", "trajectories.parquet"];
/// What is written here beside them.
pub const ANNOTATED: [&str; 3] = ["features.parquet", "partners.parquet", "usage.parquet"];

/// Writes `features.parquet`, `partners.parquet`, `usage.parquet` and `annotate.json` beside the tables of a dataset,
/// unless they are there already for the same tables and tokenizer (then the answer says `false`).
///
/// The row groups of `features` are those of `steps`. Memory is bounded by three row groups.
/// `threads` 0 is all cores; the bytes written do not depend on it.
pub fn annotate(data: &Path, tokenizer: &str, threads: usize) -> anyhow::Result<(Annotated, bool)> {
    let tokenizer = Tokenizer::load(tokenizer)?;
    let before = done(data, &tokenizer, false);
    if let Ok(Some(done)) = before {
        return Ok((done, false));
    }
    // Another process may be at the same, or at the tables: what holds is what is there once it has ended.
    let _lock = Lock::wait(data, "annotate").map_err(|error| before.err().unwrap_or(error))?;
    swap::settle(data)?;
    let ingested = ingested(data)?;
    if let Some(done) = done(data, &tokenizer, true)? {
        return Ok((done, false));
    }
    remove_abandoned(data);
    let digest = |name: &str| ingested.get(name).map(|made| made.blake3.clone()).unwrap_or_default();
    let (steps_digest, trajectories_digest) = (digest("steps.parquet"), digest("trajectories.parquet"));
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("cannot start threads")?;
    let mut known = trajectories(&data.join("trajectories.parquet"))?;
    let mut annotated = Annotated {
        tokenizer: tokenizer.name().to_owned(),
        features_version: FEATURES_VERSION,
        schema_version: SCHEMA_VERSION.to_owned(),
        steps_digest,
        trajectories_digest,
        n_trajectories: known.candidates.len() as u64,
        n_steps: 0,
        n_bytes: known.n_bytes,
        n_tokens: 0,
        n_spans: 0,
        n_tokenizer_failures: 0,
        n_atoms: atoms::NAMES.iter().map(|name| ((*name).to_owned(), 0)).collect(),
        n_partners: 0,
        usage: Counted::default(),
        n_kept: 0,
        n_grown: 0,
        tables: Tables::new(),
    };
    // What an earlier run said no longer holds once its tables are others, by their digests.
    let kept = Kept::open(data, tokenizer.name());
    let before = kept::partners(data, tokenizer.name());
    let sessions = pool.install(|| write_features(data, &tokenizer, &kept, &mut known, &mut annotated))?;
    annotated.n_kept = kept.n_used();
    write_partners(data, &known.candidates, &before, &mut annotated)?;
    annotated.usage = write_usage(data, sessions)?;
    annotated.n_tokenizer_failures = tokenizer.failures();
    for name in ANNOTATED {
        let made = Made::of(&data.join(name)).with_context(|| format!("cannot read {name}"))?;
        annotated.tables.insert(name.to_owned(), made);
    }
    let json = vouch::seal(&escape::json(&annotated).context("annotate.json")?)?;
    publish(&data.join("annotate.json"), |path| Ok(fs::write(path, &json)?))?;
    Ok((annotated, true))
}

/// Deletes the partners of a dataset, so that the next `annotate` draws all anew.
pub fn forget_partners(data: &Path) -> anyhow::Result<()> {
    let _lock = Lock::wait(data, "annotate")?;
    whole::remove(&data.join(PartnerRow::table_file()))
}

/// What `ingest` says of its tables, if they still are that.
fn ingested(data: &Path) -> anyhow::Result<Tables> {
    for name in INGESTED {
        let path = data.join(name);
        anyhow::ensure!(reach::is_there(&path)?, "{} is missing\nhint: `ingest` writes it", path.display());
    }
    vouch::check(data, "ingest.json", "ingest", &INGESTED)
}

/// What stands in `annotate.json`, if it was made of these tables with this tokenizer by this version, and what it
/// speaks of is there. `tells`: what is not what it was is told.
fn done(data: &Path, tokenizer: &Tokenizer, tells: bool) -> anyhow::Result<Option<Annotated>> {
    let ingested = ingested(data)?;
    let Some(done) = read_done(data)? else { return Ok(None) };
    let is_of = |digest: &str, name: &str| ingested.get(name).is_some_and(|made| made.blake3 == digest);
    let is_same = done.tokenizer == tokenizer.name()
        && done.features_version == FEATURES_VERSION
        && done.schema_version == SCHEMA_VERSION
        && is_of(&done.steps_digest, "steps.parquet")
        && is_of(&done.trajectories_digest, "trajectories.parquet");
    if !is_same {
        return Ok(None);
    }
    if let Err(error) = vouch::check(data, "annotate.json", "annotate", &ANNOTATED) {
        let told = format!("{error:#}");
        if tells {
            tracing::warn!("{}: made again", told.lines().next().unwrap_or_default());
        }
        return Ok(None);
    }
    Ok(Some(done))
}

fn read_done(data: &Path) -> anyhow::Result<Option<Annotated>> {
    // One that is damaged is made again.
    let text = reach::read(&data.join("annotate.json"))?;
    Ok(text.filter(|text| vouch::sealed(text).is_ok()).and_then(|text| serde_json::from_slice(&text).ok()))
}

trait TableFile {
    fn table_file() -> String;
}

impl<R: store::Row> TableFile for R {
    fn table_file() -> String {
        format!("{}.parquet", R::TABLE)
    }
}

fn row_groups<R: store::Row>(path: &Path) -> anyhow::Result<usize> {
    store::row_groups::<R>(path).map_err(|error| match format!("{error:#}") {
        text if text.contains("\nhint: ") => error,
        text => anyhow::anyhow!("{text}\nhint: make it again with `trajpress ingest`"),
    })
}

fn read_row_group<R: store::Row>(path: &Path, group: usize) -> anyhow::Result<Vec<R>> {
    store::read_row_group::<R>(path, group).map_err(|error| {
        let path = path.display();
        anyhow::anyhow!(
            "cannot read row group {group} of {path}: {error:#}\nhint: make it again with `trajpress ingest`"
        )
    })
}

/// What the annotation needs of the trajectories: no texts.
struct Known {
    candidates: Vec<Candidate>,
    /// Number of each one's model; none is unknown.
    models: Vec<Option<u32>>,
    places: BTreeMap<String, usize>,
    n_bytes: u64,
}

fn trajectories(path: &Path) -> anyhow::Result<Known> {
    let (mut formats, mut repositories, mut tasks) =
        (Interner::default(), Interner::default(), Interner::default());
    let mut models = Interner::default();
    let mut known = Known { candidates: Vec::new(), models: Vec::new(), places: BTreeMap::new(), n_bytes: 0 };
    for group in 0..row_groups::<TrajectoryRow>(path)? {
        for row in read_row_group::<TrajectoryRow>(path, group)? {
            // A task without a name is known by what it asks for.
            let task = match (&row.task_id, &row.goal) {
                (Some(task), _) => format!("task {task}"),
                (None, Some(goal)) => format!("goal {}", blake3::hash(goal.as_bytes())),
                (None, None) => format!("trajectory {}", row.trajectory),
            };
            known.n_bytes += row.n_bytes;
            known.models.push(row.model.as_deref().map(|model| models.number(model)));
            known.places.insert(row.trajectory.clone(), known.candidates.len());
            known.candidates.push(Candidate {
                format: formats.number(&row.format),
                repository: row.repository.as_deref().map(|r| repositories.number(r)),
                task: tasks.number(&task),
                tokens: 0,
                id: row.trajectory,
            });
        }
    }
    Ok(known)
}

fn write_features(
    data: &Path,
    tokenizer: &Tokenizer,
    kept: &Kept,
    known: &mut Known,
    annotated: &mut Annotated,
) -> anyhow::Result<Sessions> {
    let mut sessions = Sessions::default();
    let steps = data.join("steps.parquet");
    let meter = Meter::new("annotate", Unit::Bytes, known.n_bytes, false);
    publish(&data.join(FeatureRow::table_file()), |path| {
        let mut writer = TableWriter::<FeatureRow>::create(path, usize::MAX)?;
        // The next row group is read and the last one written while one is computed: without a
        // buffer between, so that no more than three are in memory.
        thread::scope(|scope| {
            let (read, groups) = mpsc::sync_channel(0);
            let (computed, features) = mpsc::sync_channel::<Computed>(0);
            let reading = scope.spawn(|| read_groups(&steps, read));
            let writing = scope.spawn(move || {
                for computed in features {
                    match computed {
                        Computed::Rows(rows) => writer.push(rows.into_iter().flatten())?,
                        Computed::Same(number) => kept.copy(&mut writer, number)?,
                        Computed::EndOfGroup => writer.end_row_group()?,
                    }
                }
                writer.finish()
            });
            for group in groups {
                if let Some((number, calls)) = same_group(&group, kept, tokenizer, (known, annotated)) {
                    add_sessions(&group, calls, known, &mut sessions, &meter);
                    if computed.send(Computed::Same(number)).is_err() {
                        break;
                    }
                    continue;
                }
                // Those that are too long to hold all their rows come alone, piece by piece.
                for part in group.chunk_by(|a, b| !is_long(a) && !is_long(b)) {
                    let calls = annotate_part(part, kept, tokenizer, |rows| {
                        rows.iter().for_each(|rows| count_rows(rows, known, annotated));
                        computed.send(Computed::Rows(rows)).is_ok()
                    });
                    add_sessions(part, calls, known, &mut sessions, &meter);
                }
                if computed.send(Computed::EndOfGroup).is_err() {
                    break;
                }
            }
            drop(computed);
            let ended = |thread: thread::Result<anyhow::Result<()>>| {
                thread.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            let written = ended(writing.join().map(|result| result.map(drop)));
            ended(reading.join()).and(written)
        })
    })?;
    meter.finish();
    Ok(sessions)
}

/// What the writer gets.
enum Computed {
    Rows(Vec<Vec<FeatureRow>>),
    /// A row group that is there already, all of it.
    Same(usize),
    EndOfGroup,
}

fn add_sessions(
    part: &[Steps],
    calls: Vec<Vec<Call>>,
    known: &Known,
    sessions: &mut Sessions,
    meter: &Meter,
) {
    for ((id, steps), calls) in part.iter().zip(calls) {
        let place = known.places.get(id);
        sessions.add(id, place.and_then(|&place| known.models[place]), calls);
        meter.add(steps.iter().map(|s| s.text.len() as u64).sum());
    }
}

/// A trajectory's id and steps.
type Steps = (String, Vec<Step>);

fn is_long((_, steps): &Steps) -> bool {
    steps.len() > features::PIECE
}

/// Finds or computes the rows of trajectories, or of a long one piece by piece, until nobody wants them; returns the calls of each.
fn annotate_part(
    part: &[Steps],
    kept: &Kept,
    tokenizer: &Tokenizer,
    mut is_wanted: impl FnMut(Vec<Vec<FeatureRow>>) -> bool,
) -> Vec<Vec<Call>> {
    let tokens_of = |rows: &[FeatureRow]| rows.iter().map(|row| row.tokens).collect::<Vec<u32>>();
    let calls_of = |steps: &[Step], tokens: &[u32]| calls(steps, tokens, |text| tokenizer.count(text));
    if let [(id, steps)] = part {
        let mut tokens = Vec::with_capacity(steps.len());
        for rows in kept.pieces(id, steps, tokenizer) {
            tokens.extend(tokens_of(&rows));
            if !is_wanted(vec![rows]) {
                return Vec::new();
            }
        }
        return vec![calls_of(steps, &tokens)];
    }
    let known: Vec<Option<Vec<FeatureRow>>> = part
        .par_chunks(part.len().div_ceil(rayon::current_num_threads()).max(1))
        .flat_map_iter(|part| kept.together(part))
        .collect();
    let compute = |((id, steps), known): (&Steps, Option<Vec<FeatureRow>>)| {
        let rows = known.unwrap_or_else(|| features::pieces(id, steps, tokenizer).flatten().collect());
        let calls = calls_of(steps, &tokens_of(&rows));
        (rows, calls)
    };
    let (rows, calls) = part.par_iter().zip(known).map(compute).unzip();
    is_wanted(rows);
    calls
}

/// Sends the row groups of the steps in order, until nobody wants them.
fn read_groups(steps: &Path, read: mpsc::SyncSender<Vec<Steps>>) -> anyhow::Result<()> {
    let again =
        |error: anyhow::Error| anyhow::anyhow!("{error:#}\nhint: make it again with `trajpress ingest`");
    for group in 0..row_groups::<StepRow>(steps)? {
        // As steps a row group is much smaller than as rows.
        let (mut trajectories, mut added) = (Vec::new(), Ok(()));
        store::TableReader::open(steps)
            .and_then(|table| {
                table.scan(group, |rows| {
                    if added.is_ok() {
                        added = by_trajectory(rows, &mut trajectories);
                    }
                })
            })
            .map_err(again)?;
        added?;
        if read.send(trajectories).is_err() {
            break;
        }
    }
    Ok(())
}

/// Adds steps of a row group, by trajectory: a trajectory never straddles a row group.
fn by_trajectory(rows: Vec<StepRow>, trajectories: &mut Vec<Steps>) -> anyhow::Result<()> {
    for mut row in rows {
        let id = std::mem::take(&mut row.trajectory);
        let step = Step::try_from(row).with_context(|| format!("trajectory {id}"))?;
        match trajectories.last_mut() {
            Some((last, steps)) if **last == *id => steps.push(step),
            _ => trajectories.push((id.to_string(), vec![step])),
        }
    }
    Ok(())
}

fn write_partners(
    data: &Path,
    candidates: &[Candidate],
    before: &[PartnerRow],
    annotated: &mut Annotated,
) -> anyhow::Result<()> {
    let (rows, n_grown) = partners(candidates, before);
    annotated.n_grown = n_grown;
    publish(&data.join(PartnerRow::table_file()), |path| {
        let mut writer = TableWriter::<PartnerRow>::create(path, 64 << 20)?;
        // At most 10 rows a trajectory come together, so the writer can cut anywhere between them.
        for rows in rows.chunk_by(|a, b| a.trajectory == b.trajectory) {
            writer.push(rows.iter().cloned())?;
        }
        annotated.n_partners = writer.finish()?;
        Ok(())
    })
}

fn write_usage(data: &Path, sessions: Sessions) -> anyhow::Result<Counted> {
    let (rows, counted) = sessions.rows();
    publish(&data.join(UsageRow::table_file()), |path| {
        let mut writer = TableWriter::<UsageRow>::create(path, 64 << 20)?;
        for rows in rows.chunk_by(|a, b| a.trajectory == b.trajectory) {
            writer.push(rows.iter().cloned())?;
        }
        writer.finish()?;
        Ok(())
    })?;
    Ok(counted)
}

/// How the names end of files that are being written.
const PARTIAL: &str = ".tmp";

/// Removes what killed processes left; this one alone writes here. What cannot be removed does no harm.
fn remove_abandoned(data: &Path) {
    let tables = [FeatureRow::table_file(), PartnerRow::table_file(), UsageRow::table_file()];
    let made = [&tables[..], &["annotate.json".to_owned()]].concat();
    for entry in fs::read_dir(data).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(PARTIAL) && made.iter().any(|made| name.starts_with(&format!("{made}."))) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes a file under another name and renames it when it is complete.
fn publish(path: &Path, write: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}{PARTIAL}", std::process::id()));
    let partial = PathBuf::from(partial);
    let written = write(&partial).and_then(|()| Ok(fs::rename(&partial, path)?));
    if written.is_err() {
        // Nothing half-written is left; that it could not be written is the error to tell.
        let _ = fs::remove_file(&partial);
    }
    // The file is called as it would have been called.
    let draft = partial.display().to_string();
    written.map_err(|error| match format!("{error:#}") {
        told if told.contains(&draft) => {
            anyhow::anyhow!("{}", told.replace(&draft, &path.display().to_string()))
        }
        _ => error.context(format!("cannot write {}", path.display())),
    })
}

#[cfg(test)]
mod tests;
