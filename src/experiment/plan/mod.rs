//! The experiment file and the grid that it names.
//!
//! [`file`] is what is written, [`known`] what may be named, [`grid`] makes the variants of both. Runs nothing and
//! opens no data.

mod file;
mod grid;
mod known;
mod policies;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::files::reach;
use crate::models::NO_MODEL;
use crate::policies::Policy;
use crate::scores::money::Prices;
use crate::scores::own::{self, Own};
use crate::scores::readers::Named;
use crate::settings::Source;

pub(super) use grid::FULL;
pub use known::{Catalogue, Known};

/// The parameter that names a model of embeddings; empty for none.
const EMBEDDER: &str = "embedder";

/// A checked experiment: what to replay, under which variants, with which constants.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    pub name: String,
    /// Name of the tokenizer that the features were counted with.
    pub tokenizer: String,
    pub prices: Prices,
    pub seed: u64,
    /// Number of seeds of the random shadow.
    pub shadow_seeds: u32,
    /// Kinds of partners that chance is measured with; the first is the headline's.
    pub partners: Vec<String>,
    /// An atom is at risk when its last mention is older than this many turns.
    pub reference_tails: Vec<u32>,
    pub filter: Filter,
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub readers: Named,
    /// Programs of one's own that score.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub score_programs: Vec<Own>,
    /// Whether the table `contexts` is written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub contexts: bool,
    pub variants: Vec<Variant>,
    /// What the answers of each model depend on besides the call, by the model's name: rows are kept and found by
    /// it. Filled in where models are opened.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, String>,
    /// Folder of the data, where the file names one; no part of what is computed.
    #[serde(skip)]
    pub data: Option<PathBuf>,
    /// What the reader of the file should be told, but does not stop a run.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// Which trajectories of the data are replayed; an empty list takes all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    /// Names of readers.
    pub formats: Vec<String>,
    /// Beginnings of trajectory ids.
    pub ids: Vec<String>,
    /// Parts of the path of the log.
    pub sources: Vec<String>,
    pub min_turns: Option<u32>,
    pub max_turns: Option<u32>,
    /// So many of them, drawn by the plan's seed, from each format in turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<u32>,
    /// Sessions are linked to chains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
}

/// How sessions become one log.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    pub by: By,
    /// Sessions of a chain at most.
    pub sessions: u32,
}

/// What the sessions of a chain have in common.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    Repository,
}

impl Filter {
    /// Whether a trajectory is replayed.
    pub fn takes(&self, id: &str, format: &str, source: &str, n_turns: u32) -> bool {
        let any =
            |list: &[String], test: &dyn Fn(&str) -> bool| list.is_empty() || list.iter().any(|s| test(s));
        any(&self.formats, &|s| s == format)
            && any(&self.ids, &|s| id.starts_with(s))
            && any(&self.sources, &|s| source.contains(s))
            && self.min_turns.is_none_or(|n| n_turns >= n)
            && self.max_turns.is_none_or(|n| n_turns <= n)
    }
}

/// One point of the grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Hash of all the rest except the label, 16 hex digits.
    pub id: String,
    /// Short readable name, unique within the plan.
    pub label: String,
    pub strategy: String,
    /// All parameters, defaults included.
    pub strategy_params: toml::Table,
    pub trigger: String,
    /// All parameters, defaults included.
    pub trigger_params: toml::Table,
    /// Name of the compressor's model; null for model-free.
    pub model: Option<String>,
    pub seed: u64,
    /// Where it is a policy: its stages are in the place of strategy and trigger, which name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Box<Policy>>,
}

