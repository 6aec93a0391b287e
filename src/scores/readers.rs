//! The models that read a context for a score: whose likelihoods and vectors are compared.
//!
//! They are named by the experiment (`[scores]`), not by a variant, and are the same for all of them. What `full` and
//! `drop-all` leave is the same for all variants with the same scopes, and so is asked once: the call cache has the rest.

use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use anyhow::Context as _;

use crate::models::{self, Answer, Call, Model, Scores};

/// Models that read what is left, for the scores that need one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Named {
    /// Their likelihoods tell what a context is worth.
    pub scorers: Vec<String>,
    /// Its vectors tell what means the same.
    pub embedder: Option<String>,
    /// Which of the scorers are asked for which of [`ASKED`](Self::ASKED); empty: all for all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ask: BTreeMap<String, Vec<String>>,
}

impl Named {
    /// What a scorer can be asked for: what the next calls cost, annotated questions, ratings, and what became of
    /// constraints.
    pub const ASKED: &[&str] = &["likelihood", "probes", "judge", "outcomes"];

    pub fn is_empty(&self) -> bool {
        self.names().next().is_none()
    }

    /// The names of all of them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.scorers.iter().chain(&self.embedder).map(String::as_str)
    }
}

/// The models of an experiment that read.
#[derive(Default)]
pub struct Readers {
    /// By name, in the order of the experiment, or in that of what is asked.
    pub(super) scorers: Vec<Scorer>,
    pub(super) embedder: Option<Arc<dyn Model>>,
    /// Which of the scorers are asked for what; empty: all for all.
    ask: BTreeMap<String, Vec<String>>,
}

impl Readers {
    /// # Errors
    /// A model that was not opened.
    pub fn open(named: &Named, models: &HashMap<String, Arc<dyn Model>>) -> anyhow::Result<Self> {
        let opened = |name: &String| {
            models.get(name).cloned().with_context(|| format!("model `{name}` of `[scores]` was not opened"))
        };
        let scorers = named.scorers.iter().map(|name| Ok((name.clone(), opened(name)?)));
        Ok(Readers {
            scorers: scorers.collect::<anyhow::Result<_>>()?,
            embedder: named.embedder.as_ref().map(opened).transpose()?,
            ask: named.ask.clone(),
        })
    }

    /// The scorers that are asked for this.
    pub(super) fn asked(&self, what: &str) -> Vec<Scorer> {
        debug_assert!(Named::ASKED.contains(&what));
        if self.ask.is_empty() {
            return self.scorers.clone();
        }
        let named = self.ask.get(what).into_iter().flatten();
        named.filter_map(|name| self.scorers.iter().find(|scorer| scorer.0 == *name)).cloned().collect()
    }
}

/// A model by its name.
pub(super) type Scorer = (String, Arc<dyn Model>);

/// The strata of a scorer's rows: of several the first has the plain one, and each has one with its name.
pub(super) fn strata(scorers: &[Scorer], number: usize, plain: &str) -> Vec<String> {
    let named = format!("{plain}{}scorer={}", if plain.is_empty() { "" } else { " " }, scorers[number].0);
    let has_plain = (number == 0).then(|| plain.to_owned());
    has_plain.into_iter().chain((scorers.len() > 1).then_some(named)).collect()
}

/// The likelihoods that a model gives; none for a call that it could not answer.
///
/// # Errors
/// It answers nothing any more.
pub(super) fn scored(model: &dyn Model, calls: &[Call]) -> anyhow::Result<Vec<Option<Scores>>> {
    let scores = |outcome| match outcome {
        Ok(Answer::Scores(scores)) => Some(scores),
        _ => None,
    };
    Ok(models::ask(model, calls)?.into_iter().map(scores).collect())
}

/// The unit vectors of some texts; none for one that could not be read.
///
/// # Errors
/// The model answers nothing any more.
pub(super) fn embedded(model: &dyn Model, texts: &[String]) -> anyhow::Result<Vec<Option<Vec<f32>>>> {
    let calls: Vec<Call> = texts.iter().map(|text| Call::Embed { text: text.clone() }).collect();
    let vector = |outcome| match outcome {
        Ok(Answer::Vector { values, .. }) => Some(values),
        _ => None,
    };
    Ok(models::ask(model, &calls)?.into_iter().map(vector).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    impl Readers {
        pub(in super::super) fn asking(self, what: &[&str]) -> Self {
            let all: Vec<String> = self.scorers.iter().map(|scorer| scorer.0.clone()).collect();
            Readers { ask: what.iter().map(|what| ((*what).to_owned(), all.clone())).collect(), ..self }
        }
    }
    use crate::models::scripted::Scripted;
    use crate::models::{Card, TokenScore};

    /// A reader that knows what it has read: a word that stood before costs 1 nat, another 5. Its vectors are bags of
    /// words.
    pub(in super::super) fn reader() -> Readers {
        let card = |name: &str| Card { name: name.to_owned(), identity: name.to_owned(), window: 4096 };
        let said = |before: &str, text: &str| -> Vec<TokenScore> {
            let known: Vec<&str> = before.split_whitespace().collect();
            let cost = |word: &str| if known.contains(&word) { -1.0 } else { -5.0 };
            let end = |word: &str| (word.as_ptr() as usize - text.as_ptr() as usize + word.len()) as u32;
            text.split_whitespace().map(|word| TokenScore { end: end(word), logprob: cost(word) }).collect()
        };
        let scorer = Scripted::rule(card("words"), move |call| {
            let Call::Score { prompt, continuations } = call else { return None };
            let mut before = prompt.system.clone();
            let mut parts = Vec::new();
            for part in &prompt.parts {
                if part.scored {
                    parts.push(said(&before, &part.text));
                }
                before.push_str(&part.text);
            }
            let continuations = continuations.iter().map(|text| said(&before, text)).collect();
            Some(Ok(Answer::Scores(Scores { parts, continuations, prompt_tokens: 9, cut_tokens: 0 })))
        });
        let embedder = Scripted::rule(card("bags"), |call| {
            let Call::Embed { text } = call else { return None };
            let mut values = vec![0f32; 256];
            for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
                values[blake3::hash(word.to_lowercase().as_bytes()).as_bytes()[0] as usize] += 1.0;
            }
            let norm = values.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-9);
            values.iter_mut().for_each(|x| *x /= norm);
            Some(Ok(Answer::Vector { values, cut_tokens: 0 }))
        });
        Readers {
            scorers: vec![("words".to_owned(), Arc::new(scorer))],
            embedder: Some(Arc::new(embedder)),
            ask: BTreeMap::new(),
        }
    }
}
