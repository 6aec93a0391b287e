//! Edits that a strategy proposes, whether they are valid, and what is recalled.

use std::ops::Range;

use crate::context::log::Log;
use crate::text::tokens::Tokenizer;

use super::block::{Block, Content, Piece};

/// A proposed change. Blocks are named by their index in [`Context::blocks`].
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Leave the block out.
    Drop { block: usize },
    /// Keep only these pieces of the block's step, in order, as a quotation.
    Keep { block: usize, pieces: Vec<Piece> },
    /// The same; a message stays one.
    Trim { block: usize, pieces: Vec<Piece> },
    /// Put a short text in the place of the block's step.
    Mask { block: usize, text: String },
    /// Put the block's step there again, as it was logged.
    Restore { block: usize },
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
                (
                    pieces.iter().map(|piece| piece.tokens).sum(),
                    Content::Excerpt { step, pieces, is_message: false },
                )
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

    pub(super) fn position(&self) -> (usize, bool) {
        match *self {
            Edit::Insert { before, .. } => (before, false),
            Edit::Drop { block }
            | Edit::Keep { block, .. }
            | Edit::Trim { block, .. }
            | Edit::Mask { block, .. }
            | Edit::Restore { block } => (block, true),
        }
    }
}

pub(super) fn check(edits: &[Edit], scope: &Range<usize>, blocks: &[Block]) -> anyhow::Result<()> {
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
        if matches!(edit, Edit::Keep { .. } | Edit::Trim { .. } | Edit::Mask { .. }) {
            anyhow::ensure!(
                matches!(blocks[block].content, Content::Step(_) | Content::Excerpt { .. }),
                "block {block} is generated text and has no pieces to keep"
            );
        }
        if matches!(edit, Edit::Restore { .. }) {
            let is_rewritten = matches!(blocks[block].content, Content::Placeholder { .. });
            anyhow::ensure!(is_rewritten, "block {block} was not rewritten");
        }
        last = Some((block, on_block));
    }
    Ok(())
}

/// The blocks that the edits make of the scope, each with the number in the scope of the block that it stands for or before.
pub(super) fn edited(
    log: &Log,
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
        let is_message = matches!(on_block, Some(Edit::Trim { .. })) && block.message().is_some();
        match on_block {
            None => after.push((at, block.clone())),
            Some(Edit::Keep { pieces, .. } | Edit::Trim { pieces, .. }) if !pieces.is_empty() => {
                let tokens = pieces.iter().map(|p| p.tokens).sum();
                let content = Content::Excerpt { step, pieces, is_message };
                after.push((at, Block { turn, tokens, content, fresh, left: 0 }));
            }
            Some(Edit::Mask { text, .. }) => {
                let tokens = tokenizer.count(&text);
                after.push((
                    at,
                    Block { turn, tokens, content: Content::Placeholder { step, text }, fresh, left: 0 },
                ));
            }
            Some(Edit::Restore { .. }) => {
                let tokens = log.tokens[step as usize];
                after.push((at, Block { turn, tokens, content: Content::Step(step), fresh, left: 0 }));
            }
            Some(_) => {}
        }
    }
    after
}
