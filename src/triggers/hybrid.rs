//! Asks the semantic triggers first, then staleness, then the number of turns.
//!
//! In this order: `subtask`, `intent`, `boundary`; then `staleness`, over single observations; then, where more than
//! `masking_window` turns are uncompressed, all but these. Each part has a switch and otherwise its own defaults, and each
//! goes on counting when another one fired. A firing whose turns are compressed already is passed over. Source: seed
//! semantic-triggers, "Hybrid"; its code returns early, so that later parts miss turns, and its configuration has no switch
//! for subtasks. What its summary calls "no references for N turns" is the second term of the staleness score. Intents are by
//! rules here; the trigger `intent` has a model.

use super::boundary::Boundary;
use super::intent::IntentShift;
use super::staleness::Staleness;
use super::subtask::Subtask;
use super::{Detector, Entry, Firing, Moment, Trigger};
use crate::context::log::Log;
use crate::params::params;

/// The seed's confidence in the number of turns.
const CONFIDENCE: f64 = 0.5;

pub(super) const ENTRY: Entry = Entry {
    name: "hybrid",
    summary: "Compress at semantic points, else what is stale, else all but the last turns.",
    params: Hybrid::PARAMS,
    build: |params| {
        super::fires(Hybrid::PARAMS, &params)?;
        let hybrid = Hybrid::of(params)?;
        let mut staleness = Staleness::default();
        staleness.threshold = hybrid.staleness_threshold;
        let parts: [(bool, Box<dyn Trigger>); 4] = [
            (hybrid.subtask, Box::new(Subtask::default())),
            (hybrid.intent, Box::new(IntentShift::seed()?)),
            (hybrid.boundary, Box::new(Boundary::default())),
            (hybrid.staleness, Box::new(staleness)),
        ];
        Ok(Box::new(Parts {
            on: parts.into_iter().filter(|(on, _)| *on).map(|(_, part)| part).collect(),
            window: hybrid.turns.then_some(hybrid.masking_window),
        }))
    },
};

params! {
    struct Hybrid {
        /// Whether trigger `subtask` is asked.
        subtask: bool = true,
        /// Whether trigger `intent` is asked.
        intent: bool = true,
        /// Whether trigger `boundary` is asked.
        boundary: bool = true,
        /// Whether trigger `staleness` is asked.
        staleness: bool = true,
        /// Whether the number of turns counts.
        turns: bool = true,
        /// Above this an observation is stale.
        staleness_threshold: f64 = 0.7 (from 0 to 1),
        /// Turns that stay where nothing else fires.
        masking_window: u32 = 10,
    }
}

struct Parts {
    on: Vec<Box<dyn Trigger>>,
    window: Option<u32>,
}

impl Trigger for Parts {
    fn detector(&self, log: &Log, first_turn: u32) -> Box<dyn Detector> {
        Box::new(First {
            parts: self.on.iter().map(|part| part.detector(log, first_turn)).collect(),
            window: self.window,
            uncompressed_from: first_turn,
        })
    }
}

/// The first part that has something new to compress.
struct First {
    parts: Vec<Box<dyn Detector>>,
    window: Option<u32>,
    uncompressed_from: u32,
}

impl Detector for First {
    fn advance(&mut self, moment: &Moment<'_>) -> Option<Firing> {
        let from = self.uncompressed_from;
        let is_new = |step: &u32| moment.log.turn_of(*step) >= from;
        // All of them advance, whatever the first says.
        let firings: Vec<Option<Firing>> = self.parts.iter_mut().map(|part| part.advance(moment)).collect();
        let news = firings.into_iter().flatten().filter_map(|mut firing| match &mut firing.only {
            None => (firing.scope_end > from).then_some(firing),
            Some(steps) => {
                steps.retain(is_new);
                (!steps.is_empty()).then_some(firing)
            }
        });
        let by_turns = || {
            let end = moment.turn.checked_sub(self.window?)?;
            (end > from).then(|| Firing::new("turns", end, CONFIDENCE))
        };
        let firing = news.into_iter().next().or_else(by_turns)?;
        if firing.only.is_none() {
            self.uncompressed_from = firing.scope_end;
        }
        Some(firing)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{fired, lines, refused};

    /// Reading (1 to 6), an edit (7), tests (8), then nothing but looking on.
    fn script() -> String {
        let reads = lines("action: cat a.py\nobservation: x", 6);
        let idle = lines("action: ls\nobservation: morning_light", 22);
        format!(
            "user: u\n{reads}\naction: sed -i s/a/b/ a.py\nobservation: edited\naction: pytest t\nobservation: 1 passed in 1s\n{idle}"
        )
    }

    #[test]
    fn parts_in_their_order() {
        // The edit ends the exploring; the tests end the subtask, and implementing, which comes second. Then nothing is changed
        // for ten turns, twice: that comes before the number of turns, and before observations that are stale by then.
        let all = [
            "8: intent ..7 0.85",
            "9: subtask/test_success ..8 0.9",
            "19: subtask/inactivity ..18 0.4",
            "29: subtask/inactivity ..28 0.4",
        ];
        assert_eq!(fired(&script(), "hybrid", ""), all);
        // Without it the oldest observation that is left goes stale first: that of turn 8, when it is older than ten turns.
        let rest = fired(&script(), "hybrid", "subtask = false\nturns = false");
        assert_eq!(rest[..3], ["8: intent ..7 0.85", "9: intent ..8 0.85", "19: staleness [16] 0.7"]);
    }

    #[test]
    fn switches() {
        let off = "subtask = false\nintent = false\nboundary = false\nstaleness = false";
        let by_turns = fired(&script(), "hybrid", off);
        let expected: Vec<String> =
            (12..=30).map(|turn| format!("{turn}: turns ..{} 0.5", turn - 10)).collect();
        assert_eq!(by_turns, expected);
        assert_eq!(
            refused("hybrid", &format!("{off}\nturns = false")),
            "it never fires: one of `subtask`, `intent`, `boundary`, `staleness`, `turns` must be true"
        );
        for wrong in ["-0.1", "1.1", "nan"] {
            let told = "parameter `staleness_threshold` must be between 0 and 1";
            assert_eq!(refused("hybrid", &format!("staleness_threshold = {wrong}")), told);
        }
        let window = fired(&script(), "hybrid", &format!("{off}\nmasking_window = 25"));
        assert_eq!(
            window,
            ["27: turns ..2 0.5", "28: turns ..3 0.5", "29: turns ..4 0.5", "30: turns ..5 0.5"]
        );
        let semantic = fired(&script(), "hybrid", "turns = false\nstaleness = false\nintent = false");
        assert_eq!(semantic[0], "9: subtask/test_success ..8 0.9");
    }
}
