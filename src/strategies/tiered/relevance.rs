//! The relevance evaluator: six factors, their weighted sum, and the multiplier of explicit markers; and relevance, the three
//! of them that compare a segment with what goes on.
//!
//! Formulas of the seed (tiered-memory, 3.3 and 4.3), each a function of its own. What the seed leaves open is ours
//! and can be set: equal weights (given as parts of their sum), decays 0.05 a turn, alpha = beta = 0.5, marker x 1.5,
//! the sum at most 1. An entity's global importance is its count over the largest count; the weighted importance of a
//! segment is averaged over its entities (the seed adds up, so that long segments would win). Uniqueness, which the
//! seed names only, is 1 less the likeness to the most alike other segment. Without a query its factor is 0.

use super::entities::Entity;
use rustc_hash::{FxHashMap, FxHashSet};

use super::segment::Segment;

/// Weights of the factors and constants of the formulas; each is a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Formula {
    pub(crate) recency: f64,
    pub(crate) access: f64,
    pub(crate) semantic: f64,
    pub(crate) entity: f64,
    pub(crate) uniqueness: f64,
    pub(crate) query: f64,
    /// Recency lost a turn.
    pub(crate) decay: f64,
    /// Recency of access lost a turn.
    pub(crate) access_decay: f64,
    /// How fast accesses add up.
    pub(crate) access_factor: f64,
    /// Share of recency in the access score.
    pub(crate) alpha: f64,
    /// Share of overlap in the entity score.
    pub(crate) beta: f64,
    /// What an explicit marker multiplies by.
    pub(crate) marker: f64,
}

/// How often each entity stood in a segment.
#[derive(Default)]
pub(crate) struct EntityCounts {
    counts: FxHashMap<Entity, u32>,
    largest: u32,
}

impl EntityCounts {
    pub(crate) fn add(&mut self, entities: &[Entity]) {
        for &entity in entities {
            let count = self.counts.entry(entity).or_default();
            *count += 1;
            self.largest = self.largest.max(*count);
        }
    }

    /// 0 to 1.
    pub(crate) fn importance(&self, entity: Entity) -> f64 {
        let count = self.counts.get(&entity).copied().unwrap_or(0);
        f64::from(count) / f64::from(self.largest.max(1))
    }
}

/// How alike a text is to each segment, 0 to 1, by the segment's seat.
pub(crate) type Likeness = Vec<f64>;

/// What segments are judged by: the time, what the prompt is about now, and what is asked.
pub(crate) struct Situation {
    pub(crate) time: f64,
    pub(crate) context: Likeness,
    pub(crate) entities: FxHashSet<Entity>,
    pub(crate) query: Option<Likeness>,
}

pub(crate) fn recency(age: f64, decay: f64) -> f64 {
    libm::exp(-decay * age.max(0.0))
}

pub(crate) fn access(count: u32, since: f64, formula: &Formula) -> f64 {
    let recency = libm::exp(-formula.access_decay * since.max(0.0));
    let frequency = 1.0 - libm::exp(-formula.access_factor * f64::from(count));
    formula.alpha * recency + (1.0 - formula.alpha) * frequency
}

pub(crate) fn entity(entities: &[Entity], situation: &Situation, counts: &EntityCounts, beta: f64) -> f64 {
    let n = entities.len().max(1) as f64;
    let (mut shared, mut weighted) = (0.0, 0.0);
    for entity in entities.iter().filter(|entity| situation.entities.contains(entity)) {
        shared += 1.0;
        weighted += counts.importance(*entity);
    }
    beta * shared / n + (1.0 - beta) * weighted / n
}

pub(crate) fn uniqueness(nearest: f64) -> f64 {
    (1.0 - nearest).clamp(0.0, 1.0)
}

/// The importance of a segment, 0 to 1.
pub(crate) fn importance(
    segment: &Segment,
    situation: &Situation,
    counts: &EntityCounts,
    formula: &Formula,
) -> f64 {
    let sum = formula.recency * recency(situation.time - segment.created, formula.decay)
        + formula.access * access(segment.access_count, situation.time - segment.last_accessed, formula)
        + formula.uniqueness * uniqueness(segment.nearest)
        + compared(segment, situation, counts, formula);
    marked(sum, segment, formula)
}

