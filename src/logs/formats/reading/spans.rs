//! The spans of a trace as runs: calls of models with their prompts and replies, and runs of tools.
//!
//! Each prompt holds the whole past. A call whose prompt begins with that of an earlier one goes on with its run: what is
//! new in the prompt is read, then the reply. Every other call begins a run of its own (a sub-agent, a side call), linked to
//! the first. Where a later prompt of the same agent shows another text for a result, that is an edit of the log.
//!
//! A result stands in the next prompt and in the span of its tool, and counts once. Where prompts are not logged, the spans
//! of tools are the calls.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;
use serde_json::value::RawValue;

use super::Draft;
use super::chat::{Message, Messages};
use super::scalar::Scalar;
use super::traced::{self, Traced};
use super::usage::LoggedUsage;
use crate::logs::formats::Sink;
use crate::trajectory::Trajectory;

/// The policy behind edits that prompts show.
const EDITED: &str = "results that later prompts of the trace hold in another form";

#[derive(Default)]
pub(crate) struct Span {
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    /// Microseconds.
    pub(crate) start: Option<i64>,
    pub(crate) what: What,
}

#[derive(Default)]
pub(crate) enum What {
    Chat(Box<Chat>),
    Tool(Tool),
    /// An agent, or whatever has calls below it that belong together.
    Agent,
    #[default]
    Other,
}

/// A call of a model; its texts are as logged.
#[derive(Default)]
pub(crate) struct Chat {
    pub(crate) system: Option<String>,
    pub(crate) tools: Option<String>,
    pub(crate) input: Option<String>,
    pub(crate) output: Option<String>,
    pub(crate) usage: Option<LoggedUsage>,
    pub(crate) model: Option<String>,
    pub(crate) error: Option<String>,
}

#[derive(Default)]
pub(crate) struct Tool {
    pub(crate) call_id: Option<String>,
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) result: Option<String>,
    pub(crate) is_error: Option<bool>,
    /// It may be something else: only a call of its name makes it a tool. Its result is as it is logged.
    pub(crate) is_doubtful: bool,
}

/// The spans of one trace.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) spans: Vec<Span>,
}

impl Trace {
    /// Hands over the runs; `about` is what they have in common, with the name of the trace as task.
    pub(crate) fn finish(mut self, about: Trajectory, sink: &mut Sink<'_>) {
        self.spans.sort_by_key(|span| span.start.unwrap_or(i64::MAX));
        let agents = self.agents();
        let outer = self.outer_calls();
        let mut runs: Vec<Run> = Vec::new();
        let mut known = HashMap::new();
        let mut early: Vec<(Tool, Option<i64>, Option<usize>)> = Vec::new();
        for (i, span) in self.spans.into_iter().enumerate() {
            match span.what {
                What::Chat(_) if outer.contains(&i) => {}
                What::Chat(chat) => {
                    let prompt = Prompt::of(*chat, &mut known);
                    let at = match Run::continued_by(&runs, &prompt, agents[i]) {
                        Some(at) => at,
                        None => {
                            let id = if runs.is_empty() { String::new() } else { span.id };
                            runs.push(Run { id, agent: agents[i], ..Run::default() });
                            runs.len() - 1
                        }
                    };
                    runs[at].call(i, span.start, prompt);
                }
                What::Tool(tool) => match Run::that_called(&runs, &tool, agents[i]) {
                    Some(at) => runs[at].pending.push((i, span.start, tool)),
                    None if tool.is_doubtful => {}
                    None => early.push((tool, span.start, agents[i])),
                },
                What::Agent | What::Other => {}
            }
        }
        if runs.is_empty() && !early.is_empty() {
            runs.push(Run::default());
        }
        if let Some(run) = runs.first_mut() {
            let early = early.into_iter().enumerate().map(|(i, (tool, start, _))| (i, start, tool));
            run.pending.splice(0..0, early);
        }
        finish_runs(runs, about, sink);
    }

    /// For each span the nearest agent above it.
    fn agents(&self) -> Vec<Option<usize>> {
        let by_id: HashMap<&str, usize> =
            self.spans.iter().enumerate().map(|(i, s)| (s.id.as_str(), i)).collect();
        let above = |i: usize| self.spans[i].parent.as_deref().and_then(|id| by_id.get(id).copied());
        let nearest = |i: usize| {
            let (mut at, mut n) = (above(i), 0);
            while let Some(i) = at {
                // A circle of parents ends, too.
                n += 1;
                if matches!(self.spans[i].what, What::Agent) || n > MAX_DEPTH {
                    break;
                }
                at = above(i);
            }
            at
        };
        (0..self.spans.len()).map(nearest).collect()
    }

