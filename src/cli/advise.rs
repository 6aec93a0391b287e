//! `trajpress advise`: which policy to set, by what a user's own sessions would have saved and lost.

mod answer;
mod frontier;
mod kept;
mod menu;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rayon::prelude::*;
use serde_json::json;

use super::once::read;
use super::page::{Block, lay_out, width};
use super::trial::tokens;
use super::{ExitStatus, Output, catalogue, count, print, tell, web};
use crate::advice::{Advisor, Session};
use crate::audit;
use crate::experiment::cell::plays;
use crate::experiment::{Dataset, Plan};
use crate::models::api;
use crate::settings::hint;
use crate::store::TrajectoryRow;
use crate::text::escape;
use answer::Answer;
use menu::Menu;

/// The window is halved where their product compacted at least this share of the sessions: so many move the 10th percentile that is
/// compared, and of fewer the others would be told of in a window that they do not have.
const COMPACTED: f64 = 0.1;
/// Of the random halves.
const SEED: u64 = 1;
const MOST_SPLITS: i64 = 10_000;

/// Say which policy to set, by what sessions would have saved and lost
///
/// Reads the logs and replays every session under the policy of its own product (or, where none is known, the newest turns
/// that fit), plain policies, and the presets that write no summary. It recommends the cheapest that is not worse than the
/// product's on the older half of the sessions, and holds on the newer half; the figures are of the newer half. "Keep yours" and
/// "too little was compressed to tell" are answers. No model is asked, nothing is kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress advise ~/.claude/projects
  trajpress advise logs/ --window 128k --margin 0.1
  trajpress advise logs/ --settings-for claude-api
  trajpress advise logs/ --splits 200
  trajpress advise logs/ --html advice.html
  trajpress advise logs/ --reference langchain-trim --json")]
pub struct Args {
    /// Files or folders of logs
    #[arg(required = true)]
    logs: Vec<PathBuf>,
    /// Tokens of the window that all policies run in [default: the product's own; half of it where a tenth of the logs were compacted]
    #[arg(long, value_name = "TOKENS", value_parser = tokens, allow_negative_numbers = true)]
    window: Option<u64>,
    /// How much more of what is needed later may be lost, as a share
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = margin, allow_negative_numbers = true)]
    margin: f64,
    /// Preset to compare with, or `newest-that-fit` [default: that of the product that wrote the logs]
    #[arg(long, value_name = "PRESET", conflicts_with = "settings_for")]
    reference: Option<String>,
    #[arg(long, value_name = "PRODUCT", value_parser = product, help = settings_help())]
    settings_for: Option<String>,
    /// Choose on a random half of the sessions so many times, and tell how often that held on the other half
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=MOST_SPLITS), allow_negative_numbers = true)]
    splits: u32,
    /// Write this as a page for a browser, too, without keys, passwords and personal data
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Leave out all text of the logs, and their names; an answer has none of these in any case
    #[arg(long)]
    share_safe: bool,
    /// Use N threads; 0 is all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

fn margin(text: &str) -> Result<f64, String> {
    let margin = text.parse().ok().filter(|margin| *margin > 0.0 && *margin < 1.0);
    margin.ok_or_else(|| "expected a share between 0 and 1, such as 0.05".to_owned())
}

fn settings_help() -> String {
    format!("Compare what a product can be set to, and print what to paste: {}", menu::products().join(", "))
}

fn product(text: &str) -> Result<String, String> {
    let known = menu::products();
    match known.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("no settings are known for it\n{}", hint(text, &known))),
    }
}

/// Runs the command.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let reference = args.reference.as_deref().map(menu::reference).transpose()?;
    let threads = super::threads(args.threads);
    let (_folder, data, _) = read(&args.logs, threads, output)?;
    let indices: Vec<usize> = (0..data.entries().len()).collect();
    let rows = data.trajectory_rows(&indices)?;
    let prompts: Vec<u64> = data.longest_prompts()?.iter().map(|longest| longest.tokens()).collect();
    let window = |index: usize| api::window(rows[index].model.as_deref(), prompts[index]).tokens;
    // What fits depends on the model: those of another window have an answer of their own, unless one window is asked for.
    let is_by_model = args.window.is_none() && args.settings_for.as_deref().is_none_or(menu::is_by_model);
    let mut groups: BTreeMap<(Option<&str>, Option<u64>), Vec<usize>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        let of_log = || menu::reference_of(&row.format, data.entries()[index].is_edited);
        let own = reference.unwrap_or_else(of_log).filter(|_| args.settings_for.is_none());
        let model = (own.is_none() && is_by_model).then(|| window(index));
        groups.entry((own, model)).or_default().push(index);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, indices)| std::cmp::Reverse(indices.len()));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let (mut page, mut all) = (Vec::new(), Vec::new());
    for ((reference, _), indices) in groups {
        let window = usual_window(indices.iter().map(|&index| window(index)));
        let answer = answered(args, &data, &rows, (reference, &indices, window), &pool, output)?;
        if !page.is_empty() {
            page.push(Block::Line(String::new()));
        }
        page.extend(answer.page());
        all.push(answer.json());
    }
    if let Some(path) = &args.html {
        web::write(path, "trajpress advise", page.clone())?;
    }
    match output.json {
        true => print(&escape::json(
            &json!({ "margin": args.margin, "share_safe": args.share_safe, "groups": all }),
        )?)?,
        false => print(&lay_out(&page, width()))?,
    }
    Ok(ExitStatus::Done)
}

