//! Savings in tokens and in money, with the provider's prompt cache.
//!
//! A prompt's tokens are read from the cache up to the longest prefix that it shares with the
//! previous prompt (in whole blocks), and written to it after that. A compression changes the
//! prefix, so what stood behind the first change is paid for again: savings in money are smaller
//! than in tokens, and can be negative (OpenHands issue 6597).
//!
//! Where the provider's count is known (`usage`), money counts its tokens, with what the log does not show: that is in the
//! cache after the first call and never compressible. A cache that outlived its lifetime is gone; where no time is logged it
//! is gone as often as the price table says. A log that says for how long it wrote to the cache is priced so.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use super::registry::{Better, Column, Entry, Field, Pooled, Scale, Set, Unit};
use super::{Rows, ratio};
use crate::context::log::Log;
use crate::models::api;
use crate::replay::{Decision, Event, Run};
use crate::trajectory::Trajectory;

/// Seconds of an hour's cache.
const HOUR: f64 = 3600.0;

/// Prices of one million tokens.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub name: String,
    /// Prompt tokens that no cache serves.
    #[serde(deserialize_with = "price")]
    pub fresh: f64,
    /// Prompt tokens written into the cache.
    #[serde(deserialize_with = "price")]
    pub cache_write: f64,
    /// Prompt tokens written into a cache that lives an hour, where one can be had.
    #[serde(deserialize_with = "maybe_price", default, skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<f64>,
    /// Prompt tokens served by the cache.
    #[serde(deserialize_with = "price")]
    pub cache_read: f64,
    /// Tokens that the agent's model writes.
    #[serde(deserialize_with = "price")]
    pub output: f64,
    /// Seconds that a cached prompt lives after it was last sent.
    #[serde(deserialize_with = "price", default = "cache_lifetime")]
    pub cache_lifetime: f64,
    /// Share of prompts that find the cache gone, of those whose time, or that of the prompt before, is not logged.
    #[serde(deserialize_with = "share", default, skip_serializing_if = "is_zero")]
    pub cache_gone: f64,
    /// Whether a log is priced as the model that it names, in dollars; these are then the prices of logs whose model's are
    /// not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
    /// Whether all caches live an hour, where one can be had; else those of logs that say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hour: bool,
}

impl Prices {
    /// Those of a model by its name in a log, where they are known.
    pub fn known(logged: &str) -> Option<Prices> {
        let api::ApiPrices { fresh, cache_write, cache_write_1h, cache_read, output, cache_lifetime } =
            api::find(logged)?.prices?;
        Some(Prices {
            name: logged.to_owned(),
            fresh,
            cache_write,
            cache_write_1h,
            cache_read,
            output,
            cache_lifetime,
            cache_gone: api::gone().after_5m,
            own: false,
            hour: false,
        })
    }

    /// Those of a log.
    pub fn of(&self, log: &Trajectory) -> Prices {
        let own = log.model.as_deref().filter(|_| self.own).and_then(Prices::known);
        let prices = own.unwrap_or_else(|| self.clone());
        if self.hour || log.is_cached_an_hour() == Some(true) { prices.of_an_hour() } else { prices }
    }

    /// With a cache that lives an hour, where one can be had.
    fn of_an_hour(self) -> Prices {
        let Some(cache_write) = self.cache_write_1h else { return self };
        // Fewer prompts come so late.
        let cache_gone = self.cache_gone.min(api::gone().after_1h);
        Prices { cache_write, cache_lifetime: HOUR, cache_gone, ..self }
    }
}

/// None is below 0, nor without end.
fn price<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let price = f64::deserialize(from)?;
    let is_right = price.is_finite() && price >= 0.0;
    is_right.then_some(price).ok_or_else(|| serde::de::Error::custom("must be at least 0"))
}

fn maybe_price<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    price(from).map(Some)
}

fn share<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let share = f64::deserialize(from)?;
    let is_right = (0.0..1.0).contains(&share);
    is_right.then_some(share).ok_or_else(|| serde::de::Error::custom("must be at least 0 and below 1"))
}

fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

fn cache_lifetime() -> f64 {
    Prices::default().cache_lifetime
}

impl Default for Prices {
    /// In units of the fresh price, with the ratios that large providers share; the lifetime is Anthropic's.
    fn default() -> Self {
        Prices {
            name: "relative".to_owned(),
            fresh: 1.0,
            cache_write: 1.25,
            cache_write_1h: Some(2.0),
            cache_read: 0.1,
            output: 5.0,
            cache_lifetime: 300.0,
            cache_gone: 0.0,
            own: false,
            hour: false,
        }
    }
}

