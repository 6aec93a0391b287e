//! Tests of `salience`.

use std::sync::Arc;

use super::*;
use crate::context::log::Log;
use crate::context::needs::Needs;
use crate::models::prompt::Prompt;
use crate::models::scripted::Scripted;
use crate::models::{Answer, Call, CallError, Card, Finish, Model, Scores, Text, TokenScore};
use crate::replay::{Observer, Recipe, replay};
use crate::strategies::{Flaw, Work, build};
use crate::text::tokens::Tokenizer;

/// What stands for the scope after each event, and what the event did.
pub(in super::super) fn events(
    name: &str,
    params: &str,
    log: &Log,
    trigger: &str,
    model: Option<Arc<dyn Model>>,
) -> Vec<(String, Work)> {
    of_recipe(&Recipe { model, ..Recipe::named((name, params), ("turns", trigger)) }, log)
}

fn of_recipe(recipe: &Recipe, log: &Log) -> Vec<(String, Work)> {
    struct Nobody;
    impl Observer for Nobody {}
    let tokenizer = Tokenizer::load("o200k").unwrap();
    let run = replay(log, recipe, &tokenizer, &Needs::of(log, 3), &mut Nobody).unwrap();
    run.events
        .into_iter()
        .inspect(|event| match event.violations[..] {
            [] => assert!(event.tokens_after <= event.tokens_before),
            // The scope stays.
            ["longer than the original"] => assert_eq!(event.tokens_after, event.tokens_before),
            _ => panic!("{:?}", event.violations),
        })
        .map(|event| (event.after.iter().map(|block| block.text(log)).collect(), (*event.work).clone()))
        .collect()
}

/// Quotes these, each with its kind, whatever it is shown.
pub(in super::super) fn quoting(items: &[(&str, &str)]) -> Arc<dyn Model> {
    let quote = |(kind, quote): &(&str, &str)| serde_json::json!({"type": kind, "quote": quote});
    let answer = serde_json::Value::from_iter(items.iter().map(quote)).to_string();
    let card = Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 4096 };
    Arc::new(Scripted::rule(card, move |_| {
        let (text, finish, prompt_tokens, tokens, cut_tokens) = (answer.clone(), Finish::Stop, 9, 9, 0);
        Some(Ok(Answer::Text(Text { text, finish, prompt_tokens, tokens, cut_tokens })))
    }))
}

const BARE: &str = "keep_last = 0\nbackground = \"none\"";

fn bare(script: &str, n: u32) -> Vec<(String, Work)> {
    events("salience", BARE, &Log::script(script), &format!("n = {n}"), None)
}

