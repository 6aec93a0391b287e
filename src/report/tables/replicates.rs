//! `replicates`: sampled variants, pooled over their seeds.
//!
//! A variant that was run under several seeds is one line everywhere but in the summary. Here is its pooled
//! score (each seed with equal weight, over the trajectories that all seeds were scored on), with an
//! interval over clusters, and the spread between
//! seeds: standard deviation (n - 1 below), smallest and largest of the seeds' own pooled scores.

use super::pages::{METHOD, Page, Part, counts, estimate_columns, header, n_eff_column, number, shown};
use crate::report::lines::{Line, Lines, Measure};
use crate::report::statistics::estimate::Estimate;
use crate::report::tables::{Entry, Table};
use crate::scores::money::{COST_SAVINGS, TOKEN_SAVINGS};
use crate::scores::registry::{Field, Set};
use crate::scores::retention::{NEED_RETENTION, SURFACE_RETENTION};

pub(super) const ENTRY: Entry =
    Entry { name: "replicates", measures: measures, page: |input| page(input.lines) };

/// In the order of the table.
fn measures() -> Vec<Measure> {
    vec![
        Measure::of(&NEED_RETENTION),
        Measure::new("need_retention_exposed", &NEED_RETENTION, Set::Exposed, Field::Value),
        Measure::of(&SURFACE_RETENTION),
        Measure::of(&TOKEN_SAVINGS),
        Measure::of(&COST_SAVINGS),
    ]
}

struct Row<'a> {
    line: &'a Line,
    metric: String,
    pooled: Estimate,
    seeds: Vec<f64>,
}

/// The page, or why there is none.
pub(crate) fn page(lines: &Lines) -> Result<Page, String> {
    let rows: Vec<Row> = lines
        .all
        .iter()
        .filter(|l| l.seeds.len() > 1)
        .flat_map(|line| measures().into_iter().map(|measure| row(lines, line, measure.name)))
        .filter(|r| r.pooled.value.is_some())
        .collect();
    if rows.is_empty() {
        return Err("no variant was run under several seeds".to_owned());
    }
    Ok(Page {
        table: table(&rows),
        title: "Replicates by seed",
        gist: "variants that were run under several seeds, pooled, with the spread between seeds",
        about: format!(
            "How much of a sampled variant's score is luck? Variants that differ in nothing but their seed are pooled: each \
             seed counts alike, over the trajectories that all of them were scored on. {METHOD} A \
             cluster's part is the mean of its seeds, so what a seed does to one cluster is in the interval. In all other tables but the summary such \
             variants are one line, without the seed in their name."
        ),
        parts: vec![part(&rows)],
        notes: "- *between seeds*: standard deviation of the seeds' own pooled scores, then the smallest and the largest.\n\
                - What a seed does to all clusters alike is in the spread between seeds and not in the interval.\n\
                - *n*: trajectories / clusters / n_eff."
            .to_owned(),
    })
}

fn row<'a>(lines: &Lines, line: &'a Line, metric: String) -> Row<'a> {
    let seeds = (0..line.seeds.len()).filter_map(|seed| lines.of_seed(line, seed, &metric)).collect();
    let pooled = lines.series(line, &metric, None).estimate();
    let seeds = if pooled.value.is_some() { seeds } else { Vec::new() };
    Row { line, metric, pooled, seeds }
}

/// Standard deviation, n - 1 below.
fn deviation(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (n >= 2.0).then(|| (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0)).sqrt())
}

fn smallest(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::min)
}

fn largest(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

fn table(rows: &[Row]) -> Table {
    let mut t = Table::new(ENTRY.name);
    let seeds = |r: &Row| r.line.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    t.text("label", "the variant without its seed", rows.iter().map(|r| Some(r.line.label.clone())));
    t.text("metric", "the score", rows.iter().map(|r| Some(r.metric.clone())));
    t.text("seeds", "seeds it was run under", rows.iter().map(|r| Some(seeds(r))));
    estimate_columns(&mut t, "value", "pooled over seeds and trajectories", rows.iter().map(|r| &r.pooled));
    t.fraction(
        "seed_deviation",
        "standard deviation of the seeds' own pooled scores",
        rows.iter().map(|r| deviation(&r.seeds)),
    );
    t.fraction("seed_min", "smallest of them", rows.iter().map(|r| smallest(&r.seeds)));
    t.fraction("seed_max", "largest of them", rows.iter().map(|r| largest(&r.seeds)));
    t.count(
        "n_trajectories",
        "trajectories behind the value, under every seed",
        rows.iter().map(|r| Some(r.pooled.n_trajectories as u64)),
    );
    t.count("n_clusters", "clusters behind it", rows.iter().map(|r| Some(r.pooled.n_clusters as u64)));
    n_eff_column(&mut t, rows.iter().map(|r| &r.pooled));
    t.text("nulls", "why the interval is null", rows.iter().map(|r| r.pooled.reason.clone()));
    t
}

fn part(rows: &[Row]) -> Part {
    Part {
        heading: None,
        header: header(["variant", "score", "seeds", "pooled", "between seeds", "n"]),
        rows: rows
            .iter()
            .map(|r| {
                vec![
                    r.line.label.clone(),
                    r.metric.clone(),
                    r.line.seeds.len().to_string(),
                    shown(&r.pooled, true),
                    format!(
                        "{} ({} to {})",
                        number(deviation(&r.seeds), 4),
                        number(smallest(&r.seeds), 3),
                        number(largest(&r.seeds), 3)
                    ),
                    counts(&r.pooled),
                ]
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviation_has_one_less_below() {
        assert_eq!(deviation(&[1.0, 3.0]), Some(2.0_f64.sqrt()));
        assert_eq!(deviation(&[1.0]), None);
    }
}
