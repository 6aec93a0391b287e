//! The words that tell force, bounds, units and negation: `data/words/constraints.en.toml`.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::lists::{self, WordSet};
use crate::text::phrases::Phrases;

pub(super) static ENGLISH: LazyLock<English> =
    LazyLock::new(|| lists::read(include_str!("../../data/words/constraints.en.toml")));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct English {
    pub(super) marks: Phrases<Mark>,
    pub(super) words: Words,
    pub(super) stems: Stems,
    pub(super) contracted: HashMap<String, String>,
    pub(super) numbers: HashMap<String, f64>,
    pub(super) scales: HashMap<String, f64>,
    pub(super) weekdays: HashMap<String, f64>,
    pub(super) months: BTreeMap<String, f64>,
    pub(super) currencies: BTreeMap<String, WordSet>,
    pub(super) units: Units,
}

/// The file says what each is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Words {
    pub(super) abbreviations: WordSet,
    pub(super) ordinals: WordSet,
    pub(super) articles: WordSet,
    pub(super) prepositions: WordSet,
    pub(super) modals: WordSet,
    pub(super) auxiliaries: WordSet,
    pub(super) joints: WordSet,
    pub(super) infinitives: WordSet,
    pub(super) finite: WordSet,
    pub(super) before_be: WordSet,
    pub(super) not_first: WordSet,
    pub(super) foreign: WordSet,
    pub(super) imperatives: WordSet,
    pub(super) light: WordSet,
    pub(super) code_words: WordSet,
    pub(super) abilities: WordSet,
    pub(super) persons: WordSet,
    pub(super) permitting: WordSet,
    pub(super) kept: WordSet,
    pub(super) alone: WordSet,
    pub(super) trailing: WordSet,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stems {
    pub(super) changing: WordSet,
    pub(super) keeping: WordSet,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Units {
    pub(super) percent: HashMap<String, f64>,
    pub(super) seconds: HashMap<String, f64>,
    pub(super) bytes: HashMap<String, f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mark {
    /// Negates what follows, or the whole clause behind an auxiliary.
    Not,
    /// Negates its clause on both sides.
    Forbidden,
    Avoid,
    Rarely,
    Cancel,
    Permit,
    Soft,
    Advice,
    Must,
    Only,
    All,
    Vague,
    Report,
    #[serde(untagged)]
    Bound(Bound),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bound {
    AtMost,
    AtLeast,
    About,
}
