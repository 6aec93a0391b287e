//! Byte pair encoding as OpenAI's models have it: counts tokens, and keeps none.
//!
//! A text is cut into pieces by a pattern. Of a piece, the two neighbours that make the token of the lowest rank are joined,
//! until no two make one. The vocabularies are those that OpenAI publishes with tiktoken.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::LazyLock;

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input};
use rustc_hash::FxHashMap;

/// Tokens by rank: the length of each, 0, then their bytes. Packed, since a binary carries them.
const O200K: &[u8] = include_bytes!("vocabularies/o200k.zst");
const CL100K: &[u8] = include_bytes!("vocabularies/cl100k.zst");

const O200K_WORDS: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+$",
);
const CL100K_WORDS: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+$",
);
/// `\s+(?!\S)` without looking ahead: all but the last of these spaces.
const SPACES: &str = r"\s+\s";

/// A longer piece is counted in parts, so that its joins stay in few megabytes: at most a token more for each.
const LONGEST_PIECE: usize = 1 << 20;
const NONE: u32 = u32::MAX;

/// A vocabulary with its pattern.
pub(super) struct Bpe {
    pieces: Regex,
    ranks: FxHashMap<&'static [u8], u32>,
    /// Ranks of two bytes.
    pairs: Vec<u32>,
    longest: usize,
}

pub(super) static O200K_BASE: LazyLock<Bpe> = LazyLock::new(|| Bpe::new(O200K, O200K_WORDS));
pub(super) static CL100K_BASE: LazyLock<Bpe> = LazyLock::new(|| Bpe::new(CL100K, CL100K_WORDS));

impl Bpe {
    fn new(packed: &[u8], words: &str) -> Self {
        let unpacked: &'static [u8] = zstd::decode_all(packed).expect("the build packed it").leak();
        let n = unpacked.iter().position(|length| *length == 0).expect("the lengths end");
        let (lengths, mut bytes) = (&unpacked[..n], &unpacked[n + 1..]);
        let mut ranks = FxHashMap::with_capacity_and_hasher(n, Default::default());
        let mut pairs = vec![NONE; 1 << 16];
        for (length, rank) in lengths.iter().zip(0..) {
            let (token, rest) = bytes.split_at(usize::from(*length));
            if let [first, second] = token {
                pairs[usize::from(u16::from_be_bytes([*first, *second]))] = rank;
            }
            ranks.insert(token, rank);
            bytes = rest;
        }
        let longest = lengths.iter().max().map_or(0, |length| usize::from(*length));
        let pieces = Regex::new_many(&[words, SPACES, r"\s+"]).expect("the patterns are fixed");
        Bpe { pieces, ranks, pairs, longest }
    }

    /// The pieces of a text, one after the other.
    pub(super) fn split<'a>(&self, text: &'a str) -> impl Iterator<Item = &'a str> {
        let mut rest = text;
        std::iter::from_fn(move || {
            let found = self.pieces.find(Input::new(rest).anchored(Anchored::Yes))?;
            let mut end = found.end();
            if found.pattern().as_usize() == 1 {
                end -= rest[..end].chars().next_back().map_or(0, char::len_utf8);
            }
            let (piece, after) = rest.split_at(end);
            rest = after;
            Some(piece)
        })
    }

    /// Tokens of a piece.
    pub(super) fn count(&self, piece: &[u8]) -> usize {
        if self.ranks.contains_key(piece) {
            return 1;
        }
        JOINS.with_borrow_mut(|joins| piece.chunks(LONGEST_PIECE).map(|part| joins.count(self, part)).sum())
    }

    fn rank(&self, token: &[u8]) -> Option<u32> {
        match token {
            [first, second] => {
                Some(self.pairs[usize::from(u16::from_be_bytes([*first, *second]))]).filter(|r| *r != NONE)
            }
            _ if token.len() > self.longest => None,
            _ => self.ranks.get(token).copied(),
        }
    }
}

