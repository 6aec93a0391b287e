//! Sessions of Continue, of its editor extension and its command line, and of Kiro, which writes the same.
//!
//! `history` holds messages in the style of OpenAI with keys in camel case. Results stand as the output of
//! `toolCallStates`, or as messages of the role `tool`; where they stand in both they count once. Context items were
//! sent before the message of the user that brought them. A `conversationSummary` took the place of all up to its item.
//!
//! Tokens are logged for the whole session: `promptTokens` without those that the cache served, where these are more.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::reading::chat::{self, Messages};
use super::reading::content::ToolCalls;
use super::reading::names::repository_of;
use super::reading::scalar::Scalar;
use super::reading::usage::dollars;
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry =
    Entry { name: "continue", summary: "sessions of Continue, and of Kiro", reading: Reading::Values(read) };

record! {
    struct Session in "continue" {
        id: String = "sessionId",
        folder: String = "workspaceDirectory",
        history: List<Item> = "history",
        usage: Usage = "usage",
        model: String = "chatModelTitle",
        // Kiro alone says these.
        selected: String = "selectedModel",
    }

    struct Usage in "continue.usage" {
        prompt: Scalar = "promptTokens",
        details: Details = "promptTokensDetails",
        cost: Scalar = "totalCost",
    }

    struct Details in "continue.usage.details" {
        cached: Scalar = "cachedTokens",
        written: Scalar = "cacheWriteTokens",
    }

    struct Item in "continue.item" {
        message: Message = "message",
        context: List<ContextItem> = "contextItems",
        calls: List<CallState> = "toolCallStates",
        call: CallState = "toolCallState",
        reasoning: Reasoning = "reasoning",
        summary: String = "conversationSummary",
        execution: Box<RawValue> = "executionId",
    }

    struct Message in "continue.message" {
        role: String = "role",
        content: Content = "content",
        calls: ToolCalls = "toolCalls",
        call_id: String = "toolCallId",
        .. rest
    }

    struct ContextItem in "continue.context" {
        name: String = "name",
        content: String = "content",
        hidden: Scalar = "hidden",
    }

    struct CallState in "continue.call" {
        id: String = "toolCallId",
        status: String = "status",
        output: List<ContextItem> = "output",
    }

    struct Reasoning in "continue.reasoning" {
        text: String = "text",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let session: Session = serde_json::from_slice(bytes)?;
    let items = session.history.unwrap_or_default().0;
    let answered = answered(&items);
    let is_kiro = items.iter().any(|item| item.execution.is_some());
    let mut history = History { answered, ..History::default() };
    for (i, item) in items.into_iter().enumerate() {
        history.read(i, item);
    }
    let draft = history.end();
    let cost = session.usage.as_ref().and_then(|usage| dollars(usage.cost));
    let tokens_sent = session.usage.and_then(sent);
    let is_kiro = is_kiro || session.selected.is_some();
    let model = session.model.or(session.selected).filter(|model| !model.is_empty());
    let about = Trajectory {
        repository: session.folder.as_deref().and_then(repository_of),
        agent: Some(if is_kiro { "kiro" } else { "continue" }.to_owned()),
        model,
        tokens_sent,
        cost,
        ..Trajectory::default()
    }
    .of_session(session.id, &sink.source.stem);
    draft.finish(about, sink);
    Ok(())
}

/// Tokens of all prompts.
fn sent(usage: Usage) -> Option<u64> {
    let count = |scalar: Option<Scalar>| scalar.and_then(Scalar::count);
    let prompt = count(usage.prompt)?;
    let details = usage.details.unwrap_or_default();
    let cached = count(details.cached).unwrap_or(0) + count(details.written).unwrap_or(0);
    Some(if cached > prompt { prompt + cached } else { prompt }).filter(|sent| *sent > 0)
}

/// The calls that a message answers.
fn answered(items: &[Item]) -> HashSet<String> {
    let messages = items.iter().filter_map(|item| item.message.as_ref());
    messages.filter_map(|message| message.call_id.clone()).collect()
}

#[derive(Default)]
struct History {
    draft: Draft,
    reader: Messages,
    answered: HashSet<String>,
    /// What the model thought before its next message.
    thoughts: Vec<String>,
}

impl History {
    fn read(&mut self, i: usize, item: Item) {
        let draft = &mut self.draft;
        draft.at(i, None);
        let context = item.context.unwrap_or_default().0;
        let files = context.into_iter().filter(|file| file.hidden != Some(Scalar::Bool(true)));
        for file in files {
            if let Some(content) = file.content.filter(|content| !content.is_empty()) {
                self.reader.end(draft);
                draft.notice(format!("{}\n{content}", file.name.unwrap_or_default()).trim_start().to_owned());
            }
        }
        let message = item.message.unwrap_or_default();
        let is_summary =
            message.content.as_ref().is_some_and(|c| item.summary.as_ref().is_some_and(|s| c.is_text(s)));
        if message.role.as_deref() == Some("thinking") {
            let text = message.content.unwrap_or_default().into_text(&mut draft.losses);
            self.thoughts.extend(Some(text).filter(|text| !text.is_empty()));
        } else if !is_summary {
            let mut reasoning = std::mem::take(&mut self.thoughts);
            reasoning.extend(item.reasoning.and_then(|reasoning| reasoning.text));
            let said = chat::Message {
                role: message.role,
                content: message.content,
                tool_calls: message.calls,
                tool_call_id: message.call_id,
                reasoning: (!reasoning.is_empty()).then(|| Content::Text(reasoning.join("\n"))),
                rest: message.rest,
                ..chat::Message::default()
            };
            self.reader.read(i, said, draft);
        }
        let states = item.calls.unwrap_or_default().0.into_iter().chain(item.call);
        states.for_each(|state| self.result(state));
        if let Some(summary) = item.summary {
            self.reader.end(&mut self.draft);
            self.draft.compaction(summary);
        }
    }

