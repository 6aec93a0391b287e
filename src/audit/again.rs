//! Files that were read again word for word, though nothing had changed them: their content had been taken from the prompt.

use std::collections::{HashMap, HashSet};
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
    /// By call.
    reads: Vec<Read>,
    /// Of the same text of the same file: places among the reads.
    same: Vec<Vec<usize>>,
    /// By path.
    edits: HashMap<String, Vec<u32>>,
}

struct Read {
    call: u32,
    result: u32,
    path: String,
    /// Its place in `same`.
    content: usize,
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
        let mut all = Reads { reads: Vec::new(), same: Vec::new(), edits: HashMap::new() };
        let mut contents: HashMap<(String, &str), usize> = HashMap::new();
        for step in 0..log.n_steps() as u32 {
            if let Some(path) = of(step, ActionKind::EditFile) {
                all.edits.entry(path).or_default().push(step);
            }
            let result = &log.trajectory.steps[step as usize];
            if result.is_error == Some(true) || log.tokens[step as usize] < LEAST {
                continue;
            }
            let Some(call) = log.call_of(step) else { continue };
            let Some(path) = of(call, ActionKind::ReadFile) else { continue };
            let n = contents.len();
            let content = *contents.entry((path.clone(), result.text.trim())).or_insert(n);
            all.reads.push(Read { call, result: step, path, content });
        }
        all.reads.sort_by_key(|read| read.call);
        all.same = vec![Vec::new(); contents.len()];
        for (at, read) in all.reads.iter().enumerate() {
            all.same[read.content].push(at);
        }
        Ok(all)
    }

    /// What the calls among `steps` read again of what `is_gone`: the same text, and no edit of that file in between.
    pub(super) fn again(&self, log: &Log, steps: Range<u32>, is_gone: &dyn Fn(u32) -> bool) -> Vec<Again> {
        let (mut read, mut again) = (HashSet::new(), Vec::new());
        let from = self.reads.partition_point(|read| read.call < steps.start);
        let of_steps = self.reads[from..].iter().take_while(|read| read.call < steps.end);
        for Read { call, result, path, content } in of_steps {
            if !read.insert(content) {
                continue;
            }
            let before =
                self.same[*content].iter().take_while(|&&at| at < from).map(|&at| self.reads[at].result);
            let before = before.filter(|earlier| *earlier < steps.start);
            // One of them that stands would have been enough.
            if before.clone().any(|earlier| !is_gone(earlier)) {
                continue;
            }
            let Some(earlier) = before.max() else { continue };
            let edits = self.edits.get(path).map_or(&[][..], Vec::as_slice);
            let next = edits.partition_point(|&edit| edit < earlier);
            if edits.get(next).is_none_or(|edit| edit >= call) {
                let (before, turn) = (log.turn_of(earlier), log.turn_of(*call));
                again.push(Again { path: path.clone(), before, turn, tokens: log.tokens_again(*result) });
            }
        }
        again
    }
}
