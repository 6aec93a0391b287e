//! The retrieval engine: which compressed segments are relevant now, and what of them comes back.
//!
//! The seed's `IDENTIFY_RELEVANT_SEGMENTS` and `DECOMPRESS_SEGMENT` (tiered-memory, 3.4): all segments of warm and
//! cold memory are compared with what goes on and what is asked (`relevance`); those above a floor come back, the best `n` of them
//! that fit, by relevance times the share of their terms that neither the prompt nor a better one has (as in `notes`: a lexical search
//! finds first what the prompt says already), and count as accessed. The floor is a share: of all comparisons so far in the log so many were less
//! relevant. So it means the same for bags of words and for vectors, of which the one are mostly below 0.2 and the other above 0.4; a threshold
//! of 0.5 on the seed's importance let something come back at 16 of 1,752 decisions. `stored` brings back the original lines (what a
//! system with a disk would do); `generated` has the model expand the content, lightly and heavily compressed ones
//! with a prompt of their own, once for each content; where it cannot, or there is no model, the content itself comes
//! back.

use rustc_hash::FxHashSet;
use serde_json::json;

use super::manager::{Memory, moved};
use super::relevance::{Formula, Situation, importance, relevance};
use super::segment::{Level, Segment, text_of};
use crate::context::Recalled;
use crate::context::log::Log;
use crate::models::prompt::{Data, Prompt};
use crate::strategies::extractive::Term;
use crate::strategies::notes::standing::Standing;
use crate::strategies::{Env, Fate, writer};

const EXPAND: &str = include_str!("expand.txt");
const EXPAND_STRUCTURED: &str = include_str!("expand_structured.txt");
/// Tokens of an expanded segment, at most.
const MAX_EXPANDED: u32 = 400;

/// What comes back of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Decompress {
    /// Its original lines.
    Stored,
    /// What a model makes of its content.
    Generated,
}

/// When something comes back, and how much.
#[derive(Clone, Copy)]
pub(crate) struct Recall<'a> {
    /// The share of comparisons that must have been less relevant.
    pub(crate) floor: f64,
    /// What stands in the prompt, where what is new comes back; none where all does.
    pub(crate) standing: Option<&'a Standing>,
    /// Segments, at most.
    pub(crate) top_n: usize,
    pub(crate) max_tokens: u32,
    pub(crate) decompress: Decompress,
    /// Whether the prompt shows warm memory, and cold: what stands there does not come back as it stands there.
    pub(crate) shows: [bool; 2],
    /// Segments of these tiers that had no room there, by their numbers.
    pub(crate) left_out: &'a FxHashSet<u32>,
}

/// The segments above the floor, best first: (relevance, whether cold, place).
pub(crate) fn relevant(
    memory: &mut Memory,
    situation: &Situation,
    formula: &Formula,
    floor: f64,
) -> Vec<(f64, bool, usize)> {
    let score = |segment: &Segment| relevance(segment, situation, &memory.counts, formula);
    let warm = memory.warm.iter().enumerate().map(|(at, segment)| (score(segment), false, at));
    let cold = memory.cold.iter().enumerate().map(|(at, segment)| (score(segment), true, at));
    let mut all: Vec<(f64, bool, usize)> = warm.chain(cold).collect();
    all.iter().for_each(|(relevance, ..)| memory.compared.add(*relevance));
    // Of equal ones warm before cold, and the newest.
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(b.2.cmp(&a.2)));
    let n = all.partition_point(|(relevance, ..)| memory.compared.is_above(*relevance, floor));
    all.truncate(n);
    all
}

/// Of how many times as many segments as may come back the new ones are chosen.
const CHOSEN_FROM: usize = 4;

/// Takes of the relevant ones that which is the most by relevance times novelty, if anything is new.
fn next(
    left: &mut Vec<(f64, bool, usize)>,
    memory: &Memory,
    standing: Option<&Standing>,
    said: &FxHashSet<Term>,
) -> Option<(f64, bool, usize)> {
    let Some(standing) = standing else { return (!left.is_empty()).then(|| left.remove(0)) };
    let gain = |&(relevance, is_cold, at): &(f64, bool, usize)| {
        let segment = if is_cold { &memory.cold[at] } else { &memory.warm[at] };
        relevance * segment.meaning.novelty(|term| standing.has(term) || said.contains(&term))
    };
    let gains = left.iter().map(gain).enumerate();
    // Of equal ones the first, which is the most relevant.
    let (place, most) = gains.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    (most > 0.0).then(|| left.remove(place))
}

