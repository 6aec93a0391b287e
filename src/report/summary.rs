//! One row a variant: what it saved and what it lost, with intervals, and the same by stratum and
//! by format of log.
//!
//! Pooled value of a score = sum(value * weight) / sum(weight) over the trajectories where it is
//! defined. All statistics are functions of such sums, see [`super::bootstrap`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rayon::prelude::*;

use super::bootstrap::{Estimate, Resampling, estimate};
use super::figure::Point;
use super::load::{ClusterKind, Event, Run, STRATUM_KEYS, Score, Stratum, VariantScores};
use super::tables::{Table, fixed, markdown};

/// The set on which variants can be compared: every variant answers the same questions.
const COMMON: &str = "set=common tail=10";
/// The set on which efficiency is defined: needs that the trigger put at risk.
const EXPOSED: &str = "set=exposed tail=10";
/// The same, each trajectory's weight capped at 20 needs.
const EXPOSED_CAPPED: &str = "set=exposed tail=10 cap=20";

/// Efficiency is null below these.
const MIN_NEEDS: u64 = 30;
const MIN_CLUSTERS: usize = 10;

const NEED: &str = "need_retention";
const SURFACE: &str = "surface_retention";

/// An estimate of the summary: the one list from which rows, columns and their docs are made.
struct Metric {
    name: &'static str,
    doc: &'static str,
    /// Tokens instead of a fraction.
    amount: bool,
    /// Also in `by_format`.
    by_format: bool,
    compute: fn(&Scores) -> Estimate,
}

const fn fraction(
    name: &'static str,
    doc: &'static str,
    compute: fn(&Scores) -> Estimate,
) -> Metric {
    Metric {
        name,
        doc,
        amount: false,
        by_format: false,
        compute,
    }
}

const fn headline(
    name: &'static str,
    doc: &'static str,
    compute: fn(&Scores) -> Estimate,
) -> Metric {
    Metric {
        name,
        doc,
        amount: false,
        by_format: true,
        compute,
    }
}

static METRICS: [Metric; 24] = [
    headline(
        "token_savings",
        "1 - prompt tokens sent / prompt tokens with nothing compressed, over all decisions",
        |s| s.pooled("token_savings", "", |r| r.value),
    ),
    headline(
        "cost_savings",
        "1 - cost / cost with nothing compressed, under the run's price table, with prompt caching",
        |s| s.pooled("cost_savings", "", |r| r.value),
    ),
    headline(
        "net_savings",
        "1 - (sent + compressor's tokens + rework) / full; rework re-reads what was lost and needed",
        |s| s.pooled("net_savings", "", |r| r.value),
    ),
    fraction(
        "peak_savings",
        "1 - largest prompt sent / largest prompt with nothing compressed",
        |s| s.pooled("peak_savings", "", |r| r.value),
    ),
    Metric {
        name: "peak_tokens",
        doc: "tokens of the largest prompt sent, mean over trajectories",
        amount: true,
        by_format: false,
        compute: |s| s.pooled("peak_tokens", "", |r| r.value),
    },
    headline(
        "need_retention_common",
        "bound need retention on the common set (observed and user needs older than 10 turns; the same questions for every variant)",
        |s| s.pooled(NEED, COMMON, |r| r.value),
    ),
    headline(
        "random_common",
        "the same for the matched random shadow: the floor",
        |s| s.pooled(NEED, COMMON, |r| r.floor),
    ),
    headline(
        "oracle_common",
        "the same for the matched oracle shadow: the ceiling",
        |s| s.pooled(NEED, COMMON, |r| r.ceiling),
    ),
    fraction(
        "atom_bag_common",
        "the same for the matched list of atoms without prose",
        |s| s.pooled(NEED, COMMON, |r| r.atom_bag),
    ),
    fraction(
        "chance_common",
        "the same needs looked for in the contexts of other trajectories",
        |s| s.pooled(NEED, COMMON, |r| r.chance),
    ),
    fraction(
        "corrected_common",
        "(need_retention_common - c) / (1 - c), c = chance_common",
        |s| s.corrected(NEED, COMMON),
    ),
    headline(
        "need_retention_exposed",
        "bound need retention on the exposed set: of the common set, the needs with no mention outside what the trigger gave away; differs between triggers",
        |s| s.pooled(NEED, EXPOSED, |r| r.value),
    ),
    headline(
        "random_exposed",
        "the same for the matched random shadow: the floor",
        |s| s.pooled(NEED, EXPOSED, |r| r.floor),
    ),
    headline(
        "oracle_exposed",
        "the same for the matched oracle shadow: the ceiling",
        |s| s.pooled(NEED, EXPOSED, |r| r.ceiling),
    ),
    fraction(
        "atom_bag_exposed",
        "the same for the matched list of atoms without prose",
        |s| s.pooled(NEED, EXPOSED, |r| r.atom_bag),
    ),
    fraction(
        "chance_exposed",
        "the same needs looked for in the contexts of other trajectories",
        |s| s.pooled(NEED, EXPOSED, |r| r.chance),
    ),
    fraction(
        "corrected_exposed",
        "(need_retention_exposed - c) / (1 - c), c = chance_exposed",
        |s| s.corrected(NEED, EXPOSED),
    ),
    fraction(
        "surface_retention_common",
        "share of the common set whose atom stands anywhere in the context; gameable by a list of atoms",
        |s| s.pooled(SURFACE, COMMON, |r| r.value),
    ),
    fraction(
        "surface_retention_exposed",
        "the same on the exposed set",
        |s| s.pooled(SURFACE, EXPOSED, |r| r.value),
    ),
    headline(
        "efficiency",
        "sum w (x - random) / sum w (oracle - random) over exposed needs, each trajectory capped at 20 needs' weight where such rows exist (see efficiency_rows); 0 is random, 1 the oracle, never clipped",
        |s| s.efficiency(NEED, s.efficiency_stratum()),
    ),
    fraction("efficiency_uncapped", "the same without the cap", |s| {
        s.efficiency(NEED, EXPOSED)
    }),
    fraction(
        "need_coverage",
        "share of the needs of the common set for which bound retention is defined",
        |s| s.pooled("need_coverage", s.coverage_stratum(), |r| r.value),
    ),
    headline(
        "discard_lift",
        "1 - needed share of removed tokens / needed share of scope tokens; 0 is no better than removing at random",
        |s| s.discard_lift(),
    ),
    fraction(
        "needed_scope_share",
        "share of the tokens in scope that a later need stands on",
        |s| s.pooled("needed_scope_share", "", |r| r.value),
    ),
];

