//! `trajpress nightly`: what is new is read, replayed and compared with the night before.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use clap::Parser as _;
use serde::Deserialize;
use serde_json::json;
use toml::Spanned;

use super::{Cli, Command, ExitStatus, IS_STEP, Output, catalogue, compare, count, ingest, print, tell};
use crate::experiment::finish::Success;
use crate::experiment::{Plan, place};
use crate::files::lock::Lock;
use crate::files::{reach, seal};
use crate::report::Night;
use crate::report::compare::gate::Gate;
use crate::settings::{OneOrMore, Source};
use crate::store::{Row as _, ShowcaseRow};
use crate::text::escape;

/// Nights that are kept, where the file does not say.
const KEPT: usize = 14;
const MANIFEST: &str = "_manifest.json";
const SUCCESS: &str = "_SUCCESS";

/// Read new logs, replay an experiment over them, report, and compare with the night before
///
/// Does what `ingest`, `run`, `report` and `compare` do, in a folder of its own: only new logs are read, and only cells that are
/// not known yet are computed. Each night has a folder with its tables, its report and what the comparison said; old ones go.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress nightly nightly.toml
  0 3 * * * cd /srv/agents && trajpress nightly nightly.toml --quiet > nightly.log 2>&1

nightly.toml, with paths beside the file:
  logs = [\"~/.claude/projects\"]
  experiment = \"experiment.toml\"
  folder = \"nights\"       # data, the run and a folder a night
  gate = \"gate.toml\"      # what may not get worse, see `trajpress compare --help`
  keep = 14               # nights
  exclude = [\"*/tmp/*\"]   # and include, redact, strict

Exit codes: 0 nothing is worse; 1 something is, or some logs could not be read; 2 it could not run, or the gate could not be asked")]
pub struct Args {
    /// File that says which logs, which experiment and where to
    config: PathBuf,
    /// Use N threads; 0 is all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    logs: Spanned<OneOrMore>,
    experiment: Spanned<PathBuf>,
    #[serde(default = "nights")]
    folder: PathBuf,
    gate: Option<Spanned<PathBuf>>,
    #[serde(default = "kept")]
    keep: usize,
    #[serde(default)]
    include: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
    #[serde(default)]
    redact: bool,
    /// Whether what cannot be told fails the night.
    #[serde(default)]
    strict: bool,
}

fn nights() -> PathBuf {
    PathBuf::from("nights")
}

fn kept() -> usize {
    KEPT
}

/// Runs the command.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let config = Config::read(&args.config)?;
    let beside = |path: &Path| beside(&args.config, path);
    let folder = beside(&config.folder);
    // What people write is read before an hour is spent on it.
    let experiment = beside(config.experiment.get_ref());
    Plan::read(&experiment, &catalogue())?;
    let gate = Gate::load(config.gate.as_ref().map(|gate| beside(gate.get_ref())).as_deref())?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let _alone = Lock::alone(&folder, "nightly")?;
    let [data, run] = ["data", "run"].map(|name| folder.join(name));
    let step = |args: Vec<OsString>| step(args, output);
    // One JSON object is printed, and not what each step says.
    IS_STEP.store(output.json, Ordering::Relaxed);

    let mut of_ingest = vec!["ingest".into(), "--out".into(), data.clone().into()];
    for (flag, globs) in [("--include", &config.include), ("--exclude", &config.exclude)] {
        of_ingest.extend(globs.iter().flat_map(|glob| [flag.into(), glob.into()]));
    }
    of_ingest.extend(config.redact.then(|| "--redact".into()));
    of_ingest.push("--".into());
    of_ingest.extend(config.logs.into_inner().into_vec().iter().map(|path| beside(Path::new(path)).into()));
    let cli = typed(of_ingest, output)?;
    let Command::Ingest(of_ingest) = &cli.command else { unreachable!("that was typed") };
    let (mut status, n_gone) = ingest::read(of_ingest, cli.output)?;
    let replay: [OsString; 8] = [
        "run".into(),
        experiment.into(),
        "--data".into(),
        data.clone().into(),
        "--out".into(),
        run.clone().into(),
        "--replace".into(),
        format!("--threads={}", args.threads).into(),
    ];
    status = worse(status, step(replay.into())?);

    let before = all(&folder)?.pop();
    let name = free(&folder)?;
    let night = Unfinished::begin(&folder, &name)?;
    night.take(&run)?;
    let night = night.finish(&folder.join(&name))?;
    // The page says what the gate does, so the gate is asked first.
    let answered = before.as_deref().map(|before| compare::night(before, &night, gate, config.strict));
    let before = before.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let mut said = Night { name, before, ..said(answered.as_ref()) };
    said.notes.extend(gone(n_gone, &data));
    said.write(&night)?;
    // A night is looked at in a browser: `report` draws pictures for a paper of any of them.
    let of_report = ["report", "--no-png", "--population", "these"].map(OsString::from);
    status = worse(status, step([&of_report[..], &[night.clone().into()]].concat())?);
    IS_STEP.store(false, Ordering::Relaxed);
    if output.json {
        let compared = answered.as_ref().and_then(|answered| Some(answered.as_ref().ok()?.json()));
        let report = night.join("report").join("report.html");
        print(&escape::json(&json!({ "night": night, "report": report, "compared": compared }))?)?;
    }
    status = worse(
        status,
        match answered {
            Some(Ok(answered)) if output.json => answered.status(),
            Some(Ok(answered)) => answered.print()?,
            // The night stands all the same, so that the next one can be compared with it.
            Some(Err(error)) => {
                tell(&format!("the gate was not asked: {error:#}"));
                ExitStatus::Unusable
            }
            None => {
                tell("the first night: there is none before it to compare with");
                ExitStatus::Done
            }
        },
    );
    gone(n_gone, &data).iter().for_each(|told| tell(told));
    for old in all(&folder)?.iter().rev().skip(config.keep) {
        fs::remove_dir_all(old).with_context(|| format!("cannot remove {}", old.display()))?;
    }
    Ok(status)
}

impl Config {
    /// What the file says, if the files that it names are there.
    fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display().to_string();
        let text = reach::text(path).with_context(|| format!("cannot read {shown}"))?;
        let source = Source { path: &shown, text: &text };
        let config: Config = source.read()?;
        anyhow::ensure!(config.keep > 0, "{shown}: `keep` must be at least 1, the night itself");
        if config.logs.get_ref().is_empty() {
            let told =
                "`logs` names none\nhint: name folders or files of logs, such as \"~/.claude/projects\"";
            return Err(source.error(&config.logs.span(), told));
        }
        for (key, named) in [("experiment", Some(&config.experiment)), ("gate", config.gate.as_ref())] {
            let Some(named) = named else { continue };
            let there = beside(path, named.get_ref());
            if !there.is_file() {
                let begin = match key {
                    "gate" => "without the key the gate of `trajpress compare --help` is taken",
                    _ => "`trajpress show preset NAME > FILE` writes an experiment to begin with",
                };
                let told = format!(
                    "`{key}` names {}, and no file is there\nhint: paths are beside {shown}; {begin}",
                    there.display()
                );
                return Err(source.error(&named.span(), &told));
            }
        }
        Ok(config)
    }
}

