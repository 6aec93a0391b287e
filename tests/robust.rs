//! The program under attack: two writers in one folder, kills, flipped bits, mutated logs, bombs, names that act.
//!
//! Each test has a short form, which runs with all others, and a long one: `make soak` (TRAJPRESS_SOAK=1). Seeds are
//! fixed. docs/testing.md says what they found.

mod beside;
mod databases;
mod formats;
mod memory;
mod mutants;
mod output;
mod passing;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use trajpress::internals::store::{self, TrajectoryRow};
use trajpress::{IngestMode, IngestOptions as Options, ingest};

/// How often something is tried: few times, or in the long form many.
fn times(short: usize, long: usize) -> usize {
    if std::env::var_os("TRAJPRESS_SOAK").is_some() { long } else { short }
}

/// Does something in as many threads as there are processors: each knows its number and how many there are.
fn in_threads<T: Send>(work: impl Fn(usize, usize) -> T + Sync) -> Vec<T> {
    let n = std::thread::available_parallelism().map_or(1, usize::from);
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n).map(|thread| scope.spawn(move || work(thread, n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Keeps an input that shows a fault, if TRAJPRESS_KEEP names a folder.
fn keep(name: &str, bytes: &[u8]) {
    if let Some(folder) = std::env::var_os("TRAJPRESS_KEEP") {
        fs::write(Path::new(&folder).join(name.replace('/', "_")), bytes).unwrap();
    }
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    /// In memory where the system has such a folder: for what is written thousands of times.
    fn light() -> Self {
        let memory = Path::new("/dev/shm");
        Place(if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Some logs of the built-in data.
    fn logs(&self) -> PathBuf {
        let logs = self.at("logs");
        if !logs.exists() {
            fs::create_dir(&logs).unwrap();
            for path in some_logs(12) {
                fs::copy(&path, logs.join(path.file_name().unwrap())).unwrap();
            }
        }
        logs
    }

    fn ingest(&self, out: &str) -> Command {
        let mut command = program();
        command.arg("ingest").arg(self.logs()).arg("--out").arg(self.at(out)).arg("--quiet");
        command
    }

    fn annotate(&self, data: &str) -> Command {
        let mut command = program();
        command.arg("annotate").arg(self.at(data)).arg("--quiet");
        command
    }

    fn run(&self, data: &str, out: &str) -> Command {
        let experiment = self.at("experiment.toml");
        if !experiment.exists() {
            fs::write(&experiment, EXPERIMENT).unwrap();
        }
        let mut command = program();
        command.arg("run").arg(experiment).arg("--data").arg(self.at(data)).arg("--out").arg(self.at(out));
        command.arg("--quiet");
        command
    }

    fn report(&self, run: &str, out: &str) -> Command {
        let mut command = program();
        command.arg("report").arg(self.at(run)).arg("--out").arg(self.at(out)).args(["--resamples", "100"]);
        command
    }

    /// Bytes of the files of a folder, those of folders in it left out.
    fn files(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.at(folder)).unwrap().map(Result::unwrap);
        entries
            .filter(|entry| entry.path().is_file())
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .collect()
    }
}

const EXPERIMENT: &str = "name = \"robust\"
[[strategies]]
name = \"mask\"
[[strategies]]
name = \"truncate\"
[[triggers]]
name = \"turns\"
n = 4
";

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
    command.stdin(Stdio::null());
    command
}

fn some_logs(n: usize) -> Vec<PathBuf> {
    let mut logs = Vec::new();
    for folder in ["coding", "support"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets").join(folder);
        let mut found: Vec<PathBuf> = walk(&folder);
        found.sort();
        logs.extend(found.into_iter().take(n.div_ceil(2)));
    }
    logs
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

fn done(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    output
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn two_ingests_of_one_folder_are_one_dataset() {
    let place = Place::new();
    done(place.ingest("alone"));
    let alone = place.files("alone");
    let mut n_refused = 0;
    for round in 0..times(8, 40) {
        let out = format!("both{round}");
        let both = [place.ingest(&out), place.ingest(&out)]
            .map(|mut c| c.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
        let both = both.map(|child| child.wait_with_output().unwrap());
        for output in both.iter().filter(|output| !output.status.success()) {
            assert_eq!(output.status.code(), Some(2));
            assert!(
                stderr(output).contains("is being written by trajpress ingest, process "),
                "{}",
                stderr(output)
            );
            n_refused += 1;
        }
        assert!(both.iter().any(|output| output.status.success()));
        assert!(place.files(&out) == alone, "round {round}");
    }
    println!("two writers: {n_refused} of {} turned away, every dataset whole", times(8, 40));
}

/// Starts a command again and again with a kill at a random moment, then lets it end.
fn kill_and_end(command: impl Fn() -> Command, n: usize, rng: &mut ChaCha8Rng) {
    let start = Instant::now();
    done(command());
    let whole = start.elapsed();
    for _ in 0..n {
        let mut child = command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole.mul_f64(rng.random_range(0.0..1.0)));
        let _ = child.kill();
        child.wait().unwrap();
    }
    done(command());
}

#[test]
fn kills_change_no_byte() {
    let place = Place::new();
    let mut rng = ChaCha8Rng::seed_from_u64(33);
    done(place.ingest("whole"));
    let ingested = place.files("whole");
    let n = times(6, 40);
    let again = || {
        let mut command = place.ingest("data");
        command.arg("--fresh");
        command
    };
    kill_and_end(again, n, &mut rng);
    assert!(place.files("data") == ingested, "ingest");
    done(place.annotate("whole"));
    let annotated = place.files("whole");
    // What was annotated goes, so that there is something to do each time.
    let again = || {
        let _ = fs::remove_file(place.at("data/annotate.json"));
        place.annotate("data")
    };
    kill_and_end(again, n, &mut rng);
    assert!(place.files("data") == annotated, "annotate");
    done(place.run("whole", "undisturbed"));
    let tables = |run: &str| -> BTreeMap<String, Vec<u8>> {
        place
            .files(run)
            .into_iter()
            .filter(|(name, _)| name.ends_with(".parquet") || name == "_SUCCESS")
            .collect()
    };
    kill_and_end(|| place.run("data", "run"), n, &mut rng);
    assert!(tables("run") == tables("undisturbed"), "run");
    println!("kills: {n} each of ingest, annotate and run");
}

/// A dataset of some logs to which others are added, of which one has grown and one is gone.
#[test]
fn kills_while_adding_change_no_byte() {
    let n =
        in_threads(|thread, n_threads| add_and_kill(times(20, 300).div_ceil(n_threads), 37 + thread as u64));
    println!("kills while adding: {}, each once or twice", n.iter().sum::<usize>());
}

/// So often; gives how often.
fn add_and_kill(n: usize, seed: u64) -> usize {
    let place = Place::new();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let chats = |n: usize| (0..n).map(|i| chat(&format!("question {i}")) + "\n").collect::<String>();
    fs::write(place.logs().join("grows.jsonl"), chats(2000)).unwrap();
    fs::write(place.logs().join("goes.jsonl"), chats(1)).unwrap();
    done(place.ingest("before"));
    fs::write(place.logs().join("grows.jsonl"), chats(3000)).unwrap();
    fs::remove_file(place.logs().join("goes.jsonl")).unwrap();
    fs::write(place.logs().join("new.jsonl"), chats(2).replace("question", "more")).unwrap();
    let begin = |folder: &str| {
        let _ = fs::remove_dir_all(place.at(folder));
        fs::create_dir(place.at(folder)).unwrap();
        for (name, bytes) in place.files("before") {
            fs::write(place.at(folder).join(name), bytes).unwrap();
        }
    };
    begin("undisturbed");
    let start = Instant::now();
    done(place.ingest("undisturbed"));
    let (whole, after) = (start.elapsed(), place.files("undisturbed"));
    assert!(after != place.files("before"));
    for _ in 0..n {
        begin("data");
        for _ in 0..rng.random_range(1..3) {
            let mut child = place.ingest("data").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(whole.mul_f64(rng.random_range(0.0..1.1)));
            let _ = child.kill();
            child.wait().unwrap();
        }
        done(place.ingest("data"));
        assert!(place.files("data") == after);
    }
    n
}

/// Flips one bit in each file of a folder, many times, in threads; `check` says for a place with a damaged copy and the
/// name of the damaged file whether nothing came of it. Gives how often it was refused, and how often nothing came of it.
fn flip(folder: &str, place: &Place, check: impl Fn(&Place, &str) -> bool + Sync) -> [usize; 2] {
    let files = place.files(folder);
    let counts = in_threads(|thread, n_threads| {
        let copy = Place::light();
        for folder in ["data", "run"] {
            fs::create_dir(copy.at(folder)).unwrap();
            for (name, bytes) in place.files(folder) {
                fs::write(copy.at(folder).join(name), bytes).unwrap();
            }
        }
        let mut rng = ChaCha8Rng::seed_from_u64(4 + thread as u64);
        let mut counts = [0, 0];
        for (name, good) in files.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            let path = copy.at(folder).join(name);
            for _ in (0..times(2, 25)).filter(|i| i % n_threads == thread) {
                let mut bad = good.clone();
                let bit = rng.random_range(0..8 * bad.len());
                bad[bit / 8] ^= 1 << (bit % 8);
                fs::write(&path, bad).unwrap();
                counts[usize::from(check(&copy, name))] += 1;
                // What was made again is what it was.
                fs::write(&path, good).unwrap();
            }
        }
        counts
    });
    counts.iter().fold([0, 0], |all, more| [all[0] + more[0], all[1] + more[1]])
}

#[test]
fn one_flipped_bit_is_refused_or_changes_nothing() {
    let place = Place::new();
    done(place.ingest("data"));
    done(place.annotate("data"));
    done(place.run("data", "run"));
    done(place.report("run", "report"));
    let (rows, report) = (place.files("run"), place.files("report"));
    let is_refused = |output: &Output, name: &str| {
        let text = stderr(output);
        let is_refused = output.status.code() != Some(0);
        assert!(!is_refused || text.contains(name) && !text.contains("panicked"), "{name}: {text}");
        is_refused
    };
    let data = flip("data", &place, |place, name| {
        let _ = fs::remove_dir_all(place.at("again"));
        if is_refused(&place.run("data", "again").output().unwrap(), name) {
            return false;
        }
        let table = "scores.parquet";
        assert!(place.files("again")[table] == rows[table], "{name}: other rows");
        true
    });
    let run = flip("run", &place, |place, name| {
        let _ = fs::remove_dir_all(place.at("report2"));
        if is_refused(&place.report("run", "report2").output().unwrap(), name) {
            return false;
        }
        assert!(place.files("report2") == report, "{name}: another report");
        true
    });
    for (what, [n_refused, n_same]) in [("a dataset", data), ("a run", run)] {
        println!("bits of {what}: {n_refused} refused with the file named, {n_same} changed nothing");
    }
}

/// What this process had of memory at most, in MB.
fn own_peak() -> f64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// Runs a command, and says what memory it had at most, in MB.
#[cfg(target_os = "linux")]
fn with_peak(mut command: Command) -> (Output, f64) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0.0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        peak = f64::max(peak, kb.unwrap_or(0.0) / 1024.0);
        std::thread::sleep(Duration::from_millis(2));
    }
    (child.wait_with_output().unwrap(), peak)
}

fn chat(text: &str) -> String {
    format!(r#"{{"messages":[{{"role":"user","content":"{text}"}},{{"role":"assistant","content":"yes"}}]}}"#)
}
