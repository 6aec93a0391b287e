//! `RUN/_attempts/`: who did what when. Never read for correctness.

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
    ms: Option<u64>,
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
    let (mut step_variants, mut ms) = (0, 0);
    for (n, t) in attempts.filter_map(|attempt| attempt.step_variants.zip(attempt.ms)) {
        step_variants += n;
        ms += t;
    }
    (ms > 0 && step_variants > 0).then(|| step_variants as f64 * 1000.0 / ms as f64)
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