    /// Calls that only wrap another one.
    fn outer_calls(&self) -> HashSet<usize> {
        let parents: HashSet<&str> = self
            .spans
            .iter()
            .filter(|span| matches!(span.what, What::Chat(_)))
            .filter_map(|span| span.parent.as_deref())
            .collect();
        let is_outer = |(_, span): &(usize, &Span)| parents.contains(span.id.as_str());
        self.spans.iter().enumerate().filter(is_outer).map(|(i, _)| i).collect()
    }
}

/// Spans are not nested deeper.
const MAX_DEPTH: usize = 64;

/// The first run is that of the trace; the others belong to it.
fn finish_runs(runs: Vec<Run>, about: Trajectory, sink: &mut Sink<'_>) {
    let trace = about.task_id.clone();
    // A side call may come first: the run with the most calls is the one that the others belong to.
    let most = runs.iter().map(|run| run.n_calls).max().unwrap_or(0);
    let main = runs.iter().position(|run| run.n_calls == most);
    for (i, run) in runs.into_iter().enumerate() {
        let mut about = about.clone();
        if Some(i) != main {
            about.parent = trace.clone();
            let name = trace.as_ref().map(|trace| format!("{trace}/{}", run.name(i)));
            about.session = about.session.and(name.clone());
            about.task_id = name;
        }
        run.finish(about, sink);
    }
}

/// A message of a prompt; one that was met before is read only where it is asked for.
enum Said {
    Read(Value),
    Unread(String),
}

impl Said {
    fn message(&self) -> Option<Message> {
        match self {
            Said::Read(value) => traced::message(value),
            Said::Unread(text) => traced::message(Traced::read(text, "user").messages.first()?),
        }
    }
}

/// A call of a model, read.
#[derive(Default)]
struct Prompt {
    system: Vec<String>,
    tools: Vec<Value>,
    messages: Vec<Said>,
    digests: Vec<u64>,
    output: Traced,
    usage: Option<LoggedUsage>,
    model: Option<String>,
    error: Option<String>,
}

impl Prompt {
    /// `known` has the digests of the messages so far by the hash of their texts.
    fn of(chat: Chat, known: &mut HashMap<u64, u64>) -> Self {
        let mut prompt =
            Prompt { usage: chat.usage, model: chat.model, error: chat.error, ..Prompt::default() };
        if let Some(system) = &chat.system {
            prompt.system.extend(Traced::read(system, "system").messages.iter().filter_map(text_of));
        }
        if let Some(text) = &chat.tools {
            prompt.tools.extend(traced::json_in(text).or_else(|| Some(Value::from(text.as_str()))));
        }
        let input = chat.input.unwrap_or_default();
        let input = serde_json::from_str::<String>(&input).unwrap_or(input);
        match serde_json::from_str::<Vec<&RawValue>>(&input) {
            Ok(items) => items.into_iter().for_each(|item| prompt.add(item.get(), known)),
            Err(_) => prompt.add_read(Traced::read(&input, "user")),
        }
        if let Some(text) = chat.output {
            let mut output = Traced::read(&text, "assistant");
            let system = std::mem::take(&mut output.system);
            prompt.say_system(system);
            prompt.tools.append(&mut output.tools);
            prompt.output = output;
        }
        prompt
    }

    fn say_system(&mut self, texts: Vec<String>) {
        for text in texts {
            if !self.system.contains(&text) {
                self.system.push(text);
            }
        }
    }

    fn add(&mut self, text: &str, known: &mut HashMap<u64, u64>) {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(digest) = known.get(&hash) {
            self.digests.push(*digest);
            return self.messages.push(Said::Unread(text.to_owned()));
        }
        if text == "null" {
            return;
        }
        let read = Traced::read(text, "user");
        if let ([message], true) = (&read.messages[..], read.tools.is_empty() && read.system.is_empty()) {
            known.insert(hash, traced::digest(message));
        }
        self.add_read(read);
    }

    fn add_read(&mut self, read: Traced) {
        self.say_system(read.system);
        self.tools.extend(read.tools);
        self.digests.extend(read.messages.iter().map(traced::digest));
        self.messages.extend(read.messages.into_iter().map(Said::Read));
    }
}

fn text_of(message: &Value) -> Option<String> {
    traced::message(message).map(|m| m.said().join("\n")).filter(|text| !text.is_empty())
}

