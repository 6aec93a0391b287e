//! `trajpress try` as a user would: logs in, a table out; again, stopped, and with a log that has grown.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{fs, thread};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        fs::create_dir_all(place.at("home/.claude/projects/mine")).unwrap();
        fs::create_dir(place.at("here")).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
        command.arg("try").args(args).current_dir(self.at("here"));
        command.env("HOME", self.at("home")).env_remove("XDG_CACHE_HOME");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

fn told(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn datasets(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets").join(name).display().to_string()
}

/// The rows of a table do not depend on when they were made.
fn table(out: &Output) -> String {
    let text = told(&out.stdout);
    text.lines().take_while(|line| !line.starts_with("All scores")).map(|line| format!("{line}\n")).collect()
}

/// What was told, on one line.
fn flat(out: &Output) -> String {
    (told(&out.stderr) + &told(&out.stdout)).replace('\n', " ")
}

#[test]
fn logs_in_a_table_out_and_nothing_twice() {
    let place = Place::new();
    let (coding, out) = (datasets("coding"), place.at("out").display().to_string());
    let first = place.run(&[&coding, "--out", &out]);
    assert!(first.status.success(), "{}", told(&first.stderr));
    let text = table(&first);
    for part in ["policy ", "needs lost a ", "mask old results, every 21 turns", "Nothing compressed: "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // What holds paths is not broken.
    let is_broken = |line: &&str| !line.starts_with("  ");
    assert!(text.lines().filter(is_broken).all(|line| line.chars().count() <= 100), "{text}");
    let narrow = place.command(&[&coding, "--out", &out]).env("COLUMNS", "60").output().unwrap();
    assert!(table(&narrow).lines().filter(is_broken).all(|line| line.chars().count() <= 60), "{narrow:?}");
    assert!(flat(&narrow).contains("(no room here for: worst session"), "{narrow:?}");
    for file in ["report/summary.md", "report/retention_savings.png", "experiment.toml", "data/steps.parquet"]
    {
        assert!(place.at("out").join(file).exists(), "{file}");
    }
    // The second call reads no log and replays nothing.
    let before = fs::metadata(place.at("out/data/steps.parquet")).unwrap().modified().unwrap();
    let second = place.run(&[&coding, "--out", &out]);
    assert_eq!(second.stdout, first.stdout);
    assert!(told(&second.stderr).starts_with("nothing has changed"), "{}", told(&second.stderr));
    // A kept answer that somebody changed is none.
    let kept = place.at("out/answer.json");
    let changed = fs::read_to_string(&kept).unwrap().replace("nothing compressed", "nothing comprexxed");
    fs::write(&kept, changed.replace("Nothing compressed", "Nothing comprexxed")).unwrap();
    assert_eq!(place.run(&[&coding, "--out", &out]).stdout, first.stdout);
    assert_eq!(fs::metadata(place.at("out/data/steps.parquet")).unwrap().modified().unwrap(), before);
    // Where its report has gone, it is made again.
    fs::remove_file(place.at("out/report/summary.md")).unwrap();
    let again = place.run(&[&coding, "--out", &out]);
    assert_eq!((table(&again), told(&again.stderr).contains("has changed")), (text.clone(), false));
    assert!(place.at("out/report/summary.md").exists());
    // Other options are another trial, in the same place.
    let third =
        place.run(&[&coding, "--out", &out, "--window", "4k", "--prices", "gpt-4.1", "--budget", "1h"]);
    assert!(third.status.success(), "{}", told(&third.stderr));
    assert!(flat(&third).contains("the prices of gpt-4.1") && table(&third) != text);
    assert!(flat(&third).contains("Window: 4,000 tokens, as you ask"), "{third:?}");
    // All that is printed has the same names.
    let summary = fs::read_to_string(place.at("out/report/summary.md")).unwrap();
    assert!(
        summary.contains("| mask old results @ every 21 turns ") && !summary.contains("| mask @ "),
        "{summary}"
    );
    assert!(!summary.contains("99999"), "{summary}");
}

#[cfg(unix)]
#[test]
fn what_could_not_be_read_is_tried_again() {
    let place = Place::new();
    let (logs, out) = (place.at("logs"), place.at("out").display().to_string());
    fs::create_dir(&logs).unwrap();
    for file in fs::read_dir(datasets("coding")).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), logs.join(file.file_name())).unwrap();
    }
    std::os::unix::fs::symlink("nowhere", logs.join("gone.jsonl")).unwrap();
    let args = [logs.to_str().unwrap(), "--out", &out];
    let [first, second] = [0, 1].map(|_| place.run(&args));
    assert_eq!(table(&first), table(&second));
    assert!(!told(&second.stderr).contains("nothing has changed"), "{}", told(&second.stderr));
}

