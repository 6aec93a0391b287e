//! The command line: one file a subcommand.
//!
//! Data goes to stdout, everything else to stderr; nothing depends on colour.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};

use crate::progress;
use crate::text::escape;

mod advise;
pub mod annotate;
mod audit;
mod cache;
mod cluster;
mod compare;
mod completions;
mod doctor;
mod export;
pub mod ingest;
pub mod inspect;
pub mod list;
pub mod models;
mod nightly;
mod once;
mod page;
mod policies;
pub mod redact;
pub mod report;
pub mod run;
mod show;
mod sweep;
mod tiers;
mod timeline;
mod train;
pub mod trial;
mod using;
mod web;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Done = 0,
    /// Done, but something failed: some trajectories, a unit, a gate.
    Failed = 1,
    /// Wrong usage, or it could not run.
    Unusable = 2,
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        ExitCode::from(status as u8)
    }
}

/// Compress logged trajectories of LLM agents offline, and tell what was saved and what was lost
///
/// Logs become tables (ingest), what depends on a step alone is computed once (annotate), a grid of
/// strategies and triggers is replayed over all trajectories (run), and the rows become tables and
/// figures (report). No agent is run again and nothing leaves the machine.
#[derive(Debug, Parser)]
#[command(
    name = "trajpress",
    version,
    after_help = "Examples:
  trajpress try
  trajpress ingest logs/ --out data
  trajpress run experiment.toml --data data --out runs/first
  trajpress report runs/first

Exit codes: 0 done; 1 done, but some trajectories failed or a gate was missed; 2 wrong usage or could not run"
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    output: Output,
}

/// How to tell what happened.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Output {
    /// Print results as JSON, and how far long commands are as JSON lines on stderr
    #[arg(long, global = true)]
    pub json: bool,
    /// Print results and errors only: no progress, no summary
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Try(trial::Args),
    Ingest(ingest::Args),
    Redact(redact::Args),
    Annotate(annotate::Args),
    Run(run::Args),
    Cluster(cluster::Args),
    Report(report::Args),
    Compare(compare::Args),
    Nightly(nightly::Args),
    Advise(advise::Args),
    Sweep(sweep::Args),
    Audit(audit::Args),
    Inspect(inspect::Args),
    Export(export::Args),
    List(list::Args),
    Show(show::Args),
    Train(train::Args),
    Models(models::Args),
    Cache(cache::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    /// Serve a model to this program over standard input and output
    #[cfg(feature = "llama")]
    #[command(hide = true)]
    ModelWorker,
}

/// Parses the arguments of the process, runs the command, and says how it ended.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let error = shortened(error);
            // Help and version are told this way too; a broken pipe is no failure.
            let printed = match error.use_stderr() {
                true => Ok(tell(error.to_string().trim_end())),
                false => error.print().context("cannot write to standard output"),
            };
            return match printed {
                Err(error) if !is_broken_pipe(&error) => unusable(&error),
                _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
            };
        }
    };
    log_to_stderr(cli.output.quiet);
    progress::tell(match cli.output {
        Output { quiet: true, .. } => progress::How::Quiet,
        Output { json: true, .. } => progress::How::Events,
        _ => progress::How::Words,
    });
    if let Err(error) = outlive_limit_of_file_size() {
        return unusable(&error);
    }
    if let Err(error) = check_stack(std::env::var_os("RUST_MIN_STACK").as_deref()) {
        return unusable(&error);
    }
    let ended = cli.run();
    crate::programs::end();
    match ended {
        Ok(status) => status.into(),
        Err(error) if is_broken_pipe(&error) => ExitStatus::Done.into(),
        Err(error) => unusable(&error),
    }
}

/// A file over the limit of its size (`ulimit -f`) is an error that names the file, where the signal would end the program.
fn outlive_limit_of_file_size() -> anyhow::Result<()> {
    #[cfg(unix)]
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default())
        .context("cannot handle the signal of files that grow too large")?;
    Ok(())
}

fn unusable(error: &anyhow::Error) -> ExitCode {
    tell(&format!("error: {}", in_order(error)));
    ExitStatus::Unusable.into()
}

/// What went wrong and why; hints come last, wherever they were given.
fn in_order(error: &anyhow::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    let parts = causes.iter().map(|cause| cause.split_at(cause.find("\nhint: ").unwrap_or(cause.len())));
    let (causes, hints): (Vec<&str>, Vec<&str>) = parts.unzip();
    causes.join(": ") + &hints.concat()
}

impl Cli {
    fn run(&self) -> anyhow::Result<ExitStatus> {
        match &self.command {
            Command::Try(args) => trial::run(args, self.output),
            Command::Ingest(args) => ingest::run(args, self.output),
            Command::Redact(args) => redact::run(args, self.output),
            Command::Annotate(args) => annotate::run(args, self.output),
            Command::Run(args) => run::run(args, self.output),
            Command::Cluster(args) => cluster::run(args, self.output),
            Command::Report(args) => report::run(args, self.output).map(|()| ExitStatus::Done),
            Command::Compare(args) => compare::run(args, self.output),
            Command::Nightly(args) => nightly::run(args, self.output),
            Command::Advise(args) => advise::run(args, self.output),
            Command::Sweep(args) => sweep::run(args, self.output),
            Command::Audit(args) => audit::run(args, self.output),
            Command::Inspect(args) => inspect::run(args, self.output),
            Command::Export(args) => export::run(args, self.output),
            Command::List(args) => list::run(args, self.output),
            Command::Show(args) => show::run(args, self.output),
            Command::Train(args) => train::run(args, self.output),
            Command::Models(args) => models::run(args, self.output),
            Command::Cache(args) => cache::run(args, self.output),
            Command::Doctor(args) => doctor::run(args, self.output),
            Command::Completions(args) => completions::run(args),
            #[cfg(feature = "llama")]
            Command::ModelWorker => crate::models::llama::worker::run().map(|()| ExitStatus::Done),
        }
    }
}

