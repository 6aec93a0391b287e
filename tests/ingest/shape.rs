//! Batches, forced formats, links, odd fields and exit codes.

use super::*;

#[test]
fn big_files_are_cut_into_batches_with_the_same_result() {
    let dir = Dir::new();
    let mut text = String::new();
    for i in 0..30_000 {
        text += &chat(&format!("question {i} {}", "x".repeat(i % 700)));
        text.push('\n');
        if i == 20_000 {
            text += "{broken\n";
        }
    }
    assert!(text.len() > 12 << 20);
    let other = text.replace("question", "another");
    // The second is big only when uncompressed, and is cut all the same.
    dir.file("big.jsonl", &text)
        .file("packed.jsonl.zst", zstd::encode_all(other.as_bytes(), 1).unwrap())
        .file("small.jsonl", chat("a"));
    assert!(fs::metadata(dir.logs().join("packed.jsonl.zst")).unwrap().len() < 4 << 20);
    let (one, four) = (dir.ingest_with(1, None), dir.ingest_with(4, None));
    assert_eq!(one.trajectories.len(), 60_001);
    assert_eq!(one.rejects.len(), 2);
    for (reject, text) in one.rejects.iter().zip([&text, &other]) {
        assert_eq!(reject["line"], 20_002);
        assert_eq!(reject["byte_offset"], text.find("{broken").unwrap());
    }
    assert_eq!(one.report.bytes, (text.len() + other.len() + chat("a").len()) as u64);
    for name in ["trajectories.parquet", "steps.parquet", "rejects.jsonl", "ingest.json"] {
        assert!(
            fs::read(one.out.join(name)).unwrap() == fs::read(four.out.join(name)).unwrap(),
            "{name} differs"
        );
    }
}

#[test]
fn nothing_to_read_is_an_error_with_a_hint() {
    let dir = Dir::new();
    fs::create_dir_all(dir.logs()).unwrap();
    let options = Options {
        inputs: vec![dir.logs()],
        out: dir.0.path().join("d"),
        format: None,
        threads: 1,
        limits: Limits::default(),
        ..Options::default()
    };
    let error = ingest(&options, &mut |_| {}).unwrap_err();
    assert!(format!("{error:#}").contains("hint:"), "{error:#}");
    let options = Options { format: Some("nonsense".to_owned()), ..options };
    let error = ingest(&options, &mut |_| {}).unwrap_err();
    assert!(format!("{error:#}").contains("(known: auto, "), "{error:#}");
}

