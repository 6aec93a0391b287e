//! Lists of chat messages in the OpenAI and the Anthropic style, with items of the Responses API among them.
//!
//! Nothing that carries words or calls is dropped: a role, an item or a block without a rule is kept as text with its
//! type, where it stands, and counted.

use std::collections::HashMap;

use super::content::UNKNOWN_TOOL;
use super::draft::UNTOLD;
use super::items::{self, Item};
pub(crate) use super::message::Message;
use super::message::{Speaker, speaker};
use super::reply::{Call, Reply};
use super::usage::LoggedUsage;
use super::{Content, Draft};

/// Pushes all messages of a chat, and the items of one reply behind them.
pub(crate) fn read_all(messages: impl IntoIterator<Item = Message>, output: Vec<Message>, draft: &mut Draft) {
    let mut reader = Messages::default();
    let mut n = 0;
    for message in messages {
        reader.read(n, message, draft);
        n += 1;
    }
    reader.read_output(None, (n..).zip(output).collect(), draft);
    reader.end(draft);
}

/// What a reply is to what was said before.
#[derive(PartialEq)]
enum Repeat {
    None,
    /// It repeats the newest reply, or is a later state of it.
    Again,
    /// It repeats a reply that was answered since: new only if another answer follows.
    Doubtful,
}

/// An id that names nothing: the OpenAI Agents SDK gives it to all items of other providers.
pub(crate) const NO_ID: &str = "__fake_id__";

/// The role under which we ourselves write what took the place of the past.
const COMPACTION: &str = "compaction";

/// Reads messages one after the other.
#[derive(Default)]
pub(crate) struct Messages {
    /// The reply that may go on: items of one reply are entries of their own.
    reply: Option<Reply>,
    /// The reply holds an item, or a message that says that it is one: messages may go on with it.
    goes_on: bool,
    /// What comes is part of one reply, the output of a response,
    is_output: bool,
    /// which was logged before.
    is_again: bool,
    /// The id of the message that the newest reply began with.
    id: Option<String>,
    /// Messages and items that were logged before, with their places.
    doubtful: Vec<(usize, Option<i64>, Message)>,
    /// What was counted for a reply that begins with a compaction, until its first words.
    waiting: Option<Box<LoggedUsage>>,
    /// What each item said, by its id; nothing for an id of several items.
    items: HashMap<String, Option<u64>>,
}

impl Messages {
    /// Reads the message (or item) that is the `i`th of the log.
    pub(crate) fn read(&mut self, i: usize, message: Message, draft: &mut Draft) {
        self.read_with(i, message, Vec::new(), draft);
    }

    /// The same for a message that holds commands of the shell, too.
    pub(crate) fn read_with(
        &mut self,
        i: usize,
        mut message: Message,
        commands: Vec<String>,
        draft: &mut Draft,
    ) {
        let time = message.timestamp.take().unwrap_or_default().time(&mut draft.losses);
        if self.is_known_item(&message) {
            return self.doubtful.push((i, time, message));
        }
        self.settle(&message, draft);
        draft.at(i, time);
        self.push(message, commands, false, draft);
    }

    /// Reads the items of a response, with their places: they are one reply.
    pub(crate) fn read_output(
        &mut self,
        id: Option<String>,
        items: Vec<(usize, Message)>,
        draft: &mut Draft,
    ) {
        self.settle(&Message::default(), draft);
        let calls: Vec<Call> = items.iter().flat_map(|(_, item)| item.calls()).collect();
        let said: Vec<&str> = items.iter().flat_map(|(_, item)| item.said()).collect();
        let repeat = self.repeat(id.as_deref(), &calls, &said.join("\n"), draft);
        match repeat {
            Repeat::None => self.end(draft),
            Repeat::Again => draft.losses.add("reply that is logged again merged"),
            Repeat::Doubtful => {
                let placed = items.into_iter().map(|(i, mut item)| {
                    let time = item.timestamp.take().unwrap_or_default();
                    (i, time.time(&mut draft.losses), item)
                });
                return self.doubtful.extend(placed);
            }
        }
        (self.is_output, self.is_again) = (true, repeat == Repeat::Again);
        let n_steps = draft.n_steps();
        for (i, item) in items {
            self.read(i, item, draft);
        }
        // It compacted, and said nothing.
        draft.written_with(self.waiting.take().and_then(|usage| usage.usage()), n_steps);
        (self.is_output, self.is_again, self.goes_on) = (false, false, false);
        self.id = id.or(self.id.take());
    }

    /// Somebody else than the agent speaks.
    pub(crate) fn give_way(&mut self, message: &Message, is_tool: bool, draft: &mut Draft) {
        self.settle(message, draft);
        self.end(draft);
        if !message.has_answers() && !is_tool {
            self.id = None;
        }
    }

