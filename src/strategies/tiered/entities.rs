//! Entities of a text: its atoms by name.

use std::collections::BTreeSet;

use crate::text::atoms;

/// An entity, by the hash of its name: compared many times a decision.
pub(crate) type Entity = u64;

/// The entity of a name.
pub(crate) fn named(name: &str) -> Entity {
    let hash = blake3::hash(name.as_bytes());
    u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("a hash has 32 bytes"))
}

/// Entities of a segment, at most: the first.
const MAX_ENTITIES: usize = 64;

/// The entities of a text, each once, in order.
pub(crate) fn entities(text: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let names = atoms::lex(text).atoms.into_iter().map(|atom| atom.norm.into_owned());
    names.filter(|name| seen.insert(name.clone())).take(MAX_ENTITIES).collect()
}
