//! What an event compresses: whole turns, the steps that a trigger names, or the messages that a rule names.

use std::collections::HashSet;
use std::ops::Range;

use super::{Carry, Replayer};
use crate::context::{Block, Content};
use crate::replay::{ALL, Event};
use crate::scopes::{Prompt, Rule};
use crate::triggers::Firing;

/// What an event compresses.
pub(super) struct Pick {
    pub(super) turns: Range<u32>,
    pub(super) fresh: u32,
    /// Indices of blocks, ascending.
    pub(super) blocks: Vec<usize>,
    pub(super) only: Option<Vec<u32>>,
    pub(super) names_steps: bool,
    /// See [`Event::takes`].
    pub(super) takes: u32,
}

impl Pick {
    /// The blocks as a range, if nothing stands between them.
    pub(super) fn range(&self) -> Option<Range<usize>> {
        let (first, last) = (*self.blocks.first()?, *self.blocks.last()?);
        (last - first + 1 == self.blocks.len()).then_some(first..last + 1)
    }
}

impl Replayer<'_> {
    /// What a firing makes the scope; none if nothing in it is new.
    ///
    /// Whole turns begin where the last event over whole turns ended. A recursive strategy has all in its scope that was
    /// compressed before, too. A pair enters a scope as a whole, with its last result: a call that waits for one stays
    /// out, and comes in with it.
    pub(super) fn pick(
        &self,
        (stage, turn): (usize, u32),
        firing: &Firing,
        carry: &mut Carry,
    ) -> Option<Pick> {
        if let Some(rule) = &self.recipe.stages[stage].scope {
            return self.pick_messages((stage, &**rule), turn, &carry.stages[stage].passed);
        }
        let newest = self.recipe.stages[stage].strategy.newest(self.log, turn);
        match &firing.only {
            Some(named) => {
                // A trigger may name a step of the turn at hand that stands before the decision.
                let at = &self.log.turns[newest as usize];
                let until = if newest == turn { at.decision.unwrap_or(at.steps.end) } else { at.steps.start };
                self.pick_named(stage, (named, until), carry)
            }
            None => self.pick_turns(stage, firing.scope_end.min(newest), carry),
        }
    }

    /// The messages that a rule names, but for what is pinned or waits for its result; none if nothing in it is new.
    fn pick_messages(
        &self,
        (stage, rule): (usize, &dyn Rule),
        turn: u32,
        passed: &HashSet<u32>,
    ) -> Option<Pick> {
        let messages = self.single()?;
        let window = self.recipe.frame.map_or(0, |frame| frame.window);
        let (n_head, tokens) = (messages.n_head(), self.counted(turn));
        let counter = messages.counter();
        let prompt =
            Prompt { log: self.log, messages: &messages.list, n_head, tokens, window, counter, passed };
        let named = rule.pick(&prompt).into_iter().filter(|&at| !messages.list[at].is_pinned);
        let mut blocks: Vec<usize> = named.flat_map(|at| messages.list[at].blocks.clone()).collect();
        if self.log.pairs.has_late() && !self.recipe.parts_pairs() {
            blocks.retain(|&i| !self.waits(i, turn));
        }
        let of = |i: &usize| &self.context.blocks[*i];
        if !rule.retakes() {
            blocks.retain(|i| of(i).message().is_none_or(|step| !passed.contains(&step)));
        }
        let first = *blocks.first()?;
        let only: Vec<u32> = blocks.iter().filter(|i| of(i).fresh).filter_map(|i| of(i).message()).collect();
        let fresh = match only.iter().map(|&step| self.log.turn_of(step)).min() {
            // What another stage left as it was is new to this one; and what only leaves out is done where nothing is new, too.
            None if !rule.retakes()
                || rule.merges()
                || !self.recipe.stages[stage].strategy.is_recursive() =>
            {
                of(&first).turn
            }
            fresh => fresh?,
        };
        let is_whole = blocks.last()? - first + 1 == blocks.len();
        let last = only.iter().max().copied().unwrap_or(0);
        let is_all =
            self.context.blocks[self.context.n_head.min(first)..first].iter().all(|block| block.fresh);
        let takes = if rule.retakes() && is_whole && is_all && !only.is_empty() { last + 1 } else { 0 };
        Some(Pick {
            turns: self.turns(&blocks),
            fresh,
            blocks,
            only: Some(only),
            names_steps: !is_whole,
            takes,
        })
    }

    /// What the stage rewrote.
    pub(super) fn pick_rewritten(&self, stage: usize) -> Option<Pick> {
        let (all, strategy) = (&self.context.blocks, &*self.recipe.stages[stage].strategy);
        let is_it = |block: &Block| {
            matches!(block.content, Content::Placeholder { .. }) && Event::is_kept(self.log, strategy, block)
        };
        let blocks: Vec<usize> = (self.context.n_head..all.len()).filter(|&i| is_it(&all[i])).collect();
        let (turns, fresh) = (self.turns(&blocks), all[*blocks.first()?].turn);
        Some(Pick { turns, fresh, blocks, only: Some(Vec::new()), names_steps: true, takes: 0 })
    }

    fn pick_named(&self, stage: usize, (named, until): (&[u32], u32), carry: &mut Carry) -> Option<Pick> {
        let log = self.log;
        let last = |step: u32| log.pairs.with(step).and_then(|pair| pair.last().copied()).unwrap_or(step);
        let (steps, wait): (Vec<u32>, Vec<u32>) =
            // What is pinned stays as it stands, like the head.
            carry.stages[stage].waiting.iter().chain(named).filter(|&&s| !log.is_pinned(s)).partition(|&&s| last(s) < until);
        carry.stages[stage].waiting = wait;
        let mut only: Vec<(u32, usize)> = Vec::new();
        for step in steps {
            let Some(place) = self.fresh_place(step) else { continue };
            only.push((step, place));
            only.extend(self.rest_of_pair(step));
        }
        only.sort_unstable();
        only.dedup();
        let blocks = &self.context.blocks;
        let fresh = only.iter().map(|(_, i)| blocks[*i].turn).min()?;
        let mut picked: Vec<usize> = only.iter().map(|(_, i)| *i).collect();
        if self.recipe.stages[stage].strategy.is_recursive() {
            picked.extend(self.left(carry));
        }
        picked.sort_unstable();
        let only = Some(only.into_iter().map(|(step, _)| step).collect());
        carry.has_gaps = true;
        let takes = self.takes(stage);
        Some(Pick { turns: self.turns(&picked), fresh, blocks: picked, only, names_steps: true, takes })
    }

    fn pick_turns(&self, stage: usize, end: u32, carry: &mut Carry) -> Option<Pick> {
        let mut fresh = carry.stages[stage].compressed_until;
        if end <= fresh {
            return None;
        }
        let recursive = self.recipe.stages[stage].strategy.is_recursive();
        let mut turns = if recursive { carry.begin } else { fresh }..end;
        let range = self.context.range(turns.clone());
        let blocks = &self.context.blocks;
        let is_fresh = |i: usize| blocks[i].fresh;
        let mut picked: Vec<usize> = match (carry.has_gaps, recursive) {
            (false, _) => range.clone().collect(),
            (true, false) => range.clone().filter(|&i| is_fresh(i)).collect(),
            (true, true) => {
                let left = self.left(carry).into_iter().filter(|i| !range.contains(i));
                let mut all: Vec<usize> = range.clone().chain(left).collect();
                all.sort_unstable();
                all
            }
        };
        carry.stages[stage].compressed_until = end;
        let n_all = picked.len();
        if self.log.has_pinned() {
            picked.retain(|&i| blocks[i].message().is_none_or(|step| !self.log.is_pinned(step)));
        }
        let mut joined: Vec<usize> = Vec::new();
        if self.log.pairs.has_late() {
            picked.retain(|&i| !self.waits(i, end));
            let messages = picked.iter().filter_map(|&i| blocks[i].message());
            let late = messages.filter(|&step| self.began_before(step, fresh));
            joined = late.flat_map(|step| self.rest_of_pair(step)).map(|(_, i)| i).collect();
        }
        let is_apart = picked.len() < n_all;
        let n = picked.len();
        picked.extend(joined);
        picked.sort_unstable();
        picked.dedup();
        let has_joined = picked.len() > n;
        let mut new = picked.iter().filter(|&&i| is_fresh(i)).peekable();
        let first = blocks[**new.peek()?].turn;
        let steps = (is_apart || has_joined || carry.has_kept || carry.has_gaps)
            .then(|| new.filter_map(|&i| blocks[i].message()).collect());
        if has_joined {
            (fresh, turns.start) = (fresh.min(first), turns.start.min(first));
        }
        let takes = self.takes(stage);
        Some(Pick { turns, fresh, blocks: picked, only: steps, names_steps: false, takes })
    }

    /// What an event of a stage without a scope of its own takes of those before it.
    fn takes(&self, stage: usize) -> u32 {
        if self.recipe.stages[stage].strategy.is_recursive() { ALL } else { 0 }
    }

    /// Where events have left something.
    fn left(&self, carry: &Carry) -> Vec<usize> {
        match self.recipe.stages.len() {
            1 => carry.left_at.clone(),
            _ => (self.context.n_head..self.context.blocks.len())
                .filter(|&i| !self.context.blocks[i].fresh)
                .collect(),
        }
    }

    /// Where a step stands whole, if no event has had it.
    fn fresh_place(&self, step: u32) -> Option<usize> {
        let (turn, blocks) = (self.log.turn_of(step), &self.context.blocks);
        let is_it =
            |i: &usize| blocks[*i].fresh && matches!(blocks[*i].content, Content::Step(s) if s == step);
        self.context.range(turn..turn + 1).find(is_it)
    }

    /// The other steps of a pair, with their places, as far as no event has had them.
    fn rest_of_pair(&self, step: u32) -> impl Iterator<Item = (u32, usize)> {
        let pair = self.log.pairs.with(step).unwrap_or_default().iter().copied();
        pair.filter(move |&other| other != step).filter_map(|other| Some((other, self.fresh_place(other)?)))
    }

    /// Whether a step belongs to a pair whose first call came before a turn.
    fn began_before(&self, step: u32, turn: u32) -> bool {
        let first = self.log.pairs.with(step).and_then(|pair| pair.first());
        first.is_some_and(|&first| self.log.turn_of(first) < turn)
    }

    /// Whether a block belongs to a pair whose last result comes at a turn or after it.
    fn waits(&self, block: usize, turn: u32) -> bool {
        let pair = self.context.blocks[block].message().and_then(|step| self.log.pairs.with(step));
        pair.and_then(|pair| pair.last()).is_some_and(|&last| self.log.turn_of(last) >= turn)
    }

    /// The turns from the first to the last of these blocks.
    fn turns(&self, blocks: &[usize]) -> Range<u32> {
        let turns = || blocks.iter().map(|&i| self.context.blocks[i].turn);
        turns().min().unwrap_or(0)..turns().max().map_or(0, |last| last + 1)
    }
}
