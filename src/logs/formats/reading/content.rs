//! Contents of messages in the OpenAI and Anthropic styles: a text, null, or a list of blocks.
//!
//! Base64 data is never kept: only its media type and size.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::logs::formats::reading::draft::Losses;
use crate::logs::formats::reading::fields::{List, is_lenient, next_item, note_odd};
use crate::logs::formats::reading::record;
use crate::logs::formats::reading::scalar::Scalar;

mod media;

pub(crate) use media::{Media, media_text};

/// What stands under `content`.
#[derive(Debug, Default)]
pub(crate) enum Content {
    #[default]
    Null,
    Text(String),
    Blocks(Vec<Block>),
}

record! {
    /// One block of a content list, of any kind.
    #[derive(Debug)]
    struct Block in "block" {
        kind: String = "type",
        text: String = "text" | "input_text" | "output_text",
        thinking: String = "thinking" | "think",
        refusal: String = "refusal",
        id: String = "id",
        name: String = "name",
        input: Arguments = "input",
        tool_use_id: String = "tool_use_id",
        content: Box<Content> = "content",
        is_error: Scalar = "is_error",
        image_url: Box<Media> = "image_url",
        source: Box<Media> = "source",
        data: Box<Media> = "data",
        file: Box<Media> = "file",
        input_audio: Box<Media> = "input_audio",
        .. rest
    }

    /// A call of a tool, in the styles of OpenAI (`function`) and tau2 (flat).
    #[derive(Debug)]
    struct ToolCall in "tool_call" {
        id: String = "id",
        function: Function = "function",
        name: String = "name",
        arguments: Arguments = "arguments" | "args" | "input" | "parameters",
        requestor: String = "requestor",
    }

    /// The function that is called.
    #[derive(Debug)]
    struct Function in "function" {
        name: String = "name",
        arguments: Arguments = "arguments",
    }
}

/// Stands for the name of a tool that is not logged.
pub(crate) const UNKNOWN_TOOL: &str = "unknown";

impl ToolCall {
    /// Name and arguments, wherever they stand.
    pub(crate) fn into_parts(self) -> (Option<String>, String, String) {
        let function = self.function.unwrap_or_default();
        let name = function.name.or(self.name).unwrap_or_else(|| UNKNOWN_TOOL.to_owned());
        let arguments = function.arguments.or(self.arguments).map_or(String::new(), |a| a.0);
        (self.id, name, arguments)
    }
}

/// A list of calls; items may be objects or JSON in a string (as verifiers logs them).
#[derive(Debug)]
pub(crate) struct ToolCalls(pub(crate) Vec<ToolCall>);

impl<'de> Deserialize<'de> for ToolCalls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if is_lenient() {
            return Ok(ToolCalls::odd(<&RawValue>::deserialize(deserializer)?.get()));
        }
        let items = Vec::<ToolCallItem>::deserialize(deserializer)?;
        Ok(ToolCalls(items.into_iter().map(|i| i.0).collect()))
    }
}

impl ToolCalls {
    /// Calls that are not all in a list: one call alone is taken, what is no call is left out.
    fn odd(text: &str) -> Self {
        if let Ok(List(items)) = serde_json::from_str::<List<ToolCallItem>>(text) {
            return ToolCalls(items.into_iter().map(|i: ToolCallItem| i.0).collect());
        }
        match serde_json::from_str::<ToolCall>(text) {
            Ok(call) if call.function.is_some() || call.name.is_some() => {
                note_odd("tool call outside of a list");
                ToolCalls(vec![call])
            }
            _ => {
                note_odd("tool calls that are no list left out");
                ToolCalls(Vec::new())
            }
        }
    }
}

struct ToolCallItem(ToolCall);

impl<'de> Deserialize<'de> for ToolCallItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemVisitor;
        impl<'de> Visitor<'de> for ItemVisitor {
            type Value = ToolCallItem;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a tool call")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToolCallItem, A::Error> {
                ToolCall::deserialize(de::value::MapAccessDeserializer::new(map)).map(ToolCallItem)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ToolCallItem, E> {
                serde_json::from_str(text).map(ToolCallItem).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(ItemVisitor)
    }
}

