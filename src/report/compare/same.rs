//! What two runs must have in common so that their scores mean the same.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use super::gate::Gate;
use crate::files::reach;
use crate::report::lines::Line;
use crate::scores::money::{COST_SAVINGS, COST_SAVINGS_UNCACHED, NET_COST_SAVINGS};

/// Where the manifest says it, and what it is.
const COMMON: [(&str, &str); 8] = [
    ("/schema", "the layout of the tables"),
    ("/semantics", "the version of the scores"),
    ("/features", "the annotation of the data"),
    ("/sample", "the sample, whose sessions count for those that were not drawn"),
    ("/plan/tokenizer", "the tokenizer"),
    ("/plan/reference_tails", "the tails that tell a need"),
    ("/plan/shadow_seeds", "how often the random shadow is drawn"),
    ("/plan/readers", "the models that read the answers"),
];
/// The same for scores of money.
const OF_MONEY: [(&str, &str); 2] =
    [("/plan/prices", "the prices"), ("/api_models", "what is known of models and their prices")];

/// Fails where the runs differ in what their scores depend on, and says in what.
pub(super) fn check(base: &Path, new: &Path, gate: &Gate) -> anyhow::Result<()> {
    let [of_base, of_new] = [manifest(base)?, manifest(new)?];
    let money = [COST_SAVINGS.name, COST_SAVINGS_UNCACHED.name, NET_COST_SAVINGS.name];
    let is_money = gate.rules.iter().any(|rule| money.contains(&rule.score.name));
    let more: &[_] = if is_money { &OF_MONEY } else { &[] };
    let mut told: Vec<String> = COMMON
        .iter()
        .chain(more)
        .filter(|(at, _)| of_base.pointer(at) != of_new.pointer(at))
        .map(|(at, what)| format!("{what}: {} and {}", shown(of_base.pointer(at)), shown(of_new.pointer(at))))
        .collect();
    if let [Some(Value::Object(before)), Some(Value::Object(after))] =
        [&of_base, &of_new].map(|m| m.pointer("/plan/models"))
    {
        let is_other = |name: &&String| after.get(*name).is_some_and(|hash| *hash != before[*name]);
        told.extend(before.keys().filter(is_other).map(|name| format!("the weights of the model {name}")));
    }
    anyhow::ensure!(
        told.is_empty(),
        "{} and {} cannot be compared, since they differ in\n  {}\nhint: run one of them again with what the other was made \
         with{}",
        base.display(),
        new.display(),
        told.join("\n  "),
        if is_money { "; prices matter to scores of money alone, which a gate can leave out" } else { "" }
    );
    Ok(())
}

fn shown(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "not told".to_owned(), Value::to_string);
    crate::text::escape::short(&text)
}

fn manifest(run: &Path) -> anyhow::Result<Value> {
    let path = run.join("_manifest.json");
    let text = reach::read(&path)?.with_context(|| {
        format!(
            "{} is not there, so nothing says how this run was made\nhint: give folders that `trajpress run --out` wrote",
            path.display()
        )
    })?;
    serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))
}

/// The policies of a run, by the id of their variant.
pub(super) fn policies(run: &Path) -> anyhow::Result<HashMap<String, Value>> {
    let mut manifest = manifest(run)?;
    let variants = manifest.pointer_mut("/plan/variants").and_then(Value::as_array_mut).map(std::mem::take);
    let policy = |mut variant: Value| {
        let policy = Some(variant.get_mut("policy")?.take()).filter(|policy| !policy.is_null())?;
        Some((variant.get("id")?.as_str()?.to_owned(), policy))
    };
    Ok(variants.into_iter().flatten().filter_map(policy).collect())
}

/// Whether two variants differ in nothing that is set, but for their seeds. A policy is what it does, and not what it is called.
pub(super) fn is_set_alike(a: &Line, b: &Line) -> bool {
    if let (Some(one), Some(other)) = (&a.policy, &b.policy) {
        return one == other && a.model == b.model;
    }
    let of = |line: &Line| (line.params.clone(), line.trigger_params.clone(), line.model.clone());
    (&a.strategy, &a.trigger_name) == (&b.strategy, &b.trigger_name) && of(a) == of(b)
}

/// What a variant was set to in the base, if that differs; `is_same_id` says whether its ids are the same.
pub(super) fn other_settings(base: &Line, new: &Line, is_same_id: bool) -> Option<String> {
    let of = |line: &Line| format!("{}; {}", settings(&line.params), settings(&line.trigger_params));
    let (before, after) = (of(base), of(new));
    match (is_same_id || is_set_alike(base, new), before == after) {
        (true, _) => None,
        (_, true) => Some(format!("{}: its policy is another now", new.label)),
        _ => Some(format!("{}: {before} was set before, {after} now", new.label)),
    }
}

/// A variant with its seeds in the base, and now.
pub(super) fn other_seeds(base: &Line, new: &Line) -> String {
    let seeds = |line: &Line| line.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    format!("{} (seeds {} before, {} now)", new.label, seeds(base), seeds(new))
}

fn settings(params: &serde_json::Map<String, Value>) -> String {
    let each: Vec<String> = params.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    if each.is_empty() { "nothing".to_owned() } else { each.join(", ") }
}
