//! Tests of `dataset`.

use std::path::Path;

use super::*;
use crate::annotate::{ANNOTATED, INGESTED};
use crate::files::vouch;
use crate::store::{Row, TableWriter, step_rows};
use crate::trajectory::{Kind, LoggedEdit, Role, step};

/// Writes `n` trajectories `t00`, `t01`, ..; the i-th has i % 5 + 1 steps. Row groups hold three.
pub(in crate::experiment) fn write(dir: &Path, n: usize) {
    fn create<R: Row>(dir: &Path) -> TableWriter<R> {
        TableWriter::create(&dir.join(format!("{}.parquet", R::TABLE)), usize::MAX).unwrap()
    }
    let (mut trajectories, mut steps) = (create::<TrajectoryRow>(dir), create::<StepRow>(dir));
    let (mut features, mut partners) = (create::<FeatureRow>(dir), create::<PartnerRow>(dir));
    let mut usage = create::<UsageRow>(dir);
    for i in 0..n {
        let id = format!("t{i:02}");
        let mut all: Vec<Step> =
            (0..i % 5 + 1).map(|k| step(Role::Tool, Kind::Observation, format!("{id} step {k}"))).collect();
        // One of them was sent otherwise.
        if i == 2 {
            all[1].edit = Some(Box::new(LoggedEdit { from: 1, text: String::new() }));
        }
        features
            .push((0..all.len()).map(|k| FeatureRow {
                trajectory: id.clone(),
                step: k as u32,
                tokens: k as u32,
                action_kind: None,
                path: None,
                span_end: vec![1, 2],
                span_tokens: vec![k as u32],
                atom: vec![],
                atom_kind: vec![],
                atom_span: vec![],
                atom_flags: vec![],
            }))
            .unwrap();
        let trajectory = Trajectory {
            id: id.clone(),
            source: format!("logs/{}", i % 2),
            format: if i % 2 == 0 { "even" } else { "odd" }.to_owned(),
            goal: Some(format!("goal {i}")),
            steps: all.clone(),
            ..Trajectory::default()
        };
        trajectories.push([TrajectoryRow::from(&trajectory)]).unwrap();
        steps.push(step_rows(&id, all)).unwrap();
        let partner = |kind: &str, rank, partner| PartnerRow {
            trajectory: id.clone(),
            kind: kind.to_owned(),
            rank,
            partner: format!("t{:02}", partner % n),
        };
        partners.push([partner("b", 0, i + 3), partner("a", 1, i + 2), partner("a", 0, i + 1)]).unwrap();
        if i % 3 == 2 {
            steps.end_row_group().unwrap();
            features.end_row_group().unwrap();
        }
    }
    trajectories.finish().unwrap();
    steps.finish().unwrap();
    features.finish().unwrap();
    partners.finish().unwrap();
    // Of one trajectory, later turns first.
    let row = |turn, unseen| UsageRow {
        trajectory: "t01".to_owned(),
        first_turn: turn,
        end_turn: turn + 3,
        unseen,
        factor: 1.5,
        ..UsageRow::default()
    };
    if n > 1 {
        usage.push([row(3, 70), row(0, 50)]).unwrap();
    }
    usage.finish().unwrap();
    vouch_for(dir);
}

/// The records of `ingest` and `annotate` for what is in the folder.
pub(in crate::experiment) fn vouch_for(dir: &Path) {
    let of = |names: &[&str]| -> vouch::Tables {
        names.iter().map(|name| ((*name).to_owned(), vouch::Made::of(&dir.join(name)).unwrap())).collect()
    };
    let ingested = of(&INGESTED);
    let annotated = serde_json::json!({
        "tables": of(&ANNOTATED),
        "steps_digest": ingested["steps.parquet"].blake3,
        "trajectories_digest": ingested["trajectories.parquet"].blake3,
    });
    std::fs::write(dir.join("annotate.json"), vouch::seal(&format!("{annotated:#}")).unwrap()).unwrap();
    let ingested = serde_json::json!({ "tables": ingested });
    std::fs::write(dir.join("ingest.json"), vouch::seal(&format!("{ingested:#}")).unwrap()).unwrap();
}

fn texts(loaded: &Trajectory) -> Vec<&str> {
    loaded.steps.iter().map(|s| s.text.as_str()).collect()
}

#[test]
fn loads_any_trajectories_of_any_row_groups() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 10);
    let data = Dataset::open(dir.path()).unwrap();
    assert_eq!(data.entries().len(), 10);
    let edited = data.entries().iter().filter(|e| e.is_edited).map(|e| e.id.as_str());
    assert_eq!(edited.collect::<Vec<_>>(), ["t02"]);
    let groups: Vec<usize> = data.entries().iter().map(|e| e.row_group).collect();
    assert_eq!(groups, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]);
    let read: Vec<Trajectory> = [1, 5, 9].iter().map(|&i| data.trajectory(i).unwrap()).collect();
    assert_eq!(texts(&read[0]), ["t01 step 0", "t01 step 1"]);
    assert_eq!(texts(&read[1]), ["t05 step 0"]);
    assert_eq!(data.features(9).unwrap().filter(Result::is_ok).count(), 5);
    assert_eq!(read[2].goal.as_deref(), Some("goal 9"));
}

