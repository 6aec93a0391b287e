//! An ingested and annotated folder, read piece by piece.
//!
//! Knows which trajectories there are and where their rows stand; loads the rows of the ones asked
//! for. What stays in memory is a small entry a trajectory. Replays nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::Context as _;
use serde::Serialize;

use crate::context::log::Log;
use crate::experiment::plan::Filter;
use crate::experiment::{publish, stratified};
use crate::files::held::Held;
use crate::store::{
    FeatureRow, FeatureTokens, PartnerRow, StepModel, StepRow, StepUsage, TableReader, TrajectoryKey,
    TrajectoryRow, TrajectoryTraits, UsageRow,
};
use crate::trajectory::usage::{LongestPrompt, Rate};
use crate::trajectory::{Role, Step, Trajectory};

mod blocks;
mod chains;
mod open;

pub(super) use open::merge;

use blocks::Blocks;
use open::FILES;

/// What is known of a trajectory without reading it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub id: String,
    pub n_steps: u32,
    /// Whether the log records that something else was sent than what it holds.
    pub is_edited: bool,
    /// Row group of its steps and features.
    pub row_group: usize,
    /// Its first row in that row group.
    first_row: usize,
    /// Row group and row of its row in `trajectories`.
    row: (usize, usize),
}

impl Entry {
    /// Its rows in its row group.
    fn rows(&self) -> Range<usize> {
        self.first_row..self.first_row + self.n_steps as usize
    }
}

/// A partner for chance correction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Partner<'a> {
    /// other_repository or same_repository.
    pub kind: &'a str,
    /// Index of the partner.
    pub index: usize,
}

/// A file that rows are computed from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Input {
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
}

/// An open folder of data: what it held when it was opened, whoever writes there meanwhile.
pub struct Dataset {
    dir: PathBuf,
    files: BTreeMap<&'static str, Held>,
    steps: TableReader<StepRow>,
    features: TableReader<FeatureRow>,
    trajectories: TableReader<TrajectoryRow>,
    usage: TableReader<UsageRow>,
    /// In the order of the steps: this is the order of all output.
    entries: Vec<Entry>,
    blocks: Blocks,
    /// Indices of entries, sorted by id.
    by_id: Vec<u32>,
    partner_kinds: Vec<String>,
    /// Index, kind, rank, index of the partner; sorted.
    partners: Vec<(u32, u8, u32, u32)>,
    /// Those that are partners, in order.
    asked: Vec<u32>,
    /// Index, and what is known of the provider's count; sorted by index and turns.
    rates: Vec<(u32, Rate)>,
    inputs: OnceLock<Vec<Input>>,
    /// Of what tokenizer and version the features are.
    features_of: serde_json::Value,
    /// Chains of sessions: the last of the entries, in order.
    chains: Vec<Vec<usize>>,
    is_linked: bool,
}

impl Dataset {
    /// All trajectories, in the order of the data.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Index of a trajectory.
    pub fn find(&self, id: &str) -> Option<usize> {
        self.by_id
            .binary_search_by_key(&id, |&i| &self.entries[i as usize].id)
            .ok()
            .map(|at| self.by_id[at] as usize)
    }

