//! `RUN/_attempts/`: who did what when. Never read for correctness.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use super::super::units::Unit;

/// What is read of a note again.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attempt {
    pub(super) unit: String,
    pub(super) outcome: String,
    step_variants: Option<u64>,
    begun_unix_ms: u64,
    ms: Option<u64>,
    /// That its process computed on.
    threads: Option<u64>,
    host: Option<String>,
    pid: u64,
}

/// Keeps what is noted of an attempt at a unit.
pub(super) fn note(out: &Path, unit: &Unit, note: &str) -> anyhow::Result<()> {
    let folder = out.join("_attempts");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for attempt in 0.. {
        let to = folder.join(format!("{}.{attempt}.json", unit.id));
        // Not synced: nothing depends on it.
        match File::create_new(&to).and_then(|mut file| file.write_all(note.as_bytes())) {
            Ok(()) => break,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e).with_context(|| format!("cannot write {}", to.display())),
        }
    }
    Ok(())
}

/// The notes that can be read.
pub(super) fn all(out: &Path) -> impl Iterator<Item = Attempt> {
    let notes = fs::read_dir(out.join("_attempts")).into_iter().flatten().flatten();
    notes.filter_map(|entry| serde_json::from_slice(&fs::read(entry.path()).ok()?).ok())
}

/// Step-variants a second of one thread over the attempts at some units.
pub(super) fn rate<'a>(attempts: impl Iterator<Item = &'a Attempt>) -> Option<f64> {
    let mut step_variants = 0;
    let mut processes: HashMap<(Option<&str>, u64, u64), Vec<(u64, u64)>> = HashMap::new();
    for attempt in attempts {
        let Some((n, ms)) = attempt.step_variants.zip(attempt.ms) else { continue };
        step_variants += n;
        let process = (attempt.host.as_deref(), attempt.pid, attempt.threads.unwrap_or(u64::MAX));
        processes.entry(process).or_default().push((attempt.begun_unix_ms, ms));
    }
    let ms: u64 = processes.into_iter().map(|((_, _, threads), attempts)| busy(&attempts, threads)).sum();
    (ms > 0 && step_variants > 0).then(|| step_variants as f64 * 1000.0 / ms as f64)
}

/// Milliseconds of the threads of a process, of attempts that began and took so long: where more are under way than there are
/// threads, they wait for a model side by side, and share the time.
fn busy(attempts: &[(u64, u64)], threads: u64) -> u64 {
    let mut changes: Vec<(u64, i64)> =
        attempts.iter().flat_map(|&(begun, ms)| [(begun, 1), (begun.saturating_add(ms), -1)]).collect();
    changes.sort_unstable();
    let (mut busy, mut at, mut running) = (0, 0, 0_i64);
    for (time, change) in changes {
        busy += (time - at) * running.unsigned_abs().min(threads);
        (at, running) = (time, running + change);
    }
    busy
}

/// Likewise, over all attempts noted in a run's folder.
pub(super) fn known_rate(out: &Path) -> Option<f64> {
    rate(all(out).collect::<Vec<_>>().iter())
}

/// Largest resident set of this process so far, where the system tells.
pub(super) fn peak_rss_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

pub(super) fn host() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    name.map(|n| n.trim().to_owned()).or_else(|| std::env::var("HOSTNAME").ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_side_by_side_shares_its_time() {
        // Eight at once on a thread for ten seconds are ten seconds; on two threads twenty; of a note without threads each counts.
        let eight = [(5, 10); 8];
        assert_eq!([1, 2, 8, u64::MAX].map(|threads| busy(&eight, threads)), [10, 20, 80, 80]);
        // One ends as another begins; then there is a gap.
        assert_eq!(busy(&[(0, 4), (4, 4), (20, 1), (6, 4)], 1), 11);
        let note = |pid| Attempt {
            step_variants: Some(100),
            ms: Some(1000),
            threads: Some(1),
            pid,
            ..Attempt::default()
        };
        assert_eq!(rate([note(1), note(1)].iter()), Some(200.0));
        assert_eq!(rate([note(1), note(2)].iter()), Some(100.0));
        assert_eq!(rate([].iter()), None);
    }
}
