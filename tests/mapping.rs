//! A log of a format that nobody knows: explained, a first mapping printed, and read by that as it is.

use std::fs;

use crate::place::Place;
use trajpress::internals::store::{self, StepRow};

impl Place {
    fn texts(&self, out: &str) -> Vec<String> {
        let rows: Vec<StepRow> = store::read(&self.at(out).join("steps.parquet")).unwrap();
        rows.into_iter().map(|s| format!("{} {}: {}", s.role, s.kind, s.text)).collect()
    }
}

fn told(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_first_mapping_reads_what_it_was_made_of() {
    let place = Place::new();
    let log = r#"{"meta":{"v":1},"episodes":[{"task":"t1","dialogue":[{"speaker":"Human","utterance":"List."},
        {"speaker":"Bot","utterance":"I look.","actions":[{"call_id":"1","tool":"ls","args":{"path":"/"}}]},
        {"speaker":"Tool","utterance":"a b","call_id":"1"},{"speaker":"Bot","utterance":"a and b"}]}]}"#;
    fs::write(place.at("x.json"), log).unwrap();
    let unread = place.program(&["ingest", ".", "--out", "none"]);
    assert!(
        told(&unread.stderr).contains("hint: `trajpress ingest --explain FILE`"),
        "{}",
        told(&unread.stderr)
    );
    let explained = place.program(&["ingest", "--explain", "x.json"]);
    assert!(explained.status.success(), "{}", told(&explained.stderr));
    let told_of = told(&explained.stdout);
    assert!(told_of.contains("steps: 5") && told_of.contains("runs: 1"), "{told_of}");
    fs::write(place.at("m.toml"), &explained.stdout).unwrap();
    let read = place.program(&["ingest", "x.json", "--mapping", "m.toml", "--out", "data"]);
    assert!(read.status.success(), "{}\n{}", told(&read.stderr), told(&explained.stdout));
    assert_eq!(
        place.texts("data"),
        [
            "user message: List.",
            "agent thought: I look.",
            "agent action: ls\n/",
            "tool observation: a b",
            "agent message: a and b"
        ],
        "{}",
        told(&explained.stdout)
    );
}

/// Of fields with unknown names those are taken that look like it; what is said may stand in several.
#[test]
fn a_list_of_objects_with_texts_gives_a_first_mapping() {
    let place = Place::new();
    let first = |log: &str| {
        fs::write(place.at("x.json"), log).unwrap();
        told(&place.program(&["ingest", "--explain", "x.json"]).stdout)
    };
    let explained = first(
        r#"{"meta":{"tags":[{"name":"a b"}]},"log":[{"no":"1","who":"human","what":"List them."},{"no":"2","who":"bot","what":"Two files."},
        {"no":"3","who":"human","what":"Thanks."},{"no":"4","who":"bot","what":"Bye then."}]}"#,
    );
    for part in ["messages = \"/log\"", "role = \"/who\"", "content = \"/what\"", "steps: 4"] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    let explained = first(
        r#"{"steps":[{"type":"STEP_USER","input":{"items":[{"text":"make a page"}]}},{"type":"STEP_PLAN","plan":{"response":"I make it now","calls":[{"id":"1"}]}}]}"#,
    );
    for part in [
        "role = \"/type\"",
        r#"content = ["/plan/response", "/input/items/0/text"]"#,
        "\"STEP_PLAN\" = \"none\"",
        "\"STEP_USER\" = \"user\"",
    ] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    let explained =
        first(r#"{"history":[{"user":{"prompt":"count the files"},"assistant":{"text":"Seven of them."}}]}"#);
    assert!(explained.contains("# role = ") && explained.contains("messages = \"/history\""), "{explained}");
}

