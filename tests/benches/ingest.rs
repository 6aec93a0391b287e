//! Ingest of JSON lines: the whole of it, reading alone, and the same bytes parsed as loose JSON; of real logs, where
//! `TRAJPRESS_LOGS` says where they are, beside a script with `json` and pyarrow (`ingest_reference.py`, one thread too).

use std::io::Write as _;
use std::path::PathBuf;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use trajpress::internals::logs::read_only;
use trajpress::{IngestMode, IngestOptions as Options, Limits, ingest};

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
    Options {
        inputs: vec![path.to_path_buf()],
        out: out.join("data"),
        format: None,
        threads: 1,
        limits: Limits::default(),
        mode: IngestMode::Fresh,
        ..Options::default()
    }
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

/// The folders of real logs that the script reads, too.
fn real_logs() -> Vec<PathBuf> {
    let Some(logs) = std::env::var_os("TRAJPRESS_LOGS").map(PathBuf::from) else {
        eprintln!("SKIPPED: TRAJPRESS_LOGS names no folder of real logs");
        return Vec::new();
    };
    let kinds = ["sweagent", "mini-swe-agent", "claude-code"];
    let is_ours = |name: &str| kinds.iter().any(|kind| name.starts_with(kind));
    let entries = std::fs::read_dir(&logs).expect("the folder of real logs");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.file_name().and_then(|n| n.to_str()).is_some_and(is_ours)).collect()
}

#[divan::bench(sample_count = 5)]
fn ingest_real_logs(bencher: Bencher<'_, '_>) {
    let (dir, inputs) = (tempfile::tempdir().expect("a folder"), real_logs());
    let options = Options {
        inputs,
        out: dir.path().join("data"),
        format: None,
        threads: 1,
        mode: IngestMode::Fresh,
        ..Options::default()
    };
    if !options.inputs.is_empty() {
        bencher.bench_local(|| black_box(ingest(&options, &mut |_| {}).expect("ingested")));
    }
}

/// Starting Python and loading pyarrow, about 0.4 s, is part of it.
#[divan::bench(sample_count = 5)]
fn reference_python_real_logs(bencher: Bencher<'_, '_>) {
    let (dir, inputs) = (tempfile::tempdir().expect("a folder"), real_logs());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/benches/ingest_reference.py");
    let python = std::env::var("TRAJPRESS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let run = || {
        let mut command = std::process::Command::new(&python);
        command.arg(script).arg(dir.path()).args(&inputs).env("OMP_NUM_THREADS", "1").output()
    };
    match run() {
        _ if inputs.is_empty() => {}
        Ok(output) if output.status.success() => {
            bencher.bench_local(|| black_box(run().expect("it ran before")))
        }
        _ => eprintln!("SKIPPED: {python} has no pyarrow (TRAJPRESS_PYTHON names one that has)"),
    }
}
