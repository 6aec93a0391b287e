//! The models that sessions name: whose prices count, and whose window is a guess.

use std::collections::BTreeMap;

use super::super::{count, inspect};
use crate::experiment::Dataset;
use crate::models::api;
use crate::scores::money::Prices;
use crate::store::TrajectoryRow;
use crate::text::escape;

/// Names and ids that are shown; the rest is a number.
const SHOWN: usize = 5;

/// A session and the model that it names.
pub(super) struct Session {
    pub(super) id: String,
    /// As its user knows it.
    pub(super) name: String,
    /// The file that it was read from.
    pub(super) source: String,
    pub(super) model: Option<String>,
    /// Whether its prompts were cached for an hour, where it says.
    pub(super) cached_an_hour: Option<bool>,
    /// Whether its window is to be that of its model, and is not.
    pub(super) is_guessed: bool,
}

impl Session {
    fn is_priced(&self) -> bool {
        self.model.as_deref().is_some_and(|model| Prices::known(model).is_some())
    }
}

/// Characters of a name that are shown.
const NAME: usize = 16;

/// The name of a session: as its agent names it, else that of its file; of a UUID its beginning.
fn name(row: &TrajectoryRow) -> String {
    let logged = row.source_key.strip_prefix(&row.format).map_or("", str::trim_start);
    let is_digest =
        logged.split_once('#').is_some_and(|(hash, _)| hash.bytes().all(|b| b.is_ascii_hexdigit()));
    let file = row.source.rsplit('/').next().unwrap_or_default();
    let name = if logged.is_empty() || is_digest { file.split('.').next().unwrap_or(file) } else { logged };
    let is_uuid = name.len() == 36 && name.bytes().filter(|b| *b == b'-').count() == 4;
    let name = if is_uuid { &name[..8] } else { name };
    inspect::line(name, NAME)
}

/// The sessions at these places of the data; `is_own`: whether the window is that of each.
pub(super) fn sessions(data: &Dataset, indices: &[usize], is_own: bool) -> anyhow::Result<Vec<Session>> {
    let rows = data.trajectory_rows(indices)?;
    let longest = data.longest_prompts()?;
    let all = indices.iter().zip(rows).map(|(&index, row)| Session {
        is_guessed: is_own && !api::window(row.model.as_deref(), longest[index]).is_known,
        name: name(&row),
        id: row.trajectory,
        source: row.source,
        model: row.model,
        cached_an_hour: row.cached_an_hour,
    });
    Ok(all.collect())
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
    let (known, unknown): (Vec<&Session>, Vec<&Session>) =
        sessions.iter().partition(|session| session.is_priced());
    match (known.is_empty(), unknown.is_empty()) {
        (true, _) => format!("{relative}: {}", by_model(&unknown)),
        (_, true) => format!("the prices of {}", by_model(&known)),
        _ => format!(
            "the prices of {}; relative ones where none are known: {}",
            by_model(&known),
            by_model(&unknown)
        ),
    }
}

/// Whether all are priced in dollars.
pub(super) fn are_dollars(prices: &Prices, sessions: &[Session]) -> bool {
    match prices.own {
        true => sessions.iter().all(Session::is_priced),
        false => prices.name != Prices::default().name,
    }
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
    let ids: Vec<&str> = guessed.iter().take(SHOWN).map(|session| session.name.as_str()).collect();
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
        Session {
            id: id.to_owned(),
            name: id.to_owned(),
            source: String::new(),
            model: model.map(str::to_owned),
            cached_an_hour: None,
            is_guessed,
        }
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
        let own = Prices { own: true, ..Prices::default() };
        assert_eq!(
            priced(&own, &all),
            "the prices of gpt-4.1 (2), claude-opus-4-5-20251101 (1); \
             relative ones where none are known: no model named (1), mine (1)"
        );
        assert_eq!(
            guessed(&all),
            "Window: a guess for 3 of 5 sessions, the smallest known one that holds the longest prompt: \
             no model named (1), gpt-4.1 (1), mine (1); cccccccc, dddddddd, eeeeeeee.\n"
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
        for prices in [&own, &Prices::default()] {
            assert!(priced(prices, &all[3..]).starts_with("relative prices"));
            assert!(!are_dollars(prices, &all));
        }
        assert!(are_dollars(&own, &all[..3]) && are_dollars(&Prices::known("gpt-5").unwrap(), &all));
    }

    #[test]
    fn sessions_have_the_names_that_their_users_know() {
        let name = |source_key: &str, source: &str| {
            let (source_key, source) = (source_key.to_owned(), source.to_owned());
            name(&TrajectoryRow { format: "toy".to_owned(), source_key, source, ..TrajectoryRow::default() })
        };
        assert_eq!(name("toy 01234567-89ab-cdef-0123-456789abcdef", "a/x.jsonl"), "01234567");
        assert_eq!(name("toy 0123456789abcdef#0", "a/django-12.traj.json"), "django-12");
        assert_eq!(name("toy a very long name of a session", "a/x.jsonl"), "a very long name\u{2026}");
        assert_eq!(name("", "chat.json"), "chat");
    }
}
