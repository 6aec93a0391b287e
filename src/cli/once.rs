//! Logs that are read for one answer, and kept nowhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use tempfile::TempDir;

use super::{Output, count, tell};
use crate::experiment::Dataset;
use crate::files::ends::before_a_signal;
use crate::files::reach;
use crate::logs::{self, Limits, Report};

/// Of folders that this program made, with its process.
const NAME: &str = "trajpress-once-";

/// A folder that nobody else reads. It goes with the program, also by a signal; those of killed ones go first.
fn folder() -> anyhow::Result<TempDir> {
    let place = std::env::temp_dir();
    #[cfg(target_os = "linux")]
    for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(NAME).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            // What is another user's stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let prefix = format!("{NAME}{}-", std::process::id());
    // Before the first one is there: a signal may come at any moment.
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let (place, prefix) = (place.clone(), prefix.clone());
        before_a_signal(move || remove(&place, &prefix));
    });
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let folder = builder.tempdir_in(&place).with_context(|| {
        format!("cannot create a folder in {}\nhint: TMPDIR names another place", place.display())
    })?;
    Ok(folder)
}

/// Removes the folders whose names begin so, though threads may still write there.
fn remove(place: &Path, prefix: &str) {
    for _ in 0..100 {
        let all = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
        let ours =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
        let left: Vec<PathBuf> = all.filter(ours).collect();
        if left.is_empty() {
            return;
        }
        left.iter().for_each(|path| _ = fs::remove_dir_all(path));
        thread::sleep(Duration::from_millis(10));
    }
}

/// Reads and annotates logs into a folder that lives as long as it is held, with what the reading says of itself.
pub(super) fn read(
    logs: &[PathBuf],
    threads: usize,
    output: Output,
) -> anyhow::Result<(TempDir, Dataset, Report)> {
    for log in logs {
        anyhow::ensure!(reach::is_there(log)?, "{} is not there", log.display());
    }
    let folder = folder()?;
    let dir = folder.path().join("data");
    let options = logs::Options {
        inputs: logs.to_vec(),
        out: dir.clone(),
        threads,
        limits: Limits::default(),
        ..logs::Options::default()
    };
    let report = logs::ingest(&options, &mut |_| {})?;
    if let (0, Some(file)) = (report.trajectories, report.unreadable.first()) {
        anyhow::bail!("no session could be read, of {}: {}", file.path, file.format);
    }
    anyhow::ensure!(
        report.trajectories > 0,
        "no session was found\nhint: `trajpress ingest --explain FILE` says what a file is"
    );
    let unread = report.not_read.len() as u64 + report.unreadable.len() as u64;
    if !output.quiet && unread + report.rejects > 0 {
        let of = [(unread, "file", "could not be read"), (report.rejects, "record", "left out")];
        let of = of.into_iter().filter(|(n, ..)| *n > 0);
        let all: Vec<String> = of.map(|(n, noun, what)| format!("{} {what}", count(n, noun))).collect();
        tell(&format!("{}: `trajpress ingest` says which", all.join(", ")));
    }
    let (data, _) = Dataset::open_annotated(&dir, "o200k", threads)?;
    Ok((folder, data, report))
}
