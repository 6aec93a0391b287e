//! What became of the annotated constraints, by a model: beside the rules, not in their place.
//!
//! Asked at the end of a run, of each constraint that [`super::outcomes`] asks for. The model sees the constraint and the
//! [`NOTES`] statements of the context that share most words, names and values with it, and says by likelihood which of five
//! answers follows; from each its mean over fixed anchors is taken. Where nothing is shared the constraint is dropped, and what
//! is kept is preserved where its words stand there, else paraphrased. It reads the whole context, copied text included, so
//! that a statement of the log that reads like another version counts as one. `constraint_outcome_agreement` says how
//! often it agrees with the rules, beside what their shares alone would give.
//!
//! Measured on `datasets/golden/constraint_pairs.toml` (`tests/llama.rs`), 139 pairs: with Qwen2.5-Coder 0.5B 0.30 come out as a
//! careful reader says (0.18 by chance, kappa 0.14), with SmolLM2 135M 0.22 (0.17, kappa 0.07); the rules, tuned on 107 of them, 125. Models of this
//! size do not compare two sentences, so that nothing should be told by it alone; a larger one may be named in `[scores]`.
//!
//! Source: DESIGN section 8, ours.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::constraints::{self, Constraint, Outcome, Prepared};
use super::ground::{Ground, Tally, Truth, VARIANT};
use super::outcomes;
use super::points::Point;
use super::readers::{Readers, strata};
use super::registry::{Better, DROP_ALL, Entry};
use super::{Rows, ratio};
use crate::models::prompt::{Data, Prompt};
use crate::models::{Call, Model, Outage, labels};
use crate::text::lists;

pub const CONSTRAINT_RETENTION_BY_MODEL: Entry = Entry {
    name: "constraint_retention_by_model",
    summary: "Share of annotated constraints that a model finds still held by the context",
    formula: "constraints kept, by the likeliest of five verdicts / constraints in force that were stated in compressed scopes",
    strata: &["point", "scorer"],
    ..Entry::TRUTH
};

pub const CONSTRAINT_OUTCOME_BY_MODEL: Entry = Entry {
    name: "constraint_outcome_by_model",
    summary: "Share of annotated constraints with each outcome, by a model",
    formula: "constraints with this outcome / constraints in force that were stated in compressed scopes",
    better: Better::Neither,
    strata: &["point", "outcome"],
    floor: DROP_ALL,
    ceiling: "`full`",
    ..Entry::SHARE
};

pub const CONSTRAINT_OUTCOME_AGREEMENT: Entry = Entry {
    name: "constraint_outcome_agreement",
    summary: "How often model and rules tell the same outcome of a constraint; chance: by the shares of both",
    formula: "constraints with the same outcome by both / constraints asked for",
    strata: &["point", "scorer"],
    ..Entry::SHARE
};

pub(super) const ENTRIES: &[Entry] =
    &[CONSTRAINT_RETENTION_BY_MODEL, CONSTRAINT_OUTCOME_BY_MODEL, CONSTRAINT_OUTCOME_AGREEMENT];

/// Statements of a context that the model sees.
const NOTES: usize = 3;
const TEMPLATE: &str = include_str!("outcomes_by_model.txt");

/// What the model may answer.
static ANSWERS: LazyLock<Answers> =
    LazyLock::new(|| lists::read(include_str!("../data/words/told_outcomes.toml")));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answers {
    answer: Vec<Answer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    outcome: Outcome,
    label: String,
    /// A question of this answer, beside which those of a log are judged.
    requirement: String,
    notes: String,
}

/// A constraint, what it is recognised by, and the texts that it is looked for in.
pub type Asked<'a> = (&'a str, &'a Constraint, [&'a Prepared<'a>; 2]);

