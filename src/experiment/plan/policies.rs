//! The policies of an experiment: `[[policies]]` tables, each a preset or a policy of the user's own, crossed with windows,
//! models and, where a model would write a summary and there is none, with what stands in for it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::DeTable;

use super::{Policy, Variant};
use crate::models::NO_MODEL;
use crate::policies::{self, FORMS};
use crate::settings::{OneOrMore, Source};

/// The trigger that rows of policies name: each stage has its own.
const POLICY: &str = "policy";
/// What they say of it.
const WINDOW: &str = "window";
const KEPT_FREE: &str = "kept_free";

/// One `[[policies]]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Name of a preset.
    preset: Option<Spanned<String>>,
    /// Name of a policy that the table writes down itself.
    name: Option<Spanned<String>>,
    policy: Option<Spanned<Policy>>,
    window: Option<Spanned<Windows>>,
    reserve: Option<u64>,
    model: Option<OneOrMore>,
    seed: Option<u64>,
    /// What stands in for summaries where no model writes them.
    forms: Option<Vec<Spanned<String>>>,
    /// Keys of stages, as in `"scope.messages" = 10`.
    set: Option<Spanned<toml::Table>>,
}

/// One window or several.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected tokens, a share of each log's longest prompt (as 0.5), or a list of them"
)]
enum Windows {
    One(Window),
    More(Vec<Window>),
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged)]
enum Window {
    Tokens(u64),
    Share(f64),
}

impl Window {
    /// The policy with this window, and whether it keeps less free there. What the user said is kept free is.
    fn put(self, policy: &Policy, is_said: bool) -> (Policy, bool) {
        match self {
            Window::Tokens(window) if is_said => (Policy { window, ..policy.clone() }, false),
            Window::Tokens(window) => policy.in_tokens(window),
            Window::Share(share) => (Policy { window_share: Some(share), ..policy.clone() }, false),
        }
    }
}

