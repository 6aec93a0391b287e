//! What is counted of features: tokens, spans and atoms by kind.

use rayon::prelude::*;

use super::kept::Kept;
use super::{Annotated, Known, Steps};
use crate::store::{FeatureCount, FeatureRow};
use crate::text::atoms;
use crate::text::tokens::Tokenizer;
use crate::trajectory::usage::{Call, calls};

/// Where the features of a whole row group are there already: its number and the calls of each trajectory. Of its rows only what is
/// counted is read.
pub(super) fn same_group(
    group: &[Steps],
    kept: &Kept,
    tokenizer: &Tokenizer,
    (known, annotated): (&mut Known, &mut Annotated),
) -> Option<(usize, Vec<Vec<Call>>)> {
    let (number, counts) = kept.group(group)?;
    let mut rest = counts.as_slice();
    let parts: Vec<&[FeatureCount]> = group
        .iter()
        .map(|(_, steps)| {
            let (part, behind) = rest.split_at(steps.len());
            rest = behind;
            part
        })
        .collect();
    for ((id, _), part) in group.iter().zip(&parts) {
        let counted = part.iter().map(|row| (row.tokens, row.span_end.len(), row.atom_kind.as_slice()));
        count(id, counted, known, annotated);
    }
    let calls = group.par_iter().zip(parts).map(|((_, steps), part)| {
        let tokens: Vec<u32> = part.iter().map(|row| row.tokens).collect();
        calls(steps, &tokens, |text| tokenizer.count(text))
    });
    Some((number, calls.collect()))
}

pub(super) fn count_rows(rows: &[FeatureRow], known: &mut Known, annotated: &mut Annotated) {
    let Some(first) = rows.first() else { return };
    let counted = rows.iter().map(|row| (row.tokens, row.span_end.len(), row.atom_kind.as_slice()));
    count(&first.trajectory, counted, known, annotated);
}

/// Counts steps of a trajectory: tokens, spans, and the kinds of its atoms.
fn count<'r>(
    id: &str,
    steps: impl Iterator<Item = (u32, usize, &'r [u8])>,
    known: &mut Known,
    annotated: &mut Annotated,
) {
    let mut all = 0;
    for (tokens, n_spans, kinds) in steps {
        all += u64::from(tokens);
        annotated.n_steps += 1;
        annotated.n_spans += n_spans as u64;
        for &kind in kinds {
            if let Some(n) = atoms::NAMES.get(kind as usize).and_then(|name| annotated.n_atoms.get_mut(*name))
            {
                *n += 1;
            }
        }
    }
    annotated.n_tokens += all;
    if let Some(&place) = known.places.get(id) {
        known.candidates[place].tokens += all;
    }
}
