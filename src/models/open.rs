//! From a name in an experiment to a model that answers.

use std::path::PathBuf;
use std::sync::Arc;

use super::Model;
use super::cache::{Cached, Store};
use super::catalogue::{Catalogue, Named, Role, check_role, is_path};
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
    /// Opens a model for a role: a name of the catalogue, the path of a GGUF, or `http://HOST:PORT#MODEL` for a server.
    ///
    /// # Errors
    /// With the cure: an unknown name, a model that is not known to play the role, weights that are missing or wrong, a
    /// server that does not answer.
    pub fn open(&self, name: &str, role: Role) -> anyhow::Result<Cached> {
        let model: Box<dyn Model> = match self.server(name, role)? {
            Some(options) => {
                let server = Server::new(options).map_err(|error| match error.to_string() {
                    said if is_url(name) => anyhow::anyhow!(said),
                    said => anyhow::anyhow!("model {name}: {said}"),
                })?;
                Box::new(server)
            }
            None => self.local(name, role)?,
        };
        Ok(Cached::new(model, self.store.clone()))
    }

    /// How the server is asked that has the model, if it is a server's. What the catalogue knows of roles is held.
    fn server(&self, name: &str, role: Role) -> anyhow::Result<Option<server::Options>> {
        if is_url(name) {
            let (url, model) = match name.split_once('#') {
                Some((url, model)) => (url.to_owned(), Some(model.to_owned())),
                None => (name.to_owned(), None),
            };
            return Ok(Some(server::Options { url, model, ..server::Options::default() }));
        }
        if is_path(name) {
            return Ok(None);
        }
        let model = self.catalogue.model(name)?;
        check_role(name, model.roles(), role)?;
        Ok(match model {
            Named::Server(remote) => Some(remote.options.clone()),
            Named::File(_) => None,
        })
    }

    #[cfg(feature = "llama")]
    fn local(&self, name: &str, role: Role) -> anyhow::Result<Box<dyn Model>> {
        use super::llama::{Llama, Options};

        let resolved = self.folder.resolve(&self.catalogue, name)?;
        check_role(name, &resolved.roles, role)?;
        let options = Options { contexts: self.contexts, ..Options::of(&resolved) };
        Ok(Box::new(Llama::new(options, &self.program)))
    }

    #[cfg(not(feature = "llama"))]
    fn local(&self, name: &str, _role: Role) -> anyhow::Result<Box<dyn Model>> {
        anyhow::bail!(
            "this trajpress was built without llama.cpp, so model `{name}` cannot run in it\nhint: build it with \
             feature `llama`, or name a server: `http://HOST:PORT#MODEL`"
        )
    }
}

fn is_url(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://")
}

#[cfg(test)]
mod tests {
    use super::super::http::stub::{Stub, json as reply};
    use super::super::{Call, Model as _};
    use super::*;

    fn opener(folder: &std::path::Path, models: &str) -> Opener {
        let path = folder.join("own.toml");
        std::fs::write(&path, models).unwrap();
        Opener {
            catalogue: Arc::new(Catalogue::load(Some(&path)).unwrap()),
            folder: Arc::new(Folder::at(folder)),
            program: PathBuf::from("/bin/false"),
            store: None,
            contexts: 1,
        }
    }

    #[test]
    fn a_server_is_opened_by_its_name_with_its_options() {
        let stub = Stub::new(|request, stream| match request.line.as_str() {
            "GET /v1/models" => reply(stream, &serde_json::json!({"data": [{"id": "a"}, {"id": "b"}]})),
            _ => std::thread::sleep(std::time::Duration::from_secs(9)),
        });
        let folder = tempfile::tempdir().unwrap();
        let opener = opener(
            folder.path(),
            &format!(
                "[[servers]]\nname = \"big\"\nroles = [\"generator\"]\nurl = \"{}\"\nmodel = \"b\"\nwindow = 77\ntimeout = 0.5\n\
                 [[servers]]\nname = \"both\"\nroles = [\"generator\"]\nurl = \"{}\"\nwindow = 77\n",
                stub.url, stub.url
            ),
        );
        let big = opener.open("big", Role::Generator).unwrap();
        assert_eq!((big.card().window, big.card().name.clone()), (77, format!("{}#b", stub.url)));
        let begin = std::time::Instant::now();
        assert!(big.answer(&[Call::hello(false)])[0].is_err());
        assert!(begin.elapsed() < std::time::Duration::from_secs(5), "{:?}", begin.elapsed());
        let error = |name: &str, role| opener.open(name, role).err().unwrap().to_string();
        assert_eq!(
            error("both", Role::Generator),
            "model both: the server has 2 models: set `model` to one of: a, b"
        );
        assert_eq!(error("big", Role::Embedder), "`big` is no embedder\nhint: its roles are generator");
        assert!(error("bigg", Role::Generator).contains("did you mean `big`?"));
    }

    #[test]
    fn a_model_of_another_role_is_told_before_its_file_is_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let error = opener(folder.path(), "").open("minilm-l6", Role::Generator).err().unwrap();
        assert_eq!(error.to_string(), "`minilm-l6` is no generator\nhint: its roles are embedder, tokenizer");
    }
}
