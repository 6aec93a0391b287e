//! What is kept by the number of compressions before the need.

use super::plot::{self, AROUND, Axis, Frame, Scale, Series, heights, is_wide, panels, sheet};
use super::{Chart, Entry, Input, line, spot, with_needs};
use crate::report::statistics::estimate::Estimate;
use crate::report::tables::Table;
use crate::report::tables::summary::VariantSummary;
use crate::scores::retention::NEED_RETENTION;

pub(super) const ENTRY: Entry = Entry { name: "rounds", chart };

/// Compressions that have strata of their own.
const ROUNDS: [u32; 3] = [1, 2, 3];

fn of(row: &VariantSummary, round: u32) -> Option<&Estimate> {
    row.stratum(NEED_RETENTION.name, &format!("set=exposed tail={} point={round}", row.tail))
}

fn chart(input: &Input) -> Result<Chart, String> {
    let rows = input.leading();
    let series = |row: &&VariantSummary| {
        let points = ROUNDS.iter().enumerate().filter_map(|(x, round)| spot(x, of(row, *round)?));
        line(input.style(row), &row.label, points, true)
    };
    let series: Vec<Series> = rows.iter().filter_map(series).collect();
    if series.is_empty() {
        return Err("no variant has enough needs after one compression and after two".to_owned());
    }
    let n_rounds =
        series.iter().flat_map(|one| &one.points).map(|point| point.x as usize + 1).max().unwrap_or(0);
    let caption = "Of the needs that a compression had put at risk, those kept, by how many compressions stood before the need. The best \
                   setting of each strategy, with 95 % intervals; other sessions stand behind later rounds. Where a round has too few needs for a share it has no point, and no \
                   line goes over it."
        .to_owned();
    Ok(Chart::new("Needs kept by round of compression".to_owned(), caption, data(&rows), |width| {
        let mut canvas = sheet(width, "Needs kept by round of compression");
        let height = AROUND + if is_wide(width) { 130.0 } else { 100.0 };
        let (boxes, end) = panels(width.min(330.0), 0.0, 1, height);
        let lines: Vec<Vec<_>> =
            rows.iter().map(|row| ROUNDS.iter().map(|round| of(row, *round)).collect()).collect();
        let round = |at: usize| with_needs(&ROUNDS[at].to_string(), at, &lines);
        let rounds = (0..n_rounds).map(round).collect();
        let x = Axis::names(rounds, "compressions before the need (needs behind it)");
        let y = Axis::numbers(Scale::around(heights(&series)), "needs kept, of those put at risk");
        Frame::draw(&mut canvas, boxes[0], &x, &y).series(&mut canvas, &series);
        canvas.height = plot::key_of(&mut canvas, end, std::slice::from_ref(&series));
        canvas
    }))
}

fn data(rows: &[&VariantSummary]) -> Table {
    let all =
        || rows.iter().flat_map(|row| ROUNDS.into_iter().map(move |round| (row, round, of(row, round))));
    let mut t = Table::new("rounds");
    t.text("variant", "its label", all().map(|(row, ..)| Some(row.label.clone())));
    t.count("round", "compressions before the need", all().map(|(_, round, _)| Some(u64::from(round))));
    t.fraction("needs_kept", "need retention on the exposed set", all().map(|(.., of)| of?.value));
    t.fraction("lo", "lower end of its 95 % interval", all().map(|(.., of)| of?.lo()));
    t.fraction("hi", "upper end", all().map(|(.., of)| of?.hi()));
    t.count("needs", "behind it", all().map(|(.., of)| Some(of?.n_items)));
    t
}
