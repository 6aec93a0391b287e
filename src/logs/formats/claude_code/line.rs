//! One line of a session as it stands in the file, and what of it is used.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::value::RawValue;

use crate::logs::formats::reading::content::{Arguments, Block, ToolCall, ToolCalls};
use crate::logs::formats::reading::draft::Losses;
use crate::logs::formats::reading::others::{self, Others, Said};
use crate::logs::formats::reading::scalar::Scalar;
use crate::logs::formats::reading::usage::LoggedUsage;
use crate::logs::formats::reading::{Content, List, record};

record! {
    struct Line in "claude" {
        kind: String = "type",
        subtype: String = "subtype",
        uuid: String = "uuid",
        parent: String = "parentUuid",
        logical_parent: String = "logicalParentUuid",
        session_id: String = "sessionId" | "session_id",
        request_id: String = "requestId",
        agent_id: String = "agentId",
        timestamp: Scalar = "timestamp",
        cwd: String = "cwd",
        is_sidechain: Scalar = "isSidechain",
        is_meta: Scalar = "isMeta" | "isSynthetic",
        is_compact_summary: Scalar = "isCompactSummary",
        is_transcript_only: Scalar = "isVisibleInTranscriptOnly",
        is_api_error: Scalar = "isApiErrorMessage",
        summary: String = "summary",
        content: Content = "content",
        operation: String = "operation",
        message: Message = "message",
        tool_use_result: ToolUseResult = "toolUseResult",
        attachment: Json = "attachment",
        rendered: Json = "rendered",
        leaf: String = "leafUuid",
        compact: Compact = "compactMetadata" | "compact_metadata",
        microcompact: Microcompact = "microcompactMetadata" | "microcompact_metadata",
        // Of the output of --output-format stream-json.
        model: String = "model",
        parent_call: String = "parent_tool_use_id",
        usage: LoggedUsage = "usage",
        cost: Scalar = "total_cost_usd",
    }

    struct Message in "claude.message" {
        id: String = "id",
        model: String = "model",
        content: Pieces = "content",
        usage: LoggedUsage = "usage",
        context_management: ContextManagement = "context_management",
        tool_calls: ToolCalls = "tool_calls",
        .. rest
    }

    struct ContextManagement in "claude.message.context_management" {
        applied: List<Json> = "applied_edits",
    }

    struct Microcompact in "claude.microcompactMetadata" {
        tools: List<String> = "compactedToolIds",
        attachments: List<String> = "clearedAttachmentUUIDs",
        before: Scalar = "preTokens",
        saved: Scalar = "tokensSaved",
    }

    /// What a compaction did.
    struct Compact in "claude.compactMetadata" {
        messages: KeptMessages = "preservedMessages",
        segment: KeptSegment = "preservedSegment",
        before: Scalar = "preTokens" | "pre_tokens",
        behind: Scalar = "postTokens" | "post_tokens",
    }

    struct KeptMessages in "claude.compactMetadata.preservedMessages" {
        uuids: List<String> = "uuids",
        all: List<String> = "allUuids",
    }

    struct KeptSegment in "claude.compactMetadata.preservedSegment" {
        head: String = "headUuid",
        tail: String = "tailUuid",
    }
}

impl Line {
    /// An empty name names nothing.
    pub(super) fn forget_empty_ids(&mut self) {
        let message = self.message.as_mut().map(|message| &mut message.id);
        let ids = [&mut self.uuid, &mut self.session_id, &mut self.request_id, &mut self.agent_id];
        for id in ids.into_iter().chain(message) {
            id.take_if(|id| id.is_empty());
        }
    }
}

impl Message {
    /// The content, which other programs with the same lines log as `parts`.
    pub(super) fn take_pieces(&mut self, losses: &mut Losses) -> Vec<Piece> {
        let pieces = self.content.take().unwrap_or_default().0;
        let has_key = |(key, _): &(String, Box<RawValue>)| key == "parts";
        let parts = self.rest.0.iter().position(has_key).filter(|_| pieces.is_empty());
        match parts.and_then(|i| Some((i, serde_json::from_str::<Pieces>(self.rest.0[i].1.get()).ok()?))) {
            Some((i, parts)) => {
                self.rest.0.remove(i);
                losses.add("field without a rule read as content: parts");
                parts.0
            }
            None => pieces,
        }
    }

    /// What its fields without a rule say, and its pieces do not.
    pub(super) fn take_others(&mut self, pieces: &[Piece], losses: &mut Losses) -> Others {
        let mut others = others::read(&self.rest, || said(pieces), losses);
        others.calls.extend(self.tool_calls.take().into_iter().flat_map(|calls| calls.0));
        others
    }
}

