//! Tests of `tiered`.

use std::sync::Arc;

use super::super::build;
use super::super::tests::run;
use super::*;
use crate::context::needs::Needs;
use crate::models::scripted::Scripted;
use crate::models::{Answer, Call, Card, Finish, Text};
use crate::replay::{Observer, Recipe, Run, replay};
use crate::strategies::Fate;

fn tiered(params: &str, script: &str, trigger: &str) -> (Log, Run) {
    let log = Log::script(script);
    let run = run(("tiered", params), ("turns", trigger), &log);
    (log, run)
}

fn recalled(log: &Log, run: &Run) -> Vec<(u32, String)> {
    let text =
        |blocks: &[crate::context::Block]| blocks.iter().map(|b| b.text(log)).collect::<Vec<_>>().concat();
    run.recalls.iter().map(|recall| (recall.decision, text(&recall.blocks))).collect()
}

const HALL: &str = "user: Mend the shop.
        action: cat src/login.py
        observation: def login(user): check password against the ldap server of hall seven
        action: cat src/search.py
        observation: def find(words): query the catalogue of roses
        action: cat src/cart.py
        observation: def total(cart): sum of prices and discount
        user: Now look at the ldap server in src/login.py
        agent: Done.";

/// Only what is asked for decides here: the query of the last decision names the first turn.
const BY_QUERY: &str = "hot_tokens = 0\nw_recency = 0.0\nw_access = 0.0\nw_semantic = 0.0\nw_entity = 0.0\n\
                        w_uniqueness = 0.0\nw_query = 1.0\nfloor = 0.5";

#[test]
fn the_stored_original_comes_back_when_it_is_asked_for() {
    let (log, run) = tiered(BY_QUERY, HALL, "n = 1");
    let found = recalled(&log, &run);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, 3);
    assert_eq!(
        found[0].1,
        "cat src/login.pydef login(user): check password against the ldap server of hall seven"
    );
    assert!(run.events.iter().all(|event| event.violations.is_empty()));
    let (log, run) = tiered(&format!("{BY_QUERY}\ntop_n = 0"), HALL, "n = 1");
    assert!(recalled(&log, &run).is_empty());
}

#[test]
fn without_a_model_what_is_generated_is_the_content() {
    let (log, run) =
        tiered(&format!("{BY_QUERY}\ndecompress = \"generated\"\nlight_ratio = 2.0"), HALL, "n = 1");
    let found = recalled(&log, &run);
    assert!(found.len() == 1 && found[0].1.contains("src/login.py"), "{found:?}");
    assert!(found[0].1.len() < 60, "{found:?}");
    assert!(run.recalls[0].work.calls == 0);
}

#[test]
fn a_model_compresses_and_expands_with_the_prompts_of_each_level() {
    let card = Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 4096 };
    let model = Arc::new(Scripted::rule(card, |call| {
        let Call::Generate { prompt, .. } = call else { return None };
        let asked: String = prompt.parts.iter().map(|part| part.text.as_str()).collect();
        let text = match () {
            () if asked.contains("Condense the content") => "Light.",
            () if asked.contains("heavily compressed representation") => "From heavy: src/none.py.",
            () if asked.contains("compressed summary") => "From light: src/none.py.",
            () => " a=1",
        };
        let text = text.to_owned();
        Some(Ok(Answer::Text(Text {
            text,
            finish: Finish::Stop,
            prompt_tokens: 9,
            tokens: 3,
            cut_tokens: 0,
        })))
    }));
    struct Nobody;
    impl Observer for Nobody {}
    let log = Log::script(HALL);
    let texts = |params: &str| {
        let params =
            format!("{BY_QUERY}\nlight_ratio = 2.0\nheavy_ratio = 2.0\ndecompress = \"generated\"\n{params}");
        let recipe =
            Recipe { model: Some(model.clone()), ..Recipe::named(("tiered", &params), ("turns", "n = 1")) };
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let run = replay(&log, &recipe, &tokenizer, &Needs::of(&log, 3), &mut Nobody).unwrap();
        (recalled(&log, &run), run.recalls[0].work.calls)
    };
    assert_eq!(texts(""), (vec![(3, "From light: src/none.py.".to_owned())], 1));
    assert_eq!(texts("warm_tokens = 0"), (vec![(3, "From heavy: src/none.py.".to_owned())], 1));
}

