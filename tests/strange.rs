//! Lines that are no records of their file's format: strange ones before all others, words before each record, and records of
//! other formats.

use std::fs;

use trajpress::internals::store::{self, StepRow};
use trajpress::{IngestMode, IngestOptions as Options, Ingested as Report, ingest};

/// Reads one file; gives the report, what was said, and the rejects.
fn read(text: impl AsRef<[u8]>) -> (Report, Vec<String>, Vec<serde_json::Value>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    fs::write(&path, text).unwrap();
    let out = dir.path().join("data");
    let options =
        Options { inputs: vec![path], out: out.clone(), mode: IngestMode::Fresh, ..Options::default() };
    let report = ingest(&options, &mut |_| {}).unwrap();
    let steps: Vec<StepRow> = store::read(&out.join("steps.parquet")).unwrap();
    let rejects = fs::read_to_string(out.join("rejects.jsonl")).unwrap();
    (
        report,
        steps.into_iter().map(|step| step.text).collect(),
        rejects.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
    )
}

/// Runs of a question and an answer.
fn chats(n: usize) -> String {
    let chat = |i| {
        format!(
            r#"{{"messages":[{{"role":"user","content":"chat {i}"}},{{"role":"assistant","content":"yes {i}"}}]}}"#
        ) + "\n"
    };
    (0..n).map(chat).collect()
}

/// A session of Claude Code.
fn session(n: usize) -> String {
    let line = |i| {
        let role = ["user", "assistant"][i % 2];
        format!(
            r#"{{"type":"{role}","uuid":"u{i}","sessionId":"s","message":{{"role":"{role}","content":"said {i}"}}}}"#
        ) + "\n"
    };
    (0..n).map(line).collect()
}

/// A rollout of Codex.
fn rollout(n: usize) -> String {
    let begin = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"r"}}"#;
    let line = |i| {
        let (role, kind) = [("user", "input_text"), ("assistant", "output_text")][i % 2];
        format!(
            r#"{{"timestamp":"2026-01-01T00:00:01Z","type":"response_item","payload":{{"type":"message","role":"{role}","content":[{{"type":"{kind}","text":"rolled {i}"}}]}}}}"#
        ) + "\n"
    };
    begin.to_owned() + "\n" + &(0..n).map(line).collect::<String>()
}

fn each_line(text: &str, before: &str) -> String {
    text.lines().map(|line| format!("{before}{line}\n")).collect()
}

#[test]
fn a_format_is_told_behind_any_number_of_strange_lines() {
    for strange in ["{\"a\":1}", "{\"type\":\"zzz\",\"sessionId\":\"s\"}", "[1]", "some text", "{\"role\":1}"]
    {
        for n in [19, 20, 21, 41, 300, 10_000] {
            let begin = format!("{strange}\n").repeat(n);
            for (log, said) in [(chats(30), 60), (session(40), 40)] {
                let (_, texts, _) = read(&(begin.clone() + &log));
                assert_eq!(texts.len(), said, "{n} x {strange}");
            }
        }
    }
    // The same in a list.
    for n in [19, 21, 300] {
        let items = chats(30).trim_end().replace('\n', ",");
        let (_, texts, _) = read(format!("[{}{items}]", "{\"a\":1},".repeat(n)));
        assert_eq!(texts.len(), 60, "{n} items");
    }
    // All of them different from each other.
    let begin: String = (0..2000).map(|i| format!("{{\"k{i}\":{{\"x{i}\":1}}}}\n")).collect();
    assert_eq!(read(&(begin + &session(40))).1.len(), 40);
}

