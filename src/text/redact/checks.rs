//! What no regular expression can tell of a finding: what stands around it, and how random it is.

use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::rules::{Check, entropy};

/// Whether a finding holds.
pub(super) fn holds(check: Check, bytes: &[u8], found: &Range<usize>) -> bool {
    let value = &bytes[found.clone()];
    match check {
        Check::Alone => is_alone(bytes, found),
        Check::Address => is_alone(bytes, found) && !is_version(&bytes[..found.start]),
        Check::Card => is_alone(bytes, found) && is_card(value) && !is_in_row(bytes, found),
        Check::Password => is_password(value) && !is_called(bytes, found),
        Check::Key => is_key(value) && !is_called(bytes, found),
    }
}

/// Whether a number stands alone: no part of a longer one, of a version or of a word.
fn is_alone(bytes: &[u8], range: &Range<usize>) -> bool {
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let is_free = |next: Option<&u8>, further: Option<&u8>| match next {
        None => true,
        // A point or dash joins if a word goes on behind it.
        Some(b'.' | b'-' | b'+') => !further.is_some_and(is_part),
        Some(b) => !is_part(b),
    };
    let before = |n: usize| range.start.checked_sub(n).and_then(|at| bytes.get(at));
    is_free(before(1), before(2)) && is_free(bytes.get(range.end), bytes.get(range.end + 1))
}

/// Whether what stands before numbers with points says that they are a version: a comparison, a product, or the word.
fn is_version(before: &[u8]) -> bool {
    static BEFORE: LazyLock<Regex> = LazyLock::new(|| {
        let pattern =
            r#"(?i-u)(?:[=<>~!]=|[~^]|[a-z0-9_)]/|\bver(?:sion)?s?(?:["'`]?[ \t]{0,3}[:=])?[ \t"'`(]{0,3})$"#;
        Regex::new(pattern).expect("the expression is in order")
    });
    BEFORE.is_match(&before[before.len().saturating_sub(32)..])
}

fn has_letters_and_digits(value: &[u8]) -> bool {
    value.iter().any(u8::is_ascii_digit) && value.iter().any(u8::is_ascii_alphabetic)
}

/// Whether a piece of a text is no word.
pub(super) fn is_random(value: &[u8]) -> bool {
    has_letters_and_digits(value) && entropy(value) >= 2.8
}

/// Whether it is the name of a function or a list.
fn is_called(bytes: &[u8], found: &Range<usize>) -> bool {
    matches!(bytes.get(found.end), Some(b'(' | b'['))
}

/// Blanks in a value. Before a sign they are what is left of its escape.
fn n_blanks(value: &[u8]) -> usize {
    value.windows(2).filter(|two| two[0] == b' ' && !b" :=".contains(&two[1])).count()
}

/// Whether a value that is named as a password may be one.
fn is_password(value: &[u8]) -> bool {
    let words = || value.split(|b| *b == b' ');
    has_letters_and_digits(value)
        && value.len() <= 80
        && (n_blanks(value) <= 1 || words().all(|word| word.len() == 4))
}

/// Whether a value that is named as a key may be one. Sixteen signs make it less random.
fn is_key(value: &[u8]) -> bool {
    let is_hex = value.len() >= 32 && value.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
    has_letters_and_digits(value)
        && value.len() >= 16
        && n_blanks(value) == 0
        && entropy(value) >= if is_hex { 2.8 } else { 3.5 }
}

/// Whether digits are those of a card: their last one checks the others (Luhn), and they are no simple row.
fn is_card(bytes: &[u8]) -> bool {
    let digits: Vec<u32> = bytes.iter().filter(|b| b.is_ascii_digit()).map(|b| u32::from(b - b'0')).collect();
    let twice = |n: u32| if n > 4 { 2 * n - 9 } else { 2 * n };
    let sum: u32 =
        digits.iter().rev().enumerate().map(|(i, n)| if i % 2 == 1 { twice(*n) } else { *n }).sum();
    let n_kinds = (0..10).filter(|d| digits.contains(d)).count();
    sum.is_multiple_of(10) && n_kinds > 2
}

/// Whether numbers stand in a row with others, as the points of a drawing do: `Q 2772 3750 2511 3984 2250 4218`.
fn is_in_row(bytes: &[u8], range: &Range<usize>) -> bool {
    let before = bytes[..range.start].strip_suffix(b" ");
    let follows = |n: usize| before.and_then(|bytes| bytes.len().checked_sub(n)).map(|at| bytes[at]);
    let is_letter = follows(1).is_some_and(|b| b.is_ascii_uppercase())
        && !follows(2).is_some_and(|b| b.is_ascii_alphanumeric());
    let behind = bytes[range.end..].strip_prefix(b" ").and_then(|bytes| bytes.get(..4));
    is_letter
        || follows(1).is_some_and(|b| b.is_ascii_digit())
        || behind.is_some_and(|b| b.iter().all(u8::is_ascii_digit))
}
