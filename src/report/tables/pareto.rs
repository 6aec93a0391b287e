//! `pareto`: which variants no other beats, and how sure that is.
//!
//! A variant is on the frontier of need retention (common set) over token savings if no other has at
//! least as much of both and more of one. The share of resamples in which it is, 0 to 1, is its bootstrap
//! frequency. Because the best of many is partly lucky, the frontier is also chosen on one half of the
//! clusters and looked at on the other.
//!
//! Controls are no choice that anybody has, and stay out; so does what is below the minimum of [`crate::report::statistics::inference`].

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;
use rayon::prelude::*;

use super::pages::{METHOD, Page, Part, counts, estimate_columns, header, n_eff_column, number, shown};
use crate::report::lines::{Line, Lines, Measure, SideBySide};
use crate::report::series::Series;
use crate::report::statistics::bootstrap;
use crate::report::statistics::estimate::{Estimate, ratio};
use crate::report::tables::{Entry, Table};
use crate::scores::money::TOKEN_SAVINGS;
use crate::scores::retention::NEED_RETENTION;

pub(super) const ENTRY: Entry = Entry {
    name: "pareto",
    measures: || vec![Measure::of(&TOKEN_SAVINGS), Measure::of(&NEED_RETENTION)],
    page: |input| page(input.lines),
};

/// Savings and retention.
pub(crate) type Point = [f64; 2];

struct Row<'a> {
    line: &'a Line,
    savings: Estimate,
    retention: Estimate,
    on_frontier: bool,
    frequency: Option<f64>,
    n_resamples: usize,
    /// On the frontier of the half that chooses.
    chosen: bool,
    /// On the other half.
    held_out: [Estimate; 2],
    held_out_on_frontier: bool,
}

/// The page, or why there is none.
pub(crate) fn page(lines: &Lines) -> Result<Page, String> {
    let side = lines.side_by_side(lines.main().filter(|l| !l.control));
    let mut rows = rows(lines, &side);
    if rows.len() < 2 {
        return Err(
            "fewer than 2 variants that are no controls have both savings and retention above the minimum"
                .to_owned(),
        );
    }
    rows.sort_by(|a, b| {
        let by = |r: &Row| (r.frequency.unwrap_or(0.0), r.savings.value.unwrap_or(0.0));
        by(b).partial_cmp(&by(a)).expect("values are finite").then_with(|| a.line.label.cmp(&b.line.label))
    });
    let n_chosen = rows.iter().filter(|r| r.chosen).count();
    let n_stood = rows.iter().filter(|r| r.chosen && r.held_out_on_frontier).count();
    Ok(Page {
        table: table(&rows),
        title: "Pareto frontier of retention and savings",
        gist: "which variants no other beats in both retention and savings, and how sure that is",
        about: format!(
            "Which variants are worth choosing from? One is on the frontier if no other saves at least as many tokens and \
             retains at least as much (need retention, common set), with more of one of them. All {} variants are \
             compared on the {} trajectories that all of them were scored on; controls are left out, because nobody would \
             run them.{} {METHOD}\n\n\
             *Frequency* is the share of {} resamples of the clusters (seed {}) in which a variant is on the frontier. \
             The best of many are partly lucky, so the frontier is also *chosen* on one half of the clusters (drawn by \
             the seed) and its scores are given on the other, *held-out* half: {n_stood} of {n_chosen} chosen variants are \
             on the frontier there too.",
            side.lines.len(),
            side.n_trajectories,
            side.remark(),
            lines.draws.n_resamples(),
            lines.resampling.seed
        ),
        parts: vec![part(&rows)],
        notes: "- A frequency of 1 says that the variant is on the frontier whichever clusters are drawn; 0.5 says that it \
                depends on them.\n\
                - Variants that score exactly alike do not beat one another: all of them are on the frontier, or none.\n\
                - Nothing compressed (`full`) is beaten only where another retains everything as well.\n\
                - *chosen*, *held-out*: nothing is chosen on, or reported of, a half that is below the minimum.\n\
                - *n*: trajectories / clusters / n_eff of need retention."
            .to_owned(),
    })
}

