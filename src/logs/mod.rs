//! Logs into tables: finds the files, tells their formats, reads them in parallel, and writes
//! `trajectories.parquet`, `steps.parquet`, `rejects.jsonl` and `ingest.json`.
//!
//! Files are read in parallel, big JSONL files in batches of lines; results are written in the order of
//! names and positions, whatever the number of threads. Only a bounded number of jobs is in flight,
//! so memory depends on the largest document (or session, or batch), not on how many there are; what grows
//! with the number of runs is 24 bytes each, to tell duplicates, and as much for each session, to tell those
//! that begin alike, and for each step of those that may be forks. All files are written under temporary
//! names, and get their names together at the end. A dataset that is there already is added to: what is known of it is not
//! read again (`record`, `keep`).

pub mod formats;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::files::lock::Lock;
use crate::files::reach;
use crate::files::swap;
use crate::files::vouch::{Made, Sealed, Tables};
use crate::store::{self, StepRow, TableWriter, TrajectoryRow, step_rows};
use crate::text::escape;
use crate::text::redact::{self, Tally};

mod archive;
pub mod conversation;
mod database;
mod explain;
mod filter;
mod forks;
mod input;
mod jobs;
mod keep;
mod labels;
mod lines;
mod messages;
mod packed;
mod part;
mod parts;
mod placeholders;
pub mod places;
mod record;
mod redacted;
mod sessions;
mod strangers;
mod table;

pub use explain::explain;
pub use filter::{Filter, since};
pub use record::ReadWith;
pub use redacted::{Redacted, redact_logs};

use forks::{Forked, Forks};
use formats::mapping::Mapping;
use input::Input;
use labels::{LabelFile, Labels};
use part::{Found, Part, Run};
use record::{FileRecord, Known};
use sessions::Beginning;

/// Row groups are closed at about this much text, so that units of work are small.
const ROW_GROUP_BYTES: usize = 8 << 20;

/// What happens to a dataset that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It is added to. Runs of files that are not given, or not there any more, stay.
    #[default]
    Add,
    /// It becomes one of the files that are given, and what is known of these is not read again.
    Match,
    /// It is replaced, and nothing of it is used.
    Fresh,
}

/// What to ingest.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Files and folders.
    pub inputs: Vec<PathBuf>,
    /// Folder of the dataset.
    pub out: PathBuf,
    /// Name of a reader for all files; none tells the format of each file by its content.
    pub format: Option<String>,
    /// Number of threads that read.
    pub threads: usize,
    pub limits: Limits,
    pub mode: Mode,
    pub filter: Filter,
    /// Folders of output, which are no logs where they stand among them, as `out` is none.
    pub own: Vec<PathBuf>,
    /// Whether secrets and personal data become placeholders.
    pub redact: bool,
    /// A file that says where things stand in logs of a format that no reader knows; with the format `mapping` all files are
    /// read by it.
    pub mapping: Option<PathBuf>,
}

/// How much is read; what is larger becomes a reject, and the rest is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one file, unpacked.
    pub file: u64,
    /// Bytes of memory, about: a document, a session or a line may have an eighth of it, since as JSON, as steps and as
    /// a table it takes several times its own size.
    pub memory: u64,
}

/// Memory a thread: the batches in flight for it, each as lines, as JSON and as rows of the tables.
const MEMORY_A_THREAD: u64 = 48 << 20;

impl Limits {
    /// So many threads as the memory is enough for, of those that are asked for; one at least.
    pub fn threads(&self, asked: usize) -> usize {
        let most = usize::try_from(self.memory / MEMORY_A_THREAD).unwrap_or(usize::MAX);
        asked.min(most).max(1)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits { file: 2 << 30, memory: 4 << 30 }
    }
}

/// How far an ingest is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub files_done: u64,
    pub files: u64,
    /// Bytes as stored, of the files that are done.
    pub bytes_done: u64,
    pub bytes: u64,
    pub trajectories: u64,
}

