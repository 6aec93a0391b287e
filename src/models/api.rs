//! What is known of the models that logs name: window and prices, as data (`data/api-models.toml`).
//!
//! These are models behind somebody's API. Nothing here asks one.

use std::sync::LazyLock;

use serde::Deserialize;

/// A model that logs name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiModel {
    names: Vec<String>,
    /// Tokens of prompt and answer, as the provider counts them.
    pub window: u64,
    /// The most tokens of an answer, where the provider keeps that part of the window free of the prompt.
    pub max_output: Option<u64>,
    /// Where they are known.
    pub prices: Option<ApiPrices>,
    /// The provider's page.
    pub source: String,
    /// When its prices were read; none where nobody has.
    pub seen: Option<toml::value::Datetime>,
}

/// US dollars for a million tokens.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiPrices {
    pub fresh: f64,
    pub cache_write: f64,
    /// Written to a cache that lives an hour, where one can be had.
    pub cache_write_1h: Option<f64>,
    pub cache_read: f64,
    pub output: f64,
    /// Seconds that a cached prompt lives after it was last sent.
    pub cache_lifetime: f64,
}

/// Shares of prompts that come later after the one before than a cache lives.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gone {
    pub after_5m: f64,
    pub after_1h: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    gone: Gone,
    models: Vec<ApiModel>,
}

static FILE: LazyLock<File> =
    LazyLock::new(|| toml::from_str(include_str!("../data/api-models.toml")).expect("checked by a test"));

/// How many prompts find their cache gone, where a log has no times.
pub fn gone() -> Gone {
    FILE.gone
}

/// What a log's name of a model says: the model, without provider, tuning, date and case; and whether it asks for a
/// window of a million.
fn plain(logged: &str) -> (String, bool) {
    let name = logged.to_ascii_lowercase();
    let name = name.strip_prefix("ft:").unwrap_or(&name);
    let name = name.rsplit('/').next().unwrap_or(name);
    let name = name.split([':', '@']).next().unwrap_or(name);
    // Bedrock: `us.anthropic.claude-opus-4-5-20251101-v1:0`.
    let name = match name.rsplit_once("anthropic.") {
        Some((_, name)) => {
            name.trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix("-v").unwrap_or(name)
        }
        None => name,
    };
    let (name, is_long) = name.strip_suffix("[1m]").map_or((name, false), |name| (name, true));
    let name = name.strip_suffix("-latest").unwrap_or(name);
    let digits = |part: &str, n: usize| part.len() == n && part.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = name.split('-').collect();
    let n_dated = match parts.as_slice() {
        [.., year, month, day] if digits(year, 4) && digits(month, 2) && digits(day, 2) => 3,
        [.., date] if digits(date, 8) => 1,
        _ => 0,
    };
    (parts[..parts.len() - n_dated].join("-"), is_long)
}

/// All that are known, each name apart.
pub fn all() -> impl Iterator<Item = (&'static str, &'static ApiModel)> {
    FILE.models.iter().flat_map(|model| model.names.iter().map(move |name| (name.as_str(), model)))
}

impl ApiModel {
    /// The most tokens of a prompt.
    fn prompt(&self) -> u64 {
        self.window - self.max_output.unwrap_or(0)
    }

    /// What is known of it, on one line.
    pub fn about(&self) -> String {
        let prices = self.prices.map_or_else(String::new, |p| {
            let hour = p.cache_write_1h.map_or_else(String::new, |price| format!(" ({price} for an hour)"));
            let ApiPrices { fresh, cache_write, cache_read, output, .. } = p;
            format!(", dollars a million: {fresh} fresh, {cache_write}{hour} written to the cache, {cache_read} read from it, {output} out")
        });
        let answer = self.max_output.map_or_else(String::new, |n| format!(", {n} of it for the answer"));
        let seen = self.seen.map_or("not checked there".to_owned(), |seen| format!("prices read {seen}"));
        format!("window {}{answer}{prices}; {}, {seen}", self.window, self.source)
    }
}

