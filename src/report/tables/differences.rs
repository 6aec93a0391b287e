//! `differences`: one variant minus another, paired, with p-values and effect sizes.
//!
//! - difference = pooled score of the variant - pooled score of the baseline, both over the trajectories
//!   that both were scored on, -1 to 1 for fractions; the same clusters are left out of both.
//! - Interval and p: see [`crate::report::statistics::inference`].
//! - Holm's adjustment over a family: all comparisons of one metric under one trigger.
//! - g_z and the shares of clusters look at one difference a cluster, each cluster counted once, whatever
//!   its weight: they answer how regular a difference is, not how large.

use rayon::prelude::*;

use super::pages::{
    METHOD, Page, Part, counts, estimate_columns, header, n_eff_column, number, p_shown, shown,
};
use crate::report::lines::{Line, Lines, Measure, ROOM};
use crate::report::series::Series;
use crate::report::statistics::effects::{hedges_g_z, holm};
use crate::report::statistics::estimate::{Estimate, ratio};
use crate::report::tables::{Entry, Table};
use crate::scores::money::{COST_SAVINGS, TOKEN_SAVINGS};
use crate::scores::registry::{Field, Set};
use crate::scores::retention::NEED_RETENTION;

pub(super) const ENTRY: Entry =
    Entry { name: "differences", measures: measures, page: |input| page(input.lines, input.baseline) };

/// Higher is better in all of them.
const METRICS: [&str; 4] = [NEED_RETENTION.name, TOKEN_SAVINGS.name, COST_SAVINGS.name, EFFICIENCY];
const EFFICIENCY: &str = "efficiency";
/// Need retention of the matched random shadow.
const RANDOM: &str = "need_retention_random";

fn measures() -> Vec<Measure> {
    let need = |name, set, field| Measure::new(name, &NEED_RETENTION, set, field);
    vec![
        Measure::of(&NEED_RETENTION),
        Measure::of(&TOKEN_SAVINGS),
        Measure::of(&COST_SAVINGS),
        need(EFFICIENCY, Set::Capped, Field::Efficiency),
        need(ROOM, Set::Capped, Field::Room),
        need(RANDOM, Set::Whole, Field::Floor),
    ]
}

/// What the lines of equal budget are compared with: the matched random shadow, kept in the rows.
pub(crate) const SHADOW: &str = "its random shadow";

/// Largest family of all pairs, those of 10 variants: more would be hard to read, and cost each of them
/// much of what Holm leaves.
const MAX_PAIRS: usize = 45;

/// A variant beside a baseline.
struct Row<'a> {
    metric: &'static str,
    line: &'a Line,
    /// Null is the variant's own random shadow.
    baseline: Option<&'a Line>,
    of: Comparison,
    p_holm: Option<f64>,
    n_family: usize,
}

#[derive(Default)]
pub(crate) struct Comparison {
    pub(crate) value: Option<f64>,
    pub(crate) baseline_value: Option<f64>,
    pub(crate) difference: Estimate,
    pub(crate) p: Option<f64>,
    pub(crate) g_z: Option<f64>,
    pub(crate) better: Option<f64>,
    pub(crate) worse: Option<f64>,
}

impl Row<'_> {
    fn baseline_name(&self) -> &str {
        self.baseline.map_or(SHADOW, |b| &b.label)
    }
}

/// The page, or why there is none. `baseline` is a label or a strategy's name; without it, all pairs
/// under a trigger are compared where there are few, else each with the first `mask`.
pub(crate) fn page(lines: &Lines, baseline: Option<&str>) -> Result<Page, String> {
    let rows = rows(lines, baseline);
    if rows.iter().all(|r| r.of.difference.value.is_none()) {
        return Err("no trigger has two variants with the same scores above the minimum (30 items, n_eff 4)"
            .to_owned());
    }
    Ok(Page {
        table: table(&rows),
        title: "Paired differences",
        gist: "each variant against others under the same trigger: difference, p-value, effect size",
        about: about(baseline),
        parts: parts(&rows),
        notes: "- *difference*: score of the variant minus score of the baseline, with its 95 % interval. Above 0 the \
                variant is better.\n\
                - *p*: two-sided, for \"no difference\", by inversion of the interval. *p (Holm)*: adjusted for all comparisons in \
                the same table, to be read instead of p. Below 0.05 is usually called significant. Where all clusters agree \
                there is neither interval nor p.\n\
                - *g_z*: mean of the differences of clusters in their standard deviations, corrected for few clusters \
                (Hedges); 0.2 is small, 0.8 large. Null for efficiency, which a cluster alone does not define.\n\
                - *better / worse*: share of the clusters in which the variant scored higher, and lower; the rest tie.\n\
                - *n*: trajectories / clusters that have the score under both / n_eff."
            .to_owned(),
    })
}

