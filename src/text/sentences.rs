//! Cuts the text of a step into statements: the units that are rated and kept verbatim.
//!
//! A statement is a sentence within a line, without what a tool put before it (a time stamp and a level, a file with a
//! line number, a mark of a list or a comment); a text within a line of JSON; or a numbered list with the line that
//! opens it, so that a plan stays whole. Nothing of it is changed: it is a range of the step's bytes. A statement of
//! more than [`MAX_CHARS`] characters is cut at a space. Linear in the text.

use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use super::lists::{self, WordSet};

/// Longest statement in characters; of a longer one the beginning is taken.
pub const MAX_CHARS: usize = 600;

static ABBREVIATIONS: LazyLock<Abbreviations> =
    LazyLock::new(|| lists::read(include_str!("../data/words/abbreviations.toml")));

/// Words that end with a full stop without ending a sentence.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Abbreviations {
    english: WordSet,
    german: WordSet,
}

/// The statements of a text, in order, as ranges of bytes. `lists`: numbered lists are one statement with the line
/// before (what people and agents write; in the output of a tool each line stands for itself).
pub fn statements(text: &str, lists: bool) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut lines = lines(text).peekable();
    while let Some(line) = lines.next() {
        let whole = trimmed(text, line);
        if whole.is_empty() || text[whole.clone()].starts_with("```") {
            continue;
        }
        if lists && text[whole.clone()].ends_with(':') {
            let mut end = whole.end;
            let mut entries = 0;
            while let Some(entry) = lines.peek().cloned().map(|next| trimmed(text, next)) {
                if !is_entry(&text[entry.clone()]) || text[whole.start..entry.end].chars().count() > MAX_CHARS
                {
                    break;
                }
                end = entry.end;
                entries += 1;
                lines.next();
            }
            if entries > 1 {
                found.push(whole.start..end);
                continue;
            }
            if entries == 1 {
                found.push(whole.clone());
                let entry = trimmed(text, whole.end..end);
                of_line(text, entry, &mut found);
                continue;
            }
        }
        of_line(text, whole, &mut found);
    }
    found
}

/// Whether a line is one of a file that a tool shows with its number: `12: let x`, `  12\tlet x`, `12|let x`.
pub fn is_numbered(line: &str) -> bool {
    let line = line.trim_start();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    (1..=6).contains(&digits) && matches!(line.as_bytes().get(digits), Some(b':' | b'\t' | b'|'))
        // A time is no number of a line.
        && !line[digits + 1..].starts_with(|c: char| c.is_ascii_digit())
}

fn lines(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    text.split_inclusive('\n').map(move |line| {
        let from = start;
        start += line.len();
        from..start
    })
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let piece = &text[range.clone()];
    let start = range.start + piece.len() - piece.trim_start().len();
    start..(range.start + piece.trim_end().len()).max(start)
}

/// Whether a line is an entry of a numbered list.
fn is_entry(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    (1..=2).contains(&digits) && matches!(line.as_bytes().get(digits), Some(b'.' | b')'))
}

/// The statements of a line without its blanks.
fn of_line(text: &str, line: Range<usize>, found: &mut Vec<Range<usize>>) {
    let bare = without_prefix(text, line);
    let piece = &text[bare.clone()];
    if piece.starts_with('{') || piece.starts_with('[') || (piece.starts_with('"') && piece.contains("\": "))
    {
        let texts = texts_within(piece);
        if !texts.is_empty() {
            for inner in texts {
                sentences(text, bare.start + inner.start..bare.start + inner.end, found);
            }
            return;
        }
    }
    sentences(text, bare, found);
}

/// A line without what stands before its text: `12:04:09 INFO  name:`, `src/a.rs:12:`, `# `, `- `.
fn without_prefix(text: &str, line: Range<usize>) -> Range<usize> {
    let piece = &text[line.clone()];
    let mut words = piece.split_whitespace();
    let first = words.next().unwrap_or("");
    let after = |word: &str| {
        let at = word.as_ptr() as usize - text.as_ptr() as usize + word.len();
        trimmed(text, at..line.end)
    };
    if matches!(first, "#" | "##" | "###" | "//" | "///" | "--" | "-" | "*" | "•" | ">" | "/*" | "|") {
        return after(first);
    }
    if is_time(first) {
        // A level or a name may follow; a word that ends with a colon ends the prefix.
        let mut end = first;
        for word in words.take(3) {
            let is_level = word.len() > 2 && word.bytes().all(|b| b.is_ascii_uppercase() || b == b':');
            if word.ends_with(':') {
                end = word;
                break;
            }
            if !(is_level || is_time(word)) && end != first {
                break;
            }
            if is_level || is_time(word) {
                end = word;
            }
        }
        return after(end);
    }
    let is_place = first.split_once(':').is_some_and(|(file, number)| {
        (file.contains('/') || file.contains('.'))
            && number.ends_with(':')
            && number.bytes().all(|b| b.is_ascii_digit() || b == b':')
            && number.len() > 1
    });
    if is_place { after(first) } else { line }
}

/// `12:04`, `12:04:09.123`, `2024-03-02T23:14Z`.
fn is_time(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    digits >= 4
        && word.contains([':', '-'])
        && word.bytes().all(|b| {
            b.is_ascii_digit() || matches!(b, b':' | b'.' | b',' | b'-' | b'T' | b'Z' | b'+' | b'[' | b']')
        })
}