/// What a model says became of each constraint in its text; none where it has no answer.
///
/// # Errors
/// The model answers nothing any more.
pub fn by_model(model: &dyn Model, asked: &[Asked<'_>]) -> anyhow::Result<Vec<Option<Outcome>>> {
    let notes: Vec<Vec<&str>> =
        asked.iter().map(|(_, rules, texts)| constraints::nearest(rules, texts, NOTES)).collect();
    let prompt = |requirement: &str, notes: &str| {
        let vars = [
            ("requirement", Data::bare(requirement).may_cut().into()),
            ("notes", Data::bare(notes).may_cut().into()),
        ];
        Prompt::render(TEMPLATE, &vars)
    };
    let answers = &ANSWERS.answer;
    let about = || asked.iter().zip(&notes).filter(|(_, notes)| !notes.is_empty());
    let prompts: Vec<Prompt> = about()
        .map(|((text, ..), notes)| prompt(&one_line(text), &one_line(&notes.join(" "))))
        .collect::<Result<_, _>>()?;
    let anchors: Vec<Prompt> =
        answers.iter().map(|of| prompt(&of.requirement, &of.notes)).collect::<Result<_, _>>()?;
    let labels: Vec<&str> = answers.iter().map(|of| of.label.as_str()).collect();
    let told = labels::classify(model, &prompts, &anchors, &labels);
    let call = Call::Score { prompt: Prompt::default(), continuations: Vec::new() };
    if let Some(Err(error)) = told.iter().find(|outcome| outcome.is_err()).filter(|_| !model.is_alive(&call))
    {
        return Err(Outage { model: model.card().name.clone(), error: error.clone() }.into());
    }
    let mut told = told.into_iter();
    let outcome = |((_, rules, texts), notes): (&Asked<'_>, &Vec<&str>)| {
        if notes.is_empty() {
            return Some(Outcome::Dropped);
        }
        Some(match answers[told.next()?.ok()?.0].outcome {
            Outcome::Paraphrased if texts.iter().any(|text| constraints::is_copied(rules, text)) => {
                Outcome::Preserved
            }
            outcome => outcome,
        })
    };
    Ok(asked.iter().zip(&notes).map(outcome).collect())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn score(
    truth: &Truth,
    ground: &Ground<'_>,
    readers: &Readers,
    rows: &mut Rows,
) -> anyhow::Result<()> {
    let asked: Vec<_> = outcomes::asked(truth, ground).collect();
    let scorers = readers.asked("outcomes");
    if !ground.is_end() || asked.is_empty() || scorers.is_empty() {
        return Ok(());
    }
    let log = ground.log;
    let base = Prepared::new(Point::texts(log, &ground.point.base));
    // In the order of a tally's contexts.
    let kept = ground.point.kept_texts(log);
    let between = [
        Prepared::new(kept.iter().map(|text| &**text)),
        Prepared::new(Point::texts(log, &ground.point.scope)),
        Prepared::new([]),
        Prepared::new([ground.shuffled.as_str()]),
    ];
    let questions: Vec<Asked<'_>> = asked
        .iter()
        .flat_map(|(annotated, known)| {
            between.each_ref().map(|text| (annotated.text.as_str(), &known.rules, [&base, text]))
        })
        .collect();
    let rules = outcomes::by_rules(truth, ground, &asked);
    for (number, (_, model)) in scorers.iter().enumerate() {
        let told = by_model(&**model, &questions)?;
        let (mut held, mut agreed) = (Tally::default(), 0);
        let mut each: BTreeMap<&str, Tally> = BTreeMap::new();
        let (mut by_rules, mut by_model) = ([0u64; 6], [0u64; 6]);
        for (told, rules) in told.chunks_exact(4).zip(&rules) {
            // What one context could not be asked is asked of none.
            let &[Some(a), Some(b), Some(c), Some(d)] = told else { continue };
            held.add([a, b, c, d].map(Outcome::held));
            for outcome in Outcome::ALL {
                each.entry(outcome.name()).or_default().add([a, b, c, d].map(|told| told == outcome));
            }
            agreed += u64::from(a == rules[VARIANT]);
            by_model[a as usize] += 1;
            by_rules[rules[VARIANT] as usize] += 1;
        }
        let n = held.n as f64;
        for stratum in strata(&scorers, number, &ground.stratum(None)) {
            held.push(&CONSTRAINT_RETENTION_BY_MODEL, stratum.clone(), rows);
            if held.n > 0 {
                let row =
                    rows.push(&CONSTRAINT_OUTCOME_AGREEMENT, stratum, ratio(agreed as f64, n), n, held.n);
                row.chance = ratio(by_model.iter().zip(by_rules).map(|(a, b)| (a * b) as f64).sum(), n * n);
            }
        }
        for (outcome, tally) in each.iter().filter(|_| number == 0) {
            tally.push(&CONSTRAINT_OUTCOME_BY_MODEL, ground.stratum(Some(("outcome", outcome))), rows);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::readers::tests::reader;
    use super::*;

    #[test]
    fn what_shares_nothing_is_dropped_and_what_is_kept_is_copied_or_paraphrased() {
        let readers = reader();
        let model = &*readers.scorers[0].1;
        let text = "Spend at most $500 on the trip";
        let rules = Constraint::new(text, "budget");
        let contexts =
            ["The sky is blue.", "On the trip: spend at most $500!", "Well. Spend at most $500 on the trip."];
        let contexts = contexts.map(|context| Prepared::new([context]));
        let nothing = Prepared::new([]);
        let asked: Vec<Asked<'_>> =
            contexts.iter().map(|context| (text, &rules, [&nothing, context])).collect();
        // The scripted model has read all verdicts before and prefers none, so that the first is taken.
        let told = by_model(model, &asked).unwrap();
        assert_eq!(told, [Some(Outcome::Dropped), Some(Outcome::Paraphrased), Some(Outcome::Preserved)]);
        let notes = constraints::nearest(&rules, &[&nothing, &contexts[2]], NOTES);
        assert_eq!(notes, ["Spend at most $500 on the trip"]);
    }
}
