//! Which policy to set: candidates beside a reference, session by session, and the cheapest of those that are not worse.
//!
//! The reference is what the sessions' own product does, or the newest turns that fit. A candidate is chosen on the older half
//! of the sessions and has to hold on the newer half, whose figures are told. One that never compressed anything, or that
//! costs no less, is none. What "not worse" is, is said in `report/statistics/excess.rs`.
//!
//! A reference that writes summaries is replayed with an empty one and with the oracle's: a candidate that loses no more than
//! the oracle's is not worse for sure; else it is if its break-even share is above what the product's own summaries keep.

pub mod sweep;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;

use crate::experiment::cell::{Played, Plays};
use crate::report::statistics::estimate::Estimate;
use crate::report::statistics::excess::{self, Excess, Pair, Told};
use crate::scores::retention::Fate;

/// What saves less money is not worth a change.
pub const LEAST_SAVED: f64 = 0.01;

/// A session with what each policy made of it.
pub struct Session {
    /// Numbers of its cluster (its task, else the session itself) and of its repository.
    pub cluster: u32,
    pub repository: u32,
    pub plays: Plays,
}

/// A policy, by place among those that were replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Plain(usize),
    /// It writes summaries: with empty ones, and with the oracle's.
    Bracket {
        empty: usize,
        oracle: usize,
    },
}

impl Policy {
    /// The form of it that loses the least, and costs the most.
    pub fn best(self) -> usize {
        match self {
            Policy::Plain(at) | Policy::Bracket { oracle: at, .. } => at,
        }
    }

    fn worst(self) -> usize {
        match self {
            Policy::Plain(at) | Policy::Bracket { empty: at, .. } => at,
        }
    }
}

/// What may be recommended.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub policy: Policy,
    /// Whether it differs from the reference in stages alone that write no summary.
    pub has_same_summaries: bool,
}

/// What a policy makes of some sessions, beside the reference.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Place among the candidates.
    pub candidate: usize,
    /// Against the reference: shares of tokens, of billed tokens and of money that it saves; null without any.
    pub saved: [Option<f64>; 3],
    /// Price x tokens of it, and of the reference.
    pub cost: [f64; 2],
    /// Compressions.
    pub n_events: usize,
    pub n_prompts: usize,
    /// Prompts that do not fit the window: of it, of the reference.
    pub n_over: [usize; 2],
    pub excess: Excess,
    /// The same with empty summaries, where both write the same.
    pub with_empty: Option<Excess>,
    /// Where it writes summaries of its own: those of the oracle, beside the worst form of the reference.
    pub at_best: Option<Excess>,
    /// Why it is not to be set: by the older half, by the newer half.
    pub fails: [Vec<Fails>; 2],
    /// Of a reference that writes summaries, where it writes none: beside that with empty ones.
    pub to_empty: Option<Excess>,
    /// The same as the break-even share, and its one-sided lower bound.
    pub break_even: Option<(f64, Option<f64>)>,
}

/// Why a policy is not to be set on some sessions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fails {
    /// It saves only this share of money, or none is known.
    Saves(Option<f64>),
    /// Too many of its prompts are over the window.
    Over,
    /// It is not shown to be as good.
    NotShown,
}

/// The answer.
#[derive(Debug)]
pub struct Advice {
    /// Sessions of the older and of the newer half.
    pub n_halves: [usize; 2],
    /// Of those that are cheaper on the older half, the most needs that were exposed there, and in how many affected sessions.
    pub most: (u64, usize),
    /// Compressions of the reference.
    pub n_events: usize,
    /// What the product's own summaries kept of what they replaced, in these sessions; null below the minimum.
    pub kept: Estimate,
    /// The recommended one, on the newer half.
    pub chosen: Option<Compared>,
    /// All that compressed something, over all sessions, cheapest first.
    pub all: Vec<Compared>,
    pub verdict: Verdict,
}

impl Advice {
    /// Share of the reference's prompts that are longer than the window.
    pub fn reference_over(&self) -> Option<f64> {
        let of = self.all.iter().max_by_key(|of| of.n_prompts)?;
        (of.n_prompts > 0).then(|| of.n_over[1] as f64 / of.n_prompts as f64)
    }
}

