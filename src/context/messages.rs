//! The prompt as a list of messages, as a provider's API has it: what limits and scopes count.
//!
//! Words and calls of one reply are one message, each result is one, and so is each text that an event put there. It is kept
//! up as the prompt grows: an event costs what stands from its first change on.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::counter::{By, Counter};
use super::log::Log;
use super::{Block, Content, Context};
use crate::trajectory::{Kind, Role};

/// Who a message is by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    System,
    User,
    Assistant,
    Tool,
    /// An event put it there.
    Made,
}

impl Who {
    /// As prompts have it; what an event put there is said by `made`.
    fn name(self, made: Speaker) -> &'static str {
        match self {
            Who::Made => made.name(),
            Who::System => "system",
            Who::User => "user",
            Who::Assistant => "assistant",
            Who::Tool => "tool",
        }
    }
}

/// One message of the prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub blocks: Range<usize>,
    pub who: Who,
    /// The first step of it; of what an event made, that of the block before it.
    pub step: u32,
    pub turn: u32,
    /// In tokens, as the policy counts.
    pub tokens: u64,
    /// Tokens that events took of it: it stands, and is shorter than it was logged.
    pub freed: u64,
    units: u64,
    pub has_calls: bool,
    /// Its calls, or one: what it counts for products that keep each call as an event.
    pub events: u32,
    /// Whether it stands as it was logged.
    pub is_whole: bool,
    /// Whether no event may touch it.
    pub is_pinned: bool,
}

/// Who says what an event put there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speaker {
    #[default]
    User,
    Assistant,
    System,
}

impl Speaker {
    pub fn name(self) -> &'static str {
        match self {
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
            Speaker::System => "system",
        }
    }
}

/// What the provider said of the last call, less what went since.
#[derive(Clone, Copy, Debug)]
pub struct LastCall {
    pub prompt: u64,
    pub reply: u64,
}

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    pub list: Vec<Message>,
    /// For policies that go by the provider, where the log has what it said.
    pub last_call: Option<LastCall>,
    /// What it would count of all that was logged.
    pub counted_full: Option<u64>,
    counter: Counter,
    /// Whether the task stands in every prompt, as system messages do.
    pins_task: bool,
    /// Whether what the system says may go, and the tools alone stand in every prompt.
    pub drops_system: bool,
    /// Whether the results of one reply are one message.
    joins_results: bool,
    /// Who says what events put there.
    pub made_by: Speaker,
    /// Tokens of all that was logged, as if no event had been.
    logged: u64,
    tokens: u64,
    units: u64,
    /// Tokens of what events put there.
    made: u64,
    n_head: usize,
}

impl Messages {
    pub fn new(counter: Counter, pins_task: bool, joins_results: bool) -> Self {
        Messages { counter, pins_task, joins_results, ..Messages::default() }
    }

    /// Tokens of all that was logged until now, as the policy counts.
    pub fn logged(&self) -> u64 {
        self.logged
    }

    /// Tokens that events took of what they rewrote.
    pub fn freed(&self) -> u64 {
        self.list.iter().map(|message| message.freed).sum()
    }

    /// Tokens of the texts that events put there, as the policy counts.
    pub fn made_tokens(&self) -> u64 {
        self.made
    }

    /// Tokens of the messages at the start that no stage touches.
    pub fn head_tokens(&self) -> u64 {
        self.list[..self.n_head].iter().map(|message| message.tokens).sum()
    }

    /// Reads the last block of the context, a step that was logged just now.
    pub fn append(&mut self, log: &Log, context: &Context) {
        let before = self.tokens();
        self.read(log, context, context.blocks.len() - 1);
        self.logged += self.tokens() - before;
    }

    /// Messages at the start that no stage touches.
    pub fn n_head(&self) -> usize {
        self.n_head
    }

    /// Tokens of the whole prompt, as the policy counts, where the provider does not.
    pub fn tokens(&self) -> u64 {
        match self.counter.whole {
            true => self.counter.tokens(self.units) + u64::from(self.counter.each) * self.list.len() as u64,
            false => self.tokens,
        }
    }

    /// How tokens are counted.
    pub fn counter(&self) -> Counter {
        self.counter
    }

    /// How many messages have one of these blocks, which are in order.
    pub fn among(&self, blocks: &[usize]) -> usize {
        let (Some(&first), Some(&last)) = (blocks.first(), blocks.last()) else { return 0 };
        let from = self.list.partition_point(|message| message.blocks.end <= first);
        let news = self.list[from..].iter().take_while(|message| message.blocks.start <= last);
        news.filter(|message| {
            let next = blocks.get(blocks.partition_point(|&block| block < message.blocks.start));
            next.is_some_and(|&block| block < message.blocks.end)
        })
        .count()
    }

    /// Whether the provider's count is taken where it is known.
    pub fn by_usage(&self) -> bool {
        self.counter.by == By::Usage
    }

    /// Reads the context from a block on, which begins a message or goes on with one.
    pub fn read(&mut self, log: &Log, context: &Context, from: usize) {
        while let Some(last) = self.list.last()
            && last.blocks.end > from
        {
            self.units -= last.units;
            self.tokens -= last.tokens;
            self.made -= if last.who == Who::Made { last.tokens } else { 0 };
            self.list.pop();
        }
        let start = self.list.last().map_or(0, |last| last.blocks.end);
        for at in start..context.blocks.len() {
            self.push(log, at, &context.blocks[at]);
        }
        self.n_head = self.list.partition_point(|message| message.blocks.end <= context.n_head);
    }

