//! The models of a command: where they come from, and the cache before them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;

use crate::experiment::cell::Models;
use crate::experiment::plan::Variant;
use crate::models::bench::{self, Speed};
use crate::models::cache::{Cached, Store};
use crate::models::catalogue::{Catalogue, Role};
use crate::models::folder::Folder;
use crate::models::open::{Opener, cache_path};
use crate::models::{Call, CallError, Model};
use crate::scores::readers::Named;

/// Options of the commands that ask models.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Using {
    #[command(flatten)]
    cache: Caching,
    /// File of models and servers that adds to the built-in ones and overrides them
    #[arg(long, value_name = "FILE")]
    models: Option<PathBuf>,
}

/// Options of the call cache.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Caching {
    /// Ask models anew: neither read nor write the call cache
    #[arg(long)]
    no_cache: bool,
    /// File of the call cache [default: trajpress/calls.sqlite in XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "FILE", conflicts_with = "no_cache")]
    cache: Option<PathBuf>,
    /// GiB that the call cache keeps at most; what was not used for longest leaves first
    #[arg(long, value_name = "GIB", default_value_t = 4.0, value_parser = above_zero)]
    cache_size: f64,
}

impl Caching {
    /// Opens models of a catalogue with this cache before them; each is to have so many contexts.
    pub(super) fn opener(&self, catalogue: Catalogue, contexts: usize) -> anyhow::Result<Opener> {
        let store = match self.cache.clone().or_else(cache_path) {
            Some(path) if !self.no_cache => {
                Some(Arc::new(Store::open(&path, (self.cache_size * f64::from(1 << 30)) as u64)?))
            }
            _ => None,
        };
        Ok(Opener {
            catalogue: Arc::new(catalogue),
            folder: Arc::new(Folder::of_environment()?),
            program: std::env::current_exe().context("cannot tell where this program is")?,
            store,
            contexts: contexts as u32,
        })
    }
}

/// What a model must be known for to be asked this.
pub(super) fn role(call: &Call) -> Role {
    match call {
        Call::Embed { .. } => Role::Embedder,
        Call::Score { .. } => Role::Scorer,
        Call::Generate { .. } => Role::Generator,
        Call::Tokenize { .. } => Role::Tokenizer,
    }
}

fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(gib) if gib > 0.0 && f64::is_finite(gib) => Ok(gib),
        _ => Err("expected a number above 0".to_owned()),
    }
}

/// Models that were opened, by name, each with the shortest call of each kind that it is for.
#[derive(Default)]
pub(super) struct Opened(BTreeMap<String, (Arc<Cached>, Vec<Call>)>);

impl Opened {
    /// The models themselves, for the variants that name them.
    pub(super) fn models(&self) -> Models {
        self.0.iter().map(|(name, (model, _))| (name.clone(), Arc::clone(model) as Arc<dyn Model>)).collect()
    }

