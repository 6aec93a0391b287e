//! One row a variant: what it saved and what it lost, with intervals, and the same by stratum and
//! by format of log.
//!
//! Pooled value of a score = sum(value * weight) / sum(weight) over the trajectories where it is
//! defined. All statistics are functions of such sums, see [`crate::report::statistics::inference`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use rayon::prelude::*;

use crate::progress;
use crate::report::figures::{FULL, Point, Style, Styles, Undrawn, look, styles};
use crate::report::load::{Corpus, Population, Prices, Run, VariantScores};
use crate::report::statistics::bootstrap::Resampling;
use crate::report::statistics::estimate::{Counted, Estimate, ratio};
use crate::report::statistics::pooled::{Memo, Scores, Sets};
use crate::report::tables::Table;
use crate::scores;
use crate::scores::money::TOKEN_SAVINGS;
use crate::scores::registry::{Column, Entry, Unit};
use crate::scores::retention::{RANDOM_WON_SHARE, UNSUPPORTED_SHARE};

mod columns;
mod parts;
mod remarks;
mod variant;

pub(crate) use parts::Part;
pub(crate) use variant::{StratumRow, VariantSummary};

use remarks::{joined, remarks};
use variant::{by_format, by_part, summarise_variant};

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
    METRICS.iter().position(|m| m.name() == name).expect("a metric of the list")
}

/// All that the tables and figures of a report need.
pub(crate) struct Summary {
    /// In order of token savings.
    pub(crate) rows: Vec<VariantSummary>,
    /// Whether the share of needs kept is told of any.
    tells_needs: bool,
    pub(crate) formats: Vec<FormatRow>,
    /// Sessions of a length, or of an agent.
    pub(crate) parts: Vec<Part>,
    pub(crate) population: Population,
    /// What the sessions were drawn from, where they were.
    pub(crate) corpus: Option<Corpus>,
    pub(crate) n_trajectories: usize,
    n_without_repository: usize,
    pub(crate) n_ok_everywhere: usize,
    pub(crate) remarks: Vec<String>,
    /// None where the run does not say.
    pub(crate) prices: Option<Prices>,
    /// Logs whose prompts were cached for an hour, as they say.
    pub(crate) n_cached_an_hour: usize,
}

pub(crate) struct FormatRow {
    format: String,
    variant: usize,
    n_trajectories: usize,
    /// Beside the metrics that are given by format.
    estimates: Vec<Estimate>,
}

/// A summary in the making: scores come a few variants at a time.
pub(crate) struct Summing<'a> {
    run: &'a Run,
    resampling: Resampling,
    clusters: Vec<u32>,
    weights: Vec<f64>,
    formats: BTreeMap<String, Vec<bool>>,
    parts: Vec<Part>,
    rows: Vec<(VariantSummary, Vec<FormatRow>)>,
}

impl<'a> Summing<'a> {
    pub(crate) fn of(run: &'a Run, resampling: Resampling) -> Self {
        Summing {
            run,
            resampling,
            clusters: run.trajectories.iter().map(|t| t.cluster).collect(),
            weights: run.trajectories.iter().map(|t| t.weight).collect(),
            formats: formats(run),
            parts: parts::of(&run.trajectories),
            rows: Vec::new(),
        }
    }

    /// `told` hears of each variant.
    pub(crate) fn add(&mut self, batch: &[(usize, VariantScores)], told: impl Fn() + Sync) {
        let row = |(i, scores): &(usize, VariantScores)| {
            told();
            let scores = Scores {
                sets: &Sets::of(scores),
                rows: scores,
                clusters: &self.clusters,
                drawn: &self.run.drawn,
                weights: &self.weights,
                only: None,
                resampling: self.resampling,
                memo: &Memo::default(),
            };
            let by_format = by_format(&scores, &self.formats);
            let parts = by_part(&scores, &self.parts);
            (VariantSummary { parts, ..summarise_variant(self.run, *i, &scores) }, by_format)
        };
        let rows: Vec<_> = batch.par_iter().map(row).collect();
        self.rows.extend(rows);
    }

    /// Whether of any variant so far that somebody would run the share of needs kept is told.
    pub(crate) fn tells_needs(&self) -> bool {
        let mut rows = self.rows.iter().map(|(row, _)| row);
        rows.any(|row| !row.is_bridge() && !row.control && tells_needs(row))
    }

    pub(crate) fn finish(self) -> Summary {
        let tells_needs = self.rows.iter().any(|(row, _)| !row.is_bridge() && tells_needs(row));
        let Summing { run, mut rows, parts, .. } = self;
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
            tells_needs,
            formats: format_rows,
            parts,
            population: run.population,
            corpus: run.corpus,
            n_trajectories: run.trajectories.len(),
            n_without_repository: run.n_without_repository,
            n_ok_everywhere: run.n_ok_everywhere,
            remarks: Vec::new(),
            prices: run.prices.clone(),
            n_cached_an_hour: run.trajectories.iter().filter(|t| t.is_cached_an_hour).count(),
        };
        summary.remarks = remarks(&summary);
        summary
    }
}

/// Whether the share of needs kept is told.
fn tells_needs(row: &VariantSummary) -> bool {
    row.estimates[metric("need_retention_common")].value.is_some()
}

