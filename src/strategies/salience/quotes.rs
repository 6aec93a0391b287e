//! Finds where a quotation stands in the source, and mends one that nearly does.
//!
//! First as it is; then with white space, case and quotation marks set aside; then the nearest statement by shared
//! words (Dice of the two bags at least [`NEAR`]), which then stands in its place. A quotation that is near nothing is
//! not found. What is kept is always the source's own text.

use std::collections::HashMap;
use std::ops::Range;

use super::candidates::Candidate;
use crate::text::sentences::MAX_CHARS;

/// From so much agreement on, a statement is what the quotation meant.
const NEAR: f64 = 0.6;

/// Where a quotation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) step: u32,
    pub(crate) bytes: Range<u32>,
    /// The source says it in other words: this is the nearest statement.
    pub(crate) is_repaired: bool,
}

/// Texts to look in.
pub(crate) struct Texts<'a> {
    texts: Vec<(u32, &'a str)>,
    /// Folded, each with the byte where every byte of it comes from; made when first needed.
    folded: Vec<Option<Folded>>,
    statements: &'a [Candidate<'a>],
    bags: Vec<HashMap<u64, u32>>,
}

struct Folded {
    text: String,
    from: Vec<u32>,
}

impl<'a> Texts<'a> {
    /// Steps with their texts, and their statements.
    pub(crate) fn new(texts: Vec<(u32, &'a str)>, statements: &'a [Candidate<'a>]) -> Self {
        let folded = texts.iter().map(|_| None).collect();
        let bags = statements.iter().map(|statement| bag(statement.text)).collect();
        Texts { texts, folded, statements, bags }
    }

    /// Where the quotation stands, or what is nearest to it; of equals the first.
    pub(crate) fn locate(&mut self, quote: &str) -> Option<Place> {
        let quote = clipped(quote.trim());
        let quote = quote.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '“' | '”'));
        if !is_enough(quote) {
            return None;
        }
        let place = |step: u32, start: usize, end: usize, is_repaired| {
            Some(Place { step, bytes: start as u32..end as u32, is_repaired })
        };
        for (step, text) in &self.texts {
            if let Some(at) = text.find(quote) {
                return place(*step, at, at + quote.len(), false);
            }
        }
        let wanted = fold(quote);
        let wanted = wanted.text.trim_matches(|c: char| !c.is_alphanumeric());
        for ((step, text), folded) in self.texts.iter().zip(&mut self.folded) {
            let folded = folded.get_or_insert_with(|| fold(text));
            if wanted.is_empty() {
                break;
            }
            if let Some(at) = folded.text.find(wanted) {
                let start = folded.from[at] as usize;
                let last = folded.from[at + wanted.len() - 1] as usize;
                let end = last + text[last..].chars().next().map_or(1, char::len_utf8);
                return place(*step, start, end, false);
            }
        }
        let (near, agreement) = self.nearest(&bag(quote))?;
        let statement = &self.statements[near];
        let (start, end) = (statement.bytes.start as usize, statement.bytes.end as usize);
        if agreement >= NEAR { place(statement.step, start, end, true) } else { None }
    }

    /// The statement that shares most words with a bag, and how much: twice the shared words by all words.
    fn nearest(&self, wanted: &HashMap<u64, u32>) -> Option<(usize, f64)> {
        let size = |bag: &HashMap<u64, u32>| bag.values().sum::<u32>();
        let agreement = |bag: &HashMap<u64, u32>| {
            let shared: u32 = wanted.iter().filter_map(|(word, n)| bag.get(word).map(|m| *n.min(m))).sum();
            f64::from(2 * shared) / f64::from((size(bag) + size(wanted)).max(1))
        };
        let mut best: Option<(usize, f64)> = None;
        for (at, bag) in self.bags.iter().enumerate() {
            let agreement = agreement(bag);
            if best.is_none_or(|(_, most)| agreement > most) {
                best = Some((at, agreement));
            }
        }
        best
    }
}

/// From so many characters on a passage may have been cut: statements are at [`MAX_CHARS`], and what a model is shown of
/// one is at 300, of which it may drop marks at the ends.
const LONG: usize = 280;

/// Whether a long passage ends where its sentence goes on in the same line.
pub(super) fn is_cut(text: &str, bytes: &Range<u32>) -> bool {
    let (start, end) = (bytes.start as usize, bytes.end as usize);
    let (Some(passage), Some(rest)) = (text.get(start..end), text.get(end..)) else { return false };
    if passage.chars().count() < LONG || !rest.chars().take_while(|c| *c != '\n').any(char::is_alphanumeric) {
        return false;
    }
    let ends = |text: &str| {
        let bare = text.trim_end_matches(['"', '”', '\'', ')', ']', '*']);
        (bare.ends_with(['.', '!', '?']), bare.ends_with(['。', '！', '？']))
    };
    let (is_full, is_wide) = ends(passage);
    let marks = rest.find(|c: char| c.is_alphanumeric() || c.is_whitespace()).unwrap_or(rest.len());
    let after = ends(&rest[..marks]);
    // The end of a text within JSON is one, too.
    !(is_wide
        || is_full && rest.starts_with(char::is_whitespace)
        || after.0
        || after.1
        || rest.starts_with('"'))
}