pub const TOKEN_SAVINGS: Entry = Entry {
    name: "token_savings",
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
    summary: "Share of money saved without prompt caching",
    formula: "1 - cost sent / cost full; cost = fresh x prompt + output x written",
    scale: Scale::Amount,
    columns: &[Column::new(60, "", Set::Whole, Field::Value, "the same without prompt caching")],
    ..Entry::SHARE
};

pub const NET_SAVINGS: Entry = Entry {
    name: "net_savings",
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
    BREAK_EVEN_TURN,
];

/// Scores a cell. `rework` is what getting hard misses back would cost, see [`rework`].
pub fn score(log: &Log, run: &Run, prices: &Prices, rework: u64, rows: &mut Rows) {
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

    let bills = bills(log, run, prices);
    let total = |f: &dyn Fn(&Bill) -> f64| bills.iter().map(f).sum::<f64>();
    let cost_full = total(&|b| cost(prices, b.full, b.cached_full) + prices.output * b.output);
    let cost_sent = total(&|b| cost(prices, b.sent, b.cached_sent) + prices.output * b.output);
    rows.push(&COST_SAVINGS, "", saved(cost_sent, cost_full), cost_full, n);
    let cost_full = total(&|b| prices.fresh * b.full + prices.output * b.output);
    let cost_sent = total(&|b| prices.fresh * b.sent + prices.output * b.output);
    rows.push(&COST_SAVINGS_UNCACHED, "", saved(cost_sent, cost_full), cost_full, n);
    let work = run.events.iter().map(|e| &*e.work).chain(run.recalls.iter().map(|r| &r.work));
    let compressor: u64 = work.map(|work| work.tokens_in + work.tokens_out).sum();
    let trigger = run.trigger_asked.tokens_in + run.trigger_asked.tokens_out;
    rows.push(&NET_SAVINGS, "", saved(sent + (compressor + trigger + rework) as f64, full), full, n);
    billed(log, run, rows);
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

fn bills(log: &Log, run: &Run, prices: &Prices) -> Vec<Bill> {
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
    run.decisions.iter().zip(alive(log, run, prices)).enumerate().map(bill).collect()
}

/// Of each decision, how likely the cache of the prompt before still lives: not where that was sent longer ago than a
/// cache lives.
pub fn alive(log: &Log, run: &Run, prices: &Prices) -> Vec<f64> {
    let times: Vec<Option<i64>> = run.decisions.iter().map(|d| log.decided_at(d.turn)).collect();
    let alive = |i: usize| {
        let Some(before) = i.checked_sub(1) else { return 1.0 };
        match times[i].zip(times[before]).and_then(|(now, before)| now.checked_sub(before)) {
            Some(passed) if passed as f64 > 1e6 * prices.cache_lifetime => 0.0,
            Some(_) => 1.0,
            None => 1.0 - prices.cache_gone,
        }
    };
    (0..times.len()).map(alive).collect()
}

/// What a prompt costs of which the cache serves so much.
fn cost(prices: &Prices, prompt: f64, cached: f64) -> f64 {
    prices.cache_read * cached + prices.cache_write * (prompt - cached.min(prompt))
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
    let alive = alive(log, run, prices);
    let mut all = Vec::with_capacity(run.events.len());
    for events in run.events.chunk_by(|a, b| a.segment == b.segment) {
        let end = run.decisions.partition_point(|d| segment(d) <= events[0].segment);
        for e in events {
            let at = e.decision as usize;
            let left = end.saturating_sub(at + 1) as u32;
            let turns = run.decisions.get(at).and_then(|d| paid_after(e, d, alive[at], prices));
            all.push((turns.filter(|&t| t <= left), left));
        }
    }
    all
}

fn paid_after(event: &Event, decision: &Decision, alive: f64, prices: &Prices) -> Option<u32> {
    Shorter::of(event, decision).paid_after(alive, prices)
}

/// A prompt that was made shorter: what it would have been, what it became, and what the cache serves of each.
pub struct Shorter {
    pub without: u64,
    pub cached_without: u64,
    pub with: u64,
    pub cached_with: u64,
    /// Tokens that every later prompt is shorter by.
    pub saved: u64,
}

impl Shorter {
    /// The prompt of a decision, beside the one that its event found.
    pub fn of(event: &Event, decision: &Decision) -> Self {
        Shorter {
            without: event.tokens_before,
            cached_without: event.cached_before,
            with: decision.tokens_sent,
            cached_with: decision.cached_sent,
            saved: event.tokens_before.saturating_sub(event.tokens_after),
        }
    }

    /// What this prompt costs more than it would have, in price x tokens; below 0 it is cheaper at once.
    pub fn debt(&self, alive: f64, prices: &Prices) -> f64 {
        let cost = |prompt: u64, cached: u64| cost(prices, prompt as f64, alive * cached as f64);
        cost(self.with, self.cached_with) - cost(self.without, self.cached_without)
    }

    /// Decisions until the cheaper reads of a shorter prompt have paid for writing it anew. (What is unseen is the same on
    /// both sides, and a factor between tokenizers changes no quotient.)
    pub fn paid_after(&self, alive: f64, prices: &Prices) -> Option<u32> {
        let debt = self.debt(alive, prices);
        if debt <= 0.0 {
            return Some(0);
        }
        let turns = (debt / (prices.cache_read * self.saved as f64)).ceil();
        (turns < f64::from(u32::MAX)).then_some(turns as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::{Kind, Role, Step, Usage, step};

    #[test]
    fn a_log_is_priced_as_its_model_where_that_is_known() {
        let log = |name: Option<&str>| Trajectory { model: name.map(str::to_owned), ..Trajectory::default() };
        let fresh = |prices: &Prices, name| prices.of(&log(name)).fresh;
        let one = Prices::default();
        assert_eq!(fresh(&one, Some("claude-opus-4-5-20251101")), 1.0);
        let own = Prices { own: true, fresh: 7.0, ..Prices::default() };
        let names = [Some("claude-opus-4-5-20251101"), Some("gpt-4.1"), Some("mine"), None];
        assert_eq!(names.map(|name| fresh(&own, name)), [5.0, 2.0, 7.0, 7.0]);
        let hour = |name| Prices { hour: true, ..own.clone() }.of(&log(name));
        let [claude, gpt] = [names[0], names[1]].map(hour);
        assert_eq!((claude.cache_write, claude.cache_lifetime), (10.0, 3600.0));
        assert_eq!((gpt.cache_write, gpt.cache_lifetime), (2.0, 300.0));
        assert!(claude.cache_gone < gpt.cache_gone);
    }

    #[test]
    fn a_log_is_priced_for_as_long_as_it_cached() {
        let written = |calls: &[(u64, Option<u64>)]| {
            let call = |&(all, hour): &(u64, Option<u64>)| {
                let usage =
                    Usage { input: 9, cache_write: Some(all), cache_write_1h: hour, ..Usage::default() };
                Step { usage: Some(Box::new(usage)), ..step(Role::Agent, Kind::Thought, "x") }
            };
            let log = Trajectory { steps: calls.iter().map(call).collect(), ..Trajectory::default() };
            let prices = Prices::default().of(&log);
            (log.is_cached_an_hour(), prices.cache_write, prices.cache_lifetime)
        };
        assert_eq!(written(&[(50, None)]), (None, 1.25, 300.0));
        assert_eq!(written(&[(0, Some(0)), (50, Some(0))]), (Some(false), 1.25, 300.0));
        assert_eq!(written(&[(50, Some(0)), (70, Some(70))]), (Some(true), 2.0, 3600.0));
        assert_eq!(written(&[(0, Some(0))]).0, None);
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
            cached_full: 10_000,
            cached_sent: cached,
            output_tokens: 0,
            kept_tokens: 0,
            recalled_tokens: 0,
        };
        // Sent: 0.3 x 1,000 + 3.75 x 3,000 = 11,550. Not compressed: 0.3 x 10,000 + 3.75 x 1,000 = 6,750.
        // The debt of 4,800 is paid by 0.3 x 7,000 = 2,100 a decision: after 3.
        assert_eq!(paid_after(&event(4_000), &decision(4_000, 1_000), 1.0, &prices), Some(3));
        // Nothing gained is never paid; a shorter prompt written whole can be cheaper at once.
        assert_eq!(paid_after(&event(11_000), &decision(11_000, 1_000), 1.0, &prices), None);
        assert_eq!(paid_after(&event(500), &decision(500, 0), 1.0, &prices), Some(0));
        // Where the cache is gone all is written anew either way, and less of it costs less.
        assert_eq!(paid_after(&event(4_000), &decision(4_000, 1_000), 0.0, &prices), Some(0));
    }
}
