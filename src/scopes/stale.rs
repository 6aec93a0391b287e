//! Results that show a file as it was: the same was read again since, or the file was edited.
//!
//! Sources: Cline before its SDK, which leaves a note in the place of all but the newest reading; the closed windows of
//! SWE-agent. A reading that failed is none.

use std::collections::HashSet;

use super::{Entry, Prompt, Rule};
use crate::context::messages::Message;
use crate::params::params;
use crate::turns::actions::ActionKind;

pub(super) const ENTRY: Entry = Entry {
    name: "stale",
    summary: "Readings of a file that was read again, or edited, since.",
    params: Stale::PARAMS,
    build: |params| Ok(Box::new(Stale::of(params)?)),
};

params! {
    struct Stale {
        /// Whether readings go whose file was read again, by the same call.
        read: bool = true,
        /// Whether readings go whose file was edited.
        edited: bool = true,
        /// Newest results that stay.
        keep: u32 = 0,
        /// Tokens that they have at least together; with fewer nothing is done.
        least: u64 = 0,
        /// The same as a share of the prompt.
        least_share: f64 = 0.0 (from 0 to 1),
    }
}

/// All readings whose file was read again.
pub(super) fn read_again(prompt: &Prompt<'_>) -> Vec<usize> {
    Stale { read: true, edited: false, keep: 0, least: 0, least_share: 0.0 }.pick(prompt)
}

impl Rule for Stale {
    fn pick(&self, prompt: &Prompt<'_>) -> Vec<usize> {
        let mut later = Later::default();
        let (mut stale, mut n_results, mut tokens) = (Vec::new(), 0, 0);
        for at in (0..prompt.messages.len()).rev() {
            let message = &prompt.messages[at];
            if !prompt.is_result(at) {
                later.see_edits(prompt, message);
                continue;
            }
            n_results += 1;
            let is_old = self.is_old(prompt, message, &mut later);
            if is_old
                && n_results > self.keep
                && at >= prompt.n_head
                && message.is_whole
                && !message.is_pinned
            {
                tokens += message.tokens;
                stale.push(at);
            }
        }
        if tokens < self.least || (tokens as f64) < self.least_share * prompt.tokens as f64 {
            return Vec::new();
        }
        stale.reverse();
        stale
    }

    fn retakes(&self) -> bool {
        false
    }
}

/// What came behind the message at hand.
#[derive(Default)]
struct Later<'a> {
    /// Files that were edited.
    edited: HashSet<&'a str>,
    /// Calls that read a file, as they were made.
    read: HashSet<&'a str>,
}

impl<'a> Later<'a> {
    fn see_edits(&mut self, prompt: &Prompt<'a>, message: &Message) {
        let log = prompt.log;
        let end = log.turns[message.turn as usize].steps.end;
        for step in (message.step..end).filter(|_| message.has_calls) {
            if log.action_kinds[step as usize] == Some(ActionKind::EditFile) {
                self.edited.extend(log.path_of(step));
            }
        }
    }
}

impl Stale {
    /// Whether a message of results shows nothing but files as they were.
    fn is_old<'a>(&self, prompt: &Prompt<'a>, message: &Message, later: &mut Later<'a>) -> bool {
        let log = prompt.log;
        let results = (0..message.blocks.len() as u32).map(|n| message.step + n);
        let mut is_old = true;
        for step in results {
            let result = &log.trajectory.steps[step as usize];
            let call = log.call_of(step).filter(|_| result.is_error != Some(true));
            let read = call.filter(|&call| log.action_kinds[call as usize] == Some(ActionKind::ReadFile));
            let Some((call, path)) = read.and_then(|call| Some((call, log.path_of(call)?))) else {
                is_old = false;
                continue;
            };
            let is_read = !later.read.insert(&log.trajectory.steps[call as usize].text);
            is_old &= self.read && is_read || self.edited && later.edited.contains(path);
        }
        is_old
    }
}
