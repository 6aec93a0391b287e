//! Transcripts of Cursor's agent: a message a line, without ids, times, model, usage or results of tools. Sub-agents lie in a
//! folder `subagents` beside the transcript of their parent.

use super::reading::draft::Losses;
use super::reading::reply::Reply;
use super::reading::{Content, Draft, record};
use super::{Entry, Origin, Reading, Session, Sink};
use crate::logs::formats::reading::content::Block;
use crate::logs::formats::reading::reply::Call;
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "cursor",
    summary: "transcripts of Cursor's agent",
    reading: Reading::Session { open: || Box::<Transcript>::default(), origin: |_, _| Origin::None },
};

record! {
    struct Line in "cursor.line" {
        role: String = "role",
        message: Message = "message",
    }

    struct Message in "cursor.message" {
        content: Content = "content",
    }
}

#[derive(Default)]
struct Transcript {
    draft: Draft,
    n_lines: usize,
}

impl Session for Transcript {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let line: Line = serde_json::from_slice(bytes)?;
        self.draft.at(self.n_lines, None);
        self.n_lines += 1;
        let content = line.message.and_then(|message| message.content).unwrap_or_default();
        if line.role.as_deref() == Some("assistant") {
            read_reply(content, &mut self.draft);
        } else {
            read_user(content, &mut self.draft);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, sink: &mut Sink<'_>) {
        let parent = sink.source.path.rsplit_once("/subagents/").map(|(before, _)| before.rsplit('/').next());
        let about = Trajectory {
            task_id: Some(sink.source.stem.clone()),
            is_named_by_file: true,
            parent: parent.flatten().map(str::to_owned),
            agent: Some("cursor".to_owned()),
            ..Trajectory::default()
        };
        self.draft.finish(about, sink);
    }
}

fn blocks(content: Content) -> Vec<Block> {
    match content {
        Content::Blocks(blocks) => blocks,
        Content::Text(text) => {
            vec![Block { kind: Some("text".to_owned()), text: Some(text), ..Block::default() }]
        }
        Content::Null => Vec::new(),
    }
}

fn read_reply(content: Content, draft: &mut Draft) {
    let mut reply = Reply::begin(None, draft);
    for block in blocks(content) {
        if block.is_call() {
            let tool = block.name.unwrap_or_else(|| "unknown".to_owned());
            let call = Call::new(block.id, tool, block.input.unwrap_or_default().0);
            reply.call(call, &mut Vec::new(), draft);
        } else if block.is_result() {
            let result = block.into_result(&mut draft.losses);
            reply.result(result.id.as_deref(), result.text, result.is_error, draft);
        } else if block.is_thought() {
            reply.thought(block.thinking.or(block.text).unwrap_or_default(), draft);
        } else if let Some(text) = block.into_text(&mut draft.losses) {
            let text = without_redacted(text, &mut draft.losses);
            reply.text(text, draft);
        }
    }
    reply.end(draft);
}

/// Reasoning is logged as a mark behind the text.
fn without_redacted(text: String, losses: &mut Losses) -> String {
    match text.trim_end().strip_suffix("[REDACTED]") {
        Some(rest) => {
            losses.add("redacted thinking left out");
            rest.trim_end().to_owned()
        }
        None => text,
    }
}

/// A message of the user.
pub(super) fn read_user(content: Content, draft: &mut Draft) {
    let mut texts: Vec<String> = Vec::new();
    for block in blocks(content) {
        if block.is_result() {
            let result = block.into_result(&mut draft.losses);
            draft.result(result.id.as_deref(), None, result.text, result.is_error);
        } else {
            texts.extend(block.into_text(&mut draft.losses));
        }
    }
    say(&texts.join("\n"), draft);
}

/// What was typed stands in a tag, with what the editor added around it.
pub(super) fn say(text: &str, draft: &mut Draft) {
    let tagged = text.split_once("<user_query>").and_then(|(before, rest)| {
        let (typed, after) = rest.rsplit_once("</user_query>")?;
        Some((before.trim(), typed.trim_matches('\n'), after.trim()))
    });
    let (before, typed, after) = tagged.unwrap_or(("", text, ""));
    if !before.is_empty() {
        draft.notice(before.to_owned());
    }
    if !typed.trim().is_empty() {
        draft.user(typed.to_owned());
    }
    if !after.is_empty() {
        draft.notice(after.to_owned());
    }
}

#[cfg(test)]
mod tests;
