//! `own`: the values that programs of one's own gave, beside what was saved and kept by the scores of trajpress.
//!
//! They are pooled as all scores are: sum of value x weight / sum of weights over trajectories.

use super::pages::{METHOD, Page, Part, counts, estimate_columns, n_eff_column, number, shown};
use crate::report::lines::{Line, Lines, Measure, own_measure};
use crate::report::statistics::estimate::Estimate;
use crate::report::tables::{Entry, Input, Table};
use crate::scores::money::TOKEN_SAVINGS;
use crate::scores::own::UNSCORED_SHARE;
use crate::scores::registry::{About, stratum};
use crate::scores::retention::NEED_RETENTION;
use crate::text::escape;

pub(super) const ENTRY: Entry = Entry { name: "own", measures, page };

/// What stands beside them.
fn measures() -> Vec<Measure> {
    vec![Measure::of(&TOKEN_SAVINGS), Measure::of(&NEED_RETENTION)]
}

/// The scores of a variant.
struct Row<'a> {
    line: &'a Line,
    savings: Estimate,
    retention: Estimate,
    own: Vec<Value>,
}

/// A score of a variant.
struct Value {
    estimate: Estimate,
    /// Pooled, be there as little as there may.
    plain: Option<f64>,
    /// Share of the events that it has no value for.
    unscored: Option<f64>,
}

impl<'a> Row<'a> {
    fn of(lines: &Lines, line: &'a Line, own: &[About]) -> Self {
        let estimate = |measure: &str| lines.series(line, measure, None).estimate();
        let unscored = |about: &About| own_measure(UNSCORED_SHARE.name, &stratum(&about.name));
        let of = |about: &About| {
            let series = lines.series(line, &about.name, None);
            let unscored = share(&estimate(&unscored(about)));
            Value { estimate: series.estimate(), plain: series.pooled.value, unscored }
        };
        Row {
            line,
            savings: estimate(TOKEN_SAVINGS.name),
            retention: estimate(NEED_RETENTION.name),
            own: own.iter().map(of).collect(),
        }
    }

    fn is_scored(&self) -> bool {
        self.own.iter().any(|value| value.estimate.n_trajectories > 0 || value.unscored.is_some())
    }
}

/// A share of events, be they as few as they may.
fn share(of: &Estimate) -> Option<f64> {
    of.kept().map(|kept| kept / of.n_items as f64)
}

/// The page, or why there is none.
fn page(input: &Input) -> Result<Page, String> {
    let own = &input.run.own;
    if own.is_empty() {
        return Err("no program scored (`[[scores.programs]]` of the experiment names some)".to_owned());
    }
    let rows = input.lines.main().map(|line| Row::of(input.lines, line, own));
    let mut rows: Vec<Row> = rows.filter(Row::is_scored).collect();
    if rows.is_empty() {
        return Err("no event of the run has been scored by a program".to_owned());
    }
    let savings = |row: &Row| row.savings.value.unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| savings(a).total_cmp(&savings(b)));
    Ok(Page {
        table: table(own, &rows),
        title: "Scores of one's own",
        gist: "the values that programs of one's own gave, beside savings and need retention",
        about: format!(
            "What do programs that are no part of trajpress make of the compressions? Each was shown the prompt before an event, \
             the prompt after it and what came later, after the first four events of a run and then those whose number is a power of two. {METHOD}\n{}",
            own.iter().map(about).collect::<String>()
        ),
        parts: vec![part(own, &rows)],
        notes: "- A run's value is the mean of its events', weighted as the program says; a figure is pooled over runs likewise.\n\
                - *unscored*: share of the events for which the program gave no usable value; they count in no value.\n\
                - A variant without a compression has none. `*`: the plain mean of what there is, with fewer than 30 events or n_eff under 4; \
                the reason stands in `nulls`. `trajpress report RUN --population these` speaks of these logs alone, of which there are more.\n\
                - *n*: trajectories / clusters / n_eff of the last score."
            .to_owned(),
    })
}

fn about(own: &About) -> String {
    let end = |end: Option<f64>| end.map_or_else(|| "no limit".to_owned(), |x| x.to_string());
    let [low, high] = own.range.map(end);
    let (name, unit) = (escape::markdown(&own.name), escape::markdown(&own.unit));
    format!("\n- {name}: unit {unit}, from {low} to {high}, better: {}", own.better)
}

/// A value with its interval; what is below the minimum are no items to be counted, and has none.
fn shown_value(value: &Value) -> String {
    match (value.estimate.value, value.plain) {
        (None, Some(_)) => number(value.plain, 3) + "*",
        (None, None) => "-".to_owned(),
        _ => shown(&value.estimate, true),
    }
}

fn part(own: &[About], rows: &[Row]) -> Part {
    let mut header: Vec<String> = ["variant", "token savings", "need retention"].map(str::to_owned).to_vec();
    for about in own {
        header.extend([about.name.clone(), "unscored".to_owned()]);
    }
    header.push("n".to_owned());
    let cells = |row: &Row| {
        let mut cells = vec![row.line.label.clone(), shown(&row.savings, true), shown(&row.retention, true)];
        for value in &row.own {
            cells.extend([shown_value(value), number(value.unscored, 3)]);
        }
        cells.push(row.own.last().map_or_else(String::new, |last| counts(&last.estimate)));
        cells
    };
    Part { heading: None, header, rows: rows.iter().map(cells).collect() }
}

fn table(own: &[About], rows: &[Row]) -> Table {
    let all: Vec<(&Row, &About, &Value)> = rows
        .iter()
        .flat_map(|row| own.iter().zip(&row.own).map(move |(about, value)| (row, about, value)))
        .collect();
    let estimates = || all.iter().map(|(.., value)| &value.estimate);
    let mut t = Table::new(ENTRY.name);
    t.text("label", "the variant", all.iter().map(|(row, ..)| Some(row.line.label.clone())));
    t.text(
        "score",
        "name, version and hash of the program, and its parameters",
        all.iter().map(|(_, about, ..)| Some(about.name.clone())),
    );
    t.text("unit", "what one of it is", all.iter().map(|(_, about, ..)| Some(about.unit.clone())));
    t.text(
        "better",
        "`higher`, `lower` or `neither`",
        all.iter().map(|(_, about, ..)| Some(about.better.clone())),
    );
    estimate_columns(&mut t, "value", "pooled over trajectories", estimates());
    let plain = all.iter().map(|(.., value)| value.plain);
    t.fraction("mean", "the same, also where there is too little for a value: without an interval", plain);
    let unscored = all.iter().map(|(.., value)| value.unscored);
    t.fraction("unscored", "share of the events without a usable value", unscored);
    t.count("n_events", "events behind the value", estimates().map(|of| Some(of.n_items)));
    let n = estimates().map(|of| Some(of.n_trajectories as u64));
    t.count("n_trajectories", "trajectories behind the value", n);
    let n = estimates().map(|of| Some(of.n_clusters as u64));
    t.count("n_clusters", "clusters behind the value", n);
    n_eff_column(&mut t, estimates());
    t.text("nulls", "why a value is null", estimates().map(|of| of.reason.clone()));
    t
}
