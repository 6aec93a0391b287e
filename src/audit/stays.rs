//! What of the past a compaction left in the prompts.

use crate::context::log::Log;
use crate::context::needs::Need;
use crate::trajectory::{Kind, Role};

/// Steps of earlier segments that stand in the prompts of one, in order, and which one; those that were shortened apart.
pub(super) struct Stays(pub(super) Vec<u32>, pub(super) u32, Vec<u32>);

impl Stays {
    pub(super) fn of(log: &Log, segment: u32) -> Self {
        let pinned = log.pinned_before(segment).filter(|&step| !leaves(log, step));
        let mut all: Vec<u32> = pinned.chain(log.kept_in(segment)).collect();
        all.sort_unstable();
        Stays(all, segment, Vec::new())
    }

    /// Puts those apart that the prompt of a turn has in a shorter form.
    pub(super) fn cut(mut self, log: &Log, turn: u32) -> Self {
        let edit = |step: &u32| log.trajectory.steps[*step as usize].edit.as_ref();
        (self.2, self.0) = self.0.iter().partition(|step| edit(step).is_some_and(|edit| edit.from <= turn));
        self
    }

    pub(super) fn cut_texts<'a>(&self, log: &'a Log) -> impl Iterator<Item = &'a str> {
        self.2
            .iter()
            .filter_map(|step| Some(log.trajectory.steps[*step as usize].edit.as_ref()?.text.as_str()))
    }

    /// Whether a line stands in one that was shortened.
    pub(super) fn cut_says(&self, log: &Log, line: &str) -> bool {
        self.cut_texts(log).any(|text| text.contains(line.trim()))
    }

    pub(super) fn has(&self, step: u32) -> bool {
        self.0.binary_search(&step).is_ok()
    }

    /// Whether a step stood in an earlier segment, and does not stand in this one.
    pub(super) fn leave(&self, log: &Log, step: u32) -> bool {
        let of = &log.trajectory.steps[step as usize];
        of.segment < self.1 && !self.has(step) && (of.turn > 0 || leaves(log, step))
    }

    /// Whether what is needed stands in one of them.
    pub(super) fn mention(&self, log: &Log, need: &Need) -> bool {
        log.mentions_of_atom(need.atom).any(|mention| self.has(log.spans[mention.span as usize].step))
    }
}

/// Products whose compactions take the first prompt of the user, too, if no record says that it is kept.
const LEAVE_TASK: [&str; 6] = ["claude-code", "gemini-cli", "kimi-cli", "opencode", "pi", "qwen-code"];

/// Whether a step is such a prompt.
fn leaves(log: &Log, step: u32) -> bool {
    let of = &log.trajectory.steps[step as usize];
    let is_typed = of.role == Role::User && of.kind == Kind::Message;
    is_typed && log.trajectory.agent.as_deref().is_some_and(|agent| LEAVE_TASK.contains(&agent))
}