fn about(baseline: Option<&str>) -> String {
    let pairs = match baseline {
        Some(name) => format!("each variant is compared with the first one called or using `{name}`"),
        None => format!(
            "every two variants are compared where that makes at most {MAX_PAIRS} pairs; else each with one \
             baseline, the first `mask` (or, where there is none, the first variant); `oracle` is left out, because it \
             knows the future"
        ),
    };
    format!(
        "Is one variant better than another, and by how much? Within a trigger {pairs}. The difference is taken over \
         the trajectories that both were scored on. Its interval leaves the same clusters out of both; the p-value inverts \
         that interval. {METHOD} A family for Holm's adjustment is one metric under one trigger against one kind of \
         baseline: a table below.\n\n\
         Two variants seldom keep equally many tokens, and who keeps more usually retains more. `{SHADOW}` is the \
         comparison at equal tokens: random lines, as many as the variant kept, at the same moments.",
    )
}

fn rows<'a>(lines: &'a Lines, baseline: Option<&str>) -> Vec<Row<'a>> {
    // The oracle is a reference and no choice, unless it is asked for.
    let asked = |l: &Line| baseline.is_some_and(|name| l.label == name || l.strategy == name);
    let main: Vec<&Line> = lines.main().filter(|l| !l.sees_future() || asked(l)).collect();
    let series: Vec<Vec<Series>> =
        main.par_iter().map(|l| METRICS.iter().map(|m| lines.series(l, m, None)).collect()).collect();
    let withheld: Vec<Option<String>> = main.par_iter().map(|l| lines.efficiency_withheld(l)).collect();

    let mut rows = Vec::new();
    for under in main.chunk_by(|a, b| a.trigger == b.trigger) {
        let start = main.iter().position(|l| std::ptr::eq(*l, under[0])).expect("a chunk of the list");
        let pairs: Vec<(usize, usize)> =
            pairs(under, baseline).into_iter().map(|(a, b)| (start + a, start + b)).collect();
        for (m, metric) in METRICS.into_iter().enumerate() {
            let compared = pairs.par_iter().map(|&(a, b)| {
                let (line, other) = (main[a], main[b]);
                let of = if let Some(reason) = withheld[a].as_ref().or(withheld[b].as_ref())
                    && metric == EFFICIENCY
                {
                    let difference = Estimate::null(format!("efficiency is withheld: {reason}"));
                    Comparison { difference, ..Comparison::default() }
                } else if line.cells == other.cells {
                    compare(&series[a][m], &series[b][m])
                } else {
                    let both = lines.shared(&[line, other]);
                    let part = |l| lines.series(l, metric, Some(&both));
                    compare(&part(line), &part(other))
                };
                // A cluster's own efficiency is a quotient of next to nothing.
                let of = match metric {
                    EFFICIENCY => Comparison { g_z: None, better: None, worse: None, ..of },
                    _ => of,
                };
                row(metric, line, Some(other), of)
            });
            rows.extend(family(compared.collect()));
        }
        let shadows = under.par_iter().enumerate().map(|(i, line)| {
            let shadow = lines.series(line, RANDOM, None);
            row(METRICS[0], line, None, compare(&series[start + i][0], &shadow))
        });
        // Where nothing is compressed, the shadow is the same text.
        let told = |r: &Row| r.of.difference.value.is_some() && r.line.strategy != "full";
        rows.extend(family(shadows.filter(told).collect()));
    }
    rows
}