    /// Partners of a trajectory: by kind, then in order of choice.
    pub fn partners(&self, index: usize) -> impl Iterator<Item = Partner<'_>> {
        let index = index as u32;
        let from = self.partners.partition_point(|p| p.0 < index);
        self.partners[from..]
            .iter()
            .take_while(move |p| p.0 == index)
            .map(|p| Partner { kind: &self.partner_kinds[usize::from(p.1)], index: p.3 as usize })
    }

    /// Whether any other trajectory has this one for a partner.
    pub fn is_partner(&self, index: usize) -> bool {
        self.asked.binary_search(&(index as u32)).is_ok()
    }

    /// Indices of the first `limit` trajectories that the filter takes, chains in the place of their sessions; its sample is drawn
    /// by the seed.
    pub fn select(&self, filter: &Filter, seed: u64, limit: Option<usize>) -> anyhow::Result<Vec<usize>> {
        anyhow::ensure!(
            filter.link.is_none() || self.is_linked,
            "`link` of the experiment is for `trajpress run` alone"
        );
        let mut taken = self.taken(filter, seed)?;
        self.chained(&mut taken);
        taken.truncate(limit.unwrap_or(usize::MAX));
        Ok(taken)
    }

    fn taken(&self, filter: &Filter, seed: u64) -> anyhow::Result<Vec<usize>> {
        let keys: TableReader<TrajectoryKey> = self.trajectories.columns_of();
        let mut formats: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for row_group in 0..keys.row_groups().len() {
            keys.scan(row_group, |rows| {
                let takes = |r: &TrajectoryKey| filter.takes(&r.trajectory, &r.format, &r.source, r.n_turns);
                for row in rows.into_iter().filter(takes) {
                    formats.entry(row.format).or_default().extend(self.find(&row.trajectory));
                }
            })?;
        }
        let mut taken = match filter.sample {
            Some(n) => self.sample(formats.into_values(), seed, n as usize),
            None => formats.into_values().flatten().collect(),
        };
        taken.sort_unstable();
        Ok(taken)
    }

    /// What makes the trajectories alike that the filter takes, in the order of the data.
    ///
    /// # Errors
    /// The filter links sessions, or draws a sample of its own.
    pub fn traits(&self, filter: &Filter, seed: u64) -> anyhow::Result<Vec<TrajectoryTraits>> {
        anyhow::ensure!(
            filter.link.is_none() && filter.sample.is_none(),
            "a sample by strata is drawn of single sessions: `link` and `sample` in section `data` of the experiment do not go with it"
        );
        let taken: HashSet<usize> = self.taken(filter, seed)?.into_iter().collect();
        let table: TableReader<TrajectoryTraits> = self.trajectories.columns_of();
        let mut traits: BTreeMap<usize, TrajectoryTraits> = BTreeMap::new();
        for row_group in 0..table.row_groups().len() {
            table.scan(row_group, |rows| {
                let found = rows.into_iter().filter_map(|row| Some((self.find(&row.trajectory)?, row)));
                traits.extend(found.filter(|(index, _)| taken.contains(index)));
            })?;
        }
        Ok(traits.into_values().collect())
    }

    /// Draws from each stratum in turn until there are `n`. What stands in a stratum's place is decided by its
    /// trajectories' ids alone, so that more data of one format do not change what is drawn of another.
    fn sample(&self, strata: impl Iterator<Item = Vec<usize>>, seed: u64, n: usize) -> Vec<usize> {
        let lot = |index: usize| stratified::lot(seed, &self.entries[index].id);
        let mut drawn: Vec<(usize, usize, usize)> = Vec::new();
        for (stratum, mut indices) in strata.enumerate() {
            indices.sort_by_cached_key(|&index| lot(index));
            drawn.extend(indices.into_iter().enumerate().map(|(place, index)| (place, stratum, index)));
        }
        drawn.sort_unstable();
        drawn.into_iter().take(n).map(|(.., index)| index).collect()
    }

    /// Rows of the table `trajectories`, without steps, in the order asked for.
    pub fn trajectory_rows(&self, indices: &[usize]) -> anyhow::Result<Vec<TrajectoryRow>> {
        let mut places: Vec<(usize, usize)> = indices.iter().map(|&i| self.entries[i].row).collect();
        places.sort_unstable();
        places.dedup();
        let mut rows = HashMap::new();
        for group in places.chunk_by(|a, b| a.0 == b.0) {
            let ranges = merge(group.iter().map(|&(_, row)| row..row + 1));
            let read = self.trajectories.read(group[0].0, &ranges)?;
            rows.extend(group.iter().copied().zip(read));
        }
        indices
            .iter()
            .map(|&i| {
                if let Some(sessions) = self.chain(i) {
                    return self.chain_row(i, sessions);
                }
                let entry = &self.entries[i];
                let row = rows.get(&entry.row).filter(|r| r.trajectory == entry.id);
                row.cloned().with_context(|| self.changed(&entry.id))
            })
            .collect()
    }

    /// A trajectory ready for replay; `is_bridged`: as if its own product had never compacted it.
    pub fn log(&self, index: usize, is_bridged: bool) -> anyhow::Result<Log> {
        if let Some(sessions) = self.chain(index) {
            return self.chain_log(index, sessions);
        }
        let make = if is_bridged { Log::bridge } else { Log::join };
        let mut log = match self.with_neighbours(index) {
            Some((trajectory, features)) => make(trajectory, Box::new(features.into_iter().map(Ok)))?,
            None => make(self.trajectory(index)?, Box::new(self.features(index)?))?,
        };
        let from = self.rates.partition_point(|(of, _)| (*of as usize) < index);
        let own = self.rates[from..].iter().take_while(|(of, _)| *of as usize == index);
        log.rates = own.map(|(_, rate)| rate.clone()).collect();
        Ok(log)
    }

    /// The longest prompt of each trajectory, read without a text.
    pub fn longest_prompts(&self) -> anyhow::Result<Vec<LongestPrompt>> {
        let steps: TableReader<StepUsage> = self.steps.columns_of();
        let features: TableReader<FeatureTokens> = self.features.columns_of();
        let mut all = Vec::with_capacity(self.entries.len());
        let sessions = &self.entries[..self.n_sessions()];
        for group in sessions.chunk_by(|a, b| a.row_group == b.row_group) {
            let (mut of_steps, mut tokens) = (Vec::new(), Vec::new());
            steps.scan(group[0].row_group, |rows| of_steps.extend(rows))?;
            features.scan(group[0].row_group, |rows| tokens.extend(rows))?;
            for entry in group {
                let (steps, tokens) = (of_steps.get(entry.rows()), tokens.get(entry.rows()));
                let (steps, tokens) = steps.zip(tokens).with_context(|| self.changed(&entry.id))?;
                let mut longest = LongestPrompt::default();
                for (step, tokens) in steps.iter().zip(tokens) {
                    let usage = step.usage_in.filter(|_| step.role == Role::Agent.name());
                    longest.add(step.turn, step.segment, tokens.tokens, usage);
                }
                all.push(longest);
            }
        }
        Ok(all)
    }

    /// Of each of these trajectories, the calls that another model answered than the first, by its name.
    pub fn other_models(&self, indices: &[usize]) -> anyhow::Result<Vec<BTreeMap<String, u64>>> {
        let steps: TableReader<StepModel> = self.steps.columns_of();
        let mut of_group: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (place, &index) in indices.iter().enumerate() {
            of_group.entry(self.entries[index].row_group).or_default().push(place);
        }
        let mut all = vec![BTreeMap::new(); indices.len()];
        for (group, places) in of_group {
            let mut rows = Vec::new();
            steps.scan(group, |read| rows.extend(read))?;
            for place in places {
                let entry = &self.entries[indices[place]];
                let own = rows.get(entry.rows()).with_context(|| self.changed(&entry.id))?;
                for name in own.iter().filter_map(|step| step.model.as_ref()) {
                    *all[place].entry(name.clone()).or_default() += 1;
                }
            }
        }
        Ok(all)
    }

    /// What is known of the provider's count of a trajectory: its stretches, in order.
    pub fn usage(&self, index: usize) -> anyhow::Result<Vec<UsageRow>> {
        let mut found = Vec::new();
        for row_group in 0..self.usage.row_groups().len() {
            let id = &self.entries[index].id;
            let own = |rows: Vec<UsageRow>| rows.into_iter().filter(|row| row.trajectory == *id);
            self.usage.scan(row_group, |rows| found.extend(own(rows)))?;
        }
        Ok(found)
    }

    /// Ids of the trajectories whose prompt fell by the provider's count, and no record says why.
    pub fn fell(&self) -> anyhow::Result<HashSet<String>> {
        let mut ids = HashSet::new();
        for row_group in 0..self.usage.row_groups().len() {
            let fell = |rows: Vec<UsageRow>| rows.into_iter().filter(|row| row.unlogged_edit);
            self.usage.scan(row_group, |rows| ids.extend(fell(rows).map(|row| row.trajectory)))?;
        }
        Ok(ids)
    }

    /// A trajectory with its steps.
    pub fn trajectory(&self, index: usize) -> anyhow::Result<Trajectory> {
        let entry = &self.entries[index];
        let row = self.trajectory_rows(&[index])?.pop().context("the data hold no such trajectory")?;
        self.joined(entry, row, self.steps.rows(entry.row_group, entry.rows())?)
    }

    /// The row of a trajectory with those of its steps.
    fn joined(
        &self,
        entry: &Entry,
        row: TrajectoryRow,
        steps: impl Iterator<Item = anyhow::Result<StepRow>>,
    ) -> anyhow::Result<Trajectory> {
        let steps = steps.map(|row| {
            let row = row?;
            anyhow::ensure!(*row.trajectory == *entry.id, self.changed(&entry.id));
            Step::try_from(row)
        });
        let mut all: Vec<Step> = Vec::with_capacity(entry.n_steps as usize);
        for step in steps {
            all.push(step.with_context(|| format!("trajectory {}", entry.id))?);
        }
        anyhow::ensure!(all.len() == entry.n_steps as usize, self.changed(&entry.id));
        Ok(Trajectory { steps: all, ..Trajectory::from(row) })
    }

    /// The features of a trajectory's steps, in order, read as they are asked for.
    pub fn features(&self, index: usize) -> anyhow::Result<impl Iterator<Item = anyhow::Result<FeatureRow>>> {
        let entry = &self.entries[index];
        let rows = self.features.rows(entry.row_group, entry.rows())?;
        Ok(rows.map(|row| self.of_entry(entry, row)))
    }

    /// A row of features, if it is of this trajectory.
    fn of_entry(&self, entry: &Entry, row: anyhow::Result<FeatureRow>) -> anyhow::Result<FeatureRow> {
        let row = row?;
        anyhow::ensure!(row.trajectory == entry.id, self.changed(&entry.id));
        Ok(row)
    }

    /// Of what tokenizer and version the features are.
    pub fn features_of(&self) -> &serde_json::Value {
        &self.features_of
    }

    /// A hash of what the tables hold of each trajectory, wherever it was read from.
    pub fn contents(&self) -> anyhow::Result<Vec<blake3::Hash>> {
        let mut hashes: Vec<blake3::Hasher> = vec![blake3::Hasher::new(); self.entries.len()];
        for row_group in 0..self.trajectories.row_groups().len() {
            self.trajectories.scan(row_group, |rows| {
                for row in rows {
                    let Some(index) = self.find(&row.trajectory) else { continue };
                    let row = TrajectoryRow { source: String::new(), source_key: String::new(), ..row };
                    hashes[index].update(format!("{row:?}").as_bytes());
                }
            })?;
        }
        for (index, rate) in &self.rates {
            hashes[*index as usize].update(format!("{rate:?}").as_bytes());
        }
        let mut hashes: Vec<blake3::Hash> = hashes.iter().map(blake3::Hasher::finalize).collect();
        for (index, sessions) in (self.n_sessions()..).zip(&self.chains) {
            let mut hash = blake3::Hasher::new();
            for &session in sessions {
                hash.update(hashes[session].as_bytes());
            }
            hashes[index] = hash.finalize();
        }
        Ok(hashes)
    }

    /// Names and digests of the files; read once, at the first call.
    pub fn inputs(&self) -> anyhow::Result<&[Input]> {
        if let Some(inputs) = self.inputs.get() {
            return Ok(inputs);
        }
        let inputs = self.digests()?;
        Ok(self.inputs.get_or_init(|| inputs))
    }

    /// Whether the files can still be read and hold what they held at the first call of
    /// [`Self::inputs`]; reads them all.
    pub fn is_unchanged(&self) -> bool {
        let before = self.inputs.get();
        before.is_none_or(|before| self.digests().is_ok_and(|now| now == *before))
    }

    /// An error's text without the place of the data on this machine, for rows.
    pub fn placeless(&self, error: &anyhow::Error) -> String {
        let folder = self.dir.join("").display().to_string();
        format!("{error:#}").replace(&folder, "")
    }

    fn digests(&self) -> anyhow::Result<Vec<Input>> {
        let digest = |name: &str| {
            let read = publish::digest(self.files[name].from(0));
            let (sha256, bytes) =
                read.with_context(|| format!("cannot read {}", self.dir.join(name).display()))?;
            anyhow::Ok(Input { name: name.to_owned(), bytes, sha256 })
        };
        std::thread::scope(|s| {
            FILES
                .map(|name| s.spawn(move || digest(name)))
                .into_iter()
                .map(|t| t.join().map_err(|_| anyhow::anyhow!("digest of the data panicked"))?)
                .collect()
        })
    }

    fn changed(&self, id: &str) -> String {
        format!(
            "steps.parquet, features.parquet and trajectories.parquet in {} disagree about trajectory {id}\nhint: ingest and annotate again",
            self.dir.join("").display()
        )
    }

    fn read_partners(&mut self, table: &TableReader<PartnerRow>) -> anyhow::Result<()> {
        let mut unknown = None;
        for row_group in 0..table.row_groups().len() {
            let mut read = Vec::new();
            table.scan(row_group, |rows| read.extend(rows))?;
            for row in read {
                let (Some(index), Some(partner)) = (self.find(&row.trajectory), self.find(&row.partner))
                else {
                    unknown.get_or_insert(row.trajectory);
                    continue;
                };
                let kind = match self.partner_kinds.iter().position(|k| *k == row.kind) {
                    Some(kind) => kind,
                    None => {
                        self.partner_kinds.push(row.kind);
                        self.partner_kinds.len() - 1
                    }
                };
                let kind = u8::try_from(kind).context("too many kinds of partners")?;
                self.partners.push((index as u32, kind, row.rank, partner as u32));
            }
        }
        if let Some(id) = unknown {
            anyhow::bail!(
                "{} speaks of trajectory {id}, which has no steps\nhint: run `trajpress annotate {}` again",
                self.dir.join("partners.parquet").display(),
                self.dir.display()
            );
        }
        self.partners.sort_unstable();
        self.asked = self.partners.iter().map(|partner| partner.3).collect();
        self.asked.sort_unstable();
        self.asked.dedup();
        Ok(())
    }

    fn read_usage(&mut self) -> anyhow::Result<()> {
        for row_group in 0..self.usage.row_groups().len() {
            let mut read = Vec::new();
            self.usage.scan(row_group, |rows| read.extend(rows))?;
            for row in read {
                let index = self.find(&row.trajectory).with_context(|| {
                    let path = self.dir.join("usage.parquet");
                    format!("{} speaks of trajectory {}, which has no steps", path.display(), row.trajectory)
                })?;
                let rate =
                    Rate { turns: row.first_turn..row.end_turn, unseen: row.unseen, factor: row.factor };
                self.rates.push((index as u32, rate));
            }
        }
        self.rates.sort_by_key(|(index, rate)| (*index, rate.turns.start));
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests;
