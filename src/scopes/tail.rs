//! All but a tail: the newest messages stay, by number, tokens, share or turns, and the cut is moved to a safe place.
//!
//! Of several lengths that are set the shortest tail holds. Without any there is no tail. Sources: the compaction of most
//! coding agents and libraries; which of them cuts how is data of the presets.

use serde::{Deserialize, Serialize};

use super::{Entry, Prompt, Rule};
use crate::context::messages::Who;
use crate::params::params;
use crate::trajectory::Kind;

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
        /// The newest messages are told only where all that stand are more than this.
        messages_over: u32 = 0,
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
        /// Messages behind the head that go at least, before the cut is moved.
        goes: u32 = 0,
        /// Messages behind the head that stay, too.
        first: u32 = 0,
        /// The same with those of the head counted; the more of the two hold.
        from_start: u32 = 0,
        /// Whether messages are counted as events: each call of a reply as one.
        events: bool = false,
        /// Whether a reply stays of which some calls are among the newest events; else it goes.
        parts: bool = false,
        /// Whether what stays at the start counts against the tokens of the tail, and against its messages.
        with_start: bool = false,
        /// Whether what the policy counts beyond the messages, as text that the log lacks, counts against the tokens of the tail, too.
        unseen: bool = false,
        /// Whether a call at the end of what stays at the start goes, since its result does, or one of its results.
        drop_call: bool = false,
        /// Whether what events left stays, so that their summaries stand side by side.
        beside: bool = false,
        /// Whether nothing but what events left goes: their summaries are summarised.
        only_left: bool = false,
        /// Whether nothing but what events left may go, as with a product that summarises its summary alone.
        again: bool = false,
        /// How many messages before the cut a message of the user may stand to which it is moved back.
        user_within: u32 = 0,
        /// Whether only what stands up to the agent's last reply is looked at, and what came since stays.
        finished: bool = false,
        /// Whether the message that came last, and begins a turn, is not looked at.
        but_last: bool = false,
        /// Tokens behind the head above which something is compressed at all.
        above: u64 = 0,
        /// Where the cut is moved to, one after the other.
        align: Vec<Align> = [],
        /// Fewest messages that are compressed; with fewer nothing is.
        least: u32 = 1,
        /// The same as a share of all messages.
        least_share: f64 = 0.0 (from 0 to 1),
        /// Whether all is compressed, what stays at the start with it, where these are too few.
        or_all: bool = false,
        /// Whether what is compressed must have more tokens than the newest text that events left.
        more_than_left: bool = false,
        /// Where fewer than so many would be compressed, all are.
        else_all: u32 = 0,
        /// Tokens that are compressed at most, oldest first; what alone has more stays before them, and ends them. 0 is no limit.
        most: u64 = 0,
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
    /// On to a message of the user; where none comes, all is compressed after words of the agent, and all before the newest
    /// message of the user after a call.
    NextUserOrNewest,
    /// On past results; where nothing comes behind them, back to their call.
    PastResultsOrCall,
    /// Back to a message of the user.
    User,
    /// Back to a message of the agent.
    Assistant,
    /// Back to a message of user or agent.
    Said,
    /// Back until the message before it is of the agent.
    AfterAssistant,
    /// Back to the newest message of the user, if it stands behind that and is not the first message.
    NewestUser,
    /// Back over the messages of the user that came last.
    LastUsers,
    /// Back until no call before it has its result behind it.
    Closed,
    /// Back to the first of the calls and results that stand together there.
    RunOfCalls,
    /// On to a message of the user, or where none comes to a call with its result; without either there is no cut.
    NextUserOrCall,
    /// Back to the newest message that is no result, if it stands behind that.
    LastStep,
    /// Back to the newest message.
    Newest,
}

