//! Turns before the task, which is the newest message of the user, then the oldest steps of the task, down to a target.
//!
//! Source: the compactors of Haystack. Of a step that is a reply with its results the newest always stay, and so does the task.

use std::ops::Range;

use super::{Entry, Prompt, Rule};
use crate::context::messages::Who;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "task",
    summary: "Turns before the newest message of the user, then its oldest steps, down to a target.",
    params: Task::PARAMS,
    build: |params| Ok(Box::new(Task::of(params)?)),
};

params! {
    struct Task {
        /// Share of the window that is left at most.
        until: f64 = 0.4 (from 0 to 1),
        /// Newest steps that stay in any case.
        keep_steps: u32 = 1,
        /// Whether steps wait until no turn before the task is left, as where each event makes a summary; else they go once the
        /// turns would not be enough.
        turns_first: bool = false,
        /// Tokens that stand in the place of what goes.
        instead: u64 = 0,
    }
}

impl Rule for Task {
    fn pick(&self, prompt: &Prompt<'_>) -> Vec<usize> {
        let (head, n) = (prompt.n_head, prompt.messages.len());
        let target = (self.until * prompt.window as f64) as u64;
        let task = prompt.newest_user();
        let turns = parts(prompt, head..task.unwrap_or(head), |at| prompt.is_user(at));
        let mut steps = parts(prompt, task.map_or(head, |task| task + 1)..n, |at| {
            prompt.messages[at].who == Who::Assistant
        });
        steps.truncate(steps.len().saturating_sub(self.keep_steps as usize));
        let is_old = |at: &usize| !self.turns_first && prompt.messages[*at].who == Who::Made;
        let stays = (0..n).filter(|at| !is_old(at));
        let all: u64 = stays.map(|at| prompt.messages[at].tokens).sum();
        let of = |part: &Range<usize>| {
            prompt.messages[part.clone()].iter().map(|message| message.tokens).sum::<u64>()
        };
        let past: u64 = turns.iter().map(of).sum();
        let gone = match self.turns_first {
            true if !turns.is_empty() => self.oldest(turns.iter().map(of), all, target),
            false if all - past <= target => self.oldest(turns.iter().map(of), all, target),
            true => self.oldest(steps.iter().map(of), all, target),
            false => turns.len() + self.oldest(steps.iter().map(of), all - past, target),
        };
        let named =
            turns.into_iter().chain(steps).take(gone).flatten().filter(|&at| !prompt.messages[at].is_pinned);
        let mut scope: Vec<usize> = named.chain((head..n).filter(|at| gone > 0 && is_old(at))).collect();
        scope.sort_unstable();
        scope.dedup();
        scope
    }
}

impl Task {
    /// How many of the oldest go until the rest of `all` is short enough.
    fn oldest(&self, parts: impl Iterator<Item = u64>, all: u64, target: u64) -> usize {
        let mut left = all + self.instead;
        let is_long = |tokens: &u64| {
            let is_long = left > target;
            left = left.saturating_sub(*tokens);
            is_long
        };
        parts.take_while(is_long).count()
    }
}

/// Parts that each begin with such a message; what stands before the first, and what events made, belongs to none.
fn parts(prompt: &Prompt<'_>, range: Range<usize>, begins: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for at in range {
        match parts.last_mut() {
            _ if prompt.messages[at].who == Who::Made => {}
            _ if begins(at) => parts.push(at..at + 1),
            Some(last) => last.end = at + 1,
            None => {}
        }
    }
    parts
}
