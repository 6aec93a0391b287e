//! Counts tokens by a named tokenizer, independent of any model that compresses.
//!
//! `o200k` and `cl100k` travel with the build; any `tokenizer.json` is read through the
//! `tokenizers` crate and named with its content hash. Text from a log is data: a special token
//! spelled out in it is counted as the characters that it is.

use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::files::reach;
use crate::text::memo::Memo;
use anyhow::Context as _;
use tokenizers::pipeline::{EncodeOptions, Override, PipelineToken, PipelineTokenizer};

use super::bpe::{self, Bpe};

/// The tokenizer used where none is named.
pub const DEFAULT: &str = "o200k";

/// A tokenizer with a stable name. Shared by threads.
pub struct Tokenizer {
    name: String,
    counter: Counter,
    failures: AtomicU64,
}

enum Counter {
    Bpe(&'static Bpe),
    File(Box<PipelineTokenizer>),
}

impl Tokenizer {
    /// Loads `o200k`, `cl100k`, or the `tokenizer.json` at a path.
    pub fn load(name: &str) -> anyhow::Result<Self> {
        match name {
            "o200k" => Ok(Self::new(name, Counter::Bpe(&bpe::O200K_BASE))),
            "cl100k" => Ok(Self::new(name, Counter::Bpe(&bpe::CL100K_BASE))),
            _ => Self::from_file(Path::new(name)),
        }
    }

    fn new(name: &str, counter: Counter) -> Self {
        Tokenizer { name: name.to_owned(), counter, failures: AtomicU64::new(0) }
    }

    fn from_file(path: &Path) -> anyhow::Result<Self> {
        let json = reach::text(path).with_context(|| {
            format!(
                "cannot read tokenizer `{}`\nhint: `o200k`, `cl100k`, or the path of a tokenizer.json",
                path.display()
            )
        })?;
        let not_readable = || format!("{} is not a readable tokenizer.json", path.display());
        let canonical = tokenizers::canonicalize_str(&json).with_context(not_readable)?;
        let pipeline = tokenizers::from_json(&canonical)
            .map_err(|error| anyhow::anyhow!("{error}"))
            .with_context(not_readable)?;
        let stem = path.file_stem().map_or_else(|| "tokenizer".into(), |s| s.to_string_lossy());
        let hash = &blake3::hash(json.as_bytes()).to_hex()[..16];
        Ok(Self::new(&format!("{stem}@{hash}"), Counter::File(Box::new(pipeline))))
    }

    /// Stable name; for a file its stem and the first 16 hex digits of its BLAKE3 hash.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tokens of a text on its own.
    ///
    /// A text that a vocabulary from a file cannot encode counts one token a character;
    /// [`Self::failures`] tells how often that happened.
    pub fn count(&self, text: &str) -> u32 {
        self.counts(text).fold(0, u32::saturating_add)
    }

    /// The tokens of a text, part by part; of what has one part alone nothing is remembered.
    fn counts(&self, text: &str) -> impl Iterator<Item = u32> {
        let is_cut = matches!(self.counter, Counter::Bpe(_));
        parts(text, is_cut).map(|part| match part.len() < text.len() {
            true => self.count_line(part),
            false => self.count_part(part),
        })
    }

    fn count_part(&self, text: &str) -> u32 {
        let n = match &self.counter {
            Counter::Bpe(bpe) => {
                PIECES.with_borrow_mut(|pieces| bpe.split(text).map(|piece| pieces.count(bpe, piece)).sum())
            }
            Counter::File(pipeline) => IDS.with_borrow_mut(|ids| {
                ids.clear();
                match pipeline.encode_into(text, &options(), ids) {
                    Ok(()) => ids.len(),
                    Err(_) => {
                        self.failures.fetch_add(1, Ordering::Relaxed);
                        text.chars().count()
                    }
                }
            }),
        };
        u32::try_from(n).unwrap_or(u32::MAX)
    }

