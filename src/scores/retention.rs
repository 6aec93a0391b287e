//! `need_retention` and `surface_retention`: what the agent had to remember and still could read.
//!
//! Per trajectory: sum of the weights of needs whose atom stands in the prompt sent, over the sum
//! of weights. *Surface*: the atom stands anywhere. *Bound*, the headline: it stands within 15 words
//! of at least two cues of one of its source spans; defined where a source span has two cues. A bag
//! of atoms without prose reaches 0.9 of surface and next to nothing of bound.
//!
//! Strata: the *common* set (at risk, a property of the log: every variant answers the same
//! questions) and the *exposed* set (no mention survives outside compressed scopes: a property of
//! log and trigger). Where the log records what was sent, a need whose atom did not stand there on the surface is no
//! fault of a compression: such needs are in the stratum `unsupported=1` and in no other. Source: DESIGN section 8, ours.

use crate::scores::registry::{Better, Column, Entry, Field, ORACLE, Pooled, RANDOM, Set};

mod answers;
mod ledger;
mod questions;
mod strata;

pub use answers::{Fate, Misses, census, fates, score};
pub use ledger::Ledger;
pub use questions::Questions;
pub use strata::Strata;

/// Keys of the strata of needs, in the order in which they are written.
pub const STRATA: &[&str] = &[
    "set",
    "tail",
    "class",
    "kind",
    "horizon",
    "point",
    "body",
    "unsupported",
    "shadow",
    "cap",
    "found",
    "partners",
];

pub const NEED_RETENTION: Entry = Entry {
    name: "need_retention",
    words: "needs kept",
    summary: "Share of needs whose atom stands in the prompt near the words that gave it meaning",
    formula: "sum of weights of needs served, bound / sum of weights of needs with a binding source",
    strata: STRATA,
    floor: RANDOM,
    ceiling: ORACLE,
    retention: Some(10),
    columns: &[
        Column::headline(
            90,
            "need_retention_common",
            Set::Common,
            Field::Value,
            "bound need retention on the common set (needs from tool output or the user, last mentioned before the reference tail, 10 turns by default; the same questions for every variant)",
        ),
        Column::headline(
            100,
            "random_common",
            Set::Common,
            Field::Floor,
            "the same for the matched random shadow: the floor",
        ),
        Column::headline(
            110,
            "oracle_common",
            Set::Common,
            Field::Ceiling,
            "the same for the matched oracle shadow: the ceiling",
        ),
        Column::new(
            120,
            "atom_bag_common",
            Set::Common,
            Field::AtomBag,
            "the same for the matched list of atoms without prose",
        ),
        Column::new(
            130,
            "chance_common",
            Set::Common,
            Field::Chance,
            "the same needs looked for in the contexts of other trajectories",
        ),
        Column::new(
            140,
            "corrected_common",
            Set::Common,
            Field::Corrected,
            "(need_retention_common - c) / (1 - c), c = chance_common",
        ),
        Column::headline(
            150,
            "need_retention_exposed",
            Set::Exposed,
            Field::Value,
            "bound need retention on the exposed set: of the common set, the needs with no mention outside what the trigger gave away; differs between triggers",
        ),
        Column::headline(
            160,
            "random_exposed",
            Set::Exposed,
            Field::Floor,
            "the same for the matched random shadow: the floor",
        ),
        Column::headline(
            170,
            "oracle_exposed",
            Set::Exposed,
            Field::Ceiling,
            "the same for the matched oracle shadow: the ceiling",
        ),
        Column::new(
            180,
            "atom_bag_exposed",
            Set::Exposed,
            Field::AtomBag,
            "the same for the matched list of atoms without prose",
        ),
        Column::new(
            190,
            "chance_exposed",
            Set::Exposed,
            Field::Chance,
            "the same needs looked for in the contexts of other trajectories",
        ),
        Column::new(
            200,
            "corrected_exposed",
            Set::Exposed,
            Field::Corrected,
            "(need_retention_exposed - c) / (1 - c), c = chance_exposed",
        ),
        Column::headline(
            230,
            "efficiency",
            Set::Capped,
            Field::Efficiency,
            "sum w (x - random) / sum w (oracle - random) over exposed needs, each trajectory capped at 20 needs' weight where such rows exist (see efficiency_rows); 0 is random, 1 the oracle, never clipped; null below the minimum (30 exposed needs, n_eff 4), and where oracle - random is under 0.05 or its interval holds 0",
        ),
        Column::new(240, "efficiency_uncapped", Set::Exposed, Field::Efficiency, "the same without the cap"),
    ],
    ..Entry::SHARE
};

