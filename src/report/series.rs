//! Pooled scores with their resampled values, all from one set of draws.
//!
//! Every table that compares variants draws the clusters once and asks each variant for its pooled
//! value under the same draws: differences, ranks and frontiers are then paired resample by resample.
//! A pooled value is a ratio of two sums over clusters, so a resample costs two additions a cluster.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;

use super::bootstrap::{self, Drawn, Estimate, Resampling};
use super::pooled::ratio;

/// How often each cluster is drawn in each resample: the stream of [`bootstrap::estimate`], kept.
pub(super) struct Draws {
    resampling: Resampling,
    pub(super) n_clusters: usize,
    /// By cluster, then by resample, so that a cluster is added to all resamples in one sweep.
    counts: Vec<u16>,
}

impl Draws {
    pub(super) fn new(resampling: Resampling, n_clusters: usize) -> Self {
        let mut counts = vec![0; resampling.resamples * n_clusters];
        let mut drawn = Drawn::new(resampling, n_clusters);
        for resample in 0..resampling.resamples {
            for cluster in drawn.resample() {
                let count: &mut u16 = &mut counts[cluster * resampling.resamples + resample];
                *count = count.saturating_add(1);
            }
        }
        Draws { resampling, n_clusters, counts }
    }

    pub(super) fn n_resamples(&self) -> usize {
        self.resampling.resamples
    }

    /// How often a cluster is drawn, resample by resample.
    pub(super) fn counts(&self, cluster: usize) -> &[u16] {
        &self.counts[cluster * self.n_resamples()..][..self.n_resamples()]
    }

    /// The sums of each resample. A cluster is a pair of sums.
    fn totals(&self, clusters: &[[f64; 2]]) -> Vec<[f64; 2]> {
        let mut totals = vec![[0.0; 2]; self.n_resamples()];
        for (cluster, sums) in clusters.iter().enumerate().filter(|(_, sums)| **sums != [0.0; 2]) {
            for (total, &count) in totals.iter_mut().zip(self.counts(cluster)) {
                total[0] += f64::from(count) * sums[0];
                total[1] += f64::from(count) * sums[1];
            }
        }
        totals
    }

    /// The same where a variant was replayed under several seeds: each time a cluster is drawn, as many
    /// seeds are drawn with replacement and their sums averaged. `stream` tells sampled variants apart;
    /// all measures of one see the same seeds.
    fn totals_over_seeds(&self, seeds: &[Vec<[f64; 2]>], stream: u64) -> Vec<[f64; 2]> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.resampling.seed);
        // Stream 0 draws the clusters.
        rng.set_stream(stream.max(1));
        let share = 1.0 / seeds.len() as f64;
        let mut totals = vec![[0.0; 2]; self.n_resamples()];
        for cluster in 0..self.n_clusters {
            for (total, &count) in totals.iter_mut().zip(self.counts(cluster)) {
                for _ in 0..usize::from(count) * seeds.len() {
                    let sums = seeds[bootstrap::below(&mut rng, seeds.len())][cluster];
                    total[0] += share * sums[0];
                    total[1] += share * sums[1];
                }
            }
        }
        totals
    }
}

/// A statistic, over all clusters, in each resample, and with each cluster left out. Undefined is `None`
/// and NaN.
#[derive(Clone, Debug)]
pub(super) struct Resampled {
    pub(super) value: Option<f64>,
    pub(super) draws: Vec<f64>,
    pub(super) jackknife: Vec<f64>,
}

impl Resampled {
    /// A weighted sum of statistics of the same draws, undefined where one of them is.
    pub(super) fn combine(parts: &[(f64, &Resampled)]) -> Self {
        let sum = |of: fn(&Resampled) -> &[f64], i: usize| parts.iter().map(|(w, p)| w * of(p)[i]).sum();
        let all = |of: fn(&Resampled) -> &[f64]| -> Vec<f64> {
            let n = parts.first().map_or(0, |(_, p)| of(p).len());
            (0..n).map(|i| sum(of, i)).collect()
        };
        Resampled {
            value: parts.iter().map(|(w, p)| Some(w * p.value?)).sum(),
            draws: all(|p| &p.draws),
            jackknife: all(|p| &p.jackknife),
        }
    }

    pub(super) fn minus(&self, other: &Resampled) -> Self {
        Resampled::combine(&[(1.0, self), (-1.0, other)])
    }

    /// One over the other, undefined where that is 0.
    pub(super) fn over(&self, other: &Resampled) -> Self {
        let quotients =
            |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| ratio(*a, *b).unwrap_or(f64::NAN)).collect();
        Resampled {
            value: self.value.zip(other.value).and_then(|(a, b)| ratio(a, b)),
            draws: quotients(&self.draws, &other.draws),
            jackknife: quotients(&self.jackknife, &other.jackknife),
        }
    }

    /// Two-sided, of "the truth is `x`".
    pub(super) fn p_value_of(&self, x: f64, n_clusters: usize) -> Option<f64> {
        let draws: Vec<f64> = self.draws.iter().map(|d| d - x).collect();
        bootstrap::p_value(self.value? - x, &draws, &self.jackknife, n_clusters)
    }

    /// The value with its BCa interval.
    pub(super) fn estimate(&self) -> Estimate {
        match self.value {
            Some(value) => bootstrap::bca_estimate(value, &self.draws, &self.jackknife),
            None => Estimate::null("no data"),
        }
    }

    /// Two-sided, of "the truth is 0".
    pub(super) fn p_value(&self, n_clusters: usize) -> Option<f64> {
        bootstrap::p_value(self.value?, &self.draws, &self.jackknife, n_clusters)
    }
}

