//! Keeps the lines that serve the needs to come, to a budget: a reference that sees the future.
//!
//! Greedy on unserved need weight per token over spans (lines, or pieces of at most 200
//! characters); the last one is cut to fit, as `random` cuts its last. That is compared with the best single span,
//! cut or not; the budget's classical bound is (1 - 1/e)/2 of the optimum (Khuller, Moss and Naor 1999). It is a
//! reference, not a limit: it plans one event at a time.

use std::collections::BinaryHeap;

use rustc_hash::FxHashSet;

use super::{Budget, Entry, Env, Scope, Strategy, keep_pieces, spans_in};
use crate::context::log::{AtomId, BOUND, Log};
use crate::context::{Content, Edit, Piece};
use crate::text::tokens::Tokenizer;

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

    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let whole = spans_in(scope).into_iter().map(|span| Piece::whole(scope.log, span)).collect();
        Ok(keep_pieces(scope, &chosen(scope, env, whole, self.0.tokens(scope))))
    }

    fn sees_future(&self) -> bool {
        true
    }
}

/// Edits that keep what later needs ask for to a budget, of all that can be copied from the scope; generated text goes.
pub(super) fn edits(scope: &Scope<'_>, env: &Env<'_>, budget: u32) -> Vec<Edit> {
    let mut all = Vec::new();
    for block in &scope.context.blocks[scope.blocks.clone()] {
        match &block.content {
            Content::Step(step) => {
                all.extend(scope.log.spans_of(*step).map(|span| Piece::whole(scope.log, span)))
            }
            Content::Excerpt { pieces, .. } => all.extend(pieces),
            Content::Placeholder { .. } | Content::Generated { .. } => {}
        }
    }
    let kept = keep_pieces(scope, &chosen(scope, env, all, budget));
    let named: FxHashSet<usize> = kept.iter().map(|edit| edit.block()).collect();
    let rest = scope.blocks.clone().filter(|block| !named.contains(block)).map(|block| Edit::Drop { block });
    let mut edits: Vec<Edit> = rest.collect();
    edits.extend(kept);
    edits.sort_by_key(Edit::block);
    edits
}

/// Of these pieces those that later needs ask for, to a budget: what binds first.
fn chosen(scope: &Scope<'_>, env: &Env<'_>, mut pieces: Vec<Piece>, budget: u32) -> Vec<Piece> {
    let segment = scope.log.turns[scope.turn as usize].segment;
    let end = scope.log.turns.partition_point(|t| t.segment <= segment) as u32;
    let weight = |atom: AtomId| scope.needs.count_in(atom, scope.turn..end) as f64;
    let aim = Aim { log: scope.log, tokenizer: env.tokenizer, bound: true, weight: &weight };
    let mut chosen = aim.choose(&pieces, budget);
    // What nothing binds is worth what is left.
    let surface = Aim { bound: false, ..aim };
    let held: FxHashSet<AtomId> = chosen.iter().flat_map(|piece| surface.atoms(piece)).collect();
    let unheld = |atom: AtomId| if held.contains(&atom) { 0.0 } else { weight(atom) };
    pieces.retain(|piece| chosen.binary_search_by_key(&piece.span, |p| p.span).is_err());
    let left = budget - chosen.iter().map(|piece| piece.tokens).sum::<u32>();
    chosen.extend(Aim { weight: &unheld, ..surface }.choose(&pieces, left));
    chosen.sort_unstable_by_key(|piece| piece.span);
    chosen
}

/// What the oracle chooses by.
pub struct Aim<'a> {
    pub log: &'a Log,
    pub tokenizer: &'a Tokenizer,
    /// Only mentions that bind their atom count.
    pub bound: bool,
    /// What it is worth to keep an atom.
    pub weight: &'a dyn Fn(AtomId) -> f64,
}

