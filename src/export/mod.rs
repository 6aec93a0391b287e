//! The prompts of a replay as messages: what an agent would have been sent, in the form that an API takes or as plain text.
//!
//! [`camera`] keeps the prompts of a replay, [`words`] has their texts, redacted or not, [`messages`] puts them in order,
//! and [`forms`] writes them. What is written is valid for its API: roles are in order, and each result stands behind its call.

pub mod camera;
pub mod forms;
pub mod messages;
pub mod words;
