//! What a prompt consists of: a step, or what took the place of some.

use crate::context::log::Log;
use crate::text::tokens::Tokenizer;
use crate::trajectory::pairs::Lack;
use crate::trajectory::{Kind, Role};

/// Violations: what stands in the prompt without the other part of its pair.
pub(super) const LACKING: [(Lack, &str); 2] =
    [(Lack::Call, "tool result without its call"), (Lack::Result, "call without its result")];

/// A piece of the context.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Turn that it stands for (the last one, if several).
    pub turn: u32,
    pub tokens: u32,
    pub content: Content,
    /// Whether no event has had it in its scope; of the blocks that an event left, whether that was its first.
    pub fresh: bool,
    /// Its number among all blocks that events of the replay left, from 1; 0 where none has had it.
    pub left: u32,
}

/// What a block holds, and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A whole step, copied.
    Step(u32),
    /// Copied pieces of a step: a message that was shortened, or else a note that quotes them, which is none even if all are there.
    Excerpt { step: u32, pieces: Vec<Piece>, is_message: bool },
    /// A generated text in the place of a step, which stays a message (a masked tool result).
    Placeholder { step: u32, text: String },
    /// A generated text that stands for the scope of an event.
    Generated { text: String },
}

/// A copied span, or its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub span: u32,
    /// End of the copy in the step's text; the span's own end if it is whole.
    pub end: u32,
    pub tokens: u32,
}

impl Piece {
    pub fn whole(log: &Log, span: u32) -> Self {
        let s = log.spans[span as usize];
        Piece { span, end: s.end, tokens: s.tokens }
    }

    /// Its beginning with at most `tokens` tokens; none if nothing fits.
    pub fn cut(self, log: &Log, tokenizer: &Tokenizer, tokens: u32) -> Option<Self> {
        if self.tokens <= tokens {
            return Some(self);
        }
        let start = log.spans[self.span as usize].start;
        let text = self.text(log);
        let (mut fits, mut over) = (0, text.len());
        let mut best = None;
        let beginnings = tokenizer.beginnings(text);
        // Binary search on the byte length: a longer prefix has at least about as many tokens.
        while over - fits > 1 && tokens > 0 {
            let mut mid = (fits + over) / 2;
            while !text.is_char_boundary(mid) {
                mid -= 1;
            }
            if mid <= fits {
                break;
            }
            let n = beginnings.count(mid);
            if n <= tokens {
                fits = mid;
                best = Some(Piece { end: start + mid as u32, tokens: n, ..self });
                if n == tokens {
                    break;
                }
            } else {
                over = mid;
            }
        }
        best
    }

    pub fn is_whole(&self, log: &Log) -> bool {
        self.end == log.spans[self.span as usize].end
    }

    pub fn text<'a>(&self, log: &'a Log) -> &'a str {
        let s = log.spans[self.span as usize];
        &log.trajectory.steps[s.step as usize].text[s.start as usize..self.end as usize]
    }
}

impl Block {
    /// The step that it holds or stands in for as a message; generated text and quotations are none.
    pub fn message(&self) -> Option<u32> {
        match self.content {
            Content::Step(step) | Content::Placeholder { step, .. } => Some(step),
            Content::Excerpt { step, is_message: true, .. } => Some(step),
            Content::Excerpt { .. } | Content::Generated { .. } => None,
        }
    }

    /// The step that it holds as it was logged.
    pub fn step(&self) -> Option<u32> {
        if let Content::Step(step) = self.content { Some(step) } else { None }
    }

    /// The step that it holds, stands in for or quotes.
    pub fn origin(&self) -> Option<u32> {
        match self.content {
            Content::Step(step) | Content::Placeholder { step, .. } | Content::Excerpt { step, .. } => {
                Some(step)
            }
            Content::Generated { .. } => None,
        }
    }

    /// Kind of the step it holds or stands in for; generated text and quotations have none.
    pub fn kind(&self, log: &Log) -> Option<Kind> {
        self.message().map(|step| log.kind(step))
    }

    /// The same as a quotation, which is no message; none where it holds no piece of a step.
    pub(super) fn quoted(self, log: &Log) -> Option<Block> {
        let (step, pieces) = match self.content {
            Content::Step(step) => (step, log.spans_of(step).map(|span| Piece::whole(log, span)).collect()),
            Content::Excerpt { step, pieces, .. } => (step, pieces),
            Content::Placeholder { .. } => return None,
            Content::Generated { .. } => return Some(self),
        };
        let is_empty = pieces.is_empty();
        let content = Content::Excerpt { step, pieces, is_message: false };
        (!is_empty).then_some(Block { content, ..self })
    }

    /// Tokens that are not copied from a step.
    pub fn generated_tokens(&self) -> u32 {
        match self.content {
            Content::Step(_) | Content::Excerpt { .. } => 0,
            Content::Placeholder { .. } | Content::Generated { .. } => self.tokens,
        }
    }

    /// The block as a model reads it in a plain text: under a word for who speaks; generated text has none.
    pub fn said(&self, log: &Log) -> String {
        let speaker = match self.content {
            Content::Generated { .. } => "",
            Content::Step(step) | Content::Placeholder { step, .. } | Content::Excerpt { step, .. } => {
                speaker(log, step)
            }
        };
        format!("{speaker}{}\n", self.text(log))
    }

    /// The text that would be sent.
    pub fn text(&self, log: &Log) -> String {
        match &self.content {
            Content::Step(step) => log.trajectory.steps[*step as usize].text.clone(),
            Content::Excerpt { pieces, .. } => pieces.iter().map(|p| p.text(log)).collect(),
            Content::Placeholder { text, .. } | Content::Generated { text } => text.clone(),
        }
    }
}

/// The word under which a step stands in a plain text, with a colon and a blank.
pub fn speaker(log: &Log, step: u32) -> &'static str {
    match (log.kind(step), log.trajectory.steps[step as usize].role) {
        (Kind::Observation, _) => "Observation: ",
        (Kind::Action, _) => "Action: ",
        (Kind::Thought, _) => "Thought: ",
        (Kind::Compaction, _) => "Summary: ",
        (_, Role::Agent) => "Agent: ",
        (_, Role::System) => "System: ",
        (_, Role::User | Role::Tool) => "User: ",
    }
}

/// A step as a model reads it in a plain text: under the word for who speaks.
pub fn said(log: &Log, step: u32) -> String {
    format!("{}{}\n", speaker(log, step), log.trajectory.steps[step as usize].text)
}
