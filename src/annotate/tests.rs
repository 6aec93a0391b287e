//! Tests of `annotate`.

use super::*;
use crate::store::step_rows;
use crate::trajectory::{Kind, Role, Trajectory, step};

fn dataset(dir: &Path) {
    dataset_of(dir, 12);
}

fn dataset_of(dir: &Path, n_trajectories: usize) {
    let mut trajectories =
        TableWriter::<TrajectoryRow>::create(&dir.join("trajectories.parquet"), 1 << 20).unwrap();
    let mut steps = TableWriter::<StepRow>::create(&dir.join("steps.parquet"), 600).unwrap();
    for n in 0..n_trajectories {
        let mut t = Trajectory { format: "toy".to_owned(), ..Trajectory::default() };
        t.repository = Some(format!("owner/name{}", n % 3));
        t.task_id = Some(format!("task-{n}"));
        t.steps.push(step(
            Role::User,
            Kind::Message,
            format!("Fix the broken parser in src/parse_{n}.rs, please"),
        ));
        t.steps.push(step(Role::Agent, Kind::Action, format!("cat src/parse_{n}.rs {}", "x ".repeat(n))));
        t.id = t.content_id();
        trajectories.push([TrajectoryRow::from(&t)]).unwrap();
        steps.push(step_rows(&t.id.clone(), t.steps)).unwrap();
    }
    trajectories.finish().unwrap();
    steps.finish().unwrap();
    vouch_for(dir);
}

/// The record of `ingest` for what is in the folder.
fn vouch_for(dir: &Path) {
    let tables: Tables =
        INGESTED.map(|name| (name.to_owned(), Made::of(&dir.join(name)).unwrap())).into_iter().collect();
    let record = serde_json::json!({ "tables": tables });
    fs::write(dir.join("ingest.json"), vouch::seal(&format!("{record:#}")).unwrap()).unwrap();
}

/// Each makes other rows where nobody looks: half a record, a table of other data, one bit.
#[test]
fn what_is_not_what_was_annotated_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    dataset(dir);
    annotate(dir, "o200k", 1).unwrap();
    let good = ANNOTATED.map(|name| fs::read(dir.join(name)).unwrap());
    let foreign = {
        let mut rows: Vec<FeatureRow> = store::read(&dir.join("features.parquet")).unwrap();
        rows.iter_mut().for_each(|row| row.tokens += 1);
        let path = dir.join("foreign.parquet");
        let mut writer = TableWriter::<FeatureRow>::create(&path, 1 << 20).unwrap();
        writer.push(rows).unwrap();
        writer.finish().unwrap();
        fs::read(path).unwrap()
    };
    for bad in [foreign, vec![], {
        let mut bad = good[0].clone();
        bad[60] ^= 4;
        bad
    }] {
        fs::write(dir.join("features.parquet"), bad).unwrap();
        assert!(annotate(dir, "o200k", 1).unwrap().1);
        assert!(ANNOTATED.map(|name| fs::read(dir.join(name)).unwrap()) == good);
    }
    fs::remove_file(dir.join("partners.parquet")).unwrap();
    assert!(annotate(dir, "o200k", 1).unwrap().1);
    assert!(!annotate(dir, "o200k", 1).unwrap().1);
    // Nothing says any more what the tables are.
    fs::remove_file(dir.join("ingest.json")).unwrap();
    let error = format!("{:#}", annotate(dir, "o200k", 1).unwrap_err());
    assert!(error.contains("ingest.json is missing"), "{error}");
}

#[test]
fn a_dataset_is_annotated_once_and_with_the_same_bytes_for_any_thread_count() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut bytes = Vec::new();
    for (dir, threads) in dirs.iter().zip([1, 3]) {
        dataset(dir.path());
        let (annotated, fresh) = annotate(dir.path(), "o200k", threads).unwrap();
        assert!(fresh);
        assert_eq!((annotated.n_trajectories, annotated.n_steps), (12, 24));
        assert_eq!(annotate(dir.path(), "o200k", threads).unwrap(), (annotated, false));
        let files = ["features.parquet", "partners.parquet", "usage.parquet", "annotate.json"];
        bytes.push(files.map(|name| fs::read(dir.path().join(name)).unwrap()));
    }
    assert!(bytes[0] == bytes[1]);
    let dir = dirs[0].path();
    let groups = store::row_groups::<StepRow>(&dir.join("steps.parquet")).unwrap();
    assert!(groups > 1);
    assert_eq!(store::row_groups::<FeatureRow>(&dir.join("features.parquet")).unwrap(), groups);
    for group in 0..groups {
        let steps = store::read_row_group::<StepRow>(&dir.join("steps.parquet"), group).unwrap();
        let features = store::read_row_group::<FeatureRow>(&dir.join("features.parquet"), group).unwrap();
        let key = |t: &str, s: u32| (t.to_owned(), s);
        let expected: Vec<_> = steps.iter().map(|r| key(&r.trajectory, r.step)).collect();
        assert_eq!(features.iter().map(|r| key(&r.trajectory, r.step)).collect::<Vec<_>>(), expected);
    }
    let partners: Vec<PartnerRow> = store::read(&dir.join("partners.parquet")).unwrap();
    assert_eq!(partners.iter().filter(|p| p.kind == "other_repository").count(), 12 * 5);
    assert!(annotate(dir, "cl100k", 1).unwrap().1, "another tokenizer");
}

