//! The model-free summary: lines of the source, verbatim, that cover most of what it is about.
//!
//! A source is cut into spans (lines, and pieces of long ones; a long line of prose is cut into its sentences, since a part
//! of one may say the opposite of it). Its *terms* are its content words and its atoms; a term in
//! d of N spans weighs ln(1 + d) ln(1 + N/d), an atom [`ATOM`] times as much: so neither what stands everywhere nor what stands
//! once is the centre. Lazy greedy takes the span with the most weight of terms not yet covered, over its tokens to the power
//! of [`COST`], until the budget is full, which leaves repetitions out. Where not one fits, the beginning
//! of the one that weighs most stands for all, and ends with [`CUT`]. Sources: centroid summaries (Radev et al. 2004),
//! coverage as a submodular gain with a scaled cost (Lin and Bilmes 2010).
//!
//! The constants were chosen by need retention on 150 logs of coding agents (`turns` n = 21, keep = 10; a summary of 800
//! tokens an event, 0.048 of the scope): efficiency 0.03, 0.15, 0.21, 0.26, 0.26 at a cost of 1, 0.7, 0.5, 0.3, 0; 0.23,
//! 0.26, 0.29 at an atom of 1, 2, 4, but 0.11, 0.12, 0.09 with 200 tokens.

mod terms;

use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use crate::text::sentences::{is_numbered, statements};
use crate::text::spans::{MAX_CHARS, span_ends};
use crate::text::tokens::Tokenizer;

pub(crate) use terms::{Term, named_terms, terms};

/// How much more than a word an atom weighs.
const ATOM: f64 = 2.0;
/// How much a token costs: 1 takes what weighs most a token, and so mostly scraps; 0 what weighs most.
const COST: f64 = 0.3;
/// What stands for the rest of a piece that was cut.
const CUT: &str = "…";

/// Lines of these texts in their order, of so many tokens at most together.
pub(super) fn summary(texts: &[String], budget: u32, tokenizer: &Tokenizer) -> String {
    // Sentences stand together as far as a span goes, and not where one alone may fit: a token has about 4 characters.
    let most = MAX_CHARS.min((3 * budget as usize).max(1));
    let cut: Vec<(&str, bool)> = texts.iter().flat_map(|text| pieces(text, most)).collect();
    let spans: Vec<&str> = cut.iter().map(|(span, _)| *span).collect();
    // A line's end is a token of its own, except that of the last. A line of a file that is shown never fits.
    let tokens =
        cut.iter().map(|(span, is_shown)| if *is_shown { u32::MAX } else { tokenizer.count_line(span) + 1 });
    let tokens: Vec<u32> = tokens.collect();
    let chosen = choose(&spans, &tokens, budget.saturating_add(1));
    if chosen.is_empty() {
        // At a price of 1 each there is one to be had: the one that weighs most.
        let prices: Vec<u32> = cut.iter().map(|(_, is_shown)| if *is_shown { u32::MAX } else { 1 }).collect();
        let best = choose(&spans, &prices, 1).pop();
        return best.and_then(|best| beginning(spans[best], budget, tokenizer)).unwrap_or_default();
    }
    chosen.into_iter().map(|span| spans[span]).collect::<Vec<_>>().join("\n")
}

/// The spans that cover most for so many tokens at most, in order; `tokens` has those of each.
pub(super) fn choose(spans: &[&str], tokens: &[u32], budget: u32) -> Vec<usize> {
    let numbered = Numbered::of(spans);
    let weights = &numbered.weights;
    let cost: Vec<f64> = tokens.iter().map(|&n| f64::from(n).powf(COST)).collect();
    let density = |span: usize, covered: &[bool]| -> f64 {
        let new = numbered.terms(span).iter().map(|&term| term as usize).filter(|&term| !covered[term]);
        new.map(|term| weights[term]).sum::<f64>() / cost[span]
    };
    let mut covered = vec![false; weights.len()];
    let mut heap: BinaryHeap<Candidate> = (0..spans.len())
        .filter(|&span| tokens[span] <= budget)
        .map(|span| Candidate { density: density(span, &covered), span })
        .collect();
    let (mut left, mut chosen) = (budget, Vec::new());
    // Gains only fall, so a candidate that is still best after an update is the best.
    while let Some(Candidate { span, .. }) = heap.pop() {
        if tokens[span] > left {
            continue;
        }
        let now = Candidate { density: density(span, &covered), span };
        if now.density <= 0.0 {
            continue;
        }
        if heap.peek().is_some_and(|next| *next > now) {
            heap.push(now);
            continue;
        }
        left -= tokens[span];
        numbered.terms(span).iter().for_each(|&term| covered[term as usize] = true);
        chosen.push(span);
    }
    chosen.sort_unstable();
    chosen
}

/// The terms of some spans by number.
struct Numbered {
    /// Of each span, distinct, one span after the other.
    terms: Vec<u32>,
    /// Where those of each span begin.
    starts: Vec<usize>,
    /// Of each term.
    weights: Vec<f64>,
}

