//! Compresses nothing: the ceiling of retention and the floor of savings.

use super::{Entry, Env, Scope, Strategy};
use crate::context::Edit;

pub(super) const ENTRY: Entry = Entry {
    name: "full",
    summary: "Compress nothing: the baseline of every table.",
    params: &[],
    takes_model: false,
    build: |params| Ok(Box::new(params.try_into::<Full>()?)),
};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Full {}

impl Strategy for Full {
    fn is_control(&self) -> bool {
        true
    }

    fn compress(&self, _: &Scope<'_>, _: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        Ok(Vec::new())
    }
}
