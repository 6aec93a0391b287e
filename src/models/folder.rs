//! The folder of models, and which file of it, or of any other place, is a verified model.
//!
//! A file's hash is kept in a stamp beside its size and time of change, so that a start of a run does not read
//! gigabytes; [`Folder::check`] always reads them. All stamps are in the folder of models, those of files elsewhere
//! too: nothing is written beside what is not ours.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::files::reach;

use super::catalogue::{Catalogue, Entry, Role, Running, is_path};
use super::gguf;

/// Where verified models are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    dir: PathBuf,
}

/// A model as a file whose bytes are known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// The name in the catalogue, or the path as it was given.
    pub name: String,
    pub path: PathBuf,
    /// Hash of the file, 64 hex digits.
    pub sha256: String,
    pub bytes: u64,
    /// What it can be used for, the best first.
    pub roles: Vec<Role>,
    /// Tokens it was trained to read at once.
    pub context: u32,
    #[serde(skip)]
    pub running: Running,
}

impl Resolved {
    /// Whether it gives vectors and no text.
    pub fn is_embedder(&self) -> bool {
        self.roles.contains(&Role::Embedder)
            && !self.roles.iter().any(|role| matches!(role, Role::Generator | Role::Scorer))
    }
}

/// What a look at a model found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Ok(Resolved),
    /// No file.
    Missing,
    /// A file that is not the model, and why.
    Wrong(String),
}

/// The hash of a file that was not changed since.
#[derive(PartialEq, Serialize, Deserialize)]
struct Stamp {
    path: PathBuf,
    bytes: u64,
    /// Time of change, nanoseconds since 1970.
    changed: u128,
    sha256: String,
}

