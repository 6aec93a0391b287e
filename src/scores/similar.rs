//! What means the same as something annotated, though in other words: by the cosine of sentence vectors.
//!
//! A span counts as kept if a sentence of what stands for the scope is as close to it as [`SAME`] (the seeds' threshold),
//! or if the context holds it verbatim. For precision spans and sentences are paired one to one, as many as can be, so
//! that neither ten sentences that say the same nor one that is close to ten spans count ten times. The goal in force,
//! where it was stated in a compressed scope (the first goal stands in the head, which nothing compresses), has the
//! largest cosine of any sentence that stands for the scope, or that the user wrote outside of it. Vectors are blind to
//! "not" and to digits: beside these scores the verbatim ones
//! say what was really kept. (Source: the seeds' semantic similarity, 0.85, and goal coherence; pairs by augmenting
//! paths, Kuhn 1955.)

use std::collections::BTreeMap;

use super::Rows;
use super::ground::{Ground, SHUFFLED, Tally, Truth, VARIANT};
use super::readers::{Readers, embedded};
use super::registry::{Entry, Pooled, Scale, Unit};
use crate::models::Model;
use crate::text::runs::Runs;
use crate::text::sentences::statements;
use crate::trajectory::{Kind, Role};

pub const SALIENCE_RECALL_SIMILAR: Entry = Entry {
    name: "salience_recall_similar",
    summary: "Share of annotated spans that stand in the context, word for word or in a sentence of the same meaning",
    formula: "spans verbatim in the context, or with a sentence of cosine >= 0.85 / spans of compressed scopes",
    strata: &["point", "type"],
    truth: Some((80, "Spans in the context, in the same or other words (cosine of at least 0.85)")),
    ..Entry::TRUTH
};

pub const SALIENCE_PRECISION_SIMILAR: Entry = Entry {
    name: "salience_precision_similar",
    summary: "Share of the different sentences kept for compressed scopes that say what annotated spans say",
    formula: "pairs of a kept sentence and a span that it holds verbatim or with cosine >= 0.85, one to one / kept sentences; floor: the same of the scope itself",
    floor: "the scope itself",
    ceiling: "1",
    truth: Some((
        90,
        "Sentences kept that say what such spans say, one to one; floor: the scope's own sentences",
    )),
    ..Entry::TRUTH
};

pub const SALIENCE_F1_SIMILAR: Entry = Entry {
    name: "salience_f1_similar",
    summary: "Harmonic mean of the shares of kept sentences and of annotated spans that can be paired one to one by meaning",
    formula: "2 P R / (P + R), R: pairs / spans of compressed scopes; 0 where nothing was kept; floor: drop-all (0), ceiling: 1",
    floor: "0",
    ceiling: "1",
    pooled: Pooled::Mean,
    truth: Some((100, "F1 of spans and kept sentences, paired one to one by meaning")),
    ..Entry::TRUTH
};

pub const GOAL_COHERENCE: Entry = Entry {
    name: "goal_coherence",
    summary: "How close the context still comes to the goal in force, where that was stated in a compressed scope",
    formula: "largest cosine of a sentence that stands for the scope, or of the user's outside of it, with the goal in force",
    unit: Unit::Cosine,
    pooled: Pooled::Mean,
    scale: Scale::Score,
    retention: Some(90),
    truth: Some((110, "Goal coherence: the goal in force, where it was stated in what is compressed")),
    ..Entry::TRUTH
};

pub(super) const ENTRIES: &[Entry] =
    &[SALIENCE_RECALL_SIMILAR, SALIENCE_PRECISION_SIMILAR, SALIENCE_F1_SIMILAR, GOAL_COHERENCE];

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
    let kept = Sentences::of(model, sentences(ground.point.kept_texts(log).iter().map(AsRef::as_ref)))?;
    let shuffled = Sentences::of(model, shuffled)?;
    if !spans.is_empty() {
        let texts: Vec<String> = spans.iter().map(|(span, _)| span.place.text(log).to_owned()).collect();
        let mut all = Tally::default();
        let mut by_type: BTreeMap<&str, Tally> = BTreeMap::new();
        let mut wanted: Vec<Wanted> = Vec::new();
        for (vector, (span, words)) in embedded(model, &texts)?.into_iter().zip(&spans) {
            let mut held = ground.hold(words);
            if let Some(vector) = &vector {
                held[VARIANT] |= kept.closest(vector) >= SAME;
                held[SHUFFLED] |= shuffled.closest(vector) >= SAME;
            }
            all.add(held);
            by_type.entry(&span.kind).or_default().add(held);
            wanted.push((words, vector));
        }
        all.push(&SALIENCE_RECALL_SIMILAR, ground.stratum(None), rows);
        if ground.is_end() {
            for (kind, tally) in by_type {
                tally.push(&SALIENCE_RECALL_SIMILAR, ground.stratum(Some(("type", kind))), rows);
            }
        }
        let scope = Sentences::of(model, sentences(ground.point.scope.iter().map(step_text)))?;
        let (pairs, n) = (kept.pairs(&wanted), kept.texts.len());
        let precision = super::ratio(pairs as f64, n as f64);
        let row = rows.push(&SALIENCE_PRECISION_SIMILAR, ground.stratum(None), precision, n as f64, n as u64);
        row.floor = super::ratio(scope.pairs(&wanted) as f64, scope.texts.len() as f64);
        row.ceiling = Some(1.0);
        let f1 = 2.0 * pairs as f64 / (n + wanted.len()) as f64;
        let row = rows.push(&SALIENCE_F1_SIMILAR, ground.stratum(None), Some(f1), 1.0, all.n);
        row.floor = Some(0.0);
        row.ceiling = Some(1.0);
    }

    if let Some(goal) = goal
        && let Some(vector) = embedded(model, std::slice::from_ref(&goal.text))?.pop().flatten()
    {
        let base = Sentences::of(model, sentences(ground.point.base.iter().filter(is_user).map(step_text)))?;
        let scope =
            Sentences::of(model, sentences(ground.point.scope.iter().filter(is_user).map(step_text)))?;
        let [base, kept, shuffled, scope] =
            [base, kept, shuffled, scope].map(|texts| f64::from(texts.closest(&vector)));
        let row = rows.push(&GOAL_COHERENCE, ground.stratum(None), Some(kept.max(base)), 1.0, 1);
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

/// The words of an annotated span, and its vector if it could be read.
type Wanted<'a> = (&'a [u64], Option<Vec<f32>>);

