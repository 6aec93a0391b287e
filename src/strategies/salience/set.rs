//! The cumulative set of kept items: one entry for what was said several times, and both where two contradict.
//!
//! Two items are duplicates if they say nearly the same (cosine of their vectors, or without vectors the share of the
//! shorter one's content words, at least the threshold; where each has a word of its own, of all their words, and constraints never) and neither has
//! a value or a negation that the other lacks differently: "at most $500" and "at most $5000" are close in every embedding and not the same. Nor are
//! constraints of the same words in another order: "Alice must not call Bob". Two facts are
//! duplicates, too, if they give the same telling value to the same thing, in whatever words. Of duplicates the
//! one with more values stays (the source keeps the shorter, which loses numbers: an option). Constraints that speak of
//! the same with other values are both kept, and the one that was said last is marked, whichever was said first; values
//! before the verb name what it is about ("Page 12 must ..."), so that others there are no contradiction. (Source: the
//! seed on selective salience, its threshold 0.85.) Of `key=value` the later value replaces the earlier one (see `newest.rs`).

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use super::candidates::ItemKind;
use crate::strategies::Fate;
use crate::strategies::newest::{self, Given, Newest, Place};
use crate::text::han;
use crate::text::lists::{self, Signs, WordSet};
use crate::text::negation::negates;
use crate::text::values::{content_words, is_telling, values};

/// From so much of their words in common on, two constraints with other values speak of the same thing.
const SAME_MATTER: f64 = 0.5;

static WORDS: LazyLock<Words> = LazyLock::new(|| lists::read(include_str!("../../data/words/items.en.toml")));

/// The file says what each is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    values: WordSet,
    leave: Signs,
    verbs: WordSet,
}

/// From so many of all their words in common on, two constraints differ in order alone.
const SAME_WORDS: f64 = 0.85;

/// A kept item.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Held {
    pub(crate) text: String,
    pub(crate) kind: ItemKind,
    pub(crate) step: u32,
    pub(crate) bytes: Range<u32>,
    pub(crate) score: f64,
    pub(crate) is_repaired: bool,
    pub(crate) vector: Option<Vec<f32>>,
    /// Its words as its source has them, without what marks them as cut: rows of many events share them.
    pub(crate) said: Arc<str>,
    /// How it stands to another constraint on the same matter.
    pub(crate) conflict: Option<Conflict>,
    /// When it was said last: step, and byte of its text.
    last: Place,
    /// What it gives keys; read when it comes into a set.
    given: Given,
    values: Vec<String>,
    /// Values of what it is about.
    about: Vec<String>,
    /// Content words: sorted, and as they stand.
    words: Vec<u32>,
    order: Vec<u32>,
    negates: bool,
}

/// How a constraint stands to another on the same matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    Earlier,
    Newest,
}

impl Held {
    pub(crate) fn new(text: String, kind: ItemKind, step: u32, bytes: Range<u32>, score: f64) -> Self {
        let apart = han::set_apart(&text);
        let mut all = values(&apart);
        let between = |c: char| !c.is_alphanumeric() && c != '_';
        let words = |word: &str| match word.contains(han::is_han) {
            true => han::pairs(word).iter().map(|pair| hash(pair)).collect(),
            false => content_words(word),
        };
        let mut order: Vec<u32> = apart.split(between).flat_map(words).collect();
        if order.is_empty() {
            // Scripts without word lists, or code: what stands between blanks.
            order = text.split_whitespace().map(hash).collect();
        }
        all.extend(text.split(between).map(str::to_lowercase).filter(|w| WORDS.values.has(w)));
        all.sort_unstable();
        all.dedup();
        let mut words = order.clone();
        words.sort_unstable();
        words.dedup();
        let verb = text.split_inclusive(between).scan(0, |at, word| {
            *at += word.len();
            Some((*at - word.len(), word.trim_end_matches(between).to_lowercase()))
        });
        let verb = verb.into_iter().find(|(_, word)| WORDS.verbs.has(word));
        let about = verb.map_or_else(Vec::new, |(at, _)| values(&text[..at]));
        Held {
            last: (step, bytes.start),
            given: Given::default(),
            negates: negates(&text),
            is_repaired: false,
            vector: None,
            conflict: None,
            said: text.as_str().into(),
            text,
            kind,
            step,
            bytes,
            score,
            values: all,
            about,
            words,
            order,
        }
    }

    /// How alike two items are, 0 to 1.
    fn likeness(&self, other: &Held) -> f64 {
        match (&self.vector, &other.vector) {
            (Some(a), Some(b)) => a.iter().zip(b).map(|(x, y)| f64::from(x * y)).sum(),
            _ => {
                let shared = self.shared(other);
                let least = self.words.len().min(other.words.len());
                let most = self.words.len().max(other.words.len());
                // What each has alone tells the two apart; of constraints one word of each does.
                let is_bound = self.kind == ItemKind::Constraint && other.kind == ItemKind::Constraint;
                let by = match shared < least {
                    true if is_bound => return 0.0,
                    true => least + most - shared,
                    // Of very few words, all must agree in both.
                    false if least < 3 => most,
                    false => least,
                };
                shared as f64 / by.max(1) as f64
            }
        }
    }

