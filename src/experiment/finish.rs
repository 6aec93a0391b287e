//! Joins the parts of a run into its final tables and says that the run is complete.
//!
//! The tables are in the order of the data, and within a trajectory in the order of the plan, so
//! that their bytes do not depend on how the run was cut, sharded or interrupted. Reads part by part.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::before::{self, Before};
use super::dataset::Dataset;
use super::plan::{Plan, Variant};
use super::publish::{self, Published, Scratch};
use super::rows::CellPart;
pub use super::success::{FinalTable, Success};
use super::units::Unit;
use super::units::part;
use crate::files::vouch;
use crate::store::{
    CellRow, CellStatus, ContextRow, EventRow, ItemRow, Row, SampleRow, ScoreRow, TableReader, TableWriter,
    TimelineRow, TrajectoryRow, VariantRow,
};
use crate::strategies;
use crate::text::escape;
use crate::text::redact::redact;

/// In-memory bytes of a row group of a final table; of tests, so that their tables have several.
const ROW_GROUP: usize = if cfg!(test) { 2 << 10 } else { 16 << 20 };

/// Whether the run was finished before, with these very inputs, and its tables are still there.
pub(super) fn is_complete(out: &Path, manifest: &str) -> anyhow::Result<bool> {
    match Success::read(out)? {
        Some(success) => Ok(success.manifest == manifest && success.damaged(out)?.is_none()),
        None => Ok(false),
    }
}

/// Whether some run is complete here, be its tables damaged or not.
pub(super) fn is_finished(out: &Path) -> anyhow::Result<bool> {
    Ok(Success::read(out)?.is_some())
}

/// What became of the cells of a finished run.
#[derive(Default)]
pub(super) struct Cells {
    pub(super) ok: u64,
    pub(super) error: u64,
    pub(super) first_error: Option<String>,
    /// Those that have this one.
    pub(super) like_it: u64,
}

/// Counts scored and failed cells of a finished run.
pub(super) fn count_cells(out: &Path) -> anyhow::Result<Cells> {
    let table: TableReader<CellStatus> =
        TableReader::open(&out.join(format!("{}.parquet", CellStatus::TABLE)))?;
    let mut cells = Cells::default();
    for row_group in 0..table.row_groups().len() {
        table.scan(row_group, |rows| {
            for row in rows {
                if row.status == "ok" {
                    cells.ok += 1;
                    continue;
                }
                cells.error += 1;
                let error = row.error.unwrap_or_default();
                let first = cells.first_error.get_or_insert_with(|| error.clone());
                cells.like_it += u64::from(*first == error);
            }
        })?;
    }
    Ok(cells)
}

/// Writes the final tables, then `_SUCCESS`. All units must be published. Returns 1 if an earlier
/// `_SUCCESS` names other bytes, else 0.
pub(super) fn finish(
    (plan, data): (&Plan, &Dataset),
    (selection, sample): (&[usize], &[SampleRow]),
    units: &[Unit],
    out: &Path,
    scratch: &Scratch,
    manifest: &str,
) -> anyhow::Result<usize> {
    let mut join =
        Join { data, selection, groups: groups(plan, units), out, scratch, before: Before::default() };
    let cells = join.table::<CellRow>()?;
    join.before = Before::open(out);
    let mut tables = vec![
        cells,
        join.table::<EventRow>()?,
        join.table::<ItemRow>()?,
        join.table::<TimelineRow>()?,
        join.table::<ScoreRow>()?,
    ];
    if plan.contexts {
        tables.push(join.table::<ContextRow>()?);
    }
    tables.push(write(out, scratch, |writer| {
        writer.push(plan.variants.iter().map(variant_row).collect::<anyhow::Result<Vec<_>>>()?)
    })?);
    tables.push(write::<TrajectoryRow>(out, scratch, |writer| {
        selection
            .chunks(256)
            .try_for_each(|some| writer.push(data.trajectory_rows(some)?.into_iter().map(without_text)))
    })?);
    if !sample.is_empty() {
        tables.push(write(out, scratch, |writer| writer.push(sample.to_vec()))?);
    }
    let success = Success { manifest: manifest.to_owned(), tables };
    let text = vouch::seal(&escape::json(&success)?)?;
    // What stays does no harm, and others may be at the same.
    let _ = before::forget(out);
    let to = out.join("_SUCCESS");
    if scratch.create(&to, text.as_bytes())? == Published::Differs {
        tracing::warn!("NONDETERMINISTIC: {} was written before for tables of other bytes", to.display());
        return Ok(1);
    }
    Ok(0)
}

