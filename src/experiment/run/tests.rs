//! Resume, shards, damage, panics and outages.

mod cluster;

use crate::params::Param;
use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::before::Before;
use super::super::dataset::tests::{vouch_for, write as write_data};
use super::super::plan::{Catalogue, Known, Variant};
use super::super::publish;
use super::super::rows::error_cell;
use super::runner::MOST_OUTAGES;
use super::*;
use crate::models::Outage;
use crate::store::{self, CellRow, ContextRow, TableWriter, TimelineRow};

fn plan(change: &str) -> Plan {
    let known = |name, params| {
        let takes_model = name == "mask";
        Known { name, params, takes_model, check: Box::new(|_| Ok(false)) }
    };
    let catalogue = Catalogue {
        strategies: vec![known("full", &[]), known("mask", const { &[Param::any("keep_last", "1")] })],
        triggers: vec![known("turns", const { &[Param::any("n", "1")] })],
        formats: Vec::new(),
    };
    let text = format!(
        r#"
        name = "test"
        {change}
        strategies = [{{ name = "full" }}, {{ name = "mask", keep_last = [1, 2] }}, {{ name = "mask", model = "m" }}]
        triggers = [{{ name = "turns", n = [1, 2] }}]
        "#
    );
    Plan::parse("x.toml", &text, &catalogue).unwrap()
}

/// Rows that depend on trajectory and variant alone, in an order that depends on neither.
fn rows(
    data: &Dataset,
    unit: &Unit,
    plan: &Plan,
    progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<UnitRows> {
    let mut rows = UnitRows::default();
    for variant in unit.variants.iter().rev() {
        for &index in &unit.trajectories {
            let t = data.trajectory(index)?;
            data.features(index)?.try_for_each(|row| row.map(drop))?;
            for step in 0..t.steps.len() as u32 {
                rows.timeline.push(TimelineRow {
                    variant: variant.id.as_str().into(),
                    trajectory: t.id.as_str().into(),
                    decision: step,
                    turn: step,
                    tokens_full: 1,
                    tokens_sent: 1,
                    ..TimelineRow::default()
                });
            }
            rows.contexts.extend(plan.contexts.then(|| ContextRow {
                variant: variant.id.as_str().into(),
                trajectory: t.id.as_str().into(),
                place: "left".into(),
                ..ContextRow::default()
            }));
            let mut cell = error_cell(&variant.id, &t.id, String::new());
            cell.status = "ok".to_owned();
            cell.error = None;
            cell.tokens_full = t.steps.iter().map(|s| s.text.len() as u64).sum();
            rows.cells.push(cell);
            progress(t.steps.len() as u64);
        }
    }
    Ok(rows)
}

fn tables(out: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(out)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.is_file())
        .map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&p).unwrap()))
        .collect()
}

struct Place {
    dir: tempfile::TempDir,
    data: Dataset,
    plan: Plan,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        write_data(&dir.path().join("data"), 17);
        let data = Dataset::open(&dir.path().join("data")).unwrap();
        Place { dir, data, plan: plan("") }
    }
    fn out(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    fn run(&self, name: &str, options: &Options, f: &UnitFn) -> anyhow::Result<Outcome> {
        let options = Options { quiet: true, ..options.clone() };
        run_with(&self.plan, &self.data, &self.out(name), &options, f)
    }
}

