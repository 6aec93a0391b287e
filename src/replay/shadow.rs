//! Matched shadows: what random lines, the oracle and a bag of atoms would have kept under the
//! schedule of a variant, with the same tokens at the same events.
//!
//! The variant runs first; its schedule (scopes and tokens kept at each event) is data. Shadows
//! replay it and never ask the trigger. A *chain* shadow lives on what it kept itself; a *local*
//! shadow starts at each event from the variant's own state.
//!
//! Mostly every turn is compressed once, so what is kept only grows within a segment, and a need is served if an event
//! before it kept the atom. Some events have in their scope what others before them left, up to a step ([`Event::takes`]): such
//! an event takes the place of that, and a chain shadow chooses from what it still holds of these steps and the fresh ones, to
//! the tokens that the event kept in all. (What a recursive strategy holds is largely its own text, from which nothing can be
//! drawn: it has no local shadows.)
//!
//! All shadows choose among the same spans and may cut the last one to fit. The oracle is greedy, and greed can lose: where
//! a random chain serves more of what the oracle is after, it stands in the oracle's place, and that is told.
//!
//! A strategy that recalls has *store* shadows beside these: at each decision for which it recalled something, they choose
//! as many tokens from the same archive, which is all that the events before it could remove. Random draws lines, the
//! oracle knows the needs of this decision, the bag takes the newest atoms. Their chain shadows know nothing
//! of what will be recalled, so that the oracle is a reference and no limit here either. (Such a strategy has no
//! local shadows: what an event keeps of its own is not what is compared.)

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::context::Piece;
use crate::context::log::{AtomId, Log};
use crate::replay::trace::Trace;
use crate::replay::watch::Watch;
use crate::replay::{Event, Recipe, Run, rng};
use crate::strategies::{atom_bag, oracle, random};
use crate::text::tokens::Tokenizer;

const NEVER: u32 = u32::MAX;

/// What was seen, as (watched, bound), each with the event that has it in its scope again.
type Sightings = Vec<((u32, bool), u32)>;

/// Which watched atoms were kept by which event of a segment, and until when.
#[derive(Clone)]
pub struct Kept {
    n_before: usize,
    /// Per event: (watched, bound), sorted.
    by_event: Vec<Vec<(u32, bool)>>,
    /// Per level (surface, bound) and watched atom, in order and disjoint: the event that kept it, and the one that had that in
    /// its scope and kept it no more.
    spells: [Vec<Vec<(u32, u32)>>; 2],
}

impl Kept {
    fn new(n: usize, events: &Range<usize>) -> Self {
        let spells = [vec![Vec::new(); n], vec![Vec::new(); n]];
        Kept { n_before: events.start, by_event: Vec::new(), spells }
    }

    /// What the next event kept: each as (watched, bound) with the event that has it in its scope again.
    fn push(&mut self, kept: Sightings) {
        let event = (self.n_before + self.by_event.len()) as u32;
        for &((watched, bound), end) in &kept {
            for level in 0..=usize::from(bound) {
                let spells = &mut self.spells[level][watched as usize];
                match spells.last_mut() {
                    Some((_, last)) if *last >= event => *last = end.max(*last),
                    _ => spells.push((event, end)),
                }
            }
        }
        let mut kept: Vec<(u32, bool)> = kept.into_iter().map(|(seen, _)| seen).collect();
        kept.sort_unstable();
        self.by_event.push(kept);
    }

    /// Whether the atom stands in what the first `n_events` events of the run (within the segment) kept.
    pub fn by(&self, n_events: u32, watched: u32, bound: bool) -> bool {
        self.until(n_events, watched, bound).is_some_and(|end| n_events <= end)
    }

    /// Whether it stands in what the events before this one kept and this one has not in its scope.
    fn past(&self, event: u32, watched: u32, bound: bool) -> bool {
        self.until(event, watched, bound).is_some_and(|end| event < end)
    }

    /// The end of the last spell that began before an event.
    fn until(&self, event: u32, watched: u32, bound: bool) -> Option<u32> {
        let spells = &self.spells[usize::from(bound)][watched as usize];
        let n = spells.partition_point(|(start, _)| *start < event);
        Some(spells[n.checked_sub(1)?].1)
    }

    /// Whether this very event kept the atom.
    pub fn at(&self, event: u32, watched: u32, bound: bool) -> bool {
        (event as usize)
            .checked_sub(self.n_before)
            .and_then(|i| self.by_event.get(i))
            .and_then(|kept| kept.get(kept.partition_point(|&sighting| sighting < (watched, bound))))
            .is_some_and(|&(next, _)| next == watched)
    }
}

