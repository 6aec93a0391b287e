//! Cluster bootstrap: percentiles and BCa intervals.
//!
//! Whole clusters are drawn, within their strata: as many as there are, or, where there are several strata, one
//! less of each with the weight n_h / (n_h - 1), which gives the variance of small strata its due (Rao and Wu,
//! JASA 1988). Every statistic draws from the same stream (the same seed, started anew), so two variants with
//! the same clusters see the same draws and an estimate does not depend on what else is computed.
//!
//! Used for BCa intervals (Efron, "Better Bootstrap Confidence Intervals", JASA 1987; the acceleration is the
//! jackknife's over clusters) where clusters are many, see [`super::inference`]; for rank correlations and medians, of which
//! leaving a cluster out says little; and for how often a variant is on the frontier. Endpoints are percentiles
//! with linear interpolation, as in SciPy.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::design::Stratum;
use super::distributions::{normal_cdf, normal_quantile};
use super::estimate::Estimate;

/// How many draws, and from which stream.
#[derive(Clone, Copy, Debug)]
pub struct Resampling {
    pub seed: u64,
    pub resamples: usize,
}

/// Share of the resamples that may lack a value before the interval is withheld.
const UNDEFINED_SHARE: f64 = 0.05;

/// The first random numbers of a seed. Every statistic begins with them, so they are made once.
static BEGINNING: Mutex<Option<(u64, Arc<[u32]>)>> = Mutex::new(None);

/// How many of them are kept at most: 16 MB.
const KEPT: usize = 1 << 22;

/// The first numbers of a seed: `n` of them, or as many as are kept.
fn beginning(seed: u64, n: usize) -> Arc<[u32]> {
    let n = n.min(KEPT);
    let mut kept = BEGINNING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, numbers)) = &*kept
        && *of == seed
        && numbers.len() >= n
    {
        return Arc::clone(numbers);
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let numbers: Arc<[u32]> = (0..n).map(|_| rng.next_u32()).collect();
    *kept = Some((seed, Arc::clone(&numbers)));
    numbers
}

/// Which cluster of its stratum each number leads to, resample by resample: the same for all statistics whose strata have as many
/// clusters, and half as long as the numbers.
type Places = Arc<[u16]>;

/// Seed, resamples, and the clusters of each stratum.
type Sizes = (u64, usize, Vec<usize>);

/// The last places that were made.
static PLACES: Mutex<VecDeque<(Sizes, Places)>> = Mutex::new(VecDeque::new());

/// How many of them are kept at most: 64 MB.
const KEPT_PLACES: usize = 1 << 25;

/// The stream of draws.
pub(crate) struct Drawn {
    resampling: Resampling,
    beginning: Arc<[u32]>,
    /// Numbers taken of it.
    taken: usize,
    /// What comes behind it.
    rng: ChaCha8Rng,
    strata: Vec<Stratum>,
    /// Numbers that are not in the beginning.
    beyond: Vec<u32>,
}

/// Resamples that are summed up side by side: each has its own sums, so that none waits for the addition before.
const ABREAST: usize = 4;

impl Drawn {
    pub(crate) fn new(resampling: Resampling, strata: Vec<Stratum>) -> Self {
        let n = resampling.resamples * strata.iter().map(|stratum| stratum.clusters.len()).sum::<usize>();
        let beginning = beginning(resampling.seed, n);
        let mut rng = ChaCha8Rng::seed_from_u64(resampling.seed);
        rng.set_word_pos(beginning.len() as u128);
        Drawn { resampling, beginning, taken: 0, rng, strata, beyond: Vec::new() }
    }

    /// The next numbers of the stream.
    fn numbers(&mut self, n: usize) -> &[u32] {
        let from = self.taken;
        self.taken += n;
        if self.taken <= self.beginning.len() {
            return &self.beginning[from..self.taken];
        }
        let known = &self.beginning[from.min(self.beginning.len())..];
        self.beyond.clear();
        self.beyond.extend_from_slice(known);
        let rng = &mut self.rng;
        self.beyond.extend((known.len()..n).map(|_| rng.next_u32()));
        &self.beyond
    }

    /// How many clusters of a stratum are drawn. One that is alone has nothing to vary with.
    fn times(&self, stratum: &Stratum) -> usize {
        let n = stratum.clusters.len();
        n - usize::from(self.strata.len() > 1 && n > 1)
    }

    fn per_resample(&self) -> usize {
        self.strata.iter().map(|stratum| self.times(stratum)).sum()
    }

