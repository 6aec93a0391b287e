//! Chance: how often a need would be met by the contexts of trajectories that have nothing to do
//! with it.
//!
//! The same variant runs over partner trajectories (same format, other repository and task); the
//! needs of the one are looked for in the context of the other, at the decision whose prompt is
//! nearest in tokens. So chance is measured at equal tokens, and without cutting any text.
//! Corrected retention is (x - c) / (1 - c), by the report.

use crate::replay::trace::{Blocks, Move, Trace};
use crate::replay::watch::{Counts, Watch};

/// When a watched atom stands in the context of a replay: (decision, present, bound) at each change.
type Changes = Vec<(u32, bool, bool)>;

/// Follows the watched atoms through a trace of the log in which they are watched.
struct Journal<'a> {
    watch: &'a Watch<'a>,
    trace: &'a Trace,
    counts: Counts,
    /// What may have changed since the last decision, each once.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
    changes: Vec<Changes>,
}

impl<'a> Journal<'a> {
    fn new(watch: &'a Watch<'a>, trace: &'a Trace) -> Self {
        let n = watch.len();
        let (counts, is_touched, changes) = (Counts::new(n), vec![false; n], vec![Changes::new(); n]);
        Journal { watch, trace, counts, touched: Vec::new(), is_touched, changes }
    }

    fn touch(&mut self, watched: u32) {
        if !std::mem::replace(&mut self.is_touched[watched as usize], true) {
            self.touched.push(watched);
        }
    }

    fn add(&mut self, (watched, bound): (u32, bool)) {
        self.counts.add(watched, bound);
        self.touch(watched);
    }

    fn remove(&mut self, (watched, bound): (u32, bool)) {
        self.counts.remove(watched, bound);
        self.touch(watched);
    }

    fn seen(&self, blocks: &Blocks) -> Vec<(u32, bool)> {
        let mut seen = Vec::new();
        self.watch.in_trace(self.trace, blocks.clone(), &mut |w, b| seen.push((w, b)));
        seen
    }

    fn read(mut self) -> Vec<Changes> {
        let (mut decision, mut events) = (0, self.trace.changes.iter());
        // What was recalled for the coming decision.
        let mut recalled = Vec::new();
        for next in &self.trace.moves {
            match next {
                Move::Reset => {
                    self.counts.clear();
                    (0..self.watch.len() as u32).for_each(|watched| self.touch(watched));
                }
                Move::Appended(steps) => {
                    for step in steps.clone() {
                        self.watch.in_step(step).iter().for_each(|s| self.add((s.watched, s.bound)));
                    }
                }
                Move::Compressed => {
                    let Some(change) = events.next() else { continue };
                    for blocks in change.taken.iter().chain([&change.gone]) {
                        self.seen(blocks).into_iter().for_each(|seen| self.remove(seen));
                    }
                    self.seen(&change.left).into_iter().for_each(|seen| self.add(seen));
                }
                Move::Recalled(blocks) => {
                    recalled = self.seen(blocks);
                    recalled.iter().for_each(|&seen| self.add(seen));
                }
                Move::Decided => {
                    self.decided(decision);
                    decision += 1;
                    recalled.drain(..).for_each(|seen| self.remove(seen));
                }
            }
        }
        self.changes
    }

    fn decided(&mut self, decision: u32) {
        for watched in self.touched.drain(..) {
            self.is_touched[watched as usize] = false;
            let now = (self.counts.has(watched, false), self.counts.has(watched, true));
            let changes = &mut self.changes[watched as usize];
            if changes.last().map_or((false, false), |c| (c.1, c.2)) != now {
                changes.push((decision, now.0, now.1));
            }
        }
    }
}

/// A partner's replay under the same variant.
pub struct Partner<'a> {
    /// Index of its kind in the experiment's list.
    pub kind: usize,
    watch: &'a Watch<'a>,
    /// By watched atom; empty where none is mentioned.
    changes: Vec<Changes>,
    /// (tokens sent, decision), by tokens.
    by_tokens: Vec<(u64, u32)>,
}

impl<'a> Partner<'a> {
    pub fn new(kind: usize, watch: &'a Watch<'a>, trace: &Trace) -> Self {
        let mut by_tokens: Vec<(u64, u32)> = trace.tokens_sent.iter().copied().zip(0..).collect();
        by_tokens.sort_unstable();
        Partner { kind, watch, changes: Journal::new(watch, trace).read(), by_tokens }
    }

    /// A partner that mentions none of the atoms.
    pub fn stranger(kind: usize, watch: &'a Watch<'a>) -> Self {
        Partner { kind, watch, changes: Vec::new(), by_tokens: Vec::new() }
    }

    /// Whether the atom stands in the partner's context of about this many tokens: (at all, bound).
    pub fn meets(&self, watched: u32, tokens: u64) -> (bool, bool) {
        let above = self.by_tokens.partition_point(|d| d.0 < tokens);
        let nearest = [above.checked_sub(1), Some(above)]
            .into_iter()
            .flatten()
            .filter_map(|i| self.by_tokens.get(i))
            .min_by_key(|d| (d.0.abs_diff(tokens), d.1));
        nearest.map_or((false, false), |&(_, decision)| self.at(self.watch.known_as(watched), decision))
    }

    /// Whether the atom stood in the context at this decision: (at all, bound).
    fn at(&self, watched: u32, decision: u32) -> (bool, bool) {
        let changes = &self.changes[watched as usize];
        let n = changes.partition_point(|c| c.0 <= decision);
        n.checked_sub(1).map_or((false, false), |i| (changes[i].1, changes[i].2))
    }
}
