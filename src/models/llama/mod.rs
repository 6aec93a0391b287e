//! llama.cpp, in child processes of this program: an abort inside it costs one call, not the run.
//!
//! The calls of all threads go to one worker, which answers them in any order. Where it dies, each call that it
//! had not answered is asked again in a worker of its own, one after the other: the one that kills it is told,
//! the others keep their answers. A worker that another process killed (`kill`, a session that ends, the system when
//! memory is short) says nothing against its calls: they are asked together up to [`KILLS`] times more. Answers do not depend
//! on what else a worker does (see `engine`), so they are the same however calls are spread over time, threads and workers.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::folder::Resolved;
use super::{Call, CallError, Card, Model, Outcome};

mod choose;
mod embedder;
mod engine;
mod template;
mod wire;
pub mod worker;

pub use wire::Loaded;
use wire::{Reply, Request};

/// The crate that holds llama.cpp's source, and so its version.
pub const BACKEND: &str = "llama-cpp-sys-2 0.1.161";
/// Raised when a change of this back end changes what it answers.
const REVISION: u32 = 3;
/// What llama.cpp was built for: set by the Makefile, see `tests/native.sh`.
pub const FLAVOUR: &str = match option_env!("TRAJPRESS_LLAMA_FLAVOUR") {
    Some(flavour) => flavour,
    None => "portable",
};

/// Part of the identity: weights are repacked unless the build was told otherwise, as by the project's `.cargo/config.toml`.
const PACKED: &str = match option_env!("GGML_CPU_REPACK") {
    Some(value) if matches!(value.as_bytes(), b"OFF") => "",
    _ => " repacked",
};

/// How often a worker is started again, or a call asked again, because another process killed the worker.
const KILLS: usize = 3;

/// What the weights are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Generates and scores.
    Text,
    /// Embeds.
    Embedder,
}

/// How a model is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// The GGUF.
    pub path: PathBuf,
    /// Its name in messages.
    pub name: String,
    /// Hash of the file, in hexadecimal.
    pub sha256: String,
    pub kind: Kind,
    /// Tokens a sequence, prompt and answer: at most what the weights were made for.
    pub window: u32,
    /// Contexts, each with a thread of its own: as many as cores.
    pub contexts: u32,
    /// Sequences generated side by side in each context; as many as fit `memory` if none is given.
    pub sequences: Option<u32>,
    /// MiB for the keys and values of one context.
    pub memory: u32,
    /// Written tokens are computed by the kernels of large batches also where there are few, so that any number of sequences
    /// write side by side. That matters to K-quants alone, slows few sequences, and changes bits: it is part of the identity.
    pub batched: bool,
    /// A worker that has work and says nothing for so many seconds is given up.
    pub stall: u64,
}

impl Options {
    /// How the catalogue says; else what suits most: a context for every core, 1 GiB each, a window of 8,192 tokens or those
    /// that the weights were made for.
    pub fn of(model: &Resolved) -> Self {
        let cores = thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let running = &model.running;
        Self {
            path: model.path.clone(),
            name: model.name.clone(),
            sha256: model.sha256.clone(),
            kind: if model.is_embedder() { Kind::Embedder } else { Kind::Text },
            window: running.window.unwrap_or(8192).min(model.context),
            contexts: cores,
            sequences: None,
            memory: running.memory.unwrap_or(1024),
            batched: running.batched,
            stall: 300,
        }
    }
}

/// A model in a worker, which is started when it is asked something.
pub struct Llama {
    card: Card,
    options: Options,
    /// The program that has the worker in it.
    program: PathBuf,
    shared: Mutex<Option<(Arc<Worker>, Loaded)>>,
    /// Workers for calls that are asked again, one at a time.
    alone: Mutex<()>,
}

/// Why a call has not been answered by its worker, or a worker did not start.
#[derive(Clone)]
struct Lost {
    error: CallError,
    /// Another process killed the worker.
    from_outside: bool,
}

impl From<CallError> for Lost {
    fn from(error: CallError) -> Self {
        Self { error, from_outside: false }
    }
}

/// Whether another process ended this one, by SIGHUP, SIGINT, SIGKILL or SIGTERM: what a program does to itself ends in
/// other signals.
fn from_outside(status: io::Result<ExitStatus>) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt as _;
        status.is_ok_and(|status| matches!(status.signal(), Some(1 | 2 | 9 | 15)))
    }
    #[cfg(not(unix))]
    {
        drop(status);
        false
    }
}

/// A running child process.
struct Worker {
    child: Mutex<Child>,
    to: Mutex<BufWriter<ChildStdin>>,
    desk: Mutex<Desk>,
    stall: Duration,
}

