//! The model-free summary: lines of the source, verbatim, that cover most of what it is about.
//!
//! A source is cut into spans (lines, and pieces of long ones). Its *terms* are its content words and its atoms; a term in
//! d of N spans weighs ln(1 + d) ln(1 + N/d), an atom [`ATOM`] times as much: so neither what stands everywhere nor what stands
//! once is the centre. Lazy greedy takes the span with the most weight of terms not yet covered, over its tokens to the power
//! of [`COST`], until the budget is full, which leaves repetitions out. Sources: centroid summaries (Radev et al. 2004),
//! coverage as a submodular gain with a scaled cost (Lin and Bilmes 2010).
//!
//! The constants were chosen by need retention on 150 logs of coding agents (`turns` n = 21, keep = 10; a summary of 800
//! tokens an event, 0.048 of the scope): efficiency 0.03, 0.15, 0.21, 0.26, 0.26 at a cost of 1, 0.7, 0.5, 0.3, 0; 0.23,
//! 0.26, 0.29 at an atom of 1, 2, 4, but 0.11, 0.12, 0.09 with 200 tokens.

use std::collections::{BinaryHeap, HashMap, HashSet};

use crate::features::atoms;
use crate::features::sentences::is_numbered;
use crate::features::spans::span_ends;
use crate::features::tokens::Tokenizer;

/// How much more than a word an atom weighs.
const ATOM: f64 = 2.0;
/// How much a token costs: 1 takes what weighs most a token, and so mostly scraps; 0 what weighs most.
const COST: f64 = 0.3;

/// Lines of these texts in their order, of so many tokens at most together.
pub(super) fn summary(texts: &[String], budget: u32, tokenizer: &Tokenizer) -> String {
    let cut: Vec<(&str, bool)> = texts.iter().flat_map(|text| spans(text)).collect();
    let spans: Vec<&str> = cut.iter().map(|(span, _)| *span).collect();
    // A line's end is a token of its own, except that of the last. A line of a file that is shown never fits.
    let tokens =
        cut.iter().map(|(span, is_shown)| if *is_shown { u32::MAX } else { tokenizer.count(span) + 1 });
    let tokens: Vec<u32> = tokens.collect();
    let chosen = choose(&spans, &tokens, budget.saturating_add(1));
    chosen.into_iter().map(|span| spans[span]).collect::<Vec<_>>().join("\n")
}

/// The spans that cover most for so many tokens at most, in order; `tokens` has those of each.
pub(super) fn choose(spans: &[&str], tokens: &[u32], budget: u32) -> Vec<usize> {
    let terms: Vec<Vec<Term>> = spans.iter().map(|span| terms(span)).collect();
    let mut frequency: HashMap<Term, f64> = HashMap::new();
    for term in terms.iter().flatten() {
        *frequency.entry(*term).or_default() += 1.0;
    }
    let n = spans.len() as f64;
    let weight = |term: &Term| {
        let d = frequency[term];
        d.ln_1p() * (n / d).ln_1p() * if term.1 { ATOM } else { 1.0 }
    };
    let density = |gain: f64, span: usize| gain / f64::from(tokens[span]).powf(COST);
    let gain = |span: usize, covered: &HashSet<Term>| -> f64 {
        terms[span].iter().filter(|term| !covered.contains(term)).map(weight).sum()
    };
    let mut covered = HashSet::new();
    let mut heap: BinaryHeap<Candidate> = (0..spans.len())
        .filter(|&span| tokens[span] <= budget)
        .map(|span| Candidate { density: density(gain(span, &covered), span), span })
        .collect();
    let (mut left, mut chosen) = (budget, Vec::new());
    // Gains only fall, so a candidate that is still best after an update is the best.
    while let Some(Candidate { span, .. }) = heap.pop() {
        if tokens[span] > left {
            continue;
        }
        let now = Candidate { density: density(gain(span, &covered), span), span };
        if now.density <= 0.0 {
            continue;
        }
        if heap.peek().is_some_and(|next| *next > now) {
            heap.push(now);
            continue;
        }
        left -= tokens[span];
        covered.extend(terms[span].iter().copied());
        chosen.push(span);
    }
    chosen.sort_unstable();
    chosen
}

