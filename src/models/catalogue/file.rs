//! A file of models as it is written: TOML, whose wrong keys, names and values are told with their line.

use std::collections::{BTreeMap, HashSet};
use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;
use std::path::Path;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::{
    CONVERTERS, Catalogue, Converter, Entry, Origin, Part, Remote, Role, Running, Set, check_role, is_path,
};
use crate::models::server::{self, Kind};
use crate::settings::Source;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    models: Vec<Spanned<WrittenModel>>,
    servers: Vec<Spanned<WrittenServer>>,
    sets: BTreeMap<Spanned<String>, BTreeMap<Role, Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenModel {
    #[serde(deserialize_with = "name")]
    name: String,
    #[serde(deserialize_with = "some")]
    roles: Vec<Role>,
    #[serde(default)]
    about: String,
    #[serde(default)]
    licence: String,
    context: NonZeroU32,
    bytes: NonZeroU64,
    #[serde(deserialize_with = "sha256")]
    sha256: String,
    #[serde(deserialize_with = "some")]
    sources: Vec<Spanned<WrittenOrigin>>,
    window: Option<NonZeroU32>,
    memory: Option<NonZeroU32>,
    #[serde(default)]
    batched: bool,
}

/// One way to get a file: `parts`, or one of the others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "tables such as `{ path = \"x.gguf\" }`")]
struct WrittenOrigin {
    path: Option<String>,
    hub: Option<String>,
    package: Option<String>,
    file: Option<String>,
    model: Option<String>,
    #[serde(default, deserialize_with = "some_parts")]
    parts: Option<Vec<Spanned<WrittenOrigin>>>,
    convert: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenServer {
    #[serde(deserialize_with = "name")]
    name: String,
    #[serde(deserialize_with = "some")]
    roles: Vec<Role>,
    #[serde(default)]
    about: String,
    url: String,
    model: Option<String>,
    api_key_env: Option<String>,
    kind: Option<Kind>,
    window: Option<NonZeroU32>,
    concurrency: Option<usize>,
    timeout: Option<f64>,
    deadline: Option<f64>,
    retries: Option<u32>,
    backoff: Option<f64>,
}

fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    check_name(&name).map_err(D::Error::custom)?;
    Ok(name)
}

fn sha256<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let digits = String::deserialize(from)?.to_ascii_lowercase();
    let is_right = digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let wrong = || D::Error::custom("not 64 hex digits\nhint: `sha256sum FILE` prints it");
    is_right.then_some(digits).ok_or_else(wrong)
}

/// A list that is not empty.
fn some<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(from)?;
    if list.is_empty() { Err(D::Error::custom("expected at least one")) } else { Ok(list) }
}

fn some_parts<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<Vec<T>>, D::Error> {
    some(from).map(Some)
}

/// Adds the models and sets of a file; what has the same name is replaced. `folder` is what paths are
/// relative to.
pub(super) fn add(catalogue: &mut Catalogue, path: &str, text: &str, folder: &Path) -> anyhow::Result<()> {
    let source = &Source { path, text };
    let file: File = source.read()?;
    let mut seen = HashSet::new();
    let mut second = |at: &Range<usize>, name: &str| match seen.insert(name.to_owned()) {
        true => Ok(()),
        false => Err(source.error(at, format!("a second model `{name}`"))),
    };
    for written in file.models {
        let at = written.span();
        let entry = Reader { source, folder, known: &catalogue.entries }.entry(&at, written.into_inner())?;
        second(&at, &entry.name)?;
        catalogue.servers.retain(|s| s.name != entry.name);
        replace(&mut catalogue.entries, entry, |e| &e.name);
    }
    for written in file.servers {
        let at = written.span();
        let remote = remote(source, &at, written.into_inner())?;
        second(&at, &remote.name)?;
        catalogue.entries.retain(|e| e.name != remote.name);
        replace(&mut catalogue.servers, remote, |s| &s.name);
    }
    let mut sets: Vec<_> = file.sets.into_iter().collect();
    sets.sort_by_key(|(name, _)| name.span().start);
    for (name, models) in sets {
        let set = set(source, name.get_ref(), models, catalogue)?;
        if catalogue.all().any(|m| m.name() == name.get_ref()) {
            let message = format!("a set and a model are named `{}`", name.get_ref());
            return Err(source.error(&name.span(), message));
        }
        replace(&mut catalogue.sets, set, |s| &s.name);
    }
    if let Some(both) = catalogue.sets.iter().find(|s| catalogue.all().any(|m| m.name() == s.name)) {
        anyhow::bail!("{path}: a model has the name of the set `{}`", both.name);
    }
    Ok(())
}

/// Puts something in the place of what has its name, or at the end.
fn replace<T>(all: &mut Vec<T>, new: T, name: fn(&T) -> &str) {
    match all.iter().position(|old| name(old) == name(&new)) {
        Some(place) => all[place] = new,
        None => all.push(new),
    }
}

fn remote(source: &Source, at: &Range<usize>, written: WrittenServer) -> anyhow::Result<Remote> {
    let default = server::Options::default();
    let options = server::Options {
        url: written.url,
        model: written.model,
        api_key_env: written.api_key_env,
        kind: written.kind,
        window: written.window.map(NonZeroU32::get),
        concurrency: written.concurrency.unwrap_or(default.concurrency),
        timeout: written.timeout.unwrap_or(default.timeout),
        deadline: written.deadline.unwrap_or(default.deadline),
        retries: written.retries.unwrap_or(default.retries),
        backoff: written.backoff.unwrap_or(default.backoff),
    };
    options.check().map_err(|(key, why)| source.error(&source.place(at, key), why))?;
    Ok(Remote { name: written.name, roles: written.roles, about: written.about, options })
}

