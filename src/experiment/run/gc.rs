//! Takes away what a run's folder holds and nobody needs any more.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

use super::super::finish::Success;
use super::super::fresh::size;
use super::super::units::{self, listed};
use super::share::Shared;
use super::status::status;
use crate::files::lock::Lock;

/// What was taken away.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Swept {
    /// Folders of processes that have ended.
    pub scratch: usize,
    /// Errors of units that are published by now, and parts that were set aside.
    pub quarantine: usize,
    /// Whether the parts were.
    pub parts: bool,
    pub files: u64,
    pub bytes: u64,
}

/// Takes away scratch of processes that have ended and errors that are no longer true; with `parts` those of a run whose tables
/// are there and sound: it can be read, but neither grow nor mend a table any more. Of the place of its parts, where that is not the
/// folder, what writers that died have left there; nothing that has a name.
///
/// # Errors
/// Another process is at work there, or `parts` are needed.
pub fn gc(out: &Path, shared: Option<&Shared>, parts: bool) -> anyhow::Result<Swept> {
    let lock = Lock::alone(out, "cluster gc")?;
    anyhow::ensure!(
        lock.is_sure(),
        "the file system of {} knows no locks, so another process may be at work there: nothing is deleted",
        out.display()
    );
    let status = status(out, shared)?;
    let mut swept = Swept::default();
    if let Some(shared) = shared {
        (swept.files, swept.bytes) = shared.sweep()?;
    }
    for name in listed(&out.join("_scratch"))? {
        swept.remove(&out.join("_scratch").join(name))?;
        swept.scratch += 1;
    }
    for name in listed(&out.join("_quarantine"))? {
        // What is left has an error that is still true.
        if !status.left.iter().any(|left| name.starts_with(&left.unit)) {
            swept.remove(&out.join("_quarantine").join(name))?;
            swept.quarantine += 1;
        }
    }
    if parts {
        let told = match Success::read(out)? {
            None => Some("the run is not finished".to_owned()),
            Some(success) => success.damaged(out)?,
        };
        if let Some(told) = told {
            anyhow::bail!(
                "the parts are needed: {told}\nhint: `trajpress cluster merge` makes the tables of them"
            );
        }
        let parts: PathBuf = units::parts(out);
        if parts.is_dir() {
            swept.remove(&parts)?;
            swept.parts = true;
        }
    }
    Ok(swept)
}

impl Swept {
    fn remove(&mut self, path: &Path) -> anyhow::Result<()> {
        size(path, &mut self.files, &mut self.bytes)?;
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.with_context(|| format!("cannot delete {}", path.display()))
    }
}
