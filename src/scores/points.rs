//! What stood in the context after a compression, beside what would have stood there had nothing, or everything, been
//! dropped: the ground on which annotated truth is scored.
//!
//! A *point* is the moment after an event, numbered from 1, or the end of the run. There every context has the same
//! head and the same tail (the turns not compressed yet); between them stands, for the variant, what its events left
//! of the scope, with what it recalled for the decision there; for the ceiling (`full`) the scope itself; for one floor
//! (`drop-all`) nothing; for the other (`shuffled`) the variant's own words in random order, which mean nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rand::seq::SliceRandom as _;

use crate::context::log::Log;
use crate::context::{Block, Content};
use crate::replay::{Event, Run, rng};
use crate::trajectory::Kind;

/// Points are taken after each of so many events, then after every event whose number is a power of two: the work stays
/// linear in the events.
const EACH: usize = 4;

/// A context after a compression.
pub(super) struct Point<'a> {
    /// Number of events so far; none at the end of the run.
    pub(super) number: Option<usize>,
    /// The decision that follows; at the end of the run the last one.
    decision: u32,
    /// Steps before this one had been logged.
    pub(super) until: u32,
    /// Steps of the scopes compressed so far.
    pub(super) scope: Vec<u32>,
    /// Steps outside of them: head and tail.
    pub(super) base: Vec<u32>,
    /// Blocks that stand for the scope.
    pub(super) kept: Vec<&'a Block>,
}

/// The points of a run; none where the log itself was compacted, since its annotations would speak of a past that
/// its agent had lost already.
pub(super) fn points<'a>(log: &'a Log, run: &'a Run) -> Vec<Point<'a>> {
    let mut points = Vec::new();
    if log.n_segments > 1 {
        return points;
    }
    let mut past = Past::new(log);
    let last = run.events.len();
    for (number, event) in (1..).zip(&run.events) {
        past.pass(event);
        let until = log.turns[event.turn as usize].decision.unwrap_or(0);
        if is_point(number) {
            points.push(past.point(Some(number), (event.decision, until)));
        }
        if number == last {
            let decision = (run.decisions.len() as u32).saturating_sub(1);
            points.push(past.point(None, (decision, log.n_steps() as u32)));
        }
    }
    points
}

/// Whether there is a point after the event of this number, from 1.
pub(super) fn is_point(number: usize) -> bool {
    number <= EACH || number.is_power_of_two()
}

/// What became of a log until an event.
pub(super) struct Past<'a> {
    log: &'a Log,
    /// What the events left, by its number, with turn and step that say where it stands.
    kept: BTreeMap<u32, ((u32, u32), &'a Block)>,
    /// The steps that were in a scope.
    compressed: Vec<bool>,
}

impl<'a> Past<'a> {
    pub(super) fn new(log: &'a Log) -> Self {
        Past { log, kept: BTreeMap::new(), compressed: vec![false; log.n_steps()] }
    }

    /// Goes on past the next event.
    pub(super) fn pass(&mut self, event: &'a Event) {
        let taken = event.taken.iter().cloned().flatten();
        let taken = taken.filter_map(|left| Some(self.kept.remove(&left)?.0)).min();
        let mut before = taken.unwrap_or_default();
        for block in &event.after {
            let turn = block.turn;
            // A text of its own stands where the last step of the turn stood that it took, or the first text.
            let named = event.only.iter().flatten().filter(|&&step| self.log.turn_of(step) == turn);
            let step = block.origin().or_else(|| named.max().copied());
            before = (turn, step.unwrap_or(if before.0 == turn { before.1 } else { 0 }));
            self.kept.insert(block.left, (before, block));
        }
        match &event.only {
            Some(steps) => steps.iter().for_each(|&step| self.compressed[step as usize] = true),
            None => {
                let turns = &self.log.turns;
                let steps = event.turns.clone().flat_map(|turn| turns[turn as usize].steps.clone());
                steps.for_each(|step| self.compressed[step as usize] = true);
            }
        }
    }

    fn point(&self, number: Option<usize>, (decision, until): (u32, u32)) -> Point<'a> {
        let (scope, base) = self.steps(until).partition(|&step| self.compressed[step as usize]);
        Point { number, decision, until, scope, base, kept: self.kept.values().map(|kept| kept.1).collect() }
    }

    fn steps(&self, until: u32) -> impl Iterator<Item = u32> {
        (0..until).filter(|&step| self.log.kind(step) != Kind::Tools)
    }

    /// What stands in the prompt when the steps before `until` have been logged, in its order, but for the schemas of tools.
    pub(super) fn context(&self, until: u32) -> Vec<Cow<'a, Block>> {
        let standing = self.steps(until).filter(|&step| !self.compressed[step as usize]);
        let standing =
            standing.map(|step| ((self.log.turn_of(step), step), Cow::Owned(whole(self.log, step))));
        let kept = self.kept.values().map(|&(place, block)| (place, Cow::Borrowed(block)));
        let mut all: Vec<((u32, u32), Cow<'a, Block>)> = kept.chain(standing).collect();
        all.sort_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, block)| block).collect()
    }
}

/// A step as it stands before any event has had it.
pub(super) fn whole(log: &Log, step: u32) -> Block {
    let (turn, tokens) = (log.turn_of(step), log.tokens[step as usize]);
    Block { turn, tokens, content: Content::Step(step), fresh: true, left: 0 }
}

impl<'a> Point<'a> {
    /// The point with what was recalled for its decision: that stands in its prompt, and in no other.
    pub(super) fn recalling(mut self, run: &'a Run) -> Self {
        self.kept.extend(run.recalled_for(self.decision).into_iter().flat_map(|recall| &recall.blocks));
        self
    }

    /// How rows name the point.
    pub(super) fn name(&self) -> String {
        self.number.map_or("end".to_owned(), |number| number.to_string())
    }

    /// The texts of some steps.
    pub(super) fn texts<'l>(log: &'l Log, steps: &'l [u32]) -> impl Iterator<Item = &'l str> {
        steps.iter().map(|&step| log.trajectory.steps[step as usize].text.as_str())
    }

    /// The texts that stand for the scope.
    pub(super) fn kept_texts<'l>(&self, log: &'l Log) -> Vec<Cow<'l, str>>
    where
        Self: 'l,
    {
        self.kept.iter().map(|block| Self::text(log, block)).collect()
    }

    fn text<'l>(log: &'l Log, block: &Block) -> Cow<'l, str> {
        match block.content {
            Content::Step(step) => Cow::Borrowed(&log.trajectory.steps[step as usize].text),
            _ => Cow::Owned(block.text(log)),
        }
    }

    /// All words that stand for the scope, in random order.
    pub(super) fn shuffled(&self, log: &Log, seed: u64) -> String {
        let texts = self.kept_texts(log);
        let mut words: Vec<&str> = texts.iter().flat_map(|text| text.split_whitespace()).collect();
        let number = self.number.unwrap_or(0) as u64;
        words.shuffle(&mut rng(seed, "shuffled", log.id(), number, 0));
        words.join(" ")
    }
}
