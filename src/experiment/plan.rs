//! The experiment file and the grid that it names.
//!
//! Reads TOML with the positions of all keys, so that a wrong key, name or value is told with file,
//! line and the nearest right one. Runs nothing and opens no data.
//!
//! A parameter given as a list is a grid over its values, and lists are crossed. A parameter whose
//! value *is* a list is written `{ list = [1, 2] }`; a grid over such values is
//! `[{ list = [1] }, { list = [1, 2] }]`.

use crate::scores::money::Prices;
use crate::scores::readers::Named;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::models::NO_MODEL;
use crate::params::{self, Param};
use crate::settings::{Source, items, written};
use crate::text::escape::short;

/// What compresses nothing.
pub(super) const FULL: &str = "full";
/// What was sent by the log's own account: beside [`FULL`] in every table of logs that record edits.
const AS_SENT: &str = "as-sent";
/// A grid beyond this is a slip of the pen: nobody reads so many rows of a table.
const MAX_VARIANTS: usize = 10_000;
/// Kinds of partner trajectories.
const PARTNER_KINDS: [&str; 2] = ["other_repository", "same_repository"];
/// Strategies that are the same under every trigger and so stand in the grid once, under this one.
const ALONE: [(&str, &str); 2] = [(FULL, "never"), (AS_SENT, "logged-edits")];
/// The trigger that fires where the log itself was compacted, and the strategy that puts what was logged there.
const LOGGED: &str = "logged";
/// The parameter that names a model of embeddings; empty for none.
const EMBEDDER: &str = "embedder";

/// A checked experiment: what to replay, under which variants, with which constants.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    pub name: String,
    /// Name of the tokenizer that the features were counted with.
    pub tokenizer: String,
    pub prices: Prices,
    pub seed: u64,
    /// Number of seeds of the random shadow.
    pub shadow_seeds: u32,
    /// Kinds of partners that chance is measured with; the first is the headline's.
    pub partners: Vec<String>,
    /// An atom is at risk when its last mention is older than this many turns.
    pub reference_tails: Vec<u32>,
    pub filter: Filter,
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub readers: Named,
    /// Whether the table `contexts` is written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub contexts: bool,
    pub variants: Vec<Variant>,
    /// What the answers of each model depend on besides the call, by the model's name: rows are kept and found by
    /// it. Filled in where models are opened.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, String>,
    /// Folder of the data, where the file names one; no part of what is computed.
    #[serde(skip)]
    pub data: Option<PathBuf>,
    /// What the reader of the file should be told, but does not stop a run.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// Which trajectories of the data are replayed; an empty list takes all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Filter {
    /// Names of readers.
    pub formats: Vec<String>,
    /// Beginnings of trajectory ids.
    pub ids: Vec<String>,
    /// Parts of the path of the log.
    pub sources: Vec<String>,
    pub min_turns: Option<u32>,
    pub max_turns: Option<u32>,
    /// So many of them, drawn by the plan's seed, from each format in turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<u32>,
}

impl Filter {
    /// Whether a trajectory is replayed.
    pub fn takes(&self, id: &str, format: &str, source: &str, n_turns: u32) -> bool {
        let any =
            |list: &[String], test: &dyn Fn(&str) -> bool| list.is_empty() || list.iter().any(|s| test(s));
        any(&self.formats, &|s| s == format)
            && any(&self.ids, &|s| id.starts_with(s))
            && any(&self.sources, &|s| source.contains(s))
            && self.min_turns.is_none_or(|n| n_turns >= n)
            && self.max_turns.is_none_or(|n| n_turns <= n)
    }
}

/// One point of the grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Variant {
    /// Hash of all the rest except the label, 16 hex digits.
    pub id: String,
    /// Short readable name, unique within the plan.
    pub label: String,
    pub strategy: String,
    /// All parameters, defaults included.
    pub strategy_params: toml::Table,
    pub trigger: String,
    /// All parameters, defaults included.
    pub trigger_params: toml::Table,
    /// Name of the compressor's model; null for model-free.
    pub model: Option<String>,
    pub seed: u64,
}

impl Variant {
    /// Name of its model of embeddings.
    pub fn embedder(&self) -> Option<&str> {
        self.strategy_params.get(EMBEDDER)?.as_str().filter(|name| !name.is_empty())
    }

    /// Name of the model that its trigger asks.
    pub fn trigger_model(&self) -> Option<&str> {
        self.trigger_params.get("model")?.as_str().filter(|name| *name != NO_MODEL)
    }

    /// Names of all models that its replay asks.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        [self.model.as_deref(), self.embedder(), self.trigger_model()].into_iter().flatten()
    }
}

/// What the plan needs to know of one strategy or trigger.
pub struct Known<'a> {
    pub name: &'a str,
    pub params: &'a [Param],
    /// Whether it works with a model; it does without one, too.
    pub takes_model: bool,
    /// Whether these parameters make a working one, and if so, whether it needs a model.
    pub check: Box<dyn Fn(toml::Table) -> anyhow::Result<bool> + 'a>,
}

/// The names that an experiment may use.
pub struct Catalogue<'a> {
    pub strategies: Vec<Known<'a>>,
    pub triggers: Vec<Known<'a>>,
    /// Names of readers that `formats` in section `data` may hold; none takes any name.
    pub formats: Vec<&'a str>,
}

impl Known<'_> {
    fn keys(&self) -> Vec<&str> {
        self.params.iter().map(|p| p.name).collect()
    }

    fn param(&self, key: &str) -> Option<&Param> {
        self.params.iter().find(|p| p.name == key)
    }
}

impl Catalogue<'static> {
    /// All strategies and triggers of this version; its readers are not known here.
    pub fn built_in() -> Self {
        Catalogue {
            strategies: crate::strategies::ALL
                .iter()
                .map(|e| Known {
                    name: e.name,
                    params: e.params,
                    takes_model: e.takes_model,
                    check: Box::new(|table| (e.build)(table).map(|strategy| strategy.needs_model())),
                })
                .collect(),
            triggers: crate::triggers::ALL
                .iter()
                .map(|e| Known {
                    name: e.name,
                    params: e.params,
                    takes_model: false,
                    check: Box::new(|table| (e.build)(table).map(|_| false)),
                })
                .collect(),
            formats: Vec::new(),
        }
    }
}

impl Plan {
    /// Reads an experiment file.
    pub fn read(path: &Path, catalogue: &Catalogue) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut plan = Self::parse(&path.display().to_string(), &text, catalogue)?;
        if let (Some(data), Some(folder)) = (&plan.data, path.parent()) {
            plan.data = Some(folder.join(data));
        }
        Ok(plan)
    }

    /// Reads the text of an experiment file; `path` is for errors.
    pub fn parse(path: &str, text: &str, catalogue: &Catalogue) -> anyhow::Result<Self> {
        let source = Source { path, text };
        let root = source.root()?;
        Reader { source, catalogue }.plan(root.get_ref())
    }

    /// Adds what was sent to the grid, for logs that record edits of it; tells whether it was missing.
    pub fn add_as_sent(&mut self, catalogue: &Catalogue) -> bool {
        let is_missing = self.variants.iter().all(|v| v.strategy != AS_SENT);
        if is_missing {
            let behind = self.variants.iter().position(|v| v.strategy == FULL).map_or(0, |full| full + 1);
            self.variants.insert(behind, alone(AS_SENT, self.seed));
            label(&mut self.variants, catalogue, self.seed);
        }
        is_missing
    }

    /// Groups of variants that share a model, in order of first appearance; model-free first.
    pub fn groups(&self) -> Vec<(Option<&str>, Vec<&Variant>)> {
        let mut groups: Vec<(Option<&str>, Vec<&Variant>)> = Vec::new();
        for variant in &self.variants {
            let model = variant.model.as_deref().or(variant.trigger_model());
            match groups.iter_mut().find(|g| g.0 == model) {
                Some(group) => group.1.push(variant),
                None => groups.push((model, vec![variant])),
            }
        }
        groups.sort_by_key(|g| g.0.is_some());
        groups
    }
}

