//! Tables that were written are read again, whole, by row group and by column.

use std::path::Path;

use super::*;

#[test]
fn rows_survive_and_row_groups_end_between_trajectories() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("features.parquet");
    let row = |id: &str, step| FeatureRow {
        trajectory: id.to_owned(),
        step,
        tokens: 3,
        action_kind: None,
        path: Some("a/b.rs".to_owned()),
        span_end: vec![1, 2],
        span_tokens: vec![1, 2],
        atom: vec!["x_y".to_owned()],
        atom_kind: vec![1],
        atom_span: vec![0],
        atom_flags: vec![],
    };
    let rows = [vec![row("a", 0), row("a", 1)], vec![row("b", 0)]];
    let mut writer = TableWriter::create(&path, 1).unwrap();
    for group in &rows {
        writer.push(group.clone()).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), 3);
    assert_eq!(row_groups::<FeatureRow>(&path).unwrap(), 2);
    assert_eq!(read_row_group::<FeatureRow>(&path, 1).unwrap(), rows[1]);
    assert_eq!(read::<FeatureRow>(&path).unwrap(), rows.concat());
}

/// Three texts of a little less than 1 GiB: together more than the offsets of a batch can tell.
#[test]
#[ignore = "takes 6 GB of memory: `make soak`"]
fn more_than_two_gibibytes_of_text_in_a_row_group() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("steps.parquet");
    let mut writer = TableWriter::<StepRow>::create(&path, usize::MAX).unwrap();
    let text = |n: u8| String::from_utf8(vec![b'a' + n; 900 << 20]).unwrap();
    writer.push((0..3).map(|n| StepRow { text: text(n), ..StepRow::default() })).unwrap();
    assert_eq!(writer.finish().unwrap(), 3);
    let reader: TableReader<StepRow> = TableReader::open(&path).unwrap();
    let mut n = 0;
    reader
        .scan(0, |rows| {
            for row in rows {
                assert!(row.text.len() == 900 << 20 && row.text.as_bytes()[7] == b'a' + n);
                n += 1;
            }
        })
        .unwrap();
    assert_eq!(n, 3);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown").trim();
    println!("2.7 GB of text in one row group: written and read, peak memory {peak}");
}

/// Every write to this device fails as on a full disk.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_with_the_name_of_the_file() {
    let mut writer = TableWriter::<StepKey>::create(Path::new("/dev/full"), 1).unwrap();
    let pushed = writer.push([StepKey { trajectory: "x".repeat(1 << 20), edit_from: None }]);
    let error = pushed.and_then(|()| writer.finish().map(drop)).unwrap_err();
    assert!(format!("{error:#}").starts_with("cannot write /dev/full: "), "{error:#}");
}

#[test]
fn columns_carry_their_documentation() {
    let fields = ScoreRow::fields();
    assert!(fields.iter().all(|f| f.metadata().get("doc").is_some_and(|d| !d.is_empty())));
}
