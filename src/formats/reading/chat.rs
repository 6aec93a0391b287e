//! Lists of chat messages in the OpenAI and the Anthropic style, with items of the Responses API among them.
//!
//! Nothing that carries words or calls is dropped: a role, an item or a block without a rule is kept as text with its
//! type, where it stands, and counted.

use super::content::Arguments;
use super::content::{Function, ToolCalls, UNKNOWN_TOOL};
use super::items::{self, Item};
use super::names::Name;
use super::reply::{Call, Reply};
use super::scalar::Scalar;
use super::usage::LoggedUsage;
use super::{Content, Draft, record};

record! {
    /// One message, or one item.
    struct Message in "chat.message" {
        role: String = "role",
        kind: String = "type",
        content: Content = "content",
        tool_calls: ToolCalls = "tool_calls",
        function_call: Function = "function_call",
        tool_call_id: String = "tool_call_id",
        call_id: String = "call_id",
        id: Name = "id",
        name: String = "name",
        arguments: Arguments = "arguments",
        input: Arguments = "input",
        output: Content = "output" | "outputs" | "results",
        summary: Content = "summary",
        error: Content = "error",
        reasoning: Content = "reasoning_content" | "reasoning",
        refusal: String = "refusal",
        audio: Audio = "audio",
        timestamp: Scalar = "timestamp" | "created_at",
        is_error: Scalar = "is_error",
        usage: LoggedUsage = "usage",
        .. rest
    }

    /// Speech of the agent.
    struct Audio in "chat.message.audio" {
        transcript: String = "transcript",
    }
}

impl Message {
    /// Where no field with a rule holds anything, the words of the other fields are its text.
    fn keep_words(&mut self, draft: &mut Draft) {
        let is_empty = |c: &Option<Content>| c.as_ref().is_none_or(Content::is_empty);
        let has_calls =
            self.tool_calls.as_ref().is_some_and(|c| !c.0.is_empty()) || self.function_call.is_some();
        let has_words = self.refusal.is_some() || self.audio.is_some();
        let are_empty = [&self.content, &self.output, &self.reasoning].into_iter().all(is_empty);
        let words = if are_empty && !has_calls && !has_words { self.rest.sentences() } else { String::new() };
        if !words.is_empty() {
            draft.losses.add("message without a rule kept as text");
            self.content = Some(Content::Text(format!("[message] {words}")));
        }
    }
}

/// Who speaks.
enum Speaker {
    Agent,
    Tool,
    System,
    User,
}

fn speaker(role: &str) -> Option<Speaker> {
    match role {
        "assistant" | "model" | "ai" => Some(Speaker::Agent),
        "tool" | "function" => Some(Speaker::Tool),
        "system" | "developer" => Some(Speaker::System),
        "user" | "human" => Some(Speaker::User),
        _ => None,
    }
}

/// Whether this is the name of a role: some logs write it as the type.
pub(crate) fn is_role(name: &str) -> bool {
    speaker(name).is_some()
}

/// Pushes all messages of a chat.
pub(crate) fn read_all(messages: Vec<Message>, draft: &mut Draft) {
    let mut reader = Messages::default();
    for (i, message) in messages.into_iter().enumerate() {
        reader.read(i, message, draft);
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
}

impl Messages {
    /// Reads the message (or item) that is the `i`th of the log.
    pub(crate) fn read(&mut self, i: usize, mut message: Message, draft: &mut Draft) {
        let time = message.timestamp.take().unwrap_or_default().time(&mut draft.losses);
        draft.at(i, time);
        if items::is_item(&message) {
            return self.read_item(message, draft);
        }
        message.keep_words(draft);
        let role = message.role.as_deref().or(message.kind.as_deref()).unwrap_or("");
        match speaker(role) {
            Some(Speaker::Agent) => return self.read_agent(message, draft),
            None if message.tool_calls.as_ref().is_some_and(|c| !c.0.is_empty()) => {
                return self.read_agent(message, draft);
            }
            _ => self.end(draft),
        }
        match speaker(role) {
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
        self.goes_on = false;
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
        match items::read(message, &mut draft.losses) {
            Item::Output { id, text } => {
                self.end(draft);
                draft.result(id.as_deref(), None, text, None);
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
                self.goes_on = true;
            }
            Item::Call { call, output } => {
                let reply = self.reply(usage, draft);
                let id = call.id.clone();
                reply.call(call, &mut Vec::new(), draft);
                if let Some(text) = output {
                    reply.result(id.as_deref(), text, None, draft);
                }
                self.goes_on = true;
            }
        }
    }

    fn read_agent(&mut self, mut message: Message, draft: &mut Draft) {
        let is_typed = message.kind.as_deref() == Some("message");
        if !self.goes_on {
            self.end(draft);
        }
        self.goes_on = is_typed;
        let reply = self.reply(message.usage.take(), draft);
        read_reply(message, reply, draft);
    }
}

/// The words and calls of an agent's message.
fn read_reply(message: Message, reply: &mut Reply, draft: &mut Draft) {
    let mut others: Vec<Call> =
        message.tool_calls.map(|c| c.0).unwrap_or_default().into_iter().map(to_call).collect();
    if let Some(reasoning) = message.reasoning {
        reply.thought(reasoning.into_text(&mut draft.losses), draft);
    }
    // What of the text was said when: blocks of a tool that the provider runs stand among it.
    let mut rest = Vec::new();
    let mut has_text = false;
    let mut say = |blocks: &mut Vec<_>, reply: &mut Reply, draft: &mut Draft| {
        let text = Content::Blocks(std::mem::take(blocks)).into_text(&mut draft.losses);
        has_text |= !text.is_empty();
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
                    Some("thinking" | "reasoning") => {
                        let thought = block.thinking.or(block.text).unwrap_or_else(|| block.rest.words());
                        reply.thought(thought, draft);
                    }
                    Some("redacted_thinking") => draft.losses.add("redacted thinking left out"),
                    _ => rest.push(block),
                }
            }
            say(&mut rest, reply, draft);
        }
        content => {
            let text = content.into_text(&mut draft.losses);
            has_text |= !text.is_empty();
            reply.text(text, draft);
        }
    }
    if let Some(refusal) = message.refusal.or(message.audio.and_then(|a| a.transcript)).filter(|_| !has_text)
    {
        reply.text(refusal, draft);
    }
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

fn to_call(call: super::ToolCall) -> Call {
    let (id, tool, arguments) = call.into_parts();
    Call { id, tool, arguments }
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
