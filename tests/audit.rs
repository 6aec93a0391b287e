//! `trajpress audit` on sessions of which all is known: with a compaction, with two, with cleared results, and without any.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

mod apart;
mod prompts;
mod records;

/// The log with so many new tokens in the prompt of a call.
fn new_in(call: u32, new: u64, log: &str) -> String {
    let mut lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for of in lines.iter_mut().filter(|of| of["uuid"] == json!(format!("a{call}"))) {
        let usage = &mut of["message"]["usage"];
        let whole = usage["cache_read_input_tokens"].as_u64().unwrap() + 10;
        usage["cache_read_input_tokens"] = json!(whole - new);
        usage["input_tokens"] = json!(new);
    }
    lines.iter().map(line).collect()
}

/// The log with other tokens of the prompts of some calls.
fn billed(log: &str, tokens: impl Fn(u64, u64) -> u64) -> String {
    let mut lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for of in &mut lines {
        let Some(i) = of["uuid"].as_str().and_then(|id| id.strip_prefix('a')?.parse().ok()) else { continue };
        let read = &mut of["message"]["usage"]["cache_read_input_tokens"];
        *read = json!(tokens(i, read.as_u64().unwrap() + 10) - 10);
    }
    lines.iter().map(line).collect()
}

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
    let time = if is_summary { "2026-01-01T00:07:30Z" } else { "2026-01-01T00:00:00Z" };
    line(&json!({
        "type": "user", "uuid": id, "sessionId": "s", "timestamp": time, "isCompactSummary": is_summary,
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
        + &read(1, 200, "/w/src/a.rs", 10)
        + &read(2, 230, "/w/src/b.rs", 20)
        + &typed("w", "Never change the licence of any file.", false)
        + &(3..8).map(|i| bash(i, 250 + 10 * i, &format!("date +{i}"))).collect::<String>()
        + &line(&json!({"type": "system", "subtype": "compact_boundary", "uuid": "b", "sessionId": "s"}))
        + &typed("c", "The parts are mended; those of src/zeta.rs come next.", true)
        + &bash(8, 90, "cat notes.txt")
        + &read(9, 100, "/w/src/a.rs", 10)
        + &bash(10, 150, "grep -rn helper_22 .")
}

fn audit(path: &Path, args: &[&str]) -> String {
    let out =
        Command::new(env!("CARGO_BIN_EXE_trajpress")).arg("audit").arg(path).args(args).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// The same for people, as one line.
fn page(path: &Path) -> String {
    let text = audit(path, &[]);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
    assert_eq!((&of["prompt_before"], &of["prompt_after"]), (&json!(320), &json!(90)));
    assert_eq!((&of["billed"], &of["calls_left"]), (&json!(true), &json!(2)));
    // When it was compacted, and not when the next call was answered.
    assert_eq!(of["time"], "2026-01-01 00:07:30 UTC");
    let first = of["turn"].as_u64().unwrap();
    let lost: Vec<&Value> =
        of["lost"].as_array().unwrap().iter().filter(|lost| lost["what"] == "helper_22").collect();
    assert_eq!(lost.len(), 1, "{of:#}");
    assert_eq!((&lost[0]["last_seen_at"], &lost[0]["used_at"]), (&json!(2), &json!(first + 2)));
    assert_eq!(of["named_nowhere_before"], json!(["src/zeta.rs"]));
    assert_eq!(gone(of), ["Mend the parts of this crate.", "Never change the licence of any file."]);
    // At 5 and 25 dollars a million: the prompt before with what was logged since, and the words of the summary.
    let cost = of["cost_of_summary_at_most"].as_f64().unwrap();
    assert!(cost > 320.0 * 5e-6 && cost < 500.0 * 5e-6 + 40.0 * 25e-6, "{cost}");
    // What the summary cost is paid back later than the cache alone, if at all.
    let paid = |key: &str| of[key].as_u64().unwrap_or(u64::MAX);
    assert!(paid("paid_after_calls") < paid("paid_after_calls_with_summary"), "{of:#}");
    let again = of["read_again"].as_array().unwrap();
    assert_eq!(again.len(), 1, "{of:#}");
    assert!(again[0]["path"].as_str().unwrap().ends_with("src/a.rs"), "{of:#}");
    assert_eq!((&again[0]["before"], &again[0]["turn"]), (&json!(1), &json!(first + 1)));
    // At 6.25 dollars a million, written to the cache, and 25 for the call: no more than was new in the next prompt.
    let (tokens, cost) = (again[0]["tokens"].as_f64().unwrap(), again[0]["cost"].as_f64().unwrap());
    assert!(tokens > 60.0 && cost > 10.0 * 6.25e-6 && cost < tokens * 25e-6, "{tokens} {cost}");
    let of = &told(&new_in(10, 120, &session()))["compactions"][0]["read_again"][0];
    let more = of["cost"].as_f64().unwrap() - cost;
    assert!(more > 20.0 * 6.25e-6 && more <= 110.0 * 6.25e-6 + 1e-9, "{of:#}");
    // For people: the same, in words.
    let text = page(&path);
    let parts = [
        "prompt 320 -> 90 tokens as billed",
        "lost cache: ",
        "; with that not paid back by",
        "`src/zeta.rs`",
        "licence of any file",
    ];
    for part in parts.into_iter().chain(["read again, unchanged: 1, for under $0.01"]) {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_file_that_was_edited_in_between_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let edit = json!({"file_path": "/w/src/a.rs", "old_string": "x", "new_string": "y"});
    let log = session().replacen(
        &turn(5, 300, "Bash", &json!({"command": "date +5"}), "done without output"),
        &turn(5, 300, "Edit", &edit, "The file has been updated."),
        1,
    );
    assert!(log.contains("old_string"));
    fs::write(&path, &log).unwrap();
    let json: Value = serde_json::from_str(&audit(&path, &["--json"])).unwrap();
    assert_eq!(json["sessions"][0]["compactions"][0]["read_again"], json!([]));
}

/// What `audit` tells of a session.
fn told(session: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    fs::write(&path, session).unwrap();
    let mut json: Value = serde_json::from_str(&audit(&path, &["--json"])).unwrap();
    json["sessions"][0].take()
}

fn gone(compaction: &Value) -> Vec<&str> {
    let words = compaction["user_words_gone"].as_array().unwrap();
    words.iter().map(|words| words["text"].as_str().unwrap()).collect()
}

/// A line of the product itself.
fn of_system(subtype: &str, rest: &str) -> String {
    format!(r#"{{"type":"system","subtype":"{subtype}","uuid":"{subtype}","sessionId":"s"{rest}}}"#) + "\n"
}

/// What was said a moment before a compaction is lost like the rest.
#[test]
fn the_newest_turns_are_lost_as_well() {
    let is_left = |line: &&str| !(3..10).any(|i| line.contains(&format!(r#""t{i}""#)));
    let log: String = session().lines().filter(is_left).map(line_of).collect();
    let of = &told(&log)["compactions"][0];
    let lost = of["lost"].as_array().unwrap().iter().find(|lost| lost["what"] == "helper_22").unwrap();
    assert_eq!((&lost["last_seen_at"], &lost["used_at"]), (&json!(2), &json!(4)), "{of:#}");
}

/// What the summary names is not lost, also within a longer name; what the product says behind it, the lines of a numbered file, the
/// names of a list, and a part of a longer name are not made up. A plan is no words of the user.
#[test]
fn a_summary_is_read_as_its_product_wrote_it() {
    let summary = "Mended Test_helper_22_twice (see line 300), Shift_parts_twice, then parts/crates/notes.\\n\\nIf you need specific \
                   details from before compaction, read the full transcript at: /home/u/projects/w/5f0e8a52.jsonl";
    let log = session()
        .replace("The parts are mended; those of src/zeta.rs come next.", summary)
        .replace("done without output", "done with notes, 300 lines by TestShift_parts_twice")
        .replace(
            "Mend the parts of this crate.",
            "Implement the following plan:\\n\\nMend all parts of this crate.",
        );
    let of = &told(&log)["compactions"][0];
    assert_eq!(
        (&of["named"], &of["named_nowhere_before"]),
        (&json!(4), &json!(["Test_helper_22_twice"])),
        "{of:#}"
    );
    let alone = json!([{"what": "helper_22", "line": "fn part_22() calls helper_22 with 2200 crates\n", "stood_at": 2,
        "last_seen_at": 2, "used_at": 10, "steps_that_named_it": 1, "named_at": 8}]);
    assert_eq!((&of["lost"], &of["used_with_the_name_alone"]), (&json!([]), &alone), "{of:#}");
    assert_eq!(gone(of), ["Never change the licence of any file."]);
}

/// A log that begins in the middle does not show what its summary replaced.
#[test]
fn what_a_summary_made_up_is_not_told_where_the_log_does_not_show_it() {
    let more: String = (0..9)
        .map(|i| {
            turn(20 + i, 150_000, "Bash", &json!({"command": format!("date +{i}")}), "done without output")
        })
        .collect();
    let log = session();
    let at = log[..log.find("compact_boundary").unwrap()].rfind('\n').unwrap() + 1;
    let of = &told(&format!("{}{more}{}", &log[..at], &log[at..]))["compactions"][0];
    assert_eq!((&of["named_nowhere_before"], &of["named"]), (&Value::Null, &json!(1)), "{of:#}");
}

/// A file that was read in two pieces and then whole was read again, also if the tool says where a piece stands.
#[test]
fn a_file_is_read_again_in_pieces() {
    let read = |i: u32, result: &str| turn(i, 280, "Read", &json!({"file_path": "/w/src/a.rs"}), result);
    let whole = |first: u32| parts(first) + &parts(first + 6);
    let piece = |from| parts(from) + "(more lines below)";
    let log = session().replacen(
        &turn(3, 280, "Bash", &json!({"command": "date +3"}), "done without output"),
        &read(3, &piece(16)),
        1,
    );
    let again = |now: &str| {
        let log = log.replacen(
            &turn(9, 100, "Read", &json!({"file_path": "/w/src/a.rs"}), &parts(10)),
            &read(9, now),
            1,
        );
        assert!(log.contains("more lines below"));
        let session = told(&log);
        let again = session["compactions"][0]["read_again"].as_array().unwrap().clone();
        again
            .iter()
            .map(|again| (again["before"].as_u64().unwrap(), again["tokens"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    let of_whole = again(&whole(10));
    let of_piece = again(&parts(16));
    assert!(of_whole.len() == 1 && of_whole[0].0 == 3, "{of_whole:?}");
    assert!(of_piece.len() == 1 && of_piece[0].1 < of_whole[0].1, "{of_piece:?}");
    // Of another folder it is another file.
    let in_folder =
        |folder: &str, log: &str| log.replacen("/w/src/a.rs", &format!("/w/{folder} x/read a.rs"), 1);
    let twice = |second: &str| {
        let log = in_folder("one", &session());
        let log = in_folder(second, &log);
        told(&log)["compactions"][0]["read_again"].as_array().unwrap().len()
    };
    assert_eq!([twice("one"), twice("other")], [1, 0]);
    // One line in the middle is another one.
    assert_eq!(again(&whole(10).replace("helper_15 with", "helper_15 without")), []);
}

/// The second of a list is no name, and what few steps had named comes first.
#[test]
fn what_is_lost_is_named_and_the_rarest_comes_first() {
    let listed = "done; issue #2 of parser/lexer.rs stays open as helper_22 there";
    let log =
        session().replacen(r#""content":"done without output""#, &format!(r#""content":"{listed}""#), 1);
    let log = log.replace("grep -rn helper_22 .", "grep -rn helper_22 . # of issue #2, see helper_25");
    let of = told(&log)["compactions"][0].take();
    let lost = of["lost"].as_array().unwrap();
    let named =
        |what: &str| lost.iter().find(|lost| lost["what"] == what).map(|lost| &lost["steps_that_named_it"]);
    assert_eq!(
        [named("#2"), named("helper_22"), named("helper_25")],
        [None, Some(&json!(2)), Some(&json!(1))],
        "{of:#}"
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    fs::write(&path, log).unwrap();
    let text = page(&path);
    assert!(
        text.find("`helper_25`") < text.find("`helper_22`") && text.contains("2 steps had named it"),
        "{text}"
    );
}

/// What the first compaction took away does not go again with the second one.
#[test]
fn two_compactions_take_each_their_own() {
    let second = of_system("compact_boundary", "").replace(r#""uuid":"compact_boundary""#, r#""uuid":"b2""#)
        + &typed("c2", "Nothing is left to do.", true)
        + &turn(12, 90, "Bash", &json!({"command": "date +12"}), "done without output");
    let log = session() + &typed("w2", "Leave the tests as they are, please.", false) + &second;
    let all = &told(&log)["compactions"];
    let first = told(&session())["compactions"][0].clone();
    assert_eq!(all[0]["steps"], first["steps"]);
    assert_eq!(gone(&all[0]), ["Mend the parts of this crate.", "Never change the licence of any file."]);
    assert_eq!(gone(&all[1]), ["Leave the tests as they are, please."]);
    // Three calls with their results, and the words of the user.
    assert_eq!(all[1]["steps"], 7, "{all:#}");
}

#[test]
fn a_log_without_compactions_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let log: String =
        session().lines().take_while(|l| !l.contains("compact_boundary")).map(line_of).collect();
    fs::write(&path, log).unwrap();
    assert!(page(&path).contains("none of them records that its past was compacted or edited"));
}
