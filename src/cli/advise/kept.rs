//! What `trajpress advise` prints where nothing is to be set: why, and what would tell.

use std::collections::BTreeMap;

use super::super::count;
use super::super::page::percent;
use super::answer::{Answer, beside, lost, points, points_beside, tokens};
use crate::advice::{Compared, Fails, LEAST_SAVED, Verdict};

/// That so many times the sessions would tell is no use.
const MANY_TIMES: usize = 10;
/// Sessions in which something was compressed that each half needs.
const LEAST: usize = 10;
/// No policy has a smaller window.
const LEAST_WINDOW: u64 = 1_000;
/// Those that are named where none costs less.
const NEAREST: usize = 3;
/// Needs that it needs there.
const LEAST_NEEDS: u64 = 30;

impl Answer {
    /// Why nothing is to be set.
    pub(super) fn kept(&self) -> String {
        match self.advice.verdict {
            Verdict::NoneCheaper => format!(
                "Keep yours: no other costs less, since a broken prompt cache costs more than what is left out. Nearest: {}.\n",
                self.nearest()
            ),
            Verdict::TooLittle => self.too_little(),
            _ => format!(
                "Keep yours: {}.\n{}{}{}{}{}{}",
                self.none_holds(),
                self.tally(),
                self.by_name(),
                self.best(),
                self.least_margin(),
                self.sessions_that_would_tell(),
                self.money()
            ),
        }
    }

    fn none_holds(&self) -> String {
        if self.advice.all.iter().any(Compared::holds_in_each) {
            return "the cheapest that holds on the older half of the sessions does not on the newer"
                .to_owned();
        }
        format!(
            "no policy does all three in both halves of the sessions: cost at least {} less, have no more prompts over the window, and be shown to lose at most {} more of what is needed later",
            percent(LEAST_SAVED),
            points(self.margin)
        )
    }

    /// What it loses a session that costs less, fits, and loses the fewest needs.
    fn best(&self) -> String {
        let is_told = |of: &&Compared| {
            of.is_cheaper() && of.fits() && of.at_best.is_none() && of.excess.bounds().is_some()
        };
        // By the figure that is told: shares of what each compressed have denominators of their own.
        let all = self.advice.all.iter().filter(is_told).filter_map(|of| Some((of.excess.more.value?, of)));
        all.min_by(|a, b| a.0.total_cmp(&b.0)).map_or_else(String::new, |(_, of)| {
            let beside = if of.break_even.is_some() { ", with ideal summaries" } else { "" };
            let lost = lost(&of.excess, beside);
            format!(
                "Of those that fit and compressed enough to tell, `{}` loses the fewest needs a session. {lost}\n",
                self.dish(of).name
            )
        })
    }

    /// The cheapest ones, where none costs less.
    fn nearest(&self) -> String {
        let cost = |of: &Compared| {
            let saved = beside(of.saved[2].unwrap_or(0.0), ["less", "as much"]);
            format!("`{}` costs {saved}", self.dish(of).name)
        };
        self.advice.all.iter().take(NEAREST).map(cost).collect::<Vec<_>>().join(", ")
    }

    /// Those that cost less: of which nothing speaks against them over all sessions, and those that cannot run there.
    fn by_name(&self) -> String {
        let told = |what: &str| {
            let cheaper = self.advice.all.iter().filter(|of| of.is_cheaper());
            cheaper.filter(|of| self.told(of) == what).collect::<Vec<_>>()
        };
        let mut text = String::new();
        for of in told("not worse") {
            let saved = beside(of.saved[2].unwrap_or(0.0), ["less", "as much"]);
            let halves = match of.holds_in_each() {
                true => {
                    "and in each half; but one that costs still less was chosen on the older half, and it alone is looked at on the newer".to_owned()
                }
                false => format!("but {}", fails(of)),
            };
            text += &format!(
                "`{}` costs {saved}, sends {}, and is not worse over all sessions{}, {halves}.\n",
                self.dish(of).name,
                tokens(of),
                loses(of)
            );
        }
        for of in told("does not fit") {
            let over = percent(of.over().unwrap_or(0.0));
            text += &format!(
                "`{}` does not fit: {over} of its prompts are over the window.\n",
                self.dish(of).name
            );
        }
        text
    }

    /// What could have been told of the one that costs less and loses the smallest share.
    fn least_margin(&self) -> String {
        // Of one that is shown to be worse, or that its summaries decide, a margin says nothing.
        let is_open = |of: &&Compared| {
            let is_told = of.break_even.is_none() && of.at_best.is_none() && !of.is_worse(self.margin);
            of.is_cheaper() && of.lacks_sessions() && is_told
        };
        let told = self
            .advice
            .all
            .iter()
            .filter(is_open)
            .filter_map(|of| Some((of.excess.value?, of.excess.least_margin()?, of)));
        told.min_by(|a, b| a.0.total_cmp(&b.0)).map_or_else(String::new, |(_, least, of)| {
            format!(
                "Of `{}`, which loses the smallest share of them, all sessions together could tell a margin of {}; a half tells less.\n",
                self.dish(of).name,
                points(least)
            )
        })
    }

