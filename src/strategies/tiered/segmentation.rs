//! Cuts history into segments: by turns, joined by topic, time or entities, and long ones cut where the topic shifts.
//!
//! The seed's `SEGMENT_CONTENT` (4.1): turns first, then turns that are too long at topic shifts. A shift is a valley
//! of likeness between what stands before a place and what stands after it (TextTiling, Hearst 1997): of vectors where
//! the variant has a model of embeddings, else of bags of words and atoms. Of the places where a cut leaves a segment
//! between half of the longest length and that length the deepest is taken. The other ways of the seed join
//! neighbouring turns as long as they fit in one segment: up to the next topic shift (`topic`), while no pause is
//! between them (`time`), while they share entities (`entity`).

use std::collections::BTreeSet;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::entities::entities;
use super::segment::{Cut, Meaning, cosine, text_of};
use crate::context::log::Log;
use crate::strategies::Env;
use crate::strategies::notes::index::{Bag, bag_of, collect};

/// What joins turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    Turns,
    Topic,
    Time,
    Entity,
}

/// Neighbouring turns that are less alike have different topics, valley or not.
const SAME_TOPIC: f64 = 0.25;
/// Up to so much time between them, in turns, there is no pause.
const NO_PAUSE: f64 = 1.5;
/// From this share of common entities on, of all that both have, turns are about the same.
const SAME_ENTITIES: f64 = 0.3;
/// Lines on either side of a place that are compared.
const WINDOW: usize = 3;

/// A turn that leaves the hot tier: its lines, and its time.
pub(crate) struct Turn {
    pub(crate) spans: Vec<u32>,
    pub(crate) time: f64,
}

/// Segments of these turns, in order, as lines with the time of the first; each of `max_tokens` at most, unless it is one line.
///
/// # Errors
/// The model of embeddings answers nothing any more.
pub(crate) fn segment(
    log: &Log,
    turns: &[Turn],
    by: By,
    max_tokens: u32,
    env: &mut Env<'_>,
) -> anyhow::Result<Vec<(Vec<u32>, f64)>> {
    let tokens = |spans: &[u32]| spans.iter().map(|&span| log.spans[span as usize].tokens).sum::<u32>();
    let ends = ends(log, turns, by, env)?;
    let mut segments: Vec<(Vec<u32>, f64)> = Vec::new();
    // Tokens of the last segment.
    let mut sum = 0;
    for (at, turn) in turns.iter().enumerate() {
        let own = tokens(&turn.spans);
        let joins = at > 0 && !ends[at - 1] && sum + own <= max_tokens;
        match segments.last_mut().filter(|_| joins) {
            Some(segment) => {
                segment.0.extend(&turn.spans);
                sum += own;
            }
            None => {
                let cuts = cut(log, &turn.spans, max_tokens, env)?;
                segments.extend(cuts.into_iter().map(|cut| (turn.spans[cut].to_vec(), turn.time)));
                sum = segments.last().map_or(0, |(spans, _)| tokens(spans));
            }
        }
    }
    Ok(segments)
}

/// Whether something ends between each turn and the next.
fn ends(log: &Log, turns: &[Turn], by: By, env: &mut Env<'_>) -> anyhow::Result<Vec<bool>> {
    let names = |turn: &Turn| entities(&text_of(log, &turn.spans)).into_iter().collect::<BTreeSet<_>>();
    Ok(match by {
        By::Turns => vec![true; turns.len()],
        By::Topic => {
            let texts = turns.iter().map(|turn| text_of(log, &turn.spans)).collect();
            let meanings = meanings(texts, env)?;
            shifts(&meanings.windows(2).map(|pair| alike(&pair[0], &pair[1])).collect::<Vec<_>>())
        }
        By::Time => turns.windows(2).map(|pair| pair[1].time - pair[0].time > NO_PAUSE).collect(),
        By::Entity => {
            let names: Vec<BTreeSet<String>> = turns.iter().map(names).collect();
            let differ = |pair: &[BTreeSet<String>]| {
                let shared = pair[0].intersection(&pair[1]).count() as f64;
                shared == 0.0 || shared < SAME_ENTITIES * pair[0].union(&pair[1]).count() as f64
            };
            names.windows(2).map(differ).collect()
        }
    })
}

