//! trajpress reads logged trajectories of LLM agents, replays them under many compression
//! strategies and triggers, and tells what each variant saved and what it lost.
//!
//! The data goes one way:
//! `logs` -> `trajectory` -> `annotate` -> `context` -> `replay` (trigger x strategy) -> `scores`
//! -> rows (`store`) -> `report`.

#![forbid(unsafe_code)]

pub mod annotate;
pub mod cli;
pub mod context;
pub mod experiment;
pub mod files;
pub mod logs;
pub mod models;
pub mod params;
pub mod replay;
pub mod report;
pub mod scores;
pub mod settings;
pub mod store;
pub mod strategies;
pub mod text;
pub mod trajectory;
pub mod triggers;
pub mod turns;
