//! Savings in tokens and in money, with the provider's prompt cache.
//!
//! A prompt's tokens are read from the cache up to the longest prefix that it shares with the
//! previous prompt (in whole blocks), and written to it after that. A compression changes the
//! prefix, so what stood behind the first change is paid for again: savings in money are smaller
//! than in tokens, and can be negative (OpenHands issue 6597).
//!
//! Where the provider's count is known (`usage`), money counts its tokens, with what the log does not show: that is in the
//! cache after the first call and never compressible. A cache that outlived its lifetime is gone; where no time is logged it
//! is gone as often as the price table says. A log that says for how long it wrote to the cache is priced so. A call is
//! priced as the model that answered it, and by the length of its prompt where long ones cost more.

use std::collections::BTreeSet;

use super::registry::{Better, Column, Entry, Field, Pooled, Scale, Set, Unit};
use super::{Rows, ratio};
use crate::context::log::Log;
use crate::replay::{Decision, Event, Run};
use crate::strategies::Work;
use crate::trajectory::usage::Rate;

pub use super::prices::{Prices, Tariff};

pub const TOKEN_SAVINGS: Entry = Entry {
    name: "token_savings",
    words: "tokens saved",
    summary: "Share of prompt tokens saved over all decisions",
    formula: "1 - tokens sent / tokens full",
    scale: Scale::Amount,
    floor: "0",
    ceiling: "all removed that could be",
    columns: &[Column::headline(
        10,
        "",
        Set::Whole,
        Field::Value,
        "1 - prompt tokens sent / prompt tokens with nothing compressed, over all decisions",
    )],
    ..Entry::SHARE
};

pub const TOKEN_SAVINGS_BILLED: Entry = Entry {
    name: "token_savings_billed",
    words: "tokens saved, as billed",
    summary: "The same by the provider's count, with what the log does not show; null where no usage is known",
    formula: "1 - sum (a + b x tokens sent) / sum (a + b x tokens full) over decisions with known usage; a unseen, b tokens by its count of one of ours",
    scale: Scale::Amount,
    floor: "0",
    ceiling: "all removed that could be",
    columns: &[Column::headline(
        20,
        "",
        Set::Whole,
        Field::Value,
        "the same by the provider's count, with what the log does not show (system prompt, tools); over decisions with known usage, null where there is none",
    )],
    ..Entry::SHARE
};

pub const PEAK_TOKENS: Entry = Entry {
    name: "peak_tokens",
    summary: "Tokens of the longest prompt sent",
    formula: "max tokens sent",
    unit: Unit::Tokens,
    better: Better::Lower,
    ceiling: "of nothing compressed",
    pooled: Pooled::Mean,
    scale: Scale::Amount,
    columns: &[Column::new(
        80,
        "",
        Set::Whole,
        Field::Value,
        "tokens of the largest prompt sent, mean over trajectories",
    )],
    ..Entry::SHARE
};

pub const PEAK_SAVINGS: Entry = Entry {
    name: "peak_savings",
    words: "longest prompt, shortened by",
    summary: "Share by which the longest prompt shrinks",
    formula: "1 - max tokens sent / max tokens full",
    scale: Scale::Amount,
    columns: &[Column::new(
        70,
        "",
        Set::Whole,
        Field::Value,
        "1 - largest prompt sent / largest prompt with nothing compressed",
    )],
    ..Entry::SHARE
};

pub const COST_SAVINGS: Entry = Entry {
    name: "cost_savings",
    words: "money saved",
    summary: "Share of money saved with prompt caching",
    formula: "1 - cost sent / cost full; cost = read x cached prefix + write x rest + output x written, in tokens by the provider's count where known; nothing is cached after the cache's lifetime (an hour where the log says so)",
    scale: Scale::Amount,
    columns: &[Column::headline(
        30,
        "",
        Set::Whole,
        Field::Value,
        "1 - cost / cost with nothing compressed, under the run's price table, with prompt caching; in tokens by the provider's count where known",
    )],
    ..Entry::SHARE
};

pub const COST_SAVINGS_UNCACHED: Entry = Entry {
    name: "cost_savings_uncached",
    words: "money saved without a cache",
    summary: "Share of money saved without prompt caching",
    formula: "1 - cost sent / cost full; cost = fresh x prompt + output x written",
    scale: Scale::Amount,
    columns: &[Column::new(60, "", Set::Whole, Field::Value, "the same without prompt caching")],
    ..Entry::SHARE
};

pub const NET_SAVINGS: Entry = Entry {
    name: "net_savings",
    words: "tokens saved after rework",
    summary: "Share of tokens saved after the compressor's own and the rework of hard misses",
    formula: "1 - (sent + compressor in and out + rework) / full",
    scale: Scale::Amount,
    columns: &[Column::headline(
        40,
        "",
        Set::Whole,
        Field::Value,
        "1 - (sent + compressor's tokens + rework) / full; rework re-reads what was lost and needed",
    )],
    ..Entry::SHARE
};

