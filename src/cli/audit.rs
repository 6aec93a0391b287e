//! `trajpress audit`: what an agent's own product did to the past of sessions.

mod json;
mod lines;
mod untold;

use std::collections::HashMap;
use std::path::PathBuf;

use rayon::prelude::*;

use super::once::read;
use super::page::{Block, lay_out, width};
use super::{ExitStatus, Output, catalogue, count, inspect, print, web};
use crate::audit::{Audit, Change, Compaction, CountedBy, Lost, Past, Unsent, audit};
use crate::experiment::Plan;
use crate::scores::money::Prices;
use crate::store::TrajectoryRow;
use crate::text::escape;
use crate::text::redact::redact;
use json::{as_json, texts, without_text};
use lines::{
    cents, fall, logged, lost, money, more_perhaps, name, prompt, summary, unknown, when, words, written,
};
use untold::Untold;

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
    /// Leave keys, passwords and personal data as they are in what is printed; a page never has them
    #[arg(long)]
    raw: bool,
    /// Leave out all text of the logs, and their names: what is lost, gone and read again has turns and numbers alone
    #[arg(long, conflicts_with = "raw")]
    share_safe: bool,
    /// Use N threads; 0 is all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

/// Runs the command.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let threads = super::threads(args.threads);
    let (_folder, data, report) = read(&args.logs, threads, output)?;
    let untold = Untold::of(&report);
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
    // Before anything is cut: half of a key is told by no rule.
    let mut safe = audits.clone();
    redact(&mut safe.iter_mut().flat_map(|(_, audit)| audit.texts()).collect::<Vec<_>>());
    let page = Page { quotes: if args.share_safe { 0 } else { SHOWN } };
    if let Some(path) = &args.html {
        let all = page.all(&to_tell(&safe, &rows), rows.len(), &untold);
        web::write(path, "trajpress audit", vec![Block::Text(all.concat())])?;
    }
    let told = to_tell(if args.raw { &audits } else { &safe }, &rows);
    if output.json {
        let mut value = as_json(&told, rows.len());
        value["went_untold"] = untold.json();
        if args.share_safe {
            without_text(&mut value);
        } else if !args.raw {
            redact(&mut texts(&mut value));
        }
        print(&escape::json(&value)?)?;
        return Ok(ExitStatus::Done);
    }
    let mut parts = page.all(&told, rows.len(), &untold);
    if !args.raw {
        // The name of a file stands by itself: one has to find that again.
        redact(&mut parts.iter_mut().filter(|part| part.starts_with(' ')).collect::<Vec<_>>());
    }
    print(&lay_out(&[Block::Text(parts.concat())], width()))?;
    Ok(ExitStatus::Done)
}

/// The sessions of which there is anything to tell.
fn to_tell<'a>(
    audits: &'a [(usize, Audit)],
    rows: &'a [TrajectoryRow],
) -> Vec<(&'a TrajectoryRow, &'a Audit)> {
    let has_any = |audit: &Audit| is_acted(audit) || !audit.falls.is_empty() || !audit.clears.is_empty();
    audits.iter().filter(|(_, audit)| has_any(audit)).map(|(i, audit)| (&rows[*i], audit)).collect()
}