/// Why there is a recommendation, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is cheaper, and not worse in either half.
    Set,
    /// Nothing was compressed enough to tell; the reference may not have acted at all.
    TooLittle,
    /// No candidate is cheaper.
    NoneCheaper,
    /// Some are cheaper, and none is shown to be as good.
    Keep,
}

/// Candidates beside a reference over some sessions.
pub struct Advisor<'a> {
    sessions: &'a [Session],
    reference: Policy,
    beside: Vec<Beside>,
    margin: f64,
    kept: Estimate,
}

impl<'a> Advisor<'a> {
    pub fn new(sessions: &'a [Session], reference: Policy, candidates: &[Candidate], margin: f64) -> Self {
        let kept = kept_of(sessions);
        let beside = candidates.iter().map(|candidate| Beside::of(sessions, reference, candidate)).collect();
        Advisor { sessions, reference, beside, margin, kept }
    }

    /// Answers.
    pub fn advice(&self) -> Advice {
        let mut order: Vec<usize> = (0..self.sessions.len()).collect();
        // Those without a time are the oldest, in the order of the data.
        order.sort_by_key(|&at| self.sessions[at].plays.time);
        let (older, newer) = order.split_at(order.len() / 2);
        let mut all = self.over(&order);
        all.sort_by(|a, b| a.cost[0].total_cmp(&b.cost[0]).then(a.candidate.cmp(&b.candidate)));
        let of_older = self.over(older);
        for of in &mut all {
            let in_half = |half| self.fails(&self.beside[of.candidate].over(of.candidate, half));
            of.fails = [older, newer].map(in_half);
        }
        let chosen = self.cheapest(&of_older).map(|of| self.beside[of.candidate].over(of.candidate, newer));
        let chosen = chosen.filter(|of| self.holds(of));
        let is_told = |of: &Compared| of.is_cheaper() && of.excess.told(self.margin) != Told::TooLittle;
        let verdict = match &chosen {
            Some(_) => Verdict::Set,
            None if !all.iter().any(Compared::is_cheaper) && !all.is_empty() => Verdict::NoneCheaper,
            None if !of_older.iter().any(is_told) => Verdict::TooLittle,
            None => Verdict::Keep,
        };
        let n_events = self.sessions.iter().map(|s| s.plays.played[self.reference.best()].n_events).sum();
        let n_halves = [older.len(), newer.len()];
        let cheaper = of_older.iter().filter(|of| of.is_cheaper());
        let most = cheaper.map(|of| (of.excess.n_needs, of.excess.n_affected)).max().unwrap_or_default();
        Advice { n_halves, most, n_events, kept: self.kept.clone(), chosen, all, verdict }
    }

    /// Chooses so many times on a random half of the tasks, and looks at the other half.
    pub fn validated(&self, n_splits: u32, seed: u64) -> Validation {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let clusters: BTreeSet<u32> = self.sessions.iter().map(|session| session.cluster).collect();
        let mut clusters: Vec<u32> = clusters.into_iter().collect();
        let mut validation = Validation { n_splits, ..Validation::default() };
        for _ in 0..n_splits {
            clusters.shuffle(&mut rng);
            let half: BTreeSet<u32> = clusters[..clusters.len() / 2].iter().copied().collect();
            let (one, other): (Vec<usize>, Vec<usize>) =
                (0..self.sessions.len()).partition(|&at| half.contains(&self.sessions[at].cluster));
            let all = self.over(&one);
            let Some(promised) = self.cheapest(&all) else { continue };
            validation.n_set += 1;
            let found = self.beside[promised.candidate].over(promised.candidate, &other);
            let Some(value) = found.excess.value else { continue };
            validation.n_within_margin += u32::from(value < self.margin);
            let bounds = promised.excess.bounds();
            validation.n_within_bound += u32::from(bounds.is_some_and(|(_, upper)| value <= upper));
        }
        validation
    }

    /// Those that compressed something in these sessions.
    fn over(&self, at: &[usize]) -> Vec<Compared> {
        let all = self.beside.iter().enumerate().map(|(candidate, beside)| beside.over(candidate, at));
        all.filter(|of| of.n_events > 0).collect()
    }

