//! `areas`: one number for a strategy across budgets.
//!
//! A strategy that takes a budget (the parameter `kept_share`, the share of the removable tokens it may
//! keep) has a curve of retention over the logarithm of the budget. Its area by the trapezoid rule,
//! divided by the length of the range ln(0.4) - ln(0.02), is a mean retention, 0 to 1, in which each
//! halving of the budget counts the same. Null under 3 budgets, or where they do not reach both ends of
//! the range: areas over other ranges do not compare.

use std::collections::BTreeMap;

use super::pages::{METHOD, Page, Part, counts, estimate_columns, header, n_eff_column, number, shown};
use crate::report::lines::{Line, Lines, Measure};
use crate::report::statistics::estimate::Estimate;
use crate::report::statistics::inference::Resampled;
use crate::report::tables::{Entry, Table};
use crate::scores::registry::{Field, Scale, Set};
use crate::scores::retention::NEED_RETENTION;

pub(super) const ENTRY: Entry = Entry { name: "areas", measures: measures, page: |input| page(input.lines) };

/// The parameter that is a budget.
const BUDGET: &str = "kept_share";
/// Ends of the range.
const RANGE: (f64, f64) = (0.02, 0.4);
const MIN_BUDGETS: usize = 3;

/// Set of needs; measures of the variant, its random and its oracle shadow.
const SETS: [(&str, Set, [&str; 3]); 2] = [
    ("common", Set::Whole, [NEED_RETENTION.name, "need_retention_random", "need_retention_oracle"]),
    (
        "exposed",
        Set::Exposed,
        ["need_retention_exposed", "need_retention_exposed_random", "need_retention_exposed_oracle"],
    ),
];

fn measures() -> Vec<Measure> {
    let fields = [Field::Value, Field::Floor, Field::Ceiling];
    let of = |(_, set, names): (_, Set, [&'static str; 3])| {
        names
            .into_iter()
            .zip(fields)
            .map(move |(name, field)| Measure::new(name, &NEED_RETENTION, set, field))
    };
    SETS.into_iter().flat_map(of).collect()
}

struct Row<'a> {
    /// The strategy with its other parameters.
    strategy: String,
    line: &'a Line,
    set: &'static str,
    budgets: Vec<f64>,
    area: Estimate,
    random: Estimate,
    oracle: Estimate,
    drop_all: Option<f64>,
}

/// The page, or why there is none.
pub(crate) fn page(lines: &Lines) -> Result<Page, String> {
    let rows = rows(lines);
    if rows.is_empty() {
        return Err(format!("no strategy was run with several values of `{BUDGET}`"));
    }
    if rows.iter().all(|r| r.area.value.is_none()) {
        return Err(format!(
            "no strategy has {MIN_BUDGETS} values of `{BUDGET}` from {} to {}, both included",
            RANGE.0, RANGE.1
        ));
    }
    Ok(Page {
        table: table(&rows),
        title: "Area under retention over budgets",
        gist: "one number for a strategy across budgets: area of need retention over the logarithm of the kept share",
        about: format!(
            "How good is a strategy whatever its budget? Its need retention at each kept share is drawn over the logarithm \
             of the share, and the area below (trapezoid rule) divided by the length of the range, {} to {}: a mean \
             retention, 0 to 1, in which every halving of the budget counts the same. {METHOD} \
             The same clusters are left out at every budget.\n\n\
             Beside it: the area of random lines and of the oracle at the same tokens (the matched shadows of the same \
             variants), and what `drop-all` retains under the same trigger with no budget at all.",
            RANGE.0, RANGE.1,
        ),
        parts: vec![part(&rows)],
        notes: format!(
            "- *set*: `common` asks every variant the same questions, and much of it survives whatever the strategy does; \
             `exposed` only what the trigger put at risk.\n\
             - A dash: fewer than {MIN_BUDGETS} budgets, or budgets that do not reach both {} and {}; the reason stands in \
             `nulls`.\n\
             - A strategy need not spend its budget: the axis is what it may keep.\n\
             - *n*: trajectories / clusters / n_eff.",
            RANGE.0, RANGE.1
        ),
    })
}

