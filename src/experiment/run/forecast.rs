//! Rates of variants with models before any of them was tried: what `trajpress run --list --json` says that they ask, by the speeds
//! that it measured, or those that `trajpress models bench --json` measured on another machine.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::plan::Variant;
use super::super::units::group_name;
use crate::models::bench::Speed;
use crate::models::dry::Demand;

/// What is read of `run --list --json`.
#[derive(Deserialize)]
struct Listed {
    variants: Vec<Variant>,
    size: Size,
    models: Vec<Asked>,
}

#[derive(Deserialize)]
struct Size {
    step_variants: u64,
}

#[derive(Deserialize)]
struct Asked {
    model: String,
    demand: Demand,
    speed: Option<Speed>,
}

/// What is read of a line of `models bench --json`.
#[derive(Deserialize)]
struct Measured {
    model: String,
    #[serde(flatten)]
    speed: Speed,
}

/// Step-variants a second by group of variants, of the time that their models take. Variants that ask none have no rate.
///
/// # Errors
/// A file cannot be read, or the speed of a model is not known.
pub fn forecast(listed: &Path, bench: Option<&Path>) -> anyhow::Result<HashMap<String, f64>> {
    let bench: Vec<Measured> = bench.map(read).transpose()?.unwrap_or_default();
    rates(read(listed)?, bench)
}

fn read<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| {
        format!(
            "{} is not what `trajpress run --list --json` or `trajpress models bench --json` print",
            path.display()
        )
    })
}

fn rates(listed: Listed, bench: Vec<Measured>) -> anyhow::Result<HashMap<String, f64>> {
    let Listed { variants, size, models } = listed;
    let n_steps = size.step_variants as f64 / variants.len().max(1) as f64;
    let bench: BTreeMap<String, Speed> = bench.into_iter().map(|line| (line.model, line.speed)).collect();
    // Seconds a step that each variant waits for a model. One that no variant names reads for scores, of all of them.
    let mut waits = vec![0.0; variants.len()];
    for Asked { model, demand, speed } in models {
        let speed = bench.get(&model).or(speed.as_ref()).with_context(|| {
            format!("the speed of {model} is not known\nhint: measure it with `trajpress models bench {model} --json`, and name that file by `--bench`")
        })?;
        let names: Vec<bool> = variants.iter().map(|v| v.models().any(|name| name == model)).collect();
        let is_reader = !names.contains(&true);
        let n = names.iter().filter(|names| is_reader || **names).count() as f64;
        for (wait, _) in waits.iter_mut().zip(names).filter(|(_, names)| is_reader || *names) {
            *wait += speed.seconds(demand) / (n * n_steps);
        }
    }
    let mut groups: HashMap<String, (f64, f64)> = HashMap::new();
    for (variant, wait) in variants.iter().zip(waits) {
        let (n, seconds) = groups.entry(group_name(variant.group())).or_default();
        (*n, *seconds) = (*n + 1.0, *seconds + wait);
    }
    let rated = groups.into_iter().filter(|(_, (_, seconds))| *seconds > 0.0);
    Ok(rated.map(|(group, (n, seconds))| (group, n / seconds)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 steps under two variants of a model and one without; 1,000 tokens are read at 100 a second and 50 written at 10: 15
    /// seconds for 200 step-variants. On the other machine all is five times as fast.
    #[test]
    fn what_is_asked_takes_what_was_measured() {
        let variant = |model: Option<&str>| {
            serde_json::json!({ "id": "a", "label": "a", "strategy": "summary", "strategy_params": {}, "trigger": "turns",
                "trigger_params": {}, "model": model, "seed": 0 })
        };
        let speed = |times: f64| {
            serde_json::json!({ "prompt_tokens": 400, "answer_tokens": 64, "sequences": 8,
            "prefill": 100.0 * times, "generate_one": 1.0, "generate_all": 10.0 * times, "texts": null })
        };
        let demand = serde_json::json!({ "calls": 4, "read": 1_000, "behind": 0, "written": 50, "texts": 0 });
        let listed = |model: &str, speed: serde_json::Value| -> Listed {
            serde_json::from_value(serde_json::json!({ "variants": [variant(Some("m")), variant(Some("m")), variant(None)],
                "size": { "step_variants": 300 }, "models": [{ "model": model, "demand": demand, "speed": speed }] }))
            .unwrap()
        };
        let one = rates(listed("m", speed(1.0)), Vec::new()).unwrap();
        assert_eq!((one.len(), one["m"]), (1, 200.0 / 15.0));
        let mut line = speed(5.0);
        line["model"] = "m".into();
        let other = serde_json::from_value(serde_json::json!([line])).unwrap();
        assert_eq!(rates(listed("m", speed(1.0)), other).unwrap()["m"], 200.0 / 3.0);
        // A reader of scores is waited for by all.
        let read = rates(listed("reader", speed(1.0)), Vec::new()).unwrap();
        assert_eq!((read["m"], read["model-free"]), (300.0 / 15.0, 300.0 / 15.0));
        let told = rates(listed("m", serde_json::Value::Null), Vec::new()).unwrap_err().to_string();
        assert!(told.starts_with("the speed of m is not known"), "{told}");
    }
}
