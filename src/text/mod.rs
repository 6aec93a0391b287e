//! Text in, byte offsets out: tokens, spans, words, sentences, atoms. Knows no agent.

pub mod atoms;
mod bpe;
pub mod escape;
pub(crate) mod han;
pub mod lists;
pub mod memo;
pub mod natural;
pub(crate) mod negation;
pub mod phrases;
pub(crate) mod pieces;
pub mod redact;
pub mod runs;
pub mod sentences;
pub mod spans;
pub mod spellings;
pub mod tokens;
pub(crate) mod values;
pub mod words;
