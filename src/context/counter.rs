//! How a product counts tokens: of a message, of a call, and of what an event put there.

use serde::{Deserialize, Serialize};

use super::forms;
use super::log::Log;
use super::{Block, Content};
use crate::trajectory::Kind;
use crate::trajectory::arguments::arguments_of;

/// How a product counts tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Counter {
    pub by: By,
    /// Characters, or bytes, of a token.
    pub per: Per,
    /// How parts of a token are rounded.
    pub round: Round,
    /// Tokens that each message has more.
    pub each: u32,
    /// Whether the whole prompt is rounded once, and not each message.
    pub whole: bool,
    /// What characters stand around the texts; without those of the text itself.
    pub around: Around,
    /// Whether words and results alone count, and calls nothing.
    pub no_calls: bool,
    /// What a message without anything that counts has, in the same units.
    pub empty: u32,
}

/// Characters, or bytes, of the form that a product counts with the texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Around {
    pub message: u32,
    pub text: u32,
    pub call: u32,
    pub result: u32,
    /// Of a text that an event put there.
    pub made: u32,
    /// Whether such a text stands there twice: in the message, and in what the product notes of it.
    pub made_twice: bool,
    /// How often the id of a call counts, with the call and with its result.
    pub ids: u32,
    /// Whether the name of the tool counts with its result, too.
    pub names: bool,
    /// Whether the word for who speaks counts: `user`, `assistant`, `tool`.
    pub role: bool,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The tokens of the experiment's tokenizer.
    #[default]
    Tokens,
    /// The same for each message, and of a whole prompt what the provider would count, where the log has usage.
    Usage,
    Chars,
    Bytes,
    /// Characters of a text as JSON has it.
    Json,
    /// What Gemini CLI estimates: characters of words, one beyond ASCII for six; of a result those that JSON has.
    Estimate,
    /// Characters of words; of results and arguments those of what Python's `json.dumps` makes of them.
    Dumps,
    /// Characters of words and results; of arguments those of what Python shows of them (`repr`).
    Repr,
}

/// How many characters a token has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Per(pub f64);