/// A call that a reply made.
type CallName = (Option<String>, String);

#[derive(Default)]
struct Run {
    id: String,
    agent: Option<usize>,
    draft: Draft,
    reader: Messages,
    /// The newest prompt.
    known: Vec<u64>,
    n_calls: usize,
    /// The newest reply was logged, with these calls that have no result yet.
    has_reply: bool,
    calls: Vec<CallName>,
    /// The newest reply was not logged: what tools run next are its calls.
    is_open: bool,
    pending: Vec<(usize, Option<i64>, Tool)>,
    model: Option<String>,
    is_edited: bool,
    has_head: bool,
}

impl Run {
    fn name(&self, i: usize) -> String {
        if self.id.is_empty() { i.to_string() } else { self.id.clone() }
    }

    /// The run that a call goes on with.
    fn continued_by(runs: &[Run], prompt: &Prompt, agent: Option<usize>) -> Option<usize> {
        let new = &prompt.digests;
        let of_agent = |run: &Run| run.agent == agent;
        if new.is_empty() {
            return runs.iter().rposition(of_agent);
        }
        let begins =
            |run: &Run| !run.known.is_empty() && new.len() > run.known.len() && new.starts_with(&run.known);
        let longest = runs
            .iter()
            .enumerate()
            .filter(|(_, run)| begins(run))
            .max_by_key(|(i, run)| (run.known.len(), *i));
        longest
            .map(|(i, _)| i)
            .or_else(|| runs.iter().rposition(|run| of_agent(run) && run.is_edited_in(prompt)))
    }

    /// Whether a prompt is the known one with some results in another form, and more behind it.
    fn is_edited_in(&self, prompt: &Prompt) -> bool {
        let new = &prompt.digests;
        if self.known.len() >= new.len() || self.known.first() != new.first() {
            return false;
        }
        let same = self.known.iter().zip(new).filter(|(a, b)| a == b).count();
        let others = self.known.iter().zip(new).zip(&prompt.messages).filter(|((a, b), _)| a != b);
        2 * same >= self.known.len()
            && others
                .into_iter()
                .all(|(_, message)| message.message().is_some_and(|message| message.has_answers()))
    }

    /// The run that a tool ran for.
    fn that_called(runs: &[Run], tool: &Tool, agent: Option<usize>) -> Option<usize> {
        let by_id = |run: &Run| tool.call_id.is_some() && run.calls.iter().any(|(id, _)| *id == tool.call_id);
        let by_name = |run: &Run| run.calls.iter().any(|(_, name)| *name == tool.name);
        runs.iter()
            .rposition(by_id)
            .or_else(|| runs.iter().rposition(|run| run.agent == agent && by_name(run)))
            .or_else(|| runs.iter().rposition(by_name))
            .or_else(|| runs.iter().rposition(|run| run.agent == agent && !tool.is_doubtful))
    }

    fn call(&mut self, place: usize, start: Option<i64>, mut prompt: Prompt) {
        let n_known = if self.known.len() < prompt.digests.len() { self.known.len() } else { 0 };
        self.n_calls += 1;
        let model = prompt.model.take();
        model.iter().for_each(|model| self.draft.model(model));
        self.model = self.model.take().or(model);
        self.note_edits(&prompt.messages, &prompt.digests);
        if !self.has_head {
            self.head(&prompt);
        }
        let time = start.map(Scalar::Time);
        let mut tail: Vec<Message> = prompt
            .messages
            .iter()
            .skip(n_known)
            .filter_map(|said| self.message(said.message(), time))
            .collect();
        if self.has_reply {
            // The newest reply stands in the prompt once more.
            let n = tail.iter().take_while(|message| traced::is_agent(message)).count();
            tail.drain(..n);
        }
        self.run_tools(&tail);
        for message in tail {
            self.reader.read(place, message, &mut self.draft);
        }
        if !prompt.digests.is_empty() {
            self.known = prompt.digests;
        }
        self.reply(place, start, &prompt.output.messages, prompt.usage, prompt.error);
    }

    fn head(&mut self, input: &Prompt) {
        self.has_head = true;
        if !input.tools.is_empty() {
            let tools = match &input.tools[..] {
                [Value::Array(all)] => Value::Array(all.clone()),
                tools => Value::Array(tools.to_vec()),
            };
            self.draft.tools(tools.to_string());
        }
        input.system.iter().for_each(|text| self.draft.system(text.clone()));
    }