/// Sentences with their vectors; none for one that could not be read.
struct Sentences {
    texts: Vec<String>,
    vectors: Vec<Option<Vec<f32>>>,
}

impl Sentences {
    fn of(model: &dyn Model, texts: Vec<String>) -> anyhow::Result<Self> {
        let vectors = embedded(model, &texts)?;
        Ok(Sentences { texts, vectors })
    }

    /// The largest cosine, 0 where there is nothing to compare with, at most 1.
    fn closest(&self, vector: &[f32]) -> f32 {
        self.vectors.iter().flatten().map(|other| cosine(vector, other)).fold(0.0, f32::max).min(1.0)
    }

    /// How many of these and of some spans can be paired, one to one, by what they say.
    fn pairs(&self, spans: &[Wanted<'_>]) -> usize {
        let fits = |(text, vector): (&String, &Option<Vec<f32>>)| -> Vec<usize> {
            let words = Runs::new([text]);
            let says = |(run, other): &Wanted<'_>| {
                let close = vector.as_ref().zip(other.as_ref()).is_some_and(|(a, b)| cosine(a, b) >= SAME);
                close || words.hold(run)
            };
            (0..spans.len()).filter(|&span| says(&spans[span])).collect()
        };
        matched(&self.texts.iter().zip(&self.vectors).map(fits).collect::<Vec<_>>(), spans.len())
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The largest number of pairs, one to one, of those on the left with the ones on the right that fit each of them.
fn matched(fitting: &[Vec<usize>], n_right: usize) -> usize {
    /// Finds a partner for one, if need be by finding others for those that have theirs.
    fn settle(one: usize, fitting: &[Vec<usize>], tried: &mut [bool], taken: &mut [Option<usize>]) -> bool {
        fitting[one].iter().any(|&right| {
            if std::mem::replace(&mut tried[right], true) {
                return false;
            }
            let free = taken[right].is_none_or(|other| settle(other, fitting, tried, taken));
            if free {
                taken[right] = Some(one);
            }
            free
        })
    }
    let mut taken = vec![None; n_right];
    (0..fitting.len()).filter(|&one| settle(one, fitting, &mut vec![false; n_right], &mut taken)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_of_some_vectors() {
        let of = |vectors: &[[f32; 2]]| Sentences {
            texts: vectors.iter().map(|_| String::new()).collect(),
            vectors: vectors.iter().map(|v| Some(v.to_vec())).collect(),
        };
        assert!((of(&[[0.6, 0.8], [-1.0, 0.0]]).closest(&[1.0, 0.0]) - 0.6).abs() < 1e-6);
        assert_eq!(of(&[]).closest(&[1.0, 0.0]), 0.0);
        // Never below 0: an opposite is as far as nothing.
        assert_eq!(of(&[[-1.0, 0.0]]).closest(&[1.0, 0.0]), 0.0);
    }

    #[test]
    fn pairs_are_one_to_one_and_as_many_as_can_be() {
        // Both fit the first, one of them the second, too: whoever comes first, there are two pairs.
        assert_eq!(matched(&[vec![0, 1], vec![0]], 2), 2);
        assert_eq!(matched(&[vec![0], vec![0, 1]], 2), 2);
        // A chain in which all have to move.
        assert_eq!(matched(&[vec![0, 1], vec![1, 2], vec![2, 3], vec![0], vec![1]], 4), 4);
        // Three that say the same are one.
        assert_eq!(matched(&[vec![0], vec![0], vec![0]], 2), 1);
        // One that says it all is one.
        assert_eq!(matched(&[vec![0, 1, 2], vec![]], 3), 1);
        assert_eq!(matched(&[], 3), 0);
    }
}
