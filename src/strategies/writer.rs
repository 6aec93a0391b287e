//! Texts that a model writes for an event: what is no such text is told, asked for once more, and replaced.
//!
//! An output is *degenerate* if it is empty, loops or ends in a circle, is longer than its source, refuses, replies to the user of the log
//! in place of writing about them, or cannot be read as what was asked for. It is flagged, asked for once more (or as often as the caller says) with a seed of its own
//! (temperature 0.7), and if that fails too the caller's fallback stands in: for a summary, the extractive one.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{Env, Flaw, extractive};
use crate::models::loops::ends_in_circle;
use crate::models::{Answer, Call, CallError, Finish, Prompt, Sampling, Text};
use crate::text::lists::{self, Signs};

/// The name of the fallback that [`summarise`] uses.
pub(super) const FALLBACK: &str = "extractive";
/// How often a text is asked for, where the caller does not say.
const TRIES: u32 = 2;
static WORDS: LazyLock<Words> = LazyLock::new(|| lists::read(include_str!("../data/words/replies.en.toml")));

/// The file says what each is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    refusals: Signs,
    replies: Signs,
    offers: Signs,
}

/// Tokens of a text, at least: fewer hold no sentence.
pub(super) const LEAST_TOKENS: u32 = 10;

/// Times that a loop came, one after the other, before it is one, and characters of all of them together at least: as
/// the local engine has it (64 tokens).
const LOOP: (usize, usize) = (4, 256);
/// The same at the end of a text that was cut off at its limit, which left no room for more. (Of 490 such texts of small
/// models one in ten ends in a sentence or two that have come three times, and not four.)
const CUT_LOOP: (usize, usize) = (3, 128);
/// Longest loop that is told, in characters: the 128 tokens of the local engine.
const LOOP_PERIOD: usize = 512;

/// Refuses a limit of tokens under which no text is left.
pub(super) fn check_tokens(name: &str, tokens: u32) -> anyhow::Result<()> {
    anyhow::ensure!(
        tokens >= LEAST_TOKENS,
        "parameter `{name}` must be at least {LEAST_TOKENS}\nhint: fewer tokens hold no sentence"
    );
    Ok(())
}

/// Refuses a prompt that asks for a summary in no number of sentences.
pub(super) fn check_sentences(sentences: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        !sentences.trim().is_empty(),
        "parameter `sentences` must not be empty\nhint: it says how many the prompt asks for, as in \"3 to 4\""
    );
    Ok(())
}

/// A summary of these texts in about so many tokens at most: by the variant's model, asked with the prompt, or extracted
/// where there is no model or it gave none.
///
/// # Errors
/// A prompt that cannot be rendered, a model that answers nothing any more.
pub(super) fn summarise(
    texts: &[String],
    max_tokens: u32,
    env: &mut Env<'_>,
    prompt: impl FnOnce() -> anyhow::Result<Prompt>,
) -> anyhow::Result<String> {
    if env.model.is_some() {
        let tokens: u32 = texts.iter().map(|text| env.tokenizer.count(text)).sum();
        if let Some(text) = write(prompt()?, None, max_tokens, tokens, env)? {
            return Ok(text);
        }
        env.work.fallback = Some(FALLBACK);
    }
    Ok(extractive::summary(texts, env.tokenizer.count_up_to(texts, max_tokens), env.tokenizer))
}

/// A text by the variant's model about a source of so many tokens, in the form of the grammar (GBNF) if there is one;
/// none if it gave none twice.
///
/// # Errors
/// The variant has no model, or one that answers nothing any more.
pub(super) fn write(
    prompt: Prompt,
    grammar: Option<String>,
    max_tokens: u32,
    source_tokens: u32,
    env: &mut Env<'_>,
) -> anyhow::Result<Option<String>> {
    write_as(prompt, grammar, max_tokens, source_tokens, env, |text| Some(text.to_owned()))
}

/// As [`write`], and what `read` makes of the text without the blanks around it; a text that it cannot read is degenerate.
///
/// # Errors
/// As [`write`].
pub(super) fn write_as<T>(
    prompt: Prompt,
    grammar: Option<String>,
    max_tokens: u32,
    source_tokens: u32,
    env: &mut Env<'_>,
    read: impl Fn(&str) -> Option<T>,
) -> anyhow::Result<Option<T>> {
    let call = Call::Generate { prompt, max_tokens, grammar, stop: Vec::new(), sampling: None };
    tried(call, source_tokens, TRIES, env, read)
}

