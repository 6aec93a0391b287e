//! One trajectory along its turns: intents, files, tests, and where each trigger fires.
//!
//! Knows no trigger and no log: it is handed rows of marks. Shapes and shades repeat what colours say (Okabe and Ito's).

use std::path::Path;

use serde::Serialize;

use super::canvas::{Anchor, BLUE, CAP_EM, Canvas, Colour, INK, Mark, XY, fitted, text_width, turns_apart};

/// How a mark looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Look {
    /// A light bar: reading, an unknown outcome.
    Light,
    /// A dark bar: an edit, an intent.
    Dark,
    /// Between the two: a run.
    Middle,
    /// It went well.
    Good,
    /// It failed.
    Bad,
    /// The turn before which a trigger fires.
    Tick,
    /// What a firing takes.
    Scope,
}

/// A mark over turns of a row, the last one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    pub from: u32,
    pub to: u32,
    pub look: Look,
    /// What a tick or a scope is a part of.
    #[serde(flatten)]
    pub firing: Option<Fired>,
}

/// A firing of a row; its tick and its scopes stand one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Fired {
    /// From 1.
    pub number: u32,
    /// What fired, in the trigger's own words.
    pub kind: &'static str,
}

/// A row with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    pub name: String,
    pub spans: Vec<Span>,
}

/// What a look says in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Key {
    pub look: Look,
    pub name: &'static str,
}

/// A part of it with its title.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    pub name: String,
    pub keys: Vec<Key>,
    pub rows: Vec<Row>,
}

/// The figure: groups of rows over the same turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Timeline {
    pub title: String,
    /// Number of the last turn; the first is 1.
    pub turns: u32,
    pub groups: Vec<Group>,
}

/// Two columns of a paper: 7 inches.
const WIDTH: f64 = 504.0;
const LEFT: f64 = 122.0;
const RIGHT: f64 = 6.0;
const ROW: f64 = 10.0;
/// Added to a lane whose firings reach back over each other's scopes, so that their lines do not fall together.
const REACH: f64 = 24.0;
const GAP: f64 = 14.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 16.0;
const SIZE: f64 = 7.0;
/// A swatch beside its word.
const SWATCH: f64 = 10.0;
/// Height of a scope, and of the arrow of a firing.
const SCOPE: f64 = 3.6;
const ARROW: f64 = 3.8;

const RULE: Colour = Colour(0xE2, 0xE2, 0xE2);
const GREEN: Colour = Colour(0x00, 0x9E, 0x73);
const RED: Colour = Colour(0xD5, 0x5E, 0x00);
const GREY: Colour = Colour(0x86, 0x86, 0x86);
const WHITE: Colour = Colour(0xFF, 0xFF, 0xFF);

/// A line of the drawing: a row, or what fired of one kind in it.
struct Lane {
    label: String,
    spans: Vec<Span>,
    /// Whether the row ends with it.
    is_last: bool,
}

impl Lane {
    /// The marks of each firing; one that is of none stands alone.
    fn firings(&self) -> impl Iterator<Item = &[Span]> {
        self.spans.chunk_by(|a, b| a.firing.is_some() && a.firing == b.firing)
    }

    /// Whether a firing takes several scopes, or one from before the last firing.
    fn reaches_back(&self) -> bool {
        let mut last = 0;
        self.firings().any(|firing| {
            let scopes = || firing.iter().filter(|span| span.look == Look::Scope);
            let before = scopes().any(|scope| scope.to + 1 < last);
            last = tick(firing).map_or(last, |tick| tick.from);
            before || scopes().count() > 1
        })
    }

    fn height(&self) -> f64 {
        if self.reaches_back() { ROW + REACH } else { ROW }
    }
}

fn tick(firing: &[Span]) -> Option<&Span> {
    firing.iter().find(|span| span.look == Look::Tick)
}

impl Row {
    /// A lane for each kind that fired, in the order in which they first did; one where there are none.
    fn lanes(&self) -> Vec<Lane> {
        let mut lanes: Vec<Lane> = Vec::new();
        for span in &self.spans {
            let label = span.firing.map_or(self.name.as_str(), |fired| self.part(fired.kind));
            match lanes.iter_mut().find(|lane| lane.label == label) {
                Some(lane) => lane.spans.push(*span),
                None => lanes.push(Lane { label: label.to_owned(), spans: vec![*span], is_last: false }),
            }
        }
        if lanes.is_empty() {
            lanes.push(Lane { label: self.name.clone(), spans: Vec::new(), is_last: false });
        }
        if let Some(first) = lanes.first_mut().filter(|first| first.label != self.name) {
            first.label = format!("{}: {}", self.name, first.label);
        }
        if let Some(last) = lanes.last_mut() {
            last.is_last = true;
        }
        lanes
    }

