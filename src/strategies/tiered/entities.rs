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
    let (mut seen, mut names) = (FxHashSet::default(), Vec::new());
    for (_, line) in atoms::lines(text) {
        for atom in line.iter() {
            if names.len() == MAX_ENTITIES {
                return names;
            }
            if seen.insert(atom.norm.clone()) {
                names.push(atom.norm.to_string());
            }
        }
    }
    names
}
