//! docs/method.md is enough to compute scores again: programs that follow that page, and share no code with ours, find
//! the same atoms in the texts, and the same values from the tables.
//!
//! Needs a Python with pyarrow: the one that TRAJPRESS_PYTHON names, else `python3`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the page defines for a replay without a model; the strategies whose prompts it tells in full.
const EXPERIMENT: &str = r#"
name = "method"
tokenizer = "o200k"

[prices]
name = "odd"
fresh = 3.0
cache_write = 4.0
cache_write_1h = 7.0
cache_read = 0.25
output = 14.0
cache_lifetime = 120.0
cache_gone = 0.25
dearer_above = 4000.0
dearer_prompt = 1.75
dearer_output = 1.5

[[strategies]]
name = "full"

[[strategies]]
name = "drop-all"

[[strategies]]
name = "mask"
keep_last = [2, 10]

[[strategies]]
name = "mask"
keep_last = 5
polling = 5

[[strategies]]
name = "truncate"
keep_last = 10

[[triggers]]
name = "turns"
n = 1

[[triggers]]
name = "turns"
n = 10
keep = 5
"#;

fn trajpress(args: &[&str]) {
    let status = Command::new(env!("CARGO_BIN_EXE_trajpress")).args(args).arg("--quiet").status().unwrap();
    assert!(status.success(), "trajpress {args:?}: {status}");
}

/// Straight to stderr: what a passing test prints by `eprintln!` is swallowed.
fn tell(text: &str) {
    std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()).unwrap();
}

/// A Python with pyarrow, if there is one.
fn python() -> Option<String> {
    let python = std::env::var("TRAJPRESS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let ready = Command::new(&python).args(["-c", "import pyarrow"]).output();
    if ready.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    tell(&format!("SKIPPED: {python} has no pyarrow\nhint: pip install it, or set TRAJPRESS_PYTHON\n"));
    None
}

/// The annotated logs: the built-in ones, and what `tests/method/fixture.py` wrote for this test (compaction with kept
/// steps, late results, usage with pauses; masked observations; a line for each rule of the lexer).
fn annotated(dir: &Path) -> PathBuf {
    let data = dir.join("data");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let logs = ["datasets/coding", "datasets/support", "datasets/templates", "tests/data/method"];
    let logs = logs.map(|logs| root.join(logs).display().to_string());
    let out = data.display().to_string();
    let args: Vec<&str> =
        ["ingest"].into_iter().chain(logs.iter().map(String::as_str)).chain(["--out", &out]).collect();
    trajpress(&args);
    trajpress(&["annotate", &out]);
    data
}

/// Runs one of the programs; returns how many things it compared, none of which differs.
fn compared(python: &str, program: &str, folders: &[&Path]) -> u64 {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/method").join(program);
    let output = Command::new(python).arg("-B").arg(program).args(folders).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    tell(&text);
    let last = text.lines().last().and_then(|line| line.split(' ').next());
    last.and_then(|n| n.parse().ok()).expect("the last line begins with a number")
}

#[test]
fn atoms_are_found_again_from_the_page() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let data = annotated(dir.path());
    assert!(compared(&python, "atoms.py", &[&data]) > 7000);
}

#[test]
fn scores_are_computed_again_from_the_page() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let data = annotated(dir.path());
    let [experiment, run] = ["experiment.toml", "run"].map(|name| dir.path().join(name));
    std::fs::write(&experiment, EXPERIMENT).unwrap();
    let [from, to, by] = [&data, &run, &experiment].map(|path| path.display().to_string());
    trajpress(&["run", &by, "--data", &from, "--out", &to]);
    assert!(compared(&python, "scores.py", &[&data, &run]) > 10_000);
}
