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

use crate::text::spans;
use crate::text::words::{self, Lists};

mod lexer;
mod lines;
mod names;
mod numbers;
mod paths;
mod quotes;
mod shapes;

use lexer::Lexer;
pub(crate) use lines::{known, lines};

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
    let spans = spans::span_ends(text);
    let (mut all, mut span) = (Vec::new(), 0);
    for (offset, line) in lines(text) {
        for atom in line.iter() {
            let (start, end) = (offset + atom.start as usize, offset + atom.end as usize);
            while spans.get(span).is_some_and(|&end| end as usize <= start) {
                span += 1;
            }
            let as_it_stands = text.get(start..end).filter(|standing| *standing == &*atom.norm);
            let norm = as_it_stands.map_or_else(|| Cow::Owned(atom.norm.to_string()), Cow::Borrowed);
            all.push(Occurrence { kind: atom.kind, start, end, span, norm, cues: atom.cues.to_vec() });
        }
    }
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

#[cfg(test)]
mod tests;