/// As [`write`], without a grammar, and asked for so often at most.
///
/// # Errors
/// As [`write`].
pub(super) fn write_within(
    tries: u32,
    prompt: Prompt,
    max_tokens: u32,
    source_tokens: u32,
    env: &mut Env<'_>,
) -> anyhow::Result<Option<String>> {
    let call = Call::Generate { prompt, max_tokens, grammar: None, stop: Vec::new(), sampling: None };
    tried(call, source_tokens, tries, env, |text| Some(text.to_owned()))
}

fn tried<T>(
    mut call: Call,
    source_tokens: u32,
    tries: u32,
    env: &mut Env<'_>,
    read: impl Fn(&str) -> Option<T>,
) -> anyhow::Result<Option<T>> {
    for attempt in 0..tries {
        if attempt > 0 {
            reseed(&mut call, env);
        }
        match env.ask(std::slice::from_ref(&call))?.pop() {
            Some(Ok(Answer::Text(text))) => {
                let flag = degenerate(&text, env.tokenizer.count(&text.text), source_tokens);
                match flag.map_or_else(|| read(text.text.trim()), |_| None) {
                    Some(written) => return Ok(Some(written)),
                    None => env.work.degenerate.push(flag.unwrap_or(Flaw::NotInForm)),
                }
            }
            Some(Err(error)) => {
                tracing::debug!("no text: {error}");
                env.work.degenerate.push(Flaw::NoAnswer);
                // Another seed changes nothing here.
                if matches!(
                    error,
                    CallError::Timeout(_) | CallError::TooLong { .. } | CallError::Unsupported(_)
                ) {
                    break;
                }
            }
            other => anyhow::bail!("asked for a text, was given {other:?}"),
        }
    }
    Ok(None)
}

/// Makes a call one that is asked with a seed of its own, drawn from those of the event.
pub(super) fn reseed(call: &mut Call, env: &mut Env<'_>) {
    if let Call::Generate { sampling, .. } = call {
        let seed = rand::RngExt::random(&mut env.rng);
        *sampling = Some(Sampling { temperature: 0.7, top_p: 0.95, seed });
    }
}

/// Whether a text loops: of local models the engine tells, which stops there; a server's go on to their limit.
pub(super) fn loops(text: &Text) -> bool {
    let least = if text.finish == Finish::Length { CUT_LOOP } else { LOOP };
    text.finish == Finish::Loop || ends_in_loop(without_numbers(text.text.trim()).trim(), least)
}

/// Why a generated text of so many tokens says nothing about a source of so many.
fn degenerate(text: &Text, tokens: u32, source: u32) -> Option<Flaw> {
    let lower = text.text.trim().to_lowercase().replace('\u{2019}', "'");
    match lower.as_str() {
        "" => Some(Flaw::Empty),
        _ if text.finish == Finish::Loop => Some(Flaw::Loop),
        _ if tokens > source => Some(Flaw::Longer),
        lower if WORDS.refusals.fit(lower) => Some(Flaw::Refusal),
        lower if WORDS.replies.fit(lower) || WORDS.offers.fit(lower) => Some(Flaw::Reply),
        _ if loops(text) || ends_in_circle(&text.text) => Some(Flaw::Loop),
        _ => None,
    }
}

/// A text without the numbers of its lists, under which one sentence may come again and again.
fn without_numbers(text: &str) -> String {
    let bare = |line: &str| {
        let line = line.trim_start();
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        // The last number may have been cut off before its dot.
        let is_numbered = rest.len() < line.len() && (rest.is_empty() || rest.starts_with(['.', ')']));
        if is_numbered { rest.get(1..).unwrap_or("").to_owned() } else { line.to_owned() }
    };
    text.lines().map(bare).collect::<Vec<_>>().join("\n")
}

