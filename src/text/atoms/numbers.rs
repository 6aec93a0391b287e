//! Numbers with their unit or key, versions and dates.

use crate::text::words;

use super::AtomKind;
use super::lexer::{Key, Lexer};
use super::shapes::{DIGIT, LETTER, classes, is_reference, is_word, n_digit_runs, version};

impl<'a> Lexer<'a> {
    /// `150ms`, `1.5GB`, `30s`.
    pub(super) fn unit_number(&mut self, start: usize, end: usize) -> bool {
        let text = self.text;
        let word = &text[start..end];
        let digits = word.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (value, unit) = word.split_at(digits);
        let one_decimal_point = value.bytes().filter(|&b| b == b'.').count() <= 1;
        // "3d" is a dimension more often than three days.
        let dimension = unit == "d" && matches!(value, "0" | "1" | "2" | "3" | "4");
        let Some(unit) = self.lists.unit(unit.as_bytes()).filter(|_| one_decimal_point && !dimension) else {
            return false;
        };
        self.measure(value, unit, start, end);
        true
    }

    fn measure(&mut self, value: &str, unit: &str, start: usize, end: usize) {
        // `(0.01s)` is how long a test took.
        if unit == "s" && self.previous(start) == Some(b'(') && self.bytes.get(end) == Some(&b')') {
            self.word += 1;
            self.resume = end;
            return;
        }
        let norm = if unit == "$" { format!("${value}") } else { format!("{value}{unit}") };
        self.emit(AtomKind::Number, start, end, norm);
    }

    /// A run of digits, or a decimal number.
    pub(super) fn number(&mut self, start: usize, end: usize, key: Option<Key>) {
        let text = self.text;
        let value = &text[start..end];
        let n_digits = value.bytes().filter(u8::is_ascii_digit).count();
        let is_whole = n_digits == value.len();
        match self.previous(start) {
            Some(b'$') => {
                let (end, value) = self.with_thousands(start, end);
                // `$1` is an argument of a shell script.
                if value.len() > 1 {
                    return self.emit(AtomKind::Number, start - 1, end, format!("${value}"));
                }
            }
            // `#000080` is a colour.
            Some(b'#')
                if is_whole && self.is_free_hash(start - 1) && !value.starts_with('0') && n_digits != 6 =>
            {
                return match n_digits {
                    1..=6 => self.emit(AtomKind::Number, start - 1, end, format!("#{value}")),
                    _ => self.emit(AtomKind::Id, start - 1, end, value),
                };
            }
            _ => {}
        }
        // `[ 27%]` is how far the tests are.
        if self.bytes.get(end) == Some(&b'%') && !self.next(end).is_some_and(|b| is_word(b) || b == b']') {
            return self.emit(AtomKind::Number, start, end + 1, format!("{value}%"));
        }
        if let Some((unit_end, unit)) = self.spaced_unit(end) {
            return self.measure(value, unit, start, unit_end);
        }
        let is_round = value.trim_end_matches('0').len() <= 2;
        if let Some(key) = key.filter(|k| {
            self.bytes.get(k.end..start) == Some(b":") && &self.bytes[k.start..k.end] == b"localhost"
        }) {
            self.cues.pop_if(|cue| cue.start as usize == key.start);
            return self.emit_as_is(AtomKind::Url, key.start, end);
        }
        if is_whole && !is_round && (9..=40).contains(&n_digits) {
            return self.emit(AtomKind::Id, start, end, value);
        }
        if let Some((key, negative)) = key.and_then(|key| self.bears(key, start, end)) {
            return self.keyed(key, negative, start, end);
        }
        match is_whole && !is_round && (7..=8).contains(&n_digits) {
            true => self.emit(AtomKind::Id, start, end, value),
            false => self.word += 1,
        }
    }