#[test]
fn a_format_can_be_forced() {
    let dir = Dir::new();
    let done = dir
        .file("x.jsonl", r#"[{"role":"assistant","content":"ls\n```bash\nls\n```"}]"#)
        .ingest_with(2, Some("openai-chat"));
    assert_eq!(done.trajectories[0].format, "openai-chat");
}

#[test]
fn a_file_of_another_format_than_the_forced_one_is_a_reject() {
    let dir = Dir::new();
    let done = dir.file("x.jsonl", chat("a")).ingest_with(2, Some("sweagent"));
    assert_eq!(done.rejects.len(), 1);
    let reason = done.rejects[0]["reason"].as_str().unwrap();
    assert!(reason.contains("not of the format sweagent (looks like: openai-chat)"), "{reason}");
}

#[test]
fn a_run_is_not_replaced_by_a_dataset() {
    let dir = Dir::new();
    let first = dir.file("x.jsonl", chat("a")).ingest();
    assert_eq!(first.report.before, None);
    fs::write(first.out.join("_manifest.json"), "{}").unwrap();
    let options = Options {
        inputs: vec![dir.logs()],
        out: first.out.clone(),
        format: None,
        threads: 1,
        limits: Limits::default(),
        ..Options::default()
    };
    let error = format!("{:#}", ingest(&options, &mut |_| {}).unwrap_err());
    assert!(error.contains("holds a run") && error.contains("hint:"), "{error}");
}

#[cfg(unix)]
#[test]
fn links_that_lead_nowhere_and_sockets_are_rejects() {
    use std::os::unix::fs::symlink;
    let dir = Dir::new();
    dir.file("good.jsonl", chat("a")).file("sub/b.jsonl", chat("b"));
    symlink("gone", dir.logs().join("dangling")).unwrap();
    symlink("gone", dir.logs().join(".hidden")).unwrap();
    symlink("self", dir.logs().join("self")).unwrap();
    symlink("..", dir.logs().join("sub/up")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.logs().join("socket")).unwrap();
    let done = dir.ingest();
    assert_eq!(done.texts(), ["a", "yes", "b", "yes"]);
    let reasons = done.reasons();
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    for (reason, part) in
        reasons.iter().zip(["dangling symbolic", "cannot be followed", "not a plain", "lies in"])
    {
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn one_odd_field_does_not_cost_the_run() {
    let runs = [
        (r#""score":NaN,"x":-Infinity"#, r#"{"role":"user","content":"NaN"}"#),
        ("", r#"{"role":"user","content":"q"},{"role":"assistant","content":"r","tool_calls":[null]}"#),
        ("", r#"{"role":"user","content":"q1"},{"role":"assistant","content":"r","tool_calls":{}}"#),
        (
            "",
            r#"{"role":"assistant","tool_calls":{"id":7,"function":{"name":"f","arguments":{}}}},{"role":"tool","tool_call_id":7,"content":"r"}"#,
        ),
        ("", r#"null,{"role":"user","content":"q2"}"#),
        ("", r#"{"role":"user","content":[5,"q3"]}"#),
        (r#""agent":{"name":"a"}"#, r#"{"role":"user","content":"q4"}"#),
    ];
    let dir = Dir::new();
    let mut text = String::new();
    for (fields, messages) in runs {
        let comma = if fields.is_empty() { "" } else { "," };
        text += &format!("{{\"messages\":[{messages}]{comma}{fields}}}\n");
    }
    text += "{\"messages\":7}\n";
    let done = dir.file("x.jsonl", &text).ingest();
    let reasons = done.reasons();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert_eq!(done.rejects[0]["line"], 8);
    assert_eq!(done.texts(), ["NaN", "q", "r", "q1", "r", "f", "r", "q2", "q3", "q4"]);
    assert_eq!(done.steps[6].call_id.as_deref(), Some("7"));
    assert_eq!(done.steps[5].call_id, done.steps[6].call_id);
    let losses = done.losses("openai-chat");
    for (what, n) in [
        ("number that is not finite replaced by null", 2),
        ("list item of the wrong type left out", 3),
        ("tool calls that are no list left out", 1),
        ("tool call outside of a list", 1),
        ("number taken as text: tool_call.id", 1),
        ("number taken as text: chat.message.tool_call_id", 1),
        ("field of the wrong type left out: chat.agent", 1),
    ] {
        assert_eq!(losses.get(what), Some(&n), "{what}: {losses:?}");
    }
}

#[test]
fn odd_fields_nested_without_end_do_not_overflow() {
    let deep = format!("{}1{}", r#"{"type":"tool_result","content":["#.repeat(20_000), "]}".repeat(20_000));
    let dir = Dir::new();
    let text = format!(
        r#"{{"messages":[null,{{"role":"user","content":"q"}},{{"role":"user","content":[{deep}]}}]}}"#
    );
    let done = dir.file("x.jsonl", format!("{}\n{text}\n", chat("a"))).ingest();
    assert_eq!(done.texts()[..3], ["a", "yes", "q"]);
}

#[test]
fn lines_of_nul_and_torn_lines_cost_only_themselves() {
    let dir = Dir::new();
    let torn = r#"{"messages":[{"role":"user","content":"cut "#;
    let text = format!("{}\n\0\0\0\n\0\0{}\n{torn}{}\n\0", chat("a"), chat("b\u{2028}"), chat("c"));
    let done = dir.file("x.jsonl", &text).file("only.jsonl", "\0\0\0\n").ingest();
    assert_eq!(done.texts(), ["a", "yes", "b\u{2028}", "yes", "c", "yes"]);
    let reasons = done.reasons();
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    for (i, (line, offset)) in
        [(2, chat("a").len() + 1), (4, text.find(torn).unwrap()), (5, text.len() - 1)].iter().enumerate()
    {
        let reject = &done.rejects[i + 1];
        assert_eq!(
            (reject["line"].as_u64(), reject["byte_offset"].as_u64()),
            (Some(*line), Some(*offset as u64))
        );
        assert_eq!(*line != 4, reject["reason"].as_str().unwrap().contains("NUL bytes"), "{reasons:?}");
    }
    assert!(reasons[0].contains("NUL bytes"), "{reasons:?}");
    assert_eq!(done.losses("openai-chat")["NUL bytes before a value left out"], 1);
    assert_eq!(done.report.lost_records, 3, "of the file that is no log nothing was recognised");
}

/// Runs the program; returns its exit code and what it says on the terminal.
fn program(args: &[&str], dir: &Dir) -> (Option<i32>, String) {
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_trajpress"))
        .args(["ingest", "--out", "data"])
        .args(args)
        .current_dir(dir.0.path())
        .output()
        .unwrap();
    (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
}

#[test]
fn the_exit_code_tells_what_was_lost_and_the_terminal_names_it() {
    let dir = Dir::new();
    dir.file("good.jsonl", chat("a"))
        .file("settings.json", r#"{"theme":"dark"}"#)
        .file("todos.json", "[]")
        .file("empty.jsonl", "")
        .file("silent.jsonl", r#"{"messages":[{"role":"user","content":"hello?"}]}"#)
        .file("nothing.jsonl", r#"{"messages":[{"role":"user","content":""}]}"#);
    let (code, said) = program(&["logs"], &dir);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("0 turns): silent.jsonl"), "{said}");
    assert!(said.contains("logs without a run: nothing.jsonl (openai-chat, "), "{said}");
    assert!(said.contains("settings.json (JSON of no known format, 16 B)"), "{said}");
    assert!(said.contains("empty.jsonl (empty file, 0 B)") && said.contains("data/ingest.json"), "{said}");
    assert!(said.contains("1 x run without messages"), "{said}");
    assert_eq!(program(&["logs", "--strict"], &dir).0, Some(1));
    assert_eq!(program(&["logs/good.jsonl", "--strict"], &dir).0, Some(0));
    let (code, said) = program(&["logs/good.jsonl", "logs/nothing.jsonl"], &dir);
    assert!(code == Some(1) && said.contains("named, and gave nothing: nothing.jsonl"), "{said}");
    assert_eq!(program(&["logs/good.jsonl", "logs/settings.json"], &dir).0, Some(1));
    dir.file("torn.jsonl", format!("{}\n{}", chat("b"), &chat("c")[..40]));
    assert_eq!(program(&["logs"], &dir).0, Some(1), "a record of a log was lost");
}
