//! A text as sentences, and these as words.

use std::borrow::Cow;

use crate::text::atoms::{self, AtomKind};
use crate::text::runs::is_unspaced;

use super::english::ENGLISH;

/// Sentences and lines, without the blanks around them.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| {
        let mut rest = line;
        std::iter::from_fn(move || {
            let end = sentence_end(rest)?;
            let (sentence, after) = rest.split_at(end);
            rest = after;
            Some(sentence.trim())
        })
    })
}

/// Where the first sentence ends: behind a mark that a blank follows, but not behind `e.g.`
fn sentence_end(text: &str) -> Option<usize> {
    let ends = |&(i, c): &(usize, char)| {
        let is_end = matches!(c, '.' | '?' | '!') && text[i + 1..].starts_with(char::is_whitespace);
        let word = || text[..i].rsplit([' ', '(']).next().unwrap_or("");
        is_end && !(c == '.' && ENGLISH.words.abbreviations.has(word()))
    };
    let end = text.char_indices().find(ends).map_or(text.len(), |(i, c)| i + c.len_utf8());
    (!text.is_empty()).then_some(end)
}

pub(super) struct Word {
    /// In lower case, without hyphens.
    pub(super) text: String,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) opens_clause: bool,
    pub(super) is_name: bool,
    pub(super) is_capital: bool,
    /// Only a blank stands before it.
    pub(super) goes_on: bool,
}

/// The words of a sentence: atoms whole, numbers apart from their units, `don't` as two.
pub(super) fn split(sentence: &str) -> Vec<Word> {
    let sentence = &*without_emphasis(sentence);
    let mut words = Vec::new();
    let mut from = 0;
    for atom in atoms::occurrences(sentence) {
        let is_name = !matches!(atom.kind, AtomKind::Number | AtomKind::Quoted)
            && (atom.kind != AtomKind::Id || atom.norm.contains(|c: char| c.is_alphabetic()));
        if is_name {
            split_plain(sentence, from, atom.start, &mut words);
            let opens_clause = opens_clause(&sentence[from..atom.start], words.is_empty());
            let text = atom.norm.to_lowercase();
            let (start, end) = (atom.start, atom.end);
            words.push(Word {
                text,
                start,
                end,
                opens_clause,
                is_name: true,
                is_capital: false,
                goes_on: false,
            });
            from = atom.end;
        }
    }
    split_plain(sentence, from, sentence.len(), &mut words);
    words
}

/// A sentence with blanks for the underscores that Markdown sets around words: they are part of none.
pub(super) fn without_emphasis(sentence: &str) -> Cow<'_, str> {
    if !sentence.contains('_') {
        return Cow::Borrowed(sentence);
    }
    let is_mark =
        |c: Option<char>| c.is_none_or(|c| c.is_whitespace() || "*\"'`()[]|>\u{201c}\u{201d}".contains(c));
    let (mut bare, mut from) = (sentence.to_owned(), 0);
    while let Some(found) = sentence[from..].find('_') {
        let start = from + found;
        from = start + sentence[start..].bytes().take_while(|byte| *byte == b'_').count();
        let behind = sentence[from..].chars().find(|c| !".,:;!?".contains(*c));
        let before = sentence[..start].chars().next_back();
        if is_mark(before) || is_mark(behind) {
            bare.replace_range(start..from, &" ".repeat(from - start));
        }
    }
    Cow::Owned(bare)
}

/// Whether what stands before a word ends a clause.
pub(super) fn opens_clause(before: &str, is_first: bool) -> bool {
    let gap = before.trim_start_matches(char::is_alphanumeric);
    let gap = gap.rsplit(char::is_alphanumeric).next().unwrap_or("");
    !is_first && (gap.contains([',', ';', '(', ')', '\u{2013}', '\u{2014}']) || gap.contains(" - "))
}

fn split_plain(sentence: &str, from: usize, to: usize, words: &mut Vec<Word>) {
    let mut i = from;
    while let Some(c) = sentence[i..to].chars().next() {
        let rest = &sentence[i..to];
        let len = if c.is_ascii_digit() {
            run(rest, |c| c.is_ascii_digit(), &['.', ',', ':', '-'])
        } else if is_unspaced(c) {
            c.len_utf8()
        } else if c.is_alphabetic() {
            run(rest, |c| c.is_alphanumeric() && !is_unspaced(c), &['_', '-', '\'', '\u{2019}'])
        } else if SYMBOLS.contains(c) {
            c.len_utf8()
        } else {
            i += c.len_utf8();
            continue;
        };
        let gap = words.last().map_or("", |w: &Word| &sentence[w.end..i]);
        let opens_clause = opens_clause(gap, words.is_empty());
        push_word(&rest[..len], i, opens_clause, gap == " ", words);
        i += len;
    }
}

/// The length of a word: characters of one class, with single joiners inside.
pub(super) fn run(text: &str, is_inner: impl Fn(char) -> bool, joiners: &[char]) -> usize {
    let mut chars = text.char_indices().peekable();
    while let Some((i, c)) = chars.next() {
        let goes_on = chars.peek().is_some_and(|&(_, next)| is_inner(next));
        if !(is_inner(c) || joiners.contains(&c) && goes_on) {
            return i;
        }
    }
    text.len()
}

fn push_word(raw: &str, start: usize, opens_clause: bool, goes_on: bool, words: &mut Vec<Word>) {
    let end = start + raw.len();
    let text =
        raw.to_lowercase().replace('-', if raw.starts_with(|c: char| c.is_ascii_digit()) { "-" } else { "" });
    let text = text.replace('\u{2019}', "'");
    let text = text.strip_suffix("'s").unwrap_or(&text);
    let uppers = raw.chars().filter(|c| c.is_uppercase()).count();
    let mut push = |text: &str, opens_clause| {
        let (text, is_name) = (text.to_owned(), uppers >= 2);
        let is_capital = uppers > 0;
        words.push(Word { text, start, end, opens_clause, is_name, is_capital, goes_on });
    };
    match text.strip_suffix("n't").or_else(|| text.strip_suffix("not").filter(|&t| t == "can")) {
        Some(verb) => {
            push(ENGLISH.contracted.get(verb).map_or(verb, String::as_str), opens_clause);
            push("not", false);
        }
        None => push(text, opens_clause),
    }
}

pub(super) fn is_symbol(word: &str) -> bool {
    word.chars().all(|c| "%<>\u{2264}\u{2265}~\u{2248}".contains(c))
}

/// What opens a value or bounds it.
const SYMBOLS: &str = "$\u{20ac}\u{a3}%<>\u{2264}\u{2265}~\u{2248}";
