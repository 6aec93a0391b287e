//! The atoms of a text line by line: what was found of a line lately is not looked for again.
//!
//! Strategies, shadows and scores read the same lines again and again, in the log and in texts that were made of it. Nothing that
//! the lexer knows goes on over the end of a line, except where a backslash stands before it; such lines stay together.

use std::cell::RefCell;
use std::rc::Rc;

use crate::text::memo::Memo;
use crate::text::spans;

use super::{AtomKind, hashes, lex};

/// An atom of a line; places are bytes of the line.
pub(crate) struct Found {
    pub(crate) kind: AtomKind,
    pub(super) start: u32,
    pub(super) end: u32,
    pub(crate) norm: Box<str>,
    /// See [`super::Occurrence::cues`].
    pub(crate) cues: Box<[u32]>,
}

/// Calls `see` with those atoms of a text that are `known`, in order, and the cues near each.
pub(crate) fn known<T>(text: &str, known: impl Fn(&str) -> Option<T>, mut see: impl FnMut(T, &[u32])) {
    for (_, line) in cut(text) {
        if Memo::<Rc<[Found]>>::remembers(line) {
            let found = found(line);
            found.iter().for_each(|atom| _ = known(&atom.norm).map(|known| see(known, &atom.cues)));
            continue;
        }
        lex(line).visit(&spans::span_ends(line), |atom, _, near| {
            if let Some(known) = known(&atom.norm) {
                see(known, &hashes(near));
            }
        });
    }
}

/// The lines of a text, each with where it begins and its atoms in order.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, Rc<[Found]>)> {
    cut(text).map(|(start, line)| (start, found(line)))
}

/// The lines of a text that can be read one by one, without their ends, and where each begins.
fn cut(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
        let is_end = |&at: &usize| !rest[..at].ends_with('\\');
        let end = memchr::memchr_iter(b'\n', rest.as_bytes()).find(is_end);
        let line = (start, &rest[..end.unwrap_or(rest.len())]);
        start += end.map_or(rest.len(), |end| end + 1);
        Some(line)
    })
}

thread_local! {
    static SEEN: RefCell<Memo<Rc<[Found]>>> = const { RefCell::new(Memo::new()) };
}

fn found(line: &str) -> Rc<[Found]> {
    SEEN.with_borrow_mut(|seen| seen.get(line, read))
}

fn read(line: &str) -> Rc<[Found]> {
    let lexed = lex(line);
    let mut all = Vec::with_capacity(lexed.atoms.len());
    lexed.visit(&spans::span_ends(line), |atom, _, near| {
        let (norm, cues) = (Box::from(&*atom.norm), hashes(near).into());
        all.push(Found { kind: atom.kind, start: atom.start, end: atom.end, norm, cues });
    });
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Twice, since the second time remembers.
        #[test]
        fn lines_have_the_atoms_of_the_text(
            text in "([a-z]{1,5}|[a-z]_[a-z]| |\n|\\\\|\\\\n|\r|\"|'|`|<<|/|a/|--- |\\.py|:|-|[0-9]{1,9}|=|%|[$#]| ms|\\[3m|\\PC|Error){0,60}",
        ) {
            let lexed = lex(&text);
            let mut whole = Vec::new();
            lexed.visit(&spans::span_ends(&text), |atom, _, near| {
                whole.push((atom.kind, atom.start as usize, atom.end as usize, atom.norm.to_string(), hashes(near)));
            });
            for _ in 0..2 {
                let by_line = lines(&text).flat_map(|(offset, line)| {
                    let of = |atom: &Found| {
                        let (start, end) = (offset + atom.start as usize, offset + atom.end as usize);
                        (atom.kind, start, end, atom.norm.to_string(), atom.cues.to_vec())
                    };
                    line.iter().map(of).collect::<Vec<_>>()
                });
                prop_assert_eq!(&by_line.collect::<Vec<_>>(), &whole);
                // Twelve times as much is a text with lines of which nothing is remembered.
                for text in [text.clone(), text.repeat(12)] {
                    let (mut seen, mut all) = (Vec::new(), Vec::new());
                    known(&text, |norm| (norm.len() != 3).then(|| norm.to_owned()), |norm, cues| seen.push((norm, cues.to_vec())));
                    lex(&text).visit(&spans::span_ends(&text), |atom, _, near| all.push((atom.norm.to_string(), hashes(near))));
                    all.retain(|(norm, _)| norm.len() != 3);
                    prop_assert_eq!(seen, all);
                }
            }
        }
    }
}
