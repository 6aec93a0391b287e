//! `RUN/_manifest.json`: what a run is. It never changes; who would go on with another run is told what differs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::SEMANTICS_VERSION;
use super::contents::api_models;
use super::dataset::{Dataset, Input};
use super::options::Options;
use super::plan::{Filter, Plan, Variant};
use super::publish::{self, Published, Scratch};
use super::units;
use crate::files::reach;
use crate::scores::money::Prices;
use crate::scores::readers::Named;
use crate::store::{self, Row as _, UnitRow};
use crate::text::escape;

pub(super) const FILE: &str = "_manifest.json";
/// Differences that are told; the rest is counted.
const TOLD: usize = 3;
/// What decides the variants of a manifest, in the order in which it is told.
const PARTS: [&str; 5] = ["strategy", "strategy_params", "trigger", "trigger_params", "model"];

/// What a run says of itself: enough to replay a variant of it.
#[derive(Debug, Deserialize)]
pub struct Kept {
    inputs: BTreeMap<String, KeptInput>,
    pub plan: KeptPlan,
}

#[derive(Debug, Deserialize)]
struct KeptInput {
    sha256: String,
}

/// The part of its experiment that replays depend on.
#[derive(Debug, Deserialize)]
pub struct KeptPlan {
    pub tokenizer: String,
    pub reference_tails: Vec<u32>,
    #[serde(default)]
    pub seed: u64,
    /// Sessions may be linked: then chains are what was replayed.
    #[serde(default)]
    pub filter: Filter,
    pub variants: Vec<Variant>,
}

impl KeptPlan {
    /// As a plan to replay by; what only scores and choices need is not in it.
    pub fn plan(self) -> Plan {
        Plan {
            name: String::new(),
            tokenizer: self.tokenizer,
            prices: Prices::default(),
            seed: self.seed,
            shadow_seeds: 0,
            partners: Vec::new(),
            reference_tails: self.reference_tails,
            filter: self.filter,
            readers: Named::default(),
            score_programs: Vec::new(),
            contexts: false,
            variants: self.variants,
            models: BTreeMap::new(),
            data: None,
            notes: Vec::new(),
        }
    }
}

impl Kept {
    /// # Errors
    /// The folder holds no run, or one that is damaged.
    pub fn of(run: &Path) -> anyhow::Result<Self> {
        let path = run.join(FILE);
        let text = reach::read(&path)?
            .with_context(|| format!("{} is no run: `trajpress run` makes one", run.display()))?;
        serde_json::from_slice(&text)
            .map_err(|error| anyhow::anyhow!("{} is damaged: {error}", path.display()))
    }

    /// Whether the run was made from these data, as they are now.
    pub fn is_of(&self, data: &Dataset) -> anyhow::Result<bool> {
        let inputs = data.inputs()?;
        let is_it =
            |input: &Input| self.inputs.get(&input.name).is_some_and(|kept| kept.sha256 == input.sha256);
        Ok(inputs.len() == self.inputs.len() && inputs.iter().all(is_it))
    }

    /// The trajectories of the run, as the data number them.
    pub fn trajectories(&self, run: &Path, data: &Dataset) -> anyhow::Result<Vec<usize>> {
        let units: Vec<UnitRow> = store::read(&run.join(format!("{}.parquet", UnitRow::TABLE)))?;
        let mut all: Vec<usize> =
            units.iter().flat_map(|unit| &unit.trajectories).filter_map(|id| data.find(id)).collect();
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }
}

