//! Asks the semantic triggers first, then staleness, then the number of turns.
//!
//! In this order: `subtask`, `intent`, `boundary`; then `staleness`, over single observations; then, where more than
//! `masking_window` turns are uncompressed, all but these. Each part has a switch and all parameters of its own trigger (but that
//! `threshold` is `staleness_threshold`, as in the seed), and each
//! goes on counting when another one fired. A firing that would take fewer turns than `least_turns`, since others have them
//! already, is passed over. Source: seed
//! semantic-triggers, "Hybrid"; its code returns early, so that later parts miss turns, and its configuration has no switch
//! for subtasks. What its summary calls "no references for N turns" is the second term of the staleness score. The action that the
//! seed has for each part is a stage of the preset `seed-hybrid`.

use std::ops::Range;

use toml::Table;

use super::subtask::Subtask;
use super::{Detector, Entry, Firing, Moment, Trigger, boundary, intent, staleness, subtask};
use crate::context::log::Log;
use crate::models::{Model, NO_MODEL};
use crate::params::{Param, joined, params};

/// The seed's confidence in the number of turns.
const CONFIDENCE: f64 = 0.5;

pub(super) const ENTRY: Entry = Entry {
    name: "hybrid",
    summary: "Compress at semantic points, else what is stale, else all but the last turns.",
    params: PARAMS,
    build: |params| {
        let names = |key: &str, none: &str| params.get(key).is_some_and(|name| name.as_str() != Some(none));
        anyhow::ensure!(
            !(names("model", NO_MODEL) && names("embedder", "")),
            "a trigger asks one model\nhint: `model` tells intents, `embedder` what is stale; leave one out"
        );
        let hybrid = Hybrid::of(only(Hybrid::PARAMS, &params))?;
        super::fires([
            ("subtask", hybrid.subtask),
            ("intent", hybrid.intent),
            ("boundary", hybrid.boundary),
            ("staleness", hybrid.staleness),
            ("turns", hybrid.turns),
        ])?;
        let least = Subtask::of(only(subtask::ENTRY.params, &params))?.least_turns();
        let mut stale = only(STALENESS, &params);
        stale.insert(THRESHOLD.name.to_owned(), hybrid.staleness_threshold.into());
        let parts = [
            (hybrid.subtask, subtask::ENTRY, only(subtask::ENTRY.params, &params)),
            (hybrid.intent, intent::ENTRY, only(intent::ENTRY.params, &params)),
            (hybrid.boundary, boundary::ENTRY, only(boundary::ENTRY.params, &params)),
            (hybrid.staleness, staleness::ENTRY, stale),
        ];
        let on = parts.into_iter().filter(|(on, ..)| *on);
        let on = on.map(|(_, entry, params)| (entry.build)(params)).collect::<anyhow::Result<_>>()?;
        Ok(Box::new(Parts { on, window: hybrid.turns.then_some(hybrid.masking_window), least }))
    },
};

/// Those of `staleness` are behind its threshold, which has another name here.
const THRESHOLD: &Param = &staleness::ENTRY.params[0];
const STALENESS: &[Param] = staleness::ENTRY.params.split_at(1).1;
const N_SEMANTIC: usize =
    subtask::ENTRY.params.len() + intent::ENTRY.params.len() + boundary::ENTRY.params.len();
const SEMANTIC: [Param; N_SEMANTIC] = joined(
    &joined::<{ subtask::ENTRY.params.len() + intent::ENTRY.params.len() }>(
        subtask::ENTRY.params,
        intent::ENTRY.params,
    ),
    boundary::ENTRY.params,
);
const N_PARTS: usize = N_SEMANTIC + STALENESS.len();
const ALL: [Param; N_PARTS + Hybrid::PARAMS.len()] =
    joined(Hybrid::PARAMS, &joined::<N_PARTS>(&SEMANTIC, STALENESS));
const PARAMS: &[Param] = &ALL;

/// What is set of some parameters.
fn only(params: &[Param], set: &Table) -> Table {
    let is_of = |(name, _): &(&String, &toml::Value)| params.iter().any(|param| param.name == *name);
    set.iter().filter(is_of).map(|(name, value)| (name.clone(), value.clone())).collect()
}

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
    /// Turns that an event must have, single observations aside.
    least: u32,
}

impl Parts {
    fn first(&self, parts: Vec<Box<dyn Detector>>, first_turn: u32) -> Box<dyn Detector> {
        Box::new(First { parts, window: self.window, least: self.least, uncompressed_from: first_turn })
    }
}

impl Trigger for Parts {
    fn detector(&self, log: &Log, first_turn: u32) -> Box<dyn Detector> {
        self.first(self.on.iter().map(|part| part.detector(log, first_turn)).collect(), first_turn)
    }

    fn open(
        &self,
        log: &Log,
        turns: Range<u32>,
        model: Option<&dyn Model>,
    ) -> anyhow::Result<Box<dyn Detector>> {
        let parts = self.on.iter().map(|part| part.open(log, turns.clone(), model));
        Ok(self.first(parts.collect::<anyhow::Result<_>>()?, turns.start))
    }
}