/// All words and arguments of these pieces.
fn said(pieces: &[Piece]) -> Said {
    let mut texts = Vec::new();
    for Piece { block, .. } in pieces {
        let arguments = block.input.as_ref().map(|input| &input.0);
        let own = [block.text.as_ref(), block.thinking.as_ref(), arguments];
        texts.extend(own.into_iter().flatten().map(String::as_str));
        if let Some(content) = &block.content {
            content.say(&mut texts);
        }
    }
    Said::of(texts)
}

/// A value as its JSON text.
#[derive(Default)]
pub(super) struct Json(pub(super) String);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Json(<&RawValue>::deserialize(deserializer)?.get().to_owned()))
    }
}

/// The result of a tool as the program holds it. The model saw the one in the message, which is why only this
/// is taken of it: whether it was the user who refused the call.
#[derive(Default)]
pub(super) struct ToolUseResult {
    pub(super) is_by_user: bool,
}

impl<'de> Deserialize<'de> for ToolUseResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        Ok(ToolUseResult { is_by_user: raw == "\"User rejected tool use\"" })
    }
}

/// The content of a message, block by block.
#[derive(Default)]
pub(super) struct Pieces(pub(super) Vec<Piece>);

/// A block, and its JSON text if it is of a kind without a rule.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) block: Block,
    raw: Option<String>,
}

const KNOWN: [&str; 8] = [
    "text",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "server_tool_use",
    "mcp_tool_use",
    "tool_result",
    "image",
];

impl<'de> Deserialize<'de> for Pieces {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let pieces: serde_json::Result<Vec<Piece>> = if raw.starts_with('[') {
            serde_json::from_str::<Vec<&RawValue>>(raw)
                .and_then(|items| items.iter().map(|item| Piece::read(item.get())).collect())
        } else {
            Piece::read(raw).map(|piece| vec![piece])
        };
        pieces.map(Pieces).map_err(D::Error::custom)
    }
}

impl Pieces {
    /// Whether it is a text that begins so.
    pub(super) fn begins_with(&self, start: &str) -> bool {
        let first = self.0.first().and_then(|piece| piece.block.text.as_ref());
        first.is_some_and(|text| text.starts_with(start))
    }
}

impl Piece {
    fn read(raw: &str) -> serde_json::Result<Self> {
        if !raw.starts_with('{') {
            let text = if raw.starts_with('"') { serde_json::from_str(raw)? } else { raw.to_owned() };
            return Ok(Piece::text(text));
        }
        let mut block: Block = serde_json::from_str(raw)?;
        if block.kind.is_none() {
            read_google(&mut block);
        }
        for id in [&mut block.id, &mut block.tool_use_id] {
            id.take_if(|id| id.is_empty());
        }
        let is_known = block.kind.as_deref().is_none_or(|kind| KNOWN.contains(&kind));
        Ok(Piece { block, raw: (!is_known).then(|| raw.to_owned()) })
    }

    pub(super) fn text(text: String) -> Self {
        let block = Block { kind: Some("text".to_owned()), text: Some(text), ..Block::default() };
        Piece { block, raw: None }
    }

    pub(super) fn kind(&self) -> &str {
        self.block.kind.as_deref().unwrap_or("text")
    }

    /// Whether it is the result of a call, of any kind of tool.
    pub(super) fn is_result(&self) -> bool {
        self.kind().ends_with("tool_result")
    }

    /// Whether it is a call, of any kind of tool.
    pub(super) fn is_call(&self) -> bool {
        self.kind().ends_with("tool_use")
    }

    /// The text of the result of a call, and whether it is an error.
    pub(super) fn into_result(self, losses: &mut Losses) -> (String, Option<bool>) {
        let is_error = self.block.is_error.and_then(|is| is.truth("is_error", losses));
        let Some(raw) = self.raw else {
            let text = self.block.content.map_or(String::new(), |content| content.into_text(losses));
            return (text, is_error);
        };
        let value: serde_json::Value = serde_json::from_str(&raw).unwrap_or_default();
        let content = value.get("content").unwrap_or(&serde_json::Value::Null);
        let kind = content.get("type").and_then(serde_json::Value::as_str).unwrap_or("");
        let is_error = kind.ends_with("_error").then_some(true).or(is_error);
        (readable(content, losses), is_error)
    }

    /// The text that stands for a block that is neither call nor result. One of a kind without a rule is kept
    /// with its kind, and counted.
    pub(super) fn into_text(self, losses: &mut Losses) -> Option<String> {
        let Some(raw) = self.raw.filter(|_| self.block.text.is_none()) else {
            return self.block.into_text(losses);
        };
        let kind = self.block.kind.as_deref().unwrap_or("");
        // Media have their rule where the other formats have theirs.
        if matches!(kind, "document" | "file" | "audio" | "input_audio" | "image_url") {
            return self.block.into_text(losses);
        }
        let value: serde_json::Value = serde_json::from_str(&raw).unwrap_or_default();
        losses.add(&format!("block kept as text: {}", short(kind)));
        Some(format!("{kind}\n{}", readable(&value, losses)))
    }
}

