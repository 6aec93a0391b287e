//! Conditional likelihood retention: how much of what the past told about the agent's next calls the compressed context
//! still tells a model that reads it.
//!
//! After an event, the calls that the agent made next (at most [`DECISIONS`] decisions, up to the next event) are scored
//! under four contexts with the same head, tail and template, which differ only in what stands for the scope: the
//! variant's text, the scope itself (`full`), nothing (`empty`), and the variant's words in random order. The gain of a
//! context is NLL(empty) - NLL(context), in nats over the tokens of the calls; the retention of a run is the sum of the
//! variant's gains over the sum of `full`'s. Decisions count where full beats empty by [`LEAST`] nats a token: elsewhere
//! the past told nothing, and a ratio would be noise; `likelihood_excluded` says how many do not. The set is the same for
//! variants with the same scopes: under one trigger those with the same `keep_last`.
//!
//! The window is shared out: a quarter of it at most for the head (its beginning), for the tail (its end) and an eighth
//! for the calls; the rest is left to the scope, of which the oldest tokens go first. `likelihood_cut` says how often. It
//! needs four reads of at most a window for each event, of which two are shared by variants with the same scopes.
//! Retention may exceed 1 (a good summary can tell more than a scope that does not fit) and be negative.
//!
//! Stratum `of=atoms` has the same decisions and counts only the tokens that are part of an atom (a path, a name, a number):
//! what a call is about, apart from how calls are written.

use std::ops::Range;

use super::points::{Point, points};
use super::readers::{Readers, scored, strata};
use super::registry::{Better, Entry, Scale, Unit};
use super::{Rows, ratio};
use crate::context::log::Log;
use crate::context::{said, speaker};
use crate::models::{Call, Part, Prompt, Scores};
use crate::replay::Run;
use crate::text::atoms::occurrences;
use crate::trajectory::Kind;

pub const LIKELIHOOD_RETENTION: Entry = Entry {
    name: "likelihood_retention",
    summary: "How much of what the past tells about the agent's next calls the compressed context still tells a model",
    formula: "sum of NLL(empty) - NLL(variant) / sum of NLL(empty) - NLL(full), over calls where full gains 0.1 nat a token",
    unit: Unit::Ratio,
    strata: &["of", "scorer"],
    floor: "the same words shuffled",
    ceiling: "1",
    scale: Scale::Score,
    retention: Some(30),
    by_readers: true,
    truth: Some((
        120,
        "Likelihood retention: what a model that reads the context is still told of the agent's next calls (no annotation)",
    )),
    ..Entry::SHARE
};

pub const LIKELIHOOD_EXCLUDED: Entry = Entry {
    name: "likelihood_excluded",
    summary: "Share of the decisions scored on which the past tells the model nothing: they do not count",
    formula: "decisions where full gains less than 0.1 nat a token / decisions scored",
    better: Better::Neither,
    strata: &["scorer"],
    ..Entry::SHARE
};

pub const LIKELIHOOD_CUT: Entry = Entry {
    name: "likelihood_cut",
    summary: "Share of the events scored where head, scope, tail or calls did not fit the model's window whole",
    formula: "events with a cut / events scored",
    better: Better::Lower,
    strata: &["scorer"],
    ..Entry::SHARE
};

pub(super) const ENTRIES: &[Entry] = &[LIKELIHOOD_RETENTION, LIKELIHOOD_EXCLUDED, LIKELIHOOD_CUT];

/// Decisions after an event that are scored, at most.
const DECISIONS: usize = 4;
/// Nats a token by which the full context must beat the empty one.
const LEAST: f64 = 0.1;
/// Tokens of a model's own vocabulary to one of the counted ones, at most: what is shared out is counted ones.
const TOKENS_EACH: f64 = 1.3;

