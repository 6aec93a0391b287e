//! Tests of `inference`.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::super::bootstrap::{Drawn, Resampling};
use super::*;

fn pooled(clusters: &[[f64; 2]], strata: Vec<u32>) -> Resampled {
    let ratio = |s: &[f64; 2]| ratio(s[0], s[1]);
    let scale = scale_of(Scale::Share, clusters.iter());
    Resampled { n_items: 1_000, ..Resampled::of(scale, clusters, endless(&strata).into(), ratio, |s| s[1]) }
}

fn endless(strata: &[u32]) -> Vec<DrawnFrom> {
    strata.iter().map(|&stratum| stratum.into()).collect()
}

fn close(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance, "{a} is not within {tolerance} of {b}");
}

#[test]
fn a_share_has_an_interval_on_the_logit_scale() {
    // Without each: 2/6, 2/6, 1/6, 1/6, of which the mean is 1/4: se^2 = 3/4 * 4 * (1/12)^2 = 1/48.
    let clusters = [[0.0, 2.0], [0.0, 2.0], [1.0, 2.0], [1.0, 2.0]];
    let of = pooled(&clusters, vec![0; 4]);
    assert_eq!((of.value, of.n_eff, of.scale), (Some(0.25), 4.0, Scale::Share));
    close(of.standard_error(), (1.0_f64 / 48.0).sqrt(), 1e-12);
    let e = of.estimate();
    let half = 3.182_446_305_283_708 * of.standard_error() / (0.25 * 0.75);
    let (lo, hi) = e.interval.unwrap();
    close(logit(lo), logit(0.25) - half, 1e-9);
    close(logit(hi), logit(0.25) + half, 1e-9);
    // p is 0.05 at the interval's end.
    close(of.p_value_of(hi).unwrap(), 0.05, 1e-9);
    assert_eq!((e.n_clusters, e.n_eff), (4, Some(4.0)));
}

#[test]
fn clusters_that_agree_have_no_width_of_zero() {
    let of = |share: f64| pooled(&[[4.0 * share, 4.0]; 8], vec![0; 8]);
    // Wilson's with n = 8, of 0, of 1 and of a half.
    let (lo, hi) = of(0.0).estimate().interval.unwrap();
    close(lo, 0.0, 1e-12);
    close(hi, 0.324_4, 1e-4);
    let (lo, hi) = of(0.5).estimate().interval.unwrap();
    close(lo + hi, 1.0, 1e-12);
    assert!(lo < 0.25 && hi > 0.75);
    // A difference on which all agree is a value without an interval and without a p.
    let apart = of(0.5).minus(&of(0.25));
    let e = apart.estimate();
    assert_eq!((e.value, e.interval, apart.p_value()), (Some(0.25), None, None));
    assert!(e.reason.unwrap().starts_with("all clusters agree"));
}

#[test]
fn below_the_minimum_nothing_is_told_but_counts() {
    // 3 of 4 in one cluster: (4 * 3 + 90)^2 / (4 * 9 + 8100).
    let lopsided = [[9.0, 90.0], [1.0, 3.0], [1.0, 3.0], [1.0, 3.0], [1.0, 3.0]];
    let of = Resampled { n_kept: Some(900), ..pooled(&lopsided, vec![0; 5]) };
    close(of.n_eff, 102.0 * 102.0 / 8_136.0, 1e-12);
    let e = of.estimate();
    assert_eq!((e.value, e.interval, of.p_value()), (None, None, None));
    assert_eq!(e.reason.as_deref(), Some("n_eff is 1.28, under 4"));
    assert_eq!(e.counted.map(|c| (c.kept, c.n)), Some((900, 1_000)));
    let tokens = Resampled { scale: Scale::Amount, ..of };
    assert_eq!((tokens.estimate().value, tokens.estimate().interval), (Some(13.0 / 102.0), None));
    let empty = pooled(&[], vec![]).estimate();
    assert_eq!((empty.value, empty.n_eff, empty.reason.as_deref()), (None, None, Some("no data")));
}

