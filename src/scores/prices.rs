//! What the tokens of calls cost: a table of prices, or those of the models that a log names.

use serde::{Deserialize, Serialize};

use crate::context::log::Log;
use crate::models::api;
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
    /// Prompts of more tokens than this cost more, where the model has that.
    #[serde(deserialize_with = "maybe_price", default, skip_serializing_if = "Option::is_none")]
    pub dearer_above: Option<f64>,
    /// So many times as much for their tokens.
    #[serde(deserialize_with = "price", default = "one", skip_serializing_if = "is_one")]
    pub dearer_prompt: f64,
    /// So many times as much for the tokens of the answer.
    #[serde(deserialize_with = "price", default = "one", skip_serializing_if = "is_one")]
    pub dearer_output: f64,
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
        let model = api::find(logged)?;
        let api::ApiPrices { fresh, cache_write, cache_write_1h, cache_read, output, cache_lifetime } =
            model.prices?;
        let times = model.dearer.as_ref();
        Some(Prices {
            name: logged.to_owned(),
            fresh,
            cache_write,
            cache_write_1h,
            cache_read,
            output,
            cache_lifetime,
            cache_gone: api::gone().after_5m,
            dearer_above: times.and(model.dearer_above).map(|tokens| tokens as f64),
            dearer_prompt: times.map_or(1.0, |times| times.prompt),
            dearer_output: times.map_or(1.0, |times| times.output),
            own: false,
            hour: false,
        })
    }

    /// Those of a log.
    pub fn of(&self, log: &Trajectory) -> Prices {
        let own = log.model.as_deref().filter(|_| self.own).and_then(Prices::known);
        let prices = own.unwrap_or_else(|| self.clone());
        if self.is_for_an_hour(log) { prices.of_an_hour() } else { prices }
    }

    fn is_for_an_hour(&self, log: &Trajectory) -> bool {
        self.hour || log.is_cached_an_hour() == Some(true)
    }

    /// Those of each call of a log.
    pub fn tariff(&self, log: &Log) -> Tariff {
        let run = &log.trajectory;
        let mut tariff = Tariff { prices: vec![self.of(run)], of_turn: vec![0; log.turns.len()] };
        if !self.own {
            return tariff;
        }
        let mut models = vec![run.model.as_deref().and_then(api::find)];
        for (turn, of) in log.turns.iter().zip(&mut tariff.of_turn) {
            let steps = &run.steps[turn.steps.start as usize..turn.steps.end as usize];
            let Some(name) = steps.iter().find_map(|step| step.model.as_deref()) else { continue };
            let Some((model, prices)) = api::find(name).zip(Prices::known(name)) else { continue };
            let known = models.iter().position(|known| known.is_some_and(|known| std::ptr::eq(known, model)));
            *of = known.unwrap_or(models.len());
            if known.is_none() {
                models.push(Some(model));
                tariff.prices.push(if self.is_for_an_hour(run) { prices.of_an_hour() } else { prices });
            }
        }
        tariff
    }

    /// How many times as much the tokens of a prompt of this length cost, and those of its answer.
    pub fn times(&self, prompt: f64) -> (f64, f64) {
        match self.dearer_above {
            Some(above) if prompt > above => (self.dearer_prompt, self.dearer_output),
            _ => (1.0, 1.0),
        }
    }

    /// What tokens of a prompt cost of which the cache serves so many; `whole` is how long all of it is.
    pub fn prompt(&self, whole: f64, tokens: f64, cached: f64) -> f64 {
        self.times(whole).0 * (self.cache_read * cached + self.cache_write * (tokens - cached.min(tokens)))
    }

    /// What a prompt costs without a cache.
    pub fn uncached(&self, prompt: f64) -> f64 {
        self.times(prompt).0 * self.fresh * prompt
    }

    /// What an answer to a prompt costs.
    pub fn answer(&self, prompt: f64, output: f64) -> f64 {
        self.times(prompt).1 * self.output * output
    }

    /// With a cache that lives an hour, where one can be had.
    fn of_an_hour(self) -> Prices {
        let Some(cache_write) = self.cache_write_1h else { return self };
        // Fewer prompts come so late.
        let cache_gone = self.cache_gone.min(api::gone().after_1h);
        Prices { cache_write, cache_lifetime: HOUR, cache_gone, ..self }
    }
}

