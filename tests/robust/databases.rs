//! Databases that are large, or written while they are read.

use std::sync::atomic::{AtomicBool, Ordering};

use trajpress::internals::store::StepRow;

use super::formats::{database, say};
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

/// A process writes one message after the other, each in a change of its own: what is read is all up to one of them, or it is
/// told that the database is busy.
#[test]
fn a_database_that_is_written_meanwhile_is_read_as_it_was_at_one_moment() {
    for mode in ["DELETE", "WAL"] {
        let place = Place::new();
        let writer = database(&place.at("a.db"), 20, 60);
        writer.pragma_update(None, "journal_mode", mode).unwrap();
        writer.busy_timeout(Duration::from_secs(60)).unwrap();
        let (n, is_over) = (times(5, 40), &AtomicBool::new(false));
        let (mut n_busy, mut n_messages, mut longest) = (0, 20, Duration::ZERO);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let start = Instant::now();
                let goes_on =
                    |_: &usize| !is_over.load(Ordering::Relaxed) && start.elapsed().as_secs() < 1000;
                for i in (20..).take_while(goes_on) {
                    writer.execute_batch("BEGIN").unwrap();
                    say(&writer, i, "and on and on");
                    writer.execute_batch("COMMIT").unwrap();
                }
            });
            for _ in 0..n {
                let start = Instant::now();
                let options = Options {
                    inputs: vec![place.at("a.db")],
                    out: place.at("data"),
                    mode: IngestMode::Fresh,
                    ..Options::default()
                };
                let report = ingest(&options, &mut |_| {}).unwrap();
                longest = longest.max(start.elapsed());
                let rows: Vec<StepRow> = store::read(&place.at("data/steps.parquet")).unwrap();
                if report.rejects > 0 {
                    let told = fs::read_to_string(place.at("data/rejects.jsonl")).unwrap();
                    assert!(rows.is_empty() && told.contains("hint: try again"), "{mode}: {told}");
                    n_busy += 1;
                    continue;
                }
                let is_said = |(i, row): (usize, &StepRow)| row.text.starts_with(&format!("Message {i} of"));
                assert!(rows.iter().enumerate().all(is_said) && rows.len() >= n_messages, "{mode}");
                n_messages = rows.len();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        println!(
            "a database in mode {mode}, written meanwhile: {n} times read, {n_busy} times told to be busy; {n_messages} messages at last; the longest took {longest:?}"
        );
    }
}
