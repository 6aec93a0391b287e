//! Compresses a live conversation by a strategy that won offline: `cargo run --release --example embed < messages.json`.
//!
//! The messages are a list in the form of OpenAI; what is to be sent in their place is written to standard output.

use serde_json::Value;
use trajpress::{Compressed, Compressor, Messages};

const POLICY: &str = r#"
name = "live"

[[strategies]]
name = "mask"
keep_last = 3

[[triggers]]
name = "turns"
n = 1
"#;

fn main() -> anyhow::Result<()> {
    let sent = to_send(&compressor()?, &serde_json::from_reader(std::io::stdin())?)?;
    println!("{:#}", sent.messages);
    Ok(())
}

/// Made once: a program of one's own is kept in it.
pub fn compressor() -> anyhow::Result<Compressor> {
    Compressor::new(POLICY)
}

/// Before each call of the model: the whole conversation so far, and what is sent in its place.
pub fn to_send(compressor: &Compressor, conversation: &Value) -> anyhow::Result<Compressed> {
    let sent = compressor.compress(conversation, Messages::OpenAi)?;
    eprintln!("{}: {} -> {} tokens", compressor.label(), sent.tokens_before, sent.tokens_after);
    Ok(sent)
}
