//! Keeps lines drawn at random to a budget, the last one cut to fit: the floor of efficiency.

use rand::RngExt as _;

use super::{Budget, Entry, Env, Scope, Strategy, keep_pieces, spans_in};
use crate::context::{Edit, Piece};
use crate::features::tokens::Tokenizer;
use crate::log::Log;

pub(super) const ENTRY: Entry = Entry {
    name: "random",
    summary: "Keep lines drawn at random to a share of the scope's tokens.",
    params: Budget::PARAMS,
    needs_model: false,
    build: |params| Ok(Box::new(Random(Budget::of(params)?))),
};

struct Random(Budget);

impl Strategy for Random {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let budget = self.0.tokens(scope);
        let pieces = choose(scope.log, env.tokenizer, &mut spans_in(scope), budget, &mut env.rng);
        Ok(keep_pieces(scope, &pieces))
    }
}

/// Draws spans without replacement until the budget is used up; the last one is cut to fit.
/// Returns the pieces in order of the text.
fn choose(
    log: &Log,
    tokenizer: &Tokenizer,
    spans: &mut [u32],
    budget: u32,
    rng: &mut impl rand::Rng,
) -> Vec<Piece> {
    let mut pieces = Vec::new();
    draw(log, spans, budget, rng, &mut |span, left| pieces.extend(Piece::cut(log, tokenizer, span, left)));
    pieces.sort_unstable_by_key(|p| p.span);
    pieces
}

/// Draws spans without replacement and hands each to `take` with the tokens that are left for it,
/// until a span does not fit whole: that one is the last.
///
/// Reorders `spans`; only as many are drawn as are needed, so the cost follows the budget.
pub fn draw(
    log: &Log,
    spans: &mut [u32],
    budget: u32,
    rng: &mut impl rand::Rng,
    take: &mut impl FnMut(u32, u32),
) {
    let mut left = budget;
    for i in 0..spans.len() {
        if left == 0 {
            break;
        }
        let pick = rng.random_range(i..spans.len());
        spans.swap(i, pick);
        take(spans[i], left);
        left = left.saturating_sub(log.spans[spans[i] as usize].tokens);
    }
}
