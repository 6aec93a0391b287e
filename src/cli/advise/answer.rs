//! What `trajpress advise` prints: what to set, what that saves, what it loses, and how sure that is.

use indicatif::HumanCount;
use serde_json::{Value, json};

use super::super::count;
use super::super::page::{Block, percent, shown};
use super::menu::{Dish, Menu, values};
use crate::advice::{Advice, Compared, Validation, Verdict};
use crate::report::statistics::estimate::Estimate;
use crate::report::statistics::excess::{Excess, Told};

/// More prompts over the window than these are told.
const MANY_OVER: f64 = 0.005;

/// The sessions of a product with the advice for them.
pub(super) struct Answer {
    pub(super) menu: Menu,
    pub(super) advice: Advice,
    pub(super) margin: f64,
    pub(super) is_half: bool,
    pub(super) n_sessions: usize,
    /// Sessions that their product compacted.
    pub(super) n_compacted: usize,
    pub(super) validation: Option<Validation>,
    /// Sessions whose model's prices are known.
    pub(super) n_priced: usize,
}

impl Answer {
    pub(super) fn told(&self, of: &Compared) -> &'static str {
        let told = of.excess.told(self.margin);
        match told {
            Told::TooLittle => "too little",
            _ if of.is_mostly_over() => "does not fit",
            _ if !of.is_over_no_more() => "more over",
            _ if of.is_not_worse(self.margin, self.advice.kept.hi()) => "not worse",
            _ if of.is_worse(self.margin) => "worse",
            _ => "open",
        }
    }

    pub(super) fn dish(&self, of: &Compared) -> &Dish {
        &self.menu.candidates[of.candidate]
    }

    pub(super) fn page(&self) -> Vec<Block> {
        let sessions = count(self.n_sessions as u64, "session");
        let compacted = [self.n_compacted, self.n_sessions];
        let window = self.menu.told(self.is_half, compacted);
        let mut text = format!("{sessions}. {window}{}\n\n", self.reference_over());
        match &self.advice.chosen {
            Some(chosen) => text += &self.set(chosen),
            None => text += &self.kept(),
        }
        let mut page = vec![Block::Text(text)];
        match (&self.advice.chosen, self.menu.product) {
            (Some(chosen), Some((_, place))) => {
                page.push(Block::Text(format!("\nPaste into {place}:")));
                let paste = self.dish(chosen).paste.as_deref().unwrap_or_default();
                page.extend(paste.trim().lines().map(|line| Block::Line(format!("  {line}"))));
            }
            (None, Some((product, _))) => {
                page.push(Block::Text(format!("Nothing to paste: leave {product} as it is set.\n")));
            }
            (_, None) => {}
        }
        page.extend(self.frontier());
        page.extend(self.validation.iter().map(validated));
        page
    }

    /// How often the reference itself does not fit: it keeps there what could not be sent.
    fn reference_over(&self) -> String {
        let over = self.advice.reference_over().filter(|over| *over >= MANY_OVER);
        over.map_or_else(String::new, |over| {
            format!(
                " Of its prompts {} are over that window all the same: what it loses is told too low.",
                percent(over)
            )
        })
    }

    /// The recommendation with its reasons.
    fn set(&self, chosen: &Compared) -> String {
        let dish = self.dish(chosen);
        let excess = &chosen.excess;
        let values = match values(&dish.policy) {
            values if values.is_empty() => String::new(),
            values => format!("It sets {}.\n", values.join(", ")),
        };
        format!(
            "Set `{}`: {}.\n{values}\
             It sends {} and costs {}{}, on the newer {}; in {} of them it or the reference compressed something.\n\
             {} of its prompts are over the window.\n{}\n{}\n{}\n",
            dish.name,
            dish.words,
            tokens(chosen),
            beside(chosen.saved[2].unwrap_or(0.0), ["less", "as much"]),
            self.dollars(chosen),
            count(excess.n_sessions as u64, "session"),
            HumanCount(excess.n_affected as u64),
            percent(chosen.over().unwrap_or(0.0)),
            lost(excess, ""),
            self.why(chosen),
            self.money()
        )
    }

    /// What it costs beside the reference, where all prices are known.
    fn dollars(&self, chosen: &Compared) -> String {
        let [own, of_reference] = chosen.cost.map(|cost| cost / 1e6);
        match self.n_priced == self.n_sessions {
            true => format!(" (${own:.2} instead of ${of_reference:.2})"),
            false => String::new(),
        }
    }

    /// Why it counts as not worse.
    fn why(&self, chosen: &Compared) -> String {
        let excess = &chosen.excess;
        if excess.told(self.margin) == Told::NotWorse {
            let (value, upper) = (excess.value.unwrap_or(0.0), excess.bounds().map_or(0.0, |b| b.1));
            let bound = if upper < 0.0 { "at least" } else { "at most" };
            let least = excess.least_margin().unwrap_or(0.0);
            return format!(
                "Of the needs that either could lose it loses {}, {bound} {} (95 %), where {} more are allowed; so many sessions could tell {}. It held on the older sessions, too.",
                points_beside(value),
                points_beside(upper),
                points(self.margin),
                points(least)
            );
        }
        let (share, lower) = chosen.break_even.unwrap_or_default();
        format!(
            "The product would lose less only if its summaries kept more than {share:.2} of what they replace (at least {:.2}, with 95 %); in these sessions they kept {}.",
            lower.unwrap_or(0.0),
            shown(&self.advice.kept)
        )
    }

    pub(super) fn money(&self) -> String {
        let events = count(self.advice.n_events as u64, "time");
        // Where no summary is in question it says nothing.
        let is_asked = self.advice.all.iter().any(|of| of.break_even.is_some());
        let kept = match self.advice.kept.is_told() && is_asked {
            true => format!(
                " The summaries in these logs kept {} of what they replaced.",
                shown(&self.advice.kept)
            ),
            false => String::new(),
        };
        let priced = match self.n_priced == self.n_sessions {
            true => String::new(),
            false => format!(
                " Of {} the model's prices are not known: relative ones stand for them.",
                count((self.n_sessions - self.n_priced) as u64, "session")
            ),
        };
        format!(
            "The reference compressed {events}.{kept} Money counts prompts, answers and a broken prompt cache; writing summaries is not counted.{priced}"
        )
    }

    pub(super) fn json(&self) -> Value {
        let advice = &self.advice;
        json!({
            "reference": self.menu.reference.name, "window": self.menu.reference.policy.window,
            "reference_window": self.menu.own_window, "half_window": self.is_half,
            "sessions": self.n_sessions, "sessions_compacted": self.n_compacted, "sessions_priced": self.n_priced,
            "older_sessions": advice.n_halves[0], "newer_sessions": advice.n_halves[1],
            "reference_compressions": advice.n_events,
            "verdict": match advice.verdict {
                Verdict::Set => "set", Verdict::TooLittle => "too-little",
                Verdict::NoneCheaper => "none-cheaper", Verdict::Keep => "keep",
            },
            "splits": self.validation.map(|of| json!({
                "n": of.n_splits, "set": of.n_set, "within_margin": of.n_within_margin, "within_bound": of.n_within_bound,
            })),
            "summaries_kept": advice.kept.value, "summaries_kept_interval": advice.kept.interval.map(|(lo, hi)| [lo, hi]),
            "set": advice.chosen.as_ref().map(|chosen| self.row(chosen)),
            "paste": advice.chosen.as_ref().and_then(|chosen| self.dish(chosen).paste.as_deref().map(str::trim)),
            "all": advice.all.iter().map(|of| self.row(of)).collect::<Vec<_>>(),
        })
    }

    pub(super) fn row(&self, of: &Compared) -> Value {
        let excess = &of.excess;
        // Below the minimum there are counts alone.
        let is_told = excess.bounds().is_some();
        json!({
            "policy": self.dish(of).name, "does": self.dish(of).words, "told": self.told(of),
            "values": values(&self.dish(of).policy),
            "tokens_saved": of.saved[0], "tokens_saved_billed": of.saved[1], "money_saved": of.saved[2],
            "compressions": of.n_events, "prompts": of.n_prompts, "prompts_over_window": of.n_over[0], "prompts_over_window_by_reference": of.n_over[1],
            "sessions": excess.n_sessions, "affected_sessions": excess.n_affected,
            "needs": excess.n_needs, "needs_lost_one_by_one": excess.n_lost[0], "needs_lost_one_by_one_by_reference": excess.n_lost[1],
            "needs_weight": excess.weight, "needs_lost": excess.lost[0], "needs_lost_by_reference": excess.lost[1],
            "excess_loss": excess.value.filter(|_| is_told), "excess_loss_bounds": excess.bounds().map(|(lo, hi)| [lo, hi]),
            "retained_10th_percentile": excess.low.filter(|_| is_told), "least_margin": excess.least_margin(),
            "needs_more_lost_a_session": excess.more.value.filter(|_| is_told),
            "needs_more_lost_a_session_interval": excess.more.interval.filter(|_| is_told).map(|(lo, hi)| [lo, hi]),
            "break_even_share": of.break_even.filter(|of| of.1.is_some()).map(|(share, _)| share), "break_even_share_at_least": of.break_even.and_then(|b| b.1),
        })
    }
}

