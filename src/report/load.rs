//! Reads the rows of a run; what comes out is plain data.
//!
//! Of polars only its frames are used, to sort: its own readers and planner took half of a cold build, and the tables are
//! read by the crate that wrote them.
//!
//! Scores are the long table. They are read for a few variants at a time, so that memory follows
//! the size of a batch and not of the run, and kept in file order, so that sums are the same
//! whatever the number of threads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use arrow::array::{Array as _, AsArray as _, UInt32Array};
use arrow::datatypes::{UInt32Type, UInt64Type};
use polars::prelude::{SortMultipleOptions, UniqueKeepStrategy};

use crate::files::reach;
use crate::report::statistics::design::DrawnFrom;
use crate::scores::registry::About;
use crate::store::{self, CellRow, EventRow, Row, ScoreRow, TrajectoryRow, VariantRow};

mod decisions;
mod frames;
mod manifest;
mod sampled;
mod strata;

pub(crate) use decisions::{Decision, Decisions, Spent};
pub(crate) use sampled::Corpus;
pub(crate) use strata::{STRATUM_KEYS, Stratum};

use frames::{BATCH_ROWS, frame};
use manifest::Manifest;
use sampled::Sampled;
use strata::Grouped;

/// The rows of a run, scores apart.
#[derive(Clone)]
pub(crate) struct Run {
    folder: PathBuf,
    /// In order of their ids.
    pub(crate) variants: Vec<VariantRow>,
    /// In order of their ids.
    pub(crate) trajectories: Vec<Trajectory>,
    pub(crate) population: Population,
    /// Where each cluster was drawn from.
    pub(crate) drawn: Vec<DrawnFrom>,
    /// Of which sessions those of the run were drawn, where they were.
    pub(crate) corpus: Option<Corpus>,
    /// Trajectories that name no repository.
    pub(crate) n_without_repository: usize,
    /// Beside `variants`.
    pub(crate) cells: Vec<Cells>,
    /// Beside `variants`: events of ok cells.
    pub(crate) events: Vec<Vec<Event>>,
    /// Trajectories that are ok under every variant.
    pub(crate) n_ok_everywhere: usize,
    /// None where the run does not say.
    pub(crate) prices: Option<Prices>,
    /// Scores of one's own.
    pub(crate) own: Vec<About>,
    /// What the experiment is called, and the beginning of the digest of the data; empty where the run does not say.
    pub(crate) name: String,
    pub(crate) data: String,
    /// Version of what the scores mean, and the tokenizer; none where the run does not say.
    pub(crate) semantics: Option<u64>,
    pub(crate) tokenizer: Option<String>,
}

/// What tokens cost in a run, each.
#[derive(Clone, Debug, serde::Deserialize)]
pub(crate) struct Prices {
    pub(crate) name: String,
    pub(crate) fresh: f64,
    pub(crate) cache_write: f64,
    pub(crate) cache_read: f64,
    pub(crate) output: f64,
    /// Seconds that a cached prompt lives; none in runs that took it to live for ever.
    pub(crate) cache_lifetime: Option<f64>,
    /// Written to a cache that lives an hour, where one can be had.
    pub(crate) cache_write_1h: Option<f64>,
    /// Share of prompts that find the cache gone where no times are logged.
    #[serde(default)]
    pub(crate) cache_gone: f64,
    /// Prompts of more tokens cost more: so many times as much for their tokens, and for those of the answer.
    pub(crate) dearer_above: Option<f64>,
    pub(crate) dearer_prompt: Option<f64>,
    pub(crate) dearer_output: Option<f64>,
    /// Whether all caches were taken to live an hour.
    #[serde(default)]
    pub(crate) hour: bool,
    /// Whether logs were priced as the models that they name, where those are known.
    #[serde(default)]
    pub(crate) own: bool,
}

/// What a trajectory's rows are grouped by.
#[derive(Clone)]
pub(crate) struct Trajectory {
    pub(crate) id: String,
    pub(crate) format: String,
    /// As logged.
    pub(crate) agent: Option<String>,
    pub(crate) n_turns: u32,
    /// Number of its cluster.
    pub(crate) cluster: u32,
    /// Whether the task was solved, as logged or labelled; null is unknown.
    pub(crate) resolved: Option<bool>,
    /// Reward as logged; null is unknown.
    pub(crate) reward: Option<f64>,
    /// Whether its prompts were cached for an hour, as logged.
    pub(crate) is_cached_an_hour: bool,
    /// The same for the same log however it has grown; and a hash of all that its steps hold.
    pub(crate) source_key: String,
    pub(crate) content: String,
    /// Sessions that it stands for: 1 but in a sample.
    pub(crate) weight: f64,
}

