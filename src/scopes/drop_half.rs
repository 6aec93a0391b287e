//! Half of the messages after the first pair, in pairs; three quarters where half would not do.
//!
//! Source: Cline's truncation (ContextManager) before its SDK; Roo Code falls back to its half.

use super::{Entry, Prompt, Rule, stale};
use crate::context::messages::Who;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "drop-half",
    summary: "Half of the messages after the first, in pairs; three quarters of very long ones.",
    params: DropHalf::PARAMS,
    build: |params| Ok(Box::new(DropHalf::of(params)?)),
};

params! {
    struct DropHalf {
        /// Messages behind the head that stay.
        first: u32 = 2,
        /// Where half of the prompt is over this share of the window three quarters are taken; 0 never does.
        quarter_above: f64 = 0.0 (from 0 to 1),
        /// Whether readings of files that were read again go, too, wherever they stand.
        stale: bool = false,
        /// Share of the tokens behind the head with which such readings are enough, and no half goes; 0 is never.
        stale_enough: f64 = 0.0 (from 0 to 1),
    }
}

impl Rule for DropHalf {
    fn pick(&self, prompt: &Prompt<'_>) -> Vec<usize> {
        let stale = if self.stale { stale::read_again(prompt) } else { Vec::new() };
        let tokens =
            |of: &mut dyn Iterator<Item = usize>| of.map(|at| prompt.messages[at].tokens).sum::<u64>();
        let all = tokens(&mut (prompt.n_head..prompt.messages.len()));
        let saved = tokens(&mut stale.iter().copied());
        if self.stale_enough > 0.0 && saved > 0 && saved as f64 >= self.stale_enough * all as f64 {
            return stale;
        }
        let mut scope = self.half(prompt);
        scope.extend(stale);
        scope.sort_unstable();
        scope.dedup();
        scope
    }
}

impl DropHalf {
    fn half(&self, prompt: &Prompt<'_>) -> Vec<usize> {
        let start = prompt.n_head + self.first as usize;
        let Some(rest) = prompt.messages.len().checked_sub(start) else { return Vec::new() };
        let is_long = self.quarter_above > 0.0
            && prompt.tokens as f64 / 2.0 > self.quarter_above * prompt.window as f64;
        let n = if is_long { rest * 3 / 4 / 2 * 2 } else { rest / 4 * 2 };
        let mut end = start + n;
        // What is left begins with words of the agent, whose pair went.
        if end > start
            && prompt.messages[end - 1].who != Who::Assistant
            && prompt.messages[end - 1].who != Who::Tool
        {
            end -= 1;
        }
        prompt.before(end).into_iter().filter(|&at| at >= start).collect()
    }
}