    /// Of `subtask/inactivity` the signal in the row of `subtask`, and the part that told it in any other.
    fn part<'a>(&self, kind: &'a str) -> &'a str {
        let (whole, part) = kind.split_once('/').unwrap_or((kind, kind));
        if whole == self.name { part } else { whole }
    }
}

/// Where turns stand.
#[derive(Clone, Copy)]
struct Scale {
    turns: u32,
    unit: f64,
}

impl Scale {
    fn new(turns: u32) -> Self {
        Scale { turns, unit: (WIDTH - LEFT - RIGHT) / f64::from(turns.max(1)) }
    }

    fn start(self, turn: u32) -> f64 {
        LEFT + f64::from(turn - 1) * self.unit
    }

    fn end(self, turn: u32) -> f64 {
        self.start(turn.min(self.turns)) + self.unit
    }

    fn shows(self, span: &Span) -> bool {
        (1..=self.turns).contains(&span.from) && span.from <= span.to
    }

    /// Turns with a number below: the first, and each that is a multiple of one number.
    fn numbered(self) -> impl Iterator<Item = u32> {
        let step = match turns_apart(18.0 / self.unit) {
            2 => 5,
            step => step,
        };
        let first = (self.turns > 0).then_some(1);
        first.into_iter().chain((step..=self.turns).step_by(step as usize).filter(|&turn| turn > 1))
    }
}

impl Timeline {
    /// Writes the figure into a file, as its ending says: svg, png, or json with what it shows.
    ///
    /// # Errors
    /// Another ending; it cannot be drawn or written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        self.drawn().write(self, path)
    }

    fn drawn(&self) -> Canvas {
        let lanes: Vec<Vec<Lane>> =
            self.groups.iter().map(|group| group.rows.iter().flat_map(Row::lanes).collect()).collect();
        let rows: f64 = lanes.iter().flatten().map(Lane::height).sum();
        let height = TOP + rows + self.groups.len() as f64 * GAP + BOTTOM;
        let mut canvas = Canvas { width: WIDTH, height, title: self.title.clone(), marks: Vec::new() };
        let title = fitted(&self.title, SIZE + 0.5, WIDTH - 4.0);
        canvas.text((2.0, SIZE + 2.0), Anchor::Start, SIZE + 0.5, INK, &title);
        let scale = Scale::new(self.turns);
        axis(&mut canvas, scale);
        let mut y = TOP;
        for (group, lanes) in self.groups.iter().zip(&lanes) {
            head(&mut canvas, group, y + GAP - 4.0);
            y += GAP;
            for lane in lanes {
                draw(&mut canvas, lane, y, scale);
                y += lane.height();
            }
        }
        canvas
    }
}

/// The turns with their numbers.
fn axis(canvas: &mut Canvas, scale: Scale) {
    let bottom = canvas.height - BOTTOM;
    let baseline = bottom + SIZE + 2.0;
    for turn in scale.numbered() {
        let at = scale.start(turn) + scale.unit / 2.0;
        canvas.line(&[(at, TOP), (at, bottom)], 0.3, RULE);
        canvas.text((at, baseline), Anchor::Middle, SIZE, INK, &turn.to_string());
    }
    canvas.text((LEFT - 6.0, baseline), Anchor::End, SIZE, INK, "turn");
}

/// The title of a group and what its looks say, on a baseline.
fn head(canvas: &mut Canvas, group: &Group, baseline: f64) {
    canvas.text((2.0, baseline), Anchor::Start, SIZE, BLUE, &group.name);
    let y = baseline - (SIZE * CAP_EM + ROW) / 2.0;
    let mut x = LEFT;
    for key in &group.keys {
        let half = SWATCH / 2.0;
        for (at, is_dark) in [(x, true), (x + half, false)] {
            match key.look {
                Look::Tick => arrow(canvas, (at + half / 2.0, y + (ROW - ARROW) / 2.0), ARROW, is_dark),
                Look::Scope => scope(canvas, (at + 0.3, at + half - 0.3), y + (ROW - SCOPE) / 2.0, is_dark),
                look => bar(canvas, look, (at, at + half), y),
            }
        }
        x += SWATCH + 3.0;
        canvas.text((x, baseline), Anchor::Start, SIZE, INK, key.name);
        x += text_width(key.name, SIZE) + 12.0;
    }
}

