//! `report.html`: one file that shows a run to a reader with a browser and nothing else.
//!
//! The page is src/data/report.html with the rows as JSON in it: its script draws the figure and the tables, sorts and filters
//! them, and has a page a variant. It loads nothing. Text of the run stands in the JSON alone, and goes into the page as text.

mod events;

use std::collections::BTreeMap;
use std::path::Path;

use indicatif::HumanCount;
use serde_json::{Value, json};

use crate::report::figures::canvas::Canvas;
use crate::report::figures::charts::Chart;
use crate::report::figures::{self, FULL};
use crate::report::lines::{Line, Lines};
use crate::report::load::Run;
use crate::report::statistics::estimate::Estimate;
use crate::report::statistics::inference::MIN_ITEMS;
use crate::report::tables::differences;
use crate::report::tables::summary::{Part, Summary, VariantSummary, metric};
use crate::report::tables::{Cells, Column, Table, fixed};
use crate::report::{Charts, Night};
use crate::scores;
use crate::scores::money::{COST_SAVINGS, TOKEN_SAVINGS, TOKEN_SAVINGS_BILLED};
use crate::scores::retention::NEED_RETENTION;
use crate::text::escape;

const PAGE: &str = include_str!("../../data/report.html");
/// What is asked of every variant alike.
const NEEDS: &str = "need_retention_common";
/// What divides the needs and statements of a variant's page, by the key of the stratum.
const DIVISIONS: [&str; 6] = ["kind", "class", "horizon", "point", "type", "category"];
/// What saves less saves nothing to speak of.
const SAVES: f64 = 0.005;
/// A loss of money of less is none.
const COSTS: f64 = 0.005;

/// What stands on the page.
pub(super) struct Shown<'a> {
    /// The summary, its strata and its rows by format.
    pub(super) tables: &'a [Table],
    /// The figures beside the headline.
    pub(super) charts: &'a Charts,
    /// The result.
    pub(super) sentence: &'a str,
    /// What the figure shows, where that is not the summary, and of which logs it speaks.
    pub(super) headline: Option<(&'a Summary, &'static str)>,
}

/// The page; `folder` is that of the run, and `with_text` says whether text of its logs may stand there.
pub(super) fn page(
    run: &Run,
    summary: &Summary,
    &Shown { tables, charts, sentence, headline }: &Shown,
    (folder, with_text): (&Path, bool),
) -> anyhow::Result<String> {
    let find = |name: &str| tables.iter().find(|table| table.name == name);
    let controls: Vec<bool> = summary.rows.iter().map(|row| row.control).collect();
    let worst = |row: &VariantSummary| {
        let of = row.lost.worst?;
        Some(
            json!({ "session": run.trajectories[of.trajectory as usize].id, "lost": of.lost, "counted": of.is_counted }),
        )
    };
    let labels: Vec<(&str, bool)> =
        summary.rows.iter().map(|row| (row.label.as_str(), row.strategy == FULL)).collect();
    let (short, triggers) = figures::shortened(&labels);
    let short =
        summary.rows.iter().zip(&short).map(|(row, short)| (row.variant.clone(), json!(escape::line(short))));
    let efficiency = metric("efficiency");
    let styles = summary.styles();
    // The rank of each row in summary.md; what compares with none comes last.
    let best = summary.best_first();
    let rank =
        |row: &VariantSummary| best.iter().position(|of| of.variant == row.variant).unwrap_or(best.len());
    let order: Vec<usize> = summary.rows.iter().map(rank).collect();
    let mut columns = serde_json::Map::new();
    for name in ["summary", "by_format"] {
        columns.extend(find(name).map(|table| (name.to_owned(), as_json(table, FINE - 4, &|_| true))));
    }
    if let Some(strata) = find("strata") {
        columns.insert("strata".to_owned(), as_json(strata, 0, &divides(strata, summary.tail())));
    }
    let night = Night::read(folder)?;
    let data = json!({
        "title": title(run, night.as_ref()),
        "night": night.as_ref().map(of_night),
        "sentence": escape::line(sentence),
        "about": format!(
            "{} variants over {} logged sessions. Each was replayed under each variant; nobody ran an agent again, so no figure \
             estimates how many tasks are solved. Intervals are 95 %, and speak of {}.",
            summary.rows.len(), summary.n_trajectories, summary.population.name()
        ),
        "how": format!(
            "Needs kept: the share of what the agent used later, and had last seen more than {} turns before, that still stood in its \
             prompt; hover over it for the count of needs (in the share those of one action weigh 1 together). Efficiency: where that lies between random lines (0) and those that later needs ask for (1), of as many tokens. \
             Worst session: the one that loses most needs, and how many{}. A dash is undefined, never 0: hover over it for the reason.",
            summary.tail(), summary.at_least().replace('*', "")
        ),
        "foot": format!(
            "trajpress {}. A cluster of the statistics is {}. All scores stand in summary.csv and strata.csv beside this page.",
            env!("CARGO_PKG_VERSION"), summary.cluster()
        ),
        "headline": headline.map(|(of, population)| json!({ "of": population, "table": of_figure(of.table()) })),
        "needs": NEEDS,
        "set": "common",
        "controls": controls,
        "worst": summary.rows.iter().map(worst).collect::<Vec<_>>(),
        "short": short.collect::<serde_json::Map<_, _>>(),
        "triggers": escape::line(&triggers),
        "looks": summary.rows.iter().map(|row| summary.look(&styles, row).told()).collect::<Vec<_>>(),
        "order": order,
        "why": summary.rows.iter().map(|row| row.estimates[efficiency].in_short()).collect::<Vec<_>>(),
        "called": scores::all().map(|score| (score.name, score.called())).collect::<BTreeMap<_, _>>(),
        "parts": parts(summary),
        "remarks": summary.remarks.iter().map(|r| escape::line(r)).collect::<Vec<_>>(),
        "events": events::events(folder, with_text)?,
        "figures": charts.iter().filter_map(|(_, chart)| Some(figure(chart.as_ref().ok()?))).collect::<Vec<_>>(),
        "tables": columns,
    });
    // Within a script no `<` may stand: it could end it.
    let data = serde_json::to_string(&data)?.replace('<', "\\u003c");
    Ok(PAGE.replacen(">DATA<", &format!(">{data}<"), 1))
}

