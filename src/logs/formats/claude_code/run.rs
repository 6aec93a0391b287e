//! The lines of one run, in the order of the file, made into steps as the model saw them.
//!
//! All parts of a reply stand together where its first line stands: results, hooks and notices that the log has
//! between its lines come after it, so that every result follows its call and no decision sees its own reply.

use std::collections::{HashMap, HashSet};

use super::entry::{Body, Entry};
use super::reply::{Part, Placed, Reply};
use super::words::{Queue, Words, is_answer};
use crate::logs::formats::reading::Draft;
use crate::logs::formats::reading::draft::{ABANDONED, EMPTY_SUMMARY, Losses};
use crate::logs::formats::reading::scalar::Scalar;
use crate::trajectory::{Kind, Role, Usage};

/// What Claude Code sends in the place of a result that a microcompaction cleared.
const CLEARED: &str = "[Old tool result content cleared]";

/// The policy behind these edits.
pub(super) const MICROCOMPACTION: &str =
    "microcompaction: the product clears the results of older calls, named in the log";

/// A step in the making, or an edit of those before it.
enum Item {
    Reply(Reply),
    Result {
        id: Option<String>,
        text: String,
        is_error: Option<bool>,
        is_by_user: bool,
    },
    Words(Words),
    /// What takes the place of the past, and the positions of the lines that it keeps.
    Compaction {
        text: String,
        kept: Vec<usize>,
        resized: [Option<Scalar>; 2],
    },
    /// Results by the ids of their calls, and messages by their positions, that are not sent any more.
    Clearing {
        calls: Vec<String>,
        messages: Vec<usize>,
        resized: [Option<Scalar>; 2],
    },
}

struct Placing {
    item: Item,
    position: usize,
    time: Option<i64>,
    /// The last segment that a compaction kept it for.
    kept_to: Option<u32>,
}

/// A compaction boundary whose summary was not met yet.
struct Boundary {
    position: usize,
    time: Option<i64>,
    kept: Vec<usize>,
    resized: [Option<Scalar>; 2],
    summary: Option<String>,
}

/// Collects the lines of one run.
#[derive(Default)]
pub(super) struct Run {
    items: Vec<Placing>,
    /// Index of the newest reply, while nothing that ends it was met.
    reply: Option<usize>,
    /// Index of the newest reply, whatever came after it.
    newest: Option<usize>,
    /// Index of the newest compaction.
    compaction: Option<usize>,
    /// The newest reply of each id so far.
    ids: HashMap<String, usize>,
    /// For each call the reply that it stands in, its tool, and the index of its result. A result whose call is not in
    /// the log has no reply.
    calls: HashMap<String, (usize, String, Option<usize>)>,
    boundary: Option<Boundary>,
    queue: Queue,
    pub(super) losses: Losses,
    pub(super) model: Option<String>,
}

impl Run {
    /// Takes the next line.
    pub(super) fn read(&mut self, entry: Entry) {
        let (position, time) = (entry.position, entry.time);
        match entry.body {
            Body::Link => {}
            Body::Boundary { compact, kept } => {
                self.end_boundary();
                let resized = [compact.before, compact.behind];
                self.boundary = Some(Boundary { position, time, kept, resized, summary: None });
            }
            Body::Title(text) => match &mut self.boundary {
                Some(boundary) if boundary.summary.is_none() && !text.is_empty() => {
                    boundary.summary = Some(text);
                }
                _ => self.losses.add("summary line left out"),
            },
            Body::Summary(text) => {
                let boundary = self.boundary.take();
                let (kept, resized) = boundary.map(|of| (of.kept, of.resized)).unwrap_or_default();
                self.compact(Item::Compaction { text, kept, resized }, position, time);
            }
            Body::Clearing { calls, messages, resized, .. } => {
                self.push(Item::Clearing { calls, messages, resized }, position, time)
            }
            Body::Queue { operation, content } => {
                self.queue.read(&operation, content, position, time, &mut self.losses);
            }
            Body::Queued(words) => {
                for words in &words {
                    self.queue.tell(words.text(), &mut self.losses);
                }
                self.say(words, true, position, time);
            }
            Body::Notice(text) => self.say(vec![Words::Harness(text)], true, position, time),
            Body::User { results, words, is_by_user } => {
                for (id, text, is_error) in results {
                    self.result(id, text, is_error, is_by_user, position, time);
                }
                if !words.is_empty() {
                    let is_queued = self.hear(&words);
                    self.say(words, is_queued, position, time);
                }
            }
            Body::Reply { id, request, model, parts, usage } => {
                self.end_boundary();
                if self.model.is_none() {
                    self.model.clone_from(&model);
                }
                if let Some(told) = self.copy(id.as_deref(), request.as_deref(), &parts) {
                    self.losses.add(told);
                    return;
                }
                let parts = parts.into_iter().map(|part| Placed { part, position, time }).collect();
                let index = self.reply_of(id, request.clone(), position, time);
                if let (Item::Reply(reply), Some(_)) = (&mut self.items[index].item, &model) {
                    reply.model = model;
                }
                self.add_to_reply(index, request, parts, usage, position);
            }
        }
    }

