//! `agreement`: do the scores of retention put the variants in the same order?
//!
//! For every two retention scores that the rows hold: Spearman's rank correlation of their pooled values
//! over the variants, -1 to 1, with Kendall's tau-b beside it, for all triggers together and for each
//! alone (where it has not all the variants). What several readers scored is a score by each of them. Interval: in each resample of the clusters every variant's pooled values are computed anew and
//! ranked again; percentiles, widened to hold the value (see [`crate::report::statistics::bootstrap::percentile_estimate`]).
//! Null under 4 variants, or where a score is the same for all.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::pages::{Page, Part, estimate_columns, header, n_eff_column, number, shown};
use crate::report::lines::{Line, Lines, Measure, retentions};
use crate::report::series::Series;
use crate::report::statistics::bootstrap::percentile_estimate;
use crate::report::statistics::estimate::Estimate;
use crate::report::statistics::ranks::{Order, kendall_tau_b, spearman};
use crate::report::tables::{Entry, Table};

pub(super) const ENTRY: Entry = Entry {
    name: "agreement",
    measures: || retentions().into_iter().map(Measure::of).collect(),
    page: |input| page(input.lines),
};

/// Fewer variants can hardly be out of order.
const MIN_LINES: usize = 4;
/// What the first scope is called.
const ALL: &str = "all triggers";

struct Row<'a> {
    /// A trigger, or all of them.
    scope: String,
    metrics: [String; 2],
    rho: Estimate,
    tau_b: Option<f64>,
    n_lines: usize,
    widest: Option<Gap<'a>>,
}

/// Where two scores disagree most.
struct Gap<'a> {
    line: &'a Line,
    /// From 1, the best.
    ranks: [f64; 2],
}

/// The page, or why there is none.
pub(crate) fn page(lines: &Lines) -> Result<Page, String> {
    let side = lines.side_by_side(lines.main());
    let retentions = lines.retentions();
    let series: Vec<Vec<Series>> = side
        .lines
        .par_iter()
        .map(|l| retentions.iter().map(|m| lines.series(l, m, Some(&side.only))).collect())
        .collect();
    let mut scopes = vec![(ALL.to_owned(), (0..side.lines.len()).collect::<Vec<_>>())];
    let mut start = 0;
    for under in side.lines.chunk_by(|a, b| a.trigger == b.trigger) {
        scopes.push((under[0].trigger.clone(), (start..start + under.len()).collect()));
        start += under.len();
    }
    let mut rows: Vec<Row> = Vec::new();
    // The variants of a pair of scores over all triggers: where one trigger has them all, it would say the same again.
    let mut of_all: BTreeMap<[usize; 2], usize> = BTreeMap::new();
    for (scope, members) in scopes {
        for b in 0..retentions.len() {
            for a in 0..b {
                let with_both = |i: &&usize| [a, b].iter().all(|m| series[**i][*m].pooled.is_told());
                let members: Vec<usize> = members.iter().filter(with_both).copied().collect();
                let n_all = *of_all.entry([a, b]).or_insert(members.len());
                let is_new = scope == ALL || members.len() < n_all;
                if members.len() >= MIN_LINES && is_new {
                    let pairs: Vec<[&Series; 2]> =
                        members.iter().map(|&i| [&series[i][a], &series[i][b]]).collect();
                    let named: Vec<&Line> = members.iter().map(|&i| side.lines[i]).collect();
                    let metrics = [a, b].map(|m| retentions[m].clone());
                    rows.push(row(scope.clone(), metrics, &named, &pairs, lines.draws.n_resamples()));
                }
            }
        }
    }
    if rows.is_empty() {
        return Err(format!("fewer than two retention scores, or than {MIN_LINES} variants that have them"));
    }
    Ok(Page {
        table: table(&rows),
        title: "Agreement of the retention scores",
        gist: "rank correlation between every two retention scores over the variants, and where they disagree most",
        about: format!(
            "Do different scores of retention put the variants in the same order? For every two scores, Spearman's rank \
             correlation over the variants (1 is the same order, 0 is none, -1 the reverse), with Kendall's tau-b beside it. \
             A score of a variant is pooled over the {} trajectories on which all {} variants were scored.{} The interval \
             resamples clusters ({} resamples, seed {}), computes every variant's scores anew and ranks again.\n\n\
             Scores looked for: {}. Those that no variant has are not in the table.",
            side.n_trajectories,
            side.lines.len(),
            side.remark(),
            lines.draws.n_resamples(),
            lines.resampling.seed,
            retentions.join(", ")
        ),
        parts: vec![part(&rows)],
        notes: format!(
            "- *where they differ most*: the variant whose two ranks (1 is best) are farthest apart.\n\
             - A trigger that has all variants of two scores has no line of its own.\n\
             - Over all triggers, agreement is partly that of how much is kept: `full` is first and `drop-all` near the \
             end by any score. Within a trigger it says more.\n\
             - Scores of annotated truth ask about what was compressed, which depends on the trigger: they compare within a \
             trigger. A score with fewer variants than another is undefined for the rest, such as `full`.\n\
             - The interval is of percentiles, widened to hold the value. Resampling shuffles variants that score nearly \
             alike, so most of it lies below the value.\n\
             - Under {MIN_LINES} variants no correlation is given. A score below the minimum (30 items, n_eff 4) has no rank. \
             *n_eff*: the least of any variant's score."
        ),
    })
}

