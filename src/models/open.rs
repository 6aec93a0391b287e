//! From a name in an experiment to a model that answers.

use std::path::PathBuf;
use std::sync::Arc;

use super::Model;
use super::cache::{Cached, Store};
use super::catalogue::Catalogue;
use super::folder::Folder;
use super::server::{self, Server};

/// Where models come from, and how they are run.
#[derive(Clone)]
pub struct Opener {
    pub catalogue: Arc<Catalogue>,
    pub folder: Arc<Folder>,
    /// The program that serves as a worker: this one.
    pub program: PathBuf,
    /// None computes every answer anew.
    pub store: Option<Arc<Store>>,
    /// Contexts a model, each with a thread of its own.
    pub contexts: u32,
}

/// The call cache's file: `trajpress/calls.sqlite` in `XDG_CACHE_HOME` or in `~/.cache`.
pub fn cache_path() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(folder.join("trajpress/calls.sqlite"))
}

impl Opener {
    /// Opens a model: a name of the catalogue, the path of a GGUF, or `http://HOST:PORT#MODEL` for a server.
    ///
    /// # Errors
    /// With the cure: an unknown name, weights that are missing or wrong, a worker that cannot load them, a server
    /// that does not answer.
    pub fn open(&self, name: &str) -> anyhow::Result<Cached> {
        let model: Box<dyn Model> = if name.starts_with("http://") || name.starts_with("https://") {
            let (url, model) = match name.split_once('#') {
                Some((url, model)) => (url.to_owned(), Some(model.to_owned())),
                None => (name.to_owned(), None),
            };
            Box::new(Server::new(server::Options { url, model, ..server::Options::default() })?)
        } else {
            self.local(name)?
        };
        Ok(Cached::new(model, self.store.clone()))
    }

    #[cfg(feature = "llama")]
    fn local(&self, name: &str) -> anyhow::Result<Box<dyn Model>> {
        use super::llama::{Kind, Llama, Options};

        let resolved = self.folder.resolve(&self.catalogue, name)?;
        let kind = if resolved.is_embedder() { Kind::Embedder } else { Kind::Text };
        let options = Options::new(name, &resolved.path, &resolved.sha256, kind, resolved.context);
        let options = Options { contexts: self.contexts, ..options };
        Ok(Box::new(Llama::new(options, &self.program)))
    }

    #[cfg(not(feature = "llama"))]
    fn local(&self, name: &str) -> anyhow::Result<Box<dyn Model>> {
        anyhow::bail!(
            "this trajpress was built without llama.cpp, so model `{name}` cannot run in it\nhint: build it with \
             feature `llama`, or name a server: `http://HOST:PORT#MODEL`"
        )
    }
}
