//! `trajpress try`: from logs to an answer in one command.

mod answer;
mod budget;
mod models;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;

use super::meter::Meter;
use super::{ExitStatus, Output, catalogue, count, print, tell};
use crate::annotate::annotate;
use crate::experiment::cell::{Models, Shelf, losses, run_unit};
use crate::experiment::run::select;
use crate::experiment::{Dataset, Options, Plan, SEMANTICS_VERSION, run_with};
use crate::files::lock::Lock;
use crate::files::reach;
use crate::logs::formats::READERS_VERSION;
use crate::logs::{self, Limits, places};
use crate::report::statistics::bootstrap::Resampling;
use crate::report::{self, Population};
use crate::scores::money::Prices;
use crate::store::SCHEMA_VERSION;
use crate::text::escape;
use answer::Answer;

/// What is replayed, as an experiment.
const EXPERIMENT: &str = include_str!("../data/try.toml");
/// Up to so many sessions the lines that were lost are shown, and numbers take the place of shares.
const FEW_SESSIONS: usize = 10;
/// Turns that an agent surely remembers: as in the report.
const TAIL: u32 = 10;

/// Try a dozen plain policies on logs, and print what each would save and lose
///
/// Without arguments it looks where agents keep their sessions, then in the current folder. Reads the logs, replays every
/// session under each policy, and prints a table; all tables and figures are written beside it. No model is asked, no agent is run
/// again, nothing leaves the machine. A second call with the same logs does nothing twice; one that was stopped goes on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress try
  trajpress try ~/.claude/projects/mine
  trajpress try logs/ --budget 60s
  trajpress try session.jsonl --window 200000 --prices claude-sonnet-4-5
  trajpress try logs/ --out first --json")]
pub struct Args {
    /// Files or folders of logs [default: where agents keep their sessions]
    logs: Vec<PathBuf>,
    /// Folder for all that is made [default: one of these logs in trajpress/try of the folder for caches]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Take about so long, and replay a sample of the sessions if all would take longer, such as 60s or 5m
    #[arg(long, value_name = "TIME", value_parser = time)]
    budget: Option<Duration>,
    /// Tokens of the window for all sessions [default: that of the model which a session names]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1000..))]
    window: Option<u64>,
    /// Model whose prices count for all sessions, one of `trajpress list api-models` [default: the model which a session names]
    #[arg(long, value_name = "MODEL")]
    prices: Option<String>,
    /// Price prompt caches that live an hour, where the model has them [default: as a session says, else 5 minutes]
    #[arg(long)]
    hour_cache: bool,
    /// Use N threads; 0 is all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

/// A time: `60s`, `5m`.
fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => 0,
    };
    let seconds = number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).filter(|n| *n > 0);
    seconds.map(Duration::from_secs).ok_or_else(|| "expected a time, such as 60s or 5m".to_owned())
}

/// Runs the command.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    super::report::check_environment()?;
    let start = Instant::now();
    let inputs = match args.logs.as_slice() {
        [] => found(output)?,
        named => named.to_vec(),
    };
    let out = match &args.out {
        Some(out) => out.clone(),
        None => cache(&inputs)?,
    };
    let prices = args.prices.as_deref().map(|name| named(name, args.hour_cache)).transpose()?;
    fs::create_dir_all(&out).with_context(|| {
        format!("cannot create {}\nhint: `--out DIR` names another folder", out.display())
    })?;
    let _alone = Lock::alone(&out, "try")?;
    let desk = Desk::new(&out, &inputs, args)?;
    let data = desk.data(&inputs, args.threads, output)?;
    let text = desk.experiment(&data, args, prices, start)?;
    let path = desk.path("experiment.toml");
    let mut plan = Plan::parse(&path.display().to_string(), &text, &catalogue())?;
    fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    let options = Options {
        threads: Some(super::threads(args.threads)),
        quiet: output.quiet,
        // What was replayed of other logs, or under other options, is taken over where it is the same.
        replace: true,
        ..Options::default()
    };
    let selection = select(&plan, &data, &options)?;
    if selection.iter().any(|&index| data.entries()[index].is_edited) {
        plan.add_as_sent(&catalogue());
    }
    let (shelf, models, rows) = (Shelf::default(), Models::new(), desk.path("run"));
    if !desk.is_same {
        desk.keep(Some((&desk.key, &text)))?;
    }
    let outcome = run_with(&plan, &data, &rows, &options, &|data, unit, plan, progress| {
        run_unit(data, unit, plan, &shelf, &models, progress)
    })?;
    let options = report::Options {
        resampling: Resampling { seed: 1, resamples: 2_000 },
        population: Population::These,
        baseline: None,
        claims: None,
        names: super::report::names(),
    };
    let written = report::write(&rows, &desk.path("report"), &options)?;
    let mut lost = Vec::new();
    if selection.len() <= FEW_SESSIONS {
        for &index in &selection {
            lost.extend(losses(&data, &plan, index, TAIL)?.into_iter().map(|loss| (index, loss)));
        }
    }
    let answer = Answer {
        plan: &plan,
        brief: &written.brief,
        data: &data,
        sessions: models::sessions(&data, &selection, args.window.is_none())?,
        lost,
    };
    match output.json {
        true => print(&escape::json(&answer.json())?)?,
        false => print(&answer.text())?,
    }
    if !output.json {
        let [summary, figure, experiment, data] =
            ["report/summary.md", "report/retention_savings.png", "experiment.toml", "data"]
                .map(|name| desk.path(name).display().to_string());
        print(&format!(
            "\nAll scores      {summary}\nThe figure      {figure}\nTo change it    copy {experiment}, then: trajpress run COPY --data {data} --out RUN\n"
        ))?;
    }
    if !output.quiet {
        let time = start.elapsed().as_secs_f64();
        tell(&format!("{:.1} s, of it {:.1} s of replay", time, outcome.seconds));
    }
    Ok(if outcome.is_clean() { ExitStatus::Done } else { ExitStatus::Failed })
}

