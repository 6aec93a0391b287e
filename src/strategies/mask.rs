//! Replaces the text of old observations by a one-line placeholder that says what was left out.
//!
//! Thoughts and actions stay as they were. An observation that is no longer than its placeholder stays.
//!
//! Source: Lindenbauer et al., "The Complexity Trap" (arXiv 2508.21433), with M = 10; the wording
//! of the placeholder is SWE-agent's.

use super::{Entry, Env, Scope, Strategy};
use crate::context::{Content, Edit};
use crate::trajectory::Kind;

pub(super) const ENTRY: Entry = Entry {
    name: "mask",
    summary: "Keep the last turns' observations and mask the older ones.",
    params: &[("keep_last", "10")],
    takes_model: false,
    build: |params| Ok(Box::new(params.try_into::<Mask>()?)),
};

#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Mask {
    /// How many of the newest turns keep their observations.
    keep_last: u32,
}

impl Default for Mask {
    fn default() -> Self {
        Mask { keep_last: 10 }
    }
}

impl Strategy for Mask {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        Ok(masks(scope, env))
    }

    fn keep_last(&self) -> u32 {
        self.keep_last
    }

    fn may_remove(&self, kind: Kind) -> bool {
        kind == Kind::Observation
    }
}

/// Edits that mask the observations of the scope that still stand whole.
pub(super) fn masks(scope: &Scope<'_>, env: &Env<'_>) -> Vec<Edit> {
    let mut edits = Vec::new();
    for block in scope.blocks.clone() {
        let Content::Step(step) = scope.context.blocks[block].content else { continue };
        if scope.log.kind(step) != Kind::Observation {
            continue;
        }
        let text = placeholder(scope.log.lines[step as usize]);
        let tokens = scope.context.blocks[block].tokens;
        // A token is at least a byte, so most placeholders need not be counted to be shorter.
        if text.len() < tokens as usize || env.tokenizer.count(&text) < tokens {
            edits.push(Edit::Mask { block, text });
        }
    }
    edits
}

fn placeholder(lines: u32) -> String {
    format!("Old environment output: ({lines} line{} omitted)", if lines == 1 { "" } else { "s" })
}
