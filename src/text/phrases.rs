//! Finds phrases in prose: runs of whole words, each with a value, by their first word. One pass, linear in the text.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Deserialize;

/// Whether a word of [`words`] is the end of a sentence.
pub(crate) fn is_end(word: &str) -> bool {
    word == "." || word == "?"
}

/// The words of a text, lower case, with `.` where a sentence or line ends, and `?` where a question does.
pub(crate) fn words(lower: &str) -> Vec<&str> {
    let mut words = Vec::with_capacity(lower.len() / 5);
    let mut start = None;
    let mut chars = lower.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let is_word = c.is_alphanumeric() || c == '\'' || c == '_';
        match (is_word, start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                words.push(&lower[from..at]);
                start = None;
            }
            _ => {}
        }
        let ends = match c {
            '.' | '!' | '?' | ';' => chars.peek().is_none_or(|(_, next)| next.is_whitespace()),
            '\n' => true,
            _ => false,
        };
        if ends && words.last().is_some_and(|last| !is_end(last)) {
            words.push(if c == '?' { "?" } else { "." });
        }
    }
    words.extend(start.map(|from| &lower[from..]));
    words
}

/// Phrases with a value each: a table of lists by value.
#[derive(Deserialize)]
#[serde(from = "BTreeMap<T, Vec<String>>", bound(deserialize = "T: Deserialize<'de> + Copy + Ord"))]
pub(crate) struct Phrases<T> {
    /// By their first word, the longest first: its other words and value.
    by_first: FxHashMap<String, Vec<(Vec<String>, T)>>,
}

impl<T: Copy> From<BTreeMap<T, Vec<String>>> for Phrases<T> {
    fn from(lists: BTreeMap<T, Vec<String>>) -> Self {
        let mut by_first: FxHashMap<String, Vec<(Vec<String>, T)>> = FxHashMap::default();
        for (value, phrases) in lists {
            for phrase in phrases {
                let mut words = phrase.split_whitespace().map(str::to_owned);
                let first = words.next().expect("no phrase is empty");
                let (rest, others): (Vec<String>, _) = (words.collect(), by_first.entry(first).or_default());
                assert!(others.iter().all(|(other, _)| *other != rest), "`{phrase}` has two values");
                others.push((rest, value));
            }
        }
        for phrases in by_first.values_mut() {
            phrases.sort_by_key(|(rest, _)| Reverse(rest.len()));
        }
        Phrases { by_first }
    }
}

impl<T: Copy> Phrases<T> {
    /// Calls `found` with the place (first word, and the one after the last) and value of each phrase, in order.
    pub(crate) fn visit(&self, words: &[&str], mut found: impl FnMut(usize, usize, T)) {
        for (at, first) in words.iter().enumerate() {
            for (rest, value) in self.by_first.get(*first).into_iter().flatten() {
                if words[at + 1..].iter().take(rest.len()).eq(rest) {
                    found(at, at + 1 + rest.len(), *value);
                }
            }
        }
    }

    /// The longest phrase that some words begin with: how many words it has, and its value.
    pub(crate) fn longest<'a>(&self, mut words: impl Iterator<Item = &'a str> + Clone) -> Option<(usize, T)> {
        let phrases = self.by_first.get(words.next()?)?;
        let fits = |(rest, _): &&(Vec<String>, T)| words.clone().take(rest.len()).eq(rest);
        phrases.iter().find(fits).map(|(rest, value)| (1 + rest.len(), *value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_within_a_sentence() {
        let lists = [(1, vec!["now i'll", "let me see"]), (2, vec!["let me"])];
        let lists = lists.map(|(value, list)| (value, list.into_iter().map(str::to_owned).collect()));
        let phrases = Phrases::from(BTreeMap::from(lists));
        let found = |text: &str| {
            let lower = text.to_lowercase();
            let mut found = Vec::new();
            phrases.visit(&words(&lower), |at, end, value| found.push((at, end, value)));
            found
        };
        assert_eq!(found("Now I'll mend a.py. Let me see!"), [(0, 2, 1), (6, 9, 1), (6, 8, 2)]);
        assert_eq!(found("Unknow i'll. Let\nme see. Let. Me"), []);
        assert_eq!(phrases.longest(["let", "me", "see", "it"].into_iter()), Some((3, 1)));
        assert_eq!(phrases.longest(["let", "me"].into_iter()), Some((2, 2)));
        assert_eq!(phrases.longest(["so", "let", "me"].into_iter()), None);
        assert_eq!(words("in a.py. so v1.2; ok"), ["in", "a", "py", ".", "so", "v1", "2", ".", "ok"]);
        assert_eq!(words("why? so\nwell?!"), ["why", "?", "so", ".", "well", "."]);
        assert_eq!(words("is it done?\nyes"), ["is", "it", "done", "?", "yes"]);
        assert_eq!(words(""), [""; 0]);
    }
}
