//! Where secrets and personal data stand in a text.
//!
//! One pass looks for the keywords of all rules; a rule is tried in a window around each of its own. Windows that touch become one,
//! so that no rule looks at a byte more than a few times: linear in the text.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::checks;
use super::rules::{Finding, GENERAL, RULES, Rule, Rules};

/// How far before and behind a keyword a rule looks. What goes on at the end of a window is looked at further.
const BEFORE: usize = 256;
const BEHIND: usize = 16 << 10;

/// Something to redact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) range: Range<usize>,
    /// Number of the rule.
    pub(super) rule: usize,
}

/// All that is found in a text, in order; none overlaps another.
pub(super) fn find(text: &str) -> Vec<Found> {
    let rules = &*RULES;
    let flat = flat(text);
    let mut found = Vec::new();
    for (rule, windows) in windows(rules, text).into_iter().enumerate() {
        // Names may begin like an escape: `\Users\nina`.
        let bytes = if rules.all[rule].is_personal { text.as_bytes() } else { &*flat };
        for window in windows {
            search(&rules.all[rule], rule, bytes, window, &mut found);
        }
    }
    for &rule in &rules.everywhere {
        search(&rules.all[rule], rule, text.as_bytes(), 0..text.len(), &mut found);
    }
    for one in &mut found {
        one.range = whole_characters(text, one.range.clone());
    }
    // The name of an address may have been the letter of an escape alone.
    found.retain(|one| !text[one.range.clone()].starts_with('@'));
    // A secret that a rule knows by its form comes first, then what is personal: an address may begin with a password.
    // Last comes what only looks like a key.
    found.sort_by_key(|one| {
        let rank = 2 * u8::from(is_general(one.rule)) + u8::from(rules.all[one.rule].is_personal);
        (rank, one.range.start, std::cmp::Reverse(one.range.end))
    });
    let mut kept: Vec<Found> = Vec::with_capacity(found.len());
    for one in &found {
        let at = kept.partition_point(|k| k.range.start < one.range.start);
        let is_free = (at == 0 || kept[at - 1].range.end <= one.range.start)
            && kept.get(at).is_none_or(|next| one.range.end <= next.range.start);
        if is_free && !one.range.is_empty() {
            kept.insert(at, one.clone());
        }
    }
    kept
}

/// Whether a rule finds what only looks like a key.
pub(super) fn is_general(rule: usize) -> bool {
    RULES.all[rule].id == GENERAL
}

/// Where each rule is to look, by rule.
fn windows(rules: &Rules, text: &str) -> Vec<Vec<Range<usize>>> {
    let mut windows: Vec<Vec<Range<usize>>> = vec![Vec::new(); rules.all.len()];
    for hit in rules.keywords.find_overlapping_iter(text) {
        let window = hit.start().saturating_sub(BEFORE)..(hit.end() + BEHIND).min(text.len());
        for &rule in &rules.wanted_by[hit.pattern().as_usize()] {
            match windows[rule].last_mut() {
                // Hits come by their ends; a longer one may begin before.
                Some(last) if window.start <= last.end => {
                    last.end = last.end.max(window.end);
                    last.start = last.start.min(window.start);
                }
                _ => windows[rule].push(window.clone()),
            }
        }
    }
    windows
}

/// Tries a rule in a window.
fn search(rule: &Rule, number: usize, bytes: &[u8], window: Range<usize>, found: &mut Vec<Found>) {
    let regex = rule.regex();
    let (mut at, mut end) = (window.start, window.end);
    while at <= end {
        let Some(whole) = regex.find_at(&bytes[..end], at) else { return };
        if let Some(placeholder) = placeholder(bytes, whole.start()) {
            // Its name tells what was redacted, and nothing of what stands behind it.
            at = placeholder.end;
            continue;
        }
        if whole.end() == end && end < bytes.len() {
            // It may go on behind the window.
            end = bytes.len().min(end + (end - whole.start()).max(BEHIND));
            at = whole.start();
            continue;
        }
        let range = match regex.captures_len() {
            1 => Some(whole.range()),
            _ => regex.captures_at(&bytes[..end], whole.start()).and_then(|groups| match rule.group {
                Some(group) => groups.get(group).map(|group| group.range()),
                None => {
                    let first = groups.iter().skip(1).flatten().find(|group| !group.is_empty());
                    Some(first.map_or(whole.range(), |group| all_of(bytes, group.range(), whole.range())))
                }
            }),
        };
        if let Some(range) = range.map(|range| if rule.is_personal { range } else { bare(bytes, range) })
            && is_one(rule, bytes, whole.range(), range.clone())
        {
            let range = if rule.is_personal { range } else { range.start..token_end(bytes, range.end) };
            found.push(Found { range, rule: number });
        }
        at = if whole.is_empty() { whole.end() + 1 } else { whole.end() };
    }
}

/// The placeholder that holds this place, as `<email-3>` does.
fn placeholder(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let is_part = |b: &&u8| b.is_ascii_lowercase() || b.is_ascii_digit() || **b == b'-';
    let n_before = match bytes.get(at) {
        Some(b'<') => 0,
        _ => 1 + bytes[at.saturating_sub(64)..at].iter().rev().take_while(is_part).count(),
    };
    let start = at.checked_sub(n_before).filter(|start| bytes[*start] == b'<')?;
    let name = bytes[start + 1..].iter().take(64).take_while(is_part).count();
    let end = start + 1 + name;
    let n_digits = bytes[start + 1..end].iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let is_one = n_digits > 0 && n_digits + 1 < name && bytes[end - n_digits - 1] == b'-';
    (is_one && bytes.get(end) == Some(&b'>')).then_some(start..end + 1)
}

