//! `validity`: does a trajectory that retained more also end better?
//!
//! For every variant and retention score: the correlation, over trajectories, of what the variant
//! retained of a trajectory with how that trajectory ended. `resolved` gives a rank-biserial correlation
//! (chance that a solved one retained more than an unsolved one, minus the reverse), `reward` a Spearman
//! correlation, both -1 to 1. Each trajectory counts once. Stratified by variant; the mean over variants
//! stands below. Interval: clusters are resampled, trajectories ranked again; percentiles.
//! Null under 10 trajectories with both, and where all retained or ended alike.
//!
//! Logs are off-policy: the agent that succeeded or failed had its whole context. See the page's warning.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::pages::{Page, Part, counts, estimate_columns, header, n_eff_column, shown};
use crate::report::lines::{Line, Lines, Measure, retentions};
use crate::report::load::Trajectory;
use crate::report::statistics::bootstrap::percentile_estimate;
use crate::report::statistics::estimate::Estimate;
use crate::report::statistics::inference::{n_eff, too_few};
use crate::report::statistics::ranks::{Order, rank_biserial, spearman};
use crate::report::tables::{Entry, Table};

pub(super) const ENTRY: Entry = Entry {
    name: "validity",
    measures: || retentions().into_iter().map(Measure::of).collect(),
    page: |input| page(&input.run.trajectories, input.lines),
};

const MIN_TRAJECTORIES: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Resolved,
    /// Where it has more than two values: two are `resolved` again.
    Reward,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Outcome::Resolved => "resolved",
            Outcome::Reward => "reward",
        }
    }

    fn of(self, trajectory: &Trajectory) -> Option<f64> {
        match self {
            Outcome::Resolved => trajectory.resolved.map(|r| f64::from(u8::from(r))),
            Outcome::Reward => trajectory.reward,
        }
    }
}

struct Row<'a> {
    /// Null is the mean over variants.
    line: Option<&'a Line>,
    metric: &'static str,
    outcome: Outcome,
    r: Estimate,
    /// Of the mean: variants behind it.
    n_lines: usize,
    n_resolved: Option<usize>,
}

/// The page, or why there is none.
pub(crate) fn page(trajectories: &[Trajectory], lines: &Lines) -> Result<Page, String> {
    let outcomes: Vec<Outcome> =
        [Outcome::Resolved, Outcome::Reward].into_iter().filter(|o| is_told(trajectories, *o)).collect();
    if outcomes.is_empty() {
        return Err(format!(
            "fewer than {MIN_TRAJECTORIES} trajectories with a logged outcome, or all ended alike"
        ));
    }
    let mut rows = Vec::new();
    for &outcome in &outcomes {
        for score in retentions() {
            rows.extend(stratified(trajectories, lines, score.name, outcome));
        }
    }
    if rows.is_empty() {
        return Err("no retention score varies over trajectories with a logged outcome, or their clusters are too few (n_eff under 4)".to_owned());
    }
    let known = |o: Outcome| trajectories.iter().filter(|t| o.of(t).is_some()).count();
    let counts: Vec<String> =
        outcomes.iter().map(|o| format!("{} ({} trajectories)", o.name(), known(*o))).collect();
    Ok(Page {
        table: table(&rows),
        title: "Retention and logged outcomes",
        gist: "correlation of what a variant retained of a trajectory with how that trajectory ended",
        about: format!(
            "**Warning: logs are off-policy.** The agent that solved or failed the task had its whole context; nothing was \
             compressed when it acted. A correlation here does not say that retaining more would have solved more. It can \
             come from what both depend on: long trajectories fail more often and are also harder to retain. No solve rate \
             is estimated.\n\n\
             Is retention higher on trajectories that ended well? For every variant, over trajectories: the rank-biserial \
             correlation of its retention with *resolved* (chance that a solved trajectory retained more than an unsolved \
             one, minus the reverse), or Spearman's with *reward* where that has more than two values. 0 is no relation. \
             Outcomes known: {}. The interval resamples clusters ({} resamples, seed {}).",
            counts.join(", "),
            lines.draws.n_resamples(),
            lines.resampling.seed
        ),
        parts: vec![part(&rows)],
        notes: format!(
            "- Each trajectory counts once, however many needs it has; each variant is a stratum of its own, and the last \
             line of a score is the mean over variants, resampled together.\n\
             - Variants that retain all of everything, or that share fewer than {MIN_TRAJECTORIES} such trajectories, have \
             no line; nor have those of which clusters are too few (n_eff under 4).\n\
             - *n*: trajectories / clusters / n_eff, of the trajectories how many were solved."
        ),
    })
}

/// Whether enough trajectories have an outcome, and it varies.
fn is_told(trajectories: &[Trajectory], outcome: Outcome) -> bool {
    let mut values: Vec<f64> = trajectories.iter().filter_map(|t| outcome.of(t)).collect();
    let n = values.len();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let needed = if outcome == Outcome::Reward { 3 } else { 2 };
    n >= MIN_TRAJECTORIES && values.len() >= needed
}

