//! A dataset that is added to: the same rows as of all logs at once, whatever came when; what is known is not read again, what is
//! gone stays, and what has grown takes the place of what it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use trajpress::internals::store::{self, FeatureRow, StepRow, TrajectoryRow, UsageRow};
use trajpress::{Filter, IngestMode, IngestOptions as Options, Ingested as Report, annotate, ingest};

mod damage;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        fs::create_dir(place.at("logs")).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.at("logs").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.at("logs").join(name)).unwrap();
    }

    fn options(&self, out: &str) -> Options {
        Options { inputs: vec![self.at("logs")], out: self.at(out), threads: 2, ..Options::default() }
    }

    fn ingest(&self, out: &str) -> Report {
        ingest(&self.options(out), &mut |_| {}).unwrap()
    }

    fn rows(&self, out: &str) -> (Vec<TrajectoryRow>, Vec<StepRow>) {
        let read = |name: &str| self.at(out).join(name);
        let mut trajectories: Vec<TrajectoryRow> = store::read(&read("trajectories.parquet")).unwrap();
        let mut steps: Vec<StepRow> = store::read(&read("steps.parquet")).unwrap();
        let in_order =
            |ids: Vec<&str>| ids.chunk_by(|a, b| a == b).map(|c| c[0].to_owned()).collect::<Vec<_>>();
        let order = in_order(steps.iter().map(|row| &*row.trajectory).collect());
        assert_eq!(in_order(trajectories.iter().map(|row| &*row.trajectory).collect()), order, "one order");
        trajectories.sort_by(|a, b| a.trajectory.cmp(&b.trajectory));
        steps.sort_by(|a, b| (&a.trajectory, a.step).cmp(&(&b.trajectory, b.step)));
        (trajectories, steps)
    }

    fn record(&self, out: &str) -> Value {
        serde_json::from_slice(&fs::read(self.at(out).join("ingest.json")).unwrap()).unwrap()
    }
}

/// A session of some questions and answers; all sessions of an origin begin alike.
fn session(id: &str, origin: &str, texts: &[String]) -> String {
    let mut text = String::new();
    let mut parent = "null".to_owned();
    for (i, said) in texts.iter().enumerate() {
        let (q, a) = (format!("{origin}-q{i}"), format!("{origin}-a{i}"));
        text += &format!(
            "{{\"type\":\"user\",\"uuid\":\"{q}\",\"parentUuid\":{parent},\"sessionId\":\"{id}\",\"message\":{{\"role\":\"user\",\"content\":\"{said}\"}}}}\n"
        );
        text += &format!(
            "{{\"type\":\"assistant\",\"uuid\":\"{a}\",\"parentUuid\":\"{q}\",\"sessionId\":\"{id}\",\"message\":{{\"id\":\"{origin}-m{i}\",\"role\":\"assistant\",\"model\":\"claude-opus-4-5\",\"content\":[{{\"type\":\"text\",\"text\":\"answer to {said} in src/{said}.rs\"}}],\"usage\":{{\"input_tokens\":{},\"output_tokens\":7}}}}}}\n",
            100 + 20 * i
        );
        parent = format!("\"{a}\"");
    }
    text
}

fn said(of: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{of}_{i}")).collect()
}

fn chat(question: &str) -> String {
    format!(
        "{{\"id\":\"{question}\",\"messages\":[{{\"role\":\"user\",\"content\":\"{question}\"}},{{\"role\":\"assistant\",\"content\":\"yes\"}}]}}\n"
    )
}

/// Rows without what tells which of several equal runs was read first.
fn but_source(
    (mut trajectories, steps): (Vec<TrajectoryRow>, Vec<StepRow>),
) -> (Vec<TrajectoryRow>, Vec<StepRow>) {
    for row in &mut trajectories {
        row.source.clear();
        row.source_key.clear();
    }
    (trajectories, steps)
}

/// What the report says of each format, and how many rejects there are.
fn counts(record: &Value) -> Value {
    let keys =
        ["files", "trajectories", "steps", "bytes", "stored_bytes", "rejects", "lost_records", "formats"];
    keys.iter().map(|key| ((*key).to_owned(), record[*key].clone())).collect::<serde_json::Map<_, _>>().into()
}

