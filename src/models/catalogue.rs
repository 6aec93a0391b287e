//! The models that can be named: what each is, and which bytes it has and where they can be had, or which server has
//! it; and sets of them.
//!
//! Reads `models.toml`, which says its own format, and a file of the user's over it. Opens no model, asks no server.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::DeValue;

use super::server::{self, Kind};
use crate::settings::{self, Source, items};

/// The set used where none is named.
pub const DEFAULT_SET: &str = "default";

const BUILT_IN: &str = include_str!("models.toml");
/// What `convert` may name.
const CONVERTERS: [Converter; 2] = [
    Converter::Script { name: "minilm-to-gguf", text: include_str!("minilm_to_gguf.py") },
    Converter::Requantise,
];

/// What a model can be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// All roles, with their names in files.
    pub const ALL: [(&'static str, Role); 4] = [
        ("generator", Role::Generator),
        ("scorer", Role::Scorer),
        ("embedder", Role::Embedder),
        ("tokenizer", Role::Tokenizer),
    ];

    /// The role's name in files.
    pub fn name(self) -> &'static str {
        Role::ALL.iter().find(|r| r.1 == self).map_or("", |r| r.0)
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
        catalogue.add("models.toml", BUILT_IN, Path::new(""))?;
        if let Some(path) = over {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            catalogue.add(
                &path.display().to_string(),
                &text,
                path.parent().unwrap_or_else(|| Path::new("")),
            )?;
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

    /// Adds the models and sets of a file; what has the same name is replaced. `folder` is what paths are
    /// relative to.
    fn add(&mut self, path: &str, text: &str, folder: &Path) -> anyhow::Result<()> {
        let reader = Reader { source: Source { path, text }, folder };
        let root = reader.source.root()?;
        let (mut models, mut servers, mut sets) = (Vec::new(), Vec::new(), Vec::new());
        for (key, span, value) in items(root.get_ref()) {
            match key {
                "models" => models = reader.source.tables(key, value)?,
                "servers" => servers = reader.source.tables(key, value)?,
                "sets" => sets = items(reader.source.table(key, value)?),
                _ => {
                    let known = ["models", "servers", "sets"];
                    return Err(reader.source.unknown_key(&span, key, "the file", &known));
                }
            }
        }
        let mut seen = HashSet::new();
        let mut second = |at: &Range<usize>, name: &str| match seen.insert(name.to_owned()) {
            true => Ok(()),
            false => Err(reader.source.error(at, format!("a second model `{name}`"))),
        };
        for (at, table) in models {
            let entry = reader.entry(&at, table, &self.entries)?;
            second(&at, &entry.name)?;
            self.servers.retain(|s| s.name != entry.name);
            match self.entries.iter_mut().find(|e| e.name == entry.name) {
                Some(old) => *old = entry,
                None => self.entries.push(entry),
            }
        }
        for (at, table) in servers {
            let remote = reader.remote(&at, table)?;
            second(&at, &remote.name)?;
            self.entries.retain(|e| e.name != remote.name);
            match self.servers.iter_mut().find(|s| s.name == remote.name) {
                Some(old) => *old = remote,
                None => self.servers.push(remote),
            }
        }
        for (name, span, value) in sets {
            let set = reader.set(name, value, self)?;
            if self.all().any(|m| m.name() == name) {
                return Err(reader.source.error(&span, format!("a set and a model are named `{name}`")));
            }
            match self.sets.iter_mut().find(|s| s.name == name) {
                Some(old) => *old = set,
                None => self.sets.push(set),
            }
        }
        if let Some(both) = self.sets.iter().find(|s| self.all().any(|m| m.name() == s.name)) {
            anyhow::bail!("{path}: a model has the name of the set `{}`", both.name);
        }
        Ok(())
    }
}

/// An error for a name that nothing has.
fn unknown(what: &str, name: &str, known: &[&str]) -> anyhow::Error {
    let hint = settings::hint(name, known);
    anyhow::anyhow!(
        "unknown {what} `{name}`\n{hint}; or the path of a GGUF, with a `/` in it or ending in .gguf"
    )
}

/// One file of models.
struct Reader<'a> {
    source: Source<'a>,
    folder: &'a Path,
}

type Table<'a> = toml::de::DeTable<'a>;

