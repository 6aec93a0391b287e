//! The files of a dataset in the making.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

use crate::files::vouch::{Made, Sealed};
use crate::files::{reach, swap};
use crate::logs::forks::{Forked, Forks};
use crate::logs::input::Input;
use crate::logs::labels::{LabelFile, Labels};
use crate::logs::part::{Found, Part, Run};
use crate::logs::record::{FileRecord, TABLES, key};
use crate::logs::sessions::Beginning;
use crate::store::{self, StepRow, TableWriter, TrajectoryRow, step_rows};
use crate::text::{escape, redact};

use super::formats;
use super::report::{Aside, Before, Duplicate, LabelReport, Report, RunName};

/// Row groups are closed at about this much text, so that units of work are small.
pub(super) const ROW_GROUP_BYTES: usize = 8 << 20;

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

/// The files of a dataset in the making.
pub(super) struct Output {
    pub(super) dir: PathBuf,
    pub(super) trajectories: TableWriter<TrajectoryRow>,
    pub(super) steps: TableWriter<StepRow>,
    pub(super) rejects: BufWriter<File>,
    pub(super) files: BufWriter<File>,
    /// Names of the inputs, and behind them of the files that are known.
    pub(super) names: Vec<String>,
    pub(super) n_inputs: usize,
    /// What the sessions in the inputs have in common with their copies.
    pub(super) origins: Vec<Option<u128>>,
    /// Which of these a run was read from first, by its log id.
    pub(super) seen: HashMap<u128, u32>,
    pub(super) forks: Forks,
    /// The `source_key` of all that was read, hashed, if runs of other files may have one of them.
    pub(super) keys: Option<HashSet<u128>>,
    pub(super) dataset: blake3::Hasher,
    labels: Labels,
    pub(super) report: Report,
    pub(super) before: Before,
    pub(super) file: FileRecord,
}

/// How the temporary names end of files that are not finished.
const UNFINISHED: &str = ".unfinished";

/// The temporary name of a file of the dataset: of this process alone, should locks not work.
fn unfinished(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!(".{name}.{}{UNFINISHED}", std::process::id()))
}

/// Removes at the end what has no name yet, whatever went wrong.
pub(super) struct Unfinished<'a>(pub(super) &'a Path);

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
pub(super) fn remove_abandoned(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') && name.ends_with(UNFINISHED) {
            // What cannot be removed is no part of the dataset, and does no harm.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

impl Output {
    pub(super) fn create(dir: &Path, inputs: &[Input], origins: Vec<Option<u128>>) -> anyhow::Result<Self> {
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
    pub(super) fn take(&mut self, part: Part, inputs: &[Input]) -> anyhow::Result<()> {
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
                keys.insert(key(&trajectory.source_key));
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
    pub(super) fn count_file(&mut self, file: FileRecord) -> anyhow::Result<()> {
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
    pub(super) fn finish(mut self) -> anyhow::Result<Report> {
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

pub(super) fn cannot_write(dir: &Path, name: &str) -> String {
    format!("cannot write {}", unfinished(dir, name).display())
}

pub(super) fn add_all(to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
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
