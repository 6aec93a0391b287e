//! The headline figure: what is kept of what was needed, against what is saved.
//!
//! One point a variant. What no other beats has its intervals and, behind them in grey, the reach from the random floor to
//! the oracle ceiling at the same budget, without which a height means nothing; what is beaten is faded. The Pareto frontier
//! of what could be deployed. Controls are there to be compared with: grey, small, and on no frontier. Made for one
//! column of a paper. Colours are Okabe and Ito's, and shapes repeat what colours say.

use std::collections::BTreeMap;

use crate::report::lines::{MODEL_FREE, by_model};
use crate::text::natural::natural;

mod axes;
pub mod canvas;
pub mod charts;
mod frontier;
mod key;
pub mod labels;
mod marker;
mod scatter;
pub mod tiers;
pub mod timeline;

use canvas::Canvas;
use labels::Rect;
pub(crate) use marker::{Style, Styles, look, styles};

use scatter::draw;

/// A variant in the figure.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) label: String,
    /// Strategy: gives colour and shape.
    pub(crate) family: String,
    /// The strategy with its parameters: a shape of its own where the family has several.
    pub(crate) setting: String,
    /// There to be compared with: faded, and on no frontier.
    pub(crate) control: bool,
    /// More money than nothing compressed.
    pub(crate) costs_more: bool,
    pub(crate) x: f64,
    pub(crate) x_interval: Option<(f64, f64)>,
    pub(crate) y: f64,
    pub(crate) y_interval: Option<(f64, f64)>,
    pub(crate) floor: Option<f64>,
    pub(crate) ceiling: Option<f64>,
}

/// The figure, ready to be written.
pub(crate) struct Figure {
    canvas: Canvas,
    /// What stands beside the points: text and box.
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests look for overlaps in it"))]
    labels: Vec<(String, Rect)>,
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests look for overlaps in it"))]
    markers: Vec<Rect>,
}

impl Figure {
    pub(crate) fn svg(&self) -> anyhow::Result<String> {
        self.canvas.svg()
    }

    pub(crate) fn png(&self) -> anyhow::Result<Vec<u8>> {
        self.canvas.png()
    }
}

/// One column of a two-column paper: 3.3 inches.
const WIDTH: f64 = 237.6;
const TITLE_SIZE: f64 = 8.0;
const TICK_SIZE: f64 = 7.5;
const LABEL_SIZE: f64 = 7.0;
const RADIUS: f64 = 2.7;

/// Height of the plot, and how many points crowd it.
const PLOT_HEIGHT: f64 = 200.0;
const MANY: usize = 14;
/// The same as wide as a page.
const WIDE_PLOT_HEIGHT: f64 = 250.0;
/// Compresses nothing: it saves nothing and loses nothing.
pub(crate) const FULL: &str = "full";

/// How many variants are no point of the figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Undrawn {
    /// Below the minimum for a share.
    pub(crate) below: usize,
    /// Without any need, or any cell, that was scored.
    pub(crate) unscored: usize,
}

impl Undrawn {
    /// What the figure says of them.
    fn notes(self) -> impl Iterator<Item = String> {
        let why = [(self.below, "below the minimum"), (self.unscored, "without a score")];
        why.into_iter().filter(|(n, _)| *n > 0).map(|(n, why)| match n {
            1 => format!("1 variant {why} is not drawn"),
            _ => format!("{n} variants {why} are not drawn"),
        })
    }
}

/// Draws the figure for a column of a paper, and for a page; `tail` is the reference tail in turns. Every point is drawn, and a note counts the variants that have
/// none; which are named depends on how many there are. Families that have no look there get one here.
pub(crate) fn retention_savings(
    points: &[Point],
    looks: &Styles,
    undrawn: Undrawn,
    (tail, population): (&str, &str),
) -> [Figure; 2] {
    [false, true].map(|is_wide| headline(points, looks, undrawn, (tail, population), is_wide))
}

