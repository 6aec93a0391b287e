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
    /// What some have under the same name.
    wide_window: Option<u64>,
    /// The most tokens of a prompt, where it may not fill the window.
    max_prompt: Option<u64>,
    /// The most tokens of an answer.
    max_output: Option<u64>,
    /// What counts its tokens.
    tokenizer: Option<String>,
    /// Where they are known.
    pub prices: Option<ApiPrices>,
    /// Longer prompts cost more.
    pub dearer_above: Option<u64>,
    /// How much more; where that is known.
    pub dearer: Option<Dearer>,
    /// Where this was read, and when.
    pub source: String,
    pub seen: toml::value::Datetime,
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

/// How many times as much the tokens of a long prompt cost, and those of its answer.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dearer {
    pub prompt: f64,
    pub output: f64,
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

const TEXT: &str = include_str!("../data/api-models.toml");

static FILE: LazyLock<File> = LazyLock::new(|| toml::from_str(TEXT).expect("checked by a test"));

/// Names the state of this knowledge: rows that rest on it are no longer those of another.
pub fn digest() -> String {
    blake3::hash(TEXT.as_bytes()).to_hex()[..16].to_owned()
}

/// How many prompts find their cache gone, where a log has no times.
pub fn gone() -> Gone {
    FILE.gone
}

/// What a log's name of a model says: the model, without provider, tuning, date and case; and whether it asks for a
/// window of a million.
fn plain(logged: &str) -> (String, bool) {
    let name = logged.to_ascii_lowercase();
    // aider puts a flash behind the names of some.
    let name = name.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != ']');
    let name = name.strip_prefix("ft:").unwrap_or(name);
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
        [.., month, day] if digits(month, 2) && digits(day, 2) => 2,
        [.., date] if digits(date, 8) => 1,
        _ => 0,
    };
    let name = parts[..parts.len() - n_dated].join("-");
    // `claude-opus-4.6` in Copilot, `claude-opus-4-6` in Claude Code.
    (if name.starts_with("claude") { name.replace('.', "-") } else { name }, is_long)
}

/// All that are known, each name apart.
pub fn all() -> impl Iterator<Item = (&'static str, &'static ApiModel)> {
    FILE.models.iter().flat_map(|model| model.names.iter().map(move |name| (name.as_str(), model)))
}

impl ApiModel {
    /// The most tokens of a prompt; where the name has two windows, of both.
    fn prompts(&self) -> impl Iterator<Item = u64> {
        [self.max_prompt.unwrap_or(self.window)].into_iter().chain(self.wide_window)
    }

