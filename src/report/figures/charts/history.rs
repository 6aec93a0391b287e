//! The last nights: what each variant's scores were, and the line below which the gate would have asked questions.

use super::plot::{self, AROUND, Axis, Frame, Scale, Series, Spot, heights, is_wide, panels, sheet};
use super::{Table, files};
use crate::report::figures::canvas::{Canvas, Mark};
use crate::report::figures::marker::{COLOURS, Style, of_lines, styles};
use crate::scores;

/// More lines are no figure.
const MOST: usize = 7;

/// The nights, the oldest first, and what they say of variants.
#[derive(Debug, Default)]
pub struct History {
    pub nights: Vec<String>,
    pub lines: Vec<Line>,
}

/// A score of a variant.
#[derive(Debug)]
pub struct Line {
    pub score: String,
    pub variant: String,
    /// By night.
    pub points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Place of the night.
    pub night: usize,
    pub value: f64,
    /// The value of the night before without the margin; none on the first night.
    pub gate: Option<f64>,
    /// Whether the gate found it worse.
    pub worse: bool,
}

impl Line {
    /// What is worth a look comes first: what got worse, then what moved.
    fn worth(&self) -> (bool, f64) {
        let values = || self.points.iter().map(|point| point.value);
        let span = values().fold(f64::NEG_INFINITY, f64::max) - values().fold(f64::INFINITY, f64::min);
        (self.points.iter().any(|point| point.worse), span)
    }
}

impl History {
    /// The files of the figure, by the ends of their names.
    pub fn files(&self) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let mut variants: Vec<(&str, (bool, f64))> = Vec::new();
        for line in &self.lines {
            let worth = line.worth();
            match variants.iter_mut().find(|(name, _)| *name == line.variant) {
                Some((_, of)) => *of = (of.0 || worth.0, of.1.max(worth.1)),
                None => variants.push((&line.variant, worth)),
            }
        }
        variants.sort_by(|(a, x), (b, y)| y.0.cmp(&x.0).then(y.1.total_cmp(&x.1)).then(a.cmp(b)));
        let shown: Vec<&str> = variants.iter().take(MOST).map(|(name, _)| *name).collect();
        let drawn = plot::WIDTHS.map(|width| {
            let canvas = self.draw(width, &shown, variants.len() - shown.len());
            Canvas { height: (canvas.height + 3.0).ceil(), ..canvas }
        });
        files(&drawn, &self.data(), true)
    }

    fn data(&self) -> Table {
        let rows = || self.lines.iter().flat_map(|line| line.points.iter().map(move |point| (line, point)));
        let mut t = Table::new("history");
        t.text("night", "its folder", rows().map(|(_, p)| Some(self.nights[p.night].clone())));
        t.text("score", "of the gate", rows().map(|(line, _)| Some(line.score.clone())));
        t.text("variant", "its label", rows().map(|(line, _)| Some(line.variant.clone())));
        t.fraction("value", "pooled over all sessions of the night", rows().map(|(_, p)| Some(p.value)));
        t.fraction(
            "gate",
            "the value less what the gate leaves to it, over the sessions of both nights",
            rows().map(|(_, p)| p.gate),
        );
        t.flag("worse", "whether the gate found it worse", rows().map(|(_, p)| p.worse));
        t
    }

    fn scores(&self) -> Vec<&str> {
        let mut scores: Vec<&str> = Vec::new();
        for line in &self.lines {
            if !scores.contains(&line.score.as_str()) {
                scores.push(&line.score);
            }
        }
        scores
    }

    fn draw(&self, width: f64, shown: &[&str], n_more: usize) -> Canvas {
        let mut canvas = sheet(width, "The scores of the last nights, with the line of the gate");
        let scores = self.scores();
        let (boxes, end) =
            panels(width, 0.0, scores.len(), AROUND + if is_wide(width) { 100.0 } else { 80.0 });
        let nights = dates(&self.nights);
        let strategy = |name: &'_ str| name.split(['(', ' ']).next().unwrap_or_default().to_owned();
        let families: Vec<String> = self.lines.iter().map(|line| strategy(&line.variant)).collect();
        let looks =
            of_lines(shown, &styles(families.iter().map(|name| (name.as_str(), name.as_str(), false))));
        let mut all = Vec::new();
        for (of, score) in boxes.into_iter().zip(&scores) {
            let lines: Vec<(usize, &Line)> = self
                .lines
                .iter()
                .filter(|line| line.score == *score)
                .filter_map(|line| Some((shown.iter().position(|name| *name == line.variant)?, line)))
                .collect();
            let series: Vec<Series> = lines.iter().map(|(i, line)| series(looks[*i], line)).collect();
            // Below 0 there is no share: a gate there stops nothing.
            let least = if heights(&series).all(|y| y >= 0.0) { 0.0 } else { f64::NEG_INFINITY };
            let gate = |point: &Point| point.gate.filter(|gate| *gate >= least);
            let gates = lines.iter().flat_map(|(_, line)| line.points.iter().filter_map(gate));
            let title = scores::find(score).map_or_else(|| (*score).to_owned(), |of| of.called());
            let y = Axis::numbers(Scale::around(heights(&series).chain(gates)), &title);
            let frame = Frame::draw(&mut canvas, of, &Axis::names(nights.clone(), "night"), &y);
            frame.series(&mut canvas, &series);
            let n = lines.len();
            for (k, (i, line)) in lines.into_iter().enumerate() {
                for point in &line.points {
                    let (x, y) = frame.at(point.night as f64, point.value);
                    let at = (x + plot::apart(k, n, plot::APART), y);
                    if let Some(gate) = gate(point) {
                        let (x, y) = frame.at(point.night as f64, gate);
                        canvas.line(&[(x - 4.0, y), (x + 4.0, y)], 1.2, looks[i].colour.lighter(0.35));
                    }
                    if point.worse {
                        ring(&mut canvas, at);
                    }
                }
            }
            all.push(series);
        }
        let end = plot::key_of(&mut canvas, end, &all);
        let more =
            if n_more > 0 { format!("; {n_more} more variants stand in history.csv") } else { String::new() };
        let dash = "dash: the gate, the night before less the margin, by the sessions of both";
        let end = plot::note(&mut canvas, end, dash);
        canvas.height = plot::note(&mut canvas, end, &format!("ring: worse{more}"));
        canvas
    }
}

