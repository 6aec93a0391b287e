//! Lists of chat messages in the OpenAI and the Anthropic style, with items of the Responses API among them.
//!
//! Nothing that carries words or calls is dropped: a role, an item or a block without a rule is kept as text with its
//! type, where it stands, and counted.

use super::content::UNKNOWN_TOOL;
use super::items::{self, Item};
pub(crate) use super::message::Message;
use super::message::{Speaker, speaker};
use super::reply::{Call, Reply};
use super::usage::LoggedUsage;
use super::{Content, Draft};

/// Pushes all messages of a chat, and the items of one reply behind them.
pub(crate) fn read_all(messages: Vec<Message>, output: Vec<Message>, draft: &mut Draft) {
    let mut reader = Messages::default();
    let n = messages.len();
    for (i, message) in messages.into_iter().enumerate() {
        reader.read(i, message, draft);
    }
    reader.begin_output(draft);
    for (i, item) in output.into_iter().enumerate() {
        reader.read(n + i, item, draft);
    }
    reader.end(draft);
}

/// Reads messages one after the other.
#[derive(Default)]
pub(crate) struct Messages {
    /// The reply that may go on: items of one reply are entries of their own.
    reply: Option<Reply>,
    /// The reply holds an item, or a message that says that it is one: messages may go on with it.
    goes_on: bool,
    /// All that follows is one reply, the output of a response.
    is_output: bool,
    /// The id of the message that the newest reply began with.
    id: Option<String>,
    /// A message that repeats a reply which was answered since, with its place: it is a reply of its own only if
    /// another answer follows.
    doubtful: Option<(usize, Option<i64>, Message)>,
}

impl Messages {
    /// Reads the message (or item) that is the `i`th of the log.
    pub(crate) fn read(&mut self, i: usize, mut message: Message, draft: &mut Draft) {
        self.settle(&message, draft);
        let time = message.timestamp.take().unwrap_or_default().time(&mut draft.losses);
        draft.at(i, time);
        if items::is_item(&message) {
            return self.read_item(message, draft);
        }
        let role = message.role.as_deref().or(message.kind.as_deref()).unwrap_or("");
        if role.starts_with('_') && role != "_system_prompt" {
            let name: String = role.chars().take(40).collect();
            return draft.losses.add(&format!("record that is no message left out: {name}"));
        }
        let who = if role == "_system_prompt" { Some(Speaker::System) } else { speaker(role) };
        match who {
            Some(Speaker::Agent) => return self.read_agent(message, draft),
            None if message.has_calls() => return self.read_agent(message, draft),
            _ => self.end(draft),
        }
        if message.answers().is_empty() && !matches!(who, Some(Speaker::Tool)) {
            self.id = None;
        }
        message.add_others(&mut draft.losses);
        match who {
            Some(Speaker::System) => {
                let text = message.content.unwrap_or_default().into_text(&mut draft.losses);
                draft.system(text);
            }
            Some(Speaker::User) => read_user(message, draft),
            Some(_) => read_tool(message, draft),
            None => read_unknown(message, draft),
        }
    }

    /// The list ends, or someone else speaks.
    pub(crate) fn end(&mut self, draft: &mut Draft) {
        if let Some(reply) = self.reply.take() {
            reply.end(draft);
        }
        if self.doubtful.take().is_some() {
            draft.losses.add("reply that is logged again merged");
        }
        self.goes_on = false;
    }

    /// All that follows is one reply.
    pub(crate) fn begin_output(&mut self, draft: &mut Draft) {
        self.end(draft);
        self.is_output = true;
    }

    /// Decides about a message that repeats a reply, by what follows.
    fn settle(&mut self, next: &Message, draft: &mut Draft) {
        let Some((i, time, message)) = self.doubtful.take() else {
            return;
        };
        let calls = message.calls();
        let is_new = |(id, text): &(&str, String)| {
            calls.iter().any(|c| c.id.as_deref() == Some(*id)) && !draft.is_result_of(id, text)
        };
        if next.answers().iter().any(is_new) {
            draft.at(i, time);
            self.push_agent(message, false, draft);
        } else {
            draft.losses.add("reply that is logged again merged");
        }
    }

    fn reply(&mut self, usage: Option<LoggedUsage>, draft: &mut Draft) -> &mut Reply {
        let usage = usage.and_then(|u| u.usage());
        match self.reply {
            Some(_) => draft.usage(usage),
            None => self.reply = Some(Reply::begin(usage, draft)),
        }
        self.reply.as_mut().expect("a reply was begun")
    }