    /// Which share of its content words another holds.
    fn within(&self, other: &Held) -> f64 {
        self.shared(other) as f64 / self.words.len().max(1) as f64
    }

    fn shared(&self, other: &Held) -> usize {
        self.words.iter().filter(|word| other.words.binary_search(word).is_ok()).count()
    }

    /// Whether two constraints have the same words in another order.
    fn reorders(&self, other: &Held) -> bool {
        let shared = self.shared(other);
        let union = self.words.len() + other.words.len() - shared;
        let is_bound = |held: &Held| held.kind == ItemKind::Constraint;
        let both = |held: &Held, in_other: &Held| -> Vec<u32> {
            held.order.iter().copied().filter(|word| in_other.words.binary_search(word).is_ok()).collect()
        };
        is_bound(self)
            && is_bound(other)
            && shared as f64 >= SAME_WORDS * union as f64
            && both(self, other) != both(other, self)
    }

    /// Whether one of the two has no value that the other lacks.
    fn agrees(&self, other: &Held) -> bool {
        let within = |a: &[String], b: &[String]| a.iter().all(|value| b.binary_search(value).is_ok());
        self.negates == other.negates
            && (within(&self.values, &other.values) || within(&other.values, &self.values))
    }

    /// Whether two facts give the same telling value (an id, a path, a long number) to the same thing in other words.
    fn repeats(&self, other: &Held) -> bool {
        let is_fact = |held: &Held| held.kind >= ItemKind::Fact;
        let shared = self.shared(other);
        is_fact(self)
            && is_fact(other)
            && self.values == other.values
            && self.values.iter().any(|value| is_telling(value))
            && 5 * shared >= 2 * self.words.len().min(other.words.len())
    }

    fn contradicts(&self, other: &Held) -> bool {
        let union = self.words.len() + other.words.len() - self.shared(other);
        self.kind == ItemKind::Constraint
            && other.kind == ItemKind::Constraint
            && !self.agrees(other)
            && (self.about.is_empty() || other.about.is_empty() || self.about == other.about)
            && self.shared(other) as f64 >= SAME_MATTER * union as f64
    }

    /// Whether it says what is to be done, and not what is.
    fn binds(&self) -> bool {
        self.kind <= ItemKind::Constraint
    }

    /// Whether it is the one of two duplicates to keep; `other` was there before.
    fn beats(&self, other: &Held, keep_shorter: bool) -> bool {
        if keep_shorter {
            return self.text.chars().count() < other.text.chars().count();
        }
        let rank = |held: &Held| (held.values.len(), std::cmp::Reverse(held.kind));
        rank(self) > rank(other)
    }
}

fn hash(word: &str) -> u32 {
    word.bytes().fold(0x811c_9dc5, |h: u32, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193))
}

/// An item that did not stay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gone {
    pub(crate) held: Held,
    /// Why.
    pub(crate) fate: Fate,
    /// The entry that stands for it; none where it was replaced, or that one was.
    pub(crate) of: Option<usize>,
}

/// The set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Set {
    pub(crate) items: Vec<Held>,
    /// What went over the cap so far.
    left_out: HashSet<String>,
    /// The newest values of what binds, and of all items.
    newest: [Newest; 2],
}

impl Set {
    /// Adds items in order; returns those that went, the old one where a new one took its place.
    pub(crate) fn merge(&mut self, new: Vec<Held>, threshold: f64, keep_shorter: bool) -> Vec<Gone> {
        let mut gone = Vec::new();
        for mut held in new {
            held.given = newest::given(&held.text);
            let twin = self.items.iter().position(|old| {
                let is_like = |old: &Held| old.repeats(&held) || old.likeness(&held) >= threshold;
                old.text == held.text || (old.agrees(&held) && !old.reorders(&held) && is_like(old))
            });
            // Of two duplicates the words of the one that stays are said anew.
            let old = twin.map(|of| &self.items[of]).filter(|old| !held.beats(old, keep_shorter));
            let words = &old.unwrap_or(&held).given.words;
            for newest in &mut self.newest[usize::from(!held.binds())..] {
                newest.see(&held.given.values, words, held.last);
            }
            if let Some(of) = twin {
                let old = &mut self.items[of];
                // Who knows more of the same words says what they are: that they lift a ban.
                let is_same = (old.step, &old.bytes) == (held.step, &held.bytes);
                let kind = if is_same { held.kind } else { held.kind.min(old.kind) };
                let last = held.last.max(old.last);
                if held.beats(old, keep_shorter) {
                    held.conflict = old.conflict;
                    std::mem::swap(old, &mut held);
                }
                (old.kind, old.last) = (kind, last);
                gone.push(Gone { held, fate: Fate::Duplicate, of: Some(of) });
                self.mark(of);
            } else {
                self.items.push(held);
                self.mark(self.items.len() - 1);
            }
        }
        gone
    }

