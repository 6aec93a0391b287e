//! Mutated logs of each format: the files of `logs/`, databases and archives made of them here, and in the long form the
//! small ones of real logs. What stands in a line that the mutation did not touch is in the dataset.

use super::mutants::{Edit, moved, mutate};
use super::*;

use std::io::Write as _;

use trajpress::internals::store::StepRow;

/// Files of one format that are read together.
struct Sample {
    name: String,
    /// The reader of most of it.
    format: String,
    files: Vec<(PathBuf, Vec<u8>)>,
    marks: Vec<Mark>,
}

/// Words of a step that stand once in all files of a sample, in a line that is a record.
struct Mark {
    file: usize,
    line: Range<usize>,
    words: String,
    /// Ids that no other record has.
    ids: Vec<Id>,
}

/// The name of a field that holds an id, and that id.
type Id = (String, String);

/// The fewest bytes of words that tell a step.
const WORDS: usize = 20;
/// Marks of a sample at most.
const MOST_MARKS: usize = 300;
/// A real log is taken if it is not larger; a database may be.
const SMALL: usize = 150_000;
const SMALL_DATABASE: usize = 2_000_000;

impl Sample {
    fn new(name: &str, files: Vec<(PathBuf, Vec<u8>)>, place: &Place) -> Self {
        let mut sample = Sample { name: name.to_owned(), format: String::new(), files, marks: Vec::new() };
        sample.write(place, None);
        let (texts, is_told) = sample.read(place);
        let rows: Vec<TrajectoryRow> = store::read(&place.at("data/trajectories.parquet")).unwrap();
        sample.format = rows.into_iter().next().map_or_else(String::new, |row| row.format);
        assert!(!texts.is_empty(), "{name} is not read");
        assert!(!is_told, "{name} has rejects, or a file of it is not read");
        let lines: BTreeSet<&str> = texts.iter().flat_map(|text| text.lines()).map(str::trim).collect();
        let mut n_with: BTreeMap<Id, usize> = BTreeMap::new();
        for line in sample.files.iter().flat_map(|(_, bytes)| bytes.split(|b| *b == b'\n')) {
            ids(line).into_iter().for_each(|id| *n_with.entry(id).or_default() += 1);
        }
        sample.marks = lines.into_iter().filter_map(|words| sample.mark(words)).take(MOST_MARKS).collect();
        for mark in &mut sample.marks {
            let line = ids(&sample.files[mark.file].1[mark.line.clone()]);
            mark.ids = line.into_iter().filter(|id| n_with[id] == 1).collect();
        }
        sample
    }

    fn mark(&self, words: &str) -> Option<Mark> {
        let mut found =
            self.files.iter().enumerate().flat_map(|(file, (_, bytes))| {
                memchr::memmem::find_iter(bytes, words).map(move |at| (file, at))
            });
        let (file, at) = found.next().filter(|_| words.len() >= WORDS)?;
        let (path, bytes) = &self.files[file];
        let is_in_lines = path.extension().is_some_and(|ending| ending == "jsonl" || ending == "md");
        if found.next().is_some() || !is_in_lines {
            return None;
        }
        let start = bytes[..at].iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |n| at + n);
        Some(Mark { file, line: start..end, words: words.to_owned(), ids: Vec::new() })
    }

    /// Writes the files, one of them as it is given.
    fn write(&self, place: &Place, other: Option<(usize, &[u8])>) {
        let folder = place.at("sample");
        let _ = fs::remove_dir_all(&folder);
        for (i, (path, bytes)) in self.files.iter().enumerate() {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, other.filter(|(at, _)| *at == i).map_or(&bytes[..], |(_, other)| other)).unwrap();
        }
    }

    /// The texts of all steps, and whether anything is told to be unread: a record, or a file.
    fn read(&self, place: &Place) -> (Vec<String>, bool) {
        let options = Options {
            inputs: vec![place.at("sample")],
            out: place.at("data"),
            threads: 1,
            mode: IngestMode::Fresh,
            ..Options::default()
        };
        let report = ingest(&options, &mut |_| {}).unwrap();
        let rows: Vec<StepRow> = store::read(&place.at("data/steps.parquet")).unwrap();
        let unread = [&report.not_read, &report.no_logs, &report.unreadable, &report.without_runs];
        let is_told = report.rejects > 0 || unread.iter().any(|files| !files.is_empty());
        (rows.into_iter().map(|row| row.text).collect(), is_told)
    }

    /// Writes the files, one of them with other bytes, and says which marks for which `stays` holds are not read; none where
    /// nothing at all is read and nothing told.
    fn lost(
        &self,
        place: &Place,
        file: usize,
        bytes: &[u8],
        stays: impl Fn(&Mark) -> bool,
    ) -> Option<Vec<&Mark>> {
        self.write(place, Some((file, bytes)));
        let (texts, is_told) = self.read(place);
        let is_lost = |mark: &&Mark| stays(mark) && !texts.iter().any(|text| text.contains(&mark.words));
        (is_told || !texts.is_empty()).then(|| self.marks.iter().filter(is_lost).collect())
    }
}

