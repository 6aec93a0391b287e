//! What a file was recognised as, and a first mapping for one that was not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::Value;

use super::detect::{self, Detected, Layout};
use super::formats;
use super::formats::mapping::Mapping;
use super::output::add_all;
use super::{Options, input, jobs, parts};

mod counts;
mod said;

use said::{Said, best, said};

/// So much of a file is looked at for a first mapping.
const LOOKED_AT: u64 = 32 << 20;
/// So many fields of each kind are named.
const NAMED: usize = 12;
/// The same of pointers that a mapping leaves out: these are what it is edited by.
const NAMED_POINTERS: usize = 100;

/// What a file is.
#[derive(Debug, Serialize)]
pub struct Explained {
    pub path: String,
    /// What it was recognised as.
    pub recognised: String,
    /// What was read of it, by the first mapping where it is of no known format; none if there is nothing to read it by.
    pub read: Option<Read>,
    /// A first mapping, if it is of no known format.
    pub mapping: Option<String>,
    /// A log stands in it.
    #[serde(skip)]
    is_envelope: bool,
}

/// What reading a file gave.
#[derive(Debug, Default, Serialize)]
pub struct Read {
    pub runs: usize,
    pub steps: usize,
    /// Steps by who speaks and how.
    pub kinds: BTreeMap<String, u64>,
    pub fields_mapped: BTreeMap<String, u64>,
    pub fields_dropped: BTreeMap<String, u64>,
    pub losses: BTreeMap<String, u64>,
    /// Why records could not be read.
    pub rejects: Vec<String>,
    /// So many fields that were left out are named in words.
    #[serde(skip)]
    n_named: usize,
}

/// Says what a file is, what was read of it and what was left out; a first mapping, if it is of no known format.
pub fn explain(path: &Path, options: &Options) -> anyhow::Result<Explained> {
    let how = super::how(options)?;
    let inputs = parts::joined(input::find(std::slice::from_ref(&path.to_owned()))?);
    anyhow::ensure!(inputs.len() == 1, "{} is a folder\nhint: --explain takes one file", path.display());
    if let Some(problem) = &inputs[0].problem {
        anyhow::bail!("cannot read {}: {problem}", path.display());
    }
    let cannot = || format!("cannot read {}", path.display());
    let found = jobs::detected(&inputs[0]).with_context(cannot)?;
    let (recognised, is_known) = recognised(&found, &how);
    let mut told = Explained {
        path: path.display().to_string(),
        recognised,
        read: None,
        mapping: None,
        is_envelope: false,
    };
    if is_known {
        told.read = Some(read(&inputs, how)?);
        return Ok(told);
    }
    if let Some(envelope) = jobs::enveloped(&inputs[0]).with_context(cannot)? {
        (told.recognised, told.is_envelope) = (envelope, true);
    }
    told.mapping = first_mapping(path).with_context(cannot)?;
    if let Some(text) = &told.mapping {
        let first = Mapping::of("the first mapping", text)?;
        told.read =
            Some(read(&inputs, jobs::How { forced: Some(first.entry()), mapping: Some(first), ..how })?);
    }
    Ok(told)
}

impl Explained {
    /// In words. As a whole it is a mapping, with what is told as remarks.
    pub fn text(&self) -> String {
        let mut told = format!("{}\n{}\n", self.path, self.recognised);
        match (&self.mapping, &self.read) {
            (Some(_), _) => {
                told += "a first mapping, to be edited; then: trajpress ingest LOGS --out DATA --mapping FILE.toml\nas it is, it reads this:\n";
            }
            (None, None) if self.is_envelope => {}
            (None, None) => told += "no list of messages was found in it\n",
            (None, Some(_)) => {}
        }
        told += &self.read.as_ref().map_or(String::new(), Read::text);
        let told: String = told.lines().map(|line| format!("# {line}\n")).collect();
        told + self.mapping.as_deref().unwrap_or_default()
    }
}

