//! What the program says where it cannot go on: the real reason, with the path, in a line or two, and nothing half done.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

struct Place(tempfile::TempDir);

impl Place {
    /// A dataset `data`, an experiment `x.toml` and a finished run `run` of a log.
    fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/coding/chat-runs.jsonl");
        done(place.program(&["ingest", log.to_str().unwrap(), "--out", "data"]));
        done(place.program(&["annotate", "data"]));
        place.experiment("x.toml", "keep_last = 10");
        done(place.program(&["run", "x.toml", "--data", "data", "--out", "run"]));
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn experiment(&self, name: &str, strategy: &str) {
        let text = format!(
            "name = \"x\"\n[[strategies]]\nname = \"mask\"\n{strategy}\n[[triggers]]\nname = \"turns\"\nn = 4\n"
        );
        fs::write(self.at(name), text).unwrap();
    }

    fn program(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
        command.args(args).arg("--quiet").current_dir(self.0.path()).stdin(Stdio::null());
        command.output().unwrap()
    }

    /// What is told of a command that cannot go on.
    fn refused(&self, args: &[&str]) -> String {
        let output = self.program(args);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        assert!(!told.contains("panicked"), "{args:?}: {told}");
        told
    }
}

fn done(output: Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A file in the place of a folder and a loop of links; a folder without rights is the same to the program, and not to root.
#[cfg(unix)]
#[test]
fn what_cannot_be_reached_is_never_missing() {
    let place = Place::new();
    fs::write(place.at("file"), "x").unwrap();
    std::os::unix::fs::symlink("loop", place.at("loop")).unwrap();
    let log = place.at("x.toml").display().to_string();
    for (bad, reason) in [("file/x", "Not a directory"), ("loop", "Too many levels of symbolic links")] {
        let inside = format!("{bad}/x.toml");
        let commands: [&[&str]; 13] = [
            &["annotate", bad],
            &["run", "x.toml", "--data", bad, "--out", "new"],
            &["run", "x.toml", "--data", "data", "--out", bad],
            &["run", "x.toml", "--data", "data", "--out", bad, "--finish"],
            &["run", "x.toml", "--data", "data", "--out", bad, "--fresh"],
            &["run", "x.toml", "--data", "data", "--out", bad, "--list"],
            &["run", &inside, "--data", "data", "--out", "new"],
            &["report", bad],
            &["report", "run", "--out", bad],
            &["report", "run", "--claims", &inside],
            &["inspect", bad, "a"],
            &["inspect", "data", "larkspur__stockroom-8", "--experiment", &inside, "--variant", "mask"],
            &["ingest", &log, "--out", bad],
        ];
        for command in commands {
            let told = place.refused(command);
            let is_told = told.contains(reason) || bad == "loop" && told.contains("File exists");
            assert!(is_told && told.contains(bad), "{command:?}: {told}");
            assert!(!told.contains("missing") && !told.contains("hint"), "{command:?}: {told}");
        }
    }
    // One table of several; what `annotate` makes, `run` would make again.
    for table in ["usage.parquet", "steps.parquet"] {
        fs::remove_file(place.at("data").join(table)).unwrap();
        std::os::unix::fs::symlink(table, place.at("data").join(table)).unwrap();
        let told = place.refused(&["inspect", "data", "larkspur__stockroom-8"]);
        assert!(told.contains(": Too many levels") && !told.contains("missing"), "{told}");
    }
    let told = place.refused(&["run", "x.toml", "--data", "data", "--out", "new"]);
    assert!(told.contains("steps.parquet: Too many levels") && !told.contains("missing"), "{told}");
    assert!(!place.at("new").exists());
}

#[test]
fn a_value_of_300_zeros_is_told_as_it_was_written() {
    let place = Place::new();
    let zeros = "0".repeat(300);
    for value in ["1e300", "-1e300", &format!("1{zeros}.0"), &format!("\"{zeros}\""), &format!("'{zeros}'")] {
        place.experiment("z.toml", &format!("keep_last = {value}"));
        let told = place.refused(&["run", "z.toml", "--data", "data", "--list"]);
        assert!(told.contains("z.toml:4: `keep_last = ") && !told.contains(&zeros[..40]), "{told}");
    }
    let wrong = [format!("name = \"{zeros}\""), format!("{zeros} = 1"), format!("keep_last = 1{zeros}")];
    for strategy in wrong {
        place.experiment("z.toml", &strategy);
        let told = place.refused(&["run", "z.toml", "--data", "data", "--list"]);
        assert!(told.starts_with("error: z.toml:4") && !told.contains(&zeros[..40]), "{told}");
    }
    let one = format!("1{zeros}");
    let commands: [&[&str]; 6] = [
        &["run", "x.toml", "--data", "data", "--list", "--threads", &one],
        &["report", "run", "--seed", &one],
        &["ingest", "x.toml", "--out", "new", "--max-file", &one],
        &["inspect", "data", &zeros],
        &["list", &zeros],
        &[&format!("--{zeros}")],
    ];
    for command in commands {
        let told = place.refused(command);
        assert!(told.contains("characters)") && !told.contains(&zeros[..40]), "{told}");
    }
    // A number with as many zeros before what counts is that number, and its label is short.
    let output =
        place.program(&["run", "x.toml", "--data", "data", "--list", "--threads", &format!("{zeros}1")]);
    assert!(output.status.success());
    let text = fs::read_to_string(place.at("x.toml")).unwrap();
    fs::write(
        place.at("y.toml"),
        text.replace("\"mask\"\nkeep_last = 10", "\"random\"\nkept_share = 1e-300"),
    )
    .unwrap();
    let listed = place.program(&["run", "y.toml", "--data", "data", "--list"]);
    assert!(String::from_utf8(listed.stdout).unwrap().contains("random(kept_share=1e-300) @ turns(n=4)"));
}

#[test]
fn another_run_is_told_by_what_changed_and_goes_only_when_asked() {
    let place = Place::new();
    place.experiment("y.toml", "keep_last = 3");
    let told = place.refused(&["run", "y.toml", "--data", "data", "--out", "run"]);
    assert_eq!(
        told,
        "error: run holds another run: `keep_last` is 10 there, 3 here (strategy `mask`)\n\
         hint: name another folder for `--out`, take its place with `--replace`, which takes over the rows that both have, or begin anew with `--fresh`\n"
    );
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/support/northwind__helpdesk-1.jsonl");
    done(place.program(&["ingest", log.to_str().unwrap(), "--out", "other"]));
    done(place.program(&["annotate", "other"]));
    let told = place.refused(&["run", "x.toml", "--data", "other", "--out", "run"]);
    assert!(told.contains("run holds another run: the data (features.parquet, "), "{told}");
    // Data is no run: nothing of it goes.
    let told = place.refused(&["run", "y.toml", "--data", "other", "--out", "data", "--fresh"]);
    assert!(told.contains("data holds data (ingest.json)"), "{told}");
    place.refused(&["run", "y.toml", "--data", "data", "--out", "run", "--fresh", "--shard", "0/2"]);
    done(place.program(&["run", "y.toml", "--data", "data", "--out", "run", "--fresh"]));
    done(place.program(&["run", "y.toml", "--data", "data", "--out", "new"]));
    let read = |run: &str| fs::read(place.at(run).join("scores.parquet")).unwrap();
    assert!(read("run") == read("new"));
}

#[test]
fn a_trajectory_is_found_by_its_task() {
    let place = Place::new();
    let shown = |name: &str| {
        let output = place.program(&["inspect", "data", name]);
        String::from_utf8(output.stdout).unwrap().lines().next().unwrap_or_default().to_owned()
    };
    let whole = shown("larkspur__stockroom-8");
    assert!(whole.contains("chat-runs.jsonl (openai-chat)"), "{whole}");
    assert_eq!(shown("ferrule"), shown("ferrule__ringbuf-2"));
    assert_eq!(shown(whole.split(' ').next().unwrap()), whole);
    assert_ne!(shown("larkspur__stockroom-9"), whole);
    let told = place.refused(&["inspect", "data", "larkspur"]);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "error: 2 trajectories fit `larkspur` (id, task, path):");
    assert!(
        lines[1].contains("  larkspur__stockroom-8  ") && lines[2].contains("  larkspur__stockroom-9  "),
        "{told}"
    );
    assert!(
        place.refused(&["inspect", "data", "none"]).contains("no trajectory whose id or task begins with")
    );
}

