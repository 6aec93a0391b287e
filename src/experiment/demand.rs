//! What a run would ask of its models: its replays with models that only count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;

use super::cell::{Models, recipe};
use super::dataset::Dataset;
use super::plan::Plan;
use crate::context::needs::Needs;
use crate::models::Model;
use crate::models::dry::{Demand, Dry};
use crate::replay::{Observer, replay};
use crate::scores::readers::Readers;
use crate::scores::{Rows, ground::Truth, likelihood, truth};
use crate::text::tokens::Tokenizer;

/// Models that count, by name.
struct Counters(BTreeMap<String, Arc<Dry>>);

impl Counters {
    fn new(windows: &BTreeMap<String, u32>) -> Self {
        Counters(windows.iter().map(|(name, &window)| (name.clone(), Arc::new(Dry::new(window)))).collect())
    }

    fn models(&self) -> Models {
        self.0.iter().map(|(name, dry)| (name.clone(), Arc::clone(dry) as Arc<dyn Model>)).collect()
    }
}

/// Who looks at nothing.
struct Nobody;

impl Observer for Nobody {}

/// By model: what the plan's variants ask of it over these trajectories (in order), had no answer been computed before. Their
/// partners are replayed as well; what is replayed twice asks once. `windows` in tokens.
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
    let asking = plan.variants.iter().filter(|v| v.models().next().is_some());
    let asking: Vec<_> = asking.collect();
    let all: Vec<_> = plan.variants.iter().collect();
    let of_one = |&index: &usize| -> anyhow::Result<BTreeMap<String, Demand>> {
        let log = data.log(index, false)?;
        // What strategies ask is asked for partners, too; what readers are asked is not.
        let is_scored = selection.binary_search(&index).is_ok();
        let bridged = if is_scored && log.n_segments > 1 { Some(data.log(index, true)?) } else { None };
        let (of_strategies, of_readers) = (Counters::new(windows), Counters::new(windows));
        let readers = Readers::open(&plan.readers, &of_readers.models())?;
        let truth = Truth::of(&log);
        let variants = if plan.readers.is_empty() || !is_scored { &asking } else { &all };
        for variant in variants {
            let recipe = recipe(variant, &of_strategies.models())?;
            let log = bridged.as_ref().filter(|_| recipe.bridges()).unwrap_or(&log);
            let run = replay(log, &recipe, &tokenizer, &Needs::of(log, 3), &mut Nobody)?;
            if !is_scored {
                continue;
            }
            let mut rows = Rows { ids: (variant.id.as_str().into(), log.id().into()), rows: Vec::new() };
            if let Some(truth) = truth.as_ref().filter(|_| !plan.readers.is_empty()) {
                truth::score(truth, log, &run, &readers, plan.seed, &mut rows)?;
            }
            likelihood::score(log, &run, &readers, plan.seed, &mut rows)?;
        }
        let mut sum: BTreeMap<String, Demand> = BTreeMap::new();
        for (name, dry) in of_strategies.0.into_iter().chain(of_readers.0) {
            sum.entry(name).or_default().add(dry.demand());
        }
        Ok(sum)
    };
    let partners = selection.iter().flat_map(|&index| data.partners(index));
    let partners = partners.filter(|partner| plan.partners.iter().any(|kind| kind == partner.kind));
    let replayed: BTreeSet<usize> = partners.map(|p| p.index).chain(selection.iter().copied()).collect();
    let counted: Vec<BTreeMap<String, Demand>> =
        replayed.par_iter().map(of_one).collect::<anyhow::Result<_>>()?;
    let mut sum: BTreeMap<String, Demand> = BTreeMap::new();
    for (name, demand) in counted.into_iter().flatten() {
        sum.entry(name).or_default().add(demand);
    }
    Ok(sum)
}