    /// The same, of a line that was counted before or will be again.
    pub fn count_line(&self, line: &str) -> u32 {
        LINES.with_borrow_mut(|(name, lines)| {
            if *name != self.name {
                (*name, *lines) = (self.name.clone(), Memo::new());
            }
            lines.get(line, |line| self.count_part(line))
        })
    }

    /// The sum over some texts, or `most` if there are as many or more.
    pub fn count_up_to(&self, texts: &[String], most: u32) -> u32 {
        let mut sum = 0;
        for tokens in texts.iter().flat_map(|text| self.counts(text)) {
            if sum >= most {
                break;
            }
            sum = tokens.saturating_add(sum);
        }
        sum.min(most)
    }

    /// A text of which beginnings are counted.
    pub fn beginnings<'a>(&'a self, text: &'a str) -> Beginnings<'a> {
        let mut ends = Vec::new();
        if let Counter::Bpe(bpe) = &self.counter {
            let (mut end, mut tokens) = (0, 0);
            for piece in bpe.split(text) {
                (end, tokens) =
                    (end + piece.len(), tokens + PIECES.with_borrow_mut(|p| p.count(bpe, piece)) as u32);
                ends.push((end, tokens));
            }
        }
        Beginnings { tokenizer: self, text, ends }
    }

    /// How many texts could not be encoded so far.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

/// See [`Tokenizer::beginnings`].
pub struct Beginnings<'a> {
    tokenizer: &'a Tokenizer,
    text: &'a str,
    /// Where each piece of it ends, and the tokens until there.
    ends: Vec<(usize, u32)>,
}

impl Beginnings<'_> {
    /// Tokens of the text up to a place, as [`Tokenizer::count`] has them. The pieces before it are those of the whole, but for
    /// blanks that stand at the very end.
    pub fn count(&self, end: usize) -> u32 {
        let n = self.ends.partition_point(|(at, _)| *at < end);
        let is_apart = |(at, _): &&(usize, u32)| !self.text[*at..end].trim_start().is_empty();
        let (start, tokens) = self.ends[..n].iter().rev().find(is_apart).copied().unwrap_or_default();
        tokens + self.tokenizer.count_part(&self.text[start..end])
    }
}

thread_local! {
    /// Spans are short and many: their ids go to one buffer a thread.
    static IDS: RefCell<Vec<PipelineToken>> = const { RefCell::new(Vec::new()) };
    static PIECES: RefCell<Pieces> = RefCell::new(Pieces::new());
    /// Of the tokenizer of this name.
    static LINES: RefCell<(String, Memo<u32>)> = const { RefCell::new((String::new(), Memo::new())) };
}

/// The lines of a text, if it is cut: of each vocabulary of ours a token ends where a line ends, unless a blank line or a slash follows.
fn parts(text: &str, is_cut: bool) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let ends = memchr::memchr_iter(b'\n', if is_cut { rest.as_bytes() } else { &[] }).map(|at| at + 1);
        let end = ends.into_iter().find(|&end| begins_anew(&rest[end..])).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

fn begins_anew(rest: &str) -> bool {
    let is_end = |c: char| matches!(c, '\n' | '\r');
    !rest.starts_with('/')
        && !rest.trim_start_matches(|c: char| c.is_whitespace() && !is_end(c)).starts_with(is_end)
}

/// Tokens of short pieces (words) seen lately: logs repeat their words, and to look one up is
/// several times cheaper than to encode it.
struct Pieces {
    /// Which vocabulary the counts belong to.
    vocabulary: usize,
    slots: Vec<(u128, u32)>,
}

impl Pieces {
    const SLOTS: usize = 1 << 13;

    fn new() -> Self {
        Pieces { vocabulary: 0, slots: Vec::new() }
    }

