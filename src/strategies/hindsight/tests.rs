//! `hindsight` by hand-computed cases, and by properties that hold whatever stands there.

use proptest::prelude::*;

use super::super::tests::{after_events, run};
use super::*;
use crate::context::log::Log;

const IDLE: &str = "
    action: date
    observation: morning
    action: date
    observation: morning
    action: date
    observation: morning
    action: date
    observation: morning";

fn left(params: &str, seen: &str) -> String {
    let script = format!("user: the task\naction: ls\nobservation: {seen}{IDLE}\nagent: so");
    after_events(("hindsight", params), ("turns", "n = 4"), &script)[0].clone()
}

/// Of two lines that bind the same file the shorter has more per token; the prose binds nothing.
#[test]
fn the_cheapest_line_of_what_could_be_needed_is_kept() {
    let seen = "words and more words and nothing else in this long line~\
                the broken parser of the old project lives in src/parser.py near the lexer of last year~\
                the broken parser lives in src/parser.py";
    assert_eq!(left("budget = 0.25", seen).trim_end(), "the broken parser lives in src/parser.py");
    // With room for both it counts once, unless each time is asked for.
    assert_eq!(left("budget = 0.9", seen).lines().count(), 1);
    assert_eq!(left("budget = 0.9\ndiversity = 0.5", seen).lines().count(), 2);
    assert_eq!(left("budget = 0.0", seen), "");
}

#[test]
fn an_error_comes_with_its_place() {
    let seen = "the failing test stands in src/parser.py today~    parse it now~ValueError: the token count is wrong here";
    let grouped = left("budget = 0.9", seen);
    assert!(grouped.contains("src/parser.py") && grouped.contains("ValueError"), "{grouped}");
    let log = Log::script(&format!("user: {seen}"));
    let spans: Vec<u32> = log.spans_of(0).collect();
    assert_eq!(lines(&log, &spans, true), [vec![0], vec![1], vec![0, 2]]);
    assert_eq!(lines(&log, &spans, false), [[0], [1], [2]]);
    let log = Log::script("user: the same line twice~  the same line twice~another");
    assert_eq!(lines(&log, &log.spans_of(0).collect::<Vec<_>>(), true), [[0], [2]]);
}

/// The goal names it, so it stands in the head and is not rated; the room that is left goes to it all the same.
#[test]
fn what_is_left_goes_to_atoms_that_are_not_rated() {
    let script = |task: &str| {
        format!(
            "user: {task}\naction: ls\nobservation: the broken parser lives in src/parser.py~words and words{IDLE}\nagent: so"
        )
    };
    let kept = |task: &str| {
        after_events(("hindsight", "budget = 0.9"), ("turns", "n = 4"), &script(task))[0].clone()
    };
    assert_eq!(kept("mend src/parser.py").trim_end(), "the broken parser lives in src/parser.py");
    assert_eq!(kept("mend it").trim_end(), "the broken parser lives in src/parser.py");
}

/// A number of tokens is for all events together: later ones choose from what still stands.
#[test]
fn a_chain_of_events_chooses_from_what_it_still_holds() {
    let turn = |n: u32| {
        format!(
            "\naction: cat {n}\nobservation: the limit of the crane weighs limit_{n} today~nothing to see"
        )
    };
    let script = (1..30).map(turn).fold("user: the task".to_owned(), |all, turn| all + &turn) + "\nagent: so";
    let log = Log::script(&script);
    let run = run(("hindsight", "budget = 40"), ("turns", "n = 4"), &log);
    assert!(run.events.len() > 4);
    let mut before: Vec<String> = Vec::new();
    for event in &run.events {
        let tokens: u32 = event.after.iter().map(|block| block.tokens).sum();
        assert!(tokens <= 40 && tokens > 20, "{tokens}");
        let now: Vec<String> = event
            .after
            .iter()
            .flat_map(|b| b.text(&log).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let fresh = log.turns[event.fresh as usize].steps.start;
        let stood = |line: &String| {
            before.contains(line)
                || (fresh..)
                    .take_while(|s| (*s as usize) < log.n_steps())
                    .any(|s| log.trajectory.steps[s as usize].text.contains(line.as_str()))
        };
        assert!(now.iter().all(stood), "{now:?} after {before:?}");
        before = now;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever stands there: kept text is copied, in order, within the budget, and what comes later changes nothing of an event.
    #[test]
    fn what_is_kept_is_copied_within_the_budget(
        lines in prop::collection::vec("(src/[ab]{1,2}\\.py|ValueError|limit_[0-9]|port=[0-9]{4})( (crane|bears|tide|é|words)){0,5}", 8..24),
        share in prop::sample::select(vec![0.0, 0.1, 0.5, 1.0]),
    ) {
        let script = lines.iter().fold("user: mend it".to_owned(), |all, line| all + "\naction: cat\nobservation: " + line + "~" + line + " again");
        let params = format!("budget = {share:?}");
        let events = |script: &str| {
            let log = Log::script(script);
            let run = run(("hindsight", &params), ("turns", "n = 3"), &log);
            run.events.iter().map(|event| {
                let pieces: Vec<u32> = event.after.iter().flat_map(|block| match &block.content {
                    Content::Excerpt { pieces, .. } => pieces.iter().map(|piece| piece.span).collect(),
                    Content::Step(step) => log.spans_of(*step).collect(),
                    Content::Placeholder { .. } | Content::Generated { .. } => vec![u32::MAX],
                }).collect();
                let kept: u32 = event.after.iter().map(|block| block.tokens).sum();
                (event.turns.clone(), pieces, kept, event.fresh_tokens)
            }).collect::<Vec<_>>()
        };
        let all = events(&script);
        for (_, pieces, kept, of) in &all {
            prop_assert!(pieces.is_sorted() && !pieces.contains(&u32::MAX));
            prop_assert!(f64::from(*kept) <= *of as f64 * share);
        }
        let longer = events(&(script + "\nagent: src/a.py and limit_1 and ValueError\naction: cat src/b.py\nobservation: ok"));
        prop_assert_eq!(&longer[..all.len()], &all[..]);
    }
}

/// The decision binds nothing, but speaks of the task: with a share for the goal it stays beside the place.
#[test]
fn a_share_goes_to_the_goal() {
    let script = format!(
        "user: Make the parser faster than the lexer.\naction: ls\nobservation: the broken token table lives in src/table.py~\
         so we make the parser a generator, which is faster~it is a fine day in town{IDLE}\nagent: so"
    );
    let kept = |params: &str| after_events(("hindsight", params), ("turns", "n = 4"), &script)[0].clone();
    assert!(!kept("budget = 0.9").contains("generator"));
    let both = kept("budget = 0.9\ngoal = 0.5");
    assert!(
        both.contains("generator") && both.contains("src/table.py") && !both.contains("fine day"),
        "{both}"
    );
}