/// The ids in the values with which a line begins, each once.
fn ids(line: &[u8]) -> BTreeSet<Id> {
    fn add(value: &serde_json::Value, ids: &mut BTreeSet<Id>) {
        match value {
            serde_json::Value::Array(items) => items.iter().for_each(|item| add(item, ids)),
            serde_json::Value::Object(fields) => {
                for (key, value) in fields {
                    match value.as_str().filter(|_| key.to_lowercase().ends_with("id")) {
                        Some(id) => drop(ids.insert((key.clone(), id.to_owned()))),
                        None => add(value, ids),
                    }
                }
            }
            _ => {}
        }
    }
    let mut ids = BTreeSet::new();
    let values = serde_json::Deserializer::from_slice(line).into_iter::<serde_json::Value>();
    values.map_while(Result::ok).for_each(|value| add(&value, &mut ids));
    ids
}

/// The ids of records that the log does not have: a repeated piece may make a whole one of the halves of two, which then is
/// another record under the id of one of them.
fn made_ids(log: &[u8], mutated: &[u8]) -> BTreeSet<Id> {
    let own: BTreeSet<&[u8]> = log.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).collect();
    let lines = mutated.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
    lines.filter(|line| !own.contains(line)).flat_map(ids).collect()
}

/// Whether a place is in a run still. Of a session of Aider in which neither a question nor a reply with its count of tokens is
/// left nothing is read: what the program says of itself is no run.
fn is_of_a_run(bytes: &[u8], at: usize) -> bool {
    const BEGIN: &[u8] = b"# aider chat started at";
    let before = memchr::memmem::rfind(&bytes[..at], BEGIN);
    let Some(start) = before else { return true };
    let rest = &bytes[start..];
    let end = memchr::memmem::find(&rest[BEGIN.len()..], BEGIN).map_or(rest.len(), |end| BEGIN.len() + end);
    let lines: Vec<&[u8]> =
        rest[..end].split(|b| *b == b'\n').skip(1).filter(|line| !line.trim_ascii().is_empty()).collect();
    let asks = |line: &[u8]| line.strip_prefix(b"####").is_some_and(|words| !words.trim_ascii().is_empty());
    let replies = |pair: &[&[u8]]| !pair[0].starts_with(b">") && pair[1].starts_with(b"> Tokens: ");
    lines.iter().any(|line| asks(line)) || lines.windows(2).any(replies)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn files_of(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths = walk(folder);
    paths.sort();
    paths.iter().map(|p| (p.strip_prefix(folder).unwrap().to_owned(), fs::read(p).unwrap())).collect()
}

/// A log of Inspect as an archive, whose samples are its members.
fn archive(json: &[u8]) -> Vec<u8> {
    let mut header: serde_json::Value = serde_json::from_slice(json).unwrap();
    let samples = header["samples"].take();
    header.as_object_mut().unwrap().remove("samples");
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let mut member = |name: String, value: &serde_json::Value| {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(value.to_string().as_bytes()).unwrap();
    };
    member("header.json".to_owned(), &header);
    for (i, sample) in samples.as_array().unwrap().iter().enumerate() {
        member(format!("samples/{i}_epoch_1.json"), sample);
    }
    zip.finish().unwrap().into_inner()
}

/// Sessions of opencode as its database, in rows of that many bytes of text more.
pub(super) fn database(path: &Path, n: usize, more: usize) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE session (id TEXT, directory TEXT, parent_id TEXT);
             CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
             CREATE TABLE part (id TEXT, session_id TEXT, message_id TEXT, data TEXT);
             INSERT INTO session VALUES ('s1', '/x/tool', NULL); BEGIN",
        )
        .unwrap();
    (0..n).for_each(|i| say(&connection, i, &"and on ".repeat(more / 7)));
    connection.execute_batch("COMMIT").unwrap();
    connection
}

