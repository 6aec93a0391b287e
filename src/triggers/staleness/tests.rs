//! Tests of `staleness`.

use super::super::tests::{details, fired, lines, refused};
use super::similarity::calibrated;
use super::*;
use crate::models::scripted::Scripted;
use crate::models::{Answer, Call, Card};

/// Turn 1: read config.py; at turn 20 nobody has referred to it for ten turns, and its similarity is 0.2.
#[test]
fn the_example_of_the_seed() {
    let rule = Staleness::default();
    assert!((rule.score(19, 0, 0.2) - 0.754).abs() < 1e-12);
    // Ages and references count at most in full.
    assert!((rule.score(500, 0, 1.0) - 0.7).abs() < 1e-12);
    assert!((rule.score(0, 99, 1.0) - 0.0).abs() < 1e-12);
}

/// The same in a log: five words at turn 1, and six in the turns after it, of which one is the same, shown by a tool and named by
/// nobody: a cosine of 1 / sqrt(5 * 6) = 0.183, which is 0.391 on the scale of vectors. A turn earlier the score is 0.685.
#[test]
fn the_example_in_a_log() {
    let others = lines("action: date\nobservation: alpha foxtrot golf hotel india", 24);
    let script =
        format!("user: u\naction: date\nobservation: alpha bravo charlie delta echo\n{others}\nagent: so");
    let params = "threshold = 0.69\nbatch = 1";
    assert_eq!(fired(&script, "staleness", params), ["19: staleness [2] 0.7"]);
    assert_eq!(details(&script, "staleness", params)[0]["scores"][0], 0.691);
}

#[test]
fn calibration_by_hand() {
    for (cosine, expected) in
        [(0.0, 0.0), (0.222, 0.454), (0.182, 0.39033), (0.767, 0.858), (1.0, 1.0), (1.1, 1.0)]
    {
        assert!((calibrated(cosine) - expected).abs() < 1e-4, "{cosine} {}", calibrated(cosine));
    }
}

/// A file that was read is read again, and edited; a test is run again; each is a use of what was shown of it. By a name that stands
/// in no result, so that no atom tells.
#[test]
fn any_later_use_is_a_reference() {
    let score = |first: &str, later: &str| {
        let idle = lines("action: date\nobservation: morning", 3);
        let script = format!(
            "user: u\naction: {first}\nobservation: alpha bravo\naction: {later}\nobservation: charlie\n{idle}\nagent: so"
        );
        let told = details(
            &script,
            "staleness",
            "recent = 3\nmax_age = 4\nmax_refs = 2\nthreshold = 0.0\nbatch = 1",
        );
        told.iter().find(|d| d["steps"][0] == 2).map(|d| d["scores"][0].as_f64().unwrap()).unwrap()
    };
    let unused = score("cat a.py", "date");
    // At turn 5, when three recent turns are behind: the use is the oldest of them.
    for (first, later) in
        [("cat a.py", "cat a.py"), ("cat a.py", "sed -i s/x/y/ a.py"), ("pytest t.py", "pytest t.py")]
    {
        assert!(
            (unused - score(first, later) - 0.2).abs() < 0.05,
            "{first} {later} {unused} {}",
            score(first, later)
        );
    }
    assert!((unused - score("cat a.py", "cat b.py")).abs() < 0.05);
}

/// Vectors of a scripted model, by hand: what is said of the recent turns has half the direction of the observation.
#[test]
fn an_embedder_tells_similarity() {
    let card = Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 512 };
    let model = Scripted::rule(card, |call| {
        let Call::Embed { text } = call else { return None };
        let values = if text.contains("date") { vec![0.5, 0.75f32.sqrt()] } else { vec![1.0, 0.0] };
        Some(Ok(Answer::Vector { values, cut_tokens: 0 }))
    });
    let idle = lines("action: date\nobservation: morning", 12);
    let log = Log::script(&format!("user: u\naction: cat x\nobservation: alpha\n{idle}\nagent: so"));
    let rule =
        Staleness { embedder: "scripted".to_owned(), threshold: 0.6, batch: 1, ..Staleness::default() };
    let mut detector = rule.open(&log, 1..log.turns.len() as u32, Some(&model)).unwrap();
    let fired = (2..log.turns.len() as u32).find_map(|turn| {
        detector.advance(&super::super::Moment { log: &log, turn, context_tokens: 0, messages: None })
    });
    // At turn 12 it is 11 turns old: 0.066 + 0.4 + 0.3 * 0.5.
    let fired = fired.unwrap();
    assert!(
        fired.details.contains("\"scores\":[0.616]") && fired.details.contains("[2]"),
        "{}",
        fired.details
    );
    assert!(rule.open(&log, 1..2, None).is_err());
}

