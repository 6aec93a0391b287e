//! Never fires: the trigger of the `full` baseline.

use super::{Detector, Entry, Firing, Moment, Trigger};
use crate::context::log::Log;

pub(super) const ENTRY: Entry = Entry {
    name: "never",
    summary: "Never compress.",
    params: &[],
    build: |params| Ok(Box::new(params.try_into::<Never>()?)),
};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Never {}

impl Trigger for Never {
    fn detector(&self, _: &Log, _: u32) -> Box<dyn Detector> {
        Box::new(Asleep)
    }
}

struct Asleep;

impl Detector for Asleep {
    fn advance(&mut self, _: &Moment<'_>) -> Option<Firing> {
        None
    }
}