    /// What the answers of each model depend on besides the call.
    pub(super) fn identities(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(name, (model, _))| (name.clone(), model.card().identity.clone())).collect()
    }

    /// Has each model answer the shortest call, so that one that cannot is told before any work is done.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let all =
            self.0.iter().flat_map(|(name, (model, calls))| calls.iter().map(move |c| (name, model, c)));
        for (name, model, call) in all {
            if let Some(Err(error)) = model.answer(std::slice::from_ref(call)).pop() {
                let (cannot, key, role) = match call {
                    Call::Embed { .. } => ("embed", "embedder", "an embedder"),
                    Call::Score { .. } => ("score a text", "scorer", "a model that tells likelihoods"),
                    _ => ("write", "model", "a model that follows instructions in a chat"),
                };
                let hint = match &error {
                    CallError::Unsupported(_) => {
                        format!("\nhint: `{key}` needs {role}; see `trajpress list models`")
                    }
                    _ => String::new(),
                };
                anyhow::bail!("model {name} cannot {cannot}: {error}{hint}");
            }
        }
        Ok(())
    }

    /// Tokens that fit each model.
    pub(super) fn windows(&self) -> BTreeMap<String, u32> {
        self.0.iter().map(|(name, (model, _))| (name.clone(), model.card().window)).collect()
    }

    /// How fast a model answers here, with so many contexts of four sequences; how much dearer deep prompts are
    /// is measured if some are as long as that. Ask it without a cache.
    pub(super) fn speed(
        &self,
        name: &str,
        contexts: u32,
        has_deep: bool,
    ) -> Option<Result<Speed, CallError>> {
        let (model, calls) = self.0.get(name)?;
        if let [Call::Embed { .. }] = calls[..] {
            return Some(bench::embedding_speed(&**model, 64));
        }
        let is_wide = model.card().window > bench::DEEP;
        Some(bench::text_speed(&**model, 4 * contexts, 256, 32).and_then(|speed| {
            let deep = (has_deep && is_wide).then(|| bench::deep_prefill(&**model, contexts)).transpose()?;
            Ok(Speed { prefill_deep: deep, ..speed })
        }))
    }

    /// Calls that no answer came to.
    pub(super) fn failed(&self) -> u64 {
        self.0.values().map(|(model, _)| model.tally().failed).sum()
    }

    /// A line a model: what was computed, and what the call cache saved.
    pub(super) fn summary(&self) -> Vec<String> {
        let line = |(name, (model, _)): (&String, &(Arc<Cached>, Vec<Call>))| {
            let tally = model.tally();
            format!(
                "model {name}: {} in {:.1} s{}, {} found in the call cache ({:.1} s saved)",
                super::count(tally.misses, "call"),
                tally.seconds_spent,
                match (tally.failed, model.last_error()) {
                    (0, _) => String::new(),
                    (failed, None) => format!(", {failed} of them without an answer"),
                    (failed, Some(error)) =>
                        format!(", {failed} of them without an answer (the last: {error})"),
                },
                tally.hits,
                tally.seconds_saved
            )
        };
        self.0.iter().map(line).collect()
    }
}

impl Using {
    /// The same without the call cache.
    pub(super) fn uncached(&self) -> Self {
        let cache = Caching { no_cache: true, cache: None, ..self.cache.clone() };
        Using { cache, models: self.models.clone() }
    }

    /// Opens the models of some variants and those that read for the scores, without loading them; each is to have so many
    /// contexts.
    pub(super) fn open<'a>(
        &self,
        variants: impl IntoIterator<Item = &'a Variant>,
        readers: &'a Named,
        contexts: usize,
    ) -> anyhow::Result<Opened> {
        let mut names: BTreeMap<&str, Vec<Call>> = BTreeMap::new();
        let mut add = |name, call| {
            let calls = names.entry(name).or_default();
            if !calls.contains(&call) {
                calls.push(call);
            }
        };
        for variant in variants {
            // Whatever else a strategy asks, it asks for texts in a chat.
            variant.model.as_deref().into_iter().for_each(|name| add(name, Call::hello(true)));
            variant.extraction_model().into_iter().for_each(|name| add(name, Call::hello(true)));
            variant.embedder().into_iter().for_each(|name| add(name, Call::hello_embedder()));
            variant.trigger_model().into_iter().for_each(|name| add(name, Call::hello_scorer()));
            variant.trigger_embedder().into_iter().for_each(|name| add(name, Call::hello_embedder()));
        }
        readers.scorers.iter().for_each(|name| add(name, Call::hello_scorer()));
        readers.embedder.iter().for_each(|name| add(name, Call::hello_embedder()));
        if names.is_empty() {
            return Ok(Opened::default());
        }
        let opener = self.cache.opener(Catalogue::load(self.models.as_deref())?, contexts)?;
        let open = |(name, calls): (&str, Vec<Call>)| {
            Ok((name.to_owned(), (Arc::new(opener.open(name, role(&calls[0]))?), calls)))
        };
        Ok(Opened(names.into_iter().map(open).collect::<anyhow::Result<_>>()?))
    }
}
