//! What could be kept: the statements of the fresh steps, with where they stand and who made them.

use std::ops::Range;

use crate::context::Content;
use crate::context::log::Log;
pub(crate) use crate::learn::statements::Source;
use crate::strategies::Scope;
use crate::text::sentences;
use crate::trajectory::{Kind, Role};

/// What a kept statement is taken for, as in `learn::TYPES`. The order is that in which they are given up: the last first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ItemKind {
    Goal,
    Constraint,
    Decision,
    Fact,
    ToolOutput,
}

impl ItemKind {
    pub(crate) const ALL: [ItemKind; 5] =
        [ItemKind::Goal, ItemKind::Constraint, ItemKind::Decision, ItemKind::Fact, ItemKind::ToolOutput];

    pub(crate) fn name(self) -> &'static str {
        crate::learn::TYPES[self as usize]
    }
}

/// A statement's probability to matter, and what it is taken for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rating {
    pub(crate) score: f64,
    pub(crate) kind: ItemKind,
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

/// The statements of some steps, in order. Calls are left out: their text is code, and their results follow. What a user
/// puts between fences was pasted, code or output, and counts as a tool's: it asks for nothing.
pub(crate) fn candidates<'a>(log: &'a Log, steps: &[u32]) -> Vec<Candidate<'a>> {
    let mut found = Vec::new();
    for &step in steps {
        let logged = &log.trajectory.steps[step as usize];
        let source = match (logged.kind, logged.role) {
            // An answer or a refusal in a tool's result is the user's.
            (Kind::Message | Kind::Observation, Role::User) => Source::User,
            (Kind::Observation, _) | (_, Role::Tool) => Source::Tool,
            (Kind::Message | Kind::Thought, Role::Agent) => Source::Agent,
            _ => continue,
        };
        let pasted = if source == Source::User { fenced(&logged.text) } else { Vec::new() };
        for range in sentences::statements(&logged.text, source != Source::Tool) {
            let at = pasted.partition_point(|part| part.end <= range.start);
            let is_pasted = pasted.get(at).is_some_and(|part| part.contains(&range.start));
            let source = if is_pasted { Source::Tool } else { source };
            let bytes = range.start as u32..range.end as u32;
            found.push(Candidate { step, bytes, text: &logged.text[range], source });
        }
    }
    found
}

/// The parts of a text between lines that begin with three backticks; one without an end goes on to the end.
fn fenced(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut start, mut open) = (0, None);
    for line in text.split_inclusive('\n') {
        let from = start;
        start += line.len();
        // What begins and ends in one line opens nothing.
        if line.trim_start().strip_prefix("```").is_none_or(|rest| rest.contains("```")) {
            continue;
        }
        open = match open {
            Some(opened) => {
                found.push(opened..from);
                None
            }
            None => Some(start),
        };
    }
    found.extend(open.map(|opened| opened..text.len()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_pastes_between_fences_is_no_word_of_theirs() {
        let log = Log::script(
            "user: The total must not be negative.~```python~assert x >= 0, \"x must not be negative\"~    # it must not be empty~```~Do not touch it.~```one line```~Only mend the test.
             agent: ```~assert x~```",
        );
        let all = candidates(&log, &[0, 1]);
        let pasted: Vec<(&str, Source)> = all.iter().map(|c| (c.text, c.source)).collect();
        assert_eq!(
            pasted,
            [
                ("The total must not be negative.", Source::User),
                ("assert x >= 0, \"x must not be negative\"", Source::Tool),
                ("it must not be empty", Source::Tool),
                ("Do not touch it.", Source::User),
                ("Only mend the test.", Source::User),
                ("assert x", Source::Agent),
            ]
        );
    }

    #[test]
    fn fences_end_or_go_on_to_the_end() {
        assert_eq!(fenced("a\n```\nb\n```\nc\n  ```x\nd"), [6..8, 21..22]);
        assert!(fenced("``` a ```\nb").is_empty() && fenced("").is_empty());
        assert_eq!(fenced("```"), [3..3]);
    }
}
