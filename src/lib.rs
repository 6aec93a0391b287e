//! trajpress reads logged trajectories of LLM agents, replays them under many compression
//! strategies and triggers, and tells what each variant saved and what it lost.
//!
//! The data goes one way:
//! logs -> [`formats`] -> [`trajectory`] -> [`features`] -> `replay` (trigger x strategy) -> edits
//! -> context -> scorers -> rows ([`store`]) -> `report`.

pub mod cli {
    pub mod annotate;
}
pub mod features;
pub mod store;
pub mod trajectory;
