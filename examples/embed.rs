//! Compresses a live conversation by a strategy that won offline: `cargo run --release --example embed < messages.json`.
//!
//! The messages are a list in the form of OpenAI; what is to be sent in their place is written to standard output.

use trajpress::{Compressor, Messages};

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
    let compressor = Compressor::new(POLICY)?;
    let messages = serde_json::from_reader(std::io::stdin())?;
    let sent = compressor.compress(&messages, Messages::OpenAi)?;
    eprintln!("{}: {} -> {} tokens", compressor.label(), sent.tokens_before, sent.tokens_after);
    println!("{:#}", sent.messages);
    Ok(())
}
