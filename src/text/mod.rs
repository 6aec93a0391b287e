//! Text in, byte offsets out: tokens, spans, words, sentences, atoms. Knows no agent.

pub mod atoms;
mod bpe;
pub mod escape;
pub mod lists;
pub mod memo;
pub mod natural;
pub mod phrases;
pub mod redact;
pub mod runs;
pub mod sentences;
pub mod spans;
pub mod spellings;
pub mod tokens;
pub mod words;