/// One more message of the session.
pub(super) fn say(connection: &rusqlite::Connection, i: usize, more: &str) {
    let (role, text) = (["user", "assistant"][i % 2], format!("Message {i} of the session: {more}"));
    let data = serde_json::json!({ "type": "text", "text": text }).to_string();
    let role = serde_json::json!({ "role": role, "modelID": "m" }).to_string();
    connection
        .execute("INSERT INTO message VALUES (?1, 's1', ?2, ?3)", (format!("m{i:09}"), i as i64, role))
        .unwrap();
    let part = (format!("p{i:09}"), format!("m{i:09}"), data);
    connection.execute("INSERT INTO part VALUES (?1, 's1', ?2, ?3)", part).unwrap();
}

/// One sample a format of the project's own.
fn own_samples(place: &Place) -> Vec<Sample> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/robust/logs");
    let mut folders: Vec<PathBuf> = fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let mut samples: Vec<Sample> =
        folders.iter().map(|folder| Sample::new(&file_name(folder), files_of(folder), place)).collect();
    let zip = archive(&fs::read(own.join("inspect-json/a.json")).unwrap());
    samples.push(Sample::new("inspect-eval", vec![("a.eval".into(), zip)], place));
    drop(database(&place.at("a.db"), 20, 60));
    samples.push(Sample::new("opencode", vec![("a.db".into(), fs::read(place.at("a.db")).unwrap())], place));
    samples
}

/// Those, and in the long form real logs.
fn samples(place: &Place) -> Vec<Sample> {
    let mut samples = own_samples(place);
    let Some(real) = std::env::var_os("TRAJPRESS_LOGS").filter(|_| times(0, 1) > 0) else {
        return samples;
    };
    let real = PathBuf::from(real);
    let mut by_folder: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for path in [walk(&real), walk(&real.join("../formats"))].concat() {
        by_folder.entry(path.parent().unwrap().to_owned()).or_default().push(path);
    }
    for mut paths in by_folder.into_values() {
        paths.sort();
        let is_small = |path: &Path| {
            let is_database = path.extension().is_some_and(|ending| ending == "db");
            let most = if is_database { SMALL_DATABASE } else { SMALL };
            fs::metadata(path).unwrap().len() as usize <= most
        };
        let small = paths.iter().filter(|path| is_small(path));
        for path in small.take(6) {
            let name = file_name(path);
            let files = vec![(PathBuf::from(&name), fs::read(path).unwrap())];
            let sample = std::panic::catch_unwind(|| Sample::new(&name, files, place));
            samples.extend(sample.ok().filter(|sample| !sample.files[0].1.is_empty()));
        }
    }
    samples
}

/// A sample of which one file is mutated.
struct Mutant<'a> {
    sample: &'a Sample,
    file: usize,
    bytes: Vec<u8>,
    edits: Vec<Edit>,
    /// Ids of records that the mutation made.
    made: BTreeSet<Id>,
    /// Whether what is left of the file must tell its format: one line of several need not.
    is_told: bool,
}

/// What became of a mutant.
struct Told {
    n_untouched: usize,
    /// Untouched marks that are not read.
    lost: Vec<String>,
    is_silent: bool,
    took: Duration,
}

impl<'a> Mutant<'a> {
    fn of(sample: &'a Sample, rng: &mut ChaCha8Rng) -> Self {
        let file = rng.random_range(0..sample.files.len());
        let mut bytes = sample.files[file].1.clone();
        let edits = mutate(&mut bytes, rng);
        let (mut n_lines, mut n_whole, mut start) = (0, 0, 0);
        for line in sample.files[file].1.split_inclusive(|b| *b == b'\n') {
            let range = start..start + line.len();
            start = range.end;
            if !line.trim_ascii().is_empty() {
                n_lines += 1;
                n_whole += usize::from(moved(&range, &edits).is_some());
            }
        }
        let made = made_ids(&sample.files[file].1, &bytes);
        Mutant { sample, file, bytes, edits, made, is_told: n_whole > 1 || n_whole == n_lines }
    }