#[test]
fn tables_are_complete_and_sorted() {
    let place = Place::new();
    let outcome = place.run("r", &Options::default(), &rows).unwrap();
    // 5 variants without a model over six row groups, 2 under `m` over 17 trajectories.
    assert_eq!((outcome.n_units, outcome.done, outcome.skipped), (23, 23, 0));
    assert_eq!((outcome.cells_ok, outcome.cells_error), (17 * 7, 0));
    assert!(outcome.finished && outcome.is_clean());
    let cells: Vec<CellRow> = store::read(&place.out("r").join("cells.parquet")).unwrap();
    let free: Vec<&Variant> = place.plan.groups().into_iter().flat_map(|g| g.1).collect();
    let expected: Vec<(String, String)> =
        (0..17).flat_map(|t| free.iter().map(move |v| (format!("t{t:02}"), v.id.clone()))).collect();
    let found: Vec<(String, String)> =
        cells.iter().map(|c| (c.trajectory.to_string(), c.variant.to_string())).collect();
    assert_eq!(found, expected);
    let success: finish::Success =
        serde_json::from_slice(&fs::read(place.out("r").join("_SUCCESS")).unwrap()).unwrap();
    let sizes: Vec<(&str, u64)> = success.tables.iter().map(|t| (t.path.as_str(), t.rows)).collect();
    assert_eq!(sizes[0], ("cells.parquet", 17 * 7));
    assert_eq!(sizes[6], ("trajectories.parquet", 17));
    let variants: Vec<store::VariantRow> = store::read(&place.out("r").join("variants.parquet")).unwrap();
    assert!(
        variants.iter().all(|v| v.control == (v.strategy == "full")),
        "`full` is a control, `mask` is none"
    );
    for table in &success.tables {
        let (sha256, bytes) = publish::sha256(&place.out("r").join(&table.path)).unwrap();
        assert_eq!((sha256, bytes), (table.sha256.clone(), table.bytes));
    }
    assert!(!place.out("r").join("_scratch").read_dir().unwrap().any(|_| true));
}

#[test]
fn threads_shards_and_kills_change_no_byte() {
    let place = Place::new();
    place.run("whole", &Options::default(), &rows).unwrap();
    let whole = tables(&place.out("whole"));

    place.run("one", &Options { threads: Some(1), ..Options::default() }, &rows).unwrap();
    assert!(tables(&place.out("one")) == whole);

    for i in [2, 0, 1] {
        let shard = Options { shard: Some((i, 3)), ..Options::default() };
        let outcome = place.run("shards", &shard, &rows).unwrap();
        assert_eq!((outcome.n_units, outcome.finished), ([8, 8, 7][i], false));
        let early = Options { finish: true, ..Options::default() };
        let early = place.run("shards", &early, &rows).unwrap();
        assert_eq!(early.finished, i == 1, "{early:?}");
        assert_eq!(early.done, 0);
    }
    assert!(tables(&place.out("shards")) == whole);

    // A process that dies in the middle of a unit leaves what it has published so far.
    let left = Mutex::new(3);
    let dying = |d: &Dataset, u: &Unit, p: &Plan, f: &(dyn Fn(u64) + Sync)| {
        let mut left = left.lock().unwrap();
        *left -= 1;
        if *left < 0 {
            // An output error stops the run; a folder in the way of a part is one.
            fs::create_dir_all(place.out("killed/parts/scores")).unwrap();
            let way = place.out("killed/parts/scores/variant_group=model-free");
            if !way.is_file() {
                let _ = fs::rename(&way, place.out("aside"));
                fs::write(&way, "in the way").unwrap();
            }
        }
        rows(d, u, p, f)
    };
    let options = Options { threads: Some(1), ..Options::default() };
    place.run("killed", &options, &dying).unwrap_err();
    let way = place.out("killed/parts/scores/variant_group=model-free");
    fs::remove_file(&way).unwrap();
    fs::rename(place.out("aside"), &way).unwrap();
    let again = place.run("killed", &options, &rows).unwrap();
    assert!(again.skipped >= 3 && again.done > 0, "{again:?}");
    assert!(tables(&place.out("killed")) == whole);

    let nothing = place.run("killed", &options, &|_, _, _, _| panic!("nothing to do")).unwrap();
    assert_eq!((nothing.done, nothing.skipped, nothing.cells_ok), (0, 23, 17 * 7));
}

#[test]
fn a_folder_of_data_is_no_folder_for_a_run() {
    let place = Place::new();
    let before = tables(&place.out("data"));
    for shard in [None, Some((0, 2))] {
        let options = Options { shard, ..Options::default() };
        let error = place.run("data", &options, &rows).unwrap_err().to_string();
        assert!(error.contains("holds data (ingest.json)") && error.contains("hint: "), "{error}");
    }
    for note in ["ingest.json", "annotate.json"] {
        fs::create_dir(place.out(note)).unwrap();
        fs::write(place.out(note).join(note), "{}").unwrap();
        place.run(note, &Options::default(), &rows).unwrap_err();
        assert_eq!(fs::read_dir(place.out(note)).unwrap().count(), 1);
    }
    assert!(tables(&place.out("data")) == before);
    assert!(!place.out("data/parts").exists());
}

