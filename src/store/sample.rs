//! Table `sample`: of which sessions those of a run were drawn, where they were.

use super::row::table;

table! {
    /// A session that was drawn, and the stratum of the corpus that it stands for.
    pub struct SampleRow in "sample" {
        /// Its id.
        pub trajectory: String,
        /// What the sessions of its stratum have in common: reader, agent, steps, outcome; from the first to the last where small ones were joined.
        pub stratum: String,
        /// Number of the stratum, from 0.
        pub number: u32,
        /// Sessions of the stratum in the corpus.
        pub of: u64,
        /// Sessions of the stratum that were drawn: each stands for `of` / `drawn` of them.
        pub drawn: u64,
    }
}
