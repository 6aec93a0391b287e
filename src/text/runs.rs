//! Whether words stand in a text one after the other, whatever their case and punctuation: the test of what was kept
//! verbatim.
//!
//! Words are runs of letters and digits; a letter of a script without spaces is a word of its own. A bag of the same
//! words, or a shuffled text, holds no run of them.

use std::collections::HashMap;
use std::ops::Range;

/// Stands between two texts; no word has it.
const GAP: u64 = 0;
/// Places of a run that are looked at for a longer one.
const MOST_PLACES: usize = 256;

/// Whether one's words stand within the other's, and make up half of them.
pub(crate) fn fits(a: &[u64], b: &[u64]) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    !short.is_empty()
        && 2 * short.len() >= long.len()
        && long.windows(short.len()).any(|window| window == short)
}

/// The words of a text as hashes.
pub(crate) fn words(text: &str) -> Vec<u64> {
    let mut words = Vec::new();
    let mut hash = None;
    for c in text.chars() {
        let alone = !c.is_ascii() && is_unspaced(c);
        if alone || !c.is_alphanumeric() {
            words.extend(hash.take());
        }
        if alone {
            words.push(fold(START, c));
        } else if c.is_alphanumeric() {
            hash = Some(c.to_lowercase().fold(hash.unwrap_or(START), fold));
        }
    }
    words.extend(hash);
    words
}

const START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a over characters.
fn fold(hash: u64, c: char) -> u64 {
    (hash ^ u64::from(u32::from(c))).wrapping_mul(0x0100_0000_01b3)
}

/// A word as a hash.
pub(crate) fn hash(word: &str) -> u64 {
    word.chars().fold(START, fold)
}

/// Scripts that are written without spaces: Thai, Lao, Khmer, Kana, Han.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c), 0x0e00..=0x0eff | 0x1780..=0x17ff | 0x3040..=0x30ff | 0x3400..=0x9fff | 0x20000..=0x2ffff)
}

/// Texts, searchable for runs of words.
pub(crate) struct Runs {
    words: Vec<u64>,
    /// Where each word stands.
    places: HashMap<u64, Vec<u32>>,
    /// Where each text ends.
    ends: Vec<usize>,
    n_words: usize,
}

impl Runs {
    pub(crate) fn new<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Self {
        Runs::of(texts.into_iter().map(|text| words(text.as_ref())))
    }

    /// Of the words of each text, however they were read.
    pub(crate) fn of<W: AsRef<[u64]>>(texts: impl IntoIterator<Item = W>) -> Self {
        let mut all = Vec::new();
        let mut ends = Vec::new();
        for text in texts {
            all.extend_from_slice(text.as_ref());
            all.push(GAP);
            ends.push(all.len());
        }
        let mut places: HashMap<u64, Vec<u32>> = HashMap::new();
        for (at, &word) in all.iter().enumerate().filter(|(_, word)| **word != GAP) {
            places.entry(word).or_default().push(at as u32);
        }
        let n_words = all.iter().filter(|word| **word != GAP).count();
        Runs { words: all, places, ends, n_words }
    }

    pub(crate) fn n_words(&self) -> usize {
        self.n_words
    }

    /// Where a run of words begins.
    fn find<'a>(&'a self, run: &'a [u64]) -> impl Iterator<Item = usize> + 'a {
        let starts = run.first().and_then(|first| self.places.get(first)).map_or(&[][..], Vec::as_slice);
        starts.iter().map(|&at| at as usize).filter(|&at| self.words[at..].starts_with(run))
    }

    /// Whether the words stand there one after the other; no words stand nowhere.
    pub(crate) fn hold(&self, run: &[u64]) -> bool {
        self.find(run).next().is_some()
    }

    /// Whether they stand there within so many words of two of these cues, in the same text; of one where there is but one,
    /// and anywhere where there is none.
    pub(crate) fn bind(&self, run: &[u64], cues: &[u64], window: usize) -> bool {
        let least = cues.len().min(2);
        let is_bound = |at: usize| {
            let before = self.words[at.saturating_sub(window)..at].iter().rev();
            let behind = &self.words[(at + run.len()).min(self.words.len())..];
            let near = before.take_while(|word| **word != GAP);
            let mut near: Vec<u64> = near
                .chain(behind.iter().take(window).take_while(|word| **word != GAP))
                .copied()
                .filter(|word| cues.contains(word))
                .collect();
            near.sort_unstable();
            near.dedup();
            near.len() >= least
        };
        self.find(run).any(is_bound)
    }