    /// The next resample: the clusters drawn.
    pub(crate) fn resample(&mut self) -> Vec<usize> {
        let n = self.per_resample();
        let mut numbers = self.numbers(n).to_vec().into_iter();
        let mut drawn = Vec::with_capacity(n);
        for stratum in &self.strata {
            let numbers = numbers.by_ref().take(self.times(stratum));
            drawn.extend(numbers.map(|number| stratum.clusters[part(number, stratum.clusters.len())]));
        }
        drawn
    }

    /// The sums over the clusters drawn, of so many resamples: as they come of [`Self::resample`], added in its order.
    pub(crate) fn sums<const K: usize>(&mut self, clusters: &[[f64; K]], resamples: usize) -> Vec<[f64; K]> {
        let per_resample = self.per_resample();
        // Clusters of a stratum lie side by side, so that a number leads to one at once.
        let laid: Vec<Vec<[f64; K]>> = self
            .strata
            .iter()
            .map(|stratum| stratum.clusters.iter().map(|&c| clusters[c]).collect())
            .collect();
        let times: Vec<usize> = self.strata.iter().map(|stratum| self.times(stratum)).collect();
        let places = self.places(resamples);
        let mut all = Vec::with_capacity(resamples);
        while all.len() < resamples {
            let n = ABREAST.min(resamples - all.len());
            let sums = match &places {
                Some(places) => {
                    let drawn = &places[all.len() * per_resample..][..n * per_resample];
                    abreast(&laid, &times, drawn, n, |place, _| usize::from(place))
                }
                None => abreast(&laid, &times, self.numbers(n * per_resample), n, part),
            };
            all.extend_from_slice(&sums[..n]);
        }
        all
    }

    /// The places of the first resamples of the stream; none where they are too many, or begin later.
    fn places(&mut self, resamples: usize) -> Option<Places> {
        let n = resamples * self.per_resample();
        let sizes: Vec<usize> = self.strata.iter().map(|stratum| stratum.clusters.len()).collect();
        let fits = sizes.iter().all(|&size| size <= usize::from(u16::MAX));
        if !fits || self.taken > 0 || resamples != self.resampling.resamples || n > KEPT_PLACES / 4 {
            return None;
        }
        let key = (self.resampling.seed, resamples, sizes);
        let kept = || PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, places)) = kept().iter().find(|(of, _)| *of == key) {
            return Some(Arc::clone(places));
        }
        let strata: Vec<(usize, usize)> =
            self.strata.iter().map(|stratum| (self.times(stratum), stratum.clusters.len())).collect();
        let numbers = self.numbers(n);
        let mut places = Vec::with_capacity(n);
        let mut numbers = numbers.iter();
        for _ in 0..resamples {
            for &(times, size) in &strata {
                places.extend(numbers.by_ref().take(times).map(|&number| part(number, size) as u16));
            }
        }
        let places: Places = places.into();
        let mut kept = kept();
        kept.push_front((key, Arc::clone(&places)));
        while kept.iter().map(|(_, places)| places.len()).sum::<usize>() > KEPT_PLACES {
            kept.pop_back();
        }
        Some(places)
    }

    /// What each drawing of a cluster weighs, by cluster.
    pub(crate) fn weights(&self, n_clusters: usize) -> Vec<f64> {
        let mut weights = vec![1.0; n_clusters];
        for stratum in &self.strata {
            let weight = stratum.clusters.len() as f64 / self.times(stratum) as f64 * stratum.reach();
            stratum.clusters.iter().for_each(|&c| weights[c] = weight);
        }
        weights
    }

    /// What each cluster weighs however often it is drawn: of a corpus the share of it that was drawn is known.
    pub(crate) fn known(&self, n_clusters: usize) -> Vec<f64> {
        let mut known = vec![0.0; n_clusters];
        for stratum in &self.strata {
            stratum.clusters.iter().for_each(|&c| known[c] = 1.0 - stratum.reach());
        }
        known
    }
}

