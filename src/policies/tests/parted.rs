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
    let stands: BTreeSet<u32> = prompt
        .iter()
        .filter_map(|part| match part {
            Part::Given(place) | Part::Rewritten(place) => Some(*place),
            Part::Made => None,
        })
        .collect();
    let messages = &list.messages[..at as usize];
    let of = |id: &str| messages.iter().rposition(|message| message.calls.iter().any(|call| call.id == id));
    messages.iter().enumerate().any(|(place, message)| {
        let call = message.call.as_deref().and_then(of);
        call.is_some_and(|call| stands.contains(&(place as u32)) != given.contains(&(call as u32)))
    })
}
