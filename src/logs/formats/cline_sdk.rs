//! Sessions of the Cline SDK and its command line: `<id>.messages.json` holds all messages. `<id>.compaction.json` beside it
//! is the shortened context that the model sees now: what stands in both counts once, and what it does not hold any more
//! was compacted. `<id>.json` tells of the session.

use std::collections::{BTreeMap, HashMap};

use serde_json::value::RawValue;

use super::reading::content::Arguments;
use super::reading::draft::Losses;
use super::reading::fields::without_long_data;
use super::reading::list::read_around;
use super::reading::names::repository_of;
use super::reading::repair::documents;
use super::reading::reply::{Call, Reply};
use super::reading::scalar::Scalar;
use super::reading::usage::dollars;
use super::reading::{Content, Draft, List, record};
use super::{Entry, File, Origin, Reading, Sink, list_start};
use crate::trajectory::{Trajectory, Usage};

pub(super) const ENTRY: Entry = Entry {
    name: "cline-sdk",
    summary: "sessions of the Cline SDK, with their compactions",
    reading: Reading::Files { together, read, origin },
};

/// Groups files by their folders and names; where a folder holds one session, all compactions in it are of that.
fn together(names: &[&str]) -> Vec<Vec<usize>> {
    let mut sessions: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    let mut n_sessions: HashMap<&str, usize> = HashMap::new();
    let split = |name| -> (&str, &str) { str::rsplit_once(name, '/').unwrap_or(("", name)) };
    for (file, name) in names.iter().enumerate() {
        let (folder, last) = split(name);
        if let Some(id) = last.strip_suffix(".messages.json") {
            sessions.insert((folder, id), vec![file]);
            *n_sessions.entry(folder).or_default() += 1;
        }
    }
    for (file, name) in names.iter().enumerate() {
        let (folder, last) = split(name);
        let id = last.strip_suffix(".json").unwrap_or_default();
        let of = id.strip_suffix(".compaction").unwrap_or(id);
        let is_alone = n_sessions.get(folder) == Some(&1) && of.len() < id.len();
        let found = match sessions.get_mut(&(folder, of)) {
            None if is_alone => sessions.iter_mut().find(|((f, _), _)| *f == folder).map(|(_, files)| files),
            found => found,
        };
        if let Some(files) = found.filter(|_| !id.ends_with(".messages")) {
            files.push(file);
        }
    }
    sessions.into_values().collect()
}

/// The time of a session's first message: a fork copies it.
fn origin(head: &[u8], whole: bool) -> Origin {
    record! {
        struct First in "cline.first" { role: String = "role", time: Scalar = "ts" }
    }
    let is_one = memchr::memmem::find(&head[..head.len().min(4096)], br#""messages""#).is_some();
    let Some(start) = list_start(head, "messages").filter(|_| is_one) else { return Origin::None };
    match serde_json::Deserializer::from_slice(&head[start..]).into_iter::<First>().next() {
        Some(Ok(First { role: Some(_), time: Some(Scalar::Number(time)) })) => {
            Origin::Uuid(format!("cline {time}"))
        }
        Some(Err(error)) if error.is_eof() && !whole => Origin::More,
        _ => Origin::None,
    }
}

record! {
    struct Document in "cline.session" {
        id: String = "sessionId" | "session_id",
        system: String = "system_prompt",
        cwd: String = "cwd" | "workspace_root",
        metadata: SessionMetadata = "metadata",
        updated: Scalar = "updated_at",
        messages: List<Message> = "messages",
    }

    struct SessionMetadata in "cline.session.metadata" {
        fork: Fork = "fork",
    }

    struct Fork in "cline.session.fork" {
        from: String = "forkedFromSessionId",
    }

    struct Message in "cline.message" {
        id: String = "id",
        role: String = "role",
        content: Blocks = "content",
        time: Scalar = "ts",
        model: Model = "modelInfo",
        metrics: Metrics = "metrics",
        metadata: Metadata = "metadata",
    }

    struct Model in "cline.message.model" {
        id: String = "id",
    }

    struct Metrics in "cline.message.metrics" {
        input: Scalar = "inputTokens",
        output: Scalar = "outputTokens",
        cache_read: Scalar = "cacheReadTokens",
        cache_write: Scalar = "cacheWriteTokens",
        cost: Scalar = "cost",
    }

    struct Metadata in "cline.message.metadata" {
        kind: String = "kind",
        compaction: String = "compaction",
        generated: Scalar = "generatedAt",
        tokens_before: Scalar = "tokensBefore",
    }

    struct Block in "cline.block" {
        kind: String = "type",
        text: String = "text",
        thinking: String = "thinking" | "reasoning",
        id: String = "id",
        name: String = "name",
        input: Arguments = "input",
        call: String = "tool_use_id",
        content: Box<RawValue> = "content",
        is_error: Scalar = "is_error" | "isError",
        path: String = "path",
        .. rest but "signature" | "thoughtSignature"
    }
}

/// A content: a text, or blocks.
#[derive(Default)]
pub(crate) struct Blocks(Vec<Block>);

impl<'de> serde::Deserialize<'de> for Blocks {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let read = match raw.starts_with('"') {
            true => serde_json::from_str(raw).map(|text| {
                vec![Block { kind: Some("text".to_owned()), text: Some(text), ..Block::default() }]
            }),
            false => serde_json::from_str::<List<Block>>(raw).map(|list| list.0),
        };
        read.map(Blocks).map_err(serde::de::Error::custom)
    }
}