#[test]
fn lone_strata_are_taken_together() {
    let of = |of: &[u32], counts: &[bool]| -> Vec<Vec<usize>> {
        strata(&endless(of), counts).into_iter().map(|stratum| stratum.clusters).collect()
    };
    let counting = of;
    let of = |strata: &[u32]| of(strata, &vec![true; strata.len()]);
    assert_eq!(of(&[0, 0, 1, 2, 0]), [vec![0, 1, 4], vec![2, 3]]);
    assert_eq!(of(&[0, 0, 1]), [vec![0, 1, 2]]);
    assert_eq!(of(&[0, 1, 0, 1]), [vec![0, 2], vec![1, 3]]);
    assert_eq!(of(&[7]), [vec![0]]);
    assert_eq!(counting(&[0, 0, 1], &[true, false, false]), [vec![0]]);
    // 1 and 3 of stratum 0, 10 and 14 of 1, bottoms 1: the mean is 7, its variance
    // (n / N)^2 s^2 / n each: 1/4 * 2 / 2 + 1/4 * 8 / 2.
    let clusters = [1.0, 3.0, 10.0, 14.0].map(|x| [x, 1.0]);
    close(pooled(&clusters, vec![0, 0, 1, 1]).standard_error(), 1.25_f64.sqrt(), 1e-12);
}

/// What is simulated: clusters of a share around 0.8 with unequal numbers of needs, in strata or not.
struct Study {
    clusters: Vec<[f64; 2]>,
    strata: Vec<u32>,
    truth: f64,
}

/// `n` clusters whose sizes have a long tail (a power of a uniform number), `per_stratum` in a stratum.
fn study(rng: &mut ChaCha8Rng, n: usize, per_stratum: Option<usize>) -> Study {
    let mut uniform = || f64::from(rng.next_u32()) / 4_294_967_296.0;
    let (mut clusters, mut strata) = (Vec::new(), Vec::new());
    let (mut within, mut truth) = (0.8, [0.0; 2]);
    for i in 0..n {
        let stratum = per_stratum.map_or(0, |size| i / size);
        if per_stratum.is_some_and(|size| i % size == 0) {
            within = 0.6 + 0.3 * f64::from(stratum as u32 % 4) / 3.0;
        }
        let needs = (4.0 / (0.04 + uniform())).round();
        // Uniform within 0.2 of the mean.
        let share = if per_stratum.is_some() { within } else { 0.8 } + 0.4 * (uniform() - 0.5);
        let share = share.min(1.0);
        let hits = (0..needs as u32).filter(|_| uniform() < share).count() as f64;
        clusters.push([hits, needs]);
        strata.push(stratum as u32);
        truth = [truth[0] + share * needs, truth[1] + needs];
    }
    // Of a population: sizes and shares are independent. Of these strata: the mean of theirs.
    let mean = |within: f64| {
        let over = (within + 0.2 - 1.0_f64).max(0.0);
        within - over * over / 0.8
    };
    let truth = match per_stratum {
        None => mean(0.8),
        Some(_) => (0..4).map(|k| mean(0.6 + 0.3 * f64::from(k) / 3.0)).sum::<f64>() / 4.0,
    };
    Study { clusters, strata, truth }
}

fn bca(clusters: &[[f64; 2]], of: &Resampled, seed: u64) -> Option<(f64, f64)> {
    let resampling = Resampling { seed, resamples: 400 };
    let mut drawn = Drawn::new(resampling, strata(&of.drawn, &of.counts));
    let mut draw = || {
        let sums = sum(drawn.resample().iter().map(|&c| &clusters[c]));
        ratio(sums[0], sums[1]).unwrap_or(f64::NAN)
    };
    let draws: Vec<f64> = (0..resampling.resamples).map(|_| draw()).collect();
    bootstrap::interval(of.value?, &draws, &of.jackknife).ok()
}

/// Share of 1,500 simulated studies whose 95 % interval holds the truth, beside that of BCa; binomial noise at
/// 95 % is 1.1 points.
#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    const STUDIES: u64 = 1_500;
    let mut rng = ChaCha8Rng::seed_from_u64(42);
    for (n, per_stratum) in [(8, None), (32, None), (100, None), (32, Some(2)), (32, Some(8))] {
        let (mut told, mut ours, mut theirs, mut sizes) = (0.0, 0.0, 0.0, 0.0);
        for seed in 0..STUDIES {
            let Study { clusters, strata, truth } = study(&mut rng, n, per_stratum);
            let of = Resampled { n_items: 1_000, ..pooled(&clusters, strata) };
            let Some((lo, hi)) = of.estimate().interval else { continue };
            let holds = |(lo, hi): (f64, f64)| f64::from(u8::from(lo <= truth && truth <= hi));
            (told, sizes) = (told + 1.0, sizes + of.n_eff);
            ours += holds((lo, hi));
            theirs += bca(&clusters, &of, seed).map_or(0.0, holds);
        }
        let (ours, theirs) = (ours / told, theirs / told);
        println!(
            "G {n}, of a stratum {per_stratum:?}: told {told}, mean n_eff {:.1}, covers {ours:.3}, BCa {theirs:.3}",
            sizes / told
        );
        assert!((0.93..=0.99).contains(&ours), "G {n}, {per_stratum:?}: {ours}");
    }
}