/// What a file is recognised as, and whether a reader takes it.
fn recognised(found: &Detected, how: &jobs::How) -> (String, bool) {
    if let Some(entry) = how.forced {
        return (format!("read as {}, since that was asked for: {}", entry.name, entry.summary), true);
    }
    match found {
        Detected::Log(entry, layout) => {
            let layout = match layout {
                Layout::Lines => "one value a line",
                Layout::Items => "a list of values",
                Layout::Document => "a document",
                Layout::Archive => "a zip archive",
            };
            (format!("recognised as {} ({}), {layout}", entry.name, entry.summary), true)
        }
        Detected::Database => {
            ("recognised as a SQLite database: its reader is told by its tables".to_owned(), true)
        }
        Detected::Table => {
            ("recognised as a Parquet table: its reader is told by its columns".to_owned(), true)
        }
        Detected::NoLog(detect::UNKNOWN) | Detected::More if how.mapping.is_some() => {
            ("of no known format: read by the mapping".to_owned(), true)
        }
        Detected::NotRead(name) => (format!("recognised as {name}, which has no reader yet"), false),
        Detected::Label(name) => (format!("recognised as {name}: labels, and no run"), false),
        Detected::NoLog(what) => ((*what).to_owned(), false),
        Detected::Bad(what) => (format!("cannot be read: {what}"), false),
        Detected::More => (detect::UNKNOWN.to_owned(), false),
    }
}

/// Reads the file.
fn read(inputs: &[input::Input], how: jobs::How) -> anyhow::Result<Read> {
    let n_named = if how.mapping.is_some() { NAMED_POINTERS } else { NAMED };
    let mut told = Read { n_named, ..Read::default() };
    jobs::for_each_part(inputs, how, &Default::default(), |part| {
        for run in &part.runs {
            told.runs += 1;
            told.steps += run.steps.len();
            run.steps.iter().for_each(|step| {
                *told.kinds.entry(format!("{} {}", step.role.name(), step.kind.name())).or_default() += 1;
            });
        }
        add_all(&mut told.fields_mapped, &part.fields.mapped);
        add_all(&mut told.fields_dropped, &part.fields.dropped);
        add_all(&mut told.losses, &part.losses.0);
        told.rejects.extend(part.rejects.into_iter().map(|reject| reject.reason));
        Ok(())
    })?;
    Ok(told)
}

impl Read {
    fn text(&self) -> String {
        let Read { runs, steps, .. } = self;
        let mut out = format!("runs: {runs}, steps: {steps}{}\n", list(&self.kinds, " = ", usize::MAX));
        let _ = writeln!(out, "told by its fields: {}", list(&self.fields_mapped, "", NAMED));
        let _ = writeln!(out, "fields left out: {}", list(&self.fields_dropped, "", self.n_named));
        for (what, n) in &self.losses {
            let _ = writeln!(out, "{n} x {what}");
        }
        for reason in self.rejects.iter().take(NAMED) {
            let _ = writeln!(out, "could not be read: {reason}");
        }
        if self.rejects.len() > NAMED {
            let _ = writeln!(out, "could not be read: {} more", self.rejects.len() - NAMED);
        }
        out
    }
}

/// Names with their counts, the most first.
fn list(counts: &BTreeMap<String, u64>, before: &str, most: usize) -> String {
    let mut sorted: Vec<_> = counts.iter().collect();
    sorted.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    let more = sorted.len().saturating_sub(most);
    let named: Vec<String> = sorted.iter().take(most).map(|(name, n)| format!("{name} {n}")).collect();
    match (named.is_empty(), more) {
        (true, _) if before.is_empty() => "none".to_owned(),
        (true, _) => String::new(),
        (_, 0) => format!("{before}{}", named.join(", ")),
        _ => format!("{before}{} and {more} more", named.join(", ")),
    }
}

