//! How far a run is, in step-variants.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::experiment::units::Unit;
use crate::progress::Meter;

/// Progress of one unit: never counts more than its cost, whatever is tried again.
pub(super) struct Counted<'a> {
    meter: &'a Meter,
    cost: u64,
    done: AtomicU64,
}

impl<'a> Counted<'a> {
    pub(super) fn of(unit: &Unit, meter: &'a Meter) -> Self {
        Counted { meter, cost: unit.step_variants(), done: AtomicU64::new(0) }
    }

    pub(super) fn add(&self, n: u64) {
        let before = self.done.fetch_add(n, Ordering::Relaxed);
        let counts = n.min(self.cost.saturating_sub(before));
        if counts > 0 {
            self.meter.add(counts);
        }
    }

    /// What was counted is done again.
    pub(super) fn reset(&self) {
        let done = self.done.swap(0, Ordering::Relaxed).min(self.cost);
        self.meter.take_back(done);
    }

    pub(super) fn complete(&self) {
        self.add(self.cost.saturating_sub(self.done.load(Ordering::Relaxed)));
    }
}
