//! `trajpress cluster` with its drivers: a job array in any order, and Ray while a node and the driver are killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use super::place::Place;

const EXPERIMENT: &str = r#"
name = "cluster"
strategies = [{ name = "mask", keep_last = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }]
triggers = [{ name = "turns", n = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }]
"#;
const OF: [&str; 3] = ["x.toml", "--data", "data"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn data() -> Place {
    let place = Place::new();
    let logs = ["support", "templates"].map(|name| root().join("datasets").join(name).display().to_string());
    assert!(place.program(&["ingest", &logs[0], &logs[1], "--out", "data", "--quiet"]).status.success());
    fs::write(place.at("x.toml"), EXPERIMENT).unwrap();
    assert!(place.program(&[&["run"], &OF[..], &["--out", "serial", "--quiet"]].concat()).status.success());
    place
}

fn tables(place: &Place, out: &str) -> BTreeMap<String, Vec<u8>> {
    let names = ["cells", "events", "items", "timeline", "scores", "variants", "trajectories"];
    names
        .iter()
        .map(|t| (t.to_string(), fs::read(place.at(&format!("{out}/{t}.parquet"))).unwrap()))
        .collect()
}

fn cluster(place: &Place, what: &str, more: &[&str]) -> Output {
    place.program(&[&["cluster", what], &OF[..], &["--out", "r"], more].concat())
}

fn lines(output: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_run_in_pieces_is_that_of_one_process() {
    let place = data();
    let early = cluster(&place, "merge", &[]);
    assert!(early.status.code() == Some(2) && !place.at("r").exists(), "{early:?}");
    let early = cluster(&place, "unit", &["x"]);
    let told = String::from_utf8_lossy(&early.stderr).into_owned();
    assert!(early.status.code() == Some(2) && told.contains("hint: run `trajpress cluster plan`"), "{told}");
    let planned = cluster(&place, "plan", &["--json"]);
    let planned: Value = serde_json::from_slice(&planned.stdout).unwrap();
    let n = planned["status"]["n_units"].as_u64().unwrap();
    assert!(n >= 3 && planned["at_once"] == 1, "{planned}");
    let left = || {
        let out = place.program(&["cluster", "status", "r", "--left"]).stdout;
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let ids = left();
    assert_eq!(ids.len() as u64, n);
    for expected in ["done", "skipped"] {
        let one = cluster(&place, "unit", &[&ids[0]]);
        let said = lines(&one.stdout);
        assert_eq!((said[0]["units"].as_u64(), &said[1]["outcome"]), (Some(n), &expected.into()), "{one:?}");
    }
    let unknown = cluster(&place, "unit", &["no-such-unit"]);
    assert!(unknown.status.code() == Some(1) && lines(&unknown.stdout)[1]["outcome"] == "failed");
    let merged = cluster(&place, "merge", &["--json"]);
    let merged: Value = serde_json::from_slice(&merged.stdout).unwrap();
    assert_eq!(
        (merged["finished"].as_bool(), merged["missing"].as_array().unwrap().len()),
        (Some(false), ids.len() - 1)
    );
    // One worker reads all ids, some of them twice.
    let mut worker = Command::new(env!("CARGO_BIN_EXE_trajpress"));
    worker
        .args(["cluster", "worker"])
        .args(OF)
        .args(["--out", "r", "--threads", "2"])
        .current_dir(place.0.path());
    let mut worker =
        worker.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let asked = format!("{}\n{}\n", ids.join("\n"), ids[..2].join("\n"));
    worker.stdin.take().unwrap().write_all(asked.as_bytes()).unwrap();
    let worker = worker.wait_with_output().unwrap();
    assert!(worker.status.success() && lines(&worker.stdout).len() == ids.len() + 3, "{worker:?}");
    assert!(left().is_empty());
    assert!(cluster(&place, "merge", &["--quiet"]).status.success());
    assert!(tables(&place, "r") == tables(&place, "serial"), "other bytes than in one process");
    let estimate = place.program(&[
        "cluster",
        "estimate",
        "r",
        "--steps",
        "1000000",
        "--workers",
        "8",
        "--price",
        "2",
        "--json",
    ]);
    let estimate: Value = serde_json::from_slice(&estimate.stdout).unwrap();
    assert!(estimate["money"].as_f64() > estimate["hours"].as_f64(), "{estimate}");
    let swept = place.program(&["cluster", "gc", "r", "--parts", "--json"]);
    let swept: Value = serde_json::from_slice(&swept.stdout).unwrap();
    assert!(swept["parts"] == true && swept["bytes"].as_u64() > Some(0), "{swept}");
    assert!(place.program(&[&["run"], &OF[..], &["--out", "r", "--quiet"]].concat()).status.success());
    let merged = cluster(&place, "merge", &["--quiet"]);
    assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
}

/// An ablation says what it takes over, before it is begun.
#[test]
fn what_an_older_run_has_is_told() {
    let place = data();
    fs::write(
        place.at("y.toml"),
        EXPERIMENT.replace("strategies = [", "strategies = [{ name = \"truncate\" }, "),
    )
    .unwrap();
    let plan = |more: &[&str]| {
        place.program(&[&["cluster", "plan", "y.toml", "--data", "data", "--out", "serial"], more].concat())
    };
    let planned: Value = serde_json::from_slice(&plan(&["--replace", "--json"]).stdout).unwrap();
    let left = planned["status"]["step_variants_left"].as_u64().unwrap();
    let known = planned["beginning"]["step_variants_known"].as_u64().unwrap();
    assert_eq!(left - known, 10 * 252, "{planned}");
    let told = String::from_utf8(plan(&[]).stdout).unwrap();
    assert!(told.contains("taken over from an older run: the rows of"), "{told}");
}

/// Three machines, each with a folder of its own, share nothing but a place.
#[test]
fn parts_are_shared_without_a_folder_in_common() {
    let place = data();
    let on = |node: &str, what: &str, more: &[&str]| {
        place.program(&[&["cluster", what], &OF[..], &["--out", node, "--store", "place"], more].concat())
    };
    let early = on("b", "unit", &["x"]);
    assert!(String::from_utf8_lossy(&early.stderr).contains("place holds no run"), "{early:?}");
    let planned: Value = serde_json::from_slice(&on("a", "plan", &["--json"]).stdout).unwrap();
    let left = planned["status"]["left"].as_array().unwrap();
    let ids: Vec<&str> = left.iter().map(|unit| unit["unit"].as_str().unwrap()).collect();
    // Another run may not begin there.
    let other = on("z", "plan", &["--limit", "2"]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("place holds another run"), "{other:?}");
    let outcome = |node: &str, unit: &str| {
        let said = lines(&on(node, "unit", &[unit]).stdout);
        said[1]["outcome"].as_str().unwrap().to_owned()
    };
    for store in ["data", "place/../data", "q", ""] {
        let asked = [&["cluster", "plan"], &OF[..], &["--out", "q", "--store", store]].concat();
        let refused = place.program(&asked);
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && told.contains("`--store"), "{store}: {told}");
        assert!(!place.at("q").exists());
        assert!(!place.at("data/_manifest.json").exists());
    }
    // Other bytes of a unit that nobody has published: it is not published over them.
    let part =
        |table: &str| place.at(&format!("place/parts/{table}/variant_group=model-free/u-{}.parquet", ids[0]));
    fs::create_dir_all(part("events").parent().unwrap()).unwrap();
    fs::write(part("events"), "other").unwrap();
    assert_eq!((outcome("b", ids[0]).as_str(), part("cells").exists()), ("failed", false));
    // Who is at it goes on with others.
    let mut worker = Command::new(env!("CARGO_BIN_EXE_trajpress"));
    worker.args(["cluster", "worker"]).args(OF).args(["--out", "g", "--store", "place", "--quiet"]);
    worker.current_dir(place.0.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut worker = worker.spawn().unwrap();
    worker.stdin.take().unwrap().write_all(format!("{}\n{}\n", ids[0], ids[2]).as_bytes()).unwrap();
    let said = lines(&worker.wait_with_output().unwrap().stdout);
    assert_eq!([&said[1]["outcome"], &said[2]["outcome"]], ["failed", "done"]);
    assert!(said[1]["reason"].as_str().unwrap().contains("again: parts/cells/"), "{said:?}");
    fs::remove_file(part("events")).unwrap();
    for (i, id) in ids.iter().enumerate().filter(|(i, _)| *i != 2) {
        assert_eq!(outcome(["b", "c"][i % 2], id), "done");
    }
    assert_eq!((outcome("b", ids[0]), outcome("c", ids[0])), ("skipped".into(), "skipped".into()));
    // One who did it meanwhile is told so; other bytes stay out.
    let cells =
        |root: &str| place.at(&format!("{root}/parts/cells/variant_group=model-free/u-{}.parquet", ids[1]));
    fs::remove_file(cells("place")).unwrap();
    assert_eq!(outcome("c", ids[1]), "done", "what is in the folder is sent again");
    fs::write(cells("place"), "other").unwrap();
    let status = place.program(&["cluster", "status", "d", "--store", "place", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["published"].as_u64(), Some(ids.len() as u64), "{status}");
    let merged = on("d", "merge", &["--json"]);
    let damaged: Value = serde_json::from_slice(&merged.stdout).unwrap();
    assert_eq!((&damaged["finished"], &damaged["missing"][0]), (&false.into(), &ids[1].into()));
    // It says what to remove there; then the unit is left, and done again by whoever is asked.
    let told = String::from_utf8_lossy(&merged.stderr).into_owned();
    let (_, list) = told.split_once("done again: ").unwrap_or_else(|| panic!("{told}"));
    let list: Vec<&str> = list.lines().next().unwrap().split(", ").collect();
    assert!(list.len() == 6 && list[0].contains("/cells/"), "{told}");
    list.iter().for_each(|name| fs::remove_file(place.at("place").join(name)).unwrap());
    assert_eq!((outcome("f", ids[1]), outcome("f", ids[0])), ("done".into(), "skipped".into()));
    assert!(on("d", "merge", &["--quiet"]).status.success());
    assert!(tables(&place, "d") == tables(&place, "serial"), "other bytes than in one process");
    // What a writer that died has left goes; what has a name stays.
    let (draft, young) = (place.at("place/parts/.draft-1"), place.at("place/parts/.draft-2"));
    fs::write(&young, "1").unwrap();
    let old = fs::File::create(&draft).unwrap();
    old.set_modified(SystemTime::now() - Duration::from_secs(2 * 24 * 3600)).unwrap();
    let swept = place.program(&["cluster", "gc", "d", "--store", "place", "--json"]);
    let swept: Value = serde_json::from_slice(&swept.stdout).unwrap();
    assert_eq!((draft.exists(), young.exists(), &swept["files"]), (false, true, &1.into()), "{swept}");
    assert!(on("e", "merge", &["--quiet"]).status.success());
}

/// Who joins a run that is a sample need not say so; its report speaks of the corpus.
#[test]
fn a_sample_of_a_corpus_is_a_run() {
    let place = data();
    let planned = cluster(&place, "plan", &["--sample", "4", "--json"]);
    assert!(planned.status.success(), "{planned:?}");
    let said: Value = serde_json::from_slice(&planned.stdout).unwrap();
    let (drawn, known) = (&said["beginning"]["drawn"], &said["beginning"]["step_variants_known"]);
    assert_eq!((&drawn["sessions"], &drawn["of"], known), (&4.into(), &7.into(), &0.into()), "{said}");
    let left = place.program(&["cluster", "status", "r", "--left"]).stdout;
    for id in String::from_utf8(left).unwrap().lines() {
        assert!(cluster(&place, "unit", &[id]).status.success());
    }
    assert!(cluster(&place, "merge", &["--quiet"]).status.success());
    let again = place.program(&[&["run"], &OF[..], &["--out", "r", "--quiet"]].concat());
    assert!(again.status.success(), "{again:?}");
    let other = cluster(&place, "plan", &["--sample", "5"]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("`--sample` is 4 there, 5 here"), "{other:?}");
    let report = |more: &[&str]| place.program(&[&["report", "r"], more].concat());
    assert!(report(&["--population", "corpus"]).status.success());
    let summary = fs::read_to_string(place.at("r/report/summary.md")).unwrap();
    assert!(summary.contains("a sample of 4 of 7 sessions"), "{summary}");
    let whole = place.program(&["report", "serial", "--population", "corpus"]);
    assert!(String::from_utf8_lossy(&whole.stderr).contains("is no sample of a corpus"), "{whole:?}");
    // Rates of it say how much a budget buys: of what all 252 steps take four fifths, or all.
    let estimate = place.program(&["cluster", "estimate", "r", "--steps", "252", "--json"]).stdout;
    let estimate: Value = serde_json::from_slice(&estimate).unwrap();
    let all = estimate["work_hours"].as_f64().unwrap();
    let within = |hours: &str| {
        let told = place.program(
            &[
                &["cluster", "plan"],
                &OF[..],
                &["--out", "bought", "--fresh", "--budget-hours", hours, "--rates", "r", "--json"],
            ]
            .concat(),
        );
        let manifest = fs::read_to_string(place.at("bought/_manifest.json"));
        (
            told.status.success(),
            serde_json::from_str::<Value>(&manifest.unwrap_or_default()).unwrap_or_default()["sample"]
                .as_u64(),
        )
    };
    assert_eq!(within(&(1.1 * all).to_string()), (true, None));
    let (is_done, bought) = within(&(0.8 * all).to_string());
    assert!(is_done && (2..7).contains(&bought.unwrap_or(0)), "{bought:?}");
    assert!(!within("0.000000001").0, "not even two");
}

/// Slurm itself is not there: what it is asked to do is done as it does it, task by task, one of them late and one twice.
#[cfg(unix)]
#[test]
fn a_job_array_does_a_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = data();
    fs::create_dir(place.at("bin")).unwrap();
    let sbatch = r#"#!/usr/bin/env bash
set -e
for word in "$@"; do
  case "$word" in --array=0-*) last="${word#--array=0-}" ;; --dependency=afterany:7) after=yes ;; esac
done
echo "$*" >>jobs
if [ -z "${last:-}" ]; then [ "$after" = yes ] && bash -c "${@: -1}" >&2; echo 8; exit; fi
for task in $(seq "$last" -1 1) 1 0; do
  SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_TASK_COUNT=$((last + 1)) bash -c "${@: -1}" >&2
done
echo '7;cluster'
"#;
    fs::write(place.at("bin/sbatch"), sbatch).unwrap();
    fs::set_permissions(place.at("bin/sbatch"), fs::Permissions::from_mode(0o755)).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_trajpress")).parent().unwrap();
    let path =
        format!("{}:{}:{}", place.at("bin").display(), program.display(), std::env::var("PATH").unwrap());
    let mut script = Command::new("bash");
    script.arg(root().join("examples/cluster/slurm.sh")).arg("3").args(OF).args(["--out", "a run"]);
    let output = script.env("PATH", path).current_dir(place.0.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(place.at("jobs")).unwrap().lines().count(), 2);
    assert!(tables(&place, "a run") == tables(&place, "serial"), "other bytes than in one process");
}

/// `make cluster-test` has it in full.
#[test]
fn ray_loses_nothing_when_a_node_and_the_driver_are_killed() {
    let begun = Instant::now();
    let ray = Path::new(env!("CARGO_BIN_EXE_trajpress")).ancestors().nth(2).unwrap().join("ray");
    let mut install = Command::new("bash");
    install.arg(root().join("tests/cluster/install.sh")).arg(&ray).arg("120");
    let installed = install.output();
    if !installed.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!(
            "SKIPPED: ray and pyarrow could not be installed in two minutes, so NOTHING IS TRIED ON RAY: {installed:?}"
        );
        return;
    }
    eprintln!("ray and pyarrow were there after {} s", begun.elapsed().as_secs());
    let mut test = Command::new("python3");
    let path = std::env::var("PYTHONPATH").unwrap_or_default();
    test.env("PYTHONPATH", format!("{}:{path}", ray.display()));
    test.arg(root().join("tests/cluster/try.py")).arg(env!("CARGO_BIN_EXE_trajpress")).arg("--quick");
    let output = test.output().unwrap();
    let [told, errors] =
        [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned());
    if output.status.code() == Some(3) {
        eprintln!("SKIPPED: Ray does not begin on this machine, so NOTHING IS TRIED ON RAY: {errors}");
        return;
    }
    assert!(output.status.success(), "{told}{errors}");
    eprintln!("{told}");
}
