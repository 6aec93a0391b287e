//! Ingest from end to end: bad input of all kinds, duplicates, labels, compression, determinism, and
//! the real logs named by `TRAJPRESS_LOGS`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use trajpress::internals::store::{self, StepRow, TrajectoryRow};
use trajpress::{IngestOptions as Options, Ingested as Report, Limits, ingest};

mod damage;
mod forks;
mod shape;

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
