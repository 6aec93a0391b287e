//! `trajpress export`: the prompts of a variant as messages, to be sent, read or ingested.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::json;

use super::inspect::find;
use super::policies::named;
use super::using::Using;
use super::{ExitStatus, Output, count, redact, tell};
use crate::context::needs::Needs;
use crate::experiment::cell::recipe;
use crate::experiment::{Dataset, Kept};
use crate::export::camera::{At, Camera, Shot};
use crate::export::forms::{About, Body, Document, Form, document};
use crate::export::messages::{Counts, Prompt};
use crate::export::words::Words;
use crate::files::whole::Whole;
use crate::files::{reach, whole};
use crate::replay::{Recipe, replay};
use crate::scores::readers::Named;
use crate::text::escape;
use crate::text::redact::{Tally, add};
use crate::text::tokens::Tokenizer;

/// Write the prompts of a variant as messages of OpenAI or Anthropic, as ATIF or as plain text
///
/// The variant is replayed over the data of the run. Written are the prompts as they stand when the logs end, or behind an
/// event; they are valid for their API: roles are in order, and each result stands behind its call. Keys, passwords, e-mails
/// and the like become placeholders, as `trajpress redact` makes them; a text that a strategy cut in the middle of one may keep the rest.
/// `trajpress ingest` reads all but plain text.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress export runs/first --data data --variant 'mask' > prompts.jsonl
  trajpress export runs/first --data data --variant 'mask' --as anthropic --with-system --out prompts
  trajpress export runs/first --data data --variant 'mask' --at each --out prompts.jsonl
  trajpress export runs/first --data data --variant 'mask' --at 0 --trajectory 3f2a --as text")]
pub struct Args {
    /// Folder of a run
    run: PathBuf,
    /// Id or part of the label of a variant
    #[arg(long, value_name = "V")]
    variant: String,
    /// Folder of the data that the run was made from [default: `data` beside the run, where that is it]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Form of what is written
    #[arg(long = "as", value_enum, default_value = "openai", value_name = "FORM")]
    form: Form,
    /// Which prompts: as they stand at the `end`, that behind an event (its number from 0), or behind `each`
    #[arg(long, default_value = "end", value_name = "EVENT")]
    at: When,
    /// Write the system prompts and the schemas of the tools, too
    #[arg(long)]
    with_system: bool,
    /// Leave keys, passwords and personal data as they are
    #[arg(long)]
    raw: bool,
    /// Only this trajectory: its id or that of its task, whole or the beginning, or part of the path of its log
    #[arg(long, value_name = "T")]
    trajectory: Option<String>,
    /// A folder, for one file a prompt; FILE.jsonl, for one line a prompt [default: lines on standard output]
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    #[command(flatten)]
    using: Using,
}

#[derive(Clone, Copy, Debug)]
struct When(At);

impl FromStr for When {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(When(match text {
            "end" => At::End,
            "each" => At::Each,
            _ => At::Event(text.parse().map_err(|_| "expected `end`, `each` or the number of an event")?),
        }))
    }
}

/// What was written.
#[derive(Debug, Default, Serialize)]
struct Done {
    trajectories: u64,
    prompts: u64,
    counts: Counts,
    /// What was added or left out, and how often.
    notes: BTreeMap<&'static str, u64>,
    redacted: Tally,
    failed: Vec<String>,
    /// Events of a trajectory at most.
    #[serde(skip)]
    most_events: usize,
}

/// Runs the command; says on stderr what was written.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let kept = Kept::of(&args.run)?;
    let data = data(&kept, args)?;
    let variant = named(&kept.plan.variants, &args.variant)?;
    let mut trajectories = kept.trajectories(&args.run, &data)?;
    if let Some(name) = &args.trajectory {
        let one = find(&data, name)?;
        trajectories.retain(|&index| index == one);
        anyhow::ensure!(!trajectories.is_empty(), "trajectory `{name}` is in the data, and not in the run");
    }
    let models = args.using.open([variant], &Named::default(), 1)?.models();
    let exporter = Exporter {
        args,
        kept: &kept,
        data: &data,
        recipe: recipe(variant, &models)?,
        tokenizer: Tokenizer::load(&kept.plan.tokenizer)?,
    };
    let mut writer = Writer::open(args.out.as_deref())?;
    let mut done = Done::default();
    for index in trajectories {
        exporter.trajectory(index, &mut writer, &mut done)?;
    }
    let shown = writer.shown;
    writer.lines.map_or(Ok(()), Whole::finish).with_context(|| format!("cannot write {shown}"))?;
    if !output.quiet {
        tell(&if output.json { escape::json(&done)? } else { told(&done, &variant.label, args) });
    }
    let is_whole = done.failed.is_empty() && !done.notes.contains_key(FALLBACK);
    Ok(if done.prompts > 0 && is_whole { ExitStatus::Done } else { ExitStatus::Failed })
}

/// The data of the run.
fn data(kept: &Kept, args: &Args) -> anyhow::Result<Dataset> {
    let hint = "hint: name them with `--data DIR`";
    let beside = || args.run.parent().map(|folder| folder.join("data"));
    let is_there = |folder: &PathBuf| reach::is_there(&folder.join("steps.parquet"));
    let folder = match &args.data {
        Some(folder) => folder.clone(),
        None => beside()
            .map(|folder| anyhow::Ok(is_there(&folder)?.then_some(folder)))
            .transpose()?
            .flatten()
            .with_context(|| format!("the data of {} are not beside it\n{hint}", args.run.display()))?,
    };
    let data = Dataset::open(&folder)?;
    anyhow::ensure!(
        kept.is_of(&data)?,
        "{} are not the data that {} was made from, or they have changed since\n{hint}, or run the experiment over them again",
        folder.display(),
        args.run.display()
    );
    data.linked(&kept.plan.filter, kept.plan.seed)
}

