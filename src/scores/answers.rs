//! Whether a model that reads the context picks the right answer to a question about the past.
//!
//! The choice is taken that is likeliest as the answer, by the sum over its tokens: ln P(choice | context, question). What the model
//! would say without the context is not taken off (domain-conditional PMI, Holtzman et al. 2021): the choices are names
//! and values that stand in the log, and on 123 probes of annotated talks with everything in sight PMI chose worse by each of
//! three readers (Qwen2.5-Coder 0.5B 0.48 beside 0.63, Gemma 3 270M 0.40 and 0.51, SmolLM2 135M 0.35 and 0.41; with nothing
//! in sight 0.36 and 0.37, 0.33 and 0.30, 0.34 and 0.34). `probe_probability` is the share of the right choice in the probability
//! of all: it moves where an answer becomes likelier and is still not the first. Asked at the end of the
//! run, those questions of which a needed place was compressed. Chance is the mean of one over the number of choices.
//! What is beyond the window is cut, the oldest of the longest part first; `probe_cut_share` says how often.

use std::collections::BTreeMap;

use super::ground::{Ground, Tally, Truth};
use super::readers::{Readers, scored, strata};
use super::registry::{Better, Entry};
use super::{Rows, ratio};
use crate::context::said;
use crate::models::prompt::{Data, Prompt};
use crate::models::{Call, Model, Scores, TokenScore, labels};

pub const PROBE_ACCURACY: Entry = Entry {
    name: "probe_accuracy",
    summary: "Share of annotated questions that a model answers rightly from the context, by likelihood of the choices",
    formula: "probes whose right choice is the likeliest / probes that need a compressed place",
    strata: &["point", "kind", "scorer"],
    retention: Some(40),
    by_readers: true,
    truth: Some((60, "Probes answered by a model that reads the context")),
    ..Entry::TRUTH
};

pub const PROBE_PROBABILITY: Entry = Entry {
    name: "probe_probability",
    summary: "How likely the right answers to annotated questions are to a model that reads the context, among the choices",
    formula: "mean over probes of P(right choice) / sum of P over the choices",
    strata: &["point", "scorer"],
    retention: Some(50),
    by_readers: true,
    truth: Some((70, "How likely that model finds the right answers, among the choices")),
    ..Entry::TRUTH
};

pub const PROBE_CUT_SHARE: Entry = Entry {
    name: "probe_cut_share",
    summary: "Share of the contexts read for probe_accuracy that did not fit the model's window whole",
    formula: "contexts cut / contexts read",
    better: Better::Lower,
    strata: &["point", "scorer"],
    ..Entry::SHARE
};

pub(super) const ENTRIES: &[Entry] = &[PROBE_ACCURACY, PROBE_PROBABILITY, PROBE_CUT_SHARE];

const TEMPLATE: &str = include_str!("answers.txt");

