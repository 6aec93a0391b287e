//! The models that can be named: what each is, and which bytes it has and where they can be had, or which server has
//! it; and sets of them.
//!
//! Reads `models.toml`, which says its own format, and a file of the user's over it. Opens no model, asks no server.

mod file;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::server;
use crate::files::reach;
use crate::settings;

/// The set used where none is named.
pub const DEFAULT_SET: &str = "default";

const BUILT_IN: &str = include_str!("../models.toml");
/// What `convert` may name.
const CONVERTERS: [Converter; 2] = [
    Converter::Script { name: "minilm-to-gguf", text: include_str!("../minilm_to_gguf.py") },
    Converter::Requantise,
];

/// What a model can be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Writes text.
    Generator,
    /// Gives likelihoods of given text.
    Scorer,
    /// Gives a vector for a text.
    Embedder,
    /// Gives the tokens of a text under its own vocabulary.
    Tokenizer,
}

impl Role {
    /// The role's name in files.
    pub fn name(self) -> &'static str {
        match self {
            Role::Generator => "generator",
            Role::Scorer => "scorer",
            Role::Embedder => "embedder",
            Role::Tokenizer => "tokenizer",
        }
    }
}

/// One model: a GGUF with known bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    pub name: String,
    /// What it can be used for, the best first.
    pub roles: Vec<Role>,
    /// What it is, and what it is good for.
    pub about: String,
    pub licence: String,
    /// Tokens it was trained to read at once.
    pub context: u32,
    /// Size of the file.
    pub bytes: u64,
    /// Hash of the file, 64 hex digits.
    pub sha256: String,
    /// Ways to get the file, in the order to try them.
    #[serde(skip)]
    pub origins: Vec<Origin>,
    #[serde(skip)]
    pub running: Running,
}

/// How a model is run here, where that is not left to the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Tokens of prompt and answer, of at most those that it was trained to read.
    pub window: Option<u32>,
    /// MiB for the keys and values of one context.
    pub memory: Option<u32>,
    /// Sequences write side by side also where that slows few of them and changes bits (K-quants).
    pub batched: bool,
}

/// A model on a server that the user named.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
    pub name: String,
    /// What it can be used for, the best first.
    pub roles: Vec<Role>,
    /// What it is, and what it is good for.
    pub about: String,
    pub options: server::Options,
}

/// What the name of a model stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Named<'a> {
    File(&'a Entry),
    Server(&'a Remote),
}

impl<'a> Named<'a> {
    pub fn name(self) -> &'a str {
        match self {
            Named::File(entry) => &entry.name,
            Named::Server(remote) => &remote.name,
        }
    }

    pub fn roles(self) -> &'a [Role] {
        match self {
            Named::File(entry) => &entry.roles,
            Named::Server(remote) => &remote.roles,
        }
    }
}

/// Whether a model can be used for something.
///
/// # Errors
/// It cannot, with what it can.
pub fn check_role(name: &str, roles: &[Role], role: Role) -> anyhow::Result<()> {
    if roles.contains(&role) {
        return Ok(());
    }
    let can: Vec<&str> = roles.iter().map(|r| r.name()).collect();
    anyhow::bail!("`{name}` is no {}\nhint: its roles are {}", role.name(), can.join(", "))
}

/// One way to get a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The parts are inputs of this, which makes the model; else the model is the parts, joined.
    pub convert: Option<Converter>,
    /// At least one.
    pub parts: Vec<Part>,
}

/// What makes a GGUF of other files, always the same bytes of the same inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Converter {
    /// A Python script, called with its inputs and the path to write.
    Script { name: &'static str, text: &'static str },
    /// The tensors of one GGUF that are Q4_1, as Q8_0.
    Requantise,
}

impl Converter {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Converter::Script { name, .. } => name,
            Converter::Requantise => "q4_1-to-q8_0",
        }
    }
}

/// A file somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Path(PathBuf),
    /// A file of a repository of the hub, newest revision.
    Hub {
        repository: String,
        file: String,
    },
    /// A file inside the wheel of a Python package, pinned as `name==version`.
    Package {
        package: String,
        file: String,
    },
    /// Another model, whose bytes are known too.
    Model(Box<Entry>),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Part::Path(path) => write!(f, "{}", path.display()),
            Part::Hub { repository, file } => write!(f, "hub {repository}, {file}"),
            Part::Package { package, .. } => write!(f, "package {package}"),
            Part::Model(model) => write!(f, "model {}", model.name),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.parts[0])?;
        match (&self.convert, self.parts.len()) {
            (Some(converter), _) => write!(f, ", converted by {}", converter.name()),
            (None, 1) => Ok(()),
            (None, n) => write!(f, " and {} more parts", n - 1),
        }
    }
}

