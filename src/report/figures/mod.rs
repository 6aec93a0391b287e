//! The headline figure: what is kept of what was needed, against what is saved.
//!
//! One point a variant with its intervals; behind each, in grey, the reach from the random floor to
//! the oracle ceiling at the same budget, without which a height means nothing; the Pareto frontier
//! of what could be deployed. Controls are there to be compared with: grey, small, and on no frontier. Made for one
//! column of a paper. Colours are Okabe and Ito's, and shapes repeat what colours say.

pub mod canvas;
pub mod labels;
pub mod tiers;
pub mod timeline;

use std::collections::BTreeMap;

use super::lines::{MODEL_FREE, by_model};
use crate::report::figures::canvas::{
    Anchor, CAP_EM, Canvas, Colour, DESCENT_EM, INK, Mark, XY, fitted, text_width, wrapped,
};
use crate::report::figures::labels::{AWKWARD, FORBIDDEN, Label, Obstacle, Placed, Rect, place};
use crate::text::natural::natural;

/// A variant in the figure.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) label: String,
    /// Strategy: gives colour and shape.
    pub(crate) family: String,
    /// There to be compared with: faded, and on no frontier.
    pub(crate) control: bool,
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
const PLOT_HEIGHT: f64 = 176.0;
const TITLE_SIZE: f64 = 8.0;
const TICK_SIZE: f64 = 7.5;
const LABEL_SIZE: f64 = 7.0;
/// Of the shares at the ends of series.
const SHARE_SIZE: f64 = 5.5;
const LINE_HEIGHT: f64 = 9.2;
const RADIUS: f64 = 2.7;

/// With more variants points carry numbers, and a key names them.
const MAX_NAMED: usize = 14;
/// With more still, only the frontier is numbered.
const MAX_NUMBERED: usize = 40;
/// With more variants than [`MAX_NAMED`] intervals are this much lighter, and thin.
const CROWDED_LIGHTER: f64 = 0.6;

const GREY: Colour = Colour(0x77, 0x77, 0x77);
/// Thin lines of the controls.
const SERIES: Colour = Colour(0x99, 0x99, 0x99);
const REACH: Colour = Colour(0xD4, 0xD4, 0xD4);
const WHITE: Colour = Colour(0xFF, 0xFF, 0xFF);

/// Okabe and Ito's colours without yellow, which fades on white, and black, which is for words.
const COLOURS: [Colour; 6] = [
    Colour(0x00, 0x72, 0xB2),
    Colour(0xD5, 0x5E, 0x00),
    Colour(0x00, 0x9E, 0x73),
    Colour(0xCC, 0x79, 0xA7),
    Colour(0xE6, 0x9F, 0x00),
    Colour(0x56, 0xB4, 0xE9),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    TriangleDown,
    Pentagon,
    Star,
    Cross,
}

/// Shapes of families; one more than colours, so that pairs repeat only after 42 families.
const SHAPES: [Shape; 7] = [
    Shape::Circle,
    Shape::Square,
    Shape::Triangle,
    Shape::Diamond,
    Shape::TriangleDown,
    Shape::Pentagon,
    Shape::Star,
];

/// Shapes of controls, empty.
const CONTROL_SHAPES: [Shape; 7] = [
    Shape::Circle,
    Shape::Cross,
    Shape::Diamond,
    Shape::Square,
    Shape::Triangle,
    Shape::TriangleDown,
    Shape::Pentagon,
];

#[derive(Clone, Copy, Debug, PartialEq)]
struct Style {
    shape: Shape,
    colour: Colour,
    filled: bool,
}

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

/// Draws the figure; `tail` is the reference tail in turns. Every point is drawn, and a note counts the variants that have
/// none; which are named depends on how many there are.
pub(crate) fn retention_savings(points: &[Point], undrawn: Undrawn, tail: &str, population: &str) -> Figure {
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
            control: true,
            x: 0.0,
            x_interval: None,
            y: 1.0,
            y_interval: None,
            floor: None,
            ceiling: None,
        });
    }
    let context = Context {
        styles: styles(&points),
        tail: tail.to_owned(),
        population: population.to_owned(),
        undrawn,
        triggers: shorten_triggers(&mut points),
    };
    // The key groups families, and numbers follow the key.
    points.sort_by(|a, b| {
        let rank = |p: &Point| (p.family != FULL, !p.control);
        rank(a)
            .cmp(&rank(b))
            .then_with(|| natural(&a.family, &b.family))
            .then_with(|| natural(&a.label, &b.label))
    });
    let named = tiers(&points, &[], Naming::Names).iter().filter(|t| **t == Tier::Named).count();
    if named <= MAX_NAMED
        && let Some(figure) = draw(&points, &context, Naming::Names)
    {
        return figure;
    }
    draw(&points, &context, Naming::Numbers)
        .unwrap_or_else(|| draw(&points, &context, Naming::Nothing).expect("no labels, no collisions"))
}

/// What the parts of the drawing share.
struct Context {
    styles: BTreeMap<String, Style>,
    tail: String,
    /// Of which logs intervals speak.
    population: String,
    undrawn: Undrawn,
    /// What the labels leave out about triggers; empty is nothing.
    triggers: String,
}

/// Strategy, trigger and model of a label `strategy @ trigger [model]`; the model empty where none worked.
fn parts(label: &str) -> Option<(&str, &str, &str)> {
    let (strategy, trigger) = label.split_once(" @ ")?;
    let model = by_model(trigger);
    Some((strategy, trigger.strip_suffix(model)?, if model == MODEL_FREE { "" } else { model }))
}