/// Scores a replay.
///
/// # Errors
/// A scorer answers nothing any more.
pub fn score(log: &Log, run: &Run, readers: &Readers, seed: u64, rows: &mut Rows) -> anyhow::Result<()> {
    let scorers = readers.asked("likelihood");
    if scorers.is_empty() {
        return Ok(());
    }
    let points = points(log, run);
    let events: Vec<(&Point<'_>, usize)> =
        points.iter().filter_map(|point| Some((point, point.number?))).collect();
    for (number, (_, model)) in scorers.iter().enumerate() {
        let mut all: Vec<Decision> = Vec::new();
        let (mut n_cut, mut n_events) = (0, 0);
        for &(point, event) in &events {
            let until = run.events.get(event).map_or(log.turns.len() as u32, |next| next.turn);
            let share = (f64::from(model.card().window) / TOKENS_EACH) as u64;
            let Some(asked) = Asked::of(log, point, run.events[event - 1].turn..until, share) else {
                continue;
            };
            let mut contexts = [
                point.kept.iter().map(|block| block.said(log)).collect::<String>(),
                point.scope.iter().map(|&step| said(log, step)).collect(),
                String::new(),
                point.shuffled(log, seed),
            ];
            contexts.iter_mut().filter(|text| !text.is_empty()).for_each(|text| text.push('\n'));
            let calls = contexts.map(|between| asked.call(&between));
            let answers = scored(&**model, &calls)?;
            let answers: Vec<&Scores> = answers.iter().flatten().collect();
            if let [variant, full, empty, shuffled] = answers[..] {
                n_events += 1;
                n_cut += u64::from(asked.is_cut || full.cut_tokens > 0);
                all.extend(asked.decisions([variant, full, empty, shuffled]));
            }
        }
        if all.is_empty() {
            continue;
        }
        let told: Vec<&Decision> = all.iter().filter(|d| d.gain(FULL) >= LEAST * d.tokens as f64).collect();
        let sum = |context: usize| told.iter().map(|d| d.gain(context)).sum::<f64>();
        for stratum in strata(&scorers, number, "") {
            let value = ratio(sum(VARIANT), sum(FULL));
            let row = rows.push(&LIKELIHOOD_RETENTION, stratum.clone(), value, sum(FULL), told.len() as u64);
            row.floor = ratio(sum(SHUFFLED), sum(FULL));
            row.ceiling = value.map(|_| 1.0);
            let n = all.len() as f64;
            let excluded = ratio(n - told.len() as f64, n);
            rows.push(&LIKELIHOOD_EXCLUDED, stratum.clone(), excluded, n, all.len() as u64);
            let cut = ratio(n_cut as f64, n_events as f64);
            rows.push(&LIKELIHOOD_CUT, stratum, cut, n_events as f64, n_events);
        }
        let of_atoms = |context: usize| told.iter().map(|d| d.atoms[EMPTY] - d.atoms[context]).sum::<f64>();
        let n_atoms = told.iter().filter(|d| d.atoms[EMPTY] > 0.0).count();
        for stratum in strata(&scorers, number, "of=atoms").into_iter().filter(|_| n_atoms > 0) {
            // A sum at or below 0 is no whole to have a share of.
            let of = Some(of_atoms(FULL)).filter(|gain| *gain > 0.0);
            let value = of.and_then(|full| ratio(of_atoms(VARIANT), full));
            let row = rows.push(&LIKELIHOOD_RETENTION, stratum, value, of.unwrap_or(0.0), n_atoms as u64);
            row.floor = of.and_then(|full| ratio(of_atoms(SHUFFLED), full));
            row.ceiling = value.map(|_| 1.0);
        }
    }
    Ok(())
}

const VARIANT: usize = 0;
const FULL: usize = 1;
const EMPTY: usize = 2;
const SHUFFLED: usize = 3;

/// The calls of one decision: their tokens, and the nats that they cost under each context.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Decision {
    tokens: usize,
    nll: [f64; 4],
    /// The part of it that atoms cost.
    atoms: [f64; 4],
}

impl Decision {
    fn gain(&self, context: usize) -> f64 {
        self.nll[EMPTY] - self.nll[context]
    }
}

/// What is asked after an event, but for what stands for the scope.
struct Asked {
    head: String,
    tail: String,
    /// What was logged from the event on: a text, and of a call the number of its decision.
    steps: Vec<(String, Option<usize>)>,
    is_cut: bool,
}

