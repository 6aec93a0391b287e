//! What tells one statement from another: its values and its content words.

use super::atoms::{self, AtomKind};

/// The values of a statement: its atoms in normal form (texts between quotation marks are none), and bare numbers.
pub(crate) fn values(text: &str) -> Vec<String> {
    let atoms = atoms::occurrences(text);
    let mut values: Vec<String> = Vec::new();
    for word in
        text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '"' | '“' | '”' | ';' | '`'))
    {
        let word = word
            .trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '$' | '€' | '£' | '#' | '%' | '/'));
        if word.chars().any(|c| c.is_ascii_digit()) {
            values.push(word.to_lowercase());
        }
    }
    values.extend(
        atoms.into_iter().filter(|atom| atom.kind != AtomKind::Quoted).map(|atom| atom.norm.into_owned()),
    );
    values.sort_unstable();
    values.dedup();
    values
}

/// Whether a value tells one thing from others: a name, three digits, or a mixture of letters and digits.
pub(crate) fn is_telling(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let is_mixed = digits > 0 && value.len() > 4 && value.bytes().any(|b| b.is_ascii_alphabetic());
    digits != 1 && digits != 2 || is_mixed
}

/// The hashes of a text's content words, sorted, each once.
pub(crate) fn content_words(text: &str) -> Vec<u32> {
    let mut words: Vec<u32> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter_map(|word| atoms::cue_hash(&word.to_lowercase()))
        .collect();
    words.sort_unstable();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_atoms_and_numbers() {
        assert_eq!(values("Keep \"it\" under $900 (in src/a.py) by 5%."), ["$900", "5%", "src/a.py"]);
        assert!(values("nothing of the kind").is_empty());
    }

    #[test]
    fn one_or_two_digits_tell_nothing() {
        for (value, is) in [("12", false), ("9", false), ("1200", true), ("v1.25", true), ("main", true)] {
            assert_eq!(is_telling(value), is, "{value}");
        }
    }

    #[test]
    fn content_words_are_no_function_words() {
        assert_eq!(content_words("The rent of the flat"), content_words("flat, rent"));
        assert!(content_words("of the").is_empty());
    }
}
