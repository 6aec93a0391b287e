//! Never fires: the trigger of the `full` baseline.

use super::{Detector, Entry, Firing, Moment, Trigger};
use crate::context::log::Log;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "never",
    summary: "Never compress.",
    params: Never::PARAMS,
    build: |params| Ok(Box::new(Never::of(params)?)),
};

params! { struct Never {} }

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
