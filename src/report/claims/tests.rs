//! Claims of this version, and what is told of wrong ones.

use super::*;
use crate::settings::Source;

/// What this version of the program knows.
pub(in crate::report) fn names() -> Names {
    let formats = crate::logs::formats::ALL.iter().map(|e| e.name);
    let not_read = crate::logs::formats::NOT_READ.iter().map(|(name, _)| *name);
    Names {
        strategies: crate::strategies::ALL.iter().map(|e| e.name.to_owned()).collect(),
        triggers: crate::triggers::ALL.iter().map(|e| e.name.to_owned()).collect(),
        formats: formats.chain(not_read).map(str::to_owned).collect(),
    }
}

pub(in crate::report) fn parse(text: &str) -> anyhow::Result<Claims> {
    file::read(&Source { path: "claims.toml", text }, &names())
}

fn error(text: &str) -> String {
    format!("{:#}", parse(text).err().expect("an error"))
}

pub(in crate::report) const ONE: &str = r#"
[[claims]]
id = "cut"
claim = "masking cuts"
source = "a paper"
figure = "52 %"
family = "savings"
how = "token savings"
kind = "value"
metric = "token_savings"
strategy = { name = "mask", keep_last = 10 }
trigger = { name = "turns", n = 1 }
formats = ["sweagent"]
min_turns = 60
direction = "near"
claimed = 0.52
margin = 0.05
"#;

/// Every name is known to this version or on the list of those not built yet.
#[test]
fn the_shipped_claims_are_right() {
    let claims = Claims::load(None, &names()).unwrap();
    assert!(claims.claims.len() >= 30, "{}", claims.claims.len());
    assert_eq!(claims.questions.len(), 4);
    for question in &claims.questions {
        assert!(!question.claims.is_empty(), "{}", question.question);
    }
}

#[test]
fn a_claim_is_a_region_for_a_score_of_some_variants_over_some_logs() {
    let claims = parse(ONE).unwrap();
    let test = claims.claims[0].test.as_ref().unwrap();
    assert!((test.region.low - 0.47).abs() < 1e-12 && (test.region.high - 0.57).abs() < 1e-12);
    assert_eq!(test.region.words, "0.52 ± 0.05");
    assert_eq!(test.of.logs.words(), "sweagent, 60 turns and more");
    let params = |json| serde_json::from_str(json).unwrap();
    assert!(test.of.strategy.fits("mask", &params(r#"{"keep_last":10,"x":1}"#)));
    assert!(!test.of.strategy.fits("mask", &params(r#"{"keep_last":5}"#)));
    assert!(!test.of.strategy.fits("truncate", &params(r#"{"keep_last":10}"#)));
    let at_least = ONE.replace("near", "at_least").replace("margin = 0.05", "margin = 0");
    let region = parse(&at_least).unwrap().claims.remove(0).test.ok().unwrap().region;
    assert_eq!((region.low, region.high, region.words.as_str()), (0.52, f64::INFINITY, "at least 0.52"));
}

#[test]
fn a_trend_is_a_difference_of_points() {
    let trend = ONE.replace("kind = \"value\"", "kind = \"trend\"\npoints = [1, 3]");
    let test = parse(&trend).unwrap().claims.remove(0).test.ok().unwrap();
    assert_eq!(test.of.asked.to_string(), "token_savings point=3");
    assert_eq!(test.than.unwrap().asked.to_string(), "token_savings point=1");
    assert!((test.steps - 2.0).abs() < 1e-12);
}

#[test]
fn errors_name_the_line_and_the_nearest_name() {
    insta::assert_snapshot!(error(&ONE.replace("metric = \"token_savings\"", "metric = \"token_saving\"")).lines().next().unwrap(), @"claims.toml:10: unknown score `token_saving`");
    assert!(error(&ONE.replace("\"mask\"", "\"msak\"")).contains("did you mean `mask`?"));
    insta::assert_snapshot!(error(&ONE.replace("margin = 0.05", "margin = -1")), @"claims.toml:17: `margin` is below 0");
    insta::assert_snapshot!(error(&ONE.replace("margin = 0.05", "")), @"claims.toml:2: claim `cut` has no `margin`");
    insta::assert_snapshot!(error(&ONE.replace("direction", "directon")).lines().next().unwrap(), @"claims.toml:15: unknown key `directon` of `claims`");
    insta::assert_snapshot!(error(&ONE.replace("\"near\"", "\"nearly\"")), @r"
    claims.toml:15: unknown value `nearly` of `claims.direction`
    hint: did you mean `near`? (known: near, at_least, at_most)
    ");
    insta::assert_snapshot!(error(&format!("{ONE}{ONE}")), @"claims.toml:19: a second claim with the id `cut`");
    insta::assert_snapshot!(error(&format!("{ONE}not_testable = \"why\"")), @"claims.toml:2: claim `cut` is `not_testable` and has a test as well");
    insta::assert_snapshot!(error(&ONE.replace("\"value\"", "\"ratio\"")), @"claims.toml:2: claim `cut`: a `value` has neither `than` nor `points`, a `difference` or `ratio` has `than`, a `trend` has `points`");
    let question = "[[questions]]\nquestion = \"?\"\nsource = \"s\"\nrecipe = \"r\"\nclaims = [\"cat\"]";
    insta::assert_snapshot!(error(&format!("{ONE}{question}")), @r"
    claims.toml:22: unknown claim `cat`
    hint: did you mean `cut`? (known: cut)
    ");
    let stratum = ONE.replace("margin = 0.05", "margin = 0.05\nstratum = \"tial=10\"");
    assert!(error(&stratum).contains("did you mean `tail`?"));
}

#[test]
fn a_name_of_the_future_must_be_listed() {
    let future = ONE.replace("\"mask\"", "\"foresight\"");
    assert!(error(&future).contains("unknown strategy `foresight`"));
    let claims = parse(&format!("[not_yet]\nstrategies = [\"foresight\", \"mask\"]\n{future}")).unwrap();
    assert!(claims.is_planned("strategies", "foresight") && !claims.is_planned("strategies", "mask"));
}
