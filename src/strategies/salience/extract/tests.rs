//! Tests of `extract`.

use super::*;
use crate::models::scripted::Scripted;
use crate::models::{Card, Finish, Scores, TokenScore};
use crate::text::tokens::Tokenizer;
use rand::SeedableRng as _;

const TASK: Task<'_> = Task { goal: "find it", limits: "none" };

fn card() -> Card {
    Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 4096 }
}

fn candidate(source: Source, text: &str) -> Candidate<'_> {
    Candidate { step: 1, bytes: 0..text.len() as u32, text, source }
}

/// Likes statements with a digit.
fn judge_of_digits(method: Method) -> Vec<f64> {
    let model = Scripted::rule(card(), |call| {
        let Call::Score { prompt, continuations } = call else { return None };
        let statement = &prompt.parts[5].text;
        let likes = statement.bytes().any(|b| b.is_ascii_digit());
        let last = continuations.len() - 1;
        let logprob = |i: usize| match (continuations.len(), likes) {
            (2, true) => [-0.1, -3.0][i],
            (2, false) => [-3.0, -0.1][i],
            (_, true) => {
                if i == last {
                    -0.1
                } else {
                    -5.0
                }
            }
            (_, false) => {
                if i == 0 {
                    -0.1
                } else {
                    -5.0
                }
            }
        };
        let continuations = (0..=last).map(|i| vec![TokenScore { end: 2, logprob: logprob(i) }]).collect();
        Some(Ok(Answer::Scores(Scores { parts: vec![], continuations, prompt_tokens: 30, cut_tokens: 0 })))
    });
    let tokenizer = Tokenizer::load("o200k").unwrap();
    let mut env = Env::new(&tokenizer, rand_chacha::ChaCha8Rng::seed_from_u64(1), Some(&model));
    let all = [candidate(Source::User, "the limit is 500"), candidate(Source::Agent, "well then")];
    let judged = judge(method, &TASK, &all.iter().collect::<Vec<_>>(), &mut env).unwrap();
    let Judged::Scores(scores) = judged else { panic!("{judged:?}") };
    assert_eq!(env.work.calls, 10);
    scores
}

#[test]
fn judged_by_how_it_stands_to_the_others() {
    for method in [Method::Rate, Method::Keep] {
        let scores = judge_of_digits(method);
        // Three of ten have a digit (two anchors): the mean is 0.3 of the way, the deviation sqrt(0.3 * 0.7).
        assert!((scores[0] - 0.7 / 0.21f64.sqrt()).abs() < 1e-6, "{scores:?}");
        assert!((scores[1] + 0.3 / 0.21f64.sqrt()).abs() < 1e-6, "{scores:?}");
    }
}

#[test]
fn the_shortlist_leaves_out_noise_and_is_bounded() {
    let rating = |score| Rating { score, kind: ItemKind::Fact };
    let ratings = [0.9, 0.001, 0.2, 0.9, 0.3].map(rating);
    assert_eq!(shortlist(&ratings, 10), [0, 2, 3, 4]);
    assert_eq!(shortlist(&ratings, 3), [0, 3, 4]);
}

#[test]
fn lists_are_read_whatever_their_form() {
    let answer =
        " user: the limit is 500\n- \"no pets\"\n2) tool: at 10.0.0.1\n\n12 monkeys\n- the limit is 500\n";
    let texts: Vec<String> = read_list(answer).into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["the limit is 500", "\"no pets\"", "at 10.0.0.1", "12 monkeys"]);
}

#[test]
fn broken_json_is_read_up_to_where_it_breaks() {
    let answer = r#"[{"type": "constraint", "quote": "at most \"500\""}, {"quote": "b c"}, {"type": "fact", "quote": "bro"#;
    assert_eq!(
        read_json(answer),
        [("at most \"500\"".to_owned(), Some(ItemKind::Constraint)), ("b c".to_owned(), None)]
    );
    assert!(read_json("no json").is_empty() && read_json("{{{").is_empty());
}

