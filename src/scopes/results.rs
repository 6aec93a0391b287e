//! Old results of tools: all but the newest, or but those of the newest tokens, or of the newest turns of the user.
//!
//! Sources: context editing of the Claude API, its copies in libraries, the pruning of opencode, the masking of Gemini CLI and
//! of SWE-agent; which of them keeps what is data of the presets.

use serde::{Deserialize, Serialize};

use super::{Entry, Prompt, Rule};
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "results",
    summary: "Results of tools, but for the newest.",
    params: Results::PARAMS,
    build: |params| Ok(Box::new(Results::of(params)?)),
};

params! {
    struct Results {
        /// Whether results are meant, calls, or results with their calls.
        of: Of = "results",
        /// Newest results that stay.
        keep: u32 = 0,
        /// Newest calls whose results stay.
        keep_calls: u32 = 0,
        /// Newest messages, of whatever kind, that stay.
        keep_messages: u32 = 0,
        /// Whether these are counted as events: each call of a reply as one.
        events: bool = false,
        /// Whether only what stands up to the agent's last reply is looked at, and what came since stays.
        finished: bool = false,
        /// Whether messages of the user count as results, but for the first.
        users: bool = false,
        /// Newest messages of the user from which on all stands; 0 is no limit.
        keep_turns: u32 = 0,
        /// Tokens of the newest messages, of whatever kind and as they were logged, that stay; all stay where the newest alone has more. 0 is no limit.
        keep_tokens: u64 = 0,
        /// Tokens of the newest results that stay.
        protect: u64 = 0,
        /// Whether the result with which these tokens are passed still stays.
        protect_last: bool = false,
        /// Tokens that the results have at least together; with fewer nothing is done.
        least: u64 = 0,
        /// Tokens above which a result is taken at all.
        longer_than: u64 = 0,
        /// Once the results taken have so many tokens, oldest first, the rest stays; 0 is no limit.
        enough: u64 = 0,
        /// Whether what events took of the results before counts among these tokens: a product that clears a view anew at each call.
        anew: bool = false,
        /// Whether the calls of the results taken are in the scope, too: their arguments then count among these tokens.
        with_calls: bool = false,
        /// Share of the window down to which results are taken, oldest first; 0 takes all.
        until: f64 = 0.0 (from 0 to 1),
        /// Tokens of what then stands in the place of each.
        instead: u64 = 0,
        /// Only so many of the oldest are looked at; 0 is no limit.
        oldest: u32 = 0,
        /// Tools whose results stay.
        exclude: Vec<String> = [],
        /// Tools whose results are taken; none is all.
        only: Vec<String> = [],
        /// The number of results, the task counted as one, is rounded down to a multiple of this before the newest are told.
        polling: u32 = 1 (at least 1),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Of {
    Results,
    Calls,
    Pairs,
}

impl Rule for Results {
    fn pick(&self, prompt: &Prompt<'_>) -> Vec<usize> {
        let finished = prompt.finished();
        let prompt = if self.finished { &finished } else { prompt };
        let head = prompt.n_head;
        let mut end = prompt.newest(self.keep_messages, self.events);
        if self.keep_turns > 0 {
            let mut users = (head..end).rev().filter(|&at| prompt.is_user(at));
            let Some(user) = users.nth(self.keep_turns as usize - 1) else { return Vec::new() };
            end = user;
        }
        if self.keep_calls > 0 {
            let mut calls = (head..end).rev().filter(|&at| prompt.messages[at].has_calls);
            let Some(call) = calls.nth(self.keep_calls as usize - 1) else { return Vec::new() };
            end = call;
        }
        if self.keep_tokens > 0 {
            let mut left = self.keep_tokens;
            let whole = |at: usize| prompt.messages[at].tokens + prompt.messages[at].freed;
            let fits = |at: &usize| left.checked_sub(whole(*at)).map(|rest| left = rest).is_some();
            let n_newest = (head..end).rev().take_while(fits).count();
            // So deepagents has it.
            if n_newest == 0 {
                return Vec::new();
            }
            end -= n_newest;
        }
        let first = (head..end).find(|&at| self.users && self.is_meant(prompt, at));
        // Newest first, and no list of all: most of them were taken long ago.
        let results = (head..end).rev().filter(|&at| Some(at) != first && self.is_meant(prompt, at));
        let late = if self.polling > 1 { (results.clone().count() + 1) % self.polling as usize } else { 0 };
        let results = results.skip(self.keep as usize + late);
        let n_protected = self.protected(prompt, results.clone());
        let results = results.skip(n_protected);
        let n_new =
            if self.oldest > 0 { results.clone().count().saturating_sub(self.oldest as usize) } else { 0 };
        // What is passed by later need not be listed at each call, but where sums over all decide.
        let is_joint = self.least > 0 || self.until > 0.0 || self.enough > 0 || self.of != Of::Results;
        let is_passed =
            |at: usize| !is_joint && !self.retakes() && prompt.passed.contains(&prompt.messages[at].step);
        let takes = |&at: &usize| self.takes(prompt, at) && !is_passed(at);
        let mut old: Vec<usize> = results.skip(n_new).filter(takes).collect();
        old.reverse();
        let tokens = |at: &usize| prompt.messages[*at].tokens;
        if old.iter().map(tokens).sum::<u64>() < self.least {
            return Vec::new();
        }
        let enough = match self.until > 0.0 {
            true => prompt.tokens.saturating_sub((self.until * prompt.window as f64) as u64),
            false => {
                if self.enough > 0 {
                    self.enough
                } else {
                    u64::MAX
                }
            }
        };
        let mut taken = match self.anew {
            true => prompt.messages[head..end].iter().map(|message| message.freed).sum(),
            false => 0,
        };
        let call = |at: usize| prompt.log.call_of(prompt.messages[at].step).filter(|_| self.with_calls);
        old.retain(|&at| {
            let is_short = taken < enough;
            let arguments = call(at).map_or(0, |call| prompt.counter.of_arguments(prompt.log, call));
            taken += tokens(&at).saturating_sub(self.instead) + arguments;
            is_short
        });
        let turns: Vec<u32> =
            old.iter().filter(|&&at| call(at).is_some()).map(|&at| prompt.messages[at].turn).collect();
        old.extend((head..end).filter(|&at| {
            prompt.messages[at].has_calls && turns.binary_search(&prompt.messages[at].turn).is_ok()
        }));
        old.sort_unstable();
        old.dedup();
        old
    }

    fn retakes(&self) -> bool {
        self.of == Of::Pairs || self.with_calls
    }
}

impl Results {
    /// How many of the newest results are protected by their tokens; all, where they have no more.
    fn protected(&self, prompt: &Prompt<'_>, newest: impl Iterator<Item = usize>) -> usize {
        if self.protect == 0 {
            return 0;
        }
        let mut sum = 0;
        let mut is_within = |&at: &usize| {
            sum += prompt.messages[at].tokens;
            sum <= self.protect
        };
        newest.take_while(&mut is_within).count() + usize::from(self.protect_last)
    }

    fn is_meant(&self, prompt: &Prompt<'_>, at: usize) -> bool {
        let is_result = self.of != Of::Calls && prompt.is_result(at);
        is_result
            || self.of != Of::Results && prompt.messages[at].has_calls
            || self.users && prompt.is_user(at)
    }

    fn takes(&self, prompt: &Prompt<'_>, at: usize) -> bool {
        let message = &prompt.messages[at];
        let step = &prompt.log.trajectory.steps[message.step as usize];
        let is_excluded = step.tool.as_deref().is_some_and(|tool| self.exclude.iter().any(|of| of == tool));
        let is_old = message.is_whole || self.of == Of::Pairs;
        is_old
            && !message.is_pinned
            && !is_excluded
            && prompt.is_of(at, &self.only)
            && (self.longer_than == 0 || message.tokens > self.longer_than)
    }
}
