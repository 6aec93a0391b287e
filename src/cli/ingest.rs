//! `trajpress ingest`: logs into the tables of a dataset.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use crate::logs::{self, Before, Filter, Limits, Mode, Options, Progress, Report, formats};
use crate::progress::{Meter, Unit};
use crate::text::escape;

use super::{ExitStatus, Output};

/// Read logs into DATA/trajectories.parquet and DATA/steps.parquet
///
/// Formats are told by content; gzip and zstd are undone. What cannot be read goes to
/// DATA/rejects.jsonl, and DATA/ingest.json says what was read, dropped and lost. A dataset in DATA is
/// added to: files that it knows by their content are not read again, a file that has grown or changed is read again whole
/// and replaces its runs, and runs of files that are gone stay.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trajpress ingest logs/ --out data\n  trajpress ingest run.jsonl.gz --out data --format openai-chat\n  trajpress ingest ~/.claude/projects --out data --since 7d --exclude '*/agent-*'\n  trajpress ingest ~/.claude/projects --out data --json\n  trajpress ingest --explain run.json > mine.toml\n  trajpress ingest logs/ --mapping mine.toml --out data"
)]
pub struct Args {
    /// Log files, or folders of them
    #[arg(required_unless_present = "explain", value_name = "LOGS")]
    logs: Vec<PathBuf>,
    /// Folder of the dataset
    #[arg(long, required_unless_present = "explain", value_name = "DATA")]
    out: Option<PathBuf>,
    /// Read all files as this format instead of telling it by content
    #[arg(long, default_value = "auto", value_name = "NAME")]
    format: String,
    /// Read files of no known format by a mapping: a TOML of JSON pointers that says where runs, messages and calls stand.
    /// With --format mapping it is for all files
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// Read nothing into tables: say what FILE is recognised as, what is left out of it, and print a first mapping if it is of
    /// no known format
    #[arg(long, value_name = "FILE", conflicts_with_all = ["logs", "out"])]
    explain: Option<PathBuf>,
    /// Only files changed since then: a day (2026-01-31), or how long ago (12h, 7d, 2w)
    #[arg(long, value_name = "WHEN", value_parser = logs::since)]
    since: Option<SystemTime>,
    /// Only files whose name fits, such as '*.jsonl', or that lie in such a folder; may be given several times. Names are those
    /// below LOGS, or the last part of one
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// No files whose name fits, such as '*/old/*', or that lie in such a folder, such as 'private'; may be given several times
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Replace the dataset in DATA instead of adding to it
    #[arg(long)]
    fresh: bool,
    /// Put placeholders such as <email-3> in the place of keys, passwords, e-mails, home folders, hosts, phone and card numbers.
    /// The ids of the runs are others then
    #[arg(long)]
    redact: bool,
    /// Read with N threads; 0 is all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Exit with 1 also where a file found in a folder is unreadable, no log, or gives no run
    #[arg(long)]
    strict: bool,
    /// Unpacked bytes that are read of a file at most, such as 500MB or 2GiB; what is over it is a reject
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = bytes)]
    max_file: u64,
    /// Memory to read with, about; a document, a session or a line of more than an eighth of it is a reject, and where it
    /// is not enough for all threads (48MiB each), fewer read. The program itself needs 128MiB, whatever is said here
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = bytes)]
    max_memory: u64,
}

/// A size: `500MB`, `2GiB`, `1000`.
fn bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let unit = match text[end..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err("expected a size, such as 500MB or 2GiB".to_owned()),
    };
    match text[..end].parse::<f64>() {
        Ok(n) if n * unit >= 1.0 && n * unit <= u64::MAX as f64 => Ok((n * unit) as u64),
        _ => Err("expected a size above 0, such as 500MB or 2GiB".to_owned()),
    }
}

/// Runs the subcommand.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    read(args, output).map(|(status, _)| status)
}