fn headline(
    points: &[Point],
    looks: &Styles,
    undrawn: Undrawn,
    (tail, population): (&str, &str),
    is_wide: bool,
) -> Figure {
    let mut points = points.to_vec();
    // That nothing compressed loses nothing is no measurement.
    for full in points.iter_mut().filter(|p| p.family == FULL) {
        (full.x_interval, full.y_interval) = (None, None);
    }
    if !points.iter().any(|p| p.family == FULL) {
        // Nothing compressed saves nothing and loses nothing, by definition.
        points.push(Point {
            label: FULL.to_owned(),
            family: FULL.to_owned(),
            setting: FULL.to_owned(),
            control: true,
            costs_more: false,
            x: 0.0,
            x_interval: None,
            y: 1.0,
            y_interval: None,
            floor: None,
            ceiling: None,
        });
    }
    let context = Context {
        styles: {
            let mut own = styles(points.iter().map(|p| (p.family.as_str(), p.setting.as_str(), p.control)));
            own.extend(looks.clone());
            own
        },
        tail: tail.to_owned(),
        population: population.to_owned(),
        undrawn,
        width: if is_wide { charts::WIDTHS[1] } else { WIDTH },
        height: if is_wide { WIDE_PLOT_HEIGHT } else { PLOT_HEIGHT },
        triggers: kept_whole(&shorten_triggers(&mut points)),
    };
    // The key groups families, and numbers follow the key.
    points.sort_by(|a, b| {
        let rank = |p: &Point| (p.family != FULL, !p.control);
        rank(a)
            .cmp(&rank(b))
            .then_with(|| natural(&a.family, &b.family))
            .then_with(|| natural(&a.label, &b.label))
    });
    draw(&points, &context)
}

/// What the parts of the drawing share.
struct Context {
    styles: Styles,
    tail: String,
    /// Of which logs intervals speak.
    population: String,
    undrawn: Undrawn,
    /// Of the figure, and of its plot.
    width: f64,
    height: f64,
    /// What the labels leave out about triggers; empty is nothing.
    triggers: String,
}

/// Strategy, trigger and model of a label `strategy @ trigger [model]`; the model empty where none worked.
fn parts(label: &str) -> Option<(&str, &str, &str)> {
    let (strategy, trigger) = label.split_once(" @ ")?;
    let model = by_model(trigger);
    Some((strategy, trigger.strip_suffix(model)?, if model == MODEL_FREE { "" } else { model }))
}

/// Shortens the labels of points; see [`shortened`].
fn shorten_triggers(points: &mut [Point]) -> String {
    let labels: Vec<(&str, bool)> = points.iter().map(|p| (p.label.as_str(), p.family == FULL)).collect();
    let (short, told) = shortened(&labels);
    points.iter_mut().zip(short).for_each(|(point, short)| point.label = short);
    told
}

/// What each of these labels (`strategy @ trigger [model]`, and whether nothing is compressed) is called in a figure: the commonest
/// trigger is left out, the others become letters, a model is named where one worked, and the words returned tell which is
/// which. Nothing compressed needs no trigger.
pub(crate) fn shortened(labels: &[(&str, bool)]) -> (Vec<String>, String) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut has_model = false;
    for (_, trigger, model) in labels.iter().filter(|l| !l.1).filter_map(|l| parts(l.0)) {
        *counts.entry(trigger).or_default() += 1;
        has_model |= !model.is_empty();
    }
    let mut triggers: Vec<(&str, usize)> = counts.into_iter().collect();
    triggers.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| natural(a.0, b.0)));
    let letter = |i: usize| char::from_u32('a' as u32 + i as u32 - 1).filter(char::is_ascii_lowercase);
    let mut told = Vec::new();
    for (i, (trigger, _)) in triggers.iter().enumerate() {
        match (i, letter(i.max(1))) {
            (0, _) if triggers.len() == 1 => told.push(format!("trigger: {trigger}")),
            (0, _) => told.push(format!("trigger: {trigger} unless marked")),
            (_, Some(letter)) => told.push(format!("@{letter} {trigger}")),
            (_, None) => {}
        }
    }
    if has_model {
        told.push("no model unless named".to_owned());
    }
    let short = |&(label, is_full): &(&str, bool)| {
        let Some((strategy, trigger, model)) = parts(label) else { return label.to_owned() };
        let at = triggers.iter().position(|(t, _)| *t == trigger);
        match (at, at.and_then(|i| letter(i.max(1)))) {
            _ if is_full => strategy.to_owned(),
            (Some(0), _) => format!("{strategy}{model}"),
            (_, Some(letter)) => format!("{strategy}{model} @{letter}"),
            _ => label.to_owned(),
        }
    };
    (labels.iter().map(short).collect(), told.join("; "))
}

/// Each part of what is told stays whole where lines are broken.
fn kept_whole(told: &str) -> String {
    told.replace("; ", ";\n").replace(' ', "\u{a0}").replace('\n', " ")
}

#[cfg(test)]
mod tests;