    /// `1,200.50` behind a currency sign: where it ends, and the value without commas.
    fn with_thousands(&self, start: usize, mut end: usize) -> (usize, String) {
        while self.bytes.get(end) == Some(&b',') {
            let group = self.bytes[end + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
            if group != 3 {
                break;
            }
            end += 4;
        }
        if self.bytes.get(end) == Some(&b'.') {
            let cents = self.bytes[end + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
            if cents == 2 {
                end += 3;
            }
        }
        (end, self.text[start..end].replace(',', ""))
    }

    /// ` ms` behind a number: where it ends, and its canonical form.
    fn spaced_unit(&self, end: usize) -> Option<(usize, &'static str)> {
        if self.bytes.get(end) != Some(&b' ') {
            return None;
        }
        let letters = self.bytes[end + 1..].iter().take(13).take_while(|b| b.is_ascii_alphabetic()).count();
        let unit_end = end + 1 + letters;
        let closed = !self.bytes.get(unit_end).is_some_and(|&b| is_word(b) || b == b'(' || b == b'=');
        if letters < 2 || !closed {
            return None;
        }
        Some((unit_end, self.lists.unit(&self.bytes[end + 1..unit_end])?))
    }

    /// Whether a key bears the number at `start`: `key=1`, `"key": 1`, `port 1`, `--key 1`. Also
    /// tells whether a minus stands before the number.
    fn bears(&self, key: Key, start: usize, end: usize) -> Option<(Key, bool)> {
        let mut gap = self.bytes.get(key.end..start)?;
        let negative = gap.len() > 1 && gap.ends_with(b"-");
        if negative {
            gap = &gap[..gap.len() - 1];
        }
        let length = key.end - key.start;
        // `12:30` is a time, `name:12` the line of a file or a slice, `x 2>&1` a redirection, and
        // `"street": "12 Elm Road"` is more than a number.
        let after = self.bytes.get(end);
        let time = after == Some(&b':') && self.next(end).is_some_and(|b| b.is_ascii_digit());
        let inside_string = matches!(gap.last(), Some(b'"' | b'\'')) && !matches!(after, Some(b'"' | b'\''));
        let other = time || gap == b":" || after == Some(&b'>') || inside_string;
        if gap.len() > 6 || !(3..=40).contains(&length) || other {
            return None;
        }
        let mut signs = 0;
        for b in gap {
            match b {
                b' ' | b'"' | b'\'' | b'`' | b'*' => {}
                b'=' | b':' => signs += 1,
                _ => return None,
            }
        }
        let hash = words::hash(&self.bytes[key.start..key.end]);
        let bears = match signs {
            // The minus behind a blank begins an option: `git log --oneline -5`.
            0 => gap == b" " && !negative && (key.is_flag || self.lists.nouns.contains(hash)),
            1 => !self.lists.stop.contains(hash),
            _ => gap == b":=" || gap == b" := ",
        };
        bears.then_some((key, negative))
    }

    fn keyed(&mut self, key: Key, negative: bool, start: usize, end: usize) {
        let text = self.text;
        let (name, value) = (&text[key.start..key.end], &text[start..end]);
        if name.eq_ignore_ascii_case("version") && value.contains('.') {
            return self.emit(AtomKind::Version, start, end, value);
        }
        let mut norm = String::with_capacity(name.len() + value.len() + 2);
        norm.push_str(name);
        norm.make_ascii_lowercase();
        norm.push_str(if negative { "=-" } else { "=" });
        norm.push_str(value);
        self.emit(AtomKind::Number, start, end, norm);
    }

    /// Digits and dots.
    pub(super) fn numeric(&mut self, start: usize, end: usize, key: Option<Key>) {
        let text = self.text;
        let chunk = &text[start..end];
        let parts: Vec<&str> = chunk.split('.').collect();
        let touches_sign = start >= 3
            && self.bytes[start - 1] == b'='
            && matches!(self.bytes[start - 2], b'=' | b'>' | b'<' | b'~' | b'!')
            && is_word(self.bytes[start - 3]);
        match parts[..] {
            [_, _] if touches_sign => self.emit(AtomKind::Version, start, end, chunk),
            [_, _] => self.number(start, end, key),
            [a, _, _, _] if a != "0" && parts.iter().all(|p| p.len() <= 3 && p.parse::<u8>().is_ok()) => {
                self.address(start, end);
            }
            _ if parts.iter().all(|p| p.len() <= 8) => self.emit(AtomKind::Version, start, end, chunk),
            _ => self.word += 1,
        }
    }

    /// An IPv4 address; the port belongs to it.
    fn address(&mut self, start: usize, end: usize) {
        let mut port_end = end;
        if self.bytes.get(end) == Some(&b':') {
            let digits = self.bytes[end + 1..].iter().take(6).take_while(|b| b.is_ascii_digit()).count();
            if (2..=5).contains(&digits) {
                port_end = end + 1 + digits;
            }
        }
        self.emit_as_is(AtomKind::Url, start, port_end);
    }

    /// `django-3.2.1` has a version; the rest are words.
    pub(super) fn parts_with_version(&mut self, start: usize, end: usize) {
        let text = self.text;
        let dashes = memchr::memchr_iter(b'-', &self.bytes[start..end]);
        for dash in dashes {
            let from = start + dash + 1;
            if let Some(version) = version(&text[from..end]).filter(|_| dash > 0) {
                self.parts(start, from - 1, b"-");
                return self.emit(AtomKind::Version, from, end, version);
            }
        }
        self.parts(start, end, b"-");
    }

    pub(super) fn dashed(&mut self, start: usize, end: usize) {
        let text = self.text;
        let chunk = text[start..end].trim_start_matches('-');
        let start = end - chunk.len();
        let parts: Vec<&[u8]> = chunk.as_bytes().split(|&b| b == b'-').collect();
        let digits = |p: &[u8]| !p.is_empty() && p.iter().all(u8::is_ascii_digit);
        let lengths: Vec<usize> = parts.iter().map(|p| p.len()).collect();
        let set = classes(chunk.as_bytes());
        let [first, .., last] = parts[..] else {
            return self.parts(start, end, b"-");
        };
        if lengths == [8, 4, 4, 4, 12] && parts.iter().all(|p| p.iter().all(u8::is_ascii_hexdigit)) {
            self.emit(AtomKind::Id, start, end, chunk.to_ascii_lowercase());
        } else if parts.iter().all(|p| digits(p)) {
            let n_digits = chunk.len() - (parts.len() - 1);
            if lengths == [4, 2, 2] {
                self.date(start, end);
            } else if n_digits >= 7
                && (3..=5).contains(&parts.len())
                && lengths.iter().all(|&n| n >= 2)
                && first.len() <= 4
            {
                self.emit_as_is(AtomKind::Id, start, end);
            } else {
                self.word += 1;
            }
        } else if lengths.len() == 3 && lengths[..2] == [4, 2] && digits(parts[0]) && digits(parts[1]) {
            // `2024-05-15T12`: a time stamp.
            self.word += 1;
        } else if digits(last) && is_reference(&parts, last.len()) {
            self.emit_as_is(AtomKind::Id, start, end);
        } else if set & (LETTER | DIGIT) == LETTER | DIGIT
            && chunk.len() >= 16
            && n_digit_runs(chunk.as_bytes()) >= 3
            && parts.iter().any(|p| p.len() >= 8)
        {
            self.emit_as_is(AtomKind::Id, start, end);
        } else {
            self.parts(start, end, b"-");
        }
    }

    /// A date, unless a time of day follows.
    pub(super) fn date(&mut self, start: usize, end: usize) {
        let rest = &self.bytes[end..];
        let time = rest.len() >= 4
            && rest[0] == b' '
            && rest[1].is_ascii_digit()
            && (rest[2] == b':' || rest[3] == b':');
        match time {
            true => self.word += 1,
            false => self.emit_as_is(AtomKind::Number, start, end),
        }
    }
}