    /// What a line is that repeats an earlier reply: behind a compaction this is one that the compaction kept; behind
    /// other words or replies it says the same under the same request, or with the id of a call, which occurs once.
    fn copy(&mut self, id: Option<&str>, request: Option<&str>, parts: &[Part]) -> Option<&'static str> {
        let index = *self.ids.get(id?)?;
        let Item::Reply(reply) = &self.items[index].item else {
            return None;
        };
        if !reply.is(id, request) || !parts.iter().all(|part| reply.holds(part)) {
            return None;
        }
        let position = self.items[index].position;
        let is_sure = |part: &Part| match part {
            Part::Call { id: Some(_), .. } => true,
            part => request.is_some() && request == reply.request.as_deref() && !part.is_blank(),
        };
        let is_again = self.reply != Some(index) && parts.iter().any(is_sure);
        if let Some(compaction) = self.compaction.filter(|compaction| index < *compaction)
            && let Item::Compaction { kept, .. } = &mut self.items[compaction].item
        {
            kept.push(position);
            return Some("reply that is logged again behind a compaction merged");
        }
        is_again.then_some("reply that is logged again behind another one merged")
    }

    fn add_to_reply(
        &mut self,
        index: usize,
        request: Option<String>,
        parts: Vec<Placed>,
        usage: Option<Usage>,
        position: usize,
    ) {
        let Item::Reply(reply) = &mut self.items[index].item else {
            return;
        };
        reply.lines.push(position);
        reply.request = reply.request.take().or(request);
        reply.add(parts, usage, &mut self.losses);
        for placed in &reply.parts {
            if let Part::Call { id: Some(id), tool, .. } = &placed.part
                && self.calls.get(id).is_none_or(|call| call.0 != index)
            {
                self.calls.insert(id.clone(), (index, tool.clone(), None));
            }
        }
    }

    /// The context is cleared: what follows sees nothing of what stands before but the head.
    pub(super) fn clear(&mut self, position: usize, time: Option<i64>) {
        self.end_boundary();
        self.losses.add("context cleared by the user");
        let cleared = Item::Compaction { text: String::new(), kept: Vec::new(), resized: [None; 2] };
        self.compact(cleared, position, time);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.boundary.is_none()
    }

    /// A reply of a branch that was left took up the prompts of the queue.
    pub(super) fn abandon_queue(&mut self) {
        let n = self.queue.take(&mut Losses::default()).len();
        self.losses.add_n(ABANDONED, n as u64);
    }

    /// Counts of the queue what a message of the user tells; whether that is any prompt.
    fn hear(&mut self, words: &[Words]) -> bool {
        let mut is_any = false;
        for words in words.iter().filter(|words| matches!(words, Words::User(_))) {
            if self.queue.tell(words.text(), &mut self.losses) {
                is_any = true;
            } else {
                self.queue.tell_message(&mut self.losses);
            }
        }
        is_any
    }

    /// Words end a reply; those of the queue are logged between the lines of one request, too.
    fn say(&mut self, all: Vec<Words>, is_queued: bool, position: usize, time: Option<i64>) {
        self.end_boundary();
        for words in all {
            if matches!(words, Words::User(_)) && !(is_queued && self.has_request()) {
                self.reply = None;
            }
            self.push(Item::Words(words), position, time);
        }
    }

    /// Whether the newest reply names its request.
    fn has_request(&self) -> bool {
        let newest = self.reply.map(|i| &self.items[i].item);
        matches!(newest, Some(Item::Reply(reply)) if reply.request.is_some())
    }

    fn compact(&mut self, compaction: Item, position: usize, time: Option<i64>) {
        self.reply = None;
        self.compaction = Some(self.items.len());
        self.push(compaction, position, time);
    }

    /// A boundary whose summary is not in the log: the past is gone all the same.
    fn end_boundary(&mut self) {
        if let Some(Boundary { position, time, kept, resized, summary }) = self.boundary.take() {
            if summary.is_none() {
                self.losses.add(EMPTY_SUMMARY);
            }
            let text = summary.unwrap_or_default();
            self.compact(Item::Compaction { text, kept, resized }, position, time);
        }
    }

    /// The index of the reply that a line belongs to. It is another one if another reply or words of the user stood
    /// between, or the request is another.
    fn reply_of(
        &mut self,
        id: Option<String>,
        request: Option<String>,
        position: usize,
        time: Option<i64>,
    ) -> usize {
        let newest = self.reply.filter(|i| match &self.items[*i].item {
            Item::Reply(reply) => reply.is(id.as_deref(), request.as_deref()),
            _ => false,
        });
        if let Some(index) = newest {
            let is_named = request.is_some() && self.has_request();
            let has_result = self.items[index..].iter().any(|p| matches!(p.item, Item::Result { .. }));
            if has_result && !is_named {
                self.losses.add("line joined to a reply by its id alone, across results");
            }
            return index;
        }
        for prompt in self.queue.take(&mut self.losses) {
            for words in super::words::words(prompt.text) {
                self.push(Item::Words(words), prompt.position, prompt.time);
            }
        }
        let index = self.items.len();
        if id.as_ref().is_some_and(|id| self.ids.insert(id.clone(), index).is_some()) {
            self.losses.add("reply with the id of another one");
        }
        self.push(Item::Reply(Reply { id, request, ..Reply::default() }), position, time);
        (self.reply, self.newest) = (Some(index), Some(index));
        index
    }

    fn result(
        &mut self,
        id: Option<String>,
        text: String,
        is_error: Option<bool>,
        is_by_user: bool,
        position: usize,
        time: Option<i64>,
    ) {
        self.end_boundary();
        let call = id.as_ref().and_then(|id| self.calls.get_mut(id));
        let is_by_user = is_by_user || is_answer(&text, call.as_ref().map(|call| call.1.as_str()), is_error);
        // A result without a call may be logged twice, too; the reply of a call that comes later is none of it.
        let named = id.clone().filter(|_| call.is_none());
        if let Some((_, _, answered)) = call {
            match answered {
                Some(index) => {
                    let Item::Result { text: old, is_error: was_error, .. } = &mut self.items[*index].item
                    else {
                        return;
                    };
                    // What a reply saw stays, and so does another text: it is another observation.
                    let is_seen = self.newest > Some(*index);
                    if *old == text || !is_seen && is_state(old, &text) {
                        self.losses.add("repeated result of one call merged");
                        if text.len() > old.len() {
                            (*old, *was_error) = (text, is_error);
                        }
                        return;
                    }
                    *index = self.items.len();
                }
                None => *answered = Some(self.items.len()),
            }
        }
        self.calls.extend(named.map(|id| (id, (usize::MAX, String::new(), Some(self.items.len())))));
        self.push(Item::Result { id, text, is_error, is_by_user }, position, time);
    }

    fn push(&mut self, item: Item, position: usize, time: Option<i64>) {
        self.items.push(Placing { item, position, time, kept_to: None });
    }

    /// Hands the steps to a draft; says whether the log records edits of the context.
    pub(super) fn finish(mut self, draft: &mut Draft) -> bool {
        self.end_boundary();
        self.queue.finish(&mut self.losses);
        keep(&mut self.items);
        draft.losses.merge(&self.losses);
        let mut is_edited = false;
        for Placing { item, position, time, kept_to } in self.items {
            draft.at(position, time);
            draft.keep_to(kept_to);
            match item {
                Item::Reply(reply) => draft_reply(reply, draft),
                Item::Result { id, text, is_error, is_by_user } => {
                    let who = if is_by_user { Role::User } else { Role::Tool };
                    draft.result_by(who, id.as_deref(), None, text, is_error);
                }
                Item::Words(Words::User(text)) => draft.user(text),
                Item::Words(Words::Harness(text)) => draft.notice(text),
                Item::Compaction { text, resized: [before, behind], .. } => {
                    let n_steps = draft.n_steps();
                    draft.compaction(text);
                    draft.resized(before, behind, n_steps);
                }
                Item::Clearing { calls, messages, resized: [before, behind] } => {
                    if draft_clearing(&calls, &messages, draft) {
                        is_edited = true;
                        draft.resized_by_edits(before, behind);
                    }
                }
            }
        }
        is_edited
    }
}

