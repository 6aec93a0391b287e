//! An ingested and annotated folder, read piece by piece.
//!
//! Knows which trajectories there are and where their rows stand; loads the rows of the ones asked
//! for. What stays in memory is a small entry a trajectory. Replays nothing.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::Context as _;
use serde::Serialize;

use super::plan::Filter;
use super::publish;
use crate::annotate::{ANNOTATED, Annotated, INGESTED, annotate};
use crate::context::log::Log;
use crate::files::held::Held;
use crate::files::lock::Lock;
use crate::files::{reach, vouch};
use crate::store::{
    FeatureRow, FeatureTokens, PartnerRow, Row, StepKey, StepModel, StepRow, StepUsage, TableReader,
    TrajectoryKey, TrajectoryRow, UsageRow,
};
use crate::trajectory::usage::{LongestPrompt, Rate};
use crate::trajectory::{Step, Trajectory};

/// What is known of a trajectory without reading it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub id: String,
    pub n_steps: u32,
    /// Whether the log records that something else was sent than what it holds.
    pub is_edited: bool,
    /// Row group of its steps and features.
    pub row_group: usize,
    /// Its first row in that row group.
    first_row: usize,
    /// Row group and row of its row in `trajectories`.
    row: (usize, usize),
}

impl Entry {
    /// Its rows in its row group.
    fn rows(&self) -> Range<usize> {
        self.first_row..self.first_row + self.n_steps as usize
    }
}

/// A partner for chance correction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Partner<'a> {
    /// other_repository or same_repository.
    pub kind: &'a str,
    /// Index of the partner.
    pub index: usize,
}

/// A file that rows are computed from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Input {
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
}

/// An open folder of data: what it held when it was opened, whoever writes there meanwhile.
pub struct Dataset {
    dir: PathBuf,
    files: BTreeMap<&'static str, Held>,
    steps: TableReader<StepRow>,
    features: TableReader<FeatureRow>,
    trajectories: TableReader<TrajectoryRow>,
    usage: TableReader<UsageRow>,
    /// In the order of the steps: this is the order of all output.
    entries: Vec<Entry>,
    /// Indices of entries, sorted by id.
    by_id: Vec<u32>,
    partner_kinds: Vec<String>,
    /// Index, kind, rank, index of the partner; sorted.
    partners: Vec<(u32, u8, u32, u32)>,
    /// Index, and what is known of the provider's count; sorted by index and turns.
    rates: Vec<(u32, Rate)>,
    inputs: OnceLock<Vec<Input>>,
    /// Of what tokenizer and version the features are.
    features_of: serde_json::Value,
}

impl Dataset {
    /// Opens a folder that `ingest` and `annotate` wrote. What is wrong while somebody writes there is looked at once more
    /// when that has ended.
    pub fn open(dir: &Path) -> anyhow::Result<Self> {
        Self::try_open(dir).or_else(|error| match Lock::wait(dir, "run") {
            Ok(_lock) => Self::try_open(dir),
            // Nobody may write there.
            Err(_) => Err(error),
        })
    }

    /// Opens a folder that `ingest` wrote, and annotates it where that is to be done; says what it did. Another `ingest` may
    /// come between the two, and then its tables are taken.
    pub fn open_annotated(
        dir: &Path,
        tokenizer: &str,
        threads: usize,
    ) -> anyhow::Result<(Self, Option<Annotated>)> {
        let mut done = None;
        for _ in 0..MOST_TRIES {
            let (annotated, is_new) = annotate(dir, tokenizer, threads)?;
            match Self::open(dir) {
                Err(_) if has_moved_on(dir, &annotated) => done = done.or(is_new.then_some(annotated)),
                Err(error) => return Err(error),
                Ok(data) => return Ok((data, is_new.then_some(annotated).or(done))),
            }
        }
        anyhow::bail!("{} is written again and again\nhint: wait until that has ended", dir.display())
    }

