//! What of the prompt a stage of a policy compresses: one file a rule.
//!
//! A rule looks at the prompt as a list of messages ([`crate::context::messages`]) and names those that are compressed. It
//! knows nothing of what is made of them.

use std::collections::HashSet;

use crate::context::counter::Counter;
use crate::context::log::Log;
use crate::context::messages::{Message, Who};
use crate::params::Param;

mod drop_half;
mod prefix;
mod results;
mod share;
mod skip;
mod stale;
mod tail;
mod task;

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
    /// How the policy counts.
    pub counter: Counter,
    /// Steps that the stage had in a scope and that stand as they were.
    pub passed: &'a HashSet<u32>,
}

impl Prompt<'_> {
    /// Whether the user typed it.
    fn is_user(&self, at: usize) -> bool {
        self.messages[at].who == Who::User
    }

    fn is_result(&self, at: usize) -> bool {
        self.messages[at].who == Who::Tool
    }

    fn is_of_tools(&self, at: usize) -> bool {
        self.is_result(at) || self.messages[at].has_calls
    }

    /// Whether one of its calls, or that of a result, is of one of these tools; without any all are.
    fn is_of(&self, at: usize, tools: &[String]) -> bool {
        let message = &self.messages[at];
        let turn = &self.log.turns[message.turn as usize];
        let end = if message.who == Who::Tool { message.step + 1 } else { turn.steps.end };
        let mut steps = self.log.trajectory.steps[message.step as usize..end as usize].iter();
        tools.is_empty()
            || steps.any(|step| step.tool.as_deref().is_some_and(|tool| tools.iter().any(|of| of == tool)))
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
        self.newest_or_part(n, by_events, false)
    }

    /// The same; a reply of which some calls are among the events is, or it is not.
    fn newest_or_part(&self, n: u32, by_events: bool, parts: bool) -> usize {
        let mut left = n;
        for at in (0..self.messages.len()).rev() {
            let own = self.count(at, by_events);
            if own > left {
                return if parts && left > 0 { at } else { at + 1 };
            }
            left -= own;
        }
        0
    }

    /// Messages at the start between which nothing of the log is gone.
    fn n_together(&self) -> usize {
        let follows = |pair: &[Message]| {
            let end = pair[0].step + pair[0].blocks.len() as u32;
            pair[1].who != Who::Made && pair[1].step == end
        };
        1 + self.messages.windows(2).take_while(|pair| follows(pair)).count()
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

    /// Whether a scope may hold nothing but what events left.
    fn merges(&self) -> bool {
        false
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
pub static ALL: &[Entry] = &[
    drop_half::ENTRY,
    prefix::ENTRY,
    results::ENTRY,
    share::ENTRY,
    skip::ENTRY,
    stale::ENTRY,
    tail::ENTRY,
    task::ENTRY,
];

/// Builds the rule of this name.
pub fn build(name: &str, params: toml::Table) -> anyhow::Result<Box<dyn Rule>> {
    let Some(entry) = ALL.iter().find(|e| e.name == name) else {
        let known: Vec<&str> = ALL.iter().map(|e| e.name).collect();
        anyhow::bail!("unknown scope `{name}` (known: {})", known.join(", "));
    };
    (entry.build)(params)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::context::counter::{By, Per};
    use crate::context::messages::Messages;

    /// Which messages of a script a rule picks, where a character is a token and the system's words are the head.
    pub(super) fn picked(rule: (&str, &str), window: u64, script: &str) -> Vec<usize> {
        picked_beside(rule, window, script, 0)
    }

    /// The same, where the prompt has so many tokens more than the messages.
    fn picked_beside((name, params): (&str, &str), window: u64, script: &str, unseen: u64) -> Vec<usize> {
        let log = Log::script(script);
        let (mut context, mut messages) = (
            Context::new(false),
            Messages::new(Counter { by: By::Chars, per: Per(1.0), ..Counter::default() }, false, false),
        );
        for step in 0..log.trajectory.steps.len() as u32 {
            context.push_step(&log, step);
            context.n_head += usize::from(log.kind(step) == crate::trajectory::Kind::System);
            messages.append(&log, &context);
        }
        let rule = build(name, toml::from_str(params).unwrap()).unwrap();
        let (list, n_head, tokens) = (&messages.list, messages.n_head(), messages.tokens() + unseen);
        let counter = messages.counter();
        let passed = &HashSet::new();
        rule.pick(&Prompt { log: &log, messages: list, n_head, tokens, window, counter, passed })
    }

    /// Messages 0 to 8, of 10 tokens each.
    const NINE: &str = "system: ----------
        user: ----------
        action: ----------
        observation: ----------
        action: ----------
        observation: ----------
        user: ----------
        action: ----------
        observation: ----------";

    #[test]
    fn a_prefix_is_long_enough_and_leaves_few_enough() {
        let prefix = |params: &str| picked(("prefix", params), 0, NINE);
        // Two messages have 20 tokens, and the second of them is a call whose result goes, too.
        assert_eq!(prefix("tokens = 20"), [1, 2, 3]);
        assert_eq!(prefix("tokens = 20\nto_user = true"), [1, 2, 3, 4, 5]);
        // Of 90 tokens 40 may be left: the fifth message is the first after which that is so.
        assert_eq!(prefix("tokens = 20\nrest = 40"), [1, 2, 3, 4, 5]);
        assert_eq!(prefix("tokens = 85"), [0; 0]);
        // Behind the call its result goes, too, and behind a result none that follows it.
        let two = NINE.replace("action: ----------\n        observation", "observation");
        let prefix = |params: &str| picked(("prefix", params), 0, &two);
        assert_eq!([prefix("tokens = 20"), prefix("tokens = 20\nparts = true")], [vec![1, 2, 3], vec![1, 2]]);
    }

    #[test]
    fn turns_before_the_task_go_before_its_steps() {
        let script = format!("{NINE}\naction: ----------\nobservation: ----------");
        let task = |params: &str, window: u64| picked(("task", params), window, &script);
        // Of 110 tokens 60 are left without the turn before, which is enough.
        assert_eq!(task("until = 1.0", 60), [1, 2, 3, 4, 5]);
        assert_eq!(task("until = 1.0", 59), [1, 2, 3, 4, 5, 7, 8]);
        // Steps wait where each event makes a summary, and the newest stays in any case.
        assert_eq!(task("until = 1.0\nturns_first = true", 20), [1, 2, 3, 4, 5]);
        assert_eq!(task("until = 1.0\nkeep_steps = 2", 20), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_cut_is_moved_to_a_safe_place() {
        let tail = |params: &str| picked(("tail", params), 0, NINE);
        let none: [usize; 0] = [];
        assert_eq!(tail("messages = 5\nalign = [\"run-of-calls\"]"), [1]);
        assert_eq!(tail("messages = 1\nuser_within = 1\nalign = [\"run-of-calls\"]"), [1, 2, 3, 4, 5, 6]);
        assert_eq!(tail("messages = 1\nuser_within = 2"), [1, 2, 3, 4, 5]);
        assert_eq!(tail("messages = 7\nalign = [\"next-user-or-call\"]"), [1, 2, 3, 4, 5]);
        assert_eq!(tail("messages = 2\nalign = [\"next-user-or-call\"]"), [1, 2, 3, 4, 5, 6]);
        assert_eq!(tail("messages = 1\nalign = [\"next-user-or-call\"]"), none);
        assert_eq!(tail("messages = 1\nalign = [\"last-step\"]"), [1, 2, 3, 4, 5, 6]);
        assert_eq!(tail("turns = 0\nalign = [\"newest\"]"), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(tail("first = 2\ndrop_call = true\nmessages = 3"), [2, 3, 4, 5]);
        // With the head counted seven messages stay, and two go at least.
        assert_eq!(tail("messages = 8\nwith_start = true"), [1]);
        assert_eq!(tail("messages = 8\ngoes = 2"), [1, 2]);
    }

    /// Of a window of 100 tokens 90 are the messages'. With 25 that no message has 75 are left: the head and six others.
    #[test]
    fn what_the_log_lacks_takes_its_part_of_the_window() {
        let tail = |params: &str| picked_beside(("tail", params), 100, NINE, 25);
        assert_eq!(tail("share = 1.0\nwith_start = true"), [0; 0]);
        assert_eq!(tail("share = 1.0\nwith_start = true\nunseen = true"), [1, 2]);
    }

    #[test]
    fn calls_and_results_are_taken_together_or_apart() {
        let results = |params: &str| picked(("results", params), 100, NINE);
        assert_eq!(results("keep_messages = 2"), [3, 5]);
        assert_eq!(results("of = \"pairs\"\nkeep_messages = 2"), [2, 3, 4, 5]);
        assert_eq!(results("of = \"calls\"\nkeep_tokens = 20"), [2, 4]);
        assert_eq!(results("of = \"calls\"\nkeep_tokens = 9"), [0; 0]);
        assert_eq!(results("of = \"pairs\"\nkeep_calls = 2"), [2, 3]);
        // From 90 tokens to 80: the first result leaves 4 of its 10 there, so two are cleared.
        assert_eq!(results("until = 0.8\ninstead = 4"), [3, 5]);
        assert_eq!(results("oldest = 1"), [3]);
    }
}