impl Origin {
    /// The path of a file that can be used where it stands.
    pub fn in_place(&self) -> Option<&Path> {
        match (self.convert, self.parts.as_slice()) {
            (None, [Part::Path(path)]) => Some(path),
            _ => None,
        }
    }
}

/// A model for each role.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Set {
    pub name: String,
    /// Roles with names of models.
    pub models: Vec<(Role, String)>,
}

impl Set {
    /// Name of the model for a role.
    pub fn model(&self, role: Role) -> Option<&str> {
        self.models.iter().find(|m| m.0 == role).map(|m| m.1.as_str())
    }
}

/// All models and sets that can be named.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    /// Models that are files.
    pub entries: Vec<Entry>,
    pub servers: Vec<Remote>,
    pub sets: Vec<Set>,
}

impl Catalogue {
    /// The models that this version knows, and over them those of a user's file.
    ///
    /// Fails with file and line where the file is wrong.
    pub fn load(over: Option<&Path>) -> anyhow::Result<Self> {
        let mut catalogue = Self { entries: Vec::new(), servers: Vec::new(), sets: Vec::new() };
        file::add(&mut catalogue, "models.toml", BUILT_IN, Path::new(""))?;
        if let Some(path) = over {
            let text = reach::text(path).with_context(|| format!("cannot read {}", path.display()))?;
            let folder = path.parent().unwrap_or_else(|| Path::new(""));
            file::add(&mut catalogue, &path.display().to_string(), &text, folder)?;
        }
        Ok(catalogue)
    }

    /// All models, files first.
    pub fn all(&self) -> impl Iterator<Item = Named<'_>> {
        self.entries.iter().map(Named::File).chain(self.servers.iter().map(Named::Server))
    }

    /// The model of this name. Fails with the nearest name.
    pub fn model(&self, name: &str) -> anyhow::Result<Named<'_>> {
        self.all().find(|m| m.name() == name).ok_or_else(|| {
            let names: Vec<&str> = self.all().map(Named::name).collect();
            unknown("model", name, &names)
        })
    }

    /// The model of this name, which must be a file. Fails with the nearest name.
    pub fn entry(&self, name: &str) -> anyhow::Result<&Entry> {
        match self.model(name)? {
            Named::File(entry) => Ok(entry),
            Named::Server(remote) => {
                anyhow::bail!("model `{name}` is no file: it is on the server {}", remote.options.url)
            }
        }
    }

    /// The set of this name. Fails with the nearest name.
    pub fn set(&self, name: &str) -> anyhow::Result<&Set> {
        self.sets.iter().find(|s| s.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.sets.iter().map(|s| s.name.as_str()).collect();
            anyhow::anyhow!("unknown set of models `{name}`\n{}", settings::hint(name, &names))
        })
    }

    /// The models of names and of sets, in order, each once. Fails with the nearest name.
    pub fn pick(&self, names: &[String]) -> anyhow::Result<Vec<Named<'_>>> {
        let mut picked: Vec<Named> = Vec::new();
        for name in names {
            let members: Vec<&str> = match self.sets.iter().find(|s| s.name == *name) {
                Some(set) => set.models.iter().map(|m| m.1.as_str()).collect(),
                None => vec![name.as_str()],
            };
            for member in members {
                let model = self.all().find(|m| m.name() == member).ok_or_else(|| {
                    let sets = self.sets.iter().map(|s| s.name.as_str());
                    let names: Vec<&str> = self.all().map(Named::name).chain(sets).collect();
                    unknown("model or set", member, &names)
                })?;
                if !picked.iter().any(|p| p.name() == member) {
                    picked.push(model);
                }
            }
        }
        Ok(picked)
    }

    /// Names of the sets that a model is in.
    pub fn sets_of(&self, name: &str) -> Vec<&str> {
        let has = |set: &&Set| set.models.iter().any(|m| m.1 == name);
        self.sets.iter().filter(has).map(|s| s.name.as_str()).collect()
    }
}

/// An error for a name that nothing has.
fn unknown(what: &str, name: &str, known: &[&str]) -> anyhow::Error {
    let hint = settings::hint(name, known);
    anyhow::anyhow!(
        "unknown {what} `{name}`\n{hint}; or the path of a GGUF, with a `/` in it or ending in .gguf"
    )
}

/// Whether a text names a file and not a model of the catalogue.
pub fn is_path(name: &str) -> bool {
    name.contains('/') || name.contains(std::path::MAIN_SEPARATOR) || name.ends_with(".gguf")
}
