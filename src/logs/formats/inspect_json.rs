//! Inspect logs in JSON: `{eval, status, samples}`, a run a sample.
//!
//! - The prompts of a sample are those of its calls (`events`), put together by [`prompts`](super::reading::prompts): so edits and
//!   compactions of the context are what was sent. Prompts name messages of a pool; long texts are `attachment://` and
//!   taken from the attachments. A sample without calls is read from its list of messages.
//! - The run is the conversation that this list is of; what stands there behind the last call is added.
//! - Calls of scorers are left out and counted. Other conversations are runs of their own, linked by `parent`.

use super::reading::names::Name;
use super::reading::{List, record};
use super::{Entry, Reading, Runs, Sink};

mod message;
mod sample;

pub(super) const ENTRY: Entry = Entry {
    name: "inspect-json",
    summary: "Inspect evaluation logs in JSON",
    reading: Reading::Document { list: "samples", first: "eval", open },
};

record! {
    struct Log in "inspect" {
        eval: Eval = "eval",
        plan: Plan = "plan",
    }

    struct Eval in "inspect.eval" {
        task: String = "task",
        model: String = "model",
        solver: String = "solver",
    }

    struct Plan in "inspect.plan" {
        steps: List<Step> = "steps",
    }

    struct Step in "inspect.plan.step" {
        solver: Name = "solver",
    }
}

/// What the samples share.
pub(super) fn open(bytes: &[u8]) -> anyhow::Result<Box<dyn Runs>> {
    Ok(Box::new(serde_json::from_slice::<Log>(bytes)?))
}

impl Runs for Log {
    fn run(&self, bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
        sample::finish(serde_json::from_slice(bytes)?, self, bytes.len(), sink);
        Ok(())
    }
}

impl Log {
    fn task(&self) -> Option<&str> {
        self.eval.as_ref()?.task.as_deref()
    }

    fn model(&self) -> Option<String> {
        self.eval.as_ref()?.model.clone()
    }

    /// The solver, as the evaluation names it, or the last step of its plan.
    fn agent(&self) -> Option<String> {
        let named = self.eval.as_ref().and_then(|eval| eval.solver.clone());
        named.or_else(|| {
            self.plan.as_ref()?.steps.as_ref()?.0.last()?.solver.as_ref().map(|solver| solver.0.clone())
        })
    }
}

#[cfg(test)]
mod tests;
