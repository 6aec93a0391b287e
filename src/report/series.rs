//! Pooled scores with their resampled values, all from one set of draws.
//!
//! Every table that compares variants draws the clusters once and asks each variant for its pooled
//! value under the same draws: differences, ranks and frontiers are then paired resample by resample.
//! A pooled value is a ratio of two sums over clusters, so a resample costs two additions a cluster.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;

use crate::report::statistics::bootstrap::{self, Drawn, Resampling};
use crate::report::statistics::design::{DrawnFrom, strata};
use crate::report::statistics::estimate::{Estimate, ratio};
use crate::report::statistics::inference::{Resampled, scale_of};
use crate::scores::registry::Scale;

/// How often each cluster is drawn in each resample.
pub(crate) struct Draws {
    resampling: Resampling,
    pub(crate) n_clusters: usize,
    /// Where each cluster was drawn from.
    pub(crate) drawn: Arc<[DrawnFrom]>,
    /// By cluster, then by resample, so that a cluster is added to all resamples in one sweep.
    counts: Vec<u16>,
    /// What each drawing of a cluster weighs.
    weights: Vec<f64>,
    /// What each cluster weighs however often it is drawn.
    known: Vec<f64>,
}

impl Draws {
    pub(crate) fn new(resampling: Resampling, from: Arc<[DrawnFrom]>) -> Self {
        let n_clusters = from.len();
        let mut counts = vec![0; resampling.resamples * n_clusters];
        let mut drawn = Drawn::new(resampling, strata(&from, &vec![true; n_clusters]));
        for resample in 0..resampling.resamples {
            for cluster in drawn.resample() {
                let count: &mut u16 = &mut counts[cluster * resampling.resamples + resample];
                *count = count.saturating_add(1);
            }
        }
        let (weights, known) = (drawn.weights(n_clusters), drawn.known(n_clusters));
        Draws { resampling, n_clusters, drawn: from, counts, weights, known }
    }

    pub(crate) fn n_resamples(&self) -> usize {
        self.resampling.resamples
    }

    /// How often a cluster is drawn, resample by resample.
    fn counts(&self, cluster: usize) -> &[u16] {
        &self.counts[cluster * self.n_resamples()..][..self.n_resamples()]
    }

    /// What a cluster counts for in a resample.
    pub(crate) fn share(&self, cluster: usize, resample: usize) -> f64 {
        self.known[cluster] + f64::from(self.counts(cluster)[resample]) * self.weights[cluster]
    }

    /// Sums that all resamples have in common.
    fn common(&self, clusters: &[[f64; 2]]) -> Vec<[f64; 2]> {
        let add = |sum: [f64; 2], (known, sums): (&f64, &[f64; 2])| [0, 1].map(|i| sum[i] + known * sums[i]);
        vec![self.known.iter().zip(clusters).fold([0.0; 2], add); self.n_resamples()]
    }

    /// The sums of each resample. A cluster is a pair of sums.
    fn totals(&self, clusters: &[[f64; 2]]) -> Vec<[f64; 2]> {
        let mut totals = self.common(clusters);
        for (cluster, sums) in clusters.iter().enumerate().filter(|(_, sums)| **sums != [0.0; 2]) {
            for (total, &count) in totals.iter_mut().zip(self.counts(cluster)) {
                let share = f64::from(count) * self.weights[cluster];
                total[0] += share * sums[0];
                total[1] += share * sums[1];
            }
        }
        totals
    }

    /// The same where a variant was replayed under several seeds: each time a cluster is drawn, as many
    /// seeds are drawn with replacement and their sums averaged. `stream` tells sampled variants apart;
    /// all measures of one see the same seeds.
    fn totals_over_seeds(&self, seeds: &[Vec<[f64; 2]>], mean: &[[f64; 2]], stream: u64) -> Vec<[f64; 2]> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.resampling.seed);
        // Stream 0 draws the clusters.
        rng.set_stream(stream.max(1));
        let mut totals = self.common(mean);
        for cluster in 0..self.n_clusters {
            let share = self.weights[cluster] / seeds.len() as f64;
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

/// A pooled score: sum of tops / sum of bottoms.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) pooled: Resampled,
    /// Top and bottom of each cluster, mean over seeds.
    pub(crate) clusters: Vec<[f64; 2]>,
    pub(crate) n_trajectories: usize,
}