/// Three are a block; the last stands alone, and is read by itself.
#[test]
fn what_is_read_with_its_neighbours_is_what_it_is_alone() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 10);
    let data = Dataset::open(dir.path()).unwrap();
    for index in [1, 0, 5, 1, 2, 3, 1, 4, 8, 6, 5] {
        let (trajectory, features) = data.with_neighbours(index).unwrap();
        let (alone, of_alone) = (data.trajectory(index).unwrap(), data.features(index).unwrap());
        assert_eq!(format!("{trajectory:?}"), format!("{alone:?}"));
        let of_alone: Vec<FeatureRow> = of_alone.map(Result::unwrap).collect();
        assert_eq!(format!("{features:?}"), format!("{of_alone:?}"));
    }
    assert!(data.with_neighbours(9).is_none());
}

#[test]
fn selects_and_finds() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 10);
    let data = Dataset::open(dir.path()).unwrap();
    let odd = Filter { formats: vec!["odd".to_owned()], ..Filter::default() };
    assert_eq!(data.select(&odd, 1, None).unwrap(), [1, 3, 5, 7, 9]);
    assert_eq!(data.select(&odd, 1, Some(2)).unwrap(), [1, 3]);
    let some = Filter { sources: vec!["logs/0".to_owned()], ..Filter::default() };
    assert_eq!(data.select(&some, 1, None).unwrap(), [0, 2, 4, 6, 8]);
    let three = Filter { sample: Some(3), ..Filter::default() };
    let drawn = data.select(&three, 1, None).unwrap();
    assert_eq!(drawn.len(), 3);
    assert!(drawn.iter().any(|i| i % 2 == 0) && drawn.iter().any(|i| i % 2 == 1), "{drawn:?}");
    assert!((2..9).any(|seed| data.select(&three, seed, None).unwrap() != drawn));
    let most = Filter { sample: Some(9), ..odd };
    assert_eq!(data.select(&most, 1, None).unwrap(), [1, 3, 5, 7, 9]);
    assert_eq!(data.find("t07"), Some(7));
    assert_eq!(data.find("t7"), None);
    let partners: Vec<(&str, usize)> = data.partners(8).map(|p| (p.kind, p.index)).collect();
    assert_eq!(partners, [("b", 1), ("a", 9), ("a", 0)]);
    assert!((0..10).all(|index| data.is_partner(index)) && !data.is_partner(10));
    assert_eq!(data.inputs().unwrap()[1].name, "steps.parquet");
}

#[test]
fn a_log_knows_how_its_prompts_were_counted() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 10);
    let data = Dataset::open(dir.path()).unwrap();
    assert_eq!(data.usage(1).unwrap().len(), 2);
    let mut rates = data.rates.iter().map(|(index, rate)| (*index, rate.unseen));
    assert_eq!((rates.next(), rates.next(), rates.next()), (Some((1, 50)), Some((1, 70)), None));
}

/// A writer puts new files in the place of the old ones.
#[test]
fn what_is_open_stays_what_it_was() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(dir.path(), 10);
    write(other.path(), 4);
    let data = Dataset::open(dir.path()).unwrap();
    let before = data.inputs().unwrap().to_vec();
    for name in FILES {
        std::fs::rename(other.path().join(name), dir.path().join(name)).unwrap();
    }
    assert_eq!(texts(&data.trajectory(9).unwrap()).len(), 5);
    assert_eq!(data.longest_prompts().unwrap().len(), 10);
    assert_eq!(data.select(&Filter::default(), 1, None).unwrap().len(), 10);
    assert_eq!((data.usage(1).unwrap().len(), data.contents().unwrap().len()), (2, 10));
    assert!(data.is_unchanged() && data.inputs().unwrap() == before);
    // The records are of the old ones still.
    assert!(Dataset::open(dir.path()).is_err());
    vouch_for(dir.path());
    assert_eq!(Dataset::open(dir.path()).unwrap().entries().len(), 4);
}

#[test]
fn damaged_tables_are_named_with_how_to_mend_them() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 10);
    for (table, command) in [
        ("steps", "trajpress ingest"),
        ("trajectories", "trajpress ingest"),
        ("features", "trajpress annotate"),
        ("partners", "trajpress annotate"),
        ("usage", "trajpress annotate"),
    ] {
        let path = dir.path().join(format!("{table}.parquet"));
        let good = std::fs::read(&path).unwrap();
        // Without its end, and without a first page.
        let mut holed = good.clone();
        holed[4..80].fill(0);
        for bad in [&good[..good.len() / 2], &holed[..]] {
            std::fs::write(&path, bad).unwrap();
            let Some(error) = Dataset::open(dir.path()).err().map(|e| format!("{e:#}")) else {
                // The features are read later.
                assert_eq!(table, "features");
                continue;
            };
            let (what, hint) = error.split_once("\nhint: ").expect(&error);
            assert!(what.contains(&path.display().to_string()) && hint.contains(command), "{error}");
        }
        std::fs::write(&path, good).unwrap();
    }
    Dataset::open(dir.path()).unwrap();
    std::fs::write(dir.path().join("_manifest.json"), "{}").unwrap();
    assert!(Dataset::open(dir.path()).err().unwrap().to_string().contains("is a run"));
}

#[test]
fn missing_tables_say_how_to_make_them() {
    let dir = tempfile::tempdir().unwrap();
    let error = |dir: &Path| Dataset::open(dir).err().map(|e| format!("{e:#}")).unwrap();
    assert!(error(dir.path()).contains("trajpress ingest"));
    write(dir.path(), 1);
    std::fs::remove_file(dir.path().join("features.parquet")).unwrap();
    assert!(error(dir.path()).contains("trajpress annotate"));
}