impl Asked {
    /// The calls of the first decisions of these turns; none where there are none, or they are too long. `tokens`: those
    /// of the whole prompt.
    fn of(log: &Log, point: &Point<'_>, turns: Range<u32>, tokens: u64) -> Option<Self> {
        let (mut steps, mut left, mut decisions) = (Vec::new(), tokens / 8, 0);
        'turns: for turn in turns {
            let all = log.turns[turn as usize].steps.clone();
            let Some(decision) = log.turns[turn as usize].decision else { continue };
            for step in all.filter(|&step| step >= point.until && log.kind(step) != Kind::Tools) {
                let text = &log.trajectory.steps[step as usize];
                let Some(rest) = left.checked_sub(u64::from(log.tokens[step as usize])) else { break 'turns };
                left = rest;
                steps.push((speaker(log, step).to_owned(), None));
                let is_call = step >= decision && text.is_agent() && log.kind(step) == Kind::Action;
                steps.push((text.text.clone(), is_call.then_some(decisions)));
                steps.push(("\n".to_owned(), None));
            }
            decisions += 1;
            if decisions == DECISIONS {
                break;
            }
        }
        // What follows the last call tells nothing about it.
        let last = steps.iter().rposition(|(_, call)| call.is_some())?;
        steps.truncate(last + 1);
        let begin = point.scope.first().copied()?;
        let (head, tail) = point.base.split_at(point.base.partition_point(|&step| step < begin));
        let (head, head_cut) = first(log, head, tokens / 4);
        let (tail, tail_cut) = newest(log, tail, tokens / 4);
        Some(Asked { head, tail, steps, is_cut: head_cut || tail_cut })
    }

    fn call(&self, between: &str) -> Call {
        let part = |text: &str| Part { text: text.to_owned(), ..Part::default() };
        let mut parts = vec![part(&self.head), Part { may_cut: true, ..part(between) }, part(&self.tail)];
        parts.extend(self.steps.iter().map(|(text, call)| Part { scored: call.is_some(), ..part(text) }));
        Call::Score { prompt: Prompt { parts, ..Prompt::default() }, continuations: Vec::new() }
    }

    fn decisions(&self, answers: [&Scores; 4]) -> Vec<Decision> {
        let mut decisions = vec![Decision::default(); DECISIONS];
        let calls = self.steps.iter().filter_map(|(text, call)| Some((text, (*call)?)));
        for (at, (text, decision)) in calls.enumerate() {
            let decision = &mut decisions[decision];
            let atoms: Vec<Range<usize>> =
                occurrences(text).iter().map(|atom| atom.start..atom.end).collect();
            for (context, answer) in answers.iter().enumerate() {
                let mut start = 0;
                for token in answer.parts.get(at).into_iter().flatten() {
                    let end = token.end as usize;
                    decision.nll[context] -= token.logprob;
                    decision.tokens += usize::from(context == VARIANT);
                    // Atoms stand in order and apart.
                    let next = atoms.partition_point(|atom| atom.end <= start);
                    if atoms.get(next).is_some_and(|atom| atom.start < end) {
                        decision.atoms[context] -= token.logprob;
                    }
                    start = end;
                }
            }
        }
        decisions.retain(|decision| decision.tokens > 0);
        decisions
    }
}

/// The beginning of some steps' texts, of about so many tokens; whether anything was cut.
fn first(log: &Log, steps: &[u32], mut tokens: u64) -> (String, bool) {
    let mut text = String::new();
    for &step in steps {
        let own = u64::from(log.tokens[step as usize]);
        let all = said(log, step);
        if own > tokens {
            text.push_str(&all[..all.floor_char_boundary((all.len() as u64 * tokens / own) as usize)]);
            text.push('\n');
            return (text, true);
        }
        tokens -= own;
        text.push_str(&all);
    }
    (text, false)
}