/// The scores of a variant, or of a part of its trajectories, ready to be pooled.
struct Scores<'a> {
    rows: &'a VariantScores,
    /// Cluster of each trajectory.
    clusters: &'a [u32],
    /// Trajectories that count; all where `None`.
    only: Option<&'a [bool]>,
    resampling: Resampling,
}

impl Scores<'_> {
    fn get(&self, metric: &str, stratum: &str) -> &[Score] {
        let key = (metric.to_owned(), stratum.to_owned());
        self.rows.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Sums by cluster of what `pick` makes of each row, with the statistic over them.
    fn estimate<const K: usize>(
        &self,
        rows: &[(&Score, [f64; K])],
        statistic: impl Fn(&[f64; K]) -> Option<f64>,
    ) -> Estimate {
        let mut clusters: BTreeMap<u32, [f64; K]> = BTreeMap::new();
        let mut trajectories = BTreeSet::new();
        let mut n_items = 0;
        for (score, terms) in rows {
            trajectories.insert(score.trajectory);
            n_items += score.n;
            let sums = clusters
                .entry(self.clusters[score.trajectory as usize])
                .or_insert([0.0; K]);
            for (sum, term) in sums.iter_mut().zip(terms) {
                *sum += term;
            }
        }
        let clusters: Vec<[f64; K]> = clusters.into_values().collect();
        Estimate {
            n_trajectories: trajectories.len(),
            n_items,
            ..estimate(&clusters, statistic, self.resampling)
        }
    }

    /// Rows that count and have a weight, with the terms of their sums.
    fn terms<'s, const K: usize>(
        &self,
        rows: &'s [Score],
        terms: impl Fn(&Score) -> Option<[f64; K]>,
    ) -> Vec<(&'s Score, [f64; K])> {
        rows.iter()
            .filter(|s| s.weight > 0.0)
            .filter(|s| self.only.is_none_or(|only| only[s.trajectory as usize]))
            .filter_map(|s| Some((s, terms(s)?)))
            .collect()
    }

    fn pooled(&self, metric: &str, stratum: &str, field: fn(&Score) -> Option<f64>) -> Estimate {
        let rows = self.get(metric, stratum);
        if rows.is_empty() {
            return Estimate::null("no rows");
        }
        let terms = self.terms(rows, |s| field(s).map(|x| [x * s.weight, s.weight]));
        self.estimate(&terms, |s| ratio(s[0], s[1]))
    }

    fn corrected(&self, metric: &str, stratum: &str) -> Estimate {
        let rows = self.get(metric, stratum);
        if rows.is_empty() {
            return Estimate::null("no rows");
        }
        let terms = self.terms(rows, |s| {
            Some([s.value? * s.weight, s.chance? * s.weight, s.weight])
        });
        self.estimate(&terms, |s| ratio(s[0] - s[1], s[2] - s[1]))
    }

    fn efficiency(&self, metric: &str, stratum: &str) -> Estimate {
        let rows = self.get(metric, stratum);
        if rows.is_empty() {
            return Estimate::null("no rows");
        }
        let terms = self.terms(rows, |s| {
            let [x, floor, ceiling] = [s.value?, s.floor?, s.ceiling?].map(|x| x * s.weight);
            Some([x - floor, ceiling - floor, s.weight])
        });
        let room = self.estimate(&terms, |s| ratio(s[1], s[2]));
        let withheld = |reason: String| Estimate {
            value: None,
            interval: None,
            reason: Some(reason),
            ..room.clone()
        };
        if room.n_items < MIN_NEEDS {
            return withheld(format!("{} needs, fewer than {MIN_NEEDS}", room.n_items));
        }
        if room.n_clusters < MIN_CLUSTERS {
            return withheld(format!(
                "{} clusters, fewer than {MIN_CLUSTERS}",
                room.n_clusters
            ));
        }
        match room.interval {
            Some((lo, hi)) if lo > 0.0 || hi < 0.0 => self.estimate(&terms, |s| ratio(s[0], s[1])),
            _ => withheld("the interval of oracle - random holds 0".to_owned()),
        }
    }

    fn efficiency_stratum(&self) -> &'static str {
        if self.get(NEED, EXPOSED_CAPPED).is_empty() {
            EXPOSED
        } else {
            EXPOSED_CAPPED
        }
    }

    fn coverage_stratum(&self) -> &'static str {
        if self.get("need_coverage", COMMON).is_empty() {
            ""
        } else {
            COMMON
        }
    }

    fn discard_lift(&self) -> Estimate {
        let removed = self.get("needed_removed_share", "");
        let scope = self.get("needed_scope_share", "");
        if removed.is_empty() || scope.is_empty() {
            return Estimate::null("no rows");
        }
        let mut terms = self.terms(removed, |s| Some([s.value? * s.weight, s.weight, 0.0, 0.0]));
        if terms.is_empty() {
            return Estimate::null("nothing was removed");
        }
        terms.extend(self.terms(scope, |s| Some([0.0, 0.0, s.value? * s.weight, s.weight])));
        let lift = self.estimate(&terms, |s| {
            Some(1.0 - ratio(s[0], s[1])? / ratio(s[2], s[3]).filter(|share| *share > 0.0)?)
        });
        match lift.value {
            None => Estimate {
                reason: Some("nothing in scope was needed".to_owned()),
                ..lift
            },
            Some(_) => lift,
        }
    }
}

fn ratio(top: f64, bottom: f64) -> Option<f64> {
    (bottom != 0.0)
        .then(|| top / bottom)
        .filter(|x| x.is_finite())
}

