//! Tests of `pick`.

use super::*;
use crate::context::log::Log;
use crate::strategies::tests::run;

#[test]
fn models_are_told_the_constraints_that_hold() {
    let held = |kind, text: &str| Held::new(text.to_owned(), kind, 1, 0..1, 0.5);
    let mut all = vec![
        held(ItemKind::Constraint, "No more than 900 euros."),
        held(ItemKind::Fact, "The flat has two rooms."),
        held(ItemKind::Constraint, "No more than\n1200 euros."),
    ];
    assert_eq!(limits(all.iter()), "No more than 900 euros. No more than 1200 euros.");
    all[0].conflict = Some(Conflict::Earlier);
    all[2].conflict = Some(Conflict::Newest);
    assert_eq!(limits(all.iter()), "No more than 1200 euros.");
    assert_eq!(limits(all[..2].iter()), "none");
    // 22 bytes each: of twenty the newest thirteen.
    let many: Vec<Held> =
        (10..30).map(|n| held(ItemKind::Constraint, &format!("No more than {n} euros."))).collect();
    let told = limits(many.iter());
    assert!(told.starts_with("No more than 17 euros.") && told.ends_with("29 euros."), "{told}");
}

fn picking(variant: Variant) -> Picking {
    Picking {
        method: Method::Learned,
        variant,
        threshold: None,
        k: 2,
        min_rating: 6.0,
        max_rated: 9,
        answer_tokens: 500,
        prior: 1.0,
        similarity: 0.85,
        limits: String::new(),
        demands: false,
        items: 5,
        quotas: [5; 5],
    }
}

#[test]
fn variants_cut_off_in_their_own_ways() {
    let judged = [(0, 0.2), (1, -0.5), (2, 1.5), (3, 0.2), (4, -3.0), (5, 0.9)];
    let kept = |variant| -> Vec<usize> {
        choose(&judged, 0.5, &picking(variant), |_| true).into_iter().map(|(at, _)| at).collect()
    };
    assert_eq!(kept(Variant::Standard), [2, 5, 0, 3]);
    assert_eq!(kept(Variant::Conservative), [2, 5, 0, 3, 1]);
    assert_eq!(kept(Variant::Aggressive), [2, 5, 0]);
    assert_eq!(kept(Variant::TopK), [2, 5]);
    // Ratings 8.4, 7.4, 5.95 (twice), 4.4, 1.4.
    assert_eq!(kept(Variant::Ranked), [2, 5]);
    let none = choose(&[(0, -2.0), (1, -3.0)], 0.5, &picking(Variant::Aggressive), |_| true);
    assert_eq!(none, [(0, -2.0)]);
    assert!(choose(&[], 0.5, &picking(Variant::Aggressive), |_| true).is_empty());
    // Where 5 says what 2 says, it does not count.
    let others = |variant| choose(&judged, 0.5, &picking(variant), |at| at != 5);
    assert_eq!(others(Variant::TopK), [(2, 1.5), (0, 0.2)]);
    assert_eq!(others(Variant::Aggressive), [(2, 1.5), (0, 0.2), (3, 0.2)]);
    assert_eq!(others(Variant::Standard).len(), 3);
    let few = Picking { items: 2, ..picking(Variant::Standard) };
    assert_eq!(choose(&judged, 0.5, &few, |_| true), [(2, 1.5), (5, 0.9)]);
}

#[test]
fn quotations_are_ranked_by_where_they_stand() {
    let quote =
        |step: u32, score: f64| Picked { step, bytes: 0..9, kind: ItemKind::Fact, score, is_repaired: false };
    let kept = |variant| -> Vec<u32> {
        let mut picked = vec![quote(1, 0.02), quote(2, 0.05), quote(3, 0.07), quote(4, 0.9)];
        cut_off(&mut picked, &picking(variant));
        picked.into_iter().map(|quote| quote.step).collect()
    };
    assert_eq!(kept(Variant::Standard), [1, 2, 3, 4]);
    assert_eq!(kept(Variant::Conservative), [1, 2, 3, 4]);
    assert_eq!(kept(Variant::Aggressive), [2, 3, 4]);
    assert_eq!(kept(Variant::TopK), [3, 4]);
    // Ratings 3.5, 5.5, 6.3, 10.0.
    assert_eq!(kept(Variant::Ranked), [3, 4]);
}