    fn try_open(dir: &Path) -> anyhow::Result<Self> {
        anyhow::ensure!(
            !reach::is_there(&dir.join("_manifest.json"))?,
            "{} is a run, not the folder of data that it was made from",
            dir.display()
        );
        let path = |table: &str| dir.join(format!("{table}.parquet"));
        for table in [TrajectoryRow::TABLE, StepRow::TABLE] {
            anyhow::ensure!(
                reach::is_there(&path(table))?,
                "{} is missing\nhint: make it with `trajpress ingest LOGS --out {}`",
                path(table).display(),
                dir.display()
            );
        }
        for table in [FeatureRow::TABLE, PartnerRow::TABLE, UsageRow::TABLE] {
            anyhow::ensure!(
                reach::is_there(&path(table))?,
                "{} is missing\nhint: make it with `trajpress annotate {}`",
                path(table).display(),
                dir.display()
            );
        }
        let files = FILES
            .iter()
            .map(|&name| {
                let path = dir.join(name);
                Ok((name, Held::open(&path).with_context(|| format!("cannot read {}", path.display()))?))
            })
            .collect::<anyhow::Result<BTreeMap<&str, Held>>>()?;
        let features_of = vouched(dir, &files)?;
        let steps: TableReader<StepRow> = table(dir, &files).map_err(|e| ingest_again(e, dir))?;
        let features: TableReader<FeatureRow> = table(dir, &files).map_err(|e| annotate_again(e, dir))?;
        let trajectories: TableReader<TrajectoryRow> =
            table(dir, &files).map_err(|e| ingest_again(e, dir))?;
        let partners = table(dir, &files).map_err(|e| annotate_again(e, dir))?;
        let usage: TableReader<UsageRow> = table(dir, &files).map_err(|e| annotate_again(e, dir))?;
        anyhow::ensure!(
            steps.row_groups() == features.row_groups(),
            "the features in {} are not those of its steps\nhint: run `trajpress annotate {}` again",
            dir.display(),
            dir.display()
        );
        let entries = entries(&steps, &trajectories, dir).map_err(|e| ingest_again(e, dir))?;
        let mut by_id: Vec<u32> = (0..entries.len() as u32).collect();
        by_id.sort_unstable_by_key(|&i| &entries[i as usize].id);
        if let Some(twice) = by_id.windows(2).find(|w| entries[w[0] as usize].id == entries[w[1] as usize].id)
        {
            anyhow::bail!(
                "the steps of trajectory {} are torn apart in {}\nhint: ingest the logs again",
                entries[twice[0] as usize].id,
                path(StepRow::TABLE).display()
            );
        }
        let mut data = Dataset {
            dir: dir.to_owned(),
            files,
            steps,
            features,
            trajectories,
            usage,
            entries,
            by_id,
            partner_kinds: Vec::new(),
            partners: Vec::new(),
            rates: Vec::new(),
            inputs: OnceLock::new(),
            features_of,
        };
        data.read_partners(&partners).map_err(|e| annotate_again(e, dir))?;
        data.read_usage().map_err(|e| annotate_again(e, dir))?;
        Ok(data)
    }

    /// All trajectories, in the order of the data.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Index of a trajectory.
    pub fn find(&self, id: &str) -> Option<usize> {
        self.by_id
            .binary_search_by_key(&id, |&i| &self.entries[i as usize].id)
            .ok()
            .map(|at| self.by_id[at] as usize)
    }

