//! Faults of the machine that pass: what could not be read is read the next time, as if nothing had been.

use super::formats::{database, say};
use super::*;

use trajpress::internals::store::StepRow;

/// Logs of all formats, one of them packed, a database with its newest rows beside it, and a session that another one goes on
/// from.
fn logs(place: &Place) -> rusqlite::Connection {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/robust/logs");
    for path in walk(&own) {
        let to = place.at("logs").join(path.strip_prefix(&own).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(&path, to).unwrap();
    }
    let packed = zstd::encode_all((chat("packed") + "\n").as_bytes(), 1).unwrap();
    fs::write(place.at("logs/chat.jsonl.zst"), packed).unwrap();
    let line = |kind: &str, i: usize| {
        format!(
            r#"{{"type":"{kind}","uuid":"u{i}","sessionId":"s","message":{{"role":"{kind}","content":"message {i}"}}}}"#
        ) + "\n"
    };
    let session = |n| (0..n).map(|i| line(["user", "assistant"][i % 2], i)).collect::<String>();
    fs::write(place.at("logs/session-a.jsonl"), session(4)).unwrap();
    fs::write(place.at("logs/session-b.jsonl"), session(6)).unwrap();
    let connection = database(&place.at("logs/a.db"), 20, 60);
    connection.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    say(&connection, 20, "in the log beside it");
    connection
}

/// What is in a dataset, whatever was read first.
fn content(place: &Place, data: &str) -> (Vec<(String, String)>, serde_json::Value) {
    let steps: Vec<StepRow> = store::read(&place.at(data).join("steps.parquet")).unwrap();
    let mut said: Vec<_> = steps.into_iter().map(|step| (step.trajectory.to_string(), step.text)).collect();
    said.sort();
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(place.at(data).join("ingest.json")).unwrap()).unwrap();
    let counts = ["files", "trajectories", "steps", "rejects", "formats"].map(|key| record[key].clone());
    (said, counts.into_iter().collect())
}

#[test]
fn what_the_machine_could_not_read_is_read_the_next_time() {
    let place = Place::new();
    let _open = logs(&place);
    let ingest = |data: &str, most_files: Option<usize>| {
        let limit = most_files.map_or(String::new(), |n| format!("ulimit -n {n};"));
        let mut command = Command::new("sh");
        command.args([
            "-c",
            &format!("{limit} exec \"$@\""),
            "sh",
            env!("CARGO_BIN_EXE_trajpress"),
            "ingest",
        ]);
        command.arg(place.at("logs")).arg("--out").arg(place.at(data)).args(["--threads", "2"]);
        command.output().unwrap()
    };
    ingest("sound", None);
    let sound = content(&place, "sound");
    let mut n_partly = 0;
    for most in 6..6 + times(14, 30) {
        let data = format!("data{most}");
        let first = ingest(&data, Some(most));
        assert!(!stderr(&first).contains("panicked"), "{most}: {}", stderr(&first));
        let is_there = place.at(&data).join("ingest.json").exists();
        n_partly += usize::from(is_there && content(&place, &data) != sound);
        let second = ingest(&data, None);
        let now = content(&place, &data);
        assert!(now.0 == sound.0, "{most}: {}\n{}", stderr(&first), stderr(&second));
        assert_eq!(now.1, sound.1, "{most}");
    }
    println!("open files limited: {n_partly} datasets with less in them, all of them whole the next time");
    assert!(n_partly > 2);
}
