//! What `trajpress try` prints: a sentence, a table, and the lines that were lost.

use std::collections::BTreeSet;

use indicatif::HumanCount;
use serde_json::json;

use super::super::page::{Block, percent};
use super::super::policies::{FULL, is_floor, policy};
use super::super::{count, inspect};
use super::models::{self, Session};
use super::{FEW_SESSIONS, TAIL, windows};
use crate::experiment::cell::Loss;
use crate::experiment::plan::Variant;
use crate::experiment::{Dataset, Plan};
use crate::report::brief::{Brief, BriefRow};
use crate::scores::money::Prices;
use crate::text::escape;

const SHOWN_LINES: usize = 5;
/// Of a name or a line that was lost.
const MOST_CHARS: usize = 100;
/// Columns of the table.
const HEAD: [&str; 7] = [
    "policy",
    "tokens saved",
    "as billed",
    "money saved",
    "needs lost a session",
    "worst session",
    "sessions affected",
];
const BILLED: usize = 2;
const LOST: usize = 4;
const WORST: usize = 5;

/// What is printed.
pub(super) struct Answer<'a> {
    pub(super) plan: &'a Plan,
    pub(super) brief: &'a Brief,
    pub(super) data: &'a Dataset,
    /// By place of the session in the data.
    pub(super) lost: Vec<(usize, Loss)>,
    /// Those that were replayed.
    pub(super) sessions: Vec<Session>,
    /// What the user said of their windows.
    pub(super) window: Option<u64>,
}

