//! What is compared with what: the reference of a product, the candidates, and the window that they run in.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use indicatif::HumanCount;
use serde::Deserialize;

use super::super::count;
use crate::advice::{Candidate, Policy as Place};
use crate::experiment::Plan;
use crate::experiment::plan::Variant;
use crate::policies::{self, Policy};
use crate::scores::money::Prices;

static FILE: LazyLock<File> = LazyLock::new(|| {
    toml::from_str(include_str!("../../data/advise.toml")).expect("the file is held by a test")
});

/// The file says what each is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    references: BTreeMap<String, String>,
    edited: BTreeMap<String, String>,
    newest: Dish,
    plain: Vec<Dish>,
    products: Vec<Product>,
}

/// A product whose users can set something.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Product {
    name: String,
    /// What it does unless it is told: a preset, or none where that is to keep what fits.
    reference: Option<String>,
    /// Where the settings go.
    place: String,
    choices: Vec<Choice>,
}

/// One of its settings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    name: String,
    words: String,
    preset: String,
    /// Keys of its stages that are other than in the preset.
    #[serde(default)]
    set: toml::Table,
    paste: String,
}

/// A policy with its name, and what it does in words.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dish {
    pub(super) name: String,
    pub(super) words: String,
    pub(super) policy: Policy,
    /// What a user pastes to get it.
    #[serde(skip)]
    pub(super) paste: Option<String>,
}

/// Policies that are compared.
#[derive(Debug)]
pub(super) struct Menu {
    pub(super) reference: Dish,
    pub(super) candidates: Vec<Dish>,
    /// Of the reference, as it is written.
    pub(super) own_window: u64,
    /// That of the models, where the reference is a preset that names none, and is taken with another.
    assumed: Option<u64>,
    /// A product that can be set, and where what is to be pasted goes.
    pub(super) product: Option<(&'static str, &'static str)>,
}

/// A preset by its name, or none for the newest turns that fit.
pub(super) fn reference(name: &str) -> anyhow::Result<Option<&str>> {
    match name == FILE.newest.name {
        true => Ok(None),
        false => policies::find(name).map(|preset| Some(preset.name.as_str())),
    }
}

/// Whether what a product does unless it is told is to keep what fits, which is a matter of the model.
pub(super) fn is_by_model(product: &str) -> bool {
    FILE.products.iter().any(|known| known.name == product && known.reference.is_none())
}

/// The preset that a product follows, by the format of its logs and by whether a log says that results were taken out of it.
pub(super) fn reference_of(format: &str, is_edited: bool) -> Option<&'static str> {
    let edited = FILE.edited.get(format).filter(|_| is_edited);
    edited.or_else(|| FILE.references.get(format)).map(String::as_str)
}

/// Products that have settings.
pub(super) fn products() -> Vec<&'static str> {
    FILE.products.iter().map(|product| product.name.as_str()).collect()
}

fn preset(name: &str) -> anyhow::Result<Dish> {
    let preset = policies::find(name)?;
    let words = format!("as {} {} does", preset.product, preset.version);
    Ok(Dish { name: name.to_owned(), words, policy: preset.policy.clone(), paste: None })
}

/// Whether two policies differ in stages alone that write no summary.
fn has_same_summaries(a: &Policy, b: &Policy) -> bool {
    let writing = |policy: &Policy| -> Vec<_> {
        policy.stages.iter().filter(|stage| stage.summarises()).cloned().collect()
    };
    a.summarises() && a.window == b.window && a.reserve == b.reserve && writing(a) == writing(b)
}

impl Menu {
    /// Plain policies and presets beside the reference: that of this name, else the newest turns that fit `model_window`.
    pub(super) fn of(reference: Option<&str>, model_window: u64) -> anyhow::Result<Self> {
        let reference = match reference {
            Some(name) => preset(name)?,
            None => {
                let newest = FILE.newest.clone();
                Dish { policy: Policy { window: model_window, ..newest.policy }, ..newest }
            }
        };
        let of_window = |dish: &Dish| {
            let policy = Policy { window: reference.policy.window, ..dish.policy.clone() };
            Dish { policy, ..dish.clone() }
        };
        let mut candidates: Vec<Dish> = FILE.plain.iter().map(of_window).collect();
        for other in policies::all().iter().filter(|other| other.name != reference.name) {
            if !other.policy.summarises() || has_same_summaries(&other.policy, &reference.policy) {
                candidates.push(preset(&other.name)?);
            }
        }
        let own_window = reference.policy.window;
        let names_window = |text: &str| text.lines().any(|line| line.starts_with("window ="));
        let is_assumed = policies::text(&reference.name).is_some_and(|text| !names_window(text));
        let assumed = Some(model_window).filter(|window| is_assumed && ![0, own_window].contains(window));
        Ok(Menu { reference, candidates, own_window, assumed, product: None })
    }

