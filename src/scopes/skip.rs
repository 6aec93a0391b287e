//! What does not fit: from the newest message back, each that still fits stays, those before it that fit, too. A call and its
//! results are one.
//!
//! Source: the token limiter of Mastra in its best-fit mode.

use super::{Entry, Prompt, Rule};
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "skip",
    summary: "Each message that does not fit, newest first.",
    params: Skip::PARAMS,
    build: |params| Ok(Box::new(Skip::of(params)?)),
};

params! {
    struct Skip {
        /// Share of the window that the messages that stay have at most.
        share: f64 = 1.0 (from 0 to 1),
        /// Tokens that are counted for the prompt beside its messages.
        overhead: u64 = 0,
    }
}

impl Rule for Skip {
    fn pick(&self, prompt: &Prompt<'_>) -> Vec<usize> {
        let head: u64 = prompt.messages[..prompt.n_head].iter().map(|message| message.tokens).sum();
        let mut left = ((self.share * prompt.window as f64) as u64).saturating_sub(head + self.overhead);
        let mut scope: Vec<usize> = Vec::new();
        let mut end = prompt.messages.len();
        while end > prompt.n_head {
            let start = (prompt.n_head..end).rev().find(|&at| !prompt.is_result(at)).unwrap_or(prompt.n_head);
            let tokens = prompt.messages[start..end].iter().map(|message| message.tokens).sum::<u64>();
            match tokens <= left {
                true => left -= tokens,
                false => scope.extend((start..end).rev().filter(|&at| !prompt.messages[at].is_pinned)),
            }
            end = start;
        }
        scope.reverse();
        scope
    }
}
