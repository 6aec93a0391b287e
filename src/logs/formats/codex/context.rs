//! The lines of a rollout made into what the agent's model saw.

use std::collections::{HashMap, HashSet};

use super::line::{Compacted, Header, Placed, Record, TokenInfo};
use crate::logs::formats::reading::chat::{Message, Messages};
use crate::logs::formats::reading::draft::{self, ABANDONED, Losses, SUMMARISER};
use crate::logs::formats::reading::message::{Speaker, speaker};
use crate::logs::formats::reading::scalar::Scalar;
use crate::logs::formats::reading::{Content, Draft};
use crate::trajectory::{Kind, Role};

/// Without a list of what stays, a compaction keeps the newest words of the user up to so many bytes: 20,000 tokens as Codex
/// counts them.
const MAX_KEPT: usize = 80_000;

/// Items that the model is not sent, or that nobody can read.
const NOT_SENT: [&str; 4] = ["ghost_snapshot", "compaction", "compaction_summary", "context_compaction"];

/// Fields of items that say how the program got them.
const MARKS: [&str; 5] =
    ["internal_chat_message_metadata_passthrough", "metadata", "namespace", "execution", "phase"];

/// Writes a session.
pub(super) fn write(header: Header, records: Vec<Placed>, draft: &mut Draft) {
    let mut records = lived(records, &mut draft.losses);
    let estimates = estimates(&records);
    count(&mut records, &mut draft.losses);
    write_header(header, &records, draft);
    let mut messages = Messages::default();
    let (summarised, mut written) = (summarised(&records), None);
    for (i, Placed { position, time, record }) in records.into_iter().enumerate() {
        match record {
            Record::Item(item) if summarised.contains(&i) => {
                written = item.usage.and_then(|usage| usage.usage()).or(written);
                draft.losses.add(SUMMARISER);
            }
            Record::Item(item) => write_item(position, time, *item, &mut messages, draft),
            Record::Compacted(compacted) => {
                messages.end(draft);
                draft.at(position, time);
                let n_steps = draft.n_steps();
                put_summary(compacted, draft);
                draft.written_with(written.take(), n_steps);
                draft.resized(None, estimates.get(&i).copied(), n_steps);
            }
            Record::ReplyEnds => messages.end(draft),
            Record::Model(model) => draft.model(&model),
            Record::Usage(_) | Record::RolledBack(_) => {}
        }
    }
    messages.end(draft);
}

/// The items of replies that are the summary of the compaction behind them.
fn summarised(records: &[Placed]) -> HashSet<usize> {
    let mut found = HashSet::new();
    for (i, placed) in records.iter().enumerate() {
        let Record::Compacted(compacted) = &placed.record else { continue };
        let is_beside =
            |record: &Record| matches!(record, Record::Usage(_) | Record::Model(_) | Record::ReplyEnds);
        let Some(reply) = (0..i).rev().find(|at| !is_beside(&records[*at].record)) else { continue };
        if !matches!(&records[reply].record, Record::Item(item) if is_summary(item, compacted)) {
            continue;
        }
        let is_thought = |at: &usize| matches!(&records[*at].record, Record::Item(item) if item.kind.as_deref() == Some("reasoning"));
        found.extend((0..reply).rev().take_while(is_thought).chain([reply]));
    }
    found
}

/// Whether a reply says all that a compaction does, but for a line that the product puts before it.
fn is_summary(item: &Message, compacted: &Compacted) -> bool {
    let text = item.said().join("\n");
    let text = text.trim();
    let listed = compacted.replacement_history.iter().flat_map(|list| &list.0).filter(|item| !is_agent(item));
    let mut said = compacted.message.as_deref().into_iter().chain(listed.flat_map(|item| item.said()));
    is_agent(item)
        && !text.is_empty()
        && said.any(|said| {
            let before = said.trim().strip_suffix(text);
            before.is_some_and(|before| {
                before.is_empty() || before.ends_with('\n') && before.lines().count() == 1
            })
        })
}

/// What Codex counts of the new context beside a compaction: it logs that as a usage that is a total alone.
fn estimates(records: &[Placed]) -> HashMap<usize, Scalar> {
    let total = |at: &usize| match &records[*at].record {
        Record::Usage(TokenInfo { last: Some(last), .. }) if last.usage().is_none() => last.total,
        _ => None,
    };
    let is_count = |at: &usize| matches!(&records[*at].record, Record::Usage(_) | Record::Model(_));
    let compacted = (0..records.len()).filter(|at| matches!(&records[*at].record, Record::Compacted(_)));
    let of = |at: usize| {
        let behind = (at + 1..records.len()).take_while(is_count);
        Some((at, behind.chain((0..at).rev().take_while(is_count)).find_map(|at| total(&at))?))
    };
    compacted.filter_map(of).collect()
}

