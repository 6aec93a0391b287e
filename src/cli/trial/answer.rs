//! What `trajpress try` prints: a sentence, a table, and the lines that were lost.

use std::collections::BTreeSet;

use serde_json::json;

use super::super::{columns, count, inspect};
use super::models::{self, Session};
use super::{FEW_SESSIONS, TAIL};
use crate::experiment::cell::Loss;
use crate::experiment::plan::Variant;
use crate::experiment::{Dataset, Plan};
use crate::report::brief::{Brief, BriefRow};
use crate::scores::money::Prices;
use crate::text::escape;

const SHOWN_LINES: usize = 5;

/// What is printed.
pub(super) struct Answer<'a> {
    pub(super) plan: &'a Plan,
    pub(super) brief: &'a Brief,
    pub(super) data: &'a Dataset,
    /// By place of the session in the data.
    pub(super) lost: Vec<(usize, Loss)>,
    /// Those that were replayed.
    pub(super) sessions: Vec<Session>,
}

impl Answer<'_> {
    pub(super) fn json(&self) -> serde_json::Value {
        let rows = self.brief.rows.iter().map(|row| {
            json!({
                "variant": row.variant, "policy": self.policy(&row.variant), "control": row.control,
                "sessions": row.n_sessions, "affected_sessions": row.affected, "tokens_saved": row.tokens,
                "tokens_saved_billed": row.billed, "money_saved": row.money,
                "needs_lost_a_session": row.lost.map(|l| l.0), "needs_lost_a_session_interval": row.lost.and_then(|l| l.1),
                "needs_lost": row.lost_of.0, "needs": row.lost_of.1,
                "worst_session": row.worst.as_ref().map(|w| &w.0), "worst_session_lost": row.worst.as_ref().map(|w| w.1),
                "tokens_sent": row.tokens_of.0, "tokens_full": row.tokens_of.1, "compressions": row.n_events,
                "cost": self.dollars(row.cost_of.0), "cost_full": self.dollars(row.cost_of.1),
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
                "cached_an_hour": session.cached_an_hour,
                "window_guessed": session.is_guessed,
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
        self.plan.variants.iter().find(|v| v.id == id).map_or_else(|| id.to_owned(), policy)
    }

    /// The sentence, the table, and what its columns are.
    pub(super) fn text(&self) -> String {
        let Brief { n_sessions, rows } = self.brief;
        let mut text = String::from("\n");
        let n_all = self.data.entries().len();
        if *n_sessions < n_all {
            text += &format!(
                "A sample: {} of {}, drawn by lot, to stay near the budget.\n",
                count(*n_sessions as u64, "session"),
                n_all
            );
        }
        text += &self.sentence();
        let few = self.is_few();
        let header = [
            "policy",
            "tokens saved",
            "as billed",
            "money saved",
            if few { "needs lost" } else { "needs lost a session" },
            "worst session",
            if few { "compressions" } else { "sessions affected" },
        ];
        let mut table = vec![header.map(str::to_owned).to_vec()];
        table.extend(rows.iter().map(|row| self.row(row)));
        text += &columns(&table);
        let of = rows.iter().map(|row| row.lost_of.1).fold(0.0, f64::max);
        text += &format!(
            "\nA need is something the agent used that it had last seen more than {TAIL} turns before: {of:.0} in these sessions. It is lost\n\
             where a policy left it out of the prompt, or without the words that say what it is; those of one action count as one.\n\
             {brackets}Worst session: its name, and its needs lost.{last}\n\
             Billed: with what the log does not show (system prompt, tools); `-` where the log has no usage.\n\
             Money: prompt and answer, and a broken prompt cache, at {}.\n\
             A cache lives {}.\n",
            models::priced(&self.plan.prices, &self.sessions),
            models::cached(&self.plan.prices, &self.sessions),
            brackets = if few {
                ""
            } else {
                "In brackets: 95 % intervals for more sessions like these; `k of n` where there are too few needs for that.\n"
            },
            last = if few { "" } else { " Affected: something was compressed." },
        );
        text += &self.policies();
        text += &self.worst_sources();
        text += &models::guessed(&self.sessions);
        if !self.lost.is_empty() {
            text += &self.lines();
        }
        text
    }

    /// What the policies do.
    fn policies(&self) -> String {
        let mut text = "A turn is one call of the model with its results. Mask: results older than 10 turns give way to a placeholder.\n\
            Drop: turns older than that go. List: only their calls stay. Control: a tenth of the old text stays, drawn by lot.\n\
            Window: the most that the model takes.\n"
            .to_owned();
        if self.plan.variants.iter().any(|variant| variant.strategy == "as-sent") {
            text += "As the log was sent: with what the agent's own product took out, as the log says.\n";
        }
        text
    }

    fn row(&self, row: &BriefRow) -> Vec<String> {
        let few = self.is_few();
        let [tokens, billed] =
            [(row.tokens, row.tokens_of), (row.billed, row.billed_of)].map(|(saved, of)| {
                match few && saved.is_some() {
                    true => format!("{} of {}", short(of.1 - of.0), short(of.1)),
                    false => share(saved),
                }
            });
        let (lost, of) = row.lost_of;
        let session = match row.lost.filter(|_| !few) {
            _ if of == 0.0 => "-".to_owned(),
            Some((value, Some((lo, hi)))) => format!("{value:.1} [{:.1}, {hi:.1}]", lo.max(0.0)),
            Some((value, None)) => format!("{value:.1}"),
            None => format!("{lost:.0} of {of:.0}"),
        };
        // What rounds to none is none.
        let worst = row
            .worst
            .as_ref()
            .filter(|(_, lost)| *lost >= 0.5)
            .map(|(id, lost)| format!("{} {lost:.0}", self.name(id)));
        vec![
            self.policy(&row.variant),
            tokens,
            billed,
            self.money(row),
            session,
            worst.unwrap_or_else(|| "-".to_owned()),
            if few { row.n_events.to_string() } else { format!("{} of {}", row.affected, row.n_sessions) },
        ]
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
                format!("{sign}${:.2} of ${full:.2}", saved.abs())
            }
            _ => share(row.money),
        }
    }

    fn session(&self, id: &str) -> Option<&Session> {
        self.sessions.iter().find(|session| session.id == id)
    }

    fn name(&self, id: &str) -> &str {
        self.session(id).map_or("", |session| session.name.as_str())
    }

    /// Where the worst sessions stand.
    fn worst_sources(&self) -> String {
        let worst =
            self.brief.rows.iter().filter_map(|row| row.worst.as_ref().filter(|(_, lost)| *lost >= 0.5));
        let ids: BTreeSet<&str> = worst.map(|(id, _)| id.as_str()).collect();
        let told = ids.iter().take(SHOWN_LINES).filter_map(|id| {
            let session = self.session(id)?;
            Some(format!("  {}: {}\n", session.name, escape::short(&session.source)))
        });
        let told: String = told.collect();
        if told.is_empty() { told } else { format!("Where the worst sessions are:\n{told}") }
    }

    /// What saves the most money, what loses the least, and at what price.
    fn sentence(&self) -> String {
        let acting = || self.brief.rows.iter().filter(|row| !row.control && row.affected > 0);
        let saving: Vec<(f64, &BriefRow)> =
            acting().filter_map(|row| Some((row.money.filter(|money| *money >= 0.005)?, row))).collect();
        let dearest = saving.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let gentlest =
            saving.iter().min_by(|a, b| a.1.lost_of.0.total_cmp(&b.1.lost_of.0).then(b.0.total_cmp(&a.0)));
        let sessions = count(self.brief.n_sessions as u64, "session");
        let lost = |row: &BriefRow| format!("{:.0} of {:.0} needs", row.lost_of.0, row.lost_of.1);
        let named = |(_, row): &(f64, &BriefRow)| (self.policy(&row.variant), self.money(row), lost(row));
        match (dearest.map(named), gentlest.map(named)) {
            (Some((most, money, lost)), Some((least, little, few))) => {
                let gentle = match most == least {
                    true => ", and no other that saves money loses fewer".to_owned(),
                    false => {
                        format!(".\n`{least}` loses the fewest of those that save any: {few}, for {little}")
                    }
                };
                format!(
                    "Over {sessions}, `{most}` saves the most money: {money}, and loses {lost}{gentle}.\n\n"
                )
            }
            _ if acting().any(|row| row.money.is_some_and(|money| money <= -0.005)) => format!(
                "Over {sessions}, no policy saves money: a broken prompt cache costs more than what is left out.\n\n"
            ),
            _ if acting().next().is_some() => {
                format!("Over {sessions}, no policy saves as much as 1 % of the money.\n\n")
            }
            _ => format!(
                "Over {sessions}, no policy had anything to compress: the sessions are too short.\n\n"
            ),
        }
    }

    /// The lines that most policies lost.
    fn lines(&self) -> String {
        let mut worst: Vec<&(usize, Loss)> = self.lost.iter().collect();
        worst.sort_by_key(|(index, loss)| {
            (std::cmp::Reverse((loss.variants.len(), loss.needed - loss.seen)), *index, loss.needed)
        });
        // One line is told once, however much of it was needed.
        let mut told = std::collections::HashSet::new();
        worst.retain(|(index, loss)| told.insert((*index, &loss.line)));
        let mut text = "\nNeeds that policies lost, the worst first:\n".to_owned();
        for (index, loss) in worst.into_iter().take(SHOWN_LINES) {
            text += &format!(
                "  {}: `{}` in \"{}\"\n    stood at turn {}, last mentioned at {}, needed at {}; lost by {}\n",
                self.name(&self.data.entries()[*index].id),
                inspect::line(&loss.atom, 60),
                inspect::line(loss.line.trim(), 100),
                loss.stood,
                loss.seen,
                loss.needed,
                match loss.variants.len() {
                    1 => "1 policy".to_owned(),
                    n => format!("{n} policies"),
                }
            );
        }
        text
    }
}

fn share(x: Option<f64>) -> String {
    // What rounds to nothing has no sign.
    x.map_or("-".to_owned(), |x| format!("{:.0} %", (100.0 * x).round() + 0.0))
}

/// A number of tokens in a few characters.
fn short(n: f64) -> String {
    match n.abs() {
        n_abs if n_abs < 999.5 => format!("{:.0}", n.round() + 0.0),
        n_abs if n_abs < 999_500.0 => format!("{:.0} k", n / 1e3),
        _ => format!("{:.1} M", n / 1e6),
    }
}

/// A policy in words.
fn policy(v: &Variant) -> String {
    let what = match v.strategy.as_str() {
        "full" => return "nothing compressed".to_owned(),
        "as-sent" => return "as the log was sent".to_owned(),
        "mask" => "mask old results",
        "truncate" => "drop old turns",
        "tool-log" => "list old calls",
        "random" => "random tenth (control)",
        other => other,
    };
    let number = |key: &str| v.trigger_params.get(key).and_then(toml::Value::as_integer).unwrap_or(0);
    let share = v.trigger_params.get("fraction").and_then(toml::Value::as_float).unwrap_or(0.0);
    let when = match v.trigger.as_str() {
        "turns" if number("n") == 1 => "every turn".to_owned(),
        "turns" => format!("every {} turns", number("n")),
        "tokens" => format!("at {:.0} % of window", 100.0 * share),
        other => other.to_owned(),
    };
    format!("{what}, {when}")
}

#[cfg(test)]
mod tests {
    use super::super::super::catalogue;
    use super::super::EXPERIMENT;
    use super::*;

    #[test]
    fn what_rounds_to_nothing_has_no_sign() {
        assert_eq!([Some(-0.003), Some(0.256), None].map(share), ["0 %", "26 %", "-"]);
        assert_eq!([-0.2, 7.0, 12_345.0, 999_600.0].map(short), ["0", "7", "12 k", "1.0 M"]);
    }

    #[test]
    fn the_experiment_is_sound_and_every_policy_has_words() {
        let plan = Plan::parse("try.toml", EXPERIMENT, &catalogue()).unwrap();
        assert_eq!(plan.variants.len(), 13);
        let words: String = plan.variants.iter().map(|v| policy(v) + "\n").collect();
        insta::assert_snapshot!(words, @r"
        nothing compressed
        mask old results, every turn
        mask old results, every 21 turns
        mask old results, at 50 % of window
        mask old results, at 80 % of window
        drop old turns, every turn
        drop old turns, every 21 turns
        drop old turns, at 50 % of window
        drop old turns, at 80 % of window
        list old calls, every 21 turns
        list old calls, at 50 % of window
        list old calls, at 80 % of window
        random tenth (control), every 21 turns
        ");
        assert_eq!(EXPERIMENT.matches("window = \"own\"").count(), 1, "which `--window` sets");
        assert!(!EXPERIMENT.contains("[prices]") && !EXPERIMENT.contains("[data]"));
    }
}
