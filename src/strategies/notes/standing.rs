//! What stands in the prompt, as terms: of what is recalled only that is new which does not.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::index::bag_of;
use crate::context::{Block, Content};
use crate::strategies::extractive::Term;
use crate::strategies::{Moment, Scope};

#[derive(Default)]
pub(crate) struct Standing {
    /// Terms of the steps that stand there, by step; of what else does; and how often each does.
    steps: BTreeMap<u32, Vec<Term>>,
    written: Vec<Term>,
    counts: FxHashMap<Term, u32>,
    /// Steps that events meant to take out since the prompt was read; none where it was not edited.
    taken: Option<BTreeSet<u32>>,
}

fn step(block: &Block) -> Option<u32> {
    match block.content {
        Content::Step(step) => Some(step),
        _ => None,
    }
}

impl Standing {
    /// Tells that an event takes out what stands in a scope.
    pub(crate) fn take(&mut self, scope: &Scope<'_>) {
        let blocks = scope.context.blocks[scope.blocks.clone()].iter();
        self.taken.get_or_insert_default().extend(blocks.filter_map(step));
    }

    /// Reads what of the prompt was not read yet: a step once, what else stands there once after each event.
    pub(crate) fn read(&mut self, moment: &Moment<'_>) {
        if let Some(mut gone) = self.taken.take() {
            let blocks = &moment.context.blocks;
            // An event that was refused leaves its steps where they stood.
            blocks.iter().filter_map(step).for_each(|standing| _ = gone.remove(&standing));
            for step in gone {
                let terms = self.steps.remove(&step).unwrap_or_default();
                self.forget(&terms);
            }
            let written = std::mem::take(&mut self.written);
            self.forget(&written);
            let texts = blocks.iter().filter(|block| step(block).is_none()).map(|b| b.text(moment.log));
            self.written = texts.flat_map(|text| bag_of(&text)).map(|entry| entry.0).collect();
            self.written.iter().for_each(|term| *self.counts.entry(*term).or_default() += 1);
        }
        let newest = self.steps.last_key_value().map(|(step, _)| *step);
        for step in moment.context.blocks.iter().rev().filter_map(step) {
            if newest.is_some_and(|newest| step <= newest) {
                break;
            }
            let bag = bag_of(&moment.log.trajectory.steps[step as usize].text);
            let terms: Vec<Term> = bag.into_iter().map(|entry| entry.0).collect();
            terms.iter().for_each(|term| *self.counts.entry(*term).or_default() += 1);
            self.steps.insert(step, terms);
        }
    }

    /// Forgets that these terms stand there, once each.
    fn forget(&mut self, terms: &[Term]) {
        for term in terms {
            if let Some(count) = self.counts.get_mut(term) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(term);
                }
            }
        }
    }

    /// Of a text that was written.
    #[cfg(test)]
    pub(crate) fn of(text: &str) -> Self {
        let written: Vec<Term> = bag_of(text).into_iter().map(|entry| entry.0).collect();
        Standing { counts: written.iter().map(|term| (*term, 1)).collect(), written, ..Standing::default() }
    }

    /// Whether a term stands there.
    pub(crate) fn has(&self, term: Term) -> bool {
        self.counts.contains_key(&term)
    }

    /// Whether a step stands there whole.
    pub(crate) fn has_step(&self, step: u32) -> bool {
        self.steps.contains_key(&step)
    }
}