fn rows<'a>(lines: &Lines, side: &SideBySide<'a>) -> Vec<Row<'a>> {
    let measured = |line: &&'a Line| {
        let of = |measure| lines.series(line, measure, Some(&side.only));
        let series = [of(TOKEN_SAVINGS.name), of(NEED_RETENTION.name)];
        (series[0].pooled.value.is_some() && series[1].pooled.is_told()).then_some((*line, series))
    };
    let (named, all): (Vec<&Line>, Vec<[Series; 2]>) = side.lines.par_iter().filter_map(measured).unzip();
    let on_frontier = frontier(&points(&all, |s| s.pooled.value));
    let memberships = memberships(&all, lines.draws.n_resamples());

    let (choosing, reporting) = halves(lines);
    let half = |s: &Series, clusters: &[usize]| s.part(clusters, &lines.draws.drawn).estimate();
    let on_half = |clusters: &[usize]| frontier(&points(&all, |s| half(s, clusters).value));
    let (chosen, stood) = (on_half(&choosing), on_half(&reporting));
    let made = all.par_iter().enumerate().map(|(i, [savings, retention])| Row {
        line: named[i],
        savings: savings.estimate(),
        retention: retention.estimate(),
        on_frontier: on_frontier[i],
        frequency: ratio(memberships[i].0 as f64, memberships[i].1 as f64),
        n_resamples: memberships[i].1,
        chosen: chosen[i],
        held_out: [half(savings, &reporting), half(retention, &reporting)],
        held_out_on_frontier: stood[i],
    });
    made.collect()
}

fn points(all: &[[Series; 2]], of: impl Fn(&Series) -> Option<f64>) -> Vec<Option<Point>> {
    all.iter().map(|[savings, retention]| Some([of(savings)?, of(retention)?])).collect()
}

/// For each variant in how many resamples it is on the frontier, and in how many it is defined.
pub(crate) fn memberships(all: &[[Series; 2]], n_resamples: usize) -> Vec<(usize, usize)> {
    let one = |resample: usize| -> Vec<(usize, usize)> {
        let points = points(all, |s| Some(s.pooled.draws[resample]).filter(|x| x.is_finite()));
        let on = frontier(&points);
        points.iter().zip(on).map(|(p, on)| (usize::from(on), usize::from(p.is_some()))).collect()
    };
    let zero = || vec![(0, 0); all.len()];
    let add = |a: Vec<(usize, usize)>, b: Vec<(usize, usize)>| {
        a.into_iter().zip(b).map(|(a, b)| (a.0 + b.0, a.1 + b.1)).collect()
    };
    // Sums of whole numbers: the same in any order.
    (0..n_resamples).into_par_iter().map(one).reduce(zero, add)
}

/// Which points no other beats. An undefined point neither beats nor is on the frontier.
pub(crate) fn frontier(points: &[Option<Point>]) -> Vec<bool> {
    // Differences of fractions: what is smaller is rounding.
    const SAME: f64 = 1e-12;
    let beats = |a: &Point, b: &Point| {
        a[0] >= b[0] - SAME && a[1] >= b[1] - SAME && (a[0] > b[0] + SAME || a[1] > b[1] + SAME)
    };
    let on = |p: &Option<Point>| p.is_some_and(|p| !points.iter().flatten().any(|other| beats(other, &p)));
    points.iter().map(on).collect()
}

/// The clusters in two halves, drawn by the seed: one to choose on, one to report on.
fn halves(lines: &Lines) -> (Vec<usize>, Vec<usize>) {
    let mut rng = ChaCha8Rng::seed_from_u64(lines.resampling.seed);
    let mut clusters: Vec<usize> = (0..lines.draws.n_clusters).collect();
    for i in (1..clusters.len()).rev() {
        clusters.swap(i, bootstrap::below(&mut rng, i + 1));
    }
    let reporting = clusters.split_off(clusters.len().div_ceil(2));
    (clusters, reporting)
}

