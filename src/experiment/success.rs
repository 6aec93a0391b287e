//! `_SUCCESS`: what says that a run is complete, and what its tables are.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::publish;
use crate::files::{reach, vouch};

const MANIFEST: &str = "_manifest.json";

/// The file that says that a run is complete; readers take its list of tables, never a glob.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Success {
    /// Digest of `_manifest.json`.
    pub manifest: String,
    pub tables: Vec<FinalTable>,
}

/// A final table.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct FinalTable {
    /// Relative to the run's folder.
    pub path: String,
    pub sha256: String,
    pub rows: u64,
    pub bytes: u64,
}

impl Success {
    /// What the run in this folder said when it was complete; none if it was not.
    ///
    /// # Errors
    /// Where `_SUCCESS` is there and cannot be read: nothing it vouched for is known any more.
    pub fn read(run: &Path) -> anyhow::Result<Option<Self>> {
        let path = run.join("_SUCCESS");
        let Some(text) = reach::read(&path)? else { return Ok(None) };
        vouch::sealed(&text).and_then(|()| Ok(Some(serde_json::from_slice(&text)?))).map_err(|error| {
            anyhow::anyhow!(
                "{} is damaged: {error}\nhint: delete it and start the run again, which joins its tables anew",
                path.display()
            )
        })
    }

    /// What a folder says in which rows of a run are kept for a report alone (reports/rows.py): its manifest has their digests.
    ///
    /// # Errors
    /// Where the manifest cannot be read.
    pub fn kept(run: &Path) -> anyhow::Result<Option<Self>> {
        let Some(text) = reach::read(&run.join(MANIFEST))? else { return Ok(None) };
        let kept = serde_json::from_slice(&text)
            .ok()
            .and_then(|mut all: serde_json::Value| serde_json::from_value(all.get_mut("kept")?.take()).ok());
        Ok(kept.map(|tables| Success { manifest: publish::sha256_of(&text), tables }))
    }

    /// What is wrong with the first of its files that is missing or not what the run wrote.
    ///
    /// # Errors
    /// A file that is there and cannot be read.
    pub fn damaged(&self, run: &Path) -> anyhow::Result<Option<String>> {
        let is_other = |path: &Path| {
            format!("{} is not what the run wrote (its digest in _SUCCESS is another)", path.display())
        };
        // Tables may be kept without the manifest; one that is there is that of the run.
        let path = run.join(MANIFEST);
        if reach::read(&path)?.is_some_and(|text| publish::sha256_of(&text) != self.manifest) {
            return Ok(Some(is_other(&path)));
        }
        for table in &self.tables {
            let path = run.join(&table.path);
            if !reach::is_there(&path)? {
                return Ok(Some(format!("{} is missing, which the run wrote", path.display())));
            }
            let cannot = || format!("cannot read {}", path.display());
            // The size is told sooner than the digest.
            if fs::metadata(&path).with_context(cannot)?.len() != table.bytes
                || publish::sha256(&path)?.0 != table.sha256
            {
                return Ok(Some(is_other(&path)));
            }
        }
        Ok(None)
    }
}
