//! Table `features`: what depends on a step alone.

use super::row::table;

table! {
    /// What depends on a step alone, computed once per dataset. A span is a line, or a piece of at
    /// most 200 characters of a longer line.
    pub struct FeatureRow in "features" {
        /// Trajectory id.
        pub trajectory: String,
        /// Position in the trajectory, from 0.
        pub step: u32,
        /// Tokens of the text under the dataset's tokenizer: the sum of `span_tokens`.
        pub tokens: u32,
        /// Actions: read_file, edit_file, run_test, run_command, search, api_call, submit, other; else null.
        pub action_kind: Option<String>,
        /// Actions: the file that is read or edited, normalised; else null.
        pub path: Option<String>,
        /// End of each span in the text, in bytes; the first starts at 0, each next where the last ended.
        pub span_end: Vec<u32>,
        /// Tokens of each span.
        pub span_tokens: Vec<u32>,
        /// Normalised atoms in order of occurrence.
        pub atom: Vec<String>,
        /// Kind of each atom: its index in the list of atom kinds.
        pub atom_kind: Vec<u8>,
        /// Span of each atom.
        pub atom_span: Vec<u32>,
        /// Flags of each atom: 1 bound (at least 2 cues within 15 words in its span), 2 in the body of an edit or write, 4 derived from the call itself.
        pub atom_flags: Vec<u8>,
    }
}

table! {
    /// Whose row it is.
    pub struct FeatureKey in "features" {
        /// Trajectory id.
        pub trajectory: String,
    }
}

table! {
    /// What is counted of a step.
    pub struct FeatureCount in "features" {
        /// Tokens of the text under the dataset's tokenizer: the sum of `span_tokens`.
        pub tokens: u32,
        /// End of each span in the text, in bytes.
        pub span_end: Vec<u32>,
        /// Kind of each atom.
        pub atom_kind: Vec<u8>,
    }
}

table! {
    /// How long a step is.
    pub struct FeatureTokens in "features" {
        /// Tokens of the text under the dataset's tokenizer: the sum of `span_tokens`.
        pub tokens: u32,
    }
}