impl Aim<'_> {
    /// Chooses pieces by weight per token to a budget, at most one of them cut. Returns them in order of the text.
    pub fn choose(&self, pieces: &[Piece], budget: u32) -> Vec<Piece> {
        let none = FxHashSet::default();
        let mut worth: Vec<(f64, Piece)> = pieces
            .iter()
            .map(|piece| (self.gain(piece, &none), *piece))
            .filter(|(gain, _)| *gain > 0.0)
            .collect();
        // What gains most comes first; of equals, what stands first.
        worth.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (total, mut chosen) = self.greedy(&worth, budget);
        let single = worth.iter().find(|(_, piece)| piece.tokens <= budget).copied();
        let cut = self.best_cut(&worth, budget, &none, total);
        let best = [single, cut].into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((gain, piece)) = best
            && gain > total
        {
            chosen = vec![piece];
        }
        chosen.sort_unstable_by_key(|p| p.span);
        chosen
    }

    /// The best by weight per token, one after the other, and the best cut of the rest; with what they gain.
    fn greedy(&self, worth: &[(f64, Piece)], budget: u32) -> (f64, Vec<Piece>) {
        let candidate = |&(gain, piece): &(f64, Piece)| Candidate::new(gain, piece);
        let mut heap: BinaryHeap<Candidate> =
            worth.iter().filter(|(_, piece)| piece.tokens <= budget).map(candidate).collect();
        let mut served = FxHashSet::default();
        let (mut left, mut total, mut chosen) = (budget, 0.0, Vec::new());
        // Lazy greedy: gains only fall, so a candidate that is still best after an update is the best.
        while let Some(top) = heap.pop() {
            if top.piece.tokens > left {
                continue;
            }
            let gain = self.gain(&top.piece, &served);
            if gain <= 0.0 {
                continue;
            }
            let now = Candidate::new(gain, top.piece);
            if heap.peek().is_some_and(|next| *next > now) {
                heap.push(now);
                continue;
            }
            left -= top.piece.tokens;
            total += gain;
            served.extend(self.atoms(&top.piece));
            chosen.push(top.piece);
        }
        if let Some((gain, piece)) = self.best_cut(worth, left, &served, 0.0) {
            total += gain;
            chosen.push(piece);
        }
        (total, chosen)
    }

    /// The piece that gains most when it is cut to so many tokens, if that is more than `least`. `worth` says what
    /// each gains whole at most, the largest first: behind the first that cannot gain more nobody looks.
    fn best_cut(
        &self,
        worth: &[(f64, Piece)],
        tokens: u32,
        served: &FxHashSet<AtomId>,
        least: f64,
    ) -> Option<(f64, Piece)> {
        let mut best: Option<(f64, Piece)> = None;
        for (most, piece) in worth.iter().filter(|(_, piece)| piece.tokens > tokens) {
            let floor = best.map_or(least, |(gain, _)| gain);
            if *most <= floor || tokens == 0 {
                break;
            }
            if self.gain(piece, served) > floor
                && let Some(cut) = piece.cut(self.log, self.tokenizer, tokens)
            {
                best = Some((self.gain(&cut, served), cut)).filter(|(gain, _)| *gain > floor).or(best);
            }
        }
        best
    }

    /// What a piece adds to what is served.
    fn gain(&self, piece: &Piece, served: &FxHashSet<AtomId>) -> f64 {
        let atoms = self.atoms(piece);
        atoms.iter().filter(|atom| !served.contains(atom)).map(|&atom| (self.weight)(atom)).sum()
    }

    /// The atoms that a piece holds, each once. What was cut is read again: its end may be missing.
    fn atoms(&self, piece: &Piece) -> Vec<AtomId> {
        let mut atoms = Vec::new();
        let mut add = |atom: AtomId, is_bound: bool| {
            if (is_bound || !self.bound) && !atoms.contains(&atom) {
                atoms.push(atom);
            }
        };
        match piece.is_whole(self.log) {
            true => self.log.mentions_in(piece.span).iter().for_each(|m| add(m.atom, m.flags & BOUND != 0)),
            false => {
                self.log.mentions_in_text(piece.text(self.log), |atom, cues| add(atom, cues.len() >= 2));
            }
        }
        atoms
    }
}

