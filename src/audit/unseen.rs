//! What stands in prompts and in no step of the log, by the provider's count.

use super::stays::leaves;
use crate::context::log::Log;
use crate::replay::Decision;

/// Fewer tokens of a prompt that no step accounts for may be reminders, or a rate that is not exact.
pub(super) const UNLOGGED: f64 = 3_000.0;

/// Who puts files and a map of them into prompts, and logs neither.
const WITHOUT_FILES: &str = "aider";
/// Who puts files back behind a compaction, and logs none: only the provider's count tells of them.
const PUTS_BACK: &str = "claude-code";

/// What the first prompt of a session holds beside its steps: system prompt and tools, which stand in each prompt.
#[derive(Default)]
pub(super) struct Unseen {
    /// None where the provider's count of the first prompts is not logged.
    pub(super) tokens: Option<f64>,
    /// Whether the first prompt behind a compaction holds less: what went with it had been said before the log begins.
    pub(super) is_of_middle: bool,
}

impl Unseen {
    pub(super) fn of(log: &Log, decisions: &[Decision]) -> Self {
        let segment = |decision: &Decision| log.turns[decision.turn as usize].segment;
        let mut firsts = decisions.chunk_by(|a, b| segment(a) == segment(b));
        let Some(tokens) = firsts.next().and_then(|first| first.iter().find_map(|d| missing(log, d))) else {
            return Unseen::default();
        };
        let later = firsts.filter_map(|of| of.iter().find_map(|d| missing(log, d)));
        let least = later.fold(tokens, f64::min);
        Unseen { tokens: Some(tokens), is_of_middle: least + UNLOGGED < tokens }
    }

    /// Whether it is known how much of a prompt is not in the log; of a log that counts none that is nothing, but for products that
    /// are known to put something there.
    pub(super) fn is_known(&self, log: &Log, decision: &Decision) -> bool {
        let agent = log.trajectory.agent.as_deref();
        let is_whole = || self.tokens.is_none() && agent != Some(PUTS_BACK);
        let is_known = agent != Some(WITHOUT_FILES) && !self.is_of_middle;
        is_known && (is_whole() || missing(log, decision).is_some())
    }

    /// Tokens of a prompt that stand in no step and were not in the first one, if a file may be among them.
    pub(super) fn more(&self, log: &Log, decision: &Decision) -> Option<u64> {
        let more = missing(log, decision)? - self.tokens.filter(|_| !self.is_of_middle)?;
        (more > UNLOGGED).then_some(more as u64)
    }
}

/// Tokens of a prompt that stand in no step.
fn missing(log: &Log, decision: &Decision) -> Option<f64> {
    let usage = log.usage(decision.turn).filter(|usage| usage.input > 0)?;
    // A replay keeps the first prompt, which some products leave out.
    let segment = log.turns[decision.turn as usize].segment;
    let head = (0..log.n_steps() as u32).take_while(|step| log.turn_of(*step) == 0 && segment > 0);
    let left: u64 =
        head.filter(|step| leaves(log, *step)).map(|step| u64::from(log.tokens[step as usize])).sum();
    Some(usage.input as f64 - log.rate(decision.turn)?.counted(decision.tokens_sent.saturating_sub(left)))
}