/// Where messages often have what else a mapping asks for, the most telling first.
const MESSAGE: &[(&str, &[&str])] = &[
    ("thought", &["/reasoning_content", "/reasoning", "/thought", "/thinking"]),
    ("time", &["/timestamp", "/time", "/created_at", "/createdAt", "/ts", "/date"]),
    ("model", &["/model", "/message/model"]),
    ("usage", &["/usage", "/message/usage", "/token_usage"]),
    (
        "calls",
        &[
            "/tool_calls",
            "/message/tool_calls",
            "/toolCalls",
            "/calls",
            "/actions",
            "/function_call",
            "/action",
        ],
    ),
    ("result_id", &["/tool_call_id", "/message/tool_call_id", "/toolCallId", "/call_id"]),
    ("is_error", &["/is_error", "/error"]),
];
const CALL: &[(&str, &[&str])] = &[
    ("id", &["/id", "/call_id", "/tool_call_id", "/toolCallId"]),
    ("name", &["/function/name", "/name", "/tool_name", "/toolName", "/tool", "/action"]),
    ("arguments", &["/function/arguments", "/arguments", "/args", "/input", "/parameters", "/action_input"]),
    ("result", &["/result", "/output", "/observation"]),
];
const RUN: &[(&str, &[&str])] = &[
    ("task", &["/task_id", "/instance_id", "/task", "/session_id", "/id"]),
    ("repository", &["/repository", "/repo"]),
    ("agent", &["/agent"]),
    ("model", &["/model", "/model_name", "/config/model"]),
    ("outcome", &["/outcome", "/exit_status", "/status"]),
    ("reward", &["/reward", "/score"]),
    ("resolved", &["/resolved", "/success"]),
    ("system", &["/system_prompt", "/system"]),
    ("tools", &["/tools", "/functions"]),
];

/// A list of messages, and the run that it stands in.
struct Guess<'a> {
    is_lines: bool,
    runs: Option<String>,
    messages: Option<String>,
    run: Option<&'a Value>,
    list: Vec<&'a Value>,
    said: Said,
}

/// A mapping for the beginning of a file, if it has a list of messages.
fn first_mapping(path: &Path) -> anyhow::Result<Option<String>> {
    let mut text = Vec::new();
    input::open(path)?.take(LOOKED_AT).read_to_end(&mut text)?;
    let values: Vec<Value> =
        serde_json::Deserializer::from_slice(&text).into_iter().map_while(Result::ok).take(200).collect();
    let mut guesses = Vec::new();
    let lines: Vec<&Value> = values.iter().collect();
    if values.len() > 1
        && let Some(said) = said(&lines)
    {
        let (runs, messages, run) = (None, None, values.first());
        guesses.push(Guess { is_lines: true, runs, messages, run, list: lines, said });
    }
    if let Some(first) = values.first() {
        look(first, "", None, first, &mut guesses, 0);
    }
    let best = guesses.into_iter().max_by_key(|guess| guess.said.score);
    Ok(best.map(|guess| written(&guess)))
}

/// Looks for lists of messages in a value that stands at `path` in a run.
fn look<'a>(
    value: &'a Value,
    path: &str,
    runs: Option<&str>,
    run: &'a Value,
    out: &mut Vec<Guess<'a>>,
    depth: usize,
) {
    if depth > 6 {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                look(value, &format!("{path}/{key}"), runs, run, out, depth + 1);
            }
        }
        Value::Array(items) => {
            let list: Vec<&Value> = items.iter().filter(|item| item.is_object()).take(200).collect();
            let said = said(&list);
            let is_known = said.as_ref().is_some_and(|said| said.score.0);
            if let Some(said) = said {
                let (runs, messages) = (runs.map(str::to_owned), Some(path.to_owned()));
                out.push(Guess { is_lines: false, runs, messages, run: Some(run), list, said });
            }
            if let (Some(first), None, false) = (items.first(), runs, is_known) {
                // A list of what is no message may be one of runs.
                look(first, "", Some(path), first, out, depth + 1);
            }
        }
        _ => {}
    }
}

