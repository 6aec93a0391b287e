//! The whole program on the built-in data: the same bytes whatever the threads, shards and kills, and
//! the same scores as long as the semantics version is the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use trajpress::internals::experiment::SEMANTICS_VERSION;
use trajpress::internals::files::vouch;
use trajpress::internals::store::{self, ScoreRow, StepRow, TableWriter, VariantRow};

/// Hash of the scores of the built-in experiment, and the semantics version that they belong to.
const GOLDEN: (u32, &str) = (36, "f8606f5b0d9c80c8282dda331b14d563");

const TABLES: [&str; 8] =
    ["trajectories", "variants", "cells", "events", "items", "contexts", "timeline", "scores"];

/// The built-in experiment with strategies that keep a store, and all that stood in the contexts.
fn with_contexts(built_in: &str) -> String {
    let stores = ["tiered", "notes"].map(|name| format!("[[strategies]]\nname = \"{name}\"\n\n")).concat();
    format!("contexts = true\n{}", built_in.replacen("[[triggers]]", &format!("{stores}[[triggers]]"), 1))
}

struct Place {
    dir: tempfile::TempDir,
    experiment: PathBuf,
}

impl Place {
    fn new() -> Self {
        Place::of(&["coding", "support", "templates"])
    }

    fn of(logs: &[&str]) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let place = Place {
            dir: tempfile::tempdir().unwrap(),
            experiment: root.join("reports/built-in/experiment.toml"),
        };
        place.add(logs);
        place
    }

    fn add(&self, logs: &[&str]) {
        let logs = logs.iter().map(|d| Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets").join(d));
        let status = self.command(&["ingest", "--out", &self.at("data")]).args(logs).status();
        assert!(status.unwrap().success());
        assert!(self.command(&["annotate", &self.at("data")]).status().unwrap().success());
    }

    fn at(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
        command.args(args).arg("--quiet");
        command
    }

    fn run(&self, out: &str, more: &[&str]) -> Command {
        let mut command = self.command(&["run"]);
        command.arg(&self.experiment).args(["--data", &self.at("data"), "--out", &self.at(out)]).args(more);
        command
    }

    fn tables(&self, out: &str) -> BTreeMap<String, Vec<u8>> {
        let read = |t: &&str| {
            (t.to_string(), std::fs::read(self.dir.path().join(out).join(format!("{t}.parquet"))).unwrap())
        };
        TABLES
            .iter()
            .filter(|t| **t != "contexts" || self.dir.path().join(out).join("contexts.parquet").exists())
            .map(read)
            .collect()
    }
}

