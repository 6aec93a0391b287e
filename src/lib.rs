//! trajpress reads logged trajectories of LLM agents, replays them under many compression
//! strategies and triggers, and tells what each variant saved and what it lost.
//!
//! The data goes one way:
//! logs -> `formats` -> `trajectory` -> `features` -> `replay` (trigger x strategy) -> edits
//! -> context -> scorers -> rows (`store`) -> `report`.

#![forbid(unsafe_code)]

pub mod annotations;
pub mod cli;
pub mod context;
pub mod escape;
pub mod experiment;
pub mod features;
pub mod formats;
pub mod ingest;
pub mod lock;
pub mod log;
pub mod models;
pub mod needs;
pub mod pairs;
pub mod reach;
pub mod report;
pub mod scorers;
pub mod settings;
pub mod store;
pub mod strategies;
pub mod trajectory;
pub mod triggers;
pub mod usage;
pub mod vouch;
pub mod watch;
