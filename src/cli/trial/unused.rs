//! Trials of old: a folder for each choice of logs stays in the cache, and some are never asked for again.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::super::ingest::size;
use super::super::{count, tell};
use super::desk::{NOTE, maker};
use super::tell_unless;
use crate::files::lock::Lock;

/// So long a folder stays that nobody uses.
pub(super) const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Removes the folders but `own` that nobody used for so long or that another version made, and says so; gives how many. What cannot
/// be removed stays, and is told.
pub(super) fn remove(root: &Path, own: Option<&Path>, unused: Duration, quiet: bool) -> u64 {
    let (mut n, mut bytes) = (0, 0);
    for folder in fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if Some(&*folder) == own || !is_unused(&folder, unused) {
            continue;
        }
        // Somebody is at work there.
        let Ok(alone) = Lock::alone(&folder, "try") else { continue };
        let files = walkdir::WalkDir::new(&folder).into_iter().flatten();
        let held: u64 = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        match fs::remove_dir_all(&folder) {
            Ok(()) => (n, bytes) = (n + 1, bytes + held),
            Err(error) => tell(&format!("cannot remove {}, which is old: {error}", folder.display())),
        }
        drop(alone);
    }
    if n > 0 {
        let (folders, size) = (count(n, "folder"), size(bytes));
        let days = count(unused.as_secs() / (24 * 3600), "day");
        let why = format!("not used for {days}, or made by another version");
        tell_unless(
            quiet,
            &format!("removed {folders} of earlier calls from {} ({size}): {why}", root.display()),
        );
    }
    n
}

/// Whether it is a folder of a trial that serves nobody. Of one that cannot be read nothing is known.
fn is_unused(folder: &Path, unused: Duration) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_named = name.len() == 12 && name.bytes().all(|b| b.is_ascii_hexdigit());
    let note = folder.join(NOTE);
    let Some(used) = fs::metadata(&note).and_then(|about| about.modified()).ok().filter(|_| is_named) else {
        return false;
    };
    let is_old = SystemTime::now().duration_since(used).is_ok_and(|since| since >= unused);
    let made_by = |note: Vec<u8>| -> Option<String> {
        Some(serde_json::from_slice::<serde_json::Value>(&note).ok()?.get("made_by")?.as_str()?.to_owned())
    };
    is_old || fs::read(&note).is_ok_and(|note| made_by(note) != Some(maker()))
}