    fn push(&mut self, log: &Log, at: usize, block: &Block) {
        let step = block.message();
        let who = step.map_or(Who::Made, |step| who(log, step, self.pins_task));
        let units = self.counter.of_part(log, block);
        let calls = step.is_some_and(|step| log.kind(step) == Kind::Action);
        let is_whole = matches!(block.content, Content::Step(_));
        let is_tools = |step: u32| log.kind(step) == Kind::Tools;
        let is_pinned = who == Who::System && (!self.drops_system || step.is_some_and(is_tools))
            || self.pins_task && step.is_some_and(|step| log.is_pinned(step));
        let is_one = who == Who::Assistant || self.joins_results && who == Who::Tool;
        // The tools are no message: they stand with what the system says.
        let joins = |last: &Message| {
            who == Who::System
                && !self.drops_system
                && (step.is_some_and(is_tools) || last.blocks.len() == 1 && is_tools(last.step))
        };
        match self.list.last_mut() {
            Some(last) if last.who == who && last.turn == block.turn && (is_one || joins(last)) => {
                last.blocks.end = at + 1;
                last.freed += self.counter.freed(log, block);
                self.tokens -= last.tokens;
                self.units -= last.units;
                last.units += units;
                // Results are counted one by one, though they are one message.
                last.tokens = match who {
                    Who::Tool => last.tokens + self.counter.tokens(units),
                    _ => self.counter.tokens(last.units) + u64::from(self.counter.each),
                };
                last.events += u32::from(last.has_calls && calls);
                last.has_calls |= calls;
                last.is_whole &= is_whole;
                last.is_pinned |= is_pinned;
            }
            _ => {
                let units = units + self.counter.around_message(who.name(self.made_by));
                let before = self.list.last().map_or(0, |last| last.step);
                let tokens = self.counter.tokens(units) + u64::from(self.counter.each);
                // Two of them are never one message.
                self.made += if who == Who::Made { tokens } else { 0 };
                self.list.push(Message {
                    blocks: at..at + 1,
                    who,
                    step: step.unwrap_or(before),
                    turn: block.turn,
                    tokens,
                    freed: self.counter.freed(log, block),
                    units,
                    has_calls: calls,
                    events: 1,
                    is_whole,
                    is_pinned,
                });
            }
        }
        self.units += self.list.last().map_or(0, |last| last.units);
        self.tokens += self.list.last().map_or(0, |last| last.tokens);
    }
}

/// Where the task may go, a summary that was logged may, too, as one of the policy's own.
fn who(log: &Log, step: u32, pins_task: bool) -> Who {
    match (log.kind(step), log.trajectory.steps[step as usize].role) {
        (Kind::Compaction, _) if !pins_task => Who::Made,
        (Kind::System | Kind::Tools | Kind::Demonstration | Kind::Compaction, _) | (_, Role::System) => {
            Who::System
        }
        (Kind::Observation, _) | (_, Role::Tool) => Who::Tool,
        (_, Role::Agent) => Who::Assistant,
        (_, Role::User) => Who::User,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::counter::{Around, Per};

    #[test]
    fn a_text_counts_as_json_has_it() {
        let around = Around { message: 100, text: 10, call: 20, result: 30, ..Around::default() };
        let counter = Counter { by: By::Json, per: Per(1.0), around, ..Counter::default() };
        let log = Log::script("user: say \"a\"\nagent: no~no\naction: ls\nobservation: x");
        let mut context = Context::new(false);
        let mut messages = Messages::new(counter, false, false);
        for step in 0..log.trajectory.steps.len() as u32 {
            context.push_step(&log, step);
        }
        messages.read(&log, &context, 0);
        let tokens: Vec<u64> = messages.list.iter().map(|message| message.tokens).collect();
        // Quotes and ends of lines are two characters.
        assert_eq!(tokens, [100 + 10 + 9, 100 + 10 + 6, 100 + 20 + 2, 100 + 30 + 1]);
        assert_eq!(messages.tokens(), tokens.iter().sum::<u64>());
    }

    #[test]
    fn the_tools_are_no_message() {
        let log = Log::script("tools: a\nsystem: a\nsystem: a\ntools: a\nuser: a");
        let (mut context, mut messages) =
            (Context::new(false), Messages::new(Counter::default(), false, false));
        (0..5).for_each(|step| context.push_step(&log, step));
        messages.read(&log, &context, 0);
        let blocks: Vec<_> = messages.list.iter().map(|message| message.blocks.clone()).collect();
        assert_eq!(blocks, [0..2, 2..4, 4..5]);
    }

    #[test]
    fn results_of_one_message_are_counted_one_by_one() {
        let log = Log::script("user: a\naction#a: b\nalso#b: b\nobservation#a: c\nobservation#b: c");
        let tokens = |joins: bool| {
            let mut context = Context::new(false);
            let counter = Counter { by: By::Chars, each: 3, ..Counter::default() };
            let mut messages = Messages::new(counter, false, joins);
            (0..5).for_each(|step| context.push_step(&log, step));
            messages.read(&log, &context, 0);
            messages.list.iter().map(|message| message.tokens).collect::<Vec<u64>>()
        };
        // A character is a token, rounded up; the calls are rounded together, and the results apart.
        assert_eq!((tokens(false), tokens(true)), (vec![4, 4, 4, 4], vec![4, 4, 5]));
    }
}
