//! A tier map: which tier of memory each turn was in at each decision, and when it came back.
//!
//! Decisions run to the right, the turns that memory is of downwards: a turn's line begins where it was logged, and
//! fades as it is compressed. Knows no strategy and no log: it is handed bands. Shades say what colours say.

use std::path::Path;

use serde::Serialize;

use super::canvas::{Anchor, BLUE, CAP_EM, Canvas, Colour, INK, Mark, fitted, turns_apart};

/// Where a piece of the past is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// In the prompt, as it was logged.
    Hot,
    Warm,
    Cold,
    /// Nowhere any more. It has no colour.
    Evicted,
    /// Back in the prompt of one decision.
    Recalled,
}

/// A piece of the past in a tier, from one decision to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Band {
    /// Where it stands in the log, in turns: 3.5 is the middle of turn 3.
    pub of: (f64, f64),
    /// Turns at whose decisions it was there: the first, and the one after the last.
    pub during: (u32, u32),
    pub tier: Tier,
}

/// The figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierMap {
    pub title: String,
    pub subtitle: String,
    /// Number of the last turn; the first is 1.
    pub turns: u32,
    /// Later ones stand on top.
    pub bands: Vec<Band>,
}

/// One column and a half of a paper.
const WIDTH: f64 = 360.0;
const PLOT: f64 = 300.0;
const LEFT: f64 = 44.0;
const TOP: f64 = 42.0;
const HEIGHT: f64 = TOP + PLOT + 30.0;
const SIZE: f64 = 7.0;

const RULE: Colour = Colour(0xD5, 0xD5, 0xD5);
const ORANGE: Colour = Colour(0xE6, 0x9F, 0x00);
const VERMILION: Colour = Colour(0xD5, 0x5E, 0x00);

