//! A program of one's own, in any language: asked on its standard input, a line of JSON an event.
//!
//! It is shown the scope as messages of OpenAI, and nothing that came later, and says what stays ([`answer`]). A program that gives no such
//! answer costs its event alone: that is flagged, and the fallback stands in. Its name, its version and a hash of its files
//! stand in the variant ([`pin`]), so that another program is another variant. Source: ours; docs/experiments.md has the protocol.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toml::Table;

use super::{Entry, Env, Flaw, Scope, Strategy};
use crate::context::log::Log;
use crate::context::{Block, Content, Edit};
use crate::params::params;
use crate::trajectory::{Kind, Role};

mod answer;
pub mod process;
#[cfg(test)]
mod tests;

use process::{Failure, Spec};

pub(super) const NAME: &str = "command";

pub(super) const ENTRY: Entry = Entry {
    name: NAME,
    summary: "A program of one's own, in any language, asked in lines of JSON.",
    params: Command::PARAMS,
    takes_model: false,
    build: |params| {
        let command = Command::of(params)?;
        anyhow::ensure!(
            command.timeout > 0.0 && command.timeout <= 86400.0,
            "parameter `timeout` must be above 0 and at most a day"
        );
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
        /// Seconds for an answer, and to start.
        timeout: f64 = 60.0,
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
    anyhow::ensure!(
        !command.command.is_empty(),
        "no program\nhint: add `command = [\"python3\", \"my.py\"]`"
    );
    let spec = command.spec();
    let process =
        process::take(&spec).map_err(|failure| anyhow::anyhow!("the program does not start: {failure}"))?;
    params.insert("program".to_owned(), process.program.clone().into());
    params.insert("recursive".to_owned(), process.hello.recursive.into());
    process::put(&spec, process);
    Ok(())
}

/// Answers in a row that could not be used, by program.
static FAILED: LazyLock<Mutex<HashMap<Spec, u32>>> = LazyLock::new(Mutex::default);
/// Of so many it is given up: more would each take as long as it is waited for.
const GIVEN_UP: u32 = 5;

impl Strategy for Command {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        if self.command.is_empty() {
            return Ok(self.fallback.edits(scope));
        }
        let spec = self.spec();
        let failed = |change: &dyn Fn(u32) -> u32| {
            let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
            let n = failed.entry(spec.clone()).or_default();
            *n = change(*n);
            *n
        };
        let n = failed(&|n| n);
        anyhow::ensure!(
            n < GIVEN_UP,
            "{} was given up: {GIVEN_UP} answers in a row could not be used",
            self.shown()
        );
        match self.ask(&spec, scope, env)? {
            Ok(edits) => {
                failed(&|_| 0);
                Ok(edits)
            }
            Err(failure) => {
                failed(&|n| n + 1);
                tracing::warn!("{}: {failure}; `{}` stands in", self.shown(), self.fallback.name());
                env.work.degenerate.push(failure.flaw());
                env.work.fallback = Some(self.fallback.name());
                Ok(self.fallback.edits(scope))
            }
        }
    }

    fn is_recursive(&self) -> bool {
        self.recursive
    }

    fn keep_last(&self) -> u32 {
        self.keep_last
    }
}

impl Command {
    fn spec(&self) -> Spec {
        let timeout = Duration::from_secs_f64(self.timeout);
        Spec { command: self.command.clone(), files: self.files.clone(), timeout }
    }

    fn shown(&self) -> String {
        format!("program `{}`", self.command.join(" "))
    }

    /// What the program makes of the scope.
    ///
    /// # Errors
    /// It is another one than when the experiment was read.
    fn ask(
        &self,
        spec: &Spec,
        scope: &Scope<'_>,
        env: &mut Env<'_>,
    ) -> anyhow::Result<Result<Vec<Edit>, Failure>> {
        let mut process = match process::take(spec) {
            Ok(process) => process,
            Err(failure) => return Ok(Err(failure)),
        };
        let now = process.now(spec).context("the files of the program cannot be read any more")?;
        anyhow::ensure!(
            self.program.is_empty() || now == self.program,
            "{} has changed: it is {now} now, and was {} when the experiment was read\nhint: start the run again",
            self.shown(),
            self.program
        );
        let number = process.next_number();
        let request = self.request(number, scope, env);
        Ok(process.ask(&request, spec.timeout).and_then(|line| {
            let edits = answer::edits(&line, number, scope).map_err(|why| process.unusable(&line, &why))?;
            process::put(spec, process);
            Ok(edits)
        }))
    }

    fn request(&self, number: u64, scope: &Scope<'_>, env: &mut Env<'_>) -> Value {
        let blocks = &scope.context.blocks[scope.blocks.clone()];
        let tokens: u64 = blocks.iter().map(|block| u64::from(block.tokens)).sum();
        let messages = (0usize..).zip(blocks).map(|(id, block)| message(scope.log, id, block));
        json!({
            "event": number,
            "turn": scope.turn,
            "goal": goal(scope),
            "tokens": tokens,
            "budget": (tokens as f64 * self.kept_share).round() as u64,
            "seed": rand::RngExt::random::<u32>(&mut env.rng),
            "params": self.params,
            "messages": messages.collect::<Vec<Value>>(),
        })
    }
}

/// The first words of the user, if they stand before the event.
fn goal<'a>(scope: &Scope<'a>) -> Option<&'a str> {
    let until = scope.log.turns.get(scope.turn as usize).and_then(|turn| turn.decision)?;
    let steps = &scope.log.trajectory.steps[..until as usize];
    let is_goal = |step: &&crate::trajectory::Step| step.kind == Kind::Message && step.role == Role::User;
    steps.iter().find(is_goal).map(|step| step.text.as_str())
}

/// A block as a message of OpenAI, with keys of our own.
fn message(log: &Log, id: usize, block: &Block) -> Value {
    let (kind, step) = match block.content {
        Content::Generated { .. } => ("generated", None),
        Content::Excerpt { .. } => ("excerpt", None),
        Content::Step(step) | Content::Placeholder { step, .. } => (log.kind(step).name(), Some(step)),
    };
    let role = match step.map(|step| (log.kind(step), log.trajectory.steps[step as usize].role)) {
        Some((Kind::Observation, _)) => "tool",
        Some((_, Role::Agent)) => "assistant",
        Some((_, Role::System)) => "system",
        _ => "user",
    };
    let mut message = json!({
        "id": id.to_string(), "role": role, "content": block.text(log),
        "kind": kind, "turn": block.turn, "tokens": block.tokens,
    });
    let Some(step) = step else { return message };
    let logged = &log.trajectory.steps[step as usize];
    let call = |step: u32| format!("call_{step}");
    match logged.kind {
        Kind::Action => {
            let function = json!({
                "name": logged.tool.as_deref().unwrap_or_default(),
                "arguments": logged.arguments.as_deref().unwrap_or(&logged.text),
            });
            message["tool_calls"] = json!([{"id": call(step), "type": "function", "function": function}]);
        }
        Kind::Observation => message["tool_call_id"] = json!(log.call_of(step).map(call)),
        _ => {}
    }
    message
}
