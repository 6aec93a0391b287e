//! The terms of a text: its content words and atoms, by hash.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashSet;

use crate::text::atoms;
use crate::text::memo::Memo;

/// A content word or an atom, by its hash, and whether it is an atom.
pub(crate) type Term = (u64, bool);

/// The terms of a text with their names: its words in their order, then its atoms.
pub(crate) fn named_terms(text: &str) -> impl Iterator<Item = (Term, Cow<'_, str>)> {
    let hash = |text: &str| {
        let hash = blake3::hash(text.as_bytes());
        u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("a hash has 32 bytes"))
    };
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words = words.filter_map(|word| Some(((u64::from(atoms::cue_hash(word)?), false), word.into())));
    let atoms = atoms::lex(text).atoms.into_iter();
    words.chain(atoms.map(move |atom| ((hash(&atom.norm), true), atom.norm)))
}

/// The distinct terms of a span: its words in their order, then its atoms.
pub(crate) fn terms(span: &str) -> Rc<[Term]> {
    SEEN.with_borrow_mut(|seen| {
        seen.get(span, |span| {
            let mut seen = FxHashSet::default();
            named_terms(span).map(|(term, _)| term).filter(|term| seen.insert(*term)).collect()
        })
    })
}

thread_local! {
    static SEEN: RefCell<Memo<Rc<[Term]>>> = const { RefCell::new(Memo::new()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_comes_once_and_words_come_first() {
        let line = "the parser, the Parser of src/a.py";
        for _ in 0..2 {
            let kinds: Vec<bool> = terms(line).iter().map(|term| term.1).collect();
            // `parser`, `src`, and the path.
            assert_eq!(kinds, [false, false, true]);
        }
        assert_eq!(terms(line)[0], terms("parser")[0]);
        assert!(terms("of the").is_empty());
    }
}
