//! A format that nobody here knows, read by a mapping: a TOML of JSON pointers says where runs, messages and calls stand.
//!
//! What they point to becomes chat messages, which are read as those of `openai_chat` are: no second way of reading.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::files::reach;
use crate::settings;

use super::{Entry, Reading, Sink, openai_chat};

mod left;
mod lines;

pub(crate) use lines::sessions;

pub(super) const ENTRY: Entry = Entry {
    name: "mapping",
    summary: "Any JSON or JSONL, by a TOML of JSON pointers: `ingest --mapping FILE`",
    reading: Reading::Values(read),
};

/// The same for a file whose lines are messages.
pub(crate) static LINES: Entry = Entry {
    reading: Reading::Session { open: || Box::<lines::Lines>::default(), origin: |_, _| super::Origin::None },
    ..ENTRY
};

/// One pointer, or several: of these the first that leads to something.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a JSON pointer, such as \"/message/role\", or a list of them")]
enum Pointers {
    One(String),
    More(Vec<String>),
}

impl Pointers {
    fn all(&self) -> &[String] {
        match self {
            Pointers::One(one) => std::slice::from_ref(one),
            Pointers::More(more) => more,
        }
    }

    fn find<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.all().iter().find_map(|pointer| value.pointer(pointer).filter(|value| !value.is_null()))
    }
}

fn find<'a>(pointers: &Option<Pointers>, value: &'a Value) -> Option<&'a Value> {
    pointers.as_ref()?.find(value)
}

/// Where runs stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Runs {
    /// Each value of a file is a run, or holds a list of them.
    #[default]
    Values,
    /// All lines of a file are messages, of one run or of several that `session` tells apart.
    Lines,
}

