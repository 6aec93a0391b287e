//! Quotations in which a mistake of typing was mended, or something put between brackets.

use std::collections::BTreeSet;

use crate::context::log::Log;
use crate::text::runs::{self, Runs};

/// Shorter runs of words may be another's.
const LEAST: usize = 4;
/// Letters that are another one, too many, or change places.
const MOST: usize = 2;

/// Whether the words of a quotation stand in a step before `until` with one of them spelled a little differently. `sources` are the
/// words of the steps.
pub(super) fn stood_alike(log: &Log, sources: &Runs, quote: &str, until: u32) -> bool {
    let hashes = runs::words(quote);
    let quote: Vec<&str> = words(quote).collect();
    if quote.len() < LEAST {
        return false;
    }
    // Where one word differs, one half stands as it is: steps without either are not read.
    let (first, second) = hashes.split_at(hashes.len() / 2);
    let steps: BTreeSet<usize> = sources.texts_with(first).chain(sources.texts_with(second)).collect();
    steps.range(..until as usize).any(|&step| {
        let said: Vec<&str> = words(&log.trajectory.steps[step].text).collect();
        said.windows(quote.len()).any(|said| is_alike(said, &quote))
    })
}

/// Whether a quotation stands there but for what its author put between brackets (`the checks fail [with errors]`).
pub(super) fn stood_around_brackets(quote: &str, stood: &dyn Fn(&[u64]) -> bool) -> bool {
    let mut parts = Vec::new();
    let mut rest = quote;
    while let Some((before, inside)) = rest.split_once('[') {
        let Some((_, after)) = inside.split_once(']') else { break };
        parts.push(before);
        rest = after;
    }
    let is_cut = !parts.is_empty();
    parts.push(rest);
    let parts: Vec<Vec<u64>> = parts.into_iter().map(runs::words).filter(|words| !words.is_empty()).collect();
    is_cut && parts.iter().map(Vec::len).sum::<usize>() >= LEAST && parts.iter().all(|words| stood(words))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn is_alike(said: &[&str], quote: &[&str]) -> bool {
    let mut others = said.iter().zip(quote).filter(|(a, b)| !a.eq_ignore_ascii_case(b));
    let Some((a, b)) = others.next() else { return true };
    let is_word = |word: &str| word.chars().all(char::is_alphabetic);
    others.next().is_none()
        && is_word(a)
        && is_word(b)
        && strsim::damerau_levenshtein(&a.to_lowercase(), &b.to_lowercase()) <= MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_spelled_differently() {
        let log = Log::script(
            "user: I think by file is to much, thats rigth\naction: ls\nobservation: port 8080 is in use now",
        );
        let sources = Runs::new(log.trajectory.steps.iter().map(|step| &step.text));
        let stood = |quote: &str| stood_alike(&log, &sources, quote, 3);
        assert!(stood("by file is too much") && stood("too much, thats rigth"));
        assert!(!stood_alike(&log, &sources, "port 8080 is in use", 2), "it came later");
        // Another word, two words, a number, and too few words.
        let others = ["by file is never much", "by filed is too much", "port 8081 is in use", "is too much"];
        assert_eq!(others.map(stood), [false; 4]);
    }

    #[test]
    fn what_stands_between_brackets_is_left_out() {
        let sources = Runs::new(["I think the checks still fail on the PR, and why?"]);
        let stood = |quote: &str| stood_around_brackets(quote, &|words| sources.hold(words));
        assert!(
            stood("the checks still fail [with lint errors]")
                && stood("[so] I think the checks [there] still fail")
        );
        let others =
            ["the checks still fail", "the checks still pass [sometimes]", "the PR [of mine]", "a[0] = b[1]"];
        assert_eq!(others.map(stood), [false; 4]);
    }
}