/// A call, a result or a thought in a block without a type, as Google's models have it.
fn read_google(block: &mut Block) {
    for (key, raw) in std::mem::take(&mut block.rest.0) {
        let value: serde_json::Value = serde_json::from_str(raw.get()).unwrap_or_default();
        let kind = match (key.as_str(), serde_json::from_str::<ToolCall>(raw.get())) {
            ("functionCall", Ok(call)) => {
                let (id, name, arguments) = call.into_parts();
                (block.id, block.name, block.input) = (id, Some(name), Some(Arguments(arguments)));
                "tool_use"
            }
            ("functionResponse", Ok(ToolCall { id, .. })) => {
                let response = value.get("response").unwrap_or(&serde_json::Value::Null);
                let text = response.get("output").or(response.get("error")).and_then(|text| text.as_str());
                let whole = text.filter(|_| response.as_object().is_some_and(|fields| fields.len() == 1));
                let text = whole.map_or_else(|| response.to_string(), str::to_owned);
                block.is_error = response.get("error").map(|_| Scalar::Bool(true));
                (block.tool_use_id, block.content) = (id, Some(Box::new(Content::Text(text))));
                "tool_result"
            }
            ("thought", _) if value == true => {
                block.thinking = block.text.take();
                "thinking"
            }
            _ => {
                block.rest.0.push((key, raw));
                continue;
            }
        };
        block.kind = Some(kind.to_owned());
    }
}

/// Whether a mark of a line is set.
pub(super) fn is_true(mark: Option<Scalar>, name: &str, losses: &mut Losses) -> bool {
    mark.and_then(|mark| mark.truth(name, losses)) == Some(true)
}

/// A name that a log gives, cut.
pub(super) fn short(name: &str) -> String {
    name.chars().take(40).collect()
}

/// JSON as lines of text: each value with its key. What is encrypted nobody can read, and is left out.
pub(super) fn readable(value: &serde_json::Value, losses: &mut Losses) -> String {
    fn add(key: &str, value: &serde_json::Value, out: &mut String, losses: &mut Losses) {
        use serde_json::Value::{Array, Null, Object, String};
        match value {
            Null => {}
            Array(items) => items.iter().for_each(|item| add(key, item, out, losses)),
            Object(fields) => {
                for (key, value) in fields {
                    match key.as_str() {
                        "type" | "tool_use_id" => {}
                        key if key.starts_with("encrypted_") => losses.add("encrypted content left out"),
                        key => add(key, value, out, losses),
                    }
                }
            }
            other => {
                if !out.is_empty() {
                    out.push('\n');
                }
                if !matches!(key, "" | "text" | "content") {
                    out.push_str(key);
                    out.push_str(": ");
                }
                match other {
                    String(text) => out.push_str(text),
                    other => out.push_str(&other.to_string()),
                }
            }
        }
    }
    let mut out = String::new();
    add("", value, &mut out, losses);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(json: &str) -> Piece {
        serde_json::from_str::<Pieces>(json).unwrap().0.remove(0)
    }

    #[test]
    fn blocks_of_unknown_kinds_are_kept() {
        let mut losses = Losses::default();
        let text = piece(r#"[{"type":"poem","lines":["a","b"],"n":2}]"#).into_text(&mut losses);
        assert_eq!(text.as_deref(), Some("poem\nlines: a\nlines: b\nn: 2"));
        assert_eq!(losses.0["block kept as text: poem"], 1);
        let found = r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result",
            "title":"T","url":"https://x","encrypted_content":"Eo8","page_age":null}]}"#;
        let result = piece(found);
        assert!(result.is_result());
        assert_eq!(result.into_result(&mut losses), ("title: T\nurl: https://x".to_owned(), None));
        assert_eq!(losses.0["encrypted content left out"], 1);
        let failed = r#"{"type":"web_fetch_tool_result","content":{"type":"web_fetch_tool_result_error","error_code":"x"}}"#;
        assert_eq!(piece(failed).into_result(&mut losses), ("error_code: x".to_owned(), Some(true)));
    }

    #[test]
    fn who_spoke_in_a_result() {
        let is_by_user = |json: &str| serde_json::from_str::<ToolUseResult>(json).unwrap().is_by_user;
        assert!(is_by_user(r#""User rejected tool use""#));
        // Any tool may have a field of this name.
        assert!(!is_by_user(r#"{"answers":[{"id":1}],"total":5}"#));
        assert!(!is_by_user("\"ok\""));
    }
}
