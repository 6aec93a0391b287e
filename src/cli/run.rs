//! `trajpress run`: replays the grid of an experiment over the data.

mod given;
mod told;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{DecimalBytes, HumanCount, HumanDuration};
use serde_json::json;

pub(super) use self::given::Given;
use self::told::{failed, reason, summary};
use super::{ExitStatus, Output, columns, count, print};
use crate::experiment::cell::{Shelf, run_unit};
use crate::experiment::demand::demand;
use crate::experiment::run::{Overview, overview, sample, select};
use crate::experiment::{Dataset, Options, Outcome, Plan, run_with, sample_of};
use crate::files::room;
use crate::models::bench::Speed;
use crate::models::dry::Demand;
use crate::showcase;
use crate::store::EventRow;
use crate::text::escape;

/// Replays a thread of a model's, as many as its context generates side by side.
const REPLAYS: usize = 8;

/// Replay the grid of an experiment over all trajectories
///
/// Rows are published piece by piece into RUN/parts and joined into final tables at the end. A run
/// that was stopped in any way goes on where it was, with the same command. Several processes may
/// work on the same folder. Where the data have changed since, what is known of a trajectory is taken
/// over, and only the rest computed. A folder that holds another experiment's run is refused, with what
/// differs; `--fresh` deletes that run, `--replace` takes over what both have.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress run experiment.toml --data data --list
  trajpress run experiment.toml --data data --out runs/try --limit 5
  trajpress run experiment.toml --data data --out runs/night
  trajpress run experiment.toml --data data --out runs/night --shard 0/3
  trajpress run experiment.toml --data data --out runs/try --fresh")]
pub struct Args {
    #[command(flatten)]
    given: Given,
    /// Folder of the run
    #[arg(long, value_name = "RUN", required_unless_present = "list")]
    out: Option<PathBuf>,
    /// Print the grid, its size, time and room (some of it is tried for seconds), and what it would ask of models
    #[arg(long)]
    list: bool,
    /// Use N threads; 0 is all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Compute one of N shares of the work (I from 0) and no final tables
    #[arg(long, value_name = "I/N", conflicts_with = "finish")]
    shard: Option<Shard>,
    /// Compute nothing; join what the shards have done into the final tables
    #[arg(long)]
    finish: bool,
    /// Delete the run that RUN holds, whatever it is, and begin anew; other files there stay
    #[arg(long, conflicts_with_all = ["finish", "shard", "list"])]
    fresh: bool,
    /// Take the place of the run that RUN holds, whatever it is; the rows that both have are taken over
    #[arg(long, conflicts_with_all = ["finish", "shard", "list", "fresh"])]
    replace: bool,
    /// Leave keys, passwords and personal data in the texts of the table `showcase` as they are
    #[arg(long)]
    raw: bool,
}

#[derive(Clone, Copy, Debug)]
struct Shard(usize, usize);

impl FromStr for Shard {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match parts {
            Some((i, n)) if i < n => Ok(Shard(i, n)),
            _ => Err("expected I/N with I from 0 to N - 1, such as 0/3".to_owned()),
        }
    }
}

fn threads(args: &Args) -> usize {
    super::threads(args.threads)
}

/// Runs the command; the tables are in the folder, the summary goes to stderr.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let mut options = Options {
        limit: args.given.limit,
        shard: args.shard.map(|s| (s.0, s.1)),
        finish: args.finish,
        fresh: args.fresh,
        replace: args.replace,
        quiet: output.quiet,
        ..Options::default()
    };
    let out = args.out.as_deref().filter(|_| !args.list);
    if let Some(out) = out.filter(|_| !args.fresh && !args.replace) {
        options.sample = sample_of(out)?;
    }
    let (mut plan, data) = args.given.open(out, &options, threads(args), output)?;
    options.threads = Some(at_once(&plan, threads(args)));
    options.computing = Some(threads(args));
    if args.list {
        return list(args, &plan, &data, &options, output);
    }
    let out = args.out.as_deref().context("no folder given\nhint: add `--out RUN`")?;
    let shelf = Shelf::default();
    let opened = args.given.using.open(&plan.variants, &plan.readers, threads(args))?;
    plan.models = opened.identities();
    opened.check()?;
    let models = opened.models();
    let asked = Mutex::new(AskedEvents::default());
    let outcome = run_with(&plan, &data, out, &options, &|data, unit, plan, progress| {
        let rows = run_unit(data, unit, plan, &shelf, &models, progress)?;
        asked.lock().unwrap_or_else(PoisonError::into_inner).add(&rows.events);
        Ok(rows)
    })?;
    crate::experiment::place::write(out, args.given.folder(&plan)?)?;
    if outcome.finished {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads(args)).build()?;
        pool.install(|| showcase::write((&data, &plan, &shelf), out, &models, args.raw))?;
    }
    tell(&outcome, out, output);
    if !output.quiet {
        for line in opened.summary() {
            super::tell(&line);
        }
        asked.lock().unwrap_or_else(PoisonError::into_inner).line().inspect(|line| super::tell(&line));
    }
    if output.json {
        print(&(escape::json(&outcome)?))?;
    }
    Ok(match outcome.is_clean() && opened.failed() == 0 {
        true => ExitStatus::Done,
        false => ExitStatus::Failed,
    })
}

