//! A segment of memory, and what it is about.

use std::ops::Range;

use rustc_hash::FxHashMap;
use serde_json::json;

use super::entities::Entity;
use crate::context::Piece;
use crate::context::log::Log;
use crate::strategies::extractive::Term;
use crate::strategies::notes::index::{Bag, heaviest, tf};
use crate::strategies::{Held, HeldForm};

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
    /// When that was.
    pub(crate) judged: f64,
    /// Trajectory time, in turns.
    pub(crate) created: f64,
    pub(crate) last_accessed: f64,
    pub(crate) access_count: u32,
    pub(crate) level: Level,
    pub(crate) metadata: Metadata,
    /// Its lines in the log, in order: what a store on a disk would hold.
    pub(crate) spans: Vec<u32>,
    /// Whether the user or the agent called it important, or it has a goal or a constraint: it is kept regardless of age.
    pub(crate) is_marked: bool,
    /// The original entities, as relevance compares them.
    pub(crate) entities: Vec<Entity>,
    pub(crate) meaning: Meaning,
    /// Its place in what segments are compared by.
    pub(crate) seat: usize,
    /// Likeness to the most alike other segment that is held, 0 to 1.
    pub(crate) nearest: f64,
    /// Which that is.
    pub(crate) twin: Option<u32>,
    /// What a model made of its content at its level, if it was asked and gave anything usable, and when it was asked.
    pub(crate) expanded: Option<(Option<String>, f64)>,
}

impl Segment {
    /// What table `contexts` says of it: the fields of the seed's `MemorySegment` and of its metadata, lengths in tokens and
    /// time in turns.
    pub(crate) fn held(&self, log: &Log, form: HeldForm) -> Held {
        let step = |span: Option<&u32>| span.map_or(0, |&span| log.spans[span as usize].step);
        let known = &self.metadata;
        let ratio = f64::from(known.original_tokens) / f64::from(known.compressed_tokens.max(1));
        Held {
            form,
            turn: log.turn_of(step(self.spans.last())),
            step: step(self.spans.first()),
            text: self.content.clone(),
            details: json!({
                "segment_id": self.id,
                "importance_score": self.importance,
                "importance_timestamp": self.judged,
                "creation_timestamp": self.created,
                "last_accessed_timestamp": self.last_accessed,
                "access_count": self.access_count,
                "compression_level": self.level as u8,
                "original_length": known.original_tokens,
                "compressed_length": known.compressed_tokens,
                "compression_ratio": ratio,
                "original_entities": known.original_entities,
                "retained_entities": known.retained_entities,
                "is_marked": self.is_marked,
                "expanded": self.expanded.as_ref().and_then(|(text, time)| Some(json!({
                    "content": text.as_ref()?,
                    "was_compressed": true,
                    "original_compression_level": self.level as u8,
                    "expansion_timestamp": time,
                }))),
            }),
        }
    }

    /// Its lines as pieces, step by step.
    pub(crate) fn original(&self, log: &Log) -> Vec<Vec<Piece>> {
        let step = |span: u32| log.spans[span as usize].step;
        let of_step = self.spans.chunk_by(|&a, &b| step(a) == step(b));
        of_step.map(|spans| spans.iter().map(|&span| Piece::whole(log, span)).collect()).collect()
    }
}

/// The text of some spans: steps begin on lines of their own.
pub(crate) fn text_of(log: &Log, spans: &[u32]) -> String {
    let step = |span: u32| log.spans[span as usize].step;
    let mut text = String::new();
    for of_step in spans.chunk_by(|&a, &b| step(a) == step(b)) {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        of_step.iter().for_each(|&span| text.push_str(log.span_text(span)));
    }
    text
}

/// Terms of a meaning, at most: the heaviest.
const MAX_TERMS: usize = 64;

/// What a text is about: a unit vector of terms, and one of a model where there is one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Meaning {
    /// Sorted by term.
    terms: Vec<(Term, f64)>,
    pub(crate) vector: Option<Vec<f32>>,
}

impl Meaning {
    /// Of a bag, with the weight of each term.
    pub(crate) fn of(bag: &Bag, weight: impl Fn(Term) -> f64) -> Self {
        let weighed = |&(term, count): &(Term, f64)| (term, tf(count) * weight(term));
        let mut terms = heaviest(bag.iter().map(weighed).collect(), MAX_TERMS);
        let norm = libm::sqrt(terms.iter().map(|(_, weight)| weight * weight).sum());
        if norm > 0.0 {
            terms.iter_mut().for_each(|(_, weight)| *weight /= norm);
        }
        terms.sort_by_key(|entry| entry.0);
        Meaning { terms, vector: None }
    }

    /// The share of what the terms weigh that is not known.
    pub(crate) fn novelty(&self, is_known: impl Fn(Term) -> bool) -> f64 {
        let sum = |terms: &mut dyn Iterator<Item = &(Term, f64)>| terms.map(|entry| entry.1).sum::<f64>();
        let all = sum(&mut self.terms.iter());
        if all > 0.0 { sum(&mut self.terms.iter().filter(|(term, _)| !is_known(*term))) / all } else { 0.0 }
    }

