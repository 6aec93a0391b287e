//! Values that were superseded and still look current.
//!
//! A key is stale in a context that holds its old value and nowhere the new one; only keys count whose new value was
//! stated in a scope compressed so far. Lower is better; `full` holds both and is never stale, `drop-all` holds the old
//! value only where the head does (a goal that was changed later).

use super::runs::words;
use super::truth::{Ground, Tally, Truth};
use super::{Entry, Rows};

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "stale_value_share",
    summary: "Share of superseded values that the context still presents as current; lower is better",
    formula: "keys whose old value stands in the context and whose new one does not / keys superseded in compressed scopes",
}];

pub(super) fn score(truth: &Truth, ground: &Ground<'_>, rows: &mut Rows) {
    let mut all = Tally::default();
    for value in truth.annotations.superseded.iter().filter(|value| ground.in_scope(value.step)) {
        let (old, new) = (words(&value.old), words(&value.new));
        if old.is_empty() || new.is_empty() {
            continue;
        }
        let (old, new) = (ground.hold(&old), ground.hold(&new));
        all.add(std::array::from_fn(|context| old[context] && !new[context]));
    }
    all.push("stale_value_share", ground.stratum(None), rows);
}
