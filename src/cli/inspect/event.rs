//! One event of a replay, printed: what it took that was needed later, then what it rewrote, dropped, added and kept.

use serde_json::json;

use super::super::page::width;
use super::super::{ExitStatus, Output, count, print};
use super::{flags, how, item, line, line_with};
use crate::context::{Block, Content};
use crate::experiment::cell::Accounts;
use crate::export::camera::Shot;
use crate::export::words::Words;
use crate::showcase;
use crate::store::ShowcaseRow;
use crate::text::escape;
use crate::text::redact::Searched;

/// In lines this wide a block stands beside what took its place.
pub(super) const WIDE: usize = 100;

/// Prints the first event of these; `all` shows what was kept, too, `raw` keys and personal data. So many characters of each text.
pub(super) fn show(
    of: &Accounts,
    (all, raw): (bool, bool),
    most: usize,
    output: Output,
) -> anyhow::Result<ExitStatus> {
    let rows =
        showcase::rows("", of.log(), &of.events, (!raw).then(Searched::default).as_ref()).into_iter().next();
    let Some((account, rows)) = of.events.first().zip(rows) else {
        return Ok(ExitStatus::Failed);
    };
    let event = &account.event;
    let items = event.work.items.iter().map(|item| made(&item.text));
    let texts: Vec<Block> = account.before.iter().chain(&event.after).cloned().chain(items).collect();
    let words = match raw {
        true => Words::raw(of.log()),
        false => Words::redacted(of.log(), &[Shot { event: None, blocks: texts }]),
    };
    if output.json {
        let shown =
            |b: &Block| json!({"turn": b.turn, "tokens": b.tokens, "how": how(b), "text": words.text(b)});
        let lost = rows.iter().filter(|row| row.what == "lost").map(|row| {
            json!({"atom": row.atom, "stood": row.at, "line": row.text, "needed": row.needed, "used": row.text_after})
        });
        let told = json!({
            "lost": lost.collect::<Vec<_>>(),
            "before": account.before.iter().map(shown).collect::<Vec<_>>(),
            "after": event.after.iter().map(shown).collect::<Vec<_>>(),
            "items": event.work.items.iter().map(|of| item(of, &words.text(&made(&of.text)))).collect::<Vec<_>>(),
            "flags": flags(event),
        });
        print(&escape::json(&told)?)?;
        return Ok(ExitStatus::Done);
    }
    let mut text = format!(
        "event {} of {} (--event {}), before turn {}, scope {}..{}\nthe prompt goes from {} to {} tokens\n",
        account.number + 1,
        of.n_events,
        account.number,
        event.turn,
        event.turns.start,
        event.turns.end,
        event.tokens_before,
        event.tokens_after
    );
    text.extend(flags(event).iter().map(|flag| format!("flag: {flag}\n")));
    text += &lost(&rows, most);
    for what in ["rewritten", "dropped", "added", "kept"] {
        text += &blocks(&rows, what, what != "kept" || all, most);
    }
    if !event.work.items.is_empty() {
        text += &format!("\nitems: {}\n", event.work.items.len());
    }
    for (at, item) in event.work.items.iter().enumerate() {
        let fate = match item.of {
            Some(of) => format!("{} of {of}", item.fate.name()),
            None => item.fate.name().to_owned(),
        };
        let score = item.score.map_or(String::new(), |score| format!("{score:.2}"));
        text += &format!(
            "{at:>4} {:<12}{fate:<16}{score:>6}  {}\n",
            item.kind,
            line(&words.text(&made(&item.text)), most)
        );
    }
    print(&text)?;
    Ok(ExitStatus::Done)
}

/// A text that is no step of the log.
fn made(text: &str) -> Block {
    Block { turn: 0, tokens: 0, content: Content::Generated { text: text.to_owned() }, fresh: false, left: 0 }
}

