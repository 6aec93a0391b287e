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

use crate::experiment::cell::{Played, Plays};
use crate::report::statistics::estimate::Estimate;
use crate::report::statistics::excess::{self, Excess, Pair, Told};
use crate::scores::retention::Fate;

/// What saves less money is not worth a change.
const LEAST_SAVED: f64 = 0.01;

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
    pub excess: Excess,
    /// The same with empty summaries, where both write the same.
    pub with_empty: Option<Excess>,
    /// Of a reference that writes summaries: the break-even share, and its one-sided lower bound.
    pub break_even: Option<(f64, Option<f64>)>,
}

/// The answer.
#[derive(Debug)]
pub struct Advice {
    /// Sessions of the older and of the newer half.
    pub n_halves: [usize; 2],
    /// Compressions of the reference.
    pub n_events: usize,
    /// What the product's own summaries kept of what they replaced, in these sessions; null below the minimum.
    pub kept: Estimate,
    /// What they keep at most, by these sessions or else by others.
    pub keeps: Option<f64>,
    /// The recommended one, on the newer half.
    pub chosen: Option<Compared>,
    /// All that compressed something, over all sessions, cheapest first.
    pub all: Vec<Compared>,
    pub verdict: Verdict,
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
    /// Some are cheaper, and none is shown not to be worse.
    Keep,
}

/// Answers. `kept_elsewhere` is the share that the product's summaries are known to keep at most, by other logs.
pub fn advise(
    sessions: &[Session],
    reference: Policy,
    candidates: &[Candidate],
    margin: f64,
    kept_elsewhere: Option<f64>,
) -> Advice {
    let mut order: Vec<&Session> = sessions.iter().collect();
    // Those without a time are the oldest, in the order of the data.
    order.sort_by_key(|session| session.plays.time);
    let (older, newer) = order.split_at(order.len() / 2);
    let halves = [older, newer];
    let kept = kept_of(sessions);
    let keeps = kept.hi().or(kept_elsewhere);
    let compared =
        |candidate: usize, of: &[&Session]| compare(of, reference, (candidate, candidates[candidate]));
    let mut all: Vec<Compared> = (0..candidates.len()).map(|candidate| compared(candidate, &order)).collect();
    all.retain(|of| of.n_events > 0);
    all.sort_by(|a, b| a.cost[0].total_cmp(&b.cost[0]).then(a.candidate.cmp(&b.candidate)));
    let holds = |of: &Compared| of.is_cheaper() && of.is_not_worse(margin, keeps);
    let of_older: Vec<Compared> =
        all.iter().map(|of| compared(of.candidate, halves[0])).filter(|of| of.n_events > 0).collect();
    let cheapest = of_older.iter().filter(|of| holds(of)).min_by(|a, b| a.cost[0].total_cmp(&b.cost[0]));
    let chosen = cheapest.map(|of| compared(of.candidate, halves[1])).filter(holds);
    let is_told = |of: &Compared| of.is_cheaper() && of.excess.told(margin) != Told::TooLittle;
    let verdict = match &chosen {
        Some(_) => Verdict::Set,
        None if !all.iter().any(Compared::is_cheaper) && !all.is_empty() => Verdict::NoneCheaper,
        None if !of_older.iter().any(is_told) => Verdict::TooLittle,
        None => Verdict::Keep,
    };
    let n_events = order.iter().map(|session| session.plays.played[reference.best()].n_events).sum();
    Advice { n_halves: halves.map(<[_]>::len), n_events, kept, keeps, chosen, all, verdict }
}

impl Compared {
    pub fn is_cheaper(&self) -> bool {
        self.saved[2].is_some_and(|saved| saved >= LEAST_SAVED)
    }

    /// `keeps` is what the reference's own summaries keep at most.
    pub fn is_not_worse(&self, margin: f64, keeps: Option<f64>) -> bool {
        let is_not_worse = |excess: &Excess| excess.told(margin) == Told::NotWorse;
        let breaks_even = self.break_even.and_then(|(_, lower)| lower).zip(keeps);
        is_not_worse(&self.excess) && self.with_empty.as_ref().is_none_or(is_not_worse)
            || breaks_even.is_some_and(|(lower, keeps)| lower > keeps)
    }
}

/// Without a model two that write summaries can be told apart where these are the same, or the worst of one is not worse than
/// the best of the other.
fn compare(sessions: &[&Session], reference: Policy, (candidate, own): (usize, Candidate)) -> Compared {
    let of = |own: usize, reference: usize| -> Vec<Pair> {
        sessions.iter().map(|session| pair(session, own, reference)).collect()
    };
    let is_same = own.has_same_summaries;
    let compared = if is_same { own.policy.best() } else { own.policy.worst() };
    let sums = |of: fn(&Played) -> f64| {
        [own.policy.best(), reference.best()]
            .map(|at| sessions.iter().map(|session| of(&session.plays.played[at])).sum::<f64>())
    };
    let saved = |[own, of_reference]: [f64; 2]| (of_reference > 0.0).then(|| 1.0 - own / of_reference);
    let cost = sums(|played| played.cost[1]);
    let is_plain = matches!(own.policy, Policy::Plain(_));
    Compared {
        candidate,
        saved: [saved(sums(|p| p.tokens[1])), saved(sums(|p| p.billed[1])), saved(cost)],
        cost,
        n_events: sessions.iter().map(|session| session.plays.played[compared].n_events).sum(),
        excess: Excess::of(&of(compared, reference.best())),
        with_empty: is_same.then(|| Excess::of(&of(own.policy.worst(), reference.worst()))),
        break_even: match reference {
            Policy::Bracket { empty, .. } if is_plain => excess::break_even(&of(compared, empty)),
            _ => None,
        },
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
            for (lost, fate) in pair.lost.iter_mut().zip(fates) {
                *lost += if fate.lost { *weight } else { 0.0 };
            }
        }
    }
    pair
}

fn nothing(session: &Session) -> Pair {
    let (cluster, stratum) = (session.cluster, session.repository);
    Pair { cluster, stratum, is_affected: true, n_needs: 0, weight: 0.0, lost: [0.0; 2] }
}

/// What the product's own summaries kept of the needs that they were all that was left of.
fn kept_of(sessions: &[Session]) -> Estimate {
    let of = |session: &Session| {
        let (n_needs, [weight, lost]) = session.plays.by_product?;
        Some(Pair { n_needs, weight, lost: [lost, 0.0], ..nothing(session) })
    };
    excess::kept(&sessions.iter().filter_map(of).collect::<Vec<_>>())
}
