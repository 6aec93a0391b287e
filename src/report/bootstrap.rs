//! Cluster bootstrap: 95 % intervals by BCa for statistics that are functions of sums.
//!
//! Every figure of a report is a function of a few sums over trajectories (a ratio of sums, a
//! difference of ratios). Trajectories of one cluster are not independent, so whole clusters are
//! drawn. Because the statistic needs only sums, a resample costs one addition a cluster and sum,
//! whatever the number of trajectories.
//!
//! Source: Efron, "Better Bootstrap Confidence Intervals" (JASA 1987); the acceleration is the
//! jackknife's over clusters. Endpoints are percentiles with linear interpolation, as in SciPy.
//! Every statistic draws from the same stream (the same seed, started anew), so two variants with
//! the same clusters see the same draws and an estimate does not depend on what else is computed.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// How many draws, and from which stream.
#[derive(Clone, Copy, Debug)]
pub struct Resampling {
    pub seed: u64,
    pub resamples: usize,
}

/// A value with its interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Null where undefined.
    pub value: Option<f64>,
    /// Lower and upper end of the 95 % interval; null where it cannot be given.
    pub interval: Option<(f64, f64)>,
    /// Smallest value over the resamples; null where there is no interval.
    pub lowest: Option<f64>,
    /// Trajectories behind the value.
    pub n_trajectories: usize,
    /// Clusters behind the value.
    pub n_clusters: usize,
    /// Items (needs, tokens, events) behind the value.
    pub n_items: u64,
    /// Why the value or the interval is null.
    pub reason: Option<String>,
}

impl Estimate {
    /// An estimate that is null, and why.
    pub fn null(reason: impl Into<String>) -> Self {
        Estimate { reason: Some(reason.into()), ..Estimate::default() }
    }

    pub fn lo(&self) -> Option<f64> {
        self.interval.map(|i| i.0)
    }

    pub fn hi(&self) -> Option<f64> {
        self.interval.map(|i| i.1)
    }
}

/// Share of the resamples that may lack a value before the interval is withheld.
const UNDEFINED_SHARE: f64 = 0.05;

/// The statistic over all clusters with its BCa interval. A cluster is a row of `K` sums; the
/// statistic takes the sums over clusters and is `None` where undefined. `n_trajectories` and
/// `n_items` are left to the caller.
///
/// One cluster has no spread to speak of: the interval is null. Clusters that all agree give an
/// interval of width 0, which is what the data say, though few clusters say it weakly.
pub fn estimate<const K: usize>(
    clusters: &[[f64; K]],
    statistic: impl Fn(&[f64; K]) -> Option<f64>,
    resampling: Resampling,
) -> Estimate {
    let n_clusters = clusters.len();
    let without_interval = |value, reason: &str| Estimate {
        value,
        n_clusters,
        reason: Some(reason.to_owned()),
        ..Estimate::default()
    };
    if clusters.is_empty() {
        return without_interval(None, "no data");
    }
    let total = sum(clusters.iter());
    let Some(value) = statistic(&total) else {
        return without_interval(None, "denominator is 0");
    };
    if n_clusters == 1 {
        return without_interval(Some(value), "1 cluster");
    }
    let jackknife: Vec<f64> =
        leave_one_out(clusters).iter().map(|rest| statistic(rest).unwrap_or(f64::NAN)).collect();
    let mut drawn = Drawn::new(resampling, n_clusters);
    let draws: Vec<f64> = (0..resampling.resamples)
        .map(|_| {
            let mut sums = [0.0; K];
            for cluster in drawn.resample() {
                add(&mut sums, &clusters[cluster]);
            }
            statistic(&sums).unwrap_or(f64::NAN)
        })
        .collect();
    Estimate { n_clusters, ..bca_estimate(value, &draws, &jackknife) }
}

/// The stream of draws: each item is a resample, as the numbers of the clusters drawn.
pub(super) struct Drawn {
    rng: ChaCha8Rng,
    n_clusters: usize,
}

impl Drawn {
    pub(super) fn new(resampling: Resampling, n_clusters: usize) -> Self {
        Drawn { rng: ChaCha8Rng::seed_from_u64(resampling.seed), n_clusters }
    }

