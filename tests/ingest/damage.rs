//! Damaged files lose what is damaged and no more.

use super::*;

#[test]
fn damaged_logs_never_panic() {
    // Bytes of small logs of all formats are overwritten, cut and repeated by a fixed rule.
    let logs = [
        chat("a"),
        r#"{"trajectory":[{"action":"ls","observation":"a","thought":"t","response":"r","state":"{}"}],"history":[{"role":"system","content":"S"},{"role":"user","content":"T","is_demo":true}],"info":{"exit_status":"submitted"}}"#.to_owned(),
        r#"{"info":{"exit_status":"x","mini_version":"2"},"messages":[{"role":"assistant","content":"t","tool_calls":[{"id":"c","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]},{"role":"tool","content":"r","tool_call_id":"c","extra":{"returncode":0,"timestamp":1.5}}],"trajectory_format":"mini-swe-agent-1.1"}"#.to_owned(),
        r#"[{"task_id":1,"reward":1.0,"traj":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"u","name":"n","input":{}}]}]}]"#.to_owned(),
        r#"{"info":{"environment_info":{"policy":"P"}},"simulations":[{"task_id":"t","messages":[{"role":"assistant","content":"Hi","timestamp":"2025-01-01T00:00:00"}]}],"tasks":[]}"#.to_owned(),
        "{\"type\":\"user\",\"uuid\":\"1\",\"sessionId\":\"s\",\"message\":{\"content\":\"a\"}}\n{\"type\":\"progress\",\"uuid\":\"2\"}\n{\"type\":\"assistant\",\"uuid\":\"3\",\"sessionId\":\"s\",\"message\":{\"id\":\"m\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"t\"}]}}".to_owned(),
        r#"{"resolved_ids":["a"],"schema_version":2}"#.to_owned(),
        r#"{"messages":[{"type":"reasoning","summary":[]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"r"},{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"w","input":{}},{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","title":"T"}]}],"usage":{"prompt_tokens":7}}]}"#.to_owned(),
        r#"{"info":{"mini_version":"2","config":{"model":{"action_regex":"`(.*?)`"}}},"messages":[{"role":"assistant","content":"do `ls`","extra":{"actions":[{"command":"ls"}],"response":{"usage":{"prompt_tokens":7}}}},{"object":"response","output":[{"type":"function_call","call_id":"c","name":"bash","arguments":"{}"}]},{"type":"function_call_output","call_id":"c","output":"r"}],"trajectory_format":"mini-swe-agent-1.1"}"#.to_owned(),
        r#"{"attempts":[{"trajectory":[{"action":"ls","observation":"a"},{"action":"ls","observation":"a"}],"history":[{"role":"user","content":"T"},{"role":"assistant","action":"ls","tool_calls":[{"id":"t","function":{"name":"bash","arguments":"{}"}}]},{"role":"tool","content":"a","tags":["remove_output"]}],"replay_config":"{\"agent\":{\"history_processors\":[{\"type\":\"last_n_observations\",\"n\":1}]}}"}]}"#.to_owned(),
        "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"assistant\",\"content\":\"b\"}".to_owned(),
    ];
    let dir = Dir::new();
    let mut state = 1u64;
    let mut next = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let marks = *b"{}[]\",:\\\n0 nu\xff\x00t";
    for i in 0..1000 {
        let mut bytes = logs[i % logs.len()].clone().into_bytes();
        for _ in 0..1 + next(4) {
            let at = next(bytes.len());
            match next(4) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes.insert(at, marks[next(marks.len())]),
                2 => {
                    bytes.remove(at);
                    bytes.push(b' ');
                }
                _ => bytes[at] = marks[next(marks.len())],
            }
        }
        dir.file(&format!("{i}.json"), bytes);
    }
    let done = dir.ingest();
    assert_eq!(done.report.files, 1000);
    let n_read = done.trajectories.len() + done.report.duplicates.len();
    assert!(n_read > 50 && done.report.rejects > 50, "{n_read} read, {} rejects", done.report.rejects);
}

/// A chat as an item of a list: a name, and a text with brackets and quotes.
fn item(i: usize, size: usize) -> String {
    let text = r#"[{\"},]\n"#.repeat(size / 9);
    format!(
        r#"{{"id":"r{i}","messages":[{{"role":"user","content":"q{i} {text}"}},{{"id":"m","role":"assistant","content":"yes"}}]}}"#
    )
}

fn names(done: &Done) -> Vec<&str> {
    done.trajectories.iter().map(|t| t.task_id.as_deref().unwrap()).collect()
}