fn draft_reply(reply: Reply, draft: &mut Draft) {
    // What was billed was sent, whatever came of it.
    if reply.is_blank() && reply.usage.is_none_or(|usage| usage.input == 0) {
        draft.losses.add("reply without anything to read left out");
        return;
    }
    let kind = if reply.has_call() { Kind::Thought } else { Kind::Message };
    reply.model.iter().for_each(|model| draft.model(model));
    draft.begin_call();
    draft.usage(reply.usage);
    for Placed { part, position, time } in reply.parts {
        draft.at(position, time);
        match part {
            Part::Thinking(text) => draft.agent(Kind::Thought, text),
            Part::Text(text) => draft.agent(kind, text),
            Part::Call { id, tool, arguments } => draft.action(tool, arguments, id),
            Part::Result { id, text, is_error } => draft.result(id.as_deref(), None, text, is_error),
        }
    }
}

fn draft_clearing(calls: &[String], messages: &[usize], draft: &mut Draft) -> bool {
    let n_calls = calls.iter().filter(|id| draft.edit_result(id, CLEARED)).count();
    let n_messages = messages.iter().filter(|message| draft.edit_message(**message, "")).count();
    let n_lost = calls.len() - n_calls + messages.len() - n_messages;
    draft.losses.add_n("cleared message that is not in the log", n_lost as u64);
    n_calls + n_messages > 0
}

