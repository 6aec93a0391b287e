//! The presets that travel with the program: one file a product, with its version, date, source, and what logs force apart.

use std::sync::LazyLock;

use anyhow::Context as _;
use include_dir::{Dir, include_dir};
use serde::{Deserialize, Serialize};

use super::Policy;
use crate::settings::hint;

/// The policy of a product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    pub name: String,
    /// What it is the policy of.
    pub product: String,
    pub version: String,
    /// When that was read, as YYYY-MM-DD.
    pub date: String,
    /// Where it was read.
    pub source: String,
    /// Whether it does as the product unless it is told: `on`, `off`, or `asked` where each user sets it.
    #[serde(default)]
    pub default: Default,
    /// What the product does and a replay of logs cannot, or does otherwise.
    #[serde(default)]
    pub deviations: Vec<String>,
    /// The recordings of the real library that it is held to; empty where there are none.
    #[serde(default)]
    pub recordings: Vec<String>,
    pub policy: Policy,
}

/// Whether a product has its policy by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Default {
    #[default]
    On,
    Off,
    Asked,
}

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/src/data/presets");

static ALL: LazyLock<Vec<Preset>> = LazyLock::new(|| {
    let read = |(name, text): (&str, &str)| -> Preset {
        toml::from_str(text).unwrap_or_else(|error| panic!("data/presets/{name}: {error}"))
    };
    let mut all: Vec<Preset> = texts().map(read).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
});

/// The names of the files, with their texts.
fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.files().filter_map(|file| Some((file.path().file_stem()?.to_str()?, file.contents_utf8()?)))
}

/// All presets, by name.
pub fn all() -> &'static [Preset] {
    &ALL
}

/// The preset of this name.
///
/// # Errors
/// There is none.
pub fn find(name: &str) -> anyhow::Result<&'static Preset> {
    let known: Vec<&str> = all().iter().map(|preset| preset.name.as_str()).collect();
    all()
        .iter()
        .find(|preset| preset.name == name)
        .with_context(|| format!("unknown preset `{name}`\n{}", hint(name, &known)))
}

/// The text of a preset's file.
pub fn text(name: &str) -> Option<&'static str> {
    texts().find(|(file, _)| *file == name).map(|(_, text)| text)
}