#[test]
fn sessions_are_found_where_agents_keep_them_and_may_grow() {
    let place = Place::new();
    let nothing = place.run(&[]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(told(&nothing.stderr).contains("hint: "), "{}", told(&nothing.stderr));
    let session = place.at("home/.claude/projects/mine/s.jsonl");
    let turn = |i: u32| {
        let call = format!(
            r#"{{"type":"assistant","uuid":"a{i}","sessionId":"s","timestamp":"2026-01-01T00:00:00Z","message":{{"id":"m{i}","role":"assistant","model":"claude-opus-4-5-20251101","content":[{{"type":"tool_use","id":"t{i}","name":"Bash","input":{{"command":"cat src/part_{i}.rs"}}}}]}}}}"#
        );
        let result = format!(
            r#"{{"type":"user","uuid":"u{i}","sessionId":"s","timestamp":"2026-01-01T00:00:00Z","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{i}","content":"fn part_{i}() calls helper_{i} with {i}00 crates"}}]}}}}"#
        );
        call + "\n" + &result + "\n"
    };
    let goal = r#"{"type":"user","uuid":"g","sessionId":"s","timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":"Mend the parts."}}"#;
    let mut text = format!("{goal}\n") + &(0..30).map(turn).collect::<String>();
    // It uses late what it saw early beside a key, and its last line is half written.
    let key = "ghp_rO800YiMsId5X2VEwVz7bJKzjF2msrYZTWPU";
    text = text.replace("helper_2 with 200", &format!("helper_2 with {key}, 200"));
    text += &turn(30).replace("src/part_30.rs", "src/part_2.rs | grep helper_2");
    fs::write(&session, text.clone() + r#"{"type":"assist"#).unwrap();
    let first = place.run(&[]);
    let told_first = told(&first.stderr) + &told(&first.stdout);
    assert!(
        told_first.contains("found Claude Code: ") && told_first.contains("Over 1 session"),
        "{told_first}"
    );
    assert!(flat(&first).contains("the prices of claude-opus-4-5-20251101"), "{told_first}");
    assert!(flat(&first).contains("the most that the model takes, 200,000 for claude-opus"), "{told_first}");
    // Of one session it says numbers, its name and file, and the lines that were lost.
    for part in
        ["  compressions\n", ", about $", "\nThe session:\n  s: mine/s.jsonl\n", "Without effect here: "]
    {
        assert!(told_first.contains(part), "{part}: {told_first}");
    }
    assert!(flat(&first).contains("needed at 31") && flat(&first).contains("helper_2"), "{told_first}");
    assert!(!told_first.contains(key) && told_first.contains("helper_2 with <github-"), "{told_first}");
    fs::write(&session, text + &turn(31)).unwrap();
    let grown = place.run(&[]);
    assert!(told(&grown.stderr).contains("(65 steps)"), "{}", told(&grown.stderr));
}

/// One folder for all that is made, where the logs stand: it is no log.
#[test]
fn its_own_output_is_not_read() {
    let place = Place::new();
    for entry in fs::read_dir(datasets("support")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, place.at("here").join(path.file_name().unwrap())).unwrap();
    }
    let first = place.run(&[".", "--out", "out"]);
    assert!(first.status.success(), "{}", told(&first.stderr));
    let second = place.run(&[".", "--out", "out"]);
    assert_eq!((table(&second), told(&second.stderr).contains("read ")), (table(&first), false));
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(place.at("here/out/data/ingest.json")).unwrap()).unwrap();
    assert_eq!(report["files"], 4);
}

