//! A model that answers nothing of use and only counts: what a run would ask of a real one.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use super::{Answer, Call, Card, Finish, Model, Outcome, Prompt, Scores, Text, TokenScore};

/// Bytes of a token of a log, about.
const TOKEN_BYTES: usize = 4;

/// Tokens in whose steps prompts share what they begin with (`llama`): what a short call reads is mostly the rest of a step.
const STEP: usize = 128;

/// What was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Demand {
    pub calls: u64,
    /// Tokens of prompts, about; what a prompt shares with the one before, in steps of 128 tokens, counts once.
    pub read: u64,
    /// For each of them the tokens that stand before it, which it attends to, added up.
    pub behind: u64,
    /// Tokens of answers, if each is as long as it may be.
    pub written: u64,
    /// Texts to embed.
    pub texts: u64,
}

impl Demand {
    pub fn add(&mut self, other: Demand) {
        self.calls += other.calls;
        self.read += other.read;
        self.behind += other.behind;
        self.written += other.written;
        self.texts += other.texts;
    }
}

/// Counts its calls, the same one once, as a cache would. One a trajectory, so that the order of work makes no
/// difference.
pub struct Dry {
    card: Card,
    inner: Mutex<(Demand, String)>,
    asked: Mutex<HashSet<[u8; 32]>>,
}

impl Dry {
    /// `window` is that of the model in whose place it stands, in tokens.
    pub fn new(window: u32) -> Self {
        let card = Card { name: "dry".to_owned(), identity: "dry".to_owned(), window };
        Dry { card, inner: Mutex::default(), asked: Mutex::default() }
    }

    pub fn demand(&self) -> Demand {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Whether a call was not asked before.
    fn is_new(&self, call: &Call) -> bool {
        let bytes = postcard::to_stdvec(call).unwrap_or_default();
        let key = *blake3::hash(&bytes).as_bytes();
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(key)
    }

    fn read(&self, prompt: &Prompt) {
        let parts = prompt.parts.iter().map(|part| part.text.as_str());
        let text: String = [prompt.system.as_str()].into_iter().chain(parts).collect();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = text.bytes().zip(inner.1.bytes()).take_while(|(a, b)| a == b).count();
        let shared = shared / (STEP * TOKEN_BYTES) * (STEP * TOKEN_BYTES);
        let window = u64::from(self.card.window);
        let all = (text.len().div_ceil(TOKEN_BYTES) as u64).min(window);
        let read = ((text.len() - shared).div_ceil(TOKEN_BYTES) as u64).min(all);
        inner.0.read += read;
        inner.0.behind += (all - read..all).sum::<u64>();
        inner.1 = text;
    }

    fn count(&self, add: impl FnOnce(&mut Demand)) {
        add(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner).0);
    }
}

impl Model for Dry {
    fn card(&self) -> &Card {
        &self.card
    }

    fn answer(&self, calls: &[Call]) -> Vec<Outcome> {
        let answer = |call: &Call| {
            if self.is_new(call) {
                self.count(|demand| demand.calls += 1);
                match call {
                    Call::Generate { prompt, max_tokens, .. } => {
                        self.read(prompt);
                        self.count(|demand| demand.written += u64::from(*max_tokens));
                    }
                    Call::Score { prompt, .. } => self.read(prompt),
                    Call::Embed { .. } => self.count(|demand| demand.texts += 1),
                    Call::Tokenize { .. } => {}
                }
            }
            Ok(match call {
                Call::Generate { .. } => {
                    let text = "It went on.".to_owned();
                    let (prompt_tokens, tokens, cut_tokens) = (0, 0, 0);
                    Answer::Text(Text { text, finish: Finish::Stop, prompt_tokens, tokens, cut_tokens })
                }
                Call::Score { prompt, continuations } => {
                    let score = |text: &str| vec![TokenScore { end: text.len() as u32, logprob: -1.0 }];
                    let scored = prompt.parts.iter().filter(|part| part.scored);
                    Answer::Scores(Scores {
                        parts: scored.map(|part| score(&part.text)).collect(),
                        continuations: continuations.iter().map(|text| score(text)).collect(),
                        prompt_tokens: 0,
                        cut_tokens: 0,
                    })
                }
                Call::Embed { text } => {
                    // Another direction for each length, so that not all texts are duplicates.
                    let angle = text.len() as f32;
                    Answer::Vector { values: vec![angle.cos(), angle.sin()], cut_tokens: 0 }
                }
                Call::Tokenize { text } => Answer::Tokens(vec![0; text.len().div_ceil(TOKEN_BYTES)]),
            })
        };
        calls.iter().map(answer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Part;

    #[test]
    fn what_two_prompts_share_is_read_once() {
        let call = |end: &str| Call::Generate {
            prompt: Prompt {
                parts: vec![Part { text: format!("{}{end}", "a".repeat(600)), ..Part::default() }],
                ..Prompt::default()
            },
            max_tokens: 7,
            grammar: None,
            stop: Vec::new(),
            sampling: None,
        };
        let dry = Dry::new(4096);
        dry.answer(&[call("bbbb"), call("cccccccc"), Call::Embed { text: String::new() }, call("bbbb")]);
        // The first prompt is read from position 0 to 150, of the second what is behind the first step, 128 to 151.
        let behind = 150 * 151 / 2 + (128 + 151) * 24 / 2;
        assert_eq!(dry.demand(), Demand { calls: 3, read: 151 + 24, behind, written: 14, texts: 1 });
    }
}
