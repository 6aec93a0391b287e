//! Of which sessions those of a run were drawn, where it is a sample.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;

use super::file;
use crate::files::reach;
use crate::store::{self, SampleRow};

/// What a sample was drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Corpus {
    pub(crate) n_sessions: u64,
    pub(crate) n_strata: usize,
}

/// The table `sample` of a run.
pub(super) struct Sampled {
    pub(super) corpus: Corpus,
    /// By trajectory.
    rows: BTreeMap<String, SampleRow>,
}

impl Sampled {
    /// None where the run is no sample.
    pub(super) fn of(folder: &Path) -> anyhow::Result<Option<Self>> {
        let path = file::<SampleRow>(folder);
        if !reach::is_there(&path)? {
            return Ok(None);
        }
        let rows: Vec<SampleRow> = store::read(&path)?;
        let strata: BTreeMap<u32, u64> = rows.iter().map(|row| (row.number, row.of)).collect();
        let corpus = Corpus { n_sessions: strata.values().sum(), n_strata: strata.len() };
        let rows = rows.into_iter().map(|row| (row.trajectory.clone(), row)).collect();
        Ok(Some(Sampled { corpus, rows }))
    }

    pub(super) fn row(&self, trajectory: &str) -> anyhow::Result<&SampleRow> {
        self.rows.get(trajectory).with_context(|| format!("the table `sample` lacks {trajectory}"))
    }
}
