//! The oldest share of the messages, again and again until the rest is short enough.
//!
//! Sources: Letta's sliding window, the summarising manager of Strands, the trimming of Inspect.

use serde::{Deserialize, Serialize};

use super::{Entry, Prompt, Rule};
use crate::context::messages::Who;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "share",
    summary: "The oldest share of the messages, and more until the rest fits.",
    params: Share::PARAMS,
    build: |params| Ok(Box::new(Share::of(params)?)),
};

params! {
    struct Share {
        /// Share of the messages behind the head that is compressed first.
        first: f64 = 0.5 (from 0 to 1),
        /// What is added to it, as long as the rest does not fit.
        more: f64 = 0.1 (from 0 to 1),
        /// Share of the window that the rest is below; 0 takes the first share as it is.
        until: f64 = 0.0 (from 0 to 1),
        /// How the number of messages is rounded.
        round: Round = "down",
        /// Newest messages that stay.
        keep: u32 = 0,
        /// Where the cut is moved to.
        align: Align = "past-results",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Round {
    Down,
    Nearest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Align {
    PastResults,
    Assistant,
}

impl Rule for Share {
    fn pick(&self, prompt: &Prompt<'_>) -> Vec<usize> {
        let (head, n) = (prompt.n_head, prompt.messages.len());
        let behind = (n - head) as f64;
        let limit = self.until * prompt.window as f64;
        let mut share = self.first;
        loop {
            let taken = match self.round {
                Round::Down => (share * behind) as usize,
                Round::Nearest => (share * behind).round() as usize,
            };
            let cut = self.moved(head + taken.max(1).min((n - head).saturating_sub(self.keep as usize)), prompt);
            let rest: u64 = prompt.messages[..head].iter().chain(&prompt.messages[cut..]).map(|m| m.tokens).sum();
            if self.until == 0.0 || (rest as f64) < limit {
                return prompt.before(cut);
            }
            share += self.more;
            if share >= 1.0 || self.more == 0.0 {
                return prompt.before(n);
            }
        }
    }
}

impl Share {
    fn moved(&self, cut: usize, prompt: &Prompt<'_>) -> usize {
        let (n, head) = (prompt.messages.len(), prompt.n_head);
        match self.align {
            Align::PastResults => (cut..n).find(|&at| !prompt.is_result(at)).unwrap_or(n),
            Align::Assistant => {
                let is_it = |at: &usize| prompt.messages.get(*at).is_some_and(|m| m.who == Who::Assistant);
                (head..=cut).rev().find(is_it).unwrap_or(head)
            }
        }
    }
}
