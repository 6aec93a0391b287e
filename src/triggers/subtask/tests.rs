//! Tests of the trigger by scripts.

use super::super::tests::{fired, lines, refused};
use crate::turns::ends::{Ends, LEAST, N_BUCKETS};

/// The seed's four signals alone.
const SEED: &str = "learned = false\nexplicit_completion = true\nsemantic_marker = true\ntest_success = true\ntool_pattern = true";
/// With events of one turn, as short scripts have them.
const SHORT: &str = "learned = false\nexplicit_completion = true\nsemantic_marker = true\ntest_success = true\ntool_pattern = true\nleast_turns = 1";

/// The seed's scenario: auth.py is mended, then the README is brought up to date.
const AUTH: &str = "user: Fix authentication bug and update documentation
    action: cat auth.py
    observation: def login(): pass
    action: pytest tests/test_auth.py
    observation: ===== 1 failed in 0.2s =====
    action: sed -i 's/a/b/' auth.py
    observation: edited
    action: pytest tests/test_auth.py
    observation: ===== 1 passed in 0.2s =====
    action: cat README.md
    observation: # Manual
    action: sed -i 's/a/b/' README.md
    observation: edited
    action: cat README.md
    observation: # Manual
    agent: that was all";

/// Turns 1 to 3 are compressed after the test of turn 4 passed, which stays; then 5 and 6, with 7 staying.
#[test]
fn the_scenario_of_the_seed() {
    assert_eq!(
        fired(AUTH, "subtask", SHORT),
        ["5: subtask/test_success ..4 0.9", "8: subtask/tool_pattern ..7 0.7"]
    );
    // Without the first signal the pattern sees the same.
    assert_eq!(
        fired(AUTH, "subtask", "learned = false\ntool_pattern = true\nleast_turns = 1"),
        ["5: subtask/tool_pattern ..4 0.7", "8: subtask/tool_pattern ..7 0.7"]
    );
    let said = "learned = false\nexplicit_completion = true\nsemantic_marker = true";
    assert_eq!(fired(AUTH, "subtask", said), [""; 0]);
}

/// An edit that is tested in the same turn ends the work there, in one command or two calls.
#[test]
fn an_edit_tested_in_its_turn() {
    let script = |turn: &str| {
        format!(
            "user: u
             action: cat src/a.py
             observation: x
             {turn}
             agent: well"
        )
    };
    let one = |result: &str| {
        script(&format!("action: sed -i s/a/b/ src/a.py && pytest -q tests\nobservation: {result}"))
    };
    assert_eq!(fired(&one("2 passed in 0.1s"), "subtask", SHORT), ["3: subtask/test_success ..2 0.9"]);
    assert_eq!(fired(&one("<returncode>1</returncode>~1 failed in 0.1s"), "subtask", SHORT), [""; 0]);
    let edit = "sed -i s/a/b/ src/a.py\nobservation: edited";
    let test = "pytest -q tests\nobservation: 2 passed in 0.1s";
    let two = script(&format!("action: {edit}\nalso: {test}"));
    assert_eq!(fired(&two, "subtask", SHORT), ["3: subtask/test_success ..2 0.9"]);
    assert_eq!(
        fired(&two, "subtask", "learned = false\ntool_pattern = true\nleast_turns = 1"),
        ["3: subtask/tool_pattern ..2 0.7"]
    );
    let turned = script(&format!("action: {test}\nalso: {edit}"));
    assert_eq!(fired(&turned, "subtask", SHORT), [""; 0], "tested before the edit");
    let written = script("action: touch test_a.py && pytest test_a.py\nobservation: 1 passed in 1s");
    assert_eq!(fired(&written, "subtask", SHORT), [""; 0], "a new test proves no change");
    let before = script("action: pytest -q tests; sed -i s/a/b/ src/a.py\nobservation: 2 passed in 0.1s");
    assert_eq!(fired(&before, "subtask", SHORT), [""; 0], "tested before the edit");
}

/// An environment that rewards a call outside tells that the work is done, if a call changed something.
#[test]
fn rewards() {
    let script = |method: &str, reward: &str| {
        format!(
            "user: cancel it
             action: curl https://api.x.com/orders/1
             observation: open
             action: curl -X {method} https://api.x.com/orders/1
             observation: well~reward: {reward}
             agent: so"
        )
    };
    assert_eq!(fired(&script("DELETE", "1.0"), "subtask", SHORT), ["3: subtask/test_success ..2 0.9"]);
    assert_eq!(fired(&script("DELETE", "0.0"), "subtask", SHORT), [""; 0]);
    assert_eq!(fired(&script("GET", "1.0"), "subtask", SHORT), [""; 0]);
}

#[test]
fn tests_that_prove_nothing() {
    // Without an edit; and a new test file that passes.
    let script = "user: u
        action: pytest a_test.py
        observation: 1 passed in 1s
        action: touch b_test.py
        observation: edited
        action: pytest b_test.py
        observation: 1 passed in 1s
        agent: well";
    assert_eq!(fired(script, "subtask", SHORT), [""; 0]);
}

/// Trying one script after the other is no finished work; a program that runs after a change is.
#[test]
fn trial_scripts() {
    let script = |file: &str| {
        format!(
            "user: u
             action: cat a.py
             observation: x
             action: touch {file}
             observation: done
             action: python run.py
             observation: fine
             agent: well"
        )
    };
    assert_eq!(fired(&script("test_one.py"), "subtask", SHORT), [""; 0]);
    assert_eq!(fired(&script("b.py"), "subtask", SHORT), ["4: subtask/tool_pattern ..3 0.7"]);
    // Written and run at once, one after the other; and after a change.
    let tries = |file: &str| {
        format!(
            "user: u
             action: touch {file}
             observation: done
             action: touch test_one.py && python test_one.py
             observation: <returncode>1</returncode>
             action: touch test_two.py && python test_two.py
             observation: <returncode>0</returncode>
             agent: well"
        )
    };
    assert_eq!(fired(&tries("test_nil.py"), "subtask", SHORT), [""; 0]);
    assert_eq!(fired(&tries("b.py"), "subtask", SHORT), ["4: subtask/test_success ..3 0.9"]);
}

