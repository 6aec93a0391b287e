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
mod tests {
    use super::*;

    fn held(text: &str, kind: ItemKind, step: u32) -> Held {
        Held::new(text.to_owned(), kind, step, 0..text.len() as u32, 0.5)
    }

    fn texts(set: &Set) -> Vec<&str> {
        set.items.iter().map(|held| held.text.as_str()).collect()
    }

    #[test]
    fn the_one_with_more_values_stays() {
        let (short, long) = (
            "the export server keeps the nightly dumps",
            "the export server keeps the nightly dumps on port 6391",
        );
        for pair in [[short, long], [long, short]] {
            for (keep_shorter, stays) in [(false, long), (true, short)] {
                let mut set = Set::default();
                let new = pair.map(|text| held(text, ItemKind::Fact, 1)).to_vec();
                let gone = set.merge(new, 0.85, keep_shorter);
                assert_eq!(texts(&set), [stays]);
                assert_eq!((gone.len(), gone[0].of), (1, Some(0)));
            }
        }
    }

    #[test]
    fn other_values_and_negations_are_no_duplicates() {
        let mut set = Set::default();
        let budget = |n: &str, step| {
            held(&format!("The budget for the printed poster is ${n}"), ItemKind::Constraint, step)
        };
        assert!(set.merge(vec![budget("500", 1), budget("5000", 7)], 0.85, false).is_empty());
        assert_eq!(set.items[0].conflict, Some(Conflict::Earlier));
        assert_eq!(set.items[1].conflict, Some(Conflict::Newest));
        // Said again: no third entry.
        assert_eq!(set.merge(vec![budget("500", 9)], 0.85, false).len(), 1);
        let mut set = Set::default();
        let new =
            ["Touch the billing folder for the release", "Do not touch the billing folder for the release"];
        set.merge(new.map(|text| held(text, ItemKind::Constraint, 3)).to_vec(), 0.85, false);
        assert_eq!(set.items.len(), 2);
        assert_eq!(set.items[1].conflict, Some(Conflict::Newest));
    }

    #[test]
    fn chinese_has_words_without_blanks() {
        let mut set = Set::default();
        let merge = |set: &mut Set, text: &str, kind, step| {
            set.merge(vec![held(text, kind, step)], 0.85, false).len()
        };
        let of = ItemKind::Constraint;
        assert_eq!(merge(&mut set, "搬迁费用不得超过4000欧元", of, 1), 0);
        assert_eq!(merge(&mut set, "搬迁费用不得超过8000欧元", of, 5), 0);
        let marks = [Some(Conflict::Earlier), Some(Conflict::Newest)];
        assert_eq!([set.items[0].conflict, set.items[1].conflict], marks);
        // A rule about something else contradicts neither.
        assert_eq!(merge(&mut set, "报告不得超过20页", of, 6), 0);
        assert_eq!(set.items[2].conflict, None);
        // The same in nearly the same words is said once, another number twice.
        let of = ItemKind::Fact;
        assert_eq!(merge(&mut set, "图书馆的服务器每天晚上备份到6391号端口", of, 7), 0);
        assert_eq!(merge(&mut set, "图书馆的服务器每天晚上都备份到6391号端口", of, 8), 1);
        assert_eq!(merge(&mut set, "图书馆的服务器每天晚上备份到6392号端口", of, 9), 0);
    }

    #[test]
    fn what_is_said_again_is_the_newest() {
        use Conflict::{Earlier, Newest};
        let mut set = Set::default();
        let budget = |n: &str, step| {
            held(&format!("The budget for the printed poster is ${n}"), ItemKind::Constraint, step)
        };
        let marks = |set: &Set| set.items.iter().map(|held| held.conflict).collect::<Vec<_>>();
        set.merge(vec![budget("500", 1), budget("800", 5)], 0.85, false);
        assert_eq!(marks(&set), [Some(Earlier), Some(Newest)]);
        set.merge(vec![budget("500", 9)], 0.85, false);
        assert_eq!(marks(&set), [Some(Newest), Some(Earlier)]);
        set.merge(vec![budget("650", 12)], 0.85, false);
        assert_eq!(marks(&set), [Some(Earlier), Some(Earlier), Some(Newest)]);
        // It stays where it stood first; of a kind, what was said last goes last.
        assert_eq!((set.items[0].step, set.over(2, |_| 1)), (1, vec![1]));
    }

    #[test]
    fn constraints_of_the_same_words_in_another_order_are_two() {
        for pair in [
            ["Alice must not call Bob", "Bob must not call Alice"],
            ["The logo must be red and not green", "The logo must be green and not red"],
        ] {
            let mut set = Set::default();
            set.merge(pair.map(|text| held(text, ItemKind::Constraint, 1)).to_vec(), 0.85, false);
            assert_eq!(texts(&set), pair);
        }
        let mut set = Set::default();
        let new = ["Bob called Alice at noon", "Alice called Bob at noon"];
        set.merge(new.map(|text| held(text, ItemKind::Fact, 1)).to_vec(), 0.85, false);
        assert_eq!(texts(&set), new[..1]);
    }

