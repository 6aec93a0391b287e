//! `trajpress inspect`: a trajectory in the terminal, and what a variant kept, rewrote and lost of it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;

use super::page::of_terminal;
use super::policies::named;
use super::using::Using;
use super::{ExitStatus, Output, catalogue, columns, count, print};
use crate::context::log::Log;
use crate::context::needs::Needs;
use crate::context::{Block, Content};
use crate::experiment::cell::{Accounts, Shelf, Which, accounts, recipe};
use crate::experiment::{Dataset, Kept, Plan, place};
use crate::export::words::Words;
use crate::files::reach;
use crate::replay::{Event, Observer, Run, replay};
use crate::scores::readers::Named;
use crate::showcase;
use crate::store::{TrajectoryRow, UsageRow};
use crate::strategies::Fate;
use crate::text::escape;
use crate::text::tokens::Tokenizer;
use crate::turns::actions::ActionKind;

mod event;
mod lines;
mod sessions;
mod usage;

pub(super) use lines::{line, line_with};
use usage::{counted_lines, stretch, usage_lines};

/// Show a trajectory, and what a variant kept, rewrote and lost of it
///
/// Of a run: its sessions under a variant, those that lose most first. Of data, without a variant: the steps of a trajectory, one line each. With one: the events of its replay, or of
/// one event: what it took that was needed later, then what it rewrote, dropped, added and kept. `--timeline` draws intents, files, tests and where each trigger fires. Text of the log is shown with its control characters escaped, keys and personal data as placeholders (`--raw` shows them).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress inspect runs/night
  trajpress inspect runs/night --variant 'mask'
  trajpress inspect runs/night 3f2a --variant 'mask' --event 0
  trajpress inspect data 3f2a
  trajpress inspect data ferrule__ringbuf-2
  trajpress inspect data 3f2a --timeline timeline.svg
  trajpress inspect data 3f2a --timeline timeline.json --intents-by smollm2-135m
  trajpress inspect data 3f2a --experiment experiment.toml --variant 'mask'
  trajpress inspect data 3f2a --experiment experiment.toml --variant 'mask' --event 0
  trajpress inspect data 3f2a --experiment experiment.toml --variant 'tiered' --tiers tiers.svg")]
pub struct Args {
    /// Folder of ingested and annotated data, or of a run
    data: PathBuf,
    /// Id of a trajectory or of its task, whole or the beginning, or part of the path of its log; none for a run
    trajectory: Option<String>,
    /// Folder of the data that the run was made from [default: where they were then]
    #[arg(long = "data", value_name = "DIR", requires = "trajectory")]
    of_run: Option<PathBuf>,
    /// Draw the turns and the firings of the triggers into this file, svg or png; as json, what it shows
    #[arg(long, value_name = "FILE", conflicts_with = "experiment")]
    timeline: Option<PathBuf>,
    /// Show what this model takes each turn to be about, too
    #[arg(long, value_name = "MODEL", requires = "timeline")]
    intents_by: Option<String>,
    /// Experiment file that names the variant [default: that of the run]
    #[arg(long, value_name = "FILE", requires = "variant")]
    experiment: Option<PathBuf>,
    /// Id or part of the label of a variant
    #[arg(long, value_name = "V")]
    variant: Option<String>,
    /// Sessions of a run that are shown
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "trajectory")]
    most: usize,
    /// Number of an event, from 0: event 1 of the listing and of the page is 0 here
    #[arg(long, value_name = "K", requires = "variant")]
    event: Option<usize>,
    /// Show the blocks that the event kept, too
    #[arg(long, requires = "event")]
    all: bool,
    /// Draw which tier of memory each turn was in at each decision (of `tiered`) into this file, svg or png; as json,
    /// what it shows
    #[arg(long, value_name = "FILE", requires = "variant", conflicts_with = "event")]
    tiers: Option<PathBuf>,
    /// Show keys and personal data as they are
    #[arg(long)]
    raw: bool,
    /// Characters shown of each block [default: 160, or what a narrow terminal has room for]
    #[arg(long, value_name = "N")]
    width: Option<usize>,
    #[command(flatten)]
    using: Using,
}

impl Args {
    /// Characters shown of each block.
    fn most(&self) -> usize {
        self.width.unwrap_or_else(|| most(of_terminal()))
    }
}

/// Characters of a block behind what stands before it, in lines of so many; where lines do not end, all that is usual.
fn most(width: Option<usize>) -> usize {
    width.map_or(USUAL, |width| width.saturating_sub(HEAD).clamp(20, USUAL))
}

