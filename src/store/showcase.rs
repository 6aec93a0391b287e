//! Table `showcase`: the events that took most of what was needed later, with their text.

use std::borrow::Cow;
use std::sync::Arc;

use super::row::table;

table! {
    /// The five events that took most of what was needed later, in the three sessions that lost most, of at most 12 variants:
    /// what was lost, and what became of each block. The only table of a run with text of logs; secrets and personal data are
    /// placeholders, and long texts are cut.
    pub struct ShowcaseRow in "showcase" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// Number of the event in its cell, from 0.
        pub event: u32,
        /// Turn whose decision came next.
        pub turn: u32,
        /// Tokens of the whole prompt before.
        pub prompt_before: u64,
        /// Tokens of the whole prompt after.
        pub prompt_after: u64,
        /// Number of the row among those of its event, from 0: their order in the prompt, behind the needs.
        pub row: u32,
        /// lost: a need that found nothing in its prompt after the event had taken the last that served it; of blocks: kept, rewritten,
        /// dropped, added.
        pub what: Cow<'static, str>,
        /// Who says the block, in one word.
        pub speaker: Cow<'static, str>,
        /// Turn of the block; of a need, the turn that the line stood in.
        pub at: u32,
        /// Turn that needed it; null of blocks.
        pub needed: Option<u32>,
        /// What was needed; null of blocks.
        pub atom: Option<String>,
        /// Tokens of the block before; 0 of needs and of what was added.
        pub tokens_before: u32,
        /// Tokens of what stands for it after.
        pub tokens_after: u32,
        /// The block before; of a need the line that says what it is. Null where too much text stands before it.
        pub text: Option<String>,
        /// What stands for it where it was rewritten or added; of a need the line that used it.
        pub text_after: Option<String>,
    }
}
