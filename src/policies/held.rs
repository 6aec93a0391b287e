//! How presets do on the recordings of the real libraries that they are held to: what their test found, as data.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::Preset;

/// What the test of one recording found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// Lists of messages that were recorded.
    pub lists: u64,
    /// Of these, those in which the library changed something.
    pub fired: u64,
    /// More than once.
    pub twice: u64,
    /// Those of which each prompt is equal.
    pub equal: u64,
    /// Notes and rewritten results in prompts that the library changed, of lists that are equal.
    #[serde(default, skip_serializing_if = "is_none")]
    pub texts: u64,
    /// Those of them that are the same, character for character.
    #[serde(default, skip_serializing_if = "is_none")]
    pub same_texts: u64,
    /// Why the others are not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

fn is_none(n: &u64) -> bool {
    *n == 0
}

/// Hundredths of the lists of a recording that must be equal.
const GOAL: u64 = 95;

static ALL: LazyLock<BTreeMap<String, Held>> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/held.toml"))
        .unwrap_or_else(|error| panic!("data/held.toml: {error}"))
});

/// What was found of a recording.
pub fn of(recording: &str) -> Option<&'static Held> {
    ALL.get(recording)
}

impl Held {
    /// Whether it is as equal as it has to be.
    pub fn is_goal(&self) -> bool {
        self.equal * 100 >= GOAL * self.lists
    }
}

impl Preset {
    /// What was found of its recordings, with their names.
    pub fn recorded(&self) -> impl Iterator<Item = (&str, &'static Held)> {
        self.recordings.iter().filter_map(|name| Some((name.as_str(), of(name)?)))
    }

    /// Whether it is held to its library: in one recording at least 95 % of the lists are equal. Others of its recordings have settings
    /// of their own.
    pub fn is_held(&self) -> bool {
        self.recorded().any(|(_, held)| held.is_goal())
    }
}