impl Answer<'_> {
    pub(super) fn json(&self) -> serde_json::Value {
        let rows = self.brief.rows.iter().map(|row| {
            json!({
                "variant": row.variant, "policy": self.policy(&row.variant), "control": row.control,
                "sessions": row.n_sessions, "affected_sessions": row.affected, "tokens_saved": row.tokens.map(rounded),
                "sessions_with_tokens": row.n_counted, "sessions_with_usage": row.n_billed,
                "tokens_saved_billed": row.billed.map(rounded), "money_saved": row.money.map(rounded),
                "needs_lost_a_session": row.lost.map(|l| rounded(l.0)),
                "needs_lost_a_session_interval": row.lost.and_then(|l| l.1).map(|(lo, hi)| [rounded(lo.max(0.0)), rounded(hi)]),
                "needs_lost": rounded(row.lost_of.0), "needs": rounded(row.lost_of.1),
                "worst_session": row.worst.as_ref().map(|w| &w.0), "worst_session_lost": row.worst.as_ref().map(|w| w.1),
                "tokens_sent": rounded(row.tokens_of.0), "tokens_full": rounded(row.tokens_of.1), "compressions": row.n_events,
                "cost": self.dollars(row.cost_of.0).map(rounded), "cost_full": self.dollars(row.cost_of.1).map(rounded),
                "floor": self.variant(&row.variant).is_some_and(is_floor), "invariants_violated": row.n_violations,
            })
        });
        let lost = self.lost.iter().map(|(index, loss)| {
            json!({
                "session": self.data.entries()[*index].id, "what": loss.atom, "line": loss.line, "stood_at": loss.stood,
                "last_seen_at": loss.seen, "needed_at": loss.needed, "lost_by": loss.variants,
            })
        });
        let sessions = self.sessions.iter().map(|session| {
            let is_priced = Prices::known(session.model.as_deref().unwrap_or_default()).is_some();
            json!({
                "session": session.id, "source": session.source, "model": session.model, "own_prices_known": is_priced,
                "cached_an_hour": session.cached_an_hour, "calls": session.n_calls, "calls_of_other_models": session.others,
                "window": self.window.unwrap_or(session.window.tokens), "window_asked_for": self.window.is_some(),
                "window_guessed": self.window.is_none() && !session.window.is_known, "window_of_some": session.window.wider,
                "first_prompt": session.first_prompt, "longest_prompt": session.longest_prompt,
            })
        });
        json!({
            "sessions": self.brief.n_sessions, "sessions_found": self.data.entries().len(), "prices": self.plan.prices.name,
            "prices_of_each_session": self.plan.prices.own, "models": sessions.collect::<Vec<_>>(),
            "policies": rows.collect::<Vec<_>>(), "lost_lines": lost.collect::<Vec<_>>(),
        })
    }

    /// A variant's policy in words.
    fn policy(&self, id: &str) -> String {
        self.variant(id).map_or_else(|| id.to_owned(), policy)
    }

    fn variant(&self, id: &str) -> Option<&Variant> {
        self.plan.variants.iter().find(|v| v.id == id)
    }

    /// The sentence, the table, and what its columns are.
    pub(super) fn page(&self) -> Vec<Block> {
        let (acting, idle): (Vec<&BriefRow>, Vec<&BriefRow>) =
            self.brief.rows.iter().filter(|row| !self.is_full(row)).partition(|row| acts(row));
        let mut text = String::from("\n");
        let (n, n_all) = (self.brief.n_sessions, self.data.entries().len());
        if n < n_all {
            text += &format!(
                "A sample: {} of {}, drawn by lot; more do not fit the budget.\n",
                count(n as u64, "session"),
                HumanCount(n_all as u64)
            );
        }
        text += &format!("{}\n\n", self.sentence());
        if acting.is_empty() {
            return vec![Block::Text(text + &windows::told(&self.sessions, self.window))];
        }
        text += &(self.whole() + "\n\n");
        let mut page = vec![Block::Text(text), self.table(&acting)];
        let mut text = String::new();
        if !idle.is_empty() {
            let names: Vec<String> = idle.iter().map(|row| self.policy(&row.variant)).collect();
            text += &format!("Without effect here: {}.\n", names.join("; "));
        }
        let broken = self.brief.rows.iter().filter(|row| row.n_violations > 0);
        let broken: Vec<String> =
            broken.map(|row| format!("{} ({})", self.policy(&row.variant), row.n_violations)).collect();
        if !broken.is_empty() {
            text += &format!(
                "Compressions that broke a rule, such as to be no longer than the original, which then stays: {}; see n_violations \
                 in summary.csv.\n",
                broken.join("; ")
            );
        }
        text += "\n";
        text += &self.needs();
        page.push(Block::Text(text));
        if !self.is_few() {
            let about = |column: usize, said: &str| Block::About {
                column: HEAD[column].to_owned(),
                said: vec![Block::Text(said.to_owned())],
            };
            page.push(about(WORST, "Worst session: its name, and its needs lost."));
            page.push(about(WORST + 1, "Sessions affected: something was compressed."));
        }
        let mut text = self.billed();
        text += &models::priced(&self.plan.prices, &self.sessions);
        text += &format!("A cache lives {}.\n", models::cached(&self.plan.prices, &self.sessions));
        text += &self.policies();
        text += &windows::told(&self.sessions, self.window);
        page.push(Block::Text(text));
        page.extend(self.worst_sources());
        page.extend(self.lines());
        page
    }

    fn table(&self, rows: &[&BriefRow]) -> Block {
        let few = self.is_few();
        let mut head = HEAD;
        if few {
            (head[LOST], head[WORST + 1]) = ("needs lost", "compressions");
        }
        let mut table = vec![head.map(str::to_owned).to_vec()];
        table.extend(rows.iter().map(|row| self.row(row)));
        // The worst session of one says nothing, and a column without usage neither.
        let mut left_out = Vec::new();
        if self.brief.n_sessions == 1 {
            left_out.push(WORST);
        }
        if rows.iter().all(|row| row.n_billed == 0) {
            left_out.push(BILLED);
        }
        for &column in &left_out {
            table.iter_mut().for_each(|row| drop(row.remove(column)));
        }
        let shift = |column: usize| column - left_out.iter().filter(|&&gone| gone < column).count();
        let spare = [WORST, WORST + 1].into_iter().filter(|column| !left_out.contains(column));
        Block::Table { rows: table, spare: spare.map(shift).collect() }
    }

    /// What was sent with nothing compressed, which all is measured against.
    fn whole(&self) -> String {
        let Some(full) = self.brief.rows.iter().find(|row| self.is_full(row)) else { return String::new() };
        let n = self.brief.n_sessions;
        let of = |sessions: usize| match sessions == n {
            true => String::new(),
            false => format!(" in {} of them", HumanCount(sessions as u64)),
        };
        let mut parts = vec![
            count(n as u64, "session"),
            format!("{} tokens of prompts{}", short(full.tokens_of.1), of(full.n_counted)),
        ];
        if full.n_billed > 0 {
            parts.push(format!("{} as billed{}", short(full.billed_of.1), of(full.n_billed)));
        }
        if let Some(dollars) = self.dollars(full.cost_of.1) {
            parts.push(match dollars < 100.0 {
                true => format!("about ${dollars:.2}"),
                false => format!("about ${}", HumanCount(dollars.round() as u64)),
            });
        }
        parts.push(format!("{} needs", HumanCount(full.lost_of.1.round() as u64)));
        format!("Nothing compressed: {}. Of these, saved and lost:", parts.join(", "))
    }

    /// What needs are.
    fn needs(&self) -> String {
        let mut text = format!(
            "A need is something the agent used that it had last seen more than {TAIL} turns before, counted at each use. It is lost \
             where a policy left it out of the prompt, or without the words that say what it is.\n"
        );
        if !self.is_few() {
            if self.brief.rows.iter().any(|row| mean(row).is_some_and(|(_, interval)| interval.is_some())) {
                text += "In brackets: 95 % intervals for more sessions like these. ";
            }
            text += "`k of n`: of all needs, where too few are lost for a mean.\n";
        }
        text
    }

    /// What as billed is, and of how many sessions.
    fn billed(&self) -> String {
        let full = self.brief.rows.iter().find(|row| self.is_full(row));
        match full.map_or((0, 0), |row| (row.n_billed, row.n_counted)) {
            (0, _) => {
                "No log has usage, so nothing is known of what it does not show (system prompt, tools).\n"
                    .to_owned()
            }
            (n, all) => {
                let of = match n == all {
                    true => String::new(),
                    false => format!(
                        "; over the {} whose logs have usage, and not over all",
                        count(n as u64, "session")
                    ),
                };
                format!("As billed: with what the log does not show (system prompt, tools){of}.\n")
            }
        }
    }

    /// What the policies do.
    fn policies(&self) -> String {
        let mut text = format!(
            "A turn is one call of the model with its results. Mask: results older than {TAIL} turns give way to a placeholder. \
             Drop: turns older than that go. List: only their calls stay. Random tenth: a control, a tenth of the old text stays, \
             drawn by lot. Floor: it keeps little but the last {TAIL} turns at all times.\n"
        );
        if self.plan.variants.iter().any(|variant| variant.strategy == "as-sent") {
            text += "As the log was sent: with what the agent's own product took out, as the log says.\n";
        }
        text
    }

    fn row(&self, row: &BriefRow) -> Vec<String> {
        let few = self.is_few();
        let [tokens, billed] =
            [(row.tokens, row.tokens_of), (row.billed, row.billed_of)].map(|(saved, of)| match saved {
                Some(_) if few => short(of.1 - of.0),
                Some(saved) => percent(saved),
                None => "not known".to_owned(),
            });
        let (lost, of) = (row.lost_of.0.round() as u64, row.lost_of.1.round() as u64);
        let needs = match mean(row).filter(|_| !few) {
            Some((value, Some((lo, hi)))) => format!("{value:.1} [{:.1}, {hi:.1}]", lo.max(0.0)),
            Some((value, None)) => format!("{value:.1}"),
            None => format!("{} of {}", HumanCount(lost), HumanCount(of)),
        };
        // What rounds to none is none.
        let worst = worst(row).map(|(id, lost)| format!("{} {lost}", self.name(id)));
        vec![
            self.policy(&row.variant),
            tokens,
            billed,
            self.money(row),
            needs,
            worst.unwrap_or_else(|| "none".to_owned()),
            match few {
                true => row.n_events.to_string(),
                false => {
                    format!("{} of {}", HumanCount(row.affected as u64), HumanCount(row.n_sessions as u64))
                }
            },
        ]
    }

    fn is_full(&self, row: &BriefRow) -> bool {
        self.variant(&row.variant).is_some_and(|variant| variant.strategy == FULL)
    }

    /// Whether there are too few sessions for shares.
    fn is_few(&self) -> bool {
        self.brief.n_sessions <= FEW_SESSIONS
    }

    /// Millionths of a price as dollars; none where not all prices are known.
    fn dollars(&self, cost: f64) -> Option<f64> {
        models::are_dollars(&self.plan.prices, &self.sessions).then_some(cost / 1e6)
    }

    /// Money saved: of few sessions in dollars.
    fn money(&self, row: &BriefRow) -> String {
        match [row.cost_of.0, row.cost_of.1].map(|cost| self.dollars(cost)) {
            [Some(cost), Some(full)] if self.is_few() && full > 0.0 => {
                let saved = (100.0 * (full - cost)).round() / 100.0;
                let sign = if saved < 0.0 { "-" } else { "" };
                format!("{sign}${:.2}", saved.abs())
            }
            _ => row.money.map_or_else(|| "not known".to_owned(), percent),
        }
    }

    fn session(&self, id: &str) -> Option<&Session> {
        self.sessions.iter().find(|session| session.id == id)
    }

    fn name(&self, id: &str) -> &str {
        self.session(id).map_or("", |session| session.name.as_str())
    }

    /// Where the worst sessions stand.
    fn worst_sources(&self) -> Vec<Block> {
        let ids: BTreeSet<&str> = self.brief.rows.iter().filter_map(|row| Some(worst(row)?.0)).collect();
        if ids.is_empty() {
            return Vec::new();
        }
        let head = if self.brief.n_sessions == 1 { "The session:" } else { "Where the worst sessions are:" };
        let mut told = vec![Block::Line(head.to_owned())];
        let sessions = ids.iter().take(SHOWN_LINES).filter_map(|id| self.session(id));
        told.extend(sessions.map(|s| Block::Line(format!("  {}: {}", s.name, escape::line(&s.source)))));
        if let more @ 1.. = ids.len().saturating_sub(SHOWN_LINES) {
            told.push(Block::Line(format!("  and {}", count(more as u64, "more session"))));
        }
        match self.brief.n_sessions {
            1 => told,
            _ => vec![Block::About { column: HEAD[WORST].to_owned(), said: told }],
        }
    }

    /// What saves the most money, what loses the least, and at what price.
    fn sentence(&self) -> String {
        let is_tried = |row: &&BriefRow| !row.control && !self.variant(&row.variant).is_some_and(is_floor);
        let acting = || self.brief.rows.iter().filter(is_tried).filter(|row| row.affected > 0);
        let saving: Vec<(f64, &BriefRow)> =
            acting().filter_map(|row| Some((row.money.filter(|money| *money >= 0.005)?, row))).collect();
        let dearest = saving.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let gentlest =
            saving.iter().min_by(|a, b| a.1.lost_of.0.total_cmp(&b.1.lost_of.0).then(b.0.total_cmp(&a.0)));
        let sessions = count(self.brief.n_sessions as u64, "session");
        let lost = |row: &BriefRow| {
            let [lost, of] = [row.lost_of.0, row.lost_of.1].map(|needs| HumanCount(needs.round() as u64));
            format!("{lost} of {of} needs")
        };
        // What saves much in few sessions does not do so in all.
        let money = |row: &BriefRow| match 2 * row.affected < row.n_sessions {
            true => {
                format!("{} (it acts in {} of {sessions})", self.money(row), HumanCount(row.affected as u64))
            }
            false => self.money(row),
        };
        let named = |(_, row): &(f64, &BriefRow)| (self.policy(&row.variant), money(row), lost(row));
        match (dearest.map(named), gentlest.map(named)) {
            (Some((most, money, lost)), Some((least, little, few))) => {
                let gentle = match most == least {
                    true => ", and no other that saves money loses fewer".to_owned(),
                    false => {
                        format!(".\n`{least}` loses the fewest of those that save any: {few}, for {little}")
                    }
                };
                format!("Over {sessions}, `{most}` saves the most money: {money}, and loses {lost}{gentle}.")
            }
            _ if acting().any(|row| row.money.is_some_and(|money| money <= -0.005)) => format!(
                "Over {sessions}, no policy saves money: a broken prompt cache costs more than what is left out."
            ),
            _ if acting().next().is_some() => {
                format!("Over {sessions}, no policy saves as much as 1 % of the money.")
            }
            _ => {
                let short = if self.brief.n_sessions == 1 { "it is" } else { "the sessions are" };
                format!("Over {sessions}, no policy had anything to compress: {short} too short.")
            }
        }
    }

    /// The lines that most policies lost.
    fn lines(&self) -> Vec<Block> {
        if self.lost.is_empty() {
            return Vec::new();
        }
        let mut worst: Vec<&(usize, Loss)> = self.lost.iter().collect();
        worst.sort_by_key(|(index, loss)| {
            (std::cmp::Reverse((loss.variants.len(), loss.needed - loss.seen)), *index, loss.needed)
        });
        // One line is told once, however much of it was needed.
        let mut told = std::collections::HashSet::new();
        worst.retain(|(index, loss)| told.insert((*index, &loss.line)));
        let n = worst.len().min(SHOWN_LINES);
        let mut text = format!(
            "\nLines that were needed and policies lost, the worst {n} of {}. The line that says what a name is stands at one turn; the name comes \
             last at that turn or a later one, before it is needed.\n",
            worst.len()
        );
        for (index, loss) in worst.into_iter().take(SHOWN_LINES) {
            text += &format!(
                "  {}: `{}` in \"{}\"\n    stands at turn {}, name last at {}, needed at {}; lost by {}\n",
                self.name(&self.data.entries()[*index].id),
                inspect::line(&loss.atom, MOST_CHARS),
                inspect::line(loss.line.trim(), MOST_CHARS),
                loss.stood,
                loss.seen,
                loss.needed,
                match loss.variants.len() {
                    1 => "1 policy".to_owned(),
                    n => format!("{n} policies"),
                }
            );
        }
        vec![Block::Text(text)]
    }
}

