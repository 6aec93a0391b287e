//! Databases that are large.

use super::formats::database;
use super::*;

/// Rows are sorted on disk, and of each sorted piece one row is held.
#[cfg(target_os = "linux")]
#[test]
fn a_database_of_long_rows_is_read_within_its_memory() {
    let place = Place::new();
    let memory = 128 << 20;
    drop(database(&place.at("long.db"), 150, 2 << 20));
    let mut command = program();
    command.arg("ingest").arg(place.at("long.db")).arg("--out").arg(place.at("data"));
    command.args(["--threads", "1", "--max-memory", &memory.to_string()]);
    let (output, peak) = with_peak(command);
    // The session is over an eighth of the memory.
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let rejects = fs::read_to_string(place.at("data/rejects.jsonl")).unwrap();
    assert!(rejects.lines().count() == 1 && rejects.contains("a run of a database of "), "{rejects}");
    println!("a database of 300 MB in rows of 2 MB: {peak:.0} MB of {} allowed", memory >> 20);
    assert!(peak < (memory >> 20) as f64, "{peak} MB");
}