fn row<'a>(metric: &'static str, line: &'a Line, baseline: Option<&'a Line>, of: Comparison) -> Row<'a> {
    Row { metric, line, baseline, of, p_holm: None, n_family: 0 }
}

/// Places of (variant, baseline) among the lines under a trigger.
fn pairs(under: &[&Line], baseline: Option<&str>) -> Vec<(usize, usize)> {
    let n = under.len();
    let against = |b: usize| (0..n).filter(|&a| a != b).map(|a| (a, b)).collect();
    if let Some(name) = baseline {
        return find(under, name).map_or_else(Vec::new, against);
    }
    if n * n.saturating_sub(1) / 2 <= MAX_PAIRS {
        return (0..n).flat_map(|b| (b + 1..n).map(move |a| (a, b))).collect();
    }
    against(find(under, "mask").unwrap_or(0))
}

/// The first line with this label or strategy.
pub(crate) fn find(lines: &[&Line], name: &str) -> Option<usize> {
    let labelled = lines.iter().position(|l| l.label == name);
    labelled.or_else(|| lines.iter().position(|l| l.strategy == name))
}

/// A minus B, over the same trajectories.
pub(crate) fn compare(a: &Series, b: &Series) -> Comparison {
    let both = || a.clusters.iter().zip(&b.clusters);
    let by_cluster: Vec<f64> =
        both().filter_map(|(a, b)| Some(ratio(a[0], a[1])? - ratio(b[0], b[1])?)).collect();
    let n = by_cluster.len() as f64;
    let share = |better: fn(f64) -> bool| ratio(by_cluster.iter().filter(|d| better(**d)).count() as f64, n);
    let difference = a.pooled.minus(&b.pooled);
    Comparison {
        value: a.estimate().value,
        baseline_value: b.estimate().value,
        p: difference.p_value(),
        g_z: hedges_g_z(&by_cluster).filter(|_| difference.is_told()),
        // Differences of fractions: what is nearer to 0 is rounding.
        better: share(|d| d > 1e-12).filter(|_| difference.is_told()),
        worse: share(|d| d < -1e-12).filter(|_| difference.is_told()),
        difference: Estimate {
            n_trajectories: a.n_trajectories.min(b.n_trajectories),
            n_clusters: by_cluster.len(),
            ..difference.estimate()
        },
    }
}

/// Fills in what depends on the other comparisons.
fn family(mut rows: Vec<Row>) -> Vec<Row> {
    let p_values: Vec<f64> = rows.iter().filter_map(|r| r.of.p).collect();
    let mut adjusted = holm(&p_values).into_iter();
    for row in &mut rows {
        row.n_family = p_values.len();
        row.p_holm = row.of.p.and_then(|_| adjusted.next());
    }
    rows
}

fn table(rows: &[Row]) -> Table {
    let mut t = Table::new(ENTRY.name);
    let text = |s: &str| Some(s.to_owned());
    t.text("metric", "the score; higher is better", rows.iter().map(|r| text(r.metric)));
    t.text("trigger", "when both compress", rows.iter().map(|r| text(&r.line.trigger)));
    t.text("label", "the variant; replicates by seed are one", rows.iter().map(|r| text(&r.line.label)));
    t.text(
        "baseline",
        "what it is compared with: another variant, or the random lines that match its own tokens",
        rows.iter().map(|r| text(r.baseline_name())),
    );
    t.fraction(
        "value",
        "pooled score of the variant on the shared trajectories",
        rows.iter().map(|r| r.of.value),
    );
    t.fraction("baseline_value", "the same of the baseline", rows.iter().map(|r| r.of.baseline_value));
    estimate_columns(
        &mut t,
        "difference",
        "value - baseline_value, -1 to 1 for fractions; the interval leaves the same clusters out of both",
        rows.iter().map(|r| &r.of.difference),
    );
    t.probability(
        "p",
        "two-sided p-value of no difference, by inversion of the interval",
        rows.iter().map(|r| r.of.p),
    );
    t.probability("p_holm", "p adjusted for the family by Holm", rows.iter().map(|r| r.p_holm));
    t.count(
        "n_family",
        "p-values in the family: one metric, one trigger, other variants or shadows",
        rows.iter().map(|r| Some(r.n_family as u64)),
    );
    t.fraction(
        "g_z",
        "Hedges' g_z over clusters: mean / standard deviation of their differences, corrected for few; null for efficiency, under 3 clusters, and where they do not vary",
        rows.iter().map(|r| r.of.g_z),
    );
    t.fraction(
        "better_share",
        "share of the clusters in which the variant scored higher",
        rows.iter().map(|r| r.of.better),
    );
    t.fraction(
        "worse_share",
        "share of the clusters in which it scored lower",
        rows.iter().map(|r| r.of.worse),
    );
    t.count(
        "n_trajectories",
        "trajectories that have the score under both",
        rows.iter().map(|r| Some(r.of.difference.n_trajectories as u64)),
    );
    t.count(
        "n_clusters",
        "clusters that have the score under both",
        rows.iter().map(|r| Some(r.of.difference.n_clusters as u64)),
    );
    n_eff_column(&mut t, rows.iter().map(|r| &r.of.difference));
    t.text(
        "nulls",
        "why the difference or its interval is null",
        rows.iter().map(|r| r.of.difference.reason.clone()),
    );
    t
}