#[test]
fn nothing_is_finished_where_nothing_was_begun() {
    let place = Place::new();
    let options = Options { finish: true, ..Options::default() };
    let error = place.run("r", &options, &rows).unwrap_err().to_string();
    assert!(error.contains("holds no parts of a run"), "{error}");
    assert!(!place.out("r").exists());
}

#[test]
fn two_processes_on_one_folder_agree() {
    let place = Place::new();
    place.run("whole", &Options::default(), &rows).unwrap();
    let options = Options { threads: Some(2), ..Options::default() };
    let outcomes = std::thread::scope(|s| {
        let one = || place.run("both", &options, &rows).unwrap();
        [s.spawn(one), s.spawn(one)].map(|t| t.join().unwrap())
    });
    assert!(outcomes.iter().all(|o| o.finished && o.nondeterministic == 0));
    assert!(tables(&place.out("both")) == tables(&place.out("whole")));
}

#[test]
fn a_bad_cell_is_a_row_and_the_rest_is_kept() {
    let place = Place::new();
    let bad = place.plan.variants[1].id.clone();
    let failing = |d: &Dataset, u: &Unit, p: &Plan, f: &(dyn Fn(u64) + Sync)| {
        for &i in &u.trajectories {
            let id = &d.entries()[i].id;
            anyhow::ensure!(id != "t04", "no good");
            assert!(id != "t11" || u.variants.iter().all(|v| v.id != bad), "bug");
        }
        rows(d, u, p, f)
    };
    let outcome = place.run("r", &Options::default(), &failing).unwrap();
    assert_eq!((outcome.cells_ok, outcome.cells_error), (17 * 7 - 8, 8));
    assert!(outcome.finished && !outcome.is_clean());
    let cells: Vec<CellRow> = store::read(&place.out("r").join("cells.parquet")).unwrap();
    let errors: Vec<(&str, &str)> = cells
        .iter()
        .filter(|c| c.status == "error")
        .map(|c| (&*c.trajectory, c.error.as_deref().unwrap()))
        .collect();
    assert_eq!(errors[..7], [("t04", "no good"); 7]);
    assert_eq!(errors[7].0, "t11");
    let at = "panic at src/experiment/run/tests.rs:";
    assert!(errors[7].1.starts_with(at) && errors[7].1.ends_with(": bug"), "{}", errors[7].1);
    // Resumed, the errors are still told.
    let again = place.run("r", &Options::default(), &rows).unwrap();
    assert_eq!((again.done, again.cells_error), (0, 8));
}

/// The next run tries those again, and makes the same tables as one without errors.
#[test]
fn cells_whose_program_was_given_up_are_tried_again() {
    let place = Place::new();
    let failing = |d: &Dataset, u: &Unit, p: &Plan, f: &(dyn Fn(u64) + Sync)| {
        let is_bad = u.trajectories.iter().any(|&i| d.entries()[i].id == "t04");
        anyhow::ensure!(!is_bad, "program `x` was given up: 5 answers in a row could not be used");
        rows(d, u, p, f)
    };
    let outcome = place.run("r", &Options::default(), &failing).unwrap();
    assert!(outcome.finished && outcome.cells_error == 7);
    assert!(outcome.first_error.unwrap().contains("given up") && outcome.cells_like_it == 7);
    let again = place.run("r", &Options::default(), &rows).unwrap();
    assert!(again.finished && again.done > 0 && again.skipped > 0, "{again:?}");
    assert_eq!((again.cells_error, again.nondeterministic), (0, 0));
    place.run("whole", &Options::default(), &rows).unwrap();
    assert!(tables(&place.out("r")) == tables(&place.out("whole")));
    assert_eq!(place.run("r", &Options::default(), &rows).unwrap().done, 0);
}

