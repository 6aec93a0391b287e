//! Atoms: literals that can be followed through a text, and the words (cues) that stand near them.
//!
//! One hand-written pass over the bytes: a maximal run of word characters (a chunk) is classified
//! by the set of character classes in it; everything else separates. Bounded lookahead, no
//! backtracking, so linear in the text. The pass errs on the side of silence: an ordinary word, a
//! bare number or a line-number prefix is no atom, and what is inside a long run without
//! separators (base64) is not looked for.
//!
//! Atoms never overlap. A quoted string is an atom only when there is no other atom in it.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::spans;
use super::words::{self, Lists};

/// What an atom is; the index of a kind is its value in the column `atom_kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum AtomKind {
    Path,
    Identifier,
    /// With its unit (`150ms`) or its key (`port=8080`), or an ISO date.
    Number,
    Version,
    Hash,
    Url,
    Quoted,
    Error,
    Flag,
    /// Mixes of letters and digits, UUIDs, e-mail addresses, digit runs of 7 and more.
    Id,
}

/// Names of the kinds, by index.
pub const NAMES: [&str; 10] =
    ["path", "identifier", "number", "version", "hash", "url", "quoted", "error", "flag", "id"];

impl AtomKind {
    /// All kinds, by index.
    pub const ALL: [AtomKind; 10] = [
        AtomKind::Path,
        AtomKind::Identifier,
        AtomKind::Number,
        AtomKind::Version,
        AtomKind::Hash,
        AtomKind::Url,
        AtomKind::Quoted,
        AtomKind::Error,
        AtomKind::Flag,
        AtomKind::Id,
    ];

    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// Flag of an atom: at least [`MIN_CUES`] distinct cues within [`WINDOW`] words in its span.
pub const BOUND: u8 = 1;
/// Flag of an atom: it stands in the body of an edit or write.
pub const BODY: u8 = 2;
/// Flag of an atom: it can be computed from the call itself.
pub const DERIVED: u8 = 4;

/// How many words away a cue may stand, on either side.
pub const WINDOW: u32 = 15;
/// How many distinct cues bind an atom.
pub const MIN_CUES: usize = 2;
/// Longest atom in bytes.
pub const MAX_BYTES: usize = 200;

/// An atom in a text, with the cues near it.
#[derive(Clone, Debug, PartialEq)]
pub struct Occurrence<'a> {
    pub kind: AtomKind,
    /// Where it stands in the text, in bytes, before normalising.
    pub start: usize,
    pub end: usize,
    /// Span that holds `start`.
    pub span: usize,
    pub norm: Cow<'a, str>,
    /// Hashes of the distinct cues within [`WINDOW`] words in the same span, sorted.
    pub cues: Vec<u32>,
}

impl Occurrence<'_> {
    /// Whether enough cues stand near it.
    pub fn is_bound(&self) -> bool {
        self.cues.len() >= MIN_CUES
    }
}

/// All atoms of a text in order, with their cues: for generated text and for chance correction.
pub fn occurrences(text: &str) -> Vec<Occurrence<'_>> {
    let lexed = lex(text);
    let mut all = Vec::with_capacity(lexed.atoms.len());
    lexed.visit(&spans::span_ends(text), |atom, span, near| {
        let cues = hashes(near);
        let (start, end) = (atom.start as usize, atom.end as usize);
        all.push(Occurrence { kind: atom.kind, start, end, span, norm: atom.norm.clone(), cues });
    });
    all
}

/// Those atoms of a text that are `known`, in order, with the hashes of the distinct cues near each, sorted.
pub(crate) fn known_occurrences<T>(text: &str, known: impl Fn(&str) -> Option<T>) -> Vec<(T, Vec<u32>)> {
    let lexed = lex(text);
    let mut all = Vec::new();
    lexed.visit(&spans::span_ends(text), |atom, _, near| {
        all.extend(known(&atom.norm).map(|known| (known, hashes(near))));
    });
    all
}

/// The hash of a word as a cue, or none when the word is too short or a function word.
pub fn cue_hash(word: &str) -> Option<u32> {
    let hash = words::hash(word.as_bytes());
    (word.len() >= MIN_CUE_BYTES && !LISTS.stop.contains(hash)).then_some(hash)
}

/// The hash of any word, without regard to ASCII case: that of [`cue_hash`], which leaves words out.
pub(crate) fn word_hash(word: &str) -> u32 {
    words::hash(word.as_bytes())
}

const MIN_CUE_BYTES: usize = 3;

/// An atom as the lexer found it.
pub(crate) struct Atom<'a> {
    pub(crate) kind: AtomKind,
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) norm: Cow<'a, str>,
    /// Its number among the words of the text.
    word: u32,
}

