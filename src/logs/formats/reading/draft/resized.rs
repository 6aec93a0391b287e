//! What the log's own record says of how long the context was before and behind a compaction, or an edit.

use super::Draft;
use crate::logs::formats::reading::scalar::Scalar;
use crate::trajectory::{Kind, Resized, Step};

impl Draft {
    /// Of the compaction that is among the steps from this one on, else of the edits that the next decision is the first to see.
    pub(crate) fn resized(&mut self, before: Option<Scalar>, behind: Option<Scalar>, from: usize) {
        if before.is_none() && behind.is_none() {
            return;
        }
        let summary = self.builder.steps_mut()[from..].iter_mut().rfind(|step| step.kind == Kind::Compaction);
        match summary {
            Some(step) => step.resized = told(before, behind),
            None => self.resized_by_edits(before, behind),
        }
    }

    /// Of the edits alone.
    pub(crate) fn resized_by_edits(&mut self, before: Option<Scalar>, behind: Option<Scalar>) {
        let (from, resized) = (self.builder.next_turn(), told(before, behind));
        let is_edited = |step: &&mut Step| step.edit.as_ref().is_some_and(|edit| edit.from == from);
        for step in self.builder.steps_mut().iter_mut().filter(is_edited) {
            step.resized = step.resized.take().or(resized.clone());
        }
    }
}

/// A count of none is one that was not made.
fn told(before: Option<Scalar>, behind: Option<Scalar>) -> Option<Box<Resized>> {
    let [from, to] = [before, behind].map(|n| n.and_then(Scalar::count).filter(|n| *n > 0));
    Resized { from, to }.known()
}
