//! The words of a text, and the parts of a name, as hashes in lower case: so that `getUserName` shares parts with "the user".

use crate::text::runs::hash;

/// Shortest word, and shortest part of a name, in characters.
const SHORTEST: usize = 3;

/// Calls `see` for each part of a name: a word with a capital or none before it, some capitals, digits.
pub(super) fn parts(name: &str, see: &mut impl FnMut(u64)) {
    let bytes = name.as_bytes();
    let run = |from: usize, is: fn(&u8) -> bool| from + bytes[from..].iter().take_while(|b| is(b)).count();
    let mut at = 0;
    while at < bytes.len() {
        let capital = usize::from(bytes[at].is_ascii_uppercase());
        let lower = run(at + capital, u8::is_ascii_lowercase);
        let end = if lower > at + capital {
            lower
        } else if capital > 0 {
            run(at, u8::is_ascii_uppercase)
        } else {
            run(at, u8::is_ascii_digit).max(at + 1)
        };
        if end - at >= SHORTEST && bytes[at].is_ascii_alphanumeric() {
            see(hash_lower(&name[at..end]));
        }
        at = end;
    }
}

/// Calls `see` for each word of a text, a run of letters, and each part of it.
pub(super) fn words(text: &str, see: &mut impl FnMut(u64)) {
    for word in text.split(|c: char| !c.is_alphabetic()) {
        // Three letters are three bytes or more.
        if word.len() < SHORTEST || word.chars().nth(SHORTEST - 1).is_none() {
            continue;
        }
        see(hash_lower(word));
        if word.bytes().any(|b| !b.is_ascii_lowercase()) {
            parts(word, see);
        }
    }
}

/// The beginning of a text, so many characters of it.
pub(super) fn beginning(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(at, _)| &text[..at])
}

fn hash_lower(word: &str) -> u64 {
    if word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
        return hash(word);
    }
    hash(&word.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(of: impl Fn(&mut dyn FnMut(u64))) -> Vec<u64> {
        let mut found = Vec::new();
        of(&mut |hash| found.push(hash));
        found
    }

    #[test]
    fn names_are_cut_at_humps_and_marks() {
        let of = |name: &str| hashes(|see| parts(name, &mut |hash| see(hash)));
        let those = |names: &[&str]| names.iter().map(|name| hash(name)).collect::<Vec<_>>();
        assert_eq!(of("getUserName"), those(&["get", "user", "name"]));
        // Of some capitals the last is no word's beginning.
        assert_eq!(of("HTTPServer_v2/max_1500"), those(&["https", "erver", "max", "1500"]));
        assert_eq!(of("a.b_cd"), those(&[]));
        assert_eq!(of("Größe.txt"), those(&["txt"]));
    }

    #[test]
    fn words_have_three_letters() {
        let of = |text: &str| hashes(|see| words(text, &mut |hash| see(hash)));
        let those = |names: &[&str]| names.iter().map(|name| hash(name)).collect::<Vec<_>>();
        assert_eq!(
            of("The userName is in_a Größe2."),
            those(&["the", "the", "username", "user", "name", "größe"])
        );
        assert_eq!(of("é ab 123"), those(&[]));
        assert_eq!(beginning("größe", 4), "größ");
    }
}
