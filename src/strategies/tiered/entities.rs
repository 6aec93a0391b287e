//! Entities of a text: its atoms by name.

use rustc_hash::FxHashSet;

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
    let lines: Vec<_> = atoms::lines(text).map(|(_, line)| line).collect();
    let mut seen: FxHashSet<&str> = FxHashSet::default();
    let names = lines.iter().flat_map(|line| line.iter()).map(|atom| &*atom.norm);
    names.filter(|name| seen.insert(name)).take(MAX_ENTITIES).map(str::to_owned).collect()
}