#[test]
fn words_before_each_record_are_told_once() {
    for words in ["2026-01-01 INFO ", "INFO ", "[2026-01-01 10:00:00] worker-3: ", "<14>1 host app - - "] {
        for (log, said) in [(chats(200), 400), (session(400), 400)] {
            let bare = read(&log);
            let (report, texts, rejects) = read(&each_line(&log, words));
            assert_eq!((texts.len(), rejects.len()), (said, 0), "{words}");
            assert_eq!(texts, bare.1);
            let format = report.formats.values().next().unwrap();
            let lines = log.lines().count() as u64;
            assert_eq!(format.losses["words of a log before a record left out"], lines);
        }
    }
    // A record that is torn is told with its line.
    let log = each_line(&chats(50), "INFO ").replacen(r#""yes 7"}"#, r#""yes 7""#, 1);
    let (_, texts, rejects) = read(&log);
    assert!(texts.len() >= 98 && rejects[0]["line"] == 8, "{} {rejects:?}", texts.len());
}

#[test]
fn records_of_another_format_are_told_by_its_name() {
    let told = |text: &str| {
        let (report, texts, rejects) = read(text);
        assert_eq!(report.lost_records, rejects.len() as u64);
        let first = rejects[0]["reason"].as_str().unwrap().lines().next().unwrap().to_owned();
        (texts.len(), rejects.len(), rejects[0]["line"].as_u64().unwrap(), first)
    };
    assert_eq!(
        told(&(session(400) + &chats(200))),
        (400, 200, 401, "a record of openai-chat in a file of claude-code".to_owned())
    );
    assert_eq!(
        told(&(chats(200) + &session(400))),
        (400, 400, 201, "a record of claude-code in a file of openai-chat".to_owned())
    );
    assert_eq!(
        told(&(session(400) + &rollout(50))),
        (400, 51, 401, "a record of codex in a file of claude-code".to_owned())
    );
    assert_eq!(
        told(&(rollout(50) + &session(40))),
        (50, 40, 52, "a record of claude-code in a file of codex".to_owned())
    );
    // What is of no format at all is a loss of the reader's own.
    assert!(read(&(session(40) + "{\"a\":1}\n")).2.is_empty());
}

/// Its rows are lists with names that other formats have, too.
#[test]
fn a_run_of_a_database_in_which_nothing_is_said_is_no_stranger() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("crush.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    database
        .execute_batch(
            "CREATE TABLE sessions (id TEXT, parent_session_id TEXT, title TEXT, summary_message_id TEXT);
             CREATE TABLE messages (id TEXT, session_id TEXT, role TEXT, parts TEXT, model TEXT, provider TEXT, created_at INTEGER);
             INSERT INTO sessions (id) VALUES ('s');
             INSERT INTO messages (id, session_id, role, parts) VALUES ('m', 's', 'user', '[]');",
        )
        .unwrap();
    drop(database);
    let options = Options { inputs: vec![path], out: dir.path().join("data"), ..Options::default() };
    let report = ingest(&options, &mut |_| {}).unwrap();
    assert_eq!(report.rejects, 0);
    assert_eq!(report.formats.values().next().unwrap().losses["run without messages"], 1);
}

#[test]
fn texts_in_wider_units_are_told() {
    let log = chats(3);
    let wide = |n: usize, is_big: bool| -> Vec<u8> {
        let unit = |byte: u8| {
            let mut unit = vec![0; n];
            unit[if is_big { n - 1 } else { 0 }] = byte;
            unit
        };
        log.bytes().flat_map(unit).collect()
    };
    for (name, mark, bytes) in [
        ("UTF-16", &b"\xff\xfe"[..], wide(2, false)),
        ("UTF-16", b"\xfe\xff", wide(2, true)),
        ("UTF-32", b"\xff\xfe\0\0", wide(4, false)),
        ("UTF-32", b"\0\0\xfe\xff", wide(4, true)),
    ] {
        for bytes in [[mark, &bytes].concat(), bytes.clone()] {
            let (_, texts, rejects) = read(&bytes);
            assert!(texts.is_empty());
            let told = rejects[0]["reason"].as_str().unwrap();
            assert!(told.starts_with(&format!("{name} text\nhint: convert")), "{name}: {told}");
        }
    }
}
