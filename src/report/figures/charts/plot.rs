//! What the charts share: the two widths, scales, a frame with its ticks, a key, lines over a number, and cells.

use crate::report::figures::canvas::{
    Anchor, BLUE, CAP_EM, Canvas, Colour, INK, Mark, XY, fitted, fitted_name, text_width, wrapped,
};
use crate::report::figures::labels::Rect;
use crate::report::figures::marker::{GREY, Style, draw_marker};
use crate::report::figures::parts;
use crate::report::lines::MODEL_FREE;
use crate::report::tables::fixed;

/// A column and a page of a paper: 85 and 178 mm in points.
pub(crate) const WIDTHS: [f64; 2] = [240.9, 504.6];

pub(super) const SIZE: f64 = 7.0;
/// From one line of text to the next.
pub(super) const LINE: f64 = 9.6;
pub(super) const RULE: Colour = Colour(0xE2, 0xE2, 0xE2);
pub(super) const RADIUS: f64 = 2.5;

/// Text on colour. It keeps its own where a page in the dark turns greys: it is none.
const ON_LIGHT: Colour = Colour(0x22, 0x22, 0x23);
const ON_DARK: Colour = Colour(0xFF, 0xFF, 0xFE);

/// Whether a drawing is as wide as a page.
pub(super) fn is_wide(width: f64) -> bool {
    width > WIDTHS[0]
}

/// A drawing without a height yet.
pub(super) fn sheet(width: f64, title: &str) -> Canvas {
    Canvas { width, height: 0.0, title: title.to_owned(), marks: Vec::new() }
}

/// From numbers to shares of a side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    lo: f64,
    hi: f64,
}

impl Scale {
    /// Holds all values, from one round number to another.
    pub(super) fn around(values: impl Iterator<Item = f64>) -> Self {
        let (mut lo, mut hi) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|v| v.is_finite()) {
            (lo, hi) = (lo.min(value), hi.max(value));
        }
        if lo > hi {
            (lo, hi) = (0.0, 1.0);
        }
        if hi - lo < 1e-9 {
            // What is never below 0 has no room there.
            (lo, hi) = (if lo < 0.0 { lo - 0.05 } else { (lo - 0.05).max(0.0) }, hi + 0.05);
        }
        let step = step(hi - lo);
        Scale { lo: (lo / step + 1e-9).floor() * step, hi: (hi / step - 1e-9).ceil() * step }
    }

    /// Places 0, 1, 2 ... with half a place before and behind.
    pub(super) fn places(n: usize) -> Self {
        Scale { lo: -0.5, hi: n as f64 - 0.5 }
    }

    pub(super) fn share(self, value: f64) -> f64 {
        (value - self.lo) / (self.hi - self.lo)
    }

    /// Round numbers with what is written at them.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        let step = step(self.hi - self.lo);
        let decimals = (-step.log10() + 1e-9).ceil().max(0.0) as usize;
        let (first, last) = ((self.lo / step - 1e-9).ceil() as i64, (self.hi / step + 1e-9).floor() as i64);
        (first..=last).map(|i| i as f64 * step).map(|x| (x, told(x, decimals))).collect()
    }
}

