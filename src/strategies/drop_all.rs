//! Drops the whole scope: the floor of retention and the ceiling of savings.

use super::{Entry, Env, Scope, Strategy};
use crate::context::Edit;

pub(super) const ENTRY: Entry = Entry {
    name: "drop-all",
    summary: "Drop the whole scope: the floor of retention.",
    params: &[],
    takes_model: false,
    build: |params| Ok(Box::new(params.try_into::<DropAll>()?)),
};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct DropAll {}

impl Strategy for DropAll {
    fn is_control(&self) -> bool {
        true
    }

    fn compress(&self, scope: &Scope<'_>, _: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        Ok(scope.blocks.clone().map(|block| Edit::Drop { block }).collect())
    }
}
