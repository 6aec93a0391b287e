//! Keeps the lines that serve the needs to come, to a budget: a reference that sees the future.
//!
//! Greedy on unserved need weight per token over spans (lines, or pieces of at most 200
//! characters), compared with the best single span; the budget's classical bound is (1 - 1/e)/2 of
//! the optimum (Khuller, Moss and Naor 1999). It is a reference, not a limit: it plans one event at
//! a time.

use std::collections::{BinaryHeap, HashSet};

use super::{Budget, Entry, Env, Scope, Strategy, keep_pieces, spans_in};
use crate::context::{Edit, Piece};
use crate::log::{AtomId, BOUND, Log};

pub(super) const ENTRY: Entry = Entry {
    name: "oracle",
    summary: "Keep the lines that later needs ask for (sees the future).",
    params: Budget::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(Oracle(Budget::of(params)?))),
};

struct Oracle(Budget);

impl Strategy for Oracle {
    fn is_control(&self) -> bool {
        true
    }

    fn compress(&self, scope: &Scope<'_>, _: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let segment = scope.log.turns[scope.turn as usize].segment;
        let end = scope.log.turns.partition_point(|t| t.segment <= segment) as u32;
        let weight = |atom: AtomId| scope.needs.count_in(atom, scope.turn..end) as f64;
        let pieces = choose(scope.log, &spans_in(scope), self.0.tokens(scope), true, &weight);
        Ok(keep_pieces(scope, &pieces))
    }

    fn sees_future(&self) -> bool {
        true
    }
}

/// Chooses spans by weight per token to a budget. `bound` asks for mentions that bind their atom.
/// Returns the pieces in order of the text.
pub fn choose(
    log: &Log,
    spans: &[u32],
    budget: u32,
    bound: bool,
    weight: &dyn Fn(AtomId) -> f64,
) -> Vec<Piece> {
    let atoms = |span: u32| {
        log.mentions_in(span).iter().filter(move |m| !bound || m.flags & BOUND != 0).map(|m| m.atom)
    };
    let gain = |span: u32, served: &HashSet<AtomId>| {
        let mut own = Vec::new();
        let mut sum = 0.0;
        for atom in atoms(span) {
            if !served.contains(&atom) && !own.contains(&atom) {
                sum += weight(atom);
                own.push(atom);
            }
        }
        sum
    };
    let none = HashSet::new();
    let mut heap: BinaryHeap<Candidate> = BinaryHeap::new();
    let mut single: Option<(f64, u32)> = None;
    for &span in spans {
        let tokens = log.spans[span as usize].tokens;
        if tokens > budget {
            continue;
        }
        let gain = gain(span, &none);
        if gain > 0.0 {
            heap.push(Candidate { density: gain / f64::from(tokens.max(1)), span });
            if single.is_none_or(|(best, _)| gain > best) {
                single = Some((gain, span));
            }
        }
    }
    let mut served = HashSet::new();
    let mut left = budget;
    let mut total = 0.0;
    let mut pieces = Vec::new();
    // Lazy greedy: gains only fall, so a candidate that is still best after an update is the best.
    while let Some(top) = heap.pop() {
        let tokens = log.spans[top.span as usize].tokens;
        if tokens > left {
            continue;
        }
        let gain = gain(top.span, &served);
        if gain <= 0.0 {
            continue;
        }
        let now = Candidate { density: gain / f64::from(tokens.max(1)), span: top.span };
        if heap.peek().is_some_and(|next| *next > now) {
            heap.push(now);
            continue;
        }
        left -= tokens;
        total += gain;
        served.extend(atoms(top.span));
        pieces.push(Piece::whole(log, top.span));
    }
    if let Some((gain, span)) = single
        && gain > total
    {
        pieces = vec![Piece::whole(log, span)];
    }
    pieces.sort_unstable_by_key(|p| p.span);
    pieces
}

#[derive(PartialEq)]
struct Candidate {
    density: f64,
    span: u32,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.density.total_cmp(&other.density).then(other.span.cmp(&self.span))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
