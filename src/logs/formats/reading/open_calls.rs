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
    by_tool: HashMap<String, Turns>,
    all: Turns,
}

/// Numbers of calls by turns, the newest turn last.
#[derive(Default)]
struct Turns(Vec<(u32, VecDeque<usize>)>);

impl Turns {
    fn push(&mut self, turn: u32, number: usize) {
        match self.0.last_mut() {
            Some((newest, numbers)) if *newest == turn => numbers.push_back(number),
            _ => self.0.push((turn, VecDeque::from([number]))),
        }
    }

    /// The first open call of the newest turn that has one; what is met on the way is forgotten.
    fn nearest(&mut self, is_open: impl Fn(usize) -> bool) -> Option<usize> {
        while let Some((_, numbers)) = self.0.last_mut() {
            while let Some(&number) = numbers.front() {
                if is_open(number) {
                    return Some(number);
                }
                numbers.pop_front();
            }
            self.0.pop();
        }
        None
    }
}

impl OpenCalls {
    pub(super) fn len(&self) -> usize {
        self.n_open
    }

    pub(super) fn push(&mut self, call: OpenCall, turn: u32) {
        let number = self.first + self.calls.len();
        if let Some(id) = &call.logged_id {
            self.by_id.entry(id.clone()).or_default().push(number);
        }
        match self.by_tool.get_mut(&call.tool) {
            Some(turns) => turns.push(turn, number),
            None => self.by_tool.entry(call.tool.clone()).or_default().push(turn, number),
        }
        self.all.push(turn, number);
        self.calls.push_back(Some(call));
        self.n_open += 1;
    }

    /// Another id of the newest call, where that is open.
    pub(super) fn also_known_as(&mut self, id: Option<String>) {
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

    /// Takes the first call, of this tool or of any, of the newest turn that has one: within a reply results come in the order
    /// of its calls, and a call of long ago that got none gets none now.
    pub(super) fn take_nearest(&mut self, tool: Option<&str>) -> Option<OpenCall> {
        let turns = match tool {
            Some(tool) => self.by_tool.get_mut(tool)?,
            None => &mut self.all,
        };
        let number = turns.nearest(|number| open(&self.calls, self.first, number).is_some())?;
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

    /// Forgets answered calls of a tool back to the nearest open one.
    fn shorten(&mut self, tool: &str) {
        let is_open = |number| open(&self.calls, self.first, number).is_some();
        self.all.nearest(is_open);
        if self.by_tool.get_mut(tool).is_some_and(|turns| turns.nearest(is_open).is_none()) {
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