/// How much a segment has to do with what goes on, 0 to 1: the factors that compare it with the context and with what is asked,
/// by their weights. Age, access and uniqueness say what to keep and not what is missing: with them the newest come back.
pub(crate) fn relevance(
    segment: &Segment,
    situation: &Situation,
    counts: &EntityCounts,
    formula: &Formula,
) -> f64 {
    let weights = formula.semantic + formula.entity + formula.query;
    let sum = compared(segment, situation, counts, formula) / weights.max(f64::MIN_POSITIVE);
    marked(sum, segment, formula)
}

fn compared(segment: &Segment, situation: &Situation, counts: &EntityCounts, formula: &Formula) -> f64 {
    let to = |likeness: &Likeness| likeness.get(segment.seat).copied().unwrap_or(0.0);
    formula.semantic * to(&situation.context)
        + formula.entity * entity(&segment.entities, situation, counts, formula.beta)
        + formula.query * situation.query.as_ref().map_or(0.0, to)
}

fn marked(sum: f64, segment: &Segment, formula: &Formula) -> f64 {
    let marked = if segment.is_marked { sum * formula.marker } else { sum };
    marked.clamp(0.0, 1.0)
}

/// How relevant segments were at the decisions so far.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// How many were about so relevant.
    counts: Vec<u64>,
}

/// How finely relevance is told apart here.
const STEPS: usize = 1000;

impl Compared {
    fn step(relevance: f64) -> usize {
        (relevance.clamp(0.0, 1.0) * STEPS as f64) as usize
    }

    pub(crate) fn add(&mut self, relevance: f64) {
        self.counts.resize(STEPS + 1, 0);
        self.counts[Self::step(relevance)] += 1;
    }

