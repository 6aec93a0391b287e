//! A log that compacted itself, as if it had not.

use std::collections::BTreeMap;

use crate::store::FeatureRow;
use crate::trajectory::{Kind, Trajectory};

use super::{Features, Log};

impl Log {
    /// The same, as if the log's own product had never compacted: one segment, with the summaries that it logged put aside.
    pub fn bridged(trajectory: Trajectory, features: Vec<FeatureRow>) -> anyhow::Result<Self> {
        Log::bridge(trajectory, Box::new(features.into_iter().map(Ok)))
    }

    /// The same with features that are read as they are asked for.
    pub fn bridge(mut trajectory: Trajectory, features: Features<'_>) -> anyhow::Result<Self> {
        let mut found = BTreeMap::new();
        let last_turns: BTreeMap<u32, u32> =
            trajectory.steps.iter().map(|step| (step.segment, step.turn)).collect();
        for (i, step) in trajectory.steps.iter_mut().enumerate() {
            // What was edited behind its own segment stood in that as it was.
            let last = last_turns[&step.segment];
            step.edit.take_if(|edit| edit.from > last);
            step.segment = 0;
            step.kept_to = None;
            if step.kind == Kind::Compaction {
                found.insert(i, (step.turn, std::mem::take(&mut step.text)));
            }
        }
        let emptied = |(i, row): (usize, anyhow::Result<FeatureRow>)| {
            let row = row?;
            let empty = |row: FeatureRow| FeatureRow { step: row.step, ..FeatureRow::default() };
            Ok(if found.contains_key(&i) { empty(row) } else { row })
        };
        let mut log = Log::join(trajectory, Box::new(features.enumerate().map(emptied)))?;
        for (turn, summary) in found.into_values() {
            let turn = turn as usize;
            // It opens its turn, and is no step of it any more.
            log.turns[turn].steps.start += 1;
            if let Some(next) = log.turns[turn..].iter().position(|t| t.decision.is_some()) {
                log.summaries.insert((turn + next) as u32, summary);
            }
        }
        Ok(log)
    }
}
