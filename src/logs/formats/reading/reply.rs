//! One reply of the agent's model: thoughts, words and calls, collected until it is known whether the words go
//! with a call. A call that is given in two styles (`tool_calls` and a content block) is one call.

use std::collections::HashMap;

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
    /// It stood in the text: the arguments are a command of the shell.
    is_command: bool,
}

impl Call {
    pub(crate) fn new(id: Option<String>, tool: String, arguments: String) -> Self {
        Call { id, tool, arguments, is_command: false }
    }

    pub(crate) fn of(call: super::ToolCall) -> Self {
        let (id, tool, arguments) = call.into_parts();
        Call::new(id, tool, arguments)
    }

    pub(crate) fn command(command: String) -> Self {
        Call { id: None, tool: "bash".to_owned(), arguments: command, is_command: true }
    }

    /// What a text says, and the call at its end, as OpenHands has models write it:
    /// `<function=NAME><parameter=KEY>VALUE</parameter></function>`.
    pub(crate) fn written(text: &str) -> Option<(&str, Self)> {
        let inner = text.trim_end().strip_suffix("</function>")?;
        let at = inner.rfind("<function=").filter(|at| *at == 0 || inner[..*at].ends_with('\n'))?;
        let (tool, mut rest) = inner[at..].strip_prefix("<function=")?.split_once('>')?;
        let mut arguments = serde_json::Map::new();
        while let Some(next) = rest.trim_start().strip_prefix("<parameter=") {
            let (key, value) = next.split_once('>')?;
            let (value, behind) = value.split_once("</parameter>")?;
            arguments.insert(key.to_owned(), value.trim_matches('\n').into());
            rest = behind;
        }
        let is_call = rest.trim().is_empty() && !tool.contains(char::is_whitespace);
        let arguments = Value::Object(arguments).to_string();
        is_call.then(|| (&text[..at], Call::new(None, tool.to_owned(), arguments)))
    }

    /// Takes the same call in another style out of these. None if there is none; its id there, if that is another one.
    pub(crate) fn merge(&mut self, others: &mut Vec<Call>) -> Option<Option<String>> {
        let same = others
            .iter()
            .position(|other| other.has_id_of(self))
            .or_else(|| others.iter().position(|other| other.says_the_same(self)));
        let other = others.remove(same?);
        // A style may leave the arguments out.
        if other.arguments.len() > self.arguments.len() && !other.says_the_same(self) {
            self.arguments = other.arguments;
        }
        let id = other.id.filter(|id| !id.is_empty());
        if !self.has_id() {
            self.id = id;
            return Some(None);
        }
        Some(id.filter(|id| self.id.as_ref() != Some(id)))
    }

    /// Whether both are one call, logged twice.
    pub(crate) fn is(&self, other: &Call) -> bool {
        self.has_id_of(other) && self.says_the_same(other)
    }

    pub(crate) fn has_id(&self) -> bool {
        self.id.as_deref().is_some_and(|id| !id.is_empty())
    }

    fn has_id_of(&self, other: &Call) -> bool {
        self.has_id() && self.id == other.id && self.tool == other.tool
    }

    fn says_the_same(&self, other: &Call) -> bool {
        self.tool == other.tool && is_same_json(&self.arguments, &other.arguments)
    }
}

pub(crate) fn is_same_json(a: &str, b: &str) -> bool {
    a == b
        || match (serde_json::from_str::<Value>(a), serde_json::from_str::<Value>(b)) {
            (Ok(a), Ok(b)) => a == b,
            _ => a.trim() == b.trim(),
        }
}

/// A reply in the making.
#[derive(Default)]
pub(crate) struct Reply {
    thoughts: Vec<(Place, String)>,
    texts: Vec<(Place, String)>,
    calls: Vec<(Place, Call)>,
    /// Which of the calls have an id.
    by_id: HashMap<String, Vec<usize>>,
    /// The other id of a call that was given in two styles, by its place in `calls`.
    other_ids: Vec<(usize, String)>,
    /// What comes now repeats what there is, or is a later state of it.
    pub(crate) is_again: bool,
    /// It goes on with the newest turn, behind results.
    is_resumed: bool,
}

impl Reply {
    /// Begins a reply, and with it a turn.
    pub(crate) fn begin(usage: Option<Usage>, draft: &mut Draft) -> Self {
        draft.begin_call();
        draft.usage(usage);
        Self::default()
    }

