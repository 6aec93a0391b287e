//! What the user of Roo Code or Cline was shown: usage and reasoning of each call, and where nothing else is there the run.

use std::collections::VecDeque;

use crate::logs::formats::reading::content::Arguments;
use crate::logs::formats::reading::draft::Losses;
use crate::logs::formats::reading::fields::Embedded;
use crate::logs::formats::reading::reply::{Call as ToolCall, Reply};
use crate::logs::formats::reading::scalar::Scalar;
use crate::logs::formats::reading::usage::dollars;
use crate::logs::formats::reading::{Draft, List, record};
use crate::trajectory::Usage;

record! {
    struct Shown in "roo.shown" {
        time: Scalar = "ts",
        say: String = "say",
        ask: String = "ask",
        text: String = "text",
        reasoning: String = "reasoning",
        partial: Scalar = "partial",
        condense: Condense = "contextCondense" | "contextTruncation",
        index: Scalar = "conversationHistoryIndex",
        left_out: List<Scalar> = "conversationHistoryDeletedRange",
    }

    struct Condense in "roo.shown.condense" {
        summary: String = "summary",
        id: String = "condenseId" | "truncationId",
        cost: Scalar = "cost",
        before: Scalar = "prevContextTokens",
        behind: Scalar = "newContextTokens" | "newContextTokensAfterTruncation",
    }

    /// The text of a request, as JSON.
    struct Request in "roo.shown.request" {
        input: Scalar = "tokensIn",
        output: Scalar = "tokensOut",
        cache_write: Scalar = "cacheWrites",
        cache_read: Scalar = "cacheReads",
        protocol: String = "apiProtocol",
        cost: Scalar = "cost",
    }

    struct Plan in "roo.shown.plan" { response: String = "response" }

    struct Tool in "roo.shown.tool" {
        tool: String = "tool" | "toolName",
        arguments: Arguments = "arguments",
        .. rest
    }
}

impl Request {
    /// With the protocol of Anthropic, and for those that name none, the cached part is counted apart.
    fn usage(&self) -> Option<Usage> {
        let count = |n: Option<Scalar>| n.and_then(Scalar::count);
        let (read, write) = (count(self.cache_read), count(self.cache_write));
        let cached = read.unwrap_or(0) + write.unwrap_or(0);
        let input = count(self.input)? + if self.protocol.as_deref() == Some("openai") { 0 } else { cached };
        let output = count(self.output);
        (input > 0).then_some(Usage {
            input,
            output,
            cache_read: read,
            cache_write: write,
            cost: dollars(self.cost),
            ..Usage::default()
        })
    }
}

/// A compaction that the user was shown.
pub(super) struct Compaction {
    pub(super) id: Option<String>,
    pub(super) time: Option<i64>,
    /// Of the call that wrote it.
    pub(super) cost: Option<f64>,
    pub(super) resized: [Option<Scalar>; 2],
}

/// The compactions that the user was shown, in their order.
pub(super) fn compactions(shown: &[Shown], losses: &mut Losses) -> Vec<Compaction> {
    let is_one = |shown: &&Shown| {
        matches!(shown.say.as_deref(), Some("condense_context" | "sliding_window_truncation"))
            && shown.partial != Some(Scalar::Bool(true))
    };
    let of = |shown: &Shown| {
        let condense = shown.condense.as_ref();
        Compaction {
            id: condense.and_then(|condense| condense.id.clone()),
            time: shown.time.unwrap_or_default().time(losses),
            cost: condense.and_then(|condense| dollars(condense.cost)),
            resized: condense.map(|of| [of.before, of.behind]).unwrap_or_default(),
        }
    };
    shown.iter().filter(is_one).map(of).collect()
}

/// So many first messages are left out by no truncation.
pub(super) const FIRST_STAY: usize = 2;