    /// The longest run of these words that stands there and has those of `core` in it, within `bounds`; of many places
    /// the first [`MOST_PLACES`] are looked at.
    pub(crate) fn grown(&self, words: &[u64], core: &Range<usize>, bounds: &Range<usize>) -> Range<usize> {
        let grow = |at: usize| {
            let same = |(a, b): &(&u64, &u64)| a == b;
            let before = words[bounds.start..core.start].iter().rev().zip(self.words[..at].iter().rev());
            let behind = words[core.end..bounds.end].iter().zip(&self.words[at + core.len()..]);
            core.start - before.take_while(same).count()..core.end + behind.take_while(same).count()
        };
        let found = self.find(&words[core.clone()]).take(MOST_PLACES).map(grow);
        found.max_by_key(|run| (run.len(), std::cmp::Reverse(run.start))).unwrap_or(core.clone())
    }

    /// The texts in which the words stand one after the other, in order; one may come more than once.
    pub(crate) fn texts_with<'a>(&'a self, run: &'a [u64]) -> impl Iterator<Item = usize> + 'a {
        self.find(run).map(|at| self.ends.partition_point(|&end| end <= at))
    }

    /// The same as [`Runs::hold`] within the first so many texts.
    pub(crate) fn hold_before(&self, run: &[u64], n_texts: usize) -> bool {
        let end = n_texts.checked_sub(1).map_or(0, |last| self.ends[last]);
        self.find(run).next().is_some_and(|first| first < end)
    }

    /// How many of the words stand in at least one of these runs.
    pub(crate) fn covered<'r>(&self, runs: impl Iterator<Item = &'r [u64]>) -> usize {
        let mut covered = vec![false; self.words.len()];
        for run in runs {
            for at in self.find(run) {
                covered[at..at + run.len()].fill(true);
            }
        }
        covered.into_iter().filter(|is| *is).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_in_order_or_not_at_all() {
        let runs = Runs::new(["The limit is $500, by Friday!", "Ask Bob. Bob knows."]);
        assert_eq!(runs.n_words(), 10);
        for kept in ["limit is 500", "THE limit", "by\n Friday", "bob bob knows", "Bob knows"] {
            assert!(runs.hold(&words(kept)), "{kept}");
        }
        for lost in ["500 limit", "limit is 5000", "Friday ask", "the 500", "", "bob bob bob"] {
            assert!(!runs.hold(&words(lost)), "{lost}");
        }
    }

    #[test]
    fn what_comes_later_does_not_count_before() {
        let runs = Runs::new(["a b", "c b c"]);
        let held = |n| ["a b", "b", "c"].map(|run| runs.hold_before(&words(run), n));
        assert_eq!([held(0), held(1), held(2)], [[false; 3], [true, true, false], [true; 3]]);
        let texts = |run| runs.texts_with(&words(run)).collect::<Vec<_>>();
        assert_eq!(
            [texts("b"), texts("c"), texts("b c"), texts("b a")],
            [vec![0, 1], vec![1, 1], vec![1], vec![]]
        );
    }

    #[test]
    fn scripts_without_spaces_have_words_of_one_letter() {
        assert!(Runs::new(["締め切りは金曜日です"]).hold(&words("金曜日")));
        assert_eq!(words("naïve Größe").len(), 2);
        assert_eq!(words("NAÏVE"), words("naïve"));
    }

    #[test]
    fn covered_words_count_once() {
        let runs = Runs::new(["a b c d a b"]);
        let (ab, bc) = (words("a b"), words("b c"));
        assert_eq!(runs.covered([ab.as_slice(), bc.as_slice()].into_iter()), 5);
        assert_eq!(runs.covered([words("c a").as_slice()].into_iter()), 0);
    }
}