/// The end of a run of which all units are done elsewhere.
pub(super) fn merge(given: &Given, out: &Path, raw: bool, output: Output) -> anyhow::Result<ExitStatus> {
    let given = given.clone();
    let args = Args {
        given,
        out: Some(out.to_owned()),
        list: false,
        threads: 0,
        shard: None,
        finish: true,
        fresh: false,
        replace: false,
        raw,
    };
    run(&args, output)
}

/// Units that are done side by side: with a model, replay waits and the model's contexts compute, and more replays keep them full.
pub(super) fn at_once(plan: &Plan, threads: usize) -> usize {
    threads * if asks(plan) { REPLAYS } else { 1 }
}

/// Whether any replay or score waits for a model.
fn asks(plan: &Plan) -> bool {
    plan.variants.iter().any(|v| v.models().next().is_some()) || !plan.readers.is_empty()
}

/// Prints the grid and what it will take.
fn list(
    args: &Args,
    plan: &Plan,
    data: &Dataset,
    options: &Options,
    output: Output,
) -> anyhow::Result<ExitStatus> {
    let mut size = overview(plan, data, args.out.as_deref(), options)?;
    if !asks(plan) && size.step_variants_left > 0 {
        let opened = args.given.using.open(&plan.variants, &plan.readers, threads(args))?;
        let (models, shelf) = (opened.models(), Shelf::default());
        let tried = sample(plan, data, options, &|data, unit, plan, progress| {
            run_unit(data, unit, plan, &shelf, &models, progress)
        })?;
        size.tried(&tried, threads(args));
    }
    let free = room::free(args.out.as_deref().unwrap_or(Path::new(".")));
    let asked = demands(plan, data, args, options)?;
    print(&match output.json {
        true => escape::json(&json!({
            "variants": plan.variants,
            "size": size,
            "bytes_free": free,
            "models": asked,
        }))?,
        false => listing(plan, &size, free) + &asked.iter().map(Asked::line).collect::<String>(),
    })?;
    Ok(ExitStatus::Done)
}

/// What failed is told in any case.
fn tell(outcome: &Outcome, out: &Path, output: Output) {
    if !output.quiet {
        return super::tell(&summary(outcome, &out.display().to_string()));
    }
    if !outcome.is_clean() {
        let mut lines = failed(outcome);
        if outcome.cells_error > 0 {
            lines.push(format!("{} with errors, see `error` in cells", count(outcome.cells_error, "cell")));
            lines.extend(reason(outcome));
        }
        super::tell(&lines.join("\n"));
    }
}

/// Events of this run that asked a model, and those that had to do without its answers.
#[derive(Default)]
struct AskedEvents {
    n: u64,
    fell_back: u64,
    /// By what was wrong with an answer.
    flags: BTreeMap<String, u64>,
}

impl AskedEvents {
    fn add(&mut self, events: &[EventRow]) {
        for event in events.iter().filter(|event| event.model_calls > 0) {
            self.n += 1;
            self.fell_back += u64::from(event.fallback.is_some());
            for flag in &event.degenerate {
                *self.flags.entry(flag.clone()).or_default() += 1;
            }
        }
    }

    /// What became of them; none where all went well.
    fn line(&self) -> Option<String> {
        let flags: Vec<String> = self.flags.iter().map(|(flag, n)| format!("{flag}: {n}")).collect();
        (self.fell_back > 0 || !flags.is_empty()).then(|| {
            let (fell_back, n) = (HumanCount(self.fell_back), count(self.n, "event"));
            let told = if flags.is_empty() { "all answers usable".to_owned() } else { flags.join(", ") };
            format!("{fell_back} of {n} that asked a model fell back (answers: {told})")
        })
    }
}

fn listing(plan: &Plan, size: &Overview, free: Option<u64>) -> String {
    let rows: Vec<Vec<String>> = plan.variants.iter().map(|v| vec![v.id.clone(), v.label.clone()]).collect();
    let mut text = columns(&rows);
    text.push_str(&format!(
        "\n{} x {}: {} in {}\n",
        count(size.n_variants as u64, "variant"),
        count(size.n_trajectories as u64, "trajectory"),
        count(size.step_variants, "step-variant"),
        count(size.n_units as u64, "unit")
    ));
    if size.step_variants_left < size.step_variants {
        text.push_str(&format!("{} of them still to do\n", HumanCount(size.step_variants_left)));
    }
    if let (Some(rate), Some(seconds)) = (size.rate, size.seconds_left) {
        text.push_str(&format!(
            "about {} at {} step-variants a second and thread\n",
            HumanDuration(Duration::from_secs_f64(seconds)),
            HumanCount(rate as u64)
        ));
    }
    if let Some(bytes) = size.bytes_left {
        let free = free.map(|free| format!("; {} are free", DecimalBytes(free))).unwrap_or_default();
        text.push_str(&format!("about {} on disk{free}\n", DecimalBytes(bytes)));
    }
    text
}

