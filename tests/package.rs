//! The Python package: what it sends, what it runs and reads, and its types.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::place::Place;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Python with the package; it answers `requests` if there are some.
fn python(script: &str, folder: &Path, requests: &str) -> (Output, String, String) {
    let bin = Path::new(env!("CARGO_BIN_EXE_trajpress")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    // Frames may be installed in what the tests are told.
    let packages = std::env::var("PYTHONPATH").unwrap_or_default();
    let packages = format!("{}:{packages}", root().join("python").display());
    let mut python = Command::new("python3");
    python.args(["-c", script]).current_dir(folder).env("PATH", path).env("PYTHONPATH", packages);
    python.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = python.stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(requests.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (told, heard) = (text(&output.stdout), text(&output.stderr));
    (output, told, heard)
}

/// What a function sends to a request: the body of one, decorated.
fn sent(decorator: &str, body: &str) -> (bool, String, String) {
    let script = format!(
        "import trajpress\nfrom fractions import Fraction\n@trajpress.{decorator}\ndef mine(event):\n    {body}\ntrajpress.main()"
    );
    let of_its_own = match decorator {
        "strategy" => r#""messages": [{"id": "0", "content": "x"}], "tokens": 1, "budget": 1"#,
        _ => r#""before": [], "after": [], "later": []"#,
    };
    let request = format!(
        "{{\"event\": 1, \"turn\": 1, \"goal\": null, \"seed\": 1, \"params\": {{}}, {of_its_own}}}\n"
    );
    let (output, told, heard) = python(&script, root(), &request);
    (output.status.success(), told.trim_end().to_owned(), heard)
}

#[test]
fn what_a_function_gives_is_sent_as_the_protocol_has_it() {
    let new = r#""messages": [{"role": "user", "content": "y"}]"#;
    let shown = r#""messages": [{"id": "0", "content": "x"}]"#;
    let cases = [
        ("strategy", "return 'y'", new),
        ("strategy", "yield 'y'", new),
        ("strategy", "return event.messages", shown),
        ("strategy", "return event.messages[0]", shown),
        (
            "strategy",
            "return trajpress.Edits({'drop': m['id']} for m in event.messages)",
            r#""edits": [{"drop": "0"}]"#,
        ),
        ("strategy", "return trajpress.Edits([])", r#""edits": []"#),
        ("scorer", "return True", r#""value": 1.0, "weight": 1.0"#),
        ("scorer", "return Fraction(1, 4), False", r#""value": 0.25, "weight": 0.0"#),
        ("scorer", "return None, 2", r#""value": null, "weight": 2.0"#),
    ];
    for (decorator, body, answer) in cases {
        let (ok, told, heard) = sent(decorator, body);
        assert!(ok && told == format!("{{\"event\": 1, {answer}}}"), "{body}: {told}{heard}");
    }
    let (ok, told, heard) = sent("scorer", "return '0.5'");
    assert!(!ok && told.is_empty() && heard.contains("'0.5' is no number"), "{told}{heard}");
}

/// The package calls the program, and reads its tables; what the program says reaches whoever asked.
#[test]
fn the_package_runs_reports_and_reads() {
    let place = Place::new();
    let logs = root().join("datasets/coding").display().to_string();
    place.program(&["ingest", &logs, "--out", "data"]);
    fs::write(place.at("x.toml"), "name = \"x\"\n[[strategies]]\nname = \"full\"\n").unwrap();
    let script = "
import trajpress
def error(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except (trajpress.Failed, FileNotFoundError) as error:
        return ' '.join(str(error).split())
print(trajpress.run('x.toml', 'data', limit=2))
print(error(trajpress.read, 'run', 'nothing'))
print(error(trajpress.read, 'nodir'))
print(error(trajpress.run, 'x.toml', 'data', limit=3))
print(error(trajpress.run, 'x.toml', 'data', limit=3, replace=True))
print(error(trajpress.run, 'x.toml', 'data', limit=2, fresh=True))
print(trajpress.report('run', 'there', population='these', baseline='full'))
print(isinstance(trajpress.__version__, str))
try:
    print(trajpress.read('run', 'cells').shape[0], trajpress.read('there', 'summary').shape[0])
except ImportError as error:
    print('SKIPPED:', error)
";
    let (output, told, heard) = python(script, place.0.path(), "");
    let lines: Vec<&str> = told.lines().collect();
    assert!(output.status.success() && lines.len() == 9, "{told}{heard}");
    assert_eq!((lines[0], lines[2]), ("run", "there is no folder 'nodir'"));
    assert!(lines[1].contains("no table 'nothing'") && lines[1].contains("cells"), "{told}");
    assert!(lines[3].contains("status 2") && lines[3].contains("error: run holds another run"), "{told}");
    assert!(heard.contains("error: run holds another run"), "{heard}");
    assert_eq!(lines[4..8], ["None", "None", "there", "True"]);
    assert!(lines[8] == "2 1" || lines[8].starts_with("SKIPPED"), "{told}");
    eprintln!("frames: {}", lines[8]);
}

/// The types of the package, of what users may write, and of the programs of docs/own.md hold for the oldest Python that is
/// promised, and for the newest that the checker knows; what is wrong is refused.
#[test]
fn types_hold_for_old_and_new_python() {
    let place = Place::new();
    let text = fs::read_to_string(root().join("docs/own.md")).unwrap();
    let programs = ["mine.py", "my_score.py"].map(|name| {
        let from = text.split_once(&format!("\n`{name}`")).unwrap().1.split_once("```python\n").unwrap().1;
        fs::write(place.at(name), from.split_once("```").unwrap().0).unwrap();
        place.at(name)
    });
    let check = |version: &str| {
        let mut python = Command::new("python3");
        python.args(["-m", "mypy", "--strict", "--no-incremental", "--python-version", version]);
        python.args(["python/trajpress", "tests/typed.py"]).args(&programs);
        python.env("MYPYPATH", "python").current_dir(root()).output().unwrap()
    };
    for version in ["3.9", "3.14"] {
        let output = check(version);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let heard = String::from_utf8_lossy(&output.stderr);
        if heard.contains("No module named mypy") {
            eprintln!("SKIPPED: python3 has no mypy (`pip install mypy==1.18.2`): types are not checked");
            return;
        }
        assert!(output.status.success(), "{version}: {told}{heard}");
    }
}
