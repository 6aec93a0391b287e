//! The sessions of a trial with the models that they name, and at whose prices they are paid.

use std::collections::BTreeMap;

use indicatif::HumanCount;

use super::super::{count, inspect};
use crate::experiment::Dataset;
use crate::models::api::{self, ApiModel, Window};
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
    pub(super) n_calls: u32,
    /// Calls that other models answered, by their names.
    pub(super) others: BTreeMap<String, u64>,
}

impl Session {
    fn is_priced(&self) -> bool {
        self.model.as_deref().is_some_and(|model| Prices::known(model).is_some())
    }

    /// The model whose prices and window count first.
    fn known(&self) -> Option<&'static ApiModel> {
        self.model.as_deref().and_then(api::find)
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
    let others = data.other_models(indices)?;
    let all = indices.iter().zip(rows).zip(others).map(|((&index, row), others)| Session {
        n_calls: row.n_turns,
        others: of_others(row.model.as_deref(), others),
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

/// Calls of other models than this one, which may have more names.
fn of_others(model: Option<&str>, mut calls: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let model = model.and_then(api::find);
    calls.retain(|name, _| !model.zip(api::find(name)).is_some_and(|(a, b)| std::ptr::eq(a, b)));
    calls
}

/// At which prices, in words.
pub(super) fn priced(prices: &Prices, sessions: &[Session]) -> String {
    let estimate =
        "Money is an estimate: prompts and answers by trajpress's count, and a broken prompt cache, at";
    if !prices.own && prices.name != Prices::default().name {
        let of = api::find(&prices.name).map_or_else(String::new, |model| as_of([model]));
        return format!("{estimate} the prices of {}{of}.\n", escape::short(&prices.name));
    }
    let is_priced = |session: &&Session| prices.own && session.is_priced();
    let (known, unknown): (Vec<&Session>, Vec<&Session>) = sessions.iter().partition(is_priced);
    // Nobody's prices are those of another: what stands for them is told.
    let Prices { fresh, cache_write, cache_read, output, .. } = prices;
    let relative = format!(
        "{fresh} fresh, {cache_write} written to the cache, {cache_read} read from it, {output} in answers"
    );
    let date = as_of(known.iter().filter_map(|session| session.known()));
    let mut text = match (known.is_empty(), unknown.is_empty()) {
        (true, _) => format!(
            "{estimate} relative prices, which are in no currency, as those of {} are not known: a token costs {relative}.",
            by_model(&unknown)
        ),
        (_, true) => format!("{estimate} the prices of {}{date}.", by_model(&known)),
        _ => format!(
            "{estimate} the prices of {}{date}. Those of {} are not known: there a million tokens count as dollars, {relative}.",
            by_model(&known),
            by_model(&unknown)
        ),
    };
    if prices.own {
        text += &changes(sessions);
    }
    let dearer = |is_counted: bool| -> Vec<&Session> {
        let is_dearer = |model: &ApiModel, session: &Session| {
            model.dearer.is_some() == is_counted
                && model.dearer_above.is_some_and(|tokens| session.longest_prompt > tokens)
        };
        let of =
            known.iter().filter(|session| session.known().is_some_and(|model| is_dearer(model, session)));
        of.copied().collect()
    };
    for (is_counted, told) in [(true, "Counted"), (false, "Not counted")] {
        let of = dearer(is_counted);
        if !of.is_empty() {
            text += &format!(" {told}: long prompts cost more with {}.", by_model(&of));
        }
    }
    text + "\n"
}

/// Of which day prices are, the oldest: those of a session's own day may be others.
fn as_of<'a>(models: impl IntoIterator<Item = &'a ApiModel>) -> String {
    let oldest = models.into_iter().map(|model| model.seen.to_string()).min();
    oldest.map_or_else(String::new, |day| format!(" as of {day}, whenever a session was"))
}

/// Which calls were answered by other models than the first of their session.
fn changes(sessions: &[Session]) -> String {
    let changed = || sessions.iter().filter(|session| !session.others.is_empty());
    let mut n_of: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, n) in changed().flat_map(|session| &session.others) {
        *n_of.entry(name).or_default() += n;
    }
    if n_of.is_empty() {
        return String::new();
    }
    let mut names: Vec<_> = n_of.iter().collect();
    names.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    let named = |(name, n): &(&&str, &u64)| {
        let unknown = if Prices::known(name).is_some() { "" } else { ", whose prices are not known" };
        format!("{} ({}{unknown})", escape::short(name), HumanCount(**n))
    };
    let mut all: Vec<String> = names.iter().take(SHOWN).map(named).collect();
    if names.len() > SHOWN {
        all.push(count((names.len() - SHOWN) as u64, "more model"));
    }
    format!(
        " In {} the model changes: {} of {} were of {}; each is priced as its own, if that is known, else as the first.",
        count(changed().count() as u64, "session"),
        HumanCount(n_of.values().sum()),
        count(changed().map(|session| u64::from(session.n_calls)).sum(), "call"),
        all.join(", ")
    )
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
    let short = minutes(prices, sessions);
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

/// How long caches live that do not live an hour: where that differs, with which models.
fn minutes(prices: &Prices, sessions: &[Session]) -> String {
    let mut of: BTreeMap<u64, Vec<&Session>> = BTreeMap::new();
    for session in sessions {
        let own = session.known().filter(|_| prices.own).and_then(|model| model.prices);
        let seconds = own.map_or(prices.cache_lifetime, |own| own.cache_lifetime);
        of.entry((seconds / 60.0).round() as u64).or_default().push(session);
    }
    let mut of: Vec<_> = of.into_iter().collect();
    of.sort_by_key(|(_, these)| these.len());
    let n = of.len();
    let told = of.iter().enumerate().map(|(i, (minutes, these))| match i + 1 == n {
        true if n > 1 => format!("{minutes} minutes with the others"),
        true => format!("{minutes} minutes"),
        false => format!("{minutes} minutes with {}", by_model(these)),
    });
    told.collect::<Vec<_>>().join(", ")
}

/// Names of models, of several with their numbers of sessions, the most first.
pub(super) fn by_model(sessions: &[&Session]) -> String {
    named(sessions, false)
}

/// The same; `counts` says whether a single model has its number, too.
pub(super) fn named(sessions: &[&Session], counts: bool) -> String {
    let mut n_of: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for session in sessions {
        *n_of.entry(session.model.as_deref()).or_default() += 1;
    }
    let mut n_of: Vec<_> = n_of.into_iter().collect();
    n_of.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let name = |model: Option<&str>| model.map_or_else(|| "no model named".to_owned(), escape::short);
    if let [(model, _)] = n_of[..]
        && !counts
    {
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
            n_calls: 4,
            others: BTreeMap::new(),
        }
    }

    #[test]
    fn unknown_prices_say_so() {
        let mut all = [
            session("a", Some("claude-opus-4-5-20251101"), 9),
            session("b", Some("gemini-2.5-pro"), 200_001),
            session("c", Some("gpt-4.1"), 9),
            session("d", Some("mine"), 9),
            session("e", None, 9),
        ];
        let own = Prices { own: true, ..Prices::default() };
        insta::assert_snapshot!(priced(&own, &all), @"Money is an estimate: prompts and answers by trajpress's count, and a broken prompt cache, at the prices of claude-opus-4-5-20251101 (1), gemini-2.5-pro (1), gpt-4.1 (1) as of 2026-07-02, whenever a session was. Those of no model named (1), mine (1) are not known: there a million tokens count as dollars, 1 fresh, 1.25 written to the cache, 0.1 read from it, 5 in answers. Counted: long prompts cost more with gemini-2.5-pro.");
        let day = " as of 2026-07-02, whenever a session was.\n";
        assert!(priced(&own, &all[2..3]).ends_with(&format!(", at the prices of gpt-4.1{day}")));
        assert!(
            priced(&Prices::known("gpt-5").unwrap(), &all).ends_with(&format!("the prices of gpt-5{day}"))
        );
        let qwen = [session("q", Some("qwen3.7-plus"), 300_000)];
        assert!(priced(&own, &qwen).ends_with(" Not counted: long prompts cost more with qwen3.7-plus.\n"));
        for prices in [&own, &Prices::default()] {
            assert!(priced(prices, &all[3..]).contains("relative prices, which are in no currency"));
            assert!(!are_dollars(prices, &all));
        }
        assert!(are_dollars(&own, &all[..3]) && are_dollars(&Prices::known("gpt-5").unwrap(), &all));
        all[0].others = [("claude-haiku-4-5", 2), ("mine", 1)].map(|(name, n)| (name.to_owned(), n)).into();
        assert!(priced(&own, &all[..1]).ends_with(
            "was. In 1 session the model changes: 3 of 4 calls were of claude-haiku-4-5 (2), mine (1, whose prices are not known); \
             each is priced as its own, if that is known, else as the first.\n"
        ));
    }

    #[test]
    fn another_name_is_no_other_model() {
        let names = ["litellm_proxy/claude-3-5-sonnet-20241022", "claude-3-haiku", "mine"];
        let calls = || names.map(|name| (name.to_owned(), 2)).into();
        let others = |model| of_others(model, calls()).into_keys().collect::<Vec<_>>();
        let bedrock = Some("litellm_proxy/anthropic.claude-3-5-sonnet-20241022-v2:0");
        assert_eq!(others(bedrock), ["claude-3-haiku", "mine"]);
        assert_eq!(others(Some("unknown")).len(), 3);
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
        // Some models' live longer.
        let sol = session("a", Some("gpt-5.6-sol"), 9);
        let all = [sol, session("b", None, 9), session("c", Some("gpt-4o"), 9)];
        assert_eq!(cached(&own, &all[..1]), "30 minutes, which no log says");
        assert_eq!(
            cached(&own, &all),
            "30 minutes with gpt-5.6-sol, 5 minutes with the others, which no log says"
        );
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
