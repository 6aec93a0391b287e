//! What became of an annotated constraint in a compressed context, decided by rules.
//!
//! Both texts are read into *statements* (sentences, or lines) of tokens: values with their unit and
//! bound, names, cues (stemmed content words), marks of force (must, should, ideally, may, only, at
//! most, no longer needs to) and negation. A statement is about the constraint when it holds at least
//! 2/3 of its cues and names (1/2 if an equal value stands there too), reads as prose, and keeps one of
//! its neighbouring pairs in order. Then, in this order:
//!
//! - *contradicted*: the negation of most of the shared words differs and the statement directs
//!   something; or the bound of an equal value is turned; or the constraint is cancelled;
//! - *mutated*: a value of the same dimension, or a name between the same neighbours, is another;
//! - *weakened*: force is lower (must > should > ideally > may), `only` is lost, an equal value became
//!   approximate, or a missing value became a vague word (soon);
//! - *preserved*: the words stand there, or those of the sentence that states it in the log where its own do not: case,
//!   quotes, punctuation, white space and Markdown aside;
//! - *paraphrased*: every value, every name and the negation survive;
//! - otherwise nothing is said, and a constraint of which nothing is said is *dropped*.
//!
//! A statement is judged by itself. One that stands word for word in the log was changed by nobody: it holds the
//! constraint or says nothing of it ([`Beside`]), and words beside a copy count where they are its writer's own. What is
//! quoted of another constraint, and what is nearer to another one that is in force, is about that one. Of all
//! annotated constraints of `datasets/`, copied in ten forms, alone, in lists and in their sentences, all are preserved.
//!
//! The worst statement of a text counts. Only where the constraint has less than two words to be
//! recognised by ("at most 90 euros") does a right copy outweigh one that may be about something else.
//!
//! Measured on `datasets/golden/constraint_pairs.toml`, written by one hand: all 107 open pairs (before
//! any tuning 67 of the first 87, then 17 of the next 20), 18 of the 20 held out, none of the 12 hard
//! ones, which need synonyms or knowledge of the world (10 come out as dropped, 2 as preserved). The
//! held-out pairs were written before the rules and by their author, so expect less on texts of others.
//! Of shuffled contexts 19 % still hold when one context is shuffled by itself (few words have few
//! orders), 3 % when all are shuffled together.
//!
//! Limits: English only; a constraint in another language, or of content words alone, is preserved or
//! dropped. No synonyms but change, break and leave against keep and stay. An exception behind the exact
//! words ("on average") is not seen. A date agrees with a weekday if it falls on one. A bound may be left
//! out ("budget: $500"). A statement longer than 60 words is cut. A constraint of a bound and nothing else
//! ("at most 90 euros"), lost, takes another limit of that dimension for its own: mutated, not dropped.
//! Newer constraints that supersede this one are for the caller to leave out.
//!
//! Source: DESIGN section 8, ours.

use std::ops::Range;

use serde::Deserialize;

use crate::text::runs::{Runs, hash};

mod compared;
mod english;
mod statement;
mod tokens;
mod values;
mod words;

use compared::{Compared, Finding};
use statement::{Force, MAX_WORDS, Statement, is_english};
use tokens::{Token, read, stem};
use words::{Word, is_symbol, sentences, split};

/// What became of a constraint, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Contradicted,
    Mutated,
    Weakened,
    Preserved,
    Paraphrased,
    Dropped,
}

/// Names of the outcomes, by index.
pub const NAMES: [&str; 6] = ["contradicted", "mutated", "weakened", "preserved", "paraphrased", "dropped"];

impl Outcome {
    pub const ALL: [Outcome; 6] = [
        Outcome::Contradicted,
        Outcome::Mutated,
        Outcome::Weakened,
        Outcome::Preserved,
        Outcome::Paraphrased,
        Outcome::Dropped,
    ];

    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// Whether an agent that reads the context still knows the constraint.
    pub fn held(self) -> bool {
        matches!(self, Outcome::Preserved | Outcome::Paraphrased)
    }
}

/// An outcome with the statement that decided it; none when dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    pub outcome: Outcome,
    pub evidence: Option<&'a str>,
}