/// What was read of one format.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FormatTotals {
    pub files: u64,
    pub trajectories: u64,
    pub duplicates: u64,
    pub steps: u64,
    /// Bytes of the logs, uncompressed.
    pub bytes: u64,
    /// Bytes of text in the tables.
    pub text_bytes: u64,
    pub rejects: u64,
    /// Runs with a known label.
    pub labelled: u64,
    /// What the logs hold and the tables do not.
    pub losses: BTreeMap<String, u64>,
    /// Fields read, with how often they were met.
    pub fields_mapped: BTreeMap<String, u64>,
    /// Fields left out, with how often they were met.
    pub fields_dropped: BTreeMap<String, u64>,
}

/// A run that is there already.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Duplicate {
    pub trajectory: String,
    pub source: String,
    /// File that holds the same run and was read first, or a session that begins with all of this one.
    pub repeats: String,
}

/// A file that was not read, and what it seems to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Aside {
    pub path: String,
    /// What it seems to be, or why it could not be read.
    pub format: String,
    /// Size as stored.
    pub bytes: u64,
}

/// A run by its names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunName {
    pub trajectory: String,
    pub source: String,
}

/// A label file and how many runs it was joined to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabelReport {
    pub path: String,
    pub format: String,
    pub joined: u64,
    /// Verdicts that are neither true nor false nor null, taken as unknown.
    pub odd: u64,
}

/// The report of an ingest, also written as `ingest.json` (there with a list of all files).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    pub tool: String,
    pub version: String,
    pub schema_version: String,
    pub read_with: ReadWith,
    /// Hash of the ids of all trajectories in order: the identity of the dataset.
    pub dataset: String,
    pub files: u64,
    pub trajectories: u64,
    pub steps: u64,
    pub bytes: u64,
    pub stored_bytes: u64,
    pub rejects: u64,
    pub formats: BTreeMap<String, FormatTotals>,
    pub duplicates: Vec<Duplicate>,
    pub not_read: Vec<Aside>,
    pub labels: Vec<LabelReport>,
    pub contradicting_labels: Vec<String>,
    pub no_logs: Vec<Aside>,
    /// Files of which nothing could be read.
    pub unreadable: Vec<Aside>,
    /// Files of a format with a reader that gave no run.
    pub without_runs: Vec<Aside>,
    /// Runs in which the agent says nothing.
    pub without_turns: Vec<RunName>,
    /// Files named on the command line that gave nothing.
    pub named_for_nothing: Vec<String>,
    /// Records of logs that could not be read, and files that a limit kept from being known.
    pub lost_records: u64,
    /// What was redacted, by kind: places, and different values, numbered anew in each run.
    #[serde(default, skip_serializing_if = "Tally::is_empty")]
    pub redacted: Tally,
    /// Files that were found and not asked for.
    pub left_out: u64,
    /// Hidden files and folders that were not looked into.
    #[serde(default)]
    pub hidden: u64,
    /// What was written, for those who read it.
    pub tables: Tables,
    /// What became of the dataset that stood in the folder.
    #[serde(skip)]
    pub before: Option<Before>,
}

/// A dataset that was added to, or gave way to a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Its tables are the same still.
    pub is_same: bool,
    /// Nothing of it was used.
    pub is_replaced: bool,
    /// Files that it knew, and that were not read again.
    pub n_known: u64,
    /// Files that were not given, or cannot be read any more, and whose runs stay.
    pub n_gone: u64,
    /// Runs that went: of files that were read again, or that others hold now.
    pub n_runs_gone: u64,
    /// Bytes, uncompressed, of what was read now.
    pub n_bytes_read: u64,
}

/// One line of `rejects.jsonl`.
#[derive(Clone, Debug, Serialize)]
struct Reject<'a> {
    path: &'a str,
    /// From 1; null where the file is one document.
    line: Option<u64>,
    /// In the uncompressed file.
    byte_offset: u64,
    reason: &'a str,
}