/// A pooled score: sum of tops / sum of bottoms.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) pooled: Resampled,
    /// Top and bottom of each cluster, mean over seeds.
    pub(super) clusters: Vec<[f64; 2]>,
    pub(super) n_trajectories: usize,
    /// Needs, decisions or whatever the score counts.
    pub(super) n_items: u64,
}

impl Series {
    /// From the sums of each cluster, one list a seed; counts are left to the caller.
    pub(super) fn of(draws: &Draws, mut seeds: Vec<Vec<[f64; 2]>>, stream: u64) -> Self {
        let (clusters, totals) = if seeds.len() == 1 {
            let clusters = seeds.swap_remove(0);
            let totals = draws.totals(&clusters);
            (clusters, totals)
        } else {
            let mean = |cluster: usize, side: usize| {
                seeds.iter().map(|s| s[cluster][side]).sum::<f64>() / seeds.len() as f64
            };
            let clusters = (0..draws.n_clusters).map(|c| [mean(c, 0), mean(c, 1)]).collect();
            (clusters, draws.totals_over_seeds(&seeds, stream))
        };
        let quotient = |sums: &[f64; 2]| ratio(sums[0], sums[1]);
        let or_nan = |sums: &[f64; 2]| quotient(sums).unwrap_or(f64::NAN);
        let total = clusters.iter().fold([0.0; 2], |t, c| [t[0] + c[0], t[1] + c[1]]);
        let pooled = Resampled {
            value: quotient(&total),
            draws: totals.iter().map(or_nan).collect(),
            jackknife: bootstrap::leave_one_out(&clusters).iter().map(or_nan).collect(),
        };
        Series { pooled, clusters, n_trajectories: 0, n_items: 0 }
    }

    /// Clusters that have something of it.
    pub(super) fn n_clusters(&self) -> usize {
        self.clusters.iter().filter(|c| c[1] != 0.0).count()
    }

    pub(super) fn estimate(&self) -> Estimate {
        Estimate {
            n_trajectories: self.n_trajectories,
            n_clusters: self.n_clusters(),
            n_items: self.n_items,
            ..self.pooled.estimate()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESAMPLING: Resampling = Resampling { seed: 7, resamples: 500 };

    fn clusters() -> Vec<[f64; 2]> {
        (1..13).map(|i| [f64::from(i * i % 7), f64::from(i + 3)]).collect()
    }

    /// Draws that are given, a resample a row.
    impl Draws {
        pub(in super::super) fn fixed(rows: &[Vec<u16>]) -> Self {
            let (n_clusters, resamples) = (rows[0].len(), rows.len());
            let counts = (0..n_clusters).flat_map(|c| rows.iter().map(move |row| row[c])).collect();
            Draws { resampling: Resampling { seed: 0, resamples }, n_clusters, counts }
        }
    }

    #[test]
    fn resamples_add_whole_clusters() {
        let draws = Draws::fixed(&[vec![2, 0], vec![0, 2], vec![1, 1]]);
        let series = Series::of(&draws, vec![vec![[1.0, 4.0], [3.0, 4.0]]], 1);
        assert_eq!(series.pooled.value, Some(0.5));
        assert_eq!(series.pooled.draws, [0.25, 0.75, 0.5]);
        assert_eq!(series.pooled.jackknife, [0.75, 0.25]);
        let other = Series::of(&draws, vec![vec![[0.0, 4.0], [0.0, 0.0]]], 1);
        assert_eq!(other.n_clusters(), 1);
        let difference = series.pooled.minus(&other.pooled);
        assert_eq!(difference.value, Some(0.5));
        assert_eq!((difference.draws[0], difference.draws[1].is_nan()), (0.25, true));
    }

    #[test]
    fn draws_are_those_of_the_summary() {
        let draws = Draws::new(RESAMPLING, 12);
        for resample in 0..500 {
            let drawn: u16 = (0..12).map(|c| draws.counts(c)[resample]).sum();
            assert_eq!(drawn, 12);
        }
        let here = Series::of(&draws, vec![clusters()], 1).pooled.estimate();
        let there = bootstrap::estimate(&clusters(), |s| ratio(s[0], s[1]), RESAMPLING);
        assert_eq!(here.value, there.value);
        let ((a, b), (c, d)) = (here.interval.unwrap(), there.interval.unwrap());
        assert!((a - c).abs() < 1e-9 && (b - d).abs() < 1e-9, "{a} {b}, {c} {d}");
    }

    #[test]
    fn seeds_are_resampled_within_their_cluster() {
        let draws = Draws::fixed(&vec![vec![1, 1]; 4_000]);
        // The clusters are always the same; seeds of the first say 0 or 1, those of the second 0.
        let seeds = vec![vec![[0.0, 1.0], [0.0, 1.0]], vec![[1.0, 1.0], [0.0, 1.0]]];
        let series = Series::of(&draws, seeds.clone(), 5);
        assert_eq!(series.pooled.value, Some(0.25));
        // Two seeds drawn of two: 0 in 1/4, 1/2 in 1/2, 1 in 1/4; halved by the second cluster.
        let share = |x: f64| series.pooled.draws.iter().filter(|d| **d == x).count() as f64 / 4_000.0;
        for (x, expected) in [(0.0, 0.25), (0.25, 0.5), (0.5, 0.25)] {
            assert!((share(x) - expected).abs() < 0.03, "{x}: {}", share(x));
        }
        assert_eq!(series.pooled.draws, Series::of(&draws, seeds.clone(), 5).pooled.draws);
        assert_ne!(series.pooled.draws, Series::of(&draws, seeds, 6).pooled.draws);
    }
}
