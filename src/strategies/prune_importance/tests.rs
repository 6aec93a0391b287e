//! Tests of `prune-importance`.

use std::sync::Arc;

use super::super::salience::tests::events;
use super::super::tests::{after_events, run};
use crate::context::log::Log;
use crate::models::scripted::Scripted;
use crate::models::{Answer, Call, CallError, Card, Scores, TokenScore};

const DESK: &str = "system: You are a support agent.
    user: Hi!
    agent: Hello, how can I help?
    user: My account ID is ABC123.
    agent: Thank you.
    user: Thanks!
    agent: What happens?
    user: I am getting error code 500.
    agent: Since when?
    user: OK, let me see
    agent: Take your time.
    user: I need this resolved by Friday.
    agent: Understood.
    user: Bye
    agent: Goodbye.
    user: Well
    agent: Yes.";

const SUPPORT: &str = "rules = \"support\"";

/// The seed's form.
const SEED: &str = "rules = \"seed-exact\"\ncounts = \"all\"\norder = \"score\"";

/// A talk in which short statements stand among long replies: which of the five an event leaves, of a newest pair of 700 words.
fn padded(strategy: &str, params: &str) -> usize {
    let items = [
        "Empty lines are skipped.",
        "Rows without a number are dropped.",
        "The total is given in cents.",
        "A tab separates the columns.",
        "The file is report.tsv in folder out.",
    ];
    let pad = |n: usize| {
        "Slow music walks along the quiet river and the old harbour waits for a colour of the evening. "
            .repeat(n)
    };
    let mut script = "user: Please write a function that merges two tables.\nagent: Gladly.".to_owned();
    for item in items {
        script += &format!("\nuser: {item}\nagent: Noted.");
        for _ in 0..3 {
            script += &format!("\nuser: By the way, {}\nagent: I see. {}", pad(2), pad(40));
        }
    }
    let log = Log::script(&(script + "\nuser: Now write it.\nagent: Here it is."));
    let run = run((strategy, params), ("turns", "n = 4"), &log);
    let left: String = run.events.last().unwrap().after.iter().map(|block| block.text(&log)).collect();
    items.iter().filter(|item| left.contains(*item)).count()
}

/// By default a share of what was compressed is left, of the first event as of the last; of a short talk nothing goes.
#[test]
fn a_share_of_long_logs_is_left() {
    let tool = |i: usize| {
        format!("action: cat src/part{i}.py\nobservation: {}\n", format!("line {i} of the file~").repeat(120))
    };
    let script: String = (0..22).map(tool).collect();
    let log = Log::script(&format!("user: Mend it.\n{script}agent: end"));
    for (strategy, params, range) in [
        ("prune-importance", "", 0.2..=0.3),
        ("prune-importance", "share = 0.6", 0.5..=0.6),
        ("prune-importance", "share = 0.6\nmost = 3000", 0.0..=0.45),
        ("prune-importance", "max_tokens = 2000", 0.0..=0.28),
        ("tri-level", "high = 0.0\nlow = -1.0", 0.2..=0.35),
    ] {
        let run = run((strategy, params), ("turns", "n = 10"), &log);
        let of = |event: &crate::replay::Event| {
            let after: u64 = event.after.iter().map(|block| u64::from(block.tokens)).sum();
            let turns = log.turns[1].steps.start..log.turns[event.turns.end as usize].steps.start;
            after as f64 / turns.map(|step| f64::from(log.tokens[step as usize])).sum::<f64>()
        };
        let shares: Vec<f64> = run.events.iter().map(of).collect();
        assert!(
            shares.len() >= 2 && shares.iter().all(|share| range.contains(share)),
            "{strategy} {params}: {shares:?}"
        );
    }
    let log = Log::script(DESK);
    let run = run(("prune-importance", ""), ("turns", "n = 4"), &log);
    assert!(run.decisions.iter().all(|decision| decision.tokens_sent == decision.tokens_full));
}

/// By the seed the newest pair counts, and takes all before it along. What is older has its own budget here, and a page
/// that rates 6 for its length goes before a statement that rates 5.
#[test]
fn padding_does_not_crowd_out_what_is_short() {
    assert_eq!(padded("prune-importance", SUPPORT), 5);
    // What counts as important stays verbatim, the rest is left to the summary.
    let tight = &format!("{SUPPORT}\nkeep_last = 1\nhigh = 5.0\nmax_tokens = 700");
    assert_eq!(padded("tri-level", tight), 5);
    assert!(padded("tri-level", &format!("{tight}\ncounts = \"all\"")) <= 1);
    // As in the seed nothing of warm memory is shown that nobody asks for: but what is hot, or recalled.
    assert!(padded("tiered", "") <= 1);
    assert_eq!(
        padded(
            "prune-importance",
            &format!("{SUPPORT}\ncounts = \"all\"\norder = \"score\"\nmax_tokens = 800")
        ),
        0
    );
    assert!(padded("prune-importance", &format!("{SUPPORT}\norder = \"score\"")) < 5);
}