    /// The next resample.
    pub(super) fn resample(&mut self) -> impl Iterator<Item = usize> {
        (0..self.n_clusters).map(|_| below(&mut self.rng, self.n_clusters))
    }
}

/// A number under `n`. Multiply and shift: the bias is under n / 2^32.
pub(super) fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    ((u64::from(rng.next_u32()) * n as u64) >> 32) as usize
}

/// A value with its BCa interval, from resampled and leave-one-out values; those that are undefined
/// are NaN. Counts are left to the caller.
pub(super) fn bca_estimate(value: f64, draws: &[f64], jackknife: &[f64]) -> Estimate {
    match defined(draws) {
        Err(reason) => Estimate { value: Some(value), reason: Some(reason), ..Estimate::default() },
        Ok(draws) => Estimate {
            value: Some(value),
            interval: Some(bca(value, &draws, jackknife)),
            lowest: draws.first().copied(),
            ..Estimate::default()
        },
    }
}

/// A value with its percentile interval, widened to hold the value: for rank correlations, which
/// cannot pass 1, and of which most resamples fall short, because resampling shuffles what is near.
pub(super) fn percentile_estimate(value: f64, draws: &[f64]) -> Estimate {
    match defined(draws) {
        Err(reason) => Estimate { value: Some(value), reason: Some(reason), ..Estimate::default() },
        Ok(draws) => {
            let (lo, hi) = (percentile(&draws, 0.025), percentile(&draws, 0.975));
            Estimate {
                value: Some(value),
                interval: Some((lo.min(value), hi.max(value))),
                lowest: draws.first().copied(),
                ..Estimate::default()
            }
        }
    }
}

/// The resampled values in order; an error where too many are undefined.
fn defined(draws: &[f64]) -> Result<Vec<f64>, String> {
    let mut kept: Vec<f64> = draws.iter().copied().filter(|d| d.is_finite()).collect();
    let undefined = draws.len() - kept.len();
    if kept.is_empty() || undefined as f64 > UNDEFINED_SHARE * draws.len() as f64 {
        return Err(format!("undefined in {undefined} of {} resamples", draws.len()));
    }
    kept.sort_by(f64::total_cmp);
    Ok(kept)
}

/// Differences of fractions nearer than this are rounding.
const SAME: f64 = 1e-12;

/// Smallest p that is told: beyond it lies nothing but the assumption of a normal tail.
pub(super) const MIN_P: f64 = 1e-6;

/// Two-sided p-value of "the truth is 0", by inversion of the BCa interval: the level at which one of
/// its ends is 0, so that p is under 0.05 where the 95 % interval leaves 0 out. Resampled values of 0
/// count as on the other side, and one more is added there.
///
/// Where none lies on the other side, counting could not tell a distance of 4 standard errors from one of
/// 40, and Holm's adjustment would drown both: the tail is then that of a normal distribution with their
/// mean and standard deviation. Never under 2^(1 - clusters), the least that a sign test of as many
/// clusters can give, nor under [`MIN_P`]. `None` where the interval is null.
pub(super) fn p_value(value: f64, draws: &[f64], jackknife: &[f64], n_clusters: usize) -> Option<f64> {
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
    let least = MIN_P.max(2.0_f64.powf(1.0 - n_clusters as f64));
    Some((2.0 * low.min(high)).max(least).min(1.0))
}

fn add<const K: usize>(sums: &mut [f64; K], more: &[f64; K]) {
    for (s, m) in sums.iter_mut().zip(more) {
        *s += m;
    }
}

fn sum<'a, const K: usize>(clusters: impl Iterator<Item = &'a [f64; K]>) -> [f64; K] {
    let mut sums = [0.0; K];
    clusters.for_each(|c| add(&mut sums, c));
    sums
}