#[test]
fn lines_with_nested_messages_are_one_run() {
    let place = Place::new();
    let lines = [
        r#"{"n":1,"data":{"content":"Go."},"actor":"customer"}"#,
        r#"{"n":2,"data":{"content":"Done."},"actor":"agent"}"#,
        r#"{"n":3,"data":{"content":"Thanks."},"actor":"customer"}"#,
    ];
    fs::write(place.at("x.jsonl"), lines.join("\n")).unwrap();
    let explained = told(&place.program(&["ingest", "--explain", "x.jsonl"]).stdout);
    assert!(
        explained.contains("each = \"lines\"") && explained.contains("\"customer\" = \"none\""),
        "{explained}"
    );
    fs::write(place.at("m.toml"), explained.replace("\"customer\" = \"none\"", "customer = \"user\""))
        .unwrap();
    assert!(place.program(&["ingest", "x.jsonl", "--mapping", "m.toml", "--out", "data"]).status.success());
    assert_eq!(place.texts("data"), ["user message: Go.", "agent message: Done.", "user message: Thanks."]);
    fs::write(place.at("m.toml"), explained.replace("content", "contnt")).unwrap();
    let wrong = place.program(&["ingest", "x.jsonl", "--mapping", "m.toml", "--out", "data"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        told(&wrong.stderr).contains("m.toml:") && told(&wrong.stderr).contains("content"),
        "{}",
        told(&wrong.stderr)
    );
}

/// What names the session of a line and what was counted are found, so that the first mapping reads both.
#[test]
fn sessions_and_counts_stand_in_the_first_mapping() {
    let place = Place::new();
    let lines = [
        r#"{"session":"A","actor":"user","data":{"content":"Go."}}"#,
        r#"{"session":"B","actor":"user","data":{"content":"Stay."}}"#,
        r#"{"session":"A","actor":"agent","data":{"content":"Done."},"burn":{"in":100,"out":20,"cached":60}}"#,
        r#"{"session":"B","actor":"agent","data":{"content":"I do."},"burn":{"in":50,"out":9}}"#,
    ];
    fs::write(place.at("x.jsonl"), lines.join("\n")).unwrap();
    let explained = told(&place.program(&["ingest", "--explain", "x.jsonl"]).stdout);
    for part in ["session = \"/session\"", "[usage]\ninput = \"/burn/in\"\noutput = \"/burn/out\"\ncached = "]
    {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    fs::write(place.at("m.toml"), explained).unwrap();
    assert!(place.program(&["ingest", "x.jsonl", "--mapping", "m.toml", "--out", "data"]).status.success());
    let runs: Vec<store::TrajectoryRow> = store::read(&place.at("data/trajectories.parquet")).unwrap();
    let told: Vec<_> = runs.iter().map(|run| run.task_id.as_deref()).collect();
    assert_eq!(told, [Some("A"), Some("B")]);
    let steps: Vec<StepRow> = store::read(&place.at("data/steps.parquet")).unwrap();
    let counts = steps.iter().filter_map(|s| s.usage_in.map(|n| (n, s.usage_out, s.usage_cache_read)));
    assert_eq!(counts.collect::<Vec<_>>(), [(100, Some(20), Some(60)), (50, Some(9), None)]);
}

#[test]
fn a_known_log_is_explained() {
    let place = Place::new();
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/datasets/coding/chat-runs.jsonl");
    let explained = told(&place.program(&["ingest", "--explain", log]).stdout);
    for part in [
        "recognised as openai-chat",
        "one value a line",
        "runs: ",
        "told by its fields: ",
        "fields left out: ",
    ] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    let json = told(&place.program(&["ingest", "--explain", log, "--json"]).stdout);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["recognised"].as_str().unwrap().starts_with("recognised as openai-chat"), "{json}");
    assert!(json["read"]["runs"].as_u64().unwrap() > 0 && json["mapping"].is_null(), "{json}");
}

/// What has no end is not waited for.
#[cfg(unix)]
#[test]
fn what_is_no_plain_file_is_not_explained() {
    let place = Place::new();
    let pipe = place.at("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(place.at("socket")).unwrap();
    for name in ["pipe", "socket", "/dev/zero"] {
        let explained = place.program(&["ingest", "--explain", name]);
        assert_eq!(explained.status.code(), Some(2));
        assert!(told(&explained.stderr).contains("not a plain file"), "{}", told(&explained.stderr));
    }
}

/// A mapping is for what no reader knows; all files are read by it only if that is said.
#[test]
fn a_mapping_leaves_known_formats_to_their_readers() {
    let place = Place::new();
    fs::create_dir(place.at("logs")).unwrap();
    fs::write(place.at("logs/x.json"), r#"{"talk":[{"who":"user","says":"Go.","mood":"good"}]}"#).unwrap();
    fs::write(place.at("logs/y.jsonl"), "{\"messages\":[{\"role\":\"user\",\"content\":\"Stay.\"}]}\n")
        .unwrap();
    fs::write(place.at("m.toml"), "messages = \"/talk\"\n[message]\nrole = \"/who\"\ncontent = \"/says\"\n")
        .unwrap();
    let read = place.program(&["ingest", "logs", "--mapping", "m.toml", "--out", "data"]);
    assert!(read.status.success(), "{}", told(&read.stderr));
    assert_eq!(place.texts("data"), ["user message: Go.", "user message: Stay."]);
    let all =
        place.program(&["ingest", "logs", "--mapping", "m.toml", "--format", "mapping", "--out", "all"]);
    let rejects = fs::read_to_string(place.at("all/rejects.jsonl")).unwrap();
    assert!(rejects.contains("no list of messages"), "{rejects}\n{}", told(&all.stderr));
    assert_eq!(place.texts("all"), ["user message: Go."]);
    let shared = place.program(&["redact", "logs", "--mapping", "m.toml", "--since", "1h"]);
    assert_eq!(told(&shared.stdout).lines().count(), 2, "{}", told(&shared.stderr));
    let old = place.program(&["redact", "logs", "--since", "2100-01-01"]);
    assert!(
        told(&old.stdout).is_empty() && told(&old.stderr).contains("not asked for: 2"),
        "{}",
        told(&old.stderr)
    );
    for wrong in [vec!["--format", "mapping"], vec!["--format", "codex", "--mapping", "m.toml"]] {
        let refused = place.program(&[&["ingest", "logs", "--out", "none"], wrong.as_slice()].concat());
        assert_eq!(refused.status.code(), Some(2));
        assert!(told(&refused.stderr).contains("hint: "), "{}", told(&refused.stderr));
    }
    let explained =
        told(&place.program(&["ingest", "--explain", "logs/x.json", "--mapping", "m.toml"]).stdout);
    assert!(
        explained.contains("read by the mapping") && explained.contains("mapping.message./mood 1"),
        "{explained}"
    );
}

/// A pattern that fits no file may be one that should have kept a file from being read.
#[test]
fn patterns_that_fit_nothing_are_told() {
    let place = Place::new();
    fs::create_dir_all(place.at("logs/private")).unwrap();
    let chat = |text: &str| format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#);
    fs::write(place.at("logs/a.jsonl"), chat("open")).unwrap();
    fs::write(place.at("logs/private/p.jsonl"), chat("mine")).unwrap();
    let read = |exclude: &str| {
        let out = place.program(&["ingest", "logs", "--out", "data", "--fresh", "--exclude", exclude]);
        (place.texts("data"), told(&out.stderr))
    };
    let (texts, said) = read("private");
    assert_eq!(texts, ["user message: open"]);
    assert!(
        said.contains("left out, since not asked for: 1 file") && !said.contains("no file fits"),
        "{said}"
    );
    let (texts, said) = read("privat");
    assert_eq!(texts.len(), 2);
    assert!(said.contains("warning: no file fits: --exclude privat "), "{said}");
}

/// What the settings beside a session say is of that session.
#[test]
fn a_session_of_droid_and_its_settings_are_one_run() {
    let place = Place::new();
    fs::create_dir(place.at("logs")).unwrap();
    let lines = [
        r#"{"type":"session_start","id":"s","cwd":"/w"}"#,
        r#"{"type":"message","id":"1","timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":[{"type":"text","text":"Go."}]}}"#,
        r#"{"type":"message","id":"2","timestamp":"2026-01-01T00:00:01Z","message":{"role":"assistant","content":[{"type":"text","text":"Done."}]}}"#,
    ];
    fs::write(place.at("logs/s.jsonl"), lines.join("\n")).unwrap();
    let settings = "{\n  \"model\": \"m\",\n  \"autonomyMode\": \"low\",\n  \"tokenUsage\": {\n    \"inputTokens\": 7,\n    \"cacheReadTokens\": 40\n  }\n}\n";
    fs::write(place.at("logs/s.settings.json"), settings).unwrap();
    assert!(place.program(&["ingest", "logs", "--out", "data"]).status.success());
    let runs: Vec<store::TrajectoryRow> = store::read(&place.at("data/trajectories.parquet")).unwrap();
    let told: Vec<_> = runs.iter().map(|run| (run.model.as_deref(), run.logged_tokens_sent)).collect();
    assert_eq!(told, [(Some("m"), Some(47))]);
    assert_eq!(place.texts("data"), ["user message: Go.", "agent message: Done."]);
}
