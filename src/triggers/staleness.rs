//! Fires when observations have become stale, and names them: the rest of their turns stays as it is.
//!
//! S = 0.3 min(age / max_age, 1) + 0.4 (1 - min(references / max_refs, 1)) + 0.3 (1 - similarity) > 0.7, where
//!
//! * the age is in turns;
//! * the references are the uses of it in the last `recent` turns: the atoms that the agent named and that this observation was the last to show
//!   before (each atom once a turn; what a later observation shows again is no reason to keep this one), the files that were read
//!   or edited again, and the test that was run again, of which this observation had been the last;
//! * the similarity is that of the observation to the last `recent` turns: the cosine of vectors where there is an `embedder`, else that of
//!   words as sets, read on the scale of vectors ([`CALIBRATION`]). (Words follow vectors better than atoms do: rank correlations of 0.49 and 0.23 on
//!   these pairs. Of atoms as they are, nine in ten of what is old enough would go stale.)
//!
//! An observation is asked about once it is older than `recent` turns, since before that it is part of what it is compared
//! with, and until it is twice `max_age` old. Of its atoms the first and last 128 mentions are followed, and as many words. So the work of a
//! turn is bounded whatever the length of the log. It fires when at least `batch` are stale: each goes
//! stale at a time of its own, so that one by one it would fire in half of the turns, and each event changes what a cache holds. Source: seed semantic-triggers, section
//! 4, with its weights and threshold; max_age and max_refs are those of its example; its tracker is named there and missing.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use anyhow::Context as _;

use super::{Detector, Each, Entry, Firing, Rule, Trigger};
use crate::context::log::{AtomId, DERIVED, Log};
use crate::models::Model;
use crate::params::params;
use crate::trajectory::Kind;
use crate::turns::Touch;

mod similarity;

use similarity::{Vectors, Word, calibrated, words_of};

/// The seed's confidence in staleness.
const CONFIDENCE: f64 = 0.7;
/// Mentions, and words, at either end of a step that are followed.
const ENDS: usize = 128;

pub(super) const ENTRY: Entry = Entry {
    name: "staleness",
    summary: "Compress single observations that are old, no longer referred to, and far from what goes on.",
    params: Staleness::PARAMS,
    build: |params| {
        let staleness = Staleness::of(params)?;
        staleness.check()?;
        Ok(Box::new(staleness))
    },
};

params! {
    #[derive(Clone)]
    struct Staleness {
        /// Above this an observation is stale.
        threshold: f64 = 0.7 (from 0 to 1),
        /// Weight of age.
        age_weight: f64 = 0.3 (from 0 to 1),
        /// Weight of missing references.
        refs_weight: f64 = 0.4 (from 0 to 1),
        /// Weight of unlikeness to the recent turns.
        similarity_weight: f64 = 0.3 (from 0 to 1),
        /// Turns at which age counts in full.
        max_age: u32 = 50 (from 1 to 10000),
        /// References at which they count in full.
        max_refs: u32 = 10 (at least 1),
        /// How many of the newest turns count as recent.
        recent: u32 = 10,
        /// Fires when so many are stale.
        batch: usize = 5 (at least 1),
        /// The model of embeddings that tells similarity; empty: words do.
        embedder: String = "",
    }
}

impl Staleness {
    fn check(&self) -> anyhow::Result<()> {
        let most = self.age_weight + self.refs_weight + self.similarity_weight;
        anyhow::ensure!(
            self.threshold < most,
            "it never fires: `threshold` must be below the sum of the weights ({most:.2} here)"
        );
        anyhow::ensure!(
            self.recent <= self.max_age,
            "parameter `recent` must be at most `max_age` ({} here)",
            self.max_age
        );
        Ok(())
    }

    /// The seed's formula.
    fn score(&self, age: u32, references: u32, similarity: f64) -> f64 {
        let share = |n: u32, most: u32| f64::min(f64::from(n) / f64::from(most), 1.0);
        self.age_weight * share(age, self.max_age)
            + self.refs_weight * (1.0 - share(references, self.max_refs))
            + self.similarity_weight * (1.0 - similarity)
    }
}

impl Trigger for Staleness {
    fn detector(&self, _: &Log, first_turn: u32) -> Box<dyn Detector> {
        Box::new(Each { next: first_turn, rule: Tracker::new(self) })
    }