#[test]
fn a_damaged_first_line_costs_itself_alone() {
    // Records around the length of the head that is looked at first, cut at many places.
    let lines: Vec<String> = (0..4).map(|i| item(i, [1000, 40_000, 90_000, 20_000][i])).collect();
    let dir = Dir::new();
    for cut in (1..lines[0].len()).step_by(37) {
        dir.file(&format!("{cut:04}.jsonl"), format!("{}\n{}\n", &lines[0][..cut], lines[1..].join("\n")));
    }
    let done = dir.ingest();
    let n_files = (1..lines[0].len()).step_by(37).count();
    assert_eq!(done.report.formats["openai-chat"].files, n_files as u64);
    assert_eq!(names(&done), ["r1", "r2", "r3"]);
    assert_eq!(done.report.duplicates.len(), 3 * (n_files - 1));
    assert_eq!(done.rejects.len(), n_files);
    assert!(done.rejects.iter().all(|reject| reject["line"] == 1 && reject["byte_offset"] == 0));
}

#[test]
fn padding_and_stray_brackets_before_records_cost_nothing() {
    let lines = [item(0, 9), item(1, 9), item(2, 9)];
    let text = format!("{}\n", lines.join("\n"));
    let marked = lines.iter().map(|line| format!("\u{feff}{line}\r\n")).collect::<String>();
    for (text, line) in [
        (format!("{}{text}", "\n".repeat(70_000)), None),
        (format!("{}{text}", " ".repeat(70_000)), None),
        (format!("{}{text}", "\0".repeat(70_000)), None),
        (marked, None),
        (format!("{{\n{text}"), Some(1)),
        (format!("{{{text}"), Some(1)),
        (format!("[\n{text}"), Some(1)),
        (format!("[{{\n{text}"), Some(1)),
        (format!("]}}{text}"), Some(1)),
    ] {
        let done = Dir::new().file("x.jsonl", &text).ingest();
        let start = &text[..text.len().min(5)];
        assert_eq!(names(&done), ["r0", "r1", "r2"], "{start:?}");
        let told: Vec<Option<u64>> = done.rejects.iter().map(|reject| reject["line"].as_u64()).collect();
        assert!(
            told.iter().all(|told| *told == line) && told.is_empty() == line.is_none(),
            "{start:?} {told:?}"
        );
    }
    // A list an item a line, whose bracket is damaged: lines, each with a comma.
    let text = format!("\"[\n{}\n]\n", lines.join(",\n"));
    let done = Dir::new().file("x.jsonl", &text).ingest();
    assert_eq!(names(&done), ["r0", "r1", "r2"]);
    assert_eq!(done.losses("openai-chat")["comma or bracket of a list beside a value left out"], 2);
}

#[test]
fn damage_in_a_list_costs_the_damaged_items_alone() {
    let items: Vec<String> = (0..5).map(|i| item(i, 60)).collect();
    let whole = format!("[{}]", items.join(",\n"));
    let start = |i: usize| whole.find(&items[i]).unwrap();
    let ingest = |text: &str| Dir::new().file("x.json", text).ingest();
    let told = |done: &Done| -> Vec<u64> {
        done.rejects.iter().map(|reject| reject["byte_offset"].as_u64().unwrap()).collect()
    };
    assert_eq!(names(&ingest(&whole)), ["r0", "r1", "r2", "r3", "r4"]);
    // Cut inside of the fourth, and behind it.
    let done = ingest(&whole[..start(3) + 50]);
    assert_eq!((names(&done), told(&done)), (vec!["r0", "r1", "r2"], vec![start(3) as u64]));
    let done = ingest(&whole[..start(4) - 2]);
    assert_eq!((names(&done), told(&done)), (vec!["r0", "r1", "r2", "r3"], vec![start(4) as u64 - 2]));
    // Each byte of the second one taken out, a few of which leave it whole.
    let mut n_damaged = 0;
    for at in start(1)..start(1) + items[1].len() {
        let done = ingest(&format!("{}{}", &whole[..at], &whole[at + 1..]));
        let mut names = names(&done);
        names.retain(|name| !name.starts_with("x-") && !["r", "1"].contains(name) && *name != "r1");
        assert_eq!(names, ["r0", "r2", "r3", "r4"], "{at}");
        n_damaged += usize::from(told(&done).contains(&(start(1) as u64)));
    }
    assert!(n_damaged > 30, "{n_damaged}");
}