#[test]
fn rows_of_a_unit_must_be_those_of_its_cells() {
    let place = Place::new();
    let short = |d: &Dataset, u: &Unit, p: &Plan, f: &(dyn Fn(u64) + Sync)| {
        let mut all = rows(d, u, p, f)?;
        all.cells.pop();
        Ok(all)
    };
    let outcome = place.run("short", &Options::default(), &short).unwrap();
    assert_eq!(outcome.cells_ok, 0);
    let stray = |d: &Dataset, u: &Unit, p: &Plan, f: &(dyn Fn(u64) + Sync)| {
        let mut all = rows(d, u, p, f)?;
        all.timeline[0].trajectory = "elsewhere".into();
        Ok(all)
    };
    let outcome = place.run("stray", &Options::default(), &stray).unwrap();
    assert_eq!(outcome.cells_ok, 0);
}

/// One log more: what is known is taken over, with the bytes of a run that began with all.
#[test]
fn data_that_have_grown_cost_what_is_new() {
    let mut place = Place::new();
    place.run("r", &Options::default(), &rows).unwrap();
    let data = place.out("data");
    write_data(&data, 18);
    place.data = Dataset::open(&data).unwrap();
    place.run("whole", &Options::default(), &rows).unwrap();
    let computed = Mutex::new(Vec::new());
    let noting = |d: &Dataset, u: &Unit, p: &Plan, f: &(dyn Fn(u64) + Sync)| {
        computed.lock().unwrap().extend(u.trajectories.iter().map(|&i| d.entries()[i].id.clone()));
        rows(d, u, p, f)
    };
    // What is stopped before its end goes on likewise.
    let shard = Options { shard: Some((0, 2)), ..Options::default() };
    place.run("r", &shard, &noting).unwrap();
    // The tables of before are aside, and all but their last row group is copied.
    fs::copy(place.out("whole/cells.parquet"), place.out("r/cells.parquet")).unwrap();
    let path = place.out("timeline.parquet");
    let mut writer = TableWriter::create(&path, 1 << 20).unwrap();
    let n_copied = Before::open(&place.out("r")).copy::<TimelineRow>(&mut writer).unwrap();
    writer.finish().unwrap();
    let n_groups = |path: &Path| store::row_groups::<TimelineRow>(path).unwrap();
    assert_eq!(n_groups(&path) + 1, n_groups(&place.out("r/_before/timeline.parquet")));
    assert!((10..17).contains(&n_copied), "{n_copied}");
    let grown = place.run("r", &Options::default(), &noting).unwrap();
    assert!(tables(&place.out("r")) == tables(&place.out("whole")));
    assert!(!place.out("r/_before").exists());
    assert_eq!(*computed.lock().unwrap(), ["t17", "t17"], "once without a model, once with");
    assert_eq!((grown.cells_ok, grown.cells_again), (18 * 7, 0));
    let parts = |run: &str| units::published(&place.out(run), "scores").unwrap();
    assert_eq!(parts("r"), parts("whole"), "parts of before are gone");

    // Another plan is another run, unless it may take its place: then the cells of both stay.
    place.plan.variants.truncate(3);
    assert!(place.run("r", &Options::default(), &rows).is_err());
    computed.lock().unwrap().clear();
    let replace = Options { replace: true, ..Options::default() };
    let fewer = place.run("r", &replace, &noting).unwrap();
    assert_eq!((fewer.cells_ok, fewer.cells_known), (18 * 3, 18 * 3));
    assert!(computed.lock().unwrap().is_empty());
    // Data of other logs are no later state of these.
    fs::rename(&data, place.out("aside")).unwrap();
    fs::create_dir(&data).unwrap();
    write_data(&data, 3);
    place.data = Dataset::open(&data).unwrap();
    let error = place.run("r", &Options::default(), &rows).unwrap_err().to_string();
    assert!(error.contains("holds another run: the data"), "{error}");
}

