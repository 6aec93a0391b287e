//! One row a variant: what it saved and what it lost, with intervals, and the same by stratum and
//! by format of log.
//!
//! Pooled value of a score = sum(value * weight) / sum(weight) over the trajectories where it is
//! defined. All statistics are functions of such sums, see [`crate::report::statistics::inference`].

mod columns;

use crate::text::natural::natural;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use rayon::prelude::*;

use crate::report::figures::{FULL, Point, Undrawn};
use crate::report::lines::Gathered;
use crate::report::load::{Event, Population, Prices, Run, STRATUM_KEYS, Stratum};
use crate::report::statistics::bootstrap::Resampling;
use crate::report::statistics::estimate::{Counted, Estimate, ratio};
use crate::report::statistics::inference::FEW;
use crate::report::statistics::pooled::{Scores, Sets};
use crate::report::tables::Table;
use crate::scores;
use crate::scores::money::{COST_SAVINGS, TOKEN_SAVINGS, TOKEN_SAVINGS_BILLED};
use crate::scores::registry::{Column, Entry, Field, Unit};
use crate::scores::retention::{NEED_RETENTION, RANDOM_WON_SHARE, UNSUPPORTED_SHARE};

/// An estimate of the summary: from these come rows, columns and their docs.
pub(crate) struct Metric {
    score: &'static Entry,
    column: &'static Column,
}

impl Metric {
    fn name(&self) -> &'static str {
        if self.column.name.is_empty() { self.score.name } else { self.column.name }
    }
}

/// What scores say of their columns here, in order.
static METRICS: LazyLock<Vec<Metric>> = LazyLock::new(|| {
    let columns = |score: &'static Entry| score.columns.iter().map(move |column| Metric { score, column });
    let mut all: Vec<Metric> = scores::all().flat_map(columns).collect();
    all.sort_by_key(|metric| metric.column.place);
    all
});

/// Place of a metric in [`METRICS`].
pub(crate) fn metric(name: &str) -> usize {
    known_metric(name).expect("a metric of the list")
}

/// The same for one that need not be there.
pub(crate) fn known_metric(name: &str) -> Option<usize> {
    METRICS.iter().position(|m| m.name() == name)
}

/// All that the tables and figures of a report need.
pub(crate) struct Summary {
    /// In order of token savings.
    pub(crate) rows: Vec<VariantSummary>,
    pub(crate) formats: Vec<FormatRow>,
    pub(crate) population: Population,
    pub(crate) n_trajectories: usize,
    n_without_repository: usize,
    pub(crate) n_ok_everywhere: usize,
    pub(crate) remarks: Vec<String>,
    /// None where the run does not say.
    pub(crate) prices: Option<Prices>,
    /// Logs whose prompts were cached for an hour, as they say.
    pub(crate) n_cached_an_hour: usize,
}

pub(crate) struct VariantSummary {
    pub(crate) variant: String,
    pub(crate) label: String,
    pub(crate) strategy: String,
    pub(crate) trigger: String,
    pub(crate) model: Option<String>,
    /// There to be compared with: on no frontier.
    pub(crate) control: bool,
    pub(crate) n_ok: usize,
    pub(crate) errors: Vec<(String, String)>,
    pub(crate) n_violations: u64,
    pub(crate) events: EventSummary,
    pub(crate) efficiency_rows: String,
    /// Reference tail of the headline in turns.
    pub(crate) tail: String,
    /// Beside [`METRICS`].
    pub(crate) estimates: Vec<Estimate>,
    pub(crate) strata: Vec<StratumRow>,
    pub(crate) lost: Lost,
}

/// What of the common needs, bound, is lost, and what is paid.
pub(crate) struct Lost {
    /// The mean session.
    pub(crate) session: Estimate,
    /// All sessions together, and of how much.
    pub(crate) total: (f64, f64),
    /// Tokens sent, of how many; likewise as billed, and what they cost.
    pub(crate) tokens: (f64, f64),
    pub(crate) billed: (f64, f64),
    pub(crate) cost: (f64, f64),
    /// The session that lost most, and how much.
    pub(crate) worst: Option<(u32, f64)>,
    /// Sessions in which something was compressed.
    pub(crate) affected: usize,
    /// Compressions in all sessions.
    pub(crate) n_events: usize,
}

