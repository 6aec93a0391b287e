//! A policy, as it is written: stages in order, each a trigger, a scope and a strategy, with what the product counts and how.
//!
//! A *preset* is the policy of a product, as data: `data/presets/*.toml`. An experiment names it, and can set any key of it.

pub mod held;
mod presets;
#[cfg(test)]
mod tests;
mod windows;

use std::sync::Arc;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::context::counter::Counter;
use crate::context::messages::Speaker;
use crate::models::Model;
use crate::params::Param;
use crate::replay::{Frame, Head, Recipe, Scaled, Stage};
use crate::{scopes, settings, strategies, triggers};

#[cfg(test)]
pub use presets::Default;
pub use presets::{Preset, all, find, text};
pub use windows::ByWindow;

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Tokens of the window.
    #[serde(default = "default_window")]
    pub window: u64,
    /// The window as a share of the longest prompt of each log; what is kept free shrinks, or grows, with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_share: Option<f64>,
    /// Tokens of it that are kept free for the answer.
    #[serde(default)]
    pub reserve: u64,
    /// What no stage touches.
    #[serde(default)]
    pub head: Head,
    /// How tokens are counted.
    #[serde(default)]
    pub counter: Counter,
    /// How single messages are counted, where that is otherwise: as by a product whose limits go by usage, and its scopes by an estimate
    /// of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lengths: Option<Counter>,
    /// Whether the results of one reply are one message, as some providers have it.
    #[serde(default)]
    pub joins_results: bool,
    /// How often all stages are tried before one decision, as long as that makes the prompt shorter.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub rounds: u32,
    /// Whether what an event puts there may be longer than what stood there, as some products let it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub grows: bool,
    /// Whether an event may part a call from its result, as some products do, though no provider takes it: each prompt that holds one
    /// without the other is told as a violation.
    #[serde(default, skip_serializing_if = "is_false")]
    pub parts_pairs: bool,
    /// Who says what an event puts there: so it stands in exported prompts, and counts where roles do.
    #[serde(default, skip_serializing_if = "is_user")]
    pub summary_role: Speaker,
    /// Keys that the product works out from the window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_window: Vec<ByWindow>,
    /// Tried in this order at every decision.
    pub stages: Vec<StageFile>,
}

fn default_window() -> u64 {
    200_000
}

/// A stage as it is written: of each table `name` says which, the rest are its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageFile {
    pub trigger: Table,
    /// Without one the trigger says what is compressed.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub scope: Table,
    pub strategy: Table,
    /// How often it is tried before one decision, as long as its trigger fires.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub repeat: u32,
    /// Share of the window down to which it is then repeated, whatever its trigger says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_to: Option<f64>,
    /// After so many events in a row that made the prompt no shorter it is done with for the segment; 0 is never.
    #[serde(default, skip_serializing_if = "is_never")]
    pub give_up: u32,
    /// Whether what its events rewrote is whole again where its trigger does not fire, and counts as whole for that: as by a product
    /// that leaves its history as it is, and makes its view anew for each call. The policy must let a prompt grow (`grows`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub anew: bool,
}

fn is_user(speaker: &Speaker) -> bool {
    *speaker == Speaker::User
}

fn is_false(is: &bool) -> bool {
    !is
}

fn is_never(give_up: &u32) -> bool {
    *give_up == 0
}

fn once() -> u32 {
    1
}

fn is_once(repeat: &u32) -> bool {
    *repeat == 1
}

/// What a summary is without a model: the ends of a bracket, and a stand-in between them.
pub const FORMS: [&str; 3] = ["empty", "extract", "oracle"];
/// The strategy whose text a model writes, and the parameter that says what stands in for it.
const SUMMARISE: (&str, &str) = ("summarise", "form");

/// A table without its name.
fn named(table: &Table, what: &str) -> anyhow::Result<(String, Table)> {
    let mut table = table.clone();
    let name = table.remove("name").with_context(|| format!("a {what} without a `name`"))?;
    let name = name.as_str().with_context(|| format!("the `name` of a {what} is no text"))?.to_owned();
    Ok((name, table))
}

