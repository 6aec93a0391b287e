//! Prompts that fell by the provider's count: later than a record says, or without one.

use super::Bench;
use super::unseen::UNLOGGED;

/// A fall of the prompt by more than this share is more than reminders that went.
const FALL: f64 = 0.05;

/// So many calls behind the first one a fall is still that of the record: what falls later has another cause.
const LATE: usize = 2;

/// A prompt that was shorter than the one before by the provider's count, and no record says why.
#[derive(Clone)]
pub struct Fall {
    pub turn: u32,
    pub time: Option<i64>,
    pub before: u64,
    pub after: u64,
    /// Whether another model answered than before: it counts in tokens of its own.
    pub is_other_model: bool,
}

impl Bench<'_> {
    /// How far the prompt of a turn fell, if that is more than reminders that went.
    pub(super) fn fall(&self, turn: u32) -> Option<Fall> {
        let at = self.decision(turn)?;
        let after = self.billed(at)?;
        let (of, before) = (0..at).rev().find_map(|at| Some((at, self.billed(at)?)))?;
        let model = |at: usize| {
            let step = self.step(self.sent.decisions[at].turn);
            let logged = &self.log.trajectory;
            logged.steps[step as usize].model.as_deref().or(logged.model.as_deref())
        };
        let is_other_model = model(at) != model(of);
        let time = self.log.decided_at(turn);
        (after as f64 + UNLOGGED < before as f64).then_some(Fall {
            turn,
            time,
            before,
            after,
            is_other_model,
        })
    }

    /// Tokens of a prompt by the provider's count.
    pub(super) fn billed(&self, at: usize) -> Option<u64> {
        let usage = self.log.usage(self.sent.decisions[at].turn)?;
        Some(usage.input).filter(|input| *input > 0)
    }

    /// The first call whose prompt is shorter, where the first behind a record had the old one still: some products log a compaction
    /// before they send it.
    pub(super) fn fallen(&self, at: usize) -> usize {
        let decisions = &self.sent.decisions;
        let billed = |at: usize| self.billed(at).map(|n| n as f64);
        let fell = |at: usize| billed(at) < billed(at - 1).map(|n| (1.0 - FALL) * n) && billed(at).is_some();
        let is_old = |old: f64, new: f64| new >= old && new <= (1.0 + FALL) * old;
        let is_late = at > 0
            && billed(at - 1).zip(billed(at)).is_some_and(|(old, new)| is_old(old, new))
            && decisions[at].tokens_sent < decisions[at - 1].tokens_sent;
        let segment = |at: usize| self.log.turns[decisions[at].turn as usize].segment;
        let near = (at + 1..decisions.len()).take(LATE);
        let mut later = near.take_while(|&i| is_late && segment(i) == segment(at));
        later.find(|&i| fell(i)).unwrap_or(at)
    }
}