/// The log's own id of a session tells that it has grown, under whatever name, in all formats that have one.
#[test]
fn a_session_that_grew_under_another_name_is_one() {
    let chat = |n: usize| {
        let request = |i| format!(r#"{{"message":{{"text":"q{i}"}},"response":[{{"value":"a{i}"}}]}}"#);
        let requests: Vec<String> = (0..n).map(request).collect();
        format!(
            r#"{{"version":3,"sessionId":"s1","responderUsername":"GitHub Copilot","requests":[{}]}}"#,
            requests.join(",")
        )
    };
    let thread = |n: usize| {
        let said = |i| {
            format!(
                r#"{{"role":"user","messageId":{i},"content":[{{"type":"text","text":"q{i}"}}]}},{{"role":"assistant","messageId":{i},"content":[{{"type":"text","text":"a{i}"}}]}}"#
            )
        };
        let messages: Vec<String> = (0..n).map(said).collect();
        format!(r#"{{"v":1,"id":"T-1","created":1700000000000,"messages":[{}]}}"#, messages.join(","))
    };
    let place = Place::new();
    place.write("a.json", &chat(1));
    place.write("b.json", &thread(1));
    place.ingest("data");
    for (old, new, text) in [("a.json", "c.json", chat(2)), ("b.json", "d.json", thread(2))] {
        place.remove(old);
        place.write(new, &text);
    }
    place.ingest("data");
    let told: BTreeMap<String, (String, u32)> =
        place.rows("data").0.into_iter().map(|row| (row.source, (row.source_key, row.n_turns))).collect();
    let row = |key: &str| (key.to_owned(), told.values().next().unwrap().1);
    assert_eq!(
        told,
        BTreeMap::from([("c.json".to_owned(), row("vscode-chat s1")), ("d.json".to_owned(), row("amp T-1"))])
    );
}

/// A fork of an exported session that comes later: the turns before it count once, also where the first export is gone by then.
#[test]
fn turns_before_a_fork_that_comes_later_count_once() {
    let export = |id: &str, said: &[&str]| {
        let message = |(i, text): (usize, &&str)| {
            let (role, created) = (["user", "assistant"][i % 2], 1_767_225_600_000u64 + i as u64);
            serde_json::json!({"info": {"id": format!("msg_{id}{i}"), "sessionID": id, "role": role, "time": {"created": created}},
                "parts": [{"id": format!("prt_{id}{i}"), "sessionID": id, "messageID": format!("msg_{id}{i}"), "type": "text", "text": text}]})
        };
        let messages: Vec<Value> = said.iter().enumerate().map(message).collect();
        serde_json::to_string_pretty(
            &serde_json::json!({"info": {"id": id, "directory": "/w", "title": "t".repeat(300)}, "messages": messages}),
        )
        .unwrap()
    };
    let (first, fork) =
        (["Fix it.", "Fixed.", "Test it.", "Tested."], ["Fix it.", "Fixed.", "Drop it.", "Dropped."]);
    let place = Place::new();
    place.write("a.json", &export("ses_a", &first));
    place.ingest("data");
    place.ingest("gone");
    place.write("b.json", &export("ses_b", &fork));
    place.ingest("data");
    place.ingest("once");
    assert_eq!(place.rows("data"), place.rows("once"));
    place.remove("a.json");
    place.ingest("gone");
    for out in ["data", "gone"] {
        let turns: BTreeMap<String, u32> =
            place.rows(out).0.into_iter().map(|row| (row.source, row.n_turns)).collect();
        let expected = [("a.json".to_owned(), 2), ("b.json".to_owned(), 1)];
        assert_eq!(turns, BTreeMap::from(expected), "{out}");
    }
}

/// Files in random states, added in random order: sessions that grow and fork, chats, a label file, text, broken lines.
fn change(place: &Place, state: &mut BTreeMap<String, usize>, rng: &mut ChaCha8Rng) {
    for _ in 0..rng.random_range(1..6) {
        let kind = rng.random_range(0..7);
        let which = rng.random_range(0..4);
        let name = format!("{kind}/{which}");
        let n = state.entry(name).or_default();
        *n += rng.random_range(1..3);
        let n = *n;
        match kind {
            // Sessions of their own.
            0 => place.write(
                &format!("s{which}.jsonl"),
                &session(&format!("s{which}"), &format!("o{which}"), &said("own", n)),
            ),
            // Sessions that begin alike and go on alike, each under its own id: all but the longest are beginnings.
            1 => place
                .write(&format!("f{which}.jsonl"), &session(&format!("f{which}"), "fork", &said("fork", n))),
            // Sessions that begin alike and go on differently.
            2 => {
                let mut texts = said("shared", 1);
                texts.extend(said(&format!("branch{which}"), n));
                place.write(&format!("b{which}.jsonl"), &session(&format!("b{which}"), "branch", &texts));
            }
            3 => place.write(
                &format!("chats/{which}.jsonl"),
                &said("q", n).iter().map(|q| chat(q)).collect::<String>(),
            ),
            4 => place.write(
                &format!("broken{which}.jsonl"),
                &(chat(&format!("x{which}-{n}")) + "{\"messages\":[{\n" + &chat("z")),
            ),
            5 => place.write(&format!("note{which}.txt"), &format!("no log, {n}")),
            _ => {
                place.write(&format!("swe/o__r-{which}.traj.json"), &format!(
                    "{{\"info\":{{\"exit_status\":\"done\"}},\"trajectory_format\":\"mini-swe-agent-1\",\"instance_id\":\"o__r-{which}\",\"messages\":[{{\"role\":\"system\",\"content\":\"s\"}},{{\"role\":\"user\",\"content\":\"task {n}\"}},{{\"role\":\"assistant\",\"content\":\"```bash\\nls\\n```\"}}]}}"
                ));
                let resolved = if n % 2 == 0 { "\"o__r-0\"" } else { "\"o__r-1\"" };
                place.write(
                    "swe/results/results.json",
                    &format!("{{\"no_generation\":[],\"no_logs\":[],\"resolved\":[{resolved}]}}"),
                );
            }
        }
    }
}

#[test]
fn added_logs_give_the_rows_of_all_at_once() {
    for seed in 0..25 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (place, mut state) = (Place::new(), BTreeMap::new());
        for round in 0..4 {
            change(&place, &mut state, &mut rng);
            place.ingest("data");
            let whole = format!("whole-{round}");
            place.ingest(&whole);
            let at = format!("seed {seed}, round {round}");
            let (added, all) = (but_source(place.rows("data")), but_source(place.rows(&whole)));
            let ids = |rows: &[TrajectoryRow]| rows.iter().map(|row| row.task_id.clone()).collect::<Vec<_>>();
            assert!(added == all, "{at}: {:?}, {:?}", ids(&added.0), ids(&all.0));
            let (one, all) = (counts(&place.record("data")), counts(&place.record(&whole)));
            assert_eq!(one, all, "{at}");
            let lines = |out: &str| fs::read_to_string(place.at(out).join("rejects.jsonl")).unwrap();
            let sorted = |text: String| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
            assert_eq!(sorted(lines("data")), sorted(lines(&whole)), "{at}");
            // Once more is nothing.
            let before = fs::read(place.at("data/ingest.json")).unwrap();
            let again = place.ingest("data").before.unwrap();
            assert!(again.is_same && again.n_runs_gone == 0, "{at}: {again:?}");
            assert!(fs::read(place.at("data/ingest.json")).unwrap() == before, "{at}");
        }
    }
}

#[test]
fn what_is_known_is_not_read_again() {
    let place = Place::new();
    for i in 0..6 {
        place.write(&format!("s{i}.jsonl"), &session(&format!("s{i}"), &format!("o{i}"), &said("a", 3)));
    }
    place.ingest("data");
    place.write("s2.jsonl", &session("s2", "o2", &said("a", 5)));
    place.write("new.jsonl", &chat("q"));
    let report = place.ingest("data");
    let before = report.before.unwrap();
    assert_eq!((before.n_known, before.n_gone, before.n_runs_gone), (5, 0, 1));
    assert_eq!((report.files, report.trajectories), (7, 7));
    assert_eq!(place.rows("data").1.len(), 5 * 6 + 10 + 2);
    // Read in another way, all is read again.
    let options = Options {
        limits: trajpress::Limits { file: 1 << 20, ..Default::default() },
        ..place.options("data")
    };
    assert_eq!(ingest(&options, &mut |_| {}).unwrap().before.unwrap().n_known, 0);
}

#[test]
fn runs_of_files_that_are_gone_stay() {
    let place = Place::new();
    place.write("a.jsonl", &session("a", "oa", &said("a", 3)));
    place.write("b.jsonl", &session("b", "ob", &said("b", 3)));
    place.write("chat.jsonl", &chat("q"));
    place.ingest("data");
    let all = place.rows("data");
    // Moved: the same file. Removed: its runs stay.
    fs::create_dir(place.at("logs/sub")).unwrap();
    fs::rename(place.at("logs/a.jsonl"), place.at("logs/sub/a.jsonl")).unwrap();
    place.remove("chat.jsonl");
    let before = place.ingest("data").before.unwrap();
    assert_eq!((before.n_known, before.n_gone, before.n_runs_gone), (2, 1, 0));
    assert!(place.rows("data") == all);
    // Gone, and come again elsewhere grown: by its session it is the same, and the old rows go.
    place.remove("b.jsonl");
    place.ingest("data");
    let mut other = said("b", 2);
    other.push("else".to_owned());
    other.push("more".to_owned());
    place.write("elsewhere/b.jsonl", &session("b", "ob", &other));
    let before = place.ingest("data").before.unwrap();
    assert_eq!(before.n_runs_gone, 1, "{before:?}");
    let of_b = |rows: &[TrajectoryRow]| rows.iter().filter(|r| r.source_key == "claude-code b").count();
    assert_eq!(of_b(&place.rows("data").0), 1);
    // An older copy of a session that is gone changes nothing: it is the beginning of what is known.
    place.remove("elsewhere/b.jsonl");
    place.write("backup/b.jsonl", &session("b", "ob", &other[..2]));
    let report = place.ingest("data");
    assert_eq!((report.trajectories, report.before.unwrap().n_runs_gone), (3, 0));
    assert_eq!(place.rows("data").1.iter().filter(|s| s.text == "more").count(), 1);
    // And one that goes on takes its place, also under another id.
    other.push("again".to_owned());
    place.write("resumed.jsonl", &session("c", "ob", &other));
    let report = place.ingest("data");
    assert_eq!((report.trajectories, report.before.unwrap().n_runs_gone), (3, 1));
    assert_eq!(place.rows("data").1.iter().filter(|s| s.text == "more").count(), 1);
    // A dataset of the given files alone has nothing of the others.
    let options = Options { mode: IngestMode::Match, ..place.options("data") };
    let report = ingest(&options, &mut |_| {}).unwrap();
    place.ingest("whole");
    assert!(but_source(place.rows("data")) == but_source(place.rows("whole")), "{report:?}");
    assert_eq!(report.before.unwrap().n_gone, 0);
}

/// A conversation of which each event stands in a file of its own.
/// A file that gets another name, or is packed, is the same log: one run, whatever else is there.
#[test]
fn a_log_under_another_name_stays_one_run() {
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    for (log, ending) in [(session("s1", "one", &said("one", 3)), "jsonl"), (chat("What is it?"), "json")] {
        for others in [0, 2] {
            let place = Place::new();
            (0..others).for_each(|i| place.write(&format!("other-{i}.json"), &chat(&format!("And {i}?"))));
            place.write(&format!("a.{ending}"), &log);
            place.ingest("data");
            place.remove(&format!("a.{ending}"));
            place.write(&format!("z.{ending}"), &log);
            for _ in 0..2 {
                place.ingest("data");
                assert_eq!(place.rows("data").0.len(), 1 + others, "{ending}, renamed");
            }
            place.remove(&format!("z.{ending}"));
            fs::write(place.at("logs").join(format!("z.{ending}.zst")), zstd(&log)).unwrap();
            for _ in 0..2 {
                place.ingest("data");
                let (runs, steps) = place.rows("data");
                assert_eq!(runs.len(), 1 + others, "{ending}, packed");
                let n_steps: u32 = runs.iter().map(|run| run.n_steps).sum();
                assert_eq!(steps.len(), n_steps as usize);
                place.ingest("once");
                assert_eq!(runs.len(), place.rows("once").0.len());
            }
        }
    }
}

/// What reads nothing takes nothing away.
#[test]
fn a_wrong_format_leaves_the_dataset_as_it_was() {
    let place = Place::new();
    place.write("a.json", &chat("What is it?"));
    place.ingest("data");
    let before = place.rows("data");
    let wrong = Options { format: Some("sweagent".to_owned()), ..place.options("data") };
    let error = ingest(&wrong, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("no run would be left of the 1 in"), "{error}");
    assert_eq!(place.rows("data"), before);
}

#[test]
fn a_run_in_several_files_is_known_by_all_of_them() {
    let place = Place::new();
    let event = |i: usize, text: &str| {
        let source = if i % 2 == 0 { ("user", "user") } else { ("agent", "assistant") };
        place.write(
            &format!("s/events/{i}.json"),
            &format!(
                "{{\"kind\":\"MessageEvent\",\"id\":\"e{i}\",\"source\":\"{}\",\"llm_message\":{{\"role\":\"{}\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}",
                source.0, source.1
            ),
        );
    };
    let texts = |out: &str| place.rows(out).1.into_iter().map(|row| row.text).collect::<Vec<_>>();
    (0..4).for_each(|i| event(i, &format!("said {i}")));
    place.write("chat.jsonl", &chat("zzz"));
    let report = place.ingest("data");
    assert_eq!((report.files, report.trajectories), (5, 2), "{report:?}");
    let before = place.ingest("data").before.unwrap();
    assert!(before.is_same && before.n_known == 5, "{before:?}");
    // One of the parts says something else, and one more comes.
    event(2, "changed");
    let before = place.ingest("data").before.unwrap();
    assert_eq!((before.n_known, before.n_gone, before.n_runs_gone), (1, 0, 1));
    assert!(texts("data").contains(&"changed".to_owned()));
    event(4, "more");
    let report = place.ingest("data");
    assert_eq!((report.files, report.trajectories), (6, 2));
    assert_eq!(report.before.unwrap().n_known, 1);
    // Known beside others that are read: all of its files are in the record still.
    place.write("other.jsonl", &chat("other"));
    let before = place.ingest("data").before.unwrap();
    assert_eq!((before.n_known, before.n_runs_gone), (6, 0));
    // A file that was a run of its own becomes part of one.
    event(3, "said 3");
    fs::rename(place.at("logs/s/events/0.json"), place.at("zero.json")).unwrap();
    let report = place.ingest("part");
    assert_eq!(report.trajectories, 3);
    fs::rename(place.at("zero.json"), place.at("logs/s/events/0.json")).unwrap();
    place.ingest("part");
    place.ingest("whole");
    for out in ["data", "part"] {
        assert!(but_source(place.rows(out)) == but_source(place.rows("whole")), "{out}");
        assert_eq!(counts(&place.record(out)), counts(&place.record("whole")), "{out}");
        let paths = |out: &str| {
            let record = place.record(out);
            let files = record["by_file"].as_array().unwrap().clone();
            let name = |file: Value| (file["path"].to_string(), file["part_of"].to_string());
            files.into_iter().map(name).collect::<BTreeSet<_>>()
        };
        assert_eq!(paths(out), paths("whole"), "{out}");
    }
    // By the time of one of its files all of them are read.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    for i in 0..4 {
        let file = fs::File::options().write(true).open(place.at(&format!("logs/s/events/{i}.json")));
        file.unwrap().set_modified(old).unwrap();
    }
    let since = Some(std::time::SystemTime::now() - std::time::Duration::from_secs(3600));
    let filter = Filter { since, include: vec!["s/*".to_owned()], ..Filter::default() };
    let report = ingest(&Options { filter, ..place.options("since") }, &mut |_| {}).unwrap();
    assert_eq!((report.files, report.left_out, report.steps), (5, 2, 5));
}