/// A guess as TOML.
fn written(guess: &Guess<'_>) -> String {
    let mut out = String::from(
        "# Where things stand, as JSON pointers; a list of pointers: the first that leads to something.\n",
    );
    if guess.is_lines {
        out += "# All lines of a file are messages (\"values\": each value is a run, or holds some).\neach = \"lines\"\n";
        out += &match formats::mapping::sessions(guess.list.iter().copied()) {
            Some((pointer, _)) => format!("# Of the run that this names.\nsession = {}\n", quoted(pointer)),
            None => "# Of one run; a field that names its run, if there is one:\n# session = \"/...\"\n"
                .to_owned(),
        };
    }
    if let Some(runs) = &guess.runs {
        let _ = writeln!(out, "runs = {}", quoted(runs));
    }
    if let Some(messages) = &guess.messages {
        let _ = writeln!(out, "messages = {}", quoted(messages));
    }
    let any = |value: &Value| !value.is_null();
    let run: Vec<&Value> = guess.run.into_iter().collect();
    section(&mut out, "run", RUN, &run, any);
    let Said { role, content, score: (is_known, _) } = &guess.said;
    if !is_known {
        out += "\n# Guessed from what the values look like: see whether it is who speaks, and what is said.";
    }
    out += "\n[message]\n";
    match role {
        Some(role) => out += &format!("role = {}\n", quoted(role)),
        None => {
            out += "# No field was found that says who speaks: without one nothing is read.\n# role = \"/...\"\n";
        }
    }
    match &content[..] {
        [content] => out += &format!("content = {}\n", quoted(content)),
        several => out += &format!("content = {}\n", toml::Value::from(several.to_vec())),
    }
    let mut fields = fields(MESSAGE, &guess.list, any);
    let counts = counts::own(&guess.list, fields.iter().find(|(key, _)| *key == "usage").map(|(_, at)| *at));
    fields.retain(|(key, _)| *key != "usage" || counts.is_empty());
    let calls = fields.iter().find(|(key, _)| *key == "calls").map(|(_, pointer)| *pointer);
    for (key, pointer) in &fields {
        let _ = writeln!(out, "{key} = {}", quoted(pointer));
    }
    let calls: Vec<&Value> = calls
        .map(|pointer| {
            guess.list.iter().filter_map(|message| message.pointer(pointer)).flat_map(each).collect()
        })
        .unwrap_or_default();
    section(&mut out, "call", CALL, &calls, any);
    if !counts.is_empty() {
        out += "\n# What the provider counted: `input` is the whole prompt (`uncached`, if without what the cache held).\n[usage]\n";
        counts.iter().for_each(|(key, pointer)| out += &format!("{key} = {}\n", quoted(pointer)));
    }
    let names: BTreeSet<&str> =
        guess.list.iter().filter_map(|message| message.pointer(role.as_ref()?)?.as_str()).take(200).collect();
    out += "\n# Who speaks: system, user, agent, tool; none for what is no message.\n[roles]\n";
    for name in names.into_iter().take(20) {
        let _ = writeln!(out, "{} = {}", quoted(name), quoted(formats::mapping::role_name(name)));
    }
    out
}

fn each(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |values| values.iter().collect())
}

type Fields = &'static [(&'static str, &'static [&'static str])];

fn fields(of: Fields, list: &[&Value], is_it: fn(&Value) -> bool) -> Vec<(&'static str, &'static str)> {
    of.iter().filter_map(|(key, pointers)| Some((*key, best(pointers, list, is_it)?))).collect()
}

fn section(out: &mut String, name: &str, of: Fields, list: &[&Value], is_it: fn(&Value) -> bool) {
    let fields = fields(of, list, is_it);
    if !fields.is_empty() {
        let _ = writeln!(out, "\n[{name}]");
        for (key, pointer) in fields {
            let _ = writeln!(out, "{key} = {}", quoted(pointer));
        }
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
