//! From data to paper, and the frame of the plot.

use crate::report::figures::canvas::{Anchor, CAP_EM, Canvas, INK, XY};
use crate::report::figures::labels::Rect;

use super::{Point, TICK_SIZE, TITLE_SIZE};

/// From data to paper.
pub(super) struct Axes {
    pub(super) plot: Rect,
    pub(super) x: (f64, f64),
    pub(super) y: (f64, f64),
}

impl Axes {
    /// Ranges hold all points, intervals, floors and ceilings, rounded outwards to tenths.
    pub(super) fn new(points: &[Point], plot: Rect) -> Self {
        let ends = |i: Option<(f64, f64)>| i.into_iter().flat_map(|(lo, hi)| [lo, hi]);
        let xs = points.iter().flat_map(|p| ends(p.x_interval).chain([p.x, 0.0]));
        let ys =
            points.iter().flat_map(|p| ends(p.y_interval).chain([p.y, 1.0]).chain(p.floor).chain(p.ceiling));
        let range = |values: &mut dyn Iterator<Item = f64>| {
            let (mut lo, mut hi) = (f64::INFINITY, f64::NEG_INFINITY);
            for v in values {
                (lo, hi) = (lo.min(v), hi.max(v));
            }
            ((lo * 10.0 + 1e-9).floor() / 10.0, (hi * 10.0 - 1e-9).ceil() / 10.0)
        };
        let (x, y) = (range(&mut { xs }), range(&mut { ys }));
        // A narrow range would turn noise into a picture.
        Axes { plot, x: (x.0, x.1.max(x.0 + 0.2)), y: (y.0.min(y.1 - 0.2), y.1) }
    }

    /// Space between the frame and the ends of the ranges, so that markers there are whole.
    const INSET: f64 = 6.0;

    pub(super) fn at(&self, x: f64, y: f64) -> XY {
        let share = |v: f64, range: (f64, f64)| (v - range.0) / (range.1 - range.0);
        let (left, right) = (self.plot.x0 + Self::INSET, self.plot.x1 - Self::INSET);
        let (top, bottom) = (self.plot.y0 + Self::INSET, self.plot.y1 - Self::INSET);
        (left + share(x, self.x) * (right - left), bottom - share(y, self.y) * (bottom - top))
    }

    pub(super) fn ticks(range: (f64, f64)) -> Vec<f64> {
        let span = range.1 - range.0;
        // In tenths; few enough to leave room between the figures.
        let step = [1, 2, 5, 10, 20, 50].into_iter().find(|&s| span <= 0.65 * f64::from(s));
        let step = i64::from(step.unwrap_or(100));
        let tenths = |v: f64| (v * 10.0).round() as i64;
        (tenths(range.0)..=tenths(range.1)).filter(|t| t % step == 0).map(|t| t as f64 / 10.0).collect()
    }
}

/// Segments of the intervals, on paper.
pub(super) fn intervals(point: &Point, axes: &Axes) -> Vec<(XY, XY)> {
    let x = point.x_interval.map(|(lo, hi)| (axes.at(lo, point.y), axes.at(hi, point.y)));
    let y = point.y_interval.map(|(lo, hi)| (axes.at(point.x, lo), axes.at(point.x, hi)));
    x.into_iter().chain(y).filter(|(a, b)| a != b).collect()
}

/// Floor and ceiling at the point's place, on paper.
pub(super) fn reach(point: &Point, axes: &Axes, centre: XY) -> Option<(XY, XY)> {
    let height = |y: f64| axes.at(point.x, y).1;
    let (low, high) = (height(point.floor?), height(point.ceiling?));
    ((low - high).abs() > 0.5).then_some(((centre.0, low), (centre.0, high)))
}

pub(super) fn draw_axes(canvas: &mut Canvas, axes: &Axes, tail: &str) {
    let plot = axes.plot;
    canvas.line(&[(plot.x0, plot.y0), (plot.x0, plot.y1), (plot.x1, plot.y1)], 0.6, INK);
    for value in Axes::ticks(axes.x) {
        let x = axes.at(value, axes.y.0).0;
        canvas.line(&[(x, plot.y1), (x, plot.y1 + 2.5)], 0.6, INK);
        canvas.text((x, plot.y1 + 10.5), Anchor::Middle, TICK_SIZE, INK, &tick(value));
    }
    for value in Axes::ticks(axes.y) {
        let y = axes.at(axes.x.0, value).1;
        canvas.line(&[(plot.x0 - 2.5, y), (plot.x0, y)], 0.6, INK);
        let baseline = y + CAP_EM * TICK_SIZE / 2.0;
        canvas.text((plot.x0 - 4.0, baseline), Anchor::End, TICK_SIZE, INK, &tick(value));
    }
    canvas.text(
        (1.0, 8.0),
        Anchor::Start,
        TITLE_SIZE,
        INK,
        &format!("Needs kept (last mentioned over {tail} turns before)"),
    );
    canvas.text(
        (plot.x1, plot.y1 + 20.5),
        Anchor::End,
        TITLE_SIZE,
        INK,
        "Tokens saved (share of prompt tokens)",
    );
}

pub(super) fn tick(value: f64) -> String {
    crate::report::tables::fixed(value, usize::from(value != 0.0 && value != 1.0))
}
