//! Whether a message gives the agent another task, by a model.
//!
//! Few-shot, without instructions: how much likelier the model answers yes than no, and whether that is nearer to what it
//! answers to examples that give another task than to what it answers to some that do not. Small models prefer one of the
//! two answers whatever they are asked (contextual calibration: Zhao et al. 2021, arXiv 2102.09690).

use super::extract::{log_odds, one_line};
use crate::models::Call;
use crate::models::prompt::{Data, Prompt, TemplateError};
use crate::strategies::{Env, Flaw};

const TASKS: &str = include_str!("tasks.txt");

/// Messages whose answers are known, each with the task before it.
const ANCHORS: [(bool, &str, &str); 8] = [
    (
        true,
        "Write a report on the lifts.",
        "Leave the lifts, please. I want you to plan the move to Graz now.",
    ),
    (true, "Repair the login page.", "Something more urgent: the nightly export fails, find out why."),
    (
        true,
        "Find a hotel in Oslo.",
        "I have thought about it, I will stay at home. Could you cancel my train ticket?",
    ),
    (true, "Compare the two pumps.", "The pumps can wait. Draft a letter to the tenants, will you?"),
    (false, "Write a report on the lifts.", "Good. Could you keep it under ten pages, please?"),
    (false, "Repair the login page.", "Did you run the tests? Please do that again after each edit."),
    (false, "Find a hotel in Oslo.", "Yes, that one. It should have breakfast, I forgot to say."),
    (false, "Compare the two pumps.", "I need the numbers in litres, and please show me a first draft."),
];

/// Which of these messages give another task than the first; none where the model did not answer.
pub(super) fn judge(task: &str, messages: &[&str], env: &mut Env<'_>) -> anyhow::Result<Option<Vec<bool>>> {
    if messages.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let anchors = ANCHORS.iter().map(|&(_, task, message)| (task, message));
    let calls = anchors
        .chain(messages.iter().map(|message| (task, *message)))
        .map(|(task, message)| {
            let (task, message) = (one_line(task), one_line(message));
            let vars = [("task", Data::bare(&task).into()), ("message", Data::bare(&message).into())];
            let prompt = Prompt::render(TASKS, &vars)?;
            Ok(Call::Score { prompt, continuations: vec![" yes".to_owned(), " no".to_owned()] })
        })
        .collect::<Result<Vec<Call>, TemplateError>>()?;
    let odds: Option<Vec<f64>> = env.ask(&calls)?.iter().map(log_odds).collect();
    let Some(odds) = odds else {
        env.work.degenerate.push(Flaw::NoAnswer);
        return Ok(None);
    };
    let (known, odds) = odds.split_at(ANCHORS.len());
    let mean = |changes: bool| {
        let of = ANCHORS.iter().zip(known).filter(|(anchor, _)| anchor.0 == changes);
        let (n, sum) = of.fold((0.0, 0.0), |(n, sum), (_, odds)| (n + 1.0, sum + odds));
        sum / n
    };
    let between = (mean(true) + mean(false)) / 2.0;
    Ok(Some(odds.iter().map(|odds| *odds > between).collect()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::context::log::Log;
    use crate::models::scripted::Scripted;
    use crate::models::{Answer, CallError, Card, Finish, Model, Scores, Text, TokenScore};
    use crate::strategies::salience::tests::events;

    /// Prefers yes throughout, and a little more where a message gives another task.
    fn model(works: bool) -> Arc<dyn Model> {
        let card = Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 4096 };
        Arc::new(Scripted::rule(card, move |call| {
            let Call::Score { prompt, .. } = call else {
                // It is there, whatever it can.
                let (text, finish) = ("Hi".to_owned(), Finish::Stop);
                let (prompt_tokens, tokens, cut_tokens) = (1, 1, 0);
                return Some(Ok(Answer::Text(Text { text, finish, prompt_tokens, tokens, cut_tokens })));
            };
            if !works {
                return Some(Err(CallError::Failed("no".to_owned())));
            }
            let prompt = format!("{prompt:?}");
            let changes = prompt.contains("a map of the zoo")
                || ANCHORS.iter().any(|(changes, _, message)| *changes && prompt.contains(message));
            let yes = if changes { -0.1 } else { -0.2 };
            let continuations =
                [yes, -3.0].map(|logprob| vec![TokenScore { end: 1, logprob }]).into_iter().collect();
            let parts = Vec::new();
            Some(Ok(Answer::Scores(Scores { parts, continuations, prompt_tokens: 9, cut_tokens: 0 })))
        }))
    }

    const TALK: &str = "user: Please write a forecast of the visitors.
        agent: I start.
        user: Could you use the numbers of 2019 for that?
        agent: The table of that year lies beside the others, and it has a line for each pool and each week, which is what the forecast is made of.
        user: Please draw a map of the zoo for the new guide.
        agent: Gladly.
        user: Good, thank you.
        agent: So.";

    #[test]
    fn a_model_finds_a_task_that_no_odds_tell() {
        let log = Log::script(TALK);
        for name in ["salience", "protected-core"] {
            let origin = if name == "salience" { "goals" } else { "source" };
            let now = |works| {
                let params = format!(
                    "keep_last = 0\nextract = \"learned\"\nthreshold = 1.0\nbackground = \"none\"\n{origin} = \"model\""
                );
                let (text, work) = events(name, &params, &log, "n = 3", Some(model(works))).remove(0);
                let current = text.rfind("CURRENT").map_or("", |at| &text[at..]);
                (current.contains("map of the zoo"), work)
            };
            let (is_map, work) = now(true);
            assert!(is_map, "{name}");
            // The anchors, and what was said after the first message.
            assert_eq!(work.calls, ANCHORS.len() as u32 + 3);
            let (_, work) = now(false);
            assert_eq!(work.degenerate, [Flaw::NoAnswer]);
        }
    }

    #[test]
    fn each_message_is_judged_once() {
        let log = Log::script(TALK);
        let params = "keep_last = 0\nextract = \"learned\"\nbackground = \"none\"\ngoals = \"model\"";
        let calls: Vec<u32> = events("salience", params, &log, "n = 1", Some(model(true)))
            .iter()
            .map(|(_, work)| work.calls)
            .collect();
        let judged: u32 = calls.iter().map(|calls| calls.saturating_sub(ANCHORS.len() as u32)).sum();
        assert_eq!(judged, 3, "{calls:?}");
    }
}