#[test]
fn each_choice_of_logs_has_a_folder_and_the_current_one_is_looked_in() {
    let place = Place::new();
    let [coding, support] = ["coding", "support"].map(datasets);
    let is_new = |args: &[&str]| told(&place.run(args).stderr).contains("read ");
    assert!(is_new(&[&coding]) && is_new(&[&support]));
    assert!(!is_new(&[&coding]) && !is_new(&[&support]), "neither takes the other's place");
    // What a variable names, and the current folder, which holds other files first.
    fs::create_dir_all(place.at("codex/sessions")).unwrap();
    fs::copy(format!("{coding}/chat-runs.jsonl"), place.at("codex/sessions/chat.jsonl")).unwrap();
    fs::write(place.at("here/main.rs"), "fn main() {}").unwrap();
    let found = || {
        let out = place.command(&[]).env("CODEX_HOME", place.at("codex")).output().unwrap();
        told(&out.stderr) + &told(&out.stdout)
    };
    let first = found();
    assert!(first.contains("found Codex: ") && !first.contains("current folder"), "{first}");
    let name = fs::read_dir(&support).unwrap().next().unwrap().unwrap().path();
    fs::copy(&name, place.at("here").join(name.file_name().unwrap())).unwrap();
    let second = found();
    assert!(second.contains("found logs in the current folder: "), "{second}");
    // What no prices are known of has none in dollars.
    assert!(second.contains("relative prices") && !second.contains('$'), "{second}");
}

/// A folder of the user's own is no trial's: nothing of it is replaced.
#[test]
fn what_others_made_stays() {
    let place = Place::new();
    let (coding, out) = (datasets("coding"), place.at("out").display().to_string());
    for (name, file) in [("data", "data/steps.parquet"), ("run", "run/_manifest.json")] {
        fs::create_dir_all(place.at("out").join(name)).unwrap();
        fs::write(place.at("out").join(file), "mine").unwrap();
        let refused = place.run(&[&coding, "--out", &out]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(
            told(&refused.stderr).contains("which `trajpress try` has not made"),
            "{}",
            told(&refused.stderr)
        );
        assert_eq!(fs::read_to_string(place.at("out").join(file)).unwrap(), "mine");
        fs::remove_dir_all(place.at("out").join(name)).unwrap();
    }
    let threads = place.command(&[&coding, "--out", &out]).env("POLARS_MAX_THREADS", "0").output().unwrap();
    assert!(told(&threads.stderr).contains("POLARS_MAX_THREADS is `0`"), "{}", told(&threads.stderr));
    assert!(place.run(&[&coding, "--out", &out]).status.success());
}

#[test]
fn one_that_was_killed_goes_on() {
    let place = Place::new();
    let coding = datasets("coding");
    let whole = table(&place.run(&[&coding, "--out", &place.at("whole").display().to_string()]));
    let out = place.at("out").display().to_string();
    for pause in [50, 150, 300] {
        let mut child = place
            .command(&[&coding, "--out", &out])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(std::time::Duration::from_millis(pause));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let last = place.run(&[&coding, "--out", &out]);
    assert_eq!(table(&last), whole, "{}", told(&last.stderr));
}

/// A folder that nobody used for long, one of another version, one in use, and what is no folder of a trial.
#[test]
fn what_serves_nobody_is_cleared_away() {
    let place = Place::new();
    let cache = place.at("home/.cache/trajpress/try");
    let coding = datasets("coding");
    assert!(place.run(&[&coding]).status.success());
    let mine = fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    let note = fs::read_to_string(mine.join("try.json")).unwrap();
    let make = |name: &str, note: &str, days: u64| {
        fs::create_dir(cache.join(name)).unwrap();
        fs::write(cache.join(name).join("try.json"), note).unwrap();
        let file = fs::File::options().append(true).open(cache.join(name).join("try.json")).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(days * 86_400))
            .unwrap();
    };
    make("000000000001", &note, 31);
    make("000000000002", &note.replace("trajpress ", "trajpress 0."), 1);
    make("000000000003", &note, 29);
    make("my own folder", &note, 400);
    fs::create_dir(cache.join("000000000004")).unwrap();
    let second = place.run(&[&coding]);
    assert!(
        told(&second.stderr).contains("removed 2 folders of earlier calls from "),
        "{}",
        told(&second.stderr)
    );
    let left = |name: &str| cache.join(name).exists();
    let names = ["000000000001", "000000000002", "000000000003", "000000000004", "my own folder"];
    assert_eq!(names.map(left), [false, false, true, true, true]);
    // A call that finds all as it was is a use of the folder.
    let age =
        |folder: &Path| fs::metadata(folder.join("try.json")).unwrap().modified().unwrap().elapsed().unwrap();
    assert!(mine.exists() && age(&mine) < std::time::Duration::from_secs(3600));
    let file = fs::File::options().append(true).open(mine.join("try.json")).unwrap();
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(40 * 86_400)).unwrap();
    assert!(!told(&place.run(&[&coding]).stderr).contains("removed"));
    assert!(age(&mine) < std::time::Duration::from_secs(3600));
}
