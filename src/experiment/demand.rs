//! What a run would ask of its models: its replays with models that only count.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use rayon::prelude::*;

use super::cell::{Models, recipe};
use super::dataset::Dataset;
use super::plan::Plan;
use super::replay::{Observer, replay};
use crate::features::tokens::Tokenizer;
use crate::log::Log;
use crate::models::Model;
use crate::models::dry::{Demand, Dry};
use crate::needs::Needs;

/// Who looks at nothing.
struct Nobody;

impl Observer for Nobody {}

/// By model: what the plan's variants ask of it over these trajectories, had no answer been computed before. Partners are
/// replayed as well, and count as the trajectories that they are partners of. `windows` in tokens.
///
/// # Errors
/// A trajectory that cannot be read or replayed.
pub fn demand(
    plan: &Plan,
    data: &Dataset,
    selection: &[usize],
    windows: &BTreeMap<String, u32>,
) -> anyhow::Result<BTreeMap<String, Demand>> {
    let tokenizer = Tokenizer::load(&plan.tokenizer)?;
    let asking = plan.variants.iter().filter(|v| v.model.is_some() || v.embedder().is_some());
    let asking: Vec<_> = asking.collect();
    let of_one = |&index: &usize| -> anyhow::Result<BTreeMap<String, Demand>> {
        let loaded = data.load(&[index])?.pop().context("the data hold no such trajectory")?;
        let log = Log::new(loaded.trajectory, loaded.features)?;
        let replays = 1 + data.partners(index).filter(|p| plan.partners.iter().any(|k| k == p.kind)).count();
        let mut sum: BTreeMap<String, Demand> = BTreeMap::new();
        for variant in &asking {
            let dry: BTreeMap<&String, Arc<Dry>> =
                windows.iter().map(|(name, &window)| (name, Arc::new(Dry::new(window)))).collect();
            let models: Models =
                dry.iter().map(|(&name, dry)| (name.clone(), Arc::clone(dry) as Arc<dyn Model>)).collect();
            replay(&log, &recipe(variant, &models)?, &tokenizer, &Needs::default(), &mut Nobody)?;
            for (name, dry) in dry {
                (0..replays).for_each(|_| sum.entry(name.clone()).or_default().add(dry.demand()));
            }
        }
        Ok(sum)
    };
    let all: Vec<BTreeMap<String, Demand>> =
        selection.par_iter().map(of_one).collect::<anyhow::Result<_>>()?;
    let mut sum: BTreeMap<String, Demand> = BTreeMap::new();
    for (name, demand) in all.into_iter().flatten() {
        sum.entry(name).or_default().add(demand);
    }
    Ok(sum)
}
