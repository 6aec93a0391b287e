//! A conversation in memory, read as a log of chat messages is.

use std::collections::BTreeMap;

use anyhow::Context as _;

use super::formats::{self, Reading, Sink, Source};
use crate::trajectory::Trajectory;

/// Reads chat messages of OpenAI or Anthropic, a list or a request, as JSON: the run, and what of them was left out.
///
/// # Errors
/// It is no list of messages, or one without any.
pub fn read(json: &[u8]) -> anyhow::Result<(Trajectory, BTreeMap<String, u64>)> {
    let entry = formats::find("openai-chat")?;
    let source = Source::new("conversation", entry.name);
    let mut sink = Sink::new(&source);
    let Reading::Values(read) = entry.reading else { anyhow::bail!("chat messages are no values") };
    read(json, &mut sink)?;
    let run = sink.trajectories.pop().context("a conversation without messages")?;
    Ok((run, sink.losses.0))
}