/// A need that only kept text can serve.
#[derive(Clone, Copy, Debug)]
pub struct OpenNeed {
    pub watched: u32,
    pub turn: u32,
    /// Events of the run before it.
    pub n_events: u32,
    pub weight: f64,
}

/// The needs that only kept text can serve, by level (surface, bound): what the oracle is after.
pub struct OpenNeeds {
    /// Per watched atom: turns in descending order with the weight from there on.
    later: [Vec<Vec<(u32, f64)>>; 2],
    list: [Vec<OpenNeed>; 2],
}

/// What is less than this is no gain: sums of the same weights in another order differ by less.
const NO_GAIN: f64 = 1e-9;

impl OpenNeeds {
    pub fn new(n: usize) -> Self {
        OpenNeeds { later: [vec![Vec::new(); n], vec![Vec::new(); n]], list: [Vec::new(), Vec::new()] }
    }

    pub fn is_empty(&self) -> bool {
        self.list.iter().all(Vec::is_empty)
    }

    /// Adds a need; call in descending order of turns.
    pub fn push_earlier(&mut self, bound: bool, need: OpenNeed) {
        let later = &mut self.later[usize::from(bound)][need.watched as usize];
        let sum = later.last().map_or(0.0, |l| l.1) + need.weight;
        later.push((need.turn, sum));
        self.list[usize::from(bound)].push(need);
    }

    /// Weight of the needs that a chain serves.
    pub fn served(&self, bound: bool, kept: &Kept) -> f64 {
        let list = self.list[usize::from(bound)].iter();
        list.filter(|need| kept.by(need.n_events, need.watched, bound)).map(|need| need.weight).sum()
    }

    /// The chain that serves more than the oracle's; of several the best, of equal ones the first.
    fn better<'k>(&self, bound: bool, oracle: &Kept, random: &'k [Kept]) -> Option<&'k Kept> {
        let mut best = (self.served(bound, oracle), None);
        for chain in random {
            let served = self.served(bound, chain);
            if served > best.0 + NO_GAIN {
                best = (served, Some(chain));
            }
        }
        best.1
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
    /// Oracles for surface and for bound retention: the best of the greedy chain and the random ones.
    pub oracle: [Kept; 2],
    /// Whether that is a random one.
    pub random_won: [bool; 2],
    /// Empty where the strategy is recursive.
    pub oracle_local: [Kept; 2],
    pub atom_bag: Kept,
}

/// All that the events of a segment could remove, in order: what a store can hold.
pub struct Archive {
    /// What each event of the segment could remove.
    of_events: Vec<Vec<u32>>,
    n_before: usize,
    /// What the first so many of them could, sorted.
    spans: Vec<u32>,
    n_read: usize,
}

impl Archive {
    /// What there is after the first `n_events` events of the run.
    fn after(&mut self, n_events: u32) -> &[u32] {
        let n = (n_events as usize).saturating_sub(self.n_before).min(self.of_events.len());
        if n < self.n_read {
            (self.spans, self.n_read) = (Vec::new(), 0);
        }
        for spans in &self.of_events[self.n_read..n] {
            let is_sorted = self.spans.last() < spans.first();
            self.spans.extend(spans);
            // A trigger that names single steps comes back to old ones. Two sorted runs are merged.
            if !is_sorted {
                self.spans.sort();
            }
        }
        self.n_read = n;
        &self.spans
    }
}

/// A need that a store shadow may serve: its atom, and its weight for surface and bound retention.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub atom: AtomId,
    pub weights: [f64; 2],
}

/// What is seen in what the store shadows recall for a decision: (watched, bound).
#[derive(Default)]
pub struct Store {
    pub random: Vec<Vec<(u32, bool)>>,
    /// For surface and for bound retention: the best of the greedy choice and the random draws.
    pub oracle: [Vec<(u32, bool)>; 2],
    /// Whether that is a random one.
    pub random_won: [bool; 2],
    pub atom_bag: Vec<(u32, bool)>,
}

/// Whether an atom is among what was seen.
pub fn holds(seen: &[(u32, bool)], watched: u32, bound: bool) -> bool {
    seen.iter().any(|&(w, b)| w == watched && (b || !bound))
}

/// Mentions of an atom that the store's oracle chooses among: the newest.
const MAX_MENTIONS: usize = 64;

