//! The memory manager: hot, warm and cold memory, their limits, and what moves between them.
//!
//! The seed's `MANAGE_MEMORY` (tiered-memory, 3.1) without its clock: it runs at each event. What leaves the hot tier
//! (the newest turns, which stand in the prompt as they are) is compressed lightly and goes to warm memory, the less the more important it
//! is among what is there; while
//! that holds more than its limit, its least important segments are compressed heavily and go to cold memory; while
//! that holds more, its least important segments are evicted. Marked segments go last, regardless of age. Each tier also holds [`MAX_SEGMENTS`] at most, so that
//! tiny turns cannot make a decision slow. Importance is computed once an event for the segments of a tier.

use rustc_hash::{FxHashMap, FxHashSet};

use super::compressor::{self, Ratios};
use super::entities;
use super::entities::{Entity, named};
use super::relevance::{Compared, EntityCounts, Formula, Likeness, Situation, importance};
use super::segment::{Holders, Level, Meaning, Metadata, Segment, cosine, text_of};
use crate::context::log::Log;
use crate::strategies::extractive::Term;
use crate::strategies::notes::index::{Bag, ByFrequency, bag_of};
use crate::strategies::prune_importance::scoring::Who;
use crate::strategies::{Env, Fate, Item};

/// Segments of a tier, at most.
pub(crate) const MAX_SEGMENTS: usize = 256;

/// Limits of the tiers, and how far each compresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) warm_tokens: u32,
    pub(crate) cold_tokens: u32,
    pub(crate) light_ratio: f64,
    pub(crate) heavy_ratio: f64,
    /// By what share of itself a ratio is less for the most important, and more for the least.
    pub(crate) spread: f64,
}

impl Limits {
    /// How far a segment is compressed that is more important than this share of the others, and less so than the rest.
    fn by_rank(&self, ratio: f64, share: f64) -> f64 {
        (ratio * (1.0 + self.spread * (1.0 - 2.0 * share))).max(1.0)
    }
}

/// What is remembered of a trajectory's segment.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) warm: Vec<Segment>,
    pub(crate) cold: Vec<Segment>,
    pub(crate) counts: EntityCounts,
    pub(crate) ratios: Ratios,
    pub(crate) compared: Compared,
    /// In how many segments each term stood.
    frequencies: FxHashMap<Term, u32>,
    n_segments: u32,
    weights: ByFrequency,
    holders: Holders,
}

/// A segment that leaves the hot tier.
pub(crate) struct Leaving {
    pub(crate) spans: Vec<u32>,
    pub(crate) time: f64,
    pub(crate) is_marked: bool,
}

impl Memory {
    /// How much a term says, by the segments so far.
    pub(crate) fn weight(&self, term: Term) -> f64 {
        let frequency = self.frequencies.get(&term).copied().unwrap_or(0);
        self.weights.get(self.n_segments.max(1), frequency.max(1), |n, d| libm::log1p(n / d))
    }

    pub(crate) fn meaning(&self, bag: &Bag) -> Meaning {
        Meaning::of(bag, |term| self.weight(term))
    }

    /// A segment in a seat of its own.
    #[cfg(test)]
    pub(super) fn seated(&mut self, segment: Segment) -> Segment {
        Segment { seat: self.holders.add(&segment.meaning), ..segment }
    }

    /// How alike a text is to each segment: by the vectors if both have one, else by the terms.
    pub(crate) fn likeness(&self, meaning: &Meaning) -> Likeness {
        let mut likeness = self.holders.cosines(meaning);
        if let Some(vector) = &meaning.vector {
            for segment in self.warm.iter().chain(&self.cold) {
                if let Some(own) = &segment.meaning.vector {
                    likeness[segment.seat] = cosine(vector, own);
                }
            }
        }
        likeness
    }

