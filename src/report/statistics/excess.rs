//! Whether a policy c is *not worse* than a reference r: how much more it loses of what either of them could lose.
//!
//! - Excess loss D = (weight lost under c - weight lost under r) / weight, each a sum over the sessions in which either
//!   compressed something; weight is that of their headline needs exposed under c or r. From -1 to 1.
//! - c is not worse if the one-sided 95 % upper bound of D (jackknife over clusters, t) is below the margin, and the 10th
//!   percentile over sessions of the share that c retains is at most two margins below that of r: the percentile of each, not
//!   that of their differences, which rejects most equal policies.
//! - c is worse if the one-sided lower bound of D is above 0.
//! - Minimum: 30 needs and 10 sessions. Below it too little was compressed to tell.
//! - Break-even share of a reference that writes summaries: 1 - weight lost by c / weight lost by r with an empty summary,
//!   over the same needs: what part of what they replace its summaries have to keep to lose as little as c.
//!
//! Source: DESIGN section 12, ours; non-inferiority as in Piaggio et al., "Reporting of noninferiority and equivalence
//! randomized trials" (JAMA 2012).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::design::DrawnFrom;
use super::estimate::{Estimate, ratio};
use super::inference::Resampled;
use crate::scores::registry::Scale;

/// Sessions that were compressed, at least.
const MIN_SESSIONS: usize = 10;
/// What lies nearer is rounding.
const SAME: f64 = 1e-9;
/// Of the retained shares, the one that is compared beside D.
const LOW: f64 = 0.1;
/// From the bound to where nine of ten draws lie below it, in reaches: 1 + 1.2816 / 1.6449.
const NINE_OF_TEN: f64 = 1.779;

/// A session under a policy and its reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair {
    /// Its cluster (a task with all its runs, else the session itself), and the stratum of that.
    pub(crate) cluster: u32,
    pub(crate) stratum: u32,
    /// Whether either compressed something.
    pub(crate) is_affected: bool,
    /// Needs that were exposed under either, one by one and by weight.
    pub(crate) n_needs: u64,
    pub(crate) weight: f64,
    /// Weight of those that were lost: under the policy, under the reference.
    pub(crate) lost: [f64; 2],
    /// The same, each counted as one.
    pub(crate) n_lost: [u64; 2],
}

/// A policy beside its reference over some sessions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Excess {
    pub(crate) n_sessions: usize,
    pub(crate) n_affected: usize,
    pub(crate) n_needs: u64,
    pub(crate) weight: f64,
    /// D; null without needs.
    pub(crate) value: Option<f64>,
    /// From D to its one-sided bounds; null below the minimum.
    reach: Option<f64>,
    /// 10th percentile of the shares that are retained: of the policy, of the reference.
    pub(crate) low: Option<[f64; 2]>,
    /// Needs that a session loses more than under the reference; all sessions count.
    pub(crate) more: Estimate,
    /// Weight of needs lost: under the policy, under the reference.
    pub(crate) lost: [f64; 2],
    /// The same, each need counted as one.
    pub(crate) n_lost: [u64; 2],
}

/// Needs that a session loses more than under the reference. Nobody loses fewer than none: where the reference loses none at all,
/// the policy loses no fewer, and the other way round.
fn more(pairs: &[Pair], n_needs: u64) -> Estimate {
    let mut more =
        a_session(Scale::Score, pairs, n_needs, |pair| pair.n_lost[0] as f64 - pair.n_lost[1] as f64);
    let [own, other] = [0, 1].map(|i| pairs.iter().map(|pair| pair.n_lost[i]).sum::<u64>());
    more.interval = more
        .interval
        .map(|(lo, hi)| (if other == 0 { lo.max(0.0) } else { lo }, if own == 0 { hi.min(0.0) } else { hi }));
    more
}

/// What can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    TooLittle,
    NotWorse,
    Worse,
    Open,
}

