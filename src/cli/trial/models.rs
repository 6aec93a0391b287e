//! The sessions of a trial with the models that they name, and at whose prices they are paid.

use std::collections::BTreeMap;

use super::super::{count, inspect};
use crate::experiment::Dataset;
use crate::models::api::{self, Window};
use crate::scores::money::Prices;
use crate::store::TrajectoryRow;
use crate::text::escape;

/// Names that are shown; the rest is a number.
pub(super) const SHOWN: usize = 5;

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
    /// The window of its model.
    pub(super) window: Window,
    /// Tokens of its first prompt, and of its longest.
    pub(super) first_prompt: u64,
    pub(super) longest_prompt: u64,
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

/// The sessions at these places of the data.
pub(super) fn sessions(data: &Dataset, indices: &[usize]) -> anyhow::Result<Vec<Session>> {
    let rows = data.trajectory_rows(indices)?;
    let prompts = data.longest_prompts()?;
    let all = indices.iter().zip(rows).map(|(&index, row)| Session {
        window: api::window(row.model.as_deref(), prompts[index].tokens()),
        first_prompt: prompts[index].first(),
        longest_prompt: prompts[index].tokens(),
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
    let estimate =
        "Money is an estimate: prompts and answers by trajpress's count, and a broken prompt cache, at";
    if !prices.own && prices.name != Prices::default().name {
        return format!("{estimate} the prices of {}.\n", escape::short(&prices.name));
    }
    let is_priced = |session: &&Session| prices.own && session.is_priced();
    let (known, unknown): (Vec<&Session>, Vec<&Session>) = sessions.iter().partition(is_priced);
    // Nobody's prices are those of another: what stands for them is told.
    let Prices { fresh, cache_write, cache_read, output, .. } = prices;
    let relative = format!(
        "{fresh} fresh, {cache_write} written to the cache, {cache_read} read from it, {output} in answers"
    );
    let mut text = match (known.is_empty(), unknown.is_empty()) {
        (true, _) => format!(
            "{estimate} relative prices, which are in no currency, as those of {} are not known: a token costs {relative}.",
            by_model(&unknown)
        ),
        (_, true) => format!("{estimate} the prices of {}.", by_model(&known)),
        _ => format!(
            "{estimate} the prices of {}. Those of {} are not known: there a million tokens count as dollars, {relative}.",
            by_model(&known),
            by_model(&unknown)
        ),
    };
    let is_dearer = |session: &&&Session| {
        let of_long = session.model.as_deref().and_then(api::find).and_then(|model| model.dearer_above);
        of_long.is_some_and(|tokens| session.longest_prompt > tokens)
    };
    let dearer: Vec<&Session> = known.iter().filter(is_dearer).copied().collect();
    if !dearer.is_empty() {
        text += &format!(" Not counted: long prompts cost more with {}.", by_model(&dearer));
    }
    text + "\n"
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
    let short = format!("{:.0} minutes", prices.cache_lifetime / 60.0);
    let hour_is_sold = prices.own || prices.cache_write_1h.is_some();
    if prices.hour {
        return match hour_is_sold {
            true => "an hour, as you ask, where the model has that".to_owned(),
            false => format!("{short}: `--hour-cache` says nothing, as the model has no cache of an hour"),
        };
    }
    let that_say = |word: bool| sessions.iter().filter(|s| s.cached_an_hour == Some(word)).count();
    let (hour, minutes) = if hour_is_sold { (that_say(true), that_say(false)) } else { (0, 0) };
    match hour {
        0 if minutes == sessions.len() => format!("{short}, as the logs say"),
        0 if minutes == 0 => format!("{short}, which no log says"),
        0 => format!("{short}, as {minutes} of {} logs say", sessions.len()),
        _ => format!("an hour in {hour} of {} sessions, as they say, {short} in the others", sessions.len()),
    }
}

/// Names of models, of several with their numbers of sessions, the most first.
pub(super) fn by_model(sessions: &[&Session]) -> String {
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
pub(super) mod tests {
    use super::*;

    /// Whose first prompt is its longest.
    pub(in super::super) fn session(id: &str, model: Option<&str>, longest_prompt: u64) -> Session {
        Session {
            id: id.to_owned(),
            name: id.to_owned(),
            source: String::new(),
            model: model.map(str::to_owned),
            cached_an_hour: None,
            window: api::window(model, longest_prompt),
            first_prompt: longest_prompt,
            longest_prompt,
        }
    }

    #[test]
    fn unknown_prices_say_so() {
        let all = [
            session("a", Some("claude-opus-4-5-20251101"), 9),
            session("b", Some("gemini-2.5-pro"), 200_001),
            session("c", Some("gpt-4.1"), 9),
            session("d", Some("mine"), 9),
            session("e", None, 9),
        ];
        let own = Prices { own: true, ..Prices::default() };
        insta::assert_snapshot!(priced(&own, &all), @"Money is an estimate: prompts and answers by trajpress's count, and a broken prompt cache, at the prices of claude-opus-4-5-20251101 (1), gemini-2.5-pro (1), gpt-4.1 (1). Those of no model named (1), mine (1) are not known: there a million tokens count as dollars, 1 fresh, 1.25 written to the cache, 0.1 read from it, 5 in answers. Not counted: long prompts cost more with gemini-2.5-pro.");
        assert!(priced(&own, &all[2..3]).ends_with(", at the prices of gpt-4.1.\n"));
        assert!(priced(&Prices::known("gpt-5").unwrap(), &all).ends_with("the prices of gpt-5.\n"));
        for prices in [&own, &Prices::default()] {
            assert!(priced(prices, &all[3..]).contains("relative prices, which are in no currency"));
            assert!(!are_dollars(prices, &all));
        }
        assert!(are_dollars(&own, &all[..3]) && are_dollars(&Prices::known("gpt-5").unwrap(), &all));
    }

    #[test]
    fn who_says_how_long_caches_live() {
        let own = Prices { own: true, ..Prices::default() };
        let said = |prices: &Prices, said: [Option<bool>; 2]| {
            let of = |word| Session { cached_an_hour: word, ..session("a", None, 9) };
            cached(prices, &said.map(of))
        };
        assert_eq!(said(&own, [None, None]), "5 minutes, which no log says");
        assert_eq!(said(&own, [Some(false), Some(false)]), "5 minutes, as the logs say");
        let mixed = [Some(true), Some(false)];
        assert_eq!(said(&own, mixed), "an hour in 1 of 2 sessions, as they say, 5 minutes in the others");
        // Logs of Claude say nothing of another's cache, and what is not sold cannot be asked for.
        let other = Prices::known("gpt-4o").unwrap();
        assert_eq!(said(&other, mixed), "5 minutes, which no log says");
        let hour = Prices { hour: true, ..other };
        assert!(said(&hour, mixed).starts_with("5 minutes: `--hour-cache` says nothing"));
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