    /// Takes out the items whose values later ones replaced; `gone` has what went before, and gets these. Goals stay, they
    /// are in force or not; and what binds is replaced by what binds alone: no output of a tool lifts a constraint.
    pub(crate) fn replace(&mut self, gone: &mut Vec<Gone>) {
        let is_replaced = |held: &Held| {
            let newest = &self.newest[usize::from(!held.binds())];
            held.kind != ItemKind::Goal && newest.replaces(&held.given, held.last)
        };
        let is_replaced: Vec<bool> = self.items.iter().map(is_replaced).collect();
        if !is_replaced.contains(&true) {
            return;
        }
        let n_before = |at: usize| is_replaced[..at].iter().filter(|is_replaced| !**is_replaced).count();
        for gone in gone.iter_mut() {
            gone.of = gone.of.filter(|of| !is_replaced[*of]).map(n_before);
        }
        let all = std::mem::take(&mut self.items).into_iter().zip(&is_replaced);
        for (held, is_replaced) in all {
            match is_replaced {
                true => gone.push(Gone { held, fate: Fate::Replaced, of: None }),
                false => self.items.push(held),
            }
        }
    }

    /// Marks an item and those that it contradicts by when they were said last.
    fn mark(&mut self, at: usize) {
        let told = &self.items[at];
        let against: Vec<usize> =
            (0..self.items.len()).filter(|&old| self.items[old].contradicts(told)).collect();
        let (last, mut is_told, mut is_newest) = (told.last, false, true);
        for old in against {
            let old = &mut self.items[old];
            let is_older = last >= old.last;
            old.conflict = Some(if is_older { Conflict::Earlier } else { Conflict::Newest });
            (is_told, is_newest) = (true, is_newest && is_older);
        }
        if is_told {
            self.items[at].conflict = Some(if is_newest { Conflict::Newest } else { Conflict::Earlier });
        }
    }

    /// Marks what contradicts an earlier constraint that is no item, since it stands where nothing is compressed.
    pub(crate) fn mark_beside(&mut self, standing: &[Held]) {
        for held in self.items.iter_mut().filter(|held| held.conflict.is_none()) {
            if standing.iter().any(|old| old.contradicts(held)) {
                held.conflict = Some(Conflict::Newest);
            }
        }
    }

    /// Whether it lets go of a ban.
    pub(crate) fn is_lifted_by(&self, leave: &Held) -> bool {
        let words: String =
            leave.text.split_whitespace().map(|word| format!("{} ", word.to_lowercase())).collect();
        let words = format!(" {words}");
        !leave.negates
            && WORDS.leave.fit(&words)
            && self.items.iter().any(|held| held.negates && held.contradicts(leave))
    }

    /// Whether an item says what this sentence says.
    pub(crate) fn says(&self, sentence: &str, threshold: f64) -> bool {
        let said = Held::new(sentence.to_owned(), ItemKind::Fact, 0, 0..0, 0.0);
        self.items.iter().any(|held| {
            held.text.contains(sentence)
                || (said.negates == held.negates
                    && said.values.iter().all(|v| held.values.contains(v))
                    && said.within(held) >= threshold)
        })
    }

    /// Which items must go so that the set has at most so many tokens (0: no limit); they are remembered as left out.
    pub(crate) fn cap(&mut self, cap: u32, tokens: impl Fn(&Held) -> u32) -> Vec<usize> {
        let over = if cap == 0 { Vec::new() } else { self.over(cap, tokens) };
        self.left_out.extend(over.iter().map(|&at| self.items[at].text.clone()));
        over
    }

    /// Says how many items were left out for the cap; nothing where none was.
    pub(crate) fn told_of_left_out(&self) -> String {
        match self.left_out.len() {
            0 => String::new(),
            n => format!("({n} more left out for their length)\n"),
        }
    }

    /// Lets go of these items, ascending.
    pub(crate) fn remove(&mut self, over: &[usize]) {
        let mut at = 0..;
        self.items.retain(|_| at.next().is_none_or(|at| over.binary_search(&at).is_err()));
    }

    /// Which items must go so that their tokens fit: the least important kind first, of a kind the oldest. The first that does not fit
    /// ends the list, so that nothing stays for which something more important went; what is longer than the cap goes alone.
    fn over(&self, cap: u32, tokens: impl Fn(&Held) -> u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        order.sort_by_key(|&at| {
            let held = &self.items[at];
            (held.kind, std::cmp::Reverse(held.last))
        });
        let mut left = Some(cap);
        let mut over: Vec<usize> = order
            .into_iter()
            .filter(|&at| {
                let tokens = tokens(&self.items[at]);
                if tokens > cap {
                    return true;
                }
                left = left.and_then(|left| left.checked_sub(tokens));
                left.is_none()
            })
            .collect();
        over.sort_unstable();
        over
    }
}

#[cfg(test)]
mod tests;