    /// What is known of it, on one line.
    pub fn about(&self) -> String {
        let prices = self.prices.map_or_else(String::new, |p| {
            let hour = p.cache_write_1h.map_or_else(String::new, |price| format!(" ({price} for an hour)"));
            let ApiPrices { fresh, cache_write, cache_read, output, .. } = p;
            format!(", dollars a million: {fresh} fresh, {cache_write}{hour} written to the cache, {cache_read} read from it, {output} out")
        });
        let told = |what: &str, n: Option<u64>| n.map_or_else(String::new, |n| format!(", {what} {n}"));
        let limits = told("for some", self.wide_window)
            + &told("prompt up to", self.max_prompt)
            + &told("answer up to", self.max_output);
        let tokens = self.tokenizer.as_ref().map_or_else(String::new, |name| format!(", tokens of {name}"));
        let mut dearer = told("more for prompts above", self.dearer_above);
        if let Some(Dearer { prompt, output }) = self.dearer {
            dearer += &format!(": {prompt} times as much, answers {output} times");
        }
        format!(
            "window {}{limits}{tokens}{prices}{dearer}; {}, as of {}",
            self.window, self.source, self.seen
        )
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
    /// What else the model's name may stand for.
    pub wider: Option<u64>,
}

/// The window of a log: that of its model, the smaller one that holds its longest prompt where the name has two. Where the model is
/// unknown, or a prompt of the log was longer than that, the smallest known window that holds the longest prompt, or that prompt
/// itself where none does.
pub fn window(logged: Option<&str>, longest_prompt: u64) -> Window {
    let holds = |window: &u64| *window >= longest_prompt;
    let of_model = logged.filter(|name| !plain(name).1).and_then(find);
    let is_asked = logged.is_some_and(|name| plain(name).1);
    let own = of_model.into_iter().flat_map(ApiModel::prompts).chain(is_asked.then_some(MILLION));
    let mut own = own.filter(holds);
    if let Some(tokens) = own.next() {
        return Window { tokens, is_known: true, wider: own.next() };
    }
    let known = FILE.models.iter().flat_map(ApiModel::prompts).chain([MILLION]);
    let guess = known.filter(|window| holds(window) && *window >= LEAST_GUESS).min();
    Window { tokens: guess.unwrap_or(longest_prompt), is_known: false, wider: None }
}

/// Agents run on no smaller window today.
const LEAST_GUESS: u64 = 128_000;
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
        assert_eq!(window("claude-opus-4.6"), window("claude-opus-4-6"));
        assert_eq!(window("anthropic/claude-3-haiku-20240307\u{26a1}"), Some(200_000));
        assert_eq!(window("gemini/gemini-2.5-pro-preview-06-05"), Some(1_048_576));
        // What only begins like a known one is another model.
        for name in ["claude-opus-4-55", "gpt-4.1-pico", "gpt-5-pro", "", "-", "<synthetic>"] {
            assert_eq!(window(name), None, "{name}");
        }
    }

    #[test]
    fn a_window_holds_the_longest_prompt() {
        let known = |name, longest| {
            let Window { tokens, is_known, .. } = window(name, longest);
            (tokens, is_known)
        };
        assert_eq!(known(Some("claude-haiku-4-5"), 150_000), (200_000, true));
        assert_eq!(known(Some("claude-haiku-4-5"), 250_000), (256_000, false));
        assert_eq!(known(Some("claude-opus-4-5[1m]"), 5), (1_000_000, true));
        assert_eq!(known(Some("claude-opus-5-5"), 5), (1_000_000, true));
        // One name, two windows: the log's longest prompt says which it cannot be.
        let both = |longest| window(Some("claude-opus-4-6"), longest);
        assert_eq!(both(150_000), Window { tokens: 200_000, is_known: true, wider: Some(1_000_000) });
        assert_eq!(both(200_001), Window { tokens: 1_000_000, is_known: true, wider: None });
        assert_eq!(known(None, 1_000), (128_000, false));
        assert_eq!(known(Some("own"), 130_000), (131_072, false));
        assert_eq!(known(None, 3_000_000), (3_000_000, false));
        // What is kept free for the answer holds no prompt.
        assert_eq!(known(Some("gpt-5-2025-08-07"), 5), (272_000, true));
    }

    #[test]
    fn what_the_cache_serves_costs_what_the_model_says() {
        let share = |name: &str| find(name).and_then(|m| m.prices).map(|p| p.cache_read / p.fresh);
        let shares = ["claude-opus-5", "claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1", "gpt-4o"];
        assert_eq!(shares.map(|name| share(name).unwrap()), [0.1, 0.05, 0.05, 0.025, 0.5]);
    }

    #[test]
    fn every_model_is_named_once_and_priced_in_order() {
        let names: Vec<&String> = FILE.models.iter().flat_map(|model| &model.names).collect();
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
        for model in FILE.models.iter() {
            let below = [model.max_output, model.max_prompt, model.dearer_above];
            assert!(below.into_iter().flatten().all(|n| n < model.wide_window.unwrap_or(model.window)));
            assert!(model.dearer.is_none_or(|times| {
                model.dearer_above.is_some()
                    && model.prices.is_some()
                    && times.prompt > 1.0
                    && times.output > 1.0
            }));
            assert!(model.wide_window.is_none_or(|wide| wide > model.window));
            assert!(model.source.starts_with("https://") && model.names.iter().all(|n| plain(n).0 == *n));
            assert!(model.prices.is_none_or(|p| p.cache_read <= p.fresh
                && p.fresh <= p.cache_write
                && p.cache_write < p.output
                && p.cache_write_1h.is_none_or(|long| long > p.cache_write)));
        }
    }
}