/// Nobody has read what was asked for: an error, and not a panic.
#[cfg(target_os = "linux")]
#[test]
fn a_full_stdout_is_told() {
    let place = Place::new();
    let commands: [&[&str]; 5] = [
        &["--help"],
        &["list", "strategies"],
        &["inspect", "data", "larkspur__stockroom-8"],
        &["run", "x.toml", "--data", "data", "--list"],
        &["report", "run"],
    ];
    for args in commands {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        command.args(args).current_dir(place.0.path()).stdin(Stdio::null()).stdout(full);
        let output = command.output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        assert!(
            told.contains("cannot write to standard output: No space left on device"),
            "{args:?}: {told}"
        );
    }
}

/// What is under the limit of the memory is so with as many threads as one likes.
#[cfg(target_os = "linux")]
#[test]
fn memory_decides_how_many_threads_read() {
    let place = Place(tempfile::tempdir().unwrap());
    fs::create_dir(place.at("logs")).unwrap();
    for file in 0..6 {
        let line = |n: usize| {
            let text = format!("word{n} ").repeat(2_000);
            format!(
                "{{\"messages\":[{{\"role\":\"user\",\"content\":\"do {file} {n}\"}},{{\"role\":\"assistant\",\"content\":\"{text}\"}}]}}\n"
            )
        };
        fs::write(place.at(&format!("logs/{file}.jsonl")), (0..1_500).map(line).collect::<String>()).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
    command.args(["ingest", "logs", "--out", "data", "--quiet", "--threads", "32", "--max-memory", "192MiB"]);
    let mut child = command.current_dir(place.0.path()).stdin(Stdio::null()).spawn().unwrap();
    // The peak of a process goes with it, so it is asked for as long as it is there.
    let (mut peak, status) = (0.0_f64, format!("/proc/{}/status", child.id()));
    let ended = loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        let kib: f64 = line.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or_default();
        peak = peak.max(kib / 1024.0);
        match child.try_wait().unwrap() {
            Some(ended) => break ended,
            None => std::thread::sleep(std::time::Duration::from_millis(2)),
        }
    };
    assert!(ended.success());
    println!("180 MB of lines with 32 threads: {peak:.0} MiB of 192");
    assert!(peak < 192.0, "{peak} MiB");
}

/// Who has no experiment yet is told how to begin.
#[test]
fn where_there_is_no_experiment_a_way_to_one_is_told() {
    let told = Place::new().refused(&["run", "none.toml", "--data", "data", "--out", "new"]);
    assert!(told.contains("cannot read none.toml: No such file"), "{told}");
    assert!(told.contains("hint: `trajpress show preset NAME > FILE`"), "{told}");
}