    /// Takes what leaves the hot tier into warm memory, as it is so far.
    pub(crate) fn admit(
        &mut self,
        log: &Log,
        leaving: Vec<Leaving>,
        env: &mut Env<'_>,
    ) -> anyhow::Result<()> {
        let contents: Vec<String> = leaving.iter().map(|leaving| text_of(log, &leaving.spans)).collect();
        let mut vectors = env.embed_each(&contents)?.into_iter();
        for (leaving, content) in leaving.into_iter().zip(contents) {
            let original_tokens: u32 =
                leaving.spans.iter().map(|&span| log.spans[span as usize].tokens).sum();
            if original_tokens == 0 {
                continue;
            }
            let bag = bag_of(&content);
            self.n_segments += 1;
            for (term, _) in &bag {
                *self.frequencies.entry(*term).or_default() += 1;
            }
            let mut meaning = self.meaning(&bag);
            meaning.vector = vectors.next().flatten();
            let original_entities = entities::entities(&content);
            let entities: Vec<Entity> = original_entities.iter().map(|name| named(name)).collect();
            self.counts.add(&entities);
            let id = self.n_segments - 1;
            let likeness = self.likeness(&meaning);
            let (nearest, twin) = self.nearest(&likeness, id);
            for other in self.warm.iter_mut().chain(&mut self.cold) {
                // Of equal ones the newest, which stays longest.
                if likeness[other.seat] > 0.0 && likeness[other.seat] >= other.nearest {
                    (other.nearest, other.twin) = (likeness[other.seat], Some(id));
                }
            }
            let seat = self.holders.add(&meaning);
            let segment = Segment {
                id,
                importance: 0.0,
                judged: leaving.time,
                created: leaving.time,
                last_accessed: leaving.time,
                access_count: 0,
                level: Level::None,
                metadata: Metadata {
                    original_tokens,
                    compressed_tokens: original_tokens,
                    original_entities,
                    retained_entities: Vec::new(),
                },
                content,
                spans: leaving.spans,
                is_marked: leaving.is_marked,
                entities,
                meaning,
                seat,
                nearest,
                twin,
                expanded: None,
            };
            self.warm.push(segment);
        }
        Ok(())
    }

    /// Compresses lightly what came into warm memory, by its rank among what is there.
    fn lighten(
        &mut self,
        log: &Log,
        limits: &Limits,
        formula: &Formula,
        situation: &Situation,
        env: &mut Env<'_>,
    ) -> anyhow::Result<()> {
        let mut warm = std::mem::take(&mut self.warm);
        self.judge(&mut warm, formula, situation);
        let mut ranks: Vec<f64> = warm.iter().map(|segment| segment.importance).collect();
        ranks.sort_by(f64::total_cmp);
        for segment in warm {
            if segment.level != Level::None {
                self.warm.push(segment);
                continue;
            }
            let ratio = limits.by_rank(limits.light_ratio, rank(&ranks, segment.importance));
            let of = (&*segment.content, &*segment.metadata.original_entities);
            let content = light(log, &segment.spans, of, segment.metadata.original_tokens, ratio, env)?;
            let segment = self.compressed(segment, content, Level::Light, env);
            env.work.items.extend(moved(log, &segment, Fate::Warm));
            self.warm.push(segment);
        }
        Ok(())
    }

    /// Gives segments the importance that they have now.
    fn judge(&self, tier: &mut [Segment], formula: &Formula, situation: &Situation) {
        for segment in tier {
            segment.importance = importance(segment, situation, &self.counts, formula);
            segment.judged = situation.time;
        }
    }

    /// The segment that is most like a text, but for one of this number, and how much; of equal ones the newest.
    fn nearest(&self, likeness: &Likeness, but: u32) -> (f64, Option<u32>) {
        let others = self.warm.iter().chain(&self.cold).filter(|segment| segment.id != but);
        let alike =
            others.map(|segment| (likeness[segment.seat], segment.id)).filter(|(alike, _)| *alike > 0.0);
        let best = alike.max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        best.map_or((0.0, None), |(alike, id)| (alike, Some(id)))
    }

    /// A segment with the content of a further level.
    fn compressed(&mut self, segment: Segment, content: String, level: Level, env: &Env<'_>) -> Segment {
        let tokens = env.tokenizer.count(&content);
        compressor::count(&mut self.ratios, level, segment.metadata.original_tokens, tokens);
        // A name that was cut in two, or that a model made up, was not retained.
        let original: FxHashSet<&str> =
            segment.metadata.original_entities.iter().map(String::as_str).collect();
        let mut retained_entities = entities::entities(&content);
        retained_entities.retain(|name| original.contains(name.as_str()));
        let metadata = Metadata { compressed_tokens: tokens, retained_entities, ..segment.metadata };
        Segment { content, level, metadata, expanded: None, ..segment }
    }

