//! `discard_lift`: whether a strategy throws away what is less needed than what it found.
//!
//! A needed token stands in the cheapest source span of a need that is at risk and exposed. The
//! report pools the two shares over trajectories: lift = 1 - removed share / scope share; 0 is what
//! dropping at random gives, 1 is removing nothing needed, null where nothing was removed or needed.
//! (The seeds' "compression precision" is saturated: dropping everything scores 0.94 and more.)
//!
//! An event is judged by what it does to the steps that it is the first to compress.

use std::collections::BTreeSet;

use super::{Entry, Rows, ratio};
use crate::experiment::replay::Run;
use crate::log::Log;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "discard_lift",
        summary: "How much less needed the removed tokens are than the scope's",
        formula: "1 - (needed share of removed tokens) / (needed share of scope tokens)",
    },
    Entry {
        name: "needed_removed_share",
        summary: "Share of the removed tokens that a later need asks for",
        formula: "needed removed tokens / removed tokens",
    },
    Entry {
        name: "needed_scope_share",
        summary: "Share of the scope's tokens that a later need asks for",
        formula: "needed scope tokens / scope tokens",
    },
];

/// `needed`: (cheapest source span, turn of the need) of each exposed headline need.
pub fn score(log: &Log, run: &Run, needed: &[(u32, u32)], rows: &mut Rows) {
    let mut event_of = vec![u32::MAX; log.n_steps()];
    let (mut scope, mut copied) = (0u64, 0u64);
    for (i, event) in run.events.iter().enumerate() {
        let mut take = |step: u32| {
            let first = &mut event_of[step as usize];
            *first = (*first).min(i as u32);
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
    // A span counts once, however many needs it serves.
    let spans: BTreeSet<u32> = needed
        .iter()
        .filter(|(span, turn)| {
            let event = event_of[log.spans[*span as usize].step as usize];
            run.events.get(event as usize).is_some_and(|e| e.turn <= *turn)
        })
        .map(|(span, _)| *span)
        .collect();
    let (mut needed_scope, mut needed_removed) = (0u64, 0u64);
    for span in spans {
        let event = &run.events[event_of[log.spans[span as usize].step as usize] as usize];
        let tokens = log.spans[span as usize].tokens;
        needed_scope += u64::from(tokens);
        needed_removed += u64::from(tokens - event.copied_tokens(log, span).min(tokens));
    }
    let removed = scope - copied.min(scope);
    let n = run.events.len() as u64;
    let share = |a: u64, b: u64| ratio(a as f64, b as f64);
    let scope_share = share(needed_scope, scope);
    let removed_share = share(needed_removed, removed);
    let lift = match (removed_share, scope_share) {
        (Some(r), Some(s)) if s > 0.0 => Some(1.0 - r / s),
        _ => None,
    };
    rows.push("needed_removed_share", "", removed_share, removed as f64, n);
    rows.push("needed_scope_share", "", scope_share, scope as f64, n);
    rows.push("discard_lift", "", lift, needed_scope as f64, n);
}
