//! How alike an observation is to the recent turns: by words, on the scale of vectors, or by vectors.

use std::collections::HashMap;
use std::ops::Range;

use super::{ENDS, sorted};
use crate::context::log::Log;
use crate::models::{self, Answer, Call, Model};
use crate::text::atoms::cue_hash;
use crate::trajectory::Kind;

/// Bytes at either end of a step in which words are looked for.
const END_BYTES: usize = 2048;
/// Characters that are embedded: more than a window of 512 tokens holds.
const EMBEDDED: usize = 4000;

/// Cosines of words as sets, and of vectors of MiniLM-L6 (256 tokens), that as many pairs are below, at 10, 25, 50, 75, 90 and 95 %: 394
/// pairs of an observation, 11, 20 or 40 turns old, and the ten newest turns, of 33 logs each of SWE-agent, mini-swe-agent and Claude Code.
const CALIBRATION: [(f64, f64); 8] = [
    (0.0, 0.0),
    (0.093, 0.182),
    (0.141, 0.325),
    (0.222, 0.454),
    (0.345, 0.568),
    (0.454, 0.66),
    (0.534, 0.716),
    (1.0, 1.0),
];

/// A cosine of words on the scale of vectors.
pub(super) fn calibrated(cosine: f64) -> f64 {
    let after = CALIBRATION.partition_point(|point| point.0 <= cosine);
    let (Some(before), Some(&(to, value))) = (after.checked_sub(1), CALIBRATION.get(after)) else {
        return 1.0;
    };
    let (from, least) = CALIBRATION[before];
    least + (value - least) * (cosine - from) / (to - from)
}

/// A content word by its hash.
pub(super) type Word = u32;

/// The content words at both ends of a text, sorted, each once.
pub(super) fn words_of(text: &str) -> Vec<Word> {
    let head = text.floor_char_boundary(END_BYTES);
    let tail = text.ceil_char_boundary(text.len().saturating_sub(END_BYTES)).max(head);
    let words = |text: &'_ str| -> Vec<Word> {
        text.split(|c: char| !c.is_alphanumeric()).filter_map(cue_hash).collect()
    };
    let (head, tail) = (words(&text[..head]), words(&text[tail..]));
    let last = tail.len().saturating_sub(ENDS);
    sorted(head.into_iter().take(ENDS).chain(tail.into_iter().skip(last)).collect())
}

/// Vectors of the observations of a segment, by step, and of the recent turns, by the last of them.
pub(super) struct Vectors {
    steps: HashMap<u32, Vec<f32>>,
    recent: HashMap<u32, Vec<f32>>,
}

impl Vectors {
    pub(super) fn read(log: &Log, turns: Range<u32>, recent: u32, model: &dyn Model) -> anyhow::Result<Self> {
        let text = |step: u32| log.trajectory.steps[step as usize].text.as_str();
        let of_turn = |turn: u32| log.turns[turn as usize].steps.clone();
        let shown: Vec<u32> =
            turns.clone().flat_map(of_turn).filter(|&step| log.kind(step) == Kind::Observation).collect();
        // The newest turn first: a model reads as far as its window goes.
        let recent = |last: u32| {
            let first = (last + 1).saturating_sub(recent).max(turns.start);
            let texts = (first..last + 1).rev().flat_map(of_turn).map(text);
            texts
                .scan(0, |n, text| (std::mem::replace(n, *n + text.len()) < EMBEDDED).then_some(text))
                .collect::<Vec<_>>()
                .join("\n")
        };
        let texts = shown.iter().map(|&step| text(step).to_owned()).chain(turns.clone().map(recent));
        let embed = |text: String| Call::Embed { text: text.chars().take(EMBEDDED).collect() };
        let calls: Vec<Call> = texts.map(embed).collect();
        let vectors = models::ask(model, &calls)?.into_iter().map(|outcome| match outcome {
            Ok(Answer::Vector { values, .. }) => Some(values),
            _ => None,
        });
        let mut vectors = shown.iter().copied().chain(turns).zip(vectors);
        let known = |(at, vector): (u32, Option<Vec<f32>>)| Some((at, vector?));
        let steps = vectors.by_ref().take(shown.len()).filter_map(known).collect();
        Ok(Vectors { steps, recent: vectors.filter_map(known).collect() })
    }

    /// Of unit vectors; none where the model gave none.
    pub(super) fn similarity(&self, step: u32, last: u32) -> Option<f64> {
        let (a, b) = (self.steps.get(&step)?, self.recent.get(&last)?);
        Some(a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>().clamp(0.0, 1.0))
    }
}
