//! Table `events`: the compressions.

use std::borrow::Cow;
use std::sync::Arc;

use super::row::table;

table! {
    /// One compression inside a cell.
    pub struct EventRow in "events" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// Number of the event in its cell, from 0.
        pub event: u32,
        /// Turn whose decision came next.
        pub turn: u32,
        /// What fired, in the trigger's own words.
        pub trigger_kind: Cow<'static, str>,
        /// Confidence of the trigger, 0 to 1.
        pub confidence: f64,
        /// What the trigger says of its decision, JSON; null when nothing.
        pub details: Option<String>,
        /// First turn of the scope; where the trigger named single steps, that of the first block.
        pub scope_start: u32,
        /// Turn after the last of the scope, or of its last block.
        pub scope_end: u32,
        /// Tokens of the whole context before.
        pub tokens_before: u64,
        /// Tokens of the whole context after.
        pub tokens_after: u64,
        /// Tokens of the blocks in scope that the strategy may remove, before.
        pub removable_tokens: u64,
        /// Tokens that stand for them after: copied or generated.
        pub kept_tokens: u64,
        /// Of these, generated (not copied from a step).
        pub generated_tokens: u64,
        /// Calls of the compressor's model; 0 for model-free. Embeddings are counted apart.
        pub model_calls: u32,
        /// Texts embedded.
        pub embeddings: u32,
        /// Tokens read by the compressor's model.
        pub model_tokens_in: u64,
        /// Tokens written by the compressor's model.
        pub model_tokens_out: u64,
        /// Tokens of its prompts that were cut to fit the model's window.
        pub model_tokens_cut: u64,
        /// Name of the fallback strategy used; null when none.
        pub fallback: Option<String>,
        /// Degenerate-output flags.
        pub degenerate: Vec<String>,
        /// What looks wrong with the event without being so; null when nothing does.
        pub warning: Option<String>,
        /// Invariants violated, with the strategy's name.
        pub violations: Vec<String>,
        /// Decisions until the cached cost is at most that of not compressing here; null when censored.
        pub break_even_turns: Option<u32>,
        /// Decisions left in the segment: the time of censoring.
        pub decisions_left: u32,
    }
}