    fn read_item(&mut self, mut message: Message, draft: &mut Draft) {
        let (role, usage) = (message.role.take(), message.usage.take());
        let others = items::others(&message, &mut draft.losses);
        match items::read(message, &mut draft.losses) {
            Item::Output { id, text } if self.is_output => {
                self.reply(usage, draft).result(id.as_deref(), others.behind(text), None, draft);
            }
            Item::Output { id, text } => {
                self.end(draft);
                draft.result(id.as_deref(), None, others.behind(text), None);
            }
            Item::Other(text) if self.is_output => {
                self.reply(usage, draft).text(text.unwrap_or_default(), draft);
            }
            Item::Other(text) => match (text, role.as_deref().and_then(speaker)) {
                (Some(text), Some(Speaker::Agent)) => self.reply(usage, draft).text(text, draft),
                (Some(text), Some(Speaker::User)) => {
                    self.end(draft);
                    draft.user(text);
                }
                (Some(text), _) => {
                    self.end(draft);
                    draft.observation(text, None);
                }
                (None, _) => {}
            },
            Item::Reasoning(thought) => {
                let reply = self.reply(usage, draft);
                reply.thought(thought.unwrap_or_default(), draft);
                others.said_in(reply, draft);
                self.goes_on = true;
            }
            Item::Call { call, output } => {
                let reply = self.reply(usage, draft);
                let id = call.id.clone();
                others.said_in(reply, draft);
                reply.call(call, &mut Vec::new(), draft);
                if let Some(text) = output {
                    reply.result(id.as_deref(), text, None, draft);
                }
                self.goes_on = true;
            }
        }
    }

    fn read_agent(&mut self, message: Message, draft: &mut Draft) {
        let mut calls = message.calls();
        calls.retain(Call::has_id);
        let has_id =
            message.id.as_ref().is_some_and(|id| !id.0.is_empty() && Some(&id.0) == self.id.as_ref());
        if let Some(reply) = &self.reply {
            let is_again = has_id || calls.iter().any(|call| reply.has(call));
            return self.push_agent(message, is_again, draft);
        }
        let is_known = |call: &Call| draft.newest_turn_has(call);
        if !calls.is_empty()
            && calls.iter().all(is_known)
            && draft.newest_turn_says(&message.said().join("\n"))
        {
            let (i, time) = draft.place();
            self.doubtful = Some((i, time, message));
            return;
        }
        if has_id {
            self.reply = Some(Reply::resume());
        }
        self.push_agent(message, has_id, draft);
    }

    /// The reply goes on with a message, repeats itself in it, or ends before it.
    fn push_agent(&mut self, mut message: Message, is_again: bool, draft: &mut Draft) {
        let is_typed = message.kind.as_deref() == Some("message");
        if !self.goes_on && !self.is_output && !is_again {
            self.end(draft);
        }
        self.goes_on = is_typed;
        let id = message.id.take().map(|id| id.0);
        self.id = if self.reply.is_some() { self.id.take().or(id) } else { id };
        let reply = self.reply(message.usage.take(), draft);
        reply.is_again = is_again;
        if is_again {
            draft.losses.add("reply that is logged again merged");
        }
        read_reply(message, reply, draft);
        reply.is_again = false;
    }
}

