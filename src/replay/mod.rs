//! Replays one trajectory under one variant: decision by decision, in the order of the log.
//!
//! For each decision: append the steps logged since the last one; ask the trigger; if it fires, ask
//! the strategy for edits and apply them; ask it what to recall; the context with that at its end is what would have been
//! sent. Work is linear in the number of steps: an event touches only the turns that became its scope, and, where the
//! strategy is recursive, what it left of those before.

mod provider;
mod recipe;
mod replayer;
pub mod sent;
pub mod shadow;
pub mod trace;
pub mod watch;

use std::ops::Range;
use std::sync::LazyLock;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use crate::context::log::Log;
use crate::context::needs::Needs;
use crate::context::{Block, Content, Context};
use crate::models::Asked;
use crate::strategies::{State, Strategy, Work};
use crate::text::tokens::Tokenizer;
use crate::trajectory::Kind;

pub use recipe::{Frame, Head, Recipe, Scaled, Stage};
use replayer::Replayer;

/// Violation: what was recalled would have made the prompt longer than the uncompressed one.
pub const OVERFULL: &str = "recalled more than was taken away";

/// All steps: see [`Event::takes`].
pub const ALL: u32 = u32::MAX;

/// What one decision was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub turn: u32,
    /// Events so far.
    pub n_events: u32,
    pub tokens_full: u64,
    pub tokens_sent: u64,
    /// What the provider would count of it, of a policy's prompt where the log has usage: single calls are off the fit.
    pub billed: Option<u64>,
    /// Longest prefix shared with the previous prompt, in whole blocks.
    pub cached_full: u64,
    pub cached_sent: u64,
    pub output_tokens: u64,
    /// Tokens of the prompt that stand for removable blocks of compressed scopes.
    pub kept_tokens: u64,
    /// Tokens of the prompt that were recalled for it alone; never in a cache.
    pub recalled_tokens: u64,
}

/// What was recalled for a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Recall {
    /// Index of the decision.
    pub decision: u32,
    /// The step of the decision: those before it had been logged.
    pub until: u32,
    /// What stands at the end of its prompt.
    pub blocks: Vec<Block>,
    /// Beside the blocks, what else the strategy knows of each, JSON.
    pub details: Vec<Option<String>>,
    /// What was asked of a model for it.
    pub work: Work,
}

/// One compression.
#[derive(Clone, Debug)]
pub struct Event {
    /// Number of the stage that made it.
    pub stage: u32,
    pub segment: u32,
    pub turn: u32,
    /// Index of the decision that followed.
    pub decision: u32,
    pub kind: &'static str,
    pub confidence: f64,
    /// What the trigger says of its decision, JSON.
    pub details: String,
    /// Turns of the scope; where it has gaps, from the first to the last of its blocks.
    pub turns: Range<u32>,
    /// The last of them, from this turn on, are compressed for the first time: all, unless the strategy is recursive.
    pub fresh: u32,
    /// The fresh steps of the scope, where it is not made of whole turns: the trigger named them, or some steps of the turns
    /// are pinned, wait for their results, or stand in no prompt of the segment.
    pub only: Option<Vec<u32>>,
    /// Whether the trigger named single steps, and so cut the history nowhere.
    pub names_steps: bool,
    /// What the events before it in its segment left of the steps before this one is in its scope, too, and it takes its
    /// place: 0 for nothing, [`ALL`] for all, where the strategy is recursive.
    pub takes: u32,
    /// The blocks that events before it left and that are in its scope, by [`Block::left`].
    pub taken: Vec<Range<u32>>,
    pub tokens_before: u64,
    pub tokens_after: u64,
    /// Prefix that the prompt shared with the previous one before the event.
    pub cached_before: u64,
    /// Tokens of the fresh blocks of the scope before.
    pub fresh_tokens: u64,
    /// Fresh steps that the strategy may remove, in order.
    pub removable: Vec<u32>,
    /// Tokens of all blocks of the scope that it may remove.
    pub removable_tokens: u64,
    /// The blocks that stand for the scope after.
    pub after: Vec<Block>,
    /// Tokens of those of them that stand for removable blocks.
    pub kept_tokens: u64,
    pub generated_tokens: u64,
    pub violations: Vec<&'static str>,
    /// What was asked of the model.
    pub work: Asking,
}

/// The work of an event, which as a rule is none: a long run has many.
#[derive(Clone, Default)]
pub struct Asking(Option<Box<Work>>);

impl std::fmt::Debug for Asking {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Work::fmt(self, to)
    }
}

impl From<Work> for Asking {
    fn from(work: Work) -> Self {
        Asking((work != Work::default()).then(|| Box::new(work)))
    }
}

impl std::ops::Deref for Asking {
    type Target = Work;