const USUAL: usize = 160;
/// What stands before a block, and the mark where it is cut.
const HEAD: usize = 30;

/// Runs the command.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let shown = args.data.display();
    let is_run = reach::is_there(&args.data.join("_manifest.json"))?;
    let trajectory = match &args.trajectory {
        None if is_run => return sessions::show(args, output),
        None => anyhow::bail!(
            "{shown} is no run, so name a trajectory\nhint: its id or task, as in {shown}/trajectories.parquet"
        ),
        Some(name) => name,
    };
    let kept = is_run.then(|| Kept::of(&args.data)).transpose()?;
    anyhow::ensure!(
        args.variant.is_none() || args.experiment.is_some() || is_run,
        "--variant needs the experiment that has it\nhint: add --experiment FILE, or name the folder of a run"
    );
    let mut data = Dataset::open(&if is_run { data_of(args)? } else { args.data.clone() })?;
    if let Some(plan) = kept.as_ref().map(|kept| &kept.plan) {
        data = data.linked(&plan.filter, plan.seed)?;
    }
    let index = find(&data, trajectory)?;
    let log = data.log(index, false)?;
    if let Some(path) = &args.timeline {
        let model = args.intents_by.clone();
        let readers = Named { scorers: model.clone().into_iter().collect(), ..Named::default() };
        let opened = args.using.open([], &readers, 1)?.models();
        let model = model.and_then(|name| opened.get(&name).cloned());
        super::timeline::write(&log, model.as_deref(), path)?;
        return drawn("timeline", path, output);
    }
    let Some(name) = &args.variant else {
        let words = words(&log, args.raw);
        return show_steps(&log, &words, &data.usage(index)?, (args.most(), output));
    };
    let plan = match (&args.experiment, kept) {
        (Some(file), _) => Plan::read(file, &catalogue())?,
        (None, kept) => kept.context("no run and no experiment")?.plan.plan(),
    };
    let variant = named(&plan.variants, name)?;
    let tokenizer = Tokenizer::load(&plan.tokenizer)?;
    let models = args.using.open([variant], &Named::default(), 1)?.models();
    let all = (&data, &plan, &Shelf::default());
    let which = args.event.map_or(Which::Worst(0), Which::Number);
    let told = accounts(all, index, variant, &models, (which, showcase::tail(&plan)))?;
    if let Some(number) = args.event {
        anyhow::ensure!(
            !told.events.is_empty(),
            "no event {number}: {} in this replay, from 0",
            count(told.n_events as u64, "event")
        );
        return event::show(&told, (args.all, args.raw), args.most(), output);
    }
    let recipe = recipe(variant, &models)?;
    let log = if recipe.bridges() { data.log(index, true)? } else { log };
    let needs = Needs::of(&log, plan.reference_tails.iter().copied().min().unwrap_or(0));
    let run = replay(&log, &recipe, &tokenizer, &needs, &mut Nobody)?;
    if let Some(path) = &args.tiers {
        super::tiers::write(&log, &variant.label, &run, path)?;
        return drawn("tier map", path, output);
    }
    let session = escape::short(&data.entries()[index].id.chars().take(8).collect::<String>());
    let next =
        format!("trajpress inspect {} {session} --variant '{}'", args.data.display(), escape::line(name));
    show_events((&variant.label, &next), &run, &told, args.most(), output)
}

/// Where the data of a run are.
fn data_of(args: &Args) -> anyhow::Result<PathBuf> {
    let run = args.data.display();
    let folder = match &args.of_run {
        Some(folder) => return Ok(folder.clone()),
        None => place::read(&args.data)?,
    };
    let folder = folder
        .with_context(|| format!("{run} does not say where its data are\nhint: name them with --data DIR"))?;
    anyhow::ensure!(
        reach::is_there(&folder.join("steps.parquet"))?,
        "the data of {run} are not in {} any more\nhint: name them with --data DIR",
        folder.display()
    );
    Ok(folder)
}

/// Says where a figure is.
fn drawn(what: &str, path: &Path, output: Output) -> anyhow::Result<ExitStatus> {
    if !output.quiet {
        super::tell(&format!("{what} in {}", path.display()));
    }
    if output.json {
        print(&escape::json(&json!({ "figure": what, "file": path.display().to_string() }))?)?;
    }
    Ok(ExitStatus::Done)
}

/// Nobody looks on.
struct Nobody;

impl Observer for Nobody {}

/// Trajectories that are listed where several fit.
const LISTED: usize = 10;