/// What a chain shadow still holds that a later event has in its scope again.
#[derive(Default)]
struct Held {
    pieces: Vec<Piece>,
    /// Bags of atoms, each with the last step that it was made of.
    bags: Vec<(u32, Vec<AtomId>)>,
}

impl Held {
    /// Takes out what stands for steps before one.
    fn take(&mut self, log: &Log, before: u32) -> Held {
        let is_in = |step: u32| step < before;
        let taken = Held {
            pieces: self.pieces.extract_if(.., |piece| is_in(log.spans[piece.span as usize].step)).collect(),
            bags: self.bags.extract_if(.., |(step, _)| is_in(*step)).collect(),
        };
        taken
    }
}

/// Which later event has in its scope again what stands for a step.
struct Ends(Vec<(u32, u32)>);

impl Ends {
    /// Of these events of a run.
    fn of(run: &Run, events: &Range<usize>) -> Self {
        let takes = events.clone().map(|number| (number as u32, run.events[number].takes));
        Ends(takes.filter(|(_, takes)| *takes > 0).collect())
    }

    /// Of what an event left of a step.
    fn of_step(&self, event: u32, step: u32) -> u32 {
        let later = &self.0[self.0.partition_point(|(number, _)| *number <= event)..];
        later.iter().find(|(_, takes)| *takes > step).map_or(NEVER, |(number, _)| *number)
    }
}

/// What casting shadows needs to know.
pub struct Caster<'a> {
    pub log: &'a Log,
    pub watch: &'a Watch<'a>,
    /// Of the variant's own replay.
    pub trace: &'a Trace,
    pub recipe: &'a Recipe,
    pub tokenizer: &'a Tokenizer,
    pub seed: u64,
    pub n_random: u32,
}

