//! Table `_units`: the pieces of a run.

use super::row::table;

table! {
    /// One piece of a run: some trajectories under the variants that share a model.
    pub struct UnitRow in "_units" {
        /// Hash of all that decides its rows, 32 hex digits.
        pub unit: String,
        /// Model of the variants, or `model-free`.
        pub variant_group: String,
        /// Row group of the steps that holds the trajectories.
        pub row_group: u32,
        /// Trajectory ids.
        pub trajectories: Vec<String>,
        /// Number of variants.
        pub n_variants: u32,
        /// Number of steps over all its trajectories.
        pub n_steps: u64,
        /// Estimated cost: steps x variants.
        pub step_variants: u64,
    }
}
