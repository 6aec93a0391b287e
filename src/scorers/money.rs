//! Savings in tokens and in money, with the provider's prompt cache.
//!
//! A prompt's tokens are read from the cache up to the longest prefix that it shares with the
//! previous prompt (in whole blocks), and written to it after that. A compression changes the
//! prefix, so what stood behind the first change is paid for again: savings in money are smaller
//! than in tokens, and can be negative (OpenHands issue 6597).

use std::collections::BTreeSet;

use super::{Entry, Rows, ratio};
use crate::experiment::plan::Prices;
use crate::experiment::replay::{Decision, Event, Run};
use crate::log::Log;

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
pub fn score(run: &Run, prices: &Prices, rework: u64, rows: &mut Rows) {
    let n = run.decisions.len() as u64;
    let sum = |f: &dyn Fn(&Decision) -> u64| run.decisions.iter().map(f).sum::<u64>() as f64;
    let full = sum(&|d| d.tokens_full);
    let sent = sum(&|d| d.tokens_sent);
    let least = sum(&|d| d.tokens_sent.saturating_sub(d.kept_tokens + d.recalled_tokens));
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
    let work = run.events.iter().map(|e| &e.work).chain(run.recalls.iter().map(|r| &r.work));
    let compressor: u64 = work.map(|work| work.tokens_in + work.tokens_out).sum();
    let trigger = run.trigger_asked.tokens_in + run.trigger_asked.tokens_out;
    rows.push("net_savings", "", saved(sent + (compressor + trigger + rework) as f64, full), full, n);
}

/// Tokens to get hard misses back: the call and the result of each observation that would bring
/// some of them back, once per compression point. `misses`: (observation, events so far).
pub fn rework(log: &Log, misses: &[(u32, u32)]) -> u64 {
    let groups: BTreeSet<(u32, u32)> = misses.iter().copied().collect();
    groups.into_iter().map(|(observation, _)| log.tokens_again(observation)).sum()
}

/// For each event: decisions after it until its cumulative cached cost is at most that of not
/// compressing there, all else equal (none if that is after the last decision of the segment), and
/// the decisions that were left.
pub fn break_even(log: &Log, run: &Run, prices: &Prices) -> Vec<(Option<u32>, u32)> {
    let segment = |d: &Decision| log.turns[d.turn as usize].segment;
    let mut all = Vec::with_capacity(run.events.len());
    for events in run.events.chunk_by(|a, b| a.segment == b.segment) {
        let end = run.decisions.partition_point(|d| segment(d) <= events[0].segment);
        for e in events {
            let at = e.decision as usize;
            let left = end.saturating_sub(at + 1) as u32;
            let turns = run.decisions.get(at).and_then(|d| paid_after(e, d, prices));
            all.push((turns.filter(|&t| t <= left), left));
        }
    }
    all
}

/// Decisions until the cheaper reads of a shorter prompt have paid for writing it anew.
fn paid_after(event: &Event, decision: &Decision, prices: &Prices) -> Option<u32> {
    let cost = |sent: u64, cached: u64| {
        prices.cache_read * cached as f64 + prices.cache_write * (sent - cached.min(sent)) as f64
    };
    let debt =
        cost(decision.tokens_sent, decision.cached_sent) - cost(event.tokens_before, event.cached_before);
    if debt <= 0.0 {
        return Some(0);
    }
    let gain = prices.cache_read * event.tokens_before.saturating_sub(event.tokens_after) as f64;
    let turns = (debt / gain).ceil();
    (turns < f64::from(u32::MAX)).then_some(turns as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10,000 cached tokens and 1,000 new ones become 4,000 of which 1,000 are a shared prefix.
    #[test]
    fn break_even_by_hand() {
        let prices =
            Prices { name: String::new(), fresh: 3.0, cache_write: 3.75, cache_read: 0.3, output: 15.0 };
        let event = |after| Event {
            tokens_before: 11_000,
            tokens_after: after,
            cached_before: 10_000,
            ..Event::test(9, 1..5)
        };
        let decision = |sent, cached| Decision {
            turn: 9,
            n_events: 1,
            tokens_full: 11_000,
            tokens_sent: sent,
            cached_full: 10_000,
            cached_sent: cached,
            output_tokens: 0,
            kept_tokens: 0,
            recalled_tokens: 0,
        };
        // Sent: 0.3 x 1,000 + 3.75 x 3,000 = 11,550. Not compressed: 0.3 x 10,000 + 3.75 x 1,000 = 6,750.
        // The debt of 4,800 is paid by 0.3 x 7,000 = 2,100 a decision: after 3.
        assert_eq!(paid_after(&event(4_000), &decision(4_000, 1_000), &prices), Some(3));
        // Nothing gained is never paid; a shorter prompt written whole can be cheaper at once.
        assert_eq!(paid_after(&event(11_000), &decision(11_000, 1_000), &prices), None);
        assert_eq!(paid_after(&event(500), &decision(500, 0), &prices), Some(0));
    }
}
