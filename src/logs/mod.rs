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

use std::path::Path;

use anyhow::Context as _;

use crate::files::lock::Lock;
use crate::files::{reach, swap};

mod archive;
pub mod conversation;
mod database;
mod detect;
mod explain;
mod filter;
mod forks;
pub mod formats;
mod input;
mod jobs;
mod keep;
mod labels;
mod lines;
mod messages;
mod options;
mod output;
mod packed;
mod part;
mod parts;
mod placeholders;
pub mod places;
mod record;
mod redacted;
mod report;
mod sessions;
mod strangers;
mod table;

pub use explain::explain;
pub use filter::{Filter, since};
pub(crate) use formats::reading::draft::UNTOLD;
pub use options::{Limits, Mode, Options, ReadWith};
pub use redacted::{Redacted, redact_logs};
pub use report::{Aside, Before, Report, RunName};

use formats::mapping::Mapping;
use input::Input;
use output::{Output, Unfinished, remove_abandoned};
use record::Known;

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

/// Reads logs into the tables of a dataset.
pub fn ingest(options: &Options, on_progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let how = how(options)?;
    let (found, n_hidden) = input::look(&options.inputs)?;
    let mut inputs = parts::joined(found);
    for own in options.own.iter().chain([&options.out]) {
        input::leave_out(&mut inputs, &options.inputs, own);
    }
    let (n_left_out, unfit) = options.filter.apply(&mut inputs)?;
    anyhow::ensure!(
        !inputs.is_empty(),
        "no files under {}{}\nhint: give log files or a folder that holds some",
        options.inputs.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", "),
        match n_left_out {
            0 => String::new(),
            n if unfit.is_empty() => format!(", but for {n} that were not asked for"),
            n => format!(", but for {n} that were not asked for (nothing fits {})", unfit.join(", ")),
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
        return Ok(Report { unfit, ..known.unchanged() });
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
    (out.report.left_out, out.report.unfit, out.report.hidden) = (n_left_out, unfit, n_hidden);
    out.know(&known)?;
    run(&read, how, &beginnings, &mut out, on_progress)?;
    out.before.n_bytes_read = out.report.bytes;
    out.keep(&known, &inputs, &read, &beginnings.told)?;
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
    beginnings: &jobs::Beginnings,
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
