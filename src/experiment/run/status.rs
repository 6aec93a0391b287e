//! How far a run is, as its folder alone tells: no data are opened.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use super::super::finish;
use super::super::units::{listed, published};
use super::attempts::{self, Attempt};
use super::costly_first;
use super::share::Shared;
use crate::files::reach;
use crate::store::{self, CellRow, Row as _, UnitRow};

/// A unit that is not published.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Left {
    pub unit: String,
    /// Model of its variants, or `model-free`.
    pub group: String,
    pub step_variants: u64,
}

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    pub n_units: usize,
    pub published: usize,
    /// Units that are not published and have left an error.
    pub quarantined: Vec<String>,
    pub step_variants: u64,
    pub step_variants_left: u64,
    /// Attempts by what came of them; those of a kill are there where a driver has noted them.
    pub attempts: BTreeMap<String, u64>,
    /// Whether the tables are there.
    pub finished: bool,
    /// In the order in which they are best begun.
    pub left: Vec<Left>,
}

/// The units of a run, in the order of the plan.
pub(super) fn planned(out: &Path) -> anyhow::Result<Vec<UnitRow>> {
    let path = out.join(format!("{}.parquet", UnitRow::TABLE));
    anyhow::ensure!(
        reach::is_there(&path)?,
        "{} holds no run\nhint: `trajpress cluster plan` begins one",
        out.display()
    );
    store::read(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// All units, in the order in which they are best begun.
pub(super) fn all(units: &[UnitRow]) -> Vec<Left> {
    let unit = |unit: &UnitRow| Left {
        unit: unit.unit.clone(),
        group: unit.variant_group.clone(),
        step_variants: unit.step_variants,
    };
    let mut all: Vec<Left> = units.iter().map(unit).collect();
    costly_first(&mut all, |unit| unit.step_variants);
    all
}

/// Those that are not published.
pub(super) fn left(out: &Path, shared: Option<&Shared>, units: &[UnitRow]) -> anyhow::Result<Vec<Left>> {
    let there = match shared {
        Some(shared) => shared.published()?,
        None => published(out, CellRow::TABLE)?.into_iter().collect(),
    };
    let mut left = all(units);
    left.retain(|unit| !there.contains(&(unit.group.clone(), unit.unit.clone())));
    Ok(left)
}

/// Reads how far a run is; `shared` is the place of its parts, where that is not the folder.
///
/// # Errors
/// There is no run, or what it is cannot be read.
pub fn status(out: &Path, shared: Option<&Shared>) -> anyhow::Result<Status> {
    let units = planned(out)?;
    let finished = finish::is_finished(out)?;
    // The parts of a finished run may be gone.
    let left = if finished { Vec::new() } else { left(out, shared, &units)? };
    let errors = listed(&out.join("_quarantine"))?;
    let errors: HashSet<&str> = errors.iter().filter_map(|name| name.strip_suffix(".json")).collect();
    let own: HashSet<&str> = units.iter().map(|unit| unit.unit.as_str()).collect();
    let mut counted = BTreeMap::new();
    for Attempt { outcome, .. } in attempts::all(out).filter(|a| own.contains(a.unit.as_str())) {
        *counted.entry(outcome).or_default() += 1;
    }
    Ok(Status {
        n_units: units.len(),
        published: units.len() - left.len(),
        quarantined: left.iter().filter(|u| errors.contains(&*u.unit)).map(|u| u.unit.clone()).collect(),
        step_variants: units.iter().map(|unit| unit.step_variants).sum(),
        step_variants_left: left.iter().map(|unit| unit.step_variants).sum(),
        attempts: counted,
        finished,
        left,
    })
}
