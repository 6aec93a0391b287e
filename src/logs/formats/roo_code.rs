//! Tasks of Roo Code and Cline in VS Code: a folder a task. `api_conversation_history.json` holds the messages as they are
//! sent, `ui_messages.json` what the user was shown: of that only what is nowhere else is taken, the usage of each call and
//! the reasoning. `task_metadata.json` and `history_item.json` name the workspace, the model and the parent.
//!
//! Calls are blocks with ids, or in the older dialect elements of XML in the text ([`xml`]), answered by blocks that begin
//! with `[tool ...] Result:`. A summary (`isSummary`) takes the place of what stands before it, and so does the mark of a
//! truncation; what Cline leaves out of the prompts it notes beside what it shows. Where the messages are not there, the run is read from what was shown ([`ui`]).

use std::collections::{BTreeMap, HashMap};

use super::reading::content::Block;
use super::reading::draft::{Losses, UNTOLD};
use super::reading::list::each_item;
use super::reading::names::repository_of;
use super::reading::reply::{Call, Reply};
use super::reading::scalar::Scalar;
use super::reading::{Content, Draft, List, record};
use super::{Entry, File, Reading, Sink, read_repaired};
use crate::trajectory::{Role, Trajectory, Usage};

mod ui;
mod xml;

use ui::Shown;

pub(super) const ENTRY: Entry = Entry {
    name: "roo-code",
    summary: "tasks of Roo Code and of Cline's extension",
    reading: Reading::Files { together, read, origin: |_, _| super::Origin::None },
};

/// The names of the files, the one first by which a task is told.
const FILES: [&str; 4] =
    ["api_conversation_history.json", "ui_messages.json", "task_metadata.json", "history_item.json"];

/// Groups files by their folders.
fn together(names: &[&str]) -> Vec<Vec<usize>> {
    let mut folders: BTreeMap<&str, Vec<(usize, usize)>> = BTreeMap::new();
    for (file, name) in names.iter().enumerate() {
        let (folder, last) = name.rsplit_once('/').unwrap_or(("", name));
        let last = last.trim_end_matches(".gz").trim_end_matches(".zst");
        if let Some(kind) = FILES.iter().position(|known| *known == last) {
            let files = folders.entry(folder).or_default();
            // The same packed and unpacked is there once.
            if files.iter().all(|(known, _)| *known != kind) {
                files.push((kind, file));
            }
        }
    }
    let sorted = folders.into_values().map(|mut files| {
        files.sort_unstable();
        files.into_iter().map(|(_, file)| file).collect()
    });
    sorted.collect()
}

record! {
    struct Message in "roo.message" {
        role: String = "role",
        content: Content = "content",
        time: Scalar = "ts",
        is_summary: Scalar = "isSummary",
        is_truncation: Scalar = "isTruncationMarker",
        compaction: String = "condenseId" | "truncationId",
        condensed: String = "condenseParent",
        truncated: String = "truncationParent",
        reasoning: Content = "reasoning_content" | "reasoning",
        kind: String = "type",
        model: ModelInfo = "modelInfo",
    }

    struct ModelInfo in "roo.message.model" {
        id: String = "modelId" | "id",
    }

    /// What the files beside the messages say of the task.
    struct About in "roo.task" {
        id: String = "id",
        workspace: String = "workspace" | "cwdOnTaskInitialization",
        parent: String = "parentTaskId",
        models: List<Used> = "model_usage",
        tokens_sent: Scalar = "tokensIn",
    }

    struct Used in "roo.task.model" {
        id: String = "model_id",
    }
}

