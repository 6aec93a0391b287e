//! mini-swe-agent trajectories: 1.1 with tool calls, with commands in a fence of the text, or with replies of the
//! Responses API; 1.0, and the early bare list, with a bash block in the text.
//!
//! Commands in the text are told by `extra.actions`, by the expression (`action_regex`) of the file's own configuration,
//! or by the fences that mini-swe-agent has by default. An observation is `content`, what the model saw, not
//! `extra.raw_output`; of `extra.response`, which repeats the whole reply, only the usage is read. The last message of
//! role `exit` is the submission, which no model saw: left out.

use std::fmt;

use regex::{Regex, RegexBuilder};
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, Visitor};
use serde_json::value::RawValue;

use super::reading::chat::{self, Messages};
use super::reading::content::{Function, ToolCalls};
use super::reading::names::Name;
use super::reading::scalar::Scalar;
use super::reading::usage::{LoggedUsage, dollars};
use super::reading::{Content, Draft, List, names, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "mini-swe-agent",
    summary: "mini-swe-agent .traj.json files, 1.0, 1.1 and the early list form",
    reading: Reading::Values(read),
};

record! {
    struct File in "mini" {
        messages: List<Message> = "messages",
        info: Info = "info",
        instance_id: String = "instance_id",
        trajectory_format: String = "trajectory_format",
    }

    struct Info in "mini.info" {
        config: Config = "config",
        exit_status: String = "exit_status",
        stats: Stats = "model_stats",
    }

    struct Stats in "mini.model_stats" {
        cost: Scalar = "instance_cost",
    }

    struct Config in "mini.config" {
        model: Model = "model",
        agent: AgentConfig = "agent",
    }

    struct Model in "mini.config.model" {
        model_name: String = "model_name",
        action_regex: String = "action_regex",
    }

    /// Version 1 has the expression here.
    struct AgentConfig in "mini.config.agent" {
        action_regex: String = "action_regex",
    }

    struct Message in "mini.message" {
        role: String = "role",
        id: Name = "id",
        kind: String = "type",
        object: String = "object",
        content: Content = "content",
        reasoning: Content = "reasoning_content",
        tool_calls: ToolCalls = "tool_calls",
        function_call: Box<Function> = "function_call",
        refusal: String = "refusal",
        tool_call_id: String = "tool_call_id",
        call_id: String = "call_id",
        output: Box<RawValue> = "output",
        usage: Box<LoggedUsage> = "usage",
        extra: Extra = "extra",
        .. rest
    }

    struct Extra in "mini.extra" {
        timestamp: Scalar = "timestamp",
        returncode: Scalar = "returncode",
        interrupt_type: String = "interrupt_type",
        actions: List<Action> = "actions",
        response: Response = "response",
        cost: Scalar = "cost",
    }

    struct Action in "mini.extra.action" {
        command: String = "command",
        .. rest
    }
}

/// The usage in a reply that is logged whole; the rest is skipped. A reply that could not be parsed is text.
#[derive(Default)]
pub(crate) struct Response(Option<Box<LoggedUsage>>);

