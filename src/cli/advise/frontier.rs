//! The table of what costs less than the reference, and what it loses.

use indicatif::HumanCount;

use super::super::count;
use super::super::page::{Block, percent};
use super::answer::{Answer, none};
use crate::advice::Compared;

/// Policies that are shown.
const SHOWN: usize = 8;

impl Answer {
    /// What else there is: cheaper by so much, at so many needs more.
    pub(super) fn frontier(&self) -> Vec<Block> {
        let cheaper: Vec<&Compared> = self.advice.all.iter().filter(|of| of.is_cheaper()).collect();
        let n = cheaper.len();
        if n == 0 {
            return Vec::new();
        }
        // Who costs more and loses as much, of what was compressed and a session, is no choice.
        let mut least = [f64::INFINITY; 2];
        let mut shown: Vec<&Compared> = cheaper.iter().copied().filter(|of| of.is_over_no_more()).collect();
        let n_fit = shown.len();
        shown.retain(|of| {
            let excess = of.at_best.as_ref().unwrap_or(&of.excess);
            let values = [excess.value, excess.more.value].map(|value| value.unwrap_or(f64::INFINITY));
            let is_better = values.iter().zip(&least).any(|(value, least)| value < least);
            (0..least.len()).for_each(|i| least[i] = least[i].min(values[i]));
            is_better
        });
        shown.truncate(SHOWN);
        if shown.is_empty() {
            let [cost, have, lose] =
                if n == 1 { ["costs", "has", "loses"] } else { ["cost", "have", "lose"] };
            let why = if n_fit == 0 {
                format!("{have} more prompts over the window than it")
            } else {
                format!("{lose} nothing that can be counted: what went was not used again")
            };
            let all = count(n as u64, "policy");
            return vec![Block::Text(format!(
                "\nNo table: {all} {cost} less than the reference, and {why} (`--json` has all).\n"
            ))];
        }
        // Of the ends of a bracket neither is what a product loses: there the break-even share tells.
        let is_bracket = shown.iter().any(|of| breaks_even(of).is_some());
        let is_told = shown.iter().any(|of| breaks_even(of).is_none());
        let ends = [(is_told, "loses more"), (is_bracket, "breaks even at")].into_iter().filter(|of| of.0);
        let mut head =
            ["policy", "costs less", "billed tokens less", "over the window", "affected", "needs lost"]
                .to_vec();
        head.extend(ends.map(|(_, name)| name));
        head.push("told");
        let mut rows = vec![head.into_iter().map(str::to_owned).collect()];
        rows.extend(shown.iter().map(|of| self.cells(of, [is_told, is_bracket])));
        vec![
            Block::Text(format!(
                "\nPolicies that cost less than the reference, over all {}:\n",
                count(self.n_sessions as u64, "session")
            )),
            Block::Table { rows, spare: vec![2, 3, 5, 4] },
            Block::Text(self.notes(&shown, is_bracket, [n - n_fit, n_fit - shown.len()])),
        ]
    }

    /// The row of one that costs less; whether it has a cell for what it loses more, and for where it breaks even.
    fn cells(&self, of: &Compared, [is_told, is_bracket]: [bool; 2]) -> Vec<String> {
        let excess = &of.excess;
        let best = of.at_best.as_ref().map(|best| (best.n_lost[0], best.value.unwrap_or(0.0)));
        let more = match best {
            Some((_, best)) => format!("{best:+.2} to {:+.2}", excess.value.unwrap_or(0.0)),
            None => excess.value.zip(excess.bounds()).map_or_else(none, between),
        };
        let even = match breaks_even(of) {
            None => none(),
            Some((share, _)) if share <= 0.0 => "below 0".to_owned(),
            Some((share, lower)) if lower > 0.0 => format!("{share:.2} (at least {lower:.2})"),
            Some((share, _)) => format!("{share:.2} (perhaps below 0)"),
        };
        // Below the minimum there are counts alone.
        let more = if breaks_even(of).is_some() || excess.bounds().is_none() { none() } else { more };
        let lost = format!("{} of {}", HumanCount(excess.n_lost[0]), HumanCount(excess.n_needs));
        let mut cells = vec![
            self.dish(of).name.clone(),
            of.saved[2].map_or_else(none, percent),
            of.saved[1].map_or_else(none, percent),
            of.over().map_or_else(none, percent),
            HumanCount(excess.n_affected as u64).to_string(),
            best.map_or_else(String::new, |(lost, _)| format!("{} to ", HumanCount(lost))) + &lost,
        ];
        cells.extend([(is_told, more), (is_bracket, even)].into_iter().filter(|of| of.0).map(|of| of.1));
        cells.push(self.told(of).to_owned());
        cells
    }

