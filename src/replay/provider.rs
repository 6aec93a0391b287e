//! What the provider counts of a prompt: of the logged one what it said, of what differs from that an estimate.
//!
//! The fit of a session (usage = a + b x ours, [`crate::trajectory::usage`]) is off by a fifth and more at single calls, so that it
//! is taken only for what a replay, or an edit that the log records, took away, and where a call has no usage.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::context::log::Log;
use crate::text::tokens::Tokenizer;

/// Follows the prompt of a segment as the log says it was sent.
#[derive(Default)]
pub(super) struct Provider {
    /// Tokens of all that was logged, by our tokenizer.
    full: u64,
    /// What the edits of the log made of them, more or less.
    edited: i64,
    /// Turns from whose decision on the prompt has so many tokens more.
    edits: BinaryHeap<Reverse<(u32, i64)>>,
}

impl Provider {
    pub fn append(&mut self, log: &Log, tokenizer: &Tokenizer, step: u32) {
        let tokens = log.tokens[step as usize];
        self.full += u64::from(tokens);
        if let Some(edit) = &log.trajectory.steps[step as usize].edit {
            let sent = if edit.text.is_empty() { 0 } else { tokenizer.count(&edit.text) };
            self.edits.push(Reverse((edit.from, i64::from(sent) - i64::from(tokens))));
        }
    }

    /// Comes to the decision of a turn.
    pub fn decide(&mut self, turn: u32) {
        while let Some(Reverse((_, change))) = self.edits.peek().filter(|edit| edit.0.0 <= turn) {
            self.edited += change;
            self.edits.pop();
        }
    }

    /// Tokens of the prompt of a turn, of which so many are ours; none where nothing is known of the provider.
    pub fn count(&self, log: &Log, turn: u32, ours: u64) -> Option<u64> {
        let rate = log.rate(turn)?;
        let counted = match usage(log, turn) {
            Some(usage) => usage as f64 + self.factor(log, turn) * (ours as f64 - self.sent() as f64),
            None => rate.billed(ours),
        };
        Some(counted.max(0.0) as u64)
    }

    /// The same of all that was logged.
    pub fn count_full(&self, log: &Log, turn: u32) -> Option<u64> {
        self.count(log, turn, self.full)
    }

    /// What one of our tokens counts. What is not shown never has less than nothing.
    pub fn factor(&self, log: &Log, turn: u32) -> f64 {
        let factor = log.rate(turn).map_or(1.0, |rate| rate.factor);
        usage(log, turn).map_or(factor, |usage| factor.min(usage as f64 / self.sent().max(1) as f64))
    }

    fn sent(&self) -> u64 {
        self.full.saturating_add_signed(self.edited)
    }
}