/// The variants of all `[[policies]]`, without ids and labels.
pub(super) fn variants(
    source: &Source<'_>,
    tables: Vec<(Range<usize>, &DeTable<'_>)>,
    seed: u64,
) -> anyhow::Result<Vec<Variant>> {
    let mut all = Vec::new();
    for (at, table) in tables {
        let written: Written = source.table(&at, table)?;
        all.extend(of_table(source, &at, written, seed)?);
    }
    Ok(all)
}

fn of_table(
    source: &Source<'_>,
    at: &Range<usize>,
    written: Written,
    seed: u64,
) -> anyhow::Result<Vec<Variant>> {
    let (name, mut policy) = match (written.preset, written.name, written.policy) {
        (Some(preset), None, None) => {
            let known: Vec<&str> = policies::all().iter().map(|p| p.name.as_str()).collect();
            source.right_name("preset", preset.get_ref(), &known, &preset.span())?;
            let found = policies::find(preset.get_ref())?;
            (found.name.clone(), found.policy.clone())
        }
        (None, Some(name), Some(policy)) => (name.into_inner(), policy.into_inner()),
        _ => {
            let message = "a policy needs `preset`, or `name` with `policy`\nhint: `trajpress list presets`";
            return Err(source.error(at, message));
        }
    };
    policy.reserve = written.reserve.unwrap_or(policy.reserve);
    let mut params = toml::Table::new();
    if let Some(set) = written.set {
        let span = set.span();
        for (key, value) in set.into_inner() {
            policy.set(&key, &value).map_err(|error| source.error(&span, format!("`{key}`: {error:#}")))?;
            params.insert(key, value);
        }
    }
    let windows = windows(source, at, written.window.map(Spanned::into_inner), &policy)?;
    let models = written.model.map_or(vec![None], |models| {
        models.into_vec().into_iter().map(|name| Some(name).filter(|name| name != NO_MODEL)).collect()
    });
    let forms = forms(source, written.forms.unwrap_or_default())?;
    let mut all = Vec::new();
    for window in windows {
        let as_written = match window {
            Window::Tokens(tokens) => i64::try_from(tokens)?.into(),
            Window::Share(share) => toml::Value::Float(share),
        };
        for model in &models {
            let asks = policy.summarises();
            if model.is_some() && !asks {
                return Err(
                    source.error(at, format!("policy `{name}` asks no model\nhint: leave `model` out"))
                );
            }
            let forms: Vec<Option<&str>> = match model.is_none() && asks {
                true => forms.iter().map(|form| Some(form.as_str())).collect(),
                false => vec![None],
            };
            for form in forms {
                let (policy, is_scaled) = window.put(&policy, written.reserve.is_some());
                let mut trigger_params = toml::Table::from_iter([(WINDOW.to_owned(), as_written.clone())]);
                if is_scaled {
                    trigger_params.insert(KEPT_FREE.to_owned(), "scaled".into());
                }
                let policy = form.map_or(policy.clone(), |form| policy.with_form(form));
                policy.check().map_err(|error| source.error(at, format!("policy `{name}`: {error:#}")))?;
                let mut strategy_params = params.clone();
                strategy_params.extend(form.map(|form| ("form".to_owned(), form.into())));
                all.push(Variant {
                    id: String::new(),
                    label: String::new(),
                    strategy: name.clone(),
                    strategy_params,
                    trigger: POLICY.to_owned(),
                    trigger_params,
                    model: model.clone(),
                    seed: written.seed.unwrap_or(seed),
                    policy: Some(Box::new(policy)),
                });
            }
        }
    }
    Ok(all)
}

/// The windows that are asked for, or the policy's own.
fn windows(
    source: &Source<'_>,
    at: &Range<usize>,
    written: Option<Windows>,
    policy: &Policy,
) -> anyhow::Result<Vec<Window>> {
    let windows = match written {
        None => vec![Window::Tokens(policy.window)],
        Some(Windows::One(window)) => vec![window],
        Some(Windows::More(windows)) => windows,
    };
    anyhow::ensure!(
        !windows.contains(&Window::Tokens(0)),
        source.error(
            at,
            "a window of 0 tokens holds no prompt\nhint: `window = 128000`, or a share of the longest prompt: `window = 0.5`"
        )
    );
    Ok(windows)
}

/// The forms that are asked for, or all.
fn forms(source: &Source<'_>, written: Vec<Spanned<String>>) -> anyhow::Result<Vec<String>> {
    for form in &written {
        source.right_name("form", form.get_ref(), &FORMS, &form.span())?;
    }
    Ok(match written.is_empty() {
        true => FORMS.map(str::to_owned).to_vec(),
        false => written.into_iter().map(Spanned::into_inner).collect(),
    })
}

/// The readable name: the policy, what of it was set, the window and what writes its summaries.
pub(super) fn label(variant: &Variant, policy: &Policy) -> String {
    let set = variant.strategy_params.iter().filter(|(key, _)| *key != "form");
    let set: Vec<String> =
        set.map(|(key, value)| format!("{key}={}", crate::settings::written(value))).collect();
    let set = if set.is_empty() { String::new() } else { format!("({})", set.join(",")) };
    let form = variant.strategy_params.get("form").and_then(toml::Value::as_str);
    let by = match (&variant.model, form) {
        (Some(model), _) => format!(" [{model}]"),
        (None, Some("empty")) => " [no summary]".to_owned(),
        (None, Some("oracle")) => " [oracle's summary]".to_owned(),
        (None, Some(_)) => " [model-free]".to_owned(),
        (None, None) => String::new(),
    };
    let window = match (policy.window_share, policy.window) {
        (Some(share), _) => format!("{share} of the longest prompt"),
        (None, window) if window % 1000 == 0 => format!("{}k", window / 1000),
        (None, window) => window.to_string(),
    };
    let scaled = if variant.trigger_params.contains_key(KEPT_FREE) { ", less kept free" } else { "" };
    format!("{}{set} @ {window}{scaled}{by}", variant.strategy)
}

/// Tells those apart that have one label: by the keys of their policies, as far as these differ.
pub(super) fn tell_apart(variants: &mut [Variant]) {
    let mut of: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, variant) in variants.iter().enumerate().filter(|(_, variant)| variant.policy.is_some()) {
        of.entry(variant.label.clone()).or_default().push(at);
    }
    for same in of.into_values().filter(|same| same.len() > 1) {
        let keys: Vec<BTreeMap<String, String>> = same.iter().map(|&at| keys(&variants[at])).collect();
        let names: BTreeSet<&String> = keys.iter().flat_map(BTreeMap::keys).collect();
        let differs = |name: &&String| keys.iter().any(|other| other.get(*name) != keys[0].get(*name));
        let names: Vec<String> = names.into_iter().filter(differs).cloned().collect();
        for (&at, keys) in same.iter().zip(&keys) {
            let told = |name: &String| format!("{name}={}", keys.get(name).map_or("unset", String::as_str));
            let told: Vec<String> = names.iter().map(told).collect();
            variants[at].label.push_str(&format!(" {{{}}}", told.join(",")));
        }
    }
}

