//! A segment of memory, and what it is about.

use std::ops::Range;

use super::relevance::Entity;
use crate::context::Piece;
use crate::log::Log;
use crate::strategies::extractive::Term;
use crate::strategies::notes::index::Bag;

/// How far a segment is compressed: 0, 1 and 2 of the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    None,
    Light,
    Heavy,
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::Light => "light",
            Level::Heavy => "heavy",
        }
    }
}

/// What is known of a segment's compression; lengths in tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Metadata {
    pub(crate) original_tokens: u32,
    pub(crate) compressed_tokens: u32,
    pub(crate) original_entities: Vec<String>,
    pub(crate) retained_entities: Vec<String>,
}

/// A piece of the past: the fields of the seed's `MemorySegment`, where it came from, and what comparing it needs.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) id: u32,
    pub(crate) content: String,
    /// 0 to 1, as of the last time that its tier was looked through.
    pub(crate) importance: f64,
    /// Trajectory time, in turns.
    pub(crate) created: f64,
    pub(crate) last_accessed: f64,
    pub(crate) access_count: u32,
    pub(crate) level: Level,
    pub(crate) metadata: Metadata,
    /// Its lines in the log, in order: what a store on a disk would hold.
    pub(crate) spans: Vec<u32>,
    /// Whether the user or the agent called it important.
    pub(crate) is_marked: bool,
    /// The original entities, as relevance compares them.
    pub(crate) entities: Vec<Entity>,
    pub(crate) meaning: Meaning,
    /// Likeness to the most alike other segment that was there with it, 0 to 1.
    pub(crate) nearest: f64,
    /// What a model made of its content at its level.
    pub(crate) expanded: Option<String>,
}

impl Segment {
    /// Its lines as pieces, step by step.
    pub(crate) fn original(&self, log: &Log) -> Vec<Vec<Piece>> {
        let step = |span: u32| log.spans[span as usize].step;
        let of_step = self.spans.chunk_by(|&a, &b| step(a) == step(b));
        of_step.map(|spans| spans.iter().map(|&span| Piece::whole(log, span)).collect()).collect()
    }
}

/// The text of some spans.
pub(crate) fn text_of(log: &Log, spans: &[u32]) -> String {
    spans.iter().map(|&span| log.span_text(span)).collect()
}

/// Terms of a meaning, at most: the heaviest.
const MAX_TERMS: usize = 64;
/// Slots of its table: a power of two, mostly empty, so that a term that is not there is told at the first look.
const SLOTS: usize = 256;

/// What a text is about: a unit vector of terms, and one of a model where there is one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Meaning {
    /// Sorted by term.
    terms: Vec<(Term, f64)>,
    /// Where each term stands in `terms`, from 1, by open addressing: segments are compared many times a decision.
    slots: Vec<u8>,
    pub(crate) vector: Option<Vec<f32>>,
}

impl Meaning {
    /// Of a bag, with the weight of each term.
    pub(crate) fn of(bag: &Bag, weight: impl Fn(Term) -> f64) -> Self {
        let mut terms: Vec<(Term, f64)> = bag
            .iter()
            .map(|&(term, count)| (term, (1.0 + libm::log(count.max(1.0))) * weight(term)))
            .collect();
        terms.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        terms.truncate(MAX_TERMS);
        let norm = libm::sqrt(terms.iter().map(|(_, weight)| weight * weight).sum());
        if norm > 0.0 {
            terms.iter_mut().for_each(|(_, weight)| *weight /= norm);
        }
        terms.sort_by_key(|entry| entry.0);
        let mut slots = vec![0; SLOTS];
        for (at, (term, _)) in (1..).zip(&terms) {
            let mut slot = first_slot(*term);
            while slots[slot] != 0 {
                slot = (slot + 1) % SLOTS;
            }
            slots[slot] = at;
        }
        Meaning { terms, slots, vector: None }
    }

    fn weight_of(&self, term: Term) -> Option<f64> {
        let mut slot = first_slot(term);
        loop {
            let at = *self.slots.get(slot)?;
            let (found, weight) = self.terms.get(usize::from(at).checked_sub(1)?)?;
            if *found == term {
                return Some(*weight);
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    /// Cosine of both, 0 to 1: of the vectors if both have one, else of the terms.
    pub(crate) fn cosine(&self, other: &Meaning) -> f64 {
        let cosine = match (&self.vector, &other.vector) {
            (Some(a), Some(b)) => a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum(),
            _ => self.dot(other),
        };
        cosine.clamp(0.0, 1.0)
    }

    fn dot(&self, other: &Meaning) -> f64 {
        other.terms.iter().filter_map(|(term, weight)| Some(weight * self.weight_of(*term)?)).sum()
    }
}

/// Where the table of a meaning is looked at first for a term, which is a hash itself.
fn first_slot(term: Term) -> usize {
    (term.0 as usize ^ usize::from(term.1)) % SLOTS
}

/// Lines of a segment that is cut out of spans: places in their list.
pub(crate) type Cut = Range<usize>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategies::notes::index::bag_of;

    #[test]
    fn cosines_by_hand() {
        let of = |text: &str| Meaning::of(&bag_of(text), |_| 1.0);
        assert!((of("alpha bravo").cosine(&of("bravo alpha")) - 1.0).abs() < 1e-12);
        // One of two terms each: 1 / (sqrt 2 sqrt 2).
        assert!((of("alpha bravo").cosine(&of("bravo charlie")) - 0.5).abs() < 1e-12);
        assert_eq!(of("alpha").cosine(&of("bravo")), 0.0);
        assert_eq!(of("").cosine(&of("bravo")), 0.0);
        // As many terms as there may be, of which every other is shared: 32 of 64 each.
        let many = |from: usize| (0..64).map(|i| format!("word{} ", from + i)).collect::<String>();
        assert!((of(&many(0)).cosine(&of(&many(32))) - 0.5).abs() < 1e-12);
        let mut vectors = (of("alpha"), of("bravo"));
        (vectors.0.vector, vectors.1.vector) = (Some(vec![0.6, 0.8]), Some(vec![1.0, 0.0]));
        assert!((vectors.0.cosine(&vectors.1) - 0.6).abs() < 1e-6);
    }
}
