//! The sessions of a run, printed.

use super::super::page::{Block, lay_out, width};
use super::super::{ExitStatus, Output, count, print};
use super::{Args, line};
use crate::report::sessions::{Session, sessions};
use crate::text::escape;
use crate::text::redact::redact;

/// The sessions of a run, those that lose most first.
pub(super) fn show(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    super::super::report::check_environment()?;
    let mut of = sessions(&args.data, args.variant.as_deref())?;
    if !args.raw {
        // Before it is cut: half of a key is told by no rule.
        redact(&mut of.sessions.iter_mut().map(|session| &mut session.title).collect::<Vec<_>>());
    }
    if output.json {
        print(&escape::json(&of)?)?;
        return Ok(ExitStatus::Done);
    }
    let head = ["session", "format", "turns", "tokens", "sent", "events", "needs lost", "task"];
    let row = |s: &Session, room: usize| {
        let lost = match (&s.error, s.lost) {
            (Some(_), _) => "failed".to_owned(),
            (_, Some(lost)) => format!("{lost} of {}", s.needs),
            _ => "-".to_owned(),
        };
        let id = s.trajectory.chars().take(8).collect();
        let tokens = [s.tokens_full, s.tokens_sent].map(short);
        [
            vec![id, s.format.clone(), s.turns.to_string()],
            tokens.to_vec(),
            vec![s.events.to_string(), lost, line(&s.title, room)],
        ]
        .concat()
    };
    let shown = || of.sessions.iter().take(args.most);
    // The task has what room the rest leaves of a line, without the columns that go first.
    let width = width();
    let used = |spared: &[usize]| -> usize {
        let widest = |i: usize| {
            let head = head[i].split(' ').map(str::len).max().unwrap_or(0);
            shown().map(|s| row(s, 0)[i].chars().count()).chain([head]).max().unwrap_or(0) + 2
        };
        (0..head.len() - 1).filter(|i| !spared.contains(i)).map(widest).sum()
    };
    let spared = (0..=SPARED.len()).map(|n| &SPARED[..n]).find(|spared| used(spared) + TITLE < width);
    let room = width.saturating_sub(used(spared.unwrap_or(&SPARED)) + 1).clamp(TITLE - 1, MOST_TITLE);
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(shown().map(|s| row(s, room)));
    let more = of.sessions.len().saturating_sub(args.most);
    let said = format!(
        "{} under `{}`, those that lose most first. Tokens: of all prompts together. A need is one use of \
         one thing that was last seen turns before; each is counted once.\n\n",
        count(of.sessions.len() as u64, "session"),
        of.variant
    );
    let mut blocks = vec![Block::Text(said), Block::Table { rows, spare: SPARED.to_vec() }];
    let mut last = Vec::new();
    if more > 0 {
        last.push(format!("{more} more: --most {}", of.sessions.len()));
    }
    if let Some(first) = of.sessions.first() {
        let id: String = first.trajectory.chars().take(8).collect();
        last.push(format!("What became of one: trajpress inspect {} {id} --variant V", args.data.display()));
    }
    if !of.others.is_empty() {
        let names: Vec<&str> = of.others.iter().take(OTHERS).map(String::as_str).collect();
        let rest = of.others.len() - names.len();
        let rest = if rest > 0 { format!("; and {rest} more") } else { String::new() };
        last.push(format!("Other variants (--variant, a part is enough): {}{rest}.", names.join("; ")));
    }
    blocks.push(Block::Text(format!("\n{}\n", last.join("\n"))));
    print(&lay_out(&blocks, width))?;
    Ok(ExitStatus::Done)
}

/// Columns that go where there is no room, the first of them first: format and what was sent before the task is cut short.
const SPARED: [usize; 5] = [1, 4, 3, 5, 2];
/// Characters of a task at least, and at most.
const TITLE: usize = 24;
const MOST_TITLE: usize = 60;
/// Variants that are named.
const OTHERS: usize = 6;

/// `41.5M`.
fn short(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..1_000_000 => format!("{}k", n / 1_000),
        _ => format!("{:.1}M", n as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_short() {
        assert_eq!([9, 9_999, 10_000, 987_654, 41_497_773].map(short), ["9", "9999", "10k", "987k", "41.5M"]);
    }
}
