//! Compresses nothing: the ceiling of retention and the floor of savings.

use super::{Entry, Env, Scope, Strategy};
use crate::context::Edit;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "full",
    summary: "Compress nothing: the baseline of every table.",
    params: Full::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(Full::of(params)?)),
};

params! { struct Full {} }

impl Strategy for Full {
    fn is_control(&self) -> bool {
        true
    }

    fn compress(&self, _: &Scope<'_>, _: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        Ok(Vec::new())
    }
}