/// Whether a text can be told from others: two words, or something with a digit.
fn is_enough(text: &str) -> bool {
    let words = text.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count();
    let is_unspaced = text.chars().filter(|c| !c.is_ascii() && c.is_alphabetic()).count() > 5;
    words > 1 || is_unspaced || text.chars().count() > 3 && text.bytes().any(|b| b.is_ascii_digit())
}

/// The beginning of a text that is too long, up to a space.
fn clipped(text: &str) -> &str {
    match text.char_indices().nth(MAX_CHARS) {
        Some((limit, _)) => text[..text[..limit].rfind(char::is_whitespace).unwrap_or(limit)].trim_end(),
        None => text,
    }
}

fn bag(text: &str) -> HashMap<u64, u32> {
    let mut bag = HashMap::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let hash = word.chars().flat_map(char::to_lowercase).fold(0xcbf2_9ce4_8422_2325, |hash: u64, c| {
            (hash ^ u64::from(u32::from(c))).wrapping_mul(0x0100_0000_01b3)
        });
        *bag.entry(hash).or_default() += 1;
    }
    bag
}

/// A text in lower case with plain quotation marks and single spaces.
fn fold(text: &str) -> Folded {
    let mut folded = Folded { text: String::with_capacity(text.len()), from: Vec::with_capacity(text.len()) };
    for (at, c) in text.char_indices() {
        let before = folded.text.len();
        match c {
            c if c.is_whitespace() => {
                if !folded.text.ends_with(' ') {
                    folded.text.push(' ');
                }
            }
            '“' | '”' | '„' | '«' | '»' => folded.text.push('"'),
            '’' | '‘' => folded.text.push('\''),
            c => folded.text.extend(c.to_lowercase()),
        }
        folded.from.resize(folded.text.len(), at as u32);
        debug_assert!(before <= folded.text.len());
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::super::candidates::candidates;
    use super::*;
    use crate::context::log::Log;

    fn log() -> Log {
        Log::script(
            "user: Hi! The limit is  $500,~and “no pets”. Größe bleibt.
             observation: server at 10.0.0.1 answers~the deadline for the repair is 7 October and it cannot move",
        )
    }

    fn locate(quote: &str) -> Option<(u32, String, bool)> {
        let log = log();
        let statements = candidates(&log, &[0, 1]);
        let texts = [0, 1].map(|step| (step, log.trajectory.steps[step as usize].text.as_str())).to_vec();
        let place = Texts::new(texts, &statements).locate(quote)?;
        let text = &log.trajectory.steps[place.step as usize].text;
        Some((
            place.step,
            text[place.bytes.start as usize..place.bytes.end as usize].to_owned(),
            place.is_repaired,
        ))
    }

    #[test]
    fn quotations_are_found_as_they_are_or_with_other_blanks_and_marks() {
        assert_eq!(locate("at 10.0.0.1 answers"), Some((1, "at 10.0.0.1 answers".to_owned(), false)));
        assert_eq!(
            locate("the LIMIT is $500, and \"no pets\"."),
            Some((0, "The limit is  $500,\nand “no pets".to_owned(), false))
        );
        assert_eq!(locate("GRÖSSE").map(|found| found.1), None);
        assert_eq!(locate("größe bleibt"), Some((0, "Größe bleibt".to_owned(), false)));
    }

    #[test]
    fn near_ones_are_repaired_and_others_are_not_found() {
        // Eight words of nine and ten agree: Dice 16/19.
        let whole = "the deadline for the repair is 7 October and it cannot move";
        assert_eq!(
            locate("deadline for repair is 8 October and it cannot move"),
            Some((1, whole.to_owned(), true))
        );
        for quote in ["the moon is made of cheese", "", "\"\"", "it", "the", "..."] {
            assert_eq!(locate(quote), None, "{quote}");
        }
    }

    #[test]
    fn a_passage_is_cut_where_its_sentence_goes_on() {
        let long = "not in street 7, ".repeat(30);
        let cut = |passage: &str, rest: &str| {
            let (before, passage) = ("Hm. ", passage.trim());
            let bytes = before.len() as u32..(before.len() + passage.len()) as u32;
            is_cut(&format!("{before}{passage}{rest}"), &bytes)
        };
        assert!(
            cut(&long, " not in street 8.") && cut(&long, "and so on") && cut(&"x9K/".repeat(150), "x9K")
        );
        // A new sentence, a new line, the end of a text in JSON, and marks at the end that a model left out.
        for (end, rest) in [
            (".", " It rains."),
            ("!\"", " It rains."),
            ("。", "图片"),
            ("", "\nIt rains."),
            ("", "\", \"b\": 1"),
            ("", ". It rains."),
            ("", ""),
            ("", " ..."),
        ] {
            assert!(!cut(&format!("{long}end{end}"), rest), "{end}{rest}");
        }
        // What is short was chosen so.
        assert!(!cut("not in street 7", " and not in 8"));
        assert!(!is_cut("é", &(0..1)) && !is_cut("", &(4..9)));
    }

    #[test]
    fn a_long_quotation_is_cut() {
        let text = format!("start {}", "word ".repeat(2000));
        let texts = vec![(3, text.as_str())];
        let place = Texts::new(texts, &[]).locate(&text).unwrap();
        assert!(place.step == 3 && place.bytes.start == 0 && (place.bytes.end as usize) <= MAX_CHARS);
    }
}