impl Metrics {
    /// Some providers count the cached part in the input, some apart.
    fn usage(&self) -> Option<Usage> {
        let count = |n: Option<Scalar>| n.and_then(Scalar::count);
        let (read, write) = (count(self.cache_read), count(self.cache_write));
        let (input, cached) = (count(self.input)?, read.unwrap_or(0) + write.unwrap_or(0));
        let input = if input >= cached { input } else { input + cached };
        (input > 0).then_some(Usage {
            input,
            output: count(self.output),
            cache_read: read,
            cache_write: write,
            cost: dollars(self.cost),
            ..Usage::default()
        })
    }
}

impl Message {
    fn is_compaction(&self) -> bool {
        self.metadata.as_ref().is_some_and(|m| m.kind.as_ref().is_some_and(|k| k.starts_with("compaction")))
    }

    /// Tokens of the context, by the compaction that it tells of.
    fn tokens_before(&self) -> Option<Scalar> {
        self.metadata.as_ref()?.tokens_before
    }

    /// The words that a compaction put into it.
    fn notices(&self) -> Vec<String> {
        let is_summary =
            self.metadata.as_ref().is_some_and(|m| m.kind.as_deref() == Some("compaction_summary"));
        let texts =
            self.content.iter().flat_map(|content| &content.0).filter_map(|block| block.text.as_ref());
        texts.filter(|text| is_summary || is_notice(text)).cloned().collect()
    }
}

fn is_notice(text: &str) -> bool {
    text.trim_start().starts_with("<SYSTEM_NOTICE>")
}

/// Documents that name no session, or were not told apart, are of the first one.
fn read(files: &[File], sink: &mut Sink<'_>) {
    let mut sessions: Vec<(Option<String>, Vec<Document>)> = Vec::new();
    for bytes in files.iter().flat_map(|file| documents(&file.bytes)) {
        let document = read_document(bytes, sink);
        let is_one = |id: &Option<String>| id.is_none() || document.id.is_none() || *id == document.id;
        match sessions.iter_mut().find(|(id, _)| is_one(id)) {
            Some((id, documents)) => {
                *id = id.take().or(document.id.clone());
                documents.push(document);
            }
            None => sessions.push((document.id.clone(), vec![document])),
        }
    }
    sessions.into_iter().for_each(|(_, documents)| read_session(documents, sink));
}