#[test]
fn a_large_list_is_read_item_by_item() {
    let dir = Dir::new();
    let items: Vec<String> = (0..24).map(|i| item(i, 1 << 20)).collect();
    dir.file("list.json", format!("[{}]", items.join(", ")));
    let out = dir.0.path().join("out");
    // 8 MB for a document: a third of the list.
    let options = |threads| Options {
        inputs: vec![dir.logs()],
        out: out.join(format!("{threads}")),
        format: None,
        threads,
        limits: Limits { memory: 64 << 20, ..Limits::default() },
        ..Options::default()
    };
    for threads in [1, 4] {
        let report = ingest(&options(threads), &mut |_| {}).unwrap();
        assert_eq!((report.trajectories, report.rejects), (24, 0));
        assert_eq!(report.bytes, fs::metadata(dir.logs().join("list.json")).unwrap().len());
    }
    let table = |threads: &str| fs::read(out.join(threads).join("trajectories.parquet")).unwrap();
    assert!(table("1") == table("4"));
    let rows: Vec<TrajectoryRow> = store::read(&out.join("1/trajectories.parquet")).unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row.task_id.as_deref().unwrap()).collect();
    assert_eq!(names, (0..24).map(|i| format!("r{i}")).collect::<Vec<_>>());
}

#[test]
fn a_cut_list_in_a_document_keeps_its_runs() {
    let simulation = |i: usize| {
        format!(
            r#"{{"id":"s{i}","task_id":"{i}","messages":[{{"role":"user","content":"q{i}"}},{{"role":"assistant","content":"a"}}]}}"#
        )
    };
    let shared =
        r#""timestamp":"t","info":{"environment_info":{"domain_name":"retail","policy":"P"}},"tasks":[]"#;
    let runs: Vec<String> = (0..3).map(simulation).collect();
    let list = format!(r#""simulations":[{}]"#, runs.join(","));
    let texts = ["P", "q0", "a", "P", "q1", "a", "P", "q2", "a"];
    let ingest = |text: &str| Dir::new().file("x.json", text).ingest();
    for whole in [format!("{{{shared},{list}}}"), format!("{{{list},{shared}}}")] {
        let done = ingest(&whole);
        assert_eq!((done.texts(), done.rejects.len()), (texts.to_vec(), 0));
    }
    // Two of them in one file.
    let done = ingest(&format!("{{{shared},{list}}}\n{{{shared},{}}}\n", list.replace("q0", "other")));
    assert_eq!((done.report.trajectories, done.report.duplicates.len()), (4, 2));
    let cut = format!("{{{shared},{}", &list[..list.len() - 10]);
    let done = ingest(&cut);
    assert_eq!(done.texts(), texts[..6]);
    assert_eq!(done.rejects[0]["byte_offset"], cut.find(&runs[2][..20]).unwrap());
    // What they share is damaged: that is told, and they are read without.
    let done = ingest(&format!("{{{},{list}}}", shared.replace("\"P\"", "\"P")));
    assert_eq!(done.texts(), ["q0", "a", "q1", "a", "q2", "a"]);
    assert_eq!(done.rejects.len(), 1);
}

/// A decoder gives wrong text before it meets damage, or none of the sums holds at the end.
#[test]
fn damage_of_packed_logs_gives_no_wrong_record() {
    let lines: Vec<String> = (0..300).map(|i| chat(&format!("{i} {}", i * i * 7919 % 10_007))).collect();
    let zstd_frame = |lines: &[String]| {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(lines.join("\n").as_bytes()).unwrap();
        encoder.write_all(b"\n").unwrap();
        encoder.finish().unwrap()
    };
    let gzip_member = |lines: &[String]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(lines.join("\n").as_bytes()).unwrap();
        encoder.write_all(b"\n").unwrap();
        encoder.finish().unwrap()
    };
    for pack in [&zstd_frame as &dyn Fn(&[String]) -> Vec<u8>, &gzip_member] {
        let [first, second, third] = [&lines[..100], &lines[100..200], &lines[200..]].map(pack);
        let dir = Dir::new();
        let bits: Vec<usize> = (8 * 20..8 * second.len()).step_by(97).collect();
        for bit in &bits {
            let mut bad = second.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            dir.file(&format!("{bit:05}"), [&first[..], &bad, &third].concat());
        }
        let done = dir.ingest();
        let sound: Vec<&String> = lines[..100].iter().chain(&lines[200..]).collect();
        assert_eq!(done.report.trajectories, sound.len() as u64);
        assert_eq!(done.report.duplicates.len(), (bits.len() - 1) * sound.len());
        assert_eq!(done.rejects.len(), bits.len(), "{:?}", &done.reasons()[..5]);
        assert!(done.reasons()[0].contains(&format!("frame at byte {} of the file as stored", first.len())));
        assert!(
            done.steps.iter().filter(|s| s.role == "user").all(|s| sound.iter().any(|l| l.contains(&s.text)))
        );
    }
}