/// For each cluster the sums over all others: sums from the left plus sums from the right, since
/// subtracting from the total would leave rounding where nothing should be left.
pub(super) fn leave_one_out<const K: usize>(clusters: &[[f64; K]]) -> Vec<[f64; K]> {
    let mut rest = Vec::with_capacity(clusters.len());
    let mut left = [0.0; K];
    for cluster in clusters {
        rest.push(left);
        add(&mut left, cluster);
    }
    let mut right = [0.0; K];
    for (sums, cluster) in rest.iter_mut().zip(clusters).rev() {
        add(sums, &right);
        add(&mut right, cluster);
    }
    rest
}

/// The BCa interval of `value` from the sorted resampled values and the jackknife's values.
fn bca(value: f64, draws: &[f64], jackknife: &[f64]) -> (f64, f64) {
    let bias = bias(value, draws);
    let acceleration = acceleration(jackknife);
    let level = |tail: f64| {
        let z = bias + normal_quantile(tail);
        let shrink = 1.0 - acceleration * z;
        // Past the pole the corrected level has run off the scale.
        if shrink <= 0.0 { f64::from(u8::from(z > 0.0)) } else { normal_cdf(bias + z / shrink) }
    };
    (percentile(draws, level(0.025)), percentile(draws, level(0.975)))
}

/// How far the value stands from the middle of the sorted resampled ones, as a normal quantile.
fn bias(value: f64, draws: &[f64]) -> f64 {
    let n = draws.len() as f64;
    // Rounding differs between orders of summation; ties must count as ties.
    let slack = SAME * value.abs().max(1e-300);
    let below = draws.partition_point(|&d| d < value - slack) as f64;
    let not_above = draws.partition_point(|&d| d <= value + slack) as f64;
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

/// The quantile at `share` of sorted values, linear between neighbours.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = share.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let low = at.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64)
}

fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// Inverse of the normal distribution: Wichura, algorithm AS 241 (PPND16, Applied Statistics 1988),
/// good to about 16 digits.
fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 8] = [
        3.387_132_872_796_366_5,
        1.331_416_678_917_843_8e2,
        1.971_590_950_306_551_3e3,
        1.373_169_376_550_946e4,
        4.592_195_393_154_987e4,
        6.726_577_092_700_87e4,
        3.343_057_558_358_813e4,
        2.509_080_928_730_122_7e3,
    ];
    const B: [f64; 8] = [
        1.0,
        4.231_333_070_160_091e1,
        6.871_870_074_920_579e2,
        5.394_196_021_424_751e3,
        2.121_379_430_158_659_7e4,
        3.930_789_580_009_271e4,
        2.872_908_573_572_194_3e4,
        5.226_495_278_852_545e3,
    ];
    const C: [f64; 8] = [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        2.417_807_251_774_506e-1,
        2.272_384_498_926_918_4e-2,
        7.745_450_142_783_414e-4,
    ];
    const D: [f64; 8] = [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        6.897_673_349_851e-1,
        1.481_039_764_274_800_8e-1,
        1.519_866_656_361_645_7e-2,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ];
    const E: [f64; 8] = [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        2.965_605_718_285_048_7e-1,
        2.653_218_952_657_612_4e-2,
        1.242_660_947_388_078_4e-3,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ];
    const F: [f64; 8] = [
        1.0,
        5.998_322_065_558_88e-1,
        1.369_298_809_227_358e-1,
        1.487_536_129_085_061_5e-2,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ];
    let ratio = |top: &[f64; 8], bottom: &[f64; 8], r: f64| {
        let polynomial = |c: &[f64; 8]| c.iter().rev().fold(0.0, |sum, c| sum * r + c);
        polynomial(top) / polynomial(bottom)
    };
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        return q * ratio(&A, &B, 0.180_625 - q * q);
    }
    let r = (-p.min(1.0 - p).ln()).sqrt();
    let tail = if r <= 5.0 { ratio(&C, &D, r - 1.6) } else { ratio(&E, &F, r - 5.0) };
    tail.copysign(q)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESAMPLING: Resampling = Resampling { seed: 7, resamples: 2_000 };

    fn ratio(s: &[f64; 2]) -> Option<f64> {
        (s[1] != 0.0).then(|| s[0] / s[1])
    }

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} is not within {tolerance} of {b}");
    }

    #[test]
    fn the_value_is_the_ratio_of_sums_and_the_interval_holds_it() {
        let e = estimate(&[[1.0, 2.0], [3.0, 4.0], [0.0, 4.0]], ratio, RESAMPLING);
        assert_eq!(e.value, Some(0.4));
        assert_eq!(e.n_clusters, 3);
        let (lo, hi) = e.interval.unwrap();
        assert!((0.0..0.4).contains(&lo) && hi > 0.4 && hi <= 0.75, "{lo} {hi}");
    }

    #[test]
    fn degenerate_inputs_say_why() {
        let empty = estimate(&[], ratio, RESAMPLING);
        assert_eq!((empty.value, empty.reason.as_deref()), (None, Some("no data")));
        let one = estimate(&[[1.0, 4.0]], ratio, RESAMPLING);
        assert_eq!((one.value, one.interval), (Some(0.25), None));
        assert_eq!(one.reason.as_deref(), Some("1 cluster"));
        let zero = estimate(&[[1.0, 0.0], [2.0, 0.0]], ratio, RESAMPLING);
        assert_eq!((zero.value, zero.reason.as_deref()), (None, Some("denominator is 0")));
        // 3 of 4 clusters have no weight: (3/4)^4 = 32 % of the resamples are undefined.
        let thin = [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]];
        let thin = estimate(&thin, ratio, RESAMPLING);
        assert_eq!((thin.value, thin.interval), (Some(0.5), None));
        assert!(thin.reason.unwrap().starts_with("undefined in "));
        // Rows that agree: 0.1 + 0.2 style rounding must not open the interval.
        let equal = estimate(&[[0.1, 0.3]; 7], ratio, RESAMPLING);
        let (lo, hi) = equal.interval.unwrap();
        close(lo, 1.0 / 3.0, 1e-12);
        close(hi, 1.0 / 3.0, 1e-12);
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let clusters: Vec<[f64; 2]> = (1..20).map(|i| [f64::from(i % 5), f64::from(i)]).collect();
        let a = estimate(&clusters, ratio, RESAMPLING);
        assert_eq!(a, estimate(&clusters, ratio, RESAMPLING));
        assert_ne!(a, estimate(&clusters, ratio, Resampling { seed: 8, resamples: 2_000 }));
    }

    /// Figures from scipy.special.ndtri and ndtr 1.17.1.
    #[test]
    fn the_normal_distribution_is_that_of_scipy() {
        for (p, z) in [
            (1e-10, -6.361_340_902_404_056),
            (0.001, -3.090_232_306_167_813),
            (0.024, -1.977_368_428_181_947),
            (0.3, -0.524_400_512_708_041),
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
        ] {
            close(normal_quantile(p), z, 1e-13);
        }
        for (z, p) in [
            (-6.0, 9.865_876_450_376_946e-10),
            (-1.5, 0.066_807_201_268_858_07),
            (0.3, 0.617_911_422_188_952_6),
            (2.5, 0.993_790_334_674_223_8),
        ] {
            close(normal_cdf(z), p, 1e-15);
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
        let (lo, hi) = bca(0.57, &draws, &jackknife);
        close(lo, 0.329_398_748_102_859_85, 1e-12);
        close(hi, 0.832_907_436_342_121_9, 1e-12);
    }

    /// scipy.stats.bootstrap 1.17.1, paired, method BCa, 400,000 resamples; the tolerance covers
    /// the random numbers of 100,000 resamples and the coarse lattice of small whole numbers.
    #[test]
    fn intervals_are_those_of_scipy() {
        let many = Resampling { seed: 1, resamples: 100_000 };
        let num = [3, 5, 2, 8, 1, 9, 4, 6, 2, 7, 3, 10];
        let den = [5, 6, 4, 9, 4, 10, 8, 7, 5, 7, 9, 11];
        let clusters: Vec<[f64; 2]> =
            num.iter().zip(den).map(|(&n, d)| [f64::from(n), f64::from(d)]).collect();
        let (lo, hi) = estimate(&clusters, ratio, many).interval.unwrap();
        close(lo, 0.543_21, 0.004);
        close(hi, 0.828_28, 0.004);

        let skewed = [0.1, 0.2, 0.15, 0.9, 3.2, 0.4, 0.7, 5.1, 0.05, 0.3];
        let clusters: Vec<[f64; 2]> = skewed.iter().map(|&x| [x, 1.0]).collect();
        let (lo, hi) = estimate(&clusters, ratio, many).interval.unwrap();
        close(lo, 0.37, 0.015);
        close(hi, 2.605, 0.03);

        let lift = [
            [1, 10, 3, 12],
            [0, 8, 2, 10],
            [3, 12, 4, 14],
            [2, 20, 5, 24],
            [5, 15, 6, 18],
            [1, 9, 4, 12],
            [0, 7, 1, 9],
            [4, 30, 8, 33],
        ]
        .map(|row| row.map(f64::from));
        let e = estimate(&lift, |s| Some(1.0 - s[0] / s[1] / (s[2] / s[3])), many);
        close(e.value.unwrap(), 0.423_423_423, 1e-9);
        let (lo, hi) = e.interval.unwrap();
        close(lo, 0.180_85, 0.006);
        close(hi, 0.598_45, 0.006);
    }

    #[test]
    fn p_is_small_where_the_interval_leaves_zero_out() {
        let p = |value, draws: &[f64]| p_value(value, draws, &[], 50).unwrap();
        // 2 of 98 are below 0, half below the value: 2 (2 + 1) / (98 + 2).
        let draws: Vec<f64> = (0..98).map(|i| f64::from(i) - 1.5).collect();
        close(p(47.0, &draws), 0.06, 1e-3);
        // The other side of it: the same p.
        let mirrored: Vec<f64> = draws.iter().map(|d| -d).collect();
        close(p(-47.0, &mirrored), 0.06, 1e-3);
        // 9 and 11: 10 standard deviations off.
        let far: Vec<f64> = (0..98).map(|i| if i < 49 { 9.0 } else { 11.0 }).collect();
        close(p(10.0, &far), MIN_P, 1e-12);
        // 5 clusters can all agree by chance once in 2^4, whatever the draws say.
        assert_eq!(p_value(10.0, &far, &[], 5), Some(0.0625));
        // Twins differ nowhere.
        close(p(0.0, &[0.0; 98]), 1.0, 1e-12);
        close(p(1e-15, &[1e-16; 98]), 1.0, 1e-12);
        assert_eq!(p_value(1.0, &[f64::NAN; 98], &[], 5), None);
    }

    #[test]
    fn correlations_of_resamples_may_all_fall_short_of_the_value() {
        let draws: Vec<f64> = (0..=100).map(|i| f64::from(i) / 200.0).collect();
        let e = percentile_estimate(1.0, &draws);
        assert_eq!((e.value, e.interval), (Some(1.0), Some((0.0125, 1.0))));
        let null = percentile_estimate(1.0, &[0.1, f64::NAN]);
        assert_eq!(null.reason.as_deref(), Some("undefined in 1 of 2 resamples"));
    }

    /// 200 simulated studies of 25 clusters: needs a cluster 1 to 20, share of hits 0.6 with spread
    /// between clusters. Binomial noise of the count at 95 % is 1.5 points; BCa of few clusters
    /// undercovers by a point or two.
    #[test]
    fn intervals_cover_the_truth_about_as_often_as_they_say() {
        let mut rng = ChaCha8Rng::seed_from_u64(42);
        let mut uniform = move || f64::from(rng.next_u32()) / 4_294_967_296.0;
        let mut covered = 0;
        for study in 0..200 {
            let clusters: Vec<[f64; 2]> = (0..25)
                .map(|_| {
                    let share = 0.4 + 0.4 * uniform();
                    let needs = 1 + (uniform() * 20.0) as u32;
                    let hits = (0..needs).filter(|_| uniform() < share).count();
                    [hits as f64, f64::from(needs)]
                })
                .collect();
            let resampling = Resampling { seed: study, resamples: 500 };
            let (lo, hi) = estimate(&clusters, ratio, resampling).interval.unwrap();
            covered += usize::from(lo <= 0.6 && 0.6 <= hi);
        }
        assert!((180..=199).contains(&covered), "{covered} of 200");
    }
}
