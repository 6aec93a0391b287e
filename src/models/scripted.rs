//! A model that answers from a script, for tests of what asks models: from a rule, from a list, or from what a
//! real model once said.
//!
//! [`Recorder`] writes down what a model answers; [`Scripted::load`] replays it. A call that the script does not
//! know is an error that holds the call, never a made-up answer.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::{Call, CallError, Card, Model, Outcome};

/// A model with prepared answers.
pub struct Scripted {
    card: Card,
    script: Mutex<Script>,
    asked: Mutex<Vec<Call>>,
}

enum Script {
    /// By the call's JSON.
    Recorded(HashMap<String, Outcome>),
    Listed(VecDeque<Outcome>),
    Rule(Rule),
}

type Rule = Box<dyn Fn(&Call) -> Option<Outcome> + Send>;

/// A file of recorded answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recording {
    card: Card,
    answers: Vec<Entry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    call: Call,
    outcome: Outcome,
}

impl Scripted {
    /// Answers by a rule; None is an unexpected call.
    pub fn rule(card: Card, rule: impl Fn(&Call) -> Option<Outcome> + Send + 'static) -> Self {
        Self::new(card, Script::Rule(Box::new(rule)))
    }

    /// Answers in this order, whatever is asked. For a single thread: with more, who gets which is chance.
    pub fn list(card: Card, outcomes: impl IntoIterator<Item = Outcome>) -> Self {
        Self::new(card, Script::Listed(outcomes.into_iter().collect()))
    }

    /// Answers these calls with these outcomes, each as often as it is asked. The last of equal calls counts.
    pub fn recorded(card: Card, answers: impl IntoIterator<Item = (Call, Outcome)>) -> Self {
        Self::new(card, Script::Recorded(answers.into_iter().map(|(call, o)| (key(&call), o)).collect()))
    }

    /// Answers from a file that [`Recorder::save`] wrote, under the recorded model's card. Log-likelihoods come back
    /// to within the last digit, all else exactly.
    pub fn load(path: &Path) -> io::Result<Self> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let text = fs::read_to_string(path).map_err(named)?;
        let recording: Recording = serde_json::from_str(&text).map_err(|e| named(e.into()))?;
        Ok(Self::recorded(recording.card, recording.answers.into_iter().map(|e| (e.call, e.outcome))))
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
            Script::Recorded(answers) => answers.get(&key(call)).cloned(),
            Script::Listed(outcomes) => outcomes.pop_front(),
            Script::Rule(rule) => rule(call),
        };
        calls.iter().map(|call| answer(call).unwrap_or_else(|| Err(unexpected(call)))).collect()
    }
}

fn unexpected(call: &Call) -> CallError {
    CallError::Failed(format!("the script has no answer to this call: {}", pretty(call)))
}

/// A model that passes every call on and writes down what it was answered.
pub struct Recorder<M> {
    model: M,
    entries: Mutex<Vec<Entry>>,
}

impl<M: Model> Recorder<M> {
    /// Records what `model` answers.
    pub fn new(model: M) -> Self {
        Self { model, entries: Mutex::default() }
    }

    /// Writes the card and every call with its last outcome, as JSON for human eyes. Sorted by call, so that the same
    /// calls give the same file whatever the threads.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let entries = locked(&self.entries).clone();
        let by_call: std::collections::BTreeMap<String, Entry> =
            entries.into_iter().map(|entry| (key(&entry.call), entry)).collect();
        let recording =
            Recording { card: self.model.card().clone(), answers: by_call.into_values().collect() };
        fs::write(path, pretty(&recording) + "\n")
    }
}

impl<M: Model> Model for Recorder<M> {
    fn card(&self) -> &Card {
        self.model.card()
    }

    fn answer(&self, calls: &[Call]) -> Vec<Outcome> {
        let outcomes = self.model.answer(calls);
        let entries = calls.iter().zip(&outcomes);
        let entries = entries.map(|(call, outcome)| Entry { call: call.clone(), outcome: outcome.clone() });
        locked(&self.entries).extend(entries);
        outcomes
    }
}

