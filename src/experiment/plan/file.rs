//! An experiment as it is written: TOML, whose wrong keys, names and values are told with file, line and the nearest
//! right one.
//!
//! A parameter given as a list is a grid over its values, and lists are crossed. A parameter whose
//! value *is* a list is written `{ list = [1, 2] }`; a grid over such values is
//! `[{ list = [1] }, { list = [1, 2] }]`.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::grid::{Choice, Choices, Exclude, MAX_VARIANTS};
use super::{By, Catalogue, Filter, Known, Link, Plan, policies};
use crate::models::NO_MODEL;
use crate::params;
use crate::scores::money::Prices;
use crate::scores::own::Own;
use crate::scores::readers::Named;
use crate::settings::{self, Item, OneOrMore, Source, items};
use crate::text::escape::short;

/// Kinds of partner trajectories.
const PARTNER_KINDS: [&str; 2] = ["other_repository", "same_repository"];

/// Sessions of a chain at most, where the file does not say: a chain stands in memory as a whole.
const LINK_SESSIONS: u32 = 20;

/// All keys of the file. The last four hold names of the catalogue, which says what else they may hold.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    tokenizer: Option<String>,
    seed: Option<u64>,
    shadow_seeds: Option<NonZeroU32>,
    reference_tails: Option<Spanned<BTreeSet<u32>>>,
    partners: Option<Vec<Spanned<String>>>,
    prices: Option<Prices>,
    data: Option<Data>,
    scores: Option<Scores>,
    contexts: Option<bool>,
    #[serde(rename = "strategies")]
    _strategies: Option<IgnoredAny>,
    #[serde(rename = "triggers")]
    _triggers: Option<IgnoredAny>,
    #[serde(rename = "exclude")]
    _exclude: Option<IgnoredAny>,
    #[serde(rename = "policies")]
    _policies: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Data {
    path: Option<PathBuf>,
    formats: Vec<Spanned<String>>,
    ids: Vec<String>,
    sources: Vec<String>,
    min_turns: Option<u32>,
    max_turns: Option<u32>,
    sample: Option<u32>,
    link: Option<By>,
    link_sessions: Option<NonZeroU32>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Scores {
    scorer: Option<Spanned<OneOrMore>>,
    embedder: Option<String>,
    ask: Option<Spanned<BTreeMap<Spanned<String>, Spanned<OneOrMore>>>>,
    programs: Vec<Own>,
}

pub(super) struct Reader<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) catalogue: &'a Catalogue<'a>,
}

/// Strategies or triggers: the word for one of them, and those that are known.
#[derive(Clone, Copy)]
struct Kind<'k> {
    what: &'static str,
    known: &'k [Known<'k>],
}

/// A parameter with its place and its values in the grid.
type Param<'v> = (&'v str, Range<usize>, Vec<toml::Value>);

