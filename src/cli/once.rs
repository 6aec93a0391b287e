//! Logs that are read for one answer, and kept nowhere.

use std::path::PathBuf;

use anyhow::Context as _;
use tempfile::TempDir;

use super::{Output, count, tell};
use crate::experiment::Dataset;
use crate::files::reach;
use crate::logs::{self, Limits};

/// Reads and annotates logs into a folder that lives as long as it is held.
pub(super) fn read(logs: &[PathBuf], threads: usize, output: Output) -> anyhow::Result<(TempDir, Dataset)> {
    for log in logs {
        anyhow::ensure!(reach::is_there(log)?, "{} is not there", log.display());
    }
    let folder = tempfile::tempdir().context("cannot create a folder for the time being")?;
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
        let (files, records) = (count(unread, "file"), count(report.rejects, "record"));
        tell(&format!("{files} could not be read, {records} left out: `trajpress ingest` says which"));
    }
    let (data, _) = Dataset::open_annotated(&dir, "o200k", threads)?;
    Ok((folder, data))
}
