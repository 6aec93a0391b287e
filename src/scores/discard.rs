//! `discard_lift`: whether a strategy throws away what is less needed than what it found.
//!
//! A needed token stands in the cheapest source span of a need that is at risk and exposed. The
//! report pools the two shares over trajectories: lift = 1 - removed share / scope share; 0 is what
//! dropping at random gives, 1 is removing nothing needed, null where nothing was removed or needed.
//! (The seeds' "compression precision" is saturated: dropping everything scores 0.94 and more.)
//!
//! An event is judged by what it does to the steps that it is the first to compress. A span that a strategy wrote out
//! again as a line or a quotation of its own text counts as kept.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::registry::{Better, Column, Entry, Field, Pooled, Set};
use super::{Rows, ratio};
use crate::context::log::Log;
use crate::context::{Block, Content};
use crate::replay::Run;

pub const DISCARD_LIFT: Entry = Entry {
    name: "discard_lift",
    summary: "How much less needed the removed tokens are than the scope's",
    formula: "1 - (needed share of removed tokens) / (needed share of scope tokens)",
    pooled: Pooled::Lift { of: NEEDED_REMOVED_SHARE.name, over: NEEDED_SCOPE_SHARE.name },
    columns: &[Column::headline(
        270,
        "",
        Set::Whole,
        Field::Value,
        "1 - needed share of removed tokens / needed share of scope tokens; 0 is no better than removing at random; needed: a need at risk for the shortest reference tail stands on them (3 turns by default)",
    )],
    ..Entry::SHARE
};

pub const NEEDED_REMOVED_SHARE: Entry = Entry {
    name: "needed_removed_share",
    summary: "Share of the removed tokens that a later need asks for",
    formula: "needed removed tokens / removed tokens",
    better: Better::Lower,
    ..Entry::SHARE
};

pub const NEEDED_SCOPE_SHARE: Entry = Entry {
    name: "needed_scope_share",
    summary: "Share of the scope's tokens that a later need asks for",
    formula: "needed scope tokens / scope tokens",
    better: Better::Neither,
    columns: &[Column::new(
        280,
        "",
        Set::Whole,
        Field::Value,
        "share of the tokens in scope that a later need stands on, for the shortest reference tail (3 turns by default)",
    )],
    ..Entry::SHARE
};

pub(super) const ENTRIES: &[Entry] = &[DISCARD_LIFT, NEEDED_REMOVED_SHARE, NEEDED_SCOPE_SHARE];

/// The lines of generated texts, and the quotations in them.
fn written(blocks: &[Block]) -> HashSet<&str> {
    let mut written = HashSet::new();
    for block in blocks {
        let Content::Generated { text } = &block.content else { continue };
        for line in text.lines() {
            // What is set off under a head of ours ("- ") is the line itself, too.
            written.extend([line, line.strip_prefix("- ").unwrap_or(line)].map(str::trim));
            let quoted = line.split_once('“').and_then(|(_, rest)| rest.rsplit_once('”'));
            written.extend(quoted.map(|(quoted, _)| quoted.trim()));
        }
    }
    // An empty line, or a bracket, is no copy of another.
    written.retain(|text| text.chars().count() >= SHORTEST);
    written
}

/// Characters of a span that is looked for in what was written.
const SHORTEST: usize = 8;