    /// What a product can be set to, beside what it does unless it is told.
    pub(super) fn settings(product: &str, model_window: u64) -> anyhow::Result<Self> {
        let known = FILE.products.iter().find(|known| known.name == product);
        let product = known.ok_or_else(|| anyhow::anyhow!("no settings are known for `{product}`"))?;
        let mut menu = Menu::of(product.reference.as_deref(), model_window)?;
        let choice = |choice: &Choice| {
            let mut policy = policies::find(&choice.preset)?.policy.clone();
            for (key, value) in &choice.set {
                policy.set(key, value)?;
            }
            Ok(Dish {
                name: choice.name.clone(),
                words: choice.words.clone(),
                policy,
                paste: Some(choice.paste.clone()),
            })
        };
        menu.candidates = product.choices.iter().map(choice).collect::<anyhow::Result<_>>()?;
        menu.product = Some((&product.name, &product.place));
        if product.reference.is_none() {
            menu.reference.words =
                format!("with nothing set for {}: the newest turns that fit the window", product.name);
        }
        Ok(menu)
    }

    /// All of it in a window; where that is smaller than its own, what is in tokens shrinks alike.
    pub(super) fn in_window(mut self, window: u64) -> Self {
        for dish in self.candidates.iter_mut().chain([&mut self.reference]) {
            dish.policy = dish.policy.scaled(window);
        }
        self
    }

    /// As an experiment, with what the product's own summaries kept.
    pub(super) fn experiment(&self) -> anyhow::Result<String> {
        let mut text = "name = \"advise\"\ntokenizer = \"o200k\"\nseed = 1\n".to_owned();
        let own = Prices { own: true, ..Prices::default() };
        text += &format!("\n[prices]\n{}", toml::to_string(&own)?);
        text += "\n[[strategies]]\nname = \"logged\"\n\n[[triggers]]\nname = \"logged\"\n";
        for dish in std::iter::once(&self.reference).chain(&self.candidates) {
            let mut table = toml::Table::from_iter([
                ("name".to_owned(), dish.name.as_str().into()),
                ("policy".to_owned(), toml::Value::try_from(&dish.policy)?),
            ]);
            if dish.policy.summarises() {
                table.insert("forms".to_owned(), vec!["empty", "oracle"].into());
            }
            let policies = toml::Table::from_iter([("policies".to_owned(), vec![table].into())]);
            text += &format!("\n{}", toml::to_string(&policies)?);
        }
        Ok(text)
    }

    /// Where the reference and the candidates stand among the variants of the plan.
    pub(super) fn places(&self, plan: &Plan) -> anyhow::Result<(Place, Vec<Candidate>)> {
        let form = |variant: &Variant| {
            variant.strategy_params.get("form").and_then(toml::Value::as_str).map(str::to_owned)
        };
        let place = |dish: &Dish| {
            let of = |wanted: Option<&str>| {
                let is_it = |v: &Variant| v.strategy == dish.name && form(v).as_deref() == wanted;
                let place = plan.variants.iter().position(is_it);
                place.ok_or_else(|| anyhow::anyhow!("policy `{}` is not in the plan", dish.name))
            };
            anyhow::Ok(match dish.policy.summarises() {
                true => Place::Bracket { empty: of(Some("empty"))?, oracle: of(Some("oracle"))? },
                false => Place::Plain(of(None)?),
            })
        };
        let candidate = |dish: &Dish| {
            let has_same_summaries = has_same_summaries(&dish.policy, &self.reference.policy);
            Ok(Candidate { policy: place(dish)?, has_same_summaries })
        };
        let candidates = self.candidates.iter().map(candidate).collect::<anyhow::Result<_>>()?;
        Ok((place(&self.reference)?, candidates))
    }