fn read_session(documents: Vec<Document>, sink: &mut Sink<'_>) {
    let (mut main, mut compacted) = (None, None);
    let mut about = Document::default();
    for document in documents {
        let is_compacted = document.messages.as_ref().is_some_and(|m| m.0.iter().any(Message::is_compaction));
        match document.messages {
            None => about = document,
            Some(_) if is_compacted && compacted.is_none() => compacted = Some(document),
            Some(_) if !is_compacted && main.is_none() => main = Some(document),
            Some(_) => sink.losses.add("further copy of a context left out"),
        }
    }
    let mut draft = Draft::new();
    let compaction = match (&main, compacted) {
        (Some(main), Some(compacted)) => Compaction::of(main, &compacted, &mut draft.losses),
        (None, compacted) => {
            main = compacted;
            None
        }
        _ => None,
    };
    let main = main.unwrap_or_default();
    draft.system(main.system.unwrap_or_default());
    let messages = main.messages.unwrap_or_default().0;
    let n = messages.len();
    let mut is_compacted = compaction.is_some();
    for (i, message) in messages.into_iter().enumerate() {
        if let Some(compaction) = &compaction {
            if compaction.at == i {
                compaction.write(&mut draft);
            }
            let is_kept =
                i < compaction.at && message.id.as_ref().is_some_and(|id| compaction.kept.contains_key(id));
            draft.keep_to(is_kept.then_some(1));
        }
        is_compacted |= read_message(i, message, is_compacted, &mut draft);
    }
    if let Some(compaction) = compaction.filter(|compaction| compaction.at == n) {
        compaction.write(&mut draft);
    }
    let forked = about.metadata.and_then(|m| m.fork).and_then(|fork| fork.from);
    draft.losses.add_n("name of the session that this one was forked from left out", forked.map_or(0, |_| 1));
    let id = main.id.or(about.id);
    let about = Trajectory {
        task_id: id.clone(),
        session: id,
        repository: main.cwd.or(about.cwd).as_deref().and_then(repository_of),
        agent: Some("cline".to_owned()),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
}

/// Reads a file; of a damaged one all messages that are whole.
fn read_document(bytes: &[u8], sink: &mut Sink<'_>) -> Document {
    if let Ok(document) = serde_json::from_slice(bytes) {
        return document;
    }
    let (document, messages) = read_around::<Document, Message>(bytes, "messages", sink);
    Document { messages: (!messages.is_empty()).then_some(List(messages)), ..document }
}

/// Where in the messages the compaction stands, and what it kept.
struct Compaction {
    at: usize,
    kept: HashMap<String, bool>,
    text: String,
    time: Option<i64>,
    tokens_before: Option<Scalar>,
}

impl Compaction {
    /// It stands behind all that it left out, changed, or says to have kept.
    fn of(main: &Document, compacted: &Document, losses: &mut Losses) -> Option<Self> {
        let empty = Vec::new();
        let list = |document: &'_ Document| document.messages.as_ref().map_or(0, |m| m.0.len());
        let new = compacted.messages.as_ref().map_or(&empty, |m| &m.0);
        let old = main.messages.as_ref().map_or(&empty, |m| &m.0);
        if main.id != compacted.id || list(compacted) == 0 {
            losses.add("compacted context of another session left out");
            return None;
        }
        let generated = new.iter().find_map(|m| m.metadata.as_ref()?.generated);
        let generated = generated.and_then(|time| time.time(losses));
        let is_touched = |m: &Message| {
            m.is_compaction()
                || !m.notices().is_empty()
                || m.metadata.as_ref().is_some_and(|metadata| metadata.compaction.is_some())
        };
        let kept: HashMap<String, bool> =
            new.iter().filter_map(|m| Some((m.id.clone()?, is_touched(m)))).collect();
        let mut at = 0;
        for (i, message) in old.iter().enumerate() {
            let id = message.id.as_deref().unwrap_or_default();
            let time = message.time.unwrap_or_default().time(losses);
            let is_before = generated.is_some() && time.is_some() && time <= generated;
            if is_before || kept.get(id).is_none_or(|is_touched| *is_touched) {
                at = i + 1;
            }
        }
        let text = new.iter().flat_map(Message::notices).collect::<Vec<_>>().join("\n");
        // With nothing behind it the context was logged last when it was compacted.
        let updated = compacted.updated.filter(|_| at == old.len()).and_then(|time| time.time(losses));
        let generated = generated.or(updated);
        let tokens_before = new.iter().find_map(Message::tokens_before);
        Some(Compaction { at, kept, text, time: generated, tokens_before })
    }

    fn write(&self, draft: &mut Draft) {
        let (message, time) = draft.place();
        draft.at(message, self.time.or(time));
        draft.keep_to(None);
        let n_steps = draft.n_steps();
        draft.compaction(self.text.clone());
        draft.resized(self.tokens_before, None, n_steps);
    }
}

/// Reads a message; says whether a compaction was told in it. In a context alone the first one that tells of a compaction
/// is where it stands.
fn read_message(i: usize, message: Message, is_compacted: bool, draft: &mut Draft) -> bool {
    let time = message.time.unwrap_or_default().time(&mut draft.losses);
    draft.at(i, time);
    let notices = message.notices();
    let is_compaction = message.is_compaction() && !is_compacted;
    let tokens_before = message.tokens_before();
    let blocks = message.content.unwrap_or_default().0;
    if message.role.as_deref() == Some("assistant") {
        if let Some(model) = message.model.and_then(|model| model.id) {
            draft.model(&model);
        }
        read_reply(blocks, message.metrics.and_then(|metrics| metrics.usage()), draft);
        return false;
    }
    read_user(blocks, &notices, draft);
    if is_compaction {
        let n_steps = draft.n_steps();
        draft.compaction(notices.join("\n"));
        draft.resized(tokens_before, None, n_steps);
    } else {
        notices.into_iter().for_each(|notice| draft.notice(notice));
    }
    is_compaction
}

fn read_reply(blocks: Vec<Block>, usage: Option<Usage>, draft: &mut Draft) {
    let mut reply = Reply::begin(usage, draft);
    for block in blocks {
        match block.kind.as_deref().unwrap_or_default() {
            "text" => reply.text(block.text.unwrap_or_default(), draft),
            "thinking" | "reasoning" => {
                reply.thought(block.thinking.or(block.text).unwrap_or_default(), draft)
            }
            "redacted_thinking" => draft.losses.add("redacted thinking left out"),
            "tool_use" => {
                let tool = block.name.unwrap_or_else(|| "unknown".to_owned());
                let call = Call::new(block.id, tool, block.input.unwrap_or_default().0);
                reply.call(call, &mut Vec::new(), draft);
            }
            _ => {
                let text = other(block, draft);
                reply.text(text.unwrap_or_default(), draft);
            }
        }
    }
    reply.end(draft);
}

fn read_user(blocks: Vec<Block>, notices: &[String], draft: &mut Draft) {
    let mut typed: Vec<String> = Vec::new();
    for block in blocks {
        match block.kind.as_deref().unwrap_or_default() {
            "text" if block.text.as_ref().is_some_and(|text| notices.contains(text)) => {}
            "text" => typed.extend(block.text),
            "tool_result" => {
                let is_error = block.is_error.and_then(|is| is.truth("is_error", &mut draft.losses));
                let text = block.content.map_or(String::new(), |raw| text_of(&raw, &mut draft.losses));
                draft.result(block.call.as_deref(), block.name, text, is_error);
            }
            "file" => {
                let text = block.content.map_or(String::new(), |raw| text_of(&raw, &mut draft.losses));
                draft.notice(format!("{}\n{text}", block.path.unwrap_or_default()));
            }
            _ => typed.extend(other(block, draft)),
        }
    }
    let typed = typed.join("\n");
    if !typed.is_empty() {
        draft.user(typed);
    }
}

/// A content as text: blocks by their texts, other JSON as it stands, which is how the model is sent it.
fn text_of(raw: &RawValue, losses: &mut Losses) -> String {
    let raw = raw.get();
    if !raw.starts_with('"') && !raw.starts_with("[{\"type\"") {
        return without_long_data(raw);
    }
    match serde_json::from_str::<Content>(raw) {
        Ok(content) => content.into_text(losses),
        Err(_) => without_long_data(raw),
    }
}

fn other(mut block: Block, draft: &mut Draft) -> Option<String> {
    let kind = block.kind.unwrap_or_default();
    if kind == "image" {
        draft.losses.add("media replaced by a placeholder");
        return Some("[image]".to_owned());
    }
    let content = block.content.map(|raw| text_of(&raw, &mut draft.losses));
    for (key, text) in [("text", block.text), ("content", content), ("path", block.path)] {
        if let Some(text) = text {
            block.rest.add(key, text);
        }
    }
    block.rest.said_as(&kind, &mut draft.losses)
}

#[cfg(test)]
mod tests;