/// The sums of some resamples side by side; `at` gives the place in a stratum of so many clusters that a drawing leads to. Of fewer
/// resamples than there are sums the last stands for those that are not wanted.
fn abreast<const K: usize, N: Copy>(
    laid: &[Vec<[f64; K]>],
    times: &[usize],
    drawn: &[N],
    n: usize,
    at: impl Fn(N, usize) -> usize,
) -> [[f64; K]; ABREAST] {
    let per_resample = drawn.len() / n;
    let mut lanes: [&[N]; ABREAST] =
        std::array::from_fn(|lane| &drawn[lane.min(n - 1) * per_resample..][..per_resample]);
    let mut sums = [[0.0; K]; ABREAST];
    for (stratum, &times) in laid.iter().zip(times) {
        let now = lanes.map(|lane| &lane[..times]);
        for draw in 0..times {
            for (sum, lane) in sums.iter_mut().zip(now) {
                let cluster = &stratum[at(lane[draw], stratum.len())];
                for (sum, x) in sum.iter_mut().zip(cluster) {
                    *sum += x;
                }
            }
        }
        lanes = lanes.map(|lane| &lane[times..]);
    }
    sums
}

/// A number under `n`.
pub(crate) fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    part(rng.next_u32(), n)
}

/// A random number as one under `n`. Multiply and shift: the bias is under n / 2^32.
fn part(number: u32, n: usize) -> usize {
    ((u64::from(number) * n as u64) >> 32) as usize
}

/// A value with its percentile interval, widened to hold the value: for rank correlations, which
/// cannot pass 1, and of which most resamples fall short, because resampling shuffles what is near.
pub(crate) fn percentile_estimate(value: f64, draws: &[f64]) -> Estimate {
    match defined(draws) {
        Err(reason) => Estimate { value: Some(value), reason: Some(reason), ..Estimate::default() },
        Ok(draws) => {
            let (lo, hi) = (percentile(&draws, 0.025), percentile(&draws, 0.975));
            Estimate {
                value: Some(value),
                interval: Some((lo.min(value), hi.max(value))),
                ..Estimate::default()
            }
        }
    }
}

/// The BCa interval of a value; an error where too many draws are undefined.
pub(crate) fn interval(value: f64, draws: &[f64], jackknife: &[f64]) -> Result<(f64, f64), String> {
    Ok(bca(value, &mut finite(draws)?, jackknife))
}

/// The resampled values in order; an error where too many are undefined.
pub(crate) fn defined(draws: &[f64]) -> Result<Vec<f64>, String> {
    let mut kept = finite(draws)?;
    kept.sort_by(f64::total_cmp);
    Ok(kept)
}

/// The same as they come, for what needs no order.
pub(crate) fn finite(draws: &[f64]) -> Result<Vec<f64>, String> {
    let kept: Vec<f64> = draws.iter().copied().filter(|d| d.is_finite()).collect();
    let undefined = draws.len() - kept.len();
    if kept.is_empty() || undefined as f64 > UNDEFINED_SHARE * draws.len() as f64 {
        return Err(format!("undefined in {undefined} of {} resamples", draws.len()));
    }
    Ok(kept)
}

/// Differences of fractions nearer than this are rounding.
const SAME: f64 = 1e-12;

/// Smallest p that is told: beyond it lies nothing but the assumption of a normal tail.
pub(crate) const MIN_P: f64 = 1e-6;

/// Two-sided p-value of "the truth is 0", by inversion of the BCa interval: the level at which one of
/// its ends is 0, so that p is under 0.05 where the 95 % interval leaves 0 out. Resampled values of 0
/// count as on the other side, and one more is added there.
///
/// Where none lies on the other side, counting could not tell a distance of 4 standard errors from one of
/// 40, and Holm's adjustment would drown both: the tail is then that of a normal distribution with their
/// mean and standard deviation. Never under [`MIN_P`]. `None` where the interval is null.
pub(crate) fn p_value(value: f64, draws: &[f64], jackknife: &[f64]) -> Option<f64> {
    let snapped = |x: f64| if x.abs() <= SAME { 0.0 } else { x };
    let draws: Vec<f64> = defined(draws).ok()?.into_iter().map(snapped).collect();
    let n = draws.len() as f64;
    let bias = bias(snapped(value), &draws);
    let acceleration = acceleration(jackknife);
    // Solves cdf(w) = cdf(bias + z / (1 - acceleration z)) for z = bias + quantile(tail).
    let tail = |w: f64| {
        let w = w - bias;
        let shrink = 1.0 + acceleration * w;
        if shrink <= 0.0 { f64::from(u8::from(w > 0.0)) } else { normal_cdf(w / shrink - bias) }
    };
    let counted = |n_below: usize| normal_quantile((n_below as f64 + 1.0) / (n + 2.0));
    // 0 in standard deviations from the mean of the draws; far enough where they do not vary.
    let mean = draws.iter().sum::<f64>() / n;
    let deviation = (draws.iter().map(|d| (d - mean) * (d - mean)).sum::<f64>() / n).sqrt();
    let standardised = (-mean / deviation.max(SAME)).clamp(-30.0, 30.0);
    let below = draws.partition_point(|&d| d < 0.0);
    let not_above = draws.partition_point(|&d| d <= 0.0);
    let low = tail(if not_above == 0 { standardised.min(counted(0)) } else { counted(not_above) });
    let all_below = below == draws.len();
    let high = 1.0 - tail(if all_below { standardised.max(counted(below)) } else { counted(below) });
    Some((2.0 * low.min(high)).clamp(MIN_P, 1.0))
}