#[test]
fn quotations_are_located_or_counted_as_not_found() {
    let text = "The limit for this is 500 euros. We met in the hall.";
    let all = [candidate(Source::User, &text[..32])];
    let answer = " The limit for this is 500 euros.\n- nobody said such a thing\n- limit for it is 500 euros";
    let model = Scripted::list(
        card(),
        [Ok(Answer::Text(crate::models::Text {
            text: answer.to_owned(),
            finish: crate::models::Finish::Stop,
            prompt_tokens: 9,
            tokens: 9,
            cut_tokens: 0,
        }))],
    );
    let tokenizer = Tokenizer::load("o200k").unwrap();
    let mut env = Env::new(&tokenizer, rand_chacha::ChaCha8Rng::seed_from_u64(1), Some(&model));
    let mut texts = Texts::new(vec![(1, text)], &all);
    let shortlist: Vec<&Candidate<'_>> = all.iter().collect();
    let quoted = quote((false, 500), &TASK, &shortlist, &mut texts, &mut env).unwrap().unwrap();
    let places: Vec<_> = quoted.picked.iter().map(|p| (p.bytes.clone(), p.is_repaired)).collect();
    assert_eq!(places, [(0..32, false), (0..32, true)]);
    assert_eq!(quoted.not_found, [("nobody said such a thing".to_owned(), ItemKind::Fact)]);
}

#[test]
fn a_loop_is_asked_for_once_more() {
    let text = "The limit for this is 500 euros. We met in the hall.";
    let all = [candidate(Source::User, &text[..32])];
    let answer = |text: &str, finish| {
        let (prompt_tokens, tokens, cut_tokens) = (9, 9, 0);
        Ok(Answer::Text(crate::models::Text {
            text: text.to_owned(),
            finish,
            prompt_tokens,
            tokens,
            cut_tokens,
        }))
    };
    for (second, n_picked, flags) in [
        (answer("The limit for this is 500 euros.", Finish::Stop), 1, &[Flaw::Loop][..]),
        (answer(" \n", Finish::Stop), 0, &[Flaw::Loop, Flaw::Empty]),
    ] {
        let first = answer("The limit for this is 500 euros. 500 500 500", Finish::Loop);
        let model = Scripted::list(card(), [first, second]);
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let mut env = Env::new(&tokenizer, rand_chacha::ChaCha8Rng::seed_from_u64(1), Some(&model));
        let mut texts = Texts::new(vec![(1, text)], &all);
        let shortlist: Vec<&Candidate<'_>> = all.iter().collect();
        let quoted = quote((false, 500), &TASK, &shortlist, &mut texts, &mut env).unwrap();
        assert_eq!(quoted.map_or(0, |quoted| quoted.picked.len()), n_picked);
        assert_eq!((env.work.calls, &env.work.degenerate[..]), (2, flags));
    }
}

#[test]
fn equal_scores_say_nothing() {
    let mut scores = [2.0, 2.0];
    standardise(&mut scores);
    assert_eq!(scores, [0.0, 0.0]);
    standardise(&mut []);
}

#[test]
fn examples_are_read() {
    let kept = PROTOTYPES.lines().filter(|l| l.starts_with("keep ")).count();
    let dropped = PROTOTYPES.lines().filter(|l| l.starts_with("drop ")).count();
    assert_eq!((kept, dropped), (18, 18));
}

/// A server that only chats has no likelihoods and knows no grammar: JSON is asked for in words.
#[test]
fn a_server_that_only_chats_quotes() {
    let text = "The limit for this is 500 euros. We met in the hall.";
    let all = [candidate(Source::User, &text[..32])];
    let model = Scripted::rule(card(), |call| {
        let is_plain = matches!(call, Call::Generate { grammar: None, .. });
        let answer =
            "Here it is: [{\"type\": \"constraint\", \"quote\": \"The limit for this is 500 euros.\"}]";
        Some(match is_plain {
            true => Ok(Answer::Text(crate::models::Text {
                text: answer.to_owned(),
                finish: Finish::Stop,
                prompt_tokens: 9,
                tokens: 9,
                cut_tokens: 0,
            })),
            false => Err(CallError::Unsupported("keep to a grammar".to_owned())),
        })
    });
    let tokenizer = Tokenizer::load("o200k").unwrap();
    let mut env = Env::new(&tokenizer, rand_chacha::ChaCha8Rng::seed_from_u64(1), Some(&model));
    let shortlist: Vec<&Candidate<'_>> = all.iter().collect();
    assert_eq!(judge(Method::Keep, &TASK, &shortlist, &mut env).unwrap(), Judged::Cannot);
    let mut texts = Texts::new(vec![(1, text)], &all);
    let quoted = quote((true, 500), &TASK, &shortlist, &mut texts, &mut env).unwrap().unwrap();
    assert_eq!(
        quoted.picked.iter().map(|p| (p.bytes.clone(), p.kind)).collect::<Vec<_>>(),
        [(0..32, ItemKind::Constraint)]
    );
    assert!(env.work.degenerate.is_empty(), "{:?}", env.work.degenerate);
}
