//! Later values replace earlier ones of the same key: one rule for every set that a strategy keeps.
//!
//! What a key is, and which keys merely count, is said by [`crate::context::needs`]: what it takes for superseded nobody needs any
//! more. Only the value is superseded, not what stands beside it: a text of a set is replaced if later texts of the set give
//! each of its keys a value, one of them another value than it has, and if those texts hold all of its content words but for
//! the values ("use PORT=8080, never change DB" outlives "use PORT=9191"). So what is replaced is said anew, word for word,
//! by what stays. That a text says no to something counts as a word, and so does that it gives a key a plain word
//! (`HOST=alpha`): later texts must give it one, too. A text of more than 64 values is a listing, and neither replaces
//! nor is replaced. Linear in the texts: a word is kept once for each key that its text gives.

use std::collections::HashMap;

use crate::context::needs;
use crate::text::atoms::{self, AtomKind, cue_hash, word_hash};
use crate::text::han::{pairs, set_apart};
use crate::text::negation::negates;

/// Where a text was said last: its order among the others.
pub(super) type Place = (u32, u32);

/// Values that a text gives, at most; with more it is a listing.
const MAX_VALUES: usize = 64;

/// What a text gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Given {
    /// Keys and values, in order.
    pub(super) values: Vec<(String, String)>,
    /// Hashes of its content words, but for the values; none where it gives no value.
    pub(super) words: Vec<u32>,
}

/// The newest value of each key.
#[derive(Clone, Debug, Default)]
pub(super) struct Newest {
    keys: HashMap<String, Latest>,
}

/// What was said last of a key.
#[derive(Clone, Debug)]
struct Latest {
    value: String,
    place: Place,
    /// Where each word stood last in a text that gives the key.
    words: HashMap<u32, Place>,
}

pub(super) fn given(text: &str) -> Given {
    // Most texts give none, and are not read any further.
    if !text.contains('=') {
        return Given::default();
    }
    let (mut values, mut rest, mut end) = (Vec::new(), String::with_capacity(text.len()), 0);
    for atom in atoms::occurrences(text) {
        let Some((key, value)) = needs::key_and_value(atom.kind, &atom.norm) else {
            continue;
        };
        values.push((key.to_owned(), value.to_owned()));
        rest.push_str(text.get(end..atom.start).unwrap_or(""));
        rest.push(' ');
        end = end.max(atom.end);
    }
    if values.is_empty() || values.len() > MAX_VALUES {
        return Given::default();
    }
    rest.push_str(&text[end..]);
    Given { values, words: words(&rest, negates(text)) }
}

/// The content words of a text without its values: no function words, and of words of two letters those like `DB` and `S3`.
fn words(rest: &str, negates: bool) -> Vec<u32> {
    let ends = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '(' | ')' | '`' | '"' | '“' | '”');
    let is_name = |word: &str| match word.as_bytes() {
        [one] => one.is_ascii_digit(),
        [_, _] => !word.bytes().any(|b| b.is_ascii_lowercase()),
        _ => false,
    };
    let mut words: Vec<u32> = negates.then(|| word_hash("=not")).into_iter().collect();
    for chunk in set_apart(rest).split(ends) {
        let chunk = chunk.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
        if let Some(key) = plain_key(&chunk.to_lowercase()) {
            words.push(word_hash(&format!("{key}=")));
            continue;
        }
        for word in chunk.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '\'') {
            let pairs = pairs(word);
            words.extend(pairs.iter().map(|pair| word_hash(pair)));
            if pairs.is_empty() {
                let name = is_name(word).then(|| word_hash(word));
                words.extend(cue_hash(&word.to_lowercase()).or(name));
            }
        }
    }
    words.sort_unstable();
    words.dedup();
    words
}

/// The key of `host=alpha`, lower case, whose value is a plain word.
fn plain_key(chunk: &str) -> Option<&str> {
    let (key, value) = needs::key_and_value(AtomKind::Number, chunk)?;
    let is_of = |text: &str, marks: &str| text.chars().all(|c| c.is_alphanumeric() || marks.contains(c));
    (is_of(key, "_-.") && is_of(value, "_-./:")).then_some(key)
}

