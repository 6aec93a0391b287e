//! Matched shadows: what random lines, the oracle and a bag of atoms would have kept under the
//! schedule of a variant, with the same tokens at the same events.
//!
//! The variant runs first; its schedule (scopes and tokens kept at each event) is data. Shadows
//! replay it and never ask the trigger. A *chain* shadow lives on what it kept itself; a *local*
//! shadow starts at each event from the variant's own state. Every turn is compressed once, so what
//! is kept only grows within a segment, and a need is served if an event before it kept the atom.

use std::ops::Range;

use crate::context::Piece;
use crate::experiment::replay::{Event, Run, rng};
use crate::features::tokens::Tokenizer;
use crate::log::{AtomId, Log};
use crate::strategies::{Strategy, atom_bag, oracle, random};
use crate::watch::Watch;

const NEVER: u32 = u32::MAX;

/// Which watched atoms were kept by which event of a segment.
pub struct Kept {
    n_before: usize,
    /// Per event: (watched, bound), in no order.
    by_event: Vec<Vec<(u32, bool)>>,
    /// Per level (surface, bound) and watched atom: the first event that kept it.
    first: [Vec<u32>; 2],
}

impl Kept {
    fn new(n: usize, events: &Range<usize>) -> Self {
        Kept { n_before: events.start, by_event: Vec::new(), first: [vec![NEVER; n], vec![NEVER; n]] }
    }

    fn push(&mut self, kept: Vec<(u32, bool)>) {
        let event = (self.n_before + self.by_event.len()) as u32;
        for &(watched, bound) in &kept {
            for level in 0..=usize::from(bound) {
                let first = &mut self.first[level][watched as usize];
                *first = (*first).min(event);
            }
        }
        self.by_event.push(kept);
    }

    /// Whether one of the first `n_events` events of the run (within the segment) kept the atom.
    pub fn by(&self, n_events: u32, watched: u32, bound: bool) -> bool {
        self.first[usize::from(bound)][watched as usize] < n_events
    }

    /// Whether this very event kept the atom.
    pub fn at(&self, event: u32, watched: u32, bound: bool) -> bool {
        (event as usize)
            .checked_sub(self.n_before)
            .and_then(|i| self.by_event.get(i))
            .is_some_and(|kept| kept.iter().any(|&(w, b)| w == watched && (b || !bound)))
    }
}

/// Weight of the needs of each watched atom that only kept text can serve, by turn.
pub struct OpenNeeds {
    /// Per watched atom, per level: turns in descending order with the weight from there on.
    later: [Vec<Vec<(u32, f64)>>; 2],
    any: bool,
}

impl OpenNeeds {
    pub fn new(n: usize) -> Self {
        OpenNeeds { later: [vec![Vec::new(); n], vec![Vec::new(); n]], any: false }
    }

    pub fn is_empty(&self) -> bool {
        !self.any
    }

    /// Adds a need; call in descending order of turns.
    pub fn push_earlier(&mut self, watched: u32, bound: bool, turn: u32, weight: f64) {
        let list = &mut self.later[usize::from(bound)][watched as usize];
        let sum = list.last().map_or(0.0, |l| l.1) + weight;
        list.push((turn, sum));
        self.any = true;
    }

    fn from(&self, watched: u32, bound: bool, turn: u32) -> f64 {
        let list = &self.later[usize::from(bound)][watched as usize];
        let n = list.partition_point(|l| l.0 >= turn);
        n.checked_sub(1).map_or(0.0, |i| list[i].1)
    }
}

/// The variant's own keeping and its shadows', for the events of one segment.
pub struct Shadows {
    pub variant: Kept,
    pub random: Vec<Kept>,
    /// Oracles for surface and for bound retention.
    pub oracle: [Kept; 2],
    pub oracle_local: [Kept; 2],
    pub atom_bag: Kept,
}

/// What casting shadows needs to know.
pub struct Caster<'a> {
    pub log: &'a Log,
    pub watch: &'a Watch<'a>,
    pub strategy: &'a dyn Strategy,
    pub tokenizer: &'a Tokenizer,
    pub seed: u64,
    pub n_random: u32,
}