    /// Moves what is over a limit one tier further, the least important first.
    pub(crate) fn manage(
        &mut self,
        log: &Log,
        limits: &Limits,
        formula: &Formula,
        situation: &Situation,
        env: &mut Env<'_>,
    ) -> anyhow::Result<()> {
        self.lighten(log, limits, formula, situation, env)?;
        let mut warm = std::mem::take(&mut self.warm);
        let gone = over(&mut warm, limits.warm_tokens);
        self.warm = warm;
        for segment in gone {
            let original = segment.metadata.original_tokens;
            let has_room = compressor::has_room(original, limits.heavy_ratio);
            let written = match env.model.filter(|_| has_room) {
                Some(_) => {
                    let written =
                        compressor::heavy_by_model(&segment.content, original, limits.heavy_ratio, env)?;
                    if written.is_none() {
                        env.work.fallback = Some("rules");
                    }
                    written.map(|text| match text.starts_with("facts:") {
                        true => text,
                        false => format!("facts: {text}"),
                    })
                }
                None => None,
            };
            let content = written.unwrap_or_else(|| {
                let ratio = limits.heavy_ratio;
                compressor::heavy(&segment.content, original, ratio, &self.counts, env.tokenizer)
            });
            let segment = self.compressed(segment, content, Level::Heavy, env);
            env.work.items.extend(moved(log, &segment, Fate::Cold));
            self.cold.push(segment);
        }
        let mut cold = std::mem::take(&mut self.cold);
        self.judge(&mut cold, formula, situation);
        let mut evicted: FxHashSet<u32> = FxHashSet::default();
        for segment in over(&mut cold, limits.cold_tokens) {
            env.work.items.extend(moved(log, &segment, Fate::Evicted));
            self.holders.remove(segment.seat, &segment.meaning);
            evicted.insert(segment.id);
        }
        self.cold = cold;
        // What was like one that is gone may now be the last that says it.
        let is_widowed = |segment: &&Segment| segment.twin.is_some_and(|twin| evicted.contains(&twin));
        let widowed = self.warm.iter().chain(&self.cold).filter(is_widowed);
        let new = widowed.map(|s| (s.id, self.nearest(&self.likeness(&s.meaning), s.id)));
        let new: FxHashMap<u32, (f64, Option<u32>)> = new.collect();
        for segment in self.warm.iter_mut().chain(&mut self.cold) {
            if let Some(&(nearest, twin)) = new.get(&segment.id) {
                (segment.nearest, segment.twin) = (nearest, twin);
            }
        }
        // Segments stand in the order of their time.
        self.warm.sort_by_key(|segment| segment.id);
        self.cold.sort_by_key(|segment| segment.id);
        Ok(())
    }
}

/// The share of others that a segment is more important than; of equal ones half. Alone it is in the middle.
fn rank(sorted: &[f64], importance: f64) -> f64 {
    let below = sorted.partition_point(|other| *other < importance);
    let upto = sorted.partition_point(|other| *other <= importance);
    match sorted.len() {
        0 | 1 => 0.5,
        n => (below + upto - 1) as f64 / 2.0 / (n - 1) as f64,
    }
}

/// Takes out of a tier its least important segments until it fits, the marked ones last; of equal ones the oldest goes first.
fn over(tier: &mut Vec<Segment>, limit: u32) -> Vec<Segment> {
    let mut tokens: u64 = tier.iter().map(|segment| u64::from(segment.metadata.compressed_tokens)).sum();
    tier.sort_by(|a, b| {
        let by_importance = a.importance.total_cmp(&b.importance).then(a.id.cmp(&b.id));
        a.is_marked.cmp(&b.is_marked).then(by_importance)
    });
    let mut n = 0;
    while n < tier.len() && (tokens > u64::from(limit) || tier.len() - n > MAX_SEGMENTS) {
        tokens -= u64::from(tier[n].metadata.compressed_tokens);
        n += 1;
    }
    tier.drain(..n).collect()
}

/// What is kept of a segment in warm memory: what a model writes where there is one and room, else what rules choose.
fn light(
    log: &Log,
    spans: &[u32],
    (content, names): (&str, &[String]),
    original_tokens: u32,
    ratio: f64,
    env: &mut Env<'_>,
) -> anyhow::Result<String> {
    if env.model.is_some() && compressor::has_room(original_tokens, ratio) {
        if let Some(written) = compressor::light_by_model(content, original_tokens, ratio, env)? {
            return Ok(written);
        }
        env.work.fallback = Some("rules");
    }
    compressor::light(log, spans, (content, names), ratio, env)
}

