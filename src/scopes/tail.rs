//! All but a tail: the newest messages stay, by number, tokens, share or turns, and the cut is moved to a safe place.
//!
//! Of several lengths that are set the shortest tail holds. Without any there is no tail. Sources: the compaction of most
//! coding agents and libraries; which of them cuts how is data of the presets.

use serde::{Deserialize, Serialize};

use super::{Entry, Prompt, Rule};
use crate::context::messages::Who;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "tail",
    summary: "All but the newest messages, by number, tokens, share or turns, cut at a safe place.",
    params: Tail::PARAMS,
    build: |params| Ok(Box::new(Tail::of(params)?)),
};

params! {
    struct Tail {
        /// Newest messages that stay; 0 is no limit.
        messages: u32 = 0,
        /// Newest messages of user and agent that stay, with the results among them; 0 is no limit.
        said: u32 = 0,
        /// Newest messages of the user from which on all stands; 0 is no limit.
        turns: u32 = 0,
        /// Tokens of the tail; 0 is no limit.
        tokens: u64 = 0,
        /// The same as a share of the window.
        share: f64 = 0.0 (from 0 to 1),
        /// The same as a share of the prompt behind the head.
        prompt_share: f64 = 0.0 (from 0 to 1),
        /// How a tail of so many tokens ends: it holds them at most, holds less, or is the shortest that holds at least so many.
        fit: Fit = "within",
        /// Messages that stay, however long they are.
        at_least: u32 = 0,
        /// Messages behind the head that stay, too.
        first: u32 = 0,
        /// Where the cut is moved to, one after the other.
        align: Vec<Align> = [],
        /// Fewest messages that are compressed; with fewer nothing is.
        least: u32 = 1,
        /// Where fewer than so many would be compressed, all are.
        else_all: u32 = 0,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Fit {
    Within,
    Below,
    Reach,
}

/// A move of the cut, which stands before the first message that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Align {
    /// Back to the call, if it is a result.
    Call,
    /// On past results.
    PastResults,
    /// On past one result.
    PastResult,
    /// On to a message of the user; where none comes, there is no cut.
    NextUser,
    /// On to a message of the user; where none comes, all is compressed.
    NextUserOrAll,
    /// Back to a message of the user.
    User,
    /// Back to a message of the agent.
    Assistant,
    /// Back to a message of user or agent.
    Said,
    /// Back until the message before it is of the agent.
    AfterAssistant,
    /// Back to the newest message of the user, if it stands behind that.
    NewestUser,
    /// Back until no call before it has its result behind it.
    Closed,
}

impl Rule for Tail {
    fn pick(&self, prompt: &Prompt<'_>) -> Vec<usize> {
        let start = prompt.n_head + self.first as usize;
        let n = prompt.messages.len();
        let Some(cut) = self.align.iter().try_fold(self.cut(prompt).max(start), |cut, align| align.moved(cut, prompt))
        else {
            return Vec::new();
        };
        let mut scope = prompt.before(cut.clamp(start.min(n), n));
        if scope.len() < self.else_all as usize {
            scope = prompt.before(n);
        }
        scope.retain(|&at| at >= start);
        if scope.len() < (self.least as usize).max(1) {
            scope.clear();
        }
        scope
    }
}

impl Tail {
    /// The first message that stays, before the cut is moved.
    fn cut(&self, prompt: &Prompt<'_>) -> usize {
        let (n, head) = (prompt.messages.len(), prompt.n_head);
        let mut cuts = Vec::new();
        if self.messages > 0 {
            cuts.push(n.saturating_sub(self.messages as usize));
        }
        let newest = |count: u32, is: &dyn Fn(usize) -> bool| {
            (head..n).rev().filter(|&at| is(at)).nth(count as usize - 1).unwrap_or(head)
        };
        if self.said > 0 {
            let is_said = |at: usize| matches!(prompt.messages[at].who, Who::User | Who::Assistant | Who::Made);
            cuts.push(newest(self.said, &is_said));
        }
        if self.turns > 0 {
            cuts.push(newest(self.turns, &|at| prompt.is_user(at)));
        }
        let behind_head = || prompt.messages[head..].iter().map(|message| message.tokens).sum::<u64>();
        let budgets = [
            (self.tokens > 0).then_some(self.tokens),
            (self.share > 0.0).then(|| (self.share * prompt.window as f64) as u64),
            (self.prompt_share > 0.0).then(|| (self.prompt_share * behind_head() as f64) as u64),
        ];
        cuts.extend(budgets.into_iter().flatten().map(|budget| self.by_tokens(prompt, budget)));
        let cut = cuts.into_iter().max().unwrap_or(n);
        cut.min(n.saturating_sub(self.at_least as usize)).max(head)
    }

    fn by_tokens(&self, prompt: &Prompt<'_>, budget: u64) -> usize {
        let mut sum = 0;
        for at in (prompt.n_head..prompt.messages.len()).rev() {
            let with = sum + prompt.messages[at].tokens;
            match self.fit {
                Fit::Within if with > budget => return at + 1,
                Fit::Below if with >= budget => return at + 1,
                Fit::Reach if with >= budget => return at,
                _ => sum = with,
            }
        }
        prompt.n_head
    }
}

impl Align {
    /// The cut after the move; none where nothing is to be compressed.
    fn moved(self, cut: usize, prompt: &Prompt<'_>) -> Option<usize> {
        let (n, head) = (prompt.messages.len(), prompt.n_head);
        let back = |is: &dyn Fn(usize) -> bool| (head..=cut).rev().find(|&at| at == head || is(at));
        let on = |is: &dyn Fn(usize) -> bool| (cut..n).find(|&at| is(at));
        let who = |at: usize| prompt.messages.get(at).map(|message| message.who);
        match self {
            Align::Call => back(&|at| who(at) != Some(Who::Tool)),
            Align::PastResults => Some(on(&|at| !prompt.is_result(at)).unwrap_or(n)),
            Align::PastResult => Some(cut + usize::from(who(cut) == Some(Who::Tool))),
            Align::NextUser => on(&|at| prompt.is_user(at)),
            Align::NextUserOrAll => Some(on(&|at| prompt.is_user(at)).unwrap_or(n)),
            Align::User => back(&|at| at < n && prompt.is_user(at)),
            Align::Assistant => back(&|at| who(at) == Some(Who::Assistant)),
            Align::Said => back(&|at| matches!(who(at), Some(Who::Assistant | Who::User))),
            Align::AfterAssistant => back(&|at| who(at - 1) == Some(Who::Assistant)),
            Align::NewestUser => Some(prompt.newest_user().map_or(cut, |user| cut.min(user))),
            Align::Closed => back(&|at| at == n || !prompt.is_result(at)),
        }
    }
}
