//! Summaries of a scope, worked out by hand.

use std::sync::Arc;

use crate::context::log::Log;
use crate::context::needs::Needs;
use crate::models::scripted::Scripted;
use crate::models::{Answer, Call, Card, Finish, Text};
use crate::replay::{Event, Observer, Recipe, replay};
use crate::strategies::tests::after_events;
use crate::text::tokens::Tokenizer;

const SCRIPT: &str = "user: go
    action: cat src/a.py
    observation: limit_a=17 of the parser~and so on and on without an end
    action: cat src/b.py
    observation: limit_b=23 of the lexer~and so on and on without an end
    user: what of limit_a=17 of the parser
    agent: limit_a=17 it is";

#[test]
fn what_stands_in_for_a_model_keeps_nothing_some_or_what_is_needed() {
    let after = |params: &str| after_events(("summarise", params), ("turns", "n = 1\nkeep = 1"), SCRIPT);
    assert_eq!(after("form = \"empty\"").last().unwrap(), "");
    assert!(after("tokens = 20").last().unwrap().contains("limit"));
    let params = "form = \"empty\"\nfiles = 1";
    let kept = after_events(("summarise", params), ("turns", "n = 2"), SCRIPT);
    assert!(
        kept.last().unwrap().contains("limit_b") && !kept.last().unwrap().contains("limit_a"),
        "{kept:?}"
    );
}

#[test]
fn where_the_user_says_nothing_a_fixed_text_stands() {
    let long = "limit_c=3 and then some more words about what the parser does with such a line".repeat(4);
    let script = format!(
        "user: go\naction: a\nobservation: {long}\nuser: what of limit_d=4 then\naction: b\nobservation: {long}\naction: c\nobservation: {long}\nagent: d"
    );
    let after = |params: &str| after_events(("summarise", params), ("turns", "n = 1\nkeep = 1"), &script);
    let is_fixed = |text: &String| text.contains("too long for a summary");
    assert!(after("tokens = 60").last().unwrap().contains("limit"));
    let read = after("tokens = 60\nfrom_user = true\ninput_tokens = 1000");
    assert!(read.last().unwrap().contains("limit"));
    // Once the text stands there it is a summary, and short enough to be read with what came since.
    let fixed: Vec<bool> =
        after("tokens = 60\nfrom_user = true\ninput_tokens = 100").iter().map(is_fixed).collect();
    assert!(fixed.contains(&true), "{fixed:?}");
}

/// The events of a replay in which a model gives these answers, and the rest of what it was asked.
fn asked(params: &str, answers: &[&str], script: &str) -> (Vec<Event>, Vec<String>, Log) {
    let (log, text) = (Log::script(script), |text: &str| {
        let text = text.to_owned();
        Ok(Answer::Text(Text { text, prompt_tokens: 100, tokens: 10, cut_tokens: 0, finish: Finish::Stop }))
    });
    let card = Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 100_000 };
    let model = Arc::new(Scripted::list(card, answers.iter().map(|answer| text(answer))));
    let strategy = crate::strategies::build("summarise", toml::from_str(params).unwrap()).unwrap();
    let trigger = crate::triggers::build("turns", toml::from_str("n = 1").unwrap()).unwrap();
    let recipe = Recipe { model: Some(model.clone()), ..Recipe::one(strategy, trigger, 1) };
    let tokenizer = Tokenizer::load("o200k").unwrap();
    let run = replay(&log, &recipe, &tokenizer, &Needs::default(), &mut Nobody).unwrap();
    let prompt = |call: Call| match call {
        Call::Generate { prompt, .. } => prompt.parts.into_iter().map(|part| part.text).collect::<String>(),
        _ => String::new(),
    };
    (run.events, model.asked().into_iter().map(prompt).collect(), log)
}

struct Nobody;

impl Observer for Nobody {}

fn texts(event: &Event, log: &Log) -> Vec<String> {
    event.after.iter().map(|block| block.text(log)).collect()
}

const LONG: &str = "user: go
    action: cat src/a.py
    observation: limit_a=17 of the parser and so on and on without an end
    agent: done";

#[test]
fn a_summary_is_shown_to_the_model_once_more() {
    let (events, prompts, log) = asked("check = true", &["It read a.", "It read src/a.py."], LONG);
    assert_eq!(texts(&events[0], &log), ["It read src/a.py."]);
    assert!(!prompts[0].contains("It read a.") && prompts[0].contains("limit_a=17"));
    assert!(prompts[1].contains("It read a.") && prompts[1].contains("limit_a=17"));
    // Both calls are the compressor's.
    assert_eq!((events[0].work.calls, events[0].work.tokens_in, events[0].work.tokens_out), (2, 200, 20));
    // A second answer that is of no use leaves the first.
    let (events, _, log) = asked("check = true", &["It read a.", ""], LONG);
    assert_eq!((texts(&events[0], &log), events[0].work.fallback), (vec!["It read a.".to_owned()], None));
}

