//! Savings in tokens and in money, with the provider's prompt cache.
//!
//! A prompt's tokens are read from the cache up to the longest prefix that it shares with the
//! previous prompt (in whole blocks), and written to it after that. A compression changes the
//! prefix, so what stood behind the first change is paid for again: savings in money are smaller
//! than in tokens, and can be negative (OpenHands issue 6597).

use std::collections::BTreeSet;

use super::{Entry, Rows, ratio};
use crate::experiment::plan::Prices;
use crate::experiment::replay::{Decision, Run};
use crate::log::Log;
use crate::trajectory::Kind;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "token_savings",
        summary: "Share of prompt tokens saved over all decisions",
        formula: "1 - tokens sent / tokens full",
    },
    Entry { name: "peak_tokens", summary: "Tokens of the longest prompt sent", formula: "max tokens sent" },
    Entry {
        name: "peak_savings",
        summary: "Share by which the longest prompt shrinks",
        formula: "1 - max tokens sent / max tokens full",
    },
    Entry {
        name: "cost_savings",
        summary: "Share of money saved with prompt caching",
        formula: "1 - cost sent / cost full; cost = read x cached prefix + write x rest + output x written",
    },
    Entry {
        name: "cost_savings_uncached",
        summary: "Share of money saved without prompt caching",
        formula: "1 - cost sent / cost full; cost = fresh x prompt + output x written",
    },
    Entry {
        name: "net_savings",
        summary: "Share of tokens saved after the compressor's own and the rework of hard misses",
        formula: "1 - (sent + compressor in and out + rework) / full",
    },
    Entry {
        name: "break_even_turn",
        summary: "Decisions after an event until it has paid for the lost cache (a column of events)",
        formula: "first later decision whose cumulative cached cost is at most that of not compressing",
    },
];

/// Scores a cell. `rework` is what getting hard misses back would cost, see [`rework`].
pub fn score(run: &Run, prices: &Prices, rework: u64, rows: &mut Rows<'_>) {
    let n = run.decisions.len() as u64;
    let sum = |f: &dyn Fn(&Decision) -> u64| run.decisions.iter().map(f).sum::<u64>() as f64;
    let full = sum(&|d| d.tokens_full);
    let sent = sum(&|d| d.tokens_sent);
    let least = sum(&|d| d.tokens_sent - d.kept_tokens.min(d.tokens_sent));
    let saved = |sent: f64, full: f64| ratio(full - sent, full);
    let row = rows.push("token_savings", "", saved(sent, full), full, n);
    row.floor = Some(0.0).filter(|_| n > 0);
    row.ceiling = saved(least, full);

    let peak = |f: &dyn Fn(&Decision) -> u64| run.decisions.iter().map(f).max().unwrap_or(0) as f64;
    let (peak_sent, peak_full) = (peak(&|d| d.tokens_sent), peak(&|d| d.tokens_full));
    rows.push("peak_tokens", "", (n > 0).then_some(peak_sent), 1.0, n).ceiling = (n > 0).then_some(peak_full);
    rows.push("peak_savings", "", saved(peak_sent, peak_full), peak_full, n);

    let cached = |sent: u64, cached: u64| {
        prices.cache_read * cached as f64 + prices.cache_write * (sent - cached.min(sent)) as f64
    };
    let output = |d: &Decision| prices.output * d.output_tokens as f64;
    let total = |f: &dyn Fn(&Decision) -> f64| run.decisions.iter().map(f).sum::<f64>();
    let cost_full = total(&|d| cached(d.tokens_full, d.cached_full) + output(d));
    let cost_sent = total(&|d| cached(d.tokens_sent, d.cached_sent) + output(d));
    rows.push("cost_savings", "", saved(cost_sent, cost_full), cost_full, n);
    let cost_full = total(&|d| prices.fresh * d.tokens_full as f64 + output(d));
    let cost_sent = total(&|d| prices.fresh * d.tokens_sent as f64 + output(d));
    rows.push("cost_savings_uncached", "", saved(cost_sent, cost_full), cost_full, n);
    rows.push("net_savings", "", saved(sent + rework as f64, full), full, n);
}

/// Tokens to get hard misses back: for each group of misses that one call would bring back, and
/// once per compression point, that call and its result. `misses`: (cheapest source span, events so far).
pub fn rework(log: &Log, misses: &[(u32, u32)]) -> u64 {
    let groups: BTreeSet<(u32, u32)> =
        misses.iter().map(|&(span, events)| (log.turn_of(log.spans[span as usize].step), events)).collect();
    groups
        .into_iter()
        .map(|(turn, _)| {
            log.turns[turn as usize]
                .steps
                .clone()
                .filter(|&s| matches!(log.kind(s), Kind::Action | Kind::Observation))
                .map(|s| u64::from(log.tokens[s as usize]))
                .sum::<u64>()
        })
        .sum()
}

/// Decisions after an event until its cumulative cached cost is at most that of not compressing
/// there, all else equal; none if that is after the last decision of the segment.
///
/// Returns it with the decisions that were left.
pub fn break_even(log: &Log, run: &Run, event: usize, prices: &Prices) -> (Option<u32>, u32) {
    let e = &run.events[event];
    let at = e.decision as usize;
    let Some(decision) = run.decisions.get(at) else { return (None, 0) };
    let segment = |d: &Decision| log.turns[d.turn as usize].segment;
    let left = run.decisions[at + 1..].iter().take_while(|d| segment(d) == e.segment).count() as u32;
    let previous = at.checked_sub(1).map(|i| &run.decisions[i]).filter(|d| segment(d) == e.segment);
    let previous = previous.map_or(0, |d| d.tokens_sent);
    let cost = |sent: u64, cached: u64| {
        prices.cache_read * cached as f64 + prices.cache_write * (sent - cached.min(sent)) as f64
    };
    let debt = cost(decision.tokens_sent, decision.cached_sent) - cost(e.tokens_before, previous);
    let gain = prices.cache_read * (e.tokens_before - e.tokens_after.min(e.tokens_before)) as f64;
    if debt <= 0.0 {
        return (Some(0), left);
    }
    let turns = (debt / gain).ceil();
    ((gain > 0.0 && turns <= f64::from(left)).then_some(turns as u32), left)
}