struct Reader<'a> {
    source: Source<'a>,
    catalogue: &'a Catalogue<'a>,
}

/// One `[[strategies]]` or `[[triggers]]` table, expanded.
struct Choice {
    name: String,
    models: Vec<Option<String>>,
    seeds: Vec<u64>,
    params: Vec<toml::Table>,
}

/// One `[[exclude]]` table: all that is set must match.
#[derive(Default)]
struct Exclude {
    strategy: Side,
    trigger: Side,
}

#[derive(Default)]
struct Side {
    /// Any of these names; none is any name at all.
    names: Vec<String>,
    /// Any of the values.
    params: Vec<(String, Vec<toml::Value>)>,
}

impl Side {
    fn takes(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|n| n == name)
    }

    fn matches(&self, name: &str, params: &toml::Table) -> bool {
        self.takes(name) && self.params.iter().all(|(k, any)| params.get(k).is_some_and(|v| any.contains(v)))
    }
}

const TOP: &[&str] = &[
    "name",
    "tokenizer",
    "seed",
    "shadow_seeds",
    "reference_tails",
    "partners",
    "prices",
    "data",
    "scores",
    "contexts",
    "strategies",
    "triggers",
    "exclude",
];

impl Reader<'_> {
    fn plan(&self, root: &DeTable) -> anyhow::Result<Plan> {
        let mut plan = Plan {
            name: String::new(),
            tokenizer: "o200k".to_owned(),
            prices: Prices::default(),
            seed: 0,
            shadow_seeds: 8,
            partners: vec![PARTNER_KINDS[0].to_owned()],
            reference_tails: vec![3, 10],
            filter: Filter::default(),
            readers: Named::default(),
            contexts: false,
            variants: Vec::new(),
            models: BTreeMap::new(),
            data: None,
            notes: Vec::new(),
        };
        let (mut strategies, mut triggers, mut excludes) = (None, None, Vec::new());
        for (key, span, value) in items(root) {
            match key {
                "name" => plan.name = self.source.string(key, value)?,
                "tokenizer" => plan.tokenizer = self.source.string(key, value)?,
                "seed" => plan.seed = self.source.whole(key, value)?,
                "shadow_seeds" => {
                    plan.shadow_seeds = self.source.whole(key, value)?;
                    if plan.shadow_seeds == 0 {
                        let message = "`shadow_seeds = 0`: the random shadow needs at least 1";
                        return Err(self.source.error(&value.span(), message));
                    }
                }
                "reference_tails" => {
                    plan.reference_tails = self
                        .source
                        .array(key, value)?
                        .iter()
                        .map(|v| self.source.whole(key, v))
                        .collect::<anyhow::Result<_>>()?;
                    // The order means nothing, and the same tail twice is the same rows twice.
                    plan.reference_tails.sort_unstable();
                    plan.reference_tails.dedup();
                    if plan.reference_tails.is_empty() {
                        let message = "`reference_tails` has no value, expected at least one number of turns";
                        return Err(self.source.error(&value.span(), message));
                    }
                }
                "partners" => {
                    plan.partners = self
                        .source
                        .array(key, value)?
                        .iter()
                        .map(|v| {
                            let kind = self.source.string(key, v)?;
                            self.source.right_name("kind of partner", &kind, &PARTNER_KINDS, &v.span())?;
                            Ok(kind)
                        })
                        .collect::<anyhow::Result<_>>()?;
                }
                "prices" => plan.prices = self.prices(&span, self.source.table(key, value)?)?,
                "data" => (plan.filter, plan.data) = self.data(self.source.table(key, value)?)?,
                "contexts" => plan.contexts = self.source.flag(key, value)?,
                "scores" => plan.readers = self.readers(self.source.table(key, value)?)?,
                "strategies" => strategies = Some((span, value)),
                "triggers" => triggers = Some((span, value)),
                "exclude" => excludes = self.source.tables(key, value)?,
                _ => return Err(self.source.unknown_key(&span, key, "the experiment", TOP)),
            }
        }
        anyhow::ensure!(
            !plan.name.trim().is_empty(),
            "{}: no name\nhint: begin with `name = \"first\"`",
            self.source.path
        );
        let Some((_, strategies)) = strategies else {
            anyhow::bail!(
                "{}: no strategies\nhint: add `[[strategies]]` with `name = \"mask\"`",
                self.source.path
            );
        };
        let strategies = self.choices("strategies", strategies, plan.seed)?;
        let triggers = match triggers {
            Some((_, value)) => self.choices("triggers", value, plan.seed)?,
            None => Vec::new(),
        };
        if triggers.is_empty() && strategies.iter().any(|s| alone_under(&s.name).is_none()) {
            anyhow::bail!(
                "{}: no triggers\nhint: add `[[triggers]]` with `name = \"turns\"`",
                self.source.path
            );
        }
        let combinations = |choices: &[Choice]| {
            let one = |c: &Choice| c.params.len() * c.models.len() * c.seeds.len();
            choices.iter().map(one).sum::<usize>()
        };
        let size = combinations(&strategies).saturating_mul(combinations(&triggers));
        anyhow::ensure!(
            size <= MAX_VARIANTS,
            "{}: a grid of {size} variants, at most {MAX_VARIANTS}",
            self.source.path
        );
        let excludes = excludes
            .into_iter()
            .map(|(span, table)| {
                let exclude = self.exclude(&span, table)?;
                Ok((span, exclude))
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut matched = vec![false; excludes.len()];
        plan.variants = cross(&strategies, &triggers, plan.seed, |s, sp, t, tp| {
            let mut out = false;
            for ((_, exclude), matched) in excludes.iter().zip(&mut matched) {
                if exclude.strategy.matches(s, sp) && exclude.trigger.matches(t, tp) {
                    *matched = true;
                    out = true;
                }
            }
            out
        });
        anyhow::ensure!(
            !plan.variants.is_empty(),
            "{}: nothing is left of the grid after `exclude`",
            self.source.path
        );
        if let Some(v) = plan.variants.iter().find(|v| v.strategy == LOGGED && v.trigger != LOGGED) {
            anyhow::bail!(
                "{}: strategy `{LOGGED}` under trigger `{}`: no summary was logged there, it works under trigger `{LOGGED}` alone\nhint: add `[[exclude]]` with `strategy = \"{LOGGED}\"` and `trigger.name = \"{}\"`",
                self.source.path,
                v.trigger,
                v.trigger
            );
        }
        if plan.variants.iter().all(|v| v.strategy != FULL) {
            plan.variants.insert(0, alone(FULL, plan.seed));
            plan.notes.push(format!("{}: full added: every table needs its baseline", self.source.path));
        }
        label(&mut plan.variants, self.catalogue, plan.seed);
        for ((span, _), _) in excludes.iter().zip(&matched).filter(|(_, matched)| !**matched) {
            let line = self.source.line(span.start);
            plan.notes.push(format!("{}:{line}: this exclude matches nothing", self.source.path));
        }
        Ok(plan)
    }

    fn prices(&self, section: &Range<usize>, table: &DeTable) -> anyhow::Result<Prices> {
        const KEYS: &[&str] = &["name", "fresh", "cache_write", "cache_read", "output", "cache_lifetime"];
        let mut prices = Prices::default();
        let mut missing = KEYS.to_vec();
        missing.retain(|k| *k != "cache_lifetime");
        for (key, span, value) in items(table) {
            match key {
                "name" => prices.name = self.source.string(key, value)?,
                "fresh" => prices.fresh = self.price(key, value)?,
                "cache_write" => prices.cache_write = self.price(key, value)?,
                "cache_read" => prices.cache_read = self.price(key, value)?,
                "output" => prices.output = self.price(key, value)?,
                "cache_lifetime" => prices.cache_lifetime = self.price(key, value)?,
                _ => return Err(self.source.unknown_key(&span, key, "section `prices`", KEYS)),
            }
            missing.retain(|k| *k != key);
        }
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(self.source.error(section, format!("section `prices` lacks {missing}")));
        }
        Ok(prices)
    }

    fn data(&self, table: &DeTable) -> anyhow::Result<(Filter, Option<PathBuf>)> {
        const KEYS: &[&str] = &["path", "formats", "ids", "sources", "min_turns", "max_turns", "sample"];
        let (mut filter, mut path) = (Filter::default(), None);
        for (key, span, value) in items(table) {
            match key {
                "path" => path = Some(PathBuf::from(self.source.string(key, value)?)),
                "formats" => {
                    filter.formats = self.source.strings(key, value)?;
                    let known = &self.catalogue.formats;
                    for (name, v) in filter.formats.iter().zip(self.source.array(key, value)?) {
                        if !known.is_empty() {
                            self.source.right_name("format", name, known, &v.span())?;
                        }
                    }
                }
                "ids" => filter.ids = self.source.strings(key, value)?,
                "sources" => filter.sources = self.source.strings(key, value)?,
                "min_turns" => filter.min_turns = Some(self.source.whole(key, value)?),
                "max_turns" => filter.max_turns = Some(self.source.whole(key, value)?),
                "sample" => filter.sample = Some(self.source.whole(key, value)?),
                _ => return Err(self.source.unknown_key(&span, key, "section `data`", KEYS)),
            }
        }
        Ok((filter, path))
    }

    fn readers(&self, table: &DeTable) -> anyhow::Result<Named> {
        const KEYS: &[&str] = &["scorer", "embedder", "ask"];
        let mut readers = Named::default();
        let names = |key: &str, value: &Spanned<DeValue>| {
            let named = self.one_or_more(key, value, |v| self.source.string(key, v))?;
            match named.iter().enumerate().find(|(at, name)| named[..*at].contains(name)) {
                // Its rows would count twice.
                Some((_, name)) => {
                    Err(self.source.error(&value.span(), format!("`{key}` names `{name}` twice")))
                }
                None => Ok(named),
            }
        };
        for (key, span, value) in items(table) {
            match key {
                "scorer" => readers.scorers = names(key, value)?,
                "embedder" => readers.embedder = Some(self.source.string(key, value)?),
                "ask" => {
                    let asked = self.source.table(key, value)?;
                    if table.contains_key("scorer") {
                        let message = "`scorer` is asked for everything, `ask` says who is asked for what: give one of them";
                        return Err(self.source.error(&span, message));
                    }
                    for (what, span, value) in items(asked) {
                        if !Named::ASKED.contains(&what) {
                            return Err(self.source.unknown_key(&span, what, "`ask`", Named::ASKED));
                        }
                        readers.ask.insert(what.to_owned(), names(what, value)?);
                    }
                }
                _ => return Err(self.source.unknown_key(&span, key, "section `scores`", KEYS)),
            }
        }
        for name in Named::ASKED.iter().filter_map(|what| readers.ask.get(*what)).flatten() {
            if !readers.scorers.contains(name) {
                readers.scorers.push(name.clone());
            }
        }
        Ok(readers)
    }

    /// Reads `[[strategies]]` or `[[triggers]]` and checks every combination of parameters.
    fn choices(&self, section: &str, value: &Spanned<DeValue>, seed: u64) -> anyhow::Result<Vec<Choice>> {
        let strategy = section == "strategies";
        let (what, known) = match strategy {
            true => ("strategy", &self.catalogue.strategies),
            false => ("trigger", &self.catalogue.triggers),
        };
        let mut choices = Vec::new();
        for (at, table) in self.source.tables(section, value)? {
            let items = items(table);
            let Some((_, _, name)) = items.iter().find(|i| i.0 == "name") else {
                return Err(self.source.error(&at, format!("a {what} without a name")));
            };
            let name_span = name.span();
            let name = self.source.string("name", name)?;
            let entry = self.known(what, known, &name, &name_span)?;
            let mut models = vec![None];
            let mut seeds = vec![seed];
            let mut params: Vec<(&str, Range<usize>, Vec<toml::Value>)> = Vec::new();
            for (key, span, value) in items {
                match key {
                    "name" => {}
                    "model" if strategy => {
                        models = self.one_or_more(key, value, |v| {
                            Ok(Some(self.source.string(key, v)?).filter(|name| name != NO_MODEL))
                        })?;
                    }
                    "seed" if strategy => {
                        seeds = self.one_or_more(key, value, |v| self.source.whole(key, v))?;
                    }
                    _ if entry.param(key).is_some() => {
                        params.push((key, span, self.values(key, value)?));
                    }
                    _ => {
                        let mut keys = entry.keys();
                        keys.push("name");
                        if strategy {
                            keys.extend(entry.takes_model.then_some("model"));
                            keys.push("seed");
                        }
                        let owner = format!("{what} `{name}`");
                        return Err(self.source.unknown_key(&span, key, &owner, &keys));
                    }
                }
            }
            if !entry.takes_model && models.iter().any(Option::is_some) {
                let message = format!("{what} `{name}` asks no model\nhint: leave `model` out");
                return Err(self.source.error(&name_span, message));
            }
            let size = params.iter().map(|p| p.2.len()).fold(1, usize::saturating_mul);
            if size > MAX_VARIANTS {
                let message = format!("{what} `{name}` has {size} combinations of parameters");
                return Err(self.source.error(&at, format!("{message}, at most {MAX_VARIANTS}")));
            }
            let mut tables = vec![toml::Table::new()];
            for (key, _, values) in &params {
                tables = tables
                    .iter()
                    .flat_map(|t| values.iter().map(move |v| (t, v)))
                    .map(|(t, v)| {
                        let mut t = t.clone();
                        t.insert((*key).to_owned(), v.clone());
                        t
                    })
                    .collect();
            }
            for table in &mut tables {
                let complete = params::complete(entry.params, table.clone());
                match (entry.check)(complete.clone()) {
                    Ok(true) if models.iter().any(Option::is_none) => {
                        let message = format!("{what} `{name}` with these parameters needs a model");
                        let hint = "hint: add `model = \"NAME\"` to it (`trajpress list models`)";
                        return Err(self.source.error(&name_span, format!("{message}\n{hint}")));
                    }
                    Ok(_) => {}
                    Err(error) => {
                        return Err(self.wrong_value(what, entry, table, &params, &name_span, &error));
                    }
                }
                *table = complete;
            }
            choices.push(Choice { name, models, seeds, params: tables });
        }
        Ok(choices)
    }

    /// Finds which parameter it is that the catalogue refuses: one that is refused alone.
    fn wrong_value(
        &self,
        what: &str,
        entry: &Known,
        table: &toml::Table,
        params: &[(&str, Range<usize>, Vec<toml::Value>)],
        name_span: &Range<usize>,
        error: &anyhow::Error,
    ) -> anyhow::Error {
        let alone = |key: &str| {
            let value = table.get(key)?;
            (entry.check)(toml::Table::from_iter([(key.to_owned(), value.clone())])).err()
        };
        let defaults_work = (entry.check)(toml::Table::new()).is_ok();
        // Defaults are not to blame, or else no parameter is.
        let culprit = params.iter().find_map(|(key, span, _)| {
            let error = alone(key).filter(|_| defaults_work)?;
            Some((*key, span, error))
        });
        let text = |error: &anyhow::Error| plain(&format!("{error:#}"));
        match culprit {
            Some((key, span, error)) => {
                let value = &table[key];
                let shown = short(&written(value));
                // Another way of writing the same number stands in what serde says.
                let error = text(&error).replace(&value.to_string(), &shown);
                let names = entry.param(key).filter(|_| !value.is_str()).and_then(|p| (p.names)());
                let error = names.map_or(error, |names| format!("expected {names}"));
                let error = error.strip_suffix(&format!(" in `{key}`")).unwrap_or(&error);
                // It was named just before.
                let error = error.strip_prefix("parameter ").unwrap_or(error);
                let error = error.strip_prefix(&format!("`{key}` ")).unwrap_or(error);
                let name = entry.name;
                self.source.error(span, format!("`{key} = {shown}` of {what} `{name}`: {error}"))
            }
            None => self.source.error(name_span, format!("{what} `{}`: {}", entry.name, text(error))),
        }
    }

    fn exclude(&self, at: &Range<usize>, table: &DeTable) -> anyhow::Result<Exclude> {
        const KEYS: &[&str] = &["strategy", "trigger", "strategy.<parameter>", "trigger.<parameter>"];
        let mut exclude = Exclude::default();
        let mut spans = [Vec::new(), Vec::new()];
        for (key, span, value) in items(table) {
            // TOML forbids `strategy = ..` beside `strategy.x = ..`, so the quoted key
            // `"strategy.x"` means the same.
            let (side, param) = match key.split_once('.') {
                Some((side, param)) => (side, Some(param)),
                None => (key, None),
            };
            let (i, side) = match side {
                "strategy" => (0, &mut exclude.strategy),
                "trigger" => (1, &mut exclude.trigger),
                _ => return Err(self.source.unknown_key(&span, key, "`exclude`", KEYS)),
            };
            let (what, known) = match i {
                0 => ("strategy", &self.catalogue.strategies),
                _ => ("trigger", &self.catalogue.triggers),
            };
            let names = |key: &str, value: &Spanned<DeValue>| {
                self.one_or_more(key, value, |v| {
                    let name = self.source.string(key, v)?;
                    self.known(what, known, &name, &v.span())?;
                    Ok(name)
                })
            };
            match (param, value.get_ref()) {
                (Some("name"), _) => side.names = names(key, value)?,
                (Some(param), _) => {
                    side.params.push((param.to_owned(), self.values(key, value)?));
                    spans[i].push(span);
                }
                (None, DeValue::Table(table)) => {
                    for (param, span, value) in items(table) {
                        if param == "name" {
                            side.names = names(param, value)?;
                        } else {
                            side.params.push((param.to_owned(), self.values(param, value)?));
                            spans[i].push(span);
                        }
                    }
                }
                (None, _) => side.names = names(key, value)?,
            }
        }
        for (side, spans, what, known) in [
            (&exclude.strategy, &spans[0], "strategy", &self.catalogue.strategies),
            (&exclude.trigger, &spans[1], "trigger", &self.catalogue.triggers),
        ] {
            let mut keys: Vec<&str> =
                known.iter().filter(|k| side.takes(k.name)).flat_map(Known::keys).collect();
            keys.sort_unstable();
            keys.dedup();
            let owner = match side.names.as_slice() {
                [] => format!("any {what}"),
                names => format!("{what} `{}`", names.join("` or `")),
            };
            for ((param, _), span) in side.params.iter().zip(spans) {
                if !keys.contains(&param.as_str()) {
                    return Err(self.source.unknown_key(span, param, &owner, &keys));
                }
            }
        }
        if table.is_empty() {
            return Err(self.source.error(at, "an empty `exclude` would match the whole grid"));
        }
        Ok(exclude)
    }

    fn known<'k>(
        &self,
        what: &str,
        known: &'k [Known<'k>],
        name: &str,
        span: &Range<usize>,
    ) -> anyhow::Result<&'k Known<'k>> {
        let names: Vec<&str> = known.iter().map(|k| k.name).collect();
        Ok(&known[self.source.right_name(what, name, &names, span)?])
    }

    fn price(&self, key: &str, value: &Spanned<DeValue>) -> anyhow::Result<f64> {
        let given = self.source.value(key, value)?;
        let price = match given {
            toml::Value::Integer(i) => i as f64,
            toml::Value::Float(f) => f,
            _ => return Err(self.source.wrong_type(key, value, "a number")),
        };
        if price < 0.0 {
            let span = value.span();
            return Err(self.source.error(&span, format!("`{key} = {}` is less than 0", written(&given))));
        }
        Ok(price)
    }

    fn one_or_more<T>(
        &self,
        key: &str,
        value: &Spanned<DeValue>,
        read: impl Fn(&Spanned<DeValue>) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        match value.get_ref() {
            DeValue::Array(array) if array.is_empty() => Err(self.empty(key, value)),
            DeValue::Array(array) => array.iter().map(read).collect(),
            _ => Ok(vec![read(value)?]),
        }
    }

    /// The values that a parameter takes in the grid.
    fn values(&self, key: &str, value: &Spanned<DeValue>) -> anyhow::Result<Vec<toml::Value>> {
        self.one_or_more(key, value, |v| match (v.get_ref(), self.source.value(key, v)?) {
            (DeValue::Table(_), toml::Value::Table(mut table)) if table.len() == 1 => {
                match table.remove("list") {
                    Some(list @ toml::Value::Array(_)) => Ok(list),
                    Some(_) => Err(self.source.wrong_type(key, v, "`{ list = [..] }`")),
                    None => self.source.value(key, v),
                }
            }
            (DeValue::Array(_), _) => {
                Err(self.source.wrong_type(key, v, "a value (a grid over lists is `[{ list = [..] }, ..]`)"))
            }
            (_, value) => Ok(value),
        })
    }

    fn empty(&self, key: &str, value: &Spanned<DeValue>) -> anyhow::Error {
        let hint = "hint: a list is a grid over its values; a list as value is `{ list = [] }`";
        self.source.error(&value.span(), format!("`{key}` has no value\n{hint}"))
    }
}

