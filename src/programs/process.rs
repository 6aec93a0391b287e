//! Programs that answer lines of JSON, kept alive between the questions of a run.
//!
//! Each thread takes one that is idle, or starts one. It stands in a group of processes of its own, and is killed with all that it
//! started when it fails and when the run ends ([`end`]), or is interrupted.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::files::{Stamps, hash, named, on_path, stamps};
use crate::files::ends::before_a_signal;

/// Version of the protocol.
const PROTOCOL: u32 = 1;
/// Bytes of an answer at most.
const LONGEST: u64 = 32 << 20;
/// Bytes of what a program said last on its standard error.
const LAST_WORDS: usize = 2000;
/// So often it is looked at whether one that says nothing has ended.
const LOOK: Duration = Duration::from_millis(200);
/// By this a process and all that it starts are told.
const MARK: &str = "TRAJPRESS_COMMAND";

/// A program, as an experiment names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    pub command: Vec<String>,
    pub files: Vec<String>,
    pub timeout: Duration,
    pub start_timeout: Duration,
}

/// What a program says of itself.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Hello {
    protocol: u32,
    pub name: String,
    version: String,
    /// Whether a strategy is shown what it left before, too.
    #[serde(default)]
    pub recursive: bool,
    /// Of one that scores: which values are better, between which they lie, and what one is.
    pub better: Option<String>,
    pub range: Option<[Option<f64>; 2]>,
    pub unit: Option<String>,
    /// Files that its answers depend on, beside those that the experiment names: what it has imported.
    #[serde(default)]
    files: Vec<String>,
}

/// Why there is no answer, with what the program said last.
#[derive(Clone, Debug)]
pub struct Failure {
    why: Why,
    last_words: String,
}

#[derive(Clone, Debug)]
enum Why {
    NotStarted(String),
    Late(f64),
    Ended(String),
    TooLong,
    Unusable { line: String, why: String },
    GivenUp(String),
}

/// So begins the failure of one that was asked too often for nothing.
pub const WAS_GIVEN_UP: &str = "was given up:";

/// What came in the place of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Nothing,
    TooLong,
    Unusable,
}

impl Failure {
    /// Of a program that is asked no more.
    pub fn given_up(why: String) -> Self {
        Failure { why: Why::GivenUp(why), last_words: String::new() }
    }

    /// Whether it was waited for in vain.
    pub fn is_late(&self) -> bool {
        matches!(self.why, Why::Late(_))
    }

    pub fn is_given_up(&self) -> bool {
        matches!(self.why, Why::GivenUp(_))
    }

    pub fn what(&self) -> What {
        match self.why {
            Why::NotStarted(_) | Why::Late(_) | Why::Ended(_) | Why::GivenUp(_) => What::Nothing,
            Why::TooLong => What::TooLong,
            Why::Unusable { .. } => What::Unusable,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::NotStarted(error) => write!(f, "{error}")?,
            Why::Late(seconds) => write!(f, "no answer within {seconds} s")?,
            Why::Ended(status) => write!(f, "it ended ({status})")?,
            Why::TooLong => write!(f, "an answer of more than {} MB", LONGEST >> 20)?,
            Why::GivenUp(why) => write!(f, "{WAS_GIVEN_UP} {why}")?,
            Why::Unusable { line, why } => {
                let begin: String = line.chars().take(80).collect();
                write!(f, "it wrote `{begin}`: {why}")?;
                let is_json = serde_json::from_str::<IgnoredAny>(line).is_ok();
                if !is_json && !line.starts_with('{') {
                    write!(f, "\nhint: its standard output is for answers alone")?;
                }
            }
        }
        match self.last_words.trim() {
            "" => Ok(()),
            words => write!(f, "\nit last said: {words}"),
        }
    }
}

enum Line {
    Whole(String),
    TooLong,
    End,
}

/// What goes to a program, and what comes from it.
struct Talk {
    requests: Sender<Vec<u8>>,
    lines: Receiver<Line>,
    errors: Arc<Mutex<VecDeque<u8>>>,
    listener: Option<JoinHandle<()>>,
}

pub struct Process {
    child: Child,
    mark: String,
    talk: Talk,
    files: Stamps,
    number: u64,
    pub hello: Hello,
    /// Name, version and hash of the files, when it started.
    pub program: String,
}

