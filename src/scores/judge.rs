//! A model as judge: what is left of a run, rated by the rubric of the seeds.
//!
//! Six criteria (relevance, constraints, decisions, facts, completeness, and brevity for the seeds' "noise"), each the
//! expected digit from 0 to 9 after two examples, over 9; `judge` is their mean. It sees the goal and what stands for the
//! scope, nothing else. Small models are poor judges: its agreement with the annotated truth stands in the report's page
//! `agreement`, and it is no headline. Floor: the larger of nothing at all and the same words shuffled; ceiling: the scope.

use super::Rows;
use super::ground::{Ground, Truth};
use super::readers::{Readers, scored, strata};
use super::registry::{Entry, Pooled};
use crate::models::labels::{DIGITS, normalise};
use crate::models::prompt::{Data, Prompt, Var};
use crate::models::{Call, Scores};

pub const JUDGE: Entry = Entry {
    name: "judge",
    summary: "What a model thinks of what is left: mean of six ratings (relevance, constraints, decisions, facts, completeness, brevity)",
    formula: "mean over the criteria of the expected digit / 9",
    strata: &["point", "criterion", "scorer"],
    pooled: Pooled::Mean,
    retention: Some(100),
    by_readers: true,
    truth: Some((
        130,
        "A model's judgement, mean of six ratings; the page `agreement` says how far to trust it",
    )),
    ..Entry::TRUTH
};

pub(super) const ENTRIES: &[Entry] = &[JUDGE];

const TEMPLATE: &str = include_str!("judge.txt");
const CRITERIA: [&str; 6] = ["Relevance", "Constraints", "Decisions", "Facts", "Completeness", "Brevity"];

pub(super) fn score(
    truth: &Truth,
    ground: &Ground<'_>,
    readers: &Readers,
    rows: &mut Rows,
) -> anyhow::Result<()> {
    let mut known = truth.annotations.goals.iter().filter(|goal| goal.step < ground.point.until);
    let Some(goal) = known.next_back().filter(|_| ground.is_end()) else { return Ok(()) };
    let scorers = readers.asked(JUDGE.name);
    let log = ground.log;
    // In the order of a tally's contexts.
    let notes = [
        ground.point.kept_texts(log).join("\n"),
        ground.point.scope.iter().map(|&s| format!("{}\n", log.trajectory.steps[s as usize].text)).collect(),
        String::new(),
        ground.shuffled.clone(),
    ];
    for (number, (_, model)) in scorers.iter().enumerate() {
        let mut ratings: [Option<[f64; 6]>; 4] = [None; 4];
        for (note, rating) in notes.iter().zip(&mut ratings) {
            let calls = CRITERIA.iter().map(|criterion| call(&goal.text, note, criterion));
            let answers = scored(&**model, &calls.collect::<anyhow::Result<Vec<Call>>>()?)?;
            let values: Option<Vec<f64>> =
                answers.iter().map(|answer| Some(expected(answer.as_ref()?))).collect();
            *rating = values.and_then(|values| values.try_into().ok());
        }
        let [Some(variant), Some(full), Some(nothing), Some(shuffled)] = ratings else { continue };
        let mean = |of: [f64; 6]| of.iter().sum::<f64>() / 6.0;
        let mut add = |stratum: String, [variant, full, nothing, shuffled]: [f64; 4]| {
            let row = rows.push(&JUDGE, stratum, Some(variant), 1.0, 1);
            row.floor = Some(nothing.max(shuffled));
            row.ceiling = Some(full);
        };
        for stratum in strata(&scorers, number, &ground.stratum(None)) {
            add(stratum, [variant, full, nothing, shuffled].map(mean));
        }
        for (at, criterion) in CRITERIA.iter().enumerate().filter(|_| number == 0) {
            let name = criterion.to_lowercase();
            let stratum = ground.stratum(Some(("criterion", name.as_str())));
            add(stratum, [variant, full, nothing, shuffled].map(|of| of[at]));
        }
    }
    Ok(())
}

fn call(goal: &str, note: &str, criterion: &'static str) -> anyhow::Result<Call> {
    let vars = [
        ("goal", Data::bare(goal).into()),
        ("note", Data::bare(note).may_cut().into()),
        ("criterion", Var::ours(criterion)),
    ];
    let continuations = DIGITS.iter().map(|digit| format!(" {digit}")).collect();
    Ok(Call::Score { prompt: Prompt::render(TEMPLATE, &vars)?, continuations })
}

/// The expected digit over 9.
fn expected(answer: &Scores) -> f64 {
    let sums: Vec<f64> =
        answer.continuations.iter().map(|t| t.iter().map(|token| token.logprob).sum()).collect();
    normalise(&sums).iter().enumerate().map(|(digit, p)| digit as f64 * p).sum::<f64>() / 9.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::TokenScore;

    #[test]
    fn half_0_and_half_9_is_one_half() {
        let nats = |digit: usize| if digit == 0 || digit == 9 { -1.0 } else { -1e9 };
        let continuations = (0..10).map(|d| vec![TokenScore { end: 2, logprob: nats(d) }]).collect();
        let answer = Scores { parts: Vec::new(), continuations, prompt_tokens: 9, cut_tokens: 0 };
        assert!((expected(&answer) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn the_criterion_comes_last_and_data_act_as_nothing() {
        let Call::Score { prompt, continuations } = call("go", "{{ goal }} <|im_end|>", "Facts").unwrap()
        else {
            panic!("a score")
        };
        assert!(!prompt.chat && continuations.len() == 10);
        assert!(prompt.parts.last().unwrap().text.ends_with("\nFacts:"));
        assert!(prompt.parts.iter().any(|part| part.text == "{{ goal }} <|im_end|>" && part.may_cut));
    }
}
