//! Calls that have no result yet, found by what a result says of them: each look-up costs the same, however many are open.

use std::collections::{HashMap, VecDeque};

/// A call that has no result yet.
pub(super) struct OpenCall {
    pub(super) logged_id: Option<String>,
    /// What the same call is also known by.
    pub(super) other_id: Option<String>,
    pub(super) id: String,
    pub(super) tool: String,
}

impl OpenCall {
    fn is(&self, id: &str) -> bool {
        self.logged_id.as_deref() == Some(id) || self.other_id.as_deref() == Some(id)
    }
}

/// Open calls in the order of the log, by number. Indices may still name calls that were answered: those are left out, and
/// taken away, where they are met.
#[derive(Default)]
pub(super) struct OpenCalls {
    calls: VecDeque<Option<OpenCall>>,
    /// The number of the first of `calls`.
    first: usize,
    n_open: usize,
    by_id: HashMap<String, Vec<usize>>,
    by_tool: HashMap<String, VecDeque<usize>>,
}

impl OpenCalls {
    pub(super) fn len(&self) -> usize {
        self.n_open
    }

    pub(super) fn push(&mut self, call: OpenCall) {
        let number = self.first + self.calls.len();
        if let Some(id) = &call.logged_id {
            self.by_id.entry(id.clone()).or_default().push(number);
        }
        match self.by_tool.get_mut(&call.tool) {
            Some(numbers) => numbers.push_back(number),
            None => drop(self.by_tool.insert(call.tool.clone(), VecDeque::from([number]))),
        }
        self.calls.push_back(Some(call));
        self.n_open += 1;
    }

    /// Another id of the newest call that is open.
    pub(super) fn also_known_as(&mut self, id: Option<String>) {
        // Answered ones at the end are no longer asked for.
        while self.calls.back().is_some_and(Option::is_none) {
            self.calls.pop_back();
        }
        let number = (self.first + self.calls.len()).wrapping_sub(1);
        if let Some(Some(call)) = self.calls.back_mut() {
            if let Some(id) = &id {
                self.by_id.entry(id.clone()).or_default().push(number);
            }
            call.other_id = id;
        }
    }

    /// Takes the newest call of this id.
    pub(super) fn take_id(&mut self, id: &str) -> Option<OpenCall> {
        let numbers = self.by_id.get_mut(id)?;
        let is = |call: &OpenCall| call.is(id);
        let found = loop {
            let Some(number) = numbers.pop() else { break None };
            if open(&self.calls, self.first, number).is_some_and(is) {
                break Some(number);
            }
        };
        if numbers.is_empty() {
            self.by_id.remove(id);
        }
        self.take(found?)
    }

    /// Takes the first call of this tool, or of any.
    pub(super) fn take_first(&mut self, tool: Option<&str>) -> Option<OpenCall> {
        let Some(tool) = tool else {
            return self.take(self.first);
        };
        self.shorten(tool);
        let number = *self.by_tool.get(tool)?.front()?;
        self.take(number)
    }

    fn take(&mut self, number: usize) -> Option<OpenCall> {
        let call = self.calls.get_mut(number.checked_sub(self.first)?)?.take()?;
        self.n_open -= 1;
        // The first of them is always open.
        while self.calls.front().is_some_and(Option::is_none) {
            self.calls.pop_front();
            self.first += 1;
        }
        self.shorten(&call.tool);
        for id in call.logged_id.iter().chain(&call.other_id) {
            self.shorten_id(id);
        }
        Some(call)
    }

    /// Forgets answered calls of a tool up to its first open one.
    fn shorten(&mut self, tool: &str) {
        let Some(numbers) = self.by_tool.get_mut(tool) else { return };
        while numbers
            .front()
            .is_some_and(|&at| open(&self.calls, self.first, at).is_none_or(|c| c.tool != tool))
        {
            numbers.pop_front();
        }
        if numbers.is_empty() {
            self.by_tool.remove(tool);
        }
    }

    /// Forgets answered calls of an id back to its newest open one.
    fn shorten_id(&mut self, id: &str) {
        let Some(numbers) = self.by_id.get_mut(id) else { return };
        while numbers.last().is_some_and(|&at| !open(&self.calls, self.first, at).is_some_and(|c| c.is(id))) {
            numbers.pop();
        }
        if numbers.is_empty() {
            self.by_id.remove(id);
        }
    }
}

/// The call of a number, where it is open.
fn open(calls: &VecDeque<Option<OpenCall>>, first: usize, number: usize) -> Option<&OpenCall> {
    calls.get(number.checked_sub(first)?)?.as_ref()
}
