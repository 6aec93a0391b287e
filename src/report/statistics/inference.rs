//! Values with their 95 % intervals and p-values: the jackknife over clusters, and Student's t.
//!
//! Every figure of a report is a function of a few sums over clusters (a ratio of sums, a difference of
//! ratios). Trajectories of one cluster are not independent, so whole clusters are left out.
//!
//! - Variance: sum over strata h of (n_h - 1) / n_h sum over their clusters g (theta_hg - mean_h)^2, where
//!   theta_hg is the statistic without cluster g, the rest of stratum h counted n_h / (n_h - 1) times, and
//!   mean_h the mean of these. *Other repositories* are one stratum, which makes it the leave-one-out
//!   jackknife of the ratio; of *these repositories* each is a stratum. Strata of one cluster are taken
//!   together; where there is but one such, it joins the largest. Clusters without a part in a figure do not count.
//!   Of a sample of a corpus that has an end, see [`super::design`].
//! - n_eff = (sum w)^2 / sum w^2, w the cluster's part of the denominator, 1 to the number of clusters: as many
//!   clusters of equal size would say as much. Of a figure made of several (a difference), the least of theirs.
//! - Interval: value -+ t * se, t with n_eff - 1 degrees of freedom (of H strata with G clusters, (G - H) / (G - 1) times
//!   as many: each stratum gives one up for its mean); of shares on the logit scale, se / (p (1 - p)), of counts on that of
//!   their logarithm, se / value.
//!   A share of 0 or 1, or one on which all clusters agree, has Wilson's interval with n = n_eff. Where n_eff is
//!   50 or more, BCa ([`super::bootstrap`]). Other figures on which all clusters agree have none: width 0 would read as
//!   certainty.
//! - p inverts the interval: under 0.05 where the 95 % interval leaves the tested value out.
//! - Minimum: 30 items and n_eff 4. Below it there is no share, difference or efficiency; of shares the items are
//!   counted, with a Wilson interval that takes them as independent. Tokens and money stand without an interval.
//!
//! Source: Rust and Rao, "Variance estimation for complex surveys using replication techniques" (Statistical
//! Methods in Medical Research 1996); n_eff as in Kish, "Survey Sampling" (1965).

use super::estimate::{ALIKE, Counted, Estimate, ratio};
use std::sync::Arc;

use super::bootstrap;
use super::design::{self, DrawnFrom, Stratum, strata};
use super::distributions::{Z_ONE_SIDED, t_half_width, t_one_sided, t_tail, wilson, wilson_p};
use crate::scores::registry::Scale;

/// The minimum for a share, a difference or an efficiency.
pub(crate) const MIN_ITEMS: u64 = 30;
const MIN_N_EFF: f64 = 4.0;
/// Under this, readers are warned.
pub(crate) const FEW: f64 = 10.0;
/// From this on, intervals are BCa.
const MANY: f64 = 50.0;

/// Differences of fractions nearer than this are rounding.
const SAME: f64 = 1e-12;

/// The scale of a figure whose clusters (or trajectories) have these tops and bottoms: what leaves 0 to 1 is no share.
pub(crate) fn scale_of<'a>(scale: Scale, mut parts: impl Iterator<Item = &'a [f64; 2]>) -> Scale {
    let within = |[top, bottom]: &[f64; 2]| *top >= -SAME && *top <= bottom + SAME * bottom.max(1.0);
    if scale == Scale::Share && !parts.all(within) { Scale::Score } else { scale }
}

/// (sum w)^2 / sum w^2; 0 of nothing.
pub(crate) fn n_eff(weights: impl Iterator<Item = f64>) -> f64 {
    let (sum, squares) = weights.fold((0.0, 0.0), |(sum, squares), w| (sum + w, squares + w * w));
    ratio(sum * sum, squares).unwrap_or(0.0)
}