/// Shortens labels (`strategy @ trigger [model]`): the commonest trigger is left out, the others become
/// letters, a model is named where one worked, and the words returned tell which is which. Nothing compressed needs no
/// trigger.
fn shorten_triggers(points: &mut [Point]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut has_model = false;
    for point in points.iter().filter(|p| p.family != FULL) {
        if let Some((_, trigger, model)) = parts(&point.label) {
            *counts.entry(trigger.to_owned()).or_default() += 1;
            has_model |= !model.is_empty();
        }
    }
    let mut triggers: Vec<(String, usize)> = counts.into_iter().collect();
    triggers.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| natural(&a.0, &b.0)));
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
    for point in points {
        let Some((strategy, trigger, model)) = parts(&point.label) else {
            continue;
        };
        let at = triggers.iter().position(|(t, _)| t == trigger);
        point.label = match (at, at.and_then(|i| letter(i.max(1)))) {
            _ if point.family == FULL => strategy.to_owned(),
            (Some(0), _) => format!("{strategy}{model}"),
            (_, Some(letter)) => format!("{strategy}{model} @{letter}"),
            _ => continue,
        };
    }
    // Kept whole where lines are broken.
    told.join(";\n").replace(' ', "\u{a0}").replace('\n', " ")
}

#[derive(Clone, Copy, PartialEq)]
enum Naming {
    Names,
    Numbers,
    /// Numbers did not fit either: the frontier alone is numbered, collisions and all.
    Nothing,
}

/// Colour and shape of each family in order of their names: controls grey and empty, what compresses nothing full.
fn styles(points: &[Point]) -> BTreeMap<String, Style> {
    let mut styles = BTreeMap::new();
    let (mut next, mut next_control) = (0, 0);
    let mut families: Vec<(&str, bool)> = points.iter().map(|p| (p.family.as_str(), p.control)).collect();
    families.sort_by(|a, b| natural(a.0, b.0));
    families.dedup_by_key(|f| f.0);
    for (family, control) in families {
        let style = if family == FULL {
            Style { shape: Shape::Circle, colour: GREY, filled: true }
        } else if control {
            next_control += 1;
            let shape = CONTROL_SHAPES[(next_control - 1) % CONTROL_SHAPES.len()];
            Style { shape, colour: GREY, filled: shape == Shape::Cross }
        } else {
            next += 1;
            let (shape, colour) = (SHAPES[(next - 1) % SHAPES.len()], COLOURS[(next - 1) % COLOURS.len()]);
            Style { shape, colour, filled: true }
        };
        styles.insert(family.to_owned(), style);
    }
    styles
}

/// From data to paper.
struct Axes {
    plot: Rect,
    x: (f64, f64),
    y: (f64, f64),
}

