//! The folder of a trial: what it was made of, its data and its experiment, and the answer that was printed last.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::page::Block;
use super::super::{Output, count, tell};
use super::{Args, EXPERIMENT, budget, tell_unless};
use crate::experiment::{Dataset, Options, SEMANTICS_VERSION};
use crate::files::{reach, vouch};
use crate::logs::formats::READERS_VERSION;
use crate::logs::{self, Limits};
use crate::models::api;
use crate::progress::{Meter, Unit};
use crate::scores::money::Prices;
use crate::store::SCHEMA_VERSION;
use crate::text::escape;

/// Says that a folder is a trial's, and of what; its time is when the folder was last used.
pub(super) const NOTE: &str = "try.json";
const ANSWER: &str = "answer.json";

/// What decides whether what was made before can still be used.
pub(super) fn maker() -> String {
    let program = env!("CARGO_PKG_VERSION");
    format!(
        "trajpress {program}, readers {READERS_VERSION}, tables {SCHEMA_VERSION}, scores {SEMANTICS_VERSION}"
    )
}

/// What was printed, as a page and as JSON.
#[derive(Serialize, Deserialize)]
pub(super) struct Printed {
    /// Of which logs and run.
    of: String,
    pub(super) page: Vec<Block>,
    pub(super) json: String,
}

impl Printed {
    /// What is not to be told again.
    pub(super) fn once(page: Vec<Block>, json: String) -> Self {
        Printed { of: String::new(), page, json }
    }
}

/// The folder of a trial.
pub(super) struct Desk {
    out: PathBuf,
    /// What it was made of: program, options, and every file with its size and time.
    pub(super) key: String,
    /// Whether the folder holds just that.
    pub(super) is_same: bool,
}