/// n_eff of clusters with these weights: of those that may be others, if there are any.
pub(crate) fn n_eff_of(drawn: &[DrawnFrom], weights: impl Iterator<Item = f64>) -> f64 {
    let varies = drawn.iter().any(|drawn| drawn.undrawn > 0.0);
    let counting = weights.zip(drawn).filter(|(_, drawn)| drawn.undrawn > 0.0 || !varies);
    n_eff(counting.map(|(weight, _)| weight))
}

pub(super) fn sum<'a, const K: usize>(clusters: impl Iterator<Item = &'a [f64; K]>) -> [f64; K] {
    clusters.fold([0.0; K], |sums, cluster| std::array::from_fn(|k| sums[k] + cluster[k]))
}

/// For each row the sums over all others: sums from the left plus sums from the right, since subtracting
/// from the total would leave rounding where nothing should be left.
fn others<const K: usize>(rows: &[[f64; K]]) -> Vec<[f64; K]> {
    let mut rest = Vec::with_capacity(rows.len());
    let mut left = [0.0; K];
    for row in rows {
        rest.push(left);
        left = sum([&left, row].into_iter());
    }
    let mut right = [0.0; K];
    for (sums, row) in rest.iter_mut().zip(rows).rev() {
        *sums = sum([&*sums, &right].into_iter());
        right = sum([&right, row].into_iter());
    }
    rest
}

/// The sums without each of the clusters of `groups`, the rest of its stratum counted n / (n - 1) times;
/// those of all for clusters in none.
fn leave_one_out<const K: usize>(clusters: &[[f64; K]], groups: &[Stratum]) -> Vec<[f64; K]> {
    let totals: Vec<[f64; K]> =
        groups.iter().map(|g| sum(g.clusters.iter().map(|&c| &clusters[c]))).collect();
    let mut without = vec![sum(clusters.iter()); clusters.len()];
    for (group, outside) in groups.iter().zip(others(&totals)).filter(|(group, _)| group.varies()) {
        let inside: Vec<[f64; K]> = group.clusters.iter().map(|&c| clusters[c]).collect();
        let scale = replicate_weight(group, groups.len());
        for (&cluster, rest) in group.clusters.iter().zip(others(&inside)) {
            without[cluster] = std::array::from_fn(|k| outside[k] + scale * rest[k]);
        }
    }
    without
}

/// The same for a statistic that takes a weight for each cluster.
pub(crate) fn jackknife(
    drawn: &[DrawnFrom],
    counts: &[bool],
    statistic: impl Fn(&[f64]) -> Option<f64>,
) -> Vec<f64> {
    let groups = strata(drawn, counts);
    let mut weights = vec![1.0; counts.len()];
    let mut values = vec![statistic(&weights).unwrap_or(f64::NAN); counts.len()];
    for group in groups.iter().filter(|group| group.varies()) {
        let scale = replicate_weight(group, groups.len());
        for &left_out in &group.clusters {
            group.clusters.iter().for_each(|&c| weights[c] = if c == left_out { 0.0 } else { scale });
            values[left_out] = statistic(&weights).unwrap_or(f64::NAN);
        }
        group.clusters.iter().for_each(|&c| weights[c] = 1.0);
    }
    values
}

/// What the others of a stratum count for where one is left out. Of one stratum alone it would cancel.
fn replicate_weight(group: &Stratum, n_strata: usize) -> f64 {
    let n = group.clusters.len() as f64;
    if n_strata == 1 { 1.0 } else { n / (n - 1.0) }
}

/// A statistic over all clusters, with each left out, and in each resample. Undefined is `None` and NaN.
#[derive(Clone, Debug)]
pub(crate) struct Resampled {
    pub(crate) scale: Scale,
    pub(crate) value: Option<f64>,
    /// By cluster; that of all for those without a part in it.
    pub(crate) jackknife: Vec<f64>,
    /// Which clusters have a part in it.
    pub(crate) counts: Vec<bool>,
    /// Where each cluster was drawn from.
    pub(crate) drawn: Arc<[DrawnFrom]>,
    pub(crate) n_eff: f64,
    /// Needs, decisions or whatever is counted.
    pub(crate) n_items: u64,
    /// Of these those that a share speaks of, each counted once; none where nobody counted.
    pub(crate) n_kept: Option<u64>,
    /// By resample; may be empty where n_eff is small.
    pub(crate) draws: Vec<f64>,
}