/// What is set in a policy, by the path of its key: of stages as in `2.trigger.share`.
fn keys(variant: &Variant) -> BTreeMap<String, String> {
    fn add(all: &mut BTreeMap<String, String>, path: &str, value: &serde_json::Value) {
        let under = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        match value {
            serde_json::Value::Object(map) => {
                map.iter().for_each(|(key, value)| add(all, &under(key), value))
            }
            serde_json::Value::Array(list) if list.iter().all(serde_json::Value::is_object) => {
                (1..).zip(list).for_each(|(n, value)| add(all, &under(&n.to_string()), value));
            }
            value => _ = all.insert(path.trim_start_matches("stages.").to_owned(), value.to_string()),
        }
    }
    let mut all = BTreeMap::new();
    add(&mut all, "", &serde_json::json!(variant.policy));
    all
}

#[cfg(test)]
mod tests {
    use super::super::{Catalogue, Plan};

    #[test]
    fn labels_tell_what_differs() {
        let labels = |policies: &str| -> Vec<String> {
            let text = format!("name = \"x\"\n{policies}");
            let plan = Plan::parse("x.toml", &text, &Catalogue::built_in()).unwrap();
            plan.variants
                .into_iter()
                .map(|variant| variant.label)
                .filter(|label| label.contains("cline"))
                .collect()
        };
        let with = |reserve: u64| format!("[[policies]]\npreset = \"cline-legacy\"\nreserve = {reserve}\n");
        assert_eq!(labels(&with(5)), ["cline-legacy @ 200k"]);
        assert_eq!(
            labels(&(with(5) + &with(6))),
            ["cline-legacy @ 200k {reserve=5}", "cline-legacy @ 200k {reserve=6}"]
        );
        let small = "[[policies]]\npreset = \"kimi-cli\"\nwindow = [32000, 0.5]\nforms = [\"empty\"]\n";
        let text = format!("name = \"x\"\n{small}");
        let plan = Plan::parse("x.toml", &text, &Catalogue::built_in()).unwrap();
        let told: Vec<&str> = plan.variants[1..].iter().map(|variant| variant.label.as_str()).collect();
        assert_eq!(
            told,
            [
                "kimi-cli @ 32k, less kept free [no summary]",
                "kimi-cli @ 0.5 of the longest prompt [no summary]"
            ]
        );
    }

    #[test]
    fn what_would_mean_nothing_is_refused() {
        let error = |preset: &str, key: &str| {
            let text = format!("name = \"x\"\n[[policies]]\npreset = \"{preset}\"\n{key}\n");
            Plan::parse("x.toml", &text, &Catalogue::built_in()).unwrap_err().to_string()
        };
        assert!(
            error("codex", "window = [32000, 0]").contains("a window of 0 tokens holds no prompt\nhint: ")
        );
        assert!(error("codex", "set = { \"strategy.form\" = \"oracle\" }").contains("hint: `forms ="));
        assert!(
            error("codex", "set = { \"counter.bi\" = \"usage\" }")
                .contains("unknown key `bi`\nhint: did you mean `by`?")
        );
    }
}
