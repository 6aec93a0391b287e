//! What a model is shown of a scope: all of it, or its newest or oldest tokens, in one call or in pieces.

use super::{Shows, Summarise};
use crate::context::log::Log;
use crate::context::{Block, Content};
use crate::strategies::{Env, Scope};
use crate::trajectory::{Kind, Role};

/// See the head of this file.
pub(super) struct Source {
    /// What is shown apart: the older summary.
    pub old: Option<String>,
    /// One for each call, in order; at least one.
    pub pieces: Vec<Piece>,
    /// Tokens of the whole scope.
    pub tokens: u32,
}

/// What one call shows.
#[derive(Default)]
pub(super) struct Piece {
    pub texts: Vec<String>,
    pub tokens: u32,
}

impl Source {
    /// Where no model is asked, texts are without the words for who speaks.
    pub fn of(how: &Summarise, scope: &Scope<'_>, env: &Env<'_>) -> Self {
        let is_summary = |block: &Block| {
            matches!(block.content, Content::Generated { .. })
                || block.kind(scope.log) == Some(Kind::Compaction)
        };
        let is_old = |block: &Block| how.update && is_summary(block);
        let blocks = &scope.context.blocks[scope.blocks.clone()];
        let old: Vec<String> =
            blocks.iter().filter(|block| is_old(block)).map(|block| block.text(scope.log)).collect();
        let fits = |piece: &Piece, sum: &mut u32| {
            *sum = sum.saturating_add(piece.tokens);
            how.input_tokens == 0 || *sum <= how.input_tokens
        };
        let one = |block: &Block| (!is_old(block)).then(|| shown(how, scope.log, block, env)).flatten();
        let before = overlap(how, scope);
        let before = before.iter().filter_map(|block| shown(how, scope.log, block, env));
        let mut sum = 0;
        let texts: Vec<Piece> = match how.shows {
            Shows::Oldest => before
                .chain(blocks.iter().filter_map(one))
                .take_while(|piece| fits(piece, &mut sum))
                .collect(),
            Shows::Newest => {
                let before: Vec<Piece> = before.collect();
                let newest = blocks.iter().rev().filter_map(one).chain(before.into_iter().rev());
                let mut texts: Vec<Piece> = newest.take_while(|piece| fits(piece, &mut sum)).collect();
                texts.reverse();
                texts
            }
        };
        let old = (!old.is_empty()).then(|| old.join("\n"));
        // No text is too long where a prompt may grow.
        let may_grow = scope.context.may_grow() && !how.reject_longer;
        let all = blocks.iter().fold(0u32, |sum, block| sum.saturating_add(block.tokens));
        let tokens = if may_grow { u32::MAX } else { all };
        Source { old, pieces: pieces(texts, how.piece_tokens), tokens }
    }

    /// Whether there is nothing to be shown: calls and results alone, where words are.
    pub fn is_empty(&self) -> bool {
        self.old.is_none() && self.pieces.iter().all(|piece| piece.texts.is_empty())
    }
}

/// A block as it is shown; none where it is not.
fn shown(how: &Summarise, log: &Log, block: &Block, env: &Env<'_>) -> Option<Piece> {
    let kind = block.kind(log);
    if how.text_only && matches!(kind, Some(Kind::Action | Kind::Observation)) {
        return None;
    }
    let is_asked = env.model.is_some();
    let mut text = if is_asked { block.said(log) } else { block.text(log) };
    let mut is_whole = !is_asked;
    if how.result_chars > 0
        && kind == Some(Kind::Observation)
        && let Some((at, _)) = text.char_indices().nth(how.result_chars as usize)
    {
        text.truncate(at);
        text.push_str("…\n");
        is_whole = false;
    }
    let tokens = if is_whole { block.tokens } else { env.tokenizer.count(&text) };
    Some(Piece { texts: vec![text], tokens })
}

/// The steps before the scope that are summarised again, from a message of the user on.
fn overlap(how: &Summarise, scope: &Scope<'_>) -> Vec<Block> {
    let log = scope.log;
    let mut blocks = scope.context.blocks[scope.blocks.clone()].iter();
    let first = blocks.find_map(|block| block.message().filter(|_| block.fresh));
    let Some(first) = first.filter(|_| how.overlap > 0) else { return Vec::new() };
    let segment = log.trajectory.steps[first as usize].segment;
    let mut users = 0;
    let mut steps: Vec<u32> = Vec::new();
    for step in (0..first).rev() {
        let at = &log.trajectory.steps[step as usize];
        if users == how.overlap || at.segment != segment {
            break;
        }
        users += u32::from(at.role == Role::User && at.kind == Kind::Message);
        if at.role != Role::System {
            steps.push(step);
        }
    }
    let block = |&step: &u32| Block {
        turn: log.turn_of(step),
        tokens: log.tokens[step as usize],
        content: Content::Step(step),
        fresh: false,
        left: 0,
    };
    steps.iter().rev().map(block).collect()
}

/// The texts in pieces of so many tokens at most; a text that is longer is one of its own.
fn pieces(texts: Vec<Piece>, most: u32) -> Vec<Piece> {
    let mut pieces = vec![Piece::default()];
    for text in texts {
        let last = pieces.last_mut().filter(|last| {
            most == 0 || last.texts.is_empty() || last.tokens.saturating_add(text.tokens) <= most
        });
        match last {
            Some(last) => {
                last.tokens = last.tokens.saturating_add(text.tokens);
                last.texts.extend(text.texts);
            }
            None => pieces.push(text),
        }
    }
    pieces
}