    fn open(
        &self,
        log: &Log,
        turns: Range<u32>,
        model: Option<&dyn Model>,
    ) -> anyhow::Result<Box<dyn Detector>> {
        let mut rule = Tracker::new(self);
        if !self.embedder.is_empty() {
            let model = model.context("the embedder of trigger `staleness` was not opened")?;
            rule.vectors = Some(Vectors::read(log, turns.clone(), self.recent, model)?);
        }
        Ok(Box::new(Each { next: turns.start, rule }))
    }
}

/// An observation.
struct Seen {
    step: u32,
    turn: u32,
    /// Its words, sorted, each once.
    words: Vec<Word>,
    /// How many of them stand in the window.
    shared: u32,
    /// References to it in the window.
    references: u32,
}

/// A turn of the window.
struct Recent {
    words: Vec<Word>,
    /// Observations referred to, once for each reference.
    referred: Vec<u32>,
}

struct Tracker {
    rule: Staleness,
    seen: Vec<Seen>,
    /// Those of `seen` that are still asked about, in order.
    live: Vec<u32>,
    /// How many words stand in the window.
    n_in_window: u32,
    window: VecDeque<Recent>,
    /// Those that stand in the window or in a live observation.
    words: HashMap<Word, Known>,
    /// The observation that showed an atom last.
    shown_by: HashMap<AtomId, u32>,
    /// The observations of the last turn that read or changed a file, or ran a test, by its number.
    places: HashMap<u32, Range<u32>>,
    vectors: Option<Vectors>,
}

/// What is known of a word.
#[derive(Default)]
struct Known {
    /// In how many turns of the window it stands.
    in_window: u32,
    /// Live observations that hold it.
    holders: Vec<u32>,
}

/// The atoms of a step.
fn atoms_of(log: &Log, step: u32) -> impl Iterator<Item = AtomId> {
    let mentions = log.mentions_of_step(step);
    let head = &mentions[..mentions.len().min(ENDS)];
    let tail = &mentions[mentions.len().saturating_sub(ENDS).max(head.len())..];
    head.iter().chain(tail).filter(|m| m.flags & DERIVED == 0).map(|m| m.so_far)
}

fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list.dedup();
    list
}

impl Tracker {
    fn new(rule: &Staleness) -> Self {
        Tracker {
            rule: rule.clone(),
            seen: Vec::new(),
            live: Vec::new(),
            n_in_window: 0,
            window: VecDeque::new(),
            words: HashMap::new(),
            shown_by: HashMap::new(),
            places: HashMap::new(),
            vectors: None,
        }
    }

