//! Table `timeline`: the decisions.

use std::sync::Arc;

use super::column::{CompactF64, CompactU64};
use super::row::table;

table! {
    /// One decision of a cell.
    pub struct TimelineRow in "timeline" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// Number of the decision, from 0.
        pub decision: u32,
        /// Turn of the decision.
        pub turn: u32,
        /// Events so far.
        pub n_events: u32,
        /// Tokens of the prompt, nothing compressed.
        pub tokens_full: u64,
        /// Tokens of the prompt as sent.
        pub tokens_sent: u64,
        /// Longest prefix shared with the previous prompt, nothing compressed.
        pub cached_full: u64,
        /// Longest prefix shared with the previous prompt as sent.
        pub cached_sent: u64,
        /// Tokens that the agent wrote at this decision.
        pub output_tokens: u64,
        /// Tokens of the prompt as sent that were recalled for it alone.
        pub recalled_tokens: u64,
        /// Calls of the model to recall them; 0 where the strategy recalls nothing. Embeddings are counted apart.
        pub recall_calls: u32,
        /// Texts embedded to recall them.
        pub recall_embeddings: u32,
        /// Tokens that the model read to recall them.
        pub recall_tokens_in: u64,
        /// Tokens that the model wrote to recall them.
        pub recall_tokens_out: u64,
        /// Tokens of the prompt by the provider's count that the log does not show; null where no usage is known.
        pub unseen_tokens: CompactU64,
        /// Tokens by the provider's count of one of ours; null where no usage is known.
        pub token_factor: CompactF64,
        /// Whether the prompt before was sent so long ago, or to another model, that its cache is gone.
        pub cache_expired: bool,
        /// Tokens of the whole prompt that was really sent, by the provider's count as logged; null where not logged.
        pub usage_in: CompactU64,
        /// Tokens that the model really wrote, as logged; null where not logged.
        pub usage_out: CompactU64,
        /// Tokens of the prompt that the cache really served, as logged; null where not logged.
        pub usage_cache_read: CompactU64,
        /// Tokens of the prompt that were really written to the cache, as logged; null where not logged.
        pub usage_cache_write: CompactU64,
    }
}
