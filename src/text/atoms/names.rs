//! Words of letters, underscores and digits: identifiers, errors, ids, function words.

use crate::text::words;

use super::lexer::{Key, Lexer};
use super::shapes::{
    DIGIT, LETTER, LOWER, UNDER, UPPER, classes, has_hump, is_error_code, is_hash, is_time_piece, is_word,
    n_digit_runs,
};
use super::{AtomKind, MIN_CUE_BYTES};

impl<'a> Lexer<'a> {
    /// Whether `name(` stands here and is no plural in brackets: `file(s)`.
    fn is_call(&self, end: usize) -> bool {
        self.bytes.get(end) == Some(&b'(')
            && !self.bytes[end..].starts_with(b"(s)")
            && !self.bytes[end..].starts_with(b"(es)")
    }

    pub(super) fn letters(&mut self, start: usize, end: usize, set: u8) -> usize {
        let word = &self.bytes[start..end];
        let key = Key { start, end, is_flag: false };
        if set == LETTER && self.is_error(start, end) {
            self.emit_as_is(AtomKind::Error, start, end);
        } else if set == LETTER && word.len() >= 5 && has_hump(word) && !self.is_listed(start, end) {
            self.emit_as_is(AtomKind::Identifier, start, end);
        } else if set == UPPER && word.len() >= 3 && self.lists.errnos.contains(words::hash(word)) {
            self.emit_as_is(AtomKind::Error, start, end);
        } else if word.len() >= 3
            && self.is_call(end)
            && self.previous(start) != Some(b'-')
            && !self.is_function_word(start, end)
        {
            self.emit_as_is(AtomKind::Identifier, start, end);
        } else if self.lists.files.contains(words::hash(word)) && set == LETTER {
            self.emit_as_is(AtomKind::Path, start, end);
        } else {
            self.cue(start, end);
            self.key = Some(key);
            return end + self.suffix(end);
        }
        self.key = Some(key);
        end
    }

    fn is_function_word(&self, start: usize, end: usize) -> bool {
        let hash = words::hash(&self.bytes[start..end]);
        self.lists.not_atoms.contains(hash) || self.lists.stop.contains(hash)
    }

    /// Length of `'s`, `'t`, `'re` behind a word, so that the apostrophe opens no quote.
    fn suffix(&self, end: usize) -> usize {
        if self.bytes.get(end) != Some(&b'\'') {
            return 0;
        }
        let letters = self.bytes[end + 1..].iter().take(3).take_while(|b| b.is_ascii_alphabetic()).count();
        match self.bytes.get(end + 1 + letters) {
            Some(&b) if is_word(b) => 0,
            _ if letters == 0 => 0,
            _ => 1 + letters,
        }
    }