/// Whether one of them is the other one at an earlier time.
fn is_state(a: &str, b: &str) -> bool {
    let (a, b) = (a.trim(), b.trim());
    a.starts_with(b) || b.starts_with(a)
}

/// Notes on each item the last segment that a compaction kept it for. A call is never kept without its results,
/// nor a result without its call.
fn keep(items: &mut [Placing]) {
    let mut by_position: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut replies: HashMap<String, usize> = HashMap::new();
    let mut results: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut segment = 0;
    for i in 0..items.len() {
        by_position.entry(items[i].position).or_default().push(i);
        match &items[i].item {
            Item::Reply(reply) => {
                for line in &reply.lines {
                    by_position.entry(*line).or_default().push(i);
                }
                let calls = reply.parts.iter().filter_map(|placed| match &placed.part {
                    Part::Call { id: Some(id), .. } => Some((id.clone(), i)),
                    _ => None,
                });
                replies.extend(calls);
            }
            Item::Result { id: Some(id), .. } => {
                if let Some(reply) = replies.get(id) {
                    results.entry(*reply).or_default().push(i);
                }
            }
            Item::Compaction { kept, .. } => {
                segment += 1;
                let found: Vec<&Vec<usize>> = kept.iter().filter_map(|p| by_position.get(p)).collect();
                let mut with_pairs: HashSet<usize> = HashSet::new();
                for i in found.into_iter().flatten().copied() {
                    let reply = match &items[i].item {
                        Item::Result { id: Some(id), .. } => replies.get(id).copied().unwrap_or(i),
                        _ => i,
                    };
                    with_pairs.extend([i, reply]);
                    with_pairs.extend(results.get(&reply).into_iter().flatten());
                }
                with_pairs.into_iter().for_each(|i| items[i].kept_to = Some(segment));
            }
            _ => {}
        }
    }
}
