//! Fires when observations have become stale, and names them: the rest of their turns stays as it is.
//!
//! S = 0.3 min(age / max_age, 1) + 0.4 (1 - min(references / max_refs, 1)) + 0.3 (1 - similarity) > 0.7, where
//!
//! * the age is in turns;
//! * the references are the atoms that the agent named in the last `recent` turns and that this observation was the last to show
//!   before (each atom once a turn): what a later observation shows again is no reason to keep this one;
//! * the similarity is the cosine between the atoms of the observation and those of the last `recent` turns, as sets, 0
//!   where there are none. (The seed takes embeddings; what the feature table has of meaning without a model are atoms.)
//!
//! An observation is asked about once it is older than `recent` turns, since before that it is part of what it is compared
//! with, and until it is twice `max_age` old. Of its atoms the first and last 128 mentions are followed. So the work of a
//! turn is bounded whatever the length of the log. It fires when at least `batch` are stale. Source: seed semantic-triggers, section
//! 4, with its weights and threshold; max_age and max_refs are those of its example; its tracker is named there and missing.

use std::collections::{HashMap, VecDeque};

use super::{Detector, Each, Entry, Firing, Rule, Trigger};
use crate::context::log::{AtomId, DERIVED, Log};
use crate::params::params;
use crate::trajectory::Kind;

/// The seed's confidence in staleness.
const CONFIDENCE: f64 = 0.7;
/// Mentions at either end of a step that are followed.
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
    #[derive(Clone, Copy)]
    pub(super) struct Staleness {
        /// Weight of age.
        age_weight: f64 = 0.3 (from 0 to 1),
        /// Weight of missing references.
        refs_weight: f64 = 0.4 (from 0 to 1),
        /// Weight of unlikeness to the recent turns.
        similarity_weight: f64 = 0.3 (from 0 to 1),
        /// Above this an observation is stale.
        pub(super) threshold: f64 = 0.7 (from 0 to 1),
        /// Turns at which age counts in full.
        max_age: u32 = 50 (from 1 to 10000),
        /// References at which they count in full.
        max_refs: u32 = 10 (at least 1),
        /// How many of the newest turns count as recent.
        recent: u32 = 10,
        /// Fires when so many are stale.
        batch: usize = 1 (at least 1),
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
        let rule = Tracker {
            rule: *self,
            seen: Vec::new(),
            live: Vec::new(),
            n_in_window: 0,
            window: VecDeque::new(),
            atoms: HashMap::new(),
        };
        Box::new(Each { next: first_turn, rule })
    }
}

/// An observation.
struct Seen {
    step: u32,
    turn: u32,
    /// Its atoms, sorted, each once.
    atoms: Vec<AtomId>,
    /// How many of them stand in the window.
    shared: u32,
    /// References to it in the window.
    references: u32,
}

/// A turn of the window.
struct Recent {
    atoms: Vec<AtomId>,
    /// Observations referred to, once for each reference.
    referred: Vec<u32>,
}

struct Tracker {
    rule: Staleness,
    seen: Vec<Seen>,
    /// Those of `seen` that are still asked about, in order.
    live: Vec<u32>,
    /// How many atoms stand in the window.
    n_in_window: u32,
    window: VecDeque<Recent>,
    /// Those that stand in the window or in a live observation.
    atoms: HashMap<AtomId, Known>,
}

/// What is known of an atom.
#[derive(Default)]
struct Known {
    /// In how many turns of the window it stands.
    in_window: u32,
    /// The observation that showed it last.
    shown_by: Option<u32>,
    /// Live observations that hold it.
    holders: Vec<u32>,
}

/// The atoms of a step, sorted, each once.
fn atoms_of(log: &Log, step: u32) -> Vec<AtomId> {
    let mentions = log.mentions_of_step(step);
    let head = &mentions[..mentions.len().min(ENDS)];
    let tail = &mentions[mentions.len().saturating_sub(ENDS).max(head.len())..];
    let named = head.iter().chain(tail).filter(|m| m.flags & DERIVED == 0);
    sorted(named.map(|m| m.so_far).collect())
}

