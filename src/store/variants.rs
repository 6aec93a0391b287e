//! Table `variants`: the grid of a run.

use super::row::table;

table! {
    /// One point of the grid.
    pub struct VariantRow in "variants" {
        /// Hash of all the rest, 16 hex digits.
        pub variant: String,
        /// Short readable name, unique within the run.
        pub label: String,
        /// Strategy name.
        pub strategy: String,
        /// Strategy parameters, JSON with sorted keys.
        pub strategy_params: String,
        /// Trigger name.
        pub trigger: String,
        /// Trigger parameters, JSON with sorted keys.
        pub trigger_params: String,
        /// Model name; null for model-free.
        pub model: Option<String>,
        /// Whether it is there to be compared with, and nobody would run it: it stands on no frontier.
        pub control: bool,
        /// Seed of sampled choices.
        pub seed: u64,
    }
}
