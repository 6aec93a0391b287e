//! What a dataset holds already, into the new tables behind what was read anew.
//!
//! Row groups without a row that goes are taken over as they are stored. Order is that of the record in all files, so that
//! the rows of a file are found by counting.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use anyhow::Context as _;

use crate::store::{StepKey, StepRow, TableReader, TrajectoryKey, TrajectoryRow};

use super::input::Input;
use super::output::{Output, ROW_GROUP_BYTES, cannot_write};
use super::record::{Fate, FileRecord, Known, KnownFile, hex, key};
use super::report::{Duplicate, RunName};
use super::sessions::{Beginning, GoneSession, Hashes, is_timed, with_time};

/// The rows of a table in order, a row group in memory.
struct Rows {
    reader: TableReader<TrajectoryRow>,
    group: usize,
    rows: VecDeque<TrajectoryRow>,
}

impl Rows {
    fn open(dir: &Path) -> anyhow::Result<Self> {
        let reader = TableReader::open(&dir.join("trajectories.parquet"))?;
        Ok(Rows { reader, group: 0, rows: VecDeque::new() })
    }

    fn next(&mut self) -> anyhow::Result<TrajectoryRow> {
        while self.rows.is_empty() && self.group < self.reader.row_groups().len() {
            self.reader.scan(self.group, |rows| self.rows.extend(rows))?;
            self.group += 1;
        }
        self.rows.pop_front().context("trajectories.parquet has fewer rows than ingest.json says")
    }
}

fn number(id: &str) -> anyhow::Result<u128> {
    u128::from_str_radix(id, 16).context("an id is a hex number")
}

/// The sessions that are known of files which are not there any more and begin like one that is read, by
/// number.
pub(super) fn gone_sessions(
    known: &Known,
    dir: &Path,
    origins: &[Option<u128>],
) -> anyhow::Result<HashMap<usize, GoneSession>> {
    let wanted: HashSet<u128> = origins.iter().copied().flatten().collect();
    let is_one =
        |file: &KnownFile| file.fate == Fate::Gone && file.origin.is_some_and(|o| wanted.contains(&o));
    let mut found = HashMap::new();
    if !known.files.iter().any(is_one) {
        return Ok(found);
    }
    let mut rows = Rows::open(dir)?;
    let mut sessions: HashMap<String, (usize, GoneSession, Hashes)> = HashMap::new();
    for (k, file) in known.files.iter().enumerate() {
        let mut is_first = true;
        for _ in 0..file.n_trajectories {
            let row = rows.next()?;
            if let Some(origin) = file.origin.filter(|_| is_one(file) && is_first && row.parent.is_none()) {
                let session = GoneSession {
                    origin,
                    up_to: Vec::new(),
                    has_usage: false,
                    source_key: row.source_key,
                    is_timed: is_timed(&row.format),
                };
                sessions.insert(row.trajectory, (k, session, Hashes::default()));
                is_first = false;
            }
        }
    }
    let steps: TableReader<StepRow> = TableReader::open(&dir.join("steps.parquet"))?;
    for group in 0..steps.row_groups().len() {
        steps.scan(group, |rows| {
            for row in rows {
                if let Some((_, session, hashes)) = sessions.get_mut(&*row.trajectory) {
                    session.has_usage |= row.usage_in.is_some();
                    let time = row.time.filter(|_| session.is_timed).map(|time| time.0);
                    let tool = with_time(row.tool.as_deref(), time);
                    hashes.add(&row.role, &row.kind, &row.text, Some(&tool));
                }
            }
        })?;
    }
    for (k, session, hashes) in sessions.into_values() {
        found.insert(origins.len() + k, GoneSession { up_to: hashes.up_to, ..session });
    }
    Ok(found)
}

impl Output {
    /// Takes note of the runs of files that stay: who reads one of them again has a duplicate. What is read again of a file
    /// that is gone takes its place: it was renamed, or packed.
    pub(super) fn know(&mut self, known: &Known) -> anyhow::Result<()> {
        self.names.extend(known.files.iter().map(|file| file.name.clone()));
        if known.files.is_empty() {
            return Ok(());
        }
        if known.files.iter().any(|file| file.fate == Fate::Gone) {
            self.keys = Some(HashSet::new());
        }
        let keys: TableReader<TrajectoryKey> = TableReader::open(&self.dir.join("trajectories.parquet"))?;
        let mut files = known.files.iter().enumerate();
        let (mut file, mut n_left) = (None, 0);
        for group in 0..keys.row_groups().len() {
            let mut rows = Vec::new();
            keys.scan(group, |batch| rows.extend(batch))?;
            for row in rows {
                while n_left == 0 {
                    file = files.next();
                    n_left = file.context("ingest.json tells of too few runs")?.1.n_trajectories;
                }
                n_left -= 1;
                if let Some((k, file)) = file.filter(|(_, file)| matches!(file.fate, Fate::Stays(_))) {
                    let id = number(file.log_ids.get(&row.trajectory).unwrap_or(&row.trajectory))?;
                    self.seen.insert(id, (self.n_inputs + k) as u32);
                }
            }
        }
        Ok(())
    }

