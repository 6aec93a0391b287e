//! A session of opencode in whatever form it was kept: messages with parts, which become steps.
//!
//! What the model was sent follows the product's own rules (`toModelMessages`, `filterCompacted`): a reply that failed is
//! not sent again, a cleared result is sent as a short text from then on, a compaction leaves its summary, and the
//! messages from its `tail_start_id` on.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use crate::logs::formats::Sink;
use crate::logs::formats::reading::content::{Arguments, Media};
use crate::logs::formats::reading::draft::Losses;
use crate::logs::formats::reading::names::repository_of;
use crate::logs::formats::reading::reply::{Call, Reply};
use crate::logs::formats::reading::scalar::Scalar;
use crate::logs::formats::reading::usage::dollars;
use crate::logs::formats::reading::{Content, Draft, List, record};
use crate::trajectory::{Trajectory, Usage};

record! {
    struct Session in "opencode.session" {
        id: String = "id",
        parent: String = "parent_id" | "parentID",
        directory: String = "directory",
        revert: Revert = "revert",
        cost: Scalar = "cost",
    }

    struct Revert in "opencode.session.revert" {
        message: String = "messageID",
        part: String = "partID",
    }

    struct Info in "opencode.message" {
        id: String = "id",
        session: String = "sessionID",
        role: String = "role",
        time: Time = "time",
        model_id: String = "modelID",
        model: Model = "model",
        system: String = "system",
        tokens: Tokens = "tokens",
        cost: Scalar = "cost",
        finish: String = "finish",
        error: Failure = "error",
        summary: Scalar = "summary",
        parent: String = "parentID",
    }

    struct Model in "opencode.message.model" {
        id: String = "modelID" | "id",
    }

    struct Failure in "opencode.message.error" {
        name: String = "name",
        data: Box<RawValue> = "data",
    }

    struct Time in "opencode.time" {
        created: Scalar = "created",
        completed: Scalar = "completed",
        start: Scalar = "start",
        end: Scalar = "end",
        compacted: Scalar = "compacted",
    }

    struct Tokens in "opencode.tokens" {
        input: Scalar = "input",
        output: Scalar = "output",
        reasoning: Scalar = "reasoning",
        cache: Cache = "cache",
    }

    struct Cache in "opencode.tokens.cache" {
        read: Scalar = "read",
        write: Scalar = "write",
    }

    struct Part in "opencode.part" {
        id: String = "id",
        message: String = "messageID",
        kind: String = "type",
        text: String = "text",
        synthetic: Scalar = "synthetic",
        ignored: Scalar = "ignored",
        call: String = "callID",
        tool: String = "tool",
        state: State = "state",
        tokens: Tokens = "tokens",
        cost: Scalar = "cost",
        tail: String = "tail_start_id",
        mime: String = "mime",
        url: Media = "url",
        time: Time = "time",
        .. rest but "sessionID" | "snapshot" | "metadata" | "reason" | "hash" | "files" | "source"
    }

    struct State in "opencode.part.state" {
        status: String = "status",
        input: Arguments = "input",
        output: Content = "output",
        error: Content = "error",
        attachments: List<Part> = "attachments",
        time: Time = "time",
    }
}

/// A message with its parts.
pub(crate) struct Message {
    pub(crate) info: Info,
    pub(crate) parts: Vec<Part>,
}

/// What stands for a result that was cleared.
const CLEARED: &str = "[Old tool result content cleared]";
const INTERRUPTED: &str = "[Tool execution was interrupted]";

fn is_set(scalar: Option<Scalar>) -> bool {
    scalar == Some(Scalar::Bool(true))
}

impl Tokens {
    /// The cached part of a prompt is counted apart, and so is reasoning.
    fn usage(&self, cost: Option<Scalar>) -> Option<Usage> {
        let count = |n: Option<Scalar>| n.and_then(Scalar::count);
        let cache = self.cache.as_ref();
        let (read, write) = (count(cache.and_then(|c| c.read)), count(cache.and_then(|c| c.write)));
        let input = count(self.input)? + read.unwrap_or(0) + write.unwrap_or(0);
        let output = count(self.output).map(|n| n + count(self.reasoning).unwrap_or(0));
        (input > 0).then_some(Usage {
            input,
            output,
            cache_read: read,
            cache_write: write,
            reasoning: count(self.reasoning),
            cost: dollars(cost),
            ..Usage::default()
        })
    }
}