/// A part of a secret behind a sign is at least so long.
const PART: usize = 12;

/// Where a secret ends of which a rule knows the beginning: with its word, and with parts as random as it behind a sign.
fn token_end(bytes: &[u8], mut end: usize) -> usize {
    let word = |from: usize| {
        let is_part = |b: &&u8| b.is_ascii_alphanumeric() || b"_-".contains(*b);
        from + bytes[from..].iter().take_while(is_part).count()
    };
    let is_cut = |end: usize| end > 0 && bytes[end - 1].is_ascii_alphanumeric();
    while is_cut(end) {
        let next = word(end);
        let part = match bytes.get(next) {
            Some(b'.' | b'|') => next + 1..word(next + 1),
            _ => return next,
        };
        if part.len() < PART || !checks::is_random(&bytes[part.clone()]) {
            return next;
        }
        end = part.end;
    }
    end
}

/// So many bytes of a match behind a secret are no part of it.
const BEHIND_SECRET: usize = 8;

/// The secret of which a rule names but a part: a group may be there for repetition alone. It goes on to a blank or quote.
fn all_of(bytes: &[u8], group: Range<usize>, whole: Range<usize>) -> Range<usize> {
    let is_end = |b: &u8| b.is_ascii_whitespace() || b"\"'`\\".contains(b);
    let behind = bytes[group.end..whole.end].iter().position(is_end).map_or(whole.end, |n| group.end + n);
    if behind - group.end <= BEHIND_SECRET {
        return group;
    }
    let start =
        bytes[whole.start..group.start].iter().rposition(is_end).map_or(whole.start, |n| whole.start + n + 1);
    start..behind
}

/// A secret without the escape of the quote behind it.
fn bare(bytes: &[u8], range: Range<usize>) -> Range<usize> {
    let n = bytes[range.clone()].iter().rev().take_while(|b| b"\\ ".contains(b)).count();
    range.start..range.end - n
}

/// Whether what a rule found is one.
fn is_one(rule: &Rule, bytes: &[u8], whole: Range<usize>, secret: Range<usize>) -> bool {
    let is_checked = match rule.check {
        None => true,
        Some(check) => checks::holds(check, bytes, &secret),
    };
    if !is_checked {
        return false;
    }
    // A line may be a whole file.
    let (from, to) = (whole.start.saturating_sub(BEFORE), (whole.end + BEFORE).min(bytes.len()));
    let line_start = memchr::memrchr(b'\n', &bytes[from..whole.start]).map_or(from, |at| from + at + 1);
    let line_end = memchr::memchr(b'\n', &bytes[whole.end..to]).map_or(to, |at| whole.end + at);
    let line = &bytes[line_start..line_end];
    !rule.allows(&Finding { line, whole: &bytes[whole], secret: &bytes[secret] })
}

/// The text with white space in the place of escapes, as JSON, code, addresses and terminals have them: a word begins behind `\n`,
/// `%3D` and a colour. All else keeps its place.
pub(super) fn flat(text: &str) -> Cow<'_, [u8]> {
    let mut flat = Cow::Borrowed(text.as_bytes());
    for escape in ESCAPE.find_iter(text.as_bytes()) {
        let stands_for = match escape.as_bytes() {
            [b'\\', b'n' | b'r'] => b'\n',
            [b'\\', b't'] => b'\t',
            [b'\\', b'"'] => b'"',
            // A backslash that is escaped itself, and what is no sign between words.
            [b'\\', _] => continue,
            [b'%', digits @ ..] => match std::str::from_utf8(digits).map(|hex| u8::from_str_radix(hex, 16)) {
                Ok(Ok(byte)) if b"\t\n\r \"&',:;=".contains(&byte) => byte,
                _ => continue,
            },
            _ => b' ',
        };
        let flat = flat.to_mut();
        flat[escape.range()].fill(b' ');
        flat[escape.end() - 1] = stands_for;
    }
    flat
}

/// Colours of terminals, escapes of JSON and code, and those of addresses.
static ESCAPE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern =
        r"(?-u)(?:\x1b|\\(?:u001[bB]|x1[bB]|033|e))\[[0-9;:?]*[A-Za-z]|\\[\x00-\x7f]|%[0-9A-Fa-f]{2}";
    Regex::new(pattern).expect("the expression is in order")
});

/// A range that cuts neither a character nor an escape.
fn whole_characters(text: &str, mut range: Range<usize>) -> Range<usize> {
    while !text.is_char_boundary(range.start) {
        range.start -= 1;
    }
    while !text.is_char_boundary(range.end) {
        range.end += 1;
    }
    let n_before = text.as_bytes()[..range.start].iter().rev().take_while(|b| **b == b'\\').count();
    if n_before % 2 == 1 && text.as_bytes().get(range.start).is_some_and(|b| b"nrtbf\"/".contains(b)) {
        range.start += 1;
    }
    range
}

#[cfg(test)]
mod tests;