/// The day of each night; with its time where a day has several.
fn dates(nights: &[String]) -> Vec<String> {
    let day = |name: &str| name.get(5..10).map(str::to_owned);
    let date = |name: &String| {
        let day_of = day(name)?;
        match nights.iter().filter(|other| day(other).as_ref() == Some(&day_of)).count() {
            1 => Some(day_of),
            _ => Some(format!("{day_of} {}:{}", name.get(11..13)?, name.get(13..15)?)),
        }
    };
    nights.iter().map(|name| date(name).unwrap_or_else(|| name.clone())).collect()
}

fn series(style: Style, line: &Line) -> Series {
    let points = line.points.iter().map(|p| Spot { x: p.night as f64, y: p.value, interval: None });
    Series { name: line.variant.clone(), style, points: points.collect(), has_gaps: false }
}

/// Around what got worse.
fn ring(canvas: &mut Canvas, (x, y): (f64, f64)) {
    const CORNERS: u32 = 24;
    let at = |i: u32| {
        let angle = f64::from(i) / f64::from(CORNERS) * std::f64::consts::TAU;
        (x + 4.6 * angle.cos(), y + 4.6 * angle.sin())
    };
    let points = (0..=CORNERS).map(at).collect();
    canvas.marks.push(Mark::Line { points, width: 0.9, colour: COLOURS[1] });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nights_of_one_day_have_their_times() {
        let nights = ["2026-01-01-030000", "2026-01-02-030000", "2026-01-02-151500"].map(str::to_owned);
        assert_eq!(dates(&nights), ["01-01", "01-02 03:00", "01-02 15:15"]);
    }

    #[test]
    fn no_axis_of_shares_goes_below_0() {
        let point =
            |night, value| Point { night, value, gate: (night > 0).then_some(value - 0.05), worse: false };
        let line = |values: [f64; 2]| Line {
            score: "kept".to_owned(),
            variant: "v".to_owned(),
            points: (0..).zip(values).map(|(night, value)| point(night, value)).collect(),
        };
        let svg = |values| {
            let nights = ["2026-01-01-030000", "2026-01-02-030000"].map(str::to_owned).to_vec();
            let files = History { nights, lines: vec![line(values)] }.files().unwrap();
            String::from_utf8(files[0].1.clone()).unwrap()
        };
        let has_less = |svg: String| svg.lines().any(|line| line.starts_with("-0."));
        assert!(!has_less(svg([0.02, 0.01])) && !has_less(svg([0.0, 0.0])));
        assert!(has_less(svg([0.02, -0.11])), "money can be lost");
    }

    #[test]
    fn what_got_worse_is_drawn_however_many_variants_there_are() {
        let line = |i: usize| Line {
            score: "kept".to_owned(),
            variant: format!("v{i}"),
            points: (0..3)
                .map(|night| Point {
                    night,
                    value: 0.9 - 0.01 * i as f64 * night as f64,
                    gate: (night > 0).then_some(0.8),
                    worse: i == 2 && night == 2,
                })
                .collect(),
        };
        let nights = ["2026-01-01-030000", "2026-01-02-030000", "2026-01-03-030000"].map(str::to_owned);
        let history = History { nights: nights.to_vec(), lines: (0..20).map(line).collect() };
        let files = history.files().unwrap();
        let svg = String::from_utf8(files[2].1.clone()).unwrap();
        // Those that moved most, and the one that got worse.
        assert!(["v2", "v19", "v14"].iter().all(|name| svg.contains(&format!("\n{name}\n"))), "{svg}");
        assert!(!svg.contains("\nv3\n") && svg.contains("13 more variants") && svg.contains("01-02"));
        let (_, csv) = files.last().unwrap();
        assert_eq!(String::from_utf8_lossy(csv).lines().count(), 61);
    }
}