    /// Partners of a trajectory: by kind, then in order of choice.
    pub fn partners(&self, index: usize) -> impl Iterator<Item = Partner<'_>> {
        let index = index as u32;
        let from = self.partners.partition_point(|p| p.0 < index);
        self.partners[from..]
            .iter()
            .take_while(move |p| p.0 == index)
            .map(|p| Partner { kind: &self.partner_kinds[usize::from(p.1)], index: p.3 as usize })
    }

    /// Indices of the first `limit` trajectories that the filter takes; its sample is drawn by the seed.
    pub fn select(&self, filter: &Filter, seed: u64, limit: Option<usize>) -> anyhow::Result<Vec<usize>> {
        let keys: TableReader<TrajectoryKey> = self.trajectories.columns_of();
        let mut formats: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for row_group in 0..keys.row_groups().len() {
            keys.scan(row_group, |rows| {
                let takes = |r: &TrajectoryKey| filter.takes(&r.trajectory, &r.format, &r.source, r.n_turns);
                for row in rows.into_iter().filter(takes) {
                    formats.entry(row.format).or_default().extend(self.find(&row.trajectory));
                }
            })?;
        }
        let mut taken = match filter.sample {
            Some(n) => self.sample(formats.into_values(), seed, n as usize),
            None => formats.into_values().flatten().collect(),
        };
        taken.sort_unstable();
        taken.truncate(limit.unwrap_or(usize::MAX));
        Ok(taken)
    }

    /// Draws from each stratum in turn until there are `n`. What stands in a stratum's place is decided by its
    /// trajectories' ids alone, so that more data of one format do not change what is drawn of another.
    fn sample(&self, strata: impl Iterator<Item = Vec<usize>>, seed: u64, n: usize) -> Vec<usize> {
        let lot = |index: usize| {
            let mut hash = blake3::Hasher::new();
            hash.update(b"sample").update(&seed.to_le_bytes()).update(self.entries[index].id.as_bytes());
            *hash.finalize().as_bytes()
        };
        let mut drawn: Vec<(usize, usize, usize)> = Vec::new();
        for (stratum, mut indices) in strata.enumerate() {
            indices.sort_by_cached_key(|&index| lot(index));
            drawn.extend(indices.into_iter().enumerate().map(|(place, index)| (place, stratum, index)));
        }
        drawn.sort_unstable();
        drawn.into_iter().take(n).map(|(.., index)| index).collect()
    }

    /// Rows of the table `trajectories`, without steps, in the order asked for.
    pub fn trajectory_rows(&self, indices: &[usize]) -> anyhow::Result<Vec<TrajectoryRow>> {
        let mut places: Vec<(usize, usize)> = indices.iter().map(|&i| self.entries[i].row).collect();
        places.sort_unstable();
        places.dedup();
        let mut rows = HashMap::new();
        for group in places.chunk_by(|a, b| a.0 == b.0) {
            let ranges = merge(group.iter().map(|&(_, row)| row..row + 1));
            let read = self.trajectories.read(group[0].0, &ranges)?;
            rows.extend(group.iter().copied().zip(read));
        }
        indices
            .iter()
            .map(|&i| {
                let entry = &self.entries[i];
                let row = rows.get(&entry.row).filter(|r| r.trajectory == entry.id);
                row.cloned().with_context(|| self.changed(&entry.id))
            })
            .collect()
    }

    /// A trajectory ready for replay; `is_bridged`: as if its own product had never compacted it.
    pub fn log(&self, index: usize, is_bridged: bool) -> anyhow::Result<Log> {
        let make = if is_bridged { Log::bridge } else { Log::join };
        let mut log = make(self.trajectory(index)?, Box::new(self.features(index)?))?;
        let from = self.rates.partition_point(|(of, _)| (*of as usize) < index);
        let own = self.rates[from..].iter().take_while(|(of, _)| *of as usize == index);
        log.rates = own.map(|(_, rate)| rate.clone()).collect();
        Ok(log)
    }

    /// The longest prompt of each trajectory, read without a text.
    pub fn longest_prompts(&self) -> anyhow::Result<Vec<LongestPrompt>> {
        let steps: TableReader<StepUsage> = self.steps.columns_of();
        let features: TableReader<FeatureTokens> = self.features.columns_of();
        let mut all = Vec::with_capacity(self.entries.len());
        for group in self.entries.chunk_by(|a, b| a.row_group == b.row_group) {
            let (mut of_steps, mut tokens) = (Vec::new(), Vec::new());
            steps.scan(group[0].row_group, |rows| of_steps.extend(rows))?;
            features.scan(group[0].row_group, |rows| tokens.extend(rows))?;
            for entry in group {
                let (steps, tokens) = (of_steps.get(entry.rows()), tokens.get(entry.rows()));
                let (steps, tokens) = steps.zip(tokens).with_context(|| self.changed(&entry.id))?;
                let mut longest = LongestPrompt::default();
                for (step, tokens) in steps.iter().zip(tokens) {
                    longest.add(step.turn, step.segment, tokens.tokens, step.usage_in);
                }
                all.push(longest);
            }
        }
        Ok(all)
    }

    /// Of each of these trajectories, the calls that another model answered than the first, by its name.
    pub fn other_models(&self, indices: &[usize]) -> anyhow::Result<Vec<BTreeMap<String, u64>>> {
        let steps: TableReader<StepModel> = self.steps.columns_of();
        let mut of_group: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (place, &index) in indices.iter().enumerate() {
            of_group.entry(self.entries[index].row_group).or_default().push(place);
        }
        let mut all = vec![BTreeMap::new(); indices.len()];
        for (group, places) in of_group {
            let mut rows = Vec::new();
            steps.scan(group, |read| rows.extend(read))?;
            for place in places {
                let entry = &self.entries[indices[place]];
                let own = rows.get(entry.rows()).with_context(|| self.changed(&entry.id))?;
                for name in own.iter().filter_map(|step| step.model.as_ref()) {
                    *all[place].entry(name.clone()).or_default() += 1;
                }
            }
        }
        Ok(all)
    }

    /// What is known of the provider's count of a trajectory: its stretches, in order.
    pub fn usage(&self, index: usize) -> anyhow::Result<Vec<UsageRow>> {
        let mut found = Vec::new();
        for row_group in 0..self.usage.row_groups().len() {
            let id = &self.entries[index].id;
            let own = |rows: Vec<UsageRow>| rows.into_iter().filter(|row| row.trajectory == *id);
            self.usage.scan(row_group, |rows| found.extend(own(rows)))?;
        }
        Ok(found)
    }

    /// A trajectory with its steps.
    pub fn trajectory(&self, index: usize) -> anyhow::Result<Trajectory> {
        let entry = &self.entries[index];
        let row = self.trajectory_rows(&[index])?.pop().context("the data hold no such trajectory")?;
        let steps = self.steps.rows(entry.row_group, entry.rows())?.map(|row| {
            let row = row?;
            anyhow::ensure!(*row.trajectory == *entry.id, self.changed(&entry.id));
            Step::try_from(row)
        });
        let mut all: Vec<Step> = Vec::with_capacity(entry.n_steps as usize);
        for step in steps {
            all.push(step.with_context(|| format!("trajectory {}", entry.id))?);
        }
        anyhow::ensure!(all.len() == entry.n_steps as usize, self.changed(&entry.id));
        Ok(Trajectory { steps: all, ..Trajectory::from(row) })
    }

    /// The features of a trajectory's steps, in order, read as they are asked for.
    pub fn features(&self, index: usize) -> anyhow::Result<impl Iterator<Item = anyhow::Result<FeatureRow>>> {
        let entry = &self.entries[index];
        let rows = self.features.rows(entry.row_group, entry.rows())?;
        Ok(rows.map(|row| {
            let row = row?;
            anyhow::ensure!(row.trajectory == entry.id, self.changed(&entry.id));
            Ok(row)
        }))
    }

    /// Of what tokenizer and version the features are.
    pub fn features_of(&self) -> &serde_json::Value {
        &self.features_of
    }

    /// A hash of what the tables hold of each trajectory, wherever it was read from.
    pub fn contents(&self) -> anyhow::Result<Vec<blake3::Hash>> {
        let mut hashes: Vec<blake3::Hasher> = vec![blake3::Hasher::new(); self.entries.len()];
        for row_group in 0..self.trajectories.row_groups().len() {
            self.trajectories.scan(row_group, |rows| {
                for row in rows {
                    let Some(index) = self.find(&row.trajectory) else { continue };
                    let row = TrajectoryRow { source: String::new(), source_key: String::new(), ..row };
                    hashes[index].update(format!("{row:?}").as_bytes());
                }
            })?;
        }
        for (index, rate) in &self.rates {
            hashes[*index as usize].update(format!("{rate:?}").as_bytes());
        }
        Ok(hashes.iter().map(blake3::Hasher::finalize).collect())
    }

    /// Names and digests of the files; read once, at the first call.
    pub fn inputs(&self) -> anyhow::Result<&[Input]> {
        if let Some(inputs) = self.inputs.get() {
            return Ok(inputs);
        }
        let inputs = self.digests()?;
        Ok(self.inputs.get_or_init(|| inputs))
    }

    /// Whether the files can still be read and hold what they held at the first call of
    /// [`Self::inputs`]; reads them all.
    pub fn is_unchanged(&self) -> bool {
        let before = self.inputs.get();
        before.is_none_or(|before| self.digests().is_ok_and(|now| now == *before))
    }

    /// An error's text without the place of the data on this machine, for rows.
    pub fn placeless(&self, error: &anyhow::Error) -> String {
        let folder = self.dir.join("").display().to_string();
        format!("{error:#}").replace(&folder, "")
    }

    fn digests(&self) -> anyhow::Result<Vec<Input>> {
        let digest = |name: &str| {
            let read = publish::digest(self.files[name].from(0));
            let (sha256, bytes) =
                read.with_context(|| format!("cannot read {}", self.dir.join(name).display()))?;
            anyhow::Ok(Input { name: name.to_owned(), bytes, sha256 })
        };
        std::thread::scope(|s| {
            FILES
                .map(|name| s.spawn(move || digest(name)))
                .into_iter()
                .map(|t| t.join().map_err(|_| anyhow::anyhow!("digest of the data panicked"))?)
                .collect()
        })
    }

    fn changed(&self, id: &str) -> String {
        format!(
            "steps.parquet, features.parquet and trajectories.parquet in {} disagree about trajectory {id}\nhint: ingest and annotate again",
            self.dir.join("").display()
        )
    }

    fn read_partners(&mut self, table: &TableReader<PartnerRow>) -> anyhow::Result<()> {
        let mut unknown = None;
        for row_group in 0..table.row_groups().len() {
            let mut read = Vec::new();
            table.scan(row_group, |rows| read.extend(rows))?;
            for row in read {
                let (Some(index), Some(partner)) = (self.find(&row.trajectory), self.find(&row.partner))
                else {
                    unknown.get_or_insert(row.trajectory);
                    continue;
                };
                let kind = match self.partner_kinds.iter().position(|k| *k == row.kind) {
                    Some(kind) => kind,
                    None => {
                        self.partner_kinds.push(row.kind);
                        self.partner_kinds.len() - 1
                    }
                };
                let kind = u8::try_from(kind).context("too many kinds of partners")?;
                self.partners.push((index as u32, kind, row.rank, partner as u32));
            }
        }
        if let Some(id) = unknown {
            anyhow::bail!(
                "{} speaks of trajectory {id}, which has no steps\nhint: run `trajpress annotate {}` again",
                self.dir.join("partners.parquet").display(),
                self.dir.display()
            );
        }
        self.partners.sort_unstable();
        Ok(())
    }

    fn read_usage(&mut self) -> anyhow::Result<()> {
        for row_group in 0..self.usage.row_groups().len() {
            let mut read = Vec::new();
            self.usage.scan(row_group, |rows| read.extend(rows))?;
            for row in read {
                let index = self.find(&row.trajectory).with_context(|| {
                    let path = self.dir.join("usage.parquet");
                    format!("{} speaks of trajectory {}, which has no steps", path.display(), row.trajectory)
                })?;
                let rate =
                    Rate { turns: row.first_turn..row.end_turn, unseen: row.unseen, factor: row.factor };
                self.rates.push((index as u32, rate));
            }
        }
        self.rates.sort_by_key(|(index, rate)| (*index, rate.turns.start));
        Ok(())
    }
}