/// The run's name and its data, and when a night was: what tells one page from another, and is the same whenever it is made.
fn title(run: &Run, night: Option<&Night>) -> Value {
    let when = night.and_then(Night::when).map(|when| format!("Night of {when}"));
    let name = Some(&run.name).filter(|name| !name.is_empty()).map(|name| format!("experiment `{name}`"));
    let data = Some(&run.data).filter(|data| !data.is_empty()).map(|data| format!("data {data}"));
    let told: Vec<String> = [when, name, data].into_iter().flatten().collect();
    json!(escape::line(&told.join(" \u{b7} ")))
}

/// The columns of a summary that the figure is drawn from.
fn of_figure(mut table: Table) -> Value {
    let drawn = [TOKEN_SAVINGS.name, TOKEN_SAVINGS_BILLED.name, COST_SAVINGS.name, NEEDS, "efficiency"];
    let is_drawn =
        |name: &str| drawn.iter().any(|of| ["", "_lo", "_hi"].iter().any(|end| name == format!("{of}{end}")));
    table.columns.retain(|column| column.name == "variant" || is_drawn(&column.name));
    as_json(&table, FINE - 4, &|_| true)
}

/// What the night says of the one before it.
fn of_night(night: &Night) -> Value {
    let line = |text: &String| escape::line(text);
    let row = |row: &Vec<String>| row.iter().map(line).collect::<Vec<_>>();
    json!({
        "said": line(&night.said),
        "before": night.before.as_ref().map(line),
        "about": line(&night.about),
        "head": row(&night.head),
        "rows": night.rows.iter().map(row).collect::<Vec<_>>(),
        "notes": row(&night.notes),
    })
}

/// Sessions of a length, or of an agent, under each variant: values with their intervals, beside the variants.
fn parts(summary: &Summary) -> Value {
    let instead = |of: &Estimate| {
        of.counted
            .map_or_else(|| of.in_short().to_owned(), |counted| format!("{} of {}", counted.kept, counted.n))
    };
    let estimate = |of: &Estimate| {
        json!([rounded(of.value, FINE), rounded(of.lo(), FINE), rounded(of.hi(), FINE), instead(of)])
    };
    let part = |(i, part): (usize, &Part)| {
        let of = |row: &VariantSummary| row.parts[i].iter().map(estimate).collect::<Vec<_>>();
        json!({
            "by": part.by,
            "name": escape::line(&part.name),
            "n": part.n(),
            "rows": summary.rows.iter().map(of).collect::<Vec<_>>(),
        })
    };
    json!(summary.parts.iter().enumerate().map(part).collect::<Vec<_>>())
}