impl Numbered {
    fn terms(&self, span: usize) -> &[u32] {
        &self.terms[self.starts[span]..self.starts[span + 1]]
    }

    fn of(spans: &[&str]) -> Self {
        let mut numbers: FxHashMap<Term, u32> = FxHashMap::default();
        // Each term with the spans that hold it.
        let mut known: Vec<(Term, f64)> = Vec::new();
        let mut number = |term: Term| {
            let number = *numbers.entry(term).or_insert(known.len() as u32);
            if number as usize == known.len() {
                known.push((term, 0.0));
            }
            known[number as usize].1 += 1.0;
            number
        };
        let (mut all, mut starts) = (Vec::new(), vec![0]);
        for span in spans {
            all.extend(terms(span).iter().map(|&term| number(term)));
            starts.push(all.len());
        }
        let n = spans.len() as f64;
        // Most terms stand in few spans.
        let mut by_frequency: Vec<Option<f64>> = vec![None; spans.len() + 1];
        let weight = |&(term, d): &(Term, f64)| {
            let weight = by_frequency[d as usize].get_or_insert_with(|| d.ln_1p() * (n / d).ln_1p());
            *weight * if term.1 { ATOM } else { 1.0 }
        };
        Numbered { terms: all, starts, weights: known.iter().map(weight).collect() }
    }
}

/// From so many numbered lines on, a text shows a file, whose lines say little one by one.
const LISTING: usize = 3;

/// The pieces of a text without the blanks around them, and whether each is a line of a file that the text shows: spans, or
/// in a long line of prose whole sentences, as many as so many characters hold.
fn pieces(text: &str, most: usize) -> Vec<(&str, bool)> {
    let shows_file = text.lines().filter(|line| is_numbered(line)).nth(LISTING - 1).is_some();
    let is_shown = |span: &str| {
        // Of an empty line only the number is left.
        shows_file && (is_numbered(span) || span.bytes().all(|b| b.is_ascii_digit()))
    };
    let (mut pieces, mut spans): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let (mut line, mut start) = (0, 0);
    for end in span_ends(text).into_iter().map(|end| end as usize) {
        spans.push(text[start..end].trim());
        start = end;
        // A span that ends before its line does is a piece of it.
        if end < text.len() && !text[..end].ends_with('\n') {
            continue;
        }
        let whole = text[line..end].trim();
        line = end;
        match (spans.len() > 1 && !is_shown(whole)).then(|| prose(whole, most)).flatten() {
            Some(sentences) => pieces.extend(sentences),
            None => pieces.extend(&spans),
        }
        spans.clear();
    }
    pieces.retain(|piece| !piece.is_empty());
    // A call begins with the bare name of its tool.
    let is_name = |piece: &str| piece.bytes().all(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'-'));
    let names = usize::from(pieces.len() > 1 && is_name(pieces[0]));
    pieces.into_iter().skip(names).map(|piece| (piece, is_shown(piece))).collect()
}

/// The sentences of a line of prose, with what a tool put before the first; neighbours of so many characters at most together
/// are one piece; none if it is no prose: too few of its words are
/// plain ones, or something of it is in no sentence of a bearable length (names and values of JSON, say).
fn prose(line: &str, most: usize) -> Option<Vec<&str>> {
    let is_end = |c: char| c.is_whitespace() || !c.is_ascii() && !c.is_alphanumeric();
    let (mut words, mut plain) = (0, 0);
    for word in line.split(is_end).filter(|word| !word.is_empty()) {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        words += 1;
        plain += usize::from(
            !bare.is_empty() && bare.chars().all(|c| c.is_alphabetic() || matches!(c, '\'' | '-')),
        );
    }
    if words < FEW_WORDS || 3 * plain < 2 * words {
        return None;
    }
    let found = statements(line, false);
    let starts = std::iter::once(0).chain(found.iter().skip(1).map(|statement| statement.start));
    let ends = found.iter().skip(1).map(|statement| statement.start).chain([line.len()]);
    let left_out = |(statement, end): (&std::ops::Range<usize>, usize)| {
        line[statement.end..end].contains(char::is_alphanumeric)
    };
    if found.is_empty() || found.iter().zip(ends.clone()).any(left_out) {
        return None;
    }
    // Each piece with its characters.
    let mut pieces: Vec<(std::ops::Range<usize>, usize)> = Vec::new();
    for (start, end) in starts.zip(ends) {
        let chars = line[start..end].chars().count();
        match pieces.last_mut() {
            Some((piece, sum)) if *sum + chars <= most => (piece.end, *sum) = (end, *sum + chars),
            _ => pieces.push((start..end, chars)),
        }
    }
    Some(pieces.into_iter().map(|(piece, _)| line[piece].trim()).collect())
}

/// Words that a line of prose has at least.
const FEW_WORDS: usize = 4;