/// Reads logs into the tables of a dataset.
pub fn ingest(options: &Options, on_progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let how = how(options)?;
    let (found, n_hidden) = input::look(&options.inputs)?;
    let mut inputs = parts::joined(found);
    for own in options.own.iter().chain([&options.out]) {
        input::leave_out(&mut inputs, &options.inputs, own);
    }
    let n_left_out = options.filter.apply(&mut inputs)?;
    anyhow::ensure!(
        !inputs.is_empty(),
        "no files under {}{}\nhint: give log files or a folder that holds some",
        options.inputs.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", "),
        if n_left_out > 0 {
            format!(", but for {n_left_out} that were not asked for")
        } else {
            String::new()
        }
    );
    check_out(&options.out)?;
    std::fs::create_dir_all(&options.out)
        .with_context(|| format!("cannot create {}", options.out.display()))?;
    let lock = Lock::alone(&options.out, "ingest")?;
    // A run may have begun there meanwhile.
    check_out(&options.out)?;
    swap::settle(&options.out)?;
    if lock.is_sure() {
        remove_abandoned(&options.out);
    }
    record::mark(&mut inputs, how.threads)?;
    let read_with = ReadWith::of(options, how.mapping);
    let mut known = match options.mode {
        Mode::Add => Known::load(&options.out)?.unwrap_or_default(),
        // What is damaged can be made again of the same files.
        Mode::Match => Known::load(&options.out).ok().flatten().unwrap_or_default(),
        Mode::Fresh => Known::default(),
    };
    anyhow::ensure!(
        known.files.is_empty()
            || options.mode != Mode::Add
            || known.report.read_with.redact == read_with.redact,
        "the dataset in {} is {}\nhint: give another folder to --out, or replace it with --fresh",
        options.out.display(),
        if options.redact {
            "not redacted, or in another way"
        } else {
            "redacted, and this would add what is not"
        }
    );
    let mut wanted = known.compare(&inputs, options.mode == Mode::Add, known.report.read_with == read_with);
    if !known.files.is_empty() && known.is_same(&inputs, &wanted) {
        return Ok(known.unchanged());
    }
    let origins = sessions::origins(&mut inputs, how.forced, how.threads)?;
    known.add_dependent(&mut wanted, |i| origins[i]);
    let read: Vec<Input> = wanted.iter().map(|&i| inputs[i].clone()).collect();
    let origins: Vec<Option<u128>> = wanted.iter().map(|&i| origins[i]).collect();
    let gone = keep::gone_sessions(&known, &options.out, &origins)?;
    let beginnings = jobs::beginnings(&read, &origins, &gone, how)?;
    let _unfinished = Unfinished(&options.out);
    let mut out = Output::create(&options.out, &read, origins)?;
    out.forks.know_gone(&gone);
    out.report.read_with = read_with;
    (out.report.left_out, out.report.hidden) = (n_left_out, n_hidden);
    out.know(&known)?;
    run(&read, how, &beginnings, &mut out, on_progress)?;
    out.before.n_bytes_read = out.report.bytes;
    out.keep(&known, &inputs, &read, &beginnings)?;
    anyhow::ensure!(
        options.mode != Mode::Add || out.report.trajectories > 0 || known.report.trajectories == 0,
        "no run would be left of the {} in {}, which stays as it was\nhint: a wrong --format or --mapping reads nothing; --fresh starts over",
        known.report.trajectories,
        options.out.display()
    );
    out.before.is_replaced = known.files.is_empty();
    out.finish()
}

fn check_out(out: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        !reach::is_there(&out.join("_manifest.json"))?,
        "{} holds a run, not a dataset\nhint: give another folder to --out, or remove the run first",
        out.display()
    );
    Ok(())
}

/// Reads logs into the rows of the tables and throws them away: what [`ingest`] is compared with to
/// tell the cost of writing. Returns the bytes of the logs and the number of trajectories.
pub fn read_only(options: &Options) -> anyhow::Result<(u64, u64)> {
    let mut inputs = parts::joined(input::find(&options.inputs)?);
    let how = how(options)?;
    let (mut n_bytes, mut n_trajectories) = (0, 0);
    let (beginnings, _) = jobs::all_beginnings(&mut inputs, how)?;
    jobs::for_each_part(&inputs, how, &beginnings, |part| {
        n_bytes += part.n_bytes;
        n_trajectories += part.runs.len() as u64;
        Ok(())
    })?;
    Ok((n_bytes, n_trajectories))
}