/// All that the tables and figures of a report need.
pub(super) struct Summary {
    /// In order of token savings.
    rows: Vec<VariantSummary>,
    formats: Vec<FormatRow>,
    cluster: ClusterKind,
    n_trajectories: usize,
    n_ok_everywhere: usize,
    resampling: Resampling,
    pub(super) remarks: Vec<String>,
}

struct VariantSummary {
    variant: String,
    label: String,
    strategy: String,
    trigger: String,
    model: Option<String>,
    n_ok: usize,
    errors: Vec<(String, String)>,
    n_violations: u64,
    events: EventSummary,
    efficiency_rows: &'static str,
    /// Beside [`METRICS`].
    estimates: Vec<Estimate>,
    strata: Vec<StratumRow>,
}

/// What the events of a variant add up to.
#[derive(Clone, Debug, Default, PartialEq)]
struct EventSummary {
    n: usize,
    n_fallbacks: usize,
    kept_share: Option<f64>,
    break_even_median: Option<u32>,
    break_even_censored_share: Option<f64>,
}

struct StratumRow {
    metric: String,
    stratum: Stratum,
    value: Estimate,
    floor: Option<f64>,
    ceiling: Option<f64>,
    atom_bag: Option<f64>,
    chance: Option<f64>,
    efficiency: Estimate,
}

struct FormatRow {
    format: String,
    variant: usize,
    n_trajectories: usize,
    /// Beside the metrics that are given by format.
    estimates: Vec<Estimate>,
}

pub(super) fn summarise(run: &Run, resampling: Resampling) -> anyhow::Result<Summary> {
    let clusters: Vec<u32> = run.trajectories.iter().map(|t| t.cluster).collect();
    let formats = formats(run);
    let mut rows = Vec::new();
    run.scores(|batch| {
        rows.par_extend(batch.par_iter().map(|(i, scores)| {
            let scores = Scores {
                rows: scores,
                clusters: &clusters,
                only: None,
                resampling,
            };
            let by_format = by_format(&scores, &formats);
            (summarise_variant(run, *i, &scores), by_format)
        }));
        Ok(())
    })?;
    let savings = |row: &VariantSummary| row.estimates[0].value.unwrap_or(f64::INFINITY);
    rows.sort_by(|(a, _), (b, _)| {
        savings(a)
            .total_cmp(&savings(b))
            .then_with(|| a.label.cmp(&b.label))
            .then_with(|| a.variant.cmp(&b.variant))
    });
    let (rows, by_variant): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    let mut format_rows: Vec<FormatRow> = by_variant
        .into_iter()
        .enumerate()
        .flat_map(|(variant, rows)| {
            rows.into_iter()
                .map(move |row| FormatRow { variant, ..row })
        })
        .collect();
    format_rows.sort_by(|a, b| (&a.format, a.variant).cmp(&(&b.format, b.variant)));
    let mut summary = Summary {
        rows,
        formats: format_rows,
        cluster: run.cluster,
        n_trajectories: run.trajectories.len(),
        n_ok_everywhere: run.n_ok_everywhere,
        resampling,
        remarks: Vec::new(),
    };
    summary.remarks = remarks(&summary);
    Ok(summary)
}

/// Which trajectories have each format.
fn formats(run: &Run) -> BTreeMap<String, Vec<bool>> {
    let names: BTreeSet<&str> = run.trajectories.iter().map(|t| t.format.as_str()).collect();
    let members = |name: &str| run.trajectories.iter().map(|t| t.format == name).collect();
    names
        .into_iter()
        .map(|name| (name.to_owned(), members(name)))
        .collect()
}

fn summarise_variant(run: &Run, i: usize, scores: &Scores) -> VariantSummary {
    let (variant, cells) = (&run.variants[i], &run.cells[i]);
    let mut strata: Vec<StratumRow> = scores
        .rows
        .keys()
        .filter(|(metric, _)| metric == NEED || metric == SURFACE)
        .map(|(metric, stratum)| {
            let point = |field| scores.pooled(metric, stratum, field).value;
            StratumRow {
                metric: metric.clone(),
                stratum: Stratum::parse(stratum),
                value: scores.pooled(metric, stratum, |s| s.value),
                floor: point(|s| s.floor),
                ceiling: point(|s| s.ceiling),
                atom_bag: point(|s| s.atom_bag),
                chance: point(|s| s.chance),
                efficiency: scores.efficiency(metric, stratum),
            }
        })
        .collect();
    strata.sort_by(|a, b| {
        a.metric
            .cmp(&b.metric)
            .then_with(|| natural(&a.stratum.to_string(), &b.stratum.to_string()))
    });
    VariantSummary {
        variant: variant.variant.clone(),
        label: variant.label.clone(),
        strategy: variant.strategy.clone(),
        trigger: variant.trigger.clone(),
        model: variant.model.clone(),
        n_ok: cells.n_ok,
        errors: cells.errors.clone(),
        n_violations: cells.n_violations,
        events: summarise_events(&run.events[i]),
        efficiency_rows: scores.efficiency_stratum(),
        estimates: METRICS.iter().map(|m| (m.compute)(scores)).collect(),
        strata,
    }
}

fn by_format(scores: &Scores, formats: &BTreeMap<String, Vec<bool>>) -> Vec<FormatRow> {
    formats
        .iter()
        .map(|(format, members)| {
            let part = Scores {
                only: Some(members),
                ..*scores
            };
            let metrics = METRICS.iter().filter(|m| m.by_format);
            let estimates: Vec<Estimate> = metrics.map(|m| (m.compute)(&part)).collect();
            let n_trajectories = estimates.first().map_or(0, |e| e.n_trajectories);
            FormatRow {
                format: format.clone(),
                variant: 0,
                n_trajectories,
                estimates,
            }
        })
        .collect()
}

