//! One sample: its calls, by the spans that they were made in, as conversations.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::value::RawValue;

use super::Log;
use super::message::{self, Attachments};
use crate::logs::formats::Sink;
use crate::logs::formats::reading::chat::Message;
use crate::logs::formats::reading::draft::SUMMARISER;
use crate::logs::formats::reading::names::Name;
use crate::logs::formats::reading::prompts::{Conversation, Mark, PromptCall, Prompts};
use crate::logs::formats::reading::scalar::Scalar;
use crate::logs::formats::reading::usage::LoggedUsage;
use crate::logs::formats::reading::{List, fields, record};
use crate::trajectory::Trajectory;

record! {
    struct Sample in "inspect.sample" {
        id: Name = "id",
        epoch: Scalar = "epoch",
        messages: Raws = "messages",
        events: List<Event> = "events",
        message_pool: Raws = "message_pool",
        events_data: Pools = "events_data",
        attachments: HashMap<String, Box<RawValue>> = "attachments",
        transcript: Transcript = "transcript",
        scores: BTreeMap<String, Score> = "scores",
        score: Score = "score",
        error: Failure = "error",
        limit: Limit = "limit",
    }

    struct Pools in "inspect.events_data" {
        messages: Raws = "messages",
    }

    /// Where the events stood in 2024.
    struct Transcript in "inspect.transcript" {
        events: List<Event> = "events",
        content: HashMap<String, Box<RawValue>> = "content",
    }

    struct Event in "inspect.event" {
        event: String = "event",
        timestamp: Scalar = "timestamp",
        span_id: String = "span_id",
        id: String = "id",
        parent_id: String = "parent_id",
        kind: String = "type",
        action: String = "action",
        role: String = "role",
        input: Box<RawValue> = "input",
        input_refs: Box<RawValue> = "input_refs",
        tools: Box<RawValue> = "tools",
        output: Box<RawValue> = "output",
        tokens_before: Scalar = "tokens_before",
        tokens_after: Scalar = "tokens_after",
    }

    struct Output in "inspect.output" {
        model: String = "model",
        choices: List<Choice> = "choices",
        usage: Counts = "usage",
    }

    struct Choice in "inspect.choice" {
        message: Box<RawValue> = "message",
    }

    struct Counts in "inspect.usage" {
        input: Scalar = "input_tokens",
        output: Scalar = "output_tokens",
        total: Scalar = "total_tokens",
        cache_read: Scalar = "input_tokens_cache_read",
        cache_write: Scalar = "input_tokens_cache_write",
        reasoning: Scalar = "reasoning_tokens",
        cost: Scalar = "total_cost",
    }

    struct Score in "inspect.score" {
        value: Box<RawValue> = "value",
    }

    struct Failure in "inspect.failure" {
        message: String = "message",
    }

    struct Limit in "inspect.limit" {
        kind: String = "type",
    }
}

type Raws = List<Box<RawValue>>;

/// Messages that all prompts of a sample may have together.
const MAX_SENT: u64 = 64 << 20;

pub(super) fn finish(sample: Sample, log: &Log, n_bytes: usize, sink: &mut Sink<'_>) {
    let transcript = sample.transcript.unwrap_or_default();
    let texts =
        sample.attachments.unwrap_or_default().into_iter().chain(transcript.content.unwrap_or_default());
    let attachments = Attachments::new(texts.collect(), n_bytes);
    let pool =
        sample.message_pool.or(sample.events_data.and_then(|pools| pools.messages)).unwrap_or_default().0;
    let events = sample.events.or(transcript.events).unwrap_or_default().0;
    let calls = Calls { attachments: &attachments, pool: &pool, n_unread: Cell::new(0) };
    let conversations = calls.read(events, sink);
    let messages: Vec<Message> =
        sample.messages.unwrap_or_default().0.iter().filter_map(|raw| calls.resolved(raw)).collect();
    let (main, others) = sorted(conversations, messages);
    sink.losses.add_n("attachment that is not in the log", attachments.n_missing.get());
    sink.losses.add_n("part of a sample that cannot be read left out", calls.n_unread.get());
    let mut scores = sample.scores.unwrap_or_default().into_values().chain(sample.score);
    let reward = scores.find_map(|score| value(score.value.as_deref()?.get()));
    sink.losses.add_n("score of another scorer left out", scores.count() as u64);
    // Of a short question several epochs may say the same.
    let epoch = sample.epoch.and_then(Scalar::count).filter(|epoch| *epoch > 1);
    let epoch = epoch.map_or(String::new(), |epoch| format!("#{epoch}"));
    let task = format!("{}/{}{epoch}", log.task().unwrap_or("task"), sample.id.unwrap_or_default().0);
    let limit = sample.limit.and_then(|limit| limit.kind).map(|kind| format!("limit: {kind}"));
    let about = Trajectory {
        task_id: Some(task.clone()),
        repository: log.task().map(str::to_owned),
        agent: log.agent(),
        model: log.model(),
        outcome: sample.error.map(|error| error.message.unwrap_or_else(|| "error".to_owned())).or(limit),
        reward,
        resolved: reward.and_then(|reward| Scalar::Number(reward).truth("", &mut Default::default())),
        label_source: reward.map(|_| "log".to_owned()),
        ..Trajectory::default()
    };
    main.draft.finish(about, sink);
    for (i, other) in others.into_iter().enumerate() {
        let about = Trajectory {
            task_id: Some(format!("{task}/agent-{}", i + 1)),
            repository: log.task().map(str::to_owned),
            model: other.model,
            parent: Some(task.clone()),
            ..Trajectory::default()
        };
        other.draft.finish(about, sink);
    }
}

