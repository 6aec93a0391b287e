//! Claude Code sessions: one JSON value a line. A file is one run, and one more for each sub-agent in it.
//!
//! - All lines of one `message.id` are one reply ([`reply`]): what they repeat counts once. All its parts stand where
//!   the first one stands, with the usage of the newest line.
//! - Words of the user are those that were typed: messages, prompts that waited in the queue while the model worked
//!   (where they were taken up), answers to questions, refusals, and words to an approved plan in results of tools
//!   (observations of the role user). What the harness says in messages of the user (texts of skills and commands,
//!   caveats, reminders, hooks, outputs of local commands, attachments) was seen by the model, and is kept as a message
//!   of the role system.
//! - `parentUuid` tells what was lived ([`tree`]). Abandoned branches are left out and counted, with the texts of the
//!   harness that lead to them; a cleared context is a compaction without text; a context with a prompt that no reply
//!   saw is a run of its own.
//! - `compact_boundary` and the summary after it (`isCompactSummary`) are one step of kind compaction, which opens a
//!   segment; messages that it preserves are kept to that segment, and so are replies that are logged again behind it. A
//!   microcompaction is an edit of the results (and attachments) that it names, from the next decision on.
//! - Side chains are runs of the sub-agents, linked to the session by `parent`. Progress lines of a sub-agent
//!   (`agent_progress`) hold its calls and results but not its texts: no prompt can be rebuilt of them, so they are
//!   left out and counted.
//! - Left out and counted: other progress, messages that are not of the model (`<synthetic>`), other harness
//!   lines, lines whose uuid came before.
//! - A tool result is `message.content`, what the model saw; `toolUseResult` repeats it at length.
//!
//! A session that was resumed or forked names several sessions, and its lines hang on each other; those that do not are runs of
//! their own. It begins with copies of its old lines, uuids and all: so files that
//! begin with the same uuid are told ([`origin`]), and compared by their steps.
//!
//! The system prompt and the tool schemas are not in these logs. Order is by position; times are not monotone.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

mod entry;
mod line;
mod reply;
mod run;
pub(super) mod stream;
mod tree;
mod words;

use entry::{Body, Entry};
use line::{Compact, Line};
use run::Run;
use tree::{Fate, Node, Tree, What};

