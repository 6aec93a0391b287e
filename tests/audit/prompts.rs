//! What the prompts behind a compaction show, and what they may hide.

use super::*;

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