/// Where the topic shifts, by how alike the sides of each place are: the valleys whose depth, the climb to the peaks on
/// both sides, is at least the mean less half a standard deviation (Hearst's stricter cutoff), and what is not alike at all.
fn shifts(likeness: &[f64]) -> Vec<bool> {
    // The peak that a climb from each place ends on, one place further each time.
    let peaks = |values: &mut dyn Iterator<Item = &f64>| {
        let climb = |(before, peak): &mut (f64, f64), &value: &f64| {
            *peak = if *before >= value { *peak } else { value };
            *before = value;
            Some(*peak)
        };
        values.scan((f64::NEG_INFINITY, 0.0), climb).collect::<Vec<f64>>()
    };
    let (left, right) = (peaks(&mut likeness.iter()), peaks(&mut likeness.iter().rev()));
    let last = likeness.len().saturating_sub(1);
    let climbs = |(at, right): (usize, &f64)| (left[at] - likeness[at], right - likeness[at]);
    let climbs: Vec<(f64, f64)> = right.iter().rev().enumerate().map(climbs).collect();
    let n = climbs.len().max(1) as f64;
    let mean = climbs.iter().map(|(left, right)| left + right).sum::<f64>() / n;
    let square = |(left, right): &(f64, f64)| (left + right - mean) * (left + right - mean);
    let deviation = libm::sqrt(climbs.iter().map(square).sum::<f64>() / n);
    let is_valley = |at: usize, (left, right): (f64, f64)| {
        let rises = (at == 0 || left > 0.0) && (at == last || right > 0.0);
        rises && left + right > 0.0 && left + right >= mean - deviation / 2.0
    };
    let shifts = |(at, climbs)| likeness[at] < SAME_TOPIC || is_valley(at, climbs);
    climbs.into_iter().enumerate().map(shifts).collect()
}

/// What texts are about, with vectors where a model of embeddings reads them all.
fn meanings(texts: Vec<String>, env: &mut Env<'_>) -> anyhow::Result<Vec<Meaning>> {
    Ok(match env.embed(&texts)? {
        Some(vectors) => vectors.into_iter().map(Meaning::of_vector).collect(),
        None => texts.iter().map(|text| Meaning::of(&bag_of(text), |_| 1.0)).collect(),
    })
}

fn alike(a: &Meaning, b: &Meaning) -> f64 {
    match (&a.vector, &b.vector) {
        (Some(a), Some(b)) => cosine(a, b),
        _ => a.cosine(b),
    }
}

/// Cuts lines at the deepest valleys so that no piece has more than `max_tokens`.
///
/// # Errors
/// As [`segment`].
pub(crate) fn cut(log: &Log, spans: &[u32], max_tokens: u32, env: &mut Env<'_>) -> anyhow::Result<Vec<Cut>> {
    let tokens: Vec<u32> = spans.iter().map(|&span| log.spans[span as usize].tokens).collect();
    let mut cuts = Vec::new();
    let (mut start, mut sum) = (0, 0);
    for at in 0..spans.len() {
        while at > start && sum + tokens[at] > max_tokens {
            // Places that leave at least half a segment before them; at worst the last one.
            let mut before = 0;
            let half = |place: &usize| {
                before += tokens[*place - 1];
                before * 2 >= max_tokens || *place == at
            };
            let places: Vec<usize> = (start + 1..=at).filter(half).collect();
            let deepest = likeness(log, spans, &places, env)?.into_iter().zip(places);
            let place = deepest.min_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))).map_or(at, |p| p.1);
            cuts.push(start..place);
            sum = tokens[place..at].iter().sum();
            start = place;
        }
        sum += tokens[at];
    }
    if start < spans.len() {
        cuts.push(start..spans.len());
    }
    Ok(cuts)
}

