//! The variants of an experiment: strategies and triggers crossed, without what is excluded, each with its id and label.

use std::collections::HashSet;

use anyhow::Context as _;

use super::{Catalogue, Known, Plan, Variant, policies};
use crate::settings::written;
use crate::strategies;

/// What compresses nothing.
pub(in crate::experiment) const FULL: &str = "full";
/// What was sent by the log's own account: beside [`FULL`] in every table of logs that record edits.
const AS_SENT: &str = "as-sent";
/// A grid beyond this is a slip of the pen: nobody reads so many rows of a table.
pub(super) const MAX_VARIANTS: usize = 10_000;
/// Strategies that are the same under every trigger and so stand in the grid once, under this one.
const ALONE: [(&str, &str); 2] = [(FULL, "never"), (AS_SENT, "logged-edits")];
/// The trigger that fires where the log itself was compacted, and the strategy that puts what was logged there.
const LOGGED: &str = "logged";
/// A parameter that a label does not show where another one tells it: a command, what its program calls itself.
const TOLD: (&str, &str) = ("command", "program");

/// What an experiment chooses, in the order of the file.
pub(super) struct Choices {
    pub(super) strategies: Vec<Choice>,
    pub(super) triggers: Vec<Choice>,
    /// Each with its line.
    pub(super) excludes: Vec<(usize, Exclude)>,
    /// Without ids and labels.
    pub(super) policies: Vec<Variant>,
}

impl Choices {
    /// Notes what strategies depend on beside their parameters: it is part of the variants.
    pub(super) fn pin(&mut self) -> anyhow::Result<()> {
        for choice in &mut self.strategies {
            let pin = |params| strategies::pin(&choice.name, params);
            choice
                .params
                .iter_mut()
                .try_for_each(pin)
                .with_context(|| format!("strategy `{}`", choice.name))?;
        }
        let stages = self.policies.iter_mut().filter_map(|variant| variant.policy.as_mut());
        for stage in stages.flat_map(|policy| &mut policy.stages) {
            let name =
                stage.strategy.get("name").and_then(toml::Value::as_str).unwrap_or_default().to_owned();
            let mut params = stage.strategy.clone();
            params.remove("name");
            strategies::pin(&name, &mut params).with_context(|| format!("strategy `{name}`"))?;
            stage.strategy.extend(params);
        }
        Ok(())
    }
}

/// One `[[strategies]]` or `[[triggers]]` table, expanded.
pub(super) struct Choice {
    pub(super) name: String,
    pub(super) models: Vec<Option<String>>,
    pub(super) seeds: Vec<u64>,
    pub(super) params: Vec<toml::Table>,
}

/// One `[[exclude]]` table: all that is set must match.
#[derive(Default)]
pub(super) struct Exclude {
    pub(super) strategy: Side,
    pub(super) trigger: Side,
}

#[derive(Default)]
pub(super) struct Side {
    /// Any of these names; none is any name at all.
    pub(super) names: Vec<String>,
    /// Any of the values.
    pub(super) params: Vec<(String, Vec<toml::Value>)>,
}

impl Side {
    pub(super) fn takes(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|n| n == name)
    }

    fn matches(&self, name: &str, params: &toml::Table) -> bool {
        self.takes(name) && self.params.iter().all(|(k, any)| params.get(k).is_some_and(|v| any.contains(v)))
    }
}

/// Fills the grid of a plan. Fails where the choices make none; `path` is for errors.
pub(super) fn fill(
    plan: &mut Plan,
    choices: &Choices,
    catalogue: &Catalogue,
    path: &str,
) -> anyhow::Result<()> {
    let Choices { strategies, triggers, excludes, policies } = choices;
    let alone_only = strategies.iter().all(|s| alone_under(&s.name).is_some());
    anyhow::ensure!(
        alone_only || !triggers.is_empty(),
        "{path}: no triggers\nhint: add `[[triggers]]` with `name = \"turns\"`"
    );
    let combinations = |choices: &[Choice]| {
        choices.iter().map(|c| c.params.len() * c.models.len() * c.seeds.len()).sum::<usize>()
    };
    let size = combinations(strategies).saturating_mul(combinations(triggers));
    anyhow::ensure!(size <= MAX_VARIANTS, "{path}: a grid of {size} variants, at most {MAX_VARIANTS}");
    let mut matched = vec![false; excludes.len()];
    plan.variants = cross(strategies, triggers, plan.seed, |s, sp, t, tp| {
        let mut out = false;
        for ((_, exclude), matched) in excludes.iter().zip(&mut matched) {
            if exclude.strategy.matches(s, sp) && exclude.trigger.matches(t, tp) {
                *matched = true;
                out = true;
            }
        }
        out
    });
    for policy in policies {
        let variant = Variant { id: variant_id(policy), ..policy.clone() };
        if plan.variants.iter().all(|v| v.id != variant.id) {
            plan.variants.push(variant);
        }
    }
    anyhow::ensure!(!plan.variants.is_empty(), "{path}: nothing is left of the grid after `exclude`");
    if let Some(v) = plan.variants.iter().find(|v| v.strategy == LOGGED && v.trigger != LOGGED) {
        anyhow::bail!(
            "{path}: strategy `{LOGGED}` under trigger `{0}`: no summary was logged there, it works under trigger `{LOGGED}` alone\nhint: add `[[exclude]]` with `strategy = \"{LOGGED}\"` and `trigger.name = \"{0}\"`",
            v.trigger
        );
    }
    if plan.variants.iter().all(|v| v.strategy != FULL) {
        plan.variants.insert(0, alone(FULL, plan.seed));
        plan.notes.push(format!("{path}: full added: every table needs its baseline"));
    }
    label(&mut plan.variants, catalogue, plan.seed);
    for ((line, _), _) in excludes.iter().zip(&matched).filter(|(_, matched)| !**matched) {
        plan.notes.push(format!("{path}:{line}: this exclude matches nothing"));
    }
    Ok(())
}