impl Excess {
    pub(crate) fn of(pairs: &[Pair]) -> Self {
        let affected: Vec<&Pair> = pairs.iter().filter(|pair| pair.is_affected).collect();
        let n_needs = affected.iter().map(|pair| pair.n_needs).sum();
        let (sums, strata) =
            by_cluster(affected.iter().map(|p| (p.cluster, p.stratum, [p.lost[0], p.lost[1], p.weight])));
        let of_sums = |s: &[f64; 3]| ratio(s[0] - s[1], s[2]);
        let d = Resampled::of(Scale::Score, &sums, strata, of_sums, |s| s[2]);
        let d = Resampled { n_items: n_needs, ..d };
        Excess {
            n_sessions: pairs.len(),
            n_affected: affected.len(),
            n_needs,
            weight: affected.iter().map(|pair| pair.weight).sum(),
            value: d.value,
            reach: d.reach().filter(|_| affected.len() >= MIN_SESSIONS),
            low: low(affected.iter().copied(), 0)
                .zip(low(affected.iter().copied(), 1))
                .map(|(own, other)| [own, other]),
            more: more(pairs, n_needs),
            lost: [0, 1].map(|i| affected.iter().map(|pair| pair.lost[i]).sum()),
            n_lost: [0, 1].map(|i| affected.iter().map(|pair| pair.n_lost[i]).sum()),
        }
    }

    /// D with its one-sided bounds; null below the minimum.
    pub(crate) fn bounds(&self) -> Option<(f64, f64)> {
        let (value, reach) = self.value.zip(self.reach)?;
        // No policy loses more than all that either could lose.
        Some(((value - reach).max(-1.0), (value + reach).min(1.0)))
    }

    pub(crate) fn told(&self, margin: f64) -> Told {
        match (self.bounds(), self.low) {
            (Some((_, upper)), Some([low, of_reference]))
                if upper < margin && low >= of_reference - 2.0 * margin - SAME =>
            {
                Told::NotWorse
            }
            (Some((lower, _)), _) if lower > 0.0 => Told::Worse,
            (Some(_), Some(_)) => Told::Open,
            _ => Told::TooLittle,
        }
    }

    /// The smallest margin at which so many sessions could have told an equal policy from a worse one.
    pub(crate) fn least_margin(&self) -> Option<f64> {
        self.reach
    }

    /// How many affected sessions like these tell in nine of ten cases that it is not worse, if D is what it seems; none where
    /// that is no less than the margin.
    pub(crate) fn sessions_needed(&self, margin: f64) -> Option<usize> {
        let (value, reach) = self.value.zip(self.reach)?;
        let times = (NINE_OF_TEN * reach / (margin - value)).powi(2);
        let needed = (times * self.n_affected as f64).ceil();
        (value < margin && needed < 1e6).then_some(needed as usize)
    }
}

/// The 10th percentile of what is retained of the needs of a session, by one side; null without needs.
pub(crate) fn low<'p>(pairs: impl IntoIterator<Item = &'p Pair>, side: usize) -> Option<f64> {
    let with = pairs.into_iter().filter(|pair| pair.weight > 0.0);
    percentile(with.map(|pair| 1.0 - pair.lost[side] / pair.weight).collect(), LOW)
}

/// The mean over all sessions.
fn a_session(scale: Scale, pairs: &[Pair], n_items: u64, of: impl Fn(&Pair) -> f64) -> Estimate {
    let (sums, strata) = by_cluster(pairs.iter().map(|p| (p.cluster, p.stratum, [of(p), 1.0])));
    let mean = |s: &[f64; 2]| ratio(s[0], s[1]);
    let mean = Resampled::of(scale, &sums, strata, mean, |s| s[1]);
    Resampled { n_items, ..mean }.estimate()
}

/// Weight of needs that a session loses.
pub(crate) fn lost_a_session(pairs: &[Pair]) -> Estimate {
    a_session(Scale::Count, pairs, pairs.iter().map(|pair| pair.n_needs).sum(), |pair| pair.lost[0])
}

/// The 10th and the 90th percentile of what a session loses; null without sessions.
pub(crate) fn tenths_lost(pairs: &[Pair]) -> Option<[f64; 2]> {
    let lost = |at| percentile(pairs.iter().map(|pair| pair.lost[0]).collect(), at);
    Some([lost(LOW)?, lost(1.0 - LOW)?])
}

/// Between the two nearest values; null of none.
fn percentile(mut values: Vec<f64>, at: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let place = at * values.len().checked_sub(1)? as f64;
    let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
    Some(below + (above - below) * place.fract())
}