    fn stays(&self, mark: &Mark) -> bool {
        let is_left = || moved(&mark.line, &self.edits).is_some_and(|at| is_of_a_run(&self.bytes, at));
        let is_alone = mark.ids.iter().all(|id| !self.made.contains(id));
        is_alone && (mark.file != self.file || self.is_told && is_left())
    }

    fn told(&self, place: &Place, name: &str) -> Told {
        let start = Instant::now();
        let lost = self.sample.lost(place, self.file, &self.bytes, |mark| self.stays(mark));
        let took = start.elapsed();
        assert!(took < Duration::from_secs(60), "mutant {name} of {}", self.sample.name);
        let told = Told {
            n_untouched: self.sample.marks.iter().filter(|mark| self.stays(mark)).count(),
            is_silent: lost.is_none(),
            lost: lost.into_iter().flatten().map(|mark| mark.words.clone()).collect(),
            took,
        };
        if told.is_silent || !told.lost.is_empty() {
            keep(&format!("{name}-{}", self.sample.files[self.file].0.display()), &self.bytes);
        }
        told
    }
}

#[test]
fn mutated_logs_of_all_formats_keep_their_untouched_lines() {
    let place = Place::new();
    let samples = samples(&place);
    let n = times(4 * samples.len(), 4000);
    // Each thread makes all mutants and reads some of them.
    let results = in_threads(|thread, n_threads| {
        let place = Place::light();
        let mut rng = ChaCha8Rng::seed_from_u64(61);
        let (mut n_untouched, mut lost, mut silent, mut longest) =
            (0, Vec::new(), Vec::new(), Duration::ZERO);
        for i in 0..n {
            let mutant = Mutant::of(&samples[i % samples.len()], &mut rng);
            if i % n_threads != thread {
                continue;
            }
            let what = format!("{i} of {}", mutant.sample.name);
            let told = mutant.told(&place, &i.to_string());
            n_untouched += told.n_untouched;
            longest = longest.max(told.took);
            lost.extend(told.lost.iter().map(|words| format!("{what}: {words}")));
            silent.extend(told.is_silent.then_some(what));
        }
        (n_untouched, lost, silent, longest)
    });
    let n_untouched: usize = results.iter().map(|(n, ..)| n).sum();
    let lost: Vec<&String> = results.iter().flat_map(|(_, lost, ..)| lost).collect();
    let silent: Vec<&String> = results.iter().flat_map(|(_, _, silent, _)| silent).collect();
    let longest = results.iter().map(|(.., longest)| longest).max().unwrap();
    println!(
        "mutants of {} logs of all formats: {n}, of whose {n_untouched} untouched marks {} are lost, {} read nothing in silence; the longest took {longest:?}; peak memory {:.0} MB",
        samples.len(),
        lost.len(),
        silent.len(),
        own_peak()
    );
    assert!(lost.is_empty() && silent.is_empty(), "lost: {lost:#?}, silent: {silent:?}");
}