/// What a mapping says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapping {
    #[serde(default)]
    each: Runs,
    /// In a line, the name of the run that it is of; who says it has lines.
    session: Option<Pointers>,
    /// In a value, the list of runs; none is the value itself.
    runs: Option<Pointers>,
    /// In a run, the list of messages; "" is the run itself.
    messages: Option<Pointers>,
    #[serde(default)]
    run: Run,
    #[serde(default)]
    message: Message,
    #[serde(default)]
    call: Call,
    #[serde(default)]
    usage: Usage,
    /// What the log calls those who speak, and who that is: system, user, agent, tool, or none for what is no message.
    #[serde(default)]
    roles: BTreeMap<String, Role>,
    /// Hash of its text.
    #[serde(skip)]
    pub(crate) digest: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Run {
    task: Option<Pointers>,
    repository: Option<Pointers>,
    agent: Option<Pointers>,
    model: Option<Pointers>,
    outcome: Option<Pointers>,
    reward: Option<Pointers>,
    resolved: Option<Pointers>,
    system: Option<Pointers>,
    tools: Option<Pointers>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Message {
    role: Option<Pointers>,
    content: Option<Pointers>,
    thought: Option<Pointers>,
    time: Option<Pointers>,
    model: Option<Pointers>,
    usage: Option<Pointers>,
    /// The list of calls, or one; "" is the message itself.
    calls: Option<Pointers>,
    /// Which call a result answers, and what failed.
    result_id: Option<Pointers>,
    tool: Option<Pointers>,
    is_error: Option<Pointers>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Call {
    id: Option<Pointers>,
    name: Option<Pointers>,
    arguments: Option<Pointers>,
    /// The result, where it stands in the call.
    result: Option<Pointers>,
}

/// In a message, what its provider counted, where that has names of its own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Usage {
    /// The whole prompt.
    input: Option<Pointers>,
    /// Or what of it was not in the cache; the whole is this and the counts of the cache.
    uncached: Option<Pointers>,
    output: Option<Pointers>,
    cached: Option<Pointers>,
    cache_write: Option<Pointers>,
    reasoning: Option<Pointers>,
    cost: Option<Pointers>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    System,
    User,
    Agent,
    Tool,
    None,
}

/// What logs call those who speak, where the mapping does not say it.
const ROLES: [(&str, Role); 16] = [
    ("system", Role::System),
    ("developer", Role::System),
    ("user", Role::User),
    ("human", Role::User),
    ("assistant", Role::Agent),
    ("agent", Role::Agent),
    ("ai", Role::Agent),
    ("bot", Role::Agent),
    ("gpt", Role::Agent),
    ("model", Role::Agent),
    ("tool", Role::Tool),
    ("function", Role::Tool),
    ("observation", Role::Tool),
    ("environment", Role::Tool),
    ("tool_result", Role::Tool),
    ("tool_response", Role::Tool),
];

impl Run {
    fn pointers(&self) -> [&Option<Pointers>; 9] {
        let Run { task, repository, agent, model, outcome, reward, resolved, system, tools } = self;
        [task, repository, agent, model, outcome, reward, resolved, system, tools]
    }
}

impl Message {
    fn pointers(&self) -> [&Option<Pointers>; 10] {
        let Message { role, content, thought, time, model, usage, calls, result_id, tool, is_error } = self;
        [role, content, thought, time, model, usage, calls, result_id, tool, is_error]
    }
}

impl Call {
    fn pointers(&self) -> [&Option<Pointers>; 4] {
        [&self.id, &self.name, &self.arguments, &self.result]
    }
}

impl Usage {
    /// By the names that the counts have in logs of chats.
    fn named(&self) -> [(&'static str, &Option<Pointers>); 7] {
        let Usage { input, uncached, output, cached, cache_write, reasoning, cost } = self;
        [
            ("prompt_tokens", input),
            ("input_tokens", uncached),
            ("completion_tokens", output),
            ("cache_read_input_tokens", cached),
            ("cache_creation_input_tokens", cache_write),
            ("reasoning_output_tokens", reasoning),
            ("cost", cost),
        ]
    }
}

impl Mapping {
    /// Reads a mapping. It lives as long as the program: readers are plain functions, which the catalogue holds.
    pub(crate) fn load(path: &Path) -> anyhow::Result<&'static Mapping> {
        let name = path.display().to_string();
        let text = reach::text(path).with_context(|| format!("cannot read {name}"))?;
        Self::of(&name, &text)
    }

    /// The same of its text.
    pub(crate) fn of(name: &str, text: &str) -> anyhow::Result<&'static Mapping> {
        let mut mapping: Mapping = settings::Source { path: name, text }.read()?;
        mapping.digest = blake3::hash(text.as_bytes()).to_hex()[..32].to_owned();
        Ok(Box::leak(Box::new(mapping)))
    }

    /// How a file is read by it.
    pub(crate) fn entry(&self) -> &'static Entry {
        match self.each {
            Runs::Values if self.session.is_none() => {
                super::ALL.iter().find(|e| e.name == "mapping").expect("the catalogue has it")
            }
            _ => &LINES,
        }
    }

    /// The runs in a value.
    fn runs<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match &self.runs {
            None => vec![value],
            Some(pointers) => match pointers.find(value) {
                Some(Value::Array(runs)) => runs.iter().collect(),
                Some(Value::Object(runs)) => runs.values().collect(),
                _ => Vec::new(),
            },
        }
    }

    /// A run as a chat; none without messages. `whole` is the value around it.
    fn chat(&self, run: &Value, whole: &Value, sink: &mut Sink<'_>) -> Option<Value> {
        let list = match &self.messages {
            Some(pointers) => pointers.find(run)?,
            None => run,
        };
        let list = list.as_array()?;
        left::note("mapping.run", run, self.run.pointers().into_iter().chain([&self.messages]));
        Some(self.chat_of(&[run, whole], list, sink))
    }

    /// `about` are the values that may say what a run is, the nearest first; those behind it are about other runs, too.
    fn chat_of<'v>(
        &self,
        about: &[&'v Value],
        list: impl IntoIterator<Item = &'v Value, IntoIter: Clone>,
        sink: &mut Sink<'_>,
    ) -> Value {
        let list = list.into_iter();
        let shared = |pointers: &Option<Pointers>| about.iter().find_map(|value| find(pointers, value));
        let own = |pointers: &Option<Pointers>| find(pointers, about.first()?);
        let mut messages = Vec::new();
        if let Some(system) = shared(&self.run.system) {
            messages.push(json!({"role": "system", "content": system}));
        }
        for message in list.clone() {
            self.message(message, &mut messages, sink);
        }
        let mut chat = Map::from_iter([("messages".to_owned(), Value::Array(messages))]);
        let Run { task, repository, agent, model, outcome, reward, resolved, tools, .. } = &self.run;
        let parts = [
            ("task_id", own(task)),
            ("repository", shared(repository)),
            ("agent", shared(agent)),
            ("model", shared(model)),
            ("outcome", own(outcome)),
            ("reward", own(reward)),
            ("resolved", own(resolved)),
            ("tools", shared(tools)),
        ];
        for (key, value) in parts {
            let is_text = !["reward", "resolved", "tools"].contains(&key);
            let read = |value: &Value| if is_text { text(value).into() } else { value.clone() };
            chat.extend(value.map(|value| (key.to_owned(), read(value))));
        }
        let model = || list.clone().find_map(|message| find(&self.message.model, message));
        if !chat.contains_key("model")
            && let Some(model) = model()
        {
            chat.insert("model".to_owned(), text(model).into());
        }
        Value::Object(chat)
    }

    /// A message, and the results that stand in its calls.
    fn message(&self, value: &Value, messages: &mut Vec<Value>, sink: &mut Sink<'_>) {
        let calls: Vec<&Value> = match find(&self.message.calls, value) {
            Some(Value::Array(calls)) => calls.iter().collect(),
            Some(call) => vec![call],
            None => Vec::new(),
        };
        // Only what has a name is a call: the message itself is one or none.
        let calls: Vec<&Value> =
            calls.into_iter().filter(|call| find(&self.call.name, call).is_some()).collect();
        self.note_left(value, &calls);
        let named = find(&self.message.role, value).map(text);
        let role = match &named {
            Some(name) => self.role(name),
            None if !calls.is_empty() => Some(Role::Agent),
            None => None,
        };
        let is_result = find(&self.message.result_id, value).is_some() && calls.is_empty();
        let role = match role {
            Some(Role::None) => return sink.losses.add("record that the mapping leaves out"),
            // Providers give results to the user.
            Some(Role::User) | None if is_result => Role::Tool,
            Some(role) => role,
            None => {
                let name: String = named.as_deref().unwrap_or("none").chars().take(40).collect();
                return sink.losses.add(&format!("record without a role in the mapping left out: {name}"));
            }
        };
        let name = match role {
            Role::System => "system",
            Role::User => "user",
            Role::Agent | Role::None => "assistant",
            Role::Tool => "tool",
        };
        let content = find(&self.message.content, value).cloned().unwrap_or_else(|| "".into());
        let mut message = Map::from_iter([("role".to_owned(), name.into()), ("content".to_owned(), content)]);
        let mut parts = vec![("timestamp", &self.message.time)];
        match role {
            Role::Agent => {
                message.extend(self.usage(value).map(|usage| ("usage".to_owned(), usage)));
                parts.push(("reasoning_content", &self.message.thought));
            }
            Role::Tool => parts.extend([
                ("tool_call_id", &self.message.result_id),
                ("name", &self.message.tool),
                ("is_error", &self.message.is_error),
            ]),
            _ => {}
        }
        for (key, pointers) in parts {
            // Ids are numbers here and there.
            let is_text = ["tool_call_id", "name"].contains(&key);
            let read = |value: &Value| if is_text { text(value).into() } else { value.clone() };
            message.extend(find(pointers, value).map(|value| (key.to_owned(), read(value))));
        }
        let mut results = Vec::new();
        if !calls.is_empty() {
            let calls =
                calls.iter().enumerate().map(|(i, call)| self.call(call, messages.len(), i, &mut results));
            message.insert("tool_calls".to_owned(), calls.collect());
        }
        messages.push(Value::Object(message));
        messages.extend(results);
    }

    /// What was counted for a message: as it stands there, with the parts that have pointers of their own.
    fn usage(&self, value: &Value) -> Option<Value> {
        let whole = find(&self.message.usage, value);
        let parts = self.usage.named();
        let mut parts = parts
            .iter()
            .filter_map(|(name, at)| Some(((*name).to_owned(), find(at, value)?.clone())))
            .peekable();
        if parts.peek().is_none() {
            return whole.cloned();
        }
        let mut usage = whole.and_then(Value::as_object).cloned().unwrap_or_default();
        usage.extend(parts);
        Some(usage.into())
    }

    /// Counts what no pointer leads to.
    fn note_left(&self, value: &Value, calls: &[&Value]) {
        let is_call = calls.iter().any(|call| std::ptr::eq(*call, value));
        let of_call = self.call.pointers().into_iter().filter(|_| is_call);
        // What is said of a run stands in its lines, where these are messages.
        let is_line = self.each == Runs::Lines || self.session.is_some();
        let of_run = self.run.pointers().into_iter().chain([&self.session]).filter(|_| is_line);
        let counts = self.usage.named().map(|(_, pointers)| pointers);
        let known = self.message.pointers().into_iter().chain(of_call).chain(of_run).chain(counts);
        left::note("mapping.message", value, known);
        for call in calls.iter().filter(|_| !is_call) {
            left::note("mapping.call", call, self.call.pointers().into_iter());
        }
    }

    fn call(&self, call: &Value, place: usize, i: usize, results: &mut Vec<Value>) -> Value {
        let id = find(&self.call.id, call).map_or_else(|| format!("call-{place}-{i}"), text);
        let arguments = find(&self.call.arguments, call).cloned().unwrap_or_else(|| json!({}));
        let name = find(&self.call.name, call).map(text);
        if let Some(result) = find(&self.call.result, call) {
            results.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
        }
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    }

    fn role(&self, name: &str) -> Option<Role> {
        let name = name.trim();
        self.roles.get(name).copied().or_else(|| {
            let lower = name.to_ascii_lowercase();
            ROLES.iter().find(|(known, _)| *known == lower).map(|(_, role)| *role)
        })
    }
}