impl Series {
    /// From the sums of each cluster, one list a seed; counts are left to the caller.
    pub(crate) fn of(draws: &Draws, scale: Scale, mut seeds: Vec<Vec<[f64; 2]>>, stream: u64) -> Self {
        let (clusters, totals) = if seeds.len() == 1 {
            let clusters = seeds.swap_remove(0);
            let totals = draws.totals(&clusters);
            (clusters, totals)
        } else {
            let mean = |cluster: usize, side: usize| {
                seeds.iter().map(|s| s[cluster][side]).sum::<f64>() / seeds.len() as f64
            };
            let clusters: Vec<[f64; 2]> = (0..draws.n_clusters).map(|c| [mean(c, 0), mean(c, 1)]).collect();
            let totals = draws.totals_over_seeds(&seeds, &clusters, stream);
            (clusters, totals)
        };
        let scale = scale_of(scale, clusters.iter());
        let quotient = |sums: &[f64; 2]| ratio(sums[0], sums[1]);
        let pooled = Resampled::of(scale, &clusters, draws.drawn.clone(), quotient, |sums| sums[1]);
        let draws = totals.iter().map(|sums| quotient(sums).unwrap_or(f64::NAN)).collect();
        Series { pooled: Resampled { draws, ..pooled }, clusters, n_trajectories: 0 }
    }

    /// The same with this many needs, or whatever the score counts, and how many of them were kept.
    pub(crate) fn counting(mut self, n_trajectories: usize, (n_items, n_kept): (u64, Option<u64>)) -> Self {
        self.n_trajectories = n_trajectories;
        (self.pooled.n_items, self.pooled.n_kept) = (n_items, n_kept);
        self
    }

    /// Over some of the clusters; items in proportion to their part of the denominator.
    pub(crate) fn part(&self, clusters: &[usize], drawn: &[DrawnFrom]) -> Resampled {
        let sums: Vec<[f64; 2]> = clusters.iter().map(|&c| self.clusters[c]).collect();
        let drawn = clusters.iter().map(|&c| drawn[c]).collect();
        let part = Resampled::of(self.pooled.scale, &sums, drawn, |s| ratio(s[0], s[1]), |s| s[1]);
        let bottom = |sums: &[[f64; 2]]| sums.iter().map(|s| s[1]).sum::<f64>();
        let share = ratio(bottom(&sums), bottom(&self.clusters)).unwrap_or(0.0);
        Resampled { n_items: (share * self.pooled.n_items as f64).round() as u64, ..part }
    }

    pub(crate) fn estimate(&self) -> Estimate {
        Estimate { n_trajectories: self.n_trajectories, ..self.pooled.estimate() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws that are given, a resample a row.
    impl Draws {
        pub(in super::super) fn fixed(rows: &[Vec<u16>]) -> Self {
            let (n_clusters, resamples) = (rows[0].len(), rows.len());
            let counts = (0..n_clusters).flat_map(|c| rows.iter().map(move |row| row[c])).collect();
            let resampling = Resampling { seed: 0, resamples };
            Draws {
                resampling,
                n_clusters,
                drawn: vec![DrawnFrom::from(0); n_clusters].into(),
                counts,
                weights: vec![1.0; n_clusters],
                known: vec![0.0; n_clusters],
            }
        }
    }

    #[test]
    fn resamples_add_whole_clusters() {
        let draws = Draws::fixed(&[vec![2, 0], vec![0, 2], vec![1, 1]]);
        let series = Series::of(&draws, Scale::Share, vec![vec![[1.0, 4.0], [3.0, 4.0]]], 1);
        assert_eq!(series.pooled.value, Some(0.5));
        assert_eq!(series.pooled.draws, [0.25, 0.75, 0.5]);
        assert_eq!(series.pooled.jackknife, [0.75, 0.25]);
        let other = Series::of(&draws, Scale::Share, vec![vec![[0.0, 4.0], [0.0, 0.0]]], 1);
        assert_eq!((other.pooled.n_clusters(), other.pooled.n_eff), (1, 1.0));
        let difference = series.pooled.minus(&other.pooled);
        assert_eq!(difference.value, Some(0.5));
        assert_eq!((difference.draws[0], difference.draws[1].is_nan()), (0.25, true));
    }

    #[test]
    fn seeds_are_resampled_within_their_cluster() {
        let draws = Draws::fixed(&vec![vec![1, 1]; 4_000]);
        // The clusters are always the same; seeds of the first say 0 or 1, those of the second 0.
        let seeds = vec![vec![[0.0, 1.0], [0.0, 1.0]], vec![[1.0, 1.0], [0.0, 1.0]]];
        let series = Series::of(&draws, Scale::Share, seeds.clone(), 5);
        assert_eq!(series.pooled.value, Some(0.25));
        // Two seeds drawn of two: 0 in 1/4, 1/2 in 1/2, 1 in 1/4; halved by the second cluster.
        let share = |x: f64| series.pooled.draws.iter().filter(|d| **d == x).count() as f64 / 4_000.0;
        for (x, expected) in [(0.0, 0.25), (0.25, 0.5), (0.5, 0.25)] {
            assert!((share(x) - expected).abs() < 0.03, "{x}: {}", share(x));
        }
        assert_eq!(series.pooled.draws, Series::of(&draws, Scale::Share, seeds.clone(), 5).pooled.draws);
        assert_ne!(series.pooled.draws, Series::of(&draws, Scale::Share, seeds, 6).pooled.draws);
    }
}
