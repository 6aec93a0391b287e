//! What is learned from logs: odds that an atom is needed later, and that a statement matters, by logistic regression.
//!
//! The weights that travel with the program are made by reports/hindsight, which says how good they are; model.md there says what
//! each number means. Features know nothing of what comes after the decision.

use std::sync::{Arc, LazyLock};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::params;
use crate::text::escape;
use crate::text::pieces::{BUCKETS, Bytes};

pub mod atoms;
pub mod cover;
pub mod ends;
mod history;
pub mod intents;
pub mod labels;
pub mod lines;
pub mod needs;
mod numbers;
mod parts;
mod regression;
mod seen;
pub mod statements;
mod surface;

pub use seen::Seen;

/// What is rated, and how.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// The rater of atoms.
    pub atoms: Linear,
    pub statements: OfStatements,
    pub types: OfTypes,
    /// The rater of what users say, as the goal.
    pub goals: OfStatements,
    /// What they were made of: [`Weights::text_with`].
    #[serde(default)]
    pub manifest: serde_json::Value,
}

/// A logistic regression of numbers that are standardised and clipped.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Linear {
    names: Vec<String>,
    mean: Vec<f32>,
    scale: Vec<f32>,
    clip: f32,
    weights: Vec<f32>,
    intercept: f64,
}

/// The rater of statements: numbers, and hashed pieces of the text.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OfStatements {
    names: Vec<String>,
    mean: Vec<f32>,
    scale: Vec<f32>,
    clip: f32,
    weights: Vec<f32>,
    intercept: f64,
    buckets: usize,
    /// What one step of `words` counts.
    word_step: f64,
    words: Bytes,
}

/// What a statement that matters is taken for: the largest of some odds of its numbers.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OfTypes {
    types: Vec<String>,
    mean: Vec<f32>,
    scale: Vec<f32>,
    clip: f32,
    weights: Vec<Vec<f32>>,
    intercepts: Vec<f64>,
}

/// Names of the types, in order.
pub const TYPES: [&str; 5] = ["goal", "constraint", "decision", "fact", "tool_output"];

const TEXT: &str = include_str!("../data/weights.json");

static SHIPPED: LazyLock<Arc<Weights>> =
    LazyLock::new(|| Arc::new(Weights::parse(TEXT).expect("the weights travel with the build")));

impl Weights {
    /// Those of a file, `PATH#HASH`; of no name those that travel with the program.
    pub fn named(name: &str) -> anyhow::Result<Arc<Self>> {
        if name.is_empty() {
            return Ok(Arc::clone(&SHIPPED));
        }
        let (path, text) = params::own_file("weights", name, "name nothing, or")?;
        Ok(Arc::new(Weights::parse(&text).with_context(|| format!("weights `{path}`"))?))
    }

    /// The text of a file of weights: those that travel with the program, but for the raters that are given by name, and what
    /// these were made of.
    pub fn text_with(
        raters: Vec<(&'static str, serde_json::Value)>,
        manifest: serde_json::Value,
    ) -> anyhow::Result<String> {
        let mut weights: serde_json::Value = serde_json::from_str(TEXT)?;
        for (name, rater) in raters {
            weights[name] = rater;
        }
        weights["manifest"] = manifest;
        Ok(escape::json_line(&weights)? + "\n")
    }

    /// The number of the type, of [`TYPES`], that a statement is taken for, if it matters. A result is one by who says it.
    pub fn kind(&self, statement: &statements::Rated) -> usize {
        match statement.source {
            surface::Source::Tool => TYPES.len() - 1,
            surface::Source::User | surface::Source::Agent => self.types.likeliest(&statement.numbers),
        }
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let weights: Weights = serde_json::from_str(text)?;
        weights.atoms.check(&atoms::names()).context("`atoms`")?;
        weights.statements.check().context("`statements`")?;
        weights.types.check().context("`types`")?;
        weights.goals.check().context("`goals`")?;
        Ok(weights)
    }
}

/// Numbers as they are weighed: each less its mean, in deviations, clipped.
#[derive(Clone, Copy)]
struct Scale<'a> {
    mean: &'a [f32],
    scale: &'a [f32],
    clip: f32,
}

