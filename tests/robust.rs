//! The program under attack: two writers in one folder, kills, flipped bits, mutated logs, bombs, names that act.
//!
//! Each test has a short form, which runs with all others, and a long one: `make soak` (TRAJPRESS_SOAK=1). Seeds are
//! fixed. docs/testing.md says what they found.

mod databases;
mod formats;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use trajpress::internals::store::{self, TrajectoryRow};
use trajpress::{IngestMode, IngestOptions as Options, Limits, ingest};

/// How often something is tried: few times, or in the long form many.
fn times(short: usize, long: usize) -> usize {
    if std::env::var_os("TRAJPRESS_SOAK").is_some() { long } else { short }
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
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
    let place = Place::new();
    let mut rng = ChaCha8Rng::seed_from_u64(37);
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
    let n = times(20, 300);
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
    println!("kills while adding: {n}");
}

#[test]
fn one_flipped_bit_is_refused_or_changes_nothing() {
    let place = Place::new();
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    done(place.ingest("data"));
    done(place.annotate("data"));
    done(place.run("data", "run"));
    done(place.report("run", "report"));
    let (rows, report) = (place.files("run"), place.files("report"));
    let (mut n_refused, mut n_same) = (0, 0);
    let mut flip = |folder: &str, mut check: Box<dyn FnMut(&str) -> bool + '_>| {
        for (name, good) in place.files(folder) {
            for _ in 0..times(2, 25) {
                if good.is_empty() {
                    continue;
                }
                let mut bad = good.clone();
                let bit = rng.random_range(0..8 * bad.len());
                bad[bit / 8] ^= 1 << (bit % 8);
                fs::write(place.at(folder).join(&name), bad).unwrap();
                if check(&name) {
                    n_same += 1
                } else {
                    n_refused += 1
                }
                // What was made again is what it was.
                fs::write(place.at(folder).join(&name), &good).unwrap();
            }
        }
    };
    flip(
        "data",
        Box::new(|name| {
            let _ = fs::remove_dir_all(place.at("again"));
            let output = place.run("data", "again").output().unwrap();
            let table = |folder: &BTreeMap<String, Vec<u8>>| folder["scores.parquet"].clone();
            match output.status.code() {
                Some(0) => assert!(table(&place.files("again")) == table(&rows), "{name}: other rows"),
                _ => {
                    assert!(stderr(&output).contains(name) && !stderr(&output).contains("panicked"), "{name}")
                }
            }
            output.status.success()
        }),
    );
    flip(
        "run",
        Box::new(|name| {
            let _ = fs::remove_dir_all(place.at("report2"));
            let output = place.report("run", "report2").output().unwrap();
            match output.status.code() {
                Some(0) => assert!(place.files("report2") == report, "{name}: another report"),
                _ => {
                    assert!(stderr(&output).contains(name) && !stderr(&output).contains("panicked"), "{name}")
                }
            }
            output.status.success()
        }),
    );
    println!("bits: {n_refused} refused with the file named, {n_same} changed nothing");
}

/// A log, and where its records stand, with their names; none of a log that is one record.
struct Log {
    name: String,
    bytes: Vec<u8>,
    records: Vec<(Range<usize>, String)>,
}