    fn count(&mut self, bpe: &Bpe, piece: &str) -> usize {
        let bytes = piece.as_bytes();
        if bytes.len() > 15 {
            return bpe.count(bytes);
        }
        let vocabulary = std::ptr::from_ref(bpe).addr();
        if vocabulary != self.vocabulary {
            self.vocabulary = vocabulary;
            self.slots = vec![(0, 0); Self::SLOTS];
        }
        // The length makes keys of different pieces different, and none of them 0.
        let mut key = [0; 16];
        key[..bytes.len()].copy_from_slice(bytes);
        key[15] = bytes.len() as u8;
        let key = u128::from_le_bytes(key);
        let mixed = (key as u64 ^ (key >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = &mut self.slots[(mixed >> 51) as usize];
        if slot.0 != key {
            *slot = (key, bpe.count(bytes) as u32);
        }
        slot.1 as usize
    }
}

/// No special token is added, none is recognised in the text, nothing is cut or padded.
fn options() -> EncodeOptions {
    EncodeOptions {
        add_special_tokens: false,
        encode_special_tokens: true,
        padding: Override::Off,
        truncation: Override::Off,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_counts() {
        let o200k = Tokenizer::load("o200k").unwrap();
        assert_eq!(o200k.count("hello world"), 2);
        assert_eq!(o200k.count(""), 0);
        assert_eq!(o200k.name(), "o200k");
    }

    #[test]
    fn a_line_has_the_tokens_of_its_tokenizer() {
        let line = "the broken parser lives in src/parser.py beside its lexer 你好，世界";
        let counts = ["o200k", "cl100k", "o200k"].map(|name| {
            let tokenizer = Tokenizer::load(name).unwrap();
            assert_eq!(tokenizer.count_line(line), tokenizer.count(line));
            tokenizer.count_line(line)
        });
        assert!(counts[0] == counts[2] && counts[0] != counts[1], "{counts:?}");
        let (tokenizer, texts) = (Tokenizer::load("o200k").unwrap(), [line.to_owned(), line.to_owned()]);
        let up_to = |most: u32| tokenizer.count_up_to(&texts, most);
        assert_eq!([up_to(0), up_to(counts[0] + 1), up_to(99)], [0, counts[0] + 1, 2 * counts[0]]);
    }

    proptest! {
        #[test]
        fn a_text_has_the_tokens_of_its_lines(
            text in "([a-zA-Z]{1,5}|[0-9]{1,4}|\n|\n\n|\r|\r\n| |  |\t|/|//|\\.|'s|;|\u{2028}|\u{85}|[à-ü]|[你好]|\\PC){0,40}",
        ) {
            for name in ["o200k", "cl100k"] {
                let tokenizer = Tokenizer::load(name).unwrap();
                let whole = tokenizer.count_part(&text);
                prop_assert_eq!(tokenizer.count(&text), whole);
                let beginnings = tokenizer.beginnings(&text);
                for (end, _) in text.char_indices() {
                    prop_assert_eq!(beginnings.count(end), tokenizer.count_part(&text[..end]));
                }
                let texts = [text.clone(), text.clone()];
                for most in [0, 1, whole, whole + 1, 2 * whole + 1] {
                    prop_assert_eq!(tokenizer.count_up_to(&texts, most), most.min(2 * whole));
                }
            }
        }
    }

    #[test]
    fn special_tokens_in_a_text_are_plain_text() {
        for name in ["o200k", "cl100k"] {
            assert!(Tokenizer::load(name).unwrap().count("<|endoftext|>") > 3);
        }
    }

    #[test]
    fn a_file_is_named_with_its_hash() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("toy.json");
        let json = r#"{"version":"1.0","truncation":null,"padding":null,
            "added_tokens":[{"id":3,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
            "normalizer":null,"pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":null,"decoder":null,
            "model":{"type":"WordLevel","vocab":{"a":0,"b":1,"[UNK]":2,"<s>":3},"unk_token":"[UNK]"}}"#;
        std::fs::write(&path, json).unwrap();
        let toy = Tokenizer::load(path.to_str().unwrap()).unwrap();
        assert!(toy.name().starts_with("toy@"), "{}", toy.name());
        assert_eq!(toy.count("a b zzz"), 3);
        assert_eq!(toy.failures(), 0);
    }

    #[test]
    fn a_missing_file_gets_a_hint() {
        let error = Tokenizer::load("no-such-tokenizer").err().unwrap();
        assert!(format!("{error:#}").contains("hint:"));
    }
}
