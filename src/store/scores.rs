//! Table `scores`: scores in tidy form.

use std::borrow::Cow;
use std::sync::Arc;

use super::row::table;

table! {
    /// Scores in tidy form.
    pub struct ScoreRow in "scores" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// Number of the event; null for the whole cell.
        pub event: Option<u32>,
        /// Name of the score.
        pub metric: Cow<'static, str>,
        /// Stratum: `set=.. tail=.. class=.. kind=.. horizon=..`, empty for all.
        pub stratum: Arc<str>,
        /// The score, raw; null is undefined, never 0.
        pub value: Option<f64>,
        /// The same for the matched random shadow, or the do-nothing floor.
        pub floor: Option<f64>,
        /// The same for the matched oracle shadow, or the ceiling.
        pub ceiling: Option<f64>,
        /// The same for the matched atom-bag shadow.
        pub atom_bag: Option<f64>,
        /// Chance: the same in the contexts of partner trajectories (of other repositories, unless the stratum says `partners=`).
        pub chance: Option<f64>,
        /// Weight of the row when values are pooled: the denominator of the ratio.
        pub weight: f64,
        /// Number of items behind the value.
        pub n: u64,
        /// Of these items those that were kept, each counted once whatever it weighs; null where the score counts none.
        pub n_kept: Option<u64>,
    }
}

table! {
    /// The value of a score alone.
    pub struct ScoreValue in "scores" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// Name of the score.
        pub metric: Arc<str>,
        /// Stratum.
        pub stratum: Arc<str>,
        /// The score, raw; null is undefined.
        pub value: Option<f64>,
        /// Number of items behind the value.
        pub n: u64,
        /// Of these those that were kept.
        pub n_kept: Option<u64>,
    }
}
