//! Claims as data: what somebody said, and how rows could support or contradict it, registered before a run.
//!
//! Reads the file of claims and checks it; [`crate::report::tables::verdicts`] holds the claims against the rows of a run.
//! A claim says which score of which variants over which logs is meant, and in which region it would
//! have to lie:
//!
//! - region = `claimed` (a figure or a range) widened by `margin`, and open above (`at_least`), below
//!   (`at_most`), or closed (`near`).
//!
//! The shipped claims are `datasets/claims.toml`; its head explains every key.

mod file;
#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use super::load::Event;
use crate::files::reach;
use crate::scores::registry::Field;
use crate::settings::Source;
use crate::store::VariantRow;

/// The claims that come with the program.
const SHIPPED: (&str, &str) = ("datasets/claims.toml", include_str!("../../../datasets/claims.toml"));

/// Scores that are made from the rows of events, beside those of the catalogue: sum of tops / sum of bottoms.
const OF_EVENTS: [(&str, OfEvent); 3] = [
    ("compression_ratio", |e| [e.removable_tokens as f64, e.kept_tokens as f64]),
    ("event_kept_tokens", |e| [e.kept_tokens as f64, 1.0]),
    ("event_tokens_before", |e| [e.tokens_before as f64, 1.0]),
];
type OfEvent = fn(&Event) -> [f64; 2];

/// Share of the compressions that have paid for the prompt cache they broke, `within=` so many decisions.
pub(crate) const PAID_BACK: &str = "paid_back_share";

/// What the program's catalogues hold: a report itself knows no strategy.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub strategies: Vec<String>,
    pub triggers: Vec<String>,
    pub formats: Vec<String>,
}

/// A checked file of claims.
pub(crate) struct Claims {
    /// Name of the file, without its folder.
    pub(crate) file: String,
    /// First digits of its hash: claims that were changed after a run have another.
    pub(crate) hash: String,
    pub(crate) claims: Vec<Claim>,
    pub(crate) questions: Vec<Question>,
    /// What is planned but not built: `strategies`, `triggers` or `metrics`, and a name.
    planned: Vec<(String, String)>,
}

/// What somebody said.
pub(crate) struct Claim {
    pub(crate) id: String,
    /// In their words, short.
    pub(crate) claim: String,
    pub(crate) source: String,
    /// Their figure, as it was printed.
    pub(crate) figure: String,
    /// Claims that are adjusted together.
    pub(crate) family: String,
    /// How it is measured here, in words.
    pub(crate) how: String,
    /// Or why logs cannot tell.
    pub(crate) test: Result<Test, String>,
}

/// A question that claims answer together.
pub(crate) struct Question {
    pub(crate) question: String,
    pub(crate) source: String,
    /// What to run for an answer.
    pub(crate) recipe: String,
    /// Ids of claims.
    pub(crate) claims: Vec<String>,
}

/// A claim in figures.
pub(crate) struct Test {
    pub(crate) kind: Kind,
    pub(crate) of: Side,
    /// What it is compared with.
    pub(crate) than: Option<Side>,
    /// Compressions between the two sides of a trend.
    pub(crate) steps: f64,
    pub(crate) region: Region,
    /// The figure is no more than a bound of what the claim speaks of.
    pub(crate) bound: Option<Bound>,
    /// The claim is that it can happen: one variant supports it, none contradicts it.
    pub(crate) possible: bool,
    /// A score in which both sides may differ by no more than this.
    pub(crate) matched: Option<(Asked, f64)>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Value,
    Difference,
    Ratio,
    /// Difference a compression.
    Trend,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Bound {
    /// What the claim speaks of is at most our figure.
    Upper,
    /// It is at least our figure.
    Lower,
}

/// Where the figure has to lie.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Region {
    /// Ends; infinite where open.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// As registered, in words.
    pub(crate) words: String,
}

/// A score of some variants over some logs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Side {
    pub(crate) asked: Asked,
    pub(crate) strategy: Pick,
    pub(crate) trigger: Pick,
    pub(crate) logs: Logs,
}

/// Which strategies, or which triggers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pick {
    /// Any of these; empty is any at all.
    pub(crate) names: Vec<String>,
    params: Vec<(String, toml::Value)>,
}

/// Which logs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Logs {
    /// Empty is all.
    pub(crate) formats: Vec<String>,
    pub(crate) min_turns: Option<u32>,
    pub(crate) max_turns: Option<u32>,
}

