//! `RUN/_attempts/`: who did what when. Never read for correctness.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use super::super::units::Unit;

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

/// Step-variants a second of one thread over all attempts noted in a run's folder.
pub(super) fn known_rate(out: &Path) -> Option<f64> {
    let (mut step_variants, mut ms) = (0, 0);
    for entry in fs::read_dir(out.join("_attempts")).ok()?.flatten() {
        let note = fs::read(entry.path()).ok();
        let Some(note) = note.and_then(|n| serde_json::from_slice::<Value>(&n).ok()) else {
            continue;
        };
        if let (Some(n), Some(t)) = (note["step_variants"].as_u64(), note["ms"].as_u64()) {
            step_variants += n;
            ms += t;
        }
    }
    (ms > 0).then(|| step_variants as f64 * 1000.0 / ms as f64)
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