    /// What the words of the table mean, and how many are not in it: with more prompts over the window, and no better than a cheaper one.
    fn notes(&self, shown: &[&Compared], is_bracket: bool, [n_over, n_more]: [usize; 2]) -> String {
        let mut text = "\nA need is something the agent used that it had last seen more than 3 turns before; of the needs whose text was compressed so many are lost.".to_owned();
        let mut of_told = shown.iter().filter(|of| breaks_even(of).is_none()).peekable();
        if of_told.peek().is_some() {
            let ideal = if of_told.any(|of| of.break_even.is_some()) { " with ideal summaries" } else { "" };
            text += &format!(
                " Loses more: than the reference{ideal}, as a share of all such needs that either could lose, those of one turn counted as one, with one-sided 95 % bounds."
            );
        }
        if is_bracket {
            text += " Breaks even: the share of what the product's summaries replace that they have to keep to lose as little, and its lower bound (95 %). Not worse: the bound is above what they keep in these logs, even at the upper end of that.";
        }
        if is_bracket && shown.iter().any(|of| of.break_even.is_none() && of.at_best.is_none()) {
            text += " Where both write the same summaries there is no such share.";
        }
        if shown.iter().any(|of| self.told(of) == "open") {
            text += " Open: the sessions show neither that it is worse nor that it is as good.";
        }
        if shown.iter().any(|of| of.at_best.is_some()) {
            text += " From ... to: with ideal and with empty summaries, where it writes some of its own; no replay without a model tells which they are like.";
        }
        for (n, what) in [
            (n_over, "with more prompts over the window than the reference"),
            (n_more, "that lose as much as a cheaper one, or more"),
        ] {
            if n > 0 {
                text += &format!(" Not shown: {n} {what} (`--json` has them).");
            }
        }
        text
    }
}

/// Where it breaks even, if that can be told: not where the product loses next to nothing without any summary.
fn breaks_even(of: &Compared) -> Option<(f64, f64)> {
    of.break_even.and_then(|(share, lower)| Some((share, lower?)))
}