/// Parts of before are deleted by all that end at the same time.
#[test]
fn many_delete_the_parts_of_before() {
    let dir = tempfile::tempdir().unwrap();
    for table in ["cells", "digests"] {
        let folder = units::parts(dir.path()).join(table).join("variant_group=model-free");
        fs::create_dir_all(&folder).unwrap();
        let end = if table == "cells" { "parquet" } else { "json" };
        (0..400).for_each(|n| fs::write(folder.join(format!("u-{n:03}.{end}")), "").unwrap());
    }
    std::thread::scope(|s| {
        let all: Vec<_> = (0..4).map(|_| s.spawn(|| prune(dir.path(), &[]))).collect();
        all.into_iter().for_each(|one| one.join().unwrap().unwrap());
    });
    for table in ["cells", "digests"] {
        assert_eq!(units::published(dir.path(), table).unwrap(), []);
    }
}

#[test]
fn two_processes_go_on_with_data_that_have_grown() {
    for _ in 0..5 {
        let mut place = Place::new();
        place.run("r", &Options::default(), &rows).unwrap();
        write_data(&place.out("data"), 18);
        place.data = Dataset::open(&place.out("data")).unwrap();
        place.run("whole", &Options::default(), &rows).unwrap();
        std::thread::scope(|s| {
            let one = || place.run("r", &Options::default(), &rows).unwrap();
            [s.spawn(one), s.spawn(one)].map(|t| t.join().unwrap())
        });
        assert!(tables(&place.out("r")) == tables(&place.out("whole")));
    }
}

/// What cannot be vouched for is computed again.
#[test]
fn damaged_rows_of_before_are_not_taken_over() {
    let mut place = Place::new();
    place.run("r", &Options::default(), &rows).unwrap();
    let data = place.out("data");
    write_data(&data, 18);
    place.data = Dataset::open(&data).unwrap();
    for (group, id) in units::published(&place.out("r"), "scores").unwrap() {
        fs::write(units::part_of(&place.out("r"), "timeline", &group, &id), "no table").unwrap();
    }
    place.run("whole", &Options::default(), &rows).unwrap();
    let outcome = place.run("r", &Options::default(), &rows).unwrap();
    assert!(outcome.is_clean() && outcome.cells_known == 0, "{outcome:?}");
    assert!(tables(&place.out("r")) == tables(&place.out("whole")));
}

/// A part that is gone is made again, and a run without them is another run.
#[test]
fn contexts_are_a_table_where_they_are_asked_for() {
    let mut place = Place::new();
    place.run("without", &Options::default(), &rows).unwrap();
    assert!(!place.out("without/contexts.parquet").exists());
    place.plan = plan("contexts = true");
    assert!(place.run("without", &Options::default(), &rows).is_err());
    let shard = Options { shard: Some((0, 1)), ..Options::default() };
    place.run("r", &shard, &rows).unwrap();
    let parts = place.out("r/parts/contexts/variant_group=m");
    let part = fs::read_dir(parts).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(part).unwrap();
    let outcome = place.run("r", &Options::default(), &rows).unwrap();
    assert_eq!((outcome.done, outcome.finished), (1, true));
    let contexts: Vec<ContextRow> = store::read(&place.out("r/contexts.parquet")).unwrap();
    assert_eq!(contexts.len(), 17 * 7);
    assert!(contexts.is_sorted_by(|a, b| a.trajectory <= b.trajectory));
    assert!(fs::read_to_string(place.out("r/_SUCCESS")).unwrap().contains("contexts.parquet"));
}

#[test]
fn other_bytes_are_told_and_the_first_stay() {
    let place = Place::new();
    let shard = Options { shard: Some((0, 1)), ..Options::default() };
    place.run("r", &shard, &rows).unwrap();
    // The end of each unit is gone, as if its process had been killed before: it is done again, and differs.
    for table in ["cells", "digests"] {
        fs::remove_dir_all(place.out("r/parts").join(table)).unwrap();
    }
    let other = |d: &Dataset, u: &Unit, p: &Plan, f: &(dyn Fn(u64) + Sync)| {
        let mut all = rows(d, u, p, f)?;
        all.timeline.pop();
        Ok(all)
    };
    let outcome = place.run("r", &Options::default(), &other).unwrap();
    assert_eq!((outcome.nondeterministic, outcome.lost_races), (23, 23));
    assert!(outcome.finished);
}