    fn fails(&self, of: &Compared) -> Vec<Fails> {
        let all = [
            (of.is_cheaper(), Fails::Saves(of.saved[2])),
            (of.fits(), Fails::Over),
            (of.is_not_worse(self.margin, self.kept.hi()), Fails::NotShown),
        ];
        all.into_iter().filter(|(is_so, _)| !is_so).map(|(_, fails)| fails).collect()
    }

    fn holds(&self, of: &Compared) -> bool {
        self.fails(of).is_empty()
    }

    fn cheapest<'c>(&self, all: &'c [Compared]) -> Option<&'c Compared> {
        all.iter().filter(|of| self.holds(of)).min_by(|a, b| a.cost[0].total_cmp(&b.cost[0]))
    }
}

/// How often what was chosen on one half held on the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Validation {
    pub n_splits: u32,
    /// Halves in which something was to be set.
    pub n_set: u32,
    /// Of these, those on whose other half it lost less than the margin more than the reference.
    pub n_within_margin: u32,
    /// The same for the upper bound that was promised; the other half has its own noise.
    pub n_within_bound: u32,
}

impl Compared {
    pub fn is_cheaper(&self) -> bool {
        self.saved[2].is_some_and(|saved| saved >= LEAST_SAVED)
    }

    /// Whether no more of its prompts are longer than the window than of the reference's.
    pub fn is_over_no_more(&self) -> bool {
        self.n_over[0] <= self.n_over[1]
    }

    /// Whether most of its prompts are longer than the window, so that it cannot run there whatever the reference does.
    pub fn is_mostly_over(&self) -> bool {
        2 * self.n_over[0] > self.n_prompts
    }

    /// Share of its prompts that are longer than the window; null without prompts.
    pub fn over(&self) -> Option<f64> {
        (self.n_prompts > 0).then(|| self.n_over[0] as f64 / self.n_prompts as f64)
    }

    pub fn fits(&self) -> bool {
        self.is_over_no_more() && !self.is_mostly_over()
    }

    pub fn holds_in_each(&self) -> bool {
        self.fails.iter().all(Vec::is_empty)
    }

    /// Whether nothing but more sessions is missing to set it.
    pub fn lacks_sessions(&self) -> bool {
        !self.holds_in_each() && self.fails.iter().flatten().all(|of| *of == Fails::NotShown)
    }

    /// Whether it is shown to lose more, whatever summaries either writes.
    pub fn is_worse(&self, margin: f64) -> bool {
        let is_worse = |excess: &Excess| excess.told(margin) == Told::Worse;
        // It loses more than without any summary.
        let at_both_ends = [&self.at_best, &self.to_empty].into_iter().flatten().all(is_worse);
        is_worse(&self.excess) && at_both_ends
    }

    /// `keeps` is what the reference's own summaries keep at most.
    pub fn is_not_worse(&self, margin: f64, keeps: Option<f64>) -> bool {
        let is_not_worse = |excess: &Excess| excess.told(margin) == Told::NotWorse;
        let breaks_even = self.break_even.and_then(|(_, lower)| lower).zip(keeps);
        is_not_worse(&self.excess) && self.with_empty.as_ref().is_none_or(is_not_worse)
            || breaks_even.is_some_and(|(lower, keeps)| lower > keeps)
    }
}

/// A candidate beside the reference, session by session.
///
/// Without a model two that write summaries can be told apart where these are the same, or the worst of one is not worse than
/// the best of the other.
struct Beside {
    pairs: Vec<Pair>,
    /// With empty summaries, where both write the same.
    with_empty: Option<Vec<Pair>>,
    /// With the oracle's, where it writes others than the reference, beside the reference with empty ones.
    at_best: Option<Vec<Pair>>,
    /// Beside empty summaries of the reference, where the candidate writes none.
    to_empty: Option<Vec<Pair>>,
    /// Tokens, billed tokens and money: of the candidate, of the reference.
    spent: Vec<[[f64; 2]; 3]>,
    n_events: Vec<usize>,
    n_prompts: Vec<usize>,
    /// Prompts that do not fit the window: of the candidate, of the reference.
    n_over: Vec<[usize; 2]>,
}

