//! Messages of Inspect as messages of a chat, and the texts that stand apart from them.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::logs::formats::reading::chat::Message;
use crate::logs::formats::reading::content::{Arguments, Block, Function, ToolCalls};
use crate::logs::formats::reading::fields;
use crate::logs::formats::reading::names::Name;
use crate::logs::formats::reading::scalar::Scalar;
use crate::logs::formats::reading::{Content, List, ToolCall, record};

record! {
    struct Logged in "inspect.message" {
        id: Name = "id",
        role: String = "role",
        content: Content = "content",
        tool_calls: List<LoggedCall> = "tool_calls",
        tool_call_id: String = "tool_call_id",
        /// The tool that a result is of.
        function: String = "function",
        error: ToolError = "error",
        .. rest but "source" | "model" | "metadata"
    }

    struct LoggedCall in "inspect.call" {
        id: String = "id",
        function: String = "function",
        arguments: Arguments = "arguments",
    }

    struct ToolError in "inspect.error" {
        message: String = "message",
    }
}

/// A message in the words that stand there; none if it is none.
pub(super) fn read(raw: &str) -> Option<Message> {
    let logged: Logged = serde_json::from_str(raw).ok()?;
    let calls = logged.tool_calls.map(|calls| {
        let of = |call: LoggedCall| {
            let arguments = call.arguments.map(|a| Arguments(fields::words_of(&a.0)));
            let function = Some(Function { name: call.function, arguments });
            ToolCall { id: call.id, function, ..ToolCall::default() }
        };
        ToolCalls(calls.0.into_iter().map(of).collect())
    });
    let is_error = logged.error.is_some().then_some(Scalar::Bool(true));
    // Of a failed call the model gets the error alone.
    let content = match logged.error.and_then(|error| error.message) {
        Some(error) => Some(Content::Text(format!("Error: {error}"))),
        None => logged.content.map(content),
    };
    Some(Message {
        role: logged.role,
        content,
        tool_calls: calls,
        tool_call_id: logged.tool_call_id,
        id: logged.id,
        name: logged.function,
        is_error,
        rest: logged.rest,
        ..Message::default()
    })
}

fn content(content: Content) -> Content {
    match content {
        Content::Blocks(blocks) => Content::Blocks(blocks.into_iter().flat_map(block).collect()),
        content => content,
    }
}

/// A block in the style of Anthropic; what the provider ran is a call with its result.
fn block(mut block: Block) -> Vec<Block> {
    match block.kind.as_deref() {
        Some("reasoning") => {
            let (said, summary) = (block.rest.take_text("reasoning"), block.rest.take_text("summary"));
            let is_redacted = block.rest.take_text("redacted") == "true";
            block.thinking = Some(if is_redacted { summary } else { said });
        }
        Some("image" | "audio" | "video") => {
            let media = ["image", "audio", "video"].iter().find_map(|key| block.rest.take(key));
            block.image_url = media.and_then(|raw| serde_json::from_str(raw.get()).ok());
        }
        Some("tool_use") => {
            let arguments = block.rest.take("arguments");
            block.input = block.input.or(arguments.and_then(|raw| serde_json::from_str(raw.get()).ok()));
            let (result, error) =
                (block.rest.take_as::<Content>("result"), block.rest.take_as::<Content>("error"));
            let is_error = error.as_ref().is_some_and(|error| !error.is_empty());
            let result = Block {
                kind: Some("tool_result".to_owned()),
                tool_use_id: block.id.clone(),
                content: Some(Box::new(if is_error { error } else { result }.unwrap_or_default())),
                is_error: is_error.then_some(Scalar::Bool(true)),
                ..Block::default()
            };
            return vec![block, result];
        }
        _ => {}
    }
    vec![block]
}

/// Texts that stand once for a sample, each in the place of `attachment://` and its hash.
pub(super) struct Attachments {
    texts: HashMap<String, Box<RawValue>>,
    /// Bytes that may still be put in.
    left: Cell<usize>,
    pub(super) n_missing: Cell<u64>,
}

/// How a text begins that stands for another one; the second is of 2024.
const MARKS: [&str; 2] = ["\"attachment://", "\"tc://"];

impl Attachments {
    /// Of a sample of so many bytes: texts that are named again and again may take several times that.
    pub(super) fn new(texts: HashMap<String, Box<RawValue>>, n_bytes: usize) -> Self {
        Attachments { texts, left: Cell::new(8 * n_bytes + (16 << 20)), n_missing: Cell::new(0) }
    }

    /// The JSON with these texts in it.
    pub(super) fn resolve<'a>(&self, raw: &'a str) -> Cow<'a, str> {
        let mut out = Cow::Borrowed(raw);
        for mark in MARKS {
            if memchr::memmem::find(out.as_bytes(), mark.as_bytes()).is_some() {
                out = Cow::Owned(self.replaced(&out, mark));
            }
        }
        out
    }

    fn replaced(&self, raw: &str, mark: &str) -> String {
        let (mut out, mut rest) = (String::new(), raw);
        while let Some(at) = rest.find(mark) {
            let key = &rest[at + mark.len()..];
            let Some(end) = key.find('"') else { break };
            out.push_str(&rest[..at]);
            let text = self.texts.get(&key[..end]).filter(|text| text.get().len() <= self.left.get());
            match text {
                Some(text) => {
                    self.left.set(self.left.get() - text.get().len());
                    out.push_str(text.get());
                }
                None => {
                    self.n_missing.set(self.n_missing.get() + 1);
                    out.push_str(&rest[at..at + mark.len() + end + 1]);
                }
            }
            rest = &key[end + 1..];
        }
        out + rest
    }
}
