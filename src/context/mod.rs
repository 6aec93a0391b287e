//! The context that would be sent: an ordered list of blocks, and the one function that edits it.
//!
//! Strategies propose [`Edit`]s; [`Context::apply`] checks and applies them. Provenance, token
//! accounting and the invariants are therefore computed in one place, for all strategies.

pub mod annotations;
pub mod atoms;
pub mod log;
pub mod messages;
pub mod needs;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::context::log::Log;
use crate::text::tokens::Tokenizer;
use crate::trajectory::pairs::{Lack, Standing};
use crate::trajectory::{Kind, Role};

/// Violations: what stands in the prompt without the other part of its pair.
const LACKING: [(Lack, &str); 2] =
    [(Lack::Call, "tool result without its call"), (Lack::Result, "call without its result")];

/// A piece of the context.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Turn that it stands for (the last one, if several).
    pub turn: u32,
    pub tokens: u32,
    pub content: Content,
    /// Whether no event has had it in its scope; of the blocks that an event left, whether that was its first.
    pub fresh: bool,
    /// Its number among all blocks that events of the replay left, from 1; 0 where none has had it.
    pub left: u32,
}

/// What a block holds, and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A whole step, copied.
    Step(u32),
    /// Copied pieces of a step, quoted as a note: no longer a message of its own, even if all are there.
    Excerpt { step: u32, pieces: Vec<Piece> },
    /// A generated text in the place of a step, which stays a message (a masked tool result).
    Placeholder { step: u32, text: String },
    /// A generated text that stands for the scope of an event.
    Generated { text: String },
}

/// A copied span, or its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub span: u32,
    /// End of the copy in the step's text; the span's own end if it is whole.
    pub end: u32,
    pub tokens: u32,
}

impl Piece {
    pub fn whole(log: &Log, span: u32) -> Self {
        let s = log.spans[span as usize];
        Piece { span, end: s.end, tokens: s.tokens }
    }

    /// Its beginning with at most `tokens` tokens; none if nothing fits.
    pub fn cut(self, log: &Log, tokenizer: &Tokenizer, tokens: u32) -> Option<Self> {
        if self.tokens <= tokens {
            return Some(self);
        }
        let start = log.spans[self.span as usize].start;
        let text = self.text(log);
        let (mut fits, mut over) = (0, text.len());
        let mut best = None;
        // Binary search on the byte length: a longer prefix has at least about as many tokens.
        while over - fits > 1 && tokens > 0 {
            let mut mid = (fits + over) / 2;
            while !text.is_char_boundary(mid) {
                mid -= 1;
            }
            if mid <= fits {
                break;
            }
            let n = tokenizer.count(&text[..mid]);
            if n <= tokens {
                fits = mid;
                best = Some(Piece { end: start + mid as u32, tokens: n, ..self });
                if n == tokens {
                    break;
                }
            } else {
                over = mid;
            }
        }
        best
    }

    pub fn is_whole(&self, log: &Log) -> bool {
        self.end == log.spans[self.span as usize].end
    }

    pub fn text<'a>(&self, log: &'a Log) -> &'a str {
        let s = log.spans[self.span as usize];
        &log.trajectory.steps[s.step as usize].text[s.start as usize..self.end as usize]
    }
}

impl Block {
    /// The step that it holds or stands in for as a message; generated text and excerpts are none.
    pub fn message(&self) -> Option<u32> {
        match self.content {
            Content::Step(step) | Content::Placeholder { step, .. } => Some(step),
            Content::Excerpt { .. } | Content::Generated { .. } => None,
        }
    }

    /// The step that it holds as it was logged.
    pub fn step(&self) -> Option<u32> {
        if let Content::Step(step) = self.content { Some(step) } else { None }
    }

    /// The step that it holds, stands in for or quotes.
    pub fn origin(&self) -> Option<u32> {
        match self.content {
            Content::Step(step) | Content::Placeholder { step, .. } | Content::Excerpt { step, .. } => {
                Some(step)
            }
            Content::Generated { .. } => None,
        }
    }

    /// Kind of the step it holds or stands in for; generated text and excerpts have none.
    pub fn kind(&self, log: &Log) -> Option<Kind> {
        self.message().map(|step| log.kind(step))
    }

