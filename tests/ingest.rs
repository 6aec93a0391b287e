//! Ingest from end to end: bad input of all kinds, duplicates, labels, compression, determinism, and
//! the real logs named by `TRAJPRESS_LOGS`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use trajpress::internals::store::{self, StepRow, TrajectoryRow};
use trajpress::{IngestOptions as Options, Ingested as Report, Limits, ingest};

struct Dir(tempfile::TempDir);

/// What an ingest left behind.
struct Done {
    report: Report,
    trajectories: Vec<TrajectoryRow>,
    steps: Vec<StepRow>,
    rejects: Vec<serde_json::Value>,
    out: PathBuf,
}

impl Dir {
    fn new() -> Self {
        Dir(tempfile::tempdir().unwrap())
    }

    fn logs(&self) -> PathBuf {
        self.0.path().join("logs")
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.logs().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    fn ingest(&self) -> Done {
        self.ingest_with(2, None)
    }

    fn ingest_with(&self, threads: usize, format: Option<&str>) -> Done {
        let out = self.0.path().join(format!("data-{threads}"));
        let options = Options {
            inputs: vec![self.logs()],
            out: out.clone(),
            format: format.map(str::to_owned),
            threads,
            limits: Limits::default(),
            ..Options::default()
        };
        let report = ingest(&options, &mut |_| {}).unwrap();
        let rejects = fs::read_to_string(out.join("rejects.jsonl")).unwrap();
        Done {
            report,
            trajectories: store::read(&out.join("trajectories.parquet")).unwrap(),
            steps: store::read(&out.join("steps.parquet")).unwrap(),
            rejects: rejects.lines().map(|l| serde_json::from_str(l).unwrap()).collect(),
            out,
        }
    }
}

impl Done {
    fn losses(&self, format: &str) -> &BTreeMap<String, u64> {
        &self.report.formats[format].losses
    }

    fn texts(&self) -> Vec<&str> {
        self.steps.iter().map(|s| s.text.as_str()).collect()
    }