static IDLE: LazyLock<Mutex<HashMap<Spec, Vec<Process>>>> = LazyLock::new(Mutex::default);
/// Processes that run.
static RUNNING: LazyLock<Mutex<Running>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Running {
    /// With their marks.
    marks: BTreeMap<u32, String>,
    /// Whether a signal ends us: none is started any more.
    is_ending: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process of this program that answers nobody: one that is there, or a new one.
pub fn take(spec: &Spec) -> Result<Process, Failure> {
    let idle = locked(&IDLE).get_mut(spec).and_then(Vec::pop);
    idle.map_or_else(|| Process::start(spec), Ok)
}

/// Gives it back.
pub fn put(spec: &Spec, process: Process) {
    locked(&IDLE).entry(spec.clone()).or_default().push(process);
}

/// Kills those that answer nobody, with what they started.
pub fn end_idle() {
    let idle = std::mem::take(&mut *locked(&IDLE));
    drop(idle);
}

/// Kills all programs, with what they started.
pub fn end() {
    let running = locked(&RUNNING).marks.clone();
    running.iter().for_each(|(id, mark)| kill(*id, mark));
    end_idle();
}

/// Where a signal ends us, whoever asks a program waits for that: what fails by now does so because we kill it, and is nothing to be told.
fn wait_if_ending() {
    while locked(&RUNNING).is_ending {
        thread::sleep(LOOK);
    }
}

impl Process {
    fn start(spec: &Spec) -> Result<Self, Failure> {
        let failure = |why| Failure { why, last_words: String::new() };
        let not_started = |error: String| failure(Why::NotStarted(error));
        let (name, arguments) =
            spec.command.split_first().ok_or_else(|| not_started("no program".to_owned()))?;
        let files = Vec::new();
        hash(&named(&spec.command, &spec.files)).map_err(not_started)?;
        die_with_us();
        let mark = mark();
        let mut command = std::process::Command::new(name);
        // The order of Python's sets is drawn anew for each process, and answers with it.
        command.args(arguments).env(MARK, &mark).env("PYTHONHASHSEED", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = loop {
            wait_if_ending();
            // Under one lock: whoever ends all knows of all.
            let mut running = locked(&RUNNING);
            if !running.is_ending {
                let child = command.spawn().map_err(|error| not_started(format!("`{name}`: {error}")))?;
                running.marks.insert(child.id(), mark.clone());
                break child;
            }
        };
        let talk = talk(&mut child);
        let (hello, program) = Default::default();
        let mut process = Process { child, mark, talk, files, number: 0, hello, program };
        let line = process.ask(&json!({"protocol": PROTOCOL}), spec.start_timeout)?;
        let hello: Hello = serde_json::from_str(&line)
            .map_err(|error| process.unusable(&line, &format!("it is no greeting ({error})")))?;
        let is_name = |text: &str| text.chars().count() <= 80 && !text.contains(char::is_control);
        if hello.name.trim().is_empty() || !is_name(&hello.name) || !is_name(&hello.version) {
            let why = "its name and version are to be one line each, of at most 80 characters";
            return Err(process.unusable(&line, why));
        }
        if hello.protocol != PROTOCOL {
            let why = format!("its protocol is {}, that of trajpress {PROTOCOL}", hello.protocol);
            return Err(process.unusable(&line, &why));
        }
        process.hello = hello;
        let files = process.files_of(spec);
        process.program = hash(&files).map(|hash| told(&process.hello, &hash)).map_err(not_started)?;
        process.files = stamps(files);
        Ok(process)
    }

    fn files_of(&self, spec: &Spec) -> Vec<String> {
        let mut files = named(&spec.command, &spec.files);
        files.extend(self.hello.files.iter().filter(|file| Path::new(file).is_file()).cloned());
        if files.is_empty() {
            files.extend(on_path(&spec.command));
        }
        let mut seen = HashSet::new();
        files.retain(|file| seen.insert(std::fs::canonicalize(file).unwrap_or_else(|_| file.into())));
        files
    }

    /// What a change of the program may go unnoticed by: no file of it is known but one that may be an interpreter.
    pub fn warning(&self, spec: &Spec) -> Option<String> {
        let files: Vec<&str> = self.files.iter().map(|(name, _)| name.as_str()).collect();
        let what = match files[..] {
            [] => "no file of it is".to_owned(),
            [file] if spec.command.len() > 1 && on_path(&spec.command).as_deref() == Some(file) => {
                format!("`{file}` alone is")
            }
            _ => return None,
        };
        Some(format!(
            "{what} hashed, and other changes of it go unnoticed\nhint: name `files` that its answers depend on"
        ))
    }

    /// The number of its next request.
    pub fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Asks it; one that failed is not to be asked again.
    pub fn ask(&mut self, request: &Value, timeout: Duration) -> Result<String, Failure> {
        // What it wrote before it was asked is no answer.
        if let Ok(Line::Whole(line)) = self.talk.lines.try_recv() {
            return Err(self.unusable(&line, "nobody had asked"));
        }
        let mut text = request.to_string().into_bytes();
        text.push(b'\n');
        // That it takes nothing any more shows in that it answers nothing.
        let _ = self.talk.requests.send(text);
        let heard = self.hear(timeout);
        wait_if_ending();
        match heard {
            Ok(Line::Whole(line)) => Ok(line),
            Ok(Line::TooLong) => Err(self.failure(Why::TooLong)),
            Err(RecvTimeoutError::Timeout) => Err(self.failure(Why::Late(timeout.as_secs_f64()))),
            Ok(Line::End) | Err(RecvTimeoutError::Disconnected) => {
                let status = self.ended(Duration::from_secs(1));
                let is_heard = |listener: &JoinHandle<()>| listener.is_finished();
                for _ in 0..40 {
                    if self.talk.listener.as_ref().is_none_or(is_heard) {
                        break;
                    }
                    thread::sleep(Duration::from_millis(5));
                }
                Err(self.failure(Why::Ended(status)))
            }
        }
    }

    /// The next line. One that has ended says no more, though a child of it may hold its output open.
    fn hear(&mut self, timeout: Duration) -> Result<Line, RecvTimeoutError> {
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.talk.lines.recv_timeout(left.min(LOOK)) {
                Err(RecvTimeoutError::Timeout) if left <= LOOK => return Err(RecvTimeoutError::Timeout),
                Err(RecvTimeoutError::Timeout) if matches!(self.child.try_wait(), Ok(Some(_))) => {
                    // What it wrote last may be on its way.
                    return self.talk.lines.recv_timeout(LOOK).map_err(|_| RecvTimeoutError::Disconnected);
                }
                Err(RecvTimeoutError::Timeout) => {}
                heard => return heard,
            }
        }
    }

    /// What it is now: its files may have changed since it started.
    pub fn now(&mut self, spec: &Spec) -> anyhow::Result<String> {
        let known = self.files.iter().map(|(name, _)| name.clone());
        if stamps(known.collect()) != self.files {
            let files = self.files_of(spec);
            self.program = told(&self.hello, &hash(&files).map_err(anyhow::Error::msg)?);
            self.files = stamps(files);
        }
        Ok(self.program.clone())
    }

    /// A line of it that is no answer.
    pub fn unusable(&self, line: &str, why: &str) -> Failure {
        self.failure(Why::Unusable { line: line.to_owned(), why: why.to_owned() })
    }

    fn failure(&self, why: Why) -> Failure {
        let words: Vec<u8> = locked(&self.talk.errors).iter().copied().collect();
        Failure { why, last_words: String::from_utf8_lossy(&words).into_owned() }
    }

    /// How it ended, if it does so soon.
    fn ended(&mut self, within: Duration) -> String {
        let start = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.to_string(),
                Ok(None) if start.elapsed() < within => thread::sleep(Duration::from_millis(5)),
                Ok(None) => return "its output is closed".to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        kill(self.child.id(), &self.mark);
        let _ = self.child.kill();
        self.ended(Duration::from_secs(1));
        locked(&RUNNING).marks.remove(&self.child.id());
    }
}

/// Threads that write to a program and read from it: neither waits for the other.
fn talk(child: &mut Child) -> Talk {
    let (requests, to_write) = mpsc::channel::<Vec<u8>>();
    // A program that writes on and on has to wait.
    let (read, lines) = mpsc::sync_channel(4);
    let errors = Arc::new(Mutex::new(VecDeque::new()));
    let kept = Arc::clone(&errors);
    if let Some(mut stdin) = child.stdin.take() {
        thread::spawn(move || {
            for text in to_write {
                if stdin.write_all(&text).and_then(|()| stdin.flush()).is_err() {
                    return;
                }
            }
        });
    }
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || read_lines(stdout, &read));
    }
    let listener = child.stderr.take().map(|stderr| thread::spawn(move || keep_end(stderr, &kept)));
    Talk { requests, lines, errors, listener }
}

