//! The models that sessions name: whose prices count, and whose window is a guess.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::super::count;
use crate::experiment::Dataset;
use crate::models::api;
use crate::scores::money::Prices;
use crate::text::escape;

/// Names and ids that are shown; the rest is a number.
const SHOWN: usize = 5;

/// A session and the model that it names.
pub(super) struct Session {
    pub(super) id: String,
    pub(super) model: Option<String>,
    /// Whether its prompts were cached for an hour, where it says.
    pub(super) cached_an_hour: Option<bool>,
    /// Whether its window is to be that of its model, and is not.
    pub(super) is_guessed: bool,
}

/// The sessions at these places of the data; `is_own`: whether the window is that of each.
pub(super) fn sessions(data: &Dataset, indices: &[usize], is_own: bool) -> anyhow::Result<Vec<Session>> {
    let rows = data.trajectory_rows(indices)?;
    let all = indices.par_iter().zip(rows).map(|(&index, row)| {
        let is_known = |longest_prompt| api::window(row.model.as_deref(), longest_prompt).is_known;
        // Of a model that is not known it is a guess, however long its prompts are.
        let is_guessed = is_own && (!is_known(0) || !is_known(data.log(index, false)?.longest_prompt()));
        Ok(Session { id: row.trajectory, model: row.model, cached_an_hour: row.cached_an_hour, is_guessed })
    });
    all.collect()
}

/// The prices that count where a session's own are not known: those that most steps have; none where no model's are.
pub(super) fn most_used(data: &Dataset) -> anyhow::Result<Option<Prices>> {
    let all: Vec<usize> = (0..data.entries().len()).collect();
    let mut steps: BTreeMap<String, u64> = BTreeMap::new();
    for row in data.trajectory_rows(&all)? {
        if let Some(model) = row.model.filter(|name| Prices::known(name).is_some()) {
            *steps.entry(model).or_default() += u64::from(row.n_steps);
        }
    }
    let most = steps.into_iter().max_by_key(|(_, n)| *n);
    Ok(most.and_then(|(model, _)| Prices::known(&model)))
}

/// At which prices, in words.
pub(super) fn priced(prices: &Prices, sessions: &[Session]) -> String {
    let relative = "relative prices (those of no model are known)";
    if !prices.own {
        return match prices.name.as_str() {
            "relative" => relative.to_owned(),
            name => format!("the prices of {}", escape::short(name)),
        };
    }
    let (known, unknown): (Vec<&Session>, Vec<&Session>) = sessions
        .iter()
        .partition(|session| session.model.as_deref().is_some_and(|m| Prices::known(m).is_some()));
    if known.is_empty() {
        return format!(
            "the prices of {}, since none are known: {}",
            escape::short(&prices.name),
            by_model(&unknown)
        );
    }
    let mut text = format!("the prices of {}", by_model(&known));
    if !unknown.is_empty() {
        text += &format!(
            "; those of {} also where none are known: {}",
            escape::short(&prices.name),
            by_model(&unknown)
        );
    }
    text
}

/// For how long caches are taken to live, in words.
pub(super) fn cached(prices: &Prices, sessions: &[Session]) -> String {
    let that_say = |word: Option<bool>| sessions.iter().filter(|s| s.cached_an_hour == word).count();
    let (hour, minutes) = (that_say(Some(true)), that_say(Some(false)));
    if prices.hour && prices.cache_write_1h.is_some() {
        return "an hour, as you ask, where the model has that".to_owned();
    }
    let short = format!("{:.0} minutes", prices.cache_lifetime / 60.0);
    match hour {
        0 if minutes == sessions.len() => format!("{short}, as the logs say"),
        0 if minutes == 0 => format!("{short} (no log says for how long)"),
        0 => format!("{short}, as {minutes} of {} logs say", sessions.len()),
        _ => format!("an hour in {hour} of {} sessions, as they say, {short} in the others", sessions.len()),
    }
}

/// Whose window is a guess, in words; empty if nobody's.
pub(super) fn guessed(sessions: &[Session]) -> String {
    let guessed: Vec<&Session> = sessions.iter().filter(|session| session.is_guessed).collect();
    if guessed.is_empty() {
        return String::new();
    }
    let ids: Vec<&str> =
        guessed.iter().take(SHOWN).map(|session| &session.id[..session.id.len().min(6)]).collect();
    let more = match guessed.len().saturating_sub(SHOWN) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!(
        "Window: a guess for {} of {}, the smallest known one that holds the longest prompt: {}; {}{more}.\n",
        guessed.len(),
        count(sessions.len() as u64, "session"),
        by_model(&guessed),
        ids.join(", ")
    )
}

/// Names of models, of several with their numbers of sessions, the most first.
fn by_model(sessions: &[&Session]) -> String {
    let mut n_of: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for session in sessions {
        *n_of.entry(session.model.as_deref()).or_default() += 1;
    }
    let mut n_of: Vec<_> = n_of.into_iter().collect();
    n_of.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let name = |model: Option<&str>| model.map_or_else(|| "no model named".to_owned(), escape::short);
    if let [(model, _)] = n_of[..] {
        return name(model);
    }
    let mut all: Vec<String> =
        n_of.iter().take(SHOWN).map(|(model, n)| format!("{} ({n})", name(*model))).collect();
    if n_of.len() > SHOWN {
        all.push(count((n_of.len() - SHOWN) as u64, "more model"));
    }
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str, model: Option<&str>, is_guessed: bool) -> Session {
        Session { id: id.to_owned(), model: model.map(str::to_owned), cached_an_hour: None, is_guessed }
    }

    #[test]
    fn unknown_models_say_so() {
        let all = [
            session("aaaaaaaa", Some("claude-opus-4-5-20251101"), false),
            session("bbbbbbbb", Some("gpt-4.1"), false),
            session("cccccccc", Some("gpt-4.1"), true),
            session("dddddddd", Some("mine"), true),
            session("eeeeeeee", None, true),
        ];
        let own = Prices { own: true, ..Prices::known("gpt-4.1").unwrap() };
        assert_eq!(
            priced(&own, &all),
            "the prices of gpt-4.1 (2), claude-opus-4-5-20251101 (1); \
             those of gpt-4.1 also where none are known: no model named (1), mine (1)"
        );
        assert_eq!(
            guessed(&all),
            "Window: a guess for 3 of 5 sessions, the smallest known one that holds the longest prompt: \
             no model named (1), gpt-4.1 (1), mine (1); cccccc, dddddd, eeeeee.\n"
        );
        assert_eq!(guessed(&all[..2]), "");
        assert_eq!(cached(&own, &all), "5 minutes (no log says for how long)");
        let said = |said: [bool; 2]| {
            let of = |word| Session { cached_an_hour: Some(word), ..session("aaaaaaaa", None, false) };
            cached(&own, &said.map(of))
        };
        assert_eq!(said([false, false]), "5 minutes, as the logs say");
        assert_eq!(said([true, false]), "an hour in 1 of 2 sessions, as they say, 5 minutes in the others");
        assert_eq!(priced(&own, &all[1..3]), "the prices of gpt-4.1");
        assert!(priced(&Prices::default(), &all[3..]).starts_with("relative prices"));
    }
}