impl Tier {
    const SHOWN: [(Tier, &'static str); 4] =
        [(Tier::Hot, "hot"), (Tier::Warm, "warm"), (Tier::Cold, "cold"), (Tier::Recalled, "recalled")];

    fn colour(self) -> Colour {
        match self {
            Tier::Hot => BLUE,
            Tier::Warm => ORANGE.lighter(0.25),
            Tier::Cold => BLUE.lighter(0.75),
            Tier::Evicted => Colour(255, 255, 255),
            Tier::Recalled => VERMILION,
        }
    }
}

impl TierMap {
    /// Writes the figure into a file, as its ending says: svg, png, or json with what it shows.
    ///
    /// # Errors
    /// Another ending; it cannot be drawn or written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        self.drawn().write(self, path)
    }

    fn drawn(&self) -> Canvas {
        let mut canvas =
            Canvas { width: WIDTH, height: HEIGHT, title: self.title.clone(), marks: Vec::new() };
        let unit = PLOT / f64::from(self.turns.max(1));
        // A column a decision, a row a turn; turn 1 is the first of both.
        let x = |turn: f64| LEFT + (turn - 1.0) * unit;
        let y = |turn: f64| TOP + (turn - 1.0) * unit;
        let last = f64::from(self.turns) + 1.0;
        canvas.text(
            (2.0, SIZE + 2.0),
            Anchor::Start,
            SIZE + 0.5,
            INK,
            &fitted(&self.title, SIZE + 0.5, WIDTH - 4.0),
        );
        canvas.text(
            (2.0, 2.0 * SIZE + 5.0),
            Anchor::Start,
            SIZE,
            INK,
            &fitted(&self.subtitle, SIZE, WIDTH - 4.0),
        );
        Self::legend(&mut canvas);
        for band in &self.bands {
            let (from, to) = (f64::from(band.during.0).max(1.0), f64::from(band.during.1).min(last));
            let (top, bottom) = (band.of.0.max(1.0), band.of.1.min(last));
            if from < to && top < bottom && band.tier != Tier::Evicted {
                // What came back must show, however thin its line is.
                let least = if band.tier == Tier::Recalled { 1.0 } else { 0.0 };
                let (width, height) = (((to - from) * unit).max(least), ((bottom - top) * unit).max(least));
                let (left, up) = (x(from), y(top));
                let points =
                    vec![(left, up), (left + width, up), (left + width, up + height), (left, up + height)];
                canvas.marks.push(Mark::Polygon { points, colour: band.tier.colour() });
            }
        }
        let step = turns_apart(24.0 / unit);
        for turn in (0..=self.turns).step_by(step as usize).map(|turn| turn.max(1)) {
            let at = f64::from(turn) + 0.5;
            let text = turn.to_string();
            canvas.line(&[(x(at), TOP + PLOT), (x(at), TOP + PLOT + 2.5)], 0.5, INK);
            canvas.text((x(at), TOP + PLOT + SIZE + 4.0), Anchor::Middle, SIZE, INK, &text);
            canvas.line(&[(LEFT - 2.5, y(at)), (LEFT, y(at))], 0.5, INK);
            canvas.text((LEFT - 4.0, y(at) + SIZE * CAP_EM / 2.0), Anchor::End, SIZE, INK, &text);
        }
        let (right, bottom) = (LEFT + PLOT, TOP + PLOT);
        canvas.line(&[(LEFT, TOP), (LEFT, bottom), (right, bottom)], 0.6, INK);
        canvas.line(&[(LEFT, TOP), (right, TOP), (right, bottom)], 0.3, RULE);
        canvas.text((LEFT + PLOT / 2.0, HEIGHT - 6.0), Anchor::Middle, SIZE, INK, "turn that is decided");
        canvas.text((2.0, TOP - 5.0), Anchor::Start, SIZE, INK, "turn remembered");
        canvas
    }

    fn legend(canvas: &mut Canvas) {
        let mut at = LEFT + 74.0;
        for (tier, name) in Tier::SHOWN {
            let (left, top) = (at, TOP - 11.0);
            let points = vec![(left, top), (left + 9.0, top), (left + 9.0, top + 6.0), (left, top + 6.0)];
            canvas.marks.push(Mark::Polygon { points, colour: tier.colour() });
            canvas.text((left + 12.0, TOP - 5.5), Anchor::Start, SIZE, INK, name);
            at += 18.0 + 5.5 * name.len() as f64;
        }
        let note = "white: not yet logged, or evicted";
        canvas.text((LEFT + 8.0, TOP + PLOT - 8.0), Anchor::Start, SIZE, INK, note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_lie_within_the_square() {
        let band = |of, during, tier| Band { of, during, tier };
        let map = TierMap {
            title: "a run".to_owned(),
            subtitle: String::new(),
            turns: 40,
            bands: vec![
                band((1.0, 2.0), (2, 12), Tier::Hot),
                band((1.0, 2.0), (12, 99), Tier::Warm),
                band((1.0, 2.0), (20, 30), Tier::Evicted),
                band((1.5, 1.5001), (15, 16), Tier::Recalled),
            ],
        };
        let canvas = map.drawn();
        let bars: Vec<&Vec<(f64, f64)>> = canvas
            .marks
            .iter()
            .filter_map(|m| if let Mark::Polygon { points, .. } = m { Some(points) } else { None })
            .collect();
        // Four of the legend, and no white one.
        assert_eq!(bars.len(), 4 + 3);
        for (x, y) in bars[4..].iter().flat_map(|points| points.iter()) {
            assert!((LEFT..=LEFT + PLOT).contains(x) && (TOP..=TOP + PLOT).contains(y), "{x} {y}");
        }
        assert!((bars[4][0].0 - (LEFT + PLOT / 40.0)).abs() < 1e-9);
        assert!((bars[6][2].1 - bars[6][0].1 - 1.0).abs() < 1e-9, "it shows");
        assert!(map.drawn().svg().unwrap().contains("a run"));
        assert!(
            TierMap { title: String::new(), subtitle: String::new(), turns: 0, bands: vec![] }
                .drawn()
                .svg()
                .is_ok()
        );
    }
}