#[test]
fn damaged_parts_are_done_again() {
    let place = Place::new();
    let shard = Options { shard: Some((0, 1)), ..Options::default() };
    place.run("whole", &Options::default(), &rows).unwrap();
    place.run("r", &shard, &rows).unwrap();
    let parts = |table: &str| -> Vec<PathBuf> {
        let group = place.out("r/parts").join(table).join("variant_group=model-free");
        let mut all: Vec<PathBuf> = fs::read_dir(group).unwrap().map(|e| e.unwrap().path()).collect();
        all.sort();
        all
    };
    // A byte of one part is flipped, one is gone, one is cut off.
    let mut bytes = fs::read(&parts("scores")[0]).unwrap();
    bytes[40] ^= 1;
    fs::write(&parts("scores")[0], bytes).unwrap();
    fs::remove_file(&parts("events")[1]).unwrap();
    fs::write(&parts("cells")[2], "PAR1").unwrap();
    let finish = Options { finish: true, ..Options::default() };
    let early = place.run("r", &finish, &rows).unwrap();
    assert_eq!((early.missing.len(), early.finished), (3, false));
    let outcome = place.run("r", &Options::default(), &rows).unwrap();
    assert_eq!((outcome.done, outcome.finished, outcome.nondeterministic), (3, true, 0));
    assert_eq!(outcome.skipped, outcome.n_units - 3);
    // Found damaged in the same command that looked for what is left.
    fs::remove_file(&parts("events")[0]).unwrap();
    fs::remove_file(place.out("r/_SUCCESS")).unwrap();
    let outcome = place.run("r", &Options::default(), &rows).unwrap();
    assert_eq!((outcome.done, outcome.skipped), (1, outcome.n_units - 1));
    assert!(tables(&place.out("r")) == tables(&place.out("whole")));
    // A final table is joined again from the parts.
    let scores = place.out("r/scores.parquet");
    let mut bytes = fs::read(&scores).unwrap();
    bytes[40] ^= 1;
    fs::write(&scores, bytes).unwrap();
    assert!(place.run("r", &Options::default(), &rows).unwrap().finished);
    assert!(tables(&place.out("r")) == tables(&place.out("whole")));
}

#[test]
fn what_says_that_a_run_is_complete_is_checked_itself() {
    let place = Place::new();
    place.run("r", &Options::default(), &rows).unwrap();
    let read = || finish::Success::read(&place.out("r"));
    assert_eq!(read().unwrap().unwrap().damaged(&place.out("r")).unwrap(), None);
    let manifest = place.out("r/_manifest.json");
    let good = fs::read(&manifest).unwrap();
    let mut bad = good.clone();
    bad[9] ^= 1;
    fs::write(&manifest, bad).unwrap();
    let damaged = || read().unwrap().unwrap().damaged(&place.out("r"));
    let told = damaged().unwrap().unwrap();
    assert!(told.contains("_manifest.json is not what the run wrote"), "{told}");
    fs::write(&manifest, good).unwrap();
    let (cells, aside) = (place.out("r/cells.parquet"), place.out("r/aside"));
    fs::rename(&cells, &aside).unwrap();
    assert!(damaged().unwrap().unwrap().contains("cells.parquet is missing"));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("cells.parquet", &cells).unwrap();
        let error = format!("{:#}", damaged().unwrap_err());
        assert!(error.contains("cells.parquet: Too many levels of symbolic links"), "{error}");
        fs::remove_file(&cells).unwrap();
    }
    fs::rename(&aside, &cells).unwrap();
    let path = place.out("r/_SUCCESS");
    fs::write(&path, "{\"manifest").unwrap();
    for error in [read().unwrap_err(), place.run("r", &Options::default(), &rows).unwrap_err()] {
        let error = format!("{error:#}");
        assert!(error.contains(&format!("{} is damaged", path.display())), "{error}");
    }
    fs::remove_file(path).unwrap();
    assert_eq!(read().unwrap(), None);
}