/// A figure in its two widths.
fn figure(chart: &Chart) -> Value {
    json!({
        "title": escape::line(&chart.title),
        "caption": escape::line(&chart.caption),
        "drawn": chart.drawn.iter().map(Canvas::json).collect::<Vec<_>>(),
    })
}

/// Decimals of what stands beside the sentence, which has them all: the page rounds what it shows, and what is rounded twice can be
/// another figure than what is rounded once.
const FINE: usize = 8;

/// Columns with their documentation; words of a column once. Numbers have the decimals of the csv, or so many more.
fn as_json(table: &Table, finer: usize, is_shown: &dyn Fn(usize) -> bool) -> Value {
    let rows: Vec<usize> = (0..table.n_rows()).filter(|&row| is_shown(row)).collect();
    let column = |column: &Column| {
        let mut words: Vec<String> = Vec::new();
        let mut places = std::collections::HashMap::new();
        let cells: Vec<Value> = match &column.cells {
            Cells::Text(all) => rows
                .iter()
                .map(|&row| {
                    let Some(text) = &all[row] else { return Value::Null };
                    let place = places.entry(text.as_str()).or_insert_with(|| {
                        words.push(escape::line(text));
                        words.len() - 1
                    });
                    json!(*place)
                })
                .collect(),
            Cells::Count(all) => rows.iter().map(|&row| json!(all[row])).collect(),
            Cells::Flag(all) => rows.iter().map(|&row| json!(all[row])).collect(),
            Cells::Number(all, decimals) => {
                rows.iter().map(|&row| json!(rounded(all[row], decimals + finer))).collect()
            }
        };
        let words = matches!(column.cells, Cells::Text(_)).then_some(words);
        json!({ "name": column.name, "doc": column.doc, "cells": cells, "words": words })
    };
    json!({ "n_rows": rows.len(), "columns": table.columns.iter().map(column).collect::<Vec<_>>() })
}

fn rounded(x: Option<f64>, decimals: usize) -> Option<f64> {
    fixed(x?, decimals).parse().ok()
}

/// Whether a row of the strata stands on the page of its variant: needs put at risk, by one thing that divides them, and statements
/// by theirs.
fn divides<'t>(strata: &'t Table, tail: &'t str) -> impl Fn(usize) -> bool + 't {
    let texts = |name: &str| {
        let column = strata.columns.iter().find(|column| column.name == name);
        column.and_then(|column| if let Cells::Text(all) = &column.cells { Some(all) } else { None })
    };
    let (metrics, all) = (texts("metric"), texts("stratum"));
    move |row| {
        let of = |column: Option<&'t Vec<Option<String>>>| {
            column.and_then(|all| all[row].as_deref()).unwrap_or("")
        };
        let mut keys: Vec<(&str, &str)> =
            of(all).split_whitespace().filter_map(|part| part.split_once('=')).collect();
        let ours = if of(metrics) == NEED_RETENTION.name {
            vec![("set", "exposed"), ("tail", tail)]
        } else {
            vec![("point", "end")]
        };
        let n = keys.len();
        keys.retain(|key| !ours.contains(key));
        keys.len() + ours.len() == n && keys.len() == 1 && DIVISIONS.contains(&keys[0].0)
    }
}

/// Of what there is too little: needs, or clusters that they come from.
fn too_few(kept: &Estimate) -> String {
    match kept.n_eff {
        Some(n_eff) if kept.n_items >= MIN_ITEMS => {
            format!(
                "its {} needs come from too few independent sources (they tell as much as {} sources of equal size)",
                HumanCount(kept.n_items),
                // What is short of the minimum does not read as the minimum.
                fixed((10.0 * n_eff).floor() / 10.0, 1)
            )
        }
        _ => format!("{} needs are too few", kept.n_items),
    }
}