/// Texts between quotation marks in a line of JSON that have at least four words and are no keys.
fn texts_within(line: &str) -> Vec<Range<usize>> {
    let bytes = line.as_bytes();
    let mut found = Vec::new();
    let mut open = None;
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], open) {
            (b'\\', Some(_)) => at += 1,
            (b'"', None) => open = Some(at + 1),
            (b'"', Some(start)) => {
                let is_key = line[at + 1..].trim_start().starts_with(':');
                if !is_key && line[start..at].split_whitespace().take(4).count() == 4 {
                    found.push(start..at);
                }
                open = None;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Cuts a piece of a line where sentences end.
fn sentences(text: &str, range: Range<usize>, found: &mut Vec<Range<usize>>) {
    let piece = &text[range.clone()];
    let mut start = 0;
    let mut chars = piece.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let wide = matches!(c, '。' | '！' | '？');
        if !(wide || matches!(c, '.' | '!' | '?')) {
            continue;
        }
        let mut end = at + c.len_utf8();
        while let Some(&(i, closing)) = chars.peek() {
            if !matches!(closing, '.' | '!' | '?' | '"' | '”' | '\'' | ')' | ']' | '*') {
                break;
            }
            end = i + closing.len_utf8();
            chars.next();
        }
        let at_space = chars.peek().is_none_or(|(_, next)| next.is_whitespace());
        if (wide || at_space) && !(c == '.' && is_abbreviated(&piece[start..at])) {
            push(text, range.start + start..range.start + end, found);
            start = end;
        }
    }
    push(text, range.start + start..range.end, found);
}

/// Whether a full stop after this text belongs to its last word: an abbreviation, an initial, the number of a list.
fn is_abbreviated(before: &str) -> bool {
    let word = before.rsplit(char::is_whitespace).next().unwrap_or("").trim_start_matches(['(', '"', '“']);
    let alone = before.trim_start().len() == word.len();
    let is_short = |word: &str| ABBREVIATIONS.english.has(word) || ABBREVIATIONS.german.has(word);
    let single = word.chars().count() == 1 && word.chars().all(char::is_alphabetic);
    single
        || (alone && word.len() < 3 && word.bytes().all(|b| b.is_ascii_digit()))
        || is_short(&word.to_lowercase())
}

fn push(text: &str, range: Range<usize>, found: &mut Vec<Range<usize>>) {
    let mut range = trimmed(text, range);
    let piece = &text[range.clone()];
    if !piece.chars().any(char::is_alphanumeric) {
        return;
    }
    if let Some((limit, _)) = piece.char_indices().nth(MAX_CHARS) {
        let cut = piece[..limit].rfind(char::is_whitespace).unwrap_or(limit);
        range = trimmed(text, range.start..range.start + cut);
    }
    found.push(range);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        statements(text, true).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn lines_of_a_listing_have_numbers() {
        for line in ["12: let x = 1;", "   7\treturn", "1:import os", "31|}"] {
            assert!(is_numbered(line), "{line}");
        }
        for line in ["12:04 INFO start", "2024-03-02: moved", "12 apples", "12", "a12: b", "1234567: x", ""] {
            assert!(!is_numbered(line), "{line}");
        }
    }

    #[test]
    fn sentences_end_at_their_marks() {
        assert_eq!(
            cut("Use v1.2 of it, e.g. from here. Is that (really) so?! \"Yes.\" ok then"),
            ["Use v1.2 of it, e.g. from here.", "Is that (really) so?!", "\"Yes.\"", "ok then"]
        );
        assert_eq!(cut("J. Smith pays $4.50.\n\n  \nno mark"), ["J. Smith pays $4.50.", "no mark"]);
        assert_eq!(cut("予算は500です。急いで！"), ["予算は500です。", "急いで！"]);
        assert!(cut("").is_empty() && cut("```\n---\n...\n").is_empty());
    }

    #[test]
    fn prefixes_of_tools_are_no_part() {
        assert_eq!(cut("11:29:04 NOTE  timber: the ticket is T-788"), ["the ticket is T-788"]);
        assert_eq!(cut("2024-03-02 23:14 warning: 14 drafts"), ["14 drafts"]);
        assert_eq!(cut("src/a.rs:12: the port is 8080"), ["the port is 8080"]);
        assert_eq!(cut("# Title\n- keep it\n-- see OPS-88"), ["Title", "keep it", "see OPS-88"]);
        assert_eq!(cut("Note: a.b"), ["Note: a.b"]);
    }

    #[test]
    fn texts_in_json_stand_alone() {
        assert_eq!(
            cut(r#"{"state": "open", "note it here now": 1, "remark": "the bag has \"QQ64\" on it"}"#),
            [r#"the bag has \"QQ64\" on it"#]
        );
        assert_eq!(cut(r#"{"id": 4, "vat": null}"#), [r#"{"id": 4, "vat": null}"#]);
    }

    #[test]
    fn a_plan_stays_whole() {
        let plan = "My plan:\n1. read it\n2. mend it\n10) ship it";
        assert_eq!(cut(&format!("Thanks.\n\n{plan}\n\nThat is all.")), ["Thanks.", plan, "That is all."]);
        assert_eq!(cut("One thing:\n1. read it.\nDone"), ["One thing:", "1. read it.", "Done"]);
        assert_eq!(statements(plan, false).len(), 4);
    }

    #[test]
    fn long_statements_are_cut_at_a_space() {
        let text = "word ".repeat(400);
        let found = cut(&text);
        assert_eq!(found.len(), 1);
        assert!(found[0].chars().count() <= MAX_CHARS && found[0].ends_with("word"));
        assert_eq!(cut(&"é".repeat(1000))[0].chars().count(), MAX_CHARS);
    }

    proptest::proptest! {
        #[test]
        fn statements_are_in_order_and_apart(text in "(\\PC|[ .\n\":{]|[a-z]{1,9} ){0,80}") {
            let found = statements(&text, true);
            for pair in found.windows(2) {
                proptest::prop_assert!(pair[0].end <= pair[1].start);
            }
            for range in found {
                proptest::prop_assert!(!text[range].trim().is_empty());
            }
        }
    }
}