impl<'de> Deserialize<'de> for Response {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ResponseVisitor;
        impl<'de> Visitor<'de> for ResponseVisitor {
            type Value = Response;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a reply")
            }
            fn visit_str<E>(self, _: &str) -> Result<Response, E> {
                Ok(Response(None))
            }
            fn visit_unit<E>(self) -> Result<Response, E> {
                Ok(Response(None))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Response, A::Error> {
                let mut usage = None;
                while let Some(key) = map.next_key::<super::reading::fields::Key<'de>>()? {
                    if key.0 == "usage" {
                        usage = map.next_value()?;
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Response(usage))
            }
        }
        deserializer.deserialize_any(ResponseVisitor)
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let is_list = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[');
    let file: File = if is_list {
        File { messages: Some(serde_json::from_slice(bytes)?), ..File::default() }
    } else {
        serde_json::from_slice(bytes)?
    };
    let info = file.info.unwrap_or_default();
    let config = info.config.unwrap_or_default();
    let model = config.model.unwrap_or_default();
    let mut draft = Draft::new();
    let logged = model.action_regex.or(config.agent.and_then(|a| a.action_regex));
    let mut reader = Reader {
        fences: fences(logged.as_deref(), &mut draft),
        messages: Messages::default(),
        is_answered: false,
        is_awaited: false,
        is_refused: true,
    };
    for (i, message) in file.messages.unwrap_or_default().0.into_iter().enumerate() {
        reader.read(i, message, &mut draft)?;
    }
    reader.messages.end(&mut draft);
    let is_named_by_file = file.instance_id.is_none();
    let task = file.instance_id.unwrap_or_else(|| sink.source.stem.clone());
    let about = Trajectory {
        repository: names::swe_repository(&task),
        task_id: Some(task),
        is_named_by_file,
        agent: Some("mini-swe-agent".to_owned()),
        model: model.model_name,
        outcome: info.exit_status,
        cost: dollars(info.stats.and_then(|stats| stats.cost)),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

/// The expressions that find a command in a text, the most telling first; group 1 is the command.
fn fences(logged: Option<&str>, draft: &mut Draft) -> Vec<Regex> {
    const DEFAULT: [&str; 2] = [r"```bash[ \t]*\n(.*?)\n```", r"```mswea_bash_command\s*\n(.*?)\n```"];
    let build = |pattern: &str| RegexBuilder::new(pattern).dot_matches_new_line(true).build().ok();
    let own = logged.and_then(build).filter(|r| r.captures_len() > 1);
    if logged.is_some() && own.is_none() {
        draft.losses.add("action_regex that cannot be used here");
    }
    own.map_or_else(|| DEFAULT.into_iter().filter_map(build).collect(), |own| vec![own])
}

/// Usage with what the agent counted the call to cost.
fn priced(usage: Option<Box<LoggedUsage>>, cost: Option<Scalar>) -> Option<Box<LoggedUsage>> {
    usage.map(|usage| Box::new(LoggedUsage { cost: cost.or(usage.cost), ..*usage }))
}

struct Reader {
    fences: Vec<Regex>,
    messages: Messages,
    /// The agent has spoken: from here on the environment speaks as the user.
    is_answered: bool,
    /// The user typed a command: its output comes next, though no agent may have spoken.
    is_awaited: bool,
    /// The newest reply is not among the messages, if the agent refuses it now.
    is_refused: bool,
}

impl Reader {
    fn read(&mut self, i: usize, message: Message, draft: &mut Draft) -> anyhow::Result<()> {
        let mut extra = message.extra.unwrap_or_default();
        let time = extra.timestamp.take().unwrap_or_default().time(&mut draft.losses);
        let failed = extra
            .returncode
            .and_then(|code| code.number("returncode", &mut draft.losses))
            .map(|code| code != 0.0);
        let is_refused = std::mem::replace(&mut self.is_refused, true);
        let id = message.id.filter(|id| !id.0.is_empty());
        if let Some(output) =
            message.output.as_ref().filter(|o| o.get().starts_with('[') && message.call_id.is_none())
        {
            (self.is_answered, self.is_refused) = (true, false);
            let List(mut items) = serde_json::from_str::<List<chat::Message>>(output.get())?;
            for item in &mut items {
                item.timestamp = item.timestamp.or(time.map(Scalar::Time));
            }
            if let Some(first) = items.first_mut() {
                first.usage = priced(message.usage, extra.cost);
            }
            let items = items.into_iter().map(|item| (i, item)).collect();
            self.messages.read_output(id.map(|id| id.0), items, draft);
            return Ok(());
        }
        let output = message.output.map(|output| {
            serde_json::from_str(output.get()).unwrap_or_else(|_| Content::Text(output.get().to_owned()))
        });
        let mut said = chat::Message {
            role: message.role.clone(),
            id,
            timestamp: time.map(Scalar::Time),
            usage: priced(message.usage.or(extra.response.take().and_then(|r| r.0)), extra.cost),
            content: message.content,
            reasoning: message.reasoning,
            tool_calls: message.tool_calls,
            function_call: message.function_call,
            refusal: message.refusal,
            tool_call_id: message.tool_call_id,
            call_id: message.call_id,
            output,
            rest: message.rest,
            ..chat::Message::default()
        };
        let role = message.role.as_deref().unwrap_or("");
        if role == "assistant" {
            (self.is_answered, self.is_refused) = (true, false);
            let commands = self.take_commands(&mut said, extra.actions.take().unwrap_or_default().0, draft);
            self.messages.read_with(i, said, commands, draft);
            return Ok(());
        }
        self.messages.give_way(&said, role == "tool", draft);
        draft.at(i, time);
        if role != "exit" {
            said.add_others(&mut draft.losses);
        }
        let text = said.content.unwrap_or_default().into_text(&mut draft.losses);
        match role {
            "system" => draft.system(text),
            "tool" => draft.result(said.tool_call_id.as_deref(), None, text, failed),
            "exit" => draft.losses.add("exit message (submission) left out"),
            "user" => self.read_user(text, &extra, failed, is_refused, draft),
            role => {
                let kind = message.kind.unwrap_or_default();
                if kind.ends_with("_call_output") {
                    draft.result(said.call_id.as_deref(), None, text, failed);
                } else if text.is_empty() {
                    draft.losses.add("message of unknown role left out");
                } else {
                    draft.losses.add("message of unknown role kept as text");
                    draft.observation(
                        format!("[{}] {text}", if role.is_empty() { &kind } else { role }),
                        failed,
                    );
                }
            }
        }
        Ok(())
    }

    /// What is said in the name of the user: by the user, or by the environment.
    fn read_user(
        &mut self,
        text: String,
        extra: &Extra,
        failed: Option<bool>,
        is_refused: bool,
        draft: &mut Draft,
    ) {
        let is_output =
            std::mem::take(&mut self.is_awaited) || self.is_answered || extra.returncode.is_some();
        match extra.interrupt_type.as_deref() {
            // A command that the user typed is the user's, and so is why a command was refused.
            _ if extra.actions.as_ref().is_some_and(|a| !a.0.is_empty()) => {
                self.is_awaited = true;
                draft.user(text);
            }
            Some(interrupt) if interrupt.starts_with("User") && draft.has_open_call() => {
                draft.result(None, None, text, Some(true));
                draft.by_user();
            }
            Some(interrupt) if interrupt.starts_with("User") => draft.user(text),
            Some(interrupt) => {
                if is_refused && interrupt == "FormatError" {
                    draft.losses.add("reply of a wrong format, which the agent drops, left out");
                }
                draft.observation(text, Some(true));
            }
            None if !is_output => draft.user(text),
            None if draft.has_open_call() => draft.result(None, None, text, failed),
            None => draft.observation(text, failed),
        }
    }

    /// Takes the commands out of the text of a reply that has no other calls.
    fn take_commands(
        &self,
        message: &mut chat::Message,
        actions: Vec<Action>,
        draft: &mut Draft,
    ) -> Vec<String> {
        let mut commands = Vec::new();
        for action in actions {
            match action.command {
                Some(command) => commands.push(command),
                None => message.rest.0.push(("action".to_owned(), action.rest.into_raw())),
            }
        }
        if message.has_calls() {
            return Vec::new();
        }
        let text = message.take_text(&mut draft.losses);
        let (text, commands) = self.commands(text, commands);
        message.content.get_or_insert_default().append(text);
        commands
    }

    /// The text of a reply without its commands, and these; `parsed` are those that the agent found in it.
    fn commands(&self, text: String, parsed: Vec<String>) -> (String, Vec<String>) {
        let found = self.fences.iter().find_map(|fence| split(fence, &text));
        match found {
            Some((thought, found)) if parsed.is_empty() => (thought, vec![found]),
            // The command is in the text as the model wrote it; the parsed one is stripped.
            Some((thought, found)) if parsed.len() == 1 && parsed[0].trim() == found.trim() => {
                (thought, vec![found])
            }
            _ => (text, parsed),
        }
    }
}

/// The text outside of the fence, and the command in it; nothing if there is not exactly one, which the agent itself
/// takes as an error of format.
fn split(fence: &Regex, text: &str) -> Option<(String, String)> {
    let mut found = fence.captures_iter(text);
    let one = found.next()?;
    if found.next().is_some() {
        return None;
    }
    let (whole, command) = (one.get(0)?, one.get(1)?);
    let before = text[..whole.start()].trim_end();
    let rest = text[whole.end()..].trim();
    let thought = if rest.is_empty() { before.to_owned() } else { format!("{before}\n{rest}") };
    Some((thought, command.as_str().to_owned()))
}

#[cfg(test)]
mod tests;
