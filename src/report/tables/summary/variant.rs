//! One variant in the summary: its scores, pooled, and what its events cost.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::load::{Event, Run, Stratum};
use crate::report::statistics::bootstrap::Resampling;
use crate::report::statistics::estimate::{Estimate, ratio};
use crate::report::statistics::pooled::{Memo, Scores, Worst};
use crate::scores;
use crate::scores::money::{COST_SAVINGS, TOKEN_SAVINGS, TOKEN_SAVINGS_BILLED};
use crate::scores::registry::{Entry, Field};
use crate::scores::retention::NEED_RETENTION;
use crate::text::natural::natural;

use super::parts::{PART_METRICS, Part};
use super::{FormatRow, METRICS, metric};

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
    /// Beside the parts of the summary, and of each beside [`PART_METRICS`].
    pub(crate) parts: Vec<Vec<Estimate>>,
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
    pub(crate) worst: Option<Worst>,
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

    /// Whether it costs more money than nothing compressed.
    pub(crate) fn costs_more(&self) -> bool {
        self.estimates[metric(COST_SAVINGS.name)].value.is_some_and(|saved| saved < 0.0)
    }

    /// What a score says of each of its strata.
    pub(crate) fn of_metric<'a>(&'a self, metric: &'a str) -> impl Iterator<Item = (String, &'a Estimate)> {
        self.strata.iter().filter(move |s| s.metric == metric).map(|s| (s.stratum.to_string(), &s.value))
    }

    /// The same of one stratum.
    pub(crate) fn stratum(&self, metric: &str, stratum: &str) -> Option<&Estimate> {
        let of = |s: &&StratumRow| s.metric == metric && s.stratum.to_string() == stratum;
        self.strata.iter().find(of).map(|s| &s.value)
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
    pub(super) metric: String,
    pub(super) stratum: Stratum,
    pub(super) value: Estimate,
    pub(super) floor: Option<f64>,
    pub(super) ceiling: Option<f64>,
    pub(super) atom_bag: Option<f64>,
    pub(super) chance: Option<f64>,
    pub(super) efficiency: Estimate,
}

pub(super) fn summarise_variant(run: &Run, i: usize, of: &Scores) -> VariantSummary {
    let (variant, cells) = (&run.variants[i], &run.cells[i]);
    let affected: BTreeSet<u32> = run.events[i].iter().map(|event| event.trajectory).collect();
    // A session that failed lost nothing that anybody knows of.
    let failed: BTreeSet<&str> = cells.errors.iter().map(|(trajectory, _)| trajectory.as_str()).collect();
    let scored: Vec<bool> = run.trajectories.iter().map(|t| !failed.contains(t.id.as_str())).collect();
    let memo = Memo::default();
    let sessions = of.part(&scored, &memo);
    let needs = (NEED_RETENTION.name, of.sets.common.as_str());
    // A mean of sessions says no more than its needs do; whether they say something takes no draw.
    let undrawn = Scores { resampling: Resampling { resamples: 0, ..of.resampling }, ..sessions };
    let is_enough = undrawn.pooled(needs.0, needs.1, Field::Value).value.is_some();
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
    // First, since strata share what these draw.
    let estimates = METRICS.iter().map(|m| of.column(m.score, m.column)).collect();
    let strata: Vec<StratumRow> = of
        .rows
        .keys()
        .filter(|(_, stratum)| !stratum.is_empty())
        .map(|(metric, stratum)| {
            let pool = of.pool(metric, stratum);
            let value = pool.field(Field::Value);
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
                    pool.efficiency()
                } else {
                    Estimate::default()
                },
            }
        })
        .collect();
    // By what they are called, which is made once for each.
    let mut called: Vec<(String, StratumRow)> =
        strata.into_iter().map(|row| (row.stratum.to_string(), row)).collect();
    called.sort_by(|(a, x), (b, y)| x.metric.cmp(&y.metric).then_with(|| natural(a, b)));
    let strata = called.into_iter().map(|(_, row)| row).collect();
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
        estimates,
        strata,
        lost,
        parts: Vec::new(),
    }
}

pub(super) fn by_part(scores: &Scores, parts: &[Part]) -> Vec<Vec<Estimate>> {
    let of = |part: &Part| {
        let memo = Memo::default();
        let part = scores.part(&part.members, &memo);
        let metrics = PART_METRICS.iter().map(|name| &METRICS[metric(name)]);
        metrics.map(|m| part.column(m.score, m.column)).collect()
    };
    parts.iter().map(of).collect()
}

pub(super) fn by_format(scores: &Scores, formats: &BTreeMap<String, Vec<bool>>) -> Vec<FormatRow> {
    formats
        .iter()
        .map(|(format, members)| {
            let memo = Memo::default();
            let part = scores.part(members, &memo);
            let metrics = METRICS.iter().filter(|m| m.column.by_format);
            let estimates: Vec<Estimate> = metrics.map(|m| part.column(m.score, m.column)).collect();
            let n_trajectories = estimates.first().map_or(0, |e| e.n_trajectories);
            FormatRow { format: format.clone(), variant: 0, n_trajectories, estimates }
        })
        .collect()
}

pub(super) fn summarise_events(events: &[Event]) -> EventSummary {
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
pub(super) fn kaplan_meier_median(mut times: Vec<(u32, bool)>) -> Option<u32> {
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