/// A path as a file means it: beside itself, or in the home folder of the user.
fn beside(file: &Path, path: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(at_home(path))
}

/// What the gate said, for the page.
fn said(answered: Option<&anyhow::Result<compare::Answered>>) -> Night {
    let said = match answered {
        Some(Ok(answered)) => return answered.for_page(),
        Some(Err(error)) => format!("The gate was not asked: {error:#}"),
        None => "The first night: there is none before it to compare with.".to_owned(),
    };
    Night { said, ..Night::default() }
}

/// That logs of earlier nights are gone, which no figure tells: their sessions stay.
fn gone(n: u64, data: &Path) -> Option<String> {
    (n > 0).then(|| {
        format!(
            "{} of earlier nights {} not among the logs any more, and what was read of them still counts; to go on without, remove {}",
            count(n, "file"),
            if n == 1 { "is" } else { "are" },
            data.display()
        )
    })
}

/// One of the other commands, as if it had been typed.
fn step(args: Vec<OsString>, output: Output) -> anyhow::Result<ExitStatus> {
    typed(args, output)?.run()
}

fn typed(args: Vec<OsString>, output: Output) -> anyhow::Result<Cli> {
    let typed: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    if !output.quiet {
        tell(&format!("== trajpress {}", typed.join(" ")));
    }
    let quiet = output.quiet.then(|| OsString::from("--quiet"));
    let name = [OsString::from("trajpress")];
    Ok(Cli::try_parse_from(name.into_iter().chain(quiet).chain(args))?)
}