impl Folder {
    /// The folder at a path, which need not exist.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Folder { dir: dir.into() }
    }

    /// `TRAJPRESS_MODELS`, else `trajpress/models` in `XDG_CACHE_HOME`, else in `~/.cache`.
    ///
    /// Fails if none of the three variables (the last is `HOME`) is set.
    pub fn of_environment() -> anyhow::Result<Self> {
        let set = |name| std::env::var_os(name).filter(|v: &OsString| !v.is_empty()).map(PathBuf::from);
        let dir = set("TRAJPRESS_MODELS")
            .or_else(|| Some(set("XDG_CACHE_HOME")?.join("trajpress/models")))
            .or_else(|| Some(set("HOME")?.join(".cache/trajpress/models")));
        dir.map(Folder::at).context("no folder for models\nhint: set TRAJPRESS_MODELS to one")
    }

    /// The path of the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where a fetched model stands.
    pub fn path(&self, entry: &Entry) -> PathBuf {
        self.dir.join(format!("{}.gguf", entry.name))
    }

    /// The verified file of a model: a name of the catalogue, or the path of any GGUF. Fetches nothing.
    ///
    /// Fails, with the cure, if the name is unknown, the file is missing, or its bytes are not the model's.
    pub fn resolve(&self, catalogue: &Catalogue, name: &str) -> anyhow::Result<Resolved> {
        if is_path(name) {
            return self.any(name, &mut |_| {}, Trust::Stamp);
        }
        let entry = catalogue.entry(name)?;
        match self.find(entry) {
            State::Ok(resolved) => Ok(resolved),
            State::Missing => Err(anyhow::anyhow!(
                "model `{name}` is not in {}\nhint: run `trajpress models fetch {name}`",
                self.dir.display()
            )),
            State::Wrong(why) => Err(anyhow::anyhow!("{why}\nhint: run `trajpress models fetch {name}`")),
        }
    }

    /// Looks for a model of the catalogue; a file with a stamp is not read again.
    pub fn find(&self, entry: &Entry) -> State {
        self.look(entry, &mut |_| {}, Trust::Stamp)
    }

    /// Reads the model's file, whatever its stamp says. `step` is told of bytes that were read.
    pub fn check(&self, entry: &Entry, step: &mut dyn FnMut(u64)) -> State {
        match self.look(entry, step, Trust::Nothing) {
            // The right bytes of no model: a wrong entry in a file of the user's.
            State::Ok(model) => match gguf::read(&model.path) {
                Ok(_) => State::Ok(model),
                Err(error) => State::Wrong(format!("{error:#}")),
            },
            other => other,
        }
    }

    /// Reads any GGUF, whatever its stamp says. Fails if it is missing, no GGUF, or truncated.
    pub fn check_path(&self, path: &str, step: &mut dyn FnMut(u64)) -> anyhow::Result<Resolved> {
        self.any(path, step, Trust::Nothing)
    }

    /// Where the model's file may be: in the folder, or where the catalogue says that it stands.
    fn look(&self, entry: &Entry, step: &mut dyn FnMut(u64), trust: Trust) -> State {
        let places = entry.origins.iter().filter_map(|o| o.in_place().map(Path::to_owned));
        let mut state = State::Missing;
        for path in std::iter::once(self.path(entry)).chain(places) {
            match self.verify_by(&path, entry, step, trust) {
                Ok(resolved) => return State::Ok(resolved),
                Err(error) => {
                    let is_missing = reach::is_there(&path).is_ok_and(|is_there| !is_there);
                    if !is_missing && state == State::Missing {
                        state = State::Wrong(format!("{error:#}"));
                    }
                }
            }
        }
        state
    }

    /// The model, if it is the file at a path; a file with a stamp is not read again.
    pub(super) fn verify(&self, path: &Path, entry: &Entry) -> anyhow::Result<Resolved> {
        self.verify_by(path, entry, &mut |_| {}, Trust::Stamp)
    }

    fn verify_by(
        &self,
        path: &Path,
        entry: &Entry,
        step: &mut dyn FnMut(u64),
        trust: Trust,
    ) -> anyhow::Result<Resolved> {
        let bytes = gguf::regular(path)?.len();
        ensure!(bytes == entry.bytes, "{} has {bytes} bytes, expected {}", path.display(), entry.bytes);
        let sha256 = self.hash(path, step, trust)?;
        ensure!(sha256 == entry.sha256, "{} has sha256 {sha256}, expected {}", path.display(), entry.sha256);
        Ok(resolved(entry, path))
    }

    fn any(&self, name: &str, step: &mut dyn FnMut(u64), trust: Trust) -> anyhow::Result<Resolved> {
        let path = Path::new(name);
        let header = gguf::read(path)?;
        let roles = match header.is_embedder {
            true => vec![Role::Embedder, Role::Tokenizer],
            false => vec![Role::Generator, Role::Scorer, Role::Tokenizer],
        };
        let context = header.context.with_context(|| {
            format!("{name} does not say its context length\nhint: convert it anew with a present llama.cpp")
        })?;
        let sha256 = self.hash(path, step, trust)?;
        let bytes = fs::metadata(path)?.len();
        Ok(Resolved {
            name: name.to_owned(),
            path: path.to_owned(),
            sha256,
            bytes,
            roles,
            context,
            running: Running::default(),
        })
    }

    /// Hash of a file, by its stamp where there is one and it may be trusted.
    fn hash(&self, path: &Path, step: &mut dyn FnMut(u64), trust: Trust) -> anyhow::Result<String> {
        let before = stamp(path)?;
        let place = self.stamp_place(&before.path);
        if let (Trust::Stamp, Ok(text)) = (trust, fs::read(&place))
            && let Ok(known) = serde_json::from_slice::<Stamp>(&text)
            && (&known.path, known.bytes, known.changed) == (&before.path, before.bytes, before.changed)
        {
            return Ok(known.sha256);
        }
        let sha256 = sha256(path, step)?;
        self.remember(Stamp { sha256: sha256.clone(), ..before });
        Ok(sha256)
    }

    /// Notes the hash of a file that was just written.
    pub(super) fn note(&self, path: &Path, sha256: &str) {
        if let Ok(stamp) = stamp(path) {
            self.remember(Stamp { sha256: sha256.to_owned(), ..stamp });
        }
    }

    /// Where a stamp cannot be written, the file is read again the next time: no reason to fail.
    fn remember(&self, stamp: Stamp) {
        let place = self.stamp_place(&stamp.path);
        let draft = place.with_extension(format!("{}.draft", std::process::id()));
        let write = || {
            fs::create_dir_all(self.dir.join("stamps"))?;
            fs::write(&draft, serde_json::to_vec(&stamp)?)?;
            fs::rename(&draft, &place)
        };
        if let Err(error) = write() {
            tracing::debug!("no stamp {}: {error}", place.display());
        }
    }

    fn stamp_place(&self, path: &Path) -> PathBuf {
        let name = hex(&Sha256::digest(path.as_os_str().as_encoded_bytes()));
        self.dir.join("stamps").join(format!("{}.json", &name[..16]))
    }
}

/// What may stand for the bytes of a file.
#[derive(Clone, Copy, PartialEq)]
enum Trust {
    Stamp,
    Nothing,
}

/// A model of the catalogue at a path that holds its bytes.
pub(super) fn resolved(entry: &Entry, path: &Path) -> Resolved {
    Resolved {
        name: entry.name.clone(),
        path: path.to_owned(),
        sha256: entry.sha256.clone(),
        bytes: entry.bytes,
        roles: entry.roles.clone(),
        context: entry.context,
        running: entry.running.clone(),
    }
}