/// The session that lost most, if any lost something.
fn worst(row: &BriefRow) -> Option<(&str, u64)> {
    row.worst.as_ref().map(|(id, lost)| (id.as_str(), *lost))
}

/// Needs lost a session, with the interval, where there are enough.
fn mean(row: &BriefRow) -> Option<(f64, Option<(f64, f64)>)> {
    row.lost.filter(|(value, _)| *value >= 0.05)
}

/// Whether a policy did anything.
fn acts(row: &BriefRow) -> bool {
    row.affected > 0 || row.tokens.is_some_and(|saved| saved != 0.0)
}

/// To the sixth place: what is computed says no more.
fn rounded(x: f64) -> f64 {
    (1e6 * x).round() / 1e6
}

/// A number of tokens in a few characters.
fn short(n: f64) -> String {
    match n.abs() {
        n_abs if n_abs < 999.5 => format!("{:.0}", n.round() + 0.0),
        n_abs if n_abs < 999_500.0 => format!("{:.0} k", n / 1e3),
        _ => format!("{:.1} M", n / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rounds_to_nothing_has_no_sign() {
        assert_eq!([-0.003, 0.256].map(percent), ["0 %", "26 %"]);
        assert_eq!([-0.2, 7.0, 12_345.0, 999_600.0].map(short), ["0", "7", "12 k", "1.0 M"]);
        assert_eq!([70.99999999999999, -0.126].map(rounded), [71.0, -0.126]);
    }
}
