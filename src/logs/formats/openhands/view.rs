//! Events as the steps of a run. A condensation is a compaction: the events that it names are gone from there on, a summary
//! takes their place, and all others stay.

use std::collections::{BTreeMap, HashMap};

use super::event::{Body, Outcome, Reply};
use crate::logs::formats::reading::Draft;
use crate::trajectory::{Kind, Role};

/// What the model met of an event.
pub(super) struct Met {
    /// The id of the event.
    pub(super) id: String,
    pub(super) position: usize,
    pub(super) time: Option<i64>,
    pub(super) body: Body,
}

/// Hands events to a draft; returns the model that most replies name first.
pub(super) fn push(events: Vec<Met>, draft: &mut Draft) -> Option<String> {
    let kept = kept(&events);
    let mut events = joined(events);
    let mut model = None;
    for (i, met) in events.iter_mut().enumerate() {
        draft.at(met.position, met.time);
        draft.keep_to(kept[i]);
        match std::mem::replace(&mut met.body, Body::Notice(String::new())) {
            Body::System(text) => draft.system(text),
            Body::Tools(text) => draft.tools(text),
            Body::User(text) => draft.user(text),
            Body::Notice(text) if text.is_empty() => {}
            Body::Notice(text) => draft.notice(text),
            Body::Reply(reply) => {
                reply.model.iter().for_each(|model| draft.model(model));
                model = model.or(reply.model.clone());
                push_reply(reply, draft);
            }
            Body::Result(outcome) => push_result(outcome, draft),
            Body::Condensation { summary, .. } => {
                draft.keep_to(None);
                draft.compaction(summary);
            }
        }
    }
    draft.keep_to(None);
    model
}

fn push_reply(reply: Reply, draft: &mut Draft) {
    draft.begin_call();
    draft.usage(reply.usage);
    for thought in reply.thoughts {
        draft.agent(Kind::Thought, thought);
    }
    let kind = if reply.calls.is_empty() { Kind::Message } else { Kind::Thought };
    draft.agent(kind, reply.text);
    for call in reply.calls {
        draft.action(call.tool, call.arguments, call.id);
    }
}

fn push_result(outcome: Outcome, draft: &mut Draft) {
    if outcome.is_alone {
        return draft.observation(outcome.text, outcome.is_error);
    }
    let who = if outcome.is_by_user { Role::User } else { Role::Tool };
    draft.result_by(who, outcome.id.as_deref(), outcome.tool, outcome.text, outcome.is_error);
}

/// Events of one response as one reply, where its first one stands.
fn joined(mut events: Vec<Met>) -> Vec<Met> {
    let mut first: HashMap<String, usize> = HashMap::new();
    for i in 0..events.len() {
        let Body::Reply(Reply { response: Some(response), .. }) = &events[i].body else {
            continue;
        };
        let at = *first.entry(response.clone()).or_insert(i);
        if at == i {
            continue;
        }
        let Body::Reply(part) = std::mem::replace(&mut events[i].body, Body::Notice(String::new())) else {
            continue;
        };
        if let Body::Reply(reply) = &mut events[at].body {
            if !reply.text.contains(&part.text) {
                reply.text = format!("{}\n{}", reply.text, part.text).trim().to_owned();
            }
            let new = part.thoughts.into_iter().filter(|thought| !reply.thoughts.contains(thought));
            reply.thoughts.extend(new.collect::<Vec<_>>());
            reply.calls.extend(part.calls);
            reply.usage = reply.usage.or(part.usage);
        }
    }
    events
}

/// For each event the last segment that a condensation kept it for. A call and its result share one fate.
fn kept(events: &[Met]) -> Vec<Option<u32>> {
    let mut alive: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut numbered: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut segments = 0;
    let mut begin = Vec::with_capacity(events.len());
    let mut end = vec![u32::MAX; events.len()];
    for (i, met) in events.iter().enumerate() {
        begin.push(segments);
        let Body::Condensation { ids, range, .. } = &met.body else {
            alive.entry(&met.id).or_default().push(i);
            if let Ok(number) = met.id.parse() {
                numbered.entry(number).or_default().push(i);
            }
            continue;
        };
        let named = ids.iter().filter_map(|id| alive.remove(id.as_str())).flatten();
        let mut gone: Vec<usize> = named.collect();
        if let Some((from, to)) = range.filter(|(from, to)| from <= to) {
            let numbers: Vec<u64> = numbered.range(from..=to).map(|(number, _)| *number).collect();
            gone.extend(numbers.iter().filter_map(|number| numbered.remove(number)).flatten());
        }
        gone.into_iter().for_each(|i| end[i] = end[i].min(segments));
        segments += 1;
    }
    share_fate(events, &mut end);
    let last = |(i, begin): (usize, u32)| Some(end[i].min(segments)).filter(|end| *end > begin);
    begin.into_iter().enumerate().map(last).collect()
}

/// Gives all events of a reply, and the results of its calls, the earliest end of them.
fn share_fate(events: &[Met], end: &mut [u32]) {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut by_response: HashMap<&str, usize> = HashMap::new();
    let mut by_call: HashMap<&str, usize> = HashMap::new();
    for (i, met) in events.iter().enumerate() {
        match &met.body {
            Body::Reply(reply) => {
                let known = reply.response.as_deref().and_then(|id| by_response.get(id).copied());
                let group = known.unwrap_or(groups.len());
                if known.is_none() {
                    groups.push(Vec::new());
                }
                groups[group].push(i);
                by_response.extend(reply.response.as_deref().map(|id| (id, group)));
                by_call.extend(reply.calls.iter().filter_map(|call| Some((call.id.as_deref()?, group))));
            }
            Body::Result(outcome) => {
                if let Some(group) = outcome.id.as_deref().and_then(|id| by_call.get(id)) {
                    groups[*group].push(i);
                }
            }
            _ => {}
        }
    }
    for group in groups {
        let first = group.iter().map(|i| end[*i]).min().unwrap_or(u32::MAX);
        group.into_iter().for_each(|i| end[i] = first);
    }
}
