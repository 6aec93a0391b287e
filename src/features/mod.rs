//! What depends on a step alone: tokens by span, atoms, and what an action does.
//!
//! Computed once per dataset by [`annotate`], stored, and shared by all variants.

pub mod actions;
pub mod atoms;
//pub mod partners;
pub mod spans;
pub mod tokens;
mod words;

use crate::store::FeatureRow;
use crate::trajectory::{Kind, Step};
use actions::{Action, ActionKind};
use atoms::AtomKind;
use tokens::Tokenizer;

/// Raised by every change of code or word list that can change a row.
pub const FEATURES_VERSION: u32 = 1;

/// The features of all steps of a trajectory, in order.
pub fn rows(trajectory: &str, steps: &[Step], tokenizer: &Tokenizer) -> Vec<FeatureRow> {
    let mut editor = actions::Editor::default();
    let row = |(i, step): (usize, &Step)| {
        let action = (step.kind == Kind::Action).then(|| actions::analyse(step, &mut editor));
        row(trajectory, i as u32, &step.text, action, tokenizer)
    };
    steps.iter().enumerate().map(row).collect()
}

fn row(trajectory: &str, step: u32, text: &str, action: Option<Action>, tokenizer: &Tokenizer) -> FeatureRow {
    let span_end = spans::span_ends(text);
    let span_tokens = span_tokens(text, &span_end, tokenizer);
    let lexed = atoms::lex(text);
    let n = lexed.atoms.len();
    let (mut kinds, mut spans, mut flags) = (Vec::with_capacity(n), Vec::with_capacity(n), Vec::with_capacity(n));
    lexed.visit(&span_end, |atom, span, near| {
        let bound = if atoms::binds(near) { atoms::BOUND } else { 0 };
        kinds.push(atom.kind as u8);
        spans.push(span as u32);
        flags.push(bound | action.as_ref().map_or(0, |a| action_flags(a, atom)));
    });
    FeatureRow {
        trajectory: trajectory.to_owned(),
        step,
        tokens: span_tokens.iter().sum(),
        action_kind: action.as_ref().map(|a| a.kind.name().to_owned()),
        path: action.and_then(|a| a.path),
        span_end,
        span_tokens,
        atom: lexed.atoms.into_iter().map(|a| a.norm.into_owned()).collect(),
        atom_kind: kinds,
        atom_span: spans,
        atom_flags: flags,
    }
}

/// Tokens of each span on its own.
fn span_tokens(text: &str, ends: &[u32], tokenizer: &Tokenizer) -> Vec<u32> {
    let mut start = 0;
    let count = |&end: &u32| {
        let span = &text[start..end as usize];
        start = end as usize;
        tokenizer.count(span)
    };
    ends.iter().map(count).collect()
}

fn action_flags(action: &Action, atom: &atoms::Atom<'_>) -> u8 {
    let start = atom.start as usize;
    let in_body = action.bodies.iter().any(|body| body.contains(&start));
    let looks = matches!(action.kind, ActionKind::ReadFile | ActionKind::EditFile | ActionKind::Search);
    let derived = looks && !in_body && atom.kind == AtomKind::Number && actions::is_view_parameter(&atom.norm);
    (if in_body { atoms::BODY } else { 0 }) | (if derived { atoms::DERIVED } else { 0 })
}