use super::reading::Draft;
use super::reading::apart::{Place, apart};
use super::reading::draft::{ABANDONED, Losses};
use super::reading::names::repository_of;
use super::reading::repair::{string_end, value_end, without_padding};
use super::reading::scalar::Scalar;
use super::{Entry as Format, Origin, Reading, Session, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Format = Format {
    name: "claude-code",
    summary: "Claude Code session JSONL, with its compactions",
    reading: Reading::Session { open: || Box::<ClaudeSession>::default(), origin },
};

#[derive(Default)]
struct ClaudeSession {
    entries: Vec<Entry>,
    uuids: HashSet<String>,
    losses: Losses,
    n_lines: usize,
    /// The sessions that lines name, in their order.
    sessions: Vec<Named>,
    by_name: HashMap<String, u32>,
    /// What records name as the last line of the conversation, with their positions.
    leaves: Vec<Leaf>,
    cwd: Option<String>,
}

/// Where a record stands, and the last line that it names.
type Leaf = (usize, Option<String>);

/// A session that a line names.
struct Named {
    id: String,
    cwd: Option<String>,
}

impl Session for ClaudeSession {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        if is_progress(bytes) {
            self.read_progress(serde_json::from_slice(bytes)?);
        } else {
            self.read(serde_json::from_slice(bytes)?);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink<'_>) {
        if self.sessions.len() < 2 {
            return self.write(sink);
        }
        let places: Vec<Place<'_>> = self.entries.iter().map(|entry| self.place(entry)).collect();
        let Some(numbers) = apart(&places) else {
            return self.write(sink);
        };
        let mut runs: Vec<(Vec<Entry>, Vec<Leaf>)> = Vec::new();
        let mut leaves = std::mem::take(&mut self.leaves).into_iter().peekable();
        for (entry, number) in std::mem::take(&mut self.entries).into_iter().zip(numbers) {
            runs.resize_with(runs.len().max(number + 1), Default::default);
            while let Some(leaf) = leaves.next_if(|(position, _)| *position <= entry.position) {
                runs[number].1.push(leaf);
            }
            runs[number].0.push(entry);
        }
        for (entries, leaves) in runs {
            (self.entries, self.leaves) = (entries, leaves);
            self.write(sink);
            self.losses = Losses::default();
        }
    }
}

/// Hands a run over.
fn finish_run(mut run: Run, about: Trajectory, sink: &mut Sink<'_>) {
    let mut draft = Draft::new();
    let model = run.model.take();
    let policy = run.finish(&mut draft).then(|| run::MICROCOMPACTION.to_owned());
    draft.finish(Trajectory { model, policy, ..about }, sink);
}

/// The runs in a file: that of the session, and others with the names of their tasks.
struct Runs {
    main: Run,
    others: Vec<(String, Run)>,
}

/// A progress line: only its place in the tree is used.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Progress {
    uuid: Option<String>,
    parent_uuid: Option<String>,
    session_id: Option<String>,
    is_sidechain: Option<Scalar>,
    agent_id: Option<String>,
    data: ProgressData,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProgressData {
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<Box<RawValue>>,
}

/// The calls and the results in a message of a sub-agent that a progress line holds.
fn calls_and_results(message: &RawValue) -> [u64; 2] {
    let message: Value = serde_json::from_str(message.get()).unwrap_or_default();
    let blocks = message["message"]["content"].as_array().map_or(&[][..], Vec::as_slice);
    ["tool_use", "tool_result"].map(|kind| blocks.iter().filter(|block| block["type"] == kind).count() as u64)
}

/// The uuid of the first line of the conversation. A cut line is told by its key `sessionId`, which stands
/// before the message, to be worth a longer head.
pub(super) fn origin(head: &[u8], whole: bool) -> Origin {
    #[derive(Deserialize)]
    struct Said {
        #[serde(rename = "type")]
        kind: String,
        uuid: String,
        #[serde(rename = "isSidechain", default)]
        is_sidechain: Scalar,
        /// Where a fork gives its copies uuids of their own: the line that was copied.
        #[serde(rename = "forkedFrom", default)]
        forked: serde_json::Value,
    }
    let has = |text: &[u8], key: &str| memchr::memmem::find(text, key.as_bytes()).is_some();
    let (lines, last) = head.split_at(memchr::memrchr(b'\n', head).map_or(0, |i| i + 1));
    let (lines, cut) = if whole { (head, &b""[..]) } else { (lines, last) };
    if has(lines, r#""uuid""#) {
        for line in lines.split(|b| *b == b'\n').map(without_padding) {
            // A line may hold several values: the first one counts.
            if let Ok(said) = Said::deserialize(&mut serde_json::Deserializer::from_slice(line))
                && is_said(&said.kind)
                && !line::is_true(Some(said.is_sidechain), "isSidechain", &mut Losses::default())
            {
                return Origin::Uuid(said.forked["messageUuid"].as_str().map_or(said.uuid, str::to_owned));
            }
        }
    }
    if has(cut, r#""sessionId""#) { Origin::More } else { Origin::None }
}

/// Whether lines of this type belong to the conversation.
fn is_said(kind: &str) -> bool {
    matches!(kind, "user" | "assistant" | "system")
}

/// Whether a line is of type progress, told without parsing it: a third of all lines are, and none
/// is kept. The mark must stand outside of any inner object.
fn is_progress(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(2048)];
    let Some(found) = memchr::memmem::find(head, br#""type":"progress""#) else {
        return false;
    };
    let (mut depth, mut at) = (0, 0);
    while at < found {
        match head[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => match string_end(head, at) {
                Some(end) => {
                    at = end;
                    continue;
                }
                None => return false,
            },
            _ => {}
        }
        at += 1;
    }
    // A cut line is not told by its head alone.
    depth == 1 && at == found && bytes.ends_with(b"}") && value_end(bytes, 0) == Some(bytes.len())
}

impl ClaudeSession {
    fn place<'a>(&'a self, entry: &'a Entry) -> Place<'a> {
        Place {
            session: entry.session.map(|session| self.sessions[session as usize].id.as_str()),
            uuid: entry.uuid.as_deref(),
            parents: [entry.parent.as_deref(), entry.logical_parent.as_deref()],
            is_said: !matches!(entry.body, Body::Link | Body::Title(_) | Body::Queue { .. }),
            goes_on: matches!(entry.body, Body::Boundary { .. } | Body::Summary(_)),
        }
    }

    /// The number of the session that a line names.
    fn session(&mut self, id: Option<String>) -> Option<u32> {
        let id = id?;
        if let Some(known) = self.by_name.get(&id) {
            return Some(*known);
        }
        let number = self.sessions.len() as u32;
        self.by_name.insert(id.clone(), number);
        self.sessions.push(Named { id, cwd: None });
        Some(number)
    }

    /// Hands over the runs of the lines.
    fn write(&mut self, sink: &mut Sink<'_>) {
        let is_said = |entry: &&Entry| entry.is_of_conversation;
        let newest = |is_sidechain: bool| {
            let of = self.entries.iter().filter(is_said).filter(|entry| entry.is_sidechain == is_sidechain);
            of.filter_map(|entry| entry.session).next_back()
        };
        let cwd = self.entries.iter().find_map(|entry| self.sessions[entry.session? as usize].cwd.as_deref());
        let cwd = cwd.or(self.cwd.as_deref());
        let about = Trajectory {
            repository: cwd.and_then(repository_of),
            agent: Some("claude-code".to_owned()),
            ..Trajectory::default()
        };
        // That of the sub-agents, should there be nothing else.
        let (main, agents) = (newest(false), newest(true));
        let logged = main.or(agents).map(|session| self.sessions[session as usize].id.clone());
        let (is_named_by_file, is_logged) = (main.is_none(), logged.is_some());
        let session = logged.unwrap_or_else(|| sink.source.stem.clone());
        let leaf = self.leaf();
        let runs = self.cut(&session, leaf.as_deref());
        sink.losses.merge(&self.losses);
        if runs.main.is_empty() && !runs.others.is_empty() {
            sink.losses.merge(&runs.main.losses);
        } else {
            let named = (!is_named_by_file).then(|| session.clone());
            let about = Trajectory {
                task_id: Some(session.clone()),
                is_named_by_file,
                session: named,
                ..about.clone()
            };
            finish_run(runs.main, about, sink);
        }
        for (name, run) in runs.others {
            let about = Trajectory {
                session: is_logged.then(|| format!("{session}/{name}")),
                task_id: Some(name),
                parent: Some(session.clone()),
                ..about.clone()
            };
            finish_run(run, about, sink);
        }
    }

    /// What the newest record of these sessions names as the last line, if nothing was said behind it.
    fn leaf(&self) -> Option<String> {
        let is_said = |entry: &&Entry| {
            !entry.is_sidechain
                && matches!(entry.body, Body::User { .. } | Body::Reply { .. } | Body::Summary(_))
        };
        let newest = self.entries.iter().rfind(is_said).map_or(0, |entry| entry.position + 1);
        self.leaves.last().filter(|(at, _)| *at >= newest).and_then(|(_, leaf)| leaf.clone())
    }

    fn read_progress(&mut self, line: Progress) {
        let position = self.n_lines;
        self.n_lines += 1;
        match line.data.kind.as_deref() {
            Some("agent_progress") => {
                self.losses.add("progress line of a sub-agent, without its texts, left out");
                let [calls, results] = line.data.message.as_deref().map_or([0, 0], calls_and_results);
                self.losses.add_n("call of a sub-agent without its texts, left out", calls);
                self.losses.add_n("result of a sub-agent without its texts, left out", results);
            }
            _ => self.losses.add("progress line left out"),
        }
        if let Some(uuid) = line.uuid
            && self.uuids.insert(uuid.clone())
        {
            let session = self.session(line.session_id);
            self.entries.push(Entry {
                position,
                session,
                is_of_conversation: false,
                time: None,
                uuid: Some(uuid),
                parent: line.parent_uuid,
                logical_parent: None,
                is_sidechain: line::is_true(line.is_sidechain, "isSidechain", &mut self.losses)
                    || line.agent_id.is_some(),
                agent: line.agent_id,
                body: Body::Link,
            });
        }
    }

    fn read(&mut self, mut line: Line) {
        let position = self.n_lines;
        self.n_lines += 1;
        line.forget_empty_ids();
        let message_id = line.message.as_ref().and_then(|m| m.id.clone());
        if let Some(uuid) = &line.uuid
            && !self.uuids.insert(uuid.clone())
            && !self.goes_on(message_id.as_deref())
        {
            self.losses.add("line with a repeated uuid left out");
            return;
        }
        // Lines of a sub-agent name it, in files of their own too.
        let is_sidechain =
            line::is_true(line.is_sidechain, "isSidechain", &mut self.losses) || line.agent_id.is_some();
        let kind = line.kind.take().unwrap_or_default();
        let (session, is_of_conversation) = (self.session(line.session_id.take()), is_said(&kind));
        if is_of_conversation && let Some(cwd) = line.cwd.take() {
            let of = session.map_or(&mut self.cwd, |session| &mut self.sessions[session as usize].cwd);
            of.get_or_insert(cwd);
        }
        let mut entry = Entry {
            position,
            session,
            is_of_conversation,
            time: line.timestamp.unwrap_or_default().time(&mut self.losses),
            uuid: line.uuid.take(),
            parent: line.parent.take(),
            logical_parent: line.logical_parent.take(),
            is_sidechain,
            agent: line.agent_id.take(),
            body: Body::Link,
        };
        if kind == "last-prompt" {
            self.leaves.push((position, line.leaf.take()));
        }
        entry.body = entry::read(&kind, line, &mut self.losses);
        self.entries.push(entry);
    }

    /// Whether a line is of the message that the newest line is of.
    fn goes_on(&self, message_id: Option<&str>) -> bool {
        match self.entries.iter().map(|entry| &entry.body).rfind(|body| !matches!(body, Body::Link)) {
            Some(Body::Reply { id: Some(id), .. }) => Some(id.as_str()) == message_id,
            _ => false,
        }
    }

    /// Tells the runs in the file apart, and leaves out what was not lived.
    fn cut(&mut self, session: &str, leaf: Option<&str>) -> Runs {
        let (fates, chains, prompts) = self.resolve(leaf);
        let mut main = Run::default();
        let mut others: Vec<(String, Run)> = Vec::new();
        let mut by_key: HashMap<(Option<String>, usize), usize> = HashMap::new();
        for (i, entry) in std::mem::take(&mut self.entries).into_iter().enumerate() {
            let is_link = matches!(entry.body, Body::Link);
            let key = match fates[i] {
                _ if entry.is_sidechain => match &entry.agent {
                    Some(agent) => (Some(agent.clone()), 0),
                    None => (None, chains[i]),
                },
                Fate::Unanswered(start) if prompts.contains(&start) => (None, start),
                Fate::Unanswered(_) => {
                    self.losses.add_n(
                        "line before a cleared context that no reply saw left out",
                        u64::from(!is_link),
                    );
                    continue;
                }
                Fate::Abandoned => {
                    self.losses.add_n(ABANDONED, u64::from(!is_link));
                    if matches!(entry.body, Body::Reply { .. }) {
                        main.abandon_queue();
                    }
                    continue;
                }
                Fate::Lived | Fate::Clears => {
                    if fates[i] == Fate::Clears {
                        main.clear(entry.position, entry.time);
                    }
                    main.read(entry);
                    continue;
                }
            };
            if is_link {
                continue;
            }
            let index = *by_key.entry(key).or_insert_with(|| {
                let place = entry.uuid.clone().unwrap_or_else(|| format!("{session}/{}", entry.position));
                let name =
                    entry.agent.as_ref().map_or(place.clone(), |agent| format!("agent-{agent}/{place}"));
                others.push((name, Run::default()));
                others.len() - 1
            });
            others[index].1.read(entry);
        }
        Runs { main, others }
    }

    /// Reads the tree: what became of each line, the chain of each, and the contexts that hold a prompt. What
    /// compactions name by uuids is noted on them by position.
    fn resolve(&mut self, leaf: Option<&str>) -> (Vec<Fate>, Vec<usize>, HashSet<usize>) {
        let nodes: Vec<Node<'_>> = self.entries.iter().map(Entry::node).collect();
        let tree = Tree::new(&nodes);
        let fates = tree.fates(leaf.and_then(|leaf| tree.find(leaf)));
        let has_prompt = |i: &usize| nodes[*i].what == What::Prompt;
        let prompts = (0..nodes.len())
            .filter(has_prompt)
            .filter_map(|i| match fates[i] {
                Fate::Unanswered(start) => Some(start),
                _ => None,
            })
            .collect();
        let mut losses = Losses::default();
        let chains = tree.chains();
        let positions = |found: Vec<usize>| found.into_iter().map(|i| self.entries[i].position).collect();
        let named: Vec<Vec<usize>> = self
            .entries
            .iter()
            .map(|entry| match &entry.body {
                Body::Boundary { compact, .. } => positions(kept_by(compact, &tree, &mut losses)),
                Body::Clearing { attachments, .. } => {
                    positions(attachments.iter().filter_map(|uuid| tree.find(uuid)).collect())
                }
                _ => Vec::new(),
            })
            .collect();
        for (entry, found) in self.entries.iter_mut().zip(named) {
            match &mut entry.body {
                Body::Boundary { kept, .. } => *kept = found,
                Body::Clearing { attachments, messages, .. } => {
                    let n_lost = attachments.len() - found.len();
                    losses.add_n("cleared message that is not in the log", n_lost as u64);
                    *messages = found;
                }
                _ => {}
            }
        }
        self.losses.merge(&losses);
        (fates, chains, prompts)
    }
}

/// The lines that a compaction keeps: those that it names, or those from the first one that it names to the last one.
fn kept_by(compact: &Compact, tree: &Tree<'_>, losses: &mut Losses) -> Vec<usize> {
    let mut find = |uuid: &str| {
        let found = tree.find(uuid);
        losses.add_n("kept message that is not in the log", u64::from(found.is_none()));
        found
    };
    let messages = compact.messages.as_ref().and_then(|m| m.all.as_ref().or(m.uuids.as_ref()));
    if let Some(all) = messages.filter(|all| !all.0.is_empty()) {
        return all.0.iter().filter_map(|uuid| find(uuid)).collect();
    }
    let Some(segment) = &compact.segment else {
        return Vec::new();
    };
    let mut end = |uuid: &Option<String>| uuid.as_deref().and_then(&mut find);
    match (end(&segment.head), end(&segment.tail)) {
        (Some(head), Some(tail)) => tree.between(head, tail),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
