//! Names of tools, programs, arguments and files, from `src/data/words/actions.toml`, which says what each list is for.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::lists::{self, Names, Signs, WordSet};

pub(super) static ACTIONS: LazyLock<Actions> =
    LazyLock::new(|| lists::read(include_str!("../data/words/actions.toml")));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Actions {
    pub(super) tools: Names<Tool>,
    pub(super) programs: Names<Program>,
    pub(super) groups: Groups,
    pub(super) path_keys: HashMap<String, u32>,
    pub(super) command_keys: HashMap<String, u32>,
    pub(super) keys: Keys,
    pub(super) signs: ActionSigns,
    pub(super) calls: Calls,
    pub(super) files: Files,
}

/// What a tool of an agent does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Tool {
    Shell,
    Editor,
    Open,
    Move,
    Create,
    EditOpen,
    Read,
    Edit,
    Search,
    Submit,
    Run,
    Test,
    Other,
}

/// What a program of a shell does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Program {
    Other,
    Submit,
    Open,
    Move,
    Create,
    EditOpen,
    Read,
    Write,
    WriteLast,
    Search,
    Call,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Groups {
    pub(super) interpreters: WordSet,
    pub(super) filters: WordSet,
    pub(super) loggers: WordSet,
    pub(super) builders: WordSet,
    pub(super) builders_run: WordSet,
    pub(super) installers: WordSet,
    pub(super) quiet: WordSet,
    pub(super) showers: WordSet,
    pub(super) git_shows: WordSet,
    pub(super) git_searches: WordSet,
    pub(super) git_applies: WordSet,
    pub(super) git_edits: WordSet,
    pub(super) git_reverts: WordSet,
    pub(super) wrappers: WordSet,
    pub(super) wrappers_with_options: WordSet,
    pub(super) wrappers_run: WordSet,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Keys {
    pub(super) switches: WordSet,
    pub(super) view: WordSet,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ActionSigns {
    pub(super) writes: Signs,
    pub(super) opens: Signs,
    pub(super) submits: Signs,
    pub(super) writes_first: Signs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Calls {
    pub(super) looks: WordSet,
    pub(super) changes: WordSet,
    pub(super) nouns: WordSet,
    pub(super) searches: WordSet,
    pub(super) check_with: WordSet,
    pub(super) shells: WordSet,
    pub(super) requests: WordSet,
    pub(super) methods: WordSet,
    pub(super) method_options: Vec<String>,
    pub(super) data_options: WordSet,
    pub(super) long_data_options: Vec<String>,
    pub(super) queries: WordSet,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Files {
    pub(super) test_stems: Signs,
    pub(super) test_folders: WordSet,
    pub(super) document_extensions: WordSet,
    pub(super) document_stems: Signs,
    pub(super) text_extensions: WordSet,
    pub(super) document_folders: WordSet,
    pub(super) page_extensions: WordSet,
}
