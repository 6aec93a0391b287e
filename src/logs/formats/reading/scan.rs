//! Follows the punctuation of JSON through pieces of text, to tell where a value ends, or where it is broken.
//!
//! Strict in what may stand after what, so that a lost quote or bracket shows within a few bytes; lenient in what
//! stands inside of strings and in words (`NaN`), since that can be repaired.

use super::repair::{string_end, value_end};

/// In so many bytes of a line its first keys are looked for.
const KEYS_LOOKED_AT: usize = 128;

/// What is known of a value after a piece of it. Places are those in the piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scanned {
    /// It ended before this place.
    Ended(usize),
    /// What stands here cannot stand here.
    Broken(usize),
    /// It goes on.
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Value,
    /// A value, or the end of the list that just began.
    ValueOrEnd,
    Key,
    /// A key, or the end of the object that just began.
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    /// The rest of a string; of a key, or a value.
    Text {
        is_key: bool,
    },
    /// The rest of a number or word.
    Word,
}

/// One value on its way.
pub(crate) struct Scanner {
    /// The lists and objects that are open: whether each is an object.
    open: Vec<bool>,
    next: Next,
    /// The next byte belongs to a backslash.
    is_escaped: bool,
}

impl Default for Scanner {
    fn default() -> Self {
        Scanner { open: Vec::new(), next: Next::Value, is_escaped: false }
    }
}

impl Scanner {
    /// Of what comes after a value in an object.
    pub(crate) fn behind_field() -> Self {
        Scanner { open: vec![true], next: Next::CommaOrEnd, is_escaped: false }
    }

