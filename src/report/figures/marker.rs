//! Colours and shapes of the families, and how they are drawn.

use std::collections::BTreeMap;

use crate::report::figures::canvas::{Canvas, Colour, Mark, XY};
use crate::text::natural::natural;

use super::FULL;

pub(super) const GREY: Colour = Colour(0x73, 0x73, 0x73);

pub(super) const REACH: Colour = Colour(0xD4, 0xD4, 0xD4);
pub(super) const WHITE: Colour = Colour(0xFF, 0xFF, 0xFF);

/// Okabe and Ito's colours without yellow, which fades on white, and black, which is for words.
pub(super) const COLOURS: [Colour; 6] = [
    Colour(0x00, 0x72, 0xB2),
    Colour(0xD5, 0x5E, 0x00),
    Colour(0x00, 0x9E, 0x73),
    Colour(0xCC, 0x79, 0xA7),
    Colour(0xE6, 0x9F, 0x00),
    Colour(0x56, 0xB4, 0xE9),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
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
pub(crate) struct Style {
    pub(super) shape: Shape,
    pub(super) colour: Colour,
    pub(super) filled: bool,
}

/// By family, and by setting where a family has several.
pub(crate) type Styles = BTreeMap<String, Style>;

/// Colour and shape of each family in order of their names, and whether it is a control: those are grey and empty, what compresses
/// nothing is full. All figures of a run take them from all of its families, so that one has one look everywhere. Settings of a
/// family have its colour, each with another shape; each is given with its family, and whether it is a control.
pub(crate) fn styles<'a>(settings: impl Iterator<Item = (&'a str, &'a str, bool)>) -> Styles {
    let mut styles = BTreeMap::new();
    let (mut next, mut next_control) = (0, 0);
    let mut all: Vec<(&str, &str, bool)> = settings.collect();
    all.sort_by(|a, b| natural(a.0, b.0).then_with(|| natural(a.1, b.1)));
    all.dedup_by_key(|one| (one.0, one.1));
    for of_family in all.chunk_by(|a, b| a.0 == b.0) {
        let (family, _, control) = of_family[0];
        let style = if family == FULL {
            nothing()
        } else if control {
            next_control += 1;
            let shape = CONTROL_SHAPES[(next_control - 1) % CONTROL_SHAPES.len()];
            Style { shape, colour: GREY, filled: shape == Shape::Cross }
        } else {
            next += 1;
            nth(next - 1)
        };
        styles.insert(family.to_owned(), style);
        // Those of a control are points of one curve.
        for (i, (_, setting, _)) in of_family.iter().enumerate().skip(1).filter(|_| !control) {
            styles.insert((*setting).to_owned(), style.turned(i));
        }
    }
    styles
}

/// What a setting of a family looks like.
pub(crate) fn look(styles: &Styles, family: &str, setting: &str) -> Style {
    *styles.get(setting).unwrap_or_else(|| &styles[family])
}

/// What lines of these names look like: each has the look of its strategy, and others of one strategy its colour.
pub(super) fn of_lines(names: &[&str], styles: &Styles) -> Vec<Style> {
    let strategy = |name: &str| name.split(['(', ' ']).next().unwrap_or_default().to_owned();
    let look = |(i, name): (usize, &&str)| {
        let own = strategy(name);
        let before = names[..i].iter().filter(|other| strategy(other) == own).count();
        styles.get(&own).map_or_else(|| nth(i), |style| style.turned(before))
    };
    names.iter().enumerate().map(look).collect()
}

impl Style {
    /// The same colour with another shape, so many further on.
    fn turned(self, by: usize) -> Self {
        let at = SHAPES.iter().position(|shape| *shape == self.shape).unwrap_or(0);
        if by == 0 { self } else { Style { shape: SHAPES[(at + by) % SHAPES.len()], ..self } }
    }

    /// The same, for what another one beats.
    pub(super) fn faded(self) -> Self {
        Style { colour: self.colour.lighter(0.55), ..self }
    }

    /// For a page that draws it itself: colour, name of the shape, whether it is filled.
    pub(crate) fn told(self) -> (String, &'static str, bool) {
        let Colour(r, g, b) = self.colour;
        let shape = match self.shape {
            Shape::Circle => "circle",
            Shape::Square => "square",
            Shape::Triangle => "up",
            Shape::Diamond => "diamond",
            Shape::TriangleDown => "down",
            Shape::Pentagon => "pentagon",
            Shape::Star => "star",
            Shape::Cross => "cross",
        };
        (format!("#{r:02x}{g:02x}{b:02x}"), shape, self.filled)
    }
}

/// Of what compresses nothing.
pub(super) fn nothing() -> Style {
    Style { shape: Shape::Circle, colour: GREY, filled: true }
}

/// Colour and shape of the family at a place.
pub(super) fn nth(i: usize) -> Style {
    Style { shape: SHAPES[i % SHAPES.len()], colour: COLOURS[i % COLOURS.len()], filled: true }
}

pub(super) fn draw_reach(canvas: &mut Canvas, low: XY, high: XY) {
    const HALF: f64 = 2.6;
    canvas.line(&[low, high], 0.8, REACH);
    for (x, y) in [low, high] {
        canvas.line(&[(x - HALF, y), (x + HALF, y)], 0.8, REACH);
    }
}

pub(super) fn draw_marker(canvas: &mut Canvas, centre: XY, radius: f64, style: Style) {
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
