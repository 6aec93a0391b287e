//! Table `partners`: with whom chance is measured.

use super::row::table;

table! {
    /// Partner trajectories for chance correction.
    pub struct PartnerRow in "partners" {
        /// Trajectory id.
        pub trajectory: String,
        /// other_repository, same_repository.
        pub kind: String,
        /// Order of choice, from 0.
        pub rank: u32,
        /// Trajectory id of the partner.
        pub partner: String,
    }
}