/// A context, read once and asked about many constraints.
pub struct Prepared<'a> {
    pieces: Vec<Piece<'a>>,
}

struct Piece<'a> {
    /// The words of all statements, one after the other.
    words: Vec<u64>,
    statements: Vec<Statement<'a>>,
}

impl<'a> Prepared<'a> {
    /// `pieces` are texts that follow each other; no statement goes over the end of one.
    pub fn new(pieces: impl IntoIterator<Item = &'a str>) -> Self {
        Prepared { pieces: pieces.into_iter().map(Piece::new).collect() }
    }

    fn statements(&self) -> impl Iterator<Item = (&Piece<'a>, &Statement<'a>)> {
        self.pieces.iter().flat_map(|piece| piece.statements.iter().map(move |statement| (piece, statement)))
    }

    /// The words of each piece.
    pub(super) fn words(&self) -> impl Iterator<Item = &[u64]> {
        self.pieces.iter().map(|piece| piece.words.as_slice())
    }
}

impl<'a> Piece<'a> {
    fn new(text: &'a str) -> Self {
        let mut piece = Piece { words: Vec::new(), statements: Vec::new() };
        for sentence in sentences(text) {
            let words = split(sentence);
            for chunk in words.chunks(MAX_WORDS) {
                let at = piece.words.len();
                piece.words.extend(said(chunk));
                let text = &sentence[chunk[0].start..chunk[chunk.len() - 1].end];
                piece.statements.push(Statement {
                    text,
                    words: at..piece.words.len(),
                    is_question: sentence.ends_with('?'),
                    tokens: read(chunk),
                });
            }
        }
        piece
    }

    /// Where the constraint stands word for word.
    fn copies(&self, constraint: &Constraint) -> Vec<Range<usize>> {
        let of = |quote: &Vec<u64>| {
            let n = quote.len().max(1);
            let starts = self.words.windows(n).enumerate().filter(|(_, run)| run == quote);
            starts.map(|(at, _)| at..at + n).collect::<Vec<_>>()
        };
        constraint.quotes.iter().flat_map(of).collect()
    }

    /// The statements that these words go over.
    fn over(&self, words: &Range<usize>) -> Range<usize> {
        let first = self.statements.partition_point(|s| s.words.end <= words.start);
        first..self.statements.partition_point(|s| s.words.start < words.end).max(first)
    }
}

/// The words of a text as hashes, without symbols that no one speaks.
fn said(words: &[Word]) -> impl Iterator<Item = u64> {
    words.iter().filter(|word| !is_symbol(&word.text)).map(|word| hash(&word.text))
}

/// A constraint with what it is recognised by.
pub struct Constraint {
    /// What is a copy of it: its own words, and where its log has them nowhere those of the sentence that states it.
    quotes: Vec<Vec<u64>>,
    tokens: Vec<Token>,
    /// Cues and names, in order, each once.
    units: Vec<usize>,
    values: Vec<usize>,
    force: Force,
    topic: String,
    is_english: bool,
}

impl Constraint {
    /// `text` is the constraint as it was said, `category` one word for what it is about (or empty).
    pub fn new(text: &str, category: &str) -> Self {
        let words: Vec<Word> = sentences(text).flat_map(split).collect();
        let tokens = read(&words[..words.len().min(MAX_WORDS)]);
        let mut units: Vec<usize> = Vec::new();
        for (i, token) in tokens.iter().enumerate() {
            if token.is_unit() && !units.iter().any(|&u| tokens[u].stem == token.stem) {
                units.push(i);
            }
        }
        let values = (0..tokens.len()).filter(|&i| tokens[i].value().is_some()).collect();
        let own: Vec<u64> = said(&words).collect();
        Constraint {
            quotes: if own.is_empty() { Vec::new() } else { vec![own] },
            force: Force::of(&tokens),
            is_english: is_english(text, &tokens),
            topic: stem(&category.to_lowercase()),
            tokens,
            units,
            values,
        }
    }
}

