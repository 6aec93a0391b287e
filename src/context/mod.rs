//! The context that would be sent: an ordered list of blocks, and the one function that edits it.
//!
//! Strategies propose [`Edit`]s; [`Context::apply`] checks and applies them. Provenance, token
//! accounting and the invariants are therefore computed in one place, for all strategies.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::text::tokens::Tokenizer;
use crate::trajectory::Kind;
use crate::trajectory::pairs::{Lack, Standing};

pub mod annotations;
pub mod atoms;
mod block;
pub mod counter;
mod edit;
mod forms;
pub mod log;
pub mod messages;
pub mod needs;

pub use block::{Block, Content, Piece, said, speaker};
pub use edit::{Edit, Recalled};

use block::LACKING;
use edit::{check, edited};
use log::Log;

/// The ordered blocks, and their sum of tokens.
///
/// What is recalled is no part of it: it stands at the end of one prompt, after the newest step, and is gone from the next.
/// There it leaves the prefix that a prompt cache serves as it is; anywhere before, each change of what is recalled
/// would have all that follows written anew.
#[derive(Clone, Debug, Default)]
pub struct Context {
    pub blocks: Vec<Block>,
    pub tokens: u64,
    /// Blocks at the start that no strategy may touch: system prompt, tools, goal, what earlier segments pinned, logged summary.
    pub n_head: usize,
    /// Calls and results among the blocks.
    pairs: Standing,
    /// Whether what stands for a scope may be longer than it was: where it is what the log records.
    may_grow: bool,
    /// Whether a call may stand without its result, and the other way.
    parts_pairs: bool,
    /// Blocks that events have left so far.
    n_left: u32,
}

/// What applying the edits of one event did.
#[derive(Debug)]
pub struct Applied {
    /// The blocks of the scope as they were.
    pub before: Vec<Block>,
    /// The blocks that stand for the scope now.
    pub after: Vec<Block>,
    /// Where they stand, ascending.
    pub places: Vec<usize>,
    /// Tokens of the prompt up to the first changed block; none if nothing changed.
    pub unchanged_prefix: Option<u64>,
    /// Invariants that the edits violated.
    pub violations: Vec<&'static str>,
}

impl Context {
    pub fn push_step(&mut self, log: &Log, step: u32) {
        let tokens = log.tokens[step as usize];
        self.tokens += u64::from(tokens);
        self.blocks.push(Block {
            turn: log.turn_of(step),
            tokens,
            content: Content::Step(step),
            fresh: true,
            left: 0,
        });
        if let Some(pair) = log.pairs.number(step) {
            self.pairs.logged(pair, log.kind(step));
        }
    }

    /// Holds nothing; what stands for a scope may be longer than it was, or may not.
    pub fn new(may_grow: bool) -> Self {
        Context { may_grow, ..Context::default() }
    }

    /// The same; a call may stand without its result, and the other way, or may not.
    pub fn parting_pairs(self, parts_pairs: bool) -> Self {
        Context { parts_pairs, ..self }
    }

    /// Whether what stands for a scope may be longer than it was.
    pub fn may_grow(&self) -> bool {
        self.may_grow
    }

    /// Leaves nothing.
    pub fn clear(&mut self) {
        self.blocks.clear();
        (self.tokens, self.n_head) = (0, 0);
        self.pairs.clear();
    }

