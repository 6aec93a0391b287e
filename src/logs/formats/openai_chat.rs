//! Chats in the OpenAI style: `{messages, tools?}` a line, an item or a file, or a bare list of messages. Requests and responses of the Responses API: `{instructions?, input, output}`.
//!
//! What other keys of a run are called varies from log to log; the usual names of id, model, reward and outcome are
//! looked for.

use serde::de::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::reading::chat::{self, Message};
use super::reading::fields::Unread;
use super::reading::names::{self, Name};
use super::reading::points;
use super::reading::scalar::Scalar;
use super::reading::usage::LoggedUsage;
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "openai-chat",
    summary: "OpenAI chat messages and Responses items in JSON or JSONL, with tool calls",
    reading: Reading::Values(read),
};

record! {
    /// One run.
    struct Run in "chat" {
        messages: Unread<Message> = "messages",
        instructions: Content = "instructions" | "system" | "system_prompt",
        input: Items = "input",
        output: Items = "output",
        tools: Box<RawValue> = "tools" | "functions",
        id: Name = "id" | "run_id" | "traj_id" | "trajectory_id",
        task_id: Name = "task_id" | "instance_id",
        repository: String = "repository" | "repo" | "domain",
        agent: String = "agent",
        model: String = "model" | "model_name",
        outcome: String = "outcome" | "exit_status",
        reward: Scalar = "reward" | "score",
        resolved: Scalar = "resolved",
        annotations: Box<RawValue> = "annotations",
        usage: Box<LoggedUsage> = "usage",
    }
}

/// Messages and items; a text is a message of the user.
#[derive(Default)]
pub(crate) struct Items(pub(super) Vec<Message>);

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        if raw.starts_with('[') {
            let List(items) = serde_json::from_str(raw).map_err(serde::de::Error::custom)?;
            return Ok(Items(items));
        }
        let content = serde_json::from_str(raw).map_err(serde::de::Error::custom)?;
        Ok(Items(vec![Message {
            role: Some("user".to_owned()),
            content: Some(content),
            ..Message::default()
        }]))
    }
}

pub(super) fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let is_list = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[');
    let run = match is_list {
        true => Run { messages: Some(serde_json::from_slice(bytes)?), ..Run::default() },
        false => serde_json::from_slice(bytes)?,
    };
    finish(run, sink)
}

/// Turns a run into a trajectory.
pub(super) fn finish(run: Run, sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let mut draft = Draft::new();
    if let Some(tools) = run.tools
        && !matches!(tools.get(), "[]" | "\"\"")
    {
        draft.tools(tools.get().to_owned());
    }
    let input = run.input.unwrap_or_default().0;
    let mut messages: Box<dyn Iterator<Item = serde_json::Result<Message>>> =
        Box::new(run.messages.unwrap_or_default().read());
    if let Some(instructions) = run.instructions {
        let text = instructions.into_text(&mut draft.losses);
        let read: Vec<Message> = messages.collect::<Result<_, _>>()?;
        let is_repeated = read.iter().any(|m| m.content.as_ref().is_some_and(|c| c.is_text(&text)));
        if !text.is_empty() && !is_repeated {
            draft.system(text);
        }
        messages = Box::new(read.into_iter().map(Ok));
    }
    let mut output = run.output.unwrap_or_default().0;
    if let Some(first) = output.first_mut() {
        // What the response counts, it counts for its own items.
        first.usage = first.usage.take().or(run.usage);
    }
    let mut failed = None;
    let good = messages.map_while(|message| message.map_err(|error| failed = Some(error)).ok());
    chat::read_all(good.chain(input), output, &mut draft);
    if let Some(error) = failed {
        return Err(error.into());
    }
    let name = |n: Option<Name>| n.map(|n| n.0).filter(|n| !n.is_empty());
    let by_place = || sink.index.map_or(sink.source.stem.clone(), |i| format!("{}-{i}", sink.source.stem));
    let id = name(run.id);
    // SWE-Gym names a run as OpenHands names its folder: by the model and the settings.
    let of_run = id.as_deref().and_then(|id| Some(id.split_once("_maxiter_")?.0.to_owned()));
    let logged = name(run.task_id).or(id);
    let is_named_by_file = logged.is_none();
    let task = logged.unwrap_or_else(by_place);
    let reward = run.reward.and_then(|l| l.number("reward", &mut draft.losses));
    let resolved = run.resolved.and_then(|l| l.truth("resolved", &mut draft.losses));
    let annotations = run.annotations.map(|a| points::with_clean_points(a.get(), &mut draft.losses));
    let about = Trajectory {
        repository: run.repository.or_else(|| names::swe_repository(&task)),
        task_id: Some(task),
        is_named_by_file,
        agent: run.agent,
        model: run.model.or(of_run),
        outcome: run.outcome,
        reward,
        resolved,
        label_source: (reward.is_some() || resolved.is_some()).then(|| "log".to_owned()),
        annotations,
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

#[cfg(test)]
mod tests;