/// The one trajectory that this name means: the first of these kinds that fits any.
pub(super) fn find(data: &Dataset, name: &str) -> anyhow::Result<usize> {
    let all: Vec<usize> = (0..data.entries().len()).collect();
    let rows = data.trajectory_rows(&all)?;
    let task = |row: &TrajectoryRow| row.task_id.clone().unwrap_or_default();
    // An empty name is the beginning of all.
    let kinds: [&dyn Fn(&TrajectoryRow) -> bool; 5] = [
        &|row| *row.trajectory == *name,
        &|row| task(row) == name,
        &|row| row.trajectory.starts_with(name),
        &|row| task(row).starts_with(name),
        &|row| row.source.contains(name),
    ];
    let fits = |fits: &&dyn Fn(&TrajectoryRow) -> bool| -> Vec<usize> {
        all.iter().copied().filter(|&i| fits(&rows[i])).collect()
    };
    let found = kinds.iter().map(fits).find(|found| !found.is_empty()).unwrap_or_default();
    match found.as_slice() {
        [] => anyhow::bail!(
            "no trajectory whose id or task begins with, or whose path holds, `{}`\nhint: column `trajectory` of trajectories.parquet has the ids, `task_id` the tasks",
            escape::short(name)
        ),
        [one] => Ok(*one),
        many => {
            let listed = many.iter().take(LISTED).map(|&i| &rows[i]);
            let listed = listed.map(|row| vec![row.trajectory.clone(), task(row), row.source.clone()]);
            let more = many.len().saturating_sub(LISTED);
            let more = if more > 0 { format!("and {more} more\n") } else { String::new() };
            anyhow::bail!(
                "{} trajectories fit `{}` (id, task, path):\n{}{more}hint: give more of one of these",
                many.len(),
                escape::short(name),
                columns(&listed.collect::<Vec<_>>())
            )
        }
    }
}

/// The texts of a log, without keys and personal data unless it is to be raw.
fn words(log: &Log, raw: bool) -> Words<'_> {
    if raw { Words::raw(log) } else { Words::redacted(log, &[]) }
}

fn show_steps(
    log: &Log,
    words: &Words,
    usage: &[UsageRow],
    (width, output): (usize, Output),
) -> anyhow::Result<ExitStatus> {
    let t = &log.trajectory;
    let texts: Vec<String> = (0..t.steps.len() as u32).map(|step| words.step(step)).collect();
    if output.json {
        let steps: Vec<_> = t
            .steps
            .iter()
            .zip(log.tokens.iter().zip(&texts))
            .map(|(s, (tokens, text))| json!({"turn": s.turn, "segment": s.segment, "role": s.role, "kind": s.kind, "tokens": tokens, "text": text, "model": s.model, "usage": s.usage.as_deref()}))
            .collect();
        let usage: Vec<_> = usage.iter().map(stretch).collect();
        let json = json!({"trajectory": t.id, "source": t.source, "usage": usage, "steps": steps});
        print(&escape::json(&json)?)?;
        return Ok(ExitStatus::Done);
    }
    let tokens: u64 = log.tokens.iter().map(|&n| u64::from(n)).sum();
    let mut text = format!("{} {} ({})\n", t.id, line(&t.source, 200), t.format);
    text.push_str(&format!(
        "{}, {}, {}, {}\n{}\n",
        count(t.steps.len() as u64, "step"),
        count(u64::from(t.n_turns()), "turn"),
        count(u64::from(log.n_segments), "segment"),
        count(tokens, "token"),
        usage_lines(usage) + &counted_lines(log)
    ));
    for (i, (s, tokens)) in t.steps.iter().zip(&log.tokens).enumerate() {
        let what = log.action_kinds[i].map_or(s.kind.name(), ActionKind::name);
        text.push_str(&format!("{:>4} {:<12}{tokens:>7}  {}\n", s.turn, what, line(&texts[i], width)));
    }
    print(&text)?;
    Ok(ExitStatus::Done)
}