/// Brings back what is relevant, to the limits, best first: what does not fit, or says word for word what came back
/// already, takes no other's place.
pub(crate) fn recall(
    log: &Log,
    memory: &mut Memory,
    situation: &Situation,
    formula: &Formula,
    recall: &Recall<'_>,
    env: &mut Env<'_>,
) -> anyhow::Result<Vec<Recalled>> {
    let mut room = recall.max_tokens;
    let (mut recalled, mut n) = (Vec::new(), 0);
    let mut said: FxHashSet<String> = FxHashSet::default();
    let mut terms: FxHashSet<Term> = FxHashSet::default();
    let asks = recall.decompress == Decompress::Generated && env.model.is_some();
    let mut n_asked = 0;
    let mut left = relevant(memory, situation, formula, recall.floor);
    if recall.standing.is_some() {
        left.truncate(recall.top_n.saturating_mul(CHOSEN_FROM));
    }
    while n < recall.top_n && room > 0 {
        let Some((score, is_cold, at)) = next(&mut left, memory, recall.standing, &terms) else { break };
        let segment = if is_cold { &mut memory.cold[at] } else { &mut memory.warm[at] };
        // A decision has a model expand as many as may come back, and no more; what it expanded before is there.
        if asks && segment.expanded.is_none() {
            if n_asked == recall.top_n {
                continue;
            }
            n_asked += 1;
        }
        let (tokens, text, parts) = decompressed(log, segment, recall.decompress, situation.time, env)?;
        let in_sight = recall.shows[usize::from(is_cold)] && !recall.left_out.contains(&segment.id);
        let is_shown = in_sight && text == segment.content;
        if tokens > room || tokens == 0 || is_shown || !said.insert(text) {
            continue;
        }
        room -= tokens;
        n += 1;
        terms.extend(segment.meaning.terms());
        segment.access_count += 1;
        segment.last_accessed = situation.time;
        let details = json!({
            "segment_id": segment.id,
            "relevance": score,
            "importance_score": importance(segment, situation, &memory.counts, formula),
            "compression_level": segment.level as u8,
        });
        env.work.recalled.extend(parts.iter().map(|_| details.clone()));
        env.work.items.extend(moved(log, segment, Fate::Recalled));
        recalled.extend(parts);
    }
    Ok(recalled)
}

/// What comes back of a segment: its tokens, its text, and its parts.
fn decompressed(
    log: &Log,
    segment: &mut Segment,
    decompress: Decompress,
    time: f64,
    env: &mut Env<'_>,
) -> anyhow::Result<(u32, String, Vec<Recalled>)> {
    if decompress == Decompress::Stored {
        let parts = segment.original(log).into_iter().map(Recalled::Pieces).collect();
        return Ok((segment.metadata.original_tokens, text_of(log, &segment.spans), parts));
    }
    if segment.expanded.is_none() {
        segment.expanded = Some((expanded(segment, env)?, time));
    }
    let written = segment.expanded.as_ref().and_then(|(text, _)| text.clone());
    let text = written.unwrap_or_else(|| segment.content.clone());
    Ok((env.tokenizer.count(&text), text.clone(), vec![Recalled::Generated(text)]))
}

