//! The models of a command: where they come from, and the cache before them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;

use crate::experiment::cell::Models;
use crate::models::cache::{Cached, Store};
use crate::models::catalogue::{Catalogue, Role};
use crate::models::folder::Folder;
use crate::models::open::{Opener, cache_path};
use crate::models::{Call, Model};

/// Options of the commands that ask models.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Using {
    /// Ask models anew: neither read nor write the call cache
    #[arg(long)]
    no_cache: bool,
    /// File of the call cache [default: trajpress/calls.sqlite in XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "FILE", conflicts_with = "no_cache")]
    cache: Option<PathBuf>,
    /// GiB that the call cache keeps at most; what was not used for longest leaves first
    #[arg(long, value_name = "GIB", default_value_t = 4.0, value_parser = above_zero)]
    cache_size: f64,
    /// File of models and servers that adds to the built-in ones and overrides them
    #[arg(long, value_name = "FILE")]
    models: Option<PathBuf>,
}

fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(gib) if gib > 0.0 && f64::is_finite(gib) => Ok(gib),
        _ => Err("expected a number above 0".to_owned()),
    }
}

/// Models that were opened, by name.
#[derive(Default)]
pub(super) struct Opened(BTreeMap<String, Arc<Cached>>);

impl Opened {
    /// The models themselves, for the variants that name them.
    pub(super) fn models(&self) -> Models {
        self.0.iter().map(|(name, model)| (name.clone(), Arc::clone(model) as Arc<dyn Model>)).collect()
    }

    /// What the answers of each model depend on besides the call.
    pub(super) fn identities(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(name, model)| (name.clone(), model.card().identity.clone())).collect()
    }

    /// Has each model write a token, so that one that cannot is told before any work is done.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for (name, model) in &self.0 {
            if let Some(Err(error)) = model.answer(&[Call::hello()]).pop() {
                anyhow::bail!(
                    "model {name} cannot write: {error}\nhint: strategies need a model that generates text; \
                     `trajpress models check` and `trajpress list models` tell which there are"
                );
            }
        }
        Ok(())
    }

    /// Calls that no answer came to.
    pub(super) fn failed(&self) -> u64 {
        self.0.values().map(|model| model.tally().failed).sum()
    }

    /// A line a model: what was computed, and what the call cache saved.
    pub(super) fn summary(&self) -> Vec<String> {
        let line = |(name, model): (&String, &Arc<Cached>)| {
            let tally = model.tally();
            format!(
                "model {name}: {} in {:.1} s{}, {} found in the call cache ({:.1} s saved)",
                super::count(tally.misses, "call"),
                tally.seconds_spent,
                match tally.failed {
                    0 => String::new(),
                    failed => format!(", {failed} of them without an answer"),
                },
                tally.hits,
                tally.seconds_saved
            )
        };
        self.0.iter().map(line).collect()
    }
}

impl Using {
    /// Opens models that are to write, without loading them; each is to have so many contexts.
    pub(super) fn open<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        contexts: usize,
    ) -> anyhow::Result<Opened> {
        let names: BTreeSet<&str> = names.into_iter().collect();
        if names.is_empty() {
            return Ok(Opened::default());
        }
        let store = match self.cache.clone().or_else(cache_path) {
            Some(path) if !self.no_cache => {
                Some(Arc::new(Store::open(&path, (self.cache_size * f64::from(1 << 30)) as u64)?))
            }
            _ => None,
        };
        let opener = Opener {
            catalogue: Arc::new(Catalogue::load(self.models.as_deref())?),
            folder: Arc::new(Folder::of_environment()?),
            program: std::env::current_exe().context("cannot tell where this program is")?,
            store,
            contexts: contexts as u32,
        };
        let open = |name: &str| Ok((name.to_owned(), Arc::new(opener.open(name, Role::Generator)?)));
        Ok(Opened(names.into_iter().map(open).collect::<anyhow::Result<_>>()?))
    }
}