/// The events of a replay, each with how many needs it took; `next` is the command that shows one.
fn show_events(
    (label, next): (&str, &str),
    run: &Run,
    told: &Accounts,
    width: usize,
    output: Output,
) -> anyhow::Result<ExitStatus> {
    let taken = |event: usize| told.taken.get(event).copied().unwrap_or(0);
    if output.json {
        let events: Vec<_> = run
            .events
            .iter()
            .enumerate()
            .map(|(i, e)| {
                json!({
                    "needs_lost": taken(i),
                    "turn": e.turn,
                    "scope": [e.turns.start, e.turns.end],
                    "trigger": e.kind,
                    "tokens_before": e.tokens_before,
                    "tokens_after": e.tokens_after,
                    "violations": e.violations,
                    "fallback": e.work.fallback,
                    "warning": e.work.warning,
                    "degenerate": e.work.degenerate.iter().map(|flaw| flaw.name()).collect::<Vec<_>>(),
                })
            })
            .collect();
        print(&(escape::json(&json!({"variant": label, "needs_lost": told.n_lost, "events": events}))?))?;
        return Ok(ExitStatus::Done);
    }
    let mut text = format!(
        "{label}: {}, {}, {} lost\n",
        count(run.decisions.len() as u64, "decision"),
        count(run.events.len() as u64, "event"),
        count(told.n_lost as u64, "need")
    );
    if !run.events.is_empty() {
        text += "event (--event)\n";
    }
    for (i, e) in run.events.iter().enumerate() {
        text.push_str(&format!(
            "{:>4} {:<5} turn {:<4} scope {:<9} {:>6} -> {:>6} tokens  {:<14} {}",
            i + 1,
            format!("({i})"),
            e.turn,
            format!("{}..{}", e.turns.start, e.turns.end),
            e.tokens_before,
            e.tokens_after,
            match taken(i) {
                0 => String::new(),
                n => format!("{} lost", count(n as u64, "need")),
            },
            flags(e).join(", ")
        ));
        text.truncate(text.trim_end().len());
        text.push('\n');
        // What a strategy of turns drops, in its order: the row of an event says only how much.
        for item in e.work.items.iter().filter(|item| item.fate == Fate::Dropped) {
            let score = item.score.map_or(String::new(), |score| format!("{score:.1}"));
            text.push_str(&format!(
                "       dropped {score:>5}  {:<6}{}\n",
                item.kind,
                line(&item.text, width)
            ));
        }
    }
    let found: usize = told.taken.iter().sum();
    if found < told.n_lost {
        text += &format!("No single event took the other {}.\n", count((told.n_lost - found) as u64, "need"));
    }
    let worst = (0..run.events.len()).max_by_key(|&event| (taken(event), std::cmp::Reverse(event)));
    if let Some(worst) = worst {
        text += &format!("\nWhat one of them took, here the worst:\n  {next} --event {worst}\n");
    }
    print(&text)?;
    Ok(ExitStatus::Done)
}

/// What an event is flagged with, each with what it is.
fn flags(event: &Event) -> Vec<String> {
    let work = &event.work;
    let violations = event.violations.iter().map(|flag| (*flag).to_owned());
    let degenerate = work.degenerate.iter().map(|flaw| format!("unusable answer: {}", flaw.name()));
    let fallback = work.fallback.iter().map(|name| format!("fallback: {name}"));
    let warning = work.warning.iter().map(|flag| format!("warning: {flag}"));
    violations.chain(degenerate).chain(fallback).chain(warning).collect()
}

fn item(item: &crate::strategies::Item, text: &str) -> serde_json::Value {
    json!({"text": text, "kind": item.kind, "fate": item.fate.name(), "of": item.of, "score": item.score,
           "step": item.source.as_ref().map(|(step, _)| step)})
}

fn how(block: &Block) -> &'static str {
    match block.content {
        Content::Step(_) => "whole",
        Content::Excerpt { .. } => "excerpt",
        Content::Placeholder { .. } => "masked",
        Content::Generated { .. } => "generated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_the_terminal_does() {
        assert_eq!([None, Some(300), Some(120), Some(80), Some(20)].map(most), [160, 160, 90, 50, 20]);
    }

    #[test]
    fn a_run_that_does_not_say_where_its_data_are_asks_for_them() {
        let dir = tempfile::tempdir().unwrap();
        let manifest =
            r#"{ "inputs": {}, "plan": { "tokenizer": "o200k", "reference_tails": [3], "variants": [] } }"#;
        std::fs::write(dir.path().join("_manifest.json"), manifest).unwrap();
        let args = Args {
            timeline: None,
            intents_by: None,
            tiers: None,
            data: dir.path().to_owned(),
            of_run: None,
            trajectory: Some("3f".to_owned()),
            most: 20,
            experiment: None,
            variant: None,
            event: None,
            all: false,
            raw: false,
            width: Some(9),
            using: Default::default(),
        };
        let error = run(&args, Output::default()).unwrap_err().to_string();
        assert!(
            error.contains("does not say where its data are\nhint: name them with --data DIR"),
            "{error}"
        );
    }
}
