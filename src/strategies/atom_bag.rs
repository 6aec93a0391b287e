//! Keeps the atoms of the scope without their prose, newest first, each once: a compressor that
//! knows nothing and yet wins any test that only looks for literals.

use std::collections::HashSet;

use super::{Budget, Entry, Env, Scope, Strategy, put, spans_in};
use crate::context::Edit;
use crate::features::tokens::Tokenizer;
use crate::log::Log;

pub(super) const ENTRY: Entry = Entry {
    name: "atom-bag",
    summary: "Keep the scope's atoms without prose, newest first.",
    params: Budget::PARAMS,
    needs_model: false,
    build: |params| Ok(Box::new(AtomBag(Budget::of(params)?))),
};

struct AtomBag(Budget);

impl Strategy for AtomBag {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let text = bag(scope.log, env.tokenizer, &spans_in(scope), self.0.tokens(scope));
        Ok(put(scope, text))
    }
}

/// The atoms of these spans (in order of the text), newest first, up to a number of tokens.
pub fn bag(log: &Log, tokenizer: &Tokenizer, spans: &[u32], budget: u32) -> String {
    let mut text = String::new();
    let mut left = budget;
    let mut seen = HashSet::new();
    'spans: for &span in spans.iter().rev() {
        for mention in log.mentions_in(span).iter().rev() {
            if !seen.insert(mention.atom) {
                continue;
            }
            let atom = format!(" {}", log.atoms[mention.atom as usize].text);
            let tokens = tokenizer.count(&atom);
            if tokens > left {
                break 'spans;
            }
            left -= tokens;
            text.push_str(&atom);
        }
    }
    text
}