/// Keys of one file of a source.
const PART_KEYS: [&str; 5] = ["path", "hub", "package", "file", "model"];

impl Reader<'_> {
    /// One model; `known` are those that its sources may name.
    fn entry(&self, at: &Range<usize>, table: &Table, known: &[Entry]) -> anyhow::Result<Entry> {
        const KEYS: &[&str] = &[
            "name", "roles", "about", "licence", "context", "bytes", "sha256", "sources", "window", "memory",
            "batched",
        ];
        let source = &self.source;
        let mut entry = Entry {
            name: String::new(),
            roles: Vec::new(),
            about: String::new(),
            licence: String::new(),
            context: 0,
            bytes: 0,
            sha256: String::new(),
            origins: Vec::new(),
            running: Running::default(),
        };
        let mut missing = KEYS.to_vec();
        for (key, span, value) in items(table) {
            match key {
                "name" => entry.name = self.name(key, value)?,
                "roles" => entry.roles = self.roles(key, value)?,
                "about" => entry.about = source.string(key, value)?,
                "licence" => entry.licence = source.string(key, value)?,
                "context" => entry.context = self.some(key, value)?,
                "bytes" => entry.bytes = self.some(key, value)?,
                "sha256" => {
                    entry.sha256 = source.string(key, value)?.to_ascii_lowercase();
                    if entry.sha256.len() != 64 || !entry.sha256.bytes().all(|b| b.is_ascii_hexdigit()) {
                        let message = "`sha256` is not 64 hex digits\nhint: `sha256sum FILE` prints it";
                        return Err(source.error(&span, message));
                    }
                }
                "sources" => {
                    let origins = source.array(key, value)?.iter().map(|v| self.origin(v, known));
                    entry.origins = origins.collect::<Result<_, _>>()?;
                    if entry.origins.is_empty() {
                        return Err(source.error(&span, "`sources` has no value, expected at least one"));
                    }
                }
                "window" => entry.running.window = Some(self.some(key, value)?),
                "memory" => entry.running.memory = Some(self.some(key, value)?),
                "batched" => entry.running.batched = source.flag(key, value)?,
                _ => return Err(source.unknown_key(&span, key, "a model", KEYS)),
            }
            missing.retain(|k| *k != key);
        }
        // What people need not say of their own models.
        missing.retain(|k| !["about", "licence", "window", "memory", "batched"].contains(k));
        self.complete(at, "a model", &entry.name, &missing)?;
        if let Some(window) = entry.running.window.filter(|window| *window > entry.context) {
            let most = entry.context;
            return Err(
                source.error(at, format!("`window = {window}`, but the weights were made for {most} tokens"))
            );
        }
        Ok(entry)
    }

    /// One server.
    fn remote(&self, at: &Range<usize>, table: &Table) -> anyhow::Result<Remote> {
        const NEEDED: [&str; 3] = ["name", "roles", "url"];
        const KEYS: &[&str] = &[
            "name",
            "roles",
            "about",
            "url",
            "model",
            "api_key_env",
            "kind",
            "window",
            "concurrency",
            "timeout",
            "deadline",
            "retries",
            "backoff",
        ];
        let source = &self.source;
        let mut remote = Remote {
            name: String::new(),
            roles: Vec::new(),
            about: String::new(),
            options: Default::default(),
        };
        let options = &mut remote.options;
        for (key, span, value) in items(table) {
            match key {
                "name" => remote.name = self.name(key, value)?,
                "roles" => remote.roles = self.roles(key, value)?,
                "about" => remote.about = source.string(key, value)?,
                "url" => options.url = source.string(key, value)?,
                "model" => options.model = Some(source.string(key, value)?),
                "api_key_env" => options.api_key_env = Some(source.string(key, value)?),
                "kind" => {
                    let names = Kind::ALL.map(|k| k.0);
                    let place = source.right_name(
                        "kind of server",
                        &source.string(key, value)?,
                        &names,
                        &value.span(),
                    )?;
                    options.kind = Some(Kind::ALL[place].1);
                }
                "window" => options.window = Some(self.some(key, value)?),
                "concurrency" => options.concurrency = source.whole(key, value)?,
                "timeout" => options.timeout = source.number(key, value)?,
                "deadline" => options.deadline = source.number(key, value)?,
                "retries" => options.retries = source.whole(key, value)?,
                "backoff" => options.backoff = source.number(key, value)?,
                _ => return Err(source.unknown_key(&span, key, "a server", KEYS)),
            }
        }
        let missing: Vec<&str> = NEEDED.into_iter().filter(|k| !table.contains_key(*k)).collect();
        self.complete(at, "a server", &remote.name, &missing)?;
        remote.options.check().map_err(|(key, why)| {
            let place = items(table).into_iter().find(|item| item.0 == key).map_or(at.clone(), |item| item.1);
            source.error(&place, why)
        })?;
        Ok(remote)
    }

    fn name(&self, key: &str, value: &Spanned<DeValue>) -> anyhow::Result<String> {
        let name = self.source.string(key, value)?;
        match check_name(&name) {
            Ok(()) => Ok(name),
            Err(rule) => Err(self.source.error(&value.span(), format!("`name = \"{name}\"`: {rule}"))),
        }
    }

    /// A whole number above 0.
    fn some<T: TryFrom<i64> + PartialEq + Default>(
        &self,
        key: &str,
        value: &Spanned<DeValue>,
    ) -> anyhow::Result<T> {
        let number: T = self.source.whole(key, value)?;
        match number == T::default() {
            true => Err(self.source.error(&value.span(), format!("`{key} = 0`, expected at least 1"))),
            false => Ok(number),
        }
    }

    /// Fails if anything is missing.
    fn complete(&self, at: &Range<usize>, what: &str, name: &str, missing: &[&str]) -> anyhow::Result<()> {
        if missing.is_empty() {
            return Ok(());
        }
        let name = if name.is_empty() { what.to_owned() } else { format!("`{name}`") };
        Err(self.source.error(at, format!("{name} lacks {}", missing.join(", "))))
    }

    fn roles(&self, key: &str, value: &Spanned<DeValue>) -> anyhow::Result<Vec<Role>> {
        let role = |v: &Spanned<DeValue>| {
            let names = Role::ALL.map(|r| r.0);
            let place = self.source.right_name("role", &self.source.string(key, v)?, &names, &v.span())?;
            Ok(Role::ALL[place].1)
        };
        let roles: Vec<Role> =
            self.source.array(key, value)?.iter().map(role).collect::<anyhow::Result<_>>()?;
        if roles.is_empty() {
            return Err(self.source.error(&value.span(), "`roles` has no value, expected at least one"));
        }
        Ok(roles)
    }

    fn origin(&self, value: &Spanned<DeValue>, known: &[Entry]) -> anyhow::Result<Origin> {
        const KEYS: &[&str] = &["path", "hub", "package", "file", "model", "parts", "convert"];
        let source = &self.source;
        let DeValue::Table(table) = value.get_ref() else {
            return Err(source.wrong_type("sources", value, "tables such as `{ path = \"x.gguf\" }`"));
        };
        let mut convert = None;
        let mut parts: Option<Vec<Part>> = None;
        for (key, span, value) in items(table) {
            match key {
                "convert" => {
                    let names = CONVERTERS.map(Converter::name);
                    let wanted = source.string(key, value)?;
                    convert = Some(CONVERTERS[source.right_name("converter", &wanted, &names, &span)?]);
                }
                "parts" => {
                    let list = source.array(key, value)?;
                    if list.is_empty() {
                        return Err(source.error(&span, "`parts` has no value, expected at least one"));
                    }
                    parts =
                        Some(list.iter().map(|v| self.part(v, known, &[])).collect::<anyhow::Result<_>>()?);
                }
                _ if KEYS.contains(&key) => {}
                _ => return Err(source.unknown_key(&span, key, "a source", KEYS)),
            }
        }
        let parts = match parts {
            Some(_) if PART_KEYS.iter().any(|k| table.contains_key(*k)) => {
                return Err(source.error(&value.span(), "a source has either `parts` or one file"));
            }
            Some(parts) => parts,
            None => vec![self.part(value, known, &["convert"])?],
        };
        Ok(Origin { convert, parts })
    }

    /// One file; `beside` are keys that are not its own.
    fn part(&self, value: &Spanned<DeValue>, known: &[Entry], beside: &[&str]) -> anyhow::Result<Part> {
        let source = &self.source;
        let DeValue::Table(table) = value.get_ref() else {
            return Err(source.wrong_type("parts", value, "tables such as `{ path = \"x.gguf\" }`"));
        };
        let mut found: [Option<String>; PART_KEYS.len()] = Default::default();
        for (key, span, value) in items(table) {
            match PART_KEYS.iter().position(|k| *k == key) {
                Some(i) => found[i] = Some(source.string(key, value)?),
                None if beside.contains(&key) => {}
                None => return Err(source.unknown_key(&span, key, "a source", &PART_KEYS)),
            }
        }
        let wrong = |message: String| source.error(&value.span(), message);
        match found {
            [Some(path), None, None, None, None] => Ok(Part::Path(self.folder.join(path))),
            [None, Some(repository), None, Some(file), None] => {
                // Both become part of a URL.
                let plain = |s: &str| {
                    let sound = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
                    s.split('/').all(|p| !p.is_empty() && p != ".." && p != "." && p.chars().all(sound))
                };
                if !plain(&repository) || repository.matches('/').count() != 1 {
                    return Err(wrong(format!("`hub = \"{repository}\"` is not `owner/repository`")));
                }
                if !plain(&file) {
                    return Err(wrong(format!("`file = \"{file}\"` is not the path of a file on a hub")));
                }
                Ok(Part::Hub { repository, file })
            }
            [None, None, Some(package), Some(file), None] => {
                // An argument of pip: a name and a version, never an option or an address.
                let word = |s: &str| {
                    s.starts_with(|c: char| c.is_ascii_alphanumeric())
                        && s.chars().all(|c| c.is_ascii_alphanumeric() || "._-+!".contains(c))
                };
                match package.split_once("==") {
                    Some((name, version)) if word(name) && word(version) => {
                        Ok(Part::Package { package, file })
                    }
                    _ => Err(wrong(format!("`package = \"{package}\"` is not `name==version`"))),
                }
            }
            [None, None, None, None, Some(model)] => {
                let names: Vec<&str> = known.iter().map(|e| e.name.as_str()).collect();
                let place = source.right_name("model", &model, &names, &value.span())?;
                Ok(Part::Model(Box::new(known[place].clone())))
            }
            _ => Err(wrong(
                "a source has `path`, `hub` and `file`, `package` and `file`, or `model`".to_owned(),
            )),
        }
    }

    fn set(&self, name: &str, value: &Spanned<DeValue>, known: &Catalogue) -> anyhow::Result<Set> {
        let models: Vec<Named> = known.all().collect();
        let names: Vec<&str> = models.iter().map(|m| m.name()).collect();
        let roles = Role::ALL.map(|r| r.0);
        let mut set = Set { name: name.to_owned(), models: Vec::new() };
        for (key, span, value) in items(self.source.table(name, value)?) {
            let Some((_, role)) = Role::ALL.into_iter().find(|r| r.0 == key) else {
                return Err(self.source.unknown_key(&span, key, &format!("set `{name}`"), &roles));
            };
            let model = self.source.string(key, value)?;
            let place = self.source.right_name("model", &model, &names, &value.span())?;
            check_role(&model, models[place].roles(), role)
                .map_err(|why| self.source.error(&value.span(), why))?;
            set.models.push((role, model));
        }
        Ok(set)
    }
}