fn row<'a>(
    scope: String,
    metrics: [String; 2],
    lines: &[&'a Line],
    pairs: &[[&Series; 2]],
    n_resamples: usize,
) -> Row<'a> {
    let side = |i: usize| -> Vec<f64> { pairs.iter().filter_map(|p| p[i].pooled.value).collect() };
    let (x, y) = (side(0), side(1));
    let count = |f: fn(&Series) -> usize| pairs.iter().flatten().map(|s| f(s)).max().unwrap_or(0);
    Row {
        scope,
        metrics,
        rho: Estimate {
            n_trajectories: count(|s| s.n_trajectories),
            n_clusters: count(|s| s.pooled.n_clusters()),
            n_eff: pairs.iter().flatten().map(|s| s.pooled.n_eff).reduce(f64::min),
            ..rho(pairs, n_resamples)
        },
        tau_b: kendall_tau_b(&x, &y),
        n_lines: lines.len(),
        widest: widest(lines, &x, &y),
    }
}

/// Spearman's correlation of two scores over variants, ranked again in each resample.
pub(crate) fn rho(pairs: &[[&Series; 2]], n_resamples: usize) -> Estimate {
    let ranked = |value: &dyn Fn(&Series) -> Option<f64>| {
        let both = pairs.iter().filter_map(|[a, b]| Some((value(a)?, value(b)?)));
        let (x, y): (Vec<f64>, Vec<f64>) = both.unzip();
        if x.len() < MIN_LINES { None } else { correlation(&x, &y) }
    };
    let Some(value) = ranked(&|s| s.pooled.value) else {
        return Estimate::null("a score is the same for all variants");
    };
    let defined = |x: f64| Some(x).filter(|x| x.is_finite());
    let draw = |r: usize| ranked(&|s| defined(s.pooled.draws[r])).unwrap_or(f64::NAN);
    let draws: Vec<f64> = (0..n_resamples).into_par_iter().map(draw).collect();
    percentile_estimate(value, &draws)
}

fn correlation(x: &[f64], y: &[f64]) -> Option<f64> {
    spearman(&Order::of(x), &Order::of(y), &vec![1.0; x.len()])
}

/// The first of the lines whose ranks are farthest apart; `None` where all agree.
fn widest<'a>(lines: &[&'a Line], x: &[f64], y: &[f64]) -> Option<Gap<'a>> {
    let ranks = |values: &[f64]| -> Vec<f64> {
        let ascending = Order::of(values).midranks(&vec![1.0; values.len()]);
        ascending.into_iter().map(|r| values.len() as f64 + 1.0 - r).collect()
    };
    let gaps: Vec<[f64; 2]> = ranks(x).into_iter().zip(ranks(y)).map(|(a, b)| [a, b]).collect();
    let gap = |i: usize| (gaps[i][0] - gaps[i][1]).abs();
    let widest = (0..lines.len()).reduce(|best, i| if gap(i) > gap(best) { i } else { best })?;
    (gap(widest) > 0.0).then(|| Gap { line: lines[widest], ranks: gaps[widest] })
}

fn table(rows: &[Row]) -> Table {
    let mut t = Table::new(ENTRY.name);
    t.text("scope", "a trigger, or `all triggers`", rows.iter().map(|r| Some(r.scope.clone())));
    t.text("metric_a", "one score", rows.iter().map(|r| Some(r.metrics[0].clone())));
    t.text("metric_b", "the other", rows.iter().map(|r| Some(r.metrics[1].clone())));
    estimate_columns(
        &mut t,
        "spearman",
        "rank correlation of the two scores over the variants, -1 to 1",
        rows.iter().map(|r| &r.rho),
    );
    t.fraction(
        "kendall_tau_b",
        "(concordant - discordant pairs of variants) / sqrt(pairs untied in one * pairs untied in the other), -1 to 1",
        rows.iter().map(|r| r.tau_b),
    );
    t.count(
        "n_variants",
        "variants ranked; replicates by seed are one",
        rows.iter().map(|r| Some(r.n_lines as u64)),
    );
    t.count(
        "n_trajectories",
        "trajectories behind the scores, at most",
        rows.iter().map(|r| Some(r.rho.n_trajectories as u64)),
    );
    t.count(
        "n_clusters",
        "clusters behind the scores, at most",
        rows.iter().map(|r| Some(r.rho.n_clusters as u64)),
    );
    n_eff_column(&mut t, rows.iter().map(|r| &r.rho));
    let widest = |r: &Row| r.widest.as_ref().map(|g| g.line.label.clone());
    t.text(
        "widest",
        "variant whose two ranks are farthest apart; null where none are",
        rows.iter().map(widest),
    );
    for (i, side) in ["a", "b"].into_iter().enumerate() {
        t.amount(
            &format!("widest_rank_{side}"),
            &format!("its rank by metric_{side}, 1 is best; ties share a rank"),
            rows.iter().map(|r| r.widest.as_ref().map(|g| g.ranks[i])),
        );
    }
    t.text("nulls", "why the correlation or its interval is null", rows.iter().map(|r| r.rho.reason.clone()));
    t
}

