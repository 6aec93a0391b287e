//! Ingest of JSON lines: the whole of it, reading alone, and the same bytes parsed as loose JSON.

use std::io::Write as _;
use std::path::PathBuf;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use trajpress::ingest::{Options, ingest, read_only};

fn main() {
    divan::main();
}

/// A file of chat runs of about 16 MB, made once.
fn log() -> (tempfile::TempDir, PathBuf, u64) {
    let dir = tempfile::tempdir().expect("a folder for the log");
    let path = dir.path().join("runs.jsonl");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).expect("a file for the log"));
    for run in 0..160 {
        let mut messages = vec![
            serde_json::json!({"role": "system", "content": "You mend programs."}),
            serde_json::json!({"role": "user", "content": format!("Task {run}: find out why the job fails.")}),
        ];
        for turn in 0..40 {
            let id = format!("call_{turn}");
            messages.push(serde_json::json!({"role": "assistant", "content": "I look at the file again.", "tool_calls": [
                {"id": id, "type": "function", "function": {"name": "bash", "arguments": format!("{{\"command\":\"cat src/part{turn}.py\"}}")}}]}));
            let text =
                format!("    value_{turn} = compute_total(order, limit={run})  # \"quoted\" and\ttabbed\n")
                    .repeat(34);
            messages.push(serde_json::json!({"role": "tool", "tool_call_id": id, "content": text}));
        }
        writeln!(file, "{}", serde_json::json!({"task_id": format!("t-{run}"), "messages": messages}))
            .expect("room for the log");
    }
    file.flush().expect("room for the log");
    let bytes = std::fs::metadata(&path).expect("the log").len();
    (dir, path, bytes)
}

fn options(path: &std::path::Path, out: &std::path::Path) -> Options {
    Options { inputs: vec![path.to_path_buf()], out: out.join("data"), format: None, threads: 1 }
}

#[divan::bench(sample_count = 10)]
fn ingest_one_thread(bencher: Bencher<'_, '_>) {
    let (dir, path, bytes) = log();
    let options = options(&path, dir.path());
    bencher
        .counter(BytesCount::new(bytes))
        .bench_local(|| black_box(ingest(&options, &mut |_| {}).expect("ingested")));
}

#[divan::bench(sample_count = 10)]
fn reference_read_and_throw_away(bencher: Bencher<'_, '_>) {
    let (dir, path, bytes) = log();
    let options = options(&path, dir.path());
    bencher.counter(BytesCount::new(bytes)).bench_local(|| black_box(read_only(&options).expect("read")));
}

#[divan::bench(sample_count = 10)]
fn reference_loose_json(bencher: Bencher<'_, '_>) {
    let (_dir, path, bytes) = log();
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        let text = std::fs::read(&path).expect("the log");
        for line in text.split(|&b| b == b'\n').filter(|l| !l.is_empty()) {
            black_box(serde_json::from_slice::<serde_json::Value>(line).expect("JSON"));
        }
    });
}