    pub(crate) fn terms(&self) -> impl Iterator<Item = Term> {
        self.terms.iter().map(|entry| entry.0)
    }

    /// Of a model's unit vector alone.
    pub(crate) fn of_vector(vector: Vec<f32>) -> Self {
        Meaning { terms: Vec::new(), vector: Some(vector) }
    }

    /// Cosine of the terms of both, 0 to 1.
    pub(crate) fn cosine(&self, other: &Meaning) -> f64 {
        let mut theirs = other.terms.iter().peekable();
        let shared = self.terms.iter().filter_map(|(term, weight)| {
            while theirs.next_if(|entry| entry.0 < *term).is_some() {}
            Some(weight * theirs.next_if(|entry| entry.0 == *term)?.1)
        });
        shared.sum::<f64>().clamp(0.0, 1.0)
    }
}

/// Cosine of two unit vectors; 0 where they point away from each other.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>().clamp(0.0, 1.0)
}

/// Meanings by their terms: a text is compared with all of them at the cost of what they share with it.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    /// Which meanings hold a term, by their seats, with its weight.
    of: FxHashMap<Term, Vec<(usize, f64)>>,
    n_seats: usize,
    free: Vec<usize>,
}

impl Holders {
    /// Gives a meaning a seat.
    pub(crate) fn add(&mut self, meaning: &Meaning) -> usize {
        let seat = self.free.pop().unwrap_or(self.n_seats);
        self.n_seats = self.n_seats.max(seat + 1);
        for &(term, weight) in &meaning.terms {
            self.of.entry(term).or_default().push((seat, weight));
        }
        seat
    }

    /// Takes a meaning from its seat.
    pub(crate) fn remove(&mut self, seat: usize, meaning: &Meaning) {
        for (term, _) in &meaning.terms {
            if let Some(holders) = self.of.get_mut(term) {
                holders.retain(|holder| holder.0 != seat);
                if holders.is_empty() {
                    self.of.remove(term);
                }
            }
        }
        self.free.push(seat);
    }

    /// Cosine with the terms of each meaning, 0 to 1, by seat.
    pub(crate) fn cosines(&self, meaning: &Meaning) -> Vec<f64> {
        let mut cosines = vec![0.0f64; self.n_seats];
        for (term, weight) in &meaning.terms {
            for (seat, own) in self.of.get(term).into_iter().flatten() {
                cosines[*seat] += weight * own;
            }
        }
        cosines.iter_mut().for_each(|cosine| *cosine = cosine.clamp(0.0, 1.0));
        cosines
    }
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
        let half = of("alpha bravo");
        let bravo = of("bravo").terms().next().unwrap();
        assert!((half.novelty(|term| term == bravo) - 0.5).abs() < 1e-12);
        assert_eq!(
            (half.novelty(|_| false), half.novelty(|_| true), of("").novelty(|_| false)),
            (1.0, 0.0, 0.0)
        );
        // As many terms as there may be, of which every other is shared: 32 of 64 each.
        let many = |from: usize| (0..64).map(|i| format!("word{} ", from + i)).collect::<String>();
        assert!((of(&many(0)).cosine(&of(&many(32))) - 0.5).abs() < 1e-12);
        assert!((cosine(&[0.6, 0.8], &[1.0, 0.0]) - 0.6).abs() < 1e-6);
        assert_eq!(cosine(&[0.6, 0.8], &[-1.0, 0.0]), 0.0);
    }

    #[test]
    fn steps_begin_on_lines_of_their_own() {
        let log = Log::script("user: go\naction: cat src/a.py\nobservation: import os~import re\nagent: end");
        let spans: Vec<u32> = (1..4).flat_map(|step| log.spans_of(step)).collect();
        assert_eq!(text_of(&log, &spans), "cat src/a.py\nimport os\nimport re\nend");
        assert!(super::super::entities::entities(&text_of(&log, &spans)).contains(&"src/a.py".to_owned()));
    }

    #[test]
    fn a_seat_is_given_again() {
        let of = |text: &str| Meaning::of(&bag_of(text), |_| 1.0);
        let mut holders = Holders::default();
        let seats = ["alpha bravo", "bravo charlie", "delta"].map(|text| holders.add(&of(text)));
        assert_eq!(seats, [0, 1, 2]);
        let near = |holders: &Holders, text: &str, expected: &[f64]| {
            let cosines = holders.cosines(&of(text));
            let close = cosines.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
            assert!(close && cosines.len() == expected.len(), "{cosines:?}");
        };
        near(&holders, "bravo", &[0.5f64.sqrt(), 0.5f64.sqrt(), 0.0]);
        holders.remove(1, &of("bravo charlie"));
        near(&holders, "bravo charlie", &[0.5, 0.0, 0.0]);
        assert_eq!(holders.add(&of("charlie")), 1);
        near(&holders, "bravo charlie", &[0.5, 0.5f64.sqrt(), 0.0]);
        (0..3)
            .zip(["alpha bravo", "charlie", "delta"])
            .for_each(|(seat, text)| holders.remove(seat, &of(text)));
        assert!(holders.of.is_empty());
    }
}
