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
    takes_model: false,
    build: |params| Ok(Box::new(Random(Budget::of(params)?))),
};

struct Random(Budget);

impl Strategy for Random {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let budget = self.0.tokens(scope);
        let pieces = choose(scope.log, env.tokenizer, &spans_in(scope), budget, &mut env.rng);
        Ok(keep_pieces(scope, &pieces))
    }
}

/// Draws spans without replacement until the budget is used up; the last one is cut to fit.
/// Returns the pieces in order of the text.
fn choose(
    log: &Log,
    tokenizer: &Tokenizer,
    spans: &[u32],
    budget: u32,
    rng: &mut impl rand::Rng,
) -> Vec<Piece> {
    let mut pool: Vec<Piece> = spans.iter().map(|&span| Piece::whole(log, span)).collect();
    let mut pieces = Vec::new();
    draw(&mut pool, budget, rng, &mut |piece, left| pieces.extend(piece.cut(log, tokenizer, left)));
    pieces.sort_unstable_by_key(|p| p.span);
    pieces
}

/// Draws pieces without replacement and hands each to `take` with the tokens that are left for it,
/// until a piece does not fit whole: that one is the last.
///
/// Reorders `pool`; only as many are drawn as are needed, so the cost follows the budget.
pub fn draw(pool: &mut [Piece], budget: u32, rng: &mut impl rand::Rng, take: &mut impl FnMut(Piece, u32)) {
    let mut left = budget;
    for i in 0..pool.len() {
        if left == 0 {
            break;
        }
        let pick = rng.random_range(i..pool.len());
        pool.swap(i, pick);
        take(pool[i], left);
        left = left.saturating_sub(pool[i].tokens);
    }
}