/// The folders of agents that are there, and the current one if it holds logs, or nothing else is found.
fn found(output: Output) -> anyhow::Result<Vec<PathBuf>> {
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for place in places::known(home.as_deref(), set) {
        match place.is_there {
            Ok(true) => {
                tell_unless(output.quiet, &format!("found {}: {}", place.agent, place.path.display()));
                found.push(place.path);
            }
            Ok(false) => {}
            Err(error) => unreadable.push(format!("{}: {error}", place.path.display())),
        }
    }
    match &unreadable[..] {
        [] => {}
        [one] => tell(&format!("cannot read {one}")),
        [first, rest @ ..] => {
            tell(&format!("cannot read {first}; nor {}", count(rest.len() as u64, "other folder")))
        }
    }
    let here = std::env::current_dir().context("cannot read the current folder\nhint: name your logs")?;
    let is_among = |path: &PathBuf| path.starts_with(&here) || here.starts_with(path);
    if found.is_empty() {
        let none = "no sessions where agents keep them; looking in";
        tell_unless(output.quiet, &format!("{none} {}", here.display()));
        found.push(here);
    } else if !found.iter().any(is_among)
        && !home.is_some_and(|home| home.starts_with(&here))
        && places::holds_logs(&here)
    {
        tell_unless(output.quiet, &format!("found logs in the current folder: {}", here.display()));
        found.push(here);
    }
    Ok(found)
}

fn tell_unless(quiet: bool, text: &str) {
    if !quiet {
        tell(text);
    }
}

/// A variable that names a folder.
fn set(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

/// Where it all goes if nobody says: each choice of inputs has a folder of its own.
fn cache(inputs: &[PathBuf]) -> anyhow::Result<PathBuf> {
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(std::env::home_dir()?.join(".cache")));
    let cache = cache.context("there is no home folder\nhint: add `--out DIR`")?;
    let mut paths: Vec<PathBuf> =
        inputs.iter().map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone())).collect();
    paths.sort();
    let hash = blake3::hash(format!("{paths:?}").as_bytes()).to_hex();
    Ok(cache.join("trajpress/try").join(&hash[..12]))
}

/// The prices of a model.
fn named(name: &str, hour: bool) -> anyhow::Result<Prices> {
    let known = Prices::known(name).map(|prices| Prices { hour, ..prices });
    known.with_context(|| {
        format!(
            "the prices of `{}` are not known\nhint: `trajpress list api-models` has those that are; others go into `[prices]` of an experiment",
            escape::short(name)
        )
    })
}

/// The folder of a trial.
struct Desk {
    out: PathBuf,
    /// What it was made of: program, options, and every file with its size and time.
    key: String,
    /// Whether the folder holds just that.
    is_same: bool,
}

