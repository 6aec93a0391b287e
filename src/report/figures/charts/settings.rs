//! Settings of one's own sessions (`trajpress sweep`): needs kept over what is saved, in tokens and in money. Along a line the last
//! of the varied settings changes.

use super::plot::{
    AROUND, Axis, Frame, LINE, RADIUS, SIZE, Scale, Series, Spot, WIDTHS, heights, key_of, note, panels,
    sheet,
};
use crate::report::figures::canvas::{Anchor, Canvas, INK, XY, fitted, text_width};
use crate::report::figures::labels::{Label, Obstacle, Placed, Rect, place};
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

/// Points nearer than this are one mark for the eye.
const NEAR: f64 = 0.5;

/// Of what is saved, in the order of [`Drawn::saved`].
const TITLES: [&str; 2] = ["tokens saved", "money saved"];

/// Draws them; `key` is what changes along a line.
pub(crate) fn settings(title: &str, key: &str, all: &[Drawn]) -> Canvas {
    let mut canvas = sheet(WIDTHS[1], title);
    canvas.text((0.5, SIZE), Anchor::Start, SIZE, INK, &fitted(title, SIZE, WIDTHS[1]));
    let spot = |of: &Drawn, which: usize| {
        let (x, y) = of.saved[which].zip(of.kept.value)?;
        Some(Spot { x, y, interval: of.kept.interval })
    };
    let lines = lines(all);
    let series = |which: usize| -> Vec<Series> {
        let line = |(i, (name, points)): (usize, &(String, Vec<&Drawn>))| {
            let points = points.iter().filter_map(|of| spot(of, which)).collect();
            Series { name: name.clone(), style: nth(i), points, has_gaps: false }
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
        frame.series_apart(&mut canvas, series, 0.0);
        let points = all.iter().filter_map(|of| Some((spot(of, which)?, of.value.as_str())));
        name_points(&mut canvas, labels(&frame, points), of, series, &frame);
    }
    let end = key_of(&mut canvas, end, &drawn);
    let undrawn = all.iter().filter(|of| (0..2).any(|which| spot(of, which).is_none())).count();
    let undrawn =
        if undrawn > 0 { format!(" {undrawn} not drawn: too little to tell.") } else { String::new() };
    let text = format!("Along a line: {key}, as at the points. Bars: 95 % intervals of needs kept.{undrawn}");
    canvas.height = (note(&mut canvas, end, &text) + 4.0).ceil();
    canvas
}

/// The lines by their names, in order; those that are the same are one.
fn lines(all: &[Drawn]) -> Vec<(String, Vec<&Drawn>)> {
    let mut lines: Vec<(String, Vec<&Drawn>)> = Vec::new();
    for of in all {
        match lines.iter_mut().find(|(name, _)| *name == of.line) {
            Some((_, points)) => points.push(of),
            None => lines.push((of.line.clone(), vec![of])),
        }
    }
    let is_same = |a: &[&Drawn], b: &[&Drawn]| {
        let told = |of: &&Drawn| (of.value.clone(), of.saved, of.kept.value);
        a.iter().map(told).eq(b.iter().map(told))
    };
    let mut joined: Vec<(String, Vec<&Drawn>)> = Vec::new();
    for (name, points) in lines {
        match joined.iter_mut().find(|(_, known)| is_same(known, &points)) {
            Some((known, _)) => {
                // What it has in common with the first is there.
                let own: Vec<&str> =
                    name.split(' ').filter(|word| !known.split(' ').any(|of| of == *word)).collect();
                *known = format!("{known} = {}", own.join(" "));
            }
            None => joined.push((name, points)),
        }
    }
    joined
}

/// What stands beside each place: all the values of the points that are there.
fn labels<'a>(frame: &Frame, points: impl Iterator<Item = (Spot, &'a str)>) -> Vec<(XY, Vec<&'a str>)> {
    let mut labels: Vec<(XY, Vec<&str>)> = Vec::new();
    for (point, value) in points {
        let (x, y) = frame.at(point.x, point.y);
        match labels.iter_mut().find(|((a, b), _)| (a - x).hypot(b - y) < NEAR) {
            Some((_, values)) if !values.contains(&value) => values.push(value),
            Some(_) => {}
            None => labels.push(((x, y), vec![value])),
        }
    }
    labels
}

/// Writes the labels where they cover neither one another nor a mark, within the panel.
fn name_points(
    canvas: &mut Canvas,
    all: Vec<(XY, Vec<&str>)>,
    panel: Rect,
    series: &[Series],
    frame: &Frame,
) {
    const LABEL: f64 = SIZE - 1.0;
    let texts: Vec<(XY, String)> =
        all.into_iter().map(|(point, values)| (point, values.join(", "))).collect();
    let label =
        |(point, text): &(XY, String)| Label { point: *point, width: text_width(text, LABEL), height: LABEL };
    let boxes: Vec<Label> = texts.iter().map(label).collect();
    let markers: Vec<Rect> = texts.iter().map(|(point, _)| Rect::around(*point, RADIUS, RADIUS)).collect();
    let mut lines = Vec::new();
    for of in series {
        let places: Vec<XY> = of.points.iter().map(|point| frame.at(point.x, point.y)).collect();
        lines.extend(places.windows(2).map(|ends| Obstacle { a: ends[0], b: ends[1], cost: 1.0 }));
    }
    let (placed, _) = place(&boxes, &markers, &lines, panel, RADIUS);
    for (Placed { rect, leader }, (_, text)) in placed.iter().zip(&texts) {
        if let Some((from, to)) = leader {
            canvas.line(&[*from, *to], 0.4, GREY);
        }
        canvas.text((rect.x0, rect.y1 - 0.2 * LABEL), Anchor::Start, LABEL, GREY, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figures::canvas::Mark;

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

    #[test]
    fn equal_points_are_one_mark_with_both_labels() {
        let drawn = |line: &str, value: &str, saved| Drawn {
            line: line.to_owned(),
            value: value.to_owned(),
            saved: [Some(saved), Some(saved)],
            kept: Estimate { value: Some(0.5), ..Estimate::default() },
        };
        let all = [
            drawn("codex keep=3 window=64k", "30k", 0.4),
            drawn("codex keep=3 window=64k", "60k", 0.4),
            drawn("codex keep=3 window=64k", "90k", 0.3),
            drawn("codex keep=3 window=128k", "30k", 0.4),
            drawn("codex keep=3 window=128k", "60k", 0.4),
            drawn("codex keep=3 window=128k", "90k", 0.3),
            drawn("codex keep=9 window=64k", "30k", 0.3),
        ];
        let names: Vec<String> = lines(&all).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["codex keep=3 window=64k = window=128k", "codex keep=9 window=64k"]);
        let canvas = settings("codex over 9 sessions", "trigger.tokens", &all);
        let is = |mark: &Mark, label: &str| matches!(mark, Mark::Text { text, .. } if text == label);
        let n = |label: &str| canvas.marks.iter().filter(|mark| is(mark, label)).count();
        assert_eq!([n("30k, 60k"), n("90k, 30k"), n("30k"), n("60k")], [2, 2, 0, 0]);
    }
}