/// What a run is.
fn describe(
    plan: &Plan,
    data: &Dataset,
    options: &Options,
    selection: &[usize],
    n_units: usize,
) -> anyhow::Result<Value> {
    let inputs: serde_json::Map<String, Value> = data
        .inputs()?
        .iter()
        .map(|i| (i.name.clone(), json!({ "bytes": i.bytes, "sha256": i.sha256 })))
        .collect();
    let mut described = json!({
        "format": units::FORMAT,
        "semantics": SEMANTICS_VERSION,
        "schema": store::SCHEMA_VERSION,
        "features": data.features_of(),
        "inputs": inputs,
        "limit": options.limit,
        "n_trajectories": selection.len(),
        "n_units": n_units,
        "plan": plan,
        "made_by": made_by(),
    });
    if let Some(n) = options.sample {
        described["sample"] = n.into();
    }
    if let Some(known) = api_models(plan) {
        described["api_models"] = known.into();
    }
    Ok(described)
}

/// How many trajectories the run in this folder draws, if it is a sample: nobody else needs to say it again. A damaged manifest is
/// told where it is held against a run.
///
/// # Errors
/// It cannot be read.
pub fn sample_of(run: &Path) -> anyhow::Result<Option<usize>> {
    let Some(text) = reach::read(&run.join(FILE))? else { return Ok(None) };
    let manifest: Value = serde_json::from_slice(&text).unwrap_or_default();
    Ok(manifest["sample"].as_u64().map(|n| n as usize))
}

/// Whether the folder holds a run that this one takes the place of: the same over data that have changed since, or any other
/// if the options say so.
pub(super) fn is_replaced(
    plan: &Plan,
    data: &Dataset,
    options: &Options,
    selection: &[usize],
    out: &Path,
) -> anyhow::Result<bool> {
    let Some(there) = reach::read(&out.join(FILE))? else { return Ok(false) };
    // A damaged one is told where it is held against this run.
    let Ok(there) = serde_json::from_slice::<Value>(&there) else { return Ok(false) };
    let here = describe(plan, data, options, selection, 0)?;
    let is_other = |keys: &[&str], there: &Value, here: &Value| {
        let [there, here] = [there, here].map(|run| {
            let mut run = run.clone();
            keys.iter().for_each(|key| run[*key] = Value::Null);
            run
        });
        !differences(&there, &here).is_empty()
    };
    // How many units there are follows from all else.
    let is_changed = is_other(&["n_units"], &there, &here);
    let is_of_others = is_other(&["n_units", "n_trajectories", "inputs"], &there, &here);
    Ok(is_changed && (options.replace || (!is_of_others && has_most(data, out)?)))
}

/// Whether the data hold most of the trajectories of the run in this folder: else they are others, and no later state.
fn has_most(data: &Dataset, out: &Path) -> anyhow::Result<bool> {
    let units = out.join(format!("{}.parquet", UnitRow::TABLE));
    let units: Vec<UnitRow> = if reach::is_there(&units)? { store::read(&units)? } else { Vec::new() };
    let (mut n, mut n_there) = (0, 0);
    for id in units.iter().flat_map(|unit| &unit.trajectories) {
        n += 1;
        n_there += usize::from(data.find(id).is_some());
    }
    Ok(2 * n_there >= n)
}

/// Writes the manifest, or holds the one that is there against this run; gives its digest.
///
/// # Errors
/// The folder holds another run.
pub(super) fn write(
    plan: &Plan,
    data: &Dataset,
    options: &Options,
    selection: &[usize],
    n_units: usize,
    out: &Path,
    scratch: &Scratch,
) -> anyhow::Result<String> {
    let here = describe(plan, data, options, selection, n_units)?;
    let path = out.join(FILE);
    let text = escape::json(&here)?;
    if scratch.create(&path, text.as_bytes())? != Published::Differs {
        return Ok(publish::sha256_of(text.as_bytes()));
    }
    let there = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let digest = publish::sha256_of(&there);
    let there: Value = serde_json::from_slice(&there).map_err(|error| {
        anyhow::anyhow!("{} is damaged: {error}\nhint: name another folder for `--out`", path.display())
    })?;
    let differences = differences(&there, &here);
    if differences.is_empty() {
        // Another build of the same semantics may go on with a run.
        tracing::warn!(
            "{} was begun by another build ({}, this is {})",
            out.display(),
            there["made_by"],
            here["made_by"]
        );
        return Ok(digest);
    }
    let more = differences.len().saturating_sub(TOLD);
    let mut told = differences[..differences.len() - more].join("; ");
    if more > 0 {
        let s = if more == 1 { "" } else { "s" };
        told.push_str(&format!("; and {more} more difference{s}"));
    }
    anyhow::bail!(
        "{} holds another run: {told}\nhint: name another folder for `--out`, take its place with `--replace`, which takes over the rows that both have, or begin anew with `--fresh`",
        out.display()
    )
}