impl<'a> Reader<'a> {
    /// All but the grid.
    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        let file: File = self.source.read()?;
        let name = file.name.unwrap_or_default();
        let path = self.source.path;
        anyhow::ensure!(!name.trim().is_empty(), "{path}: no name\nhint: begin with `name = \"first\"`");
        if let Some(tails) = file.reference_tails.as_ref().filter(|tails| tails.get_ref().is_empty()) {
            let message = "`reference_tails` has no value, expected at least one number of turns";
            return Err(self.source.error(&tails.span(), message));
        }
        for kind in file.partners.iter().flatten() {
            self.source.right_name("kind of partner", kind.get_ref(), &PARTNER_KINDS, &kind.span())?;
        }
        let data = file.data.unwrap_or_default();
        for format in data.formats.iter().filter(|_| !self.catalogue.formats.is_empty()) {
            let known = &self.catalogue.formats;
            self.source.right_name("format", format.get_ref(), known, &format.span())?;
        }
        anyhow::ensure!(
            data.link.is_some() || data.link_sessions.is_none(),
            "{path}: `link_sessions` says how many sessions are linked, and nothing links any\nhint: add `link = \"repository\"`"
        );
        let mut scores = file.scores.unwrap_or_default();
        let score_programs = std::mem::take(&mut scores.programs);
        let texts = |list: Vec<Spanned<String>>| list.into_iter().map(Spanned::into_inner).collect();
        Ok(Plan {
            name,
            tokenizer: file.tokenizer.unwrap_or_else(|| "o200k".to_owned()),
            prices: file.prices.unwrap_or_default(),
            seed: file.seed.unwrap_or(0),
            shadow_seeds: file.shadow_seeds.map_or(8, NonZeroU32::get),
            partners: file.partners.map_or_else(|| vec![PARTNER_KINDS[0].to_owned()], texts),
            // The order means nothing, and the same tail twice is the same rows twice.
            reference_tails: file
                .reference_tails
                .map_or_else(|| vec![3, 10], |tails| tails.into_inner().into_iter().collect()),
            filter: Filter {
                formats: texts(data.formats),
                ids: data.ids,
                sources: data.sources,
                min_turns: data.min_turns,
                max_turns: data.max_turns,
                sample: data.sample,
                link: data.link.map(|by| Link {
                    by,
                    sessions: data.link_sessions.map_or(LINK_SESSIONS, NonZeroU32::get),
                }),
            },
            readers: self.readers(scores)?,
            score_programs,
            contexts: file.contexts.unwrap_or(false),
            variants: Vec::new(),
            models: BTreeMap::new(),
            data: data.path,
            notes: Vec::new(),
        })
    }

    fn readers(&self, scores: Scores) -> anyhow::Result<Named> {
        let names = |key: &str, written: Spanned<OneOrMore>| {
            let span = written.span();
            let named = written.into_inner().into_vec();
            if named.is_empty() {
                return Err(self.source.error(&span, format!("`{key}` has no value")));
            }
            match named.iter().enumerate().find(|(at, name)| named[..*at].contains(name)) {
                // Its rows would count twice.
                Some((_, name)) => Err(self.source.error(&span, format!("`{key}` names `{name}` twice"))),
                None => Ok(named),
            }
        };
        let mut readers = Named { embedder: scores.embedder, ..Named::default() };
        if let (Some(_), Some(ask)) = (&scores.scorer, &scores.ask) {
            let message =
                "`scorer` is asked for everything, `ask` says who is asked for what: give one of them";
            return Err(self.source.error(&ask.span(), message));
        }
        if let Some(scorer) = scores.scorer {
            readers.scorers = names("scorer", scorer)?;
        }
        for (what, asked) in scores.ask.map(Spanned::into_inner).into_iter().flatten() {
            if !Named::ASKED.contains(&what.get_ref().as_str()) {
                return Err(self.source.unknown_key(&what.span(), what.get_ref(), "`ask`", Named::ASKED));
            }
            readers.ask.insert(what.get_ref().clone(), names(what.get_ref(), asked)?);
        }
        for name in Named::ASKED.iter().filter_map(|what| readers.ask.get(*what)).flatten() {
            if !readers.scorers.contains(name) {
                readers.scorers.push(name.clone());
            }
        }
        Ok(readers)
    }

    /// The strategies, the triggers and what is excluded of their grid.
    pub(super) fn choices(&self, seed: u64) -> anyhow::Result<Choices> {
        let root = self.source.root()?.into_inner();
        let kinds @ [strategies, triggers] = [
            Kind { what: "strategy", known: &self.catalogue.strategies },
            Kind { what: "trigger", known: &self.catalogue.triggers },
        ];
        let all = |key: &str, kind: Kind| -> anyhow::Result<Vec<Choice>> {
            let tables = self.tables(&root, key)?;
            tables.into_iter().map(|(at, table)| self.choice(kind, &at, table, seed)).collect()
        };
        anyhow::ensure!(
            root.contains_key("strategies") || root.contains_key("policies"),
            "{}: no strategies\nhint: add `[[strategies]]` with `name = \"mask\"`",
            self.source.path
        );
        let (strategies, triggers) = (all("strategies", strategies)?, all("triggers", triggers)?);
        let excludes = self.tables(&root, "exclude")?.into_iter();
        let excludes =
            excludes.map(|(at, table)| Ok((self.source.line(at.start), self.exclude(kinds, &at, table)?)));
        let excludes = excludes.collect::<anyhow::Result<_>>()?;
        let policies = policies::variants(self.source, self.tables(&root, "policies")?, seed)?;
        Ok(Choices { strategies, triggers, excludes, policies })
    }

    /// The tables under a key, each with its place.
    fn tables<'v>(
        &self,
        root: &'v DeTable<'a>,
        key: &str,
    ) -> anyhow::Result<Vec<(Range<usize>, &'v DeTable<'a>)>> {
        let one = |v: &'v Spanned<DeValue<'a>>| match v.get_ref() {
            DeValue::Table(table) => Ok((v.span(), table)),
            _ => {
                let expected = format!("tables, each under `[[{key}]]`");
                Err(self.source.wrong_type(key, v, &expected))
            }
        };
        match root.get(key).map(|value| (value, value.get_ref())) {
            None => Ok(Vec::new()),
            Some((_, DeValue::Array(array))) => array.iter().map(one).collect(),
            Some((value, DeValue::Table(_))) => {
                let expected = format!("tables, each under `[[{key}]]`");
                Err(self.source.wrong_type(key, value, &expected))
            }
            Some((value, _)) => one(value).map(|table| vec![table]),
        }
    }

    /// One `[[strategies]]` or `[[triggers]]` table.
    fn choice(
        &self,
        kind: Kind,
        at: &Range<usize>,
        table: &DeTable<'a>,
        seed: u64,
    ) -> anyhow::Result<Choice> {
        let what = kind.what;
        let Some(written) = table.get("name") else {
            return Err(self.source.error(at, format!("a {what} without a name")));
        };
        let name: String = self.source.value("name", written)?;
        let entry = self.known(kind, &name, &written.span())?;
        let is_strategy = what == "strategy";
        let (mut models, mut seeds, mut params) = (vec![None], vec![seed], Vec::new());
        for (key, span, value) in items(table) {
            match key {
                "name" => {}
                "model" if is_strategy => {
                    let named: Vec<String> = self.one_or_more(key, value)?;
                    models = named.into_iter().map(|name| Some(name).filter(|n| n != NO_MODEL)).collect();
                }
                "seed" if is_strategy => seeds = self.one_or_more(key, value)?,
                // A program with its arguments, and its files, are written as everywhere.
                "command" | "files" if entry.keys().contains(&key) && is_texts(value.get_ref()) => {
                    params.push((key, span, vec![self.source.value(key, value)?]));
                }
                _ if entry.keys().contains(&key) => params.push((key, span, self.values(key, value)?)),
                _ => {
                    let mut keys = entry.keys();
                    keys.push("name");
                    keys.extend(Some("model").filter(|_| is_strategy && entry.takes_model));
                    keys.extend(Some("seed").filter(|_| is_strategy));
                    return Err(self.source.unknown_key(&span, key, &format!("{what} `{name}`"), &keys));
                }
            }
        }
        let refused = |why: &str| self.source.error(&written.span(), format!("{what} `{name}`{why}"));
        if !entry.takes_model && models.iter().any(Option::is_some) {
            return Err(refused(" asks no model\nhint: leave `model` out"));
        }
        let size = params.iter().map(|p| p.2.len()).fold(1, usize::saturating_mul);
        if size > MAX_VARIANTS {
            let why =
                format!("{what} `{name}` has {size} combinations of parameters, at most {MAX_VARIANTS}");
            return Err(self.source.error(at, why));
        }
        let mut tables = crossed(&params);
        for table in &mut tables {
            let complete = params::complete(entry.params, table.clone());
            match (entry.check)(complete.clone()) {
                Ok(true) if models.contains(&None) => {
                    let hint = "hint: add `model = \"NAME\"` to it (`trajpress list models`)";
                    return Err(refused(&format!(" with these parameters needs a model\n{hint}")));
                }
                Ok(_) => *table = complete,
                Err(error) => {
                    let (culprit, why) = entry.blame(table, params.iter().map(|p| p.0), &error);
                    let Some((key, span, _)) = params.iter().find(|p| Some(p.0) == culprit) else {
                        return Err(refused(&format!(": {why}")));
                    };
                    let message = format!(
                        "`{key} = {}` of {what} `{name}`: {why}",
                        short(&settings::written(&table[*key]))
                    );
                    return Err(self.source.error(span, message));
                }
            }
        }
        Ok(Choice { name, models, seeds, params: tables })
    }

    /// One `[[exclude]]` table.
    fn exclude(&self, kinds: [Kind; 2], at: &Range<usize>, table: &DeTable<'a>) -> anyhow::Result<Exclude> {
        const KEYS: &[&str] = &["strategy", "trigger", "strategy.<parameter>", "trigger.<parameter>"];
        if table.is_empty() {
            return Err(self.source.error(at, "an empty `exclude` would match the whole grid"));
        }
        let mut exclude = Exclude::default();
        let mut spans = [Vec::new(), Vec::new()];
        for (key, span, value) in items(table) {
            // TOML forbids `strategy = ..` beside `strategy.x = ..`, so the quoted key
            // `"strategy.x"` means the same.
            let (side, param) = key.split_once('.').map_or((key, None), |(side, param)| (side, Some(param)));
            let Some(i) = kinds.iter().position(|kind| kind.what == side) else {
                return Err(self.source.unknown_key(&span, key, "`exclude`", KEYS));
            };
            let set: Vec<Item> = match (param, value.get_ref()) {
                (None, DeValue::Table(table)) => items(table),
                (param, _) => vec![(param.unwrap_or("name"), span, value)],
            };
            let side = [&mut exclude.strategy, &mut exclude.trigger].into_iter().nth(i).expect("one of two");
            for (param, span, value) in set {
                if param == "name" {
                    side.names = self.known_names(kinds[i], key, value)?;
                } else {
                    side.params.push((param.to_owned(), self.values(param, value)?));
                    spans[i].push(span);
                }
            }
        }
        for ((side, spans), Kind { what, known }) in
            [&exclude.strategy, &exclude.trigger].into_iter().zip(spans).zip(kinds)
        {
            let taken = known.iter().filter(|k| side.takes(k.name));
            let keys: Vec<&str> = taken.flat_map(Known::keys).collect::<BTreeSet<_>>().into_iter().collect();
            let owner = match side.names.as_slice() {
                [] => format!("any {what}"),
                names => format!("{what} `{}`", names.join("` or `")),
            };
            for ((param, _), span) in side.params.iter().zip(spans) {
                if !keys.contains(&param.as_str()) {
                    return Err(self.source.unknown_key(&span, param, &owner, &keys));
                }
            }
        }
        Ok(exclude)
    }

    fn known<'k>(&self, kind: Kind<'k>, name: &str, span: &Range<usize>) -> anyhow::Result<&'k Known<'k>> {
        let names: Vec<&str> = kind.known.iter().map(|k| k.name).collect();
        Ok(&kind.known[self.source.right_name(kind.what, name, &names, span)?])
    }

    fn known_names(
        &self,
        kind: Kind,
        key: &str,
        value: &Spanned<DeValue<'a>>,
    ) -> anyhow::Result<Vec<String>> {
        let one = |v: &Spanned<DeValue<'a>>| {
            let name: String = self.source.value(key, v)?;
            self.known(kind, &name, &v.span())?;
            Ok(name)
        };
        self.each(key, value)?.iter().map(one).collect()
    }

    /// A value, or those of a list.
    fn each<'v>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'a>>,
    ) -> anyhow::Result<&'v [Spanned<DeValue<'a>>]> {
        match value.get_ref() {
            DeValue::Array(array) if array.is_empty() => {
                let hint = "hint: a list is a grid over its values; a list as value is `{ list = [] }`";
                Err(self.source.error(&value.span(), format!("`{key}` has no value\n{hint}")))
            }
            DeValue::Array(array) => Ok(array),
            _ => Ok(std::slice::from_ref(value)),
        }
    }

    fn one_or_more<T: DeserializeOwned>(
        &self,
        key: &str,
        value: &Spanned<DeValue<'a>>,
    ) -> anyhow::Result<Vec<T>> {
        self.each(key, value)?.iter().map(|v| self.source.value(key, v)).collect()
    }

    /// The values that a parameter takes in the grid.
    fn values(&self, key: &str, value: &Spanned<DeValue<'a>>) -> anyhow::Result<Vec<toml::Value>> {
        let one = |v: &Spanned<DeValue<'a>>| {
            let wrong = |expected: &str| self.source.wrong_type(key, v, expected);
            let value: toml::Value = self.source.value(key, v)?;
            if let Some(expected) = unusable(&value) {
                return Err(wrong(expected));
            }
            match &value {
                toml::Value::Array(_) => Err(wrong("a value (a grid over lists is `[{ list = [..] }, ..]`)")),
                toml::Value::Table(table) if table.len() == 1 => match table.get("list") {
                    Some(list @ toml::Value::Array(_)) => Ok(list.clone()),
                    Some(_) => Err(wrong("`{ list = [..] }`")),
                    None => Ok(value),
                },
                _ => Ok(value),
            }
        };
        self.each(key, value)?.iter().map(one).collect()
    }
}

fn is_texts(value: &DeValue<'_>) -> bool {
    let DeValue::Array(array) = value else { return false };
    array.iter().all(|one| matches!(one.get_ref(), DeValue::String(_)))
}

/// What a value should be that has no place in a row.
fn unusable(value: &toml::Value) -> Option<&'static str> {
    match value {
        toml::Value::Float(number) if !number.is_finite() => Some("one that is finite"),
        toml::Value::Datetime(_) => Some("a string, number, boolean or list"),
        toml::Value::Array(list) => list.iter().find_map(unusable),
        toml::Value::Table(table) => table.values().find_map(unusable),
        _ => None,
    }
}

/// Every combination of the parameters' values, in the order of the file.
fn crossed(params: &[Param]) -> Vec<toml::Table> {
    params.iter().fold(vec![toml::Table::new()], |tables, (key, _, values)| {
        let with = |(table, value): (&toml::Table, &toml::Value)| {
            let mut table = table.clone();
            table.insert((*key).to_owned(), value.clone());
            table
        };
        tables.iter().flat_map(|table| values.iter().map(move |value| (table, value))).map(with).collect()
    })
}