fn stamp(path: &Path) -> anyhow::Result<Stamp> {
    let cannot = || format!("cannot read {}", path.display());
    let metadata = gguf::regular(path)?;
    let changed = metadata.modified().with_context(cannot)?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Stamp {
        path: fs::canonicalize(path).with_context(cannot)?,
        bytes: metadata.len(),
        changed: changed.as_nanos(),
        sha256: String::new(),
    })
}

fn sha256(path: &Path, step: &mut dyn FnMut(u64)) -> anyhow::Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let mut file = File::open(path).with_context(cannot)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hash.finalize())),
            Ok(n) => {
                hash.update(&buffer[..n]);
                step(n as u64);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e).with_context(cannot),
        }
    }
}

/// Lower-case hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::catalogue::{Origin, Part};
    use crate::models::gguf::tests::tiny;

    fn entry(bytes: &[u8], at: &Path) -> Entry {
        Entry {
            name: "own".to_owned(),
            roles: vec![Role::Generator],
            about: String::new(),
            licence: String::new(),
            context: 512,
            bytes: bytes.len() as u64,
            sha256: hex(&Sha256::digest(bytes)),
            origins: vec![Origin { convert: None, parts: vec![Part::Path(at.to_owned())] }],
            running: Running::default(),
        }
    }

    fn of(entry: Entry) -> Catalogue {
        Catalogue { entries: vec![entry], servers: Vec::new(), sets: Vec::new() }
    }

    #[test]
    fn a_model_is_used_where_it_stands() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, path) = (Folder::at(dir.path().join("models")), dir.path().join("x.gguf"));
        let catalogue = of(entry(b"model", &path));
        let missing = folder.resolve(&catalogue, "own").unwrap_err().to_string();
        assert!(missing.starts_with("model `own` is not in "), "{missing}");
        assert!(missing.ends_with("hint: run `trajpress models fetch own`"), "{missing}");
        fs::write(&path, b"model").unwrap();
        let found = folder.resolve(&catalogue, "own").unwrap();
        assert_eq!((found.path, found.context), (path, 512));
    }

    #[test]
    fn a_stamp_stands_for_a_file_until_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path());
        let path = dir.path().join("own.gguf");
        let catalogue = of(entry(b"model", Path::new("/nowhere")));
        fs::write(&path, b"model").unwrap();
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        let again = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
        };
        folder.resolve(&catalogue, "own").unwrap();
        again(b"mudel");
        folder.resolve(&catalogue, "own").expect("same size and time: not read again");
        let State::Wrong(why) = folder.check(&catalogue.entries[0], &mut |_| {}) else {
            panic!("a check reads the file")
        };
        assert!(why.contains("has sha256") && why.contains("expected"), "{why}");
        let wrong = folder.resolve(&catalogue, "own").unwrap_err().to_string();
        assert!(wrong.ends_with("hint: run `trajpress models fetch own`"), "{wrong}");
        again(b"longer");
        let State::Wrong(why) = folder.find(&catalogue.entries[0]) else { panic!() };
        assert!(why.ends_with("has 6 bytes, expected 5"), "{why}");
    }

    #[test]
    fn any_gguf_resolves_by_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().join("models"));
        let path = dir.path().join("x.gguf").display().to_string();
        fs::write(&path, tiny("llama")).unwrap();
        let found = folder.resolve(&of(entry(b"", Path::new("/nowhere"))), &path).unwrap();
        assert_eq!(
            (found.name.as_str(), found.context, found.roles[0]),
            (path.as_str(), 512, Role::Generator)
        );
        assert_eq!(found.sha256, hex(&Sha256::digest(tiny("llama"))));
        // Its stamp is ours, and so in our folder; beside the file stands nothing new.
        let beside = |at: &Path| fs::read_dir(at).unwrap().count();
        assert_eq!((beside(dir.path()), beside(&dir.path().join("models/stamps"))), (2, 1));
        fs::write(&path, &tiny("llama")[..150]).unwrap();
        let error = format!("{:#}", folder.check_path(&path, &mut |_| {}).unwrap_err());
        assert!(error.contains("truncated"), "{error}");
    }

    #[test]
    #[cfg(unix)]
    fn what_is_no_regular_file_is_told_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().join("models"));
        let pipe = dir.path().join("pipe.gguf");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let subfolder = dir.path().join("folder.gguf");
        fs::create_dir(&subfolder).unwrap();
        for path in [&pipe, &subfolder] {
            let catalogue = of(entry(b"model", path));
            let expected = format!("{} is no regular file", path.display());
            let by_path = folder.resolve(&catalogue, &path.display().to_string()).unwrap_err().to_string();
            assert!(by_path.starts_with(&expected), "{by_path}");
            let by_name = folder.resolve(&catalogue, "own").unwrap_err().to_string();
            assert!(by_name.starts_with(&expected), "{by_name}");
            assert!(gguf::read(path).unwrap_err().to_string().starts_with(&expected));
        }
    }
}