impl Desk {
    fn new(out: &Path, inputs: &[PathBuf], args: &Args) -> anyhow::Result<Self> {
        let mut hash = blake3::Hasher::new();
        let options = (&args.budget, &args.window, &args.prices, args.hour_cache, inputs);
        let version = (env!("CARGO_PKG_VERSION"), READERS_VERSION, SCHEMA_VERSION, SEMANTICS_VERSION);
        hash.update(format!("{version:?} {options:?} {EXPERIMENT}").as_bytes());
        let own = fs::canonicalize(out).ok();
        for input in inputs {
            anyhow::ensure!(reach::is_there(input)?, "{} is not there", input.display());
            let is_own = |entry: &walkdir::DirEntry| {
                entry.depth() > 0
                    && entry.file_type().is_dir()
                    && fs::canonicalize(entry.path()).is_ok_and(|path| Some(path) == own)
            };
            let files = walkdir::WalkDir::new(input).follow_links(true).sort_by_file_name();
            for file in files.into_iter().filter_entry(|entry| !is_own(entry)) {
                // What cannot be read is told where it is read.
                let Ok(file) = file else { continue };
                if let Ok(about) = file.metadata().map(|about| (about.len(), about.modified().ok()))
                    && file.file_type().is_file()
                {
                    hash.update(format!("{:?} {about:?}\n", file.path()).as_bytes());
                }
            }
        }
        let key = hash.finalize().to_hex()[..32].to_owned();
        let kept = reach::read(&out.join("try.json"))?;
        for name in ["data", "run", "pilot"] {
            anyhow::ensure!(
                kept.is_some() || !reach::is_there(&out.join(name))?,
                "{} holds `{name}`, which `trajpress try` has not made and would replace\nhint: choose another folder for `--out`",
                out.display()
            );
        }
        // Who has changed the experiment has another one.
        let experiment = reach::read(&out.join("experiment.toml"))?.unwrap_or_default();
        let made_of = (key.as_str(), &*String::from_utf8_lossy(&experiment));
        let is_same = kept.is_some_and(|kept| kept == note(Some(made_of)).as_bytes());
        Ok(Desk { out: out.to_owned(), key, is_same })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// Notes that the folder is a trial's, and of what once that is so.
    fn keep(&self, made_of: Option<(&str, &str)>) -> anyhow::Result<()> {
        let path = self.path("try.json");
        fs::write(&path, note(made_of)).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The logs as tables.
    fn data(&self, inputs: &[PathBuf], threads: usize, output: Output) -> anyhow::Result<Dataset> {
        let folder = self.path("data");
        if !self.is_same {
            // Until the new tables stand there, they are of no logs.
            self.keep(None)?;
            let options = logs::Options {
                inputs: inputs.to_vec(),
                out: folder.clone(),
                format: None,
                threads: super::threads(threads),
                limits: Limits::default(),
                // Nothing of other logs; sessions that are known are not read again.
                mode: logs::Mode::Match,
                own: vec![self.out.clone()],
                ..logs::Options::default()
            };
            let mut meter = Meter::new(output.quiet);
            let report = logs::ingest(&options, &mut |p| {
                meter.show(|| super::ingest::reading(&p), p.bytes_done, p.bytes);
            })?;
            meter.clear();
            let known: Vec<&str> = logs::formats::ALL.iter().map(|e| e.name).collect();
            anyhow::ensure!(
                report.trajectories > 0,
                "no session was found in {}\nhint: formats that can be read: {}; what was found stands in {}",
                inputs.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", "),
                known.join(", "),
                folder.join("ingest.json").display()
            );
            let formats = report.formats.iter().filter(|(_, of)| of.trajectories > 0);
            let formats: Vec<String> = formats
                .map(|(name, of)| format!("{} of {name}", count(of.trajectories, "session")))
                .collect();
            let mut told = format!("read {} ({})", formats.join(", "), count(report.steps, "step"));
            if let Some(known) = report.before.as_ref().map(|before| before.n_known).filter(|n| *n > 0) {
                told += &format!("; {} known from before", count(known, "file"));
            }
            let unread = report.not_read.len() + report.unreadable.len();
            if unread > 0 {
                told += &format!("; {} could not be read, see ingest.json", count(unread as u64, "file"));
            }
            if report.rejects > 0 {
                told += &format!("; {} left out, see rejects.jsonl", count(report.rejects, "record"));
            }
            tell_unless(output.quiet, &told);
        }
        annotate(&folder, "o200k", threads)?;
        Dataset::open(&folder)
    }

    /// The experiment with window, prices and sample; that of the last time where nothing has changed.
    fn experiment(
        &self,
        data: &Dataset,
        args: &Args,
        prices: Option<Prices>,
        start: Instant,
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
            && let Some(sample) = budget::sample(
                &text,
                data,
                &self.path("pilot"),
                super::threads(args.threads),
                start + budget,
            )?
        {
            text += &format!("\n[data]\nsample = {sample}\n");
        }
        Ok(text)
    }
}

/// What `try.json` says: of what the folder was made, and by which experiment.
fn note(made_of: Option<(&str, &str)>) -> String {
    let (key, experiment) = made_of.unzip();
    let experiment = experiment.map(|text| blake3::hash(text.as_bytes()).to_hex().to_string());
    json!({ "made_of": key, "experiment": experiment }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(["60s", "5m", "7", "1h"].map(|t| time(t).unwrap().as_secs()), [60, 300, 7, 3600]);
        assert!(["", "0s", "s", "1.5s", "5d", "99999999999999999999m"].into_iter().all(|t| time(t).is_err()));
    }
}
