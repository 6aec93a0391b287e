//! The rows that are computed of a unit.

use std::collections::HashMap;

use anyhow::Context as _;

use super::dataset::Dataset;
use super::units::Unit;
use crate::store::{CellRow, ContextRow, EventRow, ItemRow, Row, ScoreRow, TimelineRow};
use crate::text::redact::redact;

/// What is computed of a unit; in any order.
#[derive(Clone, Debug, Default)]
pub struct UnitRows {
    /// One row a cell: each trajectory under each variant of the unit.
    pub cells: Vec<CellRow>,
    pub events: Vec<EventRow>,
    pub items: Vec<ItemRow>,
    /// Empty unless the plan asks for them.
    pub contexts: Vec<ContextRow>,
    pub timeline: Vec<TimelineRow>,
    pub scores: Vec<ScoreRow>,
}

impl UnitRows {
    pub(super) fn append(&mut self, more: UnitRows) {
        append(&mut self.cells, more.cells);
        append(&mut self.events, more.events);
        append(&mut self.items, more.items);
        append(&mut self.contexts, more.contexts);
        append(&mut self.timeline, more.timeline);
        append(&mut self.scores, more.scores);
    }

    /// Sorts the rows by trajectory, then variant, checks that every cell is there once, and gives each its id.
    pub(super) fn sort(&mut self, unit: &Unit, data: &Dataset) -> anyhow::Result<()> {
        let trajectories: HashMap<&str, usize> = unit
            .trajectories
            .iter()
            .enumerate()
            .map(|(at, &i)| (data.entries()[i].id.as_str(), at))
            .collect();
        let variants: HashMap<&str, usize> =
            unit.variants.iter().enumerate().map(|(at, v)| (v.id.as_str(), at)).collect();
        let place =
            |trajectory: &str, variant: &str| Some((*trajectories.get(trajectory)?, *variants.get(variant)?));
        sort_table(&mut self.cells, &place)?;
        sort_table(&mut self.events, &place)?;
        sort_table(&mut self.items, &place)?;
        sort_table(&mut self.contexts, &place)?;
        sort_table(&mut self.timeline, &place)?;
        sort_table(&mut self.scores, &place)?;
        let once = self
            .cells
            .windows(2)
            .all(|w| place(&w[0].trajectory, &w[0].variant) < place(&w[1].trajectory, &w[1].variant));
        anyhow::ensure!(
            once && self.cells.len() == unit.n_cells(),
            "{} rows for {} cells",
            self.cells.len(),
            unit.n_cells()
        );
        let all = unit.trajectories.iter().flat_map(|&index| unit.variants.iter().map(move |v| (index, v)));
        for (cell, (index, variant)) in self.cells.iter_mut().zip(all) {
            cell.id = unit.cell_id(index, variant);
        }
        Ok(())
    }
}

/// The rows of a unit of one long cell are not copied.
fn append<R>(rows: &mut Vec<R>, more: Vec<R>) {
    if rows.is_empty() {
        *rows = more;
    } else {
        rows.extend(more);
    }
}

/// The row of a cell that failed. Errors quote what they are about.
pub(super) fn error_cell(variant: &str, trajectory: &str, mut error: String) -> CellRow {
    redact(&mut [&mut error]);
    CellRow {
        variant: variant.into(),
        trajectory: trajectory.into(),
        status: "error".to_owned(),
        error: Some(error),
        ..CellRow::default()
    }
}

/// Rows that belong to a trajectory under a variant.
pub(super) trait CellPart: Row + 'static {
    fn trajectory(&self) -> &str;
    fn variant(&self) -> &str;
}

macro_rules! cell_part {
    ($($row:ty),+) => {$(
        impl CellPart for $row {
            fn trajectory(&self) -> &str {
                &self.trajectory
            }
            fn variant(&self) -> &str {
                &self.variant
            }
        }
    )+};
}
cell_part!(CellRow, EventRow, ItemRow, ContextRow, TimelineRow, ScoreRow);

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
