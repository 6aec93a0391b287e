//! A program of one's own, in any language: asked on its standard input, a line of JSON an event.
//!
//! It is shown the scope as messages of OpenAI, and nothing that came later, and says what stays ([`answer`]). A program that gives no such
//! answer costs its event alone: that is flagged, and the fallback stands in. Its name, its version and a hash of its files
//! stand in the variant ([`pin`]), so that another program is another variant. Source: ours; docs/own.md has the protocol.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toml::Table;

use super::{Entry, Env, Flaw, Scope, Strategy};
use crate::context::Edit;
use crate::params::params;
use crate::programs::messages::{goal, message};
use crate::programs::process::{Failure, Spec, What};
use crate::programs::{self, memo};

mod answer;
#[cfg(test)]
mod tests;

pub(super) const NAME: &str = "command";

pub(super) const ENTRY: Entry = Entry {
    name: NAME,
    summary: "A program of one's own, in any language, asked in lines of JSON.",
    params: Command::PARAMS,
    takes_model: false,
    build: |params| {
        let command = Command::of(params)?;
        programs::check(command.seconds())?;
        Ok(Box::new(command))
    },
};

params! {
    struct Command {
        /// The program and its arguments, as in `["python3", "my.py"]`; found from the folder where trajpress runs.
        command: Vec<String> = [],
        /// Files that its answers depend on, beside those that the command names.
        files: Vec<String> = [],
        /// What it is told of this variant, as it stands here.
        params: Table = {},
        /// Share of the scope's tokens that it is told to keep.
        kept_share: f64 = 0.1 (from 0 to 1),
        /// The newest turns that stay.
        keep_last: u32 = 0,
        /// Seconds for an answer.
        timeout: f64 = 60.0,
        /// Seconds to start and greet; 0 is `timeout`, but 60 at the least.
        start_timeout: f64 = 0.0,
        /// What stands in for an answer that cannot be used: all of the scope, or nothing.
        fallback: Fallback = "drop-all",
        /// Name, version and hash of the program; found out where an experiment is read.
        program: String = "",
        /// Whether it is shown what it left before, too; the program says so.
        recursive: bool = false,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Fallback {
    Full,
    DropAll,
}

/// Events in a row of a session whose answers could not be used.
#[derive(Default)]
struct InARow(u32);

impl Fallback {
    fn name(self) -> &'static str {
        match self {
            Fallback::Full => "full",
            Fallback::DropAll => "drop-all",
        }
    }

    fn edits(self, scope: &Scope<'_>) -> Vec<Edit> {
        match self {
            Fallback::Full => Vec::new(),
            Fallback::DropAll => scope.blocks.clone().map(|block| Edit::Drop { block }).collect(),
        }
    }
}

/// Starts the program of these parameters, and notes in them what it says of itself.
///
/// # Errors
/// There is none, or it does not start.
pub(super) fn pin(params: &mut Table) -> anyhow::Result<()> {
    let command = Command::of(params.clone())?;
    let (program, hello) = programs::greet(&command.spec()?)?;
    anyhow::ensure!(
        hello.better.is_none(),
        "{program} scores, and is no strategy\nhint: `[[scores.programs]]` names those"
    );
    params.insert("program".to_owned(), program.into());
    params.insert("recursive".to_owned(), hello.recursive.into());
    Ok(())
}

impl Strategy for Command {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        if self.command.is_empty() {
            return Ok(self.fallback.edits(scope));
        }
        let spec = self.spec()?;
        let (seed, tokenizer) = (rand::RngExt::random::<u32>(&mut env.rng), env.tokenizer);
        let mut request = self.request(scope, seed);
        let key = memo::key(&self.program, &self.command, &request);
        let read = |line: &str, number| answer::edits(line, number, scope, tokenizer);
        let known = key.as_ref().and_then(memo::known);
        let answer = match known.and_then(|(number, line)| read(&line, number).ok()) {
            Some(edits) => Ok(edits),
            None => programs::ask(
                &spec,
                &self.program,
                |number| {
                    request["event"] = number.into();
                    request
                },
                |line, number| {
                    let edits = read(line, number)?;
                    key.into_iter().for_each(|key| memo::note(key, number, line));
                    Ok(edits)
                },
            )?,
        };
        let in_a_row: &mut InARow = env.state();
        match &answer {
            Ok(_) => in_a_row.0 = 0,
            Err(failure) => {
                in_a_row.0 += 1;
                anyhow::ensure!(!failure.is_given_up(), "{} {failure}", programs::shown(&spec));
                let is_over = in_a_row.0 == programs::GIVEN_UP;
                anyhow::ensure!(!is_over, "{} {}", programs::shown(&spec), programs::given_up(failure));
            }
        }
        Ok(answer.unwrap_or_else(|failure| {
            programs::warn(&spec, &format!("`{}` stands in: {failure}", self.fallback.name()));
            env.work.degenerate.push(flaw(&failure));
            env.work.fallback = Some(self.fallback.name());
            self.fallback.edits(scope)
        }))
    }

    fn is_recursive(&self) -> bool {
        self.recursive
    }

    fn keep_last(&self) -> u32 {
        self.keep_last
    }
}

impl Command {
    fn spec(&self) -> anyhow::Result<Spec> {
        programs::spec(&self.command, &self.files, self.seconds())
    }

    fn seconds(&self) -> [f64; 2] {
        [self.timeout, self.start_timeout]
    }

    /// Without the number that it has for the program.
    fn request(&self, scope: &Scope<'_>, seed: u32) -> Value {
        let blocks = &scope.context.blocks[scope.blocks.clone()];
        let tokens: u64 = blocks.iter().map(|block| u64::from(block.tokens)).sum();
        let messages = (0usize..).zip(blocks).map(|(id, block)| message(scope.log, id, block));
        json!({
            "turn": scope.turn,
            "goal": goal(scope.log, scope.turn),
            "tokens": tokens,
            "budget": (tokens as f64 * self.kept_share).round() as u64,
            "seed": seed,
            "params": self.params,
            "messages": messages.collect::<Vec<Value>>(),
        })
    }
}

fn flaw(failure: &Failure) -> Flaw {
    match failure.what() {
        What::Nothing => Flaw::NoAnswer,
        What::TooLong => Flaw::Longer,
        What::Unusable => Flaw::NotInForm,
    }
}
