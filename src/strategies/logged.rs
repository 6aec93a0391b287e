//! What the log's own product left of its past when it compacted: the summary that it logged, in the place of everything
//! before it.
//!
//! Only where a log was compacted by its own product, and so under trigger `logged` alone: the replay goes on over the
//! compaction (bridge mode), the agent's later needs say what of the past it used, and the shadows say what as many tokens
//! of the same past would have served. An agent uses what its summary told it, so that such a row is selected by the
//! summary that it judges, and compares with other rows of the bridge mode at most. (Source: DESIGN section 8, ours.)

use super::{Entry, Env, Scope, Strategy, put};
use crate::context::Edit;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "logged",
    summary: "Put the summary that the log's own product wrote there (with trigger `logged` alone).",
    params: Logged::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(Logged::of(params)?)),
};

params! { struct Logged {} }

impl Strategy for Logged {
    fn is_control(&self) -> bool {
        true
    }

    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let Some(summary) = scope.log.summaries.get(&scope.turn) else { return Ok(Vec::new()) };
        env.work.is_logged = true;
        Ok(put(scope, summary.clone()))
    }

    /// It may be longer than what it replaced.
    fn is_record(&self) -> bool {
        true
    }

    /// A product's summary takes the place of the one before it, too.
    fn is_recursive(&self) -> bool {
        true
    }
}
