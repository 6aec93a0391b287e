//! A folder that one command writes at a time.
//!
//! An advisory lock on a file in the folder: the system lets go of it when the process ends, however that
//! happens, so that nothing is left to clean up after a kill. The file names its owner for those who are
//! turned away. Knows nothing of what the folder holds.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// The file that is locked; its first line names who holds it.
const NAME: &str = ".trajpress.lock";

/// Holds a folder until it is dropped.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// None where the file system knows no locks.
    file: Option<File>,
}

/// Whether others may hold the folder too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Alone,
    Together,
}

impl Lock {
    /// Takes the folder for `command` alone; an error that names the owner if another process has it.
    pub fn alone(folder: &Path, command: &str) -> anyhow::Result<Self> {
        Self::at_once(folder, command, Kind::Alone)
    }

    /// Takes the folder with others that do the same; an error if somebody has it alone.
    pub fn together(folder: &Path, command: &str) -> anyhow::Result<Self> {
        Self::at_once(folder, command, Kind::Together)
    }

    /// Takes the folder for `command` alone, as soon as nobody else has it.
    pub fn wait(folder: &Path, command: &str) -> anyhow::Result<Self> {
        if let Some(lock) = take(folder, command, Kind::Alone)? {
            return Ok(lock);
        }
        tracing::info!("{} is being written by {}: waiting", folder.display(), owner(folder));
        loop {
            std::thread::sleep(std::time::Duration::from_millis(50));
            if let Some(lock) = take(folder, command, Kind::Alone)? {
                return Ok(lock);
            }
        }
    }

    /// Whether nobody else can be at work in the folder.
    pub fn is_sure(&self) -> bool {
        self.file.is_some()
    }

    /// Tries once more where nobody is named: the owner has not said yet who it is, or has gone meanwhile; and where one has
    /// alone what is for many, since that takes a moment.
    fn at_once(folder: &Path, command: &str, kind: Kind) -> anyhow::Result<Self> {
        for _ in 0..100 {
            if let Some(lock) = take(folder, command, kind)? {
                return Ok(lock);
            }
            if kind == Kind::Alone && named_owner(folder).is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        anyhow::bail!(
            "{} is being written by {}\nhint: wait until that has ended, or name another folder",
            folder.display(),
            owner(folder)
        )
    }
}

/// Takes the lock, or says that another process has it.
fn take(folder: &Path, command: &str, kind: Kind) -> anyhow::Result<Option<Lock>> {
    let path = folder.join(NAME);
    let cannot = || format!("cannot lock {}", folder.display());
    loop {
        let mut options = OpenOptions::new();
        let mut file =
            options.create(true).truncate(false).read(true).write(true).open(&path).with_context(cannot)?;
        let taken = match kind {
            Kind::Alone => file.try_lock(),
            Kind::Together => file.try_lock_shared(),
        };
        match taken {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                tracing::warn!(
                    "the file system of {} knows no locks: start nothing else that writes there",
                    folder.display()
                );
                return Ok(Some(Lock { path, file: None }));
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
        }
        // Who had the lock before may have removed the file between our two steps.
        if !is_at(&file, &path) {
            continue;
        }
        let owner = format!("trajpress {command}, process {}\n", std::process::id());
        file.set_len(0).and_then(|()| file.write_all(owner.as_bytes())).with_context(cannot)?;
        return Ok(Some(Lock { path, file: Some(file) }));
    }
}

/// Who holds the folder, as far as the file says so.
fn owner(folder: &Path) -> String {
    named_owner(folder).unwrap_or_else(|| "another process".to_owned())
}

fn named_owner(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join(NAME)).ok()?;
    // A line that has no end is still being written.
    text.split_once('\n').map(|(line, _)| line.to_owned()).filter(|line| !line.is_empty())
}

/// Whether the path still names this open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let number = |m: io::Result<fs::Metadata>| m.ok().map(|m| (m.dev(), m.ino()));
    number(file.metadata()).is_some_and(|number_of| number(fs::metadata(path)) == Some(number_of))
}

/// Elsewhere an open file cannot be removed.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> bool {
    true
}

impl Drop for Lock {
    /// The last one to leave removes the file; what stays does no harm.
    fn drop(&mut self) {
        let Some(file) = &self.file else { return };
        let _ = file.unlock();
        if file.try_lock().is_ok() && is_at(file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    #[test]
    fn an_owner_that_has_not_said_its_name_yet_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let mut held = File::create(&path).unwrap();
        held.try_lock().unwrap();
        std::thread::scope(|scope| {
            let refused = scope.spawn(|| Lock::alone(dir.path(), "ingest").unwrap_err().to_string());
            std::thread::sleep(std::time::Duration::from_millis(100));
            held.write_all(b"trajpress ingest, process 7\n").unwrap();
            assert!(refused.join().unwrap().contains("is being written by trajpress ingest, process 7\n"));
        });
        // One that ends without having said it leaves the folder to others.
        held.set_len(0).unwrap();
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| Lock::alone(dir.path(), "ingest"));
            std::thread::sleep(std::time::Duration::from_millis(100));
            drop(held);
            taken.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_folder_has_one_writer_and_the_owner_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::alone(dir.path(), "ingest").unwrap();
        let error = Lock::alone(dir.path(), "ingest").unwrap_err().to_string();
        let named = format!("is being written by trajpress ingest, process {}\n", std::process::id());
        assert!(error.contains(&named) && error.contains(&dir.path().display().to_string()), "{error}");
        assert!(Lock::together(dir.path(), "run").is_err());
        drop(lock);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
        // Many may share it, and nobody has it alone before the last of them is gone.
        let (a, b) = (Lock::together(dir.path(), "run").unwrap(), Lock::together(dir.path(), "run").unwrap());
        drop(a);
        assert!(Lock::alone(dir.path(), "ingest").is_err());
        drop(b);
        Lock::alone(dir.path(), "ingest").unwrap();
    }

    /// Removing the file as one leaves must not let two in.
    #[test]
    fn at_most_one_is_inside_whoever_comes_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, n_in) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..500 {
                        if let Ok(Some(lock)) = take(dir.path(), "x", Kind::Alone) {
                            assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
                            n_in.fetch_add(1, Ordering::Relaxed);
                            inside.store(false, Ordering::SeqCst);
                            drop(lock);
                        }
                    }
                });
            }
        });
        assert!(n_in.into_inner() > 0);
    }

    #[test]
    fn who_waits_comes_in_when_the_other_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::alone(dir.path(), "ingest").unwrap();
        std::thread::scope(|s| {
            let waiting = s.spawn(|| Lock::wait(dir.path(), "annotate").is_ok());
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waiting.is_finished());
            drop(lock);
            assert!(waiting.join().unwrap());
        });
    }
}
