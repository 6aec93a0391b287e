//! Lines that are no records of their file's session: strange ones before all others, words before each record, and records of
//! other formats and other sessions.

use std::fs;
use std::path::Path;

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
    for words in [
        "2026-01-01 INFO ",
        "INFO ",
        "INFO {} ",
        "[2026-01-01 10:00:00] {x=1} worker-3: ",
        "<14>1 host app - - ",
    ] {
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
    // So are all, however many they are; a record behind a torn one is read.
    for words in ["INFO ", "INFO {} "] {
        let lines: Vec<String> = each_line(&session(40), words).lines().map(str::to_owned).collect();
        let torn = |i: usize| i % 3 == 1;
        let cut = |(i, line): (usize, &String)| match torn(i) {
            true => line[..line.len() - 9].to_owned() + if i % 2 == 0 { "" } else { "\n" },
            false => line.clone() + "\n",
        };
        let (_, texts, rejects) = read(lines.iter().enumerate().map(cut).collect::<String>());
        let whole: Vec<String> = (0..40).filter(|i| !torn(*i)).map(|i| format!("said {i}")).collect();
        assert_eq!((missing(&whole, &texts), rejects.len()), (Vec::new(), 13), "{rejects:?}");
        let told = rejects[0]["reason"].as_str().unwrap();
        assert!(told.starts_with("EOF while parsing"), "{told}");
    }
}

/// The project's own logs of lines, a format each.
fn logs() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/robust/logs");
    let mut logs = Vec::new();
    for folder in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let lines = files.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
        logs.extend(lines.map(|path| (name.clone(), fs::read_to_string(path).unwrap())));
    }
    logs.sort();
    logs
}

/// Two lines of each in turn.
fn mixed(a: &str, b: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
    let n = a.len().max(b.len()).div_ceil(2);
    let two = |lines: &[&str], i: usize| {
        lines.iter().skip(2 * i).take(2).map(|line| format!("{line}\n")).collect::<String>()
    };
    (0..n).map(|i| two(&a, i) + &two(&b, i)).collect()
}

/// What `a` holds more often than `b`.
fn missing(a: &[String], b: &[String]) -> Vec<String> {
    let mut rest = b.to_vec();
    let is_missing = |text: &&String| match rest.iter().position(|other| other == *text) {
        Some(at) => {
            rest.swap_remove(at);
            false
        }
        None => true,
    };
    a.iter().filter(is_missing).cloned().collect()
}

/// Of logs of several programs in one file each is read as if it stood alone.
#[test]
fn joined_logs_of_two_formats_are_both_read() {
    let mut logs = logs();
    // Its first records are also those of Claude Code's stream, and behind another log are taken for such.
    logs.retain(|(name, _)| name != "cursor-stream");
    let alone: Vec<(u64, Vec<String>)> = logs
        .iter()
        .map(|(_, text)| read(text))
        .map(|(report, texts, _)| (report.trajectories, texts))
        .collect();
    let n = logs.len();
    assert!(n > 20);
    for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).filter(|(i, j)| i != j) {
        let (a, b) = (&logs[i], &logs[j]);
        let are = |one: &str, other: &str| (a.0 == one && b.0 == other) || (a.0 == other && b.0 == one);
        // A message by role and content is a record of both.
        if are("kimi-cli", "chat-lines") {
            continue;
        }
        // As `cat` joins files of which one has no end of its last line.
        let unended = a.1.trim_end().to_owned() + &b.1;
        for (how, text) in [
            ("behind", a.1.clone() + &b.1),
            ("before", b.1.clone() + &a.1),
            ("on the line of", unended),
            ("among", mixed(&a.1, &b.1)),
        ] {
            // Each with all others in one way, and with some in all ways; but line by line, a message of both is of whichever spoke last.
            let is_some =
                [1, 4, 9].contains(&((j + n - i) % n)) && !(how == "among" && are("pi", "factory-droid"));
            if how != "on the line of" && !is_some {
                continue;
            }
            let (report, texts, rejects) = read(&text);
            let all = [alone[i].1.clone(), alone[j].1.clone()].concat();
            assert_eq!(missing(&all, &texts), [""; 0], "{} {how} {}: {rejects:?}", b.0, a.0);
            if how != "among" {
                assert_eq!(report.trajectories, alone[i].0 + alone[j].0, "{} {how} {}", b.0, a.0);
                assert!(rejects.is_empty() && texts.len() == all.len());
            }
        }
    }
}

/// A large file is read in parts, in which a session would be cut.
#[test]
fn sessions_in_a_large_file_of_runs_are_told() {
    let (report, texts, rejects) = read(chats(100_000) + &session(40));
    assert_eq!((texts.len(), rejects.len(), report.lost_records), (200_000, 40, 40));
    let told = rejects[0]["reason"].as_str().unwrap();
    assert!(told.starts_with("a record of claude-code in a large file of openai-chat\nhint: "), "{told}");
    assert_eq!(rejects[0]["line"], 100_001);
    // The other way round.
    let (_, texts, rejects) = read(session(40) + &chats(100_000));
    assert_eq!((texts.len(), rejects.len()), (200_040, 0));
}

