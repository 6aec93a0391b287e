//! A prompt as parts, so that text of a log can never act as structure, and a cut has a stated place.

use serde::{Deserialize, Serialize};

/// What a model is asked. All texts are tokenised with special tokens off; the only control tokens of a
/// prompt are those that the model's own chat template puts around them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Prompt {
    /// True: the model's chat template is put around `system` and the parts (one user message).
    /// False: plain completion; `system` comes first as text.
    pub chat: bool,
    pub system: String,
    /// The user's message, in order.
    pub parts: Vec<Part>,
    /// The beginning of the answer.
    pub prefill: String,
}

/// A piece of the user's message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Part {
    pub text: String,
    /// Where the prompt exceeds the window, the longest part that may be cut loses its oldest (first) tokens.
    pub may_cut: bool,
    /// `Call::Score` gives the log-likelihoods of this part's tokens.
    pub scored: bool,
}
