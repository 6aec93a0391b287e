//! What of the past a compaction left in the prompts.

use std::collections::HashSet;

use crate::context::log::Log;
use crate::context::needs::Need;
use crate::text::runs::hash;
use crate::text::tokens::Tokenizer;
use crate::trajectory::{Kind, Role};

/// Steps of earlier segments that stand in the prompts of one.
pub(super) struct Stays {
    /// Those that stand there whole, in order.
    pub(super) steps: Vec<u32>,
    pub(super) segment: u32,
    /// Those that the compaction shortened, and the lines that it left of them.
    cut: Vec<u32>,
    lines: HashSet<u64>,
}

impl Stays {
    pub(super) fn of(log: &Log, segment: u32) -> Self {
        let pinned = log.pinned_before(segment).filter(|&step| !leaves(log, step));
        let mut steps: Vec<u32> = pinned.chain(log.kept_in(segment)).collect();
        steps.sort_unstable();
        Stays { steps, segment, cut: Vec::new(), lines: HashSet::new() }
    }

    /// Puts those apart that the prompt of a turn has in a shorter form.
    pub(super) fn cut(mut self, log: &Log, turn: u32) -> Self {
        let edit = |step: &u32| log.trajectory.steps[*step as usize].edit.as_ref();
        (self.cut, self.steps) =
            self.steps.iter().partition(|step| edit(step).is_some_and(|edit| edit.from <= turn));
        self.lines = self.cut_texts(log).flat_map(str::lines).map(|line| hash(line.trim())).collect();
        self
    }

    fn cut_texts<'a>(&self, log: &'a Log) -> impl Iterator<Item = &'a str> {
        let edit = |step: &u32| log.trajectory.steps[*step as usize].edit.as_deref();
        self.cut.iter().filter_map(edit).map(|edit| edit.text.as_str())
    }

    /// Tokens of what was said before the compaction and stands behind it, a first prompt that stays as well.
    pub(super) fn tokens(&self, log: &Log, tokenizer: &Tokenizer) -> u64 {
        let is_task = |step: &u32| is_typed(log, *step) && !leaves(log, *step);
        let head = (0..log.n_steps() as u32).take_while(|step| log.turn_of(*step) == 0).filter(is_task);
        let whole = head.chain(self.steps.iter().copied()).map(|step| u64::from(log.tokens[step as usize]));
        whole.chain(self.cut_texts(log).map(|text| tokenizer.count(text) as u64)).sum()
    }

    /// Whether a line is left of one that was shortened.
    pub(super) fn cut_says(&self, line: &str) -> bool {
        self.lines.contains(&hash(line.trim()))
    }

    pub(super) fn has(&self, step: u32) -> bool {
        self.steps.binary_search(&step).is_ok()
    }

    /// Whether a step stood in an earlier segment, and does not stand in this one.
    pub(super) fn leave(&self, log: &Log, step: u32) -> bool {
        let of = &log.trajectory.steps[step as usize];
        of.segment < self.segment && !self.has(step) && (of.turn > 0 || leaves(log, step))
    }

    /// Whether what is needed stands in one of them.
    pub(super) fn mention(&self, log: &Log, need: &Need) -> bool {
        log.mentions_of_atom(need.atom).any(|mention| self.has(log.spans[mention.span as usize].step))
    }
}

/// Products whose compactions take the first prompt of the user, too, if no record says that it is kept.
const LEAVE_TASK: [&str; 7] =
    ["aider", "claude-code", "gemini-cli", "kimi-cli", "opencode", "pi", "qwen-code"];

/// Whether a step is such a prompt.
pub(super) fn leaves(log: &Log, step: u32) -> bool {
    is_typed(log, step) && log.trajectory.agent.as_deref().is_some_and(|agent| LEAVE_TASK.contains(&agent))
}

fn is_typed(log: &Log, step: u32) -> bool {
    let of = &log.trajectory.steps[step as usize];
    of.role == Role::User && of.kind == Kind::Message
}
