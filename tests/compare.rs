//! `trajpress compare`: a night that got worse, one that did not, and runs that cannot be compared.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Of the golden runs, as many as are enough to tell.
const RUNS: usize = 10;
/// How many of the newest results a good policy keeps, and a bad one.
const GOOD: u32 = 25;
const BAD: u32 = 5;

struct Place(tempfile::TempDir);

impl Place {
    /// With data of the golden runs.
    fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        let datasets = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets");
        let runs = fs::read_to_string(datasets.join("golden/coding.jsonl")).unwrap();
        let logs = place.at("logs.jsonl");
        fs::write(&logs, runs.lines().take(RUNS).map(|line| format!("{line}\n")).collect::<String>())
            .unwrap();
        place.done(&["ingest", &logs, "--out", &place.at("data")]);
        place
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn call(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_trajpress")).args(args).output().unwrap()
    }

    fn done(&self, args: &[&str]) -> Output {
        let out = self.call(args);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        out
    }

    /// A run in which `ours` keeps so many of the newest results, beside others that stay the same.
    fn run(&self, name: &str, keep: u32, tokenizer: &str) -> String {
        let experiment = self.experiment(name, keep, tokenizer);
        let out = self.at(name);
        self.done(&["run", &experiment, "--data", &self.at("data"), "--out", &out]);
        out
    }

    fn experiment(&self, name: &str, keep: u32, tokenizer: &str) -> String {
        let experiment = self.at(&format!("{name}.toml"));
        let text = format!(
            "name = \"night\"\ntokenizer = \"{tokenizer}\"\nseed = 1\n\n[[strategies]]\nname = \"full\"\n\n[[strategies]]\nname = \"truncate\"\n\
             keep_last = 5\n\n[[strategies]]\nname = \"random\"\nkept_share = 0.2\nseed = [1, 2]\n\n[[triggers]]\nname = \"turns\"\nn = 5\nkeep = 4\n\n\
             [[policies]]\nname = \"ours\"\nwindow = 64000\n\n[[policies.policy.stages]]\n\
             trigger = {{ name = \"limits\", tokens = 500 }}\nscope = {{ name = \"results\", keep = {keep} }}\n\
             strategy = {{ name = \"clear\" }}\n"
        );
        fs::write(&experiment, text).unwrap();
        experiment
    }
}