/// A row a variant, and their mean.
fn stratified<'a>(
    trajectories: &[Trajectory],
    lines: &'a Lines,
    metric: &'static str,
    outcome: Outcome,
) -> Vec<Row<'a>> {
    let main: Vec<&Line> = lines.main().collect();
    let found: Vec<(&Line, Sample, f64, Vec<f64>)> = main
        .into_par_iter()
        .filter_map(|line| {
            let sample = Sample::of(trajectories, lines, line, metric, outcome)?;
            // Below the minimum nothing is ranked.
            let sample = Some(sample).filter(|s| too_few(s.n_eff()).is_none())?;
            let value = sample.correlation(&sample.weights)?;
            let draws = sample.draws(lines);
            Some((line, sample, value, draws))
        })
        .collect();
    if found.is_empty() {
        return Vec::new();
    }
    let n = found.len() as f64;
    let mean = found.iter().map(|(_, _, value, _)| value).sum::<f64>() / n;
    let mean_draws: Vec<f64> = (0..lines.draws.n_resamples())
        .map(|r| found.iter().map(|(_, _, _, draws)| draws[r]).sum::<f64>() / n)
        .collect();
    let most = |f: fn(&Sample) -> usize| found.iter().map(|(_, s, ..)| f(s)).max().unwrap_or(0);
    let mean = Row {
        line: None,
        metric,
        outcome,
        r: Estimate {
            n_trajectories: most(|s| s.clusters.len()),
            n_clusters: most(Sample::n_clusters),
            n_eff: found.iter().map(|(_, s, ..)| s.n_eff()).reduce(f64::min),
            ..percentile_estimate(mean, &mean_draws)
        },
        n_lines: found.len(),
        n_resolved: None,
    };
    let rows = found.into_iter().map(|(line, sample, value, draws)| Row {
        line: Some(line),
        metric,
        outcome,
        r: Estimate {
            n_trajectories: sample.clusters.len(),
            n_clusters: sample.n_clusters(),
            n_eff: Some(sample.n_eff()),
            ..percentile_estimate(value, &draws)
        },
        n_lines: 1,
        n_resolved: (outcome == Outcome::Resolved).then(|| sample.good.iter().filter(|g| **g).count()),
    });
    rows.chain([mean]).collect()
}

/// The trajectories of a variant that have a retention and an outcome.
struct Sample {
    retention: Order,
    outcome: Order,
    /// Resolved.
    good: Vec<bool>,
    binary: bool,
    /// Cluster of each.
    clusters: Vec<usize>,
    /// Sessions that each stands for.
    weights: Vec<f64>,
}

impl Sample {
    fn of(
        trajectories: &[Trajectory],
        lines: &Lines,
        line: &Line,
        metric: &str,
        outcome: Outcome,
    ) -> Option<Self> {
        let rows: Vec<(u32, f64, f64)> = line
            .by_trajectory(metric)
            .into_iter()
            .filter_map(|(t, retention)| Some((t, retention, outcome.of(&trajectories[t as usize])?)))
            .collect();
        let outcomes: Vec<f64> = rows.iter().map(|r| r.2).collect();
        let retentions: Vec<f64> = rows.iter().map(|r| r.1).collect();
        (rows.len() >= MIN_TRAJECTORIES).then(|| Sample {
            retention: Order::of(&retentions),
            outcome: Order::of(&outcomes),
            good: outcomes.iter().map(|y| *y > 0.5).collect(),
            binary: outcome == Outcome::Resolved,
            clusters: rows.iter().map(|r| lines.clusters[r.0 as usize] as usize).collect(),
            weights: rows.iter().map(|r| lines.weights[r.0 as usize]).collect(),
        })
    }

    fn correlation(&self, weights: &[f64]) -> Option<f64> {
        if self.binary {
            rank_biserial(&self.retention, &self.good, weights)
        } else {
            spearman(&self.retention, &self.outcome, weights)
        }
    }

    fn draws(&self, lines: &Lines) -> Vec<f64> {
        let mut weights = vec![0.0; self.clusters.len()];
        (0..lines.draws.n_resamples())
            .map(|resample| {
                for (weight, (&cluster, own)) in
                    weights.iter_mut().zip(self.clusters.iter().zip(&self.weights))
                {
                    *weight = own * lines.draws.share(cluster, resample);
                }
                self.correlation(&weights).unwrap_or(f64::NAN)
            })
            .collect()
    }

    /// Sessions that each cluster stands for.
    fn sizes(&self) -> Vec<f64> {
        let mut sizes: BTreeMap<usize, f64> = BTreeMap::new();
        for (cluster, weight) in self.clusters.iter().zip(&self.weights) {
            *sizes.entry(*cluster).or_default() += weight;
        }
        sizes.into_values().collect()
    }

    fn n_clusters(&self) -> usize {
        self.sizes().len()
    }

