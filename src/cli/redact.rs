//! `trajpress redact`: logs without secrets and personal data, as chat messages.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Context as _;

use crate::files::whole::Whole;
use crate::logs::{self, Filter, Limits, Mode, Options};
use crate::text::escape;
use crate::text::redact::Tally;

use super::{ExitStatus, Output, count, tell};

/// Write logs without keys, passwords, e-mails, home folders, hosts, phone and card numbers
///
/// Each of them becomes a placeholder with its kind, such as <email-3>: the same one wherever it stands in the run, so that
/// it can be followed; numbers begin anew in each run. Written are chat messages, a run a line, which `ingest` reads again. The
/// ids of the runs are others than before. Names of files, and what is encoded (base64), are not looked into.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  trajpress redact session.jsonl > shared.jsonl
  trajpress redact ~/.claude/projects/mine --out shared.jsonl")]
pub struct Args {
    /// Log files, or folders of them
    #[arg(required = true, value_name = "LOGS")]
    logs: Vec<PathBuf>,
    /// Write to FILE instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Read all files as this format instead of telling it by content
    #[arg(long, default_value = "auto", value_name = "NAME")]
    format: String,
    /// Read files of no known format by a mapping: a TOML of JSON pointers (`trajpress ingest --explain FILE` prints a first one)
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// Only files changed since then: a day (2026-01-31), or how long ago (12h, 7d, 2w)
    #[arg(long, value_name = "WHEN", value_parser = crate::logs::since)]
    since: Option<SystemTime>,
    /// Read with N threads; 0 is all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

/// Runs the subcommand; says on stderr what was found.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let options = Options {
        inputs: args.logs.clone(),
        out: PathBuf::new(),
        own: Vec::new(),
        format: (args.format != "auto").then(|| args.format.clone()),
        threads: super::threads(args.threads),
        limits: Limits::default(),
        mode: Mode::Fresh,
        filter: Filter { since: args.since, ..Filter::default() },
        redact: true,
        mapping: args.mapping.clone(),
    };
    // What is redacted is in another form, and the log itself is not to be had again.
    let place = |path: &PathBuf| path.canonicalize().ok();
    if let Some(out) = args.out.as_ref().filter(|out| out.exists()) {
        anyhow::ensure!(
            args.logs.iter().all(|log| place(log) != place(out)),
            "{} is the log itself\nhint: name another file for `--out`",
            out.display()
        );
    }
    let mut out = Whole::begin(args.out.as_deref())?;
    let name = args.out.as_ref().map_or("to standard output".to_owned(), |path| path.display().to_string());
    let done = logs::redact_logs(&options, |line| {
        writeln!(out, "{line}").with_context(|| format!("cannot write {name}"))
    })?;
    out.finish().with_context(|| format!("cannot write {name}"))?;
    if !output.quiet {
        match output.json {
            true => tell(&escape::json(&done)?),
            false => tell(&told(&done)),
        }
    }
    let is_done = done.runs > 0 && done.rejects.is_empty();
    Ok(if is_done { ExitStatus::Done } else { ExitStatus::Failed })
}

/// How many of each are named.
const NAMED: usize = 5;

fn told(done: &logs::Redacted) -> String {
    let mut text =
        format!("{}, under other ids than before\n{}", count(done.runs, "run"), found(&done.found));
    for (what, n) in &done.context {
        text += &format!("{n} x {what}\n");
    }
    if done.left_out > 0 {
        text += &format!("not asked for: {}\n", count(done.left_out, "file"));
    }
    for (what, names) in [("could not be read", &done.rejects), ("without a run", &done.without_runs)] {
        for name in names.iter().take(NAMED) {
            text += &format!("{what}: {name}\n");
        }
        if names.len() > NAMED {
            text += &format!("{what}: {} more\n", names.len() - NAMED);
        }
    }
    text.trim_end().to_owned()
}

/// What was found, a line a kind, the most first.
pub(super) fn found(found: &Tally) -> String {
    if found.is_empty() {
        return "nothing was found to redact\n".to_owned();
    }
    let mut kinds: Vec<_> = found.iter().collect();
    kinds.sort_by_key(|(_, [places, _])| std::cmp::Reverse(*places));
    let line = |(kind, [places, values]): (&String, &[u64; 2])| {
        format!("redacted: {:<28} {:>7} in {}\n", kind, count(*values, "value"), count(*places, "place"))
    };
    kinds.into_iter().map(line).collect()
}
