//! Features that were computed before: they depend on nothing but the steps, of which a trajectory's id is the hash.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use crate::files::vouch;
use crate::store::{FeatureKey, FeatureRow, SCHEMA_VERSION, TableReader};

use super::features::FEATURES_VERSION;
use super::read_done;

/// The features in a folder that are good still.
pub(super) struct Kept {
    features: Option<TableReader<FeatureRow>>,
    /// Row group and rows of each trajectory.
    places: HashMap<String, (usize, Range<usize>)>,
}

impl Kept {
    /// Those of the same tokenizer and version; none where nobody vouches for them.
    pub(super) fn open(data: &Path, tokenizer: &str) -> Self {
        Self::read(data, tokenizer).ok().flatten().unwrap_or(Kept { features: None, places: HashMap::new() })
    }

    fn read(data: &Path, tokenizer: &str) -> anyhow::Result<Option<Self>> {
        // Which texts the tokenizer could not encode is not known by trajectory, and they are counted.
        let is_good = read_done(data)?.is_some_and(|done| {
            done.tokenizer == tokenizer
                && done.features_version == FEATURES_VERSION
                && done.schema_version == SCHEMA_VERSION
                && done.n_tokenizer_failures == 0
        });
        if !is_good {
            return Ok(None);
        }
        vouch::check(data, "annotate.json", "annotate", &["features.parquet"])?;
        let path = data.join("features.parquet");
        let keys: TableReader<FeatureKey> = TableReader::open(&path)?;
        let mut places: HashMap<String, (usize, Range<usize>)> = HashMap::new();
        for group in 0..keys.row_groups().len() {
            let mut at = 0;
            keys.scan(group, |rows| {
                for rows in rows.chunk_by(|a, b| a.trajectory == b.trajectory) {
                    let place = places.entry(rows[0].trajectory.clone()).or_insert((group, at..at));
                    at += rows.len();
                    place.1.end = at;
                }
            })?;
        }
        Ok(Some(Kept { features: Some(TableReader::open(&path)?), places }))
    }

    /// The features of a trajectory of so many steps.
    pub(super) fn rows(&self, id: &str, n_steps: usize) -> Option<Vec<FeatureRow>> {
        let (group, range) = self.places.get(id)?;
        let rows = self.features.as_ref()?.read(*group, std::slice::from_ref(range)).ok()?;
        (rows.len() == n_steps && rows.iter().all(|row| row.trajectory == id)).then_some(rows)
    }
}
