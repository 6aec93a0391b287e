//! Pieces of work: some trajectories of one row group under the variants that share a model.
//!
//! The cut depends on data and plan alone, never on threads, shards or the clock, so that any
//! process finds the same pieces under the same ids.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use anyhow::Context as _;

use super::contents::Contents;
use super::dataset::Dataset;
use super::plan::{Plan, Variant};
use crate::store::UnitRow;

/// Raised when the layout of a run's folder changes.
pub const FORMAT: u32 = 3;

/// Step-variants of a unit without a model, readers included (half a second or so), unless it is one trajectory that costs more. Less
/// would not pay for publishing its five tables safely, which takes some 30 milliseconds; more would
/// hold more rows in memory, and lose more by a kill.
const COST: u64 = 20_000;
/// Step-variants of a unit at most, unless it is one cell: rows of a unit stand in memory until it is done, and one thread
/// does it.
const MOST: u64 = 200_000;
/// A trajectory counts as at least so many steps: even the shortest has a hundred scores a variant.
const MIN_STEPS: u64 = 50;

/// A piece of work. Same id, same rows.
///
/// Seeds must be made of variant and trajectory, never of the unit: where a unit begins says nothing.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Hash of the ids of its cells, 32 hex digits.
    pub id: String,
    /// Model of its variants, or `model-free`.
    pub group: String,
    /// Row group of the steps of all its trajectories.
    pub row_group: usize,
    /// Indices into [`Dataset::entries`], ascending.
    pub trajectories: Vec<usize>,
    /// Variants of the group: all, unless the trajectory is so long that they are cut, too.
    pub variants: Arc<[Variant]>,
    /// Steps over all its trajectories.
    pub n_steps: u64,
    contents: Arc<Contents>,
}

impl Unit {
    /// Some of its trajectories, under some of its variants.
    pub fn piece(&self, data: &Dataset, trajectories: Vec<usize>, variants: Arc<[Variant]>) -> Unit {
        let n_steps = trajectories.iter().map(|&i| u64::from(data.entries()[i].n_steps)).sum();
        Unit { trajectories, n_steps, variants, ..self.clone() }
    }

    /// The id of one of its cells.
    pub fn cell_id(&self, index: usize, variant: &Variant) -> String {
        self.contents.cell(index, variant)
    }

    /// Estimated cost: steps x variants.
    pub fn step_variants(&self) -> u64 {
        self.n_steps * self.variants.len() as u64
    }

    /// Number of rows that its cells have.
    pub fn n_cells(&self) -> usize {
        self.trajectories.len() * self.variants.len()
    }

    /// Its row in `_units`.
    pub fn row(&self, data: &Dataset) -> UnitRow {
        UnitRow {
            unit: self.id.clone(),
            variant_group: self.group.clone(),
            row_group: self.row_group as u32,
            trajectories: self.trajectories.iter().map(|&i| data.entries()[i].id.clone()).collect(),
            n_variants: self.variants.len() as u32,
            n_steps: self.n_steps,
            step_variants: self.step_variants(),
        }
    }
}

/// Cuts a run into units: by group of variants, then in the order of the data.
pub fn cut(plan: &Plan, data: &Dataset, selection: &[usize]) -> anyhow::Result<Vec<Unit>> {
    let mut units = Vec::new();
    let contents = Arc::new(Contents::new(plan, data, selection)?);
    for (model, variants) in plan.groups() {
        let group = group_name(model);
        let variants: Arc<[Variant]> = variants.into_iter().cloned().collect();
        // A model's work is long and waits for its answers: many small units keep its contexts full. Readers are
        // models, too.
        let cost = if model.is_some() || !plan.readers.is_empty() { 1 } else { COST };
        for (row_group, trajectories) in pieces(data, selection, cost / variants.len() as u64) {
            let n_steps = trajectories.iter().map(|&i| u64::from(data.entries()[i].n_steps)).sum();
            for variants in slices(&variants, n_steps) {
                units.push(Unit {
                    id: unit_id(&contents, &trajectories, &variants),
                    group: group.clone(),
                    row_group,
                    n_steps,
                    trajectories: trajectories.clone(),
                    variants,
                    contents: Arc::clone(&contents),
                });
            }
        }
    }
    Ok(units)
}

