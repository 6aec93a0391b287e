//! `trajpress models call`: calls of other programs, answered in their order.

use std::io::Read as _;

use anyhow::Context as _;
use serde::Serialize;

use crate::cli::using::{Caching, role};
use crate::cli::{ExitStatus, Output, count, print, threads};
use crate::models::catalogue::Catalogue;
use crate::models::{Answer, Call, Outcome, ask};
use crate::progress::{Meter, Unit};
use crate::text::escape;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A model, the path of a GGUF, or http://HOST:PORT#MODEL
    model: String,
    /// Contexts, each with a thread of its own; 0 is one a core (a server has its own)
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    cache: Caching,
}

/// Answers come out after so many calls: what a killed command paid for can be read.
const GROUP: usize = 16;

/// A line of the output.
#[derive(Serialize)]
#[serde(untagged)]
enum Line<'a> {
    Answer(&'a Answer),
    Error { error: String },
}

pub(super) fn run(args: &Args, catalogue: Catalogue, output: Output) -> anyhow::Result<ExitStatus> {
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text).context("cannot read standard input")?;
    let calls = read(&text)?;
    let Some(first) = calls.first() else { return Ok(ExitStatus::Done) };
    let model = args.cache.opener(catalogue, threads(args.threads))?.open(&args.model, role(first))?;
    let meter = Meter::new("call", Unit::Calls, calls.len() as u64, output.quiet);
    let mut failed = 0;
    for group in calls.chunks(GROUP) {
        let outcomes = ask(&model, group)?;
        print(&outcomes.iter().map(line).collect::<serde_json::Result<String>>()?)?;
        failed += outcomes.iter().filter(|outcome| outcome.is_err()).count() as u64;
        meter.add(group.len() as u64);
    }
    meter.finish();
    if failed == 0 {
        return Ok(ExitStatus::Done);
    }
    crate::cli::tell(&format!("{} without an answer", count(failed, "call")));
    Ok(ExitStatus::Failed)
}

/// The calls of a text, one a line; empty lines are none.
fn read(text: &str) -> anyhow::Result<Vec<Call>> {
    let is_call = |(_, line): &(usize, &str)| !line.trim().is_empty();
    let call = |(n, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            let said = error.to_string();
            // It counts lines within a line of ours.
            let what = said.rsplit_once(" at line ").map_or(said.as_str(), |(what, _)| what);
            anyhow::anyhow!(
                "standard input, line {}, column {}: {what}\nhint: `trajpress models call --help` shows what calls look like",
                n + 1,
                error.column()
            )
        })
    };
    text.lines().enumerate().filter(is_call).map(call).collect()
}

fn line(outcome: &Outcome) -> serde_json::Result<String> {
    let line = match outcome {
        Ok(answer) => Line::Answer(answer),
        Err(error) => Line::Error { error: error.to_string() },
    };
    Ok(escape::json_line(&line)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::scripted::Scripted;
    use crate::models::{Card, Model as _, Part, Prompt, Scores, TokenScore};

    #[test]
    fn what_may_be_left_out_of_a_call_is_left_out() {
        let calls = read(
            r#"{"score": {"prompt": {"parts": [{"text": "a"}]}, "continuations": [" yes"]}}

               {"tokenize": {"text": "b"}}
               {"generate": {"prompt": {"chat": true, "system": "s", "parts": [{"text": "c", "may_cut": true}]}, "max_tokens": 3}}"#,
        );
        let part = |text: &str| Part { text: text.to_owned(), ..Part::default() };
        let prompt = Prompt { parts: vec![part("a")], ..Prompt::default() };
        let chat = Prompt {
            chat: true,
            system: "s".to_owned(),
            parts: vec![Part { may_cut: true, ..part("c") }],
            prefill: String::new(),
        };
        let expected = [
            Call::Score { prompt, continuations: vec![" yes".to_owned()] },
            Call::Tokenize { text: "b".to_owned() },
            Call::Generate { prompt: chat, max_tokens: 3, grammar: None, stop: Vec::new(), sampling: None },
        ];
        assert_eq!(calls.unwrap(), expected);
    }

    #[test]
    fn a_line_that_is_no_call_is_told_with_its_place() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        let wrong = error("{\"embed\": {\"text\": \"a\"}}\n{\"ask\": 1}");
        assert!(wrong.starts_with("standard input, line 2, column 6: unknown variant `ask`"), "{wrong}");
        let spelled = error(r#"{"score": {"prompt": {"part": []}}}"#);
        assert!(spelled.contains("line 1, ") && spelled.contains("unknown field `part`"), "{spelled}");
        assert!(error("\n\n{").starts_with("standard input, line 3, column 1: EOF"), "{}", error("\n\n{"));
    }

    #[test]
    fn answers_and_errors_are_a_line_each() {
        let card = Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 100 };
        let scores = Scores {
            parts: Vec::new(),
            continuations: vec![vec![TokenScore { end: 4, logprob: -0.25 }]],
            prompt_tokens: 9,
            cut_tokens: 0,
        };
        let model = Scripted::list(card, [Ok(Answer::Scores(scores)), Ok(Answer::Tokens(vec![7, 8]))]);
        let calls = read("{\"tokenize\": {\"text\": \"a\"}}\n".repeat(3).as_str()).unwrap();
        let lines: Vec<String> = model.answer(&calls).iter().map(|o| line(o).unwrap()).collect();
        let expected = [
            r#"{"scores":{"parts":[],"continuations":[[{"end":4,"logprob":-0.25}]],"prompt_tokens":9,"cut_tokens":0}}"#,
            r#"{"tokens":[7,8]}"#,
        ];
        assert_eq!(lines[..2].iter().map(|l| l.trim_end()).collect::<Vec<_>>(), expected);
        assert!(lines[2].starts_with(r#"{"error":"the script has no answer"#), "{}", lines[2]);
    }
}