/// Whether the log records that something was done.
fn is_acted(audit: &Audit) -> bool {
    !audit.compactions.is_empty()
        || !audit.edits.is_empty()
        || !audit.unsent.is_empty()
        || audit.n_cleared > 0
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

/// Whether the log shows all of the first prompt behind a compaction.
fn is_first_known(of: &Compaction) -> bool {
    of.unlogged.is_none() && of.is_prompt_known
}

/// The answer for people.
struct Page {
    /// So many lines of each kind quote the log; the rest is a number.
    quotes: usize,
}

impl Page {
    /// In parts: what is said of a session is set in, the names of sessions are not.
    fn all(&self, told: &[(&TrajectoryRow, &Audit)], n_sessions: usize, untold: &Untold) -> Vec<String> {
        let mut parts = vec![headline(told, n_sessions) + &untold.line()];
        if told.is_empty() {
            return parts;
        }
        let mut sources: HashMap<&str, usize> = HashMap::new();
        told.iter().for_each(|(row, _)| *sources.entry(&row.source).or_default() += 1);
        for (number, (row, audit)) in (1..).zip(told) {
            let name = match self.quotes {
                0 => format!("session {number}"),
                _ => name(row, sources[row.source.as_str()] > 1),
            };
            let model = row.model.as_deref().map_or("model unknown".to_owned(), escape::short);
            parts.push(format!("\n{name} ({}, {model})\n", row.format));
            parts.push(self.session(row, audit));
        }
        parts.push(MEANS.to_owned());
        parts
    }

    fn session(&self, row: &TrajectoryRow, audit: &Audit) -> String {
        let mut text = String::new();
        if audit.n_cleared > 0 {
            text += &format!("  began anew without a summary: {}\n", count(audit.n_cleared as u64, "time"));
        }
        // Those that took most of what was used later come first; most take nothing.
        let mut edits: Vec<&Change> = audit.edits.iter().collect();
        edits.sort_by_key(|of| std::cmp::Reverse(of.lost.len() + of.perhaps.len() + of.again.len()));
        let (first, rest) = edits.split_at(edits.len().min(SHOWN));
        let mut parts: Vec<(u32, String)> = audit.falls.iter().map(|of| (of.turn, fall(of))).collect();
        parts.extend(audit.compactions.iter().map(|of| (of.change.turn, self.compaction(row, of))));
        parts.extend(audit.unsent.iter().map(|of| (of.turn, self.unsent(row, of))));
        let clear = |of: &Change| format!("  cleared by the user before turn {}, {}\n", of.turn, prompt(of));
        parts.extend(audit.clears.iter().map(|of| (of.turn, clear(of))));
        parts.extend(first.iter().map(|change| (change.turn, self.edit(row, change))));
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

    /// What was done to single results.
    fn edit(&self, row: &TrajectoryRow, change: &Change) -> String {
        let steps = count(change.n_steps as u64, "step");
        let head = format!(
            "  edit before turn {}, {}; {steps} taken out or replaced\n",
            change.turn,
            prompt(change)
        );
        head + &logged(change.logged)
            + &money(row, change)
            + &self.lost(&change.lost)
            + &more_perhaps(change)
            + &self.again(row, change, "")
    }

    /// What is lost, the rarest first.
    fn lost(&self, all: &[Lost]) -> String {
        let mut all: Vec<&Lost> = all.iter().collect();
        all.sort_by_key(|lost| lost.n_steps);
        self.listed("lost and used again", &all, |one| lost(one))
    }

    /// What is lost as far as the log shows, those first that no file had held.
    fn perhaps(&self, change: &Change) -> String {
        let mut all: Vec<_> = change.perhaps.iter().collect();
        all.sort_by_key(|of| (of.is_of_file, of.lost.n_steps));
        let no_file = all.iter().filter(|of| !of.is_of_file).count();
        let all: Vec<&Lost> = all.into_iter().map(|of| &of.lost).collect();
        let counted = format!("{}, {no_file} of them in no file", all.len());
        self.listed_as("lost and used again, as far as the log shows", &counted, &all, |one| lost(one))
    }

    /// What one compaction did.
    fn compaction(&self, row: &TrajectoryRow, of: &Compaction) -> String {
        let (change, past) = (&of.change, &of.past);
        let mut text =
            format!("  compaction before turn {}, {}; {}\n", change.turn, prompt(change), summary(past));
        text += &logged(change.logged);
        if let Some((turn, tokens)) = change.counted {
            text += &format!(
                "    by the provider's count the prompt of turn {turn} had {}; that of this one is not logged\n",
                count(tokens, "token")
            );
        }
        text += &money(row, change);
        text += &written(row, of);
        if !past.is_shown {
            text += "    the log does not show what was replaced: what it named, and what else was lost or read again, cannot be told\n";
        }
        // Of what is not shown an empty list says nothing.
        let is_told = |n: usize| past.is_shown || n > 0;
        let is_first_known = is_first_known(of);
        if !is_first_known {
            text += &unknown(of);
        }
        match is_first_known || change.perhaps.is_empty() {
            true if is_told(change.lost.len()) => {
                text += &(self.lost(&change.lost) + &more_perhaps(change));
            }
            true => {}
            false => text += &self.perhaps(change),
        }
        if !of.names_alone.is_empty() && is_first_known {
            let n = count(of.names_alone.len() as u64, "more thing");
            text += &format!("      {n} stood there by name alone (listed with --json)\n");
        }
        text += &self.past(past);
        let n_again = change.again.len();
        if is_told(n_again) {
            let as_far = if is_first_known || n_again == 0 { "" } else { ", as far as the log shows" };
            text += &self.again(row, change, as_far);
        }
        text
    }

    /// What a compaction put there and took of the user's words.
    fn past(&self, of: &Past) -> String {
        let mut text = String::new();
        if of.is_shown {
            let what = format!("named and not there before (of {})", of.n_named);
            text += &self.listed(&what, &of.invented, |atom| format!("`{}`", inspect::line(atom, 80)));
        }
        if of.is_shown || !of.words.is_empty() {
            text += &self.listed("words of the user that are gone", &of.words, words);
        }
        text
    }

    /// A compaction that no call came behind.
    fn unsent(&self, row: &TrajectoryRow, of: &Unsent) -> String {
        let before = match of.before {
            Some(n) => {
                let by = match of.counted_by {
                    CountedBy::Provider => "as billed",
                    CountedBy::Record => "as its record says",
                    CountedBy::Us => "as counted here",
                };
                format!("of a prompt of {} {by}", count(n, "token"))
            }
            None => "no call came before it".to_owned(),
        };
        let then =
            if of.is_followed { "the next one came before any call" } else { "no call came behind it" };
        let head = format!(
            "  compaction before turn {}, {}{before}; {}; {then}\n",
            of.turn,
            when(of.time),
            summary(&of.past)
        );
        let cost = of.summary_cost.and_then(|cost| dollars(row, cost));
        let cost = cost.map_or_else(String::new, |cost| {
            format!("    writing the summary: {} by the log\n", cents(cost))
        });
        let hidden = match of.past.is_shown {
            true => "",
            false => "    the log does not show what was replaced: what the summary made up cannot be told\n",
        };
        head + &logged(of.logged) + &cost + hidden + &self.past(&of.past)
    }

    fn again(&self, row: &TrajectoryRow, change: &Change, as_far: &str) -> String {
        let cost: f64 = change.again.iter().map(|again| again.cost).sum();
        let all = dollars(row, cost).filter(|_| !change.again.is_empty());
        let counted = change.again.len().to_string()
            + &all.map_or(String::new(), |all| format!(", for {}", cents(all)));
        self.listed_as(&format!("read again, unchanged{as_far}"), &counted, &change.again, |again| {
            let tokens = count(again.tokens, "token");
            format!(
                "{} at turn {} as at turn {}, {tokens}{}",
                inspect::line(&again.path, 100),
                again.turn,
                again.before,
                dollars(row, again.cost).map_or(String::new(), |cost| format!(", {}", cents(cost)))
            )
        })
    }

    /// A heading with a number, and the first few lines below it.
    fn listed<T>(&self, what: &str, all: &[T], line: impl Fn(&T) -> String) -> String {
        self.listed_as(what, &all.len().to_string(), all, line)
    }

    fn listed_as<T>(&self, what: &str, counted: &str, all: &[T], line: impl Fn(&T) -> String) -> String {
        let mut text = format!("    {what}: {counted}\n");
        if self.quotes == 0 {
            return text;
        }
        for one in all.iter().take(self.quotes) {
            text += &format!("      {}\n", line(one));
        }
        if all.len() > self.quotes {
            text += &format!("      and {} more (all with --json)\n", all.len() - self.quotes);
        }
        text
    }
}

/// What there is of all sessions together.
fn headline(told: &[(&TrajectoryRow, &Audit)], n_sessions: usize) -> String {
    let n = |of: fn(&Audit) -> usize| told.iter().map(|(_, audit)| of(audit)).sum::<usize>() as u64;
    let n_compactions = n(|audit| audit.compactions.len() + audit.unsent.len());
    let sessions = count(n_sessions as u64, "session");
    let n_acted = told.iter().filter(|(_, audit)| is_acted(audit)).count();
    let mut text = match n_acted {
        0 => format!("{sessions}: none of them records that its past was compacted or edited.\n"),
        acted => format!(
            "{sessions}, {acted} compacted or edited: {}, {}.\n",
            count(n_compactions, "compaction"),
            count(n(|audit| audit.edits.len()), "edit")
        ),
    };
    let n_clears = n(|audit| audit.clears.len());
    if n_clears > 0 {
        text += &format!("Users cleared the context {}.\n", count(n_clears, "time"));
    }
    let has_fallen = |audit: &Audit| !is_acted(audit) && !audit.falls.is_empty();
    let n_fell = told.iter().filter(|(_, audit)| has_fallen(audit)).count() as u64;
    if n_fell > 0 {
        text += &format!("In {} without such a record the prompt fell.\n", count(n_fell, "session"));
    }
    text
}

/// What the words of the answer mean.
const MEANS: &str = "\nA turn is one call of the model with its results, or words of the user that a compaction follows before any call; turn 0 \
    is all before the first call. Prompt: the last one before and the first one after; of edits that \
    are counted here, that prompt without the edit and with it. Lost cache: what that prompt cost more than \
    the longer one would have: the one before, read from the cache, with what was logged since, written to it; later calls pay it back by being shorter. Lost: last mentioned before, its \
    name (of a path the last part) in no prompt since as far as the log shows them, and yet used by the model, which may know or guess it all the same; what the fewest steps had named comes first; in no file: in none that was read or edited before. Not there before: what the summary names and no \
    step before it does; it may be right all the same. Gone: what the user typed or pasted once, in no prompt word for word. Read again: the tokens of the call and its result, and what writing the one and reading the other once cost.\n";