/// The BCa interval of `value` from the resampled values and the jackknife's values.
fn bca(value: f64, draws: &mut [f64], jackknife: &[f64]) -> (f64, f64) {
    let bias = bias(value, draws);
    let acceleration = acceleration(jackknife);
    let level = |tail: f64| {
        let z = bias + normal_quantile(tail);
        let shrink = 1.0 - acceleration * z;
        // Past the pole the corrected level has run off the scale.
        if shrink <= 0.0 { f64::from(u8::from(z > 0.0)) } else { normal_cdf(bias + z / shrink) }
    };
    [0.025, 0.975].map(|tail| selected(draws, level(tail))).into()
}

/// How far the value stands from the middle of the resampled ones, as a normal quantile.
fn bias(value: f64, draws: &[f64]) -> f64 {
    let n = draws.len() as f64;
    // Rounding differs between orders of summation; ties must count as ties.
    let slack = SAME * value.abs().max(1e-300);
    let below = draws.iter().filter(|d| **d < value - slack).count() as f64;
    let not_above = draws.iter().filter(|d| **d <= value + slack).count() as f64;
    // Kept off 0 and 1, where the correction would be infinite.
    normal_quantile(((below + not_above) / (2.0 * n)).clamp(0.5 / n, 1.0 - 0.5 / n))
}

/// Skewness of the jackknife influences over 6; 0 where all agree. Values that are undefined are NaN
/// and left out.
fn acceleration(jackknife: &[f64]) -> f64 {
    let defined = || jackknife.iter().filter(|value| value.is_finite());
    let mean = defined().sum::<f64>() / defined().count().max(1) as f64;
    let (mut squares, mut cubes) = (0.0, 0.0);
    for value in defined() {
        let d = mean - value;
        squares += d * d;
        cubes += d * d * d;
    }
    if squares > 1e-30 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 }
}

/// The same of values in any order, which are put into another: two of them are asked for, and sorting would take longer.
fn selected(values: &mut [f64], share: f64) -> f64 {
    let at = share.clamp(0.0, 1.0) * (values.len() - 1) as f64;
    let (_, &mut low, above) = values.select_nth_unstable_by(at.floor() as usize, f64::total_cmp);
    let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
    low + (high - low) * (at - at.floor())
}

