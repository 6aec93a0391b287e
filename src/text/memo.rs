//! What was found of short texts seen lately.
//!
//! Strategies read the lines of a log again and again, under each variant, and to look up what was found of one is several
//! times cheaper than to find it. Memory is bounded: of two texts with the same place the newer stays.

use std::hash::{BuildHasher as _, BuildHasherDefault};

use rustc_hash::FxHasher;

/// Places: the lines of a log or two.
const PLACES: usize = 1 << 14;
/// Longer texts hardly come again.
const MOST_BYTES: usize = 800;

pub(crate) struct Memo<V> {
    places: Vec<Option<(Box<str>, V)>>,
}

impl<V: Clone> Memo<V> {
    pub(crate) const fn new() -> Self {
        Memo { places: Vec::new() }
    }

    /// Whether anything is remembered of such a text.
    pub(crate) fn remembers(text: &str) -> bool {
        text.len() <= MOST_BYTES
    }

    /// What `find` finds of the text, which must depend on nothing else.
    pub(crate) fn get(&mut self, text: &str, find: impl FnOnce(&str) -> V) -> V {
        if !Self::remembers(text) {
            return find(text);
        }
        self.places.resize(PLACES, None);
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one(text);
        let place = &mut self.places[(hash >> (64 - PLACES.ilog2())) as usize];
        match place {
            Some((known, found)) if **known == *text => found.clone(),
            _ => {
                let found = find(text);
                *place = Some((text.into(), found.clone()));
                found
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_what_was_found() {
        let (mut memo, mut n_found) = (Memo::new(), 0);
        let mut length = |text: &str| {
            memo.get(text, |text| {
                n_found += 1;
                text.len()
            })
        };
        for n in (0..2 * PLACES).chain(0..2 * PLACES) {
            let text = format!("line {n}");
            assert_eq!((length(&text), length(&text)), (text.len(), text.len()));
        }
        let long = "x".repeat(MOST_BYTES + 1);
        assert_eq!((length(&long), length(&long)), (long.len(), long.len()));
        assert!((2 * PLACES + 2..4 * PLACES + 3).contains(&n_found), "{n_found}");
    }
}