impl Rule for Tail {
    fn pick(&self, prompt: &Prompt<'_>) -> Vec<usize> {
        let finished = prompt.finished();
        let prompt = if self.finished { &finished } else { prompt };
        let until = prompt.messages.len().saturating_sub(usize::from(self.but_last)).max(prompt.n_head);
        let prompt = &Prompt { messages: &prompt.messages[..until], ..*prompt };
        if self.above > 0 && tokens(prompt, prompt.n_head) <= self.above {
            return Vec::new();
        }
        let n = prompt.messages.len();
        let start = self.start(prompt);
        let cut = self.cut(prompt, start);
        if self.drop_call && cut <= prompt.behind(prompt.n_head, self.first, self.events) {
            return Vec::new();
        }
        let cut = cut.max(start);
        let moved = self.align.iter().try_fold(cut, |cut, align| align.moved(cut, prompt));
        let Some(moved) = moved else { return Vec::new() };
        let within = cut.saturating_sub(self.user_within as usize).max(start)..(moved + 1).min(n);
        let user = within.rev().find(|&at| self.user_within > 0 && prompt.is_user(at));
        let cut = user.unwrap_or(moved);
        let mut scope = prompt.before(cut.clamp(start.min(n), n));
        if scope.len() < self.else_all as usize {
            scope = prompt.before(n);
        }
        let is_made = |at: usize| prompt.messages[at].who == Who::Made;
        scope.retain(|&at| at >= start && !(self.beside && is_made(at)) && (!self.only_left || is_made(at)));
        if self.most > 0 {
            scope = self.fitting(prompt, &scope);
        }
        let count = |range: &mut dyn Iterator<Item = usize>| {
            range.map(|at| prompt.count(at, self.events)).sum::<u32>()
        };
        let share = self.least_share * f64::from(count(&mut (0..n)));
        let taken = count(&mut scope.iter().copied());
        if taken < self.least.max(1) || f64::from(taken) < share {
            scope = if self.or_all { prompt.before(n) } else { Vec::new() };
        }
        let newest = prompt.messages.iter().rfind(|message| message.who == Who::Made);
        let least = newest.filter(|_| self.more_than_left).map_or(0, |newest| newest.tokens);
        if least > 0 && scope.iter().map(|&at| prompt.messages[at].tokens).sum::<u64>() <= least {
            scope.clear();
        }
        scope
    }

    fn retakes(&self) -> bool {
        !self.beside
    }

    fn merges(&self) -> bool {
        self.only_left || self.again
    }
}

impl Tail {
    /// The oldest of the scope, as far as they have so many tokens together. A call and its results are one.
    fn fitting(&self, prompt: &Prompt<'_>, scope: &[usize]) -> Vec<usize> {
        let (mut taken, mut sum) = (Vec::new(), 0);
        for group in scope.chunk_by(|_, &next| prompt.is_result(next)) {
            let tokens = group.iter().map(|&at| prompt.messages[at].tokens).sum::<u64>();
            if sum + tokens <= self.most {
                sum += tokens;
                taken.extend(group);
            } else if !taken.is_empty() {
                break;
            }
        }
        taken
    }

    /// The first message that may go. A result stays with its call.
    fn start(&self, prompt: &Prompt<'_>) -> usize {
        // What an event left is none of the messages that stay at the start.
        let left = prompt.messages[prompt.n_head..].iter().position(|message| message.who == Who::Made);
        let left = left.map_or(usize::MAX, |at| prompt.n_head + at);
        let mut first = prompt.behind(prompt.n_head, self.first, self.events).min(left);
        if self.drop_call && first > prompt.n_head && prompt.messages[first - 1].has_calls {
            first -= 1;
        }
        let n = prompt.messages.len();
        match self.from_start {
            0 => first,
            n_first => {
                // A call that went is still counted at the start, where it went for its result.
                let n_together = if self.drop_call { prompt.n_together() } else { prompt.messages.len() };
                let at_start = n_together.max(prompt.n_head);
                let first = prompt.behind(0, n_first, self.events).min(at_start).max(first);
                if self.drop_call && first < n && prompt.is_result(first) {
                    return (prompt.n_head..first).rev().find(|&at| !prompt.is_result(at)).unwrap_or(first);
                }
                (first..n).find(|&at| !prompt.is_result(at)).unwrap_or(n)
            }
        }
    }