fn part(rows: &[Row]) -> Part {
    let rank = |r: f64| number(Some(r), if r.fract() == 0.0 { 0 } else { 1 });
    let differ = |g: &Gap| format!("{}: {} and {}", g.line.label, rank(g.ranks[0]), rank(g.ranks[1]));
    Part {
        heading: None,
        header: header([
            "scope",
            "one score",
            "the other",
            "Spearman",
            "tau-b",
            "variants",
            "where they differ most",
        ]),
        rows: rows
            .iter()
            .map(|r| {
                vec![
                    r.scope.clone(),
                    r.metrics[0].clone(),
                    r.metrics[1].clone(),
                    shown(&r.rho, true),
                    number(r.tau_b, 3),
                    r.n_lines.to_string(),
                    r.widest.as_ref().map_or_else(|| "nowhere".to_owned(), differ),
                ]
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_agree_but_for_the_variants_that_change_places() {
        let line = |label: &str, need: f64, surface: f64| {
            let both = [(need, 8.0); 5];
            Line::by_hand(label, &[("need_retention", &both), ("surface_retention", &[(surface, 8.0); 5])])
        };
        let all = vec![
            line("a @ t", 0.1, 0.2),
            line("b @ t", 0.2, 0.1),
            line("c @ t", 0.3, 0.3),
            line("d @ t", 0.4, 0.4),
        ];
        let lines = Lines::by_hand(all, 5);
        let page = page(&lines).unwrap();
        // Ranks 4 3 2 1 and 3 4 2 1: 1 - 6 * 2 / (4 * 15); every resample says the same.
        let rows = &page.parts[0].rows;
        assert_eq!(rows.len(), 1, "one trigger is all of them");
        assert_eq!(
            rows[0][..],
            [
                "all triggers",
                "need_retention",
                "surface_retention",
                "0.800 [0.80, 0.80]",
                "0.667",
                "4",
                "a @ t: 4 and 3"
            ]
        );
        let of_two = ["a @ t", "b @ t", "c @ t", "d @ t", "e @ u"];
        let of_two =
            of_two.iter().zip(1..).map(|(label, n)| line(label, f64::from(n) / 10.0, f64::from(n) / 10.0));
        let two = Lines::by_hand(of_two.collect(), 5);
        let scopes: Vec<String> =
            super::page(&two).unwrap().parts[0].rows.iter().map(|r| r[0].clone()).collect();
        assert_eq!(scopes, ["all triggers", "t"]);
        let few = Lines::by_hand(vec![line("a @ t", 0.1, 0.2), line("b @ t", 0.2, 0.1)], 5);
        assert!(super::page(&few).err().unwrap().contains("than 4 variants"));
    }

    /// Two readers that see it the other way round, side by side.
    #[test]
    fn each_reader_is_a_score_of_its_own() {
        let line = |label: &str, one: f64, other: f64| {
            let (need, one, other) = ([(one, 8.0); 5], [(one, 8.0); 5], [(other, 8.0); 5]);
            let scores = [
                ("need_retention", &need[..]),
                ("likelihood_retention", &one[..]),
                ("likelihood_retention by one", &one[..]),
                ("likelihood_retention by other", &other[..]),
            ];
            Line::by_hand(label, &scores)
        };
        let n = [0.1, 0.2, 0.3, 0.4];
        let all =
            n.iter().zip(["a @ t", "b @ t", "c @ t", "d @ t"]).map(|(x, label)| line(label, *x, 1.0 - x));
        let page = page(&Lines::by_hand(all.collect(), 5)).unwrap();
        let rows: Vec<(&str, &str, &str)> =
            page.parts[0].rows.iter().map(|r| (&*r[1], &*r[2], r[3].split(' ').next().unwrap())).collect();
        assert_eq!(
            rows,
            [
                ("need_retention", "likelihood_retention by one", "1.000"),
                ("need_retention", "likelihood_retention by other", "-1.000"),
                ("likelihood_retention by one", "likelihood_retention by other", "-1.000"),
            ]
        );
    }
}