#[test]
fn a_run_of_edits_ends_with_its_last() {
    let edits = lines("action: sed -i s/a/b/ f.py\nobservation: edited", 4);
    let script = format!("user: u\n{edits}\naction: ls\nobservation: f.py\nagent: so");
    let on = "learned = false\nconsecutive_edits = true";
    assert_eq!(fired(&script, "subtask", on), ["6: subtask/consecutive_edits ..4 0.7"]);
    assert_eq!(fired(&script, "subtask", &format!("{on}\nedits = 5")), [""; 0]);
    assert_eq!(fired(&script, "subtask", SEED), [""; 0]);
}

#[test]
fn what_is_said() {
    let script = "user: u
        action: ls
        observation: a
        thought: Now I'll work on the parser.
        action: ls
        observation: b
        thought: The fix is complete.
        action: ls
        observation: c
        agent: bye";
    assert_eq!(
        fired(script, "subtask", SHORT),
        ["3: subtask/semantic_marker ..2 0.7", "4: subtask/explicit_completion ..3 0.9"]
    );
}

/// Idle after a change, again and again; never where nothing was ever changed.
#[test]
fn inactivity() {
    let idle = lines("action: ls\nobservation: a", 7);
    let script = format!("user: u\naction: sed -i s/a/b/ f.py\nobservation: edited\n{idle}");
    let params = "learned = false\ninactivity = true\nidle_turns = 3";
    assert_eq!(fired(&script, "subtask", &format!("{SEED}\nidle_turns = 3")), [""; 0]);
    assert_eq!(
        fired(&script, "subtask", params),
        ["5: subtask/inactivity ..4 0.4", "8: subtask/inactivity ..7 0.4"]
    );
    assert_eq!(fired(&format!("user: u\n{idle}"), "subtask", params), [""; 0]);
}

#[test]
fn it_needs_a_signal() {
    assert_eq!(refused("subtask", "edits = 0"), "parameter `edits` must be at least 1");
    assert_eq!(fired(AUTH, "subtask", "learned = false\ninactivity = true"), [""; 0]);
    assert_eq!(
        refused("subtask", "learned = false"),
        "it never fires: one of `test_success`, `explicit_completion`, `consecutive_edits`, `semantic_marker`, `tool_pattern`, `inactivity`, `learned` must be true"
    );
}

/// What is said to be done after one turn is no event; the work goes on to the next sign.
#[test]
fn no_event_of_one_turn() {
    let done = "thought: All tests pass.\naction: ls\nobservation: a";
    let script =
        format!("user: u\naction: ls\nobservation: a\n{}\nagent: bye", [done; 3].join("\nthought: So?\n"));
    let turns = |params: &str| fired(&script, "subtask", params).len();
    assert!(turns(SHORT) > turns(SEED), "{:?}", fired(&script, "subtask", SHORT));
    let scopes: Vec<u32> = fired(&script, "subtask", SEED)
        .iter()
        .map(|told| told.split("..").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(
        !scopes.is_empty() && [&[1], &scopes[..]].concat().windows(2).all(|w| w[1] - w[0] >= 2),
        "{scopes:?}"
    );
}

/// With odds that look at nothing but the user, a unit ends where he speaks next; the turn that ended it stays.
#[test]
fn learned_odds_tell_one_turn_later() {
    let mut weights = vec![0.0; N_BUCKETS];
    weights[N_BUCKETS - 1] = 100.0;
    let file = std::env::temp_dir().join(format!("trajpress-ends-{}.json", std::process::id()));
    let text = serde_json::to_string(&Ends::new(-5.0, &weights)).unwrap();
    std::fs::write(&file, &text).unwrap();
    let hash = blake3::hash(text.as_bytes()).to_hex();
    let own = format!("end_weights = \"{}#{}\"", file.display(), &hash[..16]);
    let script = "user: u
        action: ls
        observation: a
        action: ls
        observation: b
        agent: That is all.
        user: Now the manual.
        agent: Well.
        agent: bye";
    assert_eq!(fired(script, "subtask", &own), ["5: subtask/learned ..3 0.7"]);
    assert_eq!(super::Subtask::default().least_odds, LEAST, "what training counts by");
    let sure = format!("{own}\nleast_odds = 1.0");
    assert_eq!(fired(script, "subtask", &sure), [""; 0]);
    std::fs::remove_file(&file).unwrap();
    assert!(refused("subtask", &own).contains("end_weights"));
}

#[test]
fn said_twice_counts_once() {
    let script = "user: u
        action: ls
        observation: a
        thought: All tests pass.
        action: ls
        observation: b
        thought: All tests pass.
        action: ls
        observation: c
        agent: bye";
    assert_eq!(fired(script, "subtask", SHORT), ["3: subtask/explicit_completion ..2 0.9"]);
}

#[test]
fn support_without_tools() {
    let script = "user: Cancel my booking.
        agent: Which one?
        user: A1.
        agent: Your booking has been cancelled. Anything else?
        user: No, thanks.
        agent: Have a nice day.";
    assert_eq!(fired(script, "subtask", SHORT), ["3: subtask/explicit_completion ..2 0.9"]);
}