impl Policy {
    /// # Errors
    /// Some part is unknown, or is refused its parameters.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.stages.is_empty(), "a policy without stages");
        anyhow::ensure!(
            self.grows || !self.stages.iter().any(|stage| stage.anew),
            "a stage with `anew` needs `grows = true` of the policy"
        );
        anyhow::ensure!(self.window > self.reserve, "`reserve` must be less than `window`");
        let share = self.window_share.unwrap_or(1.0);
        anyhow::ensure!(
            share > 0.0 && share <= 1.0,
            "a window is a share of the longest prompt up to 1, or tokens"
        );
        anyhow::ensure!(self.counter.per.0 > 0.0, "`per` of the counter must be above 0");
        let always = if self.window_share.is_some() { None } else { self.resolved()?.fires_always() };
        anyhow::ensure!(
            always.is_none(),
            "stage {} would fire at every call: its `below` leaves nothing of a window of {} tokens\nhint: a larger window, or `trigger.below`",
            always.unwrap_or(0) + 1,
            self.window
        );
        self.recipe(0, None).map(drop)
    }

    /// The policy, ready to run.
    ///
    /// # Errors
    /// As [`Policy::check`].
    pub fn recipe(&self, seed: u64, model: Option<Arc<dyn Model>>) -> anyhow::Result<Recipe> {
        if !self.by_window.is_empty() && self.window_share.is_none() {
            return self.resolved()?.recipe(seed, model);
        }
        let stage = |(number, file): (usize, &StageFile)| {
            self.stage(file).with_context(|| format!("stage {}", number + 1))
        };
        let scaled = self.window_share.map(|share| -> Scaled {
            let (policy, model) = (Policy { window_share: None, ..self.clone() }, model.clone());
            Box::new(move |longest| {
                policy.clone().in_window(share * longest as f64).recipe(seed, model.clone())
            })
        });
        Ok(Recipe {
            stages: self.stages.iter().enumerate().map(stage).collect::<anyhow::Result<_>>()?,
            rounds: self.rounds.max(1),
            frame: Some(Frame {
                head: self.head,
                counter: self.counter,
                lengths: self.lengths,
                window: self.window - self.reserve,
                joins_results: self.joins_results,
                grows: self.grows,
                parts_pairs: self.parts_pairs,
                made_by: self.summary_role,
            }),
            seed,
            model,
            extractor: None,
            embedder: None,
            trigger_model: None,
            scaled,
        })
    }

    fn stage(&self, file: &StageFile) -> anyhow::Result<Stage> {
        let (trigger, mut limits) = named(&file.trigger, "trigger")?;
        if trigger == "limits" {
            for (key, value) in [("window", self.window), ("reserve", self.reserve)] {
                anyhow::ensure!(!limits.contains_key(key), "`{key}` is the policy's, and not of a trigger");
                limits.insert(key.to_owned(), Value::Integer(i64::try_from(value)?));
            }
        }
        let (strategy, how) = named(&file.strategy, "strategy")?;
        let scope = match file.scope.is_empty() {
            true => None,
            false => {
                let (name, params) = named(&file.scope, "scope")?;
                Some(scopes::build(&name, params).with_context(|| format!("scope `{name}`"))?)
            }
        };
        Ok(Stage {
            trigger: triggers::build(&trigger, limits).with_context(|| format!("trigger `{trigger}`"))?,
            scope,
            strategy: strategies::build(&strategy, how).with_context(|| format!("strategy `{strategy}`"))?,
            repeat: file.repeat.max(1),
            down_to: file.down_to,
            give_up: file.give_up,
            anew: file.anew,
        })
    }

    /// Whether nobody would run it: what stands in for its summaries is the end of a bracket.
    ///
    /// # Errors
    /// As [`Policy::check`].
    pub fn is_control(&self) -> anyhow::Result<bool> {
        Ok(self.recipe(0, None)?.stages.iter().any(|stage| stage.strategy.is_control()))
    }

    /// Whether a model writes some of it.
    pub fn summarises(&self) -> bool {
        self.stages.iter().any(StageFile::summarises)
    }

    /// The policy with this in the place of a model's summaries.
    pub fn with_form(mut self, form: &str) -> Self {
        for stage in &mut self.stages {
            if stage.summarises() {
                stage.strategy.insert(SUMMARISE.1.to_owned(), form.into());
            }
        }
        self
    }

    /// Sets a key in all stages that have it: `part.key`, as in `scope.messages`; `n.part.key` in the n-th alone. What is no part of a
    /// stage is a key of the policy (`head`, `counter.by`), or of a stage (`1.down_to`).
    ///
    /// # Errors
    /// No stage has such a part, or nothing knows the key.
    pub fn set(&mut self, key: &str, value: &Value) -> anyhow::Result<()> {
        let mut parts: Vec<&str> = key.split('.').collect();
        let number = parts.first().and_then(|first| first.parse::<usize>().ok());
        if number.is_some() {
            parts.remove(0);
        }
        let [part @ ("trigger" | "scope" | "strategy"), key] = parts[..] else {
            return self.set_own(number, &parts, value);
        };
        anyhow::ensure!(
            (part, key) != ("strategy", SUMMARISE.1),
            "what stands for a summary is no key of it\nhint: `forms = [\"extract\"]` beside `preset`"
        );
        if let Some(number) = number.filter(|number| !(1..=self.stages.len()).contains(number)) {
            anyhow::bail!("there is no stage {number}: {}", self.counted());
        }
        let is_meant = |at: usize| number.is_none_or(|number| number == at + 1);
        let of = |stage: &StageFile| stage.part(part).map(|(table, known)| (table.contains_key(key), known));
        let known = |stage: &StageFile| {
            let (is_set, params) = of(stage)?;
            params.iter().any(|param| param.name == key).then_some(is_set)
        };
        let all: Vec<Option<bool>> = self.stages.iter().map(known).collect();
        let any_is_set = all.contains(&Some(true));
        let mut n_set = 0;
        let name = match number {
            Some(number) => format!("{number}.{part}.{key}"),
            None => format!("{part}.{key}"),
        };
        self.by_window.retain(|rule| !rule.is_of(&name));
        for (at, stage) in self.stages.iter_mut().enumerate() {
            if is_meant(at) && all[at].is_some_and(|is_set| is_set || number.is_some() || !any_is_set) {
                stage.part_mut(part).insert(key.to_owned(), value.clone());
                n_set += 1;
            }
        }
        let known = || {
            let of = self.stages.iter().filter_map(|stage| stage.part(part));
            of.flat_map(|(_, params)| params.iter().map(|param| param.name)).collect::<Vec<_>>()
        };
        anyhow::ensure!(
            n_set > 0,
            "no stage has a {part} that knows `{key}`\n{}",
            settings::hint(key, &known())
        );
        Ok(())
    }

    /// Sets a key of the policy, or of its n-th stage.
    fn set_own(&mut self, number: Option<usize>, keys: &[&str], value: &Value) -> anyhow::Result<()> {
        let mut written = Value::try_from(&*self)?;
        let mut place = match number {
            Some(number) => written["stages"]
                .get_mut(number.wrapping_sub(1))
                .with_context(|| format!("there is no stage {number}: {}", self.counted()))?,
            None => &mut written,
        };
        let (last, way) = keys.split_last().context("a key is missing behind the number")?;
        for key in way {
            let table = place.as_table_mut().with_context(|| format!("`{key}` stands in no table"))?;
            place = table.entry(*key).or_insert_with(|| Value::Table(Table::new()));
        }
        place.as_table_mut().context("it is no table")?.insert((*last).to_owned(), value.clone());
        let hint = "hint: as in `scope.messages`, `2.trigger.share`, `counter.by` or `1.down_to`; `trajpress show preset NAME` prints a policy to edit";
        *self = written.try_into().map_err(|error| {
            let told = toml_message(&error);
            anyhow::anyhow!("{}\n{hint}", settings::unknown_field(&told).unwrap_or(told))
        })?;
        Ok(())
    }

    fn counted(&self) -> String {
        match self.stages.len() {
            1 => "it has 1 stage".to_owned(),
            n => format!("it has {n} stages"),
        }
    }
}