fn usage(log: &Log, turn: u32) -> Option<u64> {
    log.usage(turn).map(|usage| usage.input).filter(|&input| input > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::Policy;
    use crate::replay::{Observer, Run, replay};
    use crate::trajectory::usage::Rate;
    use crate::trajectory::{LoggedEdit, Usage};

    /// Five calls, with what the provider said of each; the fit says 100 + 2 x ours.
    fn log(usages: [u64; 5]) -> Log {
        let mut script = String::from("user: go");
        for i in 0..5 {
            script.push_str(&format!("\naction: cat {i}\nobservation: alpha beta gamma delta epsilon {i}"));
        }
        let mut log = Log::script(&script);
        for (call, input) in usages.into_iter().enumerate().filter(|(_, input)| *input > 0) {
            let usage = Usage { input, output: Some(50), ..Usage::default() };
            log.trajectory.steps[1 + 2 * call].usage = Some(Box::new(usage));
        }
        log.rates = vec![Rate { turns: 1..6, unseen: 100, factor: 2.0 }];
        log
    }

    /// Turns at which a policy of one stage fires, and what was sent there before.
    fn fired(log: &Log, trigger: &str) -> Vec<(u32, u64)> {
        run(log, trigger).events.iter().map(|event| (event.turn, event.tokens_before)).collect()
    }

    fn run(log: &Log, trigger: &str) -> Run {
        struct Nobody;
        impl Observer for Nobody {}
        let policy: Policy = toml::from_str(&format!(
            "counter = {{ by = \"usage\" }}\n[[stages]]\ntrigger = {{ name = \"limits\", {trigger} }}\n\
             scope = {{ name = \"tail\", messages = 2 }}\nstrategy = {{ name = \"omit\" }}"
        ))
        .unwrap();
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let recipe = policy.recipe(1, None).unwrap();
        replay(log, &recipe, &tokenizer, &crate::context::needs::Needs::default(), &mut Nobody).unwrap()
    }

    /// Of a packed prompt the fit says too much or too little.
    #[test]
    fn a_decision_has_what_the_provider_would_count() {
        let billed = |trigger: &str| -> Vec<u64> {
            run(&log([1000, 2000, 5000, 3000, 3100]), trigger)
                .decisions
                .iter()
                .map(|d| d.billed.unwrap())
                .collect()
        };
        assert_eq!(billed("tokens = 9000"), [1000, 2000, 5000, 3000, 3100]);
        let cut = billed("tokens = 5000");
        assert!(cut[..2] == [1000, 2000] && cut[2] < 5000, "{cut:?}");
    }

    #[test]
    fn an_untouched_prompt_has_what_was_logged() {
        // By the fit no prompt comes near.
        let log = log([1000, 2000, 5000, 3000, 3100]);
        assert_eq!(fired(&log, "tokens = 5001"), []);
        assert_eq!(fired(&log, "tokens = 5000").iter().map(|(turn, _)| *turn).collect::<Vec<_>>(), [3]);
        // What the log does not say of a call the fit says.
        let silent = super::tests::log([1000, 2000, 0, 2400, 2500]);
        assert_eq!(fired(&silent, "tokens = 2401").iter().map(|(turn, _)| *turn).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn what_went_is_taken_off_by_the_factor() {
        let log = log([1000, 2000, 5000, 5000, 5000]);
        let gone = u64::from(log.tokens[1] + log.tokens[2]);
        // The third call loses the first pair, so that the fourth is so much shorter than it was; it loses the second, and the
        // fifth is shorter by both.
        let at = |tokens: u64| {
            fired(&log, &format!("tokens = {tokens}")).iter().map(|(turn, _)| *turn).collect::<Vec<_>>()
        };
        assert_eq!(at(5000), [3]);
        assert_eq!(at(5000 - 2 * gone + 1), [3]);
        assert_eq!(at(5000 - 2 * gone), [3, 4]);
    }

    #[test]
    fn what_the_last_call_had_is_as_it_said() {
        let log = log([1000, 2000, 5000, 5000, 5000]);
        let at = |trigger: &str| fired(&log, trigger).first().map(|(turn, _)| *turn);
        assert_eq!(at("tokens = 2000, counts = \"prompt\""), Some(3));
        assert_eq!(at("tokens = 2001, counts = \"prompt\""), Some(4));
        assert_eq!(at("tokens = 2050, counts = \"reply\""), Some(3));
        assert_eq!(at("tokens = 2051, counts = \"reply\""), Some(4));
    }

    #[test]
    fn an_edit_of_the_log_is_put_back() {
        let mut log = log([1000, 2000, 3000, 3000, 3000]);
        let tokens = u64::from(log.tokens[2]);
        log.trajectory.steps[2].edit = Some(Box::new(LoggedEdit { from: 4, text: String::new() }));
        let at = |limit: u64| fired(&log, &format!("tokens = {limit}")).first().map(|(turn, _)| *turn);
        assert_eq!(at(3000), Some(3));
        // From the fourth on the log sent the result no more; a replay still has it.
        assert_eq!(at(3000 + 2 * tokens), Some(4));
        assert_eq!(at(3001 + 2 * tokens), None);
    }

    #[test]
    fn nothing_unseen_is_less_than_nothing() {
        let mut provider = Provider { full: 1000, ..Provider::default() };
        let log = log([500, 0, 0, 0, 0]);
        provider.decide(1);
        // Of 1,000 tokens the provider counted 500: half of them are 250.
        assert_eq!(provider.count(&log, 1, 500), Some(250));
        assert_eq!(provider.count(&log, 2, 500), Some(1100));
    }
}