impl Axes {
    /// Ranges hold all points, intervals, floors and ceilings, rounded outwards to tenths.
    fn new(points: &[Point], plot: Rect) -> Self {
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

    fn at(&self, x: f64, y: f64) -> XY {
        let share = |v: f64, range: (f64, f64)| (v - range.0) / (range.1 - range.0);
        let (left, right) = (self.plot.x0 + Self::INSET, self.plot.x1 - Self::INSET);
        let (top, bottom) = (self.plot.y0 + Self::INSET, self.plot.y1 - Self::INSET);
        (left + share(x, self.x) * (right - left), bottom - share(y, self.y) * (bottom - top))
    }

    fn ticks(range: (f64, f64)) -> Vec<f64> {
        let span = range.1 - range.0;
        // In tenths; few enough to leave room between the figures.
        let step = [1, 2, 5, 10, 20, 50].into_iter().find(|&s| span <= 0.65 * f64::from(s));
        let step = i64::from(step.unwrap_or(100));
        let tenths = |v: f64| (v * 10.0).round() as i64;
        (tenths(range.0)..=tenths(range.1)).filter(|t| t % step == 0).map(|t| t as f64 / 10.0).collect()
    }
}

/// The figure, or `None` if labels cannot be placed well.
fn draw(points: &[Point], context: &Context, naming: Naming) -> Option<Figure> {
    let styles = &context.styles;
    let plot = Rect { x0: 22.0, y0: 15.0, x1: WIDTH - 2.0, y1: 15.0 + PLOT_HEIGHT };
    let axes = Axes::new(points, plot);
    let centres: Vec<XY> = points.iter().map(|p| axes.at(p.x, p.y)).collect();
    let frontier = frontier(points);
    let steps = steps(&frontier.iter().map(|&i| centres[i]).collect::<Vec<_>>());
    let tiers = tiers(points, &frontier, naming);
    let markers: Vec<Rect> =
        centres.iter().zip(&tiers).map(|(&c, t)| Rect::around(c, t.radius(), t.radius())).collect();
    let of = |tier: Tier| (0..points.len()).filter(|&i| tiers[i] == tier).collect::<Vec<usize>>();
    let (named, references, others) = (of(Tier::Named), of(Tier::Reference), of(Tier::Other));
    let series = series(points, &references);
    // Numbers of points that coincide stand together; names do not.
    let groups: Vec<Vec<usize>> = match naming {
        Naming::Names => (0..named.len()).map(|k| vec![k]).collect(),
        _ => coinciding(&named.iter().map(|&i| centres[i]).collect::<Vec<_>>()),
    };
    let texts: Vec<String> = groups
        .iter()
        .map(|group| match naming {
            Naming::Names => points[named[group[0]]].label.clone(),
            _ => numbers(group),
        })
        .collect();
    let labels: Vec<Label> = groups
        .iter()
        .zip(&texts)
        .map(|(group, text)| Label {
            point: centres[named[group[0]]],
            width: text_width(text, LABEL_SIZE),
            height: (CAP_EM + if naming == Naming::Names { DESCENT_EM } else { 0.0 }) * LABEL_SIZE,
        })
        .collect();
    let mut obstacles: Vec<Obstacle> =
        steps.windows(2).map(|s| Obstacle { a: s[0], b: s[1], cost: 3.0 }).collect();
    let mut keep_off = |a, b, cost| obstacles.push(Obstacle { a, b, cost });
    for (i, point) in points.iter().enumerate() {
        let cost = if tiers[i] == Tier::Named { 1.5 } else { 0.4 };
        for (a, b) in intervals(point, &axes).into_iter().filter(|_| tiers[i] != Tier::Other) {
            keep_off(a, b, cost);
        }
        if let (Tier::Named, Some((low, high))) = (tiers[i], reach(point, &axes, centres[i])) {
            keep_off(low, high, 0.3);
        }
    }
    for pair in series.iter().flat_map(|s| s.windows(2)) {
        keep_off(centres[pair[0]], centres[pair[1]], 0.8);
    }
    let inside = Rect { x0: plot.x0 + 2.0, y0: plot.y0 + 1.0, x1: plot.x1, y1: plot.y1 - 2.0 };
    let (placed, cost) = place(&labels, &markers, &obstacles, inside, RADIUS);
    let limit = match naming {
        Naming::Names => AWKWARD,
        Naming::Numbers => FORBIDDEN,
        Naming::Nothing => f64::INFINITY,
    };
    if cost >= limit {
        return None;
    }

    let mut canvas = Canvas {
        width: WIDTH,
        height: 0.0,
        title: "Need retention against token savings, one point a variant".to_owned(),
        marks: Vec::new(),
    };
    draw_axes(&mut canvas, &axes, &context.tail);
    for &i in &named {
        if let Some((low, high)) = reach(&points[i], &axes, centres[i]) {
            draw_reach(&mut canvas, low, high);
        }
    }
    for &i in &others {
        draw_marker(&mut canvas, centres[i], tiers[i].radius(), styles[&points[i].family]);
    }
    // Of hundreds of variants the intervals of those without a number would bury all else.
    let crowded = named.len() > MAX_NAMED;
    if !crowded {
        canvas.line(&steps, 0.8, GREY);
    }
    for &i in references.iter().chain(&named) {
        let (width, colour) = match tiers[i] {
            Tier::Named => (0.7, styles[&points[i].family].colour),
            _ => (0.35, SERIES),
        };
        let (width, colour) =
            if crowded { (0.6 * width, colour.lighter(CROWDED_LIGHTER)) } else { (width, colour) };
        for (a, b) in intervals(&points[i], &axes) {
            canvas.line(&[a, b], width, colour);
        }
    }
    if crowded {
        canvas.line(&steps, 0.8, GREY);
    }
    for one in &series {
        canvas.line(&one.iter().map(|&i| centres[i]).collect::<Vec<_>>(), 0.45, SERIES);
    }
    for (from, to) in placed.iter().filter_map(|p| p.leader) {
        canvas.line(&[from, to], 0.35, GREY);
    }
    for &i in references.iter().chain(&named) {
        draw_marker(&mut canvas, centres[i], tiers[i].radius(), styles[&points[i].family]);
    }
    // Of markers that coincide the later ones lie small on the first, so that all are seen.
    let first_named: Vec<usize> = named.iter().chain(&references).copied().collect();
    for group in coinciding(&first_named.iter().map(|&i| centres[i]).collect::<Vec<_>>()) {
        for (depth, &k) in group.iter().enumerate().filter(|_| group.len() > 1) {
            let i = first_named[k];
            let radius = tiers[i].radius() * NESTED.powi(depth.min(2) as i32);
            draw_marker(&mut canvas, centres[i], radius, styles[&points[i].family]);
        }
    }
    let descent = if naming == Naming::Names { DESCENT_EM * LABEL_SIZE } else { 0.0 };
    for (Placed { rect, .. }, text) in placed.iter().zip(&texts) {
        canvas.text((rect.x0, rect.y1 - descent), Anchor::Start, LABEL_SIZE, INK, text);
    }
    let mut labels: Vec<(String, Rect)> = texts.into_iter().zip(placed.iter().map(|p| p.rect)).collect();
    obstacles.extend(placed.iter().filter_map(|p| p.leader).map(|(a, b)| Obstacle { a, b, cost: 3.0 }));
    let mut told: Vec<(&str, XY)> = Vec::new();
    for &i in series.iter().filter(|s| s.len() > 1).flat_map(|s| [&s[0], &s[s.len() - 1]]) {
        let Some(share) = setting(&points[i].label) else {
            continue;
        };
        // One text does for neighbours.
        let near = |at: XY| (at.0 - centres[i].0).hypot(at.1 - centres[i].1) < 2.0 * RADIUS;
        if told.iter().any(|&(text, at)| text == share && near(at)) {
            continue;
        }
        if let Some(rect) = share_box(centres[i], share, &markers, &labels, &obstacles, inside) {
            canvas.text((rect.x0, rect.y1), Anchor::Start, SHARE_SIZE, GREY, share);
            labels.push((share.to_owned(), rect));
            told.push((share, centres[i]));
        }
    }
    let part = |indices: &[usize]| indices.iter().map(|&i| points[i].clone()).collect::<Vec<_>>();
    let mut entries: Vec<Entry> = match naming {
        // Names stand at the points; the key explains shapes.
        Naming::Names => families(&part(&named), styles),
        _ => {
            // A strategy under several triggers is one line.
            let base = |k: &usize| points[named[*k]].label.split(" @").next().unwrap_or_default();
            let of = |k: &usize| (&points[named[*k]].family, base(k));
            let all: Vec<usize> = (0..named.len()).collect();
            let shown = |group: &[usize]| Entry {
                style: styles[&points[named[group[0]]].family],
                number: numbers(group),
                text: group.iter().skip(1).fold(points[named[group[0]]].label.clone(), |text, &k| {
                    format!("{text},{}", &points[named[k]].label[base(&k).len()..])
                }),
            };
            all.chunk_by(|a, b| of(a) == of(b)).map(shown).collect()
        }
    };
    let is_named = |family: &Entry| named.iter().any(|&i| points[i].family == family.text);
    entries.extend(families(&part(&others), styles).into_iter().filter(|f| !is_named(f)));
    entries.extend(
        families(&part(&references), styles)
            .into_iter()
            .map(|family| Entry { text: settings(&family.text, &part(&references)), ..family }),
    );
    draw_key(&mut canvas, plot.y1 + 34.0, &entries, &notes(points, context, others.len()));
    Some(Figure { canvas, labels, markers })
}

/// Size of a marker that lies on another, as a share of its own.
const NESTED: f64 = 0.55;

/// Indices of points by place: each group lies within a marker's radius of its first.
fn coinciding(centres: &[XY]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (k, centre) in centres.iter().enumerate() {
        let near = |first: usize| {
            let (x, y) = centres[first];
            (centre.0 - x).hypot(centre.1 - y) < RADIUS
        };
        match groups.iter_mut().find(|g| near(g[0])) {
            Some(group) => group.push(k),
            None => groups.push(vec![k]),
        }
    }
    groups
}

/// `2,5-9` for the indices 1, 4, 5, 6, 7, 8: numbers count from 1.
fn numbers(indices: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &i in indices {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == i => *end = i,
            _ => runs.push((i, i)),
        }
    }
    let run = |&(start, end): &(usize, usize)| match end - start {
        0 => (start + 1).to_string(),
        1 => format!("{},{}", start + 1, end + 1),
        _ => format!("{}-{}", start + 1, end + 1),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// `0.02` of `random(kept_share=0.02) @ tokens`.
fn setting(label: &str) -> Option<&str> {
    let (_, value) = label.split_once('(')?.1.split_once(')')?.0.split_once('=')?;
    (!value.contains(',')).then_some(value)
}

/// Where the share of a control stands beside its marker, if it fits there.
fn share_box(
    centre: XY,
    text: &str,
    markers: &[Rect],
    labels: &[(String, Rect)],
    obstacles: &[Obstacle],
    inside: Rect,
) -> Option<Rect> {
    /// Points of length of thin lines that it may lie on, weighted with their cost.
    const BEARABLE: f64 = 2.5;
    let (half_width, half_height) = (text_width(text, SHARE_SIZE) / 2.0, CAP_EM * SHARE_SIZE / 2.0);
    let reach = Tier::Reference.radius() * 1.3 + 0.8;
    let directions = [
        (1.0, 0.0),
        (-1.0, 0.0),
        (0.0, -1.0),
        (0.0, 1.0),
        (0.8, -0.8),
        (0.8, 0.8),
        (-0.8, -0.8),
        (-0.8, 0.8),
    ];
    let boxes = directions.map(|(dx, dy): (f64, f64)| {
        let beside = |d: f64, half: f64| d * reach + d.signum() * f64::from(u8::from(d != 0.0)) * half;
        let at = (centre.0 + beside(dx, half_width), centre.1 + beside(dy, half_height));
        Rect::around(at, half_width, half_height)
    });
    let is_free = |rect: &&Rect| {
        let roomy = rect.grown(0.5);
        inside.holds(rect)
            && markers.iter().all(|m| m.overlap(&roomy) == 0.0)
            && labels.iter().all(|(_, l)| l.overlap(&roomy) == 0.0)
    };
    let cost = |rect: &Rect| obstacles.iter().map(|o| o.cost * rect.grown(0.3).covers(o.a, o.b)).sum::<f64>();
    let (rect, cost) =
        boxes.iter().filter(is_free).map(|rect| (*rect, cost(rect))).min_by(|a, b| a.1.total_cmp(&b.1))?;
    (cost <= BEARABLE).then_some(rect)
}

/// How a point is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    /// With a name or number, its interval, floor and ceiling.
    Named,
    /// A control: small; at several budgets joined by a line.
    Reference,
    /// One of too many: small, alone.
    Other,
}

impl Tier {
    fn radius(self) -> f64 {
        match self {
            Tier::Named => RADIUS,
            Tier::Reference => 0.75 * RADIUS,
            Tier::Other => 0.6 * RADIUS,
        }
    }
}

/// Controls are for reference; of the rest all are named if they are few, the
/// frontier alone if they are many.
fn tiers(points: &[Point], frontier: &[usize], naming: Naming) -> Vec<Tier> {
    let is_reference = |p: &Point| p.control && p.family != FULL;
    let n_rest = points.iter().filter(|p| !is_reference(p)).count();
    let all = match naming {
        Naming::Names => true,
        Naming::Numbers => n_rest <= MAX_NUMBERED,
        Naming::Nothing => false,
    };
    let tier = |(i, point): (usize, &Point)| match point {
        p if is_reference(p) => Tier::Reference,
        p if all || p.family == FULL || frontier.contains(&i) => Tier::Named,
        _ => Tier::Other,
    };
    points.iter().enumerate().map(tier).collect()
}

/// Points of one family under one trigger, by savings. Of equal savings the larger setting, which labels put last, comes
/// first: where all that can be kept is kept, the end is the largest share.
fn series(points: &[Point], references: &[usize]) -> Vec<Vec<usize>> {
    let mut series: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for &i in references {
        let trigger = points[i].label.rsplit_once(" @").map_or("", |(_, trigger)| trigger);
        series.entry((&points[i].family, trigger)).or_default().push(i);
    }
    for one in series.values_mut() {
        one.sort_by(|&a, &b| points[a].x.total_cmp(&points[b].x).then(b.cmp(&a)));
    }
    series.into_values().collect()
}

/// `random, kept_share=0.02 to 0.4`: the settings of a family from the first to the last label.
fn settings(family: &str, points: &[Point]) -> String {
    let inside = |p: &Point| Some(p.label.split_once('(')?.1.split_once(')')?.0.to_owned());
    let mut settings: Vec<String> = points.iter().filter(|p| p.family == family).filter_map(inside).collect();
    settings.sort_by(|a, b| natural(a, b));
    settings.dedup();
    match (settings.first(), settings.last()) {
        (Some(first), Some(last)) if first != last => {
            let last = match (first.rsplit_once('='), last.rsplit_once('=')) {
                (Some((a, _)), Some((b, value))) if a == b => value,
                _ => last,
            };
            format!("{family}, {first} to {last}")
        }
        _ => family.to_owned(),
    }
}

/// A line of the key.
struct Entry {
    style: Style,
    /// Empty where points carry names.
    number: String,
    text: String,
}

fn families(points: &[Point], styles: &BTreeMap<String, Style>) -> Vec<Entry> {
    let mut families: Vec<Entry> = Vec::new();
    for Point { family, .. } in points {
        if families.iter().all(|entry| entry.text != *family) {
            families.push(Entry { style: styles[family], number: String::new(), text: family.clone() });
        }
    }
    families
}

/// Points that no other beats in both, by growing savings. Controls are no way to run an agent; what keeps nothing that
/// was needed extends no frontier.
fn frontier(points: &[Point]) -> Vec<usize> {
    let counts = |p: &Point| p.y > 0.0 && !p.control;
    let mut order: Vec<usize> = (0..points.len()).filter(|&i| counts(&points[i])).collect();
    order.sort_by(|&a, &b| points[b].x.total_cmp(&points[a].x).then(points[b].y.total_cmp(&points[a].y)));
    let mut best = f64::NEG_INFINITY;
    order.retain(|&i| {
        let better = points[i].y > best;
        best = best.max(points[i].y);
        better
    });
    order.reverse();
    order
}

/// The edge of what the frontier's points dominate, on paper.
fn steps(frontier: &[XY]) -> Vec<XY> {
    let mut steps: Vec<XY> = Vec::new();
    for &(x, y) in frontier {
        if let Some(&(before, _)) = steps.last() {
            steps.push((before, y));
        }
        steps.push((x, y));
    }
    steps
}

/// Segments of the intervals, on paper.
fn intervals(point: &Point, axes: &Axes) -> Vec<(XY, XY)> {
    let x = point.x_interval.map(|(lo, hi)| (axes.at(lo, point.y), axes.at(hi, point.y)));
    let y = point.y_interval.map(|(lo, hi)| (axes.at(point.x, lo), axes.at(point.x, hi)));
    x.into_iter().chain(y).filter(|(a, b)| a != b).collect()
}

/// Floor and ceiling at the point's place, on paper.
fn reach(point: &Point, axes: &Axes, centre: XY) -> Option<(XY, XY)> {
    let height = |y: f64| axes.at(point.x, y).1;
    let (low, high) = (height(point.floor?), height(point.ceiling?));
    ((low - high).abs() > 0.5).then_some(((centre.0, low), (centre.0, high)))
}

fn draw_reach(canvas: &mut Canvas, low: XY, high: XY) {
    const HALF: f64 = 2.6;
    canvas.line(&[low, high], 0.8, REACH);
    for (x, y) in [low, high] {
        canvas.line(&[(x - HALF, y), (x + HALF, y)], 0.8, REACH);
    }
}

fn draw_axes(canvas: &mut Canvas, axes: &Axes, tail: &str) {
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
        &format!("Need retention (bound, needs older than {tail} turns)"),
    );
    canvas.text(
        (plot.x1, plot.y1 + 20.5),
        Anchor::End,
        TITLE_SIZE,
        INK,
        "Token savings (share of prompt tokens)",
    );
}