/// Files of the tables, in the order of a manifest.
const FILES: [&str; 5] =
    ["trajectories.parquet", "steps.parquet", "features.parquet", "partners.parquet", "usage.parquet"];

/// How often the data may be others between `annotate` and opening them.
const MOST_TRIES: usize = 20;

fn table<R: Row>(dir: &Path, files: &BTreeMap<&'static str, Held>) -> anyhow::Result<TableReader<R>> {
    let name = format!("{}.parquet", R::TABLE);
    TableReader::of(&dir.join(&name), files[name.as_str()].clone())
}

/// Whether the tables are others than those that were annotated.
fn has_moved_on(dir: &Path, annotated: &Annotated) -> bool {
    let hash = |name: &str| vouch::Made::of(&dir.join(name)).map(|made| made.blake3).unwrap_or_default();
    hash("steps.parquet") != annotated.steps_digest
        || hash("trajectories.parquet") != annotated.trajectories_digest
}

/// Refuses tables that are not what `ingest` and `annotate` wrote, or features of other steps; says of what these are.
fn vouched(dir: &Path, files: &BTreeMap<&'static str, Held>) -> anyhow::Result<serde_json::Value> {
    let ingest = format!("ingest LOGS --out {}", dir.display());
    let annotate = format!("annotate {}", dir.display());
    let open = |name: &str| Ok(files[name].clone());
    // Read before the tables are: so it speaks of none that came later.
    let note = reach::read(&dir.join("annotate.json"))?.unwrap_or_default();
    let ingested = vouch::check_open(dir, "ingest.json", &ingest, &INGESTED, &open)?;
    vouch::check_open(dir, "annotate.json", &annotate, &ANNOTATED, &open)?;
    let note: serde_json::Value = serde_json::from_slice(&note)?;
    for (of, name) in [("steps_digest", "steps.parquet"), ("trajectories_digest", "trajectories.parquet")] {
        anyhow::ensure!(
            ingested.get(name).is_some_and(|made| note[of] == made.blake3),
            "the features in {} are not those of its {name}, by annotate.json\nhint: run `trajpress {annotate}` again",
            dir.display()
        );
    }
    Ok(serde_json::json!([note["tokenizer"], note["features_version"]]))
}