impl Beside {
    fn of(sessions: &[Session], reference: Policy, own: &Candidate) -> Self {
        let of = |own: usize, reference: usize| -> Vec<Pair> {
            sessions.iter().map(|session| pair(session, own, reference)).collect()
        };
        let compared = if own.has_same_summaries { own.policy.best() } else { own.policy.worst() };
        let spent = |session: &Session| {
            let both = [own.policy.best(), reference.best()].map(|at| &session.plays.played[at]);
            let each: [fn(&Played) -> f64; 3] = [|p| p.tokens[1], |p| p.billed[1], |p| p.cost[1]];
            each.map(|of| both.map(of))
        };
        let over = |session: &Session| {
            [own.policy.best(), reference.best()].map(|at| session.plays.played[at].n_over)
        };
        Beside {
            pairs: of(compared, reference.best()),
            with_empty: own.has_same_summaries.then(|| of(own.policy.worst(), reference.worst())),
            at_best: (matches!(own.policy, Policy::Bracket { .. }) && !own.has_same_summaries)
                .then(|| of(own.policy.best(), reference.worst())),
            to_empty: match (own.policy, reference) {
                (Policy::Plain(own), Policy::Bracket { empty, .. }) => Some(of(own, empty)),
                _ => None,
            },
            spent: sessions.iter().map(spent).collect(),
            n_events: sessions.iter().map(|session| session.plays.played[compared].n_events).collect(),
            n_prompts: sessions.iter().map(|session| session.plays.played[compared].n_prompts).collect(),
            n_over: sessions.iter().map(over).collect(),
        }
    }

    /// Over the sessions at these places.
    fn over(&self, candidate: usize, at: &[usize]) -> Compared {
        let some = |pairs: &Vec<Pair>| -> Vec<Pair> { at.iter().map(|&at| pairs[at]).collect() };
        let sum =
            |what: usize| [0, 1].map(|side| at.iter().map(|&at| self.spent[at][what][side]).sum::<f64>());
        let saved = |[own, of_reference]: [f64; 2]| (of_reference > 0.0).then(|| 1.0 - own / of_reference);
        Compared {
            candidate,
            saved: [0, 1, 2].map(|what| saved(sum(what))),
            cost: sum(2),
            n_events: at.iter().map(|&at| self.n_events[at]).sum(),
            n_prompts: at.iter().map(|&at| self.n_prompts[at]).sum(),
            n_over: [0, 1].map(|side| at.iter().map(|&at| self.n_over[at][side]).sum()),
            excess: Excess::of(&some(&self.pairs)),
            with_empty: self.with_empty.as_ref().map(|pairs| Excess::of(&some(pairs))),
            at_best: self.at_best.as_ref().map(|pairs| Excess::of(&some(pairs))),
            fails: Default::default(),
            to_empty: self.to_empty.as_ref().map(|pairs| Excess::of(&some(pairs))),
            break_even: self.to_empty.as_ref().and_then(|pairs| excess::break_even(&some(pairs))),
        }
    }
}

fn pair(session: &Session, policy: usize, reference: usize) -> Pair {
    let Plays { weights, played, .. } = &session.plays;
    let both = [&played[policy], &played[reference]];
    let is_affected = both.iter().any(|played| played.n_events > 0);
    let mut pair = Pair { is_affected, ..nothing(session) };
    for (i, weight) in weights.iter().enumerate() {
        let fates: [Fate; 2] = both.map(|played| played.fates[i]);
        if fates.iter().any(|fate| fate.exposed) {
            pair.n_needs += 1;
            pair.weight += weight;
            for (side, _) in fates.iter().enumerate().filter(|(_, fate)| fate.lost) {
                pair.lost[side] += weight;
                pair.n_lost[side] += 1;
            }
        }
    }
    pair
}

fn nothing(session: &Session) -> Pair {
    let (cluster, stratum) = (session.cluster, session.repository);
    Pair { cluster, stratum, is_affected: true, n_needs: 0, weight: 0.0, lost: [0.0; 2], n_lost: [0; 2] }
}

/// What the product's own summaries kept of the needs that they were all that was left of.
fn kept_of(sessions: &[Session]) -> Estimate {
    let of = |session: &Session| {
        let (n_needs, [weight, lost]) = session.plays.by_product?;
        Some(Pair { n_needs, weight, lost: [lost, 0.0], ..nothing(session) })
    };
    excess::kept(&sessions.iter().filter_map(of).collect::<Vec<_>>())
}