thread_local! {
    static JOINS: RefCell<Joins> = RefCell::new(Joins::default());
}

/// A piece on its way: a chain of tokens, each known by where it begins.
#[derive(Default)]
struct Joins {
    /// Where the next token begins; [`NONE`] for a place where none begins any more.
    next: Vec<u32>,
    before: Vec<u32>,
    /// What two neighbours would make: rank, begin, end; the lowest rank first, of one rank the leftmost.
    waiting: BinaryHeap<Reverse<(u32, u32, u32)>>,
}

impl Joins {
    fn count(&mut self, bpe: &Bpe, piece: &[u8]) -> usize {
        let n = piece.len() as u32;
        self.next.clear();
        self.next.extend(1..=n);
        self.before.clear();
        self.before.extend((0..n).map(|at| at.wrapping_sub(1)));
        for at in 1..n {
            self.offer(bpe, piece, at - 1, at + 1);
        }
        let mut tokens = piece.len();
        while let Some(Reverse((_, begin, end))) = self.waiting.pop() {
            // A neighbour that was joined elsewhere since makes another token.
            let middle = self.next[begin as usize];
            if middle >= n || self.next[middle as usize] != end {
                continue;
            }
            self.next[begin as usize] = end;
            self.next[middle as usize] = NONE;
            tokens -= 1;
            if begin > 0 {
                self.offer(bpe, piece, self.before[begin as usize], end);
            }
            if end < n {
                self.before[end as usize] = begin;
                self.offer(bpe, piece, begin, self.next[end as usize]);
            }
        }
        tokens
    }

    fn offer(&mut self, bpe: &Bpe, piece: &[u8], begin: u32, end: u32) {
        if let Some(rank) = bpe.rank(&piece[begin as usize..end as usize]) {
            self.waiting.push(Reverse((rank, begin, end)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn both() -> [(&'static Bpe, &'static bpe_openai::Tokenizer); 2] {
        [(&O200K_BASE, bpe_openai::o200k_base()), (&CL100K_BASE, bpe_openai::cl100k_base())]
    }

    fn same(text: &str) {
        for (ours, theirs) in both() {
            let pieces: Vec<&str> = ours.split(text).collect();
            assert_eq!(pieces, theirs.split(text).collect::<Vec<_>>());
            for piece in pieces {
                assert_eq!(ours.count(piece.as_bytes()), theirs.bpe.count(piece.as_bytes()), "{piece:?}");
            }
        }
    }

    #[test]
    fn the_vocabularies_are_those_of_the_models() {
        for (ours, theirs) in both() {
            assert_eq!(ours.ranks.len(), theirs.bpe.num_tokens());
            for rank in 0..theirs.bpe.num_tokens() as u32 {
                assert_eq!(ours.ranks.get(theirs.bpe.token_bytes(rank)), Some(&rank));
            }
        }
    }

    #[test]
    fn odd_texts_count_the_same() {
        let long = ["a", "=", " ", "ab", "\u{300}", "é", "0", "\n", "🦀", "xX"].map(|s| s.repeat(3_000));
        long.iter().for_each(|text| same(text));
        same("I'LL don't\r\n\r\n  fn main() {\u{85}}\t\tÄpfel  \u{3000} 12345 //// https://x.y/z?q=1 ");
        same(include_str!("bpe.rs"));
    }

    #[test]
    fn a_piece_without_end_is_counted_in_parts() {
        let n = LONGEST_PIECE + 7;
        let bytes = "q".repeat(n);
        assert!(
            O200K_BASE.count(bytes.as_bytes()).abs_diff(bpe_openai::o200k_base().bpe.count(bytes.as_bytes()))
                <= 1
        );
    }

    proptest! {
        #[test]
        fn any_text_counts_the_same(text in "\\PC{0,200}", code in "[a-zA-Z0-9_ .,'/(){}=\\n\\t-]{0,400}") {
            same(&text);
            same(&code);
        }
    }
}
