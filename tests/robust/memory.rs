//! What is too large: peak memory under a limit, and what is told.

use std::io::Write as _;

use super::*;

/// The first line, or item, is too long: the rest tells what the file is.
#[test]
fn a_first_record_that_is_too_long_costs_itself_alone() {
    let place = Place::new();
    let logs = place.at("logs");
    fs::create_dir(&logs).unwrap();
    let long = chat(&"x".repeat(20 << 20));
    let rest: Vec<String> = (0..5).map(|i| chat(&format!("q{i}"))).collect();
    for (text, n, line) in [
        (format!("{long}\n{}\n", rest.join("\n")), 1, Some(1)),
        (format!("\n{long}\n{long}\n{}", rest.join("\n")), 2, Some(2)),
        (format!("[{long},\n{}]", rest.join(",\n")), 1, None),
    ] {
        let place_of_long = text.find('{').unwrap() as u64;
        fs::write(logs.join("a.jsonl"), text).unwrap();
        let mut command = program();
        command.arg("ingest").arg(&logs).arg("--out").arg(place.at("data"));
        // An eighth of it is 8 MB.
        let output = command.args(["--max-memory", &(64 << 20).to_string()]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let rows: Vec<TrajectoryRow> = store::read(&place.at("data/trajectories.parquet")).unwrap();
        assert_eq!(rows.len(), 5);
        let rejects = fs::read_to_string(place.at("data/rejects.jsonl")).unwrap();
        let rejects: Vec<serde_json::Value> =
            rejects.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rejects.len(), n);
        assert_eq!(
            (rejects[0]["line"].as_u64(), rejects[0]["byte_offset"].as_u64()),
            (line, Some(place_of_long))
        );
        assert!(rejects[0]["reason"].as_str().unwrap().contains(" of 20.00 MiB, too long"), "{}", rejects[0]);
    }
}