    /// The first message that stays, before the cut is moved.
    fn cut(&self, prompt: &Prompt<'_>, start: usize) -> usize {
        let (n, head) = (prompt.messages.len(), prompt.n_head);
        let mut cuts = Vec::new();
        let all = || (0..n).map(|at| prompt.count(at, self.events)).sum::<u32>();
        if self.messages > 0 && (self.messages_over == 0 || all() > self.messages_over) {
            let first = if self.with_start && self.messages_over == 0 { start as u32 } else { 0 };
            cuts.push(prompt.newest_or_part(self.messages.saturating_sub(first), self.events, self.parts));
        }
        let newest = |count: u32, is: &dyn Fn(usize) -> bool| {
            (head..n).rev().filter(|&at| is(at)).nth(count as usize - 1).unwrap_or(head)
        };
        if self.said > 0 {
            let is_said =
                |at: usize| matches!(prompt.messages[at].who, Who::User | Who::Assistant | Who::Made);
            cuts.push(newest(self.said, &is_said));
        }
        if self.turns > 0 {
            cuts.push(newest(self.turns, &|at| prompt.is_user(at)));
        }
        let unseen = if self.unseen { prompt.tokens.saturating_sub(tokens(prompt, 0)) } else { 0 };
        let first = unseen + if self.with_start { self.start_tokens(prompt, start) } else { 0 };
        let budgets = [
            (self.tokens > 0).then_some(self.tokens),
            (self.share > 0.0).then(|| (self.share * prompt.window as f64) as u64),
            (self.prompt_share > 0.0).then(|| (self.prompt_share * tokens(prompt, head) as f64) as u64),
        ];
        let by_tokens = |budget: u64| self.by_tokens(prompt, budget.saturating_sub(first));
        cuts.extend(budgets.into_iter().flatten().map(by_tokens));
        let cut = cuts.into_iter().max().unwrap_or(n);
        cut.min(n.saturating_sub(self.at_least as usize)).max((head + self.goes as usize).min(n))
    }

    /// Tokens of what stays at the start. Of a reply of which only some calls are among the events there, those count.
    fn start_tokens(&self, prompt: &Prompt<'_>, start: usize) -> u64 {
        if !self.events || self.from_start == 0 {
            return tokens(prompt, 0) - tokens(prompt, start);
        }
        let (mut left, mut sum) = (self.from_start, 0);
        for (at, message) in prompt.messages.iter().enumerate() {
            let own = prompt.count(at, true);
            sum += message.tokens;
            if own > left {
                let steps = prompt.log.turns[message.turn as usize].steps.clone();
                let calls = steps.filter(|&step| prompt.log.kind(step) == Kind::Action);
                let later = calls.skip(left as usize).map(|step| prompt.counter.of_call(prompt.log, step));
                return sum.saturating_sub(if left == 0 { message.tokens } else { later.sum() });
            }
            left -= own;
            if left == 0 {
                break;
            }
        }
        sum
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

/// Tokens from a message on.
fn tokens(prompt: &Prompt<'_>, from: usize) -> u64 {
    prompt.messages[from..].iter().map(|message| message.tokens).sum()
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
            Align::NextUserOrNewest => {
                on(&|at| prompt.is_user(at)).or_else(|| match prompt.messages.last() {
                    Some(last) if last.who == Who::Assistant && !last.has_calls => Some(n),
                    _ => prompt.newest_user(),
                })
            }
            Align::PastResultsOrCall => {
                on(&|at| !prompt.is_result(at)).or_else(|| back(&|at| at < n && !prompt.is_result(at)))
            }
            Align::User => back(&|at| at < n && prompt.is_user(at)),
            Align::Assistant => back(&|at| who(at) == Some(Who::Assistant)),
            Align::Said => back(&|at| matches!(who(at), Some(Who::Assistant | Who::User))),
            Align::AfterAssistant => back(&|at| who(at - 1) == Some(Who::Assistant)),
            Align::NewestUser => {
                Some(prompt.newest_user().filter(|&user| user > head).map_or(cut, |user| cut.min(user)))
            }
            Align::LastUsers => back(&|at| !prompt.is_user(at - 1)),
            Align::Closed => back(&|at| at == n || !prompt.is_result(at)),
            Align::RunOfCalls if cut < n && prompt.is_of_tools(cut) => {
                back(&|at| !prompt.is_of_tools(at - 1))
            }
            Align::RunOfCalls => Some(cut),
            Align::NextUserOrCall => {
                let is_pair =
                    |at: usize| prompt.messages[at].has_calls && at + 1 < n && prompt.is_result(at + 1);
                on(&|at| prompt.is_user(at)).or_else(|| on(&is_pair))
            }
            Align::Newest => Some(cut.min(n.saturating_sub(1))),
            Align::LastStep => {
                Some((head..n).rev().find(|&at| !prompt.is_result(at)).map_or(cut, |step| cut.min(step)))
            }
        }
    }
}
