//! Strategy `command` through the program, with the Python package: from a file of a few lines to rows.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use trajpress::internals::store::{self, ScoreRow, VariantRow};

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
    assert!(!first.label.contains("python3"), "{}", first.label);
    // Nothing is left to be done.
    let (output, again) = program(place.path(), &run);
    assert!(output.status.success() && own(variants()).variant == first.variant, "{again}");
    // Another program is another variant, and so another run.
    fs::write(at("mine.py"), MINE.replace("[-2:]", "[-3:]")).unwrap();
    let another = || {
        let (output, told) = program(place.path(), &run);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("`program` is newest 3 #"), "{told}");
    };
    another();
    // So is one that imports another module that stands beside it.
    fs::write(at("mine.py"), MINE.replacen("import trajpress", "import trajpress, mine_too", 1)).unwrap();
    fs::write(at("mine_too.py"), "").unwrap();
    let fresh = [&run[..], &["--fresh"]].concat();
    assert!(program(place.path(), &fresh).0.status.success());
    fs::write(at("mine_too.py"), "SIZE = 3").unwrap();
    another();
    // What does not start is told before any work is done.
    fs::write(at("mine.py"), "raise SystemExit('no ink')").unwrap();
    let (output, told) = program(place.path(), &["run", "x.toml", "--data", "data", "--list"]);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("strategy `command`: the program does not start") && told.contains("no ink"),
        "{told}"
    );
}

