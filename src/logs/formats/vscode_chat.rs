//! Chats of GitHub Copilot in VS Code, as the editor keeps or exports them.
//!
//! A request holds what was shown (`response`), and beside it what the model said and was sent (`result.metadata`): the
//! rounds, one a call of the model, and the results of their calls as trees of the prompt. What was shown is read only
//! where the other is not there, as of a request that was cancelled. The summary of a round was sent in the place
//! of all up to it.

use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::reading::content::Arguments;
use super::reading::draft::Losses;
use super::reading::list::read_around;
use super::reading::names::repository_of;
use super::reading::repair::begins_whole;
use super::reading::reply::{Call, Reply};
use super::reading::scalar::Scalar;
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::{Trajectory, Usage};

pub(super) const ENTRY: Entry = Entry {
    name: "vscode-chat",
    summary: "chats of GitHub Copilot in VS Code, as JSON",
    reading: Reading::Values(read),
};

record! {
    struct Chat in "vscode.chat" {
        id: String = "sessionId",
        requests: List<Request> = "requests",
    }

    struct Request in "vscode.request" {
        message: Said = "message",
        response: List<Shown> = "response",
        outcome: Outcome = "result",
        time: Scalar = "timestamp",
        model: String = "modelId",
        is_removed: Box<RawValue> = "shouldBeRemovedOnSend",
        prompt_tokens: Scalar = "promptTokens",
        completion_tokens: Scalar = "completionTokens",
    }

    struct Said in "vscode.request.message" {
        text: String = "text",
    }

    struct Outcome in "vscode.result" {
        metadata: Metadata = "metadata",
    }

    struct Metadata in "vscode.result.metadata" {
        rounds: List<Round> = "toolCallRounds",
        results: HashMap<String, Output> = "toolCallResults",
        user: List<Rendered> = "renderedUserMessage",
        context: List<Rendered> = "renderedGlobalContext",
        session: String = "sessionId",
        folder: String = "cacheKey",
    }

    struct Rendered in "vscode.rendered" {
        text: String = "text",
    }

    struct Round in "vscode.round" {
        response: Content = "response",
        calls: List<ToolCall> = "toolCalls",
        thinking: Thinking = "thinking",
        summary: String = "summary",
    }

    struct ToolCall in "vscode.round.call" {
        id: String = "id",
        name: String = "name",
        arguments: Arguments = "arguments",
    }

    struct Thinking in "vscode.round.thinking" {
        text: Content = "text",
    }

    struct Output in "vscode.round.result" {
        content: List<Piece> = "content",
        is_error: Scalar = "isError",
    }

    struct Piece in "vscode.round.result.piece" {
        value: Box<RawValue> = "value",
        mime: String = "mimeType",
    }

    /// A part of what was shown.
    struct Shown in "vscode.shown" {
        kind: String = "kind",
        value: Content = "value",
        name: String = "name",
        call: String = "toolCallId",
        tool: String = "toolId",
        message: Text = "invocationMessage",
        past: Text = "pastTenseMessage",
        base: Uri = "baseUri",
        reference: Uri = "inlineReference",
    }

    struct Uri in "vscode.uri" {
        path: String = "path" | "fsPath",
    }
}

/// A text, or an object with one.
#[derive(Default)]
pub(crate) struct Text(String);

impl<'de> serde::Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::String(text) => Text(text),
            value => Text(value["value"].as_str().unwrap_or_default().to_owned()),
        })
    }
}