pub const NET_COST_SAVINGS: Entry = Entry {
    name: "net_cost_savings",
    summary: "Share of money saved after what the compressor's own calls cost; of cells that have such calls",
    formula: "1 - (cost sent + compressor's calls without a cache, at the prices of the agent's model) / cost full",
    scale: Scale::Amount,
    ..Entry::SHARE
};

pub const BREAK_EVEN_TURN: Entry = Entry {
    name: "break_even_turn",
    summary: "Decisions after an event until it has paid for the lost cache (a column of events)",
    formula: "first later decision whose cumulative cached cost is at most that of not compressing",
    unit: Unit::Decisions,
    better: Better::Lower,
    pooled: Pooled::Median,
    scale: Scale::Score,
    ..Entry::SHARE
};

pub(super) const ENTRIES: &[Entry] = &[
    TOKEN_SAVINGS,
    TOKEN_SAVINGS_BILLED,
    PEAK_TOKENS,
    PEAK_SAVINGS,
    COST_SAVINGS,
    COST_SAVINGS_UNCACHED,
    NET_SAVINGS,
    NET_COST_SAVINGS,
    BREAK_EVEN_TURN,
];

/// Scores a cell. `rework` is what getting hard misses back would cost, see [`rework`].
pub fn score(log: &Log, run: &Run, tariff: &Tariff, rework: u64, rows: &mut Rows) {
    let n = run.decisions.len() as u64;
    let sum = |f: &dyn Fn(&Decision) -> u64| run.decisions.iter().map(f).sum::<u64>() as f64;
    let full = sum(&|d| d.tokens_full);
    let sent = sum(&|d| d.tokens_sent);
    let saved = |sent: f64, full: f64| ratio(full - sent, full);
    let row = rows.push(&TOKEN_SAVINGS, "", saved(sent, full), full, n);
    row.floor = Some(0.0).filter(|_| n > 0);
    row.ceiling = saved(sum(&least), full);

    let peak = |f: &dyn Fn(&Decision) -> u64| run.decisions.iter().map(f).max().unwrap_or(0) as f64;
    let (peak_sent, peak_full) = (peak(&|d| d.tokens_sent), peak(&|d| d.tokens_full));
    rows.push(&PEAK_TOKENS, "", (n > 0).then_some(peak_sent), 1.0, n).ceiling = (n > 0).then_some(peak_full);
    rows.push(&PEAK_SAVINGS, "", saved(peak_sent, peak_full), peak_full, n);

    let bills = bills(log, run, tariff);
    let total = |f: &dyn Fn(&Prices, &Bill) -> f64| {
        bills.iter().zip(&run.decisions).map(|(bill, d)| f(tariff.at(d.turn), bill)).sum::<f64>()
    };
    let cost_full = total(&|p, b| p.prompt(b.full, b.full, b.cached_full) + p.answer(b.full, b.output));
    let cost_sent = total(&|p, b| p.prompt(b.sent, b.sent, b.cached_sent) + p.answer(b.sent, b.output));
    rows.push(&COST_SAVINGS, "", saved(cost_sent, cost_full), cost_full, n);
    let own = own_cost(run, tariff);
    if own > 0.0 {
        rows.push(&NET_COST_SAVINGS, "", saved(cost_sent + own, cost_full), cost_full, n);
    }
    let cost_full = total(&|p, b| p.uncached(b.full) + p.answer(b.full, b.output));
    let cost_sent = total(&|p, b| p.uncached(b.sent) + p.answer(b.sent, b.output));
    rows.push(&COST_SAVINGS_UNCACHED, "", saved(cost_sent, cost_full), cost_full, n);
    let work = run.events.iter().map(|e| &*e.work).chain(run.recalls.iter().map(|r| &r.work));
    let compressor: u64 = work.map(|work| work.tokens_in + work.tokens_out).sum();
    let trigger = run.trigger_asked.tokens_in + run.trigger_asked.tokens_out;
    rows.push(&NET_SAVINGS, "", saved(sent + (compressor + trigger + rework) as f64, full), full, n);
    billed(log, run, rows);
}

/// What the compressor's calls cost, as if the agent's model had them.
fn own_cost(run: &Run, tariff: &Tariff) -> f64 {
    let events = run.events.iter().map(|event| (event.turn, &*event.work));
    let turn = |decision: u32| run.decisions.get(decision as usize).map(|decision| decision.turn);
    let recalls = run.recalls.iter().filter_map(|recall| Some((turn(recall.decision)?, &recall.work)));
    let cost = |(turn, work): (u32, &Work)| {
        let (prices, read, written) = (tariff.at(turn), work.tokens_in as f64, work.tokens_out as f64);
        prices.uncached(read) + prices.answer(read, written)
    };
    events.chain(recalls).map(cost).sum()
}

