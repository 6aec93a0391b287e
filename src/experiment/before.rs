//! The final tables of the state of a run before this one. A night has a few sessions more at the end: row groups of sessions whose
//! cells are the same ones stand in the new tables as they stood in the old, and are copied as they are stored.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::Value;

use super::manifest;
use super::rows::CellPart;
use super::success::Success;
use crate::files::reach;
use crate::store::{self, CellId, CellKey, Row as _, TableReader, TableWriter};

/// Where they stand, in the folder of the run.
pub(super) const FOLDER: &str = "_before";

/// Puts the tables of a complete run aside. What is not complete has none.
pub(super) fn keep(out: &Path) -> anyhow::Result<()> {
    // Where it is damaged, nothing is known of the tables.
    let Ok(Some(success)) = Success::read(out) else { return Ok(()) };
    forget(out)?;
    let to = out.join(FOLDER);
    fs::create_dir(&to).with_context(|| format!("cannot make {}", to.display()))?;
    // The one that says that it is complete goes first, as where all is deleted.
    let tables = success.tables.iter().map(|table| table.path.as_str());
    for name in ["_SUCCESS"].into_iter().chain(tables) {
        let _ = fs::rename(out.join(name), to.join(name));
    }
    let _ = fs::copy(out.join(manifest::FILE), to.join(manifest::FILE));
    Ok(())
}

/// Deletes them.
pub(super) fn forget(out: &Path) -> anyhow::Result<()> {
    let folder = out.join(FOLDER);
    match reach::is_there(&folder)? {
        true => fs::remove_dir_all(&folder).with_context(|| format!("cannot delete {}", folder.display())),
        false => Ok(()),
    }
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct Before {
    folder: PathBuf,
    /// The first sessions of the run, whose cells are the same in both, and their places.
    places: HashMap<Arc<str>, usize>,
}

impl Before {
    /// What of the tables of before stands at the beginning of those of this run, whose cells are joined. Nothing where they are not
    /// what this very program wrote: another may write the same rows as other bytes.
    pub(super) fn open(out: &Path) -> Self {
        Self::read(out).ok().flatten().unwrap_or_default()
    }

    fn read(out: &Path) -> anyhow::Result<Option<Self>> {
        let folder = out.join(FOLDER);
        let Some(success) = Success::read(&folder)? else { return Ok(None) };
        let text = reach::read(&folder.join(manifest::FILE))?.context("it lacks a manifest")?;
        let manifest: Value = serde_json::from_slice(&text)?;
        if success.damaged(&folder)?.is_some() || manifest["made_by"] != manifest::made_by() {
            return Ok(None);
        }
        let cells = |folder: &Path| store::read::<CellId>(&folder.join(format!("{}.parquet", CellId::TABLE)));
        let (old, new) = (cells(&folder)?, cells(out)?);
        let mut n = old.iter().zip(&new).take_while(|(a, b)| a == b && a.status == "ok").count();
        // Whole sessions.
        let goes_on = |cells: &[CellId], n: usize| {
            n > 0 && cells.get(n).is_some_and(|cell| cell.trajectory == cells[n - 1].trajectory)
        };
        while goes_on(&old, n) || goes_on(&new, n) {
            n -= 1;
        }
        let sessions = new[..n].chunk_by(|a, b| a.trajectory == b.trajectory);
        let places =
            sessions.enumerate().map(|(place, cells)| (cells[0].trajectory.clone(), place)).collect();
        Ok(Some(Before { folder, places }))
    }

    /// Copies the row groups of a table that hold nothing else, and says of how many sessions. The last one was closed because there
    /// was no more.
    pub(super) fn copy<R: CellPart>(&self, writer: &mut TableWriter<R>) -> anyhow::Result<usize> {
        if self.places.is_empty() {
            return Ok(0);
        }
        let path = self.folder.join(format!("{}.parquet", R::TABLE));
        let opened = (TableReader::<CellKey>::open(&path), TableReader::open_to_copy(&path));
        // Another process that ends at the same time deletes them.
        let (Ok(keys), Ok(table)) = opened else { return Ok(0) };
        let (sizes, mut done) = (keys.row_groups(), 0);
        for (group, &n) in sizes.iter().enumerate().take(sizes.len().saturating_sub(1)) {
            let last = keys.read(group, &[n - 1..n])?;
            let Some(place) = last.first().and_then(|key| self.places.get(&key.trajectory)) else { break };
            writer.copy(&table, group)?;
            done = place + 1;
        }
        Ok(done)
    }
}
