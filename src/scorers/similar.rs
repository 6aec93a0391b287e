//! What means the same as something annotated, though in other words: by the cosine of sentence vectors.
//!
//! A span counts as kept if a sentence of what stands for the scope is as close to it as [`SAME`] (the seeds' threshold),
//! or if the context holds it verbatim. The goal in force, where it was stated in a compressed scope (the first goal
//! stands in the head, which nothing compresses), has the largest cosine of any sentence that stands for the scope, or
//! that the user wrote outside of it. Vectors are blind to "not" and to digits: beside these scores the verbatim ones
//! say what was really kept. (Source: the seeds' semantic similarity, 0.85, and goal coherence.)

use super::readers::{Readers, embedded};
use super::truth::{Ground, SHUFFLED, Tally, Truth, VARIANT};
use super::{Entry, Rows};
use crate::features::sentences::statements;
use crate::models::Model;
use crate::trajectory::{Kind, Role};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "salience_recall_similar",
        summary: "Share of annotated spans that stand in the context, word for word or in a sentence of the same meaning",
        formula: "spans verbatim in the context, or with a sentence of cosine >= 0.85 / spans of compressed scopes",
    },
    Entry {
        name: "goal_coherence",
        summary: "How close the context still comes to the goal in force, where that was stated in a compressed scope",
        formula: "largest cosine of a sentence that stands for the scope, or of the user's outside of it, with the goal in force",
    },
];

/// From this cosine on two texts mean the same.
const SAME: f32 = 0.85;
/// Words of a piece of the shuffled text, which has no sentences.
const PIECE: usize = 15;

pub(super) fn score(
    truth: &Truth,
    ground: &Ground<'_>,
    readers: &Readers,
    rows: &mut Rows,
) -> anyhow::Result<()> {
    let Some(model) = readers.embedder.as_deref() else { return Ok(()) };
    let log = ground.log;
    let step_text = |&step: &u32| log.trajectory.steps[step as usize].text.as_str();
    let is_user = |step: &&u32| {
        log.trajectory.steps[**step as usize].role == Role::User && log.kind(**step) == Kind::Message
    };
    let salient = truth.annotations.salient.iter().zip(&truth.salient);
    let spans: Vec<_> = salient.filter(|(span, _)| ground.in_scope(span.place.step)).collect();
    let mut goals = truth.annotations.goals.iter().filter(|goal| goal.step < ground.point.until);
    let goal = goals.next_back().filter(|goal| ground.in_scope(goal.step));
    if spans.is_empty() && goal.is_none() {
        return Ok(());
    }
    let shuffled: Vec<&str> = ground.shuffled.split_whitespace().collect();
    let shuffled = shuffled.chunks(PIECE).map(|words| words.join(" ")).collect();
    let kept = sentences(ground.point.kept_texts(log).iter().map(AsRef::as_ref));
    let [kept, shuffled] = [kept, shuffled].map(|texts: Vec<String>| vectors(model, texts));
    let (kept, shuffled) = (kept?, shuffled?);

    let mut all = Tally::default();
    let texts: Vec<String> = spans.iter().map(|(span, _)| span.place.text(log).to_owned()).collect();
    for (vector, (_, words)) in embedded(model, &texts)?.iter().zip(&spans) {
        let mut held = ground.hold(words);
        if let Some(vector) = vector {
            held[VARIANT] |= closest(vector, &kept) >= SAME;
            held[SHUFFLED] |= closest(vector, &shuffled) >= SAME;
        }
        all.add(held);
    }
    all.push("salience_recall_similar", ground.stratum(None), rows);

    if let Some(goal) = goal
        && let Some(vector) = embedded(model, std::slice::from_ref(&goal.text))?.pop().flatten()
    {
        let base = vectors(model, sentences(ground.point.base.iter().filter(is_user).map(step_text)))?;
        let scope = vectors(model, sentences(ground.point.scope.iter().filter(is_user).map(step_text)))?;
        let [base, kept, shuffled, scope] =
            [base, kept, shuffled, scope].map(|texts| f64::from(closest(&vector, &texts)));
        let row = rows.push("goal_coherence", ground.stratum(None), Some(kept.max(base)), 1.0, 1);
        row.floor = Some(base.max(shuffled));
        row.ceiling = Some(scope.max(base));
    }
    Ok(())
}

/// The different sentences of some texts.
fn sentences<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut all: Vec<String> = texts
        .flat_map(|text| statements(text, false).into_iter().map(move |range| text[range].to_owned()))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn vectors(model: &dyn Model, texts: Vec<String>) -> anyhow::Result<Vec<Vec<f32>>> {
    Ok(embedded(model, &texts)?.into_iter().flatten().collect())
}

/// The largest cosine, 0 where there is nothing to compare with, at most 1.
fn closest(vector: &[f32], others: &[Vec<f32>]) -> f32 {
    let cosine = |other: &Vec<f32>| vector.iter().zip(other).map(|(a, b)| a * b).sum::<f32>();
    others.iter().map(cosine).fold(0.0, f32::max).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_of_some_vectors() {
        let others = [vec![0.6, 0.8], vec![-1.0, 0.0]];
        assert!((closest(&[1.0, 0.0], &others) - 0.6).abs() < 1e-6);
        assert_eq!(closest(&[1.0, 0.0], &[]), 0.0);
        // Never below 0: an opposite is as far as nothing.
        assert_eq!(closest(&[1.0, 0.0], &others[1..]), 0.0);
    }
}