/// The first part that has something new to compress.
struct First {
    parts: Vec<Box<dyn Detector>>,
    window: Option<u32>,
    least: u32,
    uncompressed_from: u32,
}

impl Detector for First {
    fn advance(&mut self, moment: &Moment<'_>) -> Option<Firing> {
        let from = self.uncompressed_from;
        let is_new = |step: &u32| moment.log.turn_of(*step) >= from;
        // All of them advance, whatever the first says.
        let firings: Vec<Option<Firing>> = self.parts.iter_mut().map(|part| part.advance(moment)).collect();
        let news = firings.into_iter().flatten().filter_map(|mut firing| match &mut firing.only {
            None => (firing.scope_end >= from + self.least).then_some(firing),
            Some(steps) => {
                steps.retain(is_new);
                (!steps.is_empty()).then_some(firing)
            }
        });
        let by_turns = || {
            let end = moment.turn.checked_sub(self.window?)?;
            (end >= from + self.least).then(|| Firing::new("turns", end, CONFIDENCE))
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
        let reads = lines("thought: Let me see how it works.\naction: cat a.py\nobservation: x", 6);
        let idle = lines("action: ls\nobservation: morning_light", 22);
        format!(
            "user: u\n{reads}\nthought: Now I implement the change.\naction: sed -i s/a/b/ a.py\nobservation: edited\naction: pytest t\nobservation: 1 passed in 1s\n{idle}"
        )
    }

    /// The seed's signals of a subtask.
    const SEED: &str = "learned = false\nexplicit_completion = true\nsemantic_marker = true\ntest_success = true\ntool_pattern = true";

    #[test]
    fn parts_in_their_order() {
        // The edit ends the exploring. What the tests end is one turn then. Then nothing is changed for ten turns, twice: that comes
        // before the number of turns, and before observations that are stale by then.
        let all =
            ["8: intent ..7 0.85", "19: subtask/inactivity ..18 0.4", "29: subtask/inactivity ..28 0.4"];
        // (The odds take the fourth look at the same file for debugging.)
        let fired = |params: &str| fired(&script(), "hybrid", &format!("{SEED}\n{params}"));
        assert_eq!(fired("inactivity = true"), all);
        // The tests end the subtask, and implementing, which comes second.
        let short = fired("least_turns = 1");
        assert_eq!(short[..2], ["8: intent ..7 0.85", "9: subtask/test_success ..8 0.9"]);
        // Without it the oldest observation that is left goes stale first: that of turn 8, when it is older than ten turns.
        let rest = fired("subtask = false\nturns = false\nbatch = 1\nleast_turns = 1\nmin_turns = 1");
        assert_eq!(rest[..3], ["8: intent ..7 0.85", "9: intent ..8 0.85", "19: staleness [23] 0.7"]);
    }

    /// Each constant of a part is the part's: what the hybrid fires for one part alone is what that trigger fires.
    #[test]
    fn parts_are_told_their_constants() {
        let off = "subtask = false\nintent = false\nboundary = false\nstaleness = false\nturns = false\nleast_turns = 1";
        // Two turns in one file, then another.
        let files = ["b.py", "c.py"].map(|file| lines(&format!("action: cat {file}\nobservation: x"), 2));
        let script = format!("{}\n{}", script(), files.join("\n"));
        let only = |part: &str, params: &str| {
            let on = off.replace(&format!("{part} = false"), &format!("{part} = true"));
            fired(&script, "hybrid", &format!("{on}\n{params}"))
        };
        for (part, params, own) in [
            ("subtask", "inactivity = true", "inactivity = true\nleast_turns = 1"),
            ("intent", "min_turns = 1", "min_turns = 1"),
            ("boundary", "min_span = 0\nreturn_within = 1", "min_span = 0\nreturn_within = 1"),
            (
                "staleness",
                "staleness_threshold = 0.75\nrecent = 5\nbatch = 3",
                "threshold = 0.75\nrecent = 5\nbatch = 3",
            ),
        ] {
            let alone = fired(&script, part, own);
            assert_eq!(only(part, params), alone, "{part}");
            assert_ne!(only(part, ""), alone, "{part}");
        }
        assert_eq!(refused("hybrid", "idle_turns = 0"), "parameter `idle_turns` must be at least 1");
        assert_eq!(
            refused("hybrid", "model = \"a\"\nembedder = \"b\""),
            "a trigger asks one model\nhint: `model` tells intents, `embedder` what is stale; leave one out"
        );
    }

    #[test]
    fn switches() {
        let off = "subtask = false\nintent = false\nboundary = false\nstaleness = false";
        let by_turns = fired(&script(), "hybrid", off);
        let expected: Vec<String> =
            (13..=30).step_by(2).map(|turn| format!("{turn}: turns ..{} 0.5", turn - 10)).collect();
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
        assert_eq!(window, ["28: turns ..3 0.5", "30: turns ..5 0.5"]);
        let semantic = format!("{SEED}\nturns = false\nstaleness = false\nintent = false");
        let semantic = fired(&script(), "hybrid", &semantic);
        assert_eq!(semantic[0], "9: subtask/test_success ..8 0.9");
    }
}