/// Found on `PATH` it is looked at as one that is named by its file; what is hidden from us is told.
#[cfg(unix)]
#[test]
fn a_program_on_the_path_that_changes_is_another_one() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let logs = root().join("datasets/coding").display().to_string();
    program(place.path(), &["ingest", &logs, "--out", "data"]);
    let list = |command: &str, body: &str| {
        fs::write(at("mytool"), format!("#!/usr/bin/env python3\n{body}")).unwrap();
        fs::set_permissions(at("mytool"), fs::Permissions::from_mode(0o755)).unwrap();
        let text =
            EXPERIMENT.replace("['python3', 'mine.py']", command).replace("files = ['helper.txt']", "");
        fs::write(at("x.toml"), text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", place.path().display()));
        command.args(["run", "x.toml", "--data", "data", "--list"]).current_dir(place.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        (String::from_utf8_lossy(&output.stdout).into_owned(), told)
    };
    let body =
        "input(); print('{\"protocol\": 1, \"name\": \"x\", \"version\": \"1\"}', flush=True); input()\n";
    let (first, told) = list("['mytool']", body);
    let (second, _) = list("['mytool']", &format!("{body}# another\n"));
    assert!(first.contains("program=x 1 #") && first != second, "{first}{second}");
    assert!(!told.contains("hashed"), "{told}");
    let (_, told) = list("['sh', '-c', 'exec mytool']", body);
    assert!(told.contains("sh` alone is hashed") && told.contains("hint: name `files`"), "{told}");
}

const MY_SCORE: &str = "
import trajpress

@trajpress.scorer(version='2', better='lower', unit='share')
def shrunk(event):
    print('words that are no answer')
    assert event.later and event.params == {'by': 2}
    tokens = [sum(m['tokens'] for m in messages) for messages in (event.before, event.after)]
    return tokens[1] / tokens[0], tokens[0]

trajpress.main()
";

const SCORED: &str = "
name = 'mine'
[scores]
[[scores.programs]]
command = ['python3', 'my_score.py']
params = { by = 2 }
[[strategies]]
name = 'drop-all'
[[strategies]]
name = 'mask'
[[strategies]]
name = 'full'
[[triggers]]
name = 'turns'
n = 4
";

/// Beside the scores of trajpress, pooled as they are, and never mixed with those of another program.
#[test]
fn a_score_in_python_stands_beside_ours() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let logs = root().join("datasets/coding").display().to_string();
    fs::write(at("my_score.py"), MY_SCORE).unwrap();
    fs::write(at("x.toml"), SCORED).unwrap();
    assert!(program(place.path(), &["ingest", &logs, "--out", "data"]).0.status.code() < Some(2));
    let run = ["run", "x.toml", "--data", "data", "--out", "run", "--threads", "2"];
    let (output, told) = program(place.path(), &run);
    assert!(output.status.success(), "{told}");
    let rows: Vec<ScoreRow> = store::read(&at("run/scores.parquet")).unwrap();
    let (of_events, of_cells): (Vec<_>, Vec<_>) =
        rows.iter().filter(|row| row.metric.starts_with("shrunk 2 #")).partition(|row| row.event.is_some());
    assert!(
        of_events.len() > of_cells.len() && of_cells.len() > 20,
        "{} {}",
        of_events.len(),
        of_cells.len()
    );
    let sum = |rows: &[&ScoreRow]| rows.iter().map(|row| row.value.unwrap() * row.weight).sum::<f64>();
    assert!((sum(&of_events) - sum(&of_cells)).abs() < 1e-6 * sum(&of_cells));
    assert!(rows.iter().any(|row| row.metric == "unscored_share" && row.value == Some(0.0)));
    let (output, told) = program(place.path(), &["report", "run"]);
    assert!(output.status.success(), "{told}");
    let page = fs::read_to_string(at("run/report/own.md")).unwrap();
    let is_row = |line: &&str| line.starts_with("| drop-all") || line.starts_with("| mask");
    assert!(page.contains("unit share, from 0 to 1, better: lower"), "{page}");
    assert_eq!(page.lines().filter(is_row).filter(|line| line.contains('[')).count(), 2, "{page}");
    assert!(fs::read_to_string(at("run/report/own.csv")).unwrap().contains("shrunk 2 #"));
    // Of one session there is a mean, and no interval.
    program(place.path(), &["run", "x.toml", "--data", "data", "--out", "few", "--limit", "1"]);
    program(place.path(), &["report", "few"]);
    let page = fs::read_to_string(at("few/report/own.md")).unwrap();
    let row = page.lines().find(|line| line.starts_with("| drop-all")).unwrap();
    let mean = row.split('|').map(str::trim).find_map(|cell| cell.strip_suffix('*')?.parse::<f64>().ok());
    assert!(mean.is_some_and(|mean| (0.0..1.0).contains(&mean)), "{page}");
    assert!(page.contains("--population these"), "{page}");
    // Another program is another score: told, and never mixed.
    fs::write(at("my_score.py"), MY_SCORE.replace("tokens[1] / tokens[0]", "1 - tokens[1] / tokens[0]"))
        .unwrap();
    let (output, told) = program(place.path(), &run);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("holds another run") && told.contains("shrunk 2 #"), "{told}");
    // A strategy is no score, nor a score a strategy.
    fs::write(at("mine.py"), MINE).unwrap();
    fs::write(at("helper.txt"), "").unwrap();
    let wrong = |from: &str, to: &str, says: &str| {
        let text =
            fs::read_to_string(at("x.toml")).unwrap() + EXPERIMENT.trim_start().split_once('\n').unwrap().1;
        fs::write(at("y.toml"), text.replace(from, to)).unwrap();
        let (output, told) = program(place.path(), &["run", "y.toml", "--data", "data", "--list"]);
        assert!(output.status.code() == Some(2) && told.contains(says), "{told}");
    };
    wrong("my_score.py", "mine.py", "its greeting is to have `better`, `range` and `unit`");
    wrong("'mine.py'", "'my_score.py'", "scores, and is no strategy");
}