/// An error in one line, but for a hint, and without names of types.
fn plain(error: &str) -> String {
    let text = error.trim().replace('\n', " ").replace(" hint: ", "\nhint: ");
    let whole = match text.contains("value: integer `") && !text.contains("value: integer `-") {
        true => "a smaller whole number",
        false => "a whole number of 0 or more",
    };
    let types = [("u8", whole), ("u32", whole), ("u64", whole), ("usize", whole), ("f64", "a number")];
    types.iter().fold(text, |text, (name, words)| {
        text.replace(&format!("expected {name}"), &format!("expected {words}"))
    })
}

/// The one trigger under which a strategy stands, if it is the same under all.
fn alone_under(strategy: &str) -> Option<&'static str> {
    ALONE.iter().find(|(name, _)| *name == strategy).map(|(_, trigger)| *trigger)
}

/// A strategy that stands in the grid once, as [`cross`] makes it. None of them has parameters.
fn alone(strategy: &str, seed: u64) -> Variant {
    let mut variant = Variant {
        id: String::new(),
        label: String::new(),
        strategy: strategy.to_owned(),
        strategy_params: toml::Table::new(),
        trigger: alone_under(strategy).unwrap_or_default().to_owned(),
        trigger_params: toml::Table::new(),
        model: None,
        seed,
    };
    variant.id = variant_id(&variant);
    variant
}

