//! `trajpress doctor`, `cache` and `completions`: what stands on this machine beside logs and runs.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::place::Place;

/// In a home of its own.
fn at_home(place: &Place, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
    for name in ["XDG_CACHE_HOME", "TRAJPRESS_MODELS", "CODEX_HOME", "CLAUDE_CONFIG_DIR"] {
        command.env_remove(name);
    }
    command.env("HOME", place.0.path()).current_dir(place.0.path()).stdin(Stdio::null());
    let output = command.args(args).output().unwrap();
    let [told, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), told, said)
}

#[test]
fn a_new_machine_is_well_and_says_what_is_missing() {
    let place = Place::new();
    let (code, told, said) = at_home(&place, &["doctor", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&told).unwrap();
    let states: Vec<(&str, &str)> =
        rows.iter().map(|row| (row["what"].as_str().unwrap(), row["state"].as_str().unwrap())).collect();
    let expected = [
        ("program", "ok"),
        ("models", "missing"),
        ("logs", "missing"),
        ("cache", "ok"),
        ("disk", "ok"),
        ("self-test", "ok"),
    ];
    assert_eq!((code, &states[..]), (Some(0), &expected[..]), "{told}{said}");
    // A place where nothing can be written is wrong.
    fs::remove_dir_all(place.at(".cache")).unwrap();
    fs::write(place.at(".cache"), "no folder").unwrap();
    let (code, told, _) = at_home(&place, &["doctor"]);
    assert!(code == Some(1) && told.contains("cache      wrong"), "{told}");
}

#[test]
fn folders_of_trials_are_counted_and_deleted() {
    let place = Place::new();
    assert_eq!(at_home(&place, &["cache", "stats"]).1, "nothing is kept\n");
    fs::create_dir(place.at("logs")).unwrap();
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/datasets/coding/minilang__parser-7.jsonl");
    fs::copy(log, place.at("logs/a.jsonl")).unwrap();
    assert_eq!(at_home(&place, &["try", "logs", "--quiet"]).0, Some(0));
    let folders = || {
        let rows: Vec<Value> =
            serde_json::from_str(&at_home(&place, &["cache", "stats", "--json"]).1).unwrap();
        rows.iter().find(|row| row["what"] == "folders of `trajpress try`").unwrap()["n"].as_u64().unwrap()
    };
    assert_eq!(folders(), 1);
    assert_eq!(
        at_home(&place, &["cache", "prune"]).1,
        "0 answers and 0 folders of `trajpress try` deleted\n"
    );
    let all = at_home(&place, &["cache", "prune", "--days", "0"]);
    assert_eq!(all.1, "0 answers and 1 folder of `trajpress try` deleted\n", "{}", all.2);
    assert_eq!(folders(), 0);
}

#[test]
fn shells_complete_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (code, told, said) = at_home(&place, &["completions", shell]);
        let all = ["ingest", "nightly", "doctor", "--replace"]
            .iter()
            .all(|word| told.contains(word.trim_start_matches('-')));
        assert!(code == Some(0) && all, "{shell}: {said}");
    }
}