/// The end of some steps' texts, of about so many tokens; whether anything was cut.
fn newest(log: &Log, steps: &[u32], mut tokens: u64) -> (String, bool) {
    let mut texts: Vec<String> = Vec::new();
    let mut is_cut = false;
    for &step in steps.iter().rev() {
        let own = u64::from(log.tokens[step as usize]);
        let all = said(log, step);
        if own > tokens {
            let kept = (all.len() as u64 * tokens / own) as usize;
            texts.push(all[all.floor_char_boundary(all.len() - kept)..].to_owned());
            is_cut = true;
            break;
        }
        tokens -= own;
        texts.push(all);
    }
    (texts.into_iter().rev().collect(), is_cut)
}

#[cfg(test)]
mod tests {
    use super::super::readers::tests::reader;
    use super::*;
    use crate::context::{Block, Content};
    use crate::replay::Event;

    /// An event before turn 3 over turns 1 and 2, which left this text. What comes then calls for `zeta eta`, of which
    /// the scope says both; `ls` stands in the head.
    fn rows(text: &str) -> Rows {
        let script = "user: begin with ls
             action: cat alpha
             observation: zeta and eta
             action: cat beta
             observation: nothing
             action: zeta eta
             observation: good
             action: ls";
        rows_of(script, text)
    }

    fn rows_of(script: &str, text: &str) -> Rows {
        let log = Log::script(script);
        let mut event = Event::test(3, 1..3);
        event.after = vec![Block {
            turn: 2,
            tokens: 9,
            fresh: false,
            left: 0,
            content: Content::Generated { text: text.to_owned() },
        }];
        let run = Run { events: vec![event], ..Run::default() };
        let mut rows = Rows { ids: ("v".into(), "t".into()), rows: Vec::new() };
        score(&log, &run, &reader(), 1, &mut rows).unwrap();
        rows
    }

    #[test]
    fn a_text_is_worth_what_it_tells_of_the_next_calls() {
        let value = |text: &str| {
            let rows = rows(text);
            let row = rows.rows.iter().find(|row| row.metric == "likelihood_retention").unwrap();
            // One decision: `ls` is no likelier under any context.
            assert_eq!((row.n, row.ceiling), (1, Some(1.0)));
            // Two words at 5 - 1 nats.
            assert_eq!(row.weight, 8.0);
            (row.value.unwrap(), row.floor.unwrap())
        };
        assert_eq!(value("zeta eta"), (1.0, 1.0));
        assert_eq!(value("zeta alone"), (0.5, 0.5));
        assert_eq!(value("nothing came of it"), (0.0, 0.0));
        assert_eq!(value(""), (0.0, 0.0));
        let excluded = rows("x").rows.iter().find(|row| row.metric == "likelihood_excluded").unwrap().value;
        assert_eq!(excluded, Some(0.5));
    }

    /// `rm` and the path cost 5 - 1 nats each, where they were said; the path alone is an atom.
    #[test]
    fn atoms_are_counted_apart() {
        let script = "user: begin with ls
             action: cat alpha
             observation: to rm is src/zeta.py
             action: cat beta
             observation: nothing
             action: rm src/zeta.py
             observation: good
             action: ls";
        let value = |text: &str| {
            let rows = rows_of(script, text);
            let of = |stratum: &str| {
                let mut of = rows.rows.iter().filter(|row| row.metric == "likelihood_retention");
                let row = of.find(|row| *row.stratum == *stratum).unwrap();
                (row.value.unwrap(), row.weight)
            };
            (of(""), of("of=atoms"))
        };
        assert_eq!(value("rm"), ((0.5, 8.0), (0.0, 4.0)));
        assert_eq!(value("src/zeta.py"), ((0.5, 8.0), (1.0, 4.0)));
    }

    #[test]
    fn texts_are_cut_at_their_ends() {
        let log = Log::script("user: one two three four five six seven eight nine ten\nagent: a b c");
        let (head, is_cut) = first(&log, &[0], 5);
        assert!(is_cut && head.starts_with("User: one two") && !head.contains("ten"), "{head}");
        let (tail, is_cut) = newest(&log, &[0, 1], u64::from(log.tokens[1]) + 4);
        assert!(is_cut && tail.ends_with("ten\nAgent: a b c\n") && !tail.contains("one"), "{tail}");
        let (all, is_cut) = newest(&log, &[0, 1], 99);
        assert!(!is_cut && all.starts_with("User: one"), "{all}");
    }
}