/// What a run keeps of a session beside its scores. The task names it to a reader, and has neither keys nor personal data; other
/// words of the log stand in the data alone.
fn without_text(mut row: TrajectoryRow) -> TrajectoryRow {
    (row.constraints, row.annotations) = (Vec::new(), None);
    let texts = row.goal.as_mut().into_iter().chain([&mut row.source]).chain(row.label_source.as_mut());
    redact(&mut texts.collect::<Vec<_>>());
    row
}

/// Groups of variants, each with its units in the order of the data.
fn groups<'a>(plan: &'a Plan, units: &'a [Unit]) -> Vec<(Vec<&'a Variant>, &'a [Unit])> {
    let units = units.chunk_by(|a, b| a.group == b.group);
    plan.groups().into_iter().map(|(_, variants)| variants).zip(units).collect()
}

fn variant_row(v: &Variant) -> anyhow::Result<VariantRow> {
    let control = match &v.policy {
        Some(policy) => policy.is_control()?,
        None => strategies::build(&v.strategy, v.strategy_params.clone())?.is_control(),
    };
    Ok(VariantRow {
        variant: v.id.clone(),
        label: v.label.clone(),
        strategy: v.strategy.clone(),
        strategy_params: serde_json::to_string(&v.strategy_params)?,
        trigger: v.trigger.clone(),
        trigger_params: serde_json::to_string(&v.trigger_params)?,
        model: v.model.clone(),
        control,
        seed: v.seed,
    })
}

/// Writes one table to scratch, moves it in place and describes it.
fn write<R: Row>(
    out: &Path,
    scratch: &Scratch,
    rows: impl FnOnce(&mut TableWriter<R>) -> anyhow::Result<()>,
) -> anyhow::Result<FinalTable> {
    let name = format!("{}.parquet", R::TABLE);
    let from = scratch.path(&name);
    let mut writer = TableWriter::create(&from, ROW_GROUP)?;
    rows(&mut writer)?;
    let rows = writer.finish()?;
    let (sha256, bytes) = publish::sha256(&from)?;
    publish::replace(&from, &out.join(&name))?;
    Ok(FinalTable { path: name, sha256, rows, bytes })
}

struct Join<'a> {
    data: &'a Dataset,
    selection: &'a [usize],
    groups: Vec<(Vec<&'a Variant>, &'a [Unit])>,
    out: &'a Path,
    scratch: &'a Scratch,
    before: Before,
}

impl Join<'_> {
    fn table<R: CellPart>(&self) -> anyhow::Result<FinalTable> {
        write(self.out, self.scratch, |writer| {
            let n_copied = self.before.copy(writer)?;
            let mut streams = self.streams::<R>(n_copied)?;
            for &index in &self.selection[n_copied..] {
                let id = &self.data.entries()[index].id;
                for (stream, variants) in &mut streams {
                    let mut cells = Vec::new();
                    while let Some(row) = stream.next_of(id)? {
                        if R::TABLE == CellRow::TABLE {
                            cells.push(row.variant().to_owned());
                        }
                        writer.add(row)?;
                    }
                    anyhow::ensure!(
                        R::TABLE != CellRow::TABLE || cells.iter().eq(variants.iter().map(|v| &v.id)),
                        "the parts of trajectory {id} hold {} of {} cells\nhint: delete the folder `parts` and run again",
                        cells.len(),
                        variants.len()
                    );
                }
                writer.may_end()?;
            }
            for (stream, _) in &mut streams {
                if let Some(row) = stream.peek()? {
                    anyhow::bail!(
                        "the parts of `{}` hold rows of trajectory {}, out of place\nhint: delete the folder `parts` and run again",
                        R::TABLE,
                        row.trajectory()
                    );
                }
            }
            Ok(())
        })
    }

    /// The rows of the groups of variants, from a session on.
    fn streams<R: CellPart>(&self, from: usize) -> anyhow::Result<Vec<(Stream<R>, &[&Variant])>> {
        let first = self.selection.get(from).copied().unwrap_or(usize::MAX);
        let mut streams = Vec::new();
        for (variants, units) in &self.groups {
            let units =
                || units.iter().filter(|unit| unit.trajectories.last().is_some_and(|&last| last >= first));
            let earlier = units().flat_map(|unit| &unit.trajectories).filter(|&&index| index < first);
            let earlier: HashSet<&str> = earlier.map(|&i| self.data.entries()[i].id.as_str()).collect();
            let mut stream: Stream<R> = Stream::new(units().map(|u| part(self.out, R::TABLE, u)).collect());
            while stream.peek()?.is_some_and(|row| earlier.contains(row.trajectory())) {
                stream.next = None;
            }
            streams.push((stream, &**variants));
        }
        Ok(streams)
    }
}