/// How far the truth may be from a value.
enum Spread {
    /// Standard error on the figure's own scale.
    Plain(f64),
    /// Standard error of the logit.
    Logit(f64),
    /// Standard error of the logarithm.
    Log(f64),
    Wilson,
    Bca,
}

fn logit(p: f64) -> f64 {
    (p / (1.0 - p)).ln()
}

impl Resampled {
    /// A function of the sums of clusters, without draws. `weight` is a cluster's part of the denominator.
    pub(crate) fn of<const K: usize>(
        scale: Scale,
        clusters: &[[f64; K]],
        drawn: Arc<[DrawnFrom]>,
        statistic: impl Fn(&[f64; K]) -> Option<f64>,
        weight: impl Fn(&[f64; K]) -> f64,
    ) -> Self {
        let counts = design::counting(&drawn, |c| clusters[c] != [0.0; K]);
        let without = leave_one_out(clusters, &strata(&drawn, &counts));
        Resampled {
            scale,
            value: statistic(&sum(clusters.iter())),
            jackknife: without.iter().map(|sums| statistic(sums).unwrap_or(f64::NAN)).collect(),
            n_eff: n_eff_of(&drawn, clusters.iter().map(weight)),
            counts,
            drawn,
            n_items: 0,
            n_kept: None,
            draws: Vec::new(),
        }
    }

    /// Whether draws may be used: they cost a hundred times as much as the rest.
    pub(crate) fn wants_draws(&self) -> bool {
        self.n_eff >= MANY
    }

    /// Whether they would be, by all else that is known: not of what is below the minimum, or where all clusters agree.
    pub(super) fn uses_draws(&self) -> bool {
        let value = self.value.filter(|_| self.wants_draws() && self.lacking().is_none());
        match value.map(|value| self.spread(value)) {
            Some(Ok(Spread::Logit(_) | Spread::Log(_) | Spread::Bca)) => true,
            Some(Ok(Spread::Plain(se))) => se > 0.0,
            Some(Ok(Spread::Wilson) | Err(_)) | None => false,
        }
    }

    /// A weighted sum of statistics of the same clusters and draws, undefined where one of them is.
    pub(crate) fn combine(parts: &[(f64, &Resampled)]) -> Self {
        let all = |of: fn(&Resampled) -> &[f64]| -> Vec<f64> {
            let n = parts.first().map_or(0, |(_, p)| of(p).len());
            (0..n).map(|i| parts.iter().map(|(w, p)| w * of(p)[i]).sum()).collect()
        };
        let value = parts.iter().map(|(w, p)| Some(w * p.value?)).sum();
        Resampled::joined(parts.iter().map(|(_, p)| *p), value, all(|p| &p.jackknife), all(|p| &p.draws))
    }

    pub(crate) fn minus(&self, other: &Resampled) -> Self {
        Resampled::combine(&[(1.0, self), (-1.0, other)])
    }

