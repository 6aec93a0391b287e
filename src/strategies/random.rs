//! Keeps lines drawn at random to a budget, the last one cut to fit: the floor of efficiency.

use rand::RngExt as _;
use rustc_hash::FxHashMap;

use super::{Budget, Entry, Env, Scope, Strategy, keep_pieces, spans_in};
use crate::context::log::Log;
use crate::context::{Edit, Piece};
use crate::text::tokens::Tokenizer;

pub(super) const ENTRY: Entry = Entry {
    name: "random",
    summary: "Keep lines drawn at random to a share of the scope's tokens.",
    params: Budget::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(Random(Budget::of(params)?))),
};

struct Random(Budget);

impl Strategy for Random {
    fn is_control(&self) -> bool {
        true
    }

    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let budget = self.0.tokens(scope);
        let pieces = choose(scope.log, env.tokenizer, &spans_in(scope), budget, &mut env.rng);
        Ok(keep_pieces(scope, &pieces))
    }
}

/// Draws spans without replacement until the budget is used up; the last one is cut to fit.
/// Returns the pieces in order of the text.
pub(super) fn choose(
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

/// As [`draw`], of spans that keep their order: the few that are swapped are remembered beside them, so that many draws
/// from one long list cost what they take.
pub fn draw_from(
    log: &Log,
    spans: &[u32],
    budget: u32,
    rng: &mut impl rand::Rng,
    take: &mut impl FnMut(Piece, u32),
) {
    let mut swapped: FxHashMap<usize, usize> = FxHashMap::default();
    let mut left = budget;
    for i in 0..spans.len() {
        if left == 0 {
            break;
        }
        let pick = rng.random_range(i..spans.len());
        let here = swapped.get(&i).copied().unwrap_or(i);
        let piece = Piece::whole(log, spans[swapped.insert(pick, here).unwrap_or(pick)]);
        take(piece, left);
        left = left.saturating_sub(piece.tokens);
    }
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

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Both draw the same pieces in the same order from the same seed.
    #[test]
    fn a_draw_beside_the_list_is_a_draw() {
        let log = Log::script("user: a b~c d e~f~g h~i j k l~m n~o~p q r");
        let spans: Vec<u32> = log.spans_of(0).collect();
        for seed in 0..50 {
            let mut pool: Vec<Piece> = spans.iter().map(|&span| Piece::whole(&log, span)).collect();
            let (mut one, mut other) = (Vec::new(), Vec::new());
            let budget = (seed % 25) as u32;
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            draw(&mut pool, budget, &mut rng, &mut |piece, left| one.push((piece, left)));
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            draw_from(&log, &spans, budget, &mut rng, &mut |piece, left| other.push((piece, left)));
            assert_eq!(one, other);
            assert!(budget == 0 || !one.is_empty());
        }
    }
}