fn lost(rows: &[ShowcaseRow], most: usize) -> String {
    let lost: Vec<&ShowcaseRow> = rows.iter().filter(|row| row.what == "lost").collect();
    if lost.is_empty() {
        return "\nlost and needed later: nothing\n".to_owned();
    }
    // What was needed several times stands once.
    let mut things: Vec<Vec<&ShowcaseRow>> = Vec::new();
    for row in &lost {
        let is_it = |thing: &&mut Vec<&ShowcaseRow>| {
            (&thing[0].atom, thing[0].at, &thing[0].text) == (&row.atom, row.at, &row.text)
        };
        match things.iter_mut().find(is_it) {
            Some(thing) => thing.push(row),
            None => things.push(vec![row]),
        }
    }
    let of = match things.len() == lost.len() {
        true => String::new(),
        false => format!(", of {}", count(things.len() as u64, "thing")),
    };
    let mut text = format!("\nlost and needed later: {}{of}\n", count(lost.len() as u64, "need"));
    for thing in things {
        let row = thing[0];
        let atom = row.atom.as_deref().unwrap_or_default();
        let said = |text: &Option<String>| line_with(text.as_deref().unwrap_or_default().trim(), atom, most);
        text += &format!("  {}\n", line(atom, most));
        text += &format!("    turn {:<5} {:<12} {}\n", row.at, row.speaker, said(&row.text));
        let used = if row.text_after.is_some() { said(&row.text_after) } else { "(used here)".to_owned() };
        text += &format!("    turn {:<5} {:<12} {used}\n", row.needed.unwrap_or_default(), "needed by");
        if thing.len() > 1 {
            let turns: Vec<String> =
                thing[1..].iter().filter_map(|row| Some(row.needed?.to_string())).collect();
            text += &format!(
                "    and again in turn{} {}\n",
                if turns.len() > 1 { "s" } else { "" },
                turns.join(", ")
            );
        }
    }
    text
}

/// The blocks that this became of; folded to one line where they are not shown.
fn blocks(rows: &[ShowcaseRow], what: &str, is_shown: bool, most: usize) -> String {
    let of: Vec<&ShowcaseRow> = rows.iter().filter(|row| row.what == what).collect();
    if of.is_empty() {
        return String::new();
    }
    let tokens = |get: fn(&ShowcaseRow) -> u32| of.iter().map(|row| u64::from(get(row))).sum::<u64>();
    let (before, after) = (tokens(|row| row.tokens_before), tokens(|row| row.tokens_after));
    let n = count(of.len() as u64, "block");
    let mut text = match what {
        "rewritten" => format!("\nrewritten: {n}, {before} to {after} tokens\n"),
        "added" => format!("\nadded: {n}, {after} tokens\n"),
        _ => format!("\n{what}: {n}, {before} tokens\n"),
    };
    if !is_shown {
        return text.trim_end().to_owned() + " (`--all` shows them)\n";
    }
    for row in of {
        let [before, after] =
            [&row.text, &row.text_after].map(|text| line(text.as_deref().unwrap_or("").trim(), most));
        let tokens = if what == "added" { row.tokens_after } else { row.tokens_before };
        let head = format!("  {:>5} {:<12}{tokens:>7}  ", row.at, row.speaker);
        text += &match what {
            "rewritten" => beside(&head, &before, &after),
            "added" => format!("{head}{after}\n"),
            _ => format!("{head}{before}\n"),
        };
    }
    text
}

/// Two texts in two columns, or one below the other where lines are short.
fn beside(head: &str, before: &str, after: &str) -> String {
    let width = width();
    if width < WIDE {
        return format!("{head}{before}\n{:>width$}{after}\n", "-> ", width = head.chars().count());
    }
    let column = (width - head.chars().count() - 3) / 2;
    let lines = |text: &str| -> Vec<String> {
        text.chars().collect::<Vec<_>>().chunks(column).map(|line| line.iter().collect()).collect()
    };
    let (left, right) = (lines(before), lines(after));
    let mut text = String::new();
    for at in 0..left.len().max(right.len()).max(1) {
        let head = if at == 0 { head.to_owned() } else { " ".repeat(head.chars().count()) };
        let of = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
        let gap = " ".repeat(column - of(&left).chars().count());
        text += (head + &of(&left) + &gap + " | " + &of(&right)).trim_end();
        text.push('\n');
    }
    text
}