    /// Counts what the turn shows and names.
    fn add(&mut self, log: &Log, turn: u32) {
        let (mut words, mut named, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        let first = self.seen.len() as u32;
        for step in log.turns[turn as usize].steps.clone() {
            let logged = &log.trajectory.steps[step as usize];
            let of_step = words_of(&logged.text);
            words.extend_from_slice(&of_step);
            if logged.is_agent() {
                named.extend(atoms_of(log, step));
            }
            if log.kind(step) == Kind::Observation {
                seen.extend(atoms_of(log, step).map(|atom| (atom, self.seen.len() as u32)));
                let stands = |word: &&Word| self.words.get(word).is_some_and(|known| known.in_window > 0);
                let shared = of_step.iter().filter(stands).count() as u32;
                self.seen.push(Seen { step, turn, words: of_step, shared, references: 0 });
            }
        }
        let shown = first..self.seen.len() as u32;
        let mut referred: Vec<u32> =
            sorted(named).iter().filter_map(|atom| self.shown_by.get(atom).copied()).collect();
        referred.extend(self.used(log, turn, &shown));
        for &i in &referred {
            self.seen[i as usize].references += 1;
        }
        self.shown_by.extend(seen);
        for i in shown {
            for &word in &self.seen[i as usize].words {
                self.words.entry(word).or_default().holders.push(i);
            }
            self.live.push(i);
        }
        let words = sorted(words);
        for &word in &words {
            let known = self.words.entry(word).or_default();
            known.in_window += 1;
            if known.in_window == 1 {
                self.n_in_window += 1;
                for &i in &known.holders {
                    self.seen[i as usize].shared += 1;
                }
            }
        }
        self.window.push_back(Recent { words, referred });
        if self.window.len() > self.rule.recent as usize
            && let Some(old) = self.window.pop_front()
        {
            self.forget(&old);
        }
    }

    /// The observations of files and tests that the turn comes back to; what it shows takes their place.
    fn used(&mut self, log: &Log, turn: u32, shown: &Range<u32>) -> Vec<u32> {
        let facts = &log.facts().turns[turn as usize];
        let files = facts.files.iter().filter(|(_, touch)| *touch != Touch::Run).map(|(file, _)| *file);
        let mut used = Vec::new();
        for place in files.chain(facts.test.map(|test| test.target)) {
            used.extend(self.places.get(&place).cloned().into_iter().flatten());
            if !shown.is_empty() {
                self.places.insert(place, shown.clone());
            }
        }
        used
    }

    fn forget(&mut self, old: &Recent) {
        for word in &old.words {
            let Some(known) = self.words.get_mut(word) else { continue };
            known.in_window -= 1;
            if known.in_window == 0 {
                self.n_in_window -= 1;
                for &i in &known.holders {
                    self.seen[i as usize].shared -= 1;
                }
                self.drop_if_idle(*word);
            }
        }
        for &i in &old.referred {
            self.seen[i as usize].references -= 1;
        }
    }

    /// Forgets a word that neither stands in the window nor in a live observation.
    fn drop_if_idle(&mut self, word: Word) {
        if self.words.get(&word).is_some_and(|known| known.in_window == 0 && known.holders.is_empty()) {
            self.words.remove(&word);
        }
    }

    /// How alike an observation is to the recent turns, at the decision of a turn.
    fn similarity(&self, seen: &Seen, turn: u32) -> f64 {
        let by_vectors = self.vectors.as_ref().and_then(|vectors| vectors.similarity(seen.step, turn - 1));
        by_vectors.unwrap_or_else(|| {
            let sizes = seen.words.len() as f64 * f64::from(self.n_in_window);
            if sizes > 0.0 { calibrated(f64::from(seen.shared) / sizes.sqrt()) } else { 0.0 }
        })
    }

    /// Takes those that are stale at the decision of this turn, with their scores, and those too old to be asked about.
    fn stale(&mut self, turn: u32) -> Vec<(u32, f64)> {
        let rule = &self.rule;
        let score = |i: u32| {
            let seen = &self.seen[i as usize];
            rule.score(turn - seen.turn, seen.references, self.similarity(seen, turn))
        };
        let is_due = |i: u32| turn - self.seen[i as usize].turn > rule.recent;
        let due = self.live.iter().copied().take_while(|&i| is_due(i));
        let mut stale: Vec<(u32, f64)> =
            due.map(|i| (i, score(i))).filter(|s| s.1 > rule.threshold).collect();
        if stale.len() < rule.batch {
            stale.clear();
        }
        let mut gone = stale.iter().map(|s| s.0).peekable();
        let is_over = |i: u32| turn - self.seen[i as usize].turn > 2 * rule.max_age;
        let (left, dropped): (Vec<u32>, Vec<u32>) =
            self.live.iter().partition(|&&i| gone.next_if_eq(&i).is_none() && !is_over(i));
        self.live = left;
        for i in dropped {
            for word in &std::mem::take(&mut self.seen[i as usize].words) {
                if let Some(known) = self.words.get_mut(word) {
                    known.holders.retain(|&holder| holder != i);
                }
                self.drop_if_idle(*word);
            }
        }
        stale
    }
}

impl Rule for Tracker {
    fn turn(&mut self, log: &Log, turn: u32) -> Option<Firing> {
        self.add(log, turn);
        let stale = self.stale(turn + 1);
        let steps: Vec<u32> = stale.iter().map(|(i, _)| self.seen[*i as usize].step).collect();
        let scores: Vec<f64> = stale.iter().map(|(_, score)| (score * 1000.0).round() / 1000.0).collect();
        (!steps.is_empty()).then(|| {
            let firing = Firing::new("staleness", turn + 1, CONFIDENCE);
            let firing = firing.with(serde_json::json!({ "steps": steps, "scores": scores }));
            Firing { only: Some(steps), ..firing }
        })
    }
}

#[cfg(test)]
mod tests;
