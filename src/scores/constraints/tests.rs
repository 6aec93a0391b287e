//! Tests of `constraints`.

use super::*;
use std::collections::BTreeMap;

use proptest::prelude::*;

#[derive(serde::Deserialize)]
struct Pairs {
    pair: Vec<Pair>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    constraint: String,
    context: String,
    outcome: String,
    category: String,
    #[expect(dead_code, reason = "said to the reader of the file")]
    why: String,
    #[serde(default)]
    hard: bool,
    #[serde(default)]
    held_out: bool,
}

impl Pair {
    fn found(&self) -> Outcome {
        judge(&self.constraint, &self.category, &self.context)
    }
}

fn pairs() -> Vec<Pair> {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/datasets/golden/constraint_pairs.toml"));
    toml::from_str::<Pairs>(text).unwrap().pair
}

fn judge(constraint: &str, category: &str, context: &str) -> Outcome {
    let constraint = Constraint::new(constraint, category);
    outcome(&constraint, &Prepared::new([context]), &Beside::default()).outcome
}

/// How many of the pairs come out as written, of how many; prints the confusions.
fn right(wanted: impl Fn(&Pair) -> bool) -> (usize, usize) {
    let (mut table, mut right, mut n) = (BTreeMap::<_, u32>::new(), 0, 0);
    for pair in pairs().into_iter().filter(wanted) {
        let found = pair.found().name();
        n += 1;
        right += usize::from(found == pair.outcome);
        if found != pair.outcome {
            println!("{:?} in {:?}: {found}, not {}", pair.constraint, pair.context, pair.outcome);
        }
        *table.entry((pair.outcome, found)).or_default() += 1;
    }
    for ((wanted, found), count) in table {
        println!("{wanted:>12} -> {found:<12} {count}");
    }
    (right, n)
}

#[test]
fn golden_pairs() {
    assert_eq!(right(|p| !p.hard && !p.held_out), (107, 107), "tuned");
    assert_eq!(right(|p| p.held_out), (18, 20), "held out");
    assert_eq!(right(|p| p.hard), (0, 12), "beyond rules");
}

#[test]
fn contexts_of_other_categories_say_nothing() {
    let pairs = pairs();
    for a in &pairs {
        let others = pairs.iter().filter(|b| b.category != a.category && !a.constraint.is_empty());
        for b in others {
            let found = judge(&a.constraint, &a.category, &b.context);
            assert_eq!(found, Outcome::Dropped, "{:?} in {:?}", a.constraint, b.context);
        }
    }
}

/// Puts the words of a text in another order.
fn shuffled(text: &str, seed: &mut u64) -> String {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    for i in (1..words.len()).rev() {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        words.swap(i, (*seed >> 33) as usize % (i + 1));
    }
    words.join(" ")
}

#[test]
fn shuffled_words_hold_little() {
    let (pairs, mut seed) = (pairs(), 7);
    let held: Vec<&Pair> = pairs.iter().filter(|p| p.found().held()).collect();
    let all = pairs.iter().map(|p| p.context.as_str()).collect::<Vec<_>>().join("\n");
    let (mut alone, mut together) = (0, 0);
    for _ in 0..20 {
        let mixed = shuffled(&all, &mut seed);
        let mixed = Prepared::new([mixed.as_str()]);
        for p in &held {
            let constraint = Constraint::new(&p.constraint, &p.category);
            together += usize::from(outcome(&constraint, &mixed, &Beside::default()).outcome.held());
            alone += usize::from(judge(&p.constraint, &p.category, &shuffled(&p.context, &mut seed)).held());
        }
    }
    println!("of {}: {alone} alone, {together} together", 20 * held.len());
    assert!(4 * alone < 20 * held.len() && 20 * together < 20 * held.len());
}

#[test]
fn values_written_otherwise_are_equal() {
    for (a, b) in [
        ("$500", "USD 500"),
        ("$1,200", "1200 dollars"),
        ("80 ms", "0.08 s"),
        ("4 GB", "4096 MB"),
        ("two seconds", "2 s"),
        ("5k", "5000"),
        ("14:00", "2 pm"),
        ("15 March", "March 15th"),
        ("Friday", "2026-03-06"),
        ("50 percent", "50%"),
        ("two hundred", "200"),
    ] {
        let read = |text: &str| read(&split(text)).iter().find_map(|t| t.value().copied()).expect("a value");
        assert!(read(a).is_same(&read(b)), "{a} is {b}: {:?} {:?}", read(a), read(b));
    }
}

#[test]
fn evidence_is_the_worst_statement() {
    let context =
        ["We talked about lookups.", "Lookups must stay under 80 ms. Lookups must stay under 800 ms."];
    let constraint = Constraint::new("Lookups must stay under 80 ms", "");
    let verdict = outcome(&constraint, &Prepared::new(context), &Beside::default());
    let evidence = Some("Lookups must stay under 800 ms");
    assert_eq!(verdict, Verdict { outcome: Outcome::Mutated, evidence });
}

#[test]
fn exact_words_may_go_over_sentences() {
    let said = "No. Our data must not leave Germany.";
    assert_eq!(judge(said, "", "She said: No.  Our data must not leave Germany!"), Outcome::Preserved);
}

#[test]
fn hostile_texts() {
    let long = "a".repeat(100_000) + &"0".repeat(100_000) + &"\u{e4}\u{20ac}".repeat(50_000);
    for text in ["", " ", ".", "$", "\u{20ac}", "not", "n't", "May 9", "99:99", "0000-01-01", &long] {
        assert_eq!(judge("Spend at most $500", "", text), Outcome::Dropped);
        judge(text, text, text);
    }
}

proptest! {
    #[test]
    fn never_panics(a in "(\\PC|[a-z]{1,6}|[ .,;:$%'-]|must not|n't|2026-0|at most |[0-9]{1,9}| ms|Friday ){0,40}", b in "\\PC*") {
        judge(&a, &b, &b);
        judge(&a, &b, &a);
        judge(&b, "", &a);
    }
}