/// The others need packages: `make peers` runs them all.
#[test]
fn a_peer_without_packages_keeps_to_its_budget() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let peers = root().join("examples/peers");
    let text = EXPERIMENT.replace("'mine.py'", &format!("'{}'", peers.join("self_information.py").display()));
    fs::write(at("x.toml"), text.replace("files = ['helper.txt']", "kept_share = 0.25")).unwrap();
    let logs = root().join("datasets/coding").display().to_string();
    program(place.path(), &["ingest", &logs, "--out", "data"]);
    let run = ["run", "x.toml", "--data", "data", "--out", "run", "--limit", "4"];
    let (output, told) = program(place.path(), &run);
    assert!(output.status.success() && !told.contains("stands in"), "{told}");
    let rows: Vec<ScoreRow> = store::read(&at("run/scores.parquet")).unwrap();
    let variants: Vec<VariantRow> = store::read(&at("run/variants.parquet")).unwrap();
    let saved = |strategy: &str| {
        let id = &variants.iter().find(|v| v.strategy == strategy).unwrap().variant;
        let of = |row: &&ScoreRow| *row.variant == **id && row.metric == "token_savings";
        rows.iter().filter(of).map(|row| row.value.unwrap()).sum::<f64>()
    };
    let share = saved("command") / saved("drop-all");
    assert!((0.65..0.9).contains(&share), "{share}");
    let files = fs::read_dir(&peers).unwrap().map(|file| file.unwrap().path());
    for file in files.filter(|file| file.extension().is_some_and(|e| e == "py")) {
        let parse = "import ast, sys; ast.parse(open(sys.argv[1]).read())";
        let status = Command::new("python3").args(["-c", parse]).arg(&file).status().unwrap();
        assert!(status.success(), "{}", file.display());
    }
}

/// Of many warnings some are told, and how many there were.
#[test]
fn a_program_that_fails_at_every_other_event_is_told_of_briefly() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let logs = root().join("datasets/coding").display().to_string();
    program(place.path(), &["ingest", &logs, "--out", "data"]);
    fs::write(at("mine.py"), MINE.replace("    return", "    assert event.turn // 4 % 2\n    return"))
        .unwrap();
    fs::write(at("helper.txt"), "").unwrap();
    fs::write(at("x.toml"), EXPERIMENT).unwrap();
    let (output, told) = program(place.path(), &["run", "x.toml", "--data", "data", "--out", "run"]);
    assert!(output.status.success(), "{told}");
    assert_eq!(told.matches("stands in: it ended").count(), 3, "{told}");
    assert!(
        told.contains("program `python3 mine.py`: ") && told.contains(" warnings more like these"),
        "{told}"
    );
}

/// It notes each event, and has a child.
const NOTING: &str = "
import subprocess, sys, time, trajpress