/// The calls that a worker has not answered yet.
struct Desk {
    /// None while it lives.
    ended: Option<Lost>,
    next: u64,
    waiting: HashMap<u64, Sender<Result<Outcome, Lost>>>,
    heard: Instant,
    /// Why it is being killed, if it is.
    killed: Option<CallError>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Llama {
    /// A model that loads its weights at the first call. `program` is this program: the one with `model-worker`.
    pub fn new(options: Options, program: &Path) -> Self {
        let card = Card {
            name: options.name.clone(),
            identity: format!(
                "{BACKEND} r{REVISION}, {FLAVOUR}{PACKED}{}, sha256 {}, window {}",
                if options.batched { ", batched" } else { "" },
                options.sha256,
                options.window
            ),
            window: options.window,
        };
        Self { card, options, program: program.to_owned(), shared: Mutex::default(), alone: Mutex::new(()) }
    }

    /// Loads the weights now; what the worker says of them.
    ///
    /// # Errors
    /// The model cannot be loaded, with its name and why.
    pub fn load(&self) -> anyhow::Result<Loaded> {
        let (_, loaded) =
            self.shared().map_err(|why| anyhow::anyhow!("model {}: {why}", self.options.name))?;
        Ok(loaded)
    }

    /// The worker of all threads, a new one if there is none or the last has died.
    fn shared(&self) -> Result<(Arc<Worker>, Loaded), CallError> {
        let mut shared = lock(&self.shared);
        match &*shared {
            Some((worker, loaded)) if lock(&worker.desk).ended.is_none() => {
                Ok((Arc::clone(worker), loaded.clone()))
            }
            _ => {
                let (worker, loaded) = self.start(&self.options)?;
                *shared = Some((Arc::clone(&worker), loaded.clone()));
                Ok((worker, loaded))
            }
        }
    }

    fn start(&self, options: &Options) -> Result<(Arc<Worker>, Loaded), CallError> {
        let mut kills = 0;
        loop {
            match Worker::start(options, &self.program) {
                Err(lost) if lost.from_outside && kills < KILLS => kills += 1,
                started => return started.map_err(|lost| lost.error),
            }
        }
    }

    /// Asks one call in a worker of its own.
    fn alone(&self, call: &Call) -> Outcome {
        let _one = lock(&self.alone);
        let options = Options { contexts: 1, sequences: Some(1), ..self.options.clone() };
        let mut kills = 0;
        loop {
            let (worker, _) = self.start(&options)?;
            let answer = worker.wait(&worker.submit(call));
            worker.kill(CallError::Failed("it is not needed any more".to_owned()));
            match answer {
                Ok(outcome) => return outcome,
                Err(lost) if lost.from_outside && kills < KILLS => kills += 1,
                Err(lost) => return Err(lost.error),
            }
        }
    }
}

impl Model for Llama {
    fn card(&self) -> &Card {
        &self.card
    }

    fn answer(&self, calls: &[Call]) -> Vec<Outcome> {
        let mut answers: Vec<Option<Outcome>> = calls.iter().map(|_| None).collect();
        let mut last = CallError::Failed("it was not asked".to_owned());
        // What another process killed is asked again together; what may have killed its worker, alone.
        for _ in 0..=KILLS {
            let open: Vec<usize> = (0..calls.len()).filter(|call| answers[*call].is_none()).collect();
            if open.is_empty() {
                break;
            }
            let worker = match self.shared() {
                Ok((worker, _)) => worker,
                Err(error) => {
                    return answers.into_iter().map(|answer| answer.unwrap_or(Err(error.clone()))).collect();
                }
            };
            let receivers: Vec<_> = open.iter().map(|call| worker.submit(&calls[*call])).collect();
            for (call, receiver) in open.into_iter().zip(&receivers) {
                answers[call] = match worker.wait(receiver) {
                    Ok(outcome) => Some(outcome),
                    Err(lost) if lost.from_outside => {
                        last = lost.error;
                        None
                    }
                    Err(_) => Some(self.alone(&calls[call])),
                };
            }
        }
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(last.clone()))).collect()
    }
}

