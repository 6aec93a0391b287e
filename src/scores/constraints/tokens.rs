//! Words as tokens: values, names, cues, marks of force and negation.

use crate::text::atoms;
use crate::text::lists::WordSet;

use super::english::{Bound, ENGLISH, Mark};
use super::values::{Dim, Value, value};
use super::words::Word;

#[derive(Clone, Debug)]
pub(super) struct Token {
    /// In lower case.
    pub(super) word: String,
    pub(super) stem: String,
    pub(super) role: Role,
    pub(super) is_negated: bool,
    pub(super) opens_clause: bool,
    /// A function word with a capital in the middle of a sentence.
    pub(super) is_astray: bool,
    /// A verb without ending at the head of a sentence.
    pub(super) is_command: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Role {
    Function,
    /// A verb or noun too common to recognise a statement by.
    Light,
    Cue,
    Name,
    Value(Value),
    Mark(Mark),
}

impl Token {
    pub(super) fn value(&self) -> Option<&Value> {
        if let Role::Value(value) = &self.role { Some(value) } else { None }
    }

    pub(super) fn is_unit(&self) -> bool {
        matches!(self.role, Role::Cue | Role::Name)
    }
}

/// Understands the words of a sentence.
pub(super) fn read(words: &[Word]) -> Vec<Token> {
    let mut tokens: Vec<Token> = words.iter().enumerate().map(|(i, w)| token(w, i == 0)).collect();
    let mut i = 0;
    while i < words.len() {
        i += read_value(words, i, &mut tokens).max(1);
    }
    mark(&mut tokens);
    read_abilities(&mut tokens);
    read_changes(&mut tokens);
    bind_values(&mut tokens);
    negate(&mut tokens);
    tokens
}

pub(super) fn token(word: &Word, is_first: bool) -> Token {
    let text = word.text.as_str();
    let is_name = word.is_name || word.is_capital && !is_first;
    let opens_clause = word.opens_clause;
    let is_light = ENGLISH.words.light.has(text);
    let role = if word.is_name {
        Role::Name
    } else if is_light {
        Role::Light
    } else if atoms::cue_hash(text).is_none() && !ENGLISH.words.code_words.has(text) {
        Role::Function
    } else if is_name {
        Role::Name
    } else {
        Role::Cue
    };
    let stem = if word.is_name { text.to_owned() } else { stem(text) };
    let is_command = is_first && !text.ends_with('s') && !text.ends_with("ing") && role == Role::Cue;
    let is_astray = word.is_capital && word.goes_on && role == Role::Function && text.len() > 1;
    let word = text.to_owned();
    Token { word, stem, role, is_negated: false, opens_clause, is_astray, is_command }
}

/// Marks the phrases of force, the longest first.
pub(super) fn mark(tokens: &mut [Token]) {
    let mut i = 0;
    while i < tokens.len() {
        let here = tokens[i..].iter().map(|token| token.word.as_str());
        let is_free = tokens[i].value().is_none();
        let Some((n, mark)) = ENGLISH.marks.longest(here).filter(|_| is_free) else {
            i += 1;
            continue;
        };
        for token in &mut tokens[i..i + n] {
            token.role = Role::Function;
        }
        tokens[i].role = Role::Mark(mark);
        i += n;
    }
}

/// `can` permits only when somebody is addressed or something is done; else it tells what a thing is
/// able to do.
fn read_abilities(tokens: &mut [Token]) {
    for i in 0..tokens.len() {
        let is_at = |k: usize, words: &WordSet| tokens.get(k).is_some_and(|token| is(words, token));
        let w = &ENGLISH.words;
        let permits = is_at(i.wrapping_sub(1), &w.persons) || is_at(i + 1, &w.permitting);
        if is(&w.abilities, &tokens[i]) && !permits {
            tokens[i].role = Role::Function;
        }
    }
}

/// Verbs of changing become one cue, verbs of keeping the same one negated: "must not break" is "must
/// keep".
fn read_changes(tokens: &mut [Token]) {
    for i in 0..tokens.len() {
        let ahead = tokens[i + 1..].iter().take(LEAVE_ALONE).any(|t| is(&ENGLISH.words.alone, t));
        let token = &mut tokens[i];
        let is_kept = is(&ENGLISH.words.kept, token);
        if is_kept || ENGLISH.stems.keeping.has(&token.stem) || token.stem == "leav" && ahead {
            token.is_negated = true;
            token.role = if is_kept { Role::Cue } else { Role::Light };
            token.stem = CHANGE.to_owned();
        } else if matches!(token.role, Role::Cue) && ENGLISH.stems.changing.has(&token.stem) {
            token.stem = CHANGE.to_owned();
        }
    }
}

/// Carries negation from its marks to the words it reaches.
fn negate(tokens: &mut [Token]) {
    for i in 0..tokens.len() {
        let Role::Mark(mark) = tokens[i].role else { continue };
        let behind_auxiliary = i > 0 && is_auxiliary(&tokens[i - 1]) && !tokens[i].opens_clause;
        let both = match mark {
            Mark::Forbidden => true,
            Mark::Not => behind_auxiliary,
            Mark::Avoid | Mark::Rarely => false,
            _ => continue,
        };
        if behind_auxiliary && tokens[i - 1].role == Role::Mark(Mark::Permit) {
            tokens[i - 1].role = Role::Function;
        }
        let end = (i + 1..tokens.len()).find(|&k| ends_scope(tokens, k)).unwrap_or(tokens.len());
        let start = (1..=i).rev().find(|&k| ends_scope(tokens, k)).unwrap_or(0);
        let content = |k: &usize| tokens[*k].is_unit() || tokens[*k].stem == CHANGE;
        if let Some(head) = (i + 1..end).find(content).filter(|&k| tokens[k].stem == CHANGE) {
            tokens[head].is_negated ^= true;
            continue;
        }
        for token in &mut tokens[if both { start } else { i }..end] {
            token.is_negated ^= true;
            if token.role == Role::Mark(Mark::Permit) {
                token.role = Role::Function;
            }
        }
    }
}

fn is_auxiliary(token: &Token) -> bool {
    is(&ENGLISH.words.modals, token) || is(&ENGLISH.words.auxiliaries, token)
}

/// Whether negation does not reach over the beginning of this word.
fn ends_scope(tokens: &[Token], k: usize) -> bool {
    let opens = |t: &Token| matches!(t.role, Role::Mark(_) | Role::Light) || is_auxiliary(t);
    tokens[k].opens_clause
        || tokens[k].word == "but"
        || tokens[k].word == "and" && tokens.get(k + 1).is_some_and(opens)
}

/// Takes endings off: `stored`, `stores` and `storing` are one.
pub(super) fn stem(word: &str) -> String {
    let strip = |word: &mut String, ending: &str, least: usize, put: &str| {
        let fits = word.len() >= least && word.ends_with(ending);
        if fits {
            word.truncate(word.len() - ending.len());
            word.push_str(put);
        }
        fits
    };
    let mut word = word.to_owned();
    if !strip(&mut word, "ies", 5, "y") && !["ss", "us", "is"].iter().any(|e| word.ends_with(e)) {
        strip(&mut word, "s", 4, "");
    }
    let _ = strip(&mut word, "ing", 6, "") || strip(&mut word, "ed", 5, "");
    let mut last = word.chars().rev();
    let doubled = last.next() == last.next() && word.ends_with(|c: char| c.is_ascii_lowercase());
    if doubled && word.len() > 3 {
        word.pop();
    }
    strip(&mut word, "e", 4, "");
    strip(&mut word, "y", 4, "i");
    word
}

/// How far from `leave` the word `alone` may stand.
const LEAVE_ALONE: usize = 5;

/// The stem of all verbs of changing.
pub(super) const CHANGE: &str = "chang";

/// Whether a token is one of these words.
pub(super) fn is(words: &WordSet, token: &Token) -> bool {
    words.has(&token.word)
}

/// Reads a value that begins at a word; answers how many words it takes, 0 when there is none.
fn read_value(words: &[Word], i: usize, tokens: &mut [Token]) -> usize {
    let Some((dim, amount, at, len)) = value(words, i) else { return 0 };
    for token in &mut tokens[i..i + len] {
        token.role = Role::Function;
    }
    tokens[at].role = Role::Value(Value { dim, amount, bound: None });
    len
}

/// Gives each value its bound, and turns it where it is negated: "must not exceed 5" is "at most 5".
fn bind_values(tokens: &mut [Token]) {
    for i in 0..tokens.len() {
        let Some(value) = tokens[i].value().copied() else { continue };
        let Some((at, bound)) = bound_of(tokens, i, value.dim) else { continue };
        let not =
            (at.saturating_sub(NEGATED_BOUND)..at).rev().find(|&k| tokens[k].role == Role::Mark(Mark::Not));
        let is_inside = |not: &usize| !tokens[not + 1..=at].iter().any(|t| t.opens_clause);
        let bound = match not.filter(is_inside) {
            Some(not) if bound != Bound::About => {
                tokens[not].role = Role::Function;
                if bound == Bound::AtMost { Bound::AtLeast } else { Bound::AtMost }
            }
            _ => bound,
        };
        tokens[i].role = Role::Value(Value { bound: Some(bound), ..value });
    }
}

/// The mark that bounds a value: the nearest before it, or a trailing one ("600 words at most").
fn bound_of(tokens: &[Token], i: usize, dim: Dim) -> Option<(usize, Bound)> {
    let bound = |k: usize| match tokens[k].role {
        Role::Mark(Mark::Bound(bound))
            if tokens[k].word != "by" || dim.is_kin(Dim::Date) || dim == Dim::Clock =>
        {
            Some((k, bound))
        }
        _ => None,
    };
    let is_stop = |k: usize| tokens[k].value().is_some();
    let before =
        (i.saturating_sub(BOUND_BEFORE)..i).rev().take_while(|&k| !is_stop(k) && !tokens[k + 1].opens_clause);
    let after = (i + 1..tokens.len().min(i + 1 + BOUND_AFTER)).take_while(|&k| !is_stop(k));
    let trails = |k: &usize| is(&ENGLISH.words.trailing, &tokens[*k]);
    before.filter_map(bound).next().or_else(|| after.filter(trails).filter_map(bound).next())
}

/// How far before and after a value its bound may stand, and before that its negation.
const BOUND_BEFORE: usize = 4;

const BOUND_AFTER: usize = 4;

const NEGATED_BOUND: usize = 5;