fn order(params: &str, trigger: &str) -> Vec<String> {
    let log = Log::script(DESK);
    let events = events("prune-importance", params, &log, trigger, None);
    events.into_iter().flat_map(|(_, work)| work.items).map(|item| item.text.to_string()).collect()
}

#[test]
fn fillers_go_first_and_facts_stay() {
    let after =
        after_events(("prune-importance", "rules = \"support\"\nmax_tokens = 34"), ("turns", "n = 1"), DESK);
    let last = after.last().unwrap();
    for fact in ["ABC123", "error code 500", "by Friday"] {
        assert!(last.contains(fact), "{last}");
    }
    assert!(!last.contains("Thanks!") && !last.contains("let me see"), "{last}");
    // The budget of the seed's size drops nothing here.
    assert_eq!(order("", "n = 1"), [""; 0]);
}

/// By the seed's rules: the reply "Thank you." rates 3, and a pair is as good as its least message, so that the
/// account goes first of all; the oldest of equals.
#[test]
fn the_seeds_pair_rule_loses_the_account() {
    let gone = order(&format!("{SEED}\nmax_tokens = 40"), "n = 1");
    assert_eq!(
        gone[..3],
        ["Hello, how can I help?", "My account ID is ABC123.", "Thank you."].map(str::to_owned)
    );
    let mended = order(&format!("{SEED}\npair = \"most\"\nmax_tokens = 40"), "n = 1");
    assert!(!mended.contains(&"My account ID is ABC123.".to_owned()), "{mended:?}");
}

#[test]
fn the_newest_pair_never_goes_and_a_budget_below_it_takes_all_else() {
    let after =
        after_events(("prune-importance", "rules = \"support\"\nmax_tokens = 0"), ("turns", "n = 1"), DESK);
    assert!(after.iter().all(String::is_empty), "{after:?}");
    let log = Log::script(DESK);
    let run = run(("prune-importance", "rules = \"support\"\nmax_tokens = 0"), ("turns", "n = 1"), &log);
    let newest: u64 = (13..16).map(|step| u64::from(log.tokens[step])).sum();
    let head: u64 = u64::from(log.tokens[0] + log.tokens[1]);
    assert_eq!(run.decisions.last().unwrap().tokens_sent, head + newest);
    assert!(super::super::build("prune-importance", toml::from_str("keep_last = 0").unwrap()).is_err());
}

/// Of turns that are worth the same the oldest go first, and one that alone is over the budget takes no other with it
/// that is worth more.
#[test]
fn of_equal_turns_the_oldest_goes() {
    let log = Log::script(&format!("user: go\n{}", "agent: src/a.py is mended\n".repeat(9)));
    let events = events("prune-importance", "rules = \"support\"\nmax_tokens = 24", &log, "n = 1", None);
    let steps = events.iter().flat_map(|(_, work)| &work.items).map(|item| item.source.as_ref().unwrap().0);
    let steps: Vec<u32> = steps.collect();
    assert!(!steps.is_empty() && steps.iter().copied().eq(1..=steps.len() as u32), "{steps:?}");
}

#[test]
fn a_turn_with_calls_goes_whole() {
    let script = "user: mend it
        thought: Let me look at it
        action: ls
        observation: a.py b.py
        thought: The bug is in a.py, because it divides by zero
        action: cat a.py
        observation: 1/0
        action: pwd
        observation: /x
        agent: so";
    let after = after_events(("prune-importance", "max_tokens = 25"), ("turns", "n = 1"), script);
    assert_eq!(
        after.last().unwrap(),
        "The bug is in a.py, because it divides by zerocat a.py1/0",
        "{after:?}"
    );
}

/// The talk that the seed speaks of, with what each message is worth at its end (`datasets/memory`): the turns in the order
/// in which they go, those that hold something of high worth with a star, until half of the budget is left.
fn order_of_turns(params: &str) -> Vec<String> {
    let talk = include_str!("../../../datasets/memory/support-30.jsonl");
    let talk: serde_json::Value = serde_json::from_str(talk.lines().next().unwrap()).unwrap();
    let worth = include_str!("../../../datasets/memory/importance.toml");
    let worth: toml::Table = toml::from_str(worth).unwrap();
    let high: Vec<i64> = worth["message"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["importance"].as_str() == Some("high"))
        .map(|message| message["turn"].as_integer().unwrap())
        .collect();
    let message = |message: &serde_json::Value| {
        let role = match message["role"].as_str().unwrap() {
            "assistant" => "agent",
            role => role,
        };
        format!("{role}: {}\n", message["content"].as_str().unwrap())
    };
    let script: String = talk["messages"].as_array().unwrap().iter().map(message).collect();
    let log = Log::script(&(script + "user: Bye.\nagent: Bye."));
    let events = events("prune-importance", params, &log, "n = 1", None);
    let steps = events.into_iter().flat_map(|(_, work)| work.items).map(|item| item.source.unwrap().0);
    // Turn k of the talk has steps 2k - 1 and 2k.
    let mut turns: Vec<u32> = steps.map(|step| step.div_ceil(2)).collect();
    turns.dedup();
    let star = |turn: u32| if high.contains(&i64::from(turn)) { "*" } else { "" };
    turns.into_iter().map(|turn| format!("{turn}{}", star(turn))).collect()
}

