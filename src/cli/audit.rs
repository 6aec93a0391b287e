//! `trajpress audit`: what an agent's own product did to the past of sessions.

use std::collections::HashMap;
use std::path::PathBuf;

use indicatif::HumanCount;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::once::read;
use super::page::{Block, lay_out, width};
use super::{ExitStatus, Output, catalogue, count, inspect, print, web};
use crate::audit::{Audit, Change, Compaction, Fall, Lost, NameAlone, Perhaps, Words, audit};
use crate::experiment::Plan;
use crate::scores::money::Prices;
use crate::store::TrajectoryRow;
use crate::text::escape;

const EXPERIMENT: &str = include_str!("../data/audit.toml");
/// Characters of the longest path that is shown.
const PATH: usize = 1000;
/// Lines of each kind that are shown of a compaction; the rest is a number.
const SHOWN: usize = 5;

/// Tell what an agent's own compactions did to its sessions
///
/// Reads the logs and says of each compaction that they record: when it was, how much shorter it made the prompt, what that
/// cost and when it had paid, what was lost and used again later, what the summary names that stood nowhere before, what the user
/// had typed or pasted and stands nowhere word for word any more, and which files were read again although unchanged. Of single
/// results that were taken out or shortened it says when, how much, what was lost and what was read again; and it says where the
/// prompt fell by the provider's count and no record says why. No model is asked, nothing is kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress audit ~/.claude/projects/mine/session.jsonl
  trajpress audit ~/.codex/sessions --json
  trajpress audit logs/ --html audit.html")]
pub struct Args {
    /// Files or folders of logs
    #[arg(required = true)]
    logs: Vec<PathBuf>,
    /// Write this as a page for a browser, too, without keys, passwords and personal data
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Use N threads; 0 is all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

/// Runs the command.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let threads = super::threads(args.threads);
    let (_folder, data) = read(&args.logs, threads, output)?;
    let mut plan = Plan::parse("audit.toml", EXPERIMENT, &catalogue())?;
    plan.prices = Prices { own: true, ..Prices::default() };
    plan.add_as_sent(&catalogue());
    let indices: Vec<usize> = (0..data.entries().len()).collect();
    let rows = data.trajectory_rows(&indices)?;
    let acting = |&index: &usize| data.entries()[index].is_edited || rows[index].n_segments > 1;
    let fell = data.fell()?;
    let touched = indices.iter().filter(|index| acting(index) || fell.contains(&data.entries()[**index].id));
    let touched: Vec<usize> = touched.copied().collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let audits: Vec<(usize, Audit)> = pool.install(|| {
        let one = |&index: &usize| Ok((index, audit(&data, &plan, index)?));
        touched.par_iter().map(one).collect::<anyhow::Result<_>>()
    })?;
    let has_any = |audit: &Audit| is_acted(audit) || !audit.falls.is_empty() || !audit.clears.is_empty();
    let told = audits.iter().filter(|(_, audit)| has_any(audit));
    let told: Vec<(&TrajectoryRow, &Audit)> = told.map(|(i, audit)| (&rows[*i], audit)).collect();
    if let Some(path) = &args.html {
        web::write(path, "trajpress audit", vec![Block::Text(as_text(&told, rows.len()))])?;
    }
    match output.json {
        true => print(&escape::json(&as_json(&told, rows.len()))?)?,
        false => print(&lay_out(&[Block::Text(as_text(&told, rows.len()))], width()))?,
    }
    Ok(ExitStatus::Done)
}

/// Whether the log records that something was done.
fn is_acted(audit: &Audit) -> bool {
    !audit.compactions.is_empty() || !audit.edits.is_empty() || audit.n_cleared + audit.n_unsent > 0
}

/// Price x tokens in dollars; none where the prices of the session's model are not known.
fn dollars(row: &TrajectoryRow, cost: f64) -> Option<f64> {
    row.model.as_deref().and_then(Prices::known).map(|_| cost / 1e6)
}