    fn too_little(&self) -> String {
        let (needs, sessions) = self.advice.most;
        if self.advice.n_halves[0] == 0 {
            return format!(
                "Too little was compressed to tell: {}, and each half of them needs {LEAST} in which something was compressed, with {LEAST_NEEDS} exposed needs.\n{}",
                count(self.n_sessions as u64, "session"),
                self.more_would_tell()
            );
        }
        format!(
            "Too little was compressed to tell: of what costs less, in the older half of the sessions, at most {} in {}; each half needs {LEAST_NEEDS} in {LEAST}.\n{}",
            count(needs, "exposed need"),
            count(sessions as u64, "session"),
            self.more_would_tell()
        )
    }

    /// How many more sessions like these have what each half needs, by what the older half has.
    fn more_would_tell(&self) -> String {
        let n_older = self.advice.n_halves[0];
        let of_one = |has: usize, needed: usize| (has > 0).then(|| (2 * needed * n_older).div_ceil(has));
        let (n_needs, n_affected) = self.advice.most;
        let enough = || {
            let affected = of_one(n_affected, LEAST)?;
            let needs = of_one(usize::try_from(n_needs).ok()?, LEAST_NEEDS as usize)?;
            Some(affected.max(needs).saturating_sub(self.n_sessions)).filter(|more| *more > 0)
        };
        let more = enough().map_or_else(String::new, |more| {
            format!("About {} more, like these, would have that.\n", count(more as u64, "session"))
        });
        // With fewer sessions than that no window is small enough.
        let is_few = self.n_sessions < 2 * LEAST;
        match is_few || self.menu.reference.policy.window <= LEAST_WINDOW {
            true => more,
            false => more + "hint: `--window` with fewer tokens, where all policies act sooner\n",
        }
    }

    /// What is told of those that cost less.
    fn tally(&self) -> String {
        let mut tally: BTreeMap<&str, usize> = BTreeMap::new();
        for of in self.advice.all.iter().filter(|of| of.is_cheaper()) {
            let told = match self.told(of) {
                "more over" => "more often over the window",
                told => told,
            };
            *tally.entry(told).or_default() += 1;
        }
        let each: Vec<String> = tally.iter().map(|(told, n)| format!("{told}: {n}")).collect();
        if each.is_empty() {
            String::new()
        } else {
            format!("Over all sessions they are: {}.\n", each.join(", "))
        }
    }

    /// How many more sessions would tell of the one that could be told soonest.
    fn sessions_that_would_tell(&self) -> String {
        let more = |of: &&Compared| {
            let needed = 2 * of
                .excess
                .sessions_needed(self.margin)
                .filter(|_| of.is_cheaper() && of.lacks_sessions())?;
            let more = needed.checked_sub(of.excess.n_affected).filter(|more| *more > 0)?;
            Some((more, self.dish(of).name.clone())).filter(|_| more <= MANY_TIMES * self.n_sessions)
        };
        let soonest = self.advice.all.iter().filter_map(|of| more(&of)).min();
        soonest.map_or_else(String::new, |(n, name)| {
            format!("About {} more in which something is compressed would tell of `{name}` in four of five cases, if it is what it seems.\n", count(n as u64, "session"))
        })
    }
}

/// Why it is not to be set, half by half.
fn fails(of: &Compared) -> String {
    let told = |fails: &Fails| match fails {
        Fails::Saves(saved) => {
            let saved = saved.unwrap_or(0.0);
            let word = if saved < 0.0 { "more" } else { "less" };
            format!("costs {} {word}, where {} less are asked for", points(saved.abs()), percent(LEAST_SAVED))
        }
        Fails::Over => "has more prompts over the window".to_owned(),
        Fails::NotShown => "is not shown to be as good".to_owned(),
    };
    let halves = ["older", "newer"].into_iter().zip(&of.fails).filter(|(_, fails)| !fails.is_empty());
    let each = halves.map(|(half, fails)| {
        let all: Vec<String> = fails.iter().map(told).collect();
        format!("in the {half} half it {}", all.join(" and "))
    });
    each.collect::<Vec<_>>().join(", ")
}

/// How much more it loses, where that is told of it; of what its summaries decide it is not.
fn loses(of: &Compared) -> String {
    let bounds = of.excess.bounds().filter(|_| of.break_even.is_none() && of.at_best.is_none());
    of.excess.value.zip(bounds).map_or_else(String::new, |(value, (_, upper))| {
        format!(
            " (it loses {} of the needs that either could lose, with 95 % at most {})",
            points_beside(value),
            points_beside(upper)
        )
    })
}
