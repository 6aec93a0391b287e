//! `token_savings_vs_sent`: savings against the prompts that the log says were sent, where `token_savings` compares with
//! those of which nothing was removed. Without logged edits the two are one.

use super::registry::{Column, Entry, Field, Scale, Set};
use super::{Rows, ratio};
use crate::replay::{Decision, Run};

pub const TOKEN_SAVINGS_VS_SENT: Entry = Entry {
    name: "token_savings_vs_sent",
    summary: "Share of prompt tokens saved against those that the log says were sent",
    formula: "1 - tokens sent / tokens as sent; floor: with nothing removed, below 0 where the agent's own context was edited",
    scale: Scale::Amount,
    floor: "nothing removed",
    ceiling: "all removed that could be",
    columns: &[Column::new(
        50,
        "",
        Set::Whole,
        Field::Value,
        "1 - prompt tokens sent / prompt tokens that the log says were sent; the same as token_savings where it records no edits",
    )],
    ..Entry::SHARE
};

pub(super) const ENTRIES: &[Entry] = &[TOKEN_SAVINGS_VS_SENT];

/// Scores a cell against the tokens of all prompts as they were sent.
pub fn score(run: &Run, tokens_as_sent: u64, rows: &mut Rows) {
    let n = run.decisions.len() as u64;
    let sum = |f: &dyn Fn(&Decision) -> u64| run.decisions.iter().map(f).sum::<u64>() as f64;
    let as_sent = tokens_as_sent as f64;
    let saved = |tokens: f64| ratio(as_sent - tokens, as_sent);
    let least = sum(&|d| d.tokens_sent.saturating_sub(d.kept_tokens + d.recalled_tokens));
    let row = rows.push(&TOKEN_SAVINGS_VS_SENT, "", saved(sum(&|d| d.tokens_sent)), as_sent, n);
    row.floor = saved(sum(&|d| d.tokens_full));
    row.ceiling = saved(least);
}