/// What was not taken back: a rollback names how many of the newest turns of the user go.
fn lived(records: Vec<Placed>, losses: &mut Losses) -> Vec<Placed> {
    let mut lived: Vec<Placed> = Vec::with_capacity(records.len());
    let mut prompts = Vec::new();
    for placed in records {
        match &placed.record {
            Record::RolledBack(n) => {
                let n = usize::try_from(*n).unwrap_or(usize::MAX).min(prompts.len());
                let gone = prompts.split_off(prompts.len() - n);
                let from = gone.first().copied().unwrap_or(lived.len());
                losses.add_n(ABANDONED, (lived.len() - from) as u64);
                lived.truncate(from);
                continue;
            }
            Record::Item(item) if is_prompt(item) => prompts.push(lived.len()),
            _ => {}
        }
        lived.push(placed);
    }
    lived
}

/// Gives each count to the first item of the reply that it counts. It stands behind the reply, be it behind the outputs of its
/// calls, or in older versions before its items, as the first one behind a prompt tells; of those that repeat the one before
/// only the first counts. A count between two replies parts them.
fn count(records: &mut Vec<Placed>, losses: &mut Losses) {
    let mut next_is_agent = vec![false; records.len() + 1];
    for (i, placed) in records.iter().enumerate().rev() {
        next_is_agent[i] = match &placed.record {
            Record::Item(item) => is_agent(item),
            Record::Usage(_) | Record::Model(_) => next_is_agent[i + 1],
            _ => false,
        };
    }
    let (mut known, mut waiting) = (None, None);
    // The first item of the newest reply without a count, and whether nothing stands behind that reply.
    let (mut reply, mut is_open): (Option<usize>, bool) = (None, false);
    // Since the newest prompt: whether there was a reply, and whether counts stand before theirs.
    let (mut is_answered, mut comes_first) = (false, None);
    let mut counts = Vec::new();
    for (i, placed) in records.iter_mut().enumerate() {
        match &mut placed.record {
            Record::Item(item) if is_agent(item) => {
                if !is_open {
                    reply = Some(i);
                    if let Some(usage) = waiting.take() {
                        counts.push((i, usage));
                        reply = None;
                    }
                }
                (is_open, is_answered) = (true, true);
            }
            Record::Usage(info) => {
                let total = info.total.take();
                let usage = info.last.take().filter(|usage| usage.usage().is_some());
                let Some(usage) = usage.filter(|_| total.is_none() || total != known) else {
                    losses.add("usage that repeats the one before, or counts nothing");
                    continue;
                };
                known = total;
                let is_next = next_is_agent[i + 1];
                let is_of_next = *comes_first.get_or_insert(!is_answered) && is_next;
                match reply.filter(|_| is_open || !is_of_next) {
                    Some(first) => {
                        counts.push((first, usage));
                        reply = None;
                    }
                    None if is_of_next => waiting = Some(usage),
                    None => losses.add("usage of a reply without steps left out"),
                }
                if is_open && is_next {
                    placed.record = Record::ReplyEnds;
                    is_open = false;
                }
            }
            Record::Item(item) if is_prompt(item) => {
                (is_open, is_answered, comes_first) = (false, false, None)
            }
            Record::Model(_) => {}
            _ => is_open = false,
        }
    }
    for (i, usage) in counts {
        if let Record::Item(item) = &mut records[i].record {
            item.usage = Some(Box::new(usage));
        }
    }
}

fn write_header(header: Header, records: &[Placed], draft: &mut Draft) {
    if let Some(text) = header.base_instructions.and_then(|base| base.text) {
        draft.system(text);
    }
    if let Some(text) = header.instructions.filter(|text| !text.trim().is_empty()) {
        let says = |placed: &Placed| match &placed.record {
            Record::Item(item) => item.said().iter().any(|said| said.contains(text.trim())),
            _ => false,
        };
        match records.iter().take_while(|placed| !is_of_agent(placed)).any(says) {
            true => draft.losses.add("instructions of the header that a message repeats"),
            false => draft.system(text),
        }
    }
    if let Some(tools) = header.dynamic_tools.filter(|tools| !matches!(tools.get(), "[]" | "{}")) {
        draft.tools(tools.get().to_owned());
    }
}

fn write_item(
    position: usize,
    time: Option<i64>,
    mut item: Message,
    messages: &mut Messages,
    draft: &mut Draft,
) {
    let kind = item.kind.as_deref().unwrap_or("");
    if NOT_SENT.contains(&kind) {
        return draft.losses.add(&format!("item left out: {kind}"));
    }
    item.rest.0.retain(|(key, _)| !MARKS.contains(&key.as_str()));
    if item.role.as_deref() == Some("user") && item.kind.as_deref() == Some("message") {
        messages.give_way(&item, false, draft);
        draft.at(position, time);
        return write_user(item, draft);
    }
    if kind == "agent_message" {
        // What another agent tells this one.
        messages.give_way(&item, false, draft);
        draft.at(position, time);
        let others = item.others(false, &mut draft.losses);
        let text = item.content.take().unwrap_or_default().into_text(&mut draft.losses);
        return draft.notice(others.behind(text));
    }
    unpack_output(&mut item);
    item.timestamp = time.map(Scalar::Time);
    messages.read(position, item, draft);
}

