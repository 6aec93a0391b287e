//! The texts of prompts, as they are or with placeholders for secrets and personal data.
//!
//! Redacted is by what the whole log tells: a key is found where it is named, and goes where it stands alone, too, or in part.

use std::collections::HashMap;

use crate::context::log::Log;
use crate::context::{Block, Content};
pub use crate::text::redact::Searched;
use crate::text::redact::{Mark, Tally, marked, marks};
use crate::trajectory::Step;

use super::camera::Shot;

/// See the head of this file.
pub struct Words<'a> {
    log: &'a Log,
    /// By step, of its text and of its arguments; empty where nothing is redacted.
    steps: Vec<[Vec<Mark>; 2]>,
    /// Of the task's name.
    task: Vec<Mark>,
    /// Of texts that are not the log's.
    made: HashMap<String, Vec<Mark>>,
    pub found: Tally,
}

impl<'a> Words<'a> {
    /// All as it is.
    pub fn raw(log: &'a Log) -> Self {
        Words { log, steps: Vec::new(), task: Vec::new(), made: HashMap::new(), found: Tally::new() }
    }

    /// The texts of these prompts, redacted; placeholders are those that `redact` gives the log.
    pub fn redacted(log: &'a Log, shots: &[Shot]) -> Self {
        Words::found_by(log, shots, marks)
    }

    /// The same of a log that may be redacted more than once.
    pub fn searched(log: &'a Log, shots: &[Shot], searched: &Searched) -> Self {
        Words::found_by(log, shots, |texts| searched.marks(texts))
    }

    fn found_by(log: &'a Log, shots: &[Shot], marks: impl Fn(&[&str]) -> (Vec<Vec<Mark>>, Tally)) -> Self {
        let made = shots.iter().flat_map(|shot| &shot.blocks).filter_map(|block| match &block.content {
            Content::Placeholder { text, .. } | Content::Generated { text } => Some(text.as_str()),
            Content::Step(_) | Content::Excerpt { .. } => None,
        });
        let mut seen = std::collections::HashSet::new();
        let made: Vec<&str> = made.filter(|text| seen.insert(*text)).collect();
        let steps = &log.trajectory.steps;
        let both = |step: &'a Step| [step.text.as_str(), step.arguments.as_deref().unwrap_or_default()];
        let mut texts: Vec<&str> = steps.iter().flat_map(both).collect();
        texts.push(log.trajectory.task_id.as_deref().unwrap_or_default());
        texts.extend(&made);
        let (all, found) = marks(&texts);
        let mut all = all.into_iter();
        let mut next = || all.next().unwrap_or_default();
        Words {
            log,
            steps: steps.iter().map(|_| [next(), next()]).collect(),
            task: next(),
            made: made.into_iter().map(|text| (text.to_owned(), next())).collect(),
            found,
        }
    }

    /// What of a step is redacted: of its text (0) or its arguments (1).
    fn marks(&self, step: u32, part: usize) -> &[Mark] {
        self.steps.get(step as usize).map_or(&[], |both| &both[part])
    }

    /// The text of a block as it would be sent.
    pub fn text(&self, block: &Block) -> String {
        let of_step = |step: u32, range| {
            marked(&self.log.trajectory.steps[step as usize].text, range, self.marks(step, 0))
        };
        match &block.content {
            Content::Step(step) => self.step(*step),
            Content::Excerpt { step, pieces, .. } => {
                let start = |span: u32| self.log.spans[span as usize].start as usize;
                pieces.iter().map(|piece| of_step(*step, start(piece.span)..piece.end as usize)).collect()
            }
            Content::Placeholder { text, .. } | Content::Generated { text } => {
                marked(text, 0..text.len(), self.made.get(text).map_or(&[], Vec::as_slice))
            }
        }
    }

    /// The text of a step.
    pub fn step(&self, step: u32) -> String {
        let text = &self.log.trajectory.steps[step as usize].text;
        marked(text, 0..text.len(), self.marks(step, 0))
    }

    /// The arguments of a call as they were logged.
    pub fn arguments(&self, step: u32) -> Option<String> {
        let arguments = self.log.trajectory.steps[step as usize].arguments.as_deref()?;
        Some(marked(arguments, 0..arguments.len(), self.marks(step, 1)))
    }

    pub fn task(&self) -> Option<String> {
        let task = self.log.trajectory.task_id.as_deref()?;
        Some(marked(task, 0..task.len(), &self.task))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Piece;

    #[test]
    fn what_the_log_tells_is_secret_wherever_it_stands() {
        let key = "kD83nfQz71LmWx02PvRt";
        let log = Log::script(&format!("user: api_key = \"{key}\"\naction: login {key}\nobservation: {key}"));
        let whole = |content| Block { turn: 0, tokens: 9, content, fresh: false, left: 0 };
        let piece = Piece { end: 9, ..Piece::whole(&log, log.spans_of(2).start) };
        let blocks: Vec<Block> = vec![
            whole(Content::Step(2)),
            whole(Content::Excerpt { step: 2, pieces: vec![piece], is_message: false }),
            whole(Content::Generated { text: format!("It logs in with {key}.") }),
        ];
        // The step that names the key stands in no prompt.
        let shots = [Shot { event: None, blocks }];
        let name = "<generic-api-key-1>";
        let told = |words: &Words<'_>| shots[0].blocks.iter().map(|b| words.text(b)).collect::<Vec<_>>();
        let redacted = Words::redacted(&log, &shots);
        assert_eq!(told(&redacted), [name.to_owned(), name.to_owned(), format!("It logs in with {name}.")]);
        assert_eq!(told(&Words::raw(&log))[1], key[..9]);
        assert_eq!(redacted.found["generic-api-key"][1], 1);
    }
}