fn summarise_events(events: &[Event]) -> EventSummary {
    let removable: u64 = events.iter().map(|e| e.removable_tokens).sum();
    let kept: u64 = events.iter().map(|e| e.kept_tokens).sum();
    let censored = events
        .iter()
        .filter(|e| e.break_even_turns.is_none())
        .count();
    let times: Vec<(u32, bool)> = events
        .iter()
        .map(|e| {
            (
                e.break_even_turns.unwrap_or(e.decisions_left),
                e.break_even_turns.is_some(),
            )
        })
        .collect();
    EventSummary {
        n: events.len(),
        n_fallbacks: events.iter().filter(|e| e.fallback).count(),
        kept_share: ratio(kept as f64, removable as f64),
        break_even_median: kaplan_meier_median(times),
        break_even_censored_share: ratio(censored as f64, events.len() as f64),
    }
}

/// Kaplan and Meier's median of (time, whether it happened then or was censored): the first time at
/// which at most half are expected to be without the event; `None` if that is never seen. Of equal
/// times those censored come last.
fn kaplan_meier_median(mut times: Vec<(u32, bool)>) -> Option<u32> {
    times.sort_by_key(|&(time, happened)| (time, !happened));
    let mut at_risk = times.len();
    let mut surviving = 1.0;
    let mut rest = times.as_slice();
    while let Some(&(time, _)) = rest.first() {
        let same = rest.iter().take_while(|(t, _)| *t == time).count();
        let happened = rest[..same]
            .iter()
            .filter(|(_, happened)| *happened)
            .count();
        surviving *= 1.0 - happened as f64 / at_risk as f64;
        // 1/2 reached by products of fractions may be off by rounding.
        if surviving <= 0.5 + 1e-12 {
            return Some(time);
        }
        at_risk -= same;
        rest = &rest[same..];
    }
    None
}

/// Orders text so that `tail=3` stands before `tail=10`.
pub(super) fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    fn parts(text: &str) -> Vec<(&str, u64)> {
        let is_digit = |c: char| c.is_ascii_digit();
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.find(is_digit).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(digits);
            let (number, tail) = tail.split_at(tail.find(|c| !is_digit(c)).unwrap_or(tail.len()));
            parts.push((word, number.parse().unwrap_or(0)));
            rest = tail;
        }
        parts
    }
    parts(a).cmp(&parts(b)).then_with(|| a.cmp(b))
}

fn remarks(summary: &Summary) -> Vec<String> {
    let mut remarks = Vec::new();
    let n_errors: usize = summary.rows.iter().map(|r| r.errors.len()).sum();
    if n_errors > 0 {
        remarks.push(format!(
            "cells that failed and are left out: {n_errors}; see `Excluded cells` in summary.md"
        ));
    }
    if summary
        .rows
        .iter()
        .any(|r| r.n_ok != summary.n_ok_everywhere)
    {
        remarks.push(format!(
            "variants were scored on different trajectories: only {} of {} are ok under all of them, \
             so compare rows with care",
            summary.n_ok_everywhere, summary.n_trajectories
        ));
    }
    let n_violations: u64 = summary.rows.iter().map(|r| r.n_violations).sum();
    if n_violations > 0 {
        remarks.push(format!(
            "violated invariants: {n_violations}; see n_violations in summary.csv"
        ));
    }
    remarks
}

impl Summary {
    /// One row a variant.
    pub(super) fn table(&self) -> Table {
        let mut t = Table::new("summary");
        let rows = &self.rows;
        t.text(
            "variant",
            "id of the variant",
            rows.iter().map(|r| Some(r.variant.clone())),
        );
        t.text(
            "label",
            "its short name, unique in the run",
            rows.iter().map(|r| Some(r.label.clone())),
        );
        t.text(
            "strategy",
            "how it compresses",
            rows.iter().map(|r| Some(r.strategy.clone())),
        );
        t.text(
            "trigger",
            "when it compresses",
            rows.iter().map(|r| Some(r.trigger.clone())),
        );
        t.text(
            "model",
            "model of the compressor; null is model-free",
            rows.iter().map(|r| r.model.clone()),
        );
        t.count(
            "n_cells_ok",
            "trajectories scored",
            rows.iter().map(|r| Some(r.n_ok as u64)),
        );
        t.count(
            "n_cells_error",
            "trajectories that failed under this variant and are left out",
            rows.iter().map(|r| Some(r.errors.len() as u64)),
        );
        t.count(
            "n_clusters",
            &format!(
                "clusters behind token_savings; here a cluster is a {}",
                self.cluster_name()
            ),
            rows.iter().map(|r| Some(r.estimates[0].n_clusters as u64)),
        );
        t.count(
            "n_events",
            "compressions",
            rows.iter().map(|r| Some(r.events.n as u64)),
        );
        let items = |name: &str| {
            let at = METRICS
                .iter()
                .position(|m| m.name == name)
                .expect("a metric of the list");
            rows.iter().map(move |r| Some(r.estimates[at].n_items))
        };
        t.count(
            "n_needs_common",
            "needs behind need_retention_common",
            items("need_retention_common"),
        );
        t.count(
            "n_needs_exposed",
            "needs behind need_retention_exposed",
            items("need_retention_exposed"),
        );
        t.fraction(
            "kept_share",
            "kept tokens / removable tokens over all events",
            rows.iter().map(|r| r.events.kept_share),
        );
        for (i, metric) in METRICS.iter().enumerate() {
            estimate_columns(&mut t, metric, rows.iter().map(|r| &r.estimates[i]));
        }
        t.text(
            "efficiency_rows",
            "stratum behind efficiency",
            rows.iter().map(|r| Some(r.efficiency_rows.to_owned())),
        );
        t.amount(
            "break_even_median",
            "decisions until a compression has paid for the prompt cache it broke: Kaplan-Meier median over events; null where half are never seen to",
            rows.iter().map(|r| r.events.break_even_median.map(f64::from)),
        );
        t.fraction(
            "break_even_censored_share",
            "share of the events that had not paid off when the log ended",
            rows.iter().map(|r| r.events.break_even_censored_share),
        );
        t.count(
            "n_violations",
            "invariants violated",
            rows.iter().map(|r| Some(r.n_violations)),
        );
        t.count(
            "n_fallbacks",
            "events at which a fallback strategy stood in",
            rows.iter().map(|r| Some(r.events.n_fallbacks as u64)),
        );
        t.text(
            "nulls",
            "why values or intervals are null",
            rows.iter().map(nulls),
        );
        t
    }