/// Words of the user and of the harness; a message may hold both, as blocks.
fn write_user(mut item: Message, draft: &mut Draft) {
    let others = item.others(false, &mut draft.losses).behind(String::new());
    let blocks = match item.content.take().unwrap_or_default() {
        Content::Blocks(blocks) => blocks,
        content => return say(content, others, draft),
    };
    let (harness, user): (Vec<_>, Vec<_>) =
        blocks.into_iter().partition(|block| block.text.as_deref().is_some_and(is_harness));
    if !harness.is_empty() {
        let text = Content::Blocks(harness).into_text(&mut draft.losses);
        draft.notice(text);
        if user.is_empty() && others.is_empty() {
            return;
        }
    }
    say(Content::Blocks(user), others, draft);
}

fn say(mut content: Content, others: String, draft: &mut Draft) {
    if !others.is_empty() {
        content.append(others);
    }
    let text = content.into_text(&mut draft.losses);
    match text.split_once(REQUEST).filter(|_| text.starts_with(EDITOR)) {
        Some((editor, request)) => {
            draft.user(request.trim().to_owned());
            draft.notice(editor.trim_end().to_owned());
        }
        None if is_harness(&text) => draft.notice(text),
        None => draft.user(text),
    }
}

/// How a prompt begins that an editor puts its state before, and what stands before the words of the user.
const EDITOR: &str = "# Context from my IDE setup:";
const REQUEST: &str = "## My request for Codex:\n";

/// Whether the harness says this in the name of the user: the instructions of the repository, or a text in its marks.
fn is_harness(text: &str) -> bool {
    const WHOLE: [&str; 3] = ["# AGENTS.md instructions", "<skill>", "<INSTRUCTIONS>"];
    WHOLE.iter().any(|mark| text.trim_start().starts_with(mark)) || draft::is_harness(text)
}

fn is_prompt(item: &Message) -> bool {
    item.role.as_deref() == Some("user")
        && item.kind.as_deref() == Some("message")
        && item.said().iter().any(|text| !is_harness(text))
}

/// Whether the agent's model wrote it.
fn is_agent(item: &Message) -> bool {
    let kind = item.kind.as_deref().unwrap_or("");
    kind == "reasoning"
        || kind.ends_with("_call")
        || matches!(item.role.as_deref().and_then(speaker), Some(Speaker::Agent))
}

fn is_of_agent(placed: &Placed) -> bool {
    matches!(&placed.record, Record::Item(item) if is_agent(item))
}

/// Takes an output out of what it is packed in: `{content, success}`, or a text with `{output, metadata: {exit_code}}`.
fn unpack_output(item: &mut Message) {
    if item.kind.as_deref() == Some("tool_search_output") {
        item.kind = Some("tool_search_call_output".to_owned());
        let words = std::mem::take(&mut item.rest).words();
        item.output.get_or_insert(Content::Text(words));
    }
    match item.output.take() {
        Some(Content::Blocks(mut blocks))
            if blocks.len() == 1 && blocks[0].kind.is_none() && blocks[0].content.is_some() =>
        {
            let block = blocks.remove(0);
            let success = block.rest.0.iter().find(|(key, _)| key == "success");
            item.is_error = success.map(|(_, is)| Scalar::Bool(is.get() == "false"));
            item.output = block.content.map(|content| *content);
        }
        Some(Content::Text(text)) if text.starts_with("{\"output\":") => {
            let packed = serde_json::from_str::<Packed>(&text).ok();
            item.is_error =
                packed.as_ref().and_then(|packed| packed.metadata.exit_code).map(|n| Scalar::Bool(n != 0));
            item.output = Some(Content::Text(packed.map_or(text, Packed::into_text)));
        }
        output => item.output = output,
    }
}

#[derive(serde::Deserialize)]
struct Packed {
    output: String,
    metadata: Metadata,
}

#[derive(serde::Deserialize)]
struct Metadata {
    exit_code: Option<i64>,
    #[serde(flatten)]
    others: serde_json::Map<String, serde_json::Value>,
}

impl Packed {
    /// What the model saw, its escapes undone.
    fn into_text(self) -> String {
        let mut text = self.output;
        let code = self.metadata.exit_code.map(|code| ("exit_code".to_owned(), code.into()));
        for (key, value) in code.into_iter().chain(self.metadata.others) {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text += &format!("{key}: {value}");
        }
        text
    }
}

fn put_summary(compacted: Compacted, draft: &mut Draft) {
    let message = compacted.message.unwrap_or_default();
    let Some(history) = compacted.replacement_history else {
        let mut room = MAX_KEPT;
        return draft.compact_but(message, |step| {
            let is_kept = step.kind == Kind::Message && step.role == Role::User && room > 0;
            room = room.saturating_sub(if is_kept { step.text.len() } else { 0 });
            is_kept
        });
    };
    let mut new = Draft::new();
    let (place, time) = draft.place();
    new.at(place, time);
    let mut messages = Messages::default();
    for item in history.0 {
        write_item(place, time, item, &mut messages, &mut new);
    }
    messages.end(&mut new);
    draft.replace(new);
}
