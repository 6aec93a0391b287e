//! Replaces the text of old observations by a one-line placeholder that says what was left out.
//!
//! Thoughts and actions stay as they were. An observation that is no longer than its placeholder stays.
//!
//! Every mask changes the prompt behind it, and what stood there is written to the cache anew. With `polling` above 1 the
//! cut stands still while that many observations come, and the cache serves the prompt until then.
//!
//! Source: Lindenbauer et al., "The Complexity Trap" (arXiv 2508.21433), with M = 10; the wording
//! of the placeholder and `polling` are SWE-agent's (`LastNObservations`, 1.1.0). That counts the task as the first
//! observation, which always stays.

use super::{Entry, Env, Scope, Strategy};
use crate::context::log::Log;
use crate::context::{Content, Edit};
use crate::params::params;
use crate::trajectory::Kind;

pub(super) const ENTRY: Entry = Entry {
    name: "mask",
    summary: "Keep the last turns' observations and mask the older ones.",
    params: Mask::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(Mask::of(params)?)),
};

params! {
    struct Mask {
        /// How many of the newest turns keep their observations.
        keep_last: u32 = 10,
        /// How many observations come before the cut moves.
        polling: u32 = 1 (at least 1),
    }
}

impl Strategy for Mask {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        Ok(masks(scope, env))
    }

    fn keep_last(&self) -> u32 {
        self.keep_last
    }

    fn newest(&self, log: &Log, turn: u32) -> u32 {
        polled(log, turn, self.polling).saturating_sub(self.keep_last)
    }

    fn may_remove(&self, kind: Kind) -> bool {
        kind == Kind::Observation
    }
}

/// The last turn, up to this one, before which no more observations stood than at the last multiple of `polling`, the
/// task counted as one.
fn polled(log: &Log, turn: u32, polling: u32) -> u32 {
    let turns = &log.turns[..=turn as usize];
    let now = &turns[turn as usize];
    let count = |n_observations: u32| u64::from(n_observations) + 1;
    let multiple = count(now.n_observations) / u64::from(polling) * u64::from(polling);
    let stood = turns.partition_point(|t| (t.segment, count(t.n_observations)) <= (now.segment, multiple));
    stood.saturating_sub(1) as u32
}

/// Edits that mask the observations of the scope that still stand whole, as far as that makes them shorter.
pub(super) fn masks(scope: &Scope<'_>, env: &Env<'_>) -> Vec<Edit> {
    let mut edits = Vec::new();
    for block in scope.blocks.clone() {
        let Content::Step(step) = scope.context.blocks[block].content else { continue };
        if scope.log.kind(step) != Kind::Observation {
            continue;
        }
        let text = placeholder(scope.log.lines[step as usize]);
        let tokens = scope.context.blocks[block].tokens;
        // A token is at least a byte, so most placeholders need not be counted to be shorter.
        if text.len() < tokens as usize || env.tokenizer.count(&text) < tokens {
            edits.push(Edit::Mask { block, text });
        }
    }
    edits
}

fn placeholder(lines: u32) -> String {
    format!("Old environment output: ({lines} line{} omitted)", if lines == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use crate::context::log::Log;

    /// Which observations of a log with one a turn stand whole at its last decision, and how often the cut moved.
    fn kept(n: u32, params: &str) -> (String, usize) {
        let turn = |i: u32| {
            format!("\naction: cat {i}\nobservation: alpha beta gamma~delta epsilon~zeta eta theta~iota {i}")
        };
        let log = Log::script(
            &((1..=n).map(turn).fold("user: task".to_owned(), |all, t| all + &t) + "\nagent: so"),
        );
        let run = run(("mask", params), ("turns", "n = 1"), &log);
        let masked: Vec<u32> = run.events.iter().flat_map(|e| e.turns.clone()).collect();
        let shown = (1..=n).map(|t| if masked.contains(&t) { 'o' } else { 'K' });
        (shown.collect(), run.events.len())
    }

    /// SWE-agent's own: of 8 observations, the task among them, with n = 3.
    #[test]
    fn the_cut_moves_when_so_many_observations_came() {
        assert_eq!(kept(7, "keep_last = 3"), ("ooooKKK".to_owned(), 4));
        assert_eq!(kept(7, "keep_last = 3\npolling = 1"), ("ooooKKK".to_owned(), 4));
        assert_eq!(kept(7, "keep_last = 3\npolling = 3"), ("ooKKKKK".to_owned(), 1));
        // At the ninth the cut is at 9 - 3: the first and 1 to 5.
        assert_eq!(kept(8, "keep_last = 3\npolling = 3"), ("oooooKKK".to_owned(), 2));
        assert_eq!(kept(8, "keep_last = 3\npolling = 10"), ("KKKKKKKK".to_owned(), 0));
        assert_eq!(kept(9, "keep_last = 3\npolling = 10"), ("ooooooKKK".to_owned(), 1));
        assert_eq!(kept(9, "keep_last = 3\npolling = 4000000000").1, 0);
    }

    /// Turns without an observation age what stands before them only when the cut moves.
    #[test]
    fn a_new_segment_counts_anew() {
        let log = Log::script(
            "user: task
             action: a
             observation: alpha beta gamma~delta epsilon~zeta eta theta~iota
             summary: so far
             action: b
             observation: alpha beta gamma~delta epsilon~zeta eta theta~iota
             agent: one
             agent: two
             action: c
             observation: alpha beta gamma~delta epsilon~zeta eta theta~iota
             agent: three
             agent: four",
        );
        let at = |params: &str| -> Vec<(u32, std::ops::Range<u32>)> {
            let run = run(("mask", params), ("turns", "n = 1"), &log);
            run.events.iter().map(|e| (e.turn, e.turns.clone())).collect()
        };
        // The summary opens turn 2, which is the call with b; c is turn 5.
        assert_eq!(at("keep_last = 1"), [(4, 2..3), (5, 3..4), (6, 4..5), (7, 5..6)]);
        // With the task three have come at turn 6 and 7: the newest is then no more than 2, at turn 5.
        assert_eq!(at("keep_last = 1\npolling = 2"), [(4, 2..3), (5, 3..4)]);
    }
}