/// How alike the lines before and after each place are.
fn likeness(log: &Log, spans: &[u32], places: &[usize], env: &mut Env<'_>) -> anyhow::Result<Vec<f64>> {
    let sides =
        |&place: &usize| [place.saturating_sub(WINDOW)..place, place..(place + WINDOW).min(spans.len())];
    if env.embedder.is_some() {
        let texts = places.iter().flat_map(sides).map(|side| text_of(log, &spans[side])).collect();
        return Ok(meanings(texts, env)?.chunks(2).map(|pair| alike(&pair[0], &pair[1])).collect());
    }
    // What stands after one place stands before a later one.
    let mut known: FxHashMap<Range<usize>, Meaning> = FxHashMap::default();
    for side in places.iter().flat_map(sides) {
        known.entry(side).or_insert_with_key(|side| Meaning::of(&bag(log, &spans[side.clone()]), |_| 1.0));
    }
    Ok(places.iter().map(sides).map(|[before, after]| known[&before].cosine(&known[&after])).collect())
}

/// The bag of some spans; without their text where that would be cut into the same ones.
fn bag(log: &Log, spans: &[u32]) -> Bag {
    let ends_line = |&span: &u32| {
        let next = log.spans.get(span as usize + 1);
        next.is_none_or(|next| next.step != log.spans[span as usize].step)
            || log.span_text(span).ends_with('\n')
    };
    let is_all = spans.windows(2).all(|pair| pair[1] == pair[0] + 1) && spans.last().is_some_and(ends_line);
    match is_all {
        true => collect(spans.iter().map(|&span| log.span_text(span))),
        false => bag_of(&text_of(log, spans)),
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;
    use crate::models::scripted::Scripted;
    use crate::models::{Answer, Call, Card, Model};
    use crate::text::tokens::Tokenizer;

    fn turns(log: &Log, times: &[f64]) -> Vec<Turn> {
        let of = |(turn, &time): (usize, &f64)| {
            let steps = log.turns[turn + 1].steps.clone();
            Turn { spans: steps.flat_map(|step| log.spans_of(step)).collect(), time }
        };
        times.iter().enumerate().map(of).collect()
    }

    fn with_env<T>(embedder: Option<&dyn Model>, run: impl FnOnce(&mut Env<'_>) -> anyhow::Result<T>) -> T {
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        run(&mut Env { embedder, ..Env::new(&tokenizer, rng, None) }).unwrap()
    }

    fn texts(log: &Log, times: &[f64], by: By, max_tokens: u32) -> Vec<String> {
        texts_by(None, log, times, by, max_tokens)
    }

    fn texts_by(
        embedder: Option<&dyn Model>,
        log: &Log,
        times: &[f64],
        by: By,
        max_tokens: u32,
    ) -> Vec<String> {
        with_env(embedder, |env| segment(log, &turns(log, times), by, max_tokens, env))
            .iter()
            .map(|(spans, _)| text_of(log, spans))
            .collect()
    }

    #[test]
    fn turns_are_joined_by_what_they_share() {
        let log = Log::script(
            "user: go
             agent: the parser in src/a.py fails
             agent: the parser in src/a.py is mended
             agent: lunch at noon with Ada",
        );
        let times = [1.0, 5.0, 6.0];
        assert_eq!(texts(&log, &times, By::Turns, 100).len(), 3);
        assert_eq!(texts(&log, &times, By::Topic, 100)[1], "lunch at noon with Ada");
        assert_eq!(texts(&log, &times, By::Entity, 100)[1], "lunch at noon with Ada");
        assert_eq!(texts(&log, &times, By::Time, 100)[0], "the parser in src/a.py fails");
        assert_eq!(texts(&log, &times, By::Time, 100).len(), 2);
        // What does not fit is not joined.
        assert_eq!(texts(&log, &times, By::Time, 10).len(), 3);
    }

    /// Depths 0, 0.7 + 0.4, 0, 0.1: mean 0.3, deviation 0.47, so that a valley is deeper than 0.068.
    #[test]
    fn valleys_by_hand() {
        assert_eq!(shifts(&[1.0, 0.3, 0.7, 0.6]), [false, true, false, true]);
        // The climb goes on as long as it rises, and over what is level.
        assert_eq!(
            shifts(&[0.9, 0.6, 0.6, 0.3, 0.5, 0.8, 0.7]),
            [false, false, false, true, false, false, false]
        );
        // Where nothing is alike, everything is another topic; where all is, nothing.
        assert_eq!(shifts(&[0.1, 0.1]), [true, true]);
        assert_eq!(shifts(&[0.9, 0.9]), [false, false]);
        assert!(shifts(&[]).is_empty());
    }

    /// A model that reads the share of lines about roses and tulips, and nothing else.
    fn gardener() -> Scripted {
        let card = Card { name: "gardener".to_owned(), identity: "test".to_owned(), window: 512 };
        Scripted::rule(card, |call| {
            let Call::Embed { text } = call else { return None };
            let is_garden = |line: &&str| line.contains("rose") || line.contains("tulip");
            let share = text.lines().filter(is_garden).count() as f32 / text.lines().count() as f32;
            Some(Ok(Answer::Vector { values: vec![share, (1.0 - share * share).sqrt()], cut_tokens: 0 }))
        })
    }

    #[test]
    fn vectors_tell_topics_where_words_do_not() {
        let log = Log::script(
            "user: go\nagent: roses bloom\nagent: tulips grow\nagent: parser fails\nagent: lexer works",
        );
        let times = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(texts(&log, &times, By::Topic, 100).len(), 4);
        let gardener = gardener();
        assert_eq!(
            texts_by(Some(&gardener), &log, &times, By::Topic, 100),
            ["roses bloom\ntulips grow", "parser fails\nlexer works"]
        );
        let lines: String = ["red rose~", "tall tulip~", "lone rose~", "flat table~", "long row~", "sum~"]
            .iter()
            .map(|line| line.repeat(2))
            .collect();
        let log = Log::script(&format!("user: go\nagent: {lines}"));
        let cuts = texts_by(Some(&gardener), &log, &[1.0], By::Turns, 30);
        assert_eq!(cuts.len(), 2, "{cuts:?}");
        assert!(cuts[0].ends_with("lone rose\nlone rose\n") && cuts[1].starts_with("flat"), "{cuts:?}");
    }

    #[test]
    fn a_long_turn_is_cut_where_the_topic_shifts() {
        let parser = "the parser reads tokens from the lexer~".repeat(5);
        let garden = "roses and tulips grow in the garden~".repeat(5);
        let log = Log::script(&format!("user: go\nagent: {parser}{garden}"));
        let cuts = texts(&log, &[1.0], By::Turns, 60);
        assert_eq!(cuts.len(), 2, "{cuts:?}");
        assert!(!cuts[0].contains("garden") && !cuts[1].contains("parser"), "{cuts:?}");
        assert_eq!(cuts.concat(), log.trajectory.steps[1].text);
    }

    #[test]
    fn nothing_is_lost_and_nothing_is_too_long() {
        let line = "value of row in the table~";
        let log = Log::script(&format!("user: go\nagent: {}", line.repeat(300)));
        let spans: Vec<u32> = log.spans_of(1).collect();
        for max in [1, 10, 50, 100_000] {
            let cuts = with_env(None, |env| cut(&log, &spans, max, env));
            assert_eq!(
                cuts.iter().flat_map(|cut| cut.clone()).collect::<Vec<_>>(),
                (0..300).collect::<Vec<_>>()
            );
            for cut in cuts {
                let tokens: u32 = cut.clone().map(|at| log.spans[spans[at] as usize].tokens).sum();
                assert!(tokens <= max || cut.len() == 1);
            }
        }
        assert!(with_env(None, |env| cut(&log, &[], 10, env)).is_empty());
    }
}
