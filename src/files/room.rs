//! How much room a disk has.

use std::path::Path;

/// Bytes that may still be written where a path is or will be; none where the system does not say.
pub fn free(path: &Path) -> Option<u64> {
    let there = path.ancestors().find(|path| path.exists()).filter(|path| !path.as_os_str().is_empty());
    at(there.unwrap_or(Path::new(".")))
}

#[cfg(unix)]
fn at(path: &Path) -> Option<u64> {
    let of = rustix::fs::statvfs(path).ok()?;
    of.f_bavail.checked_mul(of.f_frsize)
}

#[cfg(not(unix))]
fn at(_: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_told_of_folders_that_are_not_there_yet() {
        let dir = tempfile::tempdir().unwrap();
        let room = free(&dir.path().join("a/b"));
        assert_eq!(room.is_some(), cfg!(unix));
        assert!(room.is_none_or(|bytes| bytes > 0) && free(Path::new("nowhere/x")).is_some() == cfg!(unix));
    }
}