/// Variants of units over so many steps.
fn slices<T: Clone>(variants: &Arc<[T]>, n_steps: u64) -> Vec<Arc<[T]>> {
    match usize::try_from(MOST / n_steps.max(1)).unwrap_or(usize::MAX).max(1) {
        n if n < variants.len() => variants.chunks(n).map(Arc::from).collect(),
        _ => vec![Arc::clone(variants)],
    }
}

/// Runs of trajectories of one row group with at most `max_steps` steps, or of one trajectory.
fn pieces(data: &Dataset, selection: &[usize], max_steps: u64) -> Vec<(usize, Vec<usize>)> {
    let mut pieces: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut steps = 0;
    for &index in selection {
        let entry = &data.entries()[index];
        let n = u64::from(entry.n_steps).max(MIN_STEPS);
        match pieces.last_mut() {
            Some((row_group, piece)) if *row_group == entry.row_group && steps + n <= max_steps => {
                piece.push(index);
                steps += n;
            }
            _ => {
                pieces.push((entry.row_group, vec![index]));
                steps = n;
            }
        }
    }
    pieces
}

/// A model's name as part of a path.
pub(super) fn group_name(model: Option<&str>) -> String {
    let Some(model) = model else {
        return "model-free".to_owned();
    };
    let plain: String = model
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' })
        .collect();
    match plain == model && model != "model-free" && !model.starts_with('.') {
        true => plain,
        // Two names that differ only in what was replaced stay apart.
        false => format!("m_{plain}-{}", &blake3::hash(model.as_bytes()).to_hex()[..8]),
    }
}

fn unit_id(contents: &Contents, trajectories: &[usize], variants: &[Variant]) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(&FORMAT.to_le_bytes());
    for &index in trajectories {
        variants.iter().for_each(|variant| {
            hash.update(contents.cell(index, variant).as_bytes());
        });
    }
    hash.finalize().to_hex()[..32].to_owned()
}

/// Where the rows of a unit are published.
pub(super) fn part(out: &Path, table: &str, unit: &Unit) -> PathBuf {
    part_of(out, table, &unit.group, &unit.id)
}

/// Likewise, by group and id of the unit.
pub(super) fn part_of(out: &Path, table: &str, group: &str, id: &str) -> PathBuf {
    parts(out).join(table).join(format!("{GROUP}{group}")).join(format!("u-{id}.parquet"))
}

/// Group and id of the units of which parts of a table are published, of this run or of one before.
pub(super) fn published(out: &Path, table: &str) -> anyhow::Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    for folder in listed(&parts(out).join(table))? {
        let Some(group) = folder.strip_prefix(GROUP) else { continue };
        for name in listed(&parts(out).join(table).join(&folder))? {
            if let Some((id, _)) = name.strip_prefix("u-").and_then(|name| name.split_once('.')) {
                all.push((group.to_owned(), id.to_owned()));
            }
        }
    }
    Ok(all)
}

/// Group and id of the unit of which a part has this name; none of another file.
pub(super) fn listed_parts(name: &str) -> Option<(String, String)> {
    let (folder, file) = name.rsplit_once('/')?;
    let (_, group) = folder.rsplit_once(GROUP)?;
    let (id, _) = file.strip_prefix("u-")?.split_once('.')?;
    Some((group.to_owned(), id.to_owned()))
}

const GROUP: &str = "variant_group=";

/// The folder of all parts.
pub(super) fn parts(out: &Path) -> PathBuf {
    out.join("parts")
}

/// What a folder holds, in order; nothing where there is none.
pub(super) fn listed(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("cannot read {}", folder.display()))?,
    };
    let mut names: Vec<String> =
        entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_of_a_long_trajectory_are_cut() {
        let variants: Arc<[u32]> = (0..5).collect();
        let lengths = |n_steps| slices(&variants, n_steps).iter().map(|s| s.len()).collect::<Vec<_>>();
        assert_eq!(lengths(0), [5]);
        assert_eq!(lengths(MOST / 5), [5]);
        assert_eq!(lengths(MOST / 5 + 1), [4, 1]);
        assert_eq!(lengths(MOST + 1), [1; 5]);
        assert_eq!(slices(&variants, MOST).concat(), *variants);
    }

    #[test]
    fn model_names_become_folders() {
        assert_eq!(group_name(None), "model-free");
        assert_eq!(group_name(Some("qwen-0.5b")), "qwen-0.5b");
        assert!(group_name(Some("../x")).starts_with("m_.._x-"));
        assert_ne!(group_name(Some("a/b")), group_name(Some("a_b")));
        assert_ne!(group_name(Some("model-free")), "model-free");
    }
}
