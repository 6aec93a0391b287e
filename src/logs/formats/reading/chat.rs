//! Lists of chat messages in the OpenAI and the Anthropic style, with items of the Responses API among them.
//!
//! Nothing that carries words or calls is dropped: a role, an item or a block without a rule is kept as text with its
//! type, where it stands, and counted.

use super::content::Arguments;
use super::content::{Function, ToolCalls, UNKNOWN_TOOL};
use super::draft::Losses;
use super::items::{self, Item};
use super::names::Name;
use super::others::{self, Others};
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
    /// Whether it holds a call, in whatever style.
    pub(crate) fn has_calls(&self) -> bool {
        let has_block =
            matches!(&self.content, Some(Content::Blocks(blocks)) if blocks.iter().any(|b| b.is_call()));
        has_block
            || self.tool_calls.as_ref().is_some_and(|c| !c.0.is_empty())
            || self.function_call.as_ref().is_some_and(|f| f.name.as_ref().is_some_and(|n| !n.is_empty()))
            || self.rest.0.iter().any(|(key, raw)| key == "tool_call" && raw.get().starts_with(['{', '[']))
    }

    /// What it says in the fields that its speaker speaks in.
    pub(crate) fn said(&self) -> String {
        let mut out = String::new();
        for content in [&self.content, &self.reasoning].into_iter().flatten() {
            content.say(&mut out);
        }
        let audio = self.audio.as_ref().and_then(|a| a.transcript.as_ref());
        for text in [self.refusal.as_ref(), audio].into_iter().flatten() {
            out.extend([
                text, "
",
            ]);
        }
        out
    }

    /// What it says in fields that have no rule, or none for who speaks.
    fn others(&mut self, is_agent: bool, losses: &mut Losses) -> Others {
        if self.content.as_ref().is_none_or(Content::is_empty) {
            self.content = self.output.take().or(self.content.take());
        }
        let arguments = self.arguments.take().or(self.input.take()).map(|a| Content::Text(a.0));
        let mut left = vec![
            ("output", self.output.take()),
            ("summary", self.summary.take()),
            ("error", self.error.take()),
            ("arguments", arguments),
        ];
        if !is_agent {
            let audio = self.audio.take().and_then(|a| a.transcript);
            left.push(("reasoning", self.reasoning.take()));
            left.push(("refusal", self.refusal.take().map(Content::Text)));
            left.push(("transcript", audio.map(Content::Text)));
        }
        let mut rest = std::mem::take(&mut self.rest);
        for (key, content) in left {
            let text = content.map_or(String::new(), |c| c.into_text(losses));
            if !text.is_empty() {
                rest.add(key, text);
            }
        }
        others::read(&rest, || self.said(), losses)
    }

    /// Takes the text out of the content; thoughts among it stay.
    pub(crate) fn take_text(&mut self, losses: &mut Losses) -> String {
        match self.content.take().unwrap_or_default() {
            Content::Blocks(blocks) => {
                let (thoughts, rest) = blocks.into_iter().partition(|b| b.is_thought());
                self.content = Some(Content::Blocks(thoughts));
                Content::Blocks(rest).into_text(losses)
            }
            content => content.into_text(losses),
        }
    }

    /// Appends to the content of somebody else than the agent what stands in other fields.
    pub(crate) fn add_others(&mut self, losses: &mut Losses) {
        let others = self.others(false, losses);
        let calls = others.calls.into_iter().map(Call::of);
        let calls = calls.map(|call| format!("[tool_call] {} {}", call.tool, call.arguments));
        let texts = others.thoughts.into_iter().chain([others.text]).chain(calls);
        for text in texts.filter(|t| !t.is_empty()) {
            self.content.get_or_insert_default().append(text);
        }
    }

    /// The calls in it that have an id.
    fn calls_with_id(&self) -> Vec<Call> {
        let mut calls = Vec::new();
        for call in self.tool_calls.iter().flat_map(|c| &c.0) {
            let function = call.function.as_ref();
            let tool = function.and_then(|f| f.name.clone()).or(call.name.clone()).unwrap_or_default();
            let arguments = function.and_then(|f| f.arguments.as_ref()).or(call.arguments.as_ref());
            let arguments = arguments.map_or(String::new(), |a| a.0.clone());
            calls.push(Call { id: call.id.clone(), tool, arguments });
        }
        if let Some(Content::Blocks(blocks)) = &self.content {
            for block in blocks.iter().filter(|b| b.is_call()) {
                let arguments = block.input.as_ref().map_or(String::new(), |a| a.0.clone());
                let tool = block.name.clone().unwrap_or_default();
                calls.push(Call { id: block.id.clone(), tool, arguments });
            }
        }
        calls.retain(Call::has_id);
        calls
    }

    /// The results in it: id and words.
    fn answers(&self) -> Vec<(&str, String)> {
        let words = |content: Option<&Content>| {
            let mut out = String::new();
            content.inspect(|c| c.say(&mut out));
            out
        };
        let mut answers = Vec::new();
        if let Some(id) = self.tool_call_id.as_deref().or(self.call_id.as_deref()) {
            answers.push((id, words(self.content.as_ref().or(self.output.as_ref()))));
        }
        if let Some(Content::Blocks(blocks)) = &self.content {
            for block in blocks.iter().filter(|b| b.is_result()) {
                answers.extend(block.tool_use_id.as_deref().map(|id| (id, words(block.content.as_deref()))));
            }
        }
        answers
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
        let calls = message.calls_with_id();
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
        let calls = message.calls_with_id();
        let has_id =
            message.id.as_ref().is_some_and(|id| !id.0.is_empty() && Some(&id.0) == self.id.as_ref());
        if let Some(reply) = &self.reply {
            let is_again = has_id || calls.iter().any(|call| reply.has(call));
            return self.push_agent(message, is_again, draft);
        }
        let is_known = |call: &Call| draft.newest_turn_has(call);
        if !calls.is_empty() && calls.iter().all(is_known) && draft.newest_turn_says(&message.said()) {
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
