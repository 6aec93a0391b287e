//! Fires when a piece of work is done, by learned odds, or by the seed's six signals, each with the seed's confidence and a switch.
//!
//! | signal | it is seen in a turn where | confidence |
//! | --- | --- | --- |
//! | `test_success` | tests pass after an edit of a file that the test run does not name itself, or a reward of 1 comes after a call that changes something | 0.9 |
//! | `explicit_completion` | the agent says that something is complete, fixed, working | 0.9 |
//! | `consecutive_edits` | a run of at least `edits` turns with successful edits has ended | 0.7 |
//! | `semantic_marker` | the agent says "now I'll work on X" | 0.7 |
//! | `tool_pattern` | after reading and editing comes a check that succeeds: a test, a program, or, for a document, reading it again | 0.7 |
//! | `learned` | the turn after the end, by odds of what is said and done in both | 0.7 |
//! | `inactivity` | no file was changed for `idle_turns` turns (where any was before) | 0.4 |
//!
//! `learned` alone is on by default: of 87 ends in 76 real logs, told by odds that have not seen the repository, it finds 31 with 61 firings, the
//! four upper signals 14 with 105 (datasets/phases). Of `consecutive_edits` and `inactivity` 1 of 25 and 3 of 31 firings that were read end
//! something (docs/seeds.md).
//!
//! Of several signals in a turn the surest counts, of equal ones the upper. The scope ends before the turn with the outcome,
//! which stays: the passing test, the statement, the last edit of the run, the turn that begins the new work. A dialogue
//! without tools knows completion and markers alone; saying so twice in a row ends one piece of work. The phrases are English: in
//! other languages only edits, tests and programs tell. Source: seed semantic-triggers, section 1; the confidences
//! high, medium and low are ours, and so is that a document, which no test checks, is checked by reading it again.

use std::sync::Arc;

use anyhow::Context as _;

use super::{Detector, Each, Entry, Firing, Rule, Trigger};
use crate::context::log::Log;
use crate::params::{self, params};
use crate::turns::ends::Ends;
use crate::turns::{Facts, MOST_FILES, Touch};

pub(super) const ENTRY: Entry = Entry {
    name: "subtask",
    summary: "Compress when a piece of work is done: tests pass, a check holds, the agent says so.",
    params: Subtask::PARAMS,
    build: |params| {
        let rule = Subtask::of(params)?;
        super::fires([
            ("test_success", rule.test_success),
            ("explicit_completion", rule.explicit_completion),
            ("consecutive_edits", rule.consecutive_edits),
            ("semantic_marker", rule.semantic_marker),
            ("tool_pattern", rule.tool_pattern),
            ("inactivity", rule.inactivity),
            ("learned", rule.learned),
        ])?;
        let own = own_odds(&rule.end_weights)?;
        Ok(Box::new(Units { rule: rule.into(), own }))
    },
};

params! {
    #[derive(Clone)]
    pub(super) struct Subtask {
        /// Whether it fires where learned odds tell that a unit of work has ended.
        learned: bool = true,
        /// From these odds on it has, as a probability.
        least_odds: f64 = 0.15 (from 0 to 1),
        /// Odds of one's own, `PATH#HASH`, as `train --target subtasks` writes them; empty: those that travel with the program.
        end_weights: String = "",
        /// Whether it fires when tests pass after an edit.
        test_success: bool = false,
        /// Whether it fires when the agent says that something is done.
        explicit_completion: bool = false,
        /// Whether it fires when a run of edits has ended.
        consecutive_edits: bool = false,
        /// Whether it fires when the agent says what it turns to.
        semantic_marker: bool = false,
        /// Whether it fires when a check succeeds after reading and editing.
        tool_pattern: bool = false,
        /// Whether it fires when no file was changed for a while.
        inactivity: bool = false,
        /// Turns with edits in a row that make a run.
        edits: u32 = 3 (at least 1),
        /// Turns without a change.
        idle_turns: u32 = 10 (at least 1),
        /// Turns that an event must have: what ends sooner goes on.
        least_turns: u32 = 2 (at least 1),
    }
}