/// Logs of all formats with a reader, and lists of runs in all ways to write them.
fn logs_of_all_kinds() -> Vec<Log> {
    let mut logs: Vec<Log> = some_logs(12)
        .into_iter()
        .filter(|path| !path.ends_with("chat-runs.jsonl"))
        .map(|path| Log {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            bytes: fs::read(&path).unwrap(),
            records: Vec::new(),
        })
        .collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/golden");
    let text = fs::read_to_string(folder.join("support.jsonl")).unwrap();
    let annotated: Vec<&str> = text.lines().take(8).collect();
    let plain = |i: usize| {
        let messages = (0..30).map(|j| {
            let role = ["user", "assistant"][j % 2];
            format!(r#"{{"role":"{role}","content":"{i} [{j}] \"}},{{ {}"}}"#, "word ".repeat(j))
        });
        let messages: Vec<String> = messages.collect();
        format!(r#"{{"task_id":"run-{i}","messages":[{}]}}"#, messages.join(","))
    };
    let simulation = |i: usize| plain(i).replace("\"task_id\":\"", "\"id\":\"x\",\"task_id\":\"");
    let scored = |i: usize| plain(i).replace("\"messages\"", "\"reward\":1.0,\"traj\"");
    let chats: Vec<String> = (0..8).map(plain).collect();
    let annotated: Vec<String> = annotated.into_iter().map(str::to_owned).collect();
    let simulations: Vec<String> = (0..8).map(simulation).collect();
    let scored: Vec<String> = (0..8).map(scored).collect();
    let shared = r#"{"info":{"environment_info":{"policy":"P"}},"tasks":[],"simulations":["#;
    for (name, before, items, between, after) in [
        ("lines.jsonl", "", &chats, "\n", "\n"),
        ("annotated.jsonl", "", &annotated, "\n", "\n"),
        ("list.json", "[", &chats, ",", "]"),
        ("list-lines.json", "[\n", &annotated, ",\n", "\n]\n"),
        ("tau.json", "[", &scored, ", ", "]"),
        ("tau2.json", shared, &simulations, ",", "]}"),
    ] {
        let mut text = before.to_owned();
        let mut records = Vec::new();
        for (i, item) in items.iter().enumerate() {
            text += if i > 0 { between } else { "" };
            let value: serde_json::Value = serde_json::from_str(item).unwrap();
            records
                .push((text.len()..text.len() + item.len(), value["task_id"].as_str().unwrap().to_owned()));
            text += item;
        }
        logs.push(Log { name: name.to_owned(), bytes: (text + after).into_bytes(), records });
    }
    logs
}

/// The names in a dataset, and where its rejects begin.
fn names_and_rejects(data: &Path) -> (BTreeSet<String>, BTreeSet<u64>) {
    let rows: Vec<TrajectoryRow> = store::read(&data.join("trajectories.parquet")).unwrap();
    let rejects = fs::read_to_string(data.join("rejects.jsonl")).unwrap();
    let offset =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["byte_offset"].as_u64();
    (rows.into_iter().filter_map(|row| row.task_id).collect(), rejects.lines().filter_map(offset).collect())
}

/// Records that a mutation did not touch are in the dataset, and nothing hangs or panics.
#[test]
fn mutated_logs_lose_only_what_was_touched() {
    let place = Place::new();
    let logs = logs_of_all_kinds();
    let mut rng = ChaCha8Rng::seed_from_u64(506);
    let n = times(120, 4000);
    let (mut n_untouched, mut lost, mut rejected, mut longest) = (0, Vec::new(), 0, Duration::ZERO);
    for i in 0..n {
        let log = &logs[i % logs.len()];
        let mut bytes = log.bytes.clone();
        let edits = mutate(&mut bytes, &mut rng);
        let input = place.at("mutant");
        fs::write(&input, &bytes).unwrap();
        let start = Instant::now();
        let options = Options {
            inputs: vec![input.clone()],
            out: place.at("data"),
            format: None,
            threads: 1,
            limits: Limits::default(),
            mode: IngestMode::Fresh,
            ..Options::default()
        };
        ingest(&options, &mut |_| {}).unwrap();
        longest = longest.max(start.elapsed());
        assert!(start.elapsed() < Duration::from_secs(60), "mutant {i} of {}", log.name);
        let (names, rejects) = names_and_rejects(&place.at("data"));
        for (range, name) in &log.records {
            let Some(moved) = moved(range, &edits) else {
                continue;
            };
            n_untouched += 1;
            // What was put before a record in its line is rejected with the place of the line, not of the record.
            let is_lost = !names.iter().any(|known| known.trim_start_matches("task-") == name);
            rejected += usize::from(is_lost && rejects.contains(&(moved as u64)));
            if is_lost {
                lost.push(format!("{i} {name} of {}", log.name));
                if let Some(kept) = std::env::var_os("TRAJPRESS_KEEP") {
                    fs::copy(&input, Path::new(&kept).join(format!("{i}-{}", log.name))).unwrap();
                }
            }
        }
    }
    println!(
        "mutants: {n}, of whose untouched {n_untouched} records {} are lost ({rejected} as rejects); the longest took {longest:?}; peak memory {:.0} MB",
        lost.len(),
        own_peak()
    );
    assert!(lost.is_empty(), "{lost:?}");
}

/// What is in a dataset of one log: the names, and whether something is told as rejected.
fn read_log(place: &Place, bytes: &[u8]) -> (BTreeSet<String>, bool) {
    let input = place.at("log");
    fs::write(&input, bytes).unwrap();
    let options = Options {
        inputs: vec![input],
        out: place.at("data"),
        format: None,
        threads: 1,
        limits: Limits::default(),
        mode: IngestMode::Fresh,
        ..Options::default()
    };
    ingest(&options, &mut |_| {}).unwrap();
    let (names, rejects) = names_and_rejects(&place.at("data"));
    (names.into_iter().map(|name| name.trim_start_matches("task-").to_owned()).collect(), !rejects.is_empty())
}

/// A writer dies in a line and the next one goes on in it; a file loses its beginning; tools put marks before lines, and
/// other values around a log. What is whole is read, and what is not is told.
#[test]
fn records_beside_torn_and_stray_ones_are_read() {
    let place = Place::new();
    let mut rng = ChaCha8Rng::seed_from_u64(78);
    let (mut n_read, mut lost, mut silent) = (0, Vec::new(), Vec::new());
    let mut check = |bytes: &[u8], records: &[(Range<usize>, String)], is_torn: bool, what: String| {
        let (names, is_told) = read_log(&place, bytes);
        n_read += records.len();
        lost.extend(
            records.iter().filter(|(_, name)| !names.contains(name)).map(|(_, n)| format!("{n}: {what}")),
        );
        if is_torn && !is_told {
            silent.push(what);
        }
    };
    for log in logs_of_all_kinds().iter().filter(|log| !log.records.is_empty()) {
        let (name, records) = (&log.name, &log.records);
        let strays = [
            "{}\n",
            "[]\n",
            "null\n",
            "\"text\"\n",
            "17 ",
            "{}",
            " \n\t\n",
            "{\"a\":1}\n",
            "\u{1e}",
            "\u{a0}",
        ];
        for stray in strays {
            let before = [stray.as_bytes(), &log.bytes].concat();
            check(&before, records, false, format!("{stray:?} before {name}"));
            let after = [&log.bytes, stray.as_bytes()].concat();
            check(&after, records, false, format!("{stray:?} after {name}"));
        }
        if !name.ends_with(".jsonl") {
            continue;
        }
        let line = |i: usize| &log.bytes[records[i].0.clone()];
        for mark in ["\u{1e}", "data: ", "\u{a0}", "\u{2028}", "\u{feff}", "event: e\ndata:"] {
            let lines = (0..records.len()).map(|i| [mark.as_bytes(), line(i), b"\n"].concat());
            check(&lines.collect::<Vec<_>>().concat(), records, false, format!("{mark:?} in {name}"));
        }
        for _ in 0..times(20, 2000) {
            let i = rng.random_range(0..records.len() - 1);
            let at = rng.random_range(1..line(i).len());
            // What is left of a cut line, alone and with the next line behind it.
            for (end, cut) in [("tail", &line(i)[..at]), ("head", &line(i)[at..])] {
                for glue in [&b"\n"[..], b""] {
                    let torn =
                        [&log.bytes[..records[i].0.start], cut, glue, &log.bytes[records[i].0.end + 1..]];
                    let rest = [&records[..i], &records[i + 1..]].concat();
                    check(
                        &torn.concat(),
                        &rest,
                        true,
                        format!("{i} of {name}, its {end} cut at {at}, {glue:?}"),
                    );
                }
            }
        }
    }
    println!(
        "records beside torn and stray ones: {n_read}, lost {}, torn in silence {}",
        lost.len(),
        silent.len()
    );
    assert!(lost.is_empty() && silent.is_empty(), "lost: {lost:?}, silent: {silent:?}");
}

/// The first line, or item, is too long: the rest tells what the file is.
#[test]
fn a_first_record_that_is_too_long_costs_itself_alone() {
    let place = Place::new();
    let logs = place.at("logs");
    fs::create_dir(&logs).unwrap();
    let long = chat(&"x".repeat(20 << 20));
    let rest: Vec<String> = (0..5).map(|i| chat(&format!("q{i}"))).collect();
    for (text, n, line) in [
        (format!("{long}\n{}\n", rest.join("\n")), 1, Some(1)),
        (format!("\n{long}\n{long}\n{}", rest.join("\n")), 2, Some(2)),
        (format!("[{long},\n{}]", rest.join(",\n")), 1, None),
    ] {
        let place_of_long = text.find('{').unwrap() as u64;
        fs::write(logs.join("a.jsonl"), text).unwrap();
        let mut command = program();
        command.arg("ingest").arg(&logs).arg("--out").arg(place.at("data"));
        // An eighth of it is 8 MB.
        let output = command.args(["--max-memory", &(64 << 20).to_string()]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let rows: Vec<TrajectoryRow> = store::read(&place.at("data/trajectories.parquet")).unwrap();
        assert_eq!(rows.len(), 5);
        let rejects = fs::read_to_string(place.at("data/rejects.jsonl")).unwrap();
        let rejects: Vec<serde_json::Value> =
            rejects.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rejects.len(), n);
        assert_eq!(
            (rejects[0]["line"].as_u64(), rejects[0]["byte_offset"].as_u64()),
            (line, Some(place_of_long))
        );
        assert!(rejects[0]["reason"].as_str().unwrap().contains(" of 20.00 MiB, too long"), "{}", rejects[0]);
    }
}

/// A stack that is too small for any thread.
#[test]
fn a_stack_that_is_no_size_is_told() {
    let place = Place::new();
    for size in ["0", "1", "abc", "-1", "99999999999999999999"] {
        let mut ingest = place.ingest("data");
        let output = ingest.env("RUST_MIN_STACK", size).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{size}");
        assert!(stderr(&output).contains(&format!("RUST_MIN_STACK is `{size}`")), "{}", stderr(&output));
    }
    let mut ingest = place.ingest("data");
    ingest.env("RUST_MIN_STACK", "4194304");
    done(ingest);
}

/// What this process had of memory at most, in MB.
fn own_peak() -> f64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// What was done to a text: what it was done to, and by how many bytes longer that became.
type Edit = (Range<usize>, isize);

/// Where a range is after edits; none if one of them touched it.
fn moved(range: &Range<usize>, edits: &[Edit]) -> Option<usize> {
    let mut start = range.start as isize;
    for (edit, growth) in edits {
        // What is put in between two bytes touches neither.
        let is_touched = match edit.is_empty() {
            true => range.start < edit.start && edit.start < range.end,
            false => edit.start < range.end && range.start < edit.end,
        };
        if is_touched {
            return None;
        }
        if edit.end <= range.start {
            start += growth;
        }
    }
    Some(start as usize)
}

/// Cuts, flips, repeats, swaps or inserts.
fn mutate(bytes: &mut Vec<u8>, rng: &mut ChaCha8Rng) -> Vec<Edit> {
    let at = rng.random_range(0..bytes.len().max(1));
    match rng.random_range(0..6) {
        0 => {
            let end = bytes.len();
            bytes.truncate(at);
            vec![(at..end, 0)]
        }
        1 => {
            bytes[at] ^= 1 << rng.random_range(0..8);
            vec![(at..at + 1, 0)]
        }
        2 => {
            let end = (at + rng.random_range(1..400)).min(bytes.len());
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
            vec![(at..at, (end - at) as isize)]
        }
        3 => {
            let end = (at + rng.random_range(1..4000)).min(bytes.len());
            bytes.drain(at..end);
            vec![(at..end, at as isize - end as isize)]
        }
        4 => {
            let piece: &[u8] = [
                &b"\xef\xbb\xbf"[..],
                b"{",
                b"[",
                b"}",
                b"\"",
                b"\n\n",
                b"\0",
                b"]}",
                b"1e999",
                b"\"\\ud800\"",
            ][rng.random_range(0..10)];
            // Also at the very beginning, which tells the format.
            let at = if rng.random_bool(0.2) { 0 } else { at };
            bytes.splice(at..at, piece.iter().copied());
            vec![(at..at, piece.len() as isize)]
        }
        _ => (0..20)
            .map(|_| {
                let at = rng.random_range(0..bytes.len());
                bytes[at] = rng.random();
                (at..at + 1, 0)
            })
            .collect(),
    }
}

/// Nobody can read what is told there, and nothing comes of it.
#[cfg(target_os = "linux")]
#[test]
fn a_full_stderr_is_no_panic() {
    let place = Place::new();
    let full = || Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let status = |mut command: Command| command.stdout(Stdio::null()).stderr(full()).status().unwrap().code();
    let loud = |mut command: Command| {
        command.arg("--quiet");
        command
    };
    let mut ingest = program();
    ingest.arg("ingest").arg(place.logs()).arg("--out").arg(place.at("data"));
    assert_eq!(status(ingest), Some(0));
    let mut annotate = program();
    annotate.arg("annotate").arg(place.at("data"));
    assert_eq!(status(annotate), Some(0));
    let mut run = program();
    fs::write(place.at("x.toml"), EXPERIMENT).unwrap();
    run.arg("run")
        .arg(place.at("x.toml"))
        .arg("--data")
        .arg(place.at("data"))
        .arg("--out")
        .arg(place.at("run"));
    assert_eq!(status(run), Some(0));
    assert_eq!(status(loud(place.report("run", "report"))), Some(0));
    assert_eq!(status(place.report("none", "report")), Some(2));
    assert_eq!(status(program()), Some(2));
    let mut polars = place.report("run", "report");
    polars.env("POLARS_MAX_THREADS", "0");
    let output = polars.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("POLARS_MAX_THREADS is `0`"), "{}", stderr(&output));
}

/// No stage may write a file of more than so many bytes: each says which one, and what stood before still stands.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_file_size_is_an_error_that_names_the_file() {
    let place = Place::new();
    let limited = |args: &[&str], path: PathBuf, out: &str| {
        let mut shell = Command::new("bash");
        let command = r#"ulimit -f "$LIMIT" && exec "$@""#;
        shell.args(["-c", command, "bash", env!("CARGO_BIN_EXE_trajpress")]).args(args).arg(path);
        if !out.is_empty() {
            shell.arg("--out").arg(place.at(out));
        }
        shell
    };
    let refused = |mut command: Command| {
        let output = command.env("LIMIT", "1").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let text = stderr(&output);
        assert!(text.contains("File too large") && text.contains("cannot write"), "{text}");
        assert!(text.contains(place.at("").to_str().unwrap()), "{text}");
    };
    let done = |mut command: Command| {
        let output = command.env("LIMIT", "unlimited").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    };
    let ingest = || limited(&["ingest"], place.logs(), "data");
    refused(ingest());
    done(ingest());
    let annotate = || limited(&["annotate"], place.at("data"), "");
    refused(annotate());
    done(annotate());
    fs::write(place.at("x.toml"), EXPERIMENT).unwrap();
    let data = place.at("data");
    let run = || limited(&["run", "--data", data.to_str().unwrap()], place.at("x.toml"), "run");
    refused(run());
    done(run());
    refused(limited(&["report"], place.at("run"), "report"));
}

