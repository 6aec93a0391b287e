//! `trajpress doctor`: what of this program works on this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context as _;
use serde::Serialize;

use super::{ExitStatus, Output, columns, count, print};
use crate::experiment::SEMANTICS_VERSION;
use crate::files::{reach, room};
use crate::logs::places;
use crate::models::catalogue::{Catalogue, DEFAULT_SET, Named};
use crate::models::folder::{Folder, State};
use crate::models::open::cache_path;
use crate::text::escape;

/// A session of our own.
const LOG: &str = include_str!("../../datasets/coding/minilang__parser-7.jsonl");

/// Say what is installed, and try it: a self-test of some seconds
///
/// Looks for models, for logs of agents and for room, then reads, replays and reports a small session in a folder of its own, which goes
/// again. What is `missing` is needed for some things alone; what is `wrong` has to be mended.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress doctor
  trajpress doctor --json

Exit codes: 0 all that is needed works; 1 something is wrong")]
pub struct Args {}

/// One thing that was looked at.
#[derive(Serialize)]
struct Row {
    what: &'static str,
    state: Health,
    told: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Ok,
    /// Not there, and not always needed.
    Missing,
    Wrong,
}

/// Runs the command.
pub fn run(_: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let mut rows = vec![program(), models(), logs(), cache(), disk()];
    rows.push(match tried() {
        Ok(told) => Row { what: "self-test", state: Health::Ok, told },
        Err(error) => Row { what: "self-test", state: Health::Wrong, told: format!("{error:#}") },
    });
    let name = |health| match health {
        Health::Ok => "ok",
        Health::Missing => "missing",
        Health::Wrong => "wrong",
    };
    print(&match output.json {
        true => escape::json(&rows)?,
        false => {
            let line = |row: &Row| vec![row.what.to_owned(), name(row.state).to_owned(), row.told.clone()];
            columns(&rows.iter().map(line).collect::<Vec<_>>())
        }
    })?;
    let is_wrong = rows.iter().any(|row| row.state == Health::Wrong);
    Ok(if is_wrong { ExitStatus::Failed } else { ExitStatus::Done })
}

fn program() -> Row {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let llama = if cfg!(feature = "llama") { "local models built in" } else { "built without local models" };
    let told = format!(
        "trajpress {}, scores {SEMANTICS_VERSION}, {llama}; {}",
        env!("CARGO_PKG_VERSION"),
        count(cores as u64, "core")
    );
    Row { what: "program", state: Health::Ok, told }
}

/// The models that are asked if nobody names another.
fn models() -> Row {
    let found = || -> anyhow::Result<(Vec<String>, Vec<String>, Folder)> {
        let (catalogue, folder) = (Catalogue::load(None)?, Folder::of_environment()?);
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for model in catalogue.pick(&[DEFAULT_SET.to_owned()])? {
            let Named::File(entry) = model else { continue };
            match folder.find(entry) {
                State::Ok(_) => there.push(entry.name.clone()),
                State::Missing => missing.push(entry.name.clone()),
                State::Wrong(why) => {
                    anyhow::bail!("{why}; `trajpress models fetch {}` gets it anew", entry.name)
                }
            }
        }
        Ok((there, missing, folder))
    };
    let (state, told) = match found() {
        Err(error) => (Health::Wrong, format!("{error:#}")),
        Ok((there, missing, folder)) if missing.is_empty() => {
            (Health::Ok, format!("{} in {}", there.join(", "), folder.dir().display()))
        }
        Ok((_, missing, _)) => {
            let told = format!(
                "{}: `trajpress models fetch` gets them; needed by what asks a model",
                missing.join(", ")
            );
            (Health::Missing, told)
        }
    };
    Row { what: "models", state, told }
}

fn logs() -> Row {
    let set = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(Into::into);
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let known = places::known(home.as_deref(), set);
    let unreadable = known.iter().find_map(|place| Some((place, place.is_there.as_ref().err()?)));
    let there: Vec<&str> = known.iter().filter(|p| p.is_there == Ok(true)).map(|p| p.agent).collect();
    let (state, told) = match (unreadable, &there[..]) {
        (Some((place, why)), _) => (Health::Wrong, format!("{}: {why}", place.path.display())),
        (None, []) => (Health::Missing, "no sessions where agents keep them: name yours".to_owned()),
        (None, there) => {
            (Health::Ok, format!("sessions of {}: `trajpress try` reads them", there.join(", ")))
        }
    };
    Row { what: "logs", state, told }
}

/// Whether answers of models can be kept.
fn cache() -> Row {
    let tried = || -> anyhow::Result<String> {
        let path =
            cache_path().context("no home folder: `--cache FILE` names a place, `--no-cache` needs none")?;
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        tempfile::tempfile_in(folder).with_context(|| format!("cannot write in {}", folder.display()))?;
        let size = reach::is_there(&path)?.then(|| std::fs::metadata(&path).map_or(0, |about| about.len()));
        let kept =
            size.map_or_else(|| "empty".to_owned(), |bytes| indicatif::DecimalBytes(bytes).to_string());
        Ok(format!("{} ({kept})", path.display()))
    };
    let (state, told) = match tried() {
        Ok(told) => (Health::Ok, told),
        Err(error) => (Health::Wrong, format!("{error:#}")),
    };
    Row { what: "cache", state, told }
}

/// Bytes under which a disk is too full for runs over many logs.
const ROOM: u64 = 1_000_000_000;

/// Whether there is room for runs: they and their data stand where the user is, what is in the making in the folder for that.
fn disk() -> Row {
    let places = [("here", PathBuf::from(".")), ("for temporary files", std::env::temp_dir())];
    let free = places.map(|(name, path)| (name, room::free(&path)));
    let told = |(name, bytes): &(&str, Option<u64>)| {
        let bytes = bytes.map_or("unknown".to_owned(), |bytes| indicatif::DecimalBytes(bytes).to_string());
        format!("{bytes} free {name}")
    };
    let is_full = free.iter().any(|(_, bytes)| bytes.is_some_and(|bytes| bytes < ROOM));
    let advice = if is_full { "; `trajpress cache prune` and old runs give room" } else { "" };
    let state = if is_full { Health::Wrong } else { Health::Ok };
    Row { what: "disk", state, told: format!("{}{advice}", free.each_ref().map(told).join(", ")) }
}

/// Has the program itself try a session, as a user would; how long that took.
fn tried() -> anyhow::Result<String> {
    let start = Instant::now();
    let folder = tempfile::tempdir().context("cannot make a folder\nhint: TMPDIR names another place")?;
    let log = folder.path().join("session.jsonl");
    std::fs::write(&log, LOG).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(std::env::current_exe().context("cannot tell where this program is")?);
    command
        .args(["try", "--json", "--quiet", "--window", "4k", "--out"])
        .arg(folder.path().join("out"))
        .arg(&log);
    let ended = command.stdin(Stdio::null()).output().context("cannot start itself")?;
    let said = String::from_utf8_lossy(&ended.stderr);
    anyhow::ensure!(ended.status.success(), "`trajpress try` failed: {}", said.trim());
    let answer: serde_json::Value = serde_json::from_slice(&ended.stdout).context("its answer is no JSON")?;
    let policies = answer["policies"].as_array().map_or(&[][..], Vec::as_slice);
    let saving = policies.iter().filter(|policy| policy["tokens_saved"].as_f64() > Some(0.0)).count();
    anyhow::ensure!(saving > 1, "no policy saved anything, and some do");
    let seconds = start.elapsed().as_secs_f64();
    Ok(format!("{} of ours saved tokens of a session in {seconds:.1} s", count(saving as u64, "policy")))
}