    fn reasons(&self) -> Vec<String> {
        self.rejects.iter().map(|r| format!("{} {} {}", r["path"], r["line"], r["reason"])).collect()
    }
}

/// A chat of one question and one answer, as a line.
fn chat(question: &str) -> String {
    format!(
        r#"{{"messages":[{{"role":"user","content":"{question}"}},{{"role":"assistant","content":"yes"}}]}}"#
    )
}

#[test]
fn broken_json_in_the_middle_loses_one_line() {
    let dir = Dir::new();
    let text = format!("{}\n{{\"messages\":[{{\"role\":\n\n{}\r\n{}", chat("a"), chat("b"), &chat("c")[..40]);
    let done = dir.file("x.jsonl", &text).ingest();
    assert_eq!(done.texts(), ["a", "yes", "b", "yes"]);
    assert_eq!(done.rejects.len(), 2, "{:?}", done.reasons());
    assert_eq!(done.rejects[0]["line"], 2);
    assert_eq!(done.rejects[0]["byte_offset"], chat("a").len() + 1);
    assert_eq!(done.rejects[1]["line"], 5);
}

#[test]
fn files_that_are_no_logs() {
    let dir = Dir::new();
    dir.file("empty.jsonl", "")
        .file("blank.json", " \n\n")
        .file("binary.json", [0u8, 1, 2, 3, 255, 254, 0, 7])
        .file("cut.json", &chat("a")[..20])
        .file("README.txt", "How to read these logs.\n")
        .file("broken.jsonl.zst", &zstd::encode_all(chat("z").as_bytes(), 1).unwrap()[..20])
        .file("log.png", format!("\u{feff}{}\r\n{}\r\n", chat("b"), chat("c")));
    let done = dir.ingest();
    assert_eq!(
        done.texts(),
        ["b", "yes", "c", "yes"],
        "the wrong ending does not matter, nor does a byte order mark"
    );
    let paths: Vec<&str> = done.rejects.iter().map(|r| r["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["binary.json", "blank.json", "broken.jsonl.zst", "cut.json", "empty.jsonl"]);
    assert_eq!(done.report.no_logs.len(), 1);
}

#[test]
fn a_line_of_100_mb() {
    let dir = Dir::new();
    let path = dir.logs().join("long.jsonl");
    fs::create_dir_all(dir.logs()).unwrap();
    let mut file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
    writeln!(file, "{}", chat("before")).unwrap();
    write!(file, r#"{{"messages":[{{"role":"user","content":""#).unwrap();
    for _ in 0..100 << 10 {
        file.write_all(&[b'x'; 1 << 10]).unwrap();
    }
    writeln!(file, r#""}}]}}"#).unwrap();
    writeln!(file, "{}", chat("after")).unwrap();
    file.into_inner().unwrap();
    let done = dir.ingest();
    let lengths: Vec<usize> = done.steps.iter().map(|s| s.text.len()).collect();
    assert_eq!(lengths, [6, 3, 100 << 20, 5, 3]);
    assert_eq!(done.report.rejects, 0);
}

#[test]
fn surrogates_nul_and_bad_utf8_are_replaced_and_told() {
    let dir = Dir::new();
    let text = format!("{}\n{}\n{}\n", chat(r"a\ud83d!"), chat(r"b\u0000c"), chat("D"));
    let bytes: Vec<u8> = text.bytes().map(|b| if b == b'D' { 0xff } else { b }).collect();
    let done = dir.file("x.jsonl", &bytes).ingest();
    assert_eq!(done.texts(), ["a\u{fffd}!", "yes", "b\u{fffd}c", "yes", "\u{fffd}", "yes"]);
    let losses = done.losses("openai-chat");
    assert_eq!(losses["lone surrogate replaced by U+FFFD"], 1);
    assert_eq!(losses["NUL replaced by U+FFFD"], 1);
    assert_eq!(losses["invalid UTF-8 replaced by U+FFFD"], 1);
    assert_eq!(done.report.rejects, 0, "{:?}", done.reasons());
}

#[test]
fn nulls_and_blocks() {
    let dir = Dir::new();
    let line = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},null,"end"]},
        {"role":"assistant","content":null,"tool_calls":null},{"role":"assistant","content":[]},{"role":null,"content":null}],"tools":null}"#;
    let done = dir.file("x.json", line.replace('\n', "")).ingest();
    assert_eq!(done.texts(), ["look\n[image image/png 3 bytes]\nend"]);
    assert_eq!(done.losses("openai-chat")["media replaced by a placeholder"], 1);
    assert_eq!(done.losses("openai-chat")["message of unknown role left out"], 1);
}

#[test]
fn megabytes_of_base64_stay_out() {
    let dir = Dir::new();
    let data = "QUJD".repeat(1 << 20);
    let line = format!(
        r#"{{"messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}]}},
        {{"role":"assistant","content":"![x](data:image/jpeg;base64,{data}) seen"}}]}}"#
    );
    let done = dir.file("x.jsonl", line.replace('\n', "")).ingest();
    assert_eq!(
        done.texts(),
        ["[image image/png 3145728 bytes]", "![x]([image image/jpeg 3145728 bytes]) seen"]
    );
}