    /// The reference and its window in words; `is_half` is whether the window is halved since so many of the logs were compacted.
    pub(super) fn told(&self, is_half: bool, [n_compacted, n]: [usize; 2]) -> String {
        let (window, own) = (self.reference.policy.window, self.own_window);
        // What fits is a matter of the model.
        let is_newest = self.reference.name == FILE.newest.name;
        let whose = if is_newest { "the model's" } else { "its own" };
        let were = if n_compacted == 1 { "was" } else { "were" };
        let size = match (is_half, window < own) {
            (true, _) => {
                let logs = format!("{} of the {}", HumanCount(n_compacted as u64), count(n as u64, "log"));
                format!(", half of {whose}, since {logs} {were} compacted with more than that in the prompt")
            }
            (false, false) if n_compacted > 0 => {
                let [some, all] = [n_compacted, n].map(|n| HumanCount(n as u64));
                format!(
                    ", all of {whose}, since only {some} of {all} logs {were} compacted with more than half of that in the prompt"
                )
            }
            (false, true) => format!(", smaller than {whose}"),
            _ => String::new(),
        };
        let scaled = if window < own { "; all that counts tokens is scaled alike" } else { "" };
        let reference = &self.reference;
        let assumed = self.assumed.filter(|_| is_half || window == own).map_or_else(String::new, |models| {
            format!(
                " Its preset names no window and is taken with {}; the model of most of these sessions has {}: `--window` sets another.",
                HumanCount(own),
                HumanCount(models)
            )
        });
        format!(
            "Compared with `{}` ({}), in a window of {}{size}{scaled}.{assumed}",
            reference.name,
            reference.words,
            count(window, "token")
        )
    }
}