/// What a run would ask of a model, and how long that takes here.
#[derive(serde::Serialize)]
struct Asked {
    model: String,
    demand: Demand,
    /// As measured just now; null where the model cannot be asked.
    speed: Option<Speed>,
    seconds: Option<f64>,
}

/// Counts what the plan's models would be asked, and measures how fast each answers.
fn demands(plan: &Plan, data: &Dataset, args: &Args, options: &Options) -> anyhow::Result<Vec<Asked>> {
    let opened = args.given.using.uncached().open(&plan.variants, &plan.readers, threads(args))?;
    let windows = opened.windows();
    if windows.is_empty() {
        return Ok(Vec::new());
    }
    let demands = demand(plan, data, &select(plan, data, options)?, &windows)?;
    let contexts = threads(args) as u32;
    let asked = demands.into_iter().map(|(model, demand)| {
        // What stands before a token on the average says whether prompts are long.
        let has_deep = demand.behind > 400 * demand.read;
        let speed = opened.speed(&model, contexts, has_deep).and_then(|speed| {
            speed.inspect_err(|error| tracing::warn!("the speed of {model} cannot be measured: {error}")).ok()
        });
        let seconds = speed.as_ref().map(|speed| speed.seconds(demand));
        Asked { model, demand, speed, seconds }
    });
    Ok(asked.collect())
}

impl Asked {
    fn line(&self) -> String {
        let Demand { calls, read, written, texts, .. } = self.demand;
        let texts = if texts > 0 { format!(", {} to embed", count(texts, "text")) } else { String::new() };
        let time =
            self.seconds.map_or("unknown".to_owned(), |seconds| format!("{:.2} hours", seconds / 3600.0));
        format!(
            "model {}: {}, about {} tokens to read and at most {} to write{texts}: {time}\n",
            self.model,
            count(calls, "call"),
            HumanCount(read),
            HumanCount(written)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::catalogue;

    #[test]
    fn a_shard_is_one_of_n() {
        assert!(matches!("0/3".parse(), Ok(Shard(0, 3))));
        for wrong in ["3/3", "1", "a/b", "-1/2", "0/0", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn threads_are_all_cores_by_default_and_by_zero() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let threads = |more: &[&str]| {
            let line = ["run", "x.toml", "--out", "r"].iter().chain(more);
            <Line as clap::Parser>::try_parse_from(line).map(|l| l.args.threads).ok()
        };
        assert_eq!((threads(&[]), threads(&["--threads", "0"])), (Some(0), Some(0)));
        assert_eq!((threads(&["--threads", "3"]), threads(&["--threads", "x"])), (Some(3), None));
    }

    #[test]
    fn readers_are_known_to_experiments() {
        let plan = |format: &str| {
            let text =
                format!("name = \"x\"\n[data]\nformats = [\"{format}\"]\n[[strategies]]\nname = \"full\"");
            Plan::parse("x.toml", &text, &catalogue())
        };
        for reader in crate::logs::formats::ALL {
            plan(reader.name).unwrap();
        }
        let error = plan("swe-agent").unwrap_err().to_string();
        assert!(
            error.starts_with("x.toml:3: unknown format `swe-agent`\nhint: did you mean `sweagent`?"),
            "{error}"
        );
    }

    #[test]
    fn the_summary_says_what_is_missing() {
        let outcome = Outcome {
            n_trajectories: 1200,
            n_variants: 2,
            n_units: 40,
            done: 30,
            skipped: 8,
            quarantined: vec![("ab".to_owned(), "cannot read x".to_owned())],
            missing: vec!["ab".to_owned(), "cd".to_owned()],
            cells_ok: 2399,
            cells_error: 3,
            first_error: Some("no good".to_owned()),
            cells_like_it: 2,
            step_variants: 100_000,
            seconds: 2.0,
            ..Outcome::default()
        };
        insta::assert_snapshot!(summary(&outcome, "RUN"), @r"
        2 variants x 1,200 trajectories: 2,399 cells ok, 3 with errors
        40 units: 30 done, 8 there before; 100,000 step-variants in 2.0 s (50,000/s)
        2 cells failed: no good
        1 cell for other reasons, see `error` in cells
        unit ab is left out: cannot read x
        2 units missing, the first is ab: no final tables
        hint: run the same command without --finish, or the shards that are left; of `cluster merge`, the units that `cluster status RUN --left` prints
        ");
    }
}