    fn n_eff(&self) -> f64 {
        n_eff(self.sizes().into_iter())
    }
}

fn table(rows: &[Row]) -> Table {
    let mut t = Table::new(ENTRY.name);
    t.text("metric", "the retention score", rows.iter().map(|r| Some(r.metric.to_owned())));
    t.text(
        "outcome",
        "resolved or reward, as logged",
        rows.iter().map(|r| Some(r.outcome.name().to_owned())),
    );
    t.text(
        "label",
        "the variant; null is the mean over variants",
        rows.iter().map(|r| r.line.map(|l| l.label.clone())),
    );
    estimate_columns(
        &mut t,
        "correlation",
        "over trajectories: rank-biserial with resolved, Spearman with reward, -1 to 1; off-policy, so no effect of retention",
        rows.iter().map(|r| &r.r),
    );
    t.count(
        "n_trajectories",
        "trajectories with both; of the mean, the most of any variant",
        rows.iter().map(|r| Some(r.r.n_trajectories as u64)),
    );
    t.count(
        "n_resolved",
        "of these, solved; null for reward and the mean",
        rows.iter().map(|r| r.n_resolved.map(|n| n as u64)),
    );
    t.count("n_clusters", "clusters behind it", rows.iter().map(|r| Some(r.r.n_clusters as u64)));
    n_eff_column(&mut t, rows.iter().map(|r| &r.r));
    t.count("n_variants", "variants behind it", rows.iter().map(|r| Some(r.n_lines as u64)));
    t.text("nulls", "why the interval is null", rows.iter().map(|r| r.r.reason.clone()));
    t
}

fn part(rows: &[Row]) -> Part {
    let name =
        |r: &Row| r.line.map_or_else(|| format!("(mean over {} variants)", r.n_lines), |l| l.label.clone());
    let n = |r: &Row| {
        let solved = r.n_resolved.map_or_else(String::new, |n| format!(", {n} solved"));
        format!("{}{solved}", counts(&r.r))
    };
    Part {
        heading: None,
        header: header(["variant", "score", "outcome", "correlation", "n"]),
        rows: rows
            .iter()
            .map(|r| vec![name(r), r.metric.to_owned(), r.outcome.name().to_owned(), shown(&r.r, true), n(r)])
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trajectories(resolved: &[usize], reward: impl Fn(usize) -> Option<f64>) -> Vec<Trajectory> {
        (0..10)
            .map(|t| Trajectory {
                agent: None,
                n_turns: 0,
                id: t.to_string(),
                format: String::new(),
                cluster: t as u32,
                resolved: Some(resolved.contains(&t)),
                reward: reward(t),
                is_cached_an_hour: false,
                source_key: String::new(),
                content: String::new(),
                weight: 1.0,
            })
            .collect()
    }

    /// One line that retains more of each next trajectory, and one that retains all.
    fn lines() -> Lines {
        let rising: Vec<(f64, f64)> = (0..10).map(|t| (f64::from(t) / 10.0, 3.0)).collect();
        let rising = Line::by_hand("a @ t", &[("need_retention", &rising)]);
        Lines::by_hand(vec![rising, Line::by_hand("b @ t", &[("need_retention", &[(1.0, 3.0); 10])])], 10)
    }

    #[test]
    fn retention_of_solved_trajectories_is_ranked_against_the_rest() {
        let lines = lines();
        // 25 pairs, of which only 4 against 5 is lost.
        let known = trajectories(&[4, 6, 7, 8, 9], |_| Some(0.0));
        let rows = stratified(&known, &lines, "need_retention", Outcome::Resolved);
        assert_eq!(rows.len(), 2);
        assert!((rows[0].r.value.unwrap() - 0.92).abs() < 1e-12);
        assert_eq!((rows[0].r.n_trajectories, rows[0].n_resolved), (10, Some(5)));
        // The line that retains all cannot be ranked, so the mean is over one.
        assert_eq!((rows[1].r.value, rows[1].n_lines), (rows[0].r.value, 1));
        assert!(is_told(&known, Outcome::Resolved) && !is_told(&known, Outcome::Reward));
    }

    #[test]
    fn rewards_of_many_values_are_ranked_too() {
        let known = trajectories(&[], |t| Some(-(t as f64)));
        assert!(is_told(&known, Outcome::Reward) && !is_told(&known, Outcome::Resolved));
        let lines = lines();
        let rows = stratified(&known, &lines, "need_retention", Outcome::Reward);
        assert_eq!(rows[0].r.value, Some(-1.0));
        let page = page(&known, &lines).unwrap().markdown();
        assert!(page.contains("logs are off-policy"), "{page}");
    }

    #[test]
    fn nothing_is_said_of_nine_trajectories() {
        let mut known = trajectories(&[1, 2], |_| None);
        known[0].resolved = None;
        assert_eq!(
            page(&known, &lines()).err().unwrap(),
            "fewer than 10 trajectories with a logged outcome, or all ended alike"
        );
    }
}
