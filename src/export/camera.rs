//! Keeps the prompts of a replay that are asked for.

use crate::context::{Block, Context};
use crate::replay::{Event, Observer};

/// Which prompts of a replay are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The one that stands when the log ends.
    End,
    /// That of the decision behind this event.
    Event(usize),
    /// That of each decision before which something was compressed.
    Each,
}

/// A prompt.
#[derive(Debug, PartialEq)]
pub struct Shot {
    /// The newest event before it; none for the end.
    pub event: Option<usize>,
    pub blocks: Vec<Block>,
}

/// Blocks that are kept at most, some hundred megabytes.
const MOST: usize = 4_000_000;

/// See the head of this file.
#[derive(Debug)]
pub struct Camera {
    at: At,
    pub shots: Vec<Shot>,
    /// Events so far.
    pub n_events: usize,
    /// The first event since the last decision.
    since: Option<usize>,
    recalled: Vec<Block>,
    n_blocks: usize,
}

impl Camera {
    pub fn new(at: At) -> Self {
        Camera { at, shots: Vec::new(), n_events: 0, since: None, recalled: Vec::new(), n_blocks: 0 }
    }

    /// Whether prompts were left out, because all together were too large.
    pub fn is_full(&self) -> bool {
        self.n_blocks > MOST
    }
}

impl Observer for Camera {
    fn compressed(&mut self, _: &[Block], _: &Event, _: u32) {
        self.since.get_or_insert(self.n_events);
        self.n_events += 1;
    }

    fn recalled(&mut self, blocks: &[Block], _: u32) {
        self.recalled = blocks.to_vec();
    }

    fn standing(&mut self, context: &Context) {
        let recalled = std::mem::take(&mut self.recalled);
        let Some(first) = self.since.take() else { return };
        let events = first..self.n_events;
        let is_meant = match self.at {
            At::End => false,
            At::Event(event) => events.contains(&event),
            At::Each => true,
        };
        self.n_blocks += if is_meant { context.blocks.len() + recalled.len() } else { 0 };
        if is_meant && !self.is_full() {
            let blocks = context.blocks.iter().cloned().chain(recalled).collect();
            self.shots.push(Shot { event: events.last(), blocks });
        }
    }

    fn ended(&mut self, context: &Context) {
        if self.at == At::End {
            self.shots = vec![Shot { event: None, blocks: context.blocks.clone() }];
        }
    }
}