/// From so many numbered lines on, a text shows a file, whose lines say little one by one.
const LISTING: usize = 3;

/// The spans of a text without the blanks around them, and whether each is a line of a file that the text shows.
fn spans(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let shows_file = text.lines().filter(|line| is_numbered(line)).nth(LISTING - 1).is_some();
    let is_shown = move |span: &str| {
        // Of an empty line only the number is left.
        shows_file && (is_numbered(span) || span.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut start = 0;
    span_ends(text).into_iter().filter_map(move |end| {
        let span = text[start..end as usize].trim();
        start = end as usize;
        (!span.is_empty()).then(|| (span, is_shown(span)))
    })
}

/// A content word or an atom, by its hash, and whether it is an atom.
pub(super) type Term = (u64, bool);

/// The distinct terms of a span, sorted.
pub(super) fn terms(span: &str) -> Vec<Term> {
    let hash = |text: &str| {
        let hash = blake3::hash(text.as_bytes());
        u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("a hash has 32 bytes"))
    };
    let words = span.split(|c: char| !c.is_alphanumeric()).filter_map(atoms::cue_hash);
    let words = words.map(|word| (u64::from(word), false));
    let mut terms: Vec<Term> =
        words.chain(atoms::occurrences(span).into_iter().map(|atom| (hash(&atom.norm), true))).collect();
    terms.sort_unstable();
    terms.dedup();
    terms
}

/// A span by what it adds for its cost; of equals, the later.
#[derive(PartialEq)]
struct Candidate {
    density: f64,
    span: usize,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.density.total_cmp(&other.density).then(self.span.cmp(&other.span))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(texts: &[&str], budget: u32) -> String {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        summary(&texts, budget, &Tokenizer::load("o200k").unwrap())
    }

    #[test]
    fn what_fits_is_kept_whole_and_once() {
        assert_eq!(
            of(&["The parser fails.\n\n  Look at src/parser.py.\n", "The parser fails."], 100),
            "Look at src/parser.py.\nThe parser fails."
        );
        assert_eq!(of(&[], 100), "");
        assert_eq!(of(&["\n \n"], 100), "");
        assert_eq!(of(&["The parser fails."], 0), "");
    }

    /// Three of the lines are about the parser; `lexer` and `table` stand once.
    #[test]
    fn the_centre_comes_first() {
        let text = "the parser reads src/parser.py\nwell then okay\nthe parser needs src/parser.py and a table\n\
                    the parser calls the lexer\nit was so and not otherwise";
        assert_eq!(of(&[text], 8), "the parser reads src/parser.py");
    }

    #[test]
    fn the_lines_of_a_file_that_is_shown_are_left_out() {
        let file =
            "  11\tfrom parser import table\n  12\t\n  13\tparser = table(4096)\nerror: the parser fails";
        assert_eq!(of(&[file], 100), "error: the parser fails");
        // Two hits of a search, and the answer of a call, are none.
        assert_eq!(of(&["12:parser\n40:table", "244"], 100), "12:parser\n40:table\n244");
    }

    proptest! {
        #[test]
        fn lines_are_verbatim_and_fit(
            texts in prop::collection::vec("([a-z]{1,5}[ \n]|src/[a-z]\\.py |ä|\u{1F600}){0,40}", 0..5),
            budget in 0u32..60,
        ) {
            let tokenizer = Tokenizer::load("o200k").unwrap();
            let summary = summary(&texts, budget, &tokenizer);
            prop_assert!(tokenizer.count(&summary) <= budget);
            for line in summary.lines() {
                prop_assert!(texts.iter().any(|text| text.contains(line)));
            }
        }
    }
}