/// Of which logs a report speaks. It decides what is drawn, or left out, as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Population {
    /// More logs of these repositories: a cluster is a task, or a session where none is known; a repository is a stratum
    These,
    /// Logs of other repositories: a cluster is a repository
    Other,
    /// The corpus that a sample was drawn from, and no others (`cluster plan --sample`): a cluster is a session
    Corpus,
}

impl Population {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Population::These => "these repositories",
            Population::Other => "other repositories",
            Population::Corpus => "the corpus that was sampled",
        }
    }

    /// What a cluster is.
    pub(crate) fn cluster(self) -> &'static str {
        match self {
            Population::These => {
                "a task with all its runs, or a session where no task is known; a stratum is a repository"
            }
            Population::Other => "a repository; logs that name none are one",
            Population::Corpus => "a session, drawn from its stratum of the corpus",
        }
    }
}

/// The cells of a variant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cells {
    pub(crate) n_ok: usize,
    /// Trajectory and error text of the cells that failed.
    pub(crate) errors: Vec<(String, String)>,
    pub(crate) n_violations: u64,
    /// What the trigger's model read and wrote, in the others.
    pub(crate) trigger_tokens: [f64; 2],
}

/// One compression.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Index into [`Run::trajectories`].
    pub(crate) trajectory: u32,
    /// Of its session.
    pub(crate) weight: f64,
    pub(crate) tokens_before: u64,
    pub(crate) break_even_turns: Option<u32>,
    pub(crate) decisions_left: u32,
    pub(crate) removable_tokens: u64,
    pub(crate) kept_tokens: u64,
    /// What the compressor's model read and wrote.
    pub(crate) model_tokens: [u64; 2],
    pub(crate) fallback: bool,
    pub(crate) warning: bool,
}

/// A score of a trajectory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Score {
    /// Index into [`Run::trajectories`].
    pub(crate) trajectory: u32,
    pub(crate) value: Option<f64>,
    pub(crate) floor: Option<f64>,
    pub(crate) ceiling: Option<f64>,
    pub(crate) atom_bag: Option<f64>,
    pub(crate) chance: Option<f64>,
    pub(crate) weight: f64,
    pub(crate) n: u64,
    /// Of these items those that were kept, each counted once; none where nobody counted.
    pub(crate) n_kept: Option<u64>,
}

/// Whole-cell scores of a variant by metric and canonical stratum, in order of trajectories.
pub(crate) type VariantScores = BTreeMap<(String, String), Vec<Score>>;

impl Run {
    /// Reads everything but the scores.
    pub(crate) fn open(folder: &Path, population: Population) -> anyhow::Result<Run> {
        let mut run = Run::without_events(folder, population)?;
        run.events = events(&run)?;
        Ok(run)
    }

    /// The same, but for its events.
    pub(crate) fn without_events(folder: &Path, population: Population) -> anyhow::Result<Run> {
        const HINT: &str = "hint: give the folder that `trajpress run --out` wrote";
        let path = file::<VariantRow>(folder);
        let (shown, table) = (folder.display(), format!("{}.parquet", VariantRow::TABLE));
        anyhow::ensure!(
            reach::is_there(&path)?,
            "{shown} is not the folder of a finished run: no {table} there\n{HINT}"
        );
        let mut variants =
            store::read::<VariantRow>(&path).map_err(|error| anyhow::anyhow!("{error:#}\n{HINT}"))?;
        variants.sort_by(|a, b| a.variant.cmp(&b.variant));
        anyhow::ensure!(!variants.is_empty(), "{} holds no variant", folder.display());
        let index: BTreeMap<&str, usize> =
            variants.iter().enumerate().map(|(i, v)| (v.variant.as_str(), i)).collect();

        let sampled = Sampled::of(folder)?;
        let Clustered { trajectories, drawn, n_without_repository } =
            trajectories(folder, population, sampled.as_ref())?;
        let (cells, n_ok_everywhere) = cells(folder, &index, &trajectories)?;
        let Manifest { prices, own, name, data, semantics, tokenizer } = manifest::read(folder)?;
        Ok(Run {
            folder: folder.to_owned(),
            variants,
            trajectories,
            population,
            drawn,
            corpus: sampled.map(|sampled| sampled.corpus),
            n_without_repository,
            cells,
            events: Vec::new(),
            n_ok_everywhere,
            prices,
            own,
            name,
            data,
            semantics,
            tokenizer,
        })
    }