#[test]
fn hot_memory_stays_and_the_tiers_can_be_shown() {
    let line = "one two three four five six seven eight nine ten eleven twelve";
    let turns: String =
        (0..8).map(|i| format!("\naction: cat part{i}.py\nobservation: {line} {i}~{line} again~")).collect();
    let script = format!("user: go{turns}\nagent: end");
    let (log, run) = tiered(
        "hot_tokens = 100\nvisible = \"all\"\nwarm_tokens = 12\nheavy_ratio = 4.0\ntop_n = 0",
        &script,
        "n = 1",
    );
    let last = run.events.last().unwrap();
    let text: String = last.after.iter().map(|block| block.text(&log)).collect();
    assert!(text.starts_with("COLD MEMORY\n") && text.contains("WARM MEMORY\n"), "{text}");
    // The newest turn of the scope stands there as it was; the oldest is in cold memory by its name alone.
    assert!(text.contains(&format!("cat part6.py{line} 6")) && text.contains("part0.py"), "{text}");
    assert!(!text.contains(&format!("{line} 0")), "{text}");
    let hot: u64 = run.decisions.last().unwrap().tokens_sent;
    assert!(hot < 100 + 150, "{hot}");
    let (_, run) = tiered("hot_tokens = 100\ntop_n = 0", &script, "n = 1");
    assert!(run.decisions.last().unwrap().tokens_sent <= 100 + u64::from(log.tokens[0]));
}

/// Of every strategy that keeps a store, or takes single messages out of a context that grows.
#[test]
fn bad_input_does_no_harm() {
    let giant = "a line of the giant turn with value_1 and src/a.py~".repeat(3000);
    for script in [
        // One giant turn; no entities at all; identical turns; a query that matches nothing; control characters.
        format!("user: go\naction: cat\nobservation: {giant}\nagent: a\nagent: b"),
        format!("user: go\n{}", "agent: roses are red\n".repeat(20)),
        format!("user: go\n{}", "agent: src/a.py is mended\n".repeat(20)),
        "user: go\nagent: alpha bravo\nagent: charlie delta\nagent: echo foxtrot\nagent: golf".to_owned(),
        "user: \u{0}\nagent: \u{1}\u{2}~~~\u{3}\nagent: {{{\nagent: \u{1F600}\nagent: x".to_owned(),
        "user: go\nagent: only".to_owned(),
    ] {
        let log = Log::script(&script);
        for (way, params) in [
            ("tiered", "hot_tokens = 0\nkeep_last = 0\nfloor = 0.0"),
            ("tiered", ""),
            ("tiered", "segment_by = \"entity\"\nhot_tokens = 0"),
            ("notes", "keep_last = 0"),
            ("core-notes", "keep_last = 0"),
            ("prune-importance", "max_tokens = 0"),
            ("prune-importance", "max_tokens = 20\nrules = \"support\""),
            ("tri-level", "keep_last = 1\nmax_tokens = 0"),
            ("tri-level", "keep_last = 1\nmax_tokens = 40"),
        ] {
            let run = run((way, params), ("turns", "n = 1"), &log);
            assert!(run.decisions.iter().all(|d| d.tokens_sent <= d.tokens_full), "{way}");
            let violations = run.events.iter().flat_map(|event| &event.violations);
            assert!(violations.into_iter().all(|told| *told == "longer than the original"), "{way}");
        }
    }
}

/// Of every strategy that keeps a store, or takes single messages out of a context that grows.
#[test]
fn ten_thousand_tiny_turns() {
    let script: String = (0..10_000).map(|i| format!("agent: part {} fails\n", i % 97)).collect();
    let log = Log::script(&format!("user: go\n{script}"));
    for (way, params) in [
        ("tiered", "hot_tokens = 50\nwarm_tokens = 100\ncold_tokens = 50\nfloor = 0.5"),
        ("notes", ""),
        ("core-notes", ""),
        ("prune-importance", "max_tokens = 60"),
        ("tri-level", "max_tokens = 60"),
    ] {
        let run = run((way, params), ("turns", "n = 1"), &log);
        assert_eq!(run.decisions.len(), 10_000, "{way}");
        assert!(run.decisions.iter().all(|d| d.tokens_sent <= d.tokens_full), "{way}");
        let last = run.decisions.last().unwrap();
        assert!(last.tokens_sent < 1000 && last.tokens_full > 30_000, "{way} {last:?}");
        // A core of so little is longer than it, and told.
        let violations = run.events.iter().flat_map(|event| &event.violations);
        assert!(violations.into_iter().all(|told| *told == "longer than the original"), "{way}");
    }
}

#[test]
fn markers_are_words_of_their_own() {
    for text in
        ["Important: keep port 8042", "please REMEMBER this.", "Don't forget the tests", "it is critical"]
    {
        assert!(has_marker(text), "{text}");
    }
    for text in [
        "this is unimportant",
        "noncritical",
        "he remembered it",
        "that is not important",
        "isn't critical",
        "",
    ] {
        assert!(!has_marker(text), "{text}");
    }
    let log = Log::script(
        "user: go\naction: grep important src\nobservation: important: yes\nagent: This is important.\nuser: Remember me",
    );
    let marked: Vec<bool> =
        (0..5).map(|step| is_marked(&log, &log.spans_of(step).collect::<Vec<_>>())).collect();
    assert_eq!(marked, [false, false, false, true, true]);
}