#[derive(PartialEq)]
struct Candidate {
    density: f64,
    piece: Piece,
}

impl Candidate {
    fn new(gain: f64, piece: Piece) -> Self {
        Candidate { density: gain / f64::from(piece.tokens.max(1)), piece }
    }
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.density.total_cmp(&other.density).then(other.piece.span.cmp(&self.piece.span))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(script: &str, budget: u32, worth: &[(&str, f64)]) -> Vec<String> {
        let log = Log::script(script);
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let pieces: Vec<Piece> = log.spans_of(0).map(|span| Piece::whole(&log, span)).collect();
        let worth: Vec<(AtomId, f64)> =
            worth.iter().map(|(text, worth)| (log.find_atom(text).expect("an atom"), *worth)).collect();
        let weight = |atom: AtomId| worth.iter().find(|(a, _)| *a == atom).map_or(0.0, |(_, worth)| *worth);
        let aim = Aim { log: &log, tokenizer: &tokenizer, bound: false, weight: &weight };
        let pieces = aim.choose(&pieces, budget);
        assert!(pieces.iter().map(|piece| piece.tokens).sum::<u32>() <= budget);
        pieces.iter().map(|piece| piece.text(&log).trim_end().to_owned()).collect()
    }

    /// No words stand beside `src/b.py` that say what it is: it comes last, but it comes.
    #[test]
    fn what_is_left_goes_to_what_nothing_binds() {
        let idle = "\naction: date\nobservation: morning".repeat(4);
        let script = format!(
            "user: the task
            action: ls
            observation: src/b.py~so many words~the broken parser lives in src/a.py{idle}
            action: cat src/a.py src/b.py
            agent: so"
        );
        let left = |share: &str| {
            let params = format!("kept_share = {share}");
            super::super::tests::after_events(("oracle", &params), ("turns", "n = 2"), &script)[0].clone()
        };
        assert_eq!(left("0.9"), "src/b.py\nthe broken parser lives in src/a.py");
        assert_eq!(left("0.4"), "the broken parser lives in src/a.py");
    }

    /// `a.py` is two tokens, and every word and line end is one.
    #[test]
    fn the_last_line_is_cut_to_fit() {
        let script = "user: a.py and more of it~b.py and more~so many words before c.py";
        let worth = [("a.py", 2.0), ("b.py", 1.0), ("c.py", 9.0)];
        let begins = |budget: u32, with: &[&str]| {
            let chosen = chosen(script, budget, &worth);
            assert!(
                chosen.len() == with.len() && chosen.iter().zip(with).all(|(a, b)| a.starts_with(b)),
                "{chosen:?}"
            );
        };
        // Nothing fits whole. The beginning of the first line gains more than that of the second, and that of the third nothing.
        begins(4, &["a.py"]);
        // The third fits, and gains more than the others; of the rest the best beginning of four tokens is cut.
        begins(6, &["so many words before c.py"]);
        begins(10, &["a.py", "so many words before c.py"]);
        begins(0, &[]);
    }

    /// Per token the first line gains most and leaves no room; a cut of the second alone gains more.
    #[test]
    fn one_piece_can_gain_more_than_greed() {
        let script = "user: a.py~b.py c.py then all the words that nobody needs";
        let worth = [("a.py", 1.1), ("b.py", 0.5), ("c.py", 2.0)];
        // Greedy: `a.py` with its line end, and `b.py` of the rest: 1.6. Six tokens of the second: 2.5.
        let chosen = chosen(script, 6, &worth);
        assert!(chosen.len() == 1 && chosen[0].starts_with("b.py c.py"), "{chosen:?}");
    }
}