fn how(options: &Options) -> anyhow::Result<jobs::How> {
    let mapping = options.mapping.as_deref().map(Mapping::load).transpose()?;
    let forced = match (options.format.as_deref(), mapping) {
        (Some("mapping"), Some(mapping)) => Some(mapping.entry()),
        (Some("mapping"), None) => anyhow::bail!("{}", formats::mapping::NO_MAPPING),
        (Some(name), Some(_)) => anyhow::bail!(
            "with --format {name} nothing is read by the mapping\nhint: --format mapping reads all files by it; without --format it is for files of no known format"
        ),
        (name, None) => name.map(formats::find).transpose()?,
        (None, Some(_)) => None,
    };
    let threads = options.limits.threads(options.threads);
    Ok(jobs::How { forced, threads, limits: options.limits, redacts: options.redact, mapping })
}

fn run(
    inputs: &[Input],
    how: jobs::How,
    beginnings: &HashMap<usize, Beginning>,
    out: &mut Output,
    on_progress: &mut dyn FnMut(Progress),
) -> anyhow::Result<()> {
    let mut progress = Progress {
        files: inputs.len() as u64,
        bytes: inputs.iter().map(Input::n_stored).sum(),
        ..Progress::default()
    };
    jobs::for_each_part(inputs, how, beginnings, |part| {
        if part.is_last {
            progress.files_done += 1;
            progress.bytes_done += inputs[part.input].n_stored();
        }
        out.take(part, inputs)?;
        progress.trajectories = out.report.trajectories;
        on_progress(progress);
        Ok(())
    })
}

/// The files of a dataset in the making.
struct Output {
    dir: PathBuf,
    trajectories: TableWriter<TrajectoryRow>,
    steps: TableWriter<StepRow>,
    rejects: BufWriter<File>,
    files: BufWriter<File>,
    /// Names of the inputs, and behind them of the files that are known.
    names: Vec<String>,
    n_inputs: usize,
    /// What the sessions in the inputs have in common with their copies.
    origins: Vec<Option<u128>>,
    /// Which of these a run was read from first, by its log id.
    seen: HashMap<u128, u32>,
    forks: Forks,
    /// The `source_key` of all that was read, hashed, if runs of other files may have one of them.
    keys: Option<HashSet<u128>>,
    dataset: blake3::Hasher,
    labels: Labels,
    report: Report,
    before: Before,
    file: FileRecord,
}

const TABLES: [&str; 4] = ["trajectories.parquet", "steps.parquet", "rejects.jsonl", "ingest.json"];

/// How the temporary names end of files that are not finished.
const UNFINISHED: &str = ".unfinished";

/// The temporary name of a file of the dataset: of this process alone, should locks not work.
fn unfinished(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!(".{name}.{}{UNFINISHED}", std::process::id()))
}

/// Removes at the end what has no name yet, whatever went wrong.
struct Unfinished<'a>(&'a Path);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if swap::is_begun(self.0) {
            return;
        }
        for name in TABLES.into_iter().chain(["files.jsonl", "joined.parquet"]) {
            let _ = std::fs::remove_file(unfinished(self.0, name));
        }
    }
}