    /// Takes over what stays beside `inputs`, which are those of `all` that were read; `beginnings` may say of a session that one which was read goes on.
    pub(super) fn keep(
        &mut self,
        known: &Known,
        all: &[Input],
        inputs: &[Input],
        beginnings: &HashMap<usize, Beginning>,
    ) -> anyhow::Result<()> {
        if known.files.is_empty() {
            return Ok(());
        }
        let read: HashSet<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        let rejects = self.dir.join("rejects.jsonl");
        let rejects =
            std::fs::File::open(&rejects).with_context(|| format!("cannot read {}", rejects.display()))?;
        let mut rejects = BufReader::new(rejects).lines();
        let mut duplicates = known.report.duplicates.iter();
        let mut rows = Rows::open(&self.dir)?;
        let mut going = HashSet::new();
        for (k, file) in known.files.iter().enumerate() {
            let (n, stays) = (file.n_trajectories, file.fate != Fate::Goes);
            self.file = serde_json::from_str::<FileRecord>(file.about.get())?;
            self.file.parts.clone_from(&file.parts);
            let old = duplicates.by_ref().take(file.n_duplicates as usize);
            self.report.duplicates.extend(old.filter(|_| stays).cloned());
            for line in rejects.by_ref().take(file.n_rejects as usize) {
                let line = line.context("cannot read rejects.jsonl")?;
                if stays {
                    writeln!(self.rejects, "{line}")
                        .with_context(|| cannot_write(&self.dir, "rejects.jsonl"))?;
                }
            }
            for _ in 0..n {
                let row = rows.next()?;
                let id = number(&row.trajectory)?;
                if !stays || !self.keep_run(row, file, beginnings.get(&(self.n_inputs + k)), &read)? {
                    going.insert(id);
                }
            }
            if stays {
                self.end_kept(file, all)?;
            }
        }
        self.before.n_runs_gone = going.len() as u64;
        self.keep_steps(&going)
    }

    /// Takes over a run; says whether it stays.
    fn keep_run(
        &mut self,
        mut row: TrajectoryRow,
        file: &KnownFile,
        beginning: Option<&Beginning>,
        read: &HashSet<&str>,
    ) -> anyhow::Result<bool> {
        let id = number(file.log_ids.get(&row.trajectory).unwrap_or(&row.trajectory))?;
        let again = self.seen.get(&id).map(|first| *first as usize).filter(|first| *first < self.n_inputs);
        let repeats = match (beginning, again) {
            (Some(Beginning::Whole(other)), _) if row.parent.is_none() => Some(self.names[*other].clone()),
            (_, Some(again)) if file.fate == Fate::Gone => Some(self.names[again].clone()),
            _ => None,
        };
        let key = key(&row.source_key);
        let is_newer = file.fate == Fate::Gone && self.keys.as_ref().is_some_and(|keys| keys.contains(&key));
        if repeats.is_some() || is_newer {
            self.file.trajectories -= 1;
            self.file.steps = self.file.steps.saturating_sub(u64::from(row.n_steps));
            self.file.text_bytes = self.file.text_bytes.saturating_sub(row.n_bytes);
            if let Some(repeats) = repeats {
                self.file.duplicates += 1;
                self.file.repeats.insert(repeats.clone());
                let (trajectory, source) = (row.trajectory, row.source);
                self.report.duplicates.push(Duplicate { trajectory, source, repeats });
            }
            return Ok(false);
        }
        // What a label file said that was read again, it says again.
        if row.label_source.as_deref().is_some_and(|label| read.contains(label)) {
            (row.resolved, row.label_source) = (None, None);
        }
        if row.resolved.is_some() && row.label_source.as_deref().is_some_and(|label| label != "log") {
            self.report.formats.entry(row.format.clone()).or_default().labelled += 1;
        }
        if row.n_turns == 0 {
            let (trajectory, source) = (row.trajectory.clone(), row.source.clone());
            self.report.without_turns.push(RunName { trajectory, source });
        }
        self.dataset.update(row.trajectory.as_bytes());
        self.report.trajectories += 1;
        self.report.steps += u64::from(row.n_steps);
        self.trajectories.push([row])?;
        Ok(true)
    }

    /// Counts a file that was not read again.
    fn end_kept(&mut self, file: &KnownFile, all: &[Input]) -> anyhow::Result<()> {
        match file.fate {
            Fate::Stays(i) => {
                self.file.place = hex(all[i].place);
                self.before.n_known += file.n_files();
            }
            _ => self.before.n_gone += file.n_files(),
        }
        let about = std::mem::take(&mut self.file);
        self.report.rejects += about.rejects;
        self.report.lost_records += about.rejects;
        self.count_file(about)
    }

    /// Copies the steps but those of the runs that go.
    fn keep_steps(&mut self, going: &HashSet<u128>) -> anyhow::Result<()> {
        let path = self.dir.join("steps.parquet");
        let (keys, steps) = (TableReader::<StepKey>::open(&path)?, TableReader::<StepRow>::open(&path)?);
        let goes = |id: &str| number(id).is_ok_and(|id| going.contains(&id));
        for (group, n_rows) in steps.row_groups().into_iter().enumerate() {
            let mut has_going = false;
            if !going.is_empty() {
                keys.scan(group, |rows| has_going |= rows.iter().any(|row| goes(&row.trajectory)))?;
            }
            // Small ones become one: many small additions would leave many small row groups.
            if !has_going && steps.row_group_bytes(group) >= ROW_GROUP_BYTES / 2 {
                self.steps.copy(&steps, group)?;
                continue;
            }
            // Row by row: a run may be long.
            let mut is_read = Ok(());
            let mut rows = steps
                .rows(group, 0..n_rows)?
                .map_while(|row| row.map_err(|error| is_read = Err(error)).ok())
                .filter(|row| !goes(&row.trajectory))
                .peekable();
            while let Some(first) = rows.next() {
                let id = first.trajectory.clone();
                let rest = std::iter::from_fn(|| rows.next_if(|row| row.trajectory == id));
                self.steps.push(std::iter::once(first).chain(rest))?;
            }
            drop(rows);
            is_read?;
        }
        Ok(())
    }
}