    /// The same as a quotation, which is no message; none where it holds no piece of a step.
    fn quoted(self, log: &Log) -> Option<Block> {
        match self.content {
            Content::Step(step) => {
                let pieces: Vec<Piece> = log.spans_of(step).map(|span| Piece::whole(log, span)).collect();
                (!pieces.is_empty()).then_some(Block { content: Content::Excerpt { step, pieces }, ..self })
            }
            Content::Placeholder { .. } => None,
            Content::Excerpt { .. } | Content::Generated { .. } => Some(self),
        }
    }

    /// Tokens that are not copied from a step.
    pub fn generated_tokens(&self) -> u32 {
        match self.content {
            Content::Step(_) | Content::Excerpt { .. } => 0,
            Content::Placeholder { .. } | Content::Generated { .. } => self.tokens,
        }
    }

    /// The block as a model reads it in a plain text: under a word for who speaks; generated text has none.
    pub fn said(&self, log: &Log) -> String {
        let speaker = match self.content {
            Content::Generated { .. } => "",
            Content::Step(step) | Content::Placeholder { step, .. } | Content::Excerpt { step, .. } => {
                speaker(log, step)
            }
        };
        format!("{speaker}{}\n", self.text(log))
    }

    /// The text that would be sent.
    pub fn text(&self, log: &Log) -> String {
        match &self.content {
            Content::Step(step) => log.trajectory.steps[*step as usize].text.clone(),
            Content::Excerpt { pieces, .. } => pieces.iter().map(|p| p.text(log)).collect(),
            Content::Placeholder { text, .. } | Content::Generated { text } => text.clone(),
        }
    }
}

/// The word under which a step stands in a plain text, with a colon and a blank.
pub fn speaker(log: &Log, step: u32) -> &'static str {
    match (log.kind(step), log.trajectory.steps[step as usize].role) {
        (Kind::Observation, _) => "Observation: ",
        (Kind::Action, _) => "Action: ",
        (Kind::Thought, _) => "Thought: ",
        (Kind::Compaction, _) => "Summary: ",
        (_, Role::Agent) => "Agent: ",
        (_, Role::System) => "System: ",
        (_, Role::User | Role::Tool) => "User: ",
    }
}

/// A step as a model reads it in a plain text: under the word for who speaks.
pub fn said(log: &Log, step: u32) -> String {
    format!("{}{}\n", speaker(log, step), log.trajectory.steps[step as usize].text)
}

/// A proposed change. Blocks are named by their index in [`Context::blocks`].
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Leave the block out.
    Drop { block: usize },
    /// Keep only these pieces of the block's step, in order.
    Keep { block: usize, pieces: Vec<Piece> },
    /// Put a short text in the place of the block's step.
    Mask { block: usize, text: String },
    /// Put a text that stands for the scope before the block (or at the end of the scope).
    Insert { before: usize, text: String },
}

/// What a strategy brings back for one prompt: see [`Context`] for where it stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Recalled {
    /// Copied pieces of one step, in order.
    Pieces(Vec<Piece>),
    /// A text of the strategy's own, or of a model.
    Generated(String),
}

impl Recalled {
    /// The block that it becomes before the decision of a turn; none if it holds nothing.
    ///
    /// # Errors
    /// Pieces of more than one step, or of a step that had not been logged: `until` is the next to come.
    pub fn block(
        self,
        log: &Log,
        tokenizer: &Tokenizer,
        turn: u32,
        until: u32,
    ) -> anyhow::Result<Option<Block>> {
        let (tokens, content) = match self {
            Recalled::Pieces(pieces) => {
                let Some(first) = pieces.first() else { return Ok(None) };
                let step = log.spans[first.span as usize].step;
                let sound = pieces.iter().all(|piece| log.spans[piece.span as usize].step == step)
                    && pieces.windows(2).all(|pair| pair[0].span < pair[1].span);
                anyhow::ensure!(sound, "recalled pieces of step {step} are not of one step, in order");
                anyhow::ensure!(step < until, "recalled step {step} comes after the decision at {until}");
                (pieces.iter().map(|piece| piece.tokens).sum(), Content::Excerpt { step, pieces })
            }
            Recalled::Generated(text) => (tokenizer.count(&text), Content::Generated { text }),
        };
        Ok((tokens > 0).then_some(Block { turn, tokens, content, fresh: false, left: 0 }))
    }
}

impl Edit {
    /// The block that it names.
    pub fn block(&self) -> usize {
        self.position().0
    }

