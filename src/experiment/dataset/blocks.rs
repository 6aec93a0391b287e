//! Trajectories that stand side by side in the data, read together.
//!
//! To read one costs nearly as much as to read its neighbours, whose rows stand in the same pages. So small ones are read a block
//! at a time, and the others of a block wait until they are asked for. Each is handed out once: who asks again reads again.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use super::{Dataset, Entry};
use crate::store::FeatureRow;
use crate::trajectory::Trajectory;

/// Bytes of text of a block at most, unless it is one trajectory, which is read by itself and as it is asked for.
const BYTES: u64 = 512 << 10;
/// Steps of a block at most.
const STEPS: u32 = 4096;
/// Blocks that wait; each takes a few times its text.
const WAITING: usize = 6;

/// A trajectory with the features of its steps.
type Whole = (Trajectory, Vec<FeatureRow>);

/// What waits of the block that begins with a trajectory.
struct Block {
    start: usize,
    /// Of each of its trajectories.
    left: Vec<Option<Whole>>,
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct Blocks {
    /// Where each block begins.
    starts: Vec<usize>,
    n: usize,
    waiting: Mutex<VecDeque<Block>>,
}

impl Blocks {
    /// Blocks of these trajectories, which have so many bytes of text each.
    pub(super) fn of(entries: &[Entry], n_bytes: &[u64]) -> Self {
        let (mut starts, mut bytes, mut steps) = (Vec::new(), 0, 0);
        for (index, (entry, own)) in entries.iter().zip(n_bytes).enumerate() {
            (bytes, steps) = (own.saturating_add(bytes), entry.n_steps.saturating_add(steps));
            let is_next = index > 0 && entries[index - 1].row_group == entry.row_group;
            if !is_next || bytes > BYTES || steps > STEPS {
                starts.push(index);
                (bytes, steps) = (*own, entry.n_steps);
            }
        }
        Blocks { starts, n: entries.len(), waiting: Mutex::default() }
    }

    /// The block that a trajectory stands in.
    fn around(&self, index: usize) -> Range<usize> {
        let at = self.starts.partition_point(|&start| start <= index);
        let end = self.starts.get(at).copied().unwrap_or(self.n);
        at.checked_sub(1).map_or(0, |at| self.starts[at])..end
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Block>> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn take(&self, index: usize) -> Option<Whole> {
        let mut waiting = self.waiting();
        let is_there = |block: &Block| (block.start..block.start + block.left.len()).contains(&index);
        waiting
            .iter_mut()
            .filter(|block| is_there(block))
            .find_map(|block| block.left[index - block.start].take())
    }

    fn put(&self, block: Block) {
        let mut waiting = self.waiting();
        waiting.retain(|other| other.start != block.start && other.left.iter().any(Option::is_some));
        waiting.push_back(block);
        if waiting.len() > WAITING {
            waiting.pop_front();
        }
    }
}

impl Dataset {
    /// A trajectory that is read with its neighbours; none where it has none, or where their rows cannot be read as one.
    pub(super) fn with_neighbours(&self, index: usize) -> Option<Whole> {
        if let Some(whole) = self.blocks.take(index) {
            return Some(whole);
        }
        let range = self.blocks.around(index);
        if range.len() < 2 {
            return None;
        }
        let mut left: Vec<Option<Whole>> = self.block(range.clone()).ok()?.into_iter().map(Some).collect();
        let own = left.get_mut(index - range.start)?.take();
        self.blocks.put(Block { start: range.start, left });
        own
    }

    fn block(&self, range: Range<usize>) -> anyhow::Result<Vec<Whole>> {
        let entries = &self.entries[range.clone()];
        let (first, last) = (&entries[0], &entries[entries.len() - 1]);
        let rows = first.rows().start..last.rows().end;
        let mut steps = self.steps.rows(first.row_group, rows.clone())?;
        let mut features = self.features.rows(first.row_group, rows)?;
        let of_trajectories = self.trajectory_rows(&range.collect::<Vec<_>>())?;
        let mut all = Vec::with_capacity(entries.len());
        for (entry, row) in entries.iter().zip(of_trajectories) {
            let n = entry.n_steps as usize;
            let trajectory = self.joined(entry, row, steps.by_ref().take(n))?;
            let of_steps = features.by_ref().take(n).map(|row| self.of_entry(entry, row));
            all.push((trajectory, of_steps.collect::<anyhow::Result<_>>()?));
        }
        Ok(all)
    }
}