/// The round number that cuts a length into at most six.
fn step(length: f64) -> f64 {
    let ten = 10_f64.powf((length / 6.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|n| n * ten)
        .into_iter()
        .find(|s| length / s <= 6.0 + 1e-9)
        .unwrap_or(10.0 * ten)
}

/// `0.2`, `20k`, `1.5M`.
fn told(x: f64, decimals: usize) -> String {
    let short = |x: f64| x.to_string();
    match x.abs() {
        n if n >= 1e6 => format!("{}M", short((x / 1e4).round() / 100.0)),
        n if n >= 1e4 => format!("{}k", short((x / 10.0).round() / 100.0)),
        _ => fixed(x, decimals),
    }
}

/// A side of a frame: its scale, what stands at its ticks, and what it shows.
pub(super) struct Axis {
    pub(super) scale: Scale,
    pub(super) ticks: Vec<(f64, String)>,
    pub(super) title: String,
}

impl Axis {
    pub(super) fn numbers(scale: Scale, title: &str) -> Self {
        Axis { scale, ticks: scale.ticks(), title: title.to_owned() }
    }

    /// A place each for these names.
    pub(super) fn names(names: Vec<String>, title: &str) -> Self {
        let ticks = names.into_iter().enumerate().map(|(i, name)| (i as f64, name)).collect::<Vec<_>>();
        Axis { scale: Scale::places(ticks.len()), ticks, title: title.to_owned() }
    }
}

/// A plot with its axes; the title of `y` stands above it, that of `x` below.
pub(super) struct Frame {
    area: Rect,
    x: Scale,
    y: Scale,
}

/// Height of a frame that its plot does not have.
pub(super) const AROUND: f64 = 40.0;

impl Frame {
    /// Draws the axes into a box.
    pub(super) fn draw(canvas: &mut Canvas, outer: Rect, x: &Axis, y: &Axis) -> Self {
        let labels = y.ticks.iter().map(|(_, text)| text_width(text, SIZE)).fold(0.0, f64::max);
        // What stands below the last tick ends within the box.
        let last = x.ticks.last().map_or(0.0, |(at, text)| {
            let inside = (1.0 - x.scale.share(*at)) * (outer.x1 - outer.x0 - labels);
            text_width(text, SIZE) / 2.0 + 1.0 - inside
        });
        let area = Rect {
            x0: outer.x0 + labels + 5.0,
            y0: outer.y0 + 15.0,
            x1: outer.x1 - last.max(6.0),
            y1: outer.y1 - 25.0,
        };
        let frame = Frame { area, x: x.scale, y: y.scale };
        let title = |text: &str, room: f64| fitted(text, SIZE, room);
        canvas.text(
            (outer.x0 + 0.5, outer.y0 + SIZE),
            Anchor::Start,
            SIZE,
            INK,
            &title(&y.title, outer.x1 - outer.x0),
        );
        for (value, text) in &y.ticks {
            let at = frame.at(x.scale.lo, *value).1;
            canvas.line(&[(area.x0, at), (area.x1, at)], 0.4, RULE);
            canvas.text((area.x0 - 3.5, at + CAP_EM * SIZE / 2.0), Anchor::End, SIZE, INK, text);
        }
        // A label that would touch the one before it is left out.
        let mut free = f64::NEG_INFINITY;
        for (value, text) in &x.ticks {
            let at = frame.at(*value, y.scale.lo).0;
            let half = text_width(text, SIZE) / 2.0;
            canvas.line(&[(at, area.y1), (at, area.y1 + 2.5)], 0.5, INK);
            if at - half > free {
                canvas.text((at, area.y1 + 10.0), Anchor::Middle, SIZE, INK, text);
                free = at + half + 3.0;
            }
        }
        canvas.line(&[(area.x0, area.y0), (area.x0, area.y1), (area.x1, area.y1)], 0.6, INK);
        let below = title(&x.title, area.x1 - outer.x0);
        canvas.text((area.x1, area.y1 + 20.0), Anchor::End, SIZE, INK, &below);
        frame
    }

    pub(super) fn at(&self, x: f64, y: f64) -> XY {
        let (area, [right, up]) = (self.area, [self.x.share(x), self.y.share(y)]);
        (area.x0 + right * (area.x1 - area.x0), area.y1 - up * (area.y1 - area.y0))
    }

    pub(super) fn series(&self, canvas: &mut Canvas, all: &[Series]) {
        // Intervals of lines at one place stand side by side.
        self.series_apart(canvas, all, APART);
    }

    /// The same with lines that stand so far apart, where they are at one place.
    pub(super) fn series_apart(&self, canvas: &mut Canvas, all: &[Series], by: f64) {
        let place = |i: usize, point: &Spot| {
            let (x, y) = self.at(point.x, point.y);
            (x + apart(i, all.len(), by), y)
        };
        for (i, series) in all.iter().enumerate() {
            for point in &series.points {
                if let Some((lo, hi)) = point.interval {
                    let x = place(i, point).0;
                    let [low, high] = [lo, hi].map(|y| self.at(0.0, y.clamp(self.y.lo, self.y.hi)).1);
                    canvas.line(&[(x, low), (x, high)], 0.6, series.style.colour.lighter(0.45));
                }
            }
            let places: Vec<XY> = series.points.iter().map(|point| place(i, point)).collect();
            let is_next = |a: usize| series.points[a + 1].x - series.points[a].x < 1.5;
            if !series.has_gaps {
                canvas.line(&places, 0.9, series.style.colour);
                continue;
            }
            for (_, pair) in places.windows(2).enumerate().filter(|(a, _)| is_next(*a)) {
                canvas.line(pair, 0.9, series.style.colour);
            }
        }
        for (i, series) in all.iter().enumerate() {
            series.points.iter().for_each(|p| draw_marker(canvas, place(i, p), RADIUS, series.style));
        }
    }
}

/// How far lines at one place stand from each other.
pub(super) const APART: f64 = 1.6;

/// How far beside its place the mark of the `i`-th of `n` lines stands.
pub(super) fn apart(i: usize, n: usize, by: f64) -> f64 {
    (i as f64 - (n as f64 - 1.0) / 2.0) * by
}

/// A line of the chart.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) style: Style,
    pub(super) points: Vec<Spot>,
    /// Whether a place without a point breaks the line.
    pub(super) has_gaps: bool,
}