/// A difference with its bounds; where all sessions lose alike there are none.
fn between((value, (lo, hi)): (f64, (f64, f64))) -> String {
    match (hi - lo < 5e-4, hi - lo < 5e-3) {
        (true, _) => format!("{value:+.2} in each"),
        (_, true) => format!("{value:+.3} [{lo:+.3}, {hi:+.3}]"),
        _ => format!("{value:+.2} [{lo:+.2}, {hi:+.2}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::page::lay_out;
    use super::super::menu::Menu;
    use super::*;
    use crate::advice::{Advice, Fails, Verdict};
    use crate::report::statistics::estimate::Estimate;
    use crate::report::statistics::excess::{Excess, Pair};

    /// Twelve sessions of which it loses so many needs of eight, beside two of the reference.
    fn compared(candidate: usize, lost: f64, break_even: Option<(f64, Option<f64>)>) -> Compared {
        let pair = |cluster: u32| {
            let lost = [lost + f64::from(cluster % 2), 2.0];
            let n_lost = lost.map(|lost| lost as u64);
            // Of each turn two.
            let lost = lost.map(|lost| lost / 2.0);
            Pair { cluster, stratum: 0, is_affected: true, n_needs: 8, weight: 4.0, lost, n_lost }
        };
        Compared {
            candidate,
            saved: [Some(0.3), Some(0.3), Some(0.2)],
            cost: [80.0, 100.0],
            n_events: 12,
            n_prompts: 40,
            n_over: [0, 0],
            excess: Excess::of(&(0..12).map(pair).collect::<Vec<_>>()),
            with_empty: None,
            at_best: None,
            to_empty: None,
            fails: Default::default(),
            break_even,
        }
    }

    fn answer(all: Vec<Compared>) -> Answer {
        let (n_halves, kept) = ([6, 6], Estimate::default());
        let advice =
            Advice { n_halves, most: (48, 6), n_events: 9, kept, chosen: None, all, verdict: Verdict::Keep };
        let menu = Menu::of(Some("claude-code"), 0).unwrap();
        Answer {
            menu,
            advice,
            margin: 0.05,
            is_half: false,
            n_sessions: 12,
            n_compacted: 0,
            validation: None,
            n_priced: 12,
        }
    }

    fn rows(all: Vec<Compared>) -> Vec<Vec<String>> {
        let blocks = answer(all).frontier();
        let table = blocks.into_iter().find_map(|block| match block {
            Block::Table { rows, .. } => Some(rows),
            _ => None,
        });
        table.unwrap().into_iter().map(|row| row[5..].to_vec()).collect()
    }

    /// What is missing is told, half by half; more sessions are asked for only where they are what is missing.
    #[test]
    fn the_reason_that_holds_is_told() {
        let told = |fails: [Vec<Fails>; 2]| {
            let page = answer(vec![Compared { fails, ..compared(0, 1.4, None) }]).page();
            match &page[0] {
                Block::Text(text) => text.clone(),
                _ => unreachable!("a text comes first"),
            }
        };
        let money = told([vec![], vec![Fails::Saves(Some(0.0068))]]);
        assert!(
            money.contains(", but in the newer half it costs 0.7 % less, where 1 % less are asked for."),
            "{money}"
        );
        assert!(!money.contains("would tell") && !money.contains("as good"), "{money}");
        assert!(money.contains("cost at least 1 % less, have no more prompts over"), "{money}");
        // The figure of the best one, with its interval.
        assert!(
            money.contains("` loses the fewest needs a session. It loses 18")
                && money.contains(" fewer a session."),
            "{money}"
        );
        let both = told([vec![Fails::NotShown], vec![Fails::Over, Fails::NotShown]]);
        assert!(
            both.contains("in the older half it is not shown to be as good, in the newer half it has more prompts over the window and is not shown to be as good."),
            "{both}"
        );
        // What holds in each half and is not set is told of, too.
        let held = told([vec![], vec![]]);
        assert!(
            held.contains("the cheapest that holds on the older half of the sessions does not on the newer"),
            "{held}"
        );
        assert!(
            held.contains("and in each half; but one that costs still less was chosen on the older"),
            "{held}"
        );
        let sessions = told([vec![Fails::NotShown], vec![]]);
        assert!(sessions.contains("would tell of") && sessions.contains("could tell a margin"), "{sessions}");
    }

    /// All sessions have enough of them; the older half has not.
    #[test]
    fn how_many_more_would_tell_is_reckoned_from_the_half_that_lacks_them() {
        let mut few = answer(vec![compared(0, 5.0, None)]);
        few.advice.verdict = Verdict::TooLittle;
        (few.n_sessions, few.advice.n_halves, few.advice.most) = (24, [12, 12], (135, 9));
        let page = few.page();
        assert!(
            matches!(&page[0], Block::Text(text) if text.contains("About 3 sessions more, like these, would have that.")),
            "{page:?}"
        );
    }

    /// Where the product loses next to nothing without any summary, what others lose more is told.
    #[test]
    fn without_a_share_to_keep_what_is_lost_more_is_told() {
        let rows = rows(vec![compared(0, 5.0, Some((-3.0, None)))]);
        assert_eq!(rows[0], ["needs lost", "loses more", "told"]);
        assert!(rows[1][1].starts_with("+0.44 ["), "{rows:?}");
    }

    /// One that compresses ten times as much may lose a smaller share of that, and more needs a session.
    #[test]
    fn what_loses_the_fewest_needs_is_named_and_shown() {
        let few = compared(1, 5.0, None);
        let pair = |cluster| Pair {
            cluster,
            stratum: 0,
            is_affected: true,
            n_needs: 80,
            weight: 40.0,
            lost: [9.0 + f64::from(cluster % 2), 1.0],
            n_lost: [19, 2],
        };
        let excess = Excess::of(&(0..12).map(pair).collect::<Vec<_>>());
        assert!(excess.value < few.excess.value && excess.more.value > few.excess.more.value);
        let many = Compared { excess, cost: [70.0, 100.0], ..compared(0, 0.0, None) };
        let answer = answer(vec![many, few]);
        let named =
            format!("enough to tell, `{}` loses the fewest needs a session.", answer.menu.candidates[1].name);
        assert!(matches!(&answer.page()[0], Block::Text(text) if text.contains(&named)), "{named}");
        let rows = answer.frontier().into_iter().find_map(|block| match block {
            Block::Table { rows, .. } => Some(rows.len()),
            _ => None,
        });
        assert_eq!(rows, Some(3));
    }

    /// Few needs are counted, and nothing is reckoned from them.
    #[test]
    fn below_the_minimum_there_are_counts_alone() {
        let few = |even| {
            let of = compared(1, 5.0, even);
            let pair = |cluster| Pair {
                cluster,
                stratum: 0,
                is_affected: true,
                n_needs: 2,
                weight: 2.0,
                lost: [2.0, 0.0],
                n_lost: [2, 0],
            };
            Compared { excess: Excess::of(&(0..3).map(pair).collect::<Vec<_>>()), ..of }
        };
        assert_eq!(rows(vec![few(None)])[1], ["6 of 6", "-", "too little"]);
        assert_eq!(rows(vec![few(Some((0.3, None)))])[1], ["6 of 6", "-", "too little"]);
        let of = few(Some((0.3, None)));
        let json = answer(vec![of.clone()]).row(&of);
        let none =
            ["excess_loss", "break_even_share", "retained_10th_percentile", "needs_more_lost_a_session"];
        for key in none.into_iter().chain(["needs_more_lost_a_session_interval"]) {
            assert!(json[key].is_null(), "{key}: {json}");
        }
    }

    #[test]
    fn an_interval_without_width_is_none() {
        assert_eq!(between((1.0, (1.0, 1.0))), "+1.00 in each");
        assert_eq!(between((0.9985, (0.997, 1.0))), "+0.999 [+0.997, +1.000]");
        assert_eq!(between((0.5, (0.25, 0.75))), "+0.50 [+0.25, +0.75]");
    }

    /// On how many sessions a figure stands is asked for: other columns go first.
    #[test]
    fn how_many_are_affected_goes_last() {
        let text = lay_out(&answer(vec![compared(1, 5.0, None)]).frontier(), 60);
        assert!(text.contains("affected") && text.contains("no room here for: billed"), "{text}");
        assert!(!text.lines().any(|line| line.contains("no room") && line.contains("affected")), "{text}");
    }

    /// A share to keep and what is lost more are two quantities, and no row has both.
    #[test]
    fn where_it_breaks_even_stands_apart_from_what_it_loses() {
        let even = || compared(0, 5.0, Some((0.3, Some(0.2))));
        let both = rows(vec![even(), compared(1, 2.0, None)]);
        // What is lost is counted one by one, as what is needed to tell.
        assert_eq!(both[0], ["needs lost", "loses more", "breaks even at", "told"]);
        assert_eq!(both[1][..3], ["66 of 96", "-", "0.30 (at least 0.20)"]);
        assert!(
            both[2][0] == "30 of 96" && both[2][1].starts_with("+0.06 [") && both[2][2] == "-",
            "{both:?}"
        );
        let perhaps = rows(vec![compared(0, 5.0, Some((0.3, Some(-0.2))))]);
        assert_eq!(perhaps[1][1], "0.30 (perhaps below 0)");
        assert_eq!(rows(vec![even()])[0][1..], ["breaks even at", "told"]);
        assert_eq!(rows(vec![compared(1, 2.0, None)])[0][1..], ["loses more", "told"]);
        // Where none fits as often as the reference that is said.
        let text = answer(vec![Compared { n_over: [3, 0], ..even() }]).frontier();
        assert!(
            matches!(&text[..], [Block::Text(text)] if text.contains("1 policy costs less") && text.contains("has more prompts over the window"))
        );
    }
}