    fn result(&mut self, state: CallState) {
        let output = state.output.unwrap_or_default().0;
        let Some(id) = state.id.filter(|id| !output.is_empty() && !self.answered.contains(id)) else {
            return;
        };
        let texts: Vec<String> = output.into_iter().filter_map(|item| item.content).collect();
        let is_error = match state.status.as_deref() {
            Some("errored") => Some(true),
            Some("done") => Some(false),
            _ => None,
        };
        self.reader.end(&mut self.draft);
        self.draft.result(Some(&id), None, texts.join("\n\n"), is_error);
    }

    fn end(mut self) -> Draft {
        self.reader.end(&mut self.draft);
        for thought in std::mem::take(&mut self.thoughts) {
            self.draft.begin_call();
            self.draft.agent(crate::trajectory::Kind::Thought, thought);
        }
        self.draft
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::cut;

    #[test]
    fn sessions_of_kiro_are_its_own() {
        let agent = |more: &str, of_item: &str| {
            let json = format!(
                r#"{{"sessionId":"s","workspaceDirectory":"/w","history":[{{"message":{{"role":"user","content":"Q"}}{of_item}}}]{more}}}"#
            );
            let source = Source::test("s.json", "continue");
            let mut sink = Sink::new(&source);
            read(json.as_bytes(), &mut sink).unwrap();
            let t = sink.trajectories.remove(0);
            (t.agent.unwrap(), t.model)
        };
        assert_eq!(agent(r#","selectedModel":"m""#, ""), ("kiro".to_owned(), Some("m".to_owned())));
        assert_eq!(agent("", r#","executionId":"e""#).0, "kiro");
        assert_eq!(agent(r#","chatModelTitle":"m""#, ""), ("continue".to_owned(), Some("m".to_owned())));
    }

    #[test]
    fn a_session_is_a_run() {
        let json = r#"{"sessionId":"s-1","title":"T","workspaceDirectory":"/home/me/tool","history":[
            {"message":{"role":"user","content":[{"type":"text","text":"Add it"}]},"contextItems":[{"name":"a.ts","description":"d","content":"x = 1"}]},
            {"message":{"role":"thinking","content":"hm"},"contextItems":[]},
            {"message":{"role":"assistant","content":"I look.","toolCalls":[
               {"id":"c1","type":"function","function":{"name":"Read","arguments":"{\"filepath\":\"/a.ts\"}"}},
               {"id":"c2","type":"function","function":{"name":"Run","arguments":"{\"command\":\"ls\"}"}}]},
             "toolCallStates":[{"toolCallId":"c1","status":"done","output":[{"name":"r","content":"x = 1"}]},
               {"toolCallId":"c2","status":"errored","output":[{"name":"r","content":"no ls"}]}]},
            {"message":{"role":"tool","content":"x = 1\n","toolCallId":"c1"},"contextItems":[]},
            {"message":{"role":"assistant","content":"Done."},"conversationSummary":"It was added."},
            {"message":{"role":"user","content":"Thanks"}},{"message":{"role":"assistant","content":"Welcome."}}],
            "usage":{"promptTokens":10,"completionTokens":5,"promptTokensDetails":{"cachedTokens":30,"cacheWriteTokens":2}}}"#;
        let source = Source::test("sessions/s-1.json", "continue");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        let t = &sink.trajectories[0];
        let outline = cut(t);
        assert_eq!(
            outline,
            [
                "0 0 message a.ts\nx = 1",
                "0 0 message Add it",
                "0 1 thought hm",
                "0 1 thought I look.",
                "0 1 action Read\n/a.ts",
                "0 1 action Run\nls",
                "0 1 observation no ls",
                "0 1 observation x = 1\n",
                "0 2 message Done.",
                "1 3 compaction It was added.",
                "1 3 message Thanks",
                "1 3 message Welcome.",
            ]
        );
        assert_eq!((t.tokens_sent, t.repository.as_deref()), (Some(42), Some("tool")));
        assert_eq!(t.steps[6].is_error, Some(true));
    }
}