#[test]
fn damaged_data_become_rows_with_the_error() {
    let mut place = Place::new();
    let path = place.out("data/features.parquet");
    let good = fs::read(&path).unwrap();
    let mut bad = good.clone();
    // Some pages of the first row group.
    bad[60..120].fill(0);
    fs::write(&path, &bad).unwrap();
    // Damage that was there when the record was written, or that only shows in reading.
    vouch_for(&place.out("data"));
    place.data = Dataset::open(&place.out("data")).unwrap();
    let mut outcomes = Vec::new();
    for (out, threads) in [("one", 1), ("two", 2)] {
        let options = Options { threads: Some(threads), ..Options::default() };
        let outcome = place.run(out, &options, &rows).unwrap();
        assert!(outcome.finished && !outcome.is_clean() && outcome.quarantined.is_empty());
        assert!(place.out(out).join("_quarantine").read_dir().unwrap().any(|_| true));
        outcomes.push((outcome.cells_ok, outcome.cells_error));
    }
    assert_eq!(outcomes[0], outcomes[1]);
    assert!(tables(&place.out("one")) == tables(&place.out("two")));
    let cells: Vec<CellRow> = store::read(&place.out("one/cells.parquet")).unwrap();
    let errors: Vec<&CellRow> = cells.iter().filter(|c| c.status == "error").collect();
    // Whole trajectories, all variants.
    assert!(errors.len().is_multiple_of(7) && errors.len() < cells.len() && !errors.is_empty());
    assert_eq!(outcomes[0], ((cells.len() - errors.len()) as u64, errors.len() as u64));
    let folder = place.dir.path().display().to_string();
    for cell in errors {
        let error = cell.error.as_deref().unwrap();
        let named = error.contains("row group 0 of") || error.contains("row group 1 of");
        assert!(named && error.contains("features.parquet") && !error.contains(&folder), "{error}");
    }
    // Mended, it is other data.
    fs::write(&path, &good).unwrap();
    vouch_for(&place.out("data"));
    place.data = Dataset::open(&place.out("data")).unwrap();
    assert!(place.run("mended", &Options::default(), &rows).unwrap().is_clean());
}

#[test]
fn data_that_change_under_a_run_are_quarantined_and_then_done() {
    let place = Place::new();
    let good = fs::read(place.out("data/steps.parquet")).unwrap();
    place.data.inputs().unwrap();
    let mut bad = good.clone();
    let middle = bad.len() / 4;
    bad[4..middle].fill(0);
    fs::write(place.out("data/steps.parquet"), &bad).unwrap();
    let outcome = place.run("r", &Options::default(), &rows).unwrap();
    assert!(!outcome.quarantined.is_empty() && !outcome.finished);
    assert_eq!(outcome.quarantined.len(), outcome.missing.len());
    assert!(place.out("r/_quarantine").read_dir().unwrap().any(|_| true));
    fs::write(place.out("data/steps.parquet"), &good).unwrap();
    let outcome = place.run("r", &Options::default(), &rows).unwrap();
    assert!(outcome.finished && outcome.is_clean());
    assert!(!place.out("r/_quarantine").read_dir().unwrap().any(|_| true));
}

#[test]
fn units_whose_model_is_gone_are_left_for_another_time() {
    let place = Place::new();
    let gone = |_: &Dataset, _: &Unit, _: &Plan, _: &(dyn Fn(u64) + Sync)| {
        let error = crate::models::CallError::Failed("connection refused".to_owned());
        Err(Outage { model: "m".to_owned(), error }.into())
    };
    let one = Options { threads: Some(1), ..Options::default() };
    let outcome = place.run("r", &one, &gone).unwrap();
    assert!(!outcome.finished && !outcome.is_clean() && outcome.done == 0);
    assert_eq!(outcome.quarantined.len(), MOST_OUTAGES, "the rest is not even tried");
    assert!(outcome.quarantined[0].1.contains("connection refused"), "{:?}", outcome.quarantined);
    let outcome = place.run("r", &one, &rows).unwrap();
    assert!(outcome.finished && outcome.is_clean());
    let undisturbed = place.run("s", &one, &rows).unwrap();
    assert!(undisturbed.is_clean() && tables(&place.out("r")) == tables(&place.out("s")));
}