    fn message(&mut self, message: Option<Message>, time: Option<Scalar>) -> Option<Message> {
        self.draft.losses.add_n("message of a trace that cannot be read", u64::from(message.is_none()));
        message.map(|message| Message { timestamp: message.timestamp.or(time), ..message })
    }

    /// Notes the results that a prompt holds in another form than those before.
    fn note_edits(&mut self, messages: &[Said], new: &[u64]) {
        if new.len() <= self.known.len() {
            return;
        }
        let changed =
            messages.iter().enumerate().take(self.known.len()).filter(|(i, _)| self.known[*i] != new[*i]);
        for (_, message) in changed {
            let Some(message) = message.message() else {
                continue;
            };
            for (id, text) in message.answers() {
                match self.draft.edit_result(id, &text) {
                    true => self.is_edited = true,
                    false => self.draft.losses.add("edit of a result that is not in the log"),
                }
            }
        }
    }

    fn reply(
        &mut self,
        place: usize,
        start: Option<i64>,
        output: &[Value],
        usage: Option<LoggedUsage>,
        error: Option<String>,
    ) {
        let mut items: Vec<Message> = output
            .iter()
            .filter_map(|value| self.message(traced::message(value), start.map(Scalar::Time)))
            .collect();
        let calls = items.iter().flat_map(Message::calls);
        self.calls = calls.map(|call| (call.id.filter(|id| !id.is_empty()), call.tool)).collect();
        self.has_reply = !items.is_empty();
        self.is_open = items.is_empty() && error.is_none();
        match items.first_mut() {
            Some(first) => {
                first.usage = usage.map(Box::new);
                self.reader.read_output(
                    None,
                    items.into_iter().map(|item| (place, item)).collect(),
                    &mut self.draft,
                );
            }
            None => {
                self.draft.losses.add("reply whose words are not logged");
                self.reader.end(&mut self.draft);
                self.draft.at(place, start);
                self.draft.begin_call();
                self.draft.usage(usage.and_then(|usage| usage.usage()));
            }
        }
        if let Some(error) = error {
            self.reader.end(&mut self.draft);
            self.draft.at(place, start);
            self.draft.notice(format!("[error] {error}"));
        }
    }

    /// Takes the tools that ran since the newest reply, but for those whose results the next prompt holds.
    fn run_tools(&mut self, tail: &[Message]) {
        let answers: HashSet<&str> = tail.iter().flat_map(Message::answers).map(|(id, _)| id).collect();
        let has_results =
            !answers.is_empty() || tail.iter().any(|message| message.role.as_deref() == Some("tool"));
        for (place, start, tool) in std::mem::take(&mut self.pending) {
            let is_it = |(id, name): &CallName| match (&tool.call_id, id) {
                (Some(of_tool), Some(of_call)) => of_tool == of_call,
                _ => *name == tool.name,
            };
            let call = self.calls.iter().position(is_it).map(|at| self.calls.remove(at));
            if has_results {
                // It stands in the prompt.
                self.draft.losses.add_n(
                    "tool run that no prompt holds left out",
                    u64::from(call.is_none() && !tool.is_doubtful),
                );
                continue;
            }
            match call {
                Some((id, name)) => self.result(place, start, id, name, tool),
                None if tool.is_doubtful => {}
                None => {
                    self.reader.end(&mut self.draft);
                    self.draft.at(place, start);
                    if !self.is_open && !self.has_reply {
                        self.draft.begin_call();
                    }
                    let id = tool.call_id.clone().unwrap_or_else(|| format!("run-{place}"));
                    self.draft.action(tool.name.clone(), tool.arguments.clone(), Some(id.clone()));
                    self.result(place, start, Some(id), tool.name.clone(), tool);
                }
            }
        }
    }

    fn result(&mut self, place: usize, start: Option<i64>, id: Option<String>, name: String, tool: Tool) {
        let Some(text) = tool.result else {
            return;
        };
        // What may be something else was not read before.
        let text = if tool.is_doubtful { traced::said_in(&text) } else { text };
        self.reader.end(&mut self.draft);
        self.draft.at(place, start);
        self.draft.result(id.as_deref(), Some(name), text, tool.is_error);
    }

    fn finish(mut self, mut about: Trajectory, sink: &mut Sink<'_>) {
        self.run_tools(&[]);
        self.reader.end(&mut self.draft);
        about.model = self.model.or(about.model);
        about.policy = self.is_edited.then(|| EDITED.to_owned());
        self.draft.finish(about, sink);
    }
}