impl Variant {
    /// The one that this names: the beginning of an id, a label, or else a part of one. Of several the first, which is told.
    pub fn find<'a>(all: &'a [Variant], name: &str) -> Option<&'a Variant> {
        if name.is_empty() {
            return None;
        }
        let mut fit: Vec<&Variant> =
            all.iter().filter(|v| v.id.starts_with(name) || v.label == name).collect();
        if fit.is_empty() {
            fit = all.iter().filter(|v| v.label.contains(name)).collect();
        }
        if let [first, others @ ..] = &fit[..]
            && !others.is_empty()
        {
            let (n, label) = (others.len(), crate::text::escape::line(&first.label));
            tracing::warn!("`{name}` is part of {} variants: `{label}` is taken, {n} more fit", n + 1);
        }
        fit.first().copied()
    }

    /// Name of the model that says what matters, where that is not its model.
    pub fn extraction_model(&self) -> Option<&str> {
        self.strategy_params.get("extraction_model")?.as_str().filter(|name| !name.is_empty())
    }

    /// Name of its model of embeddings.
    pub fn embedder(&self) -> Option<&str> {
        self.strategy_params.get(EMBEDDER)?.as_str().filter(|name| !name.is_empty())
    }

    /// Name of the model that its trigger asks.
    pub fn trigger_model(&self) -> Option<&str> {
        self.trigger_params.get("model")?.as_str().filter(|name| *name != NO_MODEL)
    }

    /// Name of the model of embeddings of its trigger.
    pub fn trigger_embedder(&self) -> Option<&str> {
        self.trigger_params.get(EMBEDDER)?.as_str().filter(|name| !name.is_empty())
    }

    /// Names of all models that its replay asks.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        let of_trigger = [self.trigger_model(), self.trigger_embedder()];
        let own = [self.model.as_deref(), self.extraction_model(), self.embedder()];
        own.into_iter().chain(of_trigger).flatten()
    }

    /// The model whose variants are done together.
    pub fn group(&self) -> Option<&str> {
        self.model.as_deref().or(self.extraction_model()).or(self.trigger_model())
    }
}

impl Plan {
    /// Reads an experiment file.
    pub fn read(path: &Path, catalogue: &Catalogue) -> anyhow::Result<Self> {
        let text = reach::text(path).with_context(|| {
            let hint = "\nhint: `trajpress show preset NAME > FILE` writes an experiment to begin with";
            let is_missing = reach::is_there(path).is_ok_and(|there| !there);
            format!("cannot read {}{}", path.display(), if is_missing { hint } else { "" })
        })?;
        let mut plan = Self::parse(&path.display().to_string(), &text, catalogue)?;
        if let (Some(data), Some(folder)) = (&plan.data, path.parent()) {
            plan.data = Some(folder.join(data));
        }
        Ok(plan)
    }

    /// Reads the text of an experiment file; `path` is for errors.
    pub fn parse(path: &str, text: &str, catalogue: &Catalogue) -> anyhow::Result<Self> {
        let reader = file::Reader { source: &Source { path, text }, catalogue };
        let mut plan = reader.plan()?;
        let mut choices = reader.choices(plan.seed)?;
        choices.pin().with_context(|| path.to_owned())?;
        own::pin(&mut plan.score_programs).with_context(|| path.to_owned())?;
        grid::fill(&mut plan, &choices, catalogue, path)?;
        Ok(plan)
    }

    /// Adds what was sent to the grid, for logs that record edits of it; tells whether it was missing.
    pub fn add_as_sent(&mut self, catalogue: &Catalogue) -> bool {
        grid::add_as_sent(self, catalogue)
    }

    /// Groups of variants that share a model, in order of first appearance; model-free first.
    pub fn groups(&self) -> Vec<(Option<&str>, Vec<&Variant>)> {
        let mut groups: Vec<(Option<&str>, Vec<&Variant>)> = Vec::new();
        for variant in &self.variants {
            let model = variant.group();
            match groups.iter_mut().find(|g| g.0 == model) {
                Some(group) => group.1.push(variant),
                None => groups.push((model, vec![variant])),
            }
        }
        groups.sort_by_key(|g| g.0.is_some());
        groups
    }
}