fn tick(value: f64) -> String {
    super::tables::fixed(value, usize::from(value != 0.0 && value != 1.0))
}

fn draw_marker(canvas: &mut Canvas, centre: XY, radius: f64, style: Style) {
    // A white rim keeps neighbours apart.
    draw_shape(canvas, centre, 1.22 * radius, style.shape, WHITE);
    draw_shape(canvas, centre, radius, style.shape, style.colour);
    if !style.filled {
        draw_shape(canvas, centre, 0.66 * radius, style.shape, WHITE);
    }
}

/// A shape that looks as large as a circle of that radius.
fn draw_shape(canvas: &mut Canvas, (x, y): XY, radius: f64, shape: Shape, colour: Colour) {
    // Corners on a circle, the first at `turn` of a full turn clockwise from the top.
    let regular = |corners: u32, radius: f64, turn: f64| -> Vec<XY> {
        (0..corners)
            .map(|i| {
                let angle = (f64::from(i) / f64::from(corners) + turn) * std::f64::consts::TAU;
                (x + radius * angle.sin(), y - radius * angle.cos())
            })
            .collect()
    };
    let bar = |angle: f64| -> Vec<XY> {
        let (half, long) = (radius * 0.28, radius * 1.05);
        let (sin, cos) = angle.sin_cos();
        [(-long, -half), (long, -half), (long, half), (-long, half)]
            .map(|(u, v)| (x + u * cos - v * sin, y + u * sin + v * cos))
            .to_vec()
    };
    let polygons = match shape {
        Shape::Circle => {
            canvas.marks.push(Mark::Circle { centre: (x, y), radius, colour });
            return;
        }
        Shape::Square => vec![regular(4, radius * 1.25, 0.125)],
        Shape::Diamond => vec![regular(4, radius * 1.3, 0.0)],
        Shape::Triangle => vec![regular(3, radius * 1.3, 0.0)],
        Shape::TriangleDown => vec![regular(3, radius * 1.3, 0.5)],
        Shape::Pentagon => vec![regular(5, radius * 1.15, 0.0)],
        Shape::Cross => [0.125, 0.375].map(|turn: f64| bar(turn * std::f64::consts::TAU)).to_vec(),
        Shape::Star => {
            let (tips, notches) = (regular(5, radius * 1.4, 0.0), regular(5, radius * 0.6, 0.1));
            vec![tips.into_iter().zip(notches).flat_map(|(tip, notch)| [tip, notch]).collect()]
        }
    };
    canvas.marks.extend(polygons.into_iter().map(|points| Mark::Polygon { points, colour }));
}

