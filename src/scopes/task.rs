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
        /// turns would not be enough. Two and more texts that stand before the task, or behind it, are then made one when their turn
        /// comes: behind the turns, and behind the steps.
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
        let before = head..task.unwrap_or(head);
        let turns = parts(prompt, before.clone(), self.turns_first, |at| prompt.is_user(at));
        let mut steps = parts(prompt, task.map_or(head, |task| task + 1)..n, false, |at| {
            prompt.messages[at].who == Who::Assistant
        });
        steps.truncate(steps.len().saturating_sub(self.keep_steps as usize));
        if self.turns_first {
            let made = |range: Range<usize>| {
                let made = range.filter(|&at| prompt.messages[at].who == Who::Made);
                made.map(|at| at..at + 1).collect::<Vec<_>>()
            };
            let behind = made(before.end..n);
            return self.first_of([(turns, 1), (made(before), 2), (steps, 1), (behind, 2)], prompt, target);
        }
        let is_old = |at: &usize| prompt.messages[*at].who == Who::Made;
        let stays = (0..n).filter(|at| !is_old(at));
        let all: u64 = stays.map(|at| prompt.messages[at].tokens).sum();
        let of = |part: &Range<usize>| {
            prompt.messages[part.clone()].iter().map(|message| message.tokens).sum::<u64>()
        };
        let past: u64 = turns.iter().map(of).sum();
        let gone = match all - past <= target {
            true => self.oldest(turns.iter().map(of), all, target),
            false => turns.len() + self.oldest(steps.iter().map(of), all - past, target),
        };
        let named =
            turns.into_iter().chain(steps).take(gone).flatten().filter(|&at| !prompt.messages[at].is_pinned);
        let mut scope: Vec<usize> = named.chain((head..n).filter(|at| gone > 0 && is_old(at))).collect();
        scope.sort_unstable();
        scope.dedup();
        scope
    }

    fn merges(&self) -> bool {
        self.turns_first
    }
}

impl Task {
    /// Of these lists the first that has as many parts as it must: its oldest, so many at least.
    fn first_of(
        &self,
        lists: [(Vec<Range<usize>>, usize); 4],
        prompt: &Prompt<'_>,
        target: u64,
    ) -> Vec<usize> {
        let Some((parts, least)) = lists.into_iter().find(|(parts, least)| parts.len() >= *least) else {
            return Vec::new();
        };
        let of = |part: &Range<usize>| prompt.messages[part.clone()].iter().map(|m| m.tokens).sum::<u64>();
        let all = prompt.messages.iter().map(|message| message.tokens).sum();
        let n = self.oldest(parts.iter().map(of), all, target).max(least);
        parts.into_iter().take(n).flatten().filter(|&at| !prompt.messages[at].is_pinned).collect()
    }

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

/// Parts that each begin with such a message; what stands before the first belongs to none, nor does what events made, unless
/// it is to.
fn parts(
    prompt: &Prompt<'_>,
    range: Range<usize>,
    with_made: bool,
    begins: impl Fn(usize) -> bool,
) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for at in range {
        match parts.last_mut() {
            _ if prompt.messages[at].who == Who::Made && !with_made => {}
            _ if begins(at) => parts.push(at..at + 1),
            Some(last) => last.end = at + 1,
            None => {}
        }
    }
    parts
}
