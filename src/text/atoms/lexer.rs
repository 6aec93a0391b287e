//! The pass over the bytes: where a chunk begins and ends, and which rules it is handed to.

use std::borrow::Cow;

use crate::text::words::{self, Lists};

use super::shapes::{CLASS, DASH, DIGIT, DOT, LETTER, RARE, SLASH, UNDER, classes, is_word};
use super::{Atom, AtomKind, Cue, MAX_BYTES, MIN_CUE_BYTES};

/// A quote that is open, with what was found before it.
pub(super) struct Quote {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) n_atoms: usize,
    pub(super) n_cues: usize,
    pub(super) word: u32,
}

/// The last word, as the possible key of a number.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) start: usize,
    pub(super) end: usize,
    /// A flag bears its number behind a space: `--port 80`.
    pub(super) is_flag: bool,
}

pub(super) struct Lexer<'a> {
    pub(super) text: &'a str,
    pub(super) bytes: &'a [u8],
    pub(super) lists: &'static Lists,
    pub(super) atoms: Vec<Atom<'a>>,
    pub(super) cues: Vec<Cue>,
    pub(super) word: u32,
    pub(super) key: Option<Key>,
    pub(super) quote: Option<Quote>,
    /// Where the last quote that was opened closes.
    pub(super) closed: usize,
    /// Where the last atom ended.
    pub(super) resume: usize,
    /// Where the current line begins.
    pub(super) line: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn run(&mut self) {
        let mut i = 0;
        while i < self.bytes.len() {
            if self.quote.as_ref().is_some_and(|q| i >= q.end) {
                self.close_quote();
            }
            i = match self.bytes[i] {
                b' ' => i + 1,
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => self.chunk(i),
                b'\n' => self.newline(i + 1),
                b'.' if self.opens_dotted(i) => self.chunk(i),
                b'/' if self.next(i).is_some_and(|b| is_word(b) || b == b'.') => self.chunk(i),
                b'~' if self.next(i) == Some(b'/') => self.chunk(i),
                b'-' => self.dashes(i),
                b'"' | b'\'' | b'`' => self.open_quote(i),
                b'\\' => self.escape(i),
                0x1b => self.ansi(i + 1),
                b'[' => self.naked_ansi(i),
                0x80.. => self.foreign(i),
                _ => i + 1,
            };
            // A number takes its unit with it.
            i = i.max(self.resume);
        }
        if self.quote.as_ref().is_some_and(|q| q.end <= self.bytes.len()) {
            self.close_quote();
        }
    }

    pub(super) fn next(&self, i: usize) -> Option<u8> {
        self.bytes.get(i + 1).copied()
    }

    pub(super) fn previous(&self, i: usize) -> Option<u8> {
        i.checked_sub(1).map(|p| self.bytes[p])
    }

    pub(super) fn newline(&mut self, next: usize) -> usize {
        self.line = next;
        self.key = None;
        next
    }

    /// A dot begins a chunk in `./x`, `../x`, `.gitignore`, and when a digit or letter follows.
    fn opens_dotted(&self, i: usize) -> bool {
        match self.next(i) {
            Some(b'/') => true,
            Some(b'.') => matches!(self.bytes.get(i + 2), Some(b'/' | b'.')),
            Some(b) => is_word(b),
            None => false,
        }
    }

    fn foreign(&mut self, i: usize) -> usize {
        let c = self.char_at(i);
        if c.is_alphanumeric() { self.chunk(i) } else { i + c.len_utf8() }
    }

    pub(super) fn char_at(&self, i: usize) -> char {
        self.text[i..].chars().next().expect("a byte above 0x7f begins a character here")
    }

    /// Reads the chunk that begins at `start`; answers where to go on.
    pub(super) fn chunk(&mut self, start: usize) -> usize {
        let (mut j, mut set) = (start, 0);
        if self.bytes[j] == b'~' {
            j += 1;
        }
        while let Some(&b) = self.bytes.get(j) {
            let class = CLASS[b as usize];
            if class == 0 {
                break;
            }
            if b >= 0x80 {
                let c = self.char_at(j);
                if !c.is_alphanumeric() {
                    break;
                }
                j += c.len_utf8() - 1;
            }
            set |= class;
            j += 1;
        }
        if self.bytes[j..].starts_with(b"://") && set & !(LETTER | DIGIT | DASH) == 0 && j - start >= 2 {
            return self.url(start, j + 3);
        }
        if set & !LETTER == 0 {
            return self.letters(start, j, set);
        }
        let key = self.key.take();
        if set == DIGIT {
            self.number(start, j, key);
            return j;
        }
        if self.is_placeholder(start, j) {
            self.emit_as_is(AtomKind::Id, start, j);
            return j;
        }
        if j - start > 2 * MAX_BYTES {
            self.word += 1;
            return j;
        }
        let end = start + self.text[start..j].trim_end_matches(['.', '-', '@']).len();
        let (start, cut) = self.grep_prefix(start, end, set);
        let end = cut.map_or(end, |(end, _)| end);
        if end - start > MAX_BYTES {
            self.word += 1;
        } else {
            self.classify(start, end, key);
        }
        cut.map_or(j, |(_, resume)| resume)
    }

    /// Whether it is one of those that `redact` puts in the place of a value: `<email-3>`.
    fn is_placeholder(&self, start: usize, end: usize) -> bool {
        let is_enclosed = start > 0 && self.bytes[start - 1] == b'<' && self.bytes.get(end) == Some(&b'>');
        let is_named = |name: &str, number: &str| {
            name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                && !number.is_empty()
                && number.bytes().all(|b| b.is_ascii_digit())
        };
        is_enclosed
            && self.text[start..end].rsplit_once('-').is_some_and(|(name, number)| is_named(name, number))
    }

    /// `grep` puts `12-` or `file.py-12-` before context lines: answers where the chunk really
    /// begins, and where a file name ends and the line goes on.
    fn grep_prefix(&self, start: usize, end: usize, set: u8) -> (usize, Option<(usize, usize)>) {
        let here = &self.bytes[start..end];
        if set & DASH == 0 {
            return (start, None);
        }
        let digits = here.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits > 0 && start == self.line {
            let code =
                here.get(digits) == Some(&b'-') && here.get(digits + 1).is_some_and(|b| !b.is_ascii_digit());
            return (if code { start + digits + 1 } else { start }, None);
        }
        for dash in memchr::memchr_iter(b'-', here) {
            let digits = here[dash + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
            let after = dash + 1 + digits;
            // The last dash was trimmed when only blanks follow.
            let closed =
                here.get(after) == Some(&b'-') || after == here.len() && self.bytes.get(end) == Some(&b'-');
            if digits > 0 && closed && self.extension(start, start + dash).is_some() {
                return (start, Some((start + dash, (start + after + 1).min(self.bytes.len()))));
            }
        }
        (start, None)
    }

    pub(super) fn classify(&mut self, start: usize, end: usize, key: Option<Key>) {
        let set = classes(&self.bytes[start..end]);
        if set & SLASH != 0 {
            self.slashed(start, end);
        } else if set & RARE != 0 {
            self.rare(start, end);
        } else if set & DOT != 0 {
            self.dotted(start, end, key);
        } else if set & DASH != 0 {
            self.dashed(start, end);
        } else if set == DIGIT {
            self.number(start, end, key);
        } else {
            self.simple(start, end, set);
        }
    }

    /// Letters, digits and underscores only.
    pub(super) fn simple(&mut self, start: usize, end: usize, set: u8) {
        if set & !LETTER == 0 {
            self.letters(start, end, set);
        } else if set & UNDER != 0 {
            self.snake(start, end);
        } else if set & LETTER != 0 {
            self.mixed(start, end, set);
        } else {
            self.word += 1;
        }
    }

    /// The parts of a chunk that is no atom as a whole.
    pub(super) fn parts(&mut self, start: usize, end: usize, separators: &[u8]) {
        let mut from = start;
        for at in start..=end {
            if at == end || separators.contains(&self.bytes[at]) {
                if at > from {
                    self.classify(from, at, None);
                }
                from = at + 1;
            }
        }
    }

    pub(super) fn emit(&mut self, kind: AtomKind, start: usize, end: usize, norm: impl Into<Cow<'a, str>>) {
        let norm = norm.into();
        self.word += 1;
        self.resume = end;
        if !norm.is_empty() && norm.len() <= MAX_BYTES {
            let (start, end) = (start as u32, end as u32);
            self.atoms.push(Atom { kind, start, end, norm, word: self.word });
        }
    }

    pub(super) fn emit_as_is(&mut self, kind: AtomKind, start: usize, end: usize) {
        let text = self.text;
        self.emit(kind, start, end, &text[start..end]);
    }

    pub(super) fn cue(&mut self, start: usize, end: usize) {
        self.word += 1;
        if end - start >= MIN_CUE_BYTES {
            self.cue_hash(start, words::hash(&self.bytes[start..end]));
        }
    }

    pub(super) fn cue_hash(&mut self, start: usize, hash: u32) {
        if !self.lists.stop.contains(hash) {
            self.cues.push(Cue { start: start as u32, word: self.word, hash });
        }
    }

    pub(super) fn is_listed(&self, start: usize, end: usize) -> bool {
        self.lists.not_atoms.contains(words::hash(&self.bytes[start..end]))
    }
}
