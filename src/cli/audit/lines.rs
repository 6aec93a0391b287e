//! Lines of what `trajpress audit` prints, each of one thing.

use indicatif::HumanCount;

use super::super::{count, inspect};
use super::{PATH, dollars, time};
use crate::audit::{Change, Compaction, Fall, Lost, Past, Words};
use crate::store::TrajectoryRow;
use crate::text::escape;

/// A session by its file; `is_one_of_many` is whether others of the same file are told, too.
pub(super) fn name(row: &TrajectoryRow, is_one_of_many: bool) -> String {
    let name = row.task_id.as_deref().unwrap_or(&row.trajectory);
    let name = if is_one_of_many { format!(", {}", escape::short(name)) } else { String::new() };
    // What one has to find again is not cut.
    inspect::line(&row.source, PATH) + &name
}

/// What stands in the place of what was replaced.
pub(super) fn summary(of: &Past) -> String {
    let summary = match of.summary_tokens {
        0 if of.kept_tokens == 0 => "no summary is logged: the context may have been cleared".to_owned(),
        0 => "no summary is logged".to_owned(),
        n => format!("a summary of {}", count(u64::from(n), "token")),
    };
    match of.kept_tokens {
        0 => summary,
        n => format!("{summary}, {} stay beside it", count(n, "token")),
    }
}

/// What the call for the summary cost.
pub(super) fn written(row: &TrajectoryRow, of: &Compaction) -> String {
    let Some(cost) = of.summary_cost.and_then(|cost| dollars(row, cost)) else { return String::new() };
    let cost = match (of.is_summary_cost_logged, cents(cost)) {
        (true, cost) => format!("{cost} by the log"),
        (false, cost) => {
            let most = if cost.starts_with('$') { "at most " } else { "" };
            format!("{most}{cost}, if one call read all of the prompt anew")
        }
    };
    match of.change.n_left {
        0 => format!("    writing the summary: {cost}\n"),
        _ => {
            format!("    writing the summary: {cost}; with that {}\n", paid(of.paid_with_summary, &of.change))
        }
    }
}

pub(super) fn fall(Fall { turn, time, before, after, is_other_model }: &Fall) -> String {
    let when = when(*time);
    let [before, after] = [*before, *after].map(HumanCount);
    let why = match is_other_model {
        true => "where another model answered, which counts in tokens of its own",
        false => "and no record says why",
    };
    format!("  the prompt fell before turn {turn}, {when}{before} -> {after} tokens, {why}\n")
}

/// How many more may be lost, of those whose later prompts are not known.
pub(super) fn more_perhaps(change: &Change) -> String {
    match change.perhaps.len() as u64 {
        0 => String::new(),
        n => format!(
            "      perhaps {} more: a later prompt holds what is not in the log (listed with --json)\n",
            HumanCount(n)
        ),
    }
}

/// How much of the prompt behind a compaction the log does not show.
pub(super) fn unknown(of: &Compaction) -> String {
    let text = match of.unlogged.filter(|_| of.is_prompt_known) {
        Some(n) => format!("    {} of this prompt are not in the log", count(n, "token")),
        None => "    how much of this prompt is not in the log is not known".to_owned(),
    };
    let is_open = !of.change.perhaps.is_empty() || !of.change.again.is_empty();
    let may_hold =
        ": files that were put back, for instance, which may hold what is told as lost or read again";
    text + if is_open { may_hold } else { "" } + "\n"
}

pub(super) fn words(words: &Words) -> String {
    let first = inspect::line(words.text.lines().next().unwrap_or_default(), 120);
    let pasted = match words.n_pasted {
        0 => String::new(),
        n => format!(" +{}", count(n as u64, "pasted line")),
    };
    format!("turn {}: \"{first}\"{pasted}", words.turn)
}

/// When, and from how many to how many tokens.
pub(super) fn prompt(change: &Change) -> String {
    let by = if change.is_billed { "as billed" } else { "as counted here" };
    let when = when(change.time);
    let [before, after] = [change.before, change.after].map(HumanCount);
    let not = if change.is_shorter { "" } else { ", which is not shorter" };
    format!("{when}prompt {before} -> {after} tokens {by}{not}")
}

/// What the product itself counted, where its record tells that; it may count less of a prompt than the provider.
pub(super) fn logged(of: [Option<u64>; 2]) -> String {
    let tokens = |n: u64| count(n, "token");
    let told = match of {
        [None, None] => return String::new(),
        [Some(from), Some(to)] => format!("{} -> {}", HumanCount(from), tokens(to)),
        [Some(from), None] => format!("{} before it", tokens(from)),
        [None, Some(to)] => format!("{} behind it", tokens(to)),
    };
    format!("    logged, by the product's own count: {told}\n")
}

pub(super) fn when(micros: Option<i64>) -> String {
    micros.map_or(String::new(), |micros| format!("{}, ", time(micros)))
}

/// After how many calls shorter prompts had paid for it.
fn paid(after: Option<u32>, change: &Change) -> String {
    let left = count(u64::from(change.n_left), "call");
    match after {
        Some(0) => "cheaper at once".to_owned(),
        _ if change.n_left == 0 => "no call came after it, so that it was not paid back".to_owned(),
        Some(n) if n <= change.n_left => format!("paid back after {n} of the {left} that followed"),
        _ => format!("not paid back by the {left} that followed"),
    }
}

/// Dollars; what rounds to none is something all the same.
pub(super) fn cents(dollars: f64) -> String {
    if dollars < 0.005 { "under $0.01".to_owned() } else { format!("${dollars:.2}") }
}

pub(super) fn money(row: &TrajectoryRow, change: &Change) -> String {
    let paid = paid(change.paid_after, change);
    match dollars(row, change.cost).filter(|cost| *cost > 0.0) {
        Some(cost) => format!("    lost cache: {}, {paid}\n", cents(cost)),
        None => format!("    lost cache: {paid}\n"),
    }
}

pub(super) fn lost(lost: &Lost) -> String {
    format!(
        "`{}` in \"{}\" (turn {}), last mentioned at {}, used at {}; {} had named it",
        inspect::line(&lost.atom, 60),
        inspect::line(lost.line.trim(), 100),
        lost.stood,
        lost.seen,
        lost.needed,
        count(lost.n_steps as u64, "step")
    )
}
