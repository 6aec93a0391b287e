//! Whether the agent says that its work is done.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::lists::{self, WordSet};
use crate::text::phrases::{Phrases, is_end, words};
use crate::turns::intents::Pieces;

use super::Facts;

/// Bytes at either end of what the agent says that are read.
pub(super) const PROSE: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Says {
    Complete,
    /// The same, if nothing follows that makes it something else.
    CompleteIf,
    /// Turns to something else.
    Next,
    /// The same, if a verb of making follows.
    NextIf,
}

/// Reads what the agent says.
pub(super) fn said(text: &str, facts: &mut Facts, pieces: &mut Pieces) {
    let head = &text[..text.floor_char_boundary(PROSE)];
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(PROSE)).max(head.len())..];
    for part in [head, tail].into_iter().filter(|part| !part.is_empty()) {
        pieces.said(part);
        let lower = part.to_lowercase().replace('\u{2019}', "'");
        let words = words(&lower);
        CLAIMS.says.visit(&words, |at, end, says| match says {
            Says::Complete => facts.says_complete |= is_claimed(&words[..at], &words[end - 1..]),
            // "is resolved relative to", "tests pass a list".
            Says::CompleteIf => {
                let last = words[end - 1];
                let behind = (last.as_ptr() as usize + last.len()).checked_sub(lower.as_ptr() as usize);
                let mark = behind.and_then(|at| lower.get(at..)?.trim_start().chars().next());
                let is_broken = mark.is_none_or(|c| !c.is_alphanumeric() && !['`', '\'', '"'].contains(&c));
                let stops = is_broken || words.get(end).is_none_or(|next| CLAIMS.words.stops.has(next));
                facts.says_complete |= stops && is_claimed(&words[..at], &words[end - 1..]);
            }
            Says::Next => facts.says_next = true,
            Says::NextIf => {
                let is_making = words.get(end).is_some_and(|verb| CLAIMS.words.making.has(verb));
                // "make sure", "start by reading".
                let is_study = words.get(end + 1).is_some_and(|next| CLAIMS.words.study.has(next));
                facts.says_next |= is_making && !is_study;
            }
        });
    }
}

/// Whether what follows the one words and ends with the other is said to be so, and not asked for, doubted or denied.
fn is_claimed(before: &[&str], from_end: &[&str]) -> bool {
    let words = &CLAIMS.words;
    let mut sentence = before.iter().rev().take(6).take_while(|w| !is_end(w));
    let mut rest = from_end.iter().skip_while(|w| !is_end(w) && !words.undone.has(w));
    let is_told = rest.next().is_none_or(|w| *w == ".");
    // "All tests pass. However, ..."
    is_told && !sentence.any(|w| words.doubts.has(w)) && !rest.next().is_some_and(|w| words.undone.has(w))
}

static CLAIMS: LazyLock<Claims> = LazyLock::new(|| lists::read(include_str!("../data/words/claims.en.toml")));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    says: Phrases<Says>,
    words: ClaimWords,
}

/// The file says what each is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimWords {
    doubts: WordSet,
    undone: WordSet,
    stops: WordSet,
    making: WordSet,
    study: WordSet,
}
