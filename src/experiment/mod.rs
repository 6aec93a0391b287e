//! From an experiment file and a folder of data to the tables of a run.
//!
//! [`plan`] reads the file into a grid, [`dataset`] the data, [`units`] cuts both into pieces of
//! work, [`replay`] computes the rows of a piece, [`run`] drives the pieces and publishes their
//! rows by [`publish`], and [`finish`] joins them into the final tables.

mod before;
pub mod cell;
mod contents;
pub mod dataset;
pub mod demand;
pub mod finish;
mod fresh;
mod manifest;
pub mod options;
pub mod place;
pub mod plan;
pub mod publish;
mod rows;
pub mod run;
pub mod stratified;
mod success;
pub mod units;

pub use contents::Contents;
pub use dataset::Dataset;
pub use manifest::{Kept, sample_of};
pub use options::Options;
pub use plan::{Catalogue, Plan, Variant};
pub use run::{Outcome, run_with};

/// Raised by any change of code that can change a row, so that parts of an older meaning are never
/// joined with new ones.
pub const SEMANTICS_VERSION: u32 = 36;