fn sorted(mut atoms: Vec<AtomId>) -> Vec<AtomId> {
    atoms.sort_unstable();
    atoms.dedup();
    atoms
}

impl Tracker {
    /// Counts what the turn shows and names.
    fn add(&mut self, log: &Log, turn: u32) {
        let (mut atoms, mut named) = (Vec::new(), Vec::new());
        let mut shown: Vec<u32> = Vec::new();
        for step in log.turns[turn as usize].steps.clone() {
            let of_step = atoms_of(log, step);
            if log.trajectory.steps[step as usize].is_agent() {
                named.extend_from_slice(&of_step);
            }
            atoms.extend_from_slice(&of_step);
            if log.kind(step) == Kind::Observation {
                let shared = of_step
                    .iter()
                    .filter(|a| self.atoms.get(a).is_some_and(|known| known.in_window > 0))
                    .count() as u32;
                shown.push(self.seen.len() as u32);
                self.seen.push(Seen { step, turn, atoms: of_step, shared, references: 0 });
            }
        }
        let referred: Vec<u32> = sorted(named).iter().filter_map(|a| self.atoms.get(a)?.shown_by).collect();
        for &i in &referred {
            self.seen[i as usize].references += 1;
        }
        for i in shown {
            for &atom in &self.seen[i as usize].atoms {
                let known = self.atoms.entry(atom).or_default();
                known.shown_by = Some(i);
                known.holders.push(i);
            }
            self.live.push(i);
        }
        let atoms = sorted(atoms);
        for &atom in &atoms {
            let known = self.atoms.entry(atom).or_default();
            known.in_window += 1;
            if known.in_window == 1 {
                self.n_in_window += 1;
                for &i in &known.holders {
                    self.seen[i as usize].shared += 1;
                }
            }
        }
        self.window.push_back(Recent { atoms, referred });
        if self.window.len() > self.rule.recent as usize
            && let Some(old) = self.window.pop_front()
        {
            self.forget(&old);
        }
    }

    fn forget(&mut self, old: &Recent) {
        for atom in &old.atoms {
            let Some(known) = self.atoms.get_mut(atom) else { continue };
            known.in_window -= 1;
            if known.in_window == 0 {
                self.n_in_window -= 1;
                for &i in &known.holders {
                    self.seen[i as usize].shared -= 1;
                }
                self.drop_if_idle(*atom);
            }
        }
        for &i in &old.referred {
            self.seen[i as usize].references -= 1;
        }
    }

    /// Forgets an atom that neither stands in the window nor in a live observation.
    fn drop_if_idle(&mut self, atom: AtomId) {
        if self.atoms.get(&atom).is_some_and(|known| known.in_window == 0 && known.holders.is_empty()) {
            self.atoms.remove(&atom);
        }
    }

