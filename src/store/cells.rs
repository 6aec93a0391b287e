//! Table `cells`: one trajectory under one variant.

use std::sync::Arc;

use super::row::table;

table! {
    /// One trajectory under one variant.
    pub struct CellRow in "cells" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// ok or error.
        pub status: String,
        /// Error text; null when ok.
        pub error: Option<String>,
        /// Decisions replayed.
        pub n_decisions: u32,
        /// Compressions.
        pub n_events: u32,
        /// Violations of the invariants over all events.
        pub n_violations: u32,
        /// Prompt tokens over all decisions, nothing compressed.
        pub tokens_full: u64,
        /// Prompt tokens over all decisions, as sent.
        pub tokens_sent: u64,
        /// Calls of the trigger's model; 0 where it asks none.
        pub trigger_calls: u32,
        /// Tokens that the trigger's model read.
        pub trigger_tokens_in: u64,
        /// Tokens that the trigger's model wrote.
        pub trigger_tokens_out: u64,
        /// Hash of all that decides the rows of the cell, 32 hex digits: the same in every run.
        pub id: String,
    }
}

table! {
    /// Whose row it is; of any table of cells.
    pub struct CellKey in "cells" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
    }
}

table! {
    /// What a cell is.
    pub struct CellId in "cells" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// ok or error.
        pub status: String,
        /// Hash of all that decides the rows of the cell.
        pub id: String,
    }
}

table! {
    /// Whether a cell is scored.
    pub struct CellStatus in "cells" {
        /// ok or error.
        pub status: String,
        /// Error text; null when ok.
        pub error: Option<String>,
    }
}