/// The result in words: the variant that saves and keeps most together, and what it costs to save more.
pub(super) fn sentence(run: &Run, summary: &Summary, lines: &Lines) -> String {
    let (saved, kept) = (metric(TOKEN_SAVINGS.name), metric(NEEDS));
    let choices: Vec<&VariantSummary> = summary
        .main_rows()
        .filter(|r| !r.control && r.estimates[saved].value.is_some_and(|s| s > SAVES))
        .collect();
    let of = |row: &VariantSummary, at: usize| row.estimates[at].value.unwrap_or(0.0);
    let both = |row: &VariantSummary| of(row, saved) + of(row, kept);
    let told = |row: &&&VariantSummary| row.estimates[kept].value.is_some();
    let percent = |x: f64| format!("{} %", fixed(100.0 * x, 0));
    // What sends less can cost more: what is cached is cheap, and each compression ends that.
    let costs = |row: &VariantSummary| match row.estimates[metric(COST_SAVINGS.name)].value {
        Some(saved) if saved <= -COSTS => {
            format!(", but costs {} more money than nothing compressed", percent(-saved))
        }
        _ => String::new(),
    };
    let Some(best) = choices.iter().filter(told).max_by(|a, b| both(a).total_cmp(&both(b))) else {
        let counted = |row: &VariantSummary| of(row, saved) + summary.kept_share(row).unwrap_or(0.0);
        let Some(most) = choices.iter().max_by(|a, b| counted(a).total_cmp(&counted(b))) else {
            return "No variant sent fewer tokens than the logs.".to_owned();
        };
        let lost = &most.estimates[kept];
        let (counted, end) = match lost.kept() {
            Some(n) => (format!(" and keeps {n:.0} of {} needs", HumanCount(lost.n_items)), "for a share"),
            None => (String::new(), "to say what it loses"),
        };
        return format!(
            "`{}` sends {} fewer tokens{counted}{}; {} {end}.",
            most.label,
            percent(of(most, saved)),
            costs(most),
            too_few(lost)
        );
    };
    let mut said = format!(
        "`{}` sends {} fewer tokens and keeps {} of what was needed later{}",
        best.label,
        percent(of(best, saved)),
        interval(&best.estimates[kept]),
        costs(best)
    );
    let cheaper = choices.iter().filter(told).filter(|row| of(row, saved) > of(best, saved) + SAVES);
    if let Some(next) = cheaper.max_by(|a, b| both(a).total_cmp(&both(b))) {
        let lost = line(run, lines, best).zip(line(run, lines, next)).map(|(a, b)| {
            let shared = lines.shared(&[a, b]);
            let series = |line| lines.series(line, NEED_RETENTION.name, Some(&shared));
            differences::compare(&series(a), &series(b)).difference
        });
        let clause = match lost {
            Some(of) if of.interval.is_some_and(|(lo, _)| lo > 0.0) => {
                format!("fewer and keeps less of it, by {}", interval(&of))
            }
            // Where all clusters agree there is no interval, and no doubt.
            Some(of) if of.all_agree() => match of.value.unwrap_or(0.0) {
                less if less > 0.0 => {
                    format!("fewer and keeps less of it, by {} in every source alike", fixed(less, 2))
                }
                _ => "fewer and keeps as much of it".to_owned(),
            },
            Some(of) if of.value.is_some() => {
                format!(
                    "fewer; whether it keeps less of it cannot be told (a difference of {})",
                    interval(&of)
                )
            }
            _ => "fewer".to_owned(),
        };
        said += &format!("; `{}` sends {} {clause}{}", next.label, percent(of(next, saved)), costs(next));
    }
    said + "."
}

/// The line that a row is one of.
fn line<'l>(run: &Run, lines: &'l Lines, row: &VariantSummary) -> Option<&'l Line> {
    let place = run.variants.iter().position(|variant| variant.variant == row.variant)?;
    lines.all.iter().find(|line| line.members.contains(&place))
}

fn interval(of: &Estimate) -> String {
    let value = of.value.map_or_else(|| "-".to_owned(), |x| fixed(x, 2));
    of.interval.map_or(value.clone(), |(lo, hi)| format!("{value} [{}, {}]", fixed(lo, 2), fixed(hi, 2)))
}

#[cfg(test)]
mod tests;