/// Naming what it showed keeps an observation; what another shows again is the other's.
#[test]
fn references_keep_it_fresh() {
    let script = |said: &str| {
        let idle = lines("action: date\nobservation: morning", 2);
        format!(
            "user: u\naction: cat x\nobservation: foo_bar baz_qux\n{idle}\nthought: {said}\naction: date\nobservation: m\nagent: so"
        )
    };
    let params = "recent = 3\nmax_age = 4\nmax_refs = 2\nthreshold = 0.75\nbatch = 1";
    let of = |said: &str| {
        let told = details(&script(said), "staleness", params);
        told.iter().find(|d| d["steps"][0] == 2).map(|d| d["scores"][0].as_f64().unwrap())
    };
    // At turn 5 it is 4 turns old: 0.3 + 0.4 + 0.3.
    assert_eq!(of("hm"), Some(1.0));
    // Two references in the window, and both of its atoms stand there: 0.3 + 0 + 0.
    assert_eq!(of("foo_bar and baz_qux"), None);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let between = |name: &str| format!("parameter `{name}` must be between 0 and 1");
    for (params, told) in [
        ("threshold = 1.1", &*between("threshold")),
        ("threshold = -0.1", &between("threshold")),
        ("refs_weight = -0.4", &between("refs_weight")),
        ("max_age = 0", "parameter `max_age` must be between 1 and 10000"),
        ("max_refs = 0", "parameter `max_refs` must be at least 1"),
        ("batch = 0", "parameter `batch` must be at least 1"),
        ("recent = 51", "parameter `recent` must be at most `max_age` (50 here)"),
    ] {
        assert_eq!(refused("staleness", params), told);
    }
    let over =
        |sum: &str| format!("it never fires: `threshold` must be below the sum of the weights ({sum} here)");
    assert_eq!(refused("staleness", "threshold = 1"), over("1.00"));
    assert_eq!(refused("staleness", "age_weight = 0\nrefs_weight = 0"), over("0.30"));
    let nothing = "age_weight = 0\nrefs_weight = 0\nsimilarity_weight = 0";
    assert_eq!(refused("staleness", nothing), over("0.00"));
    for params in ["threshold = 0", "threshold = 0.99", "age_weight = 0\nrefs_weight = 0\nthreshold = 0.2"] {
        fired("user: u\nagent: so", "staleness", params);
    }
}

/// Each is named once, and never before it is older than the recent turns.
#[test]
fn each_goes_stale_once() {
    let script = format!("user: u\n{}", lines("action: date\nobservation: alpha_one", 60));
    let mut steps = Vec::new();
    for (firing, d) in fired(&script, "staleness", "threshold = 0.3\nbatch = 1").iter().zip(details(
        &script,
        "staleness",
        "threshold = 0.3\nbatch = 1",
    )) {
        let turn: u32 = firing.split(':').next().unwrap().parse().unwrap();
        for step in d["steps"].as_array().unwrap() {
            let step = step.as_u64().unwrap() as u32;
            assert!(turn - step / 2 > 10, "{firing}");
            steps.push(step);
        }
    }
    let n = steps.len();
    assert_eq!(sorted(steps).len(), n);
    assert!(n > 40);
    assert_eq!(fired(&script, "staleness", "threshold = 0.3\nbatch = 60"), [""; 0]);
}
