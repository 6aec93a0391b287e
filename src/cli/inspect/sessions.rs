//! The sessions of a run, printed.

use indicatif::HumanCount;

use super::super::page::{Block, lay_out, width};
use super::super::{ExitStatus, Output, count, print};
use super::Args;
use crate::report::sessions::{Session, sessions};
use crate::text::escape;

/// The sessions of a run, those that lose most first.
pub(super) fn show(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    super::super::report::check_environment()?;
    let of = sessions(&args.data, args.variant.as_deref())?;
    if output.json {
        print(&escape::json(&of)?)?;
        return Ok(ExitStatus::Done);
    }
    let head = ["session", "format", "turns", "tokens", "sent", "events", "needs lost", "task"];
    let row = |s: &Session| {
        let lost = match (&s.error, s.lost) {
            (Some(_), _) => "failed".to_owned(),
            (_, Some(lost)) => format!("{lost:.0} of {}", s.needs),
            _ => "-".to_owned(),
        };
        let title: String = s.title.chars().take(TITLE).collect();
        let cut = if title.len() < s.title.len() { "\u{2026}" } else { "" };
        let numbers = [
            s.turns.to_string(),
            HumanCount(s.tokens_full).to_string(),
            HumanCount(s.tokens_sent).to_string(),
        ];
        let id = s.trajectory.chars().take(8).collect();
        [vec![id, s.format.clone()], numbers.to_vec(), vec![s.events.to_string(), lost, title + cut]].concat()
    };
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(of.sessions.iter().take(args.most).map(row));
    let more = of.sessions.len().saturating_sub(args.most);
    let said = format!(
        "{} under `{}`, those that lose most first.\n\n",
        count(of.sessions.len() as u64, "session"),
        of.variant
    );
    let mut blocks = vec![Block::Text(said), Block::Table { rows, spare: vec![1, 4, 3, 2, 5] }];
    let mut last = Vec::new();
    if more > 0 {
        last.push(format!("{more} more: --most {}", of.sessions.len()));
    }
    if !of.others.is_empty() {
        last.push(format!("Other variants (--variant): {}.", of.others.join(", ")));
    }
    blocks.push(Block::Text(format!("\n{}\n", last.join("\n"))));
    print(&lay_out(&blocks, width()))?;
    Ok(ExitStatus::Done)
}

/// Characters of a task.
const TITLE: usize = 40;
