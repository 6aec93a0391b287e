//! Mutated logs, lists of runs in all ways to write them, and records beside torn and stray ones.

use super::*;

/// A log, and where its records stand, with their names; none of a log that is one record.
struct Log {
    name: String,
    bytes: Vec<u8>,
    records: Vec<(Range<usize>, String)>,
}

/// Logs of all formats with a reader, and lists of runs in all ways to write them.
fn logs_of_all_kinds() -> Vec<Log> {
    let mut logs: Vec<Log> = some_logs(12)
        .into_iter()
        .filter(|path| !path.ends_with("chat-runs.jsonl"))
        .map(|path| Log {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            bytes: fs::read(&path).unwrap(),
            records: Vec::new(),
        })
        .collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/golden");
    let text = fs::read_to_string(folder.join("support.jsonl")).unwrap();
    let annotated: Vec<&str> = text.lines().take(8).collect();
    let plain = |i: usize| {
        let messages = (0..30).map(|j| {
            let role = ["user", "assistant"][j % 2];
            format!(r#"{{"role":"{role}","content":"{i} [{j}] \"}},{{ {}"}}"#, "word ".repeat(j))
        });
        let messages: Vec<String> = messages.collect();
        format!(r#"{{"task_id":"run-{i}","messages":[{}]}}"#, messages.join(","))
    };
    let simulation = |i: usize| plain(i).replace("\"task_id\":\"", "\"id\":\"x\",\"task_id\":\"");
    let scored = |i: usize| plain(i).replace("\"messages\"", "\"reward\":1.0,\"traj\"");
    let chats: Vec<String> = (0..8).map(plain).collect();
    let annotated: Vec<String> = annotated.into_iter().map(str::to_owned).collect();
    let simulations: Vec<String> = (0..8).map(simulation).collect();
    let scored: Vec<String> = (0..8).map(scored).collect();
    let shared = r#"{"info":{"environment_info":{"policy":"P"}},"tasks":[],"simulations":["#;
    for (name, before, items, between, after) in [
        ("lines.jsonl", "", &chats, "\n", "\n"),
        ("annotated.jsonl", "", &annotated, "\n", "\n"),
        ("list.json", "[", &chats, ",", "]"),
        ("list-lines.json", "[\n", &annotated, ",\n", "\n]\n"),
        ("tau.json", "[", &scored, ", ", "]"),
        ("tau2.json", shared, &simulations, ",", "]}"),
    ] {
        let mut text = before.to_owned();
        let mut records = Vec::new();
        for (i, item) in items.iter().enumerate() {
            text += if i > 0 { between } else { "" };
            let value: serde_json::Value = serde_json::from_str(item).unwrap();
            records
                .push((text.len()..text.len() + item.len(), value["task_id"].as_str().unwrap().to_owned()));
            text += item;
        }
        logs.push(Log { name: name.to_owned(), bytes: (text + after).into_bytes(), records });
    }
    logs
}

/// Records that a mutation did not touch are in the dataset, and nothing hangs or panics.
#[test]
fn mutated_logs_lose_only_what_was_touched() {
    let logs = logs_of_all_kinds();
    let n = times(120, 4000);
    // Each thread makes all mutants and reads some of them.
    let results = in_threads(|thread, n_threads| {
        let place = Place::light();
        let mut rng = ChaCha8Rng::seed_from_u64(506);
        let (mut n_untouched, mut lost, mut longest) = (0, Vec::new(), Duration::ZERO);
        for i in 0..n {
            let log = &logs[i % logs.len()];
            let mut bytes = log.bytes.clone();
            let edits = mutate(&mut bytes, &mut rng);
            if i % n_threads != thread {
                continue;
            }
            let start = Instant::now();
            let (names, _) = read_log(&place, &bytes);
            longest = longest.max(start.elapsed());
            assert!(start.elapsed() < Duration::from_secs(60), "mutant {i} of {}", log.name);
            let untouched = log.records.iter().filter(|(range, _)| moved(range, &edits).is_some());
            n_untouched += untouched.clone().count();
            let not_read = untouched.filter(|(_, name)| !names.contains(name));
            let before = lost.len();
            lost.extend(not_read.map(|(_, name)| format!("{i} {name} of {}", log.name)));
            if lost.len() > before {
                keep(&format!("{i}-{}", log.name), &bytes);
            }
        }
        (n_untouched, lost, longest)
    });
    let n_untouched: usize = results.iter().map(|(n, ..)| n).sum();
    let lost: Vec<&String> = results.iter().flat_map(|(_, lost, _)| lost).collect();
    let longest = results.iter().map(|(.., longest)| longest).max().unwrap();
    println!(
        "mutants: {n}, of whose {n_untouched} untouched records {} are lost; the longest took {longest:?}; peak memory {:.0} MB",
        lost.len(),
        own_peak()
    );
    assert!(lost.is_empty(), "{lost:?}");
}

/// What is in a dataset of one log: the names, and whether something is told as rejected.
fn read_log(place: &Place, bytes: &[u8]) -> (BTreeSet<String>, bool) {
    let input = place.at("log");
    fs::write(&input, bytes).unwrap();
    let options = Options {
        inputs: vec![input],
        out: place.at("data"),
        threads: 1,
        mode: IngestMode::Fresh,
        ..Options::default()
    };
    let report = ingest(&options, &mut |_| {}).unwrap();
    let rows: Vec<TrajectoryRow> = store::read(&place.at("data/trajectories.parquet")).unwrap();
    let names = rows.into_iter().filter_map(|row| row.task_id);
    (names.map(|name| name.trim_start_matches("task-").to_owned()).collect(), report.rejects > 0)
}

/// A log with something torn or stray in it, and what is still whole.
struct Torn {
    bytes: Vec<u8>,
    records: Vec<(Range<usize>, String)>,
    /// What is torn has to be told.
    is_told: bool,
    what: String,
}

/// A log with strays around it, and marks before its lines.
fn with_strays(log: &Log, check: &mut dyn FnMut(Torn)) {
    let (name, records) = (&log.name, &log.records);
    let mut check = |bytes: Vec<u8>, what: String| {
        check(Torn { bytes, records: records.clone(), is_told: false, what });
    };
    let strays =
        ["{}\n", "[]\n", "null\n", "\"text\"\n", "17 ", "{}", " \n\t\n", "{\"a\":1}\n", "\u{1e}", "\u{a0}"];
    for stray in strays {
        check([stray.as_bytes(), &log.bytes].concat(), format!("{stray:?} before {name}"));
        check([&log.bytes, stray.as_bytes()].concat(), format!("{stray:?} after {name}"));
    }
    if name.ends_with(".jsonl") {
        for mark in ["\u{1e}", "data: ", "\u{a0}", "\u{2028}", "\u{feff}", "event: e\ndata:"] {
            let line = |(range, _): &(Range<usize>, String)| {
                [mark.as_bytes(), &log.bytes[range.clone()], b"\n"].concat()
            };
            check(records.iter().flat_map(line).collect(), format!("{mark:?} in {name}"));
        }
    }
}

/// What is left of a cut line, alone and with the next line behind it.
fn with_torn_lines(log: &Log, rng: &mut ChaCha8Rng, check: &mut dyn FnMut(Torn)) {
    let (name, records) = (&log.name, &log.records);
    for _ in 0..times(20, 2000) {
        let i = rng.random_range(0..records.len() - 1);
        let line = &log.bytes[records[i].0.clone()];
        let at = rng.random_range(1..line.len());
        for (end, cut) in [("tail", &line[..at]), ("head", &line[at..])] {
            for glue in [&b"\n"[..], b""] {
                let bytes = [&log.bytes[..records[i].0.start], cut, glue, &log.bytes[records[i].0.end + 1..]]
                    .concat();
                let records = [&records[..i], &records[i + 1..]].concat();
                let what = format!("{i} of {name}, its {end} cut at {at}, {glue:?}");
                check(Torn { bytes, records, is_told: true, what });
            }
        }
    }
}

/// A writer dies in a line and the next one goes on in it; a file loses its beginning; tools put marks before lines, and
/// other values around a log. What is whole is read, and what is not is told.
#[test]
fn records_beside_torn_and_stray_ones_are_read() {
    let logs: Vec<Log> = logs_of_all_kinds().into_iter().filter(|log| !log.records.is_empty()).collect();
    let results = in_threads(|thread, n_threads| {
        let place = Place::light();
        let mut rng = ChaCha8Rng::seed_from_u64(78);
        let (mut n, mut n_read, mut lost, mut silent) = (0, 0, Vec::new(), Vec::new());
        let mut check = |torn: Torn| {
            n += 1;
            if n % n_threads != thread {
                return;
            }
            let (names, is_told) = read_log(&place, &torn.bytes);
            n_read += torn.records.len();
            let not_read = torn.records.iter().filter(|(_, name)| !names.contains(name));
            lost.extend(not_read.map(|(_, name)| format!("{name}: {}", torn.what)));
            if torn.is_told && !is_told {
                silent.push(torn.what);
            }
        };
        for log in &logs {
            with_strays(log, &mut check);
            if log.name.ends_with(".jsonl") {
                with_torn_lines(log, &mut rng, &mut check);
            }
        }
        (n_read, lost, silent)
    });
    let n_read: usize = results.iter().map(|(n, ..)| n).sum();
    let lost: Vec<&String> = results.iter().flat_map(|(_, lost, _)| lost).collect();
    let silent: Vec<&String> = results.iter().flat_map(|(.., silent)| silent).collect();
    println!(
        "records beside torn and stray ones: {n_read}, lost {}, torn in silence {}",
        lost.len(),
        silent.len()
    );
    assert!(lost.is_empty() && silent.is_empty(), "lost: {lost:?}, silent: {silent:?}");
}

/// What was done to a text: what it was done to, and by how many bytes longer that became.
pub(super) type Edit = (Range<usize>, isize);

/// Where a range is after edits; none if one of them touched it.
pub(super) fn moved(range: &Range<usize>, edits: &[Edit]) -> Option<usize> {
    let mut start = range.start as isize;
    for (edit, growth) in edits {
        // What is put in between two bytes touches neither.
        let is_touched = match edit.is_empty() {
            true => range.start < edit.start && edit.start < range.end,
            false => edit.start < range.end && range.start < edit.end,
        };
        if is_touched {
            return None;
        }
        if edit.end <= range.start {
            start += growth;
        }
    }
    Some(start as usize)
}

/// Cuts, flips, repeats, swaps or inserts.
pub(super) fn mutate(bytes: &mut Vec<u8>, rng: &mut ChaCha8Rng) -> Vec<Edit> {
    let at = rng.random_range(0..bytes.len().max(1));
    match rng.random_range(0..6) {
        0 => {
            let end = bytes.len();
            bytes.truncate(at);
            vec![(at..end, 0)]
        }
        1 => {
            bytes[at] ^= 1 << rng.random_range(0..8);
            vec![(at..at + 1, 0)]
        }
        2 => {
            let end = (at + rng.random_range(1..400)).min(bytes.len());
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
            vec![(at..at, (end - at) as isize)]
        }
        3 => {
            let end = (at + rng.random_range(1..4000)).min(bytes.len());
            bytes.drain(at..end);
            vec![(at..end, at as isize - end as isize)]
        }
        4 => {
            let piece: &[u8] = [
                &b"\xef\xbb\xbf"[..],
                b"{",
                b"[",
                b"}",
                b"\"",
                b"\n\n",
                b"\0",
                b"]}",
                b"1e999",
                b"\"\\ud800\"",
            ][rng.random_range(0..10)];
            // Also at the very beginning, which tells the format.
            let at = if rng.random_bool(0.2) { 0 } else { at };
            bytes.splice(at..at, piece.iter().copied());
            vec![(at..at, piece.len() as isize)]
        }
        _ => (0..20)
            .map(|_| {
                let at = rng.random_range(0..bytes.len());
                bytes[at] = rng.random();
                (at..at + 1, 0)
            })
            .collect(),
    }
}
