//! One chat message in the OpenAI or the Anthropic style, or one item of the Responses API: its fields, and who speaks.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::content::{Arguments, Block, Function, ToolCalls};
use super::draft::Losses;
use super::names::Name;
use super::others::{self, Others, Said};
use super::reply::Call;
use super::scalar::Scalar;
use super::usage::LoggedUsage;
use super::{Content, List, record};

record! {
    /// One message, or one item.
    struct Message in "chat.message" {
        role: String = "role",
        kind: String = "type",
        content: Content = "content",
        tool_calls: ToolCalls = "tool_calls",
        function_call: Box<Function> = "function_call",
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
        usage: Box<LoggedUsage> = "usage",
        edits: ContextEdits = "context_management",
        .. rest
    }

    /// What the provider took out of the prompt before the reply.
    struct ContextEdits in "chat.message.context_management" {
        applied: List<ContextEdit> = "applied_edits",
    }

    struct ContextEdit in "chat.message.applied_edit" {
        kind: String = "type",
    }

    /// Speech of the agent.
    struct Audio in "chat.message.audio" {
        transcript: String = "transcript",
    }
}

impl Message {
    /// A call as an item of a reply.
    pub(crate) fn of_call(call: Call, timestamp: Option<Scalar>) -> Self {
        Message {
            kind: Some("function_call".to_owned()),
            call_id: call.id,
            name: Some(call.tool),
            arguments: Some(Arguments(call.arguments)),
            timestamp,
            ..Message::default()
        }
    }

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
    pub(crate) fn said(&self) -> Vec<&str> {
        let mut out = Vec::new();
        for content in [&self.content, &self.reasoning].into_iter().flatten() {
            content.say(&mut out);
        }
        let audio = self.audio.as_ref().and_then(|a| a.transcript.as_deref());
        out.extend(self.refusal.as_deref().into_iter().chain(audio));
        out
    }

    /// What it says in all fields that have a rule, but for calls.
    fn texts(&self) -> Vec<&str> {
        let mut texts = self.said();
        for content in [&self.output, &self.summary].into_iter().flatten() {
            content.say(&mut texts);
        }
        texts.extend([&self.arguments, &self.input].into_iter().flatten().map(|a| a.0.as_str()));
        if let Some(Content::Blocks(blocks)) = &self.content {
            texts.extend(blocks.iter().flat_map(|b| &b.rest.0).map(|(_, raw)| raw.get()));
        }
        texts
    }

    /// The same with its calls, for the search of repeats.
    pub(crate) fn all_said(&self) -> Said {
        let mut said = Said::of(self.texts());
        self.calls().iter().for_each(|call| said.add(&call.arguments));
        said
    }

    /// What tells an item from others of its id: all but its state, and what nobody can read.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.kind, &self.role, &self.call_id, &self.name, self.texts()).hash(&mut hasher);
        self.calls().iter().for_each(|call| (&call.tool, &call.arguments).hash(&mut hasher));
        for (key, raw) in &self.rest.0 {
            if !["status", "encrypted_content"].contains(&key.as_str()) {
                (key, raw.get()).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    /// What it says in fields that have no rule, or none for who speaks.
    pub(crate) fn others(&mut self, is_agent: bool, losses: &mut Losses) -> Others {
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
        others::read(&rest, || self.all_said(), losses)
    }

    /// Whether it stands for all before it, as a whole or with one of its blocks.
    pub(crate) fn compacts(&self) -> bool {
        let is_one = |block: &Block| block.kind.as_deref() == Some("compaction") && block.content.is_some();
        matches!(self.kind.as_deref(), Some("compaction" | "compaction_summary"))
            || matches!(&self.content, Some(Content::Blocks(blocks)) if blocks.iter().any(is_one))
    }

    /// Takes the blocks out that stand for all before them. One without a text is a compaction that failed, or one that
    /// only the provider can read.
    pub(crate) fn take_compactions(&mut self, losses: &mut Losses) -> Vec<String> {
        let Some(Content::Blocks(blocks)) = &mut self.content else {
            return Vec::new();
        };
        let mut texts = Vec::new();
        for block in blocks.extract_if(.., |block| block.kind.as_deref() == Some("compaction")) {
            let is_encrypted =
                block.rest.0.iter().any(|(key, raw)| key == "encrypted_content" && raw.get() != "null");
            let text = block.content.map_or(String::new(), |content| content.into_text(losses));
            match text.is_empty() {
                true if !is_encrypted => losses.add("compaction that failed left out"),
                is_unread => {
                    losses.add_n("compaction whose text is encrypted", u64::from(is_unread));
                    texts.push(text);
                }
            }
        }
        texts
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
        let others = self.others(false, losses).behind(String::new());
        if !others.is_empty() {
            self.content.get_or_insert_default().append(others);
        }
    }

    /// The calls in it.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let mut calls = Vec::new();
        for call in self.tool_calls.iter().flat_map(|c| &c.0) {
            let function = call.function.as_ref();
            let tool = function.and_then(|f| f.name.clone()).or(call.name.clone()).unwrap_or_default();
            let arguments = function.and_then(|f| f.arguments.as_ref()).or(call.arguments.as_ref());
            let arguments = arguments.map_or(String::new(), |a| a.0.clone());
            calls.push(Call::new(call.id.clone(), tool, arguments));
        }
        if let Some(Content::Blocks(blocks)) = &self.content {
            for block in blocks.iter().filter(|b| b.is_call()) {
                let arguments = block.input.as_ref().map_or(String::new(), |a| a.0.clone());
                let tool = block.name.clone().unwrap_or_default();
                calls.push(Call::new(block.id.clone(), tool, arguments));
            }
        }
        if let Some(call) = &self.function_call {
            let arguments = call.arguments.as_ref().map_or(String::new(), |a| a.0.clone());
            calls.push(Call::new(None, call.name.clone().unwrap_or_default(), arguments));
        }
        if self.kind.as_deref().is_some_and(|kind| kind.ends_with("_call")) {
            let id = self.call_id.clone().or(self.id.as_ref().map(|id| id.0.clone()));
            let arguments = self.arguments.as_ref().or(self.input.as_ref()).map_or("", |a| &a.0);
            calls.push(Call::new(id, self.name.clone().unwrap_or_default(), arguments.to_owned()));
        }
        calls
    }

    /// Whether it holds results.
    pub(crate) fn has_answers(&self) -> bool {
        let has_block = |blocks: &[Block]| blocks.iter().any(|b| b.is_result() && b.tool_use_id.is_some());
        self.answered().is_some()
            || matches!(&self.content, Some(Content::Blocks(blocks)) if has_block(blocks))
    }

    /// The call that it answers as a whole.
    fn answered(&self) -> Option<&str> {
        let is_call = self.kind.as_deref().is_some_and(|kind| kind.ends_with("_call"));
        self.tool_call_id.as_deref().or(self.call_id.as_deref().filter(|_| !is_call))
    }

    /// The results in it: id and words.
    pub(crate) fn answers(&self) -> Vec<(&str, String)> {
        let words = |content: Option<&Content>| {
            let mut out = Vec::new();
            content.inspect(|c| c.say(&mut out));
            out.join("\n")
        };
        let mut answers = Vec::new();
        if let Some(id) = self.answered() {
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
pub(crate) enum Speaker {
    Agent,
    Tool,
    System,
    User,
}

pub(crate) fn speaker(role: &str) -> Option<Speaker> {
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