    /// Every retention score by stratum, one row each.
    pub(super) fn strata(&self) -> Table {
        let rows: Vec<(&VariantSummary, &StratumRow)> = self
            .rows
            .iter()
            .flat_map(|r| r.strata.iter().map(move |s| (r, s)))
            .collect();
        let mut t = Table::new("strata");
        t.text(
            "variant",
            "id of the variant",
            rows.iter().map(|(r, _)| Some(r.variant.clone())),
        );
        t.text(
            "label",
            "its short name",
            rows.iter().map(|(r, _)| Some(r.label.clone())),
        );
        t.text(
            "metric",
            "need_retention (bound) or surface_retention",
            rows.iter().map(|(_, s)| Some(s.metric.clone())),
        );
        t.text(
            "stratum",
            "the stratum in full",
            rows.iter().map(|(_, s)| Some(s.stratum.to_string())),
        );
        for key in STRATUM_KEYS {
            let doc = match key {
                "set" => {
                    "common: the same needs for every variant; exposed: those that the trigger put at risk"
                }
                "tail" => "reference tail in turns: needs last mentioned longer ago",
                "class" => {
                    "source of the need: observed, user, authored; null is observed and user"
                }
                "kind" => "kind of the atom; null is all",
                "horizon" => "turns after the compression; null is all",
                "point" => "number of the compression, from 1; null is all",
                "body" => "1: needs inside the body of an edit, which the headline leaves out",
                "shadow" => {
                    "local: shadows start from the variant's own state before each event; null is chain"
                }
                _ => "largest weight of one trajectory in needs; null is no cap",
            };
            t.text(
                key,
                doc,
                rows.iter()
                    .map(|(_, s)| s.stratum.get(key).map(str::to_owned)),
            );
        }
        t.count(
            "n_trajectories",
            "trajectories behind the value",
            rows.iter()
                .map(|(_, s)| Some(s.value.n_trajectories as u64)),
        );
        t.count(
            "n_clusters",
            "clusters behind the value",
            rows.iter().map(|(_, s)| Some(s.value.n_clusters as u64)),
        );
        t.count(
            "n_needs",
            "needs behind the value",
            rows.iter().map(|(_, s)| Some(s.value.n_items)),
        );
        t.fraction(
            "value",
            "pooled retention",
            rows.iter().map(|(_, s)| s.value.value),
        );
        t.fraction(
            "lo",
            "lower end of its 95 % interval",
            rows.iter().map(|(_, s)| s.value.lo()),
        );
        t.fraction(
            "hi",
            "upper end of its 95 % interval",
            rows.iter().map(|(_, s)| s.value.hi()),
        );
        t.fraction(
            "random",
            "the same for the matched random shadow: the floor",
            rows.iter().map(|(_, s)| s.floor),
        );
        t.fraction(
            "oracle",
            "the same for the matched oracle shadow: the ceiling",
            rows.iter().map(|(_, s)| s.ceiling),
        );
        t.fraction(
            "atom_bag",
            "the same for the matched list of atoms",
            rows.iter().map(|(_, s)| s.atom_bag),
        );
        t.fraction(
            "chance",
            "the same in the contexts of other trajectories",
            rows.iter().map(|(_, s)| s.chance),
        );
        t.fraction(
            "efficiency",
            "sum w (x - random) / sum w (oracle - random)",
            rows.iter().map(|(_, s)| s.efficiency.value),
        );
        t.fraction(
            "efficiency_lo",
            "lower end of its 95 % interval",
            rows.iter().map(|(_, s)| s.efficiency.lo()),
        );
        t.fraction(
            "efficiency_hi",
            "upper end of its 95 % interval",
            rows.iter().map(|(_, s)| s.efficiency.hi()),
        );
        t.text(
            "nulls",
            "why values or intervals are null",
            rows.iter().map(|(_, s)| {
                joined([("value", &s.value), ("efficiency", &s.efficiency)].into_iter())
            }),
        );
        t
    }

    /// The headline by format of log.
    pub(super) fn by_format(&self) -> Table {
        let rows = &self.formats;
        let mut t = Table::new("by_format");
        let variant = |r: &FormatRow| &self.rows[r.variant];
        t.text(
            "format",
            "format of the logs",
            rows.iter().map(|r| Some(r.format.clone())),
        );
        t.text(
            "variant",
            "id of the variant",
            rows.iter().map(|r| Some(variant(r).variant.clone())),
        );
        t.text(
            "label",
            "its short name",
            rows.iter().map(|r| Some(variant(r).label.clone())),
        );
        t.count(
            "n_trajectories",
            "trajectories behind token_savings",
            rows.iter().map(|r| Some(r.n_trajectories as u64)),
        );
        let metrics: Vec<&Metric> = METRICS.iter().filter(|m| m.by_format).collect();
        let at = |name: &str| {
            metrics
                .iter()
                .position(|m| m.name == name)
                .expect("a metric of the list")
        };
        let clusters = at("token_savings");
        t.count(
            "n_clusters",
            "clusters behind token_savings",
            rows.iter()
                .map(|r| Some(r.estimates[clusters].n_clusters as u64)),
        );
        for (name, metric) in [
            ("n_needs_common", "need_retention_common"),
            ("n_needs_exposed", "need_retention_exposed"),
        ] {
            let at = at(metric);
            t.count(
                name,
                &format!("needs behind {metric}"),
                rows.iter().map(|r| Some(r.estimates[at].n_items)),
            );
        }
        for (i, metric) in metrics.iter().enumerate() {
            estimate_columns(&mut t, metric, rows.iter().map(|r| &r.estimates[i]));
        }
        t.text(
            "nulls",
            "why values or intervals are null",
            rows.iter()
                .map(|r| joined(metrics.iter().map(|m| m.name).zip(&r.estimates))),
        );
        t
    }

