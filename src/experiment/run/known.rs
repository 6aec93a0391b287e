//! Cells that were computed before the data or the plan changed: their rows are taken over from the parts of units that are none of
//! this run any more. A cell is known by its id, which is a hash of all that decides its rows.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::super::dataset::{Dataset, merge};
use super::super::plan::{Plan, Variant};
use super::super::rows::{CellPart, UnitRows};
use super::super::units::{Unit, part_of, published};
use super::parts::is_sound;
use crate::store::{
    CellKey, CellRow, ContextRow, EventRow, ItemRow, Row, ScoreRow, TableReader, TimelineRow,
};

/// A unit of an earlier state of the run.
struct Old {
    group: String,
    id: String,
    is_sound: OnceLock<bool>,
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct Known {
    out: PathBuf,
    units: Vec<Old>,
    /// Which of them have cells of a trajectory.
    of: HashMap<Arc<str>, Vec<u32>>,
}

/// What became of the cells of a unit.
#[derive(Clone, Copy, Default)]
pub(super) struct Taken {
    /// Cells whose rows were known.
    pub(super) known: u64,
    /// Cells that were known and are others now.
    pub(super) again: u64,
    /// What the others cost.
    pub(super) step_variants: u64,
}

/// Trajectory and variant.
type Cell = (Arc<str>, Arc<str>);

impl Known {
    /// What stands in a run's folder beside its own units.
    pub(super) fn open(out: &Path, units: &[Unit]) -> anyhow::Result<Self> {
        let own: HashSet<(&str, &str)> = units.iter().map(|u| (u.group.as_str(), u.id.as_str())).collect();
        let mut known = Known { out: out.to_owned(), ..Known::default() };
        for (group, id) in published(out, CellRow::TABLE)? {
            if own.contains(&(group.as_str(), id.as_str())) {
                continue;
            }
            // What another version wrote, or somebody damaged, is of no use.
            let Ok(table) = TableReader::<CellKey>::open(&part_of(out, CellRow::TABLE, &group, &id)) else {
                continue;
            };
            let number = known.units.len() as u32;
            for row_group in 0..table.row_groups().len() {
                table.scan(row_group, |keys| {
                    for key in keys {
                        let units = known.of.entry(key.trajectory).or_default();
                        if units.last() != Some(&number) {
                            units.push(number);
                        }
                    }
                })?;
            }
            known.units.push(Old { group, id, is_sound: OnceLock::new() });
        }
        Ok(known)
    }

    /// The rows of those cells of a unit that are known, and what is left of it, in pieces.
    pub(super) fn rows(
        &self,
        plan: &Plan,
        data: &Dataset,
        unit: &Unit,
    ) -> anyhow::Result<(UnitRows, Vec<Unit>, Taken)> {
        let id = |index: usize| data.entries()[index].id.as_str();
        let olds = unit.trajectories.iter().filter_map(|&index| self.of.get(id(index))).flatten();
        let olds: BTreeSet<u32> = olds.copied().collect();
        if olds.is_empty() {
            return Ok((UnitRows::default(), vec![unit.clone()], Taken::default()));
        }
        let cells = unit.trajectories.iter().flat_map(|&index| unit.variants.iter().map(move |v| (index, v)));
        let mut wanted: HashMap<Cell, String> =
            cells.map(|(i, v)| ((id(i).into(), v.id.as_str().into()), unit.cell_id(i, v))).collect();
        let (mut rows, mut others, n) = (UnitRows::default(), HashSet::new(), wanted.len());
        for old in olds.iter().map(|&old| &self.units[old as usize]) {
            match self.taken(plan, old, &mut wanted, &mut others) {
                Ok(more) => rows.append(more),
                Err(error) => {
                    tracing::warn!("rows of before cannot be read and are computed again: {error:#}")
                }
            }
        }
        let again = others.iter().filter(|cell| wanted.contains_key(*cell)).count() as u64;
        let taken = Taken { known: (n - wanted.len()) as u64, again, step_variants: 0 };
        // Trajectories of which the same variants are left are done together.
        let mut left: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        for &index in &unit.trajectories {
            let is_left = |v: &Variant| wanted.contains_key(&(id(index).into(), v.id.as_str().into()));
            let variants: Vec<usize> =
                (0..unit.variants.len()).filter(|&v| is_left(&unit.variants[v])).collect();
            if !variants.is_empty() {
                left.entry(variants).or_default().push(index);
            }
        }
        let piece = |(variants, trajectories): (Vec<usize>, Vec<usize>)| {
            unit.piece(data, trajectories, variants.iter().map(|&v| unit.variants[v].clone()).collect())
        };
        Ok((rows, left.into_iter().map(piece).collect(), taken))
    }