/// Crosses strategies and triggers in the order of the file; equal points stand once.
fn cross(
    strategies: &[Choice],
    triggers: &[Choice],
    seed: u64,
    mut excluded: impl FnMut(&str, &toml::Table, &str, &toml::Table) -> bool,
) -> Vec<Variant> {
    let none = toml::Table::new();
    let mut variants = Vec::new();
    let mut seen = HashSet::new();
    let mut add = |mut variant: Variant| {
        variant.id = variant_id(&variant);
        if seen.insert(variant.id.clone()) {
            variants.push(variant);
        }
    };
    for strategy in strategies {
        let mut points: Vec<(&str, &toml::Table)> =
            triggers.iter().flat_map(|t| t.params.iter().map(|p| (t.name.as_str(), p))).collect();
        let under = alone_under(&strategy.name);
        points.extend(under.filter(|_| triggers.is_empty()).map(|trigger| (trigger, &none)));
        for params in &strategy.params {
            for &(trigger, trigger_params) in &points {
                if excluded(&strategy.name, params, trigger, trigger_params) {
                    continue;
                }
                // When and with what makes no difference.
                if under.is_some() {
                    add(alone(&strategy.name, seed));
                    continue;
                }
                let seeds = &strategy.seeds;
                for (model, variant_seed) in
                    strategy.models.iter().flat_map(|m| seeds.iter().map(move |s| (m, *s)))
                {
                    add(Variant {
                        id: String::new(),
                        label: String::new(),
                        strategy: strategy.name.clone(),
                        strategy_params: params.clone(),
                        trigger: trigger.to_owned(),
                        trigger_params: trigger_params.clone(),
                        model: model.clone(),
                        seed: variant_seed,
                    });
                }
            }
        }
    }
    variants
}