    fn position(&self) -> (usize, bool) {
        match *self {
            Edit::Insert { before, .. } => (before, false),
            Edit::Drop { block } | Edit::Keep { block, .. } | Edit::Mask { block, .. } => (block, true),
        }
    }
}

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
        let after = edited(tokenizer, &self.blocks, scope.clone(), edits);
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
        let after = edited(tokenizer, &view.blocks, scope, edits);
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
    /// is no message any more either.
    fn keep_pairs(&mut self, log: &Log, before: &[Block], after: &mut Vec<(usize, Block)>) {
        self.set_pairs(log, before, false);
        self.set_pairs(log, after.iter().map(|(_, block)| block), true);
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

fn check(edits: &[Edit], scope: &Range<usize>, blocks: &[Block]) -> anyhow::Result<()> {
    let mut last = None;
    for edit in edits {
        let (block, on_block) = edit.position();
        let in_scope = scope.contains(&block) || (!on_block && block == scope.end);
        anyhow::ensure!(
            in_scope,
            "edit of block {block} is outside the scope {}..{}",
            scope.start,
            scope.end
        );
        anyhow::ensure!(
            last.is_none_or(|l| l < (block, on_block)),
            "edits are not sorted and disjoint at block {block}"
        );
        if matches!(edit, Edit::Keep { .. } | Edit::Mask { .. }) {
            anyhow::ensure!(
                matches!(blocks[block].content, Content::Step(_) | Content::Excerpt { .. }),
                "block {block} is generated text and has no pieces to keep"
            );
        }
        last = Some((block, on_block));
    }
    Ok(())
}

/// The blocks that the edits make of the scope, each with the number in the scope of the block that it stands for or before.
fn edited(
    tokenizer: &Tokenizer,
    blocks: &[Block],
    scope: Range<usize>,
    edits: Vec<Edit>,
) -> Vec<(usize, Block)> {
    let mut after = Vec::with_capacity(scope.len());
    let mut edits = edits.into_iter().peekable();
    let last = scope.clone().next_back();
    for index in scope.start..=scope.end {
        let mut on_block = None;
        while let Some(edit) = edits.next_if(|e| e.position().0 == index) {
            if let Edit::Insert { text, .. } = edit {
                let near = blocks.get(index).filter(|_| index < scope.end).or(last.map(|i| &blocks[i]));
                let (turn, fresh) = near.map_or((0, true), |b| (b.turn, b.fresh));
                let tokens = tokenizer.count(&text);
                after.push((
                    index - scope.start,
                    Block { turn, tokens, content: Content::Generated { text }, fresh, left: 0 },
                ));
            } else {
                on_block = Some(edit);
            }
        }
        if index == scope.end {
            break;
        }
        let block = &blocks[index];
        let (turn, fresh, at) = (block.turn, block.fresh, index - scope.start);
        let step = match block.content {
            Content::Step(s) | Content::Excerpt { step: s, .. } | Content::Placeholder { step: s, .. } => s,
            Content::Generated { .. } => 0,
        };
        match on_block {
            None => after.push((at, block.clone())),
            Some(Edit::Keep { pieces, .. }) if !pieces.is_empty() => {
                let tokens = pieces.iter().map(|p| p.tokens).sum();
                after.push((
                    at,
                    Block { turn, tokens, content: Content::Excerpt { step, pieces }, fresh, left: 0 },
                ));
            }
            Some(Edit::Mask { text, .. }) => {
                let tokens = tokenizer.count(&text);
                after.push((
                    at,
                    Block { turn, tokens, content: Content::Placeholder { step, text }, fresh, left: 0 },
                ));
            }
            Some(_) => {}
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(log: &Log) -> Context {
        let mut context = Context::default();
        for step in 0..log.n_steps() as u32 {
            context.push_step(log, step);
            if log.turn_of(step) == 0 {
                context.n_head = context.blocks.len();
            }
        }
        context
    }

    fn log() -> Log {
        Log::script(
            "system: be good
             user: the task
             action: ls
             observation: one two three four five six~seven eight nine ten~eleven twelve
             agent: done with all of it",
        )
    }

    fn tokenizer() -> Tokenizer {
        Tokenizer::load("o200k").unwrap()
    }

    #[test]
    fn edits_change_tokens_and_tell_the_prefix() {
        let (log, mut c) = (log(), context(&log()));
        let before = c.tokens;
        let scope = c.range(1..2);
        assert_eq!(scope, 2..4);
        let edits = vec![Edit::Mask { block: 3, text: "gone".to_owned() }];
        let applied = c.apply(&log, &tokenizer(), scope, edits).unwrap();
        let head: u64 = log.tokens[..3].iter().map(|&t| u64::from(t)).sum();
        assert_eq!(applied.unchanged_prefix, Some(head));
        assert_eq!(c.tokens, before - u64::from(log.tokens[3]) + 1);
        assert_eq!(c.tokens, c.blocks.iter().map(|b| u64::from(b.tokens)).sum::<u64>());
        assert_eq!(c.blocks[3].text(&log), "gone");
    }

    /// What stands between the picked blocks stays, and a text takes the place of the block that it was put before.
    #[test]
    fn a_scope_may_have_gaps() {
        let log = Log::script(
            "user: the task
             action: ls
             observation: one two three four five six seven
             action: cat a
             observation: eight nine ten eleven twelve thirteen
             agent: done",
        );
        let mut c = context(&log);
        let edits = |context: &Context| {
            let first = context.n_head;
            let insert = Edit::Insert { before: first + 1, text: "gone".to_owned() };
            vec![Edit::Drop { block: first }, insert, Edit::Drop { block: first + 1 }]
        };
        let applied = c.apply_picked(&log, &tokenizer(), &[2, 4], edits(&c.only(&[2, 4]))).unwrap();
        let texts: Vec<String> = c.blocks.iter().map(|b| b.text(&log)).collect();
        assert_eq!(texts, ["the task", "ls", "cat a", "gone", "done"]);
        assert_eq!(c.blocks.iter().map(|b| b.fresh).collect::<Vec<_>>(), [true, true, true, false, true]);
        assert_eq!(c.tokens, sum(&c.blocks));
        assert_eq!(applied.unchanged_prefix, Some(u64::from(log.tokens[0] + log.tokens[1])));
        assert!(applied.violations.is_empty() && applied.after.len() == 1 && applied.before.len() == 2);
        assert_eq!(applied.places, [3]);
        // One for one where it stands, then one that goes and two that come behind what stands between.
        let mut c = context(&log);
        let insert = |before: usize, text: &str| Edit::Insert { before, text: text.to_owned() };
        let mask = Edit::Mask { block: 1, text: "masked".to_owned() };
        let edits =
            vec![mask, Edit::Drop { block: 2 }, insert(3, "so"), Edit::Drop { block: 3 }, insert(4, "far")];
        let applied = c.apply_picked(&log, &tokenizer(), &[1, 2, 4], edits).unwrap();
        let texts: Vec<String> = c.blocks.iter().map(|b| b.text(&log)).collect();
        assert_eq!(texts, ["the task", "masked", "cat a", "so", "far", "done"]);
        assert_eq!(applied.places, [1, 3, 4]);
        assert_eq!(
            c.blocks.iter().map(|b| b.fresh).collect::<Vec<_>>(),
            [true, false, true, false, false, true]
        );
        assert_eq!(c.tokens, sum(&c.blocks));
    }

    #[test]
    fn a_longer_result_is_refused() {
        let (log, mut c) = (log(), context(&log()));
        let (before, scope) = (c.blocks.clone(), c.range(2..3));
        let text = "many words that say more than the original did ".repeat(9);
        let applied = c.apply(&log, &tokenizer(), scope, vec![Edit::Insert { before: 4, text }]).unwrap();
        assert_eq!(applied.violations, ["longer than the original"]);
        let contents = |blocks: &[Block]| blocks.iter().map(|b| b.content.clone()).collect::<Vec<_>>();
        assert_eq!(contents(&c.blocks), contents(&before));
    }

    #[test]
    fn edits_outside_the_scope_or_unsorted_are_errors() {
        let (log, mut c) = (log(), context(&log()));
        let mut apply = |edits| c.apply(&log, &tokenizer(), 2..4, edits).is_err();
        assert!(apply(vec![Edit::Drop { block: 1 }]));
        assert!(apply(vec![Edit::Drop { block: 3 }, Edit::Drop { block: 2 }]));
        assert!(apply(vec![Edit::Drop { block: 2 }, Edit::Drop { block: 2 }]));
        assert!(!apply(vec![Edit::Drop { block: 2 }, Edit::Drop { block: 3 }]));
    }

    #[test]
    fn a_cut_piece_fits_its_budget() {
        let log = log();
        let span = log.spans_of(3).start;
        for budget in 0..8 {
            match Piece::whole(&log, span).cut(&log, &tokenizer(), budget) {
                None => assert_eq!(budget, 0),
                Some(piece) => {
                    assert_eq!(piece.tokens, budget.min(log.spans[span as usize].tokens));
                    assert_eq!(tokenizer().count(piece.text(&log)), piece.tokens);
                }
            }
        }
    }

    /// Two calls of one reply with their results: blocks 1 to 4.
    fn calls() -> Log {
        Log::script(
            "user: the task
             action#a: ls of the first folder
             also#b: pwd
             observation#a: one two three four five six
             observation#b: seven eight nine
             agent: done",
        )
    }

    /// The texts after these edits of a scope; those of quotations stand in brackets. Nothing is violated.
    fn edited_to(scope: Range<usize>, edits: Vec<Edit>) -> Vec<String> {
        let log = calls();
        let mut c = context(&log);
        let applied = c.apply(&log, &tokenizer(), scope, edits).unwrap();
        assert_eq!(applied.violations, [""; 0]);
        assert_eq!(c.tokens, sum(&c.blocks));
        let text = |b: &Block| match b.content {
            Content::Excerpt { .. } => format!("[{}]", b.text(&log)),
            _ => b.text(&log),
        };
        c.blocks.iter().map(text).collect()
    }

    #[test]
    fn a_call_shares_the_fate_of_its_result() {
        let (a, b) = ("ls of the first folder", "pwd");
        let (of_a, of_b) = ("one two three four five six", "seven eight nine");
        let drop = |block| Edit::Drop { block };
        // Without a call no result: it comes back, behind what was put before it.
        let insert = |text: &str| Edit::Insert { before: 1, text: text.to_owned() };
        let told = vec![insert("so"), drop(1), drop(2), drop(4)];
        assert_eq!(edited_to(1..5, told), ["the task", "so", a, of_a, "done"]);
        // Of the result nothing stands, or a quotation alone: the call is quoted.
        assert_eq!(edited_to(1..5, vec![drop(3)]), ["the task", &format!("[{a}]"), b, of_b, "done"]);
        let pieces = |log: &Log| log.spans_of(3).map(|span| Piece::whole(log, span)).collect::<Vec<_>>();
        let keep = Edit::Keep { block: 3, pieces: pieces(&calls()) };
        let quoted = [a, of_a].map(|text| format!("[{text}]"));
        assert_eq!(edited_to(1..5, vec![keep]), ["the task", &quoted[0], b, &quoted[1], of_b, "done"]);
        // A placeholder is a message, and what goes together goes.
        let mask = Edit::Mask { block: 3, text: "gone".to_owned() };
        assert_eq!(edited_to(1..5, vec![mask]), ["the task", a, b, "gone", of_b, "done"]);
        assert_eq!(edited_to(1..5, vec![drop(1), drop(3)]), ["the task", b, of_b, "done"]);
        // The result stands outside of the scope.
        assert_eq!(edited_to(1..3, vec![drop(1)]), ["the task", a, b, of_a, of_b, "done"]);
    }

    #[test]
    fn a_result_whose_call_stands_outside_of_the_scope_stays() {
        let log = calls();
        let mut c = context(&log);
        let whole = c.blocks.clone();
        let applied = c.apply(&log, &tokenizer(), 4..6, vec![Edit::Drop { block: 4 }]).unwrap();
        assert_eq!((applied.violations, applied.unchanged_prefix), (vec![], None));
        assert!(c.blocks.iter().zip(&whole).all(|(now, before)| now.content == before.content));
        // Where the original stays, so do its pairs.
        let long = "many words that say more than the original did ".repeat(9);
        let edits = vec![Edit::Drop { block: 1 }, Edit::Insert { before: 3, text: long }];
        let applied = c.apply(&log, &tokenizer(), 1..3, edits).unwrap();
        assert_eq!(applied.violations, ["longer than the original"]);
        assert_eq!(c.violations().count(), 0);
    }

    /// A prompt before the result came, and one of a log that never had the one or the other.
    #[test]
    fn a_whole_prompt_is_not_blamed() {
        for script in [
            "user: u\naction#a: ls\nagent: so",
            "user: u\nagent: so\nobservation#a: what nobody asked for",
            "user: u\naction#a: ls\nobservation#b: of another",
        ] {
            let log = Log::script(script);
            let mut c = context(&log);
            let applied = c.apply(&log, &tokenizer(), 1..3, vec![Edit::Drop { block: 2 }]).unwrap();
            assert_eq!((applied.violations, c.blocks.len()), (vec![], 2), "{script}");
        }
    }
}