    #[test]
    fn limits_of_different_things_are_no_contradiction() {
        let limits = |texts: [&str; 2]| {
            let mut set = Set::default();
            set.merge(texts.map(|text| held(text, ItemKind::Constraint, 1)).to_vec(), 0.85, false);
            set.items.iter().map(|held| held.conflict.is_some()).collect::<Vec<_>>()
        };
        let page = |n: u32, words: u32| format!("Page {n} of the brochure must not exceed {words} words");
        assert_eq!(limits([&page(12, 300), &page(13, 300)]), [false, false]);
        assert_eq!(limits([&page(12, 300), &page(12, 400)]), [true, true]);
    }

    #[test]
    fn a_permission_does_not_say_what_the_ban_says() {
        let mut set = Set::default();
        set.merge(vec![held("Do not email the customers", ItemKind::Constraint, 1)], 0.85, false);
        assert!(set.says("Never email the customers.", 0.85));
        assert!(!set.says("You may email the customers now.", 0.85));
        let lifts = |text: &str| set.is_lifted_by(&held(text, ItemKind::Constraint, 5));
        assert!(lifts("You may email the customers now."));
        assert!(!lifts("Did you email the customers?") && !lifts("You may not email the customers."));
        assert!(!lifts("You may take the bus now."));
    }

    #[test]
    fn later_values_replace_earlier_ones() {
        use ItemKind::{Constraint, Decision, Fact, Goal};
        let said = [
            ("The gateway of the shop listens on port=8042", Fact),
            ("Please move the shop to port=8042", Goal),
            ("The worker must never have retries=9", Constraint),
            ("We decided on retries=9 and timeout=30 for the worker", Decision),
            ("The gateway of the shop was moved and listens on port=9000", Fact),
            ("The log of the worker shows retries=4", Fact),
            ("The gateway of the shop now listens on port=9000", Fact),
        ];
        let mut set = Set::default();
        let mut gone = Vec::new();
        for (step, (text, kind)) in (0..).zip(said) {
            gone.extend(set.merge(vec![held(text, kind, step)], 0.85, false));
            set.replace(&mut gone);
        }
        // A goal is in force or not, a constraint is no fact's to lift, and of a timeout nothing newer is known.
        assert_eq!(texts(&set), [1, 2, 3, 4, 5].map(|at: usize| said[at].0));
        let told: Vec<_> = gone.iter().map(|gone| (gone.held.text.as_str(), gone.fate, gone.of)).collect();
        assert_eq!(told[0], (said[0].0, Fate::Replaced, None));
        assert_eq!((told.len(), told[1].1), (2, Fate::Duplicate), "{told:?}");
        // What binds is replaced by what binds, but no ban by what is no ban; and what is said again is the newest again.
        for (step, (text, left)) in (9..).zip([
            ("must have retries=5", &["never have retries=9", "have retries=5"][..]),
            ("must have retries=6", &["never have retries=9", "have retries=6"]),
            ("must never have retries=9", &["never have retries=9"]),
        ]) {
            set.merge(vec![held(&format!("The worker {text}"), Constraint, step)], 0.85, false);
            set.replace(&mut Vec::new());
            let bound: Vec<&str> =
                texts(&set).into_iter().filter_map(|text| text.split_once("must ")).map(|b| b.1).collect();
            assert_eq!(bound, left);
        }
    }

    #[test]
    fn what_went_as_a_duplicate_says_nothing_anew() {
        let said = [
            "The gateway of the shop listens on port=8042",
            "The gateway was moved, it has port=9000 now",
            "The gateway of the shop now listens on port=9000",
        ];
        let facts = (0..).zip(said).map(|(step, text)| held(text, ItemKind::Fact, step)).collect();
        let mut set = Set::default();
        let mut gone = set.merge(facts, 0.85, false);
        set.replace(&mut gone);
        // The third, which holds all of the first, is one with the second, and nothing else says `shop`.
        assert_eq!((gone.len(), gone[0].fate, gone[0].of), (1, Fate::Duplicate, Some(1)));
        assert_eq!(texts(&set), said[..2]);
    }

    #[test]
    fn what_stood_for_a_duplicate_and_went_stands_for_nothing() {
        let mut set = Set::default();
        let new = [
            "The gateway has port=8042",
            "The gateway has port=8042",
            "The moon is 4 days old",
            "The moon is 4 days old",
            "Now port=9000 is what the gateway has",
        ];
        let mut gone = set.merge(
            (0..).zip(new).map(|(step, text)| held(text, ItemKind::Fact, step)).collect(),
            0.85,
            false,
        );
        assert_eq!(gone.iter().map(|gone| gone.of).collect::<Vec<_>>(), [Some(0), Some(1)]);
        set.replace(&mut gone);
        assert_eq!(texts(&set), new[2..].iter().step_by(2).copied().collect::<Vec<_>>());
        let told: Vec<_> = gone.iter().map(|gone| (gone.fate, gone.of)).collect();
        assert_eq!(told, [(Fate::Duplicate, None), (Fate::Duplicate, Some(0)), (Fate::Replaced, None)]);
    }

