//! One trajectory along its turns: intents, files, tests, and where each trigger fires.
//!
//! Knows no trigger and no log: it is handed rows of marks. Shapes and shades repeat what colours say (Okabe and Ito's).

use std::path::Path;

use serde::Serialize;

use super::canvas::{Anchor, BLUE, CAP_EM, Canvas, Colour, INK, Mark, fitted, turns_apart};

/// How a mark looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Look {
    /// A light bar: reading, a scope.
    Light,
    /// A dark bar: an edit, an intent.
    Dark,
    /// Between the two: a run.
    Middle,
    /// It went well.
    Good,
    /// It failed.
    Bad,
    /// A line across the row: a firing.
    Tick,
}

/// A mark over turns of a row, the last one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    pub from: u32,
    pub to: u32,
    pub look: Look,
}

/// A row with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    pub name: String,
    pub spans: Vec<Span>,
}

/// A part of it with its title.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    pub name: String,
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
const LEFT: f64 = 118.0;
const RIGHT: f64 = 6.0;
const ROW: f64 = 9.0;
const GAP: f64 = 12.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 16.0;
const SIZE: f64 = 6.5;

const RULE: Colour = Colour(0xE2, 0xE2, 0xE2);
const GREEN: Colour = Colour(0x00, 0x9E, 0x73);
const RED: Colour = Colour(0xD5, 0x5E, 0x00);

impl Timeline {
    /// Writes the figure into a file, as its ending says: svg, png, or json with what it shows.
    ///
    /// # Errors
    /// Another ending; it cannot be drawn or written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        self.drawn().write(self, path)
    }

    fn drawn(&self) -> Canvas {
        let rows: usize = self.groups.iter().map(|group| group.rows.len()).sum();
        let height = TOP + rows as f64 * ROW + self.groups.len() as f64 * GAP + BOTTOM;
        let mut canvas = Canvas { width: WIDTH, height, title: self.title.clone(), marks: Vec::new() };
        let unit = (WIDTH - LEFT - RIGHT) / f64::from(self.turns.max(1));
        let x = |turn: u32| LEFT + f64::from(turn - 1) * unit;
        canvas.text(
            (2.0, SIZE + 2.0),
            Anchor::Start,
            SIZE + 0.5,
            INK,
            &fitted(&self.title, SIZE + 0.5, WIDTH - 4.0),
        );
        let bottom = height - BOTTOM;
        let step = turns_apart(18.0 / unit);
        for turn in (0..=self.turns).step_by(step as usize).map(|turn| turn.max(1)) {
            let at = x(turn) + unit / 2.0;
            canvas.line(&[(at, TOP), (at, bottom)], 0.3, RULE);
            canvas.text((at, bottom + SIZE + 2.0), Anchor::Middle, SIZE, INK, &turn.to_string());
        }
        let mut y = TOP;
        for Group { name, rows } in &self.groups {
            canvas.text((2.0, y + GAP - 3.0), Anchor::Start, SIZE, BLUE, name);
            y += GAP;
            for row in rows {
                let label = fitted(&row.name, SIZE, LEFT - 14.0);
                canvas.text(
                    (LEFT - 6.0, y + ROW / 2.0 + SIZE * CAP_EM / 2.0),
                    Anchor::End,
                    SIZE,
                    INK,
                    &label,
                );
                canvas.line(&[(LEFT, y + ROW), (WIDTH - RIGHT, y + ROW)], 0.25, RULE);
                // Ticks stand on top.
                let is_tick = |span: &&Span| span.look == Look::Tick;
                let ordered =
                    row.spans.iter().filter(|s| !is_tick(s)).chain(row.spans.iter().filter(is_tick));
                for span in ordered.filter(|s| (1..=self.turns).contains(&s.from) && s.from <= s.to) {
                    let end = x(span.to.min(self.turns)) + unit;
                    canvas.marks.push(mark(span.look, x(span.from), end, y));
                }
                y += ROW;
            }
        }
        canvas
    }
}

/// A bar in the row that begins at `y`; thin turns still show.
fn mark(look: Look, from: f64, to: f64, y: f64) -> Mark {
    let (colour, top, height) = match look {
        Look::Light => (BLUE.lighter(0.72), 2.0, ROW - 4.0),
        Look::Middle => (BLUE.lighter(0.4), 3.0, ROW - 6.0),
        Look::Dark => (BLUE, 1.5, ROW - 3.0),
        Look::Good => (GREEN, 1.5, ROW / 2.0),
        Look::Bad => (RED, ROW / 2.0 - 1.5, ROW / 2.0),
        Look::Tick => (INK, 0.5, ROW - 1.0),
    };
    let to = if look == Look::Tick { from + 1.1 } else { to.max(from + 0.8) };
    let points = vec![(from, y + top), (to, y + top), (to, y + top + height), (from, y + top + height)];
    Mark::Polygon { points, colour }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_within_the_paper() {
        let span = |from, to, look| Span { from, to, look };
        let row = |name: &str, spans| Row { name: name.to_owned(), spans };
        let group = |name: &str, rows| Group { name: name.to_owned(), rows };
        let timeline = Timeline {
            title: "a run".to_owned(),
            turns: 120,
            groups: vec![
                group("Intent", vec![row("explore", vec![span(1, 3, Look::Dark)]), row("debug", vec![])]),
                group("Triggers", vec![row("a", vec![span(7, 7, Look::Tick), span(1, 999, Look::Light)])]),
            ],
        };
        let canvas = timeline.drawn();
        let bars: Vec<&Vec<(f64, f64)>> = canvas
            .marks
            .iter()
            .filter_map(|m| if let Mark::Polygon { points, .. } = m { Some(points) } else { None })
            .collect();
        assert_eq!(bars.len(), 3);
        for (x, y) in bars.iter().flat_map(|points| points.iter()) {
            assert!((LEFT..=WIDTH).contains(x) && (TOP..=canvas.height - BOTTOM).contains(y), "{x} {y}");
        }
        // The tick is drawn last, whatever its place in the row.
        assert!(bars[2][1].0 - bars[2][0].0 < 2.0);
        assert!(timeline.drawn().svg().unwrap().contains("a run"));
        // Without turns there is nothing to draw, and no panic.
        assert!(Timeline { title: String::new(), turns: 0, groups: vec![] }.drawn().svg().is_ok());
    }
}
