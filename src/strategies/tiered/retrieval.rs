//! The retrieval engine: which compressed segments are relevant now, and what of them comes back.
//!
//! The seed's `IDENTIFY_RELEVANT_SEGMENTS` and `DECOMPRESS_SEGMENT` (tiered-memory, 3.4): all segments of warm and
//! cold memory are judged by the same formula as for the manager, with what is asked as the query; those above the
//! threshold come back, the best `n` of them, and count as accessed. `stored` brings back the original lines (what a
//! system with a disk would do); `generated` has the model expand the content, lightly and heavily compressed ones
//! with a prompt of their own, once for each content; where it cannot, or there is no model, the content itself comes
//! back.

use super::manager::Memory;
use super::relevance::{Formula, Situation, importance};
use super::segment::{Level, Segment};
use crate::context::Recalled;
use crate::log::Log;
use crate::models::prompt::{Data, Prompt};
use crate::strategies::{Env, writer};

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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recall {
    pub(crate) threshold: f64,
    pub(crate) top_n: usize,
    pub(crate) max_tokens: u32,
    pub(crate) decompress: Decompress,
}

/// The segments above the threshold, best first: (score, whether cold, place).
pub(crate) fn relevant(
    memory: &Memory,
    situation: &Situation,
    formula: &Formula,
    recall: &Recall,
) -> Vec<(f64, bool, usize)> {
    let score = |segment: &Segment| importance(segment, situation, &memory.counts, formula);
    let warm = memory.warm.iter().enumerate().map(|(at, segment)| (score(segment), false, at));
    let cold = memory.cold.iter().enumerate().map(|(at, segment)| (score(segment), true, at));
    let mut all: Vec<(f64, bool, usize)> = warm.chain(cold).filter(|s| s.0 > recall.threshold).collect();
    // Of equal ones warm before cold, and the newest.
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(b.2.cmp(&a.2)));
    all.truncate(recall.top_n);
    all
}

/// Brings back what is relevant, to the limit of tokens, best first.
pub(crate) fn recall(
    log: &Log,
    memory: &mut Memory,
    situation: &Situation,
    formula: &Formula,
    recall: &Recall,
    env: &mut Env<'_>,
) -> anyhow::Result<Vec<Recalled>> {
    let mut left = recall.max_tokens;
    let mut recalled = Vec::new();
    for (_, is_cold, at) in relevant(memory, situation, formula, recall) {
        let segment = if is_cold { &mut memory.cold[at] } else { &mut memory.warm[at] };
        let (tokens, parts) = decompressed(log, segment, recall.decompress, situation.time, env)?;
        if tokens > left || tokens == 0 {
            continue;
        }
        left -= tokens;
        segment.access_count += 1;
        segment.last_accessed = situation.time;
        recalled.extend(parts);
    }
    Ok(recalled)
}

/// What comes back of a segment, and its tokens.
fn decompressed(
    log: &Log,
    segment: &mut Segment,
    decompress: Decompress,
    time: f64,
    env: &mut Env<'_>,
) -> anyhow::Result<(u32, Vec<Recalled>)> {
    if decompress == Decompress::Stored {
        let parts = segment.original(log).into_iter().map(Recalled::Pieces).collect();
        return Ok((segment.metadata.original_tokens, parts));
    }
    let text = match &segment.expanded {
        Some((text, _)) => text.clone(),
        None => {
            let text = expanded(segment, env)?;
            segment.expanded = Some((text.clone(), time));
            text
        }
    };
    Ok((env.tokenizer.count(&text), vec![Recalled::Generated(text)]))
}

/// The content as a model expands it; itself where there is none, or it gave nothing usable.
fn expanded(segment: &Segment, env: &mut Env<'_>) -> anyhow::Result<String> {
    if env.model.is_none() {
        return Ok(segment.content.clone());
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
    Ok(text.unwrap_or_else(|| segment.content.clone()))
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

    const RECALL: Recall =
        Recall { threshold: 0.5, top_n: 2, max_tokens: 100, decompress: Decompress::Generated };

    /// Each factor but entities is 1 or nearly so for what the query and the context name, and the rest has only
    /// recency, access and uniqueness: (0.95 + 0.5 + 1) / 6 = 0.41.
    #[test]
    fn what_is_above_the_threshold_comes_best_first() {
        let memory = memory(&["charlie delta", "alpha bravo"], &["alpha bravo charlie"]);
        let found = relevant(&memory, &situation(&memory, "alpha bravo"), &FORMULA, &RECALL);
        assert_eq!(found.iter().map(|f| (f.1, f.2)).collect::<Vec<_>>(), [(false, 1), (true, 0)]);
        let one =
            relevant(&memory, &situation(&memory, "alpha bravo"), &FORMULA, &Recall { top_n: 1, ..RECALL });
        assert_eq!(one.len(), 1);
        let none =
            relevant(&memory, &situation(&memory, "echo"), &FORMULA, &Recall { threshold: 0.7, ..RECALL });
        assert!(none.is_empty());
    }

    #[test]
    fn what_comes_back_counts_as_accessed() {
        use rand::SeedableRng as _;
        let tokenizer = crate::features::tokens::Tokenizer::load("o200k").unwrap();
        let mut env = Env::new(&tokenizer, rand_chacha::ChaCha8Rng::seed_from_u64(1), None);
        let log = Log::script("user: go");
        let mut memory = memory(&["alpha bravo", "charlie delta"], &[]);
        let situation = situation(&memory, "alpha bravo");
        let found = super::recall(&log, &mut memory, &situation, &FORMULA, &RECALL, &mut env).unwrap();
        assert_eq!(found, [Recalled::Generated("alpha bravo".to_owned())]);
        let counts = |memory: &Memory| memory.warm.iter().map(|s| s.access_count).collect::<Vec<_>>();
        assert_eq!((counts(&memory), memory.warm[0].last_accessed), (vec![1, 0], 2.0));
        // What does not fit stays where it is.
        let tight = Recall { max_tokens: 1, ..RECALL };
        assert!(super::recall(&log, &mut memory, &situation, &FORMULA, &tight, &mut env).unwrap().is_empty());
        assert_eq!(counts(&memory), [1, 0]);
    }
}
