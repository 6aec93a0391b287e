//! What of the prompt a stage of a policy compresses: one file a rule.
//!
//! A rule looks at the prompt as a list of messages ([`crate::context::messages`]) and names those that are compressed. It
//! knows nothing of what is made of them.

use crate::context::log::Log;
use crate::context::messages::{Message, Who};
use crate::params::Param;

mod drop_half;
mod results;
mod share;
mod skip;
mod tail;

/// The prompt that a rule looks at.
pub struct Prompt<'a> {
    pub log: &'a Log,
    pub messages: &'a [Message],
    /// Messages at the start that no stage touches.
    pub n_head: usize,
    /// Tokens of the prompt, as the policy counts.
    pub tokens: u64,
    /// Tokens of the window, without the reserve.
    pub window: u64,
}

impl Prompt<'_> {
    /// Whether the user typed it.
    fn is_user(&self, at: usize) -> bool {
        self.messages[at].who == Who::User
    }

    fn is_result(&self, at: usize) -> bool {
        self.messages[at].who == Who::Tool
    }

    /// The messages from the head to a cut, but for those that are pinned.
    fn before(&self, cut: usize) -> Vec<usize> {
        (self.n_head..cut).filter(|&at| !self.messages[at].is_pinned).collect()
    }

    /// What a message counts: one, or its events.
    fn count(&self, at: usize, by_events: bool) -> u32 {
        if by_events { self.messages[at].events } else { 1 }
    }

    /// The first message behind so many, or so many events, from a place on.
    fn behind(&self, start: usize, n: u32, by_events: bool) -> usize {
        let mut left = n;
        let is_behind = |&at: &usize| {
            let is_behind = left == 0;
            left = left.saturating_sub(self.count(at, by_events));
            is_behind
        };
        (start..self.messages.len()).find(is_behind).unwrap_or(self.messages.len())
    }

    /// The first of so many newest messages, or events.
    fn newest(&self, n: u32, by_events: bool) -> usize {
        let mut left = n;
        for at in (0..self.messages.len()).rev() {
            let own = self.count(at, by_events);
            if own > left {
                return at + 1;
            }
            left -= own;
        }
        0
    }

    /// The prompt up to the agent's last reply.
    fn finished(&self) -> Prompt<'_> {
        let is_reply = |message: &Message| message.who == Who::Assistant;
        let n = self.messages.iter().rposition(is_reply).map_or(0, |last| last + 1).max(self.n_head);
        Prompt { messages: &self.messages[..n], ..*self }
    }

    /// The newest message of the user.
    fn newest_user(&self) -> Option<usize> {
        (self.n_head..self.messages.len()).rev().find(|&at| self.is_user(at))
    }
}

/// A rule with its parameters.
pub trait Rule: Send + Sync {
    /// Numbers of the messages that are compressed, ascending; none where there is nothing to do.
    fn pick(&self, prompt: &Prompt<'_>) -> Vec<usize>;

    /// Whether what an event left can be in a later scope.
    fn retakes(&self) -> bool {
        true
    }
}

/// A rule in the catalogue.
pub struct Entry {
    pub name: &'static str,
    pub summary: &'static str,
    pub params: &'static [Param],
    pub build: fn(toml::Table) -> anyhow::Result<Box<dyn Rule>>,
}

/// All rules, by name.
pub static ALL: &[Entry] = &[drop_half::ENTRY, results::ENTRY, share::ENTRY, skip::ENTRY, tail::ENTRY];

/// Builds the rule of this name.
pub fn build(name: &str, params: toml::Table) -> anyhow::Result<Box<dyn Rule>> {
    let Some(entry) = ALL.iter().find(|e| e.name == name) else {
        let known: Vec<&str> = ALL.iter().map(|e| e.name).collect();
        anyhow::bail!("unknown scope `{name}` (known: {})", known.join(", "));
    };
    (entry.build)(params)
}