pub(super) fn made_by() -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "git": option_env!("TRAJPRESS_GIT"),
    })
}

/// How two runs differ, in words: by version, data and experiment. Equal but for the build that made them: not at all.
fn differences(there: &Value, here: &Value) -> Vec<String> {
    let mut list = Vec::new();
    let is_other = |key: &&str| there[*key] != here[*key];
    let versions: Vec<String> = ["format", "semantics", "schema", "api_models"]
        .into_iter()
        .filter(is_other)
        .map(|key| format!("{key} {} there, {} here", plain(&there[key]), plain(&here[key])))
        .collect();
    if !versions.is_empty() {
        list.push(format!("the version of trajpress ({})", versions.join(", ")));
    }
    let tables: Vec<String> = keys(&there["inputs"], &here["inputs"])
        .into_iter()
        .filter(|name| there["inputs"][name] != here["inputs"][name])
        .collect();
    if !tables.is_empty() {
        list.push(format!("the data ({})", tables.join(", ")));
    }
    differ("--limit", &there["limit"], &here["limit"], &mut list);
    differ("--sample", &there["sample"], &here["sample"], &mut list);
    let (mut plans, mut variants) = ([there["plan"].clone(), here["plan"].clone()], Vec::new());
    plans.iter_mut().for_each(|plan| variants.push(plan["variants"].take()));
    let [there_plan, here_plan] = &plans;
    differ("", there_plan, here_plan, &mut list);
    variants_differ([&variants[0], &variants[1]], &mut list);
    // These follow from all that, and are told only where nothing else is.
    for key in ["n_trajectories", "n_units"] {
        if list.is_empty() {
            differ(key, &there[key], &here[key], &mut list);
        }
    }
    list
}

/// Lists how the variants of two grids differ: by parameter, where as many are only here as only there and these are of
/// the same strategies and triggers in the same order, else by label. (Neither label nor id tells whether two are one:
/// the one says how they differ from their neighbours, the other holds the seed.)
fn variants_differ(both: [&Value; 2], list: &mut Vec<String>) {
    let what = |v: &Value| PARTS.map(|part| v[part].to_string()).join(" ");
    let variants = both.map(|variants| variants.as_array().map_or(&[][..], Vec::as_slice));
    let known: [BTreeMap<String, &Value>; 2] =
        variants.map(|variants| variants.iter().map(|v| (what(v), v)).collect());
    let only = |at: usize| -> Vec<&Value> {
        variants[at].iter().filter(|v| !known[1 - at].contains_key(&what(v))).collect()
    };
    let (there, here) = (only(0), only(1));
    let is_pair = |(a, b): (&&Value, &&Value)| a["strategy"] == b["strategy"] && a["trigger"] == b["trigger"];
    if there.len() == here.len() && there.iter().zip(&here).all(is_pair) {
        let mut told = BTreeSet::new();
        for (a, b) in there.iter().zip(&here) {
            for (of, params) in [("strategy", "strategy_params"), ("trigger", "trigger_params")] {
                let mut params_differ = Vec::new();
                differ("", &a[params], &b[params], &mut params_differ);
                let name = plain(&a[of]);
                told.extend(params_differ.into_iter().map(|text| format!("{text} ({of} `{name}`)")));
            }
            let mut model = Vec::new();
            differ("model", &a["model"], &b["model"], &mut model);
            told.extend(
                model.into_iter().map(|text| format!("{text} (strategy `{}`)", plain(&a["strategy"]))),
            );
        }
        list.extend(told);
    } else {
        for (variants, place) in [(there, "there"), (here, "here")] {
            let Some((first, rest)) = variants.split_first() else { continue };
            let label = plain(&first["label"]);
            list.push(match rest.len() {
                0 => format!("the variant `{label}` is only {place}"),
                n => format!("the variant `{label}` and {n} more are only {place}"),
            });
        }
    }
    if list.is_empty()
        && known[0].iter().any(|(what, v)| known[1].get(what).is_some_and(|w| v["seed"] != w["seed"]))
    {
        list.push("the variants have other seeds".to_owned());
    }
    if list.is_empty() && variants[0] != variants[1] {
        list.push("the variants stand in another order".to_owned());
    }
}