/// The break-even share with its one-sided 95 % lower bound; `pairs` are those with the reference whose summaries are empty.
pub(crate) fn break_even(pairs: &[Pair]) -> Option<(f64, Option<f64>)> {
    let affected: Vec<&Pair> = pairs.iter().filter(|pair| pair.is_affected).collect();
    let (sums, strata) = by_cluster(affected.iter().map(|pair| (pair.cluster, pair.stratum, pair.lost)));
    let share = |lost: &[f64; 2]| ratio(lost[0], lost[1]).map(|share| 1.0 - share);
    let of = Resampled::of(Scale::Score, &sums, strata, share, |lost| lost[1]);
    let of = Resampled { n_items: affected.iter().map(|pair| pair.n_needs).sum(), ..of };
    let reach = of.reach().filter(|_| affected.len() >= MIN_SESSIONS);
    Some((of.value?, reach.map(|reach| of.value.unwrap_or(0.0) - reach)))
}

/// A share of weights over sessions, with its interval: what a product's own summaries kept. Of each session the weight of its
/// needs, and of those that were lost.
pub(crate) fn kept(sessions: &[Pair]) -> Estimate {
    let of = |pair: &Pair| (pair.cluster, pair.stratum, [pair.weight - pair.lost[0], pair.weight]);
    let (sums, strata) = by_cluster(sessions.iter().map(of));
    let of = Resampled::of(Scale::Share, &sums, strata, |s| ratio(s[0], s[1]), |s| s[1]);
    Resampled { n_items: sessions.iter().map(|pair| pair.n_needs).sum(), ..of }.estimate()
}