    /// Goes on with a reply that was pushed already; what stands there is not said again.
    pub(crate) fn resume() -> Self {
        Reply { is_resumed: true, ..Self::default() }
    }

    pub(crate) fn thought(&mut self, text: String, draft: &Draft) {
        if !self.is_resumed || !draft.newest_turn_says(&text) {
            add(&mut self.thoughts, text, self.is_again, draft);
        }
    }

    pub(crate) fn text(&mut self, text: String, draft: &Draft) {
        if !self.is_resumed || !draft.newest_turn_says(&text) {
            add(&mut self.texts, text, self.is_again, draft);
        }
    }

    /// Whether these calls and words repeat it: by the id of a call, or word for word where calls have no ids.
    pub(crate) fn is_repeated(&self, calls: &[Call], said: &str) -> bool {
        let has = |call: &Call| self.of_id(call).iter().any(|&at| self.calls[at].1.is(call));
        let has_bare = |call: &Call| {
            let is_it = |known: &Call| !known.has_id() && known.says_the_same(call);
            !call.has_id() && self.calls.iter().any(|(_, known)| is_it(known))
        };
        let has_line = |line: &str| self.thoughts.iter().chain(&self.texts).any(|(_, t)| t.contains(line));
        calls.iter().any(has) || !calls.is_empty() && calls.iter().all(has_bare) && said.lines().all(has_line)
    }

    /// Which calls have the id of this one.
    fn of_id(&self, call: &Call) -> &[usize] {
        let id = call.id.as_deref().filter(|_| call.has_id());
        id.and_then(|id| self.by_id.get(id)).map_or(&[], Vec::as_slice)
    }

    fn add_call(&mut self, call: Call, draft: &Draft) {
        if let Some(id) = call.id.as_ref().filter(|_| call.has_id()) {
            self.by_id.entry(id.clone()).or_default().push(self.calls.len());
        }
        self.calls.push((draft.place(), call));
    }

    /// A call; `others` are the calls of the same message in another style, of which the same one is taken out.
    pub(crate) fn call(&mut self, mut call: Call, others: &mut Vec<Call>, draft: &mut Draft) {
        if let Some(other_id) = call.merge(others) {
            draft.losses.add("call given in two styles merged");
            self.other_ids.extend(other_id.map(|id| (self.calls.len(), id)));
        }
        if self.is_resumed && draft.newest_turn_has(&call) {
            return draft.losses.add("repeated call merged");
        }
        let is_again = self.is_again;
        let is_known = |known: &Call| {
            let is_state = known.has_id_of(&call) && call.arguments.starts_with(&known.arguments);
            (known.has_id_of(&call) || is_again && !call.has_id()) && known.says_the_same(&call)
                || is_again && is_state
        };
        let at = match call.has_id() {
            true => self.of_id(&call).iter().copied().find(|&at| is_known(&self.calls[at].1)),
            false if is_again => self.calls.iter().position(|(_, known)| is_known(known)),
            false => None,
        };
        match at {
            Some(at) => {
                draft.losses.add("repeated call merged");
                self.calls[at].1.arguments = call.arguments;
            }
            None => self.add_call(call, draft),
        }
    }

    /// A call in the form without ids, which repeats one of the others or stands alone.
    pub(crate) fn older_call(&mut self, call: Call, draft: &mut Draft) {
        if self.calls.iter().any(|(_, known)| known.says_the_same(&call)) {
            draft.losses.add("call given in two styles merged");
        } else {
            self.add_call(call, draft);
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
            if call.is_command {
                draft.action_as(call.tool, call.arguments, None, None);
                continue;
            }
            draft.action(call.tool, call.arguments, call.id);
            let other = self.other_ids.get(self.other_ids.partition_point(|(at, _)| *at < i));
            draft.also_known_as(other.filter(|(at, _)| *at == i).map(|(_, id)| id.clone()));
        }
        self.other_ids.clear();
        self.by_id.clear();
        draft.at(place.0, place.1);
    }
}

/// Adds a text; one that is there already, or an earlier state of it, is not added again.
fn add(texts: &mut Vec<(Place, String)>, text: String, is_again: bool, draft: &Draft) {
    if is_again {
        if texts.iter().any(|(_, known)| known.starts_with(&text)) {
            return;
        }
        if let Some((_, known)) = texts.iter_mut().find(|(_, known)| text.starts_with(known.as_str())) {
            *known = text;
            return;
        }
    }
    texts.push((draft.place(), text));
}