fn read(files: &[File], sink: &mut Sink<'_>) {
    let (mut messages, mut shown) = (Vec::new(), Vec::new());
    let mut about = About::default();
    for file in files {
        match list_of(&file.bytes) {
            Some("shown") => each_item(&file.bytes, sink, |item, _| {
                shown.push(serde_json::from_slice::<Shown>(item)?);
                Ok(())
            }),
            Some(_) => each_item(&file.bytes, sink, |item, _| {
                messages.push(serde_json::from_slice::<Message>(item)?);
                Ok(())
            }),
            None => read_repaired(&file.bytes, sink, |bytes, _| {
                let more: About = serde_json::from_slice(bytes)?;
                about.id = about.id.take().or(more.id);
                about.workspace = about.workspace.take().or(more.workspace);
                about.parent = about.parent.take().or(more.parent);
                about.models = about.models.take().or(more.models);
                Ok(())
            }),
        }
    }
    let mut reader = Reader { is_cline: about.models.is_some(), ..Reader::default() };
    let mut draft = Draft::new();
    // Which replies are of the others stands beside these.
    if let Some(model) = about.models.unwrap_or_default().0.into_iter().find_map(|model| model.id) {
        draft.model(&model);
    }
    if messages.is_empty() {
        ui::read_all(shown, &mut draft);
    } else {
        let truncations = truncations(&messages, &shown, &mut draft.losses);
        let is_truncated = !truncations.is_empty();
        let compactions = match is_truncated {
            true => truncations,
            false => compactions(&messages, &shown, &mut draft.losses),
        };
        let kept_to = kept_to(&messages, &compactions, is_truncated);
        let mut shown = ui::Calls::of(shown, &mut draft.losses);
        let mut texts: Vec<String> = vec![String::new(); messages.len()];
        let compact = |before: usize, texts: &mut [String], draft: &mut Draft| {
            for of in compactions.iter().filter(|of| of.at == before) {
                let n_steps = draft.n_steps();
                // What was left out without a mark left nothing.
                draft.keep_to(kept_to[of.mark].filter(|_| !texts[of.mark].is_empty()));
                draft.at(of.mark, of.time);
                draft.compaction(std::mem::take(&mut texts[of.mark]));
                let usage = of.cost.map(|cost| Usage { cost: Some(cost), ..Usage::default() });
                draft.written_with(usage, n_steps);
                let [before, behind] = of.resized;
                draft.resized(before, behind, n_steps);
            }
        };
        for (i, message) in messages.into_iter().enumerate() {
            compact(i, &mut texts, &mut draft);
            if message.is_mark() {
                texts[i] = message.content.unwrap_or_default().into_text(&mut draft.losses);
                continue;
            }
            draft.keep_to(kept_to[i]);
            reader.read(i, message, &mut shown, &mut draft);
        }
        compact(texts.len(), &mut texts, &mut draft);
        shown.end(&mut draft.losses);
    }
    let about = Trajectory {
        parent: about.parent.filter(|parent| !parent.is_empty()),
        repository: about.workspace.or(reader.workspace).as_deref().and_then(repository_of),
        agent: Some(if reader.is_cline { "cline" } else { "roo-code" }.to_owned()),
        ..Trajectory::default()
    }
    .of_session(about.id, &sink.source.stem);
    draft.finish(about, sink);
}

impl Message {
    /// Whether it stands for what is not sent any more.
    fn is_mark(&self) -> bool {
        [self.is_summary, self.is_truncation].contains(&Some(Scalar::Bool(true)))
    }
}

/// Where a compaction took place.
struct Compacted {
    /// Before this message.
    at: usize,
    /// The message that stands for what went, or the last one that did.
    mark: usize,
    time: Option<i64>,
    cost: Option<f64>,
    resized: [Option<Scalar>; 2],
}

/// The compactions that the messages have marks of. A mark stands behind what went; what comes behind it was kept, up to the time at
/// which the user was shown that. Its own time is that of what it stands beside.
fn compactions(messages: &[Message], shown: &[Shown], losses: &mut Losses) -> Vec<Compacted> {
    let mut shown = ui::compactions(shown, losses);
    let mut found = Vec::new();
    let mut n_left = messages.iter().filter(|message| message.is_mark()).count();
    for (mark, message) in messages.iter().enumerate().filter(|(_, message)| message.is_mark()) {
        let by_id = |told: &ui::Compaction| told.id.is_some() && told.id == message.compaction;
        // Where one took the mark of an earlier one away, those that are left are the last ones.
        let last = (!shown.is_empty()).then(|| shown.len().saturating_sub(n_left));
        let at = shown.iter().position(by_id).or(last);
        n_left -= 1;
        let told = at.map(|at| shown.remove(at));
        let time = told.as_ref().and_then(|told| told.time);
        let is_later = |message: &Message| {
            time.is_none() || message.time.unwrap_or_default().time(&mut Losses::default()) > time
        };
        let behind = messages[mark + 1..].iter().position(is_later);
        let at = behind.map_or(messages.len(), |n| mark + 1 + n);
        let time = time.or_else(|| message.time.unwrap_or_default().time(losses));
        let (cost, resized) = told.map(|told| (told.cost, told.resized)).unwrap_or_default();
        found.push(Compacted { at, mark, time, cost, resized });
    }
    losses.add_n(&format!("{UNTOLD}compaction"), shown.len() as u64);
    found.sort_by_key(|of| (of.at, of.mark));
    found
}