/// Names the variants by what tells them apart: parameters that differ from the default, or that
/// take several values in this plan.
fn label(variants: &mut [Variant], catalogue: &Catalogue, seed: u64) {
    let name = |known: &[Known], all: &[(&str, &toml::Table)]| -> Vec<String> {
        let varies = |name: &str, key: &str, value: &toml::Value| {
            all.iter().any(|(n, params)| *n == name && params.get(key) != Some(value))
        };
        all.iter()
            .map(|(name, params)| {
                let known = known.iter().find(|k| k.name == *name);
                // In the order of the catalogue, which puts the first things first.
                let shown: Vec<String> = known
                    .iter()
                    .flat_map(|k| k.params)
                    .filter_map(|param| Some((param, params.get(param.name)?)))
                    .filter(|(param, value)| {
                        param.value().as_ref() != Some(value) || varies(name, param.name, value)
                    })
                    .map(|(param, value)| match value {
                        toml::Value::String(s) => format!("{}={s}", param.name),
                        other => format!("{}={}", param.name, written(other)),
                    })
                    .collect();
                match shown.is_empty() {
                    true => (*name).to_owned(),
                    false => format!("{name}({})", shown.join(",")),
                }
            })
            .collect()
    };
    let both = |of: fn(&Variant) -> (&str, &toml::Table)| variants.iter().map(of).collect::<Vec<_>>();
    let strategies = name(&catalogue.strategies, &both(|v| (&v.strategy, &v.strategy_params)));
    let triggers = name(&catalogue.triggers, &both(|v| (&v.trigger, &v.trigger_params)));
    let takes_model = |name: &str| catalogue.strategies.iter().any(|k| k.name == name && k.takes_model);
    for ((variant, strategy), trigger) in variants.iter_mut().zip(strategies).zip(triggers) {
        variant.label = format!("{strategy} @ {trigger}");
        match &variant.model {
            Some(model) => variant.label.push_str(&format!(" [{model}]")),
            None if takes_model(&variant.strategy) => variant.label.push_str(" [model-free]"),
            None => {}
        }
        if variant.seed != seed {
            variant.label.push_str(&format!(" #{}", variant.seed));
        }
    }
}

