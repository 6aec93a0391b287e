//! What the policies of a trial are called: so it prints them, and so they can be asked for.

use anyhow::Context as _;

use crate::experiment::plan::Variant;
use crate::text::escape;

/// What compresses nothing.
pub(super) const FULL: &str = "full";

/// The variant of a run that is named so: by its id or label, or in the words that a trial prints.
pub(super) fn named<'a>(all: &'a [Variant], name: &str) -> anyhow::Result<&'a Variant> {
    let said: Vec<&Variant> = all.iter().filter(|v| policy(v) == name).collect();
    // Variants of other experiments may differ in what these words do not say.
    if let [one] = said[..] {
        return Ok(one);
    }
    Variant::find(all, name).with_context(|| {
        let labels: Vec<String> = all.iter().map(|v| escape::line(&v.label)).collect();
        format!("no variant `{name}`\nhint: these are: {}", labels.join(", "))
    })
}

/// A policy in words.
pub(super) fn policy(v: &Variant) -> String {
    let floor = if is_floor(v) { " (floor)" } else { "" };
    let (what, when) = words(v);
    format!("{what}{}{floor}", when.map_or_else(String::new, |when| format!(", {when}")))
}

/// The same as a label of the report, which tells strategy and trigger apart.
pub(super) fn label(v: &Variant) -> String {
    match words(v) {
        (what, Some(when)) => format!("{what} @ {}", when.trim_start_matches("at ")),
        _ => v.label.clone(),
    }
}

/// It keeps no more than what no need is.
pub(super) fn is_floor(v: &Variant) -> bool {
    v.strategy == "truncate" && v.trigger == "turns" && number(v, "n") == 1
}

fn number(v: &Variant, key: &str) -> i64 {
    v.trigger_params.get(key).and_then(toml::Value::as_integer).unwrap_or(0)
}

/// What a policy does, and when.
fn words(v: &Variant) -> (&str, Option<String>) {
    let what = match v.strategy.as_str() {
        FULL => return ("nothing compressed", None),
        "as-sent" => return ("as the log was sent", None),
        "mask" => "mask old results",
        "truncate" => "drop old turns",
        "tool-log" => "list old calls",
        "random" => "random tenth",
        other => other,
    };
    let share = v.trigger_params.get("fraction").and_then(toml::Value::as_float).unwrap_or(0.0);
    let when = match v.trigger.as_str() {
        "turns" if number(v, "n") == 1 => "every turn".to_owned(),
        "turns" => format!("every {} turns", number(v, "n")),
        "tokens" => format!("at {:.0} % of window", 100.0 * share),
        other => other.to_owned(),
    };
    (what, Some(when))
}

#[cfg(test)]
mod tests {
    use super::super::catalogue;
    use super::*;
    use crate::experiment::Plan;

    const EXPERIMENT: &str = include_str!("../data/try.toml");

    #[test]
    fn the_experiment_is_sound_and_every_policy_has_words() {
        let plan = Plan::parse("try.toml", EXPERIMENT, &catalogue()).unwrap();
        assert_eq!(plan.variants.len(), 13);
        let words: String = plan.variants.iter().map(|v| format!("{} = {}\n", policy(v), label(v))).collect();
        insta::assert_snapshot!(words, @r"
        nothing compressed = full @ never
        mask old results, every turn = mask old results @ every turn
        mask old results, every 21 turns = mask old results @ every 21 turns
        mask old results, at 50 % of window = mask old results @ 50 % of window
        mask old results, at 80 % of window = mask old results @ 80 % of window
        drop old turns, every turn (floor) = drop old turns @ every turn
        drop old turns, every 21 turns = drop old turns @ every 21 turns
        drop old turns, at 50 % of window = drop old turns @ 50 % of window
        drop old turns, at 80 % of window = drop old turns @ 80 % of window
        list old calls, every 21 turns = list old calls @ every 21 turns
        list old calls, at 50 % of window = list old calls @ 50 % of window
        list old calls, at 80 % of window = list old calls @ 80 % of window
        random tenth, every 21 turns = random tenth @ every 21 turns
        ");
        for v in &plan.variants {
            let id = |name: &str| named(&plan.variants, name).map(|v| v.id.clone());
            assert_eq!(id(&policy(v)).unwrap(), v.id);
            // What fits two names neither.
            let twice = [plan.variants.clone(), vec![Variant { id: "x".to_owned(), ..v.clone() }]].concat();
            let error = named(&twice, &policy(v)).unwrap_err().to_string();
            assert!(error.starts_with("no variant `"), "{error}");
        }
        assert_eq!(EXPERIMENT.matches("window = \"own\"").count(), 1, "which `--window` sets");
        assert!(!EXPERIMENT.contains("[prices]") && !EXPERIMENT.contains("[data]"));
    }
}