/// The sums of each cluster, and its stratum; clusters in order of their numbers.
fn by_cluster<const K: usize>(
    sessions: impl Iterator<Item = (u32, u32, [f64; K])>,
) -> (Vec<[f64; K]>, Arc<[DrawnFrom]>) {
    let mut sums: BTreeMap<u32, (u32, [f64; K])> = BTreeMap::new();
    for (cluster, stratum, part) in sessions {
        let (_, sum) = sums.entry(cluster).or_insert((stratum, [0.0; K]));
        sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
    let strata = sums.values().map(|(stratum, _)| DrawnFrom::from(*stratum)).collect();
    (sums.into_values().map(|(_, sum)| sum).collect(), strata)
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    fn pair(n: u64, lost: [f64; 2]) -> Pair {
        let n_lost = lost.map(|lost| lost as u64);
        Pair { cluster: 0, stratum: 0, is_affected: true, n_needs: n, weight: n as f64, lost, n_lost }
    }

    /// Each a cluster of its own.
    fn apart(mut pairs: Vec<Pair>) -> Vec<Pair> {
        (0..).zip(&mut pairs).for_each(|(cluster, pair)| pair.cluster = cluster);
        pairs
    }

    /// Of 12 sessions with 4 needs each, 6 lose 2 more and 6 one less: D = (12 - 6) / 48. Each left out, it is 4 / 44 six times
    /// and 7 / 44 six times: se^2 = 11 / 12 * 12 * (1.5 / 44)^2.
    #[test]
    fn excess_by_hand() {
        let mut pairs = vec![pair(4, [3.0, 1.0]); 6];
        pairs.extend(vec![pair(4, [1.0, 2.0]); 6]);
        pairs.push(Pair { is_affected: false, ..pair(0, [0.0; 2]) });
        let pairs = apart(pairs);
        let excess = Excess::of(&pairs);
        assert_eq!((excess.n_sessions, excess.n_affected, excess.n_needs), (13, 12, 48));
        assert_eq!(excess.value, Some(0.125));
        let reach = 1.795_884_818_704_04 * 11.0_f64.sqrt() * 1.5 / 44.0;
        let (lower, upper) = excess.bounds().unwrap();
        assert!((upper - 0.125 - reach).abs() < 1e-9 && (0.125 - lower - reach).abs() < 1e-9, "{upper}");
        // Retained: a quarter in six and three quarters in six, beside three quarters and a half.
        assert_eq!(excess.low, Some([0.25, 0.5]));
        assert_eq!((excess.told(0.05), excess.told(0.4)), (Told::Open, Told::NotWorse));
        assert!((excess.more.value.unwrap() - 6.0 / 13.0).abs() < 1e-12);
        // For a margin of 0.2 the reach of 0.2030 has to shrink to 0.075 / 1.779: 23.19 times as many sessions.
        assert_eq!(excess.sessions_needed(0.2), Some(279));
        assert_eq!(excess.sessions_needed(0.1), None);
        // 24 needs were lost, 18 under the reference.
        let (share, lower) = break_even(&pairs).unwrap();
        assert!((share + 1.0 / 3.0).abs() < 1e-12 && lower.unwrap() < share);
    }

    #[test]
    fn few_sessions_or_needs_tell_nothing() {
        for (n, of) in [(9, 40), (40, 0)] {
            let excess = Excess::of(&apart(vec![pair(of, [0.0, 0.0]); n]));
            assert_eq!((excess.told(0.05), excess.bounds()), (Told::TooLittle, None), "{n}");
        }
        // All agree: as sure as that none of 60 is other than the rest, but not of 40. 1.645^2 / (60 + 1.645^2).
        let agree = |n| Excess::of(&apart(vec![pair(4, [1.0, 1.0]); n]));
        assert!((agree(60).bounds().unwrap().1 - 0.043_147).abs() < 1e-5);
        assert_eq!([40, 60].map(|n| agree(n).told(0.05)), [Told::Open, Told::NotWorse]);
        // What is at an end may be elsewhere in a session that is not among these: twice as far as from 0.
        let all_lost = Excess::of(&apart(vec![pair(4, [4.0, 0.0]); 60]));
        assert!((all_lost.bounds().unwrap().0 - (1.0 - 2.0 * 0.043_147)).abs() < 1e-5);
        assert_eq!((all_lost.bounds().unwrap().1, all_lost.told(0.05)), (1.0, Told::Worse));
        let (share, lower) = break_even(&apart(vec![pair(4, [0.0, 4.0]); 60])).unwrap();
        assert!(share == 1.0 && (lower.unwrap() - (1.0 - 2.0 * 0.043_147)).abs() < 1e-5);
        assert_eq!(Excess::of(&[]).told(0.05), Told::TooLittle);
        assert_eq!((percentile(vec![], 0.1), percentile(vec![3.0, 1.0], 0.1)), (None, Some(1.2)));
        let lost: Vec<Pair> = (0..11).map(|n| pair(4, [f64::from(n), 0.0])).collect();
        assert_eq!((tenths_lost(&lost), tenths_lost(&[])), (Some([1.0, 9.0]), None));
    }

    #[test]
    fn no_session_loses_less_than_nothing() {
        // Few lose much: an interval as wide below as above would begin at less than nothing.
        let mut pairs = vec![pair(9, [1.0, 0.0]); 4];
        pairs.extend(vec![pair(9, [9.0, 0.0]); 2]);
        let lost = lost_a_session(&apart(pairs.clone()));
        let (value, (lo, hi)) = (lost.value.unwrap(), lost.interval.unwrap());
        // With one left out the mean is 21 / 5 four times, and 13 / 5 twice; t with 5 degrees of freedom.
        let mean = (4.0 * 4.2 + 2.0 * 2.6) / 6.0;
        let se = (5.0 / 6.0 * (4.0 * (4.2_f64 - mean).powi(2) + 2.0 * (2.6_f64 - mean).powi(2))).sqrt();
        assert!((value - 22.0 / 6.0).abs() < 1e-12 && value - 2.570_582 * se < 0.0);
        let times = (2.570_582 * se / value).exp();
        assert!((lo - value / times).abs() < 1e-3 && (hi - value * times).abs() < 1e-3, "{lo} {hi}");
        // Beside a reference that loses none, too, and of a policy that loses none.
        let beside = Excess::of(&apart(pairs.clone())).more.interval.unwrap();
        assert!(beside.0 == 0.0 && beside.1 > 22.0 / 6.0, "{beside:?}");
        let swapped = pairs.iter().map(|pair| Pair { n_lost: [pair.n_lost[1], pair.n_lost[0]], ..*pair });
        let swapped = Excess::of(&apart(swapped.collect())).more.interval.unwrap();
        assert_eq!(swapped, (-beside.1, 0.0));
        // And none more than all that either could lose.
        let all = Excess::of(&apart(
            [vec![pair(9, [9.0, 0.0]); 9], vec![pair(9, [3.0, 0.0]), pair(9, [8.0, 1.0])]].concat(),
        ));
        assert!(all.bounds().unwrap().1 <= 1.0, "{:?}", all.bounds());
    }

    #[test]
    fn a_worse_policy_is_told() {
        let pairs: Vec<Pair> = (0..40).map(|i| pair(10, [5.0 + f64::from(i % 3), 3.0])).collect();
        assert_eq!(Excess::of(&apart(pairs)).told(0.05), Told::Worse);
    }

    /// Weights of exposed needs of 57 Claude Code sessions, masked in a window of 64,000 tokens.
    const WEIGHTS: [f64; 57] = [
        0.2, 0.2, 0.3, 0.3, 1.0, 1.0, 1.0, 1.1, 1.2, 1.2, 1.4, 1.5, 2.0, 2.2, 2.2, 2.4, 2.7, 2.7, 3.3, 3.8,
        4.0, 4.0, 4.2, 4.5, 4.8, 5.0, 5.5, 5.5, 6.0, 6.3, 6.5, 6.8, 7.1, 7.5, 7.7, 7.8, 7.8, 8.0, 8.3, 8.4,
        9.8, 10.5, 11.6, 12.7, 13.0, 13.1, 14.3, 14.8, 15.8, 16.1, 16.3, 16.5, 17.5, 18.3, 20.7, 23.0, 25.8,
    ];
    /// Standard deviation, over these sessions, of the difference of what two policies lose that are nearly the same (results
    /// masked at half of the window, and at four fifths).
    const SPREAD: f64 = 0.097;

    /// `n` sessions with weights drawn from real ones, under a policy that loses so much more.
    fn drawn(rng: &mut ChaCha8Rng, excess: f64, n: u32) -> Vec<Pair> {
        let mut uniform = || f64::from(rng.next_u32()) / 4_294_967_296.0;
        let pair = |cluster: u32| {
            let weight = WEIGHTS[(uniform() * 57.0) as usize];
            // Far enough from 0 and 1, so that nothing is cut off.
            let of_reference = 0.35 + 0.3 * uniform();
            let own = of_reference + excess + SPREAD * 12.0_f64.sqrt() * (uniform() - 0.5);
            let lost = [own * weight, of_reference * weight];
            let n_lost = lost.map(|lost| lost as u64);
            Pair { cluster, stratum: 0, is_affected: true, n_needs: 10, weight, lost, n_lost }
        };
        (0..n).map(pair).collect()
    }

    /// Of 200 draws: how many call it not worse over all sessions, and how many in both halves, as `advise` asks.
    fn passes(excess: f64, n: u32) -> [usize; 2] {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut passes = [0; 2];
        for _ in 0..200 {
            let pairs = drawn(&mut rng, excess, n);
            let is_not_worse = |pairs: &[Pair]| Excess::of(pairs).told(0.05) == Told::NotWorse;
            let (older, newer) = pairs.split_at(pairs.len() / 2);
            passes[0] += usize::from(is_not_worse(&pairs));
            passes[1] += usize::from(is_not_worse(older) && is_not_worse(newer));
        }
        passes
    }

    #[test]
    fn worlds_with_a_known_answer() {
        let worlds = [
            ("worse by the margin", 0.05),
            ("worse by two margins", 0.1),
            ("equal", 0.0),
            ("better by 0.1", -0.1),
        ];
        let [worse, much_worse, equal, better] = worlds.map(|(name, excess)| {
            let [all, halves] = passes(excess, 57);
            println!("{name}: not worse in {all} of 200 worlds over all 57 sessions, in {halves} in both halves of them");
            [all, halves]
        });
        assert!(worse[0] <= 20 && much_worse[0] <= 2 && equal[0] >= 150 && better[0] >= 190);
        // Both halves say so of a worse one more seldom, and of an equal one where each is large enough.
        assert!(worse[1] <= 2 && much_worse[1] == 0 && equal[1] < 100 && better[1] >= 190);
        for n in [80, 100, 120, 160, 200] {
            println!("equal: in {} of 200 in both halves of {n} sessions", passes(0.0, n)[1]);
        }
        // So many as are said to be needed tell in nine of ten cases, and two halves of so many in four of five.
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut needed: Vec<usize> =
            (0..200).filter_map(|_| Excess::of(&drawn(&mut rng, 0.0, 57)).sessions_needed(0.05)).collect();
        needed.sort_unstable();
        let needed = needed[needed.len() / 2] as u32;
        let told = [passes(0.0, needed)[0], passes(0.0, 2 * needed)[1]];
        println!(
            "equal: {needed} sessions are said to be needed; {told:?} of 200 with so many, and in both halves of twice as many"
        );
        assert!(told[0] >= 165 && (145..=185).contains(&told[1]), "{needed} {told:?}");
    }
}
