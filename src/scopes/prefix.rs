//! The oldest messages, until enough of them is gone: so many tokens at least, and what is left fits.
//!
//! Sources: LangMem's running summary, the memory of LlamaIndex. What events left is not counted, and goes with them.

use super::{Entry, Prompt, Rule};
use crate::context::messages::Who;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "prefix",
    summary: "The oldest messages, until so many tokens are gone and the rest fits.",
    params: Prefix::PARAMS,
    build: |params| Ok(Box::new(Prefix::of(params)?)),
};

params! {
    struct Prefix {
        /// Tokens that go at least.
        tokens: u64 = 1000,
        /// Tokens that are left at most, with the head; 0 is no limit.
        rest: u64 = 0,
        /// Whether the cut is moved on to a message of the user, or where none comes back to the newest.
        to_user: bool = false,
        /// Whether results behind the cut stay, where it stands behind one of their reply: without their call, where `parts_pairs` of the
        /// policy lets them.
        parts: bool = false,
    }
}

impl Rule for Prefix {
    fn pick(&self, prompt: &Prompt<'_>) -> Vec<usize> {
        let (head, n) = (prompt.n_head, prompt.messages.len());
        let tokens = |at: usize| match prompt.messages[at].who {
            Who::Made => 0,
            _ => prompt.messages[at].tokens,
        };
        let mut left: u64 = prompt.messages[..head].iter().map(|message| message.tokens).sum();
        left += (head..n).map(tokens).sum::<u64>();
        let mut gone = 0;
        let is_enough = |at: &usize| {
            gone += tokens(*at);
            gone >= self.tokens && (self.rest == 0 || left - gone <= self.rest)
        };
        let Some(last) = (head..n).find(is_enough) else { return Vec::new() };
        let mut cut = match self.parts && !prompt.messages[last].has_calls {
            true => last + 1,
            false => (last + 1..n).find(|&at| !prompt.is_result(at)).unwrap_or(n),
        };
        if self.to_user {
            cut = (cut..n).find(|&at| prompt.is_user(at)).or_else(|| prompt.newest_user()).unwrap_or(n);
        }
        prompt.before(cut)
    }
}
