//! What is kept by the age of the need: how many turns ago it was last mentioned, and how soon after a compression it came up.

use super::plot::{self, AROUND, Axis, Frame, Scale, Series, heights, is_wide, panels, sheet};
use super::{Chart, Entry, Input, line, spot, with_needs};
use crate::report::figures::canvas::Canvas;
use crate::report::figures::marker::Style;
use crate::report::statistics::estimate::Estimate;
use crate::report::tables::Table;
use crate::report::tables::summary::VariantSummary;
use crate::scores::retention::NEED_RETENTION;

pub(super) const ENTRY: Entry = Entry { name: "age", chart };

/// What divides needs, at which numbers of turns, and the strata of each.
struct Part {
    key: &'static str,
    title: &'static str,
    below: &'static str,
    turns: Vec<u32>,
    stratum: fn(&str, u32) -> String,
}

fn parts(rows: &[&VariantSummary]) -> Vec<Part> {
    let part =
        |key, title, below, stratum: fn(&str, u32) -> String, within: &dyn Fn(&VariantSummary) -> String| {
            let names = rows
                .iter()
                .flat_map(|row| row.of_metric(NEED_RETENTION.name).map(move |of| (within(row), of)));
            let turns = names.filter_map(|(within, (name, _))| {
                let rest = name.strip_prefix(&within)?;
                rest.strip_prefix(&format!("{key}="))?.parse().ok()
            });
            let mut turns: Vec<u32> = turns.collect();
            turns.sort_unstable();
            turns.dedup();
            Part { key, title, below, turns, stratum }
        };
    let all = [
        part(
            "tail",
            "needs kept, the same needs for all variants",
            "last mentioned more than so many turns before",
            |_, n| format!("set=common tail={n}"),
            &|_| "set=common ".to_owned(),
        ),
        part(
            "horizon",
            "needs kept, of those put at risk",
            "needed at most so many turns after a compression",
            |tail, n| format!("set=exposed tail={tail} horizon={n}"),
            &|row| format!("set=exposed tail={} ", row.tail),
        ),
    ];
    all.into_iter().filter(|part| part.turns.len() > 1).collect()
}

impl Part {
    fn of<'r>(&self, row: &'r VariantSummary, turns: u32) -> Option<&'r Estimate> {
        row.stratum(NEED_RETENTION.name, &(self.stratum)(&row.tail, turns))
    }

    fn series(&self, rows: &[(Style, &VariantSummary)]) -> Vec<Series> {
        let one = |(style, row): &(Style, &VariantSummary)| {
            let points =
                self.turns.iter().enumerate().filter_map(|(x, turns)| spot(x, self.of(row, *turns)?));
            line(*style, &row.label, points, true)
        };
        rows.iter().filter_map(one).collect()
    }
}

fn chart(input: &Input) -> Result<Chart, String> {
    let rows = input.leading();
    let looks: Vec<(Style, &VariantSummary)> = rows.iter().map(|row| (input.style(row), *row)).collect();
    let mut parts = parts(&rows);
    parts.retain(|part| !part.series(&looks).is_empty());
    if parts.is_empty() {
        return Err("no variant has enough needs of two ages".to_owned());
    }
    let caption = "The best setting of each strategy, with 95 % intervals. Each point is of all needs at least (left) or at most (right) \
                   so far away, so that neighbours share needs; in brackets how many. `reference_tails` of an experiment adds ages."
        .to_owned();
    let data = data(&parts, &rows);
    Ok(Chart::new("Needs kept by their age".to_owned(), caption, data, |width| draw(width, &parts, &looks)))
}

fn data(parts: &[Part], rows: &[&VariantSummary]) -> Table {
    let all = || {
        parts.iter().flat_map(move |part| {
            rows.iter().flat_map(move |row| {
                part.turns.iter().map(move |turns| (part, row, *turns, part.of(row, *turns)))
            })
        })
    };
    let mut t = Table::new("age");
    t.text(
        "by",
        "tail: last mentioned more than so many turns before; horizon: turns since a compression, at most",
        all().map(|(part, ..)| Some(part.key.to_owned())),
    );
    t.text("variant", "its label", all().map(|(_, row, ..)| Some(row.label.clone())));
    t.count("turns", "see by", all().map(|(_, _, turns, _)| Some(u64::from(turns))));
    t.fraction("needs_kept", "need retention", all().map(|(.., of)| of?.value));
    t.fraction("lo", "lower end of its 95 % interval", all().map(|(.., of)| of?.lo()));
    t.fraction("hi", "upper end", all().map(|(.., of)| of?.hi()));
    t.count("needs", "behind it", all().map(|(.., of)| Some(of?.n_items)));
    t
}

fn draw(width: f64, parts: &[Part], rows: &[(Style, &VariantSummary)]) -> Canvas {
    let mut canvas = sheet(width, "Needs kept by their age");
    let height = AROUND + if is_wide(width) { 110.0 } else { 90.0 };
    let (boxes, end) = panels(width, 0.0, parts.len(), height);
    let all: Vec<Vec<Series>> = parts.iter().map(|part| part.series(rows)).collect();
    // One scale, so that the parts can be compared.
    let scale = Scale::around(all.iter().flat_map(|series| heights(series)));
    for ((of, part), series) in boxes.into_iter().zip(parts).zip(&all) {
        let lines: Vec<Vec<_>> = rows
            .iter()
            .map(|(_, row)| part.turns.iter().map(|turns| part.of(row, *turns)).collect())
            .collect();
        let turns = |(at, turns): (usize, &u32)| with_needs(&turns.to_string(), at, &lines);
        let x = Axis::names(part.turns.iter().enumerate().map(turns).collect(), part.below);
        let y = Axis::numbers(scale, part.title);
        Frame::draw(&mut canvas, of, &x, &y).series(&mut canvas, series);
    }
    canvas.height = plot::key_of(&mut canvas, end, &all);
    canvas
}