/// Adds how to mend a table of `ingest`, unless the error says so itself.
fn ingest_again(error: anyhow::Error, dir: &Path) -> anyhow::Error {
    hinted(error, &format!("make it again with `trajpress ingest LOGS --out {}`", dir.display()))
}

/// Adds how to mend a table of `annotate`, unless the error says so itself. What is there is not made
/// again, so it must go first.
fn annotate_again(error: anyhow::Error, dir: &Path) -> anyhow::Error {
    let dir = dir.display();
    hinted(error, &format!("delete annotate.json there and run `trajpress annotate {dir}`"))
}

fn hinted(error: anyhow::Error, hint: &str) -> anyhow::Error {
    match format!("{error:#}") {
        text if text.contains("\nhint: ") => error,
        text => anyhow::anyhow!("{text}\nhint: {hint}"),
    }
}

/// Finds where each trajectory stands, from the ids, and whether its log records edits.
fn entries(
    steps: &TableReader<StepRow>,
    trajectories: &TableReader<TrajectoryRow>,
    dir: &Path,
) -> anyhow::Result<Vec<Entry>> {
    let keys: TableReader<StepKey> = steps.columns_of();
    let mut entries: Vec<Entry> = Vec::new();
    for row_group in 0..keys.row_groups().len() {
        let mut row = 0;
        keys.scan(row_group, |rows| {
            for key in rows {
                match entries.last_mut() {
                    Some(e) if e.row_group == row_group && e.id == key.trajectory => {
                        e.n_steps += 1;
                        e.is_edited |= key.edit_from.is_some();
                    }
                    _ => entries.push(Entry {
                        id: key.trajectory,
                        n_steps: 1,
                        is_edited: key.edit_from.is_some(),
                        row_group,
                        first_row: row,
                        row: (usize::MAX, 0),
                    }),
                }
                row += 1;
            }
        })?;
    }
    let by_id: HashMap<&str, usize> = entries.iter().enumerate().map(|(i, e)| (e.id.as_str(), i)).collect();
    let (keys, table) = (trajectories.columns_of::<TrajectoryKey>(), dir.join("trajectories.parquet"));
    let mut rows = Vec::new();
    for row_group in 0..keys.row_groups().len() {
        let mut row = 0;
        keys.scan(row_group, |batch| {
            for key in batch {
                rows.push((by_id.get(key.trajectory.as_str()).copied(), (row_group, row)));
                row += 1;
            }
        })?;
    }
    let mut without_steps = 0;
    for (index, place) in rows {
        match index {
            Some(index) => entries[index].row = place,
            None => without_steps += 1,
        }
    }
    if without_steps > 0 {
        tracing::warn!("{without_steps} trajectories of {} have no steps", table.display());
    }
    if let Some(lost) = entries.iter().find(|e| e.row.0 == usize::MAX) {
        anyhow::bail!(
            "trajectory {} has steps but no row in {}\nhint: ingest the logs again",
            lost.id,
            table.display()
        );
    }
    Ok(entries)
}