/// The quantile at `share` of sorted values, linear between neighbours.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = share.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let low = at.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} is not within {tolerance} of {b}");
    }

    fn endless(strata: Vec<Vec<usize>>) -> Vec<Stratum> {
        strata.into_iter().map(|clusters| Stratum { clusters, undrawn: 1.0 }).collect()
    }

    #[test]
    fn clusters_are_drawn_within_their_strata() {
        let resampling = Resampling { seed: 7, resamples: 1 };
        let mut one = Drawn::new(resampling, endless(vec![(0..5).collect()]));
        assert_eq!(one.weights(5), [1.0; 5]);
        assert_eq!(one.resample().len(), 5);
        let mut two = Drawn::new(resampling, endless(vec![vec![0, 2, 4], vec![1, 3]]));
        assert_eq!(two.weights(5), [1.5, 2.0, 1.5, 2.0, 1.5]);
        for _ in 0..20 {
            let drawn = two.resample();
            assert_eq!(drawn.len(), 3, "one less of each");
            assert!(drawn[..2].iter().all(|c| c % 2 == 0) && drawn[2] % 2 == 1, "{drawn:?}");
        }
    }

    #[test]
    fn draws_are_those_of_the_stream_whatever_of_it_was_kept() {
        let resampling = Resampling { seed: 11, resamples: 40 };
        let strata = || endless(vec![(0..7).collect::<Vec<_>>(), vec![7, 8, 9]]);
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        let mut plain = || {
            let mut of = |first, n| first + below(&mut rng, n);
            let drawn: Vec<usize> = (0..6).map(|_| of(0, 7)).collect();
            [drawn, (0..2).map(|_| of(7, 3)).collect()].concat()
        };
        let mut drawn = Drawn::new(resampling, strata());
        // Of these the kept numbers end in the middle of a resample.
        let mut cut = Drawn { beginning: beginning(11, 1)[..3].into(), ..Drawn::new(resampling, strata()) };
        cut.rng.set_word_pos(3);
        for _ in 0..60 {
            let expected = plain();
            assert_eq!(drawn.resample(), expected);
            assert_eq!(cut.resample(), expected);
        }
    }

    #[test]
    fn sums_are_those_of_the_clusters_drawn_bit_by_bit() {
        let resampling = Resampling { seed: 3, resamples: 10 };
        for strata in [vec![(0..7).collect::<Vec<_>>()], vec![vec![0, 3, 6], vec![1], vec![2, 4, 5]]] {
            let strata = endless(strata);
            let clusters: Vec<[f64; 3]> =
                (0..7).map(|c| [0.1 * f64::from(c), 1.0 / 3.0, f64::from(c).sqrt()]).collect();
            let mut one = Drawn::new(resampling, strata.clone());
            let plain: Vec<[f64; 3]> = (0..10)
                .map(|_| {
                    let add = |a: [f64; 3], c: usize| [0, 1, 2].map(|k| a[k] + clusters[c][k]);
                    one.resample().into_iter().fold([0.0; 3], add)
                })
                .collect();
            assert_eq!(Drawn::new(resampling, strata.clone()).sums(&clusters, 10), plain);
            // Of these the kept numbers end in the middle of a resample.
            let mut cut = Drawn { beginning: beginning(3, 1)[..9].into(), ..Drawn::new(resampling, strata) };
            cut.rng.set_word_pos(9);
            assert_eq!(cut.sums(&clusters, 10), plain);
        }
    }

    /// The formula on fixed inputs, against NumPy and SciPy 1.17.1: no random numbers involved.
    #[test]
    fn bca_on_fixed_draws_is_that_of_scipy() {
        let mut draws: Vec<f64> =
            (0..200).map(|i| 0.5 + 0.2 * (f64::from(i) * 0.7).sin() + 0.001 * f64::from(i)).collect();
        draws.sort_by(f64::total_cmp);
        let jackknife: Vec<f64> = (0..15).map(|i| 0.5 + 0.01 * f64::from((i * i) % 7)).collect();
        close(acceleration(&jackknife), -0.015_597_044_303_207_417, 1e-12);
        // In whatever order they come.
        draws.reverse();
        let (lo, hi) = bca(0.57, &mut draws, &jackknife);
        close(lo, 0.329_398_748_102_859_85, 1e-12);
        close(hi, 0.832_907_436_342_121_9, 1e-12);
    }

    #[test]
    fn p_is_small_where_the_interval_leaves_zero_out() {
        let p = |value, draws: &[f64]| p_value(value, draws, &[]).unwrap();
        // 2 of 98 are below 0, half below the value: 2 (2 + 1) / (98 + 2).
        let draws: Vec<f64> = (0..98).map(|i| f64::from(i) - 1.5).collect();
        close(p(47.0, &draws), 0.06, 1e-3);
        // The other side of it: the same p.
        let mirrored: Vec<f64> = draws.iter().map(|d| -d).collect();
        close(p(-47.0, &mirrored), 0.06, 1e-3);
        // 9 and 11: 10 standard deviations off.
        let far: Vec<f64> = (0..98).map(|i| if i < 49 { 9.0 } else { 11.0 }).collect();
        close(p(10.0, &far), MIN_P, 1e-12);
        // Twins differ nowhere.
        close(p(0.0, &[0.0; 98]), 1.0, 1e-12);
        close(p(1e-15, &[1e-16; 98]), 1.0, 1e-12);
        assert_eq!(p_value(1.0, &[f64::NAN; 98], &[]), None);
    }

    #[test]
    fn correlations_of_resamples_may_all_fall_short_of_the_value() {
        let draws: Vec<f64> = (0..=100).map(|i| f64::from(i) / 200.0).collect();
        let e = percentile_estimate(1.0, &draws);
        assert_eq!((e.value, e.interval), (Some(1.0), Some((0.0125, 1.0))));
        let null = percentile_estimate(1.0, &[0.1, f64::NAN]);
        assert_eq!(null.reason.as_deref(), Some("undefined in 1 of 2 resamples"));
    }
}
