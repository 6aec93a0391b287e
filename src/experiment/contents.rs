//! What decides the rows of a cell, as a hash: cells of one id have the same rows, in whatever data, run and unit they stand.
//!
//! That is the trajectory with its partners, as the data hold them, the variant with its models, and what the plan says of all cells.
//! Where in the data they stand, and what else is there, says nothing.

use std::collections::{BTreeMap, HashMap};

use super::SEMANTICS_VERSION;
use super::dataset::Dataset;
use super::plan::{Plan, Variant};
use crate::models::api;
use crate::store;

/// Raised when the make of ids changes.
const FORMAT: u32 = 1;

/// Of each trajectory of a run, what decides its rows but for the variant.
#[derive(Debug)]
pub struct Contents {
    of: HashMap<usize, blake3::Hash>,
    /// What is known of a model, by its name.
    models: BTreeMap<String, String>,
}

/// The state of what is known of models behind APIs, where a plan asks for the window or the prices of a log's own.
pub(super) fn api_models(plan: &Plan) -> Option<String> {
    let is_own = |v: &Variant| v.trigger_params.get("window").and_then(toml::Value::as_str) == Some("own");
    (plan.prices.own || plan.variants.iter().any(is_own)).then(api::digest)
}

impl Contents {
    pub fn new(plan: &Plan, data: &Dataset, selection: &[usize]) -> anyhow::Result<Self> {
        let readers: Vec<Option<&String>> = plan.readers.names().map(|name| plan.models.get(name)).collect();
        let mut settings = serde_json::json!({
            "format": FORMAT,
            "semantics": SEMANTICS_VERSION,
            "schema": store::SCHEMA_VERSION,
            "features": data.features_of(),
            "tokenizer": plan.tokenizer,
            "prices": plan.prices,
            "seed": plan.seed,
            "shadow_seeds": plan.shadow_seeds,
            "partners": plan.partners,
            "reference_tails": plan.reference_tails,
            "readers": plan.readers,
            "reader_models": readers,
            "contexts": plan.contexts,
        });
        if !plan.score_programs.is_empty() {
            settings["score_programs"] = serde_json::json!(plan.score_programs);
        }
        if let Some(known) = api_models(plan) {
            settings["api_models"] = known.into();
        }
        let settings = blake3::hash(settings.to_string().as_bytes());
        let contents = data.contents()?;
        let content = |&index: &usize| {
            let mut hash = blake3::Hasher::new();
            hash.update(settings.as_bytes()).update(contents[index].as_bytes());
            for (kind, name) in (0u32..).zip(&plan.partners) {
                for partner in data.partners(index).filter(|p| p.kind == name.as_str()) {
                    hash.update(&kind.to_le_bytes()).update(contents[partner.index].as_bytes());
                }
            }
            (index, hash.finalize())
        };
        Ok(Contents { of: selection.iter().map(content).collect(), models: plan.models.clone() })
    }

    /// The id of a cell, 32 hex digits.
    pub fn cell(&self, index: usize, variant: &Variant) -> String {
        let mut hash = blake3::Hasher::new();
        hash.update(self.of[&index].as_bytes()).update(variant.id.as_bytes());
        for model in variant.models().filter_map(|name| self.models.get(name)) {
            hash.update(model.as_bytes());
        }
        hash.finalize().to_hex()[..32].to_owned()
    }
}