pub(super) fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let chat = match serde_json::from_slice(bytes) {
        Ok(chat) => chat,
        Err(error) if begins_whole(bytes) => return Err(error.into()),
        Err(_) => {
            let (chat, requests) = read_around::<Chat, Request>(bytes, "requests", sink);
            Chat { requests: Some(List(requests)), ..chat }
        }
    };
    let mut draft = Draft::new();
    let (mut session, mut folder) = (chat.id, None);
    for (i, request) in chat.requests.unwrap_or_default().0.into_iter().enumerate() {
        if request.is_removed.is_some() {
            draft.losses.add("request taken back left out");
            continue;
        }
        let metadata = request.outcome.as_ref().and_then(|outcome| outcome.metadata.as_ref());
        session = session.or_else(|| metadata?.session.clone());
        folder = folder.or_else(|| {
            let shown =
                request.response.as_ref()?.0.iter().find_map(|shown| shown.base.as_ref()?.path.clone());
            metadata.and_then(|m| m.folder.clone()).or(shown)
        });
        read_request(i, request, &mut draft);
    }
    let about = Trajectory {
        repository: folder.as_deref().and_then(repository_of),
        agent: Some("copilot-chat".to_owned()),
        format: ENTRY.name.to_owned(),
        ..Trajectory::default()
    }
    .of_session(session, &sink.source.stem);
    draft.finish(about, sink);
    Ok(())
}

fn read_request(i: usize, request: Request, draft: &mut Draft) {
    let time = request.time.unwrap_or_default().time(&mut draft.losses);
    draft.at(i, time);
    let metadata = request.outcome.and_then(|outcome| outcome.metadata).unwrap_or_default();
    let text = |rendered: Option<List<Rendered>>| -> String {
        rendered.unwrap_or_default().0.into_iter().filter_map(|part| part.text).collect()
    };
    let context = text(metadata.context);
    if !context.is_empty() {
        draft.notice(context);
    }
    read_user(request.message.and_then(|m| m.text).unwrap_or_default(), &text(metadata.user), draft);
    // Names begin with the provider.
    if let Some(model) = request.model.as_deref().and_then(|model| model.rsplit('/').next()) {
        draft.model(model);
    }
    let count = |n: Option<Scalar>| n.and_then(Scalar::count);
    let output = count(request.completion_tokens);
    let usage = count(request.prompt_tokens).filter(|n| *n > 0).map(|input| Usage {
        input,
        output,
        ..Usage::default()
    });
    let rounds = metadata.rounds.unwrap_or_default().0;
    if rounds.is_empty() {
        return read_shown(request.response.unwrap_or_default().0, usage, draft);
    }
    let n = rounds.len();
    let mut results = metadata.results.unwrap_or_default();
    for (at, round) in rounds.into_iter().enumerate() {
        // The tokens are those of the newest call.
        read_round(round, usage.filter(|_| at + 1 == n), &mut results, draft);
    }
    draft.losses.add_n("result of a call that no round holds left out", results.len() as u64);
}

/// The words of the user, and what was sent around them.
pub(super) fn read_user(typed: String, rendered: &str, draft: &mut Draft) {
    let (before, after) = match rendered.rfind(&typed).filter(|_| !typed.is_empty()) {
        Some(at) => (&rendered[..at], &rendered[at + typed.len()..]),
        None => (rendered, ""),
    };
    if !before.trim().is_empty() {
        draft.notice(before.to_owned());
    }
    draft.user(typed);
    // More than the end of the tag around it.
    if after.trim().contains(char::is_whitespace) {
        draft.notice(after.to_owned());
    }
}

fn read_round(round: Round, usage: Option<Usage>, results: &mut HashMap<String, Output>, draft: &mut Draft) {
    let mut reply = Reply::begin(usage, draft);
    if let Some(thinking) = round.thinking.and_then(|thinking| thinking.text) {
        let text = thinking.into_text(&mut draft.losses);
        reply.thought(text, draft);
    }
    let text = round.response.unwrap_or_default().into_text(&mut draft.losses);
    reply.text(text, draft);
    let mut ids = Vec::new();
    for call in round.calls.unwrap_or_default().0 {
        ids.extend(call.id.clone());
        let tool = call.name.unwrap_or_else(|| "unknown".to_owned());
        reply.call(Call::new(call.id, tool, call.arguments.unwrap_or_default().0), &mut Vec::new(), draft);
    }
    reply.end(draft);
    for id in ids {
        if let Some(output) = results.remove(&id) {
            let is_error = output.is_error.and_then(|is| is.truth("isError", &mut draft.losses));
            let text = text_of(output, &mut draft.losses);
            draft.result(Some(&id), None, text, is_error);
        }
    }
    if let Some(summary) = round.summary.filter(|summary| !summary.is_empty()) {
        draft.compaction(summary);
    }
}