fn validated(of: &Validation) -> Block {
    let told = match of.n_set {
        0 => "nothing was to be set in any".to_owned(),
        n => format!(
            "something was to be set in {n}; on the other half it stayed within the margin of what the reference lost in {}, and within its upper bound in {}",
            of.n_within_margin, of.n_within_bound
        ),
    };
    Block::Text(format!("\nOf {} halves, drawn by lot, {told}.", HumanCount(u64::from(of.n_splits))))
}

pub(super) fn lost(excess: &Excess, beside: &str) -> String {
    let [own, of_reference] = excess.n_lost.map(HumanCount);
    let more = &excess.more;
    let each = match more.value {
        Some(value) if value < 0.0 => {
            let turned = Estimate {
                value: Some(-value),
                interval: more.interval.map(|(lo, hi)| (-hi, -lo)),
                ..more.clone()
            };
            format!("{} fewer", shown(&turned))
        }
        _ => format!("{} more", shown(more)),
    };
    format!("It loses {own} needs where the reference loses {of_reference}{beside}: {each} a session.")
}

/// Tokens beside those of the reference, in ours and as billed.
pub(super) fn tokens(of: &Compared) -> String {
    let [tokens, billed, _] = of.saved;
    let beside = |share| beside(share, ["fewer", "as many"]);
    let billed = billed.map_or_else(String::new, |share| format!(" ({} as billed)", beside(share)));
    format!("{} tokens{billed}", beside(tokens.unwrap_or(0.0)))
}