/// At which prices each call of a log is paid.
pub struct Tariff {
    /// The first are those of the log.
    prices: Vec<Prices>,
    of_turn: Vec<usize>,
}

#[cfg(test)]
impl Tariff {
    /// The same prices for so many turns.
    pub(super) fn of_one(prices: Prices, n_turns: usize) -> Self {
        Tariff { prices: vec![prices], of_turn: vec![0; n_turns] }
    }
}

impl Tariff {
    pub fn at(&self, turn: u32) -> &Prices {
        &self.prices[self.of_turn[turn as usize]]
    }

    /// Whether two calls were of one model, which alone can read what it cached.
    pub fn is_same(&self, a: u32, b: u32) -> bool {
        self.of_turn[a as usize] == self.of_turn[b as usize]
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

fn one() -> f64 {
    1.0
}

fn is_one(times: &f64) -> bool {
    *times == 1.0
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
            dearer_above: None,
            dearer_prompt: 1.0,
            dearer_output: 1.0,
            own: false,
            hour: false,
        }
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

    #[test]
    fn long_prompts_cost_what_the_model_says() {
        let haiku = Prices::known("claude-haiku-5-5").unwrap();
        // 0.01 read, 0.125 written, 0.5 out; above 100,000 tokens five times as much.
        assert_eq!(haiku.prompt(100_000.0, 100_000.0, 90_000.0), 0.01 * 90_000.0 + 0.125 * 10_000.0);
        assert_eq!(haiku.prompt(100_001.0, 100_001.0, 100_001.0), 5.0 * (0.01 * 100_001.0));
        assert_eq!(haiku.uncached(200_000.0), 100_000.0);
        assert_eq!([1.0, 200_000.0].map(|prompt| haiku.answer(prompt, 10.0)), [5.0, 25.0]);
        // Tokens of the prompt twice, of the answer one and a half times.
        let gemini = Prices::known("gemini-2.5-pro").unwrap();
        assert_eq!([200_000.0, 200_001.0].map(|prompt| gemini.uncached(prompt)), [250_000.0, 500_002.5]);
        assert_eq!(gemini.answer(200_001.0, 10.0), 150.0);
        // What a plan writes of them it reads again.
        let again: Prices = toml::from_str(&toml::to_string(&haiku).unwrap()).unwrap();
        assert_eq!(again, haiku);
        let text = toml::to_string(&Prices::default()).unwrap();
        assert!(!text.contains("dearer"), "{text}");
    }

    #[test]
    fn each_call_is_priced_as_its_model() {
        let mut log = Log::script("user: go\nagent: a\nagent: b\nagent: c\nagent: d");
        log.trajectory.model = Some("claude-opus-4-5".to_owned());
        let names = [None, Some("claude-haiku-4-5"), Some("none-such"), Some("claude-opus-4-5-20251101")];
        let turns: Vec<u32> =
            (0..log.turns.len() as u32).filter(|&t| log.turns[t as usize].decision.is_some()).collect();
        assert_eq!(turns.len(), names.len());
        for (turn, name) in turns.iter().zip(names) {
            let step = log.turns[*turn as usize].decision.unwrap();
            log.trajectory.steps[step as usize].model = name.map(Into::into);
        }
        let fresh = |prices: &Prices| -> Vec<f64> {
            let tariff = prices.tariff(&log);
            turns.iter().map(|&turn| tariff.at(turn).fresh).collect()
        };
        let own = Prices { own: true, ..Prices::default() };
        assert_eq!(fresh(&own), [5.0, 1.0, 5.0, 5.0]);
        let tariff = own.tariff(&log);
        assert!(!tariff.is_same(turns[0], turns[1]) && tariff.is_same(turns[0], turns[3]));
        // Who names the prices means all calls.
        assert_eq!(fresh(&Prices::known("gpt-4.1").unwrap()), [2.0; 4]);
        assert_eq!(fresh(&Prices::default()), [1.0; 4]);
    }
}