    /// Goes on with a piece of text.
    pub(crate) fn scan(&mut self, piece: &[u8]) -> Scanned {
        let mut at = 0;
        loop {
            if let Next::Text { is_key } = self.next {
                match self.text(piece, at) {
                    Scanned::Ended(end) => at = end,
                    other => return other,
                }
                self.next = if is_key { Next::Colon } else { Next::CommaOrEnd };
                if self.open.is_empty() {
                    return Scanned::Ended(at);
                }
            }
            let Some(&byte) = piece.get(at) else {
                return Scanned::Open;
            };
            if self.next == Next::Word {
                if is_word(byte) {
                    at += 1;
                    continue;
                }
                self.next = Next::CommaOrEnd;
                if self.open.is_empty() {
                    return Scanned::Ended(at);
                }
            }
            // Documents over many lines are half blanks.
            if byte.is_ascii_whitespace() {
                at += piece[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
                continue;
            }
            if !self.take(byte) {
                return Scanned::Broken(at);
            }
            at += 1;
            if self.next == Next::CommaOrEnd && self.open.is_empty() {
                return Scanned::Ended(at);
            }
        }
    }

    /// The end of the string in which `at` stands. No string goes on behind a line end.
    fn text(&mut self, piece: &[u8], mut at: usize) -> Scanned {
        loop {
            if self.is_escaped && at < piece.len() {
                self.is_escaped = false;
                at += 1;
            }
            let Some(found) = piece.get(at..).and_then(|rest| memchr::memchr3(b'"', b'\\', b'\n', rest))
            else {
                return Scanned::Open;
            };
            at += found + 1;
            match piece[at - 1] {
                b'"' => return Scanned::Ended(at),
                b'\\' => self.is_escaped = true,
                _ => return Scanned::Broken(at - 1),
            }
        }
    }

    /// Takes a byte of punctuation, or the first one of a string or word; says whether it may stand here.
    fn take(&mut self, byte: u8) -> bool {
        let (may_end, in_object) = match self.next {
            Next::ValueOrEnd => (true, false),
            Next::KeyOrEnd => (true, true),
            Next::CommaOrEnd => (true, self.open.last() == Some(&true)),
            _ => (false, false),
        };
        let value = matches!(self.next, Next::Value | Next::ValueOrEnd);
        self.next = match byte {
            b'{' if value => {
                self.open.push(true);
                Next::KeyOrEnd
            }
            b'[' if value => {
                self.open.push(false);
                Next::ValueOrEnd
            }
            b'"' if value => Next::Text { is_key: false },
            b'"' if matches!(self.next, Next::Key | Next::KeyOrEnd) => Next::Text { is_key: true },
            b':' if self.next == Next::Colon => Next::Value,
            b',' if self.next == Next::CommaOrEnd => {
                if in_object {
                    Next::Key
                } else {
                    Next::Value
                }
            }
            b'}' if may_end && in_object => self.close(),
            b']' if may_end && !in_object => self.close(),
            _ if value && is_word(byte) => Next::Word,
            _ => return false,
        };
        true
    }

    fn close(&mut self) -> Next {
        self.open.pop();
        Next::CommaOrEnd
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// Scans a value that begins at `start`; places are those in `bytes`.
pub(crate) fn scan(bytes: &[u8], start: usize) -> Scanned {
    match Scanner::default().scan(&bytes[start..]) {
        Scanned::Ended(end) => Scanned::Ended(start + end),
        Scanned::Broken(at) => Scanned::Broken(start + at),
        Scanned::Open => Scanned::Open,
    }
}

/// The keys of the object that begins with `bytes`, with their quotes, as far as it goes; none of those inside of its
/// values.
pub(crate) fn keys(bytes: &[u8]) -> Vec<&[u8]> {
    let mut keys = Vec::new();
    each_field(bytes, |key, _| keys.push(key));
    keys
}

/// The keys of an object, with their quotes, each with what begins behind it.
pub(crate) fn fields(bytes: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut fields = Vec::new();
    each_field(bytes, |key, value| fields.push((key, value)));
    fields
}

/// The same, one by one.
fn each_field<'a>(bytes: &'a [u8], mut take: impl FnMut(&'a [u8], &'a [u8])) {
    let mut at = 1;
    let skip = |at: usize, also: u8| {
        let is_skipped = |b: &u8| b.is_ascii_whitespace() || *b == also;
        at + bytes[at..].iter().take_while(|b| is_skipped(b)).count()
    };
    while at < bytes.len() {
        at = skip(at, b',');
        if bytes.get(at) != Some(&b'"') {
            break;
        }
        let end = string_end(bytes, at).unwrap_or(bytes.len());
        let value = skip(end, b':');
        take(&bytes[at..end], &bytes[value..]);
        let Some(end) = value_end(bytes, value) else {
            break;
        };
        at = end;
    }
}

/// Keys whose values tell kinds of records apart.
const TELLING: [&[u8]; 4] = [b"\"type\"", b"\"role\"", b"\"kind\"", b"\"object\""];

/// A hash of the keys that stand in the first bytes of a line, also of an object that goes on behind them, and of the words that
/// tell its type (FNV-1a): what tells it from lines of other kinds.
pub(crate) fn kind(line: &[u8]) -> u64 {
    let mut kind = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            kind = (kind ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    let mut object = &line[..line.len().min(KEYS_LOOKED_AT)];
    while !object.is_empty() {
        let mut last: &[u8] = b"";
        each_field(object, |key, value| {
            add(key);
            if TELLING.contains(&key) && value.starts_with(b"\"") {
                add(&value[..string_end(value, 0).unwrap_or(0)]);
            }
            last = value;
        });
        let goes_on = last.starts_with(b"{") && value_end(last, 0).is_none();
        object = if goes_on { last } else { b"" };
    }
    kind
}

/// Objects in JSON, nearly: braces with a name behind them. Within a string the quote of a name is escaped, so that code
/// counts for nothing but where it ends in a brace.
pub(crate) fn count_objects(text: &[u8]) -> u64 {
    let is_object = |&at: &usize| text[at + 1..].trim_ascii_start().first() == Some(&b'"');
    memchr::memchr_iter(b'{', text).filter(is_object).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_or_is_broken_wherever_its_text_is_cut() {
        for (text, told) in [
            (r#"{"a":[1,{"b":"x\"}\\"},NaN,-1e5,true],"c":{}} {"#, Scanned::Ended(45)),
            (r#"[]]"#, Scanned::Ended(2)),
            (r#""x" "#, Scanned::Ended(3)),
            ("17,", Scanned::Ended(2)),
            (r#"{"a":1,{"b"#, Scanned::Broken(7)),
            (r#"{{"a":1}"#, Scanned::Broken(1)),
            (r#"{"a":[1,"x":2]}"#, Scanned::Broken(11)),
            (r#"{"a":"x"y"}"#, Scanned::Broken(8)),
            ("{\"a\":\"x\n\"}", Scanned::Broken(7)),
            ("[1,]", Scanned::Broken(3)),
            ("[1}", Scanned::Broken(2)),
            ("}", Scanned::Broken(0)),
            ("[1 2]", Scanned::Broken(3)),
            (r#"{"a":"\"#, Scanned::Open),
            (r#"[{"a""#, Scanned::Open),
        ] {
            assert_eq!(scan(text.as_bytes(), 0), told, "{text}");
            for cut in 1..text.len() {
                let mut scanner = Scanner::default();
                let (first, second) = text.as_bytes().split_at(cut);
                let found = match scanner.scan(first) {
                    Scanned::Open => match scanner.scan(second) {
                        Scanned::Ended(at) => Scanned::Ended(cut + at),
                        Scanned::Broken(at) => Scanned::Broken(cut + at),
                        Scanned::Open => Scanned::Open,
                    },
                    found => found,
                };
                assert_eq!(found, told, "{text} cut at {cut}");
            }
        }
    }

    #[test]
    fn keys_are_those_of_the_object_itself() {
        let told = |text: &'static str| -> Vec<&str> {
            keys(text.as_bytes()).into_iter().map(|key| std::str::from_utf8(key).unwrap()).collect()
        };
        assert_eq!(told(r#"{"a":{"b":["c"]}, "d" : "e","f"#), ["\"a\"", "\"d\"", "\"f"]);
        assert_eq!(told(r#"{"a":1{"b":2}"#), ["\"a\""]);
        assert_eq!(told("{"), [""; 0]);
    }

    #[test]
    fn a_kind_is_told_by_keys_and_the_word_of_its_type() {
        let is_same = |a: &str, b: &str| kind(a.as_bytes()) == kind(b.as_bytes());
        assert!(is_same(r#"{"type":"user","n":1}"#, r#"{"type" : "user", "n":{"x":2}}"#));
        assert!(!is_same(r#"{"type":"user","n":1}"#, r#"{"type":"tool","n":1}"#));
        assert!(!is_same(r#"{"type":"user","n":1}"#, r#"{"type":"user","m":1}"#));
        assert!(is_same(r#"{"id":"a"}"#, r#"{"id":"b"}"#));
        let message = |role: &str| {
            format!(r#"{{"type":"message","message":{{"role":"{role}","text":"{}"}}}}"#, "x".repeat(200))
        };
        assert!(!is_same(&message("user"), &message("agent")) && is_same(&message("user"), &message("user")));
    }

    #[test]
    fn objects_are_counted_outside_of_strings() {
        let text = br#"{"a": [{"b": "if x {\n {\"c\": 1}"}, { "d": {} }]}"#;
        // The outer one, those of `b` and `d`; an empty one holds nothing.
        assert_eq!(count_objects(text), 3);
    }
}