/// A file's name that would colour, overwrite and turn round a terminal.
#[cfg(unix)]
#[test]
fn names_act_nowhere() {
    let place = Place::new();
    fs::create_dir(place.at("logs")).unwrap();
    let name = "a\u{1b}[31m\u{202e}\u{61c}\u{2028}\u{feff}\u{e0041}]]>&lt<b>=1.json";
    fs::copy(&some_logs(2)[0], place.at("logs").join(name)).unwrap();
    fs::write(place.at("logs").join(format!("bad{name}")), "{\"messages\": [").unwrap();
    let mut ingest = program();
    ingest.arg("ingest").arg(place.at("logs")).arg("--out").arg(place.at("data")).arg("--json");
    let output = ingest.output().unwrap();
    let mut all = [output.stdout, output.stderr].concat();
    done(place.annotate("data"));
    let mut inspect = program();
    inspect.arg("inspect").arg(place.at("data")).arg("a").args(["--timeline"]).arg(place.at("t.svg"));
    all.extend(inspect.output().unwrap().stderr);
    let mut missing = program();
    missing.arg("inspect").arg(place.at(&format!("{name}x"))).arg("a");
    let output = missing.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    all.extend(output.stderr);
    for file in ["data/ingest.json", "data/rejects.jsonl"] {
        all.extend(fs::read(place.at(file)).unwrap());
    }
    let text = String::from_utf8(all).unwrap();
    let acting: Vec<char> =
        text.chars().filter(|&c| trajpress::internals::text::escape::acts(c) && c != '\n').collect();
    assert!(acting.is_empty(), "{acting:?}");
}