pub(super) struct Spot {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) interval: Option<(f64, f64)>,
}

/// All numbers that series show.
pub(super) fn heights(all: &[Series]) -> impl Iterator<Item = f64> {
    all.iter().flat_map(|series| &series.points).flat_map(|p| {
        let (lo, hi) = p.interval.unwrap_or((p.y, p.y));
        [lo, hi, p.y]
    })
}

/// Boxes for so many panels: one below the other in a column, side by side on a page. And where they end.
pub(super) fn panels(width: f64, top: f64, n: usize, height: f64) -> (Vec<Rect>, f64) {
    const GAP: f64 = 16.0;
    let columns = if is_wide(width) { n.clamp(1, 2) } else { 1 };
    let wide = (width - GAP * (columns - 1) as f64) / columns as f64;
    let all: Vec<Rect> = (0..n)
        .map(|i| {
            let (x0, y0) = ((i % columns) as f64 * (wide + GAP), top + (i / columns) as f64 * (height + 8.0));
            Rect { x0, y0, x1: x0 + wide, y1: y0 + height }
        })
        .collect();
    let end = all.last().map_or(top, |last| last.y1);
    (all, end)
}

/// Names of variants without what all of them have, and what that is: their trigger; that no model worked.
pub(super) fn shared(names: &[&str]) -> (Vec<String>, Option<String>) {
    let all: Vec<Option<(&str, &str, &str)>> = names.iter().map(|name| parts(name)).collect();
    let mut triggers = all.iter().flatten().map(|(_, trigger, _)| *trigger);
    match (triggers.next(), triggers.next()) {
        (Some(first), Some(second)) if first == second && triggers.all(|other| other == first) => {
            let short = |(name, of): (&&str, &Option<(&str, &str, &str)>)| match of {
                Some((strategy, _, model)) => format!("{strategy}{model}"),
                None => (*name).to_owned(),
            };
            let is_free = names.iter().any(|name| name.ends_with(MODEL_FREE));
            let model = if is_free { "; no model unless named" } else { "" };
            (names.iter().zip(&all).map(short).collect(), Some(format!("trigger: {first}{model}")))
        }
        _ => (names.iter().map(|name| (*name).to_owned()).collect(), None),
    }
}

/// What the lines are, in as many columns as there is room for, and what all have; where it ends.
pub(super) fn key(canvas: &mut Canvas, top: f64, entries: &[(Style, &str)]) -> f64 {
    const TEXT: f64 = 10.0;
    let (names, told) = shared(&entries.iter().map(|(_, name)| *name).collect::<Vec<_>>());
    let entries: Vec<(Style, &String)> = entries.iter().map(|(style, _)| *style).zip(&names).collect();
    let widest = entries.iter().map(|(_, text)| TEXT + text_width(text, SIZE)).fold(0.0, f64::max);
    let columns = ((canvas.width + 8.0) / (widest + 8.0)).floor().clamp(1.0, entries.len().max(1) as f64);
    let rows = (entries.len() as f64 / columns).ceil() as usize;
    let width = canvas.width / columns;
    for (i, (style, text)) in entries.iter().enumerate() {
        let (left, base) = ((i / rows) as f64 * width, top + (i % rows + 1) as f64 * LINE);
        draw_marker(canvas, (left + 4.0, base - CAP_EM * SIZE / 2.0), RADIUS, *style);
        let text = fitted(text, SIZE, width - TEXT - 2.0);
        canvas.text((left + TEXT, base), Anchor::Start, SIZE, INK, &text);
    }
    let end = top + rows as f64 * LINE;
    told.map_or(end, |told| note(canvas, end, &told))
}

