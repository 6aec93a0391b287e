//! What is to be said of a summary before it is believed.

use crate::report::load::Population;
use crate::report::statistics::estimate::Estimate;
use crate::report::statistics::inference::FEW;

use super::{Summary, metric};

pub(super) fn remarks(summary: &Summary) -> Vec<String> {
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
    for row in summary.rows.iter().filter(|r| r.events.n_fallbacks > 0) {
        let (n, of) = (row.events.n_fallbacks, row.events.n);
        remarks.push(format!(
            "{}: at {n} of {of} events a fallback stood in for an answer that could not be used",
            row.label
        ));
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
    remarks.extend(summary.sampled());
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

/// `a, b: reason; c: other reason`, or null where nothing is null.
pub(super) fn joined<'a>(estimates: impl Iterator<Item = (&'a str, &'a Estimate)>) -> Option<String> {
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
