//! What the records of a product say.

use super::*;

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