#[test]
fn a_text_is_asked_for_so_often_and_then_something_stands_in() {
    let long = "It went on and read more than there was, ".repeat(20);
    let after = |params: &str, answers: &[&str]| {
        let (events, prompts, log) = asked(params, answers, LONG);
        (texts(&events[0], &log).concat(), prompts.len(), events[0].work.fallback)
    };
    let sorry = "Sorry, no.";
    assert_eq!(after("tries = 3", &[sorry, "", "It read a."]), ("It read a.".to_owned(), 3, None));
    // What is longer than the scope is rejected, and all stays.
    let (text, n, fallback) = after("tries = 1\nreject_longer = true", &[&long]);
    assert!(text.contains("cat src/a.py") && text.contains("limit_a=17"), "{text}");
    assert_eq!((n, fallback), (1, Some("the original")));
    assert_eq!(after("tries = 1\nfallback = \"omit\"", &[sorry]), (String::new(), 1, Some("nothing")));
    let (text, _, fallback) = after("tries = 1\nfallback = \"omit\"", &[&long]);
    assert!(!text.is_empty() && fallback == Some("extractive"));
    let (text, _, fallback) = after("tries = 1\nfallback = \"keep\"", &[sorry]);
    assert!(text.contains("limit_a=17") && fallback == Some("the original"));
    let (text, _, fallback) = after("tries = 1", &[sorry]);
    assert!(!text.is_empty() && fallback == Some("extractive"));
}

#[test]
fn an_older_summary_is_shown_apart() {
    let script =
        format!("{LONG}\naction: cat src/b.py\nobservation: limit_b=23 of the lexer and so on\nagent: end");
    let after = |params: &str| asked(params, &["It read a.", "More.", "It read b."], &script).1;
    let (plain, update) = (after(""), after("update = true"));
    assert_eq!((plain.len(), update.len()), (3, 3));
    let is_apart = |prompt: &String| prompt.starts_with("Below is a summary of the work");
    assert!(plain[1].contains("It read a.") && !plain.iter().any(is_apart));
    assert!(!is_apart(&update[0]) && is_apart(&update[1]));
    let before_log = update[1].find("It read a.").unwrap() < update[1].find("done").unwrap();
    assert!(before_log && update[1].matches("It read a.").count() == 1);
}

#[test]
fn a_long_scope_is_summarised_in_pieces() {
    // Two texts of about thirty tokens do not fit in forty, and a longer one stands alone.
    let words = |c: &str| format!("{c} ").repeat(30);
    let script = format!("user: go\naction: {}\nobservation: {}\nagent: done", words("a"), words("b"));
    let (events, prompts, log) = asked("piece_tokens = 40", &["One.", "Two."], &script);
    assert_eq!(prompts.len(), 2);
    assert!(prompts[0].contains("a a a") && !prompts[0].contains("b b b") && prompts[1].contains("b b b"));
    assert_eq!(texts(&events[0], &log), ["One.\n\nTwo."]);
    assert_eq!(asked("piece_tokens = 400", &["One."], &script).1.len(), 1);
}

#[test]
fn the_oldest_or_the_newest_tokens_are_shown() {
    let words = |c: &str| format!("{c} ").repeat(30);
    let script = format!("user: go\naction: {}\nobservation: {}\nagent: done", words("a"), words("b"));
    let shown = |params: &str| asked(params, &["One."], &script).1.remove(0);
    let newest = shown("input_tokens = 40");
    assert!(newest.contains("b b b") && !newest.contains("a a a"));
    let oldest = shown("input_tokens = 40\nshows = \"oldest\"");
    assert!(oldest.contains("a a a") && !oldest.contains("b b b"));
}

#[test]
fn turns_are_summarised_again() {
    let script = "user: go
        agent: The first answer is said here, in some words.
        user: and now
        agent: The second answer is said here, in some words.
        user: more
        agent: end";
    let prompts = |params: &str| asked(params, &["First.", "Second."], script).1;
    assert!(!prompts("").last().unwrap().contains("first answer"));
    let last = prompts("overlap = 1").pop().unwrap();
    // From the message of the user before the scope on, as it was logged, and once.
    assert_eq!(last.matches("The first answer").count(), 1, "{last}");
}

#[test]
fn the_calls_of_the_product_are_reckoned() {
    let run = |params: &str| {
        let log = Log::script(LONG);
        let recipe = Recipe::named(("summarise", params), ("turns", "n = 1"));
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let run = replay(&log, &recipe, &tokenizer, &Needs::default(), &mut Nobody).unwrap();
        let work = &run.events[0].work;
        (u64::from(log.tokens[1] + log.tokens[2]), work.tokens_in, work.tokens_out, work.calls)
    };
    for form in ["empty", "extract", "oracle"] {
        let (scope, read, written, calls) = run(&format!("form = \"{form}\"\ntokens = 10"));
        assert_eq!((read, written, calls), (scope, 10, 0), "{form}");
    }
    let (scope, read, written, _) = run("tokens = 10\ncheck = true");
    assert_eq!((read, written), (2 * scope + 10, 20));
}
