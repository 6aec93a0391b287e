//! Fires when the prompt reaches a share of a window, less a reserve for the answer.
//!
//! The scope is everything but the last `keep` turns. Claude Code and Codex fire like this, too, and leave no turn as it was:
//! that is `keep = 0` (of Codex the newest words of the user stay, which is part of strategy `codex`). The default leaves
//! three, as most libraries leave some.

use serde::de::{Deserialize, Deserializer, Error as _};

use super::{Detector, Entry, Firing, Moment, Trigger};
use crate::context::log::Log;
use crate::models::api;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "tokens",
    summary: "Compress all but the last turns when the prompt reaches a share of a window.",
    params: Tokens::PARAMS,
    build: |params| {
        let tokens = Tokens::of(params)?;
        anyhow::ensure!(
            tokens.fraction > 0.0 && tokens.fraction <= 1.0,
            "parameter `fraction` must be above 0 and at most 1"
        );
        if let Window::Tokens(window) = tokens.window {
            anyhow::ensure!(window > tokens.reserve, "parameter `reserve` must be less than `window`");
        }
        Ok(Box::new(tokens))
    },
};

params! {
    #[derive(Clone, Copy)]
    struct Tokens {
        /// Tokens of the window, as the prompt's are counted: by the provider where its count is known; or `own`, that of the
        /// model that the log names (where it is not known, or a prompt was longer, the smallest known one that holds the
        /// longest prompt).
        window: Window = 32000,
        /// Share of the window (less the reserve) at which it fires.
        fraction: f64 = 0.8,
        /// Tokens kept free for the answer.
        reserve: u64 = 0,
        /// Turns that stay uncompressed; 0 for none, as in Claude Code and Codex.
        keep: u32 = 3,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Window {
    Tokens(u64),
    Own,
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(from)? {
            toml::Value::Integer(n) if n > 0 => Ok(Window::Tokens(n as u64)),
            toml::Value::String(name) if name == "own" => Ok(Window::Own),
            _ => Err(D::Error::custom("must be a number of tokens above 0, or \"own\"")),
        }
    }
}

impl Trigger for Tokens {
    fn detector(&self, log: &Log, _: u32) -> Box<dyn Detector> {
        let window = match self.window {
            Window::Tokens(window) => window,
            Window::Own => api::window(log.trajectory.model.as_deref(), log.longest_prompt()).tokens,
        };
        let limit = self.fraction * window.saturating_sub(self.reserve) as f64;
        Box::new(Limit { limit, keep: self.keep })
    }
}

/// Tokens of a prompt at which it fires, and turns that stay.
struct Limit {
    limit: f64,
    keep: u32,
}

impl Detector for Limit {
    fn advance(&mut self, moment: &Moment<'_>) -> Option<Firing> {
        let scope_end = moment.turn.checked_sub(self.keep)?;
        (moment.context_tokens as f64 >= self.limit).then(|| Firing::new("tokens", scope_end, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fires(tokens: Tokens, log: &Log, turn: u32, context_tokens: u64) -> Option<u32> {
        let mut rule = tokens.detector(log, 1);
        rule.advance(&Moment { log, turn, context_tokens, messages: None }).map(|f| f.scope_end)
    }

    #[test]
    fn fires_at_the_limit() {
        let log = Log::script("");
        let rule = Tokens { window: Window::Tokens(110), fraction: 0.5, reserve: 10, keep: 2 };
        assert_eq!(fires(rule, &log, 9, 49), None);
        assert_eq!(fires(rule, &log, 9, 50), Some(7));
        assert_eq!(fires(rule, &log, 1, 50), None);
        assert_eq!(fires(Tokens { keep: 0, ..rule }, &log, 9, 50), Some(9), "no turn stays as it was");
    }

    #[test]
    fn the_own_window_is_that_of_the_model() {
        let own = |text: &str| Tokens::of(text.parse().unwrap());
        let rule = own("window = \"own\"\nfraction = 0.5\nreserve = 4000\nkeep = 2").unwrap();
        let mut log = Log::script("");
        log.trajectory.model = Some("claude-sonnet-4-5-20250929".to_owned());
        assert_eq!([97_999, 98_000].map(|n| fires(rule, &log, 9, n)), [None, Some(7)]);
        // Of an unknown one it is the smallest that there is.
        log.trajectory.model = Some("mine".to_owned());
        assert_eq!([61_999, 62_000].map(|n| fires(rule, &log, 9, n)), [None, Some(7)]);
        for wrong in ["window = \"other\"", "window = 0", "window = 1.5"] {
            let error = format!("{:#}", own(wrong).err().unwrap());
            assert!(error.contains("must be a number of tokens above 0, or \"own\""), "{error}");
        }
    }
}
