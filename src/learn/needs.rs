//! Learns from logs which atoms are needed later: rows and labels of the rater of atoms, and how much of the needs weights serve.
//!
//! Events are those of the study: every 10 turns, the newest 5 left alone. An atom is looked for where a need of the headline, exposed
//! and bound, was last told in the event's scope.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::atoms::{Event, History, N, names};
use super::cover::{Cover, Unit};
use super::lines::bound;
use super::regression::{CLIP, Pieces, Rows, fit, placed, standard};
use super::{Linear, probability};
use crate::context::log::{AtomId, Log};
use crate::context::needs::Needs;
use crate::trajectory::Kind;

const EVERY: u32 = 10;
const KEEP: u32 = 5;
/// The reference tail of needs.
const TAIL: u32 = 3;
/// How much a row counts beside the penalty on weights.
const STRENGTH: f64 = 0.1;

/// What is learned from a log.
#[derive(Default)]
pub struct Sample {
    numbers: Vec<[f32; N]>,
    labels: Vec<bool>,
    events: Vec<OfEvent>,
}

/// An event, for the test of weights: its lines, and what was needed of them.
struct OfEvent {
    units: Vec<Unit>,
    tokens: u32,
    n_atoms: usize,
    /// Atom of the units, row of the sample.
    rated: Vec<(u32, usize)>,
    /// Atom of the units, weight.
    needed: Vec<(u32, f64)>,
}

impl Sample {
    /// What a log teaches.
    pub fn of(log: &Log) -> Self {
        let (mut sample, mut history) = (Sample::default(), History::default());
        let needs = told(log);
        for (turn, scope) in events(log) {
            history.read(log, turn);
            let decision = log.turns[turn as usize].decision.unwrap_or(0);
            let spans: Vec<u32> = steps(log, scope.clone(), decision)
                .flat_map(|step| log.spans_of(step))
                .filter(|&s| log.spans[s as usize].tokens > 0)
                .collect();
            let tail: Vec<u32> = steps(log, scope.end..turn + 1, decision).collect();
            let rated = history.rate(&Event { log, turn, spans: &spans, tail: &tail });
            let segment = log.turns[turn as usize].segment;
            let mut needed: FxHashMap<AtomId, f64> = FxHashMap::default();
            let from = needs.partition_point(|need| need.last < scope.start);
            for need in needs[from..].iter().take_while(|need| need.last < scope.end) {
                if need.turn >= turn && log.turns[need.turn as usize].segment == segment {
                    *needed.entry(need.atom).or_default() += need.weight;
                }
            }
            let first = sample.numbers.len();
            sample.labels.extend(rated.iter().map(|rated| needed.contains_key(&rated.atom)));
            sample.numbers.extend(rated.iter().map(|rated| rated.numbers));
            let rows = rated.iter().enumerate().map(|(at, rated)| (rated.atom, first + at));
            sample.events.push(OfEvent::new(log, &spans, rows, &needed));
        }
        sample
    }

    pub fn n_rated(&self) -> usize {
        self.labels.len()
    }

    pub fn n_needed(&self) -> usize {
        self.labels.iter().filter(|label| **label).count()
    }

    /// The weight of the needs that lines chosen by these odds bind at a share of the tokens, and that of all.
    pub fn served(&self, linear: &Linear, share: f64) -> (f64, f64) {
        let (mut served, mut all) = (0.0, 0.0);
        for event in &self.events {
            let mut worth = vec![0.0; event.n_atoms];
            for &(atom, row) in &event.rated {
                worth[atom as usize] = probability(linear.odds(&self.numbers[row]));
            }
            let budget = (f64::from(event.tokens) * share) as u32;
            let mut cover = Cover::new(&event.units, vec![0; event.n_atoms], budget, 1.0);
            cover.choose(&event.units, &worth);
            for &(atom, weight) in &event.needed {
                all += weight;
                served += if cover.keeps(atom) { weight } else { 0.0 };
            }
        }
        (served, all)
    }
}

impl OfEvent {
    fn new(
        log: &Log,
        spans: &[u32],
        rated: impl Iterator<Item = (AtomId, usize)>,
        needed: &FxHashMap<AtomId, f64>,
    ) -> Self {
        let mut numbers: FxHashMap<AtomId, u32> = FxHashMap::default();
        let mut number = |atom: AtomId| {
            let next = numbers.len() as u32;
            *numbers.entry(atom).or_insert(next)
        };
        let mut unit = |&span: &u32| {
            let mut atoms: Vec<u32> = bound(log, span).map(&mut number).collect();
            atoms.sort_unstable();
            atoms.dedup();
            Unit { tokens: log.spans[span as usize].tokens, atoms }
        };
        let units: Vec<Unit> = spans.iter().map(&mut unit).collect();
        let tokens = units.iter().map(|unit| unit.tokens).sum();
        let rated = rated.map(|(atom, row)| (number(atom), row)).collect();
        let mut needed: Vec<(u32, f64)> =
            needed.iter().map(|(atom, weight)| (number(*atom), *weight)).collect();
        needed.sort_by_key(|need| need.0);
        OfEvent { units, tokens, n_atoms: numbers.len(), rated, needed }
    }
}

