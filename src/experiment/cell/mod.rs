//! Computes the rows of a unit: each of its trajectories under each of its variants.
//!
//! What depends on the trajectory alone (its log, its questions, what of it stands in its partners)
//! is made once and shared by all variants; what depends on the variant too (its replay) by all cells that ask for it.

mod account;
mod losses;
mod plays;
mod replays;
mod rows;
mod secrets;
mod shelf;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;

use super::dataset::Dataset;
use super::plan::{FULL, Plan, Variant};
use super::rows::{UnitRows, error_cell};
use super::units::Unit;
use crate::models::{Model, Outage};
use crate::replay::shadow::Caster;
use crate::replay::trace::traced;
use crate::replay::watch::{Watch, cue_sets};
use crate::replay::{Recipe, Run};
use crate::scores::chance::Partner;
use crate::scores::readers::Readers;
use crate::scores::retention::{self, Ledger, Misses, Strata};
use crate::scores::{Rows, discard, ground::Truth, honesty, likelihood, money, own, ratios, sent, truth};
use crate::strategies;
use crate::text::tokens::Tokenizer;
use crate::triggers;

pub use account::{Account, Accounts, Which, accounts};
pub use losses::{Bridged, Loss, bridged, losses, unsent};
pub use plays::{Played, Plays, plays};
use replays::Replays;
pub use shelf::{Prepared, Shelf};

/// Computes the rows of a unit; tells the step-variants done since it last told.
pub fn run_unit(
    data: &Dataset,
    unit: &Unit,
    plan: &Plan,
    shelf: &Shelf,
    models: &Models,
    progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<UnitRows> {
    let tokenizer = Tokenizer::load(&plan.tokenizer)?;
    let recipes: Vec<anyhow::Result<Recipe>> =
        unit.variants.iter().map(|variant| recipe(variant, models)).collect();
    let readers = Readers::open(&plan.readers, models)?;
    let mut rows = UnitRows::default();
    for &index in &unit.trajectories {
        let own = shelf.get(data, plan, index)?;
        // (index in plan.partners, partner), the headline's kind first.
        let mut partners: Vec<(usize, Arc<Prepared>)> = Vec::new();
        for (kind, name) in plan.partners.iter().enumerate() {
            for partner in data.partners(index).filter(|p| p.kind == name.as_str()) {
                partners.push((kind, shelf.get(data, plan, partner.index)?));
            }
        }
        let scene = Scene { replays: Some(&shelf.replays), ..Scene::new(&own, &partners, plan, &readers) };
        let bridges = |recipe: &Recipe| recipe.bridges() && own.log.n_segments > 1;
        let bridged = match recipes.iter().flatten().any(bridges) {
            true => Some(own.bridged(data, plan, index)?),
            false => None,
        };
        let replays = Some(&shelf.replays);
        let over =
            bridged.as_ref().map(|own| Scene { replays, ..Scene::new(own, &partners, plan, &readers) });
        for (variant, recipe) in unit.variants.iter().zip(&recipes) {
            let cell = match recipe {
                Ok(recipe) => {
                    let over = over.as_ref().filter(|_| bridges(recipe));
                    over.unwrap_or(&scene).cell(variant, recipe, &tokenizer)
                }
                Err(error) => Err(anyhow::anyhow!("{error:#}")),
            };
            match cell {
                Ok(cell) => rows.append(cell),
                Err(error) if error.is::<Outage>() => return Err(error),
                Err(error) => rows.cells.push(error_cell(&variant.id, own.log.id(), format!("{error:#}"))),
            }
            progress(own.log.n_steps() as u64);
        }
    }
    Ok(rows)
}

/// The models of a plan, by name.
pub type Models = HashMap<String, Arc<dyn Model>>;

/// Builds a variant's strategy and trigger, and gives it its model.
pub fn recipe(variant: &Variant, models: &Models) -> anyhow::Result<Recipe> {
    let opened = |name: &str| {
        models.get(name).cloned().with_context(|| format!("model `{name}` of the variant was not opened"))
    };
    if let Some(policy) = &variant.policy {
        return policy.recipe(variant.seed, variant.model.as_deref().map(opened).transpose()?);
    }
    let strategy = strategies::build(&variant.strategy, variant.strategy_params.clone())?;
    let trigger = triggers::build(&variant.trigger, variant.trigger_params.clone())?;
    Ok(Recipe {
        model: variant.model.as_deref().map(opened).transpose()?,
        extractor: variant.extraction_model().map(opened).transpose()?,
        embedder: variant.embedder().map(opened).transpose()?,
        trigger_model: variant.trigger_model().or(variant.trigger_embedder()).map(opened).transpose()?,
        ..Recipe::one(strategy, trigger, variant.seed)
    })
}

/// A trajectory among its partners, with all that no variant changes.
pub struct Scene<'a> {
    own: &'a Prepared,
    watch: Watch<'a>,
    /// Kind of the partner (index in [`Plan::partners`]), and what it mentions of ours.
    partners: Vec<(usize, &'a Prepared, Watch<'a>)>,
    plan: &'a Plan,
    tariff: money::Tariff,
    strata: Strata,
    /// None where the trajectory is not annotated.
    truth: Option<Truth>,
    readers: &'a Readers,
    /// None where nobody else asks for them.
    replays: Option<&'a Replays>,
}