fn rows(lines: &Lines) -> Vec<Row<'_>> {
    let mut groups: BTreeMap<_, Vec<(f64, &Line)>> = BTreeMap::new();
    for line in lines.main() {
        let mut others = line.params.clone();
        if let Some(budget) = others.remove(BUDGET).and_then(|b| b.as_f64()) {
            let others = serde_json::Value::Object(others).to_string();
            let key = (&line.trigger, &line.strategy, others, &line.model);
            groups.entry(key).or_default().push((budget, line));
        }
    }
    let mut rows = Vec::new();
    for mut group in groups.into_values().filter(|g| g.len() > 1) {
        group.sort_by(|a, b| a.0.total_cmp(&b.0));
        let members: Vec<&Line> = group.iter().map(|(_, line)| *line).collect();
        let only = lines.shared(&members);
        let first = members[0];
        let drop_all = lines.main().find(|l| l.strategy == "drop-all" && l.trigger == first.trigger);
        for (set, _, measures) in SETS {
            let budgets: Vec<f64> = group.iter().map(|(budget, _)| *budget).collect();
            let [area, random, oracle] = measures.map(|measure| match weights(&budgets) {
                Err(reason) => Estimate::null(reason),
                Ok(weights) => {
                    let series: Vec<_> =
                        members.iter().map(|l| lines.series(l, measure, Some(&only))).collect();
                    let parts: Vec<_> = weights.iter().zip(&series).map(|(w, s)| (*w, &s.pooled)).collect();
                    // A mean of shares is a share.
                    let area = Resampled { scale: Scale::Share, ..Resampled::combine(&parts) };
                    Estimate { n_trajectories: series[0].n_trajectories, ..area.estimate() }
                }
            });
            rows.push(Row {
                strategy: without_budget(&first.short()),
                line: first,
                set,
                budgets,
                area,
                random,
                oracle,
                drop_all: drop_all.and_then(|l| lines.series(l, measures[0], Some(&only)).estimate().value),
            });
        }
    }
    rows
}

/// What each budget's value counts for in the area; budgets ascend. Those outside of the range count 0.
pub(crate) fn weights(budgets: &[f64]) -> Result<Vec<f64>, String> {
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    let inside = |b: f64| b > RANGE.0 - 1e-9 && b < RANGE.1 + 1e-9;
    let n = budgets.iter().filter(|b| inside(**b)).count();
    if n < MIN_BUDGETS {
        return Err(format!("{n} budgets from {} to {}, fewer than {MIN_BUDGETS}", RANGE.0, RANGE.1));
    }
    if !budgets.iter().any(|b| near(*b, RANGE.0)) || !budgets.iter().any(|b| near(*b, RANGE.1)) {
        return Err(format!("budgets do not reach both {} and {}", RANGE.0, RANGE.1));
    }
    let mut weights = vec![0.0; budgets.len()];
    for i in 1..budgets.len() {
        if inside(budgets[i - 1]) && inside(budgets[i]) {
            let half = (budgets[i] / budgets[i - 1]).ln() / 2.0;
            weights[i - 1] += half;
            weights[i] += half;
        }
    }
    let length = (RANGE.1 / RANGE.0).ln();
    Ok(weights.into_iter().map(|w| w / length).collect())
}

/// `random(kept_share=0.1,x=2)` to `random(x=2)`.
fn without_budget(name: &str) -> String {
    let Some(start) = name.find(&format!("{BUDGET}=")) else {
        return name.to_owned();
    };
    let end = name[start..].find([',', ')']).map_or(name.len(), |end| start + end);
    // The comma goes with what it stood beside.
    let (start, end) = match (name[end..].starts_with(','), name[..start].ends_with(',')) {
        (true, _) => (start, end + 1),
        (false, true) => (start - 1, end),
        (false, false) => (start, end),
    };
    format!("{}{}", &name[..start], &name[end..]).replace("()", "")
}

fn list(budgets: &[f64]) -> String {
    budgets.iter().map(f64::to_string).collect::<Vec<_>>().join(", ")
}