/// Weights of these samples; none where nothing in them was needed.
pub fn learn(samples: &[&Sample]) -> Option<Linear> {
    let rows: Vec<&[f32; N]> = samples.iter().flat_map(|sample| &sample.numbers).collect();
    let labels: Vec<bool> = samples.iter().flat_map(|sample| &sample.labels).copied().collect();
    if !labels.contains(&true) || !labels.contains(&false) {
        return None;
    }
    let (mean, scale) = standard(&rows);
    let numbers = placed(&rows, &mean, &scale, 1.0);
    let mut weights = fit(&Rows { numbers: &numbers, labels: &labels, pieces: Pieces::default() }, STRENGTH);
    let intercept = weights.pop()?;
    let weights = weights.into_iter().map(|weight| weight as f32).collect();
    Some(Linear { names: names(), mean, scale, clip: CLIP, weights, intercept })
}

/// A need of the headline that binds.
struct Told {
    /// The turn in which its atom was last told, and by what it went then.
    last: u32,
    atom: AtomId,
    turn: u32,
    /// Needs share their turn's weight.
    weight: f64,
}

/// The needs that a choice of lines can serve, by when they were last told.
fn told(log: &Log) -> Vec<Told> {
    let needs = Needs::of(log, TAIL);
    let list = || needs.list.iter().filter(|need| need.is_headline() && need.bound);
    let mut of_turn: FxHashMap<u32, f64> = FxHashMap::default();
    list().for_each(|need| *of_turn.entry(need.turn).or_default() += 1.0);
    let told = list().filter_map(|need| {
        let last = need.turn - need.gap;
        let before = log.mentions_of_atom(need.atom).rev();
        let mut there = before.skip_while(|m| log.turn_of(log.spans[m.span as usize].step) > last);
        Some(Told { last, atom: there.next()?.so_far, turn: need.turn, weight: 1.0 / of_turn[&need.turn] })
    });
    let mut told: Vec<Told> = told.collect();
    told.sort_by_key(|need| need.last);
    told
}

/// The turns at which something is compressed, and of which turns.
fn events(log: &Log) -> Vec<(u32, Range<u32>)> {
    let mut events = Vec::new();
    let (mut from, mut segment) = (1, None);
    for (turn, of) in (0u32..).zip(&log.turns).skip(1) {
        if segment.replace(of.segment) != Some(of.segment) {
            from = turn;
        }
        if of.decision.is_some() && turn - from >= EVERY + KEEP {
            events.push((turn, from..turn - KEEP));
            from = turn - KEEP;
        }
    }
    events
}

/// Steps of these turns before a decision that can be compressed.
fn steps(log: &Log, turns: Range<u32>, decision: u32) -> impl Iterator<Item = u32> + '_ {
    let steps = turns.flat_map(|turn| log.turns[turn as usize].steps.clone());
    steps.filter(move |&step| step < decision && !log.is_pinned(step) && log.kind(step) != Kind::Compaction)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two files that are listed the agent opens one, long after; a number of turns later the event has both.
    fn log(n: u32) -> Log {
        let idle = "\naction: date\nobservation: morning".repeat(15);
        Log::script(&format!(
            "user: mend it
             action: ls
             observation: the broken parser lives in src/parser_{n}.py near here~the quiet lexer lives in lib/lexer_{n}.py near here{idle}
             action: cat src/parser_{n}.py
             observation: ok
             agent: so"
        ))
    }

    #[test]
    fn what_was_needed_later_is_looked_for() {
        let sample = Sample::of(&log(1));
        assert_eq!((sample.n_rated(), sample.n_needed()), (2, 1));
        let learned = learn(&[&sample]).unwrap();
        // All is kept, or nothing.
        assert_eq!([sample.served(&learned, 1.0), sample.served(&learned, 0.0)], [(1.0, 1.0), (0.0, 1.0)]);
    }

    #[test]
    fn weights_tell_apart_what_they_learned() {
        let samples: Vec<Sample> = (10..40).map(|n| Sample::of(&log(n))).collect();
        let learned = learn(&samples.iter().collect::<Vec<_>>()).unwrap();
        let odds = |row: usize| learned.odds(&samples[0].numbers[row]);
        let (needed, other) = if samples[0].labels[0] { (0, 1) } else { (1, 0) };
        assert!(odds(needed) > odds(other) + 1.0, "{} {}", odds(needed), odds(other));
        assert!(learn(&[&Sample::default()]).is_none());
    }
}
