//! What stands beside a paired difference: its size over clusters, and p-values of a family.

/// Hedges' g_z of paired differences: mean / standard deviation (Cohen's d_z, n - 1 below), times
/// J(m) = Gamma(m / 2) / (sqrt(m / 2) Gamma((m - 1) / 2)) with m = n - 1, which takes away the bias
/// of few differences. In standard deviations, any real number. `None` under 3 differences (J(1) is 0),
/// or where they do not vary.
///
/// Source: Hedges, "Distribution theory for Glass's estimator of effect size" (J. Educational
/// Statistics 1981); d_z as in Lakens (Frontiers in Psychology 2013).
pub(crate) fn hedges_g_z(differences: &[f64]) -> Option<f64> {
    let n = differences.len() as f64;
    if n < 3.0 {
        return None;
    }
    let mean = differences.iter().sum::<f64>() / n;
    let variance = differences.iter().map(|d| (d - mean) * (d - mean)).sum::<f64>() / (n - 1.0);
    // Differences of fractions: what is smaller is rounding.
    (variance > 1e-24).then(|| correction(n - 1.0) * mean / variance.sqrt())
}

/// J above.
fn correction(m: f64) -> f64 {
    (libm::lgamma(m / 2.0) - libm::lgamma((m - 1.0) / 2.0)).exp() / (m / 2.0).sqrt()
}

/// Holm's adjusted p-values, in the order given: the i-th smallest of m becomes the largest of
/// (m - j + 1) p_j over j up to i, at most 1. The chance of any false claim in the family is then at
/// most the level, whatever depends on what.
///
/// Source: Holm, "A simple sequentially rejective multiple test procedure" (Scand. J. Statistics 1979).
pub(crate) fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, &i) in order.iter().enumerate() {
        largest = largest.max((p_values.len() - rank) as f64 * p_values[i]).min(1.0);
        adjusted[i] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g_z_is_the_mean_in_standard_deviations_corrected() {
        // Mean 2, standard deviation 1, J(2) = 1 / (1 * Gamma(1/2)) = 1 / sqrt(pi).
        let g = hedges_g_z(&[1.0, 2.0, 3.0]).unwrap();
        assert!((g - 2.0 / std::f64::consts::PI.sqrt()).abs() < 1e-12, "{g}");
        // J(4) = 1 / (sqrt(2) * sqrt(pi) / 2) = sqrt(2 / pi); mean 0.
        assert_eq!(hedges_g_z(&[-2.0, -1.0, 0.0, 1.0, 2.0]), Some(0.0));
        assert_eq!(hedges_g_z(&[0.5, 0.5, 0.5]), None);
        assert_eq!(hedges_g_z(&[0.5, 0.7]), None);
    }

    #[test]
    fn holm_multiplies_by_what_is_left_and_never_falls() {
        // 3 * 0.01, 2 * 0.03, 1 * 0.04 raised to the 0.06 before it.
        let adjusted = holm(&[0.04, 0.01, 0.03]);
        for (value, expected) in adjusted.iter().zip([0.06, 0.03, 0.06]) {
            assert!((value - expected).abs() < 1e-15, "{adjusted:?}");
        }
        assert_eq!(holm(&[0.6, 0.7]), [1.0, 1.0]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }
}