fn table(rows: &[Row]) -> Table {
    let mut t = Table::new(ENTRY.name);
    t.text(
        "strategy",
        "the strategy with its parameters but for the budget",
        rows.iter().map(|r| Some(r.strategy.clone())),
    );
    t.text("trigger", "when it compresses", rows.iter().map(|r| Some(r.line.trigger.clone())));
    t.text("set", "needs: common or exposed", rows.iter().map(|r| Some(r.set.to_owned())));
    t.text("budgets", "kept shares that were run", rows.iter().map(|r| Some(list(&r.budgets))));
    let area = "area of need retention over ln(kept share), trapezoid rule, divided by the length of the range from 0.02 to 0.4; 0 to 1";
    estimate_columns(&mut t, "area", area, rows.iter().map(|r| &r.area));
    let random = "the same of the matched random shadows: the floor at equal tokens";
    estimate_columns(&mut t, "random_area", random, rows.iter().map(|r| &r.random));
    let oracle = "the same of the matched oracle shadows: the ceiling at equal tokens";
    estimate_columns(&mut t, "oracle_area", oracle, rows.iter().map(|r| &r.oracle));
    t.fraction(
        "drop_all",
        "need retention of drop-all under the same trigger, which has no budget; null where it was not run",
        rows.iter().map(|r| r.drop_all),
    );
    t.count(
        "n_trajectories",
        "trajectories behind the area",
        rows.iter().map(|r| Some(r.area.n_trajectories as u64)),
    );
    t.count("n_clusters", "clusters behind the area", rows.iter().map(|r| Some(r.area.n_clusters as u64)));
    n_eff_column(&mut t, rows.iter().map(|r| &r.area));
    t.text("nulls", "why the area or its interval is null", rows.iter().map(|r| r.area.reason.clone()));
    t
}

fn part(rows: &[Row]) -> Part {
    Part {
        heading: None,
        header: header([
            "strategy", "trigger", "set", "budgets", "drop-all", "random", "area", "oracle", "n",
        ]),
        rows: rows
            .iter()
            .map(|r| {
                vec![
                    r.strategy.clone(),
                    r.line.trigger.clone(),
                    r.set.to_owned(),
                    list(&r.budgets),
                    number(r.drop_all, 3),
                    shown(&r.random, true),
                    shown(&r.area, true),
                    shown(&r.oracle, true),
                    counts(&r.area),
                ]
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_the_trapezoid_rule_on_a_log_axis() {
        // ln 20 = 2.9957; steps of ln 2.5, ln 2, ln 2, ln 2.
        let weights = weights(&[0.02, 0.05, 0.1, 0.2, 0.4]).unwrap();
        let (a, b) = (2.5_f64.ln() / 20.0_f64.ln(), 2.0_f64.ln() / 20.0_f64.ln());
        for (w, expected) in weights.iter().zip([a / 2.0, (a + b) / 2.0, b, b, b / 2.0]) {
            assert!((w - expected).abs() < 1e-12, "{weights:?}");
        }
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_strategy_has_one_area_a_set_of_needs() {
        let line = |label: &str, value| {
            Line::by_hand(
                label,
                &[("need_retention", &[(value, 8.0); 4]), ("need_retention_random", &[(0.1, 8.0); 4])],
            )
        };
        let mut all = vec![line("drop-all @ t", 0.05)];
        all.extend(
            [0.02, 0.05, 0.1, 0.2, 0.4]
                .map(|b| line(&format!("x(kept_share={b}) @ t"), if b < 0.1 { 0.0 } else { 1.0 })),
        );
        let lines = Lines::by_hand(all, 4);
        let rows = rows(&lines);
        assert_eq!((rows.len(), rows[0].strategy.as_str(), rows[0].set), (2, "x", "common"));
        // 1 from 0.1 on, and half of the step from 0.05 to 0.1: (ln 4 + ln 2 / 2) / ln 20.
        let expected = (4.0_f64.ln() + 2.0_f64.ln() / 2.0) / 20.0_f64.ln();
        assert!((rows[0].area.value.unwrap() - expected).abs() < 1e-12);
        assert!((rows[0].random.value.unwrap() - 0.1).abs() < 1e-12);
        assert!((rows[0].drop_all.unwrap() - 0.05).abs() < 1e-12);
        assert_eq!(rows[1].area.reason.as_deref(), Some("no data"));
    }

    #[test]
    fn an_area_over_another_range_is_null() {
        assert_eq!(weights(&[0.02, 0.4]).unwrap_err(), "2 budgets from 0.02 to 0.4, fewer than 3");
        assert_eq!(weights(&[0.05, 0.1, 0.2]).unwrap_err(), "budgets do not reach both 0.02 and 0.4");
        // A budget beyond the range does not count.
        assert_eq!(weights(&[0.02, 0.1, 0.4, 0.8]).unwrap()[3], 0.0);
    }

    #[test]
    fn names_lose_their_budget() {
        assert_eq!(without_budget("random(kept_share=0.1)"), "random");
        assert_eq!(without_budget("x(a=1,kept_share=0.1) [m]"), "x(a=1) [m]");
        assert_eq!(without_budget("x(kept_share=0.1,b=2)"), "x(b=2)");
        assert_eq!(without_budget("mask"), "mask");
    }
}