/// A line of text below the key.
struct Note {
    text: String,
    /// Whether it explains the grey bars, and one stands before it.
    reach: bool,
}

fn notes(points: &[Point], context: &Context, n_others: usize) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut note = |text: String, reach| notes.push(Note { text, reach });
    if points.iter().any(|p| p.floor.is_some() && p.ceiling.is_some()) {
        note("from random lines (floor) to oracle (ceiling), same tokens kept".to_owned(), true);
    }
    note(format!("intervals: {}; controls are grey, on no frontier", context.population), false);
    for line in wrapped(&context.triggers, LABEL_SIZE, WIDTH - 12.0) {
        note(line, false);
    }
    context.undrawn.notes().for_each(|text| note(text, false));
    if n_others > 0 {
        note(format!("small marks: {n_others} more variants, named in summary.csv"), false);
    }
    notes
}

/// The key below the plot: points, then what the lines mean. Ends the canvas.
fn draw_key(canvas: &mut Canvas, top: f64, entries: &[Entry], notes: &[Note]) {
    const MARKER: f64 = 4.0;
    const TEXT: f64 = 9.5;
    const BETWEEN: f64 = 7.0;
    let width = |text: &str| text_width(text, LABEL_SIZE);
    let numbers = entries.iter().map(|e| width(&e.number)).fold(0.0, f64::max);
    // Numbers end where the longest does; text begins behind.
    let indent = if numbers > 0.0 { TEXT + numbers + 3.0 } else { TEXT };
    let widths = |rows: usize| -> Vec<f64> {
        let widest = |part: &[Entry]| part.iter().map(|e| width(&e.text)).fold(0.0, f64::max);
        entries.chunks(rows).map(|part| indent + widest(part)).collect()
    };
    let fits = |rows: &usize| {
        let widths = widths(*rows);
        // A last column of one or two entries looks like a mistake.
        let last = entries.len() - (widths.len() - 1) * rows;
        2 * last >= *rows && widths.iter().sum::<f64>() + BETWEEN * (widths.len() - 1) as f64 <= WIDTH
    };
    let rows = (1..=entries.len()).find(fits).unwrap_or(entries.len().max(1));
    let widths = widths(rows);
    let spare = (WIDTH - widths.iter().sum::<f64>()) / widths.len() as f64;
    let mut left = 0.0;
    for (part, width) in entries.chunks(rows).zip(&widths) {
        for (row, entry) in part.iter().enumerate() {
            let baseline = top + row as f64 * LINE_HEIGHT;
            draw_marker(canvas, (left + MARKER, baseline - CAP_EM * LABEL_SIZE / 2.0), RADIUS, entry.style);
            canvas.text((left + TEXT + numbers, baseline), Anchor::End, LABEL_SIZE, INK, &entry.number);
            let text = fitted(&entry.text, LABEL_SIZE, WIDTH - left - indent);
            canvas.text((left + indent, baseline), Anchor::Start, LABEL_SIZE, INK, &text);
        }
        left += width + spare.clamp(BETWEEN, 30.0);
    }
    let mut baseline = top + rows as f64 * LINE_HEIGHT + 3.0;
    let middle = |baseline: f64| baseline - CAP_EM * LABEL_SIZE / 2.0;
    canvas.line(&[(0.5, middle(baseline)), (7.5, middle(baseline))], 0.8, GREY);
    canvas.text((TEXT, baseline), Anchor::Start, LABEL_SIZE, INK, "Pareto frontier");
    let x = WIDTH * 0.34;
    let cross = (x + 3.5, middle(baseline));
    canvas.line(&[(x, cross.1), (x + 7.0, cross.1)], 0.7, INK);
    canvas.line(&[(cross.0, cross.1 - 3.5), (cross.0, cross.1 + 3.5)], 0.7, INK);
    canvas.text((x + TEXT, baseline), Anchor::Start, LABEL_SIZE, INK, "95 % interval over clusters");
    for note in notes {
        baseline += LINE_HEIGHT;
        if note.reach {
            draw_reach(canvas, (MARKER, middle(baseline) + 3.5), (MARKER, middle(baseline) - 3.5));
        }
        let text = fitted(&note.text, LABEL_SIZE, WIDTH - TEXT);
        canvas.text((TEXT, baseline), Anchor::Start, LABEL_SIZE, INK, &text);
    }
    canvas.height = (baseline + 4.0).ceil();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(label: &str, family: &str, x: f64, y: f64) -> Point {
        Point {
            label: label.to_owned(),
            family: family.to_owned(),
            control: ["full", "oracle", "random", "atom-bag", "drop-all"].contains(&family),
            x,
            x_interval: Some((x - 0.03, x + 0.03)),
            y,
            y_interval: Some((y - 0.04, (y + 0.04).min(1.0))),
            floor: Some(y * 0.7),
            ceiling: Some(0.9 + 0.1 * y),
        }
    }

    /// `n` points of `families` families in a band, in a fixed disorder.
    fn band(n: u32, families: u32) -> Vec<Point> {
        (0..n)
            .map(|i| {
                let (a, b) = (f64::from(i * 37 % n) / f64::from(n), f64::from(i * 61 % n) / f64::from(n));
                let family = format!("strategy-{}", i % families);
                point(&format!("{family} n={i}"), &family, 0.2 + 0.5 * a, 0.95 - 0.6 * a + 0.2 * b)
            })
            .collect()
    }

    fn is_clear(figure: &Figure) {
        let (plot, labels) = (Rect { x0: 0.0, y0: 0.0, x1: WIDTH, y1: 15.0 + PLOT_HEIGHT }, &figure.labels);
        for (i, (text, rect)) in labels.iter().enumerate() {
            assert!(rect.x0 >= plot.x0 && rect.x1 <= plot.x1 && rect.y1 <= plot.y1, "{text}: {rect:?}");
            for marker in &figure.markers {
                assert_eq!(marker.overlap(rect), 0.0, "{text} covers a marker");
            }
            for (other, box_) in &labels[..i] {
                assert_eq!(box_.overlap(rect), 0.0, "{text} covers {other}");
            }
        }
    }

    /// Keeps the picture where `TRAJPRESS_REPORT_OUT` says, to look at it.
    fn keep(figure: &Figure, name: &str) {
        if let Some(out) = std::env::var_os("TRAJPRESS_REPORT_OUT") {
            std::fs::write(std::path::Path::new(&out).join(name), figure.png().unwrap()).unwrap();
        }
    }

    #[test]
    fn few_points_carry_their_names_and_none_collide() {
        let figure = retention_savings(&band(9, 3), Undrawn::default(), "10", "other repositories");
        keep(&figure, "few.png");
        is_clear(&figure);
        assert!(figure.labels.iter().any(|(text, _)| text == "full"), "added where it is missing");
        assert!(figure.labels.iter().any(|(text, _)| text == "strategy-1 n=1"));
    }

    #[test]
    fn many_points_carry_numbers_and_none_collide() {
        let figure = retention_savings(&band(38, 8), Undrawn::default(), "10", "other repositories");
        keep(&figure, "many.png");
        is_clear(&figure);
        assert_eq!(figure.labels.len(), 39);
        assert!(figure.labels.iter().all(|(text, _)| text.parse::<u32>().is_ok()));
    }

    #[test]
    fn hundreds_of_points_are_drawn_and_the_frontier_is_numbered() {
        let figure = retention_savings(&band(211, 12), Undrawn::default(), "10", "other repositories");
        keep(&figure, "hundreds.png");
        assert_eq!(figure.markers.len(), 212);
        assert!(figure.labels.len() >= 3 && figure.labels.len() <= MAX_NUMBERED);
    }

    #[test]
    fn a_heap_of_equal_points_is_drawn_all_the_same() {
        let heap: Vec<Point> = (0..30).map(|i| point(&format!("v{i}"), "mask", 0.5, 0.5)).collect();
        let figure = retention_savings(&heap, Undrawn::default(), "10", "other repositories");
        keep(&figure, "heap.png");
        assert_eq!(figure.markers.len(), 31);
    }

    #[test]
    fn points_that_coincide_share_a_label_and_are_all_seen() {
        assert_eq!(numbers(&[1, 13]), "2,14");
        assert_eq!(numbers(&[1, 4, 5, 6, 8, 9]), "2,5-7,9,10");
        let mut points = band(16, 4);
        points.push(point("twin", "twin-a", 0.9, 0.9));
        points.push(point("twin", "twin-b", 0.9, 0.9));
        let figure = retention_savings(&points, Undrawn::default(), "10", "other repositories");
        keep(&figure, "twins.png");
        is_clear(&figure);
        assert!(figure.labels.iter().any(|(text, _)| text == "18,19"), "{:?}", figure.labels);
        // The later one lies small on the first.
        let colours = styles(&points);
        let drawn = |family: &str| {
            let colour = colours[family].colour;
            let last = figure.canvas.marks.iter().rposition(|m| match m {
                Mark::Polygon { colour: c, .. } | Mark::Circle { colour: c, .. } => *c == colour,
                _ => false,
            });
            last.expect("every family is drawn")
        };
        assert!(drawn("twin-b") > drawn("twin-a"));
        assert_eq!(coinciding(&[(0.0, 0.0), (9.0, 0.0), (1.0, 1.0)]), [vec![0, 2], vec![1]]);
    }

    #[test]
    fn many_intervals_are_thin_and_light() {
        let colours = |n: u32| {
            let figure = retention_savings(&band(n, 1), Undrawn::default(), "10", "other repositories");
            let mut widths = Vec::new();
            for mark in &figure.canvas.marks {
                if let Mark::Line { width, colour, .. } = mark
                    && [COLOURS[0], COLOURS[0].lighter(CROWDED_LIGHTER)].contains(colour)
                {
                    widths.push((*width < 0.5, *colour == COLOURS[0]));
                }
            }
            widths.dedup();
            widths
        };
        assert_eq!(colours(6), [(false, true)]);
        assert_eq!(colours(20), [(true, false)]);
    }

    #[test]
    fn the_frontier_is_what_no_other_point_beats_without_controls_and_zeros() {
        let points = [
            point("a", "full", 0.0, 1.0),
            point("b", "mask", 0.5, 0.8),
            point("worse than b", "mask", 0.4, 0.7),
            point("as b, saves less", "mask", 0.4, 0.8),
            point("c", "truncate", 0.7, 0.3),
            point("d", "oracle", 0.7, 0.95),
            point("e", "random", 0.6, 0.9),
            point("f", "atom-bag", 0.6, 0.85),
            point("g", "drop-all", 0.8, 0.2),
            point("keeps nothing", "truncate", 0.9, 0.0),
        ];
        assert_eq!(frontier(&points), [1, 4]);
        assert_eq!(
            steps(&[(0.0, 0.0), (5.0, 2.0), (7.0, 9.0)]),
            [(0.0, 0.0), (0.0, 2.0), (5.0, 2.0), (5.0, 9.0), (7.0, 9.0)]
        );
    }

    #[test]
    fn controls_at_several_budgets_are_a_series_without_names() {
        let mut points = band(12, 4);
        for share in [0.4, 0.02, 0.1] {
            for trigger in ["turns(n=1)", "tokens"] {
                let label = format!("random(kept_share={share}) @ {trigger}");
                points.push(point(&label, "random", 0.9 - share, 0.1 + 0.4 * share));
            }
        }
        let figure = retention_savings(&points, Undrawn::default(), "10", "other repositories");
        keep(&figure, "series.png");
        is_clear(&figure);
        assert!(figure.labels.iter().all(|(text, _)| !text.contains("random")));
        let told = |share: &str| figure.labels.iter().filter(|(text, _)| text == share).count();
        assert!(told("0.02") >= 1 && told("0.4") >= 1 && told("0.1") == 0, "{:?}", figure.labels);
        shorten_triggers(&mut points);
        let references: Vec<usize> = (12..18).collect();
        assert_eq!(settings("random", &points), "random, kept_share=0.02 to 0.4");
        // Largest share, least savings, first.
        assert_eq!(series(&points, &references), [[13, 17, 15], [12, 16, 14]]);
        let tied = [("0.2", 0.5), ("0.4", 0.5), ("0.02", 0.6)];
        let tied = tied.map(|(share, x)| point(&format!("oracle(kept_share={share})"), "oracle", x, 0.9));
        assert_eq!(series(&tied, &[0, 1, 2]), [[1, 0, 2]]);
    }

    #[test]
    fn triggers_are_told_once() {
        let mut points = [
            point("full @ never", FULL, 0.0, 1.0),
            point("mask(m=5) @ turns(n=20)", "mask", 0.5, 0.8),
            point("mask(m=9) @ turns(n=20)", "mask", 0.4, 0.8),
            point("truncate @ tokens", "truncate", 0.4, 0.7),
            point("truncate", "truncate", 0.4, 0.7),
        ];
        let told = shorten_triggers(&mut points);
        assert_eq!(told, "trigger:\u{a0}turns(n=20)\u{a0}unless\u{a0}marked; @a\u{a0}tokens");
        let labels: Vec<&str> = points.iter().map(|p| p.label.as_str()).collect();
        assert_eq!(labels, ["full", "mask(m=5)", "mask(m=9)", "truncate @a", "truncate"]);
        assert_eq!(shorten_triggers(&mut points[..1]), "");
        // A model is no part of the trigger.
        let mut points = [
            point("summary @ turns(n=20) [model-free]", "summary", 0.5, 0.8),
            point("summary @ turns(n=20) [smollm2]", "summary", 0.4, 0.8),
            point("summary @ tokens [smollm2]", "summary", 0.4, 0.8),
        ];
        let told = shorten_triggers(&mut points).replace('\u{a0}', " ");
        assert_eq!(told, "trigger: turns(n=20) unless marked; @a tokens; no model unless named");
        let labels: Vec<&str> = points.iter().map(|p| p.label.as_str()).collect();
        assert_eq!(labels, ["summary", "summary [smollm2]", "summary [smollm2] @a"]);
    }

    #[test]
    fn the_axes_hold_everything_and_start_at_round_numbers() {
        let points = [point("a", "mask", -0.04, 0.52), point("b", "mask", 0.55, 0.8)];
        let axes = Axes::new(&points, Rect { x0: 0.0, y0: 0.0, x1: 100.0, y1: 100.0 });
        assert_eq!((axes.x, axes.y), ((-0.1, 0.6), (0.3, 1.0)));
        assert_eq!(Axes::ticks(axes.x), [0.0, 0.2, 0.4, 0.6]);
    }

    #[test]
    fn the_svg_is_in_its_size_on_paper_and_names_fonts_to_fall_back_on() {
        let svg =
            retention_savings(&band(5, 2), Undrawn::default(), "10", "other repositories").svg().unwrap();
        assert!(svg.starts_with("<svg width=\"237.6pt\" height=\""), "{}", &svg[..90]);
        assert!(svg.contains("<title>Need retention"));
        assert!(svg.contains("font-family=\"Arimo, Liberation Sans, Arial, Helvetica, sans-serif\""));
    }

    #[test]
    fn variants_that_have_no_point_are_counted() {
        let of = |below, unscored| {
            let undrawn = Undrawn { below, unscored };
            let figure = retention_savings(&[], undrawn, "10", "other repositories");
            keep(&figure, &format!("undrawn_{below}_{unscored}.png"));
            let svg = figure.svg().unwrap();
            [
                "40 variants below the minimum are not drawn",
                "1 variant without a score is not drawn",
                "not drawn",
            ]
            .map(|note| svg.matches(note).count())
        };
        assert_eq!(of(40, 0), [1, 0, 1]);
        assert_eq!(of(40, 1), [1, 1, 2]);
        assert_eq!(of(0, 0), [0, 0, 0]);
    }
}