/// Each reader alone; in the long form half a minute each, and of all that was found a line each.
#[test]
fn each_reader_takes_mutants() {
    const SECONDS: u64 = 30;
    // Also where others keep the machine busy.
    const LEAST: usize = 200;
    let place = Place::new();
    let mut by_format: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
    for sample in samples(&place) {
        by_format.entry(sample.format.clone()).or_default().push(sample);
    }
    let formats: Vec<(String, Vec<Sample>)> = by_format.into_iter().collect();
    // One of them, with the same mutants as among all.
    let only = std::env::var("TRAJPRESS_READER").ok();
    let is_asked = |format: &str| only.as_deref().is_none_or(|only| only == format);
    let n_bad: usize = in_threads(|thread, n_threads| {
        let (place, mut n_bad) = (Place::light(), 0);
        let own = formats.iter().enumerate().filter(|(i, (format, _))| i % n_threads == thread && is_asked(format));
        for (seed, (format, samples)) in own {
            let (start, mut rng) = (Instant::now(), ChaCha8Rng::seed_from_u64(9000 + seed as u64));
            let (mut n, mut n_untouched, mut n_lost, mut n_silent) = (0, 0, 0, 0);
            let mut longest = Duration::ZERO;
            while n < times(6, LEAST) || times(0, 1) > 0 && start.elapsed() < Duration::from_secs(SECONDS) {
                let mutant = Mutant::of(&samples[n % samples.len()], &mut rng);
                let told = mutant.told(&place, &format!("{format}-{n}"));
                n += 1;
                n_untouched += told.n_untouched;
                n_lost += told.lost.len();
                n_silent += usize::from(told.is_silent);
                longest = longest.max(told.took);
            }
            println!(
                "reader {format}: {} logs, {n} mutants, {n_untouched} untouched marks, {n_lost} lost, {n_silent} silent, the longest {longest:?}, peak memory {:.0} MB",
                samples.len(),
                own_peak()
            );
            n_bad += n_lost + n_silent;
        }
        n_bad
    })
    .into_iter()
    .sum();
    assert_eq!(n_bad, 0);
}

/// Only what another record takes the id of may be gone.
#[test]
fn a_mutation_that_makes_a_record_takes_no_other_marks_away() {
    let lines = [
        r#"{"run_id":"a","by":"s","x":"1"}"#,
        r#"{"run_id":"b","by":"s","x":"2"}"#,
        r#"{"run_id":"c","by":"s"}"#,
    ];
    let log = lines.join("\n");
    let named = |ids: &[(&str, &str)]| -> BTreeSet<Id> {
        ids.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    // The halves of two lines once more.
    let piece = &log[20..52];
    let mutated = [&log[..20], piece, &log[20..]].concat();
    assert_eq!(made_ids(log.as_bytes(), mutated.as_bytes()), named(&[("run_id", "b")]));
    assert_eq!(made_ids(b"", br#"{"run_id":"d"}]}"#), named(&[("run_id", "d")]));
    assert!(made_ids(log.as_bytes(), log.as_bytes()).is_empty());
    assert!(made_ids(log.as_bytes(), &log.as_bytes()[10..]).is_empty());
}

/// What is done to a line: nothing is left of it, a stray byte stands before it, a byte of its first key is another one, or
/// its first half is gone.
fn damaged(line: &[u8], how: usize) -> Vec<u8> {
    let mut line = line.to_vec();
    match how {
        0 => line.clear(),
        1 => line.insert(0, b'"'),
        2 if line.len() > 2 => line[1] = b'&',
        3 if line.len() > 3 => line[3] ^= 2,
        _ => drop(line.drain(..line.len() / 2)),
    }
    line
}

/// The line that begins a session is one of many by which its format is told.
#[test]
fn a_log_is_told_by_the_lines_behind_its_first_ones() {
    let place = Place::light();
    let (mut n, mut lost) = (0, Vec::new());
    for sample in own_samples(&place) {
        let files: BTreeSet<usize> = sample.marks.iter().map(|mark| mark.file).collect();
        for (file, k, how) in
            files.iter().flat_map(|&file| (1..4).flat_map(move |k| (0..5).map(move |how| (file, k, how))))
        {
            let lines: Vec<&[u8]> = sample.files[file].1.split(|b| *b == b'\n').collect();
            let start = lines.iter().take(k).map(|line| line.len() + 1).sum::<usize>();
            if k > lines.len() / 2 {
                continue;
            }
            let begin = lines[..k].iter().map(|line| damaged(line, how)).collect::<Vec<_>>();
            let bytes = [begin.join(&b'\n'), sample.files[file].1[start - 1..].to_vec()].concat();
            n += 1;
            let what = format!("{k} lines of {}, damage {how}", sample.name);
            match sample.lost(&place, file, &bytes, |mark| mark.file != file || mark.line.start >= start) {
                Some(marks) => lost.extend(marks.iter().map(|mark| format!("{what}: {}", mark.words))),
                None => lost.push(what),
            }
        }
    }
    println!("logs whose first lines are damaged or gone: {n}, {} marks lost", lost.len());
    assert!(lost.is_empty(), "{lost:#?}");
}