impl Desk {
    pub(super) fn new(out: &Path, inputs: &[PathBuf], args: &Args) -> anyhow::Result<Self> {
        let mut hash = blake3::Hasher::new();
        let options = (&args.budget, &args.window, &args.prices, args.hour_cache, inputs);
        hash.update(format!("{} {} {options:?} {EXPERIMENT}", maker(), api::digest()).as_bytes());
        let own = fs::canonicalize(out).ok();
        let mut is_read = true;
        for input in inputs {
            anyhow::ensure!(reach::is_there(input)?, "{} is not there", input.display());
            let is_own = |entry: &walkdir::DirEntry| {
                entry.depth() > 0
                    && entry.file_type().is_dir()
                    && fs::canonicalize(entry.path()).is_ok_and(|path| Some(path) == own)
            };
            let files = walkdir::WalkDir::new(input).follow_links(true).sort_by_file_name();
            for file in files.into_iter().filter_entry(|entry| !is_own(entry)) {
                // What cannot be read is told where it is read, every time.
                let Ok(file) = file else {
                    is_read = false;
                    hash.update(b"not read\n");
                    continue;
                };
                if let Ok(about) = file.metadata().map(|about| (about.len(), about.modified().ok()))
                    && file.file_type().is_file()
                {
                    let opens = fs::File::open(file.path()).is_ok();
                    is_read &= opens;
                    hash.update(format!("{:?} {about:?} {opens}\n", file.path()).as_bytes());
                }
            }
        }
        let key = hash.finalize().to_hex()[..32].to_owned();
        let kept = reach::read(&out.join(NOTE))?;
        for name in ["data", "run"] {
            anyhow::ensure!(
                kept.is_some() || !reach::is_there(&out.join(name))?,
                "{} holds `{name}`, which `trajpress try` has not made and would replace\nhint: choose another folder for `--out`",
                out.display()
            );
        }
        // Who has changed the experiment has another one.
        let experiment = reach::read(&out.join("experiment.toml"))?.unwrap_or_default();
        let made_of = (key.as_str(), &*String::from_utf8_lossy(&experiment));
        let is_same = is_read && kept.is_some_and(|kept| kept == note(Some(made_of)).as_bytes());
        Ok(Desk { out: out.to_owned(), key, is_same })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// Notes that the folder is a trial's, and of what once that is so.
    pub(super) fn keep(&self, made_of: Option<(&str, &str)>) -> anyhow::Result<()> {
        let path = self.path(NOTE);
        fs::write(&path, note(made_of)).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The logs as tables, and whether all could be read.
    pub(super) fn data(
        &self,
        inputs: &[PathBuf],
        threads: usize,
        output: Output,
    ) -> anyhow::Result<(Dataset, bool)> {
        let (folder, mut is_whole) = (self.path("data"), true);
        if !self.is_same {
            // Until the new tables stand there, they are of no logs.
            self.keep(None)?;
            let options = logs::Options {
                inputs: inputs.to_vec(),
                out: folder.clone(),
                format: None,
                threads: super::super::threads(threads),
                limits: Limits::default(),
                // Nothing of other logs; sessions that are known are not read again.
                mode: logs::Mode::Match,
                own: vec![self.out.clone()],
                ..logs::Options::default()
            };
            let meter = Meter::new("ingest", Unit::Bytes, 0, output.quiet);
            let report = logs::ingest(&options, &mut |p| {
                meter.set(p.bytes_done, p.bytes, || super::super::ingest::reading(&p));
            })?;
            meter.finish();
            anyhow::ensure!(
                report.trajectories > 0,
                "no session was found among {} in {}\nhint: `trajpress list formats` says which logs can be read, `trajpress ingest --explain FILE` what a file is",
                count(report.files, "file"),
                inputs.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ")
            );
            let formats = report.formats.iter().filter(|(_, of)| of.trajectories > 0);
            let formats: Vec<String> = formats
                .map(|(name, of)| format!("{} of {name}", count(of.trajectories, "session")))
                .collect();
            let mut told = format!("read {} ({})", formats.join(", "), count(report.steps, "step"));
            if let Some(known) = report.before.as_ref().map(|before| before.n_known).filter(|n| *n > 0) {
                told += &format!("; {} known from before", count(known, "file"));
            }
            if !report.not_read.is_empty() {
                let n = count(report.not_read.len() as u64, "file");
                let path = folder.join("ingest.json");
                told += &format!("; {n} of formats that are not read, see {}", path.display());
            }
            if report.rejects > 0 {
                let path = folder.join("rejects.jsonl");
                told += &format!("; {} left out, see {}", count(report.rejects, "record"), path.display());
            }
            if !report.duplicates.is_empty() {
                let n = count(report.duplicates.len() as u64, "copy");
                told += &format!("; {n} of sessions in other files left out");
            }
            tell_unless(output.quiet, &told);
            is_whole = tell_unread(&report, &folder);
        }
        Ok((Dataset::open_annotated(&folder, "o200k", threads)?.0, is_whole))
    }

    /// The experiment with window, prices and sample; that of the last time where nothing has changed.
    pub(super) fn experiment(
        &self,
        data: &Dataset,
        args: &Args,
        prices: Option<Prices>,
        (start, options): (Instant, &Options),
    ) -> anyhow::Result<String> {
        if self.is_same
            && let Some(text) = reach::read(&self.path("experiment.toml"))?
        {
            return String::from_utf8(text).context("experiment.toml is no text\nhint: delete it");
        }
        let mut text = EXPERIMENT.to_owned();
        if let Some(window) = args.window {
            text = text.replace("window = \"own\"", &format!("window = {window}"));
        }
        let own = || Prices { own: true, hour: args.hour_cache, ..Prices::default() };
        text += &format!("\n[prices]\n{}", toml::to_string(&prices.unwrap_or_else(own))?);
        if let Some(budget) = args.budget
            && let Some(sample) = budget::sample(&text, data, &self.path("run"), options, start + budget)?
        {
            text += &format!("\n[data]\nsample = {sample}\n");
        }
        Ok(text)
    }

    /// What was printed of just this the last time, if all that it names is still there.
    pub(super) fn printed(&self) -> anyhow::Result<Option<Printed>> {
        let told_of = self.told_of()?;
        let kept = reach::read(&self.path(ANSWER))?.filter(|kept| vouch::sealed(kept).is_ok());
        let kept = kept.and_then(|kept| serde_json::from_slice(&kept).ok());
        let kept = kept.filter(|kept: &Printed| self.is_same && told_of.as_ref() == Some(&kept.of));
        if kept.is_some() {
            // Whoever clears away looks at it; that it cannot be set is no reason to tell nothing.
            let note = fs::OpenOptions::new().append(true).open(self.path(NOTE));
            let _ = note.and_then(|note| note.set_modified(SystemTime::now()));
        }
        Ok(kept)
    }

    pub(super) fn remember(&self, page: Vec<Block>, json: String) -> anyhow::Result<Printed> {
        let printed = Printed { of: self.told_of()?.unwrap_or_default(), page, json };
        let path = self.path(ANSWER);
        fs::write(&path, vouch::seal(&escape::json(&printed)?)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(printed)
    }

    /// Names the logs with their options, and the run; nothing while a run or its report is not there.
    fn told_of(&self) -> anyhow::Result<Option<String>> {
        for file in ["report/summary.md", "report/retention_savings.png"] {
            if !reach::is_there(&self.path(file))? {
                return Ok(None);
            }
        }
        let run = reach::read(&self.path("run/_SUCCESS"))?;
        Ok(run.map(|run| format!("{} {}", self.key, blake3::hash(&run).to_hex())))
    }
}

/// Whether all files could be read; if not, says which one could not, and why.
fn tell_unread(report: &logs::Report, folder: &Path) -> bool {
    if let [first, rest @ ..] = &report.unreadable[..] {
        let more = match rest.len() {
            0 => String::new(),
            n => format!("; nor {}", count(n as u64, "other file")),
        };
        let list = folder.join("ingest.json");
        tell(&format!("{}: {}{more}; see {}", first.path, first.format, list.display()));
    }
    report.unreadable.is_empty()
}

/// What the note says: who made the folder, of what, and by which experiment.
fn note(made_of: Option<(&str, &str)>) -> String {
    let (key, experiment) = made_of.unzip();
    let experiment = experiment.map(|text| blake3::hash(text.as_bytes()).to_hex().to_string());
    json!({ "made_by": maker(), "made_of": key, "experiment": experiment }).to_string()
}
