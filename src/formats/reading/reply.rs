//! One reply of the agent's model: thoughts, words and calls, collected until it is known whether the words go
//! with a call. A call that is given in two styles (`tool_calls` and a content block) is one call.

use serde_json::Value;

use super::Draft;
use crate::trajectory::{Kind, Usage};

/// Where a part of a reply is logged: message and time.
type Place = (usize, Option<i64>);

/// A call of a tool as logged.
pub(crate) struct Call {
    pub(crate) id: Option<String>,
    pub(crate) tool: String,
    pub(crate) arguments: String,
}

impl Call {
    fn has_id(&self) -> bool {
        self.id.as_deref().is_some_and(|id| !id.is_empty())
    }

    fn has_id_of(&self, other: &Call) -> bool {
        self.has_id() && self.id == other.id && self.tool == other.tool
    }

    fn says_the_same(&self, other: &Call) -> bool {
        self.tool == other.tool && is_same_json(&self.arguments, &other.arguments)
    }
}

fn is_same_json(a: &str, b: &str) -> bool {
    a == b
        || match (serde_json::from_str::<Value>(a), serde_json::from_str::<Value>(b)) {
            (Ok(a), Ok(b)) => a == b,
            _ => a.trim() == b.trim(),
        }
}

/// A reply in the making.
pub(crate) struct Reply {
    thoughts: Vec<(Place, String)>,
    texts: Vec<(Place, String)>,
    calls: Vec<(Place, Call)>,
    /// The other id of a call that was given in two styles, by its place in `calls`.
    other_ids: Vec<(usize, String)>,
}

impl Reply {
    /// Begins a reply, and with it a turn.
    pub(crate) fn begin(usage: Option<Usage>, draft: &mut Draft) -> Self {
        draft.begin_call();
        draft.usage(usage);
        Reply { thoughts: Vec::new(), texts: Vec::new(), calls: Vec::new(), other_ids: Vec::new() }
    }

    pub(crate) fn thought(&mut self, text: String, draft: &Draft) {
        self.thoughts.push((draft.place(), text));
    }

    pub(crate) fn text(&mut self, text: String, draft: &Draft) {
        self.texts.push((draft.place(), text));
    }

    /// A call; `others` are the calls of the same message in another style, of which the same one is taken out.
    pub(crate) fn call(&mut self, mut call: Call, others: &mut Vec<Call>, draft: &mut Draft) {
        let same = others
            .iter()
            .position(|other| other.has_id_of(&call))
            .or_else(|| others.iter().position(|other| other.says_the_same(&call)));
        if let Some(other) = same.map(|i| others.remove(i)) {
            draft.losses.add("call given in two styles merged");
            // A style may leave the arguments out.
            if other.arguments.len() > call.arguments.len() && !other.says_the_same(&call) {
                call.arguments = other.arguments;
            }
            match other.id.filter(|id| !id.is_empty()) {
                Some(id) if !call.has_id() => call.id = Some(id),
                Some(id) if call.id.as_ref() != Some(&id) => self.other_ids.push((self.calls.len(), id)),
                _ => {}
            }
        }
        if self.calls.iter().any(|(_, known)| known.has_id_of(&call) && known.says_the_same(&call)) {
            draft.losses.add("repeated call merged");
            return;
        }
        self.calls.push((draft.place(), call));
    }

    /// A call in the form without ids, which repeats one of the others or stands alone.
    pub(crate) fn older_call(&mut self, call: Call, draft: &mut Draft) {
        if self.calls.iter().any(|(_, known)| known.says_the_same(&call)) {
            draft.losses.add("call given in two styles merged");
        } else {
            self.calls.push((draft.place(), call));
        }
    }

    /// A result that stands inside of the reply, of a tool that the provider runs: what was said before comes first.
    pub(crate) fn result(
        &mut self,
        id: Option<&str>,
        text: String,
        is_error: Option<bool>,
        draft: &mut Draft,
    ) {
        self.push(draft);
        draft.result(id, None, text, is_error);
    }

    /// The reply ends.
    pub(crate) fn end(mut self, draft: &mut Draft) {
        self.push(draft);
    }

    fn push(&mut self, draft: &mut Draft) {
        let place = draft.place();
        for ((message, time), thought) in self.thoughts.drain(..) {
            draft.at(message, time);
            draft.agent(Kind::Thought, thought);
        }
        let kind = if self.calls.is_empty() { Kind::Message } else { Kind::Thought };
        for ((message, time), text) in self.texts.drain(..) {
            draft.at(message, time);
            draft.agent(kind, text);
        }
        for (i, ((message, time), call)) in self.calls.drain(..).enumerate() {
            draft.at(message, time);
            draft.action(call.tool, call.arguments, call.id);
            draft.also_known_as(self.other_ids.iter().find(|(at, _)| *at == i).map(|(_, id)| id.clone()));
        }
        self.other_ids.clear();
        draft.at(place.0, place.1);
    }
}
