//! Quotes, and escapes in them and elsewhere.

use crate::text::words;

use super::AtomKind;
use super::lexer::{Lexer, Quote};
use super::shapes::is_word;

impl<'a> Lexer<'a> {
    pub(super) fn open_quote(&mut self, start: usize) -> usize {
        let mark = self.bytes[start];
        let run = self.bytes[start..].iter().take_while(|&&b| b == mark).count();
        if run > 1 || self.quote.is_some() || start == self.closed || !self.may_open(start) {
            return start + run;
        }
        if let Some(end) = self.closing(start + 1, mark) {
            // Whether quotable or not, the closing mark opens nothing.
            self.closed = end;
            if self.is_quotable(start + 1, end, mark) {
                let (n_atoms, n_cues) = (self.atoms.len(), self.cues.len());
                self.quote = Some(Quote { start: start + 1, end, n_atoms, n_cues, word: self.word });
            }
        }
        start + 1
    }

    /// Behind a word a quote closes, except behind the prefix of a string: `f"`, `rb'`.
    fn may_open(&self, start: usize) -> bool {
        let is_prefix = |b: u8| matches!(b | 32, b'f' | b'r' | b'b' | b'u');
        match self.previous(start) {
            Some(b')' | b']' | b'\\') => false,
            Some(b) if is_word(b) => {
                let before = self.bytes[..start].iter().rev().take(3).take_while(|&&b| is_word(b)).count();
                before <= 2 && is_prefix(b) && self.bytes[start] != b'`'
            }
            _ => true,
        }
    }

    /// Where a quote ends: on the same line, within 60 characters, not inside a word.
    fn closing(&self, from: usize, mark: u8) -> Option<usize> {
        let mut at = from;
        while at < self.bytes.len() && at <= from + MAX_QUOTED_BYTES {
            match self.bytes[at] {
                b'\n' => return None,
                b'\\' => at += 1,
                b if b == mark && !self.next(at).is_some_and(is_word) => return Some(at),
                _ => {}
            }
            at += 1;
        }
        None
    }

    fn is_quotable(&self, start: usize, end: usize, mark: u8) -> bool {
        let Some(content) = self.text.get(start..end) else {
            return false;
        };
        let n_chars = content.chars().count();
        let n_letters = content.chars().filter(|c| c.is_alphabetic()).count();
        // `"key": value` names, it is not named.
        let rest = &self.bytes[end + 1..];
        let is_key =
            mark != b'`' && rest.first() == Some(&b':') && !matches!(rest.get(1), None | Some(b'\n' | b'\r'));
        (3..=60).contains(&n_chars)
            && n_letters * 2 >= n_chars
            && content.trim().len() == content.len()
            && !(n_chars <= 6 && content.contains('\\'))
            && !is_key
            // The end mark of a heredoc.
            && !self.text[..start - 1].trim_end_matches([' ', '-']).ends_with("<<")
            && !self.lists.stop.contains(words::hash(content.as_bytes()))
    }

    /// A quote without another atom in it is an atom, and its words are no cues.
    pub(super) fn close_quote(&mut self) {
        let Some(quote) = self.quote.take() else {
            return;
        };
        if self.atoms.len() == quote.n_atoms {
            self.cues.truncate(quote.n_cues);
            self.word = quote.word;
            let text = self.text;
            let mut norm = &text[quote.start..quote.end];
            while let Some(rest) = norm.strip_prefix("\\n").or_else(|| norm.strip_prefix("\\t")) {
                norm = rest;
            }
            while let Some(rest) = norm.strip_suffix("\\n").or_else(|| norm.strip_suffix("\\t")) {
                norm = rest;
            }
            let inner = ['"', '\'', '`'].iter().find_map(|&q| norm.strip_prefix(q)?.strip_suffix(q));
            let norm = inner.unwrap_or(norm).trim();
            self.emit(AtomKind::Quoted, quote.start, quote.end, norm);
        }
    }

    /// Escapes of strings and of JSON in JSON: `\n`, `\\n`, `\u001b[31m`. They separate.
    pub(super) fn escape(&mut self, start: usize) -> usize {
        let at = start + self.bytes[start..].iter().take_while(|&&b| b == b'\\').count();
        let hex = |from: usize, n: usize| {
            self.bytes.get(from..from + n).filter(|d| d.iter().all(u8::is_ascii_hexdigit))
        };
        let letter_follows = self.next(at).is_some_and(|b| b.is_ascii_alphabetic());
        match self.bytes.get(at) {
            Some(b'n') => self.newline(at + 1),
            Some(b't' | b'r' | b'b' | b'd' | b'w' | b's' | b'B' | b'D' | b'W' | b'S') => at + 1,
            Some(b'f' | b'a' | b'v') if !letter_follows => at + 1,
            Some(b'u') if let Some(digits) = hex(at + 1, 4) => match digits.eq_ignore_ascii_case(b"001b") {
                true => self.ansi(at + 5),
                false => at + 5,
            },
            Some(b'x') if let Some(digits) = hex(at + 1, 2) => match digits.eq_ignore_ascii_case(b"1b") {
                true => self.ansi(at + 3),
                false => at + 3,
            },
            Some(b'e') if self.next(at) == Some(b'[') => self.ansi(at + 1),
            Some(b'0'..=b'7') => {
                let digits =
                    self.bytes[at..].iter().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
                match &self.bytes[at..at + digits] {
                    b"033" => self.ansi(at + digits),
                    _ => at + digits,
                }
            }
            Some(b'"' | b'\'' | b'`') => at + 1,
            _ => at,
        }
    }

    /// Behind an escape character: skips the sequence.
    pub(super) fn ansi(&mut self, at: usize) -> usize {
        if self.bytes.get(at) != Some(&b'[') {
            return at;
        }
        let is_parameter = |b: &u8| b.is_ascii_digit() || matches!(b, b';' | b'?' | b':');
        let end = at + 1 + self.bytes[at + 1..].iter().take(40).take_while(|b| is_parameter(b)).count();
        match self.bytes.get(end) {
            Some(b) if b.is_ascii_alphabetic() => end + 1,
            _ => end,
        }
    }

    /// `[31m`: a colour whose escape character was lost.
    pub(super) fn naked_ansi(&mut self, at: usize) -> usize {
        let digits =
            self.bytes[at + 1..].iter().take(12).take_while(|b| b.is_ascii_digit() || **b == b';').count();
        match self.bytes.get(at + 1 + digits) {
            Some(b'm') if digits > 0 => at + 2 + digits,
            _ => at + 1,
        }
    }
}

/// 60 characters of up to 4 bytes.
const MAX_QUOTED_BYTES: usize = 240;