/// With `--json` programs read how far a stage is: a line when it begins, one when it ends. With `--quiet` there is none.
#[test]
fn progress_is_told_as_events() {
    let place = crate::place::Place::new();
    let coding = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/coding").display().to_string();
    let [data, experiment, out] = ["data", "e.toml", "out"].map(|name| place.at(name).display().to_string());
    std::fs::write(
        &experiment,
        "name = \"e\"\ntokenizer = \"o200k\"\nseed = 1\n\n[[strategies]]\nname = \"mask\"\n\n[[triggers]]\nname = \"turns\"\nn = 5\n",
    )
    .unwrap();
    let events = |args: &[&str]| -> Vec<serde_json::Value> {
        let out = place.program(args);
        assert!(out.status.success(), "{out:?}");
        let said = String::from_utf8(out.stderr).unwrap();
        said.lines()
            .filter(|line| line.starts_with('{'))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let stages = [
        ("ingest", vec!["ingest", &coding, "--out", &data]),
        ("annotate", vec!["annotate", &data]),
        ("replay", vec!["run", &experiment, "--data", &data, "--out", &out]),
    ];
    for (stage, args) in stages {
        let told = events(&[&args[..], &["--json"]].concat());
        let [first, last] = [&told[0], &told[told.len() - 1]];
        assert!(
            told.len() > 1 && told.iter().all(|e| e["event"] == "progress" && e["stage"] == stage),
            "{told:?}"
        );
        assert_eq!((first["done"].as_u64(), &first["seconds_left"]), (Some(0), &serde_json::Value::Null));
        assert!(last["done"] == last["total"] && last["done"].as_u64().unwrap() > 0, "{last}");
    }
    assert!(events(&["ingest", &coding, "--out", &data, "--json", "--quiet"]).is_empty());
}

#[test]
fn the_same_bytes_whatever_the_threads_shards_and_kills() {
    let mut place = Place::new();
    let built_in = std::fs::read_to_string(&place.experiment).unwrap();
    place.experiment = place.dir.path().join("experiment.toml");
    std::fs::write(&place.experiment, with_contexts(&built_in)).unwrap();
    assert!(place.run("whole", &[]).status().unwrap().success());
    let whole = place.tables("whole");

    assert!(place.run("one", &["--threads", "1"]).status().unwrap().success());
    assert!(place.tables("one") == whole, "--threads 1 gives other bytes");

    for shard in ["2/3", "0/3", "1/3"] {
        assert!(place.run("sharded", &["--shard", shard]).status().unwrap().success());
    }
    assert!(place.run("sharded", &["--finish"]).status().unwrap().success());
    assert!(place.tables("sharded") == whole, "shards give other bytes");

    for wait in [5, 40, 120] {
        let mut child = place.run("killed", &["--threads", "1"]).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        let _ = child.kill();
        let _ = child.wait();
    }
    assert!(place.run("killed", &[]).status().unwrap().success());
    assert!(place.tables("killed") == whole, "a killed run that was started again gives other bytes");
}

/// One log less, then all: what is known is taken over, with the bytes of a run that began with all.
#[test]
fn a_run_goes_on_where_its_data_have_grown() {
    let place = Place::of(&["support", "templates"]);
    assert!(place.run("grown", &[]).status().unwrap().success());
    place.add(&["coding"]);
    let outcome = place.run("grown", &["--json"]).output().unwrap();
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    let outcome: serde_json::Value = serde_json::from_slice(&outcome.stdout).unwrap();
    let whole = place.run("whole", &["--json"]).output().unwrap();
    let whole: serde_json::Value = serde_json::from_slice(&whole.stdout).unwrap();
    let n = |outcome: &serde_json::Value, key: &str| outcome[key].as_u64().unwrap();
    assert!(n(&outcome, "step_variants") < n(&whole, "step_variants"), "{outcome} {whole}");
    assert_eq!((n(&outcome, "cells_ok"), n(&whole, "cells_known")), (n(&whole, "cells_ok"), 0));
    assert!(place.tables("grown") == place.tables("whole"), "other bytes than a run that began with all");
    // Drawn anew, partners are those of data that came at once.
    std::fs::create_dir(place.at("at-once")).unwrap();
    for name in ["ingest.json", "steps.parquet", "trajectories.parquet"] {
        std::fs::copy(format!("{}/{name}", place.at("data")), format!("{}/{name}", place.at("at-once")))
            .unwrap();
    }
    for args in [["annotate", &place.at("data"), "--renew"], ["annotate", &place.at("at-once"), "--renew"]] {
        assert!(place.command(&args).status().unwrap().success());
    }
    let [renewed, at_once] = ["data", "at-once"]
        .map(|data| std::fs::read(format!("{}/partners.parquet", place.at(data))).unwrap());
    assert!(renewed == at_once);
}

#[test]
fn scores_change_only_with_the_semantics_version() {
    let place = Place::new();
    assert!(place.run("run", &[]).status().unwrap().success());
    let scores: Vec<ScoreRow> = store::read(&place.dir.path().join("run/scores.parquet")).unwrap();
    let mut hash = blake3::Hasher::new();
    for row in &scores {
        hash.update(format!("{row:?}\n").as_bytes());
    }
    let hash = hash.finalize().to_hex()[..32].to_owned();
    assert_eq!(
        (SEMANTICS_VERSION, hash.as_str()),
        GOLDEN,
        "the scores of the built-in data changed\nhint: if that is meant, raise SEMANTICS_VERSION and set GOLDEN in this file"
    );
}

/// One output of one run was sent as a placeholder from the next turn but one on.
#[test]
fn logs_that_record_edits_have_a_row_of_what_was_sent() {
    let mut place = Place::new();
    place.experiment = place.dir.path().join("experiment.toml");
    let experiment =
        "name = \"x\"\n[[strategies]]\nname = \"mask\"\nkeep_last = 3\n[[triggers]]\nname = \"turns\"\n";
    std::fs::write(&place.experiment, experiment).unwrap();
    let labels = |out: &str| -> Vec<String> {
        assert!(place.run(out, &[]).status().unwrap().success());
        let path = place.dir.path().join(out).join("variants.parquet");
        store::read::<VariantRow>(&path).unwrap().into_iter().map(|row| row.label).collect()
    };
    assert_eq!(labels("plain"), ["full @ never", "mask(keep_last=3) @ turns"]);

    let steps = place.dir.path().join("data/steps.parquet");
    let mut rows: Vec<StepRow> = store::read(&steps).unwrap();
    let last = |rows: &[StepRow], id: &str| rows.iter().rfind(|row| *row.trajectory == *id).unwrap().turn;
    let edited = |row: &StepRow| row.kind == "observation" && row.turn + 2 < last(&rows, &row.trajectory);
    let at = rows.iter().position(edited).unwrap();
    rows[at].edit_from = Some(rows[at].turn + 2);
    rows[at].edit_text = Some("gone".to_owned());
    let mut table = TableWriter::create(&steps, usize::MAX).unwrap();
    table.push(rows.iter().cloned()).unwrap();
    table.finish().unwrap();
    // Vouched for anew, as if `ingest` had written them.
    let record = place.dir.path().join("data/ingest.json");
    let mut ingested: serde_json::Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    ingested["tables"]["steps.parquet"] = serde_json::to_value(vouch::Made::of(&steps).unwrap()).unwrap();
    ingested.as_object_mut().unwrap().remove("blake3");
    std::fs::write(&record, vouch::seal(&format!("{ingested:#}")).unwrap()).unwrap();
    for made in ["annotate.json", "features.parquet", "partners.parquet"] {
        std::fs::remove_file(place.dir.path().join("data").join(made)).unwrap();
    }
    assert_eq!(labels("edited"), ["full @ never", "as-sent @ logged-edits", "mask(keep_last=3) @ turns"]);
    let scores: Vec<ScoreRow> = store::read(&place.dir.path().join("edited/scores.parquet")).unwrap();
    let variants: Vec<VariantRow> = store::read(&place.dir.path().join("edited/variants.parquet")).unwrap();
    let savings = |strategy: &str, metric: &str| -> Vec<f64> {
        let variant = &variants.iter().find(|row| row.strategy == strategy).unwrap().variant;
        let of = |row: &&ScoreRow| *row.variant == **variant && *row.metric == *metric;
        scores.iter().filter(of).filter_map(|row| row.value).collect()
    };
    // As sent, one run saves something; nothing saves against itself, and that one run costs more in full.
    assert_eq!(savings("as-sent", "token_savings").iter().filter(|s| **s > 0.0).count(), 1);
    assert!(savings("as-sent", "token_savings_vs_sent").iter().all(|s| *s == 0.0));
    assert_eq!(savings("full", "token_savings_vs_sent").iter().filter(|s| **s < 0.0).count(), 1);
}
