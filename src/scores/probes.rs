//! Whether a question about the past can still be answered from the context.
//!
//! A probe is supported if all the places that one must have read to answer it stand in the context verbatim; those
//! count of which at least one lies in a scope compressed so far. It needs no model, so that it says what the context
//! offers, not what a reader makes of it.

use std::collections::BTreeMap;

use super::Rows;
use super::ground::{Ground, Tally, Truth};
use super::registry::Entry;

pub const PROBE_SUPPORT: Entry = Entry {
    name: "probe_support",
    summary: "Share of annotated questions whose answer can still be read verbatim in the context",
    formula: "probes all of whose needed places stand in the context / probes that need a compressed place",
    strata: &["point", "kind"],
    retention: Some(60),
    truth: Some((50, "Probes supported: questions that can still be answered from the context")),
    ..Entry::TRUTH
};

pub(super) const ENTRIES: &[Entry] = &[PROBE_SUPPORT];

pub(super) fn score(truth: &Truth, ground: &Ground<'_>, rows: &mut Rows) {
    let mut all = Tally::default();
    let mut by_kind: BTreeMap<&str, Tally> = BTreeMap::new();
    for (probe, runs) in truth.annotations.probes.iter().zip(&truth.needs) {
        let known = probe.needs.iter().all(|place| place.step < ground.point.until);
        if !known || !probe.needs.iter().any(|place| ground.in_scope(place.step)) {
            continue;
        }
        let mut supported = [true; 4];
        for run in runs {
            for (supported, held) in supported.iter_mut().zip(ground.hold(run)) {
                *supported &= held;
            }
        }
        all.add(supported);
        by_kind.entry(&probe.kind).or_default().add(supported);
    }
    all.push(&PROBE_SUPPORT, ground.stratum(None), rows);
    if ground.is_end() {
        for (kind, tally) in by_kind {
            tally.push(&PROBE_SUPPORT, ground.stratum(Some(("kind", kind))), rows);
        }
    }
}
