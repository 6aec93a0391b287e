//! Keeps the lines with the best odds of being needed per token, word for word, to a budget.
//!
//! What could be needed is rated atom by atom (`learn`), and covered cheaply: greedy on the odds of the atoms that a line binds
//! and no kept line binds yet, per token. What is left of the budget goes to atoms that are not rated, since head and newest turns
//! do not hold them for ever. Odds come from logs in which later turns say what was needed; nothing is asked of a model.
//!
//! Source: reports/hindsight, which has the study; the greed is that of `oracle`.

mod goal;

use std::collections::HashSet;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::{Entry, Env, Scope, Strategy, keep_pieces};
use crate::context::log::AtomId;
use crate::context::{Content, Edit, Piece};
use crate::learn::atoms::{Event, History};
use crate::learn::lines::{Odds, bound, lines};
use crate::learn::{Weights, probability};
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "hindsight",
    summary: "Keep the lines with the best odds of being needed, learned from logs.",
    params: Hindsight::PARAMS,
    takes_model: false,
    build: |params| {
        let params = Hindsight::of(params)?;
        let weights = Weights::named(&params.weights)?;
        Ok(Box::new(Rated { params, weights }))
    },
};

params! {
    struct Hindsight {
        /// What is kept: up to 1 a share of each scope's tokens; above that so many tokens of all that the segment holds, chosen
        /// anew at each event from what still stands.
        budget: f64 = 0.1 (at least 0),
        /// An error comes with the nearest line before it that names a file. (Measured on needs: 0.01 less with it.)
        group: bool = true,
        /// How much less an atom is worth in each further line: with 1 it counts once, with 0 each time.
        diversity: f64 = 1.0 (from 0 to 1),
        /// Share of the budget for lines that speak of the goal (BM25 to its words); what the odds do not spend goes there, too.
        goal: f64 = 0.0 (from 0 to 1),
        /// A file of weights, `PATH#HASH`; empty: those that travel with the program.
        weights: String = "",
    }
}

struct Rated {
    params: Hindsight,
    weights: Arc<Weights>,
}

impl Strategy for Rated {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let memory = env.state::<Memory>();
        let event = memory.rate(scope, &self.weights);
        let units = lines(scope.log, &event.spans, self.params.group);
        let budget = self.budget(scope);
        let for_goal = (f64::from(budget) * self.params.goal) as u32;
        let mut kept =
            event.choose(scope.log, &units, &memory.held, budget - for_goal, self.params.diversity);
        if self.params.goal > 0.0 {
            let spent: u32 = kept.iter().map(|&unit| goal::tokens(scope.log, &units[unit])).sum();
            kept.extend(goal::by_goal(scope.log, &units, &kept, budget.saturating_sub(spent)));
        }
        let mut spans: Vec<u32> = kept.into_iter().flat_map(|unit| units[unit].iter().copied()).collect();
        spans.sort_unstable();
        spans.dedup();
        if !self.is_recursive() {
            memory.held.extend(spans.iter().flat_map(|&span| bound(scope.log, span)));
        }
        let pieces: Vec<Piece> = spans.iter().map(|&span| Piece::whole(scope.log, span)).collect();
        Ok(keep_pieces(scope, &pieces))
    }

    fn is_recursive(&self) -> bool {
        self.params.budget > 1.0
    }
}

impl Rated {
    fn budget(&self, scope: &Scope<'_>) -> u32 {
        match self.is_recursive() {
            true => self.params.budget as u32,
            false => (tokens(scope) as f64 * self.params.budget) as u32,
        }
    }
}

/// Tokens of the scope.
pub(super) fn tokens(scope: &Scope<'_>) -> u64 {
    scope.context.blocks[scope.blocks.clone()].iter().map(|block| u64::from(block.tokens)).sum()
}

/// What is remembered from event to event.
#[derive(Default)]
pub(super) struct Memory {
    history: History,
    /// Atoms that what earlier events left binds.
    pub(super) held: FxHashSet<AtomId>,
}

impl Memory {
    pub(super) fn rate(&mut self, scope: &Scope<'_>, weights: &Weights) -> Odds {
        let (log, spans) = (scope.log, spans(scope));
        self.history.read(log, scope.turn);
        let event = Event { log, turn: scope.turn, spans: &spans, tail: &tail(scope) };
        let rated = self.history.rate(&event);
        let of =
            rated.iter().map(|rated| (rated.atom, probability(weights.atoms.odds(&rated.numbers)))).collect();
        Odds { spans, of }
    }
}

/// Lines that stand whole in the scope, in order.
fn spans(scope: &Scope<'_>) -> Vec<u32> {
    let mut spans = Vec::new();
    for block in &scope.context.blocks[scope.blocks.clone()] {
        match &block.content {
            Content::Step(step) => spans.extend(scope.log.spans_of(*step)),
            Content::Excerpt { pieces, .. } => {
                spans.extend(pieces.iter().filter(|piece| piece.is_whole(scope.log)).map(|piece| piece.span))
            }
            Content::Placeholder { .. } | Content::Generated { .. } => {}
        }
    }
    spans.retain(|&span| scope.log.spans[span as usize].tokens > 0);
    spans
}

/// Steps behind the head that stand whole beside the scope and that no event has had, in order.
fn tail(scope: &Scope<'_>) -> Vec<u32> {
    let inside: HashSet<u32> =
        scope.context.blocks[scope.blocks.clone()].iter().filter_map(|block| block.message()).collect();
    let blocks = scope.prompt.blocks.iter().rev().take_while(|block| block.turn >= scope.turns.start);
    let step = |block: &crate::context::Block| match block.content {
        Content::Step(step) if block.fresh && block.turn > 0 && !inside.contains(&step) => Some(step),
        _ => None,
    };
    let mut tail: Vec<u32> = blocks.filter_map(step).collect();
    tail.reverse();
    tail
}

#[cfg(test)]
mod tests;