    /// Whether so relevant a segment is above that share of them; nothing that has nothing in common is.
    pub(crate) fn is_above(&self, relevance: f64, share: f64) -> bool {
        let all: u64 = self.counts.iter().sum();
        let below: u64 = self.counts.iter().take(Self::step(relevance)).sum();
        relevance > 0.0 && below as f64 >= share * all as f64
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::entities::named;
    use super::super::segment::{Level, Meaning, Metadata};
    use super::*;
    use crate::strategies::notes::index::bag_of;

    pub(crate) fn meaning(text: &str) -> Meaning {
        Meaning::of(&bag_of(text), |_| 1.0)
    }

    pub(crate) fn segment(text: &str, created: f64) -> Segment {
        Segment {
            id: 0,
            content: text.to_owned(),
            importance: 0.0,
            judged: created,
            created,
            last_accessed: created,
            access_count: 0,
            level: Level::Light,
            metadata: Metadata::default(),
            spans: Vec::new(),
            is_marked: false,
            entities: Vec::new(),
            meaning: meaning(text),
            seat: 0,
            nearest: 0.0,
            twin: None,
            expanded: None,
        }
    }

    pub(crate) const FORMULA: Formula = Formula {
        recency: 1.0 / 6.0,
        access: 1.0 / 6.0,
        semantic: 1.0 / 6.0,
        entity: 1.0 / 6.0,
        uniqueness: 1.0 / 6.0,
        query: 1.0 / 6.0,
        decay: 0.05,
        access_decay: 0.05,
        access_factor: 0.5,
        alpha: 0.5,
        beta: 0.5,
        marker: 1.5,
    };

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn recency_by_hand() {
        near(recency(0.0, 0.05), 1.0);
        near(recency(20.0, 0.05), 0.36787944117144233); // 1/e
        near(recency(-3.0, 0.05), 1.0);
    }

    #[test]
    fn access_by_hand() {
        // Just made, never asked for: half of 1 + 0.
        near(access(0, 0.0, &FORMULA), 0.5);
        // Asked for twice, 20 turns ago: half of 1/e, half of 1 - 1/e.
        near(access(2, 20.0, &FORMULA), 0.5);
        near(access(4, 0.0, &FORMULA), 0.5 + 0.5 * (1.0 - 0.1353352832366127));
    }

    fn situation(entities: &[&str]) -> Situation {
        let entities = entities.iter().map(|entity| named(entity)).collect();
        Situation { time: 20.0, context: vec![0.5], entities, query: None }
    }

    #[test]
    fn entities_by_hand() {
        let names = |list: &[&str]| list.iter().map(|name| named(name)).collect::<Vec<_>>();
        let mut counts = EntityCounts::default();
        counts.add(&names(&["a.py", "b.py"]));
        counts.add(&names(&["a.py"]));
        near(counts.importance(named("a.py")), 1.0);
        near(counts.importance(named("b.py")), 0.5);
        near(counts.importance(named("c.py")), 0.0);
        // Of four entities b.py and c.py are in the context: overlap 2/4, importance (0.5 + 0) / 4.
        let situation = situation(&["b.py", "c.py", "z.py"]);
        near(
            entity(&names(&["a.py", "b.py", "c.py", "d.py"]), &situation, &counts, 0.5),
            0.5 * 0.5 + 0.5 * 0.125,
        );
        near(entity(&[], &situation, &counts, 0.5), 0.0);
        near(EntityCounts::default().importance(named("a.py")), 0.0);
    }

    #[test]
    fn uniqueness_by_hand() {
        near(uniqueness(1.0), 0.0);
        near(uniqueness(0.25), 0.75);
    }

    #[test]
    fn the_sum_by_hand() {
        let counts = EntityCounts::default();
        let mut situation = situation(&[]);
        let mut segment = segment("bravo charlie", 0.0);
        segment.nearest = 0.4;
        segment.access_count = 2;
        // Recency 1/e, access 1/2, semantic 1/2, entity 0, uniqueness 0.6, no query.
        let e = 0.36787944117144233;
        near(importance(&segment, &situation, &counts, &FORMULA), (e + 0.5 + 0.5 + 0.6) / 6.0);
        situation.query = Some(vec![1.0]);
        near(importance(&segment, &situation, &counts, &FORMULA), (e + 0.5 + 0.5 + 0.6 + 1.0) / 6.0);
        segment.is_marked = true;
        near(importance(&segment, &situation, &counts, &FORMULA), (e + 0.5 + 0.5 + 0.6 + 1.0) / 6.0 * 1.5);
        let heavy = Formula { query: 9.0, ..FORMULA };
        near(importance(&segment, &situation, &counts, &heavy), 1.0);
        let alone =
            Formula { recency: 0.0, access: 0.0, semantic: 0.0, entity: 0.0, uniqueness: 0.0, ..FORMULA };
        segment.is_marked = false;
        near(importance(&segment, &situation, &counts, &alone), 1.0 / 6.0);
        // Semantic 1/2, entity 0, query 1, whatever its age.
        near(relevance(&segment, &situation, &counts, &FORMULA), 0.5);
        near(relevance(&segment, &situation, &counts, &heavy), (0.5 / 6.0 + 9.0) / (2.0 / 6.0 + 9.0));
        segment.is_marked = true;
        near(relevance(&segment, &situation, &counts, &FORMULA), 0.75);
    }

    /// A floor is a share of what was compared, whatever the likeness: a tenth of it is the same.
    #[test]
    fn a_floor_is_a_share() {
        for scale in [1.0, 0.1] {
            let mut compared = Compared::default();
            (0..10).for_each(|i| compared.add(scale * f64::from(i) / 10.0 + 0.001));
            let above = |share| {
                (0..10).filter(|i| compared.is_above(scale * f64::from(*i) / 10.0 + 0.001, share)).count()
            };
            assert_eq!([0.0, 0.5, 0.9, 0.95].map(above), [10, 5, 1, 0], "{scale}");
            assert!(!compared.is_above(0.0, 0.0));
        }
        assert!(Compared::default().is_above(0.1, 0.5), "nothing to compare with");
    }
}
