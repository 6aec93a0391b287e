//! Features that were computed before: they depend on nothing but the steps, of which a trajectory's id is the hash.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;

use crate::files::vouch;
use crate::store::{
    self, FeatureCount, FeatureKey, FeatureRow, PartnerRow, SCHEMA_VERSION, TableReader, TableWriter,
};
use crate::text::tokens::Tokenizer;
use crate::trajectory::Step;

use super::features::{self, FEATURES_VERSION, PIECE};
use super::{Steps, read_done};

/// The features in a folder that are good still.
#[derive(Default)]
pub(super) struct Kept {
    features: Option<TableReader<FeatureRow>>,
    /// Row group and rows of each trajectory.
    places: HashMap<String, (usize, Range<usize>)>,
    n_used: AtomicU64,
}

impl Kept {
    /// Those of the same tokenizer and version; none where nobody vouches for them.
    pub(super) fn open(data: &Path, tokenizer: &str) -> Self {
        Self::read(data, tokenizer).ok().flatten().unwrap_or_default()
    }

    fn read(data: &Path, tokenizer: &str) -> anyhow::Result<Option<Self>> {
        if !is_of(data, tokenizer)? {
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
                    // Those of one trajectory stand together, or there is something wrong with them.
                    let is_next = place.0 == group && place.1.end == at;
                    at += rows.len();
                    place.1 = if is_next { place.1.start..at } else { 0..0 };
                }
            })?;
        }
        Ok(Some(Kept { features: Some(TableReader::open_to_copy(&path)?), places, ..Kept::default() }))
    }

    /// The features of all steps of a trajectory, as many at a time as there are computed: what is not there is.
    pub(super) fn pieces<'a>(
        &'a self,
        id: &'a str,
        steps: &'a [Step],
        tokenizer: &'a Tokenizer,
    ) -> impl Iterator<Item = Vec<FeatureRow>> + 'a {
        let mut computed = features::pieces(id, steps, tokenizer);
        let (n_pieces, mut n_computed) = (steps.len().div_ceil(PIECE), 0);
        (0..n_pieces).map(move |n| {
            let rows = self.piece(id, steps.len(), n).or_else(|| {
                let rows = computed.nth(n - n_computed);
                n_computed = n + 1;
                rows
            });
            if n + 1 == n_pieces && n_computed == 0 {
                self.n_used.fetch_add(1, Ordering::Relaxed);
            }
            rows.unwrap_or_default()
        })
    }

    /// What is there of some trajectories, each short enough to hold its rows. They are read together: to read of a row group
    /// is to decode what stands before.
    pub(super) fn together(&self, part: &[Steps]) -> Vec<Option<Vec<FeatureRow>>> {
        let mut found: Vec<Option<Vec<FeatureRow>>> = part.iter().map(|_| None).collect();
        let Some(features) = &self.features else { return found };
        let mut places: Vec<(usize, Range<usize>, usize)> = Vec::new();
        for (at, (id, steps)) in part.iter().enumerate() {
            if let Some((group, range)) = self.places.get(id).filter(|(_, range)| range.len() == steps.len())
            {
                places.push((*group, range.clone(), at));
            }
        }
        places.sort_unstable_by_key(|(group, range, _)| (*group, range.start));
        for places in places.chunk_by(|a, b| a.0 == b.0) {
            let ranges: Vec<Range<usize>> = places.iter().map(|(_, range, _)| range.clone()).collect();
            let Ok(rows) = features.read(places[0].0, &ranges) else { continue };
            if rows.len() != ranges.iter().map(Range::len).sum::<usize>() {
                continue;
            }
            let mut rows = rows.into_iter();
            for (_, range, at) in places {
                found[*at] = Some(rows.by_ref().take(range.len()).collect());
            }
            self.n_used.fetch_add(places.len() as u64, Ordering::Relaxed);
        }
        found
    }

    /// The row group of the features of just these trajectories in this order, and what is counted of each of their steps.
    pub(super) fn group(&self, group: &[Steps]) -> Option<(usize, Vec<FeatureCount>)> {
        let features = self.features.as_ref()?;
        let number = self.places.get(&group.first()?.0)?.0;
        let mut at = 0;
        for (id, steps) in group {
            let (of, range) = self.places.get(id)?;
            if *of != number || *range != (at..at + steps.len()) {
                return None;
            }
            at = range.end;
        }
        let mut counts = Vec::with_capacity(at);
        let read = features.columns_of::<FeatureCount>().scan(number, |rows| counts.extend(rows));
        let is_whole = read.is_ok() && counts.len() == at && features.row_groups()[number] == at;
        is_whole.then(|| {
            self.n_used.fetch_add(group.len() as u64, Ordering::Relaxed);
            (number, counts)
        })
    }

    /// Takes a row group over as it is stored.
    pub(super) fn copy(&self, writer: &mut TableWriter<FeatureRow>, number: usize) -> anyhow::Result<()> {
        writer.copy(self.features.as_ref().context("no features were kept")?, number)
    }

    /// A piece of the features of a trajectory of so many steps.
    fn piece(&self, id: &str, n_steps: usize, n: usize) -> Option<Vec<FeatureRow>> {
        let (group, range) = self.places.get(id).filter(|(_, range)| range.len() == n_steps)?;
        let start = range.start + n * PIECE;
        let range = start..range.end.min(start + PIECE);
        let rows = self.features.as_ref()?.read(*group, std::slice::from_ref(&range)).ok()?;
        (rows.len() == range.len()).then_some(rows)
    }

    /// Trajectories of which nothing was computed.
    pub(super) fn n_used(&self) -> u64 {
        self.n_used.load(Ordering::Relaxed)
    }
}

/// Whether `annotate.json` speaks of this tokenizer and version.
fn is_of(data: &Path, tokenizer: &str) -> anyhow::Result<bool> {
    // Which texts the tokenizer could not encode is not known by trajectory, and they are counted.
    Ok(read_done(data)?.is_some_and(|done| {
        done.tokenizer == tokenizer
            && done.features_version == FEATURES_VERSION
            && done.schema_version == SCHEMA_VERSION
            && done.n_tokenizer_failures == 0
    }))
}

/// The partners that trajectories in a folder have already; none where nobody vouches for them.
pub(super) fn partners(data: &Path, tokenizer: &str) -> Vec<PartnerRow> {
    let read = || {
        anyhow::ensure!(is_of(data, tokenizer)?, "of another version");
        vouch::check(data, "annotate.json", "annotate", &["partners.parquet"])?;
        store::read::<PartnerRow>(&data.join("partners.parquet"))
    };
    read().unwrap_or_default()
}
