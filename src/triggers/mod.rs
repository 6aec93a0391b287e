//! When to compress: one file per rule.
//!
//! A trigger is asked before every decision and says which turns to compress. It knows nothing of
//! strategies. A detector advances at every turn, whether or not anything came of its last answer.

use crate::log::Log;

mod logged;
mod marked;
mod never;
mod tokens;
mod turns;

/// What a trigger may look at before a decision.
pub struct Moment<'a> {
    pub log: &'a Log,
    /// The turn about to be decided; scopes end at it or before.
    pub turn: u32,
    /// Tokens of the prompt as it stands.
    pub context_tokens: u64,
    /// Whether this is the first decision after a compaction that the log contains.
    pub after_logged_compaction: bool,
}

/// A decision to compress.
#[derive(Clone, Debug, PartialEq)]
pub struct Firing {
    /// What fired, in the trigger's own words.
    pub kind: &'static str,
    /// The turn after the last one of the scope; the scope begins where the last one ended.
    pub scope_end: u32,
    /// 0 to 1.
    pub confidence: f64,
}

/// A rule with its parameters.
pub trait Trigger: Send + Sync {
    /// A detector for a segment whose first turn that may be compressed is `first_turn`.
    fn detector(&self, log: &Log, first_turn: u32) -> Box<dyn Detector>;

    /// Whether the replay goes on over a compaction that the log contains, in place of it.
    fn bridges(&self) -> bool {
        false
    }
}

/// The state of a trigger within one segment.
pub trait Detector {
    fn advance(&mut self, moment: &Moment<'_>) -> Option<Firing>;
}

/// A trigger in the catalogue.
pub struct Entry {
    pub name: &'static str,
    pub summary: &'static str,
    /// Names of the parameters, with their defaults.
    pub params: &'static [(&'static str, &'static str)],
    pub build: fn(toml::Table) -> anyhow::Result<Box<dyn Trigger>>,
}

/// All triggers, by name.
pub static ALL: &[Entry] = &[logged::ENTRY, marked::ENTRY, never::ENTRY, tokens::ENTRY, turns::ENTRY];

/// Builds the trigger of this name.
pub fn build(name: &str, params: toml::Table) -> anyhow::Result<Box<dyn Trigger>> {
    let Some(entry) = ALL.iter().find(|e| e.name == name) else {
        let known: Vec<&str> = ALL.iter().map(|e| e.name).collect();
        anyhow::bail!("unknown trigger `{name}` (known: {})", known.join(", "));
    };
    (entry.build)(params)
}