/// Where Cline sent a part of the messages no more: it notes what that was beside all that it shows from then on.
pub(super) struct Truncation {
    /// The call that was the first without it, by its place among what was shown.
    pub(super) call: usize,
    /// The newest message of the prompt of that call, and the last one that is left out.
    pub(super) message: usize,
    pub(super) end: usize,
}

/// The truncations in their order, each of more than the one before. What was condensed needs none.
pub(super) fn truncations(shown: &[Shown]) -> Vec<Truncation> {
    let mut found: Vec<Truncation> = Vec::new();
    if shown.iter().any(|shown| shown.say.as_deref() == Some("condense_context")) {
        return found;
    }
    let mut call = 0;
    for (at, message) in shown.iter().enumerate() {
        if message.say.as_deref() == Some("api_req_started") {
            call = at;
        }
        let end = message.left_out.as_ref().and_then(|range| range.0.get(1)?.count());
        let Some(end) = end.map(|end| end as usize) else { continue };
        if found.last().is_none_or(|last| last.end < end && last.call < call) {
            found.push(Truncation { call, message: shown[call].message(), end });
        }
    }
    found
}

impl Shown {
    /// The newest message of the conversation when it was shown, with the one that is being written.
    fn message(&self) -> usize {
        self.index.and_then(Scalar::count).map_or(0, |index| index as usize + 1)
    }
}

/// What is known of a call of the model from what was shown.
#[derive(Default)]
pub(super) struct Call {
    time: Option<i64>,
    /// The place of its reply among the messages, where that is noted.
    reply: Option<usize>,
    pub(super) usage: Option<Usage>,
    pub(super) thoughts: Vec<String>,
}

/// The calls in their order.
pub(super) struct Calls(VecDeque<Call>);

impl Calls {
    pub(super) fn of(shown: Vec<Shown>, losses: &mut Losses) -> Self {
        let mut calls: VecDeque<Call> = VecDeque::new();
        for message in shown {
            let time = message.time.unwrap_or_default().time(losses);
            let reply = message.index.is_some().then(|| message.message() + 1);
            let text = message.text.unwrap_or_default();
            match message.say.as_deref() {
                Some("api_req_started") => {
                    calls.push_back(Call { time, reply, usage: request(&text).usage(), thoughts: Vec::new() })
                }
                Some("reasoning") if !text.trim().is_empty() => match calls.back_mut() {
                    Some(call) => call.thoughts.push(text),
                    None => losses.add("reasoning without a reply left out"),
                },
                // All else stands in the messages, too.
                _ => {}
            }
        }
        Calls(calls)
    }

    /// The call that the reply came from that is this message: the last one before its time. Cline's messages have none.
    pub(super) fn before(&mut self, message: usize, time: Option<i64>, losses: &mut Losses) -> Call {
        let mut found = Call::default();
        let mut n_found = 0;
        let is_before = |call: &Call| match time {
            Some(_) => call.time <= time,
            None => call.reply.is_some_and(|reply| reply <= message),
        };
        while self.0.front().is_some_and(is_before) {
            lose(&found, losses);
            found = self.0.pop_front().unwrap_or_default();
            n_found += 1;
        }
        losses.add_n("call of the model that was tried again", u64::saturating_sub(n_found, 1));
        found
    }

    pub(super) fn end(self, losses: &mut Losses) {
        self.0.iter().for_each(|call| lose(call, losses));
    }
}

fn lose(call: &Call, losses: &mut Losses) {
    losses.add_n("usage of a call without a reply left out", u64::from(call.usage.is_some()));
    losses.add_n("reasoning without a reply left out", call.thoughts.len() as u64);
}

fn request(text: &str) -> Request {
    serde_json::from_str(text).unwrap_or_default()
}