/// Who speaks under a name, if that or a word of it is known.
pub(crate) fn role_name(name: &str) -> &'static str {
    let lower = name.to_ascii_lowercase();
    let role = |name: &str| ROLES.iter().find(|(known, _)| *known == name).map(|(_, role)| *role);
    let of_word = || lower.split(|c: char| !c.is_alphanumeric()).find_map(role);
    match role(&lower).or_else(of_word) {
        Some(Role::System) => "system",
        Some(Role::User) => "user",
        Some(Role::Agent) => "agent",
        Some(Role::Tool) => "tool",
        Some(Role::None) | None => "none",
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let value: Value = serde_json::from_slice(bytes)?;
    let Some(mapping) = sink.source.mapping else { anyhow::bail!("{NO_MAPPING}") };
    let runs = mapping.runs(&value);
    let index = sink.index;
    anyhow::ensure!(!runs.is_empty(), "no list of runs where the mapping says it is");
    let Run { repository, agent, model, system, tools, .. } = &mapping.run;
    if mapping.runs.is_some() {
        left::note(
            "mapping.document",
            &value,
            [&mapping.runs, repository, agent, model, system, tools].into_iter(),
        );
    }
    let mut n_read = 0;
    for (i, run) in runs.iter().enumerate() {
        if runs.len() > 1 {
            sink.index = Some(i);
        }
        if let Some(chat) = mapping.chat(run, &value, sink) {
            openai_chat::read(&serde_json::to_vec(&chat)?, sink)?;
            n_read += 1;
        }
    }
    sink.index = index;
    anyhow::ensure!(n_read > 0, "no list of messages where the mapping says it is");
    sink.losses.add_n("run without messages where the mapping says they are", (runs.len() - n_read) as u64);
    Ok(())
}

pub(crate) const NO_MAPPING: &str =
    "no mapping is given\nhint: `--mapping FILE`; `--explain LOG` prints a first one";

#[cfg(test)]
mod tests;