    /// Takes those that are stale at the decision of this turn, with their scores, and those too old to be asked about.
    fn stale(&mut self, turn: u32) -> Vec<(u32, f64)> {
        let rule = self.rule;
        let score = |i: u32| {
            let seen = &self.seen[i as usize];
            let sizes = seen.atoms.len() as f64 * f64::from(self.n_in_window);
            let similarity = if sizes > 0.0 { f64::from(seen.shared) / sizes.sqrt() } else { 0.0 };
            rule.score(turn - seen.turn, seen.references, similarity)
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
            for atom in &std::mem::take(&mut self.seen[i as usize].atoms) {
                if let Some(known) = self.atoms.get_mut(atom) {
                    known.holders.retain(|&holder| holder != i);
                }
                self.drop_if_idle(*atom);
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
mod tests {
    use super::super::tests::{details, fired, lines, refused};
    use super::*;

    /// Turn 1: read config.py; at turn 20 nobody has referred to it for ten turns, and its similarity is 0.2.
    #[test]
    fn the_example_of_the_seed() {
        let rule = Staleness::default();
        assert!((rule.score(19, 0, 0.2) - 0.754).abs() < 1e-12);
        // Ages and references count at most in full.
        assert!((rule.score(500, 0, 1.0) - 0.7).abs() < 1e-12);
        assert!((rule.score(0, 99, 1.0) - 0.0).abs() < 1e-12);
    }

    /// The same in a log: five atoms at turn 1, and five in each turn after it, of which one is the same, shown by a tool
    /// and named by nobody: similarity 1 / sqrt(5 * 5) = 0.2. A turn earlier the score is 0.748.
    #[test]
    fn the_example_in_a_log() {
        let others = lines("action: date\nobservation: b_one c_two c_three c_four c_five", 18);
        let script = format!(
            "user: u\naction: show\nobservation: b_one b_two b_three b_four b_five\n{others}\nagent: so"
        );
        let params = "threshold = 0.75";
        assert_eq!(fired(&script, "staleness", params), ["20: staleness [2] 0.7"]);
        assert_eq!(details(&script, "staleness", params)[0]["scores"][0], 0.754);
    }

    /// Naming what it showed keeps an observation; what another shows again is the other's.
    #[test]
    fn references_keep_it_fresh() {
        let script = |said: &str| {
            let idle = lines("action: date\nobservation: morning", 2);
            format!(
                "user: u\naction: cat x\nobservation: foo_bar baz_qux\n{idle}\nthought: {said}\naction: date\nobservation: m\nagent: so"
            )
        };
        let params = "recent = 3\nmax_age = 4\nmax_refs = 2\nthreshold = 0.75";
        let of = |said: &str| {
            let told = details(&script(said), "staleness", params);
            told.iter().find(|d| d["steps"][0] == 2).map(|d| d["scores"][0].as_f64().unwrap())
        };
        // At turn 5 it is 4 turns old: 0.3 + 0.4 + 0.3.
        assert_eq!(of("hm"), Some(1.0));
        // Two references in the window, and both of its atoms stand there: 0.3 + 0 + 0.
        assert_eq!(of("foo_bar and baz_qux"), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let between = |name: &str| format!("parameter `{name}` must be between 0 and 1");
        for (params, told) in [
            ("threshold = 1.1", &*between("threshold")),
            ("threshold = -0.1", &between("threshold")),
            ("refs_weight = -0.4", &between("refs_weight")),
            ("max_age = 0", "parameter `max_age` must be between 1 and 10000"),
            ("max_refs = 0", "parameter `max_refs` must be at least 1"),
            ("batch = 0", "parameter `batch` must be at least 1"),
            ("recent = 51", "parameter `recent` must be at most `max_age` (50 here)"),
        ] {
            assert_eq!(refused("staleness", params), told);
        }
        let over = |sum: &str| {
            format!("it never fires: `threshold` must be below the sum of the weights ({sum} here)")
        };
        assert_eq!(refused("staleness", "threshold = 1"), over("1.00"));
        assert_eq!(refused("staleness", "age_weight = 0\nrefs_weight = 0"), over("0.30"));
        let nothing = "age_weight = 0\nrefs_weight = 0\nsimilarity_weight = 0";
        assert_eq!(refused("staleness", nothing), over("0.00"));
        for params in
            ["threshold = 0", "threshold = 0.99", "age_weight = 0\nrefs_weight = 0\nthreshold = 0.2"]
        {
            fired("user: u\nagent: so", "staleness", params);
        }
    }

    /// Each is named once, and never before it is older than the recent turns.
    #[test]
    fn each_goes_stale_once() {
        let script = format!("user: u\n{}", lines("action: date\nobservation: alpha_one", 60));
        let mut steps = Vec::new();
        for (firing, d) in fired(&script, "staleness", "threshold = 0.3").iter().zip(details(
            &script,
            "staleness",
            "threshold = 0.3",
        )) {
            let turn: u32 = firing.split(':').next().unwrap().parse().unwrap();
            for step in d["steps"].as_array().unwrap() {
                let step = step.as_u64().unwrap() as u32;
                assert!(turn - step / 2 > 10, "{firing}");
                steps.push(step);
            }
        }
        let n = steps.len();
        assert_eq!(sorted(steps).len(), n);
        assert!(n > 40);
        assert_eq!(fired(&script, "staleness", "threshold = 0.3\nbatch = 60"), [""; 0]);
    }
}