#[test]
fn results_without_calls_and_repeated_ids() {
    let dir = Dir::new();
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    let result = r#"{"role":"tool","tool_call_id":"c","content":"r"}"#;
    // The same call with the same result would be one that is logged twice.
    let other = result.replace(r#""r""#, r#""s""#);
    let line = format!(
        r#"{{"messages":[{{"role":"user","content":"q"}},{result},{call},{result},{call},{other}]}}"#
    );
    let done = dir.file("x.jsonl", line).ingest();
    let ids: Vec<Option<&str>> = done.steps.iter().map(|s| s.call_id.as_deref()).collect();
    assert_eq!(ids, [None, None, Some("c"), Some("c"), Some("c#2"), Some("c#2")]);
    assert_eq!(done.losses("openai-chat")["tool result without a call"], 1);
}

/// Where a log gives all calls one id, an agent that asks the same again and is told the same again did so.
#[test]
fn ids_that_the_log_uses_for_other_calls_tell_no_repeats() {
    let dir = Dir::new();
    let turn = |command: &str| {
        let call =
            format!(r#"{{"id":"c","type":"function","function":{{"name":"{command}","arguments":"{{}}"}}}}"#);
        format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{call}]}},{{"role":"tool","tool_call_id":"c","content":"busy"}}"#
        )
    };
    let turns = ["ls", "poll", "poll", "poll"].map(turn).join(",");
    let done =
        dir.file("x.jsonl", format!(r#"{{"messages":[{{"role":"user","content":"q"}},{turns}]}}"#)).ingest();
    let ids: Vec<&str> = done.steps.iter().skip(1).step_by(2).filter_map(|s| s.call_id.as_deref()).collect();
    assert_eq!(ids, ["c", "c#2", "c#3", "c#4"]);
}

#[test]
fn deep_nesting_is_a_reject_and_no_overflow() {
    let dir = Dir::new();
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let blocks = format!("{}null{}", r#"[{"content":"#.repeat(100_000), "}]".repeat(100_000));
    let content = format!(r#"{{"messages":[{{"role":"user","content":{blocks}}}]}}"#);
    let skipped = format!(r#"{{"messages":[{{"role":"user","content":"a"}}],"extra":{}}}"#, deep(100_000));
    let arguments = format!(
        r#"{{"messages":[{{"role":"user","content":"b"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"c","function":{{"name":"f","arguments":{}}}}}]}}]}}"#,
        deep(1000)
    );
    let done = dir.file("x.jsonl", format!("{content}\n{skipped}\n{arguments}\n{}", chat("c"))).ingest();
    assert_eq!(done.trajectories.len(), 3, "{:?}", done.reasons());
    assert_eq!(done.rejects.len(), 1);
    assert!(done.rejects[0]["reason"].as_str().unwrap().contains("nested deeper"), "{:?}", done.reasons());
    let only = Dir::new();
    assert_eq!(only.file("y.json", "[".repeat(1 << 20)).ingest().report.rejects, 1);
}

#[test]
fn two_values_on_one_line() {
    let dir = Dir::new();
    let text = format!("{}{}\n{} {}\n", chat("a"), chat("b"), chat("c"), &chat("d")[..30]);
    let done = dir.file("x.jsonl", text).ingest();
    assert_eq!(done.texts(), ["a", "yes", "b", "yes", "c", "yes"]);
    assert_eq!(done.rejects.len(), 1);
    assert_eq!(done.rejects[0]["line"], 2);
}

#[test]
fn the_same_log_twice_is_one_trajectory() {
    let dir = Dir::new();
    let done = dir
        .file("a.jsonl", format!("{}\n{}\n", chat("a"), chat("b")))
        .file("copy/a.jsonl.gz", gzip(&format!("{}\n{}\n", chat("a"), chat("b"))))
        .ingest();
    assert_eq!(done.trajectories.len(), 2);
    assert_eq!(done.report.duplicates.len(), 2);
    assert_eq!(done.report.duplicates[0].source, "copy/a.jsonl.gz");
    assert_eq!(done.report.duplicates[0].repeats, "a.jsonl");
}

/// Of two copies of a session one has usage: that one stands.
#[test]
fn the_copy_of_a_session_that_has_usage_stands() {
    let bare = session("s", &["a", "b"]);
    let billed = bare.replace(r#""id":"m0","#, r#""id":"m0","usage":{"input_tokens":50,"output_tokens":5},"#);
    let done = Dir::new().file("a.jsonl", bare).file("b.jsonl", billed).ingest();
    assert_eq!(done.trajectories.len(), 1);
    assert_eq!(
        (done.trajectories[0].source.as_str(), done.report.duplicates[0].source.as_str()),
        ("b.jsonl", "a.jsonl")
    );
    assert!(done.steps.iter().any(|step| step.usage_in == Some(50)));
}

#[test]
fn the_same_log_under_another_name_is_one_trajectory() {
    let traj = r#"{"trajectory":[{"action":"ls","observation":"a","thought":"t","response":"r","state":"{}"}],"history":[{"role":"user","content":"T"}],"info":{}}"#;
    let early = r#"[{"role":"user","content":"U"},{"role":"assistant","content":"```bash\nls\n```"}]"#;
    let logged = |id: &str| chat("same").replacen('{', &format!(r#"{{"id":"{id}","#), 1);
    let dir = Dir::new();
    let done = dir
        .file("a__b-1.traj", traj)
        .file("backup.traj", traj)
        .file("e.json", early)
        .file("f.traj.json", early)
        .file("x-copy.jsonl", format!("{}\n{}\n", chat("a"), chat("b")))
        .file("x.json", format!("[{},{}]", chat("a"), chat("b")))
        .file("z.jsonl", format!("{}\n{}\n", logged("1"), logged("2")))
        .ingest();
    let repeats: Vec<(&str, &str)> =
        done.report.duplicates.iter().map(|d| (d.source.as_str(), d.repeats.as_str())).collect();
    assert_eq!(
        repeats,
        [
            ("backup.traj", "a__b-1.traj"),
            ("f.traj.json", "e.json"),
            ("x.json", "x-copy.jsonl"),
            ("x.json", "x-copy.jsonl")
        ]
    );
    assert_eq!(done.trajectories.len(), 6, "runs that are told apart by logged ids both stay");
}

/// A session of Claude Code in which each text is said by the user and answered.
fn session(id: &str, texts: &[&str]) -> String {
    let mut lines = r#"{"type":"summary","summary":"x","leafUuid":"y"}"#.to_owned() + "\n";
    for (i, text) in texts.iter().enumerate() {
        lines += &format!(
            r#"{{"type":"user","sessionId":"{id}","message":{{"content":"{text}"}},"uuid":"u{i}"}}
{{"type":"assistant","sessionId":"{id}","message":{{"id":"m{i}","content":[{{"type":"text","text":"ok"}}]}},"uuid":"a{i}"}}
"#
        );
    }
    lines
}

#[test]
fn a_session_that_is_the_beginning_of_another_one_is_left_out() {
    let long = "q".repeat(100_000);
    let dir = Dir::new();
    // Progress lines make the shorter one the larger file.
    let progress = "{\"type\":\"progress\",\"uuid\":\"p\",\"sessionId\":\"s\"}\n".repeat(5000);
    dir.file("1.jsonl", session("s", &[&long, "b"]) + &progress)
        .file("2.jsonl.gz", gzip(&session("resumed", &[&long, "b", "c", "d"])))
        .file("3.jsonl", session("s", &[&long, "b", "c"]))
        .file("4.jsonl", session("fork", &[&long, "b", "x"]))
        .file("5.jsonl", chat("a"));
    let done = dir.ingest();
    let repeats: Vec<(&str, &str)> =
        done.report.duplicates.iter().map(|d| (d.source.as_str(), d.repeats.as_str())).collect();
    assert_eq!(repeats, [("1.jsonl", "2.jsonl.gz"), ("3.jsonl", "2.jsonl.gz")]);
    let sources: Vec<&str> = done.trajectories.iter().map(|t| t.source.as_str()).collect();
    assert_eq!(sources, ["2.jsonl.gz", "4.jsonl", "5.jsonl"]);
    let shared = "step of a session that a fork was sent kept as context";
    assert_eq!(done.losses("claude-code")[shared], 4);
    let turns: Vec<u32> = done.trajectories.iter().map(|t| t.n_turns).collect();
    assert_eq!(turns[..2], [4, 1], "the fork's own turn counts alone");
    let totals = &done.report.formats["claude-code"];
    assert_eq!((totals.trajectories, totals.duplicates, totals.steps), (2, 2, 8 + 6));
    let one = dir.ingest_with(1, None);
    for name in ["trajectories.parquet", "steps.parquet", "ingest.json"] {
        assert!(
            fs::read(done.out.join(name)).unwrap() == fs::read(one.out.join(name)).unwrap(),
            "{name} differs"
        );
    }
    let other = dir.ingest_with(3, Some("openai-chat"));
    assert!(other.report.duplicates.is_empty(), "read as another format, nothing is a session");
}

/// A rollout of Codex in which the user and the agent say these texts in turn.
fn codex(id: &str, forked: &str, said: &[&str]) -> String {
    let mut lines = format!(
        r#"{{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{{"id":"{id}"{forked}}}}}"#
    );
    for (i, text) in said.iter().enumerate() {
        let (role, kind) = if i % 2 == 0 { ("user", "input") } else { ("assistant", "output") };
        lines += &format!(
            "\n{}",
            serde_json::json!({"timestamp": "2026-01-01T00:00:01Z", "type": "response_item",
            "payload": {"type": "message", "role": role, "content": [{"type": format!("{kind}_text"), "text": text}]}})
        );
    }
    lines
}

/// A session of pi, likewise.
fn pi(id: &str, said: &[&str]) -> String {
    let mut lines = format!(
        r#"{{"type":"session","version":3,"id":"{id}","timestamp":"2026-01-01T00:00:00Z","cwd":"/w"}}"#
    );
    for (i, text) in said.iter().enumerate() {
        let role = if i % 2 == 0 { "user" } else { "assistant" };
        let parent = i.checked_sub(1).map(|i| format!("e{i}"));
        lines += &format!(
            "\n{}",
            serde_json::json!({"type": "message", "id": format!("e{i}"), "parentId": parent,
            "timestamp": "2026-01-01T00:00:01Z", "message": {"role": role, "content": [{"type": "text", "text": text}]}})
        );
    }
    lines
}

/// Two sessions that part behind the first turn, in the forms of products: the turns of both count once, and a fork that says
/// nothing new is none.
#[test]
fn turns_before_a_fork_count_once_in_every_format() {
    // An old tree that says the same as an export is a duplicate of it: these are of another time.
    let message = |id: &str, i: usize| {
        let created = 1_767_225_600_000u64 + 1000 * u64::from(id.starts_with("ses")) + i as u64;
        let role = if i % 2 == 0 { "user" } else { "assistant" };
        serde_json::json!({"id": format!("msg_{id}{i}"), "sessionID": id, "role": role, "time": {"created": created}})
    };
    let part = |id: &str, i: usize, text: &str| serde_json::json!({"id": format!("prt_{id}{i}"), "sessionID": id, "messageID": format!("msg_{id}{i}"), "type": "text", "text": text});
    let opencode = |id: &str, said: &[&str]| {
        let messages = said
            .iter()
            .enumerate()
            .map(|(i, text)| serde_json::json!({"info": message(id, i), "parts": [part(id, i, text)]}));
        serde_json::json!({"info": {"id": id, "directory": "/w"}, "messages": messages.collect::<Vec<_>>()})
            .to_string()
    };
    let (first, fork) =
        (["Fix it.", "Fixed.", "Test it.", "Tested."], ["Fix it.", "Fixed.", "Drop it.", "Dropped."]);
    let (parted, from) = (&fork[..2], r#","forked_from_id":"a""#);
    let dir = Dir::new();
    dir.file("codex/1.jsonl", codex("a", "", &first))
        .file("codex/2.jsonl", codex("b", from, &fork))
        .file("codex/3.jsonl", codex("c", from, parted))
        .file("pi/1.jsonl", pi("a", &first))
        .file("pi/2.jsonl", pi("b", &fork))
        .file("pi/3.jsonl", pi("c", parted))
        .file("opencode/1.json", opencode("a", &first))
        .file("opencode/2.json", opencode("b", &fork))
        .file("opencode/3.json", opencode("c", parted));
    for (id, said) in [("ses_a", &first[..]), ("ses_b", &fork), ("ses_c", parted)] {
        dir.file(
            &format!("tree/session/p/{id}.json"),
            serde_json::json!({"id": id, "directory": "/w"}).to_string(),
        );
        for (i, text) in said.iter().enumerate() {
            let (name, of) = (
                format!("tree/message/{id}/msg_{id}{i}.json"),
                format!("tree/part/msg_{id}{i}/prt_{id}{i}.json"),
            );
            dir.file(&name, message(id, i).to_string()).file(&of, part(id, i, text).to_string());
        }
    }
    let done = dir.ingest();
    let folders =
        [("codex", "codex"), ("pi", "pi"), ("opencode", "opencode-export"), ("tree", "opencode-tree")];
    for (folder, format) in folders {
        let of = |t: &&TrajectoryRow| t.source.starts_with(folder);
        let turns: Vec<u32> = done.trajectories.iter().filter(of).map(|t| t.n_turns).collect();
        assert_eq!(turns, [2, 1], "{format}");
        assert_eq!(done.report.formats[format].duplicates, 1, "{format}");
        assert_eq!(
            done.losses(format)["step of a session that a fork was sent kept as context"],
            2,
            "{format}"
        );
    }
}

#[test]
fn sub_agents_are_runs_and_count_once_in_copies_of_their_session() {
    let agent = |name: &str, task: &str| {
        let head = format!(r#""sessionId":"s","isSidechain":true,"agentId":"{name}""#);
        format!(
            r#"{{"type":"user",{head},"uuid":"{name}1","parentUuid":null,"message":{{"content":"{task}"}}}}
{{"type":"assistant",{head},"uuid":"{name}2","parentUuid":"{name}1","message":{{"id":"{name}m","content":[{{"type":"text","text":"ok"}}]}}}}
"#
        )
    };
    let dir = Dir::new();
    // The old file of a session that was resumed holds two sub-agents; the new one has one of them, which has a file
    // of its own, too.
    dir.file("1.jsonl", session("s", &["a", "b"]) + &agent("x", "Look.") + &agent("y", "Search."))
        .file("2.jsonl", session("s2", &["a", "b", "c"]) + &agent("x", "Look."))
        .file("2/subagents/agent-x.jsonl", agent("x", "Look."))
        .file("2/subagents/agent-z.jsonl", agent("z", "Wait."));
    let done = dir.ingest();
    let runs: Vec<(&str, Option<&str>, Option<&str>)> = done
        .trajectories
        .iter()
        .map(|t| (t.source.as_str(), t.task_id.as_deref(), t.parent.as_deref()))
        .collect();
    assert_eq!(
        runs,
        [
            ("1.jsonl", Some("agent-x/x1"), Some("s")),
            ("1.jsonl", Some("agent-y/y1"), Some("s")),
            ("2.jsonl", Some("s2"), None),
            ("2/subagents/agent-z.jsonl", Some("agent-z/z1"), Some("s")),
        ]
    );
    let repeats: Vec<(&str, &str)> =
        done.report.duplicates.iter().map(|d| (d.source.as_str(), d.repeats.as_str())).collect();
    assert_eq!(
        repeats,
        [("1.jsonl", "2.jsonl"), ("2.jsonl", "1.jsonl"), ("2/subagents/agent-x.jsonl", "1.jsonl")]
    );
    assert_eq!(done.losses("claude-code").get("run without messages"), None);
}

#[test]
fn bad_lines_at_the_start_do_not_hide_the_runs_behind_them() {
    for (bad, n) in
        [("hello world\n", 25), ("{\"id\": \"x\", \"messages\": [{\"role\"\n", 25), ("noise,\n", 20_000)]
    {
        let dir = Dir::new();
        let text = bad.repeat(n) + &chat("a") + "\n" + &chat("b") + "\n";
        dir.file("x.jsonl", text);
        for format in [None, Some("openai-chat")] {
            let done = dir.ingest_with(2, format);
            assert_eq!(done.texts(), ["a", "yes", "b", "yes"], "{bad}");
            let lines: Vec<u64> = done.rejects.iter().map(|r| r["line"].as_u64().unwrap()).collect();
            assert_eq!(lines, (1..=n as u64).collect::<Vec<_>>());
        }
    }
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn labels_are_joined_and_other_formats_told() {
    let dir = Dir::new();
    let traj = |id: &str| {
        format!(
            r#"{{"info":{{"exit_status":"Submitted"}},"messages":[{{"role":"user","content":"{id}"}}],"trajectory_format":"mini-swe-agent-1.1","instance_id":"{id}"}}"#
        )
    };
    let other = Dir::new();
    let table = other.file("x.jsonl", chat("a")).ingest().out.join("steps.parquet");
    let done = dir
        .file("run_1/a__b-1.traj.json", traj("a__b-1"))
        .file("run_1/a__b-2.traj.json", traj("a__b-2"))
        .file("run_2/a__b-1.traj.json", traj("a__b-1 again"))
        .file(
            "labels/m.run_1.json",
            r#"{"resolved_ids":["a__b-1"],"unresolved_ids":["a__b-2"],"schema_version":2}"#,
        )
        .file("other/t.parquet", fs::read(table).unwrap())
        .ingest();
    let labels: Vec<Option<bool>> = done.trajectories.iter().map(|t| t.resolved).collect();
    assert_eq!(labels, [Some(true), Some(false), None]);
    assert_eq!(done.trajectories[0].label_source.as_deref(), Some("labels/m.run_1.json"));
    assert_eq!(done.report.not_read[0].format, "parquet");
    assert_eq!((done.report.labels[0].joined, done.report.rejects), (2, 0));
}

#[test]
fn results_beside_the_runs_of_one_agent_are_not_of_another() {
    let traj = |id: &str| {
        format!(
            r#"{{"trajectory":[{{"action":"ls","observation":"{id}","thought":"t"}}],"history":[{{"role":"user","content":"{id}"}}],"info":{{}}}}"#
        )
    };
    let mini = r#"{"info":{"exit_status":"Submitted"},"messages":[{"role":"user","content":"T"}],"trajectory_format":"mini-swe-agent-1.1"}"#;
    let dir = Dir::new();
    let done = dir
        .file("a__b-1.traj", traj("a__b-1"))
        .file("a__b-2.traj", traj("a__b-2"))
        .file("mini/a__b-2.traj.json", mini)
        .file("results.json", r#"{"no_generation":[],"no_logs":[],"resolved":["a__b-1"]}"#)
        .ingest();
    let labels: Vec<Option<bool>> = done.trajectories.iter().map(|t| t.resolved).collect();
    assert_eq!(labels, [Some(true), Some(false), None]);
    assert_eq!(done.report.labels[0].joined, 2);
}

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

#[test]
fn a_chat_of_one_message_a_line_is_one_run() {
    let dir = Dir::new();
    let message = |role: &str, text: &str| format!("{{\"role\":\"{role}\",\"content\":\"{text}\"}}\n");
    let text = message("system", "S") + &message("user", "Q") + "{broken\n" + &message("assistant", "A");
    let done = dir.file("x.jsonl", text).ingest();
    assert_eq!(done.texts(), ["S", "Q", "A"]);
    assert_eq!((done.trajectories.len(), done.trajectories[0].n_turns), (1, 1));
    assert_eq!(done.rejects[0]["line"], 3);
}

#[test]
fn labels_that_are_no_numbers_are_unknown() {
    let dir = Dir::new();
    let simulation = |reward: &str| {
        format!(r#"{{"task_id":"{reward}","reward_info":{{"reward":{reward}}},"messages":[{{"role":"assistant","content":"Hi"}}]}}"#)
            .replacen(&format!("\"{reward}\""), "\"t\"", 1)
    };
    let rewards = ["1.0", "NaN", "\"NaN\"", "\"inf\"", "1e400", "\"False\"", "null"];
    let simulations: Vec<String> = rewards.iter().map(|r| simulation(r)).collect();
    let texts: Vec<String> =
        simulations.iter().enumerate().map(|(i, s)| s.replacen("Hi", &format!("Hi {i}"), 1)).collect();
    let file = format!(r#"{{"info":{{}},"tasks":[],"simulations":[{}]}}"#, texts.join(","));
    let done = dir.file("r.json", file).ingest();
    let labels: Vec<_> = done.trajectories.iter().map(|t| (t.reward, t.resolved)).collect();
    let unknown = (None, None);
    assert_eq!(
        labels,
        [(Some(1.0), Some(true)), unknown, unknown, unknown, unknown, (Some(0.0), Some(false)), unknown]
    );
    let losses = done.losses("tau2-bench");
    let told = losses["reward that is no number taken as unknown"];
    assert_eq!(told + losses["number that is not finite replaced by null"], 4, "{losses:?}");
}

/// Formats of MANIFEST.tsv that have a reader, and its name.
const READ: [(&str, &str); 9] = [
    ("claude-code-jsonl", "claude-code"),
    ("claude-code-jsonl(synthetic fixture)", "claude-code"),
    ("mini-swe-agent-1.1", "mini-swe-agent"),
    ("mini-swe-agent-early", "mini-swe-agent"),
    ("swe-agent-traj-0x", "sweagent"),
    ("swe-agent-traj-1x", "sweagent"),
    ("swe-agent-traj-demo", "sweagent"),
    ("tau-bench-results", "tau-bench"),
    ("tau2-results", "tau2-bench"),
];

#[test]
fn real_logs_have_as_many_trajectories_as_their_manifest() {
    let Some(logs) = std::env::var_os("TRAJPRESS_LOGS").map(PathBuf::from) else {
        // Straight to stderr: what a passing test prints by `eprintln!` is swallowed.
        let text = "SKIPPED: set TRAJPRESS_LOGS to a folder of logs with a MANIFEST.tsv\n";
        std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()).unwrap();
        return;
    };
    let out = tempfile::tempdir().unwrap();
    let options = Options {
        inputs: vec![logs.clone()],
        out: out.path().to_owned(),
        format: None,
        threads: 2,
        limits: Limits::default(),
        ..Options::default()
    };
    let report = ingest(&options, &mut |_| {}).unwrap();
    let mut expected = BTreeMap::<&str, u64>::new();
    for (format, n) in manifest(&logs) {
        if let Some((_, name)) = READ.iter().find(|(f, _)| *f == format) {
            *expected.entry(name).or_default() += n;
        }
    }
    for (name, n) in expected {
        let totals = &report.formats[name];
        assert_eq!(totals.trajectories + totals.duplicates, n, "{name}");
        assert_eq!(totals.rejects, 0, "{name}");
    }
    assert_eq!(report.rejects, 0);
    let steps: Vec<StepRow> = store::read(&out.path().join("steps.parquet")).unwrap();
    assert!(steps.iter().all(|s| !s.text.contains('\0')));
}

/// Format and number of trajectories of each file.
fn manifest(logs: &Path) -> Vec<(String, u64)> {
    let text = fs::read_to_string(logs.join("MANIFEST.tsv")).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let column = |name: &str| header.iter().position(|h| *h == name).unwrap();
    let (format, n) = (column("format"), column("n_trajectories"));
    lines
        .map(|l| {
            let fields: Vec<&str> = l.split('\t').collect();
            (fields[format].to_owned(), fields[n].parse().unwrap())
        })
        .collect()
}

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