impl VariantSummary {
    /// Whether a summary that stands in the log decided what goes, and not the variant's strategy alone:
    /// such a variant keeps other company than those that choose on the original prompts.
    pub(crate) fn is_bridge(&self) -> bool {
        self.trigger == "logged"
    }
}

/// What the events of a variant add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EventSummary {
    pub(crate) n: usize,
    pub(crate) n_fallbacks: usize,
    pub(crate) n_warnings: usize,
    pub(crate) kept_share: Option<f64>,
    pub(crate) break_even_median: Option<u32>,
    pub(crate) break_even_censored_share: Option<f64>,
}

pub(crate) struct StratumRow {
    metric: String,
    stratum: Stratum,
    value: Estimate,
    floor: Option<f64>,
    ceiling: Option<f64>,
    atom_bag: Option<f64>,
    chance: Option<f64>,
    efficiency: Estimate,
}

pub(crate) struct FormatRow {
    format: String,
    variant: usize,
    n_trajectories: usize,
    /// Beside the metrics that are given by format.
    estimates: Vec<Estimate>,
}

/// Reads the scores once: for the summary, and into `gathered` what the comparing tables need of them.
pub(crate) fn summarise(
    run: &Run,
    resampling: Resampling,
    gathered: &mut Gathered,
) -> anyhow::Result<Summary> {
    let clusters: Vec<u32> = run.trajectories.iter().map(|t| t.cluster).collect();
    let formats = formats(run);
    let mut rows = Vec::new();
    run.scores(|batch| {
        gathered.take(run, &batch);
        rows.par_extend(batch.par_iter().map(|(i, scores)| {
            let sets = Sets::of(scores);
            let scores = Scores {
                sets: &sets,
                rows: scores,
                clusters: &clusters,
                strata: &run.strata,
                only: None,
                resampling,
            };
            let by_format = by_format(&scores, &formats);
            (summarise_variant(run, *i, &scores), by_format)
        }));
        Ok(())
    })?;
    let savings = metric(TOKEN_SAVINGS.name);
    let savings = |row: &VariantSummary| row.estimates[savings].value.unwrap_or(f64::INFINITY);
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
        .flat_map(|(variant, rows)| rows.into_iter().map(move |row| FormatRow { variant, ..row }))
        .collect();
    format_rows.sort_by(|a, b| (&a.format, a.variant).cmp(&(&b.format, b.variant)));
    let mut summary = Summary {
        rows,
        formats: format_rows,
        population: run.population,
        n_trajectories: run.trajectories.len(),
        n_without_repository: run.n_without_repository,
        n_ok_everywhere: run.n_ok_everywhere,
        remarks: Vec::new(),
        prices: run.prices.clone(),
        n_cached_an_hour: run.trajectories.iter().filter(|t| t.is_cached_an_hour).count(),
    };
    summary.remarks = remarks(&summary);
    Ok(summary)
}

/// Which trajectories have each format.
fn formats(run: &Run) -> BTreeMap<String, Vec<bool>> {
    let names: BTreeSet<&str> = run.trajectories.iter().map(|t| t.format.as_str()).collect();
    let members = |name: &str| run.trajectories.iter().map(|t| t.format == name).collect();
    names.into_iter().map(|name| (name.to_owned(), members(name))).collect()
}

