//! Strategy `command` through the program, with the Python package: from a file of a few lines to rows.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use trajpress::internals::store::{self, VariantRow};

const MINE: &str = "
import trajpress

@trajpress.strategy(version='3')
def newest(event):
    print('words that are no answer')
    assert event.tokens >= event.budget > 0
    return ['Older turns were left out.', *event.messages[-2:]]

trajpress.main()
";

const EXPERIMENT: &str = "
name = 'mine'
[[strategies]]
name = 'drop-all'
[[strategies]]
name = 'command'
command = ['python3', 'mine.py']
files = ['helper.txt']
[[triggers]]
name = 'turns'
n = 4
";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn program(folder: &Path, args: &[&str]) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
    command.env("PYTHONPATH", root().join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.args(args).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, text)
}

#[test]
fn a_strategy_in_python_stands_beside_ours_and_is_run_once() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let logs = root().join("datasets/coding").display().to_string();
    fs::write(at("mine.py"), MINE).unwrap();
    fs::write(at("helper.txt"), "what it reads").unwrap();
    fs::write(at("x.toml"), EXPERIMENT).unwrap();
    assert!(program(place.path(), &["ingest", &logs, "--out", "data"]).0.status.code() < Some(2));
    let run = ["run", "x.toml", "--data", "data", "--out", "run", "--limit", "4", "--threads", "2"];
    let (output, told) = program(place.path(), &run);
    assert!(output.status.success(), "{told}");
    let variants = || -> Vec<VariantRow> { store::read(&at("run/variants.parquet")).unwrap() };
    let own = |variants: Vec<VariantRow>| variants.into_iter().find(|v| v.strategy == "command").unwrap();
    let first = own(variants());
    assert!(first.label.contains("program=newest 3 #"), "{}", first.label);
    // Nothing is left to be done.
    let (output, again) = program(place.path(), &run);
    assert!(output.status.success() && own(variants()).variant == first.variant, "{again}");
    // Another program is another variant, and so another run.
    fs::write(at("mine.py"), MINE.replace("[-2:]", "[-3:]")).unwrap();
    let (output, told) = program(place.path(), &run);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("`program` is newest 3 #"), "{told}");
    // What does not start is told before any work is done.
    fs::write(at("mine.py"), "raise SystemExit('no ink')").unwrap();
    let (output, told) = program(place.path(), &["run", "x.toml", "--data", "data", "--list"]);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("strategy `command`: the program does not start") && told.contains("no ink"),
        "{told}"
    );
}

/// The package calls the program, and reads its tables.
#[test]
fn the_package_runs_and_reads() {
    let place = tempfile::tempdir().unwrap();
    let logs = root().join("datasets/coding").display().to_string();
    program(place.path(), &["ingest", &logs, "--out", "data"]);
    fs::write(place.path().join("x.toml"), "name = \"x\"\n[[strategies]]\nname = \"full\"\n").unwrap();
    let script = "
import trajpress
print(trajpress.run('x.toml', 'data', limit=2))
try:
    trajpress.read('run', 'nothing')
except FileNotFoundError as error:
    print(error)
try:
    print(trajpress.read('run', 'cells').shape[0])
except ImportError as error:
    print('SKIPPED:', error)
";
    let bin = Path::new(env!("CARGO_BIN_EXE_trajpress")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut python = Command::new("python3");
    python.args(["-c", script]).current_dir(place.path()).env("PATH", path);
    python.env("PYTHONPATH", root().join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = python.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = told.lines().collect();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        lines[0] == "run" && lines[1].contains("no table 'nothing'") && lines[1].contains("cells"),
        "{told}"
    );
    assert!(lines[2] == "2" || lines[2].starts_with("SKIPPED"), "{told}");
    eprintln!("frames: {}", lines[2]);
}