/// `needed`: (cheapest source span, turn of the need) of each exposed headline need.
pub fn score(log: &Log, run: &Run, needed: &[(u32, u32)], rows: &mut Rows) {
    let mut event_of = vec![u32::MAX; log.n_steps()];
    // The events of later segments in which a step that a logged compaction kept was compressed again.
    let mut again: HashMap<u32, Vec<u32>> = HashMap::new();
    let (mut scope, mut copied) = (0u64, 0u64);
    // Spans that their event wrote out again.
    let mut rewritten: HashSet<u32> = HashSet::new();
    for (i, event) in run.events.iter().enumerate() {
        let written = written(&event.after);
        let mut take = |step: u32| {
            let first = &mut event_of[step as usize];
            if *first == u32::MAX && !written.is_empty() {
                let whole = |span: &u32| written.contains(log.span_text(*span).trim());
                rewritten.extend(log.spans_of(step).filter(whole));
            }
            match run.events.get(*first as usize) {
                None => *first = i as u32,
                Some(first) if first.segment < event.segment => again.entry(step).or_default().push(i as u32),
                Some(_) => {}
            }
        };
        match &event.only {
            Some(steps) => steps.iter().for_each(|&step| take(step)),
            None => (event.fresh..event.turns.end)
                .flat_map(|t| log.turns[t as usize].steps.clone())
                .for_each(take),
        }
        scope += event.fresh_tokens;
        let after = event.after.iter().filter(|block| block.fresh);
        copied += after.map(|b| u64::from(b.tokens - b.generated_tokens())).sum::<u64>();
    }
    // The last event before a turn that compressed a step.
    let event_before = |step: u32, turn: u32| {
        let events =
            [event_of[step as usize]].into_iter().chain(again.get(&step).into_iter().flatten().copied());
        events.filter(|&e| run.events.get(e as usize).is_some_and(|e| e.turn <= turn)).last()
    };
    // A span counts once, however many needs it serves.
    let spans: BTreeSet<(u32, u32)> = needed
        .iter()
        .filter_map(|&(span, turn)| Some((span, event_before(log.spans[span as usize].step, turn)?)))
        .collect();
    let (mut needed_scope, mut needed_removed) = (0u64, 0u64);
    for (span, event) in spans {
        let event = &run.events[event as usize];
        let tokens = log.spans[span as usize].tokens;
        needed_scope += u64::from(tokens);
        let kept =
            if rewritten.contains(&span) { tokens } else { event.copied_tokens(log, span).min(tokens) };
        needed_removed += u64::from(tokens - kept);
    }
    copied += rewritten.iter().map(|&span| u64::from(log.spans[span as usize].tokens)).sum::<u64>();
    let removed = scope - copied.min(scope);
    let n = run.events.len() as u64;
    let share = |a: u64, b: u64| ratio(a as f64, b as f64);
    let scope_share = share(needed_scope, scope);
    let removed_share = share(needed_removed, removed);
    let lift = match (removed_share, scope_share) {
        (Some(r), Some(s)) if s > 0.0 => Some(1.0 - r / s),
        _ => None,
    };
    rows.push(&NEEDED_REMOVED_SHARE, "", removed_share, removed as f64, n);
    rows.push(&NEEDED_SCOPE_SHARE, "", scope_share, scope as f64, n);
    rows.push(&DISCARD_LIFT, "", lift, needed_scope as f64, n);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Event;

    /// The lift of an event over turn 1 that left this text, where the first line of the observation is needed.
    fn lift(text: &str) -> (Option<f64>, Option<f64>) {
        let log = Log::script(
            "user: look
             action: cat notes
             observation: the port is 8080 here~and another line of it~}
             agent: well
             agent: end",
        );
        let needed = log.spans_of(2).start;
        let mut event = Event::test(2, 1..2);
        event.fresh_tokens = [1, 2].iter().map(|&step: &usize| u64::from(log.tokens[step])).sum();
        let content = Content::Generated { text: text.to_owned() };
        event.after = vec![Block { turn: 1, tokens: 9, fresh: true, left: 0, content }];
        let run = Run { events: vec![event], ..Run::default() };
        let mut rows = Rows { ids: ("v".into(), "t".into()), rows: Vec::new() };
        score(&log, &run, &[(needed, 3)], &mut rows);
        let of = |metric: &str| rows.rows.iter().find(|row| &*row.metric == metric).unwrap().value;
        (of("discard_lift"), of("needed_removed_share"))
    }

    #[test]
    fn what_is_written_out_again_is_kept() {
        // Another text copies nothing: what is removed is needed as much as the scope.
        assert_eq!(lift("They looked at the notes.\n}").0, Some(0.0));
        assert_eq!(lift("Facts:\n- “the port is 8080 here”\n"), (Some(1.0), Some(0.0)));
        assert_eq!(lift("the port is 8080 here\nand more").0, Some(1.0));
        // The other line alone: the needed one is a larger share of what is removed.
        assert!(lift("and another line of it").0.unwrap() < 0.0);
    }

    /// The first event copies the observation; the compaction keeps it, and the second event, which the need is about, does not.
    #[test]
    fn what_a_compaction_kept_is_judged_where_it_goes() {
        let script = "user: look
             action: cat notes
             observation: the port is 8080 here
             agent: well
             summary: so far
             agent: well
             agent: end";
        let log = Log::kept(script, &[(1, 1), (2, 1)]);
        let tokens = |steps: &[usize]| steps.iter().map(|&s| u64::from(log.tokens[s])).sum::<u64>();
        let of = |segment: u32, turn: u32, turns: std::ops::Range<u32>| {
            let fresh_tokens = tokens(&[1, 2]);
            Event { segment, fresh_tokens, only: Some(vec![1, 2]), ..Event::test(turn, turns) }
        };
        let copy = Block { turn: 1, tokens: log.tokens[2], fresh: true, content: Content::Step(2), left: 0 };
        let first = Event { after: vec![copy], ..of(0, 2, 1..2) };
        let run = Run { events: vec![first, of(1, 4, 1..4)], ..Run::default() };
        let removed = |turn: u32| {
            let mut rows = Rows { ids: ("v".into(), "t".into()), rows: Vec::new() };
            score(&log, &run, &[(log.spans_of(2).start, turn)], &mut rows);
            rows.rows.iter().find(|row| row.metric == "needed_removed_share").unwrap().value
        };
        assert_eq!(removed(2), Some(0.0));
        let rest = 2 * tokens(&[1, 2]) - tokens(&[2]);
        assert_eq!(removed(4), Some(tokens(&[2]) as f64 / rest as f64));
    }
}
