//! What the model answered, as thought and action.

use crate::logs::formats::Losses;
use crate::logs::formats::reading::content::ToolCalls;
use crate::logs::formats::reading::fields::Rest;
use crate::logs::formats::reading::{Content, Draft};

use super::{Message, TrajStep};
use super::{masking, texts};

/// What the environment said to a call, as the history has it.
pub(super) struct Answer {
    pub(super) content: Content,
    /// What else came before the next reply.
    pub(super) more: Vec<Content>,
    pub(super) tags: Vec<String>,
}

/// The text of an observation as the model got it, with the size that a marker tells of it and the tags it bears: the
/// history's, and without an entry there the bare one.
pub(super) fn said(
    bare: Content,
    answer: Option<Answer>,
    draft: &mut Draft,
) -> (String, (masking::Size, Vec<String>)) {
    let Some(answer) = answer else {
        let text = bare.into_text(&mut draft.losses);
        let size = masking::Size::of_text(&text);
        return (text, (size, Vec::new()));
    };
    let size = masking::Size::of(Some(&answer.content));
    let mut text = answer.content.into_text(&mut draft.losses);
    let bare = bare.into_text(&mut Losses::default());
    if !bare.trim().is_empty() && !stands_in(bare.trim(), &text) {
        draft.losses.add("observation that the history words otherwise, taken from there");
    }
    for more in answer.more {
        text.push('\n');
        text.push_str(&more.into_text(&mut draft.losses));
    }
    (text, (size, answer.tags))
}

/// A reply in the history, with what came after it.
#[derive(Default)]
pub(super) struct Replied {
    pub(super) action: String,
    /// Its thought and its text.
    pub(super) said: Vec<String>,
    pub(super) tool_calls: Option<ToolCalls>,
    pub(super) rest: Rest,
    pub(super) answer: Option<Answer>,
    /// It is missing: only its answer is there.
    pub(super) is_missing: bool,
}

impl Replied {
    pub(super) fn of(entry: Message) -> Self {
        let content = entry.content.unwrap_or_default();
        Replied {
            said: entry.thought.into_iter().chain([texts(&content).join("\n")]).collect(),
            action: entry.action.unwrap_or_default(),
            tool_calls: entry.tool_calls,
            rest: entry.rest,
            ..Replied::default()
        }
    }

    /// How well it fits a step of which this was seen: not at all without its command, the better the more of its words
    /// are the step's. `answer` is the text of its own.
    pub(super) fn fit(&self, answer: &str, step: &TrajStep, seen: &str) -> u32 {
        if step.action.as_deref().unwrap_or("") != self.action {
            return 0;
        }
        let is = |text: &String| !text.trim().is_empty() && self.said.iter().any(|s| s.trim() == text.trim());
        let is_said = [&step.thought, &step.response].into_iter().flatten().any(is);
        1 + 2 * u32::from(is_said) + 2 * u32::from(stands_in(seen, answer))
    }

    pub(super) fn answer_text(&self) -> String {
        self.answer.as_ref().map_or(String::new(), |answer| texts(&answer.content).join("\n"))
    }

    /// The answers behind its own that are those of the next step, whose reply is missing.
    pub(super) fn split_off(&mut self, next: &TrajStep) -> Option<Self> {
        let more = &mut self.answer.as_mut()?.more;
        let at = more.iter().position(|content| holds(content, next))?;
        let mut more = more.split_off(at);
        let answer = Answer { content: more.remove(0), more, tags: Vec::new() };
        Some(Replied { answer: Some(answer), is_missing: true, ..Replied::default() })
    }
}

/// Whether the observation of a step stands there; one without words tells nothing.
fn holds(content: &Content, step: &TrajStep) -> bool {
    stands_in(&seen(step), &texts(content).join("\n"))
}

fn stands_in(bare: &str, text: &str) -> bool {
    // Mostly it stands first, and a search is made ready by reading all of what is looked for.
    !bare.is_empty() && text.len() >= bare.len() && (text.starts_with(bare) || text.contains(bare))
}

/// The words of a step's observation.
pub(super) fn seen(step: &TrajStep) -> String {
    step.observation.as_ref().map_or(String::new(), |o| texts(o).join("\n").trim().to_owned())
}
