//! Sessions of one repository as one log, in the order of time: what an earlier session knew, a later one may need.
//!
//! A chain is put together when it is asked for, and stands behind all trajectories of the data. It has no compaction of its own
//! product ([`Log::bridge`]), no edits and no count of the provider: they tell of prompts that held one session.

use std::collections::BTreeMap;

use anyhow::Context as _;

use super::{Dataset, Entry};
use crate::context::log::{Features, Log};
use crate::experiment::plan::Filter;
use crate::store::{StepTime, TableReader, TrajectoryRow};
use crate::trajectory::{Kind, Trajectory};

impl Dataset {
    /// The same, where the filter links sessions with chains of those that it takes. A session that names no repository or no time, or
    /// was started by another one, stays alone.
    pub fn linked(mut self, filter: &Filter, seed: u64) -> anyhow::Result<Self> {
        let Some(link) = filter.link else { return Ok(self) };
        let taken = self.taken(filter, seed)?;
        let times = self.first_times()?;
        let mut groups: BTreeMap<(String, String), Vec<(i64, usize)>> = BTreeMap::new();
        for some in taken.chunks(256) {
            for (row, &index) in self.trajectory_rows(some)?.into_iter().zip(some) {
                let Some((repository, time)) =
                    row.repository.filter(|_| row.parent.is_none()).zip(times[index])
                else {
                    continue;
                };
                groups.entry((row.format, repository)).or_default().push((time, index));
            }
        }
        for mut sessions in groups.into_values() {
            // Of one time by id, wherever they stand in the data.
            sessions.sort_by_key(|&(time, index)| (time, self.entries[index].id.clone()));
            let (len, n) = (sessions.len(), sessions.len().div_ceil(link.sessions.max(2) as usize));
            // Chains of about one length.
            for chain in (0..n).map(|k| &sessions[k * len / n..(k + 1) * len / n]).filter(|c| c.len() > 1) {
                self.add_chain(chain.iter().map(|&(_, index)| index).collect());
            }
        }
        self.is_linked = true;
        self.by_id = (0..self.entries.len() as u32).collect();
        self.by_id.sort_unstable_by_key(|&i| &self.entries[i as usize].id);
        Ok(self)
    }

    fn add_chain(&mut self, sessions: Vec<usize>) {
        let mut hash = blake3::Hasher::new();
        hash.update(b"chain");
        for &session in &sessions {
            hash.update(self.entries[session].id.as_bytes());
        }
        self.entries.push(Entry {
            id: hash.finalize().to_hex()[..32].to_owned(),
            n_steps: sessions.iter().map(|&session| self.entries[session].n_steps).sum(),
            is_edited: false,
            ..self.entries[sessions[0]].clone()
        });
        self.chains.push(sessions);
    }

    /// How many trajectories the data have, chains aside.
    pub(super) fn n_sessions(&self) -> usize {
        self.entries.len() - self.chains.len()
    }

    /// The sessions of a chain, in order; none of a trajectory.
    pub(super) fn chain(&self, index: usize) -> Option<&[usize]> {
        Some(self.chains.get(index.checked_sub(self.n_sessions())?)?)
    }

    /// Puts chains in the place of their sessions.
    pub(super) fn chained(&self, taken: &mut Vec<usize>) {
        let mut linked: Vec<usize> = self.chains.iter().flatten().copied().collect();
        linked.sort_unstable();
        taken.retain(|index| linked.binary_search(index).is_err());
        taken.extend(self.n_sessions()..self.entries.len());
    }

    /// When each trajectory began, in microseconds since 1970, where its log says.
    fn first_times(&self) -> anyhow::Result<Vec<Option<i64>>> {
        let steps: TableReader<StepTime> = self.steps.columns_of();
        let mut times = Vec::with_capacity(self.entries.len());
        for group in self.entries.chunk_by(|a, b| a.row_group == b.row_group) {
            let mut rows = Vec::new();
            steps.scan(group[0].row_group, |read| rows.extend(read))?;
            for entry in group {
                let own = rows.get(entry.rows()).with_context(|| self.changed(&entry.id))?;
                times.push(own.iter().filter_map(|step| Some(step.time?.0)).min());
            }
        }
        Ok(times)
    }

    /// The row of a chain: what its sessions have together, and nothing of how one of them ended.
    pub(super) fn chain_row(&self, index: usize, sessions: &[usize]) -> anyhow::Result<TrajectoryRow> {
        let rows = self.trajectory_rows(sessions)?;
        let sum = |of: &dyn Fn(&TrajectoryRow) -> u64| rows.iter().map(of).sum::<u64>();
        let first = rows[0].clone();
        Ok(TrajectoryRow {
            trajectory: self.entries[index].id.clone(),
            n_steps: self.entries[index].n_steps,
            n_turns: sum(&|row| u64::from(row.n_turns) + 1) as u32 - 1,
            n_segments: 1,
            n_bytes: sum(&|row| row.n_bytes),
            source: first.source,
            format: first.format,
            repository: first.repository,
            agent: first.agent,
            model: first.model,
            goal: first.goal,
            ..TrajectoryRow::default()
        })
    }

    /// A chain ready for replay. The head of a later session is a turn of its own, which nothing decides; what stands in every prompt is
    /// that of the first session.
    pub(super) fn chain_log(&self, index: usize, sessions: &[usize]) -> anyhow::Result<Log> {
        let mut chain = Trajectory::from(self.chain_row(index, sessions)?);
        let (mut links, mut is_left_out) = (Vec::new(), Vec::new());
        let mut turn = 0;
        for (number, &session) in sessions.iter().enumerate() {
            let trajectory = self.trajectory(session)?;
            let (first, n_turns) = (turn, trajectory.n_turns());
            links.extend((number > 0).then_some(first));
            turn = first + n_turns + 1;
            for mut step in trajectory.steps {
                let is_fixed = matches!(step.kind, Kind::System | Kind::Tools | Kind::Demonstration);
                is_left_out.push(number > 0 && is_fixed);
                if number > 0 && is_fixed {
                    continue;
                }
                step.turn += first;
                // Two sessions may use one id.
                step.call_id = step.call_id.map(|id| format!("{number} {id}").into());
                (step.edit, step.usage) = (None, None);
                chain.steps.push(step);
            }
        }
        let features = sessions.iter().flat_map(|&session| -> Features<'_> {
            match self.features(session) {
                Ok(rows) => Box::new(rows),
                Err(error) => Box::new(std::iter::once(Err(error))),
            }
        });
        let features = features.zip(is_left_out).filter(|(_, is_left_out)| !is_left_out).map(|(row, _)| row);
        let mut log = Log::bridge(chain, Box::new(features))?;
        log.links = links;
        Ok(log)
    }

    /// Reads all of a trajectory.
    ///
    /// # Errors
    /// Something of it cannot be read.
    pub fn read_through(&self, index: usize) -> anyhow::Result<()> {
        for &session in self.chain(index).unwrap_or(&[index]) {
            self.trajectory(session)?;
            self.features(session)?.try_for_each(|row| row.map(drop))?;
        }
        Ok(())
    }
}