/// Removes what killed processes left; nobody else is at work in the folder.
fn remove_abandoned(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') && name.ends_with(UNFINISHED) {
            // What cannot be removed is no part of the dataset, and does no harm.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

impl Output {
    fn create(dir: &Path, inputs: &[Input], origins: Vec<Option<u128>>) -> anyhow::Result<Self> {
        let file = |name: &str| {
            let path = unfinished(dir, name);
            File::create(&path)
                .map(BufWriter::new)
                .with_context(|| format!("cannot write {}", path.display()))
        };
        Ok(Output {
            trajectories: TableWriter::create(&unfinished(dir, "trajectories.parquet"), ROW_GROUP_BYTES)?,
            steps: TableWriter::create(&unfinished(dir, "steps.parquet"), ROW_GROUP_BYTES)?,
            rejects: file("rejects.jsonl")?,
            files: file("files.jsonl")?,
            dir: dir.to_owned(),
            names: inputs.iter().map(|input| input.name.clone()).collect(),
            n_inputs: inputs.len(),
            origins,
            seen: HashMap::new(),
            forks: Forks::default(),
            keys: None,
            dataset: blake3::Hasher::new(),
            labels: Labels::default(),
            report: Report {
                tool: "trajpress".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                schema_version: store::SCHEMA_VERSION.to_owned(),
                ..Report::default()
            },
            before: Before::default(),
            file: FileRecord::default(),
        })
    }

    /// Takes the next part in order.
    fn take(&mut self, part: Part, inputs: &[Input]) -> anyhow::Result<()> {
        let input = &inputs[part.input];
        let name = &input.name;
        if part.number == 0 {
            self.file = FileRecord::of(input, self.origins[part.input]);
        }
        for reject in &part.rejects {
            let row =
                Reject { path: name, line: reject.line, byte_offset: reject.offset, reason: &reject.reason };
            writeln!(self.rejects, "{}", escape::json_line(&row)?)
                .with_context(|| cannot_write(&self.dir, "rejects.jsonl"))?;
        }
        self.report.rejects += part.rejects.len() as u64;
        self.file.rejects += part.rejects.len() as u64;
        self.file.is_unread |= part.is_unread || part.beginning == Some(Beginning::Unread);
        self.file.bytes += part.n_bytes;
        add_all(&mut self.file.losses, &part.losses.0);
        redact::add(&mut self.file.redacted, &part.redacted);
        add_all(&mut self.file.fields_mapped, &part.fields.mapped);
        add_all(&mut self.file.fields_dropped, &part.fields.dropped);
        let format = self.take_kind(&part, input);
        for run in part.runs {
            let shared = self.origins[part.input].filter(|_| part.beginning == Some(Beginning::Shared));
            let (run, whole) = match self.forks.take(shared, run, part.input, &mut self.file.losses) {
                Forked::Run(run) => (run, None),
                Forked::Whole(run, other) => (*run, Some(other)),
            };
            let Run { row: mut trajectory, steps, log_id } = run;
            if trajectory.source_key.is_empty() {
                let n = self.file.trajectories + self.file.duplicates;
                trajectory.source_key = format!("{} {}#{n}", trajectory.format, self.file.digest);
            }
            let is_named_by_file = log_id != trajectory.trajectory;
            let log_text = log_id;
            let log_id = u128::from_str_radix(&log_text, 16).context("an id is a hex number")?;
            let repeats = match part.beginning {
                // A session goes on in the other file; runs that it started are told by themselves.
                Some(Beginning::Whole(other)) if trajectory.parent.is_none() => Some(other),
                _ => whole.or(self.seen.get(&log_id).map(|first| *first as usize)),
            };
            if let Some(other) = repeats {
                let repeats = self.names[other].clone();
                self.file.duplicates += 1;
                if repeats != *name {
                    self.file.repeats.insert(repeats.clone());
                }
                self.report.duplicates.push(Duplicate {
                    trajectory: trajectory.trajectory,
                    source: name.clone(),
                    repeats,
                });
                continue;
            }
            self.seen.insert(log_id, part.input as u32);
            if let Some(keys) = &mut self.keys {
                keys.insert(keep::key(&trajectory.source_key));
            }
            if is_named_by_file {
                self.file.log_ids.insert(trajectory.trajectory.clone(), log_text);
            }
            if trajectory.n_turns == 0 {
                let (trajectory, source) = (trajectory.trajectory.clone(), name.clone());
                self.report.without_turns.push(RunName { trajectory, source });
            }
            self.dataset.update(trajectory.trajectory.as_bytes());
            self.report.trajectories += 1;
            self.report.steps += steps.len() as u64;
            self.file.trajectories += 1;
            self.file.steps += steps.len() as u64;
            self.file.text_bytes += trajectory.n_bytes;
            self.steps.push(step_rows(&trajectory.trajectory, steps))?;
            self.trajectories.push([trajectory])?;
        }
        if part.is_last {
            self.end_file(input, format)?;
        }
        Ok(())
    }

    /// Takes what is known of a file beside its runs; returns the name of its kind.
    fn take_kind(&mut self, part: &Part, input: &Input) -> &'static str {
        let aside =
            |what: &str| Aside { path: input.name.clone(), format: what.to_owned(), bytes: input.n_bytes };
        match &part.found {
            Found::Log(name) => {
                self.report.lost_records += part.rejects.len() as u64;
                name
            }
            Found::NotRead(format) => {
                self.report.not_read.push(aside(format));
                "not read"
            }
            Found::Label(kind, bytes) => match LabelFile::read(&input.name, kind, bytes) {
                Ok(file) => {
                    self.labels.files.push(file);
                    "label"
                }
                Err(_) => {
                    self.report.no_logs.push(aside(&format!("unreadable {kind}")));
                    "no log"
                }
            },
            Found::NoLog(what) => {
                self.report.no_logs.push(aside(what));
                "no log"
            }
            Found::Bad => {
                self.report.lost_records += u64::from(part.is_too_large);
                let reason = part.rejects.first().map_or("", |r| r.reason.as_str());
                self.report.unreadable.push(aside(reason.lines().next().unwrap_or("")));
                "unreadable"
            }
        }
    }

    fn end_file(&mut self, input: &Input, format: &str) -> anyhow::Result<()> {
        let mut file = std::mem::take(&mut self.file);
        let name = &input.name;
        let has_reader = formats::ALL.iter().any(|e| e.name == format);
        if file.trajectories + file.duplicates == 0 {
            if has_reader {
                let aside = Aside { path: name.clone(), format: format.to_owned(), bytes: input.n_bytes };
                self.report.without_runs.push(aside);
            }
            if input.is_named && format != "label" {
                self.report.named_for_nothing.push(name.clone());
            }
        }
        file.format = format.to_owned();
        if file.is_unread {
            file.digest.clear();
        }
        self.count_file(file)
    }

    /// Counts all that is known of a file, and writes it down.
    fn count_file(&mut self, file: FileRecord) -> anyhow::Result<()> {
        writeln!(self.files, "{}", escape::json_line(&file)?)
            .with_context(|| cannot_write(&self.dir, "files.jsonl"))?;
        for path in &file.parts {
            let (path, part_of) = (path.clone(), Some(file.path.clone()));
            let part = FileRecord { path, format: file.format.clone(), part_of, ..FileRecord::default() };
            writeln!(self.files, "{}", escape::json_line(&part)?)
                .with_context(|| cannot_write(&self.dir, "files.jsonl"))?;
        }
        let n_files = file.n_files();
        self.report.files += n_files;
        self.report.bytes += file.bytes;
        self.report.stored_bytes += file.stored_bytes;
        redact::add(&mut self.report.redacted, &file.redacted);
        if formats::ALL.iter().any(|e| e.name == file.format) {
            let totals = self.report.formats.entry(file.format).or_default();
            totals.files += n_files;
            totals.trajectories += file.trajectories;
            totals.duplicates += file.duplicates;
            totals.steps += file.steps;
            totals.bytes += file.bytes;
            totals.text_bytes += file.text_bytes;
            totals.rejects += file.rejects;
            add_all(&mut totals.losses, &file.losses);
            add_all(&mut totals.fields_mapped, &file.fields_mapped);
            add_all(&mut totals.fields_dropped, &file.fields_dropped);
        }
        Ok(())
    }

    /// Closes the tables, joins the labels, writes the report, and gives all files their names.
    fn finish(mut self) -> anyhow::Result<Report> {
        self.report.dataset = self.dataset.finalize().to_hex()[..32].to_owned();
        self.trajectories.finish()?;
        self.steps.finish()?;
        self.rejects.flush().with_context(|| cannot_write(&self.dir, "rejects.jsonl"))?;
        self.files.flush().with_context(|| cannot_write(&self.dir, "files.jsonl"))?;
        if self.labels.has_verdicts() {
            join_labels(&self.dir, &mut self.labels, &mut self.report)?;
        }
        self.report.contradicting_labels = self.labels.contradicted.iter().cloned().collect();
        self.report.labels = self
            .labels
            .files
            .iter()
            .map(|f| LabelReport {
                path: f.name.clone(),
                format: f.kind.to_owned(),
                joined: f.n_joined,
                odd: f.n_odd,
            })
            .collect();
        for name in TABLES.into_iter().filter(|name| *name != "ingest.json") {
            let path = unfinished(&self.dir, name);
            let made = Made::of(&path).with_context(|| format!("cannot read {}", path.display()))?;
            self.report.tables.insert(name.to_owned(), made);
        }
        write_report(&self.dir, &self.report)?;
        let is_same = ["trajectories.parquet", "steps.parquet"]
            .iter()
            .all(|name| Made::of(&self.dir.join(name)).ok().as_ref() == self.report.tables.get(*name));
        let was_there = reach::is_there(&self.dir.join("ingest.json"))?;
        self.report.before = was_there.then_some(Before { is_same, ..self.before });
        let staged = |name: &'static str| {
            let path = unfinished(&self.dir, name);
            (path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default(), name)
        };
        swap::swap(&self.dir, &staged("swap").0, &TABLES.map(staged))?;
        Ok(self.report)
    }
}