/// The rows of some parts one after the other, few in memory at a time.
struct Stream<R: Row> {
    parts: VecDeque<PathBuf>,
    /// The open part and its next row group.
    open: Option<(TableReader<R>, PathBuf, usize)>,
    rows: Box<dyn Iterator<Item = anyhow::Result<R>>>,
    next: Option<R>,
}

impl<R: CellPart> Stream<R> {
    fn new(parts: VecDeque<PathBuf>) -> Self {
        Stream { parts, open: None, rows: Box::new(std::iter::empty()), next: None }
    }

    /// The next row, if there is one.
    fn peek(&mut self) -> anyhow::Result<Option<&R>> {
        while self.next.is_none() {
            let hint = |path: &Path| format!("hint: delete {} and run again", path.display());
            match &mut self.open {
                Some((reader, path, row_group)) => {
                    if let Some(row) = self.rows.next() {
                        self.next = Some(row.with_context(|| hint(path))?);
                    } else if let Some(&n) = reader.row_groups().get(*row_group) {
                        self.rows = Box::new(reader.rows(*row_group, 0..n).with_context(|| hint(path))?);
                        *row_group += 1;
                    } else {
                        self.open = None;
                    }
                }
                None => {
                    let Some(path) = self.parts.pop_front() else {
                        return Ok(None);
                    };
                    self.open = Some((TableReader::open(&path)?, path, 0));
                }
            }
        }
        Ok(self.next.as_ref())
    }

    /// The next row, if it is one of this trajectory.
    fn next_of(&mut self, trajectory: &str) -> anyhow::Result<Option<R>> {
        let is_of = self.peek()?.is_some_and(|row| row.trajectory() == trajectory);
        Ok(if is_of { self.next.take() } else { None })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_run_keeps_the_task_without_keys_and_no_other_text() {
        let row = without_text(TrajectoryRow {
            goal: Some("Mail nina.p@gmail.com, the password is kD83nfQz71xLw92.".to_owned()),
            constraints: vec!["never push".to_owned()],
            annotations: Some("{\"facts\":[\"a line\"]}".to_owned()),
            source: "/Users/nina/logs/a.jsonl".to_owned(),
            ..TrajectoryRow::default()
        });
        let goal = row.goal.unwrap();
        assert!(goal.starts_with("Mail <email-1>, the password is <"), "{goal}");
        assert!(!goal.contains("kD83nf") && !row.source.contains("nina"), "{goal} {}", row.source);
        assert!(row.constraints.is_empty() && row.annotations.is_none());
    }

    #[test]
    fn rows_that_are_kept_for_reports_are_what_was_kept() {
        let reports = Path::new(env!("CARGO_MANIFEST_DIR")).join("reports");
        let folders = fs::read_dir(reports).unwrap().map(|entry| entry.unwrap().path().join("rows"));
        let kept: Vec<PathBuf> = folders.filter(|rows| rows.is_dir()).collect();
        assert!(!kept.is_empty());
        for rows in &kept {
            let said = Success::kept(rows).unwrap().unwrap_or_else(|| panic!("{}", rows.display()));
            assert_eq!(said.damaged(rows).unwrap(), None);
        }
        // A table that was changed since is told.
        let dir = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(&kept[0]).unwrap().map(Result::unwrap) {
            fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
        let cells = dir.path().join("cells.parquet");
        let mut bytes = fs::read(&cells).unwrap();
        bytes[9] ^= 1;
        fs::write(&cells, bytes).unwrap();
        let said = Success::kept(dir.path()).unwrap().unwrap();
        assert!(said.damaged(dir.path()).unwrap().unwrap().contains("cells.parquet"));
    }
}
