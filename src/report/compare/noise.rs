//! What moves a score without any change: another seed on the same logs, or other logs.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;

use super::Seeds;
use crate::report::lines::Lines;
use crate::report::statistics::bootstrap::below;
use crate::report::statistics::estimate::ratio;

/// How often the sessions are halved.
const SPLITS: usize = 200;
/// The share of the halvings that are no further apart than what is told.
const SHARE: f64 = 0.95;

/// How far two random halves of the clusters are apart in 19 of 20 draws, on the score's scale; null where a half has nothing
/// to score. Sums of tops and bottoms, a cluster an entry.
pub(super) fn halves(clusters: &[[f64; 2]], seed: u64) -> Option<f64> {
    let mut clusters: Vec<[f64; 2]> = clusters.iter().copied().filter(|sums| sums[1] != 0.0).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut apart: Vec<f64> = Vec::with_capacity(SPLITS);
    for _ in 0..SPLITS {
        for i in (1..clusters.len()).rev() {
            clusters.swap(i, below(&mut rng, i + 1));
        }
        let (one, other) = clusters.split_at(clusters.len() / 2);
        let value = |half: &[[f64; 2]]| {
            let sums = half.iter().fold([0.0; 2], |sums, of| [sums[0] + of[0], sums[1] + of[1]]);
            ratio(sums[0], sums[1])
        };
        apart.push((value(one)? - value(other)?).abs());
    }
    apart.sort_by(f64::total_cmp);
    Some(apart[(SHARE * SPLITS as f64) as usize - 1])
}

/// How far the seeds of each sampled variant are apart.
pub(super) fn seeds(lines: &Lines, score: &'static str) -> Vec<Seeds> {
    let of_line = |line: &crate::report::lines::Line| {
        let values: Vec<f64> =
            (0..line.seeds.len()).filter_map(|seed| lines.of_seed(line, seed, score)).collect();
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        let told = Seeds { score, label: line.label.clone(), n_seeds: values.len(), apart: most - least };
        (values.len() > 1).then_some(told)
    };
    lines.main().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight clusters of one need each, half of which is lost: of the 70 halves with k of the 4 kept ones, |k - (4 - k)| / 4 is 1
    /// in 2, 0.5 in 32, 0 in 36; so 19 of 20 are no further apart than 0.5.
    #[test]
    fn halves_are_as_far_apart_as_chance_draws_them() {
        let clusters: Vec<[f64; 2]> = (0..8).map(|c| [f64::from(c % 2), 1.0]).collect();
        assert_eq!(halves(&clusters, 1), Some(0.5));
        assert_eq!(halves(&[[1.0, 2.0]; 8], 1), Some(0.0));
        assert_eq!(halves(&[[1.0, 2.0]], 1), None, "one half is empty");
        assert_eq!(halves(&[], 1), None);
    }
}
