//! A policy in another window: what it keeps free, and the keys that a product works out from the window.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::Policy;
use crate::params::Param;

/// A key that the product works out from the window: `share` of it `plus` so many tokens, within `least` and `most`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByWindow {
    /// As in `"scope.tokens"`, or `"2.trigger.below"`.
    pub key: String,
    /// Only in windows of more tokens than these.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub over: u64,
    /// Only in windows of no more tokens than these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<u64>,
    #[serde(default)]
    pub share: f64,
    #[serde(default)]
    pub plus: i64,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub least: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<u64>,
}

fn is_nothing(tokens: &u64) -> bool {
    *tokens == 0
}

/// The key that says how far below the window a stage fires.
const BELOW: &str = "trigger.below";

impl ByWindow {
    fn value(&self, window: u64) -> Option<i64> {
        let is_meant = window > self.over && self.up_to.is_none_or(|most| window <= most);
        let value = (self.share * window as f64) as i64 + self.plus;
        let most = self.most.map_or(i64::MAX, |most| most as i64);
        is_meant.then(|| value.max(self.least as i64).min(most).max(0))
    }

    /// The stage that it is of, if it is of one alone, and the key without that.
    fn parts(key: &str) -> (Option<&str>, &str) {
        match key.split_once('.') {
            Some((number, rest)) if number.parse::<usize>().is_ok() => (Some(number), rest),
            _ => (None, key),
        }
    }

    /// Whether it is the rule of a key that is set.
    pub(super) fn is_of(&self, key: &str) -> bool {
        let ((own, name), (other, other_name)) = (Self::parts(&self.key), Self::parts(key));
        name == other_name && (own.is_none() || other.is_none() || own == other)
    }
}

impl Policy {
    /// With the keys that follow from its window.
    ///
    /// # Errors
    /// No stage knows one of them.
    pub(super) fn resolved(&self) -> anyhow::Result<Policy> {
        let rules = self.by_window.clone();
        let mut policy = Policy { by_window: Vec::new(), ..self.clone() };
        for rule in &rules {
            if let Some(value) = rule.value(self.window) {
                policy.set(&rule.key, &Value::Integer(value))?;
            }
        }
        Ok(policy)
    }

    /// The policy in a window of so many tokens, and whether what it keeps free had to shrink: a product's constants hold in any
    /// window of which they leave half.
    #[must_use]
    pub fn in_tokens(&self, window: u64) -> (Self, bool) {
        let has_rule = self.by_window.iter().any(|rule| rule.is_of(BELOW));
        let is_small = !has_rule && window < self.window && 2 * self.kept_free() > window;
        match is_small {
            true => (self.clone().in_window(window as f64), true),
            false => (Policy { window, ..self.clone() }, false),
        }
    }

    /// The policy in another window, of which it keeps the same share free as of its own.
    pub(super) fn in_window(self, window: f64) -> Self {
        let own = self.window;
        let share = window / own as f64;
        let (window, reserve) = ((window as u64).max(1), (self.reserve as f64 * share) as u64);
        let mut policy = self.with_below();
        for stage in &mut policy.stages {
            if let Some(below) =
                stage.trigger.get("below").and_then(Value::as_integer).filter(|below| *below > 0)
            {
                let below = ((below as f64 * share).round() as i64).max(1);
                stage.trigger.insert("below".to_owned(), Value::Integer(below));
            }
        }
        Policy { window, reserve: reserve.min(window - 1), ..policy }
    }

    /// With what its stages have below its own window, as numbers.
    fn with_below(mut self) -> Self {
        let (below, rest) = self.by_window.drain(..).partition::<Vec<_>, _>(|rule| rule.is_of(BELOW));
        let mut policy = Policy { by_window: rest, ..self };
        for rule in below {
            // A key that no stage knows is told by [`Policy::check`].
            if let Some(value) = rule.value(policy.window) {
                let rules = std::mem::take(&mut policy.by_window);
                let _ = policy.set(&rule.key, &Value::Integer(value));
                policy.by_window = rules;
            }
        }
        policy
    }

    /// Tokens of its window at which no prompt of it stands.
    fn kept_free(&self) -> u64 {
        let below = |table: &Table| {
            table.get("below").and_then(Value::as_integer).and_then(|n| u64::try_from(n).ok())
        };
        self.reserve + self.stages.iter().filter_map(|stage| below(&stage.trigger)).max().unwrap_or(0)
    }

    /// Stages whose limit below the window leaves nothing of it: they would fire at every call.
    pub(super) fn fires_always(&self) -> Option<usize> {
        let room = self.window.saturating_sub(self.reserve);
        let is_it = |stage: &super::StageFile| {
            let below = stage.trigger.get("below").and_then(Value::as_integer).unwrap_or(0);
            u64::try_from(below).is_ok_and(|below| below >= room)
        };
        self.stages.iter().position(is_it)
    }

    /// In words, what of it hangs on the window.
    pub fn about_windows(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let policy = self.clone().with_below();
        if policy.kept_free() > 0 && self.window_share.is_none() {
            let smallest = match self.by_window.iter().any(|rule| rule.is_of(BELOW)) {
                true => String::new(),
                false => format!(", or of less than {} tokens", 2 * policy.kept_free()),
            };
            lines.push(format!(
                "Of its window of {} tokens it keeps {} free; of one that is a share of a log's longest prompt{smallest}, the same share: {:.1} %.",
                self.window,
                policy.kept_free(),
                100.0 * policy.kept_free() as f64 / self.window as f64
            ));
        }
        let keys: std::collections::BTreeSet<&str> =
            self.by_window.iter().map(|rule| rule.key.as_str()).collect();
        if !keys.is_empty() {
            let keys: Vec<&str> = keys.into_iter().collect();
            lines.push(format!("These follow from the window (by_window): {}.", keys.join(", ")));
        }
        lines
    }

    /// The policy in a smaller window: its reserve, thresholds and lengths in tokens are as much smaller.
    #[must_use]
    pub fn scaled(&self, window: u64) -> Self {
        let share = window as f64 / self.window as f64;
        if share >= 1.0 {
            return Policy { window, ..self.clone() };
        }
        let mut policy = self.clone().in_window(window as f64);
        for stage in &mut policy.stages {
            for part in ["trigger", "scope", "strategy"] {
                let Some((table, params)) = stage.part(part) else { continue };
                let shorter = |param: &Param| {
                    let set = table.get(param.name).and_then(Value::as_integer);
                    let tokens = set.or_else(|| param.default.parse().ok()).filter(|tokens| *tokens > 0)?;
                    let tokens = (tokens as f64 * share).round() as i64;
                    Some((param.name.to_owned(), Value::Integer(tokens.max(1))))
                };
                // Of the window itself the policy says how large it is, and `below` is as much smaller already.
                let lengths = params
                    .iter()
                    .filter(|p| p.is_in_tokens() && !["window", "reserve", "below"].contains(&p.name));
                let lengths: Vec<(String, Value)> = lengths.filter_map(shorter).collect();
                stage.part_mut(part).extend(lengths);
            }
        }
        policy
    }
}
