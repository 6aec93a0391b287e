//! Replays that are kept for other cells: each trajectory is replayed once a variant, if what is kept suffices.
//!
//! A cell needs the traces of its partners under its variant, and these have a cell of their own. So a trace is kept for all that
//! have its trajectory for a partner, and the rest of a replay, where a partner came first, for its own cell. What is not kept is
//! replayed again, with the same answer: units wait for nothing, and a run that was killed needs nothing of this. Partners stand
//! near in the data and units are done in its order, so that what is farthest away goes first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::context::{Block, Content, Piece};
use crate::replay::trace::Trace;
use crate::replay::{Event, Recall, Run};
use crate::strategies::{Item, Work};

/// Bytes of traces kept, and as many of replays.
const BYTES: usize = 32 << 20;

/// The replays of a trajectory, by variant.
type OfOne<T> = HashMap<Arc<str>, (usize, T)>;

/// Values by trajectory (its place in the data) and variant, in so many bytes at most.
struct Near<T> {
    values: BTreeMap<usize, OfOne<T>>,
    bytes: usize,
}

impl<T> Default for Near<T> {
    fn default() -> Self {
        Near { values: BTreeMap::new(), bytes: 0 }
    }
}

impl<T> Near<T> {
    fn get(&self, place: usize, variant: &str) -> Option<&T> {
        self.values.get(&place)?.get(variant).map(|(_, value)| value)
    }

    fn take(&mut self, place: usize, variant: &str) -> Option<T> {
        let of_one = self.values.get_mut(&place)?;
        let (bytes, value) = of_one.remove(variant)?;
        if of_one.is_empty() {
            self.values.remove(&place);
        }
        self.bytes -= bytes;
        Some(value)
    }

    /// Puts a value there; of too many, the trajectories farthest from the place where work goes on lose theirs.
    fn put(&mut self, now: usize, place: usize, variant: &Arc<str>, (bytes, value): (usize, T)) {
        let of_one = self.values.entry(place).or_default();
        if let Some((before, _)) = of_one.insert(Arc::clone(variant), (bytes, value)) {
            self.bytes -= before;
        }
        self.bytes += bytes;
        while self.bytes > BYTES {
            let ends = [self.values.first_key_value(), self.values.last_key_value()].into_iter().flatten();
            let Some(farthest) = ends.map(|(&place, _)| place).max_by_key(|place| place.abs_diff(now)) else {
                break;
            };
            let gone = self.values.remove(&farthest).unwrap_or_default();
            self.bytes -= gone.values().map(|(bytes, _)| bytes).sum::<usize>();
        }
    }
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct Replays {
    traces: Mutex<Near<Arc<Trace>>>,
    /// Of trajectories whose cells come later.
    runs: Mutex<Near<(Run, Arc<Trace>)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Replays {
    /// The replay of the trajectory at a place, for its own cell, which asks once.
    pub(super) fn own(
        &self,
        place: usize,
        variant: &Arc<str>,
        replay: impl FnOnce() -> anyhow::Result<(Run, Trace)>,
    ) -> anyhow::Result<(Run, Arc<Trace>)> {
        if let Some(kept) = locked(&self.runs).take(place, variant) {
            return Ok(kept);
        }
        let (run, trace) = replay()?;
        let trace = Arc::new(trace);
        locked(&self.traces).put(place, place, variant, (trace.bytes(), Arc::clone(&trace)));
        Ok((run, trace))
    }

    /// The trace of a partner of the trajectory at place `now`. A replay whose contexts are asked for (`is_shown`) is kept for
    /// nobody: what its strategy remembers may be large.
    pub(super) fn partner(
        &self,
        (now, place): (usize, usize),
        variant: &Arc<str>,
        is_shown: bool,
        replay: impl FnOnce() -> anyhow::Result<(Run, Trace)>,
    ) -> anyhow::Result<Arc<Trace>> {
        if let Some(trace) = locked(&self.traces).get(place, variant) {
            return Ok(Arc::clone(trace));
        }
        let (mut run, trace) = replay()?;
        let trace = Arc::new(trace);
        locked(&self.traces).put(now, place, variant, (trace.bytes(), Arc::clone(&trace)));
        if place > now && !is_shown {
            run.left = Vec::new();
            locked(&self.runs).put(now, place, variant, (bytes(&run), (run, Arc::clone(&trace))));
        }
        Ok(trace)
    }
}

/// Approximate bytes of a replay, without its trace.
fn bytes(run: &Run) -> usize {
    let event = |event: &Event| {
        let steps = event.removable.len() + event.only.as_ref().map_or(0, Vec::len);
        size_of::<Event>() + event.details.len() + 4 * steps + of_blocks(&event.after) + of_work(&event.work)
    };
    let recall = |recall: &Recall| {
        let details =
            recall.details.iter().map(|text| size_of::<String>() + text.as_ref().map_or(0, String::len));
        size_of::<Recall>() + of_blocks(&recall.blocks) + details.sum::<usize>() + of_work(&recall.work)
    };
    size_of_val(&run.decisions[..])
        + run.events.iter().map(event).sum::<usize>()
        + run.recalls.iter().map(recall).sum::<usize>()
}

fn of_blocks(blocks: &[Block]) -> usize {
    let content = |block: &Block| match &block.content {
        Content::Step(_) => 0,
        Content::Excerpt { pieces, .. } => pieces.len() * size_of::<Piece>(),
        Content::Placeholder { text, .. } | Content::Generated { text } => text.len(),
    };
    size_of_val(blocks) + blocks.iter().map(content).sum::<usize>()
}

/// A JSON object of a recall has some ten values.
const DETAILS: usize = 1_000;

fn of_work(work: &Work) -> usize {
    work.items.iter().map(|item| size_of::<Item>() + item.text.len()).sum::<usize>()
        + work.recalled.len() * DETAILS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_far_away_goes_first() {
        let (variant, size): (Arc<str>, usize) = ("v".into(), BYTES / 4);
        let mut near: Near<usize> = Near::default();
        let places = |near: &Near<usize>| near.values.keys().copied().collect::<Vec<_>>();
        for place in [1, 4, 5, 9] {
            near.put(4, place, &variant, (size, place));
        }
        assert_eq!(places(&near), [1, 4, 5, 9]);
        near.put(4, 3, &variant, (size, 3));
        assert_eq!(places(&near), [1, 3, 4, 5]);
        // What is itself the farthest is not kept.
        near.put(4, 8, &variant, (size, 8));
        assert_eq!(places(&near), [1, 3, 4, 5]);
        near.put(8, 7, &variant, (size, 7));
        assert_eq!((places(&near), near.bytes), (vec![3, 4, 5, 7], BYTES));
        assert_eq!((near.take(5, "v"), near.take(5, "v"), near.get(4, "v")), (Some(5), None, Some(&4)));
        near.put(8, 4, &variant, (1, 40));
        assert_eq!((near.get(4, "v"), near.bytes), (Some(&40), 2 * size + 1));
        near.put(8, 6, &variant, (2 * BYTES, 6));
        assert!(near.bytes <= BYTES && places(&near).iter().all(|place| *place != 6));
    }
}
