//! What could be kept: the statements of the fresh steps, with where they stand and who made them.

use std::ops::Range;

use crate::context::Content;
use crate::features::sentences;
use crate::log::Log;
use crate::strategies::Scope;
use crate::trajectory::{Kind, Role};

/// Who made a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    User,
    Agent,
    Tool,
}

/// A statement that could be kept.
#[derive(Clone, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) step: u32,
    /// Bytes of the step's text.
    pub(crate) bytes: Range<u32>,
    pub(crate) text: &'a str,
    pub(crate) source: Source,
}

/// The steps of the scope that stand whole in the context and were not compressed before.
pub(crate) fn fresh_steps(scope: &Scope<'_>) -> Vec<u32> {
    let blocks = &scope.context.blocks[scope.blocks.clone()];
    blocks
        .iter()
        .filter(|block| block.turn >= scope.fresh)
        .filter_map(|block| match block.content {
            Content::Step(step) => Some(step),
            _ => None,
        })
        .collect()
}

/// The statements of some steps, in order. Calls are left out: their text is code, and their results follow.
pub(crate) fn candidates<'a>(log: &'a Log, steps: &[u32]) -> Vec<Candidate<'a>> {
    let mut found = Vec::new();
    for &step in steps {
        let logged = &log.trajectory.steps[step as usize];
        let source = match (logged.kind, logged.role) {
            (Kind::Observation, _) | (_, Role::Tool) => Source::Tool,
            (Kind::Message, Role::User) => Source::User,
            (Kind::Message | Kind::Thought, Role::Agent) => Source::Agent,
            _ => continue,
        };
        for range in sentences::statements(&logged.text, source != Source::Tool) {
            let bytes = range.start as u32..range.end as u32;
            found.push(Candidate { step, bytes, text: &logged.text[range], source });
        }
    }
    found
}
