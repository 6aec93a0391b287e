//! What does not fit: from the newest message back, each that still fits stays, those before it that fit, too.
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
        let mut scope: Vec<usize> = (prompt.n_head..prompt.messages.len())
            .rev()
            .filter(|&at| {
                let tokens = prompt.messages[at].tokens;
                let fits = tokens <= left;
                left -= if fits { tokens } else { 0 };
                !fits && !prompt.messages[at].is_pinned
            })
            .collect();
        scope.reverse();
        scope
    }
}