/// Joins neighbouring ranges.
pub(super) fn merge(ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::store::{TableWriter, step_rows};
    use crate::trajectory::{Kind, LoggedEdit, Role, step};

    /// Writes `n` trajectories `t00`, `t01`, ..; the i-th has i % 5 + 1 steps. Row groups hold three.
    pub(in crate::experiment) fn write(dir: &Path, n: usize) {
        fn create<R: Row>(dir: &Path) -> TableWriter<R> {
            TableWriter::create(&dir.join(format!("{}.parquet", R::TABLE)), usize::MAX).unwrap()
        }
        let (mut trajectories, mut steps) = (create::<TrajectoryRow>(dir), create::<StepRow>(dir));
        let (mut features, mut partners) = (create::<FeatureRow>(dir), create::<PartnerRow>(dir));
        let mut usage = create::<UsageRow>(dir);
        for i in 0..n {
            let id = format!("t{i:02}");
            let mut all: Vec<Step> = (0..i % 5 + 1)
                .map(|k| step(Role::Tool, Kind::Observation, format!("{id} step {k}")))
                .collect();
            // One of them was sent otherwise.
            if i == 2 {
                all[1].edit = Some(Box::new(LoggedEdit { from: 1, text: String::new() }));
            }
            features
                .push((0..all.len()).map(|k| FeatureRow {
                    trajectory: id.clone(),
                    step: k as u32,
                    tokens: k as u32,
                    action_kind: None,
                    path: None,
                    span_end: vec![1, 2],
                    span_tokens: vec![k as u32],
                    atom: vec![],
                    atom_kind: vec![],
                    atom_span: vec![],
                    atom_flags: vec![],
                }))
                .unwrap();
            let trajectory = Trajectory {
                id: id.clone(),
                source: format!("logs/{}", i % 2),
                format: if i % 2 == 0 { "even" } else { "odd" }.to_owned(),
                goal: Some(format!("goal {i}")),
                steps: all.clone(),
                ..Trajectory::default()
            };
            trajectories.push([TrajectoryRow::from(&trajectory)]).unwrap();
            steps.push(step_rows(&id, all)).unwrap();
            let partner = |kind: &str, rank, partner| PartnerRow {
                trajectory: id.clone(),
                kind: kind.to_owned(),
                rank,
                partner: format!("t{:02}", partner % n),
            };
            partners.push([partner("b", 0, i + 3), partner("a", 1, i + 2), partner("a", 0, i + 1)]).unwrap();
            if i % 3 == 2 {
                steps.end_row_group().unwrap();
                features.end_row_group().unwrap();
            }
        }
        trajectories.finish().unwrap();
        steps.finish().unwrap();
        features.finish().unwrap();
        partners.finish().unwrap();
        // Of one trajectory, later turns first.
        let row = |turn, unseen| UsageRow {
            trajectory: "t01".to_owned(),
            first_turn: turn,
            end_turn: turn + 3,
            unseen,
            factor: 1.5,
            ..UsageRow::default()
        };
        if n > 1 {
            usage.push([row(3, 70), row(0, 50)]).unwrap();
        }
        usage.finish().unwrap();
        vouch_for(dir);
    }

    /// The records of `ingest` and `annotate` for what is in the folder.
    pub(in crate::experiment) fn vouch_for(dir: &Path) {
        let of = |names: &[&str]| -> vouch::Tables {
            names.iter().map(|name| ((*name).to_owned(), vouch::Made::of(&dir.join(name)).unwrap())).collect()
        };
        let ingested = of(&INGESTED);
        let annotated = serde_json::json!({
            "tables": of(&ANNOTATED),
            "steps_digest": ingested["steps.parquet"].blake3,
            "trajectories_digest": ingested["trajectories.parquet"].blake3,
        });
        std::fs::write(dir.join("annotate.json"), vouch::seal(&format!("{annotated:#}")).unwrap()).unwrap();
        let ingested = serde_json::json!({ "tables": ingested });
        std::fs::write(dir.join("ingest.json"), vouch::seal(&format!("{ingested:#}")).unwrap()).unwrap();
    }

    fn texts(loaded: &Trajectory) -> Vec<&str> {
        loaded.steps.iter().map(|s| s.text.as_str()).collect()
    }

    #[test]
    fn loads_any_trajectories_of_any_row_groups() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 10);
        let data = Dataset::open(dir.path()).unwrap();
        assert_eq!(data.entries().len(), 10);
        let edited = data.entries().iter().filter(|e| e.is_edited).map(|e| e.id.as_str());
        assert_eq!(edited.collect::<Vec<_>>(), ["t02"]);
        let groups: Vec<usize> = data.entries().iter().map(|e| e.row_group).collect();
        assert_eq!(groups, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]);
        let read: Vec<Trajectory> = [1, 5, 9].iter().map(|&i| data.trajectory(i).unwrap()).collect();
        assert_eq!(texts(&read[0]), ["t01 step 0", "t01 step 1"]);
        assert_eq!(texts(&read[1]), ["t05 step 0"]);
        assert_eq!(data.features(9).unwrap().filter(Result::is_ok).count(), 5);
        assert_eq!(read[2].goal.as_deref(), Some("goal 9"));
    }

    #[test]
    fn selects_and_finds() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 10);
        let data = Dataset::open(dir.path()).unwrap();
        let odd = Filter { formats: vec!["odd".to_owned()], ..Filter::default() };
        assert_eq!(data.select(&odd, 1, None).unwrap(), [1, 3, 5, 7, 9]);
        assert_eq!(data.select(&odd, 1, Some(2)).unwrap(), [1, 3]);
        let some = Filter { sources: vec!["logs/0".to_owned()], ..Filter::default() };
        assert_eq!(data.select(&some, 1, None).unwrap(), [0, 2, 4, 6, 8]);
        let three = Filter { sample: Some(3), ..Filter::default() };
        let drawn = data.select(&three, 1, None).unwrap();
        assert_eq!(drawn.len(), 3);
        assert!(drawn.iter().any(|i| i % 2 == 0) && drawn.iter().any(|i| i % 2 == 1), "{drawn:?}");
        assert!((2..9).any(|seed| data.select(&three, seed, None).unwrap() != drawn));
        let most = Filter { sample: Some(9), ..odd };
        assert_eq!(data.select(&most, 1, None).unwrap(), [1, 3, 5, 7, 9]);
        assert_eq!(data.find("t07"), Some(7));
        assert_eq!(data.find("t7"), None);
        let partners: Vec<(&str, usize)> = data.partners(8).map(|p| (p.kind, p.index)).collect();
        assert_eq!(partners, [("b", 1), ("a", 9), ("a", 0)]);
        assert_eq!(data.inputs().unwrap()[1].name, "steps.parquet");
    }

    #[test]
    fn a_log_knows_how_its_prompts_were_counted() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 10);
        let data = Dataset::open(dir.path()).unwrap();
        assert_eq!(data.usage(1).unwrap().len(), 2);
        let mut rates = data.rates.iter().map(|(index, rate)| (*index, rate.unseen));
        assert_eq!((rates.next(), rates.next(), rates.next()), (Some((1, 50)), Some((1, 70)), None));
    }

    /// A writer puts new files in the place of the old ones.
    #[test]
    fn what_is_open_stays_what_it_was() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(dir.path(), 10);
        write(other.path(), 4);
        let data = Dataset::open(dir.path()).unwrap();
        let before = data.inputs().unwrap().to_vec();
        for name in FILES {
            std::fs::rename(other.path().join(name), dir.path().join(name)).unwrap();
        }
        assert_eq!(texts(&data.trajectory(9).unwrap()).len(), 5);
        assert_eq!(data.longest_prompts().unwrap().len(), 10);
        assert_eq!(data.select(&Filter::default(), 1, None).unwrap().len(), 10);
        assert_eq!((data.usage(1).unwrap().len(), data.contents().unwrap().len()), (2, 10));
        assert!(data.is_unchanged() && data.inputs().unwrap() == before);
        // The records are of the old ones still.
        assert!(Dataset::open(dir.path()).is_err());
        vouch_for(dir.path());
        assert_eq!(Dataset::open(dir.path()).unwrap().entries().len(), 4);
    }

    #[test]
    fn damaged_tables_are_named_with_how_to_mend_them() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 10);
        for (table, command) in [
            ("steps", "trajpress ingest"),
            ("trajectories", "trajpress ingest"),
            ("features", "trajpress annotate"),
            ("partners", "trajpress annotate"),
            ("usage", "trajpress annotate"),
        ] {
            let path = dir.path().join(format!("{table}.parquet"));
            let good = std::fs::read(&path).unwrap();
            // Without its end, and without a first page.
            let mut holed = good.clone();
            holed[4..80].fill(0);
            for bad in [&good[..good.len() / 2], &holed[..]] {
                std::fs::write(&path, bad).unwrap();
                let Some(error) = Dataset::open(dir.path()).err().map(|e| format!("{e:#}")) else {
                    // The features are read later.
                    assert_eq!(table, "features");
                    continue;
                };
                let (what, hint) = error.split_once("\nhint: ").expect(&error);
                assert!(what.contains(&path.display().to_string()) && hint.contains(command), "{error}");
            }
            std::fs::write(&path, good).unwrap();
        }
        Dataset::open(dir.path()).unwrap();
        std::fs::write(dir.path().join("_manifest.json"), "{}").unwrap();
        assert!(Dataset::open(dir.path()).err().unwrap().to_string().contains("is a run"));
    }

    #[test]
    fn missing_tables_say_how_to_make_them() {
        let dir = tempfile::tempdir().unwrap();
        let error = |dir: &Path| Dataset::open(dir).err().map(|e| format!("{e:#}")).unwrap();
        assert!(error(dir.path()).contains("trajpress ingest"));
        write(dir.path(), 1);
        std::fs::remove_file(dir.path().join("features.parquet")).unwrap();
        assert!(error(dir.path()).contains("trajpress annotate"));
    }
}