fn text_of(output: Output, losses: &mut Losses) -> String {
    let mut texts = Vec::new();
    for piece in output.content.unwrap_or_default().0 {
        let value = piece.value.map(|raw| serde_json::from_str::<Value>(raw.get()));
        match (value, piece.mime) {
            (Some(Ok(Value::String(text))), None) => texts.push(text),
            (Some(Ok(Value::Object(tree))), _) => {
                let mut text = String::new();
                write_tree(tree.get("node").unwrap_or(&Value::Null), &mut text, losses);
                texts.push(text);
            }
            (_, mime) => {
                losses.add("media replaced by a placeholder");
                texts.push(format!("[file {}]", mime.as_deref().unwrap_or("unknown")));
            }
        }
    }
    texts.join("\n")
}

/// The texts of a tree of the prompt, with the line ends that it says.
fn write_tree(node: &Value, out: &mut String, losses: &mut Losses) {
    if let Some(text) = node["text"].as_str() {
        let is_line = node["lineBreakBefore"] == true || node["lineBreakBefore"] == 1;
        if is_line && !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(text);
    } else if let Some(children) = node["children"].as_array() {
        children.iter().for_each(|child| write_tree(child, out, losses));
    } else {
        losses.add("part of a prompt without text left out");
    }
}

/// Reads replies from what was shown: their words, and calls of which no more than a line is known. Nothing is shown
/// between replies, but words and thoughts behind a call are those of the next one.
fn read_shown(shown: Vec<Shown>, usage: Option<Usage>, draft: &mut Draft) {
    let mut replies = Replies::default();
    for part in shown {
        match part.kind.as_deref() {
            None | Some("markdownContent") => {
                replies.text += &part.value.unwrap_or_default().into_text(&mut draft.losses);
            }
            Some("inlineReference") => {
                let path = part.reference.and_then(|uri| uri.path).unwrap_or_default();
                replies.text += part.name.as_deref().unwrap_or(path.rsplit('/').next().unwrap_or_default());
            }
            Some("thinking") => {
                let thought = part.value.unwrap_or_default().into_text(&mut draft.losses);
                if !thought.trim().is_empty() {
                    replies.say(draft);
                    replies.next(draft).thought(thought, draft);
                }
            }
            Some("toolInvocationSerialized" | "toolInvocation") => {
                replies.say(draft);
                let told = part.past.or(part.message).unwrap_or_default().0;
                draft.losses.add("call of which only what was shown is known");
                let tool = part.tool.unwrap_or_else(|| "unknown".to_owned());
                let reply = replies.reply.get_or_insert_with(|| Reply::begin(None, draft));
                reply.call(Call::new(part.call, tool, told), &mut Vec::new(), draft);
                replies.has_called = true;
            }
            Some(kind) => {
                let kind: String = kind.chars().take(40).collect();
                draft.losses.add(&format!("part that was shown alone left out: {kind}"));
            }
        }
    }
    replies.say(draft);
    if let Some(reply) = replies.reply {
        // The tokens are those of the newest call.
        draft.usage(usage);
        reply.end(draft);
    }
}

/// Replies that were shown one behind the other.
#[derive(Default)]
struct Replies {
    reply: Option<Reply>,
    has_called: bool,
    /// Words that are not in a reply yet.
    text: String,
}

impl Replies {
    /// The reply that goes on with words.
    fn next(&mut self, draft: &mut Draft) -> &mut Reply {
        if std::mem::take(&mut self.has_called)
            && let Some(reply) = self.reply.take()
        {
            reply.end(draft);
        }
        self.reply.get_or_insert_with(|| Reply::begin(None, draft))
    }

    fn say(&mut self, draft: &mut Draft) {
        let text = std::mem::take(&mut self.text);
        if !text.trim().is_empty() {
            self.next(draft).text(text, draft);
        }
    }
}

#[cfg(test)]
mod tests;