#[test]
fn two_folders_with_the_same_names_are_two() {
    let place = Place::new();
    for folder in ["run1", "run2"] {
        place.write(&format!("{folder}/task.jsonl"), &chat(folder));
    }
    for folder in ["run1", "run2"] {
        let inputs = vec![place.at("logs").join(folder)];
        ingest(&Options { inputs, ..place.options("data") }, &mut |_| {}).unwrap();
    }
    let (trajectories, steps) = place.rows("data");
    assert_eq!((trajectories.len(), steps.len()), (2, 4));
}

#[test]
fn what_is_not_asked_for_is_told_and_stays() {
    let place = Place::new();
    for name in ["a/x.jsonl", "b/y.jsonl"] {
        place.write(name, &chat(name));
    }
    place.ingest("data");
    place.write("a/z.jsonl", &chat("z"));
    place.write("b/w.jsonl", &chat("w"));
    let filter = Filter { exclude: vec!["b/*".to_owned()], ..Filter::default() };
    let report = ingest(&Options { filter, ..place.options("data") }, &mut |_| {}).unwrap();
    assert_eq!((report.trajectories, report.left_out), (3, 2));
    let filter = Filter { include: vec!["none".to_owned()], ..Filter::default() };
    let error = ingest(&Options { filter, ..place.options("data") }, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("but for 4 that were not asked for"), "{error}");
}