    #[test]
    fn a_fact_in_other_words_is_the_same_fact() {
        let facts = [
            "The crash at midnight was reported by a customer as T-625 and is still open",
            "duplicates about the crash at midnight were merged into T-625 by the triage team",
            "duplicates about the wrong totals were merged into T-625 by the triage team",
            "duplicates about the crash at midnight were merged into T-511 by the triage team",
        ];
        let mut set = Set::default();
        let gone = set.merge(facts.map(|text| held(text, ItemKind::ToolOutput, 1)).to_vec(), 0.99, false);
        let of: Vec<_> = gone.iter().map(|gone| (gone.held.text.as_str(), gone.of)).collect();
        assert_eq!(of, [(facts[1], Some(0))]);
    }

    #[test]
    fn vectors_decide_where_there_are_some() {
        let with = |text: &str, vector: [f32; 2]| Held {
            vector: Some(vector.to_vec()),
            ..held(text, ItemKind::Decision, 1)
        };
        let mut set = Set::default();
        let new = vec![with("we take the lease", [1.0, 0.0]), with("a lease it shall be", [0.8, 0.6])];
        set.merge(new.clone(), 0.85, false);
        assert_eq!(set.items.len(), 2);
        let mut set = Set::default();
        assert_eq!(set.merge(new, 0.79, false)[0].held.text, "a lease it shall be");
    }

    #[test]
    fn the_cap_gives_up_facts_first_and_of_a_kind_the_oldest() {
        let mut set = Set::default();
        let new = vec![
            held("never rotate the root token", ItemKind::Constraint, 1),
            held("alpha lies in the harbour", ItemKind::Fact, 2),
            held("beta lies in the mountains", ItemKind::Fact, 5),
            held("a lease because holders die", ItemKind::Decision, 3),
        ];
        set.merge(new, 0.85, false);
        assert_eq!(set.over(3, |_| 1), [1]);
        assert_eq!(set.over(2, |_| 1), [1, 2]);
        assert_eq!(set.over(0, |_| 1), [0, 1, 2, 3]);
        assert!(set.over(4, |_| 1).is_empty());
        // A decision that does not fit takes no place from facts, but they do not take its; what is longer than the cap goes alone.
        let long = |held: &Held, of: ItemKind, n: u32| if held.kind == of { n } else { 1 };
        assert_eq!(set.over(3, |held| long(held, ItemKind::Decision, 3)), [1, 2, 3]);
        assert_eq!(set.over(3, |held| long(held, ItemKind::Decision, 4)), [3]);
    }

    #[test]
    fn constraints_that_each_have_a_word_of_their_own_are_two() {
        use Conflict::{Earlier, Newest};
        for (old, new, is_marked) in [
            (
                "The book must be bound in red leather with a gilt edge",
                "The book must be bound in blue leather with a gilt edge",
                false,
            ),
            (
                "You must keep the old customer files on the server",
                "You must delete the old customer files on the server",
                false,
            ),
            (
                "The report must arrive before noon on Monday",
                "The report must arrive before noon on Tuesday",
                true,
            ),
            (
                "The roof has to be mended within two weeks",
                "The roof has to be mended within three weeks",
                true,
            ),
        ] {
            let mut set = Set::default();
            set.merge(
                vec![held(old, ItemKind::Constraint, 1), held(new, ItemKind::Constraint, 5)],
                0.85,
                false,
            );
            assert_eq!(texts(&set), [old, new]);
            let marks: Vec<_> = set.items.iter().map(|held| held.conflict).collect();
            assert_eq!(marks, if is_marked { [Some(Earlier), Some(Newest)] } else { [None, None] });
        }
        // One that says more is the same one, and facts that differ in one of ten words are two.
        let mut set = Set::default();
        let said = |text: &str, of| vec![held(text, of, 1)];
        set.merge(said("The book must be bound in red leather", ItemKind::Constraint), 0.85, false);
        assert_eq!(
            set.merge(
                said("As agreed the book must be bound in red leather", ItemKind::Constraint),
                0.85,
                false
            )
            .len(),
            1
        );
        let rest = "field joins orders, customers, invoices, parcels, receipts, drivers, routes";
        let facts = [format!("the slug {rest}"), format!("the code {rest}")];
        for fact in &facts {
            assert!(set.merge(said(fact, ItemKind::Fact), 0.85, false).is_empty());
        }
    }

    #[test]
    fn a_hundred_items_that_differ_stay() {
        let new: Vec<Held> = (0..100)
            .map(|i| Held {
                vector: Some((0..384).map(|d| ((i * 31 + d * 17) % 23) as f32 / 230.0).collect()),
                ..held(
                    &format!("station {i} reports the tide at mark {} of the gauge", i * 7),
                    ItemKind::Fact,
                    i,
                )
            })
            .collect();
        let mut set = Set::default();
        set.merge(new, 0.85, false);
        assert_eq!(set.items.len(), 100);
    }
}
