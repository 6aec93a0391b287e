//! Later values replace earlier ones of the same key: one rule for every set that a strategy keeps.
//!
//! What a key is, and which keys merely count, is said by [`crate::needs`]: what it takes for superseded nobody needs any
//! more. A text of a set is replaced if later texts of the set give each of its keys a value, and one of them another value
//! than it has. A text that gives a key which none gives anew still says something that holds, and stays.

use std::collections::HashMap;

use crate::features::atoms;
use crate::needs;

/// Where a text was said last: its order among the others.
pub(super) type Place = (u32, u32);

/// The newest value of each key, and where it was given.
#[derive(Clone, Debug, Default)]
pub(super) struct Newest {
    values: HashMap<String, (String, Place)>,
}

/// The keys and values that a text gives, in order.
pub(super) fn given(text: &str) -> Vec<(String, String)> {
    // Most texts give none, and are not read any further.
    if !text.contains('=') {
        return Vec::new();
    }
    let of = |atom: atoms::Occurrence<'_>| {
        let (key, value) = needs::key_and_value(atom.kind, &atom.norm)?;
        Some((key.to_owned(), value.to_owned()))
    };
    atoms::occurrences(text).into_iter().filter_map(of).collect()
}

impl Newest {
    /// Takes in what a text gives; of one text the last value of a key counts.
    pub(super) fn see(&mut self, given: &[(String, String)], place: Place) {
        for (key, value) in given {
            match self.values.get_mut(key) {
                Some(known) if known.1 > place => {}
                Some(known) => *known = (value.clone(), place),
                None => {
                    self.values.insert(key.clone(), (value.clone(), place));
                }
            }
        }
    }

    /// Whether later texts replaced one that gives this, and was said last at that place.
    pub(super) fn replaces(&self, given: &[(String, String)], place: Place) -> bool {
        let later = |key: &str| self.values.get(key).filter(|(_, at)| *at > place);
        given.iter().all(|(key, _)| later(key).is_some())
            && given.iter().any(|(key, value)| later(key).is_some_and(|(newest, _)| newest != value))
    }
}

/// Of some texts, in the order in which they were said, which hold: whether later ones replaced them.
pub(super) fn holding<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<bool> {
    let all: Vec<_> = texts.map(given).collect();
    let mut newest = Newest::default();
    (0..).zip(&all).for_each(|(at, given)| newest.see(given, (at, 0)));
    (0..).zip(&all).map(|(at, given)| !newest.replaces(given, (at, 0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_replaced_where_all_that_it_gives_is_given_anew() {
        let texts = [
            "We set timeout=30 for the gateway.",
            "The gateway has timeout=30 and retries=4.",
            "Now timeout=60 it is.",
            "line=4 is where it was.",
            "line=9 is where it is.",
            "The gateway has port=8042.",
            "The gateway still has port=8042.",
        ];
        let mut newest = Newest::default();
        for (at, text) in (0..).zip(texts) {
            newest.see(&given(text), (at, 0));
        }
        let is_replaced = |at: usize| newest.replaces(&given(texts[at]), (at as u32, 0));
        // Another value came later; `retries` did not come again; lines are many; the same value is no other one.
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(is_replaced), [true, false, false, false, false, false, false]);
        assert!(!newest.replaces(&given("nothing is given here"), (0, 0)));
        let holds = holding(texts.into_iter());
        assert_eq!(holds, [false, true, true, true, true, true, true]);
        // Said again later, the old value is the newest.
        newest.see(&given(texts[0]), (9, 0));
        assert!(!newest.replaces(&given(texts[0]), (9, 0)) && newest.replaces(&given(texts[2]), (2, 0)));
        // Of one text the last value counts, and it does not replace itself.
        let both = given("First timeout=5, then timeout=7.");
        newest.see(&both, (10, 0));
        assert!(
            !newest.replaces(&both, (10, 0)) && newest.replaces(&given("timeout=7 and timeout=5"), (8, 0))
        );
    }
}