/// What the stages of a policy are set to, by the keys that `sweep` knows them by.
pub(super) fn values(policy: &Policy) -> Vec<String> {
    let mut all = Vec::new();
    for (number, stage) in (1..).zip(&policy.stages) {
        let before = if policy.stages.len() > 1 { format!("{number}.") } else { String::new() };
        for (part, table) in
            [("trigger", &stage.trigger), ("scope", &stage.scope), ("strategy", &stage.strategy)]
        {
            let keys = table.iter().filter(|(key, _)| *key != "name");
            all.extend(keys.map(|(key, value)| format!("{before}{part}.{key} = {value}")));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::log::Log;
    use crate::context::needs::Needs;
    use crate::policies::Default as ByDefault;
    use crate::replay::{Observer, replay};
    use crate::text::tokens::Tokenizer;

    #[test]
    fn what_the_file_names_is_there_and_on_by_default() {
        let formats: Vec<&str> = crate::logs::formats::ALL.iter().map(|format| format.name).collect();
        for (format, name) in &FILE.references {
            assert!(formats.contains(&format.as_str()), "{format}");
            assert_eq!(policies::find(name).unwrap().default, ByDefault::On, "{name}");
        }
        for product in products() {
            let menu = Menu::settings(product, 200_000).unwrap();
            assert!(!menu.candidates.is_empty() && menu.product.is_some(), "{product}");
            check(menu);
        }
        for (format, name) in &FILE.edited {
            assert!(formats.contains(&format.as_str()), "{format}");
            assert_eq!(reference_of(format, true), Some(name.as_str()));
            assert_eq!(reference_of(format, false), None);
        }
        for name in FILE.references.values().chain(FILE.edited.values()) {
            check(Menu::of(Some(name), 200_000).unwrap());
        }
        let newest = Menu::of(None, 128_000).unwrap();
        assert_eq!((newest.own_window, newest.candidates[0].policy.window), (128_000, 128_000));
        let half = newest.in_window(64_000).told(true, [3, 4]);
        assert!(
            half.contains(
                "in a window of 64,000 tokens, half of the model's, since 3 of the 4 logs were compacted"
            ),
            "{half}"
        );
        check(Menu::of(None, 128_000).unwrap());
    }

    /// Sound at its own window and at a tenth, and every policy finds its place.
    fn check(menu: Menu) {
        let window = menu.own_window;
        for menu in [menu.in_window(window), Menu::of(None, window).unwrap().in_window(window / 10)] {
            let text = menu.experiment().unwrap();
            let plan = Plan::parse("advise.toml", &text, &super::super::super::catalogue()).unwrap();
            let (_, candidates) = menu.places(&plan).unwrap();
            assert_eq!(candidates.len(), menu.candidates.len());
        }
    }

    #[test]
    fn in_a_smaller_window_all_that_counts_tokens_is_smaller() {
        let menu = Menu::of(Some("claude-code"), 0).unwrap().in_window(100_000);
        let policy = &menu.reference.policy;
        assert_eq!((policy.window, policy.reserve, menu.own_window), (100_000, 10_000, 200_000));
        let stage = &policy.stages[0];
        let number = |table: &toml::Table, key: &str| table[key].as_integer();
        assert_eq!(number(&stage.trigger, "below"), Some(6_500));
        assert_eq!(
            ["tokens", "file_tokens", "all_files_tokens", "files"].map(|key| number(&stage.strategy, key)),
            [Some(1_250), Some(2_500), Some(25_000), Some(5)]
        );
        let told = menu.told(true, [30, 76]);
        assert_eq!(
            told,
            "Compared with `claude-code` (as Claude Code 2.1.331 does), in a window of 100,000 tokens, half of its own, since 30 of the 76 logs were compacted with more than that in the prompt; all that counts tokens is scaled alike."
        );
    }

    /// A call that goes with the oldest result that fits would make the prompt too long.
    #[test]
    fn the_newest_turns_that_fit_do() {
        struct Nobody;
        impl Observer for Nobody {}
        let words = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda";
        let turn = |i: u32| format!("\naction: write {words} {i}\nobservation: {words} {words} {i}");
        let log = Log::script(&format!("user: go{}", (0..9).map(turn).collect::<String>()));
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let mut n_events = 0;
        for window in (100..200).step_by(9) {
            let policy = Policy { window, ..FILE.newest.policy.clone() };
            let recipe = policy.recipe(1, None).unwrap();
            let run = replay(&log, &recipe, &tokenizer, &Needs::default(), &mut Nobody).unwrap();
            let longest = run.decisions.iter().map(|decision| decision.tokens_sent).max();
            assert!(longest <= Some(window), "{longest:?} {window}");
            n_events += run.events.len();
        }
        assert!(n_events > 20, "{n_events}");
    }

    #[test]
    fn a_preset_that_names_no_window_is_taken_with_one() {
        assert_eq!(reference("newest-that-fit").unwrap(), None);
        assert!(reference("codex").unwrap() == Some("codex") && reference("codx").is_err());
        assert!(is_by_model("claude-api") && !is_by_model("codex"));
        // The models may have another.
        let of = |name, window| Menu::of(Some(name), window).unwrap().told(false, [0, 9]);
        let told = of("mini-swe-agent", 128_000);
        assert!(
            told.contains("is taken with 200,000; the model of most of these sessions has 128,000"),
            "{told}"
        );
        for told in [of("mini-swe-agent", 200_000), of("codex", 128_000)] {
            assert!(!told.contains("names no window"), "{told}");
        }
        let asked = Menu::of(Some("mini-swe-agent"), 128_000).unwrap().in_window(64_000).told(false, [0, 9]);
        assert!(!asked.contains("names no window"), "{asked}");
    }

    /// In the form of the file that it goes into; code has its brackets closed.
    #[test]
    fn what_is_pasted_can_be_read() {
        for product in &FILE.products {
            for Choice { name, paste, .. } in &product.choices {
                let is_read = match product.place.as_str() {
                    place if place.contains(".toml") => toml::from_str::<toml::Table>(paste).is_ok(),
                    place if place.contains(".json") || place.starts_with("the request") => {
                        serde_json::from_str::<serde_json::Value>(&format!("{{{paste}}}")).is_ok()
                    }
                    _ => ["()", "{}", "[]"].iter().all(|pair| {
                        let n = |at: usize| paste.matches(&pair[at..=at]).count();
                        n(0) == n(1)
                    }),
                };
                assert!(is_read, "{} {name}: {paste}", product.name);
            }
        }
    }

    #[test]
    fn policies_that_differ_in_pruning_alone_have_the_same_summaries() {
        let menu = Menu::of(Some("opencode"), 0).unwrap();
        let pruning = menu.candidates.iter().find(|dish| dish.name == "opencode-prune").unwrap();
        assert!(has_same_summaries(&pruning.policy, &menu.reference.policy));
        assert!(!menu.candidates.iter().any(|dish| dish.name == "codex"));
    }
}