/// What was wrong, without where: a policy that is put together has no lines.
fn toml_message(error: &toml::de::Error) -> String {
    error.message().to_owned()
}

impl StageFile {
    /// Whether a model writes some of it.
    pub fn summarises(&self) -> bool {
        self.strategy.get("name").and_then(Value::as_str) == Some(SUMMARISE.0)
    }

    /// A part of the stage, and what its algorithm knows.
    fn part(&self, part: &str) -> Option<(&Table, &'static [Param])> {
        let name =
            |table: &Table| table.get("name").and_then(Value::as_str).map(str::to_owned).unwrap_or_default();
        let none: &[Param] = &[];
        Some(match part {
            "trigger" => {
                let name = name(&self.trigger);
                (&self.trigger, triggers::ALL.iter().find(|e| e.name == name).map_or(none, |e| e.params))
            }
            "scope" => {
                let name = name(&self.scope);
                (&self.scope, scopes::ALL.iter().find(|e| e.name == name).map_or(none, |e| e.params))
            }
            "strategy" => {
                let name = name(&self.strategy);
                (&self.strategy, strategies::ALL.iter().find(|e| e.name == name).map_or(none, |e| e.params))
            }
            _ => return None,
        })
    }

    fn part_mut(&mut self, part: &str) -> &mut Table {
        match part {
            "trigger" => &mut self.trigger,
            "scope" => &mut self.scope,
            _ => &mut self.strategy,
        }
    }
}