#[test]
fn records_of_another_format_are_counted_by_its_name() {
    let (report, texts, _) = read(session(400) + &chats(200));
    assert_eq!((texts.len(), report.trajectories), (800, 201));
    let told = &report.formats["claude-code"].losses;
    assert_eq!(told["record of openai-chat in a file of claude-code, read as such"], 200);
    // What looks like one of another format and gives no run is told with its line.
    let (_, texts, rejects) = read(session(40) + "{\"messages\":[{\"role\":\"user\"}]}\n");
    assert_eq!((texts.len(), rejects[0]["line"].as_u64()), (40, Some(41)), "{rejects:?}");
    // What is of no format at all is a loss of the reader's own.
    assert!(read(session(40) + "{\"a\":1}\n").2.is_empty());
}

/// Of two sessions in one file each is a run with its own name.
#[test]
fn joined_sessions_of_one_format_are_two_runs() {
    let names = [
        "chat-lines",
        "claude-stream",
        "codex",
        "copilot-cli",
        "cursor-stream",
        "factory-droid",
        "gemini-cli",
        "gemini-stream",
        "goose-lines",
        "kimi-code",
        "openai-agents",
        "pi",
        "qwen-code",
        "vscode-journal",
    ];
    let journal = [
        r#"{"kind":0,"v":{"version":3,"sessionId":"s1","requests":[]}}"#,
        r#"{"kind":2,"k":["requests"],"v":[{"requestId":"r","message":{"text":"Please find ship number 7"},"response":[{"value":"There"}]}]}"#,
    ];
    let own = [("claude-code", session(40)), ("vscode-journal", journal.join("\n") + "\n")];
    let own = own.map(|(name, text)| (name.to_owned(), text));
    let mut n = 0;
    for (name, text) in logs().into_iter().chain(own) {
        if name != "claude-code" && !names.contains(&name.as_str()) {
            continue;
        }
        let named = match name.as_str() {
            "chat-lines" => text.replace("{\"role\"", "{\"session\": \"s1\", \"role\""),
            _ => text,
        };
        let mut other = named.clone();
        for (a, b) in [
            ("\"s1\"", "\"s2\""),
            ("\"s\"", "\"s2\""),
            ("\"s-1\"", "\"s-2\""),
            ("\"t-1\"", "\"t-2\""),
            (": \"u", ": \"v"),
            (":\"u", ":\"v"),
            ("number 7", "number 9"),
            ("said ", "told "),
            ("\"/x\"", "\"/y\""),
        ] {
            other = other.replace(a, b);
        }
        let other = other.replace("\"vser", "\"user").replace(r#""type":"vser"#, r#""type":"user"#);
        let (a, b) = (read(&named), read(&other));
        assert_eq!((a.0.trajectories, b.0.trajectories), (1, 1), "{name}");
        for joined in [named.clone() + &other, named.trim_end().to_owned() + &other] {
            let (report, texts, rejects) = read(joined);
            assert_eq!((report.trajectories, rejects.len()), (2, 0), "{name}: {rejects:?}");
            assert_eq!(texts, [&a.1[..], &b.1].concat(), "{name}");
        }
        // The same session anew is none of its own.
        n += 1;
    }
    assert_eq!(n, names.len() + 1);
    // A journal without ids: one that lacks what was said is another one.
    let journal = |i: usize| {
        let request = format!(
            r#"{{"requestId":"r{i}","message":{{"text":"Please find ship number {i}"}},"response":[{{"value":"There {i}"}}]}}"#
        );
        format!(
            "{{\"kind\":0,\"v\":{{\"version\":3,\"requests\":[]}}}}\n{{\"kind\":2,\"k\":[\"requests\"],\"v\":[{request}]}}\n"
        )
    };
    let (report, texts, _) = read(journal(1) + &journal(2));
    assert_eq!((report.trajectories, texts.len()), (2, 4));
}

/// A session of Claude Code that goes on with an old one names both.
#[test]
fn a_resumed_session_is_one_run_and_mixed_sessions_are_two() {
    let line = |session: &str, uuid: &str, parent: &str| {
        let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
        let role = if uuid.ends_with(['1', '3']) { "user" } else { "assistant" };
        format!(
            r#"{{"type":"{role}","uuid":"{uuid}","parentUuid":{parent},"sessionId":"{session}","message":{{"role":"{role}","content":"said {uuid}"}}}}"#
        ) + "\n"
    };
    let old = [line("a", "a1", ""), line("a", "a2", "a1")];
    let (report, texts, _) = read(old.concat() + &line("b", "b3", "a2") + &line("b", "b4", "b3"));
    assert_eq!((report.trajectories, texts.len()), (1, 4));
    let other = [line("b", "b1", ""), line("b", "b2", "b1")];
    let (report, texts, _) = read([&old[0][..], &other[0], &old[1], &other[1]].concat());
    assert_eq!((report.trajectories, texts.join(" ")), (2, "said a1 said a2 said b1 said b2".to_owned()));
}

/// The records of a session may stand in a list, too.
#[test]
fn a_list_of_records_is_a_session() {
    for (log, said) in [
        (session(40), 40),
        (rollout(40), 40),
        (session(40) + &rollout(40), 80),
        (rollout(4) + &chats(30), 64),
    ] {
        let list = format!("[{}]", log.trim_end().replace('\n', ",\n"));
        let (report, texts, rejects) = read(&list);
        assert_eq!((texts.len(), rejects.len()), (said, 0), "{:?}", report.formats.keys());
    }
}

/// What stands behind a document over several lines is read as if it stood alone.
#[test]
fn a_log_behind_a_document_is_read() {
    let document = serde_json::to_string_pretty(&serde_json::json!({ "messages": [
        { "role": "user", "content": "Why?" }, { "role": "assistant", "content": "So." },
    ] }));
    let (report, texts, rejects) = read(document.unwrap() + "\n" + &session(40));
    assert_eq!((report.trajectories, texts.len(), rejects.len()), (2, 42, 0));
}

/// Each line as a string under a key.
fn in_strings(log: &str) -> String {
    log.lines()
        .map(|line| serde_json::json!({ "log": format!("{line}\n"), "stream": "stdout" }).to_string() + "\n")
        .collect()
}

#[test]
fn a_log_in_an_envelope_is_told() {
    let rollout = rollout(4).lines().collect::<Vec<_>>().join(",");
    for (text, told) in [
        (format!(r#"{{"ok":true,"data":{}}}"#, chats(1).trim()), "openai-chat at .\"data\""),
        (format!(r#"{{"result":[{}]}}"#, session(4).trim().replace('\n', ",")), "claude-code at .\"result\""),
        (format!(r#"{{"events":[{rollout}]}}"#), "codex at .\"events\""),
        // As Docker and others write what a program prints, and as exports of exports have it.
        (in_strings(&session(4)), "claude-code at .\"log\" | fromjson"),
        (
            format!(
                r#"{{"n":1}}
{}"#,
                in_strings(&session(4))
            ),
            "claude-code at .\"log\" | fromjson",
        ),
        (
            format!(r#"{{"run":{{"id":1,"body":{}}}}}"#, serde_json::json!(chats(1))),
            "openai-chat at .\"run\".\"body\" | fromjson",
        ),
        (
            format!(r#"{{"runs":[{{"n":1,"chat":{}}}]}}"#, chats(1).trim()),
            "openai-chat at .\"runs\"[].\"chat\"",
        ),
        (serde_json::json!(chats(1)).to_string(), "openai-chat at . | fromjson"),
    ] {
        let (_, texts, rejects) = read(&text);
        assert!(texts.is_empty(), "{text}");
        let reason = rejects[0]["reason"].as_str().unwrap();
        assert!(reason.starts_with(&format!("an envelope, which holds a log of {told}\nhint: ")), "{reason}");
    }
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

/// Of a document that lacks its end nearly all is read, and the place where it ends is told.
#[test]
fn a_document_without_its_end_is_read_up_to_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/robust/logs");
    let mut n = 0;
    for name in ["amp", "atif", "continue", "fireact", "hermes", "langfuse", "toolbench"] {
        let files = fs::read_dir(folder.join(name)).unwrap().map(|entry| entry.unwrap().path());
        let documents = files.filter(|path| path.extension().is_some_and(|ending| ending != "jsonl"));
        for path in documents {
            let text = fs::read(&path).unwrap();
            let text = text.trim_ascii_end();
            let (whole, said, rejects) = read(text);
            if whole.trajectories == 0 || said.len() < 4 || !rejects.is_empty() {
                continue;
            }
            n += 1;
            let (_, torn, rejects) = read(&text[..text.len() - 2]);
            assert!(2 * torn.len() >= said.len(), "{}: {} of {}", path.display(), torn.len(), said.len());
            assert!(!rejects.is_empty(), "{}", path.display());
        }
    }
    assert!(n >= 4, "{n} documents");
}

/// Of another log before a session in Markdown each record is told.
#[test]
fn records_before_a_session_in_markdown_are_told() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/robust/logs");
    for name in ["aider", "specstory"] {
        let path = fs::read_dir(folder.join(name)).unwrap().next().unwrap().unwrap().path();
        let dir = tempfile::tempdir().unwrap();
        let joined = dir.path().join("a.md");
        fs::write(&joined, session(6) + &fs::read_to_string(path).unwrap()).unwrap();
        let out = dir.path().join("data");
        let options = Options { inputs: vec![joined], out, mode: IngestMode::Fresh, ..Options::default() };
        let report = format!("{:?}", ingest(&options, &mut |_| {}).unwrap());
        assert!(report.contains("line of JSON before the first session"), "{name}: {report}");
    }
}