    /// One over the other, undefined where that is 0.
    pub(crate) fn over(&self, other: &Resampled) -> Self {
        let quotients =
            |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| ratio(*a, *b).unwrap_or(f64::NAN)).collect();
        Resampled::joined(
            [self, other].into_iter(),
            self.value.zip(other.value).and_then(|(a, b)| ratio(a, b)),
            quotients(&self.jackknife, &other.jackknife),
            quotients(&self.draws, &other.draws),
        )
    }

    /// A figure made of several: it is as sure as the least of them.
    fn joined<'a>(
        parts: impl Iterator<Item = &'a Resampled> + Clone,
        value: Option<f64>,
        jackknife: Vec<f64>,
        draws: Vec<f64>,
    ) -> Self {
        let counts = (0..jackknife.len()).map(|c| parts.clone().any(|p| p.counts[c])).collect();
        let n_eff = parts.clone().map(|p| p.n_eff).reduce(f64::min).unwrap_or(0.0);
        let n_items = parts.clone().map(|p| p.n_items).min().unwrap_or(0);
        let drawn = parts.clone().next().map_or_else(|| Arc::from([]), |p| p.drawn.clone());
        let scale = Scale::Score;
        Resampled { scale, value, jackknife, counts, drawn, n_eff, n_items, n_kept: None, draws }
    }

    /// Clusters with a part in it.
    pub(crate) fn n_clusters(&self) -> usize {
        self.counts.iter().filter(|counts| **counts).count()
    }

    /// What it lacks of the minimum.
    fn lacking(&self) -> Option<String> {
        if self.scale != Scale::Amount && self.n_items < MIN_ITEMS {
            return Some(format!("{} items, fewer than {MIN_ITEMS}", self.n_items));
        }
        too_few(self.n_eff)
    }

    /// Whether there is a value above the minimum.
    pub(crate) fn is_told(&self) -> bool {
        self.value.is_some() && self.lacking().is_none()
    }

    /// The value with its interval; what is below the minimum as the module says. `n_trajectories` is left to
    /// the caller.
    pub(crate) fn estimate(&self) -> Estimate {
        let n_clusters = self.n_clusters();
        let n_eff = (n_clusters > 0).then_some(self.n_eff);
        let (n_items, n_kept) = (self.n_items, self.n_kept);
        let known = Estimate { n_clusters, n_eff, n_items, n_kept, ..Estimate::default() };
        let because = |reason| Estimate { reason: Some(reason), ..known.clone() };
        let Some(value) = self.value else {
            return because(if n_clusters == 0 { "no data" } else { "denominator is 0" }.to_owned());
        };
        if let Some(reason) = self.lacking() {
            return match self.scale {
                Scale::Amount => Estimate { value: Some(value), ..because(reason) },
                Scale::Share => {
                    Estimate { counted: n_kept.and_then(|kept| counted(kept, n_items)), ..because(reason) }
                }
                Scale::Score | Scale::Count => because(reason),
            };
        }
        match self.interval(value) {
            Ok(interval) => Estimate { value: Some(value), interval: Some(interval), ..known },
            Err(reason) => Estimate { value: Some(value), ..because(reason) },
        }
    }

    fn interval(&self, value: f64) -> Result<(f64, f64), String> {
        let around = |at: f64, se: f64| {
            let half = t_half_width(self.degrees_of_freedom()) * se;
            (at - half, at + half)
        };
        Ok(match self.spread(value)? {
            Spread::Plain(se) => around(value, se),
            Spread::Logit(se) => {
                let (lo, hi) = around(logit(value), se);
                let back = |x: f64| 1.0 / (1.0 + (-x).exp());
                (back(lo), back(hi))
            }
            Spread::Log(se) => {
                let (lo, hi) = around(value.ln(), se);
                (lo.exp(), hi.exp())
            }
            Spread::Wilson => wilson(value.clamp(0.0, 1.0), self.n_eff),
            Spread::Bca => bootstrap::interval(value, &self.draws, &self.influences())?,
        })
    }

    fn spread(&self, value: f64) -> Result<Spread, String> {
        let se = self.standard_error();
        if !se.is_finite() {
            return Err("undefined with a cluster left out".to_owned());
        }
        let agree = se <= SAME * value.abs().max(1.0);
        let inside = value > SAME && value < 1.0 - SAME;
        // Of a corpus taken as a whole nothing is unknown.
        if !self.drawn.is_empty() && self.drawn.iter().all(|drawn| drawn.undrawn == 0.0) {
            return Ok(Spread::Plain(0.0));
        }
        match self.scale {
            Scale::Share if agree || !inside => Ok(Spread::Wilson),
            _ if agree => Err(format!("{ALIKE}: no spread to tell an interval from")),
            _ if self.wants_draws() && bootstrap::finite(&self.draws).is_ok() => Ok(Spread::Bca),
            Scale::Share => Ok(Spread::Logit(se / (value * (1.0 - value)))),
            Scale::Count if value > SAME => Ok(Spread::Log(se / value)),
            _ => Ok(Spread::Plain(se)),
        }
    }

    fn degrees_of_freedom(&self) -> f64 {
        let strata = strata(&self.drawn, &self.counts);
        let varying = strata.iter().filter(|stratum| stratum.varies());
        let n = varying.clone().map(|stratum| stratum.clusters.len()).sum::<usize>() as f64;
        (self.n_eff - 1.0) * (n - varying.count() as f64) / (n - 1.0)
    }

    /// The jackknife's values of the clusters that count.
    fn influences(&self) -> Vec<f64> {
        (0..self.counts.len()).filter(|&c| self.counts[c]).map(|c| self.jackknife[c]).collect()
    }

    /// By the jackknife; NaN where it is undefined.
    fn standard_error(&self) -> f64 {
        let variance = |group: &Stratum| {
            let n = group.clusters.len() as f64;
            let values = || group.clusters.iter().map(|&c| self.jackknife[c]);
            let mean = values().sum::<f64>() / n;
            group.undrawn * (n - 1.0) / n * values().map(|v| (v - mean) * (v - mean)).sum::<f64>()
        };
        strata(&self.drawn, &self.counts).iter().map(variance).sum::<f64>().sqrt()
    }

    /// Two-sided, of "the truth is `x`". `None` where there is no interval.
    pub(crate) fn p_value_of(&self, x: f64) -> Option<f64> {
        let value = self.value.filter(|_| self.lacking().is_none())?;
        let tail = |distance: f64, se: f64| 2.0 * t_tail((distance / se).abs(), self.degrees_of_freedom());
        let p = match self.spread(value).ok()? {
            Spread::Plain(se) => tail(value - x, se),
            // No share is at 0 or 1 when another is seen; beyond them there are none.
            Spread::Logit(se) if x > 0.0 && x < 1.0 => tail(logit(value) - logit(x), se),
            Spread::Logit(_) => 0.0,
            Spread::Log(se) if x > 0.0 => tail(value.ln() - x.ln(), se),
            Spread::Log(_) => 0.0,
            Spread::Wilson => wilson_p(value.clamp(0.0, 1.0), self.n_eff, x),
            Spread::Bca => {
                let draws: Vec<f64> = self.draws.iter().map(|d| d - x).collect();
                bootstrap::p_value(value - x, &draws, &self.influences())?
            }
        };
        Some(p.clamp(bootstrap::MIN_P, 1.0))
    }

    /// How far from its value the one-sided 95 % bounds of a score are, which lies between -1 and 1; none below the minimum. Where
    /// all clusters agree, as far as if a share of 0 of n_eff items (Wilson's bound of that) were at the farther end.
    pub(crate) fn reach(&self) -> Option<f64> {
        let value = self.value.filter(|_| self.lacking().is_none())?;
        let se = self.standard_error();
        let square = Z_ONE_SIDED * Z_ONE_SIDED;
        match se <= SAME * value.abs().max(1.0) {
            true => Some((1.0 + value.abs()) * square / (self.n_eff + square)),
            false => Some(t_one_sided(self.degrees_of_freedom()) * se).filter(|reach| reach.is_finite()),
        }
    }

    /// Two-sided, of "the truth is 0".
    pub(crate) fn p_value(&self) -> Option<f64> {
        self.p_value_of(0.0)
    }
}

/// Why as few clusters are below the minimum, if they are.
pub(crate) fn too_few(n_eff: f64) -> Option<String> {
    (n_eff < MIN_N_EFF - 1e-9).then(|| format!("n_eff is {n_eff:.2}, under {MIN_N_EFF}"))
}

fn counted(kept: u64, n: u64) -> Option<Counted> {
    let share = || (kept as f64 / n as f64).min(1.0);
    (n > 0).then(|| Counted { kept, n, interval: wilson(share(), n as f64) })
}

#[cfg(test)]
mod tests;
