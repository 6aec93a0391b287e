//! All model work of the program, behind one trait: generate, score a given continuation, embed, tokenize.
//!
//! A [`Model`] takes a list of [`Call`]s and gives an [`Outcome`] for each, in order; it blocks, and many
//! threads may call it at once. Back ends: `llama` (llama.cpp in a child process), `server` (any
//! OpenAI-compatible server), `scripted` (recorded answers, for unit tests). [`cache::Cached`] is a model that
//! wraps another.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

pub mod api;
pub mod bench;
pub mod cache;
pub mod catalogue;
pub mod disarm;
pub mod dry;
pub mod fetch;
pub mod folder;
pub mod gguf;
pub mod grammar;
mod http;
pub mod labels;
#[cfg(feature = "llama")]
pub mod llama;
pub mod loops;
pub mod open;
pub mod prompt;
mod requantise;
#[cfg(test)]
pub mod scripted;
pub mod server;

pub use prompt::{Part, Prompt};

/// What a model is, as far as its answers depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The name in `models.toml`, or the path of a GGUF, or `URL#model` of a server.
    pub name: String,
    /// All that an answer depends on besides the call: hash of the weights, version of the back end,
    /// instruction set, shape of the batches. Part of the key of the call cache.
    pub identity: String,
    /// Tokens that fit one sequence, prompt and answer together.
    pub window: u32,
}

/// One piece of work for a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Call {
    /// Continue the prompt.
    Generate {
        prompt: Prompt,
        /// At most so many tokens of answer.
        max_tokens: u32,
        /// GBNF that the answer must match (see `grammar`), root rule `root`.
        grammar: Option<String>,
        /// The answer ends before the first of these texts.
        #[serde(default)]
        stop: Vec<String>,
        /// None is greedy.
        sampling: Option<Sampling>,
    },
    /// Log-likelihood of the prompt's scored parts, and of each continuation after the whole prompt.
    Score {
        prompt: Prompt,
        #[serde(default)]
        continuations: Vec<String>,
    },
    /// The text's unit vector.
    Embed { text: String },
    /// The text's tokens under the model's own vocabulary, special tokens not recognised.
    Tokenize { text: String },
}

/// How to draw tokens where greedy is not wanted. Same seed, same text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Above 0.
    pub temperature: f32,
    /// Nucleus, 0 to 1.
    pub top_p: f32,
    pub seed: u32,
}

/// What a model says to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    Text(Text),
    Scores(Scores),
    /// Unit length. A text longer than the window keeps its beginning: `cut_tokens` says how many it lost.
    Vector {
        values: Vec<f32>,
        cut_tokens: u32,
    },
    Tokens(Vec<u32>),
}

/// A generated text. It does not repeat the prompt's `prefill`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Text {
    pub text: String,
    pub finish: Finish,
    /// Tokens of the prompt as it was sent, and of the answer.
    pub prompt_tokens: u32,
    pub tokens: u32,
    /// Tokens of the prompt that did not fit the window and were cut (`Prompt::parts` says where).
    pub cut_tokens: u32,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finish {
    /// The model ended it, or a stop text was met.
    Stop,
    /// `max_tokens` or the window was reached.
    Length,
    /// The answer's end repeated itself and was stopped there.
    Loop,
    /// The grammar allowed no further token before it was satisfied.
    NoMatch,
}

/// Log-likelihoods, natural logarithms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// One list for each scored part of the prompt, in order.
    pub parts: Vec<Vec<TokenScore>>,
    /// One list for each continuation.
    pub continuations: Vec<Vec<TokenScore>>,
    pub prompt_tokens: u32,
    pub cut_tokens: u32,
}

/// One token of a scored text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenScore {
    /// Where the token ends in its text, in bytes.
    pub end: u32,
    /// ln P(token | all before it), at most 0.
    pub logprob: f64,
}

/// Why a call has no answer. Never a reason to end a run: the caller falls back and flags it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum CallError {
    #[error("the model's process ended while it worked on this call: {0}")]
    Aborted(String),
    #[error("no answer within {0} seconds")]
    Timeout(u64),
    #[error("the prompt needs {tokens} tokens beyond what may be cut, the window holds {window}")]
    TooLong { tokens: u32, window: u32 },
    #[error("the grammar is not valid GBNF: {0}")]
    Grammar(String),
    #[error("this model cannot {0}")]
    Unsupported(String),
    #[error("{0}")]
    Failed(String),
}

pub type Outcome = Result<Answer, CallError>;

impl Call {
    /// The shortest call for a vector: whoever embeds can answer it.
    pub fn hello_embedder() -> Self {
        Call::Embed { text: "Hello".to_owned() }
    }