    /// Calls `each` with the scores of a batch of variants at a time: index of the variant, scores.
    pub(crate) fn scores(
        &self,
        each: impl FnMut(Vec<(usize, VariantScores)>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.scores_of(None, each)
    }

    /// The same; of these metrics alone no more than their values. While a batch is used the next is read.
    pub(crate) fn scores_of(
        &self,
        metrics: Option<&[&str]>,
        mut each: impl FnMut(Vec<(usize, VariantScores)>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let path = file::<ScoreRow>(&self.folder);
        let n_rows: usize = store::TableReader::<ScoreRow>::open(&path)?.row_groups().iter().sum();
        let per_variant = n_rows / self.variants.len() + 1;
        let batch = (BATCH_ROWS / per_variant).max(1);
        let positions: BTreeMap<&str, u32> =
            self.trajectories.iter().map(|t| t.id.as_str()).zip(0..).collect();
        let failed = self.failed();
        let weights: Vec<f64> = self.trajectories.iter().map(|t| t.weight).collect();
        let read = |number: usize| -> anyhow::Result<_> {
            let here = number * batch..self.variants.len().min((number + 1) * batch);
            let (variants, failed) = (&self.variants[here.clone()], &failed[here]);
            let ids: Vec<&str> = variants.iter().map(|v| v.variant.as_str()).collect();
            let cell = |variant: &str, trajectory: &str| {
                let place = ids.iter().position(|id| *id == variant)?;
                Some((place, *positions.get(trajectory)?)).filter(|_| !failed[place].contains(trajectory))
            };
            let mut scores = Grouped::of(number * batch, variants.len(), &weights);
            let all = ids.len() == self.variants.len();
            let wanted =
                [(!all).then_some(("variant", &ids[..])), metrics.map(|metrics| ("metric", metrics))];
            let wanted: Vec<_> = wanted.into_iter().flatten().collect();
            let beside = strata::BESIDE.iter().filter(|_| metrics.is_none());
            let names: Vec<&str> = strata::VALUES.iter().chain(beside).copied().collect();
            store::columns_of::<ScoreRow>(&path, &names, &wanted, |rows| scores.add(&rows, &cell))?;
            Ok(scores.finish())
        };
        let n_batches = self.variants.len().div_ceil(batch);
        std::thread::scope(|scope| {
            let (ready, batches) = mpsc::sync_channel(0);
            // Where nobody listens any more, there was an error.
            scope.spawn(move || (0..n_batches).map(read).try_for_each(|batch| ready.send(batch).ok()));
            batches.into_iter().try_for_each(|batch| each(batch?))
        })
    }

    /// The same rows, to speak of other logs.
    pub(crate) fn speaking_of(&self, population: Population) -> anyhow::Result<Run> {
        let sampled = Sampled::of(&self.folder)?;
        let Clustered { trajectories, drawn, n_without_repository } =
            trajectories(&self.folder, population, sampled.as_ref())?;
        Ok(Run { population, trajectories, drawn, n_without_repository, ..self.clone() })
    }

    /// Where each variant stands.
    fn index(&self) -> BTreeMap<&str, usize> {
        self.variants.iter().map(|v| v.variant.as_str()).zip(0..).collect()
    }

    /// Trajectories that failed under each variant: whatever rows they left do not count.
    fn failed(&self) -> Vec<BTreeSet<&str>> {
        self.cells
            .iter()
            .map(|cells| cells.errors.iter().map(|(trajectory, _)| trajectory.as_str()).collect())
            .collect()
    }
}

struct Clustered {
    trajectories: Vec<Trajectory>,
    drawn: Vec<DrawnFrom>,
    n_without_repository: usize,
}

fn trajectories(
    folder: &Path,
    population: Population,
    sampled: Option<&Sampled>,
) -> anyhow::Result<Clustered> {
    anyhow::ensure!(
        sampled.is_some() || population != Population::Corpus,
        "{} is no sample of a corpus\nhint: `trajpress cluster plan --sample N` draws one; of these logs speak `--population these` and `other`",
        folder.display()
    );
    let columns =
        ["trajectory", "format", "task_id", "repository", "parent", "source_key", "content", "agent"];
    let numbers = ["n_turns", "resolved", "reward", "cached_an_hour"];
    let read: Vec<&str> = columns.into_iter().chain(numbers).collect();
    let rows = frame::<TrajectoryRow>(folder, &read)?
        .unique_stable(Some(&["trajectory".to_owned()]), UniqueKeepStrategy::First, None)?
        .sort(["trajectory"], SortMultipleOptions::default())?;
    let [id, format, task, repository, parent, source_key, content, agent] =
        columns.map(|name| rows.column(name).and_then(|c| c.str()));
    let (id, format, task, repository, parent) = (id?, format?, task?, repository?, parent?);
    let (source_key, content, agent) = (source_key?, content?, agent?);
    let (resolved, reward) = (rows.column("resolved")?.bool()?, rows.column("reward")?.f64()?);
    let (n_turns, cached_an_hour) = (rows.column("n_turns")?.u32()?, rows.column("cached_an_hour")?.bool()?);
    // Task ids such as `17` repeat between repositories, so both make the name of a task. What a session started is
    // part of it.
    let name = |row: usize| -> [&str; 3] {
        match (population, repository.get(row), parent.get(row).or(task.get(row))) {
            (Population::Other, repository, _) => ["", repository.unwrap_or(""), ""],
            (Population::Corpus, ..) => ["session", "", id.get(row).unwrap_or("")],
            (_, repository, Some(task)) => ["task", repository.unwrap_or(""), task],
            (_, repository, None) => ["session", repository.unwrap_or(""), id.get(row).unwrap_or("")],
        }
    };
    let names: BTreeSet<[&str; 3]> = (0..rows.height()).map(name).collect();
    let repositories: BTreeSet<&str> = names.iter().map(|name| name[1]).collect();
    let repositories: BTreeMap<&str, u32> = repositories.into_iter().zip(0..).collect();
    let drawn = names.iter().map(|name| match (population, sampled) {
        (Population::Corpus, Some(sampled)) => {
            let row = sampled.row(name[2])?;
            Ok(DrawnFrom { stratum: row.number, undrawn: 1.0 - row.drawn as f64 / row.of as f64 })
        }
        (Population::These, _) => Ok(repositories[name[1]].into()),
        _ => Ok(0.into()),
    });
    let drawn = drawn.collect::<anyhow::Result<_>>()?;
    let weight = |row: usize| match sampled {
        Some(sampled) => {
            let row = sampled.row(id.get(row).unwrap_or(""))?;
            Ok(row.of as f64 / row.drawn as f64)
        }
        None => Ok(1.0),
    };
    let weights = (0..rows.height()).map(weight).collect::<anyhow::Result<Vec<f64>>>()?;
    let clusters: BTreeMap<[&str; 3], u32> = names.into_iter().zip(0..).collect();
    let trajectories = (0..rows.height())
        .map(|row| Trajectory {
            id: id.get(row).unwrap_or("").to_owned(),
            format: format.get(row).unwrap_or("").to_owned(),
            agent: agent.get(row).map(str::to_owned),
            n_turns: n_turns.get(row).unwrap_or(0),
            cluster: clusters[&name(row)],
            resolved: resolved.get(row),
            reward: reward.get(row).filter(|r| r.is_finite()),
            is_cached_an_hour: cached_an_hour.get(row) == Some(true),
            source_key: source_key.get(row).unwrap_or("").to_owned(),
            content: content.get(row).unwrap_or("").to_owned(),
            weight: weights[row],
        })
        .collect();
    let n_without_repository = (0..rows.height()).filter(|&row| repository.get(row).is_none()).count();
    Ok(Clustered { trajectories, drawn, n_without_repository })
}

fn cells(
    folder: &Path,
    index: &BTreeMap<&str, usize>,
    trajectories: &[Trajectory],
) -> anyhow::Result<(Vec<Cells>, usize)> {
    let weights: BTreeMap<&str, f64> = trajectories.iter().map(|t| (t.id.as_str(), t.weight)).collect();
    let read = ["variant", "trajectory", "status", "error", "n_violations"];
    let asked = ["trigger_tokens_in", "trigger_tokens_out"];
    let rows = frame::<CellRow>(folder, &[&read[..], &asked[..]].concat())?
        .sort(["variant", "trajectory"], SortMultipleOptions::default())?;
    let [variant, trajectory, status, error] =
        [read[0], read[1], read[2], read[3]].map(|name| rows.column(name).and_then(|c| c.str()));
    let (variant, trajectory, status, error) = (variant?, trajectory?, status?, error?);
    let n_violations = rows.column("n_violations")?.u32()?;
    let [asked, answered] = asked.map(|name| rows.column(name).and_then(|c| c.u64()));
    let (asked, answered) = (asked?, answered?);
    let mut cells = vec![Cells::default(); index.len()];
    let mut n_ok: BTreeMap<&str, usize> = BTreeMap::new();
    for row in 0..rows.height() {
        let id = trajectory.get(row).unwrap_or("");
        let is_ok = status.get(row) == Some("ok");
        *n_ok.entry(id).or_default() += usize::from(is_ok);
        let Some(&i) = variant.get(row).and_then(|v| index.get(v)) else {
            continue;
        };
        cells[i].n_ok += usize::from(is_ok);
        cells[i].n_violations += u64::from(n_violations.get(row).unwrap_or(0));
        if is_ok {
            let weight = weights.get(id).copied().unwrap_or(1.0);
            let columns = [asked, answered].map(|column| weight * column.get(row).unwrap_or(0) as f64);
            let tokens = &mut cells[i].trigger_tokens;
            tokens.iter_mut().zip(columns).for_each(|(sum, more)| *sum += more);
        } else {
            cells[i].errors.push((id.to_owned(), error.get(row).unwrap_or("").to_owned()));
        }
    }
    let n_ok_everywhere = n_ok.values().filter(|n| **n == index.len()).count();
    Ok((cells, n_ok_everywhere))
}

/// The events of ok cells, by variant.
fn events(run: &Run) -> anyhow::Result<Vec<Vec<Event>>> {
    const WORDS: [&str; 4] = ["variant", "trajectory", "fallback", "warning"];
    const TURNS: [&str; 2] = ["break_even_turns", "decisions_left"];
    const TOKENS: [&str; 5] =
        ["tokens_before", "removable_tokens", "kept_tokens", "model_tokens_in", "model_tokens_out"];
    let index = run.index();
    let positions: BTreeMap<&str, u32> = run.trajectories.iter().map(|t| t.id.as_str()).zip(0..).collect();
    let failed = run.failed();
    let mut events = vec![Vec::new(); run.variants.len()];
    let names: Vec<&str> = WORDS.into_iter().chain(TURNS).chain(TOKENS).collect();
    store::columns::<EventRow>(&file::<EventRow>(&run.folder), &names, |batch| {
        let column =
            |name: &str| batch.column_by_name(name).ok_or_else(|| anyhow::anyhow!("the events lack {name}"));
        let [variant, trajectory, fallback, warning] =
            WORDS.map(|name| column(name).map(|c| c.as_string::<i32>()));
        let (variant, trajectory, fallback, warning) = (variant?, trajectory?, fallback?, warning?);
        let [break_even, left] = TURNS.map(|name| column(name).map(|c| c.as_primitive::<UInt32Type>()));
        let (break_even, left) = (break_even?, left?);
        let tokens = TOKENS.map(|name| column(name).map(|c| c.as_primitive::<UInt64Type>()));
        let tokens = tokens.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        // Rows of a cell stand together: who it is is looked up once.
        let mut last: Option<(&str, &str, Option<(usize, u32)>)> = None;
        for row in 0..batch.num_rows() {
            let cell = (variant.value(row), trajectory.value(row));
            let place = match last {
                Some((v, t, place)) if (v, t) == cell => place,
                _ => {
                    let place = index.get(cell.0).filter(|&&i| !failed[i].contains(cell.1));
                    place.copied().zip(positions.get(cell.1).copied())
                }
            };
            last = Some((cell.0, cell.1, place));
            let Some((i, trajectory)) = place else { continue };
            let turns = |c: &UInt32Array| Some(c.value(row)).filter(|_| c.is_valid(row));
            let [tokens_before, removable_tokens, kept_tokens, read, written] =
                [0, 1, 2, 3, 4].map(|i| if tokens[i].is_null(row) { 0 } else { tokens[i].value(row) });
            events[i].push(Event {
                trajectory,
                weight: run.trajectories[trajectory as usize].weight,
                tokens_before,
                break_even_turns: turns(break_even),
                decisions_left: turns(left).unwrap_or(0),
                removable_tokens,
                kept_tokens,
                model_tokens: [read, written],
                fallback: fallback.is_valid(row),
                warning: warning.is_valid(row),
            });
        }
        Ok(())
    })?;
    Ok(events)
}

fn file<R: Row>(folder: &Path) -> PathBuf {
    folder.join(format!("{}.parquet", R::TABLE))
}

#[cfg(test)]
mod tests;