impl Newest {
    /// Takes in the values that a text gives, with words that stay with them; of one text the last value of a key counts.
    pub(super) fn see(&mut self, values: &[(String, String)], words: &[u32], place: Place) {
        for (key, value) in values {
            let latest = self.keys.entry(key.clone()).or_insert_with(|| Latest {
                value: value.clone(),
                place,
                words: HashMap::new(),
            });
            if place >= latest.place {
                (latest.value, latest.place) = (value.clone(), place);
            }
            for &word in words {
                let at = latest.words.entry(word).or_insert(place);
                *at = place.max(*at);
            }
        }
    }

    /// Whether later texts replaced one that gives this, and was said last at that place.
    pub(super) fn replaces(&self, given: &Given, place: Place) -> bool {
        let later =
            given.values.iter().map(|(key, _)| self.keys.get(key).filter(|latest| latest.place > place));
        let Some(later) = later.collect::<Option<Vec<&Latest>>>() else {
            return false;
        };
        let is_said = |word| later.iter().any(|latest| latest.words.get(word).is_some_and(|at| *at > place));
        given.values.iter().zip(&later).any(|((_, value), latest)| latest.value != *value)
            && given.words.iter().all(is_said)
    }
}

/// Of some texts, in the order in which they were said, which hold: whether later ones replaced them.
pub(super) fn holding<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<bool> {
    let all: Vec<Given> = texts.map(given).collect();
    let mut newest = Newest::default();
    (0..).zip(&all).for_each(|(at, given)| newest.see(&given.values, &given.words, (at, 0)));
    (0..).zip(&all).map(|(at, given)| !newest.replaces(given, (at, 0))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::salience::tests::{events, quoting};
    use super::*;
    use crate::context::log::Log;

    #[test]
    fn a_text_is_replaced_where_all_that_it_gives_is_given_anew() {
        let texts = [
            "We set timeout=30 for the gateway.",
            "The gateway has timeout=30 and retries=4.",
            "Now we set the timeout=60 of the gateway.",
            "line=4 is where it was.",
            "line=9 is where it is.",
            "The gateway has port=8042.",
            "The gateway still has port=8042.",
        ];
        let mut newest = Newest::default();
        let see = |newest: &mut Newest, text: &str, at| {
            let given = given(text);
            newest.see(&given.values, &given.words, (at, 0));
        };
        for (at, text) in (0..).zip(texts) {
            see(&mut newest, text, at);
        }
        let is_replaced = |at: usize| newest.replaces(&given(texts[at]), (at as u32, 0));
        // Another value came later; `retries` did not come again; lines are many; the same value is no other one.
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(is_replaced), [true, false, false, false, false, false, false]);
        assert!(!newest.replaces(&given("nothing is given here"), (0, 0)));
        let holds = holding(texts.into_iter());
        assert_eq!(holds, [false, true, true, true, true, true, true]);
        // Said again later, the old value is the newest.
        see(&mut newest, texts[0], 9);
        assert!(!newest.replaces(&given(texts[0]), (9, 0)) && newest.replaces(&given(texts[2]), (2, 0)));
        // Of one text the last value counts, and it does not replace itself.
        let both = given("First timeout=5, then timeout=7.");
        newest.see(&both.values, &both.words, (10, 0));
        assert!(
            !newest.replaces(&both, (10, 0)) && newest.replaces(&given("timeout=7 and timeout=5"), (8, 0))
        );
    }

    #[test]
    fn only_the_value_is_superseded_and_what_stands_beside_it_stays() {
        let later = "Always use port=9191 for the service.";
        for (old, new, is_replaced) in [
            // Word for word but for the value, in whatever case; more may be said.
            ("always use PORT=8080 for the service", later, true),
            ("always use PORT=8080 for the service", "For the SERVICE use port=9191, never change it", true),
            ("Keep PORT=8080", "Keep PORT=8080", false),
            // A ban, a word, a number, or a key beside the value.
            ("Always use PORT=8080 for the service, never change DB.", later, false),
            (
                "Always use PORT=8080 for the service, never change DB.",
                "Never change DB; use port=9191 for the service",
                true,
            ),
            ("Never use PORT=8080 for the service.", later, false),
            ("Use PORT=8080 for the staging service", later, false),
            ("Use PORT=8080 for the service 5 times", later, false),
            ("Use PORT=8080 for the service on line=4", "Use PORT=9191 for the service on line=9", false),
            // Plain words are values, too, of keys that are given anew as well: a mention is no value.
            ("Use PORT=8080 and HOST=alpha for the service", later, false),
            (
                "Use PORT=8080 and HOST=alpha for the service",
                "Use port=9191 on the host for the service",
                false,
            ),
            (
                "Use HOST=alpha and PORT=8080 for the service",
                "Use port=9191 and `host=beta` for the service",
                true,
            ),
            ("Use PORT=8080 and DB=a/b for the service", later, false),
            ("Use PORT=8080 and DB=a/b for the service", "Use PORT=9191 and --db=c for the service", true),
            // Other scripts.
            ("服务请始终使用 port=8080", "现在服务请始终使用 port=9191", true),
            ("服务请始终使用 port=8080，不要修改数据库", "现在服务请始终使用 port=9191", false),
        ] {
            assert_eq!(holding([old, new].into_iter()), [!is_replaced, true], "{old} / {new}");
        }
    }

    #[test]
    fn a_constraint_outlives_the_newer_value_beside_it() {
        let turns = |n: usize| -> String {
            let filler = "filler words nothing ".repeat(20);
            (0..n).map(|i| format!("action: ls {i}\nobservation: {filler}\n")).collect()
        };
        let last = |strategy: &str, old: &str| {
            let new = "Important: always use port=9191 for the service.";
            let script = format!(
                "user: Set up the service.\n{}user: {old}\n{}user: {new}\n{}",
                turns(1),
                turns(3),
                turns(6)
            );
            let params = "keep_last = 1\nextract = \"quote-json\"\nbackground = \"none\"";
            let quoting = quoting(&[("constraint", old), ("constraint", new)]);
            let all = events(strategy, params, &Log::script(&script), "n = 2", Some(quoting));
            all.into_iter().last().unwrap().0
        };
        for strategy in ["salience", "protected-core", "core-notes"] {
            let text = last(strategy, "Important: always use PORT=8080 for the service, never change DB.");
            assert!(text.contains("never change DB") && text.contains("port=9191"), "{strategy}: {text}");
            let text = last(strategy, "Important: always use PORT=8080 and HOST=alpha for the service.");
            assert!(text.contains("HOST=alpha") && text.contains("port=9191"), "{strategy}: {text}");
            let text = last(strategy, "Important: always use PORT=8080 for the service.");
            assert!(!text.contains("8080") && text.contains("port=9191"), "{strategy}: {text}");
        }
    }

    #[test]
    fn all_later_texts_count_and_none_of_the_earlier_ones() {
        let (full, short) = ("Use PORT=8080 and never change DB.", "Use port=9292.");
        let again = full.replace("8080", "9191");
        // The second says all of the first, and the third does not say all of the second.
        assert_eq!(holding([full, &again, short].into_iter()), [false, true, true]);
        // Two together say all of the first; what was said before it counts for nothing.
        let apart = ["Use port=9191 for good.", "Never change DB, whatever PORT=9292 serves."];
        assert_eq!(holding([full, apart[0], apart[1]].into_iter())[0], false);
        assert_eq!(holding([apart[1], full, short].into_iter()), [true, true, true]);
    }

    #[test]
    fn a_listing_neither_replaces_nor_is_replaced() {
        let listing = |value: usize, n: usize| -> String {
            (0..n).map(|key| format!("some_key_{key}={value} ")).collect()
        };
        let [small, large] = [MAX_VALUES, MAX_VALUES + 1].map(|n| [listing(10, n), listing(20, n)]);
        assert_eq!(holding(small.iter().map(String::as_str)), [false, true]);
        assert_eq!(holding(large.iter().map(String::as_str)), [true, true]);
        let many: Vec<String> =
            (0..20_000).map(|i| format!("set port={i} for service number {}", i % 7)).collect();
        let n_left = holding(many.iter().map(String::as_str)).into_iter().filter(|holds| *holds).count();
        // The newest for each of the seven services.
        assert_eq!(n_left, 7);
    }
}