/// Up to which segment each message, or the summary in its place, was kept. A message that names a mark which is still there went
/// with that; where none does, a mark stands behind what went.
fn kept_to(messages: &[Message], compactions: &[Compacted], is_truncated: bool) -> Vec<Option<u32>> {
    let marks: HashMap<&str, usize> = compactions
        .iter()
        .enumerate()
        .filter(|(_, of)| messages[of.mark].is_mark())
        .filter_map(|(n, of)| Some((messages[of.mark].compaction.as_deref()?, n)))
        .collect();
    let of = |id: &Option<String>| id.as_deref().and_then(|id| marks.get(id).copied());
    let gone =
        |message: &Message| [of(&message.condensed), of(&message.truncated)].into_iter().flatten().min();
    let is_told = messages.iter().any(|message| gone(message).is_some());
    let kept = |i: usize| {
        let is_kept =
            |of: &Compacted| (of.mark + 1..of.at).contains(&i) || is_truncated && i < ui::FIRST_STAY;
        if !is_told {
            let compactions = if messages[i].is_mark() { &[] } else { compactions };
            return compactions.iter().rposition(is_kept).map(|n| n as u32 + 1);
        }
        // The segment that it stands in.
        let own = match compactions.iter().position(|of| of.mark == i) {
            Some(n) => n + 1,
            None => compactions.iter().filter(|of| of.at <= i).count(),
        };
        let last = gone(&messages[i]).unwrap_or(compactions.len());
        // The first one is the head, which always stands.
        (i > 0 && last > own).then_some(last as u32)
    };
    (0..messages.len()).map(kept).collect()
}

/// The same where messages were left out of the prompts and have no marks.
fn truncations(messages: &[Message], shown: &[Shown], losses: &mut Losses) -> Vec<Compacted> {
    if messages.iter().any(Message::is_mark) {
        return Vec::new();
    }
    let all = ui::truncations(shown).into_iter().map(|of| {
        let time = shown[of.call].time.unwrap_or_default().time(losses);
        Compacted { at: of.message, mark: of.end, time, cost: None, resized: [None; 2] }
    });
    all.filter(|of| of.mark < of.at && of.at < messages.len()).collect()
}

/// What a list holds, by its first item; none if it is no list.
fn list_of(bytes: &[u8]) -> Option<&'static str> {
    let list = bytes[super::repair::padding(bytes)..].strip_prefix(b"[")?;
    let first = &list[..list.len().min(4096)];
    let has = |key: &[u8]| memchr::memmem::find(first, key).is_some();
    Some(if has(b"\"say\"") || has(b"\"ask\"") && !has(b"\"role\"") { "shown" } else { "messages" })
}

#[derive(Default)]
struct Reader {
    is_cline: bool,
    /// The folder that the harness named first.
    workspace: Option<String>,
}

impl Reader {
    fn read(&mut self, i: usize, message: Message, shown: &mut ui::Calls, draft: &mut Draft) {
        let time = message.time.unwrap_or_default().time(&mut draft.losses);
        draft.at(i, time);
        if let Some(model) = message.model.and_then(|model| model.id) {
            self.is_cline = true;
            draft.model(&model);
        }
        let blocks = match message.content.unwrap_or_default() {
            Content::Blocks(blocks) => blocks,
            Content::Text(text) => {
                vec![Block { kind: Some("text".to_owned()), text: Some(text), ..Block::default() }]
            }
            Content::Null => Vec::new(),
        };
        if message.role.as_deref() == Some("assistant") {
            let call = shown.before(i, time, &mut draft.losses);
            let mut reply = Reply::begin(call.usage, draft);
            let reasoning = message.reasoning.map(|text| text.into_text(&mut draft.losses));
            for thought in reasoning.map_or(call.thoughts, |text| vec![text]) {
                reply.thought(thought, draft);
            }
            read_reply(blocks, &mut reply, draft);
            reply.end(draft);
        } else {
            self.read_user(blocks, draft);
        }
    }

