//! The whole program on the built-in data: the same bytes whatever the threads, shards and kills, and
//! the same scores as long as the semantics version is the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use trajpress::experiment::SEMANTICS_VERSION;
use trajpress::store::{self, ScoreRow};

/// Hash of the scores of the built-in experiment, and the semantics version that they belong to.
const GOLDEN: (u32, &str) = (21, "fbce664bdec82e4aea4e186f4b34465b");

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
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let place = Place {
            dir: tempfile::tempdir().unwrap(),
            experiment: root.join("reports/built-in/experiment.toml"),
        };
        let logs = ["coding", "support", "templates"].map(|d| root.join("datasets").join(d));
        let status = place.command(&["ingest", "--out", &place.at("data")]).args(logs).status();
        assert!(status.unwrap().success());
        assert!(place.command(&["annotate", &place.at("data")]).status().unwrap().success());
        place
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
        TABLES.iter().map(read).collect()
    }
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