/// Tokens of the prompt without anything that the strategy might have removed.
fn least(d: &Decision) -> u64 {
    d.tokens_sent.saturating_sub(d.kept_tokens + d.recalled_tokens)
}

/// Savings by the provider's count, over the decisions where that is known.
fn billed(log: &Log, run: &Run, rows: &mut Rows) {
    let (mut full, mut sent, mut at_least, mut n) = (0.0, 0.0, 0.0, 0);
    for (d, rate) in run.decisions.iter().filter_map(|d| Some((d, log.rate(d.turn)?))) {
        full += rate.billed(d.tokens_full);
        sent += rate.billed(d.tokens_sent);
        at_least += rate.billed(least(d));
        n += 1;
    }
    let row = rows.push(&TOKEN_SAVINGS_BILLED, "", ratio(full - sent, full), full, n);
    row.floor = Some(0.0).filter(|_| n > 0);
    row.ceiling = ratio(full - at_least, full);
}

/// What is paid for at a decision, in tokens by the provider's count where that is known, else in ours.
struct Bill {
    full: f64,
    sent: f64,
    /// What of them the cache serves.
    cached_full: f64,
    cached_sent: f64,
    output: f64,
}

fn bills(log: &Log, run: &Run, tariff: &Tariff) -> Vec<Bill> {
    let mut before = None;
    let bill = |(i, (d, alive)): (usize, (&Decision, f64))| {
        let rate = log.rate(d.turn);
        let counted = |ours: u64| rate.map_or(ours as f64, |rate| rate.counted(ours));
        let unseen = rate.map_or(0.0, |rate| rate.unseen as f64);
        // Of what is unseen, that is cached which stood there before; where that is not known, all.
        let unseen_before = before.replace(rate).flatten().map_or(unseen, |rate| rate.unseen as f64);
        let unseen_cached = if i == 0 { 0.0 } else { unseen.min(unseen_before) };
        let cached = |ours: u64| alive * (unseen_cached + counted(ours));
        Bill {
            full: unseen + counted(d.tokens_full),
            sent: unseen + counted(d.tokens_sent),
            cached_full: cached(d.cached_full),
            cached_sent: cached(d.cached_sent),
            output: counted(d.output_tokens),
        }
    };
    run.decisions.iter().zip(alive(log, run, tariff)).enumerate().map(bill).collect()
}