impl Subtask {
    pub(super) fn least_turns(&self) -> u32 {
        self.least_turns
    }
}

/// The trigger, with odds of the user's own.
struct Units {
    rule: Arc<Subtask>,
    own: Option<Ends>,
}

/// The odds of a file, `PATH#HASH`; none where nothing is named.
fn own_odds(name: &str) -> anyhow::Result<Option<Ends>> {
    if name.is_empty() {
        return Ok(None);
    }
    let (path, text) = params::own_file("end_weights", name, "name nothing, or")?;
    Ok(Some(Ends::parse(&text).with_context(|| format!("end_weights `{path}`"))?))
}

impl Trigger for Units {
    fn detector(&self, log: &Log, first_turn: u32) -> Box<dyn Detector> {
        let own = self.own.as_ref().map(|own| own.of_turns(&log.trajectory.steps).into());
        let rule = Work { rule: Arc::clone(&self.rule), own, ..Work::begun(first_turn) };
        Box::new(Each { next: first_turn, rule })
    }
}

const HIGH: f64 = 0.9;
const MEDIUM: f64 = 0.7;
const LOW: f64 = 0.4;

/// Files of the work at hand that are remembered: more of them say nothing more.
const MOST_EDITED: usize = 4 * MOST_FILES;

/// The work at hand.
#[derive(Default)]
struct Work {
    rule: Arc<Subtask>,
    /// By odds of the user's own, how likely a unit ended with the turn before each.
    own: Option<Arc<[f64]>>,
    /// Its first turn, and the first that no event has taken.
    since: u32,
    from: u32,
    looked: bool,
    /// Whether something was changed after something was looked at.
    looked_first: bool,
    /// Files that were changed, and whether a change was in a file without a name.
    edited: Vec<u32>,
    edited_unnamed: bool,
    edited_source: bool,
    edited_document: bool,
    /// Whether a tool was called that changes something outside.
    acted: bool,
    /// Turns with edits in a row.
    run: u32,
    /// The last turn with a change, or with a firing since; none before the first change of the segment.
    changed: Option<u32>,
}

impl Work {
    fn begun(turn: u32) -> Self {
        Work { since: turn, from: turn, ..Work::default() }
    }

    fn has_edits(&self) -> bool {
        self.edited_unnamed || !self.edited.is_empty()
    }

    /// Whether a file was changed that this turn does not run itself: a new test that passes proves no change. A script that is
    /// written and run at once says nothing of other such scripts.
    fn is_proved_by(&self, facts: &Facts) -> bool {
        let runs = |file: &u32| facts.files.contains(&(*file, Touch::Run));
        let tries = facts.files.iter().any(|(file, touch)| *touch == Touch::Edit && runs(file));
        let is_changed = self.edited_unnamed || self.edited.iter().any(|file| !runs(file));
        is_changed && (self.edited_source || !tries)
    }

    /// Whether the changes were checked, and stood.
    fn is_checked_by(&self, facts: &Facts) -> bool {
        let rereads = facts.files.iter().any(|(f, touch)| *touch == Touch::Read && self.edited.contains(f));
        let well = facts.test.and_then(|test| test.passed) == Some(true) || facts.ran_well == Some(true);
        // That one trial script runs says nothing of another.
        well && self.edited_source && self.is_proved_by(facts)
            || self.edited_document && !facts.edited && !facts.refused && (rereads || facts.reviewed)
    }

