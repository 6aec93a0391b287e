//! Opens a dataset, again where its files change meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::Context as _;

use crate::annotate::{ANNOTATED, Annotated, INGESTED, annotate};
use crate::files::held::Held;
use crate::files::lock::Lock;
use crate::files::{reach, vouch};
use crate::store::{
    FeatureRow, PartnerRow, Row, StepKey, StepRow, TableReader, TrajectoryKey, TrajectoryRow, UsageRow,
};

use super::blocks::Blocks;
use super::{Dataset, Entry};

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
        let (entries, n_bytes) = entries(&steps, &trajectories, dir).map_err(|e| ingest_again(e, dir))?;
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
            blocks: Blocks::of(&entries, &n_bytes),
            entries,
            by_id,
            partner_kinds: Vec::new(),
            partners: Vec::new(),
            asked: Vec::new(),
            rates: Vec::new(),
            inputs: OnceLock::new(),
            features_of,
            chains: Vec::new(),
            is_linked: false,
        };
        data.read_partners(&partners).map_err(|e| annotate_again(e, dir))?;
        data.read_usage().map_err(|e| annotate_again(e, dir))?;
        Ok(data)
    }
}

/// Files of the tables, in the order of a manifest.
pub(super) const FILES: [&str; 5] =
    ["trajectories.parquet", "steps.parquet", "features.parquet", "partners.parquet", "usage.parquet"];

/// How often the data may be others between `annotate` and opening them.
const MOST_TRIES: usize = 20;

pub(super) fn table<R: Row>(
    dir: &Path,
    files: &BTreeMap<&'static str, Held>,
) -> anyhow::Result<TableReader<R>> {
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

/// Finds where each trajectory stands, from the ids, and whether its log records edits; beside them the bytes of their texts.
pub(super) fn entries(
    steps: &TableReader<StepRow>,
    trajectories: &TableReader<TrajectoryRow>,
    dir: &Path,
) -> anyhow::Result<(Vec<Entry>, Vec<u64>)> {
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
                rows.push((by_id.get(key.trajectory.as_str()).copied(), (row_group, row), key.n_bytes));
                row += 1;
            }
        })?;
    }
    let (mut without_steps, mut all_bytes) = (0, vec![0; entries.len()]);
    for (index, place, n_bytes) in rows {
        match index {
            Some(index) => (entries[index].row, all_bytes[index]) = (place, n_bytes),
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
    Ok((entries, all_bytes))
}

/// Joins neighbouring ranges.
pub fn merge(ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => merged.push(range),
        }
    }
    merged
}
