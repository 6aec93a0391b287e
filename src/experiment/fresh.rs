//! Deletes the run in a folder, so that another can begin there; whatever else stands in the folder stays.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context as _;
use indicatif::HumanBytes;
use serde_json::Value;

use super::{before, manifest};
use crate::files::lock::Lock;
use crate::files::{reach, seal};
use crate::store::{
    CellRow, ContextRow, EventRow, ItemRow, Row, SampleRow, ScoreRow, ShowcaseRow, TimelineRow,
    TrajectoryRow, UnitRow, VariantRow,
};

/// Tables of a run.
const TABLES: [&str; 11] = [
    CellRow::TABLE,
    EventRow::TABLE,
    ItemRow::TABLE,
    TimelineRow::TABLE,
    ScoreRow::TABLE,
    ShowcaseRow::TABLE,
    ContextRow::TABLE,
    VariantRow::TABLE,
    TrajectoryRow::TABLE,
    UnitRow::TABLE,
    SampleRow::TABLE,
];

/// Deletes what a run has in this folder, and says what that was. Nothing is done where there is none.
///
/// # Errors
/// Another process is at work there, or the manifest is not that of a run: then nothing is deleted.
pub(super) fn clear(out: &Path) -> anyhow::Result<Option<String>> {
    delete(out, "run --fresh", &["parts", "_attempts", "_quarantine", "_scratch", before::FOLDER])
}

/// Deletes what says that a run is complete and what it is, so that another may begin there, which takes over what it can
/// of the parts and, from where they are put aside, of its tables. A run that is stopped in between is still one, or its parts alone are there.
///
/// # Errors
/// As for [`clear`].
pub(super) fn reopen(out: &Path) -> anyhow::Result<()> {
    delete(out, "run", &[]).map(drop)
}

fn delete(out: &Path, who: &str, folders: &[&'static str]) -> anyhow::Result<Option<String>> {
    let lock = Lock::alone(out, who)?;
    let path = out.join(manifest::FILE);
    let Some(text) = reach::read(&path)? else { return Ok(None) };
    let manifest: Value = serde_json::from_slice(&text).unwrap_or_default();
    anyhow::ensure!(
        manifest["plan"]["variants"].is_array() && manifest["semantics"].is_u64(),
        "{} is not that of a run, so nothing is deleted\nhint: name another folder for `--out`",
        path.display()
    );
    anyhow::ensure!(
        lock.is_sure(),
        "the file system of {} knows no locks, so another process may be at work there: nothing is deleted\nhint: name another folder for `--out`",
        out.display()
    );
    if folders.is_empty() {
        before::keep(out)?;
    }
    let tables = TABLES.map(|table| format!("{table}.parquet"));
    // A digest that outlives its table would speak against the next one.
    let seal = seal::name_of(&format!("{}.parquet", ShowcaseRow::TABLE));
    // The one that says that it is complete goes first, the one that says that it is a run last: so what is stopped
    // in between is still a run, and can be deleted.
    let names = ["_SUCCESS"].into_iter().chain(tables.iter().map(String::as_str));
    let names = names.chain([seal.as_str()]).chain(folders.iter().copied()).chain([manifest::FILE]);
    let mut found = Vec::new();
    for name in names {
        let path = out.join(name);
        match fs::symlink_metadata(&path) {
            Ok(metadata) => found.push((name, path, metadata.is_dir())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot reach {}", path.display())),
        }
    }
    let (mut n_files, mut n_bytes) = (0, 0);
    for (_, path, _) in &found {
        size(path, &mut n_files, &mut n_bytes)?;
    }
    let listed: Vec<&str> = found.iter().map(|(name, ..)| *name).collect();
    for (_, path, is_folder) in &found {
        let removed = if *is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.with_context(|| format!("cannot delete {}", path.display()))?;
    }
    if reach::is_there(&out.join("report"))? {
        tracing::warn!("{}: this report is of the run that was there before", out.join("report").display());
    }
    let (shown, size, names) = (out.display(), HumanBytes(n_bytes), listed.join(", "));
    Ok(Some(format!("deleted the run in {shown}: {n_files} files, {size} ({names})")))
}

/// Adds up the files under a path; links count as what they are.
pub(super) fn size(path: &Path, n_files: &mut u64, n_bytes: &mut u64) -> anyhow::Result<()> {
    let cannot = || format!("cannot reach {}", path.display());
    let metadata = fs::symlink_metadata(path).with_context(cannot)?;
    if !metadata.is_dir() {
        (*n_files, *n_bytes) = (*n_files + 1, *n_bytes + metadata.len());
        return Ok(());
    }
    let inside: Vec<PathBuf> =
        fs::read_dir(path).and_then(|all| all.map(|e| Ok(e?.path())).collect()).with_context(cannot)?;
    inside.iter().try_for_each(|path| size(path, n_files, n_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"{ "semantics": 1, "plan": { "variants": [] } }"#;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_run_goes_and_what_else_is_there_stays() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("parts/cells")).unwrap();
        fs::create_dir_all(dir.path().join("report")).unwrap();
        let seal = "_showcase.parquet.blake3";
        for name in
            ["_SUCCESS", "cells.parquet", seal, "parts/cells/u.parquet", "report/summary.md", "notes.txt"]
        {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        // Without a manifest it is no run.
        clear(dir.path()).unwrap();
        assert_eq!(names(dir.path()).len(), 6);
        fs::write(dir.path().join(manifest::FILE), MANIFEST).unwrap();
        let other = Lock::together(dir.path(), "run").unwrap();
        assert!(clear(dir.path()).unwrap_err().to_string().contains("is being written by"));
        drop(other);
        clear(dir.path()).unwrap();
        assert_eq!(names(dir.path()), ["notes.txt", "report"]);
    }

    #[test]
    fn no_folder_but_that_of_a_run_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("parts")).unwrap();
        for text in ["{}", "not JSON", r#"{ "plan": 3 }"#, "[]"] {
            fs::write(dir.path().join(manifest::FILE), text).unwrap();
            let error = clear(dir.path()).unwrap_err().to_string();
            assert!(error.contains("is not that of a run, so nothing is deleted"), "{error}");
            assert_eq!(names(dir.path()), ["_manifest.json", "parts"]);
        }
    }
}