fn set(
    source: &Source,
    name: &str,
    written: BTreeMap<Role, Spanned<String>>,
    known: &Catalogue,
) -> anyhow::Result<Set> {
    let (names, roles): (Vec<&str>, Vec<&[Role]>) = known.all().map(|m| (m.name(), m.roles())).unzip();
    let mut models: Vec<_> = written.into_iter().collect();
    models.sort_by_key(|(_, model)| model.span().start);
    for (role, model) in &models {
        let place = source.right_name("model", model.get_ref(), &names, &model.span())?;
        check_role(model.get_ref(), roles[place], *role).map_err(|why| source.error(&model.span(), why))?;
    }
    let models = models.into_iter().map(|(role, model)| (role, model.into_inner())).collect();
    Ok(Set { name: name.to_owned(), models })
}

struct Reader<'a> {
    source: &'a Source<'a>,
    folder: &'a Path,
    /// Models that sources may name.
    known: &'a [Entry],
}

impl Reader<'_> {
    fn entry(&self, at: &Range<usize>, written: WrittenModel) -> anyhow::Result<Entry> {
        let context = written.context.get();
        if let Some(window) = written.window.filter(|window| window.get() > context) {
            let message = format!("`window = {window}`, but the weights were made for {context} tokens");
            return Err(self.source.error(at, message));
        }
        Ok(Entry {
            name: written.name,
            roles: written.roles,
            about: written.about,
            licence: written.licence,
            context,
            bytes: written.bytes.get(),
            sha256: written.sha256,
            origins: written.sources.into_iter().map(|s| self.origin(s)).collect::<Result<_, _>>()?,
            running: Running {
                window: written.window.map(NonZeroU32::get),
                memory: written.memory.map(NonZeroU32::get),
                batched: written.batched,
            },
        })
    }

    fn origin(&self, mut written: Spanned<WrittenOrigin>) -> anyhow::Result<Origin> {
        let convert = written.get_mut().convert.take().map(|wanted| {
            let names = CONVERTERS.map(Converter::name);
            let place = self.source.right_name("converter", wanted.get_ref(), &names, &wanted.span())?;
            anyhow::Ok(CONVERTERS[place])
        });
        let parts = match written.get_mut().parts.take() {
            None => vec![self.part(written)?],
            Some(parts) => {
                let one = written.get_ref();
                let one = [&one.path, &one.hub, &one.package, &one.file, &one.model];
                if one.into_iter().any(Option::is_some) {
                    let message = "a source has either `parts` or one file";
                    return Err(self.source.error(&written.span(), message));
                }
                parts.into_iter().map(|part| self.part(part)).collect::<Result<_, _>>()?
            }
        };
        Ok(Origin { convert: convert.transpose()?, parts })
    }

    /// One file.
    fn part(&self, written: Spanned<WrittenOrigin>) -> anyhow::Result<Part> {
        let at = written.span();
        let wrong = |message: String| self.source.error(&at, message);
        match written.into_inner() {
            WrittenOrigin { parts: None, convert: None, path, hub, package, file, model } => {
                match (path, hub, package, file, model) {
                    (Some(path), None, None, None, None) => Ok(Part::Path(self.folder.join(path))),
                    (None, Some(repository), None, Some(file), None) => {
                        hub_file(&repository, &file).map_err(wrong)?;
                        Ok(Part::Hub { repository, file })
                    }
                    (None, None, Some(package), Some(file), None) => match package.split_once("==") {
                        Some((name, version)) if is_word(name) && is_word(version) => {
                            Ok(Part::Package { package, file })
                        }
                        _ => Err(wrong(format!("`package = \"{package}\"` is not `name==version`"))),
                    },
                    (None, None, None, None, Some(model)) => {
                        let names: Vec<&str> = self.known.iter().map(|e| e.name.as_str()).collect();
                        let place = self.source.right_name("model", &model, &names, &at)?;
                        Ok(Part::Model(Box::new(self.known[place].clone())))
                    }
                    _ => {
                        let message =
                            "a source has `path`, `hub` and `file`, `package` and `file`, or `model`";
                        Err(wrong(message.to_owned()))
                    }
                }
            }
            _ => Err(wrong("a part has neither `parts` nor `convert`".to_owned())),
        }
    }
}

/// Whether both may become part of a URL.
fn hub_file(repository: &str, file: &str) -> Result<(), String> {
    let sound = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    let is_plain =
        |s: &str| s.split('/').all(|p| !p.is_empty() && p != ".." && p != "." && p.chars().all(sound));
    if !is_plain(repository) || repository.matches('/').count() != 1 {
        return Err(format!("`hub = \"{repository}\"` is not `owner/repository`"));
    }
    if !is_plain(file) {
        return Err(format!("`file = \"{file}\"` is not the path of a file on a hub"));
    }
    Ok(())
}

/// Part of an argument of pip: a name or a version, never an option or an address.
fn is_word(s: &str) -> bool {
    s.starts_with(|c: char| c.is_ascii_alphanumeric())
        && s.chars().all(|c| c.is_ascii_alphanumeric() || "._-+!".contains(c))
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
