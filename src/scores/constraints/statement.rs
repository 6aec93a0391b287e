//! Statements, and how strongly they direct something.

use std::ops::Range;

use super::english::{ENGLISH, Mark};
use super::tokens::{CHANGE, Role, Token, is};
use super::words::is_symbol;

/// A clause of so few words goes with the clause beside it.
pub(super) const SHORT_CLAUSE: usize = 4;

/// Not a list, and no word that cannot stand where it stands (`the must`, `of is`, a last `and`).
pub(super) fn is_prose(tokens: &[Token]) -> bool {
    let w = &ENGLISH.words;
    let is_joint = |t: &Token| [&w.articles, &w.modals, &w.joints].iter().any(|words| is(words, t));
    let broken = |i: usize| {
        let (a, b) = (&tokens[i], &tokens[i + 1]);
        let is_verb = is(&w.modals, b) || is(&w.auxiliaries, b) && !(a.word == "to" && is(&w.infinitives, b));
        let bare_be = b.word == "be"
            && !tokens[i.saturating_sub(1)..=i].iter().any(|t| is(&w.before_be, t) || is(&w.modals, t));
        is(&w.articles, a) && (is_verb || is(&w.articles, b) || is(&w.prepositions, b) || b.word == "not")
            || is(&w.prepositions, a)
                && (is_verb || b.stem == CHANGE && b.role == Role::Light && a.word != "to")
            || is(&w.modals, a) && (is(&w.modals, b) || is(&w.prepositions, b) || is(&w.finite, b))
            || a.word == "not" && is(&w.modals, b)
            || bare_be && !b.opens_clause
    };
    let commas = tokens.iter().filter(|t| t.opens_clause).count();
    let starts_with_verb = tokens.first().is_some_and(|t| is(&w.not_first, t));
    tokens.len() >= 3
        && 2 * commas < tokens.len()
        && !starts_with_verb
        && !tokens.iter().any(|t| t.is_astray)
        && !tokens.last().is_some_and(is_joint)
        && !(1..tokens.len()).any(|i| broken(i - 1))
}

/// The rules read English only; a text of content words alone is not known to be.
pub(super) fn is_english(text: &str, tokens: &[Token]) -> bool {
    let w = &ENGLISH.words;
    let knows = |t: &Token| {
        matches!(t.role, Role::Light | Role::Mark(_) | Role::Value(_))
            || [&w.articles, &w.prepositions, &w.auxiliaries].iter().any(|words| is(words, t))
    };
    text.chars().all(|c| c.is_ascii() || !c.is_alphabetic())
        && tokens.iter().any(knows)
        && !tokens.iter().any(|t| is(&w.foreign, t))
}

/// How strong a statement is.
#[derive(Clone, Copy, Default)]
pub(super) struct Force {
    /// 3 must or plain, 2 should, 1 ideally, 0 may.
    pub(super) level: u8,
    pub(super) only: bool,
    pub(super) all: bool,
    pub(super) must: bool,
    pub(super) is_cancelled: bool,
    pub(super) is_directive: bool,
    pub(super) is_report: bool,
    pub(super) is_vague: bool,
}

impl Force {
    pub(super) fn of(tokens: &[Token]) -> Self {
        let has = |mark: Mark| tokens.iter().any(|t| t.role == Role::Mark(mark));
        let must = has(Mark::Must);
        // `only 4 GB` says how little, `up to 4 GB is allowed` how much.
        let excludes = |pair: &[Token]| pair[0].role == Role::Mark(Mark::Only) && pair[1].value().is_none();
        let ends = tokens.last().is_some_and(|t| t.role == Role::Mark(Mark::Only));
        let only = ends || tokens.windows(2).any(excludes);
        let is_bounded = tokens.iter().any(|t| t.value().is_some_and(|v| v.bound.is_some()));
        let level = if has(Mark::Permit) && !only && !is_bounded {
            0
        } else if has(Mark::Soft) || has(Mark::Rarely) {
            1
        } else if has(Mark::Advice) || has(Mark::Avoid) && !must {
            2
        } else {
            3
        };
        let directs = |t: &Token| match t.role {
            Role::Mark(mark) => !matches!(
                mark,
                Mark::Bound(_) | Mark::Soft | Mark::Only | Mark::Report | Mark::Vague | Mark::All
            ),
            _ => is(&ENGLISH.words.imperatives, t),
        };
        Force {
            level,
            only,
            must,
            all: has(Mark::All),
            is_cancelled: has(Mark::Cancel),
            is_directive: tokens.iter().any(directs),
            is_report: has(Mark::Report),
            is_vague: has(Mark::Vague) || level == 1,
        }
    }
}

pub(super) struct Statement<'a> {
    pub(super) text: &'a str,
    /// Where its words stand in those of the piece.
    pub(super) words: Range<usize>,
    pub(super) is_question: bool,
    pub(super) tokens: Vec<Token>,
}

impl Statement<'_> {
    /// Its tokens, each with the place of its word; a symbol has that of the next one.
    fn placed(&self) -> impl Iterator<Item = (usize, &Token)> {
        let mut next = self.words.start;
        self.tokens.iter().map(move |token| {
            let at = next;
            next += usize::from(!is_symbol(&token.word));
            (at, token)
        })
    }

    /// What some statements say with the words at these places alone.
    pub(super) fn of(
        statements: &[Statement<'_>],
        words: Range<usize>,
        counts: impl Fn(usize) -> bool,
    ) -> Self {
        let tokens = statements.iter().flat_map(Statement::placed).filter(|(at, _)| counts(*at));
        let tokens = tokens.map(|(_, token)| token.clone()).collect();
        Statement { text: "", words, is_question: false, tokens }
    }

    /// How many words of meaning and values it has.
    pub(super) fn n_said(&self) -> usize {
        self.tokens.iter().filter(|token| token.is_unit() || token.value().is_some()).count()
    }

    /// The tokens of the clauses from `first` to `last`, and of a short clause before or after them
    /// ("if possible, ...").
    pub(super) fn around(&self, first: usize, last: usize) -> &[Token] {
        let opens = |i: usize| self.tokens[i].opens_clause;
        let back = |from: usize| (1..from).rev().find(|&i| opens(i)).unwrap_or(0);
        let ahead =
            |from: usize| (from + 1..self.tokens.len()).find(|&i| opens(i)).unwrap_or(self.tokens.len());
        let (mut start, mut end) = (back(first + 1), ahead(last));
        if start > 0 && start - back(start) <= SHORT_CLAUSE {
            start = back(start);
        }
        if end < self.tokens.len() && ahead(end) - end <= SHORT_CLAUSE {
            end = ahead(end);
        }
        &self.tokens[start..end]
    }
}

/// Longest statement in words; longer ones are cut.
pub(super) const MAX_WORDS: usize = 60;
