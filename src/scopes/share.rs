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
        /// How often the first share is taken again of what is left, as long as that does not fit, before more is.
        again: u32 = 0,
        /// Whether messages of the head are counted, and stay all the same.
        with_head: bool = false,
        /// Whether messages are counted as events: each call of a reply as one.
        events: bool = false,
        /// Whether a reply stays of which some calls are behind the share; else it goes.
        parts: bool = false,
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
    Up,
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
        let limit = self.until * prompt.window as f64;
        let fits = |cut: usize| {
            let left = prompt.messages[..head].iter().chain(&prompt.messages[cut..]);
            self.until == 0.0 || (left.map(|m| m.tokens).sum::<u64>() as f64) < limit
        };
        let start = if self.with_head { 0 } else { head };
        let mut cut = self.cut(prompt, start, self.first);
        for _ in 0..self.again {
            if fits(cut) {
                break;
            }
            cut = self.cut(prompt, cut, self.first);
        }
        let mut share = self.first;
        while !fits(cut) {
            share += self.more;
            if share >= 1.0 || self.more == 0.0 {
                return prompt.before(if self.again > 0 { cut } else { n });
            }
            cut = self.cut(prompt, start, share);
        }
        prompt.before(cut)
    }
}

impl Share {
    /// Behind this share of the messages from `start` on, at a safe place.
    fn cut(&self, prompt: &Prompt<'_>, start: usize, share: f64) -> usize {
        let n = prompt.messages.len();
        let behind: u32 = (start..n).map(|at| prompt.count(at, self.events)).sum();
        let taken = share * f64::from(behind);
        let taken = match self.round {
            Round::Down => taken.floor(),
            Round::Nearest => taken.round_ties_even(),
            Round::Up => taken.ceil(),
        };
        let taken = (taken as u32).max(1);
        let cut = match self.parts {
            true => prompt.newest_or_part(behind.saturating_sub(taken), self.events, true),
            false => prompt.behind(start, taken, self.events),
        };
        self.moved(
            cut.clamp(prompt.n_head, (n.saturating_sub(self.keep as usize)).max(prompt.n_head)),
            prompt,
        )
    }

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