/// The conversation that the messages of the sample are of, with those that no call was sent, and the others.
fn sorted(mut conversations: Vec<Conversation>, messages: Vec<Message>) -> (Conversation, Vec<Conversation>) {
    let marks: Vec<Mark> = messages.iter().map(Mark::of).collect();
    let common = |c: &Conversation| marks.iter().filter(|mark| c.taken.contains(mark)).count();
    let of_most = (0..conversations.len()).rev().max_by_key(|i| common(&conversations[*i]));
    let found = of_most.filter(|i| messages.is_empty() || common(&conversations[*i]) > 0);
    let mut main = found.map(|i| conversations.remove(i)).unwrap_or_default();
    // The same words may be said again behind the last call.
    let last = marks.iter().rposition(|mark| Some(mark) == main.last.as_ref());
    let last = last.or_else(|| marks.iter().rposition(|mark| main.taken.contains(mark)));
    let n_known = last.map_or(0, |last| last + 1);
    let n_unsent = marks[..n_known].iter().filter(|mark| !main.taken.contains(mark)).count();
    main.draft.losses.add_n("message that no call was sent left out", n_unsent as u64);
    for (mark, message) in marks.into_iter().zip(messages).skip(n_known) {
        main.say(mark, message);
    }
    main.end();
    (main, conversations)
}

/// What is needed to read the calls of a sample.
struct Calls<'a> {
    attachments: &'a Attachments,
    pool: &'a [Box<RawValue>],
    n_unread: Cell<u64>,
}

