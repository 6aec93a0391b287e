//! Threads of Amp: one JSON object, with messages in the style of Anthropic.
//!
//! A result is `run` of a `tool_result`: its text is what the tool returned, of an object the `content` or `output` in
//! it. Files that a message of the user brought along were sent before it, as text of the harness. A summary that took
//! the place of the past is a compaction.

use serde_json::Value;
use serde_json::value::RawValue;

use super::reading::chat::{self, Messages};
use super::reading::content::{Arguments, Block};
use super::reading::fields::{self, note_dropped};
use super::reading::names::repository_of_url;
use super::reading::scalar::Scalar;
use super::reading::usage::LoggedUsage;
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry =
    Entry { name: "amp", summary: "threads of Amp", reading: Reading::Values(read) };

record! {
    struct Thread in "amp" {
        id: String = "id",
        messages: List<Message> = "messages",
        env: Env = "env",
    }

    struct Env in "amp.env" {
        initial: Initial = "initial",
    }

    struct Initial in "amp.env.initial" {
        trees: List<Tree> = "trees",
    }

    struct Tree in "amp.tree" {
        name: String = "displayName",
        repository: Repository = "repository",
    }

    struct Repository in "amp.repository" {
        url: String = "url",
    }

    struct Message in "amp.message" {
        role: String = "role",
        content: List<Part> = "content",
        usage: Usage = "usage",
        meta: Meta = "meta",
        guidance: List<File> = "discoveredGuidanceFiles",
        mentions: Mentions = "fileMentions",
    }

    struct Usage in "amp.usage" {
        model: String = "model",
        timestamp: Scalar = "timestamp",
        input: Scalar = "totalInputTokens",
        output: Scalar = "outputTokens",
        cache_read: Scalar = "cacheReadInputTokens",
        cache_write: Scalar = "cacheCreationInputTokens",
    }

    struct Meta in "amp.meta" {
        sent: Scalar = "sentAt",
    }

    struct Mentions in "amp.mentions" {
        files: List<File> = "files",
    }

    struct File in "amp.file" {
        uri: String = "uri",
        content: String = "content",
    }

    struct Part in "amp.block" {
        kind: String = "type",
        text: String = "text",
        thinking: String = "thinking",
        id: String = "id",
        name: String = "name",
        input: Arguments = "input",
        call: String = "toolUseID",
        run: Run = "run",
        summary: Summary = "summary",
        .. rest
    }

    struct Run in "amp.run" {
        status: String = "status",
        result: Box<RawValue> = "result",
        error: Box<RawValue> = "error",
        reason: String = "reason",
    }