impl<'a> Scene<'a> {
    pub fn new(
        own: &'a Prepared,
        partners: &'a [(usize, Arc<Prepared>)],
        plan: &'a Plan,
        readers: &'a Readers,
    ) -> Self {
        let log = &own.log;
        let ids = &own.questions.needs.atoms;
        let atoms: Vec<&str> = ids.iter().map(|&a| log.atom(a).text).collect();
        let mut known: HashMap<usize, Vec<Vec<u32>>> = HashMap::new();
        let mut cues = |i: usize| known.entry(i).or_insert_with(|| cue_sets(log, ids[i])).clone();
        let partners = partners
            .iter()
            .map(|(kind, p)| (*kind, &**p, Watch::foreign(&p.log, &atoms, &mut cues)))
            .collect();
        let strata = Strata::new(&plan.reference_tails, &plan.partners);
        let (watch, truth) = (Watch::own(log, ids), Truth::of(log));
        let tariff = plan.prices.tariff(log);
        Scene { own, watch, partners, plan, tariff, strata, truth, readers, replays: None }
    }

    /// Replays and scores the trajectory under one variant.
    pub fn cell(
        &self,
        variant: &Variant,
        recipe: &Recipe,
        tokenizer: &Tokenizer,
    ) -> anyhow::Result<UnitRows> {
        let (Prepared { log, questions, .. }, plan) = (self.own, self.plan);
        let ids = (variant.id.as_str().into(), log.id().into());
        let mut rows = Rows { ids, rows: Vec::new() };
        let (mut run, misses) = self.replayed(recipe, tokenizer, &mut rows)?;
        discard::score(log, &run, &misses.needed, &mut rows);
        money::score(log, &run, &self.tariff, money::rework(log, &misses.hard), &mut rows);
        sent::score(&run, questions.tokens_as_sent, &mut rows);
        honesty::score(log, &run, &mut rows);
        ratios::score(&run, &mut rows);
        if let Some(truth) = &self.truth {
            truth::score(truth, log, &run, self.readers, plan.seed, &mut rows)?;
        }
        likelihood::score(log, &run, self.readers, plan.seed, &mut rows)?;
        own::score(log, &run, &plan.score_programs, plan.seed, &mut rows)?;
        if variant.strategy == FULL {
            retention::census(questions, &mut rows);
        }
        let mut made = UnitRows { cells: vec![rows::cell_row(&rows.ids, &run)], ..UnitRows::default() };
        made.items = rows::item_rows(&rows.ids, self.own, &run);
        if plan.contexts {
            made.contexts = rows::context_rows(&rows.ids, log, recipe, tokenizer, &run);
        }
        // Of a long run the events are large, and so are the rows of its decisions: not both at once.
        let break_even = money::break_even(log, &run, &self.tariff);
        let events = std::mem::take(&mut run.events);
        made.events = rows::event_rows(&rows.ids, &variant.strategy, break_even, events);
        made.timeline = rows::timeline_rows(&rows.ids, log, run, &self.tariff);
        made.scores = rows.rows;
        Ok(made)
    }

    /// Replays the trajectory under a variant, and follows its needs.
    fn replayed(
        &self,
        recipe: &Recipe,
        tokenizer: &Tokenizer,
        rows: &mut Rows,
    ) -> anyhow::Result<(Run, Misses)> {
        let (Prepared { log, questions, place, is_partner, .. }, watch) = (self.own, &self.watch);
        let variant = &rows.ids.0;
        let replay = || traced(log, recipe, tokenizer, &questions.needs);
        // A trace that nobody asks for is not kept.
        let (run, trace) = match self.replays.zip(*place).filter(|_| *is_partner) {
            Some((replays, place)) => replays.own(place, variant, replay)?,
            None => replay().map(|(run, trace)| (run, Arc::new(trace)))?,
        };
        let partners = self.partner_runs(variant, recipe, tokenizer)?;
        let (seed, n_random) = (self.plan.seed, self.plan.shadow_seeds);
        let ledger = Ledger::of(log, watch, questions, recipe, (&run, &trace));
        let caster = Caster { log, watch, trace: &trace, recipe, tokenizer, seed, n_random };
        let misses = retention::score(&caster, questions, ledger, &run, &partners, &self.strata, rows);
        Ok((run, misses))
    }

    /// What the partners meet under the variant; one that mentions none of the atoms is left out of
    /// the work, not of the mean.
    fn partner_runs(
        &self,
        variant: &Arc<str>,
        recipe: &Recipe,
        tokenizer: &Tokenizer,
    ) -> anyhow::Result<Vec<Partner<'_>>> {
        let mut met = Vec::with_capacity(self.partners.len());
        for (kind, partner, watch) in &self.partners {
            if watch.is_empty() {
                met.push(Partner::stranger(*kind, watch));
                continue;
            }
            let replay = || traced(&partner.log, recipe, tokenizer, &partner.questions.needs);
            let trace = match self.replays.zip(partner.place) {
                Some((replays, place)) => {
                    let now = self.own.place.unwrap_or(place);
                    replays.partner((now, place), variant, self.plan.contexts, replay)?
                }
                None => Arc::new(replay()?.1),
            };
            met.push(Partner::new(*kind, watch, &trace));
        }
        Ok(met)
    }
}