    /// `...Error`, `...Exception`, `...Warning` with something before.
    fn is_error(&self, start: usize, end: usize) -> bool {
        let word = &self.text[start..end];
        let stem = ["Error", "Exception", "Warning"].iter().find_map(|s| word.strip_suffix(s));
        let is_function = |stem: &str| {
            ["Test", "New", "Is", "Assert", "Run"].iter().any(|verb| {
                stem.strip_prefix(verb)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_uppercase()))
            }) || stem == "No"
        };
        stem.is_some_and(|stem| stem.starts_with(|c: char| c.is_ascii_uppercase()) && !is_function(stem))
    }

    pub(super) fn snake(&mut self, start: usize, end: usize) {
        let all = &self.text[start..end];
        // Markdown emphasis: _word_.
        let plain = all
            .strip_prefix('_')
            .and_then(|s| s.strip_suffix('_'))
            .filter(|s| !s.is_empty() && !s.contains('_'));
        if let Some(plain) = plain {
            let set = classes(plain.as_bytes());
            return self.simple(start + 1, end - 1, set);
        }
        let letters = all.bytes().filter(u8::is_ascii_alphabetic).count();
        let wanted = if all.starts_with(|c: char| c.is_ascii_digit()) { 3 } else { 2 };
        if all.len() >= 3 && letters >= wanted && !self.is_listed(start, end) {
            self.emit_as_is(AtomKind::Identifier, start, end);
        } else {
            self.word += 1;
        }
        self.key = Some(Key { start, end, is_flag: false });
    }

    /// Letters and digits.
    pub(super) fn mixed(&mut self, start: usize, end: usize, set: u8) {
        let word = &self.bytes[start..end];
        let n_digits = word.iter().filter(|b| b.is_ascii_digit()).count();
        let is_mess = set == LETTER | DIGIT && word.len() >= 10 && n_digit_runs(word) >= 3;
        if word.len() > 2 && word[0] == b'0' && (word[1] | 32) == b'x' {
            // An address; a constant like 0xff says nothing without its name.
            self.word += 1;
        } else if matches!(word.len(), 3 | 6)
            && self.previous(start) == Some(b'#')
            && word.iter().all(u8::is_ascii_hexdigit)
        {
            // A colour.
            self.word += 1;
        } else if is_time_piece(word) {
            self.word += 1;
        } else if is_hash(word, set) {
            let text = self.text;
            let lower = text[start..end].to_ascii_lowercase();
            self.emit(AtomKind::Hash, start, end, lower);
        } else if word[0].is_ascii_digit() && self.unit_number(start, end) {
        } else if is_error_code(word) || self.is_error(start, end) {
            self.emit_as_is(AtomKind::Error, start, end);
        } else if self.is_listed(start, end) {
            self.word += 1;
        } else if set == UPPER | DIGIT && (word.len() >= 6 || word.len() == 5 && n_digits >= 2)
            || is_mess && !self.beside_base64(start, end)
        {
            self.emit_as_is(AtomKind::Id, start, end);
        } else if set == LOWER | DIGIT && word.len() >= 16 && n_digit_runs(word) >= 3 {
            self.emit_as_is(AtomKind::Id, start, end);
        } else if set == LETTER | DIGIT && word.len() >= 5 && has_hump(word) && !word[0].is_ascii_digit() {
            self.emit_as_is(AtomKind::Identifier, start, end);
        } else if word.len() >= 3 && word[0].is_ascii_alphabetic() && self.is_call(end) {
            self.emit_as_is(AtomKind::Identifier, start, end);
        } else {
            self.word += 1;
        }
        if word[0].is_ascii_alphabetic() {
            self.key = Some(Key { start, end, is_flag: false });
        }
    }

    /// `+` and `=` touch the pieces of base64 text.
    fn beside_base64(&self, start: usize, end: usize) -> bool {
        self.previous(start) == Some(b'+') || matches!(self.bytes.get(end), Some(b'+' | b'='))
    }

    /// Whether the `#` at `at` begins a reference: not `&#39;`, not `a#1`.
    pub(super) fn is_free_hash(&self, at: usize) -> bool {
        !self.previous(at).is_some_and(|b| is_word(b) || b == b'&' || b == b'#')
    }

    /// `a.b.c` of names.
    pub(super) fn qualified(&mut self, start: usize, end: usize) {
        let text = self.text;
        let chunk = &text[start..end];
        for receiver in ["self.", "cls.", "this."] {
            if chunk.starts_with(receiver) {
                let start = start + receiver.len();
                self.classify(start, end, None);
                return self.last_part_is_key(start, end);
            }
        }
        let parts: Vec<&str> = chunk.split('.').collect();
        let is_name = |p: &&str| p.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !parts.iter().all(is_name) {
            return self.parts(start, end, b".");
        }
        let last = parts[parts.len() - 1];
        let last_start = end - last.len();
        if self.is_error(last_start, end) {
            self.emit_as_is(AtomKind::Error, last_start, end);
        } else if parts.len() == 2 {
            self.pair(start, last_start, end);
        } else if chunk.len() >= 5 && parts.iter().any(|p| p.len() > 2) {
            self.emit_as_is(AtomKind::Identifier, start, end);
        } else {
            self.word += 1;
        }
        self.last_part_is_key(start, end);
    }

    /// `self.timeout = 30`: the key is the last part.
    fn last_part_is_key(&mut self, start: usize, end: usize) {
        let last = self.text[start..end].rfind('.').map_or(start, |dot| start + dot + 1);
        self.key = Some(Key { start: last, end, is_flag: false });
    }

    /// `a.b`: the receiver is often a local name, so `b` stands alone when its shape or a call makes
    /// it an atom; `end.The` is prose with a space missing.
    fn pair(&mut self, start: usize, second: usize, end: usize) {
        let (a, b) = (&self.bytes[start..second - 1], &self.bytes[second..end]);
        let set = classes(b);
        let has_shape = set & UNDER != 0 || set == LETTER && b.len() >= 5 && has_hump(b);
        let is_prose = b[0].is_ascii_uppercase() && self.lists.stop.contains(words::hash(b));
        if is_prose || self.lists.stop.contains(words::hash(b)) && a.iter().all(u8::is_ascii_lowercase) {
            self.parts(start, end, b".");
        } else if has_shape {
            // The receiver is part of the expression: no cue.
            self.simple(second, end, set);
        } else if self.is_call(end) {
            match b.len() >= 3 && !self.is_function_word(second, end) {
                true => self.emit_as_is(AtomKind::Identifier, second, end),
                false => self.word += 1,
            }
        } else if a.len() >= 2 && b.len() >= 2 && !(a.len() == 2 && b.len() == 2) {
            self.emit_as_is(AtomKind::Identifier, start, end);
        } else {
            self.word += 1;
        }
    }

    /// Chunks with `@` or letters beyond ASCII.
    pub(super) fn rare(&mut self, start: usize, end: usize) {
        let text = self.text;
        let chunk = &text[start..end];
        if let Some((name, domain)) = chunk.split_once('@') {
            let is_domain = domain.rsplit_once('.').is_some_and(|(host, tld)| {
                !host.is_empty() && tld.len() >= 2 && tld.bytes().all(|b| b.is_ascii_alphabetic())
            });
            match is_domain && !name.is_empty() {
                true => self.emit(AtomKind::Id, start, end, chunk.to_lowercase()),
                false => self.parts(start, end, b"@"),
            }
        } else if chunk.contains('.') && self.is_file(start, end) {
            self.emit_as_is(AtomKind::Path, start, end);
        } else if chunk.contains('_') && chunk.chars().all(|c| c.is_alphanumeric() || c == '_') {
            self.emit_as_is(AtomKind::Identifier, start, end);
        } else {
            self.foreign_words(start, end);
        }
    }

    fn foreign_words(&mut self, start: usize, end: usize) {
        let text = self.text;
        for word in text[start..end].split(|c: char| !c.is_alphanumeric()) {
            self.word += 1;
            if word.chars().count() >= MIN_CUE_BYTES && word.chars().all(char::is_alphabetic) {
                let at = word.as_ptr() as usize - text.as_ptr() as usize;
                self.cue_hash(at, words::hash(word.to_lowercase().as_bytes()));
            }
        }
    }
}
