//! Keeps the atoms of the scope without their prose, newest first, each once: a compressor that
//! knows nothing and yet wins any test that only looks for literals.

use rustc_hash::FxHashSet;

use super::{Budget, Entry, Env, Scope, Strategy, put, spans_in};
use crate::context::Edit;
use crate::context::log::{AtomId, Log};
use crate::text::tokens::Tokenizer;

pub(super) const ENTRY: Entry = Entry {
    name: "atom-bag",
    summary: "Keep the scope's atoms without prose, newest first.",
    params: Budget::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(AtomBag(Budget::of(params)?))),
};

struct AtomBag(Budget);

impl Strategy for AtomBag {
    fn is_control(&self) -> bool {
        true
    }

    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let spans = spans_in(scope);
        let atoms = newest_first(scope.log, &spans);
        let kept = bag(scope.log, env.tokenizer, atoms, self.0.tokens(scope));
        Ok(put(scope, text(scope.log, &kept)))
    }
}

/// The atoms of these spans (in order of the text), newest first.
pub fn newest_first(log: &Log, spans: &[u32]) -> impl Iterator<Item = AtomId> {
    spans.iter().rev().flat_map(|&span| log.mentions_in(span).iter().rev().map(|mention| mention.so_far))
}

/// The first of these atoms, each once, up to a number of tokens.
pub fn bag(
    log: &Log,
    tokenizer: &Tokenizer,
    atoms: impl Iterator<Item = AtomId>,
    budget: u32,
) -> Vec<AtomId> {
    let (mut left, mut seen) = (budget, FxHashSet::default());
    atoms
        .filter(|&atom| seen.insert(atom))
        .map_while(|atom| {
            let tokens = tokenizer.count_line(&format!(" {}", log.atom(atom).text));
            left = left.checked_sub(tokens)?;
            Some(atom)
        })
        .collect()
}

/// What a bag of atoms looks like.
pub fn text(log: &Log, bag: &[AtomId]) -> String {
    bag.iter().flat_map(|&atom| [" ", log.atom(atom).text]).collect()
}
