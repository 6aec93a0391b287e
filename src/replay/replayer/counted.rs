//! The context as a policy counts it: its messages, and what the provider says of a prompt and of a call.

use super::Replayer;
use crate::context::counter::Counter;
use crate::context::messages::{LastCall, Messages};
use crate::replay::recipe::{Frame, Head, Recipe};

pub(super) fn new_messages(recipe: &Recipe) -> Messages {
    let Some(frame) = recipe.frame else { return Messages::new(Counter::default(), true, false) };
    messages_by(frame.counter, &frame)
}

pub(super) fn new_lengths(recipe: &Recipe) -> Option<Messages> {
    let frame = recipe.frame?;
    Some(messages_by(frame.lengths?, &frame))
}

fn messages_by(counter: Counter, frame: &Frame) -> Messages {
    let mut messages = Messages::new(counter, frame.head == Head::Task, frame.joins_results);
    messages.made_by = frame.made_by;
    messages.drops_system = frame.head == Head::None;
    messages
}

impl Replayer<'_> {
    /// Tokens of the prompt at a decision, as the policy counts: by the provider where its count is known, else by its own. A
    /// variant of the grid goes by the fit alone.
    pub(super) fn counted(&self, turn: u32) -> u64 {
        match (&self.messages, self.recipe.frame) {
            (Some(messages), Some(_)) if !messages.by_usage() => messages.tokens(),
            _ => {
                let counted = match self.goes_by_usage() {
                    true => self.provider.count(self.log, turn, self.context.tokens),
                    false => self.log.rate(turn).map(|rate| rate.billed(self.context.tokens) as u64),
                };
                counted.unwrap_or(self.context.tokens)
            }
        }
    }

    /// Whether it is a policy that goes by what the provider counted.
    pub(super) fn goes_by_usage(&self) -> bool {
        self.messages.as_ref().is_some_and(Messages::by_usage) && self.is_policy()
    }

    /// Whether it is a policy whose prompts the provider's count can tell of. In a bridged log that is of others.
    pub(super) fn is_policy(&self) -> bool {
        self.recipe.frame.is_some() && !self.recipe.bridges()
    }

    /// Tells the messages what the provider would count of all that was logged.
    pub(super) fn count_full(&mut self, turn: u32) {
        let full = self.goes_by_usage().then(|| self.provider.count_full(self.log, turn)).flatten();
        if let Some(messages) = &mut self.messages {
            messages.counted_full = full;
        }
    }

    /// What went before a decision is off what the last call had, too.
    pub(super) fn see_gone(&mut self, turn: u32, tokens_before: u64) {
        let gone = tokens_before as f64 - self.context.tokens as f64;
        let gone = (self.provider.factor(self.log, turn) * gone).max(0.0) as u64;
        if let Some(call) = self.messages.as_mut().and_then(|messages| messages.last_call.as_mut()) {
            call.prompt = call.prompt.saturating_sub(gone);
        }
    }

    /// Tells the messages what the provider counted of the call that was made.
    pub(super) fn see_call(&mut self, turn: u32) {
        let log = self.log;
        let usage = log.usage(turn).filter(|usage| usage.input > 0 && self.goes_by_usage());
        let steps = || {
            log.turns[turn as usize].steps.clone().filter(|&s| log.trajectory.steps[s as usize].is_agent())
        };
        let said = || steps().map(|step| u64::from(log.tokens[step as usize])).sum::<u64>();
        let call = usage.zip(log.rate(turn)).map(|(usage, rate)| LastCall {
            prompt: self.counted(turn),
            reply: usage.output.unwrap_or_else(|| rate.counted(said()) as u64),
        });
        if let Some(messages) = &mut self.messages {
            messages.last_call = call;
        }
    }
}
