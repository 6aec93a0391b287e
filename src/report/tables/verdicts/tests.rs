//! Tests of `verdicts`.

use super::*;
use crate::report::claims::tests::{ONE, parse};

const KEY: &str = "token_savings";

fn trajectories(n: usize) -> Vec<Trajectory> {
    (0..n)
        .map(|t| Trajectory {
            id: t.to_string(),
            format: if t.is_multiple_of(2) { "sweagent" } else { "claude-code" }.to_owned(),
            agent: None,
            n_turns: 100,
            cluster: t as u32,
            resolved: None,
            reward: None,
            is_cached_an_hour: false,
            source_key: String::new(),
            content: String::new(),
            weight: 1.0,
        })
        .collect()
}

/// Verdict and why of `text` where `mask(keep_last=10)` and `full` have these savings, one cluster each.
fn verdict(text: &str, mask: &[f64], full: &[f64]) -> (&'static str, String, Estimate) {
    let claims = parse(text).unwrap();
    let weighted = |values: &[f64]| -> Vec<(f64, f64)> { values.iter().map(|v| (*v, 2.0)).collect() };
    let (mask, full) = (weighted(mask), weighted(full));
    let lines = vec![
        Line::by_hand("mask(keep_last=10) @ turns", &[(KEY, &mask)]),
        Line::by_hand("full @ turns", &[(KEY, &full)]),
    ];
    let n = mask.len();
    let lines = Lines::by_hand(lines, n);
    let ground = Ground { lines: &lines, trajectories: &trajectories(n), events: &[] };
    let row = rows(&claims, &ground).remove(0);
    (row.verdict.name(), row.why, row.figure.estimate)
}

/// A claim on all formats, without the trigger's parameter, which lines by hand lack.
fn claim(direction: &str, claimed: &str, margin: &str) -> String {
    ONE.replace("formats = [\"sweagent\"]\n", "")
        .replace(", n = 1", "")
        .replace("\"near\"", &format!("{direction:?}"))
        .replace("claimed = 0.52", &format!("claimed = {claimed}"))
        .replace("margin = 0.05", &format!("margin = {margin}"))
}

/// 20 clusters of 0.45 and 0.55: 0.50 with a standard error of 0.011, so that the interval is about 0.48 to 0.52.
fn near_half(n: usize) -> Vec<f64> {
    (0..n).map(|t| if t.is_multiple_of(2) { 0.45 } else { 0.55 }).collect()
}

#[test]
fn verdicts_by_hand() {
    let of = |direction, claimed, margin| {
        let (verdict, why, e) = verdict(&claim(direction, claimed, margin), &near_half(20), &[0.0; 20]);
        assert!((e.value.unwrap() - 0.5).abs() < 1e-12);
        let (lo, hi) = e.interval.unwrap();
        assert!((0.47..0.49).contains(&lo) && (0.51..0.53).contains(&hi), "{lo} {hi}");
        (verdict, why)
    };
    assert_eq!(of("near", "0.52", "0.05").0, "supported");
    assert_eq!(of("near", "[0.4, 0.6]", "0").0, "supported");
    assert_eq!(of("at_least", "0.4", "0").0, "supported");
    // Forgiven: 0.55 - 0.1.
    assert_eq!(of("at_least", "0.55", "0.1").0, "supported");
    assert_eq!(of("at_most", "0.4", "0"), ("contradicted", "the whole interval lies above 0.400".to_owned()));
    assert_eq!(
        of("at_least", "0.75", "0"),
        ("contradicted", "the whole interval lies below 0.750".to_owned())
    );
    let (undecided, why) = of("at_least", "0.5", "0");
    assert_eq!(
        (undecided, why.as_str()),
        ("undecided", "the interval holds 0.500, an end of the claimed region")
    );
    assert_eq!(of("near", "0.52", "0.01").0, "undecided");
}

#[test]
fn few_clusters_decide_nothing() {
    let (verdict, why, e) = verdict(&claim("at_least", "0.1", "0"), &near_half(3), &[0.0; 3]);
    assert_eq!((verdict, why.as_str()), ("undecided", "no interval: n_eff is 3.00, under 4"));
    assert!(e.value.is_some() && e.interval.is_none());
}

#[test]
fn logs_are_those_that_are_meant() {
    let text = claim("at_least", "0.1", "0").replace("margin = 0", "margin = 0\nformats = [\"sweagent\"]");
    let values: Vec<f64> = (0..40).map(|t| [0.44, 0.55, 0.46, 0.55][t % 4]).collect();
    let (found, _, e) = verdict(&text, &values, &[0.0; 40]);
    // Every other one: 0.44 and 0.46 in turn.
    assert_eq!((found, e.n_trajectories), ("supported", 20));
    assert!((e.value.unwrap() - 0.45).abs() < 1e-12);
    let none = text.replace("min_turns = 60", "min_turns = 600");
    let (found, why, _) = verdict(&none, &near_half(40), &[0.0; 40]);
    assert_eq!(found, "not in this run");
    assert_eq!(why, "no log of this run is of the claimed kind (sweagent, 600 turns and more)");
}

