//! Repeats the whole scope as text of its own, word for word: what says everything loses nothing and saves nothing, and
//! no score may call that a good compression.

use super::{Entry, Env, Scope, Strategy, put, texts};
use crate::context::Edit;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "echo",
    summary: "Repeat the whole scope as if it were a summary: a control that saves nothing.",
    params: Echo::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(Echo::of(params)?)),
};

params! { struct Echo {} }

impl Strategy for Echo {
    fn is_control(&self) -> bool {
        true
    }

    fn compress(&self, scope: &Scope<'_>, _: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        // A space makes most words of the next text neither more nor fewer tokens.
        Ok(put(scope, texts(scope).join(" ")))
    }
}
