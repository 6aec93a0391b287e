//! The summary of what is beside the set.

use crate::models::prompt::{Data, Prompt};
use crate::strategies::salience::candidates::fresh_steps;
use crate::strategies::salience::set::{Held, Set};
use crate::strategies::writer::summarise;
use crate::strategies::{Env, Scope, extractive};
use crate::text::sentences;

const BACKGROUND: &str = include_str!("../salience/background.txt");

/// What becomes of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Background {
    /// By the model if there is one, else extracted.
    Auto,
    Extractive,
    None,
}

/// What is summarised of all that was not picked, and how.
pub struct Rest<'a> {
    pub how: Background,
    pub tokens: u32,
    pub similarity: f64,
    /// What an earlier event wrote of it.
    pub before: &'a str,
    pub set: &'a Set,
}

impl Rest<'_> {
    /// A summary of what was known of the rest and of the fresh turns without the picked passages, without what the
    /// set says already. `prompt` asks for it, given the text.
    pub fn summary(
        &self,
        scope: &Scope<'_>,
        picked: &[Held],
        env: &mut Env<'_>,
        prompt: impl FnOnce(&str) -> anyhow::Result<Prompt>,
    ) -> anyhow::Result<String> {
        if self.how == Background::None || self.tokens == 0 {
            return Ok(String::new());
        }
        let mut texts = vec![self.before.to_owned()];
        texts.extend(rest(scope, picked));
        texts.retain(|text| !text.trim().is_empty());
        let summary = if self.how == Background::Extractive || texts.is_empty() {
            extractive::summary(&texts, self.tokens, env.tokenizer)
        } else {
            summarise(&texts, self.tokens, env, || prompt(&texts.join("\n")))?
        };
        Ok(without(&summary, self.set, self.similarity))
    }
}

pub(super) fn background_prompt(log: &str, set: &Set) -> anyhow::Result<Prompt> {
    let known: Vec<&str> = set.items.iter().map(|held| held.text.as_str()).collect();
    let known = known.join("\n");
    let vars =
        [("log", Data::fenced(log).may_cut().into()), ("known", Data::fenced(&known).may_cut().into())];
    Ok(Prompt::render(BACKGROUND, &vars)?)
}

/// The texts of the fresh steps without the passages that were picked from them.
pub(super) fn rest(scope: &Scope<'_>, picked: &[Held]) -> Vec<String> {
    let mut texts = Vec::new();
    for step in fresh_steps(scope) {
        let text = &scope.log.trajectory.steps[step as usize].text;
        let mut of_step: Vec<_> =
            picked.iter().filter(|held| held.step == step).map(|held| held.bytes.clone()).collect();
        of_step.sort_by_key(|bytes| bytes.start);
        let (mut rest, mut done) = (String::new(), 0);
        for bytes in of_step {
            rest.push_str(&text[done..(bytes.start as usize).max(done)]);
            done = done.max(bytes.end as usize);
        }
        rest.push_str(&text[done..]);
        texts.push(rest);
    }
    texts
}

/// A summary without the sentences that say what an item of the set says.
fn without(summary: &str, set: &Set, similarity: f64) -> String {
    let mut left = Vec::new();
    for line in summary.lines() {
        let sentences = sentences::statements(line, false);
        let kept: Vec<&str> =
            sentences.into_iter().map(|range| &line[range]).filter(|s| !set.says(s, similarity)).collect();
        if !kept.is_empty() {
            left.push(kept.join(" "));
        }
    }
    left.join("\n")
}
