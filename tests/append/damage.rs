//! A damaged dataset, and what stays of what was annotated.

use super::*;

#[test]
fn a_damaged_dataset_is_not_added_to() {
    let place = Place::new();
    place.write("a.jsonl", &chat("a"));
    place.ingest("data");
    let path = place.at("data/steps.parquet");
    let mut bytes = fs::read(&path).unwrap();
    bytes[40] ^= 1;
    fs::write(&path, bytes).unwrap();
    place.write("b.jsonl", &chat("b"));
    let error = format!("{:#}", ingest(&place.options("data"), &mut |_| {}).unwrap_err());
    assert!(error.contains("steps.parquet") && error.contains("--fresh"), "{error}");
    let fresh = Options { mode: IngestMode::Fresh, ..place.options("data") };
    assert!(ingest(&fresh, &mut |_| {}).unwrap().before.unwrap().is_replaced);
    assert_eq!(place.rows("data").1.len(), 4);
}

#[test]
fn what_was_annotated_of_runs_that_stay_is_not_computed_again() {
    let place = Place::new();
    for i in 0..5 {
        place.write(&format!("s{i}.jsonl"), &session(&format!("s{i}"), &format!("o{i}"), &said("a", 3 + i)));
    }
    place.ingest("data");
    annotate(&place.at("data"), "o200k", 2).unwrap();
    place.write("s2.jsonl", &session("s2", "o2", &said("a", 9)));
    place.write("new.jsonl", &session("n", "on", &said("b", 12)));
    place.ingest("data");
    let (annotated, _) = annotate(&place.at("data"), "o200k", 2).unwrap();
    assert_eq!(annotated.n_kept, 4);
    place.ingest("whole");
    let (whole, _) = annotate(&place.at("whole"), "o200k", 2).unwrap();
    assert_eq!(whole.n_kept, 0);
    let sorted = |out: &str| {
        let at = |name: &str| place.at(out).join(name);
        let mut features: Vec<FeatureRow> = store::read(&at("features.parquet")).unwrap();
        let mut usage: Vec<UsageRow> = store::read(&at("usage.parquet")).unwrap();
        features.sort_by(|a, b| (&a.trajectory, a.step).cmp(&(&b.trajectory, b.step)));
        usage.sort_by(|a, b| (&a.trajectory, a.first_turn).cmp(&(&b.trajectory, b.first_turn)));
        (features, usage)
    };
    assert!(sorted("data") == sorted("whole"));
    let other = |a: &trajpress::Annotated| (a.n_tokens, a.n_spans, a.n_atoms.clone(), a.usage.clone());
    assert_eq!(other(&annotated), other(&whole));
}

/// The real logs, in two halves.
#[test]
fn real_logs_in_halves_are_those_at_once() {
    let Some(logs) = std::env::var_os("TRAJPRESS_LOGS").map(PathBuf::from) else {
        eprintln!("SKIPPED: TRAJPRESS_LOGS names no folder of logs");
        return;
    };
    let place = Place::new();
    let half = |out: &str, filter: Filter| {
        let options = Options { inputs: vec![logs.clone()], filter, ..place.options(out) };
        ingest(&options, &mut |_| {}).unwrap()
    };
    let digits = |range: &str| vec![format!("*[{range}].*")];
    half("data", Filter { include: digits("0-9a-h"), ..Filter::default() });
    let report = half("data", Filter::default());
    half("whole", Filter::default());
    assert!(report.before.unwrap().n_known > 20);
    let (mut data, mut whole) = (place.rows("data"), place.rows("whole"));
    assert_eq!(data.0.len(), whole.0.len());
    // Of equal runs the one that was read first stays, so that the sources differ.
    assert!(data.1 == whole.1);
    for rows in [&mut data.0, &mut whole.0] {
        rows.iter_mut()
            .for_each(|row| (row.source.clear(), row.source_key.clear(), row.label_source.take()).0);
    }
    assert!(data.0 == whole.0);
    assert_eq!(counts(&place.record("data"))["formats"], counts(&place.record("whole"))["formats"]);
}