/// When it was, UTC.
fn time(micros: i64) -> String {
    let of = arrow::temporal_conversions::timestamp_us_to_datetime(micros);
    of.map_or_else(String::new, |time| time.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}

fn lost_as_json(lost: &Lost) -> Value {
    let Lost { atom, line, stood, seen, needed } = lost;
    json!({ "what": atom, "line": line, "stood_at": stood, "last_seen_at": seen, "used_at": needed })
}

fn as_json(told: &[(&TrajectoryRow, &Audit)], n_sessions: usize) -> Value {
    let change = |row: &TrajectoryRow, change: &Change| {
        let again = change.again.iter();
        let lost = change.lost.iter().map(lost_as_json);
        let perhaps = change.perhaps.iter().map(|Perhaps { lost, is_of_file }| {
            let mut value = lost_as_json(lost);
            value["stood_in_a_file"] = json!(is_of_file);
            value
        });
        json!({
            "turn": change.turn, "time": change.time.map(time), "prompt_before": change.before, "prompt_after": change.after,
            "billed": change.is_billed, "shorter": change.is_shorter, "cost_of_lost_cache": dollars(row, change.cost),
            "paid_after_calls": change.paid_after.filter(|n| *n <= change.n_left), "calls_left": change.n_left,
            "steps": change.n_steps, "lost": lost.collect::<Vec<_>>(), "lost_as_far_as_logged": perhaps.collect::<Vec<_>>(),
            "read_again": again.map(|a| json!({"path": a.path, "before": a.before, "turn": a.turn, "tokens": a.tokens})).collect::<Vec<_>>(),
        })
    };
    let compaction = |row: &TrajectoryRow, of: &Compaction| {
        let mut value = change(row, &of.change);
        let words = of
            .words
            .iter()
            .map(|words| json!({"turn": words.turn, "text": words.text, "pasted_lines": words.n_pasted}));
        value["summary_tokens"] = json!(of.summary_tokens);
        value["kept_tokens"] = json!(of.kept_tokens);
        let cost = of.summary_cost.and_then(|cost| dollars(row, cost));
        value["cost_of_summary"] = json!(cost.filter(|_| of.is_summary_cost_logged));
        value["cost_of_summary_at_most"] = json!(cost);
        let paid = of.paid_with_summary.filter(|n| *n <= of.change.n_left);
        value["paid_after_calls_with_summary"] = json!(paid);
        let names_alone = of.names_alone.iter().map(|NameAlone { lost, named }| {
            let mut value = lost_as_json(lost);
            value["named_at"] = json!(named);
            value
        });
        value["used_with_the_name_alone"] = names_alone.collect();
        value["prompt_before_in_the_log"] = json!(of.shown);
        value["prompt_after_not_in_the_log"] = json!(of.unlogged);
        value["is_prompt_after_in_the_log"] = json!(is_first_known(of));
        value["named"] = json!(of.n_named);
        value["named_nowhere_before"] = json!(of.invented);
        value["user_words_gone"] = words.collect();
        value["read_again_as_far_as_logged"] =
            if is_first_known(of) { json!([]) } else { value["read_again"].clone() };
        let is_empty = |value: &Value| value.as_array().is_none_or(Vec::is_empty);
        for (key, at_most) in UNTOLD {
            let is_told = match key {
                "named_nowhere_before" => of.is_shown,
                _ => of.is_shown || !is_empty(&value[key]),
            };
            let is_known = match at_most {
                None => true,
                // Where at most nothing is, nothing is.
                Some(at_most) => is_first_known(of) || is_empty(&value[at_most]),
            };
            if !(is_told && is_known) {
                value[key] = Value::Null;
            }
        }
        value
    };
    let sessions = told.iter().map(|(row, audit)| {
        let falls = audit.falls.iter().map(|fall| {
            json!({"turn": fall.turn, "time": fall.time.map(time), "prompt_before": fall.before, "prompt_after": fall.after})
        });
        let clears = audit.clears.iter().map(|of| {
            json!({"turn": of.turn, "time": of.time.map(time), "prompt_before": of.before, "prompt_after": of.after, "billed": of.is_billed})
        });
        json!({
            "session": row.trajectory, "source": row.source, "format": row.format, "model": row.model,
            "compactions": audit.compactions.iter().map(|of| compaction(row, of)).collect::<Vec<_>>(),
            "cleared_by_the_user": clears.collect::<Vec<_>>(),
            "edits": audit.edits.iter().map(|of| change(row, of)).collect::<Vec<_>>(),
            "fell_without_a_record": falls.collect::<Vec<_>>(), "begun_anew": audit.n_cleared, "compacted_at_the_end": audit.n_unsent,
        })
    });
    json!({ "sessions_read": n_sessions, "sessions": sessions.collect::<Vec<_>>() })
}

/// What cannot be told where the log does not show what was replaced, but for what it does show; and for what the first prompt must be in
/// the log, too, what is told in its place.
const UNTOLD: [(&str, Option<&str>); 5] = [
    ("lost", Some("lost_as_far_as_logged")),
    ("read_again", Some("read_again_as_far_as_logged")),
    ("used_with_the_name_alone", Some("used_with_the_name_alone")),
    ("named_nowhere_before", None),
    ("user_words_gone", None),
];

/// Whether the log shows all of the first prompt behind a compaction.
fn is_first_known(of: &Compaction) -> bool {
    of.unlogged.is_none() && of.is_prompt_known
}

fn as_text(told: &[(&TrajectoryRow, &Audit)], n_sessions: usize) -> String {
    let n_compactions: usize = told.iter().map(|(_, audit)| audit.compactions.len()).sum();
    let n_edits: usize = told.iter().map(|(_, audit)| audit.edits.len()).sum();
    let sessions = count(n_sessions as u64, "session");
    let n_acted = told.iter().filter(|(_, audit)| is_acted(audit)).count();
    let mut text = match n_acted {
        0 => format!("{sessions}: none of them records that its past was compacted or edited.\n"),
        n => format!(
            "{sessions}, {n} compacted or edited: {}, {}.\n",
            count(n_compactions as u64, "compaction"),
            count(n_edits as u64, "edit")
        ),
    };
    let n_clears: usize = told.iter().map(|(_, audit)| audit.clears.len()).sum();
    if n_clears > 0 {
        text += &format!("Users cleared the context {}.\n", count(n_clears as u64, "time"));
    }
    let has_fallen = |audit: &Audit| !is_acted(audit) && !audit.falls.is_empty();
    let n_fell = told.iter().filter(|(_, audit)| has_fallen(audit)).count() as u64;
    if n_fell > 0 {
        text += &format!("In {} without such a record the prompt fell.\n", count(n_fell, "session"));
    }
    if told.is_empty() {
        return text;
    }
    let mut sources: HashMap<&str, usize> = HashMap::new();
    told.iter().for_each(|(row, _)| *sources.entry(&row.source).or_default() += 1);
    for (row, audit) in told {
        text += &session(row, audit, sources[row.source.as_str()] > 1);
    }
    text + "\nA turn is one call of the model with its results, or words of the user that a compaction follows before any call; turn 0 \
        is all before the first call. Prompt: the last one before and the first one after; of edits that \
        are counted here, that prompt without the edit and with it. Lost cache: what that prompt cost more than \
        the longer one would have: the one before, read from the cache, with what was logged since, written to it; later calls pay it back by being shorter. Lost: last mentioned before, its \
        name (of a path the last part) in no prompt since as far as the log shows them, and yet used by the model; in no file: in none that was read or edited before. Not there before: what the summary names and no \
        step before it does; it may be right all the same. Gone: what the user typed or pasted once, in no prompt word for word.\n"
}

/// One session; `is_one_of_many` is whether others of the same file are told, too.
fn session(row: &TrajectoryRow, audit: &Audit, is_one_of_many: bool) -> String {
    let name = row.task_id.as_deref().unwrap_or(&row.trajectory);
    let name = if is_one_of_many { format!(", {}", escape::short(name)) } else { String::new() };
    let mut text = format!(
        "\n{}{name} ({}, {})\n",
        // What one has to find again is not cut.
        inspect::line(&row.source, PATH),
        row.format,
        row.model.as_deref().map_or("model unknown".to_owned(), escape::short)
    );
    for (n, what) in [
        (audit.n_cleared, "began anew without a summary"),
        (audit.n_unsent, "compacted, and nothing was sent any more"),
    ] {
        if n > 0 {
            text += &format!("  {what}: {}\n", count(n as u64, "time"));
        }
    }
    // Those that took most of what was used later come first; most take nothing.
    let mut edits: Vec<&Change> = audit.edits.iter().collect();
    edits.sort_by_key(|of| std::cmp::Reverse(of.lost.len() + of.perhaps.len() + of.again.len()));
    let (first, rest) = edits.split_at(edits.len().min(SHOWN));
    let mut parts: Vec<(u32, String)> = audit.falls.iter().map(|of| (of.turn, fall(of))).collect();
    parts.extend(audit.compactions.iter().map(|of| (of.change.turn, compaction(row, of))));
    parts.extend(
        audit
            .clears
            .iter()
            .map(|of| (of.turn, format!("  cleared by the user before turn {}, {}\n", of.turn, prompt(of)))),
    );
    parts.extend(first.iter().map(|change| (change.turn, edit(row, change))));
    parts.sort_by_key(|(turn, _)| *turn);
    text.extend(parts.into_iter().map(|(_, part)| part));
    if !rest.is_empty() {
        let n = |of: fn(&Change) -> usize| rest.iter().map(|change| of(change)).sum::<usize>() as u64;
        text += &format!(
            "  {}: {} lost and used again, {} read again (all with --json)\n",
            count(rest.len() as u64, "more edit"),
            count(n(|change| change.lost.len()), "thing"),
            count(n(|change| change.again.len()), "file")
        );
    }
    text
}

fn fall(Fall { turn, time, before, after }: &Fall) -> String {
    let when = when(*time);
    let [before, after] = [*before, *after].map(HumanCount);
    format!(
        "  the prompt fell before turn {turn}, {when}{before} -> {after} tokens, and no record says why\n"
    )
}

/// What was done to single results.
fn edit(row: &TrajectoryRow, change: &Change) -> String {
    let steps = count(change.n_steps as u64, "step");
    let head =
        format!("  edit before turn {}, {}; {steps} taken out or replaced\n", change.turn, prompt(change));
    head + &money(row, change)
        + &listed("lost and used again", &change.lost, lost)
        + &more_perhaps(change)
        + &again(change, "")
}

/// How many more may be lost, of those whose later prompts are not known.
fn more_perhaps(change: &Change) -> String {
    match change.perhaps.len() as u64 {
        0 => String::new(),
        n => format!(
            "      perhaps {} more: a later prompt holds what is not in the log (listed with --json)\n",
            HumanCount(n)
        ),
    }
}

/// What is lost as far as the log shows, those first that no file had held.
fn perhaps(change: &Change) -> String {
    let (of_files, others): (Vec<_>, Vec<_>) = change.perhaps.iter().partition(|of| of.is_of_file);
    let no_file = others.len();
    let all: Vec<&Lost> = others.into_iter().chain(of_files).map(|of| &of.lost).collect();
    let counted = format!("{}, {no_file} of them in no file", all.len());
    listed_as("lost and used again, as far as the log shows", &counted, &all, |one| lost(one))
}

/// What one compaction did.
fn compaction(row: &TrajectoryRow, of: &Compaction) -> String {
    let mut text = format!(
        "  compaction before turn {}, {}; {}{}\n",
        of.change.turn,
        prompt(&of.change),
        match of.summary_tokens {
            0 if of.kept_tokens == 0 => "no summary is logged: the context may have been cleared".to_owned(),
            0 => "no summary is logged".to_owned(),
            n => format!("a summary of {}", count(u64::from(n), "token")),
        },
        match of.kept_tokens {
            0 => String::new(),
            n => format!(", {} stay beside it", count(n, "token")),
        }
    );
    text += &money(row, &of.change);
    if let Some(cost) = of.summary_cost.and_then(|cost| dollars(row, cost)) {
        let cost = match (of.is_summary_cost_logged, cents(cost)) {
            (true, cost) => format!("{cost} by the log"),
            (false, cost) => {
                let most = if cost.starts_with('$') { "at most " } else { "" };
                format!("{most}{cost}, if one call read all of the prompt anew")
            }
        };
        text += &format!(
            "    writing the summary: {cost}; with that {}\n",
            paid(of.paid_with_summary, &of.change)
        );
    }
    if !of.is_shown {
        text += "    the log does not show what was replaced: what it named, and what else was lost or read again, cannot be told\n";
    }
    // Of what is not shown an empty list says nothing.
    let is_told = |n: usize| of.is_shown || n > 0;
    let is_first_known = is_first_known(of);
    if !is_first_known {
        text += &unknown(of);
    }
    match is_first_known || of.change.perhaps.is_empty() {
        true if is_told(of.change.lost.len()) => {
            text += &(listed("lost and used again", &of.change.lost, lost) + &more_perhaps(&of.change));
        }
        true => {}
        false => text += &perhaps(&of.change),
    }
    if !of.names_alone.is_empty() && is_first_known {
        let n = count(of.names_alone.len() as u64, "more thing");
        text += &format!("      {n} stood there by name alone (listed with --json)\n");
    }
    if of.is_shown {
        let what = format!("named and not there before (of {})", of.n_named);
        text += &listed(&what, &of.invented, |atom| format!("`{}`", inspect::line(atom, 80)));
    }
    if is_told(of.words.len()) {
        text += &listed("words of the user that are gone", &of.words, words);
    }
    let n_again = of.change.again.len();
    if is_told(n_again) {
        text +=
            &again(&of.change, if is_first_known || n_again == 0 { "" } else { ", as far as the log shows" });
    }
    text
}

/// How much of the prompt behind a compaction the log does not show.
fn unknown(of: &Compaction) -> String {
    let text = match of.unlogged.filter(|_| of.is_prompt_known) {
        Some(n) => format!("    {} of this prompt are not in the log", count(n, "token")),
        None => "    how much of this prompt is not in the log is not known".to_owned(),
    };
    let is_open = !of.change.perhaps.is_empty() || !of.change.again.is_empty();
    let may_hold =
        ": files that were put back, for instance, which may hold what is told as lost or read again";
    text + if is_open { may_hold } else { "" } + "\n"
}

fn words(words: &Words) -> String {
    let first = inspect::line(words.text.lines().next().unwrap_or_default(), 120);
    let pasted = match words.n_pasted {
        0 => String::new(),
        n => format!(" +{}", count(n as u64, "pasted line")),
    };
    format!("turn {}: \"{first}\"{pasted}", words.turn)
}

/// When, and from how many to how many tokens.
fn prompt(change: &Change) -> String {
    let by = if change.is_billed { "as billed" } else { "as counted here" };
    let when = when(change.time);
    let [before, after] = [change.before, change.after].map(HumanCount);
    let not = if change.is_shorter { "" } else { ", which is not shorter" };
    format!("{when}prompt {before} -> {after} tokens {by}{not}")
}

fn when(micros: Option<i64>) -> String {
    micros.map_or(String::new(), |micros| format!("{}, ", time(micros)))
}

/// After how many calls shorter prompts had paid for it.
fn paid(after: Option<u32>, change: &Change) -> String {
    let left = count(u64::from(change.n_left), "call");
    match after {
        Some(0) => "cheaper at once".to_owned(),
        _ if change.n_left == 0 => "no call followed".to_owned(),
        Some(n) if n <= change.n_left => format!("paid back after {n} of the {left} that followed"),
        _ => format!("not paid back by the {left} that followed"),
    }
}

/// Dollars; what rounds to none is not nothing.
fn cents(dollars: f64) -> String {
    if dollars < 0.005 { "under $0.01".to_owned() } else { format!("${dollars:.2}") }
}

fn money(row: &TrajectoryRow, change: &Change) -> String {
    let paid = paid(change.paid_after, change);
    match dollars(row, change.cost).filter(|cost| *cost > 0.0) {
        Some(cost) => format!("    lost cache: {}, {paid}\n", cents(cost)),
        None => format!("    lost cache: {paid}\n"),
    }
}

fn lost(lost: &Lost) -> String {
    format!(
        "`{}` in \"{}\" (turn {}), last mentioned at {}, used at {}",
        inspect::line(&lost.atom, 60),
        inspect::line(lost.line.trim(), 100),
        lost.stood,
        lost.seen,
        lost.needed
    )
}

fn again(change: &Change, as_far: &str) -> String {
    listed(&format!("read again, unchanged{as_far}"), &change.again, |again| {
        let tokens = count(again.tokens, "token");
        format!(
            "{} at turn {} as at turn {}, {tokens}",
            inspect::line(&again.path, 100),
            again.turn,
            again.before
        )
    })
}

/// A heading with a number, and the first few lines below it.
fn listed<T>(what: &str, all: &[T], line: impl Fn(&T) -> String) -> String {
    listed_as(what, &all.len().to_string(), all, line)
}

fn listed_as<T>(what: &str, counted: &str, all: &[T], line: impl Fn(&T) -> String) -> String {
    let mut text = format!("    {what}: {counted}\n");
    for one in all.iter().take(SHOWN) {
        text += &format!("      {}\n", line(one));
    }
    if all.len() > SHOWN {
        text += &format!("      and {} more (all with --json)\n", all.len() - SHOWN);
    }
    text
}