#[test]
fn comparisons_are_paired() {
    let against = |kind: &str, claimed: &str| {
        let than = format!("kind = \"{kind}\"\nthan = {{ strategy = \"full\" }}");
        claim("at_least", claimed, "0").replace("kind = \"value\"", &than)
    };
    // 0.09 or 0.11 more on each log: little spread, whatever the spread of the logs.
    let apart = |t: usize| if t % 4 < 2 { 0.09 } else { 0.11 };
    let more: Vec<f64> = near_half(20).iter().enumerate().map(|(t, x)| x + apart(t)).collect();
    let (found, _, e) = verdict(&against("difference", "0.05"), &more, &near_half(20));
    assert_eq!(found, "supported");
    let (lo, hi) = e.interval.unwrap();
    assert!((lo - 0.095_198).abs() < 1e-6 && (hi - 0.104_802).abs() < 1e-6, "{lo} {hi}");
    // 0.6 / 0.5.
    let (found, _, e) = verdict(&against("ratio", "1.25"), &more, &near_half(20));
    assert_eq!(found, "contradicted");
    assert!((e.value.unwrap() - 1.2).abs() < 1e-12);
    // Savings 0.1 apart are no fair comparison.
    let matched = against("ratio", "1.25")
        .replace("margin = 0", "margin = 0\nmatched = { metric = \"token_savings\", within = 0.05 }");
    let (found, why, _) = verdict(&matched, &more, &near_half(20));
    assert_eq!(found, "undecided");
    assert_eq!(why, "the two are 0.100 apart in token_savings, more than 0.05: no fair comparison");
}

#[test]
fn a_bound_goes_one_way() {
    let of = |bound: &str, direction, claimed| {
        let text =
            claim(direction, claimed, "0").replace("margin = 0", &format!("margin = 0\nbound = \"{bound}\""));
        verdict(&text, &near_half(20), &[0.0; 20]).0
    };
    // At most 0.5: so at most 0.6, not 0.75, and perhaps 0.4 or more.
    assert_eq!(of("upper", "at_most", "0.6"), "supported");
    assert_eq!(of("upper", "at_least", "0.75"), "contradicted");
    assert_eq!(of("upper", "at_least", "0.4"), "undecided");
    assert_eq!(of("upper", "near", "[0.4, 0.6]"), "undecided");
    assert_eq!(of("upper", "near", "[0.1, 0.2]"), "undecided");
    assert_eq!(of("lower", "near", "[0.1, 0.2]"), "contradicted");
    assert_eq!(of("lower", "at_least", "0.4"), "supported");
}

#[test]
fn what_can_happen_no_variant_contradicts() {
    let text = claim("at_most", "0", "0").replace("margin = 0", "margin = 0\npossible = true");
    let (found, why, _) = verdict(&text, &near_half(20), &[0.0; 20]);
    assert_eq!(found, "undecided");
    assert_eq!(why, "not here (the whole interval lies above 0.000), but the claim is only that it can be");
}