/// The words and calls of an agent's message.
pub(crate) fn read_reply(mut message: Message, reply: &mut Reply, draft: &mut Draft) {
    let without_rule = message.others(true, &mut draft.losses);
    let calls = message.tool_calls.map(|c| c.0).unwrap_or_default();
    let mut others: Vec<Call> = calls.into_iter().chain(without_rule.calls).map(Call::of).collect();
    for thought in without_rule.thoughts {
        reply.thought(thought, draft);
    }
    if let Some(reasoning) = message.reasoning {
        reply.thought(reasoning.into_text(&mut draft.losses), draft);
    }
    // What of the text was said when: blocks of a tool that the provider runs stand among it.
    let mut rest = Vec::new();
    let mut said = String::new();
    let mut say = |blocks: &mut Vec<_>, reply: &mut Reply, draft: &mut Draft| {
        let text = Content::Blocks(std::mem::take(blocks)).into_text(&mut draft.losses);
        said.extend([&text, "\n"]);
        reply.text(text, draft);
    };
    match message.content.unwrap_or_default() {
        Content::Blocks(blocks) => {
            for block in blocks {
                match block.kind.as_deref() {
                    _ if block.is_call() => reply.call(block_call(block), &mut others, draft),
                    _ if block.is_result() => {
                        say(&mut rest, reply, draft);
                        let result = block.into_result(&mut draft.losses);
                        reply.result(result.id.as_deref(), result.text, result.is_error, draft);
                    }
                    _ if block.is_thought() => {
                        if block.kind.as_deref() == Some("redacted_thinking") {
                            draft.losses.add("redacted thinking left out");
                            continue;
                        }
                        let thought = block.thinking.or(block.text).unwrap_or_else(|| block.rest.words());
                        reply.thought(thought, draft);
                    }
                    _ => rest.push(block),
                }
            }
            say(&mut rest, reply, draft);
        }
        content => {
            let text = content.into_text(&mut draft.losses);
            said.push_str(&text);
            reply.text(text, draft);
        }
    }
    for text in [message.refusal, message.audio.and_then(|a| a.transcript)].into_iter().flatten() {
        if !said.contains(text.trim()) {
            reply.text(text, draft);
        }
    }
    reply.text(without_rule.text, draft);
    for call in std::mem::take(&mut others) {
        reply.call(call, &mut others, draft);
    }
    if let Some(call) = message.function_call
        && let Some(tool) = call.name.filter(|name| !name.is_empty())
    {
        // The older form has no id; logs of the newer one repeat a call in it.
        reply.older_call(Call { id: None, tool, arguments: call.arguments.unwrap_or_default().0 }, draft);
    }
}

fn block_call(block: super::content::Block) -> Call {
    let kind = block.kind.unwrap_or_default();
    let of_kind = kind.strip_suffix("_tool_use").unwrap_or(UNKNOWN_TOOL).to_owned();
    let arguments = block.input.unwrap_or_default().0;
    Call { id: block.id, tool: block.name.unwrap_or(of_kind), arguments }
}

/// A user message; in the Anthropic style it may hold tool results among its blocks.
fn read_user(message: Message, draft: &mut Draft) {
    let mut rest = match message.content.unwrap_or_default() {
        Content::Blocks(blocks) => push_results(blocks, draft),
        content => {
            let text = content.into_text(&mut draft.losses);
            if !text.is_empty() || message.tool_calls.is_none() {
                draft.user(text);
            }
            Vec::new()
        }
    };
    if !rest.is_empty() {
        let text = Content::Blocks(std::mem::take(&mut rest)).into_text(&mut draft.losses);
        draft.user(text);
    }
    for call in message.tool_calls.map(|c| c.0).unwrap_or_default() {
        let (_, tool, arguments) = call.into_parts();
        draft.losses.add("tool call of the user kept as text");
        draft.user(format!("[tool_call] {tool} {arguments}"));
    }
}

/// Pushes the results among blocks; returns the other blocks.
fn push_results(blocks: Vec<super::content::Block>, draft: &mut Draft) -> Vec<super::content::Block> {
    let mut rest = Vec::new();
    for block in blocks {
        if block.is_result() {
            let result = block.into_result(&mut draft.losses);
            draft.result(result.id.as_deref(), None, result.text, result.is_error);
        } else {
            rest.push(block);
        }
    }
    rest
}

/// The result of a tool as a message of its own.
fn read_tool(message: Message, draft: &mut Draft) {
    let mut content = message.content.or(message.output).unwrap_or_default();
    if let Content::Blocks(blocks) = content {
        let has_results = blocks.iter().any(|b| b.is_result());
        let rest = push_results(blocks, draft);
        if has_results && rest.is_empty() {
            return;
        }
        content = Content::Blocks(rest);
    }
    let text = content.into_text(&mut draft.losses);
    let is_error = message.is_error.and_then(|e| e.truth("is_error", &mut draft.losses));
    let id = message.tool_call_id.or(message.call_id);
    draft.result(id.as_deref(), message.name, text, is_error);
}

/// A message of a role without a rule: its words, with the role.
fn read_unknown(message: Message, draft: &mut Draft) {
    let role: String = message.role.or(message.kind).unwrap_or_default().chars().take(40).collect();
    let text = message.content.unwrap_or_default().into_text(&mut draft.losses);
    if text.is_empty() {
        draft.losses.add("message of unknown role left out");
        return;
    }
    draft.losses.add("message of unknown role kept as text");
    draft.observation(format!("[{}] {}", if role.is_empty() { "message" } else { &role }, text), None);
}