fn variant_id(v: &Variant) -> String {
    // The tables sort their keys, so this JSON is canonical.
    let all =
        serde_json::json!([v.strategy, v.strategy_params, v.trigger, v.trigger_params, v.model, v.seed]);
    blake3::hash(all.to_string().as_bytes()).to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_names_say_which() {
        let told = |strategy: &str| {
            let text = format!("name = \"x\"\n[[strategies]]\n{strategy}\n[[triggers]]\nname = \"turns\"\n");
            Plan::parse("x.toml", &text, &Catalogue::built_in()).unwrap_err().to_string()
        };
        for value in ["true", "3", "0.5", "[true, false]", "{ list = [1] }"] {
            let error = told(&format!("name = \"prune-importance\"\npair = {value}"));
            assert!(error.ends_with("of strategy `prune-importance`: expected `least` or `most`"), "{error}");
        }
        let error = told("name = \"prune-importance\"\nrate = true");
        assert!(error.ends_with(
            "`rate = true` of strategy `prune-importance`: expected one of `auto`, `rules`, `model`"
        ));
        // None of all parameters of all strategies and triggers is told in words of the code.
        let value = |of: &str, name: &str, key: &str, value: &str| {
            let grid = format!("[[{of}]]\nname = \"{name}\"\n{key} = {value}\n");
            let rest = if of == "triggers" {
                "[[strategies]]\nname = \"mask\"\n"
            } else {
                "[[triggers]]\nname = \"turns\"\n"
            };
            Plan::parse("x.toml", &format!("name = \"x\"\n{grid}{rest}"), &Catalogue::built_in())
        };
        let built_in = Catalogue::built_in();
        let all = built_in.strategies.iter().map(|k| ("strategies", k));
        for (of, known) in all.chain(built_in.triggers.iter().map(|k| ("triggers", k))) {
            for key in known.keys() {
                for wrong in ["true", "-1", "0.5", "\"?\"", "{ list = [true] }", "1e300"] {
                    if let Err(error) = value(of, known.name, key, wrong) {
                        let error = error.to_string();
                        let is_plain = ["unit variant", "string only", "u32", "f64", "0000000"]
                            .iter()
                            .all(|w| !error.contains(w));
                        assert!(is_plain, "{error}");
                    }
                }
            }
        }
    }

    params::params! {
        #[expect(dead_code, reason = "it is read, and no more")]
        struct Mask {
            /// Turns that stay.
            keep_last: u32 = 10,
            /// A share.
            share: f64 = 0.5 (from 0 to 1),
            /// A list.
            weights: Vec<u32> = [],
        }
    }

    fn catalogue() -> Catalogue<'static> {
        let plain = |name, params| Known { name, params, takes_model: false, check: Box::new(|_| Ok(false)) };
        Catalogue {
            strategies: vec![
                plain("full", &[]),
                Known {
                    takes_model: false,
                    name: "mask",
                    params: Mask::PARAMS,
                    check: Box::new(|table| Mask::of(table).map(|_| false)),
                },
                plain("truncate", const { &[Param::any("keep_last", "3")] }),
                Known { takes_model: true, ..plain("summary", &[]) },
            ],
            triggers: vec![
                plain("never", &[]),
                plain("turns", const { &[Param::any("n", "21"), Param::any("keep", "0")] }),
                plain("tokens", const { &[Param::any("window", "32000")] }),
            ],
            formats: vec!["swe-agent", "openai-chat"],
        }
    }

    fn parse(text: &str) -> anyhow::Result<Plan> {
        Plan::parse("experiment.toml", text, &catalogue())
    }

    fn labels(text: &str) -> Vec<String> {
        parse(text).unwrap().variants.into_iter().map(|v| v.label).collect()
    }

    fn error(text: &str) -> String {
        format!("{:#}", parse(text).unwrap_err())
    }

    #[test]
    fn lists_are_crossed_and_full_stands_once() {
        let text = r#"
            name = "first"
            [[strategies]]
            name = "full"
            [[strategies]]
            name = "mask"
            keep_last = [5, 10]
            [[triggers]]
            name = "turns"
            n = [1, 21]
            [[triggers]]
            name = "tokens"
        "#;
        insta::assert_snapshot!(labels(text).join("\n"), @r"
        full @ never
        mask(keep_last=5) @ turns(n=1)
        mask(keep_last=5) @ turns(n=21)
        mask(keep_last=5) @ tokens
        mask(keep_last=10) @ turns(n=1)
        mask(keep_last=10) @ turns(n=21)
        mask(keep_last=10) @ tokens
        ");
    }

    #[test]
    fn a_list_as_value_is_not_a_grid() {
        let text = r#"
            name = "first"
            seed = 1
            strategies = [
                { name = "mask", weights = { list = [1, 2] } },
                { name = "mask", weights = [{ list = [] }, { list = [3] }], seed = [1, 2] },
            ]
            triggers = [{ name = "turns" }]
        "#;
        insta::assert_snapshot!(labels(text).join("\n"), @r"
        full @ never
        mask(weights=[1, 2]) @ turns
        mask(weights=[]) @ turns
        mask(weights=[]) @ turns #2
        mask(weights=[3]) @ turns
        mask(weights=[3]) @ turns #2
        ");
    }

    #[test]
    fn full_is_always_there() {
        let rest = "[[strategies]]\nname = \"mask\"\n[[triggers]]\nname = \"turns\"";
        let plan = parse(&format!("name = \"x\"\nseed = 3\n{rest}")).unwrap();
        let labels: Vec<&str> = plan.variants.iter().map(|v| v.label.as_str()).collect();
        assert_eq!(labels, ["full @ never", "mask @ turns"]);
        assert_eq!(plan.notes, ["experiment.toml: full added: every table needs its baseline"]);
        // It is the very one that a grid with `full` holds, and is not left out either.
        let full = "[[strategies]]\nname = \"full\"\n";
        let named = parse(&format!("name = \"x\"\nseed = 3\n{full}{rest}")).unwrap();
        assert_eq!(named.variants, plan.variants);
        assert!(named.notes.is_empty());
        let exclude = "[[exclude]]\nstrategy = \"full\"\n";
        let excluded = parse(&format!("name = \"x\"\nseed = 3\n{full}{exclude}{rest}")).unwrap();
        assert_eq!((excluded.variants, excluded.notes), (plan.variants, plan.notes));
    }

    #[test]
    fn excluded_points_are_left_out() {
        let text = r#"
            name = "first"
            strategies = [{ name = "full" }, { name = "mask", keep_last = [5, 10] }, { name = "truncate" }]
            triggers = [{ name = "turns", n = [1, 21] }, { name = "tokens" }]
            [[exclude]]
            strategy = "full"
            trigger = "tokens"
            [[exclude]]
            strategy = "truncate"
            trigger.n = [1, 2]
            [[exclude]]
            strategy = "mask"
            "strategy.keep_last" = 5
            trigger.name = "turns"
            [[exclude]]
            strategy.keep_last = 99
        "#;
        insta::assert_snapshot!(labels(text).join("\n"), @r"
        full @ never
        mask(keep_last=5) @ tokens
        mask(keep_last=10) @ turns(n=1)
        mask(keep_last=10) @ turns(n=21)
        mask(keep_last=10) @ tokens
        truncate @ turns(n=21)
        truncate @ tokens
        ");
        let notes = parse(text).unwrap().notes.join("\n");
        insta::assert_snapshot!(notes, @"experiment.toml:15: this exclude matches nothing");
    }

    #[test]
    fn what_was_logged_stands_where_it_was_logged() {
        let text = |exclude: &str| {
            format!(
                r#"
                name = "first"
                strategies = [{{ name = "logged" }}, {{ name = "drop-all" }}]
                triggers = [{{ name = "turns" }}, {{ name = "logged" }}]
                {exclude}
                "#
            )
        };
        let parse = |exclude: &str| Plan::parse("experiment.toml", &text(exclude), &Catalogue::built_in());
        let told = parse("").unwrap_err().to_string();
        assert!(
            told.contains("strategy `logged` under trigger `turns`") && told.contains("[[exclude]]"),
            "{told}"
        );
        let plan = parse("[[exclude]]\nstrategy = \"logged\"\ntrigger.name = \"turns\"").unwrap();
        let labels: Vec<&str> = plan.variants.iter().map(|v| v.label.as_str()).collect();
        assert_eq!(labels, ["full @ never", "logged @ logged", "drop-all @ turns", "drop-all @ logged"]);
    }

    #[test]
    fn what_was_sent_stands_once_and_behind_the_baseline() {
        let labels = |plan: &Plan| plan.variants.iter().map(|v| v.label.clone()).collect::<Vec<_>>();
        let parse = |strategies: &str| {
            let text = format!(
                "name = \"x\"\nstrategies = [{strategies}]\ntriggers = [{{ name = \"turns\", n = [1, 2] }}]"
            );
            Plan::parse("experiment.toml", &text, &Catalogue::built_in()).unwrap()
        };
        let mask = ["mask @ turns(n=1)", "mask @ turns(n=2)"];
        let all = ["full @ never", "as-sent @ logged-edits", mask[0], mask[1]];
        let mut plan = parse(r#"{ name = "mask" }"#);
        let ids: Vec<String> = plan.variants.iter().map(|v| v.id.clone()).collect();
        assert!(plan.add_as_sent(&Catalogue::built_in()));
        assert_eq!(labels(&plan), all);
        let named = parse(r#"{ name = "full" }, { name = "as-sent" }, { name = "mask" }"#);
        assert_eq!(named.variants, plan.variants);
        // Those that were there before are the same, and it is added once.
        assert!([0, 2, 3].iter().zip(&ids).all(|(&i, id)| plan.variants[i].id == *id));
        assert!(!plan.add_as_sent(&Catalogue::built_in()));
        assert_eq!(labels(&plan), all);
        let alone = "name = \"x\"\nstrategies = [{ name = \"as-sent\" }]";
        let plan = Plan::parse("experiment.toml", alone, &Catalogue::built_in()).unwrap();
        assert_eq!(labels(&plan), all[..2]);
    }

    #[test]
    fn an_exclude_takes_lists_of_names() {
        let text = |exclude: &str| {
            format!(
                r#"
                name = "first"
                strategies = [{{ name = "full" }}, {{ name = "mask" }}, {{ name = "truncate" }}]
                triggers = [{{ name = "turns" }}, {{ name = "tokens" }}, {{ name = "never" }}]
                [[exclude]]
                {exclude}
                "#
            )
        };
        let some = "strategy = [\"mask\", \"truncate\"]\ntrigger = [\"turns\", \"never\"]";
        assert_eq!(labels(&text(some)), ["full @ never", "mask @ tokens", "truncate @ tokens"]);
        let some = "strategy.name = [\"mask\", \"truncate\"]\nstrategy.keep_last = 10";
        assert_eq!(
            labels(&text(some)),
            ["full @ never", "truncate @ turns", "truncate @ tokens", "truncate @ never"]
        );
        let mut errors = String::new();
        for exclude in [
            "strategy = [\"mask\",\n\"trunkate\"]",
            "trigger = []",
            "strategy.name = [\"mask\", \"full\"]\nstrategy.windw = 1",
        ] {
            errors.push_str(&error(&text(exclude)));
            errors.push('\n');
        }
        insta::assert_snapshot!(errors, @r"
        experiment.toml:7: unknown strategy `trunkate`
        hint: did you mean `truncate`? (known: full, mask, truncate, summary)
        experiment.toml:6: `trigger` has no value
        hint: a list is a grid over its values; a list as value is `{ list = [] }`
        experiment.toml:7: unknown key `windw` of strategy `mask` or `full`
        hint: known: keep_last, share, weights
        ");
    }

    #[test]
    fn ids_hold_what_runs_and_nothing_else() {
        let ids = |strategy: &str| -> Vec<String> {
            let text = format!(
                "name = \"x\"\nseed = 1\nstrategies = [{strategy}]\ntriggers = [{{ name = \"turns\" }}]"
            );
            let variants = parse(&text).unwrap().variants;
            variants.into_iter().filter(|v| v.strategy != "full").map(|v| v.id).collect()
        };
        let default = ids(r#"{ name = "mask" }"#);
        insta::assert_snapshot!(default[0], @"0acdf28d8ee743cf");
        // A default written out is the same variant, and so is a whole number for a fraction.
        assert_eq!(ids(r#"{ share = 0.5, keep_last = 10, name = "mask" }"#), default);
        assert_eq!(ids(r#"{ name = "mask", share = [1, 1.0] }"#).len(), 1);
        let others = [
            r#"{ name = "mask", keep_last = 11 }"#,
            r#"{ name = "mask", seed = 2 }"#,
            r#"{ name = "truncate" }"#,
        ];
        for other in others {
            assert_ne!(ids(other), default, "{other}");
        }
        assert_eq!(default[0].len(), 16);
        let models = ids(r#"{ name = "summary", model = ["none", "m"] }"#);
        assert_eq!(models[0], ids(r#"{ name = "summary" }"#)[0]);
        assert_ne!(models[0], models[1]);
    }

    #[test]
    fn the_rest_of_the_file_is_read() {
        let plan = parse(
            r#"
            name = "first"
            tokenizer = "cl100k"
            seed = 7
            shadow_seeds = 2
            reference_tails = [5, 3, 5]
            [prices]
            name = "p"
            fresh = 3
            cache_write = 3.75
            cache_read = 0.3
            output = 15
            [data]
            path = "d"
            formats = ["swe-agent"]
            min_turns = 5
            [[strategies]]
            name = "full"
            "#,
        )
        .unwrap();
        assert_eq!((plan.tokenizer.as_str(), plan.seed, plan.shadow_seeds), ("cl100k", 7, 2));
        assert_eq!((plan.reference_tails.as_slice(), plan.prices.fresh), (&[3, 5][..], 3.0));
        assert_eq!(plan.prices.cache_lifetime, 300.0);
        let long = parse(
            "name = 'x'\n[prices]\nname = 'p'\nfresh = 1\ncache_write = 1\ncache_read = 1\noutput = 1\ncache_lifetime = 3600\n[[strategies]]\nname = 'full'",
        );
        assert_eq!(long.unwrap().prices.cache_lifetime, 3600.0);
        assert_eq!(plan.data, Some(PathBuf::from("d")));
        assert!(plan.filter.takes("id", "swe-agent", "a/b", 5));
        assert!(!plan.filter.takes("id", "swe-agent", "a/b", 4));
        assert!(!plan.filter.takes("id", "openai-chat", "a/b", 5));
        assert_eq!(plan.variants[0].seed, 7);
    }

    #[test]
    fn wrong_keys_name_file_line_and_the_nearest_right_one() {
        let mut all = String::new();
        for text in [
            "name = \"x\"\nshadow_sedes = 3",
            "name = \"x\"\n\n[price]\nfresh = 1",
            "name = \"x\"\n[prices]\nfresh = 1\ncached_read = 2",
            "name = \"x\"\n[prices]\nfresh = 1",
            "name = \"x\"\n[data]\nformat = [\"a\"]",
            "name = \"x\"\n[data]\nformats = [\n\"swe-agent\",\n\"open-chat\"]",
            "name = \"x\"\npartners = [\"other_repo\"]",
            "name = \"x\"\n[scores.ask]\nprobe = \"m\"",
            "name = \"x\"\n[scores]\nscorer = [\"m\", \"m\"]",
            "name = \"x\"\n[scores]\nscorer = \"m\"\nask = { judge = \"m\" }",
            "name = \"x\"\n[[strategies]]\nname = \"msak\"",
            "name = \"x\"\n[[strategies]]\nname = \"mask\"\n# a remark\nkeep_lst = 3",
            "name = \"x\"\n[[strategies]]\nkeep_last = 3",
            "name = \"x\"\nstrategies = [{ name = \"full\" }]\n[[triggers]]\nname = \"turns\"\nmodel = \"m\"",
            "name = \"x\"\nstrategies = [{ name = \"full\" }]\n[[exclude]]\nstrategie = \"full\"",
            "name = \"x\"\nstrategies = [{ name = \"full\" }]\n[[exclude]]\ntrigger = \"turn\"",
            "name = \"x\"\nstrategies = [{ name = \"full\" }]\n[[exclude]]\nstrategy.keep = 1",
            "name = \"x\"\nstrategies = [{ name = \"full\" }]\n[[exclude]]",
        ] {
            all.push_str(&error(text));
            all.push_str("\n\n");
        }
        insta::assert_snapshot!(all, @r"
        experiment.toml:2: unknown key `shadow_sedes` of the experiment
        hint: did you mean `shadow_seeds`? (known: name, tokenizer, seed, shadow_seeds, reference_tails, partners, prices, data, scores, contexts, strategies, triggers, exclude)

        experiment.toml:3: unknown key `price` of the experiment
        hint: did you mean `prices`? (known: name, tokenizer, seed, shadow_seeds, reference_tails, partners, prices, data, scores, contexts, strategies, triggers, exclude)

        experiment.toml:4: unknown key `cached_read` of section `prices`
        hint: did you mean `cache_read`? (known: name, fresh, cache_write, cache_read, output, cache_lifetime)

        experiment.toml:2: section `prices` lacks name, cache_write, cache_read, output

        experiment.toml:3: unknown key `format` of section `data`
        hint: did you mean `formats`? (known: path, formats, ids, sources, min_turns, max_turns, sample)

        experiment.toml:5: unknown format `open-chat`
        hint: did you mean `openai-chat`? (known: swe-agent, openai-chat)

        experiment.toml:2: unknown kind of partner `other_repo`
        hint: did you mean `other_repository`? (known: other_repository, same_repository)

        experiment.toml:3: unknown key `probe` of `ask`
        hint: did you mean `probes`? (known: likelihood, probes, judge, outcomes)

        experiment.toml:3: `scorer` names `m` twice

        experiment.toml:4: `scorer` is asked for everything, `ask` says who is asked for what: give one of them

        experiment.toml:3: unknown strategy `msak`
        hint: did you mean `mask`? (known: full, mask, truncate, summary)

        experiment.toml:5: unknown key `keep_lst` of strategy `mask`
        hint: did you mean `keep_last`? (known: keep_last, share, weights, name, seed)

        experiment.toml:2: a strategy without a name

        experiment.toml:5: unknown key `model` of trigger `turns`
        hint: known: n, keep, name

        experiment.toml:4: unknown key `strategie` of `exclude`
        hint: did you mean `strategy`? (known: strategy, trigger, strategy.<parameter>, trigger.<parameter>)

        experiment.toml:4: unknown trigger `turn`
        hint: did you mean `turns`? (known: never, turns, tokens)

        experiment.toml:4: unknown key `keep` of any strategy
        hint: did you mean `keep_last`? (known: keep_last, share, weights)

        experiment.toml:3: an empty `exclude` would match the whole grid
        ");
    }

    /// The program's own triggers: each is named once, without names of types.
    #[test]
    fn refused_parameters_of_triggers() {
        let told = |lines: &str| {
            let text = format!("name = \"x\"\nstrategies = [{{ name = \"full\" }}]\n[[triggers]]\n{lines}");
            match Plan::parse("a.toml", &text, &Catalogue::built_in()) {
                Ok(_) => String::new(),
                Err(error) => error.to_string(),
            }
        };
        for (lines, error) in [
            (
                "name = \"subtask\"\nedits = 0",
                "a.toml:5: `edits = 0` of trigger `subtask`: must be at least 1",
            ),
            (
                "name = \"subtask\"\nedits = -1",
                "a.toml:5: `edits = -1` of trigger `subtask`: invalid value: integer `-1`, expected a whole number of 0 or more",
            ),
            (
                "name = \"subtask\"\nedits = 9999999999",
                "a.toml:5: `edits = 9999999999` of trigger `subtask`: invalid value: integer `9999999999`, expected a smaller whole number",
            ),
            (
                "name = \"staleness\"\nrecent = 5\nbatch = 0",
                "a.toml:6: `batch = 0` of trigger `staleness`: must be at least 1",
            ),
            (
                "name = \"staleness\"\nthreshold = [0.5, 1.5]",
                "a.toml:5: `threshold = 1.5` of trigger `staleness`: must be between 0 and 1",
            ),
            (
                "name = \"staleness\"\nthreshold = \"high\"",
                "a.toml:5: `threshold = \"high\"` of trigger `staleness`: invalid type: string \"high\", expected a number",
            ),
            (
                "name = \"boundary\"\nfile = false\nmodule = false\ntest = false\napi = false",
                "a.toml:4: trigger `boundary`: it never fires: one of `file`, `module`, `test`, `api` must be true",
            ),
            (
                "name = \"intent\"\ntransitions = \"verify-verify\"",
                "a.toml:5: `transitions = \"verify-verify\"` of trigger `intent`: `verify-verify` in parameter `transitions` is no transition\nhint: write FROM-TO, two different ones of explore, debug, implement, verify, document, refactor",
            ),
            ("name = \"hybrid\"\nboundary = false\nintent = false\nstaleness = false\nsubtask = false", ""),
        ] {
            assert_eq!(told(lines), error);
        }
    }

    #[test]
    fn wrong_values_name_file_and_line() {
        let mut all = String::new();
        for text in [
            "name = 3",
            "seed = -1",
            "seed = 1.5",
            "reference_tails = [3, \"x\"]",
            "name = \"x\"\nreference_tails = []",
            "name = \"x\"\nshadow_seeds = 0",
            "prices = 3",
            "[prices]\nfresh = -1",
            "name = \"x\"\nstrategies = 3",
            "name = \"x\"\n[strategies]\nname = \"mask\"",
            "name = \"x\"\n[[strategies]]\nname = \"mask\"\nshare = 0.5\nkeep_last = [3, \"x\"]",
            "name = \"x\"\n[[strategies]]\nname = \"mask\"\nshare = 2",
            "name = \"x\"\n[[strategies]]\nname = \"mask\"\nkeep_last = []",
            "name = \"x\"\n[[strategies]]\nname = \"mask\"\nweights = [[1]]",
            "name = \"x\"\n[[strategies]]\nname = \"mask\"\nshare = inf",
            "name = \"x\"\n[[strategies]]\nname = \"mask\"\nshare = 2020-01-01",
            "name = \"x\"\n[[strategies]]\nname = \"mask\"",
            "name = \"x\"",
            "",
            "name = \"x\"\nseed = = 3",
            "name = \"x\"\nname = \"y\"",
            "name = \"x\"\nstrategies = [{ name = \"full\" }]\ntriggers = [{ name = \"turns\" }]\nexclude = [{ strategy = \"full\" }]",
        ] {
            all.push_str(&error(text));
            all.push_str("\n\n");
        }
        insta::assert_snapshot!(all, @r#"
        experiment.toml:1: `name` is a whole number, expected a string

        experiment.toml:1: `seed = -1` is out of range

        experiment.toml:1: `seed` is a fraction, expected a whole number

        experiment.toml:1: `reference_tails` is a string, expected a whole number

        experiment.toml:2: `reference_tails` has no value, expected at least one number of turns

        experiment.toml:2: `shadow_seeds = 0`: the random shadow needs at least 1

        experiment.toml:1: `prices` is a whole number, expected a section `[prices]`

        experiment.toml:2: `fresh = -1` is less than 0

        experiment.toml:2: `strategies` is a whole number, expected tables, each under `[[strategies]]`

        experiment.toml:2: `strategies` is a table, expected tables, each under `[[strategies]]`

        experiment.toml:5: `keep_last = "x"` of strategy `mask`: invalid type: string "x", expected a whole number of 0 or more

        experiment.toml:4: `share = 2` of strategy `mask`: must be between 0 and 1

        experiment.toml:4: `keep_last` has no value
        hint: a list is a grid over its values; a list as value is `{ list = [] }`

        experiment.toml:4: `weights` is a list, expected a value (a grid over lists is `[{ list = [..] }, ..]`)

        experiment.toml:4: `share` is a fraction, expected one that is finite

        experiment.toml:4: `share` is a date, expected a string, number, boolean or list

        experiment.toml: no triggers
        hint: add `[[triggers]]` with `name = "turns"`

        experiment.toml: no strategies
        hint: add `[[strategies]]` with `name = "mask"`

        experiment.toml: no name
        hint: begin with `name = "first"`

        experiment.toml:2: not TOML: extra `=`, expected nothing

        experiment.toml:2: not TOML: duplicate key

        experiment.toml: nothing is left of the grid after `exclude`
        "#);
    }

    #[test]
    fn a_grid_by_a_slip_of_the_pen_is_refused() {
        let many: Vec<String> = (0..200).map(|i| i.to_string()).collect();
        let many = many.join(",");
        let text = format!(
            "name = \"x\"\nstrategies = [{{ name = \"mask\", keep_last = [{many}] }}]\ntriggers = [{{ name = \"turns\", n = [{many}] }}]"
        );
        assert_eq!(error(&text), "experiment.toml: a grid of 40000 variants, at most 10000");
    }

    #[test]
    fn a_trigger_has_a_model_of_its_own() {
        let text = "name = \"x\"\nstrategies = [{ name = \"mask\" }]\n\
                    triggers = [{ name = \"intent\", model = [\"none\", \"m\"] }]";
        let plan = Plan::parse("experiment.toml", text, &Catalogue::built_in()).unwrap();
        let of = |v: &Variant| (v.label.clone(), v.models().map(str::to_owned).collect::<Vec<_>>());
        let expected = [
            ("full @ never", vec![]),
            ("mask @ intent(model=none)", vec![]),
            ("mask @ intent(model=m)", vec!["m".to_owned()]),
        ];
        let expected = expected.map(|(label, models)| (label.to_owned(), models));
        assert_eq!(plan.variants.iter().map(of).collect::<Vec<_>>(), expected);
        let groups: Vec<Option<&str>> = plan.groups().into_iter().map(|group| group.0).collect();
        assert_eq!(groups, [None, Some("m")]);
    }

    #[test]
    fn built_in_defaults_are_accepted() {
        let catalogue = Catalogue::built_in();
        for known in catalogue.strategies.iter().chain(&catalogue.triggers) {
            (known.check)(toml::Table::new()).unwrap();
        }
    }
}
