//! A hand-off summary of all but the last turns, which stay as they were.
//!
//! Strategy B as the seeds' comparison has it: system prompt, summary, last 3 turns.

use super::codex::handoff;
use super::writer::check_tokens;
use super::{Entry, Env, Scope, Strategy, put};
use crate::context::Edit;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "codex-tail",
    summary: "Put a hand-off summary in the place of all but the last turns.",
    params: CodexTail::PARAMS,
    takes_model: true,
    build: |params| {
        let codex = CodexTail::of(params)?;
        check_tokens("max_tokens", codex.max_tokens)?;
        Ok(Box::new(codex))
    },
};

params! {
    struct CodexTail {
        /// Tokens of the summary at most.
        max_tokens: u32 = 400,
        /// How many of the newest turns stay.
        keep_last: u32 = 3,
    }
}

impl Strategy for CodexTail {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        Ok(put(scope, handoff(scope, self.max_tokens, env)?))
    }

    fn is_recursive(&self) -> bool {
        true
    }

    fn keep_last(&self) -> u32 {
        self.keep_last
    }
}
