//! What the user had typed, and where it stands no more.

use std::collections::HashMap;
use std::ops::Range;

use crate::context::log::Log;
use crate::text::runs::{Runs, words};
use crate::text::sentences::statements;
use crate::trajectory::{Kind, Role};

/// Shorter sentences say little (`go on`, `thanks`).
const LEAST: usize = 5;

/// How Claude Code begins the first message of a session that carries out a plan: the model had written it.
const OF_MODEL: &str = "Implement the following plan:";

/// A sentence of the user.
pub struct Words {
    pub turn: u32,
    pub text: String,
}

/// What a session's user had typed, read once for all its compactions.
pub(super) struct Typed<'a> {
    log: &'a Log,
    /// The texts of all steps.
    sources: &'a Runs,
    /// How often each sentence was said.
    said: HashMap<Vec<u64>, u32>,
}

impl<'a> Typed<'a> {
    pub(super) fn of(log: &'a Log, sources: &'a Runs) -> Self {
        let mut typed = Typed { log, sources, said: HashMap::new() };
        let mut said: HashMap<Vec<u64>, u32> = HashMap::new();
        for (_, sentence) in typed.sentences(0..log.n_steps() as u32) {
            *said.entry(words(sentence)).or_default() += 1;
        }
        typed.said = said;
        typed
    }

    /// Sentences of the user among `steps` that go, and stand word for word neither in the summary, nor in what stays, nor in what is
    /// logged until the next compaction. What was said more than once is left out.
    pub(super) fn gone(
        &self,
        steps: Range<u32>,
        until: u32,
        (goes, is_gone): (&dyn Fn(u32) -> bool, &dyn Fn(u32) -> bool),
        summary: &str,
    ) -> Vec<Words> {
        let summary = Runs::new([summary]);
        let stands = |step: u32| step < until && (step >= steps.end || !is_gone(step));
        let mut found = Vec::new();
        for (step, sentence) in self.sentences(steps.clone()).filter(|(step, _)| goes(*step)) {
            let of = words(sentence);
            // A tag is what a harness put there, and an image says nothing.
            if !sentence.starts_with('<')
                && !sentence.starts_with("[image ")
                && of.len() >= LEAST
                && self.said.get(&of) == Some(&1)
                && !summary.hold(&of)
                && !self.sources.texts_with(&of).any(|step| stands(step as u32))
            {
                found.push(Words { turn: self.log.turn_of(step), text: sentence.to_owned() });
            }
        }
        found
    }

    /// What the user typed among these steps: step and sentence.
    fn sentences(&self, steps: Range<u32>) -> impl Iterator<Item = (u32, &'a str)> + use<'a> {
        let log = self.log;
        let typed = steps.filter(move |&step| {
            let step = &log.trajectory.steps[step as usize];
            step.role == Role::User && step.kind == Kind::Message && !step.text.starts_with(OF_MODEL)
        });
        typed.flat_map(move |step| {
            let text = log.trajectory.steps[step as usize].text.as_str();
            statements(text, true).into_iter().map(move |range| (step, &text[range]))
        })
    }
}
