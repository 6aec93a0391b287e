//! tmp
pub mod atoms;
pub mod spans;
pub mod tokens;
mod words;