    struct Summary in "amp.summary" {
        kind: String = "type",
        summary: String = "summary",
        thread: String = "thread",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let thread: Thread = serde_json::from_slice(bytes)?;
    let (mut draft, mut reader) = (Draft::new(), Messages::default());
    let mut model = None;
    for (i, mut message) in thread.messages.unwrap_or_default().0.into_iter().enumerate() {
        if let Some(usage) = &mut message.usage {
            model = model.or(usage.model.take());
        }
        read_message(i, message, &mut reader, &mut draft);
    }
    reader.end(&mut draft);
    let trees = thread.env.and_then(|env| env.initial).and_then(|initial| initial.trees);
    let tree = trees.and_then(|trees| trees.0.into_iter().next());
    let repository = tree.and_then(|tree| {
        let url = tree.repository.and_then(|repository| repository.url);
        url.as_deref().and_then(repository_of_url).or(tree.name)
    });
    let about = Trajectory { repository, agent: Some("amp".to_owned()), model, ..Trajectory::default() }
        .of_session(thread.id, &sink.source.stem);
    draft.finish(about, sink);
    Ok(())
}

fn read_message(i: usize, message: Message, reader: &mut Messages, draft: &mut Draft) {
    let sent = message.meta.and_then(|meta| meta.sent);
    let time = sent.or(message.usage.as_ref().and_then(|usage| usage.timestamp));
    let files = message.mentions.and_then(|mentions| mentions.files).into_iter().chain(message.guidance);
    for file in files.flat_map(|files| files.0) {
        if let Some(content) = file.content.filter(|content| !content.is_empty()) {
            reader.end(draft);
            draft.at(i, None);
            draft.notice(format!("{}\n{content}", file.uri.unwrap_or_default()));
        }
    }
    let mut blocks = Vec::new();
    for mut part in message.content.unwrap_or_default().0 {
        if let Some(summary) = part.summary.take() {
            reader.end(draft);
            let time = time.and_then(|time| time.time(&mut draft.losses));
            draft.at(i, time);
            // The summary of another thread is named, not written.
            draft.compaction(summary.summary.or(summary.thread).unwrap_or_default());
        } else {
            blocks.push(block(part, draft));
        }
    }
    if blocks.is_empty() {
        return;
    }
    let said = chat::Message {
        role: message.role,
        content: Some(Content::Blocks(blocks)),
        usage: message.usage.map(|usage| {
            Box::new(LoggedUsage {
                prompt_tokens: usage.input,
                completion_tokens: usage.output,
                cache_read: usage.cache_read,
                cache_write: usage.cache_write,
                ..LoggedUsage::default()
            })
        }),
        timestamp: time,
        ..chat::Message::default()
    };
    reader.read(i, said, draft);
}

/// A block in the style of Anthropic.
fn block(part: Part, draft: &mut Draft) -> Block {
    let mut block = Block {
        kind: part.kind,
        text: part.text,
        thinking: part.thinking,
        id: part.id,
        name: part.name,
        input: part.input,
        tool_use_id: part.call,
        rest: part.rest,
        ..Block::default()
    };
    if let Some(run) = part.run {
        let status = run.status.unwrap_or_default();
        block.is_error = match status.as_str() {
            "done" => Some(Scalar::Bool(false)),
            "error" | "cancelled" | "rejected-by-user" => Some(Scalar::Bool(true)),
            _ => None,
        };
        let said = run.result.or(run.error).map(|raw| shown(&raw)).or(run.reason);
        draft.losses.add_n("result without a text told by its status", u64::from(said.is_none()));
        block.content = Some(Box::new(Content::Text(said.unwrap_or_else(|| format!("[{status}]")))));
    }
    block
}

/// The text of what a tool returned.
fn shown(raw: &RawValue) -> String {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(raw.get()) else {
        return fields::words_of(raw.get());
    };
    for key in ["content", "output", "message"] {
        if let Some(Value::String(text)) = fields.get_mut(key) {
            let text = std::mem::take(text);
            fields.keys().filter(|other| *other != key).for_each(|other| note_dropped("amp.result", other));
            return text;
        }
    }
    fields::words_of(raw.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::cut;

    #[test]
    fn a_thread_is_a_run() {
        let json = r#"{"v":3,"id":"T-1","created":1700000000000,"messages":[
            {"role":"user","messageId":0,"content":[{"type":"text","text":"Add it"}],"meta":{"sentAt":1700000001000},
             "fileMentions":{"files":[{"uri":"file:///a.txt","content":"1: x"}]}},
            {"role":"assistant","messageId":1,"content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"Look."},
               {"type":"tool_use","complete":true,"id":"t1","name":"Read","input":{"path":"/a"}},
               {"type":"tool_use","complete":true,"id":"t2","name":"Bash","input":{"cmd":"ls"}}],
             "usage":{"model":"m-1","inputTokens":3,"outputTokens":9,"cacheCreationInputTokens":10,"cacheReadInputTokens":20,
               "totalInputTokens":33,"timestamp":"2026-01-01T00:00:00Z"}},
            {"role":"user","messageId":2,"content":[
               {"type":"tool_result","toolUseID":"t1","run":{"status":"done","result":{"absolutePath":"/a","content":"1: x"}}},
               {"type":"tool_result","toolUseID":"t2","run":{"status":"error","error":{"message":"no ls"}}}]},
            {"role":"info","messageId":3,"content":[{"type":"summary","summary":{"type":"message","summary":"So far."}}]},
            {"role":"assistant","messageId":4,"content":[{"type":"text","text":"Done."}]}],
            "env":{"initial":{"trees":[{"displayName":"tool","repository":{"type":"git","url":"https://example.org/me/tool.git"}}]}}}"#;
        let source = Source::test("threads/T-1.json", "amp");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        let t = &sink.trajectories[0];
        let outline = cut(t);
        assert_eq!(
            outline,
            [
                "0 0 message file:///a.txt\n1: x",
                "0 0 message Add it",
                "0 1 thought hm",
                "0 1 thought Look.",
                "0 1 action Read\n/a",
                "0 1 action Bash\nls",
                "0 1 observation 1: x",
                "0 1 observation no ls",
                "1 2 compaction So far.",
                "1 2 message Done.",
            ]
        );
        let usage = t.steps[2].usage.as_deref().unwrap();
        assert_eq!(
            (usage.input, usage.output, usage.cache_read, usage.cache_write),
            (33, Some(9), Some(20), Some(10))
        );
        assert_eq!((t.steps[6].is_error, t.steps[7].is_error), (Some(false), Some(true)));
        assert_eq!((t.repository.as_deref(), t.model.as_deref()), (Some("me/tool"), Some("m-1")));
        assert_eq!(t.steps[1].time, Some(1_700_000_001_000_000));
    }
}