/// Whether the end of a text repeats itself, as the local engine tells it of tokens: it came so many times, the last of
/// which may be cut, and is so many characters long in all.
fn ends_in_loop(text: &str, (times, chars): (usize, usize)) -> bool {
    let end: Vec<char> = text.chars().rev().take(times * LOOP_PERIOD).collect();
    (1..=LOOP_PERIOD).any(|period| {
        let all = (times * period).max(chars);
        all <= end.len() && (period..all).all(|at| end[at] == end[at - period])
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rand::SeedableRng as _;

    use super::super::{ALL, Entry};
    use super::*;
    use crate::models::scripted::Scripted;
    use crate::models::{Card, Model};
    use crate::text::tokens::Tokenizer;

    fn text(text: &str, finish: Finish) -> Text {
        Text { text: text.to_owned(), finish, prompt_tokens: 10, tokens: 5, cut_tokens: 0 }
    }

    #[test]
    fn what_is_no_text_about_its_source() {
        let flag = |t: &str, finish| degenerate(&text(t, finish), 9, 10);
        assert_eq!(flag(" \n", Finish::Stop), Some(Flaw::Empty));
        assert_eq!(flag("a a a a", Finish::Loop), Some(Flaw::Loop));
        assert_eq!(degenerate(&text("much", Finish::Length), 101, 100), Some(Flaw::Longer));
        assert_eq!(flag("I’m sorry, but I can’t help.", Finish::Stop), Some(Flaw::Refusal));
        assert_eq!(flag("Thank you for the log! What next?", Finish::Stop), Some(Flaw::Reply));
        assert_eq!(flag("It passed. Let me know if you need more.", Finish::Stop), Some(Flaw::Reply));
        assert_eq!(flag("The agent fixed it.", Finish::Stop), None);
        assert_eq!(flag("The user said hello and was sorry.", Finish::Stop), None);
        assert_eq!(flag(&"on and ".repeat(40), Finish::Length), Some(Flaw::Loop));
    }

    #[test]
    fn the_end_of_a_text_tells_of_a_loop() {
        // 36 times 7 characters and 4 more are 256; one less is none.
        let ends_in_loop = |text: &str| ends_in_loop(text, LOOP);
        let round = "on and ".repeat(36) + "on a";
        assert!(ends_in_loop(&round) && !ends_in_loop(&round[1..]));
        assert!(ends_in_loop(&format!("It broke. {round}")) && !ends_in_loop(&format!("{round}. It broke.")));
        // What is 100 characters long must come four times.
        let long: String = (100..125).map(|n| format!("{n} ")).collect();
        assert_eq!(long.len(), 100);
        assert!(ends_in_loop(&long.repeat(4)) && !ends_in_loop(&long.repeat(3)));
        // The longest that is told has 512 characters.
        let longest: String = (100..228).map(|n| format!("{n} ")).collect();
        assert!(ends_in_loop(&longest.repeat(4)) && !ends_in_loop(&format!("{longest}é").repeat(4)));
        assert!(!ends_in_loop("") && !ends_in_loop("no"));
        // One that was cut off at its limit had no room for a fourth time.
        let cut = |t: &str, finish| loops(&text(t, finish));
        let three = long.repeat(3) + "100";
        assert!(cut(&three, Finish::Length) && !cut(&three, Finish::Stop));
        // The same point again and again under new numbers is one, too; points that differ are none.
        let list = |point: &dyn Fn(usize) -> String| -> String {
            (1..12).map(|n| format!("{n}. {}\n", point(n))).collect()
        };
        assert!(cut(&list(&|_| "The user may delete the project.".to_owned()), Finish::Stop));
        assert!(cut(&(list(&|_| "Recommendations of the report".to_owned()) + "12"), Finish::Length));
        assert!(!cut(&list(&|n| format!("The test {n} of the project passes.")), Finish::Length));
        assert!(!cut(&long.repeat(2), Finish::Length) && !cut(&"on and ".repeat(18), Finish::Length));
    }

    fn model(answers: &[&str]) -> Arc<dyn Model> {
        let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
        let card = Card { name: "test".to_owned(), identity: "test".to_owned(), window: 4096 };
        Arc::new(Scripted::rule(card, move |call| {
            let Call::Generate { sampling, .. } = call else { return None };
            let answer = &answers[usize::from(sampling.is_some())];
            Some(Ok(Answer::Text(text(answer, Finish::Stop))))
        }))
    }

    fn summary(answers: &[&str]) -> (String, crate::strategies::Work) {
        let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
        let source = "The build is broken because of src/a.py and nothing else at all.".to_owned();
        summary_of(answers.try_into().unwrap(), &[source])
    }

    fn summary_of(answers: [String; 2], texts: &[String]) -> (String, crate::strategies::Work) {
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let model = model(&answers.each_ref().map(String::as_str));
        let mut env = Env::new(&tokenizer, rand_chacha::ChaCha8Rng::seed_from_u64(1), Some(&*model));
        let text = summarise(texts, 100, &mut env, || Ok(Prompt::default())).unwrap();
        (text, env.work)
    }

    #[test]
    fn a_degenerate_answer_is_asked_for_once_more_and_then_extracted() {
        let (text, work) = summary(&["It broke.", "unused"]);
        assert_eq!((text.as_str(), work.calls, work.fallback), ("It broke.", 1, None));
        let (text, work) = summary(&["Sorry, no.", "It broke."]);
        assert_eq!((text.as_str(), work.calls, work.fallback), ("It broke.", 2, None));
        assert_eq!(work.degenerate, [Flaw::Refusal]);
        let (text, work) = summary(&["Sorry, no.", ""]);
        assert_eq!(text, "The build is broken because of src/a.py and nothing else at all.");
        assert_eq!((work.calls, work.fallback), (2, Some("extractive")));
        assert_eq!(work.degenerate, [Flaw::Refusal, Flaw::Empty]);
        // Two sentences in turn, and one in which a number changes: neither is an exact repetition.
        let (text, work) = summary_of(
            [
                "The next question is how to do it. The answer is that the parser has to do it.\n".repeat(4),
                (1..9)
                    .map(|n| {
                        format!(
                            "In step {n} the agent was asked to read the report and to find errors in it. "
                        )
                    })
                    .collect(),
            ],
            &["The build is broken because of src/a.py and nothing else at all. ".repeat(20)],
        );
        assert!(text.starts_with("The build is broken") && !text.contains("question"), "{text}");
        assert_eq!((work.calls, work.fallback), (2, Some("extractive")));
        assert_eq!(work.degenerate, [Flaw::Loop, Flaw::Loop]);
    }

    #[test]
    fn limits_that_leave_no_text_are_told() {
        let error = |name: &str, params: &str| {
            let built = crate::strategies::build(name, toml::from_str(params).unwrap());
            built.err().map(|error| format!("{error:#}"))
        };
        let having = |param: &'static str| {
            let has = move |e: &&Entry| e.params.iter().any(|p| p.name == param);
            ALL.iter().filter(has).map(|e| e.name)
        };
        // (Of these two it is no limit of a text, but of what is left.)
        for name in having("max_tokens").filter(|name| !["prune-importance", "tri-level"].contains(name)) {
            for tokens in [0, 1, 9] {
                let error = error(name, &format!("max_tokens = {tokens}")).unwrap();
                assert!(error.contains("`max_tokens` must be at least 10\nhint: "), "{name}: {error}");
            }
            assert_eq!(error(name, "max_tokens = 10"), None);
        }
        for name in having("sentences") {
            for sentences in ["", " "] {
                let error = error(name, &format!("sentences = \"{sentences}\"")).unwrap();
                assert!(error.contains("`sentences` must not be empty\nhint: "), "{name}: {error}");
            }
            assert_eq!(error(name, "sentences = \"one\""), None);
        }
    }

    #[test]
    fn what_cannot_be_read_is_asked_for_once_more() {
        let number = |answers| {
            let (tokenizer, model) = (Tokenizer::load("o200k").unwrap(), model(answers));
            let mut env = Env::new(&tokenizer, rand_chacha::ChaCha8Rng::seed_from_u64(1), Some(&*model));
            let read = |text: &str| text.parse::<u32>().ok();
            let number = write_as(Prompt::default(), None, 100, 100, &mut env, read).unwrap();
            (number, env.work.calls, env.work.degenerate)
        };
        assert_eq!(number(&["12", "unused"]), (Some(12), 1, vec![]));
        assert_eq!(number(&["1 2", " 13 "]), (Some(13), 2, vec![Flaw::NotInForm]));
        assert_eq!(number(&["1 2", ""]), (None, 2, vec![Flaw::NotInForm, Flaw::Empty]));
    }
}