/// What is known of a model, by its name in a log.
pub fn find(logged: &str) -> Option<&'static ApiModel> {
    let (name, _) = plain(logged);
    FILE.models.iter().find(|model| model.names.contains(&name))
}

/// How long the prompts of a log may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    pub tokens: u64,
    /// Whether it is that of the log's own model.
    pub is_known: bool,
}

/// The window of a log: that of its model; where the model is unknown, or a prompt of the log was longer than that, the smallest
/// known window that holds the longest prompt, or that prompt itself where none does.
pub fn window(logged: Option<&str>, longest_prompt: u64) -> Window {
    let own = logged.and_then(|name| match plain(name).1 {
        true => Some(MILLION),
        false => find(name).map(ApiModel::prompt),
    });
    let known = FILE.models.iter().map(ApiModel::prompt).chain([MILLION]);
    let holds = |window: &u64| *window >= longest_prompt;
    match own.filter(holds) {
        Some(tokens) => Window { tokens, is_known: true },
        None => Window { tokens: known.filter(holds).min().unwrap_or(longest_prompt), is_known: false },
    }
}

const MILLION: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_logs_find_their_model() {
        let window = |name: &str| find(name).map(|model| model.window);
        let of_providers =
            ["us.anthropic.claude-opus-4-5-20251101-v1:0", "bedrock/anthropic.claude-opus-4-5"];
        let names = ["claude-opus-4-5-20251101", "anthropic/claude-opus-4-5", "Claude-Opus-4-5-latest"];
        for name in names.into_iter().chain(of_providers) {
            assert_eq!(find(name).and_then(|m| m.prices).map(|p| p.output), Some(25.0), "{name}");
        }
        assert_eq!(find("claude-opus-4-20250514").and_then(|m| m.prices).map(|p| p.output), Some(75.0));
        assert_eq!(window("ft:gpt-4.1-2025-04-14:sierra:tau2-full-sft:BzrYdMNm"), Some(1_047_576));
        assert_eq!(window("deepseek/deepseek-chat"), Some(128_000));
        // What only begins like a known one is another model.
        for name in ["claude-opus-4-55", "gpt-4.1-nano", "gpt-5-pro", "", "-", "<synthetic>"] {
            assert_eq!(window(name), None, "{name}");
        }
    }

    #[test]
    fn a_window_holds_the_longest_prompt() {
        let known = |name, longest| {
            let Window { tokens, is_known } = window(name, longest);
            (tokens, is_known)
        };
        assert_eq!(known(Some("claude-sonnet-4-5"), 150_000), (200_000, true));
        assert_eq!(known(Some("claude-sonnet-4-5"), 250_000), (272_000, false));
        assert_eq!(known(Some("claude-sonnet-4-5[1m]"), 5), (1_000_000, true));
        assert_eq!(known(None, 1_000), (128_000, false));
        assert_eq!(known(Some("own"), 130_000), (200_000, false));
        assert_eq!(known(None, 3_000_000), (3_000_000, false));
        // What is kept free for the answer holds no prompt.
        assert_eq!(known(Some("gpt-5-2025-08-07"), 5), (272_000, true));
    }

    #[test]
    fn every_model_is_named_once_and_priced_in_order() {
        let names: Vec<&String> = FILE.models.iter().flat_map(|model| &model.names).collect();
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
        for model in FILE.models.iter() {
            assert!(
                model.max_output.is_none_or(|n| n < model.window) && model.source.starts_with("https://")
            );
            assert!(model.names.iter().all(|name| plain(name).0 == *name));
            assert!(model.prices.is_none_or(|p| p.cache_read < p.fresh
                && p.fresh <= p.cache_write
                && p.cache_write < p.output
                && p.cache_write_1h.is_none_or(|long| long > p.cache_write)));
        }
    }
}