/// A content word that is no atom.
pub(crate) struct Cue {
    start: u32,
    word: u32,
    hash: u32,
}

/// The atoms and cues of a text, in order.
pub(crate) struct Lexed<'a> {
    pub(crate) atoms: Vec<Atom<'a>>,
    cues: Vec<Cue>,
}

impl<'a> Lexed<'a> {
    /// Calls `visit` with each atom, its span, and the cues near it in that span.
    pub(crate) fn visit(&self, span_ends: &[u32], mut visit: impl FnMut(&Atom<'a>, usize, &[Cue])) {
        let (mut span, mut span_start) = (0, 0);
        let (mut low, mut high) = (0, 0);
        for atom in &self.atoms {
            while span_ends.get(span).is_some_and(|&end| end <= atom.start) {
                span_start = span_ends[span];
                span += 1;
            }
            let span_end = span_ends.get(span).copied().unwrap_or(u32::MAX);
            let too_early = |cue: &Cue| cue.start < span_start || cue.word + WINDOW < atom.word;
            while self.cues.get(low).is_some_and(too_early) {
                low += 1;
            }
            high = high.max(low);
            let near = |cue: &Cue| cue.start < span_end && cue.word <= atom.word + WINDOW;
            while self.cues.get(high).is_some_and(near) {
                high += 1;
            }
            visit(atom, span, &self.cues[low..high]);
        }
    }
}

/// The distinct hashes, sorted.
fn hashes(near: &[Cue]) -> Vec<u32> {
    let mut hashes: Vec<u32> = near.iter().map(|cue| cue.hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Whether at least [`MIN_CUES`] (two) of the cues are distinct.
pub(crate) fn binds(near: &[Cue]) -> bool {
    near.iter().skip(1).any(|cue| cue.hash != near[0].hash)
}

static LISTS: LazyLock<Lists> = LazyLock::new(Lists::new);

/// Finds the atoms and cues of a text.
pub(crate) fn lex(text: &str) -> Lexed<'_> {
    let mut lexer = Lexer {
        text,
        bytes: text.as_bytes(),
        lists: &LISTS,
        atoms: Vec::with_capacity(text.len() / 32),
        cues: Vec::with_capacity(text.len() / 16),
        word: 0,
        key: None,
        quote: None,
        closed: usize::MAX,
        resume: 0,
        line: 0,
    };
    lexer.run();
    Lexed { atoms: lexer.atoms, cues: lexer.cues }
}

// Character classes; a chunk is described by the union of its classes.
const LOWER: u8 = 1;
const UPPER: u8 = 2;
const DIGIT: u8 = 4;
const UNDER: u8 = 8;
const DASH: u8 = 16;
const DOT: u8 = 32;
const SLASH: u8 = 64;
/// Non-ASCII and `@`: rare, so that they share a bit.
const RARE: u8 = 128;
const LETTER: u8 = LOWER | UPPER;

static CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut b = 0;
    while b < 256 {
        class[b] = match b as u8 {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'0'..=b'9' => DIGIT,
            b'_' => UNDER,
            b'-' => DASH,
            b'.' => DOT,
            b'/' => SLASH,
            b'@' | 0x80.. => RARE,
            _ => 0,
        };
        b += 1;
    }
    class
};

fn is_word(b: u8) -> bool {
    CLASS[b as usize] & (LETTER | DIGIT | UNDER) != 0
}

fn classes(chunk: &[u8]) -> u8 {
    chunk.iter().fold(0, |set, &b| set | CLASS[b as usize])
}

/// A quote that is open, with what was found before it.
struct Quote {
    start: usize,
    end: usize,
    n_atoms: usize,
    n_cues: usize,
    word: u32,
}

/// The last word, as the possible key of a number.
#[derive(Clone, Copy)]
struct Key {
    start: usize,
    end: usize,
    /// A flag bears its number behind a space: `--port 80`.
    is_flag: bool,
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    lists: &'static Lists,
    atoms: Vec<Atom<'a>>,
    cues: Vec<Cue>,
    word: u32,
    key: Option<Key>,
    quote: Option<Quote>,
    /// Where the last quote that was opened closes.
    closed: usize,
    /// Where the last atom ended.
    resume: usize,
    /// Where the current line begins.
    line: usize,
}

impl<'a> Lexer<'a> {
    fn run(&mut self) {
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

    fn next(&self, i: usize) -> Option<u8> {
        self.bytes.get(i + 1).copied()
    }

    fn previous(&self, i: usize) -> Option<u8> {
        i.checked_sub(1).map(|p| self.bytes[p])
    }

    fn newline(&mut self, next: usize) -> usize {
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

    fn char_at(&self, i: usize) -> char {
        self.text[i..].chars().next().expect("a byte above 0x7f begins a character here")
    }

    // ---- chunks ----

    /// Reads the chunk that begins at `start`; answers where to go on.
    fn chunk(&mut self, start: usize) -> usize {
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

    fn classify(&mut self, start: usize, end: usize, key: Option<Key>) {
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
    fn simple(&mut self, start: usize, end: usize, set: u8) {
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
    fn parts(&mut self, start: usize, end: usize, separators: &[u8]) {
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

    fn emit(&mut self, kind: AtomKind, start: usize, end: usize, norm: impl Into<Cow<'a, str>>) {
        let norm = norm.into();
        self.word += 1;
        self.resume = end;
        if !norm.is_empty() && norm.len() <= MAX_BYTES {
            let (start, end) = (start as u32, end as u32);
            self.atoms.push(Atom { kind, start, end, norm, word: self.word });
        }
    }

    fn emit_as_is(&mut self, kind: AtomKind, start: usize, end: usize) {
        let text = self.text;
        self.emit(kind, start, end, &text[start..end]);
    }

    fn cue(&mut self, start: usize, end: usize) {
        self.word += 1;
        if end - start >= MIN_CUE_BYTES {
            self.cue_hash(start, words::hash(&self.bytes[start..end]));
        }
    }

    fn cue_hash(&mut self, start: usize, hash: u32) {
        if !self.lists.stop.contains(hash) {
            self.cues.push(Cue { start: start as u32, word: self.word, hash });
        }
    }

    fn is_listed(&self, start: usize, end: usize) -> bool {
        self.lists.not_atoms.contains(words::hash(&self.bytes[start..end]))
    }

    /// Whether `name(` stands here and is no plural in brackets: `file(s)`.
    fn is_call(&self, end: usize) -> bool {
        self.bytes.get(end) == Some(&b'(')
            && !self.bytes[end..].starts_with(b"(s)")
            && !self.bytes[end..].starts_with(b"(es)")
    }

    fn letters(&mut self, start: usize, end: usize, set: u8) -> usize {
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

    fn snake(&mut self, start: usize, end: usize) {
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
    fn mixed(&mut self, start: usize, end: usize, set: u8) {
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

    // ---- numbers ----

    /// `150ms`, `1.5GB`, `30s`.
    fn unit_number(&mut self, start: usize, end: usize) -> bool {
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
    fn number(&mut self, start: usize, end: usize, key: Option<Key>) {
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

    /// Whether the `#` at `at` begins a reference: not `&#39;`, not `a#1`.
    fn is_free_hash(&self, at: usize) -> bool {
        !self.previous(at).is_some_and(|b| is_word(b) || b == b'&' || b == b'#')
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
            0 => gap == b" " && (key.is_flag || self.lists.nouns.contains(hash)),
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

    // ---- dots ----

    fn dotted(&mut self, start: usize, end: usize, key: Option<Key>) {
        let start = start + self.bytes[start..end].iter().take_while(|&&b| b == b'.').count();
        let begins_with_dot = self.previous(start) == Some(b'.');
        let text = self.text;
        let chunk = &text[start..end];
        if begins_with_dot && self.lists.files.contains(words::hash(&self.bytes[start - 1..end])) {
            return self.emit(AtomKind::Path, start - 1, end, &text[start - 1..end]);
        }
        if !chunk.contains('.') {
            return match begins_with_dot && chunk.starts_with(|c: char| c.is_ascii_digit()) {
                true => self.word += 1,
                false => self.classify(start, end, None),
            };
        }
        let numeric = chunk.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if numeric && !chunk.contains("..") {
            return self.numeric(start, end, key);
        }
        if let Some(version) = version(chunk) {
            return self.emit(AtomKind::Version, start, end, version);
        }
        if chunk.starts_with(|c: char| c.is_ascii_digit()) && self.unit_number(start, end) {
            return;
        }
        if self.is_file(start, end) {
            return self.emit_as_is(AtomKind::Path, start, end);
        }
        if self.is_host(start, end) {
            return self.emit(AtomKind::Url, start, end, chunk.to_ascii_lowercase());
        }
        if chunk.contains('-') {
            return self.parts_with_version(start, end);
        }
        self.qualified(start, end);
    }

    /// Digits and dots.
    fn numeric(&mut self, start: usize, end: usize, key: Option<Key>) {
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

    /// Whether a name without folder is that of a file.
    fn is_file(&self, start: usize, end: usize) -> bool {
        let chunk = &self.text[start..end];
        let Some(extension) = self.extension(start, end) else {
            return false;
        };
        let stem = &chunk[..chunk.len() - extension.len() - 1];
        let hash = words::hash(extension.as_bytes());
        let is_module = stem.contains('.')
            && self.lists.module_extensions.contains(hash)
            && stem.bytes().all(|b| b.is_ascii_lowercase() || b == b'.' || b == b'_');
        self.lists.extensions.contains(hash)
            && stem.bytes().any(|b| b.is_ascii_alphanumeric())
            && !stem.starts_with("self.")
            && !is_module
            && self.bytes.get(end) != Some(&b'(')
    }

    /// The known extension of a file name, weak ones included.
    fn extension(&self, start: usize, end: usize) -> Option<&'a str> {
        let text = self.text;
        let (stem, extension) = text[start..end].rsplit_once('.')?;
        let hash = words::hash(extension.as_bytes());
        let known = self.lists.extensions.contains(hash) || self.lists.weak_extensions.contains(hash);
        (known && !stem.is_empty() && extension.len() <= 10).then_some(extension)
    }

    fn is_host(&self, start: usize, end: usize) -> bool {
        let chunk = &self.text[start..end];
        let Some((name, domain)) = chunk.rsplit_once('.') else {
            return false;
        };
        matches!(domain, "com" | "org" | "net" | "edu" | "gov")
            && name.len() >= 2
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
            && self.bytes.get(end) != Some(&b'(')
    }

    /// `django-3.2.1` has a version; the rest are words.
    fn parts_with_version(&mut self, start: usize, end: usize) {
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

    /// `a.b.c` of names.
    fn qualified(&mut self, start: usize, end: usize) {
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

    // ---- dashes, slashes, the rest ----

    fn dashed(&mut self, start: usize, end: usize) {
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
    fn date(&mut self, start: usize, end: usize) {
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

    fn slashed(&mut self, start: usize, end: usize) {
        let text = self.text;
        let mut from = start;
        let mut chunk = &text[start..end];
        let mut explicit = false;
        // Behind these a slash goes on with something that is no path of its own.
        let continues = matches!(
            self.previous(start),
            Some(b')' | b']' | b'}' | b'>' | b'*' | b'%' | b'<' | b'$' | b'/' | b'{')
        ) || matches!(self.previous(start), Some(b'"' | b'\''))
            && self.bytes[..start].iter().nth_back(1).is_some_and(|&b| is_word(b));
        if chunk.starts_with("//") || chunk.starts_with('/') && continues {
            let slashes = chunk.len() - chunk.trim_start_matches('/').len();
            from += slashes;
            chunk = &chunk[slashes..];
        }
        while let Some(rest) = chunk.strip_prefix("./").or_else(|| chunk.strip_prefix(".../")) {
            explicit = chunk.starts_with("./");
            from += chunk.len() - rest.len();
            chunk = rest;
        }
        let line = &self.text[self.line..start];
        let in_diff = line.starts_with("diff --git ")
            || line.starts_with("Binary files ")
            || matches!(line, "--- " | "+++ ");
        if let Some(rest) = chunk.strip_prefix("a/").or_else(|| chunk.strip_prefix("b/")).filter(|_| in_diff)
        {
            from += 2;
            chunk = rest;
        }
        let norm = chunk.trim_end_matches('/');
        if !norm.contains('/') && norm.len() == chunk.len() && !explicit {
            return match norm.is_empty() {
                true => self.word += 1,
                false => self.classify(from, end, None),
            };
        }
        if self.host_path(start, end, chunk) {
            return;
        }
        if is_slashed_date(norm) {
            return self.date(from, from + norm.len());
        }
        let single = !norm.contains('/') && norm.len() < chunk.len();
        // `'x'/freq/`: what is left of a script.
        let is_rest = single && continues && self.bytes[start] == b'/';
        if is_rest || !self.is_path(norm, from, explicit, norm.len() < chunk.len()) {
            return self.parts(from, end, b"/");
        }
        // `TestParse/empty_input` is a case of a test.
        let is_case = norm.starts_with("Test") && self.extension(from, from + norm.len()).is_none();
        let kind = if is_case { AtomKind::Identifier } else { AtomKind::Path };
        self.emit(kind, start, end, if single { &chunk[..=norm.len()] } else { norm });
    }

    /// `github.com/owner/name`.
    fn host_path(&mut self, start: usize, end: usize, chunk: &'a str) -> bool {
        let chunk = chunk.trim_start_matches('.');
        let Some((host, _)) = chunk.split_once('/') else {
            return false;
        };
        let known = [".com", ".org", ".net", ".edu", ".gov"]
            .iter()
            .any(|d| host.len() > d.len() && host.ends_with(d));
        if known {
            self.emit(AtomKind::Url, start, end, chunk.trim_end_matches('/'));
        }
        known
    }

    /// Whether a chunk with slashes is a path: by its start, an extension, a known folder, a
    /// component that no word looks like, or three components.
    fn is_path(&self, norm: &str, from: usize, explicit: bool, folder: bool) -> bool {
        let absolute = norm.starts_with('/') || norm.starts_with("~/");
        let relative = norm.trim_start_matches("~/").trim_start_matches('/');
        let parts: Vec<&str> = relative.split('/').collect();
        let n_letters = |p: &str| p.chars().filter(|c| c.is_alphabetic()).count();
        if parts.iter().any(|p| p.is_empty() || is_blob(p)) || parts.iter().all(|p| n_letters(p) < 2) {
            return false;
        }
        if parts[0].trim_start_matches(|c: char| c.is_ascii_digit()) == "s" && !norm.starts_with('/') {
            // `sed`: s/old/new.
            return false;
        }
        let first_hash = words::hash(parts[0].as_bytes());
        let has_extension = self.extension(from, from + norm.len()).is_some();
        if has_extension || explicit || norm.starts_with("../") || norm.starts_with("~/") {
            return true;
        }
        if absolute {
            return n_letters(parts[0]) >= 2 && (parts.len() > 1 || parts[0].len() >= 3);
        }
        if parts.len() == 2
            && matches!(parts[0], "application" | "text" | "image" | "audio" | "video" | "multipart" | "font")
        {
            return false;
        }
        let odd = |p: &&str| p.starts_with('.') && p.len() > 2 || p.contains('_') && n_letters(p) >= 3;
        let is_name = |p: &&str| {
            p.len() >= 2 && n_letters(p) >= 1 && !self.lists.stop.contains(words::hash(p.as_bytes()))
        };
        self.lists.folders.contains(first_hash) && parts.len() > 1
            || parts.iter().any(odd)
            || parts.len() >= 3
                && parts.iter().all(is_name)
                && parts.iter().any(|p| p.starts_with(|c: char| c.is_lowercase()))
            || folder
                && parts.iter().all(is_name)
                && parts[0].len() >= 3
                && !parts[0].starts_with(|c: char| c.is_ascii_uppercase())
    }

    /// Chunks with `@` or letters beyond ASCII.
    fn rare(&mut self, start: usize, end: usize) {
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

    fn url(&mut self, start: usize, from: usize) -> usize {
        let mut end = from;
        let mut depth = 0;
        while let Some(&b) = self.bytes.get(end) {
            match b {
                0..=b' ' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\' | b'{' | b'}' | b'|' | b'^' | 0x7f => {
                    break;
                }
                b'(' | b'[' => depth += 1,
                b')' | b']' if depth == 0 => break,
                b')' | b']' => depth -= 1,
                0x80.. => {
                    let c = self.char_at(end);
                    if !c.is_alphanumeric() {
                        break;
                    }
                    end += c.len_utf8() - 1;
                }
                _ => {}
            }
            end += 1;
        }
        let text = self.text;
        let norm = text[start..end].trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_', '~', '(', '[']);
        self.key = None;
        match self.bytes[from..start + norm.len().max(from - start)].iter().any(u8::is_ascii_alphanumeric) {
            true => self.emit(AtomKind::Url, start, start + norm.len(), norm.trim_end_matches('/')),
            false => self.word += 1,
        }
        end
    }

    /// `--flag`, or dashes that say nothing.
    fn dashes(&mut self, start: usize) -> usize {
        let run = self.bytes[start..].iter().take_while(|&&b| b == b'-').count();
        let name = start + run;
        let opens = !self
            .previous(start)
            .is_some_and(|b| is_word(b) || matches!(b, b')' | b'>' | b'<' | b'!' | b'*' | b'.'));
        if run != 2 || !opens || !self.bytes.get(name).is_some_and(u8::is_ascii_alphabetic) {
            return name;
        }
        let is_flag = |b: &u8| CLASS[*b as usize] & (LETTER | DIGIT | UNDER | DASH) != 0;
        let end = name + self.bytes[name..].iter().take_while(|b| is_flag(b)).count();
        let trimmed = name + self.text[name..end].trim_end_matches(['-', '_']).len();
        if trimmed - name >= 2 && !self.text[..start].ends_with("diff ") {
            self.emit_as_is(AtomKind::Flag, start, trimmed);
            self.key = Some(Key { start: name, end: trimmed, is_flag: true });
        }
        end
    }

    // ---- quotes and escapes ----

    fn open_quote(&mut self, start: usize) -> usize {
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
    fn close_quote(&mut self) {
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
    fn escape(&mut self, start: usize) -> usize {
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
    fn ansi(&mut self, at: usize) -> usize {
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
    fn naked_ansi(&mut self, at: usize) -> usize {
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

/// `fooBar`, `FooBar`, `HTTPServer`: not `URLs`.
fn has_hump(word: &[u8]) -> bool {
    let camel = word
        .windows(2)
        .any(|w| (w[0].is_ascii_lowercase() || w[0].is_ascii_digit()) && w[1].is_ascii_uppercase());
    let upper = word.iter().take_while(|b| b.is_ascii_uppercase()).count();
    let acronym = upper >= 2 && word[upper..].iter().take_while(|b| b.is_ascii_lowercase()).count() >= 2;
    camel || acronym
}

/// How many runs of digits there are.
fn n_digit_runs(word: &[u8]) -> usize {
    let starts = word.windows(2).filter(|w| !w[0].is_ascii_digit() && w[1].is_ascii_digit()).count();
    starts + usize::from(word.first().is_some_and(u8::is_ascii_digit))
}

/// Pieces of time stamps, `02T15` and `123Z`, and of line references, `L36`.
fn is_time_piece(word: &[u8]) -> bool {
    let digits = |w: &[u8]| w.iter().all(u8::is_ascii_digit);
    match word {
        [head @ .., b'Z'] if digits(head) => true,
        [b'L', tail @ ..] if digits(tail) => true,
        [a, b, b'T', c, d] => digits(&[*a, *b, *c, *d]),
        _ => false,
    }
}

/// How often neighbours are of different classes.
fn n_changes(word: &[u8]) -> usize {
    word.windows(2).filter(|w| CLASS[w[0] as usize] != CLASS[w[1] as usize]).count()
}

fn is_hash(word: &[u8], set: u8) -> bool {
    // In capitals a short one is rather a booking than a hash.
    let shortest = if set & UPPER != 0 { 32 } else { 7 };
    if !(shortest..=64).contains(&word.len())
        || set & LETTER == LETTER
        || !word.iter().all(u8::is_ascii_hexdigit)
    {
        return false;
    }
    let letters: Vec<u8> = word.iter().filter(|b| b.is_ascii_alphabetic()).copied().collect();
    // 12e10 is a number, and a single letter in a short word is rather an id.
    !matches!(letters[..], [b'e' | b'E'])
}

/// `E0308`, `F401`, `TS2345`.
fn is_error_code(word: &[u8]) -> bool {
    let letters = word.iter().take_while(|b| b.is_ascii_uppercase()).count();
    let (prefix, digits) = word.split_at(letters);
    let n = digits.len();
    digits.iter().all(u8::is_ascii_digit)
        && match prefix {
            b"E" | b"W" | b"F" => (3..=4).contains(&n),
            b"C" | b"R" => n == 3 || n == 4 && digits[0] == b'0',
            b"TS" | b"CS" | b"SC" | b"LNK" => n == 4,
            _ => false,
        }
}

/// `ABC-1234`, `django-10914`: words, then a number that is no step or version.
fn is_reference(parts: &[&[u8]], n_digits: usize) -> bool {
    let names = &parts[..parts.len() - 1];
    let upper =
        names.len() == 1 && (2..=10).contains(&names[0].len()) && names[0].iter().all(u8::is_ascii_uppercase);
    let words = names
        .iter()
        .all(|p| p.len() >= 2 && p[0].is_ascii_alphabetic() && p.iter().all(u8::is_ascii_alphanumeric));
    let enough = if names.len() == 1 { 3 } else { 4 };
    upper && (2..=8).contains(&n_digits) || words && (enough..=10).contains(&n_digits)
}

fn is_slashed_date(norm: &str) -> bool {
    let lengths: Vec<usize> = norm.split('/').map(str::len).collect();
    let numeric = norm.bytes().all(|b| b.is_ascii_digit() || b == b'/');
    numeric && matches!(lengths[..], [1..=2, 1..=2, 4] | [4, 1..=2, 1..=2])
}

/// A piece of base64 or the like.
fn is_blob(part: &str) -> bool {
    let mixed = LETTER | DIGIT;
    part.len() > 40 && classes(part.as_bytes()) & (mixed | UNDER | DASH | DOT) == mixed
        || part.len() > 15
            && classes(part.as_bytes()) & mixed == mixed
            && n_changes(part.as_bytes()) * 2 > part.len()
}

/// `1.2.3`, `v1.2`, `1.2.3rc1`, `2.0b1`, `1.0.x`: the version without its `v`.
fn version(chunk: &str) -> Option<&str> {
    let bare = chunk.strip_prefix(['v', 'V']).filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let text = bare.unwrap_or(chunk);
    let mut parts = text.split('.');
    let numeric = |p: &str| !p.is_empty() && p.len() <= 8 && p.bytes().all(|b| b.is_ascii_digit());
    let (first, second) = (parts.next()?, parts.next()?);
    if !numeric(first) || second.is_empty() {
        return None;
    }
    let rest: Vec<&str> = parts.collect();
    let digits = second.bytes().take_while(u8::is_ascii_digit).count();
    let tail = second[digits..].trim_start_matches('-');
    let is_tail = |t: &str| {
        ["a", "b", "rc", "alpha", "beta", "dev", "post", "pre"]
            .iter()
            .any(|k| t.strip_prefix(k).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit() || b == b'-')))
    };
    let ok = if rest.is_empty() {
        digits > 0 && (bare.is_some() && tail.is_empty() || is_tail(tail))
    } else {
        let third = rest[0];
        numeric(second) && (third.starts_with(|c: char| c.is_ascii_digit()) || third == "x" || is_tail(third))
            && rest.iter().all(|p| !p.is_empty() && p.len() <= 24 && !p.contains('_'))
            // `1.2.3seconds` or `10.5.txt` are something else.
            && !rest.iter().any(|p| p.len() > 2 && p.bytes().all(|b| b.is_ascii_alphabetic()) && !is_tail(p))
    };
    ok.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The atoms of a text as `kind:norm`.
    fn found(text: &str) -> Vec<String> {
        occurrences(text).iter().map(|o| format!("{}:{}", o.kind.name(), o.norm)).collect()
    }

    /// Checks that a text has one atom.
    #[track_caller]
    fn one(text: &str, atom: &str) {
        assert_eq!(found(text), [atom], "{text}");
    }

    #[track_caller]
    fn none(text: &str) {
        assert!(found(text).is_empty(), "{text}: {:?}", found(text));
    }

    #[test]
    fn kinds_have_their_index() {
        for (i, kind) in AtomKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, i);
        }
    }

    #[test]
    fn paths() {
        one("see ./src/store.rs:12:5, please", "path:src/store.rs");
        one("in (django/db/models.py).", "path:django/db/models.py");
        one("open \"/testbed\"", "path:/testbed");
        one("the folder tests/cli/ has it", "path:tests/cli");
        one("edit `Cargo.toml`", "path:Cargo.toml");
        one("~/.bashrc is read", "path:~/.bashrc");
        one("+++ b/src/a_b.py\n", "path:src/a_b.py");
        one("tests/test_x.py::", "path:tests/test_x.py");
        one("sphinx/ext/math.py-120-    return", "path:sphinx/ext/math.py");
        none("and/or, I/O, read/write, TCP/IP, 1/2 and </div> </p>");
        none("// comment, a / b");
        assert_eq!(found("sed \"s/freq='6H'/freq/\""), ["number:6h"], "a script is no path");
        none("math.log(x)");
    }

    #[test]
    fn identifiers() {
        one("the snake_case name", "identifier:snake_case");
        one("the parseTree name", "identifier:parseTree");
        none("a name in camelCase");
        one("an HTTPServer object", "identifier:HTTPServer");
        one("set MAX_LENGTH now", "identifier:MAX_LENGTH");
        one("self.assertEqual", "identifier:assertEqual");
        one("form.cleaned_data", "identifier:cleaned_data");
        one("import django.db.models", "identifier:django.db.models");
        one("call deconstruct() here", "identifier:deconstruct");
        none("The quick brown fox, URLs and APIs of the GitHub file(s), e.g. this. And that.Now the end");
        none("print(len(x)); self.x; 12:    return");
    }

    #[test]
    fn numbers_with_unit_or_key() {
        one("takes 150 ms", "number:150ms");
        one("takes 150ms.", "number:150ms");
        one("5 seconds", "number:5s");
        one("about 45% of", "number:45%");
        one("costs $1,200.50 now", "number:$1200.50");
        one("timeout=30", "number:timeout=30");
        one("\"timeout\": 30,", "number:timeout=30");
        one("Port 8080", "number:port=8080");
        one("at line 45.", "number:line=45");
        one("offset = -1", "number:offset=-1");
        one("the issue #12", "number:#12");
        one("on 2024-05-15", "number:2024-05-15");
        assert_eq!(found("--port 80"), ["flag:--port", "number:port=80"]);
        none(
            "30 apples, 12:30:05, 2024-05-15 10:00:01, 2024-05-15T10:00:01.123Z, [ 27%], 3, 4.5, #fff, #000000, x[2:4], $1",
        );
        none("ok (0.01s) 2026/01/12 10:00:01 done");
        none("   12→  34:code\n56-more\n");
    }

    #[test]
    fn versions() {
        one("v1.2.3", "version:1.2.3");
        one("Django 3.0.4,", "version:3.0.4");
        one("numpy>=1.20", "version:1.20");
        one("since version 2.2.", "version:2.2");
        one("2.0.0rc1", "version:2.0.0rc1");
        one("127.0.0.1:8000", "url:127.0.0.1:8000");
        none("1.5 and 2.25");
    }

    #[test]
    fn ids_hashes_errors_urls_flags() {
        one("commit 36c592b4d.", "hash:36c592b4d");
        one("order #W2378156", "id:W2378156");
        one("ABC-1234 is", "id:ABC-1234");
        one("mail mia.li@example.com.", "id:mia.li@example.com");
        one("266b3f40-6f1d-491c-aeca-825cbb3fcbc5", "id:266b3f40-6f1d-491c-aeca-825cbb3fcbc5");
        one("item 1646531091", "id:1646531091");
        one("call 555-123-2002", "id:555-123-2002");
        one("a ValueError was", "error:ValueError");
        one("exceptions.FieldError", "error:FieldError");
        one("error[E0308]:", "error:E0308");
        one("ENOENT: no such", "error:ENOENT");
        one("(https://a.org/x_y?z=1).", "url:https://a.org/x_y?z=1");
        one("use --no-cache.", "flag:--no-cache");
        none("UTF-8, SHA256, MP3, 2007-2020, lines 1204-1219, word--word, -----, deadbeef, 0x7fff1234abcd");
    }

    #[test]
    fn quotes() {
        one("say \"hello world\" twice", "quoted:hello world");
        one("the `render` method", "quoted:render");
        one("d['name']", "quoted:name");
        one("{\"status\": \"delivered\"}", "quoted:delivered");
        one("in \"src/main.rs\"", "path:src/main.rs");
        none("don't, the users' it's 'a' \"\" \"\"\"");
        none("{\"name\": null, \"value\": 3.5 }".split_once(", \"v").unwrap().0);
    }

    #[test]
    fn escapes_separate() {
        assert_eq!(found("\\nfoo_bar\\tbaz_qux"), ["identifier:foo_bar", "identifier:baz_qux"]);
        one("\x1b[31mfoo_bar\x1b[0m", "identifier:foo_bar");
        one("\\u001b[31mfoo_bar\\u001b[0m [32mok[0m", "identifier:foo_bar");
    }

    #[test]
    fn cues_are_content_words_near_by() {
        let text = "Restart the payment server through restart_all today";
        let all = occurrences(text);
        let cues: Vec<u32> =
            ["restart", "payment", "server", "today"].iter().filter_map(|w| cue_hash(w)).collect();
        assert_eq!(all.len(), 1);
        assert!(cues.iter().all(|c| all[0].cues.contains(c)) && all[0].cues.len() == 4);
        assert!(!occurrences("the_name restart\nserver")[0].is_bound(), "another span");
        let far = format!("the_name {}server payment", "x1 ".repeat(20));
        assert!(occurrences(&far)[0].cues.is_empty(), "too far");
        assert!(!occurrences("the_name server server")[0].is_bound(), "not distinct");
    }

    #[test]
    fn an_atom_is_no_cue() {
        let text = "set foo_bar \"gentle breeze\" other_name";
        assert!(occurrences(text).iter().all(|o| !o.is_bound()), "{:?}", occurrences(text));
    }

    proptest! {
        #[test]
        fn atoms_are_disjoint_in_order_and_in_their_span(text in "([a-zA-Z0-9_./:@#$%=\"'`\\\\ \n-]|\\PC|\x1b|https://|--|://|\\\\u001b|[0-9]{1,9}|\\.py|Error){0,120}") {
            let ends = spans::span_ends(&text);
            let mut last = 0;
            for o in occurrences(&text) {
                prop_assert!(o.start >= last && o.start < o.end && o.end <= text.len(), "{o:?}");
                last = o.end;
                prop_assert!(text.get(o.start..o.end).is_some());
                prop_assert!(!o.norm.is_empty() && o.norm.len() <= MAX_BYTES);
                prop_assert_eq!(o.span, spans::span_at(&ends, o.start));
            }
        }

        #[test]
        fn never_panics(text in "\\PC*", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            occurrences(&text);
            occurrences(&String::from_utf8_lossy(&bytes));
        }
    }
}