struct Exporter<'a> {
    args: &'a Args,
    kept: &'a Kept,
    data: &'a Dataset,
    recipe: Recipe,
    tokenizer: Tokenizer,
}

impl Exporter<'_> {
    /// Writes the prompts of a trajectory; that it cannot be replayed is told at the end.
    fn trajectory(&self, index: usize, writer: &mut Writer, done: &mut Done) -> anyhow::Result<()> {
        let log = self.data.log(index, self.recipe.bridges())?;
        let tail = self.kept.plan.reference_tails.iter().copied().min().unwrap_or(0);
        let needs = if self.recipe.sees_future() { Needs::of(&log, tail) } else { Needs::default() };
        let mut camera = Camera::new(self.args.at.0);
        let run = match replay(&log, &self.recipe, &self.tokenizer, &needs, &mut camera) {
            Ok(run) => run,
            Err(error) => {
                done.failed.push(format!("{}: {error:#}", log.id()));
                return Ok(());
            }
        };
        let n_fallbacks = run.events.iter().filter(|event| event.work.fallback.is_some()).count() as u64;
        if n_fallbacks > 0 {
            *done.notes.entry(FALLBACK).or_default() += n_fallbacks;
        }
        if camera.is_full() {
            done.failed.push(format!(
                "{}: the prompts of all events are too large together; export single ones with `--at`",
                log.id()
            ));
        }
        done.most_events = done.most_events.max(camera.n_events);
        if camera.shots.is_empty() {
            *done.notes.entry("trajectory without such a prompt").or_default() += 1;
            return Ok(());
        }
        let words = match self.args.raw {
            true => Words::raw(&log),
            false => Words::redacted(&log, &camera.shots),
        };
        add(&mut done.redacted, &words.found);
        done.trajectories += 1;
        for Shot { event, blocks } in &camera.shots {
            let id = event.map_or(log.id().to_owned(), |event| format!("{}-e{event}", log.id()));
            let about = About {
                task: words.task(),
                agent: log.trajectory.agent.clone(),
                model: log.trajectory.model.clone(),
                id,
            };
            let made_by = self.recipe.made_by();
            let mut prompt = Prompt::of(&log, blocks, &words, self.args.with_system, made_by);
            let written = document(self.args.form, &about, &mut prompt);
            for (what, n) in prompt.notes {
                *done.notes.entry(what).or_default() += n;
            }
            if let Some(document) = written {
                done.prompts += 1;
                done.counts.add(document.counts);
                writer.write(&about.id, &document)?;
            }
        }
        Ok(())
    }
}

/// Where prompts go: to lines, or to files of a folder.
struct Writer {
    lines: Option<Whole>,
    folder: PathBuf,
    /// What lines are written to, in words.
    shown: String,
}

impl Writer {
    fn open(out: Option<&Path>) -> anyhow::Result<Self> {
        let lines = match out {
            None => Some(Whole::begin(None)?),
            Some(path) if path.extension().is_some_and(|e| e == "jsonl") => Some(Whole::begin(Some(path))?),
            Some(folder) => {
                fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
                None
            }
        };
        let shown = out.map_or_else(|| "standard output".to_owned(), |out| out.display().to_string());
        Ok(Writer { lines, folder: out.unwrap_or(Path::new("")).to_owned(), shown })
    }

    fn write(&mut self, id: &str, document: &Document) -> anyhow::Result<()> {
        let Some(lines) = &mut self.lines else {
            let (text, ending) = match &document.body {
                Body::Json(value) => (escape::json(value)?, "json"),
                Body::Text(text) => (escape::lines(text), "txt"),
            };
            let path = self.folder.join(format!("{id}.{ending}"));
            return whole::write(&path, text.as_bytes());
        };
        let line = match &document.body {
            Body::Json(value) => escape::json_line(value)?,
            Body::Text(text) => escape::json_line(&json!({"id": id, "text": text}))?,
        };
        writeln!(lines, "{line}").with_context(|| format!("cannot write {}", self.shown))
    }
}

const FALLBACK: &str = "event at which the fallback stood in for an answer";

/// How many failures are named.
const NAMED: usize = 5;

fn told(done: &Done, label: &str, args: &Args) -> String {
    let Counts { system, user, replies, calls, results } = done.counts;
    let mut text = format!(
        "{} of {} under {label}: {}, {}, {}, {}, {}\n",
        count(done.prompts, "prompt"),
        count(done.trajectories, "trajectory"),
        count(system, "system message"),
        count(user, "message") + " of users",
        count(replies, "text") + " of agents",
        count(calls, "call"),
        count(results, "result"),
    );
    if done.prompts == 0 && done.failed.is_empty() {
        text += &match done.most_events {
            0 => "hint: nothing was compressed; `--at end` writes the prompts as they stand at the end\n"
                .to_owned(),
            n => format!("hint: the last event of a trajectory is `--at {}` at most\n", n - 1),
        };
    }
    for (what, n) in &done.notes {
        text += &format!("{what}: {n}\n");
    }
    if !args.raw {
        text += &redact::found(&done.redacted);
    }
    done.failed.iter().take(NAMED).for_each(|failed| text += &format!("failed: {failed}\n"));
    if done.failed.len() > NAMED {
        text += &format!("failed: {} more\n", done.failed.len() - NAMED);
    }
    text.trim_end().to_owned()
}