impl Worker {
    fn start(options: &Options, program: &Path) -> Result<(Arc<Self>, Loaded), Lost> {
        let failed = |why: String| Lost::from(CallError::Failed(why));
        let mut child = Command::new(program)
            .arg("model-worker")
            .env("GGML_NO_BACKTRACE", "1")
            // Part of the identity, so never left to the environment.
            .env_remove("GGML_CPU_TILED_MM")
            .env("GGML_CPU_TILED_MM_FORCE", if options.batched { "1" } else { "0" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                failed(format!("its worker {} cannot be started: {error}", program.display()))
            })?;
        let to = BufWriter::new(child.stdin.take().expect("piped"));
        let mut from = BufReader::new(child.stdout.take().expect("piped"));
        let said = BufReader::new(child.stderr.take().expect("piped"));
        let worker = Arc::new(Self {
            child: Mutex::new(child),
            to: Mutex::new(to),
            desk: Mutex::new(Desk {
                ended: None,
                next: 0,
                waiting: HashMap::new(),
                heard: Instant::now(),
                killed: None,
            }),
            stall: Duration::from_secs(options.stall),
        });
        let complaint = Arc::new(Mutex::new(String::new()));
        let listener = {
            let complaint = Arc::clone(&complaint);
            thread::spawn(move || complaints(said, &complaint))
        };
        let (ready, loaded) = mpsc::channel();
        {
            let worker = Arc::clone(&worker);
            thread::spawn(move || {
                worker.listen(&mut from, &ready);
                let _ = listener.join();
                worker.bury(&lock(&complaint));
            });
        }
        // A frame that cannot be written shows as a worker that ended.
        let _ = wire::send(&mut *lock(&worker.to), &Request::Load(options.clone()));
        match loaded.recv_timeout(worker.stall) {
            Ok(Ok(loaded)) => Ok((worker, loaded)),
            Ok(Err(why)) => Err(failed(why)),
            Err(RecvTimeoutError::Timeout) => {
                worker.kill(CallError::Timeout(options.stall));
                Err(failed(format!("it was not loaded within {} seconds", options.stall)))
            }
            Err(RecvTimeoutError::Disconnected) => {
                // The listener buries it in a moment.
                let patience = Instant::now() + Duration::from_secs(5);
                while lock(&worker.desk).ended.is_none() && Instant::now() < patience {
                    thread::sleep(Duration::from_millis(5));
                }
                let ended = lock(&worker.desk).ended.clone();
                let why = ended.as_ref().map_or_else(String::new, |lost| lost.error.to_string());
                let lost = failed(format!("its worker ended while it loaded the weights ({why})"));
                Err(Lost { from_outside: ended.is_some_and(|ended| ended.from_outside), ..lost })
            }
        }
    }

    /// Hands replies to those who wait for them, until the worker has nothing more to say.
    fn listen(&self, from: &mut impl io::Read, ready: &Sender<Result<Loaded, String>>) {
        // A frame that cannot be read is the end of what can be understood.
        while let Ok(Some(reply)) = wire::receive::<Reply>(from) {
            lock(&self.desk).heard = Instant::now();
            match reply {
                Reply::Ready(loaded) => drop(ready.send(Ok(loaded))),
                Reply::Refused(why) => drop(ready.send(Err(why))),
                Reply::Alive => {}
                Reply::Done { id, outcome } => {
                    if let Some(waiting) = lock(&self.desk).waiting.remove(&id) {
                        // Nobody waits any more: nothing is lost.
                        let _ = waiting.send(Ok(outcome));
                    }
                }
            }
        }
        let _ = lock(&self.child).kill();
    }

    /// Tells all who still wait that the worker has ended.
    fn bury(&self, complaint: &str) {
        let status = lock(&self.child).wait();
        let said = status.as_ref().map_or_else(ToString::to_string, ToString::to_string);
        let mut desk = lock(&self.desk);
        let lost = match desk.killed.take() {
            Some(why) => Lost::from(why),
            None => {
                let complaint = complaint.trim();
                let said = if complaint.is_empty() { said } else { format!("{said}: {complaint}") };
                Lost { error: CallError::Aborted(said), from_outside: from_outside(status) }
            }
        };
        for (_, waiting) in desk.waiting.drain() {
            let _ = waiting.send(Err(lost.clone()));
        }
        desk.ended = Some(lost);
    }

    fn submit(&self, call: &Call) -> Receiver<Result<Outcome, Lost>> {
        let (sender, receiver) = mpsc::channel();
        let id = {
            let mut desk = lock(&self.desk);
            if let Some(lost) = &desk.ended {
                let _ = sender.send(Err(lost.clone()));
                return receiver;
            }
            if desk.waiting.is_empty() {
                desk.heard = Instant::now();
            }
            desk.next += 1;
            let id = desk.next;
            desk.waiting.insert(id, sender);
            id
        };
        // If the worker is gone, `bury` answers.
        let _ = wire::send(&mut *lock(&self.to), &Request::Work { id, call: call.clone() });
        receiver
    }

    /// Waits for an answer, as long as the worker shows that it lives.
    fn wait(&self, receiver: &Receiver<Result<Outcome, Lost>>) -> Result<Outcome, Lost> {
        loop {
            match receiver.recv_timeout(Duration::from_millis(500)) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(CallError::Aborted("its worker was lost".to_owned()).into());
                }
                Err(RecvTimeoutError::Timeout) => {
                    let silent = lock(&self.desk).heard.elapsed();
                    if silent > self.stall {
                        self.kill(CallError::Timeout(self.stall.as_secs()));
                    }
                }
            }
        }
    }

    fn kill(&self, why: CallError) {
        lock(&self.desk).killed.get_or_insert(why);
        let _ = lock(&self.child).kill();
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        if let Some((worker, _)) = &*lock(&self.shared) {
            worker.kill(CallError::Failed("the model was closed".to_owned()));
        }
    }
}

/// Keeps the last line of llama.cpp's log that sounds like a complaint.
fn complaints(said: impl BufRead, complaint: &Mutex<String>) {
    for line in said.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        let lower = line.to_lowercase();
        if ["error", "assert", "fail", "panicked", "corrupt", "invalid"]
            .iter()
            .any(|word| lower.contains(word))
        {
            *lock(complaint) = line.trim().chars().take(300).collect();
        }
    }
}