/// A constraint of the user is a marker, without any of the phrases: its segment stays warm while all others of its age go.
#[test]
fn what_users_demand_stays_warm() {
    let gone = |said: &str| {
        let turn = |i: usize| {
            format!("agent: part{i}.py holds the tables of the month{i} and the sums of their rows\n")
        };
        let rest: String = (0..30).map(turn).collect();
        let log = Log::script(&format!("user: Mend the parser.\nagent: I look.\n{said}\n{rest}"));
        let run = run(("tiered", "hot_tokens = 0\nwarm_tokens = 60\ntop_n = 0"), ("turns", "n = 1"), &log);
        let items = run.events.iter().flat_map(|event| event.work.items.iter());
        let cold = items.filter(|item| item.fate == Fate::Cold).filter_map(|item| item.source.clone());
        let steps: Vec<u32> = cold.map(|(step, _)| step).collect();
        assert!(steps.contains(&1) && steps.len() > 5, "{steps:?}");
        steps.contains(&2)
    };
    assert!(!gone(
        "user: You must not change any file in src/legacy, and all tests have to pass under Python 3.8."
    ));
    assert!(gone(
        "action: cat notes\nobservation: part99.py holds the tables of the month99 and the sums of their rows"
    ));
}

/// A turn of a token is longer as a line of memory: what was shown before it stays all the same.
#[test]
fn a_tiny_turn_does_not_take_memory_out_of_sight() {
    let line = "one two three four five six seven eight nine ten eleven twelve";
    let big: String =
        (0..6).map(|i| format!("\nagent: part{i}.py {line} {i}~{line} so~{line} too")).collect();
    let tiny: String = (0..9).map(|i| format!("\nagent: {i}")).collect();
    let (log, run) = tiered(
        "hot_tokens = 0\nvisible = \"all\"\ntop_n = 0\nspread = 0.0",
        &format!("user: go{big}{tiny}"),
        "n = 1",
    );
    let shown =
        |event: &crate::replay::Event| event.after.iter().map(|block| block.text(&log)).collect::<String>();
    for event in &run.events[6..] {
        assert!((0..6).all(|i| shown(event).contains(&format!("part{i}.py"))), "{}", shown(event));
    }
    assert!(run.events.iter().any(|event| event.work.warning == Some("memory not shown whole")));
    assert!(run.events.iter().all(|event| event.violations.is_empty()));
}

/// When a result comes does not matter before it is there, whatever time the rest of its turn takes.
#[test]
fn what_a_call_will_take_is_not_known_before_it() {
    let recalled = |late: i64| {
        let script: String =
            (0..6).map(|i| format!("\naction: cat part{i}.py\nobservation: what stands there {i}")).collect();
        let mut log = Log::script(&format!("user: go{script}\nagent: end"));
        for (step, logged) in log.trajectory.steps.iter_mut().enumerate() {
            logged.time = Some(1_000_000 * (step as i64 + if step >= 8 { late } else { 0 }));
        }
        let run = run(("tiered", "hot_tokens = 0\nfloor = 0.0\nnovelty = false"), ("turns", "n = 1"), &log);
        let told = |recall: &crate::replay::Recall| (recall.decision, recall.details.clone());
        run.recalls.iter().map(told).collect::<Vec<_>>()
    };
    let (soon, late) = (recalled(0), recalled(5000));
    // Step 8 is the result of the fourth turn, whose decision is number 3.
    let n = soon.iter().filter(|recall| recall.0 <= 3).count();
    assert!(n > 0 && soon[..n] == late[..n], "{soon:?} {late:?}");
    assert_ne!(soon, late);
}

#[test]
fn wrong_parameters_are_told() {
    let error = |params: &str| build("tiered", toml::from_str(params).unwrap()).err().unwrap().to_string();
    assert!(error("floor = 2.0").contains("floor"));
    assert!(error("w_query = -1.0").contains("w_query"));
    assert!(error("light_ratio = 0.5").contains("light_ratio"));
    assert!(error("segment_by = \"mood\"").contains("topic"));
    assert!(error("light_ratio = 12.0\nheavy_ratio = 2.0").contains("heavy_ratio"));
    assert!(error("marker = 0.0").contains("marker"));
    assert!(error("segment_tokens = 5000").contains("recall_tokens"));
    assert!(error("w_query = 1e308").contains("w_query"));
    let none = ["recency", "access", "semantic", "entity", "uniqueness", "query"]
        .map(|factor| format!("w_{factor} = 0.0"));
    assert!(error(&none.join("\n")).contains("w_recency"));
    assert!(error(&none[2..].join("\n")).contains("nothing comes back"));
    assert!(build("tiered", toml::from_str("segment_tokens = 5000\ntop_n = 0").unwrap()).is_ok());
}
