//! A policy at many settings: what each saves, loses, and when its compressions have paid.

use super::Session;
use crate::experiment::cell::Played;
use crate::report::statistics::estimate::Estimate;
use crate::report::statistics::excess::{self, Pair};

/// What one setting saved and lost over some sessions.
#[derive(Debug)]
pub struct Setting {
    pub n_sessions: usize,
    /// Sessions in which something was compressed, and how often.
    pub n_affected: usize,
    pub n_events: usize,
    /// Shares saved, against nothing compressed: tokens, billed tokens, money; null without any.
    pub saved: [Option<f64>; 3],
    /// Share of the headline needs that are kept, exposed or not.
    pub kept: Estimate,
    /// 10th percentile over sessions with needs of that share.
    pub low: Option<f64>,
    /// Weight of needs that a session loses: the mean, and the 10th and 90th percentile.
    pub lost: Estimate,
    pub lost_tenths: Option<[f64; 2]>,
    pub paid: [Paid; 2],
}

impl Setting {
    /// Whether another one does the same.
    pub fn is_same_as(&self, other: &Setting) -> bool {
        let told =
            |of: &Setting| (of.n_affected, of.n_events, of.saved, of.kept.value, of.lost.value, of.paid);
        told(self) == told(other) && self.low == other.low && self.lost_tenths == other.lost_tenths
    }
}

/// When compressions have paid for the cache that they broke.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paid {
    /// Median of the calls until then, those that never pay counted as the latest; null where half never do.
    pub median: Option<u32>,
    /// Share of them that never pay in what was left of the log; null without compressions.
    pub never: Option<f64>,
}

/// The setting at this place among the policies.
pub fn setting(sessions: &[Session], policy: usize) -> Setting {
    let played = || sessions.iter().map(|session| &session.plays.played[policy]);
    let saved = |of: fn(&Played) -> [f64; 2]| {
        let [full, sent] = played().map(of).fold([0.0; 2], |[a, b], [full, sent]| [a + full, b + sent]);
        (full > 0.0).then(|| 1.0 - sent / full)
    };
    let pairs: Vec<Pair> = sessions.iter().map(|session| all_needs(session, policy)).collect();
    let (kept, lost) = (excess::kept(&pairs), excess::lost_a_session(&pairs));
    Setting {
        n_sessions: sessions.len(),
        n_affected: played().filter(|played| played.n_events > 0).count(),
        n_events: played().map(|played| played.n_events).sum(),
        saved: [saved(|p| p.tokens), saved(|p| p.billed), saved(|p| p.cost)],
        kept,
        low: excess::low(&pairs, 0),
        lost,
        lost_tenths: excess::tenths_lost(&pairs),
        paid: [0, 1].map(|lifetime| {
            paid(played().flat_map(|played| &played.paid_after).map(|after| after[lifetime]))
        }),
    }
}

/// A session's headline needs, exposed or not, and those that are lost.
fn all_needs(session: &Session, policy: usize) -> Pair {
    let plays = &session.plays;
    let fates = plays.weights.iter().zip(&plays.played[policy].fates);
    let lost = fates.filter(|(_, fate)| fate.lost).map(|(weight, _)| weight).sum();
    let (n_needs, weight) = (plays.weights.len() as u64, plays.weights.iter().sum());
    Pair { n_needs, weight, lost: [lost, 0.0], ..super::nothing(session) }
}

fn paid(all: impl Iterator<Item = Option<u32>>) -> Paid {
    let mut all: Vec<u32> = all.map(|after| after.unwrap_or(u32::MAX)).collect();
    all.sort_unstable();
    let never = all.iter().filter(|after| **after == u32::MAX).count();
    let median = all.get(all.len().saturating_sub(1) / 2).copied().filter(|after| *after < u32::MAX);
    Paid { median, never: (!all.is_empty()).then(|| never as f64 / all.len() as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts_those_that_never_pay() {
        let of = |all: &[Option<u32>]| paid(all.iter().copied());
        assert_eq!(of(&[Some(3), None, Some(1)]), Paid { median: Some(3), never: Some(1.0 / 3.0) });
        assert_eq!(of(&[None, None, Some(1)]), Paid { median: None, never: Some(2.0 / 3.0) });
        assert_eq!(of(&[]), Paid { median: None, never: None });
    }
}