/// The content as a model expands it; nothing where there is none, or it gave nothing usable: then the content itself comes back.
fn expanded(segment: &Segment, env: &mut Env<'_>) -> anyhow::Result<Option<String>> {
    if env.model.is_none() {
        return Ok(None);
    }
    let (template, entities) = match segment.level {
        Level::Heavy => (EXPAND_STRUCTURED, &segment.metadata.original_entities),
        Level::None | Level::Light => (EXPAND, &segment.metadata.retained_entities),
    };
    let entities = entities.join(", ");
    let vars = [
        ("content", Data::fenced(&segment.content).into()),
        ("entities", Data::fenced(&entities).may_cut().into()),
    ];
    let most = segment.metadata.original_tokens.clamp(32, MAX_EXPANDED);
    let text = writer::write(Prompt::render(template, &vars)?, None, most, u32::MAX, env)?;
    if text.is_none() {
        env.work.fallback = Some("the content");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::relevance::tests::{FORMULA, meaning, segment};
    use super::*;

    /// The context is "alpha bravo".
    fn situation(memory: &Memory, query: &str) -> Situation {
        let likeness = |text: &str| memory.likeness(&meaning(text));
        let query = Some(likeness(query));
        Situation { time: 2.0, context: likeness("alpha bravo"), entities: Default::default(), query }
    }

    /// A memory of these texts, warm and cold.
    fn memory(warm: &[&str], cold: &[&str]) -> Memory {
        let mut memory = Memory::default();
        memory.warm = warm.iter().map(|text| memory.seated(segment(text, 1.0))).collect();
        memory.cold = cold.iter().map(|text| memory.seated(segment(text, 1.0))).collect();
        memory
    }

    static NONE: std::sync::LazyLock<FxHashSet<u32>> = std::sync::LazyLock::new(FxHashSet::default);

    fn recall() -> Recall<'static> {
        Recall {
            floor: 0.0,
            standing: None,
            top_n: 2,
            max_tokens: 100,
            decompress: Decompress::Generated,
            shows: [false; 2],
            left_out: &NONE,
        }
    }

    /// By hand, with the context "alpha bravo" and three equal factors of which entities are 0: "alpha bravo" likens 1 to both; beside
    /// "charlie" 0.82; "charlie delta" nothing.
    #[test]
    fn what_is_relevant_comes_best_first() {
        let mut memory = memory(&["charlie delta", "alpha bravo"], &["alpha bravo charlie"]);
        let situation = situation(&memory, "alpha bravo");
        let found = relevant(&mut memory, &situation, &FORMULA, 0.0);
        assert_eq!(found.iter().map(|f| (f.1, f.2)).collect::<Vec<_>>(), [(false, 1), (true, 0)]);
        let by_hand = [2.0 / 3.0, 2.0 / 3.0 * (2.0f64 / 3.0).sqrt()];
        assert!(found.iter().zip(by_hand).all(|(found, hand)| (found.0 - hand).abs() < 1e-9), "{found:?}");
        // Of three comparisons one was below the second, two below the first.
        let n = |memory: &mut Memory, floor| relevant(memory, &situation, &FORMULA, floor).len();
        assert_eq!([0.3, 0.6, 0.7].map(|floor| n(&mut memory, floor)), [2, 1, 0]);
    }

    /// The best says nothing that the prompt has not; the second is half new.
    #[test]
    fn what_the_prompt_says_takes_no_place() {
        let mut memory = memory(&["alpha bravo", "alpha bravo charlie delta", "alpha bravo charlie"], &[]);
        let situation = situation(&memory, "alpha bravo");
        let standing = Standing::of("alpha bravo");
        let mut left = relevant(&mut memory, &situation, &FORMULA, 0.0);
        let mut said = FxHashSet::default();
        let first = next(&mut left, &memory, Some(&standing), &said).unwrap();
        assert_eq!((first.2, left.len()), (1, 2));
        // What the first brought is no news.
        said.extend(memory.warm[1].meaning.terms());
        assert_eq!(next(&mut left, &memory, Some(&standing), &said), None);
        assert_eq!(next(&mut left, &memory, None, &said).unwrap().2, 0);
    }

    fn texts(memory: &mut Memory, recall: &Recall<'_>) -> Vec<String> {
        use rand::SeedableRng as _;
        let tokenizer = crate::text::tokens::Tokenizer::load("o200k").unwrap();
        let mut env = Env::new(&tokenizer, rand_chacha::ChaCha8Rng::seed_from_u64(1), None);
        let situation = situation(memory, "alpha bravo");
        let found = super::recall(&Log::script("user: go"), memory, &situation, &FORMULA, recall, &mut env);
        let text = |recalled: Recalled| match recalled {
            Recalled::Generated(text) => text,
            Recalled::Pieces(_) => panic!("nothing is stored here"),
        };
        found.unwrap().into_iter().map(text).collect()
    }

    /// A long segment that is the most relevant does not fit, and its twin says nothing new: neither takes a place.
    #[test]
    fn what_cannot_come_back_takes_no_place() {
        let long = "alpha bravo ".repeat(60);
        let low = recall();
        let all = |recall: &Recall<'_>| {
            texts(&mut memory(&["alpha", &long, "alpha bravo", "alpha bravo"], &[]), recall)
        };
        assert_eq!(all(&low), ["alpha bravo", "alpha"]);
        assert_eq!(all(&Recall { top_n: 1, ..low }), ["alpha bravo"]);
        assert_eq!(all(&Recall { top_n: 9, max_tokens: 500, ..low }).len(), 3);
    }

    /// Without a model what is generated is the content, which stands in the prompt already where its tier is shown.
    #[test]
    fn what_is_shown_does_not_come_back() {
        let low = Recall { top_n: 9, ..recall() };
        let both = || memory(&["alpha bravo"], &["bravo charlie"]);
        assert_eq!(texts(&mut both(), &low).len(), 2);
        assert_eq!(texts(&mut both(), &Recall { shows: [true, false], ..low }), ["bravo charlie"]);
        assert!(texts(&mut both(), &Recall { shows: [true, true], ..low }).is_empty());
        // What had no room in sight does.
        let left_out: FxHashSet<u32> = [0].into_iter().collect();
        assert_eq!(texts(&mut both(), &Recall { shows: [true, true], left_out: &left_out, ..low }).len(), 2);
    }

    #[test]
    fn what_comes_back_counts_as_accessed() {
        use rand::SeedableRng as _;
        let tokenizer = crate::text::tokens::Tokenizer::load("o200k").unwrap();
        let mut env = Env::new(&tokenizer, rand_chacha::ChaCha8Rng::seed_from_u64(1), None);
        let log = Log::script("user: go");
        let mut memory = memory(&["alpha bravo", "charlie delta"], &[]);
        let situation = situation(&memory, "alpha bravo");
        let found = super::recall(&log, &mut memory, &situation, &FORMULA, &recall(), &mut env).unwrap();
        assert_eq!(found, [Recalled::Generated("alpha bravo".to_owned())]);
        let counts = |memory: &Memory| memory.warm.iter().map(|s| s.access_count).collect::<Vec<_>>();
        assert_eq!((counts(&memory), memory.warm[0].last_accessed), (vec![1, 0], 2.0));
        // What does not fit stays where it is.
        let tight = Recall { max_tokens: 1, ..recall() };
        assert!(super::recall(&log, &mut memory, &situation, &FORMULA, &tight, &mut env).unwrap().is_empty());
        assert_eq!(counts(&memory), [1, 0]);
    }
}