/// Lists where two values differ, by key.
fn differ(path: &str, there: &Value, here: &Value, list: &mut Vec<String>) {
    if there == here {
        return;
    }
    if there.is_object() && here.is_object() {
        for key in keys(there, here) {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            differ(&path, &there[&key], &here[&key], list);
        }
        return;
    }
    list.push(format!("`{path}` is {} there, {} here", plain(there), plain(here)));
}

/// The keys of two objects.
fn keys(a: &Value, b: &Value) -> BTreeSet<String> {
    [a, b].into_iter().filter_map(Value::as_object).flat_map(|map| map.keys().cloned()).collect()
}

/// A value in a sentence.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(limit: Option<u32>, keep: u32, model: &str) -> Value {
        let variant = |n: u32| {
            json!({ "id": format!("{keep}{n}"), "label": format!("mask(keep={keep}) @ turns(n={n})"), "seed": 0,
                    "strategy": "mask", "strategy_params": { "keep": keep, "kind": "a" },
                    "trigger": "turns", "trigger_params": { "n": n }, "model": model })
        };
        json!({ "format": 2, "semantics": 22, "schema": "2", "limit": limit, "n_trajectories": limit, "n_units": 1,
                "inputs": { "steps.parquet": { "bytes": 3, "sha256": "ab" } }, "made_by": { "git": limit },
                "plan": { "seed": 0, "prices": { "fresh": 1.0 }, "variants": [variant(3), variant(10)] } })
    }

    #[test]
    fn what_changed_is_told_once_and_by_its_key() {
        let there = manifest(None, 3, "m");
        let told = |here: &Value| differences(&there, here).join("; ");
        assert_eq!(told(&there), "");
        let mut built = there.clone();
        built["made_by"] = json!({ "git": "f00" });
        assert_eq!(told(&built), "", "another build is no other run");
        assert_eq!(told(&manifest(Some(3), 3, "m")), "`--limit` is not set there, 3 here");
        // Two variants differ in the same way.
        assert_eq!(told(&manifest(None, 4, "m")), "`keep` is 3 there, 4 here (strategy `mask`)");
        assert_eq!(told(&manifest(None, 3, "n")), "`model` is m there, n here (strategy `mask`)");
        let mut other = there.clone();
        other["semantics"] = json!(21);
        other["inputs"]["steps.parquet"]["sha256"] = json!("ba");
        other["inputs"]["usage.parquet"] = json!({ "bytes": 1 });
        other["plan"]["prices"]["fresh"] = json!(2.0);
        other["plan"]["contexts"] = json!(true);
        assert_eq!(
            told(&other),
            "the version of trajpress (semantics 22 there, 21 here); the data (steps.parquet, usage.parquet); \
             `contexts` is not set there, true here; `prices.fresh` is 1.0 there, 2.0 here"
        );
        let mut fewer = there.clone();
        fewer["plan"]["variants"].as_array_mut().unwrap().pop();
        assert_eq!(told(&fewer), "the variant `mask(keep=3) @ turns(n=10)` is only there");
        let mut turned = there.clone();
        turned["plan"]["variants"].as_array_mut().unwrap().reverse();
        assert_eq!(told(&turned), "the variants stand in another order");
    }
}
