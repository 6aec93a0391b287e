//! What was lost of a trajectory, line by line.

use anyhow::Context as _;

use super::super::dataset::Dataset;
use super::super::plan::Plan;
use super::{Models, Prepared, Scene, recipe};
use crate::context::log::Log;
use crate::context::needs::{Group, Need};
use crate::replay::Run;
use crate::scores::Rows;
use crate::scores::readers::Readers;
use crate::text::tokens::Tokenizer;

/// Something that the agent needed, and that some variants had taken from its prompt; without keys and personal data.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// What was needed: a path, an identifier, a number.
    pub atom: String,
    /// The line that says what it is, and its turn.
    pub line: String,
    pub stood: u32,
    /// The turn of its last mention, and the turn whose output used it.
    pub seen: u32,
    pub needed: u32,
    /// Ids of the variants that had lost it by then.
    pub variants: Vec<String>,
}

/// The headline needs of a trajectory, last mentioned more than `tail` turns before, that variants of the plan lost; in
/// the order of the log.
pub fn losses(data: &Dataset, plan: &Plan, index: usize, tail: u32) -> anyhow::Result<Vec<Loss>> {
    let tokenizer = Tokenizer::load(&plan.tokenizer)?;
    let (own, readers) = (Prepared::load(data, plan, index, false)?, Readers::default());
    let scene = Scene::new(&own, &[], plan, &readers);
    let (log, needs) = (&own.log, &own.questions.needs.list);
    let mut by_need: Vec<Vec<String>> = vec![Vec::new(); needs.len()];
    for variant in &plan.variants {
        let recipe = recipe(variant, &Models::new())?;
        if recipe.bridges() {
            continue;
        }
        let mut rows = Rows { ids: (variant.id.as_str().into(), log.id().into()), rows: Vec::new() };
        let (_, misses) = scene.replayed(&recipe, &tokenizer, &mut rows)?;
        misses.lost.iter().for_each(|&need| by_need[need].push(variant.id.clone()));
    }
    let lost = needs.iter().zip(by_need).filter(|(need, variants)| need.gap > tail && !variants.is_empty());
    let lost: Vec<(&Need, Vec<String>)> = lost.collect();
    let texts: Vec<&str> =
        lost.iter().flat_map(|(need, _)| [log.atom(need.atom).text, log.span_text(need.cheapest)]).collect();
    let mut texts = own.secrets().hide(log, &texts).into_iter();
    let mut next = || texts.next().unwrap_or_default();
    Ok(lost
        .into_iter()
        .map(|(need, variants)| Loss {
            atom: next(),
            line: next(),
            stood: log.turn_of(log.spans[need.cheapest as usize].step),
            seen: need.turn - need.gap,
            needed: need.turn,
            variants,
        })
        .collect())
}

/// A log over its own compactions, with what its product put in the place of the past.
pub struct Bridged {
    pub log: Log,
    pub run: Run,
    /// The headline needs that did not stand in their prompts, in the order of the log.
    pub lost: Vec<Need>,
}

/// Replays a log over its own compactions, under the plan's variant that puts there what was logged.
pub fn bridged(data: &Dataset, plan: &Plan, index: usize) -> anyhow::Result<Bridged> {
    let tokenizer = Tokenizer::load(&plan.tokenizer)?;
    let (own, readers) = (Prepared::load(data, plan, index, true)?, Readers::default());
    let variant = plan.variants.iter().find(|v| v.strategy == v.trigger).context("no variant bridges")?;
    let mut rows = Rows { ids: (variant.id.as_str().into(), own.log.id().into()), rows: Vec::new() };
    let scene = Scene::new(&own, &[], plan, &readers);
    let (run, misses) = scene.replayed(&recipe(variant, &Models::new())?, &tokenizer, &mut rows)?;
    drop(scene);
    let lost = misses.lost.iter().map(|&need| own.questions.needs.list[need].clone()).collect();
    Ok(Bridged { log: own.log, run, lost })
}

/// The needs of what tools or the user had said that did not stand in their prompts as these were sent.
pub fn unsent(data: &Dataset, plan: &Plan, index: usize) -> anyhow::Result<Vec<Need>> {
    let own = Prepared::load(data, plan, index, false)?;
    let is_unsent = |need: &Need| !need.supported && need.group == Group::Headline;
    Ok(own.questions.needs.list.into_iter().filter(is_unsent).collect())
}