/// Adds what was sent, behind `full`; tells whether it was missing.
pub(super) fn add_as_sent(plan: &mut Plan, catalogue: &Catalogue) -> bool {
    let is_missing = plan.variants.iter().all(|v| v.strategy != AS_SENT);
    if is_missing {
        let behind = plan.variants.iter().position(|v| v.strategy == FULL).map_or(0, |full| full + 1);
        plan.variants.insert(behind, alone(AS_SENT, plan.seed));
        label(&mut plan.variants, catalogue, plan.seed);
    }
    is_missing
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
        policy: None,
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
                        policy: None,
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
    let both = |of: fn(&Variant) -> (&str, &toml::Table)| variants.iter().map(of).collect::<Vec<_>>();
    let strategies = names(&catalogue.strategies, &both(|v| (&v.strategy, &v.strategy_params)));
    let triggers = names(&catalogue.triggers, &both(|v| (&v.trigger, &v.trigger_params)));
    let takes_model = |name: &str| catalogue.strategies.iter().any(|k| k.name == name && k.takes_model);
    for ((variant, strategy), trigger) in variants.iter_mut().zip(strategies).zip(triggers) {
        variant.label = match &variant.policy {
            Some(policy) => policies::label(variant, policy),
            None => format!("{strategy} @ {trigger}"),
        };
        match &variant.model {
            _ if variant.policy.is_some() => {}
            Some(model) => variant.label.push_str(&format!(" [{model}]")),
            None if takes_model(&variant.strategy) && variant.extraction_model().is_none() => {
                variant.label.push_str(" [model-free]")
            }
            None => {}
        }
        if variant.seed != seed {
            variant.label.push_str(&format!(" #{}", variant.seed));
        }
    }
    policies::tell_apart(variants);
}

/// Each strategy, or each trigger, with the parameters that are shown.
fn names(known: &[Known], all: &[(&str, &toml::Table)]) -> Vec<String> {
    let varies = |name: &str, key: &str, value: &toml::Value| {
        all.iter().any(|(n, params)| *n == name && params.get(key) != Some(value))
    };
    let is_told = |name: &str, params: &toml::Table| {
        let same = |key: &str, other: &toml::Table| other.get(key) == params.get(key);
        let alike = |(n, other): &&(&str, &toml::Table)| *n == name && same(TOLD.1, other);
        let is_named = params.get(TOLD.1).and_then(toml::Value::as_str).is_some_and(|told| !told.is_empty());
        is_named && all.iter().filter(alike).all(|(_, other)| same(TOLD.0, other))
    };
    all.iter()
        .map(|(name, params)| {
            let known = known.iter().find(|k| k.name == *name);
            // In the order of the catalogue, which puts the first things first.
            let shown: Vec<String> = known
                .iter()
                .flat_map(|k| k.params)
                .filter_map(|param| Some((param, params.get(param.name)?)))
                .filter(|(param, _)| param.name != TOLD.0 || !is_told(name, params))
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
}

fn variant_id(v: &Variant) -> String {
    // The tables sort their keys, so this JSON is canonical.
    let mut all =
        serde_json::json!([v.strategy, v.strategy_params, v.trigger, v.trigger_params, v.model, v.seed]);
    if let (Some(policy), Some(all)) = (&v.policy, all.as_array_mut()) {
        all.push(serde_json::json!(policy));
    }
    blake3::hash(all.to_string().as_bytes()).to_hex()[..16].to_owned()
}