    /// The points of the headline figure.
    pub(super) fn points(&self) -> Vec<Point> {
        let at = |name: &str| {
            METRICS
                .iter()
                .position(|m| m.name == name)
                .expect("a metric of the list")
        };
        let (x, y) = (at("token_savings"), at("need_retention_common"));
        let (floor, ceiling) = (at("random_common"), at("oracle_common"));
        self.rows
            .iter()
            .filter_map(|r| {
                Some(Point {
                    label: r.label.clone(),
                    family: r.strategy.clone(),
                    x: r.estimates[x].value?,
                    x_interval: r.estimates[x].interval,
                    y: r.estimates[y].value?,
                    y_interval: r.estimates[y].interval,
                    floor: r.estimates[floor].value,
                    ceiling: r.estimates[ceiling].value,
                })
            })
            .collect()
    }

    fn cluster_name(&self) -> &'static str {
        match self.cluster {
            ClusterKind::Repository => "repository",
            ClusterKind::Task => "task with all its runs",
        }
    }

    /// The tables for a reader who has seen nothing else of the project.
    pub(super) fn markdown(&self, tables: &[Table]) -> String {
        let mut out = String::from("# Summary\n\n");
        writeln!(
            out,
            "{} variants over {} logged trajectories. Each variant says how the agent's context is compressed \
             and when; each trajectory is replayed under it, and the row says what was saved and what was lost. \
             Nobody re-ran an agent: logs are off-policy, so every score looks one step ahead under the policy \
             that was logged, and none of them estimates a solve rate.\n",
            self.rows.len(),
            self.n_trajectories
        )
        .expect("a String takes every write");
        for remark in &self.remarks {
            writeln!(out, "**Note:** {remark}.\n").expect("a String takes every write");
        }
        out += &self.main_table();
        out += "\n";
        writeln!(
            out,
            "- `0.412 [0.38, 0.45]` is a value with its 95 % interval: BCa bootstrap over {} clusters at most \
             (a cluster is a {}), {} resamples, seed {}. `-` is undefined, never 0; the reason stands in \
             `nulls` of summary.csv.\n\
             - *token savings*: 1 - prompt tokens sent / prompt tokens uncompressed; *cost savings*: the same in \
             money with prompt caching. Rows are sorted by token savings.\n\
             - *need retention*: share of what the agent later used from tool output or the user, last mentioned more \
             than 10 turns before, that still stood in its context together with words that say what it is. \
             *common* asks every variant the same questions; *exposed* only those that its trigger put at risk.\n\
             - *floor* and *ceiling*: the same score when the same number of tokens is filled, at the same moments, with \
             random lines, and with what a reference that knows the future picks (greedy: a reference, not a limit).\n\
             - *efficiency*: where the variant stands between them on the exposed needs: 0 is random, 1 the ceiling{}.\n\
             - *discard lift*: 0 when what was removed was needed as often as what was in scope, 1 when none of it was.\n\
             - *break-even*: median decisions until a compression has paid for the prompt cache it broke, and the \
             share that had not when the log ended.\n\
             - *n*: trajectories / clusters / common needs / exposed needs.",
            self.rows.iter().map(|r| r.estimates[0].n_clusters).max().unwrap_or(0),
            self.cluster_name(),
            self.resampling.resamples,
            self.resampling.seed,
            if self.rows.iter().any(|r| r.efficiency_rows == EXPOSED_CAPPED) {
                " (each trajectory capped at the weight of 20 needs)"
            } else {
                ""
            },
        )
        .expect("a String takes every write");
        out += &self.excluded();
        for table in tables {
            write!(
                out,
                "\n## Columns of {0}.csv and {0}.parquet\n\n",
                table.name
            )
            .expect("a String takes every write");
            out += "A column `x` with an interval is followed by `x_lo` and `x_hi`. Fractions are 0 to 1.\n\n";
            let columns = table
                .columns
                .iter()
                .filter(|c| !c.name.ends_with("_lo") && !c.name.ends_with("_hi"));
            let shown = Table {
                name: table.name,
                columns: columns.cloned().collect(),
            };
            out += &shown.docs();
        }
        out
    }

    fn main_table(&self) -> String {
        let at = |name: &str| {
            METRICS
                .iter()
                .position(|m| m.name == name)
                .expect("a metric of the list")
        };
        let columns = [
            ("token savings", at("token_savings"), true),
            ("cost savings", at("cost_savings"), true),
            ("need retention, common", at("need_retention_common"), true),
            ("floor", at("random_common"), false),
            ("ceiling", at("oracle_common"), false),
            (
                "need retention, exposed",
                at("need_retention_exposed"),
                true,
            ),
            ("efficiency", at("efficiency"), true),
            ("discard lift", at("discard_lift"), true),
        ];
        let mut header = vec!["variant"];
        header.extend(columns.iter().map(|c| c.0));
        header.extend(["break-even", "n", "errors"]);
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|r| {
                let mut row = vec![r.label.clone()];
                row.extend(
                    columns
                        .iter()
                        .map(|&(_, at, interval)| shown(&r.estimates[at], interval)),
                );
                row.push(
                    match (
                        r.events.break_even_median,
                        r.events.break_even_censored_share,
                    ) {
                        (_, None) => "-".to_owned(),
                        (median, Some(share)) => {
                            let median = median.map_or_else(|| "-".to_owned(), |m| m.to_string());
                            format!("{median} ({} censored)", fixed(share, 2))
                        }
                    },
                );
                row.push(format!(
                    "{}/{}/{}/{}",
                    r.n_ok,
                    r.estimates[0].n_clusters,
                    r.estimates[at("need_retention_common")].n_items,
                    r.estimates[at("need_retention_exposed")].n_items,
                ));
                row.push(r.errors.len().to_string());
                row
            })
            .collect();
        markdown(&header, &rows)
    }

    /// Which cells failed, and the first error text of each variant.
    fn excluded(&self) -> String {
        const SHOWN: usize = 20;
        let failed: Vec<&VariantSummary> =
            self.rows.iter().filter(|r| !r.errors.is_empty()).collect();
        let mut out = String::from("\n## Excluded cells\n\n");
        if failed.is_empty() {
            out += "None: every variant was scored on every trajectory that it was given.\n";
            return out;
        }
        let rows: Vec<Vec<String>> = failed
            .iter()
            .take(SHOWN)
            .map(|r| {
                let (trajectory, error) = &r.errors[0];
                let error: String = error.chars().take(100).collect();
                vec![
                    r.label.clone(),
                    r.errors.len().to_string(),
                    format!("{trajectory}: {error}"),
                ]
            })
            .collect();
        out += &markdown(&["variant", "cells", "first error"], &rows);
        if failed.len() > SHOWN {
            writeln!(
                out,
                "\nand {} more variants: see cells.parquet.",
                failed.len() - SHOWN
            )
            .expect("a String takes every write");
        }
        out
    }
}