/// The same, with how many files that the dataset knows are not among the logs any more.
pub(super) fn read(args: &Args, output: Output) -> anyhow::Result<(ExitStatus, u64)> {
    let options = Options {
        inputs: args.logs.clone(),
        out: args.out.clone().unwrap_or_default(),
        format: (args.format != "auto").then(|| args.format.clone()),
        threads: super::threads(args.threads),
        limits: Limits { file: args.max_file, memory: args.max_memory },
        mode: if args.fresh { Mode::Fresh } else { Mode::Add },
        filter: Filter { since: args.since, include: args.include.clone(), exclude: args.exclude.clone() },
        redact: args.redact,
        mapping: args.mapping.clone(),
        own: Vec::new(),
    };
    if let Some(path) = &args.explain {
        let told = logs::explain(path, &options)?;
        super::print(&if output.json { escape::json(&told)? } else { told.text() })?;
        return Ok((ExitStatus::Done, 0));
    }
    let start = Instant::now();
    let meter = Meter::new("ingest", Unit::Bytes, 0, output.quiet);
    let report = logs::ingest(&options, &mut |p| meter.set(p.bytes_done, p.bytes, || reading(&p)))?;
    meter.finish();
    if output.json {
        super::print(&escape::json(&report)?)?;
    }
    if !output.quiet {
        super::tell(table(&report, start.elapsed()).trim_end());
        let named = told_by_name(&report, &options.out.join("ingest.json").display().to_string());
        if !named.is_empty() {
            super::tell(named.trim_end());
        }
        if args.redact {
            super::tell(super::redact::found(&report.redacted).trim_end());
        }
        if let Some(before) = &report.before {
            super::tell(&what_became(before, &report, &options.out.display().to_string()));
        }
        if report.rejects > 0 {
            super::tell(&format!(
                "what could not be read stands in {}",
                options.out.join("rejects.jsonl").display()
            ));
        }
        if report.trajectories == 0 {
            let known: Vec<&str> = formats::ALL.iter().map(|e| e.name).collect();
            super::tell(&format!(
                "no trajectory was found\nhint: formats that can be read: {}",
                known.join(", ")
            ));
        }
    }
    let n_gone = report.before.as_ref().map_or(0, |before| before.n_gone);
    Ok((if is_done(&report, args.strict) { ExitStatus::Done } else { ExitStatus::Failed }, n_gone))
}

/// What became of the dataset that was there.
fn what_became(before: &Before, report: &Report, data: &str) -> String {
    let files = |n: u64| super::count(n, "file");
    let same = if before.is_same { "; its tables are the same" } else { "" };
    if before.is_replaced {
        return format!("the dataset in {data} was replaced{same}");
    }
    let n_read = report.files.saturating_sub(before.n_known + before.n_gone);
    let mut text =
        format!("added to the dataset in {data}: {} read, {} known", files(n_read), before.n_known);
    if before.n_gone > 0 {
        text += &format!(", {} not among them any more (their runs stay)", before.n_gone);
    }
    if before.n_runs_gone > 0 {
        text += &format!("; {} read anew or held by others now", super::count(before.n_runs_gone, "run"));
    }
    text + same
}

/// Nothing was lost of what was recognised, and all that was named gave something. Other files beside the logs
/// (settings, notes, logs without a reader) are normal, unless all is to be read.
fn is_done(report: &Report, is_strict: bool) -> bool {
    let is_read = report.lost_records == 0 && report.named_for_nothing.is_empty() && report.trajectories > 0;
    let others = [&report.unreadable, &report.no_logs, &report.not_read, &report.without_runs];
    is_read && (!is_strict || report.rejects == 0 && others.iter().all(|files| files.is_empty()))
}

/// How many files of a kind are named on the terminal.
const NAMED: usize = 5;

/// What needs a look, by name.
fn told_by_name(report: &Report, path: &str) -> String {
    let mut out = String::new();
    let mut tell = |what: &str, names: Vec<String>| {
        if !names.is_empty() {
            let more = names.len().saturating_sub(NAMED);
            let named = names[..names.len() - more].join(", ");
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            out += &format!("{what}: {named}{rest} (all in {path})\n");
        }
    };
    let mut unread: Vec<_> =
        [&report.not_read, &report.no_logs, &report.unreadable].into_iter().flatten().collect();
    unread.sort_by_key(|a| (std::cmp::Reverse(a.bytes), a.path.as_str()));
    let sized = |a: &logs::Aside| format!("{} ({}, {})", a.path, a.format, size(a.bytes));
    let has_unread = unread.iter().any(|a| !a.format.starts_with("text"));
    tell("not read, the largest first", unread.into_iter().map(sized).collect());
    tell("logs without a run", report.without_runs.iter().map(sized).collect());
    let of_one_file = report.without_turns.chunk_by(|a, b| a.source == b.source);
    let counted = |runs: &[logs::RunName]| match runs.len() {
        1 => runs[0].source.clone(),
        n => format!("{} ({n} runs)", runs[0].source),
    };
    tell("runs in which the agent says nothing (0 turns)", of_one_file.map(counted).collect());
    tell("named, and gave nothing", report.named_for_nothing.clone());
    tell("warning: no file fits", report.unfit.clone());
    if has_unread {
        out += "hint: `trajpress ingest --explain FILE` says what a file is, and prints a mapping to read it by, if it is a log\n";
    }
    out
}

pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Where the reading is.
pub(super) fn reading(progress: &Progress) -> String {
    let Progress { files_done, files, trajectories, .. } = progress;
    format!("ingest: {files_done}/{files} files, {trajectories} trajectories")
}