/// What is known beside a constraint and the text in which it is looked for.
#[derive(Clone, Copy, Default)]
pub struct Beside<'a> {
    /// The words of the log: a statement of them is a quotation, and nothing that its writer changed.
    pub(super) log: Option<&'a Runs>,
    /// All constraints of the run, this one too: what is quoted of one says nothing of another.
    pub quoted: &'a [&'a Constraint],
    /// Those of them that are in force: a statement that is nearer to one of them is about that one.
    pub in_force: &'a [&'a Constraint],
}

/// Decides what became of the constraint, sentence by sentence. Linear in the text.
pub fn outcome<'a>(constraint: &Constraint, prepared: &Prepared<'a>, beside: &Beside<'_>) -> Verdict<'a> {
    let mut found: Vec<(Finding, &'a str)> = Vec::new();
    for piece in &prepared.pieces {
        let mut is_copied = vec![false; piece.statements.len()];
        for copy in piece.copies(constraint) {
            let over = piece.over(&copy);
            is_copied[over.clone()].fill(true);
            let text = piece.statements.get(over.start).map_or("", |first| first.text);
            found.push((constraint.copied(piece, &copy, beside), text));
        }
        for (statement, _) in piece.statements.iter().zip(is_copied).filter(|(_, is_copied)| !is_copied) {
            let finding = constraint.told(piece, statement, beside);
            found.extend(finding.map(|finding| (finding, statement.text)));
        }
    }
    let is_held = found.iter().any(|(f, _)| f.outcome.held());
    let worst = found
        .into_iter()
        .filter(|(f, _)| f.is_sure || !is_held || f.outcome.held())
        .min_by_key(|(f, _)| f.outcome);
    match worst {
        Some((finding, text)) => Verdict { outcome: finding.outcome, evidence: Some(text) },
        None => Verdict { outcome: Outcome::Dropped, evidence: None },
    }
}

/// Whether copied text holds the constraint, and how: preserved, paraphrased or dropped. What reads there like another
/// version of it stood in the log like that.
pub fn held(constraint: &Constraint, prepared: &Prepared<'_>) -> Outcome {
    if is_copied(constraint, prepared) {
        return Outcome::Preserved;
    }
    let is_held = |(piece, statement): (&Piece<'_>, &Statement<'_>)| {
        let finding = constraint.told(piece, statement, &Beside::default());
        finding.is_some_and(|finding| finding.outcome.held())
    };
    if prepared.statements().any(is_held) { Outcome::Paraphrased } else { Outcome::Dropped }
}

/// The statements that share most words, names and values with the constraint, at most so many, in the order of the texts; of
/// equal ones the first. None that share nothing. Linear in the texts.
pub fn nearest<'a>(constraint: &Constraint, texts: &[&Prepared<'a>], most: usize) -> Vec<&'a str> {
    let statements = texts.iter().flat_map(|text| &text.pieces).flat_map(|piece| &piece.statements);
    let shared = |statement: &Statement| {
        Some(Compared::new(constraint, statement)?.n_shared()).filter(|shared| *shared > 0)
    };
    let mut found: Vec<(usize, usize, &'a str)> = statements
        .enumerate()
        .filter_map(|(at, statement)| Some((shared(statement)?, at, statement.text)))
        .collect();
    found.sort_by_key(|&(shared, at, _)| (std::cmp::Reverse(shared), at));
    found.truncate(most);
    found.sort_by_key(|&(_, at, _)| at);
    found.into_iter().map(|(.., text)| text).collect()
}

/// Whether the words of the constraint stand there, one after the other.
pub fn is_copied(constraint: &Constraint, text: &Prepared<'_>) -> bool {
    text.pieces.iter().any(|piece| !piece.copies(constraint).is_empty())
}

// ---- comparing a constraint with a statement ----

