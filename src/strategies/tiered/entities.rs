//! Entities of a text: its atoms by name ("error code 500" is `code=500`), and in prose the names beside them ("Alice Johnson").

use rustc_hash::FxHashSet;

use crate::text::atoms;

/// An entity, by the hash of its name: compared many times a decision.
pub(crate) type Entity = u64;

/// The entity of a name.
pub(crate) fn named(name: &str) -> Entity {
    let hash = blake3::hash(name.as_bytes());
    u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("a hash has 32 bytes"))
}

/// Entities of a segment, at most: the first.
const MAX_ENTITIES: usize = 64;

/// The entities of a text, each once, in order.
pub(crate) fn entities(text: &str) -> Vec<String> {
    let mut seen: FxHashSet<String> = FxHashSet::default();
    let mut found = Vec::new();
    for (start, atoms) in atoms::lines(text) {
        let own = atoms.iter().map(|atom| atom.norm.to_string());
        let said = of_prose(text[start..].lines().next().unwrap_or_default()).into_iter().map(str::to_owned);
        found.extend(own.chain(said).filter(|name| seen.insert(name.clone())));
        if found.len() >= MAX_ENTITIES {
            found.truncate(MAX_ENTITIES);
            break;
        }
    }
    found
}

/// Whether a name identifies by a number: an id, a value, a version.
pub(crate) fn is_value(name: &str) -> bool {
    name.bytes().any(|b| b.is_ascii_digit())
}

/// Names in a line of prose. A name is words with a capital, one after the other, of which the first stands in the middle
/// of a sentence (at its beginning all words have one).
fn of_prose(line: &str) -> Vec<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_word = |word: &&&str| {
        let word = bare(word);
        !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || c == '\'' || c == '-')
    };
    if words.len() < 3 || 3 * words.iter().filter(is_word).count() < 2 * words.len() {
        return Vec::new();
    }
    let at = |word: &str| word.as_ptr() as usize - line.as_ptr() as usize;
    let mut found = Vec::new();
    let (mut begins, mut name): (bool, Option<(usize, usize)>) = (true, None);
    for word in words {
        let core = bare(word);
        let is_name = !begins && is_capital(core);
        // A mark before or behind it ends a name.
        let (opens, closes) = (at(core) > at(word), core.len() + at(core) < word.len() + at(word));
        if opens || !is_name {
            found.extend(name.take().map(|(start, end)| &line[start..end]));
        }
        if is_name {
            name = Some((name.map_or(at(core), |(start, _)| start), at(core) + core.len()));
        }
        if closes {
            found.extend(name.take().map(|(start, end)| &line[start..end]));
        }
        begins = word.ends_with(['.', '!', '?', ':']);
    }
    found.extend(name.map(|(start, end)| &line[start..end]));
    found
}

/// A word without the marks around it.
fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// `Alice`: not `I`, `API`, `ValueError`, which are no names or atoms.
fn is_capital(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(char::is_uppercase)
        && word.chars().count() > 1
        && chars.all(|c| c.is_lowercase() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_identifies_in_talk() {
        for (text, expected) in [
            ("My account ID is ABC123.", &["ABC123"][..]),
            ("I'm getting error code 500 here", &["code=500"]),
            ("I need this resolved by Friday.", &["Friday"]),
            ("Then Alice Johnson called, and Bob (Carol too).", &["Alice Johnson", "Bob", "Carol"]),
            ("We moved from Django to Flask. The rest is fine.", &["Django", "Flask"]),
            ("Thanks! OK, sure, let me think about that.", &[]),
            ("", &[]),
        ] {
            assert_eq!(entities(text), expected, "{text}");
        }
        // Code and tables are no prose.
        assert!(of_prose("x = Foo(1); y = Bar(2); Baz").is_empty());
        assert!(of_prose("12 500 Total 33").is_empty());
    }
}
