//! Drops the whole scope: the floor of retention and the ceiling of savings.

use super::{Entry, Env, Scope, Strategy};
use crate::context::Edit;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "drop-all",
    summary: "Drop the whole scope: the floor of retention.",
    params: DropAll::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(DropAll::of(params)?)),
};

params! { struct DropAll {} }

impl Strategy for DropAll {
    fn is_control(&self) -> bool {
        true
    }

    fn compress(&self, scope: &Scope<'_>, _: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        Ok(scope.blocks.clone().map(|block| Edit::Drop { block }).collect())
    }
}
