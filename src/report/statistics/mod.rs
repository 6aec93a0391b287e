//! Estimates and their intervals.

pub mod bootstrap;
pub mod design;
pub mod distributions;
pub mod effects;
pub mod estimate;
pub mod excess;
pub mod inference;
pub mod pooled;
pub mod ranks;
#[cfg(test)]
pub mod reference;
#[cfg(test)]
pub mod synthetic;
