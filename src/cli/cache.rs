//! `trajpress cache`: what this program keeps between calls, and how to be rid of it.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use indicatif::DecimalBytes;
use serde::Serialize;

use super::{ExitStatus, Output, columns, count, print, trial};
use crate::files::reach;
use crate::models::cache::Store;
use crate::models::folder::Folder;
use crate::models::open::cache_path;
use crate::text::escape;

/// Show what is kept between calls, and delete what was not used for long
///
/// Kept are the answers of models (a call is not computed twice), the folders of `trajpress try`, and the models themselves.
/// Runs and datasets are yours: they stand where you said.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress cache stats
  trajpress cache prune
  trajpress cache prune --days 0")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
    /// File of the call cache [default: trajpress/calls.sqlite in XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "FILE", global = true)]
    cache: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Say what is kept where, and how large it is
    Stats,
    /// Delete answers of models and folders of `trajpress try` that were not used for some days; models stay
    Prune {
        /// Days without use; 0 deletes all
        #[arg(long, value_name = "N", default_value_t = 30)]
        days: u32,
    },
}

/// What is kept in one place.
#[derive(Serialize)]
struct Row {
    what: &'static str,
    path: PathBuf,
    /// Answers, folders or models.
    n: u64,
    /// Bytes of their files.
    bytes: u64,
    /// Seconds that the answers had cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    /// Days since the one that was used longest ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_days: Option<f64>,
}

/// Runs the subcommand.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let path = args.cache.clone().or_else(cache_path);
    let calls = path.filter(|path| path.is_file());
    if let Action::Prune { days } = args.action {
        let unused = std::time::Duration::from_secs(u64::from(days) * 24 * 3600);
        let answers =
            calls.as_deref().map_or(anyhow::Ok(0), |path| Store::open(path, u64::MAX)?.prune(unused))?;
        let folders = trial::folders()?.map_or(0, |root| trial::prune(&root, unused, output.quiet));
        let told = format!(
            "{} and {} of `trajpress try` deleted",
            count(answers, "answer"),
            count(folders, "folder")
        );
        print(&match output.json {
            true => escape::json(&serde_json::json!({"answers": answers, "folders": folders}))?,
            false => told + "\n",
        })?;
        return Ok(ExitStatus::Done);
    }
    let mut rows = Vec::new();
    if let Some(path) = calls {
        let (n, seconds, oldest) = Store::open(&path, u64::MAX)?.stats()?;
        let bytes =
            ["", "-wal", "-shm"].map(|end| of_file(&PathBuf::from(format!("{}{end}", path.display()))));
        let (seconds, oldest_days) = (Some(seconds), oldest);
        rows.push(Row {
            what: "answers of models",
            path,
            n,
            bytes: bytes.iter().sum(),
            seconds,
            oldest_days,
        });
    }
    let folder = |what, path: PathBuf, is_one: fn(&Path) -> bool| {
        let entries = fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path());
        let n = entries.filter(|path| is_one(path)).count() as u64;
        let files =
            walkdir::WalkDir::new(&path).into_iter().flatten().filter(|entry| entry.file_type().is_file());
        let bytes = files.map(|entry| of_file(entry.path())).sum();
        Row { what, path, n, bytes, seconds: None, oldest_days: None }
    };
    if let Some(root) = trial::folders()? {
        rows.push(folder("folders of `trajpress try`", root, Path::is_dir));
    }
    let models = Folder::of_environment()?;
    if reach::is_there(models.dir())? {
        rows.push(folder("models", models.dir().to_owned(), |path| {
            path.extension().is_some_and(|e| e == "gguf")
        }));
    }
    print(&match output.json {
        true => escape::json(&rows)?,
        false if rows.is_empty() => "nothing is kept\n".to_owned(),
        false => columns(&rows.iter().map(Row::line).collect::<Vec<_>>()),
    })?;
    Ok(ExitStatus::Done)
}

fn of_file(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |about| about.len())
}

impl Row {
    fn line(&self) -> Vec<String> {
        let cost = self.seconds.map(|seconds| format!("{seconds:.0} s of a model"));
        let age = self.oldest_days.map(|days| format!("the oldest used {days:.0} days ago"));
        let more: Vec<String> = cost.into_iter().chain(age).collect();
        let size = DecimalBytes(self.bytes).to_string();
        vec![self.n.to_string(), self.what.to_owned(), size, self.path.display().to_string(), more.join(", ")]
    }
}
