//! What the manifest of a run says beside its rows.

use std::path::Path;

use anyhow::Context as _;

use super::Prices;
use crate::files::reach;
use crate::scores::registry::About;

/// What a report needs of the run's manifest.
#[derive(Default)]
pub(super) struct Manifest {
    pub(super) prices: Option<Prices>,
    pub(super) own: Vec<About>,
    pub(super) name: String,
    pub(super) data: String,
    pub(super) semantics: Option<u64>,
    pub(super) tokenizer: Option<String>,
}

/// Without a manifest the rows still stand.
pub(super) fn read(folder: &Path) -> anyhow::Result<Manifest> {
    #[derive(serde::Deserialize)]
    struct Own {
        about: About,
    }
    const SHOWN: usize = 8;
    let path = folder.join("_manifest.json");
    let Some(manifest) = reach::read(&path)? else { return Ok(Manifest::default()) };
    let damaged = || format!("{} is damaged", path.display());
    let mut manifest: serde_json::Value = serde_json::from_slice(&manifest).with_context(damaged)?;
    let text = |pointer| manifest.pointer(pointer).and_then(|value| value.as_str()).unwrap_or_default();
    let name = text("/plan/name").to_owned();
    let data = text("/inputs/trajectories.parquet/sha256").chars().take(SHOWN).collect();
    let tokenizer = Some(text("/plan/tokenizer").to_owned()).filter(|name| !name.is_empty());
    let semantics = manifest.get("semantics").and_then(serde_json::Value::as_u64);
    let mut part = |pointer| manifest.pointer_mut(pointer).map(serde_json::Value::take);
    let prices = part("/plan/prices").map(serde_json::from_value).transpose().with_context(damaged)?;
    let own = part("/plan/score_programs").map(serde_json::from_value::<Vec<Own>>);
    let own = own.transpose().with_context(damaged)?.unwrap_or_default();
    let own = own.into_iter().map(|own| own.about).collect();
    Ok(Manifest { prices, own, name, data, semantics, tokenizer })
}