/// The report as a table for people.
fn table(report: &Report, time: Duration) -> String {
    let mut out = format!(
        "{:<16} {:>6} {:>13} {:>9} {:>9} {:>9} {:>8} {:>9}\n",
        "format", "files", "trajectories", "steps", "log MB", "text MB", "rejects", "labelled"
    );
    let mb = |n: u64| format!("{:.1}", n as f64 / 1e6);
    for (name, t) in &report.formats {
        out += &format!(
            "{name:<16} {:>6} {:>13} {:>9} {:>9} {:>9} {:>8} {:>9}\n",
            t.files,
            t.trajectories,
            t.steps,
            mb(t.bytes),
            mb(t.text_bytes),
            t.rejects,
            t.labelled
        );
    }
    out += &format!(
        "{:<16} {:>6} {:>13} {:>9} {:>9} {:>9} {:>8}\n",
        "all",
        report.files,
        report.trajectories,
        report.steps,
        mb(report.bytes),
        "",
        report.rejects
    );
    for (name, t) in &report.formats {
        for (what, n) in &t.losses {
            out += &format!("{name:<16} {n:>6} x {what}\n");
        }
    }
    let groups = |aside: Vec<&str>| {
        let mut counts = std::collections::BTreeMap::<&str, u64>::new();
        aside.into_iter().for_each(|f| *counts.entry(f).or_default() += 1);
        counts.iter().map(|(f, n)| format!("{f} {n}")).collect::<Vec<_>>().join(", ")
    };
    if !report.not_read.is_empty() {
        out += &format!(
            "recognised, no reader yet: {}\n",
            groups(report.not_read.iter().map(|a| a.format.as_str()).collect())
        );
    }
    if !report.labels.is_empty() {
        let joined: u64 = report.labels.iter().map(|l| l.joined).sum();
        out += &format!(
            "label files: {} (joined to {joined} runs)\n",
            groups(report.labels.iter().map(|l| l.format.as_str()).collect())
        );
    }
    let odd: u64 = report.labels.iter().map(|l| l.odd).sum();
    if odd > 0 {
        out += &format!("labels that are neither true nor false, taken as unknown: {odd}\n");
    }
    if !report.contradicting_labels.is_empty() {
        out += &format!("label files contradict each other on {} runs\n", report.contradicting_labels.len());
    }
    if !report.no_logs.is_empty() {
        out += &format!("no logs: {}\n", groups(report.no_logs.iter().map(|a| a.format.as_str()).collect()));
    }
    if !report.duplicates.is_empty() {
        out += &format!("duplicates, kept once: {}\n", report.duplicates.len());
    }
    if report.hidden > 0 {
        let n = super::count(report.hidden, "hidden file or folder");
        out += &format!("not looked into: {n}\n");
    }
    if report.left_out > 0 {
        out += &format!("left out, since not asked for: {}\n", super::count(report.left_out, "file"));
    }
    let seconds = time.as_secs_f64();
    let n_bytes = report.before.as_ref().map_or(report.bytes, |before| before.n_bytes_read);
    out += &format!("{seconds:.2} s, {:.0} MB/s of log text\n", n_bytes as f64 / 1e6 / seconds.max(1e-9));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_once_with_the_number_of_its_runs() {
        let run = |source: &str| logs::RunName { trajectory: String::new(), source: source.to_owned() };
        let sources = ["many", "many", "many", "b", "c", "d", "e", "f"];
        let report = Report { without_turns: sources.map(run).into(), ..Report::default() };
        assert_eq!(
            told_by_name(&report, "i.json"),
            "runs in which the agent says nothing (0 turns): many (3 runs), b, c, d, e and 1 more (all in i.json)\n"
        );
    }

    #[test]
    fn times_are_days_or_spans() {
        let day = logs::since("2026-01-31").unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(day.as_secs(), 1_769_817_600);
        let ago = logs::since("2w").unwrap().elapsed().unwrap().as_secs();
        assert!((1_209_600..1_209_700).contains(&ago));
        assert!(
            ["", "7", "7y", "d", "31.1.2026", "99999999999999999999d"]
                .into_iter()
                .all(|t| logs::since(t).is_err())
        );
    }

    #[test]
    fn sizes_have_units() {
        let read = ["1", "500MB", "2GiB", "1.5k", "7 b"].map(|text| bytes(text).unwrap());
        assert_eq!(read, [1, 500_000_000, 2 << 30, 1536, 7]);
        assert!(["", "0", "-1", "2TB?", "MB", "0.1"].into_iter().all(|text| bytes(text).is_err()));
    }
}