pub(super) fn score(
    truth: &Truth,
    ground: &Ground<'_>,
    readers: &Readers,
    rows: &mut Rows,
) -> anyhow::Result<()> {
    let asked = |probe: &&crate::context::annotations::Probe| {
        probe.needs.iter().all(|place| place.step < ground.point.until)
            && probe.needs.iter().any(|place| ground.in_scope(place.step))
            && probe.choices.len() > 1
    };
    let probes: Vec<_> = truth.annotations.probes.iter().filter(asked).collect();
    let scorers = readers.asked("probes");
    if !ground.is_end() || probes.is_empty() || scorers.is_empty() {
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
    for (number, (_, model)) in scorers.iter().enumerate() {
        let of = |[head, context, tail]: [&str; 3]| -> anyhow::Result<Vec<Option<Scores>>> {
            let calls = probes.iter().map(|probe| call(probe, [head, context, tail]));
            scored(&**model as &dyn Model, &calls.collect::<anyhow::Result<Vec<Call>>>()?)
        };
        let [a, b, c, d] = between.each_ref().map(|context| of([&head, context, &tail]));
        let answers = [a?, b?, c?, d?];
        let (mut all, mut chance, mut cut, mut read) = (Tally::default(), 0.0, 0, 0);
        let mut sums = [0.0; 4];
        let mut by_kind: BTreeMap<&str, Tally> = BTreeMap::new();
        for (at, probe) in probes.iter().enumerate() {
            let told = answers.each_ref().map(|answers| answers[at].as_ref());
            read += told.iter().flatten().count() as u64;
            cut += told.iter().flatten().filter(|answer| answer.cut_tokens > 0).count() as u64;
            // What one context could not be asked is asked of none.
            let [Some(a), Some(b), Some(c), Some(d)] = told else { continue };
            let shares = [a, b, c, d].map(shares);
            let right = shares.each_ref().map(|shares| labels::largest(shares) == Some(probe.answer));
            chance += 1.0 / probe.choices.len() as f64;
            all.add(right);
            by_kind.entry(&probe.kind).or_default().add(right);
            for (sum, shares) in sums.iter_mut().zip(&shares) {
                *sum += shares.get(probe.answer).copied().unwrap_or(0.0);
            }
        }
        for stratum in strata(&scorers, number, &ground.stratum(None)) {
            all.push(&PROBE_ACCURACY, stratum.clone(), rows);
            if let Some(row) = rows.rows.last_mut().filter(|_| all.n > 0) {
                row.chance = ratio(chance, all.n as f64);
                let n = all.n as f64;
                let [variant, full, nothing, shuffled] = sums.map(|sum| sum / n);
                let row = rows.push(&PROBE_PROBABILITY, stratum.clone(), Some(variant), n, all.n);
                row.floor = Some(nothing.max(shuffled));
                row.ceiling = Some(full);
                row.chance = ratio(chance, n);
            }
            rows.push(&PROBE_CUT_SHARE, stratum, ratio(cut as f64, read as f64), read as f64, read);
        }
        for (kind, tally) in by_kind.iter().filter(|_| number == 0) {
            tally.push(&PROBE_ACCURACY, ground.stratum(Some(("kind", kind))), rows);
        }
    }
    Ok(())
}

fn call(
    probe: &crate::context::annotations::Probe,
    [head, context, tail]: [&str; 3],
) -> anyhow::Result<Call> {
    let vars = [
        ("head", Data::bare(head).may_cut().into()),
        ("context", Data::bare(context).may_cut().into()),
        ("tail", Data::bare(tail).may_cut().into()),
        ("question", Data::bare(&probe.question).into()),
    ];
    let continuations = probe.choices.iter().map(|choice| format!(" {choice}")).collect();
    Ok(Call::Score { prompt: Prompt::render(TEMPLATE, &vars)?, continuations })
}

/// The share of each choice in the probability of all.
fn shares(answer: &Scores) -> Vec<f64> {
    let sum = |tokens: &Vec<TokenScore>| tokens.iter().map(|token| token.logprob).sum();
    labels::normalise(&answer.continuations.iter().map(sum).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tokens at half a nat each are as good as one at a nat; a nat more is e times as likely.
    #[test]
    fn a_choice_has_its_share() {
        let nats = |values: &[f64]| values.iter().map(|&logprob| TokenScore { end: 0, logprob }).collect();
        let continuations = vec![nats(&[-1.0]), nats(&[-0.5, -0.5]), nats(&[-2.0])];
        let answer = Scores { parts: Vec::new(), continuations, prompt_tokens: 9, cut_tokens: 0 };
        let e = std::f64::consts::E;
        let expected = [e / (2.0 * e + 1.0), e / (2.0 * e + 1.0), 1.0 / (2.0 * e + 1.0)];
        for (share, expected) in shares(&answer).iter().zip(expected) {
            assert!((share - expected).abs() < 1e-12);
        }
        // Of equal ones the first.
        assert_eq!(labels::largest(&shares(&answer)), Some(0));
    }
}
