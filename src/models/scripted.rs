//! A model that answers from a script, for tests of what asks models: from a rule or from a list.
//!
//! A call that the script does not know is an error that holds the call, never a made-up answer.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::{Call, CallError, Card, Model, Outcome};

/// A model with prepared answers.
pub struct Scripted {
    card: Card,
    script: Mutex<Script>,
    asked: Mutex<Vec<Call>>,
}

enum Script {
    Listed(VecDeque<Outcome>),
    Rule(Rule),
}

type Rule = Box<dyn Fn(&Call) -> Option<Outcome> + Send>;

impl Scripted {
    /// Answers by a rule; None is an unexpected call.
    pub fn rule(card: Card, rule: impl Fn(&Call) -> Option<Outcome> + Send + 'static) -> Self {
        Self::new(card, Script::Rule(Box::new(rule)))
    }

    /// Answers in this order, whatever is asked. For a single thread: with more, who gets which is chance.
    pub fn list(card: Card, outcomes: impl IntoIterator<Item = Outcome>) -> Self {
        Self::new(card, Script::Listed(outcomes.into_iter().collect()))
    }

    fn new(card: Card, script: Script) -> Self {
        Self { card, script: Mutex::new(script), asked: Mutex::default() }
    }

    /// All calls so far, expected or not, in the order in which they came.
    pub fn asked(&self) -> Vec<Call> {
        locked(&self.asked).clone()
    }
}

impl Model for Scripted {
    fn card(&self) -> &Card {
        &self.card
    }

    fn answer(&self, calls: &[Call]) -> Vec<Outcome> {
        locked(&self.asked).extend_from_slice(calls);
        let mut script = locked(&self.script);
        let mut answer = |call: &Call| match &mut *script {
            Script::Listed(outcomes) => outcomes.pop_front(),
            Script::Rule(rule) => rule(call),
        };
        calls.iter().map(|call| answer(call).unwrap_or_else(|| Err(unexpected(call)))).collect()
    }
}

fn unexpected(call: &Call) -> CallError {
    CallError::Failed(format!("the script has no answer to this call: {call:?}"))
}

/// The lists are whole between any two operations, so a panic elsewhere (in a test's rule) spoils nothing.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Answer;

    fn card() -> Card {
        Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 100 }
    }

    fn tokenize(text: &str) -> Call {
        Call::Tokenize { text: text.to_owned() }
    }

    #[test]
    fn a_rule_answers_and_the_unexpected_is_told() {
        let model = Scripted::rule(card(), |call| match call {
            Call::Tokenize { text } if text == "known" => Some(Ok(Answer::Tokens(vec![7]))),
            _ => None,
        });
        let calls = [tokenize("known"), tokenize("what is this")];
        let outcomes = model.answer(&calls);
        assert_eq!(outcomes[0], Ok(Answer::Tokens(vec![7])));
        assert!(outcomes[1].clone().unwrap_err().to_string().contains("what is this"));
        assert_eq!(model.asked(), calls);
    }

    #[test]
    fn a_list_answers_in_order_and_ends() {
        let model =
            Scripted::list(card(), [Ok(Answer::Tokens(vec![1])), Err(CallError::Failed("no".to_owned()))]);
        assert_eq!(model.answer(&[tokenize("a")]), [Ok(Answer::Tokens(vec![1]))]);
        assert_eq!(model.answer(&[tokenize("a")]), [Err(CallError::Failed("no".to_owned()))]);
        assert!(model.answer(&[tokenize("a")])[0].clone().unwrap_err().to_string().contains("no answer"));
    }
}