impl Message {
    /// Puts parts into their messages.
    pub(crate) fn all(infos: Vec<Info>, parts: Vec<Part>, losses: &mut Losses) -> Vec<Message> {
        let mut by_id: HashMap<String, usize> = HashMap::new();
        let mut messages: Vec<Message> = Vec::new();
        for info in infos {
            by_id.insert(info.id.clone().unwrap_or_default(), messages.len());
            messages.push(Message { info, parts: Vec::new() });
        }
        for part in parts {
            match part.message.as_ref().and_then(|id| by_id.get(id)) {
                Some(&at) => messages[at].parts.push(part),
                None => losses.add("part of a message that is not there left out"),
            }
        }
        messages
    }

    fn id(&self) -> &str {
        self.info.id.as_deref().unwrap_or_default()
    }

    fn is_agent(&self) -> bool {
        self.info.role.as_deref() == Some("assistant")
    }

    /// Whether it is the summary of a compaction that came to its end.
    fn is_summary(&self) -> bool {
        self.is_agent()
            && is_set(self.info.summary)
            && self.info.error.is_none()
            && (self.info.finish.is_some() || self.info.time.as_ref().is_some_and(|t| t.completed.is_some()))
    }

    /// Whether it failed so that it is not sent again.
    fn is_failed(&self) -> bool {
        let is_said = |part: &Part| !matches!(part.kind.as_deref(), Some("step-start" | "reasoning"));
        let is_abort = |error: &Failure| error.name.as_deref() == Some("MessageAbortedError");
        self.info.error.as_ref().is_some_and(|e| !is_abort(e) || !self.parts.iter().any(is_said))
    }

    fn has(&self, kind: &str) -> bool {
        self.parts.iter().any(|part| part.kind.as_deref() == Some(kind))
    }
}