#[test]
fn another_plan_in_the_same_folder_is_refused() {
    let mut place = Place::new();
    place.run("r", &Options::default(), &rows).unwrap();
    place.plan = plan("shadow_seeds = 9");
    let error = place.run("r", &Options::default(), &rows).unwrap_err().to_string();
    let error = error.replace(&place.out("r").display().to_string(), "RUN");
    assert_eq!(
        error,
        "RUN holds another run: `shadow_seeds` is 8 there, 9 here\n\
         hint: name another folder for `--out`, take its place with `--replace`, which takes over the rows that both have, or begin anew with `--fresh`"
    );
    let told = |place: &Place, options: &Options| {
        let error = place.run("r", options, &rows).unwrap_err().to_string();
        error.lines().next().unwrap().split_once("holds another run: ").unwrap().1.to_owned()
    };
    place.plan = plan("exclude = [{ trigger.n = 2 }]");
    assert_eq!(
        told(&place, &Options::default()),
        "the variant `mask(keep_last=1) @ turns(n=2) [model-free]` and 2 more are only there"
    );
    place.plan = plan("seed = 5");
    assert_eq!(told(&place, &Options::default()), "`seed` is 0 there, 5 here");
    place.plan = plan("");
    let limit = Options { limit: Some(3), ..Options::default() };
    assert_eq!(told(&place, &limit), "`--limit` is not set there, 3 here");
}

#[test]
fn a_fresh_run_is_as_one_in_a_new_folder() {
    let mut place = Place::new();
    place.run("r", &Options::default(), &rows).unwrap();
    fs::write(place.out("r/notes.txt"), "mine").unwrap();
    place.plan = plan("shadow_seeds = 9");
    let fresh = Options { fresh: true, ..Options::default() };
    // Of a folder that holds no run nothing is deleted, and one that is not there is made.
    for folder in ["r", "new"] {
        let outcome = place.run(folder, &fresh, &rows).unwrap();
        assert!(outcome.finished && outcome.skipped == 0, "{outcome:?}");
    }
    assert_eq!(fs::read_to_string(place.out("r/notes.txt")).unwrap(), "mine");
    fs::remove_file(place.out("r/notes.txt")).unwrap();
    assert!(tables(&place.out("r")) == tables(&place.out("new")));
}

#[test]
fn ids_of_units_depend_on_what_decides_their_rows() {
    let place = Place::new();
    let ids = |plan: &Plan| -> Vec<String> {
        let all: Vec<usize> = (0..17).collect();
        units::cut(plan, &place.data, &all).unwrap().into_iter().map(|u| u.id).collect()
    };
    let base = ids(&place.plan);
    assert_eq!(ids(&plan("data = { min_turns = 0 }")), base);
    for change in ["seed = 1", "shadow_seeds = 1", "reference_tails = [1]", "tokenizer = \"x\""] {
        let other = ids(&plan(change));
        assert!(other.iter().all(|id| !base.contains(id)), "{change}");
    }
}

#[test]
fn an_overview_runs_nothing() {
    let place = Place::new();
    let size = overview(&place.plan, &place.data, None, &Options::default()).unwrap();
    let steps: u64 = (0..17).map(|i| i % 5 + 1).sum();
    assert_eq!((size.n_units, size.step_variants), (23, steps * 7));
    assert_eq!((size.seconds_left, size.bytes_left), (None, None));
    // What is tried of so small a run is all of it.
    let tried = sample(&place.plan, &place.data, &Options::default(), &rows).unwrap();
    assert_eq!(tried.step_variants, size.step_variants);
    let mut known = size.clone();
    known.tried(&tried, 2);
    assert!(known.seconds_left.unwrap() > 0.0 && known.bytes_left == Some(2 * tried.bytes), "{known:?}");
    assert!(!place.out("parts").exists() && !place.out("_scratch").exists());
    place.run("r", &Options::default(), &rows).unwrap();
    let size = overview(&place.plan, &place.data, Some(&place.out("r")), &Options::default()).unwrap();
    assert_eq!(size.step_variants_left, 0);
}