impl Calls<'_> {
    fn resolved(&self, raw: &RawValue) -> Option<Message> {
        let message = message::read(&self.attachments.resolve(raw.get()));
        self.n_unread.set(self.n_unread.get() + u64::from(message.is_none()));
        message
    }

    /// A part of an event; what cannot be read is counted.
    fn parsed<T: Default + serde::de::DeserializeOwned>(&self, raw: Option<&RawValue>) -> T {
        let Some(raw) = raw.filter(|raw| raw.get() != "null") else {
            return T::default();
        };
        serde_json::from_str(raw.get()).unwrap_or_else(|_| {
            self.n_unread.set(self.n_unread.get() + 1);
            T::default()
        })
    }

    fn read(&self, events: Vec<Event>, sink: &mut Sink<'_>) -> Vec<Conversation> {
        let marks: Vec<Mark> = self.pool.iter().map(|raw| mark_of(raw)).collect();
        let (scorers, summarisers) = (scorers(&events), summarisers(&events));
        let (mut prompts, mut n_sent, mut n_scored, mut steps) = (Prompts::default(), 0, 0, Vec::new());
        let mut resized = [None; 2];
        for (i, event) in events.into_iter().enumerate() {
            if event.event.as_deref() == Some("step") {
                match event.action.as_deref() {
                    Some("begin") => steps.push(event.kind.as_deref() == Some("scorer")),
                    _ => drop(steps.pop()),
                }
            }
            if event.event.as_deref() == Some("compaction") {
                resized = [event.tokens_before, event.tokens_after];
            }
            if event.event.as_deref() != Some("model") {
                continue;
            }
            let is_summariser = summarisers.contains(&i);
            if is_summariser {
                sink.losses.add(SUMMARISER);
            }
            let is_scorer = event.span_id.as_ref().is_some_and(|id| scorers.contains(id));
            if is_scorer || steps.contains(&true) || event.role.as_deref() == Some("grader") {
                n_scored += 1;
                continue;
            }
            let refs: List<(u64, u64)> = self.parsed(event.input_refs.as_deref());
            let n: u64 =
                refs.0.iter().map(|(from, to)| to.min(&(marks.len() as u64)).saturating_sub(*from)).sum();
            n_sent += n;
            if n_sent > MAX_SENT {
                sink.losses.add("call whose prompt is too long left out");
                continue;
            }
            let resized = if is_summariser { [None; 2] } else { std::mem::take(&mut resized) };
            self.call(event, (&refs, is_summariser), resized, &marks, &mut prompts);
        }
        sink.losses.add_n("call of a scorer left out", n_scored);
        prompts.finish()
    }

    fn call(
        &self,
        event: Event,
        (refs, is_summariser): (&List<(u64, u64)>, bool),
        resized: [Option<Scalar>; 2],
        pool: &[Mark],
        prompts: &mut Prompts,
    ) {
        let inline: Raws = self.parsed(event.input.as_deref());
        let all = 0..self.pool.len();
        let named =
            refs.0.iter().flat_map(|(from, to)| (*from as usize).max(all.start)..(*to as usize).min(all.end));
        let sent: Vec<Result<usize, &RawValue>> =
            named.map(Ok).chain(inline.0.iter().map(|raw| Err(&**raw))).collect();
        let marks: Vec<Mark> = sent.iter().map(|one| one.map_or_else(mark_of, |i| pool[i])).collect();
        let take = &mut |i: usize| {
            self.resolved(sent[i].map_or_else(|raw| raw, |i| &self.pool[i])).unwrap_or_default()
        };
        let output: Output = self.parsed(event.output.as_deref());
        if is_summariser {
            let usage = output.usage.and_then(|counts| usage(counts).usage());
            return prompts.summarise(&marks, take, usage);
        }
        let raw = output.choices.unwrap_or_default().0.into_iter().next().and_then(|choice| choice.message);
        let reply = raw.and_then(|raw| {
            let (usage, timestamp) = (output.usage.map(|counts| Box::new(usage(counts))), event.timestamp);
            Some((mark_of(&raw), Message { usage, timestamp, ..self.resolved(&raw)? }))
        });
        let tools = event.tools.filter(|tools| tools.get().len() > 4);
        let tools = tools.map(|tools| fields::words_of(&self.attachments.resolve(tools.get())));
        prompts.call(PromptCall {
            tools,
            marks: &marks,
            take,
            reply: reply.into_iter().collect(),
            model: output.model,
            resized,
        });
    }
}

fn mark_of(raw: &RawValue) -> Mark {
    Mark::of(&message::read(raw.get()).unwrap_or_default())
}

/// The calls that wrote a summary: the last one in its span before a compaction of that type. It is none of the agent's.
fn summarisers(events: &[Event]) -> HashSet<usize> {
    let (mut found, mut last) = (HashSet::new(), HashMap::new());
    for (i, event) in events.iter().enumerate() {
        match (event.event.as_deref(), event.kind.as_deref()) {
            (Some("model"), _) => _ = last.insert(&event.span_id, i),
            (Some("compaction"), Some("summary")) => found.extend(last.remove(&event.span_id)),
            _ => {}
        }
    }
    found
}

/// The spans of scorers, and those in them.
fn scorers(events: &[Event]) -> HashSet<String> {
    let mut found = HashSet::new();
    for event in events.iter().filter(|event| event.event.as_deref() == Some("span_begin")) {
        let is_one = matches!(event.kind.as_deref(), Some("scorer" | "scorers"));
        if is_one || event.parent_id.as_ref().is_some_and(|parent| found.contains(parent)) {
            found.extend(event.id.clone());
        }
    }
    found
}

/// The counts of a provider, with the cached part in the input: some providers' input has it, which the total tells.
fn usage(counts: Counts) -> LoggedUsage {
    let count = |scalar: Option<Scalar>| scalar.and_then(Scalar::count);
    let (input, output) = (count(counts.input), count(counts.output).unwrap_or(0));
    let cached = count(counts.cache_read).unwrap_or(0) + count(counts.cache_write).unwrap_or(0);
    let whole = input.map(|input| {
        let is_beside = count(counts.total).is_some_and(|total| total >= input + output + cached);
        Scalar::Number((if is_beside { input + cached } else { input }) as f64)
    });
    LoggedUsage {
        prompt_tokens: whole,
        completion_tokens: counts.output,
        cache_read: counts.cache_read,
        cache_write: counts.cache_write,
        reasoning: counts.reasoning,
        cost: counts.cost,
        ..LoggedUsage::default()
    }
}

/// The value of a score as a number; letters are those of the scorers that come with Inspect.
fn value(raw: &str) -> Option<f64> {
    match fields::words_of(raw).as_str() {
        "C" => Some(1.0),
        "I" | "N" => Some(0.0),
        "P" => Some(0.5),
        text => Scalar::of_text(text).number("", &mut Default::default()),
    }
}