    fn read_user(&mut self, blocks: Vec<Block>, draft: &mut Draft) {
        let mut answer: Option<Answer> = None;
        for block in blocks {
            if block.is_result() {
                let result = block.into_result(&mut draft.losses);
                let who = speaker(&result.text);
                draft.result_by(who, result.id.as_deref(), None, result.text, result.is_error);
                continue;
            }
            let Some(text) = block.into_text(&mut draft.losses) else {
                continue;
            };
            if let Some((tool, rest)) = xml::result(&text) {
                say(answer.take(), draft);
                answer = Some(Answer { tool: tool.to_owned(), text: rest.to_owned() });
                continue;
            }
            if text.trim_start().starts_with("<environment_details>") {
                say(answer.take(), draft);
                self.look_around(&text, draft);
                draft.notice(text);
                continue;
            }
            match &mut answer {
                Some(answer) if !text.contains("<user_message>") => {
                    answer.text.extend([if answer.text.is_empty() { "" } else { "\n" }, &text]);
                }
                _ if text.starts_with("[ERROR]") => draft.notice(text),
                _ => {
                    say(answer.take(), draft);
                    draft.user(text);
                }
            }
        }
        say(answer, draft);
    }

    /// What the harness tells of the surroundings: the model, and the folder.
    fn look_around(&mut self, text: &str, draft: &mut Draft) {
        let between = |from: &str, to: &str| {
            let rest = text.split_once(from)?.1;
            rest.split_once(to).map(|(found, _)| found)
        };
        if let Some(model) = between("<model>", "</model>") {
            draft.model(model);
        }
        let folder = between("# Current Workspace Directory (", ") Files");
        let folder = folder.or_else(|| between("# Current Working Directory (", ") Files"));
        self.workspace = self.workspace.take().or(folder.map(str::to_owned));
    }
}

/// The result of a call of the older dialect.
struct Answer {
    tool: String,
    text: String,
}

fn say(answer: Option<Answer>, draft: &mut Draft) {
    if let Some(Answer { tool, text }) = answer {
        let is_error = text.starts_with("The tool execution failed").then_some(true);
        draft.result_by(speaker(&text), None, Some(tool), text, is_error);
    }
}

/// Who says a result: words of the user stand in tags.
fn speaker(text: &str) -> Role {
    let is_said = ["<feedback>", "<answer>", "<user_message>"].iter().any(|tag| text.contains(tag));
    if is_said { Role::User } else { Role::Tool }
}

fn read_reply(blocks: Vec<Block>, reply: &mut Reply, draft: &mut Draft) {
    for block in blocks {
        if block.is_call() {
            let arguments = block.input.unwrap_or_default().0;
            let tool = block.name.unwrap_or_else(|| "unknown".to_owned());
            reply.call(Call::new(block.id, tool, arguments), &mut Vec::new(), draft);
        } else if block.is_thought() {
            let thought = block.thinking.or(block.text).unwrap_or_else(|| block.rest.words());
            reply.thought(thought, draft);
        } else if let Some(text) = block.into_text(&mut draft.losses) {
            for part in xml::parts(&text) {
                match part {
                    xml::Part::Text(text) => reply.text(text.trim().to_owned(), draft),
                    xml::Part::Call { tool, arguments } => {
                        reply.call(Call::new(None, tool.to_owned(), arguments), &mut Vec::new(), draft);
                    }
                }
            }
        }
    }
}

/// Counts what of the messages to the user has no place.
fn left_out(losses: &mut Losses, kind: &str) {
    losses.add(&format!("what the user was shown left out: {}", kind.chars().take(40).collect::<String>()));
}

#[cfg(test)]
mod tests;
