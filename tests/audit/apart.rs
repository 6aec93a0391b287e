//! What is told apart: logs that begin late, code, commands, what a user cleared.

use super::*;

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