    /// The invariants that the prompt as it stands violates.
    pub fn violations(&self) -> impl Iterator<Item = &'static str> {
        LACKING.iter().filter(|(lack, _)| self.pairs.lacks(*lack)).map(|(_, violation)| *violation)
    }

    /// The blocks that stand for these turns, without the head.
    pub fn range(&self, turns: Range<u32>) -> Range<usize> {
        let body = &self.blocks[self.n_head..];
        let start = body.partition_point(|b| b.turn < turns.start);
        let end = body.partition_point(|b| b.turn < turns.end);
        self.n_head + start..self.n_head + end.max(start)
    }

    /// The head and some of the blocks behind it, as a context of its own: what a strategy is shown of a scope with gaps.
    pub fn only(&self, picked: &[usize]) -> Context {
        let blocks: Vec<Block> =
            (0..self.n_head).chain(picked.iter().copied()).map(|i| self.blocks[i].clone()).collect();
        let (tokens, n_head) = (sum(&blocks), self.n_head);
        Context { tokens, blocks, n_head, may_grow: self.may_grow, ..Context::default() }
    }

    /// Applies the edits of one event to the scope. Edits must be sorted by block and at most one
    /// a block. A call shares the fate of its result, see [`Context::keep_pairs`]. If the result is longer than the
    /// scope was, the original stays and that is told (unless it [may grow](Self::may_grow)).
    pub fn apply(
        &mut self,
        log: &Log,
        tokenizer: &Tokenizer,
        scope: Range<usize>,
        edits: Vec<Edit>,
    ) -> anyhow::Result<Applied> {
        check(&edits, &scope, &self.blocks)?;
        let before = self.blocks[scope.clone()].to_vec();
        let after = edited(log, tokenizer, &self.blocks, scope.clone(), edits);
        Ok(self.put(log, before, after, |at| scope.start + at, scope.clone()))
    }

    /// Applies edits to a scope with gaps: they name the blocks of [`Context::only`] of these `picked` ones, and what
    /// stands between the picked blocks stays as it is. A new text stands where the block stood that it was put before.
    pub fn apply_picked(
        &mut self,
        log: &Log,
        tokenizer: &Tokenizer,
        picked: &[usize],
        edits: Vec<Edit>,
    ) -> anyhow::Result<Applied> {
        let view = self.only(picked);
        let scope = view.n_head..view.blocks.len();
        check(&edits, &scope, &view.blocks)?;
        let after = edited(log, tokenizer, &view.blocks, scope, edits);
        let (first, last) = (picked.first().copied().unwrap_or(0), picked.last().map_or(0, |last| last + 1));
        let before: Vec<Block> = picked.iter().map(|&i| self.blocks[i].clone()).collect();
        Ok(self.put(log, before, after, |at| picked.get(at).copied().unwrap_or(last), first..last))
    }

    /// Puts `after` (each with the number in `before` where it stands) in the place of `before`, whose blocks stand at
    /// `place` within `range`.
    fn put(
        &mut self,
        log: &Log,
        before: Vec<Block>,
        mut after: Vec<(usize, Block)>,
        place: impl Fn(usize) -> usize,
        range: Range<usize>,
    ) -> Applied {
        self.keep_pairs(log, &before, &mut after);
        let tokens_before = sum(&before);
        let tokens_after: u64 = after.iter().map(|(_, b)| u64::from(b.tokens)).sum();
        if tokens_after > tokens_before && !self.may_grow {
            let places: Vec<usize> = (0..before.len()).map(&place).collect();
            let news = after;
            let mut after = before.clone();
            for (block, &at) in after.iter_mut().zip(&places) {
                block.left = self.next_left();
                self.blocks[at] = Block { fresh: false, ..block.clone() };
            }
            self.set_pairs(log, news.iter().map(|(_, block)| block), false);
            self.set_pairs(log, &before, true);
            let violations = vec!["longer than the original"];
            return Applied { after, before, places, unchanged_prefix: None, violations };
        }
        let first_changed =
            before.iter().zip(&after).position(|(b, (_, a))| b != a).unwrap_or(before.len().min(after.len()));
        let changed = first_changed < before.len().max(after.len());
        let at = if first_changed < before.len() { place(first_changed) } else { range.end };
        let unchanged_prefix = changed.then(|| {
            // Sum the shorter side, so that an edit near the end of a long context stays cheap.
            if at <= self.blocks.len() / 2 {
                sum(&self.blocks[..at])
            } else {
                self.tokens - sum(&self.blocks[at..])
            }
        });
        after.iter_mut().for_each(|(_, block)| block.left = self.next_left());
        let places = self.replace(before.len(), &after, place, range);
        let after: Vec<Block> = after.into_iter().map(|(_, block)| block).collect();
        self.tokens = self.tokens - tokens_before + tokens_after;
        Applied { before, after, places, unchanged_prefix, violations: self.violations().collect() }
    }

    /// Takes back what changed nothing, as if it had never been: no number of a block is lost.
    pub fn take_back(&mut self, applied: &Applied) {
        for (&at, block) in applied.places.iter().zip(&applied.before) {
            self.blocks[at] = block.clone();
        }
        self.n_left -= applied.after.len() as u32;
    }

    fn next_left(&mut self) -> u32 {
        self.n_left += 1;
        self.n_left
    }

    /// Puts `after` in the place of `n_before` blocks; returns where it stands. The first of them that give way to one block each
    /// are replaced where they stand: only what follows is moved, so that a summary at the start of a long prompt and a
    /// result that goes at its end cost no more than the two.
    fn replace(
        &mut self,
        n_before: usize,
        after: &[(usize, Block)],
        place: impl Fn(usize) -> usize,
        range: Range<usize>,
    ) -> Vec<usize> {
        let put = |block: &Block| Block { fresh: false, ..block.clone() };
        let is_one = |at: usize| {
            let follows = after.get(at + 1).map(|(at, _)| *at);
            after.get(at).is_some_and(|(own, _)| *own == at) && follows != Some(at)
        };
        let n_same = (0..n_before).position(|at| !is_one(at)).unwrap_or(n_before);
        let mut places: Vec<usize> = (0..n_same).map(&place).collect();
        for (&at, (_, block)) in places.iter().zip(after) {
            self.blocks[at] = put(block);
        }
        let start = if n_same < n_before { place(n_same) } else { range.end };
        let mut left = Vec::with_capacity(range.end - start + after.len() - n_before.min(after.len()));
        let mut news = after[n_same..].iter().peekable();
        let mut next = n_same;
        for i in start..range.end {
            while let Some((_, block)) = news.next_if(|(at, _)| place(*at) <= i) {
                places.push(start + left.len());
                left.push(put(block));
            }
            match next < n_before && place(next) == i {
                true => next += 1,
                false => left.push(self.blocks[i].clone()),
            }
        }
        for (_, block) in news {
            places.push(start + left.len());
            left.push(put(block));
        }
        self.blocks.splice(start..range.end, left);
        places
    }

    /// Where edits part a call from its result, moves them to where they do not: a call shares the fate of its result.
    /// Where a result still stands as a message, its call comes back as it was; where none does, its call is quoted, and
    /// is no message any more either. Where pairs may be parted nothing is moved.
    fn keep_pairs(&mut self, log: &Log, before: &[Block], after: &mut Vec<(usize, Block)>) {
        self.set_pairs(log, before, false);
        self.set_pairs(log, after.iter().map(|(_, block)| block), true);
        if self.parts_pairs {
            return;
        }
        let calls = before.iter().enumerate().filter(|(_, block)| block.kind(log) == Some(Kind::Action));
        let lack = |call: &Block| self.pairs.lack_of(log.pairs.number(call.message()?)?);
        let parted: BTreeMap<usize, Lack> = calls.filter_map(|(at, call)| Some((at, lack(call)?))).collect();
        if !parted.is_empty() {
            self.mend_calls(log, before, after, &parted);
        }
        // A result whose call stands outside of the scope stays.
        let results =
            before.iter().enumerate().filter(|(_, block)| block.kind(log) == Some(Kind::Observation));
        let lack = |result: &Block| self.pairs.lack_of(log.pairs.number(result.message()?)?);
        let parted: Vec<usize> =
            results.filter(|(_, b)| lack(b) == Some(Lack::Result)).map(|(at, _)| at).collect();
        for at in parted {
            self.set_pairs(log, [&before[at]], true);
            after.push((at, before[at].clone()));
            after.sort_by_key(|(at, _)| *at);
        }
    }

    fn mend_calls(
        &mut self,
        log: &Log,
        before: &[Block],
        after: &mut Vec<(usize, Block)>,
        parted: &BTreeMap<usize, Lack>,
    ) {
        let mut moved = Vec::with_capacity(after.len());
        for (at, block) in after.drain(..) {
            let parted = parted.get(&at).filter(|_| !matches!(block.content, Content::Generated { .. }));
            if parted.is_some() {
                self.set_pairs(log, [&block], false);
            }
            match parted {
                None => moved.push((at, block)),
                Some(Lack::Call) => {}
                Some(Lack::Result) => moved.extend(block.quoted(log).map(|block| (at, block))),
            }
        }
        for (&at, _) in parted.iter().filter(|(_, lack)| **lack == Lack::Call) {
            self.set_pairs(log, [&before[at]], true);
            moved.push((at, before[at].clone()));
        }
        // What was put before a call stays before it.
        moved.sort_by_key(|(at, _)| *at);
        *after = moved;
    }

    /// Counts messages among blocks that are put there, or taken away.
    fn set_pairs<'b>(&mut self, log: &Log, blocks: impl IntoIterator<Item = &'b Block>, stands: bool) {
        if log.pairs.is_empty() {
            return;
        }
        for step in blocks.into_iter().filter_map(Block::message) {
            if let Some(pair) = log.pairs.number(step) {
                self.pairs.set(pair, log.kind(step), stands);
            }
        }
    }
}

fn sum(blocks: &[Block]) -> u64 {
    blocks.iter().map(|b| u64::from(b.tokens)).sum()
}

#[cfg(test)]
mod tests;
