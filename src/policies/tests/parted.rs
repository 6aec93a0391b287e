//! Where a library parts a call from its result, which a replay never does: what it sends from there on cannot be equal.

use std::collections::BTreeSet;

use super::{List, Part};

/// Whether a result stands in a prompt without its call as it was given, or such a call without its result.
pub(super) fn is_parted(list: &List, at: u32, prompt: &[Part]) -> bool {
    let given: BTreeSet<u32> = prompt
        .iter()
        .filter_map(|part| match part {
            Part::Given(place) => Some(*place),
            _ => None,
        })
        .collect();
    let stands = stands(prompt);
    let messages = &list.messages[..at as usize];
    let of = |id: &str| messages.iter().rposition(|message| message.calls.iter().any(|call| call.id == id));
    messages.iter().enumerate().any(|(place, message)| {
        let call = message.call.as_deref().and_then(of);
        call.is_some_and(|call| stands.contains(&(place as u32)) != given.contains(&(call as u32)))
    })
}

/// The places of the messages that stand in a prompt, as they were given or not.
fn stands(prompt: &[Part]) -> BTreeSet<u32> {
    prompt
        .iter()
        .filter_map(|part| match part {
            Part::Given(place) | Part::Rewritten(place) => Some(*place),
            Part::Made => None,
        })
        .collect()
}

/// Leaves out the replies of which a call has no result in the prompt, with the results that are there; the others stand whole, in
/// whatever part they were recorded. (OpenHands V0 makes messages of its events so: conversation_memory.py.)
pub(super) fn keep_groups(list: &List, at: u32, prompt: &mut Vec<Part>) {
    let stands = stands(prompt);
    let messages = &list.messages[..at as usize];
    let mut whole = BTreeSet::new();
    let mut gone = BTreeSet::new();
    for (reply, message) in messages.iter().enumerate().filter(|(_, message)| !message.calls.is_empty()) {
        let of_reply = |result: &super::Given| {
            result.call.as_deref().is_some_and(|id| message.calls.iter().any(|call| call.id == id))
        };
        let end = messages[reply + 1..].iter().position(|next| next.role == "assistant");
        let end = end.map_or(messages.len(), |end| reply + 1 + end);
        let results: Vec<u32> =
            (reply + 1..end).filter(|&at| of_reply(&messages[at])).map(|at| at as u32).collect();
        let is_whole =
            stands.contains(&(reply as u32)) && results.iter().all(|result| stands.contains(result));
        match is_whole {
            true => _ = whole.insert(reply as u32),
            false => gone.extend(results.into_iter().chain([reply as u32])),
        }
    }
    prompt.retain_mut(|part| match *part {
        Part::Given(place) | Part::Rewritten(place) if gone.contains(&place) => false,
        Part::Rewritten(place) if whole.contains(&place) => {
            *part = Part::Given(place);
            true
        }
        _ => true,
    });
    prompt.dedup_by(|a, b| (&*a, &*b) == (&Part::Made, &Part::Made));
}