/// By the seed's rules turns 4 (the account) and 10 (Friday) are among the first to go; by `support` fillers and small talk
/// are, but for what only somebody who understands the talk would keep: "No" to a question of the turn before (16), a
/// cause without a cue (8), and an offer that the next turn refuses (15).
#[test]
fn the_talk_of_the_seed_loses_its_fillers_first() {
    let seed = order_of_turns(&format!("{SEED}\nmax_tokens = 500"));
    assert!(seed.iter().any(|turn| turn == "4*") && seed.iter().any(|turn| turn == "10*"), "{seed:?}");
    let support = order_of_turns("rules = \"support\"\nmax_tokens = 500");
    assert!(!support.iter().any(|turn| ["4*", "6*", "10*"].contains(&turn.as_str())), "{support:?}");
    let tight = order_of_turns("rules = \"support\"\nmax_tokens = 300");
    assert!(!tight.iter().any(|turn| ["4*", "6*", "10*"].contains(&turn.as_str())), "{tight:?}");
    let n_high = |turns: &[String]| turns.iter().filter(|turn| turn.ends_with('*')).count();
    assert!(n_high(&support) < n_high(&seed), "{support:?} {seed:?}");
    let least = order_of_turns("rules = \"support\"\npair = \"least\"\nmax_tokens = 500");
    assert!(n_high(&least) > n_high(&support), "{least:?}");
}

/// A model that gives a message with digits in it a 9, and all else a 0; or nothing at all.
fn model(works: bool) -> Arc<Scripted> {
    let card = Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 4096 };
    Arc::new(Scripted::rule(card, move |call| {
        let Call::Score { prompt, continuations } = call else { return None };
        if !works {
            return Some(Err(CallError::Timeout(1)));
        }
        let text: String = prompt.parts.iter().map(|part| part.text.as_str()).collect();
        let message = text.rsplit("Message: ").next().unwrap_or("");
        let best = if message.contains("00") { 9 } else { 0 };
        let likely =
            |digit: usize| vec![TokenScore { end: 2, logprob: if digit == best { 0.0 } else { -50.0 } }];
        let continuations = (0..continuations.len()).map(likely).collect();
        Some(Ok(Answer::Scores(Scores { parts: Vec::new(), continuations, prompt_tokens: 9, cut_tokens: 0 })))
    }))
}

/// What a server that only chats writes is read: the first number counts.
#[test]
fn a_server_without_likelihoods_writes_the_digit() {
    let card = Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 4096 };
    let model = Scripted::rule(card, |call| {
        let Call::Generate { prompt, .. } = call else {
            return Some(Err(CallError::Unsupported("score".to_owned())));
        };
        let text: String = prompt.parts.iter().map(|part| part.text.as_str()).collect();
        let message = text.rsplit("Message: ").next().unwrap_or("");
        Some(Ok(Answer::Text(crate::models::Text {
            text: if message.contains("00") { " I say 9, since".to_owned() } else { " 0".to_owned() },
            finish: crate::models::Finish::Stop,
            prompt_tokens: 9,
            tokens: 4,
            cut_tokens: 0,
        })))
    });
    let log = Log::script(DESK);
    let params = "rules = \"support\"\nmax_tokens = 32";
    let events = events("prune-importance", params, &log, "n = 1", Some(Arc::new(model)));
    assert!(events.iter().all(|(_, work)| work.fallback.is_none() && work.degenerate.is_empty()));
    let gone: Vec<&str> = events.iter().flat_map(|(_, work)| &work.items).map(|item| &*item.text).collect();
    assert!(gone.contains(&"My account ID is ABC123.") && !gone.contains(&"I am getting error code 500."));
}

#[test]
fn a_model_rates_each_message_once() {
    let log = Log::script(DESK);
    let events =
        events("prune-importance", "rules = \"support\"\nmax_tokens = 32", &log, "n = 1", Some(model(true)));
    let calls: u32 = events.iter().map(|(_, work)| work.calls).sum();
    // Six turns are compressed, eleven messages; the first event has six fixed ones.
    assert_eq!(calls, 11 + 6);
    let gone: Vec<&str> = events.iter().flat_map(|(_, work)| &work.items).map(|item| &*item.text).collect();
    assert!(gone.contains(&"My account ID is ABC123.") && !gone.contains(&"I am getting error code 500."));
}