fn table(rows: &[Row]) -> Table {
    let mut t = Table::new(ENTRY.name);
    t.text(
        "label",
        "the variant; replicates by seed are one",
        rows.iter().map(|r| Some(r.line.label.clone())),
    );
    t.text("trigger", "when it compresses", rows.iter().map(|r| Some(r.line.trigger.clone())));
    estimate_columns(
        &mut t,
        TOKEN_SAVINGS.name,
        "1 - prompt tokens sent / prompt tokens with nothing compressed, on the shared trajectories",
        rows.iter().map(|r| &r.savings),
    );
    estimate_columns(
        &mut t,
        NEED_RETENTION.name,
        "need retention on the common set, on the shared trajectories",
        rows.iter().map(|r| &r.retention),
    );
    t.flag(
        "on_frontier",
        "whether no other variant beats it on all clusters",
        rows.iter().map(|r| r.on_frontier),
    );
    t.fraction(
        "frequency",
        "share of the resamples in which no other beats it",
        rows.iter().map(|r| r.frequency),
    );
    t.count(
        "n_resamples",
        "resamples in which it is defined",
        rows.iter().map(|r| Some(r.n_resamples as u64)),
    );
    t.flag(
        "chosen",
        "whether it is on the frontier of the half that chooses; false where that is below the minimum",
        rows.iter().map(|r| r.chosen),
    );
    for (i, name) in ["held_out_token_savings", "held_out_need_retention"].into_iter().enumerate() {
        let doc = "the same on the half of the clusters that had no part in choosing (seeds averaged)";
        estimate_columns(&mut t, name, doc, rows.iter().map(|r| &r.held_out[i]));
    }
    t.flag(
        "held_out_on_frontier",
        "whether it is on the frontier of that half; false where that is below the minimum",
        rows.iter().map(|r| r.held_out_on_frontier),
    );
    let count = |f: fn(&Estimate) -> usize| rows.iter().map(move |r| Some(f(&r.retention) as u64));
    t.count("n_trajectories", "trajectories behind need_retention", count(|e| e.n_trajectories));
    t.count("n_clusters", "clusters behind need_retention", count(|e| e.n_clusters));
    n_eff_column(&mut t, rows.iter().map(|r| &r.retention));
    t.count(
        "n_clusters_held_out",
        "clusters in the half that reports",
        rows.iter().map(|r| Some(r.held_out[0].n_clusters as u64)),
    );
    t
}

fn part(rows: &[Row]) -> Part {
    let mark = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    Part {
        heading: None,
        header: header([
            "variant",
            "token savings",
            "need retention",
            "frontier",
            "frequency",
            "chosen",
            "held-out savings",
            "held-out retention",
            "held-out frontier",
            "n",
        ]),
        rows: rows
            .iter()
            .map(|r| {
                vec![
                    r.line.label.clone(),
                    shown(&r.savings, true),
                    shown(&r.retention, true),
                    mark(r.on_frontier),
                    number(r.frequency, 3),
                    mark(r.chosen),
                    shown(&r.held_out[0], false),
                    shown(&r.held_out[1], false),
                    mark(r.held_out_on_frontier),
                    counts(&r.retention),
                ]
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_beaten_by_one_that_is_nowhere_worse_and_somewhere_better() {
        let on = |points: &[Point]| frontier(&points.iter().map(|p| Some(*p)).collect::<Vec<_>>());
        // The third has as much of one and less of the other than the second.
        assert_eq!(
            on(&[[0.0, 1.0], [0.5, 0.5], [0.5, 0.4], [0.4, 0.4], [0.9, 0.1]]),
            [true, true, false, false, true]
        );
        // Twins do not beat one another, rounding apart.
        assert_eq!(on(&[[0.1 + 0.2, 0.5], [0.3, 0.5]]), [true, true]);
        assert_eq!(frontier(&[None, Some([0.0, 0.0])]), [false, true]);
    }

    /// The control beats all others, and one variant is scored on too few needs.
    #[test]
    fn controls_and_what_is_below_the_minimum_stay_out() {
        let line = |label: &str, saved: f64, kept: f64, needs: f64| {
            let each = |x: f64, weight: f64| -> Vec<(f64, f64)> {
                (0..8).map(|t| (x + 0.01 * f64::from(t), weight)).collect()
            };
            let scores = [("token_savings", each(saved, 100.0)), ("need_retention", each(kept, needs))];
            let scores: Vec<(&str, &[(f64, f64)])> = scores.iter().map(|(m, s)| (*m, &s[..])).collect();
            Line::by_hand(label, &scores)
        };
        let mut control = line("echo @ t", 0.8, 0.9, 9.0);
        control.control = true;
        let all = vec![
            control,
            line("a @ t", 0.5, 0.4, 9.0),
            line("b @ t", 0.4, 0.5, 9.0),
            line("few @ t", 0.7, 0.8, 1.0),
        ];
        let page = page(&Lines::by_hand(all, 8)).unwrap();
        let rows: Vec<(&str, &str)> = page.parts[0].rows.iter().map(|r| (&*r[0], &*r[3])).collect();
        assert_eq!(rows, [("a @ t", "yes"), ("b @ t", "yes")]);
        // Of 4 clusters each, so that a half is above the minimum only with 8 needs or more: 36 of them.
        assert!(page.parts[0].rows.iter().all(|r| r[7] != "-"), "{:?}", page.parts[0].rows);
    }
}
