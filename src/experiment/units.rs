//! Pieces of work: some trajectories of one row group under the variants that share a model.
//!
//! The cut depends on data and plan alone, never on threads, shards or the clock, so that any
//! process finds the same pieces under the same ids.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::SEMANTICS_VERSION;
use super::dataset::Dataset;
use super::plan::{Plan, Variant};
use crate::store::{self, UnitRow};

/// Raised when the layout of a run's folder or the make of ids changes.
pub const FORMAT: u32 = 2;

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
    /// Hash of all that decides its rows, 32 hex digits.
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
}

impl Unit {
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
    for (model, variants) in plan.groups() {
        let group = group_name(model);
        let variants: Arc<[Variant]> = variants.into_iter().cloned().collect();
        // A model's work is long and waits for its answers: many small units keep its contexts full. Readers are
        // models, too.
        let cost = if model.is_some() || !plan.readers.is_empty() { 1 } else { COST };
        for (row_group, trajectories) in pieces(data, selection, cost / variants.len() as u64) {
            let ids: Vec<&str> = trajectories.iter().map(|&i| data.entries()[i].id.as_str()).collect();
            let n_steps = trajectories.iter().map(|&i| u64::from(data.entries()[i].n_steps)).sum();
            for variants in slices(&variants, n_steps) {
                units.push(Unit {
                    id: unit_id(plan, data, row_group, &ids, &variants)?,
                    group: group.clone(),
                    row_group,
                    n_steps,
                    trajectories: trajectories.clone(),
                    variants,
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
fn group_name(model: Option<&str>) -> String {
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

fn unit_id(
    plan: &Plan,
    data: &Dataset,
    row_group: usize,
    trajectories: &[&str],
    variants: &[Variant],
) -> anyhow::Result<String> {
    let inputs: Vec<&str> = data.inputs()?.iter().map(|i| i.sha256.as_str()).collect();
    let models = variants.iter().flat_map(Variant::models).chain(plan.readers.names());
    let models: BTreeMap<&str, &String> =
        models.filter_map(|name| Some((name, plan.models.get(name)?))).collect();
    let variants: Vec<&str> = variants.iter().map(|v| v.id.as_str()).collect();
    let mut all = serde_json::json!({
        "format": FORMAT,
        "semantics": SEMANTICS_VERSION,
        "schema": store::SCHEMA_VERSION,
        "inputs": inputs,
        "row_group": row_group,
        "trajectories": trajectories,
        "variants": variants,
        "tokenizer": plan.tokenizer,
        "prices": plan.prices,
        "seed": plan.seed,
        "shadow_seeds": plan.shadow_seeds,
        "partners": plan.partners,
        "reference_tails": plan.reference_tails,
    });
    if !plan.readers.is_empty() {
        all["readers"] = serde_json::json!(plan.readers);
    }
    if plan.contexts {
        all["contexts"] = serde_json::json!(true);
    }
    if !models.is_empty() {
        all["models"] = serde_json::json!(models);
    }
    Ok(blake3::hash(all.to_string().as_bytes()).to_hex()[..32].to_owned())
}

/// Where the rows of a unit are published.
pub(super) fn part(out: &Path, table: &str, unit: &Unit) -> PathBuf {
    out.join("parts")
        .join(table)
        .join(format!("variant_group={}", unit.group))
        .join(format!("u-{}.parquet", unit.id))
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