/// A name is also the stem of a file, and never mistaken for a path.
fn check_name(name: &str) -> Result<(), &'static str> {
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err("a name begins with a letter or digit");
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)) {
        return Err("a name is of letters, digits, `.`, `_` and `-`");
    }
    if is_path(name) {
        return Err("a name that ends in .gguf would be a path");
    }
    Ok(())
}

/// Whether a text names a file and not a model of the catalogue.
pub fn is_path(name: &str) -> bool {
    name.contains('/') || name.contains(std::path::MAIN_SEPARATOR) || name.ends_with(".gguf")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = "[[models]]\nname = \"own\"\nroles = [\"generator\"]\ncontext = 4096\nbytes = 5\nsha256 = \"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\"\n";

    fn over(text: &str) -> anyhow::Result<Catalogue> {
        let mut catalogue = Catalogue::load(None).unwrap();
        catalogue.add("own.toml", text, Path::new("/models"))?;
        Ok(catalogue)
    }

    #[test]
    fn the_built_in_file_is_sound() {
        let catalogue = Catalogue::load(None).unwrap();
        let default = catalogue.set(DEFAULT_SET).unwrap();
        for role in [Role::Scorer, Role::Generator, Role::Embedder] {
            assert!(default.model(role).is_some(), "{role:?}");
        }
        // Small enough for a laptop, free to use, and each with a source that needs pip alone.
        let all = catalogue.pick(&[DEFAULT_SET.to_owned(), "better".to_owned()]).unwrap();
        assert!(all.iter().all(|m| catalogue.entry(m.name()).unwrap().licence == "Apache-2.0"));
        let of = |name: &str| catalogue.entry(name).unwrap();
        let picked = catalogue.pick(&[DEFAULT_SET.to_owned()]).unwrap();
        let size: u64 = picked.iter().map(|m| of(m.name()).bytes).sum();
        assert!(size < 700_000_000, "{size}");
        for entry in &catalogue.entries {
            assert!(is_by_pip(entry), "{}", entry.name);
        }
        assert_eq!(catalogue.sets_of("smollm2-135m"), ["default", "better"]);
        assert!(catalogue.sets_of("gemma-3-270m").is_empty());
    }

    fn is_by_pip(entry: &Entry) -> bool {
        let part = |p: &Part| match p {
            Part::Package { .. } => true,
            Part::Model(model) => is_by_pip(model),
            _ => false,
        };
        entry.origins.iter().any(|o| o.parts.iter().all(part))
    }

    #[test]
    fn a_file_adds_and_overrides() {
        let text = format!(
            "{MODEL}sources = [{{ path = \"x.gguf\" }}, {{ hub = \"a/b\", file = \"c/d.gguf\" }}]\n[sets.default]\ngenerator = \"own\"\n"
        );
        let catalogue = over(&text).unwrap();
        let own = catalogue.entry("own").unwrap();
        assert_eq!(own.origins[0].in_place(), Some(Path::new("/models/x.gguf")));
        assert_eq!(own.origins[1].to_string(), "hub a/b, c/d.gguf");
        assert_eq!(catalogue.pick(&["default".to_owned(), "own".to_owned()]).unwrap(), [Named::File(own)]);
        let again = text.replace("\"own\"", "\"minilm-l6\"").replace("generator", "embedder");
        let catalogue = over(&again).unwrap();
        assert_eq!(catalogue.entry("minilm-l6").unwrap().bytes, 5);
        assert_eq!(catalogue.entries.len(), Catalogue::load(None).unwrap().entries.len());
    }

    #[test]
    fn what_is_wrong_is_told_with_line_and_nearest_name() {
        let with = |sources: &str| format!("{MODEL}sources = [{sources}]");
        let replaced = |a: &str, b: &str| with("{ path = \"x\" }").replace(a, b);
        let mut all = String::new();
        for text in [
            "[[model]]".to_owned(),
            "models = 3".to_owned(),
            replaced("context", "contxt"),
            replaced("generator", "generatr"),
            replaced("[\"generator\"]", "[]"),
            replaced("2cf2", "2cg2"),
            replaced("bytes = 5", "bytes = -5"),
            replaced("context = 4096", "context = 0"),
            replaced("context = 4096", "context = 4096\nwindow = 5000"),
            replaced("context = 4096", "context = 4096\nbatched = 1"),
            replaced("\"own\"", "\"own.gguf\""),
            replaced("\"own\"", "\"../own\""),
            replaced("\"own\"", "\"better\""),
            replaced("context = 4096\n", ""),
            format!("{0}\n{0}", with("{ path = \"x\" }")),
            with(""),
            with("\"x.gguf\""),
            with("{ url = \"x\" }"),
            with("{ hub = \"a/b\" }"),
            with("{ hub = \"a\", file = \"x\" }"),
            with("{ hub = \"a/b\", file = \"../x\" }"),
            with("{ package = \"a\", file = \"x\" }"),
            with("{ package = \"--index-url=x==1\", file = \"x\" }"),
            with("{ model = \"own\" }"),
            with("{ model = \"minilm-l6\", file = \"x\" }"),
            with("{ convert = \"minilm\", path = \"x\" }"),
            with("{ parts = [] }"),
            with("{ parts = [{ path = \"x\" }], path = \"y\" }"),
            "[sets.mine]\nwriter = \"minilm-l6\"".to_owned(),
            "[sets.mine]\nembedder = \"minilm-l12\"".to_owned(),
            "[sets.mine]\ngenerator = \"minilm-l6\"".to_owned(),
            "[sets.minilm-l6]\nembedder = \"minilm-l6\"".to_owned(),
        ] {
            all.push_str(&format!("{:#}\n\n", over(&text).unwrap_err()));
        }
        insta::assert_snapshot!(all, @r#"
        own.toml:1: unknown key `model` of the file
        hint: did you mean `models`? (known: models, servers, sets)

        own.toml:1: `models` is a whole number, expected tables, each under `[[models]]`

        own.toml:4: unknown key `contxt` of a model
        hint: did you mean `context`? (known: name, roles, about, licence, context, bytes, sha256, sources, window, memory, batched)

        own.toml:3: unknown role `generatr`
        hint: did you mean `generator`? (known: generator, scorer, embedder, tokenizer)

        own.toml:3: `roles` has no value, expected at least one

        own.toml:6: `sha256` is not 64 hex digits
        hint: `sha256sum FILE` prints it

        own.toml:5: `bytes = -5` is out of range

        own.toml:4: `context = 0`, expected at least 1

        own.toml:1: `window = 5000`, but the weights were made for 4096 tokens

        own.toml:5: `batched` is a whole number, expected true or false

        own.toml:2: `name = "own.gguf"`: a name that ends in .gguf would be a path

        own.toml:2: `name = "../own"`: a name begins with a letter or digit

        own.toml: a model has the name of the set `better`

        own.toml:1: `own` lacks context

        own.toml:8: a second model `own`

        own.toml:7: `sources` has no value, expected at least one

        own.toml:7: `sources` is a string, expected tables such as `{ path = "x.gguf" }`

        own.toml:7: unknown key `url` of a source
        hint: known: path, hub, package, file, model, parts, convert

        own.toml:7: a source has `path`, `hub` and `file`, `package` and `file`, or `model`

        own.toml:7: `hub = "a"` is not `owner/repository`

        own.toml:7: `file = "../x"` is not the path of a file on a hub

        own.toml:7: `package = "a"` is not `name==version`

        own.toml:7: `package = "--index-url=x==1"` is not `name==version`

        own.toml:7: unknown model `own`
        hint: known: smollm2-135m-q4_1, smollm2-135m, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b, minilm-l6, gemma-3-270m

        own.toml:7: a source has `path`, `hub` and `file`, `package` and `file`, or `model`

        own.toml:7: unknown converter `minilm`
        hint: did you mean `minilm-to-gguf`? (known: minilm-to-gguf, q4_1-to-q8_0)

        own.toml:7: `parts` has no value, expected at least one

        own.toml:7: a source has either `parts` or one file

        own.toml:2: unknown key `writer` of set `mine`
        hint: known: generator, scorer, embedder, tokenizer

        own.toml:2: unknown model `minilm-l12`
        hint: did you mean `minilm-l6`? (known: smollm2-135m-q4_1, smollm2-135m, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b, minilm-l6, gemma-3-270m)

        own.toml:2: `minilm-l6` is no generator
        hint: its roles are embedder, tokenizer

        own.toml:1: a set and a model are named `minilm-l6`
        "#);
        let near = |name: &str| Catalogue::load(None).unwrap().pick(&[name.to_owned()]).unwrap_err();
        assert!(near("defualt").to_string().contains("did you mean `default`?"));
        let unknown = near("qwen2.5-coder-15b");
        insta::assert_snapshot!(unknown, @r"
        unknown model or set `qwen2.5-coder-15b`
        hint: did you mean `qwen2.5-coder-1.5b`? (known: smollm2-135m-q4_1, smollm2-135m, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b, minilm-l6, gemma-3-270m, default, better); or the path of a GGUF, with a `/` in it or ending in .gguf
        ");
    }

    const SERVER: &str =
        "[[servers]]\nname = \"big\"\nroles = [\"generator\", \"scorer\"]\nurl = \"http://h:80/v1\"\n";

    #[test]
    fn a_server_is_a_model_like_any_other() {
        let text = format!(
            "{SERVER}model = \"m\"\napi_key_env = \"KEY\"\nkind = \"vllm\"\nwindow = 4096\nconcurrency = 8\ntimeout = 2.5\ndeadline = 60\nretries = 0\nbackoff = 1\n[sets.mine]\ngenerator = \"big\"\n"
        );
        let catalogue = over(&text).unwrap();
        let Named::Server(big) = catalogue.model("big").unwrap() else { panic!("no server") };
        let expected = server::Options {
            url: "http://h:80/v1".to_owned(),
            model: Some("m".to_owned()),
            api_key_env: Some("KEY".to_owned()),
            kind: Some(Kind::Vllm),
            window: Some(4096),
            concurrency: 8,
            timeout: 2.5,
            deadline: 60.0,
            retries: 0,
            backoff: 1.0,
        };
        assert_eq!((&big.options, &big.roles[..]), (&expected, &[Role::Generator, Role::Scorer][..]));
        assert_eq!(catalogue.pick(&["mine".to_owned()]).unwrap(), [Named::Server(big)]);
        assert_eq!(catalogue.sets_of("big"), ["mine"]);
        let no_file = catalogue.entry("big").unwrap_err().to_string();
        assert_eq!(no_file, "model `big` is no file: it is on the server http://h:80/v1");
        // What is not said is as if the URL alone were given.
        let defaults = server::Options { url: "http://h:80/v1".to_owned(), ..server::Options::default() };
        assert_eq!(over(SERVER).unwrap().servers[0].options, defaults);
        // One that has the name of a built-in model takes its place.
        let catalogue = over(&SERVER.replace("big", "qwen2.5-coder-0.5b")).unwrap();
        assert!(matches!(catalogue.model("qwen2.5-coder-0.5b").unwrap(), Named::Server(_)));
        assert_eq!(catalogue.all().count(), Catalogue::load(None).unwrap().entries.len());
    }

    #[test]
    fn what_is_wrong_with_a_server_is_told_with_its_line() {
        let with = |more: &str| format!("{SERVER}{more}");
        let mut all = String::new();
        for text in [
            SERVER.replace("[[servers]]", "[[server]]"),
            SERVER.replace("url = \"http://h:80/v1\"\n", ""),
            SERVER.replace("h:80", "me:secret@h:80"),
            SERVER.replace("generator", "writer"),
            with("timout = 3"),
            with("timeout = 0"),
            with("deadline = \"long\""),
            with("concurrency = 0"),
            with("window = 0"),
            with("retries = -1"),
            with("kind = \"open-ai\""),
            with("sha256 = \"x\""),
            format!("{SERVER}{SERVER}"),
            format!("{SERVER}[sets.mine]\nembedder = \"big\""),
        ] {
            all.push_str(&format!("{:#}\n\n", over(&text).unwrap_err()));
        }
        insta::assert_snapshot!(all, @r#"
        own.toml:1: unknown key `server` of the file
        hint: did you mean `servers`? (known: models, servers, sets)

        own.toml:1: `big` lacks url

        own.toml:4: the URL holds a password: name a variable with it in `api_key_env`

        own.toml:3: unknown role `writer`
        hint: known: generator, scorer, embedder, tokenizer

        own.toml:5: unknown key `timout` of a server
        hint: did you mean `timeout`? (known: name, roles, about, url, model, api_key_env, kind, window, concurrency, timeout, deadline, retries, backoff)

        own.toml:5: `timeout` must be more than 0 seconds, not 0

        own.toml:5: `deadline` is a string, expected a number

        own.toml:5: `concurrency` must be at least 1

        own.toml:5: `window = 0`, expected at least 1

        own.toml:5: `retries = -1` is out of range

        own.toml:5: unknown kind of server `open-ai`
        hint: did you mean `openai`? (known: llama-server, vllm, openai)

        own.toml:5: unknown key `sha256` of a server
        hint: known: name, roles, about, url, model, api_key_env, kind, window, concurrency, timeout, deadline, retries, backoff

        own.toml:5: a second model `big`

        own.toml:6: `big` is no embedder
        hint: its roles are generator, scorer
        "#);
        let no_url = over(&SERVER.replace("http://h", "h")).unwrap_err().to_string();
        assert!(no_url.starts_with("own.toml:4: "), "{no_url}");
    }
}
