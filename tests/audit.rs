//! `trajpress audit` on a session with one compaction, of which all is known, and on one that records none.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

fn line(value: &Value) -> String {
    format!("{value}\n")
}

fn line_of(text: &str) -> String {
    format!("{text}\n")
}

/// A call with its result; `tokens` of the prompt by the provider's count.
fn turn(i: u32, tokens: u32, tool: &str, input: &Value, result: &str) -> String {
    let time = format!("2026-01-01T00:{i:02}:00Z");
    let call = json!({
        "type": "assistant", "uuid": format!("a{i}"), "sessionId": "s", "timestamp": time,
        "message": {
            "id": format!("m{i}"), "role": "assistant", "model": "claude-opus-4-5-20251101",
            "usage": {"input_tokens": 10, "cache_read_input_tokens": tokens - 10, "output_tokens": 20},
            "content": [{"type": "tool_use", "id": format!("t{i}"), "name": tool, "input": input}],
        },
    });
    let result = json!({
        "type": "user", "uuid": format!("u{i}"), "sessionId": "s", "timestamp": time,
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": format!("t{i}"), "content": result}]},
    });
    line(&call) + &line(&result)
}

fn typed(id: &str, text: &str, is_summary: bool) -> String {
    line(&json!({
        "type": "user", "uuid": id, "sessionId": "s", "timestamp": "2026-01-01T00:00:00Z", "isCompactSummary": is_summary,
        "message": {"role": "user", "content": text},
    }))
}

fn parts(from: u32) -> String {
    (from..from + 6).map(|i| format!("fn part_{i}() calls helper_{i} with {i}00 crates\n")).collect()
}

fn session() -> String {
    let read =
        |i: u32, tokens, path: &str, from| turn(i, tokens, "Read", &json!({"file_path": path}), &parts(from));
    let bash = |i: u32, tokens, command: &str| {
        turn(i, tokens, "Bash", &json!({"command": command}), "done without output")
    };
    typed("g", "Mend the parts of this crate.", false)
        + &read(1, 3_000, "/w/src/a.rs", 10)
        + &read(2, 3_500, "/w/src/b.rs", 20)
        + &typed("w", "Never change the licence of any file.", false)
        + &(3..8).map(|i| bash(i, 4_000 + 100 * i, &format!("date +{i}"))).collect::<String>()
        + &line(&json!({"type": "system", "subtype": "compact_boundary", "uuid": "b", "sessionId": "s"}))
        + &typed("c", "The parts are mended; those of src/zeta.rs come next.", true)
        + &bash(8, 900, "cat notes.txt")
        + &read(9, 1_000, "/w/src/a.rs", 10)
        + &bash(10, 1_500, "grep -rn helper_22 .")
}

fn audit(path: &Path, args: &[&str]) -> String {
    let out =
        Command::new(env!("CARGO_BIN_EXE_trajpress")).arg("audit").arg(path).args(args).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn a_compaction_is_told_with_what_it_cost() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    fs::write(&path, session()).unwrap();
    let json: Value = serde_json::from_str(&audit(&path, &["--json"])).unwrap();
    let of = &json["sessions"][0]["compactions"];
    assert_eq!(of.as_array().map(Vec::len), Some(1), "{json:#}");
    let of = &of[0];
    assert_eq!((&of["prompt_before"], &of["prompt_after"]), (&json!(4_700), &json!(900)));
    assert_eq!((&of["billed"], &of["calls_left"]), (&json!(true), &json!(2)));
    assert_eq!(of["time"], "2026-01-01 00:08:00 UTC");
    let first = of["turn"].as_u64().unwrap();
    let lost: Vec<&Value> =
        of["lost"].as_array().unwrap().iter().filter(|lost| lost["what"] == "helper_22").collect();
    assert_eq!(lost.len(), 1, "{of:#}");
    assert_eq!((&lost[0]["last_seen_at"], &lost[0]["used_at"]), (&json!(2), &json!(first + 2)));
    assert_eq!(lost[0]["named_in_summary"], false);
    assert_eq!(of["named_nowhere_before"], json!(["src/zeta.rs"]));
    let gone = of["user_words_gone"].as_array().unwrap();
    assert_eq!(gone.len(), 1, "{of:#}");
    assert!(gone[0]["text"].as_str().unwrap().contains("Never change the licence of any file"), "{of:#}");
    let again = of["read_again"].as_array().unwrap();
    assert_eq!(again.len(), 1, "{of:#}");
    assert!(again[0]["path"].as_str().unwrap().ends_with("src/a.rs"), "{of:#}");
    assert_eq!((&again[0]["before"], &again[0]["turn"]), (&json!(1), &json!(first + 1)));
    // For people: the same, in words.
    let text = audit(&path, &[]);
    let parts =
        ["prompt 4,700 -> 900 tokens as billed", "lost cache: ", "`src/zeta.rs`", "licence of any file"];
    for part in parts.into_iter().chain(["read again, unchanged: 1"]) {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_file_that_was_edited_in_between_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let edit = json!({"file_path": "/w/src/a.rs", "old_string": "x", "new_string": "y"});
    let log = session().replacen(
        &turn(5, 4_500, "Bash", &json!({"command": "date +5"}), "done without output"),
        &turn(5, 4_500, "Edit", &edit, "The file has been updated."),
        1,
    );
    assert!(log.contains("old_string"));
    fs::write(&path, &log).unwrap();
    let json: Value = serde_json::from_str(&audit(&path, &["--json"])).unwrap();
    assert_eq!(json["sessions"][0]["compactions"][0]["read_again"], json!([]));
}

#[test]
fn a_log_without_compactions_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let log: String =
        session().lines().take_while(|l| !l.contains("compact_boundary")).map(line_of).collect();
    fs::write(&path, log).unwrap();
    assert!(audit(&path, &[]).contains("none of them records that its past was compacted or edited"));
}
