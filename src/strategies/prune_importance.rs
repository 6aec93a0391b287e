//! Drops the least important messages first, with their pairs, to a budget of tokens; what stays, stays verbatim.
//!
//! Source: the seed selective-memory. A pair is a turn: in plain chat a user message with the reply, else a call of
//! the model with its results, so that no result stands alone. Its score is that of its least important message (the
//! seed's rule, list `seed-exact`) or of its most important one. The turn with the lowest score goes first, of equal
//! ones the oldest, until a budget is left; the newest pair never goes.
//!
//! The budget of the seed is 2,000 tokens, of talks of thirty short turns. Of the scopes of coding agents that is nearly nothing, so that
//! pruning to it is dropping all: without `max_tokens` it is a share of all that was compressed so far, where that is more; of 10,000 tokens at most by default, so that an event of a long log costs no more
//! than one of a short log.
//!
//! By the seed the newest pair counts, too, and the score alone orders (`counts = "all"`, `order = "score"`). So a pair of 2,000 tokens takes all
//! before it along, and a short statement that rates 5 goes before a page that rates 6 for its length: of padded talks (statements of ten
//! words, replies of 700) nothing was left. By default the budget is that of what is older than the newest turns, and of one level (low, medium, high:
//! the seed's 1-3, 4-6, 7-10) the turn goes first that has the lowest score for its tokens.
//!
//! Deviations from the seed: its first user message belongs to the head here and is never dropped; its pair rule
//! takes the message next to the least important one, whoever wrote that, which can break the newest pair: here pairs
//! are fixed. Each message is rated once; an event sorts what is left.

use super::salience::fresh_steps;
use super::{Entry, Env, Fate, Item, Scope, Strategy};
use crate::context::{Block, Content, Edit};
use crate::params::params;

pub(super) mod scoring;

use scoring::{By, Pair, Rater, Ratings, Who};

pub(super) const ENTRY: Entry = Entry {
    name: "prune-importance",
    summary: "Drop the least important turns first, to a budget; keep the rest verbatim.",
    params: Params::PARAMS,
    takes_model: true,
    build: |params| Ok(Box::new(PruneImportance::new(Params::of(params)?)?)),
};

params! {
    struct Params {
        /// What rates without a model: `learned` odds, a list by name, or `PATH#HASH`.
        rules: String = "learned",
        /// Who rates messages; `auto`: the model, if there is one.
        rate: By = "auto",
        /// What a turn rates: its least or its most important message.
        pair: Option<Pair> = (of the rules),
        /// Tokens that are left, at most; without it `share` tells.
        max_tokens: Option<u64> = (of the share),
        /// Share of all that was compressed so far that is left, at most; at least 2,000 tokens.
        share: f64 = 0.3 (from 0 to 1),
        /// Tokens that `share` leaves, at most; 0: no limit.
        most: u64 = 10_000,
        /// Whose tokens count against the budget: those older than the newest turns, or all.
        counts: Counts = "older",
        /// What goes first: the lowest score for its tokens, or the lowest score.
        order: Order = "room",
        /// How many of the newest turns never go; at least 1.
        keep_last: u32 = 1,
    }
}

/// Tokens that are left in any case where no budget is given: the seed's.
const LEAST: u64 = 2000;

/// What was compressed so far.
#[derive(Default)]
pub(super) struct Taken {
    /// Steps before this one are counted.
    until: u32,
    tokens: u64,
}

impl Taken {
    /// The budget of an event, whose fresh steps count from now on.
    pub(super) fn budget(
        &mut self,
        scope: &Scope<'_>,
        max_tokens: Option<u64>,
        (share, most): (f64, u64),
    ) -> u64 {
        // An event that was refused leaves its steps to the next.
        for step in fresh_steps(scope).into_iter().filter(|&step| step >= self.until).collect::<Vec<_>>() {
            self.tokens += u64::from(scope.log.tokens[step as usize]);
            self.until = step + 1;
        }
        let most = if most == 0 { u64::MAX } else { most };
        max_tokens.unwrap_or(((share * self.tokens as f64) as u64).min(most).max(LEAST))
    }
}

/// What is remembered from event to event.
#[derive(Default)]
struct Memory {
    ratings: Ratings,
    taken: Taken,
}

/// What a budget of tokens is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Counts {
    /// What is older than the newest turns, which stay whatever their length.
    #[default]
    Older,
    /// All that stands after the head: the seed's form.
    All,
}

impl Counts {
    /// Tokens that count beside those of the scope.
    pub(super) fn beside(self, scope: &Scope<'_>, in_scope: u64) -> u64 {
        match self {
            Counts::Older => 0,
            Counts::All => conversation(scope) - in_scope,
        }
    }
}

/// What goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    /// What has the lowest score for its tokens, of the lowest level that there is.
    #[default]
    Room,
    /// What has the lowest score: the seed's form.
    Score,
}

