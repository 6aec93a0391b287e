//! Finds phrases in prose: runs of whole words, each with a value, by their first word. One pass, linear in the text.

use std::collections::HashMap;

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

/// Phrases with a value each.
pub(crate) struct Phrases<T> {
    by_first: HashMap<&'static str, Vec<(Vec<&'static str>, T)>>,
}

impl<T: Copy> Phrases<T> {
    /// Each list of phrases, separated by `|`, with its value.
    pub(crate) fn new(lists: &[(&'static str, T)]) -> Self {
        let mut by_first: HashMap<_, Vec<_>> = HashMap::new();
        for (list, value) in lists {
            for phrase in list.split('|') {
                let mut words = phrase.split_whitespace();
                if let Some(first) = words.next() {
                    by_first.entry(first).or_default().push((words.collect(), *value));
                }
            }
        }
        Phrases { by_first }
    }

    /// Calls `found` with the place (first word, and the one after the last) and value of each phrase, in order.
    pub(crate) fn visit(&self, words: &[&str], mut found: impl FnMut(usize, usize, T)) {
        for (at, first) in words.iter().enumerate() {
            for (rest, value) in self.by_first.get(first).into_iter().flatten() {
                if words[at + 1..].starts_with(rest) {
                    found(at, at + 1 + rest.len(), *value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_within_a_sentence() {
        let phrases = Phrases::new(&[("now i'll|let me see", 1), ("let me", 2)]);
        let found = |text: &str| {
            let lower = text.to_lowercase();
            let mut found = Vec::new();
            phrases.visit(&words(&lower), |at, end, value| found.push((at, end, value)));
            found
        };
        assert_eq!(found("Now I'll mend a.py. Let me see!"), [(0, 2, 1), (6, 9, 1), (6, 8, 2)]);
        assert_eq!(found("Unknow i'll. Let\nme see. Let. Me"), []);
        assert_eq!(words("in a.py. so v1.2; ok"), ["in", "a", "py", ".", "so", "v1", "2", ".", "ok"]);
        assert_eq!(words("why? so\nwell?!"), ["why", "?", "so", ".", "well", "."]);
        assert_eq!(words("is it done?\nyes"), ["is", "it", "done", "?", "yes"]);
        assert_eq!(words(""), [""; 0]);
    }
}