#[test]
fn the_page_reads_like_this() {
    let prose = |id: &str| {
        format!(
            "[[claims]]\nid = \"{id}\"\nclaim = \"what is said\"\nsource = \"a paper\"\nfamily = \"savings\"\n"
        )
    };
    let never = format!("{}not_testable = \"only new runs can tell\"\n", prose("never"));
    let other = claim("at_least", "0.3", "0").replace("\"cut\"", "\"other\"").replace("10", "5");
    let asks = "[[questions]]\nquestion = \"Does it cut?\"\nsource = \"A paper\"\nrecipe = \"run it.\"\nclaims = [\"cut\"]\n";
    let claims = parse(&format!("{}{other}{never}{asks}", claim("near", "0.52", "0.05"))).unwrap();
    let savings: Vec<(f64, f64)> = near_half(20).iter().map(|v| (*v, 1.0)).collect();
    let lines = Lines::by_hand(vec![Line::by_hand("mask(keep_last=10) @ turns", &[(KEY, &savings)])], 20);
    let ground = Ground { lines: &lines, trajectories: &trajectories(20), events: &[] };
    let page = page_of(&claims, &ground);
    let columns = page.table.columns.len();
    let text = page.markdown();
    assert_eq!(text.lines().filter(|l| l.starts_with("- `") && !l.contains("family *")).count(), columns);
    let told = |l: &&str| {
        l.starts_with('|') || l.starts_with('#') || l.contains("20/20/20.0:") || l.contains("family *")
    };
    let told: Vec<&str> = text.lines().filter(told).collect();
    insta::assert_snapshot!(told.join("\n"), @r"
        # Claims
        ## Tested in this run
        | claim                         | theirs | claimed region |                    variant |               ours |          n |   verdict |                                               why |
        | ----------------------------- | -----: | -------------: | -------------------------: | -----------------: | ---------: | --------: | ------------------------------------------------: |
        | `cut`: masking cuts (a paper) |   52 % |    0.52 ± 0.05 | mask(keep_last=10) @ turns | 0.500 [0.48, 0.52] | 20/20/20.0 | supported | the whole interval lies within the claimed region |
        ## Not in this run
        | claim                           | theirs |                                     what is missing |
        | ------------------------------- | -----: | --------------------------------------------------: |
        | `other`: masking cuts (a paper) |   52 % | no variant of this run is mask(keep_last=5) @ turns |
        ## Not testable as stated
        | claim                           | theirs |                    why |
        | ------------------------------- | -----: | ---------------------: |
        | `never`: what is said (a paper) |      - | only new runs can tell |
        ## Research questions
        ### 1. Does it cut?
        - mask(keep_last=10) @ turns: token_savings: 0.500 [0.48, 0.52], n 20/20/20.0: supported (claimed: masking cuts)
        ## How each claim is measured
        - `cut` (family *savings*): token savings Score: `token_savings`. Logs: all formats, 60 turns and more: 20 of 20 logs.
        - `other` (family *savings*): token savings Score: `token_savings`. Logs: all formats, 60 turns and more: 20 of 20 logs.
        ## Columns of claims.csv and claims.parquet
        ");
}

#[test]
fn holm_asks_more_of_a_family() {
    // 0.40 to 0.60 in equal steps: 0.50 with a standard error of 0.0136, so that p at 0.47 is about 0.04.
    let values: Vec<f64> = (0..20).map(|t| 0.4 + 0.2 * f64::from(t) / 19.0).collect();
    let one = claim("at_least", "0.47", "0");
    let (found, _, _) = verdict(&one, &values, &[0.0; 20]);
    assert_eq!(found, "supported");
    let named = |id: &str| one.replace("\"cut\"", id);
    let three = format!("{one}{}{}", named("\"b\""), named("\"c\""));
    let (found, why, _) = verdict(&three, &values, &[0.0; 20]);
    assert_eq!(found, "undecided");
    assert!(why.starts_with("p is 0.1") && why.ends_with("after Holm's adjustment over 3"), "{why}");
}

#[test]
fn what_is_missing_is_said() {
    let of = |text: &str| {
        let (found, why, e) = verdict(text, &near_half(20), &[0.0; 20]);
        assert_eq!((found, e.value), ("not in this run", None));
        why
    };
    let other = claim("near", "0.5", "0.1").replace("keep_last = 10", "keep_last = 5");
    assert_eq!(of(&other), "no variant of this run is mask(keep_last=5) @ turns");
    let future = claim("near", "0.5", "0.1").replace("\"mask\", keep_last = 10", "\"foresight\"");
    let future = format!("[not_yet]\nstrategies = [\"foresight\"]\n{future}");
    assert_eq!(of(&future), "no variant of this run is foresight @ turns; `foresight` is not built yet");
    let never = "[[claims]]\nid = \"a\"\nclaim = \"b\"\nsource = \"c\"\nfamily = \"d\"\nnot_testable = \"only a new run\"";
    let (found, why, _) = verdict(never, &near_half(20), &[0.0; 20]);
    assert_eq!((found, why.as_str()), ("not testable as stated", "only a new run"));
}

/// Paid after 1, 3 and 9 decisions, and two that were cut off after 2 and 9.
#[test]
fn compressions_that_paid_are_counted_after_kaplan_and_meier() {
    let events = [(Some(1), 9), (Some(3), 9), (Some(9), 9), (None, 2), (None, 9)];
    let event = |(t, (break_even_turns, decisions_left)): (usize, &(Option<u32>, u32))| Event {
        trajectory: t as u32,
        weight: 1.0,
        tokens_before: 0,
        break_even_turns: *break_even_turns,
        decisions_left: *decisions_left,
        removable_tokens: 0,
        kept_tokens: 0,
        model_tokens: [0; 2],
        fallback: false,
        warning: false,
    };
    let events = [events.iter().enumerate().map(event).collect::<Vec<_>>()];
    let savings = [(0.5, 1.0); 5];
    let mut line = Line::by_hand("mask @ turns", &[(KEY, &savings)]);
    line.members = vec![0];
    let lines = Lines::by_hand(vec![line], 5);
    let ground = Ground { lines: &lines, trajectories: &trajectories(5), events: &events };
    let paid = ground.paid_back(&lines.all[0], "within=4", &[true; 5]);
    // 1 of 5 at 1, 1 of 3 at 3: 1 - 4/5 * 2/3.
    assert!((paid.pooled.value.unwrap() - 7.0 / 15.0).abs() < 1e-12);
    assert_eq!((paid.n_trajectories, paid.pooled.n_clusters(), paid.pooled.n_items), (5, 5, 5));
}