impl Order {
    /// How two of these scores and tokens are ordered.
    pub(super) fn cmp(self, a: (f64, u64), b: (f64, u64)) -> std::cmp::Ordering {
        // The seed's scale: pleasantries up to 3, what must stay from 7 on.
        let level = |score: f64| u8::from(score > 3.0) + u8::from(score >= 7.0);
        match self {
            Order::Score => a.0.total_cmp(&b.0),
            Order::Room => {
                let by_level = level(a.0).cmp(&level(b.0));
                by_level.then((a.0 * b.1 as f64).total_cmp(&(b.0 * a.1 as f64)))
            }
        }
    }
}

struct PruneImportance {
    rater: Rater,
    pair: Pair,
    params: Params,
}

impl PruneImportance {
    fn new(params: Params) -> anyhow::Result<Self> {
        anyhow::ensure!(
            params.keep_last >= 1,
            "parameter `keep_last` must be at least 1: the newest pair never goes"
        );
        let rater = Rater::named(&params.rules)?;
        let pair = params.pair.unwrap_or(rater.pair());
        Ok(PruneImportance { rater, pair, params })
    }
}

/// A pair that may go.
pub(super) struct Unit {
    /// Indices of its blocks.
    pub(super) blocks: std::ops::Range<usize>,
    pub(super) score: f64,
    pub(super) tokens: u64,
}

/// The turns of a scope with their scores; blocks that are no messages belong to none.
pub(super) fn units(scope: &Scope<'_>, ratings: &Ratings, pair: Pair) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut last = None;
    for index in scope.blocks.clone() {
        let block = &scope.context.blocks[index];
        let Content::Step(step) = block.content else { continue };
        let score = ratings.of(step);
        if last != Some(block.turn) {
            last = Some(block.turn);
            units.push(Unit { blocks: index..index, score, tokens: 0 });
        }
        if let Some(unit) = units.last_mut() {
            unit.blocks.end = index + 1;
            unit.tokens += u64::from(block.tokens);
            unit.score = match pair {
                Pair::Least => unit.score.min(score),
                Pair::Most => unit.score.max(score),
            };
        }
    }
    units
}

/// Tokens of all that stands after the head, but for what no strategy may touch there.
pub(super) fn conversation(scope: &Scope<'_>) -> u64 {
    let tokens = |blocks: &mut dyn Iterator<Item = &Block>| blocks.map(|b| u64::from(b.tokens)).sum::<u64>();
    let (head, body) = scope.prompt.blocks.split_at(scope.prompt.n_head);
    let is_pinned = |b: &&Block| b.message().is_some_and(|step| scope.log.is_pinned(step));
    let pinned = if scope.log.has_pinned() { tokens(&mut body.iter().filter(is_pinned)) } else { 0 };
    scope.prompt.tokens - tokens(&mut head.iter()) - pinned
}

/// Tokens of a scope.
pub(super) fn tokens_in(scope: &Scope<'_>) -> u64 {
    scope.context.blocks[scope.blocks.clone()].iter().map(|block| u64::from(block.tokens)).sum()
}

/// Characters of a dropped message that its row shows.
const SHOWN: usize = 200;

/// The row of a message that goes.
pub(super) fn dropped(scope: &Scope<'_>, step: u32, score: f64) -> Item {
    let text = &scope.log.trajectory.steps[step as usize].text;
    let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| at);
    Item {
        text: text[..end].into(),
        kind: Who::of(scope.log, step).name(),
        source: Some((step, 0..end as u32)),
        score: Some(score),
        fate: Fate::Dropped,
        of: None,
    }
}

impl Strategy for PruneImportance {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let Memory { mut ratings, mut taken } = std::mem::take(env.state::<Memory>());
        let by = self.params.rate;
        scoring::rate(&self.rater, by, scope, &mut ratings, env)?;
        let Params { max_tokens, share, most, counts, order, .. } = self.params;
        let max_tokens = taken.budget(scope, max_tokens, (share, most));
        let in_scope = tokens_in(scope);
        let mut over = (in_scope + counts.beside(scope, in_scope)).saturating_sub(max_tokens);
        let mut units = if over == 0 { Vec::new() } else { units(scope, &ratings, self.pair) };
        units.sort_by(|a, b| {
            let by_worth = order.cmp((a.score, a.tokens), (b.score, b.tokens));
            by_worth.then(a.blocks.start.cmp(&b.blocks.start))
        });
        let mut gone = Vec::new();
        for unit in units {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(unit.tokens);
            for block in unit.blocks {
                if let Content::Step(step) = scope.context.blocks[block].content {
                    env.work.items.push(dropped(scope, step, ratings.remove(step)));
                    gone.push(block);
                }
            }
        }
        *env.state() = Memory { ratings, taken };
        gone.sort_unstable();
        Ok(gone.into_iter().map(|block| Edit::Drop { block }).collect())
    }

    fn is_recursive(&self) -> bool {
        true
    }

    fn keep_last(&self) -> u32 {
        self.params.keep_last
    }

    fn needs_model(&self) -> bool {
        self.params.rate == By::Model
    }
}

#[cfg(test)]
mod tests;