    /// The list ends, or someone else speaks.
    pub(crate) fn end(&mut self, draft: &mut Draft) {
        if let Some(reply) = self.reply.take() {
            reply.end(draft);
        }
        self.drop_doubtful(draft);
        self.goes_on = false;
    }

    fn push(&mut self, mut message: Message, commands: Vec<String>, is_new: bool, draft: &mut Draft) {
        if items::is_item(&message) {
            return self.read_item(message, draft);
        }
        let role = message.role.as_deref().or(message.kind.as_deref()).unwrap_or("");
        if role.starts_with('_') && role != "_system_prompt" {
            let name: String = role.chars().take(40).collect();
            return draft.losses.add(&format!("record that is no message left out: {name}"));
        }
        if role == COMPACTION {
            self.give_way(&message, false, draft);
            message.add_others(&mut draft.losses);
            let text = message.content.unwrap_or_default().into_text(&mut draft.losses);
            return draft.compaction(text);
        }
        let who = if role == "_system_prompt" { Some(Speaker::System) } else { speaker(role) };
        match who {
            Some(Speaker::Agent) => return self.read_agent(message, commands, is_new, draft),
            None if message.has_calls() => return self.read_agent(message, commands, is_new, draft),
            _ => self.give_way(&message, matches!(who, Some(Speaker::Tool)), draft),
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

    /// Whether an item of this id said the same before.
    fn is_known_item(&mut self, message: &Message) -> bool {
        let id = message.id.as_ref().map_or("", |id| &id.0);
        if message.kind.is_none() || id.is_empty() || id == NO_ID || Some(id) == self.id.as_deref() {
            return false;
        }
        let digest = Some(message.digest());
        match self.items.get_mut(id) {
            Some(known) if *known == digest => return true,
            Some(known) => *known = None,
            None => {
                self.items.insert(id.to_owned(), digest);
            }
        }
        false
    }

    /// Decides about what was logged before, by what follows.
    fn settle(&mut self, next: &Message, draft: &mut Draft) {
        let calls: Vec<Call> = self.doubtful.iter().flat_map(|(.., message)| message.calls()).collect();
        let is_new = |(id, text): &(&str, String)| {
            calls.iter().any(|c| c.id.as_deref() == Some(*id)) && draft.has_other_result(id, text)
        };
        if !calls.is_empty() && next.answers().iter().any(is_new) {
            for (i, time, message) in std::mem::take(&mut self.doubtful) {
                draft.at(i, time);
                self.push(message, Vec::new(), true, draft);
            }
        }
        self.drop_doubtful(draft);
    }

    fn drop_doubtful(&mut self, draft: &mut Draft) {
        for (.., message) in self.doubtful.drain(..) {
            let what = if message.kind.is_some() { "item" } else { "reply" };
            draft.losses.add(&format!("{what} that is logged again merged"));
        }
    }

    fn reply(&mut self, usage: Option<Box<LoggedUsage>>, draft: &mut Draft) -> &mut Reply {
        let usage = usage.or(self.waiting.take()).and_then(|u| u.usage());
        match self.reply {
            Some(_) => draft.usage(usage),
            None => self.reply = Some(Reply::begin(usage, draft)),
        }
        let reply = self.reply.as_mut().expect("a reply was begun");
        reply.is_again = self.is_again;
        reply
    }

    fn read_item(&mut self, mut message: Message, draft: &mut Draft) {
        let (role, usage) = (message.role.take(), message.usage.take());
        let others = items::others(&message, &mut draft.losses);
        match items::read(message, &mut draft.losses) {
            Item::Compaction(text) => {
                self.end(draft);
                draft.compaction(text);
                self.waiting = usage.filter(|_| self.is_output).or(self.waiting.take());
            }
            Item::Output { id, text, is_error } if self.is_output => {
                self.reply(usage, draft).result(id.as_deref(), others.behind(text), is_error, draft);
            }
            Item::Output { id, text, is_error } => {
                self.end(draft);
                draft.result(id.as_deref(), None, others.behind(text), is_error);
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

    /// What a reply of these calls and words is to the newest one, which goes on where that is this one.
    fn repeat(&mut self, id: Option<&str>, calls: &[Call], said: &str, draft: &Draft) -> Repeat {
        let has_id = id.is_some_and(|id| !id.is_empty() && self.id.as_deref() == Some(id));
        if let Some(reply) = &self.reply {
            let is_again = has_id || reply.is_repeated(calls, said);
            return if is_again { Repeat::Again } else { Repeat::None };
        }
        let mut with_id = calls.iter().filter(|call| call.has_id()).peekable();
        if with_id.peek().is_some()
            && with_id.all(|call| draft.newest_turn_has(call))
            && draft.newest_turn_says(said)
        {
            return Repeat::Doubtful;
        }
        if !has_id {
            return Repeat::None;
        }
        self.reply = Some(Reply::resume());
        Repeat::Again
    }

    fn read_agent(&mut self, message: Message, commands: Vec<String>, is_new: bool, draft: &mut Draft) {
        let mut calls = message.calls();
        calls.extend(commands.iter().cloned().map(Call::command));
        let id = message.id.as_ref().map(|id| id.0.as_str());
        let repeat = match is_new {
            true => Repeat::None,
            false => self.repeat(id, &calls, &message.said().join("\n"), draft),
        };
        if repeat == Repeat::Doubtful {
            let (i, time) = draft.place();
            return self.doubtful.push((i, time, message));
        }
        self.push_agent(message, commands, repeat == Repeat::Again, draft);
    }

    /// The reply goes on with a message, repeats itself in it, or ends before it.
    fn push_agent(&mut self, mut message: Message, commands: Vec<String>, is_again: bool, draft: &mut Draft) {
        for compaction in message.take_compactions(&mut draft.losses) {
            self.end(draft);
            draft.compaction(compaction);
        }
        let is_typed = message.kind.as_deref() == Some("message");
        if !self.goes_on && !self.is_output && !is_again {
            self.end(draft);
        }
        self.goes_on = is_typed;
        let id = message.id.take().map(|id| id.0);
        self.id = if self.reply.is_some() { self.id.take().or(id) } else { id };
        for edit in message.edits.take().and_then(|edits| edits.applied).unwrap_or_default().0 {
            // It says how much went, not what.
            let kind: String = edit.kind.unwrap_or_default().chars().take(40).collect();
            draft.losses.add(&format!("{UNTOLD}edit of the prompt ({kind})"));
        }
        let reply = self.reply(message.usage.take(), draft);
        reply.is_again |= is_again;
        if is_again {
            draft.losses.add("reply that is logged again merged");
        }
        read_reply(message, reply, draft);
        for command in commands {
            reply.call(Call::command(command), &mut Vec::new(), draft);
        }
    }
}

/// The words and calls of an agent's message.
fn read_reply(mut message: Message, reply: &mut Reply, draft: &mut Draft) {
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
        say_or_call(text, reply, draft);
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
            say_or_call(text, reply, draft);
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
        reply.older_call(Call::new(None, tool, call.arguments.unwrap_or_default().0), draft);
    }
}

/// Words of the agent, and the call that models write at their end which have none of their own.
fn say_or_call(text: String, reply: &mut Reply, draft: &mut Draft) {
    match Call::written(&text) {
        Some((said, call)) => {
            reply.text(said.trim_end().to_owned(), draft);
            reply.call(call, &mut Vec::new(), draft);
        }
        None => reply.text(text, draft),
    }
}

fn block_call(block: super::content::Block) -> Call {
    let kind = block.kind.unwrap_or_default();
    let of_kind = kind.strip_suffix("_tool_use").unwrap_or(UNKNOWN_TOOL).to_owned();
    let arguments = block.input.unwrap_or_default().0;
    Call::new(block.id, block.name.unwrap_or(of_kind), arguments)
}

/// A user message; in the Anthropic style it may hold tool results among its blocks.
fn read_user(message: Message, draft: &mut Draft) {
    let mut rest = match message.content.unwrap_or_default() {
        Content::Blocks(blocks) => push_results(blocks, draft),
        content => {
            let text = content.into_text(&mut draft.losses);
            if !text.is_empty() || message.tool_calls.is_none() {
                say_or_result(text, draft);
            }
            Vec::new()
        }
    };
    if !rest.is_empty() {
        let text = Content::Blocks(std::mem::take(&mut rest)).into_text(&mut draft.losses);
        say_or_result(text, draft);
    }
    for call in message.tool_calls.map(|c| c.0).unwrap_or_default() {
        let (_, tool, arguments) = call.into_parts();
        draft.losses.add("tool call of the user kept as text");
        draft.user(format!("[tool_call] {tool} {arguments}"));
    }
}

/// Words of the user; OpenHands writes results so, too, for models without calls of their own.
fn say_or_result(text: String, draft: &mut Draft) {
    match text.strip_prefix("EXECUTION RESULT of [").and_then(|rest| rest.split_once("]:")) {
        Some((tool, _)) if draft.has_open_call() => {
            let tool = Some(tool.to_owned());
            draft.result(None, tool, text, None);
        }
        Some(_) => draft.observation(text, None),
        None => draft.user(text),
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
