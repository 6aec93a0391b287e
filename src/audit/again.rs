//! Files that were read again word for word, though nothing had changed them: their content had been taken from the prompt.

use std::collections::HashSet;
use std::ops::Range;

use crate::context::log::Log;
use crate::store::FeatureRow;
use crate::turns::actions::ActionKind;

/// Shorter results are messages rather than content.
const LEAST: u32 = 30;

/// A file that was read again.
pub struct Again {
    pub path: String,
    /// The turn that read it before, and the one that read the same again.
    pub before: u32,
    pub turn: u32,
    /// Tokens of the call and its result.
    pub tokens: u64,
}

/// The calls of a session that read a file with their results, and those that edited one, in order.
pub(super) struct Reads {
    /// Call, result, path.
    reads: Vec<(u32, u32, String)>,
    edits: Vec<(u32, String)>,
}

impl Reads {
    pub(super) fn of(
        log: &Log,
        features: impl Iterator<Item = anyhow::Result<FeatureRow>>,
    ) -> anyhow::Result<Self> {
        let paths = features.map(|row| Ok(row?.path)).collect::<anyhow::Result<Vec<Option<String>>>>()?;
        let of = |step: u32, kind| {
            let is_kind = log.action_kinds[step as usize] == Some(kind);
            paths.get(step as usize).cloned().flatten().filter(|_| is_kind)
        };
        let steps = 0..log.n_steps() as u32;
        let edits = steps.clone().filter_map(|step| Some((step, of(step, ActionKind::EditFile)?))).collect();
        let content = steps.filter(|&step| {
            log.trajectory.steps[step as usize].is_error != Some(true) && log.tokens[step as usize] >= LEAST
        });
        let reads = content.filter_map(|result| {
            let call = log.call_of(result)?;
            Some((call, result, of(call, ActionKind::ReadFile)?))
        });
        Ok(Reads { reads: reads.collect(), edits })
    }

    /// What the calls among `steps` read again of what `is_gone`: the same text, and no edit of that file in between.
    pub(super) fn again(&self, log: &Log, steps: Range<u32>, is_gone: &dyn Fn(u32) -> bool) -> Vec<Again> {
        let text = |result: u32| log.trajectory.steps[result as usize].text.trim();
        let (mut read, mut again) = (HashSet::new(), Vec::new());
        for (call, result, path) in self.reads.iter().filter(|(call, ..)| steps.contains(call)) {
            if !read.insert((path, text(*result))) {
                continue;
            }
            let same = |(_, earlier, of): &&(u32, u32, String)| {
                *earlier < steps.start && of == path && text(*earlier) == text(*result)
            };
            // One of them that stands would have been enough.
            if self.reads.iter().filter(same).any(|(_, earlier, _)| !is_gone(*earlier)) {
                continue;
            }
            let Some((_, earlier, _)) = self.reads.iter().rev().find(same) else { continue };
            let is_edited =
                self.edits.iter().any(|(step, of)| of == path && (*earlier..*call).contains(step));
            if !is_edited {
                let (before, turn) = (log.turn_of(*earlier), log.turn_of(*call));
                again.push(Again { path: path.clone(), before, turn, tokens: log.tokens_again(*result) });
            }
        }
        again
    }
}