impl Caster<'_> {
    /// Casts the shadows of these events, which lie in one segment.
    pub fn cast(&self, run: &Run, events: Range<usize>, open: &OpenNeeds) -> Shadows {
        let new = || Kept::new(self.watch.len(), &events);
        let mut shadows = Shadows {
            variant: new(),
            random: (0..self.n_random).map(|_| new()).collect(),
            oracle: [new(), new()],
            oracle_local: [new(), new()],
            atom_bag: new(),
        };
        for number in events.clone() {
            let event = &run.events[number];
            let until = self.log.turns[event.turn as usize].decision.unwrap_or(0);
            let budget = u32::try_from(event.kept_tokens).unwrap_or(u32::MAX);
            for level in [false, true] {
                let l = usize::from(level);
                for local in [true, false] {
                    let served = if local { &shadows.variant } else { &shadows.oracle[l] };
                    let pieces = self.oracle(event, number as u32, budget, level, served, open);
                    let kept = self.sightings(&pieces);
                    if local { &mut shadows.oracle_local[l] } else { &mut shadows.oracle[l] }.push(kept);
                }
            }
            shadows.variant.push(self.kept_by_variant(event, until));
            // Nothing kept is nothing to draw.
            let steps = if budget == 0 { &[][..] } else { &event.removable };
            let mut spans: Vec<u32> = steps.iter().flat_map(|&s| self.log.spans_of(s)).collect();
            let bag = atom_bag::bag(self.log, self.tokenizer, &spans, budget);
            let mut kept = Vec::new();
            self.watch.in_text(&bag, until, &mut |w, b| kept.push((w, b)));
            shadows.atom_bag.push(kept);
            for (replicate, random) in shadows.random.iter_mut().enumerate() {
                random.push(self.random(event, &mut spans, budget, replicate as u64));
            }
        }
        shadows
    }

    fn kept_by_variant(&self, event: &Event, until: u32) -> Vec<(u32, bool)> {
        let mut kept = Vec::new();
        for block in event.after.iter().filter(|b| Event::is_kept(self.log, self.strategy, b)) {
            self.watch.in_block(block, until, &mut |w, b| kept.push((w, b)));
        }
        kept
    }

    fn sightings(&self, pieces: &[Piece]) -> Vec<(u32, bool)> {
        let mut kept = Vec::new();
        self.watch.in_pieces(pieces, &mut |w, b| kept.push((w, b)));
        kept
    }

    fn random(&self, event: &Event, spans: &mut [u32], budget: u32, replicate: u64) -> Vec<(u32, bool)> {
        let mut kept = Vec::new();
        if spans.is_empty() {
            return kept;
        }
        let mut rng = rng(self.seed, "shadow", self.log.id(), u64::from(event.turn), replicate);
        random::draw(self.log, spans, budget, &mut rng, &mut |span, left| {
            let sightings = self.watch.in_span(span);
            if sightings.is_empty() {
                // Nothing to see in it, so that it need not be cut exactly.
            } else if self.log.spans[span as usize].tokens <= left {
                kept.extend(sightings.iter().map(|s| (s.watched, s.bound)));
            } else if let Some(piece) = Piece::cut(self.log, self.tokenizer, span, left) {
                self.watch.in_pieces(&[piece], &mut |w, b| kept.push((w, b)));
            }
        });
        kept
    }

    fn oracle(
        &self,
        event: &Event,
        number: u32,
        budget: u32,
        bound: bool,
        served: &Kept,
        open: &OpenNeeds,
    ) -> Vec<Piece> {
        let weight = |atom: AtomId| match self.watch.index(atom) {
            Some(w) if !served.by(number, w, bound) => open.from(w, bound, event.turn),
            _ => 0.0,
        };
        // Only spans that mention a watched atom can serve a need.
        let steps = if budget == 0 { &[][..] } else { &event.removable };
        let mut spans: Vec<u32> = steps
            .iter()
            .flat_map(|&s| self.watch.in_step(s))
            .filter(|s| s.bound || !bound)
            .map(|s| s.span)
            .collect();
        spans.dedup();
        oracle::choose(self.log, &spans, budget, bound, &weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_serves_from_its_event_on() {
        let mut kept = Kept::new(2, &(3..5));
        kept.push(vec![(0, false)]);
        kept.push(vec![(0, true)]);
        // Events 3 and 4; a need after n events has seen those with a smaller number.
        assert!(!kept.by(3, 0, false));
        assert!(kept.by(4, 0, false));
        assert!(!kept.by(4, 0, true));
        assert!(kept.by(5, 0, true));
        assert!(!kept.by(5, 1, false));
        assert!(kept.at(3, 0, false) && !kept.at(3, 0, true) && kept.at(4, 0, false));
    }

    #[test]
    fn open_needs_weigh_what_is_still_to_come() {
        let mut open = OpenNeeds::new(1);
        open.push_earlier(0, true, 9, 0.5);
        open.push_earlier(0, true, 4, 1.0);
        assert_eq!(
            [open.from(0, true, 10), open.from(0, true, 9), open.from(0, true, 5), open.from(0, true, 4)],
            [0.0, 0.5, 0.5, 1.5]
        );
    }
}