/// The same error with the beginning of what was typed, where that is long.
fn shortened(mut error: clap::Error) -> clap::Error {
    let long: Vec<_> = error
        .context()
        .filter_map(|(kind, value)| match value {
            ContextValue::String(text) => Some((kind, escape::short(text))),
            _ => None,
        })
        .collect();
    for (kind, text) in long {
        // What is suggested then repeats it whole.
        if text.ends_with(" characters)") {
            error.insert(ContextKind::Suggested, ContextValue::None);
        }
        error.insert(kind, ContextValue::String(text));
    }
    error
}

/// Progress and warnings, as lines without time: a log keeper adds its own.
fn log_to_stderr(quiet: bool) {
    let default = if quiet { "error" } else { "info" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("TRAJPRESS_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Teller)
        // An error of writing has nowhere to be told.
        .log_internal_errors(false)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .init();
}

/// Says something on stderr: nothing of a log acts there, and that nobody can read it is no failure.
fn tell(text: &str) {
    let _ = io::stderr().write_all((escape::lines(text) + "\n").as_bytes());
}

/// Lines of the log on stderr, told in the same way.
struct Teller;

impl io::Write for Teller {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        tell(String::from_utf8_lossy(bytes).trim_end_matches('\n'));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The stacks that a thread may get: with less it dies without a word, and more cannot be had.
const STACKS: RangeInclusive<u64> = 1 << 20..=1 << 30;

/// An error, where the environment asks for stacks that are too small, or for what is no size.
fn check_stack(size: Option<&OsStr>) -> anyhow::Result<()> {
    let Some(size) = size else {
        return Ok(());
    };
    let text = size.to_string_lossy();
    anyhow::ensure!(
        text.parse::<u64>().is_ok_and(|n| STACKS.contains(&n)),
        "RUST_MIN_STACK is `{}`, which is no size of a stack\nhint: unset it, or set it to {} to {} bytes",
        escape::short(&text),
        STACKS.start(),
        STACKS.end()
    );
    Ok(())
}

/// How many threads `--threads` asks for: 0 is one a core, and there is an end to what a machine can start.
fn threads(asked: usize) -> usize {
    match asked {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n.min(MOST_THREADS),
    }
}

const MOST_THREADS: usize = 1024;

/// Whether commands are steps of another one that answers for them.
static IS_STEP: AtomicBool = AtomicBool::new(false);

/// Writes to stdout, what steps say aside; an error, a broken pipe among them, goes up instead of being a panic.
fn print(text: &str) -> anyhow::Result<()> {
    if IS_STEP.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    let written = out.write_all(escape::lines(text).as_bytes()).and_then(|()| out.flush());
    written.context("cannot write to standard output")
}

/// What an experiment may name: the catalogues and the readers.
fn catalogue() -> crate::experiment::Catalogue<'static> {
    crate::experiment::Catalogue {
        formats: crate::logs::formats::ALL.iter().map(|e| e.name).collect(),
        ..crate::experiment::Catalogue::built_in()
    }
}

/// A number with its noun: `1 unit`, `2,000 units`.
fn count(n: u64, noun: &str) -> String {
    let noun = match (n, noun.strip_suffix('y')) {
        (1, _) => noun.to_owned(),
        (_, Some(stem)) => format!("{stem}ies"),
        _ => format!("{noun}s"),
    };
    format!("{} {noun}", indicatif::HumanCount(n))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

/// Lines of columns as wide as their widest cell; the last one is not padded.
fn columns(rows: &[Vec<String>]) -> String {
    let n = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |i: usize| rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..n).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_sound() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn what_was_typed_is_shortened() {
        let zeros = format!("1{}", "0".repeat(300));
        for typed in [["run", "x.toml", "--list", "--threads"], ["inspect", "d", "a", "--width"]] {
            let line = ["trajpress"].into_iter().chain(typed).chain([zeros.as_str()]);
            let error = shortened(Cli::try_parse_from(line).unwrap_err()).to_string();
            assert!(error.contains("100000000000000000000000000000\u{2026} (301 characters)"), "{error}");
            assert!(!error.contains(&zeros[..40]), "{error}");
        }
    }

    #[test]
    fn a_hint_comes_behind_the_causes() {
        let error =
            anyhow::anyhow!("no such file").context("cannot open x\nhint: make it").context("cannot run");
        assert_eq!(in_order(&error), "cannot run: cannot open x: no such file\nhint: make it");
        assert_eq!(in_order(&anyhow::anyhow!("bad\nlines\nhint: a\nb")), "bad\nlines\nhint: a\nb");
    }

    #[test]
    fn zero_threads_are_all_cores() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!([threads(0), threads(3), threads(usize::MAX)], [cores, 3, MOST_THREADS]);
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(count(1, "unit"), "1 unit");
        assert_eq!(count(2000, "trajectory"), "2,000 trajectories");
        assert_eq!(count(0, "variant"), "0 variants");
    }

    #[test]
    fn every_command_has_an_example() {
        for command in <Cli as clap::CommandFactory>::command().get_subcommands().filter(|c| !c.is_hide_set())
        {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                help.contains(&format!("trajpress {}", command.get_name())),
                "{} has no example",
                command.get_name()
            );
        }
    }

    #[test]
    fn columns_are_aligned_without_trailing_space() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        insta::assert_snapshot!(columns(&[row(["a", "é"]), row(["bbb", ""])]), @r"
        a    é
        bbb
        ");
    }
}
