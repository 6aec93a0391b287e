//! Messages of goose, which become steps: results stand in messages of the user.
//!
//! Flags say who sees a message. A compaction takes the agent's sight of all that was said, and puts a summary behind it
//! that the user does not see, and a copy of the user's newest words. A call and its result may give way to a summary of
//! their own.

use std::collections::{HashMap, HashSet};

use crate::logs::formats::reading::content::Arguments;
use crate::logs::formats::reading::draft::Losses;
use crate::logs::formats::reading::fields::Embedded;
use crate::logs::formats::reading::reply::{Call, Reply};
use crate::logs::formats::reading::scalar::Scalar;
use crate::logs::formats::reading::{Content, Draft, List, record};

record! {
    /// A row of the table of messages, or a line of the older files.
    struct Message in "goose.message" {
        session: String = "session_id",
        role: String = "role",
        content: Embedded<List<Item>> = "content_json" | "content",
        created: Scalar = "created_timestamp" | "created",
        metadata: Embedded<Metadata> = "metadata_json" | "metadata",
    }

    struct Metadata in "goose.message.metadata" {
        user_sees: Scalar = "userVisible",
        agent_sees: Scalar = "agentVisible",
    }

    struct Item in "goose.item" {
        kind: String = "type",
        text: String = "text",
        thinking: String = "thinking",
        id: String = "id",
        call: Outcome<Called> = "toolCall",
        result: Outcome<Output> = "toolResult",
        .. rest but "_meta" | "metadata" | "signature" | "annotations"
    }

    struct Called in "goose.call" {
        name: String = "name",
        arguments: Arguments = "arguments",
    }

    struct Returned in "goose.result" {
        content: List<Piece> = "content",
        is_error: Scalar = "isError" | "is_error",
    }

    /// A piece of a result; some are for the user alone.
    struct Piece in "goose.result.piece" {
        kind: String = "type",
        text: String = "text",
        mime: String = "mimeType",
        resource: Resource = "resource",
        annotations: Annotations = "annotations",
        .. rest but "data" | "_meta"
    }

    struct Resource in "goose.result.resource" {
        text: String = "text",
        uri: String = "uri",
    }

    struct Annotations in "goose.annotations" {
        audience: List<String> = "audience",
    }
}

/// What went well or wrong.
#[derive(Debug, serde::Deserialize)]
#[serde(bound = "T: serde::de::DeserializeOwned")]
pub(crate) struct Outcome<T> {
    value: Option<T>,
    error: Option<Content>,
}

impl<T> Default for Outcome<T> {
    fn default() -> Self {
        Outcome { value: None, error: None }
    }
}

/// Newer results are an object, older ones the list in it.
#[derive(Default)]
pub(crate) struct Output(Returned);

impl<'de> serde::Deserialize<'de> for Output {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&serde_json::value::RawValue>::deserialize(deserializer)?.get();
        let read = match raw.starts_with('[') {
            true => {
                serde_json::from_str(raw).map(|content| Returned { content: Some(content), is_error: None })
            }
            false => serde_json::from_str(raw),
        };
        read.map(Output).map_err(serde::de::Error::custom)
    }
}

impl Message {
    fn sees(&self, who: fn(&Metadata) -> Option<Scalar>) -> bool {
        self.metadata.as_ref().and_then(|m| who(&m.0)) != Some(Scalar::Bool(false))
    }

    fn agent_sees(&self) -> bool {
        self.sees(|m| m.agent_sees)
    }

    fn items(&self) -> impl Iterator<Item = &Item> {
        self.content.iter().flat_map(|content| &content.0.0)
    }

    fn has_tools(&self) -> bool {
        self.items().any(|item| item.call.is_some() || item.result.is_some())
    }

    fn text(&self) -> String {
        self.items().filter_map(|item| item.text.as_deref()).collect::<Vec<_>>().join("\n")
    }

    /// Whether the program put it before the agent alone.
    fn is_internal(&self) -> bool {
        !self.sees(|m| m.user_sees)
    }
}

/// Pushes the messages of a session, in their order; says whether the log records edits of the context.
pub(crate) fn read_all(messages: Vec<Message>, draft: &mut Draft) -> bool {
    let summaries = summaries(&messages);
    let last = summaries.iter().rposition(|is| *is);
    let (kept, copies) = kept(&messages, &summaries);
    // Calls and results that the agent did not see any more, until a summary of them comes.
    let mut hidden = Vec::new();
    let mut is_edited = false;
    for (i, message) in messages.into_iter().enumerate() {
        let time = message.created.unwrap_or_default().time(&mut draft.losses);
        draft.at(i, time);
        draft.keep_to(kept[i]);
        let is_compacted = last.is_some_and(|last| i < last);
        let (is_seen, is_pair) = (message.agent_sees(), message.has_tools());
        if copies.contains(&i) || !is_seen && !is_compacted && !is_pair {
            let what = if is_seen { "repeats what a compaction kept" } else { "that the agent does not see" };
            draft.losses.add(&format!("message {what} left out"));
            continue;
        }
        if !is_seen && !is_compacted {
            hidden.push(i);
        }
        let is_internal = message.is_internal();
        let is_agent = message.role.as_deref() == Some("assistant");
        let items = message.content.unwrap_or_default().0.0;
        if summaries[i] {
            let texts: Vec<String> = items.into_iter().filter_map(|item| item.text).collect();
            draft.compaction(texts.join("\n"));
        } else if is_agent && !is_internal {
            read_reply(items, draft);
        } else {
            if is_internal {
                // A call and its result give way to it.
                let n = hidden.len().min(2);
                is_edited |=
                    hidden.drain(..n).fold(false, |any, message| draft.edit_message(message, "") || any);
            }
            read_user(items, is_internal, draft);
        }
    }
    is_edited
}

