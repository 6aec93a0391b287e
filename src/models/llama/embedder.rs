//! Sentence embeddings by an encoder: one text a batch, so that a vector depends on its text alone.

use std::num::NonZeroU32;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;

use crate::models::{Answer, Call, CallError, Outcome};

pub(super) struct Embedder<'m> {
    model: &'m LlamaModel,
    context: LlamaContext<'m>,
    batch: LlamaBatch<'static>,
    window: usize,
    alive: &'m (dyn Fn() + Sync),
}

impl<'m> Embedder<'m> {
    pub(super) fn new(
        backend: &LlamaBackend,
        model: &'m LlamaModel,
        window: u32,
        alive: &'m (dyn Fn() + Sync),
    ) -> Result<Self, String> {
        let parameters = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(window))
            .with_n_batch(window)
            .with_n_ubatch(window)
            .with_n_threads(1)
            .with_n_threads_batch(1)
            .with_embeddings(true);
        let context = model
            .new_context(backend, parameters)
            .map_err(|error| format!("no context of {window} tokens: {error}"))?;
        let window = window as usize;
        Ok(Self { model, context, batch: LlamaBatch::new(window, 1), window, alive })
    }

    pub(super) fn answer(&mut self, call: &Call) -> Outcome {
        match call {
            Call::Embed { text } => self.embed(text),
            Call::Tokenize { text } => {
                let tokens = self.model.vocab().tokenize(text.as_bytes(), false, false);
                Ok(Answer::Tokens(tokens.iter().map(|token| token.0 as u32).collect()))
            }
            Call::Generate { .. } => Err(CallError::Unsupported("generate: it is an embedder".to_owned())),
            Call::Score { .. } => Err(CallError::Unsupported("score: it is an embedder".to_owned())),
        }
    }

    /// A text longer than the window keeps its beginning.
    fn embed(&mut self, text: &str) -> Outcome {
        (self.alive)();
        let mut tokens = self.model.vocab().tokenize(text.as_bytes(), true, false);
        let cut = tokens.len().saturating_sub(self.window);
        if cut > 0 {
            // The last token closes the sequence ([SEP]) and stays.
            let last = tokens[tokens.len() - 1];
            tokens.truncate(self.window - 1);
            tokens.push(last);
        }
        if tokens.is_empty() {
            return Err(CallError::Failed("nothing to embed".to_owned()));
        }
        self.batch.clear();
        for (position, token) in tokens.iter().enumerate() {
            self.batch
                .add(*token, position as i32, &[0], true)
                .map_err(|error| CallError::Failed(error.to_string()))?;
        }
        self.context
            .encode(&mut self.batch)
            .map_err(|error| CallError::Failed(format!("llama.cpp could not encode: {error}")))?;
        let raw = self.context.embeddings_seq_ith(0).map_err(|error| CallError::Failed(error.to_string()))?;
        let length = raw.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        if !(length.is_finite() && length > 0.0) {
            return Err(CallError::Failed("the vector has no direction".to_owned()));
        }
        let values = raw.iter().map(|x| (f64::from(*x) / length) as f32).collect();
        Ok(Answer::Vector { values, cut_tokens: cut as u32 })
    }
}
