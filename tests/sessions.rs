//! Sessions that an experiment links: a chain has the same rows whatever the threads and kills, and what its sessions share is asked for.

use std::fs;

use trajpress::internals::store::{self, EventRow, ScoreRow, TrajectoryRow};

use crate::place::Place;

const EXPERIMENT: &str = r#"
name = "sessions"
partners = []
reference_tails = [0]
contexts = true
[data]
link = "repository"
[[strategies]]
name = "full"
[[strategies]]
name = "summary"
[[strategies]]
name = "drop-all"
[[triggers]]
name = "session"
"#;

/// A session of Claude Code on a day: it lists what is there, reads a file, and says so.
fn session(day: u32, project: &str, said: &str) -> String {
    let line = |kind: &str, content: String, at: u32| {
        format!(
            r#"{{"type":"{kind}","sessionId":"s{day}","uuid":"{day}-{at}","parentUuid":{},"cwd":"/srv/{project}","timestamp":"2026-03-{day:02}T10:00:{at:02}.000Z","message":{{"role":"{kind}","content":{content}}}}}"#,
            if at == 0 { "null".to_owned() } else { format!(r#""{day}-{}""#, at - 1) }
        ) + "\n"
    };
    let call = |id: u32, command: &str| {
        format!(r#"[{{"type":"tool_use","id":"call{id}","name":"Bash","input":{{"command":"{command}"}}}}]"#)
    };
    let result = |id: u32, text: &str| {
        format!(r#"[{{"type":"tool_result","tool_use_id":"call{id}","content":"{text}"}}]"#)
    };
    [
        line("user", format!(r#""{said}""#), 0),
        line("assistant", call(1, "ls src"), 1),
        line("user", result(1, "the parser lives in src/parser.py beside its lexer"), 2),
        line("assistant", call(2, "cat src/parser.py"), 3),
        line("user", result(2, "nothing but words"), 4),
        line("assistant", r#"[{"type":"text","text":"That is all."}]"#.to_owned(), 5),
    ]
    .concat()
}

/// Three sessions of one project, whose files stand in another order than their days, and one of another project.
fn place() -> Place {
    let place = Place::new();
    fs::create_dir(place.at("logs")).unwrap();
    for (name, day, project) in [("a", 9, "shop"), ("b", 3, "shop"), ("c", 5, "shop"), ("d", 4, "bank")] {
        let path = place.at("logs").join(name).with_extension("jsonl");
        fs::write(path, session(day, project, &format!("look around on day {day}"))).unwrap();
    }
    fs::write(place.at("x.toml"), EXPERIMENT).unwrap();
    assert!(place.program(&["ingest", "logs", "--out", "data", "--quiet"]).status.success());
    place
}

fn run(place: &Place, out: &str, more: &[&str]) {
    let args = [&["run", "x.toml", "--data", "data", "--out", out, "--quiet"], more].concat();
    let output = place.program(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn sessions_of_a_repository_are_one_log() {
    let place = place();
    run(&place, "run", &[]);
    let trajectories: Vec<TrajectoryRow> = store::read(&place.at("run/trajectories.parquet")).unwrap();
    let told: Vec<(&str, u32, u32)> =
        trajectories.iter().map(|t| (t.repository.as_deref().unwrap(), t.n_turns, t.n_steps)).collect();
    // Behind what stands alone; the heads of the later two are turns of their own.
    assert_eq!(told, [("bank", 3, 6), ("shop", 11, 18)]);
    let scores: Vec<ScoreRow> = store::read(&place.at("run/scores.parquet")).unwrap();
    let events: Vec<EventRow> = store::read(&place.at("run/events.parquet")).unwrap();
    let scopes: Vec<(u32, u32)> = events.iter().map(|event| (event.turn, event.scope_end)).collect();
    // By each of the two strategies that compress.
    assert_eq!(scopes, [(5, 4), (9, 8), (5, 4), (9, 8)]);
    let of = |stratum: &str| {
        let rows = scores.iter().filter(|row| &*row.metric == "need_retention" && &*row.stratum == stratum);
        rows.filter(|row| row.n > 0).map(|row| (row.n, row.value.unwrap_or(-1.0))).collect::<Vec<_>>()
    };
    // `ls` shows the file again, and a later turn reads it: in the second session and in the third.
    let again = of("set=exposed tail=0 found=again");
    assert!(!again.is_empty() && again.iter().all(|(n, _)| *n == 2), "{again:?}");
    assert!(again.iter().any(|(_, value)| *value == 0.0), "what removes all keeps none of it: {again:?}");
    // A chain is looked at and exported like a session.
    let id = &trajectories[1].trajectory[..8];
    for more in [&[][..], &["--event", "1"], &["--json"]] {
        let args = [&["inspect", "run", id, "--variant", "drop-all"], more].concat();
        let shown = place.program(&args);
        assert!(shown.status.success(), "{more:?}: {}", String::from_utf8_lossy(&shown.stderr));
    }
    assert!(place.program(&["inspect", "run", id]).status.success());
    let exported =
        place.program(&["export", "run", "--variant", "drop-all", "--as", "openai", "--at", "each"]);
    let prompts = String::from_utf8(exported.stdout).unwrap();
    assert!(exported.status.success() && prompts.lines().count() >= 2, "{prompts}");
}

#[test]
fn a_chain_has_the_same_rows_whatever_the_threads_and_kills() {
    let place = place();
    run(&place, "run", &["--threads", "1"]);
    let tables = |out: &str| {
        ["trajectories", "cells", "events", "scores", "timeline", "contexts"]
            .map(|name| fs::read(place.at(out).join(name).with_extension("parquet")).unwrap())
    };
    run(&place, "threads", &["--threads", "4"]);
    assert!(tables("run") == tables("threads"));
    // A half of it, as if it had been killed there, and then the rest.
    run(&place, "shards", &["--shard", "1/2"]);
    run(&place, "shards", &[]);
    assert!(tables("run") == tables("shards"));
    // Other sessions of the chain are another log.
    fs::write(place.at("logs/e.jsonl"), session(12, "shop", "look around on day 12")).unwrap();
    assert!(place.program(&["ingest", "logs", "--out", "data", "--quiet"]).status.success());
    run(&place, "run", &[]);
    let trajectories: Vec<TrajectoryRow> = store::read(&place.at("run/trajectories.parquet")).unwrap();
    assert_eq!(trajectories.iter().map(|t| t.n_turns).max(), Some(15));
}

#[test]
fn chains_are_cut_to_about_one_length() {
    let place = place();
    fs::write(place.at("x.toml"), EXPERIMENT.replace("link =", "link_sessions = 2\nlink =")).unwrap();
    run(&place, "run", &[]);
    let trajectories: Vec<TrajectoryRow> = store::read(&place.at("run/trajectories.parquet")).unwrap();
    // Of three sessions the first stays alone: two chains of at most two.
    assert_eq!(trajectories.iter().map(|t| t.n_turns).collect::<Vec<_>>(), [3, 3, 7]);
    fs::write(place.at("x.toml"), EXPERIMENT.replace("link = \"repository\"", "link_sessions = 2")).unwrap();
    let output = place.program(&["run", "x.toml", "--data", "data", "--out", "other"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("hint: add `link = \"repository\"`"), "{told}");
}