/// Of forty demands of the user no more than twelve are kept, as they stand, and the goal.
#[test]
fn no_more_than_twelve_are_kept() {
    let things = ["crane", "ledger", "tide", "cargo", "rope", "bolt", "lamp", "quay"];
    let demand = |n: usize| format!("The {}_{n} must never exceed {n}00 kg in port_{n}.py.~", things[n % 8]);
    let demands: String = (1..=40).map(demand).collect();
    let idle = "\naction: date\nobservation: morning".repeat(4);
    let log = Log::script(&format!("user: mend it\nagent: well\nuser: {demands}{idle}\nagent: so"));
    let kept = |params: &str| {
        let params = format!("variant = 'conservative'\nkeep_last = 0\n{params}");
        let run = run(("salience", &params), ("turns", "n = 4"), &log);
        let items = &run.events[0].work.items;
        let stands = |item: &Item| log.trajectory.steps.iter().any(|step| step.text.contains(&*item.text));
        assert!(items.iter().all(stands), "{items:?}");
        items.iter().filter(|item| item.fate.is_kept()).count()
    };
    assert!((12..=13).contains(&kept("")), "{}", kept(""));
    assert!((5..=6).contains(&kept("items = 5")), "{}", kept("items = 5"));
}

/// Of twenty lines of a result as many are kept as it is told.
#[test]
fn results_have_a_quota() {
    let line = |n: usize| format!("ERROR in src/port_{n}.py:{n}1: the crane_{n} exceeds {n}00 kg~");
    let lines: String = (1..=20).map(line).collect();
    let log = Log::script(&format!(
        "user: mend it\nagent: well\naction: pytest src\nobservation: {lines}\nagent: so\naction: date\nobservation: morning\nagent: so"
    ));
    let kept = |results: usize| {
        let params = format!("variant = 'top-k'\nk = 12\nkeep_last = 0\nresults = {results}");
        let run = run(("salience", &params), ("turns", "n = 2"), &log);
        let items = &run.events[0].work.items;
        items.iter().filter(|item| item.fate.is_kept() && item.kind == "tool_output").count()
    };
    assert_eq!([kept(0), kept(3), kept(7)], [0, 3, 7]);
}

/// Weights of one's own take the place of those that travel with the program: without an intercept all is likely.
#[test]
fn own_weights_rate() {
    let dir = tempfile::tempdir().unwrap();
    let mut weights: serde_json::Value =
        serde_json::from_str(include_str!("../../../data/weights.json")).unwrap();
    weights["statements"]["intercept"] = serde_json::json!(9.0);
    let (path, text) = (dir.path().join("own.json"), weights.to_string());
    std::fs::write(&path, &text).unwrap();
    let name = format!("{}#{}", path.display(), &blake3::hash(text.as_bytes()).to_hex()[..16]);
    let idle = "~and so on and so on and so on".repeat(9);
    let log = Log::script(&format!("user: mend it\nagent: well{idle}\nuser: go on\nagent: so"));
    let best = |weights: &str| {
        let params = format!("keep_last = 0\nbackground = 'none'\nweights = '{weights}'");
        let run = run(("salience", &params), ("turns", "n = 1"), &log);
        run.events[0].work.items.iter().filter_map(|item| item.score).fold(0.0, f64::max)
    };
    assert!(best(&name) > 0.99 && best("") < 0.9, "{} {}", best(&name), best(""));
}

/// What old experiments name is told what took its place.
#[test]
fn rules_are_gone_and_say_so() {
    for name in ["salience", "protected-core", "core-notes"] {
        let params = toml::from_str("extract = \"rules\"").unwrap();
        let error = format!("{:#}", crate::strategies::build(name, params).err().unwrap());
        assert!(error.contains("a learned rater took the place of the rules"), "{error}");
        assert!(error.contains("hint: leave `extract` out, or name `learned`"), "{error}");
    }
}
