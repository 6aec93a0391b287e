//! What happened in each turn: files touched, tests and programs run with their outcome, calls of tools outside, what the
//! agent said of its work, and what it is about. One pass over a trajectory; shared by all triggers.
//!
//! Of a long text only the ends are read, so that one giant observation costs no more than any other. Files are told apart by
//! what was touched so far alone: what happens later changes nothing of a turn.

use rustc_hash::FxHashSet;

use crate::trajectory::Step;

pub mod actions;
mod claims;
pub mod ends;
pub mod intents;
mod names;
pub mod outcomes;
mod reader;
mod runners;
mod trials;

pub use reader::MOST_FILES;

use ends::Ends;
use intents::{Intent, Rater};
use reader::Reader;

/// The turns of a trajectory; turn 0, the head, is empty.
#[derive(Debug, Default)]
pub struct Turns {
    pub turns: Vec<Facts>,
    /// Names of files, tests and tools, by their number in the facts; of a file the one that it was first touched by.
    pub names: Vec<String>,
    /// Files that the agent made to try things out: first named by the call that wrote them, at the root or in /tmp.
    pub trials: FxHashSet<u32>,
}

/// How a file was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Read, searched, or named in a command.
    Read,
    /// Changed; an edit that the editor refused is a reading.
    Edit,
    /// Given to a program or test runner.
    Run,
}

/// The test runs of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// What was tested last, as the command names it.
    pub target: u32,
    /// Whether all of them passed; unknown where neither a summary nor an exit code tells.
    pub passed: Option<bool>,
    /// Whether the turn itself changed something before the last of them.
    pub after_change: bool,
    /// Whether the last of them runs nothing but what the agent made to try things out.
    pub of_trial: bool,
}

/// A call of a tool outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiCall {
    pub name: u32,
    /// Whether it changes something, by its name: `book_flight` and not `get_flight`.
    pub changes: bool,
}

/// What happened in a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Files in the order in which they were touched; at most [`MOST_FILES`].
    pub files: Vec<(u32, Touch)>,
    /// Whether something was read or searched.
    pub looked: bool,
    /// Whether a file was changed.
    pub edited: bool,
    /// Whether one of them is neither a document nor a test or a script to try things out.
    pub edited_source: bool,
    /// Whether one of them is a document, which no test checks.
    pub edited_document: bool,
    /// Whether something of the work was changed: a file that is no trial, or what a script changes that was made to.
    pub changed: bool,
    /// Whether a file was made or changed that is a trial.
    pub tried: bool,
    /// Whether a script that changes files was made or run, or something was taken back: a change is still under way.
    pub scripted: bool,
    /// Whether an edit was refused.
    pub refused: bool,
    /// Tests, or the reward that an environment tells of a call outside.
    pub test: Option<TestRun>,
    /// Whether a program that is no test ended well; none if none ran.
    pub ran_well: Option<bool>,
    /// Whether the changes were looked through: `git diff`.
    pub reviewed: bool,
    pub api: Option<ApiCall>,
    /// Whether the agent says that something is complete.
    pub says_complete: bool,
    /// Whether the agent says that it turns to something else now.
    pub says_next: bool,
    /// Whether the user speaks.
    pub asked: bool,
    /// By learned odds, how likely a unit of work ended with the turn before, 0 to 1.
    pub ended: f64,
    /// By learned odds, with how sure it is, 0 to 1; none where it is about none of them.
    pub intent: Option<(Intent, f64)>,
}

/// Reads a trajectory.
pub fn read(steps: &[Step]) -> Turns {
    let (rater, ends) = (Rater::shipped(), Ends::shipped());
    let mut turns = Vec::new();
    let mut reader = Reader::default();
    let mut before = Vec::new();
    reader.all(steps, |turn, facts, pieces| {
        turns.resize(turn, Facts::default());
        let intent = rater.intent(pieces).filter(|_| turn > 0);
        let ended = match turn {
            0 | 1 => 0.0,
            _ => ends.likely(&ends::pieces(&before, pieces, facts.asked)),
        };
        turns.push(Facts { intent, ended, ..facts });
        before = pieces.to_vec();
    });
    Turns { turns, names: reader.names, trials: reader.trials.files }
}

/// The pieces of each turn, of which the intent is told; turn 0, the head, has none.
pub fn pieces(steps: &[Step]) -> Vec<Vec<u16>> {
    let mut all = Vec::new();
    Reader::default().all(steps, |turn, _, pieces| {
        all.resize(turn, Vec::new());
        all.push(pieces.to_vec());
    });
    all
}

/// By turn, the pieces of which it is told whether a unit of work ended with the turn before.
pub fn ends_of(steps: &[Step]) -> Vec<Option<Vec<u16>>> {
    let (mut all, mut before) = (Vec::new(), Vec::new());
    Reader::default().all(steps, |turn, facts, pieces| {
        all.resize(turn, None);
        all.push((turn > 1).then(|| ends::pieces(&before, pieces, facts.asked)));
        before = pieces.to_vec();
    });
    all
}

#[cfg(test)]
mod tests;