/// Of each decision, how likely the cache of the prompt before still lives: not where that was sent longer ago than a
/// cache lives, or to another model.
pub fn alive(log: &Log, run: &Run, tariff: &Tariff) -> Vec<f64> {
    let times: Vec<Option<i64>> = run.decisions.iter().map(|d| log.decided_at(d.turn)).collect();
    let alive = |i: usize| {
        let Some(before) = i.checked_sub(1) else { return 1.0 };
        let [then, turn] = [before, i].map(|at| run.decisions[at].turn);
        if !tariff.is_same(then, turn) {
            return 0.0;
        }
        let prices = tariff.at(turn);
        match times[i].zip(times[before]).and_then(|(now, before)| now.checked_sub(before)) {
            Some(passed) if passed as f64 > 1e6 * prices.cache_lifetime => 0.0,
            Some(_) => 1.0,
            None => 1.0 - prices.cache_gone,
        }
    };
    (0..times.len()).map(alive).collect()
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
pub fn break_even(log: &Log, run: &Run, tariff: &Tariff) -> Vec<(Option<u32>, u32)> {
    let segment = |d: &Decision| log.turns[d.turn as usize].segment;
    let alive = alive(log, run, tariff);
    let mut all = Vec::with_capacity(run.events.len());
    for events in run.events.chunk_by(|a, b| a.segment == b.segment) {
        let end = run.decisions.partition_point(|d| segment(d) <= events[0].segment);
        for e in events {
            let at = e.decision as usize;
            let left = end.saturating_sub(at + 1) as u32;
            let paid =
                |d: &Decision| Shorter::of(e, d, log.rate(d.turn)).paid_after(alive[at], tariff.at(d.turn));
            let turns = run.decisions.get(at).and_then(paid);
            all.push((turns.filter(|&t| t <= left), left));
        }
    }
    all
}

/// A prompt that was made shorter: what it would have been, what it became, and what the cache serves of each.
pub struct Shorter {
    pub without: u64,
    pub cached_without: u64,
    pub with: u64,
    pub cached_with: u64,
    /// Tokens that every later prompt is shorter by.
    pub saved: u64,
    /// How long the two prompts are for the bill, which says what their tokens cost.
    pub billed: [f64; 2],
}

impl Shorter {
    /// The prompt of a decision, beside the one that its event found.
    pub fn of(event: &Event, decision: &Decision, rate: Option<&Rate>) -> Self {
        let billed = |ours: u64| rate.map_or(ours as f64, |rate| rate.billed(ours));
        Shorter {
            billed: [event.tokens_before, decision.tokens_sent].map(billed),
            without: event.tokens_before,
            cached_without: event.cached_before,
            with: decision.tokens_sent,
            cached_with: decision.cached_sent,
            saved: event.tokens_before.saturating_sub(event.tokens_after),
        }
    }

    /// What this prompt costs more than it would have, in price x tokens; below 0 it is cheaper at once.
    pub fn debt(&self, alive: f64, prices: &Prices) -> f64 {
        let cost = |billed: f64, prompt: u64, cached: u64| {
            prices.prompt(billed, prompt as f64, alive * cached as f64)
        };
        let [without, with] = self.billed;
        cost(with, self.with, self.cached_with) - cost(without, self.without, self.cached_without)
    }

    /// Decisions until the cheaper reads of a shorter prompt have paid for writing it anew. (What is unseen is taken
    /// to cost the same on both sides, and a factor between tokenizers changes no quotient.)
    pub fn paid_after(&self, alive: f64, prices: &Prices) -> Option<u32> {
        self.pays(self.debt(alive, prices), prices)
    }

    /// The same for any debt.
    pub fn pays(&self, debt: f64, prices: &Prices) -> Option<u32> {
        if debt <= 0.0 {
            return Some(0);
        }
        let [without, with] = self.billed;
        let later = self.without.saturating_sub(self.saved);
        let read = |billed: f64, prompt: u64| prices.times(billed).0 * prompt as f64;
        let gain = prices.cache_read * (read(without, self.without) - read(with, later));
        let turns = (debt / gain).ceil();
        (gain > 0.0 && turns < f64::from(u32::MAX)).then_some(turns as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_a_compressor_cost_what_they_read_and_write() {
        let prices = Prices { fresh: 3.0, output: 15.0, ..Prices::default() };
        let tariff = Tariff::of_one(prices, 10);
        let asked = |read, written| {
            let work = Work { tokens_in: read, tokens_out: written, ..Work::default() };
            Event { work: work.into(), ..Event::test(9, 1..5) }
        };
        let run = Run { events: vec![asked(1_000, 100), asked(2_000, 0), asked(0, 0)], ..Run::default() };
        assert_eq!(own_cost(&run, &tariff), 3.0 * 3_000.0 + 15.0 * 100.0);
        assert_eq!(own_cost(&Run::default(), &tariff), 0.0);
    }

    /// 10,000 cached tokens and 1,000 new ones become 4,000 of which 1,000 are a shared prefix.
    #[test]
    fn break_even_by_hand() {
        let prices =
            Prices { fresh: 3.0, cache_write: 3.75, cache_read: 0.3, output: 15.0, ..Prices::default() };
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
            billed: None,
            cached_full: 10_000,
            cached_sent: cached,
            output_tokens: 0,
            kept_tokens: 0,
            recalled_tokens: 0,
        };
        let paid_after = |event: &Event, decision: &Decision, alive| {
            Shorter::of(event, decision, None).paid_after(alive, &prices)
        };
        // Sent: 0.3 x 1,000 + 3.75 x 3,000 = 11,550. Not compressed: 0.3 x 10,000 + 3.75 x 1,000 = 6,750.
        // The debt of 4,800 is paid by 0.3 x 7,000 = 2,100 a decision: after 3.
        assert_eq!(paid_after(&event(4_000), &decision(4_000, 1_000), 1.0), Some(3));
        // Nothing gained is never paid; a shorter prompt written whole can be cheaper at once.
        assert_eq!(paid_after(&event(11_000), &decision(11_000, 1_000), 1.0), None);
        assert_eq!(paid_after(&event(500), &decision(500, 0), 1.0), Some(0));
        // Where the cache is gone all is written anew either way, and less of it costs less.
        assert_eq!(paid_after(&event(4_000), &decision(4_000, 1_000), 0.0), Some(0));
        // Above 10,000 tokens all costs five times as much: written anew at the cheaper price it is paid at once.
        let dearer = Prices { dearer_above: Some(10_000.0), dearer_prompt: 5.0, ..prices.clone() };
        let shorter = Shorter::of(&event(4_000), &decision(4_000, 1_000), None);
        assert_eq!(shorter.debt(1.0, &dearer), 11_550.0 - 5.0 * 6_750.0);
        assert_eq!(shorter.paid_after(1.0, &dearer), Some(0));
    }
}