/// The words at the beginning of a piece that fit so many tokens together with [`CUT`]; none if not even one does.
fn beginning(piece: &str, budget: u32, tokenizer: &Tokenizer) -> Option<String> {
    let spaces = piece.match_indices(char::is_whitespace).map(|(at, _)| at);
    let ends: Vec<usize> = spaces.filter(|&at| !piece[..at].ends_with(char::is_whitespace)).collect();
    let cut = |end: usize| format!("{}{CUT}", &piece[..end]);
    let fits = |end: usize| tokenizer.count(&cut(end)) <= budget;
    // Tokens grow with the text but for a few at its end: the search comes near, and then walks back.
    let near = ends.partition_point(|&end| fits(end));
    ends[..near].iter().rev().find(|&&end| fits(end)).map(|&end| cut(end))
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

    #[test]
    fn the_name_of_a_tool_is_left_out() {
        let calls = ["search_papers\nquery: lakes", "fetch\nmia_li_3668", "fetch", "total-of 3\nrivers"];
        assert_eq!(of(&calls, 100), "query: lakes\nmia_li_3668\nfetch\ntotal-of 3\nrivers");
    }

    /// Three of the lines are about the parser; `lexer` and `table` stand once.
    #[test]
    fn the_centre_comes_first() {
        let text = "the parser reads src/parser.py\nwell then okay\nthe parser needs src/parser.py and a table\n\
                    the parser calls the lexer\nit was so and not otherwise";
        assert_eq!(of(&[text], 8), "the parser reads src/parser.py");
    }

    /// A report on one line: `**Night**` ends before the 200th character, where spans are cut.
    fn report() -> String {
        let day = "Day temperatures fell in the treated groups by a mean of almost two degrees, and they stayed there \
                   until the recovery had been completed in all of the animals that we could follow. ";
        let report = format!("{day}**Night** temperatures did not differ between any of the groups.");
        assert!(day.len() + "**Night**".len() <= 200 && report.len() > 240, "{}", day.len());
        report
    }

    #[test]
    fn sentences_of_prose_stay_whole() {
        let report = report();
        let (day, night) = report.split_at(report.find("**Night**").unwrap());
        assert_eq!(prose(&report, 200).unwrap(), [day.trim(), night]);
        // The second sentence alone fits: 14 tokens at most, and the first has about 30.
        assert_eq!(of(&[&report], 16), night);
        assert_eq!(of(&[&report], 200), format!("{}\n{night}", day.trim()));
        // What stands before the first sentence stays with it.
        let noted = format!("- {report}");
        assert_eq!(prose(&noted, 200).unwrap(), [&noted[..2 + day.trim().len()], night]);
        // A short line is one piece, however many sentences it has.
        assert_eq!(of(&["It broke. We know why."], 100), "It broke. We know why.");
    }

    #[test]
    fn what_is_no_prose_is_cut_into_spans() {
        let json = format!("{{\"note\": \"{}\", \"count\": 244}}", report());
        let rows = "src/a.py:12 src/b.py:40 ok 4711 ".repeat(12);
        let words = "word ".repeat(200);
        for line in [json.as_str(), &rows, &words, &"x9K/".repeat(100), "{}"] {
            assert_eq!(prose(line, 200), None, "{line}");
            let spans = span_ends(line).len();
            assert_eq!(pieces(line, 200).len(), spans, "{line}");
        }
        let chinese =
            "我先看一下所有的书架和房间，这需要相当长的一段时间，请稍等，我会尽快告诉您结果。".repeat(6);
        // As many as there is room for, or one that is longer than that.
        let n = |most: usize| pieces(&chinese, most).len();
        let one = chinese.chars().count() / 6;
        assert_eq!(
            (n(one), n(2 * one), n(2 * one - 1), n(200), n(1)),
            (6, 3, 6, 6_usize.div_ceil(200 / one), 6)
        );
    }

    #[test]
    fn where_nothing_fits_the_best_is_cut_at_a_word() {
        // The name would make it at least 7 tokens.
        let long = "the parser reads src/parser.py and src/lexer.py one after the other";
        assert_eq!(of(&[long], 6), "the parser reads…");
        assert_eq!(of(&["the parser fails", long], 4), "the parser fails");
        // Of several the one that weighs most.
        let two = format!("{}\n{}", report(), report().replace("Day", "Our src/a.py says: day"));
        assert!(of(&[&two], 8).starts_with("Our src/a.py") && of(&[&two], 8).ends_with('…'));
        // A file that is shown, a word that does not fit.
        assert_eq!(of(&["1:the parser\n2:reads it\n3:and calls the lexer"], 3), "");
        assert_eq!(of(&["antidisestablishmentarianism-pneumonoultramicroscopic"], 2), "");
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
            texts in prop::collection::vec("([a-z]{1,9}[ .] ?|\n|src/[a-z]\\.py |ä|\u{1F600}){0,80}", 0..5),
            budget in 0u32..60,
        ) {
            let tokenizer = Tokenizer::load("o200k").unwrap();
            let summary = summary(&texts, budget, &tokenizer);
            prop_assert!(tokenizer.count(&summary) <= budget);
            for line in summary.lines() {
                let line = line.strip_suffix(CUT).unwrap_or(line);
                prop_assert!(texts.iter().any(|text| text.contains(line)));
            }
        }
    }
}
