//! What `trajpress try` prints: a sentence, a table, and the lines that were lost.

use serde_json::json;

use super::super::{columns, count, inspect};
use super::TAIL;
use super::models::{self, Session};
use crate::experiment::cell::Loss;
use crate::experiment::plan::Variant;
use crate::experiment::{Dataset, Plan};
use crate::report::brief::{Brief, BriefRow};
use crate::scores::money::Prices;

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
                "session": session.id, "model": session.model, "own_prices_known": is_priced,
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
        let header = [
            "policy",
            "tokens saved",
            "as billed",
            "money saved",
            "needs lost a session",
            "worst session",
            "sessions affected",
        ];
        let mut table = vec![header.map(str::to_owned).to_vec()];
        table.extend(rows.iter().map(|row| self.row(row)));
        text += &columns(&table);
        let of = rows.iter().map(|row| row.lost_of.1).fold(0.0, f64::max);
        text += &format!(
            "\nA need is something the agent used that it had last seen more than {TAIL} turns before: {of:.0} in these sessions. It is lost\n\
             where a policy left it out of the prompt, or without the words that say what it is; those of one action count as one.\n\
             In brackets: 95 % intervals for more sessions like these; `k of n` where there are too few for that. Worst session: how\n\
             its id begins, and its needs lost. Affected: something was compressed.\n\
             Billed: with what the log does not show (system prompt, tools); `-` where the log has no usage.\n\
             Money: prompt and answer, and a broken prompt cache, at {}. A cache lives {}.\n",
            models::priced(&self.plan.prices, &self.sessions),
            models::cached(&self.plan.prices, &self.sessions),
        );
        text += &models::guessed(&self.sessions);
        if !self.lost.is_empty() {
            text += &self.lines();
        }
        text
    }

    fn row(&self, row: &BriefRow) -> Vec<String> {
        let share = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{:.0} %", 100.0 * x));
        let (lost, of) = row.lost_of;
        let session = match row.lost {
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
            .map(|(id, lost)| format!("{} {lost:.0}", &id[..id.len().min(6)]));
        vec![
            self.policy(&row.variant),
            share(row.tokens),
            share(row.billed),
            share(row.money),
            session,
            worst.unwrap_or_else(|| "-".to_owned()),
            format!("{} of {}", row.affected, row.n_sessions),
        ]
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
        let named = |(money, row): &(f64, &BriefRow)| (self.policy(&row.variant), 100.0 * money, lost(row));
        match (dearest.map(named), gentlest.map(named)) {
            (Some((most, money, lost)), Some((least, little, few))) => {
                let gentle = match most == least {
                    true => ", and no other that saves money loses fewer".to_owned(),
                    false => format!(
                        ".\n`{least}` loses the fewest of those that save any: {few}, for {little:.0} %"
                    ),
                };
                format!(
                    "Over {sessions}, `{most}` saves the most money: {money:.0} %, and loses {lost}{gentle}.\n\n"
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
        let mut text = match self.lost.len() {
            1 => "\nWhat some policy lost:\n".to_owned(),
            n => format!("\nOf {n} things that some policy lost, the worst:\n"),
        };
        for (index, loss) in worst.into_iter().take(SHOWN_LINES) {
            let id = &self.data.entries()[*index].id;
            text += &format!(
                "  {}: `{}` in \"{}\"\n    stood at turn {}, last mentioned at {}, needed at {}; lost by {}\n",
                &id[..id.len().min(6)],
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
