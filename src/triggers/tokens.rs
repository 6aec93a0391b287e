//! Fires when the prompt reaches a share of a window, less a reserve for the answer.
//!
//! The scope is everything but the last `keep` turns. Claude Code and Codex fire like this, too, and leave no turn as it was:
//! that is `keep = 0` (of Codex the newest words of the user stay, which is part of strategy `codex`). The default leaves
//! three, as most libraries leave some.

use super::{Detector, Entry, Firing, Moment, Trigger};
use crate::context::log::Log;
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
        anyhow::ensure!(tokens.window > tokens.reserve, "parameter `reserve` must be less than `window`");
        Ok(Box::new(tokens))
    },
};

params! {
    #[derive(Clone, Copy)]
    struct Tokens {
        /// Tokens of the window, as the prompt's are counted: by the provider where its count is known.
        window: u64 = 32000,
        /// Share of the window (less the reserve) at which it fires.
        fraction: f64 = 0.8,
        /// Tokens kept free for the answer.
        reserve: u64 = 0,
        /// Turns that stay uncompressed; 0 for none, as in Claude Code and Codex.
        keep: u32 = 3,
    }
}

impl Trigger for Tokens {
    fn detector(&self, _: &Log, _: u32) -> Box<dyn Detector> {
        Box::new(*self)
    }
}

impl Detector for Tokens {
    fn advance(&mut self, moment: &Moment<'_>) -> Option<Firing> {
        let limit = self.fraction * (self.window - self.reserve) as f64;
        let scope_end = moment.turn.checked_sub(self.keep)?;
        (moment.context_tokens as f64 >= limit).then(|| Firing::new("tokens", scope_end, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fires_at_the_limit() {
        let log = Log::script("");
        let mut rule = Tokens { window: 110, fraction: 0.5, reserve: 10, keep: 2 };
        let mut at = |turn, context_tokens| {
            rule.advance(&Moment { log: &log, turn, context_tokens }).map(|f| f.scope_end)
        };
        assert_eq!(at(9, 49), None);
        assert_eq!(at(9, 50), Some(7));
        assert_eq!(at(1, 50), None);
        rule.keep = 0;
        let firing = rule.advance(&Moment { log: &log, turn: 9, context_tokens: 50 });
        assert_eq!(firing.map(|f| f.scope_end), Some(9), "no turn stays as it was");
    }
}