/// Reads a session. `messages` are in any order, and so are their parts.
pub(crate) fn finish(mut session: Session, mut messages: Vec<Message>, sink: &mut Sink<'_>) {
    let mut draft = Draft::new();
    session.id = session.id.or_else(|| messages.first()?.info.session.clone());
    let mut times: HashMap<String, i64> = HashMap::new();
    for message in &messages {
        let created = message.info.time.as_ref().and_then(|t| t.created).unwrap_or_default();
        times.extend(created.time(&mut draft.losses).map(|time| (message.id().to_owned(), time)));
    }
    messages.sort_by(|a, b| (times.get(a.id()), a.id()).cmp(&(times.get(b.id()), b.id())));
    messages.iter_mut().for_each(|message| message.parts.sort_by(|a, b| a.id.cmp(&b.id)));
    if let Some(revert) = &session.revert {
        leave_reverted(&mut messages, revert, &mut draft);
    }
    let kept = kept(&messages);
    let mut cleared = cleared(&messages, &mut draft).into_iter().peekable();
    let mut reader = Reader { is_compacted: compacted(&messages), system: None };
    let n = messages.len();
    let mut is_edited = false;
    for (i, message) in messages.into_iter().enumerate() {
        let time = times.get(message.id()).copied();
        draft.at(i, time);
        draft.keep_to(kept[i]);
        if message.is_agent() {
            while let Some((_, call)) = cleared.next_if(|(at, _)| time.is_some_and(|time| *at <= time)) {
                let is_there = draft.edit_result(&call, CLEARED);
                is_edited |= is_there;
                draft.losses.add_n("cleared result that is not in the log", u64::from(!is_there));
            }
            reader.read_agent(i, message, i + 1 == n, &mut draft);
        } else {
            reader.read_user(message, &mut draft);
        }
    }
    draft.losses.add_n("result that was cleared behind the last reply", cleared.count() as u64);
    let about = Trajectory {
        task_id: session.id.clone(),
        session: session.id,
        parent: session.parent.filter(|parent| !parent.is_empty()),
        repository: session.directory.as_deref().and_then(repository_of),
        agent: Some("opencode".to_owned()),
        format: "opencode".to_owned(),
        policy: is_edited.then(|| "old results cleared".to_owned()),
        cost: dollars(session.cost).filter(|cost| *cost > 0.0),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
}

/// Leaves out what the user took back: all from a message, or a part of it, on.
fn leave_reverted(messages: &mut Vec<Message>, revert: &Revert, draft: &mut Draft) {
    let Some(at) = messages.iter().position(|m| Some(m.id()) == revert.message.as_deref()) else {
        return;
    };
    let part =
        revert.part.as_ref().and_then(|id| messages[at].parts.iter().position(|p| p.id.as_ref() == Some(id)));
    let n_kept = at + usize::from(part.is_some());
    if let Some(part) = part {
        draft.losses.add_n("part of a message taken back left out", (messages[at].parts.len() - part) as u64);
        messages[at].parts.truncate(part);
    }
    draft.losses.add_n("message taken back left out", (messages.len() - n_kept) as u64);
    messages.truncate(n_kept);
}

/// The user's messages that a compaction answered.
fn compacted(messages: &[Message]) -> HashSet<String> {
    messages.iter().filter(|m| m.is_summary()).filter_map(|m| m.info.parent.clone()).collect()
}

/// For each message the last segment that a compaction kept it for.
fn kept(messages: &[Message]) -> Vec<Option<u32>> {
    let mut kept = vec![None; messages.len()];
    let mut segment = 0;
    for summary in messages.iter().filter(|m| m.is_summary()) {
        segment += 1;
        let asked = messages.iter().position(|m| Some(m.id()) == summary.info.parent.as_deref());
        let Some(asked) = asked else { continue };
        let tail = messages[asked].parts.iter().find_map(|part| part.tail.as_deref());
        if let Some(from) = messages[..asked].iter().position(|m| Some(m.id()) == tail) {
            kept[from..asked].fill(Some(segment));
        }
    }
    kept
}

/// When which results were cleared, by the ids of their calls.
fn cleared(messages: &[Message], draft: &mut Draft) -> Vec<(i64, String)> {
    let mut cleared = Vec::new();
    for part in messages.iter().flat_map(|message| &message.parts) {
        let time = part.state.as_ref().and_then(|state| state.time.as_ref()?.compacted);
        let time = time.and_then(|time| time.time(&mut draft.losses));
        cleared.extend(time.zip(part.call.clone()));
    }
    cleared.sort();
    cleared
}

struct Reader {
    is_compacted: HashSet<String>,
    /// The newest addition to the system prompt.
    system: Option<String>,
}

impl Reader {
    fn read_user(&mut self, message: Message, draft: &mut Draft) {
        let is_compacted = self.is_compacted.contains(message.id());
        if let Some(system) = message.info.system.filter(|system| !system.is_empty())
            && self.system.as_ref() != Some(&system)
        {
            draft.system(system.clone());
            self.system = Some(system);
        }
        let mut typed = String::new();
        for part in message.parts {
            let text = match part.kind.as_deref().unwrap_or_default() {
                "text" if is_set(part.ignored) => {
                    draft.losses.add("text that is not sent left out");
                    continue;
                }
                "text" if is_set(part.synthetic) => {
                    say(&mut typed, draft);
                    draft.notice(part.text.unwrap_or_default());
                    continue;
                }
                "text" => part.text.unwrap_or_default(),
                // Their text stands in a part of its own.
                "file" if matches!(part.mime.as_deref(), Some("text/plain" | "application/x-directory")) => {
                    continue;
                }
                "file" => attachment(part),
                "compaction" if is_compacted => continue,
                "compaction" => {
                    draft.losses.add("compaction that did not come to its end");
                    continue;
                }
                "subtask" => {
                    say(&mut typed, draft);
                    draft.notice("The following tool was executed by the user".to_owned());
                    continue;
                }
                _ => {
                    say(&mut typed, draft);
                    if let Some(text) = without_rule(part, draft) {
                        draft.notice(text);
                    }
                    continue;
                }
            };
            typed.extend([if typed.is_empty() { "" } else { "\n" }, &text]);
        }
        say(&mut typed, draft);
    }

    fn read_agent(&mut self, i: usize, mut message: Message, is_last: bool, draft: &mut Draft) {
        let model = message.info.model_id.take().or(message.info.model.take().and_then(|m| m.id));
        if message.is_summary() {
            let texts = message.parts.iter_mut().filter(|part| part.kind.as_deref() == Some("text"));
            let texts: Vec<String> = texts.filter_map(|part| part.text.take()).collect();
            let of_step = |part: &Part| part.tokens.as_ref()?.usage(part.cost);
            let usage = message.info.tokens.as_ref().and_then(|tokens| tokens.usage(message.info.cost));
            let usage = usage.or_else(|| message.parts.iter().find_map(of_step));
            let n_steps = draft.n_steps();
            draft.compaction(texts.join("\n"));
            return draft.written_with(usage, n_steps);
        }
        if is_set(message.info.summary) {
            return draft.losses.add("summary of a compaction that failed left out");
        }
        if message.is_failed() {
            return draft.losses.add("reply that failed and was not sent again left out");
        }
        if let Some(model) = &model {
            draft.model(model);
        }
        let has_steps = message.has("step-start");
        let of_cost = message.info.cost;
        let mut of_message = if message.has("step-finish") { None } else { message.info.tokens.take() };
        let mut step = Step { i, is_last, ..Step::default() };
        let n = message.parts.len();
        for (at, part) in message.parts.into_iter().enumerate() {
            // Without marks of the steps a text behind a call is of the next one.
            let is_said = matches!(part.kind.as_deref(), Some("text" | "reasoning"));
            if !has_steps && is_said && !step.results.is_empty() {
                step.end(None, None, draft);
            }
            step.read(part, draft);
            if at + 1 == n {
                step.end(of_message.take(), of_cost, draft);
            }
        }
    }
}

/// Says what the user typed so far.
fn say(typed: &mut String, draft: &mut Draft) {
    if !typed.is_empty() {
        draft.user(std::mem::take(typed));
    }
}

/// What stands in a text for a file that is no text.
fn attachment(part: Part) -> String {
    let mime = part.mime.unwrap_or_else(|| "unknown".to_owned());
    let kind = if mime.starts_with("image/") { "image" } else { "file" };
    let media = part.url.unwrap_or_default();
    Media { media_type: Some(mime), ..media }.placeholder(kind)
}

/// A part of a kind without a rule: its type and its words.
fn without_rule(mut part: Part, draft: &mut Draft) -> Option<String> {
    let kind = part.kind.unwrap_or_default();
    if ["snapshot", "patch", "retry", "agent"].contains(&kind.as_str()) {
        draft.losses.add(&format!("part that is not sent left out: {kind}"));
        return None;
    }
    if let Some(text) = part.text {
        part.rest.add("text", text);
    }
    part.rest.said_as(&kind, &mut draft.losses)
}

/// A call of the model: its reply, then the results of its calls.
#[derive(Default)]
struct Step {
    i: usize,
    /// Nothing was sent behind it.
    is_last: bool,
    reply: Option<Reply>,
    results: Vec<(Option<String>, Option<i64>, String, bool)>,
}

impl Step {
    fn reply(&mut self, draft: &mut Draft) -> &mut Reply {
        self.reply.get_or_insert_with(|| Reply::begin(None, draft))
    }

    fn read(&mut self, part: Part, draft: &mut Draft) {
        let start = part.time.as_ref().and_then(|t| t.start).and_then(|time| time.time(&mut draft.losses));
        let place = draft.place();
        draft.at(self.i, start.or(place.1));
        match part.kind.as_deref().unwrap_or_default() {
            "step-start" => self.end(None, None, draft),
            "step-finish" => self.end(part.tokens, part.cost, draft),
            "reasoning" => {
                let text = part.text.unwrap_or_default();
                self.reply(draft).thought(text, draft);
            }
            "text" => {
                let text = part.text.unwrap_or_default();
                self.reply(draft).text(text, draft);
            }
            "tool" => self.read_call(part, draft),
            _ => {
                if let Some(text) = without_rule(part, draft) {
                    self.reply(draft).text(text, draft);
                }
            }
        }
        draft.at(place.0, place.1);
    }

    fn read_call(&mut self, part: Part, draft: &mut Draft) {
        let state = part.state.unwrap_or_default();
        let tool = part.tool.unwrap_or_else(|| "unknown".to_owned());
        let call = Call::new(part.call.clone(), tool, state.input.unwrap_or_default().0);
        self.reply(draft).call(call, &mut Vec::new(), draft);
        let time = state.time.and_then(|time| time.end).and_then(|time| time.time(&mut draft.losses));
        let (text, is_error) = match state.status.as_deref() {
            Some("completed") => {
                let mut text = state.output.unwrap_or_default().into_text(&mut draft.losses);
                for file in state.attachments.unwrap_or_default().0 {
                    draft.losses.add("media replaced by a placeholder");
                    text.extend([if text.is_empty() { "" } else { "\n" }, &attachment(file)]);
                }
                (text, false)
            }
            Some("error") => (state.error.unwrap_or_default().into_text(&mut draft.losses), true),
            _ if self.is_last => return,
            _ => (INTERRUPTED.to_owned(), true),
        };
        self.results.push((part.call, time, text, is_error));
    }

    /// The reply ends, and the results of its calls come.
    fn end(&mut self, tokens: Option<Tokens>, cost: Option<Scalar>, draft: &mut Draft) {
        let usage = tokens.and_then(|tokens| tokens.usage(cost));
        match self.reply.take() {
            Some(reply) => {
                draft.usage(usage);
                reply.end(draft);
            }
            None if usage.is_some() => {
                draft.begin_call();
                draft.usage(usage);
            }
            None => {}
        }
        let place = draft.place();
        for (id, time, text, is_error) in self.results.drain(..) {
            draft.at(self.i, time.or(place.1));
            draft.result(id.as_deref(), None, text, Some(is_error));
        }
        draft.at(place.0, place.1);
    }
}