    fn deref(&self) -> &Work {
        static NONE: LazyLock<Work> = LazyLock::new(Work::default);
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl std::ops::DerefMut for Asking {
    fn deref_mut(&mut self) -> &mut Work {
        self.0.get_or_insert_default()
    }
}

impl Event {
    /// Whether a block of the scope stands for removable ones.
    pub fn is_kept(log: &Log, strategy: &dyn Strategy, block: &Block) -> bool {
        block.kind(log).is_none_or(|kind| strategy.may_remove(kind))
    }

    /// Tokens of a span of the scope that were copied; all, some or none.
    pub fn copied_tokens(&self, log: &Log, span: u32) -> u32 {
        let step = log.spans[span as usize].step;
        let turn = log.turn_of(step);
        let start = self.after.partition_point(|b| b.turn < turn);
        let of_turn = self.after[start..].iter().take_while(|b| b.turn == turn);
        // A logged summary may stand at the start.
        let summary = self.after.first().filter(|_| log.kind(step) == Kind::Compaction);
        of_turn
            .chain(summary)
            .find_map(|b| match &b.content {
                Content::Step(s) if *s == step => Some(log.spans[span as usize].tokens),
                Content::Excerpt { step: s, pieces, .. } if *s == step => {
                    pieces.binary_search_by_key(&span, |p| p.span).ok().map(|i| pieces[i].tokens)
                }
                _ => None,
            })
            .unwrap_or(0)
    }
}

/// What a scorer sees of a replay while it runs.
pub trait Observer {
    /// The context begins anew.
    fn reset(&mut self) {}
    /// A step was appended whole.
    fn appended(&mut self, _step: u32) {}
    /// An event replaced `before` by what [`Event::after`] holds; `until` is the next step to come.
    fn compressed(&mut self, _before: &[Block], _event: &Event, _until: u32) {}
    /// These blocks stand at the end of the prompt of the coming decision, and of no other.
    fn recalled(&mut self, _blocks: &[Block], _until: u32) {}
    /// The context stands for the decision of this turn.
    fn decided(&mut self, _decision: u32, _turn: u32) {}
    /// The whole prompt, without what is recalled, before the coming decision.
    fn standing(&mut self, _context: &Context) {}
    /// The same when a segment ends, and no decision comes.
    fn ended(&mut self, _context: &Context) {}
}

/// The schedule of a replay: data that its shadows replay.
#[derive(Default)]
pub struct Run {
    pub decisions: Vec<Decision>,
    pub events: Vec<Event>,
    /// Only of decisions for which something was recalled, or a model asked.
    pub recalls: Vec<Recall>,
    /// What the trigger asked its model, and what the stages of a policy asked for nothing: no event tells it.
    pub trigger_asked: Asked,
    /// What the strategy remembers at the end of each segment, with the number of decisions and of events until then.
    pub left: Vec<(u32, u32, State)>,
}

impl Run {
    /// What was recalled for a decision, if anything was.
    pub fn recalled_for(&self, decision: u32) -> Option<&Recall> {
        let at = self.recalls.binary_search_by_key(&decision, |recall| recall.decision).ok()?;
        self.recalls.get(at)
    }
}

/// Numbers as ranges, in their order.
fn ranges(numbers: impl IntoIterator<Item = u32>) -> Vec<Range<u32>> {
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ => ranges.push(number..number + 1),
        }
    }
    ranges
}

/// Seeds a generator by what it is for, so that no draw depends on the order of work.
pub fn rng(seed: u64, purpose: &str, trajectory: &str, event: u64, replicate: u64) -> ChaCha8Rng {
    let mut hash = blake3::Hasher::new();
    hash.update(purpose.as_bytes());
    hash.update(trajectory.as_bytes());
    for n in [seed, event, replicate] {
        hash.update(&n.to_le_bytes());
    }
    ChaCha8Rng::from_seed(*hash.finalize().as_bytes())
}

/// Replays the log. `needs` is passed on to strategies that say that they see the future.
pub fn replay(
    log: &Log,
    recipe: &Recipe,
    tokenizer: &Tokenizer,
    needs: &Needs,
    observer: &mut dyn Observer,
) -> anyhow::Result<Run> {
    if let Some(scaled) = &recipe.scaled {
        let recipe = scaled(log.longest_prompt())?;
        return replay(log, &recipe, tokenizer, needs, observer);
    }
    let no_needs = Needs::default();
    let needs = if recipe.sees_future() { needs } else { &no_needs };
    let mut replayer = Replayer::new(log, recipe, tokenizer, needs, observer);
    let mut turn = 1;
    while (turn as usize) < log.turns.len() {
        let segment = log.turns[turn as usize].segment;
        let end = log.turns[turn as usize..].partition_point(|t| t.segment == segment) as u32 + turn;
        replayer.segment(turn..end)?;
        turn = end;
    }
    Ok(replayer.run)
}

#[cfg(test)]
impl Event {
    /// An event before the decision of `turn` that left nothing of these turns.
    pub(crate) fn test(turn: u32, turns: Range<u32>) -> Self {
        Event {
            stage: 0,
            segment: 0,
            turn,
            decision: turn - 1,
            kind: "test",
            confidence: 1.0,
            details: String::new(),
            fresh: turns.start,
            turns,
            only: None,
            names_steps: false,
            takes: 0,
            taken: Vec::new(),
            tokens_before: 0,
            tokens_after: 0,
            cached_before: 0,
            fresh_tokens: 0,
            removable: Vec::new(),
            removable_tokens: 0,
            after: Vec::new(),
            kept_tokens: 0,
            generated_tokens: 0,
            violations: Vec::new(),
            work: Asking::default(),
        }
    }
}

#[cfg(test)]
mod tests;