/// Coloured squares with their words, side by side while there is room; where they end.
pub(super) fn swatches(canvas: &mut Canvas, top: f64, entries: &[(Colour, &str)]) -> f64 {
    let (mut left, mut base) = (0.5, top + LINE);
    for (colour, text) in entries {
        let width = 9.0 + text_width(text, SIZE);
        if left + width > canvas.width {
            (left, base) = (0.5, base + LINE);
        }
        bar(canvas, Rect { x0: left, y0: base - 5.5, x1: left + 6.0, y1: base + 0.5 }, *colour);
        canvas.text((left + 8.5, base), Anchor::Start, SIZE, INK, text);
        left += width + 8.0;
    }
    base
}

/// The key of all panels: each line once.
pub(super) fn key_of(canvas: &mut Canvas, top: f64, panels: &[Vec<Series>]) -> f64 {
    let mut entries: Vec<(Style, &str)> = Vec::new();
    for series in panels.iter().flatten() {
        if entries.iter().all(|(_, name)| *name != series.name) {
            entries.push((series.style, &series.name));
        }
    }
    key(canvas, top, &entries)
}

/// Words below a chart, broken to its width; where they end.
pub(super) fn note(canvas: &mut Canvas, top: f64, text: &str) -> f64 {
    let lines = wrapped(text, SIZE, canvas.width - 1.0);
    for (i, line) in lines.iter().enumerate() {
        canvas.text((0.5, top + (i + 1) as f64 * LINE), Anchor::Start, SIZE, GREY, line);
    }
    top + lines.len() as f64 * LINE
}

pub(super) fn bar(canvas: &mut Canvas, of: Rect, colour: Colour) {
    let points = vec![(of.x0, of.y0), (of.x1, of.y0), (of.x1, of.y1), (of.x0, of.y1)];
    canvas.marks.push(Mark::Polygon { points, colour });
}

pub(super) fn dashed(canvas: &mut Canvas, from: XY, to: XY, colour: Colour) {
    const DASH: f64 = 2.4;
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let n = (dx.hypot(dy) / (2.0 * DASH)).ceil().max(1.0);
    let at = |share: f64| (from.0 + share * dx, from.1 + share * dy);
    for i in 0..n as usize {
        canvas.line(&[at(i as f64 / n), at((i as f64 + 0.5) / n)], 0.6, colour);
    }
}

/// A table of coloured cells: rows and columns by name, a number in each that has one. `colour` is 0 to 1 of a value.
pub(super) struct Cells<'a> {
    pub(super) rows: &'a [String],
    pub(super) columns: &'a [String],
    pub(super) value: &'a dyn Fn(usize, usize) -> Option<f64>,
    pub(super) colour: &'a dyn Fn(f64) -> f64,
}

