//! Tests of `summary`.

use super::*;
use crate::report::load::Event;
use crate::text::natural::natural;

use super::variant::{EventSummary, kaplan_meier_median, summarise_events};

#[test]
fn the_median_of_kaplan_and_meier_counts_the_censored() {
    // At risk 5, 4, 2: survival 4/5, 4/5 * 3/4 = 3/5, 3/5 * 1/2 = 3/10 at time 6.
    let times = vec![(2, true), (3, true), (3, false), (6, true), (9, false)];
    assert_eq!(kaplan_meier_median(times), Some(6));
    // 1 - 1/4, then 2/3 of it: exactly 1/2.
    assert_eq!(kaplan_meier_median(vec![(1, true), (2, true), (5, false), (5, false)]), Some(2));
    assert_eq!(kaplan_meier_median(vec![(1, true), (2, false), (2, false)]), None);
    assert_eq!(kaplan_meier_median(vec![]), None);
}

#[test]
fn events_add_up() {
    let event = |break_even_turns, kept_tokens| Event {
        trajectory: 0,
        weight: 1.0,
        tokens_before: 0,
        break_even_turns,
        decisions_left: 9,
        removable_tokens: 100,
        kept_tokens,
        model_tokens: [0; 2],
        fallback: false,
        warning: false,
    };
    let e = summarise_events(&[event(Some(4), 10), event(None, 30)]);
    assert_eq!(e.kept_share, Some(0.2));
    assert_eq!((e.break_even_median, e.break_even_censored_share), (Some(4), Some(0.5)));
    assert_eq!(summarise_events(&[]), EventSummary::default());
}

#[test]
fn numbers_in_names_sort_by_value() {
    let mut labels = vec!["mask M=10", "mask M=5", "mask", "full", "mask M=5 b", "r 0.1", "r 0.02"];
    labels.sort_by(|a, b| natural(a, b));
    assert_eq!(labels, ["full", "mask", "mask M=5", "mask M=5 b", "mask M=10", "r 0.02", "r 0.1"]);
}

#[test]
fn reasons_are_told_once() {
    let null = Estimate::null("no rows");
    let some = Estimate { value: Some(1.0), ..Estimate::default() };
    let estimates = [("a", &null), ("b", &some), ("c", &null)];
    assert_eq!(joined(estimates.into_iter()).as_deref(), Some("a, c: no rows"));
    assert_eq!(joined([("b", &some)].into_iter()), None);
}