/// A share that is saved, in words: what is below nothing is more, and what would read 0 % is as much.
pub(super) fn beside(saved: f64, [less, same]: [&str; 2]) -> String {
    let share = percent(saved.abs());
    let word = if saved < 0.0 { "more" } else { less };
    if share == percent(0.0) { same.to_owned() } else { format!("{share} {word}") }
}

pub(super) fn points_beside(more: f64) -> String {
    let word = if more < 0.0 { "less" } else { "more" };
    format!("{} {word}", points(more.abs()))
}

pub(super) fn none() -> String {
    "-".to_owned()
}

/// A share as points of a hundred.
pub(super) fn points(share: f64) -> String {
    format!("{:.1} %", (1000.0 * share).round() / 10.0 + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_nothing_is_told_the_other_way_round() {
        let told = [0.38, -0.38, 0.004, -0.004].map(|saved| beside(saved, ["less", "as much"]));
        assert_eq!(told, ["38 % less", "38 % more", "as much", "as much"]);
        let set = values(&crate::policies::find("mini-swe-agent").unwrap().policy);
        assert!(
            set.contains(&"trigger.always = true".to_owned())
                && set.contains(&"strategy.head = 5000".to_owned()),
            "{set:?}"
        );
        assert_eq!([0.01, -0.01].map(points_beside), ["1.0 % more", "1.0 % less"]);
    }
}