/// A lane whose top is at `y`. Firings are dark and light in turn.
fn draw(canvas: &mut Canvas, lane: &Lane, y: f64, scale: Scale) {
    let height = lane.height();
    let label = fitted(&lane.label, SIZE, LEFT - 10.0);
    let baseline = y + (height + SIZE * CAP_EM) / 2.0;
    canvas.text((LEFT - 6.0, baseline), Anchor::End, SIZE, INK, &label);
    if lane.is_last {
        canvas.line(&[(LEFT, y + height), (WIDTH - RIGHT, y + height)], 0.25, RULE);
    }
    let mut is_dark = false;
    for spans in lane.firings() {
        if spans[0].firing.is_some() {
            is_dark = !is_dark;
            firing(canvas, spans, (y, y + height), scale, is_dark);
        } else if scale.shows(&spans[0]) {
            bar(canvas, spans[0].look, (scale.start(spans[0].from), scale.end(spans[0].to)), y);
        }
    }
}

/// An arrow above the turn before which it fires, with a line to the end of each scope, all in the shade of the firing.
fn firing(canvas: &mut Canvas, spans: &[Span], (top, bottom): (f64, f64), scale: Scale, is_dark: bool) {
    // A thin gap on either side.
    let gap = f64::min(0.4, scale.unit / 10.0);
    let y = bottom - SCOPE - 0.8;
    let tick = tick(spans).filter(|tick| scale.shows(tick)).map(|tick| scale.start(tick.from));
    for span in spans.iter().filter(|span| span.look == Look::Scope && scale.shows(span)) {
        let (start, end) = (scale.start(span.from) + gap, scale.end(span.to) - gap);
        scope(canvas, (start, end), y, is_dark);
        if let Some(at) = tick {
            let colour = if is_dark { INK } else { GREY };
            let foot = f64::max(end - 2.5, (start + end) / 2.0);
            canvas.line(&[(foot, y), (at, top + 0.6 + ARROW)], 0.4, colour);
        }
    }
    if let Some(at) = tick {
        arrow(canvas, (at, top + 0.6), ARROW.min(2.0 * scale.unit), is_dark);
    }
}

/// A triangle that points down, filled or open; a small one has no room to be open and is grey.
fn arrow(canvas: &mut Canvas, (x, y): XY, width: f64, is_filled: bool) {
    let mut triangle = |half: f64, top: f64, tip: f64, colour| {
        let points = vec![(x - half, y + top), (x + half, y + top), (x, y + tip)];
        canvas.marks.push(Mark::Polygon { points, colour });
    };
    let inner = width / 2.0 - 0.85;
    let is_open = !is_filled && inner > 0.4;
    let colour = if is_filled || is_open { INK } else { GREY };
    triangle(width / 2.0, 0.0, ARROW, colour);
    if is_open {
        triangle(inner, 0.5, ARROW - 1.2, WHITE);
    }
}

/// A rectangle.
fn block(canvas: &mut Canvas, (from, to): (f64, f64), (top, bottom): (f64, f64), colour: Colour) {
    // Thin turns still show.
    let to = to.max(from + 0.6);
    let points = vec![(from, top), (to, top), (to, bottom), (from, bottom)];
    canvas.marks.push(Mark::Polygon { points, colour });
}

fn scope(canvas: &mut Canvas, x: (f64, f64), y: f64, is_dark: bool) {
    let colour = if is_dark { BLUE } else { BLUE.lighter(0.6) };
    block(canvas, x, (y, y + SCOPE), colour);
}