impl Default for Per {
    fn default() -> Self {
        Per(4.0)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Round {
    #[default]
    Up,
    Down,
}

impl Counter {
    /// What a text counts, in tokens, characters or bytes.
    fn units(self, text: &str, tokens: u32) -> u64 {
        match self.by {
            By::Tokens | By::Usage => u64::from(tokens),
            By::Chars | By::Dumps | By::Repr => text.chars().count() as u64,
            By::Bytes => text.len() as u64,
            By::Json => forms::json(text),
            By::Estimate => forms::estimated(text),
        }
    }

    pub fn tokens(self, units: u64) -> u64 {
        let units = if units == 0 { u64::from(self.empty) } else { units };
        match (self.by, self.round) {
            (By::Tokens | By::Usage, _) => units,
            (_, Round::Up) => (units as f64 / self.per.0).ceil() as u64,
            (_, Round::Down) => (units as f64 / self.per.0).floor() as u64,
        }
    }

    /// What stands around a block.
    fn around(self, log: &Log, block: &Block) -> u64 {
        let step = block.message().map(|step| &log.trajectory.steps[step as usize]);
        let chars = |text: Option<&str>| text.map_or(0, |text| text.chars().count() as u32);
        let id = || self.around.ids * chars(step.and_then(|step| step.call_id.as_deref()));
        u64::from(match block.kind(log) {
            Some(Kind::Action) => self.around.call + id(),
            Some(Kind::Observation) => {
                let name =
                    if self.around.names { chars(step.and_then(|step| step.tool.as_deref())) } else { 0 };
                self.around.result + id() + name
            }
            None => self.around.made,
            _ => self.around.text,
        })
    }

    /// What stands around a message, once.
    pub fn around_message(self, role: &str) -> u64 {
        u64::from(self.around.message) + if self.around.role { role.len() as u64 } else { 0 }
    }

    /// What a block counts, in tokens, characters or bytes, with what stands around it.
    pub fn of_part(self, log: &Log, block: &Block) -> u64 {
        self.of_block(log, block) + self.around(log, block)
    }

    /// Tokens of the arguments of a call.
    pub fn of_arguments(self, log: &Log, step: u32) -> u64 {
        let arguments = log.trajectory.steps[step as usize].arguments.as_deref().unwrap_or_default();
        match self.by {
            By::Tokens | By::Usage => u64::from(log.tokens[step as usize]),
            By::Dumps => self.tokens(forms::dumps(arguments)),
            By::Repr => self.tokens(forms::repr(arguments)),
            _ => self.tokens(Counter { by: By::Chars, ..self }.units(arguments, 0)),
        }
    }

    /// Tokens of a call, with its name.
    pub fn of_call(self, log: &Log, step: u32) -> u64 {
        let tool = log.trajectory.steps[step as usize].tool.as_deref().unwrap_or_default();
        match self.by {
            By::Tokens | By::Usage => self.of_arguments(log, step),
            _ => self.of_arguments(log, step) + self.tokens(tool.chars().count() as u64),
        }
    }

    /// What an event took of a step that still stands.
    pub fn freed(self, log: &Log, block: &Block) -> u64 {
        let Some(step) = block.message().filter(|_| block.step().is_none()) else { return 0 };
        let (content, tokens) = (Content::Step(step), log.tokens[step as usize]);
        let was = self.of_block(log, &Block { content, tokens, ..block.clone() });
        self.tokens(was).saturating_sub(self.tokens(self.of_block(log, block)))
    }

    fn of_block(self, log: &Log, block: &Block) -> u64 {
        let step = match block.content {
            Content::Step(_) if matches!(self.by, By::Tokens | By::Usage) => return u64::from(block.tokens),
            Content::Step(step) => step,
            Content::Generated { .. } => {
                let times = 1 + u64::from(self.around.made_twice);
                return times * self.units(&block.text(log), block.tokens);
            }
            _ if block.kind(log) == Some(Kind::Observation) => {
                return self.of_result(&block.text(log), block.tokens);
            }
            _ => {
                let text = block.text(log);
                // What a reader of the log is shown of a call has its own form, also where an event clipped its arguments.
                let step = block.message().map(|step| &log.trajectory.steps[step as usize]);
                let call = step.filter(|step| step.kind == Kind::Action && self.counts_arguments());
                let clipped = call.and_then(|step| {
                    let tool = step.tool.as_deref().unwrap_or_default();
                    Some(self.of_named(tool, &arguments_of(tool, step.arguments.as_deref()?, &text)?))
                });
                return clipped.unwrap_or_else(|| self.units(&text, block.tokens));
            }
        };
        let step = &log.trajectory.steps[step as usize];
        match (step.kind, &step.arguments) {
            (Kind::Action, _) if self.no_calls => 0,
            (Kind::Observation, _) => self.of_result(&step.text, block.tokens),
            (Kind::Action, Some(arguments)) => {
                self.of_named(step.tool.as_deref().unwrap_or_default(), arguments)
            }
            _ => self.units(&step.text, block.tokens),
        }
    }

    fn of_result(self, text: &str, tokens: u32) -> u64 {
        match self.by {
            By::Dumps => forms::dumped(text),
            By::Estimate => forms::json(text),
            _ => self.units(text, tokens),
        }
    }

    /// Whether a call is counted by its arguments as JSON, and not by the text that a reader of the log is shown.
    fn counts_arguments(self) -> bool {
        !self.no_calls && !matches!(self.by, By::Tokens | By::Usage)
    }

    /// What a call with these arguments counts, by characters or bytes.
    fn of_named(self, name: &str, arguments: &str) -> u64 {
        match self.by {
            By::Dumps => name.chars().count() as u64 + forms::dumps(arguments),
            By::Repr => name.chars().count() as u64 + forms::repr(arguments),
            // Arguments are JSON already.
            by => {
                let by = if matches!(by, By::Json | By::Estimate) { By::Chars } else { by };
                let counter = Counter { by, ..self };
                counter.units(name, 0) + counter.units(arguments, 0)
            }
        }
    }
}