fn summarise_variant(run: &Run, i: usize, of: &Scores) -> VariantSummary {
    let (variant, cells) = (&run.variants[i], &run.cells[i]);
    let affected: BTreeSet<u32> = run.events[i].iter().map(|event| event.trajectory).collect();
    // A session that failed lost nothing that anybody knows of.
    let failed: BTreeSet<&str> = cells.errors.iter().map(|(trajectory, _)| trajectory.as_str()).collect();
    let scored: Vec<bool> = run.trajectories.iter().map(|t| !failed.contains(t.id.as_str())).collect();
    let sessions = Scores { only: Some(&scored), ..*of };
    let needs = (NEED_RETENTION.name, of.sets.common.as_str());
    // A mean of sessions says no more than its needs do.
    let is_enough = sessions.pooled(needs.0, needs.1, Field::Value).value.is_some();
    let lost = Lost {
        session: match is_enough {
            true => sessions.lost(needs.0, needs.1),
            false => Estimate::null("too few needs"),
        },
        tokens: sessions.lost_of(TOKEN_SAVINGS.name, ""),
        billed: sessions.lost_of(TOKEN_SAVINGS_BILLED.name, ""),
        cost: sessions.lost_of(COST_SAVINGS.name, ""),
        total: sessions.lost_of(needs.0, needs.1),
        worst: sessions.worst(needs.0, needs.1),
        affected: affected.len(),
        n_events: run.events[i].len(),
    };
    let mut strata: Vec<StratumRow> = of
        .rows
        .keys()
        .filter(|(_, stratum)| !stratum.is_empty())
        .map(|(metric, stratum)| {
            let value = of.pooled(metric, stratum, Field::Value);
            let point = |field| of.value(metric, stratum, field).filter(|_| value.value.is_some());
            StratumRow {
                metric: metric.clone(),
                stratum: Stratum::parse(stratum),
                floor: point(Field::Floor),
                ceiling: point(Field::Ceiling),
                atom_bag: point(Field::AtomBag),
                chance: point(Field::Chance),
                value,
                efficiency: if scores::find(metric).is_some_and(Entry::has_shadows) {
                    of.efficiency(metric, stratum)
                } else {
                    Estimate::default()
                },
            }
        })
        .collect();
    strata.sort_by(|a, b| {
        a.metric.cmp(&b.metric).then_with(|| natural(&a.stratum.to_string(), &b.stratum.to_string()))
    });
    VariantSummary {
        variant: variant.variant.clone(),
        label: variant.label.clone(),
        strategy: variant.strategy.clone(),
        trigger: variant.trigger.clone(),
        model: variant.model.clone(),
        control: variant.control,
        n_ok: cells.n_ok,
        errors: cells.errors.clone(),
        n_violations: cells.n_violations,
        events: summarise_events(&run.events[i]),
        efficiency_rows: of.efficiency_stratum().to_owned(),
        tail: of.sets.tail.clone(),
        estimates: METRICS.iter().map(|m| of.column(m.score, m.column)).collect(),
        strata,
        lost,
    }
}

fn by_format(scores: &Scores, formats: &BTreeMap<String, Vec<bool>>) -> Vec<FormatRow> {
    formats
        .iter()
        .map(|(format, members)| {
            let part = Scores { only: Some(members), ..*scores };
            let metrics = METRICS.iter().filter(|m| m.column.by_format);
            let estimates: Vec<Estimate> = metrics.map(|m| part.column(m.score, m.column)).collect();
            let n_trajectories = estimates.first().map_or(0, |e| e.n_trajectories);
            FormatRow { format: format.clone(), variant: 0, n_trajectories, estimates }
        })
        .collect()
}