/// One log more: the row groups of features before it are copied, with the bytes of a dataset that began with all.
#[test]
fn features_of_data_that_have_grown_are_copied() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [grown, whole] = dirs.each_ref().map(|dir| dir.path());
    dataset_of(grown, 12);
    annotate(grown, "o200k", 2).unwrap();
    [grown, whole].iter().for_each(|dir| dataset_of(dir, 13));
    let kept = Kept::open(grown, "o200k");
    let (read, groups) = mpsc::sync_channel(99);
    read_groups(&grown.join("steps.parquet"), read).unwrap();
    let copied: Vec<Option<usize>> =
        groups.into_iter().map(|group| kept.group(&group).map(|(number, _)| number)).collect();
    let n_before = store::row_groups::<FeatureRow>(&grown.join("features.parquet")).unwrap();
    assert!(
        n_before > 2 && copied[..n_before - 1].iter().copied().eq((0..n_before - 1).map(Some)),
        "{copied:?}"
    );
    let [(grown_is, _), (whole_is, _)] = [grown, whole].map(|dir| annotate(dir, "o200k", 2).unwrap());
    assert_eq!(grown_is.n_kept, 12);
    assert_eq!((grown_is.n_atoms, grown_is.n_spans), (whole_is.n_atoms, whole_is.n_spans));
    let files = ["features.parquet", "usage.parquet"];
    let [a, b] = [grown, whole].map(|dir| files.map(|name| fs::read(dir.join(name)).unwrap()));
    assert!(a == b);
}

/// Nine calls of usage 500 + 2 x ours, and one of a session of the same model.
#[test]
fn usage_is_fitted_by_session_and_model() {
    use crate::trajectory::{Builder, Usage};
    let dir = tempfile::tempdir().unwrap();
    let mut trajectories =
        TableWriter::<TrajectoryRow>::create(&dir.path().join("trajectories.parquet"), 1 << 20).unwrap();
    let mut steps = TableWriter::<StepRow>::create(&dir.path().join("steps.parquet"), 600).unwrap();
    for (name, n, unseen) in [("short", 1, 700), ("long", 9, 500), ("silent", 0, 0)] {
        let mut builder = Builder::new();
        builder.push(step(Role::User, Kind::Message, "one two three"));
        for i in 0..n.max(1) {
            builder.begin_call();
            let input = unseen + 2 * (3 + i);
            let usage = (n > 0).then(|| Box::new(Usage { input, ..Usage::default() }));
            builder.push(Step { usage, ..step(Role::Agent, Kind::Message, "go") });
        }
        let mut t = Trajectory { format: "toy".to_owned(), steps: builder.finish(), ..Trajectory::default() };
        t.model = Some("m".to_owned());
        t.id = name.to_owned();
        trajectories.push([TrajectoryRow::from(&t)]).unwrap();
        steps.push(step_rows(name, t.steps)).unwrap();
    }
    trajectories.finish().unwrap();
    steps.finish().unwrap();
    vouch_for(dir.path());
    let (annotated, _) = annotate(dir.path(), "o200k", 1).unwrap();
    let rows: Vec<UsageRow> = store::read(&dir.path().join("usage.parquet")).unwrap();
    let seen: Vec<_> = rows
        .iter()
        .map(|r| {
            (
                r.trajectory.as_str(),
                r.first_turn..r.end_turn,
                r.n_calls,
                r.unseen,
                r.factor,
                r.factor_of.as_str(),
            )
        })
        .collect();
    assert_eq!(seen, [("short", 0..2, 1, 700, 2.0, "model"), ("long", 0..10, 9, 500, 2.0, "session")]);
    assert_eq!((annotated.usage.n_sessions, annotated.usage.n_calls), (2, 10));
    assert_eq!(annotated.usage.residual_p90, Some(0.0));
    fs::remove_file(dir.path().join("usage.parquet")).unwrap();
    assert!(annotate(dir.path(), "o200k", 1).unwrap().1, "what is missing is made again");
}

#[test]
fn a_damaged_table_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["steps.parquet", "trajectories.parquet"] {
        dataset(dir.path());
        let path = dir.path().join(name);
        let good = fs::read(&path).unwrap();
        let mut holed = good.clone();
        holed[4..80].fill(0);
        for bad in [&good[..good.len() / 2], &holed[..]] {
            fs::write(&path, bad).unwrap();
            let error = format!("{:#}", annotate(dir.path(), "o200k", 1).unwrap_err());
            let (what, hint) = error.split_once("\nhint: ").expect(&error);
            assert!(what.contains(&path.display().to_string()), "{error}");
            assert!(hint.contains("trajpress ingest"), "{error}");
        }
    }
}

#[test]
fn a_missing_dataset_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let error = annotate(dir.path(), "o200k", 1).unwrap_err();
    assert!(format!("{error:#}").contains("hint: `ingest` writes it"), "{error:#}");
}