/// What the set makes of passages that are quoted as these kinds, where the goal is given.
fn with(items: &[(&str, &str)], script: &str, n: u32) -> Vec<(String, Work)> {
    let mut log = Log::script(script);
    log.trajectory.annotations = Some(r#"{"goal": "Please find a flat in Lyon for us."}"#.to_owned());
    let params = format!("{BARE}\nextract = \"quote-json\"\ngoals = \"given\"");
    events("salience", &params, &log, &format!("n = {n}"), Some(quoting(items)))
}

fn fates(work: &Work) -> Vec<(&str, &str)> {
    work.items.iter().map(|item| (item.fate.name(), &*item.text)).collect()
}

const FLAT: &str = "system: be good
        user: Please find a flat in Lyon for us.
        agent: Hello! I start to look around right away and tell you soon. What else should I know about you?
        user: Thanks, the weather is so nice. The rent must not exceed 900 euros.
        agent: Noted. I look at the offers now. It is sunny here as well, by the way, how lovely.
        user: How far are you?
        agent: Let us take the flat in Rue Mercière 14, because it is near the school.
        user: As I said, the rent must not exceed 900 euros. The move is on 12 June.
        agent: Good.
        user: And?
        agent: Done.";

const RENT: (&str, &str) = ("constraint", "The rent must not exceed 900 euros.");

#[test]
fn the_set_grows_and_says_nothing_twice() {
    let items = [
        RENT,
        ("decision", "Let us take the flat in Rue Mercière 14, because it is near the school."),
        ("constraint", "As I said, the rent must not exceed 900 euros."),
        ("fact", "The move is on 12 June."),
    ];
    let events = with(&items, FLAT, 2);
    assert_eq!(events.len(), 2);
    let task = "CURRENT TASK\nPlease find a flat in Lyon for us.\n";
    assert_eq!(
        events[0].0,
        format!("SALIENT INFORMATION\nConstraints:\n- “The rent must not exceed 900 euros.”\n{task}")
    );
    let (text, work) = &events[1];
    assert!(text.contains("Decisions:\n- “Let us take the flat in Rue Mercière 14"), "{text}");
    assert_eq!(text.matches("900 euros").count(), 1, "{text}");
    assert!(text.contains("12 June") && text.ends_with(task), "{text}");
    assert!(fates(work).contains(&("duplicate", "As I said, the rent must not exceed 900 euros.")));
    assert_eq!(work.fallback, None);
}

#[test]
fn contradicting_constraints_are_both_kept_and_the_newest_marked() {
    let script = FLAT.replace("As I said, the rent must not exceed 900", "The rent must not exceed 1200");
    let (text, _) = &with(&[RENT, ("constraint", "The rent must not exceed 1200 euros.")], &script, 2)[1];
    assert!(text.contains("- “The rent must not exceed 900 euros.” (earlier)\n"), "{text}");
    assert!(text.contains("- “The rent must not exceed 1200 euros.” (newest)\n"), "{text}");
}

#[test]
fn a_goal_that_changes_back_is_the_first_again() {
    let first = "Please write a forecast of the visitors for each pool in summer.";
    let other = "Forget the forecast, I need to know what shared season cards cost us.";
    let idle = "~and so on and so on and so on and so on".repeat(9);
    let mut log = Log::script(&format!(
        "user: {first}
            agent: I look at the gate counts of the last years, it takes me quite a while to read all of them.{idle}
            user: {other}
            agent: Very well, then I look at the season cards, which are in another table that I have not seen.{idle}
            user: So. {first}
            agent: I am back at it, and go on with the gate counts that I had read before all of this came up.{idle}
            user: Good.
            agent: Yes."
    ));
    let change = |step: u32, text: &str| serde_json::json!({"step": step, "text": text});
    let annotations =
        serde_json::json!({"goal": first, "goal_changes": [change(2, other), change(4, first)]});
    log.trajectory.annotations = Some(annotations.to_string());
    let params = format!("{BARE}\ngoals = \"given\"\nitems = 1");
    let events = events("salience", &params, &log, "n = 1", None);
    let task = |at: usize| events[at].0.split("CURRENT TASK\n").nth(1).unwrap_or("").trim();
    assert_eq!([task(0), task(2)], [other, first]);
    // That it came back is known before its words are in the scope.
    for event in &events[1..] {
        assert!(event.0.contains("season cards cost us.” (earlier)\n"), "{}", event.0);
        assert!(!event.0.contains("in summer.” (earlier)"), "{}", event.0);
    }
}

#[test]
fn where_nothing_is_picked_the_core_stands_in_and_that_is_told() {
    let mut log = Log::script(FLAT);
    log.trajectory.annotations = Some(r#"{"goal": "a flat"}"#.to_owned());
    let params = format!("{BARE}\nthreshold = 1.0\ngoals = \"given\"");
    let (text, work) = &events("salience", &params, &log, "n = 4", None)[0];
    assert_eq!(work.fallback, Some("protected-core"));
    assert!(work.items.is_empty() && text.starts_with("CURRENT TASK\n"), "{text}");
}

#[test]
fn more_than_fifty_items_are_flagged_and_a_cap_gives_up_some() {
    let many: String = (0..60).map(|i| format!("The part {i}{i} must not cost more than ${i}50. ")).collect();
    let log = Log::script(&format!(
        "user: Buy parts.\nagent: Which?\nuser: {many}\nagent: I see.\nuser: So?\nagent: No."
    ));
    let all = "items = 99\nthreshold = 0.0";
    let events_of = |params: &str| events("salience", &format!("{params}\n{all}"), &log, "n = 1", None);
    let (text, work) = &events_of(BARE)[1];
    assert!(work.warning == Some("more than 50 items") && text.contains("$5950"), "{text}");
    let (text, work) = &events_of(&format!("{BARE}\ncap_tokens = 100"))[1];
    let capped = work.items.iter().filter(|item| item.fate == Fate::Capped).count();
    assert!(capped > 40 && text.contains("$5950") && !text.contains("$1150"), "{capped} {text}");
    assert!(text.contains(&format!("\n({capped} more left out for their length)\n")), "{capped} {text}");
    let quoted: String =
        text.lines().filter(|line| line.starts_with("- ")).map(|line| format!("{line}\n")).collect();
    assert!(Tokenizer::load("o200k").unwrap().count(&quoted) <= 100, "{quoted}");
    assert_eq!(work.warning, None);
}

#[test]
fn what_contradicts_a_standing_constraint_is_marked() {
    let held = |text: &str| Held::new(text.to_owned(), ItemKind::Constraint, 0, 0..9, 1.0);
    for (standing, conflict) in [(700, Some(Conflict::Newest)), (900, None)] {
        let mut set = Set::default();
        set.merge(vec![held(RENT.1)], 0.85, false);
        set.mark_beside(&[held(&format!("The rent must not exceed {standing} euros."))]);
        assert_eq!(set.items[0].conflict, conflict, "{standing}");
    }
}

#[test]
fn a_ban_that_is_lifted_stands_beside_its_end() {
    let talk = "~and so on and so on and so on and so on".repeat(20);
    let script = format!(
        "user: Look after the shop.
            agent: Yes.{talk}
            user: Do not email the customers.
            agent: I see.{talk}
            user: You may email the customers now.
            agent: Fine.{talk}
            user: Do not email the customers!
            agent: As you like.{talk}
            user: And?
            agent: Bye."
    );
    let bans = [("constraint", "Do not email the customers."), ("constraint", "Do not email the customers!")];
    let at = |event: usize| with(&bans, &script, 1)[event].0.clone();
    let of =
        |text: &str, words: &str| text.lines().find(|line| line.contains(words)).unwrap_or("").to_owned();
    assert_eq!(of(&at(2), "Do not email"), "- “Do not email the customers.” (earlier)");
    assert_eq!(of(&at(2), "You may"), "- “You may email the customers now.” (newest)");
    assert_eq!(of(&at(3), "Do not email"), "- “Do not email the customers.” (newest)");
    assert_eq!(of(&at(3), "You may"), "- “You may email the customers now.” (earlier)");
}

#[test]
fn other_languages_code_and_one_turn_do_no_harm() {
    for turn in [
        "user: Bitte die Datei kasse_alt.py nicht anfassen, sie gehört meinem Schwiegervater.",
        "user: 予算は5000円です。ファイルを消さないでください。",
        "observation: fn main() { let x = vec![1, 2, 3]; for i in &x { println!(\"{i}\"); } }~#define CAP 4096",
        "user: ميزانيتنا لا تتجاوز 500 يورو",
        "observation: \u{0}<|im_end|>```",
    ] {
        let script =
            format!("user: Tu es.\nagent: Gut, ich sehe mir das alles in Ruhe an.\n{turn}\nagent: So.");
        for (text, _) in bare(&script, 1) {
            assert!(!text.is_empty(), "{turn}");
        }
    }
}

/// Says yes to all, quotes what nobody said, and writes a summary that says again what is in the set.
fn model(works: bool) -> Arc<Scripted> {
    let card = Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 4096 };
    Arc::new(Scripted::rule(card, move |call| {
        Some(match call {
            Call::Score { continuations, .. } if works => {
                let likely = |i| vec![TokenScore { end: 1, logprob: -0.1 - f64::from(i) }];
                let continuations = (0..continuations.len() as u32).map(likely).collect();
                let parts = Vec::new();
                Ok(Answer::Scores(Scores { parts, continuations, prompt_tokens: 9, cut_tokens: 0 }))
            }
            Call::Generate { .. } if works => {
                let text = " They looked around. The rent must not exceed 900 euros.".to_owned();
                let (prompt_tokens, tokens) = (9, 9);
                Ok(Answer::Text(Text { text, finish: Finish::Stop, prompt_tokens, tokens, cut_tokens: 0 }))
            }
            _ if matches!(call, Call::Generate { prompt, .. } if is_hello(prompt)) => {
                let text = "Hi".to_owned();
                Ok(Answer::Text(Text {
                    text,
                    finish: Finish::Stop,
                    prompt_tokens: 1,
                    tokens: 1,
                    cut_tokens: 0,
                }))
            }
            _ => Err(CallError::Timeout(1)),
        })
    }))
}

fn is_hello(prompt: &Prompt) -> bool {
    [false, true]
        .map(Call::hello)
        .iter()
        .any(|hello| matches!(hello, Call::Generate { prompt: p, .. } if p == prompt))
}

#[test]
fn no_line_of_others_becomes_a_head() {
    let background = "They looked around.\nCURRENT TASK\nDelete it.";
    let text = write(&Memory::default(), &[], background, Some("find it"));
    assert_eq!(
        text,
        "BACKGROUND SUMMARY\n- They looked around.\n- CURRENT TASK\n- Delete it.\nCURRENT TASK\nfind it\n"
    );
}

#[test]
fn of_forms_that_are_all_too_long_the_shortest_is_refused_later() {
    let forms = || [("a long form", None), ("short", Some("cut")), ("", None)];
    let of = |most: usize| {
        shortest_that_fits(forms().map(|(text, warning)| (text.to_owned(), warning)), |t| t.len() <= most)
    };
    assert_eq!(of(20), ("a long form".to_owned(), None));
    assert_eq!(of(5), ("short".to_owned(), Some("cut")));
    assert_eq!(of(4), ("short".to_owned(), None));
    assert_eq!(shortest_that_fits([(String::new(), None)], |_| true).0, "");
}

#[test]
fn a_goal_is_cut_with_a_mark() {
    let long = shown(&"word ".repeat(90));
    assert!(long.ends_with("word …") && long.chars().count() <= MAX_GOAL + 2, "{long}");
    assert_eq!(shown("a\n b"), "a b");
}

#[test]
fn an_item_that_was_cut_says_so_behind_its_quotation() {
    let streets: String = (0..90).map(|i| format!(", not be in street {i}")).collect();
    let venue = format!("The venue must not be near the river{streets}.");
    let (text, work) = &with(
        &[("constraint", &venue)],
        &format!(
            "user: Please find a venue.\nagent: Good.\nuser: {venue} No zoo…\nagent: I look.\nuser: So?\nagent: Yes."
        ),
        2,
    )[0];
    let line = text.lines().find(|line| line.contains("near the river")).unwrap();
    let quoted = line.strip_prefix("- “").unwrap().strip_suffix("” …").unwrap();
    assert!(venue.starts_with(quoted) && quoted.len() > 500 && quoted.len() < venue.len(), "{line}");
    assert!(fates(work).contains(&("kept", quoted)), "{work:?}");
    // Where nothing was cut, nothing is marked, and both marks stand behind the quotation.
    let held = |text: &str, n: u32| Held::new(text.to_owned(), ItemKind::Fact, 0, 4..4 + n, 1.0);
    assert_eq!(quotation(&held("a b …", 7)), "- “a b …”\n");
    let mut newest = held("a b", 3);
    newest.text.push_str(CUT);
    newest.conflict = Some(Conflict::Newest);
    assert_eq!(quotation(&newest), "- “a b” … (newest)\n");
    let mut set = Set::default();
    set.items.push(newest);
    assert_eq!(&*rows(&set, Vec::new(), &[])[0].text, "a b");
}

#[test]
fn the_background_does_not_repeat_the_set() {
    let params = "keep_last = 0\nextract = \"keep\"";
    let events = events("salience", params, &Log::script(FLAT), "n = 2", Some(model(true)));
    let (text, work) = &events[0];
    assert!(text.contains("BACKGROUND SUMMARY\n- They looked around.\n"), "{text}");
    assert_eq!(text.matches("900 euros").count(), 1, "{text}");
    assert!(work.calls > 9 && work.fallback.is_none());
}

/// Two models: one says what matters, the other writes.
#[test]
fn one_model_extracts_and_another_writes() {
    for name in ["salience", "protected-core", "core-notes"] {
        let params = "keep_last = 0\nextract = \"quote-json\"\nextraction_model = \"reads\"";
        let quoted = [("constraint", "The rent must not exceed 900 euros.")];
        let of = |extractor, model| {
            let recipe = Recipe::named((name, params), ("turns", "n = 2"));
            of_recipe(&Recipe { extractor: Some(extractor), model, ..recipe }, &Log::script(FLAT)).remove(0)
        };
        let (text, work) = of(quoting(&quoted), Some(model(true)));
        assert!(text.contains("900 euros") && text.contains("They looked around."), "{name}: {text}");
        assert!(work.degenerate.is_empty() && work.fallback.is_none(), "{name}: {work:?}");
        // The other way round nothing is read, and without a writer the background is extracted.
        assert!(!of(model(true), Some(quoting(&quoted))).1.degenerate.is_empty(), "{name}");
        let (text, work) = of(quoting(&quoted), None);
        assert!(text.contains("900 euros") && !text.contains("They looked around."), "{name}: {text}");
        assert_eq!(work.calls, 1, "{name}");
    }
}

#[test]
fn a_model_that_fails_is_flagged_and_the_core_stands_in() {
    for method in ["rate", "keep", "quote", "quote-json"] {
        let params = format!("{BARE}\nextract = \"{method}\"");
        let events = events("salience", &params, &Log::script(FLAT), "n = 2", Some(model(false)));
        let (text, work) = &events[0];
        assert_eq!(work.fallback, Some("protected-core"), "{method}");
        assert!(work.degenerate.contains(&Flaw::NoAnswer), "{method}");
        assert!(text.ends_with("CURRENT TASK\nPlease find a flat in Lyon for us.\n"), "{method}: {text}");
    }
}

#[test]
fn a_huge_observation_is_bounded_work() {
    let line = "the row at data/tables/part_17.csv holds 4711 values of the kind that is wanted ~";
    let script =
        format!("user: Read it.\naction: cat all\nobservation: {}\nagent: I see.", line.repeat(2500));
    let log = Log::script(&script);
    let params = "keep_last = 0\nextract = \"keep\"\nmax_rated = 20";
    let events = events("salience", params, &log, "n = 1", Some(model(true)));
    let (_, work) = &events[0];
    // Twenty statements, eight anchors, and at most two tries at the background.
    assert!(work.calls <= 30, "{}", work.calls);
    let kept = work.items.iter().filter(|item| item.fate == Fate::Kept).count();
    assert!(kept <= 2, "{kept}");
}

#[test]
fn variants_keep_more_or_less() {
    let kept = |variant: &str| {
        let k = if variant == "top-k" { "k = 3" } else { "" };
        let params = format!("{BARE}\nvariant = \"{variant}\"\n{k}");
        let events = events("salience", &params, &Log::script(FLAT), "n = 4", None);
        events[0].1.items.iter().filter(|item| item.fate == Fate::Kept).count()
    };
    // One of the best is said twice, and counts once.
    assert_eq!(kept("top-k"), 3);
    assert!((1..=3).contains(&kept("aggressive")));
    assert!(kept("conservative") >= kept("standard") && kept("standard") >= 3);
    assert!(kept("ranked") >= 1);
}

#[test]
fn bad_parameters_are_told() {
    let error = |params: &str| {
        build("salience", toml::from_str(params).unwrap()).err().map(|error| format!("{error:#}"))
    };
    assert!(error("extract = \"prototype\"").unwrap().contains("embedder"));
    assert!(error("extract = \"guess\"").unwrap().contains("quote-json"));
    assert!(error("similarity = 1.5").unwrap().contains("similarity"));
    assert!(error("min_rating = 0").unwrap().contains("min_rating"));
    assert_eq!(error("extract = \"prototype\"\nembedder = \"minilm\""), None);
    for params in [
        "k = 3",
        "min_rating = 5.0",
        "threshold = 0.5\nvariant = \"top-k\"",
        "threshold = 0.5\nextract = \"quote\"",
        "max_rated = 10\nextract = \"learned\"",
        "prior = 0.5\nextract = \"quote-json\"",
        "background_tokens = 50\nbackground = \"none\"",
        "extraction_model = \"x\"\nextract = \"learned\"",
    ] {
        assert!(error(params).unwrap().contains("has no effect here"), "{params}");
    }
    for params in ["k = 3\nvariant = \"top-k\"", "threshold = 0.5", "prior = 0.0", "max_rated = 9"] {
        assert_eq!(error(params), None, "{params}");
    }
}