impl Scale<'_> {
    fn check(self, n: usize, weights: &[f32], intercept: f64) -> anyhow::Result<()> {
        let lists = [self.mean, self.scale, weights];
        let sound = lists.iter().all(|list| list.len() == n && list.iter().all(|x| x.is_finite()))
            && self.scale.iter().all(|scale| *scale > 0.0)
            && self.clip > 0.0
            && intercept.is_finite();
        anyhow::ensure!(sound, "weights need {n} numbers of each sort, finite, and scales above 0");
        Ok(())
    }

    fn dot(self, numbers: &[f32], weights: &[f32]) -> f64 {
        let places = self.mean.iter().zip(self.scale).zip(weights);
        let terms = numbers.iter().zip(places).map(|(x, ((mean, scale), weight))| {
            f64::from(*weight) * f64::from(((x - mean) / scale).clamp(-self.clip, self.clip))
        });
        terms.sum()
    }
}

/// Refuses weights of other numbers than those that this program computes.
fn same_names(theirs: &[String], ours: &[String]) -> anyhow::Result<()> {
    anyhow::ensure!(theirs == ours, "weights of other numbers than this program's\nhint: train them again");
    Ok(())
}

impl Linear {
    fn scale(&self) -> Scale<'_> {
        Scale { mean: &self.mean, scale: &self.scale, clip: self.clip }
    }

    fn check(&self, names: &[String]) -> anyhow::Result<()> {
        same_names(&self.names, names)?;
        self.scale().check(names.len(), &self.weights, self.intercept)
    }

    /// The logarithm of the odds of a row of numbers.
    pub fn odds(&self, numbers: &[f32]) -> f64 {
        self.intercept + self.scale().dot(numbers, &self.weights)
    }
}

impl OfStatements {
    fn check(&self) -> anyhow::Result<()> {
        let names = statements::names();
        same_names(&self.names, &names)?;
        self.scale().check(names.len(), &self.weights, self.intercept)?;
        let sound =
            self.buckets == BUCKETS && self.words.0.len() == self.buckets && self.word_step.is_finite();
        anyhow::ensure!(sound, "weights need {} words", BUCKETS);
        Ok(())
    }

    fn scale(&self) -> Scale<'_> {
        Scale { mean: &self.mean, scale: &self.scale, clip: self.clip }
    }

    /// The logarithm of the odds that a statement matters.
    pub fn odds(&self, statement: &statements::Rated) -> f64 {
        let words: i32 = statement.pieces.iter().map(|&at| i32::from(self.words.0[usize::from(at)])).sum();
        let n = libm::sqrt(statement.pieces.len().max(1) as f64);
        let text = self.word_step * f64::from(words) / n;
        self.intercept + self.scale().dot(&statement.numbers, &self.weights) + text
    }
}

impl OfTypes {
    fn check(&self) -> anyhow::Result<()> {
        let sound = self.types == TYPES && [self.weights.len(), self.intercepts.len()] == [TYPES.len(); 2];
        anyhow::ensure!(sound, "weights need the types {}", TYPES.join(", "));
        let each = self.weights.iter().zip(&self.intercepts);
        each.into_iter().try_for_each(|(weights, at)| self.scale().check(statements::N, weights, *at))
    }

    fn scale(&self) -> Scale<'_> {
        Scale { mean: &self.mean, scale: &self.scale, clip: self.clip }
    }

    /// The number of the likeliest type of [`TYPES`].
    fn likeliest(&self, numbers: &[f32]) -> usize {
        let odds = |at: usize| self.intercepts[at] + self.scale().dot(numbers, &self.weights[at]);
        (0..TYPES.len()).max_by(|&a, &b| odds(a).total_cmp(&odds(b)).then(b.cmp(&a))).unwrap_or(0)
    }
}

/// The probability of odds.
pub fn probability(odds: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-odds))
}

#[cfg(test)]
mod tests;