fn told(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

#[test]
fn a_strategy_that_was_worsened_is_found_and_nothing_else() {
    let place = Place::new();
    let (monday, tuesday, wednesday) = (
        place.run("monday", GOOD, "o200k"),
        place.run("tuesday", BAD, "o200k"),
        place.run("wednesday", BAD, "o200k"),
    );
    let junit = place.at("compare.xml");
    let worse = place.call(&["compare", &monday, &tuesday, "--json", "--junit", &junit]);
    assert_eq!(worse.status.code(), Some(1), "{}", told(&worse));
    let json: Value = serde_json::from_slice(&worse.stdout).unwrap();
    assert_eq!(json["answer"], "worse");
    let rows = json["rows"].as_array().unwrap();
    let is_ours = |row: &&Value| row["variant"].as_str().unwrap().starts_with("ours");
    let worst: Vec<&Value> = rows.iter().filter(|row| row["answer"] == "worse").collect();
    assert!(worst.iter().all(|row| is_ours(row)), "{worst:#?}");
    let needs = worst.iter().find(|row| row["score"] == "need_retention").unwrap();
    assert!(needs["difference_interval"][1].as_f64().unwrap() < 0.0);
    assert!(rows.iter().filter(|row| !is_ours(row)).all(|row| row["same"] == true), "{rows:#?}");
    assert!(rows.iter().any(|row| row["halves_apart"].as_f64().is_some()));
    let seeds = json["seeds"].as_array().unwrap();
    assert!(seeds.iter().any(|of| of["n_seeds"] == 2 && of["apart"].as_f64().unwrap() > 0.0));
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(
        xml.contains(&format!("failures=\"{}\"", worst.len()))
            && xml.matches("<testcase ").count() == rows.len(),
        "{xml}"
    );

    let text = told(&worse_page(&place, &monday, &tuesday, &[]));
    assert!(text.starts_with("Worse: needs kept of ours"), "{text}");
    assert!(text.contains("other settings than before: ours"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100 || line.starts_with("warning")), "{text}");
    let markdown = told(&worse_page(&place, &monday, &tuesday, &["--markdown"]));
    assert!(markdown.starts_with("**Worse: ") && markdown.contains("| variant "), "{markdown}");

    // A night without a change passes, and the other way round it is better.
    let same = place.done(&["compare", &tuesday, &wednesday]);
    assert!(told(&same).starts_with("Nothing changed: "), "{}", told(&same));
    // A setting stands in the label; the variant is compared all the same.
    let with = |name: &str, truncate: &str| {
        let file = place.experiment(name, BAD, "o200k");
        let text = fs::read_to_string(&file).unwrap();
        let as_it_was = "[[strategies]]\nname = \"truncate\"\nkeep_last = 5\n\n";
        assert!(text.contains(as_it_was));
        fs::write(&file, text.replace(as_it_was, truncate)).unwrap();
        place.done(&["run", &file, "--data", &place.at("data"), "--out", &place.at(name)]);
        place.at(name)
    };
    let set = with("set", "[[strategies]]\nname = \"truncate\"\nkeep_last = 6\n\n");
    let json = place.call(&["compare", &tuesday, &set, "--json"]).stdout;
    let json: Value = serde_json::from_slice(&json).unwrap();
    let labels: Vec<&str> =
        json["rows"].as_array().unwrap().iter().filter_map(|row| row["variant"].as_str()).collect();
    assert!(labels.iter().any(|label| label.starts_with("truncate(keep_last=6)")), "{labels:?}");
    let is_it = |row: &&Value| row["variant"].as_str().unwrap().starts_with("truncate(keep_last=6)");
    let before = json["rows"].as_array().unwrap().iter().find(is_it).unwrap()["variant_before"].as_str();
    assert!(before.is_some_and(|label| label.starts_with("truncate(keep_last=5)")), "{before:?}");
    assert_eq!(json["variants_only_before"], serde_json::json!([]));
    // One that is gone does not pass in silence, unless the gate lets it go.
    let without = with("without", "");
    let gone = place.call(&["compare", &tuesday, &without, "--junit", &junit]);
    assert_eq!(gone.status.code(), Some(1), "{}", told(&gone));
    assert!(told(&gone).starts_with("Gone: `truncate("), "{}", told(&gone));
    assert!(told(&gone).contains("hint: variants are paired by their labels"), "{}", told(&gone));
    assert!(fs::read_to_string(&junit).unwrap().contains("<failure message=\"it is gone\"/>"));
    let let_go = place.at("go.toml");
    fs::write(&let_go, "may_go = [\"truncate\"]\n").unwrap();
    let gone = place.done(&["compare", &tuesday, &without, "--junit", &junit, "--gate", &let_go]);
    assert!(told(&gone).contains(" the same), but 1 variant is gone."), "{}", told(&gone));
    assert!(fs::read_to_string(&junit).unwrap().contains("<skipped message=\"it is gone\"/>"));
    // Another name for the same is told, in the first line and in a warning.
    let file = place.experiment("called", BAD, "o200k");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("name = \"ours\"", "name = \"theirs\"")).unwrap();
    place.done(&["run", &file, "--data", &place.at("data"), "--out", &place.at("called")]);
    let called = place.done(&["compare", &tuesday, &place.at("called")]);
    assert!(told(&called).contains("the same), but 1 variant has another name."), "{}", told(&called));
    assert!(told(&called).contains("warning: called otherwise than before: `ours"), "{}", told(&called));
    // A folder that is no run is told in one message.
    let no_run = place.call(&["compare", &tuesday, &place.at("nobody")]);
    assert_eq!(no_run.status.code(), Some(2));
    assert!(!told(&no_run).contains("_SUCCESS"), "{}", told(&no_run));
    let needs = place.at("needs.toml");
    fs::write(&needs, "[[rules]]\nscore = \"need_retention\"\nmargin = 0.05\n").unwrap();
    place.done(&["compare", &tuesday, &monday, "--gate", &needs]);
}

fn worse_page(place: &Place, base: &str, new: &str, more: &[&str]) -> Output {
    let out = place.call(&[&["compare", base, new], more].concat());
    assert_eq!(out.status.code(), Some(1));
    out
}

