//! Rank correlations, with weights where a resample draws a trajectory several times.
//!
//! A weight of 2 means the same as the row given twice. Ties share the mean of their ranks.
//!
//! - Spearman: Pearson's correlation of the midranks, -1 to 1 (Spearman, Am. J. Psychology 1904).
//! - Kendall's tau-b: (concordant - discordant) / sqrt((pairs untied in x) (pairs untied in y)), -1 to 1
//!   (Kendall, Biometrika 1945).
//! - Rank-biserial: P(x higher in the group) - P(x lower in the group) over pairs of one inside and one
//!   outside, -1 to 1; 2 U / (n1 n2) - 1 of Mann and Whitney's U (Cureton, Psychometrika 1956).
//!
//! `None` where a side is all ties, or a group is empty: nothing can be ranked.

/// Values in ascending order, with groups of ties: sorted once, ranked under many weights.
pub(crate) struct Order {
    /// Places of the values, ascending.
    places: Vec<usize>,
    /// Where each group of ties ends in `places`.
    ends: Vec<usize>,
}

impl Order {
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut places: Vec<usize> = (0..values.len()).collect();
        places.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
        let ends = (1..=places.len())
            .filter(|&end| end == places.len() || values[places[end - 1]] < values[places[end]])
            .collect();
        Order { places, ends }
    }

    /// Midrank of each value, from 1, as if each were given `weight` times.
    pub(crate) fn midranks(&self, weights: &[f64]) -> Vec<f64> {
        let mut ranks = vec![0.0; self.places.len()];
        let (mut below, mut start) = (0.0, 0);
        for &end in &self.ends {
            let tied = &self.places[start..end];
            let weight: f64 = tied.iter().map(|&i| weights[i]).sum();
            for &i in tied {
                ranks[i] = below + (weight + 1.0) / 2.0;
            }
            below += weight;
            start = end;
        }
        ranks
    }
}

/// Spearman's correlation of two orders of the same things.
pub(crate) fn spearman(x: &Order, y: &Order, weights: &[f64]) -> Option<f64> {
    pearson(&x.midranks(weights), &y.midranks(weights), weights)
}

fn pearson(x: &[f64], y: &[f64], weights: &[f64]) -> Option<f64> {
    let total: f64 = weights.iter().sum();
    let mean = |v: &[f64]| v.iter().zip(weights).map(|(v, w)| v * w).sum::<f64>() / total;
    let (mean_x, mean_y) = (mean(x), mean(y));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for ((x, y), w) in x.iter().zip(y).zip(weights) {
        let (dx, dy) = (x - mean_x, y - mean_y);
        xx += w * dx * dx;
        yy += w * dy * dy;
        xy += w * dx * dy;
    }
    // Ranks are halves, so what is not 0 is at least about 1/4.
    (xx > 1e-6 && yy > 1e-6).then(|| (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0))
}

/// Kendall's tau-b, by looking at every pair.
pub(crate) fn kendall_tau_b(x: &[f64], y: &[f64]) -> Option<f64> {
    let sign = |a: f64, b: f64| f64::from(i8::from(a > b) - i8::from(a < b));
    let (mut agree, mut untied_x, mut untied_y) = (0.0, 0.0, 0.0);
    for i in 0..x.len() {
        for j in 0..i {
            let (in_x, in_y) = (sign(x[i], x[j]), sign(y[i], y[j]));
            agree += in_x * in_y;
            untied_x += in_x * in_x;
            untied_y += in_y * in_y;
        }
    }
    (untied_x > 0.0 && untied_y > 0.0).then(|| agree / (untied_x * untied_y).sqrt())
}

/// Rank-biserial correlation of a value with being in a group.
pub(crate) fn rank_biserial(order: &Order, in_group: &[bool], weights: &[f64]) -> Option<f64> {
    // The extremes tie: nothing is ranked.
    if order.ends.len() < 2 {
        return None;
    }
    let (mut inside, mut outside, mut rank_sum) = (0.0, 0.0, 0.0);
    for ((&is_in, w), rank) in in_group.iter().zip(weights).zip(order.midranks(weights)) {
        if is_in {
            inside += w;
            rank_sum += w * rank;
        } else {
            outside += w;
        }
    }
    let u = rank_sum - inside * (inside + 1.0) / 2.0;
    (inside > 0.0 && outside > 0.0).then(|| 2.0 * u / (inside * outside) - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: Option<f64>, expected: f64) {
        let value = value.expect("a value");
        assert!((value - expected).abs() < 1e-12, "{value} is not {expected}");
    }

    #[test]
    fn ties_share_the_mean_rank_and_weights_repeat_rows() {
        let order = Order::of(&[5.0, 1.0, 5.0, 3.0]);
        assert_eq!(order.midranks(&[1.0; 4]), [3.5, 1.0, 3.5, 2.0]);
        // 1 three times: 1 1 1 3 5 5 has ranks 2 2 2 4 5.5 5.5.
        assert_eq!(order.midranks(&[1.0, 3.0, 1.0, 1.0]), [5.5, 2.0, 5.5, 4.0]);
        // 3 not drawn: 1 5 5.
        let ranks = order.midranks(&[1.0, 1.0, 1.0, 0.0]);
        assert_eq!((ranks[0], ranks[1], ranks[2]), (2.5, 1.0, 2.5));
    }

    #[test]
    fn spearman_is_one_minus_six_squares() {
        // Rank differences 1, -1, 0, 0: 1 - 6 * 2 / (4 * 15) = 0.8.
        let (x, y) = (Order::of(&[1.0, 2.0, 3.0, 4.0]), Order::of(&[20.0, 10.0, 30.0, 40.0]));
        close(spearman(&x, &y, &[1.0; 4]), 0.8);
        assert_eq!(spearman(&x, &Order::of(&[7.0; 4]), &[1.0; 4]), None);
        // Only the first two drawn: they go opposite ways.
        close(spearman(&x, &y, &[2.0, 1.0, 0.0, 0.0]), -1.0);
        assert_eq!(spearman(&x, &y, &[4.0, 0.0, 0.0, 0.0]), None);
    }

    #[test]
    fn tau_b_counts_pairs_and_leaves_ties_out() {
        // 5 of 6 pairs agree, 1 does not.
        close(kendall_tau_b(&[1.0, 2.0, 3.0, 4.0], &[20.0, 10.0, 30.0, 40.0]), 4.0 / 6.0);
        // One pair tied in x: 2 agree, of 2 untied in x and 3 in y.
        close(kendall_tau_b(&[1.0, 1.0, 2.0], &[1.0, 2.0, 3.0]), 2.0 / 6.0_f64.sqrt());
        assert_eq!(kendall_tau_b(&[1.0, 1.0], &[1.0, 2.0]), None);
    }

    #[test]
    fn rank_biserial_is_the_surplus_of_pairs_won() {
        // Inside 3 and 2, outside 1 and 2: won 3, tied 1, lost 0 of 4.
        let order = Order::of(&[3.0, 2.0, 1.0, 2.0]);
        let inside = [true, true, false, false];
        close(rank_biserial(&order, &inside, &[1.0; 4]), 0.75);
        // The 1 outside drawn twice: won 5, tied 1 of 6.
        close(rank_biserial(&order, &inside, &[1.0, 1.0, 2.0, 1.0]), 5.0 / 6.0);
        assert_eq!(rank_biserial(&order, &[true; 4], &[1.0; 4]), None);
        assert_eq!(rank_biserial(&Order::of(&[1.0; 4]), &inside, &[1.0; 4]), None);
    }
}