/// Value, lower and upper end as three columns.
fn estimate_columns<'a>(
    t: &mut Table,
    metric: &Metric,
    cells: impl Iterator<Item = &'a Estimate> + Clone,
) {
    let mut push = |suffix: &str, doc: &str, cells: &mut dyn Iterator<Item = Option<f64>>| {
        let name = format!("{}{suffix}", metric.name);
        if metric.amount {
            t.amount(&name, doc, cells)
        } else {
            t.fraction(&name, doc, cells)
        }
    };
    push("", metric.doc, &mut cells.clone().map(|e| e.value));
    push(
        "_lo",
        &format!("lower end of the 95 % interval of {}", metric.name),
        &mut cells.clone().map(Estimate::lo),
    );
    push(
        "_hi",
        &format!("upper end of the 95 % interval of {}", metric.name),
        &mut cells.map(Estimate::hi),
    );
}

fn nulls(row: &VariantSummary) -> Option<String> {
    joined(METRICS.iter().map(|m| m.name).zip(&row.estimates))
}

/// `a, b: reason; c: other reason`, or null where nothing is null.
fn joined<'a>(estimates: impl Iterator<Item = (&'a str, &'a Estimate)>) -> Option<String> {
    let mut by_reason: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, estimate) in estimates {
        let Some(reason) = &estimate.reason else {
            continue;
        };
        match by_reason.iter_mut().find(|(r, _)| r == reason) {
            Some((_, names)) => names.push(name),
            None => by_reason.push((reason.clone(), vec![name])),
        }
    }
    let parts: Vec<String> = by_reason
        .iter()
        .map(|(reason, names)| format!("{}: {reason}", names.join(", ")))
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// `0.412 [0.38, 0.45]`.
fn shown(estimate: &Estimate, interval: bool) -> String {
    match (estimate.value, estimate.interval) {
        (None, _) => "-".to_owned(),
        (Some(value), Some((lo, hi))) if interval => {
            format!("{} [{}, {}]", fixed(value, 3), fixed(lo, 2), fixed(hi, 2))
        }
        (Some(value), _) => fixed(value, 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESAMPLING: Resampling = Resampling {
        seed: 1,
        resamples: 400,
    };

    fn score(trajectory: u32, value: f64, floor: f64, ceiling: f64, weight: f64) -> Score {
        Score {
            trajectory,
            value: Some(value),
            floor: Some(floor),
            ceiling: Some(ceiling),
            atom_bag: None,
            chance: Some(0.2),
            weight,
            n: weight as u64,
        }
    }

    fn with<T>(rows: Vec<(&str, &str, Vec<Score>)>, read: impl FnOnce(&Scores) -> T) -> T {
        let rows: VariantScores = rows
            .into_iter()
            .map(|(metric, stratum, rows)| ((metric.to_owned(), stratum.to_owned()), rows))
            .collect();
        let clusters: Vec<u32> = (0..40).collect();
        read(&Scores {
            rows: &rows,
            clusters: &clusters,
            only: None,
            resampling: RESAMPLING,
        })
    }

    fn close(value: Option<f64>, expected: f64) {
        let value = value.expect("a value");
        assert!(
            (value - expected).abs() < 1e-12,
            "{value} is not {expected}"
        );
    }

    #[test]
    fn pooling_is_weighted_and_skips_what_is_undefined() {
        let undefined = Score {
            value: None,
            ..score(2, 0.0, 0.0, 0.0, 9.0)
        };
        let weightless = score(3, 0.9, 0.0, 0.0, 0.0);
        let rows = vec![
            score(0, 0.5, 0.1, 0.9, 1.0),
            score(1, 0.9, 0.1, 0.9, 3.0),
            undefined,
            weightless,
        ];
        with(vec![(NEED, COMMON, rows)], |s| {
            let e = s.pooled(NEED, COMMON, |r| r.value);
            // (0.5 * 1 + 0.9 * 3) / 4
            close(e.value, 0.8);
            assert_eq!((e.n_trajectories, e.n_clusters, e.n_items), (2, 2, 4));
            // (0.8 - 0.2) / (1 - 0.2)
            close(s.corrected(NEED, COMMON).value, 0.75);
            assert_eq!(
                s.pooled(NEED, EXPOSED, |r| r.value).reason.as_deref(),
                Some("no rows")
            );
            assert_eq!(
                s.pooled(NEED, COMMON, |r| r.atom_bag).reason.as_deref(),
                Some("no data")
            );
        });
    }

    #[test]
    fn a_part_of_the_trajectories_can_be_pooled_alone() {
        with(
            vec![(
                NEED,
                COMMON,
                vec![score(0, 0.5, 0.0, 1.0, 1.0), score(1, 0.9, 0.0, 1.0, 3.0)],
            )],
            |s| {
                let mut only = vec![false; 40];
                only[1] = true;
                let part = Scores {
                    only: Some(&only),
                    ..*s
                };
                let e = part.pooled(NEED, COMMON, |r| r.value);
                close(e.value, 0.9);
                assert_eq!(
                    (e.n_trajectories, e.reason.as_deref()),
                    (1, Some("1 cluster"))
                );
            },
        );
    }

    #[test]
    fn efficiency_is_a_ratio_of_sums_and_is_not_clipped() {
        // Needs 3 each; half the trajectories at floor .2, x .5, ceiling .8, half at .4, 1.0, .8.
        let rows = |n: u32| -> Vec<Score> {
            let odd = |t: u32| {
                if t.is_multiple_of(2) {
                    (0.5, 0.2, 0.8)
                } else {
                    (1.0, 0.4, 0.8)
                }
            };
            (0..n)
                .map(|t| score(t, odd(t).0, odd(t).1, odd(t).2, 3.0))
                .collect()
        };
        with(vec![(NEED, EXPOSED, rows(12))], |s| {
            // ((.3 + .6) * 3 * 6) / ((.6 + .4) * 3 * 6)
            close(s.efficiency(NEED, EXPOSED).value, 0.9);
            assert_eq!(s.efficiency_stratum(), EXPOSED);
        });
        let beyond: Vec<Score> = (0..12).map(|t| score(t, 1.0, 0.5, 0.75, 3.0)).collect();
        with(vec![(NEED, EXPOSED_CAPPED, beyond)], |s| {
            assert_eq!(s.efficiency_stratum(), EXPOSED_CAPPED);
            close(s.efficiency(NEED, EXPOSED_CAPPED).value, 2.0);
        });
    }

    #[test]
    fn efficiency_is_withheld_where_it_would_mean_nothing() {
        let reason = |rows: Vec<Score>| {
            with(vec![(NEED, EXPOSED, rows)], |s| {
                let e = s.efficiency(NEED, EXPOSED);
                assert_eq!((e.value, e.interval), (None, None));
                e.reason.unwrap()
            })
        };
        let few_needs = (0..12).map(|t| score(t, 0.5, 0.2, 0.8, 2.0)).collect();
        assert_eq!(reason(few_needs), "24 needs, fewer than 30");
        let few_clusters = (0..9).map(|t| score(t, 0.5, 0.2, 0.8, 9.0)).collect();
        assert_eq!(reason(few_clusters), "9 clusters, fewer than 10");
        let no_room = (0..20)
            .map(|t| {
                score(
                    t,
                    0.5,
                    0.5,
                    if t.is_multiple_of(2) { 0.8 } else { 0.2 },
                    3.0,
                )
            })
            .collect();
        assert_eq!(reason(no_room), "the interval of oracle - random holds 0");
        let equal = (0..20).map(|t| score(t, 0.5, 0.5, 0.5, 3.0)).collect();
        assert_eq!(reason(equal), "the interval of oracle - random holds 0");
    }

    #[test]
    fn discard_lift_compares_pooled_shares() {
        let removed = vec![
            score(0, 0.1, 0.0, 0.0, 100.0),
            score(1, 0.0, 0.0, 0.0, 100.0),
        ];
        let scope = vec![
            score(0, 0.2, 0.0, 0.0, 200.0),
            score(1, 0.2, 0.0, 0.0, 200.0),
        ];
        let rows = vec![
            ("needed_removed_share", "", removed),
            ("needed_scope_share", "", scope.clone()),
        ];
        // 1 - (10 / 200) / (80 / 400)
        with(rows, |s| close(s.discard_lift().value, 0.75));
        let nothing = vec![Score {
            value: None,
            ..score(0, 0.0, 0.0, 0.0, 0.0)
        }];
        let rows = vec![
            ("needed_removed_share", "", nothing),
            ("needed_scope_share", "", scope),
        ];
        with(rows, |s| {
            assert_eq!(
                s.discard_lift().reason.as_deref(),
                Some("nothing was removed")
            );
        });
        let one = |value| vec![score(0, value, 0.0, 0.0, 10.0)];
        let rows = vec![
            ("needed_removed_share", "", one(0.0)),
            ("needed_scope_share", "", one(0.0)),
        ];
        with(rows, |s| {
            assert_eq!(
                s.discard_lift().reason.as_deref(),
                Some("nothing in scope was needed")
            );
        });
    }

    #[test]
    fn the_median_of_kaplan_and_meier_counts_the_censored() {
        // At risk 5, 4, 2: survival 4/5, 4/5 * 3/4 = 3/5, 3/5 * 1/2 = 3/10 at time 6.
        let times = vec![(2, true), (3, true), (3, false), (6, true), (9, false)];
        assert_eq!(kaplan_meier_median(times), Some(6));
        // 1 - 1/4, then 2/3 of it: exactly 1/2.
        assert_eq!(
            kaplan_meier_median(vec![(1, true), (2, true), (5, false), (5, false)]),
            Some(2)
        );
        assert_eq!(
            kaplan_meier_median(vec![(1, true), (2, false), (2, false)]),
            None
        );
        assert_eq!(kaplan_meier_median(vec![]), None);
    }

    #[test]
    fn events_add_up() {
        let event = |break_even_turns, kept_tokens| Event {
            break_even_turns,
            decisions_left: 9,
            removable_tokens: 100,
            kept_tokens,
            fallback: false,
        };
        let e = summarise_events(&[event(Some(4), 10), event(None, 30)]);
        assert_eq!(e.kept_share, Some(0.2));
        assert_eq!(
            (e.break_even_median, e.break_even_censored_share),
            (Some(4), Some(0.5))
        );
        assert_eq!(summarise_events(&[]), EventSummary::default());
    }

    #[test]
    fn numbers_in_names_sort_by_value() {
        let mut labels = vec!["mask M=10", "mask M=5", "mask", "full", "mask M=5 b"];
        labels.sort_by(|a, b| natural(a, b));
        assert_eq!(
            labels,
            ["full", "mask", "mask M=5", "mask M=5 b", "mask M=10"]
        );
    }

    #[test]
    fn reasons_are_told_once() {
        let null = Estimate::null("no rows");
        let some = Estimate {
            value: Some(1.0),
            ..Estimate::default()
        };
        let estimates = [("a", &null), ("b", &some), ("c", &null)];
        assert_eq!(
            joined(estimates.into_iter()).as_deref(),
            Some("a, c: no rows")
        );
        assert_eq!(joined([("b", &some)].into_iter()), None);
    }
}