    /// The shortest call for a likelihood: whoever scores can answer it.
    pub fn hello_scorer() -> Self {
        let part = Part { text: "Hello".to_owned(), ..Part::default() };
        let prompt = Prompt { parts: vec![part], ..Prompt::default() };
        Call::Score { prompt, continuations: vec![" world".to_owned()] }
    }

    /// The shortest call for a text, plain or to a chat with a system prompt: whoever writes can answer it.
    pub fn hello(chat: bool) -> Self {
        let part = Part { text: "Hello".to_owned(), ..Part::default() };
        let system = if chat { "You answer in one word.".to_owned() } else { String::new() };
        let prompt = Prompt { chat, system, parts: vec![part], ..Prompt::default() };
        Call::Generate { prompt, max_tokens: 1, grammar: None, stop: Vec::new(), sampling: None }
    }
}

/// A model that answers nothing any more: what could not be asked is to be done another time.
#[derive(Debug, thiserror::Error)]
#[error(
    "model {model} answers nothing any more: {error}\nhint: start the same command again when it does; what is done is kept"
)]
pub struct Outage {
    pub model: String,
    pub error: CallError,
}

/// Asks a model; outcomes are in the order of the calls. That it cannot answer a call is no error but an outcome.
///
/// # Errors
/// It answers nothing any more.
pub fn ask(model: &dyn Model, calls: &[Call]) -> Result<Vec<Outcome>, Outage> {
    let outcomes = model.answer(calls);
    if outcomes.len() != calls.len() {
        let error = CallError::Failed(format!("{} outcomes for {} calls", outcomes.len(), calls.len()));
        return Err(Outage { model: model.card().name.clone(), error });
    }
    // One that fails for the call's own sake says nothing of the model; of the others one is enough to find out.
    let failed = |(call, outcome): (&Call, &Outcome)| match outcome {
        Ok(_) | Err(CallError::TooLong { .. } | CallError::Grammar(_) | CallError::Unsupported(_)) => None,
        Err(error) => Some((call.clone(), error.clone())),
    };
    match calls.iter().zip(&outcomes).find_map(failed) {
        Some((call, error)) if !model.is_alive(&call) => {
            Err(Outage { model: model.card().name.clone(), error })
        }
        _ => Ok(outcomes),
    }
}

/// A model, wherever it runs.
pub trait Model: Send + Sync {
    fn card(&self) -> &Card;

    /// Answers all calls, in order. Blocks; what one call meets never costs another its answer.
    fn answer(&self, calls: &[Call]) -> Vec<Outcome>;

    /// Whether it answers anything: a short call of the same kind, never from a cache.
    fn is_alive(&self, kind: &Call) -> bool {
        let call = match kind {
            Call::Embed { .. } => Call::hello_embedder(),
            Call::Generate { prompt, .. } | Call::Score { prompt, .. } => Call::hello(prompt.chat),
            Call::Tokenize { .. } => Call::hello(false),
        };
        self.answer(std::slice::from_ref(&call)).iter().all(Result::is_ok)
    }
}

impl Answer {
    /// Tokens that were read, written, and cut from the prompt; of vectors only the last.
    pub fn tokens(&self) -> (u64, u64, u64) {
        let (read, written, cut) = match self {
            Answer::Text(text) => (text.prompt_tokens, text.tokens, text.cut_tokens),
            Answer::Scores(scores) => (scores.prompt_tokens, 0, scores.cut_tokens),
            Answer::Vector { cut_tokens, .. } => (0, 0, *cut_tokens),
            Answer::Tokens(_) => (0, 0, 0),
        };
        (u64::from(read), u64::from(written), u64::from(cut))
    }
}

/// What experiments call no model at all.
pub const NO_MODEL: &str = "none";

/// A model, and what it was asked through this.
pub struct Metered<'a> {
    model: &'a dyn Model,
    asked: Mutex<Asked>,
}

/// Calls, and the tokens that were read and written for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub calls: u32,
    pub tokens_in: u64,
    pub tokens_out: u64,
}

impl Asked {
    pub fn add(&mut self, other: Asked) {
        self.calls += other.calls;
        self.tokens_in += other.tokens_in;
        self.tokens_out += other.tokens_out;
    }
}

impl<'a> Metered<'a> {
    pub fn new(model: &'a dyn Model) -> Self {
        Metered { model, asked: Mutex::default() }
    }

    pub fn asked(&self) -> Asked {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Model for Metered<'_> {
    fn card(&self) -> &Card {
        self.model.card()
    }

    fn answer(&self, calls: &[Call]) -> Vec<Outcome> {
        let outcomes = self.model.answer(calls);
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.calls += calls.len() as u32;
        for answer in outcomes.iter().flatten() {
            let (read, written, _) = answer.tokens();
            asked.tokens_in += read;
            asked.tokens_out += written;
        }
        outcomes
    }

    fn is_alive(&self, kind: &Call) -> bool {
        self.model.is_alive(kind)
    }
}