/// Which messages are summaries: they stand behind nothing but what the agent does not see any more, or before the words that
/// tell it to go on.
fn summaries(messages: &[Message]) -> Vec<bool> {
    let is_agent = |message: &Message| message.role.as_deref() == Some("assistant");
    let goes_on = |next: Option<&Message>| next.is_some_and(|next| is_agent(next) && next.is_internal());
    let mut is_seen = false;
    let mut found: Vec<bool> = Vec::new();
    for (i, message) in messages.iter().enumerate() {
        let is_behind =
            !found.is_empty() && (!is_seen && message.agent_sees() || goes_on(messages.get(i + 1)));
        found.push(is_behind && message.is_internal() && !is_agent(message));
        is_seen |= message.agent_sees();
    }
    found
}

/// For each message the last segment that a compaction kept it for, and the messages that repeat such ones.
fn kept(messages: &[Message], summaries: &[bool]) -> (Vec<Option<u32>>, HashSet<usize>) {
    let (mut kept, mut copies) = (vec![None; messages.len()], HashSet::new());
    let mut said: HashMap<String, usize> = HashMap::new();
    let mut segment = 0;
    for (i, message) in messages.iter().enumerate().filter(|(_, m)| m.role.as_deref() == Some("user")) {
        segment += u32::from(summaries[i]);
        let text = message.text();
        if !message.is_internal() {
            said.insert(text, i);
        } else if let Some(first) =
            said.get(&text).filter(|_| segment > 0 && !summaries[i] && !text.is_empty())
        {
            kept[*first] = Some(segment);
            copies.insert(i);
        }
    }
    (kept, copies)
}

fn read_reply(items: Vec<Item>, draft: &mut Draft) {
    let mut reply: Option<Reply> = None;
    for item in items {
        let kind = item.kind.clone().unwrap_or_default();
        if is_of_harness(&kind) {
            draft.losses.add(&format!("message of the program left out: {kind}"));
            continue;
        }
        let reply = reply.get_or_insert_with(|| Reply::begin(None, draft));
        match kind.as_str() {
            "text" => reply.text(item.text.unwrap_or_default(), draft),
            "thinking" => reply.thought(item.thinking.unwrap_or_default(), draft),
            "redactedThinking" => draft.losses.add("redacted thinking left out"),
            "toolRequest" | "frontendToolRequest" => {
                let outcome = item.call.unwrap_or_default();
                let called = outcome.value.unwrap_or_default();
                // A call that could not be read is told in its place.
                let error = outcome.error.map(|error| error.into_text(&mut draft.losses));
                let arguments = called.arguments.map(|arguments| arguments.0).or(error);
                let tool = called.name.unwrap_or_else(|| "unknown".to_owned());
                reply.call(Call::new(item.id, tool, arguments.unwrap_or_default()), &mut Vec::new(), draft);
            }
            "toolResponse" => {
                let (text, is_error) = result(item.result.unwrap_or_default(), &mut draft.losses);
                reply.result(item.id.as_deref(), text, is_error, draft);
            }
            _ => {
                let text = item.rest.said_as(&kind, &mut draft.losses);
                reply.text(text.unwrap_or_default(), draft);
            }
        }
    }
    if let Some(reply) = reply {
        reply.end(draft);
    }
}

/// What the program tells the user in the name of the agent.
fn is_of_harness(kind: &str) -> bool {
    ["systemNotification", "conversationCompacted", "contextLengthExceeded", "summarizationRequested"]
        .contains(&kind)
}

fn read_user(items: Vec<Item>, is_notice: bool, draft: &mut Draft) {
    let mut texts = Vec::new();
    for item in items {
        let kind = item.kind.unwrap_or_default();
        match kind.as_str() {
            "text" => texts.extend(item.text),
            "toolResponse" => {
                let (text, is_error) = result(item.result.unwrap_or_default(), &mut draft.losses);
                draft.result(item.id.as_deref(), None, text, is_error);
            }
            "image" => {
                draft.losses.add("media replaced by a placeholder");
                texts.push("[image]".to_owned());
            }
            kind if is_of_harness(kind) => {
                draft.losses.add(&format!("message of the program left out: {kind}"));
            }
            kind => texts.extend(item.rest.said_as(kind, &mut draft.losses)),
        }
    }
    let text = texts.join("\n");
    match is_notice {
        _ if text.is_empty() => {}
        true => draft.notice(text),
        false => draft.user(text),
    }
}

/// What the agent was sent of a result, and whether it failed.
fn result(outcome: Outcome<Output>, losses: &mut Losses) -> (String, Option<bool>) {
    if let Some(error) = outcome.error {
        return (error.into_text(losses), Some(true));
    }
    let returned = outcome.value.unwrap_or_default().0;
    let mut texts = Vec::new();
    for piece in returned.content.unwrap_or_default().0 {
        let audience = piece.annotations.and_then(|a| a.audience).unwrap_or_default().0;
        if !audience.is_empty() && !audience.iter().any(|who| who == "assistant") {
            losses.add("part of a result for the user alone left out");
            continue;
        }
        let kind = piece.kind.unwrap_or_default();
        match (piece.text.or(piece.resource.and_then(|r| r.text.or(r.uri))), piece.mime) {
            (Some(text), _) => texts.push(text),
            (None, Some(mime)) => {
                losses.add("media replaced by a placeholder");
                texts.push(format!("[{kind} {mime}]"));
            }
            (None, None) => texts.extend(piece.rest.said_as(&kind, losses)),
        }
    }
    (texts.join("\n"), returned.is_error.and_then(|is| is.truth("isError", losses)))
}
