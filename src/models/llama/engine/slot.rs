//! A place in a batch, and the text that is written in it.

use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;

use crate::models::llama::choose::{Chooser, Repeats, first_stop};
use crate::models::{Answer, CallError, Finish, Text};

/// The cells of one sequence.
#[derive(Default)]
pub(super) struct Stream {
    /// The tokens that it holds and that a later prompt may share: the whole chunks of its last prompt.
    pub(super) held: Vec<LlamaToken>,
    /// When it was last given a call.
    pub(super) used: u64,
    /// What is generated in it now.
    pub(super) slot: Option<Slot>,
}

/// A sequence that is being generated.
pub(super) struct Slot {
    pub(super) id: u64,
    pub(super) prompt: u32,
    pub(super) cut: u32,
    pub(super) max_tokens: u32,
    pub(super) stop: Vec<String>,
    pub(super) choose: Chooser,
    pub(super) bytes: Vec<u8>,
    pub(super) made: Vec<LlamaToken>,
    pub(super) repeats: Repeats,
}

/// The bytes of a token.
pub(super) fn piece(model: &LlamaModel, token: LlamaToken) -> Vec<u8> {
    model.vocab().token_to_piece(token, false, None)
}

/// Chooses the next token of a sequence. Some: it has ended.
pub(super) fn advance(model: &LlamaModel, slot: &mut Slot, logits: &[f32]) -> Option<Finish> {
    if slot.max_tokens == 0 {
        return Some(Finish::Length);
    }
    let Some(token) = slot.choose.next(logits) else { return Some(Finish::NoMatch) };
    if model.vocab().is_eog(token) {
        return Some(Finish::Stop);
    }
    slot.made.push(token);
    let seen = slot.bytes.len();
    slot.bytes.extend(piece(model, token));
    if let Some(at) = first_stop(&slot.bytes, seen, &slot.stop) {
        slot.bytes.truncate(at);
        return Some(Finish::Stop);
    }
    if slot.repeats.push(&slot.made) {
        return Some(Finish::Loop);
    }
    (slot.made.len() as u32 == slot.max_tokens).then_some(Finish::Length)
}

impl Slot {
    pub(super) fn text(self, finish: Finish) -> Answer {
        Answer::Text(Text {
            text: String::from_utf8_lossy(&self.bytes).into_owned(),
            finish,
            prompt_tokens: self.prompt,
            tokens: self.made.len() as u32,
            cut_tokens: self.cut,
        })
    }
}

pub(super) fn failed(error: impl std::fmt::Display) -> CallError {
    CallError::Failed(format!("llama.cpp: {error}"))
}

/// ln softmax(logits)[token], in f64.
pub(super) fn logprob(logits: &[f32], token: LlamaToken) -> f64 {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| libm::exp(f64::from(logit - top))).sum();
    f64::from(logits[token.0 as usize] - top) - libm::log(sum)
}