fn summarise_events(events: &[Event]) -> EventSummary {
    let removable: u64 = events.iter().map(|e| e.removable_tokens).sum();
    let kept: u64 = events.iter().map(|e| e.kept_tokens).sum();
    let censored = events.iter().filter(|e| e.break_even_turns.is_none()).count();
    let times: Vec<(u32, bool)> = events
        .iter()
        .map(|e| (e.break_even_turns.unwrap_or(e.decisions_left), e.break_even_turns.is_some()))
        .collect();
    EventSummary {
        n: events.len(),
        n_fallbacks: events.iter().filter(|e| e.fallback).count(),
        n_warnings: events.iter().filter(|e| e.warning).count(),
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
        let happened = rest[..same].iter().filter(|(_, happened)| *happened).count();
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

fn remarks(summary: &Summary) -> Vec<String> {
    let mut remarks = Vec::new();
    let n_errors: usize = summary.rows.iter().map(|r| r.errors.len()).sum();
    if n_errors > 0 {
        remarks.push(format!(
            "cells that failed and are left out: {n_errors}; see `Excluded cells` in summary.md"
        ));
    }
    if summary.rows.iter().any(|r| r.n_ok != summary.n_ok_everywhere) {
        remarks.push(format!(
            "variants were scored on different trajectories: only {} of {} are ok under all of them, \
             so compare rows with care",
            summary.n_ok_everywhere, summary.n_trajectories
        ));
    }
    remarks.extend(sample_remarks(summary));
    let n_violations: u64 = summary.rows.iter().map(|r| r.n_violations).sum();
    if n_violations > 0 {
        remarks.push(format!("violated invariants: {n_violations}; see n_violations in summary.csv"));
    }
    for row in summary.rows.iter().filter(|r| 2 * r.events.n_warnings > r.events.n) {
        let (n, of) = (row.events.n_warnings, row.events.n);
        remarks.push(format!(
            "{}: {n} of {of} events flagged as odd; see `warning` in events.parquet",
            row.label
        ));
    }
    remarks
}

/// On how many clusters the figures rest.
fn sample_remarks(summary: &Summary) -> Vec<String> {
    let mut remarks = Vec::new();
    let common = metric("need_retention_common");
    let estimates = || summary.main_rows().map(|r| &r.estimates[common]).filter(|e| e.n_eff.is_some());
    let n_below = estimates().filter(|e| e.value.is_none()).count();
    let least = estimates().filter_map(|e| e.n_eff).reduce(f64::min);
    let population = summary.population.name();
    if n_below > 0 {
        remarks.push(format!(
            "need retention of {n_below} of {} variants is below the minimum for {population} (30 needs, n_eff 4): \
             needs are counted there and no share is given",
            estimates().count()
        ));
    }
    if let Some(least) = least.filter(|n_eff| *n_eff < FEW) {
        remarks.push(format!(
            "few clusters: n_eff of need retention is {least:.1} at the least, so little can be said of {population}"
        ));
    }
    if summary.population == Population::Other && summary.n_without_repository > 0 {
        remarks.push(format!(
            "{} of {} trajectories name no repository and are one cluster; `--population these` takes tasks and sessions",
            summary.n_without_repository, summary.n_trajectories
        ));
    }
    remarks
}

impl Summary {
    /// The points of the headline figure.
    pub(crate) fn points(&self) -> Vec<Point> {
        let (x, y) = (metric(TOKEN_SAVINGS.name), metric("need_retention_common"));
        let (floor, ceiling) = (metric("random_common"), metric("oracle_common"));
        // A control that is a strategy with another setting has a name of its own.
        let family = |r: &VariantSummary| {
            let is_setting = r.control && self.rows.iter().any(|o| !o.control && o.strategy == r.strategy);
            let name = r.label.split_once(" @ ").map_or(r.label.as_str(), |(name, _)| name);
            // That truth was given is said, also where the strategy stands there in no other form.
            if is_setting || name.contains("=given") { name.to_owned() } else { r.strategy.clone() }
        };
        self.main_rows()
            .filter_map(|r| {
                Some(Point {
                    label: r.label.clone(),
                    family: family(r),
                    control: r.control,
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

    /// The variants that the headline figure leaves out; nothing compressed stands there by definition.
    pub(crate) fn undrawn(&self) -> Undrawn {
        let (x, y) = (metric(TOKEN_SAVINGS.name), metric("need_retention_common"));
        let rows = self.main_rows().filter(|r| r.strategy != FULL);
        let is_drawn = |r: &&VariantSummary| r.estimates[x].value.is_some() && r.estimates[y].value.is_some();
        let undrawn: Vec<_> = rows.filter(|r| !is_drawn(r)).collect();
        // Where something was scored a value is missing for the minimum alone.
        let below = undrawn.iter().filter(|r| r.estimates[y].n_eff.is_some()).count();
        Undrawn { below, unscored: undrawn.len() - below }
    }

    /// Reference tail of the headline.
    pub(crate) fn tail(&self) -> &str {
        self.main_rows().chain(&self.rows).next().map_or("10", |r| r.tail.as_str())
    }

    /// Share of the cells in which a random shadow is the ceiling; none where no shadow was cast.
    pub(crate) fn random_won(&self) -> Option<f64> {
        let all: Vec<&Estimate> =
            self.rows.iter().map(|r| &r.estimates[metric(RANDOM_WON_SHARE.name)]).collect();
        let won = all.iter().filter_map(|e| e.kept()).sum();
        ratio(won, all.iter().map(|e| e.n_items as f64).sum())
    }

    /// Of the needs from tool output or the user at risk for the headline's tail: the share that the agent met without having
    /// been sent the atom, and how many there are.
    pub(crate) fn unsupported(&self) -> Option<(f64, u64)> {
        let strata = self.rows.iter().find_map(|r| {
            let of = |s: &&StratumRow| {
                let key = |key: &str| s.stratum.get(key);
                s.metric == UNSUPPORTED_SHARE.name
                    && key("tail") == Some(&r.tail)
                    && matches!(key("class"), Some("observed" | "user"))
            };
            let strata: Vec<&StratumRow> = r.strata.iter().filter(of).collect();
            (!strata.is_empty()).then_some(strata)
        })?;
        let n: u64 = strata.iter().map(|s| s.value.n_items).sum();
        let not_sent = strata.iter().filter_map(|s| s.value.kept()).sum();
        Some((ratio(not_sent, n as f64)?, n))
    }

    /// Rows that can be compared: without those in bridge mode.
    pub(crate) fn main_rows(&self) -> impl Iterator<Item = &VariantSummary> {
        self.rows.iter().filter(|r| !r.is_bridge())
    }

    /// Labels of variants that saved and kept exactly the same with as many events: other names for
    /// the same compressions.
    pub(crate) fn twins(&self) -> Vec<Vec<&str>> {
        let (savings, retention) = (metric(TOKEN_SAVINGS.name), metric("need_retention_common"));
        let same = |a: &VariantSummary, b: &VariantSummary| {
            let equal = |at: usize| {
                let (a, b) = (&a.estimates[at], &b.estimates[at]);
                (a.value, a.interval, a.n_trajectories) == (b.value, b.interval, b.n_trajectories)
            };
            a.estimates[savings].value.is_some()
                && a.events.n == b.events.n
                && equal(savings)
                && equal(retention)
        };
        let mut groups: Vec<Vec<&VariantSummary>> = Vec::new();
        for row in self.main_rows() {
            match groups.iter_mut().find(|g| same(g[0], row)) {
                Some(group) => group.push(row),
                None => groups.push(vec![row]),
            }
        }
        groups.retain(|g| g.len() > 1);
        groups.into_iter().map(|g| g.into_iter().map(|r| r.label.as_str()).collect()).collect()
    }
}

/// Clusters behind a share, and what is counted of it below the minimum.
fn sample_columns(t: &mut Table, of: &str, estimates: impl Iterator<Item = Estimate>) {
    let all: Vec<Estimate> = estimates.collect();
    let counted = |of: fn(&Counted) -> f64| all.iter().map(move |e| e.counted.as_ref().map(of));
    if !of.is_empty() {
        let doc = "clusters behind it";
        t.count(&format!("n_clusters{of}"), doc, all.iter().map(|e| Some(e.n_clusters as u64)));
    }
    let doc = "as many clusters of equal size would say as much: (sum w)^2 / sum w^2, w the cluster's weight in needs";
    t.fraction(&format!("n_eff{of}"), doc, all.iter().map(|e| e.n_eff));
    let doc = "needs lost, to the nearest whole; only below the minimum (30 needs, n_eff 4), where there is no share";
    let lost = all.iter().map(|e| e.counted.as_ref().map(|c| c.n - c.kept));
    t.count(&format!("n_lost{of}"), doc, lost);
    let end = |which| {
        format!("{which} end of Wilson's 95 % interval of the kept share there, needs taken as independent")
    };
    t.fraction(&format!("independent{of}_lo"), &end("lower"), counted(|c| c.interval.0));
    t.fraction(&format!("independent{of}_hi"), &end("upper"), counted(|c| c.interval.1));
}

/// Value, lower and upper end as three columns.
fn estimate_columns<'a>(t: &mut Table, metric: &Metric, cells: impl Iterator<Item = &'a Estimate> + Clone) {
    let mut push = |suffix: &str, doc: &str, cells: &mut dyn Iterator<Item = Option<f64>>| {
        let name = format!("{}{suffix}", metric.name());
        if metric.score.unit == Unit::Tokens {
            t.amount(&name, doc, cells)
        } else {
            t.fraction(&name, doc, cells)
        }
    };
    push("", metric.column.doc, &mut cells.clone().map(|e| e.value));
    push(
        "_lo",
        &format!("lower end of the 95 % interval of {}", metric.name()),
        &mut cells.clone().map(Estimate::lo),
    );
    push(
        "_hi",
        &format!("upper end of the 95 % interval of {}", metric.name()),
        &mut cells.map(Estimate::hi),
    );
}

fn nulls(row: &VariantSummary) -> Option<String> {
    joined(METRICS.iter().map(|m| m.name()).zip(&row.estimates))
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
    let parts: Vec<String> =
        by_reason.iter().map(|(reason, names)| format!("{}: {reason}", names.join(", "))).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_kaplan_and_meier_counts_the_censored() {
        // At risk 5, 4, 2: survival 4/5, 4/5 * 3/4 = 3/5, 3/5 * 1/2 = 3/10 at time 6.
        let times = vec![(2, true), (3, true), (3, false), (6, true), (9, false)];
        assert_eq!(kaplan_meier_median(times), Some(6));
        // 1 - 1/4, then 2/3 of it: exactly 1/2.
        assert_eq!(kaplan_meier_median(vec![(1, true), (2, true), (5, false), (5, false)]), Some(2));
        assert_eq!(kaplan_meier_median(vec![(1, true), (2, false), (2, false)]), None);
        assert_eq!(kaplan_meier_median(vec![]), None);
    }

    #[test]
    fn events_add_up() {
        let event = |break_even_turns, kept_tokens| Event {
            trajectory: 0,
            tokens_before: 0,
            break_even_turns,
            decisions_left: 9,
            removable_tokens: 100,
            kept_tokens,
            fallback: false,
            warning: false,
        };
        let e = summarise_events(&[event(Some(4), 10), event(None, 30)]);
        assert_eq!(e.kept_share, Some(0.2));
        assert_eq!((e.break_even_median, e.break_even_censored_share), (Some(4), Some(0.5)));
        assert_eq!(summarise_events(&[]), EventSummary::default());
    }

    #[test]
    fn numbers_in_names_sort_by_value() {
        let mut labels = vec!["mask M=10", "mask M=5", "mask", "full", "mask M=5 b", "r 0.1", "r 0.02"];
        labels.sort_by(|a, b| natural(a, b));
        assert_eq!(labels, ["full", "mask", "mask M=5", "mask M=5 b", "mask M=10", "r 0.02", "r 0.1"]);
    }

    #[test]
    fn reasons_are_told_once() {
        let null = Estimate::null("no rows");
        let some = Estimate { value: Some(1.0), ..Estimate::default() };
        let estimates = [("a", &null), ("b", &some), ("c", &null)];
        assert_eq!(joined(estimates.into_iter()).as_deref(), Some("a, c: no rows"));
        assert_eq!(joined([("b", &some)].into_iter()), None);
    }
}