fn cannot_write(dir: &Path, name: &str) -> String {
    format!("cannot write {}", unfinished(dir, name).display())
}

fn add_all(to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (key, n) in from {
        match to.get_mut(key) {
            Some(count) => *count += n,
            None => {
                to.insert(key.clone(), *n);
            }
        }
    }
}

/// Writes the table of trajectories again with what the label files say; one row group at a time.
///
/// Label files may come after their runs, so this cannot be done on the way; and whose runs a file speaks of
/// is known when all were met.
fn join_labels(dir: &Path, labels: &mut Labels, report: &mut Report) -> anyhow::Result<()> {
    let path = unfinished(dir, "trajectories.parquet");
    let joined = unfinished(dir, "joined.parquet");
    let n_row_groups = store::row_groups::<TrajectoryRow>(&path)?;
    for row_group in 0..n_row_groups {
        for row in store::read_row_group::<TrajectoryRow>(&path, row_group)? {
            if let Some(task) = &row.task_id {
                labels.meet(&row.source, task, row.agent.as_ref().unwrap_or(&row.format));
            }
        }
    }
    let mut writer = TableWriter::create(&joined, ROW_GROUP_BYTES)?;
    for row_group in 0..n_row_groups {
        for mut row in store::read_row_group::<TrajectoryRow>(&path, row_group)? {
            if row.resolved.is_none()
                && let Some((resolved, file)) = row
                    .task_id
                    .as_deref()
                    .and_then(|t| labels.join(&row.source, t, row.agent.as_ref().unwrap_or(&row.format)))
            {
                row.resolved = resolved;
                row.label_source = Some(file);
                if let Some(totals) = report.formats.get_mut(&row.format).filter(|_| resolved.is_some()) {
                    totals.labelled += 1;
                }
            }
            writer.push([row])?;
        }
    }
    writer.finish()?;
    std::fs::rename(&joined, &path).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes `ingest.json`: the report, then a line for each file.
fn write_report(dir: &Path, report: &Report) -> anyhow::Result<()> {
    let path = unfinished(dir, "ingest.json");
    let text = escape::json(report)?;
    let body = text.strip_suffix("\n}\n").context("a report is an object")?;
    let write = || -> std::io::Result<()> {
        let mut out = Sealed::new(BufWriter::new(File::create(&path)?));
        write!(out, "{body},\n  \"by_file\": [")?;
        let files = std::io::BufReader::new(File::open(unfinished(dir, "files.jsonl"))?);
        for (i, line) in std::io::BufRead::lines(files).enumerate() {
            write!(out, "{}\n    {}", if i == 0 { "" } else { "," }, line?)?;
        }
        out.write_all(b"\n  ]")?;
        out.seal()?.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