/// How far a report is.
pub(crate) fn meter(run: &Run) -> progress::Meter {
    progress::Meter::new("report", progress::Unit::Variants, run.variants.len() as u64, false)
}

/// Which trajectories have each format.
fn formats(run: &Run) -> BTreeMap<String, Vec<bool>> {
    let names: BTreeSet<&str> = run.trajectories.iter().map(|t| t.format.as_str()).collect();
    let members = |name: &str| run.trajectories.iter().map(|t| t.format == name).collect();
    names.into_iter().map(|name| (name.to_owned(), members(name))).collect()
}

/// The strategy of a label, with its parameters.
fn setting(label: &str) -> &str {
    label.split_once(" @ ").map_or(label, |(setting, _)| setting)
}

impl Summary {
    /// What a cluster is, and of what the sessions are a sample.
    pub(crate) fn cluster(&self) -> String {
        let sampled = self.sampled().map(|told| format!(" (the run is {told})")).unwrap_or_default();
        self.population.cluster().to_owned() + &sampled
    }

    /// Of what the sessions are a sample, and what is told of all; none where they are no sample.
    pub(crate) fn sampled(&self) -> Option<String> {
        let Corpus { n_sessions, n_strata } = self.corpus?;
        let told = match self.population {
            Population::Corpus => "",
            _ => "; `--population corpus` gives intervals for these alone",
        };
        Some(format!(
            "a sample of {} of {n_sessions} sessions in {n_strata} strata: figures are those of all {n_sessions}, counts of sessions, needs and events those of the sample{told}",
            self.n_trajectories
        ))
    }

    /// What a variant is called in figures: its strategy; a control that is a strategy with another setting has a name of its own.
    pub(crate) fn family(&self, r: &VariantSummary) -> String {
        let is_setting = r.control && self.rows.iter().any(|o| !o.control && o.strategy == r.strategy);
        let name = setting(&r.label);
        // That truth was given is said, also where the strategy stands there in no other form.
        if is_setting || name.contains("=given") { name.to_owned() } else { r.strategy.clone() }
    }

    /// Colour and shape of each family, in every figure.
    pub(crate) fn styles(&self) -> Styles {
        let families: Vec<(String, &VariantSummary)> =
            self.rows.iter().map(|row| (self.family(row), row)).collect();
        styles(families.iter().map(|(family, row)| (family.as_str(), setting(&row.label), row.control)))
    }

    /// Those of a variant.
    pub(crate) fn look(&self, styles: &Styles, row: &VariantSummary) -> Style {
        look(styles, &self.family(row), setting(&row.label))
    }

    /// The points of the headline figure.
    pub(crate) fn points(&self) -> Vec<Point> {
        let (x, y) = (metric(TOKEN_SAVINGS.name), metric("need_retention_common"));
        let (floor, ceiling) = (metric("random_common"), metric("oracle_common"));
        self.main_rows()
            .filter_map(|r| {
                Some(Point {
                    label: r.label.clone(),
                    family: self.family(r),
                    setting: setting(&r.label).to_owned(),
                    control: r.control,
                    costs_more: r.costs_more(),
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

    /// By format of log: its runs, and what a variant saved there and kept of the needs that all are asked about.
    pub(crate) fn by_source<'a>(
        &'a self,
        variant: &'a str,
    ) -> impl Iterator<Item = (&'a str, usize, [&'a Estimate; 2])> {
        let given = || METRICS.iter().filter(|m| m.column.by_format);
        let at = |name| given().position(|m| m.name() == name).expect("a metric by format");
        let places = [TOKEN_SAVINGS.name, "need_retention_common"].map(at);
        let of = self.formats.iter().filter(move |row| self.rows[row.variant].variant == variant);
        of.map(move |row| (row.format.as_str(), row.n_trajectories, places.map(|at| &row.estimates[at])))
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

    /// The share of needs that is kept; where no variant has enough of them for a share, that of the counted ones: all were asked
    /// for the same.
    pub(crate) fn kept_share(&self, row: &VariantSummary) -> Option<f64> {
        let of = &row.estimates[metric("need_retention_common")];
        let counted = || of.kept().map(|kept| kept / of.n_items as f64);
        if self.tells_needs { of.value } else { counted() }
    }

    /// Whether another variant saves and keeps at least as much, and more of one. Nobody would run a control instead, nor what costs
    /// more money than nothing compressed, which is beaten by that.
    pub(crate) fn is_beaten(&self, row: &VariantSummary) -> bool {
        let both = |row: &VariantSummary| {
            Some([row.estimates[metric(TOKEN_SAVINGS.name)].value?, self.kept_share(row)?])
        };
        let Some(own) = both(row).filter(|_| !row.control) else { return false };
        let choices = self.main_rows().filter(|other| !other.control && !other.costs_more());
        row.costs_more()
            || choices.filter_map(both).any(|other| other[0] >= own[0] && other[1] >= own[1] && other != own)
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
    let doc = "of the needs behind it those lost, each counted once; null in rows of versions that did not count them";
    let lost = all.iter().map(Estimate::n_lost);
    t.count(&format!("n_lost{of}"), doc, lost);
    let end = |which| {
        format!(
            "{which} end of Wilson's 95 % interval of the share of needs kept, taken as independent; only below the minimum (30 needs, n_eff 4), where there is no share"
        )
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

#[cfg(test)]
mod tests;
