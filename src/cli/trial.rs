//! `trajpress try`: from logs to an answer in one command.

mod answer;
mod budget;
mod desk;
mod models;
mod unused;
mod windows;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::page::{Block, lay_out, width};
use super::{ExitStatus, Output, catalogue, count, policies, print, tell};
use crate::experiment::cell::{Models, Shelf, losses, run_unit};
use crate::experiment::run::select;
use crate::experiment::{Options, Plan, run_with};
use crate::files::lock::Lock;
use crate::files::reach;
use crate::logs::places;
use crate::report::{self, Population};
use crate::scores::money::Prices;
use crate::text::escape;
use answer::Answer;
use desk::{Desk, Printed};
pub(super) use windows::tokens;

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
  trajpress try session.jsonl --window 200k --prices claude-sonnet-4-5
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
    /// Tokens of the window for all sessions, such as 200k or 1M [default: that of the model which a session names]
    #[arg(long, value_name = "TOKENS", value_parser = windows::tokens, allow_negative_numbers = true)]
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
    if let (None, Some(root)) = (&args.out, out.parent()) {
        unused::remove(root, Some(&out), unused::UNUSED, output.quiet);
    }
    let desk = Desk::new(&out, &inputs, args)?;
    let (printed, is_clean) = match desk.printed()? {
        Some(printed) => {
            tell_unless(output.quiet, "nothing has changed since the last call");
            (printed, true)
        }
        None => answered(&desk, args, &inputs, prices, start, output)?,
    };
    match output.json {
        true => print(&printed.json)?,
        false => print(&lay_out(&printed.page, width()))?,
    }
    tell_unless(output.quiet, &format!("took {:.1} s", start.elapsed().as_secs_f64()));
    Ok(if is_clean { ExitStatus::Done } else { ExitStatus::Failed })
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/\\._-~+:@%=,".contains(c);
    match path.chars().all(is_plain) {
        true => path.to_owned(),
        false if cfg!(windows) => format!("\"{path}\""),
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

/// Reads, replays and reports; whether no cell failed. What failed is tried again by the next call.
fn answered(
    desk: &Desk,
    args: &Args,
    inputs: &[PathBuf],
    prices: Option<Prices>,
    start: Instant,
    output: Output,
) -> anyhow::Result<(Printed, bool)> {
    let (data, is_whole) = desk.data(inputs, args.threads, output)?;
    if let Some(budget) = args.budget.filter(|budget| start.elapsed() > *budget) {
        tell(&format!(
            "reading the logs took {:.1} s, longer than the budget of {} s: few sessions are replayed",
            start.elapsed().as_secs_f64(),
            budget.as_secs()
        ));
    }
    let options = Options {
        threads: Some(super::threads(args.threads)),
        quiet: output.quiet,
        // What was replayed of other logs, or under other options, is taken over where it is the same.
        replace: true,
        ..Options::default()
    };
    let text = desk.experiment(&data, args, prices, (start, &options))?;
    let path = desk.path("experiment.toml");
    let mut plan = Plan::parse(&path.display().to_string(), &text, &catalogue())?;
    plan.variants.iter_mut().for_each(|variant| variant.label = policies::label(variant));
    fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    let selection = select(&plan, &data, &options)?;
    if selection.iter().any(|&index| data.entries()[index].is_edited) {
        plan.add_as_sent(&catalogue());
        plan.variants.iter_mut().for_each(|variant| variant.label = policies::label(variant));
    }
    let (shelf, models, rows) = (Shelf::default(), Models::new(), desk.path("run"));
    if !desk.is_same {
        desk.keep(Some((&desk.key, &text)))?;
    }
    let outcome = run_with(&plan, &data, &rows, &options, &|data, unit, plan, progress| {
        run_unit(data, unit, plan, &shelf, &models, progress)
    })?;
    let of_report = report::Options::new(Population::These, super::report::names());
    let written = report::write(&rows, &desk.path("report"), &of_report)?;
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
        sessions: models::sessions(&data, &selection)?,
        lost,
        window: args.window,
    };
    let [summary, figure, experiment, data] =
        ["report/summary.md", "report/retention_savings.png", "experiment.toml", "data"]
            .map(|name| desk.path(name).display().to_string());
    let mut page = answer.page();
    page.push(Block::Line(String::new()));
    let change =
        format!("copy {}, then: trajpress run COPY --data {} --out RUN", quoted(&experiment), quoted(&data));
    for (name, what) in [("All scores", summary), ("The figure", figure), ("To change it", change)] {
        page.push(Block::Line(format!("{name:<16}{what}")));
    }
    let json = escape::json(&answer.json())?;
    let printed = match outcome.is_clean() {
        true => desk.remember(page, json)?,
        false => Printed::once(page, json),
    };
    Ok((printed, outcome.is_clean() && is_whole))
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
    let cache = place().context("there is no home folder\nhint: add `--out DIR`")?;
    let mut paths: Vec<PathBuf> =
        inputs.iter().map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone())).collect();
    paths.sort();
    let hash = blake3::hash(format!("{paths:?}").as_bytes()).to_hex();
    Ok(cache.join(&hash[..12]))
}

/// Where those folders stand.
fn place() -> Option<PathBuf> {
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(std::env::home_dir()?.join(".cache")))?;
    Some(cache.join("trajpress/try"))
}

/// The same, if it is there.
pub(super) fn folders() -> anyhow::Result<Option<PathBuf>> {
    place().map_or(Ok(None), |place| Ok(reach::is_there(&place)?.then_some(place)))
}

/// Removes the folders that nobody used for so long; how many.
pub(super) fn prune(root: &Path, unused: Duration, quiet: bool) -> u64 {
    unused::remove(root, None, unused, quiet)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_blanks_are_quoted() {
        assert_eq!(quoted("/a/b-c.toml"), "/a/b-c.toml");
        #[cfg(unix)]
        assert_eq!(quoted("/my logs/it's"), r"'/my logs/it'\''s'");
    }

    #[test]
    fn times_have_units() {
        assert_eq!(["60s", "5m", "7", "1h"].map(|t| time(t).unwrap().as_secs()), [60, 300, 7, 3600]);
        assert!(["", "0s", "s", "1.5s", "5d", "99999999999999999999m"].into_iter().all(|t| time(t).is_err()));
    }
}
