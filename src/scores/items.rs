//! How well a strategy picks passages: its items against the annotated spans, one to one, and against the source.
//!
//! Where `salience` asks what stands in the context, headings and background included, this asks of the set alone. An item
//! and a span fit if the words of one stand within the other one after the other, and the shorter has at least half the
//! words of the longer. Pairs are formed in the order of the spans, each with the first item that fits and is free. Items
//! are those that the event kept; spans those of scopes compressed so far. (Source: DESIGN section 8, one-to-one.)

use std::collections::BTreeMap;

use super::ground::{Ground, Truth};
use super::registry::Entry;
use super::{Rows, ratio};
use crate::context::log::Log;
use crate::replay::Run;
use crate::strategies::{Fate, Item};
use crate::text::runs::{fits, words};

pub const ITEM_RECALL: Entry = Entry {
    name: "item_recall",
    summary: "Share of annotated salient spans that an item of the kept set stands for, one to one",
    formula: "spans of compressed scopes with an item of their own / such spans",
    strata: &["point", "type"],
    ..Entry::SHARE
};

pub const ITEM_PRECISION: Entry = Entry {
    name: "item_precision",
    summary: "Share of the items of the kept set that stand for an annotated salient span, one to one",
    formula: "items with a span of their own / items kept",
    strata: &["point"],
    ..Entry::SHARE
};

pub const ITEM_FIDELITY: Entry = Entry {
    name: "item_fidelity",
    summary: "Share of the items of the kept sets that stand in the source word for word where they say",
    formula: "kept items equal to the bytes of their step / kept items of all events that stand in one",
    ..Entry::SHARE
};

pub const ITEM_FOUND: Entry = Entry {
    name: "item_found",
    summary: "Share of the picked passages that stood in the source as they were given, before repair",
    formula: "picked passages neither repaired nor not found / picked passages of all events",
    ..Entry::SHARE
};

pub const ENTRIES: &[Entry] = &[ITEM_RECALL, ITEM_PRECISION, ITEM_FIDELITY, ITEM_FOUND];

/// Whether a row is that of a passage picked to stay.
fn is_picked(item: &Item) -> bool {
    item.fate.is_of_picked()
}

/// Scores the items of the event at this point.
pub(super) fn score(truth: &Truth, ground: &Ground<'_>, run: &Run, rows: &mut Rows) {
    let event = match ground.point.number {
        Some(number) => run.events.get(number - 1),
        None => run.events.last(),
    };
    let Some(event) = event.filter(|event| event.work.items.iter().any(is_picked)) else { return };
    let items: Vec<Vec<u64>> =
        event.work.items.iter().filter(|item| item.fate.is_kept()).map(|item| words(&item.text)).collect();
    let mut free: Vec<bool> = vec![true; items.len()];
    let (mut n, mut matched) = (0u64, 0u64);
    let mut by_type: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (span, run) in truth.annotations.salient.iter().zip(&truth.salient) {
        if !ground.in_scope(span.place.step) || run.is_empty() {
            continue;
        }
        let own = (0..items.len()).find(|&at| free[at] && fits(&items[at], run));
        if let Some(at) = own {
            free[at] = false;
        }
        let of_type = by_type.entry(&span.kind).or_default();
        n += 1;
        of_type.0 += 1;
        matched += u64::from(own.is_some());
        of_type.1 += u64::from(own.is_some());
    }
    if n == 0 {
        return;
    }
    rows.push(&ITEM_RECALL, ground.stratum(None), ratio(matched as f64, n as f64), n as f64, n);
    if ground.is_end() {
        for (kind, (n, matched)) in by_type {
            let stratum = ground.stratum(Some(("type", kind)));
            rows.push(&ITEM_RECALL, stratum, ratio(matched as f64, n as f64), n as f64, n);
        }
    }
    let kept = items.len() as f64;
    rows.push(&ITEM_PRECISION, ground.stratum(None), ratio(matched as f64, kept), kept, items.len() as u64);
}

/// Scores how true the picked passages are to their source, annotated or not.
pub(super) fn fidelity(log: &Log, run: &Run, rows: &mut Rows) {
    let items = || run.events.iter().flat_map(|event| &event.work.items).filter(|item| is_picked(item));
    let n_picked = items().count() as u64;
    if n_picked == 0 {
        return;
    }
    let (mut n, mut faithful) = (0u64, 0u64);
    for item in items().filter(|item| item.fate.is_kept()) {
        // What annotations give in words of their own stands nowhere, and says so.
        let Some((step, bytes)) = &item.source else { continue };
        let text = log.trajectory.steps.get(*step as usize).map(|step| step.text.as_str());
        let there = text.and_then(|text| text.get(bytes.start as usize..bytes.end as usize));
        n += 1;
        faithful += u64::from(there == Some(&*item.text));
    }
    rows.push(&ITEM_FIDELITY, "", ratio(faithful as f64, n as f64), n as f64, n);
    let found = items().filter(|item| !matches!(item.fate, Fate::Repaired | Fate::NotFound)).count();
    rows.push(&ITEM_FOUND, "", ratio(found as f64, n_picked as f64), n_picked as f64, n_picked);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Event;
    use crate::scores::truth;

    #[test]
    fn words_fit_if_one_holds_the_other_and_not_much_more() {
        let of = |a: &str, b: &str| fits(&words(a), &words(b));
        assert!(of("The rent is 900.", "the rent is 900") && of("is 900", "rent is 900, please"));
        assert!(!of("900", "the rent is 900") && !of("rent 900", "rent is 900") && !of("", ""));
    }

    fn item(text: &str, place: (u32, u32), fate: Fate) -> Item {
        let source = (fate != Fate::NotFound).then(|| (place.0, place.1..place.1 + text.len() as u32));
        Item { text: text.into(), kind: "fact", source, score: None, fate, of: None }
    }

    /// Two spans in the scope; one item fits the first, a second says it again, a third fits none.
    #[test]
    fn items_and_spans_are_matched_one_to_one() {
        let mut log = Log::script(
            "user: Find a flat.
             agent: Where?
             user: The rent is 900. My cat comes along.
             agent: Good.
             user: And?
             agent: Done.",
        );
        log.trajectory.annotations = Some(
            r#"{"salient": [{"step": 2, "start": 0, "end": 15, "type": "constraint"},
                {"step": 2, "start": 17, "end": 35, "type": "fact"}]}"#
                .to_owned(),
        );
        let mut event = Event::test(3, 1..3);
        event.work.items = vec![
            item("The rent is 900.", (2, 0), Fate::Kept),
            item("The rent is 900", (2, 0), Fate::Kept),
            item("Where?", (1, 0), Fate::Repaired),
            item("My cat comes along.", (2, 17), Fate::Capped),
            item("nobody said so", (0, 0), Fate::NotFound),
        ];
        let run = Run { events: vec![event], ..Run::default() };
        let mut rows = Rows { ids: ("v".into(), "t".into()), rows: Vec::new() };
        truth::score(&Truth::of(&log).unwrap(), &log, &run, &Default::default(), 1, &mut rows).unwrap();
        fidelity(&log, &run, &mut rows);
        let of = |metric: &str, stratum: &str| {
            rows.rows.iter().find(|row| row.metric == metric && &*row.stratum == stratum).unwrap().value
        };
        assert_eq!(of("item_recall", "point=end"), Some(0.5));
        assert_eq!(of("item_recall", "point=end type=fact"), Some(0.0));
        assert_eq!(of("item_precision", "point=1"), Some(1.0 / 3.0));
        assert_eq!((of("item_fidelity", ""), of("item_found", "")), (Some(1.0), Some(0.6)));
    }
}
