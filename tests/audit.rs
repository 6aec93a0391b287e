//! `trajpress audit` on sessions of which all is known: with a compaction, with two, with cleared results, and without any.

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

/// A record of a clearing that names nothing is told, though nothing else is known of it.
#[test]
fn what_a_record_does_not_describe_is_told() {
    let cleared = of_system(
        "microcompact_boundary",
        r#","microcompactMetadata":{"tokensSaved":2000,"compactedToolIds":[],"clearedAttachmentUUIDs":[]}"#,
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    fs::write(&path, typed("g", "Mend the parts of this crate.", false) + &cleared).unwrap();
    let json: Value = serde_json::from_str(&audit(&path, &["--json"])).unwrap();
    assert_eq!(json["went_untold"], json!({"claude-code": {"microcompaction": 1}}), "{json:#}");
    let text = page(&path);
    assert!(text.contains("Logs of claude-code record 1 microcompaction without saying what went"), "{text}");
}

/// What the product counted is told beside what the provider billed.
#[test]
fn what_a_record_counts_is_told() {
    let boundary = r#""subtype":"compact_boundary""#;
    let metadata =
        format!(r#"{boundary},"compactMetadata":{{"trigger":"auto","preTokens":310,"postTokens":40}}"#);
    let log = session().replace(boundary, &metadata);
    assert_ne!(log, session());
    let of = &told(&log)["compactions"][0];
    assert_eq!((&of["logged_before"], &of["logged_after"]), (&json!(310), &json!(40)), "{of:#}");
    assert_eq!((&of["prompt_before"], &of["prompt_after"]), (&json!(320), &json!(90)));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    fs::write(&path, log).unwrap();
    let text = page(&path);
    assert!(text.contains("logged, by the product's own count: 310 -> 40 tokens"), "{text}");
    // Where no call came behind it there is nothing else to tell how long the prompt was.
    let summary = typed("c", "All is mended.", true);
    let alone = typed("g", "Mend the parts of this crate.", false)
        + &line(
            &json!({"type": "system", "subtype": "compact_boundary", "uuid": "b", "sessionId": "s", "compactMetadata": {"preTokens": 310}}),
        )
        + &summary;
    let of = &told(&alone)["compactions_without_a_call_behind"][0];
    assert_eq!(
        (&of["prompt_before"], &of["counted_by"], &of["logged_before"]),
        (&json!(310), &json!("record"), &json!(310))
    );
}

/// To a question of the model the user may answer in words of his own, which are his; what is chosen from its list is the model's.
#[test]
fn what_is_typed_to_a_question_is_said() {
    let asked = |i: u32, answer: &str| {
        let question = "Which licence should the crate have?";
        let options =
            json!([{"label": "The one that it has now", "description": "Keep it."}, {"label": "Another"}]);
        let input = json!({"questions": [{"question": question, "header": "Licence", "options": options, "multiSelect": false}]});
        let text = format!(
            "User has answered your questions: \"{question}\"=\"{answer}\". You can now continue with the user's answers in mind."
        );
        turn(i, 300, "AskUserQuestion", &input, &text)
    };
    let chosen = asked(12, "The one that it has now");
    let own = asked(13, "None before the lawyers have read it, please");
    let log = session();
    let at = log[..log.find("compact_boundary").unwrap()].rfind('\n').unwrap() + 1;
    let of = &told(&format!("{}{chosen}{own}{}", &log[..at], &log[at..]))["compactions"][0];
    let words = gone(of);
    assert!(words.contains(&"None before the lawyers have read it, please"), "{words:?}");
    assert_eq!(words.len(), 3, "{words:?}");
}

/// Results that were cleared count once, without their calls; what they had told and was used later is lost.
#[test]
fn cleared_results_are_edits() {
    let cleared = |calls: &str| {
        let of = format!(
            r#","microcompactMetadata":{{"compactedToolIds":[{calls}],"clearedAttachmentUUIDs":[]}}"#
        );
        of_system("microcompact_boundary", &of)
            .replace(r#""uuid":""#, &format!(r#""uuid":"{}"#, calls.replace('"', "-")))
    };
    let log = |calls: &str| -> String {
        session()
            .lines()
            .filter(|line| !line.contains(r#""isCompactSummary":true"#))
            .map(|line| if line.contains("compact_boundary") { cleared(calls) } else { line_of(line) })
            .collect()
    };
    let session = told(&log(r#""t1","t2""#));
    assert_eq!((&session["compactions"], &session["edits"][1]), (&json!([]), &Value::Null));
    let edit = &session["edits"][0];
    assert_eq!(edit["steps"], 2, "{edit:#}");
    assert_eq!(
        (&edit["prompt_before"], &edit["prompt_after"], &edit["billed"]),
        (&json!(320), &json!(90), &json!(true))
    );
    let lost = edit["lost"].as_array().unwrap();
    let of = lost.iter().find(|lost| lost["what"] == "helper_22").unwrap();
    assert_eq!((&of["last_seen_at"], &of["used_at"]), (&json!(2), &json!(10)), "{edit:#}");
    assert!(edit["read_again"][0]["path"].as_str().unwrap().ends_with("src/a.rs"), "{edit:#}");
    // Of many edits those are shown that took something.
    let mut many = log(r#""t2""#);
    let at = |log: &str, what: &str| log[..log.find(what).unwrap()].rfind('\n').unwrap() + 1;
    let edit = cleared(r#""t2""#);
    many = many.replace(&edit, "");
    for (id, before) in [("t3", "a5"), ("t4", "a6"), ("t5", "a7"), ("t6", "a8"), ("t7", "a9"), ("t2", "a10")]
    {
        many.insert_str(at(&many, &format!(r#""{before}""#)), &cleared(&format!(r#""{id}""#)));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    fs::write(&path, many).unwrap();
    let text = page(&path);
    assert!(
        text.contains("`helper_22`") && text.contains("1 more edit: 0 things lost and used again"),
        "{text}"
    );
    // What the first of two had taken is read again behind the second.
    let log = log(r#""t2""#);
    let at = log[..log.find(r#""a5""#).unwrap()].rfind('\n').unwrap() + 1;
    let edits = &told(&format!("{}{}{}", &log[..at], cleared(r#""t1""#), &log[at..]))["edits"];
    let n_again = |at: usize| edits[at]["read_again"].as_array().unwrap().len();
    assert_eq!((edits[0]["steps"].as_u64(), [n_again(0), n_again(1)]), (Some(1), [0, 1]), "{edits:#}");
}

/// What the user typed between a compaction and the next call goes with the one behind it.
#[test]
fn words_behind_a_compaction_go_with_the_next() {
    let at = session().find("cat notes.txt").unwrap();
    let at = session()[..at].rfind('\n').unwrap() + 1;
    let log = format!(
        "{}{}{}",
        &session()[..at],
        typed("w2", "Leave the tests as they are, please.", false),
        &session()[at..]
    );
    let second = of_system("compact_boundary", "").replace(r#""uuid":"compact_boundary""#, r#""uuid":"b2""#)
        + &typed("c2", "Nothing is left to do.", true)
        + &turn(12, 90, "Bash", &json!({"command": "date +12"}), "done without output");
    let all = &told(&(log + &second))["compactions"];
    assert_eq!(gone(&all[0]), ["Mend the parts of this crate.", "Never change the licence of any file."]);
    assert_eq!(gone(&all[1]), ["Leave the tests as they are, please."]);
}

/// When it was, how long the prompt, what the summary made up and whose words are gone needs no call behind it.
#[test]
fn a_compaction_without_a_call_behind_it_is_told() {
    let is_before = |line: &&str| {
        !["a8", "u8", "a9", "u9", "a10", "u10"].iter().any(|id| line.contains(&format!("\"uuid\":\"{id}\"")))
    };
    let log: String = session().lines().filter(is_before).map(line_of).collect();
    let session = told(&log);
    assert_eq!(session["compactions"], json!([]));
    let of = &session["compactions_without_a_call_behind"][0];
    assert_eq!(
        (&of["time"], &of["prompt_before"]),
        (&json!("2026-01-01 00:07:30 UTC"), &json!(320)),
        "{of:#}"
    );
    assert_eq!(
        (&of["named_nowhere_before"], &of["is_followed_by_another"]),
        (&json!(["src/zeta.rs"]), &json!(false))
    );
    assert_eq!(gone(of), ["Mend the parts of this crate.", "Never change the licence of any file."]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    fs::write(&path, &log).unwrap();
    let text = page(&path);
    for part in [
        "1 session, 1 compacted or edited: 1 compaction, 0 edits.",
        "of a prompt of 320 tokens as billed; a summary of",
        "no call came behind it",
        "licence of any file",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // One of two that follow each other.
    let again = of_system("compact_boundary", "").replace(r#""uuid":"compact_boundary""#, r#""uuid":"b2""#)
        + &typed("c2", "Nothing is left to do.", true);
    let session = told(&(log + &again + &turn(12, 90, "Bash", &json!({"command": "date +12"}), "done")));
    assert_eq!(session["compactions"].as_array().map(Vec::len), Some(1), "{session:#}");
    assert_eq!(
        session["compactions_without_a_call_behind"][0]["is_followed_by_another"], true,
        "{session:#}"
    );
    // What the first of them took does not go again.
    assert_eq!(gone(&session["compactions"][0]), Vec::<&str>::new());
}

/// A log of nothing but a compaction has one.
#[test]
fn a_compaction_of_a_log_without_calls_is_told() {
    let event = |kind: &str, data: Value| {
        line(&json!({"type": kind, "id": kind, "timestamp": "2026-01-01T00:00:00Z", "data": data}))
    };
    let log = event("session.start", json!({"sessionId": "s1", "selectedModel": "claude-opus-4.5"}))
        + &event("session.compaction_start", json!({}))
        + &event(
            "session.compaction_complete",
            json!({"success": true, "summaryContent": "The parts are mended."}),
        )
        + &event("session.shutdown", json!({}));
    let of = |log: &str| told(log)["compactions_without_a_call_behind"][0].take();
    let without = of(&log);
    assert_eq!(
        (&without["prompt_before"], &without["time"]),
        (&Value::Null, &json!("2026-01-01 00:00:00 UTC")),
        "{without:#}"
    );
    // Where the record says how much was there, that is told.
    let with = of(&log.replace(r#""success":true"#, r#""success":true,"preCompactionTokens":160458"#));
    assert_eq!(
        (&with["prompt_before"], &with["counted_by"]),
        (&json!(160_458), &json!("record")),
        "{with:#}"
    );
    assert_eq!((&with["billed"], &with["cost_of_summary"]), (&json!(false), &Value::Null), "{with:#}");
}

/// Claude Code puts files back and logs none of them: where no prompt is counted nothing tells whether what is missed stood there.
#[test]
fn without_a_count_of_prompts_nothing_is_lost_for_sure() {
    let mut lines: Vec<Value> = session().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for of in &mut lines {
        if let Some(message) = of["message"].as_object_mut() {
            message.remove("usage");
        }
    }
    let log: String = lines.iter().map(line).collect();
    let of = told(&log)["compactions"][0].take();
    assert_eq!(
        (&of["billed"], &of["lost"], &of["is_prompt_after_in_the_log"]),
        (&json!(false), &Value::Null, &json!(false))
    );
    assert!(
        of["lost_as_far_as_logged"].as_array().unwrap().iter().any(|lost| lost["what"] == "helper_22"),
        "{of:#}"
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    fs::write(&path, &log).unwrap();
    let text = page(&path);
    for part in [
        "how much of this prompt is not in the log is not known",
        "lost and used again, as far as the log shows",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Where the calls before were counted, that is said.
    for of in lines.iter_mut().filter(|of| of["uuid"] == "a7") {
        of["message"]["usage"] = json!({"input_tokens": 310, "output_tokens": 20});
    }
    let log: String = lines.iter().map(line).collect();
    fs::write(&path, &log).unwrap();
    assert_eq!(told(&log)["compactions"][0]["counted_last_before"]["tokens"], 310);
    assert!(page(&path).contains("had 310 tokens; that of this one is not logged"));
}

/// Keys that the user typed are not printed, unless that is asked for; and what is passed on quotes nothing.
#[test]
fn what_is_printed_has_no_keys() {
    let key = "AKIAQ7KTZ3VXD5PLW2HN";
    let log = session()
        .replace("Never change the licence of any file.", &format!("Never print the key {key} of mine."));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    fs::write(&path, &log).unwrap();
    for args in [&[][..], &["--json"]] {
        let told = audit(&path, args);
        assert!(
            !told.contains(key) && told.contains("Never print the key") && told.contains("s.jsonl"),
            "{told}"
        );
        assert!(audit(&path, &[args, &["--raw"]].concat()).contains(key));
        let safe = audit(&path, &[args, &["--share-safe"]].concat());
        assert!(
            !["Never print", "zeta.rs", "helper_22", "a.rs", "s.jsonl"].iter().any(|of| safe.contains(of)),
            "{safe}"
        );
    }
    // What is cut would be half of a key, which no rule tells.
    let (html, many) = (dir.path().join("s.html"), "of the many machines ".repeat(4));
    let long = format!("Never print the key {many}{key} of mine.");
    fs::write(&path, session().replace("Never change the licence of any file.", &long)).unwrap();
    let told = audit(&path, &["--html", &html.display().to_string()]);
    let page = fs::read_to_string(&html).unwrap();
    for told in [told, page] {
        assert!(told.contains("Never print the key") && !told.contains(&key[..6]), "{told}");
    }
    fs::write(&path, &log).unwrap();
    let json: Value = serde_json::from_str(&audit(&path, &["--json", "--share-safe"])).unwrap();
    let of = &json["sessions"][0]["compactions"][0];
    assert_eq!(
        (&of["n_named_nowhere_before"], of["lost"][0]["used_at"].is_u64()),
        (&json!(1), true),
        "{of:#}"
    );
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

/// Files that a product puts back behind a compaction without a line in the log may hold what seems to be lost.
#[test]
fn what_is_lost_is_not_told_where_the_prompt_holds_what_is_not_logged() {
    let call = |tokens| turn(8, tokens, "Bash", &json!({"command": "cat notes.txt"}), "done without output");
    let log = |tokens| session().replace(&call(90), &call(tokens));
    let lost = |tokens| told(&log(tokens))["compactions"][0].clone();
    assert_eq!(lost(2_500)["prompt_after_not_in_the_log"], Value::Null);
    assert!(lost(2_500)["lost"].is_array());
    let of = lost(9_000);
    assert!(of["prompt_after_not_in_the_log"].as_u64().is_some_and(|n| n > 8_000), "{of:#}");
    assert_eq!((&of["lost"], &of["read_again"]), (&Value::Null, &Value::Null), "{of:#}");
    // What there is at most is told, and what of it no file that is put back can hold.
    let perhaps = of["lost_as_far_as_logged"].as_array().unwrap();
    let of_file: Vec<(&str, bool)> = perhaps
        .iter()
        .map(|of| (of["what"].as_str().unwrap(), of["stood_in_a_file"].as_bool().unwrap()))
        .collect();
    assert_eq!(of_file, [("helper_22", true)], "{of:#}");
    assert_eq!(of["read_again_as_far_as_logged"].as_array().map(Vec::len), Some(1), "{of:#}");
    let known = lost(2_500);
    assert_eq!(
        (&known["lost_as_far_as_logged"], &known["read_again_as_far_as_logged"]),
        (&json!([]), &json!([]))
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let of_result =
        log(9_000).replace("src/b.rs", "src/a.rs").replacen(r#""name":"Read""#, r#""name":"Fetch""#, 2);
    for (log, told) in [(log(9_000), "1, 0 of them in no file"), (of_result, "1, 1 of them in no file")] {
        fs::write(&path, log).unwrap();
        let text = page(&path);
        assert!(text.contains(&format!("lost and used again, as far as the log shows: {told}")), "{text}");
        assert!(text.contains("of this prompt are not in the log: files that were put back"), "{text}");
    }
    // At most nothing is nothing.
    let of = told(&log(9_000).replace("grep -rn helper_22 .", "date +10"))["compactions"][0].take();
    assert_eq!((&of["lost"], &of["used_with_the_name_alone"]), (&json!([]), &json!([])), "{of:#}");
}

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

/// System prompt and tools stand in each prompt: neither do they hide what was replaced, nor are they put back.
#[test]
fn what_stands_in_each_prompt_is_the_first_prompts() {
    let of = &told(&billed(&session(), |_, tokens| tokens + 40_000))["compactions"][0];
    assert!(of["prompt_before_in_the_log"].as_f64().is_some_and(|share| share > 0.9), "{of:#}");
    assert_eq!(
        (&of["prompt_after_not_in_the_log"], &of["named_nowhere_before"]),
        (&Value::Null, &json!(["src/zeta.rs"]))
    );
    assert!(of["read_again"].as_array().is_some_and(|again| again.len() == 1), "{of:#}");
    let behind = |i: u64, tokens: u64| tokens + if i < 8 { 40_000 } else { 49_000 };
    // Files that stand in all prompts behind the compaction hide what is lost at the next one, too.
    let second = of_system("compact_boundary", "").replace(r#""uuid":"compact_boundary""#, r#""uuid":"b2""#)
        + &typed("c2", "Nothing is left to do.", true)
        + &turn(12, 49_090, "Bash", &json!({"command": "grep -rn helper_12 ."}), "done without output");
    let all = &told(&(billed(&session(), behind) + &second))["compactions"];
    for of in all.as_array().unwrap() {
        assert!(
            of["prompt_after_not_in_the_log"].as_u64().is_some_and(|n| n > 8_500 && n < 9_200),
            "{all:#}"
        );
        assert_eq!(of["lost"], Value::Null, "{all:#}");
    }
    assert_eq!(all.as_array().map(Vec::len), Some(2));
}

/// What was used behind a second compaction may have been put back with that.
#[test]
fn what_a_later_prompt_may_hold_is_not_lost() {
    let second = |tokens| {
        of_system("compact_boundary", "").replace(r#""uuid":"compact_boundary""#, r#""uuid":"b2""#)
            + &typed("c2", "Nothing is left to do.", true)
            + &turn(12, tokens, "Bash", &json!({"command": "grep -rn helper_22 ."}), "done without output")
    };
    let log = session().replace("grep -rn helper_22 .", "date +10");
    let is_lost = |tokens| {
        let of = told(&(log.clone() + &second(tokens)))["compactions"][0].take();
        ["lost", "lost_as_far_as_logged"]
            .map(|key| of[key].as_array().unwrap().iter().any(|lost| lost["what"] == "helper_22"))
    };
    assert_eq!([90, 9_000].map(is_lost), [[true, false], [false, true]]);
}

/// A record may be written before the shorter prompt is sent.
#[test]
fn the_first_shorter_prompt_is_told() {
    let date = |i: u32, tokens| {
        turn(i, tokens, "Bash", &json!({"command": format!("date +{i}")}), "done without output")
    };
    let call = turn(8, 90, "Bash", &json!({"command": "cat notes.txt"}), "done without output");
    // What falls long after the record has another cause.
    let far = session().replace(&call, &((11..15).map(|i| date(i, 320 + i)).collect::<String>() + &call));
    let of = told(&far)["compactions"][0].take();
    assert_eq!((&of["prompt_before"], &of["prompt_after"]), (&json!(320), &json!(331)), "{of:#}");
    let log = session().replace(&call, &(date(11, 330) + &date(12, 340) + &call));
    let session = told(&log);
    let of = &session["compactions"][0];
    assert_eq!((&of["prompt_before"], &of["prompt_after"]), (&json!(340), &json!(90)), "{of:#}");
    assert_eq!((&of["shorter"], &of["time"]), (&json!(true), &json!("2026-01-01 00:07:30 UTC")), "{of:#}");
    assert_eq!((&of["calls_left"], &session["fell_without_a_record"]), (&json!(2), &json!([])), "{of:#}");
    // One that never fell is no saving.
    let log = billed(&log, |i, tokens| match i {
        8..11 => 1000,
        11.. => 600,
        _ => tokens,
    });
    let of = &told(&log)["compactions"][0];
    assert_eq!((&of["prompt_after"], &of["shorter"]), (&json!(600), &json!(false)), "{of:#}");
}

/// The bill shows that something went, also where no record says so.
#[test]
fn a_fall_without_a_record_is_told() {
    let date = |i: u32, tokens| {
        turn(i, tokens, "Bash", &json!({"command": format!("date +{i}")}), "done without output")
    };
    let log = |tokens: u32| {
        typed("g", "Mend the parts of this crate.", false)
            + &(1..5).map(|i| date(i, 50_000 + 100 * i)).collect::<String>()
            + &(5..9).map(|i| date(i, tokens + 100 * i)).collect::<String>()
    };
    let fell = told(&log(30_000))["fell_without_a_record"].take();
    assert_eq!(fell.as_array().map(Vec::len), Some(1), "{fell:#}");
    let of = &fell[0];
    assert_eq!(
        (&of["turn"], &of["prompt_before"], &of["prompt_after"]),
        (&json!(5), &json!(50_400), &json!(30_500))
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    fs::write(&path, log(30_000)).unwrap();
    assert!(page(&path).contains("50,400 -> 30,500 tokens, and no record says why"));
    fs::write(&path, log(49_000)).unwrap();
    assert!(!page(&path).contains("no record says why"));
    // Another model counts in tokens of its own.
    let log = log(30_000);
    let (first, last) = log.split_at(log.find("\"uuid\":\"a5\"").unwrap());
    let (last, first) = match first.rfind('\n') {
        Some(end) => (format!("{}{last}", &first[end + 1..]), &first[..end + 1]),
        None => unreachable!("lines stand before it"),
    };
    let log = format!("{first}{}", last.replace("claude-opus-4-5-20251101", "claude-haiku-4-5-20251001"));
    assert_eq!(told(&log)["fell_without_a_record"][0]["another_model_answered"], true);
    fs::write(&path, &log).unwrap();
    assert!(page(&path).contains("30,500 tokens, where another model answered"), "{}", page(&path));
}

/// Two calls behind the record still have the old prompt: what was replaced is judged by the last one before the record, since the
/// replay has put the summary into theirs.
#[test]
fn what_is_replaced_late_is_shown_as_well() {
    let read =
        |i: u32, tokens, path: &str, from| turn(i, tokens, "Read", &json!({"file_path": path}), &parts(from));
    let date = |i: u32, tokens| {
        turn(i, tokens, "Bash", &json!({"command": format!("date +{i}")}), "done without output")
    };
    let log = typed("g", "Mend the parts of this crate.", false)
        + &read(1, 200, "/w/src/a.rs", 10)
        + &read(2, 330, "/w/src/b.rs", 20)
        + &(3..8).map(|i| date(i, 460 + 30 * i)).collect::<String>()
        + &line(&json!({"type": "system", "subtype": "compact_boundary", "uuid": "b", "sessionId": "s"}))
        + &typed("c", "The parts are mended.", true)
        + &[(8, 690), (9, 700), (10, 260)].map(|(i, tokens)| date(i, tokens)).concat()
        + &(11..15).map(|i| date(i, 30 * i - 40)).collect::<String>();
    let of = told(&log)["compactions"][0].take();
    assert_eq!((&of["turn"], &of["prompt_after"]), (&json!(10), &json!(260)));
    assert!(of["prompt_before_in_the_log"].as_f64().unwrap() > 0.5, "{of:#}");
}

/// Of a list with its first line only what is gone.
#[test]
fn what_stands_of_a_sentence_is_not_gone() {
    let list = "Then mind my points, please:\\n1. change no licence of any file\\n2. leave the old tests as they are";
    let log = session().replace("Never change the licence of any file.", list).replace(
        "those of src/zeta.rs come next.",
        "those of src/zeta.rs come next. Then mind my points, please.",
    );
    let gone_lines = "1. change no licence of any file\n2. leave the old tests as they are";
    assert_eq!(gone(&told(&log)["compactions"][0]), ["Mend the parts of this crate.", gone_lines]);
}

/// A log that the user pasted is one entry; what a harness put around a command is none.
#[test]
fn pasted_lines_are_one_entry() {
    let pasted: String =
        (0..12).map(|i| format!("12:00:{i:02} INFO the worker number {i} is up again\\n")).collect();
    let words = format!(
        "Look at this log of mine:\\n\\n{pasted}\\n<command-args>Mend the worker that is down.</command-args>"
    );
    let log = session().replace("Never change the licence of any file.", &words);
    let of = &told(&log)["compactions"][0]["user_words_gone"];
    let lines: Vec<u64> =
        of.as_array().unwrap().iter().map(|of| of["pasted_lines"].as_u64().unwrap()).collect();
    assert_eq!(lines, [0, 0, 12, 0], "{of:#}");
    assert_eq!(of[3]["text"], "Mend the worker that is down.");
}

/// The agent of an ATIF file keeps the task; its summary is what the user's steps behind the mark say.
#[test]
fn a_compaction_of_atif_is_told() {
    let call = |n: u32, command: &str, result: &str| {
        json!({"source": "agent", "message": "on", "tool_calls": [{"tool_call_id": format!("c{n}"), "function_name": "bash", "arguments": {"command": command}}],
            "observation": {"results": [{"source_call_id": format!("c{n}"), "content": result}]}})
    };
    let mut steps = vec![
        json!({"source": "user", "message": "Mend the parts of this crate."}),
        call(1, "ls", &parts(20)),
    ];
    steps.push(json!({"source": "user", "message": "Never change the licence of any file. [image image/png 9 bytes]"}));
    steps.extend((2..8).map(|n| call(n, &format!("date +{n}"), "done without output")));
    steps.push(json!({"source": "system", "message": "Compacted.", "extra": {"context_management": {"type": "compaction"}}}));
    steps.push(json!({"source": "user", "message": "The parts are mended; those of src/zeta.rs come next."}));
    steps.extend([call(8, "date +8", "done"), call(9, "grep -rn helper_22 .", "done")]);
    let file = json!({"schema_version": "ATIF-v1.7", "session_id": "s", "agent": {"name": "toy", "version": "1"}, "steps": steps});
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.json");
    fs::write(&path, file.to_string()).unwrap();
    let json: Value = serde_json::from_str(&audit(&path, &["--json"])).unwrap();
    let of = &json["sessions"][0]["compactions"][0];
    assert_eq!(of["named_nowhere_before"], json!(["src/zeta.rs"]), "{of:#}");
    assert!(of["lost"].as_array().unwrap().iter().any(|lost| lost["what"] == "helper_22"), "{of:#}");
    assert_eq!(gone(of), ["Never change the licence of any file."]);
}

/// A log that begins in the middle: of what a summary replaced it shows next to nothing.
#[test]
fn nothing_is_told_of_what_the_log_does_not_show() {
    let log = (1..8).fold(session(), |log, i| {
        let tokens = [0, 200, 230].get(i as usize).copied().unwrap_or(250 + 10 * i);
        let read = |tokens: u32| format!("\"cache_read_input_tokens\":{}", tokens - 10);
        log.replacen(&read(tokens), &read(90_000 + tokens), 1)
    });
    let of = &told(&log)["compactions"][0];
    assert_eq!(of["prompt_before"], 90_320);
    // Nor what of it, or of files that were put back, stood in the prompt behind.
    assert_eq!([&of["named_nowhere_before"], &of["lost"], &of["read_again"]], [&Value::Null; 3], "{of:#}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    fs::write(&path, &log).unwrap();
    let text = page(&path);
    assert!(text.contains("the log does not show what was replaced"), "{text}");
    assert!(text.contains("how much of this prompt is not in the log is not known"), "{text}");
    assert!(!text.contains("named and not there before"), "{text}");
}

/// What its summary names may have been said before the log begins, also where most of the prompt is in the log.
#[test]
fn what_a_summary_made_up_is_not_told_of_a_log_that_begins_in_the_middle() {
    let escaped = |text: String| text.replace('\n', "\\n");
    let long = (20..900).map(|i| format!("fn part_{i}() calls helper_{i} in crates\n")).collect();
    let log = session().replace(&escaped(parts(20)), &escaped(long));
    let told = |more: u64| {
        told(&billed(&log, |i, tokens| if i < 8 { tokens + more + 5_000 } else { tokens }))["compactions"][0]
            .take()
    };
    let of = told(4_000);
    assert!(of["prompt_before_in_the_log"].as_f64().is_some_and(|share| share > 0.5), "{of:#}");
    assert_eq!(of["named_nowhere_before"], Value::Null, "{of:#}");
}

/// The first prompt goes with the past, and so it hides nothing of what was put back.
#[test]
fn a_long_first_prompt_that_goes_is_told_apart() {
    let long: String = (0..500).map(|i| format!("Mend part {i} of this crate, please.\\n")).collect();
    let log = session().replace("Mend the parts of this crate.", &long);
    let more = |added: u64| {
        told(&billed(&log, |i, tokens| if i < 8 { tokens + 5_000 } else { tokens + added }))["compactions"][0]
            .take()
    };
    assert_eq!(more(0)["prompt_after_not_in_the_log"], Value::Null);
    let of = more(5_000);
    assert!(of["prompt_after_not_in_the_log"].is_u64(), "{of:#}");
}

/// In code a line break is two letters.
#[test]
fn words_that_stand_in_quoted_code_are_not_gone() {
    let log = session().replace(
        "those of src/zeta.rs come next.",
        "those come next: say(\\\"Hm.\\\\nNever change the licence of any file.\\\")",
    );
    assert_eq!(gone(&told(&log)["compactions"][0]), ["Mend the parts of this crate."]);
}

/// What came before it may be shorter than the summary.
#[test]
fn a_long_summary_of_a_short_past_is_told() {
    let log = typed("g", "Mend all parts of this crate, please, and then say what you did.", false)
        + &turn(1, 20, "Bash", &json!({"command": "ls"}), "done")
        + &line(&json!({"type": "system", "subtype": "compact_boundary", "uuid": "b", "sessionId": "s"}))
        + &typed("c", &format!("The parts are mended; those of src/zeta.rs come next.\n{}", parts(10)), true)
        + &turn(8, 150, "Bash", &json!({"command": "cat notes.txt"}), "done");
    let of = &told(&log)["compactions"][0];
    assert!(of["summary_tokens"].as_u64().is_some_and(|n| n > 50), "{of:#}");
    assert!(of["named_nowhere_before"].as_array().unwrap().contains(&json!("src/zeta.rs")), "{of:#}");
}

/// Codex logs what the call for the summary cost.
#[test]
fn the_logged_price_of_a_summary_is_told() {
    let line = |kind: &str, payload: Value| {
        line(&json!({"timestamp": "2026-01-01T00:00:01Z", "type": kind, "payload": payload}))
    };
    let said = |role: &str, kind: &str, text: &str| {
        line(
            "response_item",
            json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]}),
        )
    };
    let call = |id: &str| {
        line(
            "response_item",
            json!({"type": "function_call", "name": "shell", "arguments": "{\"command\":[\"ls\"]}", "call_id": id}),
        ) + &line(
            "response_item",
            json!({"type": "function_call_output", "call_id": id, "output": parts(10)}),
        )
    };
    let count = |total: u32, last: u32| {
        line(
            "event_msg",
            json!({"type": "token_count", "info": {"total_token_usage": {"input_tokens": total}, "last_token_usage": {"input_tokens": last, "cached_input_tokens": 0, "output_tokens": 100}}}),
        )
    };
    let summary = "The parts are mended; those of src/zeta.rs come next.";
    let log = line("session_meta", json!({"id": "s"}))
        + &line("turn_context", json!({"model": "gpt-5-codex"}))
        + &said("user", "input_text", "Mend the parts.")
        + &call("c1")
        + &count(20, 20)
        + &call("c2")
        + &count(180, 160)
        + &said("assistant", "output_text", summary)
        + &count(500, 320)
        + &line("compacted", json!({"message": format!("Here it is:\n{summary}")}))
        + &call("c3")
        + &count(600, 100);
    let of = &told(&log)["compactions"][0];
    assert_eq!((&of["prompt_before"], &of["prompt_after"]), (&json!(160), &json!(100)), "{of:#}");
    assert_eq!(of["named_nowhere_before"], json!(["src/zeta.rs"]), "{of:#}");
    // At 1.25 and 10 dollars a million.
    let cost = of["cost_of_summary"].as_f64().unwrap();
    assert!((1e6 * cost - (320.0 * 1.25 + 100.0 * 10.0)).abs() < 1e-6, "{cost}");
}

/// Aider clears its history where the user says so: no compaction of its own.
#[test]
fn what_the_user_cleared_is_told_apart() {
    let said = |n: u32| format!("#### Mend part {n} of this crate, please.  \n\nPart {n} is mended.\n\n");
    let log = |last: &str| {
        format!("# aider chat started at 2025-01-02 03:04:05\n\n{}#### /clear  \n\n{last}", said(1))
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(".aider.chat.history.md");
    let of = |log: String| {
        fs::write(&path, log).unwrap();
        let json: Value = serde_json::from_str(&audit(&path, &["--json"])).unwrap();
        json["sessions"][0].clone()
    };
    let cleared = of(log(&said(2)));
    assert_eq!(
        (&cleared["compactions"], &cleared["cleared_by_the_user"][0]["turn"]),
        (&json!([]), &json!(3))
    );
    let text = page(&path);
    for part in [
        "none of them records that its past was compacted",
        "Users cleared the context 1 time.",
        "cleared by the user before turn 3, prompt",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(of(log("")), Value::Null, "nothing was sent any more");
    // Which of the sessions of a file it is.
    fs::write(&path, log(&said(2)) + "\n" + &log(&said(3)).replace("03:04:05", "04:04:05")).unwrap();
    let text = page(&path);
    assert!(["2025-01-02 03:04:05", "2025-01-02 04:04:05"].iter().all(|of| text.contains(of)), "{text}");
}

/// Commands are no words; what one sends on is. A path is told whole.
#[test]
fn a_command_is_no_sentence_of_the_user() {
    let dir = tempfile::tempdir().unwrap();
    let name = format!("{}.jsonl", "a".repeat(70));
    let path = dir.path().join(&name);
    for (said, is_gone) in [
        ("/add src/parts.rs src/more_parts.rs src/all_parts.rs", false),
        ("/ask why does this crate not build here?", true),
        ("/compact is something that I never want here", true),
    ] {
        fs::write(&path, session().replace("Never change the licence of any file.", said)).unwrap();
        let json: Value = serde_json::from_str(&audit(&path, &["--json"])).unwrap();
        // As it was typed.
        let expected = [Some("Mend the parts of this crate."), Some(said).filter(|_| is_gone)];
        let gone = gone(&json["sessions"][0]["compactions"][0]);
        assert_eq!(gone, expected.into_iter().flatten().collect::<Vec<_>>());
    }
    // What it asks stands in the summary.
    let log = session()
        .replace("Never change the licence of any file.", "/ask why does this crate not build here?");
    let log = log
        .replace("The parts are mended;", "Asked: why does this crate not build here? The parts are mended;");
    assert_eq!(gone(&told(&log)["compactions"][0]), ["Mend the parts of this crate."]);
    assert!(audit(&path, &[]).replace('\n', "").contains(&name));
}

/// Gemini CLI keeps newer results, and cuts long ones: what is left of them is not lost.
#[test]
fn what_a_compression_left_of_a_result_is_not_lost() {
    let user = |id: &str, text: &str| json!({"id": id, "type": "user", "content": [{"text": text}]});
    let call = |id: &str| json!({"functionCall": {"id": id, "name": "run_shell_command", "args": {"command": format!("date +{id}")}}});
    let result = |id: &str, text: &str| json!({"id": format!("r{id}"), "type": "user", "content": [{"functionResponse": {"id": id, "name": "run_shell_command", "response": {"output": text}}}]});
    let reply = |id: &str| json!({"id": id, "type": "gemini", "content": [{"text": "On."}, call(id)]});
    let session = |left: &str| {
        let list = [user("9", "The parts are mended."), reply("c1"), result("c1", left), reply("c2")];
        let mut lines = vec![json!({"sessionId": "s", "projectHash": "p"}), user("1", "Mend the parts.")];
        lines.extend([reply("c0"), result("c0", "done")]);
        lines.extend([
            reply("c1"),
            result("c1", &parts(20)),
            reply("c2"),
            result("c2", "done without output"),
        ]);
        lines.extend([json!({"$set": {"messages": list}}), result("c2", "done without output")]);
        lines.push(json!({"id": "c3", "type": "gemini", "content": [{"functionCall": {"id": "c3", "name": "run_shell_command", "args": {"command": "grep -rn helper_22 ."}}}]}));
        lines.push(result("c3", "done"));
        told(&lines.iter().map(line).collect::<String>())["compactions"][0].take()
    };
    let lost = |of: &Value| of["lost"].as_array().unwrap().iter().any(|lost| lost["what"] == "helper_22");
    let half: String = parts(20).lines().skip(2).take(3).map(line_of).collect();
    let (whole, half, nothing) = (session(&parts(20)), session(&half), session("cut"));
    assert_eq!([lost(&whole), lost(&half), lost(&nothing)], [false, false, true], "{nothing:#}");
    assert_eq!((&half["summary_tokens"], &half["named"]), (&json!(6), &json!(0)), "{half:#}");
    let kept = |of: &Value| of["kept_tokens"].as_u64().unwrap();
    assert!(kept(&nothing) < kept(&half) && kept(&half) < kept(&whole), "{half:#}");
}
