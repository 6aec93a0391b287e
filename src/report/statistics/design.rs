//! How the clusters of a report were drawn: the stratum of each, and how much of that stratum was left out.
//!
//! Logs of other sessions have no end: whatever share of them was seen, the rest is as large. A corpus of which a sample was
//! drawn (`cluster plan --sample`) has one: of stratum h n_h of N_h sessions were drawn, each counts N_h / n_h times, and
//! only the N_h - n_h others are unknown. So the variance of a stratum is multiplied by 1 - n_h / N_h, and that of one
//! taken as a whole is 0. Sessions without a part in a figure count there, with sums of 0: how many of a stratum have one is
//! itself known from the sample alone.
//!
//! Source: Cochran, "Sampling Techniques" (1977), 5.4 and 6.11; of the bootstrap Rao and Wu (JASA 1988), section 4.

use std::collections::BTreeMap;

/// Where a cluster was drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DrawnFrom {
    pub(crate) stratum: u32,
    /// Share of the stratum that was not drawn; 1 where it has no end.
    pub(crate) undrawn: f64,
}

impl From<u32> for DrawnFrom {
    fn from(stratum: u32) -> Self {
        DrawnFrom { stratum, undrawn: 1.0 }
    }
}

impl DrawnFrom {
    /// Whether the clusters are those of a corpus that has an end.
    pub(crate) fn is_of_corpus(&self) -> bool {
        self.undrawn < 1.0
    }
}

/// Clusters that stand for a stratum.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stratum {
    pub(crate) clusters: Vec<usize>,
    pub(crate) undrawn: f64,
}

impl Stratum {
    /// Whether anything of it is unknown.
    pub(crate) fn varies(&self) -> bool {
        self.undrawn > 0.0
    }

    /// How far a resample may be from what was drawn.
    pub(super) fn reach(&self) -> f64 {
        self.undrawn.sqrt()
    }
}

/// Which clusters count: those with a part in a figure, and all of a corpus.
pub(crate) fn counting(drawn: &[DrawnFrom], has_part: impl Fn(usize) -> bool) -> Vec<bool> {
    drawn.iter().enumerate().map(|(c, drawn)| drawn.is_of_corpus() || has_part(c)).collect()
}

/// The clusters that count, by stratum; lone ones together. One that is all of its stratum needs no company.
pub(crate) fn strata(drawn: &[DrawnFrom], counts: &[bool]) -> Vec<Stratum> {
    let mut groups: BTreeMap<u32, Stratum> = BTreeMap::new();
    for (cluster, from) in drawn.iter().enumerate().filter(|(c, _)| counts[*c]) {
        let none = Stratum { clusters: Vec::new(), undrawn: from.undrawn };
        groups.entry(from.stratum).or_insert(none).clusters.push(cluster);
    }
    let is_lone = |stratum: &Stratum| stratum.clusters.len() == 1 && stratum.varies();
    let (lone, mut groups): (Vec<_>, Vec<_>) = groups.into_values().partition(is_lone);
    let undrawn = lone.iter().map(|stratum| stratum.undrawn).fold(0.0, f64::max);
    let clusters: Vec<usize> = lone.into_iter().flat_map(|stratum| stratum.clusters).collect();
    let varying = groups.iter_mut().rev().filter(|stratum| stratum.varies());
    match varying.max_by_key(|stratum| stratum.clusters.len()) {
        Some(largest) if clusters.len() == 1 => {
            largest.clusters.extend(clusters);
            largest.clusters.sort_unstable();
            largest.undrawn = largest.undrawn.max(undrawn);
        }
        _ if !clusters.is_empty() => groups.push(Stratum { clusters, undrawn }),
        _ => {}
    }
    groups
}

#[cfg(test)]
mod tests;
