//! A command line, cut into simple commands and their words.

use std::ops::Range;

use crate::turns::names::ACTIONS;

/// A simple command of a command line.
#[derive(Default)]
pub(super) struct Simple {
    pub(super) words: Vec<(String, Range<usize>)>,
    /// Files that its output is written to.
    pub(super) targets: Vec<String>,
    pub(super) heredocs: Vec<Range<usize>>,
    pub(super) after: Link,
    /// Whether nobody waits for its end: `pytest &`.
    pub(super) in_background: bool,
}

/// What joins a simple command to the one before.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) enum Link {
    /// `;`, `&` or the end of a line; nothing, of the first.
    #[default]
    Next,
    /// `|`: it reads the output of the one before.
    Pipe,
    /// `&&`: it runs only if the one before ended well.
    And,
    /// `||`
    Or,
}

/// Splits a command line at `&&`, `||`, `;`, `|`, `&` and newlines outside quotes.
pub(super) fn split(text: &str) -> Vec<Simple> {
    let bytes = text.as_bytes();
    let mut done: Vec<Simple> = Vec::new();
    let mut current = Simple::default();
    let mut pending: Vec<(usize, String, bool)> = Vec::new();
    let mut redirect = false;
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'\n' => {
                finish(&mut done, &mut current, Link::Next);
                i += 1;
                for (owner, end, tabs) in pending.drain(..) {
                    let (body, next) = heredoc(text, i, &end, tabs);
                    if let Some(simple) = done.get_mut(owner) {
                        simple.heredocs.push(body);
                    }
                    i = next;
                }
            }
            b' ' | b'\t' | b'\r' => i += 1,
            b'#' if i == 0 || bytes[i - 1].is_ascii_whitespace() => {
                i += bytes[i..].iter().take_while(|&&b| b != b'\n').count();
            }
            b'&' if bytes.get(i + 1) == Some(&b'>') => i += 1,
            b';' | b'|' | b'&' => {
                let is_double = bytes.get(i + 1) == Some(&bytes[i]);
                let link = match (bytes[i], is_double) {
                    (b'|', false) => Link::Pipe,
                    (b'|', true) => Link::Or,
                    (b'&', true) => Link::And,
                    _ => Link::Next,
                };
                current.in_background = bytes[i] == b'&' && !is_double && !current.words.is_empty();
                finish(&mut done, &mut current, link);
                i += 1 + usize::from(is_double);
            }
            b'<' if bytes[i..].starts_with(b"<<<") => i += 3,
            b'<' if bytes[i..].starts_with(b"<<") => {
                let tabs = bytes.get(i + 2) == Some(&b'-');
                let from = i + 2 + usize::from(tabs);
                let from = from + bytes[from..].iter().take_while(|b| **b == b' ').count();
                let (word, end) = word(text, from);
                if !word.is_empty() {
                    pending.push((done.len(), word, tabs));
                }
                i = end.max(from);
            }
            b'<' => i += 1,
            b'>' => {
                // `2>&1` names no file; a digit before belongs to the redirection.
                if bytes.get(i + 1) == Some(&b'&') {
                    i += 2 + bytes[i + 2..].iter().take_while(|b| b.is_ascii_digit()).count();
                } else {
                    i += 1 + usize::from(bytes.get(i + 1) == Some(&b'>'));
                    redirect = true;
                }
            }
            _ => {
                let (word, end) = word(text, i);
                let is_descriptor =
                    word.len() == 1 && word.as_bytes()[0].is_ascii_digit() && bytes.get(end) == Some(&b'>');
                if redirect {
                    current.targets.push(word);
                } else if !is_descriptor {
                    current.words.push((word, i..end));
                }
                redirect = false;
                i = end.max(i + 1);
            }
        }
    }
    finish(&mut done, &mut current, Link::Next);
    done
}

/// Ends a simple command; the next one comes `after` it. A line may break behind an operator: `pytest &&`, newline, `ls`.
pub(super) fn finish(done: &mut Vec<Simple>, current: &mut Simple, after: Link) {
    let is_empty = current.words.is_empty() && current.targets.is_empty();
    if !is_empty {
        done.push(std::mem::take(current));
    } else if after == Link::Next {
        return;
    }
    current.after = after;
}

/// Reads a word that begins at `from`, quotes removed; answers where it ends.
pub(super) fn word(text: &str, from: usize) -> (String, usize) {
    let bytes = text.as_bytes();
    let mut word: Vec<u8> = Vec::new();
    let mut quote = None;
    let mut i = from;
    while i < bytes.len() {
        match (quote, bytes[i]) {
            (None, b' ' | b'\t' | b'\r' | b'\n' | b';' | b'|' | b'&' | b'<' | b'>') => break,
            (None, b'"' | b'\'') => quote = Some(bytes[i]),
            (Some(q), b) if q == b => quote = None,
            (None | Some(b'"'), b'\\') if i + 1 < bytes.len() => {
                i += 1;
                word.push(bytes[i]);
            }
            (_, b) => word.push(b),
        }
        i += 1;
    }
    (String::from_utf8_lossy(&word).into_owned(), i)
}

/// The body of a heredoc that begins at `from`, and where the line after its end begins.
pub(super) fn heredoc(text: &str, from: usize, end: &str, tabs: bool) -> (Range<usize>, usize) {
    let mut at = from;
    for line in text[from..].split_inclusive('\n') {
        let content = line.trim_end_matches(['\n', '\r']);
        let content = if tabs { content.trim_start_matches('\t') } else { content };
        if content == end {
            return (from..at, at + line.len());
        }
        at += line.len();
    }
    (from..text.len(), text.len())
}

pub(super) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// The words of a command without assignments and wrappers such as `sudo` and `timeout 10`.
pub(super) fn unwrapped(words: &[(String, Range<usize>)]) -> &[(String, Range<usize>)] {
    let mut rest = words;
    while let Some(((first, _), tail)) = rest.split_first() {
        let skip = match first.as_str() {
            word if ACTIONS.groups.wrappers.has(word) => 1,
            word if ACTIONS.groups.wrappers_with_options.has(word) => {
                let options = tail.iter().take_while(|(w, _)| w.starts_with('-')).count();
                let number = tail
                    .get(options)
                    .is_some_and(|(w, _)| first == "timeout" || w.bytes().all(|b| b.is_ascii_digit()));
                1 + options + usize::from(number)
            }
            word if ACTIONS.groups.wrappers_run.has(word)
                && tail.first().is_some_and(|(w, _)| w == "run") =>
            {
                2
            }
            "bundle" if tail.first().is_some_and(|(w, _)| w == "exec") => 2,
            word if is_assignment(word) => 1,
            // `env $setting python a.py`
            word if word.starts_with('$') && !tail.is_empty() => 1,
            _ => break,
        };
        rest = rest.get(skip..).unwrap_or_default();
    }
    rest
}

/// A command in one line, without what wraps it.
pub(super) fn command_words(simple: &Simple) -> String {
    let words: Vec<&str> = unwrapped(&simple.words).iter().map(|(word, _)| word.as_str()).collect();
    words.join(" ")
}
