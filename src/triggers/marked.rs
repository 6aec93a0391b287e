//! Fires at the compression points of an annotated trajectory.
//!
//! A point is the index of a message; it fires before the first decision after that message, and
//! the scope is all that stands before the decision but the last `keep` turns. Without annotations
//! it never fires.

use super::{Detector, Entry, Firing, Moment, Trigger};
use crate::context::log::Log;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "marked",
    summary: "Compress at the compression points of an annotated dataset.",
    params: Marked::PARAMS,
    build: |params| Ok(Box::new(Marked::of(params)?)),
};

params! {
    #[derive(Clone, Copy)]
    struct Marked {
        /// Turns that stay uncompressed.
        keep: u32 = 0,
    }
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Annotations {
    compression_points: Vec<u32>,
}

impl Trigger for Marked {
    fn detector(&self, log: &Log, _: u32) -> Box<dyn Detector> {
        let annotations = log.trajectory.annotations.as_deref().unwrap_or("{}");
        let mut points =
            serde_json::from_str::<Annotations>(annotations).unwrap_or_default().compression_points;
        points.sort_unstable_by(|a, b| b.cmp(a));
        Box::new(Points { keep: self.keep, left: points })
    }
}

struct Points {
    keep: u32,
    /// Descending, so that the next one is last.
    left: Vec<u32>,
}

impl Detector for Points {
    fn advance(&mut self, moment: &Moment<'_>) -> Option<Firing> {
        let decision = moment.log.turns[moment.turn as usize].decision?;
        let message = moment.log.trajectory.steps[decision as usize].message;
        let n = self.left.len();
        while self.left.last().is_some_and(|&p| p < message) {
            self.left.pop();
        }
        let scope_end = moment.turn.checked_sub(self.keep)?;
        (self.left.len() < n).then(|| Firing::new("marked", scope_end, 1.0))
    }
}
