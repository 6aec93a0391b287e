//! The headline by source of the logs: a small plot each, all to one scale.

use super::plot::{self, AROUND, Axis, Frame, Scale, is_wide, note, sheet};
use super::{Chart, Entry, Input};
use crate::report::figures::canvas::Canvas;
use crate::report::figures::labels::Rect;
use crate::report::figures::marker::{Style, draw_marker};
use crate::report::statistics::estimate::Estimate;
use crate::report::tables::Table;
use crate::report::tables::summary::VariantSummary;

pub(super) const ENTRY: Entry = Entry { name: "sources", chart };

/// Plots at most: of the sources with most runs.
const MOST: usize = 8;
const GAP: f64 = 10.0;

/// A source, its runs, and of each variant with figures there what was saved and kept.
struct Source<'a> {
    format: &'a str,
    n: usize,
    points: Vec<(usize, [&'a Estimate; 2])>,
}

fn sources<'a>(input: &Input<'a>, rows: &[&'a VariantSummary]) -> Vec<Source<'a>> {
    let mut sources: Vec<Source<'a>> = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        for (format, n, estimates) in input.summary.by_source(&row.variant) {
            if estimates.iter().any(|of| of.value.is_none()) {
                continue;
            }
            match sources.iter_mut().find(|source| source.format == format) {
                Some(source) => source.points.push((i, estimates)),
                None => sources.push(Source { format, n, points: vec![(i, estimates)] }),
            }
        }
    }
    sources.retain(|source| source.points.len() > 1);
    sources.sort_by(|a, b| b.n.cmp(&a.n).then(a.format.cmp(b.format)));
    sources.truncate(MOST);
    sources
}

fn chart(input: &Input) -> Result<Chart, String> {
    let rows = input.leading();
    let sources = sources(input, &rows);
    if sources.len() < 2 {
        return Err("no two sources of logs have enough needs under two strategies".to_owned());
    }
    let title = "Needs kept over tokens saved, by source";
    let caption = "The headline for each format of log: the best setting of each strategy, with 95 % intervals. All plots have one scale.";
    let looks: Vec<(Style, &str)> = rows.iter().map(|row| (input.style(row), row.label.as_str())).collect();
    let left_out = left_out(input, &sources);
    Ok(Chart::new(title.to_owned(), caption.to_owned(), data(&sources, &rows), |width| {
        draw(width, title, &sources, (&looks, &left_out))
    }))
}

/// The formats without a plot, in words; empty where all have one.
fn left_out(input: &Input, sources: &[Source]) -> String {
    let first = input.summary.rows.first().map_or("", |row| row.variant.as_str());
    let others =
        input.summary.by_source(first).filter(|(format, ..)| sources.iter().all(|s| s.format != *format));
    let told: Vec<String> = others.map(|(format, n, _)| format!("{format} ({n})")).collect();
    match told.is_empty() {
        true => String::new(),
        false => format!("; without a plot, for too few needs or runs: {}", told.join(", ")),
    }
}

fn data(sources: &[Source], rows: &[&VariantSummary]) -> Table {
    let all =
        || sources.iter().flat_map(|source| source.points.iter().map(move |(i, of)| (source, rows[*i], of)));
    let mut t = Table::new("sources");
    t.text("format", "format of the logs", all().map(|(source, ..)| Some(source.format.to_owned())));
    t.count("runs", "of that format", all().map(|(source, ..)| Some(source.n as u64)));
    t.text("variant", "its label", all().map(|(_, row, _)| Some(row.label.clone())));
    for (at, name, doc) in [(0, "saved", "token savings"), (1, "kept", "need retention, common needs")] {
        t.fraction(name, doc, all().map(|(.., of)| of[at].value));
        t.fraction(
            &format!("{name}_lo"),
            "lower end of its 95 % interval",
            all().map(|(.., of)| of[at].lo()),
        );
        t.fraction(&format!("{name}_hi"), "upper end", all().map(|(.., of)| of[at].hi()));
    }
    t.count("needs", "behind kept", all().map(|(.., of)| Some(of[1].n_items)));
    t
}

fn draw(width: f64, title: &str, sources: &[Source], (looks, left_out): (&[(Style, &str)], &str)) -> Canvas {
    let mut canvas = sheet(width, title);
    let columns = sources.len().min(if is_wide(width) { 4 } else { 2 });
    let (wide, high) = ((width - GAP * (columns - 1) as f64) / columns as f64, AROUND + 78.0);
    let scale = |at: usize| {
        let of = sources.iter().flat_map(|source| &source.points).map(move |(_, of)| of[at]);
        Scale::around(of.flat_map(|of| [of.value, of.lo(), of.hi()]).flatten())
    };
    let (across, up) = (scale(0), scale(1));
    let mut end = 0.0;
    for (at, source) in sources.iter().enumerate() {
        let (x0, y0) = ((at % columns) as f64 * (wide + GAP), (at / columns) as f64 * (high + 6.0));
        let runs = if source.n == 1 { "run" } else { "runs" };
        let y = Axis::numbers(up, &format!("{}, {} {runs}", source.format, source.n));
        let x = Axis::numbers(across, "tokens saved");
        end = y0 + high;
        let frame = Frame::draw(&mut canvas, Rect { x0, y0, x1: x0 + wide, y1: end }, &x, &y);
        for (i, [saved, kept]) in &source.points {
            let (Some(saved_value), Some(kept_value)) = (saved.value, kept.value) else { continue };
            let pale = looks[*i].0.colour.lighter(0.45);
            if let Some((lo, hi)) = saved.interval {
                canvas.line(&[frame.at(lo, kept_value), frame.at(hi, kept_value)], 0.6, pale);
            }
            if let Some((lo, hi)) = kept.interval {
                canvas.line(&[frame.at(saved_value, lo), frame.at(saved_value, hi)], 0.6, pale);
            }
        }
        for (i, [saved, kept]) in &source.points {
            if let (Some(x), Some(y)) = (saved.value, kept.value) {
                draw_marker(&mut canvas, frame.at(x, y), plot::RADIUS, looks[*i].0);
            }
        }
    }
    let is_drawn = |i: &usize| sources.iter().any(|source| source.points.iter().any(|(of, _)| of == i));
    let names: Vec<(Style, &str)> = (0..looks.len()).filter(is_drawn).map(|i| looks[i]).collect();
    let end = note(&mut canvas, end, &format!("up: needs kept, the same needs for all variants{left_out}"));
    canvas.height = plot::key(&mut canvas, end + 1.0, &names);
    canvas
}