fn key(call: &Call) -> String {
    serde_json::to_string(call).expect("a call is plain data")
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("a recording is plain data")
}

/// The lists are whole between any two operations, so a panic elsewhere (in a test's rule) spoils nothing.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{Answer, Finish, Part, Prompt, Sampling, Scores, Text, TokenScore};

    fn card() -> Card {
        Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 100 }
    }

    fn tokenize(text: &str) -> Call {
        Call::Tokenize { text: text.to_owned() }
    }

    /// One call of each kind, and outcomes of each kind.
    fn all_kinds() -> Vec<(Call, Outcome)> {
        let part = Part { text: "a\n\"b\" \u{0}<|im_end|>é".to_owned(), may_cut: true, scored: true };
        let prompt =
            Prompt { chat: true, system: "s".to_owned(), parts: vec![part], prefill: "p".to_owned() };
        let text =
            Text { text: "t".to_owned(), finish: Finish::Loop, prompt_tokens: 3, tokens: 2, cut_tokens: 1 };
        let score = TokenScore { end: 1, logprob: -0.5 };
        vec![
            (
                Call::Generate {
                    prompt: prompt.clone(),
                    max_tokens: 9,
                    grammar: Some("root ::= \"x\"".to_owned()),
                    stop: vec!["\n".to_owned()],
                    sampling: Some(Sampling { temperature: 0.7, top_p: 0.9, seed: 1 }),
                },
                Ok(Answer::Text(text)),
            ),
            (
                Call::Score { prompt, continuations: vec!["c".to_owned()] },
                Ok(Answer::Scores(Scores {
                    parts: vec![vec![score]],
                    continuations: vec![vec![score, score]],
                    prompt_tokens: 4,
                    cut_tokens: 0,
                })),
            ),
            (
                Call::Embed { text: "e".to_owned() },
                Ok(Answer::Vector { values: vec![0.6, 0.8], cut_tokens: 0 }),
            ),
            (tokenize("t"), Ok(Answer::Tokens(vec![1, 2]))),
            (tokenize("u"), Err(CallError::TooLong { tokens: 5, window: 4 })),
        ]
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

    #[test]
    fn what_was_recorded_is_replayed() {
        let (calls, outcomes): (Vec<Call>, Vec<Outcome>) = all_kinds().into_iter().unzip();
        let recorder = Recorder::new(Scripted::list(card(), outcomes.clone()));
        assert_eq!(recorder.answer(&calls), outcomes);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answers.json");
        recorder.save(&path).unwrap();
        let replay = Scripted::load(&path).unwrap();
        assert_eq!(replay.card(), &card());
        // In any order, as often as wanted.
        for _ in 0..2 {
            for (call, outcome) in all_kinds().into_iter().rev() {
                assert_eq!(replay.answer(&[call]), [outcome]);
            }
        }
        assert!(replay.answer(&[tokenize("other")])[0].is_err());
    }

    #[test]
    fn a_recording_does_not_depend_on_the_order_of_calls() {
        let folder = tempfile::tempdir().unwrap();
        let saved = |pairs: Vec<(Call, Outcome)>| {
            let (calls, outcomes): (Vec<Call>, Vec<Outcome>) = pairs.into_iter().unzip();
            let recorder = Recorder::new(Scripted::list(card(), outcomes));
            recorder.answer(&calls);
            let path = folder.path().join("answers.json");
            recorder.save(&path).unwrap();
            fs::read_to_string(path).unwrap()
        };
        assert_eq!(saved(all_kinds()), saved(all_kinds().into_iter().rev().collect()));
    }

    #[test]
    fn a_bad_file_is_an_error_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.json");
        assert!(Scripted::load(&path).err().unwrap().to_string().contains("bad.json"));
        fs::write(&path, "{\"card\": 1}").unwrap();
        assert!(Scripted::load(&path).err().unwrap().to_string().contains("bad.json"));
    }
}