pub const SURFACE_RETENTION: Entry = Entry {
    name: "surface_retention",
    words: "needs kept, with or without their context",
    summary: "Share of needs whose atom stands anywhere in the prompt; gameable",
    formula: "sum of weights of needs served / sum of weights of needs",
    strata: STRATA,
    floor: RANDOM,
    ceiling: ORACLE,
    retention: Some(20),
    columns: &[
        Column::new(
            210,
            "surface_retention_common",
            Set::Common,
            Field::Value,
            "share of the common set whose atom stands anywhere in the context; gameable by a list of atoms",
        ),
        Column::new(
            220,
            "surface_retention_exposed",
            Set::Exposed,
            Field::Value,
            "the same on the exposed set",
        ),
    ],
    ..Entry::SHARE
};

pub const NEED_COVERAGE: Entry = Entry {
    name: "need_coverage",
    summary: "Share of needs for which bound retention is defined",
    formula: "needs with a binding source / needs",
    better: Better::Neither,
    strata: &["set", "tail"],
    columns: &[Column::new(
        250,
        "",
        Set::Whole,
        Field::Value,
        "share of the needs of the common set for which bound retention is defined",
    )],
    ..Entry::SHARE
};

pub const SOFT_MISS_SHARE: Entry = Entry {
    name: "soft_miss_share",
    words: "losses that had been seen again",
    summary: "Share of bound misses whose atom the agent had observed again since it was first lost",
    formula: "weight of soft misses / weight of misses, exposed needs",
    better: Better::Neither,
    strata: &["set", "tail"],
    columns: &[Column::new(
        260,
        "",
        Set::Exposed,
        Field::Value,
        "share of the misses on the exposed set that the agent had observed again before it used them",
    )],
    ..Entry::SHARE
};

pub const AT_RISK_SHARE: Entry = Entry {
    name: "at_risk_share",
    words: "needs at risk",
    summary: "Share of all needs whose last mention is older than the reference tail (rows of `full` only)",
    formula: "needs at risk / needs whose atoms do not stand in the head",
    better: Better::Neither,
    strata: &["tail", "class"],
    ..Entry::SHARE
};

pub const UNSUPPORTED_SHARE: Entry = Entry {
    name: "unsupported_share",
    summary: "Share of the needs at risk whose atom was not in the prompt that the log says was sent (rows of `full` only)",
    formula: "needs at risk whose atom did not stand there / needs at risk; 0 where the log records no edits",
    better: Better::Neither,
    strata: &["tail", "class"],
    ..Entry::SHARE
};

pub const RANDOM_WON_SHARE: Entry = Entry {
    name: "random_won_share",
    summary: "Share of cells in which a random shadow served more than the greedy oracle, and is the ceiling",
    formula: "1 where in a segment a random chain (or, where something is recalled, a random draw) served more, else 0",
    better: Better::Neither,
    strata: &["level"],
    pooled: Pooled::Mean,
    columns: &[Column::new(
        290,
        "",
        Set::Stratum("level=bound"),
        Field::Value,
        "share of the cells in which a random shadow served more than the greedy oracle and is the ceiling, bound; null where no shadow was cast",
    )],
    ..Entry::SHARE
};

pub(super) const ENTRIES: &[Entry] = &[
    NEED_RETENTION,
    SURFACE_RETENTION,
    NEED_COVERAGE,
    SOFT_MISS_SHARE,
    AT_RISK_SHARE,
    UNSUPPORTED_SHARE,
    RANDOM_WON_SHARE,
];

/// Levels of retention: surface, bound.
const LEVELS: [(Entry, bool); 2] = [(SURFACE_RETENTION, false), (NEED_RETENTION, true)];

#[cfg(test)]
mod tests;