/// A score by metric, stratum and column of the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) metric: String,
    pub(crate) stratum: String,
    pub(crate) field: Field,
}

impl Claims {
    /// The claims of a file, or those shipped. Fails with line and nearest right name.
    pub(crate) fn load(path: Option<&Path>, names: &Names) -> anyhow::Result<Claims> {
        let Some(path) = path else {
            return file::read(&Source { path: SHIPPED.0, text: SHIPPED.1 }, names);
        };
        let text = reach::text(path).with_context(|| format!("cannot read {}", path.display()))?;
        file::read(&Source { path: &path.display().to_string(), text: &text }, names)
    }

    /// All that claims want to know of a variant.
    pub(crate) fn asked_of(&self, variant: &VariantRow) -> Vec<Asked> {
        let params = |json: &str| serde_json::from_str(json).unwrap_or_default();
        let (strategy, trigger) = (params(&variant.strategy_params), params(&variant.trigger_params));
        let mut asked = Vec::new();
        for test in self.claims.iter().filter_map(|c| c.test.as_ref().ok()) {
            for side in [Some(&test.of), test.than.as_ref()].into_iter().flatten() {
                let fits = side.strategy.fits(&variant.strategy, &strategy)
                    && side.trigger.fits(&variant.trigger, &trigger);
                if fits {
                    asked.push(side.asked.clone());
                    if side.asked.field == Field::Efficiency {
                        asked.push(side.asked.room());
                    }
                    asked.extend(test.matched.iter().map(|(asked, _)| asked.clone()));
                }
            }
        }
        asked
    }

    /// `list` is `strategies`, `triggers` or `metrics`.
    pub(crate) fn is_planned(&self, list: &str, name: &str) -> bool {
        self.planned.iter().any(|(l, n)| l == list && n == name)
    }
}

impl Pick {
    pub(crate) fn fits(&self, name: &str, params: &serde_json::Map<String, serde_json::Value>) -> bool {
        let same = |(key, wanted): &(String, toml::Value)| {
            params.get(key).is_some_and(|found| match wanted {
                toml::Value::Integer(i) => found.as_f64() == Some(*i as f64),
                toml::Value::Float(x) => found.as_f64() == Some(*x),
                toml::Value::String(s) => found.as_str() == Some(s),
                toml::Value::Boolean(b) => found.as_bool() == Some(*b),
                _ => false,
            })
        };
        (self.names.is_empty() || self.names.iter().any(|n| n == name)) && self.params.iter().all(same)
    }

    /// `mask(keep_last=10)`, `subtask or intent`.
    pub(crate) fn words(&self) -> String {
        let params: Vec<String> = self.params.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let names = self.names.join(" or ");
        if params.is_empty() { names } else { format!("{names}({})", params.join(",")) }
    }
}

impl Logs {
    pub(crate) fn holds(&self, format: &str, n_turns: u32) -> bool {
        (self.formats.is_empty() || self.formats.iter().any(|f| f == format))
            && self.min_turns.is_none_or(|min| n_turns >= min)
            && self.max_turns.is_none_or(|max| n_turns <= max)
    }

    /// `sweagent, 60 to 250 turns`.
    pub(crate) fn words(&self) -> String {
        let formats =
            if self.formats.is_empty() { "all formats".to_owned() } else { self.formats.join(", ") };
        match (self.min_turns, self.max_turns) {
            (None, None) => formats,
            (Some(min), None) => format!("{formats}, {min} turns and more"),
            (None, Some(max)) => format!("{formats}, up to {max} turns"),
            (Some(min), Some(max)) => format!("{formats}, {min} to {max} turns"),
        }
    }
}

impl Asked {
    /// Its name among the measures of a line.
    pub(crate) fn key(&self) -> String {
        format!("{self}")
    }

    pub(crate) fn room(&self) -> Asked {
        Asked { field: Field::Room, ..self.clone() }
    }

    /// What an event adds, for scores that are made from events.
    pub(crate) fn of_event(&self) -> Option<OfEvent> {
        let found =
            OF_EVENTS.iter().find(|(name, _)| *name == self.metric).filter(|_| self.stratum.is_empty());
        found.map(|(_, of)| *of)
    }
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.metric)?;
        if !self.stratum.is_empty() {
            write!(f, " {}", self.stratum)?;
        }
        match self.field {
            Field::Value => Ok(()),
            field => write!(f, ", {}", format!("{field:?}").to_lowercase()),
        }
    }
}