child = subprocess.Popen(['sleep', '94'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(child.pid, file=open('children', 'a'))

@trajpress.strategy(recursive=True)
def noting(event):
    is_left = any(m['kind'] == 'generated' for m in event.messages)
    print('left' if is_left else 'new', file=open('events', 'a'))
    time.sleep(event.params['seconds'])
    return 'What was before.'

trajpress.main()
";

#[cfg(target_os = "linux")]
fn lives(process: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

#[cfg(target_os = "linux")]
fn all_end(children: &Path) {
    let soon = std::time::Instant::now() + std::time::Duration::from_secs(5);
    let children = fs::read_to_string(children).unwrap();
    assert!(!children.is_empty());
    for child in children.lines() {
        while lives(child) {
            assert!(std::time::Instant::now() < soon, "the child {child} lives");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// What a recursive program left is in its next scope; nothing is asked twice; nothing that it started outlives the run, be
/// that interrupted.
#[cfg(target_os = "linux")]
#[test]
fn a_program_is_asked_once_and_ends_with_the_run() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let logs = root().join("datasets/coding").display().to_string();
    let experiment = |seconds: &str| {
        let text =
            EXPERIMENT.replace("files = ['helper.txt']", &format!("params = {{ seconds = {seconds} }}"));
        fs::write(at("x.toml"), text).unwrap();
    };
    fs::write(at("mine.py"), NOTING).unwrap();
    program(place.path(), &["ingest", &logs, "--out", "data"]);
    experiment("0.0");
    let run = ["run", "x.toml", "--data", "data", "--out", "run", "--limit", "3"];
    let (output, told) = program(place.path(), &run);
    assert!(output.status.success(), "{told}");
    all_end(&at("children"));
    let events = || fs::read_to_string(at("events")).unwrap();
    let first = events();
    let n_left = first.lines().filter(|line| *line == "left").count();
    assert!(n_left > 2 && n_left < first.lines().count(), "{first}");
    assert!(program(place.path(), &run).0.status.success());
    assert_eq!(events(), first, "an unchanged program is not asked again");
    // Interrupted while it thinks.
    experiment("60.0");
    fs::remove_file(at("children")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
    command.env("PYTHONPATH", root().join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.args(["run", "x.toml", "--data", "data", "--out", "other"]).current_dir(place.path());
    let mut running = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let soon = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while events() == first {
        assert!(std::time::Instant::now() < soon, "it is not asked");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Command::new("sh").args(["-c", &format!("kill -INT {}", running.id())]).status().unwrap();
    assert!(!running.wait().unwrap().success());
    all_end(&at("children"));
}

/// While a program greets, and while workers start one after the other: the signal ends the run and all of them, and nothing is told.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_ends_what_is_about_to_start() {
    use std::os::unix::process::ExitStatusExt as _;
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let logs = root().join("datasets/coding").display().to_string();
    program(place.path(), &["ingest", &logs, "--out", "data"]);
    let begin = "import json, os, subprocess, sys, time\n\
                 child = subprocess.Popen(['sleep', '89'], start_new_session=True)\n\
                 print(os.getpid(), child.pid, sep='\\n', file=open('children', 'a'))\n";
    let greet = "print(json.dumps({'protocol': 1, 'name': 'x', 'version': '1'}), flush=True)\n";
    let slow = format!("{begin}time.sleep(60)\n");
    let dying = format!("{begin}input()\n{greet}input()\n");
    for (body, signal, n) in [(&slow, 2, 2), (&dying, 15, 16), (&dying, 2, 24)] {
        fs::write(at("mine.py"), body).unwrap();
        fs::write(at("children"), "").unwrap();
        fs::write(at("x.toml"), EXPERIMENT.replace("files = ['helper.txt']", "")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
        command.args(["run", "x.toml", "--data", "data", "--out", "run", "--threads", "4", "--fresh"]);
        command.current_dir(place.path()).stdin(Stdio::null()).stderr(Stdio::piped());
        let running = command.spawn().unwrap();
        let soon = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while fs::read_to_string(at("children")).unwrap().lines().count() < n {
            assert!(std::time::Instant::now() < soon, "it does not start");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Command::new("sh").args(["-c", &format!("kill -{signal} {}", running.id())]).status().unwrap();
        let output = running.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.signal(), Some(signal), "{told}");
        assert!(!told.contains("error:"), "{told}");
        std::thread::sleep(std::time::Duration::from_millis(300));
        all_end(&at("children"));
    }
}

/// A score that does something once, and what a user is told of that.
const SEEN: [(&str, &str, &str); 12] = [
    ("silent", "time.sleep(99)", "no answer within 5 s"),
    (
        "half",
        "sys.stdout.write('{\"event\": 1, '); sys.stdout.flush(); time.sleep(99)",
        "no answer within 5 s",
    ),
    ("long", "sys.stdout.write('x' * 100_000_000 + '\\n')", "an answer of more than 32 MB"),
    ("dead", "sys.exit('out of ink')", "it ended (exit status: 1)\nit last said: out of ink"),
    ("forking", "subprocess.Popen(['sleep', '93']); os._exit(3)", "it ended (exit status: 3)"),
    ("wordy", "print('so far so good')", "it wrote `so far so good`: it is no answer"),
    ("other", "good['event'] = 77", "`: it answers event 77, asked was 1\n"),
    ("looping", "while True: pass", "no answer within 5 s"),
    (
        "stubborn",
        "subprocess.Popen(['sh', '-c', 'trap \"\" TERM HUP INT; sleep 92; sleep 92'], start_new_session=True); time.sleep(99)",
        "no answer within 5 s",
    ),
    ("beyond", "good['value'] = 1.5", "its `value` is outside of its range"),
    ("nan", "good['value'] = float('nan')", "`NaN` and `Infinity` are no numbers in JSON"),
    ("empty", "del good['value']", "it has no `value`"),
];

fn score_program(name: &str, body: &str) -> String {
    format!(
        "
import json, os, subprocess, sys, time
def say(x):
    print(json.dumps(x), flush=True)
say({{'protocol': 1, 'name': '{name}', 'version': '1', 'better': 'higher', 'range': [0, 1], 'unit': 'share'}})
input()
for line in sys.stdin:
    good = {{'event': json.loads(line)['event'], 'value': 0.5}}
    {body}
    say(good)
"
    )
}

/// Each is told by its name, costs its event alone, and is counted; what cannot go on fails its cells.
#[cfg(target_os = "linux")]
#[test]
fn what_a_user_sees_of_scores_that_misbehave() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let logs = root().join("datasets/coding").display().to_string();
    program(place.path(), &["ingest", &logs, "--out", "data"]);
    let run = |programs: &[(&str, String)], out: &str| {
        let mut text =
            "name = 'x'\n[[strategies]]\nname = 'drop-all'\n[[triggers]]\nname = 'turns'\nn = 4\n".to_owned();
        for (name, body) in programs {
            fs::write(at(&format!("{name}.py")), score_program(name, body)).unwrap();
            text += &format!("[[scores.programs]]\ncommand = ['python3', '{name}.py']\ntimeout = 5.0\n");
        }
        fs::write(at("x.toml"), text).unwrap();
        program(
            place.path(),
            &["run", "x.toml", "--data", "data", "--out", out, "--limit", "4", "--threads", "1"],
        )
    };
    let once = |body: &str| {
        format!(
            "if not os.path.exists(__file__ + '.flag'):\n        open(__file__ + '.flag', 'w').close()\n        {body}"
        )
    };
    let all: Vec<(&str, String)> = SEEN.iter().map(|(name, body, _)| (*name, once(body))).collect();
    let (output, told) = run(&all, "run");
    assert!(output.status.success(), "{told}");
    for (name, _, says) in SEEN {
        assert!(
            told.contains(&format!("program `python3 {name}.py`: an event has no value: "))
                && told.contains(says),
            "{name}: {told}"
        );
    }
    program(place.path(), &["report", "run"]);
    let rows = fs::read_to_string(at("run/report/own.csv")).unwrap();
    let column = |line: &str, name: &str| {
        let at = rows.lines().next().unwrap().split(',').position(|n| n == name).unwrap();
        line.split(',').nth(at).unwrap().to_owned()
    };
    for (name, ..) in SEEN {
        let of = rows.lines().filter(|line| line.contains(&format!("{name} 1 #")));
        let (full, others): (Vec<&str>, Vec<&str>) = of.partition(|line| line.starts_with("full @"));
        assert!(column(others[0], "unscored").parse::<f64>().unwrap() > 0.0, "{others:?}");
        // Nothing is compressed there, so nothing is asked.
        assert!(full.iter().all(|row| column(row, "unscored").is_empty()), "{full:?}");
    }
    let failed = |name: &str, body: &str, says: &str| {
        let (output, told) = run(&[(name, body.to_owned())], name);
        assert_eq!(output.status.code(), Some(1), "{told}");
        program(place.path(), &["report", name]);
        let page = fs::read_to_string(at(name).join("report/summary.md")).unwrap();
        assert!(page.contains(says), "{page}");
    };
    // One that is given up costs its own values alone.
    let (output, told) = run(&[("failing", "sys.exit('out of ink')".to_owned())], "failing");
    assert!(output.status.success(), "{told}");
    assert!(told.contains("is asked no more in session") && told.contains("out of ink"), "{told}");
    program(place.path(), &["report", "failing"]);
    let page = fs::read_to_string(at("failing/report/own.md")).unwrap();
    assert!(page.lines().any(|line| line.starts_with("| drop-all") && line.contains("1.000")), "{page}");
    failed("changing", "open(__file__, 'a').write('#')", "has changed: it is changing 1 ");
}
