//! Chance: how often a need would be met by the contexts of trajectories that have nothing to do
//! with it.
//!
//! The same variant runs over partner trajectories (same format, other repository and task); the
//! needs of the one are looked for in the context of the other, at the decision whose prompt is
//! nearest in tokens. So chance is measured at equal tokens, and without cutting any text.
//! Corrected retention is (x - c) / (1 - c), by the report.

use std::collections::BTreeSet;

use crate::context::Block;
use crate::replay::watch::{Counts, Watch};
use crate::replay::{Event, Observer, Run};
use crate::strategies::Strategy;

/// Records when each watched atom stands in the context of a replay.
pub struct Journal<'a> {
    watch: &'a Watch<'a>,
    counts: Counts,
    touched: BTreeSet<u32>,
    /// What a recursive strategy's last event left.
    left: Vec<(u32, bool)>,
    /// What was recalled for the coming decision.
    recalled: Vec<(u32, bool)>,
    /// Per watched atom: (decision, present, bound) at each change.
    changes: Vec<Vec<(u32, bool, bool)>>,
}

impl<'a> Journal<'a> {
    pub fn new(watch: &'a Watch<'a>) -> Self {
        Journal {
            watch,
            counts: Counts::new(watch.len()),
            touched: BTreeSet::new(),
            left: Vec::new(),
            recalled: Vec::new(),
            changes: vec![Vec::new(); watch.len()],
        }
    }

    /// Whether the atom stood in the context at this decision: (at all, bound).
    fn at(&self, watched: u32, decision: u32) -> (bool, bool) {
        let changes = &self.changes[watched as usize];
        let n = changes.partition_point(|c| c.0 <= decision);
        n.checked_sub(1).map_or((false, false), |i| (changes[i].1, changes[i].2))
    }
}

impl Observer for Journal<'_> {
    fn reset(&mut self) {
        self.counts.clear();
        self.left.clear();
        self.touched.extend(0..self.watch.len() as u32);
    }

    fn appended(&mut self, step: u32) {
        for s in self.watch.in_step(step) {
            self.counts.add(s.watched, s.bound);
            self.touched.insert(s.watched);
        }
    }

    fn compressed(&mut self, strategy: &dyn Strategy, before: &[Block], event: &Event, until: u32) {
        let sightings = |blocks: &mut dyn Iterator<Item = &Block>| {
            let mut seen = Vec::new();
            blocks.for_each(|block| self.watch.in_block(block, until, &mut |w, b| seen.push((w, b))));
            seen
        };
        // What is bound in a text depends on the sources before it, so that what was counted is remembered.
        let gone = sightings(&mut before.iter().filter(|block| block.fresh));
        let left = sightings(&mut event.after.iter());
        for (w, b) in self.left.drain(..).chain(gone) {
            self.counts.remove(w, b);
            self.touched.insert(w);
        }
        for &(w, b) in &left {
            self.counts.add(w, b);
            self.touched.insert(w);
        }
        if strategy.is_recursive() {
            self.left = left;
        }
    }

    fn recalled(&mut self, blocks: &[Block], until: u32) {
        let recalled = &mut self.recalled;
        blocks.iter().for_each(|block| self.watch.in_block(block, until, &mut |w, b| recalled.push((w, b))));
        for &(w, b) in &self.recalled {
            self.counts.add(w, b);
            self.touched.insert(w);
        }
    }

    fn decided(&mut self, decision: u32, _: u32) {
        for watched in std::mem::take(&mut self.touched) {
            let now = (self.counts.has(watched, false), self.counts.has(watched, true));
            let changes = &mut self.changes[watched as usize];
            if changes.last().map_or((false, false), |c| (c.1, c.2)) != now {
                changes.push((decision, now.0, now.1));
            }
        }
        for (w, b) in std::mem::take(&mut self.recalled) {
            self.counts.remove(w, b);
            self.touched.insert(w);
        }
    }
}

/// A partner's replay under the same variant.
pub struct Partner<'a> {
    /// Index of its kind in the experiment's list.
    pub kind: usize,
    journal: Journal<'a>,
    /// (tokens sent, decision), by tokens.
    by_tokens: Vec<(u64, u32)>,
}

impl<'a> Partner<'a> {
    pub fn new(kind: usize, journal: Journal<'a>, run: &Run) -> Self {
        let mut by_tokens: Vec<(u64, u32)> =
            run.decisions.iter().enumerate().map(|(i, d)| (d.tokens_sent, i as u32)).collect();
        by_tokens.sort_unstable();
        Partner { kind, journal, by_tokens }
    }

    /// Whether the atom stands in the partner's context of about this many tokens: (at all, bound).
    pub fn meets(&self, watched: u32, tokens: u64) -> (bool, bool) {
        let above = self.by_tokens.partition_point(|d| d.0 < tokens);
        let nearest = [above.checked_sub(1), Some(above)]
            .into_iter()
            .flatten()
            .filter_map(|i| self.by_tokens.get(i))
            .min_by_key(|d| (d.0.abs_diff(tokens), d.1));
        nearest.map_or((false, false), |&(_, decision)| {
            self.journal.at(self.journal.watch.known_as(watched), decision)
        })
    }
}
