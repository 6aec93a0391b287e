//! The tables: their columns, their documentation, and how they are written and read.
//!
//! The only folder that knows column names, one file a table. Each table is a row struct declared with [`row::table!`]; the
//! doc comment of a field is the documentation of its column, kept in the Parquet schema as metadata `doc`. Every file
//! carries `table` and `schema_version`. A trajectory never straddles a row group: [`TableWriter::push`] takes all rows of
//! a trajectory at once.

mod column;
mod read;
mod row;
#[cfg(test)]
mod tests;
mod write;

mod cells;
mod contexts;
mod events;
mod features;
mod items;
mod partners;
mod sample;
mod scores;
mod showcase;
mod steps;
mod timeline;
mod trajectories;
mod units;
mod usage;
mod variants;

pub use cells::{CellId, CellKey, CellRow, CellStatus};
pub use column::Time;
pub use contexts::ContextRow;
pub use events::EventRow;
pub use features::{FeatureCount, FeatureKey, FeatureRow, FeatureTokens};
pub use items::ItemRow;
pub use partners::PartnerRow;
pub use read::{TableReader, columns, columns_of, read, read_row_group, row_groups, rows_of};
pub use row::Row;
pub use sample::SampleRow;
pub use scores::{ScoreRow, ScoreValue};
pub use showcase::ShowcaseRow;
pub use steps::{StepKey, StepModel, StepRow, StepTime, StepUsage, step_rows};
pub use timeline::TimelineRow;
pub use trajectories::{TrajectoryKey, TrajectoryRow, TrajectoryTraits};
pub use units::UnitRow;
pub use usage::UsageRow;
pub use variants::VariantRow;
pub use write::TableWriter;

/// Raised whenever the meaning or the set of columns changes.
pub const SCHEMA_VERSION: &str = "5";