impl Caster<'_> {
    /// What the variant itself kept at these events, which lie in one segment.
    pub fn kept(&self, run: &Run, events: Range<usize>) -> Kept {
        let (mut kept, taken_by) = (Kept::new(self.watch.len(), &events), self.taken_by(&events));
        for number in events {
            kept.push(self.kept_by_variant(&run.events[number], number, &taken_by));
        }
        kept
    }

    /// Casts the shadows of these events, which lie in one segment.
    pub fn cast(&self, run: &Run, events: Range<usize>, open: &OpenNeeds) -> Shadows {
        let recursive = self.recipe.is_recursive();
        let new = || Kept::new(self.watch.len(), &events);
        let mut shadows = Shadows {
            variant: new(),
            random: (0..self.n_random).map(|_| new()).collect(),
            oracle: [new(), new()],
            random_won: [false; 2],
            oracle_local: [new(), new()],
            atom_bag: new(),
        };
        let ends = Ends::of(run, &events);
        let taken_by = self.taken_by(&events);
        let mut held_random: Vec<Held> = (0..self.n_random).map(|_| Held::default()).collect();
        let (mut held_oracle, mut held_bag) = ([Held::default(), Held::default()], Held::default());
        for number in events.clone() {
            let event = &run.events[number];
            let until = self.log.turns[event.turn as usize].decision.unwrap_or(0);
            let budget = u32::try_from(event.kept_tokens).unwrap_or(u32::MAX);
            let end = |step: u32| ends.of_step(number as u32, step);
            for level in [false, true] {
                let l = usize::from(level);
                if !recursive {
                    let served = |w| shadows.variant.by(number as u32, w, level);
                    let pieces = self.oracle(event, &[], budget, level, &served, open);
                    shadows.oracle_local[l].push(self.sightings(&pieces, &end));
                }
                let served = |w| shadows.oracle[l].past(number as u32, w, level);
                let held = held_oracle[l].take(self.log, event.takes).pieces;
                let pieces = self.oracle(event, &held, budget, level, &served, open);
                shadows.oracle[l].push(self.sightings(&pieces, &end));
                if recursive {
                    held_oracle[l].pieces.extend(pieces);
                }
            }
            shadows.variant.push(self.kept_by_variant(event, number, &taken_by));
            // Nothing kept is nothing to draw.
            let steps = if budget == 0 { &[][..] } else { &event.removable };
            let spans: Vec<u32> = steps.iter().flat_map(|&s| self.log.spans_of(s)).collect();
            let bags = held_bag.take(self.log, event.takes).bags;
            let last = bags.iter().map(|(step, _)| *step).chain(steps.last().copied()).max().unwrap_or(0);
            let atoms = bags.into_iter().flat_map(|(_, bag)| bag);
            let atoms = atom_bag::newest_first(self.log, &spans).chain(atoms);
            let bag = atom_bag::bag(self.log, self.tokenizer, atoms, budget);
            let mut kept = Vec::new();
            let text = atom_bag::text(self.log, &bag);
            self.watch.in_text(&text, until, &mut |w, b| kept.push(((w, b), end(last))));
            shadows.atom_bag.push(kept);
            let fresh: Vec<Piece> = spans.iter().map(|&span| Piece::whole(self.log, span)).collect();
            let mut pool = fresh.clone();
            for ((replicate, random), held) in shadows.random.iter_mut().enumerate().zip(&mut held_random) {
                if event.takes > 0 {
                    pool.clone_from(&fresh);
                    pool.append(&mut held.take(self.log, event.takes).pieces);
                }
                let held = recursive.then_some(&mut held.pieces);
                random.push(self.random(event, &mut pool, (budget, replicate as u64), held, &end));
            }
            if recursive {
                held_bag.bags.push((last, bag));
            }
        }
        for bound in [false, true] {
            let l = usize::from(bound);
            if let Some(better) = open.better(bound, &shadows.oracle[l], &shadows.random) {
                shadows.oracle[l] = better.clone();
                shadows.random_won[l] = true;
            }
        }
        shadows
    }

    /// All that these events, which lie in one segment, could remove.
    pub fn archive(&self, run: &Run, events: Range<usize>) -> Archive {
        let n_before = events.start;
        let spans = |event: &Event| event.removable.iter().flat_map(|&s| self.log.spans_of(s)).collect();
        let of_events = run.events[events].iter().map(spans).collect();
        Archive { of_events, n_before, spans: Vec::new(), n_read: 0 }
    }

    /// Casts the store shadows of the decision of a turn after so many events, for these needs, to a budget of tokens.
    pub fn store(
        &self,
        archive: &mut Archive,
        (turn, n_events): (u32, u32),
        wanted: &[Wanted],
        budget: u32,
    ) -> Store {
        let spans = archive.after(n_events);
        let mut store = Store::default();
        for replicate in 0..self.n_random {
            let mut rng = rng(self.seed, "store", self.log.id(), u64::from(turn), u64::from(replicate));
            let mut seen = Vec::new();
            random::draw_from(self.log, spans, budget, &mut rng, &mut |piece, left| {
                if !self.watch.in_span(piece.span).is_empty()
                    && let Some(piece) = piece.cut(self.log, self.tokenizer, left)
                {
                    self.watch.in_pieces(&[piece], &mut |w, b| seen.push((w, b)));
                }
            });
            store.random.push(seen);
        }
        for bound in [false, true] {
            let level = usize::from(bound);
            let weight = |atom: AtomId| {
                wanted.iter().find(|want| want.atom == atom).map_or(0.0, |want| want.weights[level])
            };
            let mut candidates: Vec<u32> = Vec::new();
            for want in wanted.iter().filter(|want| want.weights[level] > 0.0) {
                let mentions = self.log.mentions_of_atom(want.atom).rev().map(|mention| mention.span);
                let stored = mentions.filter(|span| spans.binary_search(span).is_ok());
                candidates.extend(stored.take(MAX_MENTIONS));
            }
            candidates.sort_unstable();
            candidates.dedup();
            let whole: Vec<Piece> = candidates.iter().map(|&span| Piece::whole(self.log, span)).collect();
            let chosen = self.aim(bound, &weight).choose(&whole, budget);
            self.watch.in_pieces(&chosen, &mut |w, b| store.oracle[level].push((w, b)));
            self.best_draw(&mut store, wanted, bound);
        }
        let until = self.log.turns[turn as usize].decision.unwrap_or(0);
        let bag = atom_bag::bag(self.log, self.tokenizer, atom_bag::newest_first(self.log, spans), budget);
        let text = atom_bag::text(self.log, &bag);
        self.watch.in_text(&text, until, &mut |w, b| store.atom_bag.push((w, b)));
        store
    }

    /// Puts the random draw that serves most in the place of what the oracle chose, if it serves more.
    fn best_draw(&self, store: &mut Store, wanted: &[Wanted], bound: bool) {
        let level = usize::from(bound);
        let served = |seen: &[(u32, bool)]| -> f64 {
            let is_met = |want: &&Wanted| self.watch.index(want.atom).is_some_and(|w| holds(seen, w, bound));
            wanted.iter().filter(is_met).map(|want| want.weights[level]).sum()
        };
        for draw in &store.random {
            if served(draw) > served(&store.oracle[level]) + NO_GAIN {
                store.oracle[level].clone_from(draw);
                store.random_won[level] = true;
            }
        }
    }

    fn aim<'a>(&'a self, bound: bool, weight: &'a dyn Fn(AtomId) -> f64) -> oracle::Aim<'a> {
        oracle::Aim { log: self.log, tokenizer: self.tokenizer, bound, weight }
    }

    /// The event that has a block in its scope again, by the block's number in the trace.
    fn taken_by(&self, events: &Range<usize>) -> FxHashMap<u32, u32> {
        let of_event = |number: usize| {
            let blocks = self.trace.changes[number].taken.iter().cloned().flatten();
            blocks.map(move |block| (block, number as u32))
        };
        events.clone().flat_map(of_event).collect()
    }

    fn kept_by_variant(&self, event: &Event, number: usize, taken_by: &FxHashMap<u32, u32>) -> Sightings {
        let mut kept = Vec::new();
        for (block, at) in event.after.iter().zip(self.trace.changes[number].left.clone()) {
            if Event::is_kept(self.log, self.recipe.strategy(event), block) {
                let end = taken_by.get(&at).copied().unwrap_or(NEVER);
                self.watch.in_trace(self.trace, at..at + 1, &mut |w, b| kept.push(((w, b), end)));
            }
        }
        kept
    }

    fn sightings(&self, pieces: &[Piece], end: &dyn Fn(u32) -> u32) -> Sightings {
        let mut kept = Vec::new();
        for piece in pieces {
            let end = end(self.log.spans[piece.span as usize].step);
            self.watch.in_pieces(std::slice::from_ref(piece), &mut |w, b| kept.push(((w, b), end)));
        }
        kept
    }

    /// Draws from the pool to the budget; returns what is seen in it, and hands what was drawn to `held`.
    fn random(
        &self,
        event: &Event,
        pool: &mut [Piece],
        (budget, replicate): (u32, u64),
        mut held: Option<&mut Vec<Piece>>,
        end: &dyn Fn(u32) -> u32,
    ) -> Sightings {
        let mut kept = Vec::new();
        if pool.is_empty() {
            return kept;
        }
        let mut rng = rng(self.seed, "shadow", self.log.id(), u64::from(event.turn), replicate);
        random::draw(pool, budget, &mut rng, &mut |piece, left| {
            // What nobody sees and nobody holds need not be cut exactly.
            if held.is_none() && self.watch.in_span(piece.span).is_empty() {
                return;
            }
            if let Some(piece) = piece.cut(self.log, self.tokenizer, left) {
                kept.extend(self.sightings(&[piece], end));
                held.iter_mut().for_each(|held| held.push(piece));
            }
        });
        kept
    }

    fn oracle(
        &self,
        event: &Event,
        held: &[Piece],
        budget: u32,
        bound: bool,
        served: &dyn Fn(u32) -> bool,
        open: &OpenNeeds,
    ) -> Vec<Piece> {
        let weight = |atom: AtomId| match self.watch.index(atom) {
            Some(w) if !served(w) => open.from(w, bound, event.turn),
            _ => 0.0,
        };
        // Only spans that mention a watched atom can serve a need.
        let steps = if budget == 0 { &[][..] } else { &event.removable };
        let fresh = steps.iter().flat_map(|&s| self.watch.in_step(s)).filter(|s| s.bound || !bound);
        let fresh = fresh.map(|s| Piece::whole(self.log, s.span));
        let mut pieces: Vec<Piece> = held.iter().copied().chain(fresh).collect();
        pieces.dedup();
        self.aim(bound, &weight).choose(&pieces, budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::ALL;

    #[test]
    fn what_is_kept_serves_from_its_event_on() {
        let mut kept = Kept::new(2, &(3..5));
        kept.push(vec![((0, false), NEVER)]);
        kept.push(vec![((0, true), NEVER)]);
        // Events 3 and 4; a need after n events has seen those with a smaller number.
        assert!(!kept.by(3, 0, false));
        assert!(kept.by(4, 0, false));
        assert!(!kept.by(4, 0, true));
        assert!(kept.by(5, 0, true));
        assert!(!kept.by(5, 1, false));
        assert!(kept.at(3, 0, false) && !kept.at(3, 0, true) && kept.at(4, 0, false));
    }

    /// Event 2 has in its scope what event 0 kept of atom 0, keeps it no more, and leaves alone what event 1 kept of atom 1.
    #[test]
    fn an_event_takes_the_place_of_what_is_in_its_scope() {
        let mut kept = Kept::new(2, &(0..4));
        kept.push(vec![((0, true), 2)]);
        kept.push(vec![((1, true), NEVER)]);
        kept.push(vec![]);
        kept.push(vec![((0, false), NEVER)]);
        let by = |n, w| [false, true].map(|bound| kept.by(n, w, bound));
        assert_eq!([by(0, 0), by(1, 0), by(2, 0)], [[false; 2], [true; 2], [true; 2]]);
        assert_eq!([by(3, 0), by(4, 0)], [[false; 2], [true, false]]);
        assert_eq!([by(1, 1), by(2, 1), by(4, 1)], [[false; 2], [true; 2], [true; 2]]);
        assert!(kept.past(1, 0, true) && !kept.past(2, 0, true) && kept.past(2, 1, true));
        let ends = Ends(vec![(2, 5), (7, ALL)]);
        assert_eq!(
            [ends.of_step(0, 4), ends.of_step(0, 5), ends.of_step(2, 4), ends.of_step(7, 0)],
            [2, 7, 7, NEVER]
        );
    }

    #[test]
    fn what_a_recursive_event_leaves_out_is_gone() {
        let mut kept = Kept::new(2, &(3..5));
        kept.push([(1, false), (0, true), (0, false)].map(|seen| (seen, 4)).to_vec());
        kept.push(vec![((1, true), NEVER)]);
        assert!(!kept.by(0, 0, false) && !kept.by(3, 0, false));
        assert!(kept.by(4, 0, false) && kept.by(4, 0, true) && kept.by(4, 1, false) && !kept.by(4, 1, true));
        assert!(!kept.by(5, 0, false) && kept.by(5, 1, true) && kept.by(5, 1, false));
    }

    /// Needs of atoms 0 and 1 come after one event, a heavier one of atom 2 after two.
    #[test]
    fn a_random_chain_that_serves_more_is_the_oracle() {
        let mut open = OpenNeeds::new(3);
        for (watched, n_events, weight) in [(2, 2, 1.5), (1, 1, 1.0), (0, 1, 1.0)] {
            open.push_earlier(false, OpenNeed { watched, turn: 9, n_events, weight });
        }
        let kept = |events: [&[u32]; 2]| {
            let mut kept = Kept::new(3, &(0..2));
            events.iter().for_each(|atoms| kept.push(atoms.iter().map(|&w| ((w, false), NEVER)).collect()));
            kept
        };
        let greedy = kept([&[2], &[]]);
        let [both, late, all] = [kept([&[0, 1], &[]]), kept([&[], &[0, 1]]), kept([&[0, 1], &[2]])];
        let served = |kept: &Kept| open.served(false, kept);
        assert_eq!([served(&greedy), served(&both), served(&late), served(&all)], [1.5, 2.0, 0.0, 3.5]);
        let better = |random: &[Kept]| open.better(false, &greedy, random).map(served);
        assert_eq!(better(&[late.clone(), both.clone()]), Some(2.0));
        assert_eq!(better(&[both, all]), Some(3.5));
        assert_eq!(better(&[late, greedy.clone()]), None);
        assert!(open.better(true, &greedy, &[]).is_none());
    }

    #[test]
    fn an_archive_is_sorted_after_each_event() {
        let of_events = vec![vec![4, 5, 8], vec![2, 9], Vec::new(), vec![1, 3]];
        let mut archive = Archive { of_events, n_before: 2, spans: Vec::new(), n_read: 0 };
        assert!(archive.after(0).is_empty());
        assert_eq!(archive.after(3), [4, 5, 8]);
        assert_eq!(archive.after(5), [2, 4, 5, 8, 9]);
        assert_eq!(archive.after(9), [1, 2, 3, 4, 5, 8, 9]);
        assert_eq!(archive.after(3), [4, 5, 8]);
    }

    #[test]
    fn open_needs_weigh_what_is_still_to_come() {
        let mut open = OpenNeeds::new(1);
        open.push_earlier(true, OpenNeed { watched: 0, turn: 9, n_events: 3, weight: 0.5 });
        open.push_earlier(true, OpenNeed { watched: 0, turn: 4, n_events: 1, weight: 1.0 });
        assert_eq!(
            [open.from(0, true, 10), open.from(0, true, 9), open.from(0, true, 5), open.from(0, true, 4)],
            [0.0, 0.5, 0.5, 1.5]
        );
    }
}
