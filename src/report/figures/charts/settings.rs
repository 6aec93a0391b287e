//! Settings of one's own sessions (`trajpress sweep`): needs kept over what is saved, in tokens and in money. Along a line the last
//! of the varied settings changes.

use super::plot::{
    AROUND, Axis, Frame, LINE, SIZE, Scale, Series, Spot, WIDTHS, heights, key_of, note, panels, sheet,
};
use crate::report::figures::canvas::{Anchor, Canvas, INK, fitted};
use crate::report::figures::marker::{GREY, nth};
use crate::report::statistics::estimate::Estimate;

/// A setting in the figure.
pub(crate) struct Drawn {
    /// All of it but the value that changes along a line, and that value.
    pub(crate) line: String,
    pub(crate) value: String,
    /// Shares of tokens and of money.
    pub(crate) saved: [Option<f64>; 2],
    pub(crate) kept: Estimate,
}

/// Of what is saved, in the order of [`Drawn::saved`].
const TITLES: [&str; 2] = ["tokens saved", "money saved"];

/// Draws them; `key` is what changes along a line.
pub(crate) fn settings(title: &str, key: &str, all: &[Drawn]) -> Canvas {
    let mut canvas = sheet(WIDTHS[1], title);
    canvas.text((0.5, SIZE), Anchor::Start, SIZE, INK, &fitted(title, SIZE, WIDTHS[1]));
    let mut lines: Vec<&str> = Vec::new();
    for of in all {
        if !lines.contains(&of.line.as_str()) {
            lines.push(&of.line);
        }
    }
    let spot = |of: &Drawn, which: usize| {
        let (x, y) = of.saved[which].zip(of.kept.value)?;
        Some(Spot { x, y, interval: of.kept.interval })
    };
    let series = |which: usize| -> Vec<Series> {
        let line = |(i, name): (usize, &&str)| {
            let points = all.iter().filter(|of| of.line == **name).filter_map(|of| spot(of, which));
            Series { name: (*name).to_owned(), style: nth(i), points: points.collect(), has_gaps: false }
        };
        lines.iter().enumerate().map(line).collect()
    };
    let drawn = [0, 1].map(series);
    let (boxes, end) = panels(WIDTHS[1], LINE, 2, AROUND + 150.0);
    for (which, (of, series)) in boxes.into_iter().zip(&drawn).enumerate() {
        let xs = series.iter().flat_map(|series| &series.points).map(|point| point.x);
        let x = Axis::numbers(Scale::around(xs), TITLES[which]);
        let y = Axis::numbers(Scale::around(heights(series)), "needs kept");
        let frame = Frame::draw(&mut canvas, of, &x, &y);
        frame.series(&mut canvas, series);
        for of in all {
            let Some(point) = spot(of, which) else { continue };
            let (x, y) = frame.at(point.x, point.y);
            canvas.text((x + 4.0, y - 3.0), Anchor::Start, SIZE - 1.0, GREY, &of.value);
        }
    }
    let end = key_of(&mut canvas, end, &drawn);
    let undrawn = all.iter().filter(|of| (0..2).any(|which| spot(of, which).is_none())).count();
    let undrawn =
        if undrawn > 0 { format!(" {undrawn} not drawn: too little to tell.") } else { String::new() };
    let text = format!("Along a line: {key}, as at the points. Bars: 95 % intervals of needs kept.{undrawn}");
    canvas.height = (note(&mut canvas, end, &text) + 4.0).ceil();
    canvas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_money_have_a_panel_each() {
        let drawn = |line: &str, value: &str, saved, kept| Drawn {
            line: line.to_owned(),
            value: value.to_owned(),
            saved: [Some(saved), Some(saved - 0.5)],
            kept: Estimate { value: kept, ..Estimate::default() },
        };
        let all = [
            drawn("codex scope.keep=3", "30k", 0.7, Some(0.6)),
            drawn("codex scope.keep=3", "60k", 0.6, Some(0.7)),
            drawn("codex scope.keep=9", "30k", 0.5, None),
        ];
        let svg = settings("`codex` over 9 sessions", "trigger.tokens", &all).svg().unwrap();
        for part in
            ["tokens saved", "money saved", "needs kept", "30k", "scope.keep=9", "1 not drawn", "9 sessions"]
        {
            assert!(svg.contains(part), "{part}: {svg}");
        }
    }
}