/// Characters of a segment's part of a step that its row shows.
const SHOWN: usize = 200;

/// The rows of a segment that goes to another tier, or nowhere, or comes back: one for each step that it has a part of.
pub(crate) fn moved(log: &Log, segment: &Segment, fate: Fate) -> Vec<Item> {
    let step = |span: u32| log.spans[span as usize].step;
    let row = |spans: &[u32]| {
        let (first, last) = (*spans.first()?, *spans.last()?);
        let (start, end) = (log.spans[first as usize].start, log.spans[last as usize].end);
        let text = &log.trajectory.steps[step(first) as usize].text[start as usize..end as usize];
        let cut = text.char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| at);
        Some(Item {
            text: text[..cut].into(),
            kind: Who::of(log, step(first)).name(),
            source: Some((step(first), start..end)),
            score: Some(segment.importance),
            fate,
            of: None,
        })
    };
    segment.spans.chunk_by(|&a, &b| step(a) == step(b)).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::super::relevance::tests::FORMULA;
    use super::*;
    use crate::text::tokens::Tokenizer;

    const LIMITS: Limits =
        Limits { warm_tokens: 4000, cold_tokens: 4000, light_ratio: 4.0, heavy_ratio: 11.0, spread: 0.25 };

    fn situation(time: f64) -> Situation {
        Situation { time, context: Vec::new(), entities: Default::default(), query: None }
    }

    /// A memory that each turn of the script was admitted to, a unit of time apart, with the limits kept after each.
    fn filled(log: &Log, limits: &Limits) -> Memory {
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let mut env = Env::new(&tokenizer, rand_chacha::ChaCha8Rng::seed_from_u64(1), None);
        let mut memory = Memory::default();
        for (turn, steps) in log.turns.iter().enumerate().skip(1) {
            let spans = steps.steps.clone().flat_map(|step| log.spans_of(step)).collect();
            let leaving = Leaving { spans, time: turn as f64, is_marked: false };
            memory.admit(log, vec![leaving], &mut env).unwrap();
            memory.manage(log, limits, &FORMULA, &situation(turn as f64), &mut env).unwrap();
        }
        memory
    }

    fn log(n: usize) -> Log {
        let turn = |i: usize| {
            format!(
                "agent: part{i}.py holds the tables of the month{i} and the sums of their rows, which we read one by one before noon~we went on then\n"
            )
        };
        Log::script(&format!("user: go\n{}", (0..n).map(turn).collect::<String>()))
    }

    #[test]
    fn segments_move_from_warm_to_cold_to_nothing() {
        let limits = Limits { warm_tokens: 40, cold_tokens: 20, ..LIMITS };
        let log = log(40);
        let memory = filled(&log, &limits);
        let tokens = |tier: &[Segment]| tier.iter().map(|s| s.metadata.compressed_tokens).sum::<u32>();
        assert!(tokens(&memory.warm) <= 40 && tokens(&memory.cold) <= 20);
        assert!(!memory.warm.is_empty() && !memory.cold.is_empty());
        assert!(memory.warm.len() + memory.cold.len() < 40, "some are evicted");
        assert!(memory.warm.iter().all(|s| s.level == Level::Light && s.metadata.original_tokens > 0));
        assert!(memory.cold.iter().all(|s| s.level == Level::Heavy));
        // All else equal, the newest are the most important.
        assert_eq!(memory.warm.last().unwrap().id, 39);
        assert!(memory.warm[0].id > memory.cold[0].id && memory.cold[0].id > 0);
        assert!(memory.ratios["light"].before > memory.ratios["light"].after);
    }

    #[test]
    fn ranks_and_ratios_by_hand() {
        assert_eq!([1.0, 2.0, 4.0].map(|i| rank(&[1.0, 2.0, 4.0], i)), [0.0, 0.5, 1.0]);
        assert_eq!((rank(&[3.0], 3.0), rank(&[3.0; 5], 3.0)), (0.5, 0.5));
        assert_eq!([0.0, 0.5, 1.0].map(|share| LIMITS.by_rank(4.0, share)), [5.0, 4.0, 3.0]);
    }

    /// Four turns leave at once; the newest is the most important, and keeps the most of its tokens.
    #[test]
    fn the_more_important_a_segment_the_less_it_is_compressed() {
        let line = |turn: usize, i: usize| {
            format!("part{turn}_{i}.py holds the tables of month {i} and the sums of their rows")
        };
        let turn = |turn: usize| {
            format!("agent: {}\n", (0..12).map(|i| line(turn, i)).collect::<Vec<_>>().join("~"))
        };
        let log = Log::script(&format!("user: go\n{}", (0..4).map(turn).collect::<String>()));
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let mut env = Env::new(&tokenizer, rand_chacha::ChaCha8Rng::seed_from_u64(1), None);
        let after = |spread: f64, env: &mut Env<'_>| {
            let mut memory = Memory::default();
            let leaving = (1..5).map(|turn| Leaving {
                spans: log.spans_of(turn).collect(),
                time: f64::from(turn),
                is_marked: false,
            });
            memory.admit(&log, leaving.collect(), env).unwrap();
            memory.manage(&log, &Limits { spread, ..LIMITS }, &FORMULA, &situation(5.0), env).unwrap();
            memory.warm.iter().map(|s| s.metadata.compressed_tokens).collect::<Vec<_>>()
        };
        let (spread, even) = (after(0.5, &mut env), after(0.0, &mut env));
        assert!(spread[0] < even[0] && even[0] < spread[3], "{spread:?} {even:?}");
        assert!(even.iter().all(|tokens| *tokens == even[0]), "{even:?}");
    }

    /// Marked turns of the very beginning stay in warm memory, where all others of their age are gone.
    #[test]
    fn what_is_marked_stays_regardless_of_age() {
        let limits = Limits { warm_tokens: 40, cold_tokens: 20, ..LIMITS };
        let log = log(40);
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let mut env = Env::new(&tokenizer, rand_chacha::ChaCha8Rng::seed_from_u64(1), None);
        let mut memory = Memory::default();
        for turn in 1..=40 {
            let time = f64::from(turn);
            let leaving = Leaving { spans: log.spans_of(turn).collect(), time, is_marked: turn <= 2 };
            memory.admit(&log, vec![leaving], &mut env).unwrap();
            memory.manage(&log, &limits, &FORMULA, &situation(time), &mut env).unwrap();
        }
        let ids: Vec<u32> = memory.warm.iter().map(|segment| segment.id).collect();
        assert!(ids.len() > 2 && ids[..2] == [0, 1] && ids[2] > 30, "{ids:?}");
        assert!(memory.cold.iter().all(|segment| segment.id > 20));
    }

    #[test]
    fn identical_turns_are_not_unique_at_all() {
        let log = Log::script(&format!("user: go\n{}", "agent: the very same words in src/a.py\n".repeat(5)));
        let memory = filled(&log, &LIMITS);
        assert_eq!(memory.warm.len(), 5);
        assert!(memory.warm.iter().all(|segment| segment.nearest > 1.0 - 1e-9));
    }

    #[test]
    fn the_last_copy_of_a_fact_is_unique_again() {
        let log = Log::script(
            "user: go\nagent: roses are red in src/a.py\nagent: the harbour closes at noon\nagent: the harbour closes at noon\nagent: violets grow in src/b.py",
        );
        let mut memory = filled(&log, &LIMITS);
        assert!(memory.warm[1].nearest > 0.99 && memory.warm[2].nearest > 0.99);
        assert_eq!((memory.warm[1].twin, memory.warm[2].twin), (Some(2), Some(1)));
        // The second goes to cold memory and from there.
        let mut warm = std::mem::take(&mut memory.warm);
        let twin = warm.remove(1);
        memory.cold = vec![Segment { level: Level::Heavy, ..twin }];
        memory.warm = warm;
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let mut env = Env::new(&tokenizer, rand_chacha::ChaCha8Rng::seed_from_u64(1), None);
        let limits = Limits { cold_tokens: 0, ..LIMITS };
        memory.manage(&log, &limits, &FORMULA, &situation(9.0), &mut env).unwrap();
        assert!(memory.cold.is_empty() && memory.warm.len() == 3);
        assert!(memory.warm[1].nearest < 0.5, "{:?}", memory.warm[1].nearest);
        assert_ne!(memory.warm[1].twin, Some(1));
    }

    #[test]
    fn tiny_turns_are_bounded() {
        let log = Log::script(&format!("user: go\n{}", "agent: x\n".repeat(1200)));
        let memory = filled(&log, &LIMITS);
        assert!(memory.warm.len() <= MAX_SEGMENTS && memory.cold.len() <= MAX_SEGMENTS);
    }
}