/// Waits at most so long; a program that hangs is killed and told.
fn within(limit: Duration, mut command: Command) -> Output {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > limit {
            let _ = child.kill();
            panic!("{command:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn a_report_waits_for_nobody_and_leaves_no_half() {
    let place = Place::new();
    done(place.ingest("data"));
    done(place.run("data", "run"));
    done(place.report("run", "report"));
    let before = place.files("report");
    // Something stands where a table is to be written: the report fails, and the one before it stays.
    let mut wrong = place.report("run", "report");
    wrong.args(["--baseline", "no-such-variant"]);
    assert_eq!(within(Duration::from_secs(60), wrong).status.code(), Some(2));
    assert!(place.files("report") == before);
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

/// A document that is small as stored, a line that is too long, and good ones beside them.
#[cfg(target_os = "linux")]
#[test]
fn what_is_too_large_is_a_reject_and_the_rest_is_read() {
    let place = Place::new();
    let logs = place.at("logs");
    fs::create_dir(&logs).unwrap();
    let mb = times(1, 8) << 20;
    let write = |name: &str, text: &str| fs::write(logs.join(name), text).unwrap();
    let packed = |name: &str, text: &str| {
        fs::write(logs.join(name), zstd::encode_all(text.as_bytes(), 3).unwrap()).unwrap();
    };
    // Unpacked 300 times the least memory; beside it one that fits.
    packed("a-bomb.json.zst", &chat(&"a".repeat(300 * mb)));
    packed("b-fits.json.zst", &chat("b"));
    let long = chat(&"c".repeat(40 * mb));
    write("c-lines.jsonl", &format!("{}\n{long}\n{}\n", chat("first"), chat("last")));
    write("d.json", &chat("d"));
    let ingest = |more: &[&str]| {
        let mut command = program();
        command
            .arg("ingest")
            .arg(&logs)
            .arg("--out")
            .arg(place.at("data"))
            .args(["--threads", "2"])
            .args(more);
        let (output, peak) = with_peak(command);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let rejects = fs::read_to_string(place.at("data/rejects.jsonl")).unwrap();
        let rejects: Vec<serde_json::Value> =
            rejects.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let report: serde_json::Value =
            serde_json::from_slice(&fs::read(place.at("data/ingest.json")).unwrap()).unwrap();
        (rejects, report["trajectories"].as_u64().unwrap(), peak)
    };
    // An eighth of the memory is 16 MB: too little for the document and for the line.
    let memory = format!("{}", 8 * 16 * mb);
    // The long form's bomb is over the 2 GiB of a file that are read if nothing else is said.
    let (rejects, n, peak) = ingest(&["--max-memory", &memory, "--max-file", "4GiB"]);
    let reasons: Vec<&str> = rejects.iter().map(|reject| reject["reason"].as_str().unwrap()).collect();
    assert_eq!((rejects.len(), n), (2, 4), "{reasons:?}");
    assert!(
        reasons[0]
            .starts_with(&format!("cannot read on: more than {}.00 MiB in one document", 16 * mb >> 20))
    );
    assert!(reasons[1].starts_with(&format!("a line of {}.00 MiB, too long", 40 * mb >> 20)), "{reasons:?}");
    assert_eq!(
        (&rejects[1]["line"], &rejects[1]["byte_offset"]),
        (&2.into(), &(chat("first").len() + 1).into())
    );
    let allowed = (8 * 16 * mb) as f64 / 1048576.0;
    assert!(peak < allowed, "{peak} MB of {allowed}");
    println!(
        "a bomb of {} MB and a line of {} MB: {peak:.0} MB of {allowed:.0} allowed",
        300 * mb >> 20,
        40 * mb >> 20
    );
    // The bomb is over the limit of a file, the line is not.
    let (rejects, n, peak) =
        ingest(&["--max-file", &format!("{}", 100 * mb), "--max-memory", &format!("{}", 8 * 200 * mb)]);
    assert_eq!((rejects.len(), n), (1, 5));
    let reason = rejects[0]["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("more than {}.00 MiB unpacked (", 100 * mb >> 20)), "{reason}");
    println!("the line of {} MB is read: {peak:.0} MB", 40 * mb >> 20);
}

/// Memory goes by messages, too: a record of many small ones is a reject with its size, and the rest is read.
#[cfg(target_os = "linux")]
#[test]
fn many_small_messages_are_a_reject_and_the_rest_is_read() {
    let place = Place::new();
    let logs = place.at("logs");
    fs::create_dir(&logs).unwrap();
    // Few bytes for an eighth of the memory, but more than an object per kB of it.
    let (n, memory) = (200_000, 128 << 20);
    let messages = vec![r#"{"role":"user","content":"x"}"#; n].join(",");
    let many = format!(r#"{{"messages":[{messages}]}}"#);
    fs::write(logs.join("a.jsonl"), format!("{}\n{many}\n{}\n", chat("first"), chat("last"))).unwrap();
    fs::write(logs.join("b.json"), chat("b")).unwrap();
    let mut command = program();
    command.arg("ingest").arg(&logs).arg("--out").arg(place.at("data")).args(["--threads", "2"]);
    command.args(["--max-memory", &memory.to_string()]);
    let (output, peak) = with_peak(command);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let rejects = fs::read_to_string(place.at("data/rejects.jsonl")).unwrap();
    let told = format!("{} bytes with {} objects in one document", many.len(), n + 1);
    assert!(rejects.lines().count() == 1 && rejects.contains(&told), "{rejects}");
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(place.at("data/ingest.json")).unwrap()).unwrap();
    assert_eq!(report["trajectories"], 3);
    println!("{n} small messages in one record: {peak:.0} MB of {} allowed", memory >> 20);
    assert!(peak < (memory >> 20) as f64, "{peak} MB");
}

/// One run of many short messages: no stage holds its rows more than once.
#[cfg(target_os = "linux")]
#[test]
fn one_run_of_many_messages_takes_memory_by_its_steps() {
    let place = Place::new();
    let logs = place.at("logs");
    fs::create_dir(&logs).unwrap();
    let n = times(100_000, 1_000_000);
    let pair = |i: usize| {
        let user = format!(r#"{{"role":"user","content":"And the next one, number {i}?"}}"#);
        format!(r#"{user},{{"role":"assistant","content":"Ship {i} lies at quay {i} now."}}"#)
    };
    let messages = (0..n / 2).map(pair).collect::<Vec<_>>().join(",");
    fs::write(logs.join("a.json"), format!(r#"{{"messages":[{messages}]}}"#)).unwrap();
    let peak = |args: &[&str], paths: &[PathBuf]| {
        let mut command = program();
        command.args(args).args(paths);
        let (output, peak) = with_peak(command);
        assert!(output.status.success(), "{}", stderr(&output));
        peak
    };
    let data = place.at("data");
    let out = format!("--out={}", data.display());
    let ingest = peak(&["ingest", "--threads", "2", &out], &[logs]);
    let annotate = peak(&["annotate", "--threads", "2"], std::slice::from_ref(&data));
    let experiment = EXPERIMENT.replace("[[strategies]]\nname = \"truncate\"\n", "");
    fs::write(place.at("mask.toml"), experiment).unwrap();
    let (data, out) = (format!("--data={}", data.display()), format!("--out={}", place.at("run").display()));
    let run = peak(&["run", "--quiet", "--threads", "1", &data, &out], &[place.at("mask.toml")]);
    println!("one run of {n} messages: ingest {ingest:.0} MB, annotate {annotate:.0} MB, run {run:.0} MB");
    // Beside its steps each stage has the program and batches that do not grow, annotate a tokenizer, too.
    let allowed = |fixed: usize| (fixed + 400 * n / 1_000_000) as f64;
    assert!(run < (120 + 600 * n / 1_000_000) as f64, "{run} MB");
    assert!(ingest < allowed(100), "{ingest} MB");
    assert!(annotate < allowed(160), "{annotate} MB");
}

/// Many large lines and threads: they are read one after the other, and come out in their order.
#[cfg(target_os = "linux")]
#[test]
fn large_lines_take_turns() {
    let place = Place::new();
    let logs = place.at("logs");
    fs::create_dir(&logs).unwrap();
    let size = times(6, 100) << 20;
    for file in ["a", "b"] {
        let lines =
            (0..8).map(|i| chat(&format!("{file}{i}{}", "x".repeat(size)))).collect::<Vec<_>>().join("\n");
        fs::write(logs.join(format!("{file}.jsonl")), lines).unwrap();
    }
    for i in 0..20 {
        fs::write(logs.join(format!("c{i:02}.json")), chat(&format!("c{i}"))).unwrap();
    }
    // What 8 threads need whatever they are allowed: 18 batches of 4 MB in flight, each several times over.
    let memory = (16 * size).max(384 << 20);
    let table = |name: &str, threads: &str| {
        let mut command = program();
        command.arg("ingest").arg(&logs).arg("--out").arg(place.at(name)).args(["--threads", threads]);
        command.args(["--max-memory", &memory.to_string()]);
        let (output, peak) = with_peak(command);
        assert!(output.status.success(), "{}", stderr(&output));
        (fs::read(place.at(name).join("steps.parquet")).unwrap(), peak)
    };
    let (one, _) = table("one", "1");
    let (eight, peak) = table("eight", "8");
    assert!(one == eight);
    let allowed = memory as f64 / 1048576.0;
    println!("16 lines of {} MB with 8 threads: {peak:.0} MB of {allowed:.0} allowed", size >> 20);
    assert!(peak < allowed, "{peak} MB of {allowed}");
}
