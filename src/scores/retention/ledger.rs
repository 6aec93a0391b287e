//! Follows the mentions of needs through a replay: what stands in the prompt, and what never left it.

use std::collections::HashSet;

use crate::context::log::Log;
use crate::context::needs::Need;
use crate::replay::shadow::holds;
use crate::replay::trace::{Change, Move, Trace};
use crate::replay::watch::{Counts, Watch};
use crate::replay::{Event, Recipe, Run};
use crate::trajectory::Kind;

use super::questions::Questions;

/// What was so when a need arose.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) decision: u32,
    pub(super) n_events: u32,
    /// Turns since the last event.
    pub(super) since_event: u32,
    pub(super) exposed: bool,
    /// Whether text outside the strategy's reach serves it: surface, bound.
    pub(super) base: [bool; 2],
    /// Whether what was recalled for its decision serves it: surface, bound.
    pub(super) recalled: [bool; 2],
    /// Observed again after a compression took its last uncompressed mention.
    pub(super) reobserved: bool,
}

/// Follows the needs through a replay.
pub struct Ledger<'a> {
    log: &'a Log,
    pub(super) watch: &'a Watch<'a>,
    pub(super) needs: &'a [Need],
    /// Mentions outside compressed scopes, and in blocks of them that the strategy may not remove.
    outside: Counts,
    fixed: Counts,
    /// The blocks of the trace that it is in.
    fixed_blocks: HashSet<u32>,
    pub(super) lost: Vec<bool>,
    pub(super) reobserved: Vec<bool>,
    pub(super) n_events: u32,
    last_event_turn: u32,
    /// What is seen in what was recalled for the coming decision.
    pub(super) recalled: Vec<(u32, bool)>,
    pub(super) states: Vec<State>,
}

impl<'a> Ledger<'a> {
    /// Reads the trace of a replay of the log, which `run` tells of.
    pub fn of(
        log: &'a Log,
        watch: &'a Watch<'a>,
        questions: &'a Questions,
        recipe: &Recipe,
        (run, trace): (&Run, &Trace),
    ) -> Self {
        let n = watch.len();
        let mut ledger = Ledger {
            log,
            watch,
            needs: &questions.needs.list,
            outside: Counts::new(n),
            fixed: Counts::new(n),
            fixed_blocks: HashSet::new(),
            lost: vec![false; n],
            reobserved: vec![false; n],
            n_events: 0,
            last_event_turn: 0,
            recalled: Vec::new(),
            states: Vec::with_capacity(questions.needs.list.len()),
        };
        let mut decisions = (0..).zip(&run.decisions);
        for next in &trace.moves {
            match next {
                Move::Reset => ledger.reset(),
                Move::Appended(steps) => steps.clone().for_each(|step| ledger.appended(step)),
                Move::Compressed => {
                    let number = ledger.n_events as usize;
                    ledger.compressed(recipe, trace, &trace.changes[number], &run.events[number]);
                }
                Move::Recalled(blocks) => {
                    watch.in_trace(trace, blocks.clone(), &mut |w, b| ledger.recalled.push((w, b)));
                }
                Move::Decided => {
                    decisions.next().into_iter().for_each(|(number, d)| ledger.decided(number, d.turn));
                }
            }
        }
        ledger
    }

    fn reset(&mut self) {
        self.outside.clear();
        self.fixed.clear();
        self.fixed_blocks.clear();
        self.lost.fill(false);
        self.reobserved.fill(false);
    }

    fn appended(&mut self, step: u32) {
        let observation = self.log.kind(step) == Kind::Observation;
        for s in self.watch.in_step(step) {
            self.outside.add(s.watched, s.bound);
            self.reobserved[s.watched as usize] |= observation && self.lost[s.watched as usize];
        }
    }

    fn compressed(&mut self, recipe: &Recipe, trace: &Trace, change: &Change, event: &Event) {
        self.watch.in_trace(trace, change.gone.clone(), &mut |w, b| {
            self.outside.remove(w, b);
            self.lost[w as usize] |= !self.outside.has(w, false);
        });
        let taken = change.taken.iter().cloned().flatten();
        for number in taken.filter(|number| self.fixed_blocks.remove(number)) {
            self.watch.in_trace(trace, number..number + 1, &mut |w, b| self.fixed.remove(w, b));
        }
        for (block, number) in event.after.iter().zip(change.left.clone()) {
            if !Event::is_kept(self.log, recipe.strategy(event), block) {
                self.fixed_blocks.insert(number);
                self.watch.in_trace(trace, number..number + 1, &mut |w, b| self.fixed.add(w, b));
            }
        }
        self.n_events += 1;
        self.last_event_turn = event.turn;
    }

    fn decided(&mut self, decision: u32, turn: u32) {
        while let Some(need) = self.needs.get(self.states.len()).filter(|n| n.turn <= turn) {
            let w = self.watch.index(need.atom).expect("the atoms of all needs are watched");
            self.states.push(State {
                decision,
                n_events: self.n_events,
                since_event: turn - self.last_event_turn,
                exposed: !self.outside.has(w, false),
                base: [false, true].map(|b| self.outside.has(w, b) || self.fixed.has(w, b)),
                recalled: [false, true].map(|b| holds(&self.recalled, w, b)),
                reobserved: self.reobserved[w as usize],
            });
        }
        self.recalled.clear();
    }
}