/// The answer for the sessions of one product.
fn answered(
    args: &Args,
    data: &Dataset,
    rows: &[TrajectoryRow],
    (reference, indices, model_window): (Option<&str>, &[usize], u64),
    pool: &rayon::ThreadPool,
    output: Output,
) -> anyhow::Result<Answer> {
    let menu = match &args.settings_for {
        Some(product) => Menu::settings(product, model_window)?,
        None => Menu::of(reference, model_window)?,
    };
    let n_compacted = n_compacted(data, rows, indices, menu.own_window)?;
    let is_many = n_compacted > 0 && n_compacted as f64 >= COMPACTED * indices.len() as f64;
    let is_half = args.window.is_none() && is_many;
    let half = if is_half { menu.own_window / 2 } else { menu.own_window };
    let menu = menu.in_window(args.window.unwrap_or(half));
    let plan = Plan::parse("advise.toml", &menu.experiment()?, &catalogue())?;
    let (place, candidates) = menu.places(&plan)?;
    let sessions = replayed(data, rows, indices, &plan, pool, output)?;
    let advisor = Advisor::new(&sessions, place, &candidates, args.margin);
    let advice = advisor.advice();
    Ok(Answer {
        menu,
        advice,
        margin: args.margin,
        is_half,
        n_sessions: sessions.len(),
        n_compacted,
        validation: (args.splits > 0).then(|| advisor.validated(args.splits, SEED)),
        n_priced: indices.iter().filter(|&&index| is_priced(&rows[index])).count(),
    })
}

/// The sessions under all policies of a plan.
pub(super) fn replayed(
    data: &Dataset,
    rows: &[TrajectoryRow],
    indices: &[usize],
    plan: &Plan,
    pool: &rayon::ThreadPool,
    output: Output,
) -> anyhow::Result<Vec<Session>> {
    let (mut clusters, mut repositories) = (BTreeMap::new(), BTreeMap::new());
    let number = |&index: &usize| {
        let row = &rows[index];
        let repository = row.repository.as_deref().unwrap_or_default();
        let task = row.parent.as_ref().or(row.task_id.as_ref()).unwrap_or(&row.trajectory);
        let n_clusters = clusters.len() as u32;
        let cluster = *clusters.entry((repository, task)).or_insert(n_clusters);
        let n_repositories = repositories.len() as u32;
        (index, cluster, *repositories.entry(repository).or_insert(n_repositories))
    };
    let numbered: Vec<(usize, u32, u32)> = indices.iter().map(number).collect();
    let progress = Progress::new(numbered.len(), output.quiet);
    pool.install(|| {
        let session = |&(index, cluster, repository): &(usize, u32, u32)| {
            let plays = plays(data, plan, index)?;
            progress.done();
            Ok(Session { cluster, repository, plays })
        };
        numbered.par_iter().map(session).collect()
    })
}

/// How many of these sessions the product itself compacted with more than half of its window in the prompt: a segment ends there since
/// that was full, so that in a window of that size nothing happens inside of one, and in one of half the size something does.
fn n_compacted(
    data: &Dataset,
    rows: &[TrajectoryRow],
    indices: &[usize],
    window: u64,
) -> anyhow::Result<usize> {
    let mut n = 0;
    for &index in indices.iter().filter(|index| rows[**index].n_segments > 1) {
        let tokens: Vec<u32> =
            data.features(index)?.map(|row| Ok(row?.tokens)).collect::<anyhow::Result<_>>()?;
        let at = audit::compacted_at(&data.trajectory(index)?, &tokens);
        n += usize::from(at.is_some_and(|at| 2 * at > window));
    }
    Ok(n)
}

fn is_priced(row: &TrajectoryRow) -> bool {
    row.model.as_deref().and_then(crate::scores::money::Prices::known).is_some()
}

/// The window that most of the sessions have; of equally many the smaller one.
fn usual_window(windows: impl Iterator<Item = u64>) -> u64 {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    windows.for_each(|window| *counts.entry(window).or_default() += 1);
    let usual = counts.iter().max_by_key(|(window, n)| (**n, std::cmp::Reverse(**window)));
    usual.map_or(200_000, |(window, _)| *window)
}

/// Says how far it is, now and then.
struct Progress {
    quiet: bool,
    n: usize,
    done: AtomicUsize,
    start: Instant,
    last: std::sync::Mutex<Instant>,
}

impl Progress {
    fn new(n: usize, quiet: bool) -> Self {
        let now = Instant::now();
        Progress { quiet, n, done: AtomicUsize::new(0), start: now, last: now.into() }
    }

    fn done(&self) {
        const PAUSE: Duration = Duration::from_secs(5);
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let Ok(mut last) = self.last.try_lock() else { return };
        if !self.quiet && last.elapsed() > PAUSE {
            *last = Instant::now();
            let rate = done as f64 / self.start.elapsed().as_secs_f64();
            let left = (self.n - done) as f64 / rate;
            tell(&format!(
                "replayed {done} of {}, {rate:.0} a second, about {left:.0} s left",
                count(self.n as u64, "session")
            ));
        }
    }
}
