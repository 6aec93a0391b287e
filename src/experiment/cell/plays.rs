//! What each variant of a plan saved of a trajectory, and what became of its needs one by one: neither shadows nor partners.

use super::super::dataset::Dataset;
use super::super::plan::{Plan, Variant};
use super::{Models, Prepared, Scene, recipe};
use crate::replay::shadow::Caster;
use crate::replay::trace::traced;
use crate::replay::{Decision, Event};
use crate::scores::Rows;
use crate::scores::money::{COST_SAVINGS, Prices, TOKEN_SAVINGS, TOKEN_SAVINGS_BILLED, break_even, score};
use crate::scores::readers::Readers;
use crate::scores::registry::Entry;
use crate::scores::retention::{Fate, Ledger, fates};
use crate::text::tokens::Tokenizer;
use crate::trajectory::Kind;

/// A trajectory under all variants of a plan.
pub struct Plays {
    /// When it began, in microseconds; null where no time is logged.
    pub time: Option<i64>,
    /// Weight of each headline need that bound retention asks for.
    pub weights: Vec<f64>,
    /// Beside the plan's variants.
    pub played: Vec<Played>,
    /// Where its own product compacted it: needs that were exposed there, their weight, and the weight of those that were lost.
    pub by_product: Option<(u64, [f64; 2])>,
}

/// A trajectory under one variant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Played {
    /// Events that changed a prompt: some policies look at every result, and find nothing to do.
    pub n_events: usize,
    pub n_prompts: usize,
    /// Prompts that are longer than the window of the policy, by the provider's count where that is known.
    pub n_over: usize,
    /// Of all prompts with nothing compressed, and as sent: our tokens, those that were billed, price x tokens.
    pub tokens: [f64; 2],
    pub billed: [f64; 2],
    pub cost: [f64; 2],
    /// Of each compression, calls until shorter prompts have paid for the lost cache, which lives 5 minutes or an hour; null where
    /// they never do in what was left of the log.
    pub paid_after: Vec<[Option<u32>; 2]>,
    /// Beside [`Plays::weights`].
    pub fates: Vec<Fate>,
}

/// Replays a trajectory under each variant of the plan that needs no model; those that replay over logged compactions tell
/// what its own product kept.
///
/// # Errors
/// A variant cannot be replayed.
pub fn plays(data: &Dataset, plan: &Plan, index: usize) -> anyhow::Result<Plays> {
    let (own, readers) = (Prepared::load(data, plan, index, false)?, Readers::default());
    let scene = Scene::new(&own, &[], plan, &readers);
    let tokenizer = Tokenizer::load(&plan.tokenizer)?;
    let mut played = Vec::with_capacity(plan.variants.len());
    let mut by_product = None;
    for variant in &plan.variants {
        if !recipe(variant, &Models::new())?.bridges() {
            played.push(play(&scene, variant, &tokenizer)?);
            continue;
        }
        played.push(Played::default());
        // Where the user had the past cleared there is no summary.
        let steps = &own.log.trajectory.steps;
        if steps.iter().any(|step| step.kind == Kind::Compaction && !step.text.trim().is_empty()) {
            let bridged = own.bridged(data, plan, index)?;
            let product = play(&Scene::new(&bridged, &[], plan, &readers), variant, &tokenizer)?;
            let weights = bridged.questions.headline().map(|(_, weight)| weight);
            let exposed = weights.zip(&product.fates).filter(|(_, fate)| fate.exposed);
            by_product = Some(exposed.fold((0, [0.0; 2]), |(n, [all, lost]), (weight, fate)| {
                (n + 1, [all + weight, lost + if fate.lost { weight } else { 0.0 }])
            }));
        }
    }
    let weights = own.questions.headline().map(|(_, weight)| weight).collect();
    let time = own.log.trajectory.steps.iter().find_map(|step| step.time);
    Ok(Plays { time, weights, played, by_product })
}

fn play(scene: &Scene<'_>, variant: &Variant, tokenizer: &Tokenizer) -> anyhow::Result<Played> {
    let (Prepared { log, questions, .. }, watch, plan) = (scene.own, &scene.watch, scene.plan);
    let recipe = recipe(variant, &Models::new())?;
    let (run, trace) = traced(log, &recipe, tokenizer, &questions.needs)?;
    let ledger = Ledger::of(log, watch, questions, &recipe, (&run, &trace));
    let caster =
        Caster { log, watch, trace: &trace, recipe: &recipe, tokenizer, seed: plan.seed, n_random: 0 };
    let all = fates(&caster, questions, &ledger, &run);
    let mut rows = Rows { ids: (variant.id.as_str().into(), log.id().into()), rows: Vec::new() };
    score(log, &run, &scene.tariff, 0, &mut rows);
    let of = |score: &Entry| {
        let row = rows.rows.iter().find(|row| &*row.metric == score.name);
        row.map_or([0.0; 2], |row| [row.weight, row.weight * (1.0 - row.value.unwrap_or(0.0))])
    };
    let acts = |event: &Event| event.tokens_after != event.tokens_before;
    let [short, long] = [false, true].map(|hour| {
        let tariff = Prices { hour, ..plan.prices.clone() }.tariff(log);
        let all = break_even(log, &run, &tariff).into_iter().zip(&run.events);
        all.filter(|(_, event)| acts(event)).map(|((after, _), _)| after)
    });
    let window = variant.policy.as_ref().map_or(f64::INFINITY, |policy| policy.window as f64);
    let fit = |d: &Decision| log.rate(d.turn).map_or(d.tokens_sent as f64, |rate| rate.billed(d.tokens_sent));
    let billed = |d: &Decision| d.billed.map_or_else(|| fit(d), |billed| billed as f64);
    Ok(Played {
        n_over: run.decisions.iter().filter(|d| billed(d) > window).count(),
        paid_after: short.zip(long).map(|(short, long)| [short, long]).collect(),
        n_events: run.events.iter().filter(|event| acts(event)).count(),
        n_prompts: run.decisions.len(),
        tokens: of(&TOKEN_SAVINGS),
        billed: of(&TOKEN_SAVINGS_BILLED),
        cost: of(&COST_SAVINGS),
        fates: questions.headline().map(|(need, _)| all[need]).collect(),
    })
}
