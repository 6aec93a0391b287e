//! Table `items`: what strategies picked.

use std::borrow::Cow;
use std::sync::Arc;

use super::row::table;

table! {
    /// One passage that a strategy picked out of a scope.
    pub struct ItemRow in "items" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// Number of the event in its cell, from 0.
        pub event: u32,
        /// Number of the item in its event, from 0.
        pub item: u32,
        /// Its text, as it goes on, without keys and personal data.
        pub text: Arc<str>,
        /// What it is taken for: goal, constraint, decision, fact, tool_output; of the others who wrote it: user, agent, tool.
        pub kind: Cow<'static, str>,
        /// Step that it was found in; null when it stands nowhere.
        pub step: Option<u32>,
        /// Where it begins in the step's text, in bytes; null when it stands nowhere.
        pub start: Option<u32>,
        /// Where it ends in the step's text, in bytes; null when it stands nowhere.
        pub end: Option<u32>,
        /// The score that it was picked by; null when there is none.
        pub score: Option<f64>,
        /// What became of it: kept, repaired, duplicate, not_found, capped; dropped: it was picked to go, in this order; warm, cold,
        /// evicted: the tier of memory that it went to (the text is cut at 200 characters, the bytes are not).
        pub fate: Cow<'static, str>,
        /// The item of the event that it repeats; null unless it is a duplicate of one of them.
        pub of: Option<u32>,
    }
}