#[test]
fn what_cannot_be_compared_is_told() {
    let place = Place::new();
    let monday = place.run("monday", GOOD, "o200k");
    let gate = place.at("gate.toml");
    fs::write(&gate, "[[rules]]\nscore = \"need_retention\"\nmargin = 0.05\nvariants = [\"nobody\"]\n")
        .unwrap();
    let out = place.call(&["compare", &monday, &monday, "--gate", &gate]);
    assert_eq!(out.status.code(), Some(2));
    assert!(told(&out).contains("is called: `nobody`\nhint: names are labels, strategies"), "{}", told(&out));
    let manifest = format!("{monday}/_manifest.json");
    let other = place.at("other");
    copy(Path::new(&monday), Path::new(&other));
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(
        format!("{other}/_manifest.json"),
        text.replace("\"tokenizer\": \"o200k\"", "\"tokenizer\": \"cl100k\""),
    )
    .unwrap();
    let out = place.call(&["compare", &monday, &other]);
    assert_eq!(out.status.code(), Some(2));
    assert!(told(&out).contains("_manifest.json is not what the run wrote"), "{}", told(&out));
    fs::remove_file(format!("{other}/_SUCCESS")).unwrap();
    let out = place.call(&["compare", &monday, &other]);
    assert_eq!(out.status.code(), Some(2));
    assert!(told(&out).contains("the tokenizer: \"o200k\" and \"cl100k\""), "{}", told(&out));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Four nights: the first, one with a strategy worsened, one without a change, and one with new logs.
#[test]
fn nights_are_read_replayed_and_compared() {
    let place = Place(tempfile::tempdir().unwrap());
    fs::create_dir(place.at("logs")).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/golden/coding.jsonl");
    let runs = fs::read_to_string(golden).unwrap();
    let write = |name: &str, from: usize, to: usize| {
        let text: String = runs.lines().skip(from).take(to - from).map(|line| format!("{line}\n")).collect();
        fs::write(place.at(&format!("logs/{name}.jsonl")), text).unwrap();
    };
    write("old", 0, RUNS);
    let config = place.at("nightly.toml");
    fs::write(&config, "logs = \"logs\"\nexperiment = \"night.toml\"\nkeep = 4\n").unwrap();
    let night = |keep: u32| {
        place.experiment("night", keep, "o200k");
        // Nights are named by the second.
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        place.call(&["nightly", &config, "--threads", "2"])
    };
    // A fault of what people write is told before anything is done.
    let experiment = place.experiment("night", GOOD, "o200k");
    let good = fs::read_to_string(&experiment).unwrap();
    fs::write(&experiment, good.replace("name = \"truncate\"", "name = \"trunkate\"")).unwrap();
    let wrong = place.call(&["nightly", &config]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        told(&wrong).contains("night.toml:") && told(&wrong).contains("did you mean `truncate`"),
        "{}",
        told(&wrong)
    );
    fs::remove_file(&experiment).unwrap();
    let gone = place.call(&["nightly", &config]);
    assert!(told(&gone).contains("nightly.toml:2: `experiment` names "), "{}", told(&gone));
    fs::write(&config, "logs = []\nexperiment = \"night.toml\"\n").unwrap();
    let none = place.call(&["nightly", &config]);
    assert!(told(&none).contains("nightly.toml:1: `logs` names none"), "{}", told(&none));
    fs::write(&config, "logs = \"logs\"\nexperiment = \"night.toml\"\nkeep = 4\n").unwrap();
    assert!(!Path::new(&place.at("nights")).exists());

    let first = night(GOOD);
    assert_eq!(first.status.code(), Some(0), "{}", told(&first));
    assert!(told(&first).contains("the first night"), "{}", told(&first));

    let second = night(BAD);
    assert_eq!(second.status.code(), Some(1), "{}", told(&second));
    assert!(told(&second).contains("Worse: needs kept of ours"), "{}", told(&second));

    let third = night(BAD);
    assert_eq!(third.status.code(), Some(0), "{}", told(&third));
    assert!(told(&third).contains("Nothing changed: "), "{}", told(&third));

    // A gate that cannot be asked is no gate that held.
    fs::write(place.at("gate.toml"), "may_go = [\"trunkate\"]\n").unwrap();
    fs::write(&config, "logs = \"logs\"\nexperiment = \"night.toml\"\nkeep = 4\ngate = \"gate.toml\"\n")
        .unwrap();
    let unasked = night(BAD);
    assert_eq!(unasked.status.code(), Some(2), "{}", told(&unasked));
    assert!(told(&unasked).contains("the gate was not asked: the gate names"), "{}", told(&unasked));
    fs::write(&config, "logs = \"logs\"\nexperiment = \"night.toml\"\nkeep = 5\n").unwrap();

    // As JSON it is one object; a night within the same second has another name.
    let as_json = place.call(&["nightly", &config, "--threads", "2", "--json"]);
    let said: serde_json::Value = serde_json::from_slice(&as_json.stdout).unwrap();
    assert_eq!(said["compared"]["answer"], "not_worse");
    assert!(Path::new(said["report"].as_str().unwrap()).exists(), "{said}");

    // What a variant shows of sessions that stayed is taken over, and is what a run without a past shows.
    let shown = || -> Vec<(String, std::time::SystemTime)> {
        let parts = fs::read_dir(place.at("nights/run/parts/showcase")).unwrap().map(Result::unwrap);
        let of = |part: fs::DirEntry| {
            (part.file_name().into_string().unwrap(), part.metadata().unwrap().modified().unwrap())
        };
        parts.map(of).collect()
    };
    let before = shown();
    write("new", RUNS, RUNS + 1);
    let fourth = night(BAD);
    assert!(shown().iter().any(|part| before.contains(part)), "{before:?} {:?}", shown());
    let (data, fresh) = (place.at("nights/data"), place.at("fresh"));
    place.done(&["run", &place.at("night.toml"), "--data", &data, "--out", &fresh]);
    let showcase = |run: &str| fs::read(Path::new(run).join("showcase.parquet")).unwrap();
    assert!(showcase(&place.at("nights/run")) == showcase(&fresh));
    assert_eq!(fourth.status.code(), Some(0), "{}", told(&fourth));
    assert!(told(&fourth).contains("1 only now"), "{}", told(&fourth));
    let mut kept: Vec<String> = fs::read_dir(place.at("nights"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("20"))
        .collect();
    kept.sort();
    assert_eq!(kept.len(), 5, "{kept:?}");
    let newest = Path::new(&place.at("nights")).join(kept.last().unwrap());
    for file in [
        "report/report.html",
        "report/summary.md",
        "compare.md",
        "compare.json",
        "compare.xml",
        "scores.parquet",
    ] {
        assert!(newest.join(file).is_file(), "{file}");
    }
    let page = fs::read_to_string(newest.join("report/report.html")).unwrap();
    assert!(page.contains("1 only now") && page.contains("\"before\":\"20"), "the night's answer");
    assert!(!page.contains("\"events\":[]"), "the worst events");
    // What became of a session, without a word on where its log is.
    let folder = newest.display().to_string();
    let listed: Value = serde_json::from_slice(&place.done(&["inspect", &folder, "--json"]).stdout).unwrap();
    let session = listed["sessions"][0]["trajectory"].as_str().unwrap();
    let events = place.done(&["inspect", &folder, session, "--variant", "ours"]);
    let lost = listed["sessions"][0]["lost"].as_u64().unwrap();
    assert!(told(&events).contains(&format!(", {lost} needs lost\n")), "{lost}: {}", told(&events));
    assert!(told(&events).contains("--variant 'ours' --event "), "{}", told(&events));
    let event = place.done(&["inspect", &folder, session, "--variant", "ours", "--event", "0"]);
    // Counted from 1 as on the page, and asked for from 0.
    assert!(
        told(&event).starts_with("event 1 of ") && told(&event).contains(" (--event 0), before turn "),
        "{}",
        told(&event)
    );
    assert!(told(&events).contains("\n   1 (0)   turn "), "{}", told(&events));
    assert!(told(&event).contains("lost and needed later: "), "{}", told(&event));
    // The kept nights as a picture: the oldest of them is the one that got worse.
    let history = place.done(&["compare", "--history", &place.at("nights")]);
    assert!(
        told(&history).contains("what got worse")
            && told(&history).contains(&kept[2])
            && told(&history).contains("gone"),
        "{}",
        told(&history)
    );
    let csv = fs::read_to_string(place.at("nights/history.csv")).unwrap();
    let worse: Vec<&str> = csv.lines().filter(|line| line.ends_with(",true")).collect();
    assert!(!worse.is_empty() && worse.iter().all(|line| line.contains(",ours")), "{csv}");
    let svg = fs::read_to_string(place.at("nights/history.svg")).unwrap();
    assert!(svg.contains("ring: worse") && svg.contains("dash: the gate"), "{svg}");
    // What the nights keep is what each of them had.
    place.done(&[
        "compare",
        &Path::new(&place.at("nights")).join(&kept[0]).display().to_string(),
        &newest.display().to_string(),
    ]);
    // A log that is gone changes no figure, so it is told in words.
    fs::remove_file(place.at("logs/new.jsonl")).unwrap();
    let fifth = night(BAD);
    assert!(
        told(&fifth).contains("1 file of earlier nights is not among the logs any more"),
        "{}",
        told(&fifth)
    );
}