fn read_lines(stdout: impl Read, to: &SyncSender<Line>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut bytes = Vec::new();
        let line = match stdout.by_ref().take(LONGEST).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => Line::End,
            Ok(n) if n as u64 == LONGEST => Line::TooLong,
            Ok(_) => Line::Whole(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
        };
        let is_last = !matches!(line, Line::Whole(_));
        if to.send(line).is_err() || is_last {
            return;
        }
    }
}

fn keep_end(mut stderr: impl Read, kept: &Mutex<VecDeque<u8>>) {
    let mut bytes = [0; 4096];
    while let Some(n) = stderr.read(&mut bytes).ok().filter(|n| *n > 0) {
        let mut kept = locked(kept);
        kept.extend(&bytes[..n]);
        let over = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..over);
    }
}

fn told(hello: &Hello, hash: &str) -> String {
    format!("{} {} #{hash}", hello.name, hello.version)
}

fn mark() -> String {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    format!("{}-{now}-{}", std::process::id(), NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}

/// Kills a group of processes, and what has left it but bears its mark.
#[cfg(unix)]
fn kill(group: u32, mark: &str) {
    let shell = |ids: &[String]| {
        // The shell can kill; a program of that name is not everywhere.
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "kill -KILL \"$@\"", "sh"]).args(ids);
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    };
    shell(&[format!("-{group}")]);
    let marked = format!("{MARK}={mark}");
    let bears = |id: &String| {
        let about = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        about.split(|byte| *byte == 0).any(|one| one == marked.as_bytes())
    };
    // What one of them starts before it is killed stands in the next list.
    for _ in 0..5 {
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let left: Vec<String> =
            ids.filter(|id| id.bytes().all(|b| b.is_ascii_digit()) && bears(id)).collect();
        if left.is_empty() {
            return;
        }
        shell(&left);
    }
}

#[cfg(not(unix))]
fn kill(_: u32, _: &str) {}

/// Whoever interrupts us ends the programs, too: they stand in groups of their own, which the terminal does not reach.
fn die_with_us() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        before_a_signal(|| {
            locked(&RUNNING).is_ending = true;
            end();
        });
    });
}