/// One table a family.
fn parts(rows: &[Row]) -> Vec<Part> {
    let family = |r: &Row| (r.line.trigger.clone(), r.metric, r.baseline.is_none());
    rows.chunk_by(|a, b| family(a) == family(b))
        .map(|rows| {
            let against = if rows[0].baseline.is_none() { ", against random at equal tokens" } else { "" };
            Part {
                heading: Some(format!("{} under {}{against}", rows[0].metric, rows[0].line.trigger)),
                header: header([
                    "variant",
                    "baseline",
                    "score",
                    "baseline's",
                    "difference",
                    "p",
                    "p (Holm)",
                    "g_z",
                    "better / worse",
                    "n",
                ]),
                rows: rows
                    .iter()
                    .filter(|r| r.of.difference.value.is_some())
                    .map(|r| {
                        vec![
                            r.line.short(),
                            r.baseline.map_or_else(|| SHADOW.to_owned(), Line::short),
                            number(r.of.value, 3),
                            number(r.of.baseline_value, 3),
                            shown(&r.of.difference, true),
                            p_shown(r.of.p),
                            p_shown(r.p_holm),
                            number(r.of.g_z, 2),
                            format!("{} / {}", number(r.of.better, 2), number(r.of.worse, 2)),
                            counts(&r.of.difference),
                        ]
                    })
                    .collect(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

    use super::*;
    use crate::report::series::Draws;
    use crate::report::statistics::bootstrap::Resampling;

    fn close(value: Option<f64>, expected: f64) {
        let value = value.expect("a value");
        assert!((value - expected).abs() < 1e-12, "{value} is not {expected}");
    }

    /// 8 needs of each of four trajectories; half of `b` is what `a` retains.
    fn four(without: Option<usize>) -> Lines {
        let a = Line::by_hand(
            "a @ t",
            &[("need_retention", &[(0.25, 8.0), (0.5, 8.0), (0.25, 8.0), (0.5, 8.0)])],
        );
        let b =
            Line::by_hand("b @ t", &[("need_retention", &[(0.5, 8.0), (1.0, 8.0), (0.5, 8.0), (1.0, 8.0)])]);
        Lines::by_hand(vec![a, without.into_iter().fold(b, Line::without)], 4)
    }

    #[test]
    fn a_difference_is_that_of_pooled_scores() {
        let lines = four(None);
        let rows = rows(&lines, None);
        let row = rows.iter().find(|r| r.metric == "need_retention").unwrap();
        assert_eq!((row.line.label.as_str(), row.baseline_name()), ("b @ t", "a @ t"));
        // 0.75 - 0.375
        close(row.of.difference.value, 0.375);
        assert_eq!((row.of.better, row.of.worse), (Some(1.0), Some(0.0)));
        // The differences are 1/4 and 1/2, twice: se^2 = 3/4 * 4 * (1/24)^2, t = 0.375 / 0.0722, 3 degrees of freedom.
        let (lo, hi) = row.of.difference.interval.unwrap();
        assert!((lo - 0.375 + 3.182_446_305 * 0.072_168_784).abs() < 1e-8 && (lo + hi - 0.75).abs() < 1e-12);
        assert!(row.of.p.unwrap() < 0.05);
        assert_eq!((row.of.difference.n_clusters, row.n_family), (4, 1));
    }

    #[test]
    fn only_trajectories_of_both_count() {
        let lines = four(Some(1));
        let rows = rows(&lines, None);
        let row = rows.iter().find(|r| r.metric == "need_retention").unwrap();
        assert_eq!(row.of.difference.n_trajectories, 3);
        // 24 needs are below the minimum: no share, no difference, no p.
        assert_eq!((row.of.value, row.of.difference.value, row.of.p), (None, None, None));
        assert_eq!(row.of.difference.reason.as_deref(), Some("24 items, fewer than 30"));
    }

    #[test]
    fn many_variants_are_compared_with_one_baseline() {
        let line = |label: &str| Line::by_hand(label, &[("need_retention", &[(0.5, 1.0)])]);
        let few: Vec<Line> = ["a @ t", "b @ t", "mask(x=1) @ t"].map(line).into();
        let few: Vec<&Line> = few.iter().collect();
        assert_eq!(pairs(&few, None), [(1, 0), (2, 0), (2, 1)]);
        assert_eq!(pairs(&few, Some("b")), [(0, 1), (2, 1)]);
        assert_eq!(pairs(&few, Some("mask(x=1) @ t")), [(0, 2), (1, 2)]);
        assert_eq!(pairs(&few, Some("nobody")), []);
        let names: Vec<String> =
            (0..11).map(|i| if i == 7 { "mask @ t".into() } else { format!("v{i} @ t") }).collect();
        let many: Vec<Line> = names.iter().map(|n| line(n)).collect();
        let many: Vec<&Line> = many.iter().collect();
        let found = pairs(&many, None);
        assert!(found.len() == 10 && found.iter().all(|(a, b)| *b == 7 && *a != 7), "{found:?}");
    }

    /// 200 simulated studies of 25 clusters in which both variants retain alike: p is under 0.05 in
    /// about 5 %; binomial noise of the count at 95 % is 3 points.
    #[test]
    fn p_is_small_about_as_often_as_it_says() {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        let mut uniform = move || f64::from(rng.next_u32()) / 4_294_967_296.0;
        let mut claimed = 0;
        for study in 0..200 {
            let mut hits = |needs: u32, share: f64| (0..needs).filter(|_| uniform() < share).count() as f64;
            let (mut a, mut b) = (Vec::new(), Vec::new());
            for cluster in 0..25 {
                let (needs, share) = (3 + cluster % 20, 0.3 + 0.02 * f64::from(cluster));
                a.push([hits(needs, share), f64::from(needs)]);
                b.push([hits(needs, share), f64::from(needs)]);
            }
            let draws = Draws::new(Resampling { seed: study, resamples: 1 }, vec![0.into(); 25].into());
            let of = |sums| {
                Series::of(&draws, crate::scores::registry::Scale::Share, vec![sums], 1)
                    .counting(25, (100, None))
            };
            let found = compare(&of(a), &of(b));
            claimed += usize::from(found.p.unwrap() < 0.05);
        }
        assert!((3..=20).contains(&claimed), "{claimed} of 200");
    }

    #[test]
    fn a_family_is_adjusted_together() {
        let line = Line::by_hand("a @ t", &[("need_retention", &[(0.5, 1.0)])]);
        let one = |p| row("need_retention", &line, None, Comparison { p, ..Comparison::default() });
        let rows = family(vec![one(Some(0.04)), one(None), one(Some(0.01))]);
        let found: Vec<_> = rows.iter().map(|r| (r.p_holm, r.n_family)).collect();
        assert_eq!(found, [(Some(0.04), 2), (None, 2), (Some(0.02), 2)]);
    }
}
