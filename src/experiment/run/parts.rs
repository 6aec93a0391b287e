//! `RUN/parts/`: the rows of units, published with their digests, and set aside where they are damaged.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context as _;

use super::super::dataset::Dataset;
use super::super::plan::Plan;
use super::super::publish::{self, Published, Scratch};
use super::super::rows::{CellPart, UnitRows};
use super::super::units::{self, Unit, part, part_of};
use crate::files::{reach, whole};
use crate::programs::may_pass;
use crate::store::{
    CellRow, CellStatus, ContextRow, EventRow, ItemRow, Row, ScoreRow, TableReader, TableWriter, TimelineRow,
    UnitRow,
};
use crate::text::escape;

/// In-memory bytes of a row group of a part: what joining the parts holds of each at a time.
const PART_ROW_GROUP: usize = 8 << 20;

/// Where the digests of a unit's parts are published: JSON, by table.
pub(super) fn digests(out: &Path, group: &str, id: &str) -> PathBuf {
    part_of(out, "digests", group, id).with_extension("json")
}

/// The tables of a unit; the last one publishes it.
pub(super) fn tables(plan: &Plan) -> impl DoubleEndedIterator<Item = &'static str> + use<> {
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
pub(super) fn is_published(out: &Path, unit: &Unit) -> anyhow::Result<bool> {
    reach::is_there(&part(out, CellRow::TABLE, unit))
}

/// Those that are not published.
pub(super) fn unpublished<'u>(
    out: &Path,
    units: impl IntoIterator<Item = &'u Unit>,
) -> anyhow::Result<Vec<&'u Unit>> {
    let mut left = Vec::new();
    for unit in units {
        if !is_published(out, unit)? {
            left.push(unit);
        }
    }
    Ok(left)
}

/// Whether the parts of a published unit are what was published.
pub(super) fn is_sound(plan: &Plan, out: &Path, group: &str, id: &str) -> anyhow::Result<bool> {
    let known = reach::read(&digests(out, group, id))?;
    let known: BTreeMap<String, String> =
        known.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    for table in tables(plan) {
        let path = part_of(out, table, group, id);
        if !reach::is_there(&path)? || known.get(table) != Some(&publish::sha256(&path)?.0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Published units with cells that failed for what may be mended by now: those are done again.
pub(super) fn to_try_again<'u>(out: &Path, units: &[&'u Unit]) -> Vec<&'u Unit> {
    let may_pass = |row: &CellStatus| row.error.as_deref().is_some_and(may_pass);
    let mut found = Vec::new();
    for unit in units {
        // What cannot be read is told where it is checked.
        let Ok(table) = TableReader::<CellStatus>::open(&part(out, CellRow::TABLE, unit)) else { continue };
        let mut is_one = false;
        for row_group in 0..table.row_groups().len() {
            let _ = table.scan(row_group, |rows| is_one |= rows.iter().any(may_pass));
        }
        found.extend(is_one.then_some(*unit));
    }
    found
}

/// Deletes the parts of a unit, so that it is done again.
pub(super) fn remove(plan: &Plan, out: &Path, unit: &Unit) -> anyhow::Result<()> {
    // `cells` first: without it the unit is not published.
    let parts = tables(plan).rev().map(|table| part(out, table, unit));
    for path in parts.chain([digests(out, &unit.group, &unit.id)]) {
        whole::remove(&path)?;
    }
    Ok(())
}

/// Moves published units that are not sound out of the way, so that they are done again.
pub(super) fn set_aside<'u>(plan: &Plan, out: &Path, units: &'u [Unit]) -> anyhow::Result<Vec<&'u Unit>> {
    let mut damaged = Vec::new();
    for unit in units {
        if !is_published(out, unit)? || is_sound(plan, out, &unit.group, &unit.id)? {
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
        for (table, from) in parts.chain([("digests", digests(out, &unit.group, &unit.id))]) {
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

/// Deletes the parts of units that are none of this run: what they hold stands in parts of this one, or is of no use.
pub(super) fn prune(out: &Path, units: &[Unit]) -> anyhow::Result<()> {
    let own: HashSet<(&str, &str)> =
        units.iter().map(|unit| (unit.group.as_str(), unit.id.as_str())).collect();
    let mut tables = units::listed(&units::parts(out))?;
    // `cells` first: without it the unit is not published.
    tables.sort_by_key(|table| table != CellRow::TABLE);
    for table in tables {
        for (group, id) in units::published(out, &table)? {
            if !own.contains(&(group.as_str(), id.as_str())) {
                let part = part_of(out, &table, &group, &id);
                let part = if table == "digests" { part.with_extension("json") } else { part };
                whole::remove(&part)?;
            }
        }
    }
    Ok(())
}

pub(super) fn write_units(
    data: &Dataset,
    units: &[Unit],
    out: &Path,
    scratch: &Scratch,
) -> anyhow::Result<()> {
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

/// What was there when the tables of a unit were published.
pub(super) struct There {
    /// Tables that were there already.
    pub(super) races: usize,
    /// Of these, those of other bytes.
    pub(super) differing: usize,
    /// Whether the unit was published.
    pub(super) is_late: bool,
}

/// Publishes the tables, `cells` last and the digests of all before it.
pub(super) fn publish(
    plan: &Plan,
    out: &Path,
    scratch: &Scratch,
    unit: &Unit,
    rows: UnitRows,
) -> anyhow::Result<There> {
    let written = write_all(plan, scratch, rows)?;
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    let mut outcomes = Vec::with_capacity(written.len());
    for (table, from) in tables(plan).zip(&written) {
        let to = part(out, table, unit);
        known.insert(table, publish::sha256(from)?.0);
        if table == CellRow::TABLE {
            let text = escape::json(&known)?;
            scratch.create(&digests(out, &unit.group, &unit.id), text.as_bytes())?;
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
    Ok(There {
        races: outcomes.iter().filter(|&&o| o != Published::New).count(),
        differing: outcomes.iter().filter(|&&o| o == Published::Differs).count(),
        is_late: outcomes.last() != Some(&Published::New),
    })
}

/// Writes the rows of a unit to scratch, in the order of [`tables`].
pub(super) fn write_all(plan: &Plan, scratch: &Scratch, rows: UnitRows) -> anyhow::Result<Vec<PathBuf>> {
    let mut written = vec![write_table(scratch, rows.events)?, write_table(scratch, rows.items)?];
    if plan.contexts {
        written.push(write_table(scratch, rows.contexts)?);
    }
    written.extend([
        write_table(scratch, rows.timeline)?,
        write_table(scratch, rows.scores)?,
        write_table(scratch, rows.cells)?,
    ]);
    Ok(written)
}

fn write_table<R: CellPart>(scratch: &Scratch, rows: Vec<R>) -> anyhow::Result<PathBuf> {
    let from = scratch.path(&format!("{}.parquet", R::TABLE));
    let expected = rows.len() as u64;
    let mut writer = TableWriter::create(&from, PART_ROW_GROUP)?;
    // A part is read from its beginning to its end: its row groups may end anywhere, and none is large.
    for row in rows {
        writer.add(row)?;
        writer.may_end()?;
    }
    let written = writer.finish()?;
    anyhow::ensure!(written == expected, "wrote {written} of {expected} rows of {}", from.display());
    Ok(from)
}