    fn signal(&self, facts: &Facts, turn: u32) -> Option<Signal> {
        let rule = &self.rule;
        let likely = self.own.as_ref().map_or(facts.ended, |own| own[turn as usize]);
        let passed = facts.test.and_then(|test| test.passed) == Some(true);
        let proves = self.has_edits() && self.is_proved_by(facts) || self.acted && facts.api.is_some();
        let idle = self.changed.is_some_and(|last| turn - last >= rule.idle_turns) && !facts.edited;
        let ended = self.run >= rule.edits && !facts.edited;
        [
            (rule.test_success && passed && proves, TEST_SUCCESS),
            (rule.explicit_completion && facts.says_complete && turn > self.since, EXPLICIT_COMPLETION),
            (rule.learned && likely >= rule.least_odds && turn > self.since, LEARNED),
            (rule.consecutive_edits && ended, CONSECUTIVE_EDITS),
            (rule.semantic_marker && facts.says_next && turn > self.since, SEMANTIC_MARKER),
            (rule.tool_pattern && self.looked_first && self.is_checked_by(facts), TOOL_PATTERN),
            (rule.inactivity && idle, INACTIVITY),
        ]
        .into_iter()
        .find_map(|(seen, signal)| seen.then_some(signal))
    }

    /// Counts what the turn changed.
    fn change(&mut self, facts: &Facts, turn: u32) {
        self.acted |= facts.api.is_some_and(|api| api.changes);
        if facts.edited {
            let named =
                || facts.files.iter().filter(|(_, touch)| *touch == Touch::Edit).map(|(file, _)| *file);
            self.edited_unnamed |= named().next().is_none();
            let room = MOST_EDITED.saturating_sub(self.edited.len());
            self.edited.extend(named().take(room));
            self.edited_source |= facts.edited_source;
            self.edited_document |= facts.edited_document;
            self.looked_first |= self.looked;
            self.changed = Some(turn);
        }
    }

    /// Counts the turn for those that follow.
    fn go_on(&mut self, facts: &Facts) {
        self.run = if facts.edited { self.run + 1 } else { 0 };
        self.looked |= facts.looked;
    }
}

/// A signal: its name, its confidence, and whether its turn already belongs to the next piece of work.
#[derive(Clone, Copy)]
struct Signal(&'static str, f64, bool);

const TEST_SUCCESS: Signal = Signal("subtask/test_success", HIGH, false);
const EXPLICIT_COMPLETION: Signal = Signal("subtask/explicit_completion", HIGH, false);
const LEARNED: Signal = Signal("subtask/learned", MEDIUM, true);
const CONSECUTIVE_EDITS: Signal = Signal("subtask/consecutive_edits", MEDIUM, true);
const SEMANTIC_MARKER: Signal = Signal("subtask/semantic_marker", MEDIUM, true);
const TOOL_PATTERN: Signal = Signal("subtask/tool_pattern", MEDIUM, false);
const INACTIVITY: Signal = Signal("subtask/inactivity", LOW, false);

impl Rule for Work {
    fn turn(&mut self, log: &Log, turn: u32) -> Option<Firing> {
        let facts = &log.facts().turns[turn as usize];
        // A test checks what its own turn changed before it.
        let is_tested = facts.test.is_some_and(|test| test.after_change);
        if is_tested {
            self.change(facts, turn);
        }
        // The run of edits, or the unit, ended with the turn before.
        let is_over = |kind: &str| [CONSECUTIVE_EDITS.0, LEARNED.0].contains(&kind);
        let outcome = |kind: &str| if is_over(kind) { turn - 1 } else { turn };
        let signal = self.signal(facts, turn);
        let signal = signal.filter(|signal| outcome(signal.0) >= self.from + self.rule.least_turns);
        let Some(Signal(kind, confidence, is_next)) = signal else {
            if !is_tested {
                self.change(facts, turn);
            }
            self.go_on(facts);
            return None;
        };
        let outcome = outcome(kind);
        let firing = Firing::new(kind, outcome, confidence);
        let firing = firing.with(serde_json::json!({ "since": self.since, "outcome": outcome }));
        let changed = self.changed.map(|_| turn);
        let since = if is_next { turn } else { turn + 1 };
        let (rule, own) = (Arc::clone(&self.rule), self.own.take());
        *self = Work { rule, own, changed, from: outcome, ..Work::begun(since) };
        if is_next {
            self.change(facts, turn);
            self.go_on(facts);
        }
        Some(firing)
    }
}

#[cfg(test)]
mod tests;