/// Reads a run from what was shown alone: a call of the model begins where its request is told.
pub(super) fn read_all(shown: Vec<Shown>, draft: &mut Draft) {
    let mut reply: Option<Reply> = None;
    let mut is_begun = false;
    let truncations = truncations(&shown);
    for (i, message) in shown.into_iter().enumerate() {
        let time = message.time.unwrap_or_default().time(&mut draft.losses);
        draft.at(i, time);
        // The message behind the newest one is the reply.
        let of = message.message() + 1;
        let text = message.text.unwrap_or_default();
        let kind = message.say.or(message.ask).unwrap_or_default();
        let end = |draft: &mut Draft, reply: &mut Option<Reply>| {
            if let Some(reply) = reply.take() {
                reply.end(draft);
            }
        };
        match kind.as_str() {
            "api_req_started" => {
                end(draft, &mut reply);
                if truncations.iter().any(|of| of.call == i) {
                    draft.keep_to(None);
                    draft.compaction(String::new());
                }
                let stays = |t: &Truncation| i < t.call && (of < FIRST_STAY || of > t.end);
                draft.keep_to(truncations.iter().rposition(stays).map(|n| n as u32 + 1));
                reply = Some(Reply::begin(request(&text).usage(), draft));
            }
            "text" | "task" if !is_begun => draft.user(text),
            "user_feedback" => {
                end(draft, &mut reply);
                draft.user(text);
            }
            "text" | "completion_result" | "followup" | "plan_mode_respond" | "reasoning" => {
                let reply = reply.get_or_insert_with(|| Reply::begin(None, draft));
                match kind.as_str() {
                    "reasoning" => reply.thought(text, draft),
                    "plan_mode_respond" => reply.text(plan(text), draft),
                    _ => reply.text(text, draft),
                }
            }
            "tool" | "command" | "use_mcp_server" | "browser_action_launch" => {
                let (call, found) = call(&kind, text);
                reply.get_or_insert_with(|| Reply::begin(None, draft)).call(call, &mut Vec::new(), draft);
                if let Some(found) = found {
                    end(draft, &mut reply);
                    draft.result(None, None, found, None);
                }
            }
            "command_output" | "mcp_server_response" | "browser_action_result" => {
                end(draft, &mut reply);
                draft.result(None, None, text, None);
            }
            "condense_context" => {
                end(draft, &mut reply);
                let (n_steps, condense) = (draft.n_steps(), message.condense.unwrap_or_default());
                draft.compaction(condense.summary.unwrap_or(text));
                draft.resized(condense.before, condense.behind, n_steps);
            }
            kind if !text.is_empty() => super::left_out(&mut draft.losses, kind),
            _ => {}
        }
        is_begun = true;
    }
    if let Some(reply) = reply {
        reply.end(draft);
    }
}

/// What the agent says of its plan, which Cline shows with the answers that it offers.
fn plan(text: String) -> String {
    serde_json::from_str::<Plan>(&text).ok().and_then(|plan| plan.response).unwrap_or(text)
}

/// Tools of which the user is shown what they found; of the others `content` is what they were given.
const FINDERS: [&str; 6] = [
    "listFilesTopLevel",
    "listFilesRecursive",
    "listCodeDefinitionNames",
    "searchFiles",
    "codebaseSearch",
    "webSearch",
];

/// The call that the user was asked to allow, and what it found.
fn call(kind: &str, text: String) -> (ToolCall, Option<String>) {
    if kind == "command" {
        return (ToolCall::command(text), None);
    }
    let tool: Option<Embedded<Tool>> = serde_json::from_str(&text).ok();
    match tool.map(|tool| tool.0) {
        Some(Tool { tool: Some(name), arguments, mut rest }) => {
            let found = FINDERS.contains(&name.as_str()).then(|| rest.take_as::<String>("content")).flatten();
            let arguments = arguments.map(|a| a.0).unwrap_or_else(|| rest.into_raw().get().to_owned());
            (ToolCall::new(None, name, arguments), found)
        }
        _ => (ToolCall::new(None, kind.to_owned(), text), None),
    }
}
