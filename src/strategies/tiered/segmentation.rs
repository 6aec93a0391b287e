//! Cuts history into segments: by turns, joined by topic, time or entities, and long ones cut where the topic shifts.
//!
//! The seed's `SEGMENT_CONTENT` (4.1): turns first, then turns that are too long at topic shifts. A shift is a valley
//! of likeness between the lines before a place and those after it: TextTiling (Hearst 1997) on bags of words and
//! atoms. Of the places where a cut leaves a segment between half of the longest length and that length the deepest
//! is taken. The other ways of the seed join neighbouring turns as long as they fit in one segment: while they speak
//! of the same (`topic`), while no pause is between them (`time`), while they share entities (`entity`).

use std::collections::BTreeSet;

use super::compressor::entities;
use super::segment::{Cut, Meaning, text_of};
use crate::log::Log;
use crate::strategies::notes::index::{bag_of, collect};

/// What joins turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    Turns,
    Topic,
    Time,
    Entity,
}

/// From so alike on, neighbouring turns are one topic.
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
pub(crate) fn segment(log: &Log, turns: &[Turn], by: By, max_tokens: u32) -> Vec<(Vec<u32>, f64)> {
    let tokens = |spans: &[u32]| spans.iter().map(|&span| log.spans[span as usize].tokens).sum::<u32>();
    let mut segments: Vec<(Vec<u32>, f64)> = Vec::new();
    let mut last: Option<(&Turn, u32)> = None;
    for turn in turns {
        let own = tokens(&turn.spans);
        let joins = last.is_some_and(|(before, sum)| sum + own <= max_tokens && same(log, before, turn, by));
        let sum = match segments.last_mut().filter(|_| joins) {
            Some(segment) => {
                segment.0.extend(&turn.spans);
                last.map_or(0, |(_, sum)| sum) + own
            }
            None => {
                let cuts = cut(log, &turn.spans, max_tokens);
                segments.extend(cuts.into_iter().map(|cut| (turn.spans[cut].to_vec(), turn.time)));
                segments.last().map_or(0, |(spans, _)| tokens(spans))
            }
        };
        last = Some((turn, sum));
    }
    segments
}

fn same(log: &Log, before: &Turn, turn: &Turn, by: By) -> bool {
    let meaning = |turn: &Turn| Meaning::of(&bag_of(&text_of(log, &turn.spans)), |_| 1.0);
    let names = |turn: &Turn| entities(&text_of(log, &turn.spans)).into_iter().collect::<BTreeSet<_>>();
    match by {
        By::Turns => false,
        By::Topic => meaning(before).cosine(&meaning(turn)) >= SAME_TOPIC,
        By::Time => turn.time - before.time <= NO_PAUSE,
        By::Entity => {
            let (a, b) = (names(before), names(turn));
            let shared = a.intersection(&b).count() as f64;
            shared > 0.0 && shared >= SAME_ENTITIES * a.union(&b).count() as f64
        }
    }
}

/// Cuts lines at the deepest valleys so that no piece has more than `max_tokens`.
pub(crate) fn cut(log: &Log, spans: &[u32], max_tokens: u32) -> Vec<Cut> {
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
            let deepest = places.into_iter().map(|place| (likeness(log, spans, place), place));
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
    cuts
}

/// How alike the lines before and after a place are.
fn likeness(log: &Log, spans: &[u32], place: usize) -> f64 {
    let meaning =
        |spans: &[u32]| Meaning::of(&collect(spans.iter().map(|&span| log.span_text(span))), |_| 1.0);
    let (before, after) =
        (&spans[place.saturating_sub(WINDOW)..place], &spans[place..(place + WINDOW).min(spans.len())]);
    meaning(before).cosine(&meaning(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(log: &Log, times: &[f64]) -> Vec<Turn> {
        let of = |(turn, &time): (usize, &f64)| {
            let steps = log.turns[turn + 1].steps.clone();
            Turn { spans: steps.flat_map(|step| log.spans_of(step)).collect(), time }
        };
        times.iter().enumerate().map(of).collect()
    }

    fn texts(log: &Log, times: &[f64], by: By, max_tokens: u32) -> Vec<String> {
        segment(log, &turns(log, times), by, max_tokens)
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
            let cuts = cut(&log, &spans, max);
            assert_eq!(
                cuts.iter().flat_map(|cut| cut.clone()).collect::<Vec<_>>(),
                (0..300).collect::<Vec<_>>()
            );
            for cut in cuts {
                let tokens: u32 = cut.clone().map(|at| log.spans[spans[at] as usize].tokens).sum();
                assert!(tokens <= max || cut.len() == 1);
            }
        }
        assert!(cut(&log, &[], 10).is_empty());
    }
}