impl Cells<'_> {
    /// How wide the names of rows are in a box of that width.
    fn names(&self, width: f64) -> f64 {
        let longest = self.rows.iter().map(|name| text_width(name, SIZE)).fold(0.0, f64::max);
        longest.min(0.62 * width) + 4.0
    }

    fn longest(&self) -> f64 {
        self.columns.iter().map(|name| text_width(name, SIZE)).fold(0.0, f64::max) + 3.0
    }

    /// How wide a column is there.
    fn cell(&self, width: f64) -> f64 {
        ((width - self.names(width)) / self.columns.len().max(1) as f64).min(self.longest().max(44.0))
    }

    /// Whether the names of columns have room.
    pub(super) fn is_named(&self, width: f64) -> bool {
        self.cell(width) >= self.longest() - 1e-9
    }

    /// Draws them into a box as wide as that, under a title; where they end.
    pub(super) fn draw(&self, canvas: &mut Canvas, left: f64, right: f64, top: f64, title: &str) -> f64 {
        const HEIGHT: f64 = 11.0;
        let width = right - left;
        let names = self.names(width);
        let cell = self.cell(width);
        canvas.text((left + 0.5, top + SIZE), Anchor::Start, SIZE, INK, &fitted(title, SIZE, width));
        let first = top + SIZE + LINE + 4.0;
        for (c, name) in self.columns.iter().enumerate() {
            let middle = left + names + (c as f64 + 0.5) * cell;
            canvas.text((middle, first - 2.5), Anchor::Middle, SIZE, INK, &fitted(name, SIZE, cell));
        }
        for (r, name) in self.rows.iter().enumerate() {
            let y0 = first + r as f64 * HEIGHT;
            let base = y0 + HEIGHT / 2.0 + CAP_EM * SIZE / 2.0;
            canvas.text((left + 0.5, base), Anchor::Start, SIZE, INK, &fitted_name(name, SIZE, names - 3.0));
            for c in 0..self.columns.len() {
                let x0 = left + names + c as f64 * cell;
                let Some(value) = (self.value)(r, c) else { continue };
                let depth = (self.colour)(value).clamp(0.0, 1.0);
                let fill = BLUE.lighter(0.94 - 0.84 * depth);
                bar(
                    canvas,
                    Rect { x0: x0 + 0.4, y0: y0 + 0.4, x1: x0 + cell - 0.4, y1: y0 + HEIGHT - 0.4 },
                    fill,
                );
                let ink = if depth > 0.55 { ON_DARK } else { ON_LIGHT };
                canvas.text((x0 + cell / 2.0, base), Anchor::Middle, SIZE, ink, &fixed(value, 2));
            }
        }
        first + self.rows.len() as f64 * HEIGHT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figures::marker::nth;

    #[test]
    fn scales_begin_and_end_at_round_numbers() {
        let scale = Scale::around([0.13, 0.87].into_iter());
        assert!((scale.lo, scale.hi) == (0.0, 1.0) && scale.share(0.5) == 0.5);
        let told = |scale: Scale| scale.ticks().into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(told(scale), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(
            told(Scale::around([-0.07, 0.02].into_iter())),
            ["-0.08", "-0.06", "-0.04", "-0.02", "0.00", "0.02"]
        );
        assert_eq!(
            told(Scale::around([0.0, 95_000.0].into_iter())),
            ["0", "20k", "40k", "60k", "80k", "100k"]
        );
        assert_eq!(told(Scale::around([0.0, 2.5e6].into_iter()))[1], "500k");
        // What is the same everywhere, or nowhere, has an axis all the same.
        assert!(Scale::around([0.5].into_iter()).ticks().len() > 1);
        assert!(Scale::around([0.0].into_iter()).lo >= 0.0);
        assert!(Scale::around(std::iter::empty()).ticks().len() > 1);
    }

    #[test]
    fn what_all_variants_have_is_told_once() {
        let (names, told) = shared(&["full", "mask(keep_last=5) @ tokens", "notes @ tokens [model-free]"]);
        assert_eq!(names, ["full", "mask(keep_last=5)", "notes"]);
        assert_eq!(told.as_deref(), Some("trigger: tokens; no model unless named"));
        for differ in [["mask @ tokens", "mask @ turns(n=1)"], ["full", "mask @ tokens"]] {
            assert_eq!(shared(&differ), (differ.map(str::to_owned).to_vec(), None));
        }
    }

    /// Where there was too little to tell, no line says how it went.
    #[test]
    fn no_line_goes_over_a_missing_point() {
        let lines = |places: &[f64], has_gaps| {
            let points = places.iter().map(|&x| Spot { x, y: 0.5, interval: None }).collect();
            let series = Series { name: "a".to_owned(), style: nth(0), points, has_gaps };
            let mut canvas = sheet(240.0, "");
            let outer = Rect { x0: 0.0, y0: 0.0, x1: 240.0, y1: 100.0 };
            let x = Axis::names(["1", "2", "a long name of the last"].map(str::to_owned).to_vec(), "");
            let y = Axis::numbers(Scale::around([0.0, 1.0].into_iter()), "");
            Frame::draw(&mut canvas, outer, &x, &y).series(&mut canvas, &[series]);
            let ends = canvas.marks.iter().filter_map(|mark| match mark {
                Mark::Text { at, text, .. } if text.starts_with("a long") => {
                    Some(at.0 + text_width(text, SIZE) / 2.0)
                }
                _ => None,
            });
            assert!(ends.max_by(f64::total_cmp).unwrap() <= 240.0, "it ends within the sheet");
            let is_ours =
                |mark: &&Mark| matches!(mark, Mark::Line { colour, .. } if *colour == nth(0).colour);
            canvas.marks.iter().filter(is_ours).count()
        };
        assert_eq!(
            [lines(&[0.0, 1.0], true), lines(&[0.0, 2.0], true), lines(&[0.0, 2.0], false)],
            [1, 0, 1]
        );
    }

    #[test]
    fn panels_stand_in_the_width_and_below_each_other() {
        for width in WIDTHS {
            let (all, end) = panels(width, 0.0, 3, 100.0);
            assert!(all.iter().all(|p| p.x0 >= 0.0 && p.x1 <= width + 1e-9 && p.y1 <= end));
            for (i, a) in all.iter().enumerate() {
                assert!(all[..i].iter().all(|b| a.overlap(b) == 0.0));
            }
        }
    }
}