impl Constraint {
    /// Who quotes the exact words may still take them back or soften them: with words beside them that stand there neither
    /// in the log nor in another constraint.
    fn copied(&self, piece: &Piece<'_>, copy: &Range<usize>, beside: &Beside<'_>) -> Finding {
        let preserved = Finding { outcome: Outcome::Preserved, is_sure: true };
        let statements = &piece.statements[piece.over(copy)];
        let (Some(first), Some(last)) = (statements.first(), statements.last()) else { return preserved };
        let bounds = first.words.start..last.words.end;
        let said = beside.log.map_or(copy.clone(), |log| log.grown(&piece.words, copy, &bounds));
        let quoted = self.quoted_beside(piece, &bounds, beside);
        let is_own = |at: usize| !said.contains(&at) && !quoted.iter().any(|words| words.contains(&at));
        if !self.is_english || !bounds.clone().any(is_own) {
            return preserved;
        }
        let whole = Statement::of(statements, bounds, |at| copy.contains(&at) || is_own(at));
        let outcome = match Compared::new(self, &whole) {
            Some(c) if c.is_cancelled() => Outcome::Contradicted,
            Some(c) if c.force.level < self.force.level => Outcome::Weakened,
            _ => Outcome::Preserved,
        };
        Finding { outcome, is_sure: true }
    }

    /// What a statement that does not hold the exact words says of the constraint.
    fn told(&self, piece: &Piece<'_>, statement: &Statement<'_>, beside: &Beside<'_>) -> Option<Finding> {
        if !self.is_english || statement.is_question {
            return None;
        }
        let finding = Compared::new(self, statement)?.finding()?;
        if finding.outcome.held() {
            return Some(finding);
        }
        let words = &piece.words[statement.words.clone()];
        if beside.log.is_some_and(|log| log.hold(words)) {
            return None;
        }
        let quoted = self.quoted_beside(piece, &statement.words, beside);
        let is_own = |at: usize| !quoted.iter().any(|words| words.contains(&at));
        let own = Statement::of(std::slice::from_ref(statement), statement.words.clone(), is_own);
        let compared = Compared::new(self, &own)?;
        let nearer =
            |other: &&Constraint| Compared::new(other, &own).is_some_and(|other| other.is_nearer(&compared));
        compared.finding().filter(|_| !beside.in_force.iter().any(nearer))
    }

    /// Where other constraints are quoted between these words, and this one is not.
    fn quoted_beside(
        &self,
        piece: &Piece<'_>,
        bounds: &Range<usize>,
        beside: &Beside<'_>,
    ) -> Vec<Range<usize>> {
        let meets = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        let others = beside.quoted.iter().filter(|other| !std::ptr::eq(**other, self));
        let copies = others.flat_map(|other| piece.copies(other)).filter(|copy| meets(copy, bounds));
        let copies: Vec<Range<usize>> = copies.collect();
        if copies.is_empty() {
            return copies;
        }
        let own = piece.copies(self);
        copies.into_iter().filter(|copy| !own.iter().any(|own| meets(own, copy))).collect()
    }

    /// Takes the sentence of a text that states the constraint for a copy of it, where its words do not stand there.
    pub(super) fn stated_in(&mut self, text: &Prepared<'_>) {
        if is_copied(self, text) {
            return;
        }
        let shared = |statement: &Statement<'_>| Compared::new(self, statement).map_or(0, |c| c.n_shared());
        let alone = text.statements().nth(1).is_none();
        let stating = text
            .statements()
            .map(|(piece, statement)| (shared(statement), &piece.words[statement.words.clone()]))
            .filter(|(n_shared, words)| !words.is_empty() && (*n_shared > 0 || alone))
            // The first of equal ones.
            .reduce(|best, next| if next.0 > best.0 { next } else { best })
            .map(|(_, words)| words.to_vec());
        self.quotes.extend(stating);
    }
}

/// The stems before and after a token.
fn beside(tokens: &[Token], i: usize) -> (Option<&str>, Option<&str>) {
    let before = i.checked_sub(1).map(|b| tokens[b].stem.as_str());
    (before, tokens.get(i + 1).map(|t| t.stem.as_str()))
}

/// Whether a stem stands at a position, as one word or as two: `open source` is `open-source`.
fn stands_at(stem: &str, tokens: &[Token], i: usize) -> bool {
    let two = |first: &Token| {
        let rest = stem.strip_prefix(first.word.as_str()).filter(|rest| !rest.is_empty());
        rest.is_some_and(|rest| tokens.get(i + 1).is_some_and(|next| next.stem == rest))
    };
    tokens[i].stem == stem || two(&tokens[i])
}

// ---- force ----

// ---- statements ----

// ---- reading ----

// ---- limits and words ----

#[cfg(test)]
mod quotations;

#[cfg(test)]
mod tests;