/// A document that is small as stored, a line that is too long, and good ones beside them.
#[cfg(target_os = "linux")]
#[test]
fn what_is_too_large_is_a_reject_and_the_rest_is_read() {
    let place = Place::new();
    let logs = place.at("logs");
    fs::create_dir(&logs).unwrap();
    let mb = times(1, 8) << 20;
    let write = |name: &str, text: &str| fs::write(logs.join(name), text).unwrap();
    let packed = |name: &str, text: &str| {
        fs::write(logs.join(name), zstd::encode_all(text.as_bytes(), 3).unwrap()).unwrap();
    };
    // Unpacked 300 times the least memory; beside it one that fits.
    packed("a-bomb.json.zst", &chat(&"a".repeat(300 * mb)));
    packed("b-fits.json.zst", &chat("b"));
    let long = chat(&"c".repeat(40 * mb));
    write("c-lines.jsonl", &format!("{}\n{long}\n{}\n", chat("first"), chat("last")));
    write("d.json", &chat("d"));
    let ingest = |more: &[&str]| {
        let mut command = program();
        command
            .arg("ingest")
            .arg(&logs)
            .arg("--out")
            .arg(place.at("data"))
            .args(["--threads", "2"])
            .args(more);
        let (output, peak) = with_peak(command);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let rejects = fs::read_to_string(place.at("data/rejects.jsonl")).unwrap();
        let rejects: Vec<serde_json::Value> =
            rejects.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let report: serde_json::Value =
            serde_json::from_slice(&fs::read(place.at("data/ingest.json")).unwrap()).unwrap();
        (rejects, report["trajectories"].as_u64().unwrap(), peak)
    };
    // An eighth of the memory is 16 MB: too little for the document and for the line.
    let memory = format!("{}", 8 * 16 * mb);
    // The long form's bomb is over the 2 GiB of a file that are read if nothing else is said.
    let (rejects, n, peak) = ingest(&["--max-memory", &memory, "--max-file", "4GiB"]);
    let reasons: Vec<&str> = rejects.iter().map(|reject| reject["reason"].as_str().unwrap()).collect();
    assert_eq!((rejects.len(), n), (2, 4), "{reasons:?}");
    assert!(
        reasons[0]
            .starts_with(&format!("cannot read on: more than {}.00 MiB in one document", 16 * mb >> 20))
    );
    assert!(reasons[1].starts_with(&format!("a line of {}.00 MiB, too long", 40 * mb >> 20)), "{reasons:?}");
    assert_eq!(
        (&rejects[1]["line"], &rejects[1]["byte_offset"]),
        (&2.into(), &(chat("first").len() + 1).into())
    );
    let allowed = (8 * 16 * mb) as f64 / 1048576.0;
    assert!(peak < allowed, "{peak} MB of {allowed}");
    println!(
        "a bomb of {} MB and a line of {} MB: {peak:.0} MB of {allowed:.0} allowed",
        300 * mb >> 20,
        40 * mb >> 20
    );
    // The bomb is over the limit of a file, the line is not.
    let (rejects, n, peak) =
        ingest(&["--max-file", &format!("{}", 100 * mb), "--max-memory", &format!("{}", 8 * 200 * mb)]);
    assert_eq!((rejects.len(), n), (1, 5));
    let reason = rejects[0]["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("more than {}.00 MiB unpacked (", 100 * mb >> 20)), "{reason}");
    println!("the line of {} MB is read: {peak:.0} MB", 40 * mb >> 20);
}

/// Memory goes by messages, too: a record of many small ones is a reject with its size, and the rest is read.
#[cfg(target_os = "linux")]
#[test]
fn many_small_messages_are_a_reject_and_the_rest_is_read() {
    let place = Place::new();
    let logs = place.at("logs");
    fs::create_dir(&logs).unwrap();
    // Few bytes for an eighth of the memory, but more than an object per kB of it.
    let (n, memory) = (200_000, 128 << 20);
    let messages = vec![r#"{"role":"user","content":"x"}"#; n].join(",");
    let many = format!(r#"{{"messages":[{messages}]}}"#);
    fs::write(logs.join("a.jsonl"), format!("{}\n{many}\n{}\n", chat("first"), chat("last"))).unwrap();
    fs::write(logs.join("b.json"), chat("b")).unwrap();
    let mut command = program();
    command.arg("ingest").arg(&logs).arg("--out").arg(place.at("data")).args(["--threads", "2"]);
    command.args(["--max-memory", &memory.to_string()]);
    let (output, peak) = with_peak(command);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let rejects = fs::read_to_string(place.at("data/rejects.jsonl")).unwrap();
    let told = format!("{} bytes with {} objects in one document", many.len(), n + 1);
    assert!(rejects.lines().count() == 1 && rejects.contains(&told), "{rejects}");
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(place.at("data/ingest.json")).unwrap()).unwrap();
    assert_eq!(report["trajectories"], 3);
    println!("{n} small messages in one record: {peak:.0} MB of {} allowed", memory >> 20);
    assert!(peak < (memory >> 20) as f64, "{peak} MB");
}

/// One run of many short messages: no stage holds its rows more than once.
#[cfg(target_os = "linux")]
#[test]
fn one_run_of_many_messages_takes_memory_by_its_steps() {
    let place = Place::new();
    let logs = place.at("logs");
    fs::create_dir(&logs).unwrap();
    let n = times(100_000, 1_000_000);
    let pair = |i: usize| {
        let user = format!(r#"{{"role":"user","content":"And the next one, number {i}?"}}"#);
        format!(r#"{user},{{"role":"assistant","content":"Ship {i} lies at quay {i} now."}}"#)
    };
    let messages = (0..n / 2).map(pair).collect::<Vec<_>>().join(",");
    fs::write(logs.join("a.json"), format!(r#"{{"messages":[{messages}]}}"#)).unwrap();
    let peak = |args: &[&str], paths: &[PathBuf]| {
        let mut command = program();
        command.args(args).args(paths);
        let (output, peak) = with_peak(command);
        assert!(output.status.success(), "{}", stderr(&output));
        peak
    };
    let data = place.at("data");
    let out = format!("--out={}", data.display());
    let ingest = peak(&["ingest", "--threads", "2", &out], &[logs]);
    let annotate = peak(&["annotate", "--threads", "2"], std::slice::from_ref(&data));
    let experiment = EXPERIMENT.replace("[[strategies]]\nname = \"truncate\"\n", "");
    fs::write(place.at("mask.toml"), experiment).unwrap();
    let (data, out) = (format!("--data={}", data.display()), format!("--out={}", place.at("run").display()));
    let run = peak(&["run", "--quiet", "--threads", "1", &data, &out], &[place.at("mask.toml")]);
    println!("one run of {n} messages: ingest {ingest:.0} MB, annotate {annotate:.0} MB, run {run:.0} MB");
    // Beside its steps each stage has the program and batches that do not grow, annotate a tokenizer, too.
    let allowed = |fixed: usize| (fixed + 400 * n / 1_000_000) as f64;
    assert!(run < (120 + 600 * n / 1_000_000) as f64, "{run} MB");
    assert!(ingest < allowed(100), "{ingest} MB");
    assert!(annotate < allowed(160), "{annotate} MB");
}

/// Many large lines and threads: they are read one after the other, and come out in their order.
#[cfg(target_os = "linux")]
#[test]
fn large_lines_take_turns() {
    let place = Place::new();
    let logs = place.at("logs");
    fs::create_dir(&logs).unwrap();
    let (size, n) = (times(6, 100) << 20, times(8, 13));
    for file in ["a", "b"] {
        let mut lines = fs::File::create(logs.join(format!("{file}.jsonl"))).unwrap();
        for i in 0..n {
            writeln!(lines, "{}", chat(&format!("{file}{i}{}", "x".repeat(size)))).unwrap();
        }
    }
    for i in 0..20 {
        fs::write(logs.join(format!("c{i:02}.json")), chat(&format!("c{i}"))).unwrap();
    }
    // What 8 threads need whatever they are allowed: 18 batches of 4 MB in flight, each several times over.
    let memory = (16 * size).max(384 << 20);
    let table = |name: &str, threads: &str| {
        let mut command = program();
        command.arg("ingest").arg(&logs).arg("--out").arg(place.at(name)).args(["--threads", threads]);
        command.args(["--max-memory", &memory.to_string()]);
        let (output, peak) = with_peak(command);
        assert!(output.status.success(), "{}", stderr(&output));
        (fs::read(place.at(name).join("steps.parquet")).unwrap(), peak)
    };
    let (one, _) = table("one", "1");
    let (eight, peak) = table("eight", "8");
    assert!(one == eight);
    let allowed = memory as f64 / 1048576.0;
    println!("{} lines of {} MB with 8 threads: {peak:.0} MB of {allowed:.0} allowed", 2 * n, size >> 20);
    assert!(peak < allowed, "{peak} MB of {allowed}");
}