/// Arguments of a call as logged: the text of a JSON string, or the JSON itself.
#[derive(Debug, Default)]
pub(crate) struct Arguments(pub(crate) String);

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        if raw.starts_with('"') {
            serde_json::from_str(raw).map(Arguments).map_err(de::Error::custom)
        } else {
            Ok(Arguments(raw.to_owned()))
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, null or a list of content blocks")
    }
    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Text(text.to_owned()))
    }
    fn visit_string<E>(self, text: String) -> Result<Content, E> {
        Ok(Content::Text(text))
    }
    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }
    fn visit_bool<E>(self, v: bool) -> Result<Content, E> {
        Ok(Content::Text(v.to_string()))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Content, E> {
        Ok(Content::Text(v.to_string()))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Content, E> {
        Ok(Content::Text(v.to_string()))
    }
    fn visit_f64<E>(self, v: f64) -> Result<Content, E> {
        Ok(Content::Text(v.to_string()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content, A::Error> {
        // Most lists have one block, and a block is large.
        let mut blocks = Vec::with_capacity(1);
        while let Some(item) = next_item::<BlockItem, _>(&mut seq)? {
            blocks.push(item.0);
        }
        Ok(Content::Blocks(blocks))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Content, A::Error> {
        let block = Block::deserialize(de::value::MapAccessDeserializer::new(map))?;
        Ok(Content::Blocks(vec![block]))
    }
}

/// A block, or a bare text that stands for a text block.
struct BlockItem(Block);

impl<'de> Deserialize<'de> for BlockItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemVisitor;
        impl<'de> Visitor<'de> for ItemVisitor {
            type Value = BlockItem;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a content block")
            }
            fn visit_str<E>(self, text: &str) -> Result<BlockItem, E> {
                let kind = Some("text".to_owned());
                Ok(BlockItem(Block { kind, text: Some(text.to_owned()), ..Block::default() }))
            }
            fn visit_unit<E>(self) -> Result<BlockItem, E> {
                Ok(BlockItem(Block { kind: Some("null".to_owned()), ..Block::default() }))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<BlockItem, A::Error> {
                Block::deserialize(de::value::MapAccessDeserializer::new(map)).map(BlockItem)
            }
        }
        deserializer.deserialize_any(ItemVisitor)
    }
}

/// The result of a tool that stands among the blocks of a message.
pub(crate) struct BlockResult {
    pub(crate) id: Option<String>,
    pub(crate) text: String,
    pub(crate) is_error: Option<bool>,
}

impl Block {
    /// Whether it is a call of a tool, of the client or of the server (`server_tool_use`, `mcp_tool_use`).
    pub(crate) fn is_call(&self) -> bool {
        self.kind.as_deref().is_some_and(|k| k == "tool_use" || k.ends_with("_tool_use"))
    }

    /// Whether it is reasoning.
    pub(crate) fn is_thought(&self) -> bool {
        matches!(self.kind.as_deref(), Some("thinking" | "reasoning" | "think" | "redacted_thinking"))
    }

    /// Whether it is the result of a tool (`tool_result`, `web_search_tool_result`, ...).
    pub(crate) fn is_result(&self) -> bool {
        self.kind.as_deref().is_some_and(|k| k == "tool_result" || k.ends_with("_tool_result"))
    }

    /// The result in a block that is one. An error of the server's tools is told by the type of the content.
    pub(crate) fn into_result(self, losses: &mut Losses) -> BlockResult {
        let failed = match self.content.as_deref() {
            Some(Content::Blocks(blocks)) => {
                let is_error = |b: &Block| b.kind.as_deref().is_some_and(|k| k.ends_with("_error"));
                blocks.iter().any(is_error).then_some(true)
            }
            _ => None,
        };
        let text = match self.content {
            Some(content) => content.into_text(losses),
            None => self.text.unwrap_or_else(|| self.rest.words()),
        };
        let is_error = self.is_error.and_then(|is| is.truth("is_error", losses)).or(failed);
        BlockResult { id: self.tool_use_id, text, is_error }
    }

    /// The text that stands for this block in a plain reading; nothing for blocks without words.
    pub(crate) fn into_text(self, losses: &mut Losses) -> Option<String> {
        let kind = self.kind.as_deref().unwrap_or("text");
        match kind {
            k if (k == "text" || k.ends_with("_text")) && self.text.is_some() => self.text,
            "refusal" if self.refusal.is_some() => self.refusal,
            "image"
            | "image_url"
            | "input_image"
            | "computer_screenshot"
            | "document"
            | "file"
            | "input_file"
            | "input_audio"
            | "audio" => {
                let media = self.image_url.or(self.source).or(self.file).or(self.input_audio).or(self.data);
                let media = media.unwrap_or_default();
                if media.text.is_some() {
                    return media.text;
                }
                losses.add("media replaced by a placeholder");
                let kind = if kind.contains("image") || kind.contains("screenshot") {
                    "image"
                } else if kind.contains("audio") {
                    "audio"
                } else {
                    "file"
                };
                Some(media.placeholder(kind))
            }
            _ => self.without_rule(losses),
        }
    }

    /// A block of a kind without a rule: its type and all its words.
    fn without_rule(self, losses: &mut Losses) -> Option<String> {
        let kind = self.kind.as_deref().unwrap_or("block");
        let name: String = kind.chars().take(40).collect();
        let fields = [
            self.name.as_ref().map(|name| format!("name: {name}")),
            self.text,
            self.thinking,
            self.refusal,
            self.input.as_ref().map(|input| super::fields::words_of(&input.0)),
            self.content.map(|content| content.into_text(losses)),
            self.source.and_then(|media| media.address.or(media.text)),
            Some(self.rest.words()),
        ];
        let words: Vec<String> = fields.into_iter().flatten().filter(|w| !w.is_empty()).collect();
        if words.is_empty() {
            losses.add(&format!("block without text: {name}"));
            return None;
        }
        losses.add(&format!("block without a rule kept as text: {name}"));
        Some(format!("[{name}] {}", words.join("\n")))
    }
}

impl Content {
    /// Whether nothing stands there.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Content::Null => true,
            Content::Text(text) => text.is_empty(),
            Content::Blocks(blocks) => blocks.is_empty(),
        }
    }

    /// Puts text behind it.
    pub(crate) fn append(&mut self, text: String) {
        match self {
            Content::Text(before) if !before.is_empty() => before.extend(["\n", &text]),
            Content::Blocks(blocks) => {
                blocks.push(Block { kind: Some("text".to_owned()), text: Some(text), ..Block::default() });
            }
            _ => *self = Content::Text(text),
        }
    }

    /// Appends what it says, as far as repeats of it are told by that.
    pub(crate) fn say<'a>(&'a self, out: &mut Vec<&'a str>) {
        match self {
            Content::Null => {}
            Content::Text(text) => out.push(text),
            Content::Blocks(blocks) => {
                for block in blocks {
                    out.extend(
                        [&block.text, &block.thinking, &block.refusal].into_iter().flatten().map(|t| &**t),
                    );
                    if let Some(content) = &block.content {
                        content.say(out);
                    }
                }
            }
        }
    }

    pub(crate) fn is_text(&self, text: &str) -> bool {
        matches!(self, Content::Text(t) if t == text)
    }

    /// All text of the content; blocks are joined by line ends, media become placeholders.
    pub(crate) fn into_text(self, losses: &mut Losses) -> String {
        match self {
            Content::Null => String::new(),
            Content::Text(text) => text,
            Content::Blocks(blocks) => {
                let mut out = String::new();
                for (i, block) in blocks.into_iter().enumerate() {
                    if let Some(text) = block.into_text(losses) {
                        if i == 0 {
                            out = text;
                        } else {
                            if !out.is_empty() {
                                out.push('\n');
                            }
                            out.push_str(&text);
                        }
                    }
                }
                out
            }
        }
    }
}

#[cfg(test)]
mod tests;
