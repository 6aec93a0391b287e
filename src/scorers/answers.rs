//! Whether a model that reads the context picks the right answer to a question about the past.
//!
//! Each choice is scored by how much likelier the context makes it: ln P(choice | context, question) - ln P(choice |
//! question), which takes off what the model would say anyway (domain-conditional PMI, Holtzman et al. 2021). Asked at the end of the
//! run, those questions of which a needed place was compressed. Chance is the mean of one over the number of choices.
//! What is beyond the window is cut, the oldest of the longest part first; `probe_cut_share` says how often.

use std::collections::BTreeMap;

use super::readers::{Readers, scored};
use super::truth::{Ground, Tally, Truth};
use super::{Entry, Rows, ratio};
use crate::context::said;
use crate::models::prompt::{Data, Prompt};
use crate::models::{Call, Model, Scores};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "probe_accuracy",
        summary: "Share of annotated questions that a model answers rightly from the context, by likelihood of the choices",
        formula: "probes whose right choice gains most from the context / probes that need a compressed place",
    },
    Entry {
        name: "probe_cut_share",
        summary: "Share of the contexts read for probe_accuracy that did not fit the model's window whole",
        formula: "contexts cut / contexts read",
    },
];

const TEMPLATE: &str = include_str!("answers.txt");

pub(super) fn score(
    truth: &Truth,
    ground: &Ground<'_>,
    readers: &Readers,
    rows: &mut Rows,
) -> anyhow::Result<()> {
    let asked = |probe: &&crate::annotations::Probe| {
        probe.needs.iter().all(|place| place.step < ground.point.until)
            && probe.needs.iter().any(|place| ground.in_scope(place.step))
            && probe.choices.len() > 1
    };
    let probes: Vec<_> = truth.annotations.probes.iter().filter(asked).collect();
    if !ground.is_end() || probes.is_empty() {
        return Ok(());
    }
    let log = ground.log;
    let all =
        |steps: &mut dyn Iterator<Item = &u32>| -> String { steps.map(|&step| said(log, step)).collect() };
    let begin = ground.point.scope.first().copied().unwrap_or(u32::MAX);
    let head = all(&mut ground.point.base.iter().filter(|step| **step < begin));
    let tail = all(&mut ground.point.base.iter().filter(|step| **step > begin));
    // In the order of a tally's contexts.
    let between = [
        ground.point.kept.iter().map(|block| block.said(log)).collect(),
        all(&mut ground.point.scope.iter()),
        String::new(),
        ground.shuffled.clone(),
    ];
    for (number, (_, model)) in readers.scorers.iter().enumerate() {
        let of = |[head, context, tail]: [&str; 3]| -> anyhow::Result<Vec<Option<Scores>>> {
            let calls = probes.iter().map(|probe| call(probe, [head, context, tail]));
            scored(&**model as &dyn Model, &calls.collect::<anyhow::Result<Vec<Call>>>()?)
        };
        let prior = of(["", "", ""])?;
        let answers: Vec<Vec<Option<Scores>>> =
            between.iter().map(|context| of([&head, context, &tail])).collect::<anyhow::Result<_>>()?;
        let (mut all, mut chance, mut cut, mut read) = (Tally::default(), 0.0, 0, 0);
        let mut by_kind: BTreeMap<&str, Tally> = BTreeMap::new();
        for (at, probe) in probes.iter().enumerate() {
            let mut right = [false; 4];
            let mut is_answered = prior[at].is_some();
            for (right, answers) in right.iter_mut().zip(&answers) {
                match (&answers[at], &prior[at]) {
                    (Some(answer), Some(prior)) => {
                        *right = choice(answer, prior) == Some(probe.answer);
                        read += 1;
                        cut += u64::from(answer.cut_tokens > 0);
                    }
                    _ => is_answered = false,
                }
            }
            // What one context could not be asked is asked of none.
            if is_answered {
                chance += 1.0 / probe.choices.len() as f64;
                all.add(right);
                by_kind.entry(&probe.kind).or_default().add(right);
            }
        }
        for stratum in readers.strata(number, &ground.stratum(None)) {
            all.push("probe_accuracy", stratum.clone(), rows);
            if let Some(row) = rows.rows.last_mut().filter(|_| all.n > 0) {
                row.chance = ratio(chance, all.n as f64);
            }
            rows.push("probe_cut_share", stratum, ratio(cut as f64, read as f64), read as f64, read);
        }
        for (kind, tally) in by_kind.iter().filter(|_| number == 0) {
            tally.push("probe_accuracy", ground.stratum(Some(("kind", kind))), rows);
        }
    }
    Ok(())
}

fn call(probe: &crate::annotations::Probe, [head, context, tail]: [&str; 3]) -> anyhow::Result<Call> {
    let vars = [
        ("head", Data::bare(head).may_cut().into()),
        ("context", Data::bare(context).may_cut().into()),
        ("tail", Data::bare(tail).may_cut().into()),
        ("question", Data::bare(&probe.question).into()),
    ];
    let continuations = probe.choices.iter().map(|choice| format!(" {choice}")).collect();
    Ok(Call::Score { prompt: Prompt::render(TEMPLATE, &vars)?, continuations })
}

/// The choice that gains most; of equal ones the first.
fn choice(answer: &Scores, prior: &Scores) -> Option<usize> {
    let sum = |tokens: &Vec<crate::models::TokenScore>| tokens.iter().map(|token| token.logprob).sum::<f64>();
    let gains: Vec<f64> =
        answer.continuations.iter().zip(&prior.continuations).map(|(a, p)| sum(a) - sum(p)).collect();
    crate::models::labels::largest(&gains)
}
