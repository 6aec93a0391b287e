//! Table `usage`: what the provider counted beside what the log shows.

use super::row::table;

table! {
    /// What the provider counted beside what the log shows: a row a stretch of calls of each trajectory with logged usage.
    /// A prompt of n of our tokens has unseen + factor x n of the provider's.
    pub struct UsageRow in "usage" {
        /// Trajectory id.
        pub trajectory: String,
        /// Number of the stretch in its trajectory, from 0.
        pub stretch: u32,
        /// First turn that it speaks of.
        pub first_turn: u32,
        /// Turn after the last that it speaks of.
        pub end_turn: u32,
        /// Calls with logged usage.
        pub n_calls: u32,
        /// Tokens by the provider's count that the log does not show (a).
        pub unseen: u64,
        /// Tokens by the provider's count of one of ours (b), 0.8 to 2; the same for all of a trajectory.
        pub factor: f64,
        /// Where the factor comes from: session; model: the median of its sessions in this folder; none: 1, nothing is known of the model.
        pub factor_of: String,
        /// Whether it begins where usage fell by more than 5 % and no record of the log says why: an unlogged edit.
        pub unlogged_edit: bool,
        /// Whether no unlogged edit stands before it in its segment; else it is not known what was sent.
        pub sent_is_known: bool,
        /// Median of |usage - unseen - factor x ours| / usage over the calls of the trajectory.
        pub residual_median: f64,
        /// The same for its 90th percentile.
        pub residual_p90: f64,
    }
}