fn worse(a: ExitStatus, b: ExitStatus) -> ExitStatus {
    if a as u8 >= b as u8 { a } else { b }
}

/// A path that begins in the home folder of the user.
fn at_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => path.to_owned(),
    }
}

/// The time as the name of a night, UTC: `2026-01-31-030000`.
fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let time = arrow::temporal_conversions::timestamp_s_to_datetime(seconds as i64);
    time.map_or_else(|| seconds.to_string(), |time| time.format("%Y-%m-%d-%H%M%S").to_string())
}

/// A name that no night has: two within a second are two nights.
fn free(folder: &Path) -> anyhow::Result<String> {
    loop {
        let name = now();
        if !reach::is_there(&folder.join(&name))? {
            return Ok(name);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The nights in a folder, the oldest first; what is not complete is none.
pub(super) fn all(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let is_night = |name: &str| name.len() == 17 && name.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let named = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(is_night);
    let mut nights: Vec<PathBuf> = paths.filter(|path| named(path) && path.join(SUCCESS).is_file()).collect();
    nights.sort();
    Ok(nights)
}

/// A night in the making; it goes where it is not finished.
struct Unfinished(PathBuf);

impl Unfinished {
    fn begin(folder: &Path, name: &str) -> anyhow::Result<Self> {
        let is_left = |name: &str| name.starts_with(".night.") && name.ends_with(".unfinished");
        // Nobody else is at work here: what lies about is of one that was killed.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if is_left(&entry.file_name().to_string_lossy()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let path = folder.join(format!(".night.{name}.unfinished"));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Unfinished(path))
    }

    /// The final tables of a run, as they are: later runs put others in their place and leave these.
    fn take(&self, run: &Path) -> anyhow::Result<()> {
        let success = Success::read(run)?.with_context(|| {
            format!(
                "{} is not complete\nhint: see the errors above, and start the night again",
                run.display()
            )
        })?;
        let tables = success.tables.iter().map(|table| table.path.as_str());
        // The worst events with their text are no rows of the run, and the page of the night shows them.
        let showcase = format!("{}.parquet", ShowcaseRow::TABLE);
        let mut showcase = vec![seal::name_of(&showcase), showcase];
        showcase.retain(|name| run.join(name).is_file());
        let showcase = showcase.iter().map(String::as_str);
        for name in tables.chain([MANIFEST, SUCCESS, place::FILE]).chain(showcase) {
            let (from, to) = (run.join(name), self.0.join(name));
            fs::hard_link(&from, &to)
                .or_else(|_| fs::copy(&from, &to).map(drop))
                .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
        }
        Ok(())
    }

    fn finish(self, to: &Path) -> anyhow::Result<PathBuf> {
        fs::rename(&self.0, to).with_context(|| format!("cannot write {}", to.display()))?;
        Ok(to.to_owned())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nights_are_told_by_their_names_and_are_complete() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["2026-01-31-030000", "2026-02-01-030000", "2026-02-02-030000", "data", "2026-02-01"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        for name in ["2026-02-01-030000", "2026-01-31-030000", "data"] {
            fs::write(dir.path().join(name).join(SUCCESS), "").unwrap();
        }
        let names: Vec<_> =
            all(dir.path()).unwrap().iter().map(|p| p.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["2026-01-31-030000", "2026-02-01-030000"]);
        let first = free(dir.path()).unwrap();
        assert_eq!(first.len(), 17);
        fs::create_dir(dir.path().join(&first)).unwrap();
        assert!(free(dir.path()).unwrap() > first, "two nights within a second");
    }
}
