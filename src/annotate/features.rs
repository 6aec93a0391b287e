//! What depends on a step alone: tokens by span, atoms, and what an action does.
//!
//! Computed once per dataset by [`annotate`], stored, and shared by all variants.

use crate::store::FeatureRow;
use crate::text::tokens::Tokenizer;
use crate::text::{atoms, atoms::AtomKind, spans};
use crate::trajectory::{Kind, Step};
use crate::turns::actions::{self, Action, ActionKind};

/// Raised by every change of code or word list that can change a row.
pub const FEATURES_VERSION: u32 = 12;

/// The features of all steps of a trajectory, in order.
pub fn rows(trajectory: &str, steps: &[Step], tokenizer: &Tokenizer) -> Vec<FeatureRow> {
    pieces(trajectory, steps, tokenizer).flatten().collect()
}

/// Steps whose features are in memory together.
pub(super) const PIECE: usize = 10_000;

/// The same, so many steps at a time.
pub(super) fn pieces(
    trajectory: &str,
    steps: &[Step],
    tokenizer: &Tokenizer,
) -> impl Iterator<Item = Vec<FeatureRow>> {
    let mut editor = actions::Editor::default();
    let mut row = move |(i, step): (usize, &Step)| {
        let action = (step.kind == Kind::Action).then(|| actions::analyse(step, &mut editor));
        row(trajectory, i as u32, &step.text, action, tokenizer)
    };
    let mut steps = steps.iter().enumerate();
    let piece = move || Some(steps.by_ref().take(PIECE).map(&mut row).collect());
    std::iter::from_fn(piece).take_while(|rows: &Vec<FeatureRow>| !rows.is_empty())
}

fn row(trajectory: &str, step: u32, text: &str, action: Option<Action>, tokenizer: &Tokenizer) -> FeatureRow {
    let span_end = spans::span_ends(text);
    let span_tokens = span_tokens(text, &span_end, tokenizer);
    let lexed = atoms::lex(text);
    let n = lexed.atoms.len();
    let (mut kinds, mut spans, mut flags) =
        (Vec::with_capacity(n), Vec::with_capacity(n), Vec::with_capacity(n));
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
    let is_name = action.names.iter().any(|name| name.contains(&start));
    let derived = is_name
        || looks && !in_body && atom.kind == AtomKind::Number && actions::is_view_parameter(&atom.norm);
    (if in_body { atoms::BODY } else { 0 }) | (if derived { atoms::DERIVED } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::{Role, step};
    use proptest::prelude::*;

    fn one(kind: Kind, text: &str) -> FeatureRow {
        let tokenizer = Tokenizer::load("o200k").unwrap();
        rows("t", &[step(Role::Agent, kind, text)], &tokenizer).remove(0)
    }

    #[test]
    fn a_step_and_its_spans() {
        let row = one(Kind::Thought, "The parser fails in src/a.rs now\n\nbecause read_all is wrong\n");
        assert_eq!(row.span_end.len(), 2);
        assert_eq!(row.tokens, row.span_tokens.iter().sum::<u32>());
        assert_eq!(row.atom, ["src/a.rs", "read_all"]);
        assert_eq!((row.atom_kind, row.atom_span), (vec![0, 1], vec![0, 1]));
        assert_eq!(row.atom_flags, [atoms::BOUND, 0]);
        assert_eq!((row.action_kind, row.path), (None, None));
    }

    #[test]
    fn bodies_and_view_parameters_are_flagged() {
        let row = one(Kind::Action, "cat > b.py <<E\nfoo_bar = 1\nE\n");
        assert_eq!(row.action_kind.as_deref(), Some("edit_file"));
        assert_eq!(row.atom, ["b.py", "foo_bar", "foo_bar=1"]);
        assert_eq!(row.atom_flags, [0, atoms::BODY, atoms::BODY]);
        let mut read = step(Role::Agent, Kind::Action, "Read\nfile_path: /a/b.py\noffset: 55\nlimit: 70");
        read.tool = Some("Read".into());
        read.arguments = Some(r#"{"file_path":"/a/b.py","offset":55,"limit":70}"#.into());
        let row = rows("t", &[read], &Tokenizer::load("o200k").unwrap()).remove(0);
        assert_eq!(row.atom, ["file_path", "/a/b.py", "offset=55", "limit=70"]);
        assert_eq!(row.atom_flags, [atoms::DERIVED, 0, atoms::DERIVED, atoms::DERIVED]);
    }

    proptest! {
        #[test]
        fn rows_agree_with_occurrences(text in "([a-z]{1,8} |[a-z]_[a-z]|\n|\"|'|`|/|\\.py|[0-9]{1,4}|=|\\PC|Error|x{150}){0,80}") {
            let row = one(Kind::Message, &text);
            let all = atoms::occurrences(&text);
            prop_assert_eq!(&row.atom, &all.iter().map(|o| o.norm.to_string()).collect::<Vec<_>>());
            prop_assert_eq!(&row.atom_kind, &all.iter().map(|o| o.kind as u8).collect::<Vec<_>>());
            prop_assert_eq!(&row.atom_span, &all.iter().map(|o| o.span as u32).collect::<Vec<_>>());
            prop_assert_eq!(&row.atom_flags, &all.iter().map(|o| u8::from(o.is_bound())).collect::<Vec<_>>());
            prop_assert_eq!(row.span_end.last().copied().unwrap_or(0) as usize, text.len());
        }
    }
}