    /// Step-variants of those cells of a unit that are known.
    pub(super) fn step_variants(&self, data: &Dataset, unit: &Unit) -> anyhow::Result<u64> {
        let mut wanted: HashMap<Cell, (String, u64)> = HashMap::new();
        let mut olds = BTreeSet::new();
        for &index in &unit.trajectories {
            let entry = &data.entries()[index];
            let Some(units) = self.of.get(entry.id.as_str()) else { continue };
            olds.extend(units);
            for variant in unit.variants.iter() {
                let cell = (entry.id.as_str().into(), variant.id.as_str().into());
                wanted.insert(cell, (unit.cell_id(index, variant), u64::from(entry.n_steps)));
            }
        }
        let mut known = 0;
        for &old in olds {
            for row in self.read::<CellRow>(&self.units[old as usize], &|cell| wanted.contains_key(cell))? {
                if row.status == "ok"
                    && let Some((_, n_steps)) = wanted.get(&cell(&row)).filter(|(id, _)| *id == row.id)
                {
                    known += n_steps;
                    wanted.remove(&cell(&row));
                }
            }
        }
        Ok(known)
    }

    /// The rows that an old unit has of cells that are wanted, which are wanted no more; `others` are its cells of other ids.
    fn taken(
        &self,
        plan: &Plan,
        old: &Old,
        wanted: &mut HashMap<Cell, String>,
        others: &mut HashSet<Cell>,
    ) -> anyhow::Result<UnitRows> {
        let is_sound = || is_sound(plan, &self.out, &old.group, &old.id).unwrap_or(false);
        if !old.is_sound.get_or_init(is_sound) {
            return Ok(UnitRows::default());
        }
        let mut cells: Vec<CellRow> = self.read(old, &|cell| wanted.contains_key(cell))?;
        cells.retain(|row| row.status == "ok");
        let (cells, other): (Vec<CellRow>, Vec<CellRow>) =
            cells.into_iter().partition(|row| wanted.get(&cell(row)) == Some(&row.id));
        let found: HashSet<Cell> = cells.iter().map(cell).collect();
        let is_found = |cell: &Cell| found.contains(cell);
        let rows = UnitRows {
            cells,
            events: self.read::<EventRow>(old, &is_found)?,
            items: self.read::<ItemRow>(old, &is_found)?,
            contexts: if plan.contexts { self.read::<ContextRow>(old, &is_found)? } else { Vec::new() },
            timeline: self.read::<TimelineRow>(old, &is_found)?,
            scores: self.read::<ScoreRow>(old, &is_found)?,
        };
        wanted.retain(|cell, _| !found.contains(cell));
        others.extend(other.iter().map(cell));
        Ok(rows)
    }

    /// The rows of some cells of an old unit.
    fn read<R: CellPart>(&self, old: &Old, is_asked: &dyn Fn(&Cell) -> bool) -> anyhow::Result<Vec<R>> {
        let path = part_of(&self.out, R::TABLE, &old.group, &old.id);
        let keys: TableReader<CellKey> = TableReader::open(&path)?;
        let table: TableReader<R> = TableReader::open(&path)?;
        let mut rows = Vec::new();
        for row_group in 0..keys.row_groups().len() {
            let (mut places, mut at): (Vec<Range<usize>>, _) = (Vec::new(), 0);
            keys.scan(row_group, |keys| {
                for key in keys {
                    places.extend(is_asked(&(key.trajectory, key.variant)).then(|| at..at + 1));
                    at += 1;
                }
            })?;
            if !places.is_empty() {
                rows.extend(table.read(row_group, &merge(places.into_iter()))?);
            }
        }
        Ok(rows)
    }
}

fn cell<R: CellPart>(row: &R) -> Cell {
    (row.trajectory().into(), row.variant().into())
}