/// A mark of a row whose top is at `y`.
fn bar(canvas: &mut Canvas, look: Look, x: (f64, f64), y: f64) {
    let (colour, top, bottom) = match look {
        Look::Light => (BLUE.lighter(0.72), 2.5, ROW - 2.5),
        Look::Middle => (BLUE.lighter(0.4), 3.5, ROW - 3.5),
        Look::Dark => (BLUE, 1.5, ROW - 1.5),
        // In the upper and the lower half, for those who see no colours.
        Look::Good => (GREEN.lighter(0.3), 1.0, ROW / 2.0 - 0.3),
        Look::Bad => (RED, ROW / 2.0 + 0.3, ROW - 1.0),
        Look::Tick | Look::Scope => (INK, 1.0, ROW - 1.0),
    };
    block(canvas, x, (y + top, y + bottom), colour);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: u32, to: u32, look: Look) -> Span {
        Span { from, to, look, firing: None }
    }

    fn row(name: &str, spans: Vec<Span>) -> Row {
        Row { name: name.to_owned(), spans }
    }

    fn group(name: &str, rows: Vec<Row>) -> Group {
        Group { name: name.to_owned(), keys: vec![Key { look: Look::Dark, name: "so" }], rows }
    }

    /// A firing over some turns.
    fn fired(number: u32, kind: &'static str, scopes: &[(u32, u32)], at: u32) -> Vec<Span> {
        let of = |from, to, look| Span { firing: Some(Fired { number, kind }), ..span(from, to, look) };
        let scopes = scopes.iter().map(|&(from, to)| of(from, to, Look::Scope));
        scopes.chain([of(at, at, Look::Tick)]).collect()
    }

    fn polygons(canvas: &Canvas) -> Vec<(&[XY], Colour)> {
        let marks = canvas.marks.iter();
        marks
            .filter_map(|mark| match mark {
                Mark::Polygon { points, colour } => Some((&points[..], *colour)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn rows_lie_within_the_paper() {
        let firing = fired(1, "a", &[(1, 999)], 7);
        let timeline = Timeline {
            title: "a run".to_owned(),
            turns: 120,
            groups: vec![
                group("Intent", vec![row("explore", vec![span(1, 3, Look::Dark)]), row("debug", vec![])]),
                group("Triggers", vec![row("a", firing)]),
            ],
        };
        let canvas = timeline.drawn();
        for (x, y) in polygons(&canvas).iter().flat_map(|(points, _)| points.iter()) {
            assert!((LEFT..=WIDTH).contains(x) && (TOP..=canvas.height - BOTTOM).contains(y), "{x} {y}");
        }
        assert!(canvas.svg().unwrap().contains("a run"));
        // Without turns there is nothing to draw, and no panic.
        assert!(Timeline { title: String::new(), turns: 0, groups: vec![] }.drawn().svg().is_ok());
    }

    #[test]
    fn turns_have_round_numbers() {
        let numbered = |turns| Scale::new(turns).numbered().collect::<Vec<u32>>();
        assert_eq!(numbered(0), [0; 0]);
        assert_eq!(numbered(4), [1, 2, 3, 4]);
        assert_eq!(numbered(30), [1, 5, 10, 15, 20, 25, 30]);
        assert_eq!(numbered(62), [1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60]);
        assert_eq!(numbered(120)[..3], [1, 10, 20]);
    }

    #[test]
    fn a_lane_for_each_kind() {
        let spans = [
            fired(1, "subtask/inactivity", &[(1, 4)], 5),
            fired(2, "subtask/test_success", &[(5, 8)], 10),
            fired(3, "subtask/inactivity", &[(9, 11)], 13),
        ]
        .concat();
        let told = |name: &str| {
            let lanes = row(name, spans.clone()).lanes();
            let told = lanes.iter().map(|lane| (lane.label.clone(), lane.spans.len(), lane.is_last));
            told.collect::<Vec<_>>()
        };
        let lane = |label: &str, n, is_last| (label.to_owned(), n, is_last);
        let signals = [lane("subtask: inactivity", 4, false), lane("test_success", 2, true)];
        assert_eq!(told("subtask"), signals);
        assert_eq!(told("hybrid"), [lane("hybrid: subtask", 6, true)]);
        let alone = row("turns", fired(1, "turns", &[(1, 4)], 5)).lanes();
        assert_eq!(alone[0].label, "turns");
        assert_eq!(row("turns", vec![]).lanes()[0].label, "turns");
    }

    #[test]
    fn neighbours_are_told_apart() {
        let spans = [fired(1, "a", &[(1, 4)], 6), fired(2, "a", &[(5, 9)], 11)].concat();
        let lane = row("a", spans).lanes().remove(0);
        assert!(!lane.reaches_back());
        let mut canvas = Canvas { width: WIDTH, height: 99.0, title: String::new(), marks: Vec::new() };
        draw(&mut canvas, &lane, TOP, Scale::new(60));
        let scopes: Vec<_> = polygons(&canvas).into_iter().filter(|(points, _)| points.len() == 4).collect();
        assert!(scopes[0].0[1].0 < scopes[1].0[0].0 && scopes[0].1 != scopes[1].1);
        // Lines go up to their arrows; where they would fall together there is more room.
        let far = [fired(1, "a", &[(1, 1)], 12), fired(2, "a", &[(2, 2)], 13)].concat();
        assert!(row("a", far).lanes()[0].reaches_back());
        assert!(row("a", fired(1, "a", &[(1, 1), (4, 4)], 12)).lanes()[0].reaches_back());
    }
}
